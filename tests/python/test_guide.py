"""Runs the Python blocks and commands of README and the guide, page by page, in the order of the page.

A comment before a block marks exceptions: `<!-- not run: why -->` for a block that is not run, `<!-- file: name.py -->`
for a file that the reader saves.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cli_support import LONG, clean_environment, has_mpi, tacit
from conftest import ALLOW, ROOT, laplacian, mpiexec

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs/guide").glob("*.md") if page.stem not in ("cpp", "plug-in")),
]
QUICK = {"choosing", "gpu"}  # the others take more than a few seconds
BLOCK = re.compile(
    r"(?:<!-- (?P<kind>not run|file): (?P<what>[^>]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.S
)


class Block(NamedTuple):
    line: int
    kind: str  # "", "not run", "file"
    what: str
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for m in BLOCK.finditer(text):
        line = text.count("\n", 0, m.start("text")) + 1
        found.append(Block(line, m["kind"] or "", m["what"] or "", m["language"], m["text"]))
    return found


def commands(block: Block) -> list[list[str]]:
    """The words of each line that is a command of Tacit, Python or mpiexec; comments end a line."""
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    return [
        words for words in lines if words and words[0] in ("./run", "tacit", "python", "mpiexec") and len(words) > 1
    ]


def own_files(folder: Path) -> None:
    """Makes the files that the pages assume the reader has."""
    h5py = pytest.importorskip("h5py")
    from scipy.io import mmwrite

    mmwrite(folder / "matrix.mtx", laplacian(30, 30))
    np.savez(folder / "images.npz", np.random.default_rng(0).random((60, 1024)) < 0.3)
    with h5py.File(folder / "scan.h5", "w") as scan:
        angles = np.linspace(0, np.pi, 40, endpoint=False)
        aside = np.arange(32) - 15.5 - 4 * np.cos(angles)[:, None]  # a disc beside the axis
        scan["exchange/data"] = 100 * np.exp(-0.1 * np.sqrt(np.maximum(81 - aside**2, 0)))[:, None]
        scan["exchange/data_white"], scan["exchange/data_dark"] = np.full((1, 1, 32), 100.0), np.zeros((1, 1, 32))
        scan["exchange/theta"] = np.rad2deg(angles)


def run(words: list[str], folder: Path) -> None:
    if words[0] in ("./run", "tacit"):
        tacit(*words[1:], cwd=folder)
        return
    command = [sys.executable, *words[1:]]
    if words[0] == "mpiexec":
        command = [mpiexec(), *(sys.executable if word == "python" else word for word in words[1:])]
    variables = clean_environment(PYTHONPATH=os.environ.get("PYTHONPATH", str(ROOT / "python")), **ALLOW)
    done = subprocess.run(
        command, cwd=folder, env=variables, text=True, capture_output=True, timeout=LONG, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=() if page.stem in QUICK else pytest.mark.slow) for page in PAGES],
)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    own_files(tmp_path)
    names: dict[str, Any] = {}
    count = 0
    for block in blocks(page):
        if block.kind == "not run":
            continue
        if block.kind == "file":
            (tmp_path / block.what).write_text(block.text)
        elif block.language == "python":
            code = "\n" * (block.line - 1) + block.text  # a failure names the page's line
            exec(compile(code, str(page), "exec"), names)
            count += 1
        elif block.language in ("", "sh"):
            for words in commands(block):
                if not has_mpi() and ("--ranks" in words or words[0] == "mpiexec"):
                    continue
                run(words, tmp_path)
                count += 1
    assert count, f"{page.name} shows nothing that runs"


def test_cpp_page_shows_the_example() -> None:
    """Its program is a part of examples/cpp, which test_install.py compiles and runs."""
    example = " ".join((ROOT / "examples/cpp/poisson.cpp").read_text().split())
    (program,) = [block.text for block in blocks(ROOT / "docs/guide/cpp.md") if block.language == "cpp"]
    lines = [re.sub(r"\s*// .*", "", line).strip() for line in program.splitlines()]
    assert [line for line in lines if line not in example] == []


@pytest.mark.parametrize(("language", "example"), [("c", "c/poisson.c"), ("fortran", "fortran/poisson.f90")])
def test_plug_in_page_shows_the_examples(language: str, example: str) -> None:
    """Lines of the page are lines of programs that test_install.py compiles and runs."""
    program = " ".join((ROOT / "examples" / example).read_text().split())
    (shown,) = [block.text for block in blocks(ROOT / "docs/guide/plug-in.md") if block.language == language]
    assert [line for line in shown.splitlines() if " ".join(line.split()) not in program] == []


def test_blocks_and_commands_are_found() -> None:
    """The reader of pages itself: markers, languages, comments."""
    text = (
        '<!-- not run: needs a GPU -->\n```python\nx\n```\ntext\n```\ntacit info "a b.mtx"  # is\nother\n./run\n```\n'
    )
    found = [Block(0, m["kind"] or "", m["what"] or "", m["language"], m["text"]) for m in BLOCK.finditer(text)]
    assert [block.kind for block in found] == ["not run", ""]
    assert found[0].what == "needs a GPU"
    assert commands(found[1]) == [["tacit", "info", "a b.mtx"]]
