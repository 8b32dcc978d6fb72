"""Helpers for all submodules: scalars, names, arrays, threads, and errors that reach all ranks."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from . import _core, launch
from ._names import nearest

T = TypeVar("T")
Array = npt.NDArray[Any]

SCALARS = ("float32", "float64", "complex64", "complex128")
DTYPES = {scalar: np.dtype(scalar) for scalar in SCALARS}
#: By dtype in the byte order of this machine; a look-up, where ``dtype.name`` takes NumPy a microsecond.
SCALAR_OF = {dtype: scalar for scalar, dtype in DTYPES.items()}
BUILD_WITH_CUDA = "TACIT_CUDA=ON ./run .. in the folder of the sources, each time, or TACIT_CUDA=ON pip install ."


_DTYPE_CLASSES = frozenset(map(type, SCALAR_OF))


def _hint(name: str, known: Iterable[str]) -> str:
    meant = nearest(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def unknown_option(where: str, name: str, known: Iterable[str]) -> str:
    known = sorted(set(known))
    if not known:
        return f"{where} has no option {name!r}; it takes none"
    return f"{where} has no option {name!r}{_hint(name, known)} ({', '.join(known)})"


def refuse_unknown(where: str, options: dict[str, Any], known: Iterable[str]) -> None:
    for name in options:
        raise TypeError(unknown_option(where, name, known))


def choose(what: str, value: object, known: Collection[str]) -> str:
    """`value`, if it is one of the known names."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}; one of {', '.join(known)} is needed")
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}{_hint(value, known)} ({', '.join(known)})")
    return value


def utf8(text: str) -> str:
    """`text` for the compiled part: lone surrogates, as in file names that are not UTF-8, become escapes (\\udcXX)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def scalar_name(dtype: npt.DTypeLike, what: str) -> str:
    """The smallest of Tacit's four scalars that holds numbers of this dtype; float64 for integers and booleans."""
    if type(dtype) in _DTYPE_CLASSES and (known := SCALAR_OF.get(dtype)) is not None:  # type: ignore[arg-type]
        return known
    try:
        d = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{what} has elements of type {dtype!r}; numbers are needed") from None
    if d.kind in "biu":
        return "float64"
    if d.kind == "f":
        return "float32" if d.itemsize <= 4 else "float64"
    if d.kind == "c":
        return "complex64" if d.itemsize <= 8 else "complex128"
    raise TypeError(f"{what} has elements of type {d}; numbers are needed")


def common_scalar(*names: str) -> str:
    """The smallest of the four scalars that holds all of these."""
    return names[0] if len({*names}) == 1 else np.result_type(*names).name


def chosen_scalar(scalar: npt.DTypeLike | None) -> str | None:
    """The user's scalar= as one of the four names."""
    if scalar is None or (isinstance(scalar, str) and scalar in SCALARS):
        return scalar
    try:
        name = np.dtype(scalar).name
    except TypeError:
        name = str(scalar)
    return choose("scalar", name, SCALARS)


@functools.cache
def core(name: str, scalar: str | None = None) -> Any:
    """The compiled function or class of this name, for a scalar if it has one."""
    whole = name if scalar is None else f"{name}_{scalar}"
    try:
        return getattr(_core, whole)
    except AttributeError:
        on_device = name.startswith("device")
        if scalar in SCALARS and scalar not in (_core.device_scalars if on_device else _core.scalars):
            raise _core.EnvironmentFailure(
                f"this build of Tacit is without {scalar}{' in device memory' if on_device else ''}: CMake's "
                f"{'TACIT_DEVICE_SCALARS' if on_device else 'TACIT_SCALARS'} chooses its scalars"
            ) from None
        if _core.applications_built:
            raise
        raise _core.EnvironmentFailure(
            f"this build of Tacit is without its applications, and has no {whole}: build them with `./run build`, or "
            "by CMake with -DTACIT_APPLICATIONS=ON"
        ) from None


def to_scalar(array: Array, scalar: str, what: str) -> Array:
    """The elements as a contiguous array of `scalar`; no copy where the array is one already."""
    if SCALAR_OF.get(array.dtype) == scalar and array.flags.c_contiguous:
        return array
    if array.dtype.kind == "c" and not scalar.startswith("complex"):
        raise TypeError(f"{what} is complex and cannot be taken as {scalar}; use scalar='complex128'")
    with np.errstate(over="ignore"):  # an overflow becomes Inf, which is reported later with its index
        return np.ascontiguousarray(array, dtype=scalar)


def as_array(value: Any, what: str) -> Array:
    """A NumPy array over an array of any library (NumPy, DLPack, __array__, lists); no copy where none is needed."""
    if type(value) is np.ndarray:
        array: Array = value
    elif isinstance(value, np.ndarray):
        _refuse_masked(value, what)
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        try:
            array = np.from_dlpack(value)
        except Exception as e:
            raise TypeError(
                f"{what} is a {type(value).__name__} that NumPy cannot see: {e}; where it lies on a device,"
                " move it to the host"
            ) from e
    elif value is None or isinstance(value, (str, bytes, dict, set)):
        raise TypeError(f"{what} is {value!r}; an array is needed")
    elif hasattr(value, "tocsr"):
        shape = getattr(value, "shape", "unknown")
        raise TypeError(
            f"{what} is sparse ({type(value).__name__}, shape {shape}), and a dense array is needed: {what}.toarray()"
        )
    else:
        try:
            array = np.asarray(value)
        except Exception as e:
            raise TypeError(f"{what} is a {type(value).__name__} that is no array: {e}") from e
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{what} has elements of type {array.dtype}; numbers are needed")
    return array


def _refuse_masked(array: Array, what: str) -> None:
    """ValueError for a masked array of NumPy with elements under its mask."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        hidden = np.ma.getmaskarray(array)
        first = tuple(int(i) for i in np.argwhere(hidden)[0])
        raise ValueError(
            f"{what} is a masked array with {int(hidden.sum())} masked elements, the first at"
            f" {first[0] if len(first) == 1 else first}; masked arrays are not supported: fill in values"
            f" ({what}.filled(0)), or leave these unknowns out"
        )


def vectors_of(given: Any, what: str) -> Array | None:
    """The vectors of a null space as the columns of an array; None where none are given or they are the constants."""
    if given is None or (isinstance(given, str) and given == "constant"):
        return None
    if isinstance(given, str):
        raise ValueError(f'{what} is {given!r}; an array of shape (n,) or (n, k) is needed, or "constant"')
    array = as_array(given, what)
    if array.ndim not in (1, 2):
        raise ValueError(f"{what} has shape {array.shape}; (n,) or (n, k) is needed")
    return array if array.ndim == 2 else array.reshape(len(array), 1)


def as_vector(value: Any, what: str) -> Array:
    """A vector of n elements from shape (n,) or (n, 1)."""
    array = as_array(value, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{what} has shape {array.shape}; a vector, shape (n,) or (n, 1), is needed")
    return array


def as_columns(value: Any, what: str) -> Array:
    """A vector of n elements from shape (n,) or (n, 1), or k >= 2 columns from shape (n, k)."""
    array = value if type(value) is np.ndarray and value.dtype in SCALAR_OF else as_array(value, what)
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] > 1):
        return array
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"{what} has shape {array.shape}; it has no columns")
    if array.ndim > 2:
        raise ValueError(
            f"{what} has shape {array.shape}; a vector, shape (n,), or k columns, shape (n, k), are needed"
        )
    return as_vector(array, what)


def like(result: Any, model: Any) -> Any:
    """`result` as an array of the library that `model` comes from, without a copy; `result` itself where that library
    has no from_dlpack.
    """
    if isinstance(model, np.ndarray) or not hasattr(model, "__dlpack__"):
        return result
    # JAX's arrays name their library by the array API only, PyTorch's are of a module that has from_dlpack.
    if hasattr(model, "__array_namespace__"):
        module = model.__array_namespace__()
    else:
        module = sys.modules.get(type(model).__module__.partition(".")[0])
    convert = getattr(module, "from_dlpack", None)
    try:
        return convert(result) if convert is not None else result
    except (BufferError, TypeError, ValueError, RuntimeError):
        return result


def real_number(value: Any, what: str) -> float:
    """`value` as a float; TypeError or ValueError with `what` where it is not a number or too large."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} is {value!r}; a number is needed")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is {value!r}; a number that a double can hold is needed") from None


def whole_number(value: Any, what: str, most: float = math.inf) -> int:
    """`value` as an int, to the last digit; ValueError with `what` where it is a fraction or too large (2^31 and more,
    unless `most` is larger)."""
    number = real_number(value, what)
    if not number.is_integer():
        raise ValueError(f"{what} is {value!r}; a whole number is needed")
    if abs(number) >= 2**31 and not 2**31 <= most < math.inf:
        raise ValueError(f"{what} is {value!r}; a number below 2^31 is needed")
    return int(number if isinstance(value, (float, np.floating)) else value)  # a float has 53 bits


def thread_count(threads: Any) -> int | None:
    """``threads=`` as a number, None for the default; ValueError where it is below 1 or more than a rank may have."""
    if threads is None:
        return None
    number = whole_number(threads, "threads")
    if number < 1:
        raise ValueError(f"threads is {threads}; at least 1 is needed")
    launch.refuse_crowds(1, number)
    return number


def agreed(comm: _core.Communicator, f: Callable[[], T]) -> T:
    """f(), on all ranks; if it raises on any, every rank raises the same. Collective; f must not send or wait for
    messages itself."""
    return f() if comm.size == 1 else comm.collective(f)


def default_threads(comm: _core.Communicator) -> int:
    """The default number of threads of a rank: OMP_NUM_THREADS, or this node's cores divided among its ranks."""
    if comm.size == 1 or "OMP_NUM_THREADS" in os.environ:
        return _core.threads()
    cores = _core.cores()
    if comm.kind == "mpi":
        if len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
            return cores  # the launcher has bound this rank to its cores
        for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
            if name in os.environ:
                return max(1, cores // max(1, int(os.environ[name])))
    return max(1, cores // comm.size)


class using_threads:
    """``with using_threads(n)``: kernels run on `n` threads. A class, since a generator takes a microsecond more."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __enter__(self) -> None:
        self._before = _core.threads()
        if self._n != self._before:
            _core.set_threads(self._n)

    def __exit__(self, *_: object) -> None:
        if self._n != self._before:
            _core.set_threads(self._before)
