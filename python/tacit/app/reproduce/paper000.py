"""Yamazaki, Abdelfattah, Ida, Ohshima, Tomov, Yokota, Dongarra, Analyzing performance of BiCGStab with hierarchical
matrix on GPU clusters, IPDPS 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import bem
from . import programs
from .row import Claim, Ours, Row

PAPER = "BiCGStab with H-matrices on GPU clusters (Yamazaki, Abdelfattah, Ida, Ohshima, Tomov, Yokota, Dongarra 2018)"
#: ACA+ to 1e-3 of each block, leaves of 15, no recompression, double precision, as in HACApK.
SETTING: dict[str, Any] = {"tolerance": 1e-3, "measure": "block", "leaf_size": 15, "eta": 2.0, "bisection": "midpoint",
           "recompress": False, "storage": "full"}  # fmt: skip


def compression(rings: Sequence[int]) -> dict[str, Ours]:
    mesh = bem.ring_sphere(*rings)
    system = bem.assemble(mesh, **SETTING)
    n, numbers = len(mesh), system.A.report["bytes"] / 8
    return {"numbers over n log2 n": Ours(numbers / (n * math.log2(n)))}


def iterations(rings: Sequence[int]) -> dict[str, Ours]:
    system = bem.assemble(bem.ring_sphere(*rings), **SETTING)
    made = system.solve(rtol=1e-7, precond=None, method="bicgstab", potential=1.0)
    return {"iterations to 1e-7": Ours(float(made.iterations))}


def pipelined(mesh: str, gpus: Sequence[int]) -> dict[str, Ours]:
    words = ["figures=19", f"mesh={mesh}", f"gpus={','.join(map(str, gpus))}", "steps=3"]
    found = programs.rows("bench_hmatrix_cluster", *words)
    least = min(row["kernel"] for row in found)  # a launch of the GPU; the other one is fitted to the paper
    made = {}
    for count in gpus:
        ms = {row["vectors"]: row["ms"] for row in found if row["nodes"] == count and row["kernel"] == least}
        for name in ("pipe1", "pipe2"):
            gain = ms["redundant"] / ms[name]
            made[f"{name} over block, {count} GPUs"] = Ours(None, gain, gain)
    return made


_GPU = "It is the rate of a GPU, and these rows use none; `bench/papers/000/batching.py` batches here."
_INPUT = "The rates of the simulated links are this figure's; ours repeats them."
_GATHERED = "The simulated gathers are made of copies at the rates of figures 12 and 13."
_PARTS = "the paper's kernels take 0.5 ms more than a launch, which it does not explain; with that the gain is 1.3"
_ONE = {1: (18.4, 19.2, 19.3), 8: (9.1, 8.9, 7.6)}

ROWS = (
    Row("000/figure-1", "Partition of an H-matrix", why="A drawing; `bench/papers/000/partition.py` draws ours."),
    Row("000/figure-2", "BiCGStab and its pipelined form", why="Algorithms: `bicgstab` and `pipelined-bicgstab`."),
    Row(
        "000/figure-3",
        "Compression of the sphere 100ts: stored numbers over n log2 n",
        (
            Claim(
                "numbers over n log2 n",
                16.0,
                "x",
                "the paper states neither leaves nor admissibility nor ranks; blocks to its tolerance, with leaves of"
                " 15 and a mean rank of 7, store more",
            ),
        ),
        compression,
        {"rings": (5, 6)},
        {"rings": (13, 20)},
        how="Counted: 10,400 triangles of two spheres (paper: 101,250), ACA+ to 1e-3 of each block, leaves of 15.",
    ),
    Row("000/figure-4", "Nodes of two clusters", why="A drawing."),
    Row("000/figure-5", "Structure of a batched kernel", why="A drawing."),
    Row(
        "000/figure-6", "Sizes of the blocks", why="A plot without numbers; `bench/papers/000/partition.py` draws ours."
    ),
    Row(
        "000/figure-7",
        "Orders of the blocks",
        why="A plot without numbers; `bench/papers/000/partition.py` draws ours.",
    ),
    Row("000/figure-8", "Rates of batches", why=_GPU),
    Row(
        "000/figure-9",
        "Rates of ways to batch, 100ts on a P100",
        (Claim("vbatch(20K, fixed)", 65.21, "Gflop/s"), Claim("vbatch(20K, variable), 3 streams", 84.13, "Gflop/s")),
        why=_GPU,
    ),
    Row(
        "000/figure-10",
        "BiCGStab with and without GPUs on Tsubame-3",
        (Claim("with GPUs, 8 nodes", 4.2, "x"),),
        why="It compares GPUs with processors of 2016; `bench/papers/000/cluster.py` simulates it.",
    ),
    Row(
        "000/figure-11",
        "BiCGStab with and without GPUs on Reedbush-H",
        (Claim("with GPUs, 8 nodes", 4.5, "x"),),
        why="It compares GPUs with processors of 2016; `bench/papers/000/cluster.py` simulates it.",
    ),
    *(
        Row(f"000/figure-{k}", title, circular=input_, why=f"{input_} `bench/papers/000/cluster.py` prints both.")
        for k, title, input_ in (
            (12, "Copies between host and GPUs", _INPUT),
            (13, "Copies between GPUs", _INPUT),
            (14, "Gathers on Tsubame-3", _GATHERED),
            (15, "Gathers on Reedbush-H", _GATHERED),
        )
    ),
    Row(
        "000/figure-16",
        "Iterations of BiCGStab, 100ts",
        (
            Claim("iterations to 1e-7", 14, "", "the start of the iteration is not stated"),
            Claim(
                "per-node over per-gpu, 1ms on 32 nodes",
                2.7,
                "x",
                "`bench/papers/000/cluster.py` simulates it for 100ts, with the rates of figures 12 to 15",
            ),
        ),
        iterations,
        {"rings": (5, 6)},
        {"rings": (13, 20)},
        how="Measured on 10,400 triangles; the paper has 13 to 20 for 101,250, and 13 to 15 with a process a node.",
    ),
    Row(
        "000/figure-17",
        "Vectors shared by the GPUs of a process, 64 nodes",
        (Claim("100ts, redundant over hierarchical", 0.22 / 0.17, "x"), Claim("1ms", 1.04 / 0.50, "x")),
        why="`bench/papers/000/cluster.py` simulates it up to 16 nodes, with the paper's rates of single parts.",
    ),
    Row(
        "000/figure-18",
        "Overlap of MPI_Iallgatherv with computation",
        circular=_INPUT,
        why=f"{_INPUT} `bench/papers/000/cluster.py` prints both.",
    ),
    Row(
        "000/figure-19",
        "Pipelined BiCGStab, 100ts, a GPU for each process",
        tuple(
            Claim(f"{name} over block, {g} GPUs", _ONE[g][0] / _ONE[g][k], "x", _PARTS)
            for g in _ONE
            for k, name in ((1, "pipe1"), (2, "pipe2"))
        ),
        pipelined,
        {"mesh": "ring:5,8", "gpus": (1, 2)},
        {"mesh": "ring:9,75", "gpus": (1, 8)},
        how="Simulated ranks with virtual GPUs and 5 us for a launch; the rates of links and products are those of the"
        " paper's figures 9, 12, 13 and 18, so that the row tests how they combine.",
        needs=("bench_hmatrix_cluster",),
    ),
)
