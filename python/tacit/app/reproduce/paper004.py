"""Stoyanov, Pfreundt, Hybrid-parallel sparse matrix-vector multiplication and iterative linear solvers with the
communication library GPI, 2014.
"""

from __future__ import annotations

import json

import numpy as np

from ... import krylov, op
from . import programs
from .row import Claim, Ours, Row

PAPER = "solvers over the communication library GPI (Stoyanov, Pfreundt 2014)"


def error_of_meshes(n: int) -> dict[str, Ours]:
    """The largest error on a mesh over that on the mesh of half its width."""

    def error(m: int) -> float:
        h = 1 / (m + 1)
        c = (np.arange(m) + 1) * h
        f, second = c * (1 - c) * np.exp(c), -(3 * c + c * c) * np.exp(c)  # of each axis, and its second derivative
        u = f[:, None, None] * f[None, :, None] * f[None, None, :]
        laplacian = sum(np.einsum("i,j,k->ijk", *(second if axis == k else f for k in range(3))) for axis in range(3))
        made = krylov.solve(op.poisson((m, m, m)), -h * h * laplacian.ravel(), method="cg", rtol=1e-11)
        return float(np.abs(made.x - u.ravel()).max())

    return {"error over that with half the mesh width": Ours(error(n) / error(2 * n + 1))}


def schedules(n: int, rounds: int, iterations: int) -> dict[str, Ours]:
    words = [f"n={n}", f"planes={n}", "method=cg", f"rounds={rounds}", f"iterations={iterations}", "json=1"]
    lines = programs.output("bench_schedules", *words, ranks=2).splitlines()
    found = json.loads([line for line in lines if line.startswith("{")][-1])["schedules"]
    names = {"split": "AS over SS", "jobs": "AD over SS"}
    return {name: Ours(found[how]["median"] / found["synchronous"]["median"]) for how, name in names.items()}


def beside_petsc(n: int, method: str, precond: str, few: int, many: int, rounds: int) -> dict[str, Ours]:
    least: dict[str, dict[int, float]] = {"petsc_solve": {}, "bench_solve": {}}
    for _ in range(rounds):
        for name, times in least.items():
            for line in programs.output(name, "3d7", n, method, precond, f"{few},{many}", 2).splitlines():
                if line.startswith("{"):
                    found = json.loads(line)
                    k = found["iterations"]
                    times[k] = min([*found["seconds"], times.get(k, np.inf)])
    each = {name: (times[many] - times[few]) / (many - few) for name, times in least.items()}
    return {"Tacit over PETSc, one process": Ours(each["bench_solve"] / each["petsc_solve"])}


_NODES = (
    "the paper's cores share the memory of a node and its exchanges cross InfiniBand; two ranks share one memory here"
)
_STORED = (
    "rows of this matrix are alike, and Tacit stores their values once and columns as distances, where PETSc reads 12"
    " bytes for each entry; the paper's code stored entries as PETSc does"
)
_SCALING = "only a cluster has them: simulated ranks have no threads, and this machine is one node"

ROWS = (
    Row(
        "004/section-5.1",
        "Second order of the discretisation",
        (Claim("error over that with half the mesh width", 4.0, "x"),),
        error_of_meshes,
        {"n": 7},
        {"n": 31},
        how="Measured with u = x(1-x)e^x y(1-y)e^y z(1-z)e^z on nested meshes; the paper's solution is not printed.",
    ),
    Row(
        "004/table-1",
        "CG 257^3, one GPI node for each physical node, seconds",
        (Claim("SS, 2 nodes", 170.5, "s"), Claim("AS 2, 2 nodes", 194.7, "s"), Claim("AD 2, 2 nodes", 173.5, "s")),
        why=f"Seconds of a cluster of 2 to 16 nodes: {_SCALING}.",
    ),
    Row(
        "004/table-2",
        "CG 257^3, asynchronous products over the synchronous one, 1 node",
        (
            Claim("AS over SS", 205.7 / 179.7, "x", _NODES),
            Claim("AD over SS", 196.6 / 179.7, "x", _NODES),
            Claim("AS 2 over SS, 16 nodes", 15.4 / 21.3, "x", _SCALING),
        ),
        schedules,
        {"n": 15, "rounds": 1, "iterations": 3},
        {"n": 127, "rounds": 7, "iterations": 15},
        how="Medians of seven alternating rounds on two ranks of one thread each, 127^3 unknowns.",
        needs=("bench_schedules", "mpiexec"),
    ),
    Row(
        "004/table-3",
        "CG 257^3, time of an iteration beside PETSc, 1 node",
        (Claim("Tacit over PETSc, one process", (179.7 / 866) / (88 / 335), "x", _STORED),),
        beside_petsc,
        {"n": 15, "method": "cg", "precond": "none", "few": 2, "many": 4, "rounds": 1},
        {"n": 127, "method": "cg", "precond": "none", "few": 10, "many": 40, "rounds": 3},
        how="Time of an iteration with a stored matrix, 127^3 unknowns, least of alternating rounds.",
        needs=("bench_solve", "petsc_solve"),
    ),
    Row(
        "004/table-4",
        "4000 steps of Richardson with Jacobi, 257^3, beside PETSc, 1 node",
        (Claim("Tacit over PETSc, one process", 426 / 552, "x", _STORED),),
        beside_petsc,
        {"n": 15, "method": "richardson", "precond": "jacobi", "few": 2, "many": 4, "rounds": 1},
        {"n": 127, "method": "richardson", "precond": "jacobi", "few": 10, "many": 40, "rounds": 3},
        how="Time of a step with a stored matrix, 127^3 unknowns, least of alternating rounds.",
        needs=("bench_solve", "petsc_solve"),
    ),
    Row(
        "004/table-5",
        "Richardson on a Cray XE6, seconds",
        (Claim("GPI, 299^3, 1 node", 552, "s"), Claim("PETSc, 299^3, 1 node", 476, "s")),
        why=f"Seconds of a Cray with 32 to 1024 cores: {_SCALING}.",
    ),
    *(
        Row(f"004/figure-{k}", title, why="A drawing, or a curve of the numbers of a table.")
        for k, title in (
            (1, "Architecture of GPI"),
            (2, "Decomposition into slices"),
            (3, "Speed-up of CG, GPI"),
            (4, "Speed-up of CG, PETSc"),
            (5, "Speed-up of Richardson"),
            (6, "Speed-up, 299^3"),
            (7, "Speed-up, 499^3"),
        )
    ),
)
