"""`tacit poisson`: Poisson in the unit cube, solved and compared with its known solution."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tacit import report
from tacit._described import PARTS, PATHS, SOLUTIONS, SOLVE
from tacit.cli.arguments import NOT_CONVERGED, OK, Arguments, given, whole
from tacit.cli.ranks import on_ranks

TEXT = "solve Poisson's equation in the unit cube and compare with the solution"
METHODS = ("cg", "richardson", "pipelined-cg", "ca-cg", "chebyshev", "bicgstab", "gmres")
PRECONDS = ("none", "jacobi")
FORMS = ("stencil", "csr")
_OF_RESULT = ("method", "precond", "iterations", "converged", "reason", "residual_norm")
SCHEDULE = ("schedule", "remote_threads", "job_rows")


def add_where(a: Arguments) -> None:
    """Adds the options of halo exchanges, for every command that solves."""
    a.choice("--path", PATHS, "how halos travel")
    a("--levels N,N", "ranks of a NUMA domain, domains of a node, as 3,2 [found out]")
    a.options(SOLVE, SCHEDULE)


def add(a: Arguments) -> None:
    a("--n N", "nodes along an edge, walls included", whole(3), 65)
    a.choice("--form", FORMS, "of the matrix, not stored or stored")
    a.choice("--parts", PARTS, "of the ranks")
    a.choice("--solution", SOLUTIONS, "that is to be found")
    a("--nested K", "K meshes, each of half the width", whole(1), 1)
    a.choice("--method", METHODS)
    a.choice("--precond", PRECONDS, default="none; of richardson: jacobi", what="preconditioner")
    a("--iterations N", "exactly so many, whatever the residual", whole(1))
    a.options(SOLVE, ("rtol", "max_iterations", "sweeps"))
    a.choice("--scalar", ("float64", "float32"))
    a.section("where it runs")
    a.where()
    add_where(a)
    a.section("what it leaves")
    a.json()


def once(arguments: argparse.Namespace, comm: Any, nodes: int) -> tuple[Any, dict[str, Any]]:
    """Solves on one mesh; returns the result and the keys of its JSON. Collective."""
    from tacit import krylov
    from tacit.app.poisson import Cube

    begin = time.perf_counter()
    cube = Cube(nodes, arguments.parts, comm=comm, scalar=arguments.scalar)
    A = cube.matrix() if arguments.form == "csr" else cube.stencil()
    b = cube.right_side(arguments.solution)
    precond = arguments.precond or ("jacobi" if arguments.method == "richardson" else "none")
    exactly = arguments.iterations is not None
    setup = comm.all_max_real(time.perf_counter() - begin)
    options: Any = given(arguments, SOLVE)
    if exactly:
        options |= {"rtol": 0.0, "max_iterations": arguments.iterations, "fallbacks": False}
    how = {"method": arguments.method, "precond": precond, "path": arguments.path, "threads": arguments.threads}
    result = krylov.solve(A, b, comm=comm, **how, **options)
    error = cube.distance(result.x, arguments.solution)
    seconds = float(result.seconds["solve"])
    facts = {
        "nodes": nodes,
        "unknowns": cube.unknowns,
        "form": arguments.form,
        "parts": arguments.parts,
        "ranks": list(cube.ranks),
        "threads": result.threads,
        "topology": comm.topology,
        **{name: getattr(result, name) for name in _OF_RESULT},
        "path": arguments.path,
        "schedule": arguments.schedule or "auto",
        "error_max": error["max"],
        "error_l2": error["l2"],
        "seconds": {"setup": setup, "solve": seconds},
        "nanoseconds_per_point_and_iteration": 1e9 * seconds / max(1, result.iterations) / cube.unknowns,
        "counts": dict(result.counts),
        "solution": arguments.solution,
    }
    return result, facts


def run(arguments: argparse.Namespace) -> int:
    return on_ranks(arguments, _here)


def _here(arguments: argparse.Namespace, comm: Any, out: Any) -> int:
    """The command on every rank; only the first prints and writes. Returns the exit code."""
    from tacit._support import utf8

    if arguments.levels:
        comm.set_levels(utf8(arguments.levels))
    runs: list[dict[str, Any]] = []
    good = True
    nodes = arguments.n
    for k in range(arguments.nested):
        result, facts = once(arguments, comm, nodes)
        if runs:
            facts["error_ratio"] = runs[-1]["error_max"] / facts["error_max"]
        runs.append(facts)
        good = good and (result.converged or arguments.iterations is not None)
        if k == 0:
            ranks = "x".join(map(str, facts["ranks"]))
            out.print(
                f"{facts['method']}, {facts['precond']}, {facts['form']}, {facts['parts']} on {ranks} ranks x "
                f"{facts['threads']} threads; path {facts['path']}, schedule {facts['schedule']}; {facts['topology']}"
            )
            out.print("  nodes     unknowns  iterations  |b-Ax|/|b|      max|x-u|   ratio   seconds   ns/point/it")
        ratio = f"{facts['error_ratio']:.3f}" if "error_ratio" in facts else "-"
        out.print(
            f"{facts['nodes']:>5}^3 {facts['unknowns']:>12,} {facts['iterations']:>11,}  {facts['residual_norm']:.4e}  "
            f"{facts['error_max']:.6e}  {ratio:>6} {facts['seconds']['solve']:9.3f} "
            f"{facts['nanoseconds_per_point_and_iteration']:12.3f}"
        )
        if not result.converged and arguments.iterations is None:
            out.print(f"not converged: {result.reason}. {result.advice}")
            break
        nodes = 2 * nodes - 1
    if comm.rank == 0 and arguments.json:
        report.write_json(report.header("tacit.poisson/1", arguments.words) | {"runs": runs}, arguments.json)
    return OK if good else NOT_CONVERGED
