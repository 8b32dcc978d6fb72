"""A figure of algebraic multigrid: unknowns, entries and seconds by level."""

from __future__ import annotations

import os
from typing import Any

from tacit import report
from tacit.plot import plotting


def levels(facts: dict[str, Any], path: str | os.PathLike[str], title: str = "") -> None:
    """Three panels, from a preconditioner's report: unknowns and entries of each level on logarithmic axes, the sum of
    entries over those of the matrix from level to level (its end is the operator complexity), and the seconds of
    set-up and cycles of each level. Local.
    """
    import numpy as np

    every = facts["levels"]
    where = np.arange(len(every))
    rows, entries = (np.array([level[key] for level in every], float) for key in ("rows", "entries"))
    ranks = [level["ranks"] for level in every]
    with plotting.drawing(path, 11.0, 3.9) as made:
        sizes, complexity, times = made.subplots(1, 3)
        for values, name, colour in ((entries, "entries", 0), (rows, "unknowns", 1)):
            sizes.semilogy(where, np.maximum(values, 1), "o-", color=plotting.COLOURS[colour], label=name, markersize=5)
        for i, value in enumerate(rows):
            sizes.annotate(
                report.count(value), (i, max(value, 1)), xytext=(0, -13), textcoords="offset points", ha="center",
                fontsize=7.5, color=plotting.COLOURS[1],
            )  # fmt: skip
        sizes.margins(x=0.12, y=0.12)
        sizes.minorticks_off()
        sizes.legend(loc="upper right")
        sizes.set_title("unknowns and entries")
        for values, name, colour in ((entries, "entries", 0), (rows, "unknowns", 1)):
            share = np.cumsum(values) / max(values[0], 1)
            complexity.plot(where, share, "o-", color=plotting.COLOURS[colour], label=name, markersize=5)
            complexity.annotate(
                f"{share[-1]:.2f}", (where[-1], share[-1]), xytext=(6, 0), textcoords="offset points", va="center",
                fontsize=9, color=plotting.COLOURS[colour],
            )  # fmt: skip
        complexity.set_ylim(bottom=0.98)
        complexity.margins(x=0.15)
        complexity.legend(loc="best")
        complexity.set_title("sum over levels / level 0")
        bars = (("setup_seconds", "set-up", 0), ("seconds", report.plural(facts["cycles"], "cycle"), 1))
        for k, (key, name, colour) in enumerate(bars):
            values = 1e3 * np.array([level[key] for level in every])
            label = f"{name}: {report.seconds(values.sum() / 1e3)}"
            times.bar(where + 0.4 * k - 0.2, values, 0.38, color=plotting.COLOURS[colour], label=label)
        times.legend(loc="upper right")
        times.set(ylabel="milliseconds", title="time, first rank" if max(ranks, default=1) > 1 else "time")
        for panel in (sizes, complexity, times):
            panel.set(xlabel="level", xticks=where)
        if max(ranks, default=1) > 1:
            sizes.set_xticks(where, [f"{i}\n{r} ranks" if r != 1 else f"{i}\n1 rank" for i, r in enumerate(ranks)])
        if title:
            plotting.heading(made, title)
