"""Figures: convergence, and fields on a plane. Drawn without a display."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import report

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Values = npt.NDArray[Any]

# Colours that people with any colour vision can tell apart (M. Okabe, K. Ito, 2008), dark enough for thin lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")

_STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.6,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
}


@dataclass(frozen=True)
class Curve:
    """The convergence of one solve. `seconds[k]` is the time of `history[k]`; `verified` is the recomputed residual."""

    label: str
    history: Sequence[float] | Values
    seconds: Sequence[float] | None = None
    verified: float | None = None
    group: str = ""  # curves of one group have one line style, curves with one label one colour


def figure(width: float, height: float) -> Figure:
    """An empty figure that needs no display. ImportError says how to get matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


@contextlib.contextmanager
def drawing(path: str | os.PathLike[str], width: float, height: float) -> Iterator[Figure]:
    """A figure to be drawn on, which is then saved; all in the style of these plots."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        made = figure(width, height)
        yield made
        with report.replacing(path) as temporary:
            made.savefig(temporary, format=Path(path).suffix.removeprefix(".") or "png")


def heading(made: Figure, title: str) -> None:
    """Writes a title, often a file name: bytes that are not UTF-8 are escaped, and $ does not begin a formula."""
    shown = title.encode("utf-8", "backslashreplace").decode("utf-8")
    made.suptitle(shown, x=0.01, ha="left", fontsize=11.5, fontweight="bold", parse_math=False)


def _draw(axes: Axes, xs: Sequence[float], curve: Curve, colour: str, line: str) -> None:
    points = [(x, r) for x, r in zip(xs, curve.history, strict=False) if math.isfinite(r) and r > 0]
    if not points:
        return
    shown_x, shown_r = zip(*points, strict=True)
    marker = "o" if len(points) < 2 else None
    axes.plot(shown_x, shown_r, line, color=colour, marker=marker, markersize=3)
    if curve.verified is not None and math.isfinite(curve.verified) and curve.verified > 0:
        ring: dict[str, Any] = {"markersize": 5, "markerfacecolor": "white", "markeredgewidth": 1.4}
        axes.plot([shown_x[-1]], [curve.verified], "o", color=colour, **ring)


def _axes(axes: Axes, label: str, goal: float | None, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator

    axes.set(yscale="log", xlabel=label)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))  # numbers such as 0.0025 are wide
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.minorticks_off()
    values = [r for c in curves for r in (*c.history, c.verified or 0.0) if math.isfinite(r) and r > 0]
    if values:
        low, high = min([*values, goal] if goal else values), max(values)
        axes.set_ylim(low / 4, high * 4)
    if goal:
        axes.axhline(goal, color="#777777", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)


def _legend(names: list[str], groups: list[str], verified: bool) -> list[Any]:
    """The legend of colours, line styles and circles."""
    from matplotlib.lines import Line2D

    some = [Line2D([], [], color=COLOURS[k % len(COLOURS)], label=name) for k, name in enumerate(names)]
    if len(groups) > 1:
        some += [
            Line2D([], [], color="#444444", linestyle=STYLES[k % len(STYLES)], label=group)
            for k, group in enumerate(groups)
        ]
    if verified:
        ring: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markersize": 5, "linestyle": "none"}
        some.append(Line2D([], [], color="#444444", label="recomputed at the end", **ring))
    return some


def convergence(
    curves: Sequence[Curve], path: str | Path, *, title: str = "", goal: float | None = None, note: str = ""
) -> None:
    """Residual against iteration and, where the curves have times, against seconds; circles: recomputed residuals."""
    timed = all(curve.seconds is not None for curve in curves)
    names = list(dict.fromkeys(curve.label for curve in curves))
    groups = list(dict.fromkeys(curve.group for curve in curves))
    handles = _legend(names, groups, any(curve.verified is not None for curve in curves))
    rows = math.ceil(len(handles) / 4)
    with drawing(path, 9.2 if timed else 5.6, 3.9 + 0.2 * rows) as made:
        panels: list[Axes] = list(made.subplots(1, 2, sharey=True) if timed else [made.subplots()])
        for curve in curves:
            colour = COLOURS[names.index(curve.label) % len(COLOURS)]
            line = STYLES[groups.index(curve.group) % len(STYLES)]
            _draw(panels[0], range(len(curve.history)), curve, colour, line)
            if timed and curve.seconds is not None:
                _draw(panels[1], curve.seconds, curve, colour, line)
        _axes(panels[0], "iteration", goal, curves)
        panels[0].set_ylabel("relative residual  |b − A x| / |b|")
        if timed:
            _axes(panels[1], "seconds, set-up included", goal, curves)
        if goal:
            panels[0].annotate(
                f"asked for: {goal:.0e}", (0.0, goal), xycoords=("axes fraction", "data"), xytext=(4, -6),
                textcoords="offset points", ha="left", va="top", fontsize=8, color="#555555",
            )  # fmt: skip
        if title:
            heading(made, title)
        made.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), handlelength=2.4)
        if note:
            made.text(0.995, 0.99, note, ha="right", va="top", fontsize=8, color="#555555")


def field(
    values: Any,
    path: str | Path,
    *,
    title: str = "",
    label: str = "",
    note: str = "",
    axes: tuple[str, str] = ("x", "y"),
    lines: Any = None,
) -> None:
    """Plots values >= 0 on the unit square: values[i, j] at x = (j + 1/2) / n, y = (i + 1/2) / m. Colours are
    proportional to their square roots; `lines`, an array on the same square, is drawn by contour lines.
    """
    import numpy as np
    from matplotlib.colors import PowerNorm

    with drawing(path, 6.0, 5.2) as made:
        panel: Axes = made.subplots()
        panel.grid(False)
        shades = PowerNorm(0.5, vmin=0, vmax=float(np.max(values)))
        image = panel.imshow(
            values, origin="lower", extent=(0, 1, 0, 1), cmap="magma", norm=shades, interpolation="bicubic"
        )
        if lines is not None:
            m, n = lines.shape
            x, y = (np.arange(n) + 0.5) / n, (np.arange(m) + 0.5) / m
            most = float(np.abs(lines).max())
            levels = most * np.array([-0.95, -0.75, -0.5, -0.25, -0.08, 0.08, 0.25, 0.5, 0.75, 0.95])
            panel.contour(x, y, lines, levels=levels, colors=[(1, 1, 1, 0.3)], linewidths=0.7, linestyles="solid")
        panel.set(title=title, xlabel=axes[0], ylabel=axes[1])
        for side in panel.spines.values():
            side.set_visible(False)
        bar = made.colorbar(
            image, ax=panel, shrink=0.92, pad=0.02, ticks=[0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1], format="%g"
        )
        bar.outline.set_visible(False)
        bar.ax.minorticks_off()
        bar.set_label(label)
        if note:
            made.supxlabel(note, fontsize=8, color="#555555")
