"""Files of images: any order of slices, full disks, and ends in between."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import LONG
from conftest import ALLOW, ROOT
from scans_of_discs import angles_of, disc, scan

from tacit import cli, tomography
from tacit.app import volumes

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("big", [False, True])
def test_tiff_files_in_any_order(tmp_path: Path, big: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    if big:
        monkeypatch.setattr(volumes, "_big", lambda slices, shape, size: True)
    images = np.random.default_rng(0).random((5, 7, 9), np.float32)
    writer = volumes.Writer(str(tmp_path / "v.tif"), 5, (7, 9))
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
    assert [volumes.tiff_header(n, pixels)[0][2] for n in (1, 1023, 1024, 4000)] == [42, 42, 43, 43]
    # Its last directory lies above 4 GiB and points to what follows it.
    begin, step = volumes.tiff_header(4000, pixels)
    last = volumes.tiff_directory(3999, 4000, pixels)
    assert int.from_bytes(last[8 + 20 * 6 + 12 : 8 + 20 * 7], "little") == len(begin) + 3999 * step + len(last)
    assert last[8 + 20 * 11 : 8 + 20 * 11 + 8] == bytes(8)


@pytest.mark.parametrize("suffix", ["npy", "tif", "h5"])
def test_a_full_disk_is_found_before_the_first_image(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, first: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"bytes are needed") as found:
        volumes.Writer(str(tmp_path / f"v.{suffix}"), 4, (8, 8))
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


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("span", [None, (-0.5, 2.0)])
def test_whole_numbers_say_what_they_stand_for(tmp_path: Path, bits: int, span: Any) -> None:
    tifffile = pytest.importorskip("tifffile")
    images = np.random.default_rng(0).normal(1, 0.3, (4, 9, 7)).astype(np.float32)
    scale = volumes.Scale(bits, span)
    with volumes.Writer(str(tmp_path / "v.tif"), 4, (9, 7), scale) as writer:
        writer.write(2, images[2:])
        writer.write(0, images[:2])
    with tifffile.TiffFile(tmp_path / "v.tif") as file:
        found = file.asarray()
        said = [page.tags["ImageDescription"].value for page in file.pages]
    assert found.dtype == {8: np.uint8, 16: np.uint16}[bits]
    assert len(set(said)) == 1
    low, step = (float(word) for word in re.findall(r"= (\S+) \+ (\S+) \* number", said[0])[0])
    if span is None:  # of what was written first, but for the tails
        assert low == pytest.approx(np.percentile(images[2:], 0.1), rel=1e-5)
        assert scale.facts()["outside"] > 0
    else:
        assert low == span[0]
        assert step == pytest.approx((span[1] - span[0]) / (2**bits - 1))
    high = low + step * (2**bits - 1)
    np.testing.assert_allclose(low + step * found, np.clip(images, low, high), atol=0.51 * step)
    assert scale.facts()["outside"] == ((images < low) | (images > high)).mean()


def test_values_that_are_no_numbers_have_whole_ones() -> None:
    scale = volumes.Scale(8)
    assert scale(np.full((1, 2, 2), np.nan, np.float32)).tolist() == [[[0, 0], [0, 0]]]
    assert volumes.Scale(8, (0, 1))(np.array([[[-np.inf, 0.5, np.inf, 2]]])).tolist() == [[[0, 128, 255, 255]]]
    assert volumes.Scale(16)(np.full((1, 1, 2), 3.0)).tolist() == [[[0, 0]]]
    for bits, span in ((12, None), (32, (0.0, 1.0)), (8, (1.0, 1.0)), (8, (0.0, np.inf))):
        with pytest.raises(ValueError, match=r"bits|range"):
            volumes.Scale(bits, span)


def test_zarr_volumes(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    images = np.random.default_rng(0).random((5, 7, 9), np.float32)
    path = tmp_path / "v.zarr"
    with volumes.Writer(str(path), 5, (7, 9)) as writer:
        for first, last in ((3, 5), (0, 3)):
            writer.write(first, images[first:last])
        assert not path.exists()
    found = zarr.open_array(str(path), mode="r")
    np.testing.assert_array_equal(found[:], images)
    assert found.chunks == (1, 7, 9)
    assert found.attrs["description"] == "attenuation per detector bin"
    with pytest.raises(FileExistsError, match="folders are not replaced"):
        volumes.Writer(str(path), 5, (7, 9))
    with pytest.raises(RuntimeError), volumes.Writer(str(tmp_path / "w.zarr"), 5, (7, 9)) as writer:
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["v.zarr"]
    np.testing.assert_array_equal(zarr.open_array(str(path), mode="r")[:], images)


def test_formats_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan(tmp_path / "s.h5")
    words = ["reconstruct", str(tmp_path / "s.h5"), "--centre", "17.5", "--iterations", "4", "--batch", "2"]
    for name, more in (("v.npy", []), ("v.tif", ["--bits", "16", "--range=-0.01,0.03"])):
        assert cli.main([*words, "--output", str(tmp_path / name), "--json", str(tmp_path / "o.json"), *more]) == 0
    assert "16 bits: 0 to 65535 are -0.01 to 0.03" in capsys.readouterr().out
    assert json.loads((tmp_path / "o.json").read_text())["scale"]["range"] == [-0.01, 0.03]
    tifffile, exact = pytest.importorskip("tifffile"), np.load(tmp_path / "v.npy")
    found = -0.01 + tifffile.imread(tmp_path / "v.tif") * (0.04 / 65535)
    np.testing.assert_allclose(found, np.clip(exact, -0.01, 0.03), atol=4e-7)
    zarr = pytest.importorskip("zarr")
    assert cli.main([*words, "--output", str(tmp_path / "v.zarr")]) == 0
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "v.zarr"), mode="r")[:], exact)
    assert cli.main([*words, "--output", str(tmp_path / "v.zarr")]) == 2
