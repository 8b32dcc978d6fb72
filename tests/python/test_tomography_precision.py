"""Reconstructions with vectors and messages in 16 bits follow those in floats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import ROOT
from scans_of_discs import angles_of

import tacit
from tacit import tomography

SHARED = Path(os.environ.get("TACIT_TEST_SHARED", ROOT.parent / "shared")) / "data" / "tomography"
# A thin shell around next to nothing, with a small dense rod in the middle: value, half axes.
SHELL = ((1.0, 0.69, 0.92), (-0.98, 0.6624, 0.874), (30.0, 0.1, 0.02))


def shell(angles: int, n: int, samples: int = 4) -> np.ndarray:
    """The exact line integrals of SHELL, averaged over the bins: a smooth sinogram of a wide range, without noise.
    Rounding errors have directions that it has nothing of, as it is symmetric."""
    r = ((np.arange(n * samples) + 0.5) / samples - n / 2) / (n / 2)
    t = angles_of(angles)[:, None]
    found = np.zeros((angles, n * samples))
    for value, a, b in SHELL:
        width2 = (a * np.cos(t)) ** 2 + (b * np.sin(t)) ** 2
        found += 2 * value * a * b * np.sqrt(np.maximum(width2 - r * r, 0)) / width2
    return (found.reshape(angles, n, samples).mean(2) * n / 2).astype(np.float32)


def squares(b: np.ndarray, angles: np.ndarray, judge: Any, **options: Any) -> tuple[np.ndarray, int]:
    """|b - A x|^2 of every slice after 8, 12, .., 24 iterations, by A in full; the bytes this rank sent."""
    P = tomography.projector(angles, b.shape[-1], format="list", columns=len(b), **options)
    comm = options.get("comm")
    before = comm.counters["bytes"] if comm else 0
    r = tomography.reconstruct(b, projector=P, iterations=24)
    sent = comm.counters["bytes"] - before if comm else 0
    last = ((b - judge.project(r.images)).astype(float) ** 2).sum((1, 2))
    # What is reported is the residual of these images by the matrix in full.
    np.testing.assert_allclose(np.square(r.final_residual), last, rtol=1e-3)
    return np.vstack([r.residual[8:24:4] ** 2, last]), sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_16_bits_follow_floats(ranks: int) -> None:
    angles = angles_of(90)
    # The same slice at other sizes: other rounding errors.
    b = shell(90, 64)[None] * np.array([1, 1.1, 1.3, 1.7], np.float32)[:, None, None]
    judge = tomography.projector(angles, 64, format="list")
    groups = {"groups": (2,)} if ranks == 4 else {}

    def rank(comm: Any) -> dict[str, tuple[np.ndarray, int]]:
        more = {"comm": comm, **groups} if ranks > 1 else {}
        return {v: squares(b, angles, judge, vectors=v, **more) for v in ("full", "float16", "bfloat16")}

    found = tacit.comm.run_threads(ranks, rank) if ranks > 1 else [rank(None)]
    floats = found[0]["full"][0]
    for vectors in ("float16", "bfloat16"):
        worst = (found[0][vectors][0] / floats).max(1)
        assert (worst <= 1.06).all(), (vectors, worst)
        if ranks > 1:
            full, sent = (sum(rank[v][1] for rank in found) for v in ("full", vectors))
            # A few of the first products are sent in full, all the others in half and a number for each 64.
            assert 0.5 * full < sent < 0.7 * full, (vectors, sent, full)


def test_16_bits_keep_what_is_not_finite() -> None:
    angles = angles_of(30)
    b = np.stack([shell(30, 24)] * 3)
    b[1, 3, 4] = np.inf

    def rank(comm: Any) -> Any:
        P = tomography.projector(angles, 24, format="list", columns=3, vectors="float16", comm=comm)
        return tomography.reconstruct(b, projector=P, iterations=12)

    for r in tacit.comm.run_threads(2, rank):
        assert r.end == ["iterations", "non_finite", "iterations"]
        assert np.isfinite(r.images[[0, 2]]).all()


@pytest.mark.parametrize("vectors", ["float16", "bfloat16"])
def test_sums_of_16_bits_neither_stall_nor_overflow(vectors: str) -> None:
    # Sums in halves would stall at 2048 and overflow at 65504.
    ones = sp.csr_matrix(np.ones((3, 20000), np.float32))
    x = np.full((20000, 8), 4.7, np.float32)
    np.testing.assert_allclose(tacit.tiled(ones, vectors=vectors) @ x, 94000, rtol=1e-4)
    angles, image = angles_of(20), np.full((32, 32), 6e4, np.float32)
    wanted = tomography.projector(angles, 32).project(image)

    def rank(comm: Any) -> Any:
        return tomography.projector(angles, 32, format="list", vectors=vectors, comm=comm).project(image)

    for found in tacit.comm.run_threads(3, rank):
        np.testing.assert_allclose(found, wanted, atol=1e-2 * wanted.max())


@pytest.mark.skipif(not (SHARED / "ADS1_theta.bin").exists(), reason=f"no {SHARED}")
@pytest.mark.parametrize("vectors", ["float16", "bfloat16"])
def test_16_bits_follow_floats_on_a_published_scan(vectors: str) -> None:
    angles = np.fromfile(SHARED / "ADS1_theta.bin", "<f4")[::2]
    b = np.fromfile(SHARED / "ADS1_sinogram.bin", "<f4").reshape(1, 360, 256)[:, ::2]
    judge = tomography.projector(angles, 256, format="list")
    (floats, _), (found, _) = (squares(b, angles, judge, vectors=v) for v in ("full", vectors))
    assert (found <= 1.06 * floats).all(), found / floats
