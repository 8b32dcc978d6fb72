"""Reconstruction of a scan by `tacit reconstruct`, one slice and many: seconds of building and solving, and memory,
with goals.

    python bench/tomography_scan.py --data FOLDER [--slices 1,32] [--iterations 24] [--options "..."] [--rounds 1]
                                    [--cpu] [--json FILE]
    python bench/tomography_scan.py SINOGRAM.bin THETA.bin ANGLES DETECTORS ...

FOLDER holds tomography/CDS1_sinogram.bin and CDS1_theta.bin; other files are raw float32 as well. The one slice of the
file is repeated. Each figure is the least of --rounds runs. Goals for CDS1 (750 x 512, 235 M entries, 24 iterations of
CGLS, two processors): both directions built in 3.5 s with at most 2.9 GB, one slice in 1.8 s, 32 slices in 14 s. In
one batch, as both are here, the entries are computed on the fly, unless --options, for example "--format list",
says otherwise. --cpu also prints the CPU seconds of building and of products (one thread), and their ratio to the time
of reading the matrix and the vectors at the bandwidth measured here.
"""

import pathlib
import shlex
import sys
import tempfile
import time

import numpy as np

import harness

GOALS = {"build s": 3.5, "peak GB": 2.9, 1: 1.8, 32: 14.0}


def beside_goal(what, figure, goal):
    return f"{what} {figure:.2f}" + (f" (goal {goal:g}: {figure / goal:.2f} of it)" if goal else "")


def processor(o, theta):
    """Prints CPU seconds of one thread, which other load affects only through caches and memory."""
    import tacit
    from tacit import tomography

    def timed(apply, x):
        begin = time.thread_time()
        apply(x)
        return time.thread_time() - begin

    tacit._core.set_threads(1)
    a = np.ones(1 << 27, np.float32)
    passes = []
    for _ in range(5):
        begin = time.thread_time()
        a.max()  # reads as fast as the memory allows, unlike NumPy's sum
        passes.append(time.thread_time() - begin)
    bandwidth = a.nbytes / min(passes)
    del a
    for columns in (1, 32):
        begin = time.thread_time()
        P = tomography.projector(theta, o.detectors, columns=columns)
        built = time.thread_time() - begin
        A = P.operator
        print(
            f"processor, {columns:2d} columns, {A.storage}: both built in {built:.2f} s ({built / A.nnz / 2 * 1e9:.2f} ns an entry"
            f" and direction); {A.nbytes / A.nnz / 2:.2f} bytes an entry, read at {bandwidth / 1e9:.1f} GB/s",
            flush=True,
        )
        for adjoint in (False, True):
            x = np.random.default_rng(0).random((A.shape[0 if adjoint else 1], columns), np.float32)
            seconds = min(timed((A.H if adjoint else A).__matmul__, x) for _ in range(3))
            floor = (A.nbytes / 2 + 4 * columns * sum(A.shape)) / bandwidth
            print(
                f"   {'A^T' if adjoint else 'A  '} {seconds:.3f} s, {2e-9 * A.nnz * columns / seconds:.1f} Gflop/s, {seconds / floor:.2f}"
                " of the bytes' time",
                flush=True,
            )
        del P, A


def main():
    words = harness.parser(__doc__, rounds=1)
    words.add_argument("sinogram", nargs="?")
    words.add_argument("theta", nargs="?")
    words.add_argument("angles", type=int, nargs="?", default=750)
    words.add_argument("detectors", type=int, nargs="?", default=512)
    words.add_argument("--data", type=pathlib.Path)
    words.add_argument("--cpu", action="store_true")
    words.add_argument("--slices", default="1,32")
    words.add_argument("--iterations", default="24")
    words.add_argument("--options", default="")
    o = words.parse_args()
    if (o.data is None) == (o.theta is None):
        words.error("either --data or SINOGRAM THETA ANGLES DETECTORS")
    known = o.data is not None and o.iterations == "24"
    if o.data is not None:
        o.sinogram, o.theta = (o.data / f"tomography/CDS1_{what}.bin" for what in ("sinogram", "theta"))
    one = np.fromfile(o.sinogram, "<f4")
    if o.cpu:
        processor(o, np.fromfile(o.theta, "<f4"))
    rows = []
    for slices in (int(s) for s in o.slices.split(",") if s):
        with tempfile.TemporaryDirectory() as folder:
            many = pathlib.Path(folder) / "many.bin"
            np.tile(one, slices).tofile(many)
            command = [sys.executable, "-m", "tacit", "reconstruct", "--sinogram", many, "--theta", o.theta]
            command += ["--shape", f"{o.angles},{o.detectors}", "--iterations", o.iterations, "--json", "-"]
            command += shlex.split(o.options)
            runs = [harness.facts(command, threads=None) for _ in range(o.rounds)]
        r = runs[-1]
        best = {part: min(run["seconds"][part] for run in runs) for part in ("build", "solve")}
        best["peak"] = min(run["peak_memory_bytes"] for run in runs) / 1e9
        rows.append({"slices": slices, "nonzeros": r["nonzeros"], "storage": r["storage"], **best})
        goals = GOALS if known else {}
        print(
            f"{slices:3d} slices, {r['nonzeros']:,} entries ({r['storage']}): {beside_goal('build s', best['build'], goals.get('build s'))},"
            f" {beside_goal('peak GB', best['peak'], goals.get('peak GB'))}, {beside_goal('solve s', best['solve'], goals.get(slices))},"
            f" |b - A x|^2 {r['residual'][0] ** 2:.3f}",
            flush=True,
        )
    harness.write(o.json, "tomography_scan/1", rounds=o.rounds, rows=rows)


if __name__ == "__main__":
    main()
