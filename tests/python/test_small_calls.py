"""What a small solve costs beside its arithmetic, counted instead of timed; and that what is kept for the next call
changes no result and no error.
"""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import laplacian

import tacit
import tacit.scipy
from tacit import _core
from tacit.krylov import request


def calls_of(work: Callable[[], Any]) -> tuple[int, int]:
    """How many functions of Python, and of others, are called."""
    counts = {"call": 0, "c_call": 0}

    def count(_: Any, event: str, __: Any) -> None:
        if event in counts:
            counts[event] += 1

    for _ in range(3):  # the first calls import, and keep what later ones find
        work()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts["call"], counts["c_call"]


A = laplacian(100)
OF_CSR = tacit.csr(A)
B = np.ones(100)
OUT = np.empty(100)


@pytest.mark.parametrize(
    ("work", "most"),
    [
        pytest.param(lambda: OF_CSR @ B, (5, 2), id="product"),
        pytest.param(lambda: OF_CSR.matvec(B, out=OUT), (7, 4), id="product in place"),
        pytest.param(lambda: tacit.cg(A, B), (56, 34), id="cg"),
        pytest.param(lambda: tacit.cg(OF_CSR, B), (25, 15), id="cg of Csr"),
        pytest.param(lambda: tacit.gmres(OF_CSR, B), (26, 15), id="gmres of Csr"),
        pytest.param(lambda: tacit.solve(OF_CSR, B), (22, 12), id="solve of Csr"),
        pytest.param(lambda: tacit.scipy.cg(A, B), (61, 45), id="scipy.cg"),
    ],
)
def test_a_small_solve_calls_few_functions(work: Callable[[], Any], most: tuple[int, int]) -> None:
    found = calls_of(work)
    print(found)
    assert found[0] <= most[0]
    assert found[1] <= most[1]


def everything_of(r: Any) -> dict[str, Any]:
    """What a result says, but for times."""
    seen = {**r.__getstate__(), "seconds": sorted(r.seconds)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in seen.items()}


@pytest.mark.parametrize("of", [A, OF_CSR, sp.csc_array(A)], ids=["csr", "Csr", "csc"])
@pytest.mark.parametrize("method", ["cg", "gmres", "auto", tacit.methods.Bicgstab()], ids=str)
@pytest.mark.parametrize("more", [{}, {"rtol": 1e-3, "history": False}, {"max_iterations": 2}], ids=str)
def test_what_needs_no_place_is_solved_as_in_its_place(of: Any, method: Any, more: dict[str, Any]) -> None:
    found = []
    for further in ({"threads": _core.threads()}, {}):  # a number of threads changes what is around a solve
        made_anew = tacit.csr(A) if of is OF_CSR else of  # it has learnt nothing
        found.append(everything_of(tacit.solve(made_anew, B, method=method, **more, **further)))
    assert found[0] == found[1]


def test_what_needs_a_place_is_not_taken_for_what_needs_none() -> None:
    with pytest.raises(ValueError, match="b has 99 elements"):
        tacit.solve(OF_CSR, B[:-1], method="cg")
    with pytest.raises(ValueError, match="99"):
        tacit.cg(A, B[:-1])
    with pytest.raises(ValueError, match="square"):
        tacit.solve(tacit.csr(A[:, :-1]), B, method="gmres")
    with pytest.raises(ValueError, match="square"):
        tacit.solve(A[:, :-1], B, method="gmres")
    with pytest.raises(tacit.NotConverged):
        tacit.solve(OF_CSR, B, method="cg", max_iterations=2, raise_on_failure=True)
    every_other = np.repeat(B, 2)[::2]
    column, single, whole = B[:, None], B.astype(np.float32), B.astype(int)
    for b in (every_other, column, single, whole, B.tolist(), np.asfortranarray(B), B.astype(">f8")):
        r = tacit.solve(OF_CSR, b, method="cg")
        assert (r.converged, r.scalar, np.shape(r.x)) == (True, "float64", np.shape(b))
    assert tacit.solve(OF_CSR, 1j * B, method="cg").scalar == "complex128"
    assert tacit.solve(A.astype(np.float32), single, method="cg").scalar == "float32"
    for scalar in ("float64", np.float64, np.dtype(np.float64), "float32", np.float32, "complex64"):
        r = tacit.solve(OF_CSR, B, method="cg", rtol=1e-3, scalar=scalar)
        assert (r.converged, r.scalar) == (True, np.dtype(scalar).name)
    singular = tacit.csr(sp.csr_array(np.array([[1.0, -1.0], [-1.0, 1.0]])))
    singular.set_nullspace("constant")
    r = tacit.cg(singular, np.array([2.0, 0.0]))
    assert r.projected_norm == pytest.approx(np.sqrt(2))
    for f in (lambda: tacit.solve(A, B, method="cg", precond="jacobi"), lambda: tacit.solve(A, B, B, method="cg")):
        assert f().converged
    assert tacit.solve(A, B, method="cg", precond="jacobi").precond == "jacobi"


@pytest.mark.parametrize("scalar", ["float32", "float64", "complex64", "complex128"])
def test_products_of_arrays_as_they_are(scalar: str) -> None:
    rows = sp.random_array((30, 20), density=0.3, rng=np.random.default_rng(1)).astype(scalar)
    of = tacit.csr(rows, scalar=scalar)
    x, y = (np.arange(1, n + 1).astype(scalar) for n in (20, 30))
    both = of.matvec(np.stack([x, -x], axis=1))  # columns are looked at
    np.testing.assert_array_equal(of @ x, both[:, 0])
    np.testing.assert_array_equal(of @ np.repeat(x, 2)[::2], both[:, 0])
    out = np.empty(30, scalar)
    assert of.matvec(x, out=out) is out
    np.testing.assert_array_equal(out, both[:, 0])
    np.testing.assert_allclose(of.rmatvec(y), rows.conj().T @ y, rtol=1e-5)
    np.testing.assert_allclose(of.T @ y, rows.T @ y, rtol=1e-5)
    np.testing.assert_allclose(y @ of, y @ rows.toarray(), rtol=1e-5)
    for wrong in (y, x[:-1], x[:0], x.reshape(4, 5)):
        with pytest.raises(ValueError, match="x has"):
            of @ wrong
    for bad in (out[:-1], np.empty(30, "int64"), out[::-1]):
        with pytest.raises((ValueError, TypeError), match="out"):
            of.matvec(x, out=bad)
    square = tacit.csr(rows[:20])
    with pytest.raises(ValueError, match="shares memory"):
        square.matvec(x, out=x)


def test_options_of_the_call_before_do_not_count() -> None:
    small = 1e-6 * B
    for method in ("cg", "minres", "bicgstab", "gmres", "idr"):
        for b, rtol in ((B, 1e-3), (small, 1e-10), (B, 1e-5), (small, 1e-10)):
            r = tacit.solve(OF_CSR, b, method=method, rtol=rtol)
            assert (r.converged, r.rtol) == (True, rtol)
            assert np.linalg.norm(b - A @ r.x) <= 1.01 * rtol * np.linalg.norm(b)
    for rtol in (1e-3, None, 1e-4, None):
        given = {} if rtol is None else {"rtol": rtol}
        assert tacit.solve(OF_CSR, B, method="gmres", **given).rtol == (1e-8 if rtol is None else rtol)
    most = [tacit.cg(OF_CSR, B, maxiter=k).iterations for k in (7, None, 3, 7)]
    assert most == [7, 50, 3, 7]
    assert len(tacit.solve(OF_CSR, B, method="cg", history=False).history) == 0
    assert len(tacit.solve(OF_CSR, B, method="cg", history=True).history) == 51


def test_what_is_kept_for_the_next_call_is_bounded_and_holds_no_arrays() -> None:
    for k in range(600):
        tacit.cg(OF_CSR, B, rtol=1e-3 / (1 + k), maxiter=1)
        assert len(request._KEPT) <= request._MOST_KEPT
    before = list(request._KEPT)
    tacit.solve(OF_CSR, B, method="cg", precond=OF_CSR, max_iterations=1)
    tacit.solve(OF_CSR, B, method=tacit.methods.Cg(), max_iterations=1)
    tacit.cg(OF_CSR, B, rtol=1e-3 / 600, maxiter=1)
    assert list(request._KEPT) == before
    # What is made ready of A, or of rows in another order, is not left out after a solve that needs nothing.
    tacit.solve(OF_CSR, B, method="cg")
    for more in ({"precond": "ic0"}, {"ordering": "rcm"}, {"method": "auto", "precond": "none"}):
        arguments: Any = {"method": "cg", **more}
        r = tacit.solve(OF_CSR, B, **arguments)
        assert r.converged
        assert (r.precond == "none") == (more.get("precond") != "ic0")
    assert tacit.solve(OF_CSR, B, method="auto", precond="none").method == "cg"


def test_goals_relative_to_the_first_residual_stay_with_their_solve() -> None:
    x0 = np.linspace(0, 1, 100) ** 2
    first = tacit.solve(OF_CSR, B, x0, method="cg", rtol=1e-6, relative_to="first")
    again = tacit.solve(OF_CSR, B, x0, method="cg", rtol=1e-6)
    near, far = (tacit.solve(OF_CSR, B, c * x0, method="cg", relative_to="first").atol for c in (1, 1e3))
    assert 100 * near < far
    assert first.rtol == 0
    assert first.atol > 0
    assert (again.rtol, again.atol) == (1e-6, 0)


@pytest.mark.parametrize(
    ("accepted", "refused", "error", "text"),
    [
        ({"restart": 1}, {"restart": True}, TypeError, "restart is True"),
        ({"restart": 20}, {"restart": "20"}, TypeError, "restart is '20'"),
        ({"history": True}, {"history": "True"}, TypeError, "history is 'True'"),
        ({"verbose": False}, {"verbose": 0.0}, TypeError, "verbose is 0.0"),
        ({"rtol": 1e-5}, {"rtol": -1e-5}, ValueError, "rtol is -1e-05"),
        ({"rtol": 1e-5}, {"rtol": float("nan")}, ValueError, "rtol is nan"),
        ({"rtol": 1e-5}, {"rtol": True}, TypeError, "rtol is True"),
        ({"side": "right"}, {"side": ["right"]}, TypeError, "side is"),
        ({"partition": "rows"}, {"partition": ["rows"]}, TypeError, "partition is"),
        ({"path": "auto"}, {"path": "nowhere"}, ValueError, "unknown path"),
        ({"max_iterations": 5}, {"max_iteration": 5}, TypeError, "did you mean"),
        ({"relative_to": "b"}, {"relative_to": "c"}, ValueError, "relative_to"),
        ({"threads": 1}, {"threads": 0}, ValueError, "threads is 0"),
        ({"threads": None}, {"threads": -1}, ValueError, "threads is -1"),
    ],
)
def test_what_was_accepted_before_does_not_let_others_pass(
    accepted: dict[str, Any], refused: dict[str, Any], error: type[Exception], text: str
) -> None:
    for _ in range(2):
        tacit.solve(OF_CSR, B, method="gmres", **accepted)
        with pytest.raises(error, match=text):
            tacit.solve(OF_CSR, B, method="gmres", **refused)


def test_a_callback_that_only_looks_leaves_the_next_one_its_answer() -> None:
    assert tacit.solve(OF_CSR, B, method="cg", callback=tacit.Observer(lambda state: True)).converged
    stopped = tacit.solve(OF_CSR, B, method="cg", callback=lambda state: state.iteration == 3)
    assert (stopped.reason, stopped.iterations) == ("stopped", 3)


def test_options_of_numpy_are_taken() -> None:
    for rtol in (np.float32(0.25), np.float64(1e-4), np.float64(1e-6)):
        assert tacit.cg(OF_CSR, B, rtol=rtol).rtol == float(rtol)
    assert tacit.cg(OF_CSR, B, maxiter=np.int64(4)).iterations == 4


def test_a_result_reads_what_is_asked_for() -> None:
    r = tacit.cg(OF_CSR, B)
    for again in (copy.copy(r), copy.deepcopy(r), pickle.loads(pickle.dumps(r))):
        assert type(again) is type(r)
        assert again.summary() == r.summary()
        assert again.facts() == r.facts()
        assert np.array_equal(again.history, r.history)
    fresh = tacit.cg(OF_CSR, B)
    assert {"history", "counts", "reason", "residual_norm", "converged", "x"} <= set(dir(fresh))
    assert fresh.history is fresh.history
    fresh.method = "mine"  # as any attribute, it can be set
    assert fresh.method == "mine"
    assert pickle.loads(pickle.dumps(fresh)).method == "mine"
    with pytest.raises(AttributeError, match="no attribute 'histroy'"):
        _ = fresh.histroy
    many = tacit.solve(OF_CSR, np.stack([B, 2 * B], axis=1), method="cg")
    assert pickle.loads(pickle.dumps(many)).summary() == many.summary()
    assert copy.deepcopy(many).choice == many.choice


def test_a_result_outlives_its_system() -> None:
    r = tacit.cg(laplacian(30), np.ones(30))
    gc.collect()
    assert r.counts["operator_applies"] >= r.iterations
    assert r.nonzeros == 88


def test_many_solves_leave_nothing_behind() -> None:
    def run() -> None:
        for k in range(100):
            tacit.cg(A, (1 + k) * B, atol=1e-3 * k, rtol=1e-5 / (1 + k))
            tacit.scipy.gmres(A, B, rtol=1e-3 / (1 + k), restart=5)
            tacit.solve(A, B, method="gmres", max_iterations=1 + k % 5)

    run()
    gc.collect()
    before = len(gc.get_objects())
    run()
    gc.collect()
    assert len(gc.get_objects()) <= before + 50


def test_new_values_in_place_are_seen() -> None:
    a = laplacian(100)
    first = tacit.cg(a, B, rtol=1e-10).x
    a.data *= 2  # nothing of the matrix is kept between calls
    assert np.allclose(2 * tacit.cg(a, B, rtol=1e-10).x, first)
    M = tacit.csr(a)
    one = tacit.cg(M, B, rtol=1e-10).x
    M.update_values(3 * a.data)
    assert np.allclose(3 * tacit.cg(M, B, rtol=1e-10).x, one)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_arrays_of_a_matrix_in_any_form(index: type) -> None:
    """Unsorted rows, duplicates, 64-bit indices, values in another byte order, and more entries than belong to rows."""
    n = 20
    a = laplacian(n)
    expected = np.linalg.solve(a.toarray(), np.ones(n))
    start, column, value = a.indptr.astype(index), a.indices.astype(index), a.data
    turned = sp.csr_array((value, column, start), shape=(n, n))
    for i in range(n):
        part = slice(start[i], start[i + 1])
        turned.indices[part], turned.data[part] = turned.indices[part][::-1], turned.data[part][::-1].copy()
    twice = sp.csr_array((np.repeat(value / 2, 2), np.repeat(column, 2), 2 * start), shape=(n, n))
    swapped = sp.csr_array((value, column, start), shape=(n, n))
    swapped.data = value.astype(value.dtype.newbyteorder())
    longer = sp.csr_array((value, column, start), shape=(n, n))
    longer.data, longer.indices = np.append(value, [7.0, np.nan]), np.append(column, [3, 99]).astype(index)
    for one in (sp.csr_array((value, column, start), shape=(n, n)), turned, twice, swapped, longer):
        assert np.allclose(tacit.cg(one, np.ones(n), rtol=1e-10).x, expected)
        assert np.allclose(tacit.cg(one, np.ones(n).astype(">f8"), rtol=1e-10).x, expected)
    longer.indices = column  # fewer than values, by which a product would read beyond its arrays
    with pytest.raises(ValueError, match="58 column indices and 60 values"):
        tacit.cg(longer, np.ones(n))


def test_systems_of_a_loop_have_nothing_to_do_with_each_other() -> None:
    rng = np.random.default_rng(1)
    kept = []
    for k in range(60):
        n = int(rng.integers(1, 40))
        a = laplacian(n) + sp.diags_array(rng.random(n))
        b = rng.standard_normal(n)
        one, other = tacit.cg(a, b, rtol=1e-10), tacit.scipy.gmres(a, b, rtol=1e-10, restart=n)
        expected = np.linalg.solve(a.toarray(), b)
        assert np.allclose(one.x, expected), k
        assert np.allclose(other[0], expected), k
        kept.append((one, expected))
    assert all(np.allclose(r.x, expected) and r.unknowns == len(expected) for r, expected in kept)


def test_threads_do_not_change_a_small_solve() -> None:
    one, two = (tacit.solve(OF_CSR, B, method="cg", threads=threads) for threads in (1, 2))
    assert (one.threads, two.threads) == (1, 2)
    assert np.array_equal(one.x, two.x)
    assert tacit.cg(OF_CSR, B).threads == _core.threads()
