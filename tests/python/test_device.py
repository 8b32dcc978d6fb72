"""Matrices, preconditioners and vectors that stay in the memory of a GPU.

Skipped where no CUDA is built in. Without a GPU they run in a build with the preset cuda-host, whose runtime runs the
kernels on the processor and counts what it is asked for.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import as_scalar, laplacian, true_residual, unsymmetric

os.environ.setdefault("CUDA_ON_HOST_DEVICES", "2")  # read by that runtime at its first call

import tacit

SCALARS = list(tacit._core.device_scalars)
pytestmark = pytest.mark.skipif(tacit.device.count() == 0, reason="no GPU, or a build without CUDA")

COUNTS = [
    "launches", "to_device", "to_host", "on_device", "between_devices", "fills", "bytes_to_device", "bytes_to_host",
    "bytes_on_device", "bytes_between_devices", "bytes_filled", "waits", "event_waits", "allocations",
    "host_allocations", "live_bytes", "overlapped_waits", "graph_launches",
]  # fmt: skip


class _Counts(ctypes.Structure):
    """cuda_on_host::Counts, in its order."""

    _fields_ = [(name, ctypes.c_int64) for name in COUNTS]


def counts() -> Any:
    """What the stand-in for the CUDA runtime has been asked for; skips the test on a real one."""
    try:
        ask = ctypes.CDLL(tacit._core.__file__)["_ZN12cuda_on_host6countsEv"]
    except AttributeError:
        pytest.skip("the CUDA runtime of a GPU has no counters")
    ask.restype = _Counts
    return ask()


def has_context(gpu: int) -> bool:
    """Whether this process has a context on the GPU, which costs memory there."""
    try:
        state_of = ctypes.CDLL("libcuda.so.1")["cuDevicePrimaryCtxGetState"]
    except (OSError, AttributeError):
        entry = "_Z32cudaGetDriverEntryPointByVersionPKcPPvjyP31cudaDriverEntryPointQueryResult"
        function, found = ctypes.c_void_p(), ctypes.c_int()
        ask = ctypes.CDLL(tacit._core.__file__)[entry]
        ask(b"cuDevicePrimaryCtxGetState", ctypes.byref(function), 7000, ctypes.c_ulonglong(0), ctypes.byref(found))
        state_of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(function.value)
    flags, active = ctypes.c_uint(), ctypes.c_int(-1)
    assert state_of(gpu, ctypes.byref(flags), ctypes.byref(active)) == 0
    return active.value == 1


class ByInterface:
    """An array of another library, known by __cuda_array_interface__ only, over the memory of a DeviceArray."""

    def __init__(self, of: tacit.DeviceArray, **said: Any) -> None:
        self.of = of
        self.__cuda_array_interface__ = {**of.__cuda_array_interface__, **said}


class ByDlpack:
    """The same, known by DLPack only."""

    def __init__(self, of: tacit.DeviceArray, fails: str = "") -> None:
        self.of, self.fails = of, fails

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.of.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        assert stream == 1  # the legacy default stream, on which Tacit works
        if self.fails:
            raise BufferError(self.fails)
        return self.of.__dlpack__(stream=stream)


WRAPPERS: list[Callable[[tacit.DeviceArray], Any]] = [lambda x: x, ByInterface, ByDlpack]
NAMES = ["own", "cuda_array_interface", "dlpack"]


def right_hand_side(n: int, scalar: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    b = rng.standard_normal(n)
    return (b + 1j * rng.standard_normal(n) if scalar.startswith("complex") else b).astype(scalar)


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("columns", [0, 1, 3])
def test_products(scalar: str, columns: int) -> None:
    a = as_scalar(unsymmetric(70), scalar)[:, :]
    A = tacit.csr(a, device="cuda:0", scalar=scalar)
    assert isinstance(A, tacit.DeviceCsr)
    assert A.device == "cuda:0"
    assert (A.nnz, A.shape, A.dtype) == (a.nnz, a.shape, np.dtype(scalar))
    x = right_hand_side(70 * max(columns, 1), scalar)
    x = x.reshape(70, columns) if columns else x
    there = tacit.device_array(x, A.device)
    tolerance = 40 * np.finfo(scalar).eps
    for operator, dense in ((A, a), (A.T, a.T), (A.H, a.conj().T), (A.shifted(2.0), a + 2 * sp.eye_array(70))):
        assert operator.device == A.device
        expected = dense @ x
        for y in (operator @ x, (operator @ there).to_numpy()):
            assert y.dtype == scalar
            assert y.shape == x.shape
            assert np.allclose(y, expected, rtol=tolerance, atol=tolerance * abs(expected).max())
    assert np.array_equal(A.diagonal(), a.diagonal())
    host = A.to("host")
    assert isinstance(host, tacit.Csr)
    assert (host.to_scipy() != a).nnz == 0


@pytest.mark.parametrize("scalar", ["float64", "complex64"])
def test_compositions(scalar: str) -> None:
    a = as_scalar(unsymmetric(60), scalar)
    wide = a[:25]
    A, W = (tacit.csr(m, device="cuda") for m in (a, wide))
    x = right_hand_side(60, scalar)
    there = tacit.device_array(x, A.device)
    adjoint, transpose = a.conj().T, a.T
    for composed, dense in (
        (A.H @ A, adjoint @ a),
        (A + A.T, a + transpose),
        (A - A.H, a - adjoint),
        (W.T @ W, wide.T @ wide),
        (W @ A, wide @ a),
    ):
        assert composed.device == A.device
        assert composed.shape == dense.shape
        scale = abs(dense @ x).max()
        assert np.allclose((composed @ there).to_numpy(), dense @ x, atol=1e3 * np.finfo(scalar).eps * scale)
    assert np.allclose(x @ A, x @ a, atol=1e3 * np.finfo(scalar).eps * abs(x @ a).max())
    assert np.allclose((there @ A).to_numpy(), x @ A)
    result = tacit.solve(A.T, x, method="gmres", rtol=1e-4)
    assert result.converged
    assert true_residual(transpose, result.x, x) <= 1.5e-4
    with pytest.raises(TypeError, match="neither pickled"):
        pickle.dumps(A)


@pytest.mark.parametrize("wrap", WRAPPERS, ids=NAMES)
def test_vectors_stay_where_they_are(wrap: Callable[[Any], Any]) -> None:
    a = laplacian(20, 20)
    A = tacit.csr(a, device="cuda")
    x = np.arange(400.0)
    there = wrap(tacit.device_array(x, A.device))
    A @ there  # makes what products keep
    before = counts()
    y = A @ there
    after = counts()
    assert isinstance(y, tacit.DeviceArray)
    assert after.to_device == before.to_device
    assert after.to_host == before.to_host
    # An array of another library is copied once within the memory of the device, Tacit's own is used in place.
    assert after.bytes_on_device - before.bytes_on_device <= (0 if wrap is WRAPPERS[0] else x.nbytes)
    assert np.allclose(y.to_numpy(), a @ x)


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", ["auto", "cg", "gmres", "bicgstab"])
def test_solves_agree_with_the_host(scalar: str, method: str) -> None:
    a = as_scalar(laplacian(12, 13) + sp.eye_array(156), scalar)  # definite, with imaginary parts too
    b = right_hand_side(a.shape[0], scalar)
    rtol = 1e-4 if np.finfo(scalar).bits == 32 else 1e-10
    A = tacit.csr(a, device="cuda")
    there = tacit.solve(A, b, method=method, precond="jacobi", rtol=rtol)
    host = tacit.solve(a, b, method=method, precond="jacobi", rtol=rtol)
    assert there.converged
    assert there.device == A.device
    assert isinstance(there.x, np.ndarray)
    assert there.method == host.method
    assert true_residual(a, there.x, b) <= 1.5 * rtol
    assert abs(there.iterations - host.iterations) <= 2
    shortcut = tacit.solve(a, b, method=method, precond="jacobi", rtol=rtol, device="cuda")
    assert np.array_equal(shortcut.x, there.x)


@pytest.mark.parametrize("wrap", WRAPPERS, ids=NAMES)
def test_nothing_is_uploaded_again(wrap: Callable[[Any], Any]) -> None:
    a = laplacian(24, 24)
    A = tacit.csr(a, device="cuda")
    M = tacit.precond.make(A, "jacobi")
    b = np.ones(576)
    there, guess = (wrap(tacit.device_array(v, A.device)) for v in (b, 0.5 * b))
    first = tacit.solve(A, there, guess, method="cg", precond=M)
    before = counts()
    again = tacit.solve(A, there, guess, method="cg", precond=M)
    after = counts()
    assert isinstance(again.x, tacit.DeviceArray)
    assert again.converged
    assert again.precond == "jacobi"
    assert np.array_equal(again.x.to_numpy(), first.x.to_numpy())
    assert true_residual(a, again.x.to_numpy(), b) <= 1e-8
    assert after.to_device == before.to_device
    assert after.to_host == before.to_host


def test_a_numpy_right_hand_side_is_all_that_moves() -> None:
    A = tacit.csr(laplacian(24, 24), device="cuda")
    M = tacit.precond.make(A, "polynomial", degree=2)
    b = np.ones(576)
    tacit.solve(A, b, method="cg", precond=M)
    before = counts()
    tacit.solve(A, b, method="cg", precond=M)
    after = counts()
    assert after.bytes_to_device - before.bytes_to_device == b.nbytes
    assert after.bytes_to_host - before.bytes_to_host == b.nbytes  # x


@pytest.mark.parametrize(
    "precond",
    [
        "jacobi",
        "spai",
        "fsai",
        "polynomial",
        "amg",
        "ilu0",
        "ic0",
        "ilut",
        {"name": "block-jacobi", "solver": "spai"},
        {"name": "block-jacobi", "solver": "ick"},
        {"name": "schwarz", "solver": "jacobi"},
        {"name": "schwarz", "solver": "ilu0"},
    ],
)
def test_preconditioners_are_made_once_or_by_name(precond: Any) -> None:
    a = laplacian(30, 30) if precond == "amg" else laplacian(15, 14)
    A = tacit.csr(a, device="cuda")
    b = np.ones(a.shape[0])
    name, options = (precond, {}) if isinstance(precond, str) else (precond["name"], {"solver": precond["solver"]})
    M = tacit.precond.make(A, name, **options)
    assert M.device == A.device
    assert M.shape == A.shape
    plain = tacit.solve(A, b, method="gmres", precond="none")
    results = [tacit.solve(A, b, method="gmres", precond=given) for given in (M, M, precond)]
    host = tacit.solve(a, b, method="gmres", precond=precond)
    for result in results:
        assert result.converged
        assert true_residual(a, result.x, b) <= 1e-8
        assert abs(result.iterations - host.iterations) <= 1
        assert result.iterations <= plain.iterations
    assert np.array_equal(results[0].x, results[1].x)


def test_amg_reports_its_levels() -> None:
    a = laplacian(60, 60)
    A = tacit.csr(a, device="cuda")
    M = tacit.precond.amg(A, near_null=np.ones(3600), smoother="jacobi")
    host = tacit.precond.amg(tacit.csr(a), near_null=np.ones(3600), smoother="jacobi")
    result = tacit.solve(A, np.ones(3600), method="cg", precond=M)
    assert result.converged
    assert result.iterations < 25
    assert [level["rows"] for level in M.report["levels"]] == [level["rows"] for level in host.report["levels"]]
    assert result.levels["cycles"] == M.report["cycles"] >= result.iterations
    assert "unknowns" in str(M)
    with pytest.raises(ValueError, match="make it anew"):
        M.update()


def test_new_values() -> None:
    a = laplacian(10, 10)
    A = tacit.csr(a, device="cuda")
    with pytest.raises(ValueError, match="values has"):
        A.update_values(np.ones(3))
    A.update_values((3 * a).data)
    x = np.arange(100.0)
    assert np.allclose(A @ x, 3 * (a @ x))
    assert A.is_hermitian()
    changed = a.copy()
    changed[0, 1] = 5.0
    A.update_values(changed)
    assert not A.is_hermitian()
    assert tacit.solve(A, x, precond="jacobi").method == "gmres"


def test_incomplete_factors_stay_and_keep_their_numbers() -> None:
    a = laplacian(20, 20)
    A = tacit.csr(a, device="cuda")
    M = tacit.precond.make(A, "ic0")
    b = tacit.device_array(np.ones(400), A.device)
    first = tacit.solve(A, b, method="cg", precond=M)
    before = counts()
    x = M @ b
    after = counts()
    assert after.to_device == before.to_device
    assert after.to_host == before.to_host
    expected = tacit.precond.make(tacit.csr(a), "ic0") @ np.ones(400)
    assert np.allclose(x.to_numpy(), expected, rtol=1e-13)
    A.update_values((100 * a).data)
    assert np.array_equal((M @ b).to_numpy(), x.to_numpy())  # of the old numbers, as in host memory
    assert np.allclose((tacit.precond.make(A, "ic0") @ b).to_numpy(), expected / 100, rtol=1e-13)
    by_name = tacit.solve(A, b, method="cg", precond="ic0")
    assert by_name.converged
    assert by_name.iterations == first.iterations
    assert true_residual(100 * a, by_name.x.to_numpy(), np.ones(400)) <= 1e-8


def test_compositions_use_new_values() -> None:
    a, other = unsymmetric(40), laplacian(40)
    A, B = tacit.csr(a, device="cuda"), tacit.csr(other, device="cuda")
    composed = [A.H, A.T, A.H @ A, A + B, A.shifted(2.0)]
    M = tacit.precond.make(A, "polynomial", degree=2)  # multiplies by A
    x = right_hand_side(40, "float64")
    A.update_values(0.5 * a.data)
    half = 0.5 * a
    for operator, now in zip(
        composed, [half.T, half.T, half.T @ half, half + other, half + 2 * sp.eye_array(40)], strict=True
    ):
        assert np.allclose(operator @ x, now @ x)
    assert tacit.solve(A, x, method="gmres", precond=M).converged


def test_flags_of_compositions_follow_the_values() -> None:
    a = laplacian(6, 6)
    A = tacit.csr(a, device="cuda")
    B = A.shifted(1.0)
    x = np.arange(36.0)
    assert B.is_hermitian()
    changed = a.copy()
    changed[0, 1] = 5.0
    A.update_values(changed)
    assert not B.is_hermitian()
    assert np.allclose(B @ x, changed @ x + x)  # neither the old flags with new values nor the other way round
    A.update_values(a)
    assert B.is_hermitian()
    assert np.allclose(B @ x, a @ x + x)


def test_a_wider_right_hand_side_widens_the_solve() -> None:
    """As in host memory: the scalar of a solve is the smallest that holds A and b."""
    if "float32" not in SCALARS:
        pytest.skip("a build without float32 in device memory")
    a = laplacian(9, 9) + sp.eye_array(81)
    b = right_hand_side(81, "float64")
    narrow = tacit.csr(a, scalar="float32")
    for A in (narrow, narrow.to("cuda")):
        result = tacit.solve(A, b, method="cg", precond="jacobi", rtol=1e-12)
        assert result.converged
        assert result.scalar == "float64"
        assert true_residual(a, result.x, b) <= 1e-11
        with pytest.raises(TypeError, match="precond is a jacobi operator of float32; float64 is needed"):
            tacit.solve(A, b, method="cg", precond=tacit.precond.make(A, "jacobi"))
    there = narrow.to("cuda")
    assert there.astype("float32") is there
    assert there.astype("complex64").device == there.device
    result = tacit.solve(there, tacit.device_array(b, there.device), method="cg", rtol=1e-12)
    assert result.x.dtype == "float64"
    assert true_residual(a, result.x.to_numpy(), b) <= 1e-11


def test_writing_names_the_way(tmp_path: Any) -> None:
    A = tacit.csr(laplacian(3), device="cuda")
    with pytest.raises(TypeError, match=r"A\.to\('host'\)"):
        tacit.write(tmp_path / "a.mtx", A)
    tacit.write(tmp_path / "a.mtx", A.to("host"))
    assert tacit.read(tmp_path / "a.mtx").shape == (3, 3)


def test_other_gpus_are_left_alone(python: Callable[..., Any]) -> None:
    """A context takes memory of its GPU, for each process: a rank on GPU 1 makes none on GPU 0."""
    if tacit.device.count() < 2:
        pytest.skip("one GPU")
    done = python(
        f"""
        import gc, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import numpy as np, scipy.sparse as sp, tacit
        from test_device import has_context
        A = tacit.csr(sp.eye_array(50) * 2, device="cuda:1")
        M = tacit.precond.make(A, "jacobi")
        x = tacit.solve(A, tacit.device_array(np.ones(50), A.device), precond=M).x
        y = (A @ np.ones(50), x.to_numpy(), A.to("host"), x.__cuda_array_interface__)
        del A, M, x
        gc.collect()
        tacit.device.release_memory()
        print(has_context(0), has_context(1))
        tacit.device_array(np.ones(3), "cuda:0")
        print(has_context(0))
        """
    )
    assert done.stdout.split() == ["False", "True", "True"]


def test_solves_allocate_nothing_again() -> None:
    A = tacit.csr(laplacian(20, 20), device="cuda")
    M = tacit.precond.make(A, "jacobi")
    b = tacit.device_array(np.ones(400), A.device)
    tacit.solve(A, b, method="gmres", precond=M)
    before = counts()
    result = tacit.solve(A, b, method="gmres", precond=M)
    after = counts()
    assert result.iterations > 20
    assert after.allocations - before.allocations <= 1  # x, while the one of before is still in use
    assert after.host_allocations == before.host_allocations


def test_several_columns_and_callbacks() -> None:
    a = laplacian(8, 8)
    A = tacit.csr(a, device="cuda")
    B = np.eye(64)[:, :3]
    seen = []
    result = tacit.solve(A, B, method="cg", callback=lambda state: seen.append((state.column, state.x.shape)))
    assert result.converged
    assert "one column at a time" in result.alone
    assert np.allclose(a @ result.x, B, atol=1e-7)
    assert {column for column, _ in seen} == {0, 1, 2}
    assert {shape for _, shape in seen} == {(64,)}
    x = tacit.solve(A, tacit.device_array(B[:, :1], A.device), method="cg").x
    assert x.shape == (64, 1)
    assert np.allclose(x.to_numpy()[:, 0], result.x[:, 0])


def test_arrays_speak_both_protocols() -> None:
    values = np.arange(6.0).reshape(3, 2)
    x = tacit.device_array(values)
    said = x.__cuda_array_interface__
    assert (said["shape"], said["typestr"], said["version"]) == ((3, 2), "<f8", 3)
    assert x.__dlpack_device__() == (2, 0)
    for other in (ByInterface(x), ByDlpack(x)):
        y = tacit.csr(np.eye(3), device="cuda") @ other
        assert np.array_equal(y.to_numpy(), values)
    kept = x.__dlpack__()  # keeps the memory, whatever becomes of x
    tacit.device.release_memory()
    before = counts().live_bytes
    x.close()
    tacit.device.release_memory()
    assert counts().live_bytes == before
    del kept
    gc.collect()
    tacit.device.release_memory()
    assert counts().live_bytes < before
    with pytest.raises(TypeError, match="to_numpy"):
        np.asarray(tacit.device_array(values))
    assert len(tacit.device_array(np.empty(0)).to_numpy()) == 0


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_arrays_are_not_copied_unawares(how: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        how(tacit.device_array(np.ones(3)))


def test_own_arrays_are_freed_without_a_wait() -> None:
    """Only those whose address another library has asked for may be in use when they are freed."""
    A = tacit.csr(laplacian(6, 6), device="cuda")
    x = A @ (A @ tacit.device_array(np.ones(36), A.device))
    before = counts().waits
    for _ in range(5):
        x = A @ x
    assert counts().waits == before
    ByInterface(x)
    del x
    assert counts().waits == before + 1


def test_an_array_may_be_closed_by_another_thread(python: Callable[..., Any]) -> None:
    done = python(
        """
        import threading, time
        import numpy as np, tacit
        for _ in range(5):
            x = tacit.device_array(np.ones(4_000_000))
            found = []
            other = threading.Thread(target=lambda: found.append(x.to_numpy()))
            other.start()
            time.sleep(0.002)
            x.close()
            y = tacit.device_array(np.zeros(4_000_000))
            other.join()
            assert found[0].min() == found[0].max() == 1
        """,
        TACIT_KEEP_DEVICE_MEMORY="0",
    )
    assert done.returncode == 0


def test_memory_is_given_back() -> None:
    gc.collect()
    tacit.device.release_memory()
    before = counts().live_bytes
    A = tacit.csr(laplacian(20, 20), device="cuda")
    M = tacit.precond.make(A, "polynomial")
    x = tacit.solve(A, tacit.device_array(np.ones(400), A.device), precond=M).x
    assert counts().live_bytes > before
    del A, M, x
    gc.collect()
    tacit.device.release_memory()
    assert counts().live_bytes <= before + (1 << 20)  # what reductions keep


def misuse() -> dict[str, tuple[Callable[[Any], Any], type[Exception], str]]:
    ones = np.ones(9)

    def array(values: Any = ones, device: str = "cuda:0") -> tacit.DeviceArray:
        return tacit.device_array(values, device)

    def closed() -> tacit.DeviceArray:
        x = array()
        x.close()
        return x

    host = np.ones(9)
    return {
        "dtype": (lambda A: A @ array(np.ones(9, np.complex64)), TypeError, "elements of complex64"),
        "integers": (lambda A: A @ ByInterface(array(), typestr="<i8"), TypeError, "elements of int64"),
        "length": (lambda A: A @ array(np.ones(8)), ValueError, "x has 8 elements in device memory; 9"),
        "dimensions": (lambda A: A @ ByInterface(array(), shape=(1, 1, 9)), ValueError, r"shape \(1, 1, 9\)"),
        "strides": (lambda A: A @ ByInterface(array(np.ones(18)), shape=(9,), strides=(16,)), ValueError, "contiguous"),
        "stream 0": (lambda A: A @ ByInterface(array(), stream=0), ValueError, "stream 0"),
        "no data": (lambda A: A @ ByInterface(array(), data=None), TypeError, "shape, typestr or data"),
        "host pointer": (
            lambda A: A @ ByInterface(array(), data=(host.ctypes.data, False)), ValueError, "in that of the host"
        ),
        "freed pointer": (lambda A: A @ ByInterface(array(), data=(8, False)), ValueError, "in that of the host"),
        "DLPack fails": (lambda A: A @ ByDlpack(array(), "it requires a gradient"), TypeError, "requires a gradient"),
        "closed": (lambda A: A @ closed(), ValueError, "closed"),
        "closed b": (lambda A: tacit.solve(A, closed()), ValueError, "closed"),
        "other GPU": (lambda A: A @ array(device="cuda:1"), ValueError, r"cuda:1, and the matrix in that of cuda:0"),
        "other GPU by pointer": (
            lambda A: A @ ByInterface(array(device="cuda:1")), ValueError, "memory of cuda:1 where one of cuda:0"
        ),
        "matrix on the host": (lambda _: tacit.csr(np.eye(9)) @ array(), ValueError, "in that of the host"),
        "solve on the host": (lambda _: tacit.solve(np.eye(9), array()), ValueError, r"to\('cuda'\)"),
        "mixed": (lambda A: tacit.solve(A, array(), ones), ValueError, "b is in the memory of a GPU and x0"),
        "columns": (lambda A: tacit.solve(A, array(np.ones((9, 2)))), ValueError, "one column"),
        "device": (lambda A: A.to("cuda:7"), ValueError, "this process sees"),
        "no device": (lambda A: A.to("tpu"), ValueError, "unknown device"),
        "solve elsewhere": (lambda A: tacit.solve(A, ones, device="cuda:1"), ValueError, "moves it"),
        "a composition by name": (
            lambda A: tacit.solve(A.shifted(1.0), ones, precond="ilu0"), ValueError, "jacobi, block-jacobi, ilu0"
        ),
        "by trial": (lambda A: tacit.solve(A, ones, precond="auto"), ValueError, "host memory"),
        "inner": (lambda A: tacit.precond.inner(A), ValueError, "host memory"),
        "precond of the host": (
            lambda A: tacit.solve(A, ones, precond=tacit.precond.make(tacit.csr(np.eye(9)), "jacobi")),
            ValueError, "precond is in the memory of host",
        ),
        "precond elsewhere": (
            lambda A: tacit.solve(A, ones, precond=tacit.precond.make(A.to("cuda:1"), "jacobi")), ValueError, "cuda:1"
        ),
        "function": (lambda A: tacit.solve(A, ones, precond=np.eye(9)), ValueError, "a name"),
        "ordering": (lambda A: tacit.solve(A, ones, ordering="rcm"), ValueError, "renumber"),
        "null space": (lambda A: tacit.solve(A, ones, nullspace="constant"), ValueError, "nullspace"),
        "multiple": (lambda A: 2 * A, ValueError, "host memory"),
        "sum": (lambda A: A + tacit.csr(np.eye(9)), ValueError, "memory of cuda:0 and of host"),
        "products only": (
            lambda _: tacit.function((9, 9), lambda x: x).to("cuda"), ValueError, "knows products only"
        ),
        "a composition": (lambda A: A.H.to("host"), ValueError, "compose again"),
    }  # fmt: skip


@pytest.mark.parametrize("what", list(misuse()))
def test_wrong_use(what: str) -> None:
    call, kind, told = misuse()[what]
    if ("other GPU" in what or "elsewhere" in what) and tacit.device.count() < 2:
        pytest.skip("one GPU")
    A = tacit.csr(laplacian(3, 3), device="cuda:0")
    with pytest.raises(kind, match=told):
        call(A)
    assert np.allclose(A @ np.ones(9), laplacian(3, 3) @ np.ones(9))  # still works


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_take_the_gpus_in_turn(ranks: int) -> None:
    a = laplacian(11, 13)
    b = np.arange(143.0)

    def rank(comm: Any) -> Any:
        A = tacit.csr(a, device="cuda", comm=comm)
        whole = A @ b
        begin, end = A.own_range
        there = tacit.device_array(b[begin:end], A.device)
        y = (A @ there).to_numpy()
        adjoint = (A.H @ there).to_numpy()
        x = tacit.solve(A, there, method="cg", precond="jacobi").x.to_numpy()
        # PyTorch's and the like on another GPU than the one of this rank, or of another kind than other ranks'.
        with pytest.raises(ValueError, match="own part"):
            tacit.solve(A, tacit.device_array(b, A.device))
        with pytest.raises(ValueError, match="all ranks must give the same"):
            A @ (there if comm.rank else b[begin:end])
        return A.device, whole, y, adjoint, x

    told = tacit.comm.run_threads(ranks, rank)
    assert [t[0] for t in told] == [f"cuda:{r % tacit.device.count()}" for r in range(ranks)]
    for part in (2, 3):
        assert np.allclose(np.concatenate([t[part] for t in told]), a @ b)
    assert np.allclose(told[0][1], a @ b)
    assert true_residual(a, np.concatenate([t[4] for t in told]), b) <= 1e-8


def test_ranks_of_mpiexec(python: Callable[..., Any]) -> None:
    done = python(
        """
        import numpy as np, tacit
        A = tacit.poisson((12, 12), assembled=True).to("cuda")
        begin, end = A.own_range
        b = tacit.device_array(np.ones(end - begin), A.device)
        result = tacit.solve(A, b, precond="amg")
        assert result.converged and result.x.device == A.device
        host = tacit.solve(tacit.poisson((12, 12)), np.ones(144), precond="amg")
        assert np.allclose(result.x.to_numpy(), host.x[begin:end], atol=1e-6)
        print(A.comm.rank, A.device, flush=True)
        """,
        ranks=2,
    )
    assert sorted(done.stdout.split("\n"))[-2:] == [f"{r} cuda:{r % tacit.device.count()}" for r in range(2)]
