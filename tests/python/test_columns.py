"""tacit.solve with several right-hand sides: every method, the judge of each column, ranks, counts."""

from __future__ import annotations

import json
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from conftest import SCALARS, as_scalar, laplacian, true_residual, unsymmetric

import tacit

METHODS = {
    "cg": {},
    "bicgstab": {},
    "gmres": {},
    "idr": {},
    "richardson": {"relaxation": 0.2, "max_iterations": 4000},
    "chebyshev": {"lambda_min": 0.5, "lambda_max": 9.5},
    "ca-cg": {},
    "ca-bicgstab": {},
    "ca-gmres": {},
    "pipelined-cg": {},
    "pipelined-bicgstab": {},
    "pipelined-gmres": {},
    "pipelined-ca-gmres": {},
}


def positive(scalar: str = "float64") -> Any:
    """A Hermitian matrix with eigenvalues between 1 and 9, and all entries: on one rank a product with a block pays."""
    a = (laplacian(6, 7) + sp.eye_array(42)).toarray()
    return as_scalar(sp.csr_array(a + 1e-6 * np.ones_like(a)), scalar)


def right_sides(n: int, k: int, scalar: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(3)
    b = rng.standard_normal((n, k))
    if scalar.startswith("complex"):
        b = b + 1j * rng.standard_normal((n, k))
    return b.astype(scalar)


def residuals(a: Any, x: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    norms: np.ndarray = np.linalg.norm(b - a.astype(wide) @ x.astype(wide), axis=0) / np.linalg.norm(b, axis=0)
    return norms


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_solves_every_column(method: str, scalar: str) -> None:
    rtol = 1e-4 if scalar in ("float32", "complex64") else 1e-9
    a, b = positive(scalar), right_sides(42, 5, scalar)
    r = tacit.solve(tacit.csr(a), b, method=method, rtol=rtol, **METHODS[method])
    assert isinstance(r, tacit.krylov.ColumnsResult)
    assert r.x.shape == b.shape
    assert r.x.dtype == b.dtype
    assert (r.together, r.alone) == (5, "")
    assert r.converged
    assert np.all(residuals(a, r.x, b) <= 1.001 * rtol)
    for c, column in enumerate(r.columns):
        alone = tacit.solve(tacit.csr(a), b[:, c], method=method, rtol=rtol, **METHODS[method])
        assert abs(column.iterations - alone.iterations) <= 1 + alone.iterations // 10
        assert np.allclose(r.x[:, c], alone.x, rtol=100 * rtol, atol=100 * rtol)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("method", [tacit.methods.Chebyshev(), tacit.methods.PipelinedCg(depth=2, basis="chebyshev")])
@pytest.mark.parametrize("precond", ["none", "ic0"])
def test_columns_estimate_their_spectrum(precond: str, method: Any, ranks: int) -> None:
    a, b = positive(), right_sides(42, 11)
    alone = tacit.solve(a, b[:, 0], method=method, precond=precond)
    for r in tacit.comm.run_threads(
        ranks, lambda comm: tacit.solve(tacit.csr(a, comm=comm), b, method=method, precond=precond)
    ):
        assert (r.converged, r.together) == (True, 8)
        assert np.all(residuals(a, r.x, b) <= 1.001e-8)
        if ranks == 1:
            assert abs(r.columns[0].iterations - alone.iterations) <= 2


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres", "pipelined-cg", "ca-gmres"])
def test_on_ranks_columns_share_products_and_reductions(method: str, ranks: int) -> None:
    a, b = positive(), right_sides(42, 6)

    def rank(comm: Any) -> Any:
        A = tacit.csr(a, comm=comm)
        many = tacit.solve(A, b, method=method, precond="jacobi")
        singles = [tacit.solve(A, b[:, c], method=method, precond="jacobi") for c in range(6)]
        begin, end = A.own_range
        own = tacit.solve(A, b[begin:end], method=method, precond="jacobi")
        assert np.array_equal(own.x, many.x[begin:end])
        return many, singles

    for many, singles in tacit.comm.run_threads(ranks, rank):
        assert many.converged
        assert np.all(residuals(a, many.x, b) <= 1.001e-8)
        assert all(abs(m.iterations - s.iterations) <= 2 for m, s in zip(many.columns, singles, strict=True))
        if ranks > 1:
            most = max(s.counts["exchanges"] for s in singles)
            assert many.counts["exchanges"] <= 1.3 * most + 8
            # Each column's solve has a few reductions of its own beside those of the method.
            most = max(s.counts["reductions"] for s in singles)
            assert many.counts["reductions"] <= 1.4 * most + 20


def test_all_ranks_have_the_same_bits() -> None:
    a, b = unsymmetric(60), right_sides(60, 7)
    found = tacit.comm.run_threads(3, lambda comm: tacit.solve(tacit.csr(a, comm=comm), b, method="bicgstab"))
    assert all(np.array_equal(f.x, found[0].x) for f in found)
    assert all(
        [c.iterations for c in f.columns] == [c.iterations for c in found[0].columns] and f.converged for f in found
    )


@pytest.mark.parametrize("ranks", [1, 2])
def test_more_columns_than_are_solved_at_a_time(ranks: int) -> None:
    a, b = positive(), right_sides(42, 37)

    def rank(comm: Any) -> Any:
        return tacit.solve(tacit.csr(a, comm=comm), b, method="cg", precond="ic0" if ranks == 1 else "jacobi")

    for r in tacit.comm.run_threads(ranks, rank):
        assert r.converged
        assert r.together == 8
        assert len(r.columns) == 37
        assert np.all(residuals(a, r.x, b) <= 1.001e-8)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_column_has_its_own_reason(ranks: int) -> None:
    a, b = positive(), right_sides(42, 5)
    b[:, 1] = 0
    b[7, 2] = np.nan
    b[:, 3] *= 1e-200  # scaled on its own
    b[:, 4] = a @ np.ones(42)
    x0 = np.zeros_like(b)
    x0[:, 4] = 1

    def rank(comm: Any) -> Any:
        return tacit.solve(tacit.csr(a, comm=comm), b, x0, method="cg")

    for r in tacit.comm.run_threads(ranks, rank):
        assert [c.reason for c in r.columns] == ["converged", "converged", "non_finite", "converged", "converged"]
        assert not r.converged
        assert r.info == -3
        assert r.reason == "non_finite"
        assert r.detail.startswith("column 2: b has a value")
        assert "index 7" in r.detail
        assert np.all(r.x[:, 1] == 0)
        assert np.isfinite(r.x).all()
        assert r.columns[4].iterations == 0
        good, scale = [0, 3, 4], np.array([1, 1e200, 1])
        assert np.all(residuals(a, scale * r.x[:, good], scale * b[:, good]) <= 1.001e-8)


def test_a_failure_of_one_column_leaves_the_others() -> None:
    # Symmetric and indefinite: cg breaks down for the column that meets the negative eigenvalue at once.
    a = sp.diags_array([1.0, 2.0, 3.0, -1.0]).tocsr()
    b = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    b[0, 1] = 1.0  # (p, A p) = 0
    r = tacit.solve(a, b, method="cg", fallbacks=False)
    assert [c.reason for c in r.columns] == ["converged", "breakdown"]
    assert r.info == -1
    assert "1 of 2 columns converged" in repr(r)
    with pytest.raises(tacit.NotConverged, match="column 1"):
        tacit.solve(a, b, method="cg", fallbacks=False, raise_on_failure=True)


@pytest.mark.parametrize("ranks", [1, 2])
def test_callbacks_know_their_column_and_stop_it_alone(ranks: int) -> None:
    a, b = positive(), right_sides(42, 3)

    def rank(comm: Any) -> Any:
        seen: list[tuple[int, int]] = []

        def callback(state: Any) -> bool:
            seen.append((state.column, state.iteration))
            assert state.x.shape == (42,)
            return bool(state.column == 1 and state.iteration == 3)

        r = tacit.solve(tacit.csr(a, comm=comm), b, method="cg", callback=callback)
        return r, seen

    for r, seen in tacit.comm.run_threads(ranks, rank):
        assert [c.reason for c in r.columns] == ["converged", "stopped", "converged"]
        assert r.columns[1].iterations == 3
        for c, column in enumerate(r.columns):
            assert [k for of, k in seen if of == c] == list(range(1, column.iterations + 1))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("method", [*(m for m in METHODS if m != "chebyshev"), "minres", "fgmres"])
def test_callbacks_see_x_also_where_it_takes_the_preconditioner(method: str, ranks: int) -> None:
    a, b = positive(), right_sides(42, 3)
    name = "ic0" if method in ("cg", "minres", "ca-cg", "pipelined-cg") else "ilu0"
    precond = {"name": name, "blocks": 6}
    options = {"relaxation": 0.5} if method == "richardson" else METHODS.get(method, {})

    def rank(comm: Any) -> tuple[Any, list[Any]]:
        last: list[Any] = [None] * 3

        def callback(state: Any) -> None:
            last[state.column] = state.x.copy(), state.residual_norm

        r = tacit.solve(tacit.csr(a, comm=comm), b, method=method, precond=precond, callback=callback, **options)
        return r, last

    for r, last in tacit.comm.run_threads(ranks, rank):
        assert (r.converged, r.together) == (True, 3)
        for c, (x, norm) in enumerate(last):
            known = r.columns[c].residual_norm if method == "richardson" else norm  # its x is one step ahead
            assert true_residual(a, x, b[:, c]) == pytest.approx(known, rel=1e-3, abs=1e-11)
            assert np.allclose(x, r.x[:, c], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("where", ["callback", "operator", "precond"])
def test_an_exception_ends_all_columns_on_all_ranks(where: str, ranks: int) -> None:
    a, b = positive(), right_sides(42, 4)
    calls = [0]

    def fails(x: np.ndarray) -> np.ndarray:
        calls[0] += 1
        if calls[0] > 20:
            raise ZeroDivisionError("the twentieth call")
        return x.copy()

    def rank(comm: Any) -> None:
        A: Any = tacit.csr(a, comm=comm)
        options: dict[str, Any] = {}
        if where == "callback":
            options["callback"] = lambda state: fails(np.ones(1))[0] > 2
        elif where == "precond":
            options["precond"] = tacit.function((42, 42), fails, comm=comm)
        else:
            A = tacit.function((42, 42), lambda x: a @ fails(x), comm=comm)
        tacit.solve(A, b, method="bicgstab", **options)

    with pytest.raises(ZeroDivisionError, match="twentieth"):
        tacit.comm.run_threads(ranks, rank)
    # The next solve works.
    assert tacit.solve(a, b, method="cg").converged


@pytest.mark.parametrize("ranks", [1, 2])
def test_auto_decides_at_the_first_column(ranks: int) -> None:
    a, b = laplacian(20, 20), right_sides(400, 5)

    def rank(comm: Any) -> Any:
        A = tacit.csr(a, comm=comm)
        return tacit.solve(A, b), tacit.solve(A, b[:, 0])

    for many, one in tacit.comm.run_threads(ranks, rank):
        assert many.converged
        assert many.together == 4 or ranks == 1
        assert (many.method, many.precond) == (one.method, one.precond)
        assert many.choice.startswith("auto: ")
        assert np.all(residuals(a, many.x, b) <= 1.001e-8)


def test_auto_where_the_kept_candidate_fails_for_a_column() -> None:
    a = unsymmetric(50)
    b = right_sides(50, 4)
    b[3, 2] = np.inf
    r = tacit.solve(a, b)
    assert [c.converged for c in r.columns] == [True, True, False, True]
    assert r.columns[2].reason == "non_finite"


@pytest.mark.parametrize("precond", ["none", "jacobi", "ilu0", "ilut", "spai", "polynomial", "block-jacobi", "schwarz"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_preconditioners_by_name(precond: str, ranks: int) -> None:
    a, b = unsymmetric(60), right_sides(60, 4)

    def rank(comm: Any) -> Any:
        return tacit.solve(tacit.csr(a, comm=comm), b, method="gmres", precond=precond)

    for r in tacit.comm.run_threads(ranks, rank):
        assert r.converged
        assert np.all(residuals(a, r.x, b) <= 1.001e-8)
        assert r.counts["operator_applies"] >= r.iterations


def test_operators_and_preconditioners_of_every_kind() -> None:
    stencil = tacit.poisson((6, 7), shift=1.0)
    a, b = stencil.to_scipy(), right_sides(42, 3)
    inner = tacit.precond.inner(stencil, method="cg", iterations=5)
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (stencil, {}),
        (stencil, {"precond": inner, "method": "gmres"}),
        (stencil, {"precond": "jacobi"}),
        (tacit.function((42, 42), lambda x: a @ x), {"method": "bicgstab"}),
        (tacit.csr(a), {"precond": tacit.function((42, 42), lambda x: x / 5), "method": "cg"}),
        (tacit.csr(a), {"partition": "graph", "ordering": "rcm"}),
        (a, {"ordering": "rcm", "method": "bicgstab", "precond": "ilu0"}),
        (tacit.csr(a).shifted(1.0), {"method": "cg"}),
        (a.toarray(), {}),
    ]
    for A, options in kinds:
        r = tacit.solve(A, b, **options)
        shifted = a + sp.eye_array(42) if isinstance(A, tacit.op.Composed) else a
        assert r.converged
        assert np.all(residuals(shifted, r.x, b) <= 1.001e-8)


def test_what_cannot_be_done_together_is_said() -> None:
    a, b = positive(), right_sides(42, 3)
    tasks = tacit.solve(a, b, method="cg", engine="tasks")
    assert tasks.converged
    assert tasks.together == 1
    assert "tasks" in tasks.alone
    assert "one after another: engine" in tasks.summary()
    powers = tacit.solve(a, b, method="ca-gmres", powers="kernel")
    assert (powers.converged, powers.together) == (True, 1)
    assert "powers" in powers.alone
    swept = tacit.solve(tacit.poisson((6, 7), shift=1.0), b, method="richardson", relaxation=0.2)
    assert (swept.converged, swept.together) == (True, 1)
    assert "richardson" in swept.alone


def test_operators_that_read_little_are_applied_column_by_column() -> None:
    b = right_sides(900, 3)
    for A in (tacit.poisson((30, 30)), tacit.csr(laplacian(30, 30)), tacit.function((900, 900), lambda x: 2 * x)):
        r = tacit.solve(A, b, method="cg", precond="none")
        assert (r.converged, r.together) == (True, 1)
        assert "saves nothing" in r.alone
    # Where the preconditioner reads much, all advance together.
    thick = {"name": "ilut", "drop": 1e-9, "fill": 50.0}
    r = tacit.solve(tacit.csr(laplacian(30, 30)), b, method="gmres", precond=thick)
    assert (r.converged, r.together, r.alone) == (True, 3, "")


def test_engines_and_norms() -> None:
    a, b = positive(), right_sides(42, 3)
    for options in ({"engine": "thread"}, {"norm": "max"}, {"schedule": "synchronous"}, {"side": "left"}):
        r = tacit.solve(a, b, method="gmres", **options)
        assert r.converged
        assert r.together == 3


def test_warnings_name_their_columns() -> None:
    a, b = positive(), right_sides(42, 2)
    x0 = np.zeros_like(b)
    x0[:, 1] = 1e200
    r = tacit.solve(a, b, x0, method="cg")
    assert r.converged
    assert any(text.startswith("column 1: x0 has a residual") for text in r.warnings)


def test_results_as_text() -> None:
    a, b = positive(), right_sides(42, 3)
    r = tacit.solve(a, b, method="cg", precond="ic0")
    facts = json.loads(r.to_json())
    assert facts["converged"] is True
    assert facts["together"] == 3
    assert [c["reason"] for c in facts["columns"]] == ["converged"] * 3
    assert facts["iterations"] == max(c["iterations"] for c in facts["columns"])
    assert "3 of 3 columns converged, up to 3 together" in r.summary()
    assert "3 of 3 columns" in repr(r)
    assert "<table>" in r._repr_html_()
    again = pickle.loads(pickle.dumps(r))
    assert np.array_equal(again.x, r.x)
    assert again.columns[2].iterations == r.columns[2].iterations
    x, info = r
    assert info == 0
    assert x is r.x
    assert r.history[0] == 1.0


def test_one_column_is_a_result_as_before() -> None:
    r = tacit.solve(positive(), right_sides(42, 1), method="cg")
    assert type(r) is tacit.Result
    assert r.x.shape == (42, 1)


@pytest.mark.parametrize(
    ("b", "x0", "text"),
    [
        (np.ones((42, 0)), None, "no columns"),
        (np.ones((42, 2, 2)), None, "shape"),
        (np.ones((42, 2)), np.ones((42, 3)), "each column of b needs one of x0"),
        (np.ones((42, 2)), np.ones(42), "each column of b needs one of x0"),
        (np.ones((41, 2)), None, "42 are needed"),
    ],
)
def test_wrong_shapes(b: np.ndarray, x0: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        tacit.solve(positive(), b, x0)


def test_ranks_that_give_different_numbers_of_columns() -> None:
    def rank(comm: Any) -> None:
        tacit.solve(tacit.csr(positive(), comm=comm), np.ones((42, 2 + comm.rank)))

    with pytest.raises(ValueError, match=r"b is .*2 columns.* on rank 0 and .*3 columns.* on rank 1"):
        tacit.comm.run_threads(2, rank)


def test_empty_ranks() -> None:
    a, b = laplacian(3), right_sides(3, 4)

    def rank(comm: Any) -> Any:
        return tacit.solve(tacit.csr(a, comm=comm), b, method="gmres")

    for r in tacit.comm.run_threads(5, rank):
        assert r.converged
        assert np.allclose(a @ r.x, b)


class Block(NamedTuple):
    """Solves by a block method, of six columns of which two are equal and the last is zero."""

    block: Any  #: the block method
    lockstep: Any  #: the method of one column
    guessed: Any  #: the block method from its own solution
    stopped: Any  #: by a callback, column 2 after 5 iterations


def solved_by_block(a: Any, method: str, alone: str, rtol: float, ranks: int, **fixed: Any) -> list[Block]:
    """What each rank finds."""
    b = block_columns(a.dtype.name)

    def rank(comm: Any) -> Block:
        A = tacit.csr(a, comm=comm)
        own = slice(*A.own_range)
        steps = []

        def stop(state: Any) -> bool:
            steps.append(state.column)
            return bool(state.column == 2 and state.iteration == 5)

        block = tacit.solve(A, b, method=method, rtol=rtol, **fixed)
        lockstep = tacit.solve(A, b, method=alone, rtol=rtol, **fixed)
        guessed = tacit.solve(A, b[own], block.x[own], method=method, rtol=1.01 * rtol, **fixed)
        stopped = tacit.solve(A, b, method=method, rtol=rtol, callback=stop)
        assert steps.count(2) == 5
        return Block(block, lockstep, guessed, stopped)

    found: list[Block] = tacit.comm.run_threads(ranks, rank)
    return found


def block_columns(scalar: str) -> np.ndarray:
    b = right_sides(240, 6, scalar)
    b[:, 4] = b[:, 1]
    b[:, 5] = 0
    return b


def check_block(found: Block, a: Any, method: str, rtol: float, share: float) -> None:
    """Every column is solved, in at most this share of the iterations of the method of one column."""
    b, block = block_columns(a.dtype.name), found.block
    assert (block.together, block.alone, block.converged) == (6, "", True)
    assert np.all(residuals(a, block.x[:, :5], b[:, :5]) <= 1.001 * rtol)
    assert np.array_equal(block.x[:, 5], np.zeros(240))
    pairs = zip(block.columns[:5], found.lockstep.columns[:5], strict=True)
    assert all(one.iterations <= share * other.iterations for one, other in pairs)
    assert all(c.method == method and len(c.history) == c.iterations + 1 for c in block.columns)
    assert [c.iterations for c in found.guessed.columns] == [0] * 6
    assert [c.reason for c in found.stopped.columns] == ["converged"] * 2 + ["stopped"] + ["converged"] * 3


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_block_cg_shares_a_search_space(scalar: str, ranks: int) -> None:
    rtol = 1e-4 if scalar in ("float32", "complex64") else 1e-9
    a = as_scalar(sp.csr_array(laplacian(16, 15) + 0.25 * sp.eye_array(240)), scalar)
    for found in solved_by_block(a, "block-cg", "cg", rtol, ranks, precond="jacobi"):
        check_block(found, a, "block-cg", rtol, 0.85)
        if ranks > 1:
            assert found.block.counts["reductions"] < found.lockstep.counts["reductions"]
    one = tacit.solve(a, block_columns(scalar), method=tacit.methods.BlockCg(), precond="jacobi", rtol=rtol)
    assert {c.method for c in one.columns} == {"block-cg"}


def test_block_cg_with_preconditioners_of_every_kind() -> None:
    a, b = laplacian(16, 15), right_sides(240, 5)
    operator = tacit.csr(a)
    for precond in ("ic0", "amg", "fsai", "polynomial", "block-jacobi", tacit.precond.Ick(levels=1), "auto"):
        r = tacit.solve(operator, b, method="block-cg", precond=precond)
        assert r.converged, precond
        assert np.all(residuals(a, r.x, b) <= 1.001e-8)
        assert {c.method for c in r.columns} == {"block-cg"}


def test_block_cg_alone_says_that_it_is_cg() -> None:
    a, b = laplacian(16, 15), right_sides(240, 3)
    r = tacit.solve(a, b, method="block-cg", engine="tasks")
    assert r.together == 1
    assert "tasks" in r.alone
    assert all("each column was solved by cg" in c.warnings[-1] for c in r.columns)
    one = tacit.solve(a, b[:, 0], method="block-cg")
    assert np.array_equal(one.x, tacit.solve(a, b[:, 0], method="cg").x)
    with pytest.raises(ValueError, match="block-cg has none"):
        tacit.solve(a, b, method="block-cg", restart=3)


def convection(*shape: int) -> sp.csr_array:
    """-Laplace u with convection along all axes; not symmetric."""
    lines = [sp.diags_array([-1.3, 2.0, -0.7], offsets=[-1, 0, 1], shape=(n, n)) for n in shape]
    return sp.csr_array(sp.kron(lines[0], sp.eye_array(shape[1])) + sp.kron(sp.eye_array(shape[0]), lines[1]))


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_block_gmres_shares_a_search_space(scalar: str, ranks: int) -> None:
    rtol = 1e-4 if scalar in ("float32", "complex64") else 1e-9
    a = as_scalar(sp.csr_array(convection(16, 15) + 0.25 * sp.eye_array(240)), scalar)
    for found in solved_by_block(a, "block-gmres", "gmres", rtol, ranks, precond="jacobi", restart=60):
        check_block(found, a, "block-gmres", rtol, 0.9)
        block, lockstep = found.block.counts, found.lockstep.counts
        # Two of the columns are equal: they take one product a step.
        assert block["operator_applies"] < 0.8 * lockstep["operator_applies"]
        if ranks > 1:
            assert block["reductions"] <= lockstep["reductions"]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_block_gmres_is_flexible(scalar: str, ranks: int) -> None:
    rtol = 1e-4 if scalar in ("float32", "complex64") else 1e-9
    a = as_scalar(sp.csr_array(convection(16, 15) + 0.25 * sp.eye_array(240)), scalar)
    b = block_columns(scalar)

    def rank(comm: Any) -> Any:
        flexible = tacit.methods.BlockGmres(side="flexible", restart=60)
        return tacit.solve(tacit.csr(a, comm=comm), b, method=flexible, rtol=rtol)

    for r in tacit.comm.run_threads(ranks, rank):
        assert r.converged
        assert np.all(residuals(a, r.x[:, :5], b[:, :5]) <= 1.001 * rtol)
        assert np.array_equal(r.x[:, 5], np.zeros(240))


def test_block_gmres_with_preconditioners_of_every_kind() -> None:
    a, b = convection(16, 15), right_sides(240, 5)
    operator = tacit.csr(a)
    inner = tacit.precond.Inner(method="bicgstab", iterations=4)
    for precond in ("ilu0", "ilut", "spai", "polynomial", "block-jacobi", "schwarz", inner, "auto"):
        r = tacit.solve(operator, b, method="block-gmres", precond=precond)
        assert r.converged, precond
        assert np.all(residuals(a, r.x, b) <= 1.001e-8)
        assert {c.method for c in r.columns} == {"block-gmres"}
        assert not any(c.warnings for c in r.columns if precond is inner)


def test_block_gmres_takes_functions() -> None:
    a, b = convection(9, 8), right_sides(72, 4)
    A = spla.LinearOperator(a.shape, lambda x: a @ x, dtype=float)
    M = spla.LinearOperator(a.shape, lambda x: x / 4.0, dtype=float)
    r = tacit.solve(A, b, method="block-gmres", precond=M, restart=50)
    assert r.converged
    assert np.all(residuals(a, r.x, b) <= 1.001e-8)


def test_block_gmres_alone_says_that_it_is_gmres() -> None:
    a, b = convection(16, 15), right_sides(240, 3)
    r = tacit.solve(a, b, method="block-gmres", engine="tasks")
    assert r.together == 1
    assert all("each column was solved by gmres" in c.warnings[-1] for c in r.columns)
    one = tacit.solve(a, b[:, 0], method="block-gmres")
    assert np.array_equal(one.x, tacit.solve(a, b[:, 0], method="gmres").x)
    with pytest.raises(ValueError, match="side"):
        tacit.solve(a, b, method="block-gmres", side="left")


@pytest.mark.parametrize("method", ["block-gmres", "gmres"])
def test_a_column_outside_of_the_range_spoils_no_other(method: str) -> None:
    """A singular matrix of five rows: the first column has solutions, the second has none."""
    a = np.array([[4.0, 0, 0, 0, 0], [0, 4, 0, 0, 0], [0, 0, 8, -3, -4], [0, 0, -3, 0, 0], [0, 0, -4, 0, 0]])
    b = np.array([[24.0, 0], [-16, 0], [33, 0], [0, -7], [0, -11]])
    r = tacit.solve(a, b, method=method)
    assert r.columns[0].converged
    assert np.allclose(a @ r.x[:, 0], b[:, 0])
    assert not r.columns[1].converged
    assert r.columns[1].detail
    least = np.linalg.norm(b[:, 1] - a @ np.linalg.lstsq(a, b[:, 1], rcond=None)[0])
    assert np.linalg.norm(b[:, 1] - a @ r.x[:, 1]) <= 1.1 * least


@pytest.mark.parametrize("restart", [5, 13, 14, 50])
def test_block_gmres_of_a_small_complex_system(restart: int) -> None:
    """As many iterations as unknowns are needed by one column; cycles may be longer than the space."""
    rng = np.random.default_rng(6)
    q, _ = np.linalg.qr(rng.standard_normal((14, 14)) + 1j * rng.standard_normal((14, 14)))
    a = q @ np.diag(np.exp(2j * np.pi * np.arange(14) / 14) * (1 + np.arange(14))) @ q.conj().T
    b = rng.standard_normal((14, 2)) + 1j * rng.standard_normal((14, 2))
    r = tacit.solve(a, b, method="block-gmres", precond="none", restart=restart, max_iterations=4000)
    for i, c in enumerate(r.columns):  # converged is said of b - A x only
        assert c.converged == (np.linalg.norm(b[:, i] - a @ r.x[:, i]) <= 1.001e-8 * np.linalg.norm(b[:, i]))
    if restart >= 7:  # two columns make seven steps
        assert r.converged
        assert max(c.iterations for c in r.columns) <= 8 or restart < 13


def test_block_gmres_with_badly_conditioned_columns() -> None:
    """Columns of sizes from 1e-200 to 1e200, some nearly equal, one with NaN, of a badly conditioned matrix."""
    n = 60
    a = np.diag(np.logspace(0, 6, n)) + np.diag(np.ones(n - 1), 1)
    b = right_sides(n, 7)
    b[:, 1] *= 1e-200
    b[:, 2] *= 1e200
    b[:, 3] = b[:, 0] * (1 + 1e-10 * right_sides(n, 1)[:, 0])
    b[:, 4] = 0
    b[3, 5] = np.nan
    r = tacit.solve(a, b, method="block-gmres", precond="jacobi", restart=60)
    assert [c.reason for c in r.columns] == ["converged"] * 5 + ["non_finite"] + ["converged"]
    good = [0, 1, 2, 3, 6]
    assert np.all(np.isfinite(r.x))
    for c in good:
        size = np.abs(b[:, c]).max()
        assert np.linalg.norm((b[:, c] - a @ r.x[:, c]) / size) <= 1.001e-8 * np.linalg.norm(b[:, c] / size)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres", "richardson", "chebyshev"])
def test_scipys_signature_keeps_the_columns(name: str) -> None:
    """x has the shape of b: (n,) for one right-hand side, (n, k) for k, column by column."""
    A, call = laplacian(36) + 4 * sp.eye_array(36), getattr(tacit, name)
    more = {"relaxation": 0.1, "maxiter": 500} if name == "richardson" else {}
    B = np.random.default_rng(0).standard_normal((36, 3))
    X, info = call(A, B, rtol=1e-8, **more)
    assert X.shape == (36, 3)
    assert info == 0
    np.testing.assert_allclose(A @ X, B, atol=1e-6)
    started, info = call(A, B, X, rtol=1e-6, **more)
    assert started.shape == (36, 3)
    assert info == 0
    for one in (B[:, 0], B[:, :1]):
        assert call(A, one, **more)[0].shape == (36,)
    seen: list[tuple[int, ...]] = []
    call(A, B, callback=lambda xk: seen.append(np.shape(xk)), **more)
    assert set(seen) == {()} if name == "gmres" else {(36,)}
