"""Makes the sources of the site in a folder: the pages of docs/ with what their blocks print and draw, notebooks of
some of them, lists of pages from docs/README.md, and the pages of the references.

The pages of docs/ are written for readers of the repository. Here links that lead out of docs/ are redirected, and
behind each block that runs comes what it has printed and drawn (docs/site/blocks.py); docs/site/notebooks.py makes the
notebooks. A page is run again when it or the package has changed.

docs/site/prepare.py SOURCE CACHE      writes SOURCE; CACHE keeps what pages printed and drew
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import blocks
import notebooks
import references

ROOT = blocks.ROOT
DOCS = ROOT / "docs"
PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")  # pages of the repository's top, in project/
LONGEST = 60  # lines of output that are shown


def write(file: Path, text: str) -> None:
    """Writes a file unless it has this text: Sphinx reads again what is newer than its last run."""
    if file.exists() and file.read_text() == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def places() -> dict[Path, str]:
    """Each page and image of the repository that is in the site, and its place there."""
    files = [file for kind in ("*.md", "*.png", "*.svg") for file in DOCS.rglob(kind)]
    found = {file: str(file.relative_to(DOCS)) for file in files if not file.is_relative_to(DOCS / "site")}
    found |= {ROOT / name: f"project/{name.lower()}" for name in PROJECT}
    found[DOCS / "README.md"] = found[ROOT / "README.md"] = "index.md"
    return {file: place.replace("README.md", "index.md") for file, place in found.items()}


# --- links ------------------------------------------------------------------------------------------------------------


def redirected(text: str, page: Path, place: str, source: Path, known: dict[Path, str]) -> str:
    """A page's text with the links of the site. Other files can be downloaded from it; folders are only named."""

    def link(match: re.Match[str]) -> str:
        path, hash_, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", match["target"]) or not path:
            return match[0]
        file = (page.parent / path).resolve()
        if file.is_dir():
            return match["text"]
        if file not in known:
            known[file] = f"files/{file.relative_to(ROOT)}"
            copy(file, source / known[file])
        return f"[{match['text']}]({os.path.relpath(known[file], os.path.dirname(place) or '.')}{hash_}{anchor})"

    text = re.sub(r"<!-- site: .*? -->", "", text)
    parts = re.split(r"(^```.*?^```)", text, flags=re.S | re.M)
    named = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s]+)\)")
    return "".join(part if index % 2 else named.sub(link, part) for index, part in enumerate(parts))


def copy(file: Path, place: Path) -> None:
    if not place.exists() or place.stat().st_mtime_ns < file.stat().st_mtime_ns:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)


# --- what blocks print and draw ---------------------------------------------------------------------------------------


def fingerprint() -> str:
    """Of the package and the reader of pages: what pages print depends on them."""
    digest = hashlib.sha256()
    files = [*sorted((ROOT / "python/tacit").rglob("*.py")), DOCS / "site/blocks.py", DOCS / "site/notebooks.py"]
    for file in files:
        digest.update(file.read_bytes())
    for module in sorted((ROOT / "python/tacit").glob("_core*.so")):
        digest.update(str((module.stat().st_size, module.stat().st_mtime_ns)).encode())
    return digest.hexdigest()


def run_again(script: str, page: Path, out: Path, stamp: Path, base: str) -> None:
    """Runs a page by one of the scripts beside this one, unless nothing has changed since the last time."""
    key = hashlib.sha256((base + page.read_text()).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == key:
        return
    print(f"running {page.relative_to(ROOT)}" + (" as a notebook" if script == "notebooks.py" else ""), flush=True)
    command = [sys.executable, DOCS / "site" / script, page, out]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{page.relative_to(ROOT)} does not run ({script}):\n{done.stdout[-4000:]}")
    stamp.write_text(key)


def shown_of(page: Path, cache: Path, base: str) -> tuple[list[dict[str, Any]], Path]:
    """What the blocks of a page have left."""
    folder = cache / page.stem
    run_again("blocks.py", page, folder, folder / "key", base)
    return json.loads((folder / "shown.json").read_text()), folder


def with_notebook(text: str, page: Path, source: Path, cache: Path, base: str) -> str:
    """The text with a link to the page's notebook under its title."""
    if page.stem not in notebooks.PAGES:
        return text
    made = cache / "notebooks" / f"{page.stem}.ipynb"
    run_again("notebooks.py", page, made, made.with_suffix(".key"), base)
    copy(made, source / "notebooks" / made.name)
    title, _, rest = text.partition("\n")
    return f"{title}\n\n[This page as a notebook](../notebooks/{made.name}) that has been run, to download\n{rest}"


def output(text: str) -> str:
    """A block of what was printed: long ones are cut, in the middle of the page nobody reads them."""
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).rstrip().splitlines()
    if len(lines) > LONGEST:
        lines = [*lines[:LONGEST], f"... {len(lines) - LONGEST} more lines"]
    return "\n\n```{code-block} text\n:class: printed\n\n" + "\n".join(lines) + "\n```\n" if lines else ""


def alt_text(block: blocks.Block, picture: str) -> str:
    """What a picture is of: the line of the block that names its file."""
    line = next((line for line in block.text.splitlines() if picture in line), picture)
    return re.sub(r"[\[\]*_`<>]", "", line.strip().split("  ")[0])


def with_output(text: str, page: Path, source: Path, cache: Path, base: str) -> str:
    """The text of a page of the guide (in the lines of its file) with what each block has printed and drawn."""
    if page.stem in blocks.NOT_RUN:
        return text
    shown, folder = shown_of(page, cache, base)
    by_line = {one["line"]: one for one in shown}
    for block in reversed(blocks.blocks(text)):
        one = by_line.get(block.line)
        if one is None:
            continue
        added = output(one["text"])
        if one["html"]:
            added += '\n\n<div class="shown">\n' + re.sub(r"\n\s*", " ", one["html"]) + "\n</div>\n"
        for name in one["pictures"]:
            picture = source / "pictures" / name
            copy(folder / name, picture)
            own = name.split("-", len(page.stem.split("-")) + 1)[-1]
            added += f"\n\n![{alt_text(block, own)}](../pictures/{name})\n"
        text = text[: block.end] + added + text[block.end :]
    return text


# --- the site ---------------------------------------------------------------------------------------------------------


def pages_in(text: str) -> list[str]:
    """The pages of the site that a list names, in its order."""
    found = []
    for link in re.findall(r"\]\(([^)#\s]+\.md)\)|<!-- site: (\S+) -->", text):
        page = (link[0] or link[1]).removesuffix(".md").replace("README", "index")
        page = re.sub(r"^\.\./(\w+)$", lambda m: f"project/{m[1].lower()}", page)
        found.append(page)
    return list(dict.fromkeys(found))


def toctree(pages: list[str], caption: str = "") -> str:
    lines = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```", ""]
    return "\n".join(lines)


def start_page(source: Path, known: dict[Path, str]) -> str:
    """docs/site/index.md, with README's first lines, and lists of pages for the side from docs/README.md."""
    readme = (ROOT / "README.md").read_text()
    solve = re.search(r"^```python\n.*?^```\n", readme, re.S | re.M)
    assert solve, "README has no Python block"
    page = DOCS / "site/index.md"
    text = redirected(page.read_text(), page, "index.md", source, known).replace("<!-- readme: python -->", solve[0])
    sections = re.split(r"^## ", (DOCS / "README.md").read_text(), flags=re.M)[1:]
    lists = [toctree(pages_in(body), title.strip()) for title, _, body in (s.partition("\n") for s in sections)]
    return "\n".join([text, *lists])


def main(source: Path, cache: Path) -> None:
    known = places()
    base = fingerprint()
    for file, place in list(known.items()):
        if place == "index.md":
            continue
        if file.suffix != ".md":
            copy(file, source / place)
            continue
        text = redirected(file.read_text(), file, place, source, known)
        if file.parent == DOCS / "guide":
            text = with_notebook(with_output(text, file, source, cache, base), file, source, cache, base)
        elif file.name == "README.md":
            text += "\n" + toctree([page for page in pages_in(text) if "/" not in page])
        write(source / place, text)
    write(source / "index.md", start_page(source, known))
    references.write_python(source / "reference/python")
    references.write_cpp(source / "reference/cpp", source.parent / "doxygen")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
