"""Yamazaki, Hoemmen, Luszczek, Dongarra, Improving performance of GMRES by reducing communication and pipelining global
collectives, IPDPSW 2017, doi 10.1109/IPDPSW.2017.65.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ... import krylov, op, simulate
from .row import Claim, Ours, Row
from .simulated import Cycles, machine, ratios

PAPER = "pipelined and s-step GMRES (Yamazaki, Hoemmen, Luszczek, Dongarra 2017)"
Variant = tuple[str, dict[str, Any]]
GMRES: Variant = ("gmres", {"orthogonalisation": "cgs"})  # two sums a vector, as in the paper
PIPELINED: dict[int, Variant] = {l: ("pipelined-gmres", {"depth": l}) for l in (2, 5, 10)}
CA: dict[int, Variant] = {s: ("ca-gmres", {"step": s, "orthogonalisation": "bcgs"}) for s in (5, 10)}
BOTH: Variant = ("pipelined-ca-gmres", {"depth": 2, "block": 5, "tau": 8e-3})
PLAIN_BOTH: Variant = ("pipelined-ca-gmres", {"depth": 2, "block": 5})


def five_points(n: int) -> sp.csr_array:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return sp.csr_array(sp.kronsum(line, line))


def twenty_seven_points(n: int) -> sp.csr_array:
    ones = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    cube = sp.kron(sp.kron(ones, ones), ones)
    return sp.csr_array(27 * sp.eye_array(n**3) - cube)


def _speedups(curve: Cycles, variants: Mapping[str, Variant], ranks: Sequence[int]) -> dict[str, Ours]:
    """By what factor each variant is faster than the paper's GMRES on so many ranks."""
    made: dict[str, Ours] = {}
    for r in ranks:
        classical = curve.of(r, GMRES[0], **GMRES[1])
        made |= {f"{k}, {r} processes": ratios(classical, curve.of(r, v[0], **v[1])) for k, v in variants.items()}
    return made


def _laplace(n: int, paper: int, restart: int, cycles: int, threads: int = 1) -> Cycles:
    share = (paper / n) ** 2 / threads  # of the paper's unknowns, for a rank with so many times the rates of a core
    return Cycles(op.csr(five_points(n)), machine("tsubame", share, paper / n), restart, cycles)


def figure_7(ranks: int) -> dict[str, Ours]:
    made = simulate.solve(op.csr(five_points(32)), np.ones(1024), ranks=ranks, machine="tsubame", method="cg",
                          max_iterations=5, rtol=1e-14, explain=False, fallbacks=False)  # fmt: skip
    sums = next(phase for phase in made.phases if phase.name == "sum")
    each = 1e6 * sums.seconds / sums.times
    return {"one MPI_Iallreduce of 0 bytes": Ours(None, each, each)}


def figure_9(n: int, cycles: int) -> dict[str, Ours]:
    A, b = op.csr(five_points(n)), np.ones(n * n)

    def left(method: str, **options: Any) -> float:
        made = krylov.solve(A, b, method=method, restart=60, max_iterations=60 * cycles, rtol=1e-14, fallbacks=False,
                            explain=False, **options)  # fmt: skip
        return float(made.residual_norm)

    classical = left(*GMRES[:1], **GMRES[1])
    variants = {f"pipelined, l = {l}": v for l, v in PIPELINED.items()} | {f"CA, s = {s}": v for s, v in CA.items()}
    variants["pipelined CA (2, 5)"] = PLAIN_BOTH
    return {name: Ours(left(v[0], **v[1]) / classical) for name, v in variants.items()}


def figure_10(n: int, ranks: Sequence[int]) -> dict[str, Ours]:
    variants = {f"pipelined, l = {l}": PIPELINED[l] for l in (2, 5)}
    return _speedups(_laplace(n, 1024, 30, 20), variants, ranks)


def figure_11(n: int, ranks: int) -> dict[str, Ours]:
    curve = _laplace(n, 1024, 30, 20)
    at = {name: curve.of(ranks, v[0], **v[1]) for name, v in {"l2": PIPELINED[2], "l5": PIPELINED[5], "s5": CA[5],
          "s10": CA[10], "both": BOTH}.items()}  # fmt: skip
    best = min(at["l2"], at["l5"], key=lambda ours: ours.simulated or np.inf)
    return {
        "pipelined CA over the best pipelined": ratios(best, at["both"]),
        "pipelined CA over CA, s = 5": ratios(at["s5"], at["both"]),
        "pipelined CA over CA, s = 10": ratios(at["s10"], at["both"]),
    }


def figure_12(n: int, ranks: Sequence[int]) -> dict[str, Ours]:
    share = (128 / n) ** 3
    curve = Cycles(op.csr(twenty_seven_points(n)), machine("tsubame", share, (128 / n) ** 2), 20, 20)
    variants = {"pipelined, l = 2": PIPELINED[2], "pipelined, l = 5": PIPELINED[5], "CA, s = 5": CA[5],
                "CA, s = 10": CA[10], "pipelined CA (2, 5), tau": BOTH}  # fmt: skip
    return _speedups(curve, variants, ranks)


def figure_14(n: int, cycles: int, rounds: int) -> dict[str, Ours]:
    A, b = op.csr(five_points(n)), np.ones(n * n)
    made = {}
    for restart in (30, 60):
        least: dict[str, float] = {}
        for _ in range(rounds):
            for method, options in (GMRES, CA[10]):
                begin = time.perf_counter()
                krylov.solve(A, b, method=method, restart=restart, max_iterations=cycles * restart, rtol=1e-14,
                             fallbacks=False, explain=False, history=False, **options)  # fmt: skip
                least[method] = min(time.perf_counter() - begin, least.get(method, np.inf))
        made[f"CA over GMRES({restart})"] = Ours(least["gmres"] / least["ca-gmres"])
    return made


def figure_16(n: int, ranks: Sequence[int]) -> dict[str, Ours]:
    variants = {"pipelined, l = 2": PIPELINED[2], "pipelined, l = 5": PIPELINED[5], "CA, s = 5": CA[5],
                "CA, s = 10": CA[10], "pipelined CA (2, 5), tau": BOTH}  # fmt: skip
    return _speedups(_laplace(n, 1024, 20, 20, threads=5), variants, ranks)


_SCALED = (
    "Simulated seconds of the paper's GMRES (two sums a vector) over those of the method, on the machine `tsubame`:"
    " from runs of one and two cycles of a problem with 1/4 of the unknowns (Fig. 12: 1/8) on cores as much slower."
)
_HIDDEN = "from 240 processes on the paper's gain stays: its progress thread hides 74 to 89 % of a sum (figure 7)"
_PASSES = (
    "ours changes the basis and takes inner products in passes over blocks; the paper's variant goes vector by vector"
)
_NARROW = (
    "ours reads the basis once for ten vectors, at the speed of memory; the paper says that MKL is slow for such tall"
    " and narrow products"
)
_CARD = (
    "the machine's latency is that of six processes a node, which share its network card; here there are two a node,"
    " and sums probably cost less than the model has"
)


def _claims(of: Mapping[str, Mapping[int, float]], apart: Mapping[str, str] | str = "") -> tuple[Claim, ...]:
    def why(name: str) -> str:
        return apart if isinstance(apart, str) else apart.get(name, "")

    return tuple(
        Claim(f"{name}, {ranks} processes", value, "x", why(name))
        for name, values in of.items()
        for ranks, value in values.items()
    )


ROWS = (
    Row(
        "001/figure-7",
        "Time of a non-blocking all-reduce of 240 processes",
        (Claim("one MPI_Iallreduce of 0 bytes", 230.29, "us"),),
        figure_7,
        {"ranks": 8},
        {"ranks": 240},
        how="The simulated time of a sum of `cg` on the machine `tsubame`.",
        circular="The latency of `tsubame` is this figure's time over nine rounds.",
    ),
    Row(
        "001/figure-8",
        "Ten all-reduces in flight over one",
        (Claim("60 processes, 80 bytes", 4.62, "x"), Claim("120 processes, 640 bytes", 6.48, "x")),
        why="It measures how one release of MPICH serialises its collectives; the simulator lets them pass each other.",
    ),
    Row(
        "001/figure-9",
        "Convergence of GMRES(60), 2D Laplace: residual over that of GMRES",
        tuple(
            Claim(name, 1.0, "x")
            for name in (
                "pipelined, l = 2",
                "pipelined, l = 5",
                "pipelined, l = 10",
                "CA, s = 5",
                "CA, s = 10",
                "pipelined CA (2, 5)",
            )
        ),
        figure_9,
        {"n": 24, "cycles": 2},
        {"n": 256, "cycles": 5},
        how='Recomputed residuals after five cycles, 256 x 256 points (paper: 512, "equivalent" by iterations).',
    ),
    Row(
        "001/figure-10",
        "20 cycles of pipelined GMRES(30), 2D Laplace 1024 x 1024: gain over GMRES",
        _claims(
            {
                "pipelined, l = 2": {120: 0.40 / 0.35, 180: 0.37 / 0.28, 240: 0.34 / 0.21, 300: 0.35 / 0.21},
                "pipelined, l = 5": {120: 0.40 / 0.34, 180: 0.37 / 0.25, 240: 0.34 / 0.21, 300: 0.35 / 0.20},
            },
            {"pipelined, l = 2": _HIDDEN, "pipelined, l = 5": _HIDDEN},
        ),
        figure_10,
        {"n": 32, "ranks": (4,)},
        {"n": 512, "ranks": (120, 180, 240, 300)},
        how=_SCALED,
    ),
    Row(
        "001/figure-11",
        "Pipelined CA-GMRES beside the others, 20 cycles of GMRES(30), 2D Laplace",
        (
            Claim("pipelined CA over the best pipelined", 1.67, "x", "the paper's is the largest of a plot"),
            Claim("pipelined CA over CA, s = 5", 1.22, "x", "the paper's is the largest of a plot"),
            Claim("pipelined CA over CA, s = 10", 1.09, "x", "the paper's is the largest of a plot"),
        ),
        figure_11,
        {"n": 32, "ranks": 4},
        {"n": 512, "ranks": 240},
        how=_SCALED + " At 240 ranks.",
    ),
    Row(
        "001/figure-12",
        "20 cycles of GMRES(20), 3D Laplace of 27 points: gain over GMRES",
        _claims(
            {
                "pipelined, l = 2": {60: 0.89, 240: 1.00},
                "pipelined, l = 5": {60: 0.91, 240: 1.05},
                "CA, s = 5": {60: 1.14, 240: 1.38},
                "CA, s = 10": {60: 1.20, 240: 1.45},
                "pipelined CA (2, 5), tau": {60: 1.07, 240: 1.39},
            },
            {"pipelined CA (2, 5), tau": _PASSES},
        ),
        figure_12,
        {"n": 8, "ranks": (4,)},
        {"n": 64, "ranks": (60, 240)},
        how=_SCALED,
    ),
    Row(
        "001/figure-13",
        "Three matrices of the SuiteSparse collection, 240 processes: gain over GMRES",
        (
            Claim("G3_Circuit, pipelined CA", 1.54, "x"),
            Claim("thermal2, pipelined CA", 1.72, "x"),
            Claim("atmosmodd, pipelined CA", 1.72, "x"),
        ),
        why="The matrices are not part of Tacit; `tacit solve FILE --simulate 240 --machine tsubame` runs them.",
    ),
    Row(
        "001/figure-14",
        "One node, one process of one thread, 2D Laplace: CA-GMRES(s = 10) over GMRES",
        (
            Claim("CA over GMRES(30)", 15.6 / 11.5, "x", _NARROW),
            Claim("CA over GMRES(60)", 52.4 / 31.7, "x", _NARROW),
        ),
        figure_14,
        {"n": 32, "cycles": 1, "rounds": 1},
        {"n": 512, "cycles": 2, "rounds": 2},
        how="Seconds of two cycles on this machine, the less of two alternating rounds, 512 x 512 points.",
    ),
    Row(
        "001/figure-15",
        "Traces of three solvers",
        why="Pictures without numbers; `tacit solve --trace FILE` makes such traces.",
    ),
    Row(
        "001/figure-16",
        "Five threads a process, 20 cycles of GMRES(20), 2D Laplace: gain over GMRES",
        _claims(
            {
                "pipelined, l = 2": {40: 0.62 / 0.66, 100: 0.41 / 0.28},
                "pipelined, l = 5": {40: 0.62 / 0.63, 100: 0.41 / 0.27},
                "CA, s = 5": {40: 0.62 / 0.50, 100: 0.41 / 0.26},
                "CA, s = 10": {40: 0.62 / 0.45, 100: 0.41 / 0.23},
                "pipelined CA (2, 5), tau": {40: 0.62 / 0.49, 100: 0.41 / 0.23},
            },
            _CARD,
        ),
        figure_16,
        {"n": 32, "ranks": (4,)},
        {"n": 512, "ranks": (40, 100)},
        how=_SCALED + " A process has five times the rates of a core.",
    ),
)
