"""Contributions to matrices and vectors on their way to the owners of rows: the parts of :class:`tacit.Assembler`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._support import Array, agreed, as_array, common_scalar, scalar_name, to_scalar, whole_number

_FEW = 4096  # contributions of a call that is stored together with those before it


class _Chunk(NamedTuple):
    """Contributions of a call: places and values, which are spread to `shape` (values: and to the columns)."""

    row: Array
    column: Array
    value: Array
    shape: tuple[int, ...]
    inserted: bool

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def places(self) -> tuple[Array, Array]:
        return tuple(np.broadcast_to(a, self.shape).reshape(-1) for a in (self.row, self.column))  # type: ignore[return-value]

    def values(self, k: int, scalar: str) -> Array:
        whole = np.broadcast_to(self.value, self.shape if k == 1 else (*self.shape, k))
        return to_scalar(whole.reshape(-1) if k == 1 else whole.reshape(-1, k), scalar, "the contributions")

    def digest(self) -> tuple[Any, ...]:
        return self.shape, self.inserted, *((a.shape, _checksum(a)) for a in (self.row, self.column))


class Sums:
    """What ranks contribute to the entries of a matrix, or to the rows of k vectors, and the plan of where it goes."""

    def __init__(self, comm: _core.Communicator, rows: list[int], columns: int, k: int = 1) -> None:
        self._comm, self._rows, self._columns, self._k = comm, rows, columns, k
        self.singles: list[tuple[int, int, float]] = []
        self._chunks: list[_Chunk] = []
        self._plan: Any = None
        self._key = self._planned = 0  # the digests of these places and of those of the plan
        self.entries: tuple[Array, Array] = (
            np.zeros(1, np.int64),
            np.zeros(0, np.int64),
        )  # of own rows: starts, columns

    def take(self, places: tuple[Array, Array], values: Any, what: str, scalar: str | None, inserted: bool) -> None:
        """Keeps contributions, checked and copied."""
        value = np.array(as_array(values, what))
        row, column = places
        try:
            shape = np.broadcast_shapes(row.shape, column.shape)
            whole = shape if self._k == 1 else (*shape, self._k)
            fits = np.broadcast_shapes(whole, value.shape) == whole
        except ValueError:
            fits = False
        if not fits:
            given = " and ".join(str(a.shape) for a in places if a.ndim) or "()"
            several = f" with {self._k} right-hand sides" if self._k > 1 else ""
            raise ValueError(f"{what} of shape {value.shape} does not go with indices of shape {given}{several}")
        if value.dtype.kind == "c" and scalar is not None and not scalar.startswith("complex"):
            raise TypeError(f"{what} is complex, and this is assembled in {scalar}; give scalar='complex128' at first")
        if not _finite(value):
            at = tuple(int(p) for p in np.argwhere(~np.isfinite(value))[0])
            raise ValueError(f"{what}{list(at) if at else ''} is {value[at]}; contributions have to be finite")
        self._chunks.append(_Chunk(row, column, value, shape, inserted))

    def flush(self) -> None:
        """Takes the entries that were added one by one."""
        if self.singles:
            row, column, value = (np.array(a) for a in zip(*self.singles, strict=True))
            self.singles = []
            self._chunks.append(_Chunk(row, column, value, row.shape, False))

    def clear(self) -> None:
        self.singles, self._chunks = [], []

    def forget(self) -> None:
        """The plan is made anew at the next contributions."""
        self._plan, self._planned = None, 0

    def scalar(self) -> str | None:
        """The smallest scalar that holds these contributions; None where there are none."""
        names = {scalar_name(chunk.value.dtype, "v") for chunk in self._chunks}
        return common_scalar(*sorted(names)) if names else None

    def state(self) -> tuple[int, int]:
        """Two numbers whose least over the ranks says whether a plan is needed, see plan_needed()."""
        self._chunks = _merged(self._chunks, self._k)
        self._key = hash(tuple(chunk.digest() for chunk in self._chunks))
        if not self._chunks:
            return (1 if self._plan is not None and self._plan.given else 3), 1
        return (2 if self._plan is not None and self._key == self._planned else 0), 0

    def sum(self, anew: bool, scalar: str) -> Array:
        """The values of this rank's entries. Collective."""
        if anew:
            places = [chunk.places() for chunk in self._chunks]
            row, column = (_joined([p[a] for p in places], np.int64) for a in (0, 1))
            marks = np.zeros(0, np.uint8)
            if any(chunk.inserted for chunk in self._chunks):
                marks = np.concatenate([np.full(chunk.size, chunk.inserted, np.uint8) for chunk in self._chunks])
            self._plan = _core.contributions(self._comm, self._rows, self._columns, row, column, marks)
            self._planned, self.entries = self._key, self._plan.structure()
        values = [chunk.values(self._k, scalar) for chunk in self._chunks]
        given = _joined(values, scalar) if values or self._k == 1 else np.zeros((0, self._k), scalar)
        return getattr(self._plan, f"sum_{scalar}")(given)  # type: ignore[no-any-return]

    def dense(self, anew: bool, scalar: str | None) -> Array:
        """The sums for vectors: all of this rank's rows. Collective."""
        assert scalar is not None
        values = self.sum(anew, scalar)
        found = np.zeros((len(self.entries[0]) - 1, *values.shape[1:]), scalar)
        found[self.touched()] = values
        return found

    def touched(self) -> Array:
        """This rank's rows, from 0, that have contributions."""
        return np.flatnonzero(np.diff(self.entries[0]))


class Entries:
    """The entries of the assembled matrix, with the rows of fixed unknowns: those of the first contributions."""

    def __init__(self, comm: _core.Communicator, rows: list[int], columns: int) -> None:
        self._comm, self._begin = comm, rows[comm.rank]
        self.given = Sums(comm, rows, columns)
        self.structure: tuple[Array, Array] | None = None  # of this rank's rows: starts, columns
        self._within: Array | None = None  # where the entries of a later plan are in it

    def values(self, anew: bool, scalar: str, decided: bool) -> Array:
        """The sums of this round; the structure is decided here until it is `decided`. Collective."""
        try:
            values = self.given.sum(anew, scalar)
            if not decided:
                self.structure = self.given.entries
            elif anew:
                self._within = agreed(self._comm, self._found)
        except BaseException:
            self.given.forget()
            raise
        assert self.structure is not None
        if self._within is None:
            return values
        whole = np.zeros(len(self.structure[1]), scalar)
        whole[self._within] = values
        return whole

    def _found(self) -> Array:
        """Where the entries of this round are in the structure; ValueError for one that is not there. Local."""
        assert self.structure is not None
        known, other = self.structure, self.given.entries
        columns = 1 + max(int(a.max(initial=0)) for a in (known[1], other[1]))
        names = None
        if (len(known[0]) - 1) * columns >= 2**63:  # a place is to be one number of 64 bits
            names = np.unique(np.concatenate([known[1], other[1]]))
            columns = len(names)
        old, new = (
            np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start)) * columns
            + (column if names is None else np.searchsorted(names, column))
            for start, column in (known, other)
        )
        at = np.searchsorted(old, new)
        there = np.zeros(len(new), bool)
        inside = at < len(old)
        there[inside] = old[at[inside]] == new[inside]
        if not there.all():
            row, column = divmod(int(new[np.flatnonzero(~there)[0]]), columns)
            column = column if names is None else int(names[column])
            raise ValueError(
                f"entry ({self._begin + row}, {column}) is not among those of the first finish(), which decided the"
                " structure of the matrix; add zeros there at first, or make a new Assembler"
            )
        return at


class Fixed:
    """The fixed unknowns, and what becomes of the matrix and the right-hand sides without them."""

    def __init__(self, comm: _core.Communicator, rows: list[int], k: int) -> None:
        self._comm, self._rows = comm, rows
        self._begin, end = rows[comm.rank], rows[comm.rank + 1]
        self.given = Sums(comm, rows, 1, k)
        self._is_fixed = np.zeros(end - self._begin, bool)
        self._there = False  # on any rank
        self._at: Array | None = None  # their values, of this rank's rows
        self.structure: tuple[Array, Array] | None = None

    def take(self, anew: bool, scalar: str | None, decided: bool) -> None:
        """Takes the values given in this round. Collective."""
        values = self.given.dense(anew, scalar)
        touched = self.given.touched()

        def refuse() -> None:
            other = touched[~self._is_fixed[touched]]
            if len(other):
                raise ValueError(
                    f"unknown {self._begin + other[0]} is to be fixed, and was not before the first finish(): the"
                    " structure of the matrix is decided there; make a new Assembler"
                )

        if decided:
            agreed(self._comm, refuse)
        self._is_fixed[touched] = True
        self._there = True
        if self._at is None:
            self._at = np.zeros(values.shape, values.dtype)
        self._at[touched] = values[touched]

    def leave_out(self, start: Array, column: Array) -> None:
        """Finds what stays of a matrix with these entries. Collective."""
        if not self._there:
            return
        n, fixed = len(start) - 1, self._is_fixed
        row = np.repeat(np.arange(n), np.diff(start))
        own = (column >= self._begin) & (column < self._begin + n)
        of_column = np.zeros(len(column), bool)
        of_column[own] = fixed[column[own] - self._begin]
        ghosts, place = np.unique(column[~own], return_inverse=True)
        flags = Reader(self._comm, self._rows, ghosts).read(fixed.astype(np.float32), "float32")
        of_column[~own] = flags[place] != 0
        self._kept = np.flatnonzero(~fixed[row] & ~of_column)
        self._lifted = np.flatnonzero(~fixed[row] & of_column)
        self._lifted_start = np.concatenate([[0], np.cumsum(np.bincount(row[self._lifted], minlength=n))])
        needed, self._lifted_place = np.unique(column[self._lifted], return_inverse=True)
        self._reader = Reader(self._comm, self._rows, needed)
        self._which = np.flatnonzero(fixed)
        on_diagonal = np.flatnonzero(column == row + self._begin)
        places = np.full(n, -1)
        places[row[on_diagonal]] = on_diagonal
        self._diagonal_place = places[self._which]
        rows = np.concatenate([row[self._kept], self._which])
        self._order = np.argsort(rows, kind="stable")  # a row is kept, or has its diagonal only
        columns = np.concatenate([column[self._kept], self._which + self._begin])[self._order]
        self.structure = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]), columns

    def without(self, values: Array, diagonal: float | None) -> Array:
        """The values of what stays of the matrix. Local."""
        if self.structure is None:
            return values
        there = self._diagonal_place >= 0
        self._d = np.zeros(len(self._which), values.dtype)
        self._d[there] = values[self._diagonal_place[there]]
        self._d[self._d == 0] = 1
        if diagonal is not None:
            self._d[:] = diagonal
        return np.concatenate([values[self._kept], self._d])[self._order]

    def lifted(self, f: Array, values: Array) -> Array:
        """The right-hand sides for the matrix without the fixed unknowns. Collective where there are some."""
        b = f.copy()
        if not self._there:
            return b
        assert self._at is not None
        from scipy.sparse import csr_array

        g = self._reader.read(self._at, self._at.dtype.name)
        there = (values[self._lifted], self._lifted_place, self._lifted_start)
        b -= csr_array(there, shape=(len(f), len(g))) @ g
        d = self._d if f.ndim == 1 else self._d[:, None]
        b[self._which] = d * self._at[self._which]
        return b


class Reader:
    """Elements of distributed vectors at indices of any rank."""

    def __init__(self, comm: _core.Communicator, rows: list[int], index: Array) -> None:
        self.index = np.ascontiguousarray(index, np.int64)
        self._plan = _core.contributions(comm, rows, 1, self.index, np.zeros_like(self.index), np.zeros(0, np.uint8))
        self._read = np.flatnonzero(np.diff(self._plan.structure()[0]))

    def read(self, own: Array, scalar: str) -> Array:
        """Of a vector or columns of which this is the own part. Collective; one exchange."""
        return getattr(self._plan, f"spread_{scalar}")(np.ascontiguousarray(own[self._read]))  # type: ignore[no-any-return]


def plan_needed(state: int, nobody: int) -> bool | None:
    """From the least of Sums.state(): None where no rank has contributed, else whether a plan is to be made."""
    return None if nobody else state < 2


def _merged(chunks: list[_Chunk], k: int) -> list[_Chunk]:
    """Small chunks that follow each other as one."""
    found: list[_Chunk] = []
    small: list[_Chunk] = []

    def join() -> None:
        if len(small) > 1:
            row, column = (np.concatenate([chunk.places()[a] for chunk in small]) for a in (0, 1))
            scalar = common_scalar(*sorted({scalar_name(chunk.value.dtype, "v") for chunk in small}))
            value = np.concatenate([chunk.values(k, scalar) for chunk in small])
            found.append(_Chunk(row, column, value, row.shape, small[0].inserted))
        else:
            found.extend(small)
        small.clear()

    for chunk in chunks:
        if chunk.size > _FEW or (small and small[0].inserted != chunk.inserted):
            join()
        if chunk.size > _FEW:
            found.append(chunk)
        elif chunk.size:
            small.append(chunk)
    join()
    return found


def _joined(arrays: list[Array], dtype: Any) -> Array:
    whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.zeros(0, dtype)
    return np.ascontiguousarray(whole, dtype)


def _finite(values: Array) -> bool:
    with np.errstate(all="ignore"):
        return values.dtype.kind not in "fc" or bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _checksum(a: Array) -> int:
    return int(_core.checksum(np.ascontiguousarray(a).reshape(-1).view(np.uint8)))


def size_of(shape: Any) -> tuple[int, int | None]:
    """Rows, and columns where they are given."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    if len(given) not in (1, 2):
        raise ValueError(f"shape is {shape!r}; a number of rows, or (rows, columns), is needed")
    sizes = [whole_number(n, "shape", 2**62) for n in given]
    if min(sizes) < 0 or max(sizes) > 2**62:
        raise ValueError(f"shape is {shape!r}; numbers from 0 to 2^62 are needed")
    return sizes[0], sizes[1] if len(sizes) == 2 else None


def refuse_crowded(rank: int, offsets: list[int], what: str) -> None:
    """ValueError where a rank has more rows or columns than vectors of one rank may have elements. Local."""
    own = offsets[rank + 1] - offsets[rank]
    if own >= 2**31:
        raise ValueError(f"this rank has {own} {what}; a rank has fewer than 2^31, take more ranks")


def index_of(given: Any, what: str, n: int, kind: str) -> Array:
    """Indices as whole numbers of 64 bits that lie in [0, n). A copy."""
    array = as_array(given, what)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{what} has elements of type {array.dtype}; whole numbers are needed")
    if array.size and (array.min() < 0 or array.max() >= n):
        at = tuple(int(p) for p in np.argwhere((array < 0) | (array >= n))[0])
        raise ValueError(f"{what}{list(at) if at else ''} is {array[at]}; {kind} are counted from 0 to {n - 1}")
    return np.array(array, np.int64)
