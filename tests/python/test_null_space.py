"""Singular systems: null spaces that are given, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import laplacian

import tacit


def neumann(n: int) -> Any:
    """The 1-D Laplacian whose null space is the constant vectors."""
    diagonal = np.full(n, 2.0)
    diagonal[[0, -1]] = 1.0
    off = -np.ones(n - 1)
    return sp.diags_array([off, diagonal, off], offsets=[-1, 0, 1]).tocsr()


def test_nullspace() -> None:
    n = 12
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    line[0, 0] = line[n - 1, n - 1] = 1
    a = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
    b = np.random.default_rng(1).standard_normal(n * n)
    for method in ("auto", "cg", "minres", "gmres", "bicgstab"):
        for space in ("constant", np.full(n * n, 3.0)):
            r = tacit.solve(a, b, method=method, nullspace=space)
            assert r.converged, (method, r.detail)
            assert abs(r.x.sum()) <= 1e-10 * np.linalg.norm(r.x)
            rest = b - b.mean()
            assert np.linalg.norm(rest - a @ r.x) <= 1.01e-8 * np.linalg.norm(rest)
            assert abs(r.projected_norm - abs(b.mean()) * n) <= 1e-12 * np.linalg.norm(b)
            assert any("least-squares" in text for text in r.warnings)
    several = np.column_stack([b, b[::-1], np.ones(n * n)])
    for method, precond in (("auto", None), ("ca-cg", None), ("gmres", "jacobi")):
        many = tacit.solve(a, several, method=method, precond=precond, nullspace="constant")
        assert many.converged
        rest = several - several.mean(axis=0)
        assert np.all(np.linalg.norm(rest - a @ many.x, axis=0) <= 1.01e-8 * np.linalg.norm(rest, axis=0) + 1e-12)
        assert np.all(np.abs(many.x.sum(axis=0)) <= 1e-10 * np.linalg.norm(many.x))
    two = sp.block_diag([a, a], format="csr")
    each = np.kron(np.eye(2), np.ones((n * n, 1)))
    r = tacit.solve(two, np.arange(2.0 * n * n), method="minres", nullspace=each)
    assert r.converged
    assert np.all(np.abs(each.T @ r.x) <= 1e-10 * np.linalg.norm(r.x))
    with pytest.raises(ValueError, match="not in the null space of A"):
        tacit.solve(a, b, nullspace=b)
    with pytest.raises(ValueError, match="nullspace is 'linear'"):
        tacit.solve(a, b, nullspace="linear")


def test_nullspace_on_ranks_without_rows() -> None:
    n = 30
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    line[0, 0] = line[n - 1, n - 1] = 1
    a = sp.csr_array(line)
    b = np.arange(float(n)) - (n - 1) / 2

    def rank(comm: Any) -> None:
        mine = slice(0, n) if comm.rank == 1 else slice(0, 0)
        A = tacit.csr(a[mine], own_rows=True, comm=comm)
        for space in (np.ones((n, 1))[mine], np.ones(n)[mine]):
            r = tacit.solve(A, b[mine], method="cg", nullspace=space)
            assert r.converged
            assert abs(r.x.sum()) <= 1e-10 * n
            assert np.linalg.norm(b[mine] - (a @ r.x)[mine] if comm.rank == 1 else 0) <= 1.01e-8 * np.linalg.norm(b)

    tacit.comm.run_threads(3, rank)


@pytest.mark.parametrize("method", ["cg", "minres"])
def test_nullspace_is_taken_out_of_what_the_preconditioner_gives(method: str) -> None:
    n = 12
    line = laplacian(n).tolil()
    line[0, 0] = line[n - 1, n - 1] = 1
    a = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
    b = np.random.default_rng(1).standard_normal(n * n)
    # The identity and a large constant: without the projection it drowns the directions.
    far = tacit.function(a.shape, lambda r: r + 1e10 * r[0])
    plain = tacit.solve(a, b, method=method, nullspace="constant", precond="none", fallbacks=False)
    r = tacit.solve(a, b, method=method, nullspace="constant", precond=far, fallbacks=False)
    assert r.converged
    assert abs(r.iterations - plain.iterations) <= 4
    assert abs(r.x.sum()) <= 1e-10 * np.linalg.norm(r.x)


def test_nullspace_of_a_matrix_that_is_zero() -> None:
    r = tacit.solve(sp.csr_array((3, 3)), np.array([1.0, 2.0, 3.0]), method="gmres", nullspace=np.eye(3))
    assert r.converged
    assert np.all(r.x == 0)
    assert r.projected_norm == pytest.approx(np.sqrt(14))


def test_nullspace_and_a_failure_that_is_not_the_preconditioners() -> None:
    n = 50
    line = laplacian(n).tolil()
    line[0, 0] = line[n - 1, n - 1] = 1
    r = tacit.solve(line.tocsr(), np.arange(n), method="chebyshev", precond="jacobi", nullspace="constant", rtol=1e-12)
    assert not r.converged  # or else the words below are not looked at
    assert "is not Hermitian" not in r.detail


def test_auto_returns_no_x_worse_than_x0() -> None:
    A, b = neumann(50), np.arange(50.0)
    result = tacit.solve(tacit.csr(A), b)
    assert not result.converged
    assert np.linalg.norm(b - A @ result.x) <= (1 + 1e-12) * np.linalg.norm(b)


def test_auto_explains_with_the_null_space_taken_out() -> None:
    A, b = tacit.csr(neumann(50)), np.arange(50.0)
    result = tacit.solve(A, b, method="chebyshev", precond="auto", nullspace="constant")
    assert "no x brings" not in str(result)


def test_null_space_of_subnormal_numbers() -> None:
    b = np.arange(50.0) - 24.5
    result = tacit.solve(tacit.csr(neumann(50)), b, method="cg", precond="none", nullspace=np.full(50, 1e-310))
    assert result.converged
