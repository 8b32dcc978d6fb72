"""What ``precond=`` stands for: names of preconditioners and their options, checked without a matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _core
from .._described import HMATRIX_PRECOND, HMATRIX_PRECOND_NAMES, PRECOND, PRECOND_NAMES
from .._options import Described, Preconditioner, fill, of_its_kind
from .._support import Array, as_array, choose, core, to_scalar, utf8
from ..op import Operator

# What amg takes beside the options of its table: arrays, whole or a rank's own part.
AMG_ARRAYS = ("near_null", "coordinates")

# Those of H-matrices on GPUs.
_ON_GPUS = ("none", "jacobi")

# Preconditioners of H-matrices that are Hermitian positive definite when the matrix is, so that cg may use them.
SYMMETRIC_OF_HMATRICES = {"none", "jacobi", "block-jacobi"}


def names() -> list[str]:
    """The names that ``precond=`` takes for stored matrices; those for H-matrices are in the module's docstring.

    Examples
    --------
    >>> import tacit
    >>> "jacobi" in tacit.precond.names()
    True
    """
    return list(PRECOND_NAMES)


def split(given: str | dict[str, Any] | Described | None) -> tuple[str, dict[str, Any]]:
    """The name and the options that ``precond=given`` stands for."""
    if given is None:
        return "none", {}
    if isinstance(given, Described):
        of_its_kind("precond", given, Preconditioner)
        return given.name, given.given()
    if isinstance(given, str):
        given = {"name": given}
    options = dict(given)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"precond is {given!r}; dict(name=..., ...) is needed")
    return utf8(name.replace("_", "-")), options


NONE = {"name": "none"}  #: what ``precond=None`` stands for; not to be changed


def is_none(given: Any) -> bool:
    """Whether ``precond=given`` certainly stands for none; so that small solves need not look further. Local."""
    return given is NONE or given is None or (type(given) in (str, dict) and given in ("none", NONE))


def node_of(given: Any) -> int:
    """Rows that ``precond=given`` needs on one rank: a node of amg's. Local."""
    if not isinstance(given, (str, dict, Described)) or is_none(given):
        return 1
    name, options = split(given)
    if name != "amg":
        return 1
    if options.get("coordinates") is not None:
        return int(points_of(options["coordinates"]).shape[1])
    return max(1, int(filled(name, options).block or 1))


def filled(name: str, options: dict[str, Any]) -> Any:
    """The options as an object of the compiled part, checked."""
    taken = {key: option for key, option in PRECOND.items() if name in option.takers or name not in PRECOND_NAMES}
    arrays = AMG_ARRAYS if name == "amg" else ()
    given = {key: value for key, value in options.items() if key not in arrays}
    return fill(_core.PrecondOptions(), f"precond {name!r}", taken, given, arrays)


def of_hmatrix(name: str, options: dict[str, Any]) -> Any:
    """The same for a preconditioner of H-matrices."""
    taken = {key: option for key, option in HMATRIX_PRECOND.items() if name in option.takers}
    o = fill(core("HMatrixPrecondOptions")(), f"precond {name!r}", taken, options)
    _core.check_hmatrix_precond(o, name)
    return o


def refuse_on_gpus(given: Any, cure: str) -> None:
    """ValueError, which ends with the `cure`, where ``precond=given`` does not work with an H-matrix on GPUs. Local."""
    if isinstance(given, Operator):
        if given.device == "host":
            raise ValueError(
                f"precond is in host memory and A on GPUs; tacit.precond.make(A, 'jacobi') makes one there: {cure}"
            )
        return
    if given is not None and not isinstance(given, (str, dict, Described)):
        raise ValueError(f"precond is a {type(given).__name__}; with an H-matrix on GPUs it is named: {cure}")
    name, _ = split(given)
    if name not in _ON_GPUS:
        raise ValueError(
            f"precond {name!r} works in host memory; an H-matrix on GPUs has {', '.join(_ON_GPUS)}: {cure}"
        )


class NamedChoice(NamedTuple):
    """What ``precond=given`` stands for where only names are taken."""

    name: str
    options: _core.PrecondOptions
    of_hmatrices: _core.HMatrixPrecondOptions
    symmetric: bool  #: whether cg may use it for a positive definite matrix


def named(given: Any, where: str, hierarchical: bool = False) -> NamedChoice:
    """The name and options that ``precond=given`` stands for, of stored matrices or of H-matrices. `where`: what
    accepts names only, for the error.
    """
    if given is not None and not isinstance(given, (str, dict, Described)):
        raise ValueError(f"precond is a {type(given).__name__}; {where} it is given by name")
    name, options = split(given)
    plain, of_hmatrices = _core.PrecondOptions(), core("HMatrixPrecondOptions")()
    if not hierarchical:
        plain = filled(name, options)
        return NamedChoice(name, plain, of_hmatrices, _core.precond_is_symmetric(name, plain))
    known = [kind for kind in HMATRIX_PRECOND_NAMES if kind != "inner"]
    if name == "inner":
        raise ValueError(f"precond 'inner' solves with another matrix; {where} there are {', '.join(known)}")
    choose("preconditioner of an H-matrix", name, known)
    of_hmatrices = of_hmatrix(name, options)
    return NamedChoice(name, plain, of_hmatrices, name in SYMMETRIC_OF_HMATRICES)


def points_of(coordinates: Any) -> Array:
    """The nodes, (nodes, 2 or 3), float64."""
    points = as_array(coordinates, "coordinates")
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"coordinates has shape {points.shape}; (nodes, 2) or (nodes, 3) is needed")
    return to_scalar(points, "float64", "coordinates")
