"""Starting ranks: which mpiexec, which variables, how a job ends, and processes that are no ranks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_support import LONG, clean_environment, needs_mpi, poisson, tacit
from conftest import ALLOW, ROOT, Run, mpiexec

from tacit import launch


def test_launched_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert launch.launched() is None
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "3")
    assert launch.launched() == (1, 3)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert launch.launched() == (0, 2)


@pytest.mark.parametrize(
    ("text", "family", "number"),
    [
        ("mpiexec (OpenRTE) 4.1.4", "Open MPI", "4.1.4"),
        ("mpirun (Open MPI) 5.0.11", "Open MPI", "5.0.11"),
        ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "Open MPI", "4.1.4"),
        ("HYDRA build details:\n    Version:   4.0.2", "MPICH", "4.0.2"),
        ("MPICH Version:      4.0.2", "MPICH", "4.0.2"),
        ("Intel(R) MPI Library 2021.10 for Linux* OS", "Intel MPI", "2021.10"),
        ("hello", "", ""),
    ],
)
def test_families(text: str, family: str, number: str) -> None:
    assert launch.family(text) == family
    assert launch.version_number(text) == number


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMPI_MCA_hwloc_base_binding_policy", "socket")
    variables = launch.environment(2)
    assert variables["OMP_NUM_THREADS"] == "2"
    assert variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
    assert variables["OMPI_MCA_rmaps_base_oversubscribe"] == "1"
    assert variables["PRTE_MCA_rmaps_default_mapping_policy"] == ":oversubscribe"
    assert variables["OMPI_MCA_hwloc_base_binding_policy"] == "socket"  # the user's word
    assert variables["PRTE_MCA_hwloc_default_binding_policy"] == "none"
    assert "OMP_WAIT_POLICY" not in variables
    assert launch.environment(8)["OMP_NUM_THREADS"] == "1"
    assert launch.environment(8)["OMP_WAIT_POLICY"] == "passive"
    # A sum beside other programs takes milliseconds where Open MPI yields at each test of a message.
    assert launch.environment(8)["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert launch.environment(4, 2)["OMP_WAIT_POLICY"] == "passive"
    assert "OMPI_MCA_mpi_yield_when_idle" not in launch.environment(4, 2)
    assert launch.environment(2, 3)["OMP_NUM_THREADS"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert launch.environment(2)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setattr(launch, "cores", lambda: 2)
    assert "PRTE_MCA_hwloc_default_binding_policy" not in launch.environment(2)  # Open MPI binds each to a core
    for given in ("2", "2,1"):  # whose threads would share one core
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert launch.environment(2)["PRTE_MCA_hwloc_default_binding_policy"] == "none"
        assert launch.environment(2)["OMP_NUM_THREADS"] == given


def test_a_full_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """mpiexec would end without a word, or hang."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    launch.refuse_full_folder()
    with monkeypatch.context() as full:
        full.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 0})())
        with pytest.raises(launch.LaunchError, match=r"has 0.0 MiB left, and mpiexec needs 16 MiB there.*set TMPDIR"):
            launch.refuse_full_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(launch.LaunchError, match="none: No such file or directory; set TMPDIR"):
        launch.refuse_full_folder()


def test_one_rank_needs_no_mpi(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("import sys; print(sys.argv); sys.exit(7)\n")
    done = tacit("mpirun", "-n", "1", script, "x", "--y", code=7)
    assert done.stdout.strip() == str([str(script), "x", "--y"])


def test_wrong_use(tmp_path: Path) -> None:
    assert "no such file" in tacit("mpirun", "-n", "2", tmp_path / "none.py", code=4).stderr


def test_abort_hook_shows_the_traceback(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("raise KeyError('lost')\n")
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "mpirun", "-n", "1", str(script)],
        capture_output=True, text=True, env=clean_environment(), timeout=LONG, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "KeyError: 'lost'" in done.stderr


@needs_mpi[0]
@needs_mpi[1]
class TestRanks:
    def test_program(self, tmp_path: Path) -> None:
        script = tmp_path / "a.py"
        script.write_text(
            "import os, tacit\nw = tacit.comm.world()\n"
            "os.write(1, f'rank {w.rank} of {w.size} sum {w.all_sum(w.rank + 1)}\\n'.encode())\n"  # a line in one piece
        )
        out = tacit("mpirun", "-n", "3", script).stdout
        assert sorted(out.splitlines()) == [f"rank {k} of 3 sum 6" for k in range(3)]

    @pytest.mark.slow
    def test_a_rank_that_fails_ends_the_job(self, tmp_path: Path) -> None:
        script = tmp_path / "a.py"
        script.write_text(
            "import tacit\nw = tacit.comm.world()\nif w.rank == 1:\n    raise KeyError('lost')\nw.all_sum(1)\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "tacit", "mpirun", "-n", "2", str(script)],
            capture_output=True, text=True, env=clean_environment(), timeout=LONG, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert "KeyError: 'lost'" in done.stderr

    @pytest.mark.slow
    def test_a_foreign_mpiexec_is_found_out(self, tmp_path: Path) -> None:
        """Ranks that do not find each other must not each solve alone and say that all is well."""
        path = poisson(tmp_path / "p.mtx", 4)
        starter = tmp_path / "mpiexec"
        starter.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = --version ]; then echo "Open MPI 4.1.4"; exit 0; fi\n'
            "shift 2\n"
            "for k in 0 1; do\n"
            "  env -u PMIX_RANK PMI_RANK=$k PMI_SIZE=2 PMI_FD= "
            '"$@" &\n'
            "done\nwait\n"
        )
        starter.chmod(0o755)
        done = tacit("solve", path, "--ranks", "2", code=5, TACIT_MPIEXEC=str(starter))
        assert "mpiexec" in done.stderr
        assert "converged" not in done.stdout

    @pytest.mark.slow
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupt(self, tmp_path: Path, number: signal.Signals) -> None:
        """A solve that would go on for ever ends, all its ranks with it."""
        with endless(poisson(tmp_path / "p.mtx", 150), "--ranks", "2", "--json", "r.json", cwd=tmp_path) as job:
            begun = processes_of("p.mtx", tmp_path)
            job.send_signal(number)
            _, err = job.communicate(timeout=LONG)
            assert job.returncode == 128 + number
            if number == signal.SIGINT:
                assert "tacit solve: interrupted\n" in err
            wait_until(lambda: not set(begun) & set(processes_of("p.mtx", tmp_path)), "all ranks have ended")
        assert not (tmp_path / "r.json").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("killed", ["a rank", "mpiexec", "all"])
    def test_shared_memory_after_a_kill(self, tmp_path: Path, killed: str) -> None:
        """It is removed with the job, or if the job was killed, by the process that it has for this."""
        with endless(poisson(tmp_path / "p.mtx", 60), "--ranks", "2", "--path", "shared", cwd=tmp_path) as job:
            begun = processes_of("p.mtx", tmp_path)
            mpiexec = next(pid for pid, parent in begun.items() if parent == job.pid)
            rank = next(pid for pid, parent in begun.items() if parent == mpiexec)
            used = {file for pid in begun for file in shared_files(pid)}
            for pid in begun if killed == "all" else [mpiexec if killed == "mpiexec" else rank]:
                os.kill(pid, signal.SIGKILL)
            job.communicate(timeout=LONG)
            assert job.returncode != 0
            wait_until(lambda: not set(begun) & set(processes_of("p.mtx", tmp_path)), "all ranks have ended")
        assert used
        wait_until(lambda: not any(map(os.path.exists, used)), "all shared memory is free")

    def test_a_job_removes_segments_whose_maker_was_killed(self, tmp_path: Path) -> None:
        """Those without a lock; a lock says that the maker lives."""
        (tmp_path / "a.py").write_text("")
        left, kept = (Path("/dev/shm") / f"tacit_0-{os.getpid()}-{what}" for what in ("left", "kept"))
        unnamed = kept.with_name(f".{kept.name}")  # until it is locked: other jobs run beside this test
        left.write_text("")
        try:
            with unnamed.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                unnamed.rename(kept)
                tacit("mpirun", "-n", "2", tmp_path / "a.py")
                assert (left.exists(), kept.exists()) == (False, True)
        finally:
            for path in (left, kept):
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def endless(path: Path, *words: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """`tacit solve` of this system that has begun to iterate and never ends by itself; killed at the end."""
    method = ["--method", "richardson", "--relaxation", "0.2", "--rtol", "1e-15", "--max-iterations", "2000000000"]
    job = subprocess.Popen(
        [sys.executable, "-u", "-m", "tacit", "solve", str(path), *method, "--monitor", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(), cwd=cwd,
        start_new_session=True,
    )  # fmt: skip
    begun: dict[int, int] = {}
    try:
        assert job.stdout is not None
        while not job.stdout.readline().strip().startswith("1 "):
            assert job.poll() is None, job.communicate()
        begun = processes_of(path.name, path.parent)
        yield job
    finally:
        for pid in begun:
            if pid in processes_of(path.name, path.parent):
                os.kill(pid, signal.SIGKILL)
        job.kill()
        job.communicate()


def wait_until(true: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < limit, f"not so after {LONG} s: {what}"
        time.sleep(0.05)


def processes_of(name: str, folder: Path) -> dict[int, int]:
    """Processes with this file on their command line, but for zombies, and the parent of each."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            words = place.joinpath("cmdline").read_text(errors="replace").split("\0")
            if str(folder / name) in words and int(place.name) != os.getpid():
                found[int(place.name)] = int(place.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    return found


def shared_files(pid: int) -> set[str]:
    """Files in shared memory that a process has in its own."""
    lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line and not line.endswith("(deleted)")}


@pytest.mark.slow
def test_hangups_stay_ignored(tmp_path: Path) -> None:
    """`nohup tacit .. --ranks 2 &` goes on when its terminal closes."""
    (tmp_path / "a.py").write_text(
        "import pathlib, tacit, time\n"
        "rank = tacit.comm.world().rank\n"
        "pathlib.Path(f'begun{rank}').touch()\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.02)\n"
    )
    command = [sys.executable, "-m", "tacit", "mpirun", "-n", "2", "a.py"]
    ignore = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", ignore, *command], env=clean_environment(), cwd=tmp_path, stdin=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: all((tmp_path / f"begun{r}").exists() for r in range(2)), "both ranks have begun")
        job.send_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        assert job.wait(LONG) == 0
    finally:
        job.kill()
        job.wait()


@pytest.mark.slow
def test_interrupt_of_one_rank(tmp_path: Path) -> None:
    with endless(poisson(tmp_path / "p.mtx", 150), cwd=tmp_path) as job:
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=LONG)
    assert job.returncode == 130
    assert err == "tacit solve: interrupted\n"


def test_crowds_are_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 ranks or threads for each processor, and 64 on any machine."""
    most = max(64, 16 * launch.cores())
    path = poisson(tmp_path / "p.mtx", 3)
    script = tmp_path / "a.py"
    script.write_text("raise SystemExit('started')")
    nobody = tmp_path / "mpiexec"  # fails the test if it is asked to start ranks
    nobody.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Open MPI 4.1.4 && exit\necho started >&2; exit 9\n')
    nobody.chmod(0o755)
    for words, told in (
        (["solve", path, "--ranks", "100000"], "100000 ranks"),
        (["solve", path, "--threads", "100000"], "100000 threads"),
        (["solve", path, "--ranks", "16", "--threads", str(most // 16 + 1)], "16 ranks with"),
        (["poisson", "--n", "5", "--ranks", str(most + 1)], f"{most + 1} ranks"),
        (["multigrid", "--n", "8", "--threads", str(most + 1)], f"{most + 1} threads"),
        (["bem", "sphere:1", "--ranks", "100000"], "100000 ranks"),
        (["reconstruct", "none.h5", "--ranks", "100000"], "100000 ranks"),
        (["infer", "none.tsv", "--threads", "100000"], "100000 threads"),
        (["mpirun", "-n", "100000", script], "100000 ranks"),
    ):
        said = tacit(*words, code=2, TACIT_MPIEXEC=str(nobody)).stderr
        assert told in said
        assert f"at most {most} are started here" in said
        assert "started\n" not in said
    said = tacit("mpirun", "-n", "2", script, code=2, OMP_NUM_THREADS="100000").stderr
    assert "2 ranks with 100000 threads of each (OMP_NUM_THREADS)" in said
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    launch.refuse_crowds(most)
    with pytest.raises(ValueError, match=f"{most + 1} ranks"):
        launch.refuse_crowds(most + 1)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "10")
    launch.refuse_crowds(10 * most)
    with pytest.raises(ValueError, match="on 10 machines"):
        launch.refuse_crowds(10 * most + 1)
    monkeypatch.delenv("SLURM_JOB_NUM_NODES")
    (tmp_path / "hosts").write_text("# two\na slots=4\nb:4\na\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "hosts"))
    assert launch.machines() == 2


def test_status_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "status"
    file.touch()
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setenv(launch.STATUS, str(file))
    assert launch.leave(3) == 0
    assert json.loads(file.read_text()) == 3
    monkeypatch.setenv(launch.STATUS, str(tmp_path / "elsewhere"))
    assert launch.leave(3) == 3


POOL = """
    import multiprocessing, sys
    import numpy as np, scipy.sparse as sp, tacit
    a = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(200, 200)).tocsr()
    def solve(how):
        try:
            if how == "default": return tacit.csr(a).comm.size, bool(tacit.solve(a, np.ones(200)).converged)
            return tacit.comm.world().size
        except RuntimeError as e: return str(e)
    if __name__ == "__main__":
        if sys.argv[2:] == ["used"]: assert tacit.solve(a, np.ones(200)).converged and tacit.comm.world().size == 2
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            assert pool.map_async(solve, ["default"] * 3).get(60) == [(1, True)] * 3
            text, = pool.map_async(solve, ["world"]).get(60)
        assert "comm=tacit.comm.self_()" in text, text
        assert tacit.solve(a, np.ones(200)).converged and tacit.comm.world().size == 2
        print("ended")
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("before", ["used", "unused"])
def test_workers_of_a_pool_under_mpiexec(tmp_path: Path, start: str, before: str) -> None:
    """Workers of multiprocessing are no ranks: they solve alone, and asking for the world is an error."""
    script = tmp_path / "pool.py"
    script.write_text("\n".join(line[4:] for line in POOL.split("\n")))
    environment = os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python"), "PYTHONUNBUFFERED": ""}
    command = [mpiexec(), "-n", "2", sys.executable, str(script), start, before]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("ended") == 2


@pytest.mark.slow
@pytest.mark.parametrize("first", ["tacit.comm.world()", "from mpi4py import MPI"])
def test_ranks_started_by_a_process_that_has_initialised_mpi(python: Run, first: str) -> None:
    """Open MPI's variables of a process without mpiexec do not reach the ranks that it starts."""
    if "mpi4py" in first:
        pytest.importorskip("mpi4py")
    mpiexec()
    python(f"""
    import subprocess, sys, tacit
    from scipy.sparse import eye_array
    tacit.write("a.mtx", tacit.csr(eye_array(50).tocsr() * 2.0))
    open("p.py", "w").write("import tacit; print(tacit.comm.world().size)")
    {first}
    def run(*words): return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100)
    done = run("-m", "tacit", "solve", "a.mtx", "--ranks", "2")
    assert done.returncode == 0 and "converged" in done.stdout and "2 ranks" in done.stdout, done
    done = run("-m", "tacit", "mpirun", "-n", "2", "p.py")
    assert done.returncode == 0 and done.stdout.split() == ["2", "2"], done
    done = run("p.py")
    assert done.returncode == 0 and done.stdout.split() == ["1"], done
    done = run("-c", "import tacit; print(tacit.csr([[2.0]]).comm.size, tacit.comm.launched())")
    assert done.returncode == 0 and done.stdout.split() == ["1", "False"], done
    """)


def test_ranks_started_by_a_rank(python: Run) -> None:
    """A rank starts a command with ranks of its own, and a script that finds itself alone."""
    done = python(
        """
    import subprocess, sys, tacit
    tacit.comm.world().barrier()
    if tacit.comm.world().rank == 0:
        open("p.py", "w").write("import tacit; print(tacit.comm.resolve().size)")
        done = subprocess.run([sys.executable, "p.py"], capture_output=True, text=True, timeout=100)
        assert done.stdout.split() == ["1"], done
        words = [sys.executable, "-m", "tacit", "mpirun", "-n", "3", "p.py"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100)
        assert done.stdout.split() == ["3"] * 3, done
    tacit.comm.world().barrier()
    print("ended")
    """,
        ranks=2,
    )
    assert done.stdout.count("ended") == 2
