"""Pictures and the page of a reconstructed scan."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit import report

from . import plotting
from .page import Section, write


def _levels(values: Any) -> dict[str, Any]:
    """Black and white at the 0.5 and 99.5 percentiles."""
    finite = np.asarray(values)[np.isfinite(values)]
    low, high = np.percentile(finite, (0.5, 99.5)) if finite.size else (0.0, 1.0)
    return {"cmap": "gray", "vmin": float(low), "vmax": float(max(high, low + 1e-30)), "interpolation": "nearest"}


def _show(panel: Any, values: Any, title: str, **how: Any) -> Any:
    shown = panel.imshow(values, **how)
    panel.set_title(title, fontsize=9.5)
    panel.set(xticks=[], yticks=[])
    panel.grid(False)
    return shown


def detail(image: Any) -> tuple[slice, slice]:
    """Where a quarter of an image has the strongest edges, off the rim of what projections see."""
    n = min(image.shape)
    size = max(8, n // 4)
    steep = np.hypot(*np.gradient(np.asarray(image, np.float64)))
    best, at = -1.0, (0, 0)
    for row in range(n // 8, image.shape[0] - size - n // 8 + 1, max(1, size // 4)):
        for column in range(n // 8, image.shape[1] - size - n // 8 + 1, max(1, size // 4)):
            if (value := float(steep[row : row + size, column : column + size].sum())) > best:
                best, at = value, (row, column)
    return slice(at[0], at[0] + size), slice(at[1], at[1] + size)


def axis_strip(strip: Sequence[tuple[float, Any]], path: str | Path) -> None:
    """Images about trial axes, the middle one that which was taken, each with a detail below it."""
    middle = len(strip) // 2
    here = detail(strip[middle][1])
    how = _levels(strip[middle][1])
    with plotting.drawing(path, 1.9 * len(strip), 4.2) as made:
        panels = made.subplots(2, len(strip))
        for k, (axis, image) in enumerate(strip):
            taken = f"axis {axis:.2f}" if k == middle else f"{axis - strip[middle][0]:+g} bins"
            _show(panels[0, k], image, taken, **how)
            _show(panels[1, k], image[here], "", **how)
        for side in panels[0, middle].spines.values():
            side.set(visible=True, color="#00734f", linewidth=2.5)


def images(slices: Mapping[int, Any], path: str | Path) -> None:
    """Some slices, each with a bar of its values."""
    with plotting.drawing(path, 3.9 * len(slices), 3.6) as made:
        panels = made.subplots(1, len(slices), squeeze=False)[0]
        for panel, (at, image) in zip(panels, sorted(slices.items()), strict=True):
            made.colorbar(_show(panel, image, f"slice {at}", **_levels(image)), ax=panel, shrink=0.8)


def sinograms(given: Any, prepared: Any, residual: Any, path: str | Path) -> None:
    """The sinogram before and after repairs, what was changed, and the residual."""
    how = _levels(prepared)
    changed = np.asarray(prepared) - np.asarray(given)
    panels_of = [(given, "as it was", how), (prepared, "repaired", how)]
    most = float(np.nanpercentile(np.abs(changed), 99.5)) or float(np.nanmax(np.abs(changed))) or 1e-30
    panels_of.append((changed, "repaired - as it was", {"cmap": "RdBu_r", "vmin": -most, "vmax": most}))
    if residual is not None:
        most = float(np.nanpercentile(np.abs(residual), 99.5)) or 1e-30
        panels_of.append((residual, "residual b - A x", {"cmap": "RdBu_r", "vmin": -most, "vmax": most}))
    with plotting.drawing(path, 3.3 * len(panels_of), 3.3) as made:
        panels = made.subplots(1, len(panels_of))
        for panel, (values, title, look) in zip(panels, panels_of, strict=True):
            look = {"interpolation": "nearest"} | look
            made.colorbar(_show(panel, values, title, aspect="auto", **look), ax=panel, shrink=0.8)
            panel.set(xlabel="bin")
        panels[0].set(ylabel="projection")


def _embedded(draw: Any, *arguments: Any, alt: str) -> str:
    """A picture as part of the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        draw(*arguments, path)
        data = base64.b64encode(path.read_bytes()).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{alt}">'


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers, default=0), max(numbers, default=0)
    return f"{low}" if low == high else f"{low} to {high}"


def _done(facts: Mapping[str, Any]) -> list[list[str]]:
    how = facts["preparation"]
    phase = how["phase"]
    scale = facts["scale"]
    values = "32 bits, as they are"
    if scale["range"] is not None:
        low, high = scale["range"]
        values = f"{scale['bits']} bits, from {low:.6g} to {high:.6g}; {scale['outside']:.2%} outside"
    shares = facts["noise"]
    rows = [
        ["zingers", f"{how['zingers']:g} standard deviations" if how["zingers"] else "none"],
        ["dead bins and gaps", how["dead"]],
        ["phase", "none" if phase is None else ", ".join(f"{k} {v:g}" for k, v in phase.items())],
        ["rings", how["rings"] + (f", {how['ring_width']} bins" if how["rings"] != "none" else "")],
        ["half acquisition", "yes" if facts["half_acquisition"] else "no"],
        ["computed image", " x ".join(map(str, facts["computed_shape"])) + " pixels"],
        ["method", facts["method"]],
        ["iterations", _span(facts["iterations"])],
        ["ended by", ", ".join(sorted(set(facts["reasons"])))],
        ["noise / line integrals", f"{min(shares):.2%} to {max(shares):.2%}" if shares else "not known"],
        ["values in the file", values],
    ]
    return rows


def write_page(path: str | os.PathLike[str], facts: Mapping[str, Any], views: Any) -> None:
    """The page of a scan: slices, the axis, sinograms and residual, and what was done to the numbers."""
    axis = f"{facts['centre']:.2f}"
    if facts["centre_uncertainty"] is not None:
        axis += f" +- {facts['centre_uncertainty']:.2g} bins, by {facts['centre_method']}"
    made = []
    if views.images:
        alt = "reconstructed slices"
        made.append(Section("Slices", svg=_embedded(images, views.images, alt=alt)))
    if views.strip:
        said = (
            f"Slice {views.at} by filtered back-projection about axes beside the one taken, {axis}. Where the axis is"
        )
        said += " wrong, edges are double or open to one side."
        made.append(Section("Axis", [said], svg=_embedded(axis_strip, views.strip, alt="images about trial axes")))
    shown = _embedded(sinograms, views.given, views.prepared, views.residual, alt="sinograms and residual")
    made.append(Section(f"Sinogram of slice {views.at}", svg=shown))
    sentences = [*facts["prepared"], *facts["advice"]]
    made.append(Section("What was done", sentences, head=["stage", "how"], rows=_done(facts), words=2))
    if facts["warnings"]:
        made.append(Section("Warnings", facts["warnings"]))
    rows, columns = facts["image_shape"]
    text = [
        f"{facts['slices']} slices of {rows} x {columns} pixels from {facts['angles']} projections of"
        f" {facts['detectors']} bins; axis at {axis}."
    ]
    good = facts["reason"] == "done"
    foot = [f"`{' '.join(facts['command'])}`" if "command" in facts else "", f"tacit {report.version()}"]
    write(path, str(facts["scan"]), text, made, [line for line in foot if line], (facts["reason"], good))
