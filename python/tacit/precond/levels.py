"""Algebraic multigrid: its levels, and the vectors that they are made from."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core, layout, report
from .. import comm as _comm
from .._alike import alike
from .._described import PRECOND
from .._options import agree
from .._support import Array, agreed, core, to_scalar, vectors_of
from ..op import DeviceCsr, Operator, as_operator, stored
from .choices import filled, points_of
from .operators import Reporting, noted, version_of


class Multilevel(Reporting):
    """Algebraic multigrid: ``print(M)`` shows its levels, ``M.plot(path)`` draws them; ``M.update()``: new values."""

    __slots__ = ()
    _cure = "make it anew, or update() it"

    def update(self) -> bool:
        """Takes the values that the matrix has now, after its ``update_values``.

        Aggregates and the places of all entries of the levels' matrices stay, and their numbers are made anew: those of
        new levels (real ones to the bit) where the strong couplings are the same. The first update also finds the
        places of all products, and takes longer than :func:`amg`; later ones take 0.25 to 0.45 of it
        (measured). A matrix that is Hermitian now and was not, or the other way round, one of whose entries many were
        zero, and classical coarsening, get new levels.

        Returns
        -------
        bool
            Whether the levels were kept.

        Raises
        ------
        tacit.InputError
            For values that are not finite.
        ValueError
            On a GPU; and as :func:`amg`, where new levels are made. The object has no levels then, until an update
            succeeds.

        Notes
        -----
        Collective.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> A = tacit.poisson((50, 50), assembled=True)
        >>> M = tacit.precond.amg(A)
        >>> A.update_values(3 * A.local_rows()[2])
        >>> M.update(), tacit.solve(A, np.ones(2500), method="cg", precond=M).iterations < 20
        (True, True)
        """
        if self._gpu is not None:
            raise ValueError("amg on a GPU cannot take new values: make it anew with tacit.precond.amg(A)")
        kept = bool(self._handle.update())
        if self._recipe is not None:
            self._recipe = self._recipe._replace(version=version_of(self._recipe.A))
        return kept

    def __str__(self) -> str:
        return f"{self!r}\n" + report.levels_table(self.report)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Plots unknowns, entries and seconds of each level to a file (needs matplotlib). Local; rank 0 writes."""
        if self.comm.rank == 0:
            from ..plot import amg as picture

            picture.levels(self.report, path)


def operator_of(A: Any) -> Operator:
    """An operator of Tacit, made of what stands for a matrix. Collective."""
    return A if isinstance(A, Operator) else as_operator(A)


def amg(A: Any, near_null: Any = None, coordinates: Any = None, **options: Any) -> Multilevel:
    """Algebraic multigrid by smoothed aggregation: levels from the entries of a stored matrix.

    Parameters
    ----------
    A : Operator
        A stored matrix, or one of SciPy, NumPy or petsc4py. For one in the memory of a GPU the levels are made by the
        host and stay there, and so does the cycle. Smoothers there: "spai0", "jacobi", "l1-jacobi", "chebyshev".
    near_null : array of shape (n,) or (n, k), optional
        Vectors that A nearly maps to zero, whole or this rank's own part. Default: for each of the ``block`` unknowns
        of a node the vector that is constant there.
    coordinates : array of shape (n / d, d), optional
        Of elasticity in d = 2 or 3 dimensions: the nodes, whole or this rank's own part; rows d i to d i + d - 1 of A
        are the displacements of node i. The near-null vectors are then the :func:`rigid_body_modes`, ``block`` is d.
    **options
        ``coarsening``, ``strength``, ``interpolation``, ``p_max``, ``aggressive``, ``smoother``, ``cycle``, ``sweeps``,
        ``coarsest``, ``block``: docs/reference/preconditioners.md.

    Returns
    -------
    Multilevel
        An apply is one cycle from zero; ``print`` shows the levels, ``update()`` takes new values of A. Collective.
        Cost and memory: ``include/tacit/precond/amg.hpp``.

    Raises
    ------
    ValueError, TypeError
        For an option out of range; for `near_null` or `coordinates` of another size or with values that are not finite,
        both of them, a vector of zeros, another `block` than d, or ranks that do not begin with whole nodes.

    References
    ----------
    Vanek, Mandel, Brezina (1996), doi 10.1007/BF02238511.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((50, 50), assembled=True)
    >>> M = tacit.precond.amg(A, smoother="gauss-seidel")
    >>> tacit.solve(A, np.ones(2500), method="cg", precond=M).iterations < 20, len(M.report["levels"])
    (True, 3)
    """
    A = operator_of(A)
    arrays = {"near_null": near_null, "coordinates": coordinates}
    given = {**options, **{name: array for name, array in arrays.items() if array is not None}}
    return noted(amg_in_numbers(A, None, near_null, coordinates, options), A, "amg", given)


def amg_in_numbers(
    A: Operator,
    renumbered: tuple[Operator, _core.Renumbering] | None,
    near_null: Any,
    coordinates: Any,
    options: dict[str, Any],
) -> Multilevel:
    """:func:`amg`, with arrays in the user's numbering where the rows of `A` have been renumbered."""
    on = A.comm
    if isinstance(near_null, str) and near_null == "constant" and coordinates is None:  # the default
        near_null = None

    def look() -> tuple[Any, Any, Any]:
        if near_null is not None and coordinates is not None:
            raise ValueError("near_null and coordinates are both given; coordinates stand for the rigid-body modes")
        points = None if coordinates is None else points_of(coordinates)
        o = filled("amg", options)
        block = o.block or 1 if points is None else points.shape[1]
        if o.block not in (None, block):
            raise ValueError(f"block is {o.block}, and coordinates has {block} columns; each node has as many unknowns")
        if renumbered is not None and block > 1:
            raise ValueError(
                f"amg with nodes of {block} unknowns needs the rows in the order given; partition='graph' and "
                "ordering='rcm' take the unknowns of a node apart"
            )
        found = vectors_of(near_null, "near_null")
        if found is not None and found.shape[1] == 0:
            raise ValueError(f"near_null has shape {found.shape}; at least one vector is needed")
        return found, points, o

    vectors, points, o = agreed(on, look)
    arrays = {"near_null": "none" if vectors is None else f"{vectors.shape[1]} vectors"}
    arrays["coordinates"] = "none" if points is None else f"of {points.shape[1]} dimensions"
    agree(on, o, PRECOND, precond="amg", **arrays)
    if points is not None:
        o.block = points.shape[1]
    if not isinstance(A, DeviceCsr):
        A = stored(A, "the preconditioner 'amg'")
    offsets = A._handle.range_offsets if renumbered is None else renumbered[0]._handle.range_offsets
    if points is not None:
        vectors = _modes_of(points, on, offsets)
        whole = False
    elif vectors is not None:
        whole = layout.form(on, vectors, offsets, "near_null")
    own = None
    if vectors is not None:
        part = layout.own_part(vectors, on, offsets, whole)
        own = agreed(on, lambda: np.ascontiguousarray(to_scalar(part, A._scalar, "near_null")))
        if renumbered is not None:
            forward = getattr(renumbered[1], f"forward_{A._scalar}")
            own = np.stack([forward(on, np.ascontiguousarray(own[:, c])) for c in range(own.shape[1])], axis=1)
            own = np.ascontiguousarray(own)
    return Multilevel(core("amg", A._scalar)(A._handle, own, o), A, _core.precond_is_symmetric("amg", o))


def _modes_of(points: Array, on: Any, offsets: Any) -> Array:
    """This rank's rows of the rigid-body modes of nodes that are given whole or in parts. Collective."""
    d = points.shape[1]
    for rank, begin in enumerate(offsets):
        if begin % d:
            what = f"rank {rank} begins at row {begin}" if rank < on.size else f"A has {begin} rows"
            raise ValueError(f"coordinates has {d} columns, and {what}, no multiple of it; give each rank whole nodes")
    nodes = [begin // d for begin in offsets]
    whole = layout.form(on, points, nodes, "coordinates")
    part = np.ascontiguousarray(layout.own_part(points, on, nodes, whole))
    return np.asarray(core("rigid_body_modes")(on, part))


def rigid_body_modes(coordinates: Any, comm: Any = None) -> Array:
    """What elasticity without supports maps to zero: small motions of a rigid body, as ``near_null`` of :func:`amg`.

    With y = (x - c) / L, where c is the centre of the box around all nodes and 2 L its longest edge, the displacements
    of a node at x are: translations e_1 .. e_d; then rotations, in two dimensions (-y_2, y_1), in three (0, -y_3, y_2),
    (y_3, 0, -y_1) and (-y_2, y_1, 0). Rotations that move no node (about the line on which all nodes lie) are left
    out.

    Parameters
    ----------
    coordinates : array of shape (nodes, d)
        d = 2 or 3; on several ranks all nodes on each of them, or each rank's own.
    comm : communicator, optional
        The ranks that have nodes of the same body. Default: as of :func:`tacit.csr`.

    Returns
    -------
    ndarray of shape (d nodes, k)
        k = 3 or 6, fewer for nodes on a line. Row d i + j is displacement j of node i. Collective.

    Raises
    ------
    ValueError
        For another shape, or a coordinate that is not finite.

    Examples
    --------
    >>> import tacit
    >>> tacit.precond.rigid_body_modes([[0, 0], [2, 0], [2, 2], [0, 2]])[:4]
    array([[ 1.,  0.,  1.],
           [ 0.,  1., -1.],
           [ 1.,  0.,  1.],
           [ 0.,  1.,  1.]])
    """
    on = _comm.resolve(comm)
    points, _ = alike(on, lambda: points_of(coordinates), lambda points: {"coordinates": f"{points.shape[1]} columns"})
    return np.asarray(core("rigid_body_modes")(on, points))
