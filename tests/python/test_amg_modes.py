"""Rigid-body modes of elasticity, and what algebraic multigrid gains from them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import laplacian, true_residual

import tacit


def elasticity(*shape: int) -> tuple[sp.csr_array, np.ndarray]:
    """Unit cubes (squares) with multilinear shapes, lambda = mu = 1, without supports; and the nodes' coordinates."""
    d = len(shape)
    corners = np.array(list(itertools.product((0, 1), repeat=d)))
    element = np.zeros((len(corners) * d,) * 2)
    ends = (0.5 - 0.5 / math.sqrt(3), 0.5 + 0.5 / math.sqrt(3))
    for point in itertools.product(ends, repeat=d):
        g = np.ones((len(corners), d))
        for k, j in itertools.product(range(d), repeat=2):
            g[:, k] *= 2 * corners[:, j] - 1 if j == k else np.where(corners[:, j], point[j], 1 - point[j])
        both = np.einsum("ai,bj->aibj", g, g) + np.einsum("aj,bi->aibj", g, g)
        both += np.einsum("ak,bk,ij->aibj", g, g, np.eye(d))
        element += 0.5**d * both.reshape(element.shape)
    x = np.array(list(itertools.product(*(range(n + 1) for n in shape))), float)
    strides = np.array([math.prod(n + 1 for n in shape[k + 1 :]) for k in range(d)])
    cells = np.array(list(itertools.product(*map(range, shape))))
    rows = (d * ((cells @ strides)[:, None] + corners @ strides)[:, :, None] + np.arange(d)).reshape(len(cells), -1)
    m = rows.shape[1]
    where = np.repeat(rows, m, axis=1).ravel(), np.tile(rows, (1, m)).ravel()
    return sp.csr_array((np.tile(element.ravel(), len(cells)), where), shape=(x.size, x.size)), x


def clamped(*shape: int) -> tuple[sp.csr_array, np.ndarray]:
    """The same with the nodes at x = 0 held."""
    a, x = elasticity(*shape)
    free = np.flatnonzero(x[:, 0] > 0)
    rows = (x.shape[1] * free[:, None] + np.arange(x.shape[1])).ravel()
    return sp.csr_array(a[rows][:, rows]), x[free]


@pytest.mark.parametrize("shape", [(7, 4), (4, 3, 5)])
def test_elasticity_maps_them_to_zero(shape: tuple[int, ...]) -> None:
    a, x = elasticity(*shape)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((len(shape),) * 2))[0]
    modes = tacit.precond.rigid_body_modes(x)
    assert modes.shape == (x.size, 3 if len(shape) == 2 else 6)
    assert np.linalg.matrix_rank(modes) == modes.shape[1]
    assert np.abs(a @ modes).max() < 1e-13 * abs(a).sum(axis=1).max()
    # The span does not depend on units, on the place, or on the axes.
    other = tacit.precond.rigid_body_modes(1e3 * (x @ turn) + 77)
    turned = (other.reshape(len(x), len(shape), -1).transpose(0, 2, 1) @ turn.T).transpose(0, 2, 1)
    both = np.concatenate([modes, turned.reshape(other.shape)], axis=1)
    assert np.linalg.matrix_rank(both, tol=1e-8) == modes.shape[1]
    assert np.array_equal(tacit.precond.rigid_body_modes(x.astype(int).tolist()), modes)


@pytest.mark.parametrize(("shape", "most"), [((120, 15), 20), ((24, 6, 6), 24)])
@pytest.mark.parametrize("smoother", ["spai0", "gauss-seidel"])
def test_they_save_iterations(shape: tuple[int, ...], most: int, smoother: str) -> None:
    a, x = clamped(*shape)
    b = np.random.default_rng(1).standard_normal(x.size)

    def iterations(**given: Any) -> int:
        precond = {"name": "amg", "smoother": smoother, "coarsest": 100, **given}
        r = tacit.solve(a, b, method="cg", precond=precond, rtol=1e-8)
        assert r.converged
        assert true_residual(a, r.x, b) < 1.1e-8
        return int(r.iterations)

    with_modes = iterations(coordinates=x)
    assert with_modes <= most
    assert with_modes < 0.55 * iterations(block=len(shape))
    modes = tacit.precond.rigid_body_modes(x)
    assert with_modes == iterations(near_null=modes, block=len(shape))
    assert with_modes == iterations(coordinates=x.tolist(), block=len(shape))


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_ranks(ranks: int) -> None:
    a, x = clamped(40, 6)
    n = len(x)
    b = np.random.default_rng(1).standard_normal(2 * n)
    whole = tacit.precond.rigid_body_modes(x)

    def rank(comm: Any) -> list[int]:
        r, p = comm.rank, comm.size
        mine = slice(n * r * r // p**2, n * (r + 1) ** 2 // p**2)
        own = slice(2 * mine.start, 2 * mine.stop)
        assert np.array_equal(tacit.precond.rigid_body_modes(x[mine], comm), whole[own])
        assert np.array_equal(tacit.precond.rigid_body_modes(x, comm), whole)
        A = tacit.csr(a[own], own_rows=True, comm=comm)
        found = []
        for given in (x, x[mine]):
            M = tacit.precond.amg(A, coordinates=given, coarsest=50)
            r = tacit.solve(A, b, method="cg", precond=M, rtol=1e-8)
            s = tacit.solve(A, b, method="cg", precond=dict(name="amg", coordinates=given, coarsest=50), rtol=1e-8)
            assert r.converged
            found += [r.iterations, s.iterations]
        return found

    found = tacit.comm.run_threads(ranks, rank)[0]
    assert len(set(found)) == 1
    assert found[0] < 25


def test_nodes_stay_whole_on_ranks() -> None:
    """Where the matrix is the same on every rank, its rows are spread by nodes."""
    a, x = clamped(9, 2)  # 27 nodes of 2 rows: 27 rows for each of two ranks would cut one
    b = np.ones(x.size)

    def rank(comm: Any) -> list[int]:
        found = []
        for given in (dict(coordinates=x), dict(block=2)):
            r = tacit.solve(a, b, method="cg", precond={"name": "amg", "coarsest": 4, **given}, comm=comm)
            assert r.converged
            A = tacit.csr(a, comm=comm, node=2)
            assert A.own_range == ((0, 28) if comm.rank == 0 else (28, 54))
            M = tacit.precond.amg(A, coarsest=4, **given)
            found += [r.iterations, tacit.solve(A, b, method="cg", precond=M).iterations]
        return found

    with_modes, again, without, once_more = tacit.comm.run_threads(2, rank)[0]
    assert with_modes == again
    assert without == once_more
    with pytest.raises(ValueError, match="node is 2; it is for matrices that are the same on every rank"):
        tacit.csr(a, own_rows=True, node=2)
    with pytest.raises(ValueError, match="node is 0; at least 1"):
        tacit.csr(a, node=0)


def test_near_null_follows_renumbering() -> None:
    """The vectors are in the user's numbers, whatever the solve does with the rows."""
    n = 40
    order = np.random.default_rng(2).permutation(n * n)
    d = 10 ** np.random.default_rng(1).uniform(-2, 2, n * n)
    a = sp.csr_array((sp.diags_array(d) @ laplacian(n, n) @ sp.diags_array(d))[order][:, order])
    b = np.random.default_rng(0).standard_normal(n * n)

    def rank(comm: Any, partition: str, ordering: str, vectors: Any) -> int:
        precond = dict(name="amg", near_null=vectors, coarsest=50)
        r = tacit.solve(
            a, b, method="cg", precond=precond, rtol=1e-8, comm=comm, partition=partition, ordering=ordering
        )
        assert r.converged
        assert true_residual(a, r.x, b) < 1.1e-8
        return int(r.iterations)

    for ranks, partition, ordering in ((1, "rows", "rcm"), (3, "graph", "rcm"), (2, "graph", "none")):

        def of(vectors: Any, ranks: int = ranks, partition: str = partition, ordering: str = ordering) -> int:
            return tacit.comm.run_threads(ranks, lambda c: rank(c, partition, ordering, vectors))[0]

        assert of(1 / d[order]) < 25
        assert of(1 / d) > 50  # of other rows
    A, x = clamped(10, 5)
    with pytest.raises(ValueError, match="nodes of 2 unknowns needs the rows in the order given"):
        tacit.solve(A, np.ones(x.size), method="cg", precond=dict(name="amg", coordinates=x), ordering="rcm")


def test_what_is_refused() -> None:
    a, x = clamped(6, 3)
    A = tacit.csr(a)
    modes = tacit.precond.rigid_body_modes(x)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        (dict(coordinates=x, near_null=modes), ValueError, "near_null and coordinates are both given"),
        (dict(coordinates=x, near_null="constant"), ValueError, "near_null and coordinates are both given"),
        (dict(coordinates=x, block=1), ValueError, "block is 1, and coordinates has 2 columns"),
        (dict(coordinates=x, block=3), ValueError, "block is 3, and coordinates has 2 columns"),
        (dict(coordinates=x[:-1]), ValueError, "coordinates has 23 elements; 24 are needed"),
        (dict(coordinates=x[:, 0]), ValueError, r"coordinates has shape \(24,\); \(nodes, 2\) or"),
        (dict(coordinates=x[:, :1]), ValueError, r"coordinates has shape \(24, 1\)"),
        (dict(coordinates=np.where(x == 6, np.nan, x)), ValueError, "coordinates have nan at node 20"),
        (dict(coordinates=1j * x), TypeError, "coordinates is complex"),
        (dict(coordinates="mesh"), TypeError, "coordinates is 'mesh'; an array is needed"),
        (dict(coordinate=x), TypeError, "has no option 'coordinate'; did you mean 'coordinates'"),
    ]
    for given, error, text in wrong:
        with pytest.raises(error, match=text):
            tacit.precond.amg(A, **given)
        with pytest.raises(error, match=text):
            tacit.solve(A, np.ones(x.size), method="cg", precond={"name": "amg", **given})
        with pytest.raises(error, match=text):
            tacit.precond.make(A, "amg", **given)
    with pytest.raises(ValueError, match="coordinates has 2 columns, and A has 47 rows"):
        tacit.precond.amg(tacit.csr(a[:47, :47]), coordinates=x)
    with pytest.raises(TypeError, match="'ic0' has no option 'coordinates'"):
        tacit.solve(A, np.ones(x.size), method="cg", precond=dict(name="ic0", coordinates=x))


def test_auto_finds_the_nodes_of_a_body() -> None:
    """A quarter of the couplings between unknowns of one kind have the sign of the diagonal, which suits amg here."""
    a, _ = clamped(60, 7, 7)
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    found = tacit.solve(a, b, rtol=1e-8)
    assert found.converged
    assert found.choice.startswith("auto: cg with jacobi")
    assert "then cg with amg" in found.choice


def test_one_rank_is_wrong() -> None:
    a, x = clamped(6, 3)

    def rank(comm: Any, which: int) -> None:
        A = tacit.csr(a, comm=comm)
        last = comm.rank == comm.size - 1
        given = [x if not last else x[:-1], x if not last else None, x if not last else np.where(x == 6, np.inf, x)]
        tacit.precond.amg(A, coordinates=given[which])

    texts = [
        "coordinates has",
        "coordinates is of 2 dimensions on rank 0 and none on rank",
        r"coordinates\[\d+, \d\] is 6.0 on rank 0 and inf on rank 2",
    ]
    for which, text in enumerate(texts):
        with pytest.raises(ValueError, match=text):
            tacit.comm.run_threads(3, lambda comm, which=which: rank(comm, which))
    with pytest.raises(ValueError, match="rank 1 begins at row 3, no multiple of it; give each rank whole nodes"):
        tacit.comm.run_threads(
            2,
            lambda comm: tacit.precond.amg(
                tacit.csr(a[:3] if comm.rank == 0 else a[3:], own_rows=True, comm=comm), coordinates=x
            ),
        )


def test_auto_stays_with_aggregation_for_elasticity() -> None:
    """Classical coarsening of such a system costs as much as hundreds of iterations, and needs no fewer."""
    a, _ = clamped(60, 6, 6)
    b = np.random.default_rng(7).standard_normal(a.shape[0])
    result = tacit.solve(a, b, rtol=1e-8)
    assert result.converged
    assert result.choice.endswith("cg with amg (A is Hermitian)")
    assert np.linalg.norm(b - a @ result.x) <= 1.01e-8 * np.linalg.norm(b)
    assert result.iterations < 120
