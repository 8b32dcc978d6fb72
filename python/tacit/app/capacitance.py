"""Capacitance matrices in farads, in Maxwell's form and as capacitors between conductors; units of length."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._support import Array, choose, real_number

EPS0 = 8.8541878188e-12  #: F / m (CODATA 2022)

#: Metres in a unit of length.
UNITS = {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "nm": 1e-9, "in": 0.0254, "mil": 2.54e-5}


def metres_of(unit: Any) -> float:
    """The metres in a unit: one of UNITS, or their number."""
    if isinstance(unit, str):
        return UNITS[choose("unit", unit, tuple(UNITS))]
    metres = real_number(unit, "unit")
    if not 0 < metres < math.inf:
        raise ValueError(f"unit is {unit!r}; the metres in a unit are a number above 0")
    return metres


class Capacitance(NamedTuple):
    """The capacitance matrix and how it was found."""

    matrix: Array  #: (k, k), over 4 pi eps0: the charge of conductor i when conductor j is at 1 V and the others at 0
    asymmetry: float  #: largest |C_ij - C_ji| over the largest |C_ij|: 0 for exact equations
    converged: bool
    iterations: int  #: the sum over all solves
    residual_norm: float  #: the largest of all solves
    seconds: float
    names: tuple[str, ...] = ()  #: of the conductors
    scale: float = 4 * math.pi * EPS0  #: farads in a unit of `matrix`: 4 pi EPS0 times the metres in a unit of the mesh

    @property
    def farads(self) -> Array:
        """The matrix in F, in Maxwell's form: charges are ``farads @ volts``. Diagonal entries are positive, the others
        negative or 0.
        """
        return self.matrix * self.scale

    @property
    def mutual(self) -> Array:
        """The same as capacitors, (k, k) in F: off the diagonal those between two conductors, -(C_ij + C_ji) / 2; on it
        those to infinity (or to a grounded plane), the sums of the rows of `farads`.
        """
        mean = (self.farads + self.farads.T) / 2
        capacitors = -mean
        np.fill_diagonal(capacitors, mean.sum(axis=1))
        return capacitors

    def between(self, i: int, j: int) -> float:
        """The capacitance in F that is measured between conductors i and j when all others, and both together, are
        neutral: q over the difference of their potentials with charges q and -q.
        """
        if i == j:
            raise ValueError(f"between conductor {i} and itself; two different conductors are needed")
        charges = np.zeros(len(self.matrix))
        charges[i], charges[j] = 1.0, -1.0
        volts = np.linalg.solve(self.farads, charges)
        return float(1 / (volts[i] - volts[j]))
