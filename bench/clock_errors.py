"""How far the simulator's clock is from others: SimGrid's SMPI, where the same library runs on SimGrid's network, or two
and four real ranks of this machine joined by wires with added latency.

    python bench/clock_errors.py smpi [--ranks 8 16 64] [--iterations 60] [--machine hopper] [--set gap=3e-9 ...]
                                      [--problems strips boxes] [--only METHOD ...] [--json FILE]

Needs Debian's packages simgrid and libsimgrid-dev, and the target bench_smpi. The machine is flat and without noise,
and both sides have the same latency, overhead, gap and times of kernels. Every setting of SMPI that changes its times is
given; by default it stands for an old Ethernet cluster and measures this computer.

    python bench/clock_errors.py here [--ranks 2] [--n 64 256 512] [--json FILE]
    python bench/clock_errors.py wire [--ranks 2 4] [--delays 200 500 1000] [--n 64 256] [--repeats 9] [--json FILE]

Real ranks, as root, before everything else on the machine: on this machine as it is, and joined by wires of so many
microseconds one way (scripts/with_delay.sh). Each run first measures the
machine's parameters (comm::measure_machine), which the simulator then takes; none comes from a solve. A time
is that of an iteration, from solves of 40 and 80 of them, the lower quartiles of --repeats:
what else runs on the machine only adds to it. The clock has no interruptions.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import sys
import tempfile
from typing import Any, NoReturn

import harness

METHODS = [
    "cg", "pipelined-cg", "ca-cg", "bicgstab", "pipelined-bicgstab", "ca-bicgstab", "gmres", "pipelined-gmres", "ca-gmres",
    "pipelined-ca-gmres", "richardson", "chebyshev",
]  # fmt: skip
HOW = ["restart=20", "step=4", "block=5"]
#: Unknowns: n x n in strips of rows, two neighbours each; or a box of n^3 on each rank, six neighbours.
PROBLEMS = {
    "strips": ["problem=2d5", "n=128"],
    "boxes": ["problem=boxes", "n=6"],
    "large": ["problem=2d5", "n=512"],
}


def skip(why: str) -> NoReturn:
    print(f"clock_errors: {why}; skipped")
    sys.exit(77)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def machine_words(options: Any) -> dict[str, Any]:
    """The parameters of a run: those of a machine of Tacit, without noise and with --set."""
    words = [f"machine={options.machine}", "noise=0", *options.set, "measure=1"]
    found: dict[str, Any] = harness.facts([options.build / "bench/bench_clock", *words])["machine"]
    return found


class Smpi:
    """A flat machine of SMPI with the latency, overhead and gap of Tacit's model."""

    def __init__(self, folder: pathlib.Path, ranks: int, machine: dict[str, Any]) -> None:
        latency, gap = float(machine["latency"]), float(machine["gap"])
        overhead = f"0:{machine['overhead']}:0"
        self.ranks = ranks
        self.platform = folder / f"flat-{ranks}.xml"
        self.hosts = folder / f"hosts-{ranks}"
        # A link up and one down for each host, and half of the latency on each.
        self.platform.write_text(
            "<?xml version='1.0'?>\n"
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
            '<platform version="4.1">\n'
            f'  <cluster id="c" prefix="h" suffix="" radical="0-{ranks - 1}" speed="1Gf" sharing_policy="SPLITDUPLEX"\n'
            f'    bw="{1 / gap if gap else 1e18:.17g}Bps" lat="{latency / 2:.17g}s"/>\n'
            "</platform>\n"
        )
        self.hosts.write_text("".join(f"h{r}\n" for r in range(ranks)))
        eager = 0 if machine["delivery"] == "meeting" else 10**9
        self.settings = [
            "smpi/simulate-computation:no", "smpi/host-speed:1Gf", "smpi/cpu-threshold:1e-10",
            f"smpi/os:{overhead}", f"smpi/ois:{overhead}", f"smpi/or:{overhead}",
            "smpi/bw-factor:0:1", "smpi/lat-factor:0:1", "network/TCP-gamma:1e12", "network/crosstraffic:0",
            f"smpi/async-small-thresh:{eager}", "smpi/send-is-detached-thresh:1000000000",
            "smpi/test:0", "smpi/iprobe:0", "smpi/wtime:0", "smpi/grow-injected-times:no",
            "smpi/coll-selector:ompi", "surf/precision:1e-13",
        ]  # fmt: skip

    def run(self, module: pathlib.Path, words: list[str]) -> list[dict[str, Any]]:
        quiet = ["--log=smpi_config.thresh:warning", "--log=xbt_cfg.thresh:warning", "--log=root.thresh:warning"]
        command = ["smpirun", "-np", self.ranks, "-platform", self.platform, "-hostfile", self.hosts]
        command += [f"--cfg={setting}" for setting in self.settings] + quiet + [module]
        return lines(harness.output([*command, *words]))


def compared(problem: str, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """The row of a method, printed. Both have done the same work, to the last bit."""
    same = ("method", "messages", "bytes", "iterations", "residual", "reductions")
    if any(theirs[key] != ours[key] for key in same):
        raise SystemExit(f"different solves: {theirs}\n  {ours}")
    error = ours["seconds"] / theirs["seconds"] - 1
    print(
        f"{problem:8} {ours['method']:20} {ours['ranks']:5} {1e3 * theirs['seconds']:10.4f} "
        f"{1e3 * ours['seconds']:10.4f} {100 * error:7.2f} % {ours['messages']:9}",
        flush=True,
    )
    return {"problem": problem, "error": error, "smpi": theirs, "tacit": ours}


def compared_with_smpi(options: Any) -> list[dict[str, Any]]:
    module = options.build / "bench/libbench_smpi.so"
    if not shutil.which("smpirun") or not module.exists():
        skip("needs smpirun and the target bench_smpi (Debian: simgrid, libsimgrid-dev)")
    machine = machine_words(options)
    methods = [m for m in METHODS if not options.only or m in options.only]
    print("SIMULATED by both: " + ", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"{'':8} {'method':20} {'ranks':>5} {'SMPI ms':>10} {'Tacit ms':>10} {'error':>8} {'messages':>9}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for problem in options.problems:
            for ranks in options.ranks:
                if problem == "boxes" and round(ranks ** (1 / 3)) ** 3 != ranks:
                    continue
                smpi = Smpi(pathlib.Path(folder), ranks, machine)
                words = [*PROBLEMS[problem], *HOW, f"methods={','.join(methods)}", f"iterations={options.iterations}"]
                words += [f"{key}={value}" for key, value in machine.items()]
                ours = lines(harness.output([options.build / "bench/bench_clock", f"ranks={ranks}", *words]))
                for mine, theirs in zip(ours, smpi.run(module, words), strict=True):
                    rows.append(compared(problem, mine, theirs))
                harness.write(options.json, "clock_errors_smpi/1", machine=machine, rows=rows)
    worst = max(rows, key=lambda row: abs(row["error"]))
    mean = sum(abs(row["error"]) for row in rows) / len(rows)
    print(f"largest error {100 * worst['error']:.2f} % ({worst['tacit']['method']}), mean {100 * mean:.2f} %")
    return rows


FEW = 40  # iterations of the shorter solve; the longer one has twice as many


def an_iteration(runs: list[dict[str, Any]]) -> float:
    """Seconds of an iteration, from the lower quartiles of solves of two numbers of them."""

    def quartile(iterations: int) -> float:
        seconds = sorted(run["seconds"] for run in runs if run["iterations"] == iterations)
        return float(seconds[len(seconds) // 4])

    return (quartile(2 * FEW) - quartile(FEW)) / FEW


def on_ranks(options: Any, ranks: int, delay: int, words: list[str]) -> list[dict[str, Any]]:
    """What real ranks print: on wires, or where the delay is 0 on this machine as it is."""
    command = ["sh", harness.ROOT / "scripts/with_delay.sh", delay]
    if not delay:
        command = ["mpirun.openmpi", "--bind-to", "core", "-np", ranks]
    command = ["chrt", "-r", "10", *command, options.build / "bench/bench_clock", *words]
    text = harness.output(command, accepted=(0, 77), RANKS=str(ranks))
    return lines(text) or skip("needs root, /dev/net/tun and the command ip")


def compared_with_ranks(options: Any) -> list[dict[str, Any]]:
    clock = options.build / "bench/bench_clock"
    rows = []
    for ranks in options.ranks:
        for delay in options.delays:
            for n in options.n:
                rows += case_on_ranks(options, clock, ranks, delay, n)
                harness.write(options.json, f"clock_errors_{options.against}/1", rows=rows)
    worst = max(rows, key=lambda row: abs(row["error"]))
    mean = statistics.mean(abs(row["error"]) for row in rows)
    print(f"largest error {100 * worst['error']:.1f} % ({worst['method']}), mean {100 * mean:.1f} %")
    return rows


def case_on_ranks(options: Any, clock: pathlib.Path, ranks: int, delay: int, n: int) -> list[dict[str, Any]]:
    """The methods on wires of one delay (0: none). Printed: the measured time of an iteration and the clock's, in both modes of
    progress; and how many pairs of methods, whose times differ by a tenth, the clock has in their order."""
    methods = [m for m in METHODS if not options.only or m in options.only]
    words = ["problem=2d5", f"n={n}", *HOW, f"iterations={FEW},{2 * FEW}"]
    words += [f"methods={','.join(methods)}", f"before={FEW}"]
    found = on_ranks(options, ranks, delay, [*words, "measure=1", f"repeats={options.repeats}"])
    machine = found[0]["machine"]
    where = f"{delay} us one way" if delay else "this machine"
    print(f"{ranks} ranks, {where}, {n} x {n}: L {1e6 * machine['latency']:.0f} us, o "
          f"{1e6 * machine['overhead']:.1f} us, {1e-9 * machine['bandwidth']:.1f} GB/s")  # fmt: skip
    print(f"  {'method':20} {'measured us':>12} {'polled':>9} {'error':>8} {'ideal':>9}")
    machine |= {"noise_interval": 0, "noise_duration": 0}
    words += [f"ranks={ranks}", *(f"{key}={value}" for key, value in machine.items())]
    clocks = {how: lines(harness.output([clock, *words, f"progress={how}"])) for how in ("poll", "ideal")}
    rows = []
    for method in methods:
        runs = [run for run in found[1:] if run["method"] == method]
        measured = an_iteration(runs)
        poll, ideal = (an_iteration([r for r in clocks[how] if r["method"] == method]) for how in ("poll", "ideal"))
        row = {"method": method, "ranks": ranks, "delay_us": delay, "n": n, "measured": measured, "poll": poll,
               "ideal": ideal, "error": poll / measured - 1, "runs": [r["seconds"] for r in runs]}  # fmt: skip
        rows.append(row)
        print(f"  {method:20} {1e6 * measured:12.0f} {1e6 * poll:9.0f} {100 * row['error']:6.1f} % {1e6 * ideal:9.0f}")
    pairs = [(a, b) for a in rows for b in rows if a["measured"] > 1.1 * b["measured"]]
    print(f"  {sum(a['poll'] > b['poll'] for a, b in pairs)} of {len(pairs)} pairs in order", flush=True)
    return [row | {"machine": machine} for row in rows]


def main() -> None:
    parser = harness.parser(__doc__, build=True)
    parser.add_argument("against", choices=["smpi", "wire", "here"])
    parser.add_argument("--ranks", type=int, nargs="+")
    parser.add_argument("--delays", type=int, nargs="+", default=[200, 500, 1000], metavar="US")
    parser.add_argument("--n", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--machine", default="hopper")
    parser.add_argument("--set", nargs="+", default=[], metavar="PARAMETER=VALUE")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--problems", nargs="+", default=["strips", "boxes"], choices=list(PROBLEMS))
    parser.add_argument("--only", nargs="+", default=[])
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.ranks = options.ranks or {"smpi": [8, 16, 64], "wire": [2, 4], "here": [2]}[options.against]
    options.n = options.n or ([64, 256] if options.against == "wire" else [64, 256, 512])
    if options.against == "here":
        options.delays = [0]
    (compared_with_smpi if options.against == "smpi" else compared_with_ranks)(options)


if __name__ == "__main__":
    main()
