"""`tacit demo`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import has_mpi, tacit

import tacit as library
from tacit.cli import demo


def test_rows_do_not_depend_on_who_makes_them() -> None:
    n = 5
    start, columns, values, b = demo.rows(n, 0, n**3)
    A = sp.csr_array((values, columns, start), shape=(n**3, n**3))
    assert A.has_canonical_format
    part_start, part_columns, part_values, part_b = demo.rows(n, 31, 77)
    part = sp.csr_array((part_values, part_columns, part_start), shape=(46, n**3))
    assert abs(A[31:77] - part).max() == 0
    assert np.array_equal(b[31:77], part_b)
    # Away from the walls nothing but decay acts on what is the same everywhere.
    h = 1 / (n + 1)
    inner = (A @ np.ones(n**3)).reshape(n, n, n)[1:-1, 1:-1, 1:-1]
    assert np.allclose(inner, h * h * demo.DECAY, rtol=1e-12)


def test_quick_demo(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    out = tacit("demo", "--quick", cwd=tmp_path).stdout
    folder = tmp_path / "tacit-demo"
    names = {"convergence.png", "field.png", "flow.mtx", "results.json"} | ({"trace.json"} if has_mpi() else set())
    assert names <= {file.name for file in folder.iterdir()}
    for name in names:
        assert f"tacit-demo/{name}" in out
    for name in ("convergence.png", "field.png"):
        picture = imread(folder / name)
        assert min(picture.shape[:2]) > 500
        assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 50
    runs = json.loads((folder / "results.json").read_text())["runs"]
    assert len(runs) == (5 if has_mpi() else 2)
    assert all(run["converged"] and run["residual_norm"] <= demo.RTOL for run in runs)
    assert {run["ranks"] for run in runs} == ({1, 2} if has_mpi() else {1})
    assert all(f"{run['iterations']}" in out for run in runs)
    events = json.loads((folder / "trace.json").read_text())
    assert len(events["traceEvents"]) > 20
    assert library.read(folder / "flow.mtx").shape == (demo.SAMPLE**3, demo.SAMPLE**3)
    assert "\x1b" not in out
