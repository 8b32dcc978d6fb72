"""Time and bytes of an iteration of ca-cg against s, beside cg's.

    python bench/steps_of_ca_cg.py [--threads 1] [--rounds 3] [--systems P5 V5 P7 p5] [--json FILE] [--plot FILE.png]

Systems as in bench/floors.py; whole solves to the same tolerance, set-up and the check of b - A x included, interleaved;
least times. Bytes: by formula, with the blocks that the solve had: (2 A + 17 vectors) a block, A + 10 vectors an
iteration of cg.
"""

import time
from typing import Any

import numpy as np

import floors
import harness
import tacit
from tacit import _core

STEPS = (1, 2, 4, 6, 8, 12, 16)
NAMES = {
    "P5": "5 points, 3000 x 3000",
    "V5": "5 points, 3000 x 3000, log-normal",
    "P7": "7 points, 200 x 200 x 200",
    "p5": "5 points, 1024 x 1024",
    "v5": "5 points, 1024 x 1024, log-normal",
}


def measure(name: str, rounds: int) -> list[dict[str, Any]]:
    a = floors.system(name)
    A = tacit.csr(a)
    b = a @ np.random.default_rng(3).standard_normal(a.shape[0])
    vector = 8.0 * a.shape[0]
    stored = A._handle.cost()[1] - 2 * vector
    settings: dict[str, dict[str, Any]] = {"cg": {"method": "cg"}}
    settings |= {f"ca-cg {s}": {"method": "ca-cg", "step": s} for s in STEPS}
    least: dict[str, float] = {}
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for label, options in settings.items():
            begin = time.perf_counter()
            results[label] = tacit.solve(A, b, rtol=floors.TOLERANCE[name], precond="none", **options)
            seconds = time.perf_counter() - begin
            least[label] = min(seconds, least.get(label, seconds))
    rows = []
    for label, result in results.items():
        bytes_ = floors.moved(label, result, stored, vector)
        rows.append(
            {
                "system": name,
                "step": 0 if label == "cg" else int(label.split()[1]),
                "iterations": result.iterations,
                "reductions": result.counts["reductions"],
                "ms": 1e3 * least[label] / result.iterations,
                "MB": (bytes_ or 0) / 1e6,
            }
        )
        row = rows[-1]
        print(
            f"{name} {label:9s} {row['iterations']:5d} iterations, {row['reductions']:5d} reductions, {row['ms']:7.2f} ms "
            f"({row['ms'] / rows[0]['ms']:.2f} of cg), {row['MB']:7.1f} MB ({row['MB'] / rows[0]['MB']:.2f})"
        )
    return rows


def plot(rows: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    systems = list(dict.fromkeys(row["system"] for row in rows))
    most: list[float] = []
    figure, axes = plt.subplots(1, len(systems), figsize=(3.6 * len(systems), 3.4), sharey=True, layout="constrained")
    for axis, name in zip(np.atleast_1d(axes), systems, strict=True):
        own = [row for row in rows if row["system"] == name]
        cg, swept = own[0], own[1:]
        steps = [row["step"] for row in swept]
        most += [row[key] / cg[key] for row in swept for key in ("ms", "MB")]
        axis.plot(steps, [row["ms"] / cg["ms"] for row in swept], "o-", color="#1f5fa8", label="time")
        axis.plot(steps, [row["MB"] / cg["MB"] for row in swept], "s--", color="#c26a1a", label="bytes, by formula")
        axis.axhline(1, color="#444444", linewidth=1.2, linestyle=":", label="cg")
        axis.set_title(f"{NAMES.get(name, name)}\ncg: {cg['ms']:.1f} ms, {cg['MB']:.0f} MB", fontsize=9)
        axis.set_xlabel("s, iterations of a block")
        axis.set_xticks(steps)
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("an iteration of ca-cg over cg's")
    np.atleast_1d(axes)[0].set_ylim(bottom=0, top=1.05 * max(most))
    np.atleast_1d(axes)[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = harness.parser(__doc__, rounds=3, threads=1)
    parser.add_argument("--systems", nargs="+", choices=list(NAMES), default=["P5", "V5", "P7", "p5"])
    parser.add_argument("--plot", metavar="PNG", help="draws the figure")
    options = parser.parse_args()
    _core.set_threads(options.threads)
    rows = [row for name in options.systems for row in measure(name, options.rounds)]
    harness.write(options.json, "steps_of_ca_cg", threads=options.threads, rows=rows)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
