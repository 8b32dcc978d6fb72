"""Preconditioners of hierarchical matrices, one triangle of them, and coarse copies, from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacit


def charges(n: int) -> tuple[np.ndarray, Any]:
    """1 / r between points on a sphere, half of which are close together: an ill-conditioned matrix."""
    k = np.arange(n)
    z = 1 - (2 * k + 1) / n
    r, angle = np.sqrt(1 - z * z), 2.399963229728653 * k
    p = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    p[::2] = 0.02 * p[::2] + [1.5, 0, 0]
    size = np.where(k % 2 == 0, 1e-3, 5e-2)

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        d = np.linalg.norm(p[i][:, None] - p[j][None], axis=2)
        return np.asarray(1 / np.hypot(d, np.where(i[:, None] == j[None], size[i][:, None], 0)))

    return p, entries


@pytest.fixture(scope="module")
def matrix() -> tuple[tacit.HMatrix, np.ndarray]:
    p, entries = charges(700)
    return tacit.hmatrix(p, entries, tolerance=1e-5, leaf_size=32), entries(np.arange(700), np.arange(700))


def test_each_of_them_saves_iterations(matrix: tuple[tacit.HMatrix, np.ndarray]) -> None:
    A, a = matrix
    b = np.random.default_rng(0).standard_normal(700)
    plain = tacit.solve(A, b, method="bicgstab", rtol=1e-6, fallbacks=False)
    for precond, most in (
        ("jacobi", plain.iterations),
        ("block-jacobi", plain.iterations - 1),
        ({"name": "hlu", "tolerance": 1e-2}, 5),
        ({"name": "hlu", "tolerance": 0.3, "rank": 1}, 15),
        ("inner", plain.iterations // 4),
        ({"name": "inner", "method": "gmres", "iterations": 10, "rank": 2}, plain.iterations // 2),
    ):
        result = tacit.solve(A, b, method="bicgstab", precond=precond, rtol=1e-6, fallbacks=False)
        assert result.converged, (precond, result)
        assert result.iterations <= most, (precond, result)
        assert np.linalg.norm(A @ result.x - b) <= 1.1e-6 * np.linalg.norm(b)
    assert np.linalg.norm(a @ result.x - b) < 1e-3 * np.linalg.norm(b)
    # By itself gmres becomes the flexible one.
    result = tacit.solve(A, b, method="gmres", precond="inner", rtol=1e-6)
    assert result.converged
    assert result.iterations < 10
    assert result.restarts <= 2
    assert tacit.solve(A, b, precond="inner", rtol=1e-6).method == "fgmres"


def test_reports(matrix: tuple[tacit.HMatrix, np.ndarray]) -> None:
    A, a = matrix
    P = tacit.precond.make(A, "hlu", tolerance=1e-6, leaf_size=50, precision="full")
    assert isinstance(P, tacit.precond.Reporting)
    assert P.report["precision"] == "full"
    assert P.report["replaced_pivots"] == 0
    assert P.report["note"] == ""
    assert P.report["bytes"] > 0
    assert P.report["dense_blocks"] > 0
    b = np.ones(700)
    x = P @ b
    assert np.linalg.norm(a @ x - b) < 1e-2 * np.linalg.norm(b)
    y = np.random.default_rng(1).standard_normal(700)
    assert np.isclose(y @ x, (P.H @ y) @ b, rtol=1e-8)
    D = tacit.precond.make(A, "block_jacobi", size=100)
    assert isinstance(D, tacit.precond.Reporting)
    assert 7 <= D.report["blocks"] <= 16
    assert D.report["bytes"] < 700 * 100 * 4
    Q = tacit.precond.inner(A, iterations=3)
    _ = Q @ b
    assert Q.report["solves"] == 1
    assert Q.report["iterations"] == 3
    assert 0 < Q.report["worst_residual"] < 1
    assert Q.name.startswith("inner bicgstab (3 iterations on hmatrix")


def test_what_they_refuse(matrix: tuple[tacit.HMatrix, np.ndarray]) -> None:
    A, _ = matrix
    make = tacit.precond.make
    with pytest.raises(ValueError, match="did you mean 'hlu'"):
        make(A, "ilu")
    with pytest.raises(TypeError, match="did you mean 'tolerance'"):
        make(A, "hlu", tolerence=1)
    with pytest.raises(ValueError, match="tolerance of 2"):
        make(A, "hlu", tolerance=2.0)
    with pytest.raises(ValueError, match="leaf_size is 0"):
        make(A, "hlu", leaf_size=0)
    with pytest.raises(ValueError, match="size is -1"):
        make(A, "block-jacobi", size=-1)
    with pytest.raises(ValueError, match="precision"):
        make(A, "hlu", precision="half")
    with pytest.raises(ValueError, match=r"of tacit\.hmatrix operators"):
        make(tacit.poisson(5, assembled=True), "hlu")
    with pytest.raises(ValueError, match="iterations is 0"):
        tacit.precond.inner(A, iterations=0)
    with pytest.raises(ValueError, match="unknown method 'auto'"):
        tacit.precond.inner(A, method="auto")
    with pytest.raises(ValueError, match="rank is 0"):
        A.coarse(rank=0)


@pytest.mark.parametrize("kind", ["symmetric", "hermitian"])
def test_one_triangle(kind: str) -> None:
    p, plain = charges(600)
    phase = np.exp(1j * p[:, 0])

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        right = phase[j].conj() if kind == "hermitian" else phase[j]
        return np.asarray(phase[i][:, None] * plain(i, j) * right[None])

    A = tacit.hmatrix(p, entries, tolerance=1e-6, leaf_size=32, symmetry=kind)
    whole = tacit.hmatrix(p, entries, tolerance=1e-6, leaf_size=32)
    a = entries(np.arange(600), np.arange(600))
    assert A.report["bytes"] < 0.6 * whole.report["bytes"]
    X = np.random.default_rng(0).standard_normal((600, 3)) + 1j
    for ours, theirs in ((A @ X, a @ X), (A.H @ X, a.conj().T @ X), (A.T @ X, a.T @ X)):
        assert np.linalg.norm(ours - theirs) < 1e-5 * np.linalg.norm(theirs)
    assert A.is_hermitian() == (kind == "hermitian")
    with pytest.raises(ValueError, match="is not"):
        tacit.hmatrix(p, entries, leaf_size=32, symmetry="hermitian" if kind == "symmetric" else "symmetric")
    with pytest.raises(ValueError, match="with sources"):
        tacit.hmatrix(p, plain, sources=p, symmetry=kind)


def test_symmetric_positive_definite_by_cg() -> None:
    p, entries = charges(400)
    A = tacit.hmatrix(p, entries, tolerance=1e-6, leaf_size=32, symmetry="symmetric")
    assert A.is_hermitian()
    result = tacit.solve(A, np.ones(400), rtol=1e-5)
    assert result.method == "cg"
    assert result.converged


def test_cut_rank() -> None:
    p, entries = charges(600)
    A = tacit.hmatrix(p, entries, leaf_size=32, cut_rank=1)
    assert A.report["max_rank"] == 1
    assert A.report["estimated_error"] > 1e-4
    assert not A.report["warnings"]
    with pytest.raises(ValueError, match="cut_rank is -1"):
        tacit.hmatrix(p, entries, cut_rank=-1)


@pytest.mark.parametrize("scalar", ["float64", "complex64"])
def test_batches(scalar: str) -> None:
    p, plain = charges(600)
    phase = np.exp(1j * p[:, 0]) if scalar == "complex64" else np.ones(600)

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(phase[i][:, None] * plain(i, j) * phase[j][None]).astype(scalar)

    A = tacit.hmatrix(p, entries, leaf_size=32)
    X = np.random.default_rng(0).standard_normal((600, 2)).astype(scalar)
    y = A @ X
    after: Any = A.batches
    assert after is None
    tolerance = 1e-12 if scalar == "float64" else 1e-5
    for order in ("none", "rows", "grouped", "columns"):
        for cut in ("count", "ranges"):
            for padded in (False, True):
                for queues in (1, 3):
                    plan = A.use_batches(order, cut, 100, (8, 32), padded, queues)
                    assert np.linalg.norm(A @ X - y) <= tolerance * np.linalg.norm(y), (order, cut, padded, queues)
                    batches = plan["batches"]
                    assert sum(b["tasks"] for b in batches) == plan["tasks"]
                    assert all(b["tasks"] <= 100 for b in batches)
                    assert sum(b["numbers"] for b in batches) * np.dtype(scalar).itemsize == plan["bytes"]
                    assert (plan["padded_bytes"] > plan["bytes"]) == padded
                    if cut == "ranges":
                        assert all(b["rows"][1] < 8 or b["rows"][0] >= 8 for b in batches)
                    assert all(b["thread_blocks"][0] <= b["thread_blocks"][1] for b in batches)
                    after = A.batches
                    assert sum(b["seconds"] for b in after["batches"]) > 0
    A.use_own_product()
    after = A.batches
    assert after is None
    assert np.array_equal(A @ X, y)
    mistakes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"order": "size"}, "order"),
        ({"cut": "all"}, "cut"),
        ({"count": 0}, "0 tasks"),
        ({"queues": 0}, "0 queues"),
        ({"ranges": (32, 8)}, "not ascending"),
    )
    for wrong, text in mistakes:
        with pytest.raises(ValueError, match=text):
            A.use_batches(**wrong)
