"""The levels of algebraic multigrid as a table, a picture, and in the result of a solve."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import needs_mpi, refused
from cli_support import tacit as command
from conftest import laplacian

import tacit

N = 60


def test_what_levels_report() -> None:
    M = tacit.precond.amg(tacit.csr(laplacian(N, N)), coarsest=50)
    report = M.report
    assert report["cycles"] == 0
    assert all(level["setup_seconds"] > 0 and level["seconds"] == 0 for level in report["levels"])
    assert all(level["ranks"] == 1 for level in report["levels"])
    for _ in range(3):
        M @ np.ones(N * N)
    later = M.report
    assert later["cycles"] == 3
    assert all(level["seconds"] > 0 for level in later["levels"])
    assert [level["setup_seconds"] for level in later["levels"]] == [
        level["setup_seconds"] for level in report["levels"]
    ]


@pytest.mark.parametrize("cycle", ["V", "W", "F", "K"])
def test_levels_take_the_time_of_cycles(cycle: str) -> None:
    """Seconds of levels are parts of the cycle, none counted twice."""
    n = 200
    M = tacit.precond.amg(tacit.csr(laplacian(n, n)), cycle=cycle)
    b = np.ones(n * n)
    M @ b
    before = sum(level["seconds"] for level in M.report["levels"])
    start = time.perf_counter()
    for _ in range(5):
        M @ b
    whole = time.perf_counter() - start
    inside = sum(level["seconds"] for level in M.report["levels"]) - before
    assert 0 < inside <= whole


def test_table() -> None:
    M = tacit.precond.amg(tacit.csr(laplacian(N, N)), coarsest=50)
    lines = str(M).splitlines()
    assert lines[0] == repr(M)
    assert lines[1].split()[:4] == ["level", "unknowns", "entries", "a"]
    every = M.report["levels"]
    assert len(lines) == 3 + len(every)
    for line, level in zip(lines[2:], every, strict=False):
        words = line.replace(",", "").split()
        assert [int(words[1]), int(words[2])] == [level["rows"], level["entries"]]
    assert lines[-1].startswith(f"complexity {M.report['operator_complexity']:.2f} (entries)")
    assert len({len(line) for line in lines[2:-1]}) == 1  # columns end alike
    M @ np.ones(N * N)
    shares = [int(line.split()[-2]) for line in str(M).splitlines()[2:-1]]
    assert abs(sum(shares) - 100) <= len(shares)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_picture(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    M = tacit.precond.amg(tacit.csr(laplacian(N, N)), coarsest=50)
    M @ np.ones(N * N)
    path = tmp_path / f"levels.{suffix}"
    M.plot(path)
    assert path.stat().st_size > 5000
    alone = tacit.precond.amg(tacit.csr(2 * np.eye(3)))  # one level, no cycle yet
    alone.plot(path)


def test_result_has_levels() -> None:
    A, b = tacit.csr(laplacian(N, N)), np.ones(N * N)
    r = tacit.solve(A, b, method="cg", precond="amg")
    assert r.levels is not None
    assert r.levels["levels"][0]["rows"] == N * N
    assert r.levels["cycles"] >= r.iterations
    M = tacit.precond.amg(A)
    assert tacit.solve(A, b, method="cg", precond=M, ordering="rcm").levels["cycles"] == M.report["cycles"] > 0
    assert tacit.solve(A, b, method="cg", precond="ic0").levels is None


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=[*needs_mpi, pytest.mark.slow])])
def test_command_line(tmp_path: Path, ranks: int) -> None:
    tacit.write(tmp_path / "A.mtx", laplacian(N, N))
    words: list[Any] = ["solve", "A.mtx", "--method", "cg", "--ranks", ranks, "--precond"]
    done = command(*words, "amg:coarsest=50", "--plot-levels", "l.png", "--json", "r.json", cwd=tmp_path)
    assert (tmp_path / "l.png").stat().st_size > 5000
    levels = json.loads((tmp_path / "r.json").read_text())["levels"]
    assert levels["levels"][0]["ranks"] == ranks
    assert f"complexity {levels['operator_complexity']:.2f} (entries)" in done.stdout
    assert "l.png (levels)" in done.stdout
    assert "complexity" not in command(*words, "ic0", cwd=tmp_path).stdout
    other = refused("solve", "A.mtx", "--precond", "ic0", "--plot-levels", "l.png", cwd=tmp_path)
    assert "--plot-levels is for --precond amg" in other
    wrong = refused("solve", "A.mtx", "--precond", "amg:smother=jacobi", cwd=tmp_path)
    assert 'amg has no option "smother"; did you mean "smoother"?' in wrong
    assert "unknown smoother" in refused("solve", "A.mtx", "--precond", "amg:smoother=sor", cwd=tmp_path)
    whole = command("solve", "--help").stdout
    assert all(word in whole for word in ("--plot-levels", "--coordinates", "--near-null"))


def test_auto_leaves_multigrid_out_where_coarse_matrices_fill() -> None:
    """A graph with few rows that have most of the entries, and a grid."""
    n = 6000
    rng = np.random.default_rng(0)

    def system(weight: np.ndarray) -> sp.csr_array:
        pairs = rng.choice(n, (8 * n, 2), p=weight / weight.sum())
        pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
        a = sp.coo_array((np.ones(len(pairs)), pairs.T), shape=(n, n)).tocsr()
        return sp.csr_array(sp.diags_array((a + a.T).sum(axis=1) + 1e-7) - a - a.T)

    def choice(a: sp.csr_array) -> str:
        r = tacit.solve(a, rng.standard_normal(n))
        assert r.converged
        return str(r.choice)

    assert "amg" not in choice(system((np.arange(n) + 10.0) ** -0.85))
    line = sp.csr_array(laplacian(100, 60))
    assert "amg" in str(tacit.solve(line, rng.standard_normal(n)).choice)


def bottoms(A: Any) -> tuple[tacit.Result, set[str]]:
    """A solve with amg, and the solvers of the coarsest level that ran."""
    b = A @ np.ones(A.shape[0])
    r = tacit.solve(tacit.csr(A), b, precond="amg", method="cg", trace=True)
    assert r.converged
    assert r.trace is not None
    return r, {e.name for e in r.trace} & {"dense inverse", "band factors"}


@pytest.mark.parametrize(
    ("A", "solver"),
    [
        (sp.diags_array(np.linspace(1, 2, 2000)), {"band factors"}),
        (sp.diags_array(np.linspace(1, 2, 3000)), set()),
        (sp.eye_array(44 * 44) + 1e-3 * laplacian(44, 44), set()),
        (laplacian(20, 20), {"band factors"}),
        (sp.block_diag([laplacian(3)] * 130), {"band factors"}),
        (sp.csr_array(np.eye(60) + 0.01 * np.ones((60, 60))), {"dense inverse"}),
    ],
    ids=["diagonal", "long diagonal", "time step", "grid", "blocks", "full"],
)
def test_the_coarsest_level_is_solved_by_the_cheapest_means(A: Any, solver: set[str]) -> None:
    """Levels that do not coarsen, and small ones: no dense inverse where rows have few entries."""
    assert bottoms(sp.csr_array(A))[1] == solver


def test_a_dominant_diagonal_takes_a_few_iterations() -> None:
    r, _ = bottoms(sp.csr_array(sp.eye_array(44 * 44) + 1e-3 * laplacian(44, 44)))
    assert r.iterations <= 3
