"""The page of `tacit reproduce`: a section for each table or figure of the papers, and one picture of all numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import page
from .plotting import COLOURS, drawing

#: The verdicts with the colour and mark of their numbers.
VERDICTS = {
    "within 25 %": (COLOURS[2], "o"),
    "apart": (COLOURS[1], "s"),
    "circular": (COLOURS[4], "D"),
    "small size": (COLOURS[5], "v"),
}
_HEAD = ("number", "verdict", "paper", "measured", "simulated", "simulated, ideal", "ours / paper")


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def cells(found: Mapping[str, Any]) -> list[str]:
    """A number of a row as its line of the table."""
    unit = f" {found['unit']}" if found["unit"] else ""
    ours = [number(found[key]) for key in ("measured", "simulated", "ideal")]
    return [found["what"], found["verdict"], number(found["paper"]) + unit, *ours, number(found["ratio"])]


def reasons(row: Mapping[str, Any]) -> list[str]:
    """Why numbers of a row are apart, circular or missing: each reason once."""
    grouped: dict[str, list[str]] = {}
    for found in row["numbers"]:
        if found["reason"]:
            grouped.setdefault(found["reason"], []).append(found["what"])
    whole = len(row["numbers"])
    return [reason if len(whats) == whole else f"{'; '.join(whats)}: {reason}" for reason, whats in grouped.items()]


def _section(row: Mapping[str, Any]) -> page.Section:
    text = [row["how"]] if row["how"] else []
    if row["numbers"]:
        text += reasons(row)
    else:
        text.append(f"{row['verdict'].capitalize()}: {row['why']}")
    numbers = [cells(found) for found in row["numbers"]]
    simulated = any(found["simulated"] is not None for found in row["numbers"])
    return page.Section(f"{row['id']}: {row['title']}", text, head=_HEAD, rows=numbers, words=2, simulated=simulated)


def picture(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Ours over the paper's, a mark for each number; the band is a quarter to both sides."""
    found = [(row["id"], one) for row in rows for one in row["numbers"] if one["ratio"] and one["ratio"] > 0]
    with drawing(path, 8.5, 1.4 + 0.17 * max(4, len(found))) as made:
        axes = made.subplots()
        axes.axvspan(0.75, 1.25, color="#e8f3ee", zorder=0)
        axes.axvline(1, color="#888", linewidth=0.8)
        for verdict, (colour, mark) in VERDICTS.items():
            at = [(one["ratio"], k) for k, (_, one) in enumerate(found) if one["verdict"] == verdict]
            if at:
                x, y = zip(*at, strict=True)
                axes.plot(x, y, mark, color=colour, label=verdict, markersize=5)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_yticks(range(len(found)), [f"{row}  {one['what']}" for row, one in found], fontsize=6.5)
        axes.set_ylim(len(found), -1)
        axes.set_xlabel("ours / the paper's")
        if found:
            axes.legend(loc="lower right")


def write_page(path: str | Path, facts: Mapping[str, Any], papers: Mapping[str, str], image: str) -> None:
    """Writes the page. `papers`: what each paper is about; `image`: the picture, beside the page."""
    counts = ", ".join(f"{times} {verdict}" for verdict, times in facts["verdicts"].items())
    text = [
        f"Numbers of the papers beside Tacit's: {counts}.",
        "Measured: on this machine, ratios of times or counts. Simulated: on simulated ranks with machines that are not"
        " fitted to the papers; messages advance as with an MPI library that is polled, and, in the next column, by"
        " themselves. A verdict is of the measured number if there is one, otherwise of the simulated one.",
    ]
    if facts["size"] == "small":
        text.append("Small sizes: they show that every row runs, and nothing can be concluded from their numbers.")
    sections = [page.Section("All numbers", [], [(image, "ours over the paper's, for each number")])]
    for paper, about in papers.items():
        rows = [row for row in facts["rows"] if row["paper"] == paper]
        if rows:
            sections.append(page.Section(f"Paper {paper}: {about}"))
            sections += [_section(row) for row in rows]
    machine = facts["machine"]
    foot = [
        f"Tacit {facts['version']}, `{' '.join(facts['command'])}`, {machine['processor']}, {machine['cores']} cores."
    ]
    page.write(path, "What the papers found, and what Tacit gives", text, sections, foot)
