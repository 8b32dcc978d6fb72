"""Matrices and right-hand sides that ranks put together: tacit.Assembler."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import SCALARS, Run

import tacit
from tacit.op.contributions import Entries, size_of

N, M = 37, 20  # rows and columns of the entries below

Rank = Callable[[Any], None]


def on_ranks(ranks: int, rank: Rank) -> None:
    tacit.comm.run_threads(ranks, rank)


def numbers(shape: Any, scalar: str, seed: int = 0) -> Any:
    parts = np.random.default_rng(seed).standard_normal((2, *np.atleast_1d(shape)))
    return (parts[0] + 1j * parts[1] if scalar.startswith("complex") else parts[0]).astype(scalar)


def entries(scalar: str, count: int = 700) -> tuple[Any, Any, Any]:
    """Rows, columns and values, with many contributions to the same entries."""
    rng = np.random.default_rng(5)
    return rng.integers(0, N, count), rng.integers(0, M, count), numbers(count, scalar)


def mesh(n: int) -> tuple[Any, Any]:
    """Triangles of a square with n x n nodes, and the nodes' coordinates."""
    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    a = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).reshape(-1)
    cells = np.concatenate([np.column_stack([a, a + n, a + 1]), np.column_stack([a + n + 1, a + 1, a + n])])
    return cells, np.column_stack([x.reshape(-1), y.reshape(-1)])


def stiffness(cells: Any, at: Any) -> Any:
    """The element matrices of the Laplacian."""
    p = at[cells]
    edge = p[:, [2, 0, 1]] - p[:, [1, 2, 0]]
    area = 0.5 * (edge[:, 1, 0] * edge[:, 2, 1] - edge[:, 1, 1] * edge[:, 2, 0])
    return np.einsum("epk,eqk->epq", edge, edge) / (4 * area[:, None, None])


def mine(comm: Any, count: int) -> slice:
    """A part of a list for this rank, other than the rows that it owns; the second of three ranks has none."""
    if comm.size == 3:
        return (slice(0, count // 3), slice(0, 0), slice(count // 3, count))[comm.rank]
    return slice(count * comm.rank // comm.size, count * (comm.rank + 1) // comm.size)


def dense(A: Any) -> Any:
    return A.to_scipy().toarray()


def whole(b: Any, comm: Any) -> Any:
    return tacit.layout.gather(b, comm)


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_sums_are_scipys(scalar: str, ranks: int) -> None:
    i, j, v = entries(scalar)
    f = numbers(len(i), scalar, 1)
    expected = sp.coo_array((v, (i, j)), shape=(N, M)).toarray()
    vector = np.zeros(N, scalar)
    np.add.at(vector, i, f)
    near = 2e-5 if scalar in ("float32", "complex64") else 1e-13

    def rank(comm: Any) -> None:
        K = tacit.Assembler((N, M), comm=comm)
        part = mine(comm, len(i))
        K.add(i[part], j[part], v[part])
        K.add_rhs(i[part], f[part])
        A, b = K.finish()
        assert A.dtype == b.dtype == np.dtype(scalar)
        assert np.allclose(dense(A), expected, rtol=near, atol=near)
        assert A.nnz == len(set(zip(i.tolist(), j.tolist(), strict=True)))
        assert b.shape == (A.own_range[1] - A.own_range[0],)
        assert np.allclose(whole(b, comm), vector, rtol=near, atol=near)

    on_ranks(ranks, rank)


@pytest.mark.parametrize("scalar", ["float32", "float64", "complex128"])
def test_bits_depend_neither_on_ranks_nor_on_the_order(scalar: str) -> None:
    i, j, v = entries(scalar)
    K = tacit.Assembler((N, M))
    K.add(i, j, v)
    K.add_rhs(i, v)
    A, b = K.finish()
    expected = dense(A)

    def rank(comm: Any) -> None:
        rng = np.random.default_rng(comm.rank)
        for given in (mine(comm, len(i)), slice(comm.rank, None, comm.size)):
            order = rng.permutation(np.arange(len(i))[given])
            K = tacit.Assembler((N, M), comm=comm, scalar=scalar)
            for part in (order[:30], order[30:31], order[31:]):
                K.add(i[part], j[part], v[part])
                K.add_rhs(i[part], v[part])
            C, c = K.finish()
            assert np.array_equal(dense(C), expected)
            assert np.array_equal(whole(c, comm), b)

    for ranks in (2, 3):
        on_ranks(ranks, rank)


def test_symmetric_elements_make_a_symmetric_matrix_to_the_bit() -> None:
    cells, at = mesh(9)
    K = tacit.Assembler(len(at))
    elements = np.random.default_rng(3).standard_normal((len(cells), 3, 3))
    K.add_elements(cells, elements + elements.transpose(0, 2, 1))
    a = dense(K.finish()[0])
    assert np.array_equal(a, a.T)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_elements_at_once_or_one_by_one(ranks: int) -> None:
    cells, at = mesh(8)
    ke = stiffness(cells, at)
    expected = sp.coo_array(
        (ke.reshape(-1), (np.repeat(cells, 3, axis=1).reshape(-1), np.tile(cells, 3).reshape(-1))), shape=2 * (len(at),)
    ).toarray()

    def rank(comm: Any) -> None:
        part = mine(comm, len(cells))
        found = []
        for way in range(4):
            K = tacit.Assembler(len(at), comm=comm)
            if way == 0:
                K.add_elements(cells[part], ke[part])
            elif way == 1:
                for nodes, element in zip(cells[part], ke[part], strict=True):
                    K.add_elements(nodes, element)
            elif way == 2:
                K.add(cells[part][:, :, None], cells[part][:, None, :].astype(np.int32), ke[part])
            else:
                for nodes, element in zip(cells[part].tolist(), ke[part].tolist(), strict=True):
                    for p in range(3):
                        for q in range(3):
                            K.add(nodes[p], nodes[q], element[p][q])
            found.append(dense(K.finish()[0]))
        assert np.allclose(found[0], expected, rtol=1e-13, atol=1e-13)
        for other in found[1:]:
            assert np.array_equal(other, found[0])

    on_ranks(ranks, rank)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_rectangular_elements(ranks: int) -> None:
    """Rows of one space, columns of another: a divergence, say."""
    cells, at = mesh(6)
    values = numbers((len(cells), 1, 3), "float64")
    expected = np.zeros((len(cells), len(at)))
    np.add.at(expected, (np.arange(len(cells))[:, None], cells), values[:, 0])

    def rank(comm: Any) -> None:
        part = mine(comm, len(cells))
        K = tacit.Assembler(expected.shape, comm=comm)
        K.add_elements(np.arange(len(cells))[part][:, None], values[part], columns=cells[part])
        A, b = K.finish()
        assert np.array_equal(dense(A), expected)
        assert np.allclose(A @ np.arange(len(at)), expected @ np.arange(len(at)))
        assert not b.any()

    on_ranks(ranks, rank)


@pytest.mark.parametrize("ranks", [1, 3])
def test_several_right_hand_sides(ranks: int) -> None:
    i, j, v = entries("float64")
    f = numbers((len(i), 4), "float64", 2)
    expected = np.zeros((N, 4))
    np.add.at(expected, i, f)

    def rank(comm: Any) -> None:
        K = tacit.Assembler((N, M), rhs=4, comm=comm)
        part = mine(comm, len(i))
        K.add(i[part], j[part], v[part])
        K.add_rhs(i[part], f[part])
        if comm.rank == 0:
            K.add_rhs(3, [1.0, 2.0, 3.0, 4.0])
            K.add_rhs([1, 2], 0.5)  # the same for all
        _, b = K.finish()
        more = expected.copy()
        more[3] += [1, 2, 3, 4]
        more[[1, 2]] += 0.5
        assert np.allclose(whole(b, comm), more, rtol=1e-13, atol=1e-13)

    on_ranks(ranks, rank)


def test_own_rows_and_a_rank_without_any() -> None:
    i, j, v = entries("float64")
    expected = sp.coo_array((v, (i, j)), shape=(N, M)).toarray()

    def rank(comm: Any) -> None:
        K = tacit.Assembler(((20, 0, N - 20)[comm.rank], M), own_rows=True, comm=comm)
        assert K.shape == (N, M)
        assert K.own_range == ((0, 20), (20, 20), (20, N))[comm.rank]
        if comm.rank == 1:  # has all contributions and no rows
            K.add(i, j, v)
        A, b = K.finish()
        assert np.allclose(dense(A), expected, rtol=1e-13, atol=1e-13)
        assert len(b) == K.own_range[1] - K.own_range[0]

    on_ranks(3, rank)


def test_the_scalar_is_that_of_all_contributions() -> None:
    def rank(comm: Any) -> None:
        K = tacit.Assembler(4, comm=comm)
        K.add(comm.rank, 0, np.complex64(1j) if comm.rank == 1 else np.float32(1))
        assert K.finish()[0].dtype == np.complex64
        K = tacit.Assembler(4, comm=comm)
        if comm.rank == 2:
            K.add([0], [0], [1])  # whole numbers
        assert K.finish()[0].dtype == np.float64

    on_ranks(3, rank)


# -- inserted entries --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_inserted_entries(ranks: int) -> None:
    """The last value of a rank, and the same on all ranks."""

    def rank(comm: Any) -> None:
        K = tacit.Assembler(6, comm=comm)
        K.insert(range(6), range(6), -1.0)
        K.insert([[5], [0]], [0, 5], [[1.0, 3.0], [2.0, 4.0]])
        K.insert(5, 5, 7.0)
        K.add(1, 2, 1.0)
        K.insert_rhs([2, 3], [5.0, 6.0])
        K.add_rhs(4, 1.0)
        A, b = K.finish()
        expected = -np.eye(6)
        expected[5, 0], expected[5, 5], expected[0, 0], expected[0, 5], expected[1, 2] = 1, 7, 2, 4, comm.size
        assert np.array_equal(dense(A), expected)
        assert np.array_equal(whole(b, comm), [0, 0, 5, 6, comm.size, 0])

    on_ranks(ranks, rank)


def test_inserted_values_that_differ_are_refused() -> None:
    def rank(comm: Any) -> None:
        K = tacit.Assembler(6, comm=comm)
        K.insert(5, 4, 1.0 + comm.rank)
        with pytest.raises(ValueError, match=r"entry \(5, 4\) is inserted by several ranks with different values"):
            K.finish()
        K.insert(5, 4, 1.0 + 1e-16 * comm.rank)  # the round before was dropped
        assert dense(K.finish()[0])[5, 4] == 1
        K.insert_rhs(2, float(comm.rank))
        with pytest.raises(ValueError, match=r"\(2, 0\) is inserted"):
            K.finish()

    on_ranks(3, rank)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_entry_is_added_to_or_inserted(ranks: int) -> None:
    def rank(comm: Any) -> None:
        K = tacit.Assembler(6, comm=comm)
        K.add(3, 3, 1.0)
        (K.insert if comm.rank == comm.size - 1 else K.add)(3, 3, 1.0)
        with pytest.raises(ValueError, match=r"entry \(3, 3\) is both added to .* and inserted"):
            K.finish()

    on_ranks(ranks, rank)


# -- new values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_new_values_in_place(scalar: str, ranks: int) -> None:
    i, j, v = entries(scalar)
    j = j % N

    def rank(comm: Any) -> None:
        part = mine(comm, len(i))
        K = tacit.Assembler(N, comm=comm, scalar=scalar)
        K.add(i[part], j[part], v[part])
        K.add_rhs(i[part], v[part])
        A, b = K.finish()
        plan = K._matrix._plan
        assert plan is not None
        for factor in (2.0, -0.5):
            K.add(i[part], j[part], factor * v[part])
            B, c = K.finish()
            assert B is A
            assert K._matrix._plan is plan
            assert np.array_equal(c, b)  # nobody added to it
            fresh = tacit.Assembler(N, comm=comm, scalar=scalar)
            fresh.add(i[part], j[part], factor * v[part])
            assert np.array_equal(dense(A), dense(fresh.finish()[0]))
        K.add_rhs(i[part], 3 * v[part])
        before = dense(A)
        B, c = K.finish()
        assert np.array_equal(dense(B), before)
        assert np.allclose(c, 3 * b, rtol=1e-5, atol=1e-5)

    on_ranks(ranks, rank)


def test_an_update_sends_values_only() -> None:
    """One message to each rank whose rows a rank contributes to, with a value for each of these contributions."""
    cells, at = mesh(16)
    ke = stiffness(cells, at)

    def rank(comm: Any) -> None:
        part = mine(comm, len(cells))
        K = tacit.Assembler(len(at), comm=comm)
        K.add_elements(cells[part], ke[part])
        K.add_rhs(cells[part], 1.0)
        K.finish()
        begin, end = K.own_range
        away = cells[part][(cells[part] < begin) | (cells[part] >= end)]
        plan = K._matrix._plan
        owners = set(np.searchsorted(K._rows, away, "right").tolist())
        for round_ in range(3):
            K.add_elements(cells[part], (2 + round_) * ke[part])
            K.add_rhs(cells[part], 2.0)
            before = comm.counters
            K.finish()
            sent = {name: count - before[name] for name, count in comm.counters.items()}
            assert sent["exchanges"] == 2  # matrix and right-hand side
            assert sent["messages"] == 2 * len(owners)
            assert sent["bytes"] == 8 * (3 * len(away) + len(away))
            assert sent["reductions"] == 0
            assert K._matrix._plan is plan

    on_ranks(2, rank)


@pytest.mark.parametrize("ranks", [1, 3])
def test_later_contributions_to_some_of_the_entries(ranks: int) -> None:
    i, j, v = entries("float64")

    def rank(comm: Any) -> None:
        part = mine(comm, len(i))
        K = tacit.Assembler((N, M), comm=comm)
        K.add(i[part], j[part], v[part])
        A, _ = K.finish()
        entries = A.nnz
        few = slice(part.start, part.start + (part.stop - part.start) // 4)
        for _ in range(2):  # a new plan, and the same again
            K.add(i[few], j[few], v[few])
            assert K.finish()[0] is A
            parts = [slice(s, s + (e - s) // 4) for s, e in parts_of(comm.size, len(i))]
            expected = sum(sp.coo_array((v[p], (i[p], j[p])), shape=(N, M)).toarray() for p in parts)
            assert np.allclose(dense(A), expected, rtol=1e-13, atol=1e-13)
            assert A.nnz == entries
        K.add(i[part], j[part], v[part])
        K.finish()
        assert np.allclose(dense(A), sp.coo_array((v, (i, j)), shape=(N, M)).toarray(), rtol=1e-13, atol=1e-13)

    def parts_of(ranks: int, count: int) -> list[tuple[int, int]]:
        return [(0, count)] if ranks == 1 else [(0, count // 3), (0, 0), (count // 3, count)]

    on_ranks(ranks, rank)


def test_two_parts_of_a_pattern_one_after_the_other() -> None:
    K, i = tacit.Assembler(6), np.arange(6)
    K.add(i, i, 1.0)
    A, _ = K.finish()
    for part, other in ((i[:3], i[3:]), (i[3:], i[:3])):
        K.add(part, part, 2.0)
        K.finish()
        assert np.array_equal(A.diagonal()[part], [2, 2, 2])
        assert not A.diagonal()[other].any()


def test_an_entry_that_was_not_there_before_is_refused() -> None:
    def rank(comm: Any) -> None:
        K = tacit.Assembler(9, comm=comm)
        K.add(range(9), range(9), 1.0)
        A, _ = K.finish()
        for _ in range(2):
            K.add(range(9), range(9), 2.0)
            if comm.rank == 2:
                K.add(1, 7, 1.0)
            with pytest.raises(ValueError, match=r"entry \(1, 7\) is not among those of the first finish\(\)"):
                K.finish()
        assert np.array_equal(dense(A), comm.size * np.eye(9))  # as it was
        K.add(range(9), range(9), 3.0)
        K.finish()
        assert np.array_equal(dense(A), 3 * comm.size * np.eye(9))

    on_ranks(3, rank)


def test_symmetry_follows_new_values() -> None:
    K = tacit.Assembler(2)
    for values, hermitian in (([1.0, 2.0], False), ([2.0, 2.0], True), ([2.0, 1.0], False)):
        K.add([0, 1], [1, 0], values)
        assert K.finish()[0].is_hermitian() == hermitian


def test_multigrid_follows_new_values() -> None:
    cells, at = mesh(30)
    boundary = np.flatnonzero((at == 0).any(axis=1))
    K = tacit.Assembler(len(at))
    K.add_elements(cells, stiffness(cells, at))
    K.add_rhs(cells, 1 / len(cells))
    K.fix(boundary)
    A, b = K.finish()
    P = tacit.precond.amg(A)
    first = tacit.solve(A, b, method="cg", precond=P)
    K.add_elements(cells, 3 * stiffness(cells, at))
    A, b = K.finish()
    assert P.update()
    second = tacit.solve(A, b, method="cg", precond=P)
    assert second.iterations == first.iterations
    assert np.allclose(3 * second.x, first.x, rtol=1e-6, atol=1e-9)


# -- fixed unknowns ----------------------------------------------------------------------------------------------------


def by_hand(a: Any, f: Any, fixed: Any, g: Any) -> tuple[Any, Any]:
    """A dense matrix and right-hand sides with these unknowns fixed."""
    a, f, free = a.copy(), f.copy(), np.setdiff1d(np.arange(len(a)), fixed)
    f[free] -= a[np.ix_(free, fixed)] @ g
    d = a[fixed, fixed]
    d[d == 0] = 1
    a[fixed, :] = a[:, fixed] = 0
    a[fixed, fixed] = d
    f[fixed] = (d * g.T).T
    return a, f


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(("scalar", "k"), [("float64", 1), ("complex128", 3), ("float32", 2), ("complex64", 1)])
def test_fixed_unknowns(scalar: str, k: int, ranks: int) -> None:
    """Rows and columns are replaced, the right-hand side is lifted; then values change in place."""
    i, j, v = entries(scalar)
    j = j % N
    n = N + 2  # the last two rows have no entries
    fixed = np.array([0, 7, 8, 20, N - 1, N])
    columns = () if k == 1 else (k,)
    f, g = numbers((n, *columns), scalar, 1), numbers((len(fixed), *columns), scalar, 2)
    a = sp.coo_array((v, (i, j)), shape=(n, n)).toarray()
    near = 1e-4 if scalar in ("float32", "complex64") else 1e-12

    def rank(comm: Any) -> None:
        part, own = mine(comm, len(i)), mine(comm, n)
        K = tacit.Assembler(n, rhs=k, comm=comm)

        def check(factor: float, g: Any) -> Any:
            A, b = K.finish()
            wanted, right = by_hand(factor * a, f, fixed, g)
            assert np.allclose(dense(A), wanted, rtol=near, atol=near)
            assert np.allclose(whole(b, comm), right, rtol=near, atol=near)
            stored = A.to_scipy().tocoo()  # no zeros are stored for them
            among = np.isin(stored.row, fixed) | np.isin(stored.col, fixed)
            assert np.array_equal(stored.row[among], stored.col[among])
            assert among.sum() == len(fixed)
            return A

        K.add(i[part], j[part], v[part])
        K.add_rhs(np.arange(n)[own], f[own])
        if comm.rank == comm.size - 1:  # owns few of them
            K.fix(fixed, g)
        A = check(1, g)
        K.add(i[part], j[part], 2 * v[part])
        assert check(2, g) is A
        if comm.rank == 0:
            K.fix(fixed[2:], 3 * g[2:])
        h = g.copy()
        h[2:] *= 3
        check(2, h)

    on_ranks(ranks, rank)


def test_fixed_unknowns_have_the_same_bits_on_all_ranks() -> None:
    cells, at = mesh(12)
    ke, boundary = stiffness(cells, at), np.flatnonzero((at[:, 0] == 0) | (at[:, 0] == 1))
    found: dict[int, Any] = {}

    def rank(comm: Any) -> None:
        part = mine(comm, len(cells))
        K = tacit.Assembler(len(at), comm=comm)
        K.add_elements(cells[part], ke[part])
        K.fix(boundary, np.sin(3 * at[boundary, 1]))  # by all ranks
        A, b = K.finish()
        a, b = dense(A), whole(b, comm)
        assert A.is_hermitian()
        if comm.rank == 0:
            found[comm.size] = a, b

    for ranks in (1, 2, 3):
        on_ranks(ranks, rank)
    for ranks in (2, 3):
        assert np.array_equal(found[ranks][0], found[1][0])
        assert np.array_equal(found[ranks][1], found[1][1])


def test_the_diagonal_of_fixed_unknowns() -> None:
    """For an eigenvalue problem K x = lambda M x: 1 and 0."""
    for diagonal in (1.0, 0.0, None):
        K = tacit.Assembler(3, fixed_diagonal=diagonal)
        K.add(range(3), range(3), 5.0)
        K.add(0, 1, 2.0)
        K.fix(1, 4.0)
        A, b = K.finish()
        d = 5.0 if diagonal is None else diagonal
        assert np.array_equal(dense(A), np.diag([5, d, 5]))
        assert np.array_equal(b, [-8, 4 * d, 0])


def test_unknowns_that_overlap_and_others_later() -> None:
    """The last value of a rank; and which unknowns are fixed is decided once."""
    K = tacit.Assembler(4)
    K.add(range(4), range(4), 1.0)
    K.fix([0, 1], 1.0)
    K.fix([1, 2], 2.0)
    assert np.array_equal(K.finish()[1], [1, 2, 2, 0])
    K.fix(3, 1.0)
    with pytest.raises(ValueError, match=r"unknown 3 is to be fixed, and was not before the first finish\(\)"):
        K.finish()
    with pytest.raises(ValueError, match="square"):
        tacit.Assembler((3, 4)).fix(0)


def test_a_solution_with_fixed_unknowns() -> None:
    """Linear functions are in the space of linear elements."""
    cells, at = mesh(20)
    boundary = np.flatnonzero(((at == 0) | (at == 1)).any(axis=1))
    exact = 1 + 2 * at[:, 0] - 3 * at[:, 1]

    def rank(comm: Any) -> None:
        part = mine(comm, len(cells))
        K = tacit.Assembler(len(at), comm=comm)
        K.add_elements(cells[part], stiffness(cells[part], at))
        K.fix(boundary, exact[boundary])
        A, b = K.finish()
        r = tacit.solve(A, b, rtol=1e-12)
        assert r.method == "cg"
        assert np.allclose(r.x, exact[slice(*A.own_range)], atol=1e-9)
        nodes = cells[part][::7]
        assert np.array_equal(K.values_at(r.x, nodes), whole(r.x, comm)[nodes])
        assert np.array_equal(K.values_at(r.x, nodes), whole(r.x, comm)[nodes])
        both = np.column_stack([r.x, 2 * r.x])
        assert np.array_equal(K.values_at(both, nodes[:, 0]), whole(both, comm)[nodes[:, 0]])
        assert np.array_equal(K.values_at(exact, nodes), exact[nodes])
        with pytest.raises(ValueError, match=r"i\[0\] is 400; elements are counted from 0 to 399"):
            K.values_at(r.x, [400] if comm.rank == comm.size - 1 else [0])

    for ranks in (1, 2, 3):
        on_ranks(ranks, rank)


# -- null spaces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 3])
def test_null_space(ranks: int) -> None:
    """Without fixed unknowns constants are mapped to zero; solves know it from the matrix."""
    cells, at = mesh(12)
    n = len(at)

    def rank(comm: Any) -> None:
        part = mine(comm, len(cells))
        for space in ("constant", np.ones(n), np.full((n, 1), 2.0)):
            K = tacit.Assembler(n, comm=comm, nullspace=space)
            K.add_elements(cells[part], stiffness(cells[part], at))
            K.add_rhs(cells[part], at[cells[part], 0] - 0.3)
            A, b = K.finish()
            r = tacit.solve(A, b)
            assert r.converged
            assert r.projected_norm > 0
            assert abs(whole(r.x, comm).sum()) < 1e-8
            K.add_elements(cells[part], 2 * stiffness(cells[part], at))
            A, b = K.finish()
            assert np.allclose(tacit.solve(A, b, rtol=1e-10).x, r.x / 2, atol=1e-5)
        again = copy.deepcopy(A)
        assert tacit.solve(again, b).converged
        assert tacit.solve(A.stored_as("csr"), b).projected_norm > 0
        A.set_nullspace(None)
        assert tacit.solve(A, b, max_iterations=50, explain=False).projected_norm == 0

    on_ranks(ranks, rank)
    with pytest.raises(ValueError, match="left_nullspace goes with nullspace"):
        tacit.Assembler(3, left_nullspace="constant")


def test_an_attached_null_space_is_pickled_and_gives_way() -> None:
    A = tacit.csr(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    A.set_nullspace(np.array([1.0, 1.0]))
    for again in (pickle.loads(pickle.dumps(A)), A.astype("complex128")):
        assert np.allclose(tacit.solve(again, [1.0, 0.0]).x, [0.25, -0.25])  # [0.5, -0.5] is in the range
    with pytest.raises(ValueError, match="not in the null space of A"):
        tacit.solve(A, [1.0, -1.0], nullspace=np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="nullspace is 'linear'"):
        A.set_nullspace("linear")


# -- errors ------------------------------------------------------------------------------------------------------------

WRONG: list[tuple[Callable[[Any], None], str]] = [
    (lambda K: K.add([0, 5], [0, 0], 1.0), r"i\[1\] is 5; rows are counted from 0 to 4"),
    (lambda K: K.add(0, -1, 1.0), r"j is -1; columns are counted from 0 to 4"),
    (lambda K: K.add(0, np.uint64(2**63), 1.0), r"j is 9223372036854775808; columns are counted from 0 to 4"),
    (lambda K: K.add([0], [0.5], 1.0), r"j has elements of type float64; whole numbers are needed"),
    (lambda K: K.add([0, 1], [0, 1], [1.0, np.nan]), r"v\[1\] is nan; contributions have to be finite"),
    (lambda K: K.add(0, 0, float("inf")), r"v is inf; contributions have to be finite"),
    (lambda K: K.add([0, 1], [0, 1, 2], 1.0), r"v of shape \(\) does not go with indices of shape \(2,\) and \(3,\)"),
    (lambda K: K.add([0, 1], [0, 1], [1.0, 2.0, 3.0]), r"v of shape \(3,\) does not go with"),
    (lambda K: K.add([0, 1], [0, 1], "x"), "an array is needed"),
    (lambda K: K.add([0], [0], 1j), r"v is complex, and this is assembled in float64"),
    (lambda K: K.add_elements([[0, 1, 9]], np.ones((3, 3))), r"rows\[0, 2\] is 9; rows are counted from 0 to 4"),
    (
        lambda K: K.add_elements([[0, 1, 2]], np.ones((1, 3, 2))),
        r"values of shape \(1, 3, 2\) do not go with rows of shape \(1, 3\)",
    ),
    (
        lambda K: K.add_elements([[0, 1]], [[[1.0, 2.0], [np.nan, 1.0]]]),
        r"values\[0, 1, 0\] is nan; contributions have to be finite",
    ),
    (lambda K: K.add_elements(np.zeros((4, 2), int), np.ones((3, 2, 2))), r"values of shape \(3, 2, 2\) does not go"),
    (lambda K: K.add_rhs(7, 1.0), r"i is 7; rows are counted from 0 to 4"),
    (lambda K: K.fix([0, 4], [1.0, np.inf]), r"values\[1\] is inf"),
]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_contributions(case: int, ranks: int) -> None:
    """At once on one rank; on several by finish(), on all of them, with the line of the call. The next round works."""
    wrong, text = WRONG[case]

    def rank(comm: Any) -> None:
        K = tacit.Assembler(5, comm=comm, scalar="float64")
        K.add(range(5), range(5), 1.0)
        if comm.size == 1:
            with pytest.raises((ValueError, TypeError), match=text):
                wrong(K)
            return
        if comm.rank == comm.size - 1:
            wrong(K)
        with pytest.raises((ValueError, TypeError), match=text + r"(.|\n)*test_assembler\.py:\d+\)"):
            K.finish()
        K.add(range(5), range(5), 2.0)
        assert np.array_equal(dense(K.finish()[0]), 2 * comm.size * np.eye(5))

    on_ranks(ranks, rank)


@pytest.mark.parametrize("ranks", [1, 2])
def test_wrong_assemblers(ranks: int) -> None:
    def rank(comm: Any) -> None:
        for arguments, text in (
            ({"shape": -1}, "numbers from 0"),
            ({"shape": (1, 2, 3)}, r"shape is \(1, 2, 3\)"),
            ({"shape": 4, "rhs": 0}, "rhs is 0"),
            ({"shape": 4, "format": "coo"}, "unknown format"),
            ({"shape": 4, "own_rows": True, "node": 2}, "node is 2"),
            ({"shape": 4, "scalar": "int8"}, "unknown scalar"),
            ({"shape": 4, "fixed_diagonal": np.nan}, "fixed_diagonal is nan"),
            ({"shape": 2**33}, "rows; a rank has fewer than 2\\^31"),
            ({"shape": (3, 2**53 + 1)}, f"{-(-(2**53 + 1) // comm.size)} columns; a rank has fewer than 2\\^31"),
            ({"shape": (3, 2**62 + 1)}, "shape is .*4611686018427387905.*; numbers from 0 to"),
            ({"shape": 2**70}, "numbers from 0 to"),
        ):
            with pytest.raises(ValueError, match=text):
                tacit.Assembler(comm=comm, **arguments)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="no rank has contributed to the matrix"):
            tacit.Assembler(4, comm=comm).finish()

    on_ranks(ranks, rank)


def test_sizes_and_places_are_exact_beyond_the_digits_of_a_double() -> None:
    size = 2**53 + 1
    for one in (size, np.int64(size), np.uint64(size)):
        assert size_of((one, 2**62 - 1)) == (size, 2**62 - 1)
    # A row of more places than 64 bits can number together with those of other rows.
    far = Entries(tacit.comm.world(), [0, 3], 2**62)
    start = np.array([0, 1, 3, 4])
    far.structure = start, np.array([0, 1, 2**62 - 1, 2**62 - 2])
    far.given.entries = np.array([0, 0, 1, 2]), np.array([2**62 - 1, 2**62 - 2])
    assert far._found().tolist() == [2, 3]
    far.given.entries = np.array([0, 0, 1, 1]), np.array([2**62 - 2])
    with pytest.raises(ValueError, match=rf"entry \(1, {2**62 - 2}\) is not among"):
        far._found()


def test_unsigned_indices() -> None:
    K = tacit.Assembler(3)
    i = np.arange(3, dtype=np.uint64)
    K.add(i, i, 2.0)
    assert np.array_equal(dense(K.finish()[0]), 2 * np.eye(3))
    with pytest.raises(ValueError, match=f"i is {2**64 - 1}; rows are counted"):
        K.add(np.uint64(2**64 - 1), 0, 1.0)


def test_ranks_that_differ() -> None:
    def rank(comm: Any) -> None:
        for different in ({"shape": 4 + comm.rank}, {"shape": 4, "rhs": 1 + comm.rank}):
            with pytest.raises(ValueError, match="all ranks must give the same"):
                tacit.Assembler(comm=comm, **different)  # type: ignore[arg-type]

    on_ranks(2, rank)


def test_the_same_indices_in_other_shapes_are_other_places() -> None:
    a = tacit.Assembler(2)
    i, values = np.array([0, 1]), np.array([[1.0, 2.0], [3.0, 4.0]])
    a.add(i[:, None], i[None, :], values)
    assert np.array_equal(dense(a.finish()[0]), values)
    a.add(i[None, :], i[:, None], values)
    assert np.array_equal(dense(a.finish()[0]), values.T)


def test_a_round_that_is_dropped_leaves_no_scalar() -> None:
    a = tacit.Assembler(2)
    a.add_rhs(0, 1.0)
    with pytest.raises(ValueError, match="no rank has contributed to the matrix"):
        a.finish()
    a.add([0, 1], [0, 1], [1j, 1.0])
    assert a.finish()[0].dtype == np.complex128
    with pytest.raises(ValueError, match="no rank has contributed"):
        tacit.Assembler(2, scalar="float64").finish()


def test_values_of_unlike_scalars() -> None:
    def rank(comm: Any) -> None:
        a = tacit.Assembler(4, comm=comm)
        x = np.arange(2, dtype=np.float32 if comm.rank else np.float64) + 2 * comm.rank
        assert a.values_at(x, [0, 3]).tolist() == [0.0, 3.0]

    on_ranks(2, rank)


def test_an_attached_null_space_is_a_copy_and_gives_way() -> None:
    L = tacit.csr(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    space = np.ones(2)
    L.set_nullspace(space)
    space[:] = [1.0, 2.0]
    assert tacit.solve(L, np.array([1.0, -1.0])).converged
    L.set_nullspace("constant", "constant")
    with pytest.raises(tacit.UsageError, match="left"):
        tacit.solve(L, np.array([1.0, -1.0]), left_nullspace=np.array([1.0, 2.0]))


def test_an_assembler_is_not_pickled() -> None:
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"pickle the matrix that finish\(\) returned"):
            attempt(tacit.Assembler(3))


def test_values_are_copied() -> None:
    """The caller may use its arrays again."""
    K = tacit.Assembler(3)
    i, v = np.arange(3), np.ones(3)
    K.add(i, i, v)
    i[:], v[:] = 0, 5
    assert np.array_equal(dense(K.finish()[0]), np.eye(3))


def test_under_mpiexec(python: Run) -> None:
    """On two processes, where an error of one rank is raised on both."""
    code = """
    import numpy as np, tacit
    comm = tacit.comm.world()
    n = 101
    springs = np.column_stack([np.arange(n - 1), np.arange(1, n)])[comm.rank :: comm.size]
    K = tacit.Assembler(n)
    for stiffness in (1.0, 2.0):
        K.add_elements(springs, [[stiffness, -stiffness], [-stiffness, stiffness]])
        if comm.rank == 0:
            K.add_rhs(n - 1, 1.0)
            K.fix(0)
        A, b = K.finish()
        x = tacit.layout.gather(tacit.solve(A, b, rtol=1e-12).x, comm)
        assert np.allclose(x, np.arange(n) / stiffness)
    try:
        if comm.rank == 1:
            K.add(n, 0, 1.0)
        K.finish()
    except ValueError as error:
        assert "rows are counted from 0 to 100" in str(error)
        print("good")
    """
    done = python(code, ranks=2)
    assert done.stdout.count("good") == 2, done.stderr
