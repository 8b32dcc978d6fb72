"""Seconds and memory of getting a matrix: files read by Tacit and its peers, a SciPy matrix taken, symmetry checked.

    python bench/reading.py [--n 128] [--rounds 5] [--threads 2] [--folder FOLDER] [--petsc PYTHON] [--json FILE]

The 7-point matrix on n^3 points, as .npz (csr, not compressed, 32-bit indices), PETSc binary and Matrix Market file. Each
run is a process of its own; the candidates alternate, and medians are printed. "CPU" is the processor time of the process
in the run, "MiB" the growth of its peak memory. Tacit's matrix is checked and stored for products. SciPy's and
fast_matrix_market's (`pip install fast_matrix_market`) results are csr arrays; MatLoad's is a Mat, read by petsc4py in the
interpreter --petsc (on Debian: /usr/bin/python3 with python3-petsc4py). Peers that are not installed are left out.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import harness

CASES = [
    ("tacit.read .npz", "a.npz"),
    ("scipy load_npz", "a.npz"),
    ("scipy load_npz, tacit.csr", "a.npz"),
    ("tacit.read PETSc", "a.petsc"),
    ("MatLoad", "a.petsc"),
    ("tacit.read Matrix Market", "a.mtx"),
    ("fast_matrix_market", "a.mtx"),
    ("scipy mmread", "a.mtx"),
    ("tacit.csr", "a.npz"),
    ("tacit is_hermitian", "a.npz"),
]


def matload(path: str) -> Callable[[], object]:
    """PETSc's reader. No import of this checkout: another interpreter may run it."""
    import petsc4py

    petsc4py.init([])
    from petsc4py import PETSc

    return lambda: PETSc.Mat().load(PETSc.Viewer().createBinary(path, "r"))


def candidate(name: str, path: str) -> Callable[[], object]:
    """What is to be timed, with its libraries loaded."""
    if name == "MatLoad":
        return matload(path)
    import scipy.io
    import scipy.sparse as sp

    import tacit

    tacit.poisson(3)  # loads the library
    if name == "fast_matrix_market":
        import fast_matrix_market

        threads = int(os.environ["OMP_NUM_THREADS"])
        return lambda: fast_matrix_market.mmread(path, parallelism=threads).tocsr()
    if name == "tacit.csr":
        matrix = sp.load_npz(path)
        return lambda: tacit.csr(matrix)
    if name == "tacit is_hermitian":
        return tacit.csr(sp.load_npz(path)).is_hermitian
    peers = {
        "scipy load_npz": lambda: sp.load_npz(path),
        "scipy load_npz, tacit.csr": lambda: tacit.csr(sp.load_npz(path)),
        "scipy mmread": lambda: scipy.io.mmread(path).tocsr(),
    }
    return peers.get(name, lambda: tacit.read(path))


def once(name: str, path: str) -> None:
    """Runs one candidate, and prints seconds and MiB as JSON."""
    work = candidate(name, path)
    memory, before, start = harness.peak(), resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    kept = work()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(json.dumps({"seconds": seconds, "CPU": cpu, "MiB": harness.peak() - memory}))
    del kept


def has(python: str, module: str) -> bool:
    """Whether an interpreter can import a module."""
    call = [python, "-c", f"import {module}"]
    try:
        return subprocess.run(call, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main() -> None:
    if sys.argv[1:2] == ["--once"]:
        once(*sys.argv[2:4])
        return
    parser = harness.parser(__doc__, rounds=5, threads=2)
    parser.add_argument("--n", type=int, default=128, help="points along an axis")
    parser.add_argument("--folder", help="for the files (default: a temporary one)")
    parser.add_argument("--petsc", default="/usr/bin/python3", help="the interpreter that has petsc4py")
    options = parser.parse_args()
    missing = set()
    if not has(options.petsc, "petsc4py"):
        missing.add("MatLoad")
    if not has(sys.executable, "fast_matrix_market"):
        missing.add("fast_matrix_market")
    import scipy.sparse as sp

    import tacit

    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = pathlib.Path(made)
        matrix = tacit.poisson((options.n,) * 3).to_scipy()
        matrix.indices, matrix.indptr = matrix.indices.astype("int32"), matrix.indptr.astype("int32")
        sp.save_npz(folder / "a.npz", matrix, compressed=False)
        for name in ("a.petsc", "a.mtx"):
            tacit.write(folder / name, matrix)
        runs = harness.turns(
            options.rounds,
            {
                name: lambda name=name, file=file: harness.facts(
                    [options.petsc if name == "MatLoad" else sys.executable, __file__, "--once", name, folder / file],
                    threads=options.threads,
                )
                for name, file in CASES
                if name not in missing
            },
        )
    rows = []
    print(f"{matrix.shape[0]} rows, {matrix.nnz} entries\n{'':26} {'seconds':>8} {'CPU':>6} {'MiB':>6}")
    for name, found in runs.items():
        row = {"name": name} | {key: statistics.median(run[key] for run in found) for key in ("seconds", "CPU", "MiB")}
        rows.append(row | {"all_seconds": [run["seconds"] for run in found]})
        print(f"{name:26} {row['seconds']:8.2f} {row['CPU']:6.2f} {row['MiB']:6.0f}")
    harness.write(
        options.json,
        "reading/2",
        n=options.n,
        entries=int(matrix.nnz),
        rounds=options.rounds,
        threads=options.threads,
        rows=rows,
    )


if __name__ == "__main__":
    main()
