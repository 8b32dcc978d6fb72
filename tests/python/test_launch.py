"""Starting ranks: which mpiexec, which variables, and how a job ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import clean_environment, needs_mpi, poisson, tacit

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
    assert launch.environment(2, 3)["OMP_NUM_THREADS"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert launch.environment(2)["OMP_NUM_THREADS"] == "1"


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
        capture_output=True, text=True, env=clean_environment(), timeout=60, check=False,
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
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tacit", "mpirun", "-n", "2", str(script)],
            capture_output=True, text=True, env=clean_environment(), timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert "KeyError: 'lost'" in done.stderr
        assert time.monotonic() - start < 40

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
        """A solve that would go on for ever ends within seconds, all its ranks with it."""
        path = poisson(tmp_path / "p.mtx", 150)
        job = subprocess.Popen(
            [
                sys.executable, "-m", "tacit", "solve", str(path), "--ranks", "2", "--method", "richardson",
                "--relaxation", "0.2", "--rtol", "1e-15", "--max-iterations", "2000000000", "--monitor",
                "--json", "r.json",
            ],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(), cwd=tmp_path,
            start_new_session=True,
        )  # fmt: skip
        try:
            assert job.stdout is not None
            while not job.stdout.readline().strip().startswith("1 "):
                assert job.poll() is None, job.communicate()
            start = time.monotonic()
            job.send_signal(number)
            job.communicate(timeout=30)
            assert job.returncode == 128 + number
            assert time.monotonic() - start < 15
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        time.sleep(0.5)
        assert not ranks_of(str(path))
        assert not (tmp_path / "r.json").exists()


def ranks_of(word: str) -> list[int]:
    """Processes that have `word` on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if word in place.joinpath("cmdline").read_text() and int(place.name) != os.getpid():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_interrupt_of_one_rank(tmp_path: Path) -> None:
    path = poisson(tmp_path / "p.mtx", 150)
    words = [
        "--method",
        "richardson",
        "--relaxation",
        "0.2",
        "--rtol",
        "1e-15",
        "--max-iterations",
        "2000000000",
        "--monitor",
    ]
    job = subprocess.Popen(
        [sys.executable, "-u", "-m", "tacit", "solve", str(path), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(),
    )  # fmt: skip
    try:
        assert job.stdout is not None
        while not job.stdout.readline().strip().startswith("1 "):
            assert job.poll() is None, job.communicate()
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=30)
    finally:
        job.kill()
    assert job.returncode == 130
    assert err == "tacit solve: interrupted\n"


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
