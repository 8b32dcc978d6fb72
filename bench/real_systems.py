"""Solves matrix files with many settings of Tacit, PETSc and SciPy: who solves what, by class of preconditioner.

    python bench/real_systems.py FOLDER [--keep FOLDER] [--again tacit ...] [--report FILE] [--json FILE]
                                 [--limit 10] [--iterations 20000] [--rhs random ones] [--only NAME ...] [--largest 500000]

FOLDER holds NAME.mtx or NAME.npz files: square, with a solution. b = A x with a random x, or b = 1. PETSc runs where
Debian's petsc4py is (apt install python3-petsc4py python3-scipy), with the real or the complex build.

A setting is a program, a method, a preconditioner and its options. Every program runs in a process of its own, which is
killed and started again when a setting takes much longer than --limit seconds or crashes. Seconds are those of the
processor, with one thread, so that other load counts less, and of the whole call from SciPy's arrays: conversion,
preconditioner and solve; the smallest of up to three runs, and of more while these take 10 ms together. A setting solves
a system if ||b - A x|| <= 1.1 rtol ||b||, computed here in long double; it is falsely converged if it said so and does not.
A PETSc setting whose own norm let it stop too soon runs once more with the norm of b - A x, which then counts.

--keep FOLDER keeps the runs of each matrix and program, and takes them from there; --again runs programs anew. --report
rewrites FILE after each matrix.
"""

import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp

import harness

PROGRAMS = ("tacit", "petsc", "scipy")
CLASSES = ("none", "jacobi", "ic0", "ilu0", "ilu(k), ic(k)", "ilut", "schwarz")
DEBIAN = "/usr/bin/python3"


# ---- settings: (name, class of the preconditioner, arguments) ----


def tacit_settings(hermitian):
    yield "auto", "auto", {}
    k = CLASSES[4]
    if hermitian:
        kinds = (("none", "none", {}), ("jacobi", "jacobi", {}), ("ic0", "ic0", {}), ("ick", k, {"levels": 2}))
        for precond, kind, options in kinds:
            yield f"cg {precond}", kind, {"method": "cg", "precond": {"name": precond, **options}}
        for method in ("gmres", "bicgstab", "idr"):  # ic0 may be of an indefinite matrix
            yield f"{method} ic0", "ic0", {"method": method, "precond": {"name": "ic0"}}
    for method in ("gmres", "bicgstab", "idr"):
        for precond, kind, options in (
            ("none", "none", {}),
            ("jacobi", "jacobi", {}),
            ("ilu0", "ilu0", {}),
            ("iluk", k, {"levels": 1}),
            ("iluk", k, {"levels": 3}),
            ("ilut", "ilut", {}),
        ):
            name = f"{method} {precond}{options.get('levels', '')}"
            yield name, kind, {"method": method, "precond": {"name": precond, **options}}


def petsc_settings(hermitian):
    """Arguments are PETSc's options."""
    nonzero = ["-pc_factor_shift_type", "nonzero"]
    none, jacobi = ("none", "none", ["none"]), ("jacobi", "jacobi", ["jacobi"])
    icc = [("icc", "ic0", ["icc"]), ("icc nonzero", "ic0", ["icc", *nonzero])]
    ilu = [("ilu0", "ilu0", ["ilu"]), ("ilu0 nonzero", "ilu0", ["ilu", *nonzero])]
    ilu += [(f"ilu{k}", CLASSES[4], ["ilu", "-pc_factor_levels", str(k)]) for k in (1, 2, 3)]
    ilu += [("ilu3 nonzero", CLASSES[4], ["ilu", "-pc_factor_levels", "3", *nonzero])]
    general = [none, jacobi, *ilu, ("asm", "schwarz", ["asm"]), *(icc if hermitian else [])]
    methods = [(["bcgs"], general), (["gmres", "30"], general), (["gmres", "120"], general)]
    if hermitian:
        methods = [(["cg"], [none, jacobi, *icc]), (["minres"], [none, jacobi, *icc]), *methods]
    for method, preconditioners in methods:
        restart = ["-ksp_gmres_restart", method[1]] if len(method) > 1 else []
        for name, kind, words in preconditioners:
            yield f"{''.join(method)} {name}", kind, ["-ksp_type", method[0], *restart, "-pc_type", *words]


def scipy_settings(hermitian):
    for method in ("cg", "bicgstab", "gmres") if hermitian else ("bicgstab", "gmres"):
        for name, kind, options in (
            ("none", "none", None),
            ("spilu", "ilut", {}),
            ("spilu 1e-4 20", "ilut", {"drop_tol": 1e-4, "fill_factor": 20}),
        ):
            yield f"{method} {name}", kind, (method, options)


SETTINGS = {"tacit": tacit_settings, "petsc": petsc_settings, "scipy": scipy_settings}


# ---- one solve of a program: x, whether it reports success, and what else it says ----


def tacit_solve(a, b, arguments, limits):
    import tacit

    more = {"max_iterations": limits["iterations"]} if arguments else {}
    r = tacit.solve(a, b, rtol=limits["rtol"], **arguments, **more)
    facts = {"reason": r.reason, "products": r.counts["operator_applies"], "detail": (r.detail or "")[:200]}
    return r.x, r.converged, facts | ({"choice": r.choice} if r.choice else {})


def petsc_solve(a, b, arguments, limits):
    from petsc4py import PETSc

    options, words = PETSc.Options(), dict(_pairs(arguments))
    for key, value in words.items():
        options[key] = value
    x, reason = b * 0, 0
    try:
        matrix = PETSc.Mat().createAIJ(a.shape, csr=(a.indptr, a.indices, a.data), comm=PETSc.COMM_SELF)
        ksp = PETSc.KSP().create(PETSc.COMM_SELF)
        ksp.setOperators(matrix)
        ksp.setTolerances(rtol=limits["rtol"], atol=0.0, max_it=limits["iterations"])
        ksp.setFromOptions()
        left, right = matrix.createVecs()
        right.setArray(b)
        ksp.solve(right, left)
        x, reason = left.getArray().copy(), ksp.getConvergedReason()
        iterations = ksp.getIterationNumber()
    except PETSc.Error as error:
        return x, False, {"reason": f"error {error.ierr}"}
    finally:
        for key in words:
            options.delValue(key)
    return x, reason > 0, {"reason": str(reason), "iterations": iterations}


def _pairs(words):
    return [(words[i].removeprefix("-"), words[i + 1]) for i in range(0, len(words), 2)]


def true_norm(arguments):
    """The arguments of the same PETSc setting that stops by ||b - A x||."""
    method = arguments[1]
    if method == "minres":
        return None
    side = ["-ksp_pc_side", "right"] if method in ("gmres", "bcgs") else []
    return [*arguments, *side, "-ksp_norm_type", "unpreconditioned"]


def scipy_solve(a, b, arguments, limits):
    import scipy.sparse.linalg as sl

    method, options = arguments
    preconditioner = None
    if options is not None:
        factors = sl.spilu(a.tocsc(), **options)
        preconditioner = sl.LinearOperator(a.shape, factors.solve, dtype=a.dtype)
    restart = {"restart": 30} if method == "gmres" else {}
    iterations = max(1, limits["iterations"] // restart.get("restart", 1))
    info = getattr(sl, method)(a, b, M=preconditioner, rtol=limits["rtol"], atol=0.0, maxiter=iterations, **restart)
    return info[0], info[1] == 0, {"reason": str(info[1])}


SOLVE = {"tacit": tacit_solve, "petsc": petsc_solve, "scipy": scipy_solve}


# ---- the process of a program ----


def read(path):
    if path.suffix == ".npz":
        a = sp.csr_matrix(sp.load_npz(path))
    else:
        import scipy.io

        a = sp.csr_matrix(scipy.io.mmread(path))
    return a.astype("float64") if a.dtype.kind in "iub" else a


def is_hermitian(a):
    return abs(a - a.conj().T).max() <= 1e-14 * abs(a).max()


def right_hand_side(a, which, seed):
    x = np.random.default_rng(seed).standard_normal(a.shape[0])
    return a @ x.astype(a.dtype) if which == "random" else np.ones(a.shape[0], a.dtype)


def relative_residual(a, b, x):
    """||b - A x|| / ||b|| in long double; None for an x that is not finite."""
    if x is None or not np.isfinite(x).all():
        return None
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    r = b.astype(wide) - a.astype(wide) @ np.asarray(x).astype(wide)
    return float(np.sqrt((abs(r) ** 2).sum()) / np.sqrt((abs(b.astype(wide)) ** 2).sum()))


class TimeOut(Exception):
    pass


def late(*_):
    raise TimeOut


def attempt(program, a, b, arguments, limits):
    """The record of a setting: the smallest time of its runs, the true residual, and what the program says."""
    seconds, begin = [], time.perf_counter()
    since = lambda: time.perf_counter() - begin  # noqa: E731
    while not seconds or since() < (limits["repeat"] if len(seconds) < 3 else min(0.01, limits["repeat"])):
        start = time.process_time()
        x, reported = None, False
        signal.alarm(limits["seconds"])
        try:
            x, reported, facts = SOLVE[program](a, b, arguments, limits)
        except (TimeOut, KeyboardInterrupt):
            facts = {"reason": "time"}
        except (ValueError, RuntimeError, MemoryError, ArithmeticError) as error:
            facts = {"reason": f"{type(error).__name__}: {error}"[:200]}
        signal.alarm(0)
        seconds.append(time.process_time() - start)
        if x is None:
            break
    residual = relative_residual(a, b, x)
    solved = residual is not None and residual <= 1.1 * limits["rtol"]
    return {"seconds": min(seconds), "residual": residual, "solved": solved, "claimed": bool(reported), **facts}


def child(program, path, limits):
    """Prints the facts of the matrix, then a line of JSON for each setting from number limits["first"] on."""
    warnings.simplefilter("ignore")
    if program == "petsc":
        import petsc4py

        petsc4py.init(["real_systems"])
    a = read(pathlib.Path(path))
    hermitian = bool(is_hermitian(a))
    if program == "tacit":
        import tacit

        line = sp.diags([-1.0, 2.0, -0.9], [-1, 0, 1], (50, 50), format="csr")  # not timed: loads modules
        for some in (line, line + line.T):
            tacit.solve(some, np.ones(50))
    print(json.dumps({"rows": a.shape[0], "entries": int(a.nnz), "hermitian": hermitian}), flush=True)
    signal.signal(signal.SIGALRM, late)
    b = right_hand_side(a, limits["rhs"], limits["seed"])
    for name, kind, arguments in list(SETTINGS[program](hermitian))[limits["first"] :]:
        print(json.dumps({"setting": name, "class": kind}), flush=True)
        found = attempt(program, a, b, arguments, limits)
        if program == "petsc" and found["claimed"] and not found["solved"] and true_norm(arguments):
            again = attempt(program, a, b, true_norm(arguments), limits)
            found |= {"false": True, "claimed_residual": found["residual"]}
            found |= {key: again[key] for key in ("seconds", "residual", "solved", "reason")}
        found["false"] = bool(found.get("false") or (found["claimed"] and not found["solved"]))
        print(json.dumps(found), flush=True)


# ---- the parent ----


def petsc_python(complex_matrix):
    """Debian's Python with petsc4py for these scalars as words of a command, or None."""
    end = "complex" if complex_matrix else "real"
    for folder in sorted(pathlib.Path("/usr/lib/petscdir").glob(f"*/*-{end}/lib/python3/dist-packages"), reverse=True):
        return ["env", f"PYTHONPATH={folder}", DEBIAN] if pathlib.Path(DEBIAN).exists() else None
    return None


def lines(process, wait):
    """The lines of a process, until it ends or is silent for `wait` seconds; then it is killed."""
    stream, rest = process.stdout, b""
    while select.select([stream], [], [], wait)[0]:
        chunk = os.read(stream.fileno(), 65536)
        if not chunk:
            return
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (json.loads(line) for line in whole if line.startswith(b"{"))
    process.kill()


def runs_of(program, path, limits):
    """The facts of the matrix and a record for each setting of the program, also of those that crash it."""
    complex_matrix = path.suffix == ".npz" and read(path).dtype.kind == "c"
    python = petsc_python(complex_matrix) if program == "petsc" else [sys.executable]
    facts, records = None, []
    while python:
        first = len(records)
        command = [*python, __file__, "--child", program, str(path), json.dumps(limits | {"first": first})]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=harness.environment()
        ) as process:
            name = None
            for line in lines(process, 2 * limits["seconds"] + 20):
                if "rows" in line:
                    facts = line
                elif "setting" in line:
                    name = line
                else:
                    records.append(name | line)
                    name = None
        if name is None and (process.returncode == 0 or len(records) == first):
            break
        if name is not None:
            reason = "time" if process.returncode == -signal.SIGKILL else f"crash {process.returncode}"
            none = {"seconds": None, "residual": None, "solved": False, "claimed": False, "false": False}
            records.append(name | none | {"reason": reason})
    return facts, records


def examine(path, which, options):
    """Facts and records of all programs for one matrix and right-hand side, kept in options.keep."""
    limits = {"seconds": options.limit, "iterations": options.iterations, "rtol": options.rtol, "seed": options.seed}
    limits |= {"repeat": options.repeat, "rhs": which}
    system = {"name": path.stem, "rhs": which, "runs": {}}
    for program in options.programs:
        kept = options.keep / f"{path.stem}.{which}.{program}.json" if options.keep else None
        if kept and kept.exists() and program not in options.again:
            facts, records = json.loads(kept.read_text())
        else:
            facts, records = runs_of(program, path, limits)
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps([facts, records]))
        system |= facts or {}
        system["runs"][program] = records
    return system


# ---- tables ----


def solvers(system, kind=None, programs=PROGRAMS):
    """The records that solve the system, those of auto left out, as (program, record), the fastest first."""
    found = [(p, r) for p in programs for r in system["runs"].get(p, []) if r["solved"] and r["class"] != "auto"]
    return sorted((f for f in found if kind in (None, f[1]["class"])), key=lambda f: f[1]["seconds"])


def label(found):
    return f"{found[0]} {found[1]['setting']} {found[1]['seconds']:.4f} s"


def auto_of(system):
    return next((r for r in system["runs"].get("tacit", []) if r["class"] == "auto"), None)


def key(system):
    return f"{system['name']} ({system['rhs']})"


def falsely_converged(systems):
    for program in PROGRAMS:
        found = [(key(s), r) for s in systems for r in s["runs"].get(program, [])]
        false = [(name, r) for name, r in found if r["false"]]
        reported = sum(r["claimed"] for _, r in found)
        yield f"falsely converged by {program}: {len(false)} of {reported} that it reports, {len(found)} solves"
        if program == "tacit":
            yield from (f"    {name}: {r['setting']}, residual {r['residual']}" for name, r in false)


def auto_table(systems):
    """What auto does not solve, where it is slow, and its ratios to the fastest single setting."""
    rated = [(s, auto_of(s), solvers(s)) for s in systems if auto_of(s)]
    lost = [(s, auto, any_) for s, auto, any_ in rated if any_ and not auto["solved"]]
    ratios = [
        (auto["seconds"] / any_[0][1]["seconds"], s, auto, any_) for s, auto, any_ in rated if any_ and auto["solved"]
    ]
    possible = sum(bool(any_) for _, _, any_ in rated)
    yield f"auto solves {len(ratios)} of the {possible} systems that any single setting solves, and of {len(rated)} in all"
    for s, auto, any_ in lost:
        yield f"    auto loses {key(s)}: {auto['reason']}, {auto['seconds'] or 0:.3f} s; solved by {len(any_)}: {label(any_[0])}"
    ratios.sort(key=lambda entry: -entry[0])
    for least in (0, 1e-3):  # below a millisecond the call itself counts
        values = sorted(ratio for ratio, _, _, any_ in ratios if any_[0][1]["seconds"] >= least)
        if values:
            p95 = values[min(len(values) - 1, int(0.95 * len(values)))]
            of = f"of the {len(values)} systems whose fastest setting takes at least {1e3 * least:g} ms"
            yield f"seconds of auto over that setting, {of}: median {statistics.median(values):.2f}, 95th percentile {p95:.2f}"
    for ratio, s, auto, any_ in ratios:
        if ratio > 3:
            yield f"    {ratio:6.1f} x {key(s)}: {auto['seconds']:.4f} s, {auto.get('choice', '')[:110]}; {label(any_[0])}"


def class_table(systems):
    """Solved systems of each program by class of preconditioner, and those that Tacit loses."""
    yield f"{'class':14} {'systems':>7} {'tacit':>6} {'petsc':>6} {'scipy':>6} {'peers':>6} {'union':>6}"
    losses = []
    for kind in CLASSES:
        rows = [s for s in systems if any(r["class"] == kind for p in PROGRAMS for r in s["runs"].get(p, []))]
        by = {p: [bool(solvers(s, kind, (p,))) for s in rows] for p in PROGRAMS}
        peers = [bool(solvers(s, kind, PROGRAMS[1:])) for s in rows]
        union = sum(a or b for a, b in zip(by["tacit"], peers, strict=True))
        counts = " ".join(f"{sum(by[p]):6}" for p in PROGRAMS)
        yield f"{kind:14} {len(rows):7} {counts} {sum(peers):6} {union:6}"
        for s, own, theirs in zip(rows, by["tacit"], peers, strict=True):
            if theirs and not own and any(r["class"] == kind for r in s["runs"]["tacit"]):
                losses.append(f"    {kind}: {key(s)}: {label(solvers(s, kind, PROGRAMS[1:])[0])}")
    yield "lost by Tacit to a peer with a preconditioner of the same class:"
    yield from losses


def single_table(systems):
    counts = {}
    for s in systems:
        for p in PROGRAMS:
            for r in s["runs"].get(p, []):
                name = (p, r["setting"])
                counts[name] = counts.get(name, 0) + r["solved"]
    for (program, setting), number in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"    {program:5} {setting:20} solves {number}"


def report(systems):
    yield f"{len(systems)} systems (matrix and right-hand side)"
    for table in (falsely_converged, auto_table, class_table, single_table):
        yield from table(systems)


def lean(system):
    """The facts, the seconds of each setting that solves, those that are falsely converged, and how many settings ran."""
    runs = system["runs"].items()
    return system | {
        "runs": {p: len(records) for p, records in runs},
        "solved": {p: {r["setting"]: round(r["seconds"], 5) for r in records if r["solved"]} for p, records in runs},
        "false": {p: [r["setting"] for r in records if r["false"]] for p, records in runs},
    }


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--again", nargs="+", default=[], choices=PROGRAMS)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--rhs", nargs="+", default=["random", "ones"], choices=("random", "ones"))
    parser.add_argument("--limit", type=int, default=10, help="seconds of a solve")
    parser.add_argument("--repeat", type=float, default=0.3, help="solves are repeated within so many seconds")
    parser.add_argument("--iterations", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rtol", type=float, default=1e-8)
    parser.add_argument("--largest", type=int, default=500000, help="entries of the largest matrix")
    options = parser.parse_args()
    paths = [p for p in (*options.folder.glob("*.mtx"), *options.folder.glob("*.npz"))]
    paths = [p for p in paths if not options.only or p.stem in options.only]
    sizes = {p: (p.stat().st_size if p.suffix == ".mtx" else read(p).nnz) for p in paths}
    systems = []
    for which in options.rhs:
        for path in sorted(paths, key=lambda p: (sizes[p], p)):
            if path.suffix == ".npz" and sizes[path] > options.largest:
                continue
            systems.append(examine(path, which, options))
            s, best = systems[-1], (solvers(systems[-1]) or [None])[0]
            auto = auto_of(s) or {"reason": "none", "seconds": None, "solved": False}
            line = f"{key(s):36} {s.get('rows', 0):7} {s.get('entries', 0):9}  auto {auto['reason']:14} {auto['seconds'] or 0:8.4f} s"
            print(f"{line}  {label(best) if best else 'none solves'}", flush=True)
            if options.report:
                options.report.write_text("\n".join(report(systems)) + "\n")
    print("\n".join(report(systems)))
    harness.write(options.json, "real-systems/1", systems=[lean(s) for s in systems])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    else:
        main()
