"""Classical algebraic multigrid with the same options in Tacit, hypre (through PETSc) and pyamg, on the systems of amg.py.

    python bench/amg_classical.py [--rounds 3] [--only NAME ...] [--pairs NAME ...] [--scale 1] [--limit 120]
                                  [--pyamg PYTHON] [--json FILE]

A pair is a method, with one sweep of Gauss-Seidel before and a backward one after the coarser level: "pmis", "hmis"
(extended interpolation, four entries in a row), "hmis 2" (an aggressive level, multipass) of Tacit and hypre, and
"pmis direct", "rs direct" (on one rank hmis is the first pass of Ruge and Stueben) of Tacit and pyamg. Iterations are
those of cg (gmres for convection) to ||b - A x|| <= 1e-8 ||b||. Seconds are those of the processor with one thread, of
the set-up and of the solve; medians. What is not installed is left out, with a line.
"""

import json
import statistics
import subprocess
import sys
import time

import numpy as np

import amg
import harness
from amg import RTOL
from amg_systems import ELASTIC, SYSTEMS, grid_laplacian, problem


def tacit_classical(**options):
    def solve(a, b, symmetric, block):
        import tacit

        start = time.process_time()
        A = tacit.csr(a)
        M = tacit.precond.amg(A, smoother="gauss-seidel", block=block, **options)
        made = time.process_time()
        method = "cg" if symmetric else "gmres"
        r = tacit.solve(A, b, method=method, precond=M, rtol=RTOL, max_iterations=600)
        return r.x, r.iterations, M.report["operator_complexity"], made - start, time.process_time() - made

    return solve


def hypre(**options):
    words = {"relax_type_down": "SOR/Jacobi", "relax_type_up": "backward-SOR/Jacobi", "no_CF": "1", "P_max": "4"}
    words |= {"interp_type": "ext+i", "agg_num_paths": "1"} | options

    def solve(a, b, symmetric, block):
        from petsc4py import PETSc

        made = PETSc.Options()
        for key, value in words.items():
            made[f"pc_hypre_boomeramg_{key}"] = value
        made["pc_hypre_boomeramg_print_statistics"] = "1"
        if block > 1:
            made["pc_hypre_boomeramg_numfunctions"] = str(block)
        start = time.process_time()
        matrix = PETSc.Mat().createAIJ(a.shape, bsize=block, csr=(a.indptr, a.indices, a.data), comm=PETSc.COMM_SELF)
        ksp = PETSc.KSP().create(PETSc.COMM_SELF)
        ksp.setType("cg" if symmetric else "gmres")
        if not symmetric:
            ksp.setPCSide(PETSc.PC.Side.RIGHT)
        ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        ksp.getPC().setType("hypre")
        ksp.getPC().setHYPREType("boomeramg")
        ksp.setOperators(matrix)
        ksp.setTolerances(rtol=RTOL, atol=0.0, max_it=600)
        ksp.setFromOptions()
        x, right = matrix.createVecs()
        right.setArray(b)
        ksp.setUp()
        ready = time.process_time()
        ksp.solve(right, x)
        # Its complexity is in what it prints; the parent reads that.
        return x.getArray().copy(), ksp.getIterationNumber(), None, ready - start, time.process_time() - ready

    return solve


def pyamg_classical(splitting):
    def solve(a, b, symmetric, _block):
        import pyamg

        start = time.process_time()
        smoothers = {f"{when}smoother": ("gauss_seidel", {"sweep": way}) for when, way in WAYS}
        levels = pyamg.ruge_stuben_solver(
            a,
            strength=("classical", {"theta": 0.25, "norm": "min"}),
            CF=splitting,
            interpolation="direct",
            max_coarse=400,
            **smoothers,
        )
        ready = time.process_time()
        norms = []
        x = levels.solve(b, tol=RTOL, accel="cg" if symmetric else "gmres", maxiter=600, residuals=norms)
        return x, len(norms) - 1, levels.operator_complexity(), ready - start, time.process_time() - ready

    return solve


WAYS = (("pre", "forward"), ("post", "backward"))
PAIRS = {  # name: the same method by two programs
    "pmis": {"tacit": tacit_classical(coarsening="pmis"), "petsc": hypre(coarsen_type="PMIS")},
    "hmis": {"tacit": tacit_classical(coarsening="hmis"), "petsc": hypre(coarsen_type="HMIS")},
    "hmis 2": {
        "tacit": tacit_classical(coarsening="hmis", aggressive=1),
        "petsc": hypre(coarsen_type="HMIS", agg_nl="1"),
    },
    "pmis direct": {
        "tacit": tacit_classical(coarsening="pmis", interpolation="direct", p_max=0),
        "pyamg": pyamg_classical("PMIS"),
    },
    "rs direct": {
        "tacit": tacit_classical(coarsening="hmis", interpolation="direct", p_max=0),
        "pyamg": pyamg_classical(("RS", {"second_pass": False})),
    },
}


def child(system, pair, program, scale):
    """Prints one line of JSON."""
    if program == "petsc":
        import petsc4py

        petsc4py.init(["amg"])
    given = problem(system, scale)
    a, symmetric, block = given.a, given.symmetric, given.block
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    solve = PAIRS[pair][program]
    if program != "petsc":
        solve(grid_laplacian(30, 30), np.ones(900), True, 1)  # loads modules
    x, iterations, complexity, setup, seconds = solve(a, b, symmetric, block)
    residual = float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))
    record = {"iterations": int(iterations), "complexity": complexity, "setup": setup, "solve": seconds}
    sys.stdout.flush()
    print("\n" + json.dumps({**record, "residual": residual}))


def run(command, system, pair, program, options):
    words = [*command, __file__, "--child", system, pair, program, str(options.scale)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=options.limit, check=False, env=harness.environment()
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {options.limit:g} s"}
    lines = done.stdout.splitlines()
    records = [line for line in lines if line.startswith("{")]
    if done.returncode or not records:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:120]}
    record = json.loads(records[-1])
    for line in lines:
        if line.strip().startswith("operator ="):
            record["complexity"] = float(line.split("=")[1])
    return record


def main():
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5], float(sys.argv[5]))
        return
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--pyamg", default=sys.executable)
    options = parser.parse_args()
    commands = amg.programs(options.pyamg)
    results = {}
    for system in options.only:
        for pair in options.pairs:
            programs = [p for p in PAIRS[pair] if p in commands and not (p == "pyamg" and system in ELASTIC)]
            runs = {program: [] for program in programs}
            for _ in range(options.rounds):
                for program, records in runs.items():
                    if not any("failed" in r for r in records):
                        records.append(run(commands[program], system, pair, program, options))
            for program, records in runs.items():
                failed = [r["failed"] for r in records if "failed" in r]
                entry = {"failed": failed[0]} if failed else dict(records[-1])
                if not failed:
                    entry |= {key: statistics.median(r[key] for r in records) for key in ("setup", "solve")}
                results.setdefault(system, {}).setdefault(pair, {})[program] = entry
                name = {"petsc": "hypre"}.get(program, program)
                text = (
                    failed[0]
                    if failed
                    else (
                        f"{entry['iterations']:4} iterations, complexity {entry['complexity']:.2f}, "
                        f"{entry['setup']:.2f} + {entry['solve']:.2f} s, {entry['residual']:.0e}"
                    )
                )
                print(f"{system:11} {pair:12} {name:6} {text}", flush=True)
    harness.write(options.json, "amg_classical", scale=options.scale, rounds=options.rounds, systems=results)


if __name__ == "__main__":
    main()
