"""What tacit.solve takes: kinds of matrices, scalars, shapes, arrays of other libraries and of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from conftest import laplacian, unsymmetric

import tacit
from tacit import _support, op


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


class OnGpu:
    """An array of a library whose arrays are in the memory of a GPU; NumPy is given a copy (JAX, Numba) or refused
    (CuPy, PyTorch).
    """

    def __init__(self, array: np.ndarray, says: str, gives: bool) -> None:
        self.array, self.gives = array, gives
        self.shape, self.dtype = array.shape, array.dtype
        if says == "cuda_array_interface":
            self.__cuda_array_interface__ = {
                "shape": array.shape, "typestr": array.dtype.str, "data": (16, False), "version": 3,
            }  # fmt: skip
        else:
            self.__dlpack_device__ = lambda: (2, 0)
            self.__dlpack__ = self.refuses

    def refuses(self, **_: Any) -> Any:
        raise BufferError("it is in the memory of a GPU")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self.gives:
            raise TypeError("implicit conversion to a NumPy array is not allowed")
        return self.array.copy() if dtype is None else self.array.astype(dtype)


@pytest.mark.parametrize("says", ["cuda_array_interface", "dlpack"])
def test_arrays_of_a_gpu_that_numpy_can_read(says: str) -> None:
    a = laplacian(6)
    A = tacit.csr(a)
    b = np.arange(1.0, 7.0)
    given = OnGpu(b, says, gives=True)
    assert np.array_equal(A @ given, A @ b)
    assert np.array_equal(A.H @ given, A.H @ b)
    assert np.array_equal(given @ A, b @ A)
    wide = OnGpu(np.stack([b, b], axis=1), says, gives=True)
    assert np.array_equal(A @ wide, A @ wide.array)
    for matrix in (A, a):
        for result in (tacit.solve(matrix, given), tacit.solve(matrix, b, given)):
            assert result.converged
            assert np.allclose(a @ result.x, b)
    refused = OnGpu(b, says, gives=False)
    for call in (lambda: A @ refused, lambda: refused @ A, lambda: tacit.solve(a, refused)):
        with pytest.raises((ValueError, TypeError), match="in the memory of a GPU"):
            call()


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


def masked(values: Any, mask: Any) -> Any:
    return np.ma.MaskedArray(values, mask=mask)


def test_masked_arrays_are_refused_where_something_is_masked() -> None:
    """The values under a mask are nobody's: they are neither solved with, nor multiplied, nor written."""
    S, A = laplacian(4), tacit.csr(laplacian(4))
    b, hidden = np.ones(4), masked(np.array([1.0, 1.0, 1e20, 1.0]), [0, 0, 1, 0])
    D = masked(S.toarray(), S.toarray() < 0)
    for use in (
        lambda: tacit.solve(A, hidden),
        lambda: tacit.solve(A, b, hidden),
        lambda: tacit.solve(D, b),
        lambda: tacit.solve(A, b, precond=D),
        lambda: tacit.cg(A, hidden[:, None]),
        lambda: tacit.csr(D),
        lambda: tacit.csr((masked(S.data, S.data < 0), S.indices, S.indptr), S.shape),
        lambda: A @ hidden,
        lambda: hidden @ A,
        lambda: A.rmatvec(hidden),
        lambda: A.update_values(masked(S.data, S.data < 0)),
        lambda: tacit.function((4, 4), lambda x: masked(x, [0, 1, 0, 0])) @ b,
        lambda: tacit.solve(A, b, nullspace=hidden),
        lambda: tacit.write("never.npy", hidden),
    ):
        with pytest.raises(ValueError, match=r"masked array with \d+ masked elements, the first at .*not supported"):
            use()
    whole = masked(b, False)
    np.testing.assert_array_equal(A @ whole, S @ b)
    assert tacit.solve(A, whole).converged


def test_an_operator_is_no_array_of_numpys() -> None:
    """NumPy would make an array of n operators of numpy.dot(A, x)."""
    A, x = tacit.csr(laplacian(4)), np.ones(4)
    M = tacit.precond.make(A, "jacobi")
    for use in (
        lambda: np.dot(A, x),
        lambda: np.dot(x, A),
        lambda: x.dot(A),
        lambda: np.asarray(A),
        lambda: np.linalg.norm(A),
        lambda: np.linalg.solve(A, x),
        lambda: np.einsum("ij,j", A, x),
        lambda: np.dot(tacit.poisson((2, 2)), x),
        lambda: np.dot(A.T, x),
        lambda: np.dot(M, x),
        lambda: np.dot(tacit.function((4, 4), lambda v: v), x),
    ):
        with pytest.raises(TypeError, match=r"operator of Tacit is no array: the product is A @ x"):
            use()
    np.testing.assert_array_equal(x @ A, laplacian(4).T @ x)
    assert spl.aslinearoperator(A).matvec(x).shape == (4,)


def test_row_pointers_begin_with_zero() -> None:
    """Entries before the first row would be dropped."""
    data, columns = np.array([5.0, 2.0, 3.0]), np.array([0, 0, 1])
    for kind in (np.int32, np.int64):
        start = np.array([1, 2, 3], kind)
        with pytest.raises(ValueError, match="row pointers begin with 1"):
            tacit.csr((data, columns.astype(kind), start), (2, 2))
        A = sp.csr_array((data[1:], columns[1:].astype(kind), start - 1), shape=(2, 2))
        A.indptr = A.indptr + kind(1)
        A.indices, A.data = columns.astype(kind), data
        with pytest.raises(ValueError, match="row pointers begin with 1"):
            tacit.csr(A)
        with pytest.raises(ValueError, match="row pointers begin with 1"):
            tacit.comm.run_threads(2, lambda comm, A=A: tacit.csr(A, comm=comm))  # type: ignore[misc]
