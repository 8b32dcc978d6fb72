"""What all ranks have to give alike: one comparison for every collective function.

A collective function looks at its arguments (which may raise) and names what must be the same on all ranks. Both happen
inside one collective call, and a digest of these facts travels in the agreement at the end of that call, so that the
comparison takes no further message. Only where digests differ, ranks exchange the facts: numbers may differ by
rounding, and anything else is a ValueError on every rank that names the argument and both values.

Arrays and matrices that every rank has whole are compared by checksums. Where these differ, rank 0's elements are sent
to all, in pieces: a difference is reported with its place and values, and rounding is accepted.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import numpy as np

from . import _core
from ._support import Array, common_scalar

T = TypeVar("T")
Facts = Mapping[str, Any]

_PIECE = 1 << 20  # elements of rank 0's array in one message


class Whole:
    """An array that must be the same on every rank. Where ranks differ by rounding, `by_rounding` says what happens:
    "own" is for arrays of which a rank uses its own rows only, "first" for others (all ranks take rank 0's), "refused"
    for those that cannot be replaced.
    """

    def __init__(self, array: Array, by_rounding: Literal["own", "first", "refused"] = "own") -> None:
        self.array, self.by_rounding = array, by_rounding

    def __str__(self) -> str:
        return f"{len(self.array)} numbers" if self.array.ndim == 1 else f"an array of shape {self.array.shape}"

    def checksum(self) -> int:
        return checksum(self.array)

    def value(self) -> Array:
        return self.array

    def settle(self, comm: _core.Communicator, name: str) -> Array:
        """The array to be used, where checksums differ; ValueError on every rank for more than rounding. Collective."""
        return _compared(comm, self.array, self.by_rounding, lambda k: f"{name}{_place(self.array, k)}")


class Entries:
    """A matrix as compressed rows that must be the same on every rank. The order of entries within a row, duplicates
    and stored zeros do not count.
    """

    def __init__(self, shape: tuple[int, int], start: Array, column: Array, value: Array) -> None:
        self.shape, self.arrays = shape, (start, column, value)

    def __str__(self) -> str:
        return f"a matrix of {self.shape[0]} x {self.shape[1]}"

    def checksum(self) -> int:
        return hash(tuple(checksum(array) for array in self.arrays))

    def value(self) -> None:
        return None

    def settle(self, comm: _core.Communicator, name: str) -> None:
        from scipy.sparse import csr_array

        start, column, value = self.arrays

        def canonical() -> Any:
            if len(start) == 0 or start[0] < 0 or start[-1] > len(column) or (np.diff(start) < 0).any():
                raise ValueError(f"{name} is not the same on all ranks, and its indptr is not that of a matrix")
            a = csr_array((value, column, start), shape=self.shape, copy=True)
            a.sum_duplicates()
            a.eliminate_zeros()
            return a

        a = comm.collective(canonical)

        def row(k: int) -> int:
            return int(np.searchsorted(a.indptr, k, "right")) - 1

        _compared(comm, a.indptr, "own", lambda k: f"the number of entries of {name} above row {k}")
        _compared(comm, a.indices, "own", lambda k: f"the column of an entry in row {row(k)} of {name}")
        _compared(comm, a.data, "own", lambda k: f"{name}[{row(k)}, {a.indices[k]}]")


def checksum(array: Array) -> int:
    """64 bits that depend on all elements, as a whole number of either sign."""
    if array.ndim > 1 and array.flags.f_contiguous:
        array = array.T
    found = _core.checksum(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return found - (1 << 64) if found >> 63 else found


def _digest(facts: Facts) -> int:
    texts = {
        name: [str(value), value.checksum()] if isinstance(value, (Whole, Entries)) else _plain(value)
        for name, value in facts.items()
    }
    return checksum(np.frombuffer(json.dumps(texts).encode(), np.uint8))


def _plain(value: Any) -> float | str:
    """A number, or anything else as text."""
    if isinstance(value, (str, Whole, Entries)):
        return str(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return str(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _near(a: float | str, b: float | str) -> bool:
    if not (isinstance(a, float) or isinstance(b, float)):  # whole numbers are not rounded
        return a == b
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return a == b or math.isclose(a, b, rel_tol=1e-12) or (math.isnan(a) and math.isnan(b))


def refuse_differences(facts: list[dict[str, float | str]]) -> None:
    """ValueError when the ranks' values, in rank order, differ by more than the rounding of a number. Local."""
    first = facts[0]
    for rank, other in enumerate(facts):
        for name in {**first, **other}:
            a, b = first.get(name, "absent"), other.get(name, "absent")
            if not _near(a, b):
                raise ValueError(f"{name} is {a} on rank 0 and {b} on rank {rank}; all ranks must give the same")


def _first(comm: _core.Communicator, facts: Facts) -> dict[str, Any]:
    """The facts of rank 0, where digests differ. ValueError on every rank for more than rounding. Collective."""
    mine = json.dumps({name: _plain(value) for name, value in facts.items()}).encode()
    texts = [json.loads(part) for part in comm.all_gather(mine)]
    refuse_differences(texts)
    first: dict[str, Any] = {}
    for name, plain in texts[0].items():
        value = facts[name]
        if isinstance(value, (Whole, Entries)):
            first[name] = value.settle(comm, name)
        else:
            first[name] = plain if isinstance(plain, (int, float)) else value
    return first


def _own(facts: Facts) -> dict[str, Any]:
    return {name: value.value() if isinstance(value, (Whole, Entries)) else value for name, value in facts.items()}


def alike_and_least(
    comm: _core.Communicator,
    look: Callable[[], T],
    facts_of: Callable[[T], Facts],
    least: Callable[[T], tuple[int, int]] = lambda found: (0, 0),
) -> tuple[T, dict[str, Any], tuple[int, int]]:
    """:func:`alike`, and the least over all ranks of each of two further numbers."""
    if comm.size == 1:
        found = comm.collective(look)
        return found, _own(facts_of(found)), least(found)
    kept: list[tuple[T, Facts]] = []

    def run() -> tuple[int, int, int, int]:
        found = look()
        facts = facts_of(found)
        digest = _digest(facts)
        kept.append((found, facts))
        return digest, ~digest, *least(found)

    digest, inverse, *numbers_of_all = comm.least(run)
    found, facts = kept[0]
    first = _own(facts) if digest == ~inverse else _first(comm, facts)
    return found, first, (numbers_of_all[0], numbers_of_all[1])


def alike(comm: _core.Communicator, look: Callable[[], T], facts_of: Callable[[T], Facts]) -> tuple[T, dict[str, Any]]:
    """What look() finds on this rank, and the facts that all ranks share: rank 0's numbers, which others have to use.

    Parameters
    ----------
    look : callable
        Checks the arguments and returns what it makes of them; it must not send or wait for messages. If it raises on
        any rank, every rank raises the same.
    facts_of : callable
        Of what look() returned, that which must be the same on all ranks, by the names that errors use: numbers, texts,
        and :class:`Whole` or :class:`Entries`.

    Raises
    ------
    ValueError
        On every rank: where ranks differ by more than the rounding of numbers.

    Notes
    -----
    Collective; one small reduction.
    """
    found, first, _ = alike_and_least(comm, look, facts_of)
    return found, first


def same(comm: _core.Communicator, facts: Facts) -> dict[str, Any]:
    """:func:`alike` for what needs no look."""
    if comm.size == 1:
        return _own(facts)
    return alike(comm, lambda: None, lambda _: facts)[1]


# -- the smallest scalar that holds what each rank has, by two numbers whose least is taken ----------------------------


def scalar_bits(scalar: str, counts: bool = True) -> tuple[int, int]:
    """0 where the scalar is complex, and where it is of double precision, else 1; 2 on a rank that does not count."""
    if not counts:
        return 2, 2
    return int(not scalar.startswith("complex")), int(scalar not in ("float64", "complex128"))


def scalar_of_bits(bits: tuple[int, int], own: str) -> str:
    """The scalar for all; this rank's where no rank counts."""
    if bits[0] == 2:
        return own
    return common_scalar(*(["complex64"] if bits[0] == 0 else []), "float64" if bits[1] == 0 else "float32")


# -- arrays whose checksums differ -------------------------------------------------------------------------------------


def _place(array: Array, k: int) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(k, array.shape))}]"


def _compared(comm: _core.Communicator, array: Array, by_rounding: str, place: Callable[[int], str]) -> Array:
    """The array to be used. ValueError on every rank, with the first place, where ranks differ (by more than rounding).
    Collective; sends rank 0's array to all.
    """
    mine = np.ascontiguousarray(array).reshape(-1)
    size = np.abs(mine[np.isfinite(mine)]).max(initial=0) if comm.rank == 0 else 0
    kind, largest = json.loads(comm.broadcast(json.dumps([mine.dtype.str, float(size)]).encode(), 0))
    pieces = []
    for begin in range(0, len(mine), _PIECE):
        piece = mine[begin : begin + _PIECE]
        first = np.frombuffer(comm.broadcast(piece.tobytes(), 0), kind)
        wrong = np.flatnonzero(_differ(first, piece, largest, by_rounding == "refused"))
        at = comm.all_min(begin + int(wrong[0]) if len(wrong) else len(mine))
        if at < len(mine):
            values = [part.decode() for part in comm.all_gather(str(mine[at]).encode())]
            rank = next((r for r, value in enumerate(values) if value != values[0]), comm.size - 1)
            raise ValueError(
                f"{place(at)} is {values[0]} on rank 0 and {values[rank]} on rank {rank}; all ranks must give the same"
            )
        if by_rounding == "first":
            pieces.append(first)
    return np.concatenate(pieces).reshape(array.shape) if pieces else array


def _differ(a: Array, b: Array, largest: float, exact: bool) -> Array:
    """Where elements differ; unless `exact`, by more than the rounding of numbers, or of sums of numbers of this
    size.
    """
    with np.errstate(all="ignore"):
        wrong: Array = (a != b) & ~((a != a) & (b != b))
        if not exact and (a.dtype.kind in "fc" or b.dtype.kind in "fc"):
            digits = max(np.finfo(x.dtype).eps for x in (a, b) if x.dtype.kind in "fc")
            near = 4096 * digits * np.maximum(np.abs(a), np.abs(b)) + 64 * digits * largest
            wrong &= ~(np.isfinite(a - b) & (np.abs(a - b) <= near))
    return wrong
