"""Compression, products, iterations and time per iteration of electrostatic problems: the tables of a paper on BiCGStab
with H-matrices on clusters of GPUs (I. Yamazaki, A. Abdelfattah, A. Ida, S. Ohshima, S. Tomov, R. Yokota, J. Dongarra,
IPDPS 2018), repeated on this processor, with the paper's values.

    python bench/papers/000/tables.py [--problems 10ts,100ts,hum1,hum2] [--settings paper,ours] [--threads N]
                                      [--meshes ../shared/data/bem] [--precond jacobi] [--pipelined] [--inner]
                                      [--json FILE]

10ts, 100ts, 1ms: spheres of 2 p m^2 triangles at 1 V (the paper's factors; 1ms needs about 10 GB and some minutes);
ring:pxm another one;
humK: K x K bodies on a grid, grounded, in a uniform upward field (the paper's own bodies were never published; a body
of 26,756 triangles replaces them, so that sizes differ from the paper's). BiCGStab to 1e-7 as in the paper.

Settings: "paper": ACA+ without preconditioner, each block to 1e-3 (its accuracy), no recompression, everything in
double precision; "ours": 1e-4 of the whole matrix, recompressed, lower precision where it suffices, diagonal
preconditioner.

A product's Gflop/s are 2 x stored numbers per second, as in the paper's figure 9. The paper's iterations and ms per
iteration are those of figure 16 with one process per node (its Tsubame-3 nodes have four P100 each), for the smallest
number of nodes.

--pipelined adds a line for pipelined BiCGStab (figure 19), which does more vector operations and overlaps reductions
and gathers with them. On one rank there is no latency to hide: the paper's ratios on one GPU are 1.04 (pipe1) and 1.05
(pipe2), on 32 GPUs 0.98 and 0.66 (100ts).

--inner adds the experiment of the paper's 8ms and 20ms, 20 iterations with rank-one matrices: 20 iterations with a copy
of rank one, and the outer iterations with these as preconditioner. The paper's copies have a tenth of its matrices'
numbers (1.7 to 17.6 in figure 3), and an iteration with them takes 0.53 s (8ms, 64 nodes, figure 17(b)); 8 and 20
million triangles do not fit here.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np

import tacit
from tacit import bem

SPHERES = {"10ts": (13, 20), "100ts": (9, 75), "338ts": (10, 130), "1ms": (62, 90)}

# n, iterations, ms per iteration, number of GPUs; Gflop/s of one P100 and of the host's threads (figures 16, 9).
PAPER = {
    "10ts": (10_400, "-", "-", "-", "-", "-"),
    "100ts": (101_250, "14 (13-20)", "3.8", "8", "84.1", "10.4"),
    "338ts": (338_000, "-", "-", "-", "86.1", "11.5"),
    "1ms": (1_004_400, "14 (14-15)", "23.9", "16", "-", "-"),
    "hum2": (78_656, "-", "-", "-", "72.2", "11.5"),
    "hum4": (314_624, "72 (62-79)", "13.2", "8", "-", "-"),
    "hum6": (707_904, "93 (76-104)", "20.8", "16", "96.9", "10.7"),
}
SETTINGS = {
    "paper": dict(tolerance=1e-3, measure="block", recompress=False, storage="full", precond="none"),
    "ours": dict(tolerance=1e-4, precond="jacobi"),
}


def problem(name, meshes):
    """The mesh, the potential or field, and the exact charge of one body if known."""
    if name in SPHERES or name.startswith("ring:"):
        rings = SPHERES.get(name) or map(int, name.removeprefix("ring:").split("x"))
        return bem.ring_sphere(*rings), {"potential": 1.0}, 1.0
    k = int(name.removeprefix("hum"))
    body = bem.read(meshes / "human.obj")
    if k > 1:
        body = body.copies((k, k), up="y")
    return body, {"potential": 0.0, "field": (0.0, 1.0, 0.0)}, None


HEAD = (
    f"{'problem':<8}{'setting':<8}{'n':>10}{'MB':>9}{'n log2 n':>9}{'dense':>8}{'ranks':>11}{'error':>9}"
    f"{'assembly s':>11}{'cpu s':>8}{'product ms':>11}{'Gflop/s':>8}{'its':>5}{'ms/it':>8}{'charge error':>14}"
)


def numbers_of(report):
    return report["bytes_float64"] / 8 + report["bytes_float32"] / 4 + report["bytes_int16"] / 2


def milliseconds(charges):
    """Of an iteration."""
    return 1e3 * charges.seconds["solve"] / max(1, charges.iterations)


def solved(o, name, setting, mesh, what, exact):
    """A row of the table: assembles, solves and prints."""
    options = dict(SETTINGS[setting])
    own = options.pop("precond", None)
    precond = o.precond or own
    begin = time.process_time()
    system = bem.assemble(mesh, threads=o.threads, **options)
    cpu = time.process_time() - begin
    r, n = system.A.report, len(mesh)
    numbers = numbers_of(r)
    product = system.product_seconds(20)
    charges = system.solve(rtol=1e-7, precond=precond, method="bicgstab", **what)
    row = {
        "problem": name,
        "setting": setting,
        "n": n,
        **{key: r[key] for key in ("bytes", "dense_fraction", "mean_rank", "max_rank")},
        "numbers_over_n_log2_n": numbers / (n * math.log2(n)),
        "error": r["measured_error"],
        "assembly_seconds": system.seconds,
        "assembly_processor_seconds": cpu,
        "product_seconds": product,
        "gflops": 2e-9 * numbers / product,
        **{key: getattr(charges, key) for key in ("iterations", "reason", "residual_norm")},
        "milliseconds_an_iteration": milliseconds(charges),
        "charge": charges.charge.tolist(),
        "charge_error": abs(charges.charge[0] / exact - 1) if exact else math.nan,
    }
    show(row, charges.converged)
    if o.pipelined:
        other = system.solve(rtol=1e-7, precond=precond, method="pipelined-bicgstab", **what)
        step = milliseconds(other)
        row["pipelined"] = {"iterations": other.iterations, "milliseconds_an_iteration": step}
        ratio = step / row["milliseconds_an_iteration"]
        print(f"{'':<16}pipelined-bicgstab: {other.iterations} its, {step:.1f} ms/it, {ratio:.2f} of bicgstab's")
    if o.inner:
        row["inner"] = with_inner_solves(system, what, charges)
    return row


def show(row, converged):
    paper = PAPER.get(row["problem"], ("-",) * 6)
    beside = f"{paper[0]:,}" if paper[0] != "-" else "-"
    print(
        f"{row['problem']:<8}{row['setting']:<8}{row['n']:>10,}{row['bytes'] / 1e6:>9.1f}{row['numbers_over_n_log2_n']:>9.1f}"
        f"{100 * row['dense_fraction']:>7.2f}%{row['mean_rank']:>7.1f}/{row['max_rank']:<3d}{row['error']:>9.1e}"
        f"{row['assembly_seconds']:>11.2f}{row['assembly_processor_seconds']:>8.2f}{1e3 * row['product_seconds']:>11.2f}"
        f"{row['gflops']:>8.1f}{row['iterations']:>5}{row['milliseconds_an_iteration']:>8.1f}{row['charge_error']:>14.2e}"
        f"   | {beside}, {paper[1]}, {paper[2]} ({paper[3]}), {paper[4]}, {paper[5]}"
        + ("" if converged else f"   {row['reason']}"),
        flush=True,
    )


def with_inner_solves(system, what, charges):
    """The copy of rank one: its size, its iterations, and a solve with inner solves by it as preconditioner."""
    coarse = system.A.coarse(rank=1)
    r, ones = coarse.report, np.ones(system.A.shape[0])
    how = {"method": "bicgstab", "precond": "jacobi", "rtol": 1e-15, "max_iterations": 20, "explain": False}
    begin = time.perf_counter()
    twenty = tacit.solve(coarse, ones, **how)
    each = 1e3 * (time.perf_counter() - begin) / max(1, twenty.iterations)
    share = numbers_of(r) / numbers_of(system.A.report)
    inner = {"name": "inner", "rank": 1, "iterations": 20}
    outer = system.solve(rtol=1e-7, precond=inner, method="bicgstab", **what)
    print(
        f"{'':<16}rank one: {r['bytes'] / 1e6:.1f} MB, {share:.2f} of the numbers (the paper 0.10),"
        f" {each:.1f} ms/it; as preconditioner, 20 iterations each: {outer.iterations} outer its ({outer.reason}),"
        f" {outer.seconds['solve']:.2f} s, without {charges.seconds['solve']:.2f} s",
        flush=True,
    )
    return {
        "bytes": r["bytes"],
        "numbers_of_matrix": share,
        "milliseconds_an_iteration": each,
        "outer_iterations": outer.iterations,
        "outer_reason": outer.reason,
        "outer_seconds": outer.seconds["solve"],
        "plain_seconds": charges.seconds["solve"],
    }


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--problems", default="10ts,100ts,hum1,hum2")
    words.add_argument("--settings", default="paper,ours")
    words.add_argument("--meshes", type=pathlib.Path, default=pathlib.Path(__file__).parents[4] / "shared/data/bem")
    words.add_argument("--threads", type=int)
    words.add_argument("--precond", help="replaces that of the setting")
    words.add_argument("--pipelined", action="store_true")
    words.add_argument("--inner", action="store_true")
    words.add_argument("--json", type=pathlib.Path)
    o = words.parse_args()
    rows = []
    print(HEAD + "   | paper: n, its, ms/it (GPUs), Gflop/s P100, host", flush=True)
    for name in o.problems.split(","):
        mesh, what, exact = problem(name, o.meshes)
        for setting in o.settings.split(","):
            rows.append(solved(o, name, setting, mesh, what, exact))
    if o.json:
        o.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
