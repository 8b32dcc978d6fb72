"""What a solve says while it runs: the logger, verbose=True, the line of progress."""

from __future__ import annotations

import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import LONG, clean_environment, needs_mpi, poisson
from cli_support import tacit as command
from conftest import Run, laplacian

import tacit
from tacit import _progress


def records(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == level and r.name == "tacit"]


def test_one_line_for_each_solve(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tacit"):
        r = tacit.solve(laplacian(20, 20), np.ones(400), method="gmres", precond="ilu0")
        tacit.cg(laplacian(20, 20), np.ones(400))
    first, second = records(caplog, logging.INFO)
    how = f"converged: gmres with block-jacobi (ilu0), {r.iterations} iterations, residual {r.residual_norm:.2e}, "
    assert first.startswith(how)
    assert second.startswith("converged: cg, ")
    assert records(caplog, logging.DEBUG) == []


def test_each_iteration_and_attempt(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    with caplog.at_level(logging.DEBUG, "tacit"):
        r = tacit.solve(laplacian(40, 40), np.ones(1600), callback=lambda s: seen.append(s.iteration))
    said = records(caplog, logging.DEBUG)
    assert [int(m[1]) for text in said if (m := re.match(r"iteration (\d+): ", text))] == seen
    tried = [text for text in said if text.startswith("attempt")]
    assert len(tried) > 1
    assert tried[0].startswith("attempt 1: ")
    assert r.choice.endswith(tried[-1].partition(": ")[2])


def test_a_solve_is_the_same_whoever_listens(caplog: pytest.LogCaptureFixture) -> None:
    a, b = laplacian(20, 20), np.random.default_rng(0).standard_normal(400)
    quiet = tacit.solve(a, b, method="cg")
    with caplog.at_level(logging.DEBUG, "tacit"):
        heard = tacit.solve(a, b, method="cg")
    assert quiet.counts == heard.counts  # no reduction more
    np.testing.assert_array_equal(quiet.x, heard.x)


def test_failures_and_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tacit"):
        tacit.solve(laplacian(30, 30), np.ones(900), method="cg", max_iterations=2, fallbacks=False)
    (line,) = records(caplog, logging.INFO)
    assert line.startswith("max_iterations: cg, 2 iterations")
    assert "more iterations" in line


def test_nothing_is_printed_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    tacit.solve(laplacian(20), np.ones(20), method="cg", max_iterations=1)
    assert capfd.readouterr() == ("", "")


def test_verbose_prints_how_it_ended(capfd: pytest.CaptureFixture[str]) -> None:
    r = tacit.solve(laplacian(40, 40), np.ones(1600), verbose=True)
    out, err = capfd.readouterr()
    assert out.startswith("tacit: converged: ")
    assert r.choice in out
    assert err == ""  # which is no terminal
    with pytest.raises(TypeError, match="verbose is 'yes'; True or False"):
        tacit.solve(laplacian(4), np.ones(4), verbose="yes")  # type: ignore[arg-type]


def test_attempts() -> None:
    text = "auto: cg (16 iterations, residual 2.5), then cg with ic0 (2, then 3) (5 iterations), then direct (why)"
    assert _progress.attempts(text) == [
        "cg (16 iterations, residual 2.5)",
        "cg with ic0 (2, then 3) (5 iterations)",
        "direct (why)",
    ]
    assert _progress.attempts("") == []


def test_shares_and_times() -> None:
    assert _progress.share_of(1e-4, 1.0, 1e-8) == pytest.approx(0.5)
    assert _progress.share_of(1e3, 1.0, 1e-8) == 0.0
    assert _progress.share_of(float("nan"), 1.0, 1e-8) is None
    assert _progress.share_of(0.5, 1.0, 0.0) is None
    assert _progress.time_left(10, 0.25) == "about 30 s left"
    assert _progress.time_left(600, 0.25) == "about 30 min left"
    assert _progress.time_left(10, 0.0) == ""
    assert _progress.time_left(10, None) == ""


def on_terminal(command: list[str], folder: Path) -> str:
    """What a command writes where standard output and error are a terminal."""
    ours, theirs = pty.openpty()
    environment = clean_environment(TERM="xterm", COLUMNS="120")
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # its end
        pass
    assert process.wait(LONG) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    code = """
import time, numpy as np, tacit
A = tacit.poisson(40)
tacit.solve(A, np.ones(40), method="cg", rtol=1e-12, verbose=True, callback=lambda s: time.sleep(0.05))
"""
    shown = on_terminal([sys.executable, "-c", code], tmp_path)
    assert re.search(r"solving .*iteration \d+, residual \d", shown)
    assert "tacit: converged: cg, 20 iterations" in shown


def test_the_command_on_a_terminal_and_elsewhere(tmp_path: Path) -> None:
    poisson(tmp_path / "a.mtx", 40)
    command = [sys.executable, "-m", "tacit", "solve", "a.mtx", "--method", "cg"]
    shown = on_terminal(command, tmp_path)
    assert "reading a.mtx" in shown
    assert "solving" in shown
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=LONG)
    assert "reading a.mtx" not in done.stdout
    assert done.stderr == ""


class Kernel:
    kernel = object()


def test_progress_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an output that is replaced; IPython is imitated by what is used of it."""
    shown: list[str] = []

    class Handle:
        def update(self, text: str) -> None:
            shown.append(text)

    def display(text: str, display_id: bool) -> Handle:
        shown.append(text)
        return Handle()

    import types

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = Kernel  # type: ignore[attr-defined]
    parts: Any = types.ModuleType("IPython.display")
    parts.HTML, parts.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", parts)
    monkeypatch.setattr(_progress, "_DELAY", 0.0)
    monkeypatch.setattr(_progress, "_PERIOD", 0.0)
    with _progress.working("assembling") as line:
        line.update(0.25, "block 1 of 4")
    assert 'assembling <progress value="0.250"></progress> block 1 of 4' in shown[-2]
    assert shown[-1] == ""


@pytest.mark.parametrize("one", [pytest.param(True, marks=needs_mpi)])
def test_ranks(one: bool, python: Run) -> None:
    """Only the first rank prints, and only it has to listen."""
    code = """
    import logging, sys, numpy as np, tacit
    world = tacit.comm.world()
    if world.rank == 0:
        logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
        logging.getLogger("matplotlib").setLevel(logging.WARNING)
    A = tacit.poisson((20, 20), comm=world)
    r = tacit.solve(A, np.ones(400), method="cg", verbose=True)
    """
    out = python(code, ranks=2).stdout
    assert out.count("tacit: converged") == 1
    assert out.count("INFO:tacit:converged") == 1
    assert "DEBUG:tacit:iteration 1: residual" in out


@pytest.mark.parametrize("everywhere", [pytest.param(one, marks=needs_mpi) for one in (False, True)])
def test_who_listens_changes_no_message(everywhere: bool, python: Run) -> None:
    """The callback that follows a solve is that of one rank; all ranks make the same products."""
    code = f"""
    import logging, numpy as np, tacit
    world = tacit.comm.world()
    if {everywhere} or world.rank == 0:
        logging.getLogger("tacit").setLevel(logging.DEBUG)
    grid, b = tacit.poisson((20, 20), comm=world), np.ones(400)
    matrix = tacit.poisson((20, 20), assembled=True, comm=world)
    for method in ("cg", "gmres", "bicgstab", "minres", "idr", "pipelined-cg", "ca-cg", "ca-gmres", "ca-bicgstab"):
        assert tacit.solve(grid, b, method=method).converged, method
    for A in (grid, matrix):
        for step in (dict(method="richardson", relaxation=0.2), dict(method="chebyshev")):
            r = tacit.solve(A, b, max_iterations=30, fallbacks=False, **step)
            assert r.reason == "max_iterations" or r.converged, (step, r.reason)
    for method in ("lsmr", "lsqr"):
        assert tacit.lstsq(matrix, b, method=method, max_iterations=2000).converged, method
    """
    python(code, ranks=2, timeout=100)


def test_colours_without_a_terminal_bring_no_progress(tmp_path: Path) -> None:
    """Notebooks set FORCE_COLOR for their commands; a line that is drawn again would be shown many times there."""
    poisson(tmp_path / "a.mtx", 60)
    done = command("solve", "a.mtx", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b[1;32mconverged" in done.stdout
    assert set(re.findall(r"\x1b\[[^a-zA-Z]*([a-zA-Z])", done.stdout)) == {"m"}, "only colours"
    assert "reading" not in done.stdout.splitlines()[0]
