"""Poisson's equation in the unit cube with a known solution: the model problem of `tacit poisson`.

-Laplace u = f, u = 0 on the walls, second differences on n x n x n nodes; the error of the solution falls with the
square of the mesh width. Source: D. Stoyanov and F.-J. Pfreundt (2014), Hybrid-parallel sparse matrix-vector
multiplication and iterative linear solvers with the communication library GPI.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core, layout, op
from .. import comm as _comm
from .._alike import alike
from .._described import PARTS, SOLUTIONS
from .._support import Array, as_array, choose, chosen_scalar, core, to_scalar

__all__ = ["PARTS", "SOLUTIONS", "Cube"]


class Cube:
    """The unit cube with `nodes` mesh points along an edge, including those on the walls: (nodes - 2)^3 unknowns.

    Parameters
    ----------
    nodes : int
        At least 3.
    parts : str
        How the cube is divided among ranks: "slices" (whole planes) or "boxes" (with the least surface).
    comm : communicator, optional
    scalar : dtype
        float64 or float32.

    Examples
    --------
    >>> import tacit
    >>> from tacit.app.poisson import Cube
    >>> cube = Cube(17)
    >>> result = tacit.solve(cube.stencil(), cube.right_side("bump"), method="cg")
    >>> cube.distance(result.x, "bump")["max"] < 1e-3
    True
    """

    def __init__(
        self, nodes: int, parts: str = "slices", *, comm: Any = None, scalar: npt.DTypeLike = np.float64
    ) -> None:
        self.comm: _core.Communicator = _comm.resolve(comm)

        def look() -> str:
            choose("parts", parts, PARTS)
            chosen = chosen_scalar(scalar) or "float64"
            if chosen not in ("float64", "float32"):
                raise ValueError(f"scalar is {chosen}; float64 or float32 is needed")
            return chosen

        self.nodes, self.parts = int(nodes), parts
        same = {"nodes": self.nodes, "parts": parts}
        self.scalar, _ = alike(self.comm, look, lambda scalar: {**same, "scalar": scalar})
        self._handle = core("Cube", self.scalar)(self.comm, self.nodes, parts)

    @property
    def unknowns(self) -> int:
        return (self.nodes - 2) ** 3

    @property
    def ranks(self) -> tuple[int, int, int]:
        """Ranks along x, y and z."""
        ranks: tuple[int, int, int] = self._handle.ranks
        return ranks

    def matrix(self) -> op.Csr:
        """The 7-point matrix, stored. Collective."""
        return op.Csr(self._handle.matrix(), self.comm, self.scalar)

    def stencil(self) -> op.Stencil:
        """The same matrix as a stencil that is not stored; with parts="slices" only. Collective."""
        return op.Stencil(self._handle.stencil(), self.comm, self.scalar, [self.nodes - 2] * 3)

    def right_side(self, solution: str = "bump") -> Array:
        """f at this rank's points. Local."""
        return np.asarray(self._handle.right_side(choose("solution", solution, SOLUTIONS)))

    def exact(self, solution: str = "bump") -> Array:
        """u at this rank's points: "bump", x(1-x)e^x y(1-y)e^y z(1-z)e^z, or "sine", sin(pi x) sin(pi y) sin(pi z), an
        eigenvector. Local.
        """
        return np.asarray(self._handle.exact(choose("solution", solution, SOLUTIONS)))

    def distance(self, x: Any, solution: str = "bump") -> dict[str, float]:
        """The error of x (whole, or this rank's part): "max", the largest difference from u, and "l2", the square root
        of h^3 times the sum of squared differences. Collective.
        """

        def look() -> Array:
            choose("solution", solution, SOLUTIONS)
            return as_array(x, "x")

        array, _ = alike(self.comm, look, lambda _: {"solution": solution})
        offsets = self._handle.offsets
        whole = layout.form(self.comm, array, offsets, "x")
        own = to_scalar(layout.own_part(array, self.comm, offsets, whole), self.scalar, "x")
        largest, l2 = self._handle.distance(np.ascontiguousarray(own), solution)
        return {"max": largest, "l2": l2}
