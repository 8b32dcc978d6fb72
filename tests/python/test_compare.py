"""`tacit bench`: the user's matrix by Tacit and by other libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import poisson, refused
from cli_support import tacit as command
from conftest import laplacian, unsymmetric

from tacit.app import comparison


def rows(a: Any, libraries: list[str], **more: Any) -> dict[tuple[str, str], comparison.Row]:
    b = np.random.default_rng(0).standard_normal(a.shape[0])
    found = comparison.compare(a, b, libraries, **({"rtol": 1e-8, "rounds": 2} | more))
    return {(row.library, row.method): row for row in found}


@pytest.mark.parametrize("a", [laplacian(15, 15), unsymmetric(200)], ids=["symmetric", "unsymmetric"])
def test_all_reach_the_goal(a: Any) -> None:
    found = rows(a, ["scipy"])
    assert {library for library, _ in found} == {"tacit", "scipy"}
    assert len(found) == 4
    for name, row in found.items():
        assert row.converged, name
        assert row.residual <= 1e-8 * (1 + 1e-6)
        assert len(row.total) == len(row.setup) == 2
        assert all(0 <= s <= t for s, t in zip(row.setup, row.total, strict=True))


def test_claims_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that says "converged" with a wrong x, one that raises, one that takes too long."""

    def wrong(problem: comparison.Problem) -> comparison.Answer:
        return comparison.Answer(np.zeros_like(problem.b), 0.0, 1)

    def raises(problem: comparison.Problem) -> comparison.Answer:
        raise RuntimeError("no\nmore")

    def endless(problem: comparison.Problem) -> comparison.Answer:
        while True:
            problem.late()

    def others(library: str, *_: Any) -> list[Any]:
        return [("wrong", wrong), ("raises", raises), ("endless", endless)] if library == "scipy" else []

    monkeypatch.setattr(comparison, "contenders", others)
    found = rows(laplacian(10), ["scipy"], limit=0.05, rounds=3)
    ended = {name: row.ended for (_, name), row in found.items()}
    assert ended == {"wrong": "goal missed", "raises": "RuntimeError: no more", "endless": "too long"}
    assert found["scipy", "wrong"].residual == 1.0
    assert len(found["scipy", "wrong"].total) == 1  # what has failed does not run again


def test_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyamg", None)
    found = comparison.missing(["scipy", "pyamg"])
    assert list(found) == ["pyamg"]
    assert "pyamg" in found["pyamg"]


def test_pyamg_and_petsc_where_they_are_installed() -> None:
    absent = comparison.missing(["pyamg", "petsc"])
    there = [name for name in ("pyamg", "petsc") if name not in absent]
    if not there:
        pytest.skip("neither pyamg nor petsc4py")
    found = rows(laplacian(15, 15), there, rounds=1)
    assert {library for library, _ in found} == {"tacit", *there}
    assert all(row.converged for row in found.values())


def test_the_command(tmp_path: Path) -> None:
    poisson(tmp_path / "a.mtx", 10)
    done = command("bench", "a.mtx", "--vs", "scipy", "--rounds", "2", "--json", "r.json", cwd=tmp_path)
    assert "splu" in done.stdout
    assert "medians of 2 rounds, set-up included" in done.stdout
    facts = json.loads((tmp_path / "r.json").read_text())
    assert facts["schema"] == "tacit.bench/1"
    assert facts["missing"] == {}
    assert facts["versions"]["scipy"]
    assert [row["library"] for row in facts["rows"]] == ["tacit", "scipy", "scipy", "scipy"]
    first = facts["rows"][0]
    assert first["converged"] is True
    assert first["median"]["total"] == pytest.approx(np.median(first["rounds"]["total"]))


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    poisson(tmp_path / "a.mtx", 4)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "pyamg.py").write_text("raise ImportError('not here')\n")
    path = f"{blocked}:{':'.join(p for p in sys.path if p)}"
    done = command("bench", "a.mtx", "--vs", "pyamg", "--rounds", "1", cwd=tmp_path, PYTHONPATH=path)
    assert "left out: pyamg cannot be imported here (ImportError: not here)" in done.stdout


def test_wrong_use(tmp_path: Path) -> None:
    poisson(tmp_path / "a.mtx", 4)
    assert 'did you mean "scipy"?' in refused("bench", "a.mtx", "--vs", "scippy", cwd=tmp_path)
    np.save(tmp_path / "b.npy", np.ones((16, 2)))
    assert "has 2 vectors" in refused("bench", "a.mtx", "--vs", "scipy", "--b", "b.npy", cwd=tmp_path)
