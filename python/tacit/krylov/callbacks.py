"""Callbacks of a solve: the state that they are given, and how one ends the solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import _core
from .._support import Array


class CallbackState:
    """The state of a solve after an iteration, as :func:`tacit.solve` gives it to its callback.

    Attributes
    ----------
    iteration : int
    residual_norm : float
        ||r|| / ||b|| of the recurrence residual r.
    column : int
        Of the right-hand sides, counted from 0; 0 where there is one.
    x : ndarray
        The iterate, in the form of the result. It is computed at each access, at the cost of a few vectors read and
        written. On several ranks the access is collective where x is whole or renumbered. Of k right-hand sides it is
        the column's, of shape (n,).
    """

    __slots__ = ("_form", "_state", "column", "iteration", "residual_norm")

    def __init__(self, state: _core.CallbackState, form: Callable[[Array], Array]) -> None:
        self._state, self._form = state, form
        self.iteration: int = state.iteration
        self.residual_norm: float = state.residual_norm
        self.column: int = state.column

    @property
    def x(self) -> Array:
        return self._form(self._state.solution())

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a CallbackState can be neither pickled nor copied, since it is that of a running solve; keep what you need"
            " of it: state.iteration, state.residual_norm, state.x.copy()"
        )

    def __repr__(self) -> str:
        return f"<iteration {self.iteration}: residual {self.residual_norm:.3e}>"


class Observer:
    """A callback of :func:`solve` that cannot stop it: its return value is ignored, so it costs no reduction.

    Parameters
    ----------
    function : callable
        ``function(state)`` after each iteration, on every rank; see :class:`CallbackState`.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> seen = []
    >>> r = tacit.solve(2 * np.eye(3), np.ones(3), callback=tacit.Observer(lambda s: seen.append(s.iteration)))
    >>> len(seen) == r.iterations
    True
    """

    def __init__(self, function: Callable[[CallbackState], Any]) -> None:
        self._function = function

    def __call__(self, state: CallbackState) -> bool:
        self._function(state)
        return False


class OfIterate:
    """A callback of :func:`solve` made from a callback with SciPy's signature."""

    def __init__(self, callback: Callable[[Any], Any], as_norm: bool) -> None:
        self._callback, self._as_norm = callback, as_norm
        self.argument = "given the residual's norm" if as_norm else "given the iterate"

    def __call__(self, state: CallbackState) -> bool:
        self._callback(state.residual_norm if self._as_norm else np.ravel(state.x))
        return False


class OfColumn:
    """The state of a solve with one right-hand side, as that of one column."""

    def __init__(self, call: Callable[[Any], bool], column: int) -> None:
        self._call, self._column = call, column

    def __call__(self, state: _core.CallbackState) -> bool:
        state.column = self._column
        return self._call(state)


def one_by_one(
    b: Array, x0: Array | None, call: Callable[[_core.CallbackState], bool] | None
) -> Iterator[tuple[Array, Array | None, Callable[[_core.CallbackState], bool] | None]]:
    """Of each column of b: itself, its initial guess, and the callback for it."""
    for c in range(b.shape[1]):
        guess = None if x0 is None else np.ascontiguousarray(x0[:, c])
        yield np.ascontiguousarray(b[:, c]), guess, None if call is None else OfColumn(call, c)


def stopping(
    callback: Callable[[CallbackState], Any], form: Callable[[Array], Array]
) -> Callable[[_core.CallbackState], bool]:
    """The callback as the compiled part calls it: True ends the solve."""

    def call(state: _core.CallbackState) -> bool:
        try:
            answer = callback(CallbackState(state, form))
        except StopIteration:
            return True
        return isinstance(answer, (bool, np.bool_)) and bool(answer)

    return call
