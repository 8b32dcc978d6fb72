"""The request of all ranks: what they must give alike, and what is taken of rank 0 or of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import _core, op
from .. import precond as _precond
from .._alike import alike_and_least, scalar_bits, scalar_of_bits
from .._described import SOLVE
from .._options import Described, Method, compared_form, compared_value, take_numbers
from .._support import chosen_scalar
from .callbacks import OfIterate
from .request import SPACES, Request

P = TypeVar("P")


def agreed_request(on: _core.Communicator, look: Callable[[], tuple[P, Request]]) -> tuple[P, Request]:
    """What look() finds, with a request that is the same on all ranks: with the smallest scalar that holds the numbers
    of each, and rank 0's real options. ValueError on every rank when options differ by more than rounding. Collective;
    one small reduction.
    """

    def bits(found: tuple[P, Request]) -> tuple[int, int]:
        # A rank without elements does not count for the scalar: np.array([]) is float64 whatever the others have.
        b, x0 = found[1].b, found[1].x0
        return scalar_bits(found[1].scalar, b.shape[0] + (0 if x0 is None else x0.shape[0]) > 0)

    (place, request), first, least = alike_and_least(on, look, lambda found: _form(found[1], on), bits)
    take_numbers(request.options, SOLVE, first)
    return place, request._replace(
        scalar=scalar_of_bits(least, request.scalar), precond=_with_numbers("precond", request.precond, first)
    )


def _form(request: Request, on: _core.Communicator) -> dict[str, float | str]:
    """A request in the form that ranks compare."""
    given, options = request.given, request.options
    found = argument_form("precond", request.precond)
    found |= {"method": repr(options.method), "b": columns_form(request.b), **compared_form(options, SOLVE)}
    found |= {"partition": repr(given.partition), "ordering": repr(given.ordering)}
    found |= {"device": repr(given.device.partition(":")[0]), "path": on.path if given.path is None else given.path}
    found |= {"scalar": repr(chosen_scalar(given.scalar)), "trace": repr(bool(given.trace))}
    found |= {"raise_on_failure": repr(bool(given.raise_on_failure))}
    found["relative_to"] = repr(given.relative_to)
    found["x0"] = "None" if given.x0 is None else "given"
    for key, space in zip(SPACES, request.spaces or (None, None), strict=True):
        found[key] = f"{space.shape[1]} vectors" if isinstance(space, np.ndarray) else str(space)
    found["callback"] = callback_form(given.callback, options.callback_stops)
    found["A"] = op.structure_of(given.A) if isinstance(given.A, op.Operator) else "a matrix or a function"
    return found


def columns_form(b: Any) -> str:
    what = "a vector" if len(b.shape) == 1 else f"{b.shape[1]} columns"
    return what if isinstance(b, np.ndarray) else what + " on a GPU"


def callback_form(callback: Any, stops: bool) -> str:
    if isinstance(callback, OfIterate):
        return callback.argument
    return "None" if callback is None else "given" if stops else "an Observer"


def argument_form(what: str, given: Any) -> dict[str, float | str]:
    """An argument in the form that ranks compare: its name and options, and those of methods that an option names."""
    if isinstance(given, (dict, Described)):
        name, options = (given.name, given.given()) if isinstance(given, Method) else _precond.split(given)
        found: dict[str, float | str] = {what: repr(name)}
        for key, value in options.items():
            if name == "amg" and key in _precond.AMG_ARRAYS:  # may be a rank's own part
                found[f"{what}'s {key}"] = "None" if value is None else f"an array (n, {np.shape(value)[1:]})"
            else:
                found |= argument_form(f"{what}'s {key}", value)
        return found
    if isinstance(given, op.Operator):
        return {what: op.structure_of(given)}
    if op._is_matrix(given) or op.is_petsc(given):
        return {what: "a matrix"}
    return {what: "a function" if callable(given) else compared_value(given)}


def _with_numbers(what: str, given: Any, first: dict[str, Any]) -> Any:
    """The argument with its real numbers replaced by rank 0's."""
    if isinstance(given, (dict, Described)):
        options = given.given() if isinstance(given, Described) else given
        taken = {key: _with_numbers(f"{what}'s {key}", value, first) for key, value in options.items()}
        return taken if isinstance(given, dict) else dataclasses.replace(given, **taken)  # type: ignore[type-var]
    return first.get(what, given) if isinstance(given, float) else given
