"""The bottom solver of the paper on s-step methods, on simulated ranks.

    python bench/papers/002/scale.py [--build build/release] [--ranks 512 4096] [--machines hopper fitted modern]
                                     [--whole 512:16] [--set key=value ...] [--json FILE]

Every time is SIMULATED: the library's solvers run, with all their arithmetic and a box of 4^3 cells per rank
(docs/theory/simulator.md). The paper: s = 4 with single products is 4.2 times as fast as BiCGStab with six reductions
at 4096 ranks, and the whole solve nearly 2.5 times. The machine "fitted" was fitted to that 4.2 and two more ratios (by
a simpler model), "hopper" to none of them. `--whole P:EDGE`: whole solves with truncated V-cycles and boxes of EDGE^3
cells per rank (the paper's have 64^3, whose upper levels cost more, so that a faster bottom gains less). Source:
Williams et al. 2014, doi 10.1109/IPDPS.2014.119.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile


def run(build: pathlib.Path, what: str, machine: str, words: list[str]) -> list[dict]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [build / "bench" / "bench_scale", what, f"machine={machine}", f"json={file.name}", *words]
        subprocess.run(command, check=True)
        return json.loads(pathlib.Path(file.name).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--ranks", type=int, nargs="*", default=[512, 4096])
    parser.add_argument("--machines", nargs="+", default=["hopper", "fitted", "modern"])
    parser.add_argument("--whole", nargs="*", default=[], metavar="RANKS:EDGE")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    tables = []
    for machine in arguments.machines:
        for ranks in arguments.ranks:
            found = run(arguments.build, "bottom", machine, [f"ranks={ranks}", *arguments.set])
            seconds = {row["name"]: row["seconds"] for row in found}
            six, two = (seconds.get(f"textbook bicgstab, {n} sums") for n in (6, 2))
            if six and two:
                best = min((s, n) for n, s in seconds.items() if n.startswith("ca-bicgstab"))
                print(
                    f"  {machine}, {ranks} ranks, simulated: {best[1]} {six / best[0]:.2f} times as fast as six sums"
                    f" (paper at 4096: 4.2), {two / best[0]:.2f} as two\n"
                )
            tables.append({"what": "bottom", "machine": machine, "ranks": ranks, "rows": found})
        for whole in arguments.whole:
            ranks, edge = whole.split(":")
            rows = run(arguments.build, "multigrid", machine, [f"ranks={ranks}", f"edge={edge}", *arguments.set])
            tables.append(
                {"what": "multigrid", "machine": machine, "ranks": int(ranks), "edge": int(edge), "rows": rows}
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
