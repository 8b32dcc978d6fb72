"""Times of a solve while other programs use the same cores.

    python bench/under_load.py [--side 200] [--iterations 600] [--busy N] [--threads 1 2] [--rounds 5] [--multigrid]
                               [--json FILE]

cg on the Laplacian of side x side points, a fixed number of iterations, on an idle machine and together with N
processes that compute all the time (default: two for each processor), for each number of threads, in alternating runs.
Prints the least and the median of all runs, and the ratio of the loaded median to that of the first number of threads.
--multigrid: also the command `tacit multigrid`. Other programs on the machine show in the idle figures; `nice -n -20`
reduces their effect, but also gives the busy processes the same priority as the solve.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp

import harness
import tacit
from tacit import _core

BUSY = "while True: pass"


@contextlib.contextmanager
def busy(count):
    children = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    time.sleep(0.5)
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def laplacian(side):
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    one = sp.identity(side)
    return (sp.kron(line, one) + sp.kron(one, line)).tocsr()


def solves(matrix, rhs, iterations, threads, count):
    _core.set_threads(threads)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        found = tacit.solve(matrix, rhs, method="cg", rtol=1e-300, max_iterations=iterations)
        times.append(time.perf_counter() - begin)
        if found.iterations != iterations:
            raise SystemExit(f"cg ended after {found.iterations} of {iterations} iterations: take a larger --side")
    return times


def commands(threads):
    begin = time.perf_counter()
    command = [sys.executable, "-m", "tacit", "multigrid", "--n", "64", "--threads", str(threads)]
    harness.output(command, threads=threads)
    return [time.perf_counter() - begin]


def main():
    parser = harness.parser(__doc__, rounds=5, threads=[1, 2])
    parser.add_argument("--side", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--busy", type=int, default=2 * len(os.sched_getaffinity(0)))
    parser.add_argument("--multigrid", action="store_true")
    options = parser.parse_args()
    matrix = laplacian(options.side)
    rhs = np.random.default_rng(1).standard_normal(options.side**2)
    work = {"cg": lambda threads: solves(matrix, rhs, options.iterations, threads, 5)}
    if options.multigrid:
        work["multigrid"] = commands
    seconds = {}
    for _ in range(options.rounds):
        for load in (0, options.busy):
            with busy(load):
                for name, f in work.items():
                    for threads in options.threads:
                        seconds.setdefault((name, threads, load > 0), []).extend(f(threads))
    load = f"{options.busy} busy: least"
    print(f"{'':10} threads   idle: least  median {load:>15}  median   of {options.threads[0]} thread(s)")
    for name in work:
        reference = statistics.median(seconds[name, options.threads[0], True])
        for threads in options.threads:
            idle, loaded = (seconds[name, threads, load] for load in (False, True))
            print(
                f"{name:10} {threads:7} {min(idle):12.4f} {statistics.median(idle):7.4f}"
                f" {min(loaded):15.4f} {statistics.median(loaded):7.4f} {statistics.median(loaded) / reference:14.2f}"
            )
    rows = [dict(zip(("work", "threads", "loaded"), key, strict=True), seconds=s) for key, s in seconds.items()]
    harness.write(options.json, "under_load/1", rounds=options.rounds, busy=options.busy, rows=rows)


if __name__ == "__main__":
    main()
