"""Stored matrices of awkward shapes against SciPy: in every format, with values that fewer bits hold and others, on any
number of threads. Sizes stand beside the limits of slices (8 rows), tasks (8,192) and windows (16,384)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tacit
from tacit import _core

FORMATS = ("automatic", "csr", "sell", "bsr")
SIZES = (0, 1, 7, 8, 9, 17, 513)
LARGE = (8191, 8193, 16385)


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    before = _core.threads()
    yield
    _core.set_threads(before)


def band(rng: np.random.Generator, n: int) -> Any:
    offsets = [d for d in (-40, -2, 0, 1, 40) if abs(d) < n]
    return (
        sp.csr_array(sp.diags_array([1.0] * len(offsets), offsets=offsets, shape=(n, n))) if n else sp.csr_array((0, 0))
    )


def scattered(rng: np.random.Generator, n: int) -> Any:
    row = np.repeat(np.arange(n), 3)
    return sp.csr_array((np.ones(3 * n), (row, rng.integers(0, max(n, 1), 3 * n))), (n, n))


def with_holes(rng: np.random.Generator, n: int) -> Any:
    """Half of the rows are empty, also whole slices of them, and so are some places of a band."""
    a = band(rng, n).tocoo()
    keep = (rng.random(n) < 0.5)[a.row] & (a.row % 64 >= 24) & (rng.random(a.nnz) < 0.9)
    return sp.csr_array((a.data[keep], (a.row[keep], a.col[keep])), (n, n))


def with_a_dense_row(rng: np.random.Generator, n: int) -> Any:
    full = min(n, 3000)
    return band(rng, n) + sp.csr_array((np.ones(full), (np.full(full, n // 3), np.arange(full))), (n, n))


def with_a_dense_column(rng: np.random.Generator, n: int) -> Any:
    return band(rng, n) + sp.csr_array((np.ones(n), (np.arange(n), np.full(n, n // 2))), (n, n))


def with_blocks(rng: np.random.Generator, n: int) -> Any:
    return sp.csr_array(sp.block_diag([sp.kron(scattered(rng, n // 3), np.ones((3, 3))), sp.eye_array(n % 3)]))


PATTERNS = (band, scattered, with_holes, with_a_dense_row, with_a_dense_column, with_blocks)


def values(rng: np.random.Generator, n: int, kind: str) -> Any:
    if kind == "equal":
        return np.full(n, -1.5)
    if kind == "integers":
        return rng.integers(-127, 128, n).astype(float)
    if kind == "signed zeros":
        return rng.choice([0.0, -0.0, 3.0], n)
    if kind == "floats":
        return rng.standard_normal(n).astype(np.float32).astype(float)
    if kind == "subnormal floats":
        return rng.choice([1e-40, 5e-324, 2.0**-126, 1.0], n)
    return rng.standard_normal(n)


KINDS = ("equal", "integers", "signed zeros", "floats", "subnormal floats", "doubles")


def agree(A: tacit.Csr, a: Any, rng: np.random.Generator, columns: int | None) -> None:
    n = a.shape[1]
    x = rng.standard_normal(n if columns is None else (n, columns))
    x[rng.random(n) < 0.02] = rng.choice([np.inf, np.nan, -0.0])
    products = []
    for threads in (1, 3):
        _core.set_threads(threads)
        products.append(A @ x)
    assert products[0].tobytes() == products[1].tobytes()
    with np.errstate(invalid="ignore"):
        expected, size = a @ x, abs(a) @ np.abs(x)
    finite = np.isfinite(size)
    assert np.array_equal(np.isnan(products[0]), np.isnan(expected))
    assert np.all(np.abs(products[0][finite] - expected[finite]) <= 1e-13 * size[finite] + 1e-300)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("format", FORMATS)
def test_products_and_new_values(pattern: Any, format: str) -> None:
    """Every kind of values becomes another one in the same matrix, and back."""
    rng = np.random.default_rng(PATTERNS.index(pattern))
    for n in (*SIZES, LARGE[rng.integers(len(LARGE))]):
        a = pattern(rng, n)
        a.sum_duplicates()
        a.data = values(rng, a.nnz, "integers")
        A = tacit.csr(a, format=format)
        for kind in rng.permutation(KINDS) if n < 1000 else rng.choice(KINDS, 2):
            a.data = values(rng, a.nnz, kind)
            A.update_values(a.data if rng.random() < 0.5 else a)
            agree(A, a, rng, rng.choice([None, 2, 5, 8]))
            same = pickle.loads(pickle.dumps(A)).to_scipy()
            assert np.array_equal(same.indices, a.indices)
            assert same.data.tobytes() == A.to_scipy().data.tobytes() == a.data.tobytes()
            assert np.array_equal(A.diagonal(), a.diagonal())


def forest(rng: np.random.Generator, n: int, reach: int) -> Any:
    """A diagonally dominant matrix whose elimination fills nothing in: each row is coupled to one later row."""
    child = np.arange(n - 1)
    parent = np.minimum(n - 1, child + 1 + rng.integers(0, reach, n - 1))
    weight = rng.uniform(0.1, 0.4, (2, n - 1))
    a = sp.coo_array((weight.ravel(), (np.r_[child, parent], np.r_[parent, child])), (n, n)).tocsr()
    return a + sp.diags_array(np.asarray(abs(a).sum(axis=1)).ravel() + 1)


@pytest.mark.parametrize("n", [1, 8, 9, 513, 16383, 16384, 16385, 40000])
@pytest.mark.parametrize("reach", [1, 3, 100, 20000])
def test_triangular_solves(n: int, reach: int) -> None:
    """ilu0 of a forest is its inverse; the same bits for any number of threads and of columns."""
    rng = np.random.default_rng(n + reach)
    a = sp.csr_array(forest(rng, n, reach))
    P = tacit.precond.make(tacit.csr(a), "ilu0")
    assert P is not None
    x = rng.standard_normal(n)
    y = P @ (a @ x)
    assert np.linalg.norm(y - x) <= 1e-13 * np.linalg.norm(x)
    X = np.column_stack([a @ x, -x, x])
    adjoint = P.H @ x
    for threads in (1, 3):
        _core.set_threads(threads)
        assert np.array_equal(P @ (a @ x), y)
        assert np.array_equal((P @ X)[:, 0], y)
        assert np.array_equal(P.H @ x, adjoint)
    assert abs(adjoint @ (a @ x) - x @ y) <= 1e-11 * (x @ x)


@pytest.mark.parametrize("precond", ["ilu0", "ic0", "iluk", "amg", "jacobi"])
def test_rows_without_a_diagonal(precond: str) -> None:
    n = 50
    a = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n)).tocsr()
    r = tacit.solve(a, np.ones(n), precond=precond, method="gmres", rtol=1e-10)
    assert r.converged, r.reason
    assert np.linalg.norm(a @ r.x - 1) <= 1e-9
