"""A page of pictures with explanations: HTML without scripts, which needs no other file but pictures beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tacit import report

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
p { max-width: 56rem; margin: .5rem 0; } .small { color: #666; font-size: .85rem; }
img { max-width: 100%; max-height: 30rem; display: block; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; margin: 1rem 0; display: block; overflow-x: auto; }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; white-space: nowrap; border-bottom: 1px solid #e3e3e3; }
.number { text-align: right; }
.picture { margin: 1rem 0; } .good, .bad { color: #fff; border-radius: .3rem; padding: .15rem .6rem; font-weight: 600; }
.good { background: #00734f; } .bad { background: #b3261e; }
.bars { display: grid; grid-template-columns: max-content 1fr max-content; gap: .3rem .7rem; max-width: 44rem;
  margin: .7rem 0; font-size: .9rem; align-items: center; }
.bars i { display: block; background: #0072b2; height: 1rem; min-width: 1px; }
@media (max-width: 30rem) { body { margin: 1rem auto; } td, th { padding: .2rem .45rem .2rem 0; font-size: .78rem; }
  .bars { font-size: .8rem; } }
.simulated { background: #fff3d6; border: 1px solid #e0b040; border-radius: .3rem; padding: 0 .4rem; font-size: .8rem; }
code { background: #f3f3f3; padding: .1rem .3rem; border-radius: .2rem; }
"""


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs (a text in backquotes is code), pictures with what they show in words, and a table."""

    title: str
    text: Sequence[str] = ()
    pictures: Sequence[tuple[str, str]] = ()  # file beside the page, alternative text
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    words: int = 1  # the number of columns with words; the others are numbers
    simulated: bool = False
    svg: str = ""  # a picture that is part of the page
    bars: Sequence[tuple[str, float, str]] = ()  # name, length, text behind


def _marked(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts))


def _table(section: Section) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        shown = (
            f"<{tag}{' class=number' if k >= section.words else ''}>{escape(c)}</{tag}>" for k, c in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    return "\n".join(["<table>", row(section.head, "th"), *(row(cells, "td") for cells in section.rows), "</table>"])


def _bars(bars: Sequence[tuple[str, float, str]]) -> str:
    most = max(value for _, value, _ in bars) or 1.0
    rows = (
        f'<span>{escape(name)}</span><i style="width:{100 * value / most:.1f}%"></i><span>{escape(text)}</span>'
        for name, value, text in bars
    )
    return f'<div class="bars">{"".join(rows)}</div>'


def _section(section: Section) -> str:
    label = ' <span class="simulated">simulated</span>' if section.simulated else ""
    lines = [f"<h2>{escape(section.title)}{label}</h2>"]
    lines += [f"<p>{_marked(text)}</p>" for text in section.text]
    lines += [f'<img src="{escape(name)}" alt="{escape(text)}">' for name, text in section.pictures]
    if section.svg:
        lines.append(f'<div class="picture">{section.svg}</div>')
    if section.bars:
        lines.append(_bars(section.bars))
    if section.rows:
        lines.append(_table(section))
    return "\n".join(lines)


def write(
    path: str | os.PathLike[str],
    title: str,
    text: Sequence[str],
    sections: Sequence[Section],
    foot: Sequence[str],
    badge: tuple[str, bool] | None = None,
) -> None:
    """Writes a page. `badge`: a word below the title, and whether it is a good one."""
    page = [
        f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style>\n<h1>{escape(title)}</h1>",
        *([f'<p><span class="{"good" if badge[1] else "bad"}">{escape(badge[0])}</span></p>'] if badge else []),
        *(f"<p>{_marked(line)}</p>" for line in text),
        *map(_section, sections),
        *(f'<p class="small">{_marked(line)}</p>' for line in foot),
        "</html>\n",
    ]
    with report.replacing(path) as temporary:
        temporary.write_text("\n".join(page), encoding="utf-8")
