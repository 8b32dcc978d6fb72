"""Checkpoints of solves: what is kept, and from where the next run goes on, also on other numbers of ranks."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import clean_environment, needs_mpi
from cli_support import refused as cli_refused
from cli_support import tacit as command
from conftest import Run

import tacit

N = 60


@pytest.fixture(scope="module")
def system() -> tuple[sp.csr_array, np.ndarray]:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(N, N))
    A = sp.csr_array(sp.kron(line, sp.eye_array(N)) + sp.kron(sp.eye_array(N), line))
    return A, np.random.default_rng(0).standard_normal(N * N)


def test_a_solve_goes_on_where_it_ended(system: tuple[sp.csr_array, np.ndarray], tmp_path: pathlib.Path) -> None:
    A, b = system
    path = tmp_path / "run.npz"
    whole = tacit.solve(A, b, method="cg")
    first = tacit.solve(A, b, method="cg", max_iterations=50, checkpoint=tacit.Checkpoint(path, every=20))
    assert first.reason == "max_iterations"
    with np.load(path) as kept:
        assert int(kept["iterations"]) == 50
        residual = np.linalg.norm(b - A @ kept["x"]) / np.linalg.norm(b)
        assert np.isclose(residual, float(kept["residual_norm"]), rtol=1e-6)
        assert residual < 1
    keep = tacit.Checkpoint(path)
    second = tacit.solve(A, b, method="gmres", precond="ilu0", checkpoint=keep)  # any other method
    assert second.converged
    assert (keep.resumed, keep.resumed_residual) == (50, pytest.approx(first.residual_norm))
    assert np.linalg.norm(b - A @ second.x) <= 1e-8 * np.linalg.norm(b)
    assert np.linalg.norm(second.x - whole.x) <= 1e-6 * np.linalg.norm(whole.x)
    # From the end of a solve there is nothing left to do.
    third = tacit.solve(A, b, checkpoint=path)
    assert third.converged
    assert third.iterations == 0


def test_the_best_iterate_stays(system: tuple[sp.csr_array, np.ndarray], tmp_path: pathlib.Path) -> None:
    A, b = system
    path = tmp_path / "run.npz"
    assert tacit.solve(A, b, method="cg", checkpoint=path).converged
    before = path.read_bytes()
    seen = []
    worse = tacit.solve(
        A, b, method="bicgstab", rtol=1e-12, max_iterations=3, checkpoint=tacit.Checkpoint(path, every=1),
        callback=lambda state: seen.append(state.iteration),
    )  # fmt: skip
    assert seen == [1, 2, 3]
    with np.load(path) as kept:
        assert float(kept["residual_norm"]) <= max(worse.residual_norm, 1e-8)
    assert not pathlib.Path(f"{path}.part").exists()
    assert len(before) > 8 * N * N


def test_several_columns_and_scalars(system: tuple[sp.csr_array, np.ndarray], tmp_path: pathlib.Path) -> None:
    A, b = system
    B = np.stack([b, 2 * b[::-1], np.ones(len(b))], axis=1)
    for name, matrix, right in (
        ("columns", A, B),
        ("complex", A + 0.1j * sp.eye_array(N * N), b),
        ("column", A, B[:, :1]),
    ):
        path = tmp_path / f"{name}.npz"
        keep = tacit.Checkpoint(path, every=10)
        method = "gmres" if name == "complex" else "cg"
        assert not tacit.solve(matrix, right, method=method, max_iterations=40, checkpoint=keep).converged
        result = tacit.solve(matrix, right, method=method, checkpoint=path)
        assert result.converged
        assert result.x.shape == right.shape
        assert np.linalg.norm(right - matrix @ result.x) <= 2e-8 * np.linalg.norm(right)


def test_any_matrix_and_numbers_of_any_size(tmp_path: pathlib.Path) -> None:
    a = np.diag(np.arange(1.0, 41)) + np.diag(np.full(39, -0.4), 1) + np.diag(np.full(39, -0.4), -1)
    b = np.random.default_rng(3).standard_normal(40)
    for name, A, right in (("array", a, b), ("list", a.tolist(), b), ("large", a, 1e200 * b), ("small", a, 1e-200 * b)):
        keep = tacit.Checkpoint(tmp_path / f"{name}.npz", every=2)
        assert not tacit.solve(A, right, method="cg", max_iterations=5, checkpoint=keep).converged
        assert tacit.solve(A, right, method="cg", checkpoint=keep).converged
        assert keep.resumed == 5
        with pytest.raises(tacit.InputError, match="of a right-hand side of norm"):
            tacit.solve(A, 2 * right, method="cg", checkpoint=keep)
        os.remove(keep.path)
        tacit.solve(A, right, method="cg", checkpoint=keep)
        assert keep.resumed == 0


def test_what_did_not_converge_is_kept_also_where_that_raises(tmp_path: pathlib.Path) -> None:
    A, path = tacit.poisson((30, 30)), tmp_path / "run.npz"
    with pytest.raises(tacit.NotConverged):
        tacit.solve(A, np.ones(900), method="cg", max_iterations=9, checkpoint=path, raise_on_failure=True)
    with np.load(path) as kept:
        assert int(kept["iterations"]) == 9


def test_refused(system: tuple[sp.csr_array, np.ndarray], tmp_path: pathlib.Path) -> None:
    A, b = system
    path = tmp_path / "run.npz"
    tacit.solve(A, b, method="cg", max_iterations=5, checkpoint=path)
    with pytest.raises(tacit.InputError, match="of a right-hand side of norm"):
        tacit.solve(A, 2 * b, checkpoint=path)
    with pytest.raises(tacit.InputError, match=r"shape \(3600,\) where finite numbers \(100,\)"):
        tacit.solve(sp.eye_array(100, format="csr"), np.ones(100), checkpoint=path)
    with pytest.raises(ValueError, match="every is 0"):
        tacit.Checkpoint(path, every=0)
    with pytest.raises(ValueError, match="relative_to"):
        tacit.solve(A, b, checkpoint=path, relative_to="first")
    np.savez(path, x=b)
    with pytest.raises(tacit.InputError, match="expected a checkpoint of a solve"):
        tacit.solve(A, b, checkpoint=path)
    path.write_bytes(b"PK\3\4 something else")
    with pytest.raises(tacit.InputError, match=r"run\.npz"):
        tacit.solve(A, b, checkpoint=path)
    for wrong in (b"run.npz", ""):
        with pytest.raises(ValueError, match="the path of a checkpoint"):
            tacit.solve(A, b, checkpoint=wrong)
    good = {"version": 1, "x": b, "iterations": 3, "residual_norm": 0.1, "b_norm": np.ones(2)}
    for change in ({"x": np.array(["a", "b"])}, {"b_norm": "hi"}, {"iterations": np.ones(3)}, {"version": "x"}):
        np.savez(path, **(good | change))
        with pytest.raises(tacit.InputError, match=r"run\.npz"):
            tacit.solve(A, b, checkpoint=path)
    with pytest.warns(UserWarning, match="was not written"):
        assert tacit.solve(A, b, method="cg", checkpoint=tmp_path / "no" / "where.npz").converged


@pytest.mark.mpi
@pytest.mark.parametrize("whole", [True, False])
def test_ranks_keep_one_file(python: Run, tmp_path: pathlib.Path, whole: bool) -> None:
    program = f"""
        import os
        import numpy as np
        import tacit
        comm, path, whole = tacit.comm.world(), {str(tmp_path / "run.npz")!r}, {whole}
        A = tacit.poisson((30, 30), comm=comm)
        b = np.random.default_rng(0).standard_normal(900)
        own = b if whole else b[A.own_range[0]:A.own_range[1]]
        assert not tacit.solve(A, own, method="cg", max_iterations=11, checkpoint=path).converged
        assert int(np.load(path)["iterations"]) == 11  # on every rank
        assert tacit.solve(A, own, method="cg", checkpoint=path).converged
        for wrong in (tacit.Checkpoint(path, every=3 + comm.rank), path + str(comm.rank)):
            try:
                tacit.solve(A, own, method="cg", checkpoint=wrong)
            except ValueError as error:
                assert "all ranks must give the same" in str(error), error
            else:
                raise AssertionError("nothing was refused")
        print("done")
    """
    assert python(program, ranks=2).stdout.count("done") == 2


def running(word: str) -> list[int]:
    """The processes with this word among their arguments."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def killed(path: pathlib.Path, *words: object) -> None:
    """Starts a solve that takes long, and kills all of its processes once it has kept something."""
    started = subprocess.Popen(
        [sys.executable, "-m", "tacit", "solve", *map(str, words), "--checkpoint", str(path)],
        env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 100
    while not path.exists():
        assert started.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    for pid in running(str(path)):
        os.kill(pid, signal.SIGKILL)
    assert started.wait() != 0


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=needs_mpi)])
def test_a_killed_command_goes_on(system: tuple[sp.csr_array, np.ndarray], tmp_path: pathlib.Path, ranks: int) -> None:
    A, b = system
    matrix, right = tmp_path / "A.npz", tmp_path / "b.npy"
    sp.save_npz(matrix, sp.csr_matrix(A))
    np.save(right, b)
    path = tmp_path / f"kept-{ranks}.npz"
    slow = ["--method", "richardson", "--precond", "jacobi", "--relaxation", "0.5", "--max-iterations", "1000000"]
    killed(path, matrix, "--rhs", right, *slow, "--every", 20, "--ranks", ranks, "--no-fallbacks")
    kept = path.read_bytes()
    answer = tacit.solve(A, b, method="cg", rtol=1e-10).x
    for again in (1, 2, 3) if ranks > 1 else (1,):
        path.write_bytes(kept)
        x, facts = tmp_path / "x.npy", tmp_path / "facts.json"
        words = ["--rhs", right, "--method", "cg", "--rtol", "1e-10", "--ranks", again, "--output", x, "--json", facts]
        done = command("solve", matrix, *words, "--checkpoint", path)
        assert "went on after" in done.stdout
        assert json.loads(facts.read_text())["resumed"]["iterations"] >= 20
        assert np.linalg.norm(np.load(x) - answer) <= 1e-7 * np.linalg.norm(answer)


def test_refused_by_the_command(tmp_path: pathlib.Path) -> None:
    matrix = tmp_path / "A.npz"
    sp.save_npz(matrix, sp.eye_array(9, format="csr"))
    assert "--checkpoint" in cli_refused("solve", matrix, "--every", "5")
    assert "--simulate" in cli_refused("solve", matrix, "--checkpoint", tmp_path / "c.npz", "--simulate", "4")
    assert "square" in cli_refused("solve", matrix, "--checkpoint", tmp_path / "c.npz", "--method", "lsmr")
    assert "every is 0" in cli_refused("solve", matrix, "--checkpoint", tmp_path / "c.npz", "--every", "0")
    assert ".npz" in cli_refused("solve", matrix, "--checkpoint", tmp_path / "c.txt")
