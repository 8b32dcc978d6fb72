"""The base class of operators, stored matrices (Csr, DeviceCsr), stencils, and operators composed of others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import comm as _comm
from .. import device as _device
from .._alike import Entries, alike, alike_and_least
from .._outcome import table
from .._support import DTYPES, SCALAR_OF, Array, agreed, as_array, choose, chosen_scalar, core, to_scalar, vectors_of

T = TypeVar("T")

FORMATS: list[str] = _core.choices_formats()  #: storage formats of a matrix


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
    __slots__ = ("_handle", "_hermitian", "comm", "dtype", "shape")
    _composes = True  # whether others may be made of it
    _cure = "make it anew"  # what there is in place of a pickle

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        self._handle = handle
        self._hermitian: bool | None = None
        self.comm = comm
        self.dtype = DTYPES.get(dtype) or np.dtype(dtype)  # type: ignore[arg-type]
        self.shape: tuple[int, int] = (handle.rows, handle.columns)

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
        if not has_entries(self):
            raise ValueError(f"a GPU needs the entries of the matrix; the {self.name} operator knows products only")
        matrix = _stored(self)
        made = core("device_csr", self._scalar)(matrix._handle, gpu)
        moved = DeviceCsr(made, comm, self.dtype, matrix.is_hermitian())
        moved.null_spaces = matrix.null_spaces  # which solves there refuse
        return moved

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

    def _apply(self, x: Any, adjoint: bool, conjugate: bool = False) -> Any:
        """A x, or A^H x, or with `conjugate` A^T x."""
        comm = self.comm
        if self._gpu is None:
            x = _device.read_by_numpy(x)
        on_gpu = _device.is_array(x)

        def prepare() -> Any:
            if on_gpu:
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
            return {"x": kind + (" on a GPU" if on_gpu else ""), "A": structure_of(self), "the product": product}

        def is_real(array: Any) -> tuple[int, int]:
            return int((self.dtype if on_gpu else array.dtype).kind != "c"), 0

        array, _, (all_real, _) = alike_and_least(comm, prepare, tell, is_real)
        is_complex = not all_real
        if on_gpu:
            return _device.DeviceArray(self._handle.apply(array, adjoint), self.dtype)
        if is_complex and self.dtype.kind != "c":
            # A real operator takes the real and imaginary parts one by one.
            real, imaginary = (self._product(part, adjoint, False) for part in (array.real, array.imag))
            return real + 1j * imaginary
        return self._product(array, adjoint, conjugate)

    def _taken(self, x: Any, adjoint: bool) -> Any:
        """The compiled array of an x in the memory of this operator's GPU. Local."""
        if self._gpu is None:
            raise ValueError(
                f"x is in the memory of a GPU, and the {self.name} operator in that of the host; A.to('cuda') moves a"
                " stored matrix there"
            )
        return _device.taken(x, "x", self._handle, adjoint)

    def _product(self, array: Array, adjoint: bool, conjugate: bool) -> Array:
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
        if own.ndim == 2 and own.shape[1] == 0:
            return np.zeros((back[-1] if whole else back[comm.rank + 1] - back[comm.rank], 0), scalar)
        y: Array = handle.apply(own, adjoint)
        if conjugate:
            y = y.conj()
        return layout.gather(y, comm) if whole else y

    def matvec(self, x: Any) -> Any:
        """A x, for one vector or k columns. Where A is in the memory of a GPU, x may be there too: a
        :class:`tacit.DeviceArray`, which is used in place, or an array of CuPy, PyTorch, JAX or Numba, which is copied
        once within that memory; on several ranks this rank's own part. The result is then a :class:`tacit.DeviceArray`,
        whose elements are there when the GPU's work before it is done. Collective; one product.
        """
        return self._apply(x, False)

    def rmatvec(self, x: Any) -> Any:
        """A^H x, the product with the conjugate transpose; x as for :meth:`matvec`. Collective; one product."""
        return self._apply(x, True)

    matmat, rmatmat = matvec, rmatvec

    def __matmul__(self, x: Any) -> Any:
        """A x for an array x; the operator x -> A (B x) for an operator B."""
        if isinstance(x, Operator):
            self._fits(x)
            return Composed("product", (self, x), self.comm, self.dtype)
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
        return Composed("adjoint", (self,), self.comm, self.dtype)

    @property
    def T(self) -> Operator:
        """The transpose, as an operator that refers to this one. ValueError if this operator has no adjoint product."""
        return Composed("transpose", (self,), self.comm, self.dtype)

    def shifted(self, sigma: complex) -> Operator:
        """A + sigma I. Collective."""
        return Composed("shift", (self, self._factor(sigma)), self.comm, self.dtype)

    def _factor(self, value: Any) -> Any:
        """A number as this operator's scalar."""
        if isinstance(value, (complex, np.complexfloating)) and self.dtype.kind != "c":
            raise TypeError(f"{value!r} is complex, the operator is {self.dtype}")
        return self.dtype.type(value).item()

    def _fits(self, other: Operator) -> None:
        if self._gpu is not None or other._gpu is not None:  # which GPU is a rank's own affair
            agreed(self.comm, lambda: self._is_with(other))
        if other.dtype != self.dtype:
            raise TypeError(f"operators of {self.dtype} and {other.dtype}; both must have one scalar type")

    def _is_with(self, other: Operator) -> None:
        if other.device != self.device:
            raise ValueError(f"operators in the memory of {self.device} and of {other.device}; A.to(device) moves one")

    def __mul__(self, alpha: Any) -> Any:
        """c A for a number c; else the product ``A @ x``, as of SciPy's linear operators and sparse matrices."""
        if not isinstance(alpha, (int, float, complex, np.number)):
            return self @ alpha
        if self._gpu is not None:
            raise ValueError("multiples of operators are made in host memory: (c * A).to('cuda') of a stored matrix A")
        return Composed("multiple", (self._factor(alpha), self), self.comm, self.dtype)

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
        one = self.dtype.type(1).item()
        (a, left), (b, right) = (
            x.parts if isinstance(x, Composed) and x.how == "multiple" else (one, x) for x in (self, other)
        )
        return Composed("sum", (a, left, beta * b, right), self.comm, self.dtype)

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


class StoredMatrix(Operator):
    """What :class:`Csr` and :class:`DeviceCsr` share. A version of its values tells what was made from older ones."""

    __slots__ = ("_version", "null_spaces")

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        super().__init__(handle, comm, dtype)
        self._version = 0  # changes with the values
        self.null_spaces: dict[str, Any] = {}  # arguments of solves, see Csr.set_nullspace

    nnz = FromHandle(int, "entries")
    format = FromHandle(str, "format")
    storage = FromHandle(str, "storage")

    def _has_new_values(self, hermitian: bool | None) -> None:
        self._hermitian = hermitian
        self._version += 1


class Csr(StoredMatrix):
    """A sparse matrix whose rows are spread over ranks in blocks.

    Attributes
    ----------
    nnz : int
        Stored entries over all ranks.
    format : str
        The storage format that was requested, "automatic" by default; see :func:`tacit.csr`.
    storage : str
        How this rank's entries in its own columns are stored, such as "sell-8 (16-bit offsets)".
    """

    __slots__ = ("_automatic",)
    device = "host"  # others of this name look at the compiled object

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        super().__init__(handle, comm, dtype)
        # By method: what solves with preconditioners chosen by trial have learnt (include/tacit/precond/automatic.hpp).
        self._automatic: dict[str, Any] = {}

    def automatic(self, method: str) -> Any:
        """What chooses preconditioners for this matrix, and keeps what it has found. Collective."""
        if method not in self._automatic:  # the first one where several threads make it
            self._automatic.setdefault(method, core("Automatic", self._scalar)(self._handle, method))
        return self._automatic[method]

    def is_hermitian(self) -> bool:
        known, version = self._hermitian, self._version
        if known is None:
            known = bool(self._handle.is_hermitian())
            if version == self._version:  # another thread may have given the matrix new values
                self._hermitian = known
        return known

    def update_values(self, values: Any) -> None:
        """Replaces the values in place; the structure stays. Products, ``diagonal()``, ``is_hermitian()``, solves, and
        operators composed of this one use the new values, with the bits of a matrix made anew from them. What
        ``precond="auto"`` has learnt is kept, and its preconditioner is made anew at the next solve. Preconditioners
        made earlier (an operator given as ``precond``) stay as they are, but for those that multiply by this matrix
        (polynomial, amg, inner), whose other data stays: make them anew, or call ``update()`` of amg.

        Parameters
        ----------
        values : array_like or sparse matrix
            An array: one number for each entry, row after row with ascending columns (``data`` of a SciPy csr matrix in
            canonical format, and the values of :meth:`local_rows`): of all rows, or of this rank's own rows on all
            ranks. A SciPy sparse matrix: the whole matrix on every rank, with the same structure (duplicates are
            added; ValueError where an entry is missing or new).

        Raises
        ------
        ValueError, TypeError
            On every rank: a wrong number of values, another structure, complex values for a real matrix.

        Notes
        -----
        Collective. One pass over the stored matrix, and a copy of its values.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> A = tacit.csr(np.array([[2.0, 1.0], [0.0, 4.0]]))
        >>> A.update_values([1.0, 3.0, 5.0])
        >>> A @ np.array([1.0, 1.0])
        array([4., 5.])
        """
        comm, scalar = self.comm, self._scalar
        sparse = hasattr(values, "tocsr")

        def look() -> Array:
            return self._values_of(values) if sparse else _numbers(values, scalar)

        def tell(_: Array) -> dict[str, Any]:
            if not sparse:
                return {"values": "an array"}
            a = values.tocsr()
            return {"values": Entries(a.shape, a.indptr, a.indices, a.data)}

        own, _ = alike(comm, look, tell)
        if not sparse:
            given = own
            counts = [int.from_bytes(n, "little") for n in comm.all_gather(self._own_entries().to_bytes(8, "little"))]
            offsets = np.concatenate([[0], np.cumsum(counts)]).tolist()
            own = layout.own_part(given, comm, offsets, layout.form(comm, given, offsets, "values"))
        self._take_values(np.ascontiguousarray(own))

    def _take_values(self, own: Array) -> None:
        """The values of this rank's entries, in the order of :meth:`local_rows`. Collective."""
        self._handle.update_values(own)
        self._has_new_values(None)
        for chooser in list(self._automatic.values()):
            chooser.refresh()

    def set_nullspace(self, nullspace: Any, left_nullspace: Any = None) -> None:
        """Attaches what this singular matrix maps to zero: solves with it take these as their ``nullspace`` and
        ``left_nullspace`` (:func:`tacit.solve`), unless they are given others. Copies and pickles of the matrix keep
        them, new values do, too; operators made of it (``A.T``, ``2 * A``) do not have them. None removes them.

        Parameters
        ----------
        nullspace, left_nullspace : "constant", array of shape (n,) or (n, k), or None
            Whole or this rank's own part. Checked at a solve.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> A = tacit.csr(np.array([[1.0, -1.0], [-1.0, 1.0]]))
        >>> A.set_nullspace("constant")
        >>> tacit.solve(A, np.array([1.0, -1.0])).x
        array([ 0.5, -0.5])
        """
        if left_nullspace is not None and nullspace is None:
            raise ValueError("left_nullspace goes with nullspace, which was not given")
        given = {"nullspace": nullspace, "left_nullspace": left_nullspace}
        for what, space in given.items():
            vectors_of(space, what)
        self.null_spaces = {
            what: space if isinstance(space, str) else np.array(as_array(space, what))
            for what, space in given.items()
            if space is not None
        }

    def _own_entries(self) -> int:
        return int(self._handle.own_entries)

    def _values_of(self, a: Any) -> Array:
        """The values of this rank's rows of a SciPy matrix, which has to have the same structure."""
        if tuple(a.shape) != self.shape:
            raise ValueError(f"values have shape {tuple(a.shape)}; the matrix is {self.shape[0]} x {self.shape[1]}")
        begin, end = self.own_range
        rows = a.tocsr()[begin:end]
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        start, column, _ = self.local_rows()
        if not (np.array_equal(rows.indptr, start) and np.array_equal(rows.indices, column)):
            raise ValueError(
                "values have another structure than the matrix; update_values keeps the structure, tacit.csr makes a"
                " new matrix"
            )
        return to_scalar(rows.data, self._scalar, "values")

    def _state(self) -> tuple[Any, ...]:
        handle = self._handle
        rows = self.local_rows()
        return self._scalar, handle.range_offsets, handle.domain_offsets, *rows, self.format, self.null_spaces

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Csr:
        scalar, rows, columns, start, column, value, format, *spaces = state
        handle = core("csr", scalar)(comm, rows, columns, rows[comm.rank], start, column, value, format)
        made = Csr(handle, comm, scalar)
        made.null_spaces = spaces[0] if spaces else {}  # pickles of Tacit 0.3 have none
        return made

    def local_rows(self) -> tuple[Array, Array, Array]:
        """This rank's rows as compressed rows: (starts, global columns, values), columns ascending. Local; a copy."""
        start, column, value = self._handle.local_rows()
        return start, column, value

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
        from scipy.sparse import csr_array

        start, column, value = self._whole()
        return csr_array((value, column, start), shape=self.shape)

    def _whole(self) -> tuple[Array, Array, Array]:
        start, column, value = self.local_rows()
        counts = layout.gather(np.diff(start), self.comm)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return starts, layout.gather(column, self.comm), layout.gather(value, self.comm)

    def astype(self, scalar: npt.DTypeLike) -> Csr:
        """This matrix with values of another scalar type. Collective."""
        name, _ = alike(self.comm, lambda: chosen_scalar(scalar), lambda name: {"scalar": name or self._scalar})
        if name is None or name == self._scalar:
            return self
        return self._made_anew(name, self.format)

    def stored_as(self, format: str) -> Csr:
        """This matrix in another storage format of :func:`tacit.csr`, as a copy. Collective."""
        chosen, _ = alike(self.comm, lambda: choose("format", format, FORMATS), lambda chosen: {"format": chosen})
        return self if chosen == self.format else self._made_anew(self._scalar, chosen)

    def _made_anew(self, scalar: str, format: str) -> Csr:
        _, rows, columns, start, column, value, _, spaces = self._state()
        value = agreed(self.comm, lambda: to_scalar(value, scalar, "the matrix"))
        return self._made_from(self.comm, scalar, rows, columns, start, column, value, format, spaces)


class DeviceCsr(StoredMatrix):
    """A sparse matrix in the memory of a GPU, where it stays: products and solves read it there. Made by
    ``tacit.csr(S, device="cuda")`` and ``A.to("cuda")``.

    ``A @ x``, ``A.T @ x``, ``A.H @ x``, ``A @ B``, ``A + B`` and ``A.shifted(c)`` work as for :class:`Csr`, with
    operators on the same GPU. A NumPy array is copied there and the result back; an array that is there stays there
    (:meth:`matvec`). ``tacit.solve(A, b)`` runs on the GPU, and ``tacit.precond.make(A, "amg")`` makes a preconditioner
    there that several solves may use. An adjoint product adds what other ranks need by atomics, so its last bits may
    vary on several ranks.

    Attributes
    ----------
    nnz : int
        Stored entries over all ranks.
    format : str
        The storage format that was requested; see :func:`tacit.csr`.
    storage : str
        The one that is used, such as "sell-32 (16-bit offsets) on the device".
    """

    __slots__ = ()
    _cure = "A.to('host') can be both"

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike, hermitian: bool) -> None:
        super().__init__(handle, comm, dtype)
        self._hermitian = hermitian

    def is_hermitian(self) -> bool:
        return bool(self._hermitian)

    def to(self, device: str) -> Operator:
        if alike(self.comm, lambda: _device.kind_of(device), lambda kind: {"device": kind})[0] == "host":
            made = Csr(self._handle.to_host(), self.comm, self.dtype)
            made._hermitian, made.null_spaces = self._hermitian, self.null_spaces
            return made
        return super().to(device)

    def astype(self, scalar: npt.DTypeLike) -> DeviceCsr:
        """This matrix with values of another scalar type, on the same GPU. Collective; it is read back, converted by
        the host, and copied to the GPU.
        """
        host = self.to("host")
        assert isinstance(host, Csr)
        made = host.astype(scalar)
        if made is host:
            return self
        moved = made.to(self.device)
        assert isinstance(moved, DeviceCsr)
        return moved

    def update_values(self, values: Any) -> None:
        """Replaces the values; the structure stays. As :meth:`Csr.update_values`: products, solves and operators
        composed of this one use the new values, preconditioners made earlier keep the old ones, but for those that
        multiply by this matrix (polynomial, amg): make them anew. Collective. The matrix is read back, stored anew with
        these values by the host, and copied to the GPU.
        """
        matrix = self.to("host")
        assert isinstance(matrix, Csr)
        matrix.update_values(values)
        hermitian = matrix.is_hermitian()
        self._handle.take(matrix._handle)
        self._has_new_values(hermitian)


class Stencil(Operator):
    """A matrix with constant coefficients on a regular grid, applied without being stored. See
    :func:`tacit.stencil`.
    """

    __slots__ = ("grid",)

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike, grid: Sequence[int]) -> None:
        super().__init__(handle, comm, dtype)
        self.grid = tuple(grid)  #: points along each axis

    nnz = FromHandle(int, "entries")  #: entries that the stored matrix would have

    @property
    def storage(self) -> str:
        return "stencil"

    def is_hermitian(self) -> bool:
        if self._hermitian is None:
            self._hermitian = bool(self._handle.is_hermitian())
        return self._hermitian

    def assemble(self) -> Csr:
        """The same matrix, stored. Collective."""
        return Csr(self._handle.assemble(), self.comm, self.dtype)

    def _state(self) -> tuple[Any, ...]:
        return self._scalar, self.grid, self._handle.boundary, self._handle.weights

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Stencil:
        scalar, grid, boundary, weights = state
        return Stencil(core("stencil", scalar)(comm, list(grid[::-1]), boundary, weights), comm, scalar, grid)

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
        return self.assemble().to_scipy()


class Composed(Operator):
    """An operator made from others, which it refers to: products with it are products with these.

    Attributes
    ----------
    how : str
        "adjoint", "transpose", "product", "sum", "multiple" or "shift".
    parts : tuple
        What it is made from: (A,), (A,), (A, B), (alpha, A, beta, B), (alpha, A), (A, sigma).
    """

    __slots__ = ("_assembled", "how", "parts")

    def __init__(self, how: str, parts: tuple[Any, ...], comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        scalar = np.dtype(dtype).name
        for part in parts:
            if isinstance(part, Operator) and not part._composes:
                raise ValueError(
                    f"the {part.name} operator, on {part.device}, multiplies and is solved with, and nothing is made of"
                    f" it (here: {how}); A.to('host') is the operator in host memory"
                )
        handles = [part._handle if isinstance(part, Operator) else part for part in parts]
        if how == "multiple":
            handle = core("product", scalar)(core("multiple", scalar)(handles[1], handles[0]), handles[1])
        else:
            handle = core(how, scalar)(*handles)
        super().__init__(handle, comm, dtype)
        self.how = how
        self.parts = parts
        self._assembled: tuple[Any, Csr] | None = None

    @property
    def name(self) -> str:
        """From the names of the parts: "transpose of csr", "csr @ stencil", "2 * csr - csr"."""
        names: list[Any] = [_in_brackets(p, self.how) if isinstance(p, Operator) else p for p in self.parts]
        if self.how in ("adjoint", "transpose"):
            return f"{self.how} of {names[0]}"
        if self.how == "product":
            return f"{names[0]} @ {names[1]}"
        if self.how == "multiple":
            return _multiple(*names)
        if self.how == "shift":
            return f"{names[0]} + {names[1]:g} I"
        alpha, a, beta, b = names
        real = not isinstance(beta, complex) and beta < 0
        return f"{_multiple(alpha, a)} {'-' if real else '+'} {_multiple(-beta if real else beta, b)}"

    @property
    def nnz(self) -> int:
        """Entries, for a transpose or a multiple; 0 for others, which may have other entries than their parts."""
        operators = [p for p in self.parts if isinstance(p, Operator)]
        return operators[0].nnz if self.how in ("adjoint", "transpose", "multiple") else 0

    @property
    def H(self) -> Operator:
        is_back = self.how == "adjoint" or (self.how == "transpose" and self.dtype.kind != "c")
        return self.parts[0] if is_back else super().H

    @property
    def T(self) -> Operator:
        is_back = self.how == "transpose" or (self.how == "adjoint" and self.dtype.kind != "c")
        return self.parts[0] if is_back else super().T

    def is_hermitian(self) -> bool:
        """Whether A equals its conjugate transpose, as far as its parts tell: transposes, sums, real multiples and
        shifts of Hermitian operators, and products that read the same from both ends (``A.H @ A``, ``P.H @ A @ P`` for
        a Hermitian A). Collective.
        """
        if self.shape[0] != self.shape[1] or any(isinstance(p, complex) and p.imag != 0 for p in self.parts):
            return False
        if self.how != "product":
            return all(p.is_hermitian() for p in self.parts if isinstance(p, Operator))
        factors = _factors(self)
        pairs = [(factors[i], factors[-1 - i]) for i in range((len(factors) + 1) // 2)]
        return all(_are_adjoint(a, b) for a, b in pairs)

    def assemble(self) -> Csr:
        """The same matrix, stored, where all parts have entries (stored matrices, stencils, and what is composed of
        them). It is kept until a part's values change. Collective; on several ranks a product fetches the rows of its
        right factor that this rank needs, and a transpose sends its entries. Memory: the result, and about twice that
        while it is made.

        Raises
        ------
        ValueError
            A part knows products only.
        """
        versions = _versions(self)
        if self._assembled is None or self._assembled[0] != versions:
            self._assembled = (versions, _assembled(self))
        return self._assembled[1]

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
        return self.assemble().to_scipy()

    def _state(self) -> tuple[Any, ...]:
        return self._scalar, self.how, self.parts

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Composed:
        scalar, how, parts = state
        return Composed(how, parts, comm, scalar)


def _multiple(alpha: Any, name: str) -> str:
    return name if alpha == 1 else f"-{name}" if alpha == -1 else f"{alpha:g} * {name}"


def _in_brackets(a: Operator, around: str) -> str:
    tight = {"product": ("sum", "shift"), "sum": (), "shift": ()}.get(around, ("sum", "shift", "product", "multiple"))
    return f"({a.name})" if isinstance(a, Composed) and a.how in tight else a.name


def _factors(a: Operator) -> list[Operator]:
    """The factors of a product, without numbers."""
    if isinstance(a, Composed) and a.how == "product":
        return [f for part in a.parts for f in _factors(part)]
    if isinstance(a, Composed) and a.how == "multiple" and a.parts[0].imag == 0:
        return _factors(a.parts[1])
    return [a]


def _are_adjoint(a: Operator, b: Operator) -> bool:
    """Whether b is A^H, as far as is known. Collective."""
    for x, y in ((a, b), (b, a)):
        if not isinstance(x, Composed) or x.parts[0] is not y:
            continue
        if x.how == "adjoint" or (x.how == "transpose" and x.dtype.kind != "c"):
            return True
    return a is b and a.is_hermitian()


def _versions(a: Operator) -> tuple[Any, ...]:
    if isinstance(a, Composed):
        return tuple(_versions(p) for p in a.parts if isinstance(p, Operator))
    return (a._version,) if isinstance(a, StoredMatrix) else ()


def _one_vector(x: Any) -> None:
    shape = _device.view(x, "x").shape
    if len(shape) != 1:
        raise ValueError(f"x has shape {shape} on a GPU; x @ A takes one vector there, A.T @ x.T several")


def structure_of(a: Operator) -> str:
    """An operator as ranks compare it: what it is, its size, and the numbers that it is composed with. Local."""
    if isinstance(a, Composed):
        parts = (f"({structure_of(p)})" if isinstance(p, Operator) else repr(p) for p in a.parts)
        return f"{a.how} of {', '.join(parts)}"
    return f"{type(a).__name__} of {a.shape[0]} x {a.shape[1]}, {a._scalar}{'' if a._gpu is None else ' on a GPU'}"


def has_entries(a: Operator) -> bool:
    """Whether ``a.assemble()`` gives a stored matrix, or `a` is one. Local."""
    if isinstance(a, Composed):
        return all(has_entries(p) for p in a.parts if isinstance(p, Operator))
    return isinstance(a, (Csr, Stencil))


def _stored(a: Operator) -> Csr:
    if a._gpu is not None:
        raise ValueError(f"the entries of the matrix are needed in host memory, and A is in that of {a.device}")
    if isinstance(a, (Composed, Stencil)):
        a = a.assemble()
    if not isinstance(a, Csr):
        raise ValueError(f"the entries of the matrix are needed; the {a.name} operator knows products only")
    return a


def _assembled(a: Composed) -> Csr:
    """Collective."""
    from scipy.sparse import csr_array, eye_array

    comm, scalar = a.comm, a._scalar
    if not has_entries(a):
        raise ValueError(f"the entries of the matrix are needed; the {a.name} operator knows products only")
    # The parts in their order: assembling is collective.
    parts: list[Any] = [_stored(p) if isinstance(p, Operator) else p for p in a.parts]
    rows, columns = a._handle.range_offsets, a._handle.domain_offsets
    if a.how in ("adjoint", "transpose"):
        start, column, value = parts[0].local_rows()
        row = np.repeat(np.arange(*parts[0].own_range, dtype=np.int64), np.diff(start))
        value = value.conj() if a.how == "adjoint" else value
        return Csr(core("assemble", scalar)(comm, rows, columns, column, row, value), comm, scalar)

    def own(b: Csr) -> Any:
        start, column, value = b.local_rows()
        return csr_array((value, column, start), shape=(len(start) - 1, b.shape[1]))

    if a.how == "product":
        left, right = parts
        start, column, value = left.local_rows()
        needed, place = np.unique(column, return_inverse=True)
        there = core("rows_of_others", scalar)(right._handle, needed)
        fetched = csr_array((there[2], there[1], there[0]), shape=(len(needed), right.shape[1]))
        found = csr_array((value, place, start), shape=(len(start) - 1, len(needed))) @ fetched
    elif a.how == "sum":
        alpha, left, beta, right = parts
        found = own(left) * a.dtype.type(alpha) + own(right) * a.dtype.type(beta)
    elif a.how == "multiple":
        found = own(parts[1]) * a.dtype.type(parts[0])
    else:
        begin, end = a.own_range
        found = own(parts[0])
        found = found + eye_array(end - begin, a.shape[1], k=begin, dtype=a.dtype, format="csr") * a.dtype.type(
            parts[1]
        )
    found = found.tocsr()
    found.sum_duplicates()
    start, column = found.indptr.astype(np.int64), found.indices.astype(np.int64)
    value = found.data.astype(scalar, copy=False)
    made = core("csr", scalar)(comm, rows, columns, a.own_range[0], start, column, value, "automatic")
    return Csr(made, comm, scalar)


def _numbers(values: Any, scalar: str) -> Array:
    array = as_array(values, "values")
    if array.ndim != 1:
        raise ValueError(f"values have shape {array.shape}; one dimension, a number for each entry, is needed")
    return to_scalar(array, scalar, "values")


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
