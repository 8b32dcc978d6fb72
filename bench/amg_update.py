"""Set-up of algebraic multigrid, and updates with new numbers in the same places.

    python bench/amg_update.py [--rounds 5] [--only NAME ...] [--scale 1] [--ranks 1 2] [--json FILE]

Seconds are those of the processor, of the first rank with one thread, so that they also mean something on a machine
with other load: medians of rounds of one update and one set-up, and the median of the rounds' ratios. "first" is the
first update, which also finds the places that later ones use; "product" is one product with the matrix. Memory, over all
ranks: the matrices of all levels, and what the first update keeps for later ones. Updates scale rows and columns by up
to 2 per cent.
"""

import json
import statistics
import sys
import time

import numpy as np
import scipy.sparse as sp

import harness
from amg import Rows
from amg_systems import Problem, elasticity, grid_laplacian


def convection_3d(n, strength=50.0):
    """-Laplace u + v . grad u on the unit cube, v = strength (1, 1/2, 0), central differences."""
    step = sp.diags([-0.5, 0.5], [-1, 1], (n, n)) * (strength / (n + 1))
    one = sp.identity(n)
    along_x, along_y = sp.kron(sp.identity(n * n), step), sp.kron(sp.kron(one, step), one)
    return Problem((grid_laplacian(n, n, n) + along_x + 0.5 * along_y).tocsr(), symmetric=False)


SYSTEMS = {
    "5-point 1024^2": lambda s: Problem(grid_laplacian(*[int(1024 * s)] * 2)),
    "7-point 128^3": lambda s: Problem(grid_laplacian(*[int(128 * s)] * 3)),
    "convection 96^3": lambda s: convection_3d(int(96 * s)),
    "elasticity 300^2": lambda s: elasticity(*[int(300 * s)] * 2),
}


def child(name, rounds, scale):
    """The first rank prints one line of JSON."""
    import tacit

    comm = tacit.comm.world()
    given = SYSTEMS[name](scale)
    given.a.sort_indices()
    own = Rows(given, comm.rank, comm.size)
    a = tacit.csr(own.a, own_rows=True) if comm.size > 1 else tacit.csr(own.a)
    near = {} if own.coordinates is None else {"coordinates": own.coordinates}
    size = 1 + 0.01 * np.sin(np.arange(own.size))  # rows and columns times these
    value = np.asarray(own.a.data)
    row = (own.own.start or 0) + np.repeat(np.arange(own.a.shape[0]), np.diff(own.a.indptr))
    factor = size[row] * size[own.a.indices]

    def timed(work):
        comm.barrier()
        start = time.process_time()
        result = work()
        return result, time.process_time() - start

    a.update_values(value * factor)
    m, _ = timed(lambda: tacit.precond.amg(a, **near))
    a.update_values(value * factor**2)
    _, first = timed(m.update)
    x = np.ones(own.size)
    found = {"set-up": [], "update": [], "product": []}
    for k in range(rounds):
        a.update_values(value * factor ** (k % 3))
        found["update"].append(timed(m.update)[1])
        fresh, seconds = timed(lambda: tacit.precond.amg(a, **near))
        found["set-up"].append(seconds)
        del fresh
        found["product"].append(timed(lambda: a @ x)[1])
    report = m.report
    if comm.rank == 0:
        kept, matrices = report["update_bytes"] / 2**20, report["matrix_bytes"] / 2**20
        print(json.dumps(found | {"first": first, "kept": kept, "matrices": matrices}))


def main():
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
        return
    parser = harness.parser(__doc__, rounds=5, ranks=[1, 2])
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    results = {}
    print(f"{'':18} ranks   set-up    first   update   ratio   product   matrices     kept")
    for name in options.only:
        for ranks in options.ranks:
            words = [sys.executable, __file__, "--child", name, str(options.rounds), str(options.scale)]
            if ranks > 1:
                words = [options.mpiexec, "-n", str(ranks), *words]
            found = harness.facts(words)
            typical = {key: statistics.median(found[key]) for key in ("set-up", "update", "product")}
            ratio = statistics.median(u / s for u, s in zip(found["update"], found["set-up"], strict=True))
            results[f"{name}, {ranks}"] = found | {"ratio": ratio}
            print(
                f"{name:18} {ranks:5} {typical['set-up']:6.2f} s {found['first']:6.2f} s {typical['update']:6.2f} s"
                f" {ratio:7.2f} {1e3 * typical['product']:6.1f} ms {found['matrices']:6.0f} MiB {found['kept']:4.0f} MiB",
                flush=True,
            )
            harness.write(options.json, "amg_update", scale=options.scale, rounds=options.rounds, systems=results)


if __name__ == "__main__":
    main()
