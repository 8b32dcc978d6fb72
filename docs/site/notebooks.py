"""Makes a notebook of a page of the guide, and runs it: the page is the only source, its blocks become cells.

Commands become cells of a shell, files that the reader saves cells that write them, and a picture that a command has
written is shown after it. What is not run stays text; so do the activation line, since a notebook is started after it,
and links to other pages, which a downloaded file does not have beside it.

docs/site/notebooks.py PAGE FILE.ipynb
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import blocks

# Pages that need no files but those that they make.
PAGES = ("tutorial", "algebraic-multigrid", "multigrid", "boundary-elements", "tomography", "networks")
START = (
    "*A page of Tacit's documentation as a notebook. It is run where `tacit` is known: after `. .venv/bin/activate` in"
    " the folder of Tacit, `pip install jupyterlab` once, `jupyter lab`.*"
)


class Cell(NamedTuple):
    kind: str  # "markdown", "code"
    text: str


# --- a page in cells --------------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    return re.sub(r"(?<!!)\[([^\[\]]*)\]\((?![a-z]+:)[^)\s]+\)", r"\1", text).strip()


def commands(text: str) -> str:
    """Lines of a block as a shell has them that was started after the activation line; "" where none is left."""
    kept = (re.sub(r"^\./run ", "tacit ", line) for line in text.splitlines() if blocks.ACTIVATION not in line)
    return "\n".join(line for line in kept if not re.match(r"tacit build\b", line))


def pictures(names: list[str]) -> list[Cell]:
    lines = [f'display(Image("{name}"))' for name in dict.fromkeys(names)]
    return [Cell("code", "\n".join(["from IPython.display import Image, display", "", *lines]))] if lines else []


def cells_of(block: blocks.Block) -> list[Cell]:
    if block.kind == "file":
        return [Cell("code", f"%%writefile {block.what}\n{block.text.rstrip()}")]
    if block.kind == "" and block.language == "python":
        drawn = re.findall(r'\.plot\("([\w-]+\.png)"', block.text)
        return [Cell("code", block.text.rstrip()), *pictures(drawn)]
    lines = commands(block.text) if block.kind == "" and block.language in blocks.SHELL else ""
    if lines:
        drawn = re.findall(r"[\w-]+\.png", re.sub(r"#.*", "", lines))
        return [Cell("code", f"%%sh -e\n{lines}"), *pictures(drawn)]
    return [Cell("markdown", f"```{block.language}\n{block.text.rstrip()}\n```")]


def cells(text: str) -> list[Cell]:
    """The cells of a page, in its order."""
    found, at = [], 0
    for block in blocks.blocks(text):
        found += [Cell("markdown", prose(text[at : block.start])), *cells_of(block)]
        at = block.end
    found.append(Cell("markdown", prose(text[at:])))
    found = [cell for cell in found if cell.text]
    title, _, rest = found[0].text.partition("\n")
    return [Cell("markdown", f"{title}\n\n{START}\n{rest}"), *found[1:]]


# --- the notebook -----------------------------------------------------------------------------------------------------


def attached(text: str, page: Path) -> tuple[str, dict[str, dict[str, str]]]:
    """A cell's text with the images of the repository inside of it."""
    images: dict[str, dict[str, str]] = {}

    def image(match: re.Match[str]) -> str:
        file = (page.parent / match["path"]).resolve()
        images[file.name] = {"image/png": base64.b64encode(file.read_bytes()).decode()}
        return f"![{match['alt']}](attachment:{file.name})"

    return re.sub(r"!\[(?P<alt>[^\]]*)\]\((?![a-z]+:)(?P<path>[^)\s]+\.png)\)", image, text), images


def notebook(page: Path) -> Any:
    import nbformat.v4 as v4

    made = []
    for number, cell in enumerate(cells(page.read_text())):
        if cell.kind == "code":
            made.append(v4.new_code_cell(cell.text, id=f"cell-{number}"))
            continue
        text, images = attached(cell.text, page)
        made.append(v4.new_markdown_cell(text, id=f"cell-{number}", **({"attachments": images} if images else {})))
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return v4.new_notebook(cells=made, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def in_environment(folder: Path) -> dict[str, str]:
    """What a kernel finds that was started after the activation line; it draws in the notebook, and leaves nothing in
    the user's folders."""
    variables = blocks.environment(folder)
    variables.pop("MPLBACKEND", None)
    path = os.pathsep.join((str(folder / ".venv/bin"), variables["PATH"]))
    return variables | {"PATH": path, "IPYTHONDIR": str(folder / ".ipython")}


def main(page: Path, out: Path) -> None:
    page, out = page.resolve(), out.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["JUPYTER_RUNTIME_DIR"] = str(folder / ".jupyter")
        import nbformat
        from nbclient import NotebookClient

        blocks.own_programs(folder)
        made = notebook(page)
        client = NotebookClient(
            made,
            timeout=blocks.LONG,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": name}},
        )
        client.execute(env=in_environment(folder))
        nbformat.validate(made)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(blocks.cleaned(nbformat.writes(made), folder) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
