"""Operators made from others, new values in place, pickles and copies."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import SCALARS, as_scalar, laplacian, unsymmetric

import tacit

FORMATS = ["automatic", "csr", "sell", "bsr"]


def cast(a: Any, scalar: str) -> Any:
    """The matrix, of any shape, in another scalar; with imaginary parts where that is complex."""
    a = a.tocsr()
    factor = np.where(np.arange(a.nnz) % 2 == 0, 1, 1 - 0.5j) if scalar.startswith("complex") else 1
    return sp.csr_array(((a.data * factor).astype(scalar), a.indices, a.indptr), shape=a.shape)


def dense_blocks(n: int) -> Any:
    """A matrix with dense 3 x 3 blocks and a few entries beside them."""
    rng = np.random.default_rng(1)
    a = sp.block_diag([rng.standard_normal((3, 3)) for _ in range(n // 3)]).tolil()
    a[1, n - 1] = 5.0
    a[n - 2, 0] = 2.0
    return a.tocsr()


# -- is_hermitian, names, assembled operators --------------------------------------------------------------------------


@pytest.mark.parametrize("scalar", ["float64", "complex128"])
def test_hermitian_by_parts(scalar: str) -> None:
    h = as_scalar(laplacian(5, 5), scalar)
    A, B = tacit.csr(h), tacit.csr(as_scalar(unsymmetric(25), scalar))
    P = tacit.csr(cast(sp.random_array((25, 10), density=0.3, rng=0, format="csr"), scalar))
    S = tacit.poisson((5, 5), scalar=scalar)
    yes = [A.T, A.H, A + S, A - 2 * S, 3 * A, -A, A / 4, A.shifted(2.0), B.H @ B, B @ B.H, P.H @ A @ P, P.H @ P]
    yes += [A @ A, A.T + A.H, (2 * P.H) @ (A + S) @ P]
    no = [B, B.T, A + B, B @ B, A @ S, P.H @ B @ P]
    if scalar == "complex128":
        no += [A * 1j, A.shifted(1j)]
        no += [B.T @ B]
    else:
        yes += [B.T @ B]
    for a in yes:
        dense = a @ np.eye(a.shape[1])
        assert a.is_hermitian(), a
        assert np.allclose(dense, dense.conj().T), a
    for a in no:
        assert not a.is_hermitian(), a


def test_names() -> None:
    A, S = tacit.csr(laplacian(4, 4)), tacit.poisson((4, 4))
    assert [
        x.name
        for x in (A.T, A.H, A @ S, A + S, A - S, 2 * A, -A, A / 2, A.shifted(3), (A + S) @ A, 2 * (A - S), A.T @ A)
    ] == [
        "transpose of csr",
        "adjoint of csr",
        f"csr @ {S.name}",
        f"csr + {S.name}",
        f"csr - {S.name}",
        "2 * csr",
        "-csr",
        "0.5 * csr",
        "csr + 3 I",
        f"(csr + {S.name}) @ csr",
        f"2 * (csr - {S.name})",
        "transpose of csr @ csr",
    ]
    assert A.T.T is A
    assert A.H.H is A
    assert A.T.H is A


def test_wrong_compositions() -> None:
    A, B = tacit.csr(unsymmetric(6)), tacit.csr(unsymmetric(7))
    for compose in (lambda: A @ B, lambda: A + B, lambda: A - B):
        with pytest.raises(ValueError, match=r"6.*7|7.*6"):
            compose()
    with pytest.raises(TypeError, match="one scalar type"):
        _ = A + tacit.csr(unsymmetric(6), scalar="float32")
    with pytest.raises(TypeError, match="complex"):
        _ = A * 1j
    with pytest.raises(TypeError):
        _ = A + 1  # not a matrix: A.shifted(1)
    with pytest.raises(ValueError, match="square"):
        tacit.csr(sp.random_array((3, 2), density=1, rng=0)).shifted(1.0)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_assembled_compositions(scalar: str, ranks: int) -> None:
    a, b = as_scalar(unsymmetric(23), scalar), as_scalar(unsymmetric(23, 1), scalar)
    p = cast(sp.random_array((23, 9), density=0.3, rng=0, format="csr"), scalar)
    s = tacit.poisson((23,), scalar=scalar).to_scipy()

    def rank(comm: Any) -> None:
        A, B, P = (tacit.csr(x, comm=comm) for x in (a, b, p))
        S = tacit.poisson((23,), scalar=scalar, comm=comm)
        rng = np.random.default_rng(0)
        for made, expected in (
            (A.T, a.T),
            (A.H, a.conj().T),
            (P.H, p.conj().T),
            (A @ B, a @ b),
            (A @ P, a @ p),
            (P.H @ A @ P, p.conj().T @ a @ p),
            (A + B, a + b),
            (2 * A - B.T, 2 * a - b.T),
            (-P, -p),
            (A.shifted(3.0), a + 3 * sp.eye_array(23)),
            (A + S, a + s),
            (S @ A, s @ a),
        ):
            stored = made.assemble()
            assert isinstance(stored, tacit.Csr)
            assert stored.dtype == np.dtype(scalar)
            near = 1e-4 if scalar in ("float32", "complex64") else 1e-12
            assert np.allclose(stored.to_scipy().toarray(), expected.toarray(), rtol=near, atol=near)
            x = rng.standard_normal(made.shape[1]).astype(scalar)
            assert np.allclose(stored @ x, made @ x, rtol=100 * near, atol=100 * near)
            assert stored.own_range == made.own_range
            assert made.assemble() is stored

    tacit.comm.run_threads(ranks, rank)


def test_products_only_cannot_be_assembled() -> None:
    A = tacit.csr(laplacian(3, 3)) + tacit.function((9, 9), lambda x: x)
    with pytest.raises(ValueError, match="knows products only"):
        A.assemble()


@pytest.mark.parametrize("ranks", [1, 2])
def test_solves_with_transposes_and_sums(ranks: int) -> None:
    h, u = laplacian(12, 12), unsymmetric(144)
    rng = np.random.default_rng(0)
    b = rng.standard_normal(144)

    def rank(comm: Any) -> None:
        H, U = tacit.csr(h, comm=comm), tacit.csr(u, comm=comm)
        for A, theirs in ((H.T, h.T), (H + H.T, 2 * h), (3 * H, 3 * h)):
            r = tacit.solve(A, b)
            assert r.converged
            assert r.method == "cg"
            assert np.linalg.norm(b - theirs @ r.x) <= 1.001e-8 * np.linalg.norm(b)
        r = tacit.solve(H.T, b, precond="none")
        assert r.method == "cg"
        r = tacit.solve(U.T @ U, b, method="auto", precond="none", max_iterations=5000)
        assert r.method == "cg"
        r = tacit.solve(U.T, b)
        assert r.converged
        assert r.method != "cg"
        assert np.linalg.norm(b - u.T @ r.x) <= 1.001e-8 * np.linalg.norm(b)
        assert tacit.solve(U.T, b, method="bicgstab", precond="ilu0" if ranks == 1 else "jacobi").converged

    tacit.comm.run_threads(ranks, rank)


# -- new values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("scalar", ["float64", "complex64"])
def test_new_values_are_those_of_a_new_matrix(scalar: str, format: str, ranks: int) -> None:
    rng = np.random.default_rng(0)
    # The second has rows without entries, the last is rectangular.
    empty = sp.random_array((40, 40), density=0.05, rng=1, format="csr")
    for a in (unsymmetric(40), empty, dense_blocks(42), sp.random_array((30, 17), density=0.3, rng=2, format="csr")):
        a = cast(a, scalar)
        a.sort_indices()
        new = a.copy()
        new.data = new.data * rng.standard_normal(new.nnz).astype(scalar)
        x = rng.standard_normal(a.shape[1]).astype(scalar)
        X = rng.standard_normal((a.shape[1], 3)).astype(scalar)

        def rank(comm: Any, a: Any = a, new: Any = new, x: Any = x, X: Any = X) -> None:
            for form in ("whole", "own", "scipy"):
                A, B = tacit.csr(a, comm=comm, format=format), tacit.csr(new, comm=comm, format=format)
                _ = A.H @ np.ones(a.shape[0])  # the adjoint's own storage
                if form == "scipy":
                    A.update_values(new)
                else:
                    begin, end = A.own_range
                    part = new.data[new.indptr[begin] : new.indptr[end]]
                    A.update_values(new.data if form == "whole" else part)
                assert A.storage == B.storage
                assert np.array_equal(A @ x, B @ x)
                assert np.array_equal(A @ X, B @ X)
                y = np.ones(a.shape[0], scalar)
                assert np.array_equal(A.H @ y, B.H @ y)
                assert np.array_equal(A.T @ y, B.T @ y)
                assert all(np.array_equal(p, q) for p, q in zip(A.local_rows(), B.local_rows(), strict=True))
                if a.shape[0] == a.shape[1]:
                    assert np.array_equal(A.diagonal(), B.diagonal())

        tacit.comm.run_threads(ranks, rank)


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_known_of_a_matrix_follows_its_values(ranks: int) -> None:
    h = laplacian(12, 12).tocsr()
    h.sort_indices()
    u = h.copy()
    u.data = h.data * np.linspace(1, 1.5, h.nnz)
    b = np.ones(144)

    def rank(comm: Any) -> None:
        A = tacit.csr(h, comm=comm)
        double = 2 * A
        first = tacit.solve(A, b)
        assert (first.method, A.is_hermitian()) == ("cg", True)
        A.update_values(3 * h.data)  # as definite as before: the preconditioner is made anew
        again = tacit.solve(A, b)
        fresh = tacit.solve(tacit.csr(3 * h, comm=comm), b)
        assert np.array_equal(again.x, fresh.x)
        assert again.method == "cg"
        assert np.allclose(double @ b, 6 * (h @ b))
        assert double.is_hermitian()
        A.update_values(u.data)
        assert not A.is_hermitian()
        assert not double.is_hermitian()
        r = tacit.solve(A, b)
        assert r.converged
        assert r.method != "cg"
        assert np.linalg.norm(b - u @ r.x) <= 1.001e-8 * 12
        A.update_values(np.where(np.arange(h.nnz) == 5, np.nan, h.data))
        r = tacit.solve(A, b)
        assert r.reason == "non_finite"
        assert "row 1" in r.detail
        A.update_values(h.data)
        assert np.array_equal(
            tacit.solve(A, b, method="cg", precond="none").x,
            tacit.solve(h, b, method="cg", precond="none", comm=comm).x,
        )
        powers = dict(method="ca-gmres", powers="kernel", precond="none")
        tacit.solve(A, b, **powers)
        A.update_values(u.data)
        kernel = tacit.solve(A, b, **powers)
        assert np.array_equal(kernel.x, tacit.solve(tacit.csr(u, comm=comm), b, **powers).x)

    tacit.comm.run_threads(ranks, rank)


@pytest.mark.parametrize("ranks", [1, 2])
def test_wrong_new_values(ranks: int) -> None:
    h = laplacian(4, 4).tocsr()

    def rank(comm: Any) -> None:
        A = tacit.csr(h, comm=comm)
        other = h.copy().tolil()
        other[0, 9] = 1.0
        for values, kind, text in (
            (h.data[:-1], ValueError, "are needed"),
            (h.data * 1j, TypeError, "complex"),
            (np.ones((2, 2)), ValueError, "one dimension"),
            (other.tocsr(), ValueError, "another structure"),
            (laplacian(3, 4), ValueError, "16 x 16"),
        ):
            with pytest.raises(kind, match=text):
                A.update_values(values)
        assert np.array_equal(A @ np.ones(16), h @ np.ones(16))

    tacit.comm.run_threads(ranks, rank)


def test_new_values_in_another_form_on_each_rank() -> None:
    h = laplacian(4, 4).tocsr()

    def rank(comm: Any) -> None:
        A = tacit.csr(h, comm=comm)
        with pytest.raises(ValueError, match="values is a matrix of 16 x 16 on rank 0 and an array on rank 1"):
            A.update_values(h if comm.rank == 0 else h.data)
        A.update_values(2 * h.data)
        assert np.array_equal(A @ np.ones(16), 2 * h @ np.ones(16))

    tacit.comm.run_threads(2, rank)


def test_values_of_an_unsorted_scipy_matrix() -> None:
    a = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    A = tacit.csr(a)
    a.data *= 2
    A.update_values(a)
    assert np.array_equal(A.to_scipy().toarray(), a.toarray())


# -- pickles and copies ------------------------------------------------------------------------------------------------


def twice(x: np.ndarray) -> np.ndarray:
    return 2 * x


def operators(scalar: str, comm: Any = None) -> dict[str, Any]:
    a = as_scalar(unsymmetric(24), scalar)
    A = tacit.csr(a, comm=comm)
    S = tacit.poisson((6, 4), boundary=["periodic", "neumann"], spacing=(1.0, 0.5), scalar=scalar, comm=comm)
    F = tacit.function((24, 24), twice, rmatvec=twice, dtype=scalar, comm=comm)
    found = {f"csr as {f}": tacit.csr(cast(dense_blocks(24), scalar), format=f, comm=comm) for f in FORMATS}
    found |= {
        "rectangle": tacit.csr(cast(sp.random_array((24, 11), density=0.3, rng=0), scalar), comm=comm),
        "stencil": S,
        "weights": tacit.stencil((6, 4), [5.0, -1.0, -0.25], scalar=scalar, comm=comm),
        "function": F,
        "transpose": A.T,
        "adjoint": A.H,
        "product": A @ S @ F,
        "sum": 2 * A - S.T,
        "shift": (-A).shifted(2.0),
    }
    if comm is None and scalar == "float64":
        found["tiled"] = tacit.tiled(a)
        found["tiled, rounded"] = tacit.tiled(a.astype("float32"), values="float16", vectors="float16", columns=4)
        found["of a LinearOperator"] = tacit.op.as_operator(sp.linalg.aslinearoperator(a))
    return found


@pytest.mark.parametrize("scalar", SCALARS)
def test_a_pickle_multiplies_with_the_same_bits(scalar: str) -> None:
    rng = np.random.default_rng(0)
    for name, A in operators(scalar).items():
        for again in (pickle.loads(pickle.dumps(A)), copy.deepcopy(A), copy.copy(A)):
            x = rng.standard_normal(A.shape[1]).astype(A.dtype)
            X = rng.standard_normal((A.shape[1], 3)).astype(A.dtype)
            assert type(again) is type(A), name
            assert again is not A
            assert (again.shape, again.dtype, again.storage, again.name) == (A.shape, A.dtype, A.storage, A.name), name
            assert np.array_equal(again @ x, A @ x), name
            assert np.array_equal(again @ X, A @ X), name
            if A._handle.has_adjoint:
                y = rng.standard_normal(A.shape[0]).astype(A.dtype)
                assert np.array_equal(again.H @ y, A.H @ y), name
            assert again.is_hermitian() == A.is_hermitian()


def test_a_copy_is_on_its_own() -> None:
    A = tacit.csr(laplacian(3, 3))
    B = copy.deepcopy(A)
    B.update_values(2 * A.local_rows()[2])
    assert np.array_equal(B @ np.ones(9), 2 * (A @ np.ones(9)))


def test_copies_on_ranks() -> None:
    def rank(comm: Any) -> None:
        for name, A in operators("float64", comm).items():
            x = np.arange(A.shape[1], dtype=float)
            assert np.array_equal(copy.deepcopy(A) @ x, A @ x), name
            with pytest.raises(TypeError, match=r"copy\.deepcopy"):
                pickle.dumps(A)

    tacit.comm.run_threads(3, rank)


def test_pickles_from_before_the_classes_moved() -> None:
    """Older pickles have all classes in tacit.op.operators."""
    for name in ("rectangle", "stencil", "sum", "transpose"):
        A = operators("float64")[name]
        old = re.sub(rb"tacit\.op\.(base|stored|composed|grids)\b", b"tacit.op.operators", pickle.dumps(A, protocol=0))
        assert b"tacit.op.operators\n" + type(A).__name__.encode() in old
        x = np.arange(float(A.shape[1]))
        assert np.array_equal(pickle.loads(old) @ x, A @ x), name


def test_what_cannot_be_pickled_says_so() -> None:
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(tacit.function((3, 3), lambda x: x))
    operator = tacit.tomography.projector(np.linspace(0, 3, 5), 8).operator
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="make it anew"):
            attempt(operator)


def test_other_processes_load_a_pickle(tmp_path: Any, python: Callable[..., Any]) -> None:
    A = tacit.csr(laplacian(5, 5)) @ tacit.poisson((5, 5))
    path = tmp_path / "operator"
    path.write_bytes(pickle.dumps(A))
    code = (
        "import pickle, numpy as np, tacit\n"
        f"A = pickle.load(open({str(path)!r}, 'rb'))\n"
        "r = tacit.solve(A, np.ones(25))\n"
        "print(r.converged, float((A @ np.ones(25)).sum()))\n"
    )
    assert python(code).stdout.split() == ["True", str(float((A @ np.ones(25)).sum()))]


def test_pickles_under_mpiexec(python: Callable[..., Any]) -> None:
    """Each rank pickles its own part."""
    code = (
        "import pickle, numpy as np, tacit, scipy.sparse as sp\n"
        "a = sp.random_array((40, 40), density=0.2, rng=0, format='csr')\n"
        "A = tacit.csr(a) + tacit.poisson((40,))\n"
        "B = pickle.loads(pickle.dumps(A))\n"
        "x = np.arange(40.0)\n"
        "assert np.array_equal(A @ x, B @ x)\n"
        "assert B.comm.size == 2\n"
        "print('good')\n"
    )
    done = python(code, ranks=2)
    assert done.stdout.count("good") == 2, done.stderr


# -- factors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_low_rank(scalar: str, ranks: int) -> None:
    rng = np.random.default_rng(0)
    near = 1e-4 if scalar in ("float32", "complex64") else 1e-12

    def factor(rows: int, columns: int) -> Any:
        parts = rng.standard_normal((2, rows, columns))
        return (parts[0] + 1j * parts[1] if scalar.startswith("complex") else parts[0]).astype(scalar)

    U, V, W, x, y = factor(23, 3), factor(9, 3), factor(23, 3), factor(9, 1)[:, 0], factor(23, 2)
    a = as_scalar(unsymmetric(23), scalar)

    def rank(comm: Any) -> None:
        A = tacit.low_rank(U, V, comm=comm)
        dense = U @ V.conj().T
        assert A.shape == (23, 9)
        assert A.dtype == np.dtype(scalar)
        assert np.allclose(A @ x, dense @ x, rtol=near, atol=near)
        assert np.allclose(A.H @ y, dense.conj().T @ y, rtol=near, atol=near)
        assert np.allclose(A.T @ y, dense.T @ y, rtol=near, atol=near)
        begin, end = tacit.csr(a, comm=comm).own_range
        B = tacit.csr(a, comm=comm) + tacit.low_rank(U[begin:end], W[begin:end], own_rows=True, comm=comm)
        assert np.allclose(B @ y, a @ y + U @ (W.conj().T @ y), rtol=near, atol=near)
        assert np.allclose(B.diagonal(), a.diagonal() + (U * W.conj()).sum(1), rtol=near, atol=near)
        assert not B.is_hermitian()
        S = tacit.low_rank(U, comm=comm)
        assert S.is_hermitian()
        assert np.allclose(S @ y, U @ (U.conj().T @ y), rtol=near, atol=near)
        assert np.array_equal(copy.deepcopy(A) @ x, A @ x)

    tacit.comm.run_threads(ranks, rank)
    A = tacit.low_rank(U, V)
    assert np.array_equal(pickle.loads(pickle.dumps(A)) @ x, A @ x)


def test_wrong_factors() -> None:
    one = np.ones(5)
    for U, V, error, words in (
        (np.ones((5, 2)), np.ones((5, 3)), ValueError, "U has 2 columns and V 3"),
        (np.ones((5, 0)), None, ValueError, r"U has shape \(5, 0\)"),
        (np.ones((2, 2, 2)), None, ValueError, r"U has shape \(2, 2, 2\)"),
        (["a"], None, (TypeError, ValueError), "U"),
    ):
        with pytest.raises(error, match=words):
            tacit.low_rank(U, V)
    with pytest.raises(TypeError, match="complex"):
        tacit.low_rank(1j * one, scalar="float64")
    one[3] = np.nan
    result = tacit.solve(tacit.low_rank(one).shifted(1), np.ones(5), method="cg")
    assert result.reason == "non_finite"
    assert "the factor U has a value that is not finite in row 3" in result.detail

    def rank(comm: Any) -> None:
        with pytest.raises(ValueError, match="U"):
            tacit.low_rank(np.full(5, float(comm.rank)), comm=comm)

    tacit.comm.run_threads(2, rank)


def test_a_matrix_with_a_correction_takes_its_preconditioner() -> None:
    n = 900
    a = tacit.poisson((30, 30))
    u = np.random.default_rng(0).standard_normal((n, 2)) / 10
    A = a + tacit.low_rank(u)
    b = np.ones(n)
    plain = tacit.solve(A, b, method="cg", precond="none")
    better = tacit.solve(A, b, method="cg", precond=tacit.precond.make(a, "ic0"))
    assert plain.converged
    assert better.converged
    assert better.iterations < plain.iterations
    dense = a.to_scipy().toarray() + u @ u.T
    assert np.allclose(better.x, np.linalg.solve(dense, b), rtol=1e-6)
