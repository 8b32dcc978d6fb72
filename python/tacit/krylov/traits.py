"""What a solve has to know of a method that is given by its name. No other code of this package compares with one.

The traits are those that include/tacit/krylov/methods.def declares.
"""

from __future__ import annotations

import functools

from .. import _core
from .._described import GROUP_METHODS

_AUTOMATIC = "auto"


def is_chosen(method: str) -> bool:
    """Whether the solve chooses the method."""
    return method == _AUTOMATIC


@functools.cache
def needs_hermitian(method: str) -> bool:
    """Whether the method takes its preconditioner for a Hermitian map."""
    return _core.needs_hermitian(method)


@functools.cache
def own_precond(method: str) -> str | None:
    """The only preconditioner that the method works with, which need not be named; None where any will do."""
    return "direct" if _core.needs_factors(method) else None


def of_gpus(method: str) -> str | None:
    """The method that ``method=`` stands for on several GPUs together; None where it does not work there."""
    if is_chosen(method):
        return GROUP_METHODS[0]
    return method if method in GROUP_METHODS else None
