"""tacit.lstsq, lsqr, lsmr and tacit.scipy's: results against dense ones, ranks, errors, the command line, and problems
that others have reported of such methods."""

from __future__ import annotations

import io
import json
import math
import pickle
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from conftest import ROOT, SCALARS, Run

import tacit
import tacit.scipy as drop_in

BIDIAGONAL = ["lsmr", "lsqr"]
METHODS = [*BIDIAGONAL, "cg", "pipelined-cg", "ca-cg"]


def problem(m: int, n: int, scalar: str = "float64", seed: int = 1) -> Any:
    """A sparse matrix of full rank with a moderate condition."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((m, n), density=min(1.0, 5 / min(m, n)), rng=rng, format="csr")
    if scalar.startswith("complex"):
        a = a + 1j * sp.random_array((m, n), density=min(1.0, 5 / min(m, n)), rng=rng, format="csr")
    return sp.csr_array(a + sp.eye_array(m, n) * 3).astype(scalar)


def right(m: int, scalar: str = "float64", seed: int = 2) -> Any:
    rng = np.random.default_rng(seed)
    b = rng.standard_normal(m)
    return (b + 1j * rng.standard_normal(m) if scalar.startswith("complex") else b).astype(scalar)


def dense(a: Any, b: Any, damp: float = 0.0) -> Any:
    """The shortest minimiser of ||b - A x||^2 + damp^2 ||x||^2, by LAPACK's gelsd."""
    a = np.asarray(a.toarray() if sp.issparse(a) else a)
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide), np.asarray(b).astype(wide)
    if damp:
        a, b = np.vstack([a, damp * np.eye(a.shape[1])]), np.concatenate([b, np.zeros(a.shape[1])])
    return np.linalg.lstsq(a, b, rcond=None)[0]


def near(x: Any, y: Any) -> float:
    return float(np.linalg.norm(x - y) / np.linalg.norm(y))


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", METHODS)
def test_agrees_with_lapack(method: str, scalar: str) -> None:
    single = scalar in ("float32", "complex64")
    tolerance = 3e-6 if single else 1e-12
    for m, n in ((60, 25), (25, 60), (30, 30)):
        a, b = problem(m, n, scalar), right(m, scalar)
        for damp in (0.0, 1.5):
            r = tacit.lstsq(a, b, method=method, damp=damp, atol=tolerance, btol=tolerance)
            assert r.converged, (m, n, damp, r.summary())
            assert r.x.dtype == scalar
            assert near(r.x, dense(a, b, damp)) <= (1e-2 if single else 1e-8), (m, n, damp)
            residual = b - a @ r.x
            assert np.isclose(r.residual, np.linalg.norm(residual), rtol=1e-3 if single else 1e-8, atol=1e-5)
            assert r.met in ("residual", "gradient")
            assert (r.equations, r.unknowns, r.nonzeros) == (m, n, a.nnz)


def test_any_kind_of_matrix() -> None:
    a, b = problem(40, 15), right(40)
    x = dense(a, b)
    kinds = [a, a.toarray(), a.toarray().tolist(), a.tocoo(), tacit.csr(a), spl.aslinearoperator(a), tacit.csr(a.T).T]
    kinds.append(tacit.function(a.shape, lambda v: a @ v, rmatvec=lambda v: a.T @ v))
    kinds.append(tacit.csr(problem(40, 40)) @ tacit.csr(a))
    for kind in kinds[:-1]:
        assert near(tacit.lstsq(kind, b, atol=1e-12, btol=1e-12).x, x) <= 1e-8
    product = problem(40, 40) @ a
    assert near(tacit.lstsq(kinds[-1], b, atol=1e-12, btol=1e-12).x, dense(product, b)) <= 1e-7


def test_preconditioners() -> None:
    a = sp.csr_array(problem(80, 30) @ sp.diags_array(np.logspace(-3, 3, 30)))
    b = right(80)
    x = dense(a, b)
    plain = tacit.lstsq(a, b, atol=1e-12, btol=1e-12)
    scaled = tacit.lstsq(a, b, atol=1e-12, btol=1e-12, precond="jacobi")
    assert scaled.precond == "jacobi"
    assert scaled.iterations < plain.iterations
    assert near(scaled.x, x) <= 1e-8
    # R of A = Q R: A R^-1 is orthogonal, two iterations.
    R = np.linalg.qr(a.toarray())[1]
    inverse = spl.LinearOperator(
        (30, 30), matvec=lambda y: np.linalg.solve(R, y), rmatvec=lambda g: np.linalg.solve(R.T, g), dtype=float
    )
    exact = tacit.lstsq(a, b, atol=1e-10, btol=1e-10, precond=inverse)
    assert exact.iterations <= 3
    assert near(exact.x, x) <= 1e-8
    damped = tacit.lstsq(a, b, damp=0.5, atol=1e-12, btol=1e-12, precond="jacobi")
    assert near(damped.x, dense(a, b, 0.5)) <= 1e-8
    assert tacit.lstsq(a, b, precond="none").precond == "none"


def test_guess_shape_and_form() -> None:
    a, b = problem(40, 15), right(40)
    x = dense(a, b, 0.7)
    for x0 in (np.ones(15), x, np.ones((15, 1))):
        assert near(tacit.lstsq(a, b, x0, damp=0.7, atol=1e-12, btol=1e-12).x, x) <= 1e-8
        column = tacit.lstsq(a, b[:, None], x0, damp=0.7, atol=1e-12, btol=1e-12).x
        assert column.shape == (15, 1)
        assert near(column[:, 0], x) <= 1e-8
    assert tacit.lstsq(a, b, x, damp=0.7).iterations == 0
    seen: list[Any] = []
    r = tacit.lstsq(a, b, callback=lambda state: seen.append((state.iteration, state.residual_norm, state.x)))
    assert [k for k, _, _ in seen] == list(range(1, r.iterations + 1))
    assert all(np.isclose(np.linalg.norm(b - a @ y), n * np.linalg.norm(b)) for _, n, y in seen)
    stopped = tacit.lstsq(a, b, callback=lambda state: state.iteration == 2)
    assert (stopped.reason, stopped.iterations) == ("stopped", 2)


def right_sides(m: int, k: int, scalar: str = "float64") -> Any:
    return np.stack([right(m, scalar, seed) for seed in range(k)], axis=1)


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", METHODS)
def test_columns_are_each_solved(method: str, scalar: str) -> None:
    """As numpy.linalg.lstsq, and each column as it would be alone, to the bit."""
    tolerance = 3e-6 if scalar in ("float32", "complex64") else 1e-12
    goals: Any = {"method": method, "atol": tolerance, "btol": tolerance, "damp": 0.5, "precond": "jacobi"}
    for m, n in ((60, 25), (25, 60)):
        a, b = problem(m, n, scalar), right_sides(m, 3, scalar)
        b[:, 1] *= 1e-3
        r = tacit.lstsq(a, b, **goals)
        assert isinstance(r, tacit.krylov.LeastSquaresColumnsResult)
        assert r.x.shape == (n, 3)
        assert r.x.dtype == scalar
        assert r.converged
        assert (r.together, len(r.columns)) == (1, 3)
        for c in range(3):
            alone = tacit.lstsq(a, b[:, c], **goals)
            assert np.array_equal(r.x[:, c], alone.x)
            assert (r.columns[c].iterations, r.columns[c].met) == (alone.iterations, alone.met)
            assert near(r.x[:, c], dense(a, b[:, c], 0.5)) <= (1e-2 if tolerance > 1e-9 else 1e-8)
        assert r.gradient_norm == max(c.gradient_norm for c in r.columns)
        assert r.iterations == max(c.iterations for c in r.columns)
        assert "3 of 3 columns converged" in r.summary()
        assert "LeastSquaresColumnsResult" in repr(r)
        assert json.loads(r.to_json())["columns"][2]["met"] == "gradient"


def test_columns_end_each_for_a_reason_of_its_own() -> None:
    a, b = problem(40, 15), right_sides(40, 4)
    b[7, 1] = np.nan
    b[:, 2] = 0
    b[:, 3] = a @ np.ones(15)
    x0 = np.zeros((15, 4))
    x0[:, 3] = 1
    r = tacit.lstsq(a, b, x0)
    assert [c.reason for c in r.columns] == ["converged", "non_finite", "converged", "converged"]
    assert [c.iterations for c in r.columns[1:]] == [0, 0, 0]
    assert (r.converged, r.reason, r.info) == (False, "non_finite", -3)
    assert r.detail.startswith("column 1:")
    assert not r.x[:, 1:3].any()
    with pytest.raises(tacit.NotConverged, match="column 1"):
        tacit.lstsq(a, b, raise_on_failure=True)
    again = pickle.loads(pickle.dumps(r))
    assert again.summary() == r.summary()

    seen: list[tuple[int, int]] = []

    def look(state: Any) -> bool:
        seen.append((state.column, state.iteration))
        assert state.x.shape == (15,)
        return bool(state.column == 0 and state.iteration == 2)

    stopped = tacit.lstsq(a, right_sides(40, 2), callback=look)
    assert [c.reason for c in stopped.columns] == ["stopped", "converged"]
    assert seen == [(0, 1), (0, 2), *((1, k + 1) for k in range(stopped.columns[1].iterations))]
    variances = tacit.lstsq(a, right_sides(40, 2), method="lsqr", variance=True).variance
    assert variances is not None
    assert variances.shape == (15, 2)


def test_scipys_signature_gives_flat_vectors() -> None:
    a, b = problem(40, 15), right_sides(40, 2)
    for name in BIDIAGONAL:
        assert getattr(tacit, name)(a, b[:, :1]).x.shape == (15,)
        assert getattr(tacit, name)(a, b).x.shape == (15, 2)
        with pytest.raises(ValueError, match=r"b \(40, 2\); \(40,\) is needed"):
            getattr(drop_in, name)(a, b)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_columns_on_ranks(ranks: int) -> None:
    a, b = problem(31, 12), right_sides(31, 3)
    x = dense(a, b)

    def rank(comm: Any) -> None:
        A = tacit.csr(a, comm=comm)
        r = tacit.lstsq(A, b, atol=1e-12, btol=1e-12)
        assert near(r.x, x) <= 1e-8
        assert tacit.lstsq(A, b[:, :1]).x.shape == (12, 1)
        begin, end = A.own_range
        own = tacit.lstsq(A, b[begin:end], atol=1e-12, btol=1e-12).x
        first, last = tacit.layout.blocks(12, comm.size)[comm.rank : comm.rank + 2]
        assert np.array_equal(own, r.x[first:last])
        if comm.size > 1:
            with pytest.raises(ValueError, match=r"b is 3 columns on rank 0 and 2 columns on rank"):
                tacit.lstsq(A, b[:, : 3 if comm.rank == 0 else 2])

    tacit.comm.run_threads(ranks, rank)


def test_result_reads_well() -> None:
    r = tacit.lstsq(problem(40, 15), right(40))
    x, info = r
    assert info == 0
    assert x is r.x
    assert "gradient" in repr(r)
    assert "40 equations, 15 unknowns" in r.summary()
    assert "least-squares solution" in r.detail
    assert json.loads(r.to_json())["met"] == "gradient"
    assert "equations" in r._repr_html_()
    assert len(r.history) == len(r.gradient_history) == r.iterations + 1
    with pytest.raises(tacit.NotConverged, match="max_iterations"):
        tacit.lstsq(problem(40, 15), right(40), max_iterations=1, raise_on_failure=True)


def test_wrong_use() -> None:
    a, b = problem(40, 15), right(40)
    with pytest.raises(ValueError, match="b has 15 elements; 40 are needed"):
        tacit.lstsq(a, b[:15])
    with pytest.raises(ValueError, match="x0 has 40 elements; 15 are needed"):
        tacit.lstsq(a, b, b)
    with pytest.raises(ValueError, match="unknown method 'lsrq'; did you mean 'lsqr'"):
        tacit.lstsq(a, b, method="lsrq")
    with pytest.raises(ValueError, match='takes "jacobi"'):
        tacit.lstsq(a, b, precond="ilu0")
    with pytest.raises(ValueError, match="damp is -1; it takes a number >= 0"):
        tacit.lstsq(a, b, damp=-1.0)
    with pytest.raises(ValueError, match="step 4 is an option of ca-cg"):
        tacit.lstsq(a, b, step=4)
    with pytest.raises(TypeError, match="lstsq has no option 'rtol'"):
        tacit.lstsq(a, b, rtol=1e-3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"needs products with A\^H"):
        tacit.lstsq(tacit.function((40, 15), lambda v: a @ v), b)
    with pytest.raises(ValueError, match="needs the entries"):
        tacit.lstsq(spl.aslinearoperator(a), b, precond="jacobi")
    with pytest.raises(ValueError, match=r"precond has shape \(40, 40\)"):
        tacit.lstsq(a, b, precond=np.eye(40))
    with pytest.raises(ValueError, match="variance=True goes with"):
        tacit.lstsq(a, b, variance=True)
    with pytest.raises(ValueError, match="it has no columns"):
        tacit.lstsq(a, np.ones((40, 0)))
    with pytest.raises(ValueError, match=r"\(n,\), or k columns"):
        tacit.lstsq(a, np.ones((40, 2, 1)))
    with pytest.raises(ValueError, match="each column of b needs one of x0"):
        tacit.lstsq(a, np.ones((40, 2)), np.ones(15))
    with pytest.raises(ValueError, match=r"tacit\.lstsq minimises"):
        tacit.solve(a, b)


def test_what_is_not_finite() -> None:
    a, b = problem(40, 15), right(40)
    b[7] = np.nan
    r = tacit.lstsq(a, b)
    assert r.reason == "non_finite"
    assert "index 7" in r.detail
    assert not r.x.any()
    assert np.isnan(r.residual_norm)


# --- what SciPy's return ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BIDIAGONAL)
@pytest.mark.parametrize("damp", [0.0, 1.5])
def test_tuples_are_scipys(name: str, damp: float) -> None:
    ours, theirs = getattr(drop_in, name), getattr(spl, name)
    for m, n in ((40, 15), (15, 40), (20, 20)):
        for scalar in ("float32", "float64", "complex128"):
            a, b = problem(m, n, scalar), right(m, scalar)
            goal = 1e-5 if scalar == "float32" else 1e-9
            found, expected = (solver(a, b, damp, atol=goal, btol=goal) for solver in (ours, theirs))
            assert len(found) == len(expected)
            assert [type(value) for value in found[1:3]] == [int, int]
            assert found[0].shape == expected[0].shape
            if not (name == "lsqr" and scalar == "complex128"):  # SciPy's lsqr keeps a real x first
                assert found[0].dtype == expected[0].dtype
            assert found[1] == expected[1]
            assert abs(found[2] - expected[2]) <= 2
            assert near(found[0], expected[0]) <= 100 * goal
            residual = b - a @ found[0]
            whole = np.hypot(np.linalg.norm(residual), damp * np.linalg.norm(found[0]))
            gradient = np.linalg.norm(a.conj().T @ residual - damp**2 * found[0])
            if name == "lsqr":
                norms = (np.linalg.norm(residual), whole, gradient, np.linalg.norm(found[0]))
                np.testing.assert_allclose([found[i] for i in (3, 4, 7, 8)], norms, atol=1e-6)
                assert found[9].shape == (n,)
            else:
                np.testing.assert_allclose([found[i] for i in (3, 4, 7)], (whole, gradient, np.linalg.norm(found[0])),
                                           atol=1e-6)  # fmt: skip


def test_istop() -> None:
    a, b = problem(40, 15), right(40)
    for solver in (drop_in.lsqr, drop_in.lsmr):
        assert solver(a, np.zeros(40))[1] == 0
        assert solver(a, a @ np.ones(15))[1] == 1
        assert solver(a, b)[1] == 2
        assert solver(a, b, atol=1e-12, btol=1e-12, conlim=1.5)[1] == 3
        limit = {"lsqr": "iter_lim", "lsmr": "maxiter"}[solver.__name__]
        for right_hand_side in (a @ np.ones(15), b):
            assert solver(a, right_hand_side, atol=0, btol=0, conlim=0, **{limit: 300})[1] in (4, 5, 6)
    assert drop_in.lsqr(a, b, iter_lim=2)[1:3] == (7, 2)
    assert drop_in.lsmr(a, b, maxiter=2)[1:3] == (7, 2)
    with pytest.raises(TypeError, match="'iter_lim'"):
        drop_in.lsqr(a, b, iterlim=2)  # type: ignore[call-arg]


def test_damping_is_of_the_step_in_scipy_and_of_x_in_tacit() -> None:
    a, b, x0 = problem(40, 15), right(40), np.ones(15)
    for name in BIDIAGONAL:
        ours = getattr(drop_in, name)(a, b, 1.5, x0=x0, atol=1e-12, btol=1e-12)[0]
        theirs = getattr(spl, name)(a, b, 1.5, x0=x0, atol=1e-12, btol=1e-12)[0]
        assert near(ours, theirs) <= 1e-8
        assert near(ours, x0 + dense(a, b - a @ x0, 1.5)) <= 1e-8
        own = getattr(tacit, name)(a, b, 1.5, x0=x0, atol=1e-12, btol=1e-12)
        assert near(own.x, dense(a, b, 1.5)) <= 1e-8
        assert own.info == 0


@pytest.mark.parametrize("method", METHODS)
def test_x0_is_kept_where_no_goal_is_given(method: str) -> None:
    a, b = problem(40, 15), right(40)
    near_by = dense(a, b) + 1e-3 * right(15)
    for steps in (0, 1, 3):
        r = tacit.lstsq(a, b, near_by, method=method, max_iterations=steps, atol=0.0, btol=0.0)
        assert not r.warnings
        assert r.residual <= np.linalg.norm(b - a @ near_by) * (1 + 1e-12)
    assert near(tacit.lstsq(a, b, near_by, method=method, max_iterations=0, atol=0.0, btol=0.0).x, near_by) <= 1e-14


def test_variance() -> None:
    a, b = problem(30, 8).toarray(), right(30)
    for damp in (0.0, 2.0):
        found = drop_in.lsqr(a, b, damp, atol=1e-15, btol=1e-15, conlim=0, iter_lim=8, calc_var=True)[9]
        np.testing.assert_allclose(found, np.diag(np.linalg.inv(a.T @ a + damp**2 * np.eye(8))), rtol=1e-6)
    assert not drop_in.lsqr(a, b)[9].any()
    r = tacit.lsqr(a, b, calc_var=True)
    assert r.variance is not None
    assert (r.variance > 0).all()


# --- problems that were reported of other implementations -------------------------------------------------------------


def test_rank_deficient_square_matrices() -> None:
    """A square matrix without full rank: the iteration must reach the solution, or say that it has not."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((60, 40)) @ rng.standard_normal((40, 60))
    b = a @ rng.standard_normal(60)
    for method in BIDIAGONAL:
        r = tacit.lstsq(a, b, method=method, atol=1e-12, btol=1e-12)
        assert r.converged == (np.linalg.norm(b - a @ r.x) <= 1e-6 * np.linalg.norm(b))
        assert r.converged, r.summary()
        assert near(r.x, dense(a, b)) <= 1e-5  # the shortest


def test_norms_after_a_guess() -> None:
    """The norms that are returned must be those of the x that is returned, also with x0 and damp."""
    a, b = problem(40, 15), right(40)
    for l2 in (25.0, 50.0):
        for x0 in (None, np.ones(15)):
            x, _, _, r1, r2 = drop_in.lsqr(a, b, damp=l2**0.5, x0=x0)[:5]
            step = x if x0 is None else x - x0
            assert np.isclose(r1, np.linalg.norm(b - a @ x))
            assert np.isclose(r2, np.sqrt(r1**2 + l2 * np.linalg.norm(step) ** 2))


@pytest.mark.parametrize("solver", [drop_in.lsqr, drop_in.lsmr])
def test_tiny_systems(solver: Any) -> None:
    """No division by a norm that is zero."""
    with np.errstate(all="raise"):
        x = solver(np.array([1, 4]), np.array([1]))[0]  # one row, given as a vector
        np.testing.assert_allclose(x, [1 / 17, 4 / 17])
        np.testing.assert_allclose(solver(np.array([[1.0, 2.0]]), 3.0)[0], [0.6, 1.2])
        two = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
        np.testing.assert_allclose(solver(two, np.array([17, 39], "float32"))[0], [5, 6])
        for x0 in (None, np.ones(2)):
            x, istop = solver(np.array([[1.0, 1.0], [1.0, 2.0]]), np.zeros(2), x0=x0)[:2]  # b = 0
            assert istop == 0
            np.testing.assert_array_equal(x, [0, 0])
        ones = np.ones(10)
        x, istop, iterations = solver(np.eye(10), ones, x0=ones)[:3]  # begins with the solution
        assert (istop, iterations) == (0, 0)
        np.testing.assert_array_equal(x, ones)


def test_no_matrix_at_all() -> None:
    """With A = 0 only ||x|| is left to be minimised, from any x0; and a limit of no iterations is one."""
    for method in METHODS:
        r = tacit.lstsq(np.zeros((5, 5)), np.ones(5), np.ones(5), damp=1.0, method=method)
        assert r.converged
        assert np.linalg.norm(r.x) <= 1e-7
    out = io.StringIO()
    with redirect_stdout(out):
        x, istop, iterations = drop_in.lsmr(problem(20, 8), right(20), maxiter=0, show=True)[:3]
    assert (istop, iterations) == (7, 0)
    assert not x.any()
    assert "max_iterations" in out.getvalue()


def test_shapes_follow_b_and_not_its_numbers() -> None:
    """Also for wide matrices, for one column, and for b = 0 with an x0."""
    for solver in (tacit.lstsq, tacit.lsqr, tacit.lsmr, drop_in.lsqr, drop_in.lsmr):
        assert solver(np.eye(2, 6), np.ones(2))[0].shape == (6,)
        for b in (np.ones(10), np.zeros(10)):
            assert solver(np.ones((10, 1)), b, x0=np.ones(1))[0].shape == (1,)


@pytest.mark.parametrize("method", METHODS)
def test_no_iterations_judge_x0_once(method: str) -> None:
    """A x0 and A^H r; methods without a bound of ||A|| of their own take one product more for it."""
    a, b, x0 = problem(40, 15), right(40), np.linspace(1, 2, 15)
    for guess in (None, x0):
        products = (0 if guess is None else 1) + (0 if method in BIDIAGONAL else 1)
        r = tacit.lstsq(a, b, guess, method=method, max_iterations=0)
        assert (r.reason, r.ending, r.iterations) == ("max_iterations", "iterations", 0)
        assert np.array_equal(r.x, np.zeros(15) if guess is None else x0)
        assert np.isclose(r.residual, np.linalg.norm(b - a @ r.x))
        assert r.counts["operator_applies"] == products + 1


def test_damp_is_squared() -> None:
    a, b = problem(40, 15), right(40)
    x = np.linalg.solve((a.T @ a).toarray() + 9 * np.eye(15), a.T @ b)
    for method in METHODS:
        assert near(tacit.lstsq(a, b, damp=3.0, method=method, atol=1e-12, btol=1e-12).x, x) <= 1e-8


def test_singular_preconditioner_is_not_converged() -> None:
    """P^H A^H r vanishes with a P that maps to a subspace; A^H r does not, and that is what counts."""
    for method in METHODS:
        r = tacit.lstsq(np.eye(2), np.array([0.0, 1.0]), precond=np.diag([1.0, 0.0]), method=method)
        assert not r.converged
        assert r.reason == "breakdown"
        assert np.isclose(r.gradient, 1)


def test_nan_of_an_operator_is_no_zero() -> None:
    """A product that gives NaN must not pass for a gradient that is zero."""
    a, b = problem(30, 10), right(30)
    for back in (lambda v: np.full(10, np.nan), lambda v: np.full(10, np.inf)):
        r = tacit.lstsq(tacit.function(a.shape, lambda v: a @ v, rmatvec=back), b)
        assert r.reason == "non_finite", r.summary()
        assert not r.x.any()


def test_a_long_x_is_no_solution() -> None:
    """Nearly dependent columns make x so long that atol ||A|| ||x|| exceeds b: that must not count as converged."""
    rng = np.random.default_rng(1)
    column = rng.standard_normal((50, 1))
    a = np.hstack([column, column + 1e-13 * rng.standard_normal((50, 1)), rng.standard_normal((50, 3))])
    b = rng.standard_normal(50)
    for method in BIDIAGONAL:
        r = tacit.lstsq(a, b, np.array([1e12, -1e12, 0, 0, 0]), method=method)
        if r.converged:
            gradient = a.T @ (b - a @ r.x)
            assert np.linalg.norm(gradient) <= 1e-7 * np.linalg.norm(a) * np.linalg.norm(b - a @ r.x)


def test_tiny_right_hand_sides() -> None:
    """A b of 1e-15, 1e-150 or 1e-300 is solved as one of 1 is."""
    a, b = problem(40, 15), right(40)
    plain = tacit.lstsq(a, b, atol=1e-10, btol=1e-10)
    for size in (1e-15, 1e-150, 1e-290, 1e290):
        r = tacit.lstsq(a, size * b, atol=1e-10, btol=1e-10)
        assert r.converged
        assert abs(r.iterations - plain.iterations) <= 1
        assert near(r.x / size, plain.x) <= 1e-8


# --- ranks and the command line ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks(python: Run, ranks: int) -> None:
    python(
        """
        import numpy as np, scipy.sparse as sp, tacit
        world = tacit.comm.world()
        rng = np.random.default_rng(1)
        for m, n in ((60, 25), (25, 60), (4, 2), (2, 4)):
            a = sp.csr_array(sp.random_array((m, n), density=0.3, rng=rng) + 3 * sp.eye_array(m, n))
            b = rng.standard_normal(m)
            damped = np.vstack([a.toarray(), 0.5 * np.eye(n)]), np.concatenate([b, np.zeros(n)])
            x = np.linalg.lstsq(*damped, rcond=None)[0]
            for method in ("lsmr", "lsqr", "ca-cg"):
                for precond in (None, "jacobi"):
                    r = tacit.lstsq(a, b, damp=0.5, method=method, precond=precond, atol=1e-12, btol=1e-12)
                    assert r.converged, r.summary()
                    assert np.linalg.norm(r.x - x) <= 1e-8 * np.linalg.norm(x)
            # Own rows, some ranks with none; b and x are own parts.
            offsets = [0] + [m * (k + 1) // world.size if k % 2 else m * k // world.size for k in range(world.size)]
            offsets[-1] = m
            own = slice(offsets[world.rank], offsets[world.rank + 1])
            A = tacit.csr(a[own], own_rows=True)
            r = tacit.lstsq(A, b[own], damp=0.5, atol=1e-12, btol=1e-12)
            first, last = tacit.layout.blocks(n, world.size)[world.rank : world.rank + 2] if m != n else own
            assert np.linalg.norm(r.x - x[first:last]) <= 1e-8 * np.linalg.norm(x)
        try:
            tacit.lstsq(a, b, damp=float(world.rank))
            raise AssertionError("no error")
        except ValueError as e:
            assert "damp is 0" in str(e), e
        """,
        ranks=ranks,
    )


def command(*words: Any, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tacit", *map(str, words)],
        capture_output=True,
        text=True,
        env={**__import__("os").environ, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "200"},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("what", "one", "other"),
    [("callback", None, lambda state: None), ("raise_on_failure", True, False), ("scalar", None, "float32")],
)
def test_ranks_that_differ(what: str, one: Any, other: Any) -> None:
    def rank(comm: Any) -> None:
        A = np.random.default_rng(0).random((9, 4))
        with pytest.raises(ValueError, match=what):
            tacit.lstsq(A, np.ones(9), comm=comm, **{what: other if comm.rank else one})

    tacit.comm.run_threads(2, rank)


def test_no_limit_of_the_condition() -> None:
    A, b = np.random.default_rng(0).random((9, 4)), np.ones(9)
    for limit in (0, -1.0, math.nan):
        assert drop_in.lsqr(A, b, conlim=limit)[1] == 2
        assert drop_in.lsmr(A, b, conlim=limit)[1] == 2
    with pytest.raises(TypeError, match="verbose is 'yes'"):
        tacit.lstsq(A, b, verbose="yes")  # type: ignore[arg-type]


def test_command_line(tmp_path: Path) -> None:
    a, b = problem(40, 15), right(40)
    file, rhs, out = tmp_path / "a.mtx", tmp_path / "b.npy", tmp_path / "x.npy"
    tacit.write(file, a)
    np.save(rhs, b)
    said = command("solve", file, "--rhs", rhs, "--rtol", "1e-12", "--output", out, "--json", tmp_path / "r.json")
    assert "40 rows and 15 columns: lsmr minimised |b - A x|" in said
    assert "gradient" in said
    assert near(np.load(out), dense(a, b)) <= 1e-8
    facts = json.loads((tmp_path / "r.json").read_text())
    assert (facts["equations"], facts["unknowns"], facts["method"], facts["met"]) == (40, 15, "lsmr", "gradient")
    options = ["--method", "lsqr", "--damp", "0.7", "--precond", "jacobi", "--x0", out, "--rtol", "1e-12"]
    command("solve", file, "--rhs", rhs, *options, "--output", tmp_path / "y.npy")
    assert near(np.load(tmp_path / "y.npy"), dense(a, b, 0.7)) <= 1e-8
    np.save(rhs, right_sides(40, 2))
    said = command("solve", file, "--rhs", rhs, "--rtol", "1e-12", "--output", out, "--json", tmp_path / "r.json")
    assert "2 of 2 converged" in said
    assert near(np.load(out), dense(a, right_sides(40, 2))) <= 1e-8
    assert len(json.loads((tmp_path / "r.json").read_text())["columns"]) == 2
    np.save(tmp_path / "guess.npy", np.ones((15, 3)))
    guess = ["--x0", tmp_path / "guess.npy"]
    assert "3 vectors for 2 right-hand sides" in command("solve", file, "--rhs", rhs, *guess, code=4)
    assert "is for a square A" in command("solve", file, "--method", "gmres", code=2)
    assert "--restart is for square systems" in command("solve", file, "--restart", "5", code=2)
    assert "--precond ilu0 is for square systems" in command("solve", file, "--precond", "ilu0", code=2)
    assert "stagnated" not in command("solve", file, "--max-iterations", "1", code=3)
    tacit.write(file, problem(20, 20))
    assert "lsmr minimised" in command("solve", file, "--method", "lsmr")
    assert "say --method lsmr" in command("solve", file, "--damp", "1", code=2)
