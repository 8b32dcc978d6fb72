"""Algebraic multigrid from Python: near-null vectors on ranks, what is refused, and what a report says."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import SCALARS, as_scalar, laplacian, true_residual

import tacit

N = 40


def own_rows(comm: Any, a: sp.csr_array, empty: bool) -> tuple[tacit.Csr, slice]:
    """The matrix over the ranks, and this rank's rows; `empty`: all are the last rank's."""
    n, p, r = a.shape[0], comm.size, comm.rank
    mine = slice(n * r // p, n * (r + 1) // p)
    if empty:
        mine = slice(0, n) if r == p - 1 else slice(0, 0)
    return tacit.csr(a[mine], own_rows=True, comm=comm), mine


@pytest.mark.parametrize("scalar", SCALARS)
def test_reports_and_solves(scalar: str) -> None:
    a = as_scalar(laplacian(N, N) + 0.3 * sp.eye_array(N * N), scalar)
    b = np.random.default_rng(0).standard_normal(N * N).astype(scalar)
    A = tacit.csr(a)
    M = tacit.precond.amg(A, coarsest=50)
    report = M.report
    rows = [level["rows"] for level in report["levels"]]
    assert rows[0] == N * N
    assert rows[-1] <= 50
    assert all(r > 2 * s for r, s in itertools.pairwise(rows))
    assert report["levels"][0]["entries"] == A.nnz
    assert report["levels"][-1]["prolongation_entries"] == 0
    entries = sum(level["entries"] for level in report["levels"])
    assert report["operator_complexity"] == pytest.approx(entries / A.nnz)
    assert report["grid_complexity"] == pytest.approx(sum(rows) / rows[0])
    assert report["note"] == ""
    tolerance = 1e-4 if scalar in ("float32", "complex64") else 1e-8
    r = tacit.solve(A, b, method="cg", precond=M, rtol=tolerance)
    assert r.converged
    assert r.iterations < 20
    assert true_residual(a, r.x, b) < 1.1 * tolerance
    columns = np.stack([b, 2 * b, b[::-1]], axis=1)
    assert np.allclose(M @ columns, np.stack([M @ c for c in columns.T], axis=1), rtol=1e-3)
    for copied in (copy.deepcopy, copy.copy):
        assert np.array_equal(copied(M) @ b, M @ b)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("empty", [False, True])
def test_near_null_vectors_on_ranks(ranks: int, empty: bool) -> None:
    d = 10 ** np.random.default_rng(1).uniform(-2, 2, N * N)
    a = sp.csr_array(sp.diags_array(d) @ laplacian(N, N) @ sp.diags_array(d))
    b = np.random.default_rng(2).standard_normal(N * N)
    vectors = np.stack([1 / d, np.arange(N * N) / d], axis=1)

    def rank(comm: Any) -> list[int]:
        A, mine = own_rows(comm, a, empty)

        def iterations(given: Any) -> int:
            M = tacit.precond.amg(A, near_null=given, coarsest=50)
            r = tacit.solve(A, b, method="cg", precond=M, rtol=1e-8)
            assert r.converged
            return int(r.iterations)

        found = [iterations(v) for v in (vectors[:, 0], vectors[mine, 0], vectors[mine, :1], 1e200 * vectors[mine, 0])]
        assert len(set(found)) == 1
        return [found[0], iterations(vectors[mine]), iterations(None)]

    one, two, none = tacit.comm.run_threads(ranks, rank)[0]
    assert max(one, two) < 25
    assert none > 3 * one


@pytest.mark.parametrize(
    ("near_null", "error", "text"),
    [
        (lambda n: np.ones((n, 0)), ValueError, r"shape \(1600, 0\); at least one vector is needed"),
        (lambda n: np.ones((n, 1, 1)), ValueError, r"shape \(1600, 1, 1\)"),
        (lambda n: np.ones(n + 1), ValueError, "1601 elements; 1600 are needed"),
        (lambda n: np.zeros(n), ValueError, "vector 0 of near_null .* is zero"),
        (lambda n: np.where(np.arange(n) == 7, np.nan, 1.0), ValueError, "near_null has nan in row 7 of vector 0"),
        (lambda n: np.where(np.arange(n) == 7, np.inf, 1.0), ValueError, "near_null has inf in row 7 of vector 0"),
        (lambda n: np.full(n, 1j), TypeError, "near_null is complex"),
        (lambda _: "linear", ValueError, "near_null is 'linear'"),
        (lambda n: [None] * n, TypeError, "near_null has elements of type object"),
    ],
)
def test_near_null_vectors_that_are_refused(near_null: Callable[[int], Any], error: type, text: str) -> None:
    A = tacit.csr(laplacian(N, N))
    with pytest.raises(error, match=text):
        tacit.precond.amg(A, near_null=near_null(N * N))


def test_one_rank_is_wrong() -> None:
    a = laplacian(N, N)
    wrong: list[tuple[Callable[[int, int], Any], str]] = [
        (
            lambda r, n: np.full(n, np.nan if r == 1 else 1.0),
            r"nan in row 533 of vector 0 \(counted from 0\), a row of rank 1;",
        ),
        (lambda r, n: np.ones(n + (r == 1)), "near_null has"),
        (lambda r, n: None if r == 1 else np.ones(n), "near_null is 1 vectors on rank 0 and none on rank 1"),
        (lambda r, n: np.ones((n, 1 + (r == 1))), "near_null is 1 vectors on rank 0 and 2 vectors on rank 1"),
        (lambda r, n: "x" if r == 1 else np.ones(n), "near_null is 'x'"),
    ]
    for near_null, text in wrong:

        def rank(comm: Any, near_null: Any = near_null) -> None:
            A, mine = own_rows(comm, a, False)
            tacit.precond.amg(A, near_null=near_null(comm.rank, mine.stop - mine.start))

        with pytest.raises(ValueError, match=text):
            tacit.comm.run_threads(3, rank)


def test_options_and_matrices_that_are_refused() -> None:
    a = laplacian(N, N)
    A = tacit.csr(a)
    for option, text in [
        (dict(sweeps=0), "sweeps is 0"),
        (dict(coarsest=0), "coarsest is 0"),
        (dict(strength=1.0), "strength is 1"),
        (dict(strength=float("nan")), "strength is nan"),
        (dict(block=7), "block is 7"),
        (dict(cycle="U"), r"unknown cycle 'U' \(V, W, F, K, mult-additive\)"),
        (dict(cycle="u"), r"unknown cycle 'u' \(V, W, F, K, mult-additive\)"),
        (dict(smoother="sor"), "unknown smoother 'sor'"),
        (dict(coarsening="rs"), "unknown coarsening 'rs'"),
        (dict(coarsening="pmis", p_max=-1), "p_max is -1"),
        (dict(aggressive=1), "aggressive is of classical coarsening, .* pmis or hmis"),
        (dict(interpolation="direct"), "interpolation is of classical coarsening"),
        (dict(coarsening="pmis", near_null=np.ones(N * N)), "near_null is of aggregation; coarsening is pmis"),
    ]:
        with pytest.raises(ValueError, match=text):
            tacit.precond.amg(A, **option)
    for make in (tacit.precond.amg, tacit.precond.inner, lambda a: tacit.precond.make(a, "amg")):
        with pytest.raises(TypeError, match="A is a dict; a matrix, or something with shape and matvec, is needed"):
            make({})
    a.data[3] = np.inf
    with pytest.raises(tacit.InputError, match="not finite at row 1"):
        tacit.precond.amg(tacit.csr(a))
    with pytest.raises(ValueError, match="3 by 4"):
        tacit.precond.amg(tacit.csr(np.ones((3, 4))))


def test_methods_for_hermitian_preconditioners_tell_of_others() -> None:
    A = tacit.csr(laplacian(N, N))
    b = np.random.default_rng(0).standard_normal((N * N, 2))
    full = tacit.precond.Amg(cycle="F")
    made = tacit.precond.amg(A, cycle="F")
    for method, precond, told in [
        ("cg", full, True),
        ("pipelined-cg", full, True),
        ("minres", full, True),
        ("cg", made, True),
        ("cg", "spai", True),
        ("cg", "amg", False),
        ("cg", tacit.precond.Amg(cycle="K"), False),  # cg is flexible then
        ("cg", "ilu0", False),
        ("cg", np.eye(N * N), False),
        ("bicgstab", full, False),
        ("auto", full, False),
    ]:
        for right, options in ((b[:, 0], {}), (b[:, 0], {"ordering": "rcm"}), (b, {})):
            warnings = tacit.solve(A, right, method=method, precond=precond, **options).warnings
            found = [text for text in warnings if "need not be Hermitian where A is" in text]
            assert len(found) == told, (method, precond, warnings)
            assert not told or f"{method} takes it for a Hermitian map" in found[0]


@pytest.mark.parametrize("scalar", SCALARS)
def test_classical_coarsening_on_ranks(scalar: str) -> None:
    a = laplacian(N, N).astype(scalar)
    b = np.random.default_rng(0).standard_normal(N * N).astype(scalar)
    rtol = 1e-4 if scalar in ("float32", "complex64") else 1e-8

    def rank(comm: Any) -> tuple[list[int], int, int]:
        A, _ = own_rows(comm, a, comm.size == 3)
        M = tacit.precond.amg(A, coarsening="pmis", coarsest=30)
        more = {"name": "amg", "coarsening": "hmis", "aggressive": 1, "interpolation": "multipass", "p_max": 3}
        found = [tacit.solve(A, b, method="cg", precond=p, rtol=rtol) for p in (M, more)]
        assert all(r.converged and true_residual(a, r.x, b) < 1.1 * rtol for r in found)
        return [level["rows"] for level in M.report["levels"]], found[0].iterations, found[1].iterations

    all_of = [tacit.comm.run_threads(ranks, rank)[0] for ranks in (1, 2, 3, 5)]
    assert all(rows == all_of[0][0] for rows, _, _ in all_of)
    assert all(one <= 12 and two <= 28 for _, one, two in all_of)
    assert len(all_of[0][0]) >= 4


@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_systems(n: int) -> None:
    a = sp.csr_array(2.0 * np.eye(n))

    def rank(comm: Any) -> bool:
        A, mine = own_rows(comm, a, False)
        M = tacit.precond.amg(A, near_null=np.ones((mine.stop - mine.start, 1)), coarsest=1)
        return bool(np.all(tacit.solve(A, np.ones(n), method="cg", precond=M).x == 0.5))

    assert all(tacit.comm.run_threads(3, rank))


def test_new_values() -> None:
    a = laplacian(N, N)
    b = np.random.default_rng(0).standard_normal(N * N)
    A = tacit.csr(a)
    old = tacit.precond.amg(A)
    A.update_values(1.2 * a.data)
    r = tacit.solve(A, b, method="cg", precond=old, rtol=1e-8)
    assert r.converged
    assert true_residual(1.2 * a, r.x, b) < 1.1e-8
    new = tacit.precond.amg(A)
    assert np.array_equal(new @ b, tacit.precond.amg(tacit.csr(1.2 * a)) @ b)
    assert old.update()
    assert np.array_equal(old @ b, new @ b)
    made = tacit.precond.make(A, "amg", single_levels=True)
    A.update_values(2 * a.data)
    assert made.update()
    assert np.array_equal(made @ b, tacit.precond.amg(tacit.csr(2 * a), single_levels=True) @ b)
    classical = tacit.precond.amg(A, coarsening="pmis")
    assert not classical.update()  # made anew
    A.update_values(np.where(np.arange(a.nnz) == 5, np.nan, a.data))
    with pytest.raises(tacit.InputError, match="not finite at row 1"):
        old.update()


@pytest.mark.parametrize("columns", [1, 2])
def test_a_solve_tells_of_unsolved_coarsest_levels(columns: int) -> None:
    A = tacit.poisson((40, 40), assembled=True)
    M = tacit.precond.amg(A, bottom="cg", bottom_max_iterations=1, bottom_reduction=1e-12, coarsest=200)
    b = np.ones((1600, columns))[:, 0] if columns == 1 else np.eye(1600)[:, :columns]
    for _ in range(2):  # of this solve, not of those before
        result = tacit.solve(A, b, method="fgmres", precond=M)
        told = [w for w in result.warnings if "coarsest level" in w]
        assert len(told) == 1
        assert "bottom cg: max_iterations" in told[0]
    solved = tacit.solve(A, b, method="fgmres", precond=tacit.precond.amg(A, bottom="cg", coarsest=200))
    assert not [w for w in solved.warnings if "coarsest level" in w]
