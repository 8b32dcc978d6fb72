"""Matrices and right-hand sides from contributions of any rank to any row."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import comm as _comm
from .._alike import alike, alike_and_least, scalar_bits, scalar_of_bits
from .._support import (
    Array,
    agreed,
    as_array,
    choose,
    chosen_scalar,
    common_scalar,
    core,
    real_number,
    scalar_name,
    to_scalar,
    vectors_of,
    whole_number,
)
from .contributions import Entries, Fixed, Reader, Sums, index_of, plan_needed, refuse_crowded, size_of
from .stored import FORMATS, Csr


class Assembler:
    """Puts together a matrix and right-hand sides from contributions that any rank makes to any row.

    Every rank adds what it has, element matrix by element matrix or all at once, and :meth:`finish` sends what belongs
    to the rows of other ranks there. A later round of contributions to the same places replaces the values in place,
    and sends nothing but values.

    Parameters
    ----------
    shape : int or tuple of int
        Of the matrix; n stands for (n, n).
    rhs : int
        The number of right-hand sides. Default: 1.
    own_rows : bool
        ``shape`` counts this rank's own rows alone: rank 0 has the first ones, rank 1 those that follow, and so on; a
        rank may have none. Default: equal blocks (:func:`tacit.layout.blocks`).
    node : int
        With equal blocks so many rows stay on one rank: those of a node of the mesh.
    comm : communicator, optional
    scalar : dtype, optional
        Default: the smallest that holds the contributions of all ranks to the first :meth:`finish`.
    format : str
        Of the stored matrix; see :func:`tacit.csr`.
    nullspace, left_nullspace : optional
        What the matrix maps to zero, as ``nullspace`` of :func:`tacit.solve`: solves with it take these by themselves
        (:meth:`tacit.Csr.set_nullspace`).
    fixed_diagonal : float, optional
        The diagonal in rows of fixed unknowns, such as 1 for the stiffness and 0 for the mass matrix of an eigenvalue
        problem. Default: what was added there, or 1 where that is zero.

    Attributes
    ----------
    shape : tuple of int
    comm : tacit.comm.Communicator
    own_range : tuple of int
        This rank owns rows ``own_range[0] <= i < own_range[1]``.

    Notes
    -----
    Only the constructor, :meth:`finish` and :meth:`values_at` are collective. What is wrong in a contribution is raised
    at once on one rank; on several ranks by :meth:`finish`, on all of them alike, with the place of the call.

    The result has the same bits for any number of ranks and any order of contributions: those to an entry are summed
    from the smallest magnitude to the largest, and a matrix whose element matrices are symmetric is symmetric to the
    bit (real numbers).

    Cost: the first :meth:`finish` sends 16 bytes and a value for each contribution to a row of another rank, and sorts;
    later ones send the values only, in one message to each rank that owns such rows, and take a pass over the
    contributions and one over the matrix. Memory: values as given until :meth:`finish`; 4 bytes for each contribution
    and 20 for each entry are kept; about 50 for each contribution while a new plan is made.

    Examples
    --------
    Springs between neighbours, held at one end and pulled at the other:

    >>> import numpy as np, tacit
    >>> n = 50
    >>> springs = np.column_stack([np.arange(n - 1), np.arange(1, n)])  # on several ranks: a part of them
    >>> K = tacit.Assembler(n)
    >>> K.add_elements(springs, [[2.0, -2.0], [-2.0, 2.0]])
    >>> K.add_rhs(n - 1, 1.0)
    >>> K.fix(0)
    >>> A, b = K.finish()
    >>> x, info = tacit.solve(A, b)
    >>> print(f"{x[-1]:.3f}")
    24.500

    Stiffer ones: the same places, so that A takes the new values in place.

    >>> K.add_elements(springs, [[4.0, -4.0], [-4.0, 4.0]])
    >>> K.finish()[0] is A
    True
    >>> print(f"{tacit.solve(A, b).x[-1]:.3f}")
    12.250
    """

    def __init__(
        self,
        shape: int | tuple[int, int],
        *,
        rhs: int = 1,
        own_rows: bool = False,
        node: int = 1,
        comm: Any = None,
        scalar: npt.DTypeLike | None = None,
        format: str = "automatic",
        nullspace: Any = None,
        left_nullspace: Any = None,
        fixed_diagonal: float | None = None,
    ) -> None:
        on = self.comm = _comm.resolve(comm)

        given = {
            "shape": shape, "rhs": rhs, "own_rows": bool(own_rows), "node": node, "scalar": scalar, "format": format,
            "nullspace": nullspace, "left_nullspace": left_nullspace, "fixed_diagonal": fixed_diagonal
        }  # fmt: skip
        (rows, columns), _ = alike(on, lambda: _checked(**given), lambda size: _facts(size, **given))
        if own_rows:
            counts = [int.from_bytes(part, "little") for part in on.all_gather(rows.to_bytes(8, "little"))]
            self._rows = [sum(counts[:r]) for r in range(on.size + 1)]
        else:
            self._rows = agreed(on, lambda: layout.blocks(rows, on.size, node))
        n = self._rows[-1]
        self.shape = (n, n if columns is None else columns)
        self._columns = self._rows if self.shape[1] == n else layout.blocks(self.shape[1], on.size)
        for offsets, what in ((self._rows, "rows"), (self._columns, "columns")):
            agreed(on, functools.partial(refuse_crowded, on.rank, offsets, what))
        self.own_range = (self._rows[on.rank], self._rows[on.rank + 1])
        self._k = int(rhs)
        self._scalar = chosen_scalar(scalar)
        self._format, self._diagonal = format, fixed_diagonal
        self._spaces = None if nullspace is None else (nullspace, left_nullspace)
        self._entries = Entries(on, self._rows, self.shape[1])
        self._matrix = self._entries.given
        self._vectors = Sums(on, self._rows, 1, self._k)
        self._fixed = agreed(on, lambda: Fixed(on, self._rows, self._k))
        self._result: Csr | None = None
        self._reader: Reader | None = None
        self._values: Array | None = None  # of the entries that were added to
        self._f: Array | None = None  # what was added to this rank's rows of the right-hand sides
        self._error: Exception | None = None

    def __repr__(self) -> str:
        n, m = self.shape
        return f"<tacit.Assembler of {n} x {m} on {self.comm.size} ranks, rows {self.own_range[0]}:{self.own_range[1]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "an Assembler can be neither pickled nor copied: its plan refers to other ranks; pickle the matrix that"
            " finish() returned, or make it anew"
        )

    # -- contributions -------------------------------------------------------------------------------------------------

    def add(self, i: Any, j: Any, v: Any) -> None:
        """Adds v to the entries (i, j).

        Parameters
        ----------
        i, j : array_like of int
            Rows and columns of any rank, counted from 0, of shapes that go together with each other (NumPy's rules:
            ``add(rows[:, None], columns[None, :], dense)``). Entries may occur many times.
        v : array_like
            Numbers of a shape that goes together with theirs. A copy is kept.

        Raises
        ------
        ValueError, TypeError
            For an index out of range, a value that is not finite (both with the place), shapes that do not go together,
            and complex values for a real matrix.
        """
        if type(i) is int and type(j) is int and type(v) is float and v - v == 0 and self._error is None:
            n, m = self.shape
            if 0 <= i < n and 0 <= j < m:  # one entry after another, in a loop of Python
                self._matrix.singles.append((i, j, v))
                return
        self._note(lambda: self._matrix.take(self._places(i, j), v, "v", self._scalar, False))

    def insert(self, i: Any, j: Any, v: Any) -> None:
        """As :meth:`add`, but the entries become v. Of several values for one entry the last is taken; ranks that
        insert the same entry have to give the same value (to rounding), and an entry is either added to or inserted:
        ValueError by :meth:`finish` otherwise.
        """
        self._note(lambda: self._matrix.take(self._places(i, j), v, "v", self._scalar, True))

    def add_elements(self, rows: Any, values: Any, columns: Any = None) -> None:
        """Adds element matrices: ``values[e, p, q]`` to the entry (``rows[e, p]``, ``columns[e, q]``).

        Parameters
        ----------
        rows : array_like of int, shape (m, p) or (p,)
            The unknowns of m elements, or of one. With d unknowns a node: ``d * nodes[..., None] + range(d)``, taken
            together.
        values : array_like, shape (m, p, q) or (p, q)
            (p, q) with m elements: the same matrix for each.
        columns : array_like of int, shape (m, q) or (q,), optional
            Default: `rows`.

        Raises
        ------
        ValueError, TypeError
            As :meth:`add`.
        """

        def take() -> None:
            row = index_of(rows, "rows", self.shape[0], "rows")
            column = row if columns is None else index_of(columns, "columns", self.shape[1], "columns")
            if columns is None and self.shape[0] != self.shape[1]:
                column = index_of(rows, "rows", self.shape[1], "columns")
            matrices = as_array(values, "values")
            if row.ndim < 1 or matrices.ndim < 2 or matrices.shape[-2:] != (row.shape[-1], column.shape[-1]):
                need = "(.., p, q) of elements with p rows and q columns"
                raise ValueError(
                    f"values of shape {matrices.shape} do not go with rows of shape {row.shape}"
                    f"{'' if columns is None else f' and columns of shape {column.shape}'}; they are {need}"
                )
            places = (row[..., :, None], column[..., None, :])
            self._matrix.take(places, matrices, "values", self._scalar, False)

        self._note(take)

    def add_rhs(self, i: Any, v: Any) -> None:
        """Adds v to the rows i, of any rank, of the right-hand sides.

        Parameters
        ----------
        i : array_like of int
        v : array_like
            Of a shape that goes together with that of i; with k > 1 right-hand sides with ``i.shape + (k,)``.

        Raises
        ------
        ValueError, TypeError
            As :meth:`add`.
        """
        self._note(lambda: self._vectors.take(self._rows_at(i), v, "v", self._scalar, False))

    def insert_rhs(self, i: Any, v: Any) -> None:
        """As :meth:`add_rhs`, but the rows become v; the rules are those of :meth:`insert`."""
        self._note(lambda: self._vectors.take(self._rows_at(i), v, "v", self._scalar, True))

    def fix(self, i: Any, values: Any = 0.0) -> None:
        """Essential boundary conditions: the unknowns i have these values.

        Their rows and columns are taken out of the matrix, whose symmetry stays: with F the fixed unknowns and g their
        values, :meth:`finish` returns b_i = f_i - sum_j in F a_ij g_j for the other rows, and row i in F is a_ii x_i =
        a_ii g_i (``fixed_diagonal`` x_i = ..). Which unknowns are fixed is decided by the first :meth:`finish`; their
        values may change before later ones, and stay otherwise.

        Parameters
        ----------
        i : array_like of int
            Of any rank; also several times: ranks have to give the same value; of one rank's the last is taken.
        values : array_like
            Of a shape that goes together with that of i; with k > 1 right-hand sides with ``i.shape + (k,)``.

        Raises
        ------
        ValueError, TypeError
            As :meth:`add`, and for a matrix that is not square.
        """

        def take() -> None:
            if self.shape[0] != self.shape[1]:
                raise ValueError(
                    f"unknowns are fixed in a square matrix; this one is {self.shape[0]} x {self.shape[1]}"
                )
            self._fixed.given.take(self._rows_at(i), values, "values", self._scalar, True)

        self._note(take)

    def _note(self, call: Callable[[], None]) -> None:
        """Makes a contribution, or keeps its error for finish(): on several ranks the others learn it there."""
        if self._error is not None:
            return
        self._matrix.flush()
        try:
            call()
        except (TypeError, ValueError) as error:
            if self.comm.size == 1:
                raise
            where = sys._getframe(2)
            kind = TypeError if isinstance(error, TypeError) else ValueError
            self._error = kind(f"{error} (at {where.f_code.co_filename}:{where.f_lineno})")
            self._error.__cause__ = error

    def _places(self, i: Any, j: Any) -> tuple[Array, Array]:
        return index_of(i, "i", self.shape[0], "rows"), index_of(j, "j", self.shape[1], "columns")

    def _rows_at(self, i: Any) -> tuple[Array, Array]:
        return index_of(i, "i", self.shape[0], "rows"), np.zeros((), np.int64)

    # -- what comes of them --------------------------------------------------------------------------------------------

    def finish(self) -> tuple[Csr, Array]:
        """The matrix, and this rank's own rows of the right-hand sides (on one rank all).

        What no rank has contributed to since the last call stays: without contributions to the matrix A is as it was,
        and without any to the right-hand sides these are, up to new values of fixed unknowns. The first matrix decides
        the structure; later contributions may be to the same entries or some of them (the others are then zero).

        Returns
        -------
        A : Csr
            The same object at each call, with new values (as by ``A.update_values``: operators composed of it follow,
            a multigrid preconditioner by its ``update()``).
        b : ndarray of shape (n,) or (n, k)

        Raises
        ------
        ValueError, TypeError
            On every rank: for what was wrong in a contribution of any rank; an entry both added to and inserted,
            or inserted with different values; an entry that the first matrix lacks; other unknowns to be fixed than at
            first. The contributions of the round are dropped then.

        Notes
        -----
        Collective. Cost: see the class.
        """
        scalar = self._scalar
        try:
            new_matrix, new_vectors, new_fixed = self._agreed()
            assert self._scalar is not None
            if self._result is None and new_matrix is None:  # the same on all ranks
                raise ValueError("no rank has contributed to the matrix; add(), insert() and add_elements() do")
            # What may fail comes first, so that a round is taken or dropped as a whole.
            values = None
            if new_matrix is not None:
                values = self._entries.values(new_matrix, self._scalar, self._result is not None)
            f = None if new_vectors is None else self._vectors.dense(new_vectors, self._scalar)
            if new_fixed is not None:
                self._fixed.take(new_fixed, self._scalar, self._result is not None)
        except Exception:
            if self._result is None:
                self._scalar = scalar  # that of contributions which are dropped does not stay
            raise
        finally:
            for sums in (self._matrix, self._vectors, self._fixed.given):
                sums.clear()
            self._error = None
        if values is not None:
            self._take_matrix(values)
        if f is not None:
            self._f = f
        assert self._result is not None
        return self._result, self._right_hand_sides()

    def _agreed(self) -> tuple[bool | None, bool | None, bool | None]:
        """Of matrix, vectors and fixed unknowns whether the plan is made anew; None where no rank has contributed."""
        matrix, vectors, fixed = self._matrix, self._vectors, self._fixed.given

        def look() -> tuple[int, int, int, int]:
            if self._error is not None:
                raise self._error
            matrix.flush()
            return *matrix.state(), *vectors.state()

        def rest() -> tuple[int, int, int, int]:
            parts = [name for sums in (matrix, vectors, fixed) if (name := sums.scalar()) is not None]
            return *fixed.state(), *scalar_bits(common_scalar(*parts) if parts else "float64", bool(parts))

        first, second = self.comm.least(look), self.comm.least(rest)
        if self._scalar is None:
            self._scalar = scalar_of_bits((second[2], second[3]), "float64")
        return plan_needed(*first[:2]), plan_needed(*first[2:]), plan_needed(*second[:2])

    def _take_matrix(self, values: Array) -> None:
        """Gives the matrix these values. Collective."""
        structure = self._entries.structure
        assert self._scalar is not None
        assert structure is not None
        self._values = values
        if self._result is not None:
            self._result._take_values(self._fixed.without(values, self._diagonal))
            return
        self._fixed.leave_out(*structure)
        own = self._fixed.without(values, self._diagonal)
        start, column = self._fixed.structure or structure
        make = core("csr", self._scalar)
        handle = make(self.comm, self._rows, self._columns, self.own_range[0], start, column, own, self._format)
        self._result = Csr(handle, self.comm, self._scalar)
        if self._spaces is not None:
            self._result.set_nullspace(*self._spaces)

    def _right_hand_sides(self) -> Array:
        """Collective where unknowns are fixed."""
        assert self._values is not None
        if self._f is None:
            n = self.own_range[1] - self.own_range[0]
            self._f = np.zeros(n if self._k == 1 else (n, self._k), self._scalar)
        return self._fixed.lifted(self._f, self._values)

    def values_at(self, x: Any, i: Any) -> Array:
        """The elements i of a vector x, also those of other ranks: what elements read of the last iterate of a
        nonlinear problem.

        Parameters
        ----------
        x : array of shape (n,) or (n, k)
            Whole on every rank, or this rank's own part.
        i : array_like of int
            Each rank its own.

        Returns
        -------
        ndarray
            ``x[i]``. Collective; one message from each rank that has some, and a plan where i has changed.
        """
        comm = self.comm
        vector, index, scalar = _vector_and_places(comm, x, i, self.shape)
        if layout.form(comm, vector, self._rows, "x"):
            return np.asarray(vector[index])
        flat = np.ascontiguousarray(index, np.int64).reshape(-1)
        known = self._reader
        if not comm.all_min(int(known is not None and np.array_equal(known.index, flat))) or known is None:
            known = self._reader = Reader(comm, self._rows, flat)
        found = known.read(to_scalar(vector, scalar, "x"), scalar)
        return found.reshape(*index.shape, *vector.shape[1:])


def _vector_and_places(comm: _core.Communicator, x: Any, i: Any, shape: tuple[int, int]) -> tuple[Array, Array, str]:
    """A vector of a square matrix and places in it, and the scalar that holds the elements of all ranks. Collective."""

    def look() -> tuple[Array, Array]:
        if shape[0] != shape[1]:
            raise ValueError(f"the matrix is {shape[0]} x {shape[1]}; x belongs to a square one")
        return as_array(x, "x"), index_of(i, "i", shape[0], "elements")

    def tell(found: tuple[Array, Array]) -> dict[str, Any]:
        return {"x": f"an array of {found[0].shape[1:]}"}

    def bits(found: tuple[Array, Array]) -> tuple[int, int]:
        return scalar_bits(scalar_name(found[0].dtype, "x"), found[0].size > 0)

    (vector, index), _, least = alike_and_least(comm, look, tell, bits)
    return vector, index, scalar_of_bits(least, scalar_name(vector.dtype, "x"))


def _checked(
    shape: Any, rhs: Any, own_rows: bool, node: int, format: str, fixed_diagonal: Any, **other: Any
) -> tuple[int, int | None]:
    """The numbers of rows and, where they are given, columns. Local."""
    size = size_of(shape)
    choose("format", format, FORMATS)
    chosen_scalar(other["scalar"])
    if whole_number(rhs, "rhs") < 1:
        raise ValueError(f"rhs is {rhs}; at least one right-hand side is needed")
    if own_rows and node != 1:
        raise ValueError(f"node is {node}; it is for equal blocks, and own_rows says which rows a rank has")
    if fixed_diagonal is not None and not math.isfinite(real_number(fixed_diagonal, "fixed_diagonal")):
        raise ValueError(f"fixed_diagonal is {fixed_diagonal}; a finite number is needed")
    spaces = {what: other[what] for what in ("nullspace", "left_nullspace")}
    for what, space in spaces.items():
        vectors_of(space, what)
    if spaces["left_nullspace"] is not None and spaces["nullspace"] is None:
        raise ValueError("left_nullspace goes with nullspace, which was not given")
    return size


def _facts(size: tuple[int, int | None], *, own_rows: bool, **given: Any) -> dict[str, Any]:
    """What ranks must give alike: with `own_rows` each has a number of rows of its own."""
    facts = {"shape": str(size[1]) if own_rows else str(size), "own_rows": str(own_rows)}
    facts |= {name: str(given[name]) for name in ("rhs", "node", "format", "fixed_diagonal")}
    facts |= {name: str(given[name] is not None) for name in ("nullspace", "left_nullspace")}
    return facts | {"scalar": str(chosen_scalar(given["scalar"]))}
