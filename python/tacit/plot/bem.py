"""Views of the charge on a body."""

from __future__ import annotations

import os
from typing import Any

from tacit.plot import plotting

# The direction of each view, as angles around the vertical axis (from the second axis) and above the horizon.
VIEWS = ((0.55, 0.25), (0.55 + 3.1416, 0.25))


def _turned(points: Any, up: str, turn: float, rise: float) -> Any:
    """Points in the coordinates of a view: to the right, upwards, and towards the viewer."""
    import numpy as np

    order = {"z": (0, 1, 2), "y": (2, 0, 1), "x": (1, 2, 0)}[up]  # a right-handed system with `up` last
    x, y, z = (points[..., axis] for axis in order)
    right, depth = x * np.cos(turn) + y * np.sin(turn), x * np.sin(turn) - y * np.cos(turn)
    return np.stack([right, z * np.cos(rise) - depth * np.sin(rise), depth * np.cos(rise) + z * np.sin(rise)], axis=-1)


def _range(density: Any, areas: Any) -> tuple[float, float, str]:
    """The least and the largest density of the colours, and the name of the map."""
    import numpy as np

    # Weighted by area, so that the colour range is not set by small triangles at edges, where the density is unbounded.
    order = np.argsort(density)
    share = np.cumsum(areas[order]) / areas.sum()
    ends = np.minimum(np.searchsorted(share, [0.01, 0.99]), len(order) - 1)
    low, high = map(float, density[order[ends]])
    if low < -0.02 * high or high < -0.02 * low:
        return -max(-low, high), max(-low, high), "RdBu_r"
    return 0.0, high if high > 0 else 1.0, "viridis"


def charges(
    corners: Any,
    areas: Any,
    density: Any,
    path: str | os.PathLike[str],
    up: str = "z",
    *,
    solid: bool,
    potential: Any,
    charge: Any,
) -> None:
    """Plots two opposite views of the charge density, with triangles drawn from back to front and shaded by
    orientation.

    `corners` (n, 3, 3), `areas` and `density` are those of the triangles, `potential` and `charge` those of the
    conductors. `solid`: triangles are oriented outwards, and those that face away from the viewer are left out.
    """
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    density = np.asarray(density, dtype=float)
    low, high, name = _range(density, areas)
    shades = Normalize(low, high)
    colours = colormaps[name](shades(density))
    views = [_turned(corners, up, turn, rise) for turn, rise in VIEWS]
    sides = [np.ptp(seen[..., :2], axis=(0, 1)) for seen in views]
    shapes = [float(np.clip(side[0] / max(side[1], 1e-300), 0.3, 3)) for side in sides]
    with plotting.drawing(path, float(np.clip(1.6 + 4.8 * sum(shapes), 7.0, 14.0)), 5.4) as made:
        panels = made.subplots(1, 2, width_ratios=shapes)
        for panel, seen in zip(panels, views, strict=True):
            normal = np.cross(seen[:, 1] - seen[:, 0], seen[:, 2] - seen[:, 0])
            towards = np.abs(normal[:, 2]) / np.maximum(np.linalg.norm(normal, axis=1), 1e-300)
            front = np.arange(len(seen))
            if solid:
                front = front[normal[:, 2] > 0]
            front = front[np.argsort(seen[front, :, 2].mean(axis=1), kind="stable")]
            shaded = colours[front].copy()
            shaded[:, :3] *= (0.45 + 0.55 * towards[front])[:, None]
            look = {"facecolors": shaded, "edgecolors": shaded, "linewidths": 0.15, "antialiased": True}
            panel.add_collection(PolyCollection(seen[front, :, :2], **look))
            panel.set_aspect("equal")
            panel.autoscale_view()
            panel.set_axis_off()
        volts = ", ".join(f"{v:.4g}" for v in potential[:4]) + (", .." if len(potential) > 4 else "")
        total = ", ".join(f"{q:.6g}" for q in charge[:4]) + (", .." if len(charge) > 4 else "")
        held = f"at {volts} V\ncharge {total} × 4πε₀ V u" if len(potential) else "between dielectrics"
        made.suptitle(f"{len(corners):,} triangles {held}", fontsize=11)
        beyond = float(density.min()) < low, float(density.max()) > high
        extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[beyond]
        bar = made.colorbar(
            ScalarMappable(norm=shades, cmap=name), ax=panels, shrink=0.8, pad=0.02, extend=extend, format="%.3g"
        )
        bar.outline.set_visible(False)
        bar.set_label("charge density, ε₀ V/u")


def section(
    u: Any, v: Any, potential: Any, outlines: Any, path: str | os.PathLike[str], names: Any, place: str, unit: str
) -> None:
    """Plots the potential in a plane, on a grid of coordinates u and v: colours, contours, and outlines of bodies.

    `names` are those of the axes along u and v; `place` says where the plane is.
    """
    import numpy as np
    from matplotlib.collections import LineCollection
    from matplotlib.ticker import MaxNLocator

    low, high = float(potential.min()), float(potential.max())
    signed = low < -0.02 * high or high < -0.02 * low
    most = max(-low, high)
    ends = (-most, most) if signed else (min(low, 0.0), max(high, 0.0))
    if ends[0] == ends[1]:
        ends = (0.0, 1.0)
    shape = float(np.clip(np.ptp(u) / np.ptp(v), 0.3, 3))
    with plotting.drawing(path, float(np.clip(2.2 + 5.0 * shape, 5.0, 14.0)), 5.4) as made:
        panel = made.subplots()
        look: Any = {"levels": np.linspace(*ends, 61), "cmap": "RdBu_r" if signed else "viridis"}
        filled = panel.contourf(u, v, potential, **look)
        panel.contour(u, v, potential, levels=np.linspace(*ends, 21), colors="k", linewidths=0.4, alpha=0.6)
        panel.add_collection(LineCollection(outlines, colors="k", linewidths=1.6))
        panel.set_aspect("equal")
        panel.set_xlabel(f"{names[0]} ({unit})")
        panel.set_ylabel(f"{names[1]} ({unit})")
        panel.set_title(place, fontsize=11)
        ticks = np.asarray(MaxNLocator(7).tick_values(*ends))
        ticks = ticks[(ticks >= ends[0]) & (ticks <= ends[1])]
        bar = made.colorbar(filled, ax=panel, shrink=0.85, pad=0.02, format="%.3g", ticks=ticks)
        bar.outline.set_visible(False)
        bar.set_label("potential, V")


def near_field(u: Any, v: Any, field: Any, path: str | os.PathLike[str], names: Any, place: str, unit: str) -> None:
    """Plots the real part and the magnitude of a complex field in a plane; NaN within bodies, which stay grey."""
    import numpy as np

    shown = np.ma.masked_invalid(field.real), np.ma.masked_invalid(np.abs(field))
    shape = float(np.clip(np.ptp(u) / np.ptp(v), 0.3, 3))
    with plotting.drawing(path, float(np.clip(2.6 + 9.0 * shape, 7.0, 15.0)), 5.0) as made:
        panels = made.subplots(1, 2)
        for panel, values, title in zip(panels, shown, ("real part", "magnitude"), strict=True):
            most = float(np.abs(values).max())
            look: Any = {"cmap": "RdBu_r", "vmin": -most, "vmax": most} if title == "real part" else {"vmin": 0.0}
            panel.set_facecolor("0.6")
            ends = (float(u[0]), float(u[-1]), float(v[0]), float(v[-1]))
            drawn = panel.imshow(values, origin="lower", extent=ends, interpolation="bilinear", **look)
            panel.set_xlabel(f"{names[0]} ({unit})")
            panel.set_ylabel(f"{names[1]} ({unit})")
            panel.set_title(f"{title}, {place}", fontsize=11)
            bar = made.colorbar(drawn, ax=panel, shrink=0.8, pad=0.02, format="%.3g")
            bar.outline.set_visible(False)
