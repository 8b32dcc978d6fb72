"""README, the guide and the gallery: what they show runs as it stands (docs/site/blocks.py runs a page)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import LONG, clean_environment
from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs/site"))
import blocks

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs/guide").glob("*.md") if page.stem not in blocks.NOT_RUN),
]
QUICK = {"choosing", "gpu", "coming-from"}  # the others take more than a few seconds
EXAMPLES = sorted((ROOT / "examples/python").glob("*.py"))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=() if page.stem in QUICK else pytest.mark.slow) for page in PAGES],
)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    blocks.own_files(tmp_path)
    blocks.own_programs(tmp_path)
    assert list(blocks.run_page(page, tmp_path)), f"{page.name} shows nothing that runs"


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_of_the_gallery_runs(example: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    variables = clean_environment(
        PYTHONPATH=os.environ.get("PYTHONPATH", str(ROOT / "python")), MPLBACKEND="Agg", PYTHONWARNINGS="error"
    )
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, env=variables, text=True, capture_output=True, timeout=LONG
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_cpp_page_shows_the_example() -> None:
    """Its program is a part of examples/cpp, which test_install.py compiles and runs."""
    example = " ".join((ROOT / "examples/cpp/poisson.cpp").read_text().split())
    (program,) = [b.text for b in blocks.blocks((ROOT / "docs/guide/cpp.md").read_text()) if b.language == "cpp"]
    lines = [re.sub(r"\s*// .*", "", line).strip() for line in program.splitlines()]
    assert [line for line in lines if line not in example] == []


@pytest.mark.parametrize(("language", "examples"), [("c", "*.c"), ("fortran", "*.f90")])
def test_plug_in_page_shows_the_examples(language: str, examples: str) -> None:
    """Lines of the page are lines of programs that test_install.py compiles and runs."""
    program = " ".join(" ".join(one.read_text().split()) for one in (ROOT / "examples" / language).glob(examples))
    page = blocks.blocks((ROOT / "docs/guide/plug-in.md").read_text())
    shown = "".join(block.text for block in page if block.language == language)
    assert shown
    assert [line for line in shown.splitlines() if " ".join(line.split()) not in program] == []


def test_blocks_are_found() -> None:
    """The reader of pages itself: markers and languages."""
    text = '<!-- not run: needs a GPU -->\n```python\nx\n```\ntext\n```\ntacit info "a b.mtx"  # is\n```\n'
    found = blocks.blocks(text)
    assert [block.kind for block in found] == ["not run", ""]
    assert found[0].what == "needs a GPU"
    assert (found[1].line, found[1].text) == (7, 'tacit info "a b.mtx"  # is\n')


def test_a_page_that_does_not_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that fails, one before the line that makes it known, and a wrong line of Python."""
    monkeypatch.chdir(tmp_path)
    blocks.own_programs(tmp_path)
    page = tmp_path / "page.md"
    for text, part in (
        ("```\ntacit info\n```\n", "the page lacks"),
        (f"```\n{blocks.ACTIVATION}\npython -c 1/0\necho end\n```\n", "ZeroDivisionError"),
        ("```python\nassert 1 == 2, 'unequal'\n```\n", "unequal"),
    ):
        page.write_text(text)
        with pytest.raises(AssertionError, match=part):
            list(blocks.run_page(page, tmp_path))
    page.write_text(f"```\n{blocks.ACTIVATION}\n```\n```\npython -c 'print(6 * 7)' | cat\n```\n")
    assert [shown.text for shown in blocks.run_page(page, tmp_path)] == ["", "42\n"]
