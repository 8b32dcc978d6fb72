"""GPUs of this process, and arrays in their memory.

``device=`` is "host", "cuda" (the GPU of this rank: ranks of a node take its GPUs in turn) or "cuda:1"; for an H-matrix
also "cuda:0,1", these GPUs together. Arrays in the memory of a GPU are those of other libraries, by
``__cuda_array_interface__`` (CuPy, Numba) or DLPack (PyTorch, JAX), and :class:`DeviceArray`, which results are and
which has both protocols.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from . import comm as _comm
from ._support import BUILD_WITH_CUDA, SCALARS, Array, agreed, as_array, core, scalar_name, to_scalar

__all__ = ["DeviceArray", "count", "device_array", "release_memory"]

_DLPACK_CUDA, _DLPACK_MANAGED = 2, 13  # DLDeviceType
_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}  # DLDataTypeCode
_OWN_STREAM = 1  # the legacy default stream, as both protocols number it


def kind_of(device: object, *also: str, several: bool = False) -> str:
    """ "host" or "cuda" for what was given as ``device=``, or a name of `also`; with `several` it may name more than
    one GPU. ValueError or TypeError for anything else, EnvironmentFailure where this build or machine has no GPU.
    Local.
    """
    if isinstance(device, str) and (device == "host" or device in also):
        return device
    if not isinstance(device, str):
        raise TypeError(f"device is {device!r}; 'host', 'cuda' or 'cuda:<number>' is needed")
    kind, colon, which = device.partition(":")
    named = which.split(",") if colon else []
    known = kind in ("host", "cuda") and not (colon and kind == "host")
    if not known or any(one not in map(str, range(1024)) for one in named):
        names = ["host", "cuda", "cuda:<number>", *(["cuda:<number>,<number>"] if several else []), *also]
        raise ValueError(f"unknown device {device!r} ({', '.join(names)})")
    if len(named) > 1 and not several:
        raise ValueError(f"device is {device!r}; several GPUs together are for H-matrices, here one is needed")
    if len(set(named)) < len(named):
        raise ValueError(f"device is {device!r}; each GPU is named once")
    if kind == "cuda":
        count = _core.gpu_count()
        if count == 0:
            why = "no GPU answers" if _core.cuda_built else f"this Tacit was built without CUDA ({BUILD_WITH_CUDA})"
            raise _core.EnvironmentFailure(f"device={device!r}: {why}")
        if any(int(one) >= count for one in named):
            seen = "one, cuda:0" if count == 1 else f"{count}, cuda:0 to cuda:{count - 1}"
            raise ValueError(f"device is {device!r}; this process sees {seen}")
    return kind


def numbers(device: str, comm: _core.Communicator) -> list[int]:
    """The numbers of the GPUs that "cuda", "cuda:<number>" or "cuda:<number>,<number>" stands for on this rank.
    Collective.
    """
    _, colon, which = device.partition(":")
    own = _core.gpu_of_rank(comm)  # also where some ranks have chosen: all have to take part
    return [int(one) for one in which.split(",")] if colon else [own]


def number(device: str, comm: _core.Communicator) -> int:
    """The first of :func:`numbers`. Collective."""
    return numbers(device, comm)[0]


def place(device: str, comm: _core.Communicator) -> int:
    """The number of the GPU of this rank that is meant, -1 for "host"; errors as :func:`kind_of`. Collective."""
    kinds = agreed(comm, lambda: kind_of(device))
    return -1 if kinds == "host" else number(device, comm)


def of(handle: Any) -> str:
    """Where a compiled object is: "host", "cuda:0", or on several GPUs "cuda:0,1". Local."""
    gpu = getattr(handle, "gpu", None)
    return "host" if gpu is None else "cuda:" + ",".join(map(str, getattr(handle, "gpus", [gpu])))


def on(device: str) -> str:
    """A place as texts name it behind what is there: "" in host memory, " on cuda:0"."""
    return "" if device == "host" else f" on {device}"


class _View(NamedTuple):
    """What an array in the memory of a GPU says of itself."""

    address: int  #: 0 for a DeviceArray
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  #: in elements; None: row after row without gaps
    dtype: np.dtype[Any]
    gpu: int | None  #: None where the protocol does not say
    stream: int  #: whose work the elements have to wait for; 0: none but that of Tacit's own
    kept: Any


class DeviceArray:
    """An array of one or two dimensions in the memory of a GPU. Results are of this kind where an argument was in that
    memory; :func:`device_array` makes one from an array in host memory.

    CuPy, Numba, PyTorch and JAX take it without a copy: ``cupy.asarray(x)``, ``torch.from_dlpack(x)``. NumPy does not
    see it: :meth:`to_numpy` copies it to host memory.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    device : str
        "cuda:0" or the like.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> if tacit.device.count():
    ...     x = tacit.device_array(np.ones(3))
    ...     assert x.shape == (3,) and x.to_numpy().sum() == 3
    """

    __slots__ = ("_handle", "dtype", "shape")
    __array_ufunc__ = None

    def __init__(self, handle: Any, dtype: npt.DTypeLike, shape: tuple[int, ...] | None = None) -> None:
        self._handle = handle
        self.dtype = np.dtype(dtype)
        rows, columns = handle.rows, handle.columns
        self.shape: tuple[int, ...] = shape or ((rows, columns) if columns else (rows,))

    @property
    def device(self) -> str:
        return of(self._handle)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        state = "closed" if self._handle.closed else f"on {self.device}"
        return f"<tacit.DeviceArray of shape {self.shape}, {self.dtype}, {state}>"

    def to_numpy(self) -> Array:
        """A copy in host memory. Waits until the elements are there; local."""
        found: Array = self._handle.to_numpy()
        return found.reshape(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a DeviceArray can be neither pickled nor copied; x.to_numpy() is a copy in host memory")

    def close(self) -> None:
        """Gives the memory up for other arrays of Tacit's, or with :func:`release_memory` for all uses, as soon as no
        array that was made from it by DLPack needs it. Later uses of this object are refused; what CuPy or Numba made
        from it by ``__cuda_array_interface__`` is then invalid.
        """
        self._handle.close()

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(f"this array is in the memory of {self.device}; x.to_numpy() copies it to host memory")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = self._handle.address if self.size else 0
        array = {"shape": self.shape, "typestr": self.dtype.str, "data": (address, False), "strides": None}
        return {**array, "stream": _OWN_STREAM, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CUDA, self._handle.gpu

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,  # a capsule without version is for all
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(f"an array on {self.device} is given by DLPack where it is; to_numpy() copies it")
        if stream not in (None, -1, _OWN_STREAM):  # another stream does not wait for Tacit's by itself
            _core.wait_for_gpu(self._handle.gpu)
        return self._handle.exported(self.shape)


def _interface(value: Any) -> Any:
    try:
        return getattr(value, "__cuda_array_interface__", None)
    except Exception:  # PyTorch refuses it by RuntimeError where a tensor requires its gradient; DLPack says more
        return None


def is_array(value: Any) -> bool:
    """Whether `value` is an array in the memory of a GPU. Local; looks at no elements."""
    if isinstance(value, DeviceArray):
        return True
    if isinstance(value, np.ndarray):
        return False
    if _interface(value) is not None:
        return True
    where = getattr(value, "__dlpack_device__", None)
    try:
        return where is not None and int(where()[0]) in (_DLPACK_CUDA, _DLPACK_MANAGED)
    except Exception:  # an object that fails when asked is no array of ours; what reads it says so
        return False


def read_by_numpy(value: Any) -> Any:
    """`value`, or where it is an array in the memory of a GPU that its library copies for NumPy (JAX, Numba; CuPy and
    PyTorch refuse), that copy: for what works in host memory. Local.
    """
    if isinstance(value, DeviceArray) or not is_array(value):
        return value
    if not (hasattr(value, "__array__") or hasattr(value, "__array_interface__")):
        return value
    try:
        return np.asarray(value)
    except Exception:  # it refuses: what needs it in host memory says so
        return value


def view(value: Any, what: str) -> _View:
    """Shape, type and place of an array in the memory of a GPU. TypeError or ValueError for one that is not (n,) or
    (n, k), not contiguous, or not of numbers. Local; no copy.
    """
    if isinstance(value, DeviceArray):
        if value._handle.closed:
            raise ValueError(f"{what} is a DeviceArray that was closed")
        # Without the address: an array whose address was asked for may be in use elsewhere, and is waited for when it
        # is freed.
        return _View(0, value.shape, None, value.dtype, value._handle.gpu, 0, value)
    said = _interface(value)
    # Where the interface names no stream, DLPack waits for what computes the elements.
    by_dlpack = said is None or ("stream" not in said and hasattr(value, "__dlpack__"))
    found = _by_dlpack(value, what) if by_dlpack else _by_interface(value, said, what)
    if len(found.shape) not in (1, 2):
        raise ValueError(f"{what} has shape {found.shape}; (n,) or (n, k) is needed")
    expected = (1,) if len(found.shape) == 1 else (found.shape[1], 1)
    if found.strides is not None and math.prod(found.shape) > 0:
        gaps = [s != e and n > 1 for s, e, n in zip(found.strides, expected, found.shape, strict=True)]
        if any(gaps):
            raise ValueError(
                f"{what} has shape {found.shape} and strides {found.strides} (elements); an array in the memory of a"
                " GPU is used as it is, so it has to be contiguous, row after row"
            )
    if found.dtype.name not in SCALARS:
        raise TypeError(f"{what} has elements of {found.dtype}; one of {', '.join(SCALARS)} is needed on a GPU")
    return found


def _by_interface(value: Any, said: Any, what: str) -> _View:
    try:
        shape = tuple(int(n) for n in said["shape"])
        dtype = np.dtype(said["typestr"])
        address = int(said["data"][0] or 0)
        strides = said.get("strides")
        stream = said.get("stream")
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise TypeError(f"{what} has a __cuda_array_interface__ without shape, typestr or data: {e}") from e
    if said.get("mask") is not None:
        raise TypeError(f"{what} has a mask, which is not supported")
    if stream == 0:
        raise ValueError(f"{what} has stream 0 in its __cuda_array_interface__, which the protocol forbids")
    if strides is not None:
        if any(int(s) % max(1, dtype.itemsize) for s in strides):
            raise ValueError(f"{what} has strides of {strides} bytes for elements of {dtype.itemsize}")
        strides = tuple(int(s) // max(1, dtype.itemsize) for s in strides)
    return _View(address, shape, strides, dtype, None, 0 if stream in (None, _OWN_STREAM) else int(stream), value)


def _by_dlpack(value: Any, what: str) -> _View:
    try:
        capsule = value.__dlpack__(stream=_OWN_STREAM)  # which then waits for what computes the elements
        kept, address, shape, strides, code, bits, _, gpu = core("dlpack_facts")(capsule)
    except Exception as e:
        raise TypeError(f"{what} is a {type(value).__name__} in device memory that cannot be read: {e}") from e
    name = f"{_DLPACK_KINDS.get(code, 'unknown')}{bits if code != 6 else ''}"
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise TypeError(f"{what} has elements of {name}; one of {', '.join(SCALARS)} is needed on a GPU") from None
    return _View(address, tuple(shape), tuple(strides), dtype, gpu, 0, kept)


def taken(value: Any, what: str, operator: Any, of_range: bool) -> Any:
    """The compiled array of `value`, which is this rank's part of a vector of a compiled operator's domain (or range)
    in the memory of its GPU: a :class:`DeviceArray` itself, an array of another library as a copy within that memory.
    TypeError or ValueError for another scalar, length or GPU. Local.
    """
    found, scalar = view(value, what), operator.scalar
    offsets, rank = operator.range_offsets if of_range else operator.domain_offsets, operator.comm.rank
    own = offsets[rank + 1] - offsets[rank]
    if found.shape[0] != own:
        raise ValueError(
            f"{what} has {found.shape[0]} elements in device memory; {own}, this rank's own part, are needed"
        )
    if found.dtype != scalar:
        raise TypeError(
            f"{what} has elements of {found.dtype} in device memory, and the matrix of {scalar}; convert it where it is"
            f" (x.astype({scalar!r})): Tacit converts arrays in host memory only"
        )
    if found.gpu not in (None, operator.gpu):
        raise ValueError(f"{what} is in the memory of cuda:{found.gpu}, and the matrix in that of cuda:{operator.gpu}")
    if isinstance(value, DeviceArray):
        return value._handle
    columns = found.shape[1] if len(found.shape) == 2 else 0
    try:
        return core("device_copy", scalar)(found.address, own, columns, found.stream, operator, of_range)
    except _core.UsageError as e:
        raise ValueError(f"{what}: {e}") from None


def device_array(values: Any, device: str = "cuda", scalar: npt.DTypeLike | None = None) -> DeviceArray:
    """A copy of an array in the memory of a GPU.

    Parameters
    ----------
    values : array_like
        Shape (n,) or (n, k), in host memory; on several ranks this rank's own part, which products over several ranks
        copy once within the memory of the GPU.
    device : str
        "cuda": on the first GPU of this process; with several ranks to a process or node name the one of the matrix,
        ``device=A.device``.
    scalar : dtype, optional
        Default: that of `values`; integers become float64.

    Returns
    -------
    DeviceArray
        Local. One copy to the device.

    Raises
    ------
    tacit.EnvironmentFailure
        Without a GPU, or CUDA in this build, and for too little memory there.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> if tacit.device.count():
    ...     A = tacit.csr(np.eye(3), device="cuda")
    ...     assert (A @ tacit.device_array(np.ones(3), A.device)).to_numpy().sum() == 3
    """
    if kind_of(device) != "cuda":
        raise ValueError(f"device is {device!r}; an array in host memory is one of NumPy's")
    array = as_array(values, "values")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise ValueError(f"values have shape {array.shape}; (n,) or (n, k) is needed")
    name = scalar_name(array.dtype if scalar is None else scalar, "values")
    gpu = int(device.partition(":")[2] or 0)
    return DeviceArray(core("device_array", name)(_comm.self_(), to_scalar(array, name, "values"), gpu), name)


def count() -> int:
    """The GPUs that this process sees; 0 in a build without CUDA. Local."""
    return int(_core.gpu_count())


def release_memory() -> None:
    """Gives the memory of freed arrays back to the GPUs, for other libraries. Tacit keeps freed arrays for later ones
    of the same size, of each GPU at most a quarter of its memory; none with ``TACIT_KEEP_DEVICE_MEMORY=0`` in the
    environment. Waits for the GPUs; local.

    Examples
    --------
    >>> import tacit
    >>> tacit.device.release_memory()
    """
    _core.release_device_memory()
