"""b and x0 as a solve reads them, and x in the form that the user gave b in."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import _core, layout, op
from .. import device as _device
from .._support import Array, agreed, like, to_scalar
from .request import SPACES, Request


class HostVectors:
    """b and x0 of host memory: this rank's rows, in the order of the operator that is solved with. Collective."""

    def __init__(self, request: Request, on: _core.Communicator, matrix: op.Operator, scalar: str) -> None:
        self._on, self._scalar, self._like = on, scalar, request.given.b
        self._handle = matrix._handle
        self._numbers: Any = None
        b, x0, n = request.b, request.x0, matrix.shape[0]
        if on.size == 1 and len(b) == n and (x0 is None or len(x0) == n):
            self._whole = True
            self.b, self.x0 = to_scalar(b, scalar, "b"), None if x0 is None else to_scalar(x0, scalar, "x0")
        else:
            self.b, self.x0 = self._parts(b, x0)
        self.many = b.ndim == 2
        given = request.given.b
        self._reshaped = not self.many and (given.ndim if isinstance(given, np.ndarray) else np.ndim(given)) == 2

    def _parts(self, b: Array, x0: Array | None) -> tuple[Array, Array | None]:
        """This rank's rows of b and x0, each in either form. Collective."""
        self._whole = layout.form(self._on, b, self._offsets, "b")
        guess_whole = x0 is not None and layout.form(self._on, x0, self._offsets, "x0")

        def cut() -> tuple[Array, Array | None]:
            return self._own(b, self._whole, "b"), None if x0 is None else self._own(x0, guess_whole, "x0")

        return agreed(self._on, cut)

    @property
    def _offsets(self) -> list[int]:
        return self._handle.range_offsets  # type: ignore[no-any-return]

    def _own(self, array: Array, whole: bool, what: str) -> Array:
        if whole and self._on.size > 1:
            array = layout.own_part(array, self._on, self._offsets, whole)
        return to_scalar(array, self._scalar, what)

    def finite(self) -> bool:
        """Whether this rank's numbers are all finite. Local."""
        return bool(np.isfinite(self.b).all() and (self.x0 is None or np.isfinite(self.x0).all()))

    def enter(self, operator: op.Operator, numbers: Any) -> None:
        """Takes the vectors to the rows of this operator. Collective."""
        self._numbers = numbers
        if numbers is not None:
            self.b = self._moved("forward", self.b)
            self.x0 = None if self.x0 is None else self._moved("forward", self.x0)

    def _moved(self, way: str, own: Array) -> Array:
        """One or more columns renumbered "forward" or "backward". Collective."""
        move = getattr(self._numbers, f"{way}_{self._scalar}")
        if own.ndim == 1:
            return move(self._on, own)  # type: ignore[no-any-return]
        return np.stack([move(self._on, np.ascontiguousarray(c)) for c in own.T], axis=1) if own.shape[1] else own

    def form(self, own: Array) -> Array:
        """An iterate in the user's form. Collective where that is whole or renumbered."""
        if self._numbers is not None:
            own = self._moved("backward", own)
        x = layout.gather(own, self._on) if self._whole and self._on.size > 1 else own
        return x.reshape(-1, 1) if self._reshaped else x

    def result(self, own: Array) -> Any:
        """x in the user's form, as an array of the library of b."""
        x = self.form(own)
        return x if type(self._like) is np.ndarray else like(x, self._like)

    def null_space(self, spaces: tuple[Any, ...]) -> list[tuple[Array, int]]:
        """Of the right and the left null space the columns, one after the other, and their number. Collective."""
        own_rows = self._offsets[self._on.rank + 1] - self._offsets[self._on.rank]
        parts = []
        for what, space in zip(SPACES, spaces, strict=True):
            if space is None or isinstance(space, str):
                own = np.ones((own_rows, 0 if space is None else 1), self._scalar)
            else:
                whole = layout.form(self._on, space, self._offsets, what)
                own = agreed(self._on, functools.partial(self._own, space, whole, what))
            if self._numbers is not None:
                own = self._moved("forward", own)
            parts.append((own.ravel("F"), own.shape[1]))
        return parts


class DeviceVectors:
    """b and x0 of the memory of a GPU, one column each: this rank's own part. Collective."""

    many = False

    def __init__(self, request: Request, on: _core.Communicator, matrix: op.Operator, scalar: str) -> None:
        self._on, self._scalar, self._given = on, scalar, request.given
        self.b: Any = None
        self.x0: Any = None
        offsets = matrix._handle.range_offsets
        whole = layout.is_whole(on, request.b.shape[0], offsets, "b")
        guess_whole = request.x0 is not None and layout.is_whole(on, request.x0.shape[0], offsets, "x0")
        if on.size > 1 and (whole or guess_whole):
            raise ValueError("b or x0 is whole on every rank; an array in the memory of a GPU is this rank's own part")

    def finite(self) -> bool:
        return True

    def enter(self, operator: op.Operator, numbers: Any) -> None:
        """The compiled arrays, in the memory of this operator's GPU. Collective; nothing is renumbered there."""

        def take() -> tuple[Any, Any]:
            b, x0, handle = self._given.b, self._given.x0, operator._handle
            return _device.taken(b, "b", handle, True), None if x0 is None else _device.taken(x0, "x0", handle, False)

        self.b, self.x0 = agreed(self._on, take)

    def form(self, own: Array) -> Array:
        return own

    def result(self, own: Any) -> Any:
        return like(_device.DeviceArray(own, self._scalar), self._given.b)


Vectors = HostVectors | DeviceVectors
