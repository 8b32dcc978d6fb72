"""The parts of `tacit demo` after its solves: multigrid, boundary elements, tomography, simulated ranks.

Each part solves a small problem with a known answer, plots the result, and describes the figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import report
from tacit.plot.page import Section

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """The result of a part: a section of the page, a line for the terminal, and the numbers."""

    section: Section
    line: str
    facts: dict[str, Any]


# The ellipses of the Shepp-Logan phantom with higher contrast: value, half axes, centre, rotation in degrees.
ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0),
    (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0),
    (-0.2, 0.11, 0.31, 0.22, 0.0, -18),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18),
    (0.1, 0.21, 0.25, 0.0, 0.35, 0),
    (0.1, 0.046, 0.046, 0.0, 0.1, 0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0),
    (0.1, 0.046, 0.023, -0.08, -0.605, 0),
    (0.1, 0.023, 0.023, 0.0, -0.606, 0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0),
)


def phantom(n: int) -> Values:
    """The Shepp-Logan phantom on n x n pixels, row 0 on top."""
    import numpy as np

    x = (np.arange(n) + 0.5) * 2 / n - 1
    X, Y = np.meshgrid(x, -x)
    image = np.zeros((n, n))
    for value, a, b, x0, y0, degrees in ELLIPSES:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        u, v = (X - x0) * c + (Y - y0) * s, (Y - y0) * c - (X - x0) * s
        image[(u / a) ** 2 + (v / b) ** 2 <= 1] += value
    return image


def multigrid(folder: Path, quick: bool) -> Part:
    from tacit.app import grid_problems
    from tacit.app import multigrid as mg
    from tacit.plot import demo as figures

    n = 32 if quick else 64
    problem = grid_problems.helmholtz(n, coefficient="bubble", boxes=16)
    solvers: tuple[tuple[str, dict[str, Any]], ...] = (("bicgstab", {}), ("ca-bicgstab", {"step": 4}))
    runs = {}
    for name, options in solvers:
        options["bottom"] = name
        M = mg.multigrid(problem.A, cycle="U", smallest_box=4, **options)
        runs[name] = M.solve(problem.f)
    classical, s_step = (runs[name] for name, _ in solvers)
    grid = problem.A.to_grid(classical.x)
    shown = {name: (list(run.history), run.counts["reductions"]) for name, run in runs.items()}
    figures.bottoms(grid[:, :, n // 2], shown, folder / "multigrid.png")
    before, after = (shown[name][1] for name, _ in solvers)
    text = (
        "Geometric multigrid for a Helmholtz equation whose coefficient jumps at a bubble,"
        f" {report.count(n**3)} cells in boxes of 16³ that stay on their ranks, so that the coarsest level is large and"
        f" needs an iterative solver. With BiCGStab there, the solve takes {before} reductions; with its s-step"
        f" variant, which needs one for four iterations, {after}. On one rank a reduction costs nothing; on thousands"
        " of ranks the coarsest level waits for little else.",
        "Try: `tacit multigrid --n 64 --coefficient bubble --boxes 16 --cycle U --bottom ca-bicgstab --step 4`",
    )
    picture = ("multigrid.png", f"Solution; equal convergence; {before} against {after} reductions")
    rows = [
        (name, str(r.cycles), str(r.bottom_iterations), str(r.counts["reductions"]), report.residual(r.residual_norm))
        for name, r in runs.items()
    ]
    head = ("coarsest level by", "cycles", "its iterations", "reductions", "residual")
    return Part(
        Section("Multigrid with two solvers of the coarsest level", text, [picture], head, rows),
        f"multigrid: {s_step.cycles} cycles; {before} reductions with bicgstab on the coarsest level, {after} with its"
        " s-step variant",
        {
            "converged": all(run.converged for run in runs.values()),
            "runs": {name: {"cycles": run.cycles, "counts": run.counts} for name, run in runs.items()},
        },
    )


def boundary_elements(folder: Path, quick: bool) -> Part:
    from tacit.app import bem

    cuts = 6 if quick else 20
    ball = bem.assemble(bem.sphere(cuts), tolerance=1e-5).solve(1.0)
    mesh = bem.sphere(cuts, radius=0.5).joined(bem.cube(cuts, grading=2.0).moved((1.3, 0.0, 0.0)))
    system = bem.assemble(mesh, tolerance=1e-4)
    charges = system.solve([1.0, -1.0])
    charges.plot(folder / "charge.png")
    made = system.A.report
    wrong = abs(float(ball.charge[0]) - 1)
    dense = 8 * len(mesh) ** 2
    text = (
        f"The charge on a sphere at 1 V and a cube at −1 V: {report.count(len(mesh))} triangles, a dense matrix of"
        f" {report.size(dense)}, stored as an H-matrix in {report.size(made['bytes'])} and solved in"
        f" {report.plural(charges.iterations, 'iteration')}. The charges attract each other to the sides that face, and"
        " the edges of the cube have the largest density. A unit sphere at 1 V, meshed alike, has the charge"
        f" {float(ball.charge[0]):.5f}; exact is 1.",
        f"Try: `{report.program()} bem sphere:20 --tolerance 1e-6 --plot charge.png`, or a mesh of yours"
        " (STL, gmsh, OBJ, ..)",
    )
    picture = ("charge.png", "Charge density on a sphere and a cube, seen from two sides")
    return Part(
        Section("Charges on conductors, by an H-matrix", text, [picture]),
        f"boundary elements: {report.count(len(mesh))} triangles, {report.size(made['bytes'])} instead of"
        f" {report.size(dense)}; charge of a unit sphere off by {wrong:.1e}",
        {
            "converged": bool(charges.converged and ball.converged),
            "triangles": len(mesh),
            "matrix_bytes": made["bytes"],
            "sphere_charge": float(ball.charge[0]),
        },
    )


def tomography(folder: Path, quick: bool) -> Part:
    import numpy as np

    from tacit.app import tomography
    from tacit.plot import demo as figures

    n = 96 if quick else 256
    angles = np.linspace(0, np.pi, 3 * n // 4, endpoint=False)
    P = tomography.projector(angles, detectors=n)
    exact = phantom(n).astype(np.float32)
    clean = P.project(exact)
    noise = 0.003 * clean.max() * np.random.default_rng(0).standard_normal(clean.shape).astype(np.float32)
    sinogram = clean + noise
    result = tomography.reconstruct(sinogram, projector=P, iterations=40, discrepancy=float(np.linalg.norm(noise)))
    image = result.images.reshape(n, n)
    error = float(np.linalg.norm(image - exact) / np.linalg.norm(exact))
    figures.slices(exact, sinogram, image, folder / "slice.png", error)
    text = (
        f"A phantom of {n} × {n} pixels is projected along {len(angles)} angles, noise of 0.3 % of the largest line"
        " integral is added, and the slice is reconstructed by CGLS, which stops when its residual is as large as the"
        f" noise: {int(np.max(result.iterations))} iterations, relative error {error:.1%} in the 2-norm, most of it at"
        " the edges. The projector's entries are computed in every product and never stored.",
        f"Try: `{report.program()} reconstruct scan.h5 --centre auto --iterations 20 --preview slice.png` with a scan"
        " of yours",
    )
    picture = ("slice.png", "Phantom, noisy sinogram, reconstructed slice, and their difference")
    return Part(
        Section("A slice from its projections", text, [picture]),
        f"tomography: {n} x {n} pixels from {len(angles)} noisy projections, relative error {error:.1%}",
        {"converged": bool(np.isfinite(image).all()), "error": error, "angles": len(angles), "pixels": n},
    )


def simulated(folder: Path, quick: bool) -> Part:
    import numpy as np

    from tacit import simulate
    from tacit.op.grids import poisson
    from tacit.plot import demo as figures

    n, ranks = (64, (1, 4, 16)) if quick else (256, (1, 4, 16, 64, 256))
    machine = "modern"
    A, b = poisson((n, n)), np.ones(n * n)
    curves: dict[str, list[float]] = {}
    for method in ("cg", "pipelined-cg", "ca-cg"):
        curves[method] = []
        for size in ranks:
            how: Any = {"max_iterations": 48, "rtol": 1e-14, "fallbacks": False, "history": False}
            made = simulate.solve(A, b, ranks=size, machine=machine, method=method, **how)
            curves[method].append(made.seconds / made.result.iterations)
    title = f"Simulated strong scaling, {report.count(n * n)} unknowns, machine “{machine}”"
    figures.scaling(ranks, curves, folder / "scaling.png", title)
    gain = curves["cg"][-1] / min(curves["pipelined-cg"][-1], curves["ca-cg"][-1])
    text = (
        "Simulated, not measured: the shipped solvers run with all their numbers and messages on ranks that share one"
        f" thread, and only time comes from a model of a machine (`{machine}`: latency 1 µs, 12 GB/s a rank, noise). A"
        f" five-point stencil on {n} × {n} points is spread over more and more ranks. From some number of ranks on, an"
        " iteration of cg takes as long as its two reductions. Pipelined cg hides its one reduction behind the product,"
        f" and s-step cg takes one for 8 iterations: {gain:.1f} times as fast on {ranks[-1]} simulated ranks. On few"
        " ranks both are slower than cg, because they move more data. Where a curve falls faster than perfect speed-up,"
        " the part of a rank has begun to fit its cache.",
        f"Try: `{report.program()} solve tacit-demo/flow.mtx --method pipelined-gmres --simulate 64 --machine tsubame`",
    )
    picture = ("scaling.png", f"Simulated time of an iteration of three methods on 1 to {ranks[-1]} ranks")
    head = ("simulated µs an iteration", *(f"{size} ranks" if size > 1 else "1 rank" for size in ranks))
    rows = [(name, *(f"{1e6 * s:.1f}" for s in seconds)) for name, seconds in curves.items()]
    return Part(
        Section("Strong scaling", text, [picture], head, rows, simulated=True),
        f"simulated: on {ranks[-1]} ranks an iteration of cg takes {gain:.1f} times as long as its fastest variant's",
        {"converged": True, "simulated": True, "ranks": list(ranks), "seconds_an_iteration": curves},
    )


PARTS: tuple[tuple[str, Callable[[Path, bool], Part]], ...] = (
    ("multigrid", multigrid),
    ("bem", boundary_elements),
    ("tomography", tomography),
    ("simulated", simulated),
)


def run(folder: Path, quick: bool) -> Iterator[tuple[str, Part]]:
    """The parts, one after the other, each with its seconds."""
    for name, part in PARTS:
        start = time.perf_counter()
        made = part(folder, quick)
        made.facts["seconds"] = time.perf_counter() - start
        yield name, made
