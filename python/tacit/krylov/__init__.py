"""Solving A x = b by Krylov and stationary methods.

``tacit.solve`` has every option and returns a :class:`Result`; ``tacit.cg``, ``minres``, ``bicgstab``, ``gmres``,
``fgmres``, ``idr``, ``richardson`` and ``chebyshev`` have SciPy's signature. "Converged" always means that b - A x was
recomputed at the end.
"""

from __future__ import annotations

from .driver import method_on_gpus as method_on_gpus
from .driver import solve
from .results import CallbackState, ColumnResult, ColumnsResult, NotConverged, Observer, Result, TraceEvent
from .signatures import bicgstab, cg, chebyshev, fgmres, gmres, idr, minres, richardson

__all__ = [
    "CallbackState",
    "ColumnResult",
    "ColumnsResult",
    "NotConverged",
    "Observer",
    "Result",
    "TraceEvent",
    "bicgstab",
    "cg",
    "chebyshev",
    "fgmres",
    "gmres",
    "idr",
    "minres",
    "richardson",
    "solve",
]
