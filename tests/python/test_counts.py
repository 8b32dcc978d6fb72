"""How tests are counted: scripts/count_tests.py, .ci/parts.sh, and the table of scripts/stream_orders.py."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

REPORT = """<testsuites><testsuite name="A/0">
<testcase classname="A/0" name="Passes" type_param="tacit::test::In&lt;std::complex&lt;float&gt;, tacit::Device&gt;" status="run" result="completed"/>
<testcase classname="A/0" name="Skips" type_param="tacit::test::In&lt;std::complex&lt;float&gt;, tacit::Device&gt;" status="run" result="skipped"/>
<testcase classname="A/0" name="IsLeftOut" status="notrun" result="suppressed"/>
</testsuite><testsuite name="B">
<testcase classname="B" name="Fails" status="run" result="completed"><failure message="no"/></testcase>
<testcase classname="B" name="Passes" status="run" result="completed"/>
</testsuite></testsuites>
"""  # noqa: E501


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    for name in ("count_tests", "stream_orders"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("count_tests"), importlib.import_module("stream_orders")


def test_cases_are_counted_by_their_outcome(scripts: tuple[Any, Any], tmp_path: Path) -> None:
    count_tests, _ = scripts
    (tmp_path / "a.xml").write_text(REPORT)
    count = count_tests.count_cases(tmp_path / "a.xml")
    assert (count.passed, count.failed, count.skipped, count.names) == (2, 1, 1, ["B.Fails"])


def test_the_table_adds_up_seeds_and_keeps_devices_apart(scripts: tuple[Any, Any], tmp_path: Path) -> None:
    _, orders = scripts
    runs = [orders.Run(seed, devices) for seed in (4, 5) for devices in (1, 3)]
    for run in runs[:3]:  # the last one left no report
        (tmp_path / f"{run.name}.xml").write_text(REPORT)
    lines = [line.split() for line in orders.table(tmp_path, runs, [1, 3])]
    assert lines[1] == ["A", "complex<float>,", "Device", "2", "0", "2", "1", "0", "1"]
    assert lines[2] == ["B", "2", "2", "0", "1", "1", "0"]


def parts(*lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What these lines of a script of .ci do."""
    script = "\n".join((f'. "{ROOT}/.ci/parts.sh" 1', *lines, "totals"))
    return subprocess.run(
        ["bash", "-uc", script], env=os.environ | environment, text=True, capture_output=True, timeout=60
    )


def test_parts_of_a_check_add_up() -> None:
    two, bad = (
        "part two echo '2 passed, 0 failed'",
        "part bad sh -c 'echo failed: this; echo 1 passed, 1 failed; exit 1'",
    )
    done = parts(two, "part plain true")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "3 passed, 0 failed"
    done = parts(two, bad, "part false false")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "3 passed, 2 failed"
    assert {"failed: bad: this", "failed: bad: exit code 1", "failed: false: exit code 1"} <= set(
        done.stdout.splitlines()
    )


def test_a_part_without_time_has_failed() -> None:
    done = parts("part late true", TACIT_CI_MINUTES="0")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "failed: late: no time left"


@pytest.mark.parametrize("words", [["test", "--quick"], ["test", "--orders", "0"], [".ci/nightly", "nonsense"]])
def test_wrong_use_of_the_scripts(words: list[str]) -> None:
    done = subprocess.run([ROOT / words[0], *words[1:]], text=True, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert words[0].rpartition("/")[2] in done.stderr
