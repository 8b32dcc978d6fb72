"""Files of the command line: the matrix and right-hand side of a solve; info, check and convert."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from tacit import comm as _comm
from tacit import io, op, report
from tacit._core import InputError, UsageError
from tacit._names import printable

INFO_SCHEMA = "tacit.info/1"

KINDS = {
    "matrix_market": "Matrix Market",
    "petsc_binary": "PETSc binary",
    "npz": "NumPy archive",
    "npy": "NumPy array",
} | {io.RUTHERFORD: "Rutherford-Boeing"}


# --- for a solve ------------------------------------------------------------------------------------------------------


def read_matrix(path: str, comm: Any, scalar: str | None, node: int = 1) -> Any:
    """The distributed operator of a matrix file, nodes of so many rows kept together. Collective."""
    return op.read(path, comm=comm, scalar=scalar, node=node)


def read_square(path: str, comm: Any, scalar: str | None = None, node: int = 1) -> Any:
    """The same, of a matrix that has rows, and as many columns; InputError for others. Collective."""
    A = read_matrix(path, comm, scalar, node)
    if A.shape[0] != A.shape[1]:
        raise InputError(f"{path}: expected a square matrix, found {A.shape[0]} x {A.shape[1]}")
    if A.shape[0] == 0:
        raise InputError(f"{path}: expected a matrix with rows, found 0 x 0")
    return A


def rows_of(path: str) -> npt.NDArray[Any]:
    """The vectors or coordinates in a file, all of them as rows of an array of two dimensions. Local."""
    found = io.read_vector(path)
    return found if found.ndim == 2 else found.reshape(len(found), 1)


def uniform(seed: int, first: int, last: int) -> npt.NDArray[np.float64]:
    """Numbers `first` to `last` (excluded) of a sequence in [-1, 1) that depends on the seed only, so that ranks can
    generate parts of it.
    """
    # Philox makes four numbers for each value of its counter.
    made = np.random.Generator(np.random.Philox(key=seed, counter=first // 4)).random(last - first + first % 4)
    return 2 * made[first % 4 :] - 1


def check_near_null(A: Any, near_null: dict[str, str], precond: Any) -> None:
    """InputError where the files, of vectors or coordinates, do not fit to the rows of A. Local."""
    for name, path in near_null.items():
        rows, columns = precond[name].shape
        if name == "coordinates" and (columns not in (2, 3) or rows * columns != A.shape[0]):
            nodes = " or ".join(f"{A.shape[0] // d} x {d}" for d in (2, 3) if A.shape[0] % d == 0) or "nodes x 2 or 3"
            raise InputError(f"{path}: expected coordinates, {nodes}, for {A.shape[0]} rows, found {rows} x {columns}")
        if name == "near_null" and rows != A.shape[0]:
            raise InputError(f"{path}: expected vectors of {A.shape[0]} elements as columns, found {rows} x {columns}")


def has_vector(path: str) -> bool:
    """Whether a vector follows the matrix in its file, as in PETSc's files of a system. Local."""
    return io.detect(path) == "petsc_binary" and io.header(path).vectors == 1


def right_hand_side(what: str, A: Any, comm: Any) -> Any:
    """b for A, this rank's own part: ones, random:SEED (the same for any number of ranks), or a file of vectors as
    columns.

    In the scalar of A, except that a complex b stays complex for a real A.
    """
    first, last = A.own_range
    if what == "ones":
        return np.ones(last - first, A.dtype)
    if what == "random" or what.startswith("random:"):
        return uniform(int(what.partition(":")[2] or 0), first, last).astype(A.dtype)
    return _own_columns(what, A, A._handle.range_offsets, comm)


def first_guess(path: str, A: Any, b: Any, comm: Any) -> Any:
    """x0 from a file, this rank's own part: as many columns as b has. Collective."""
    x0 = _own_columns(path, A, A._handle.domain_offsets, comm)
    if x0.shape[1:] != b.shape[1:]:
        have, need = (array.shape[1] if array.ndim == 2 else 1 for array in (x0, b))
        found = f"{report.plural(have, 'vector')} for {report.plural(need, 'right-hand side')}"
        raise InputError(f"{path}: {found}; each needs one")
    return x0


def _own_columns(path: str, A: Any, offsets: Sequence[int], comm: Any) -> Any:
    """This rank's rows of the vector or the columns in a file, one column as a vector. Collective."""
    n, first, last = offsets[-1], offsets[comm.rank], offsets[comm.rank + 1]
    found = comm.collective(lambda: io.read_vector(path))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim not in (1, 2) or found.shape[0] != n or 0 in found.shape[1:]:
        shape = " x ".join(map(str, found.shape))
        needed = f"vectors of {n} elements as columns" if found.ndim == 2 else f"a vector of {n} elements"
        raise InputError(f"{path}: expected {needed}, found {shape}")
    own = np.ascontiguousarray(found[first:last])
    return own if own.dtype.kind == "c" and A.dtype.kind != "c" else own.astype(A.dtype)


def null_space(what: str | None, A: Any, comm: Any) -> Any:
    """The null space of A for ``nullspace``: "constant", or this rank's rows of the vectors in a file."""
    if what is None or what == "constant":
        return what
    vectors = comm.collective(lambda: io.read_vector(what))
    if vectors.shape[0] != A.shape[0]:
        found = " x ".join(map(str, vectors.shape))
        raise InputError(f"{what}: expected vectors of {A.shape[0]} elements as columns, found {found}")
    first, last = A.own_range
    return np.ascontiguousarray(vectors[first:last])


# --- info -------------------------------------------------------------------------------------------------------------


def banner(path: str) -> dict[str, str]:
    """What the first line of a Matrix Market file says: format, field, symmetry."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
        words = file.readline(1024).decode("ascii", "replace").lower().split()
    return {"format": words[2], "field": words[3], "symmetry": words[4]}


def info(path: str, json: str | None) -> int:
    """Prints what a file contains. ValueError when the file is not valid."""
    facts = describe(path)
    if json:
        report.write_json(facts, json)
    out = report.console(stderr=json == "-")
    out.print(printable(path), style="bold")
    report.print_facts(_sentences(facts), out)
    return 0


def describe(path: str) -> dict[str, Any]:
    header = io.header(path)
    facts: dict[str, Any] = {"schema": INFO_SCHEMA, "version": report.version(), "file": path}
    facts |= {"bytes": os.path.getsize(path), **header._asdict()}
    if not header.vectors:
        del facts["vectors"]
    if header.kind == "matrix_market":
        facts |= banner(path)
    vector = header.dense and min(header.rows, header.columns) <= 1
    facts["what"] = "vector" if vector else "matrix"
    if vector or header.dense:
        return facts | {"values": _spread(np.abs(io.read_vector(path)).ravel())}
    return facts | _matrix(path, header)


def _spread(magnitudes: npt.NDArray[Any]) -> dict[str, Any]:
    """The largest and the smallest magnitude other than zero, and the number of zeros."""
    some = magnitudes[magnitudes > 0]
    largest, smallest = (float(some.max()), float(some.min())) if len(some) else (0.0, 0.0)
    return {"largest": largest, "smallest": smallest, "zeros": int(len(magnitudes) - len(some))}


def _counts(lengths: npt.NDArray[Any]) -> dict[str, Any] | None:
    if not len(lengths):
        return None
    return {"least": int(lengths.min()), "mean": float(lengths.mean()), "most": int(lengths.max())}


def _matrix(path: str, header: io.Header) -> dict[str, Any]:
    from scipy.sparse import coo_array

    rows, columns, share = io.read_share(path, header.scalar)
    stored = len(share.value)
    A = coo_array((share.value, (share.row, share.column)), shape=(rows, columns)).tocsr()
    A.sum_duplicates()
    row = np.repeat(np.arange(rows, dtype=np.int64), np.diff(A.indptr))
    below = row - A.indices
    lengths = np.diff(A.indptr)
    magnitude = abs(A)
    facts: dict[str, Any] = {
        "nonzeros": int(A.nnz),
        "duplicates": int(stored - A.nnz),
        "row_entries": _counts(lengths),
        "empty_rows": int((lengths == 0).sum()),
        "empty_columns": int(columns - len(np.unique(A.indices))),
        "bandwidth": {"lower": int(max(0, below.max(initial=0))), "upper": int(max(0, (-below).max(initial=0)))},
        "values": _spread(magnitude.data),
        "row_norms": _spread(np.asarray(magnitude.max(axis=1).todense()).ravel()) if A.nnz else None,
        "column_norms": _spread(np.asarray(magnitude.max(axis=0).todense()).ravel()) if A.nnz else None,
    }
    if rows != columns:
        return facts | {"square": False}
    diagonal = A.diagonal()
    inside = np.abs(diagonal)
    outside = np.asarray(magnitude.sum(axis=1)).ravel() - inside
    pattern = A.copy()
    pattern.data = np.ones(A.nnz)
    mirrored = int((pattern - pattern.T.tocsr()).count_nonzero() == 0)
    scale = float(magnitude.data.max(initial=0.0))
    defect = abs(A - A.conj().T.tocsr())
    numeric = float(defect.data.max(initial=0.0)) / scale if scale else 0.0
    real = bool(np.all(diagonal.imag == 0))
    positive, negative = (bool(real and np.all(sign * diagonal.real > 0)) for sign in (1, -1))
    stored_by_tacit = op.csr(A, comm=_comm.self_())
    mirrors = stored_by_tacit.is_hermitian()
    return facts | {
        "square": True,
        "storage": stored_by_tacit.storage,
        "diagonal": _spread(inside) | {"positive": positive},
        "dominant_rows": int((inside >= outside).sum()),
        "symmetric_pattern": bool(mirrored),
        "hermitian": mirrors,
        "hermitian_defect": numeric,
        "advice": _advice(header.scalar, mirrors, positive, negative, int((inside == 0).sum())),
    }


def hermitian(scalar: str) -> str:
    return "Hermitian" if scalar.startswith("complex") else "symmetric"


def _advice(scalar: str, mirrors: bool, positive: bool, negative: bool, zeros: int) -> str:
    """The method and preconditioner to try first."""
    name = hermitian(scalar)
    if mirrors and (positive or negative):
        sign = "positive" if positive else "negative"
        return f"{name} with a {sign} diagonal: --method cg --precond ic0, if it is {sign} definite"
    if zeros:
        return f"{report.plural(zeros, 'zero')} on the diagonal: --method gmres --precond spai"
    if mirrors:
        return f"{name} but not definite: --method gmres --precond ilu0"
    return f"not {name}: --method gmres or bicgstab, --precond ilu0"


def _range(spread: dict[str, Any] | None) -> str:
    if not spread or not spread["largest"]:
        return "all zero"
    zeros = f", {report.plural(spread['zeros'], 'zero')}" if spread["zeros"] else ""
    return f"{spread['smallest']:.3g} to {spread['largest']:.3g}{zeros}"


def _sentences(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    words = [KINDS[facts["kind"]], *(facts[key] for key in ("format", "field", "symmetry") if key in facts)]
    yield "file", f"{' '.join(words)}, {report.size(facts['bytes'])}"
    shape = f"{report.count(facts['rows'])} x {report.count(facts['columns'])} {facts['what']}, {facts['scalar']}"
    if "nonzeros" not in facts:
        yield "holds", shape
        yield "magnitudes", _range(facts["values"])
        return
    yield "holds", f"{shape}, {report.plural(facts['nonzeros'], 'nonzero')}"
    notes = [f"{report.plural(facts['entries'], 'entry')} stored"]
    if facts["duplicates"]:
        notes.append(f"{report.plural(facts['duplicates'], 'duplicate')} added up")
    if facts.get("vectors"):
        notes.append(f"{report.plural(facts['vectors'], 'vector')} behind the matrix")
    yield "", ", ".join(notes)
    if facts["row_entries"]:
        r = facts["row_entries"]
        empty = "".join(
            f", {report.count(facts[f'empty_{what}'])} {what} empty"
            for what in ("rows", "columns")
            if facts[f"empty_{what}"]
        )
        yield "in a row", f"{r['least']} to {r['most']} nonzeros, {r['mean']:.3g} on average{empty}"
    lower, upper = (report.count(facts["bandwidth"][side]) for side in ("lower", "upper"))
    yield "bandwidth", f"{lower} below, {upper} above"
    yield "magnitudes", _range(facts["values"])
    yield "largest in", f"a row {_range(facts['row_norms'])}; a column {_range(facts['column_norms'])}"
    if facts["square"]:
        sign = ", all positive" if facts["diagonal"]["positive"] else ""
        yield "diagonal", f"{_range(facts['diagonal'])}{sign}; dominant in {report.count(facts['dominant_rows'])} rows"
        pattern = "symmetric" if facts["symmetric_pattern"] else "not symmetric"
        name = hermitian(facts["scalar"])
        defect = f"{facts['hermitian_defect']:.1e} of the largest"
        values = f"not {name} (by {defect})"
        if facts["hermitian"]:
            values = name if facts["hermitian_defect"] == 0 else f"{name} but for rounding ({defect})"
        yield "symmetry", f"pattern {pattern}, values {values}"
        yield "in memory", facts["storage"]
        yield "try", facts["advice"]


# --- check ------------------------------------------------------------------------------------------------------------


def check(path: str, out: TextIO | None = None) -> dict[str, Any]:
    """Reads all of a file, prints that it is valid, and returns what was found; ValueError with the line or byte if it
    is not.
    """
    header = io.header(path)
    shape = f"{report.count(header.rows)} x {report.count(header.columns)}"
    if header.dense:
        values = io.read_vector(path)
        wrong = np.flatnonzero(~np.isfinite(values))
        what = f"{shape}, dense"
    else:
        share = io.read_share(path, header.scalar)[2]
        wrong = np.flatnonzero(~np.isfinite(share.value))
        entries = report.plural(header.entries, "entry")
        what = f"{shape}, {entries}"
    if len(wrong):
        raise InputError(f"{path}: value {wrong[0] + 1} is not finite")
    print(f"{printable(path)}: valid, {KINDS[header.kind]}, {what}, {header.scalar}", file=out)
    return {"file": path, "valid": True, "bytes": os.path.getsize(path), **header._asdict()}


# --- convert ----------------------------------------------------------------------------------------------------------


def convert(source: str, target: str, out: TextIO | None = None) -> dict[str, Any]:
    """Converts `source` to the format given by the suffix of `target`, and returns what was written. The file appears
    complete or not at all.
    """
    from scipy.sparse import coo_array, csr_array

    header = io.header(source)
    if header.dense:
        values = io.read_vector(source)
        block = values.ndim == 2 and values.shape[1] > 1
        # PETSc's vectors have one column: a dense block becomes a matrix of its entries other than zero.
        op.write(target, csr_array(values) if block and io.written_kind(target) == "petsc" else values)
        held = "vector" if values.ndim == 1 or values.shape[1] == 1 else "dense block"
        return _said(source, target, held, (header.rows, header.columns), None, out)
    if io.written_kind(target) == "npy":
        raise UsageError(f"{target}: .npy holds vectors, and {source} is a sparse matrix; .npz holds those")
    rows, columns, share = io.read_share(source, header.scalar)
    A = coo_array((share.value, (share.row, share.column)), shape=(rows, columns)).tocsr()
    del share
    A.sum_duplicates()
    op.write(target, A)
    return _said(source, target, "matrix", (rows, columns), int(A.nnz), out)


def _said(
    source: str, target: str, what: str, shape: tuple[int, int], nonzeros: int | None, out: TextIO | None
) -> dict[str, Any]:
    """Prints what was converted, and returns it."""
    before, after = os.path.getsize(source), os.path.getsize(target)
    text = f"{what}, {report.count(shape[0])} x {report.count(shape[1])}"
    text += "" if nonzeros is None else f", {report.plural(nonzeros, 'nonzero')}"
    names = f"{printable(source)} ({report.size(before)}) -> {printable(target)} ({report.size(after)})"
    print(f"{names}: {text}", file=out)
    facts = {"source": source, "source_bytes": before, "target": target, "target_bytes": after, "what": what}
    return facts | {"rows": shape[0], "columns": shape[1], "nonzeros": nonzeros}
