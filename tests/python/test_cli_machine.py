"""`tacit machine`: machines shown, and measured into files that --machine takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import poisson, refused, tacit

import tacit as library


def test_machines_are_shown(tmp_path: Path) -> None:
    assert tacit("machine", "show").stdout.split() == library.simulate.machines()
    facts = json.loads(tacit("machine", "show", "summit", "--json", "-").stdout)
    assert facts["schema"] == "tacit.machine/1"
    assert facts["parameters"] == library.simulate.machine("summit")
    assert "sumit" in refused("machine", "show", "sumit")
    assert "measure, show" in refused("machine", "weigh")
    assert ".json" in refused("machine", "measure", tmp_path / "m.txt")
    assert "does not exist" in refused("machine", "measure", tmp_path / "nowhere" / "m.json")
    (tmp_path / "folder.json").mkdir()
    assert "cannot be written" in refused("machine", "measure", tmp_path / "folder.json")
    assert "tacit machine measure" in refused("machine", "show", "summit", "--ranks", "2")


@pytest.mark.slow
def test_a_measured_machine_is_a_machine(tmp_path: Path) -> None:
    file, told = tmp_path / "m.json", tmp_path / "told.json"
    out = tacit("machine", "measure", file, "--ranks", 2, "--json", told).stdout
    found = json.loads(file.read_text())
    assert "latency" in out
    assert json.loads(told.read_text())["ranks"] == 2
    assert json.loads(told.read_text())["parameters"] == found == library.simulate.machine(file)
    assert found["overhead"] > 0
    matrix = poisson(tmp_path / "p.mtx", 12)
    done = tacit("solve", matrix, "--simulate", 2, "--machine", file, "--method", "cg")
    assert "SIMULATED" in done.stdout
