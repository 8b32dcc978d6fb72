"""Operators that are known by factors: U V^H."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import comm as _comm
from .._alike import Whole, alike
from .._support import Array, as_array, chosen_scalar, common_scalar, core, scalar_name, to_scalar
from .base import Operator


class LowRank(Operator):
    """U V^H, from its factors. See :func:`tacit.low_rank`."""

    __slots__ = ("_factors",)
    _factors: tuple[Array, Array | None]

    def is_hermitian(self) -> bool:
        return self._factors[1] is None

    def _state(self) -> tuple[Any, ...]:
        return self._scalar, self._handle.range_offsets, self._handle.domain_offsets, *self._factors

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> LowRank:
        scalar, rows, columns, U, V = state
        made = cls(core("low_rank", scalar)(comm, rows, columns, U, U if V is None else V), comm, scalar)
        made._factors = U, V
        return made


def low_rank(
    U: Any, V: Any = None, *, own_rows: bool = False, comm: Any = None, scalar: npt.DTypeLike | None = None
) -> LowRank:
    """The operator U V^H, of few columns: ``A + tacit.low_rank(U, V)`` is A with a correction of low rank.

    Parameters
    ----------
    U, V : array_like
        (rows, k) and (columns, k), or one-dimensional for k = 1; without V it is U U^H, which is Hermitian. The same on
        every rank, which keeps its own rows.
    own_rows : bool
        `U` and `V` hold this rank's own rows alone: the factors are those of rank 0, below them those of rank 1, and so
        on. ``U[A.own_range[0] : A.own_range[1]]`` fits any square A.
    comm : communicator, optional
    scalar : dtype, optional
        Default: what holds the numbers of both.

    Returns
    -------
    LowRank
        A product reads both factors once, and has one reduction of k numbers. Collective; stores a copy of this rank's
        rows.

    Raises
    ------
    ValueError, TypeError
        On every rank: factors of different numbers of columns, of other shapes, or that differ between ranks.

    Examples
    --------
    A matrix whose entries outside of a band are all 1 / n, as where every unknown depends on the mean:

    >>> import numpy as np, tacit
    >>> n = 50
    >>> A = tacit.poisson((n,)).shifted(1) + tacit.low_rank(np.full(n, 1 / np.sqrt(n)))
    >>> A.is_hermitian()
    True
    >>> x, info = tacit.solve(A, np.arange(n), method="minres")
    >>> info
    0
    """
    on = _comm.resolve(comm)

    def look() -> tuple[Array, Array | None, str]:
        wanted = chosen_scalar(scalar)
        factors = [_factor(U, "U")] + ([] if V is None else [_factor(V, "V")])
        if factors[0].shape[1] != factors[-1].shape[1]:
            raise ValueError(f"U has {factors[0].shape[1]} columns and V {factors[-1].shape[1]}; both need as many")
        kind = wanted or common_scalar(*(scalar_name(a.dtype, "a factor") for a in factors))
        first, *rest = (to_scalar(a, kind, name) for a, name in zip(factors, "UV", strict=False))
        return first, rest[0] if rest else None, kind

    def tell(found: tuple[Array, Array | None, str]) -> dict[str, Any]:
        first, second, kind = found
        facts = {"columns of U": first.shape[1], "V": "None" if second is None else "an array", "scalar": kind}
        facts["own_rows"] = str(bool(own_rows))
        if own_rows:
            return facts
        return {**facts, "U": Whole(first), **({} if second is None else {"V": Whole(second)})}

    (first, second, kind), _ = alike(on, look, tell)

    def own(a: Array) -> tuple[list[int], Array]:
        if own_rows:
            lengths = [int.from_bytes(n, "little") for n in on.all_gather(len(a).to_bytes(8, "little"))]
            return [0, *np.cumsum(lengths).tolist()], a
        offsets = layout.blocks(len(a), on.size)
        return offsets, layout.own_part(a, on, offsets, True)

    rows, U_own = own(first)
    columns, V_own = (rows, None) if second is None else own(second)
    return LowRank._made_from(on, kind, rows, columns, U_own, V_own)


def _factor(a: Any, name: str) -> Array:
    array = as_array(a, name)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}; (n,) or (n, k) with k > 0 is needed")
    return array
