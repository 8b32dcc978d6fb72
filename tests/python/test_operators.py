"""Operators: products, adjoints, compositions, grids; on one rank and on several."""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from conftest import SCALARS, as_scalar, laplacian, unsymmetric

import tacit
from tacit import precond

SHAPES: list[Any] = [7, (6, 5), (3, 4, 5), (2, 2), (1, 4), (2, 1, 3)]
BOUNDARIES = ["dirichlet", "neumann", "periodic"]


def grid_matrix(shape: tuple[int, ...], weights: dict[tuple[int, ...], float], boundary: list[str]) -> np.ndarray:
    """The matrix of a stencil, by its definition, point by point."""
    n = int(np.prod(shape))
    a = np.zeros((n, n))
    for point in np.ndindex(*shape):
        for step, weight in weights.items():
            other = list(np.add(point, step))
            for axis, (k, size) in enumerate(zip(other, shape, strict=True)):
                if boundary[axis] == "periodic":
                    other[axis] = k % size
                elif boundary[axis] == "neumann":
                    other[axis] = min(max(k, 0), size - 1)
            if all(0 <= k < size for k, size in zip(other, shape, strict=True)):
                a[np.ravel_multi_index(point, shape), np.ravel_multi_index(other, shape)] += weight
    return a


@pytest.mark.parametrize("scalar", SCALARS)
def test_products(scalar: str) -> None:
    a = as_scalar(unsymmetric(30), scalar)
    A = tacit.csr(a)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30).astype(scalar) * (1 + 1j if scalar.startswith("complex") else 1)
    X = rng.standard_normal((30, 4)).astype(scalar)
    near = dict(
        rtol=1e-4 if scalar in ("float32", "complex64") else 1e-12, atol=1e-5 if "3" in scalar or "64" in scalar else 0
    )
    assert A.dtype == np.dtype(scalar)
    for ours, theirs in (
        (A @ x, a @ x),
        (A.T @ x, a.T @ x),
        (A.H @ x, a.conj().T @ x),
        (A.T.T @ x, a @ x),
        (A.H.H @ x, a @ x),
        (A.T.H @ x, a.conj() @ x),
        (A @ X, a @ X),
        (A.H @ X, a.conj().T @ X),
        (x @ A, x @ a),
        (A.rmatvec(x), a.conj().T @ x),
        (X.T @ A, X.T @ a),
        (A.matvec(X), a @ X),
    ):
        assert ours.shape == theirs.shape
        assert np.allclose(ours, theirs, **near)
    assert np.allclose(A.diagonal(), a.diagonal(), **near)
    assert (A.to_scipy() != a).nnz == 0


def test_real_operators_take_complex_vectors() -> None:
    a = laplacian(5)
    x = np.arange(5) + 1j
    assert np.allclose(tacit.csr(a) @ x, a @ x)
    assert np.allclose(tacit.csr(a) @ [1, 2, 3, 4, 5], a @ np.arange(1, 6))
    x[2] = complex(2, np.inf)  # the real part has no part in that
    y = tacit.csr(a) @ x
    assert np.array_equal(y.real, a @ x.real)
    assert np.array_equal(np.isinf(y.imag), [False, True, True, True, False])
    assert (tacit.csr(a.astype("float32")) @ x).dtype == np.complex64


def test_rectangular() -> None:
    a = sp.random_array((7, 4), density=0.5, rng=np.random.default_rng(1)).tocsr()
    A = tacit.csr(a)
    assert A.shape == (7, 4)
    assert A.T.shape == (4, 7)
    assert np.allclose(A @ np.ones(4), a.sum(axis=1))
    assert np.allclose(A.T @ np.ones(7), a.sum(axis=0))
    N = A.H @ A
    assert np.allclose(N @ np.ones(4), a.T @ (a @ np.ones(4)))
    with pytest.raises(ValueError, match="square"):
        tacit.solve(a, np.ones(7))


def test_compositions() -> None:
    a, b = unsymmetric(20, 1), unsymmetric(20, 2)
    A, B = tacit.csr(a), tacit.csr(b)
    x = np.random.default_rng(0).standard_normal(20)
    for ours, theirs in (
        (A + B, a + b),
        (A - B, a - b),
        (2 * A, 2 * a),
        (A * 0.5, a * 0.5),
        (-A, -a),
        (A @ B, a @ b),
        ((A @ B).T, (a @ b).T),
        (A.shifted(3.0), a + 3 * sp.eye_array(20)),
        (2 * A - B @ A.T, 2 * a - b @ a.T),
    ):
        assert np.allclose(ours @ x, theirs @ x)
        assert ours.shape == (20, 20)
    assert tacit.solve(A + B, np.ones(20)).converged
    assert "csr" in (A + B).name
    with pytest.raises(TypeError, match="float32"):
        A + tacit.csr(b.astype("float32"))
    with pytest.raises(TypeError, match="complex"):
        A.shifted(1j)
    with pytest.raises(TypeError):
        _ = A + 1
    with pytest.raises(ValueError, match="operator"):
        A + tacit.csr(laplacian(5))


def many_column_operators(scalar: str, comm: Any) -> dict[str, tacit.Operator]:
    """An operator of every kind that there is, all of 24 x 24."""
    a, b = (as_scalar(unsymmetric(24, seed), scalar) for seed in (1, 2))
    A, B = tacit.csr(a, comm=comm), tacit.csr(b, comm=comm)
    factor = 2 - 1j if scalar.startswith("complex") else 2.5
    S = tacit.poisson((4, 6), velocity=(1.0, 2.0), scalar=scalar, comm=comm)
    found = {
        "csr": A,
        "adjoint": A.H,
        "transpose": A.T,
        "normal equations": A.H @ A,
        "product of transposes": A.T @ B.H,
        "sum": factor * A - B @ A.T,
        "shifted": A.shifted(factor),
        "stencil": S,
        "stencil's adjoint": S.H,
        "mixed": (S + S.assemble()).H @ S.shifted(factor).T,
        "jacobi": precond.make(A, "jacobi"),
        "ilu0": precond.make(A, "ilu0"),
        "function": tacit.function(
            (24, 24), lambda x: a @ x, rmatvec=lambda x: a.conj().T @ x, dtype=scalar, comm=comm
        ),
    }
    if not scalar.startswith("complex"):
        found["tiled"] = tacit.tiled(A).H @ A
        V = tacit.multigrid.finite_volume(tacit.multigrid.cells((4, 6), comm=comm), 1.0, 0.1, dtype=scalar)
        found["finite volume"], found["finite volume's square"] = V, V.H @ V
    return found


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_many_columns_are_one_product(scalar: str, ranks: int) -> None:
    """Of every operator and every composition: the columns' own products, by one apply."""
    rng = np.random.default_rng(4)
    near = 1e-4 if scalar in ("float32", "complex64") else 1e-12
    X = rng.standard_normal((24, 11)) + (1j * rng.standard_normal((24, 11)) if scalar.startswith("complex") else 0)

    def rank(comm: Any) -> None:
        for name, A in many_column_operators(scalar, comm).items():
            alone = np.stack([A @ x for x in X.T], axis=1)
            before = A._handle.applies
            assert np.allclose(A @ X, alone, rtol=near, atol=near), name
            assert A._handle.applies == before + 1, name
            assert (A @ X[:, :0]).shape == (24, 0)
            if A._handle.has_adjoint:
                back = np.stack([A.rmatvec(x) for x in X.T], axis=1)
                assert np.allclose(A.rmatmat(X), back, rtol=near, atol=near), name
                assert np.allclose(A.H @ X, back, rtol=near, atol=near), name
                assert np.allclose(X.T @ A, A.rmatmat(X.conj()).conj().T, rtol=near, atol=near), name

    if ranks == 1:
        rank(tacit.comm.self_())
    else:
        tacit.comm.run_threads(ranks, rank)


def test_linear_operator() -> None:
    a = unsymmetric(15)
    wrapped = tacit.csr(a).aslinearoperator()
    assert isinstance(wrapped, spl.LinearOperator)
    assert np.allclose(wrapped @ np.ones(15), a @ np.ones(15))
    assert np.allclose(wrapped.T @ np.ones(15), a.T @ np.ones(15))
    x, info = spl.gmres(wrapped, np.ones(15), rtol=1e-8)
    assert info == 0
    assert np.allclose(a @ x, 1, atol=1e-6)


def test_csr_of_arrays() -> None:
    a = unsymmetric(12)
    A = tacit.csr((a.data, a.indices, a.indptr), a.shape)
    assert (A.to_scipy() != a).nnz == 0
    assert A.nnz == a.nnz
    assert A.storage
    assert "12 x 12" in repr(A)
    assert A.own_range == (0, 12)
    assert np.array_equal(A.local_rows()[0], a.indptr)
    assert A.astype("float64") is A
    assert A.astype(np.complex128).dtype == np.complex128
    for broken, text in (
        ((a.data, a.indices + 12, a.indptr), "row 0 has column"),
        ((a.data, a.indices, a.indptr[::-1]), "row pointers"),
        ((a.data[:-1], a.indices, a.indptr), "values"),
        ((a.data, a.indices, a.indptr[:-1]), "13 are needed"),
        ((a.data, a.indices * 1.0, a.indptr), "indices has"),
    ):
        with pytest.raises(ValueError, match=text):
            tacit.csr(broken, a.shape)
    with pytest.raises(TypeError, match="shape"):
        tacit.csr((a.data, a.indices, a.indptr))
    with pytest.raises(TypeError, match="products only"):
        tacit.csr(spl.aslinearoperator(a))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("scalar", SCALARS)
def test_storage_formats(scalar: str, ranks: int) -> None:
    # Dense blocks of 3 x 3 where a grid's matrix has entries, as three unknowns a node have them.
    rng = np.random.default_rng(0)
    a = as_scalar(sp.kron(laplacian(9, 8), rng.standard_normal((3, 3)), "csr"), scalar)
    x = rng.standard_normal(a.shape[0]).astype(scalar)
    near = dict(rtol=1e-4, atol=1e-4) if scalar in ("float32", "complex64") else dict(rtol=1e-12, atol=1e-12)

    def rank(comm: tacit.comm.Communicator) -> None:
        for format, begin in (("csr", "csr"), ("sell", "sell-8"), ("bsr", "bsr-3"), ("automatic", "bsr-3")):
            A = tacit.csr(a, comm=comm, format=format)
            assert (A.format, A.storage.split(" ")[0]) == (format, begin)
            again = tacit.csr(a, comm=comm).stored_as(format)
            assert (again.format, again.storage) == (format, A.storage)
            assert A.stored_as(format) is A
            assert A.astype("complex128").format == format
            for B in (A, again, tacit.csr(A, format=format)):
                assert (B.to_scipy() != a).nnz == 0
                assert np.allclose(B @ x, a @ x, **near)
                assert np.allclose(B.H @ x, a.conj().T @ x, **near)
        for wrong in (lambda: tacit.csr(a, comm=comm, format="sel"), lambda: A.stored_as("sel")):
            with pytest.raises(ValueError, match="did you mean 'sell'"):
                wrong()

    tacit.comm.run_threads(ranks, rank)


def test_formats_and_scalars_that_differ_between_ranks_are_refused() -> None:
    a = laplacian(6)

    def rank(comm: Any) -> None:
        A = tacit.csr(a, comm=comm)
        first = comm.rank == 0
        for wrong in (
            lambda: tacit.csr(a, comm=comm, format="csr" if first else "sell"),
            lambda: A.stored_as("automatic" if first else "csr"),
            lambda: A.astype("float64" if first else "float32"),
        ):
            with pytest.raises(ValueError, match="all ranks must give the same"):
                wrong()
        assert A.stored_as("csr").astype("float32").nnz == A.nnz

    tacit.comm.run_threads(3, rank)


def test_a_preconditioner_made_before_is_used_as_by_its_name() -> None:
    a = laplacian(9, 8)
    b = a @ np.ones(72)

    def rank(comm: Any) -> None:
        A = tacit.csr(a, comm=comm)
        for name, options, method in (
            ("schwarz", {}, "gmres"),
            ("schwarz", {"restricted": False, "solver": "ic0"}, "cg"),
            ("spai", {}, "gmres"),
            ("ic0", {}, "cg"),
            ("jacobi", {}, "cg"),
        ):
            for given in ({"name": name, **options}, tacit.precond.make(A, name, **options)):
                result = tacit.solve(A, b, comm=comm, precond=given)
                assert result.converged
                assert result.method == method, (name, options, given)

    tacit.comm.run_threads(2, rank)


def test_overlap_ends_where_no_block_can_grow() -> None:
    a = laplacian(40)

    def rank(comm: Any) -> None:
        A = tacit.csr(a, comm=comm)
        whole = tacit.precond.make(A, "schwarz", overlap=2**30)  # every block is the whole matrix, which ilu0 solves
        x = whole @ (a @ np.arange(40.0))
        assert np.allclose(x, np.arange(40.0))

    for ranks in (1, 3):
        tacit.comm.run_threads(ranks, rank)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("diagonals", [False, True])
def test_stencils(shape: Any, boundary: str, diagonals: bool) -> None:
    full = (shape,) if isinstance(shape, int) else shape
    d = len(full)
    rng = np.random.default_rng(5)
    table = rng.integers(-4, 5, (3,) * d).astype(float)
    for step in np.ndindex(table.shape):
        if not diagonals and np.abs(np.subtract(step, 1)).sum() > 1:
            table[step] = 0
    weights = {tuple(int(k) - 1 for k in step): table[step] for step in np.ndindex(table.shape)}
    theirs = grid_matrix(full, weights, [boundary] * d)
    A = tacit.stencil(shape, table, boundary=boundary)
    assert A.grid == full
    assert np.allclose(A.to_scipy().toarray(), theirs)
    x = rng.standard_normal(theirs.shape[0])
    assert np.allclose(A @ x, theirs @ x)
    assert np.allclose(A.T @ x, theirs.T @ x)
    assert np.allclose(A.diagonal(), np.diag(theirs))
    assert A.nnz == A.assemble().nnz
    assert A.is_hermitian() == bool(np.allclose(theirs, theirs.T))
    symmetric = tacit.stencil(shape, table + np.flip(table), boundary=boundary)
    assert symmetric.is_hermitian() == symmetric.assemble().is_hermitian()


def test_axes_are_numpys() -> None:
    A = tacit.poisson((4, 5), spacing=(0.5, 1.0), boundary=("neumann", "dirichlet"))
    u = np.random.default_rng(0).standard_normal((4, 5))
    padded = np.pad(np.pad(u, ((1, 1), (0, 0)), mode="edge"), ((0, 0), (1, 1)))
    v = (2 * u - padded[:-2, 1:-1] - padded[2:, 1:-1]) / 0.25 + (2 * u - padded[1:-1, :-2] - padded[1:-1, 2:])
    assert np.allclose((A @ u.ravel()).reshape(4, 5), v)


def test_poissons() -> None:
    a = laplacian(6, 7)
    assert np.allclose(tacit.poisson((6, 7)).to_scipy().toarray(), a.toarray())
    assert isinstance(tacit.poisson((6, 7), assembled=True), tacit.Csr)
    assert np.allclose(tacit.poisson(5, shift=-2.0) @ np.ones(5), [-1, -2, -2, -2, -1])
    assert tacit.poisson(5, shift=1j).dtype == np.complex128
    assert tacit.poisson((4, 4, 4), isotropic=True).nnz == 10**3
    flow = tacit.poisson((8, 8), velocity=(3.0, 0.0))
    assert not flow.is_hermitian()
    assert tacit.solve(flow, np.ones(64)).method == "gmres"
    assert tacit.poisson((8, 8), scalar="float32").dtype == np.float32
    central = tacit.poisson(6, velocity=1.0, convection="central").to_scipy().toarray()
    assert central[2, 3] == pytest.approx(-0.5)
    for wrong, error in (
        (dict(shape=()), ValueError),
        (dict(shape=(2, 2, 2, 2)), ValueError),
        (dict(shape=0), ValueError),
        (dict(shape=3, boundary="dirichelt"), ValueError),
        (dict(shape=3, spacing=0.0), ValueError),
        (dict(shape=(3, 3), spacing=(1.0, 2.0), isotropic=True), ValueError),
        (dict(shape=3, scalar="int32"), ValueError),
        (dict(shape=(3, 3), velocity=(1.0, 1.0, 1.0)), ValueError),
    ):
        with pytest.raises(error):
            tacit.poisson(**wrong)
    with pytest.raises(ValueError, match="weights have shape"):
        tacit.stencil((3, 3), np.ones((3, 3, 3)))


def test_functions() -> None:
    a = unsymmetric(9)
    A = tacit.function((9, 9), lambda x: a @ x, rmatvec=lambda x: a.T @ x, name="mine")
    assert A.name == "mine"
    assert np.allclose(A.H @ np.ones(9), a.T @ np.ones(9))
    assert np.allclose(A @ np.eye(9), a.toarray())
    assert A.nnz == 0
    with pytest.raises(ValueError, match="adjoint"):
        _ = tacit.function((9, 9), lambda x: a @ x).H
    with pytest.raises(ValueError, match="9 elements are needed"):
        tacit.function((9, 9), lambda x: x[:-1]) @ np.ones(9)
    with pytest.raises(TypeError, match="complex"):
        tacit.function((9, 9), lambda x: 1j * x) @ np.ones(9)
    with pytest.raises(TypeError, match="None"):
        tacit.function((9, 9), lambda x: None) @ np.ones(9)
    kept = []
    B = tacit.function((9, 9), lambda x: kept.append(x) or x)
    B @ np.ones(9)
    B @ np.zeros(9)
    assert kept[0].tolist() == [1.0] * 9  # arguments may be kept


def test_wrong_vectors() -> None:
    A = tacit.csr(laplacian(6))
    for x, error in (
        (np.ones(5), ValueError),
        (np.ones((1, 6)), ValueError),
        ("text", TypeError),
        (None, TypeError),
        (np.ones((6, 2, 2)), ValueError),
        (np.array(["a"] * 6), TypeError),
    ):
        with pytest.raises(error):
            A @ x


@pytest.mark.parametrize("columns", [None, 1, 3, 64])
@pytest.mark.parametrize("scalar", SCALARS)
def test_products_into_an_array(scalar: str, columns: int | None) -> None:
    a = as_scalar(unsymmetric(900), scalar)  # with several columns large enough to be multiplied where it lies
    operators = [tacit.csr(a), tacit.csr(a).T, tacit.csr(a).H @ tacit.csr(a), tacit.poisson((30, 30), scalar=scalar)]
    x = np.random.default_rng(1).standard_normal((900,) if columns is None else (900, columns)).astype(scalar)
    before = x.copy()
    for A in operators:
        for product, new in ((A.matvec, A @ x), (A.rmatvec, A.H @ x)):
            out = np.full_like(x, np.nan)
            assert product(x, out=out) is out
            assert np.array_equal(out, new)
            assert np.array_equal(product(np.asfortranarray(x)), new)
            moved = np.frombuffer(b"0" + x.tobytes(), np.uint8)[1:].view(scalar).reshape(x.shape)
            assert not moved.flags.aligned
            assert np.array_equal(product(moved), new)
    assert np.array_equal(x, before)


def test_a_result_outlives_its_operands() -> None:
    """Vectors of a product lie over the arrays of the caller, and memory of results is used again."""
    a = unsymmetric(3000)
    kept = []
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((3000, 8))
        kept.append((x.copy(), tacit.csr(a) @ x))
        x[:] = np.nan
        del x
    for x, y in kept:
        assert np.allclose(y, a @ x)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # one x of several products at a time
        A = tacit.csr(a)
        assert all(np.allclose(y, a @ kept[0][0]) for y in pool.map(lambda _: A @ kept[0][0], range(20)))


def test_dense_operands_of_any_layout_and_of_no_columns() -> None:
    """Where products of others gave wrong numbers, shapes or what the memory held before."""
    rng = np.random.default_rng(0)
    a = sp.random_array((40, 30), density=0.2, rng=rng, format="csr")
    for columns in (1, 2, 3, 5, 7, 17, 65):
        x = rng.standard_normal((30, columns))
        for given in (
            x,
            np.asfortranarray(x),
            np.repeat(x, 2, 1)[:, ::2],
            np.moveaxis(x.T.copy(), 0, -1),
            x[::-1][::-1],
        ):
            assert np.allclose(tacit.csr(a) @ given, a @ x)
        y = rng.standard_normal((columns, 40))
        assert np.allclose(y @ tacit.csr(a), y @ a)
    one = tacit.csr(sp.csr_array(np.ones((2, 1))))
    assert (np.ones((2, 2)) @ one).tolist() == [[2.0], [2.0]]
    for m, n in ((4000, 0), (0, 4000), (4000, 3)):
        nothing = tacit.csr(sp.csr_array((m, n)))
        out = np.full((m, 2), np.nan)
        assert not nothing.matvec(np.ones((n, 2)), out=out).any()
        assert (nothing @ np.ones((n, 2))).shape == (m, 2)
        assert not (nothing @ np.ones((n, 2))).any()
        assert (np.ones(m) @ nothing).shape == (n,)
    small = sp.random_array((5, 5), density=0.5, rng=rng, format="csr")
    tall = np.ones((200_003, 5))
    assert np.allclose(tall @ tacit.csr(small), tall @ small)


def test_wrong_arrays_for_results() -> None:
    A, x = tacit.csr(unsymmetric(30)), np.ones((30, 4))
    whole = np.zeros((60, 4))
    whole[:30] = 1
    readonly = np.zeros((30, 4))
    readonly.flags.writeable = False
    for out, error, words in (
        ([[0.0] * 4] * 30, TypeError, "out is a list"),
        (np.zeros((30, 4), np.float32), TypeError, "out is float32; float64 is needed"),
        (np.zeros((30, 3)), ValueError, r"out has shape \(30, 3\); \(30, 4\) is needed"),
        (np.zeros(30), ValueError, "out has shape"),
        (np.zeros((4, 30)).T, ValueError, "out is not in C order"),
        (readonly, ValueError, "out is read-only"),
        (x, ValueError, "shares memory with x"),
    ):
        with pytest.raises(error, match=words):
            A.matvec(x, out=out)
    with pytest.raises(ValueError, match="shares memory with x"):
        A.rmatvec(whole[:30], out=whole[:30])
    with pytest.raises(TypeError, match="takes two products"):
        A.matvec(x + 1j, out=np.zeros((30, 4)))
    assert A.matvec(x[:, :0], out=np.zeros((30, 0))).shape == (30, 0)
    assert (x == 1).all()


@pytest.mark.parametrize("ranks", [2, 3])
def test_products_into_an_array_on_ranks(ranks: int) -> None:
    a = unsymmetric(2000)
    x = np.random.default_rng(0).standard_normal((2000, 8))

    def rank(comm: tacit.comm.Communicator) -> None:
        A = tacit.csr(a, comm=comm)
        begin, end = A.own_range
        out, own = np.zeros((2000, 8)), np.zeros((end - begin, 8))
        assert A.matvec(x, out=out) is out
        assert A.matvec(x[begin:end], out=own) is own
        assert np.allclose(out, a @ x)
        assert np.array_equal(own, out[begin:end])
        with pytest.raises(ValueError, match="out has shape"):
            A.matvec(x, out=own if comm.rank else out)
        with pytest.raises(ValueError, match="out is"):
            A.matvec(x, out=None if comm.rank else out)

    tacit.comm.run_threads(ranks, rank)


# --- on several ranks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize(
    "make",
    [
        lambda comm: tacit.csr(unsymmetric(23), comm=comm),
        lambda comm: tacit.poisson((7, 3), velocity=(1.0, 2.0), comm=comm),
        lambda comm: tacit.function(
            (23, 23), lambda x: unsymmetric(23) @ x, rmatvec=lambda x: unsymmetric(23).T @ x, comm=comm
        ),
        lambda comm: 2 * tacit.csr(unsymmetric(23), comm=comm).T - tacit.csr(unsymmetric(23, 1), comm=comm),
    ],
    ids=["csr", "stencil", "function", "composed"],
)
def test_same_on_several_ranks(make: Callable[[Any], tacit.Operator], ranks: int) -> None:
    alone = make(tacit.comm.self_())
    n = alone.shape[0]
    x = np.random.default_rng(0).standard_normal(n)
    expected = alone @ x, alone.H @ x

    def rank(comm: tacit.comm.Communicator) -> tuple[int, int]:
        A = make(comm)
        low, high = A.own_range
        for whole, product in zip(expected, (A, A.H), strict=True):
            assert np.allclose(product @ x, whole)  # whole in, whole out
            assert np.allclose(product @ x[low:high], whole[low:high])  # own in, own out
        assert np.allclose((A @ np.stack([x, 2 * x], axis=1))[:, 1], 2 * expected[0])
        return low, high

    ranges = tacit.comm.run_threads(ranks, rank)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == n
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))


def test_whole_and_gathered_on_several_ranks() -> None:
    a = unsymmetric(17)

    def rank(comm: tacit.comm.Communicator) -> None:
        A = tacit.csr(a, comm=comm)
        assert A.nnz == a.nnz
        assert (A.to_scipy() != a).nnz == 0
        assert np.allclose(A.diagonal(), a.diagonal())
        assert A.is_hermitian() is False
        assert tacit.csr(laplacian(17), comm=comm).is_hermitian()
        assert "on 3 ranks" in repr(A)
        assert (A.astype("float32").to_scipy() != a.astype("float32")).nnz == 0
        P = tacit.poisson((6, 5), comm=comm)
        assert (P.to_scipy() != laplacian(6, 5)).nnz == 0

    tacit.comm.run_threads(3, rank)


def test_local_functions() -> None:
    def rank(comm: tacit.comm.Communicator) -> None:
        A = tacit.function((10, 10), lambda x: (comm.rank + 1) * x, comm=comm, local=True, offsets=[0, 4, 10])
        assert A.own_range == ((0, 4), (4, 10))[comm.rank]
        assert (A @ np.ones(10)).tolist() == [1.0] * 4 + [2.0] * 6
        assert tacit.solve(A, np.ones(10)).converged

    tacit.comm.run_threads(2, rank)


def test_ranks_without_rows() -> None:
    def rank(comm: tacit.comm.Communicator) -> None:
        A = tacit.csr(laplacian(2), comm=comm)
        assert np.allclose(A @ np.ones(2), 1)
        assert tacit.solve(A, np.ones(2), precond="ilu0").converged

    tacit.comm.run_threads(4, rank)


@pytest.mark.parametrize("dims", [(7, 9), (5, 30), (300,)])
def test_is_hermitian_is_the_same_for_matrices_stored_by_diagonals(dims: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    n = int(np.prod(dims))
    line = sp.diags_array([np.ones(n - 7), np.ones(n - 1)], offsets=[7, 1], shape=(n, n))
    a = sp.csr_array(4 * sp.eye_array(n) - (1 + 2j) * line - (1 - 2j) * line.T)
    assert tacit.csr(a, format="sell").storage.startswith("sell-8 (diagonals")
    for change in (0, 1e-17, 1e-3, 1e-20, 0.3):
        b = a.copy()
        if change in (1e-17, 1e-3):
            b.data[rng.integers(b.nnz)] *= 1 + change * 1j
        elif change:  # an entry without a mirror entry, above or below the diagonal
            i, j = rng.permutation(3)[:2] + [0, 3]
            b = b.tolil()
            b[i, j] += change
            b = b.tocsr()
        wanted = bool(np.allclose(b.toarray(), b.toarray().conj().T, rtol=0, atol=1e-14))
        for format in ("sell", "csr"):
            assert tacit.csr(b, format=format).is_hermitian() == wanted, (change, format)


def test_values_in_fewer_bits_change_no_product() -> None:
    rng = np.random.default_rng(5)
    a = sp.csr_array(sp.random_array((700, 700), density=0.01, rng=rng) + sp.eye_array(700))
    x = rng.standard_normal(700)
    kept = {
        "bfloat16": np.round(200 * rng.standard_normal(a.nnz).clip(-1, 1)),
        "float32": rng.standard_normal(a.nnz).astype(np.float32).astype(float),
        "": rng.standard_normal(a.nnz),
    }
    for format in ("csr", "sell"):
        A = tacit.csr(a, format=format)
        for name, values in kept.items():
            a.data = values
            made = tacit.csr(a, format=format)
            assert f"{name} values" in made.storage if name else "values" not in made.storage
            A.update_values(values)
            assert np.array_equal(A @ x, made @ x)
            assert np.allclose(made @ x, a @ x, rtol=0, atol=1e-9)
            assert np.array_equal(made.to_scipy().data, values)
            assert np.array_equal(A.to_scipy().data, values)
