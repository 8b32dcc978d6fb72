"""`tacit info`, `check` and `convert`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import grid_entries, poisson, tacit, write_mtx

import tacit as library


def dense(n: int, wind: float = 0.0) -> np.ndarray[Any, Any]:
    a = np.zeros((n * n, n * n))
    for place, value in grid_entries(n, wind).items():
        a[place] = value
    return a


def info(path: Path) -> dict[str, Any]:
    done = tacit("info", path, "--json", "-")
    facts: dict[str, Any] = json.loads(done.stdout)
    assert facts["schema"] == "tacit.info/1"
    assert str(path) in done.stderr
    return facts


def test_info_of_a_matrix(tmp_path: Path) -> None:
    facts = info(poisson(tmp_path / "p.mtx", 6))
    assert (facts["rows"], facts["columns"], facts["nonzeros"]) == (36, 36, 36 * 5 - 24)
    assert facts["bandwidth"] == {"lower": 6, "upper": 6}
    assert facts["hermitian"] is True
    assert facts["symmetric_pattern"] is True
    assert facts["diagonal"] == {"largest": 4.0, "smallest": 4.0, "zeros": 0, "positive": True}
    assert facts["dominant_rows"] == 36
    assert facts["row_entries"]["least"] == 3
    assert "cg" in facts["advice"]
    facts = info(poisson(tmp_path / "w.mtx", 6, wind=0.5))
    assert facts["hermitian"] is False
    assert facts["hermitian_defect"] == pytest.approx(0.5 / 4.5)
    assert "gmres" in facts["advice"]
    # The same rule as of method="auto": rounding is no asymmetry, and negative definite matrices are for cg too.
    entries = (
        {(i, i): -4.0 for i in range(5)}
        | {(i, i + 1): 1.0 for i in range(4)}
        | {(i + 1, i): 1 + 4e-16 for i in range(4)}
    )
    facts = info(write_mtx(tmp_path / "r.mtx", (5, 5), entries))
    assert facts["hermitian"] is True
    assert facts["hermitian_defect"] > 0
    assert "cg" in facts["advice"]
    assert "rounding" in tacit("info", tmp_path / "r.mtx").stdout


def test_info_in_words(tmp_path: Path) -> None:
    out = tacit("info", poisson(tmp_path / "p.mtx", 6)).stdout
    for words in (
        "Matrix Market coordinate real general",
        "36 x 36 matrix",
        "6 below, 6 above",
        "all positive",
        "symmetric",
    ):
        assert words in out


def test_info_of_the_unusual(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 2\n3 1 -1e-3\n1 1 1\n"
    (tmp_path / "s.mtx").write_text(text)
    facts = info(tmp_path / "s.mtx")
    assert facts["symmetry"] == "symmetric"
    assert facts["duplicates"] == 1
    assert facts["empty_rows"] == 1
    assert facts["diagonal"]["zeros"] == 2
    assert facts["values"] == {"largest": 3.0, "smallest": 1e-3, "zeros": 0}
    facts = info(write_mtx(tmp_path / "wide.mtx", (2, 5), {(1, 4): 1.0}))
    assert facts["square"] is False
    np.save(tmp_path / "v.npy", np.array([0.0, -2.0]))
    facts = info(tmp_path / "v.npy")
    assert facts["what"] == "vector"
    assert facts["values"] == {"largest": 2.0, "smallest": 2.0, "zeros": 1}
    facts = info(write_mtx(tmp_path / "c.mtx", (2, 2), {(0, 1): 1j, (1, 0): -1j}, "complex"))
    assert facts["hermitian"] is True
    assert facts["scalar"] == "complex128"


def test_check(tmp_path: Path) -> None:
    good = poisson(tmp_path / "good.mtx", 3)
    np.save(tmp_path / "v.npy", np.ones(3))
    out = tacit("check", good, tmp_path / "v.npy").stdout
    assert out.count("valid") == 2
    bad = tmp_path / "bad.mtx"
    bad.write_text(good.read_text().replace("1 1 4.0", "1 1 4.0 5.0"))
    done = tacit("check", bad, good, code=4)
    assert f"{bad}:3:" in done.stderr
    assert f"{good}: valid" in done.stdout
    np.save(tmp_path / "nan.npy", np.array([1.0, np.nan]))
    assert "value 2 is not finite" in tacit("check", tmp_path / "nan.npy", code=4).stderr
    tacit("check", tmp_path / "nothing", code=4)


def test_convert_matrices(tmp_path: Path) -> None:
    first = poisson(tmp_path / "0.mtx", 5, wind=0.1)
    chain = [first, *(tmp_path / name for name in ("1.npz", "2.petsc", "3.mtx.gz", "4.mtx"))]
    for source, target in pairwise(chain):
        out = tacit("convert", source, target).stdout
        assert f"-> {target}" in out
        assert np.array_equal(library.read(target).to_scipy().toarray(), dense(5, 0.1))
    assert np.array_equal(sp.load_npz(tmp_path / "1.npz").toarray(), dense(5, 0.1))
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(path.name for path in chain)


def test_convert_vectors(tmp_path: Path) -> None:
    values = np.array([1.5, -2e-300, 0.1])
    np.save(tmp_path / "0.npy", values)
    chain = [tmp_path / name for name in ("0.npy", "1.mtx", "2.petsc", "3.npz", "4.npy")]
    for source, target in pairwise(chain):
        tacit("convert", source, target)
        assert np.array_equal(np.asarray(library.read_vector(target)).ravel(), values)


def test_convert_refuses(tmp_path: Path) -> None:
    good = poisson(tmp_path / "good.mtx", 3)
    assert ".npz holds those" in tacit("convert", good, tmp_path / "x.npy", code=2).stderr
    assert "must end in" in tacit("convert", good, tmp_path / "x.txt", code=2).stderr
    bad = tmp_path / "bad.mtx"
    bad.write_text(good.read_text() + "3 3 1\n")
    (tmp_path / "kept.npz").write_bytes(b"before")
    assert str(bad) in tacit("convert", bad, tmp_path / "kept.npz", code=4).stderr
    assert (tmp_path / "kept.npz").read_bytes() == b"before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.mtx", "good.mtx", "kept.npz"]
