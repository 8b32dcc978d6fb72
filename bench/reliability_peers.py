"""Compares reported with true residuals: Tacit, SciPy and PETSc on the same systems, right-hand sides and tolerances.

    python bench/reliability_peers.py [--size 40 ...] [--ranks 1 ...] [--build DIR] [--work FOLDER] [--json FILE]

Needs bench_reliability (TACIT_BENCH=ON), which writes the systems and explains the columns. Peers that no Python here
can import are skipped: SciPy (cg, bicgstab, gmres(30)) and petsc4py (Debian: python3-petsc4py). No preconditioners; all
may take Tacit's default number of iterations, 10 n and at least 1000, and stop by the residual of A x = b itself.
Reported convergence counts as true if ||b - A x|| / ||b||, recomputed in long double, is at most 10 times the
tolerance. Peers run on one rank; Tacit with its fallbacks on --ranks and without them ("plain") on one.

All results are kept in FOLDER/SIZE (build/reliability), and cases that are there are not run again. FILE keeps its
other sizes.
"""

import collections
import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import warnings
from typing import NamedTuple

import numpy as np

import harness

# Tacit's methods, and the peers' methods of the same kind; cg for positive definite systems only.
MATCHING = {
    "cg": {"scipy": ["cg"], "petsc": ["cg", "pipecg", "pipecgrr"]},
    "bicgstab": {"scipy": ["bicgstab"], "petsc": ["bcgs", "pipebcgs"]},
    "gmres": {"scipy": ["gmres"], "petsc": ["gmres"]},
}
PEERS = {"scipy": "scipy", "petsc": "petsc4py"}  # the module that each needs
RESTART = 30
THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a peer's Python has its own packages


# ---- runs in the peer's Python ----


def read_market(path):
    """The numbers after the size line of a file that bench_reliability wrote."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("%")]
    return np.array([float(word) for line in lines[1:] for word in line.split()])


class System:
    """A system in compressed rows, its name and right-hand sides from the index."""

    def __init__(self, folder, entry):
        self.name, self.positive = entry["name"], entry["positive"]
        row, column, self.value = read_market(folder / entry["matrix"]).reshape(-1, 3).T.copy()
        self.column = column.astype(np.int32) - 1
        self.start = np.concatenate([[0], np.cumsum(np.bincount(row.astype(int) - 1))]).astype(np.int32)
        self.n = len(self.start) - 1
        self.limit = min(max(10 * self.n, 1000), 50000)
        self.rhs = [(f["name"], read_market(folder / f["file"]), f["attainable"]) for f in entry["rhs"]]

    def true_residual(self, b, x):
        with np.errstate(all="ignore"):
            r = b - np.add.reduceat(self.value.astype(np.longdouble) * x[self.column], self.start[:-1])
            return float(np.sqrt(np.sum(r * r) / np.sum(b.astype(np.longdouble) ** 2)))


class Answer(NamedTuple):
    x: object
    converged: bool
    reason: str
    iterations: int


def scipy_solver(system):
    import scipy.sparse.linalg

    matrix = scipy.sparse.csr_array((system.value, system.column, system.start), shape=(system.n, system.n))

    def solve(method, b, rtol):
        steps = 0

        def count(_):
            nonlocal steps
            steps += 1

        options = {"maxiter": system.limit}
        if method == "gmres":  # maxiter counts cycles
            options = {"maxiter": -(-system.limit // RESTART), "restart": RESTART, "callback_type": "pr_norm"}
        x, info = getattr(scipy.sparse.linalg, method)(matrix, b, rtol=rtol, atol=0.0, callback=count, **options)
        return Answer(x, info == 0, "converged" if info == 0 else "limit" if info > 0 else f"breakdown {info}", steps)

    return f"SciPy {scipy.__version__}", solve


def petsc_solver(system):
    from petsc4py import PETSc

    rows = (system.start, system.column, system.value)
    matrix = PETSc.Mat().createAIJ((system.n, system.n), csr=rows, comm=PETSc.COMM_SELF)
    names = {v: k.lower() for k, v in vars(PETSc.KSP.ConvergedReason).items() if isinstance(v, int)}

    def solve(method, b, rtol):
        f, x = matrix.createVecLeft(), matrix.createVecRight()
        f.setArray(b)
        ksp = PETSc.KSP().create(PETSc.COMM_SELF)
        ksp.setOperators(matrix)
        ksp.setType(method)
        ksp.getPC().setType("none")
        if method in ("bcgs", "pipebcgs", "gmres"):  # ||b - A x|| only with the right side
            ksp.setPCSide(PETSc.PC.Side.RIGHT)
        if method == "gmres":
            ksp.setGMRESRestart(RESTART)
        ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        ksp.setTolerances(rtol=rtol, atol=0.0, divtol=1e10, max_it=system.limit)
        try:
            ksp.solve(f, x)
            reason, steps = ksp.getConvergedReason(), ksp.getIterationNumber()
            return Answer(x.getArray().copy(), reason > 0, names.get(reason, str(reason)), steps)
        except PETSc.Error as error:
            return Answer(x.getArray().copy(), False, f"exception {error.ierr}", 0)
        finally:
            for thing in (ksp, f, x):
                thing.destroy()

    return "PETSc {}.{}.{}".format(*PETSc.Sys.getVersion()), solve


def work(peer, folder, output):
    """All cases of one peer, as JSON."""
    index = json.loads((folder / "index.json").read_text())
    cases = []
    for system in (System(folder, entry) for entry in index["systems"]):
        solver, solve = {"scipy": scipy_solver, "petsc": petsc_solver}[peer](system)
        for kind, names in MATCHING.items():
            for method in names[peer] if system.positive or kind != "cg" else []:
                for rhs, b, attainable in system.rhs:
                    for rtol in index["tolerances"]:
                        begin = time.perf_counter()
                        with warnings.catch_warnings(action="ignore"):
                            answer = solve(method, b, rtol)
                        seconds = time.perf_counter() - begin
                        truth = system.true_residual(b, answer.x)
                        cases.append(
                            {
                                "solver": solver,
                                "method": method,
                                "system": system.name,
                                "positive": system.positive,
                                "rhs": rhs,
                                "rtol": rtol,
                                "attainable": attainable,
                                "reason": answer.reason,
                                "claim": answer.converged,
                                "iterations": answer.iterations,
                                "seconds": seconds,
                                "true_residual": truth if math.isfinite(truth) else None,
                            }
                        )
    output.write_text(json.dumps({"size": index["size"], "ranks": 1, "cases": cases}))


# ---- evaluation ----


def outcome(case):
    if case["true_residual"] is None:
        return "non-finite"
    if not case["claim"]:
        return "honest"
    return "true" if case["true_residual"] <= 10 * case["rtol"] else "FALSE"


def key(case):
    return case["system"], case["rhs"], case["rtol"]


def tabulate(cases):
    """One row for each solver, method, number of ranks and kind of system, with its cases under "cases"."""
    groups = collections.defaultdict(list)
    for case in cases:
        groups[case["solver"], case["method"], case["ranks"], case["positive"]].append(case)
    rows = []
    for (solver, method, ranks, positive), group in groups.items():
        outcomes = collections.Counter(map(outcome, group))
        ratios = [c["true_residual"] / c["rtol"] for c in group if outcome(c) in ("true", "FALSE")]
        rows.append(
            {
                "solver": solver,
                "method": method,
                "systems": "positive definite" if positive else "general",
                "ranks": ranks,
                "possible": sum(c["attainable"] <= c["rtol"] for c in group),
                **{name: outcomes[name] for name in ("true", "FALSE", "honest", "non-finite")},
                "worst": float(f"{max(ratios, default=0):.4g}"),
                "seconds": round(sum(c["seconds"] for c in group), 1),
                "reasons": dict(collections.Counter(c["reason"] for c in group if outcome(c) == "honest")),
                "cases": group,
            }
        )
    return rows


def show(rows):
    print(f"{'method':44} ranks possible     true    FALSE   honest non-finite      worst   seconds  honest failures")
    for r in rows:
        label = f"{r['solver']} {r['method']}, {r['systems']}"
        reasons = " ".join(f"{k} {v}" for k, v in r["reasons"].items())
        print(
            f"{label:44} {r['ranks']:5} {r['possible']:8} {r['true']:8} {r['FALSE']:8} {r['honest']:8}"
            f" {r['non-finite']:10} {r['worst']:10.4g} {r['seconds']:9.1f}  {reasons}",
            flush=True,
        )


def compare(rows):
    """Compares each of Tacit's rows with the best peer's, and lists the cases that only a peer of that kind solves."""

    def times(case):
        return "" if case["true_residual"] is None else f"{case['true_residual'] / case['rtol']:.2g}"

    comparison = []
    for ours in rows:
        if not ours["solver"].startswith("Tacit") or ours["method"] not in MATCHING:
            continue
        names = {name for methods in MATCHING[ours["method"]].values() for name in methods}
        peers = [r for r in rows if r["systems"] == ours["systems"] and r["method"] in names]
        peers = [r for r in peers if not r["solver"].startswith("Tacit")]
        if not peers:
            continue
        best = max(peers, key=lambda r: r["true"])
        only_peers = []
        for mine, *others in zip(*(sorted(r["cases"], key=key) for r in (ours, *peers)), strict=True):
            solved = [c for c in others if outcome(c) == "true"]
            if solved and outcome(mine) != "true":
                within = any(c["true_residual"] <= c["rtol"] for c in solved)
                by = ", ".join(f"{c['solver'].split()[0]} {c['method']} {times(c)}" for c in solved)
                possible = f"{mine['attainable'] / mine['rtol']:.2g}"
                name = f"{mine['system']}, {mine['rhs']}, {mine['rtol']:g}"
                only_peers.append((within, f"{name}: {by}; here {mine['reason']} {times(mine)}; possible {possible}"))
        comparison.append(
            {
                **{k: ours[k] for k in ("solver", "method", "systems", "ranks", "true")},
                "best_peer": f"{best['solver']} {best['method']}",
                "best_true": best["true"],
                "only_peers": len(only_peers),
                "only_peers_within_tolerance": sum(within for within, _ in only_peers),
                "cases": [text for _, text in sorted(only_peers, reverse=True)],
            }
        )
    return comparison


def python_with(module):
    for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        with contextlib.suppress(OSError):
            done = subprocess.run([python, "-c", f"import numpy, {module}"], capture_output=True, check=False)
            if done.returncode == 0:
                return python
    return None


def measure(size, options):
    """All cases of one size."""
    bench, folder = options.build / "bench/bench_reliability", options.work / str(size)
    if not (folder / "index.json").exists():
        harness.output([bench, "--size", size, "--export", folder])
    cases = []

    def add(solver, file, command, accepted=(0,)):
        if not file.exists():
            harness.output(command, accepted=accepted, env=dict(os.environ, **THREAD))
        result = json.loads(file.read_text())
        cases.extend({"solver": solver, "ranks": result["ranks"], **c} for c in result["cases"])

    for ranks, plain in [*((ranks, False) for ranks in options.ranks), (1, True)]:
        file = folder / f"tacit-{ranks}{'-plain' * plain}.json"
        command = [bench, "--size", size, "--ranks", ranks, "--json", file, *["--plain"] * plain]
        add("Tacit plain" if plain else "Tacit", file, command, (0, 1))  # 1: false reports of convergence
    for peer, module in PEERS.items():
        file, python = folder / f"{peer}.json", python_with(module)
        if python is None and not file.exists():
            print(f"{peer}: skipped, no Python here can import {module}")
        else:
            add(peer, file, [python, pathlib.Path(__file__).resolve(), "--worker", peer, folder, file])
    return cases


def main():
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4]))
    parser = harness.parser(__doc__, build=True, ranks=(1,))
    parser.add_argument("--size", type=int, nargs="+", default=[40])
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/reliability"))
    options = parser.parse_args()
    tables, behind, compared = {}, [], False
    for size in options.size:
        rows = tabulate(measure(size, options))
        comparison = compare(rows)
        compared = compared or bool(comparison)
        print(f"size {size}")
        show(rows)
        for c in comparison:
            label = f"{c['solver']} {c['method']}, {c['systems']}, {c['ranks']} rank{'s' * (c['ranks'] > 1)}"
            line = f"{label}: {c['true']} true, best peer {c['best_true']} ({c['best_peer']})"
            print(f"{line}; only peers: {c['only_peers']}, within the tolerance {c['only_peers_within_tolerance']}")
            print("".join(f"    {case}\n" for case in c["cases"]), end="")
            if c["solver"] == "Tacit" and c["true"] < c["best_true"]:
                behind.append(f"size {size}, {line}")
        columns = [name for name in rows[0] if name != "cases"]
        values = [[row[name] for name in columns] for row in rows]
        tables[str(size)] = {"columns": columns, "rows": values, "comparison": comparison}
    if options.json:
        before = json.loads(options.json.read_text())["sizes"] if options.json.exists() else {}
        harness.write(options.json, "reliability/1", sizes=before | tables)
    verdict = "no peer here" if not compared else "yes" if not behind else "no: " + "; ".join(behind)
    print(f"true successes of Tacit's matching method >= the best peer's: {verdict}")


if __name__ == "__main__":
    main()
