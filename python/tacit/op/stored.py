"""Stored matrices: Csr in host memory, and DeviceCsr in that of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import device as _device
from .._alike import Entries, alike
from .._support import Array, agreed, as_array, choose, chosen_scalar, core, to_scalar, vectors_of
from .base import FromHandle, Operator, takes

FORMATS: list[str] = _core.choices_formats()  #: storage formats of a matrix


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

    def _versions(self) -> tuple[Any, ...]:
        return (self._version,)

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

    def solves_at_once(self, b: Array) -> bool:
        """Whether the compiled solve reads this right-hand side as it is, and knows all of the matrix: it is square, on
        one rank, and no null space goes with it. Local.
        """
        return self._alone and self.shape[0] == self.shape[1] and not self.null_spaces and takes(self, b, True)

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

    def _has_entries(self) -> bool:
        return True

    def _stored(self) -> Csr:
        return self

    def _on_gpu(self, gpu: int) -> DeviceCsr:
        """This matrix in the memory of a GPU. Collective."""
        made = core("device_csr", self._scalar)(self._handle, gpu)
        moved = DeviceCsr(made, self.comm, self.dtype, self.is_hermitian())
        moved.null_spaces = self.null_spaces  # which solves there refuse
        return moved

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


def _numbers(values: Any, scalar: str) -> Array:
    array = as_array(values, "values")
    if array.ndim != 1:
        raise ValueError(f"values have shape {array.shape}; one dimension, a number for each entry, is needed")
    return to_scalar(array, scalar, "values")
