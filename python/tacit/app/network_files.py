"""Files of sparse networks: layers of weights and images, as text (.tsv, .tsv.gz), as SciPy's and NumPy's archives
(.npz, .npy), and as MATLAB's files (.mat).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._files import Archive, array_header, existing, load_arrays, refuse
from .._support import Array, as_array, core
from . import matlab

_BLOCK = 1 << 22  # bytes of an array of images that are read at a time
#: The kinds of files of layers, in the order in which they are looked for.
KINDS = (".npz", ".tsv", ".tsv.gz", ".mat")
#: The names of the matrices in MATLAB files that are written.
_IMAGE, _VARIABLE = "featureVectors", "W"


class Rows(NamedTuple):
    """The weights of a layer by output neuron: output j has those in [start[j], start[j + 1]), inputs ascending."""

    inputs: int
    start: npt.NDArray[np.int64]
    column: npt.NDArray[np.int32]
    value: npt.NDArray[np.float32]

    def matrix(self) -> Any:
        """The same as a SciPy matrix of inputs x outputs."""
        import scipy.sparse as sp

        return sp.csc_array((self.value, self.column, self.start), shape=(self.inputs, len(self.start) - 1)).tocsr()


def rows_of(matrix: Any) -> Rows:
    """The rows of a sparse matrix of inputs x outputs, duplicates added."""
    import scipy.sparse as sp

    w = sp.csc_array(matrix)
    refuse_complex("weights", w.dtype)
    if not w.has_canonical_format:
        w = w.copy()  # its arrays may be those of `matrix`
        w.sum_duplicates()
    with np.errstate(over="ignore"):  # the compiled part names a weight that is not finite
        value = w.data.astype(np.float32, copy=False)
    return Rows(w.shape[0], w.indptr.astype(np.int64), w.indices.astype(np.int32, copy=False), value)


class Layers(Sequence[Any]):
    """Layers that are made or read where they are accessed: as SciPy matrices of inputs x outputs, or by rows()."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, layer: Any) -> Any:
        if not -self._count <= layer < self._count:
            raise IndexError(f"layer {layer} of {self._count}")
        return self.rows(layer % self._count).matrix()

    def rows(self, layer: int) -> Rows:
        raise NotImplementedError


class LayerFiles(Layers):
    """The files n{neurons}-l1, .. of a folder, all of the first kind that is found there."""

    def __init__(self, folder: str | os.PathLike[str], neurons: int, layers: int) -> None:
        super().__init__(layers)
        self.neurons = neurons
        stems = [Path(folder) / f"n{neurons}-l{k + 1}" for k in range(layers)]
        kind = next((kind for kind in KINDS if stems and Path(f"{stems[0]}{kind}").exists()), None)
        if stems and kind is None:
            raise FileNotFoundError(f"{stems[0]}.tsv: no such file, and none that ends in {', '.join(KINDS)}")
        self.paths = [Path(existing(f"{stem}{kind}")) for stem in stems]

    def rows(self, layer: int) -> Rows:
        path = str(self.paths[layer])
        if path.endswith(".npz"):
            return rows_of(_of_archive(path, (self.neurons, self.neurons)))
        if path.endswith(".mat"):
            return rows_of(_of_matlab(path, (self.neurons, self.neurons)))
        return Rows(*core("read_layer")(path, self.neurons, _piped(path)))


def write_layers(folder: str | os.PathLike[str], neurons: int, layers: Sequence[Any], kind: str) -> Iterator[Path]:
    """Writes the files of LayerFiles, and gives the path of each as soon as it is complete."""
    from ..report import replacing

    for k in range(len(layers)):
        path = Path(folder) / f"n{neurons}-l{k + 1}{kind}"
        made = layers.rows(k) if isinstance(layers, Layers) else rows_of(layers[k])
        if (made.inputs, len(made.start) - 1) != (neurons, neurons):
            raise ValueError(
                f"layer {k} has {made.inputs} inputs and {len(made.start) - 1} outputs; the files of a network of"
                f" {neurons} neurons need so many"
            )
        if kind.startswith(".tsv"):
            output = np.repeat(np.arange(neurons, dtype=np.int32), np.diff(made.start))
            core("write_triples")(path, made.column, output, made.value)
        else:
            with replacing(path) as temporary:
                _write_matrix(temporary, made, kind)
        yield path


def _write_matrix(path: Path, made: Rows, kind: str) -> None:
    import scipy.sparse as sp

    # 32 bits where they suffice, as SciPy itself chooses.
    small = made.start[-1] < 2**31
    start = made.start.astype(np.int32) if small else made.start
    w = sp.csc_array((made.value, made.column, start), shape=(made.inputs, len(made.start) - 1))
    if kind == ".mat":
        matlab.write(path, _VARIABLE, w)
        return
    with open(path, "wb") as file:
        sp.save_npz(file, w, compressed=False)


# --- images -----------------------------------------------------------------------------------------------------------


#: Neighbouring images that one rank gets: those of io/triples.hpp.
DEALT = 16


def dealt(total: int, part: int, parts: int) -> npt.NDArray[np.int64]:
    """The numbers of the images of a part. They are dealt in turns, 16 neighbours at a time, so that neither sorted nor
    alternating images make parts differ.
    """
    number = np.arange(total, dtype=np.int64)
    mine: npt.NDArray[np.int64] = number[number // DEALT % parts == part]
    return mine


class Images(NamedTuple):
    """The images of a file that are dealt to a part."""

    images: Array  #: (images, neurons), or their bits
    packed: bool
    total: int  #: of the file


def read_images(path: str | os.PathLike[str], neurons: int, part: int = 0, parts: int = 1) -> Images:
    file = existing(path)
    mode = os.stat(file).st_mode
    if not stat.S_ISFIFO(mode):
        kind = core("detect")(file)
        if kind == "npy" or (kind == "npz" or file.endswith((".npy", ".npz"))):
            return _images_of_arrays(file, kind, neurons, part, parts)
        if file.endswith(".mat") or matlab.is_matlab(file):
            return _some(file, _of_matlab(file, (None, neurons)), neurons, part, parts)
    count, bits, dense = core("read_images")(file, neurons, _piped(file), part, parts)
    packed = len(bits) > 0 or len(dense) == 0
    width = (neurons + 7) // 8 if packed else neurons
    return Images((bits if packed else dense).reshape(-1, width), packed, count)


def _piped(path: str) -> bytes | None:
    """The text of a pipe, which can be read once; None for other files."""
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return None
    with open(path, "rb") as stream:
        return stream.read()


def _images_of_arrays(file: str, kind: str, neurons: int, part: int, parts: int) -> Images:
    if kind == "npy" and parts > 1 and (rows := _rows_of_file(file, part, parts)) is not None:
        return _some(file, rows.images, neurons, 0, 1, total=rows.total)
    if kind == "npz":
        with Archive(file) as archive:
            sparse = "indptr" in archive
        if sparse:
            return _some(file, _of_archive(file, (None, neurons)), neurons, part, parts)
    found = load_arrays(file)
    if not isinstance(found, dict):
        return _some(file, found, neurons, part, parts)
    packed = "bits" in found
    if not packed and len(found) != 1:
        refuse(file, f'arrays {", ".join(found) or "of no name"}; "bits" or a single one is needed')
    return _some(file, found["bits"] if packed else next(iter(found.values())), neurons, part, parts, packed)


def _rows_of_file(file: str, part: int, parts: int) -> Images | None:
    """The rows of a part of the matrix in a .npy file; None where that takes all of it, or something is wrong."""
    with open(file, "rb") as stream:
        head = array_header(file, stream, "the array")
        size, rows = head.size * head.dtype.itemsize, head.shape[0] if len(head.shape) == 2 else 0
        if rows == 0 or size == 0 or head.fortran or size != os.path.getsize(file) - head.length:
            return None
        width = size // rows
        some = np.empty((len(dealt(rows, part, parts)), width), np.uint8)
        step, at = max(1, _BLOCK // width // DEALT) * DEALT * parts, 0  # whole turns
        for first in range(0, rows, step):
            block = np.fromfile(stream, np.uint8, min(step, rows - first) * width).reshape(-1, width)
            mine = block[dealt(len(block), part, parts)]
            some[at : at + len(mine)] = mine
            at += len(mine)
    if head.dtype == np.bool_ and some.max(initial=0) > 1:
        refuse(file, f"the array has {some.max()} for a truth value; 0 or 1 is needed")
    return Images(some.view(head.dtype).astype(head.dtype.newbyteorder("="), copy=False), False, rows)


def _some(
    file: str, found: Any, neurons: int, part: int, parts: int, packed: bool = False, total: int | None = None
) -> Images:
    """The rows of a part of an array or a sparse matrix, whose shape and type are checked. total: those of
    the file, if these are not all.
    """
    wanted = (neurons + 7) // 8 if packed else neurons
    if found.ndim != 2 or found.shape[1] != wanted:
        refuse(file, f"an array of shape {found.shape} where (images, {wanted}) is needed")
    total = found.shape[0] if total is None else total
    if total == 0:
        refuse(file, f"an array of shape {found.shape}: no images; at least one is needed")
    if found.dtype.kind not in "biuf" or (packed and found.dtype != np.uint8):
        refuse(file, f"an array of {found.dtype} where {'bytes' if packed else 'numbers'} are needed")
    some = found if parts == 1 else found[dealt(found.shape[0], part, parts)]
    if not isinstance(some, np.ndarray):
        packed, some = _unpacked(some)
    return Images(np.asarray(some), packed, total)


def _unpacked(matrix: Any) -> tuple[bool, Array]:
    """A sparse matrix as bits where all its entries are 0 or 1, else as float32."""
    matrix.sum_duplicates()
    if np.isin(matrix.data, (0, 1)).all():
        return True, pack(matrix)
    with np.errstate(over="ignore"):
        return False, matrix.astype(np.float32).toarray()


def pack(matrix: Any) -> npt.NDArray[np.uint8]:
    """The bits of a csr matrix of zeros and ones, as numpy.packbits(.., axis=1) makes them, without the dense array."""
    rows, neurons = matrix.shape
    bits = np.zeros((rows, (neurons + 7) // 8), np.uint8)
    row = np.repeat(np.arange(rows), np.diff(matrix.indptr))[matrix.data != 0]
    column = matrix.indices[matrix.data != 0]
    np.bitwise_or.at(bits, (row, column // 8), (0x80 >> column % 8).astype(np.uint8))
    return bits


def refuse_complex(what: str, dtype: np.dtype[Any]) -> None:
    """TypeError."""
    if dtype.kind == "c":
        raise TypeError(f"{what} are {dtype}; real numbers are needed")


def write_images(path: str | os.PathLike[str], images: Any, neurons: int, packed: bool) -> None:
    """Writes what read_images reads."""
    import scipy.sparse as sp

    from ..report import replacing

    given, name = as_array(images, "images"), os.fspath(path)
    wanted = (neurons + 7) // 8 if packed else neurons
    if given.ndim != 2 or given.shape[1] != wanted or (packed and given.dtype != np.uint8):
        raise ValueError(f"images have shape {given.shape} and type {given.dtype}; (images, {wanted}) is needed")
    if name.endswith((".tsv", ".tsv.gz", ".mat")):
        refuse_complex("images", given.dtype)
        with np.errstate(over="ignore"):
            plain = (np.unpackbits(given, axis=1, count=neurons) if packed else given).astype(np.float32)
        if not np.isfinite(plain).all():
            raise ValueError("images have numbers that are not finite as float32, which no reader takes")
        w = sp.csr_array(plain)
        if not name.endswith(".mat"):
            if not plain[-1:].any():
                raise ValueError(
                    f"{name}: text has no place for the number of images where the last one is all zero, as here;"
                    " .npz and .mat have"
                )
            row = np.repeat(np.arange(len(given), dtype=np.int32), np.diff(w.indptr))
            core("write_triples")(name, row, w.indices.astype(np.int32), w.data)
            return
        with replacing(path) as temporary:
            matlab.write(temporary, _IMAGE, w)
        return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        if packed or given.dtype == np.bool_:
            np.savez(file, bits=given if packed else np.packbits(given, axis=1))
        else:
            np.savez(file, given)


# --- sparse matrices of archives and of MATLAB ------------------------------------------------------------------------


def _checked(path: str, shape: tuple[int | None, int], matrix: dict[str, Any]) -> Any:
    """The sparse matrix of SciPy's arrays, whose numbers have been compared with one another."""
    import scipy.sparse as sp

    kind, size = str(matrix["format"]), tuple(int(n) for n in np.ravel(matrix["shape"]))
    if len(size) != 2 or size[1] != shape[1] or (shape[0] is not None and size[0] != shape[0]):
        wanted = f"({'images' if shape[0] is None else shape[0]}, {shape[1]})"
        refuse(path, f"a matrix of shape {size} where {wanted} is needed")
    start, index, data = (np.asarray(matrix[name]) for name in ("indptr", "indices", "data"))
    outer, inner = size if kind == "csr" else size[::-1]
    if (
        start.ndim != 1
        or index.ndim != 1
        or data.ndim != 1
        or start.dtype.kind not in "iu"
        or index.dtype.kind not in "iu"
    ):
        refuse(path, "indptr, indices and data of one dimension, the first two of whole numbers, are needed")
    if len(start) != outer + 1 or start[0] != 0 or (np.diff(start.astype(np.int64)) < 0).any():
        refuse(path, f"indptr of {len(start)} numbers; {outer + 1} that ascend from 0 are needed")
    if start[-1] > len(index) or len(index) != len(data) or data.dtype.kind not in "biuf":
        refuse(path, f"{start[-1]} entries by indptr, {len(index)} indices and {len(data)} values of {data.dtype}")
    index, data = index[: int(start[-1])], data[: int(start[-1])]
    if len(index) and (index.min() < 0 or index.max() >= inner):
        refuse(path, f"indices from {index.min()} to {index.max()}; 0 to {inner - 1} are needed")
    made = {"csr": sp.csr_array, "csc": sp.csc_array}[kind]((data, index, start), shape=size)
    return made if shape[0] is not None else made.tocsr()


def _of_archive(path: str, shape: tuple[int | None, int]) -> Any:
    """The matrix of scipy.sparse.save_npz."""
    with Archive(path) as archive:
        missing = [name for name in ("format", "shape", "indptr", "indices", "data") if name not in archive]
        if missing:
            refuse(path, f"no array {missing[0]!r}; a csr or csc matrix of scipy.sparse.save_npz is needed")
        found: dict[str, Any] = {name: archive[name] for name in ("format", "shape")}
        kind = found["format"].item() if found["format"].size == 1 else b""
        found["format"] = kind.decode("latin-1") if isinstance(kind, bytes) else str(kind)
        if found["format"] not in ("csr", "csc") or found["shape"].dtype.kind not in "iu":
            refuse(path, f"a matrix in format {found['format']!r}; csr or csc is needed")
        found |= {name: archive[name] for name in ("indptr", "indices", "data")}
    return _checked(path, shape, found)


def _of_matlab(path: str, shape: tuple[int | None, int]) -> Any:
    """The only matrix of such a shape in a MATLAB file."""
    found = matlab.matrices(path)
    fits = {n: m for n, m in found.items() if m.shape[1] == shape[1] and shape[0] in (None, m.shape[0])}
    if len(fits) != 1:
        has = ", ".join(f"{name} {m.shape[0]} x {m.shape[1]}" for name, m in found.items()) or "none"
        wanted = f"{'images' if shape[0] is None else shape[0]} x {shape[1]}"
        refuse(path, f"expected one matrix of {wanted}; its matrices: {has}")
    return _checked(path, shape, next(iter(fits.values())).arrays())
