"""tacit.solve: methods, preconditioners, scalars, kinds of input, callbacks, memory."""

from __future__ import annotations

import gc
import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from conftest import SCALARS, as_scalar, laplacian, true_residual, unsymmetric

import tacit
from tacit import _support, op

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_empty_and_tiny_systems() -> None:
    assert tacit.solve(np.zeros((0, 0)), np.zeros(0)).x.shape == (0,)
    assert tacit.solve([[4.0]], [2.0]).x.tolist() == [0.5]
    assert tacit.solve(np.eye(3), np.zeros(3)).info == 0


def test_a_given_restart_is_what_runs() -> None:
    a, b = laplacian(40, 40), np.ones(1600)
    options: dict[str, Any] = {"method": "gmres", "rtol": 1e-12, "max_iterations": 60}
    absent = tacit.solve(a, b, **options)
    assert any("its cycles are of 60 vectors" in text for text in absent.warnings)
    given = tacit.solve(a, b, restart=30, **options)
    assert given.warnings == []
    plain = tacit.solve(a, b, restart=30, fallbacks=False, **options)
    assert np.array_equal(given.history, plain.history)


def test_a_cycle_that_breaks_down_leaves_what_was_good() -> None:
    a = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tolil()
    a[7, :] = 0
    a, b = a.tocsr(), np.ones(50)
    least = 1.0
    for most in range(60, 140):
        r = tacit.solve(a, b, method="gmres", max_iterations=most)
        assert true_residual(a, r.x, b) <= 1.001 * least, (most, r.summary())
        least = min(least, r.residual_norm)
    assert least <= 0.1415  # 1 / sqrt(50): no x does better


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", ["auto", "cg", "bicgstab", "gmres", "chebyshev"])
def test_methods_and_scalars(method: str, scalar: str) -> None:
    a = as_scalar(laplacian(9, 8), scalar)
    rng = np.random.default_rng(2)
    exact = rng.standard_normal(72).astype(scalar)
    if scalar.startswith("complex"):
        exact += (1j * rng.standard_normal(72)).astype(scalar)
    b = a @ exact
    rtol = 1e-5 if scalar in ("float32", "complex64") else 1e-11
    r = tacit.solve(a, b, method=method, rtol=rtol)
    assert r.converged, r.summary()
    assert r.scalar == scalar
    assert r.x.dtype == np.dtype(scalar)
    assert true_residual(a, r.x, b) <= rtol * (1.001 if rtol < 1e-8 else 1.2)
    assert np.linalg.norm(r.x - np.linalg.solve(a.toarray(), b)) <= 200 * rtol * np.linalg.norm(exact)


def test_auto_knows_symmetry() -> None:
    a = laplacian(8, 8)
    assert tacit.solve(a, np.ones(64)).method == "cg"
    assert tacit.solve(-a, np.ones(64)).method == "gmres"
    assert tacit.solve(unsymmetric(64), np.ones(64)).method == "gmres"
    assert tacit.solve(as_scalar(a, "complex128"), np.ones(64)).method == "cg"
    assert tacit.solve(a, np.ones(64), precond="spai").method == "gmres"
    indefinite = sp.csr_array(a.toarray() - 0.7 * np.eye(64))
    r = tacit.solve(indefinite, np.ones(64))
    assert r.converged
    assert r.method == "cg" or "gmres" in r.warnings[0]


@pytest.mark.parametrize(
    "precond",
    [
        "jacobi",
        "block-jacobi",
        "ilu0",
        "ic0",
        "spai",
        "fsai",
        "polynomial",
        "none",
        dict(name="polynomial", degree=2),
        dict(name="jacobi", absolute=True),
        dict(name="ilu0", blocks=3),
        dict(name="block_jacobi", solver="ic0"),
    ],
    ids=str,
)
def test_preconditioners(precond: Any) -> None:
    a = laplacian(25, 25)
    b = np.random.default_rng(3).standard_normal(625)
    plain = tacit.solve(a, b, method="gmres", restart=60)
    r = tacit.solve(a, b, method="gmres", restart=60, precond=precond)
    assert r.converged
    assert true_residual(a, r.x, b) <= 1e-8 * 1.001
    name = precond if isinstance(precond, str) else precond["name"]
    if name in ("none", "jacobi"):
        assert r.iterations == plain.iterations
    else:
        assert r.iterations < plain.iterations + (20 if "blocks" in precond else 0)
        assert r.counts["preconditioner_applies"] > 0


def test_preconditioners_made_once() -> None:
    a = tacit.csr(laplacian(15, 15))
    M = tacit.precond.make(a, "polynomial", degree=3)
    assert M is not None
    del a
    gc.collect()  # a polynomial refers to its matrix, and keeps it
    a = laplacian(15, 15)
    for _ in range(2):
        assert tacit.solve(tacit.csr(a), np.ones(225), precond=M).converged
    assert np.allclose(M.diagonal() if M.name == "jacobi" else M @ np.zeros(225), 0)
    assert tacit.precond.make(tacit.csr(a), "none") is None
    assert set(tacit.precond.names()) >= {"none", "jacobi", "ilu0", "ic0", "spai", "polynomial"}


def test_preconditioners_that_users_bring() -> None:
    a = laplacian(12, 12)
    lu = spl.splu(a.tocsc())
    b = np.ones(144)
    for M in (
        spl.LinearOperator(a.shape, matvec=lu.solve),
        tacit.function(a.shape, lu.solve),
        np.linalg.inv(a.toarray()),
    ):
        r = tacit.solve(a, b, precond=M)
        assert r.converged
        assert r.iterations <= 3
    changing = {"n": 0}

    def unsteady(r: np.ndarray) -> np.ndarray:
        changing["n"] += 1
        return lu.solve(r) * (1 + 0.2 * np.sin(changing["n"]))

    r = tacit.solve(a, b, method="gmres", side="flexible", precond=tacit.function(a.shape, unsteady))
    assert r.converged
    assert r.iterations < 15


def test_matrix_free_operators_and_named_preconditioners() -> None:
    a = tacit.poisson((12, 12))
    for precond in ("jacobi", "ilu0", "polynomial"):
        r = tacit.solve(a, np.ones(144), precond=precond)
        assert r.converged, precond
        assert r.method == "cg"
    with pytest.raises(ValueError, match="needs the entries"):
        tacit.solve(tacit.function((4, 4), lambda x: x), np.ones(4), precond="ilu0")


@pytest.mark.parametrize("option", ["one-reduction", "cgs", "cgs2", "mgs"])
@pytest.mark.parametrize("side", ["right", "left", "flexible"])
def test_gmres_options(option: str, side: str) -> None:
    a = unsymmetric(120)
    r = tacit.solve(a, np.ones(120), method="gmres", restart=7, side=side, orthogonalisation=option, precond="jacobi")
    assert r.converged
    assert true_residual(a, r.x, np.ones(120)) <= 1e-8


def test_richardson_and_chebyshev_take_their_numbers() -> None:
    a = laplacian(10)
    ends = np.linalg.eigvalsh(a.toarray())[[0, -1]]
    best = 2 / ends.sum()
    fast = tacit.solve(a, np.ones(10), method="richardson", relaxation=best)
    slow = tacit.solve(a, np.ones(10), method="richardson", relaxation=best / 2)
    assert fast.converged
    assert slow.converged
    assert fast.iterations < slow.iterations
    r = tacit.solve(a, np.ones(10), method="chebyshev", lambda_min=ends[0], lambda_max=ends[1])
    assert r.converged
    assert r.iterations < fast.iterations / 3


# --- inputs -----------------------------------------------------------------------------------------------------------


def kinds(a: sp.csr_array) -> dict[str, Any]:
    """The same matrix in everything that A may be."""
    wide = a.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    shuffled = a.copy()
    for i in range(a.shape[0]):
        part = slice(a.indptr[i], a.indptr[i + 1])
        shuffled.indices[part], shuffled.data[part] = a.indices[part][::-1], a.data[part][::-1]
    shuffled.has_sorted_indices = False
    halves = a.tocoo()
    twice = sp.coo_array(
        (np.concatenate([halves.data / 2] * 2), np.concatenate([np.stack(halves.coords)] * 2, axis=1)), shape=a.shape
    )

    class Duck:
        shape = a.shape

        def matvec(self, x: np.ndarray) -> np.ndarray:
            return a @ x

    class Callable_:
        shape = a.shape
        dtype = a.dtype

        def __call__(self, x: np.ndarray) -> Any:
            return (a @ x).reshape(-1, 1)

    many: dict[str, Any] = {f: a.asformat(f) for f in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")}
    return many | {
        "csr_matrix": sp.csr_matrix(a),
        "int64 indices": wide,
        "unsorted": shuffled,
        "duplicates": twice,
        "dense": a.toarray(),
        "Fortran": np.asfortranarray(a.toarray()),
        "np.matrix": sp.csr_matrix(a).todense(),
        "lists": a.toarray().tolist(),
        "LinearOperator": spl.aslinearoperator(a),
        "duck": Duck(),
        "callable": Callable_(),
        "tacit.csr": tacit.csr(a),
        "tacit.function": tacit.function(a.shape, lambda x: a @ x),
        "composed": 0.5 * tacit.csr(a) + tacit.csr(a) * 0.5,
        "transposed": tacit.csr(a).T.T,
        "strided": np.repeat(np.repeat(a.toarray(), 2, axis=0), 2, axis=1)[::2, ::2],
    }


@pytest.mark.parametrize("kind", kinds(laplacian(3)).keys())
def test_kinds_of_matrices(kind: str) -> None:
    a = unsymmetric(40)
    b = np.random.default_rng(0).standard_normal(40)
    r = tacit.solve(kinds(a)[kind], b, method="bicgstab", rtol=1e-10)
    assert r.converged
    assert r.scalar == "float64"
    assert np.allclose(a @ r.x, b, atol=1e-8)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "float16", "float32", "float64", "longdouble"])
def test_types_of_entries(dtype: str) -> None:
    a = np.array([[2, 1], [0, 1]]).astype(dtype)
    r = tacit.solve(a, np.ones(2, dtype), rtol=1e-5, method="gmres")
    assert r.scalar == ("float32" if dtype in ("float16", "float32") else "float64")
    assert np.allclose(a.astype("float64") @ r.x, 1, atol=1e-5)


def test_scalars_meet() -> None:
    a = np.array([[2.0, 1.0], [0.0, 1.0]])
    assert tacit.solve(a, np.ones(2, complex)).scalar == "complex128"
    assert tacit.solve(a.astype("float32"), np.ones(2, "complex64")).scalar == "complex64"
    assert tacit.solve(a.astype("float32"), np.ones(2)).scalar == "float64"
    assert tacit.solve(a, np.ones(2), scalar="float32", rtol=1e-5).x.dtype == np.float32
    assert tacit.solve(a, np.ones(2), np.ones(2, complex)).scalar == "complex128"
    assert tacit.solve(tacit.csr(a), 1j * np.ones(2)).x.dtype == np.complex128
    assert tacit.solve(tacit.poisson(5), 1j * np.ones(5)).converged
    assert tacit.solve(a.tolist(), [1, 2]).scalar == "float64"
    with pytest.raises(TypeError, match="b is complex"):
        tacit.solve(a, np.ones(2, complex), scalar="float64")
    with pytest.raises(TypeError, match="complex"):
        tacit.solve(tacit.function((2, 2), lambda x: x), 1j * np.ones(2))


def test_shapes_of_vectors() -> None:
    a = laplacian(6)
    column = tacit.solve(a, np.ones((6, 1)), np.zeros((6, 1)))
    assert column.x.shape == (6, 1)
    assert tacit.cg(a, np.ones((6, 1))).x.shape == (6,)
    assert tacit.solve(a, np.ones(12)[::2]).converged
    assert tacit.solve(a, sp.csr_matrix(np.ones((6, 1))).todense()).converged
    assert tacit.solve(a, [1] * 6).converged


class FromDLPack:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack() -> None:
    b = np.arange(1.0, 7.0)
    assert np.shares_memory(_support.as_vector(FromDLPack(b), "b"), b)
    r = tacit.solve(laplacian(6), FromDLPack(b))
    assert r.converged
    assert np.allclose(laplacian(6) @ r.x, b)


def test_nothing_is_copied_on_the_way_in() -> None:
    b = np.ones(10)
    assert _support.to_scalar(_support.as_vector(b, "b"), "float64", "b") is b
    column = np.ones((10, 1))
    assert np.shares_memory(_support.to_scalar(_support.as_vector(column, "b"), "float64", "b"), column)
    a = laplacian(10)
    _, start, index, value = op._compressed(a, "A")
    assert start is a.indptr
    assert index is a.indices
    assert value is a.data


def test_inputs_stay_as_they_were() -> None:
    a, b, x0 = laplacian(30), np.ones(30), np.full(30, 2.0)
    kept = a.copy(), b.copy(), x0.copy()
    for array in (b, x0, a.data, a.indices, a.indptr):
        array.flags.writeable = False
    r = tacit.solve(a, b, x0)
    assert (a != kept[0]).nnz == 0
    assert np.array_equal(b, kept[1])
    assert np.array_equal(x0, kept[2])
    r.x[0] = 1.0  # ours to write
    assert not np.shares_memory(r.x, x0)


def test_permuted_partitions_give_the_users_order() -> None:
    a = unsymmetric(80, seed=4)
    b = np.random.default_rng(1).standard_normal(80)
    for options in (dict(partition="graph"), dict(ordering="rcm"), dict(partition="graph", ordering="rcm")):
        r = tacit.solve(a, b, np.ones(80), rtol=1e-10, precond="ilu0", **options)
        assert r.converged
        assert np.allclose(a @ r.x, b, atol=1e-8)


# --- numerical outcomes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", [{}, {"partition": "graph"}, {"ordering": "rcm"}], ids=str)
def test_numbers_that_are_not_finite_are_named(value: float, options: dict[str, Any]) -> None:
    a, b = laplacian(20), np.ones(20)
    b[13] = value
    r = tacit.solve(a, b, **options)
    assert r.reason == "non_finite"
    assert "b has a value that is not finite at index 13" in r.detail
    assert r.info == -3
    assert np.all(r.x == 0)
    assert r.iterations == 0
    x0 = np.zeros(20)
    x0[2] = value
    assert "x0 has a value that is not finite at index 2" in tacit.solve(a, np.ones(20), x0, **options).detail
    bad = a.copy()
    bad[7, 8] = value
    assert "row 7, column 8" in tacit.solve(bad, np.ones(20), **options).detail


@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres", "richardson", "chebyshev"])
def test_operators_that_turn_nan(method: str, python: Run) -> None:
    """In a process of its own: a method that never notices would never end."""
    python(
        f"""
        import numpy as np, tacit
        calls = 0
        def product(x):
            global calls
            calls += 1
            return np.full(20, np.nan) if calls > 4 else 2 * x - np.roll(x, 1) / 2 - np.roll(x, -1) / 3
        r = tacit.solve(tacit.function((20, 20), product), np.arange(20.0), method={method!r}, relaxation=0.2,
                        **({{"lambda_min": 0.5, "lambda_max": 3.0}} if {method!r} == "chebyshev" else {{}}))
        assert r.reason == "non_finite", r.summary()
        assert np.all(np.isfinite(r.x))
        """,
        timeout=20,
    )


def test_outcomes() -> None:
    a = laplacian(200)
    assert tacit.solve(a, np.ones(200), max_iterations=5).reason == "max_iterations"
    b = np.random.default_rng(0).standard_normal(200)
    assert tacit.solve(a, b, rtol=1e-30).reason == "stagnated"
    assert tacit.solve(np.diag([3.0, 5.0]), np.ones(2), method="richardson").reason == "diverged"
    singular = tacit.solve(np.diag([1.0, 0.0]), np.ones(2))
    assert not singular.converged
    assert singular.advice
    with pytest.raises(tacit.NotConverged, match="max_iterations") as caught:
        tacit.solve(a, np.ones(200), max_iterations=5, raise_on_failure=True)
    assert caught.value.result.iterations == 5
    assert isinstance(caught.value, RuntimeError)


def test_scaling_by_powers_of_ten() -> None:
    a, b = laplacian(30), np.ones(30)
    plain = tacit.solve(a, b)
    for factor in (1e-250, 1e250):
        r = tacit.solve(a * factor, b)
        assert r.converged
        assert r.iterations == plain.iterations
        r = tacit.solve(a, b * factor)
        assert r.iterations == plain.iterations


def test_history_can_be_left_out() -> None:
    assert len(tacit.solve(laplacian(20), np.ones(20), history=False).history) == 0


# --- callbacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres", "richardson", "chebyshev"])
def test_callback_sees_the_iteration(method: str) -> None:
    a, b = laplacian(12), np.ones(12)
    seen = []

    def look(state: tacit.CallbackState) -> None:
        residual = np.linalg.norm(b - a @ state.x) / np.linalg.norm(b)
        seen.append((state.iteration, state.residual_norm, residual))

    r = tacit.solve(a, b, method=method, callback=look, max_iterations=9, relaxation=0.4)
    assert [s[0] for s in seen] == list(range(1, r.iterations + 1))
    if method == "richardson":  # which knows a residual when the next iterate is made
        seen = [(k, later[1], residual) for (k, _, residual), later in itertools.pairwise(seen)]
    for _, told, true in seen:
        assert told == pytest.approx(true, rel=1e-5, abs=1e-12)


def test_callback_stops() -> None:
    a, b = laplacian(50), np.ones(50)
    for answer in (True, np.True_):
        r = tacit.solve(a, b, callback=lambda s, answer=answer: answer if s.iteration == 4 else None)
        assert (r.reason, r.iterations, r.info) == ("stopped", 4, 4)
    for answer in (None, 1, 0.5, "yes", False):  # whatever a lambda happens to return
        assert tacit.solve(a, b, callback=lambda s, answer=answer: answer).converged

    def stop(state: tacit.CallbackState) -> None:
        if state.iteration == 2:
            raise StopIteration

    assert tacit.solve(a, b, callback=stop).iterations == 2


def test_callback_state_ends_with_the_callback() -> None:
    kept = []
    tacit.solve(laplacian(10), np.ones(10), callback=kept.append)
    assert "iteration 1" in repr(kept[0])
    with pytest.raises(ValueError, match="while the callback runs"):
        _ = kept[0].x


class Unusual(Exception):
    pass


def test_exceptions_of_callbacks_and_operators_arrive_unchanged() -> None:
    error = Unusual("told", 7)

    def fail(*_: Any) -> None:
        raise error

    for solve in (
        lambda: tacit.solve(laplacian(9), np.ones(9), callback=fail),
        lambda: tacit.cg(laplacian(9), np.ones(9), callback=fail),
        lambda: tacit.solve(tacit.function((9, 9), fail), np.ones(9)),
        lambda: tacit.solve(laplacian(9), np.ones(9), precond=tacit.function((9, 9), fail)),
        lambda: tacit.function((9, 9), fail) @ np.ones(9),
    ):
        with pytest.raises(Unusual) as caught:
            solve()
        assert caught.value is error


# --- running ----------------------------------------------------------------------------------------------------------


def test_other_threads_run_meanwhile() -> None:
    """The solve gives the interpreter away: a Python thread counts on while it runs."""
    a = tacit.poisson((300, 300))
    ticks: list[float] = []
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    begin = time.perf_counter()
    tacit.solve(a, np.ones(90000), rtol=1e-12)
    end = time.perf_counter()
    done.set()
    counter.join()
    assert end - begin > 0.02
    assert sum(begin < t < end for t in ticks) > 5


def test_threads_are_set_and_put_back() -> None:
    before = tacit._core.threads()
    a = laplacian(40, 40)
    one, two = (tacit.solve(a, np.ones(1600), threads=n) for n in (1, 2))
    assert (one.threads, two.threads) == (1, 2)
    assert tacit._core.threads() == before
    assert np.array_equal(one.x, two.x)  # sums do not depend on the number of threads


def test_trace(tmp_path: Path) -> None:
    r = tacit.solve(laplacian(30), np.ones(30), precond="ilu0", trace=True)
    assert r.trace
    assert {"krylov", "op"} <= {e.category for e in r.trace}
    for e in r.trace:
        assert 0 <= e.begin <= e.end <= 60
        assert e.rank == 0
    path = tmp_path / "trace.json"
    r.save_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert len(events) == len(r.trace) + 1
    assert {"name", "cat", "ph", "ts", "dur", "pid", "tid"} <= set(events[-1])
    with pytest.raises(ValueError, match="trace=True"):
        tacit.solve(laplacian(3), np.ones(3)).save_trace(path)


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "residual.png"
    tacit.solve(laplacian(30), np.ones(30)).plot(path)
    assert path.stat().st_size > 1000


def test_a_thousand_solves_keep_the_memory(python: Run) -> None:
    done = python(
        """
        import gc, numpy as np, scipy.sparse as sp, tacit

        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * 4096

        a = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(500, 500)).tocsr()
        b = np.ones(500)

        def one(i):
            def look(s):
                s.x
                if i % 10 == 0 and s.iteration == 2:
                    raise ValueError("no")
            try:
                tacit.solve(a, b, precond=("jacobi", "ilu0", "polynomial")[i % 3], max_iterations=5,
                            callback=look if i % 2 else None, trace=i % 5 == 0)
            except ValueError:
                pass
            tacit.csr(a).T @ b

        for i in range(200):
            one(i)
        gc.collect()
        before = resident()
        for i in range(1000):
            one(i)
        gc.collect()
        print(resident() - before)
        """,
        timeout=120,
    )
    # One matrix and its vectors take some 30 kB: a leak of one a solve would be 30 MB.
    assert int(done.stdout) < 3_000_000
    assert "leaked" not in done.stderr


def test_operators_in_cycles_are_collected(python: Run) -> None:
    python(
        """
        import gc, weakref, numpy as np, tacit

        class Problem:
            def __init__(self):
                self.operator = tacit.function((3, 3), self.product)
                self.twice = 2 * self.operator
            def product(self, x):
                return 2 * x

        problem = Problem()
        assert (problem.operator @ np.ones(3)).tolist() == [2, 2, 2]
        problem.twice = None
        gone = weakref.ref(problem)
        del problem
        gc.collect()
        assert gone() is None
        """
    )
