"""Projectors and reconstructions against known properties."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scans_of_discs import angles_of, disc, run, scan

import tacit
from tacit import tomography
from tacit._support import using_threads


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adjoint(dtype: str) -> None:
    P = tomography.projector(angles_of(23), 31, image=(17, 40), centre=12.25, dtype=dtype)
    rng = np.random.default_rng(0)
    x, y = rng.random((3, 17, 40)), rng.random((3, 23, 31))
    left, right = np.vdot(P.project(x).astype(float), y), np.vdot(x, P.backproject(y).astype(float))
    assert left == pytest.approx(right, rel=1e-6 if dtype == "float32" else 1e-12)
    assert P.image_shape == (17, 40)
    assert P.nnz > 0
    assert "17 x 40" in repr(P)


@pytest.mark.parametrize(("method", "error"), [("cgls", 0.02), ("sirt", 0.04)])
def test_reconstructs_a_disc(method: str, error: float) -> None:
    image = disc(48)
    P = tomography.projector(angles_of(60), 48)
    seen = []
    r = tomography.reconstruct(
        P.project(image), projector=P, method=method, iterations=40, callback=lambda s: seen.append(s.iteration)
    )
    assert np.abs(r.images - image).mean() < error
    assert seen == list(range(41))
    assert r.end == ["iterations"]
    assert not r.interrupted
    assert r.residual.shape == (41, 1)
    assert r.final_residual[0] == pytest.approx(r.residual[-1, 0], rel=1e-4)
    assert (np.diff(r.residual[:, 0]) <= 0).all()


def test_batches_do_not_matter() -> None:
    P = tomography.projector(angles_of(20), 24, dtype="float64")
    b = P.project(np.stack([disc(24, 0.1 + 0.05 * k) for k in range(5)]))
    whole = tomography.reconstruct(b, projector=P, iterations=3)
    parts = tomography.reconstruct(b, projector=P, iterations=3, batch=2)
    np.testing.assert_allclose(whole.images, parts.images, atol=1e-9)
    assert parts.residual.shape == whole.residual.shape


def test_krylov_methods_take_the_normal_equations() -> None:
    P = tomography.projector(angles_of(30), 16, dtype="float64")
    A = P.operator
    b = A @ np.random.default_rng(1).random(256)
    cgls = tomography.reconstruct(
        b[np.argsort(P.ray_order)].reshape(30, 16), projector=P, iterations=300, tolerance=1e-10
    )
    x = tacit.solve(A.H @ A, A.H @ b, method="cg", rtol=1e-11).x
    np.testing.assert_allclose(x, cgls.images.reshape(-1)[P.pixel_order], atol=1e-5)


def test_many_columns_are_one_product() -> None:
    A = tomography.projector(angles_of(12), 16, dtype="float64", columns=5).operator
    x = np.random.default_rng(0).random((A.shape[1], 5))
    before = A._handle.applies
    y = A @ x
    assert A._handle.applies == before + 1
    np.testing.assert_allclose(y, np.stack([A @ column for column in x.T], axis=1), rtol=1e-13)
    np.testing.assert_allclose(A.H @ y, np.stack([A.H @ column for column in y.T], axis=1), rtol=1e-13)


def test_computed_entries_are_those_that_are_stored() -> None:
    image = np.stack([disc(41), disc(41, 0.2)])
    computed, stored = (tomography.projector(angles_of(37), 41, format=f) for f in ("computed", "list"))
    assert computed.nnz == stored.nnz
    assert computed.operator.storage == "computed, float32"
    assert computed.operator.nbytes < 0.2 * stored.operator.nbytes
    b = stored.project(image)
    np.testing.assert_allclose(computed.project(image), b, atol=2e-5)
    np.testing.assert_allclose(computed.backproject(b), stored.backproject(b), rtol=2e-6)
    one, other = (tomography.reconstruct(b, projector=p, iterations=5).residual for p in (computed, stored))
    np.testing.assert_allclose(one, other, atol=1e-4 * other.max())
    assert "computed" in tomography.projector(angles_of(37), 41).operator.storage
    assert "list" in tomography.projector(angles_of(37), 41, columns=32).operator.storage
    with pytest.raises(ValueError, match="stores nothing"):
        tomography.projector(angles_of(37), 41, format="computed", values="float16")
    with pytest.raises(ValueError, match="stores no entries"):
        computed.operator.to_scipy()
    with pytest.raises(ValueError, match="computed"):
        tacit.tiled(sp.eye_array(4), format="computed")
    x = tacit.solve(computed.operator.H @ computed.operator, computed.operator.H @ np.ones(37 * 41, np.float32),
                    method="cg", rtol=1e-2).x  # fmt: skip
    assert np.isfinite(x).all()


@pytest.mark.slow
def test_tuning_tries_what_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuned projector is not slower than the faster of computed and stored entries, in processor time on one thread,
    which hardly depends on other load."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    angles = angles_of(180) + 0.01
    rng = np.random.default_rng(0)
    with using_threads(1):
        for columns in (1, 24):
            tuned = tomography.projector(angles, 192, columns=columns, tune=True)
            made = [tuned] + [
                tomography.projector(angles, 192, columns=columns, format=f) for f in ("computed", "list")
            ]
            x, y = (rng.random((n, columns), np.float32) for n in tuned.operator.shape[::-1])
            best = np.full(len(made), np.inf)
            for _ in range(7):
                for i, P in enumerate(made):
                    begin = time.thread_time()
                    P.operator @ x
                    P.operator.rmatmat(y)
                    best[i] = min(best[i], time.thread_time() - begin)
            assert best[0] <= 1.5 * best[1:].min(), (tuned.operator.storage, best)
            # The result of tuning is stored and used again.
            kept = (tmp_path / "tacit/tiled.tsv").read_text()
            again = tomography.projector(angles, 192, columns=columns, tune=True)
            assert again.operator.storage == tuned.operator.storage
            assert (tmp_path / "tacit/tiled.tsv").read_text() == kept
    stored = tomography.projector(angles, 192, tune=True, values="float16")
    assert "float16" in stored.operator.storage
    with pytest.raises(ValueError, match="stores nothing"):
        tomography.projector(angles, 192, tune=True, format="computed")


def test_tuned_ranks_choose_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    angles, image = angles_of(40), disc(48)
    expected = tomography.projector(angles, 48).project(image)

    def rank(comm: Any) -> str:
        P = tomography.projector(angles, 48, tune=True, comm=comm)
        np.testing.assert_allclose(P.project(image), expected, atol=1e-3)
        return P.operator.storage.split(",")[0]

    first, second = tacit.comm.run_threads(2, rank)
    assert (first == "computed") == (second == "computed")


def test_half_values_follow() -> None:
    image = disc(64)
    full, half = (tomography.projector(angles_of(90), 64, values=v, format="bitmap") for v in ("full", "float16"))
    assert half.operator.nbytes < 0.75 * full.operator.nbytes
    b = full.project(image) + np.random.default_rng(0).normal(0, 0.3, (90, 64)).astype(np.float32)
    a, c = (tomography.reconstruct(b, projector=p, iterations=16).residual[-1, 0] for p in (full, half))
    assert c**2 <= 1.06 * a**2


def test_vectors_in_16_bits_follow() -> None:
    image = disc(64)
    full = tomography.projector(angles_of(90), 64)
    b = full.project(image) + np.random.default_rng(0).normal(0, 0.3, (90, 64)).astype(np.float32)
    exact = tomography.reconstruct(b, projector=full, iterations=16).final_residual[0]
    for vectors, room in (("float16", 1.02), ("bfloat16", 1.2)):
        P = tomography.projector(angles_of(90), 64, vectors=vectors, columns=16)
        assert vectors in P.operator.storage
        many = np.stack([b * 2.0 ** (10 * k) for k in range(-4, 5)])  # each at its own scale
        r = tomography.reconstruct(many, projector=P, iterations=16)
        for k, found in zip(range(-4, 5), r.final_residual, strict=True):
            assert found / 2.0 ** (10 * k) == pytest.approx(r.final_residual[4], rel=1e-6)
            assert found / 2.0 ** (10 * k) <= room * exact
    with pytest.raises(ValueError, match="floats"):
        tomography.projector(angles_of(4), 8, vectors="float16", dtype="float64")


def test_gradients_stay_orthogonal_to_the_first() -> None:
    # Discs are smooth: the largest singular value comes back after some iterations where nothing keeps it away.
    b = tomography.projector(angles_of(180), 128, dtype="float64").project(disc(128, 0.3))
    exact = tomography.projector(angles_of(180), 128, dtype="float64")
    wanted = tomography.reconstruct(b, projector=exact, iterations=10, reorthogonalise=False).residual[10, 0]
    P = tomography.projector(angles_of(180), 128, values="float16")
    kept, free = (
        tomography.reconstruct(b, projector=P, iterations=10, reorthogonalise=r).residual[10, 0] for r in (True, False)
    )
    assert kept == pytest.approx(wanted, rel=0.02)
    assert free > 1.05 * wanted
    for other in ({"method": "sirt", "reorthogonalise": False}, {"method": "cgls", "relaxation": 0.5}):
        with pytest.raises(ValueError, match=next(iter(other.keys() - {"method"}))):
            tomography.reconstruct(b, projector=P, **other)


def test_orders_without_geometry() -> None:
    angles, image = angles_of(40), disc(32)
    hilbert = tomography.projector(angles, 32, format="list")
    wanted = hilbert.project(image)
    for order in ("natural", "spectral", "greedy", "clustered"):
        P = tomography.projector(angles, 32, order=order, columns=4, format="list")
        np.testing.assert_allclose(P.project(image), wanted, atol=2e-3)
        np.testing.assert_allclose(P.backproject(wanted), hilbert.backproject(wanted), rtol=2e-4, atol=2e-3)
        # The whole matrix is about one block of 1024 rows: there is nothing to gain.
        assert P.operator.order == ("natural" if order == "clustered" else order)
        if P.operator.order != "natural":
            assert P.operator.reuse(64) > tomography.projector(
                angles, 32, order="natural", format="list"
            ).operator.reuse(64)
    rng = np.random.default_rng(0)
    a = hilbert.operator.to_scipy()[rng.permutation(1280)][:, rng.permutation(1024)]
    A = tacit.tiled(a, order="spectral", cluster_rows=64)
    assert abs(A.to_scipy() - a).max() == 0
    found = tacit.layout.cluster(a, 64, "spectral")
    before, after = tacit.layout.reuse(a, 64), tacit.layout.reuse(a, 64, found.rows)
    assert after == pytest.approx(A.reuse(64))
    assert after > 1.5 * before
    assert tacit.layout.reuse(a, 64, found.columns, columns=True) > 1.5 * tacit.layout.reuse(a, 64, columns=True)
    for wrong in (
        lambda: tacit.layout.reuse(a, 64, [0, 0]),
        lambda: tacit.tiled(a, order="rcm"),
        lambda: tacit.tiled(a, cluster_rows=64),  # of an order that has none
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            wrong()


def test_hilbert_orders() -> None:
    for size in ((3, 5), (4, 4, 4), (7, 2, 5)):
        assert sorted(tacit.layout.hilbert(size).tolist()) == list(range(int(np.prod(size))))
    points = np.random.default_rng(0).random((4096, 3))
    order = tacit.layout.hilbert(points)
    steps = np.linalg.norm(np.diff(points[order], axis=0), axis=1)
    assert np.sort(order).tolist() == list(range(4096))
    assert steps.mean() < 0.2 * np.linalg.norm(np.diff(points, axis=0), axis=1).mean()
    with pytest.raises(ValueError, match="shape"):
        tacit.layout.hilbert(np.zeros((4, 4)))


def test_ranks_agree() -> None:
    angles, image = angles_of(20), disc(24)
    one = tomography.reconstruct(tomography.projector(angles, 24).project(image), angles, iterations=4)

    def rank(comm: Any) -> Any:
        P = tomography.projector(angles, 24, comm=comm, groups=(2,), minibatch=1)
        r = tomography.reconstruct(P.project(image), projector=P, iterations=4)
        return r.images, P.operator.volumes()

    for images, volumes in tacit.comm.run_threads(4, rank):
        np.testing.assert_allclose(images, one.images, atol=1e-3)
        assert [v["group"] for v in volumes] == [2, 4]
        assert volumes[1]["touched"] < volumes[0]["touched"]


def test_finds_the_axis() -> None:
    angles = angles_of(90)
    for centre in (32.0, 29.25, 36.5):
        sinogram = tomography.projector(angles, 64, centre=centre, image=48).project(disc(48, 0.3))
        assert tomography.find_centre(sinogram, angles) == pytest.approx(centre, abs=0.5)


def test_refuses_what_does_not_fit() -> None:
    P = tomography.projector(angles_of(10), 12)
    for call in (
        lambda: P.project(np.zeros((11, 12))),
        lambda: tomography.reconstruct(np.zeros((9, 12)), projector=P),
        lambda: tomography.reconstruct(np.zeros((10, 12))),
        lambda: tomography.reconstruct(np.zeros((10, 12)), projector=P, method="fbp"),
        lambda: tomography.reconstruct(np.zeros((10, 12)), projector=P, batch=0),
        lambda: tomography.projector([], 5),
        lambda: tomography.projector([0.0], 5, values="int8"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            call()
    with pytest.raises(TypeError):
        tomography.reconstruct(np.zeros((10, 12)), projector=P, centre=3)


def test_tiled_operators_are_operators() -> None:
    a = sp.random_array((70, 50), density=0.2, rng=0, format="csr")
    A = tacit.tiled(a, format="bitmap", block_rows=9)
    x = np.random.default_rng(0).random((50, 7))
    np.testing.assert_allclose(A @ x, a @ x, atol=1e-12)
    np.testing.assert_allclose(A.H @ (A @ x), a.T @ (a @ x), atol=1e-10)
    assert A.nnz == a.nnz
    assert A.reuse(1) == 1
    assert A.reuse(70) > 2
    assert "bitmap" in A.storage
    with pytest.raises(TypeError):
        tacit.tiled(a.astype(complex))


def test_an_axis_beside_the_detector_is_refused(tmp_path: Path) -> None:
    scan(tmp_path / "scan.h5")
    for centre in ("1e9", "-0.5", "32.5"):
        done = run("reconstruct", str(tmp_path / "scan.h5"), f"--centre={centre}", "--output", str(tmp_path / "o.npy"))
        assert done.returncode == 2, done.stderr
        assert "0 to 32" in done.stderr
        assert not (tmp_path / "o.npy").exists()
    # A projector may have any axis; a reconstruction needs rays that meet the image.
    b = np.ones((12, 16))
    with pytest.raises(ValueError, match=r"no ray meets the image.*-11\.3.* to 27\.3"):
        tomography.reconstruct(b, angles_of(12), centre=1e9)
    with pytest.raises(ValueError, match="no ray meets the image"):
        tomography.reconstruct(b, projector=tomography.projector(angles_of(12), 16, centre=-1e9))


def test_interrupt_keeps_what_there_is() -> None:
    P = tomography.projector(angles_of(30), 32)
    b = P.project(disc(32))

    def after(state: Any) -> bool:
        if state.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    if threading.current_thread() is threading.main_thread():
        r = tomography.reconstruct(b, projector=P, iterations=50, callback=after)
        assert r.interrupted
        assert 2 <= r.slice_iterations[0] < 50
        assert np.abs(r.images).max() > 0


def test_one_ranks_wish_ends_all_batches() -> None:
    def rank(comm: Any) -> Any:
        P = tomography.projector(angles_of(12), 16, comm=comm)
        b = P.project(np.stack([disc(16)] * 5))
        r = tomography.reconstruct(
            b, projector=P, batch=1, iterations=6, callback=lambda s: comm.rank == 1 and s.slices.start == 2
        )
        return r.end, r.slice_iterations

    first, second = tacit.comm.run_threads(2, rank)
    assert first == second
    assert first[0] == ["iterations"] * 2 + ["callback"] * 3
    assert first[1] == [6, 6, 0, 0, 0]


def test_ctrl_c_counts_within_and_between() -> None:
    with tomography.interrupts() as outer:
        signal.raise_signal(signal.SIGINT)  # raises nothing
        assert outer()
        P = tomography.projector(angles_of(10), 12)
        r = tomography.reconstruct(P.project(np.stack([disc(12)] * 3)), projector=P, batch=1)
        assert r.interrupted
        assert r.end == ["callback"] * 3
    with tomography.interrupts() as pressed:
        signal.raise_signal(signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_scales_do_not_matter() -> None:
    for dtype, factors in (("float64", (2.0**-700, 2.0**700)), ("float32", (2.0**-90, 2.0**90))):
        P = tomography.projector(angles_of(20), 24, dtype=dtype)
        b = P.project(disc(24))
        for method in ("cgls", "sirt"):
            one = tomography.reconstruct(b, projector=P, method=method, iterations=5)
            for factor in factors:
                r = tomography.reconstruct(b * P.dtype.type(factor), projector=P, method=method, iterations=5)
                assert r.end == ["iterations"]
                np.testing.assert_array_equal(r.images, one.images * P.dtype.type(factor))
                np.testing.assert_allclose(r.residual / factor, one.residual, rtol=1e-12)
                np.testing.assert_allclose(r.final_residual[0] / factor, one.final_residual[0], rtol=1e-12)


def test_rays_far_away_meet_nothing() -> None:
    for centre, pixel in ((1e13, 1.0), (-1e13, 1.0), (8.0, 1e-12), (8.0, 1e12)):
        P = tomography.projector(angles_of(8), 16, centre=centre, pixel=pixel)
        assert P.nnz == (0 if pixel != 1e12 else P.nnz)
        assert np.isfinite(P.project(np.ones((16, 16)))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rays_beside_the_image_are_nothing(dtype: str) -> None:
    """Their sums are exactly zero and not rounding errors, since SIRT divides by the sums of rows."""
    theta, ones = np.arange(11) * np.pi / 11, np.ones((1, 13, 13))
    images = []
    for form in ("computed", "list"):
        P = tomography.projector(theta, 48, image=13, dtype=dtype, format=form)
        seen = P.project(ones)
        images.append((seen == 0, tomography.reconstruct(seen, projector=P, method="sirt", iterations=5).images))
    assert images[0][0].sum() > 200
    assert (images[0][0] == images[1][0]).all()
    np.testing.assert_allclose(images[0][1], images[1][1], atol=1e-4 if dtype == "float32" else 1e-10)
