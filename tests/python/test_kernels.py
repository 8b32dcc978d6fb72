"""H-matrices of named kernels, of compiled functions and of functions of pairs, in any number of dimensions."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.special as special
from conftest import SCALARS, Run

import tacit

NAMES = ("laplace", "helmholtz", "yukawa", "gaussian", "matern12", "matern32", "matern52", "matern")
NAMES += ("inverse_multiquadric", "thin_plate")


def formula(name: str, r: np.ndarray, kappa: float = 1.0, nu: float = 1.5) -> np.ndarray:
    a = np.where(r > 0, r, 1.0)
    if name == "matern":
        t = np.sqrt(2 * nu) * a
        return np.where(r > 0, 2 ** (1 - nu) / special.gamma(nu) * t**nu * special.kv(nu, t), 1.0)
    smooth = {
        "gaussian": lambda: np.exp(-r * r / 2),
        "matern12": lambda: np.exp(-r),
        "matern32": lambda: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
        "matern52": lambda: (1 + 5**0.5 * r + 5 * r * r / 3) * np.exp(-(5**0.5) * r),
        "inverse_multiquadric": lambda: 1 / np.sqrt(1 + r * r),
    }
    if name in smooth:
        return smooth[name]()
    singular = {
        "laplace": lambda: 1 / (4 * np.pi * a),
        "helmholtz": lambda: np.exp(1j * kappa * a) / (4 * np.pi * a),
        "yukawa": lambda: np.exp(-kappa * a) / (4 * np.pi * a),
        "thin_plate": lambda: a * a * np.log(a),
    }
    return np.where(r > 0, singular[name](), 0.0)


def distances(p: np.ndarray, q: np.ndarray | None = None, length: Any = 1.0) -> np.ndarray:
    x, y = p / length, (p if q is None else q) / length
    return np.linalg.norm(x[:, None] - y[None], axis=2)


def error(A: Any, a: np.ndarray) -> float:
    whole = A @ np.eye(a.shape[1], dtype=A.dtype)
    return float(np.linalg.norm(whole - a) / np.linalg.norm(a))


@pytest.mark.parametrize("d", [1, 2, 3, 6, 50])
@pytest.mark.parametrize("name", NAMES)
def test_entries_are_those_of_the_formula(name: str, d: int) -> None:
    rng = np.random.default_rng(d)
    p, length = rng.random((120, d)), rng.uniform(0.5, 2, d)
    p[7] = p[3]
    given: dict[str, float] = {"kappa": 7.0} if name in ("helmholtz", "yukawa") else {}
    for nu in (0.05, 0.3, 0.8, 1.5, 4.2, 30.0) if name == "matern" else (None,):
        more = given if nu is None else {"nu": nu}
        A = tacit.hmatrix(
            p, name, length=length, variance=2.0, nugget=0.5, admissibility="none", storage="full", **more
        )
        a = 2 * formula(name, distances(p, length=length), **more) + 0.5 * np.eye(120)
        assert np.abs(A @ np.eye(120) - a).max() < 3e-14 * np.abs(a).max()
        assert A.dtype == a.dtype


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("name", ["matern52", "laplace", "helmholtz"])
def test_products(name: str, scalar: str) -> None:
    p = np.random.default_rng(0).random((700, 3))
    if name == "helmholtz" and not scalar.startswith("complex"):
        with pytest.raises(ValueError, match="the kernel helmholtz is complex"):
            tacit.hmatrix(p, name, dtype=scalar)
        return
    a = formula(name, distances(p, length=0.5)) + 0.1 * np.eye(700)
    for more in ({}, {"symmetry": "symmetric"}, {"compression": "aca"}):
        A = tacit.hmatrix(p, name, length=0.5, nugget=0.1, dtype=scalar, tolerance=1e-4, leaf_size=32, **more)
        assert A.dtype == np.dtype(scalar)
        assert error(A, a) < 1e-4
        assert A.report["low_rank_blocks"] > 0
        x = np.random.default_rng(1).standard_normal(700).astype(scalar)
        assert np.linalg.norm(A.H @ x - a.conj().T @ x) < 1e-3 * np.linalg.norm(a.conj().T @ x)


def test_sources_are_other_points() -> None:
    rng = np.random.default_rng(3)
    p, q = rng.random((400, 2)), rng.random((300, 2)) + [1.2, 0]
    A = tacit.hmatrix(p, "gaussian", length=[0.5, 2], sources=q, tolerance=1e-6, leaf_size=16)
    assert error(A, formula("gaussian", distances(p, q, [0.5, 2]))) < 1e-6


@pytest.mark.parametrize("d", [1, 2, 6, 50])
def test_any_dimension(d: int) -> None:
    """Points near a curve in d dimensions have far clusters; others have them by the admissibility weak."""
    rng = np.random.default_rng(d)
    t = np.sort(rng.random(600))
    curve = np.stack([np.cos(3 * t + k) for k in range(d)], axis=1)
    A = tacit.hmatrix(curve, "matern52", length=3.0, nugget=1e-2, tolerance=1e-5, leaf_size=32)
    assert error(A, formula("matern52", distances(curve, length=3.0)) + 1e-2 * np.eye(600)) < 1e-5
    assert A.report["low_rank_blocks"] > 0
    cloud = rng.random((600, d))
    B = tacit.hmatrix(cloud, "gaussian", length=20 * d**0.5, admissibility="weak", tolerance=1e-5, leaf_size=64)
    assert error(B, formula("gaussian", distances(cloud, length=20 * d**0.5))) < 1e-5
    assert B.report["low_rank_blocks"] > 0


def test_a_cloud_in_many_dimensions_is_dense_and_says_so() -> None:
    p = np.random.default_rng(0).random((600, 20))
    with pytest.warns(RuntimeWarning, match="no two clusters of these points in 20 dimensions are far"):
        A = tacit.hmatrix(p, "gaussian", length=2.0)
    assert A.report["low_rank_blocks"] == 0
    assert error(A, formula("gaussian", distances(p, length=2.0))) < 1e-4


def test_refusals() -> None:
    p = np.random.default_rng(0).random((40, 2))
    for entries, given, kind, match in (
        ("matern53", {}, ValueError, "did you mean 'matern52'"),
        ("gauss", {}, ValueError, "unknown kernel 'gauss'"),
        ("gaussian", {"length": -1.0}, ValueError, "length is -1.0; a finite number > 0"),
        ("gaussian", {"length": 1e-320}, ValueError, r"^length is 1e-320, and .* a coordinate of 0\.\d+ divided"),
        ("matern32", {"length": 1e-200}, ValueError, "length is 1e-200, and"),
        ("gaussian", {"length": [1.0, 1e-320]}, ValueError, "length is 1e-320, and"),
        ("gaussian", {"length": [1.0, 0.0]}, ValueError, "length is"),
        ("gaussian", {"length": [1.0, 1.0, 1.0]}, ValueError, "one for each of 2 coordinates"),
        ("gaussian", {"length": "x"}, TypeError, "length"),
        ("gaussian", {"length": np.nan}, ValueError, "length"),
        ("gaussian", {"kappa": 1.0}, ValueError, "kappa is of the kernel helmholtz or yukawa"),
        ("laplace", {"nu": 1.5}, ValueError, "nu is of the kernel matern"),
        ("matern", {"nu": 0.01}, ValueError, "nu"),
        ("matern", {"nu": np.nan}, ValueError, "nu"),
        ("gaussian", {"nugget": -1.0}, ValueError, "nugget"),
        ("gaussian", {"variance": 0.0}, ValueError, "variance"),
        ("helmholtz", {"kappa": 1e9}, ValueError, "radians across the points"),
        ("gaussian", {"nugget": 1.0, "sources": p}, ValueError, "nugget is 1.0"),
        ("gaussian", {"sources": np.zeros((5, 3))}, ValueError, "as many coordinates"),
        ("gaussian", {"pairwise": True}, ValueError, "pairwise is of a Python function"),
        (lambda i, j: np.ones((len(i), len(j))), {"length": 2.0}, ValueError, "length is of a kernel by name"),
        (np.eye(40), {}, TypeError, "entries is an array"),
        (7, {}, TypeError, "entries is of int"),
    ):
        with pytest.raises(kind, match=match):
            tacit.hmatrix(p, entries, **given)
    with pytest.raises(tacit.InputError, match="point 3 is at"):
        tacit.hmatrix(np.where(np.arange(40)[:, None] == 3, np.inf, p), "gaussian")
    high = np.zeros((9, 40))
    high[5, 17] = np.nan
    with pytest.raises(tacit.InputError, match=r"point 5 is at .coordinate 17: nan"):
        tacit.hmatrix(high, "gaussian")


# --- functions of pairs -----------------------------------------------------------------------------------------------


def test_pairs_give_the_same_matrix_by_fewer_calls() -> None:
    p = np.random.default_rng(0).standard_normal((2500, 3))
    calls = [0, 0]

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        calls[0] += 1
        return np.asarray(1 / (0.1 + np.linalg.norm(p[i][:, None] - p[j][None], axis=2)))

    def of_pairs(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        calls[1] += 1
        assert i.shape == j.shape
        return np.asarray(1 / (0.1 + np.linalg.norm(p[i] - p[j], axis=1)))

    x = np.random.default_rng(1).standard_normal(2500)
    A, B = tacit.hmatrix(p, entries), tacit.hmatrix(p, of_pairs, pairwise=True)
    assert np.array_equal(A @ x, B @ x)
    assert calls[1] < calls[0] / 5
    small = tacit.hmatrix(p[:200], of_pairs, pairwise=True, compression="svd", leaf_size=16)
    assert error(small, entries(np.arange(200), np.arange(200))) < 1e-4


def test_pairs_that_fail() -> None:
    p = np.random.default_rng(0).random((300, 2))
    with pytest.raises(ValueError, match=r"an array of shape .* where \(\d+,\) is needed"):
        tacit.hmatrix(p, lambda i, j: np.ones((len(i), len(j))), pairwise=True, dtype="float64")
    with pytest.raises(tacit.InputError, match="row 11, column 11"):
        tacit.hmatrix(p, lambda i, j: np.where((i == 11) & (j == 11), np.nan, 1.0), pairwise=True, leaf_size=16)


# --- compiled functions -----------------------------------------------------------------------------------------------

SOURCE = """
#include <math.h>
static double k(long d, const double *x, const double *y, const double *p) {
  double r2 = 0;
  for (long c = 0; c < d; ++c) r2 += (x[c] - y[c]) * (x[c] - y[c]);
  const double r = sqrt(r2);
  return exp(-r / p[0]) * (r < p[1]);
}
void block(long m, const double *x, long n, const double *y, double *out, void *data) {
  const double *p = data;
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) out[i * n + j] = k((long)p[2], x + i * (long)p[2], y + j * (long)p[2], p);
}
void complex_block(long m, const double *x, long n, const double *y, double *out, void *data) {
  const double *p = data;
  for (long i = 0; i < m * n; ++i) {
    out[2 * i] = k((long)p[2], x + i / n * (long)p[2], y + i % n * (long)p[2], p);
    out[2 * i + 1] = 0.5 * out[2 * i];
  }
}
double pair(int count, double *xy, void *data) { return k(count / 2, xy, xy + count / 2, data); }
double plain(int count, double *xy) {
  const double p[2] = {1, 1e9};
  return k(count / 2, xy, xy + count / 2, p);
}
float wrong(int count, double *xy) { return 1; }
"""
LONG, NUMBERS = ctypes.c_long, ctypes.POINTER(ctypes.c_double)
OF_BLOCK = [LONG, NUMBERS, LONG, NUMBERS, NUMBERS, ctypes.c_void_p]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = Path(tmp_path_factory.mktemp("kernels"))
    (folder / "k.c").write_text(SOURCE)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", folder / "k.so", folder / "k.c", "-lm"], check=True)
    lib = ctypes.CDLL(str(folder / "k.so"))
    for name in ("block", "complex_block"):
        getattr(lib, name).argtypes, getattr(lib, name).restype = OF_BLOCK, None
    for name in ("pair", "plain"):
        getattr(lib, name).argtypes = [ctypes.c_int, NUMBERS, ctypes.c_void_p][: 3 if name == "pair" else 2]
        getattr(lib, name).restype = ctypes.c_double
    lib.wrong.argtypes, lib.wrong.restype = [ctypes.c_int, NUMBERS], ctypes.c_float
    return lib


def low_level(function: Any, *parameters: float) -> Any:
    """A function with a pointer to its parameters."""
    data = np.array(parameters)
    made = scipy.LowLevelCallable(function, ctypes.c_void_p(data.ctypes.data))
    return made, data


@pytest.mark.parametrize("d", [1, 3, 6])
@pytest.mark.parametrize("name", ["block", "pair", "plain"])
def test_compiled_functions(compiled: Any, name: str, d: int) -> None:
    p = np.random.default_rng(d).random((500, d))
    function = getattr(compiled, name)
    entries, data = (function, None) if name == "plain" else low_level(function, 1.0, 1e9, d)
    for scalar in ("float64", "float32"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # six dimensions have no far clusters
            A = tacit.hmatrix(p, entries, nugget=0.25, tolerance=1e-5, leaf_size=16, dtype=scalar)
        assert A.dtype == np.dtype(scalar)
        assert error(A, np.exp(-distances(p)) + 0.25 * np.eye(500)) < 1e-5
    del data


def test_compiled_functions_of_complex_matrices(compiled: Any) -> None:
    p = np.random.default_rng(0).random((300, 2))
    entries, data = low_level(compiled.complex_block, 1.0, 1e9, 2)
    A = tacit.hmatrix(p, entries, dtype="complex128", leaf_size=16)
    assert error(A, (1 + 0.5j) * np.exp(-distances(p))) < 1e-4
    with pytest.raises(ValueError, match="a function of pairs of points gives real entries"):
        tacit.hmatrix(p, compiled.plain, dtype="complex128")
    del data


@pytest.mark.parametrize("text", [b"double (int n, const double *xy)", b"double (*)(int, double *)"])
def test_capsules(compiled: Any, text: bytes) -> None:
    """As Cython exports them, and as cffi writes the types of functions."""
    p = np.random.default_rng(0).random((200, 2))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.create_string_buffer(text)
    capsule = make(ctypes.cast(compiled.plain, ctypes.c_void_p), ctypes.cast(name, ctypes.c_char_p), None)
    assert error(tacit.hmatrix(p, capsule, leaf_size=16), np.exp(-distances(p))) < 1e-4


def test_functions_of_numba_and_of_python(compiled: Any) -> None:
    """An object with a ctypes function, as numba.cfunc makes it; a ctypes function that is Python."""
    p = np.random.default_rng(0).random((200, 2))

    class Cfunc:
        def __init__(self, function: Any) -> None:
            self.ctypes = function

    for entries in (Cfunc(compiled.plain), scipy.LowLevelCallable(compiled.plain)):
        assert error(tacit.hmatrix(p, entries, leaf_size=16), np.exp(-distances(p))) < 1e-4
    python = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, NUMBERS)(lambda n, x: float(np.hypot(x[0], x[2])))
    x = p[:60]
    assert error(tacit.hmatrix(x, python, leaf_size=16), np.hypot(x[:, :1], x[:, 0])) < 1e-4


def test_compiled_functions_that_are_refused(compiled: Any) -> None:
    p = np.random.default_rng(0).random((50, 2))
    with pytest.raises(TypeError, match=r"the compiled function is c_float .int, double"):
        tacit.hmatrix(p, compiled.wrong)
    with pytest.raises(TypeError, match="has no argtypes"):
        tacit.hmatrix(p, ctypes.CDLL(None).abs)
    with pytest.raises(ValueError, match=r"variance is of a kernel by name; .* takes a nugget only"):
        tacit.hmatrix(p, compiled.plain, variance=2.0)
    with pytest.raises(ValueError, match="nugget is -1"):
        tacit.hmatrix(p, compiled.plain, nugget=-1.0)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks(ranks: int) -> None:
    p = np.random.default_rng(0).random((500, 3))
    a = formula("matern52", distances(p, length=0.7)) + 0.1 * np.eye(500)
    x = np.random.default_rng(1).standard_normal(500)

    def work(comm: Any) -> None:
        A = tacit.hmatrix(p, "matern52", length=0.7, nugget=0.1, leaf_size=16, comm=comm)
        assert np.linalg.norm(A @ x - a @ x) < 2e-4 * np.linalg.norm(a @ x)
        B = tacit.hmatrix(p, lambda i, j: a[i, j], pairwise=True, leaf_size=16, comm=comm)
        assert np.linalg.norm(B @ x - a @ x) < 2e-4 * np.linalg.norm(a @ x)
        for change, match in (
            ({"length": 0.7 + 0.1 * comm.rank}, "entries is|points"),
            ({"nugget": 0.1 * comm.rank}, "nugget is"),
        ):
            with pytest.raises(ValueError, match=match):
                tacit.hmatrix(p, "matern52", comm=comm, **change)
        with pytest.raises(ValueError, match=r"entries|kernel"):
            tacit.hmatrix(p, ("matern12", "matern52")[min(comm.rank, 1)], comm=comm)

    tacit.comm.run_threads(ranks, work)


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e30, 1e-30, 1e100, 1e-100])
def test_entries_of_any_size_take_as_much_memory(scale: float) -> None:
    p = np.random.default_rng(0).random((900, 2))
    A, B = (tacit.hmatrix(p, "matern12", variance=v, leaf_size=32) for v in (1.0, scale))
    assert B.report["bytes"] == pytest.approx(A.report["bytes"], rel=0.02)
    x = np.random.default_rng(1).standard_normal(900)
    assert np.linalg.norm(B @ x / scale - A @ x) < 1e-3 * np.linalg.norm(A @ x)


def test_points_that_differ_by_rounding_give_no_nan() -> None:
    near = np.array(
        [
            [31.55437035, 31.55437038, 32.36345678],
            [31.55437037, 31.55437037, 32.36345679],
            [31.55437037, 31.55437037, 32.36345679],
            [28.31802469, 21.84533348, -29.12711068],
            [28.31802469, 21.84533348, -29.12711111],
        ]
    )
    for p in (near, 1e6 + np.random.default_rng(0).random((200, 2))):
        for name in ("matern12", "matern52", "gaussian"):
            A = tacit.hmatrix(p, name, dtype="float32", leaf_size=16)
            assert error(A, formula(name, distances(p))) < 1e-4


def test_kernels_of_the_diagonal_only_and_of_nothing() -> None:
    p = np.random.default_rng(0).random((1000, 2))
    A = tacit.hmatrix(p, lambda i, j: (i == j).astype(float), pairwise=True, tolerance=1e-10)
    assert np.allclose(A @ np.arange(1000.0), np.arange(1000.0), rtol=1e-9)
    zero = tacit.hmatrix(p, lambda i, j: np.zeros(len(i)), pairwise=True)
    assert not (zero @ np.ones(1000)).any()
    assert zero.report["error_bound"] == 0


def test_infinite_nu_is_the_gaussian() -> None:
    p = np.random.default_rng(0).random((100, 2))
    A = tacit.hmatrix(p, "matern", nu=np.inf, length=0.5)
    assert np.array_equal(A @ np.ones(100), tacit.hmatrix(p, "gaussian", length=0.5) @ np.ones(100))


def test_determinants_by_weak_admissibility_on_a_line() -> None:
    rng = np.random.default_rng(123)
    for n in (199, 200, 201):
        x = rng.uniform(0, 10, n)
        A = tacit.hmatrix(x, "gaussian", nugget=0.01, admissibility="weak", leaf_size=16, tolerance=1e-10)
        a = formula("gaussian", distances(x[:, None])) + 0.01 * np.eye(n)
        assert np.linalg.slogdet(A @ np.eye(n))[1] == pytest.approx(np.linalg.slogdet(a)[1], rel=1e-8)


def test_equal_points_are_compressed() -> None:
    for p in (np.zeros((2000, 3)), np.repeat(np.random.default_rng(0).random((8, 2)), 256, axis=0)):
        A = tacit.hmatrix(p, "gaussian", nugget=1.0, leaf_size=64)
        n = len(p)
        assert A.report["dense_fraction"] < 0.05
        assert error(A, formula("gaussian", distances(p)) + np.eye(n)) < 1e-4


# --- files and pickles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 3])
def test_files_and_pickles_have_the_same_bits(ranks: int, python: Run) -> None:
    code = """
    import copy, pickle, numpy as np, tacit
    comm = tacit.comm.resolve()
    rng = np.random.default_rng(0)
    p, q = rng.random((700, 3)), rng.random((400, 3)) + 1
    x, y = rng.standard_normal(700), rng.standard_normal(400)
    for k, (name, scalar, more) in enumerate((
        ("matern52", "float64", {}), ("laplace", "float32", {}), ("helmholtz", "complex128", {}),
        ("gaussian", "complex64", {"symmetry": "hermitian"}), ("gaussian", "float64", {"sources": q}),
        ("gaussian", "float64", {"storage": "full"}),
    )):
        A = tacit.hmatrix(p, name, dtype=scalar, leaf_size=32, **more)
        A.save(f"h{k}")
        v = y if "sources" in more else x
        for B in (tacit.HMatrix.load(f"h{k}"), tacit.HMatrix.load(f"h{k}", check=False),
                  pickle.loads(pickle.dumps(A)), copy.deepcopy(A)):
            assert np.array_equal(A @ v, B @ v) and np.array_equal(A.H @ x, B.H @ x), name
            assert A.report == B.report and B.tolerance == A.tolerance and B.symmetry == A.symmetry
            assert B.dtype == A.dtype and B.shape == A.shape
        C = tacit.HMatrix.load(f"h{k}")
        del A, B
        C.save(f"h{k}")                             # over the file that it is mapped from
        assert np.array_equal(C @ v, tacit.HMatrix.load(f"h{k}") @ v)
        if "sources" not in more and scalar == "float64":
            D = C.coarse(rank=2)
            D.save("coarse")
            assert np.array_equal(tacit.HMatrix.load("coarse") @ x, D @ x)
            assert np.array_equal(C.diagonal(), tacit.HMatrix.load(f"h{k}").diagonal())
    print("good")
    """
    done = python(code, ranks=0 if ranks == 1 else ranks)
    assert done.stdout.count("good") == ranks, done.stderr


def test_damaged_files(tmp_path: Path) -> None:
    p = np.random.default_rng(0).random((300, 2))
    A = tacit.hmatrix(p, "gaussian", leaf_size=32)
    path = tmp_path / "a.hmatrix"
    A.save(path)
    good = path.read_bytes()
    assert not (tmp_path / "a.hmatrix.part").exists()
    with pytest.raises(FileNotFoundError):
        tacit.HMatrix.load(tmp_path / "b")
    rng = np.random.default_rng(1)
    changes = [good[:5], good[:100], good[: len(good) // 2], b"x" + good[1:], b"", good[:8] + b"\xff" * 8 + good[16:]]
    for at in rng.integers(0, len(good) - 1, 60):
        changes.append(good[:at] + bytes([good[at] ^ 0x15]) + good[at + 1 :])
    refused = 0
    for change in changes:
        path.write_bytes(change)
        try:
            B = tacit.HMatrix.load(path)
        except tacit.InputError as text:
            refused += "a.hmatrix" in str(text)
        else:  # between arrays
            assert np.array_equal(B @ np.ones(300), A @ np.ones(300))
    assert refused > 40

    def work(comm: Any) -> None:
        with pytest.raises(tacit.InputError, match="saved on 1 ranks and cannot be loaded on 2"):
            tacit.HMatrix.load(path, comm=comm)

    path.write_bytes(good)
    tacit.comm.run_threads(2, work)


def test_the_bound_of_an_error_is_never_zero_for_nothing() -> None:
    points = np.random.default_rng(1).random((300, 3))
    A = tacit.hmatrix(points, "matern52", length=0.7, nugget=0.3, tolerance=1e-5, leaf_size=16)
    r = A.report
    assert r["low_rank_blocks"] > 0
    assert r["error_bound"] >= r["measured_error"] > 0
    a = np.array([A @ e for e in np.eye(300)]).T
    d = np.linalg.norm(points[:, None] - points[None], axis=2) * 5**0.5 / 0.7
    exact = (1 + d + d * d / 3) * np.exp(-d) + 0.3 * np.eye(300)
    assert np.linalg.norm(a - exact) <= 3 * r["error_bound"] * np.linalg.norm(exact)
