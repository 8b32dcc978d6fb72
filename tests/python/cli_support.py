"""What the tests of the command line share: running it, and small systems as files."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tacit import _core

LONG = 300  # seconds; longer than any command takes, also on a busy machine

MPI_SHOWN = ("OMPI_", "PMI_", "PMIX_", "TACIT_", "SLURM_")


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without the variables of a launcher, as if the command were started from a shell."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(MPI_SHOWN)}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""} | more  # ranks write whole lines


def tacit(*words: object, code: int = 0, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs `tacit WORDS` and fails the test unless it ends with this exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "tacit", *map(str, words)],
        cwd=cwd, env=clean_environment(**more), text=True, capture_output=True, timeout=LONG, stdin=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    shown = (
        f"tacit {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    assert done.returncode == code, shown
    assert "Traceback" not in done.stderr, shown
    return done


def refused(*words: object, code: int = 2, cwd: Path | None = None) -> str:
    """What `tacit WORDS` says when it refuses them. Nothing is computed then, and this process has made the imports."""
    from tacit import cli

    said = io.StringIO()
    with contextlib.chdir(cwd or Path.cwd()), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        got = cli.main(list(map(str, words)))
    assert got == code, f"tacit {' '.join(map(str, words))}: exit code {got}\n{said.getvalue()[-3000:]}"
    assert "Traceback" not in said.getvalue()
    return said.getvalue()


def processor_seconds(pid: int) -> float:
    """The processor time that a process has used so far, which does not depend on other load."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def has_mpi() -> bool:
    from tacit import launch

    try:
        launch.find_mpiexec()
    except launch.LaunchError:
        return False
    return True


needs_mpi = [pytest.mark.mpi, pytest.mark.skipif(not has_mpi(), reason="no MPI, or no mpiexec of it")]
# For tests that do not show the error of a build without them, which conftest.py takes for a skip.
needs_applications = pytest.mark.skipif(not _core.applications_built, reason="needs the applications")


def grid_entries(n: int, wind: float = 0.0) -> dict[tuple[int, int], float]:
    """Five-point differences on n x n points, with a wind along x."""
    entries = {}
    for y in range(n):
        for x in range(n):
            row = y * n + x
            entries[row, row] = 4.0 + wind
            for dx, dy, value in ((-1, 0, -1.0 - wind), (1, 0, -1.0), (0, -1, -1.0), (0, 1, -1.0)):
                if 0 <= x + dx < n and 0 <= y + dy < n:
                    entries[row, row + dy * n + dx] = value
    return entries


def write_mtx(
    path: Path, size: tuple[int, int], entries: dict[tuple[int, int], float | complex], word: str = "real"
) -> Path:
    def text(value: float | complex) -> str:
        return f"{value.real!r} {value.imag!r}" if isinstance(value, complex) else repr(value)

    lines = [f"%%MatrixMarket matrix coordinate {word} general", f"{size[0]} {size[1]} {len(entries)}"]
    lines += [f"{i + 1} {j + 1} {text(value)}" for (i, j), value in entries.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def poisson(path: Path, n: int = 12, wind: float = 0.0) -> Path:
    return write_mtx(path, (n * n, n * n), grid_entries(n, wind))
