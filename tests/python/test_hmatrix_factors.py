"""Factors of hierarchical matrices: solves, determinants, shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
    assert "was added to the diagonal" in shifted.report["note"]
    with pytest.raises(tacit.Error, match=r"(?s)cholesky .*stored as none"):
        tacit.precond.factorise(tacit.hmatrix(points, covariance(points, 0.3, 1), tolerance=1e-3), factors="cholesky")


def test_refused(process: tuple[tacit.HMatrix, np.ndarray]) -> None:
    A, _ = process
    with pytest.raises(ValueError, match=r"factors .*choleski"):
        tacit.precond.factorise(A, factors="choleski")
    with pytest.raises(ValueError, match="samples is 1"):
        tacit.precond.factorise(A, 0.1).logdet_error(samples=1)
    assert np.isfinite(tacit.precond.factorise(A, 0.1).slogdet()[1])
