"""Errors of boundary elements against closed forms, by mesh width, and the orders of convergence.

bench/bem_orders.py [--quick] [--only capacitance|laplace|dielectrics|scattering] [--json FILE] [--plot FILE.png]

capacitance   constant elements by collocation and Galerkin, and linear ones: sphere, prolate ellipsoid 2 : 1, two spheres
              that cross at right angles (2 - 1 / sqrt 2, by inversion), cube (Helsing and Perfekt 2013), disc (2 / pi)
laplace       the direct formulation outside of a sphere: Dirichlet and Neumann data of a charge within it
dielectrics   a sphere of permittivity 4 in a field, and a coated sphere
scattering    hard and soft spheres, k a = 1 to 10: the far field, by the norm over all angles, and the cross-section
              against the series of spherical waves; --plot draws far fields and series
"""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import harness
from tacit.app import bem

CUBE = 0.6606782
PROLATE = 1.3151907222


# --- bodies and closed forms ------------------------------------------------------------------------------------------


def disc(rings: int) -> tuple[Any, Any]:
    """Places (radius up to 1, angle) and triangles of a disc: ring i has 6 i points."""
    starts = [0] + [1 + 3 * i * (i - 1) for i in range(1, rings + 1)]
    places = [(0.0, 0.0)]
    triangles = []
    for i in range(1, rings + 1):
        places += [(i / rings, 2 * math.pi * j / (6 * i)) for j in range(6 * i)]
        for side in range(6):
            for j in range(i):
                here, there = starts[i] + (side * i + j), starts[i] + (side * i + j + 1) % (6 * i)
                below = starts[i - 1] + (side * (i - 1) + j) % max(1, 6 * (i - 1))
                triangles.append((below, here, there))
                if j < i - 1:
                    after = starts[i - 1] + (side * (i - 1) + j + 1) % (6 * (i - 1))
                    triangles.append((below, there, after))
    return np.array(places), np.array(triangles)


def plate(rings: int) -> bem.Mesh:
    """The unit disc; rings are closer near its rim, where the density is unbounded."""
    places, triangles = disc(rings)
    r, angle = 1 - (1 - places[:, 0]) ** 2, places[:, 1]
    return bem.Mesh(np.column_stack([r * np.cos(angle), r * np.sin(angle), 0 * r]), triangles)


def crossing_spheres(rings: int) -> bem.Mesh:
    """The surface of two unit spheres that cross at right angles."""
    places, triangles = disc(rings)
    theta, angle = places[:, 0] * 0.75 * math.pi, places[:, 1]
    height = math.sqrt(0.5) + np.cos(theta)
    height[places[:, 0] == 1] = 0
    upper = np.column_stack([np.sin(theta) * np.cos(angle), np.sin(theta) * np.sin(angle), height])
    lower = bem.Mesh(upper * [1, 1, -1], triangles[:, ::-1])
    return bem.Mesh(upper, triangles).joined(lower).mended()


def sphere_series(k: float, boundary: str, cosines: Any) -> Any:
    """The far field of the unit sphere in the plane wave exp(i k z), by the cosine of the angle from z: partial waves,

        f = (i / k) sum over n of (2 n + 1) r_n P_n(cos theta),

    r_n = j_n(k) / h_n(k) on a soft sphere, j_n'(k) / h_n'(k) on a hard one, with the spherical Hankel function
    h_n = j_n + i y_n of outgoing waves (Bowman, Senior, Uslenghi, Electromagnetic and acoustic scattering by simple
    shapes, 1969, chapter 10). The cross-section, (4 pi / k) Im f(1), is (4 pi / k^2) sum of (2 n + 1) |r_n|^2.
    """
    from scipy.special import eval_legendre, spherical_jn, spherical_yn

    total = np.zeros(np.shape(cosines), complex)
    for n in range(int(k + 8 * k ** (1 / 3) + 12)):
        j, y = (f(n, k, boundary == "hard") for f in (spherical_jn, spherical_yn))
        total += (2 * n + 1) * (j / (j + 1j * y)) * eval_legendre(n, cosines)
    return 1j / k * total


# --- tables -----------------------------------------------------------------------------------------------------------


def with_orders(rows: list[dict[str, Any]], key: str = "error") -> list[dict[str, Any]]:
    """Adds the order of each row by the widths and errors of it and the one before."""
    for before, row in itertools.pairwise(rows):
        row["order"] = math.log(abs(before[key] / row[key])) / math.log(before["width"] / row["width"])
    return rows


def capacitance(quick: bool) -> list[dict[str, Any]]:
    cuts = (4, 8) if quick else (4, 8, 16)
    bodies = [
        ("sphere", [bem.sphere(c) for c in cuts], 1.0),
        ("prolate 2:1", [bem.ellipsoid(c, 1, 1, 2) for c in cuts], PROLATE),
        ("crossing spheres", [crossing_spheres(c) for c in cuts], 2 - math.sqrt(0.5)),
        ("cube", [bem.cube(c) for c in cuts], CUBE),
        ("cube, graded", [bem.cube(c, grading=2) for c in cuts], CUBE),
        ("disc, graded", [plate(c) for c in cuts], 2 / math.pi),
    ]
    kinds: dict[str, dict[str, Any]] = {
        "constant, collocation": {},
        "constant, galerkin": {"discretisation": "galerkin"},
        "linear, galerkin": {"elements": "linear"},
    }
    rows = []
    for body, meshes, exact in bodies:
        for kind, options in kinds.items():
            found = []
            for c, mesh in zip(cuts, meshes, strict=True):
                begin = time.process_time()
                charges = bem.solve(mesh, tolerance=1e-6, rtol=1e-8, **options)
                one = {"table": "capacitance", "body": body, "elements": kind, "triangles": len(mesh), "width": 1 / c}
                one |= {"unknowns": len(charges.density), "error": charges.charge[0] / exact - 1}
                found.append(one | {"processor_seconds": time.process_time() - begin})
            rows += with_orders(found)
            show(rows[-len(found) :], f"{body}, {kind}")
    return rows


def laplace(quick: bool) -> list[dict[str, Any]]:
    source, points = np.array([0.2, -0.3, 0.1]), np.array([[1.4, 0, 0.3], [0, -2, 1], [3, 3, 3.0]])

    def potential(p: Any) -> Any:
        return 1 / np.linalg.norm(p - source, axis=1)

    def slope(p: Any, n: Any) -> Any:
        d = p - source
        return -(d * n).sum(axis=1) / np.linalg.norm(d, axis=1) ** 3

    rows = []
    for data in ("dirichlet", "neumann"):
        for elements in ("constant", "linear"):
            found = []
            for cuts in (4, 8) if quick else (4, 8, 16):
                given: Any = {data: potential if data == "dirichlet" else slope}
                one = bem.laplace(bem.sphere(cuts), elements=elements, tolerance=1e-6, rtol=1e-8, **given)
                error = np.abs(one.at(points) / potential(points) - 1).max()
                found.append({"table": "laplace", "body": f"sphere, {data}", "elements": elements, "width": 1 / cuts,
                              "triangles": 20 * cuts**2, "error": float(error)})  # fmt: skip
            rows += with_orders(found)
            show(found, f"direct formulation, {data}, {elements}")
    return rows


def dielectrics(quick: bool) -> list[dict[str, Any]]:
    rows = []
    found: dict[str, list[dict[str, Any]]] = {"sphere of 4 in a field": [], "coated sphere": []}
    for cuts in (3, 6) if quick else (4, 8, 16):
        one = {"table": "dielectrics", "elements": "constant, collocation", "width": 1 / cuts}
        ball = bem.assemble(bem.sphere(cuts), dielectrics={"0": 4.0}, tolerance=1e-6).solve(
            field=(0, 0, 1.0), rtol=1e-8
        )
        inside = ball.field_at([[0, 0, 0.0]])[0, 2]
        found["sphere of 4 in a field"].append(one | {"body": "sphere of 4 in a field", "error": inside / 0.5 - 1})
        coated = bem.sphere(cuts).joined(bem.sphere(cuts, 2.0))
        c = bem.assemble(coated, dielectrics={"1": 2.0}, tolerance=1e-6).capacitance(rtol=1e-8)
        exact = 1 / (1 / 2 + (1 - 1 / 2) / 2)
        found["coated sphere"].append(one | {"body": "coated sphere", "error": c.matrix[0, 0] / exact - 1})
    for body, some in found.items():
        rows += with_orders(some)
        show(some, body)
    return rows


ANGLES = np.linspace(0, math.pi, 181)


def far_fields(boundary: str, k: float, cuts: int) -> tuple[Any, Any, Any]:
    """The unit sphere in a plane wave: the solution, its far field at ANGLES from forwards, and that of the series."""
    wave = bem.scatter(bem.sphere(cuts), k, boundary=boundary, tolerance=1e-5)
    f = wave.far_field(np.column_stack([np.sin(ANGLES), 0 * ANGLES, np.cos(ANGLES)]))
    return wave, f, sphere_series(k, boundary, np.cos(ANGLES))


def scattering(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for boundary in ("hard", "soft"):
        for k in (1.0, math.pi, 5.0, 10.0):
            found = []
            for cuts in ((4, 8) if k < 4 else (8, 16)) if quick else (8, 16, 24):
                begin = time.process_time()
                wave, f, exact = far_fields(boundary, k, cuts)
                weights = np.sqrt(np.sin(ANGLES))  # the norm over all directions
                error = float(np.linalg.norm(weights * (f - exact)) / np.linalg.norm(weights * exact))
                power = 4 * math.pi / k * exact.imag[0]
                found.append({"table": "scattering", "body": f"{boundary} sphere", "elements": "linear", "ka": k,
                              "width": 1 / cuts, "triangles": 20 * cuts**2, "unknowns": len(wave.density),
                              "edges_per_wavelength": wave.elements_per_wavelength, "error": error,
                              "cross_section_error": wave.cross_section / power - 1, "iterations": wave.iterations,
                              "processor_seconds": time.process_time() - begin})  # fmt: skip
            rows += with_orders(found)
            show(found, f"{boundary} sphere, k a = {k:.4g}")
    return rows


def draw(path: Path, cuts: int = 16) -> None:
    """|f|^2 of hard and soft spheres by angle: computed, and by the series."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9.5, 4.0), sharey=True, layout="constrained")
    for panel, boundary in zip(panels, ("hard", "soft"), strict=True):
        for number, k in enumerate((1.0, 5.0, 10.0)):
            _, f, exact = far_fields(boundary, k, cuts)
            panel.semilogy(np.degrees(ANGLES), np.abs(exact) ** 2, color=f"C{number}", label=f"k a = {k:g}")
            panel.semilogy(np.degrees(ANGLES)[::6], np.abs(f[::6]) ** 2, "o", ms=3.5, color=f"C{number}")
        panel.set(title=f"{boundary} sphere", xlabel="angle from the direction of the wave, degrees", xlim=(0, 180))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("differential cross-section |f|² over a²")
    panels[1].legend(title="line: series; dots: computed")
    figure.savefig(path, dpi=85)


def show(rows: list[dict[str, Any]], title: str) -> None:
    print(title)
    for row in rows:
        order = f"order {row['order']:.2f}" if "order" in row else ""
        more = [f"{row[key]} {key}" for key in ("triangles", "unknowns", "iterations") if key in row]
        more += [f"{row['edges_per_wavelength']:.1f} edges a wavelength"] if "edges_per_wavelength" in row else []
        more += [f"cross-section {row['cross_section_error']:+.2e}"] if "cross_section_error" in row else []
        more += [f"{row['processor_seconds']:.2f} processor s"] if "processor_seconds" in row else []
        print(f"  1/{round(1 / row['width']):<4d} error {row['error']:+.3e}  {order:11s} {', '.join(more)}", flush=True)


TABLES = {"capacitance": capacitance, "laplace": laplace, "dielectrics": dielectrics, "scattering": scattering}


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="two meshes each")
    parser.add_argument("--only", choices=TABLES, nargs="+", default=list(TABLES))
    parser.add_argument("--plot", type=Path, help="draws far fields of spheres and their series, and prints no table")
    arguments = parser.parse_args()
    if arguments.plot:
        draw(arguments.plot)
        return
    rows = [row for name in arguments.only for row in TABLES[name](arguments.quick)]
    harness.write(arguments.json, "bem_orders", rows=rows)


if __name__ == "__main__":
    main()
