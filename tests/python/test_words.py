"""Words that the glossary replaces are in no document, message, name or comment.

``python tests/python/test_words.py`` prints what is left of them, by file.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "src", "include", "python", "bench", "examples")
TEXTS = {".c", ".cpp", ".cu", ".cuh", ".def", ".hpp", ".in", ".md", ".py", ".pyi", ".sh", ".txt"}
HEADING = "## Words that are not used"

# Where some are still there, and which. Only for as long as that is so.
LEFT = {
    "CONTRIBUTING.md": "by the processor",
    "docs/reference/command-line.md": "asks, the warnings tell, a warning tells",
    "docs/reference/methods.md": "asks, the warnings tell, a warning tells",
    "src/krylov/cycle.hpp": "asks",
    "src/krylov/deep_pipelined_cg.hpp": "a claim, too_bold, asks",
    "src/krylov/lockstep.hpp": "asks",
    "src/krylov/method_choice.hpp": "asks",
    "src/krylov/methods/bicgstab.hpp": "rung",
    "src/krylov/methods/ca_bicgstab.hpp": "too_bold, in_vain",
    "src/krylov/methods/ca_gmres.hpp": "Outcome::claims, too_bold, told",
    "src/krylov/methods/cg.hpp": "goes_on",
    "src/krylov/methods/gmres.hpp": "Outcome::claims",
    "src/krylov/methods/minres.hpp": "Outcome::claims, asks",
    "src/krylov/methods/pipelined_cg.hpp": "asks",
    "src/krylov/methods/pipelined_gmres.hpp": "rung",
    "src/krylov/safeguards/allowance.hpp": "told",
    "src/krylov/safeguards/best.hpp": "a claim, Outcome::claims",
    "src/krylov/safeguards/block_step.hpp": "in_vain",
    "src/krylov/safeguards/fallbacks.hpp": "too_bold, ladder",
    "src/krylov/safeguards/null_vector.hpp": "asks",
    "src/krylov/safeguards/replacement.hpp": "rung, ladder",
    "src/krylov/solve_impl.hpp": "a claim, Outcome::claims, too_bold, in_vain, rungs, told, asks",
    "src/precond/automatic.cpp": "in_vain, ladder, told",
    "include/tacit/krylov/columns.hpp": "told",
    "include/tacit/krylov/iteration.hpp": "rung, ladder",
    "include/tacit/krylov/methods.def": "asks, the warnings tell, a warning tells",
    "include/tacit/krylov/monitor.hpp": "Outcome::claims, too_bold, in_vain, rung, told, asks",
    "include/tacit/krylov/null_space.hpp": "told",
    "include/tacit/krylov/options.hpp": "a claim",
    "include/tacit/krylov/outer.hpp": "a claim, asks",
    "include/tacit/precond/automatic.hpp": "a warning tells",
    "python/tacit/_described.py": "asks, the warnings tell, a warning tells",
    "python/tacit/_options.py": "told",
    "python/tacit/_support.py": "asks",
    "python/tacit/cli/reconstruct.py": "told",
    "python/tacit/krylov/driver.py": "told, asks",
    "python/tacit/krylov/results.py": "told",
    "python/tacit/methods.py": "asks, the warnings tell, a warning tells",
    "python/tacit/op/__init__.py": "told",
    "python/tacit/op/operators.py": "told",
}


def banned() -> dict[str, re.Pattern[str]]:
    """The words of the glossary's table, also as parts of names; those of a phrase may be on two lines."""
    table = (ROOT / "docs/glossary.md").read_text().split(HEADING)[1]
    words = [word for row in re.findall(r"^\| (`.*?) \|", table, re.M) for word in re.findall(r"`([^`]+)`", row)]
    between = r"[\s/#*]+"  # words, also over the beginning of a comment's next line
    return {w: re.compile(rf"(?<![A-Za-z]){between.join(map(re.escape, w.split()))}(?![A-Za-z])", re.I) for w in words}


def found() -> dict[str, Counter[str]]:
    """The number of each banned word in each file that has any."""
    patterns = banned()
    counts: dict[str, Counter[str]] = {}
    for place in PLACES:
        files = sorted((ROOT / place).rglob("*")) if (ROOT / place).is_dir() else [ROOT / place]
        for file in files:
            name = str(file.relative_to(ROOT))
            if file.suffix not in TEXTS or not file.is_file():
                continue
            text = file.read_text().split(HEADING)[0]
            here = Counter({word: len(p.findall(text)) for word, p in patterns.items() if p.search(text)})
            if here:
                counts[name] = here
    return counts


def test_the_table_is_read() -> None:
    patterns = banned()
    assert len(patterns) >= 15
    assert patterns["told"].search("take_told()")
    assert not patterns["told"].search("untold")
    assert patterns["by the processor"].search("kernels run by\n    /// the processor")
    assert not patterns["a claim"].search("threads claim pieces; Claims all(count)")


def test_words_are_plain() -> None:
    wrong = [
        f"{file}: {word} ({count})"
        for file, words in found().items()
        for word, count in words.items()
        if word not in LEFT.get(file, "").split(", ")
    ]
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    for file, words in found().items():
        print(f'    "{file}": "{", ".join(words)}",')
