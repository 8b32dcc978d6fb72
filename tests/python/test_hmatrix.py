"""Hierarchical matrices from Python entry functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import SCALARS

import tacit


def sphere(n: int) -> np.ndarray:
    """Points spread over the unit sphere."""
    k = np.arange(n)
    z = 1 - (2 * k + 1) / n
    r, angle = np.sqrt(1 - z * z), 2.399963229728653 * k
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def kernel(p: np.ndarray, kappa: float = 0.0, scalar: str = "float64", q: np.ndarray | None = None) -> Any:
    """exp(i kappa r) / r, r never below a tenth."""
    s = p if q is None else q

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        r = np.maximum(np.linalg.norm(p[i][:, None] - s[j][None], axis=2), 0.1)
        return (np.exp(1j * kappa * r) / r if scalar.startswith("complex") else 1 / r).astype(scalar)

    return entries


def whole(entries: Any, m: int, n: int) -> np.ndarray:
    return np.asarray(entries(np.arange(m), np.arange(n)))


@pytest.mark.parametrize("scalar", SCALARS)
def test_products(scalar: str) -> None:
    p = sphere(500)
    entries = kernel(p, 3.0, scalar)
    A = tacit.hmatrix(p, entries, tolerance=1e-5, leaf_size=20)
    a = whole(entries, 500, 500)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(500).astype(scalar)
    X = rng.standard_normal((500, 3)).astype(scalar)
    assert A.dtype == np.dtype(scalar)
    for ours, theirs in ((A @ x, a @ x), (A @ X, a @ X), (A.H @ x, a.conj().T @ x), (A.T @ x, a.T @ x), (x @ A, x @ a)):
        assert ours.shape == theirs.shape
        assert np.linalg.norm(ours - theirs) < 3e-5 * np.linalg.norm(theirs)
    assert np.allclose(A.diagonal(), a.diagonal(), rtol=1e-3)
    unit = A @ np.eye(500, dtype=scalar)
    assert np.linalg.norm(unit - a) < 1.1e-5 * np.linalg.norm(a)


@pytest.mark.parametrize("scalar", SCALARS)
def test_nested_bases(scalar: str, tmp_path: Any) -> None:
    p, q = sphere(500), 1.5 * sphere(400) + 0.2
    entries = kernel(p, 3.0, scalar, q)
    a = whole(entries, 500, 400)
    A = tacit.hmatrix(p, entries, sources=q, tolerance=1e-4, leaf_size=20, nested=True)
    assert A.nested
    assert A.report["max_rank"] < 40
    unit = A @ np.eye(400, dtype=scalar)
    assert np.linalg.norm(unit - a) < 1e-4 * np.linalg.norm(a)
    x, y = (np.sin(np.arange(n)).astype(scalar) for n in (400, 500))
    left, right = np.vdot(y, A @ x), np.vdot(A.H @ y, x)
    assert abs(left - right) < 100 * np.finfo(scalar).eps * np.linalg.norm(a)
    A.save(tmp_path / "nested.hmatrix")
    assert (tacit.HMatrix.load(tmp_path / "nested.hmatrix") @ x == A @ x).all()


def test_nested_bases_of_named_kernels() -> None:
    p = sphere(3000)
    options: Any = {"length": 0.5, "nugget": 1.0, "tolerance": 1e-5}
    A, B = (tacit.hmatrix(p, "matern32", nested=nested, **options) for nested in (False, True))
    assert B.report["bytes"] < A.report["bytes"]
    assert B.report["measured_error"] < 1e-5
    x = tacit.solve(B, np.ones(3000), method="cg", precond="jacobi", rtol=1e-5)
    assert x.converged
    assert np.linalg.norm(A @ x.x - 1) < 1e-3 * np.sqrt(3000)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"symmetry": "symmetric"}, "both triangles"),
        ({"measure": "block"}, "measure matrix"),
        ({"compression": "svd"}, "svd"),
        ({"compression": "aca"}, "aca"),
        ({"max_rank": 3}, "max_rank 0"),
        ({"cut_rank": 3}, "cut_rank 0"),
        ({"recompress": False}, "recompression"),
    ],
)
def test_nested_bases_refuse(options: Any, text: str) -> None:
    p = sphere(100)
    with pytest.raises(ValueError, match=text):
        tacit.hmatrix(p, kernel(p), nested=True, **options)


def test_nested_bases_have_no_blocks() -> None:
    p = sphere(200)
    A = tacit.hmatrix(p, kernel(p), nested=True)
    for name in ("hlu", "block-jacobi", "inner"):
        with pytest.raises(ValueError, match="nested bases"):
            tacit.solve(A, np.ones(200), precond=name)
    with pytest.raises(ValueError, match="nested bases"):
        A.coarse()


def test_report() -> None:
    p = sphere(2000)
    A = tacit.hmatrix(p, kernel(p), tolerance=1e-3)
    r = A.report
    assert r["rows"] == r["columns"] == 2000
    assert r["bytes"] == r["bytes_float64"] + r["bytes_float32"] + r["bytes_int16"]
    assert r["dense_fraction"] == pytest.approx(r["bytes"] / (8 * 2000**2))
    assert r["dense_fraction"] < 0.12
    assert sum(r["ranks"]) == r["low_rank_blocks"] > 0
    assert r["max_rank"] == len(r["ranks"]) - 1
    assert 0 < r["estimated_error"] < 1e-3
    assert 0 < r["measured_error"] < 1e-3
    assert r["seconds"] > 0
    assert A.tolerance == 1e-3
    assert "int16" in A.storage
    assert "hmatrix" in repr(A)
    full = tacit.hmatrix(p, kernel(p), tolerance=1e-3, storage="full")
    assert full.report["bytes"] == full.report["bytes_float64"] > 2 * r["bytes"]


def test_rectangular_and_coordinates() -> None:
    x, y = np.linspace(0, 1, 400), np.linspace(2, 3, 150)
    A = tacit.hmatrix(x, lambda i, j: 1 / (y[None, j] - x[i, None]), sources=y, tolerance=1e-6, leaf_size=16)
    a = 1 / (y[None] - x[:, None])
    assert A.shape == (400, 150)
    assert np.linalg.norm(A @ np.eye(150) - a) < 1e-6 * np.linalg.norm(a)
    assert np.linalg.norm(A.T @ np.eye(400) - a.T) < 1e-6 * np.linalg.norm(a)
    p = sphere(300)[:, :2]
    boxes = np.stack([p - 0.01, p + 0.01], axis=1)
    B = tacit.hmatrix(p, kernel(p), boxes=boxes, leaf_size=16, compression="aca", measure="block", bisection="midpoint")
    b = whole(kernel(p), 300, 300)
    assert np.linalg.norm(B @ np.eye(300) - b) < 1e-4 * np.linalg.norm(b)


def test_solve() -> None:
    p = sphere(800)
    entries = kernel(p)
    shifted = lambda i, j: entries(i, j) + 40.0 * (i[:, None] == j[None])  # noqa: E731
    A = tacit.hmatrix(p, shifted, tolerance=1e-9, leaf_size=32)
    b = np.random.default_rng(1).standard_normal(800)
    result = tacit.solve(A, b, rtol=1e-8)
    assert result.converged
    assert not any("approximation" in w for w in result.warnings)
    rough = tacit.solve(tacit.hmatrix(p, shifted, tolerance=1e-3), b, rtol=1e-8)
    assert rough.converged
    assert any("approximation" in w for w in rough.warnings)
    assert np.linalg.norm(whole(shifted, 800, 800) @ result.x - b) < 3e-8 * np.linalg.norm(b)


def test_refusals() -> None:
    p = sphere(50)
    good = kernel(p)
    for change, error, match in (
        ({"tolerance": 0.0}, ValueError, "tolerance"),
        ({"tolerance": 1e-17}, ValueError, "tolerance"),
        ({"measure": "blocks"}, ValueError, "block"),
        ({"compression": "qr"}, ValueError, "compression"),
        ({"eta": -1.0}, ValueError, "eta"),
        ({"leaf_size": 0}, ValueError, "leaf_size is 0; it takes at least 1 point"),
        ({"max_rank": -1}, ValueError, "max_rank is -1; it takes at least 0"),
        ({"max_rank": 1.5}, ValueError, "max_rank is 1.5; a whole number"),
        ({"leaf_size": 2.7}, ValueError, "leaf_size is 2.7; a whole number"),
        ({"sampled_rows": "3"}, TypeError, "sampled_rows"),
        ({"tolerance": "x"}, TypeError, "tolerance"),
        ({"boxes": np.zeros((3, 2, 3))}, ValueError, "boxes"),
        ({"source_boxes": np.zeros((50, 2, 3))}, ValueError, "sources"),
    ):
        with pytest.raises(error, match=match):
            tacit.hmatrix(p, good, **change)
    for shape in ((5, 0), (0, 2), (3, 2, 2)):
        with pytest.raises(ValueError, match="points has shape"):
            tacit.hmatrix(np.zeros(shape), good)
    with pytest.raises(TypeError, match="function"):
        tacit.hmatrix(p, good(np.arange(50), np.arange(50)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is needed"):
        tacit.hmatrix(p, lambda i, j: np.ones(len(i)), dtype="float64")
    with pytest.raises(tacit.InputError, match="point 7"):
        tacit.hmatrix(np.where(np.arange(50)[:, None] == 7, np.nan, p), good)


def test_entries_that_fail() -> None:
    p = sphere(60)
    good = kernel(p)

    def nan(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.where((i[:, None] == 11) & (j[None] == 11), np.nan, good(i, j))

    with pytest.raises(tacit.InputError, match="row 11, column 11"):
        tacit.hmatrix(p, nan, leaf_size=8)

    calls = []

    def breaks(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        calls.append(1)
        if len(calls) > 40:
            raise KeyError("no more")
        return np.asarray(good(i, j))

    with pytest.raises(KeyError, match="no more"):
        tacit.hmatrix(p, breaks, leaf_size=8)


def test_ranks() -> None:
    p = sphere(300)
    a = whole(kernel(p), 300, 300)
    x = np.random.default_rng(0).standard_normal(300)

    def work(comm: Any) -> None:
        A = tacit.hmatrix(p, kernel(p), leaf_size=16, comm=comm)
        for ours, theirs in ((A @ x, a @ x), (A.T @ x, a.T @ x)):
            assert np.linalg.norm(ours - theirs) < 2e-4 * np.linalg.norm(theirs)
        assert A.report["least_bytes"] > 0

        def breaks(i: np.ndarray, j: np.ndarray) -> np.ndarray:
            if comm.rank == 1:
                raise ValueError("rank one breaks")
            return np.asarray(kernel(p)(i, j))

        with pytest.raises(ValueError, match="rank one breaks"):
            tacit.hmatrix(p, breaks, comm=comm, dtype="float64")

    tacit.comm.run_threads(3, work)


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["aca+", "aca"])
def test_repeated_points(compression: str) -> None:
    # What is left of a block of few distinct rows is rounding: no pivots there, and a look at those not met yet.
    for seed, dims in ((0, 2), (5, 3)):
        p = np.repeat(np.random.default_rng(seed).standard_normal((50 * dims, dims)), 3, axis=0)
        r = np.linalg.norm(p[:, None] - p[None], axis=2)
        for a in (np.exp(-r) * (1 + 0.2j), np.exp(2j * r) / (r + 0.1), np.cos(2 * r) / (r + 0.1)):

            def entries(i: np.ndarray, j: np.ndarray, a: np.ndarray = a) -> np.ndarray:
                return np.asarray(a[np.ix_(i, j)])

            for recompress in (True, False):
                A = tacit.hmatrix(
                    p, entries, tolerance=1e-8, leaf_size=24, compression=compression, recompress=recompress
                )
                error = np.linalg.norm(A @ np.eye(len(p), dtype=a.dtype) - a) / np.linalg.norm(a)
                assert error < 1e-8, (seed, recompress)


def step(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return (i[:, None] > j[None]) + 50.0 * (i[:, None] == j[None])


def test_kernel_that_jumps() -> None:
    """A kernel that is not smooth: blocks are compressed again if verify allows it, otherwise there is a warning."""
    p = np.random.default_rng(0).standard_normal((1200, 3))
    a = whole(step, 1200, 1200)
    x = np.random.default_rng(1).standard_normal(1200)
    A = tacit.hmatrix(p, step, tolerance=1e-4)
    assert np.linalg.norm(A @ x - a @ x) < 3e-4 * np.linalg.norm(a)
    assert A.report["measured_error"] < 3e-4
    assert not A.report["warnings"]
    with pytest.warns(RuntimeWarning, match="the tolerance is 0.0001"):
        B = tacit.hmatrix(p, step, tolerance=1e-4, verify=False)
    assert B.report["measured_error"] > 1e-3
    assert len(B.report["warnings"]) == 1
    result = tacit.solve(B, a @ x, rtol=1e-3, method="gmres")
    assert any("good to 0." in w for w in result.warnings)

    # Isolated entries that few rows and columns show.
    def dotted(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return kernel(p)(i, j) + np.where((i[:, None] * 7919 + j[None] * 104729) % 1009 == 0, 3.0, 0.0)

    C, c = tacit.hmatrix(p, dotted, tolerance=1e-4), whole(dotted, 1200, 1200)
    assert np.linalg.norm(C @ x - c @ x) < 3e-4 * np.linalg.norm(c)


def test_errors_of_kernels_that_are_not_smooth() -> None:
    """Random kernels, smooth and not: the reported error is not below a third of the true one without a warning."""
    rng = np.random.default_rng(5)
    n = 200
    for k in range(200):
        d = int(rng.integers(1, 4))
        p = rng.random((n, d))
        r = np.linalg.norm(p[:, None] - p[None], axis=2)
        radius, size, width = rng.uniform(0.1, 0.9) * np.sqrt(d), 10.0 ** rng.uniform(-3, 0), rng.uniform(0.05, 1)
        a = 1 / (r + 0.1 * width) if k % 5 == 1 else np.exp(-r / width)
        if k % 5 == 2:
            a[r > radius] = 0
        elif k % 5 == 3:
            a[r < radius] += size
        elif k % 5 == 4:  # wrong entries
            a[rng.integers(0, n, 3), rng.integers(0, n, 3)] += 1
        tolerance = 10.0 ** -int(rng.integers(3, 8))
        A = tacit.hmatrix(p, lambda i, j, a=a: a[np.ix_(i, j)], tolerance=tolerance, leaf_size=16)
        true = np.linalg.norm(A @ np.eye(n) - a) / np.linalg.norm(a)
        reported = max(A.report["measured_error"], A.report["estimated_error"])
        assert true <= tolerance, (k, true)
        assert 3 * reported >= true or A.report["warnings"], (k, true, reported)


@pytest.mark.slow
def test_samples_see_a_step_in_one_percent_of_the_entries() -> None:
    """A cut-off radius, and crosses that stop too early: the error is measured also where the sampled row misses it."""
    n = 1000
    for seed in range(8):
        p = np.random.default_rng(seed).random((n, 2))
        distance = np.linalg.norm(p[:, None] - p[None], axis=2)
        a = np.exp(-distance) * (distance < 0.5)

        def entries(i: np.ndarray, j: np.ndarray, a: np.ndarray = a) -> np.ndarray:
            return np.asarray(a[np.ix_(i, j)])

        with pytest.warns(RuntimeWarning, match="a cut-off radius"):
            A = tacit.hmatrix(p, entries, tolerance=1e-4, leaf_size=32, sampled_rows=1, verify=False)
        missed = A @ np.eye(n) - a
        assert (np.abs(missed) > 0.1).mean() > 0.01
        true = np.linalg.norm(missed) / np.linalg.norm(a)
        assert true / 3 < A.report["measured_error"] < 3 * true


@pytest.mark.parametrize(
    ("scalar", "scale"),
    [("float32", 2.3e-28), ("float32", 1e18), ("float32", 1e33), ("complex64", 1e-28), ("float64", 1e-170)]
    + [("float64", 1e-300), ("float64", 1e300), ("complex128", 1e200)],
)
def test_numbers_near_the_ends_of_the_range(scalar: str, scale: float) -> None:
    p = sphere(600)
    plain = kernel(p, 3.0, scalar)

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(plain(i, j) * np.dtype(scalar).type(scale))

    options: dict[str, Any] = {"tolerance": 1e-4, "leaf_size": 20}
    A, B = tacit.hmatrix(p, entries, **options), tacit.hmatrix(p, plain, **options)
    x = np.random.default_rng(0).standard_normal(600).astype(scalar)
    a = whole(plain, 600, 600).astype(complex)
    for ours, theirs in ((A @ x, a @ x), (A.H @ x, a.conj().T @ x)):
        assert np.linalg.norm(ours.astype(complex) / scale - theirs) < 3e-4 * np.linalg.norm(theirs)
    assert A.report["dense_blocks"] == B.report["dense_blocks"]
    assert A.report["norm"] / scale == pytest.approx(B.report["norm"], rel=1e-3)
    assert 1e-6 < A.report["measured_error"] < 2e-4
    assert np.allclose(A.diagonal() / scale, B.diagonal(), rtol=1e-3)


def test_ranks_that_differ() -> None:
    p = sphere(200)

    def work(comm: Any) -> None:
        r = comm.rank
        for change, match in (
            ({"tolerance": [1e-2, 1e-8, 1e-11][r]}, "tolerance is 0.01 on rank 0 and 1e-08 on rank 1"),
            ({"leaf_size": [16, 64, 64][r]}, "leaf_size"),
            ({"measure": ["matrix", "matrix", "block"][r]}, "measure is 'matrix' on rank 0 and 'block' on rank 2"),
            ({"sampled_rows": 1 + r}, "sampled_rows"),
            ({"dtype": ["float32", "float64", "float64"][r]}, "dtype"),
            ({"boxes": np.stack([p, p + r], axis=1)}, "boxes"),
            ({"sources": p[: 100 + r]}, "sources"),
        ):
            with pytest.raises(ValueError, match=match):
                tacit.hmatrix(p, kernel(p), comm=comm, **change)
        with pytest.raises(ValueError, match="points"):
            tacit.hmatrix(p + r, kernel(p), comm=comm)
        tacit.hmatrix(p, kernel(p), comm=comm, tolerance=1e-3 * (1 + 1e-15 * r))

    tacit.comm.run_threads(3, work)
