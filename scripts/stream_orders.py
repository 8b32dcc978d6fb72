"""Runs the contracts of device memory under many orders of streams and threads (tests/cuda_on_host).

    scripts/stream_orders.py build/stand-in/tests/device/test_device build/stand-in/orders --orders 50

A run is a process with one seed (CUDA_ON_HOST_SEED) and one number of devices. Each leaves what GoogleTest reports, and
what it printed, in the folder, with a ctest.xml as scripts/count_tests.py reads it. A run that fails is printed with
the command that repeats it. At the end there is a table of the tests of each contract, added up over the seeds. The
exit code is 1 where one failed.
"""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from count_tests import Count, count_cases, count_suites

# Tests that go through orders themselves, and those of counts and of modelled times, which do not depend on the order.
LEFT_OUT = ("Orders.*", "HMatrixOrders.*", "Counts.*", "Traffic.*", "Clocks.*", "Exhausted.*")


@dataclass(frozen=True)
class Run:
    seed: int
    devices: int

    @property
    def name(self) -> str:
        return f"seed-{self.seed}-devices-{self.devices}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CUDA_ON_HOST_SEED": str(self.seed),
            "CUDA_ON_HOST_DEVICES": str(self.devices),
            "TACIT_KEEP_DEVICE_MEMORY": "0",
            "TACIT_TEST_ORDERS": "1",
            "OMP_NUM_THREADS": "1",
        }


@dataclass
class Ended:
    run: Run
    code: int
    count: Count
    last: str  # what the process printed at its end


def carry_out(run: Run, program: Path, folder: Path, tests: str, limit: float) -> Ended:
    report, printed = folder / f"{run.name}.xml", folder / f"{run.name}.txt"
    command = [str(program), f"--gtest_filter={tests}", f"--gtest_output=xml:{report}"]
    with printed.open("w") as output:
        try:
            code = subprocess.run(
                command,
                env={**os.environ, **run.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
            output.write(f"did not end within {limit:.0f} s\n")
    try:
        count = count_cases(report)
    except (OSError, xml.ParseError):  # it ended before its end
        count = Count()
    if code != 0:
        count.failed = max(count.failed, 1)
    lines = printed.read_text(errors="replace").strip().splitlines()
    if code != 0 and not count.names:  # a fault, or it hangs: in the test that it began last
        count.names = [line.split("]", 1)[1].strip() for line in lines if line.startswith("[ RUN ")][-1:]
    return Ended(run, code, count, lines[-1] if lines else "")


def summary(folder: Path, ended: Sequence[Ended]) -> None:
    """The entries as ctest writes them."""
    root = xml.Element("testsuite")
    for one in sorted(ended, key=lambda e: (e.run.devices, e.run.seed)):
        xml.SubElement(root, "testcase", name=one.run.name, status="run" if one.code == 0 else "fail")
    xml.ElementTree(root).write(folder / "ctest.xml")


def table(folder: Path, runs: Sequence[Run], devices: Sequence[int]) -> list[str]:
    """Lines: passed, failed and skipped tests of each suite and type, by the number of devices."""
    counts: dict[tuple[str, str], dict[int, Count]] = {}
    for run in runs:
        try:
            suites = count_suites(folder / f"{run.name}.xml")
        except (OSError, xml.ParseError):
            continue  # it has failed, and is named above
        for key, count in suites.items():
            of = counts.setdefault(key, {d: Count() for d in devices})
            of[run.devices] += count
    heads = [f"{d} device{'' if d == 1 else 's'}" for d in devices]
    rows = [["contract", "scalar, memory", *(f"{h}: passed, failed, skipped" for h in heads)]]
    for (suite, kind), of in sorted(counts.items()):
        named = kind.replace("tacit::test::In<", "").replace("tacit::", "").replace("std::", "").removesuffix(">")
        rows.append([suite, named.strip(), *(f"{of[d].passed} {of[d].failed} {of[d].skipped}" for d in devices)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="test_device of a build of the preset cuda-host")
    parser.add_argument("folder", type=Path, help="for the reports; what other runs left there is removed")
    parser.add_argument("--orders", type=int, default=50, help="number of seeds (50)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1); 0 is the order without a choice")
    parser.add_argument("--devices", default="1,3", help="numbers of devices (1,3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (processors)")
    parser.add_argument("--tests", default="*", help="GoogleTest's names, as Solver*:Preconditioners* (all)")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a run counts as failed (900)")
    options = parser.parse_args(arguments)
    try:
        devices = [int(d) for d in options.devices.split(",")]
    except ValueError:
        parser.error(f"--devices takes numbers as in 1,3, and was given {options.devices!r}")
    if options.orders < 1 or options.first < 0 or min(devices) < 1 or options.jobs < 1:
        parser.error("--orders, --devices and --jobs are at least 1, --first is at least 0")
    if not options.program.exists():
        parser.error(f"no program {options.program}: build the preset cuda-host (./test --all --stand-in)")

    program = options.program.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    for old in (*options.folder.glob("seed-*"), *options.folder.glob("ctest.xml")):
        old.unlink()
    # GoogleTest takes one "-", after which all names are left out.
    tests = options.tests + (":" if "-" in options.tests else "-") + ":".join(LEFT_OUT)
    runs = [Run(seed, d) for seed in range(options.first, options.first + options.orders) for d in devices]
    start = time.monotonic()
    ended: list[Ended] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        begun = [pool.submit(carry_out, run, program, options.folder, tests, options.limit) for run in runs]
        for done in as_completed(begun):
            one = done.result()
            ended.append(one)
            if one.code != 0:
                setting = " ".join(f"{name}={value}" for name, value in one.run.environment.items())
                names = ":".join(one.count.names) or tests
                print(f"failed: {one.run.name} (exit code {one.code}): {one.last}")
                print(f"  again: {setting} {program} --gtest_filter='{names}'", flush=True)
            elif len(ended) % 10 == 0:
                print(f"{len(ended)} of {len(runs)} runs, {time.monotonic() - start:.0f} s", flush=True)
    summary(options.folder, ended)
    print(*table(options.folder, runs, devices), sep="\n")
    passed, failed = sum(e.count.passed for e in ended), sum(e.count.failed for e in ended)
    most = max(e.count.passed + e.count.failed for e in ended)
    last = options.first + options.orders - 1
    print(
        f"{most} tests, seeds {options.first} to {last}, devices {options.devices}: {len(runs)} runs, "
        f"{passed} passed, {failed} failed, {time.monotonic() - start:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
