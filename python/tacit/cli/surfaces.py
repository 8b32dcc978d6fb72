"""What commands on surfaces of triangles have in common: their arguments, files, and what is printed."""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

from tacit import report
from tacit._described import HMATRIX, HMATRIX_PRECOND, HMATRIX_PRECOND_NAMES, SOLVE, SOLVE_NAMES
from tacit.cli import arguments as cli

AXES = ("x", "y", "z")
SOLVING = ("rtol", "max_iterations", "restart")
TABLES = (".npy", ".txt", ".csv")
VIEWS = (".vtu", ".vtk", ".xdmf", ".ply")


def add_mending(a: cli.Arguments, turned: str) -> None:
    a("--mend", f"leave out flat and repeated triangles, {turned}")
    a("--merge D", "with --mend: vertices within D are one", cli.real(0), 0.0)


def add_matrix(a: cli.Arguments) -> None:
    a.options(HMATRIX, [name for name in HMATRIX if name != "symmetry"])


def add_method(a: cli.Arguments, first: str) -> None:
    """The section on the method, `first` the default. "direct" needs the entries of a stored matrix."""
    a.section("method")
    a.choice("--method", (first, *(m for m in SOLVE_NAMES if m not in (first, "auto", "direct"))))
    named = cli.preconditioner(HMATRIX_PRECOND, HMATRIX_PRECOND_NAMES)
    a("--precond NAME[:OPTION=VALUE,...]", f"{', '.join(HMATRIX_PRECOND_NAMES)} [jacobi]", named, {"name": "jacobi"})
    a("--rtol X", "of the residual, as recomputed [the error of the matrix]", cli.real(0))
    a.options(SOLVE, SOLVING[1:])


def check(a: argparse.Namespace) -> None:
    """WrongUse for options that need another one."""
    if (a.section is None) != (a.map is None):
        raise cli.WrongUse("--section and --map go together")
    if a.merge and not a.mend:
        raise cli.WrongUse("--merge is of --mend")


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


def plane(text: str) -> tuple[str, float]:
    axis, equals, value = text.partition("=")
    try:
        if axis not in AXES or not equals or not math.isfinite(float(value)):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a plane like z=0, found "{text}"') from None
    return axis, float(value)


def mesh_of(a: argparse.Namespace, notes: list[str]) -> Any:
    """The mesh of the arguments; appends notes on it to `notes`."""
    from tacit.app import bem

    generated = not os.path.exists(a.mesh) and (":" in a.mesh or a.mesh in bem.bodies())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the same sentences are among the notes
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
    if getattr(a, "copies", None):
        mesh = mesh.copies(a.copies, gap=a.gap, up=a.up)
    return mesh


def points_in(path: str | None) -> Any:
    """The points of a file (n, 3); None without one."""
    import numpy as np

    from tacit._core import InputError
    from tacit._files import read_numbers

    if path is None:
        return None
    points = read_numbers(path, "x, y, z of each point", delimiter="," if path.endswith(".csv") else None)
    if len(points) == 0:
        raise InputError(f"{path}: no points; at least one is needed")
    if points.shape[1] != 3:
        raise InputError(f"{path}: an array of shape {points.shape}; x, y, z of each point are needed")
    wrong = np.flatnonzero(~np.isfinite(points).all(1))
    if len(wrong):
        raise InputError(f"{path}: point {wrong[0] + 1} is {points[wrong[0]].tolist()}; finite numbers are needed")
    return points


def write_table(path: str, table: Any) -> None:
    """Writes columns of numbers, each row a point. Local."""
    import numpy as np

    with report.replacing(path) as temporary:
        if path.endswith(".npy"):
            np.save(temporary, table)
        else:
            np.savetxt(temporary, table, delimiter="," if path.endswith(".csv") else " ", fmt="%.10g")


def facts_of(matrix: dict[str, Any], outcome: Any) -> dict[str, Any]:
    """What a document says of an H-matrix, by its report, and of the solve with it."""
    of_matrix = ("dense_fraction", "mean_rank", "max_rank", "least_bytes", "most_bytes")
    of_solve = ("method", "precond", "iterations", "reason", "residual_norm", "converged", "history", "advice")
    return {
        "matrix_bytes": matrix["bytes"],
        "operator_error": matrix["measured_error"],
        "operator_error_estimated": matrix["estimated_error"],
        **{key: matrix[key] for key in of_matrix},
        **{key: getattr(outcome, key) for key in of_solve},
        "warnings": [*matrix["warnings"], *outcome.warnings],
    }


def matrix_row(facts: dict[str, Any]) -> tuple[str, str]:
    ranks = f"ranks {facts['mean_rank']:.1f} in the mean, {facts['max_rank']} at most"
    error = f"error {facts['operator_error']:.1e} on sampled rows"
    size = report.size(facts["matrix_bytes"])
    return "matrix", f"{size}, {100 * facts['dense_fraction']:.2f} % of dense; {ranks}; {error}"


def result_row(facts: dict[str, Any]) -> tuple[str, str]:
    precond = "" if facts["precond"] == "none" else f", {facts['precond']}"
    return "result", f"{facts['reason']} after {facts['iterations']} iterations of {facts['method']}{precond}"


def residual_row(facts: dict[str, Any]) -> tuple[str, str]:
    return "residual", f"{report.residual(facts['residual_norm'])} of the right-hand side, recomputed"


def show(rows: Iterator[tuple[str, str]], facts: dict[str, Any], files: tuple[str | None, ...], out: Any) -> None:
    """Prints rows, the files that were written, notes and advice."""
    report.print_facts([*rows, *(("wrote", path) for path in files if path)], out)
    for text in facts["notes"] + facts["warnings"]:
        out.print(f"note: {text}")
    if not facts["converged"] and facts["advice"]:
        out.print(f"advice: {facts['advice']}")
