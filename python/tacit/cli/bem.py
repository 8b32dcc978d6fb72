"""`tacit bem`: charges on conductors whose surface is a mesh of triangles."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import time
import warnings
from typing import TYPE_CHECKING, Any

from tacit import report
from tacit._described import HMATRIX, SOLVE, SOLVE_NAMES
from tacit.cli.arguments import (
    NOT_CONVERGED,
    OK,
    PLOTS,
    THREADS,
    WrongUse,
    add_json,
    add_options,
    choice,
    destination,
    given,
    named_options,
    real,
    whole,
)
from tacit.cli.ranks import on_ranks

if TYPE_CHECKING:
    from rich.console import Console

DISCRETISATIONS = ("collocation", "galerkin")
ASSEMBLIES = ("host", "cuda", "virtual")
AXES = ("x", "y", "z")
PRECONDS = ("none", "jacobi", "block-jacobi", "hlu", "inner")  # of H-matrices: tacit.precond
VIEWS = (".vtu", ".vtk", ".vtp", ".xdmf", ".ply")


def numbers(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
        if not all(math.isfinite(value) for value in found):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected numbers like 1,-1, found "{text}"') from None
    return found


def triple(text: str) -> list[float]:
    found = numbers(text)
    if len(found) != 3:
        raise argparse.ArgumentTypeError(f'expected three numbers like 0,0,1, found "{text}"')
    return found


def grid(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f'expected copies like 2x2, found "{text}"')
    return int(found[1]), int(found[2])


def plane(text: str) -> tuple[str, float]:
    axis, equals, value = text.partition("=")
    try:
        if axis not in AXES or not equals or not math.isfinite(float(value)):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a plane like z=0, found "{text}"') from None
    return axis, float(value)


def free(text: str) -> bool | list[int]:
    if text == "all":
        return True
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f'expected numbers of conductors from 0 like 0,2, or all, found "{text}"')
    return [int(number) for number in text.split(",")]


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "mesh",
        metavar="MESH",
        help="triangles: .pbf, .obj, .stl, .ply, .msh, .vtu, ..; or sphere:20, sphere-pair:20, cube:20,grading=2,"
        " ellipsoid:20,a=2, ring-sphere:13,20",
    )
    g = p.add_argument_group("problem (in brackets: what is taken when nothing is said)")
    g.add_argument(
        "--potential",
        type=numbers,
        metavar="V[,V..]",
        help="of all conductors, or of each [the file's, else 1; 0 in a --field]",
    )
    g.add_argument("--floating", default=False, type=free, metavar="N,N|all", help="held at no potential, charge 0")
    g.add_argument(
        "--field", default=[0.0, 0.0, 0.0], type=triple, metavar="X,Y,Z", help="uniform, from outside [none]"
    )
    g.add_argument(
        "--plane", type=plane, metavar="AXIS=VALUE", help="grounded, as z=0, all triangles on one side [none]"
    )
    g.add_argument("--copies", type=grid, metavar="NxN", help="of the mesh, on a grid across --up")
    g.add_argument("--gap", type=real(0), metavar="D", help="between the boxes of copies [a tenth of the longer side]")
    choice(g, "--up", "axis", ("z", "y", "x"), "of copies and of the plot: ")
    g.add_argument(
        "--conductors",
        default="components",
        metavar="NAME|FILE",
        help="components, one, cell data of the mesh (gmsh:physical), or numbers in a .txt or .npy [components]",
    )
    g.add_argument("--mend", action="store_true", help="leave out flat and repeated triangles, turn neighbours alike")
    g.add_argument("--merge", default=0.0, type=real(0), metavar="D", help="with --mend: vertices within D are one [0]")
    g = p.add_argument_group("matrix")
    choice(g, "--discretisation", "discretisation", DISCRETISATIONS)
    g.add_argument(
        "--quadrature", default=0.05, type=real(0, True), metavar="R", help="error of entries, in eps [0.05]"
    )
    add_options(g, HMATRIX, [name for name in HMATRIX if name != "symmetry"])
    choice(g, "--scalar", "scalar", ("float64", "float32"))
    choice(g, "--assembly", "assembly", ASSEMBLIES, "entries and crosses by; virtual: a device that the CPU plays: ")
    g = p.add_argument_group("method")
    choice(g, "--method", "method", ("bicgstab", *(m for m in SOLVE_NAMES if m not in ("bicgstab", "auto"))))
    g.add_argument(
        "--precond",
        default={"name": "jacobi"},
        type=preconditioner,
        metavar="NAME[:OPTION=VALUE,...]",
        help=f"{', '.join(PRECONDS)} [jacobi]",
    )
    g.add_argument("--rtol", default=1e-7, type=real(0), help="of the residual, as recomputed [1e-7]")
    add_options(g, SOLVE, ("max_iterations", "restart"))
    g.add_argument("--capacitance", action="store_true", help="the capacitance matrix, one solve a conductor")
    g = p.add_argument_group("where it runs")
    g.add_argument("--ranks", type=whole(1), metavar="N", help="MPI ranks, started here [1, or those of mpiexec]")
    g.add_argument("--threads", type=whole(1), metavar="N", help=THREADS)
    g = p.add_argument_group("what it leaves")
    add_json(g)
    g.add_argument("--vtu", type=destination(VIEWS), metavar="FILE", help="mesh and charge density")
    g.add_argument("--plot", type=destination(PLOTS), metavar="FILE", help="two views of the charge density")
    g.add_argument("--points", metavar="FILE", help="x y z in lines (.txt, .csv) or an array (.npy)")
    g.add_argument(
        "--at",
        action="append",
        default=[],
        type=triple,
        metavar="X,Y,Z",
        help="potential and field here, into the JSON; may be said again",
    )
    g.add_argument(
        "--output",
        type=destination((".npy", ".txt", ".csv")),
        metavar="FILE",
        help="with --points: x y z, potential and field",
    )


def run(arguments: argparse.Namespace) -> int:
    if (arguments.points is None) != (arguments.output is None):
        raise WrongUse("--points and --output go together")
    if arguments.merge and not arguments.mend:
        raise WrongUse("--merge is of --mend")
    if arguments.gap is not None and not arguments.copies:
        raise WrongUse("--gap is of --copies")
    seen = {os.path.realpath(f): f for f in (arguments.mesh, arguments.points) if f and os.path.exists(f)}
    for name in ("json", "vtu", "plot", "output"):
        path = getattr(arguments, name)
        if path and path != "-":
            if os.path.realpath(path) in seen:
                raise WrongUse(f"--{name} {path} is named twice, or is an input")
            seen[os.path.realpath(path)] = path
    return on_ranks(arguments, _here)


def _mesh(a: argparse.Namespace, notes: list[str]) -> Any:
    """The mesh that was asked for, and what has to be said of it."""
    from tacit.app import bem

    generated = not os.path.exists(a.mesh) and (":" in a.mesh or a.mesh in bem.bodies())
    mesh = bem.body(a.mesh) if generated else bem.read(a.mesh)
    if a.mend:
        before = len(mesh), len(mesh.vertices)
        mesh = mesh.mended(a.merge)
        left_out = before[0] - len(mesh), before[1] - len(mesh.vertices)
        if any(left_out):
            notes.append(f"mended: {left_out[0]} triangles and {left_out[1]} vertices left out")
    elif mesh.faults():
        from tacit._core import InputError

        raise InputError(f"{a.mesh}: {mesh.faults()}; --mend leaves them out")
    notes += mesh.notes()
    if a.copies:
        mesh = mesh.copies(a.copies, gap=a.gap, up=a.up)
    return mesh


def _conductors(a: argparse.Namespace, mesh: Any) -> Any:
    import numpy as np

    from tacit._core import InputError

    if a.conductors in ("components", "one") or a.conductors in mesh.cell_data or not os.path.exists(a.conductors):
        return a.conductors
    try:
        found = np.load(a.conductors) if a.conductors.endswith(".npy") else np.loadtxt(a.conductors, dtype=np.int64)
    except ValueError as error:
        raise InputError(f"{a.conductors}: {error}") from None
    if found.shape != (len(mesh),):
        raise InputError(f"{a.conductors}: {found.size} numbers for {len(mesh)} triangles")
    return found


def _points(path: str) -> Any:
    import numpy as np

    from tacit._core import InputError

    try:
        comma = "," if path.endswith(".csv") else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without lines
            points = np.load(path) if path.endswith(".npy") else np.loadtxt(path, delimiter=comma, ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "iuf":
        raise InputError(f"{path}: an array of shape {points.shape}; x, y, z of each point are needed")
    if len(points) == 0:
        raise InputError(f"{path}: an array of shape {points.shape}: no points; at least one is needed")
    return points.astype(np.float64)


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def preconditioner(text: str) -> dict[str, Any]:
    """Of an H-matrix."""
    name, options = named_options(text, "preconditioner", PRECONDS, lambda _, __, word: _value(word))
    return {"name": name, **options}


def _other_matrix(discretisation: str, charges: Any) -> str:
    """What may help where cg has failed on a matrix that need not be symmetric."""
    if charges.converged or discretisation != "collocation" or not charges.method.endswith("cg"):
        return ""
    return " --discretisation galerkin gives a symmetric matrix."


def _here(a: argparse.Namespace, comm: Any) -> int:
    import numpy as np

    from tacit import _support
    from tacit.app import bem

    first = comm.rank == 0
    out = report.console(stderr=a.json == "-", quiet=not first)
    notes: list[str] = []
    begin = time.perf_counter()
    mesh = _support.agreed(comm, lambda: _mesh(a, notes))
    conductors = _support.agreed(comm, lambda: _conductors(a, mesh))
    where = _support.agreed(comm, lambda: _points(a.points) if a.points else None)
    mesh_seconds = comm.all_max_real(time.perf_counter() - begin)
    system = bem.assemble(
        mesh,
        discretisation=a.discretisation,
        conductors=conductors,
        plane=a.plane,
        quadrature=a.quadrature,
        assembly=a.assembly,
        scalar=a.scalar,
        threads=a.threads,
        comm=comm,
        **given(a, HMATRIX),
    )
    matrix = system.A.report
    how = {
        "method": a.method,
        "precond": a.precond,
        "rtol": a.rtol,
        "max_iterations": a.max_iterations,
        "restart": a.restart,
    }
    in_field = any(a.field)
    potential: Any = a.potential
    if potential is None:
        potential = mesh.cell_data.get("potential", 0.0 if in_field else 1.0)
    try:
        charges = system.solve(potential, floating=a.floating, field=a.field, **how)
    except TypeError as error:
        if len(a.precond) == 1:
            raise
        raise WrongUse(f"--precond: {error}") from error  # its options are all that have any type here
    done = charges.converged
    facts: dict[str, Any] = {
        "schema": "tacit.bem/1",
        "command": ["tacit", *a.words],
        "version": report.version(),
        "machine": report.machine(),
        "mesh": a.mesh,
        "surface": mesh.surface,
        "unknowns": len(mesh),
        "conductors": system.conductors,
        "conductor_triangles": np.bincount(system.conductor),
        "discretisation": a.discretisation,
        "assembly": a.assembly,
        "ranks": comm.size,
        "threads": system.threads,
        "seconds": {
            "mesh": mesh_seconds,
            "assembly": system.seconds,
            "solve": charges.seconds["solve"],
            "product": system.product_seconds(),
        },
        "tolerance": system.tolerance,
        "matrix_bytes": matrix["bytes"],
        "dense_fraction": matrix["dense_fraction"],
        "mean_rank": matrix["mean_rank"],
        "max_rank": matrix["max_rank"],
        "operator_error": matrix["measured_error"],
        "operator_error_estimated": matrix["estimated_error"],
        "least_bytes": matrix["least_bytes"],
        "most_bytes": matrix["most_bytes"],
        "method": charges.method,
        "precond": charges.precond,
        "iterations": charges.iterations,
        "converged": done,
        "reason": charges.reason,
        "advice": charges.advice + _other_matrix(a.discretisation, charges),
        "residual_norm": charges.residual_norm,
        "rtol": a.rtol,
        "history": charges.history,
        "potential": charges.potential,
        "field": a.field,
        "charge": charges.charge,
        "charge_unit": "4 pi eps0 V u, u the unit of the mesh",
        "warnings": [*matrix["warnings"], *charges.warnings],
        "notes": notes,
    }
    if a.capacitance:
        single = system.conductors == 1 and not in_field and not a.floating and not np.isnan(charges.potential).any()
        if single and charges.potential[0] != 0:
            facts["capacitance"] = charges.charge[:, None] / charges.potential[0]
        else:
            c = system.capacitance(**how)
            done = done and c.converged
            facts["capacitance"] = c.matrix
            facts["capacitance_asymmetry"] = c.asymmetry
            facts["capacitance_iterations"] = c.iterations
            facts["capacitance_residual_norm"] = c.residual_norm
            facts["seconds"]["capacitance"] = c.seconds
            facts["converged"] = done
    if a.at:
        potentials, fields = charges.potential_at(a.at), charges.field_at(a.at)
        facts["at"] = [
            {"point": p, "potential": v, "field": e} for p, v, e in zip(a.at, potentials, fields, strict=True)
        ]
    if where is not None:
        table = np.column_stack([where, charges.potential_at(where), charges.field_at(where)])
        if first:
            with report.replacing(a.output) as temporary:
                if a.output.endswith(".npy"):
                    np.save(temporary, table)
                else:
                    np.savetxt(temporary, table, delimiter="," if a.output.endswith(".csv") else " ", fmt="%.10g")
    if first:
        if a.vtu:
            charges.write(a.vtu)
        if a.plot:
            charges.plot(a.plot, a.up)
        if a.json:
            report.write_json(facts, a.json)
        _show(facts, a, out)
    return OK if done else NOT_CONVERGED


def _numbers(values: Any, most: int = 6) -> str:
    shown = ", ".join(f"{value:.7g}" for value in values[:most])
    return shown + (f", .. ({len(values)})" if len(values) > most else "")


def _show(facts: dict[str, Any], a: argparse.Namespace, out: Console) -> None:
    seconds, surface = facts["seconds"], facts["surface"]
    kind = ("closed" if surface["closed"] else "open") + ("" if surface["oriented"] else ", mixed orientation")
    rows: list[tuple[str, str]] = [
        ("mesh", f"{facts['mesh']}: {report.count(facts['unknowns'])} triangles, {kind}"),
        ("conductors", f"{facts['conductors']} at {_numbers(facts['potential'])} V"),
        (
            "matrix",
            f"{report.size(facts['matrix_bytes'])}, {100 * facts['dense_fraction']:.2f} % of dense; ranks"
            f" {facts['mean_rank']:.1f} in the mean, {facts['max_rank']} at most; error"
            f" {facts['operator_error']:.1e} on sampled rows",
        ),
        (
            "result",
            f"{facts['reason']} after {facts['iterations']} iterations of {facts['method']}"
            + ("" if facts["precond"] == "none" else f", {facts['precond']}"),
        ),
        ("residual", f"{report.residual(facts['residual_norm'])} of the right-hand side, recomputed"),
        ("charge", f"{_numbers(facts['charge'])} (times 4 pi eps0)"),
    ]
    if "capacitance" in facts:
        rows += [("capacitance" if i == 0 else "", _numbers(row)) for i, row in enumerate(facts["capacitance"][:6])]
    rows += [
        (
            "at " + ", ".join(f"{c:g}" for c in at["point"]),
            f"{at['potential']:.7g} V, field {_numbers(at['field'])}",
        )
        for at in facts.get("at", ())
    ]
    rows.append(
        (
            "time",
            f"mesh {report.seconds(seconds['mesh'])}, assembly {report.seconds(seconds['assembly'])}, solve"
            f" {report.seconds(seconds['solve'])}; a product {report.seconds(seconds['product'])}",
        )
    )
    rows += [("wrote", path) for path in (a.vtu, a.plot, a.output) if path]
    report.print_facts(rows, out)
    for text in facts["notes"] + facts["warnings"]:
        out.print(f"note: {text}", soft_wrap=True)
    if not facts["converged"] and facts["advice"]:
        out.print(f"advice: {facts['advice']}", soft_wrap=True)
