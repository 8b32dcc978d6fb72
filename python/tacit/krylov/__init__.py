"""Solving A x = b by Krylov and stationary methods.

``tacit.solve`` has every option and returns a :class:`Result`; ``tacit.cg``, ``minres``, ``bicgstab``, ``gmres``,
``fgmres``, ``idr``, ``richardson`` and ``chebyshev`` have SciPy's signature. ``tacit.lstsq``, ``lsqr`` and ``lsmr``
minimise ||b - A x||, with an A of any shape. "Converged" always means that b - A x was recomputed at the end.

The path of a solve through the files: its arguments (``solving``) are checked on each rank (``request``) and compared
between ranks (``compared``); A, the preconditioner, b and x0 are taken to host memory or GPUs (``placed``,
``vectors``), where the compiled part solves; ``driver`` joins these steps and makes the result (``results``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .callbacks import CallbackState, Observer
from .checkpoints import Checkpoint
from .placed import method_on_gpus as method_on_gpus
from .plan import Plan, explain_plan
from .request import least_scalar as least_scalar
from .results import ColumnResult, ColumnsResult, NotConverged, Result, TraceEvent
from .results import Log as Log
from .signatures import bicgstab, cg, chebyshev, fgmres, gmres, idr, minres, richardson
from .solving import solve

if TYPE_CHECKING:
    from .least_squares import LeastSquaresColumn, LeastSquaresColumnsResult, LeastSquaresResult, lsmr, lsqr, lstsq

__all__ = [
    "CallbackState",
    "Checkpoint",
    "ColumnResult",
    "ColumnsResult",
    "LeastSquaresColumn",
    "LeastSquaresColumnsResult",
    "LeastSquaresResult",
    "NotConverged",
    "Observer",
    "Plan",
    "Result",
    "TraceEvent",
    "bicgstab",
    "cg",
    "chebyshev",
    "explain_plan",
    "fgmres",
    "gmres",
    "idr",
    "lsmr",
    "lsqr",
    "lstsq",
    "minres",
    "richardson",
    "solve",
]


def __getattr__(name: str) -> Any:
    # Least squares, loaded when first asked for: most programs solve square systems only.
    if name in __all__:
        from . import least_squares

        return getattr(least_squares, name)
    raise AttributeError(f"module 'tacit.krylov' has no attribute {name!r}")
