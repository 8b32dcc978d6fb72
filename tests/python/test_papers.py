"""Every script of bench/papers runs, at a small size, and draws or prints what it is for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import harness

PAPERS = ROOT / "bench" / "papers"
# The words of each script; OUT stands for an empty folder. Those that run programs of bench/ (TACIT_BENCH=ON) have
# their names beside them, and are only asked for their help where one is not built.
WORDS = {
    "000/batching.py": "--points 300 --count 40 --repeat 1 --out OUT",
    "000/cluster.py": "bench_hmatrix_cluster: --mesh ring:5,8 --nodes 1,2 --gpus 1,2 --steps 2 --figures 12 --out OUT",
    "000/partition.py": "OUT/blocks.txt --out OUT",
    "000/tables.py": "--problems ring:5x6",
    "001/convergence.py": "--n 12 --restart 5 --iterations 10 --ranks 1 --out OUT",
    "001/overlap.py": "bench_latency: --n 8 --latency 10 --products 2 --out OUT",
    "001/tables.py": "bench_solve: --help",  # its sizes are those of the paper's tables
    "002/applications.py": "",  # a part of figures.py
    "002/figures.py": "--largest 2 --box 4 --figures 6 --out OUT",
    "003/acceptance.py": "--data OUT --small --tests 11",
    "003/clustering.py": "--size 32 --angles 20 --block 64",
    "003/end_to_end.py": "--sizes 16,12 --ranks 2 --groups 2 --iterations 2 --out OUT",
    "003/hierarchy.py": "--size 32 --angles 20 --ranks 4 --groups 2 --out OUT",
    "003/pipelining.py": "--size 16 --angles 12 --ranks 2 --columns 4 --minibatch 0,2 --out OUT",
    "003/precision.py": "--data OUT --sets SL32 --kept 0",
    "003/reordering.py": "--large 32,20 --out OUT",
    "003/simulated.py": "bench_simulated_tomography: --size 16 --angles 12 --scans 4,2,2:32 --products 3 --out OUT",
    "003/throughput.py": "--size 16 --angles 12 --tiles 8,16 --panels 16 --neurons 1024 --repeat 1 --out OUT",
    "004/tables.py": "bench_schedules, bench_solve: --n 9 --tables 1 --iterations 4 --ranks 1 --rounds 1",
}
ALL = sorted(str(path.relative_to(PAPERS)) for path in PAPERS.glob("*/*.py"))


def test_every_script_is_listed() -> None:
    assert sorted(WORDS) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("script", ALL)
def test_every_script_runs_at_a_small_size(script: str, tmp_path: Path) -> None:
    programs, _, words = WORDS[script].rpartition(": ")
    if not all((ROOT / "build" / "release" / "bench" / one).exists() for one in programs.split(", ")):
        words = "--help"
    (tmp_path / "blocks.txt").write_text("cuts 0 8 16\n0 8 0 8 -1\n8 8 8 8 -1\n0 8 8 8 2\n8 8 0 8 3\n")
    (tmp_path / "tomography").mkdir()
    (tmp_path / "tomography" / "cgls_reference.csv").write_text("set,vectors,iteration,residual2\n")
    command = [sys.executable, str(PAPERS / script), *words.replace("OUT", str(tmp_path)).split()]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=harness.environment() | {"MPLBACKEND": "Agg", "XDG_CACHE_HOME": str(tmp_path / "cache")},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert not (tmp_path / "cache" / "tacit").exists()  # nothing is kept for other programs
