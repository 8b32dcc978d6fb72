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
    head = (
        f"{'problem':<8}{'setting':<8}{'n':>10}{'MB':>9}{'n log2 n':>9}{'dense':>8}{'ranks':>11}{'error':>9}"
        f"{'assembly s':>11}{'cpu s':>8}{'product ms':>11}{'Gflop/s':>8}{'its':>5}{'ms/it':>8}{'charge error':>14}"
    )
    print(head + "   | paper: n, its, ms/it (GPUs), Gflop/s P100, host", flush=True)
    for name in o.problems.split(","):
        mesh, what, exact = problem(name, o.meshes)
        for setting in o.settings.split(","):
            options = dict(SETTINGS[setting])
            precond = o.precond or options.pop("precond")
            options.pop("precond", None)
            begin = time.process_time()
            system = bem.assemble(mesh, threads=o.threads, **options)
            cpu = time.process_time() - begin
            r = system.A.report
            numbers = r["bytes_float64"] / 8 + r["bytes_float32"] / 4 + r["bytes_int16"] / 2
            product = system.product_seconds(20)
            charges = system.solve(rtol=1e-7, precond=precond, method="bicgstab", **what)
            each = 1e3 * charges.seconds["solve"] / max(1, charges.iterations)
            error = abs(charges.charge[0] / exact - 1) if exact else math.nan
            n = len(mesh)
            row = {
                "problem": name,
                "setting": setting,
                "n": n,
                "bytes": r["bytes"],
                "numbers_over_n_log2_n": numbers / (n * math.log2(n)),
                "dense_fraction": r["dense_fraction"],
                "mean_rank": r["mean_rank"],
                "max_rank": r["max_rank"],
                "error": r["measured_error"],
                "assembly_seconds": system.seconds,
                "assembly_processor_seconds": cpu,
                "product_seconds": product,
                "gflops": 2e-9 * numbers / product,
                "iterations": charges.iterations,
                "reason": charges.reason,
                "residual_norm": charges.residual_norm,
                "milliseconds_an_iteration": each,
                "charge": charges.charge.tolist(),
                "charge_error": error,
            }
            rows.append(row)
            published = PAPER.get(name, ("-",) * 6)
            beside = f"{published[0]:,}" if published[0] != "-" else "-"
            print(
                f"{name:<8}{setting:<8}{n:>10,}{r['bytes'] / 1e6:>9.1f}{row['numbers_over_n_log2_n']:>9.1f}"
                f"{100 * r['dense_fraction']:>7.2f}%{r['mean_rank']:>7.1f}/{r['max_rank']:<3d}{r['measured_error']:>9.1e}"
                f"{system.seconds:>11.2f}{cpu:>8.2f}{1e3 * product:>11.2f}{row['gflops']:>8.1f}{charges.iterations:>5}"
                f"{each:>8.1f}{error:>14.2e}   | {beside}, {published[1]}, {published[2]} ({published[3]}), {published[4]}, {published[5]}"
                + ("" if charges.converged else f"   {charges.reason}"),
                flush=True,
            )
            if o.pipelined:
                other = system.solve(rtol=1e-7, precond=precond, method="pipelined-bicgstab", **what)
                step = 1e3 * other.seconds["solve"] / max(1, other.iterations)
                row["pipelined"] = {"iterations": other.iterations, "milliseconds_an_iteration": step}
                print(
                    f"{'':<16}pipelined-bicgstab: {other.iterations} its, {step:.1f} ms/it, {step / each:.2f} of bicgstab's"
                )
            if o.inner:
                coarse = system.A.coarse(rank=1)
                report_coarse = coarse.report
                began = time.perf_counter()
                twenty = tacit.solve(
                    coarse,
                    np.ones(n),
                    method="bicgstab",
                    precond="jacobi",
                    rtol=1e-15,
                    max_iterations=20,
                    explain=False,
                )
                twenty_seconds = time.perf_counter() - began
                kept = (
                    report_coarse["bytes_float64"] / 8
                    + report_coarse["bytes_float32"] / 4
                    + report_coarse["bytes_int16"] / 2
                )
                outer = system.solve(
                    rtol=1e-7, precond={"name": "inner", "rank": 1, "iterations": 20}, method="bicgstab", **what
                )
                row["inner"] = {
                    "bytes": report_coarse["bytes"],
                    "numbers_of_matrix": kept / numbers,
                    "milliseconds_an_iteration": 1e3 * twenty_seconds / max(1, twenty.iterations),
                    "outer_iterations": outer.iterations,
                    "outer_reason": outer.reason,
                    "outer_seconds": outer.seconds["solve"],
                    "plain_seconds": charges.seconds["solve"],
                }
                print(
                    f"{'':<16}rank one: {report_coarse['bytes'] / 1e6:.1f} MB, {kept / numbers:.2f} of the numbers (the paper 0.10),"
                    f" {row['inner']['milliseconds_an_iteration']:.1f} ms/it; as preconditioner, 20 iterations each:"
                    f" {outer.iterations} outer its ({outer.reason}), {outer.seconds['solve']:.2f} s, without {charges.seconds['solve']:.2f} s",
                    flush=True,
                )
            del system, charges
    if o.json:
        o.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
