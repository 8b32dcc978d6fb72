"""Solves matrix files with tacit.solve(A, b) and with many single settings of Tacit and SciPy, and compares them.

    python bench/auto_settings.py FOLDER [--json FILE] [--only NAME ...] [--limit 60] [--seed 1] [--rtol 1e-8] [--largest 2000000]

FOLDER holds NAME.mtx or NAME.npz files: square, with a solution. b = A x for a random x. Each matrix has a process of its own,
and a setting up to --limit seconds. Seconds are those of the whole call, from SciPy's csr array: conversion, preconditioner
and solve; the smallest of up to three runs. A setting counts as a success if ||b - A x|| <= 1.01 rtol ||b||, computed here.
"ratio": seconds of auto over those of the fastest setting that succeeds.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import harness

METHODS = ("cg", "bicgstab", "gmres", "idr")
PRECONDS = ("none", "jacobi", "ilu0", "ic0", "ilut")


def settings(hermitian):
    """The single settings: (name, arguments of tacit.solve) and, with None for these, those of SciPy."""
    for method in METHODS if hermitian else METHODS[1:]:
        for precond in PRECONDS:
            if (precond == "ic0") == (method == "cg") or precond in ("none", "jacobi"):
                yield f"{method} {precond}", {"method": method, "precond": precond}
    for method in ("gmres", "bicgstab"):
        yield f"scipy {method} spilu", None


def scipy_solve(name, a, b, rtol):
    import scipy.sparse.linalg as sl

    factors = sl.spilu(a.tocsc())
    preconditioner = sl.LinearOperator(a.shape, factors.solve, dtype=a.dtype)
    if "gmres" in name:
        return sl.gmres(a, b, M=preconditioner, rtol=rtol, restart=30, maxiter=100)[0]
    return sl.bicgstab(a, b, M=preconditioner, rtol=rtol, maxiter=2000)[0]


def read(path):
    import scipy.io
    import scipy.sparse as sp

    a = sp.csr_array(sp.load_npz(path) if path.suffix == ".npz" else scipy.io.mmread(path))
    return a.astype("float64") if a.dtype.kind in "iub" else a


def child(path, rtol, seed, limit):
    """Runs all settings on one matrix; prints a line of JSON for each."""
    import signal
    import warnings

    import numpy as np

    import tacit

    warnings.simplefilter("ignore")
    a = read(pathlib.Path(path))
    n = a.shape[0]
    b = a @ np.random.default_rng(seed).standard_normal(n)
    size = np.linalg.norm(b)
    hermitian = tacit.csr(a).is_hermitian()
    tacit.solve(tacit.poisson((9, 9), assembled=True), np.ones(81))  # starts threads, loads modules
    print(json.dumps({"rows": n, "entries": int(a.nnz), "hermitian": bool(hermitian)}), flush=True)

    class TimeOut(Exception):
        pass

    def late(*_):
        raise TimeOut

    signal.signal(signal.SIGALRM, late)
    for name, arguments in [("auto", {}), *settings(hermitian)]:
        seconds, told, begin = [], {}, time.perf_counter()
        while len(seconds) < 3 and (not seconds or time.perf_counter() - begin < 2):
            start = time.perf_counter()
            signal.alarm(limit)
            try:
                if arguments is None:
                    x = scipy_solve(name, a, b, rtol)
                    told = {}
                else:
                    r = tacit.solve(a, b, rtol=rtol, **arguments)
                    x = r.x
                    told = {"reason": r.reason, "products": r.counts["operator_applies"], "detail": r.detail}
                    told |= {"choice": r.choice} if r.choice else {}
            except (TimeOut, KeyboardInterrupt):
                x, told = None, {"reason": "time"}
            except (ValueError, RuntimeError, MemoryError, ArithmeticError) as error:
                x, told = None, {"reason": f"{type(error).__name__}: {error}"[:200]}
            signal.alarm(0)
            seconds.append(time.perf_counter() - start)
            if x is None:
                break
        residual = float(np.linalg.norm(b - a @ x) / size) if x is not None and np.isfinite(x).all() else None
        success = residual is not None and residual <= 1.01 * rtol
        print(json.dumps({"setting": name, "seconds": min(seconds), "residual": residual, "success": success, **told}))
        sys.stdout.flush()


def examine(path, options):
    """What child() prints for one matrix, also where it dies."""
    command = [sys.executable, __file__, "--child", path, options.rtol, options.seed, options.limit]
    with subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, text=True, env=harness.environment()
    ) as process:
        assert process.stdout
        lines = [json.loads(line) for line in process.stdout if line.startswith("{")]
    return (lines[0], lines[1:]) if lines else (None, [])


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rtol", type=float, default=1e-8)
    parser.add_argument("--largest", type=int, default=2000000, help="entries of the largest matrix")
    options = parser.parse_args()
    print(
        f"{'system':18} {'rows':>8} {'entries':>9}  {'auto':>14} {'residual':>9} {'seconds':>8} {'ratio':>6}  fastest setting"
    )
    systems, ratios, solved, false = [], [], {}, 0
    for path in sorted([*options.folder.glob("*.mtx"), *options.folder.glob("*.npz")]):
        if options.only and path.stem not in options.only:
            continue
        facts, runs = examine(path, options)
        if not runs or facts["entries"] > options.largest:
            continue
        auto, best = runs[0], min((r for r in runs[1:] if r["success"]), key=lambda r: r["seconds"], default=None)
        for r in runs:
            solved[r["setting"]] = solved.get(r["setting"], 0) + r["success"]
            false += r.get("reason") == "converged" and not r["success"]
        ratio = auto["seconds"] / best["seconds"] if best and auto["success"] else None
        ratios += [ratio] if ratio else []
        seconds = {r["setting"]: round(r["seconds"], 5) if r["success"] else None for r in runs}
        told = {"reason": auto["reason"], "residual": auto["residual"], "choice": auto.get("choice", "")}
        systems.append({"name": path.stem, **facts, **told, "ratio": ratio, "seconds": seconds})
        residual = "none" if auto["residual"] is None else f"{auto['residual']:.2e}"
        fastest = f"{best['setting']} {best['seconds']:.4f}" if best else "none succeeds"
        print(
            f"{path.stem:18} {facts['rows']:8} {facts['entries']:9}  {auto['reason']:>14} {residual:>9} {auto['seconds']:8.4f}"
            f" {ratio if ratio else 0:6.2f}  {fastest}",
            flush=True,
        )
    any_single = sum(any(list(s["seconds"].values())[1:]) for s in systems)
    print(f"{len(systems)} systems; solved by some single setting {any_single}; claims that do not hold {false}")
    for name, number in sorted(solved.items(), key=lambda item: -item[1]):
        print(f"  {name:22} solves {number}")
    if len(ratios) > 1:
        ratios.sort()
        p95 = ratios[min(len(ratios) - 1, int(0.95 * len(ratios)))]
        print(
            f"seconds of auto over the fastest: median {statistics.median(ratios):.2f}, 95th percentile {p95:.2f}, worst {ratios[-1]:.2f}"
        )
    harness.write(options.json, "auto/1", systems=systems, solved=solved, false=false)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
