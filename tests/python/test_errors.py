"""Wrong use is refused before any work; the message has the value and what is needed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import laplacian

import tacit

A, B = laplacian(6), np.ones(6)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (dict(methdo="cg"), TypeError, "'methdo'; did you mean 'method'"),
        (dict(precon="jacobi"), TypeError, "did you mean 'precond'"),
        (dict(maxiter=3), TypeError, "did you mean 'max_iterations'"),
        (dict(maxit=3), TypeError, "did you mean 'max_iterations'"),
        (dict(ksp_max_it=3), TypeError, "did you mean 'max_iterations'"),
        (dict(M="jacobi"), TypeError, "did you mean 'precond'"),
        (dict(pc_type="jacobi"), TypeError, "did you mean 'precond'"),
        (dict(tol=1e-3), TypeError, "did you mean 'rtol'"),
        (dict(abstol=1e-3), TypeError, "did you mean 'atol'"),
        (dict(ksp_type="cg"), TypeError, "did you mean 'method'"),
        (dict(dtype="float32"), TypeError, "did you mean 'scalar'"),
        (dict(restrat=3), TypeError, "did you mean 'restart'"),
        (dict(K=1), TypeError, r"no option 'K' \("),
        (dict(wobble=1), TypeError, r"no option 'wobble' \("),
        (dict(method="gmress"), ValueError, "did you mean 'gmres'"),
        (dict(method="bcgs"), ValueError, "did you mean 'bicgstab'"),
        (dict(method="xyzzy"), ValueError, r"unknown method 'xyzzy' \("),
        (dict(method="gmers"), ValueError, "did you mean 'gmres'"),
        (dict(method=3), TypeError, "method is 3"),
        (dict(precond="jacobbi"), ValueError, 'did you mean "jacobi"'),
        (dict(precond=dict(name="polynomial", degre=3)), TypeError, "did you mean 'degree'"),
        (dict(precond=dict(name="polynomial", degree="three")), TypeError, "three"),
        (dict(precond=dict(name="none", degree=3)), TypeError, "takes none"),
        (dict(precond=dict(degree=3)), ValueError, "name="),
        (dict(precond=np.eye(5)), ValueError, "precond has shape"),
        (dict(precond=7), TypeError, "precond is a int"),
        (dict(side="both"), ValueError, "side"),
        (dict(orthogonalisation="mgss"), ValueError, "did you mean 'mgs'"),
        (dict(partition="graf"), ValueError, "did you mean 'graph'"),
        (dict(ordering="rmc"), ValueError, "did you mean 'rcm'"),
        (dict(device="cpu"), ValueError, "host, cuda"),
        (dict(scalar="float16"), ValueError, "float32"),
        (dict(scalar="int64"), ValueError, "float64"),
        (dict(rtol=-1.0), ValueError, "rtol is -1"),
        (dict(rtol=np.nan), ValueError, "rtol is nan"),
        (dict(rtol="1e-8"), TypeError, "rtol is '1e-8'"),
        (dict(atol=np.inf), ValueError, "atol is inf"),
        (dict(max_iterations=-1), ValueError, "max_iterations is -1"),
        (dict(max_iterations=2.5), ValueError, "whole number"),
        (dict(max_iterations=10**12), ValueError, "2\\^31"),
        (dict(max_iterations=True), TypeError, "number is needed"),
        (dict(restart=0), ValueError, "restart is 0"),
        (dict(relaxation=0.0), ValueError, "relaxation is 0"),
        (dict(relaxation=np.inf), ValueError, "relaxation"),
        (dict(method="chebyshev", lambda_min=-1.0), ValueError, "lambda_min is -1"),
        (dict(method="chebyshev", lambda_min=2.0, lambda_max=1.0), ValueError, "lambda_max is 1"),
        (dict(method="cg", lambda_min=2.0), ValueError, "option of chebyshev"),
        (dict(threads=0), ValueError, "threads is 0"),
        (dict(threads=100000), ValueError, "100000 threads: at most"),
        (dict(callback=3), TypeError, "callback is 3"),
        (dict(comm="world"), TypeError, "comm is 'world'"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tacit.solve(A, B, **options)


@pytest.mark.parametrize(
    ("a", "b", "error", "text"),
    [
        (A, np.ones(5), ValueError, "b has 5 elements; 6 are needed"),
        (A, np.ones((2, 3)), ValueError, "b has 2 elements; 6 are needed"),
        (A, np.ones((6, 0)), ValueError, "no columns"),
        (A, np.ones((6, 1, 1)), ValueError, "b has shape"),
        (A, None, TypeError, "b is None"),
        (A, "ones", TypeError, "b is 'ones'"),
        (A, 1.0, ValueError, r"b has shape \(\)"),
        (A, np.array([object()] * 6), TypeError, "b has elements of type object"),
        (A, [[1.0], [1.0, 2.0]], TypeError, "b is a list"),
        (A, np.array(["1"] * 6), TypeError, "numbers are needed"),
        (None, B, TypeError, "A is a NoneType"),
        (5, B, TypeError, "A is a int"),
        ({}, B, TypeError, "A is a dict"),
        (np.ones(6), B, ValueError, r"A has shape \(6,\)"),
        (np.ones((6, 5)), B, ValueError, "square"),
        (np.ones((2, 2, 2)), B, ValueError, "two dimensions"),
        (A.toarray().astype(str), B, TypeError, "A has elements of type"),
        (lambda x: x, B, TypeError, "shape and matvec"),
        (sp.coo_array(np.ones(6)), B, ValueError, "two dimensions"),
    ],
    ids=range(19),
)
def test_wrong_systems(a: Any, b: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tacit.solve(a, b)


class Mat:
    """The parts of petsc4py's Mat that Tacit uses: sizes, and this rank's rows."""

    def __init__(self, a: sp.csr_array, rows: slice = slice(None), assembled: bool = True) -> None:
        self.a, self.rows, self.assembled = sp.csr_array(a), rows, assembled

    def getSizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        own = self.a[self.rows].shape[0]
        return (own, self.a.shape[0]), (own, self.a.shape[1])

    def getValuesCSR(self) -> tuple[Any, Any, Any]:
        if not self.assembled:
            raise RuntimeError("error code 73")
        own = sp.csr_array(self.a[self.rows])
        return own.indptr.astype(np.int32), own.indices.astype(np.int32), own.data

    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("error code 56")


def test_matrices_of_petsc() -> None:
    r = tacit.solve(Mat(A), B, precond=Mat(sp.eye_array(6)))
    assert r.converged
    assert r.nonzeros == A.nnz
    assert np.allclose(A @ r.x, B)
    assert (tacit.csr(Mat(A)).to_scipy() != A).nnz == 0
    assert tacit.solve(Mat(A * (1 + 0j)), B).x.dtype == np.complex128
    with pytest.raises(TypeError, match=r"convert\('aij'\)"):
        tacit.solve(Mat(A, assembled=False), B)


def test_matrices_of_petsc_keep_their_rows() -> None:
    def rank(comm: Any) -> None:
        cut = [0, 1, 6]  # not the equal blocks of Tacit
        mine = slice(cut[comm.rank], cut[comm.rank + 1])
        matrix = tacit.csr(Mat(A, mine), comm=comm)
        assert matrix.own_range == (mine.start, mine.stop)
        r = tacit.solve(Mat(A, mine), B[mine], comm=comm, method="cg", precond=Mat(sp.eye_array(6) * 0.5, mine))
        assert r.converged, r.summary()
        assert len(r.x) == mine.stop - mine.start
        assert np.allclose(tacit.layout.gather(r.x, comm), np.linalg.solve(A.toarray(), B))
        assert tacit.solve(Mat(A), B, comm=comm).converged  # all of it on each rank
        with pytest.raises(ValueError, match="not spread alike"):
            tacit.solve(A, B, comm=comm, precond=Mat(sp.eye_array(6), mine))

    tacit.comm.run_threads(2, rank)


def test_wrong_first_guess() -> None:
    with pytest.raises(ValueError, match="x0 has 7 elements"):
        tacit.solve(A, B, np.ones(7))


def test_damaged_csr() -> None:
    a = A.copy()
    a.indices = a.indices + 1
    with pytest.raises(ValueError, match="row 4 has column 6; columns run from 0 to 5"):
        tacit.solve(a, B)
    a = A.copy()
    a.indptr = a.indptr[::-1].copy()
    with pytest.raises(ValueError, match="row pointers"):
        tacit.solve(a, B)


def test_preconditioners_that_do_not_work() -> None:
    with pytest.raises(ValueError, match="row 1"):
        tacit.solve(np.array([[1.0, 2.0], [3.0, 1e-310]]), np.ones(2), precond="jacobi")
    with pytest.raises(ValueError, match=r"Hermitian|positive"):
        tacit.solve(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2), precond="ic0")


def test_no_gpu_is_told() -> None:
    if tacit._core.cuda_built and tacit._core.device_available():
        pytest.skip("there is one")
    with pytest.raises(tacit.EnvironmentFailure, match="device='cuda'"):
        tacit.solve(A, B, device="cuda")


def test_kinds_of_errors() -> None:
    assert issubclass(tacit.UsageError, ValueError)
    assert issubclass(tacit.UsageError, tacit.Error)
    assert issubclass(tacit.InputError, ValueError)
    assert issubclass(tacit.EnvironmentFailure, RuntimeError)
    assert issubclass(tacit.OutOfMemory, tacit.EnvironmentFailure)
    assert issubclass(tacit.OutOfMemory, MemoryError)
    assert issubclass(tacit.NotConverged, tacit.Error)
    for kind in (tacit.Error, tacit.UsageError, tacit.InputError, tacit.EnvironmentFailure, tacit.OutOfMemory):
        assert kind.__module__ == "tacit"
        assert kind.__doc__
        assert isinstance(pickle.loads(pickle.dumps(kind("text"))), kind)


def test_results_can_be_pickled() -> None:
    r = tacit.solve(A, B)
    again = pickle.loads(pickle.dumps(r))
    assert np.array_equal(again.x, r.x)
    assert again.info == 0
    assert repr(again) == repr(r)


def test_wrong_numbers_of_operators_and_communicators() -> None:
    one, two = tacit.csr(A), tacit.csr(A)
    assert tacit.solve(one, B, precond=two).iterations >= 1

    def rank(comm: tacit.comm.Communicator) -> None:
        with pytest.raises(ValueError, match="another communicator"):
            tacit.solve(one, B, comm=comm)

    tacit.comm.run_threads(2, rank)


@pytest.mark.parametrize(
    ("begin", "name"),
    [
        (lambda: tacit.bem.sphere(2), "bem_geodesic_sphere"),
        (lambda: tacit.multigrid.cells((4, 4), ["periodic", "periodic"]), "boxes"),
        (lambda: tacit.inference.radixnet(neurons=64, layers=2, radices=(2, 2, 2)), "InferenceOptions"),
        (lambda: tacit.tomography.projector([0.0, 1.0], detectors=8), "TiledOptions"),
        (lambda: tacit.simulate.machine("modern"), "machine_model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_build_without_applications_names_the_cure(begin: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./run` alone builds none; Python says how to get them, whichever function is called first."""
    from tacit import _core

    monkeypatch.setattr(_core, "applications_built", False)
    monkeypatch.delattr(_core, name, raising=False)
    with pytest.raises(tacit.EnvironmentFailure, match=r"without its applications.*`\./run build`"):
        begin()
