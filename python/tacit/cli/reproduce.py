"""`tacit reproduce`: the tables and figures of the papers that Tacit builds on, beside what Tacit gives."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tacit import report
from tacit._progress import Line
from tacit.cli.arguments import OK, Arguments, WrongUse, nearest, one_of

FAILED = 1  # a row has raised an exception, which its reason names
TEXT = "compare the tables and figures of five papers with what Tacit gives"


def add(a: Arguments) -> None:
    a("what WHAT", "a row (001/figure-10), a paper (002), or all; nothing: list the rows", nargs="*")
    a("--list", "list the rows, and do nothing else")
    a("--size NAME", "small, full: seconds, without verdicts, or minutes", one_of("size", ("small", "full")), "full",
      known=("small", "full"))  # fmt: skip
    a("--output FOLDER", "where index.html and numbers.png go", None, "tacit-reproduce")
    a.json("all numbers")


def run(arguments: argparse.Namespace) -> int:
    from tacit.app import reproduce

    out = report.console(stderr=arguments.json == "-")
    if arguments.list or not arguments.what:
        _list(reproduce, out, arguments)
        return OK
    try:
        rows = reproduce.chosen(arguments.what)
    except KeyError as error:
        word = error.args[0]
        known = ["all", *reproduce.PAPERS, *(row.id for row in reproduce.ROWS)]
        hint = nearest(word, known) or "; tacit reproduce --list names all"
        raise WrongUse(f'unknown row "{word}"{hint}') from None
    with Line(out) as line:
        line.now("comparing")
        facts = reproduce.run(rows, arguments.size, lambda share, text: line.update(share, text))
    facts = report.plain(report.header("tacit.reproduce/1", arguments.words) | facts)
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    _draw(folder, facts, reproduce.PAPERS)
    if arguments.json:
        report.write_json(facts, arguments.json)
    _show(facts, out)
    out.print(str(folder / "index.html"), style="bold")
    return FAILED if "failed" in facts["verdicts"] else OK


def _list(reproduce: Any, out: Any, arguments: argparse.Namespace) -> None:
    listed = [{"id": row.id, "title": row.title, "numbers": len(row.claims), "reproduced": row.make is not None,
               "circular": bool(row.circular), "why": row.why} for row in reproduce.ROWS]  # fmt: skip
    if arguments.json:
        report.write_json(report.header("tacit.reproduce.list/1", arguments.words) | {"rows": listed}, arguments.json)
    width = max(len(row["id"]) for row in listed)
    for paper, about in reproduce.PAPERS.items():
        out.print(f"{paper}  {about}", style="bold")
        for row in listed:
            if row["id"].startswith(f"{paper}/"):
                missing = "not reproduced" if row["numbers"] else "no numbers"
                state = "circular" if row["circular"] else "" if row["reproduced"] else missing
                out.print(f"  {row['id']:{width}}  {row['title']}" + (f"  ({state})" if state else ""))


def _draw(folder: Path, facts: dict[str, Any], papers: dict[str, str]) -> None:
    from tacit.plot import reproduce as plots

    plots.picture(facts["rows"], folder / "numbers.png")
    plots.write_page(folder / "index.html", facts, papers, "numbers.png")


def _show(facts: dict[str, Any], out: Any) -> None:
    from tacit.plot.reproduce import number, reasons

    for row in facts["rows"]:
        out.print(f"{row['id']}  {row['title']}", style="bold")
        for found in row["numbers"]:
            ours = [f"{name} {number(found[key])}" for key, name in
                    (("measured", "measured"), ("simulated", "simulated"), ("ideal", "ideal"))
                    if found[key] is not None]  # fmt: skip
            unit = f" {found['unit']}" if found["unit"] else ""
            text = "; ".join([f"paper {number(found['paper'])}{unit}", *ours])
            good = {"within 25 %": "green", "apart": "yellow", "failed": "red"}.get(found["verdict"])
            out.print(f"  {found['what']}: {text}; {found['verdict']}", style=good)
        for reason in reasons(row) if row["numbers"] else [f"{row['verdict']}: {row['why']}"]:
            out.print(f"    {reason}", style="dim")
    counts = ", ".join(f"{times} {verdict}" for verdict, times in facts["verdicts"].items())
    out.print(f"{report.plural(len(facts['rows']), 'row')}: {counts}")
