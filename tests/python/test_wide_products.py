"""A @ X and A.T @ X with several columns: layouts of X, empty rows, sizes of zero, values that are not finite."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import tacit


def graph(n: int = 900, seed: int = 5) -> sp.csr_array:
    """Rows of very different lengths: a third is empty, a few have hundreds of entries."""
    rng = np.random.default_rng(seed)
    length = np.where(rng.random(n) < 0.3, 0, np.minimum(n // 2, (1 / rng.random(n)).astype(int)))
    length[::211] = n // 2
    row = np.repeat(np.arange(n), length)
    a = sp.csr_array((rng.standard_normal(len(row)), (row, rng.integers(0, n, len(row)))), shape=(n, n))
    a.sum_duplicates()
    return a


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True))


@pytest.mark.parametrize("storage", ["automatic", "csr", "sell"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8, 16, 33, 64])
def test_rows_of_any_length_times_any_number_of_columns(k: int, storage: str) -> None:
    a = graph()
    x = np.random.default_rng(k).standard_normal((900, k))
    A = tacit.csr(a, format=storage)
    assert close(A @ x, a @ x)
    assert close(A.T @ x, a.T @ x)
    one = np.stack([A @ np.ascontiguousarray(x[:, c]) for c in range(k)], axis=1)
    assert np.array_equal(A @ x, one)  # the same bits as alone


def test_any_layout_of_x() -> None:
    a, x = graph(), np.random.default_rng(1).standard_normal((900, 16))
    A = tacit.csr(a)
    wide = np.zeros((1800, 32))
    wide[::2, ::2] = x
    backwards = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    for other in (np.asfortranarray(x), wide[::2, ::2], backwards, np.broadcast_to(x[:, :1], (900, 4))):
        assert close(A @ other, a @ other)
        assert close(A.T @ other, a.T @ other)


def test_what_was_in_memory_before_is_in_no_result() -> None:
    """Rows without entries, and matrices without any."""
    for a in (graph(), sp.csr_array((900, 900)), sp.csr_array((3, 900))):
        x = np.ones((900, 8))
        for _ in range(3):
            np.full((900, 8), np.nan)  # what the next result may lie in
            found = tacit.csr(a) @ x
            assert np.isfinite(found).all()
            assert close(found, a @ x)


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0), (1, 7), (7, 1)])
def test_sizes_of_zero_and_one(shape: tuple[int, int]) -> None:
    a = sp.csr_array(np.ones(shape))
    A = tacit.csr(a)
    for k in (1, 2, 8):
        assert np.array_equal(A @ np.ones((shape[1], k)), a @ np.ones((shape[1], k)))
        assert np.array_equal(A.T @ np.ones((shape[0], k)), a.T @ np.ones((shape[0], k)))


@pytest.mark.parametrize("storage", ["csr", "sell"])
def test_values_that_are_not_finite_stay_where_they_are_read(storage: str) -> None:
    a, x = graph(), np.ones((900, 8))
    x[17], x[400, 3] = np.inf, np.nan
    found, expected = tacit.csr(a, format=storage) @ x, np.asarray(a @ x)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))


def test_tall_matrices_and_their_transpose() -> None:
    a = sp.random_array((40_000, 30), density=0.2, format="csr", rng=np.random.default_rng(2))
    A = tacit.csr(a)
    assert close(A.T @ np.ones((40_000, 4)), a.T @ np.ones((40_000, 4)))
    assert close(A @ np.ones((30, 4)), a @ np.ones((30, 4)))


def test_the_adjoint_of_an_equal_matrix_shares_it_until_values_change() -> None:
    a = sp.csr_array(graph() + graph().T)
    a.sort_indices()
    A, x = tacit.csr(a), np.random.default_rng(3).standard_normal(900)
    assert np.array_equal(A.T @ x, A @ x)
    changed = a.copy()
    changed.data[5] += 1.0  # of the first row, right of the diagonal
    A.update_values(changed.data)
    assert close(A.T @ x, changed.T @ x)
    assert close(A @ x, changed @ x)


def test_a_matrix_that_is_symmetric_but_for_rounding_has_its_own_transpose() -> None:
    a = sp.csr_array(graph() + graph().T)
    a.sort_indices()
    at = int(a.indptr[211])  # a long row
    a.data[at] = np.nextafter(a.data[at], np.inf)
    unit = np.zeros(900)
    unit[211] = 1.0
    assert np.array_equal(tacit.csr(a).T @ unit, a[[211]].toarray()[0])
