"""Operators: linear maps whose rows are spread over ranks.

Every operator has ``shape``, ``dtype``, ``comm`` and ``own_range``; ``A @ x``, ``A.T @ x`` and ``A.H @ x`` multiply.
``A @ B``, ``A + B``, ``A - B``, ``c * A``, ``-A`` and ``A.shifted(c)`` are operators that refer to A and B
(:class:`Composed`); their ``assemble()`` makes a stored matrix.
On several ranks all ranks give a vector in the same form, whole (the same on every rank) or as the rank's own part, and
with the same number of columns (checked). If it is complex on one rank it is taken as complex on all. The result has
the same form. Products are collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import algebra as algebra
from .base import Operator
from .base import structure_of as structure_of
from .composed import Composed
from .factors import LowRank, low_rank
from .grids import Stencil, poisson, stencil
from .hierarchical import DeviceHMatrix, HMatrix, hmatrix
from .hierarchical import refuse_on_gpus as refuse_on_gpus
from .matrices import _compressed as _compressed
from .matrices import _is_matrix as _is_matrix
from .matrices import as_operator, csr, function
from .matrices import is_like as is_like
from .matrices import is_petsc as is_petsc
from .matrices import of_nodes as of_nodes
from .matrices import renumbered as renumbered
from .matrices import scalar_of as scalar_of
from .matrices import stored as stored
from .matrices import worth_storing as worth_storing
from .stored import Csr, DeviceCsr
from .tiles import DeviceTiledSpmm as DeviceTiledSpmm
from .tiles import TiledSpmm as TiledSpmm
from .tiles import filled as filled
from .tiles import tiled

if TYPE_CHECKING:
    from .assembler import Assembler
    from .files import read, write

__all__ = [
    "Assembler", "Composed", "Csr", "DeviceCsr", "DeviceHMatrix", "HMatrix", "LowRank", "Operator", "Stencil",
    "as_operator", "csr", "function", "hmatrix", "low_rank", "poisson", "read", "stencil", "tiled", "write"
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded when first asked for.
    from importlib import import_module

    if name == "kernels":
        return import_module("tacit.op.kernels")
    if name == "Assembler":
        return import_module("tacit.op.assembler").Assembler
    if name in ("read", "write"):
        return getattr(import_module("tacit.op.files"), name)
    raise AttributeError(f"module 'tacit.op' has no attribute {name!r}")
