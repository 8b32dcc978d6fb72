"""The common parts of the Python benches (bench/harness.py), and that each bench starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import harness

BENCHES = sorted(path for path in (ROOT / "bench").glob("*.py") if path.stem != "harness")


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


@pytest.mark.slow
@pytest.mark.parametrize("bench", BENCHES, ids=lambda path: path.stem)
def test_every_bench_starts_and_writes_json(bench: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(bench), "--help"], env=harness.environment(), text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout
