"""Programs of bench/ that some rows need: they are part of a build (TACIT_BENCH=ON), not of an installed package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where a build has its programs: bench/ in $TACIT_BUILD, or in build/release of the checkout of this package."""
    build = os.environ.get("TACIT_BUILD")
    return Path(build or Path(__file__).resolve().parents[4] / "build" / "release") / "bench"


def missing(needs: tuple[str, ...]) -> list[str]:
    """Those programs that are not there."""
    return [name for name in needs if not shutil.which(str(folder() / name)) and not (name == "mpiexec" and _mpiexec())]


def _mpiexec() -> str | None:
    return shutil.which("mpiexec.openmpi") or shutil.which("mpiexec")


def output(name: str, *words: Any, ranks: int = 0) -> str:
    """What a program prints, on so many ranks of MPI (0: without mpiexec), each with one thread."""
    command = [str(folder() / name), *map(str, words)]
    if ranks:
        command = [str(_mpiexec()), "-n", str(ranks), *command]
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    env = os.environ | allowed | {"OMP_NUM_THREADS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def rows(name: str, *words: Any) -> list[dict[str, Any]]:
    """The rows that a program writes to json=FILE: a list, or an object a line."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.json"
        output(name, *words, f"json={path}")
        text = path.read_text()
    found: list[dict[str, Any]] = (
        json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    )
    return found
