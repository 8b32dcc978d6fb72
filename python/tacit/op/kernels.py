"""What computes the entries of an H-matrix: a named kernel, a compiled function, or a Python function."""

from __future__ import annotations

import ctypes
import sys
from _ctypes import CFuncPtr
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._described import POINT_KERNEL
from .._options import fill
from .._support import Array, as_array, choose, core, real_number

BLOCK = "void f(long m, const double *x, long n, const double *y, double *out, void *data)"
PAIR = "double f(int count, double *xy, void *data)"
_SIGNATURES = f"{BLOCK!r}, x (m, d), y (n, d), out (m, n), or {PAIR!r}, xy the 2 d coordinates of a pair"
_LONG = {"long", "longlong", "int64_t", "Py_ssize_t", "ssize_t", "npy_intp", "intptr_t", "ptrdiff_t", "size_t"}
_LARGEST = 1e150  # of a coordinate in units of the length: squares of distances are finite
_NEEDS = {"kappa": ("helmholtz", "yukawa"), "nu": ("matern",)}


class Source(NamedTuple):
    """What the compiled part takes, the scalar of its entries, the length scales, and a text for comparing ranks."""

    entries: Any
    scalar: str | None
    length: Array | None
    text: str


def source_of(entries: Any, given: Mapping[str, Any], dimension: int, where: str = "hmatrix") -> Source:
    """What computes the entries of points of so many coordinates. `given`: length, variance, nugget, kappa and nu, None
    where absent. TypeError or ValueError for what does not fit the entries.
    """
    given = {name: value for name, value in given.items() if value is not None}
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
    length = lengths(given.pop("length", None), dimension)
    kernel = fill(core("PointKernel")(), where, POINT_KERNEL, {"kernel": name, **given}, ("length",))
    text = "" if length is None else ", length " + ", ".join(map(repr, length.tolist()))
    return Source(kernel, "complex128" if name == "helmholtz" else "float64", length, f"the kernel {name}{text}")


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
