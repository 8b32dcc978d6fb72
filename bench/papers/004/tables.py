"""Tables 1 to 5 of Stoyanov and Pfreundt (2014) at sizes for this machine, with PETSc and the paper's values.

    python bench/papers/004/tables.py [--n 129] [--tables 1 3 4] [--iterations 60] [--rounds 3] [--ranks 1 2]
                                      [--paths auto gaspi] [--build build/release] [--json FILE]

--n: nodes along an edge, including the boundary (the paper: 257, 301, 501). Tables 3 to 5: every time is the least over
--rounds of the time of --iterations minus that of a quarter of them, both in one process (which removes the fixed cost
of a solve), the rows of a table in alternating runs; scaled to the paper's number of iterations. Defaults of
--iterations and --rounds: 60 and 3, or 12 and 1 above 161 nodes: at 257, table 4 takes about ten minutes, most of which
is spent on assembly. Automatic choices of halo paths and schedules are completed before the clock starts. PETSc runs
the same rows on the same ranks, with the preconditioner written out; the residuals of both are compared.

Tables 1 and 2: cg with the schedules synchronous (SS), asynchronous with a static split (AS), with jobs (AD),
overlapped, and Tacit's default (auto) on 2 ranks x 1 thread and 2 ranks x 2 threads: all in one process, alternating,
medians; and csr on 1 rank x 2 threads, which has no halo. Table 3: cg compared with PETSc. Tables 4 and 5: Jacobi-
Richardson with a stored matrix, matrix-free, and with several sweeps in one pass, compared with PETSc.

--paths: of the halo exchange, for stored matrices and for the schedules on several ranks; others than auto are named in
the rows. gaspi, the paper's, needs a build with TACIT_GASPI=ON; the first solve of each process, which starts GASPI, is
not timed.
"""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import harness

PAPER = {
    "1": "paper, 2 to 16 nodes (12 threads a node): SS 170.5 94.1 54.3 35.9   AS 2 194.7 101.9 53.0 33.4   AD 2 173.5 91.3 48.5 29.0 s",
    "2": "paper, 1 to 16 nodes (6 threads a socket): SS 179.7 93.2 50.3 30.6 21.3   AS 2 205.7 119.7 61.1 31.1 15.4   AD 2 196.6 99.2 51.8 28.5 15.5 s",
    "3": "paper, 1 to 16 nodes, ms an iteration: PETSc 263 128 69 41 25   GPI 207 108 58 33 18 (other preconditioners)",
    "4": "paper, 1 to 16 nodes: PETSc 552 300 167 100 69 s, GPI 426 220 118 64 34 s; GPI / PETSc 0.77 0.73 0.71 0.64 0.49",
    "5": "paper, Cray XE6, 1 to 16 nodes, 301^3: PETSc 476 251 144 80 39 s, GPI 552 285 145 73 41 s; 1.16 1.14 1.01 0.91 1.05\n"
    "paper, Cray XE6, 4 to 32 nodes, 501^3: PETSc 624 356 215 108 s, GPI 692 351 194 111 s; 1.11 0.99 0.90 1.03",
}


def run(build, program, ranks, threads, words):
    command = [
        "mpiexec",
        "--bind-to",
        "core" if threads == 1 else "none",
        "-n",
        ranks,
        build / "bench" / program,
        *words,
    ]
    env = harness.environment(threads, OPENBLAS_NUM_THREADS="1", OMP_PROC_BIND="close", OMP_PLACES="cores")
    lines = [line for line in harness.output(command, env=env).splitlines() if line.startswith("{")]
    return [json.loads(line) for line in lines]


def over(path):
    return "" if path == "auto" else f", {path}"


STARTED = time.monotonic()


def progress(*words):
    print(f"  [{time.monotonic() - STARTED:6.0f} s]", *words, file=sys.stderr, flush=True)


class Table:
    def __init__(self, options, title, full):
        self.options, self.full = options, full
        print(f"\n{title}; {options.n}^3 nodes, seconds for {full} iterations; residuals after {options.iterations}")
        print(
            f"{'':34} {'ranks x threads':>16} {'timed':>6} {'ms/iteration':>13} {'seconds':>9} {'ratio':>7}  residual"
        )

    def line(self, name, ranks, threads, timed, t, ratio, rest):
        print(
            f"{name:34} {ranks:>8} x {threads:<5} {timed:6} {1e3 * t:13.3f} {self.full * t:9.1f} {ratio:7.3f}  {rest}",
            flush=True,
        )

    def rows(self, rows, base=None):
        """Runs all rows, each (name, program, ranks, threads, words), in every round."""
        least = {}  # seconds by row and iterations
        residuals = {}
        for round_ in range(self.options.rounds):
            for i, (name, program, ranks, threads, words) in enumerate(rows):
                progress(
                    f"round {round_ + 1} of {self.options.rounds}, row {i + 1} of {len(rows)}: {name}, {ranks} x {threads}"
                )
                for found in run(self.options.build, program, ranks, threads, words):
                    at = least.setdefault((name, ranks, threads), {})
                    at[found["iterations"]] = min([*found["seconds"], at.get(found["iterations"], float("inf"))])
                    if found["iterations"] == self.options.iterations:
                        residuals[name, ranks, threads] = found["residual"]
        times = {}
        for row, at in least.items():
            few, many = sorted(at)[-2:]
            times[row] = (at[many] - at[few]) / (many - few)
        results = []
        for (name, ranks, threads), t in times.items():
            against = [v for k, v in times.items() if k[0] == base and k[1] * k[2] == ranks * threads]
            ratio = t / min(against) if against else float("nan")
            r, timed = residuals[name, ranks, threads], max(least[name, ranks, threads])
            self.line(name, ranks, threads, timed, t, ratio, f"{r:.15e}")
            results.append(
                {"name": name, "ranks": ranks, "threads": threads, "seconds": t, "ratio": ratio, "residual": r}
            )
        return results

    def schedules(self, path):
        """Runs cg with every schedule over one path of the halo exchange."""
        o, results = self.options, []
        names = {"synchronous": "SS", "split": "AS", "jobs": "AD", "overlapped": "overlapped", "auto": "auto"}
        rounds = max(3, 5 * o.rounds)
        for ranks, threads in ((2, 1), (2, 2)):
            progress(f"schedules, {ranks} x {threads}, path {path}")
            words = [
                f"n={o.n - 2}",
                f"planes={o.n - 2}",
                "method=cg",
                f"rounds={rounds}",
                f"iterations={max(4, o.iterations // 3)}",
                f"path={path}",
            ]
            found = run(o.build, "bench_schedules", ranks, threads, [*words, "json=1"])[-1]["schedules"]
            for how, short in names.items():
                t, ratio = found[how]["median"], found[how]["ratio"]
                name = short + over(path)
                self.line(f"csr {name}", ranks, threads, rounds * max(4, o.iterations // 3), t, ratio, "")
                results.append({"name": name, "ranks": ranks, "threads": threads, "seconds": t, "ratio": ratio})
        return results


def main():
    parser = harness.parser(__doc__, build=True, rounds=0, ranks=(1, 2))
    parser.add_argument("--n", type=int, default=129)
    parser.add_argument("--tables", nargs="+", default=["1", "3", "4"], choices=["1", "2", "3", "4", "5"])
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--paths", nargs="+", default=["auto"])
    o = parser.parse_args()
    large = o.n > 161
    o.iterations = o.iterations or (12 if large else 60)
    o.rounds = o.rounds or (1 if large else 3)
    n, k = o.n - 2, o.iterations
    some = f"{max(1, k // 4)},{k}"
    # Sweeps are much shorter, so more of them are timed, in whole passes of six; the residual is that after k of them.
    passes = f"{k}," + (f"{k + 48},{k + 168}" if large else f"{k + 60},{k + 420}")
    has_petsc = (o.build / "bench/petsc_solve").exists()
    both = {}

    # Paths are measured at the 65th exchange; schedules during about 150 products, too many for a large matrix.
    tried = ["warm=70", "schedule=overlapped"] if large else ["warm=250"]

    def tacit(name, method, precond, ranks, threads, *words, timed=some):
        return (name, "bench_solve", ranks, threads, ["3d7", n, method, precond, timed, 2, *words])

    def csr(method, precond, ranks):
        if ranks == 1:
            return [tacit("csr", method, precond, 1, 1)]
        return [tacit("csr" + over(p), method, precond, ranks, 1, f"path={p}", *tried) for p in o.paths]

    def stencil(name, method, precond, ranks, *words):
        return tacit(name, method, precond, ranks, 1, "format=stencil", *(tried if ranks > 1 else []), *words)

    def petsc(method, precond, ranks):
        words = ["3d7", n, method, precond, some, 2]
        return [("PETSc", "petsc_solve", ranks, 1, words)] if has_petsc else []

    if "1" in o.tables or "2" in o.tables:
        table = Table(o, "Tables 1 and 2: cg, schedules of the product (ratio: to SS)", 866)
        each = [row for path in o.paths for row in table.schedules(path)]
        both["1"] = [*each, *table.rows([tacit("csr, 1 rank", "cg", "none", 1, 2)])]
        print(PAPER["1"], PAPER["2"], sep="\n")
    if "3" in o.tables:
        table = Table(o, "Table 3: cg (ratio: to PETSc on as many cores)", 866)
        rows = []
        for ranks in o.ranks:
            rows += petsc("cg", "none", ranks)
            rows += csr("cg", "none", ranks)
            rows.append(stencil("stencil", "cg", "none", ranks))
        both["3"] = table.rows(rows, base="PETSc")
        print(PAPER["3"])
    if "4" in o.tables or "5" in o.tables:
        table = Table(o, "Tables 4 and 5: Jacobi-Richardson (ratio: to PETSc on as many cores)", 4000)
        rows = []
        for ranks in o.ranks:
            rows += petsc("richardson", "jacobi", ranks)
            rows += csr("richardson", "jacobi", ranks)
            rows.append(stencil("stencil, one sweep a pass", "richardson", "jacobi", ranks, "sweeps=1"))
            words = ["format=stencil", *(["warm=420"] if ranks > 1 else [])]
            rows.append(tacit("stencil, several sweeps", "richardson", "jacobi", ranks, 1, *words, timed=passes))
        both["4"] = table.rows(rows, base="PETSc")
        print(PAPER["4"], PAPER["5"], sep="\n")
    harness.write(o.json, "papers.004.tables/1", n=o.n, iterations=k, tables=both)


if __name__ == "__main__":
    main()
