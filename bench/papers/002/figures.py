"""Figures 2 to 8 of the paper on s-step bottom solvers, at sizes for one machine.

    python bench/papers/002/figures.py [--out paper-002] [--largest 8] [--figures 2,6,7,8] [--box 16]

--figures: 2 includes 3 to 5. Counted in real solves: boxes of `--box`^3 cells are distributed over n^3 ranks as in the
paper (all of them in one process here: results do not depend on ranks) and coarsened to 4^3 cells, so that the bottom
(the coarsest level) has (4 n)^3 cells as in the paper (whose boxes of 64^3 have two more levels above it); Helmholtz
with a triangle wave, a = b = 0.9, to 1e-10. Bottom iterations, V-cycles and residuals are those of n^3 ranks with such
boxes; reductions and exchanges follow from the counts per iteration and block, which the tests check.

Figures 7 and 8: see applications.py; in addition projections on L-shapes and with larger jumps, in seconds of this
machine.

Modelled: the time of these reductions and exchanges on n^3 ranks. A reduction takes log2 P (L + 2 o + G bytes + noise),
an exchange with six neighbours L + 12 o + 6 G bytes. Constants: those published for the paper's machine, and a set that
was fitted to three of its ratios with a finer model of exchanges. Local work of the bottom is not included; the levels
above take 17 ms per V-cycle of a 64^3 box (12 GB/s). Printed next to the paper's values. Source: Williams, Lijewski,
Almgren, Van Straalen, Carson, Knight, Demmel 2014, doi 10.1109/IPDPS.2014.119.
"""

import argparse
import json
import math
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from applications import scaling

from tacit import grid_problems as problems
from tacit import multigrid as mg

# Seconds: latency, overhead of a message, time per byte, noise in a round of a reduction.
MACHINES = {
    "published": {"L": 1.5e-6, "o": 0.5e-6, "G": 0.33e-9, "noise": 2e-6},
    "fitted": {"L": 1.5e-6, "o": 0.85e-6, "G": 1.4e-9, "noise": 0.0},
}
V_CYCLE = 17e-3
FACE = 4 * 4 * 8  # bytes of a ghost layer of a 4^3 box


def sum_time(m: dict, ranks: int, size: int) -> float:
    return math.log2(ranks) * (m["L"] + 2 * m["o"] + m["G"] * size + m["noise"]) if ranks > 1 else 0.0


def halo_time(m: dict, size: int) -> float:
    return m["L"] + 12 * m["o"] + 6 * m["G"] * size


# Reductions (bytes of each) and exchanges (bytes of a face) of a number of iterations in a number of solves.
def classical_six(iterations: int, solves: int) -> tuple:
    return [8] * (6 * iterations), [FACE] * (2 * iterations)


def classical_ours(iterations: int, solves: int) -> tuple:
    return [8, 24, 16] * iterations, [FACE] * (2 * iterations)


def s_step(s: int, pairs: bool):
    def counts(iterations: int, solves: int) -> tuple:
        # In every solve blocks of 1, 2, 4 .. s come first, then blocks of s.
        sums, halos = [], []
        left, each = iterations, max(1, round(iterations / max(1, solves)))
        while left > 0:
            step, rest = 1, min(each, left)
            left -= rest
            while rest > 0:
                sums.append((4 * step + 1) * (4 * step + 4) // 2 * 8)
                halos += [2 * FACE] * (2 * step) if pairs else [FACE] * (4 * step - 1)
                rest -= step
                step = min(s, 2 * step)
        return sums, halos

    return counts


def modelled(m: dict, ranks: int, sums: list, halos: list) -> tuple[float, float]:
    return sum(sum_time(m, ranks, size) for size in sums), sum(halo_time(m, size) for size in halos)


def solve_on(n: int, box: int, bottom: str, step: int | None = None, **more):
    p = problems.helmholtz(n * box, boxes=box, coefficient="constant")
    return mg.solve(p.A, p.f, cycle="U", smallest_box=4, bottom=bottom, step=step, bottom_norm="max", **more)


def model_row(m: dict, n: int, classical, avoiding) -> dict:
    """A solve on n^3 ranks by the model: (seconds in sums, in exchanges) of each variant, and their gains. Prints."""
    ranks, solves = n**3, classical.bottom_solves
    six = modelled(m, ranks, *classical_six(classical.bottom_iterations, solves))
    three = modelled(m, ranks, *classical_ours(classical.bottom_iterations, solves))
    s4 = modelled(m, ranks, *s_step(4, False)(avoiding.bottom_iterations, avoiding.bottom_solves))
    pairs = modelled(m, ranks, *s_step(4, True)(avoiding.bottom_iterations, avoiding.bottom_solves))
    smooth = V_CYCLE * classical.cycles
    gain = [sum(six) / sum(s4), sum(six) / sum(pairs), six[0] / s4[0]]
    whole = [(smooth + sum(six)) / (smooth + sum(x)) for x in (s4, pairs)]
    print(
        f"  {ranks:5d}  {six[0]:11.4f} {six[1]:8.4f}  | {sum(three):.4f}  | {s4[0]:10.4f} {s4[1]:8.4f}  |  {sum(pairs):.4f}  |"
        f"  {gain[0]:5.2f}   {gain[1]:5.2f}  {gain[2]:5.1f}  {whole[0]:5.2f}   {whole[1]:5.2f}"
    )
    return {
        "ranks": ranks,
        "six": six,
        "three": three,
        "s4": s4,
        "pairs": pairs,
        "gain": gain,
        "solve": whole,
        "iterations": [classical.bottom_iterations, avoiding.bottom_iterations],
        "cycles": [classical.cycles, avoiding.cycles],
    }


def weak_scaling(arguments, out) -> None:
    rows = []
    n = 2
    while n <= arguments.largest:
        classical = solve_on(n, arguments.box, "bicgstab")
        avoiding = solve_on(n, arguments.box, "ca-bicgstab", 4)
        rows.append((n, classical, avoiding))
        for r in (classical, avoiding):
            assert r.converged, r
            assert r.bottom_failures == 0, r
        print(
            f"{n**3:5d} ranks, bottom {4 * n}^3: bicgstab {classical.bottom_iterations} iterations in {classical.cycles} V-cycles,"
            f" ca-bicgstab s = 4 {avoiding.bottom_iterations} in {avoiding.cycles}"
        )
        n *= 2
    print(
        "\nFigures 2 to 5 by the model (seconds of a solve); paper: bottom 4.2 times, solve 2.5, time in sums 11.2 times less"
    )
    document = []
    for name, m in MACHINES.items():
        repeated = ": CIRCULAR, three of these ratios went into it" if name == "fitted" else ""
        print(f"  machine {name}{repeated}: {m}")
        print(
            "  ranks   6 sums: sums   halos  | 3 sums  | s = 4: sums   halos  | in pairs | bottom   pairs   sums  solve   pairs"
        )
        document += [{"machine": name} | model_row(m, *row) for row in rows]
    (out / "weak_scaling.json").write_text(json.dumps(document, indent=1))
    draw_weak_scaling(rows, [d for d in document if d["machine"] == "published"], out / "weak_scaling.png")


def draw_weak_scaling(rows: list, of: list[dict], path: pathlib.Path) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4))
    ranks = [n**3 for n, *_ in rows]
    left.loglog(ranks, [d["six"][0] + d["six"][1] for d in of], "o--", color="#c53030", label="bottom, 6 sums")
    left.loglog(ranks, [sum(d["pairs"]) for d in of], "s--", color="#2b6cb0", label="bottom, s = 4 in pairs")
    smooth = [V_CYCLE * classical.cycles for _, classical, _ in rows]
    left.loglog(ranks, smooth, "--", color="#38a169", label="multigrid part")
    left.loglog(
        ranks,
        [a + sum(d["six"]) for a, d in zip(smooth, of, strict=True)],
        "o-",
        color="#c53030",
        label="solve, 6 sums",
    )
    left.loglog(
        ranks,
        [a + sum(d["pairs"]) for a, d in zip(smooth, of, strict=True)],
        "s-",
        color="#2b6cb0",
        label="solve, s = 4",
    )
    (
        left.set_xlabel("ranks (time above the bottom: one 64^3 box each)"),
        left.set_ylabel("seconds, model"),
        left.legend(fontsize=8),
    )
    left.set_title("as figures 2 and 4", loc="left")
    middle.semilogx(ranks, [c.bottom_iterations for _, c, _ in rows], "o-", color="#c53030", label="bicgstab")
    middle.semilogx(ranks, [a.bottom_iterations for _, _, a in rows], "s-", color="#2b6cb0", label="ca-bicgstab, s = 4")
    middle.set_xlabel("ranks"), middle.set_ylabel("bottom iterations of a solve, counted"), middle.legend(fontsize=8)
    middle.set_title("as figure 3", loc="left")
    names = ["6 sums", "3 sums", "s = 4", "s = 4, pairs"]
    bars = [of[-1][k] for k in ("six", "three", "s4", "pairs")]
    right.bar(names, [1e3 * b[0] for b in bars], color="#c53030", label="sums")
    right.bar(names, [1e3 * b[1] for b in bars], bottom=[1e3 * b[0] for b in bars], color="#f6ad55", label="exchanges")
    right.set_ylabel(f"ms of all bottoms on {ranks[-1]} ranks, model"), right.legend(fontsize=8)
    right.set_title("as figure 5", loc="left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def residuals(arguments, out) -> None:
    print("\nFigure 6: largest residual after each V-cycle, of that of the right-hand side")
    figure, axes = plt.subplots(figsize=(5.5, 4))
    n = min(arguments.largest, 8)
    seen = {}
    for name, bottom, step in (
        ("bicgstab", "bicgstab", None),
        ("ca-bicgstab, s = 4", "ca-bicgstab", 4),
        ("ca-bicgstab, s = 8", "ca-bicgstab", 8),
    ):
        r = solve_on(n, arguments.box, bottom, step)
        seen[name] = r.history
        print(
            f"  {name:20s} "
            + " ".join(f"{v:.3e}" for v in r.history[1:])
            + f"   {r.bottom_iterations} bottom iterations"
        )
        axes.semilogy(r.history, "o-", label=name, markersize=4)
    first = seen["bicgstab"]
    for history in seen.values():
        assert len(history) == len(first), "another number of V-cycles"
    axes.set_xlabel("V-cycle"), axes.set_ylabel("max |r| / max |f|"), axes.legend()
    axes.set_title(f"as figure 6, {n**3} boxes", loc="left")
    figure.tight_layout()
    figure.savefig(out / "residuals.png", dpi=150)
    (out / "residuals.json").write_text(json.dumps(seen, indent=1))


BOTTOMS = [("bicgstab", None), ("ca-bicgstab", 4), ("ca-bicgstab", 8)]


def case_totals(which: int, name: str, axes: int, n: int, jump: float, ell: bool, steps: list) -> tuple[dict, float]:
    """(V-cycles, bottom iterations, failures, seconds, seconds of the bottom) by solver, and the largest error."""
    totals = {b: [0, 0, 0, 0.0, 0.0] for b in BOTTOMS}
    start = dict.fromkeys(BOTTOMS)
    worst = 0.0
    for t in steps:
        if which == 7:
            p = problems.projection(n, axes=axes, jump=jump, ell=ell, time=t)
        else:
            p = problems.gravity(n, growth=t, boxes=8)
        for b in BOTTOMS:
            # Boxes of n/8 cells are not agglomerated: they are coarsened to boxes of 2.
            r = mg.solve(
                p.A,
                p.f,
                x0=start[b],
                cycle="U",
                smallest_box=2 if which == 8 or ell else 4,
                bottom=b[0],
                step=b[1],
                pre=3,
                post=3,
                max_cycles=1000,
            )
            assert r.converged, (name, b, r)
            start[b] = r.x
            total = totals[b]
            total[0] += r.cycles
            total[1] += r.bottom_iterations
            total[2] += r.bottom_failures
            total[3] += r.seconds["solve"]
            total[4] += r.seconds["bottom"]
            if p.exact is not None:
                worst = max(worst, np.abs(r.x - p.exact).max() / np.abs(p.exact).max())
    return totals, worst


def applications(arguments, out, which: int) -> None:
    rows = []
    if which == 7:
        print(
            "\nFigure 7: projections of five time steps, each from the last phi; paper: V-cycles equal, bottom iterations within 10 %"
        )
        cases = [(f"{axes}-D {n}^{axes}, jump {jump:g}{', L-shaped' if ell else ''}", axes, n, jump, ell)
                 for axes, n in ((2, 128), (3, 48)) for jump in (10, 816) for ell in (False, True)]  # fmt: skip
        steps = [0.0, 1.0, 2.0, 3.0, 4.0]
    else:
        print("\nFigure 8: gravity at six times, each from the last phi; paper: V-cycles exactly equal")
        cases = [("clustered matter, 64^3", 3, 64, 0, False)]
        steps = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3]
    for name, axes, n, jump, ell in cases:
        totals, worst = case_totals(which, name, axes, n, jump, ell, steps)
        for b in BOTTOMS:
            cycles, iterations, failures, seconds, bottom = totals[b]
            s = f" s = {b[1]}" if b[1] else ""
            more = f", {worst:.1e} from the Fourier transform" if worst else ""
            print(
                f"  {name:28s} {b[0] + s:20s} {cycles:4d} V-cycles {iterations:6d} bottom iterations {failures} failed  {seconds:.3f} s, bottom {100 * bottom / seconds:.0f} %{more}"
            )
            rows.append(
                {
                    "case": name,
                    "bottom": b[0] + s,
                    "cycles": cycles,
                    "iterations": iterations,
                    "failures": failures,
                    "seconds": seconds,
                }
            )
    (out / f"figure{which}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("paper-002"))
    parser.add_argument("--largest", type=int, default=8, help="n of n^3 boxes; 16 takes 3 GB and a minute")
    parser.add_argument("--box", type=int, default=16)
    parser.add_argument("--figures", default="2,6,7,8", help="2 includes 3 to 5")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = given.figures.split(",")
    if {"2", "3", "4", "5"} & set(wanted):
        weak_scaling(given, given.out)
    if "6" in wanted:
        residuals(given, given.out)
    for figure in (7, 8):
        if str(figure) in wanted:
            scaling(given, given.out, figure, sys.modules[__name__])
            applications(given, given.out, figure)
