"""Reads and writes matrices and vectors in files."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt

from .. import comm as _comm
from .. import io, layout
from .._alike import alike
from .._support import agreed, chosen_scalar, core, scalar_name, to_scalar
from .base import Operator
from .grids import Stencil
from .matrices import _compressed, _is_sparse
from .stored import Csr, DeviceCsr


def read(path: str | os.PathLike[str], comm: Any = None, scalar: npt.DTypeLike | None = None, *, node: int = 1) -> Csr:
    """Reads a matrix from a Matrix Market (.mtx, .mtx.gz), PETSc binary, .npz (scipy.sparse.save_npz) or
    Rutherford-Boeing file. The format is recognized by the content of the file.

    Parameters
    ----------
    path : path-like
        On a file system that every rank reads.
    comm : communicator, optional
    scalar : dtype, optional
        float32, float64, complex64 or complex128; default float64, or complex128 for a complex file.
    node : int
        So many rows stay on one rank: those of a node of a mesh, as preconditioners with nodes need.

    Returns
    -------
    Csr
        Rows in equal blocks. Symmetric files are expanded, duplicate entries added. Collective: of a text file every
        rank parses its share and sends entries to the owners of their rows; of a PETSc file, and of a NumPy file in
        csr that is not compressed, it reads its own rows; other NumPy files are read by every rank.

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

    def look() -> tuple[str, int, int, io.Rows | io.Share | io.NpzRows | str]:
        wanted = chosen_scalar(scalar)
        if (kind := io.kind_of_matrix(path)) is not None:  # of which each rank reads its rows, or a share of the text
            header = io.header(path)
            return wanted or io.default_scalar(header.scalar), header.rows, header.columns, kind
        if (stored := io.npz_rows(path, wanted)) is not None:  # likewise
            return wanted or io.default_scalar(stored.scalar), stored.rows, stored.columns, stored
        rows, columns, held = io.read_matrix(path, wanted, on.rank, on.size)
        return scalar_name(held.value.dtype, str(path)), rows, columns, held

    def tell(found: tuple[str, int, int, Any]) -> dict[str, Any]:
        scalar, rows, columns, mine = found
        kind = mine if isinstance(mine, str) else type(mine).__name__
        return {"the matrix of the file": f"{rows} x {columns}, {kind}", "scalar": scalar, "node": str(node)}

    (wanted, rows, columns, mine), _ = alike(on, look, tell)
    by_row = layout.blocks(rows, on.size, node)
    by_column = by_row if rows == columns else layout.blocks(columns, on.size)
    if isinstance(mine, str):
        handle = core(mine, wanted)(on, by_row, by_column, os.fspath(path))
    elif isinstance(mine, io.NpzRows):
        handle = core("read_npz", wanted)(on, by_row, by_column, os.fspath(path), mine.arrays)
    elif isinstance(mine, io.Rows):
        handle = core("csr", wanted)(on, by_row, by_column, 0, mine.start, mine.column, mine.value, "automatic")
    else:
        total = on.all_sum(mine.parsed)
        agreed(on, lambda: io.check_count(path, total))
        handle = core("assemble", wanted)(on, by_row, by_column, mine.row, mine.column, mine.value)
    return Csr(handle, on, wanted)


def write(path: str | os.PathLike[str], a: Any) -> None:
    """Writes a matrix or a vector. The suffix of `path` chooses the format: Matrix Market (.mtx, .mtx.gz), .npz, .npy
    (vectors), or PETSc binary (.petsc, .dat, .bin).

    Parameters
    ----------
    path : path-like
    a : Csr, Stencil, SciPy sparse matrix, ndarray
        An array of one dimension (or n x k) is written as a vector (or dense block).

    Notes
    -----
    Collective for an operator on several ranks: the matrix is gathered, and rank 0 writes. Otherwise local. The file
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
    elif isinstance(a, DeviceCsr):
        raise TypeError(
            f"the matrix is in the memory of {a.device}; A.to('host') is a copy in host memory, to be written"
        )
    elif isinstance(a, Operator):
        raise TypeError(f"a {type(a).__name__} operator has no entries to write")
    else:
        io.write_vector(path, a)
