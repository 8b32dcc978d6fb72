"""What :func:`tacit.solve` is called with, and what is left of it once this rank has checked it."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core, op
from .. import device as _device
from .. import precond as _precond
from .._described import PATHS, SOLVE, SOLVE_NAMES
from .._options import Described, Method, fill, named
from .._support import (
    SCALAR_OF,
    as_array,
    as_columns,
    choose,
    chosen_scalar,
    common_scalar,
    refuse_unknown,
    scalar_name,
    thread_count,
    vectors_of,
)
from . import traits
from .callbacks import CallbackState, Observer

# Arguments that are not options of the table, although they come with these: NumPy arrays have no entry there.
SPACES = ("nullspace", "left_nullspace")
#: What rtol is relative to: ||b||, or the first residual ||b - A x0||.
RELATIVE_TO = ("b", "first")


class Given(NamedTuple):
    """The arguments of :func:`tacit.solve`."""

    A: Any
    b: Any
    x0: Any
    comm: Any
    callback: Callable[[CallbackState], Any] | None
    checkpoint: Any
    method: str | Method
    precond: Any
    partition: str
    ordering: str
    path: str | None
    threads: int | None
    device: str
    scalar: npt.DTypeLike | None
    trace: bool
    raise_on_failure: bool
    verbose: bool
    options: Mapping[str, Any]

    @property
    def choices(self) -> tuple[Any, ...]:
        """What is neither a number of the system nor has to do with where it is, nor is among the options."""
        return self[_FIRST_CHOICE:-1]

    @property
    def relative_to(self) -> Any:
        return self.options.get("relative_to", "b")

    @property
    def renumbers(self) -> bool:
        return self.partition != "rows" or self.ordering != "none"


_FIRST_CHOICE = Given._fields.index("method")
_NOT_IN_TABLE = (*SPACES, "relative_to")
_BESIDE = (*(name for name in Given._fields if name != "options"), *_NOT_IN_TABLE)


class Request(NamedTuple):
    """A solve that can be done, as far as one rank can tell."""

    given: Given
    b: Any  # an array, or the view of one in the memory of a GPU
    x0: Any
    scalar: str
    options: _core.Options
    precond: Any
    simple: bool  # the method is named, there is no preconditioner, and a stored matrix stays as it is
    automatic: str  # preconditioners are tried where A is a stored matrix ("default"), or always ("named"); "": none is
    spaces: tuple[Any, ...]  # the null space and the left one if there are any: None, "constant", or vectors as columns


class Place:
    """What depends on the place where a solve runs, and can be checked before: as it is in host memory. Local."""

    moves_matrix = False  # to the memory where it runs

    @staticmethod
    def vector(value: Any, what: str) -> Any:
        """b or x0 as an array, or as the view of one in the memory of a GPU."""
        if type(value) is np.ndarray:
            return as_columns(value, what)
        return vector_of(_device.read_by_numpy(value), what)

    @staticmethod
    def refuse(given: Given, b: Any) -> None:
        """ValueError for what cannot be done there."""
        if not isinstance(b, np.ndarray):
            raise ValueError("b is in the memory of a GPU, and A in that of the host; A.to('cuda') moves it there")

    @staticmethod
    def method(name: str, precond: Any) -> str:
        """The method that is meant; ValueError where it does not work there."""
        return name

    @staticmethod
    def preconditioner(given: Any, options: _core.Options) -> tuple[Any, str]:
        """The preconditioner that is meant, and whether others are tried (:class:`Request`)."""
        method = options.method
        own = traits.own_precond(method)
        if own is not None:
            return _only(own, given, method), ""
        if given is None:
            return _precond.NONE, "default" if traits.is_chosen(method) and options.fallbacks else ""
        return as_named(given), "named" if is_tried(given) else ""


def checked(given: Given, on: _core.Communicator, place: type[Place], choice: Choice | None = None) -> Request:
    """ValueError or TypeError for what is wrong in the arguments, of which `choice` may be known already. Local."""
    b = place.vector(given.b, "b")
    x0 = None if given.x0 is None else place.vector(given.x0, "x0")
    if x0 is not None:
        refuse_unlike(b, x0)
    A = given.A
    scalar = chosen_scalar(given.scalar) or _own_scalar(A, b, x0) or least_scalar(A, b=b, x0=x0)
    if isinstance(A, op.Operator) and A.comm is not on and A.comm != on:
        raise ValueError("A lives on another communicator than the one given as comm=")
    null, left = given.options.get(SPACES[0]), given.options.get(SPACES[1])
    if null is None and getattr(A, "null_spaces", None):
        own = {key: value for key, value in given.options.items() if value is not None}
        given = given._replace(options={**A.null_spaces, **own})
        null, left = given.options.get(SPACES[0]), given.options.get(SPACES[1])
    if left is not None and null is None:
        raise ValueError("left_nullspace goes with nullspace, which was not given")
    spaces = () if null is None else (_space(null, SPACES[0]), _space(left, SPACES[1]))
    place.refuse(given, b)
    if "relative_to" in given.options and given.relative_to == "first":
        _refuse_first(place, b, x0, null)
    options, precond, automatic, simple, _ = choice or chosen(given, place)
    if given.callback is not None:
        if not callable(given.callback):
            raise TypeError(f"callback is {given.callback!r}; a function of one argument is needed")
        options.callback_stops = not isinstance(given.callback, Observer)
    return Request(given, b, x0, scalar, options, precond, simple, automatic, spaces)


def _space(given: Any, what: str) -> Any:
    vectors = vectors_of(given, what)
    return given if vectors is None else vectors


def refuse_unlike(b: Any, x0: Any) -> None:
    if isinstance(x0, np.ndarray) != isinstance(b, np.ndarray):
        there, here = ("x0", "b") if isinstance(b, np.ndarray) else ("b", "x0")
        raise ValueError(f"{there} is in the memory of a GPU and {here} in that of the host; give both in one")
    if x0.shape[1:] != b.shape[1:]:
        raise ValueError(f"b has shape {b.shape} and x0 {x0.shape}; each column of b needs one of x0")


def _refuse_first(place: type[Place], b: Any, x0: Any, null: Any) -> None:
    """ValueError for a solve whose goal cannot be relative to the first residual. Local."""
    if x0 is None:
        return  # the first residual is b
    if null is not None:
        raise ValueError(
            'relative_to="first" and nullspace: b - A x0 may not be in the range of A; take relative_to="b"'
        )
    if place.vector is not Place.vector:
        raise ValueError('relative_to="first" with x0 works in host memory; on a GPU take relative_to="b"')
    if b.ndim == 2 and b.shape[1] > 1:
        raise ValueError(
            f'relative_to="first" with x0 takes one right-hand side, and b has {b.shape[1]}: solve them one by one, or'
            ' take relative_to="b"'
        )


def _own_scalar(A: Any, b: Any, x0: Any) -> str | None:
    """The scalar of A where b and x0 have it, too: what :func:`least_scalar` finds, but at once. None elsewhere."""
    dtype = getattr(A, "dtype", None)
    if dtype is None or b.dtype != dtype or (x0 is not None and x0.dtype != dtype):
        return None
    return SCALAR_OF.get(b.dtype)


def least_scalar(A: Any, **vectors: Any) -> str:
    """The smallest scalar that holds A, b and x0 on this rank."""
    parts = [op.scalar_of(A, "A") or "float64"] if hasattr(A, "dtype") else []
    parts += [scalar_name(vector.dtype, what) for what, vector in vectors.items() if vector is not None]
    if isinstance(A, (list, tuple)):
        parts.append(scalar_name(as_array(A, "A").dtype, "A"))
    least = common_scalar(*parts)
    if isinstance(A, op.Operator) and not isinstance(A, (op.Csr, op.DeviceCsr, op.Stencil)):
        return A._scalar if A.dtype.kind == "c" or not least.startswith("complex") else least
    return least


_METHODS = frozenset(SOLVE_NAMES)
# Types of values that are equal only where they mean the same to _settled, beside others of the same type.
_PLAIN = frozenset({type(None), bool, int, float, str})
# Numbers that may be others at each call, such as the atol of an outer iteration.
_REAL = frozenset(name for name, option in SOLVE.items() if option.kind == "real")


class Choice(NamedTuple):
    """What follows from the arguments beside the system."""

    options: _core.Options
    precond: Any  # this and the next two: see Request
    automatic: str
    simple: bool
    bare: bool  # nothing but the method, its options, the scalar, and preconditioners that are tried by default


_KEPT: OrderedDict[tuple[Any, ...], Choice] = OrderedDict()  # by all that they are made of
_MOST_KEPT = 256


def chosen(given: Given, place: type[Place]) -> Choice:
    """The options as the compiled part has them, to be changed by this solve, and its preconditioner. Those of an
    earlier solve with the same plain arguments are a copy away: what is kept has passed every check.
    """
    values = (*given.choices, *given.options.values())
    kinds = tuple(map(type, values))  # True is 1
    if not _PLAIN.issuperset(kinds):  # others are not kept alive
        return _choose(given, place)
    key = (place, tuple(given.options), kinds, values)
    kept = _KEPT.get(key)
    if kept is None:
        kept = _KEPT[key] = _choose(given, place)
        if len(_KEPT) > _MOST_KEPT:
            _KEPT.popitem(last=False)
    return Choice(_core.Options(kept[0]), *kept[1:])


def _choose(given: Given, place: type[Place]) -> Choice:
    """:func:`chosen` for arguments that are new. What stands beside the options is checked too."""
    name, own = given.method, given.options
    if not isinstance(name, str):
        name, own = named("method", name, own)
    method = place.method(
        name if isinstance(name, str) and name in _METHODS else choose("method", name, SOLVE_NAMES), given.precond
    )
    fixed, real = {}, {}
    for key, value in own.items():
        if type(value) is float and key in _REAL:
            real[key] = value
        elif key not in _NOT_IN_TABLE:
            fixed[key] = value
    values = (given.partition, given.ordering, given.path, given.relative_to, given.verbose, *fixed.values())
    settle = _settled if _PLAIN.issuperset(map(type, values)) else _settled.__wrapped__
    options = _core.Options(settle(method, tuple(fixed), *values))
    for key, value in real.items():
        setattr(options, key, value)
    _core.check_solve(options)
    if given.threads is not None:
        thread_count(given.threads)
    precond, automatic = place.preconditioner(given.precond, options)
    prepares = place.moves_matrix or automatic or given.renumbers or traits.is_chosen(options.method)
    simple = precond is _precond.NONE and not prepares
    around = given.path, given.threads, *(own.get(what) for what in SPACES)
    bare = (simple or automatic == "default") and all(value is None for value in around)
    bare = bare and not (given.renumbers or given.trace or given.verbose) and given.relative_to == "b"
    return Choice(options, precond, automatic, simple, bare)


@functools.lru_cache(maxsize=256, typed=True)
def _settled(
    method: str,
    names: tuple[str, ...],
    partition: Any,
    ordering: Any,
    path: Any,
    relative_to: Any,
    verbose: Any,
    *values: Any,
) -> _core.Options:
    """The options of these names, with types and names checked, not yet ranges. Depends on its arguments alone."""
    options = _core.Options()
    options.method = method
    fill(options, "solve", SOLVE, dict(zip(names, values, strict=True)), _BESIDE)
    if path is not None:
        choose("path", path, PATHS)
    choose("relative_to", relative_to, RELATIVE_TO)
    choose("partition", partition, ("rows", "graph"))
    choose("ordering", ordering, ("none", "rcm"))
    check_verbose(verbose)
    return options


def check_verbose(verbose: Any) -> None:
    """TypeError for what is neither true nor false. Local."""
    if not isinstance(verbose, (bool, int, np.bool_)):
        raise TypeError(f"verbose is {verbose!r}; True or False is needed")


def vector_of(value: Any, what: str) -> Any:
    """b or x0: a vector or several columns in host memory, or one vector in the memory of a GPU. Local."""
    if not _device.is_array(value):
        return as_columns(value, what)
    found = _device.view(value, what)
    if len(found.shape) == 2 and found.shape[1] != 1:
        raise ValueError(f"{what} has shape {found.shape} on a GPU; there one column is solved at a time, shape (n,)")
    return found._replace(shape=found.shape[:1])


def as_named(given: Any) -> Any:
    """``precond=given``, a name as a dict."""
    if given is None:
        return _precond.NONE
    if isinstance(given, str):
        return _precond.NONE if given == "none" else {"name": given}
    return given


def is_tried(given: Any) -> bool:
    """Whether ``precond=given`` lets preconditioners be tried; TypeError for options beside."""
    P = as_named(given)
    if P is _precond.NONE or not isinstance(P, dict) or P.get("name") != "auto":
        return False
    refuse_unknown("precond 'auto'", {key: value for key, value in P.items() if key != "name"}, ())
    return True


def _only(own: str, given: Any, method: str) -> Any:
    """The preconditioner of a method that has its own, by name or made before. ValueError for another one. Local."""
    name = own
    if isinstance(given, (str, dict, Described)):
        name = _precond.split(given)[0]
    elif isinstance(given, op.Operator):
        name = given.name
    if name != own:
        raise ValueError(
            f'precond is {name!r}; method "{method}" solves with the factors that precond "{own}" makes: leave precond'
            " out, or name a method that takes this preconditioner"
        )
    return {"name": own} if given is None else given
