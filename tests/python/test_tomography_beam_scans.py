"""`tacit reconstruct` of scans by fan and cone beams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scans_of_discs import run

import tacit
from tacit import cli, tomography
from tacit._support import Array
from tacit.app import volumes

h5py = pytest.importorskip("h5py")

N, ROWS, COLUMNS = 16, 18, 28
SCANNER = ("--source-distance", "60", "--detector-distance", "40", "--detector-pixel")


def _turn() -> Array:
    return np.linspace(0, 2 * np.pi, 48, endpoint=False)


def _ball() -> Array:
    """A ball with a hole aside, of (ROWS, N, N) voxels: no symmetry hides a wrong geometry."""
    z, y, x = np.meshgrid(np.arange(ROWS) - 8.5, 7.5 - np.arange(N), np.arange(N) - 7.5, indexing="ij")
    hole = (x - 2) ** 2 + (y - 1) ** 2 + (z - 2) ** 2 < 4
    return np.asarray(0.02 * ((x**2 + y**2 + z**2 < 36) & ~hole), np.float32)


def _write(path: Path, b: Array, angles: Array) -> str:
    """Line integrals (angles, rows, columns) as counts."""
    with h5py.File(path, "w") as file:
        file["exchange/data"] = 100 + 60000 * np.exp(-b)
        file["exchange/data_white"] = np.full((1, *b.shape[1:]), 60100.0)
        file["exchange/data_dark"] = np.full((1, *b.shape[1:]), 100.0)
        file["exchange/theta"] = np.degrees(angles)
    return str(path)


def _cone(angles: Array, **options: Any) -> tomography.Projector:
    how: dict[str, Any] = {"source": 60, "detector": 40, "pitch": (2, 1.7), "volume": (ROWS, N, N)}
    return tomography.cone_projector(angles, (ROWS, COLUMNS), **how, voxel=(1.2, 1.02, 1.02), **options)


def test_a_volume_of_a_cone_beam(tmp_path: Path) -> None:
    ball = _ball()
    scan = _write(tmp_path / "scan.h5", _cone(_turn(), centre=(8, 15)).project(ball), _turn())
    geometry = (*SCANNER, "2,1.7", "--centre", "15", "--centre-row", "8", "--image", "16", "--rings", "none")
    out, facts = str(tmp_path / "volume.npy"), tmp_path / "facts.json"
    done = run("reconstruct", scan, *geometry, "--output", out, "--json", str(facts), "--iterations", "12", "--monitor")
    assert done.returncode == 0, done.stderr
    assert "18 slices of 16 x 16 pixels from 48 angles x 18 x 28 bins" in done.stdout
    assert "slices 1 to 18 of 18, iteration 12 of 12" in done.stderr
    volume = np.load(out)
    assert volume.shape == (ROWS, N, N)
    assert np.linalg.norm(volume - ball) < 0.2 * np.linalg.norm(ball)
    said = json.loads(facts.read_text())
    assert said["beam"] == {"source": 60, "detector": 40, "pitch": [2, 1.7], "fan": False, "row": 8, "reverse": False}
    assert said["iterations"] == [12] * ROWS
    again = ["reconstruct", scan, *geometry, "--output"]
    assert cli.main([*again, str(tmp_path / "m.npy"), "--start", out, "--iterations", "3"]) == 0
    assert np.linalg.norm(np.load(tmp_path / "m.npy") - ball) < 0.2 * np.linalg.norm(ball)
    assert cli.main([*again, str(tmp_path / "f.tif"), "--method", "fbp", "--bits", "16"]) == 0
    assert "attenuation per unit of length" in (tmp_path / "f.tif").read_bytes().decode("latin-1")
    assert cli.main([*again, str(tmp_path / "r.npy"), "--reverse", "--iterations", "12"]) == 0
    errors = [np.linalg.norm(np.load(path) - ball) for path in (tmp_path / "r.npy", out)]
    assert errors[0] > 1.3 * errors[1]


def test_a_sample_that_turns_the_other_way(tmp_path: Path) -> None:
    ball = _ball()
    scan = _write(tmp_path / "scan.h5", _cone(-_turn()).project(ball), _turn())
    out = str(tmp_path / "volume.npy")
    how = (*SCANNER, "2,1.7", "--image", "16", "--rings", "none", "--reverse", "--iterations", "12", "--output", out)
    assert cli.main(["reconstruct", scan, *how]) == 0
    assert np.linalg.norm(np.load(out) - ball) < 0.2 * np.linalg.norm(ball)


def test_slices_of_a_fan(tmp_path: Path) -> None:
    ball = _ball()[5:9]
    P = tomography.fan_projector(_turn(), COLUMNS, source=60, detector=40, bin=1.7, image=N, pixel=1.02, centre=15)
    scan = _write(tmp_path / "scan.h5", P.project(ball).transpose(1, 0, 2), _turn())
    how = [*SCANNER, "1.7", "--fan", "--centre", "15", "--image", "16", "--rings", "none", "--output"]
    for more in ((), ("--method", "fbp")):
        out = str(tmp_path / f"fan{len(more)}.npy")
        assert cli.main(["reconstruct", scan, *how, out, "--slices", "1:4", "--batch", "2", *more]) == 0
        assert np.load(out).shape == (3, N, N)
        assert np.linalg.norm(np.load(out) - ball[1:]) < 0.3 * np.linalg.norm(ball[1:])


@pytest.mark.mpi
@pytest.mark.skipif(not tacit.comm.library(), reason="a build without MPI")
@pytest.mark.slow
def test_ranks_share_a_volume(tmp_path: Path) -> None:
    scan = _write(tmp_path / "scan.h5", _cone(_turn()).project(_ball()), _turn())
    how = (*SCANNER, "2,1.7", "--image", "16", "--rings", "none", "--iterations", "4", "--output")
    one, two = (str(tmp_path / f"{n}.npy") for n in (1, 2))
    for ranks, out in (((), one), (("--ranks", "2"), two)):
        done = run("reconstruct", scan, *how, out, *ranks)
        assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(two), np.load(one), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--source-distance", "60"), "--source-distance needs --detector-distance and --detector-pixel"),
        (("--fan",), "--fan needs --source-distance"),
        ((*SCANNER, "1", "--report", "page.html"), "--report is of a parallel beam"),
        ((*SCANNER, "1", "--phase", "1,100,20,300"), "--phase is of a parallel beam"),
        ((*SCANNER, "1", "--stitch"), "--stitch is of a parallel beam"),
        ((*SCANNER, "1", "--format", "list"), "--format is of a parallel beam"),
        ((*SCANNER, "1", "--pad", "8"), "--pad is of a parallel beam"),
        ((*SCANNER, "1", "--slices", "1:3"), "--slices is of a parallel beam, and --source-distance says cone"),
        ((*SCANNER, "1", "--centre", "auto"), "--centre auto is of a parallel beam"),
        ((*SCANNER, "1", "--fan", "--centre-row", "3"), "--centre-row is of a cone beam"),
        ((*SCANNER, "1", "--device", "cuda"), "--device cuda is of a parallel beam"),
        ((*SCANNER, "1", "--grid", "1x2"), "a cone beam has one volume"),
        ((*SCANNER, "1,2,3"), "expected P or HEIGHT,WIDTH"),
        ((*SCANNER, "0"), "--detector-pixel"),
        (("--source-distance", "0"), "--source-distance"),
        (("--source-distance", "nan"), "--source-distance"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], text: str
) -> None:
    scan = _write(tmp_path / "scan.h5", np.zeros((8, 2, 4)), _turn()[::6])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(cli.main(["reconstruct", scan, *options, "--output", str(tmp_path / "v.npy")]))
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "v.npy").exists()


def test_files_say_the_unit() -> None:
    assert volumes.Scale().text() == "attenuation per detector bin"
    assert volumes.Scale(8, (0, 1), "unit of length").text().startswith("attenuation per unit of length = 0 +")
