"""Tacit: large linear systems on machines where moving data costs more than computing with it.

>>> import numpy as np, tacit
>>> A = tacit.poisson((30, 30))
>>> x, info = tacit.solve(A, np.ones(900))
>>> info
0

Start with :func:`tacit.solve`. Matrices come from SciPy, NumPy, files (:func:`tacit.read`), grids
(:func:`tacit.poisson`, :func:`tacit.stencil`), kernels (:func:`tacit.hmatrix`) and functions (:func:`tacit.function`);
the same program runs on one rank and, started by mpiexec, on many.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import comm, device, io, krylov, layout, methods, op, precond, scipy, simulate
    from ._core import EnvironmentFailure, Error, InputError, OutOfMemory, UsageError
    from .app import bem, grid_problems, inference, multigrid, tomography
    from .device import DeviceArray, device_array
    from .io import read_vector
    from .krylov import (
        CallbackState,
        Checkpoint,
        ColumnsResult,
        LeastSquaresColumnsResult,
        LeastSquaresResult,
        NotConverged,
        Observer,
        Plan,
        Result,
        bicgstab,
        cg,
        chebyshev,
        explain_plan,
        fgmres,
        gmres,
        idr,
        lsmr,
        lsqr,
        lstsq,
        minres,
        richardson,
        solve,
    )
    from .op import (
        Assembler,
        Csr,
        DeviceCsr,
        DeviceHMatrix,
        HMatrix,
        LowRank,
        Operator,
        Stencil,
        csr,
        function,
        hmatrix,
        low_rank,
        poisson,
        read,
        stencil,
        tiled,
        write,
    )

    __version__: str

# Where each name lives; loaded when first asked for, so that importing Tacit costs next to nothing.
_HOMES = {
    "_core": ["EnvironmentFailure", "Error", "InputError", "OutOfMemory", "UsageError"],
    "device": ["DeviceArray", "device_array"],
    "io": ["read_vector"],
    "krylov": [
        "CallbackState", "Checkpoint", "ColumnsResult", "LeastSquaresColumnsResult", "LeastSquaresResult",
        "NotConverged", "Observer", "Plan", "Result", "bicgstab", "cg", "chebyshev", "explain_plan", "fgmres", "gmres",
        "idr", "lsmr", "lsqr", "lstsq", "minres", "richardson", "solve"
    ],
    "op": [
        "Assembler", "Csr", "DeviceCsr", "DeviceHMatrix", "HMatrix", "LowRank", "Operator", "Stencil", "csr",
        "function", "hmatrix", "low_rank", "poisson", "read", "stencil", "tiled", "write"
    ],
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_FLOORS = ("comm", "device", "io", "krylov", "layout", "methods", "op", "precond", "scipy", "simulate")
_OF_OTHERS = ("jax", "torch")  # which need these libraries, and so are not in __all__
_APPLICATIONS = ("bem", "grid_problems", "inference", "multigrid", "tomography")

# What to take for the methods of scipy.sparse.linalg that Tacit lacks, and where others are.
_NEAREST = {
    "amg": "algebraic multigrid is tacit.precond.amg(A), or precond='amg' of tacit.solve",
    "bicg": "for any square A there are bicgstab, idr and gmres",
    "cgs": "bicgstab is its stabilised form",
    "gcrotmk": "fgmres also takes a preconditioner that changes",
    "lgmres": "gmres lengthens its cycles where they are slow, and idr needs no restart",
    "qmr": "for any square A there are bicgstab, idr and gmres",
    "tfqmr": "bicgstab and idr need as few vectors",
}


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"tacit.{name}")
    except ImportError as error:
        from .launch import advice_on_import

        if advice := advice_on_import(error):
            raise ImportError(f"{error}{advice}", name=error.name) from error
        raise


def __getattr__(name: str) -> Any:
    if name in _FLOORS or name in _OF_OTHERS:
        return _module(name)
    if name in _APPLICATIONS:
        return _module(f"app.{name}")
    if name == "__version__":
        value = _module("_core").version()
    elif name in _HOME_OF:
        value = getattr(_module(_HOME_OF[name]), name)
    else:
        near = _NEAREST.get(name)
        raise AttributeError(f"module 'tacit' has no attribute {name!r}" + (f"; {near}" if near else ""))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Assembler", "CallbackState", "Checkpoint", "ColumnsResult", "Csr", "DeviceArray", "DeviceCsr", "DeviceHMatrix",
    "EnvironmentFailure", "Error", "HMatrix", "InputError", "LeastSquaresColumnsResult", "LeastSquaresResult",
    "LowRank", "NotConverged", "Observer", "Operator", "OutOfMemory", "Plan", "Result", "Stencil", "UsageError",
    "__version__", "bem", "bicgstab", "cg", "chebyshev", "comm", "csr", "device", "device_array", "explain_plan",
    "fgmres", "function", "gmres",
    "grid_problems", "hmatrix", "idr", "inference", "io", "krylov", "layout", "low_rank", "lsmr", "lsqr", "lstsq",
    "methods", "minres", "multigrid", "op", "poisson", "precond", "read", "read_vector", "richardson", "scipy",
    "simulate", "solve", "stencil", "tiled", "tomography", "write"
]  # fmt: skip
