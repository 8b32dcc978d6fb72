"""The report of a solve as one page of HTML that needs no other file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tacit import _progress, _svg, _traffic, report
from tacit.plot.page import Section, write


def write_page(
    path: str | os.PathLike[str], facts: Mapping[str, Any], trace: Sequence[Any] | None, title: str = ""
) -> None:
    """Writes the page of a solve from its document (:func:`tacit.report.document`) and its trace."""
    sections = [
        _convergence(facts),
        _tried(facts),
        *_columns(facts),
        *_times(facts, trace),
        _moved(facts, trace),
        _work(facts),
    ]
    machine = facts["machine"]
    foot = [
        f"Tacit {facts['version']}, {machine['processor']}, {machine['system']}, Python {machine['python']}.",
        "`" + " ".join(facts["command"]) + "`" if facts["command"] else "",
    ]
    good = facts["converged"]
    badge = ("converged" if good else f"not converged: {facts['reason'].replace('_', ' ')}", bool(good))
    heading = title or facts.get("file") or "A solve"
    write(path, heading, _summary(facts), sections, [line for line in foot if line], badge)


def _summary(facts: Mapping[str, Any]) -> list[str]:
    precond = facts["precond"]
    with_precond = "" if precond in ("none", facts["method"]) else f", preconditioned by {precond}"
    steps, took = report.plural(facts["iterations"], "iteration"), sum(facts["seconds"].values())
    lines = [
        f"{steps[0].upper() + steps[1:]} of {facts['method']}{with_precond}, in {report.seconds(took)}. The residual is"
        f" {report.residual(facts['residual_norm'])}, recomputed"
        + (f"; {facts['rtol']:.0e} was asked for." if facts.get("rtol") is not None else "."),
        f"{report.plural(facts['unknowns'], 'unknown')}, "
        + (f"{report.plural(facts['nonzeros'], 'nonzero')}, " if facts["nonzeros"] else "")
        + f"{facts['scalar']}; {report.plural(facts['ranks'], 'rank')} x {report.plural(facts['threads'], 'thread')},"
        f" {facts['device']}.",
    ]
    lines += [text for text in (facts["detail"],) if text]
    lines += [f"Advice: {text}" for text in (facts["advice"],) if text]
    return lines + [f"Warning: {text}" for text in facts["warnings"]]


def _begins(choice: str) -> list[tuple[int, str]]:
    """The iteration after which each attempt but the first begins."""
    begin, found = 0, []
    for k, text in enumerate(_progress.attempts(choice)):
        if k:
            found.append((begin, f"attempt {k + 1}"))
        steps = re.search(r"\((\d[\d,]*) iterations?[,)]", text)
        if steps is None:
            break
        begin += int(steps[1].replace(",", ""))
    return found


def _convergence(facts: Mapping[str, Any]) -> Section:
    history = [r for r in facts["history"] if r is not None]
    marks = [(k, text) for k, text in _begins(facts["choice"]) if k < len(history)]
    picture = _svg.convergence([("", history)], facts.get("rtol"), facts["residual_norm"], marks, height=260)
    text = "The residual of the recurrence, relative to b; the ring is |b - A x| / |b|, recomputed at the end."
    if len(facts.get("columns", ())) > 1:
        text += " Of the right-hand side that took most iterations."
    return Section("Convergence", [text] if picture else ["No residual was recorded."], svg=picture)


def _tried(facts: Mapping[str, Any]) -> Section:
    tried = _progress.attempts(facts["choice"])
    if not tried:
        rest = ", with what the warnings say." if facts["warnings"] else "; nothing else was tried."
        return Section("What was tried", ["One method" + rest])
    rows, first = [], 1
    for text in tried:
        several = re.match(r"(\d+) more attempts", text)
        last = first + (int(several[1]) if several else 1) - 1
        rows.append((f"{first}" if first == last else f"{first} to {last}", text))
        first = last + 1
    return Section("What was tried", head=("", "method, and how it ended"), rows=rows, words=2)


def _columns(facts: Mapping[str, Any]) -> list[Section]:
    columns = facts.get("columns") or []
    rows = [
        (str(i), c["reason"].replace("_", " "), report.count(c["iterations"]), report.residual(c["residual_norm"]))
        for i, c in enumerate(columns)
    ]
    if len(rows) > 20:
        rows = [row for row, c in zip(rows, columns, strict=True) if not c["converged"]][:20] or rows[:20]
    head = ("right-hand side", "ended", "iterations", "residual")
    return [Section("Right-hand sides", head=head, rows=rows, words=2)] if rows else []


def _times(facts: Mapping[str, Any], trace: Sequence[Any] | None) -> list[Section]:
    names = {"read": "reading the file", "setup": "setting up", "solve": "solving", "explain": "looking for the cause"}
    phases = [(names.get(k, k), float(v)) for k, v in facts["seconds"].items() if v]
    sections = [Section("Time by phase", bars=_bars(phases))]
    if trace:
        kinds = [(part.name, part.seconds) for part in _traffic.parts(trace) if part.seconds > 0]
        text = "Of the first rank's main thread, from the trace; set-up and solve together."
        sections.append(Section("Time by kind of work", [text], bars=_bars(kinds)))
    return sections


def _bars(rows: Sequence[tuple[str, float]]) -> list[tuple[str, float, str]]:
    return [(name, value, report.seconds(value)) for name, value in rows]


def _moved(facts: Mapping[str, Any], trace: Sequence[Any] | None) -> Section:
    title = "Traffic against the floor"
    if not trace:
        return Section(title, ["Bytes are counted by `trace=True` of tacit.solve; this solve was not traced."])
    speed = _traffic.bandwidth(facts["threads"])
    rows = []
    for part in _traffic.parts(trace):
        if part.bytes == 0:
            continue
        floor = part.bytes / speed
        ratio = f"{part.seconds / floor:.2f}" if floor > 0 else ""
        rows.append((part.name, report.size(part.bytes), report.seconds(part.seconds), report.seconds(floor), ratio))
    text = [
        f"No kernel can take less time than its bytes need from memory: {speed / 1e9:.1f} GB/s, just now measured with"
        f" {report.plural(facts['threads'], 'thread')}. A factor near 1 is as fast as memory allows; below 1 the data"
        " stayed in a cache; far above 1 something else limits, such as short rows or waiting.",
    ]
    head = ("kind of work", "moved", "took", "floor", "x floor")
    return Section(title, text if rows else ["No kernel with counted bytes ran."], head=head, rows=rows)


def _work(facts: Mapping[str, Any]) -> Section:
    counts = facts["counts"]
    names = {
        "operator_applies": "products with A",
        "preconditioner_applies": "products with the preconditioner",
        "reductions": "reductions over all ranks",
        "exchanges": "halo exchanges of the first rank",
        "messages": "messages of all ranks",
    }
    rows = [(text, report.count(counts[name])) for name, text in names.items()]
    rows.append(("bytes of these messages", report.size(counts["bytes"])))
    return Section("Work and communication", head=("", "count"), rows=rows)
