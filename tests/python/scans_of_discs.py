"""Scans of discs, and the command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cli_support import LONG
from conftest import ALLOW, ROOT

from tacit import tomography


def disc(n: int, radius: float = 0.35) -> np.ndarray:
    y, x = np.mgrid[:n, :n] + 0.5 - n / 2
    return (np.hypot(x - 2, y) < radius * n).astype(np.float32)


def angles_of(count: int) -> np.ndarray:
    return np.arange(count) * np.pi / count


def scan(path: Path, n: int = 32, slices: int = 5, centre: float = 17.5) -> tuple[np.ndarray, np.ndarray]:
    """A Data Exchange file of discs; its angles and its images."""
    angles = angles_of(40)
    P = tomography.projector(angles, n, centre=centre)
    images = np.stack([disc(n, 0.2 + 0.03 * s) for s in range(slices)]) * 0.02
    sinograms = P.project(images)
    import h5py

    with h5py.File(path, "w") as f:
        white = np.full((3, slices, n), 1000, np.float32)
        dark = np.full((2, slices, n), 10, np.float32)
        f["exchange/data"] = (10 + 990 * np.exp(-sinograms)).transpose(1, 0, 2).astype(np.float32)
        f["exchange/data_white"], f["exchange/data_dark"] = white, dark
        f["exchange/theta"] = np.rad2deg(angles)
    return angles, images


def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python")}
    return subprocess.run(
        [sys.executable, "-m", "tacit", *words], capture_output=True, text=True, env=environment, timeout=LONG, **more
    )
