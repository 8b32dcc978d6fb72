"""Words that the glossary replaces are in no document, message, name or comment."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "src", "include", "python", "bench", "examples")
TEXTS = {".c", ".cpp", ".cu", ".cuh", ".def", ".hpp", ".in", ".md", ".py", ".pyi", ".sh", ".txt"}
HEADING = "## Words that are not used"


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
    wrong = [f"{file}: {word} ({count})" for file, words in found().items() for word, count in words.items()]
    assert not wrong, "\n".join(wrong)
