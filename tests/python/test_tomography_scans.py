"""Scans in files: what they say, what is wrong in them, and the command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from scans_of_discs import angles_of, disc, run, scan

import tacit
from tacit import cli, tomography
from tacit._described import RECONSTRUCT
from tacit.app import exchange

h5py = pytest.importorskip("h5py")
SHARED = Path(os.environ.get("TACIT_TEST_SHARED", ROOT.parent / "shared")) / "data"


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
            exchange.DataExchange(path).read(0, 3)
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

    s = exchange.DataExchange(str(SHARED / "tomography/tooth.h5"))
    r = tomography.reconstruct(s.read(0, 1)[0], s.angles, centre=296, iterations=10)
    gridrec = np.load(SHARED / "tomography/tooth_gridrec.npz")["slice0"]
    y, x = np.mgrid[:640, :640] - 320
    inside = x * x + y * y < (0.42 * 640) ** 2
    assert np.corrcoef(r.images[inside], gridrec[inside])[0, 1] >= 0.995


def test_help_says_what_reorthogonalisation_keeps() -> None:
    """An image is kept for each gradient: as many less without, in the help as in the default."""
    parser = cli.build_parser()
    commands = next(action for action in parser._subparsers._group_actions if action.choices).choices  # type: ignore
    options = commands["reconstruct"]._option_string_actions
    kept = RECONSTRUCT["reorthogonalise"].absent
    assert options["--reorthogonalise"].help.endswith(f"[{kept}]")
    assert kept == "1; with vectors in 16 bits 5"
    assert options["--no-reorthogonalisation"].help.endswith("one image less in memory, or five images")


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
    read = exchange.DataExchange(str(tmp_path / "s.h5"))
    np.testing.assert_allclose(read.angles, angles, atol=1e-6)
    assert read.assumed == []


def test_doubtful_angles_of_a_scan_are_told(tmp_path: Path) -> None:
    def said(theta: Any, units: str) -> str:
        spoilt_scan(tmp_path / "s.h5", lambda _: None)
        with h5py.File(tmp_path / "s.h5", "r+") as f:
            f["exchange/theta"][...] = theta
            f["exchange/theta"].attrs["units"] = units
        read = exchange.DataExchange(str(tmp_path / "s.h5"))
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
        read = exchange.DataExchange(str(tmp_path / "s.h5"))
        np.testing.assert_allclose(read.angles, angles_of(40)[list(kept)], atol=1e-6)
        assert read.read(0, 3).shape == (3, len(kept), 32)
        assert np.isfinite(read.read(0, 3)).all()
        assert text in " ".join(read.assumed)
        read.close()
    spoilt_scan(tmp_path / "s.h5", nothing)
    with pytest.raises(ValueError, match="none of the 40 projections"):
        exchange.DataExchange(str(tmp_path / "s.h5"))


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
    good, found = (exchange.DataExchange(str(tmp_path / name)).read(0, 3) for name in ("good.h5", "s.h5"))
    assert np.abs(found[:2] - good[:2]).max() < 0.05
    assert found[2, 9, 15] > 10


def test_a_sample_wider_than_the_detector_is_told(tmp_path: Path) -> None:
    angles = angles_of(40)
    wide = tomography.projector(angles, 32, image=64, centre=17.5).project(disc(64) * 0.02)
    for name, s in (("wide", wide), ("whole", tomography.projector(angles, 32).project(disc(32) * 0.02))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as f:
            f["exchange/data"] = s[:, None]
            f["exchange/theta"] = np.degrees(angles)
        told = " ".join(exchange.DataExchange(str(tmp_path / f"{name}.h5"), data="line-integrals").assumed)
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


def test_a_black_slice_does_not_empty_the_scan(tmp_path: Path) -> None:
    def black(exchange: Any) -> None:
        exchange["data"][:, 1] = 0

    spoilt_scan(tmp_path / "s.h5", black, slices=3)
    done = run("reconstruct", str(tmp_path / "s.h5"), "--slices", "0:1", "--json", "-", "--iterations", "2")
    assert done.returncode == 0, done.stderr
    assert "slice 1" not in done.stderr
    with h5py.File(tmp_path / "s.h5", "r+") as f:
        f["exchange/data"][...] = 0
    done = run("reconstruct", str(tmp_path / "s.h5"))
    assert done.returncode == 4
    assert "none of the 40 projections" in done.stderr
