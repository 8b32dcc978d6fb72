"""Figures of `tacit demo`: reductions, two coarsest-level solvers, a reconstructed slice, simulated scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.plot import plotting

HIDDEN = "#9fc5e8"


def reductions(counts: Mapping[str, tuple[int, bool]], path: str | Path, title: str) -> None:
    """A bar chart of the reductions of each method's solve, which also shows whether products hide them."""
    from matplotlib.patches import Patch

    with plotting.drawing(path, 9.2, 0.8 + 0.42 * len(counts)) as made:
        panel = made.subplots()
        names = list(counts)[::-1]
        colours = [HIDDEN if counts[name][1] else plotting.COLOURS[0] for name in names]
        bars = panel.barh(names, [counts[name][0] for name in names], color=colours, height=0.65)
        panel.bar_label(bars, fmt="%d", padding=3, fontsize=9)
        panel.grid(False)
        panel.spines[["bottom", "left"]].set_visible(False)
        panel.tick_params(length=0)
        panel.set(title=title, xticks=[])
        kinds = [
            Patch(color=plotting.COLOURS[0], label="waited for"),
            Patch(color=HIDDEN, label="hidden behind products"),
        ]
        panel.legend(handles=kinds, loc="lower right")


def bottoms(solution: Any, runs: Mapping[str, tuple[Sequence[float], int]], path: str | Path) -> None:
    """A plane of the solution; residual by cycle and reductions of each solver of the coarsest level."""
    import numpy as np

    with plotting.drawing(path, 11.0, 3.6) as made:
        field, fall, bars = made.subplots(1, 3, width_ratios=[1.05, 1.2, 0.9])
        most = float(np.abs(solution).max())
        image = field.imshow(solution.T, origin="lower", extent=(0, 1, 0, 1), cmap="RdBu_r", vmin=-most, vmax=most)
        field.set_title("solution, middle plane")
        field.grid(False)
        made.colorbar(image, ax=field, shrink=0.85)
        for k, (name, (history, _)) in enumerate(runs.items()):
            marker = {"marker": "o" if k == 0 else "x", "markersize": 8 if k == 0 else 6}
            fall.semilogy(
                history, plotting.STYLES[k], color=plotting.COLOURS[k], label=name, fillstyle="none", **marker
            )
        fall.set(title="the same convergence", xlabel="cycle", ylabel="|f − A u| / |f|, largest")
        fall.legend(title="coarsest level by")
        counts = [count for _, count in runs.values()]
        shown = bars.bar(list(runs), counts, color=plotting.COLOURS[: len(counts)], width=0.6)
        bars.bar_label(shown, fmt="%d", fontsize=10)
        bars.set(title="reductions in all", yticks=[])
        bars.grid(False)
        bars.spines["left"].set_visible(False)


def slices(phantom: Any, sinogram: Any, image: Any, path: str | Path, error: float) -> None:
    """The phantom, its sinogram, the reconstructed slice, and their difference."""
    with plotting.drawing(path, 11.0, 3.4) as made:
        panels = made.subplots(1, 4)
        most = float(phantom.max())
        shown: tuple[tuple[Any, str, dict[str, Any]], ...] = (
            (phantom, "phantom", {"cmap": "gray", "vmin": 0, "vmax": most}),
            (sinogram, "noisy sinogram", {"cmap": "gray", "aspect": "auto"}),
            (image, "reconstructed slice", {"cmap": "gray", "vmin": 0, "vmax": most}),
            (image - phantom, f"difference, {error:.1%}", {"cmap": "RdBu_r", "vmin": -most / 2, "vmax": most / 2}),
        )
        for panel, (values, title, how) in zip(panels, shown, strict=True):
            panel.imshow(values, interpolation="nearest", **how)
            panel.set(title=title, xticks=[], yticks=[])
            panel.grid(False)
            for side in panel.spines.values():
                side.set_visible(False)
        panels[1].set_box_aspect(1)
        panels[1].set(xlabel="detector bin", ylabel="angle")


def scaling(ranks: Sequence[int], curves: Mapping[str, Sequence[float]], path: str | Path, title: str) -> None:
    """Simulated seconds of an iteration against ranks, with the line of a perfect speed-up."""
    with plotting.drawing(path, 7.4, 4.4) as made:
        panel = made.subplots()
        first = next(iter(curves.values()))
        ideal = [1e6 * first[0] * ranks[0] / r for r in ranks]
        panel.loglog(ranks, ideal, color="#999999", linestyle=(0, (4, 3)), linewidth=1, label="perfect speed-up")
        for k, (name, seconds) in enumerate(curves.items()):
            panel.loglog(ranks, [1e6 * s for s in seconds], "o-", color=plotting.COLOURS[k], markersize=4, label=name)
        panel.set_xticks(ranks, [str(r) for r in ranks])
        panel.minorticks_off()
        panel.set_ylim(bottom=0.5 * min(1e6 * min(seconds) for seconds in curves.values()))
        panel.set(title=title, xlabel="simulated ranks", ylabel="simulated microseconds an iteration")
        panel.legend()
