"""The tables of the paper on pipelined CA-GMRES (Figs. 10, 12, 14 and 16) at sizes for this machine, with the paper's
values.

    python bench/papers/001/tables.py [--build build/release] [--ranks 1 2] [--rounds 3] [--only 12] [--json FILE]

Seconds of 20 cycles (Fig. 14: 10) from x = 0, b = 1, one thread per rank unless stated; medians of alternating runs.
Paper: Tsubame 2 with 20 to 300 processes, where a reduction costs as much as a product; on one machine it does not, and
the memory traffic of an iteration decides. The paper's columns are therefore not directly comparable; compare the
ratios to GMRES within a column. Figs. 11 and 15 are plots without numbers; the matrices of Fig. 13 are not available
here; Figs. 7 and 8 measure a network (see bench/latency.py for latency on an artificial link).
Source: Yamazaki, Hoemmen, Luszczek, Dongarra 2017, doi 10.1109/IPDPSW.2017.65.
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import harness

GMRES = "gmres", ["orthogonalisation=cgs"]
PIPELINED = {l: ("pipelined-gmres", [f"depth={l}"]) for l in (2, 5, 10)}
CA = {s: ("ca-gmres", [f"step={s}"]) for s in (5, 10)}
PIPELINED_CA = {tau: ("pipelined-ca-gmres", ["depth=2", "block=5", f"tau={tau}"]) for tau in ("0", "8e-3")}
# Title, problem, n, restart, cycles, paper's columns, rows: name, (method, options), the paper's seconds.
TABLES = {
    "10": ("2D five-point, GMRES(30)", "2d5", 1024, 30, 20, "120 180 240 300 processes, non-blocking", [
        ("GMRES", GMRES, ".40 .37 .34 .35"),
        ("pipelined, l = 2", PIPELINED[2], ".35 .28 .21 .21"),
        ("pipelined, l = 5", PIPELINED[5], ".34 .25 .21 .20"),
        ("pipelined, l = 10", PIPELINED[10], ".33 .25 .21 .20"),
    ]),
    "12": ("3D 27-point, m = 20", "3d27", 128, 20, 20, "60 120 180 240 processes", [
        ("GMRES", GMRES, "2.10 1.25 .88 .68"),
        ("pipelined, l = 2", PIPELINED[2], "2.36 1.36 .88 .68"),
        ("pipelined, l = 5", PIPELINED[5], "2.32 1.27 .84 .65"),
        ("pipelined, l = 10", PIPELINED[10], "2.20 1.19 .83 .61"),
        ("CA, s = 5", CA[5], "1.85 1.06 .74 .49"),
        ("CA, s = 10", CA[10], "1.75 1.04 .70 .47"),
        ("pipelined CA (2, 5)", PIPELINED_CA["0"], "2.03 1.13 .78 .51"),
        ("pipelined CA (2, 5), tau", PIPELINED_CA["8e-3"], "1.96 1.07 .72 .49"),
    ]),
    "14": ("one node, 2D five-point, 10 cycles", "2d5", 1024, 0, 10, "1x1 1x3 2x1 12x1 processes x threads, MPI", [
        ("GMRES(30)", ("gmres", ["orthogonalisation=cgs", "restart=30"]), "15.6 9.6 7.6 4.6"),
        ("CA(30, s = 10)", ("ca-gmres", ["step=10", "restart=30"]), "11.5 7.3 5.9 2.4"),
        ("GMRES(60)", ("gmres", ["orthogonalisation=cgs", "restart=60"]), "52.4 32.3 25.5 13.3"),
        ("CA(60, s = 10)", ("ca-gmres", ["step=10", "restart=60"]), "31.7 19.3 16.3 6.4"),
    ]),
    "16": ("2D five-point, m = 20", "2d5", 1024, 20, 20, "20 40 60 80 100 processes", [
        ("GMRES", GMRES, "1.19 .62 .50 .43 .41"),
        ("pipelined, l = 2", PIPELINED[2], "1.66 .66 .43 .34 .28"),
        ("pipelined, l = 5", PIPELINED[5], "1.59 .63 .43 .32 .27"),
        ("pipelined, l = 10", PIPELINED[10], "1.48 .59 .40 .31 .28"),
        ("CA, s = 5", CA[5], "1.04 .50 .36 .29 .26"),
        ("CA, s = 10", CA[10], ".86 .45 .33 .25 .23"),
        ("pipelined CA (2, 5)", PIPELINED_CA["0"], "1.22 .52 .35 .27 .23"),
        ("pipelined CA (2, 5), tau", PIPELINED_CA["8e-3"], "1.10 .49 .33 .26 .23"),
    ]),
}  # fmt: skip


def run(options, column, arguments):
    ranks, threads, engine = column
    command = [options.mpiexec, "--bind-to", "none" if threads > 1 else "core", "-n", ranks]
    return harness.facts(
        [*command, options.build / "bench/bench_solve", *arguments, f"engine={engine}"], threads=threads
    )


def table(number, options):
    title, problem, n, restart, cycles, heads, rows = TABLES[number]
    columns = [(ranks, 1, "polling") for ranks in options.ranks]
    if number == "14":
        columns = [
            (1, 1, "polling"),
            (1, 1, "tasks"),
            (1, 2, "polling"),
            (1, 2, "tasks"),
            (2, 1, "polling"),
            (2, 1, "tasks"),
        ]
    found = {(name, column): [] for name, *_ in rows for column in columns}
    residuals = {}
    for _ in range(options.rounds):
        for name, (method, more), _ in rows:
            length = restart or int(more[-1].split("=")[1])
            extra = [] if not restart else [f"restart={restart}"]
            for column in columns:
                one = run(options, column, [problem, n, method, "none", cycles * length, 1, *more, *extra])
                found[name, column] += one["seconds"]
                residuals.setdefault(name, []).append(one["residual"])
    print(f"\nFig. {number}: {title}, n = {n}: seconds here (ratio to the first row); the paper on {heads}")
    names = {
        c: f"{c[0]} rank{'s' if c[0] > 1 else ''}" + (f" x {c[1]}, {c[2]}" if number == "14" else "") for c in columns
    }
    print(" " * 26 + "".join(f"{names[c]:>21}" for c in columns) + "   true residual   paper")
    results = []
    for name, _, paper in rows:
        medians = {c: statistics.median(found[name, c]) for c in columns}
        first = rows[0][0] if number != "14" or "30" in name.split(",")[0] else "GMRES(60)"
        text = "".join(f"{medians[c]:13.2f} ({medians[c] / statistics.median(found[first, c]):.2f}) " for c in columns)
        print(f"{name:26}{text}   {max(residuals[name]):.6e}   {paper}", flush=True)
        results.append(
            {
                "name": name,
                "seconds": {names[c]: found[name, c] for c in columns},
                "residual": residuals[name],
                "paper": paper,
            }
        )
    return {
        "figure": number,
        "title": title,
        "n": n,
        "restart": restart,
        "cycles": cycles,
        "paper_columns": heads,
        "rows": results,
    }


def main():
    parser = harness.parser(__doc__, build=True, rounds=3, ranks=(1, 2))
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    results = [table(number, options) for number in options.only]
    harness.write(options.json, "papers.001.tables/1", tables=results)


if __name__ == "__main__":
    main()
