"""Operators from matrices of SciPy, NumPy and petsc4py, arrays and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import comm as _comm
from .. import device as _device
from .._alike import Entries, alike, alike_and_least, scalar_bits, scalar_of_bits
from .._support import (
    SCALAR_OF,
    Array,
    agreed,
    as_array,
    choose,
    chosen_scalar,
    common_scalar,
    core,
    scalar_name,
    to_scalar,
)
from .base import Operator
from .composed import Composed
from .grids import Stencil
from .stored import FORMATS, Csr, DeviceCsr

_INDICES = frozenset({np.dtype(np.int32), np.dtype(np.int64)})


def _is_sparse(a: Any) -> bool:
    return hasattr(a, "tocsr") and hasattr(a, "format") and hasattr(a, "shape")


def is_like(a: Any, b: Array) -> bool:
    """Whether this is a square sparse matrix of SciPy with as many rows as the vector, of its type, which is one of
    Tacit's four. Local.
    """
    if not _is_sparse(a) or b.ndim != 1 or a.shape != (len(b), len(b)):
        return False
    return b.dtype in SCALAR_OF and getattr(a, "dtype", None) == b.dtype


def is_petsc(a: Any) -> bool:
    """Whether this is a Mat of petsc4py, of which each rank has its own rows."""
    return hasattr(a, "getValuesCSR") and hasattr(a, "getSizes")


def _of_petsc(
    a: Any, on: _core.Communicator, scalar: str | None, what: str, offsets: Sequence[int] | None, format: str
) -> Csr:
    """A Mat of petsc4py as a Csr: rows stay on the ranks that have them. Collective."""

    def look() -> tuple[tuple[int, int], int, Array, Array, Array]:
        try:
            (own, rows), (_, columns) = a.getSizes()
            start, column, value = a.getValuesCSR()
        except Exception as e:
            raise TypeError(
                f"{what} is a petsc4py Mat that does not give its rows (Mat.getValuesCSR: {e}); assemble it, or"
                " convert it by Mat.convert('aij')"
            ) from e
        return (rows, columns), own, np.asarray(start), np.asarray(column), np.asarray(value)

    (shape, own, start, column, value), _ = alike(
        on, look, lambda found: {what: f"a Mat of {found[0][0]} x {found[0][1]}"}
    )
    # Made on PETSc.COMM_SELF: each rank has all of it.
    if on.all_min(int(own == shape[0])):
        from scipy.sparse import csr_array

        whole = csr_array((value, column, start), shape=shape)
        made = as_operator(whole, on, scalar, what=what, offsets=offsets, format=format)
    else:
        made = csr((value, column, start), (own, shape[1]), own_rows=True, comm=on, scalar=scalar, format=format)
        for rank, (end, wanted) in enumerate(zip(made._handle.range_offsets, offsets or (), strict=False)):
            if end != wanted:
                raise ValueError(
                    f"{what} and A are not spread alike: the rows of rank {rank - 1} end at {end} in {what}, and at"
                    f" {wanted} in A"
                )
    assert isinstance(made, Csr)
    return made


def _shape_of(a: Any, what: str) -> tuple[int, int]:
    try:
        rows, columns = a.shape
        rows, columns = int(rows), int(columns)
    except (TypeError, ValueError):
        raise ValueError(f"{what} has shape {getattr(a, 'shape', None)!r}; a matrix has two dimensions") from None
    if rows < 0 or columns < 0:
        raise ValueError(f"{what} has shape {(rows, columns)}")
    return rows, columns


def scalar_of(a: Any, what: str) -> str | None:
    """The scalar type of `a`; None where `a` has no dtype."""
    dtype = getattr(a, "dtype", None)
    if dtype is None:
        return None
    try:
        return scalar_name(dtype, what)
    except TypeError:
        # A dtype of another library (torch.float64): that of the NumPy array over the same elements.
        return (
            scalar_name(as_array(a, what).dtype, what) if hasattr(a, "__dlpack__") or hasattr(a, "__array__") else None
        )


def _compressed(a: Any, what: str) -> tuple[tuple[int, int], Array, Array, Array]:
    """(shape, starts, columns, values) of a SciPy sparse or dense matrix; for a csr matrix its own arrays, without a
    copy.
    """
    if hasattr(a, "tocsr"):
        shape = _shape_of(a, what)
        a = a.tocsr()
        start, column, value = a.indptr, a.indices, a.data
        if start.dtype != column.dtype or start.dtype not in _INDICES:
            start, column = start.astype(np.int64), column.astype(np.int64)
        return shape, np.ascontiguousarray(start), np.ascontiguousarray(column), value
    dense = as_array(a, what)
    shape = _shape_of(dense, what)
    row, column = np.nonzero(dense)
    start = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=start[1:])
    return shape, start, np.ascontiguousarray(column, dtype=np.int64), dense[row, column]


def _is_matrix(a: Any) -> bool:
    return (
        _is_sparse(a)
        or isinstance(a, (np.ndarray, list, tuple))
        or (not hasattr(a, "matvec") and (hasattr(a, "__dlpack__") or hasattr(a, "__array__")))
    )


class _UserProduct:
    """A user's function from a vector to a vector of `size` elements, whose results are checked."""

    def __init__(self, call: Callable[[Any], Any], what: str, scalar: str, size: int) -> None:
        self._call, self._what, self._scalar, self._size = call, what, scalar, size

    def __call__(self, x: Array) -> Array:
        y = as_array(self._call(x), f"the result of {self._what}")
        if y.size != self._size:
            raise ValueError(f"{self._what} gave an array of shape {y.shape}; {self._size} elements are needed")
        return to_scalar(y.reshape(-1), self._scalar, f"the result of {self._what}")


class Function(Operator):
    """An operator that is a Python function. See :func:`tacit.function`. It can be pickled where the function can."""

    __slots__ = ("_made_of",)
    _made_of: tuple[Any, ...]

    def _state(self) -> tuple[Any, ...]:
        return self._made_of

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Function:
        scalar, *rest = state
        made = cls(core("function", scalar)(comm, *rest), comm, scalar)
        made._made_of = state
        return made


def as_operator(
    a: Any,
    comm: Any = None,
    scalar: npt.DTypeLike | None = None,
    *,
    what: str = "A",
    offsets: Sequence[int] | None = None,
    format: str = "automatic",
) -> Operator:
    """An operator from whatever stands for a matrix: an operator of Tacit, a SciPy sparse matrix of any format, a
    dense array, a Mat of petsc4py (whose rows stay where they are), or anything with ``shape`` that has ``matvec`` or
    can be called.

    Parameters
    ----------
    a : object
        On several ranks the same on every rank, which takes the rows that it owns. An object with ``matvec`` maps whole
        vectors, which are gathered for it.
    comm : communicator, optional
    scalar : dtype, optional
        Default: that of `a`; integers and booleans become float64.
    what : str
        The name of `a` in errors.
    offsets : sequence of int, optional
        Rank r owns rows ``offsets[r] <= i < offsets[r + 1]``; default: equal blocks.
    format : str
        Storage format of a stored matrix that is made here; see :func:`csr`.

    Returns
    -------
    Operator
        Collective. An operator of Tacit with this scalar is returned as it is.
    """
    if isinstance(a, Operator):
        if comm is not None and comm is not a.comm and _comm.resolve(comm) != a.comm:
            raise ValueError(f"{what} lives on another communicator than the one given as comm=")
        return a if scalar is None or scalar == SCALAR_OF[a.dtype] else _converted(a, scalar, what)
    on = _comm.resolve(comm)
    name = chosen_scalar(scalar)
    if is_petsc(a):
        return _of_petsc(a, on, name, what, offsets, format)
    found, chosen = _the_same(on, lambda: _looked_at(a, name, what), what, name, offsets)
    rows, columns = found[0]
    by_row = list(offsets) if offsets is not None and offsets[-1] == rows else layout.blocks(rows, on.size)
    by_column = by_row if columns == rows else layout.blocks(columns, on.size)
    if len(found) == 5:
        start, column, value = found[2:]
        if on.size > 1 or SCALAR_OF.get(value.dtype) != chosen or not value.flags.c_contiguous:
            value = agreed(on, lambda: to_scalar(found[4], chosen, what))
        return Csr(core("csr", chosen)(on, by_row, by_column, 0, start, column, value, format), on, chosen)
    call, adjoint = found[2:]
    label = type(a).__name__ if hasattr(a, "matvec") else getattr(a, "__name__", type(a).__name__)
    product = _UserProduct(call, f"{what}'s product", chosen, rows)
    back = None if adjoint is None else _UserProduct(adjoint, f"{what}'s adjoint product", chosen, columns)
    return Function._made_from(on, chosen, by_row, by_column, label, product, back, True)


def _looked_at(a: Any, name: str | None, what: str) -> Any:
    """A matrix as (shape, scalar, starts, columns, values), others as (shape, scalar, product, adjoint product or
    None); TypeError or ValueError where it is neither. Local.
    """
    if _is_matrix(a):
        shape, start, column, value = _compressed(a, what)
        return shape, name or scalar_name(value.dtype, what), start, column, value
    call = getattr(a, "matvec", None) or (a if callable(a) else None)
    if call is None and hasattr(a, "shape") and hasattr(a, "__matmul__"):
        call = a.__matmul__
    if call is None or not hasattr(a, "shape"):
        raise TypeError(f"{what} is a {type(a).__name__}; a matrix, or something with shape and matvec, is needed")
    return _shape_of(a, what), name or scalar_of(a, what) or "float64", call, getattr(a, "rmatvec", None)


def _the_same(
    on: _core.Communicator,
    look: Callable[[], Any],
    what: str,
    scalar: str | None,
    offsets: Sequence[int] | None = None,
) -> tuple[Any, str]:
    """What look() finds, a matrix or a function that must be the same on every rank, and the scalar for all: the given
    one, else the smallest that holds what each rank has. Collective.
    """
    if on.size == 1:
        found = look()
        return found, scalar or found[1]

    def tell(found: Any) -> dict[str, Any]:
        shape, _, *rest = found
        spread = {f"scalar of {what}": str(scalar), f"offsets of {what}": str(offsets)}
        if len(rest) == 3:
            return {what: Entries(shape, *rest), **spread}
        has_adjoint = "none" if rest[1] is None else "a function"
        return {what: f"a function of {shape[0]} x {shape[1]}", f"adjoint of {what}": has_adjoint, **spread}

    found, _, bits = alike_and_least(on, look, tell, lambda found: scalar_bits(found[1]))
    return found, scalar or scalar_of_bits(bits, found[1])


def of_nodes(a: Any, on: _core.Communicator, node: int) -> list[int] | None:
    """The offsets with which a matrix that is the same on every rank is spread in nodes of so many rows; None for
    anything else, whose rows are where they are. Local.
    """
    return layout.blocks(_shape_of(a, "A")[0], on.size, node) if _is_matrix(a) else None


def _converted(a: Operator, scalar: npt.DTypeLike, what: str) -> Operator:
    name = chosen_scalar(scalar)
    if name is None or name == a._scalar:
        return a
    if isinstance(a, (Csr, DeviceCsr)):
        return a.astype(name)
    if isinstance(a, Stencil) and a.dtype.kind == "f":
        return a.assemble().astype(name)
    raise TypeError(f"{what} is a {a.name} operator of {a.dtype}; {name} is needed and it cannot be converted")


def stored(a: Operator, what: str) -> Csr:
    """The operator as a stored matrix; ValueError, which says that `what` needs one, where entries are not known.
    Collective.
    """
    if a.device != "host":
        raise ValueError(f"{what} works in host memory, and A is in that of {a.device}: A.to('host') is a copy there")
    if isinstance(a, Stencil) or (isinstance(a, Composed) and a._has_entries()):
        a = a.assemble()
    if not isinstance(a, Csr):
        raise ValueError(f"{what} needs the entries of the matrix; the {a.name} operator knows products only")
    return a


def worth_storing(a: Operator) -> Operator:
    """A transpose, multiple, sum or shift of stored matrices as one stored matrix, for methods and preconditioners that
    look at entries: it takes no more room than its parts. The transpose of a real Hermitian matrix is the matrix
    itself. Other operators as they are. Collective.
    """
    if isinstance(a, Composed) and a.how in ("adjoint", "transpose"):
        of = a.parts[0]
        if isinstance(of, Csr) and (a.how == "adjoint" or a.dtype.kind != "c") and of.is_hermitian():
            return of
    return a.assemble() if isinstance(a, Composed) and _adds_up(a) else a


def _adds_up(a: Operator) -> bool:
    """Whether `a` has no more entries than the stored matrices that it is made of. Local."""
    if isinstance(a, Composed):
        return a.how != "product" and all(_adds_up(p) for p in a.parts if isinstance(p, Operator))
    return isinstance(a, Csr)


def renumbered(a: Operator, graph: bool, rcm: bool) -> tuple[Csr, _core.Renumbering]:
    """The matrix with renumbered rows and columns, and the renumbering. `graph`: rows are distributed so that few
    entries couple different ranks; `rcm`: reverse Cuthill-McKee order within each rank. Collective; entries are sent
    once or twice.
    """
    a = stored(a, "partition and ordering")
    on, scalar = a.comm, a._scalar
    numbers: _core.Renumbering | None = None
    for wanted, find in ((graph, _core.renumber_by_graph), (rcm, _core.renumber_inside)):
        if not wanted:
            continue
        start, column, _ = a.local_rows()
        step = find(on, a._handle.range_offsets, start, column)
        a = Csr(core("renumbered", scalar)(a._handle, step), on, scalar)
        numbers = step if numbers is None else numbers.then(on, step)
    assert numbers is not None
    return a, numbers


@overload
def csr(
    a: Any,
    shape: tuple[int, int] | None = ...,
    *,
    own_rows: bool = ...,
    comm: Any = ...,
    scalar: npt.DTypeLike | None = ...,
    format: str = ...,
    node: int = ...,
) -> Csr: ...
@overload
def csr(
    a: Any,
    shape: tuple[int, int] | None = ...,
    *,
    own_rows: bool = ...,
    comm: Any = ...,
    scalar: npt.DTypeLike | None = ...,
    format: str = ...,
    node: int = ...,
    device: str,
) -> Csr | DeviceCsr: ...
def csr(
    a: Any,
    shape: tuple[int, int] | None = None,
    *,
    own_rows: bool = False,
    comm: Any = None,
    scalar: npt.DTypeLike | None = None,
    format: str = "automatic",
    node: int = 1,
    device: str = "host",
) -> Csr | DeviceCsr:
    """A sparse matrix over the ranks of a communicator.

    Parameters
    ----------
    a : matrix or tuple
        A SciPy sparse matrix or array of any format, a dense array, or ``(data, indices, indptr)`` with `shape`. The
        same on every rank, which takes its own rows. With a Mat of petsc4py each rank keeps the rows that it has.
    shape : tuple of int, optional
        Needed with ``(data, indices, indptr)`` only.
    own_rows : bool
        `a` holds this rank's own rows alone, with global column numbers: the matrix is those of rank 0, below them
        those of rank 1, and so on. Ranks may have different numbers of rows, and none.
    comm : communicator, optional
    scalar : dtype, optional
    format : str
        How each rank keeps the entries of its own columns. "bsr": dense blocks of the size from 2 x 2 to 8 x 8 that
        takes the fewest bytes, entries outside full blocks in rows beside them. "sell": slices of eight rows side by
        side (SELL-8). "csr": row after row. "automatic" (default): blocks where they make the matrix smaller by a
        twentieth, else "sell" where padding adds at most half of the entries (complex: a tenth), else "csr". Column
        indices take 16 bits where the matrix allows it, slices that are equal bit for bit share one copy of their
        values, and values of "sell" and "csr" that are all exact as float32 or bfloat16 are stored so; products have
        the same bits. ``A.storage`` has the result. A :class:`Csr` keeps its format with
        "automatic"; ``A.stored_as("automatic")`` chooses anew.
    node : int
        So many rows of a matrix that is the same on every rank stay on one rank: those of a node of a mesh, as
        preconditioners with nodes need.
    device : str
        "host"; "cuda": in the memory of this rank's GPU, where the matrix stays (ranks of a node take its GPUs in
        turn); "cuda:1": of that GPU. See :meth:`Operator.to` and docs/guide/gpu.md.

    Returns
    -------
    Csr, or with a device :class:`DeviceCsr`
        Duplicate entries are added. Collective; stores a copy of this rank's rows. On a GPU the rows are put together
        in host memory first, and the matrix is copied once.

    Raises
    ------
    ValueError, TypeError
        On every rank: for arrays that do not describe a matrix (with the row), and an unknown format.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.csr(np.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> A @ np.array([1.0, 1.0])
    array([3., 4.])
    >>> A.nnz, A.shape
    (3, (2, 2))
    """
    on = a.comm if comm is None and isinstance(a, Operator) else _comm.resolve(comm)
    place = agreed(on, lambda: _device.kind_of(device))
    if isinstance(a, DeviceCsr):
        a = a.to("host")
    made = _stored_rows(a, shape, own_rows, on, scalar, format, node, place)
    if place == "host":
        return made
    moved = made.to(device)
    assert isinstance(moved, DeviceCsr)
    return moved


def _stored_rows(
    a: Any,
    shape: tuple[int, int] | None,
    own_rows: bool,
    on: _core.Communicator,
    scalar: npt.DTypeLike | None,
    format: str,
    node: int,
    place: str,
) -> Csr:
    """:func:`csr` in host memory. Collective."""
    arrays = isinstance(a, tuple) and len(a) == 3

    def check() -> tuple[str, str | None]:
        if node != 1 and (own_rows or not (arrays or _is_matrix(a))):
            raise ValueError(f"node is {node}; it is for matrices that are the same on every rank, not for own rows")
        return choose("format", format, FORMATS), chosen_scalar(scalar)

    def tell(found: tuple[str, str | None]) -> dict[str, Any]:
        kind = "an operator of Tacit" if isinstance(a, Operator) else "a Mat" if is_petsc(a) else "a matrix"
        kind = "three arrays" if arrays else kind
        options = {"format": found[0], "node": str(node), "device": place, "scalar": str(found[1])}
        return {**options, "own_rows": str(bool(own_rows)), "the matrix": kind}

    (kept, wanted), _ = alike(on, check, tell)
    if is_petsc(a) or not (arrays or own_rows):
        offsets = None if node == 1 else agreed(on, lambda: of_nodes(a, on, node))
        made = as_operator(a, on, scalar, format=kept, offsets=offsets)
        if not isinstance(made, Csr):
            raise TypeError(f"csr takes a matrix; {type(a).__name__} is known by its products only")
        return made if kept == "automatic" else made.stored_as(kept)

    def look() -> tuple[tuple[int, int], str, Array, Array, Array]:
        if arrays:
            found = _given_arrays(a, shape)
        elif _is_matrix(a):
            found = _compressed(a, "the matrix")
        else:
            raise TypeError(f"own_rows=True takes a matrix; {type(a).__name__} is none")
        size, start, column, value = found
        return size, wanted or scalar_name(value.dtype, "the matrix"), start, column, value

    if own_rows:
        (rows, columns), chosen, start, column, given = agreed(on, look)
        by_row, chosen = _stacked(on, rows, columns, chosen)
    else:
        ((rows, columns), _, start, column, given), chosen = _the_same(on, look, "the matrix", wanted)
        by_row = layout.blocks(rows, on.size, node)
    by_column = by_row if by_row[-1] == columns else layout.blocks(columns, on.size)
    value = agreed(on, lambda: to_scalar(given, chosen, "data"))
    first = by_row[on.rank] if own_rows else 0
    return Csr(core("csr", chosen)(on, by_row, by_column, first, start, column, value, kept), on, chosen)


def _given_arrays(
    a: tuple[Any, Any, Any], shape: tuple[int, int] | None
) -> tuple[tuple[int, int], Array, Array, Array]:
    """(shape, starts, columns, values) of (data, indices, indptr)."""
    if shape is None:
        raise TypeError("csr of (data, indices, indptr) needs the shape of the matrix")
    names = ("data", "indices", "indptr")
    value, column, start = (as_array(part, name) for part, name in zip(a, names, strict=True))
    for array, name in ((value, "data"), (column, "indices"), (start, "indptr")):
        if array.ndim != 1 or (name != "data" and array.dtype.kind not in "iu"):
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    rows, columns = int(shape[0]), int(shape[1])
    if len(start) != rows + 1:
        raise ValueError(f"indptr has {len(start)} numbers; {rows + 1} are needed for {rows} rows")
    wide = np.int32 if column.dtype == start.dtype == np.int32 else np.int64
    return (rows, columns), np.ascontiguousarray(start, wide), np.ascontiguousarray(column, wide), value


def _stacked(on: _core.Communicator, rows: int, columns: int, scalar: str) -> tuple[list[int], str]:
    """The row offsets of all ranks when their rows are stacked in rank order, and a scalar for all. Collective."""
    blocks = [part.decode().split() for part in on.all_gather(f"{rows} {columns} {scalar}".encode())]
    for rank, (_, width, _) in enumerate(blocks):
        if int(width) != int(blocks[0][1]):
            raise ValueError(
                f"the rows of rank 0 have {blocks[0][1]} columns and those of rank {rank} {width}; all need the columns"
                " of the whole matrix"
            )
    begin = [0]
    for count, _, _ in blocks:
        begin.append(begin[-1] + int(count))
    return begin, common_scalar(*(part[2] for part in blocks))


def function(
    shape: tuple[int, int],
    matvec: Callable[[Array], Any],
    *,
    rmatvec: Callable[[Array], Any] | None = None,
    dtype: npt.DTypeLike = np.float64,
    comm: Any = None,
    local: bool = False,
    offsets: Sequence[int] | None = None,
    name: str = "function",
) -> Operator:
    """An operator that is a Python function.

    Parameters
    ----------
    shape : tuple of int
    matvec, rmatvec : callable
        The product with A, and with its conjugate transpose: functions from a one-dimensional array to another.
    dtype : dtype
        float32, float64, complex64 or complex128.
    comm : communicator, optional
    local : bool
        False: the function maps whole vectors, which are gathered for it on every rank. True: it maps this rank's
        part to this rank's part, and does any communication with other ranks itself.
    offsets : sequence of int, optional
        Rank r owns ``offsets[r] <= i < offsets[r + 1]``; default: equal blocks.
    name : str

    Returns
    -------
    Operator
        An exception that a function raises on one rank is raised on all.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.function((3, 3), lambda x: 2 * x)
    >>> A @ np.ones(3)
    array([2., 2., 2.])
    """
    on = _comm.resolve(comm)

    def look() -> tuple[str, list[int], list[int], int, int]:
        if not callable(matvec) or (rmatvec is not None and not callable(rmatvec)):
            raise TypeError("matvec and rmatvec are functions of one array")
        rows, columns = int(shape[0]), int(shape[1])
        by_row = list(offsets) if offsets is not None else layout.blocks(rows, on.size)
        if len(by_row) != on.size + 1 or by_row[-1] != rows:
            raise ValueError(f"offsets are {by_row}; {on.size + 1} numbers from 0 to {rows} are needed")
        by_column = by_row if rows == columns else layout.blocks(columns, on.size)
        r = on.rank
        sizes = (by_row[r + 1] - by_row[r], by_column[r + 1] - by_column[r]) if local else (rows, columns)
        return chosen_scalar(dtype) or "float64", by_row, by_column, *sizes

    def tell(found: tuple[str, list[int], list[int], int, int]) -> dict[str, Any]:
        size = {"shape of the function": (found[1][-1], found[2][-1]), "offsets": found[1], "dtype": found[0]}
        return {**size, "local": str(bool(local)), "rmatvec": "None" if rmatvec is None else "a function"}

    (scalar, by_row, by_column, to, back), _ = alike(on, look, tell)
    forward = _UserProduct(matvec, f"the product of {name}", scalar, to)
    adjoint = None if rmatvec is None else _UserProduct(rmatvec, f"the adjoint product of {name}", scalar, back)
    return Function._made_from(on, scalar, by_row, by_column, name, forward, adjoint, not local)
