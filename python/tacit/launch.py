"""Starts ranks: finds the mpiexec of Tacit's MPI, sets its environment, and ends all ranks when one fails.

`python -m tacit.launch SCRIPT ARGS` runs a script as one rank; an exception that it does not catch ends the whole job.
`python launch.py --clean FOLDER` removes the folder of a job, and what killed processes left, when its input ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

# Rank 0 writes the exit code to this file. Ranks then end with 0, so that mpiexec prints no message of its own.
STATUS = "TACIT_STATUS_FILE"
# The number of ranks that the launcher asked for: a process that finds itself alone was started by another MPI's
# mpiexec.
RANKS = "TACIT_RANKS"
# Width of the terminal that the launcher writes to; absent if it writes to something else.
TERMINAL = "TACIT_TERMINAL"

# The number of the process that is a rank, for those that it starts: they inherit mpiexec's variables and are no ranks.
RANK_PROCESS = "TACIT_RANK_PROCESS"

# The variables with rank and size that Open MPI, and MPICH and its derivatives, set for their processes.
_SHOWN = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))


class LaunchError(RuntimeError):
    """Ranks cannot be started in this environment; the text says what to do."""


# What an MPI gives to its processes, and to one that initialises MPI without mpiexec, for that process alone. The
# options of users begin with OMPI_MCA_ and PMIX_MCA_, too.
_OF_A_PROCESS = re.compile(
    r"(PMIX_(?!MCA_)|OMPI_COMM_WORLD_|ORTE_SCHIZO_DETECTION|HYDI_|PMI_|MPI_LOCAL(NRANKS|RANKID)$|MPIR_|"
    r"OMPI_(APP_CTX_NUM_PROCS|ARGV|COMMAND|FILE_LOCATION|FIRST_RANKS|NUM_APP_CTX|UNIVERSE_SIZE)$|"
    r"OMPI_MCA_(ess$|ess_base_|initial_wdir$|pmix$|"
    r"orte_(app_num|bound_at_launch|ess_|hnp_uri|jobfam_|launch|local_daemon_|num_nodes|precondition_|tmpdir_|top_)))"
)
_LAUNCHERS = ("mpiexec", "mpirun", "orte", "prte", "hydra", "srun", "slurmstepd")


def alone() -> bool:
    """Whether this process inherits the variables of one that has initialised MPI without mpiexec (Open MPI 4)."""
    return os.environ.get("OMPI_MCA_ess") == "singleton"  # noqa: SIM112


def inherited() -> bool:
    """Whether MPI's variables in the environment are those of another process, which has started this one: of a rank,
    or of a process that has initialised MPI alone. A worker of multiprocessing is such a process.
    """
    if alone():
        return True
    module = sys.modules.get("multiprocessing.process")
    if module is not None and module.parent_process() is not None:
        return True
    rank = os.environ.get(RANK_PROCESS, "")
    return rank.isdigit() and int(rank) != os.getpid() and _started_by(int(rank))


def _started_by(rank: int) -> bool:
    """Whether this process descends from that one, with no launcher of other ranks in between (Linux)."""
    process = os.getppid()
    with contextlib.suppress(OSError, ValueError):
        while process > 1:
            if process == rank:
                return True
            name, _, rest = Path(f"/proc/{process}/stat").read_text(errors="replace").partition("(")[2].rpartition(")")
            if name.startswith(_LAUNCHERS):
                return False
            process = int(rest.split()[1])
    return False


def drop_process_variables(variables: MutableMapping[str, str]) -> None:
    """Removes what an MPI has given to one process, before another one starts ranks or initialises MPI."""
    started = "OMPI_MCA_ess" in variables
    for name in list(variables):
        if name == RANK_PROCESS or (_OF_A_PROCESS.match(name) and (started or not name.startswith("OMPI_MCA_"))):
            del variables[name]


def launched() -> tuple[int, int] | None:
    """(rank, size) of this process if mpiexec started it, by its environment alone."""
    if not any(rank in os.environ for rank, _ in (*_SHOWN, ("PMIX_RANK", ""))) or inherited():
        return None
    for rank, size in _SHOWN:
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[rank]), int(os.environ[size])
    with contextlib.suppress(KeyError, ValueError):
        if "PMIX_RANK" in os.environ:
            return int(os.environ["PMIX_RANK"]), int(os.environ["SLURM_STEP_NUM_TASKS"])
    return None


def advice_on_import(error: ImportError) -> str:
    """What may keep the compiled module from being loaded, as an end of the error's text; "" where nothing is known."""
    path = os.environ.get("LD_LIBRARY_PATH")
    if not path or "_core" not in Path(error.path or "").name:
        return ""
    return (
        f"; LD_LIBRARY_PATH={path} comes before the libraries that Tacit was built with (MPI, OpenBLAS): unset it, or"
        " build Tacit again with those that it names"
    )


def cores() -> int:
    """Processors that this process may use: those of its affinity mask, and no more than its control groups allow."""
    try:
        from tacit import _core
    except ImportError:  # a broken installation, which doctor reports
        return len(os.sched_getaffinity(0))
    return int(_core.cores())


def family(version: str) -> str:
    """The MPI implementation in a version text, that of MPI_Get_library_version or of `mpiexec --version`."""
    kinds = {"Open MPI": r"Open ?MPI|OpenRTE|PRRTE|prterun", "Intel MPI": "Intel", "MVAPICH": "MVAPICH"}
    kinds["MPICH"] = r"MPICH|HYDRA"
    return next((name for name, words in kinds.items() if re.search(words, version, re.IGNORECASE)), "")


def version_number(text: str) -> str:
    found = re.search(r"\d+\.\d+(?:\.\d+)?", text)
    return found[0] if found else ""


@dataclass(frozen=True)
class Launcher:
    """An mpiexec: its path, implementation and version."""

    path: str
    family: str
    version: str


def examine(path: str) -> Launcher | None:
    """The mpiexec at `path`, from its `--version`; None if it does not run."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = done.stdout + done.stderr
    name = family(text)
    return Launcher(path, name, version_number(text)) if name else None


def library() -> str:
    """The MPI that Tacit uses ("Open MPI 4.1.4"), the one that it was built with or that it finds; "" without MPI."""
    from tacit import _core, _mpi

    _mpi.ready()
    return str(_core.mpi_library())


def no_mpi() -> tuple[str, str]:
    """Why Tacit has no MPI, and the cure."""
    from tacit import _mpi

    if os.environ.get("TACIT_MPI_LIBRARY") == "none":
        return "TACIT_MPI_LIBRARY is none", "unset it"
    if _mpi.modules():
        return "no MPI was found", "pip install mpich, or apt install openmpi-bin, or name one in TACIT_MPI_LIBRARY"
    return (
        "this build of Tacit has no MPI",
        "install an MPI (apt install libopenmpi-dev openmpi-bin, or pip install mpich) and build Tacit again",
    )


def candidates() -> Iterator[str]:
    """Existing paths of mpiexec, each once, the most likely first."""
    seen = set()
    names = ("mpiexec", "mpiexec.openmpi", "mpiexec.mpich", "mpiexec.hydra", "mpirun")
    found = [*(str(Path(sys.executable).parent / name) for name in names), *map(shutil.which, names)]
    for path in found:
        if path and os.access(path, os.X_OK) and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield path


def find_mpiexec() -> Launcher:
    """The mpiexec of Tacit's MPI: TACIT_MPIEXEC, else the first of the same family. LaunchError if there is none."""
    chosen = os.environ.get("TACIT_MPIEXEC")
    if chosen:
        launcher = examine(shutil.which(chosen) or chosen)
        if launcher is None:
            raise LaunchError(f"TACIT_MPIEXEC is {chosen}, which does not run as an mpiexec: correct or unset it")
        return launcher
    mine = library()
    if not mine:
        raise LaunchError(f"{no_mpi()[0]}, so Tacit runs on one rank: {no_mpi()[1]}")
    others = []
    for path in candidates():
        launcher = examine(path)
        if launcher is None:
            continue
        if launcher.family == family(mine) or not family(mine):
            return launcher
        others.append(f"{path} ({launcher.family} {launcher.version})")
    raise LaunchError(
        f"found no mpiexec of {mine}, the MPI that Tacit uses"
        + (f", only {', '.join(others)}" if others else "")
        + ": install it (Open MPI: apt install openmpi-bin; MPICH: apt install mpich, or pip install mpich),"
        " or name it in TACIT_MPIEXEC"
    )


def machines() -> int:
    """The number of machines on which mpiexec starts ranks: those of a batch system or host file, or this one alone."""
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    hostfiles = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE")
    for name in ("PBS_NODEFILE", *hostfiles):
        with contextlib.suppress(OSError, KeyError):
            lines = Path(os.environ[name]).read_text(encoding="utf-8", errors="replace").splitlines()
            hosts = {line.split()[0].partition(":")[0] for line in lines if line.strip() and not line.startswith("#")}
            return max(1, len(hosts))
    return 1


def refuse_crowds(ranks: int, threads: int | None = None) -> None:
    """ValueError for more ranks, or threads of all ranks together, than 16 for each processor of the machines; 64 on
    each machine are always allowed. More would wait for each other for minutes, or exhaust the memory. The default of
    `threads`, the number for each rank, is OMP_NUM_THREADS.
    """
    each = threads or _threads_given() or 1
    if ranks * each <= 64:
        return
    on = machines()
    most = on * max(64, 16 * cores())
    if ranks * each <= most:
        return
    crowd = [f"{ranks} ranks"] if ranks > 1 else []
    if each > 1:
        crowd += [f"{each} threads{' of each' if ranks > 1 else ''}{'' if threads else ' (OMP_NUM_THREADS)'}"]
    raise ValueError(
        f"{' with '.join(crowd)}: at most {most} are started here,"
        f" 16 for each of {cores()} processors{f' on {on} machines' if on > 1 else ''} and 64 on any machine; ask for"
        " fewer, or try many ranks as simulated ones (tacit solve --simulate, tacit.simulate)"
    )


# What mpiexec of Open MPI writes into its temporary folder: 4.1 MB for 4 ranks (measured with 4.1.4).
_NEEDED = 16 << 20


def refuse_full_folder() -> None:
    """LaunchError where the temporary folder of Open MPI's mpiexec is full: it would hang, or end without a word."""
    names = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base", "TMPDIR", "TEMP", "TMP")
    folder = next((os.environ[name] for name in names if os.environ.get(name)), "/tmp")
    try:
        room = shutil.disk_usage(folder).free
    except OSError as error:
        raise LaunchError(f"mpiexec needs a temporary folder: {folder}: {error.strerror}; set TMPDIR") from error
    if room < _NEEDED:
        raise LaunchError(
            f"the temporary folder {folder} has {room / 2**20:.1f} MiB left, and mpiexec needs {_NEEDED >> 20} MiB"
            " there: make room, or set TMPDIR to another folder"
        )


def _threads_given() -> int:
    """OMP_NUM_THREADS, of the outermost loops; 0 where it is not set to a number."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(given) if given.isdigit() else 0


def threads_for(ranks: int) -> int:
    """Threads for each rank when `ranks` ranks share this machine."""
    return max(1, cores() // ranks)


def environment(ranks: int, threads: int | None = None) -> dict[str, str]:
    """The environment for `ranks` ranks: this process's, and variables that ranks need and the user has not set."""
    each = threads or _threads_given() or threads_for(ranks)
    crowded = ranks * each > cores()
    wanted = {
        # Open MPI refuses root and more ranks than cores by default (4, then 5).
        **{f"{of}_ALLOW_RUN_AS_ROOT{end}": "1" for of in ("OMPI", "PRTE") for end in ("", "_CONFIRM")},
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    if crowded or each > 1:
        # By default Open MPI binds each of two ranks to one core, which its threads, and ranks of other jobs, would
        # share.
        wanted |= {"OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none"}
    if crowded:
        wanted["OMP_WAIT_POLICY"] = "passive"
    if ranks > cores():
        # Open MPI then gives its processor away at each test of a message. With a core for each rank that is left to
        # Tacit's waits: beside other programs it costs milliseconds for each sum.
        wanted["OMPI_MCA_mpi_yield_when_idle"] = "1"
    result = wanted | os.environ
    drop_process_variables(result)  # those of a process that has initialised MPI alone, or is a rank of other ranks
    if threads is not None or "OMP_NUM_THREADS" not in os.environ:
        result["OMP_NUM_THREADS"] = str(each)
    result[RANKS] = str(ranks)
    result.pop(TERMINAL, None)
    if sys.stdout.isatty():
        result[TERMINAL] = str(shutil.get_terminal_size().columns)
    return result


SHARED = Path("/dev/shm")


@contextlib.contextmanager
def shared_memory() -> Iterator[dict[str, str]]:
    """Variables that make Open MPI keep its shared memory in a folder of this job, which is removed with the job. By
    default that memory, 4 MB a rank, stays when mpiexec is killed.

    This process holds a lock on its folder. Should it be killed, a helper process removes the folder, or, where that
    was killed too, the next job.
    """
    if machines() > 1 or not os.access(SHARED, os.W_OK):
        yield {}
        return
    _remove_left_over()
    with contextlib.ExitStack() as held:
        held.callback(_remove_left_over)  # what killed ranks left
        while True:
            folder = Path(tempfile.mkdtemp(prefix="tacit-job-", dir=SHARED))
            with contextlib.suppress(FileNotFoundError):
                held.enter_context(_locked(folder, fcntl.LOCK_SH))
            if folder.exists():
                break  # otherwise another process removed it before it was locked
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        held.enter_context(_cleaner(folder))
        kept_by = ("btl_vader", "btl_sm", "osc_sm", "osc_rdma")
        yield {f"OMPI_MCA_{part}_backing_directory": str(folder) for part in kept_by}


@contextlib.contextmanager
def _cleaner(folder: Path) -> Iterator[None]:
    """A process that outlives this one, should it be killed, and then removes the folder: it waits for the end of its
    input, which nobody writes to.
    """
    ends, here = os.pipe()
    with contextlib.ExitStack() as held:
        held.callback(os.close, here)
        try:
            command = [sys.executable, "-I", "-S", __file__, "--clean", str(folder)]
            silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.Popen(command, stdin=ends, cwd="/", start_new_session=True, **silent)
        except OSError:  # the next job removes the folder then
            pass
        finally:
            os.close(ends)
        yield


def _clean(folder: Path) -> None:
    """What that process does. Its job has just ended, and so will its ranks."""
    sys.stdin.buffer.read()
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        _remove_left_over()
        if not folder.exists() and not any(SHARED.glob("tacit_*")):
            break
        time.sleep(0.1)


def _remove_left_over() -> None:
    """Remove what killed processes of this user left in shared memory: folders of jobs, and segments of the exchange
    path `shared` (src/comm/exchange/segment.cpp). Their makers hold a lock on both, which ends with the process."""
    for left in (*SHARED.glob("tacit-job-*"), *SHARED.glob("tacit_*")):
        with contextlib.suppress(OSError), _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            if left.stat().st_uid != os.getuid():
                continue
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(file, how)
        yield
    finally:
        os.close(file)


def _die_with_parent() -> Callable[[], None] | None:
    """A function for a child process to call before it runs its program, so that it ends when this process is killed
    (Linux).
    """
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return lambda: prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG


def run(
    ranks: int,
    command: Sequence[str],
    threads: int | None = None,
    status: bool = True,
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Runs `command` as `ranks` ranks and returns their common exit code. Ctrl-C ends them all: KeyboardInterrupt.

    With `status` the ranks run Tacit's own commands and write their exit code to the status file (see `leave`).
    `meanwhile` is called about ten times a second. One rank runs without mpiexec. LaunchError if no mpiexec of Tacit's
    MPI is found.
    """
    starter = []
    if ranks > 1:
        launcher = find_mpiexec()
        if launcher.family == "Open MPI":
            refuse_full_folder()
        starter = [launcher.path, "-n", str(ranks)]
    variables = environment(ranks, threads)
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder, shared_memory() as more:
        variables = more | variables
        left = Path(folder) / "status"
        variables.pop(STATUS, None)
        if status:
            left.touch()
            variables[STATUS] = str(left)
        code = _wait([*starter, *command], variables, meanwhile)
        text = left.read_text() if status else ""
    if code == 130:
        raise KeyboardInterrupt
    if text:
        return int(text)
    if code < 0:
        return 128 - code
    return code


def _wait(command: Sequence[str], variables: dict[str, str], meanwhile: Callable[[], None] | None) -> int:
    """The exit code of a command. It runs in a process group of its own, so that the terminal's Ctrl-C does not reach
    it directly; this function passes the signal on.
    """
    signals: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        with contextlib.suppress(ProcessLookupError):
            if len(signals) == 1:
                job.send_signal(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
            else:
                os.killpg(job.pid, signal.SIGKILL)

    sys.stdout.flush()
    sys.stderr.flush()
    before = {}
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_die_with_parent()
    ) as job:
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) != signal.SIG_IGN:  # nohup, a job in the background
                    before[number] = signal.signal(number, pass_on)
            limit: float | None = None
            while True:
                try:
                    code = job.wait(timeout=0.1)
                    break
                except subprocess.TimeoutExpired:
                    if meanwhile is not None:
                        meanwhile()
                    if signals and limit is None:
                        limit = time.monotonic() + 5
                    if limit is not None and time.monotonic() > limit:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(job.pid, signal.SIGKILL)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if signals:
        return 128 + signals[0]
    return code


def leave(code: int) -> int:
    """The exit code with which a rank has to end when the run's code is `code`. Rank 0, and every rank that fails,
    writes `code` to the status file.

    After a failure on some ranks only, the others would wait for this rank for ever; an alarm ends the job then.
    """
    place = launched()
    if place is None:
        return code
    if code not in (0, 3) and place[1] > 1:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
    file = os.environ.get(STATUS)
    if not file or not os.path.exists(file):
        return code
    if place[0] == 0 or code not in (0, 3):
        with contextlib.suppress(OSError), open(file, "w", encoding="ascii") as out:
            out.write(str(code))
    return 0


def abort(code: int) -> None:
    """Ends this process at once, and with it the job: mpiexec ends all ranks when one exits without MPI_Finalize."""
    leave(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def script(arguments: Sequence[str]) -> int:
    """Runs a Python script as one rank. An exception that it does not catch ends all ranks, with the traceback."""
    path, *rest = arguments
    sys.argv = [path, *rest]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        code: Any = end.code
        if code is None or code == 0:
            return 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        abort(code)
    except BaseException as error:
        place = launched()
        if place is not None and place[1] > 1:
            print(f"rank {place[0]} failed:", file=sys.stderr)
        traceback.print_exception(error)
        abort(130 if isinstance(error, KeyboardInterrupt) else 1)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--clean"]:
        _clean(Path(sys.argv[2]))
        sys.exit(0)
    sys.exit(script(sys.argv[1:]))
