"""`tacit demo`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import has_mpi, tacit
from conftest import ROOT

import tacit as library
from tacit import _core
from tacit.cli import demo, demo_parts
from tacit.plot import page


def test_rows_do_not_depend_on_who_makes_them() -> None:
    n = 5
    start, columns, values, b = demo.rows(n, 0, n**3)
    A = sp.csr_array((values, columns, start), shape=(n**3, n**3))
    assert A.has_canonical_format
    part_start, part_columns, part_values, part_b = demo.rows(n, 31, 77)
    part = sp.csr_array((part_values, part_columns, part_start), shape=(46, n**3))
    assert abs(A[31:77] - part).max() == 0
    assert np.array_equal(b[31:77], part_b)
    # Away from the walls only decay changes a constant concentration.
    h = 1 / (n + 1)
    inner = (A @ np.ones(n**3)).reshape(n, n, n)[1:-1, 1:-1, 1:-1]
    assert np.allclose(inner, h * h * demo.DECAY, rtol=1e-12)


def test_phantom_is_the_head() -> None:
    image = demo_parts.phantom(64)
    assert image[0, 0] == 0
    assert image.max() == pytest.approx(1)  # the skull
    assert image[32, 32] == pytest.approx(0.2)
    assert abs(image - image[:, ::-1]).mean() < 0.02  # nearly symmetric left and right


def test_page_escapes_and_labels(tmp_path: Path) -> None:
    section = page.Section(
        "a < b", ["see `x & y`"], [("p.png", 'a "picture"')], ("m", "n"), [("u<v", "1")], simulated=True
    )
    page.write(tmp_path / "index.html", "T", ["intro"], [section], ["foot"])
    text = (tmp_path / "index.html").read_text()
    assert "a &lt; b" in text
    assert "<code>x &amp; y</code>" in text
    assert 'alt="a &quot;picture&quot;"' in text
    assert "u&lt;v" in text
    assert ">simulated</span>" in text


def shown(folder: Path) -> str:
    """The text of the page; checks that all of its pictures exist and are not empty."""
    from matplotlib.image import imread

    text = (folder / "index.html").read_text()
    pictures = re.findall(r'<img src="([^"]+)" alt="[^"]+">', text)
    assert pictures == list(dict.fromkeys(pictures))
    assert not re.search(r'(?:src|href)="(?:/|\w+:)', text)  # works from wherever the folder is
    for name in pictures:
        picture = imread(folder / name)
        assert min(picture.shape[:2]) > 150
        assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 50
    assert set(pictures) == {file.name for file in folder.glob("*.png")}
    return text


def test_run_alone_builds_no_applications(tmp_path: Path) -> None:
    """`./run` on a bare machine compiles no more than the solves need; `./run demo` all that the demo shows."""
    setup = (ROOT / "scripts/setup.sh").read_text()
    function = re.search(r"^wants_applications\(\) \{.*?^\}", setup, re.S | re.M)
    assert function is not None

    def wanted(*words: str) -> bool:
        script = f'build={tmp_path}\n{function[0]}\nwants_applications "$@"'
        return subprocess.run(["sh", "-c", script, "run", *words], check=False).returncode == 0

    assert not wanted()
    assert not wanted("solve", "a.mtx")
    assert wanted("demo")
    assert wanted("demo", "--quick")
    assert wanted("solve", "a.mtx", "--simulate", "4")
    (tmp_path / "CMakeCache.txt").write_text("TACIT_APPLICATIONS:BOOL=ON\n")
    assert wanted()  # what has been built stays


@pytest.mark.slow
def test_quick_demo(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tacit("demo", "--quick", cwd=tmp_path).stdout
    folder = tmp_path / "tacit-demo"
    text = shown(folder)
    for file in folder.iterdir():
        assert f"tacit-demo/{file.name}" in out
    assert (folder / "convergence.png").exists()
    found = json.loads((folder / "results.json").read_text())
    runs = found["runs"]
    assert len(runs) == (8 if has_mpi() else 6)
    assert all(run["converged"] and run["residual_norm"] <= demo.RTOL for run in runs)
    assert {run["ranks"] for run in runs} == ({1, 2} if has_mpi() else {1})
    assert all(f"{run['iterations']}" in out for run in runs)
    reductions = {run["method"]: run["counts"]["reductions"] for run in runs}  # the last is of the most ranks
    assert reductions["ca-gmres"] < reductions["gmres"] / 2
    assert reductions["ca-bicgstab"] < reductions["bicgstab"] / 2
    if has_mpi():
        events = json.loads((folder / "trace.json").read_text())
        assert len(events["traceEvents"]) > 20
    assert library.read(folder / "flow.mtx").shape == (demo.SAMPLE**3, demo.SAMPLE**3)
    assert "\x1b" not in out
    if _core.applications_built:
        parts = found["parts"]
        assert list(parts) == [name for name, _ in demo_parts.PARTS]
        counts = [run["counts"]["reductions"] for run in parts["multigrid"]["runs"].values()]
        assert counts[1] < counts[0] / 2
        assert abs(parts["bem"]["sphere_charge"] - 1) < 0.01
        assert parts["tomography"]["error"] < 0.3
        assert text.count(">simulated</span>") == 1
        assert "Simulated, not measured" in text
        assert "simulated:" in out
    else:
        assert "./run demo" in text


def test_demo_without_applications(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `./run` shows on a bare machine: the solves, and how to get the rest. Not converged is exit code 3."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(_core, "applications_built", False)
    monkeypatch.setattr(demo, "cases", lambda most: [demo.Case("gmres", "ilu0", 1)])
    assert demo.main(quick=True, folder=tmp_path) == 0
    assert "./run demo" in shown(tmp_path)
    assert "./run demo" in capsys.readouterr().out
    assert not (tmp_path / "scaling.png").exists()
    failed = demo_parts.Part(page.Section("a part"), "it fails", {"converged": False})
    monkeypatch.setattr(_core, "applications_built", True)
    monkeypatch.setattr(demo_parts, "run", lambda folder, quick: [("part", failed)])
    assert demo.main(quick=True, folder=tmp_path) == 3
