"""Arithmetic and factors of H-matrices from Python, beside dense matrices."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tacit

N = 300
X = np.random.default_rng(0).random((N, 2))
R = np.linalg.norm(X[:, None] - X[None], axis=2)


def made(name: str = "matern32", length: float = 0.5, **options: Any) -> tuple[tacit.HMatrix, np.ndarray]:
    """An H-matrix of the points and its dense entries."""
    A = tacit.hmatrix(X, name, length=length, tolerance=1e-9, leaf_size=16, **options)
    return A, A @ np.eye(N)


def hermitian(symmetry: str = "hermitian") -> tuple[tacit.HMatrix, np.ndarray]:
    phase = np.exp(3j * X[:, 0])

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(phase[i][:, None] * (np.exp(-R[np.ix_(i, j)]) + (i[:, None] == j[None])) * phase[j].conj())

    A = tacit.hmatrix(X, entries, tolerance=1e-9, leaf_size=16, symmetry=symmetry)
    return A, entries(np.arange(N), np.arange(N))


def error(ours: tacit.Operator, exact: np.ndarray) -> float:
    return float(np.linalg.norm(ours @ np.eye(N) - exact) / np.linalg.norm(exact))


def test_expressions_become_one_matrix() -> None:
    (A, a), (B, b) = made(), made("gaussian", 0.3)
    U, V = np.random.default_rng(1).standard_normal((2, N, 3))
    d = np.linspace(1, 2, N)
    cases = (
        (2 * A - B / 4, 2 * a - b / 4),
        (A @ B, a @ b),
        ((3 * (A @ B) + B).shifted(-2) + A, 3 * a @ b + b - 2 * np.eye(N) + a),
        (A + tacit.low_rank(U, V), a + U @ V.T),
        ((A - tacit.low_rank(U)).shifted(1), a - U @ U.T + np.eye(N)),
        (0.5 * A + tacit.csr(np.diag(d)), 0.5 * a + np.diag(d)),
        (-A, -a),
    )
    for expression, exact in cases:
        C = expression.compressed(1e-7)
        assert isinstance(C, tacit.HMatrix)
        assert error(C, exact) < 1e-6, expression.name
        assert C.report["entries_evaluated"] == 0
        assert 0 < C.report["estimated_error"] < 1e-5
        assert np.allclose(C.diagonal(), np.diag(exact), atol=1e-5)
    assert (A + B).compressed().tolerance == 1e-9
    assert A.compressed(1e-2).report["mean_rank"] < A.report["mean_rank"]


def test_symmetry_is_kept() -> None:
    (A, a), (B, b) = hermitian(), hermitian()
    C = (2 * A + B).shifted(0.5).compressed(1e-7)
    assert C.symmetry == "hermitian"
    assert error(C, 2 * a + b + 0.5 * np.eye(N)) < 1e-6
    U = np.random.default_rng(1).standard_normal((N, 2)) + 1j
    assert error((A + tacit.low_rank(U)).compressed(1e-7), a + U @ U.conj().T) < 1e-6
    assert error((A.H @ B).compressed(1e-7), a @ b) < 1e-5
    with pytest.raises(ValueError, match="stored by one triangle"):
        (A + tacit.low_rank(U, 2 * U)).compressed(1e-7)
    with pytest.raises(ValueError, match="symmetry"):
        (A + hermitian("none")[0]).compressed(1e-7)
    with pytest.raises(ValueError, match=r"scale|shift"):
        A.shifted(1j).compressed(1e-7)


def test_inverse() -> None:
    for A, a in (made(nugget=0.1), hermitian("none")):
        inverse = A.inverse(1e-9)
        assert np.linalg.norm(a @ (inverse @ np.eye(N)) - np.eye(N)) < 1e-4
        assert np.allclose(inverse.diagonal(), np.diag(np.linalg.inv(a)), atol=1e-4)


def test_factors_of_multiples_and_shifts() -> None:
    b = np.linspace(-1, 1, N)
    for (A, a), cholesky in ((made(symmetry="hermitian"), True), (made(), False), (hermitian(), True)):
        B, dense = 2 * (0.5 * A).shifted(0.2), 2 * (0.5 * a + 0.2 * np.eye(N))
        F = tacit.precond.factorise(B, 1e-9)
        assert F.report["factors"] == ("cholesky" if cholesky else "lu")
        assert np.allclose(F.solve(b), np.linalg.solve(dense, b), atol=1e-5)
        assert np.allclose(F.slogdet(), np.linalg.slogdet(dense), atol=1e-4)
        assert F.logdet_error() < 1e-4
        solved = tacit.solve(B, b, precond=F, rtol=1e-10)
        assert solved.converged
        assert solved.iterations <= 2
        again = copy.deepcopy(F)
        assert np.array_equal(again @ b, F @ b)
        named = tacit.solve(B, b, precond={"name": "hlu", "tolerance": 1e-6}, rtol=1e-8)
        assert named.converged
        assert named.iterations <= 3
    # What is no multiple and shift is compressed first.
    A, a = made(nugget=1.0)
    F = tacit.precond.factorise(A @ A + tacit.low_rank(b), 1e-9)
    assert np.allclose(F.solve(b), np.linalg.solve(a @ a + np.outer(b, b), b), atol=1e-4)
    with pytest.raises(ValueError, match="compressed"):
        tacit.precond.make(A + A, "hlu")


def test_factors_updated_by_few_columns() -> None:
    rng = np.random.default_rng(1)
    U, V, b = rng.standard_normal((N, 2)), rng.standard_normal((N, 2)), rng.standard_normal(N)
    for A, a in (made(nugget=0.5, symmetry="hermitian"), made(nugget=0.5), hermitian()):
        F = tacit.precond.factorise(A)
        for given, dense in (((U,), a + U @ U.T), ((U, V), a + U @ V.T), ((b,), a + np.outer(b, b))):
            G = F.updated(*given)
            assert np.allclose(G.solve(b), np.linalg.solve(dense, b), atol=1e-5)
            assert np.allclose(G.slogdet(), np.linalg.slogdet(dense), atol=1e-4)
            assert np.allclose(G.H @ b, np.linalg.solve(dense.conj().T, b), atol=1e-5)
            assert 1 <= G.condition < 1e4
            assert np.array_equal(copy.deepcopy(G) @ b, G @ b)
            solved = tacit.solve(A + tacit.low_rank(*given, scalar=A.dtype), b, precond=G, rtol=1e-9)
            assert solved.converged
            assert solved.iterations <= 3
    assert F.updated(b, -a @ b / (b @ b)).condition > 1e6
    with pytest.raises(ValueError, match="as many columns"):
        F.updated(U, b)
    with pytest.raises(ValueError, match="U has shape"):
        F.updated(U[1:])
    with pytest.raises(ValueError, match="U has an element that is not finite"):
        F.updated(np.full(N, np.nan))


def test_factors_on_ranks_are_those_of_one() -> None:
    b = np.linspace(-1, 1, N)
    expected = tacit.precond.factorise(made(nugget=0.1, symmetry="hermitian")[0], leaf_size=16)
    (A, a), (B, _) = made(nugget=0.1), made("gaussian", 0.3)
    lu = tacit.precond.factorise(A, leaf_size=16)
    product = (A @ B + A).compressed(1e-7) @ b

    def rank(comm: Any) -> None:
        options: dict[str, Any] = {"tolerance": 1e-9, "leaf_size": 16, "nugget": 0.1, "length": 0.5, "comm": comm}
        for symmetry, one in (("hermitian", expected), ("none", lu)):
            mine = tacit.hmatrix(X, "matern32", symmetry=symmetry, **options)
            F = tacit.precond.factorise(mine, leaf_size=16)
            assert F.report["factors"] == one.report["factors"]
            assert np.allclose(F.solve(b), one.solve(b), atol=1e-6)
            assert np.allclose(F.slogdet(), one.slogdet(), atol=1e-6)
            assert F.report["most_bytes"] < F.report["bytes"]
            assert F.report["messages"] > 0
            assert F.report["message_bytes"] > 0
            assert np.allclose(F.updated(b).solve(b), one.updated(b).solve(b), atol=1e-6)
            loose = tacit.solve(mine, b, precond={"name": "hlu", "tolerance": 1e-2}, rtol=1e-8)
            alone = tacit.solve(
                A if symmetry == "none" else expected._kept, b, precond={"name": "hlu", "tolerance": 1e-2}, rtol=1e-8
            )
            assert abs(loose.iterations - alone.iterations) <= 1
        other = tacit.hmatrix(X, "gaussian", length=0.3, tolerance=1e-9, leaf_size=16, comm=comm)
        assert np.allclose((mine @ other + mine).compressed(1e-7) @ b, product, atol=1e-4)
        with pytest.raises(ValueError, match="ranks"):
            mine.inverse()

    tacit.comm.run_threads(3, rank)
    assert np.allclose(lu.solve(a @ b), b, atol=1e-5)


def test_determinants_of_matrices_without_far_field() -> None:
    """White noise alone, where every far block has rank 0."""
    options: dict[str, Any] = {"leaf_size": 16, "symmetry": "hermitian", "tolerance": 1e-9}
    A = tacit.hmatrix(X, lambda i, j: 0.25 * (i[:, None] == j[None]), **options)
    F = tacit.precond.factorise(A)
    assert np.isclose(F.slogdet()[1], N * np.log(0.25), rtol=1e-12)
    assert np.allclose(F.solve(np.ones(N)), 4)
    one = np.eye(N)[7]
    with pytest.raises(ValueError, match="singular"):
        F.updated(one, -0.25 * one)
    C = (A + tacit.csr(np.diag(np.arange(1.0, N + 1)))).compressed(1e-9)
    assert np.isclose(tacit.precond.factorise(C).slogdet()[1], np.log(np.arange(1, N + 1) + 0.25).sum(), rtol=1e-9)


def test_what_is_refused() -> None:
    A, _ = made()
    other = tacit.hmatrix(X[::-1].copy(), "matern32", length=0.5, leaf_size=16)
    with pytest.raises(ValueError, match="two cluster trees"):
        (A + other).compressed(1e-6)
    with pytest.raises(ValueError, match="two cluster trees"):
        (A @ other).compressed(1e-6)
    with pytest.raises(ValueError, match="no hierarchical form"):
        (A + tacit.poisson((N,))).compressed(1e-6)
    with pytest.raises(ValueError, match="beside its diagonal"):
        (A + tacit.poisson((N,), assembled=True)).compressed(1e-6)
    with pytest.raises(ValueError, match="tolerance is 2"):
        (A + A).compressed(2)
    with pytest.raises(ValueError, match="no blocks"):
        tacit.low_rank(np.ones(N)).shifted(1).compressed(1e-3)
    with pytest.raises(TypeError, match=r"tacit\.hmatrix"):
        tacit.precond.factorise(tacit.poisson((N,), assembled=True))
    large, small = (tacit.hmatrix(X, "matern32", variance=v, leaf_size=16) for v in (1e160, 1e-160))
    for one in (large @ small, large @ A, A @ small):  # they were zero
        with pytest.raises((tacit.InputError, ValueError), match="squares leave the range of float64"):
            one.compressed(1e-6)
    assert tacit.hmatrix(X, "matern32", sources=X + 1).shape == (N, N)
    with pytest.raises(ValueError, match="two cluster trees"):
        (2 * tacit.hmatrix(X, "matern32", sources=X + 1) + A).compressed(1e-6)
