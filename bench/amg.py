"""Time to solution of algebraic multigrid: Tacit, pyamg, PETSc's gamg, hypre's BoomerAMG and AMGCL on the same matrices.

    python bench/amg.py [--rounds 3] [--only NAME ...] [--files FILE.npz ...] [--solvers NAME ...] [--scale 1]
                        [--limit 120] [--ranks 1] [--pyamg PYTHON] [--amgcl PROGRAM] [--json FILE]

Seconds are those of the processor with one thread, from SciPy's arrays to x: set-up and solve. Every solver runs in a
process of its own, the solvers of a system one after the other in each round; medians. A solver has solved a system
if ||b - A x|| <= 1.05e-8 ||b||, computed here; b is pseudo-random. PETSc stops by the norm of b - A x. --pyamg is a
Python that has pyamg and SciPy; PETSc runs where Debian's petsc4py is; --amgcl is bench/peers/amgcl_solve.cpp, built
where AMGCL's headers are found. What is not installed is left out, with a line. --files adds matrices, such as those
of a power grid; --scale 0.25 makes every edge of the grids a quarter as long. A solver that takes longer than --limit
seconds is not run again.

Elastic bodies: Tacit gets the coordinates, pyamg, gamg and AMGCL the rigid-body modes of their own or of these, hypre
the number of unknowns of a node; "tacit block" gets that alone.

Where A is not symmetric the method is bicgstab, but gmres with gamg, where that was quicker.

--ranks 2: on so many ranks of mpiexec, each with its own rows; seconds are then those of the clock, between barriers,
and the smallest of a round counts. They mean something on a machine with as many idle cores.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp

import harness
from amg_systems import ELASTIC, SYSTEMS, Problem, convection, grid_laplacian, problem, rigid_body_modes

RTOL = 1e-8


# ---- solvers: of a problem and b, on a rank its own rows: x and iterations ----


class Rows:
    """A rank's rows of the problem; `comm` is Tacit's or PETSc's."""

    def __init__(self, p, rank, ranks):
        nodes = p.a.shape[0] // p.block
        begin, end = (nodes * r // ranks for r in (rank, rank + 1))
        self.own = slice(p.block * begin, p.block * end)
        self.a = p.a if ranks == 1 else p.a[self.own]
        self.symmetric, self.block, self.ranks, self.size = p.symmetric, p.block, ranks, p.a.shape[0]
        self.coordinates = None if p.coordinates is None else p.coordinates[begin:end]
        self.modes = None if p.coordinates is None else rigid_body_modes(p.coordinates)[self.own]


def tacit_solve(p, b, precond, method=None):
    import tacit

    a = tacit.csr(p.a, own_rows=True) if p.ranks > 1 else p.a
    method = method or ("cg" if p.symmetric else "bicgstab")
    r = tacit.solve(a, b, method=method, precond=precond, rtol=RTOL, max_iterations=20000)
    return r.x, r.iterations


def tacit_amg(smoother, modes=True, **more):
    def solve(p, b):
        near = {"coordinates": p.coordinates} if modes and p.coordinates is not None else {"block": p.block}
        return tacit_solve(p, b, {"name": "amg", "smoother": smoother, **near, **more})

    return solve


def tacit_auto(p, b):
    import tacit

    r = tacit.solve(tacit.csr(p.a, own_rows=True) if p.ranks > 1 else p.a, b, rtol=RTOL)
    return r.x, r.iterations


def tacit_ic0(p, b):
    return tacit_solve(p, b, "ic0" if p.symmetric else "ilu0")


def tacit_jacobi(p, b):
    return tacit_solve(p, b, "jacobi")


def pyamg_solver(kind):
    def solve(p, b):
        import pyamg

        a, symmetric, block = p.a, p.symmetric, p.block
        if kind == "smoothed_aggregation_solver":
            vectors = p.modes
            if vectors is None:
                vectors = np.kron(np.ones((a.shape[0] // block, 1)), np.eye(block))
            matrix = sp.bsr_matrix(a, blocksize=(block, block)) if block > 1 else a
            levels = pyamg.smoothed_aggregation_solver(
                matrix, B=vectors, symmetry="symmetric" if symmetric else "nonsymmetric"
            )
        else:
            levels = pyamg.ruge_stuben_solver(a)
        norms = []
        # Its conjugate gradients stop by another norm than that of b - A x: until that is small enough.
        for rtol in (RTOL, 0.1 * RTOL, 0.01 * RTOL):
            norms.clear()
            x = levels.solve(b, tol=rtol, accel="cg" if symmetric else "bicgstab", maxiter=500, residuals=norms)
            if np.linalg.norm(b - a @ x) <= 1.05 * RTOL * np.linalg.norm(b):
                break
        return x, len(norms) - 1

    return solve


def petsc_solver(nonsymmetric, *words):
    def solve(p, b):
        from petsc4py import PETSc

        options = PETSc.Options()
        for i in range(0, len(words), 2):
            options[words[i]] = words[i + 1]
        start, column, value = p.a.indptr, p.a.indices, p.a.data
        size = ((p.a.shape[0], p.size),) * 2 if p.ranks > 1 else p.a.shape
        world = PETSc.COMM_WORLD if p.ranks > 1 else PETSc.COMM_SELF
        matrix = PETSc.Mat().createAIJ(size, bsize=p.block, csr=(start, column, value), comm=world)
        if p.modes is not None:
            place = PETSc.Vec().createWithArray(p.coordinates.ravel(), bsize=p.block, comm=world)
            matrix.setNearNullSpace(PETSc.NullSpace().createRigidBody(place))
        ksp = PETSc.KSP().create(world)
        ksp.setType("cg" if p.symmetric else nonsymmetric)
        if not p.symmetric:
            ksp.setPCSide(PETSc.PC.Side.RIGHT)
        ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        ksp.setOperators(matrix)
        ksp.setTolerances(rtol=RTOL, atol=0.0, max_it=2000)
        ksp.setFromOptions()
        x, right = matrix.createVecs()
        right.setArray(b)
        ksp.solve(right, x)
        return x.getArray().copy(), ksp.getIterationNumber()

    return solve


def amgcl(p, b):
    """Seconds are those that the program measures, without the files that carry the arrays."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "system"
        dimension = 0 if p.coordinates is None else p.coordinates.shape[1]
        with open(path, "wb") as file:
            for part in ([p.size, p.a.nnz, p.block, dimension], p.a.indptr, p.a.indices):
                np.asarray(part, "int64").tofile(file)
            for part in (p.a.data, b, *([p.coordinates] if dimension else [])):
                np.ascontiguousarray(part, "float64").tofile(file)
        words = [os.environ["AMGCL_SOLVE"], path, "cg" if p.symmetric else "bicgstab", str(RTOL)]
        answer = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
        return np.fromfile(f"{path}.x"), answer["iterations"], answer["seconds"]


SOLVERS = {  # name: (program, solve)
    "tacit spai0": ("tacit", tacit_amg("spai0")),
    "tacit gauss-seidel": ("tacit", tacit_amg("gauss-seidel")),
    "tacit chebyshev": ("tacit", tacit_amg("chebyshev", sweeps=2)),
    "tacit hmis": ("tacit", tacit_amg("gauss-seidel", modes=False, coarsening="hmis")),
    "tacit block": ("tacit", tacit_amg("spai0", modes=False)),
    "tacit auto": ("tacit", tacit_auto),
    "tacit ic0": ("tacit", tacit_ic0),
    "tacit jacobi": ("tacit", tacit_jacobi),
    "pyamg sa": ("pyamg", pyamg_solver("smoothed_aggregation_solver")),
    "pyamg rs": ("pyamg", pyamg_solver("ruge_stuben_solver")),
    "petsc gamg": ("petsc", petsc_solver("gmres", "pc_type", "gamg")),
    "petsc hypre": ("petsc", petsc_solver("bcgs", "pc_type", "hypre", "pc_hypre_type", "boomeramg")),
    "amgcl": ("amgcl", amgcl),
}
ON_RANKS = ("tacit", "petsc")
SOME = {"tacit block": ELASTIC}  # what runs on some systems only


def place(program, ranks):
    """This process's rank, a barrier, and a function that joins the ranks' parts of a vector."""
    if program == "petsc":
        import petsc4py

        petsc4py.init(["amg"])
        if ranks > 1:
            from petsc4py import PETSc

            def whole(x):
                part = PETSc.Vec().createWithArray(x, comm=PETSc.COMM_WORLD)
                scatter, all_of_it = PETSc.Scatter.toAll(part)
                scatter.scatter(part, all_of_it)
                return all_of_it.getArray().copy()

            return PETSc.COMM_WORLD.getRank(), PETSc.COMM_WORLD.barrier, whole
    if program == "tacit" and ranks > 1:
        import tacit

        comm = tacit.comm.world()
        return comm.rank, comm.barrier, lambda x: tacit.layout.gather(x, comm)
    return 0, lambda: None, lambda x: x


def child(system, solver, scale, ranks):
    """The first rank prints one line of JSON: seconds, iterations, the true residual."""
    program, solve = SOLVERS[solver]
    rank, barrier, whole = place(program, ranks)
    given = problem(system, scale)
    b = np.random.default_rng(0).standard_normal(given.a.shape[0])
    small = Problem(grid_laplacian(9, 9)) if given.symmetric or program == "pyamg" else convection(9)
    if program != "petsc":
        rows = Rows(small, rank, ranks)
        solve(rows, np.ones(81)[rows.own])  # loads modules
    rows = Rows(given, rank, ranks)
    own = b[rows.own].copy()
    clock = time.process_time if ranks == 1 else time.perf_counter
    barrier()
    start = clock()
    x, iterations, *times = solve(rows, own)
    barrier()
    seconds = times[0] if times else clock() - start
    x = whole(x)
    if rank == 0:
        residual = float(np.linalg.norm(b - given.a @ x) / np.linalg.norm(b))
        entry = {"seconds": seconds, "iterations": iterations, "residual": residual, "rows": len(b)}
        print(json.dumps(entry | {"entries": given.a.nnz}))


# ---- the parent ----


def programs(pyamg, amgcl="", ranks=1):
    """The command of each program's Python; those that are not installed are left out, with a line."""
    from real_systems import petsc_python

    found = {"tacit": [sys.executable], "pyamg": [pyamg], "petsc": petsc_python(False)}
    found["amgcl"] = [sys.executable]
    probes = {"pyamg": "import pyamg", "petsc": "import petsc4py; petsc4py.init([]); from petsc4py import PETSc"}
    if not os.access(amgcl, os.X_OK):
        print("left out: amgcl, not built")
        del found["amgcl"]
    if ranks > 1:
        print(f"left out: {', '.join(name for name in found if name not in ON_RANKS)}, which run on one rank")
        found = {name: found[name] for name in found if name in ON_RANKS}
    for program, probe in probes.items():
        if program not in found:
            continue
        command = found[program]
        try:
            works = (
                command and subprocess.run([*command, "-c", probe], capture_output=True, check=False).returncode == 0
            )
        except OSError:
            works = False
        if not works:
            print(f"left out: {program}, not installed")
            del found[program]
    return found


def run(command, system, solver, options):
    """The record of one run; {"failed": why} where it has none."""
    words = [*command, __file__, "--child", system, solver, str(options.scale), str(options.ranks)]
    if options.ranks > 1:
        words = [options.mpiexec, "-n", str(options.ranks), *words]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=options.limit,
            check=False,
            env=harness.environment(AMGCL_SOLVE=str(options.amgcl)),
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {options.limit:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:120]}
    return json.loads(lines[-1])


def measure(system, commands, options):
    names = [name for name in options.solvers if SOLVERS[name][0] in commands and system in SOME.get(name, (system,))]
    records = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, runs in records.items():
            if not any("failed" in r for r in runs):
                runs.append(run(commands[SOLVERS[name][0]], system, name, options))
    table, shown = {}, pathlib.Path(system).stem
    for name, runs in records.items():
        failed = [r["failed"] for r in runs if "failed" in r]
        if failed:
            table[name] = {"failed": failed[0]}
            print(f"{shown:12} {name:20} {failed[0]}", flush=True)
            continue
        seconds = [r["seconds"] for r in runs]
        typical = statistics.median(seconds) if options.ranks == 1 else min(seconds)
        entry = {**runs[-1], "seconds": typical, "all_seconds": seconds}
        entry["solved"] = entry["residual"] <= 1.05 * RTOL
        table[name] = entry
        print(
            f"{shown:12} {name:20} {entry['seconds']:8.2f} s {entry['iterations']:5} iterations"
            f"  {entry['residual']:.1e}{'' if entry['solved'] else '  not solved'}",
            flush=True,
        )
    return table


def main():
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))
        return
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--files", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--pyamg", default=sys.executable)
    parser.add_argument("--amgcl", type=pathlib.Path, default=harness.ROOT / "build/release/bench/amgcl_solve")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--mpiexec", default=shutil.which("mpiexec.openmpi") or shutil.which("mpiexec"))
    options = parser.parse_args()
    commands = programs(options.pyamg, options.amgcl, options.ranks)
    results = {}
    for system in (*options.only, *options.files):
        results[getattr(system, "stem", system)] = measure(str(system), commands, options)
        more = {"scale": options.scale, "rounds": options.rounds, "ranks": options.ranks}
        harness.write(options.json, "amg", **more, systems=results)


if __name__ == "__main__":
    main()
