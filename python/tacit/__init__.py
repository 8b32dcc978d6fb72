"""Tacit: large linear systems on machines where moving data costs more than computing with it.

>>> import numpy as np, tacit
>>> A = tacit.poisson((30, 30))
>>> x, info = tacit.solve(A, np.ones(900))
>>> info
0

Start with :func:`tacit.solve`. Matrices come from SciPy, NumPy, files (:func:`tacit.read`), grids (:func:`tacit.poisson`,
:func:`tacit.stencil`) and functions (:func:`tacit.function`); the same program runs on one rank and, started by mpiexec, on many.
"""

from . import comm, io, krylov, layout, op, precond
from ._core import EnvironmentFailure, Error, InputError, UsageError
from ._core import version as _version
from .io import read_vector
from .krylov import CallbackState, NotConverged, Result, bicgstab, cg, chebyshev, gmres, methods, richardson, solve
from .op import Csr, Operator, Stencil, csr, function, poisson, read, stencil, write

__version__: str = _version()

__all__ = [
    "CallbackState",
    "Csr",
    "EnvironmentFailure",
    "Error",
    "InputError",
    "NotConverged",
    "Operator",
    "Result",
    "Stencil",
    "UsageError",
    "__version__",
    "bicgstab",
    "cg",
    "chebyshev",
    "comm",
    "csr",
    "function",
    "gmres",
    "io",
    "krylov",
    "layout",
    "methods",
    "op",
    "poisson",
    "precond",
    "read",
    "read_vector",
    "richardson",
    "solve",
    "stencil",
    "write",
]
