"""The common parts of the Python benches (bench/harness.py), and that each bench starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import ROOT

import tacit

sys.path.insert(0, str(ROOT / "bench"))
import harness

BENCHES = sorted(
    path for path in (ROOT / "bench").glob("*.py") if path.stem not in ("harness", "amg_systems", "diagnosed_systems")
)


def test_candidates_take_turns() -> None:
    calls: list[str] = []

    def candidate(name: str) -> int:
        calls.append(name)
        return len(calls)

    found = harness.turns(3, {name: lambda name=name: candidate(name) for name in "ab"})
    assert calls == list("ababab")
    assert found == {"a": [1, 3, 5], "b": [2, 4, 6]}


def test_lists_of_runs_are_joined() -> None:
    runs = [{"seconds": [9.0, 1.0]}, {"seconds": [9.0, 3.0, 2.0]}]
    assert harness.joined(runs, skip=1) == [1.0, 3.0, 2.0]
    assert harness.median_ms([1.0, 3.0, 2.0], per=4) == 500.0


def test_facts_of_a_program() -> None:
    python = [sys.executable, "-c"]
    assert harness.facts([*python, "print('{\\n\"a\":\\n1}')"]) == {"a": 1}
    assert harness.facts([*python, "print('said'); print('{\"a\": 1}'); print('{\"a\": 2}')"]) == {"a": 2}
    threads = "import os, json; print(json.dumps(os.environ['OMP_NUM_THREADS']))"
    assert harness.facts([*python, threads], threads=3) == "3"
    with pytest.raises(SystemExit, match=r"ended with 4:\nout\nwhy"):
        harness.output([*python, "import sys; print('out', flush=True); print('why', file=sys.stderr); sys.exit(4)"])
    assert harness.output([*python, "import sys; sys.exit(3)"], accepted=(0, 3)) == ""


def test_results_name_their_surroundings(tmp_path: Path) -> None:
    harness.write(tmp_path / "new" / "r.json", "some/1", rows=[1])
    found = json.loads((tmp_path / "new" / "r.json").read_text())
    assert found["schema"] == "tacit.bench.some/1"
    assert found["rows"] == [1]
    assert {"machine", "cores", "commit", "date", "command"} <= set(found)
    harness.write(None, "some/1")


def test_results_have_a_row_a_line() -> None:
    row = {"name": "x" * 30, "seconds": [0.1, 1e-30, 3], "found": {"é": None}}
    value = {"rows": [row] * 3, "by name": {"a": row, "b": {"inner": [row, row], "none": []}}, "words": ["w" * 150]}
    assert json.loads(harness.compact({1: row, 2: [row] * 3})) == {"1": row, "2": [row] * 3}
    text = harness.compact(value)
    assert json.loads(text) == value
    lines = text.splitlines()
    assert [line.strip().rstrip(",") for line in lines[2:5]] == [json.dumps(row)] * 3
    assert len(lines) == 18


def test_results_are_kept_compact() -> None:
    for file in (ROOT / "bench/results").glob("*.json"):
        text = file.read_text()
        assert text == harness.compact(json.loads(text)) + "\n", file.name


@pytest.mark.slow
def test_real_systems_judges_settings_by_the_true_residual(tmp_path: Path) -> None:
    """A definite matrix that every program solves, and a singular one with b outside its range, which none can."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40))
    sp.save_npz(tmp_path / "line.npz", sp.csr_matrix(line))
    sp.save_npz(tmp_path / "ring.npz", sp.csr_matrix(line - sp.csr_array(([1.0, 1.0], ([0, 39], [39, 0])), (40, 40))))
    command = [
        sys.executable,
        ROOT / "bench/real_systems.py",
        tmp_path,
        "--programs",
        "tacit",
        "scipy",
        "--rhs",
        "ones",
    ]
    harness.output([*command, "--iterations", 200, "--limit", 5, "--json", tmp_path / "found.json"], timeout=300)
    found = {s["name"]: s for s in json.loads((tmp_path / "found.json").read_text())["systems"]}
    assert set(found) == {"line", "ring"}
    assert found["line"]["hermitian"]
    assert found["line"]["rows"] == 40
    assert {"auto", "cg none", "gmres ilu0"} <= set(found["line"]["solved"]["tacit"])
    assert {"cg none", "bicgstab spilu"} <= set(found["line"]["solved"]["scipy"])
    assert found["ring"]["solved"] == {"tacit": {}, "scipy": {}}
    assert found["ring"]["runs"] == found["line"]["runs"]
    assert found["ring"]["false"]["tacit"] == []


@pytest.mark.slow
def test_every_bench_starts_and_writes_json() -> None:
    program = """
import contextlib, io, runpy, sys
clean = list(sys.path)
for path in sys.argv[1:]:
    sys.path[:] = clean  # no bench finds a folder that another one added
    sys.path[0], sys.argv = path.rpartition("/")[0], [path, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            assert end.code in (0, None), path
    assert "--json" in said.getvalue(), path
"""
    harness.output([sys.executable, "-c", program, *BENCHES], timeout=300)


def test_systems_of_the_multigrid_bench() -> None:
    import amg_systems

    for name in amg_systems.SYSTEMS:
        p = amg_systems.problem(name, 0.05)
        n = p.a.shape[0]
        assert n % p.block == 0
        assert (abs(p.a - p.a.T).max() > 1e-8) == (not p.symmetric)
        assert p.a.diagonal().min() > 0
        if p.symmetric:
            np.linalg.cholesky(p.a.toarray())  # raises unless it is definite
        if p.coordinates is not None:
            modes = amg_systems.rigid_body_modes(p.coordinates)
            assert len(p.coordinates) * p.block == n
            both = np.c_[modes, tacit.precond.rigid_body_modes(p.coordinates)]
            assert np.linalg.matrix_rank(both) == modes.shape[1]
            inside = np.repeat(p.coordinates[:, 0] > 1, p.block)  # not beside the nodes that are held
            assert np.abs((p.a @ modes)[inside]).max() < 1e-12


@pytest.mark.slow
def test_multigrid_bench_solves(tmp_path: Path) -> None:
    """Every solver of Tacit, on a system of the bench and on a file."""
    import amg

    names = [name for name, (program, _) in amg.SOLVERS.items() if program == "tacit"]
    sp.save_npz(tmp_path / "mine.npz", sp.csr_matrix(sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (50, 50))))
    words = ["--rounds", "1", "--scale", "0.2", "--only", "beam", "--files", str(tmp_path / "mine.npz")]
    command = [
        sys.executable,
        str(ROOT / "bench/amg.py"),
        *words,
        "--solvers",
        *names,
        "--json",
        str(tmp_path / "r.json"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads((tmp_path / "r.json").read_text())["systems"]
    assert list(found) == ["beam", "mine"]
    assert set(found["beam"]) == set(names)
    assert set(found["mine"]) == set(names) - {"tacit block"}
    assert all(entry["solved"] for table in found.values() for entry in table.values())
    assert found["beam"]["tacit block"]["iterations"] > found["beam"]["tacit spai0"]["iterations"]


def test_values_are_exact_where_tacit_stores_fewer_bits() -> None:
    from exact_values import BITS, exact

    float32 = np.finfo(np.float32)
    numbers = [0.0, -0.0, 257, 255 * 2.0**120, float(float32.max), 2.0**128, float(float32.tiny), 2.0**-127, 1 / 3]
    for v in [*numbers, np.inf, np.nan, 1 + 2.0**-23, 1 + 2.0**-24, 1e-310]:
        values = np.array([1.0, v])
        stored = tacit.csr(sp.csr_array((values, ([0, 0], [0, 1])), (1, 2)), format="csr").storage
        assert ("bfloat16" in stored) == exact(values, BITS["bfloat16"]), (v, stored)
        assert ("16 values" in stored or "float32 values" in stored) == exact(values, BITS["float32"]), (v, stored)


def test_crossing_wires() -> None:
    """Two wires below two others, in pF, of FastCap's manual; 1 m apart and 22 m2 each."""
    from bus_crossings import PUBLISHED, crossing, graded, panels

    mesh = crossing(2, lambda metres: graded(metres, 4))
    assert mesh.surface["closed"]
    assert mesh.areas.sum() == pytest.approx(4 * 22, rel=1e-12, abs=0)
    found = tacit.bem.assemble(mesh, discretisation="galerkin", tolerance=1e-5).capacitance()
    assert 1e12 * found.farads[0] == pytest.approx(PUBLISHED[2], rel=4e-3, abs=0)
    assert found.asymmetry < 1e-4
    assert panels(2, 3) == pytest.approx(np.array([0, 1, 11, 12, 13, 23, 24]) / 12, rel=1e-12, abs=1e-15)
