"""scripts/progress.py: what ./run prints while it compiles."""

import os
import pty
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "progress.py"
STEPS = 'for i in 1 2 3 4; do echo "[$i/4] CXX $i.o"; sleep 0.3; done; echo "${NINJA_STATUS}"; exit 3'


def start(log: Path, *, seconds: float, **where: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(SCRIPT), str(log), "compile x:", "sh", "-c", STEPS]
    known = os.environ | {"TACIT_PROGRESS_SECONDS": str(seconds), "NINJA_STATUS": "none "}
    return subprocess.Popen(words, env=known, text=True, stdin=subprocess.DEVNULL, **where)


def test_lines_are_printed_at_intervals_and_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    child = start(tmp_path / "log", seconds=0.4, stderr=subprocess.PIPE)
    lines = child.communicate(timeout=60)[1].splitlines()
    assert child.returncode == 3
    assert lines, "nothing was printed"
    assert all(line.startswith("tacit: compile x: ") and "/4, " in line for line in lines), lines
    log = (tmp_path / "log").read_text()
    assert "[4/4] CXX 4.o" in log
    assert "[%f/%t]" in log, "ninja would not number its steps"


def test_nothing_is_printed_of_what_is_quick(tmp_path: Path) -> None:
    child = start(tmp_path / "log", seconds=15, stderr=subprocess.PIPE)
    assert child.communicate(timeout=60)[1] == ""


def test_one_line_is_rewritten_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    child = start(tmp_path / "log", seconds=0.1, stderr=theirs)
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 1024):
            text += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait(timeout=60) == 3
    assert text.count(b"\rtacit: compile x: ") > 1, text
    assert b"\n" not in text
    assert text.rstrip(b" ").endswith(b"\r")
