"""Shared by the Python benches: arguments, alternating runs, medians, running programs, and results as JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parser(
    doc: str | None, *, rounds: int | None = None, ranks: Sequence[int] = (), threads: Any = None, build: bool = False
) -> argparse.ArgumentParser:
    """A parser with --json and, if requested, --build, --rounds, --ranks, --mpiexec and --threads."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if build:
        made.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    if rounds is not None:
        made.add_argument("--rounds", type=int, default=rounds)
    if ranks:
        made.add_argument("--ranks", type=int, nargs="+", default=list(ranks))
        made.add_argument("--mpiexec", default=shutil.which("mpiexec.openmpi") or shutil.which("mpiexec"))
    if threads is not None:
        made.add_argument("--threads", type=int, nargs="+" if isinstance(threads, list) else None, default=threads)
    made.add_argument("--json", type=pathlib.Path)
    return made


def environment(threads: int | None = 1, **more: str) -> dict[str, str]:
    """The environment of programs: threads per rank (None: their default), this checkout's Python package, and permission
    for Open MPI to run as root and with more ranks than cores."""
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    count = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS") if threads is not None}
    return os.environ | count | allowed | {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PYTHONPATH": path} | more


def output(command: Iterable[Any], *, accepted: Sequence[int] = (0,), timeout: float | None = None, **more: Any) -> str:
    """The output of a program. If its exit code is not among `accepted`, this program ends with all of its output."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=more.pop("env", None) or environment(**more),
    )
    if done.returncode not in accepted:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def facts(command: Iterable[Any], **more: Any) -> Any:
    """The JSON that a program prints: all of its output, or the last line that is an object."""
    words = list(command)
    text = output(words, **more)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        lines = [line for line in text.splitlines() if line.startswith("{")]
        if not lines:
            raise SystemExit(f"{' '.join(map(str, words))} printed no JSON:\n{text}") from None
        return json.loads(lines[-1])


def turns(rounds: int, candidates: Mapping[Any, Callable[[], Any]]) -> dict[Any, list[Any]]:
    """The results of each candidate, all of them run once per round, so that other load affects all alike."""
    found: dict[Any, list[Any]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            found[name].append(run())
    return found


def peak() -> float:
    """The peak memory of this process in MiB (ru_maxrss would be its parent's, where that was larger)."""
    return _status("VmHWM")


def growth(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and the most memory in MiB that this process held meanwhile beyond what it held before."""
    before = _status("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    result = work()
    return result, peak() - before


def _status(key: str) -> float:
    for line in _lines("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return float("nan")


def joined(runs: Iterable[Mapping[str, Any]], key: str = "seconds", skip: int = 0) -> list[float]:
    """The lists that runs have under `key`, concatenated, each without its first `skip` elements."""
    return [value for run in runs for value in run[key][skip:]]


def median_ms(seconds: Sequence[float], per: int = 1) -> float:
    return 1e3 * statistics.median(seconds) / max(1, per)


def surroundings() -> dict[str, Any]:
    """The machine, the commit, the date and the command line."""
    git = shutil.which("git")  # which a bare system lacks
    commit = git and subprocess.run([git, "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "machine": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "commit": commit.stdout.strip() if commit else "",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        # Where files lie on this machine says nothing to others.
        "command": [pathlib.Path(w).name if os.path.isabs(w) else w for w in sys.argv],
    }


def _lines(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def write(path: pathlib.Path | None, name: str, **content: Any) -> None:
    """Writes the results of a bench; nothing if `path` is None."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(compact({"schema": f"tacit.bench.{name}", **surroundings(), **content}) + "\n")


def compact(value: Any, indent: int = 0) -> str:
    """JSON with an element of a list on each line; objects that are too long for one are broken."""
    line = json.dumps(value)
    inner = value.values() if isinstance(value, dict) else value
    if indent + len(line) <= 120 or not any(isinstance(one, dict | list) for one in inner):
        return line
    if isinstance(value, dict):
        parts, ends = [f"{json.dumps(str(key))}: {compact(one, indent + 1)}" for key, one in value.items()], "{}"
    else:
        parts, ends = [json.dumps(one) for one in value], "[]"
    between = "\n" + " " * (indent + 1)
    return ends[0] + between + f",{between}".join(parts) + between[:-1] + ends[1]
