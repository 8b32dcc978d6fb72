"""The figure of the guide's page on choosing: what each setting of Tacit solves of the public matrices in bench/results, and how fast.

    python bench/choosing.py [--json bench/results/real_systems.json] [--plot docs/images/choosing.png]

Reads what bench/real_systems.py has measured; nothing is solved here. Prints the numbers of the figure.
"""

import argparse
import json
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 1e-3  # seconds: below, set-up in Python decides


def rows(systems):
    """(setting, part of the systems that it solves, median of its time over the fastest setting of Tacit), best first."""
    solved, ratios = {}, {}
    for system in systems:
        times = system["solved"]["tacit"]
        fastest = min((time for name, time in times.items() if name != "auto"), default=0)
        for name, time in times.items():
            solved[name] = solved.get(name, 0) + 1
            if fastest >= LEAST:
                ratios.setdefault(name, []).append(time / fastest)
    found = [
        (name, count / len(systems), statistics.median(ratios.get(name, [float("nan")])))
        for name, count in solved.items()
    ]
    return sorted(found, key=lambda row: (-row[1], row[2]))


def chosen(found):
    """The best setting of each method, and the best one of each preconditioner."""
    shown, seen = [], set()
    for name, part, ratio in found:
        method, _, precond = name.partition(" ")
        if not {method, precond} <= seen:
            shown.append((name, part, ratio))
        seen |= {method, precond}
    return shown


def draw(panels, file):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(panels), figsize=(10, 4.4), layout="constrained")
    for ax, (title, found) in zip(axes, panels.items(), strict=True):
        shown = found[::-1]
        colours = ["#0b6e63" if name == "auto" else "#8fb8b2" for name, _, _ in shown]
        ax.barh([name for name, _, _ in shown], [100 * part for _, part, _ in shown], color=colours)
        for index, (_, part, ratio) in enumerate(shown):
            colour = "white" if shown[index][0] == "auto" else "black"
            ax.text(100 * part - 1, index, f"{ratio:.1f} x", ha="right", va="center", fontsize=8, color=colour)
        ax.set(title=title, xlabel="% of them solved to 1e-8", xlim=(0, 100))
        ax.tick_params(axis="y", labelsize=8)
    fig.savefig(file, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", default=ROOT / "bench/results/real_systems.json")
    parser.add_argument("--plot", default=ROOT / "docs/images/choosing.png")
    given = parser.parse_args()
    measured = json.loads(Path(given.json).read_text())
    panels = {}
    for title, hermitian in (("Hermitian", True), ("not Hermitian", False)):
        systems = [system for system in measured["systems"] if system["hermitian"] == hermitian]
        panels[f"{title}: {len(systems)} systems"] = chosen(rows(systems))
    for title, found in panels.items():
        print(f"{title} ({measured['machine']}, {measured['date']})")
        for name, part, ratio in found:
            print(f"  {name:24} solves {100 * part:3.0f} %, {ratio:6.2f} x the fastest")
    draw(panels, given.plot)


if __name__ == "__main__":
    main()
