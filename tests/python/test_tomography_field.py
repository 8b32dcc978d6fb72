"""Samples wider than the detector, half acquisition, filtered back-projection."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scans_of_phantoms import BODY, correlation, counts, half_turn, image, relative_error, sinogram, write_exchange

from tacit import cli, tomography
from tacit.app.filtering import FILTERS, filtered, shares

pytest.importorskip("h5py")
TURN = 2 * half_turn(360)


def reconstructed(tmp_path: Path, path: Path, *words: str) -> tuple[np.ndarray, dict[str, Any], int]:
    out, facts = tmp_path / "o.npy", tmp_path / "o.json"
    code = cli.main(["reconstruct", str(path), "--output", str(out), "--json", str(facts), "--threads", "2", *words])
    return np.load(out), json.loads(facts.read_text()), code


@pytest.mark.parametrize("method", ["cgls", "fbp"])
@pytest.mark.parametrize("scale", [1.4, 2.0])
def test_a_sample_wider_than_the_detector(tmp_path: Path, method: str, scale: float) -> None:
    t, n = half_turn(180), 128
    path = write_exchange(tmp_path / "s.h5", *counts(sinogram(t, n, 64, scale)[:, None], 1e5), t)
    more = ("--iterations", "15") if method == "cgls" else ()
    found, facts, code = reconstructed(tmp_path, path, "--method", method, *more)
    assert code == 0
    assert found.shape == (1, n, n)
    assert correlation(found[0], image(n, scale)) > (0.97 if method == "cgls" else 0.95)
    assert relative_error(found[0], image(n, scale)) < (0.2 if method == "cgls" else 0.3)
    assert facts["computed_shape"][0] > 1.3 * n
    assert "wider than the detector" in " ".join(facts["warnings"])
    assert "pixels more on each side" in " ".join(facts["warnings"])
    bad, facts, _ = reconstructed(tmp_path, path, "--method", method, *more, "--pad", "none")
    assert facts["computed_shape"] == [n, n]
    if method == "cgls":
        assert relative_error(bad[0], image(n, scale)) > 1.3 * relative_error(found[0], image(n, scale))


def test_a_sample_that_fits_is_not_padded(tmp_path: Path) -> None:
    t, n = half_turn(180), 128
    path = write_exchange(tmp_path / "s.h5", *counts(sinogram(t, n, 64)[:, None], 1e5), t)
    _, facts, _ = reconstructed(tmp_path, path, "--iterations", "1")
    assert facts["computed_shape"] == facts["image_shape"] == [n, n]
    assert facts["warnings"] == []
    _, facts, _ = reconstructed(tmp_path, path, "--iterations", "1", "--pad", "7", "--image", "100,90")
    assert facts["image_shape"] == [100, 90]
    assert facts["computed_shape"] == [114, 104]


@pytest.mark.parametrize("words", [("--method", "fbp"), ("--iterations", "15"), ("--iterations", "15", "--stitch")])
@pytest.mark.parametrize("centre", [24.0, 103.4])
def test_half_acquisition(tmp_path: Path, words: tuple[str, ...], centre: float) -> None:
    n = 128
    scale = 100 / 54 * 0.95  # the largest radius is 95 bins, of 104 that are seen
    path = write_exchange(tmp_path / "s.h5", *counts(sinogram(TURN, n, centre, scale)[:, None], 1e5), TURN)
    found, facts, code = reconstructed(tmp_path, path, "--centre", "auto", *words)
    assert code == 0
    assert facts["centre"] == pytest.approx(centre, abs=0.3)
    assert facts["half_acquisition"]
    side = found.shape[1]
    assert side in (208, 209, 207, 210)
    assert correlation(found[0], image(side, scale)) > 0.97
    assert "half acquisition" in " ".join(facts["warnings"])


def test_stitching_is_exact_where_nothing_is_mixed() -> None:
    centre, scale = 24.5, 1.7
    s = sinogram(TURN, 128, centre, scale)
    joined, angles, axis = tomography.stitch(s, TURN, centre)
    assert len(angles) == 180
    true = sinogram(angles, joined.shape[1], axis, scale)
    assert np.abs(joined - true).max() < 0.02 * true.max()
    # the other way round, and with an axis between bins
    joined, angles, axis = tomography.stitch(s[:, ::-1], TURN, 128 - centre)
    np.testing.assert_allclose(joined, true[:, ::-1], atol=0.02 * true.max())
    s = sinogram(TURN, 128, 30.3, scale)
    joined, angles, axis = tomography.stitch(s, TURN, 30.3)
    true = sinogram(angles, joined.shape[1], axis, scale)
    assert np.sqrt(((joined - true) ** 2).mean()) < 0.01 * true.max()
    shuffled = np.random.default_rng(0).permutation(360)
    again, there, _ = tomography.stitch(s[shuffled], TURN[shuffled], 30.3)
    np.testing.assert_allclose(again[np.argsort(there)], joined, atol=1e-5)


def test_repairs_are_counted_once(tmp_path: Path) -> None:
    n = 128
    path = write_exchange(tmp_path / "s.h5", *counts(sinogram(TURN, n, 24, 1.6)[:, None], 1e4, zingers=1e-3), TURN)
    report = ("--centre", "24", "--report", str(tmp_path / "r.html"))
    one, two = (reconstructed(tmp_path, path, *report, *m)[1] for m in (("--iterations", "1"), ("--method", "fbp")))
    assert one["repairs"] == two["repairs"]
    assert one["repairs"]["zingers"] > 30


def test_stitching_refuses() -> None:
    t = half_turn(90)
    for wrong, text in (
        (lambda: tomography.stitch(np.zeros((90, 32)), t, 5), "opposite side"),
        (lambda: tomography.stitch(np.zeros((90, 32)), t, 40), "not on the detector"),
        (lambda: tomography.stitch(np.zeros((91, 32)), t, 5), "90 angles"),
    ):
        with pytest.raises(ValueError, match=text):
            wrong()


@pytest.mark.parametrize("window", list(FILTERS))
def test_filtered_back_projection(window: str) -> None:
    t, n = half_turn(180), 128
    found = tomography.fbp(sinogram(t, n, 61.3), t, centre=61.3, filter=window)
    true = image(n)
    assert correlation(found.images, true) > 0.97
    # The values are those of the image, and not times a constant.
    assert found.images[inner(n)].mean() == pytest.approx(true[inner(n)].mean(), rel=0.01)
    assert found.end == ["filtered"]
    assert found.converged


def inner(n: int) -> np.ndarray:
    y, x = np.mgrid[:n, :n] + 0.5 - n / 2
    return np.asarray(x * x + y * y < (0.4 * n) ** 2)


@pytest.mark.parametrize(
    "t",
    [2 * half_turn(180), np.concatenate([half_turn(90), half_turn(90)]), np.linspace(0, np.pi, 181), half_turn(181) + 3]
    + [np.random.default_rng(0).permutation(half_turn(180)), (np.arange(180) * np.pi * (5**0.5 - 1) / 2) % np.pi]
    + [np.concatenate([half_turn(240)[:120], half_turn(120)[60:]])],
)
def test_any_angles_have_the_right_weights(t: np.ndarray) -> None:
    """Whole turns, directions seen twice, both ends of half a turn, two densities."""
    assert shares(t).sum() == pytest.approx(np.pi, rel=0.02)
    found, true = tomography.fbp(sinogram(t, 128, 64), t).images, image(128)
    assert found[inner(128)].mean() == pytest.approx(true[inner(128)].mean(), rel=0.02)
    assert correlation(found, true) > 0.97


def test_blocks_of_projections_with_gaps_between() -> None:
    """Projections half a degree apart in blocks with gaps of 18 degrees: they stand for no more than they saw."""
    t = np.radians(np.concatenate([start + np.arange(0, 18, 0.5) for start in range(0, 180, 36)]))
    assert shares(t).sum() == pytest.approx(np.pi / 2, rel=0.05)
    assert shares(t).max() < 3 * shares(t).min()
    found, true = tomography.fbp(sinogram(t, 128, 64), t).images, image(128)
    assert correlation(found, true) > 0.75


def test_pixels_of_any_size_have_the_same_values() -> None:
    t = half_turn(180)
    s = sinogram(t, 128, 64)
    for pixel, side in ((2.0, 64), (0.5, 256)):
        found = tomography.fbp(s, t, pixel=pixel, image=side).images
        true = image(side, 1 / pixel, BODY) / pixel
        assert found[inner(side)].mean() == pytest.approx(true[inner(side)].mean(), rel=0.01)


def test_ranks_and_batches_do_not_matter_to_fbp() -> None:
    import tacit

    t = half_turn(60)
    s = np.stack([sinogram(t, 48, 24, k) for k in (0.2, 0.25, 0.3)])
    one = tomography.fbp(s, t).images

    def rank(comm: Any) -> Any:
        return tomography.fbp(s, t, comm=comm, batch=2).images

    for found in tacit.comm.run_threads(2, rank):
        np.testing.assert_allclose(found, one, atol=1e-5)


def test_fbp_refuses() -> None:
    t, s = half_turn(20), np.zeros((20, 16))
    for call, error in (
        (lambda: tomography.fbp(s, t, filter="hat"), "filter"),
        (lambda: tomography.fbp(s), "angles are needed"),
        (lambda: tomography.fbp(s, t, iterations=3), "iterations"),
        (lambda: tomography.fbp(s[0], t), "shape"),
        (lambda: tomography.fbp(s, t, batch=0), "batch"),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tomography.fbp(s, t).converged


@pytest.mark.parametrize(
    "words",
    [("--method", "fbp", "--iterations", "3"), ("--filter", "hann"), ("--method", "fbp", "--no-reorthogonalisation")]
    + [("--rings", "lord"), ("--zingers", "-1"), ("--phase", "1,2,3"), ("--phase", "1,2,3,x"), ("--pad", "-1")],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    t = half_turn(20)
    path = write_exchange(tmp_path / "s.h5", *counts(sinogram(t, 32, 16, 0.2)[:, None], 1e4), t)
    try:
        code = cli.main(["reconstruct", str(path), *words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert words[-2 if len(words) > 1 else 0].lstrip("-") in capsys.readouterr().err


def test_names_are_those_of_the_command_line() -> None:
    from tacit.app import preparation, rings, volumes
    from tacit.cli import reconstruct

    assert rings.RINGS == reconstruct.RINGS
    assert preparation.DEAD == reconstruct.DEAD
    assert tuple(FILTERS) == reconstruct.FILTERS
    assert volumes.OUTPUTS == reconstruct.IMAGES
    assert tuple(map(str, volumes.BITS)) == reconstruct.BITS
    assert filtered(np.ones((2, 16))).shape == (2, 16)
