"""What computes the entries of an H-matrix: a named kernel, a compiled function, or a Python function."""

from __future__ import annotations

import ctypes
import sys
from _ctypes import CFuncPtr
from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import numpy as np

from .._described import POINT_KERNEL, PointKernelOptions
from .._options import fill
from .._support import Array, as_array, choose, core, real_number

BLOCK = "void f(long m, const double *x, long n, const double *y, double *out, void *data)"
PAIR = "double f(int count, double *xy, void *data)"
_SIGNATURES = f"{BLOCK!r}, x (m, d), y (n, d), out (m, n), or {PAIR!r}, xy the 2 d coordinates of a pair"
_LONG = {"long", "longlong", "int64_t", "Py_ssize_t", "ssize_t", "npy_intp", "intptr_t", "ptrdiff_t", "size_t"}
_LARGEST = 1e150  # of a coordinate in units of the length: squares of distances are finite
_NEEDS = {
    "kappa": ("helmholtz", "yukawa"),
    "nu": ("matern",),
    "epsilon": ("stokeslet", "kelvin"),
    "poisson": ("kelvin",),
    "radius": ("rpy",),
}
TENSORS = ("stokeslet", "kelvin", "rpy")
COMPONENTS = 3  # of each point, of TENSORS


class KernelOptions(PointKernelOptions, total=False):
    """What a named kernel takes, for type checkers; :func:`tacit.hmatrix` says what each is."""

    length: Any
    derivative: Any


_NUMBERS = {name: option for name, option in POINT_KERNEL.items() if name != "kernel"}
#: The names of all options of a named kernel.
OPTIONS = ("length", *_NUMBERS, "derivative")


class Source(NamedTuple):
    """What the compiled part takes, the scalar of its entries, the length scales, a text for comparing ranks, and the
    numbers of a point."""

    entries: Any
    scalar: str | None
    length: Array | None
    text: str
    components: int = 1


def source_of(entries: Any, given: Mapping[str, Any], dimension: int, where: str, square: bool) -> Source:
    """What computes the entries of points of so many coordinates. `given`: options of kernels, None where absent;
    `square`: whether rows and columns are the same points. TypeError or ValueError for what does not fit the entries.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("nugget") and not square:
        raise ValueError(
            f"nugget is {given['nugget']}, of the diagonal, with sources; rows and columns must be the same points"
        )
    if isinstance(entries, str):
        return _named(entries, dict(given), dimension, where)
    compiled = compiled_function(entries)
    if compiled is None and not callable(entries):
        raise TypeError(
            f"entries is {_kind(entries)}; a function of row and column numbers, the name of a kernel"
            f" ({', '.join(POINT_KERNEL['kernel'].choices)}) or a compiled function of points is needed"
        )
    if unfit := [name for name in given if compiled is None or name != "nugget"]:
        more = ", which takes a nugget only" if compiled is not None else ""
        raise ValueError(f"{', '.join(unfit)} is of a kernel by name; entries is {_kind(entries)}{more}")
    if compiled is None:
        return Source(entries, None, None, "a function")
    address, data, of_pairs = compiled
    nugget = real_number(given.get("nugget", 0.0), "nugget")
    if not 0 <= nugget < np.inf:
        raise ValueError(f"nugget is {nugget}; a number >= 0 is needed")
    made = core("CompiledKernel")(address, data, of_pairs, nugget)
    return Source(made, "float64", None, f"a compiled function, nugget {nugget!r}")


def _named(name: str, given: dict[str, Any], dimension: int, where: str) -> Source:
    name = choose("kernel", name, POINT_KERNEL["kernel"].choices)
    for option, names in _NEEDS.items():
        if option in given and name not in names:
            raise ValueError(f"{option} is of the kernel {' or '.join(names)}; the kernel is {name!r}")
    if name == "matern" and given.get("nu") == np.inf:  # the limit
        name = "gaussian"
        del given["nu"]
    components = COMPONENTS if name in TENSORS else 1
    if components > 1:
        if dimension != COMPONENTS:
            raise ValueError(f"points have {dimension} coordinates; the kernel {name!r} is of points of {COMPONENTS}")
        if unfit := [option for option in ("length", "derivative") if option in given]:
            raise ValueError(f"{unfit[0]} is of a kernel with one number for each point; the kernel is {name!r}")
    derivative = given.pop("derivative", None)
    length = lengths(given.pop("length", None), dimension)
    kernel = fill(core("PointKernel")(), where, _NUMBERS, given, ("length", "derivative"))
    kernel.kernel = name
    text = "" if length is None else ", length " + ", ".join(map(repr, length.tolist()))
    if derivative is not None:
        by_length, axis = _derivative(derivative, length, dimension)
        kernel.differentiate(by_length, axis)
        if length is not None:
            kernel.variance /= float(length[axis if len(length) > 1 else 0])
        text += f", derivative {'length' if by_length else ''} {axis}"
    scalar = "complex128" if name == "helmholtz" else "float64"
    return Source(kernel, scalar, length, f"the kernel {name}{text}", components)


def _derivative(value: Any, length: Array | None, dimension: int) -> tuple[bool, int]:
    """Whether it is with respect to a length, and the coordinate: -1 for one length of all of them."""
    needed = f"a coordinate of the targets (0 to {dimension - 1}), 'length' or ('length', coordinate) is needed"
    by_length = value == "length" if isinstance(value, str) else isinstance(value, tuple | list)
    axis = value
    if by_length:
        if not isinstance(value, str) and (len(value) != 2 or value[0] != "length"):
            raise ValueError(f"derivative is {value!r}; {needed}")
        axis = -1 if isinstance(value, str) else value[1]
        if axis == -1 and length is not None and len(length) > 1:
            raise ValueError(f"derivative is 'length', and there are {len(length)}; ('length', coordinate) is needed")
    if isinstance(axis, bool | str) or not isinstance(axis, int | np.integer):
        raise ValueError(f"derivative is {value!r}; {needed}")
    if not (0 <= axis < dimension or (axis == -1 and isinstance(value, str))):
        raise ValueError(f"derivative is {value!r}; {needed}")
    return by_length, int(axis)


def entries(
    points: Any,
    kernel: str,
    rows: Any = None,
    columns: Any = None,
    *,
    sources: Any = None,
    **options: Unpack[KernelOptions],
) -> Array:
    """Entries of a named kernel as an array: those of :func:`tacit.hmatrix` without compression, for tests, columns of
    a covariance, and few points. Local; m n numbers, by one thread, 1 to 3 ns each.

    Parameters
    ----------
    points : array_like, (m, d)
    kernel : str
    rows, columns : array_like of int, optional
        Numbers of rows and columns, in any order and repeated; default: all.
    sources
        As of :func:`tacit.hmatrix`.
    **options
        Those of :func:`tacit.hmatrix` for a named kernel: ``length``, ``variance``, ``nugget``, ``kappa``, ``nu``,
        ``epsilon``, ``poisson``, ``radius``, ``derivative``.

    Returns
    -------
    ndarray, (len(rows), len(columns))
        float64; complex128 for "helmholtz". In Fortran's order.

    Raises
    ------
    IndexError
        For a number of no row or column.
    ValueError, TypeError
        As of :func:`tacit.hmatrix`.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x = np.linspace(0, 1, 200)
    >>> A = tacit.hmatrix(x, "gaussian", length=0.2, nugget=0.1, tolerance=1e-8)
    >>> a = tacit.op.kernels.entries(x, "gaussian", length=0.2, nugget=0.1)
    >>> bool(np.allclose(A @ x, a @ x)), tacit.op.kernels.entries(x, "gaussian", [0], [0, 199]).shape
    (True, (1, 2))
    """
    if not isinstance(kernel, str):
        raise TypeError(f"kernel is {_kind(kernel)}; the name of a kernel is needed")
    if unknown := [name for name in options if name not in OPTIONS]:
        names = ", ".join((*OPTIONS, "rows", "columns", "sources"))
        raise TypeError(f"entries got an unexpected option {unknown[0]!r}; there are {names}")
    at = places_of(points, "points")
    source = source_of(kernel, options, at.shape[1], "entries", sources is None)
    to = at if sources is None else places_of(sources, "sources")
    if to.shape[1] != at.shape[1]:
        raise ValueError(f"sources has shape {to.shape}, and points {at.shape}; they need as many coordinates")
    i, j = (_numbers(rows, "rows", source, len(at)), _numbers(columns, "columns", source, len(to)))
    none = np.zeros((0, at.shape[1]))
    pair = [at, none if sources is None else to]
    if source.length is not None:
        pair = scaled(pair, source.length)
    pair = [np.ascontiguousarray(repeated(place, source)) for place in pair]
    made = core("kernel_entries", source.scalar)(*pair, source.entries, i.tolist(), j.tolist())
    return np.asarray(made.reshape((len(i), len(j)), order="F"))


def places_of(value: Any, what: str) -> Array:
    """Points as rows of d coordinates."""
    points = as_array(value, what)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or not points.size:
        raise ValueError(f"{what} has shape {points.shape}; (n, d), or (n,) for d = 1, is needed")
    if points.dtype.kind == "c":
        raise TypeError(f"{what} is complex; coordinates are real")
    return np.ascontiguousarray(points, np.float64)


def repeated(places: Array, source: Source) -> Array:
    """Points, or boxes, once for each of their numbers."""
    return places if source.components == 1 else np.repeat(places, source.components, axis=0)


def _numbers(value: Any, what: str, source: Source, count: int) -> Array:
    count *= source.components
    if value is None:
        return np.arange(count)
    numbers = np.atleast_1d(as_array(value, what)) if np.size(value) else np.zeros(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise TypeError(f"{what} is of {numbers.dtype} and shape {numbers.shape}; a list of numbers is needed")
    if wrong := [int(n) for n in numbers if not 0 <= n < count]:
        raise IndexError(f"{what} has {wrong[0]}; numbers from 0 to {count - 1} are needed")
    return numbers.astype(np.int64)


def lengths(value: Any, dimension: int) -> Array | None:
    """One length scale, or one for each coordinate; ValueError unless they are positive."""
    if value is None:
        return None
    found = as_array(value, "length")
    if found.ndim > 1 or (found.ndim == 1 and len(found) not in (1, dimension)):
        raise ValueError(
            f"length has shape {found.shape}; one number, or one for each of {dimension} coordinates, is needed"
        )
    if found.dtype.kind not in "iuf":
        raise TypeError(f"length is of {found.dtype}; real numbers are needed")
    found = np.atleast_1d(found).astype(np.float64)
    if not (np.isfinite(found) & (found > 0)).all():
        raise ValueError(f"length is {value}; a finite number > 0 is needed")
    return found


def scaled(places: list[Array], length: Array) -> list[Array]:
    """Points and boxes in units of the length scales; ValueError where these are too small for that."""
    with np.errstate(over="ignore"):
        made = [place / length for place in places]
    for before, after in zip(places, made, strict=True):
        wrong = np.argwhere((np.abs(before) < _LARGEST) & (np.abs(after) >= _LARGEST))
        if len(wrong):
            value, scale = before[tuple(wrong[0])], np.broadcast_to(length, before.shape)[tuple(wrong[0])]
            raise ValueError(
                f"length is {scale}, and the square of a coordinate of {value:g} divided by it is not finite; a larger"
                " length is needed"
            )
    return made


# --- compiled functions -----------------------------------------------------------------------------------------------


def compiled_function(entries: Any) -> tuple[int, int, bool] | None:
    """Address, pointer to data, and whether it is called for pairs; None for what is no compiled function. Takes
    scipy.LowLevelCallable, capsules as Cython exports them, ctypes functions, and what has one as `ctypes` (a
    numba.cfunc). TypeError for another signature.
    """
    scipy = sys.modules.get("scipy")
    if scipy is not None and isinstance(entries, scipy.LowLevelCallable):
        return _of_capsule(tuple.__getitem__(entries, 0))  # its own refuses indices
    if type(entries).__name__ == "PyCapsule":
        return _of_capsule(entries)
    if not isinstance(entries, CFuncPtr):
        entries = getattr(entries, "ctypes", None)
        if not isinstance(entries, CFuncPtr):
            return None
    address = ctypes.cast(entries, ctypes.c_void_p).value or 0
    if not entries.argtypes:
        raise TypeError(f"the ctypes function has no argtypes; set these and restype, for {_SIGNATURES}")
    words = [_ctypes_word(entries.restype), *(_ctypes_word(kind) for kind in entries.argtypes)]
    return address, 0, _is_of_pairs(words)


def _of_capsule(capsule: Any) -> tuple[int, int, bool]:
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    context_of = ctypes.pythonapi.PyCapsule_GetContext
    context_of.restype, context_of.argtypes = ctypes.c_void_p, [ctypes.py_object]
    name = name_of(capsule)
    # Those of cffi have the star of a pointer to the function.
    result, _, arguments = (name or b"").decode(errors="replace").replace("(*)", "").partition("(")
    words = [_word(text) for text in (result, *arguments.rstrip(" )").split(","))]
    return pointer_of(capsule, name), context_of(capsule) or 0, _is_of_pairs(words)


def _word(text: str) -> str:
    """A type in C, without const, names of parameters and spaces: "long", "int", "double", "double*", "void*"."""
    names = text.replace("*", " * ").split()
    stars = names.count("*")
    names = [n for n in names if n not in ("*", "const", "__restrict", "restrict", "struct")]
    kind = "longlong" if names[:2] == ["long", "long"] else names[0] if names else ""
    kind = "long" if kind in _LONG else "int" if kind == "int32_t" else kind
    return kind + "*" * stars


def _ctypes_word(kind: Any) -> str:
    if kind is None:
        return "void"
    if kind in (ctypes.c_long, ctypes.c_longlong, ctypes.c_ssize_t):
        return "long" if ctypes.sizeof(kind) == 8 else "int"
    if kind is ctypes.c_int:
        return "int"
    if kind is ctypes.c_double:
        return "double"
    if kind is ctypes.POINTER(ctypes.c_double) or getattr(kind, "_dtype_", None) == np.float64:
        return "double*"
    return "void*" if kind is ctypes.c_void_p else getattr(kind, "__name__", str(kind))


def _is_of_pairs(words: list[str]) -> bool:
    def fits(*model: str) -> bool:
        plain = [w if m != "double*" else w.replace("void*", "double*") for w, m in zip(words, model, strict=False)]
        return len(words) in (len(model) - 1, len(model)) and plain == list(model[: len(words)])

    if fits("void", "long", "double*", "long", "double*", "double*", "void*"):
        return False
    if fits("double", "int", "double*", "void*"):
        return True
    raise TypeError(f"the compiled function is {words[0]} ({', '.join(words[1:])}); {_SIGNATURES}, is needed")


def _kind(value: Any) -> str:
    return "an array" if isinstance(value, np.ndarray) else f"of {type(value).__name__}"
