"""The base class of operators: what all of them are, their products, and the operators that are made of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import comm as _comm
from .. import device as _device
from .._alike import alike, alike_and_least
from .._outcome import table
from .._support import DTYPES, SCALAR_OF, Array, agreed, as_array, to_scalar

T = TypeVar("T")


class FromHandle(Generic[T]):
    """An attribute that is read from the compiled object of an operator, as a type of Python."""

    def __init__(self, kind: Callable[[Any], T], name: str) -> None:
        self._kind, self._name = kind, name

    def __get__(self, owner: Any, _: Any = None) -> T:
        return self if owner is None else self._kind(getattr(owner._handle, self._name))  # type: ignore[return-value]


class Operator:
    """A linear map over the ranks of a communicator. Made by :func:`tacit.read`, :func:`tacit.csr`,
    :func:`tacit.poisson`, :func:`tacit.stencil`, :func:`tacit.hmatrix` and :func:`tacit.function`, and from others by
    ``A.T``, ``A.H``, ``A @ B``, ``A + B``, ``A - B``, ``c * A``, ``A / c`` and ``-A`` (:class:`Composed`).

    Stored matrices, stencils, tiled matrices, functions that can be pickled, and what is composed of these, can be
    pickled and copied (copy.deepcopy): products with the copy have the same bits. A copy is on the same ranks. A pickle
    of an operator on one rank is loaded on one rank; under mpiexec every rank of the world pickles its own part and
    loads it again, on as many ranks (loading is collective). Operators on other communicators of several ranks cannot
    be pickled (TypeError).

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    comm : tacit.comm.Communicator
    own_range : tuple of int
        This rank owns rows ``own_range[0] <= i < own_range[1]``.
    device : str
        "host", or the GPU whose memory it is in, such as "cuda:0"; see :meth:`to`.
    name : str
    """

    __array_ufunc__ = None  # NumPy leaves `array @ operator` to the operator
    __slots__ = ("_alone", "_handle", "_hermitian", "comm", "dtype", "shape")
    _composes = True  # whether others may be made of it
    _composition: ClassVar[type[Any]]  # Composed, set there: it needs matrices, which are operators
    _cure = "make it anew"  # what there is in place of a pickle

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        self._handle = handle
        self._hermitian: bool | None = None
        self.comm = comm
        self.dtype = DTYPES.get(dtype) or np.dtype(dtype)  # type: ignore[arg-type]
        self.shape: tuple[int, int] = (handle.rows, handle.columns)
        self._alone = comm.size == 1 and self._gpu is None  # no other rank and no other memory has a part in products

    ndim = 2

    @property
    def name(self) -> str:
        return str(self._handle.name)

    @property
    def _scalar(self) -> str:
        return SCALAR_OF[self.dtype]

    @property
    def _gpu(self) -> int | None:
        gpu = getattr(self._handle, "gpu", None)
        return None if gpu is None else int(gpu)

    @property
    def device(self) -> str:
        return _device.of(self._handle)

    def to(self, device: str) -> Operator:
        """This operator in the memory of another device: a copy, or itself where it is there. Collective.

        Parameters
        ----------
        device : str
            "host"; "cuda", the GPU of this rank (ranks of a node take its GPUs in turn); "cuda:1", that GPU, which may
            be another one on each rank.

        Returns
        -------
        Operator
            On a GPU: a :class:`DeviceCsr`, from a stored matrix, a stencil, or what is composed of these.

        Raises
        ------
        ValueError
            For an operator that knows products only.
        tacit.EnvironmentFailure
            Without a GPU, without CUDA in this build, and for too little memory there.

        Examples
        --------
        >>> import tacit
        >>> A = tacit.poisson((20, 20))
        >>> A.to("host") is A
        True
        """
        comm = self.comm
        kind, _ = alike(comm, lambda: _device.kind_of(device), lambda kind: {"device": kind})
        if kind == "host":
            if self._gpu is not None:
                raise ValueError(
                    f"{self.name} refers to operators in the memory of {self.device}: move those, and compose again"
                )
            return self
        if self._gpu is not None:
            stays = comm.all_min(int(device in ("cuda", self.device)))  # ranks move together
            return self if stays else self.to("host").to(device)
        gpu = _device.number(device, comm)
        if not self._has_entries():
            raise ValueError(f"a GPU needs the entries of the matrix; the {self.name} operator knows products only")
        on_gpu: Operator = self._stored()._on_gpu(gpu)
        return on_gpu

    @property
    def own_range(self) -> tuple[int, int]:
        offsets = self._handle.range_offsets
        return offsets[self.comm.rank], offsets[self.comm.rank + 1]

    @property
    def nnz(self) -> int:
        """Entries of the matrix over all ranks; 0 when the operator does not know their number. Local."""
        return 0

    @property
    def storage(self) -> str:
        return "none"

    def __repr__(self) -> str:
        entries = f", {self.nnz} entries" if self.nnz else ""
        ranks = f" on {self.comm.size} ranks" if self.comm.size > 1 else ""
        place = "" if self._gpu is None else f" in the memory of {self.device}"
        return f"<tacit {self.name} operator of {self.shape[0]} x {self.shape[1]}{entries}, {self.dtype}{ranks}{place}>"

    def _repr_html_(self) -> str:
        """For notebooks: a small table. Local."""
        rows = [
            ("operator", self.name),
            ("shape", f"{self.shape[0]:,} x {self.shape[1]:,}"),
            ("numbers", str(self.dtype)),
        ]
        if self.nnz:
            a_row = self.nnz / max(1, self.shape[0])
            rows.append(("nonzeros", f"{self.nnz:,} ({a_row:.3g} a row)"))
        rows += [("ranks", str(self.comm.size)), ("memory of", self.device)]
        return table(rows)

    # -- products ------------------------------------------------------------------------------------------------------

    def _apply(self, x: Any, adjoint: bool, conjugate: bool = False, out: Any = None) -> Any:
        """A x, or A^H x, or with `conjugate` A^T x; in `out` where that is given."""
        if self._alone and type(x) is np.ndarray and not conjugate and takes(self, x, adjoint):
            return _multiplied(self, x, adjoint, out)
        comm = self.comm
        if self._gpu is None:
            x = _device.read_by_numpy(x)
        on_gpu = _device.is_array(x)

        def prepare() -> Any:
            if on_gpu:
                if out is not None:
                    raise ValueError("x is in the memory of a GPU, and out= is for arrays in host memory")
                return self._taken(x, adjoint)
            array = as_array(x, "x")
            if array.ndim not in (1, 2):
                raise ValueError(f"x has shape {array.shape}; (n,) or (n, k) is needed")
            return array

        def tell(array: Any) -> dict[str, Any]:
            # The messages of the product depend on these, so all ranks must have the same.
            columns = (array.columns or None) if on_gpu else array.shape[1] if array.ndim == 2 else None
            kind = "a vector" if columns is None else f"{columns} columns"
            product = "A^H x" if adjoint and not conjugate else "x A" if adjoint else "A x"
            facts = {"x": kind + (" on a GPU" if on_gpu else ""), "A": self._structure(), "the product": product}
            return facts if out is None else facts | {"out": "given"}

        def is_real(array: Any) -> tuple[int, int]:
            return int((self.dtype if on_gpu else array.dtype).kind != "c"), 0

        array, _, (all_real, _) = alike_and_least(comm, prepare, tell, is_real)
        is_complex = not all_real
        if on_gpu:
            return _device.DeviceArray(self._handle.apply(array, adjoint), self.dtype)
        if is_complex and self.dtype.kind != "c":
            # A real operator takes the real and imaginary parts one by one.
            agreed(comm, lambda: _refuse_result(out))
            real, imaginary = (self._product(part, adjoint, False) for part in (array.real, array.imag))
            return _complex_of(real, imaginary)
        return self._product(array, adjoint, conjugate, out)

    def _taken(self, x: Any, adjoint: bool) -> Any:
        """The compiled array of an x in the memory of this operator's GPU. Local."""
        if self._gpu is None:
            raise ValueError(
                f"x is in the memory of a GPU, and the {self.name} operator in that of the host; A.to('cuda') moves a"
                " stored matrix there"
            )
        return _device.taken(x, "x", self._handle, adjoint)

    def _product(self, array: Array, adjoint: bool, conjugate: bool, out: Any = None) -> Array:
        """A product, after all ranks have agreed on real or complex and on the number of columns."""
        handle, comm = self._handle, self.comm
        scalar = self._scalar
        offsets, back = handle.domain_offsets, handle.range_offsets
        if adjoint:
            offsets, back = back, offsets
        whole = layout.form(comm, array, offsets, "x")
        own = to_scalar(layout.own_part(array, comm, offsets, whole), scalar, "x")
        if conjugate:
            own = own.conj()
        shape = (back[-1] if whole else back[comm.rank + 1] - back[comm.rank], *own.shape[1:])
        if out is not None:
            agreed(comm, lambda: _check_result(out, array, shape, self.dtype))
        if own.ndim == 2 and own.shape[1] == 0:
            return np.zeros(shape, scalar) if out is None else out
        if out is not None and self._gpu is None and (comm.size == 1 or not whole):
            handle.apply_into(own, adjoint, out)
            return out  # type: ignore[no-any-return]
        y: Array = handle.apply(own, adjoint)
        if conjugate:
            y = y.conj()
        return _stored_in(out, layout.gather(y, comm) if whole else y)

    def matvec(self, x: Any, out: Any = None) -> Any:
        """A x, for one vector or k columns, in the precision of A: a float64 x is rounded for a float32 A. Where A is
        in the memory of a GPU, x may be there too: a :class:`tacit.DeviceArray`, which is used in place, or an array of
        CuPy, PyTorch, JAX or Numba, which is copied once within that memory; on several ranks this rank's own part. The
        result is then a :class:`tacit.DeviceArray`, whose elements are there when the GPU's work before it is done.
        Collective; one product.

        In host memory an x in C order and of the operator's dtype is read where it lies. `out` is an array for the
        result, in place of a new one: of its shape and the operator's dtype, in C order, and apart from x; else
        ValueError or TypeError, as for a complex x and a real operator, which take two products.
        """
        return self._apply(x, False, out=out)

    def rmatvec(self, x: Any, out: Any = None) -> Any:
        """A^H x, with the conjugate transpose; x and `out` as for :meth:`matvec`. Collective; one product."""
        return self._apply(x, True, out=out)

    matmat, rmatmat = matvec, rmatvec

    def __matmul__(self, x: Any) -> Any:
        """A x for an array x; the operator x -> A (B x) for an operator B."""
        if type(x) is np.ndarray:
            return self._apply(x, False)
        if isinstance(x, Operator):
            self._fits(x)
            return self._composed("product", (self, x))
        self._refuse_sparse(x, "A @ S")
        return self._apply(x, False)

    def _refuse_sparse(self, x: Any, product: str) -> None:
        """TypeError where x is a sparse matrix. Collective."""

        def look() -> None:
            if hasattr(x, "tocsr"):
                raise TypeError(
                    f"{product} with a sparse S ({type(x).__name__}, shape {x.shape}): tacit.csr(S) makes an operator,"
                    " and the product one that multiplies by both; S.toarray() makes an array"
                )

        agreed(self.comm, look)

    def __rmatmul__(self, x: Any) -> Any:
        self._refuse_sparse(x, "S @ A")
        if self._gpu is None:
            x = _device.read_by_numpy(x)
        if _device.is_array(x):
            agreed(self.comm, lambda: _one_vector(x))
            return self.T @ x
        return self._apply(agreed(self.comm, lambda: as_array(x, "x")).T, True, conjugate=True).T

    def __array__(self, *_: Any, **__: Any) -> Any:
        """TypeError: NumPy would take the operator for one element, so that numpy.dot(A, x) were an array of n
        operators.
        """
        raise TypeError(
            f"a {self.name} operator of Tacit is no array: the product is A @ x, its entries are those of"
            " A @ numpy.eye(n) (numpy.dot, numpy.asarray, numpy.linalg and products with sparse matrices of SciPy need"
            " an array; tacit.csr(S) @ A is that of a sparse S)"
        )

    # -- new operators from old ----------------------------------------------------------------------------------------

    @property
    def H(self) -> Operator:
        """The conjugate transpose, as an operator that refers to this one. ValueError if this operator has no adjoint
        product.
        """
        return self._composed("adjoint", (self,))

    @property
    def T(self) -> Operator:
        """The transpose, as an operator that refers to this one. ValueError if this operator has no adjoint product."""
        return self._composed("transpose", (self,))

    def shifted(self, sigma: complex) -> Operator:
        """A + sigma I. Collective."""
        return self._composed("shift", (self, self._factor(sigma)))

    def _factor(self, value: Any) -> Any:
        """A number as this operator's scalar."""
        if isinstance(value, (complex, np.complexfloating)) and self.dtype.kind != "c":
            raise TypeError(f"{value!r} is complex, the operator is {self.dtype}")
        return self.dtype.type(value).item()

    def _fits(self, other: Operator) -> None:
        if self._gpu is not None or other._gpu is not None:  # which GPU is a rank's own affair
            agreed(self.comm, lambda: _refuse_apart(self, other))
        if other.dtype != self.dtype:
            raise TypeError(f"operators of {self.dtype} and {other.dtype}; both must have one scalar type")

    def __mul__(self, alpha: Any) -> Any:
        """c A for a number c; else the product ``A @ x``, as of SciPy's linear operators and sparse matrices."""
        if not isinstance(alpha, (int, float, complex, np.number)):
            return self @ alpha
        if self._gpu is not None:
            raise ValueError("multiples of operators are made in host memory: (c * A).to('cuda') of a stored matrix A")
        return self._composed("multiple", (self._factor(alpha), self))

    def __rmul__(self, alpha: Any) -> Any:
        return self * alpha if isinstance(alpha, (int, float, complex, np.number)) else NotImplemented

    dot = __mul__

    def __truediv__(self, alpha: Any) -> Any:
        if not isinstance(alpha, (int, float, complex, np.number)):
            return NotImplemented
        return self * (1 / alpha)

    def __neg__(self) -> Any:
        return self * -1

    def __add__(self, other: Any) -> Any:
        return self._sum(other, 1)

    def __sub__(self, other: Any) -> Any:
        return self._sum(other, -1)

    def _sum(self, other: Any, beta: int) -> Any:
        if not isinstance(other, Operator):
            return NotImplemented
        self._fits(other)
        (a, left), (b, right) = (x._multiple_of() for x in (self, other))
        return self._composed("sum", (a, left, beta * b, right))

    def _composed(self, how: str, parts: tuple[Any, ...]) -> Operator:
        made: Operator = self._composition(how, parts, self.comm, self.dtype)
        return made

    def _multiple_of(self) -> tuple[Any, Operator]:
        """The number c and the operator A of which this one is c A. Local."""
        return self.dtype.type(1).item(), self

    # -- what others ask of it -----------------------------------------------------------------------------------------

    def _structure(self) -> str:
        on = "" if self._gpu is None else " on a GPU"
        return f"{type(self).__name__} of {self.shape[0]} x {self.shape[1]}, {self._scalar}{on}"

    def _has_entries(self) -> bool:
        """Whether ``assemble()`` gives a stored matrix, or this is one in host memory. Local."""
        return False

    def _versions(self) -> tuple[Any, ...]:
        """What changes with the values of the stored matrices in it. Local."""
        return ()

    def _stored(self) -> Any:
        """This operator as a :class:`Csr`; ValueError where it is none and cannot become one. Collective."""
        if self._gpu is not None:
            raise ValueError(f"the entries of the matrix are needed in host memory, and A is in that of {self.device}")
        raise ValueError(f"the entries of the matrix are needed; the {self.name} operator knows products only")

    # -- copies --------------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[Any, ...]:
        """What `_made_from` needs to make this operator again. Local."""
        raise TypeError(f"an operator of kind {self.name!r} can be neither pickled nor copied; {self._cure}")

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Operator:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), _place_of(self.comm), self._state())

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        return self._made_from(self.comm, *copy.deepcopy(self._state(), memo))

    def __copy__(self) -> Operator:
        return copy.deepcopy(self)

    def diagonal(self) -> Array:
        """The diagonal, whole, on every rank. Collective."""
        return layout.gather(agreed(self.comm, self._handle.diagonal), self.comm)

    def aslinearoperator(self) -> Any:
        """This operator as a scipy.sparse.linalg.LinearOperator; on several ranks its calls are collective."""
        from scipy.sparse.linalg import LinearOperator

        products = {name: getattr(self, name) for name in ("matvec", "rmatvec", "matmat", "rmatmat")}
        return LinearOperator(self.shape, dtype=self.dtype, **products)

    def is_hermitian(self) -> bool:
        """Whether A equals its conjugate transpose to rounding, as far as the operator knows its entries.
        Collective.
        """
        return False


def structure_of(a: Operator) -> str:
    """An operator as ranks compare it: what it is, its size, and the numbers that it is composed with. Local."""
    return a._structure()


def _stored_in(out: Any, y: Array) -> Array:
    if out is None:
        return y
    out[...] = y
    return out  # type: ignore[no-any-return]


def _complex_of(real: Array, imaginary: Array) -> Array:
    """real + i imaginary, where i times infinity would make the real part NaN."""
    both: Array = np.empty(real.shape, np.result_type(real, 1j))
    both.real, both.imag = real, imaginary
    return both


def _refuse_result(out: Any) -> None:
    if out is not None:
        raise TypeError("x is complex and the operator real, which takes two products, and out= is for one")


def _refuse_apart(A: Operator, B: Operator) -> None:
    if A.device != B.device:
        raise ValueError(f"operators in the memory of {A.device} and of {B.device}; A.to(device) moves one")


def takes(A: Operator, x: Array, adjoint: bool) -> bool:
    """Whether the compiled product A x or A^H x on one rank reads this vector as it is. Local."""
    return x.dtype is A.dtype and x.ndim == 1 and len(x) == A.shape[not adjoint] and x.flags.c_contiguous


def _multiplied(A: Operator, x: Array, adjoint: bool, out: Any) -> Array:
    """A product on one rank with a vector that it :func:`takes`."""
    if out is None:
        return A._handle.apply(x, adjoint)  # type: ignore[no-any-return]
    _check_result(out, x, (A.shape[adjoint],), A.dtype)
    A._handle.apply_into(x, adjoint, out)
    return out  # type: ignore[no-any-return]


def _check_result(out: Any, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Whether a product of this shape and dtype with x can be stored in `out`. Local."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is a {type(out).__name__}; a NumPy array is needed")
    if out.dtype != dtype:
        raise TypeError(f"out is {out.dtype}; {dtype} is needed, the operator's")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}; {shape} is needed")
    flags = out.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable):
        fault = "read-only" if not flags.writeable else "not in C order" if flags.aligned else "not aligned"
        raise ValueError(f"out is {fault}; an array as numpy.empty({shape}) makes it is needed")
    if np.may_share_memory(out, x):
        raise ValueError("out shares memory with x, which a product reads while it writes; give another array")


def _one_vector(x: Any) -> None:
    shape = _device.view(x, "x").shape
    if len(shape) != 1:
        raise ValueError(f"x has shape {shape} on a GPU; x @ A takes one vector there, A.T @ x.T several")


# -- pickles -----------------------------------------------------------------------------------------------------------


def _place_of(comm: _core.Communicator) -> int:
    """The communicator as a pickle has it: the number of ranks, of the world where it is not 1."""
    if comm.size > 1 and not (_comm.launched() and comm == _comm.world()):
        raise TypeError(
            f"an operator on {comm.size} ranks can be pickled only on the ranks of mpiexec (tacit.comm.world());"
            " copy.deepcopy copies it on its own ranks"
        )
    return comm.size


def _unpickled(kind: type[Operator], ranks: int, state: tuple[Any, ...]) -> Operator:
    return kind._made_from(_comm.of_ranks(ranks, "this operator"), *state)
