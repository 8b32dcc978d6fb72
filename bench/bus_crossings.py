"""Capacitances of crossing wires, FastCap's test problem, beside the published ones.

    python bench/bus_crossings.py [--wires 1 2 4] [--cells 4 6] [--tolerance 1e-5] [--json FILE]

k parallel wires cross k others above them. Cross-sections are 1 m x 1 m, gaps 1 m in a layer and between the two, and a wire
is 2 k + 1 m long. Published, in pF, the row of an outer wire:

k = 1, 2  the manual of FastCap 2.0, K. Nabors, S. Kim, J. White and S. Senturia, FastCap user's guide, MIT 1992 ("Modifying the
          discretization"; "Bus crossing problem", busgen -n7)
k = 4     K. Nabors and J. White, FastCap: a multipole accelerated 3-D capacitance extraction program, IEEE Transactions on
          Computer-Aided Design of Integrated Circuits and Systems 10 (11), 1991, the table of the 4 x 4 conductor
          problem, row "direct". (Its footnote says five metres for the length, which is that of k = 2.)

"their panels": collocation on FastCap's division, in which each face of a section of 1 m has `--panels` x `--panels`
panels (3 in the article), those at its edges a tenth as wide, here of two triangles each. "graded": Galerkin's method on
a mesh that has `--cells` in a metre and is finer towards the edges of the wires. "limit": of the last two of these, with
the order 2.4 that these elements have on such meshes of a cube (docs/notes/bem.md).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import harness
from tacit.app import bem

PUBLISHED = {
    1: [143.0, -61.69],
    2: [248.2, -85.18, -48.61, -48.61],
    4: [404.6, -137.0, -12.04, -7.910, -48.42, -40.09, -40.09, -48.42],
}
ORDER = 2.4


def box(x: Any, y: Any, z: Any) -> bem.Mesh:
    """The surface of a box, each face divided at the coordinates given, into two triangles a rectangle."""
    number = np.arange(len(x) * len(y) * len(z)).reshape(len(x), len(y), len(z))
    quads = []
    for axis, side in ((axis, side) for axis in range(3) for side in (0, -1)):
        face = np.take(number, side, axis)
        quad = np.stack([face[:-1, :-1], face[1:, :-1], face[1:, 1:], face[:-1, 1:]], -1).reshape(-1, 4)
        quads.append(quad if (side == -1) != (axis == 1) else quad[:, ::-1])  # normals point outwards
    used, corners = np.unique(np.concatenate(quads), return_inverse=True)
    places = np.stack(np.meshgrid(x, y, z, indexing="ij"), -1).reshape(-1, 3)[used]
    corners = corners.reshape(-1, 4)
    return bem.Mesh(places, np.concatenate([corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]]))


def panels(metres: int, count: int) -> Any:
    """The divisions of a length in FastCap's way: sections of a metre, their outer panels a tenth of the inner ones."""
    width = 1 / (count - 2 + 0.2)
    section = np.concatenate([[0], 0.1 * width + width * np.arange(count - 1)])
    return np.append((np.arange(metres)[:, None] + section).ravel(), metres)


def graded(metres: int, count: int) -> Any:
    """`count` cells in a metre, smaller towards both ends of the length."""
    end = 2 * (np.arange(count // 2) / count) ** 2
    return np.concatenate([end, np.linspace(0.5, metres - 0.5, (metres - 1) * count + 1), metres - end[::-1]])


def crossing(wires: int, divided: Any) -> bem.Mesh:
    """Wires 0 .. k - 1 along y below, then k .. 2 k - 1 along x above."""
    length = 2 * wires + 1
    made = None
    for wire in range(2 * wires):
        across, along = divided(1) + 1 + 2 * (wire % wires), divided(length)
        layer = divided(1) + 2 * (wire // wires)
        one = box(across, along, layer) if wire < wires else box(along, across, layer)
        made = one if made is None else made.joined(one)
    return made


def row_of(mesh: bem.Mesh, tolerance: float, **options: Any) -> dict[str, Any]:
    begin = time.process_time()
    found = bem.assemble(mesh, tolerance=tolerance, **options).capacitance(rtol=1e-6)
    seconds = time.process_time() - begin
    return {
        "triangles": len(mesh),
        "row": [float(v) for v in 1e12 * found.farads[0]],
        "asymmetry": float(found.asymmetry),
        "iterations": int(found.iterations),
        "processor_seconds": seconds,
    }


def show(what: str, row: dict[str, Any], published: Any) -> None:
    values = " ".join(f"{v:8.4g}" for v in row["row"])
    worst = 100 * np.abs(np.array(row["row"]) - published).max() / published[0]
    row["from_published"] = float(worst) / 100
    more = f"{row['triangles']} triangles, {row['processor_seconds']:.1f} processor s" if "triangles" in row else ""
    print(f"  {what:14} {values}  {worst:5.2f} %  {more}", flush=True)


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--wires", type=int, nargs="+", choices=PUBLISHED, default=list(PUBLISHED))
    parser.add_argument("--cells", type=int, nargs="+", default=[4, 6], help="of a metre, even numbers")
    parser.add_argument("--panels", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    o = parser.parse_args()
    if odd := [cells for cells in o.cells if cells < 2 or cells % 2]:
        parser.error(f"--cells {odd[0]}; even numbers from 2 on are needed")
    rows = []
    for wires in o.wires:
        published = np.array(PUBLISHED[wires])
        print(f"{wires} x {wires}: C_11, C_12, .. in pF; the largest difference from the published row, over C_11")
        print(f"  {'published':14} {' '.join(f'{v:8.4g}' for v in published)}")
        kinds = {"their panels": (lambda metres: panels(metres, o.panels), {})}
        kinds |= {
            f"graded, {c}": (lambda metres, c=c: graded(metres, c), {"discretisation": "galerkin"}) for c in o.cells
        }
        found = {}
        for kind, (divided, options) in kinds.items():
            found[kind] = row_of(crossing(wires, divided), o.tolerance, **options)
            show(kind, found[kind], published)
        if len(o.cells) > 1:
            before, last = (np.array(found[f"graded, {c}"]["row"]) for c in o.cells[-2:])
            ratio = (o.cells[-1] / o.cells[-2]) ** ORDER
            found["limit"] = {"row": [float(v) for v in last + (last - before) / (ratio - 1)]}
            show("limit", found["limit"], published)
        rows.append({"wires": wires, "published": PUBLISHED[wires], "found": found})
    harness.write(o.json, "bus_crossings/1", tolerance=o.tolerance, rows=rows)


if __name__ == "__main__":
    main()
