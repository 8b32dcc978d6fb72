"""Matrices and vectors from files, and into them."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt

from .. import comm as _comm
from .. import io, layout
from .._support import agreed, chosen_scalar, core, scalar_name, to_scalar
from .matrices import _compressed, _is_sparse
from .operators import Csr, Operator, Stencil


def read(path: str | os.PathLike[str], comm: Any = None, scalar: npt.DTypeLike | None = None) -> Csr:
    """A matrix from a Matrix Market (.mtx, .mtx.gz), PETSc binary or .npz file (scipy.sparse.save_npz), by its content.

    Parameters
    ----------
    path : path-like
        Seen by every rank.
    comm : communicator, optional
    scalar : dtype, optional
        float32, float64, complex64 or complex128; default float64, or complex128 for a complex file.

    Returns
    -------
    Csr
        Rows in equal blocks; symmetric files are expanded and entries at one place added. Collective: every rank parses
        its share of the file, and entries travel to the owners of their rows.

    Raises
    ------
    FileNotFoundError, ValueError
        On every rank, with the file and the line (or byte).

    Examples
    --------
    >>> import os, tempfile, tacit
    >>> path = os.path.join(tempfile.mkdtemp(), "a.mtx")
    >>> tacit.write(path, tacit.poisson(4))
    >>> tacit.read(path).nnz
    10
    """
    on = _comm.resolve(comm)

    def share() -> tuple[str, int, int, io.Share]:
        wanted = chosen_scalar(scalar)
        if wanted is None:
            # Files of one precision lower are still computed with in double: float64 is the default.
            wanted = "complex128" if io.header(path).scalar.startswith("complex") else "float64"
        return wanted, *io.read_share(path, wanted, on.rank, on.size)

    wanted, rows, columns, mine = agreed(on, share)
    total = on.all_sum(mine.parsed)
    agreed(on, lambda: io.check_count(path, total))
    by_row = layout.blocks(rows, on.size)
    by_column = by_row if rows == columns else layout.blocks(columns, on.size)
    return Csr(core("assemble", wanted)(on, by_row, by_column, mine.row, mine.column, mine.value), on, wanted)


def write(path: str | os.PathLike[str], a: Any) -> None:
    """Writes a matrix or a vector; the ending of `path` says how: .mtx, .mtx.gz, .npz, .npy (vectors), .petsc, .dat,
    .bin.

    Parameters
    ----------
    path : path-like
    a : Csr, Stencil, SciPy sparse matrix, ndarray
        An array of one dimension (or n x k) is written as a vector (or dense block).

    Notes
    -----
    With an operator on several ranks collective: the matrix is gathered and rank 0 writes. Otherwise local. The file
    appears complete or not at all.

    Examples
    --------
    >>> import os, tempfile, tacit
    >>> path = os.path.join(tempfile.mkdtemp(), "a.npz")
    >>> tacit.write(path, tacit.poisson((3, 3)))
    >>> tacit.read(path).shape
    (9, 9)
    """
    if isinstance(a, Stencil):
        a = a.assemble()
    if isinstance(a, Csr):
        start, column, value = a._whole()

        def one() -> None:
            if a.comm.rank == 0:
                io.write_entries(path, a.shape, start, column, value)

        agreed(a.comm, one)
    elif _is_sparse(a):
        shape, start, column, value = _compressed(a, "the matrix")
        scalar = scalar_name(value.dtype, "the matrix")
        a = a.tocsr(copy=True)
        a.sum_duplicates()
        io.write_entries(path, shape, a.indptr, a.indices, to_scalar(a.data, scalar, "the matrix"))
    elif isinstance(a, Operator):
        raise TypeError(f"a {type(a).__name__} operator has no entries to write")
    else:
        io.write_vector(path, a)
