"""Figures of a multigrid solve: the solution, the final residual, the residual by cycle, the time by level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.plot import plotting

# Operations in the order of a cycle, with their names in a figure.
OPERATIONS = (
    ("down", "smooth, residual, restriction in one pass"),
    ("up", "interpolation, smooth in one pass"),
    ("smooth", "smooth"),
    ("residual_and_restriction", "residual, restriction"),
    ("interpolation", "interpolation"),
    ("exchange", "ghost exchange"),
    ("move", "to fewer ranks"),
    ("bottom", "bottom"),
)


def _plane(grid: Any) -> Any:
    """A plane of two axes: the middle one of three, with the last axis upwards."""
    import numpy as np

    if grid.ndim == 3:
        grid = grid[:, grid.shape[1] // 2, :]
    return np.atleast_2d(grid).T


def _image(panel: Any, values: Any, title: str, **colours: Any) -> None:
    aspect = "auto" if values.shape[0] == 1 else "equal"
    image = panel.imshow(values, origin="lower", extent=(0, 1, 0, 1), aspect=aspect, **colours)
    panel.figure.colorbar(image, ax=panel, shrink=0.9)
    panel.grid(False)
    panel.set(title=title, xlabel="x")


def overview(facts: dict[str, Any], solution: Any, residual: Any, path: str | Path) -> None:
    """Four panels: solution, log10 of the residual's magnitude, residual by cycle, seconds by level and operation.

    `solution`, `residual`: arrays of the domain's shape, NaN where there is no cell.
    """
    import numpy as np

    with plotting.drawing(path, 10.0, 7.6) as made:
        panels = made.subplots(2, 2)
        shape = " x ".join(map(str, facts["shape"]))
        where = ", middle plane" if len(facts["shape"]) == 3 else ""
        u, left = _plane(solution), _plane(residual)
        most = float(np.nanmax(np.abs(u))) or 1.0
        signed = float(np.nanmin(u)) < 0
        colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -most, "vmax": most} if signed else {"cmap": "viridis"}
        _image(panels[0, 0], u, f"{facts['problem']}, {shape}: solution{where}", **colours)
        with np.errstate(divide="ignore"):
            shown = np.log10(np.maximum(np.abs(left), 1e-300) / max(float(facts.get("b_norm") or 1.0), 1e-300))
        low, high = np.nanpercentile(shown, [2, 100])
        _image(
            panels[0, 1], shown, r"$\log_{10}|f - A u|$ at the end", cmap="magma", vmin=max(low, high - 6), vmax=high
        )
        for panel in panels[0]:
            panel.set_ylabel("z" if len(facts["shape"]) == 3 else "y")
        history = np.asarray(facts["history"], float)
        panels[1, 0].semilogy(
            np.arange(len(history)), np.maximum(history, 1e-300), "o-", color=plotting.COLOURS[0], markersize=4
        )
        step = "cycle" if "method" not in facts else f"iteration of {facts['method']}"
        title = f"{facts['cycles']} {facts['cycle']}-cycles, bottom {facts['bottom']}"
        panels[1, 0].set(title=title, xlabel=step, ylabel=f"|r| / |f|, {facts['norm']} norm")
        names = ["x".join(str(c) for c in level["cells"][: len(facts["shape"])]) for level in facts["levels"]]
        below = np.zeros(len(names))
        for colour, (key, name) in zip((*plotting.COLOURS, "#777777"), OPERATIONS, strict=True):
            heights = np.array([1e3 * level["seconds"][key] for level in facts["levels"]])
            if heights.sum() > 0:
                panels[1, 1].bar(names, heights, bottom=below, color=colour, label=name, width=0.7)
            below += heights
        title = f"{facts['seconds']['solve']:.3g} s by level and operation"
        panels[1, 1].set(title=title, ylabel="milliseconds of the solve")
        panels[1, 1].tick_params(axis="x", rotation=30)
        panels[1, 1].legend(fontsize=8, loc="best")
