"""`tacit poisson`: Poisson in the unit cube, solved and compared with its known solution."""

from __future__ import annotations

import argparse
import time
from typing import Any

from tacit import report
from tacit._described import PATHS, SOLVE
from tacit.cli.arguments import NOT_CONVERGED, OK, add_json, add_options, choice, given, whole
from tacit.cli.ranks import on_ranks

METHODS = ("cg", "richardson", "pipelined-cg", "ca-cg", "chebyshev", "bicgstab", "gmres")
PRECONDS = ("none", "jacobi")
FORMS = ("stencil", "csr")
PARTS = ("slices", "boxes")
SOLUTIONS = ("bump", "sine")
SCHEDULE = ("schedule", "remote_threads", "job_rows")


def add_where(g: Any) -> None:
    """The options of halos, for every command that solves."""
    choice(g, "--path", "path", PATHS, "how halos travel: ")
    g.add_argument("--levels", metavar="N,N", help="ranks of a NUMA domain, domains of a node, as 3,2 [found out]")
    add_options(g, SOLVE, SCHEDULE)


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("--n", default=65, type=whole(3), metavar="N", help="nodes along an edge, walls included [65]")
    choice(p, "--form", "form", FORMS, "of the matrix, not stored or stored: ")
    choice(p, "--parts", "parts", PARTS, "of the ranks: ")
    choice(p, "--solution", "solution", SOLUTIONS, "that is to be found: ")
    p.add_argument("--nested", default=1, type=whole(1), metavar="K", help="K meshes, each of half the width [1]")
    choice(p, "--method", "method", METHODS)
    choice(p, "--precond", "preconditioner", PRECONDS, default="none; of richardson: jacobi")
    p.add_argument("--iterations", type=whole(1), metavar="N", help="exactly so many, whatever the residual")
    add_options(p, SOLVE, ("rtol", "max_iterations", "sweeps"))
    choice(p, "--scalar", "scalar", ("float64", "float32"))
    g = p.add_argument_group("where it runs")
    g.add_argument("--ranks", type=whole(1), metavar="N", help="MPI ranks, started here [1, or those of mpiexec]")
    g.add_argument("--threads", type=whole(1), metavar="N", help="threads of a rank [the cores, shared by the ranks]")
    add_where(g)
    add_json(p)


def once(arguments: argparse.Namespace, comm: Any, nodes: int) -> tuple[Any, dict[str, Any]]:
    """One mesh: the result and its facts. Collective."""
    from tacit import krylov
    from tacit.app.poisson import Cube

    begin = time.perf_counter()
    cube = Cube(nodes, arguments.parts, comm=comm, scalar=arguments.scalar)
    A = cube.matrix() if arguments.form == "csr" else cube.stencil()
    b = cube.right_side(arguments.solution)
    precond = arguments.precond or ("jacobi" if arguments.method == "richardson" else "none")
    exactly = arguments.iterations is not None
    setup = comm.all_max_real(time.perf_counter() - begin)
    options = given(arguments, SOLVE)
    if exactly:
        options |= {"rtol": 0.0, "max_iterations": arguments.iterations, "fallbacks": False}
    result = krylov.solve(
        A,
        b,
        method=arguments.method,
        precond=precond,
        path=arguments.path,
        threads=arguments.threads,
        comm=comm,
        **options,
    )
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
        "method": result.method,
        "precond": result.precond,
        "path": arguments.path,
        "schedule": arguments.schedule or "auto",
        "iterations": result.iterations,
        "converged": bool(result.converged),
        "reason": result.reason,
        "residual_norm": result.residual_norm,
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


def _here(arguments: argparse.Namespace, comm: Any) -> int:
    """On every rank. Only the first prints and writes. The exit code."""
    from tacit._support import utf8

    if arguments.levels:
        comm.set_levels(utf8(arguments.levels))
    first = comm.rank == 0
    out = report.console(stderr=arguments.json == "-", quiet=not first)
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
                f"{facts['threads']} threads; path {facts['path']}, schedule {facts['schedule']}; {facts['topology']}",
                soft_wrap=True,
            )
            out.print("  nodes     unknowns  iterations  |b-Ax|/|b|      max|x-u|   ratio   seconds   ns/point/it")
        ratio = f"{facts['error_ratio']:.3f}" if "error_ratio" in facts else "-"
        out.print(
            f"{facts['nodes']:>5}^3 {facts['unknowns']:>12,} {facts['iterations']:>11,}  {facts['residual_norm']:.4e}  "
            f"{facts['error_max']:.6e}  {ratio:>6} {facts['seconds']['solve']:9.3f} "
            f"{facts['nanoseconds_per_point_and_iteration']:12.3f}",
            soft_wrap=True,
        )
        if not result.converged and arguments.iterations is None:
            out.print(f"not converged: {result.reason}. {result.advice}", soft_wrap=True)
            break
        nodes = 2 * nodes - 1
    if first and arguments.json:
        said = {"version": report.version(), "command": ["tacit", *arguments.words]}
        report.write_json({"schema": "tacit.poisson/1", **said, "runs": runs}, arguments.json)
    return OK if good else NOT_CONVERGED
