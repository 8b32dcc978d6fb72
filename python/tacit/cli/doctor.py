"""`tacit doctor`: tests whether MPI, threads and GPU work here, and how to repair what does not."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_MASK = os.sched_getaffinity(0)  # before the compiled part is loaded, whose OpenMP may bind the first thread

from tacit import launch, report  # noqa: E402
from tacit._support import BUILD_WITH_CUDA  # noqa: E402
from tacit.cli import pinning  # noqa: E402
from tacit.cli.arguments import WrongUse  # noqa: E402
from tacit.cli.ranks import communicator, own_command  # noqa: E402

SCHEMA = "tacit.doctor/1"

GOOD, NOTE, BAD = "ok", "note", "problem"
MARKS = {GOOD: ("ok", "green"), NOTE: ("--", "cyan"), BAD: ("!!", "bold red")}


@dataclass(frozen=True)
class Finding:
    """The result of one examination. With a `note` Tacit works; with a `problem` some part of it does not."""

    name: str
    state: str
    value: str
    cure: str = ""


def main(json: str | None = None, ranks: int | None = None, threads: int | None = None) -> int:
    """Examines everything, prints each finding at once, and returns 0, or 5 if there is a problem. Of several ranks the
    first prints all findings, and the others their problems.
    """
    here = launch.launched()
    rank, size = here or (0, 1)
    if here and ranks not in (None, size):
        raise WrongUse(f"--ranks {ranks}, but mpiexec started {size}: leave --ranks out, or mpiexec")
    if here and threads is not None:
        raise WrongUse(f"--threads {threads}, but mpiexec started the ranks: OMP_NUM_THREADS is what they have")
    out = report.console(stderr=json == "-")
    findings = []
    for finding in examine(ranks or 2, threads):
        findings.append(finding)
        if rank > 0 and (finding.state != BAD or finding.name in _COMMON):
            continue
        mark, colour = MARKS[finding.state]
        of = f"rank {rank}: " if rank > 0 else ""
        out.print(f"[{colour}]{mark}[/]  [bold]{finding.name:<13}[/]", end=" ", markup=True)
        out.print(of + finding.value)
        if finding.cure:
            out.print(f"    {'':<13} [yellow]cure:[/]", end=" ", markup=True)
            out.print(finding.cure)
    problems = sum(finding.state == BAD for finding in findings if rank == 0 or finding.name not in _COMMON)
    if size > 1 and not any(finding.state == BAD and finding.name == "tacit" for finding in findings):
        problems = int(communicator(None).all_sum(problems))
    if rank == 0:
        out.print("everything works" if problems == 0 else f"{report.plural(problems, 'problem')} found")
    if json and rank == 0:
        facts = {"schema": SCHEMA, "version": report.version(), "healthy": problems == 0, "machine": report.machine()}
        report.write_json(facts | {"findings": [asdict(finding) for finding in findings]}, json)
    return 0 if problems == 0 else 5


def examine(ranks: int = 2, threads: int | None = None) -> Iterator[Finding]:
    """Yields findings. An examination that fails does not prevent the others."""
    yield Finding("python", GOOD, f"{sys.version.split()[0]}, {sys.executable}")
    module = _module()
    yield module
    if module.state == BAD:
        return
    for name, look in (
        ("packages", _packages), ("processor", _processor), ("direct", _direct), ("threads", _threads),
        ("mpi", lambda: _mpi(ranks, threads)), ("mpi4py", _mpi4py), ("gpu", _gpu),
    ):  # fmt: skip
        try:
            yield from look()
        except Exception as error:
            yield Finding(name, BAD, f"could not be examined: {type(error).__name__}: {error}", "please report this")


def _module() -> Finding:
    try:
        from tacit import _core
    except ImportError as error:
        cure = "build it: ./run in the source folder, or pip install . with a C++ compiler, CMake and an MPI installed"
        return Finding("tacit", BAD, f"the compiled module cannot be imported: {error}", cure)
    home = os.path.dirname(launch.__file__)
    level = Path(_core.__file__ or "").stem.removeprefix("_core").partition(".")[0].removeprefix("_")
    chosen = f", for {level} (TACIT_LEVEL chooses another)" if level else ""
    return Finding("tacit", GOOD, f"{_core.version()}, {home}{chosen}")


def _packages() -> Iterator[Finding]:
    for name, least, needed in (("numpy", (1, 26), True), ("scipy", (1, 11), True), ("matplotlib", (3, 8), False)):
        if importlib.util.find_spec(name) is None:
            state, what = (BAD, "missing") if needed else (NOTE, "missing: no plots")
            yield Finding(name, state, what, f"pip install {name}")
            continue
        from importlib import metadata

        version = metadata.version(name)
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < least:
            wanted = ".".join(map(str, least))
            yield Finding(name, BAD if needed else NOTE, f"{version}, older than {wanted}", f"pip install -U {name}")
        else:
            yield Finding(name, GOOD, version)


# Instruction sets that make kernels faster, as /proc/cpuinfo names them.
_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


def _processor() -> Iterator[Finding]:
    flags: list[str] = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                present = set(line.partition(":")[2].split())
                flags = [flag for flag in _FLAGS if flag in present]
                break
    known = f"; {' '.join(flags)}" if flags else ""
    machine, bound, mine = os.cpu_count() or 1, len(os.sched_getaffinity(0)), launch.cores()
    yield Finding("processor", GOOD, f"{report.processor()}{known}")
    yield from _blas(flags)
    if mine < bound:
        value = f"{mine} of {bound}: this process's control group (container) has the processor time of no more"
        yield Finding("cores", NOTE, value, "threads are as many; give the container more processor time for more")
    else:
        yield Finding("cores", GOOD, f"{mine}" + (f" of the machine's {machine}" if mine < machine else ""))
    from tacit import _core

    for name, limit, free in _core.memory_limits():
        yield Finding("memory", GOOD, f"{report.size(limit)}, {report.size(free)} available: {name}")


def _blas(flags: list[str]) -> Iterator[Finding]:
    from tacit import _core

    kernels = str(_core.blas_kernels())
    if not _core.lapack_works():
        cure = "build Tacit again, with the LAPACK that it finds here"
        yield Finding("blas", BAD, "LAPACK gives wrong answers to a 2 x 2 problem", cure)
        return
    if not kernels:
        return
    if kernels == "Prescott" and "avx2" in flags:
        best = "SkylakeX" if "avx512f" in flags else "Haswell"
        value = "OpenBLAS does not know this processor: kernels of 2004"
        yield Finding("blas", NOTE, value, f"set OPENBLAS_CORETYPE={best}")
    else:
        yield Finding("blas", GOOD, f"OpenBLAS, kernels for {kernels}")


def _direct() -> Iterator[Finding]:
    from tacit import _core

    if _core.direct_built():
        yield Finding("direct", GOOD, "sparse direct solver, by Eigen")
    else:
        cure = "install Eigen 3.4 or newer (apt-get install libeigen3-dev) and build Tacit again"
        yield Finding("direct", NOTE, 'no sparse direct solver (method="direct"): built without Eigen', cure)


def _threads() -> Iterator[Finding]:
    from tacit import _core

    threads, mine = int(_core.threads()), launch.cores()
    chosen = os.environ.get("OMP_NUM_THREADS")
    setting = f"OMP_NUM_THREADS={chosen}" if chosen else "OMP_NUM_THREADS is not set"
    if threads > mine:
        value = f"{threads} on {mine} cores ({setting}): they will wait for each other"
        yield Finding("threads", NOTE, value, f"export OMP_NUM_THREADS={mine}")
    elif threads == 1 and mine > 1 and not chosen:
        value = f"1 on {mine} cores: this build has no OpenMP"
        yield Finding("threads", NOTE, value, "build with -DTACIT_OPENMP=ON to use the others")
    else:
        yield Finding("threads", GOOD, f"{threads} in a rank ({setting})")


# Run by ranks: measures a small reduction, counts the ranks that each finds, and tells their processors.
_PROBE = """
import os, time
mask = os.sched_getaffinity(0)
from tacit import _core, comm
from tacit.cli import pinning
world = comm.world()
for _ in range(20):
    world.all_sum(1)
start = time.perf_counter()
for _ in range(200):
    total = world.all_sum(1)
each = (time.perf_counter() - start) / 200
places = world.all_gather(pinning.written(mask, _core.threads()).encode())
if world.rank == 0:
    print("probe", world.size, total, each)
    for place in places:
        print("place", place.decode())
world.barrier()
"""

# Findings that all ranks have in common.
_COMMON = ("ranks", "pinning")


def _mpi(ranks: int, threads: int | None) -> Iterator[Finding]:
    from tacit import _core, comm

    if launch.launched() is not None:
        yield Finding("mpi", NOTE, f"{comm.library()}; this is a rank of mpiexec: without it more can be tested")
        try:
            world = communicator(None)
        except launch.LaunchError as error:
            yield Finding("ranks", BAD, str(error))
            return
        places = world.all_gather(pinning.written(_MASK, int(_core.threads())).encode())
        yield _pinning([pinning.read(place.decode()) for place in places])
        return
    mine = launch.library()
    if not mine:
        why, cure = launch.no_mpi()
        yield Finding("mpi", NOTE, f"{why}: one rank", cure)
        return
    yield Finding("mpi", GOOD, mine)
    try:
        launcher = launch.find_mpiexec()
    except launch.LaunchError as error:
        text, _, cure = str(error).partition(": ")
        yield Finding("mpiexec", BAD, text, cure)
        return
    first = shutil.which("mpiexec")
    value = f"{launcher.path} ({launcher.family} {launcher.version})"
    state, cure = GOOD, ""
    number = launch.version_number(mine)
    if launcher.family != launch.family(mine):
        state, cure = BAD, "unset TACIT_MPIEXEC, or name an mpiexec of the right MPI in it"
        value += f", which is not of {mine}"
    elif number and launcher.version and number.split(".")[0] != launcher.version.split(".")[0]:
        state, cure = NOTE, f"if ranks do not start, name the mpiexec of {mine} in TACIT_MPIEXEC"
        value += f", of another release than {mine}"
    elif first and os.path.realpath(first) != os.path.realpath(launcher.path):
        state = NOTE
        value += f"; the mpiexec in PATH is another, {first}"
        cure = f"start ranks by --ranks or {report.program()} mpirun, or by {launcher.path}"
    yield Finding("mpiexec", state, value, cure)
    yield from _started(ranks, threads)
    if os.getuid() == 0 and launcher.family == "Open MPI" and "OMPI_ALLOW_RUN_AS_ROOT" not in os.environ:
        value = f"this is root, whom Open MPI refuses to start ranks for; --ranks and {report.program()} mpirun do not"
        cure = "for mpiexec itself: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
        yield Finding("root", NOTE, value, cure)


def _started(ranks: int, threads: int | None) -> Iterator[Finding]:
    """Starts ranks that do reductions, and tells where they run."""
    name = "two ranks" if ranks == 2 else f"{ranks} ranks"
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*own_command()[:-2], "-c", _CALL, str(ranks), str(threads or 0)],
            capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        cure = "a firewall or a VPN may stop messages: try OMPI_MCA_btl=self,vader"
        yield Finding(name, BAD, "they did not end within 90 s", cure)
        return
    whole = time.perf_counter() - start
    lines = [line.strip() for line in done.stdout.splitlines()]
    words = next((line.split() for line in lines if line.startswith("probe")), None)
    if done.returncode != 0 or words is None:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        text = next((line for line in lines if line.startswith("tacit.")), lines[-1] if lines else "no text")
        cure = "see the text; try another mpiexec: TACIT_MPIEXEC=/path/of/mpiexec"
        yield Finding(name, BAD, f"exit code {done.returncode}: {text}", cure)
        return
    size, total, each = int(words[1]), int(words[2]), float(words[3])
    if size != ranks or total != ranks:
        value = f"started {ranks}, but each finds {size}: mpiexec and Tacit's MPI do not belong together"
        cure = "name the mpiexec of Tacit's MPI in TACIT_MPIEXEC, or build Tacit with the MPI of this mpiexec"
        yield Finding(name, BAD, value, cure)
        return
    yield Finding(name, GOOD, f"work: {report.seconds(whole)} in all, {each * 1e6:.1f} us for a sum")
    yield _pinning([pinning.read(line.removeprefix("place ")) for line in lines if line.startswith("place ")])


_CALL = f"""
import sys
from tacit import launch
ranks, threads = map(int, sys.argv[1:])
sys.exit(launch.run(ranks, [sys.executable, "-P", "-c", {_PROBE!r}], threads or None, status=False))
"""


def _pinning(places: list[pinning.Place]) -> Finding:
    value = pinning.table(places)
    found = pinning.crowds(places)
    if not found:
        return Finding("pinning", GOOD, value)
    state = BAD if any(crowd.avoidable for crowd in found) else NOTE
    cure = "fewer ranks or threads: there are not enough processors for all"
    if state == BAD:
        cure = (
            "give each rank processors of its own, by srun --cpus-per-task=N, mpiexec --map-by slot:PE=N --bind-to core"
            " (Open MPI) or mpiexec -bind-to core:N (MPICH), for N threads; --bind-to none leaves it to the system"
        )
    return Finding("pinning", state, f"{value}: {'; '.join(map(str, found))}", cure)


def _mpi4py() -> Iterator[Finding]:
    """Whether mpi4py uses the same MPI. Tested in a process of its own, which another MPI may abort."""
    if importlib.util.find_spec("mpi4py") is None:
        yield Finding("mpi4py", NOTE, "not installed: needed only to pass its communicators", "pip install mpi4py")
        return
    mine = launch.library()
    question = "from mpi4py import MPI; print('\\nlibrary', ' '.join(MPI.Get_library_version().split()))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", question],
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
            env=launch.environment(1),
        )  # fmt: skip
        text = done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        done, text = None, "no answer within 60 s"
    found = next((line.removeprefix("library ") for line in text.splitlines() if line.startswith("library ")), "")
    rebuild = "pip install --no-binary=mpi4py --force-reinstall mpi4py, with mpicc of that MPI first in PATH"
    if not found:
        last = text.strip().splitlines()[-1] if text.strip() else "no answer"
        yield Finding("mpi4py", NOTE, f"does not load: {last}", f"build it against {mine or 'your MPI'}: {rebuild}")
    elif mine and [f(found) for f in (launch.family, launch.version_number)] != [
        f(mine) for f in (launch.family, launch.version_number)
    ]:
        other = f"{launch.family(found)} {launch.version_number(found)}"
        yield Finding("mpi4py", NOTE, f"speaks {other}, Tacit {mine}: its communicators will be refused", rebuild)
    else:
        from importlib import metadata

        yield Finding("mpi4py", GOOD, metadata.version("mpi4py") + (", the same MPI" if mine else ""))


def _gpu() -> Iterator[Finding]:
    from tacit import _core

    cards = ""
    if shutil.which("nvidia-smi"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                cards = "; ".join(done.stdout.strip().splitlines())
    built, usable = bool(_core.cuda_built), _works(lambda: _core.gpu_count() > 0)
    driver = bool(cards) or ctypes.util.find_library("cuda") is not None
    if usable:
        count = int(_core.gpu_count())
        names = "; ".join(f"cuda:{gpu} {_core.gpu_name(gpu)}" for gpu in range(count))
        ranks = f" (with device='cuda' rank r of a node takes cuda:(r mod {count}))" if count > 1 else ""
        yield Finding("gpu", GOOD, names + ranks)
    elif built and cards:
        value = f"{cards}; CUDA is built in, but finds no device"
        yield Finding("gpu", BAD, value, "update the driver, or see CUDA_VISIBLE_DEVICES")
    elif built:
        value = "CUDA is built in; this machine shows no device" + (" though it has a driver" if driver else "")
        yield Finding("gpu", NOTE, value)
    elif cards:
        yield Finding("gpu", NOTE, f"{cards}, but CUDA is not built in", BUILD_WITH_CUDA)
    else:
        yield Finding("gpu", NOTE, "none (CUDA is not built in)")


def _works(look: Callable[[], Any]) -> bool:
    try:
        return bool(look())
    except Exception:
        return False
