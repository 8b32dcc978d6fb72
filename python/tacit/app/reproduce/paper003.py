"""Hidayetoglu, Hierarchical computation and communication for distributed sparse operations on supercomputers with
multi-GPU nodes, thesis proposal, 2021.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import tomography
from . import programs
from .row import Claim, Ours, Row

PAPER = "tiled products and hierarchical communication (Hidayetoglu 2021)"


def _angles(count: int) -> Any:
    return (np.arange(count) * np.pi / count).astype(np.float32)


def _matrix(size: int, angles: int, **options: Any) -> tuple[Any, Any]:
    """(the projector, its matrix as SciPy has it)."""
    P = tomography.projector(_angles(angles), size, format="list", **options)
    A: Any = P.operator
    return P, A.to_scipy()


def _reuse(a: Any, rows: int) -> float:
    a = sp.csr_array(a)
    distinct = sum(len(np.unique(a[r : r + rows].indices)) for r in range(0, a.shape[0], rows))
    return float(a.nnz / distinct)


def figure_5(size: int, angles: int, rows: int) -> dict[str, Ours]:
    _, natural = _matrix(size, angles, order="natural")
    P, _ = _matrix(size, angles)
    return {
        "share of zeros": Ours(1 - natural.nnz / float(np.prod(natural.shape))),
        "reuse in natural order": Ours(_reuse(natural, rows)),
        "reuse in Hilbert order": Ours(_reuse(natural[P.ray_order], rows)),
    }


def _owners(n: int, ranks: int) -> Any:
    return np.searchsorted([n // ranks * r + min(r, n % ranks) for r in range(1, ranks)], np.arange(n), "right")


def figure_10(size: int, angles: int, ranks: int, groups: Sequence[int]) -> dict[str, Ours]:
    """Partial sums that ranks, sockets and nodes hold, where each column belongs to the rank that owns it."""
    _, a = _matrix(size, angles)
    rows, columns = a.shape
    touched = np.zeros((rows, ranks), bool)
    touched[np.repeat(np.arange(rows), np.diff(a.indptr)), _owners(columns, ranks)[a.indices]] = True
    node, owner = groups[-1], _owners(rows, ranks)
    held, away = [], []
    for group in (1, *groups):
        of: Any = touched.reshape(rows, -1, group).any(2)
        held.append(int(of.sum()))
        away.append(int(of[(np.arange(ranks // group) * group // node)[None, :] != (owner // node)[:, None]].sum()))
    return {
        "partial sums of sockets over those of GPUs": Ours(held[1] / held[0]),
        "partial sums of nodes over those of sockets": Ours(held[2] / held[1]),
        "partial sums of nodes over those of GPUs": Ours(held[2] / held[0]),
        "values that leave nodes over direct ones": Ours(away[2] / away[0]),
    }


def _reconstruction(size: int, angles: int, ranks: int, like: int, groups: str, minibatch: int) -> dict[str, float]:
    words = ["--size", size, "--angles", angles, "--ranks", ranks, "--groups", groups, "--columns", 32,
             "--precision", "single", "--like", like, "--minibatch", minibatch]  # fmt: skip
    found = json.loads(programs.output("bench_simulated_tomography", *words))
    levels = [found["parts"].get(f"sums, level {k + 1}", 0.0) for k in range(len(found["levels"]))]
    return {"total": found["seconds"], "outer": levels[-1], "inner": sum(levels[:-1]), "sums": sum(levels)}


def _less(above: float, below: float) -> Ours:
    return Ours(None, 1 - above / below, 1 - above / below)


def figure_8(size: int, angles: int, ranks: int, like: int) -> dict[str, Ours]:
    direct, levels = (_reconstruction(size, angles, ranks, like, groups, 0) for groups in ("", "3,6"))
    return {
        "communication, less by": _less(levels["sums"], direct["sums"]),
        "reconstruction, less by": _less(levels["total"], direct["total"]),
    }


def figure_11(size: int, angles: int, ranks: int, like: int) -> dict[str, Ours]:
    direct, levels, pipelined = (
        _reconstruction(size, angles, ranks, like, groups, minibatch)
        for groups, minibatch in (("", 0), ("3,6", 0), ("3,6", 8))
    )
    return {
        "time between nodes, less by": _less(levels["outer"], direct["outer"]),
        "reconstruction, less by": _less(levels["total"], direct["total"]),
        "time within sockets and nodes, of the whole": Ours(None, *[levels["inner"] / levels["total"]] * 2),
        "pipelining, less by": _less(pipelined["total"], levels["total"]),
    }


_GPU = "It is the rate of a GPU, and these rows use none; `bench/compare_spmm.py` times products here."
_BLOCKING = "the sums here start and end together, so that nothing depends on how messages advance"

_COUNTED = (
    "ours counts a level's additions, and the wait for the slowest GPU, with its messages, which the paper counts as"
    " kernel time"
)
_FEWER = "96 GPUs here, 768 in the paper, where messages between nodes are a larger part; and " + _COUNTED
_COPIES = (
    "sums between nodes take 31 % of the time here, so that less can be hidden; the paper's include copies to the host"
)

ROWS = (
    Row("003/figure-1", "CSR and ELL of a 13 x 14 matrix", why="The matrix is drawn and its entries are not printed."),
    Row(
        "003/figure-2",
        "Tiled products over cuSPARSE, and networks",
        (
            Claim("P100, tiled ELL over cuSPARSE", 4.69, "x"),
            Claim("V100", 1.81, "x"),
            Claim("A100", 2.79, "x"),
            Claim("networks, least gain", 3.39, "x"),
        ),
        why=_GPU,
    ),
    Row(
        "003/figure-3",
        "Stages and padding of a small matrix",
        (Claim("padding in warps", 0.275, "of the entries"),),
        why="The matrix is drawn and its entries are not printed.",
    ),
    Row("003/figure-4", "Rates over the width of the register tile", why=_GPU),
    Row(
        "003/figure-5",
        "Reuse of staged columns in blocks of 32 rows, 256 x 256",
        (
            Claim("share of zeros", 0.9359),
            Claim("reuse in natural order", 2.52, "x", "the paper does not state its geometry"),
            Claim("reuse in Hilbert order", 4.44, "x", "the paper does not state its geometry"),
        ),
        figure_5,
        {"size": 16, "angles": 16, "rows": 32},
        {"size": 16, "angles": 16, "rows": 32},
        how="Counted: 16 projections of 16 x 16 pixels, which gives a matrix of that size.",
    ),
    Row("003/figure-6", "Batches and streams", why="A drawing."),
    Row("003/figure-7", "Partition of matrices among processes", why="A drawing."),
    Row(
        "003/figure-8",
        "Hierarchical over direct sums, 24 GPUs",
        (
            Claim("communication, less by", 0.60, "of the time", _COUNTED),
            Claim("reconstruction, less by", 0.50, "of the time", _COUNTED),
        ),
        figure_8,
        {"size": 16, "angles": 12, "ranks": 12, "like": 64},
        {"size": 256, "angles": 360, "ranks": 24, "like": 2048},
        how="Simulated GPUs with published rates of V100 nodes, single precision; a scan of 256 bins on machines scaled"
        f" as for 2048; {_BLOCKING}.",
        needs=("bench_simulated_tomography",),
    ),
    Row("003/figure-9", "Direct and hierarchical sums", why="A drawing."),
    Row(
        "003/figure-10",
        "Volume of partial sums, 24 GPUs in sockets of 3 and nodes of 6",
        (
            Claim("partial sums of sockets over those of GPUs", 768 / 1350),
            Claim("partial sums of nodes over those of sockets", 492 / 768),
            Claim("partial sums of nodes over those of GPUs", 492 / 1350),
            Claim("values that leave nodes over direct ones", 0.36),
        ),
        figure_10,
        {"size": 32, "angles": 24, "ranks": 24, "groups": (3, 6)},
        {"size": 256, "angles": 360, "ranks": 24, "groups": (3, 6)},
        how="Counted for a scan of 256 bins in 360 projections in Hilbert order; the paper: 1.35 GB, 768 MB, 492 MB.",
    ),
    Row(
        "003/figure-11",
        "Reconstruction on nodes of six GPUs",
        (
            Claim("time between nodes, less by", 0.60, "of the time", _FEWER),
            Claim("reconstruction, less by", 0.45, "of the time", _FEWER),
            Claim("time within sockets and nodes, of the whole", 0.0505, "", _FEWER),
            Claim("pipelining, less by", 0.30, "of the time", _COPIES),
        ),
        figure_11,
        {"size": 16, "angles": 12, "ranks": 12, "like": 64},
        {"size": 256, "angles": 360, "ranks": 96, "like": 6613},
        how="Figures 11 and 12. Simulated as for figure 8, 96 GPUs, a scan of 256 bins, scaled as for 6613."
        " Messages advance by themselves, which counts for pipelining alone.",
        needs=("bench_simulated_tomography",),
    ),
    Row("003/figure-12", "Pipelining of minibatches", why="Its number is in the row of figure 11."),
)
