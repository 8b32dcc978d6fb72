"""Checks a site as a reader's browser has it: each link and picture leads to something, headings too, and each page can
be reached from the first one.

docs/site/check.py HTML      prints what is wrong; the exit code is 1 then
"""

from __future__ import annotations

import os
import re
import sys
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote


class Page(NamedTuple):
    anchors: set[str]
    targets: list[str]


def page(file: Path) -> Page:
    """Its anchors and links; in text and code a quotation mark is an entity, so that these are attributes only."""
    text = re.sub(r"<script(?! src).*?</script>", "", file.read_text(), flags=re.S)
    tags = " ".join(re.findall(r"<[a-zA-Z][^>]*>", text))
    anchors = re.findall(r'\s(?:id|name)="([^"]+)"', tags)
    return Page(set(map(unescape, anchors)), re.findall(r'\s(?:href|src)="([^"]+)"', tags))


def check(folder: Path) -> list[str]:
    own = (file for file in sorted(folder.rglob("*.html")) if not file.is_relative_to(folder / "_static"))
    pages = {file: page(file) for file in own}
    wrong: list[str] = []
    leads: dict[Path, set[Path]] = {}
    for file, (_, targets) in pages.items():
        for target in dict.fromkeys(targets):
            path, _, anchor = unquote(unescape(target)).partition("#")
            if re.match(r"[a-z]+:|//", path):
                continue
            path = path.partition("?")[0]
            place = Path(os.path.normpath(file.parent / path)) if path else file
            leads.setdefault(file, set()).add(place)
            if not place.is_file():
                wrong.append(f"{file.relative_to(folder)}: {target} is not there")
            elif anchor and place in pages and anchor not in pages[place].anchors:
                wrong.append(f"{file.relative_to(folder)}: {target}: no such place in the page")
    reached, ahead = set(), [folder / "index.html"]
    while ahead:
        file = ahead.pop()
        if file not in reached:
            reached.add(file)
            ahead += leads.get(file, ())
    lonely = (file.relative_to(folder) for file in sorted(set(pages) - reached))
    return wrong + [f"{file}: no page leads there (left by an earlier build? --clean)" for file in lonely]


if __name__ == "__main__":
    found = check(Path(sys.argv[1]).resolve())
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
