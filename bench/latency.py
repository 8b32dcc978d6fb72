"""How much of the latency of reductions each method hides, between two MPI ranks joined by a link with added latency.

    python bench/latency.py [--delay 0.5] [--program build/release/bench/bench_latency] [--mpi openmpi|mpich] [--n 64]
                            [--restart 50] [--iterations 200] [--work 700] [--halo] [--rounds 3] [--only NAME ...]
                            [--rig FOLDER] [--json FILE]

scripts/with_delay.sh makes two network namespaces, joins them by a link (bench/rig/tundelay.c) and runs a program on
both. Needs root and the TUN device; without them the script says so and ends with 77. --delay is in milliseconds, one
way; below 0.1 the link cannot keep up. --rig FOLDER: where with_delay.sh and tundelay.c are.

Every method does a fixed number of iterations of the same problem with the link and, to time its own work, without it.
A product and a reduction that is waited for at once are timed in both cases. The ranks' parts of the matrix are not
coupled, so that only reductions communicate. (--halo couples them: each product then waits for its neighbour, too, and
"hidden" refers to reductions and halos together.) Each product takes --work microseconds longer (asleep): the local
work of a larger problem. The time that the link adds to an iteration is the latency of reductions that is not hidden:

    hidden = 1 - (iteration with link - without) / (reductions per iteration * (reduction with link - without))
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import harness

METHODS = {
    "gmres, classical": ["method=gmres", "orthogonalisation=cgs"],
    "gmres, one reduction": ["method=gmres"],
    "ca-gmres(10)": ["method=ca-gmres", "step=10"],
    "pipelined-gmres(1)": ["method=pipelined-gmres", "depth=1"],
    "pipelined-gmres(2)": ["method=pipelined-gmres", "depth=2"],
    "pipelined-gmres(5)": ["method=pipelined-gmres", "depth=5"],
    "pipelined-ca-gmres(2, 5)": ["method=pipelined-ca-gmres", "depth=2", "block=5"],
}


def skip(why):
    print(f"latency: {why}; skipped")
    sys.exit(77)


def run(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    if done.returncode == 77:
        skip((done.stdout + done.stderr).strip().splitlines()[-1])
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        said = [line for line in done.stderr.splitlines() if line.startswith("bench_latency:")] or [done.stderr[-400:]]
        print(f"{' '.join(command[-8:])} ended with {done.returncode}: {said[0]}")
        return None
    return json.loads(lines[-1])


def measured(name, words, common, launches, environment, options):
    """The row of a method, printed; none where a run has failed."""
    runs_of = {
        where: lambda launch=launch: run([*launch, *common, *words], environment) for where, launch in launches.items()
    }
    found = {}
    for where, runs in harness.turns(options.rounds, runs_of).items():
        if runs := [r for r in runs if r]:
            found[where] = {
                key: statistics.median(r[key] for r in runs)
                for key in ("iteration_us", "product_us", "sum_us", "reductions", "iterations")
            }
    if len(found) < 2:
        return []
    on, off = found["wire"], found["free"]
    sums = on["reductions"] / on["iterations"]
    exposed = on["iteration_us"] - off["iteration_us"]
    hidden = 1 - exposed / (sums * (on["sum_us"] - off["sum_us"]))
    row = {"method": name, "delay_ms": options.delay, "hidden": hidden, "sums": sums, **found}
    print(
        f"{name:26} {on['iteration_us']:12.0f} {off['iteration_us']:9.0f} {on['product_us']:10.0f} {on['sum_us']:7.0f} {sums:18.2f} {100 * hidden:6.0f} %",
        flush=True,
    )
    return [row]


def main():
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--rig", type=pathlib.Path)
    parser.add_argument("--delay", type=float, default=0.5)
    parser.add_argument("--program", default="build/release/bench/bench_latency")
    parser.add_argument(
        "--mpi", choices=["openmpi", "mpich"], default="openmpi", help="the MPI that the program was built with"
    )
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--restart", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--work", type=int, default=700, help="additional microseconds of each product")
    parser.add_argument("--halo", action="store_true", help="couple the ranks' parts of the matrix")
    parser.add_argument("--only", nargs="+", help="methods whose names contain one of these")
    options = parser.parse_args()
    if os.geteuid() != 0 or not pathlib.Path("/dev/net/tun").exists() or not shutil.which("ip"):
        skip("network namespaces need root, /dev/net/tun and the command ip")
    root = pathlib.Path(__file__).resolve().parent.parent
    script = (options.rig or root / "scripts") / "with_delay.sh"
    line = (options.rig or root / "bench/rig") / "tundelay.c"
    if not script.exists():
        skip(f"there is no {script}")
    program = str(pathlib.Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        wire = f"{folder}/tundelay"
        subprocess.run(["cc", "-O2", str(line), "-o", wire, "-lm"], check=True)
        environment = harness.environment(TUNDELAY=wire, MPI=options.mpi)
        slow = ["sh", str(script), str(round(1000 * options.delay))]
        fast = (
            ["mpirun.openmpi", "--bind-to", "core", "-np", "2"]
            if options.mpi == "openmpi"
            else ["mpirun.mpich", "-np", "2"]
        )
        common = [
            program,
            f"n={options.n}",
            f"iterations={options.iterations}",
            f"restart={options.restart}",
            f"work={options.work}",
            f"halo={'on' if options.halo else 'off'}",
        ]
        print(
            f"{options.delay} ms one way, {options.n} x {options.n}, restart {options.restart}, 2 ranks, products of {options.work} us or more; microseconds; medians of {options.rounds}"
        )
        print(
            f"{'method':26} {'on the wire':>12} {'without':>9} {'a product':>10} {'a sum':>7} {'sums an iteration':>18} {'hidden':>7}"
        )
        results = []
        for name, words in METHODS.items():
            if not options.only or any(part in name for part in options.only):
                results += measured(name, words, common, {"wire": slow, "free": fast}, environment, options)
    harness.write(options.json, "latency/1", rounds=options.rounds, rows=results)


if __name__ == "__main__":
    main()
