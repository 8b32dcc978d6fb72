"""The simulator's clock against another simulator: SimGrid's SMPI (bench/clock_errors.py)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import clock_errors

BUILD = Path(os.environ.get("TACIT_BUILD", ROOT / "build/release"))


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("smpirun") or not (BUILD / "bench/libbench_smpi.so").exists(),
    reason="needs SimGrid and the target bench_smpi",
)
def test_clocks_agree_with_smpi() -> None:
    """The same library over SimGrid's network does the same solves, to the last bit, in the same time."""
    rows = clock_errors.compared_with_smpi(
        argparse.Namespace(
            build=BUILD, machine="hopper", set=[], problems=["boxes"], ranks=[8], iterations=20, json=None,
            only=["cg", "pipelined-cg", "ca-cg", "pipelined-bicgstab", "ca-gmres"],
        )
    )  # fmt: skip
    assert len(rows) == 5
    for row in rows:
        assert abs(row["error"]) < 0.05, (row["tacit"]["method"], row["error"])
        assert row["tacit"]["messages"] > 500
