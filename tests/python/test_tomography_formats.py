"""Scans in NXtomo and TIFF files, and such files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scans_of_phantoms import correlation, counts, half_turn, image, sinogram, write_exchange

import tacit
from tacit import cli
from tacit.app import nexus
from tacit.app.preparation import AS_GIVEN

h5py = pytest.importorskip("h5py")
N, SLICES = 96, 3
T = half_turn(120)


@pytest.fixture(scope="module")
def frames() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p = np.stack([sinogram(T, N, 48, k) for k in (0.6, 0.65, 0.7)], axis=1)
    return tuple(np.rint(part) for part in counts(p, 2e4))  # type: ignore[return-value]


def nxtomo(path: Path, frames: Any, entry: str = "entry", change: Any = None) -> Path:
    """White frames at the beginning and the end, dark ones at the end, one invalid projection."""
    data, white, dark = frames
    whole = np.concatenate([white[:5], data, data[:1], white[5:], dark])
    keys = np.concatenate([np.ones(5), np.zeros(len(data)), [3], np.ones(5), 2 * np.ones(len(dark))]).astype(int)
    angles = np.concatenate([np.zeros(5), np.degrees(T), [0], np.zeros(5 + len(dark))])
    with h5py.File(path, "w") as f:
        group = f.create_group(entry)
        group["instrument/detector/data"] = whole.astype(np.uint16)
        group["instrument/detector/image_key"] = keys
        group["sample/rotation_angle"] = angles
        group["sample/rotation_angle"].attrs["units"] = "degree"
        if change is not None:
            change(group)
    return path


def tiffs(folder: Path, frames: Any, dtype: Any = np.uint16, **more: Any) -> None:
    tifffile = pytest.importorskip("tifffile")
    for name, part in zip(("proj", "white", "dark"), frames, strict=True):
        for i, one in enumerate(part):
            tifffile.imwrite(folder / f"{name}_{i}.tif", one.astype(dtype), **more)


@pytest.mark.parametrize("entry", ["entry", "entry1/tomo_entry"])
def test_nxtomo_is_read_as_data_exchange(tmp_path: Path, frames: Any, entry: str) -> None:
    one = nexus.open_scan(str(nxtomo(tmp_path / "s.nxs", frames, entry)))
    other = nexus.open_scan(str(write_exchange(tmp_path / "s.h5", *frames, T)))
    assert isinstance(one, nexus.NXtomo)
    np.testing.assert_allclose(one.angles, T, atol=1e-12)
    np.testing.assert_allclose(one.read(0, 3), other.read(0, 3), atol=1e-6)
    assert "1 of 141 frames are invalid" in " ".join(one.assumed)
    assert other.assumed == []


def test_nxtomo_on_the_command_line(tmp_path: Path, frames: Any) -> None:
    path = nxtomo(tmp_path / "s.nxs", frames)
    words = ["reconstruct", str(path), "--centre", "auto", "--method", "fbp", "--output", str(tmp_path / "o.npy")]
    assert cli.main([*words, "--json", str(tmp_path / "o.json"), "--threads", "1"]) == 0
    found = np.load(tmp_path / "o.npy")
    assert correlation(found[1], image(N, 0.65)) > 0.97
    assert json.loads((tmp_path / "o.json").read_text())["centre"] == pytest.approx(48, abs=0.2)


def without(name: str) -> Any:
    def change(group: Any) -> None:
        del group[name]

    return change


def put(name: str, value: Any, units: str = "") -> Any:
    def change(group: Any) -> None:
        del group[name]
        group[name] = value
        group[name].attrs["units"] = units

    return change


KEY, ANGLE, DATA = "instrument/detector/image_key", "sample/rotation_angle", "instrument/detector/data"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (put(KEY, np.zeros(3, int)), "3 values of image_key for 141 frames"),
        (put(KEY, np.full(141, 7)), "image_key 7"),
        (put(KEY, np.full(141, 1)), "image_key has no 0"),
        (put(KEY, np.where(np.arange(141) < 5, 2, 0)), "white frame (image_key 1)"),
        (put(ANGLE, np.zeros(17)), "17 angles in rotation_angle for 141 frames, 120 of them"),
        (put(ANGLE, np.full(141, np.nan)), "not finite"),
        (put(DATA, np.zeros((4, 5))), "(frames, slices, bins)"),
        (put(DATA, np.array([[["a"]]], "S1")), "(frames, slices, bins)"),
        (without(DATA), "NXtomo"),
    ],
)
def test_wrong_nxtomo(tmp_path: Path, frames: Any, change: Any, text: str) -> None:
    with pytest.raises(tacit.InputError) as error:
        nexus.open_scan(str(nxtomo(tmp_path / "s.nxs", frames, change=change)))
    assert text in str(error.value)
    assert "s.nxs" in str(error.value)


def test_nxtomo_with_less(tmp_path: Path, frames: Any) -> None:
    """Angles of the projections only, in radians; no angles; no keys; links; a second entry."""
    same = nexus.open_scan(str(nxtomo(tmp_path / "a.nxs", frames, change=put(ANGLE, T, "rad"))))
    np.testing.assert_allclose(same.angles, T)
    none = nexus.open_scan(str(nxtomo(tmp_path / "b.nxs", frames, change=without(ANGLE))))
    np.testing.assert_allclose(none.angles, T)
    assert "half a turn" in " ".join(none.assumed)
    path = str(nxtomo(tmp_path / "c.nxs", frames, change=without(KEY)))
    with pytest.raises(tacit.InputError, match="white"):
        nexus.open_scan(path)
    every = nexus.open_scan(path, white=2e4, dark=100.0)
    assert len(every.angles) == 131  # dark frames count as projections without beam
    assert "all 141 frames are taken for projections" in " ".join(every.assumed)

    def links(group: Any) -> None:
        group["elsewhere"] = group[DATA][()]
        del group[DATA]
        group[DATA] = h5py.SoftLink("/entry/elsewhere")
        group.file.copy("entry", group.file, "entry_2")

    linked = nexus.open_scan(str(nxtomo(tmp_path / "d.nxs", frames, change=links)))
    assert linked.read(0, 1).shape == (1, 120, N)
    assert "/entry is read, and /entry_2" in " ".join(linked.assumed)

    def broken(group: Any) -> None:
        del group[DATA]
        group[DATA] = h5py.ExternalLink("none.h5", "/x")

    with pytest.raises(tacit.InputError):
        nexus.open_scan(str(nxtomo(tmp_path / "e.nxs", frames, change=broken)))


@pytest.mark.parametrize(
    ("dtype", "more"),
    [
        (np.uint16, {}),
        (np.uint32, {"bigtiff": True}),
        (np.float32, {"compression": "zlib"}),
        (np.int32, {"byteorder": ">"}),
    ],
)
def test_tiffs_are_read_as_data_exchange(tmp_path: Path, frames: Any, dtype: Any, more: Any) -> None:
    tiffs(tmp_path, frames, dtype, **more)
    (tmp_path / "t.txt").write_text("# degrees\n" + "\n".join(f"{v:.9f}" for v in np.degrees(T)))
    found = nexus.open_scan(
        str(tmp_path / "proj_*.tif"),
        white=str(tmp_path / "white_*.tif"),
        dark=str(tmp_path / "dark_*.tif"),
        theta=str(tmp_path / "t.txt"),
    )
    other = nexus.open_scan(str(write_exchange(tmp_path / "s.h5", *frames, T)))
    np.testing.assert_allclose(found.angles, T, atol=1e-8)
    np.testing.assert_allclose(found.read(0, 3), other.read(0, 3), atol=1e-6)
    np.testing.assert_allclose(found.read(1, 2), other.read(1, 2), atol=1e-6)
    # frame 10 is after frame 9, not after frame 1


def test_eight_bits_one_file_and_levels(tmp_path: Path, frames: Any) -> None:
    tifffile = pytest.importorskip("tifffile")
    data = np.clip(frames[0] / 100, 0, 250).astype(np.uint8)
    tifffile.imwrite(tmp_path / "stack.tif", data, photometric="minisblack")
    scan = nexus.open_scan(str(tmp_path / "stack.tif"), white=200.0, dark=1.0, preparation=AS_GIVEN)
    expected = -np.log(np.maximum((data.astype(float) - 1) / 199, 1e-6))
    np.testing.assert_allclose(scan.read(1, 2)[0], expected[:, 1], atol=1e-5)
    assert "TIFF files have no angles" in " ".join(scan.assumed)
    (tmp_path / "folder").mkdir()
    tiffs(tmp_path / "folder", (frames[0], [], []))
    assert len(nexus.open_scan(str(tmp_path / "folder"), white=2e4, dark=100.0).angles) == 120


def test_tiffs_on_the_command_line(tmp_path: Path, frames: Any) -> None:
    tiffs(tmp_path, frames)
    words = ["reconstruct", str(tmp_path / "proj_*.tif"), "--white", str(tmp_path / "white_*.tif")]
    words += ["--dark", str(tmp_path / "dark_*.tif"), "--iterations", "15", "--output", str(tmp_path / "o.npy")]
    assert cli.main([*words, "--threads", "1"]) == 0
    assert correlation(np.load(tmp_path / "o.npy")[2], image(N, 0.7)) > 0.97


def test_wrong_tiffs(tmp_path: Path, frames: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a_1.tif", np.zeros((4, 8), np.uint16))
    tifffile.imwrite(tmp_path / "a_2.tif", np.zeros((5, 8), np.uint16))
    tifffile.imwrite(tmp_path / "colour.tif", np.zeros((4, 8, 3), np.uint8), photometric="rgb")
    (tmp_path / "text.tif").write_text("not a picture")
    tifffile.imwrite(tmp_path / "cut_1.tif", np.ones((40, 80), np.uint16))
    (tmp_path / "cut_1.tif").write_bytes((tmp_path / "cut_1.tif").read_bytes()[:3000])
    (tmp_path / "t.txt").write_text("1\nzwei\n")
    tiffs(tmp_path, frames)
    good = str(tmp_path / "proj_*.tif")
    for name, more, text in (
        ("a_*.tif", {}, "5 x 8 pixels where"),
        ("colour.tif", {}, "no colours"),
        ("text.tif", {}, "not a TIFF file"),
        ("cut_1.tif", {}, "cut_1.tif"),
        (good, {"theta": str(tmp_path / "t.txt")}, "zwei"),
        (good, {"white": str(tmp_path / "a_1.tif")}, "4 x 8 pixels where the projections have 3 x 96"),
    ):
        with pytest.raises(tacit.InputError) as error:
            nexus.open_scan(str(tmp_path / name), **({"white": 9.0, "dark": 0.0} | more))
        assert text in str(error.value)
    with pytest.raises(FileNotFoundError, match="no such files"):
        nexus.open_scan(str(tmp_path / "none_*.tif"))
    with pytest.raises(tacit.InputError, match="--white 'FILES'"):
        nexus.open_scan(good)
    with pytest.raises(ValueError, match="for TIFF projections"):
        nexus.open_scan(str(write_exchange(tmp_path / "s.h5", *frames, T)), white="white_*.tif")
    assert cli.main(["reconstruct", str(tmp_path / "none_*.tif")]) == 4
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_angles_that_were_never_written_are_told(tmp_path: Path, frames: Any) -> None:
    """Zeros in place of angles that the writer did not have."""
    scan = nexus.open_scan(str(nxtomo(tmp_path / "s.nxs", frames, change=put(ANGLE, np.zeros(141), "deg"))))
    assert "all 120 angles are 0" in " ".join(scan.assumed)


@pytest.mark.parametrize("scale", [100.0, 1e4])
def test_percent_are_no_transmission(tmp_path: Path, frames: Any, scale: float) -> None:
    data, white, dark = frames
    share = (data - dark.mean(0)) / (white.mean(0) - dark.mean(0))
    for factor in (1.0, scale):
        with h5py.File(tmp_path / "s.h5", "w") as f:
            f["exchange/data"], f["exchange/theta"] = share * factor, np.degrees(T)
        said = " ".join(nexus.open_scan(str(tmp_path / "s.h5"), data="transmission").assumed)
        assert ("percent" in said) == (factor > 1)
