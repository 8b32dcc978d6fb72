"""Factors of an H-matrix on several ranks: seconds, memory and messages, beside those of one rank.

    python bench/hmatrix_factors_ranks.py [--ranks 1 2 4] [--size 8000] [--tolerance 1e-8] [--loose 1e-2] [--json FILE]

n points on a sphere, Matern 3/2 with length 0.2, nugget 0.01 (stored by one triangle: Cholesky), and 1 / r between points
of a sphere of two densities (L U). For each number of ranks: processor seconds of the rank that has most and of all, the
clock's, megabytes of the factors on the rank that has most of them and on all, messages and megabytes of the construction
and of a solve, the residual of a solve with the factors, log |det|, and iterations with factors of --loose as a
preconditioner, to 1e-8. One thread for each rank.
"""

import json
import sys
import time

import numpy as np

import harness
import tacit


def sphere(n):
    k = np.arange(n)
    z = 1 - (2 * k + 1) / n
    r, angle = np.sqrt(1 - z * z), 2.399963229728653 * k
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def matrices(n, tolerance):
    p = sphere(n)
    options = {"tolerance": tolerance, "leaf_size": 64}
    yield "covariance", tacit.hmatrix(p, "matern32", length=0.2, nugget=1e-2, symmetry="hermitian", **options)
    k = np.arange(n)
    q = p.copy()
    q[::2] = 0.02 * p[::2] + [1.5, 0, 0]
    size = np.where(k % 2 == 0, 1e-3, 5e-2) * (700 / n) ** 0.5

    def charges(i, j):
        r = np.linalg.norm(q[i] - q[j], axis=-1)
        return 1 / np.hypot(r, np.where(i == j, size[i], 0))

    yield "charges", tacit.hmatrix(q, charges, pairwise=True, **options)


def facts_of(A, tolerance, loose):
    """What one rank prints. Collective."""
    comm = A.comm
    comm.all_max(0)
    wall, cpu = time.perf_counter(), time.process_time()
    F = tacit.precond.factorise(A, tolerance)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    n = A.shape[0]
    x = np.random.default_rng(0).standard_normal(n)
    b = A @ x
    before, wall_solve = comm.counters, time.perf_counter()
    y = F @ b
    wall_solve = time.perf_counter() - wall_solve
    after = comm.counters
    cpus = [float(c) for c in comm.all_gather(repr(cpu).encode())]
    sent = [
        json.loads(c)
        for c in comm.all_gather(json.dumps([after[k] - before[k] for k in ("messages", "bytes")]).encode())
    ]
    P = tacit.precond.factorise(A, loose)
    solved = tacit.solve(A, b, precond=P, rtol=1e-8, method="bicgstab")
    report = F.report
    return {
        "seconds": comm.all_max_real(wall),
        "most_cpu": max(cpus),
        "cpu": sum(cpus),
        "mb": report["bytes"] / 1e6,
        "most_mb": report["most_bytes"] / 1e6,
        "messages": report["messages"],
        "message_mb": report["message_bytes"] / 1e6,
        "solve_seconds": comm.all_max_real(wall_solve),
        "solve_messages": sum(m for m, _ in sent),
        "solve_kb": sum(s for _, s in sent) / 1e3,
        "residual": float(np.linalg.norm(A @ y - b) / np.linalg.norm(b)),
        "log_determinant": F.slogdet()[1],
        "factors": report["factors"],
        "note": report["note"],
        "iterations": int(solved.iterations),
    }


def main():
    parser = harness.parser(__doc__, ranks=[1, 2, 4])
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--tolerance", type=float, default=1e-8)
    parser.add_argument("--loose", type=float, default=1e-2)
    parser.add_argument("--one", action="store_true", help="measures on the ranks that run this")
    o = parser.parse_args()
    if o.one:
        found = {name: facts_of(A, o.tolerance, o.loose) for name, A in matrices(o.size, o.tolerance)}
        if tacit.comm.world().rank == 0:
            print(json.dumps(found))
        return
    runs = {}
    for ranks in o.ranks:
        words = [sys.executable, __file__, "--one", "--size", o.size, "--tolerance", o.tolerance, "--loose", o.loose]
        runs[ranks] = harness.facts([o.mpiexec, "-n", ranks, *words], threads=1)
    shown = (
        "most_cpu",
        "cpu",
        "seconds",
        "most_mb",
        "mb",
        "messages",
        "message_mb",
        "solve_seconds",
        "solve_messages",
        "solve_kb",
    )
    for name in next(iter(runs.values())):
        print(f"{name}\n ranks " + " ".join(f"{k:>14}" for k in shown) + "  residual  iterations  log |det|")
        for ranks, run in runs.items():
            f = run[name]
            numbers = " ".join(f"{f[k]:14.3f}" for k in shown)
            print(
                f"{ranks:6} {numbers}  {f['residual']:8.1e}  {f['iterations']:10}  {f['log_determinant']:.8f} {f['note']}"
            )
    harness.write(o.json, "hmatrix_factors_ranks/1", size=o.size, tolerance=o.tolerance, loose=o.loose, runs=runs)


if __name__ == "__main__":
    main()
