"""Projectors, reconstructions and scans, against known properties."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import LONG
from conftest import ALLOW, ROOT

import tacit
from tacit import cli, tomography
from tacit._described import RECONSTRUCT
from tacit._support import using_threads
from tacit.app import scans

h5py = pytest.importorskip("h5py")
SHARED = Path(os.environ.get("TACIT_TEST_SHARED", ROOT.parent / "shared")) / "data"


def disc(n: int, radius: float = 0.35) -> np.ndarray:
    y, x = np.mgrid[:n, :n] + 0.5 - n / 2
    return (np.hypot(x - 2, y) < radius * n).astype(np.float32)


def angles_of(count: int) -> np.ndarray:
    return np.arange(count) * np.pi / count


def scan(path: Path, n: int = 32, slices: int = 5, centre: float = 17.5) -> tuple[np.ndarray, np.ndarray]:
    """A Data Exchange file of discs; its angles and its images."""
    angles = angles_of(40)
    P = tomography.projector(angles, n, centre=centre)
    images = np.stack([disc(n, 0.2 + 0.03 * s) for s in range(slices)]) * 0.02
    sinograms = P.project(images)
    with h5py.File(path, "w") as f:
        white = np.full((3, slices, n), 1000, np.float32)
        dark = np.full((2, slices, n), 10, np.float32)
        f["exchange/data"] = (10 + 990 * np.exp(-sinograms)).transpose(1, 0, 2).astype(np.float32)
        f["exchange/data_white"], f["exchange/data_dark"] = white, dark
        f["exchange/theta"] = np.rad2deg(angles)
    return angles, images


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


def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        [sys.executable, "-m", "tacit", *words], capture_output=True, text=True, env=environment, timeout=LONG, **more
    )


@pytest.mark.parametrize("suffix", ["tif", "h5", "npy"])
def test_command_line(tmp_path: Path, suffix: str) -> None:
    from PIL import Image

    _, images = scan(tmp_path / "scan.h5")
    out = tmp_path / f"out.{suffix}"
    done = run(
        *("reconstruct", str(tmp_path / "scan.h5"), "--centre", "17.5", "--batch", "2", "--iterations", "20"),
        *("--output", str(out), "--preview", str(tmp_path / "p.png"), "--json", str(tmp_path / "r.json"), "--monitor"),
    )
    assert done.returncode == 0, done.stderr
    if suffix == "npy":
        found = np.load(out)
    elif suffix == "h5":
        with h5py.File(out) as f:
            found = f["exchange/data"][:]
    else:
        with Image.open(out) as stack:
            found = np.stack([np.array(stack) for i in range(stack.n_frames) if stack.seek(i) is None])
    assert found.shape == images.shape
    assert np.abs(found - images).mean() < 0.12 * images.mean()
    facts = json.loads((tmp_path / "r.json").read_text())
    assert facts["slices"] == 5
    assert facts["image_shape"] == [32, 32]
    assert facts["reason"] == "done"
    assert facts["nonzeros"] > 0
    assert len(facts["residual_history"]) == 5
    assert len(facts["residual_history"][0]) == 21
    assert set(facts["seconds"]) == {"read", "build", "solve"}
    assert facts["peak_memory_bytes"] > 0
    assert "iteration 20 of 20" in done.stderr
    with Image.open(tmp_path / "p.png") as picture:
        assert picture.size == (32, 32)


@pytest.mark.mpi
@pytest.mark.skipif(not tacit.comm.library(), reason="a build without MPI")
def test_grid_of_ranks(tmp_path: Path) -> None:
    _, images = scan(tmp_path / "scan.h5")
    out = tmp_path / "out.npy"
    done = run(
        *("reconstruct", str(tmp_path / "scan.h5"), "--centre", "17.5", "--batch", "2", "--iterations", "20"),
        *("--ranks", "4", "--grid", "2x2", "--threads", "1", "--output", str(out), "--json", str(tmp_path / "r.json")),
    )
    assert done.returncode == 0, done.stderr
    assert np.abs(np.load(out) - images).mean() < 0.12 * images.mean()
    assert json.loads((tmp_path / "r.json").read_text())["grid"] == [2, 2]


@pytest.mark.slow
def test_raw_files_and_wrong_use(tmp_path: Path) -> None:
    P = tomography.projector(angles_of(12), 16)
    P.project(disc(16)).tofile(tmp_path / "s.bin")
    angles_of(12).astype("<f4").tofile(tmp_path / "t.bin")
    raw = ["reconstruct", "--sinogram", str(tmp_path / "s.bin"), "--theta", str(tmp_path / "t.bin")]
    assert run(*raw, "--shape", "12,16", "--output", str(tmp_path / "x.png")).returncode == 0
    for words, code in (
        (raw, 2),
        ([*raw, "--shape", "12,15"], 4),
        ([*raw, "--shape", "11,16"], 4),
        ([*raw, "--shape", "12,16", "--slices", "3:4"], 2),
        ([*raw, "--shape", "12,16", "--data", "counts"], 2),
        ([*raw, "--shape", "12,16", "--dark", "0"], 2),
        ([*raw, "--shape", "12,16", "--nonnegative"], 2),
        ([*raw, "--shape", "12,16", "--relaxation", "0.5"], 2),
        ([*raw, "--shape", "12,16", "--method", "sirt", "--no-reorthogonalisation"], 2),
        (["reconstruct"], 2),
        (["reconstruct", str(tmp_path / "none.h5")], 4),
        (["reconstruct", str(tmp_path / "s.bin")], 4),
    ):
        done = run(*words)
        assert done.returncode == code, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) <= 2
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_scans_that_do_not_say_what_they_hold(tmp_path: Path) -> None:
    """Counts without white and dark frames, and scans without angles, are not guessed at silently."""
    angles, images = scan(tmp_path / "whole.h5")

    def without(*names: str, **more: Any) -> str:
        path = tmp_path / f"{'_'.join(names)}{len(more)}.h5"
        path.write_bytes((tmp_path / "whole.h5").read_bytes())
        with h5py.File(path, "r+") as f:
            for name in (*names, *more):
                del f["exchange"][name]
            for name, value in more.items():
                f["exchange"][name] = value
        return str(path)

    def images_of(path: str, *words: str) -> Any:
        out = tmp_path / "images.npy"
        out.unlink(missing_ok=True)
        done = run(
            *("reconstruct", path, "--centre", "17.5", "--iterations", "20", "--output", str(out)),
            *("--json", str(tmp_path / "r.json"), *words),
        )
        return done, np.load(out) if out.exists() else None

    def near(found: Any) -> bool:
        return found is not None and bool(np.abs(found - images).mean() < 0.12 * images.mean())

    for path, missing in (
        (without("data_white"), "data_white"),
        (without("data_dark"), "data_dark"),
        (without("data_white", "data_dark"), "data_white"),
        (without(data_white=np.zeros((0, 5, 32), np.float32)), "data_white"),
    ):
        done, found = images_of(path)
        assert done.returncode == 4, (path, done.stderr)
        assert found is None
        assert f"no /exchange/{missing}" in done.stderr
        assert f"--{missing.removeprefix('data_')}" in done.stderr
        assert "--data" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1

    # The user says what they are.
    done, found = images_of(without("data_white", "data_dark"), "--white", "1000", "--dark", "10")
    assert done.returncode == 0, done.stderr
    assert near(found)
    done, found = images_of(without("data_dark"), "--dark", "10")
    assert near(found)
    assert json.loads((tmp_path / "r.json").read_text())["warnings"] == []
    with h5py.File(tmp_path / "whole.h5") as f:
        share = (f["exchange/data"][:] - 10) / 990
    for name, data in (("transmission", share), ("line-integrals", -np.log(share))):
        path = without("data_white", "data_dark", data=data)
        done, found = images_of(path, "--data", name)
        assert done.returncode == 0, done.stderr
        assert near(found)

    # For missing angles an assumption is made, with a warning; others can be given.
    done, found = images_of(without("theta"))
    assert done.returncode == 0, done.stderr
    assert near(found)
    (warning,) = json.loads((tmp_path / "r.json").read_text())["warnings"]
    for said in ("no /exchange/theta", "40 angles", "0 to 180 degrees", "--theta"):
        assert said in warning
        assert said in " ".join(done.stdout.split())
    (2 * angles).astype("<f4").tofile(tmp_path / "theta.bin")
    done, found = images_of(without("theta"), "--theta", str(tmp_path / "theta.bin"))
    assert done.returncode == 0, done.stderr
    assert not near(found)
    assert json.loads((tmp_path / "r.json").read_text())["warnings"] == []
    for words in (
        ("--data", "counts", "--theta", str(tmp_path / "none.bin")),
        ("--theta", str(tmp_path / "whole.h5")),
    ):
        assert images_of(without("theta"), *words)[0].returncode == 4
    for words in (("--data", "transmission", "--white", "3"), ("--white", "10", "--dark", "10"), ("--data", "raw")):
        assert images_of(str(tmp_path / "whole.h5"), *words)[0].returncode == 2


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


def test_dead_bins_lie_between_live_ones() -> None:
    rng = np.random.default_rng(0)
    data, white, dark = rng.uniform(20, 90, (7, 2, 9)), np.full((3, 2, 9), 100.0), np.full((2, 2, 9), 10.0)
    share = (data - 10) / 90
    expected = -np.log(share)
    np.testing.assert_allclose(tomography.normalise(data, white, dark), expected, rtol=1e-5)
    white[:, 1, 4] = 10  # between live ones
    white[:, 1, 0] = 5  # at an end
    found = tomography.normalise(data, white, dark)
    np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(found[:, 1, 4], -np.log((share[:, 1, 3] + share[:, 1, 5]) / 2), rtol=1e-5)
    np.testing.assert_allclose(found[:, 1, 0], expected[:, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(tomography.normalise(data[:, 1], white[:, 1], dark[:, 1]), found[:, 1], rtol=1e-5)
    data[2, 0, 3] = np.nan
    assert np.isnan(tomography.normalise(data, white, dark)[2, 0, 3])
    with pytest.raises(ValueError, match="dark"):
        tomography.normalise(data, dark, dark)


def test_scans_that_cannot_be_right(tmp_path: Path) -> None:
    """An error of one line, without a traceback, and no images that are reported as done."""
    from tacit.app import scans

    def changed(name: str, change: Any) -> str:
        path = tmp_path / f"{name}.h5"
        scan(path, n=16, slices=3)
        with h5py.File(path, "r+") as f:
            change(f["exchange"])
        return str(path)

    def replace(key: str, value: Any) -> Any:
        def change(group: Any) -> None:
            del group[key]
            if value is not None:
                group[key] = value

        return change

    def spoil(group: Any) -> None:
        group["data"][5, 1, 3] = np.nan

    def subgroup(group: Any) -> None:
        del group["data_white"]
        group.create_group("data_white")

    truncated = changed("truncated", lambda group: None)
    Path(truncated).write_bytes(Path(truncated).read_bytes()[:9000])
    bad_angles = np.rad2deg(angles_of(40))
    bad_angles[3] = np.nan
    for path in (
        truncated,
        changed("angles", replace("theta", bad_angles)),
        changed("few", replace("theta", np.zeros(0))),
        changed("words", replace("data", np.array([b"a", b"b"]))),
        changed("flat", replace("data", np.zeros((40, 16)))),
        changed("none", replace("data", None)),
        changed("dark", replace("data_white", np.full((2, 3, 16), 10.0))),
        changed("shape", replace("data_white", np.full((2, 3, 15), 10.0))),
        changed("group", subgroup),
    ):
        with pytest.raises(tacit.InputError):
            scans.DataExchange(path).read(0, 3)
    done = run("reconstruct", str(tmp_path / "dark.h5"))
    assert done.returncode == 4, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    out = tmp_path / "r.json"
    done = run(
        "reconstruct", changed("nan", spoil), "--dead", "none", "--json", str(out), "--output", str(tmp_path / "o.npy")
    )
    assert done.returncode == 3, done.stderr
    facts = json.loads(out.read_text())
    assert facts["reason"] == "non_finite"
    assert facts["reasons"] == ["iterations", "non_finite", "iterations"]
    assert np.isfinite(np.load(tmp_path / "o.npy")).all()
    assert "slices 1" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "tomography/tooth.h5").exists(), reason="the data are not here")
def test_tooth() -> None:
    from tacit.app import scans

    s = scans.DataExchange(str(SHARED / "tomography/tooth.h5"))
    r = tomography.reconstruct(s.read(0, 1)[0], s.angles, centre=296, iterations=10)
    gridrec = np.load(SHARED / "tomography/tooth_gridrec.npz")["slice0"]
    y, x = np.mgrid[:640, :640] - 320
    inside = x * x + y * y < (0.42 * 640) ** 2
    assert np.corrcoef(r.images[inside], gridrec[inside])[0, 1] >= 0.995


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


def test_help_says_what_reorthogonalisation_keeps() -> None:
    """An image is kept for each gradient: as many less without, in the help as in the default."""
    parser = cli.build_parser()
    commands = next(action for action in parser._subparsers._group_actions if action.choices).choices  # type: ignore
    options = commands["reconstruct"]._option_string_actions
    kept = RECONSTRUCT["reorthogonalise"].default
    assert options["--reorthogonalise"].help.endswith(f"[{kept}]")
    numbers = {"one image": 1, "two images": 2, "five images": 5}
    said = [count for words, count in numbers.items() if f"{words} less" in options["--no-reorthogonalisation"].help]
    assert said == [kept]


def spoilt_scan(path: Path, change: Any, slices: int = 3) -> None:
    """The scan of `scan` with white noise of one count, changed by `change(exchange, data)`."""
    scan(path, slices=slices)
    with h5py.File(path, "r+") as f:
        data = np.rint(f["exchange/data"][()] + np.random.default_rng(0).normal(0, 1, f["exchange/data"].shape))
        f["exchange/data"][...] = data
        change(f["exchange"])


@pytest.mark.parametrize(
    "units",
    ["rad", "Radians", "RAD", " rad", "[rad]", "(radian)", np.bytes_("radians"), np.array([b"rad"]), "Degrees", "DEG"]
    + ["\u00b0", np.array([b"deg"]), np.array(["degrees"], object), np.array([], "S3")],
)
def test_units_of_angles(tmp_path: Path, units: Any) -> None:
    angles, _ = scan(tmp_path / "s.h5", slices=1)
    with h5py.File(tmp_path / "s.h5", "r+") as f:
        theta = f["exchange/theta"]
        theta[...] = angles if "rad" in str(units).lower() else np.degrees(angles)
        theta.attrs["units"] = units
    read = scans.DataExchange(str(tmp_path / "s.h5"))
    np.testing.assert_allclose(read.angles, angles, atol=1e-6)
    assert read.assumed == []


def test_doubtful_angles_of_a_scan_are_told(tmp_path: Path) -> None:
    def said(theta: Any, units: str) -> str:
        spoilt_scan(tmp_path / "s.h5", lambda _: None)
        with h5py.File(tmp_path / "s.h5", "r+") as f:
            f["exchange/theta"][...] = theta
            f["exchange/theta"].attrs["units"] = units
        read = scans.DataExchange(str(tmp_path / "s.h5"))
        read.close()
        return " ".join(read.assumed)

    turn = np.arange(40) * 4.5
    assert "look like degrees" in said(turn, "rad")
    assert "all 40 angles are 0" in said(np.zeros(40), "deg")
    assert "if these are radians" in said(np.radians(turn), "deg")
    assert 'units "turns"' in said(turn / 360, "turns")
    assert said(turn, "deg") == ""


def test_projections_never_taken_are_left_out(tmp_path: Path) -> None:
    def aborted(exchange: Any) -> None:
        data = exchange["data"][()]
        data[25:] = 0
        exchange["data"][...] = data

    def shutter(exchange: Any) -> None:
        exchange["data"][7] = 10 + np.random.default_rng(0).integers(0, 3, (3, 32))

    def nothing(exchange: Any) -> None:
        exchange["data"][...] = 0

    def missing(exchange: Any) -> None:
        # Half of a virtual dataset lies in a file that is not there.
        with h5py.File(tmp_path / "one.h5", "w") as f:
            f["d"] = exchange["data"][:20]
        layout = h5py.VirtualLayout((40, 3, 32), np.float32)
        layout[:20] = h5py.VirtualSource(str(tmp_path / "one.h5"), "d", (20, 3, 32))
        layout[20:] = h5py.VirtualSource(str(tmp_path / "none.h5"), "d", (20, 3, 32))
        del exchange["data"]
        exchange.create_virtual_dataset("data", layout, fillvalue=np.nan)

    for change, kept, text in (
        (aborted, range(25), "15 of 40 projections are empty or without beam (25 to 39"),
        (shutter, [i for i in range(40) if i != 7], "1 of 40 projections are empty or without beam (7,"),
        (missing, range(20), "20 of 40 projections"),
    ):
        spoilt_scan(tmp_path / "s.h5", change)
        read = scans.DataExchange(str(tmp_path / "s.h5"))
        np.testing.assert_allclose(read.angles, angles_of(40)[list(kept)], atol=1e-6)
        assert read.read(0, 3).shape == (3, len(kept), 32)
        assert np.isfinite(read.read(0, 3)).all()
        assert text in " ".join(read.assumed)
        read.close()
    spoilt_scan(tmp_path / "s.h5", nothing)
    with pytest.raises(ValueError, match="none of the 40 projections"):
        scans.DataExchange(str(tmp_path / "s.h5"))


def test_zero_counts_are_interpolated(tmp_path: Path) -> None:
    def zeros(exchange: Any) -> None:
        exchange["data"][5, 1, 9] = 0
        exchange["data"][6, 1, 12:14] = 10  # as dark as without beam
        exchange["data"][9, 2, 10:20] = 0  # an opaque part stays

    spoilt_scan(tmp_path / "good.h5", lambda _: None)
    spoilt_scan(tmp_path / "s.h5", zeros)
    done = run("reconstruct", str(tmp_path / "s.h5"), "--json", str(tmp_path / "o.json"), "--iterations", "1")
    assert done.returncode == 0, done.stderr
    assert "3 values without counts are interpolated" in done.stdout
    assert "3 values" in json.loads((tmp_path / "o.json").read_text())["warnings"][-1]
    good, found = (scans.DataExchange(str(tmp_path / name)).read(0, 3) for name in ("good.h5", "s.h5"))
    assert np.abs(found[:2] - good[:2]).max() < 0.05
    assert found[2, 9, 15] > 10


def test_a_sample_wider_than_the_detector_is_told(tmp_path: Path) -> None:
    angles = angles_of(40)
    wide = tomography.projector(angles, 32, image=64, centre=17.5).project(disc(64) * 0.02)
    for name, s in (("wide", wide), ("whole", tomography.projector(angles, 32).project(disc(32) * 0.02))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as f:
            f["exchange/data"] = s[:, None]
            f["exchange/theta"] = np.degrees(angles)
        told = " ".join(scans.DataExchange(str(tmp_path / f"{name}.h5"), data="line-integrals").assumed)
        assert ("wider than the detector" in told) == (name == "wide")


def test_an_axis_is_taken_from_a_slice_that_has_one(tmp_path: Path) -> None:
    def air(exchange: Any) -> None:
        exchange["data"][:, 2] = 1000 + np.random.default_rng(1).integers(-20, 20, (40, 32))

    spoilt_scan(tmp_path / "s.h5", air, slices=5)
    done = run("reconstruct", str(tmp_path / "s.h5"), "--centre", "auto", "--json", "-", "--iterations", "1")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["centre"] == pytest.approx(17.5, abs=0.3)
    assert 0 < facts["centre_uncertainty"] < 0.25
    assert "slice 2" in " ".join(facts["warnings"])
    with h5py.File(tmp_path / "s.h5", "r+") as f:
        f["exchange/data"][...] = 1000 + np.random.default_rng(1).integers(-20, 20, (40, 5, 32))
    done = run("reconstruct", str(tmp_path / "s.h5"), "--centre", "auto")
    assert done.returncode == 4
    assert "the axis was not found" in done.stderr
    assert "--centre BINS" in done.stderr


@pytest.mark.parametrize("big", [False, True])
def test_tiff_files_in_any_order(tmp_path: Path, big: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    if big:
        monkeypatch.setattr(scans, "_big", lambda slices, shape: True)
    images = np.random.default_rng(0).random((5, 7, 9), np.float32)
    writer = scans.Writer(str(tmp_path / "v.tif"), 5, (7, 9))
    for first, last in ((3, 5), (0, 2), (2, 3)):
        writer.write(first, images[first:last])
    writer.close()
    assert (tmp_path / "v.tif").read_bytes()[2] == (43 if big else 42)
    with Image.open(tmp_path / "v.tif") as file:
        assert file.n_frames == 5
        for i in (4, 0, 1, 2, 3):
            file.seek(i)
            np.testing.assert_array_equal(np.asarray(file), images[i])


def test_tiff_files_from_4_gib_on_are_bigtiff() -> None:
    pixels = (1024, 1024)
    assert [scans.tiff_header(n, pixels)[0][2] for n in (1, 1023, 1024, 4000)] == [42, 42, 43, 43]
    # Its last directory lies above 4 GiB and points to what follows it.
    begin, step = scans.tiff_header(4000, pixels)
    last = scans.tiff_directory(3999, 4000, pixels)
    assert int.from_bytes(last[8 + 20 * 5 + 12 : 8 + 20 * 6], "little") == len(begin) + 3999 * step + len(last)
    assert last[-8:] == bytes(8)


@pytest.mark.parametrize("suffix", ["npy", "tif", "h5"])
def test_a_full_disk_is_found_before_the_first_image(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, first: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"bytes are needed") as found:
        scans.Writer(str(tmp_path / f"v.{suffix}"), 4, (8, 8))
    assert found.value.filename == str(tmp_path / f"v.{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["npy", "tif", "h5"])
def test_a_disk_that_fills_meanwhile_ends_with_the_name(tmp_path: Path, suffix: str) -> None:
    angles = angles_of(20)
    np.zeros((40, 20, 64), "<f4").tofile(tmp_path / "s.bin")
    angles.astype("<f4").tofile(tmp_path / "t.bin")
    # A limit of the size of files acts like a full disk.
    words = [sys.executable, "-m", "tacit", "reconstruct", "--sinogram", str(tmp_path / "s.bin"), "--theta"]
    words += [
        str(tmp_path / "t.bin"),
        "--shape",
        "20,64",
        "--output",
        str(tmp_path / f"v.{suffix}"),
        "--iterations",
        "1",
    ]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env=os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)),
        timeout=LONG,
    )
    assert done.returncode == 5, done.stderr
    assert f"v.{suffix}: " in done.stderr
    assert ("File too large" in done.stderr) == (suffix != "h5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.bin", "t.bin"]


def test_sigterm_removes_the_temporary_file(tmp_path: Path) -> None:
    angles = angles_of(90)
    tomography.projector(angles, 128).project(disc(128)[None]).astype("<f4").tofile(tmp_path / "s.bin")
    angles.astype("<f4").tofile(tmp_path / "t.bin")
    words = [sys.executable, "-m", "tacit", "reconstruct", "--sinogram", str(tmp_path / "s.bin"), "--theta"]
    words += [str(tmp_path / "t.bin"), "--shape", "90,128", "--output", str(tmp_path / "v.npy"), "--threads", "1"]
    with subprocess.Popen(
        [*words, "--iterations", "1000000"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python")},
    ) as job:
        end = time.monotonic() + LONG
        while not list(tmp_path.glob(".tacit-*")) and time.monotonic() < end and job.poll() is None:
            time.sleep(0.05)
        assert list(tmp_path.glob(".tacit-*"))
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=LONG)
    assert job.returncode == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in said
    assert list(tmp_path.glob(".tacit-*")) == []
