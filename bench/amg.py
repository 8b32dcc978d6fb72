"""Time to solution of algebraic multigrid: Tacit, pyamg, PETSc's gamg and hypre's BoomerAMG on the same matrices.

    python bench/amg.py [--rounds 3] [--only NAME ...] [--solvers NAME ...] [--scale 1] [--limit 120]
                        [--pyamg PYTHON] [--json FILE]

Seconds are those of the processor with one thread, from SciPy's arrays to x: set-up and solve. Every solver runs in a
process of its own, the solvers of a system one after the other in each round; medians. A solver has solved a system
if ||b - A x|| <= 1.05e-8 ||b||, computed here; b is pseudo-random. PETSc stops by the norm of b - A x. --pyamg is a
Python that has pyamg and SciPy; PETSc runs where Debian's petsc4py is. What is not installed is left out, with a line.
--scale 0.25 makes every edge of the grids a quarter as long. A solver that takes longer than --limit seconds is not
run again.
"""

import json
import math
import statistics
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp

import harness

RTOL = 1e-8


# ---- systems ----


def grid_laplacian(*shape):
    lines = [sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (n, n)) for n in shape]
    total = sp.csr_matrix((math.prod(shape),) * 2)
    for axis, line in enumerate(lines):
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        total = total + sp.kron(sp.kron(sp.identity(before), line), sp.identity(after))
    return total.tocsr()


def log_normal(n, sigma=1.0):
    """-div(k grad u), 7 points, harmonic means of k = exp(sigma z) on faces, u = 0 outside."""
    k = np.exp(sigma * np.random.default_rng(1).standard_normal((n, n, n)))
    number = np.arange(n**3).reshape(n, n, n)
    rows, columns, values, diagonal = [], [], [], np.zeros((n, n, n))
    for axis in range(3):
        low = tuple(slice(None, -1) if a == axis else slice(None) for a in range(3))
        high = tuple(slice(1, None) if a == axis else slice(None) for a in range(3))
        face = 2 / (1 / k[low] + 1 / k[high])
        rows += [number[low].ravel(), number[high].ravel()]
        columns += [number[high].ravel(), number[low].ravel()]
        values += [-face.ravel(), -face.ravel()]
        diagonal[low] += face
        diagonal[high] += face
        for end in (0, -1):
            border = tuple(end if a == axis else slice(None) for a in range(3))
            diagonal[border] += 2 * k[border]
    rows, columns = np.concatenate([*rows, number.ravel()]), np.concatenate([*columns, number.ravel()])
    return sp.csr_matrix((np.concatenate([*values, diagonal.ravel()]), (rows, columns)))


def bilinear(nx, ny, element, unknowns):
    """Sum of one element matrix over nx x ny squares; the nodes of the edge x = 0 are left out."""
    x, y = np.meshgrid(np.arange(nx), np.arange(ny))
    corner = (x + (nx + 1) * y).ravel()
    nodes = np.stack([corner, corner + 1, corner + nx + 2, corner + nx + 1], 1)
    dofs = (unknowns * nodes[:, :, None] + np.arange(unknowns)).reshape(len(corner), -1)
    m = dofs.shape[1]
    size = unknowns * (nx + 1) * (ny + 1)
    whole = sp.csr_matrix(
        (np.tile(element.ravel(), len(corner)), (np.repeat(dofs, m, 1).ravel(), np.tile(dofs, (1, m)).ravel())),
        (size, size),
    )
    free = np.flatnonzero((np.arange(size) // unknowns) % (nx + 1) != 0)
    return whole[free][:, free].tocsr()


def gradients():
    """Weights and gradients (4 x 2) of the bilinear shapes of the unit square at Gauss points; nodes anticlockwise."""
    for s in (0.5 - 0.5 / math.sqrt(3), 0.5 + 0.5 / math.sqrt(3)):
        for t in (0.5 - 0.5 / math.sqrt(3), 0.5 + 0.5 / math.sqrt(3)):
            yield 0.25, np.array([[t - 1, s - 1], [1 - t, -s], [t, s], [-t, 1 - s]])


def rotated(n, epsilon=1e-3, degrees=30):
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = np.array([[c, -s], [s, c]])
    k = turn @ np.diag([1, epsilon]) @ turn.T
    return bilinear(n, n, sum(w * g @ k @ g.T for w, g in gradients()), 1)


def elasticity(n, poisson=0.3):
    """Plane strain, E = 1."""
    scale = 1 / ((1 + poisson) * (1 - 2 * poisson))
    law = scale * np.array([[1 - poisson, poisson, 0], [poisson, 1 - poisson, 0], [0, 0, 0.5 - poisson]])
    element = np.zeros((8, 8))
    for w, g in gradients():
        strain = np.zeros((3, 8))
        strain[0, ::2], strain[1, 1::2], strain[2, ::2], strain[2, 1::2] = g[:, 0], g[:, 1], g[:, 1], g[:, 0]
        element += w * strain.T @ law @ strain
    return bilinear(n, n, element, 2)


def convection(n, strength=50.0):
    """-Laplace u + v . grad u on the unit square, v = strength (1, 1/2), central differences."""
    h = 1 / (n + 1)
    step = sp.diags([-0.5, 0.5], [-1, 1], (n, n)) * (strength * h)
    one = sp.identity(n)
    return (grid_laplacian(n, n) + sp.kron(one, step) + 0.5 * sp.kron(step, one)).tocsr()


def geometric_graph(n):
    """The Laplacian of points in the unit square that are nearer than 1.5 mean distances, plus 1e-6."""
    from scipy.spatial import cKDTree

    points = np.random.default_rng(2).random((n, 2))
    pairs = cKDTree(points).query_pairs(1.5 / math.sqrt(n), output_type="ndarray")
    a = sp.csr_matrix((np.ones(len(pairs)), pairs.T), (n, n))
    a = a + a.T
    return (sp.diags(np.asarray(a.sum(1)).ravel() + 1e-6) - a).tocsr()


SYSTEMS = {  # name: (assembly for a scale, whether it is symmetric, unknowns of a node)
    "5-point": (lambda s: grid_laplacian(*[int(1024 * s)] * 2), True, 1),
    "7-point": (lambda s: grid_laplacian(*[int(100 * s)] * 3), True, 1),
    "log-normal": (lambda s: log_normal(int(100 * s)), True, 1),
    "rotated": (lambda s: rotated(int(500 * s)), True, 1),
    "elasticity": (lambda s: elasticity(int(300 * s)), True, 2),
    "convection": (lambda s: convection(int(500 * s)), False, 1),
    "graph": (lambda s: geometric_graph(int(250000 * s * s)), True, 1),
}


# ---- solvers: x and iterations ----


def tacit_amg(smoother):
    def solve(a, b, symmetric, block):
        import tacit

        precond = {"name": "amg", "smoother": smoother, "block": block}
        if smoother == "chebyshev":
            precond["sweeps"] = 2
        r = tacit.solve(a, b, method="cg" if symmetric else "gmres", precond=precond, rtol=RTOL, max_iterations=2000)
        return r.x, r.iterations

    return solve


def tacit_auto(a, b, _symmetric, _block):
    import tacit

    r = tacit.solve(a, b, rtol=RTOL)
    return r.x, r.iterations


def pyamg_solver(kind):
    def solve(a, b, symmetric, block):
        import pyamg

        if kind == "smoothed_aggregation_solver":
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
            x = levels.solve(b, tol=rtol, accel="cg" if symmetric else "gmres", maxiter=500, residuals=norms)
            if np.linalg.norm(b - a @ x) <= 1.05 * RTOL * np.linalg.norm(b):
                break
        return x, len(norms) - 1

    return solve


def petsc_solver(*words):
    def solve(a, b, symmetric, block):
        from petsc4py import PETSc

        options = PETSc.Options()
        for i in range(0, len(words), 2):
            options[words[i]] = words[i + 1]
        matrix = PETSc.Mat().createAIJ(a.shape, bsize=block, csr=(a.indptr, a.indices, a.data), comm=PETSc.COMM_SELF)
        ksp = PETSc.KSP().create(PETSc.COMM_SELF)
        ksp.setType("cg" if symmetric else "gmres")
        if not symmetric:
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


SOLVERS = {  # name: (program, solve)
    "tacit spai0": ("tacit", tacit_amg("spai0")),
    "tacit gauss-seidel": ("tacit", tacit_amg("gauss-seidel")),
    "tacit chebyshev": ("tacit", tacit_amg("chebyshev")),
    "tacit auto": ("tacit", tacit_auto),
    "pyamg sa": ("pyamg", pyamg_solver("smoothed_aggregation_solver")),
    "pyamg rs": ("pyamg", pyamg_solver("ruge_stuben_solver")),
    "petsc gamg": ("petsc", petsc_solver("pc_type", "gamg")),
    "petsc hypre": ("petsc", petsc_solver("pc_type", "hypre", "pc_hypre_type", "boomeramg")),
}


def child(system, solver, scale):
    """Prints one line of JSON: seconds of the processor, iterations, the true residual."""
    program, solve = SOLVERS[solver]
    if program == "petsc":
        import petsc4py

        petsc4py.init(["amg"])
    assemble, symmetric, block = SYSTEMS[system]
    a = assemble(scale)
    a.sort_indices()
    a.indices, a.indptr = a.indices.astype("int32"), a.indptr.astype("int32")
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    small = grid_laplacian(9, 9)
    if program != "petsc":
        solve(small if symmetric or program == "pyamg" else convection(9), np.ones(81), symmetric, 1)  # loads modules
    start = time.process_time()
    x, iterations = solve(a, b, symmetric, block)
    seconds = time.process_time() - start
    residual = float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))
    print(json.dumps({"seconds": seconds, "iterations": iterations, "residual": residual, "rows": a.shape[0]}))


# ---- the parent ----


def pythons(pyamg):
    """The command of each program's Python; those that are not installed are left out, with a line."""
    from real_systems import petsc_python

    found = {"tacit": [sys.executable], "pyamg": [pyamg], "petsc": petsc_python(False)}
    probes = {"pyamg": "import pyamg", "petsc": "import petsc4py; petsc4py.init([]); from petsc4py import PETSc"}
    for program, probe in probes.items():
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
    words = [*command, __file__, "--child", system, solver, str(options.scale)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=options.limit, check=False, env=harness.environment()
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {options.limit:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:120]}
    return json.loads(lines[-1])


def measure(system, commands, options):
    records = {name: [] for name in options.solvers if SOLVERS[name][0] in commands}
    for _ in range(options.rounds):
        for name, runs in records.items():
            if not any("failed" in r for r in runs):
                runs.append(run(commands[SOLVERS[name][0]], system, name, options))
    table = {}
    for name, runs in records.items():
        failed = [r["failed"] for r in runs if "failed" in r]
        if failed:
            table[name] = {"failed": failed[0]}
            print(f"{system:12} {name:20} {failed[0]}", flush=True)
            continue
        seconds = [r["seconds"] for r in runs]
        entry = {**runs[-1], "seconds": statistics.median(seconds), "all_seconds": seconds}
        entry["solved"] = entry["residual"] <= 1.05 * RTOL
        table[name] = entry
        print(
            f"{system:12} {name:20} {entry['seconds']:8.2f} s {entry['iterations']:5} iterations"
            f"  {entry['residual']:.1e}{'' if entry['solved'] else '  not solved'}",
            flush=True,
        )
    return table


def main():
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        return
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--pyamg", default=sys.executable)
    options = parser.parse_args()
    commands = pythons(options.pyamg)
    results = {system: measure(system, commands, options) for system in options.only}
    harness.write(options.json, "amg", scale=options.scale, rounds=options.rounds, systems=results)


if __name__ == "__main__":
    main()
