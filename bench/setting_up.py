"""What tacit.solve costs before its first iteration, and the memory that it takes beyond the given matrix.

    python bench/setting_up.py [--n 128] [--rounds 5] [--folder FOLDER] [--preconds NAME ...] [--json FILE]

The 7-point matrix on n^3 points, a SciPy csr matrix of float64 with 32-bit indices; with "signs", D A D for a diagonal D
of random signs, for which auto takes ic0 where it takes amg for A itself. Each run is a process of its own; the candidates
alternate, and medians are printed. Times are processor times in products with A, whose own time is a median too:

    cold    to the first callback of the first solve
    warm    the same for a second solve in the same process
    stages  one after another in a process that has solved a system of three unknowns: the matrix stored ("csr"), looked at
            ("look", auto only), the preconditioner made ("precond"), and what is left of a solve to its first callback
            ("start")

MiB is the most that a solve to the end held beyond what the process held before, "x" the same over the bytes of the matrix.
"""

import functools
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import harness

PRECONDS = ["auto", "auto signs", "jacobi", "ic0", "ilu0", "ilut"]
STAGES = ("csr", "look", "precond", "start")


def load(path: str, signs: bool) -> Any:
    """The matrix in the file, or D A D."""
    import numpy as np
    import scipy.sparse as sp

    a = sp.load_npz(path)
    if signs:
        d = np.random.default_rng(0).choice([-1.0, 1.0], a.shape[0])
        a.data *= d[a.indices]
        a.data *= np.repeat(d, np.diff(a.indptr))
    return a


def cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and its processor time in seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def first_callback(a: Any, b: Any, **options: Any) -> float:
    """Processor seconds from the call of tacit.solve to its first callback."""
    import tacit

    start, found = time.process_time(), []

    def stop(_: Any) -> bool:
        found.append(time.process_time() - start)
        return True

    tacit.solve(a, b, threads=1, callback=stop, **options)
    return found[0]


def product(a: Any, b: Any) -> float:
    """Median processor seconds of a product with the stored matrix."""
    import tacit

    stored = tacit.csr(a)
    return statistics.median(cpu(lambda: stored @ b)[1] for _ in range(21))


def stages(a: Any, b: Any, precond: str) -> dict[str, float]:
    """Seconds of the parts of a solve to its first callback."""
    import numpy as np

    import tacit

    tacit.solve(np.eye(3), np.ones(3), threads=1)
    seconds = dict.fromkeys(STAGES, 0.0)
    with tacit._support.using_threads(1):
        stored, seconds["csr"] = cpu(lambda: tacit.csr(a))
        if precond == "auto":
            _, seconds["look"] = cpu(lambda: stored.automatic("auto"))
            seconds["start"] = first_callback(stored, b)
        else:
            made, seconds["precond"] = cpu(lambda: tacit.precond.build(stored, {"name": precond}, None))
            seconds["start"] = first_callback(stored, b, precond=made[0])
    return seconds


def once(what: str, name: str, path: str) -> None:
    """Runs one measurement of one candidate, and prints it as JSON."""
    import numpy as np

    import tacit

    precond, _, signs = name.partition(" ")
    a = load(path, bool(signs))
    b = np.ones(a.shape[0])
    options = {} if precond == "auto" else {"precond": precond}
    if what == "memory":
        tacit.solve(np.eye(3), np.ones(3), threads=1)  # loads the library
        result, held = harness.growth(lambda: tacit.solve(a, b, threads=1, **options))
        size = (a.data.nbytes + a.indices.nbytes + a.indptr.nbytes) / 2**20
        words = result.choice or f"{result.method} with {result.precond}"
        facts: dict[str, Any] = {"MiB": held, "x": held / size, "outcome": words, "iterations": result.iterations}
    elif what == "stages":
        facts = stages(a, b, precond) | {"product": product(a, b)}
    else:
        facts = {key: first_callback(a, b, **options) for key in ("cold", "warm")} | {"product": product(a, b)}
    print(json.dumps(facts))


def main() -> None:
    if sys.argv[1:2] == ["--once"]:
        once(*sys.argv[2:5])
        return
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--n", type=int, default=128, help="points along an axis")
    parser.add_argument("--folder", help="for the file (default: a temporary one)")
    parser.add_argument("--preconds", nargs="+", default=PRECONDS, help='of "auto", "auto signs", and names')
    options = parser.parse_args()
    import scipy.sparse as sp

    import tacit

    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        path = pathlib.Path(made) / "a.npz"
        matrix = tacit.poisson((options.n,) * 3).to_scipy()
        matrix.indices, matrix.indptr = matrix.indices.astype("int32"), matrix.indptr.astype("int32")
        sp.save_npz(path, matrix, compressed=False)

        def run(what: str, name: str) -> Any:
            return harness.facts([sys.executable, __file__, "--once", what, name, path], threads=1)

        pairs = [(what, name) for name in options.preconds for what in ("times", "stages", "memory")]
        runs = harness.turns(options.rounds, {pair: functools.partial(run, *pair) for pair in pairs})
    show(runs, options, matrix)


def show(runs: dict[Any, list[Any]], options: Any, matrix: Any) -> None:
    """Prints the medians, and writes them."""
    print(f"{matrix.shape[0]} rows, {matrix.nnz} entries, one thread; times in products with A")
    heads = ("cold", "warm", *STAGES)
    print(f"{'':12}" + "".join(f"{head:>8}" for head in heads) + f"{'MiB':>8}{'x':>6}")
    rows = []
    for name in options.preconds:
        row: dict[str, Any] = {"name": name}
        for what in ("times", "stages"):
            for key in ("cold", "warm") if what == "times" else STAGES:
                row[key] = statistics.median(run[key] / run["product"] for run in runs[what, name])
        held = runs["memory", name]
        row |= held[0] | {key: statistics.median(run[key] for run in held) for key in ("MiB", "x")}
        rows.append(row)
        print(f"{name:12}" + "".join(f"{row[head]:8.1f}" for head in heads) + f"{row['MiB']:8.0f}{row['x']:6.2f}")
        print(f"{'':12}{row['outcome']}, {row['iterations']} iterations")
    harness.write(options.json, "setting_up/1", n=options.n, entries=int(matrix.nnz), rounds=options.rounds, rows=rows)


if __name__ == "__main__":
    main()
