"""Figures 10 to 12 of the paper on pipelined and s-step GMRES, on simulated ranks.

    python bench/papers/001/scale.py [--build build/release] [--ranks 60 120 240] [--n 1024] [--cycles 20]
                                     [--set key=value ...] [--json FILE]

Every time is SIMULATED: the library's solvers run, with all their arithmetic, on that many simulated ranks
(docs/theory/simulator.md) of the machine "tsubame", whose latency and overhead are those of the all-reduce that the
paper measured with 240 processes (its Fig. 7); nothing is fitted to a solver. `--set` passes keys on to bench_scale
(progress=poll, L=7, GBps=8 ...). Speed-ups are relative to the paper's GMRES (classical Gram-Schmidt, two reductions
per vector), and in the column "over 1 sum" to our best classical one. Source: Yamazaki, Hoemmen, Luszczek, Dongarra
2017, doi 10.1109/IPDPSW.2017.65.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

# Seconds of 20 cycles of GMRES(30), 2D Laplace 1024^2, in Fig. 10 (non-blocking reductions).
FIGURE_10 = {
    120: {"gmres": 0.40, "pipelined-gmres 2": 0.35, "pipelined-gmres 5": 0.34},
    180: {"gmres": 0.37, "pipelined-gmres 2": 0.28, "pipelined-gmres 5": 0.25},
    240: {"gmres": 0.34, "pipelined-gmres 2": 0.21, "pipelined-gmres 5": 0.21},
    300: {"gmres": 0.35, "pipelined-gmres 2": 0.21, "pipelined-gmres 5": 0.20},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--ranks", type=int, nargs="+", default=[60, 120, 240])
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    tables = {}
    for ranks in arguments.ranks:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [arguments.build / "bench" / "bench_scale", "gmres", f"ranks={ranks}", f"n={arguments.n}"]
            command += [f"cycles={arguments.cycles}", f"json={file.name}", *arguments.set]
            subprocess.run(command, check=True)
            found = {row["name"]: row for row in json.loads(pathlib.Path(file.name).read_text())}
        tables[ranks] = found
        cgs, one = found["gmres (cgs, 2 sums)"]["seconds"], found["gmres (1 sum)"]["seconds"]
        print(f"\n{ranks} ranks, simulated    over the paper's gmres   over 1 sum   paper (Fig. 10)")
        paper = FIGURE_10.get(ranks, {})
        for name, row in found.items():
            there = paper.get(name)
            ratio = f"{paper['gmres'] / there:.2f}" if there else ""
            print(f"  {name:26s} {cgs / row['seconds']:10.2f} {one / row['seconds']:18.2f} {ratio:>14s}")
        fastest = {
            kind: min((r["seconds"], n) for n, r in found.items() if n.startswith(kind))
            for kind in ("ca-gmres", "pipelined-gmres", "pipelined-ca-gmres")
        }
        both = fastest["pipelined-ca-gmres"][0]
        print(
            f"  best pipelined s-step over best s-step {fastest['ca-gmres'][0] / both:.2f} (paper up to 1.22 over s = 5,"
            f" 1.09 over s = 10), over best pipelined {fastest['pipelined-gmres'][0] / both:.2f} (paper up to 1.67)\n"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
