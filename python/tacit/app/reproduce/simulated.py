"""Times on simulated ranks, as several papers need them. Everything here is SIMULATED (docs/theory/simulator.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import simulate
from .row import Ours

#: How the messages of started sums advance: as with Tacit's engine "polling", whose products poll every few tens of
#: microseconds, with an MPI library that does nothing between its calls; and by themselves.
PROGRESS = {"simulated": "poll", "ideal": "ideal"}


def machine(base: str, share: float = 1, face: float = 1) -> dict[str, Any]:
    """A machine for a problem of 1/share of the unknowns whose kernels, and halos of 1/face of the bytes, take as long.

    So a curve at the paper's size costs 1/share of the arithmetic. Sums become slower by what their few bytes cost.
    """
    known = simulate.machine(base)
    rates = {key: known[key] / share for key in ("bandwidth", "cache_bandwidth", "flop_rate", "cache")}
    return {"base": base, **rates, "gap": known["gap"] * face}


def both(run: Callable[[str], float]) -> Ours:
    """`run` for each kind of progress."""
    return Ours(**{name: run(progress) for name, progress in PROGRESS.items()})


def ratios(above: Ours, below: Ours) -> Ours:
    """Simulated times over others, each kind of progress by itself."""
    pairs = zip(above, below, strict=True)
    return Ours(*(None if a is None or b is None else a / b for a, b in pairs))


class Cycles:
    """Simulated seconds of a number of cycles of a restarted method, from runs of one and of two cycles.

    The cycles after the first take the same time: ca-gmres learns its basis in the first.
    """

    def __init__(self, A: Any, machine: Mapping[str, Any], restart: int, cycles: int) -> None:
        self._A, self._machine, self._restart, self._cycles = A, dict(machine), restart, cycles
        self._b = np.ones(A.shape[0])
        self.of = functools.cache(self._of)

    def _of(self, ranks: int, method: str, **options: Any) -> Ours:
        def run(progress: str) -> float:
            one, two = (
                simulate.solve(
                    self._A, self._b, ranks=ranks, machine={**self._machine, "progress": progress}, method=method,
                    restart=self._restart, max_iterations=k * self._restart, rtol=1e-14, fallbacks=False,
                    explain=False, **options,
                ).seconds
                for k in (1, 2)
            )  # fmt: skip
            return one + (self._cycles - 1) * (two - one)

        if method in ("gmres", "ca-gmres"):  # they start no sum before they wait for it
            return Ours(None, *[run("ideal")] * 2)
        return both(run)
