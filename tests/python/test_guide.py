"""README, the guide and the gallery: what they show runs as it stands (docs/site/blocks.py runs a page)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import LONG, clean_environment
from conftest import ROOT, Run

sys.path.insert(0, str(ROOT / "docs/site"))
import blocks
import check
import notebooks
import prepare

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs/guide").glob("*.md") if page.stem not in blocks.NOT_RUN),
]
QUICK = {"choosing", "gpu", "coming-from"}  # the others take more than a few seconds
NEEDS = {"plot_12_scikit_fem": "skfem"}  # what examples need beside the requirements of the tests
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
    pytest.importorskip(NEEDS.get(example.stem, "tacit"))
    variables = clean_environment(
        PYTHONPATH=os.environ.get("PYTHONPATH", str(ROOT / "python")), MPLBACKEND="Agg", PYTHONWARNINGS="error"
    )
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, env=variables, text=True, capture_output=True, timeout=LONG
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    if example.stem == "plot_13_kriging":  # the guide gives its errors
        page = " ".join((ROOT / "docs/guide/gaussian-processes.md").read_text().split())
        kriged, linear = re.findall(r"kriging ([\d.]+) m, linear ([\d.]+) m", done.stdout)[0]
        assert float(kriged) < float(linear)
        assert f"its error is {kriged} m, that of linear interpolation {linear} m" in page


@pytest.mark.slow
def test_elements_on_two_processes(python: Run) -> None:
    """The example of the gallery as its text says it is started, with mpi4py."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("mpi4py")
    example = (ROOT / "examples/python/plot_11_elements.py").read_text()
    done = python(example, ranks=2, MPLBACKEND="Agg")
    assert "step 15: " in done.stdout
    assert "change " in done.stdout.splitlines()[-1]


def test_assembling_page_shows_the_example() -> None:
    """Lines of scikit-fem on the page are lines of the example, which needs it."""
    example = (ROOT / "examples/python/plot_12_scikit_fem.py").read_text()
    page = blocks.blocks((ROOT / "docs/guide/assembling.md").read_text())
    (shown,) = [block.text for block in page if block.kind == "not run"]
    assert shown in example


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


def test_the_value_of_a_last_line_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nimport tacit\nprint(7)\ntacit.poisson((9,))\n```\n```python\n1 + 1\n```\n")
    first, second = blocks.run_page(page, tmp_path)
    assert first.text == "7\n"
    assert first.html.startswith("<table>")
    assert (second.text, second.html) == ("", "")


def test_a_page_becomes_cells() -> None:
    text = """# A page

Of [another](other.md#part), [a site](https://example.org), ![a picture](../images/tooth.png).

```
./run build
. .venv/bin/activate
```

<!-- not run: why -->
```
tacit bem human.obj
```
Between.
<!-- file: own.py -->
```python
x = 1
```
```
./run solve a.mtx --plot c.png      # not d.png
```
```python
r.plot("levels.png")
```
"""
    page, build, human, between, own, solve, shown, levels, again = notebooks.cells(text)
    assert page.text.startswith(f"# A page\n\n{notebooks.START}\n\nOf another, [a site](https://example.org), ![a pic")
    assert [cell.kind for cell in (build, human, between)] == ["markdown"] * 3
    assert own == ("code", "%%writefile own.py\nx = 1")
    assert solve == ("code", "%%sh -e\ntacit solve a.mtx --plot c.png      # not d.png")
    assert 'Image("c.png")' in shown.text
    assert "d.png" not in shown.text
    assert levels == ("code", 'r.plot("levels.png")')
    assert 'Image("levels.png")' in again.text
    text, images = notebooks.attached(page.text, ROOT / "docs/guide/page.md")
    assert "(attachment:tooth.png)" in text
    assert list(images) == ["tooth.png"]


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_notebooks_have_all_of_their_pages(name: str) -> None:
    """`./run docs` runs them; here only that nothing is left out or leads out of the file."""
    text = (ROOT / f"docs/guide/{name}.md").read_text()
    cells = notebooks.cells(text)
    code = "\n".join(cell.text for cell in cells if cell.kind == "code")
    assert all(block.text.rstrip() in code for block in blocks.blocks(text) if block.language == "python")
    assert not re.search(r"\./run|activate|\bmodule load", code)
    for cell in cells:
        if cell.kind == "markdown" and not cell.text.startswith("```"):
            assert not re.search(
                r"(?<!!)\[[^\]]*\]\((?!https?:)", notebooks.attached(cell.text, ROOT / "docs/guide/x.md")[0]
            )


def test_the_check_of_a_site_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a class="a" href="one.html#part">1</a><a href="#top">2</a><a href="https://example.org">3</a>'
        '<img src="_static/a.png?v=1"/><code>href=&quot;no&quot;</code>'
    )
    (tmp_path / "one.html").write_text('<a href="index.html">0</a><p\n id="part">a</p>')
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/a.png").write_bytes(b"")
    assert check.check(tmp_path) == []
    (tmp_path / "one.html").write_text('<a href="index.html#bottom">0</a><img src="b.png">')
    (tmp_path / "lonely.html").write_text("")
    assert check.check(tmp_path) == [
        "index.html: one.html#part: no such place in the page",
        "one.html: index.html#bottom: no such place in the page",
        "one.html: b.png is not there",
        "lonely.html: no page leads there (left by an earlier build? --clean)",
    ]


def test_a_site_is_made_in_a_folder_of_any_name() -> None:
    """Its own folder of sources is left out, wherever the repository is."""
    places = prepare.places()
    assert places[ROOT / "docs/guide/tutorial.md"] == "guide/tutorial.md"
    assert places[ROOT / "docs/reference/README.md"] == "reference/index.md"
    assert ROOT / "docs/site/index.md" not in places
