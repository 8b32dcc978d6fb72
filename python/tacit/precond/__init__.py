"""Preconditioners: operators that approximate the inverse of a matrix.

``precond=`` of :func:`tacit.solve` takes a name, a ``dict(name=..., option=...)``, anything that stands for an
operator, or a preconditioner made by :func:`make` or :func:`inner` (which can be used in several solves).

For stored matrices: "none", "jacobi", "block-jacobi", "ilu0", "ic0", "iluk", "ick", "ilut", "spai", "fsai",
"polynomial", "schwarz", "amg" and "direct"; the classes here (:class:`Jacobi`, :class:`Ilu0`, ..) say what each does
and which options it takes; docs/reference/preconditioners.md has the table. For any operator: "inner", a few iterations
of another method (:func:`inner`).

For :func:`tacit.hmatrix` operators:

================== ========================================================================== ========================
jacobi             divides by the diagonal                                                    absolute
block-jacobi       inverts the near field of clusters of at most `size` points (400)          size, precision
hlu                approximate triangular factors in hierarchical form; with a small          tolerance, rank,
                   tolerance a direct solver (:func:`factorise`)                              leaf_size, factors,
                                                                                              precision
inner              20 iterations of bicgstab, with jacobi, on a copy of the matrix whose      see :func:`inner`
                   low-rank blocks are cut to rank one
================== ========================================================================== ========================

`precision` is "auto" (single where the tolerance allows it, since the factors are approximate), "single" or "full".

For matrices in the memory of a GPU (:class:`tacit.DeviceCsr`): all those of stored matrices but "direct". Incomplete
factors and the levels of "amg" are made by the host; their solves and cycles stay there. For H-matrices on GPUs
(:class:`tacit.DeviceHMatrix`): "jacobi".
"""

from __future__ import annotations

from .. import _preconds
from .._preconds import *  # noqa: F403
from .choices import AMG_ARRAYS as AMG_ARRAYS
from .choices import NONE as NONE
from .choices import NamedChoice as NamedChoice
from .choices import is_none as is_none
from .choices import named as named
from .choices import names
from .choices import node_of as node_of
from .choices import refuse_on_gpus as refuse_on_gpus
from .choices import split as split
from .factors import HFactors, UpdatedFactors
from .levels import Multilevel as Multilevel
from .levels import amg, rigid_body_modes
from .making import build, factorise, inner, make
from .operators import Named as Named  # by this name in pickles of version 0.3
from .operators import Reporting

__all__ = [
    "HFactors",
    "Reporting",
    "UpdatedFactors",
    "amg",
    "build",
    "factorise",
    "inner",
    "make",
    "names",
    "rigid_body_modes",
]
__all__ += _preconds.__all__
