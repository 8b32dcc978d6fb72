"""Factors of hierarchical matrices: solves, determinants, shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run

import tacit


def covariance(points: np.ndarray, length: float, nugget: float) -> Any:
    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        d = np.linalg.norm(points[i][:, None] - points[j][None], axis=2) / length
        return np.asarray(np.exp(-d) + nugget * (i[:, None] == j[None]))

    return entries


@pytest.fixture(scope="module")
def process() -> tuple[tacit.HMatrix, np.ndarray]:
    """The covariance of a Gaussian process at 900 points of the plane."""
    n = 900
    entries = covariance(np.random.default_rng(0).random((n, 2)), 0.3, 1e-3)
    A = tacit.hmatrix(
        np.random.default_rng(0).random((n, 2)), entries, symmetry="hermitian", tolerance=1e-9, leaf_size=32
    )
    return A, entries(np.arange(n), np.arange(n))


def test_factors_solve_and_know_the_determinant(process: tuple[tacit.HMatrix, np.ndarray]) -> None:
    A, a = process
    b = np.random.default_rng(1).standard_normal(len(a))
    exact = np.linalg.slogdet(a)
    for factors in ("auto", "lu"):
        F = tacit.precond.factorise(A, factors=factors, leaf_size=64)
        assert F.report["factors"] == ("cholesky" if factors == "auto" else "lu")
        assert F.report["shift"] == 0
        assert F.report["low_rank_blocks"] > 0
        sign, log = F.slogdet()
        assert sign == exact[0]
        assert abs(log - exact[1]) < 1e-4
        assert abs(log - exact[1]) <= F.logdet_error() + 1e-6
        result = tacit.solve(A, b, precond=F, rtol=1e-10)
        assert result.converged
        assert result.method == "cg" or factors == "lu"
        assert result.iterations <= 4
        assert np.linalg.norm(b - a @ result.x) <= 1e-6 * np.linalg.norm(b)
    # A loose tolerance: the error that is reported grows, and stays an estimate of the true one.
    loose = tacit.precond.factorise(A, 1e-4, leaf_size=64)
    error = abs(loose.slogdet()[1] - exact[1])
    assert error > 1e-4
    assert error < 3 * loose.logdet_error()
    assert tacit.solve(A, b, precond=loose, rtol=1e-10).converged


def test_products_in_blocks_of_large_rank_lose_no_digits() -> None:
    """Updates of a block whose rank is a large part of its size are added up densely, and truncated once."""
    points = np.random.default_rng(0).random((1500, 3))
    A = tacit.hmatrix(points, "matern32", length=0.2, nugget=0.01, tolerance=1e-9, symmetry="hermitian")
    a = A @ np.eye(1500)
    exact = np.linalg.slogdet((a + a.T) / 2)[1]
    for factors in ("cholesky", "lu"):
        F = tacit.precond.factorise(A, 1e-6, leaf_size=50, factors=factors)
        assert F.report["mean_rank"] > 30
        assert abs(F.slogdet()[1] - exact) < 1e-5


def test_a_matrix_that_is_not_positive_definite(process: tuple[tacit.HMatrix, np.ndarray]) -> None:
    a = process[1]
    n = len(a)
    points = np.random.default_rng(0).random((n, 2))
    B = tacit.hmatrix(points, covariance(points, 0.3, -0.01), symmetry="hermitian", tolerance=1e-9, leaf_size=32)
    exact = np.linalg.slogdet(a - 0.011 * np.eye(n))
    F = tacit.precond.factorise(B, leaf_size=64)
    assert F.report["factors"] == "lu"
    assert F.slogdet()[0] == exact[0]
    assert abs(F.slogdet()[1] - exact[1]) < 1e-2
    shifted = tacit.precond.factorise(B, 1e-3, leaf_size=64)
    assert shifted.report["factors"] == "cholesky"
    assert shifted.report["shift"] > 0
    assert shifted.logdet_error() == np.inf
    assert "was added to the diagonal" in shifted.report["note"]
    with pytest.warns(RuntimeWarning, match=r"not that of A: .*was added to the diagonal"):
        shifted.slogdet()
    with pytest.raises(tacit.Error, match=r"(?s)cholesky .*stored as none"):
        tacit.precond.factorise(tacit.hmatrix(points, covariance(points, 0.3, 1), tolerance=1e-3), factors="cholesky")


def test_refused(process: tuple[tacit.HMatrix, np.ndarray]) -> None:
    A, _ = process
    with pytest.raises(ValueError, match=r"factors .*choleski"):
        tacit.precond.factorise(A, factors="choleski")
    with pytest.raises(ValueError, match="samples is 1"):
        tacit.precond.factorise(A, 0.1).logdet_error(samples=1)
    with pytest.warns(RuntimeWarning, match="was added to the diagonal"):
        assert np.isfinite(tacit.precond.factorise(A, 0.1).slogdet()[1])


def test_a_singular_matrix_has_no_determinant() -> None:
    x = np.linspace(0, 1, 60)
    F = tacit.precond.factorise(tacit.hmatrix(x, lambda i, j: np.ones((len(i), len(j))), tolerance=1e-6))
    with pytest.raises(ValueError, match="replaced, so that A is singular"):
        F.slogdet()


def test_universal_kriging_as_by_the_dense_system() -> None:
    """Means and variances with a trend, from factors, beside those of the bordered matrix; points repeat."""
    rng = np.random.default_rng(2)
    points, new = rng.random((900, 2)), rng.random((40, 2))
    points[850:] = points[:50]
    length, sill, nugget = np.array([0.4, 0.25]), 9.0, 0.04
    values = 5 + 2 * points[:, 0] + np.sin(6 * points[:, 1]) + 0.2 * rng.standard_normal(900)

    def dense(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        a = 5**0.5 * np.linalg.norm((x[:, None] - y[None]) / length, axis=2)
        return np.asarray(sill * (1 + a + a**2 / 3) * np.exp(-a))

    kernel: dict[str, Any] = {"length": length, "variance": sill, "tolerance": 1e-11, "leaf_size": 32}
    A = tacit.hmatrix(points, "matern52", nugget=nugget, symmetry="hermitian", **kernel)
    F = tacit.precond.factorise(A, leaf_size=64)
    assert F.report["low_rank_blocks"] > 0
    T, t = np.c_[np.ones(900), points], np.c_[np.ones(40), new].T
    solved = tacit.solve(A, np.c_[values, T], precond=F, rtol=1e-10).x
    inner = T.T @ solved[:, 1:]
    beta = np.linalg.solve(inner, T.T @ solved[:, 0])
    k = tacit.hmatrix(points, "matern52", sources=new, **kernel) @ np.eye(40)
    left = t - T.T @ (F @ k)
    mean = t.T @ beta + k.T @ (solved[:, 0] - solved[:, 1:] @ beta)
    variance = sill - (k * (F @ k)).sum(0) + (left * np.linalg.solve(inner, left)).sum(0)

    bordered = np.block([[dense(points, points) + nugget * np.eye(900), T], [T.T, np.zeros((3, 3))]])
    right = np.r_[dense(points, new), t]
    exact = np.linalg.solve(bordered, right)
    assert np.abs(mean - exact[:900].T @ values).max() < 1e-6
    assert np.abs(variance - (sill - (exact * right).sum(0))).max() < 1e-7


def test_repeated_points_without_a_nugget_are_named() -> None:
    points = np.random.default_rng(3).random((600, 2))
    points[500:] = points[:100]
    F = tacit.precond.factorise(tacit.hmatrix(points, "matern52", length=0.3, tolerance=1e-10, symmetry="hermitian"))
    assert F.report["shift"] > 0
    with pytest.warns(RuntimeWarning, match="larger nugget"):
        F.slogdet()


@pytest.mark.slow
def test_factors_need_little_more_than_their_own_memory(python: Run) -> None:
    """A's blocks are not unpacked all at once: that took another 0.6 of the factors' memory."""
    done = python(f"""
    import sys

    sys.path.insert(0, {str(ROOT / "bench")!r})
    import harness
    import numpy as np
    import tacit

    points = np.random.default_rng(0).random((4000, 3))
    given = {{"length": 0.2, "nugget": 0.01, "tolerance": 1e-8, "symmetry": "hermitian"}}
    A = tacit.hmatrix(points, "matern32", **given)
    F, grown = harness.growth(lambda: tacit.precond.factorise(A))
    print(grown * 2**20 / F.report["bytes"])
    """)
    assert float(done.stdout) < 1.1


def test_far_blocks_without_low_rank_stay_dense() -> None:
    """Six dimensions: blocks that the matrix has as dense ones are made low-rank ones by looser factors only."""
    points = np.random.default_rng(0).random((1000, 6))
    given: dict[str, Any] = {"nugget": 0.01, "tolerance": 1e-8, "symmetry": "hermitian", "admissibility": "weak"}
    A = tacit.hmatrix(points, "matern52", **given)
    F = tacit.precond.factorise(A)
    assert A.report["low_rank_blocks"] == F.report["low_rank_blocks"] == 0
    assert F.report["bytes"] < 1.2 * 4 * 1000 * 1001
    d = 5**0.5 * np.linalg.norm(points[:, None] - points[None], axis=2)
    exact = np.linalg.slogdet((1 + d + d**2 / 3) * np.exp(-d) + 0.01 * np.eye(1000))[1]
    assert F.slogdet()[1] == pytest.approx(exact, rel=1e-7, abs=0)
    assert tacit.precond.factorise(A, 1e-1).report["low_rank_blocks"] > 0
