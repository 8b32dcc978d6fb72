"""Seconds and memory of getting a matrix: files read by Tacit and SciPy, a SciPy matrix taken, symmetry checked.

    python bench/reading.py [--n 128] [--rounds 3] [--threads 1] [--folder FOLDER] [--json FILE]

The 7-point matrix on n^3 points, as .npz (csr, not compressed), PETSc binary and Matrix Market file. Each run is a process
of its own; the candidates alternate. "MiB" is the growth of the process's peak memory. SciPy's result is a csr array. Text
is parsed by --threads threads (SciPy uses all cores).
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

import harness

CASES = [
    ("tacit.read .npz", "a.npz"),
    ("scipy load_npz", "a.npz"),
    ("tacit.read PETSc", "a.petsc"),
    ("tacit.read Matrix Market", "a.mtx"),
    ("scipy mmread", "a.mtx"),
    ("tacit.csr", "a.npz"),
    ("tacit is_hermitian", "a.npz"),
]


def peak() -> float:
    """The peak memory of this process in MiB (ru_maxrss would be its parent's, where that was larger)."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return float("nan")


def once(name: str, path: str) -> None:
    """Runs one candidate, and prints seconds and MiB as JSON."""
    import scipy.io
    import scipy.sparse as sp

    import tacit

    work = {
        "scipy load_npz": lambda: sp.load_npz(path),
        "scipy mmread": lambda: scipy.io.mmread(path).tocsr(),
    }.get(name, lambda: tacit.read(path))
    if name == "tacit.csr":
        matrix = sp.load_npz(path)
        work = lambda: tacit.csr(matrix)  # noqa: E731
    elif name == "tacit is_hermitian":
        operator = tacit.csr(sp.load_npz(path))
        work = operator.is_hermitian
    else:
        tacit.poisson(3)  # loads the library
    memory, start = peak(), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "MiB": peak() - memory}))


def main() -> None:
    parser = harness.parser(__doc__, rounds=3, threads=1)
    parser.add_argument("--n", type=int, default=128, help="points along an axis")
    parser.add_argument("--folder", help="for the files (default: a temporary one)")
    parser.add_argument("--once", nargs=2, metavar=("NAME", "FILE"), help="one run of one candidate")
    options = parser.parse_args()
    if options.once:
        once(*options.once)
        return
    import scipy.sparse as sp

    import tacit

    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = pathlib.Path(made)
        matrix = tacit.poisson((options.n,) * 3).to_scipy()
        sp.save_npz(folder / "a.npz", matrix, compressed=False)
        for name in ("a.petsc", "a.mtx"):
            tacit.write(folder / name, matrix)
        runs = harness.turns(
            options.rounds,
            {
                name: lambda name=name, file=file: harness.facts(
                    [sys.executable, __file__, "--once", name, folder / file], threads=options.threads
                )
                for name, file in CASES
            },
        )
    rows = []
    print(f"{matrix.shape[0]} rows, {matrix.nnz} entries\n{'':26} {'seconds':>8} {'MiB':>6}")
    for name, found in runs.items():
        row = {"name": name} | {key: statistics.median(run[key] for run in found) for key in ("seconds", "MiB")}
        rows.append(row | {"all_seconds": [run["seconds"] for run in found]})
        print(f"{name:26} {row['seconds']:8.2f} {row['MiB']:6.0f}")
    harness.write(options.json, "reading/1", n=options.n, entries=int(matrix.nnz), rounds=options.rounds, rows=rows)


if __name__ == "__main__":
    main()
