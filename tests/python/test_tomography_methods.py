"""Methods made of products: fixed points, likelihoods and goals, dense references, and the noise that ends them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scans_of_discs import angles_of, disc
from scans_of_phantoms import correlation, counts, half_turn, image, sinogram, write_exchange

import tacit
from tacit import cli, tomography
from tacit.app import methods, noise, regularised, subsets
from tacit.app.preparation import AS_GIVEN

pytest.importorskip("h5py")


def dense(P: Any) -> Any:
    """The matrix of a projector, with rays and pixels as they are stored."""
    pixels = P.image_shape[0] * P.image_shape[1]
    return P.project(np.eye(pixels).reshape(pixels, *P.image_shape)).reshape(pixels, -1).T.astype(np.float64)


def small(n: int = 12, angles: int = 9, dtype: str = "float64") -> tuple[Any, Any, Any]:
    """(projector, image, sinogram)."""
    P = tomography.projector(angles_of(angles), n, dtype=dtype)
    x = disc(n).astype(dtype) + 0.2
    return P, x, P.project(x)


def test_subsets_are_all_angles_once() -> None:
    angles = np.random.default_rng(0).permutation(half_turn(23))
    for count in (1, 2, 5, 23):
        parts = subsets.order(angles, count)
        assert len(parts) == count
        assert sorted(np.concatenate(parts)) == list(range(23))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        for part in parts:  # from everywhere: no gap above twice the usual one
            gaps = np.diff(np.sort(angles[part]), append=np.sort(angles[part])[0] + np.pi)
            assert gaps.max() <= 2 * np.pi / len(part) + 1e-12
    with pytest.raises(ValueError, match="subsets is 24, and there are 23 angles"):
        subsets.order(angles, 24)


def test_a_subset_has_the_rows_of_the_matrix() -> None:
    P = tomography.projector(angles_of(7), 10, image=(8, 9), centre=4.2, pixel=1.1, dtype="float64", format="list")
    part = P.subset([5, 1])
    rows = dense(P).reshape(7, 10, -1)[[5, 1]].reshape(20, -1)
    np.testing.assert_allclose(dense(part), rows, atol=1e-12)
    assert part.storage == P.storage
    assert part.pixel == P.pixel


def test_sart_is_sirt_and_the_method_of_its_authors() -> None:
    P, _, b = small()
    rng = np.random.default_rng(1)
    b = b + 0.1 * rng.standard_normal(b.shape)
    how: dict[str, Any] = {"projector": P, "iterations": 4, "relaxation": 0.7}
    one = tomography.reconstruct(b, method="sart", subsets=1, **how)
    np.testing.assert_allclose(one.images, tomography.reconstruct(b, method="sirt", **how).images, atol=1e-12)
    # One angle at a time, with a dense matrix.
    A, x = dense(P).reshape(9, 12, -1), np.zeros(144)
    for _ in range(4):
        for part in subsets.order(P.angles, 9):
            a = A[part[0]]
            rows, columns = a.sum(1), a.sum(0)
            r = np.divide(b[part[0]] - a @ x, rows, out=np.zeros(12), where=rows > 0)
            x += 0.7 * np.divide(a.T @ r, columns, out=np.zeros(144), where=columns > 0)
    found = tomography.reconstruct(b, method="sart", subsets=9, **how)
    np.testing.assert_allclose(found.images.reshape(-1), x, atol=1e-12)
    assert found.final_residual[0] == pytest.approx(np.linalg.norm(b.reshape(-1) - dense(P) @ x))


@pytest.mark.parametrize("method", ["sart", "osem", "mlem"])
def test_a_solution_stays(method: str) -> None:
    P, x, b = small()
    r = tomography.reconstruct(b, projector=P, method=method, start=x, iterations=3)
    np.testing.assert_allclose(r.images, x, atol=1e-12)
    assert r.history.max() < 1e-10 or r.residual.max() < 1e-10


def test_mlem_raises_the_likelihood_and_keeps_the_sum() -> None:
    P, x, _ = small(16, 20)
    b = np.random.default_rng(2).poisson(20 * P.project(x)).astype(float)
    inverse = P.backproject(np.ones(P.sinogram_shape))
    likelihoods = []
    for iterations in range(1, 8):
        r = tomography.reconstruct(b, projector=P, method="mlem", iterations=iterations)
        y = P.project(r.images)
        seen = b > 0
        likelihoods.append(float((b[seen] * np.log(y[seen])).sum() - y.sum()))
        assert (r.images * inverse).sum() == pytest.approx(b.sum())
        assert r.images.min() >= 0
    assert (np.diff(likelihoods) > 0).all()
    same = tomography.reconstruct(b, projector=P, method="osem", subsets=1, iterations=7)
    np.testing.assert_allclose(same.images, r.images, rtol=1e-12)
    faster = tomography.reconstruct(b, projector=P, method="osem", subsets=5, iterations=3)
    slower = tomography.reconstruct(b, projector=P, method="mlem", iterations=3)
    assert faster.final_residual[0] < slower.final_residual[0]


def test_factors_take_what_is_below_zero_as_zero() -> None:
    P, x, b = small()
    low = b.copy()
    low[0, :3] = -5
    zero = np.where(low > 0, low, 0)
    how: dict[str, Any] = {"projector": P, "method": "mlem", "iterations": 5}
    np.testing.assert_array_equal(tomography.reconstruct(low, **how).images, tomography.reconstruct(zero, **how).images)
    start = x.copy()
    start[:2] = -1  # would stay
    r = tomography.reconstruct(b, start=start, **(how | {"iterations": 200}))
    assert r.images[:2].mean() > 0.1
    assert not tomography.reconstruct(0 * b, **how).images.any()
    spoilt = np.stack([b, b])
    spoilt[1, 2, 2] = np.nan
    r = tomography.reconstruct(spoilt, **how)
    assert r.end == ["iterations", "non_finite"]
    np.testing.assert_allclose(r.images[0], tomography.reconstruct(b, **how).images, rtol=1e-12)


def test_gradients_and_stacks_have_their_adjoints() -> None:
    rng = np.random.default_rng(3)
    x, g = rng.standard_normal((5, 7)), rng.standard_normal((2, 5, 7))
    assert (regularised.gradient(x) * g).sum() == pytest.approx(-(x * regularised.divergence(g)).sum())
    assert not regularised.gradient(np.ones((5, 7))).any()
    P, _, b = small()
    w, v = rng.random(b.shape), rng.random(P.image_shape)
    for penalty in methods.PENALTIES:
        K = regularised.stack(P, w, v, penalty)
        x, y = rng.standard_normal(K.shape[1]), rng.standard_normal(K.shape[0])
        assert y @ (K @ x) == pytest.approx((K.H @ y) @ x)


def difference_matrix(shape: tuple[int, int]) -> Any:
    pixels = shape[0] * shape[1]
    return np.stack([regularised.gradient(e.reshape(shape)).reshape(-1) for e in np.eye(pixels)], axis=1)


@pytest.mark.parametrize("penalty", ["gradient", "image"])
def test_tikhonov_is_the_dense_solution(penalty: str) -> None:
    P, x, b = small()
    rng = np.random.default_rng(4)
    sigma = 0.05 + 0.1 * rng.random(b.shape)
    b = b + sigma * rng.standard_normal(b.shape)
    r = tomography.reconstruct(
        b, projector=P, method="tikhonov", deviations=sigma, start=x, iterations=30, regularisation=3.0, penalty=penalty
    )
    A, W = dense(P), 1 / sigma.reshape(-1) ** 2
    L = difference_matrix((12, 12)) if penalty == "gradient" else np.eye(144)
    rough = tomography.reconstruct(b, projector=P, method="cgls", deviations=sigma, iterations=100).images
    size = L @ rough.reshape(-1)
    weight = 3.0 * np.sqrt((A.T @ W).mean()) / np.sqrt((size**2).sum() / 144)
    expected = np.linalg.solve(A.T @ (W[:, None] * A) + weight * L.T @ L, A.T @ (W * b.reshape(-1)))
    np.testing.assert_allclose(r.images.reshape(-1), expected, atol=1e-6)


@pytest.mark.parametrize("method", ["tikhonov", "tv", "osem", "mlem"])
def test_starts_change_no_goal(method: str) -> None:
    """Images of 0 and of other sizes than the sample's once scaled the penalty, or stayed as they were."""
    P, x, b = small()
    how: dict[str, Any] = {"projector": P, "method": method, "iterations": 30}
    usual = tomography.reconstruct(b, **how).images
    starts = [0 * x, np.ones(x.shape)]
    if method in ("tikhonov", "tv"):  # the others end at an image near the start
        starts.append(10 * np.random.default_rng(6).random(x.shape))
    for start in starts:
        found = tomography.reconstruct(b, start=start, **how).images
        assert np.linalg.norm(found - usual) < 0.02 * np.linalg.norm(usual)


@pytest.mark.parametrize("method", ["tikhonov", "tv"])
def test_penalties_take_any_size_and_empty_slices(method: str) -> None:
    P, _, b = small()
    b, usual = b.astype(np.float32), tomography.reconstruct(b, projector=P, method=method).images
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (1e-25, 1e20):
            found = tomography.reconstruct(b * np.float32(size), P.angles, method=method).images / size
            assert np.linalg.norm(found - usual) < 0.02 * np.linalg.norm(usual)
        stack = np.stack([b, 0 * b, b])
        stack[2, 3, 4] = np.inf
        r = tomography.reconstruct(stack, P.angles, method=method)
        loud = tomography.reconstruct(b, P.angles, method=method, deviations=1e3)
    assert r.end == ["iterations", "iterations", "non_finite"]
    assert not r.images[1].any()
    assert loud.images.any()


def goal_of_tv(P: Any, b: Any, sigma: Any, x: Any, r: float) -> float:
    weight = r * np.sqrt(P.backproject(1 / np.square(sigma) * np.ones(b.shape)).mean())
    return float(0.5 * (((P.project(x) - b) / sigma) ** 2).sum() + weight * np.hypot(*regularised.gradient(x)).sum())


def by_primal_dual(P: Any, b: Any, sigma: float, r: float, iterations: int) -> Any:
    """min 1/2 |(b - A x) / sigma|^2 + l TV(x) by Chambolle and Pock's method with diagonal steps, with a
    dense matrix."""
    n, (rows, columns) = b.size, P.image_shape
    weight = r * np.sqrt(P.backproject(np.full(b.shape, 1 / sigma**2)).mean())
    scale = 3.0  # of the gradient, to the size of the rows of A
    K = np.concatenate([dense(P) / sigma, scale * difference_matrix(P.image_shape)])
    up, down = 1 / np.maximum(np.abs(K).sum(1), 1e-12), 1 / np.abs(K).sum(0)
    up[n:] = 1 / (2 * scale)
    x = ahead = np.zeros(rows * columns)
    y = np.zeros(len(K))
    for _ in range(iterations):
        y = y + up * (K @ ahead)
        y[:n] = (y[:n] - up[:n] * b.reshape(-1) / sigma) / (1 + up[:n])
        g = y[n:].reshape(2, -1)
        y[n:] = (g / np.maximum(1, np.hypot(*g) * scale / weight)).reshape(-1)
        new = x - down * (K.T @ y)
        ahead, x = 2 * new - x, new
    return x.reshape(rows, columns)


def test_tv_falls_to_the_least_goal() -> None:
    P, x, b = small(16, 12)
    sigma, r = 0.3, 2.0
    b = b + sigma * np.random.default_rng(5).standard_normal(b.shape)
    how: dict[str, Any] = {"projector": P, "method": "tv", "deviations": sigma, "regularisation": r}
    goals = [goal_of_tv(P, b, sigma, tomography.reconstruct(b, iterations=k, **how).images, r) for k in range(8)]
    assert (np.diff(goals) < 0).all()
    reference = by_primal_dual(P, b, sigma, r, 8000)
    least = goal_of_tv(P, b, sigma, reference, r)
    found = tomography.reconstruct(b, iterations=40, **how)
    assert abs(goal_of_tv(P, b, sigma, found.images, r) / least - 1) < 2e-4
    assert np.linalg.norm(found.images - reference) < 0.007 * np.linalg.norm(x)
    usual = tomography.reconstruct(b, **how)
    assert usual.slice_iterations == [methods.METHODS["tv"].iterations]
    assert goal_of_tv(P, b, sigma, usual.images, r) < 1.01 * least


def test_noise_of_counts_is_that_of_many_scans() -> None:
    """With a gain, a reading noise, and counts down to twenty."""
    rng = np.random.default_rng(6)
    beam, gain, reading = 60.0, 3.0, 4.0
    p = np.linspace(0, 1.1, 40)[None, None] * np.ones((30, 1, 1))

    def taken(mean: Any, frames: int) -> Any:
        shape = (frames, *mean.shape)
        return np.float32(gain * rng.poisson(mean, shape) + 100 + reading * rng.standard_normal(shape))

    found, real = [], []
    for _ in range(60):
        data = taken(beam * np.exp(-p), 1)[0]
        white, dark = taken(np.full((1, 40), beam), 10), taken(np.zeros((1, 40)), 10)
        found.append(noise.of_counts(data, white, dark))
        real.append(tomography.normalise(data, white, dark, 1e-6) - p)
    expected = np.sqrt(np.mean(np.square(found), axis=(0, 1, 2)))
    measured = np.sqrt(np.mean(np.square(real), axis=(0, 1, 2)))
    np.testing.assert_allclose(expected, measured, rtol=0.1)
    assert noise.of_counts(data, white[:1], dark) is None
    assert noise.of_counts(data, np.full((4, 1, 40), 99.0, np.float32), dark) is None


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan, 1e30])
def test_one_count_spoils_no_more_than_its_neighbours(wrong: float) -> None:
    rng = np.random.default_rng(8)
    data, white = (np.float32(rng.poisson(1000, (n, 1, 40))) for n in (60, 10))
    usual = noise.of_counts(data, white, white[:0])
    data[5, 0, 7] = white[2, 0, 11] = wrong
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = noise.of_counts(data, white, white[:0])
    assert found is not None
    assert usual is not None
    apart = np.abs(found / usual - 1) > 0.05
    apart[:, :, 11] = False  # the white frame's
    rows, _, bins = np.nonzero(apart)
    assert (np.abs(rows - 5) <= noise.ACROSS // 2).all()
    assert (np.abs(bins - 7) <= noise.ACROSS // 2).all()


def test_noise_of_a_sinogram_alone() -> None:
    p = sinogram(half_turn(180), 128, 64.0)
    for sigma in (0.02, 0.1):
        noisy = (p + sigma * np.random.default_rng(7).standard_normal(p.shape))[None]
        assert noise.estimated(noisy)[0, 0, 0] == pytest.approx(sigma, rel=0.05)
    assert noise.estimated(np.zeros((2, 9, 9))).shape == (2, 1, 1)


@pytest.mark.parametrize("method", ["cgls", "sirt", "sart", "mlem"])
def test_each_slice_ends_at_its_own_noise(method: str) -> None:
    P, x, b = small(32, 40, "float32")
    rng = np.random.default_rng(8)
    sigma = np.array([0.1, 1.0, 0.01])[:, None, None] * np.ones((3, *b.shape))
    many = b + sigma * rng.standard_normal(sigma.shape)
    how: dict[str, Any] = {"projector": P, "method": method, "iterations": 400}
    together = tomography.reconstruct(many, deviations=sigma, **how)
    norms = np.linalg.norm(sigma.reshape(3, -1), axis=1)
    assert together.end[:2] == ["discrepancy"] * 2
    assert together.slice_iterations[1] < together.slice_iterations[0] <= together.slice_iterations[2]
    for i in range(3):
        alone = tomography.reconstruct(many[i], deviations=sigma[i], **how)
        np.testing.assert_allclose(alone.images, together.images[i], atol=2e-4)
        np.testing.assert_allclose(alone.final_residual, together.final_residual[i], rtol=1e-3)
        k = together.slice_iterations[i]
        if together.end[i] == "discrepancy":
            assert together.residual[k, i] <= norms[i] * (1 + 1e-6) < together.residual[k - 1, i] * (1 + 2e-6)
            real = np.linalg.norm(many[i] - P.project(together.images[i]))
            assert together.final_residual[i] == pytest.approx(real, rel=1e-4)
    error = [np.linalg.norm(r - x) for r in together.images]
    assert error[2] < error[0] < error[1]


def test_dead_bins_and_opaque_parts_do_not_end_iterations(tmp_path: Path) -> None:
    t = half_turn(90)
    p = sinogram(t, 64, 32.0, 0.5)[:, None]
    correlations, iterations = [], []
    for spoilt in (False, True):
        data, white, dark = counts(p, 1e5)
        if spoilt:
            data[:, :, 34:36] = white[:, :, 34:36] = 100
        scan = tomography.open_scan(str(write_exchange(tmp_path / "s.h5", data, white, dark, t)))
        s, sigma = scan.measure(0, 1)
        scan.close()
        r = tomography.reconstruct(s, scan.angles, deviations=sigma)
        correlations.append(correlation(r.images[0], image(64, 0.5)))
        iterations.append(r.slice_iterations[0])
    assert iterations[1] >= iterations[0] - 1
    same = tomography.reconstruct(s, scan.angles, iterations=iterations[0])  # of the spoilt one
    assert correlations[1] > correlation(same.images[0], image(64, 0.5)) - 0.01
    sigma = np.full((2, 8, 8), 0.1)
    sigma[1, 3, 3] = 50
    assert noise.norms(sigma) == pytest.approx([0.8, np.sqrt(63 * 0.01 + 0.16)])


def test_options_that_a_method_does_not_have() -> None:
    P, _, b = small(8, 5)
    for method, option, told in (
        ("cgls", {"subsets": 3}, "subsets 3 is an option of sart, osem; cgls has none"),
        ("sart", {"regularisation": 3}, "regularisation 3 is an option of tikhonov, tv; sart has none"),
        ("tv", {"l_curve": True}, "l_curve True is an option of cgls, sirt; tv has none"),
        ("tv", {"nonnegative": True}, "nonnegative True is an option of sirt, sart; tv has none"),
        ("tv", {"penalty": "image"}, "penalty image is an option of tikhonov; tv has none"),
        ("mlem", {"relaxation": 0.5}, "relaxation 0.5 is an option of sirt, sart; mlem has none"),
        ("sart", {"relaxation": 2.0}, r"relaxation is 2.0; a number in \(0, 2\) is needed"),
        ("sart", {"subsets": 0}, "subsets is 0; at least 1 subset is needed"),
        ("sart", {"subsets": 6}, "subsets is 6, and there are 5 angles"),
        ("tv", {"regularisation": 0.0}, "regularisation is 0.0; a number > 0 is needed"),
        ("tikhonov", {"penalty": "edges"}, "unknown penalty 'edges'"),
        ("tvv", {}, "unknown method 'tvv'"),
        ("sart", {"deviations": 0.1, "discrepancy": 2.0}, "deviations and discrepancy 2.0 are given"),
        ("tv", {"deviations": 0.0}, "deviations has 0; positive, finite numbers"),
        ("tv", {"deviations": np.ones((2, 2))}, r"deviations has shape \(2, 2\), and sinograms \(5, 8\)"),
    ):
        with pytest.raises(ValueError, match=told):
            tomography.reconstruct(b, projector=P, method=method, **option)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["cgls", "sart", "tv"])
def test_what_a_callback_of_a_rank_raises_is_raised_on_all(method: str) -> None:
    angles = angles_of(8)
    b = tomography.projector(angles, 10).project(disc(10)).astype(np.float32)

    def on(comm: Any) -> tuple[str, int]:
        with pytest.raises(ZeroDivisionError, match="rank 1") as told:
            tomography.reconstruct(
                b, angles, method=method, iterations=2, comm=comm, callback=lambda _: comm.rank == 1 and 1 / 0
            )
        return str(told.value), int(comm.all_sum(1))

    assert len(set(tacit.comm.run_threads(2, on))) == 1


def test_ranks_and_callbacks() -> None:
    angles, x = angles_of(24), disc(20)
    b = tomography.projector(angles, 20).project(x) + 0.1 * np.random.default_rng(9).standard_normal((24, 20))
    pairs = [("sart", 3), ("osem", 2), ("mlem", 4), ("tikhonov", 2), ("tv", 2)]
    b = b.astype(np.float32)

    def on(comm: Any) -> list[Any]:
        how: dict[str, Any] = {"comm": comm, "deviations": 0.05}
        return [tomography.reconstruct(b, angles, method=m, iterations=k, **how).images for m, k in pairs]

    alone = on(tacit.comm.self_())
    for rank in tacit.comm.run_threads(3, on):
        for mine, one in zip(rank, alone, strict=True):
            np.testing.assert_allclose(mine, one, atol=2e-3)
    for method, _ in pairs:
        seen: list[int] = []

        def stop(state: Any, seen: list[int] = seen) -> bool:
            seen.append(state.iteration)
            assert len(state.residual) == len(state.slices)
            return len(seen) == 2

        r = tomography.reconstruct(np.stack([b, b, b]), angles, method=method, callback=stop)
        assert seen == [0, 1]
        assert r.reason == "stopped"
        assert r.end == ["callback"] * 3


@pytest.mark.slow
def test_low_counts_are_no_noise(tmp_path: Path) -> None:
    """100 counts without the sample, sensitivities that differ by 5 %: the image, not the noise."""
    t = half_turn(180)
    p = sinogram(t, 128, 64.0)[:, None]
    scan = tomography.open_scan(str(write_exchange(tmp_path / "s.h5", *counts(p, 100, rings=0.05), t)))
    s, sigma = scan.measure(0, 1)
    scan.close()
    assert sigma is not None
    real = np.linalg.norm(s[0] - p[:, 0])
    assert np.linalg.norm(sigma) == pytest.approx(real, rel=0.06)
    true = image(128)
    P = tomography.projector(t, 128)
    usual = {m: tomography.reconstruct(s, projector=P, method=m).images[0] for m in ("cgls", "tv")}
    known = {m: tomography.reconstruct(s, projector=P, method=m, deviations=sigma).images[0] for m in ("cgls", "tv")}
    assert correlation(usual["cgls"], true) < 0.5
    assert correlation(known["cgls"], true) > 0.92
    assert correlation(known["tv"], true) > 0.98
    assert correlation(usual["tv"], true) > 0.95  # with an estimate of the noise


def test_noise_is_known_for_counts_only(tmp_path: Path) -> None:
    t = half_turn(24)
    p = sinogram(t, 64, 32.0, 0.5)[:, None]
    data, white, dark = counts(p, 1e4)
    path = str(write_exchange(tmp_path / "s.h5", data, white, dark, t))
    for options, known in (
        ({}, True),
        ({"preparation": AS_GIVEN}, True),
        ({"white": 1e4, "dark": 100.0}, False),
        ({"preparation": tomography.Preparation(phase=tomography.Paganin(1, 10, 20, 100))}, False),
        ({"data": "transmission"}, False),
        ({"data": "line-integrals"}, False),
    ):
        scan = tomography.open_scan(path, **options)  # type: ignore[arg-type]
        s, sigma = scan.measure(0, 1)
        np.testing.assert_array_equal(s, scan.read(0, 1))
        assert (sigma is not None) == known
        assert sigma is None or (sigma.shape == s.shape and (sigma > 0).all())
        scan.close()


@pytest.mark.parametrize("method", ["sart", "osem", "mlem", "tikhonov", "tv", "cgls", "fbp"])
def test_methods_on_the_command_line(tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    t = half_turn(60)
    p = np.repeat(sinogram(t, 64, 32.0, 0.5)[:, None], 3, axis=1)
    path = str(write_exchange(tmp_path / "s.h5", *counts(p, 300), t))
    words = ["reconstruct", path, "--method", method, "--output", str(tmp_path / "o.npy"), "--batch", "2", "--monitor"]
    words += ["--json", str(tmp_path / "o.json"), "--report", str(tmp_path / "o.html")]
    assert cli.main(words) == 0
    said = capsys.readouterr()
    facts = json.loads((tmp_path / "o.json").read_text())
    assert facts["method"] == method
    assert all(0.02 < share < 0.5 for share in facts["noise"])
    assert len(facts["noise"]) == 3
    assert bool(facts["advice"]) == (method not in ("tikhonov", "tv"))
    assert ("advice: the noise of the counts" in said.out) == bool(facts["advice"])
    page = (tmp_path / "o.html").read_text()
    assert f">{method}<" in page
    assert ("keeps flat parts" in page) == bool(facts["advice"])
    assert method == "fbp" or "slices 3 to 3 of 3, iteration 0 of" in said.err
    assert method in ("fbp", "tikhonov", "tv") or facts["reasons"] == ["discrepancy"] * 3
    true = image(64, 0.5)
    least = {"fbp": 0.5, "tv": 0.95}.get(method, 0.88)
    assert min(correlation(found, true) for found in np.load(tmp_path / "o.npy")) > least


def test_rules_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    t = half_turn(40)
    path = str(write_exchange(tmp_path / "s.h5", *counts(sinogram(t, 64, 32.0, 0.5)[:, None], 300), t))

    def ends(*words: str) -> tuple[int, Any]:
        code = cli.main(["reconstruct", path, "--json", str(tmp_path / "o.json"), "--iterations", "8", *words])
        return code, json.loads((tmp_path / "o.json").read_text()) if code == 0 else capsys.readouterr().err

    assert ends()[1]["reasons"] == ["discrepancy"]
    assert ends("--noise", "none")[1]["reasons"] == ["iterations"]
    assert ends("--discrepancy", "1e-9")[1]["reasons"] == ["iterations"]
    assert ends("--white", "300", "--dark", "100")[1]["noise"] == []
    for words, told in (
        (("--noise", "counts", "--l-curve"), "--noise counts and --l-curve are given"),
        (("--method", "fbp", "--noise", "none"), "is of iterations, and --method fbp has none"),
        (("--method", "tv", "--subsets", "3"), "subsets 3 is an option of sart, osem; tv has none"),
        (("--method", "sart", "--subsets", "41"), "at most one subset for each"),
        (("--bits", "8"), "--bits 8 is of --output FILE.tif"),
        (("--bits", "8", "--output", str(tmp_path / "o.npy")), "--bits 8 is of --output FILE.tif"),
        (("--range", "0,1", "--output", str(tmp_path / "o.tif")), "--range is of --bits 8 or 16"),
        (("--range", "1,0", "--bits", "8", "--output", str(tmp_path / "o.tif")), "expected LOW,HIGH"),
    ):
        code = None
        try:
            code = cli.main(["reconstruct", path, *words])
        except SystemExit as ended:
            code = ended.code  # type: ignore[assignment]
        assert code == 2, words
        assert told in capsys.readouterr().err


# Problems that users of other programs have reported of such methods.


def test_factors_stay_bounded_with_noise_beside_the_sample() -> None:
    """Rays that meet a corner of the image for a tiny length: a factor b / A x there could be anything."""
    P, x, b = small(48, 100, "float32")
    x = disc(48, 0.25)
    b = P.project(x) + 0.3 * np.random.default_rng(10).standard_normal(P.sinogram_shape).astype(np.float32)
    for method, options in (("mlem", {"iterations": 20}), ("osem", {"subsets": 20, "iterations": 4})):
        r = tomography.reconstruct(b, projector=P, method=method, **options)  # type: ignore[arg-type]
        assert np.isfinite(r.images).all()
        assert r.images.max() < 20 * x.max(), method


def test_many_subsets_and_iterations_leave_an_image() -> None:
    t = half_turn(120)
    b = sinogram(t, 64, 32.0, 0.5).astype(np.float32)  # zero beside the sample
    P = tomography.projector(t, 64)
    for subsets_ in (2, 3, 5, 12, 40):
        for iterations in (1, 2, 6):
            r = tomography.reconstruct(b, projector=P, method="osem", subsets=subsets_, iterations=iterations)
            if subsets_ * iterations > 5:
                assert correlation(r.images, image(64, 0.5)) > 0.85, (subsets_, iterations)


def test_a_part_of_the_field_or_more_than_it() -> None:
    """Rays that hardly meet the image, and pixels that no ray of a subset meets."""
    for size in (14, 60):
        part = tomography.projector(angles_of(36), 32, image=size)
        inside = disc(size, 0.3 if size < 32 else 0.15)
        b = part.project(inside)
        for method in ("sart", "osem", "tikhonov", "tv"):
            how: dict[str, Any] = {"subsets": 36} if method in ("sart", "osem") else {"deviations": 0.01}
            r = tomography.reconstruct(b, projector=part, method=method, **how)
            middle = slice(size // 2 - 6, size // 2 + 6)
            assert np.abs(r.images[middle, middle] - inside[middle, middle]).max() < 0.45, (method, size)
            assert np.abs(r.images).max() < 1.6, (method, size)


def test_more_of_the_penalty_is_flatter() -> None:
    P, _, b = small(24, 30, "float32")
    b = b + np.random.default_rng(11).normal(0, 0.3, b.shape).astype(np.float32)
    for method in ("tv", "tikhonov"):
        variations = [
            float(np.hypot(*regularised.gradient(r.images)).sum())
            for weight in (0.1, 1.0, 10.0)
            for r in [tomography.reconstruct(b, projector=P, method=method, deviations=0.3, regularisation=weight)]
        ]
        assert variations[0] > 1.3 * variations[1] > 1.3 * variations[2], method


def test_iterations_are_whole_numbers() -> None:
    P, _, b = small(8, 5)
    for method in ("mlem", "tv", "cgls"):
        with pytest.raises(ValueError, match=r"iterations is 2.5; a whole number is needed"):
            tomography.reconstruct(b, projector=P, method=method, iterations=2.5)  # type: ignore[arg-type]
