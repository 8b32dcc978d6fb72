"""Files: which are read, which are refused and with which message; the same on several ranks."""

from __future__ import annotations

import bz2
import gzip
import io as streams
import lzma
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import as_scalar, laplacian, unsymmetric

import tacit
from tacit import io


def petsc(path: Path, a: sp.csr_array) -> None:
    """Writes PETSc's binary format as its manual defines it."""
    a = a.tocsr()
    with path.open("wb") as f:
        f.write(struct.pack(">4i", 1211216, *a.shape, a.nnz))
        for array, kind in ((np.diff(a.indptr), ">i4"), (a.indices, ">i4"), (a.data, ">f8")):
            f.write(array.astype(kind).tobytes())


WRITERS: dict[str, Callable[[Path, sp.csr_array], None]] = {
    "a.mtx": lambda p, a: scipy.io.mmwrite(p, a),
    "a.mtx.gz": lambda p, a: p.write_bytes(gzip.compress(mtx_text(a))),
    "a.petsc": petsc,
    "csr.npz": lambda p, a: sp.save_npz(p, a),
    "csc.npz": lambda p, a: sp.save_npz(p, a.tocsc(), compressed=False),
    "coo.npz": lambda p, a: sp.save_npz(p, a.tocoo()),
    "bsr.npz": lambda p, a: sp.save_npz(p, a.tobsr((2, 3))),
    "dia.npz": lambda p, a: sp.save_npz(p, a.todia()),
    "matrix.npz": lambda p, a: sp.save_npz(p, sp.csr_matrix(a)),
    "dense.npy": lambda p, a: np.save(p, a.toarray()),
    "dense.mtx": lambda p, a: scipy.io.mmwrite(p, a.toarray()),
}


def mtx_text(a: Any) -> bytes:
    out = streams.BytesIO()
    scipy.io.mmwrite(out, a)
    return out.getvalue()


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("misnamed", [False, True])
def test_formats_by_content(name: str, misnamed: bool, tmp_path: Path) -> None:
    a = unsymmetric(18)
    path = tmp_path / name
    WRITERS[name](path, a)
    if misnamed:
        path = path.rename(tmp_path / "matrix")
    A = tacit.read(path)
    assert A.shape == a.shape
    assert A.dtype == np.float64
    assert abs(A.to_scipy() - a).max() < 1e-14
    assert tacit.read(str(path), scalar="float32").dtype == np.float32
    assert tacit.read(path, scalar="complex128").dtype == np.complex128

    def rank(comm: tacit.comm.Communicator) -> None:
        B = tacit.read(path, comm)
        assert abs(B.to_scipy() - a).max() < 1e-14
        x = np.arange(18.0)
        assert np.allclose(B @ x, a @ x)
        assert tacit.solve(B, x).converged

    for ranks in (2, 5):
        tacit.comm.run_threads(ranks, rank)


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric", "hermitian"])
def test_symmetric_files(symmetry: str, tmp_path: Path) -> None:
    lower = sp.tril(unsymmetric(10), -1 if symmetry == "skew-symmetric" else 0).tocsr()
    if symmetry == "hermitian":
        lower = sp.csr_array(lower + 1j * sp.tril(unsymmetric(10, 1), -1))
    mirror = {"symmetric": lower.T, "skew-symmetric": -lower.T, "hermitian": lower.conj().T}[symmetry]
    whole = sp.csr_array(lower + sp.triu(mirror, 1))
    path = tmp_path / "a.mtx"
    scipy.io.mmwrite(path, whole, symmetry=symmetry)
    A = tacit.read(path)
    assert abs(A.to_scipy() - whole).max() < 1e-14
    assert A.dtype == whole.dtype
    tacit.comm.run_threads(3, lambda comm: abs(tacit.read(path, comm).to_scipy() - whole).max() < 1e-14 or 1 / 0)


@pytest.mark.parametrize("scalar", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz", "a.npz", "a.petsc"])
def test_round_trips(name: str, scalar: str, tmp_path: Path) -> None:
    a = as_scalar(unsymmetric(12), scalar)
    path = tmp_path / name
    for matrix in (a, tacit.csr(a)):
        tacit.write(path, matrix)
        back = tacit.read(path, scalar=scalar)
        assert (back.to_scipy() != a).nnz == 0
    assert [file.name for file in tmp_path.iterdir()] == [name]
    path.unlink()
    tacit.comm.run_threads(3, lambda comm: tacit.write(path, tacit.csr(a, comm=comm)))
    assert (tacit.read(path, scalar=scalar).to_scipy() != a).nnz == 0


@pytest.mark.parametrize("name", ["b.mtx", "b.mtx.gz", "b.npy", "b.npz", "b.petsc"])
def test_vectors(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for b in (np.array([1.0, -2.5, 1e-300]), np.array([1 + 2j, 3.0]), np.arange(3)):
        tacit.write(path, b)
        back = tacit.read_vector(path)
        assert np.array_equal(back, b)
        assert back.dtype == (np.complex128 if np.iscomplexobj(b) else np.float64)
    assert tacit.read_vector(path, "float32").dtype == np.float32
    if name != "b.petsc":
        block = np.arange(6.0).reshape(3, 2)
        tacit.write(path, block)
        assert np.array_equal(tacit.read_vector(path), block)


def test_poisson_is_written_as_a_matrix(tmp_path: Path) -> None:
    tacit.write(tmp_path / "a.mtx", tacit.poisson((4, 4)))
    assert (tacit.read(tmp_path / "a.mtx").to_scipy() != laplacian(4, 4)).nnz == 0
    assert io.header(tmp_path / "a.mtx").entries == 64


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.mtx"):
        tacit.write(tmp_path / "a.xyz", laplacian(3))
    with pytest.raises(ValueError, match="holds vectors"):
        tacit.write(tmp_path / "a.npy", laplacian(3))
    with pytest.raises(TypeError, match="no entries"):
        tacit.write(tmp_path / "a.mtx", tacit.function((2, 2), lambda x: x))
    with pytest.raises(ValueError, match="is nan"):
        tacit.write(tmp_path / "a.mtx", sp.csr_array(np.array([[np.nan]])))
    assert not list(tmp_path.iterdir())


# --- refused ----------------------------------------------------------------------------------------------------------

BANNER = "%%MatrixMarket matrix coordinate real general\n"
WRONG_TEXT = {
    "index": (BANNER + "2 2 2\n1 1 1.0\n3 1 1.0\n", ":4: "),
    "number": (BANNER + "2 2 1\n1 1 one\n", ":3: "),
    "nan": (BANNER + "2 2 1\n1 1 nan\n", ":3: "),
    "short": (BANNER + "2 2 2\n1 1 1.0\n", "2"),
    "long": (BANNER + "2 2 1\n1 1 1.0\n2 2 1.0\n", "1"),
    "sizes": (BANNER + "2 2\n", ":2: "),
    "huge": (BANNER + "2 2 99999999999\n1 1 1\n", ":2: "),
    "banner": ("%%MatrixMarket matrix coordinate unreal general\n1 1 1\n1 1 1\n", ":1: "),
    "comment": (BANNER + "% text\n2 2 1\n1 1 1 1\n", ":4: "),
}


@pytest.mark.parametrize("kind", WRONG_TEXT)
def test_wrong_lines_are_named(kind: str, tmp_path: Path) -> None:
    text, place = WRONG_TEXT[kind]
    path = tmp_path / "bad.mtx"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.mtx") as caught:
        tacit.read(path)
    assert place in str(caught.value)
    assert isinstance(caught.value, tacit.InputError)

    def rank(comm: tacit.comm.Communicator) -> str:
        with pytest.raises(tacit.InputError) as caught:
            tacit.read(path, comm)
        return str(caught.value)

    for _ in range(20):  # ranks meet the end of a file in any order
        texts = tacit.comm.run_threads(3, rank)
    assert len(set(texts)) == 1, texts
    assert place in texts[0]


def npz(path: Path, **arrays: Any) -> Path:
    full: dict[str, Any] = dict(format=b"csr", shape=[2, 2], data=[1.0, 2.0], indices=[0, 1], indptr=[0, 1, 2])
    full |= arrays
    np.savez(path, **{name: np.asarray(value) for name, value in full.items() if value is not None})
    return path


WRONG_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "column": (dict(indices=[0, 2]), r"indices\[1\] is 2"),
    "negative": (dict(indices=[0, -1]), r"indices\[1\] is -1"),
    "falls": (dict(indptr=[0, 2, 1], data=[1.0], indices=[0]), "indptr"),
    "falls inside": (dict(shape=[3, 2], indptr=[0, 2, 1, 2]), "falls behind position 1"),
    "lengths": (dict(data=[1.0]), "indptr"),
    "start": (dict(indptr=[1, 1, 2]), "indptr"),
    "rows": (dict(shape=[3, 2]), "indptr"),
    "shape": (dict(shape=[2]), "shape"),
    "huge": (dict(format=b"coo", shape=[2**61, 2], row=[0, 1], col=[0, 1]), "matrix of"),
    "minus": (dict(shape=[-2, 2]), r"shape\[0\] is -2"),
    "text": (dict(data=["a", "b"]), "numbers are needed"),
    "floats": (dict(indices=[0.0, 1.0]), "integers"),
    "format": (dict(format=b"xyz"), "'xyz'"),
    "none": (dict(indptr=None), "expected an array indptr"),
    "no data": (dict(data=None), "no array data"),
    "word": (dict(format=3), "format is no word"),
    "block": (dict(format=b"bsr", data=[[[1.0]], [[2.0]]], shape=[3, 3]), "indptr"),
    "dia": (dict(format=b"dia", offsets=[0, 0], data=[[1.0], [2.0]]), "offsets"),
}


@pytest.mark.parametrize("kind", WRONG_ARRAYS)
def test_wrong_arrays_are_named(kind: str, tmp_path: Path) -> None:
    arrays, text = WRONG_ARRAYS[kind]
    path = npz(tmp_path / "bad.npz", **arrays)
    with pytest.raises(tacit.InputError, match=text) as caught:
        tacit.read(path)
    assert "bad.npz" in str(caught.value)


def test_nothing_is_executed(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return trap.touch, ()

    objects = np.array([Trap(), Trap()], dtype=object)
    np.save(tmp_path / "bad.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "bad.npz", format=b"csr", shape=[2, 2], data=objects, indices=[0, 1], indptr=[0, 1, 2])
    for name in ("bad.npy", "bad.npz"):
        with pytest.raises(tacit.InputError, match="never loaded"):
            tacit.read(tmp_path / name)
        with pytest.raises(tacit.InputError):
            tacit.read_vector(tmp_path / name)
    assert not trap.exists()


def test_bombs_and_claims(tmp_path: Path) -> None:
    """Claimed sizes are compared with the file before memory is allocated."""
    header = streams.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    path = tmp_path / "claim.npy"
    path.write_bytes(header.getvalue() + b"12345678")
    with pytest.raises(tacit.InputError, match="declares"):
        tacit.read_vector(path)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(50_000_000) + header.getvalue(), compresslevel=9)
        archive.writestr("shape.npy", bytes(50_000_000), compresslevel=9)
    size = path.stat().st_size
    assert size < 120_000
    with pytest.raises(tacit.InputError):
        tacit.read(path)


def own_rows(path: Path, ranks: int, scalar: str | None = None) -> list[tuple[bytes, ...]]:
    """The rows of each rank, to the bit."""

    def rank(comm: tacit.comm.Communicator) -> tuple[bytes, ...]:
        return tuple(part.tobytes() for part in tacit.read(path, comm, scalar).local_rows()[1:])

    return tacit.comm.run_threads(ranks, rank)


@pytest.mark.parametrize("name", ["csr.npz", "deflated.npz", "a.petsc", "a.mtx", "a.mtx.gz", "symmetric.mtx"])
def test_ranks_read_the_same_bits(name: str, tmp_path: Path) -> None:
    """Also where entries repeat, in no order, so that their sums depend on the order of additions."""
    rng = np.random.default_rng(4)
    n, entries = 37, 900
    row, column = rng.integers(n, size=(2, entries))
    value = rng.standard_normal(entries) * 10.0 ** rng.integers(-9, 9, entries)
    path = tmp_path / name
    if name.endswith(("mtx", "gz")):
        if name.startswith("symmetric"):
            row, column = np.maximum(row, column), np.minimum(row, column)
        kind = "symmetric" if name.startswith("symmetric") else "general"
        lines = [
            f"{i + 1} {j + 1} {v!r}\n" for i, j, v in zip(row.tolist(), column.tolist(), value.tolist(), strict=True)
        ]
        text = f"%%MatrixMarket matrix coordinate real {kind}\n{n} {n} {entries}\n" + "".join(lines)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    else:
        order = np.argsort(row, kind="stable")
        start = np.searchsorted(row[order], np.arange(n + 1))
        a = sp.csr_array((value[order], column[order], start), shape=(n, n))
        if name == "a.petsc":
            petsc(path, a)
        else:
            sp.save_npz(path, a, compressed=name == "deflated.npz")
    (alone,) = own_rows(path, 1)
    for ranks in (2, 5, 41):
        parts = own_rows(path, ranks)
        assert tuple(b"".join(part[k] for part in parts) for k in (0, 1)) == alone


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("scalar", ["float32", "float64", "complex64", "complex128"])
def test_archives_of_all_types(compressed: bool, index: type, scalar: str, tmp_path: Path) -> None:
    a = as_scalar(unsymmetric(23), scalar)
    a.indices, a.indptr = a.indices.astype(index), a.indptr.astype(index)
    path = tmp_path / "a.npz"
    sp.save_npz(path, a, compressed=compressed)
    assert io.npz_rows(path) is not None
    for wanted in ("float32", "float64", "complex64", "complex128"):
        if scalar.startswith("complex") and not wanted.startswith("complex"):
            with pytest.raises(tacit.InputError, match="is complex"):
                tacit.read(path, scalar=wanted)
        else:
            assert (tacit.read(path, scalar=wanted).to_scipy() != a.astype(wanted)).nnz == 0
            assert b"".join(part[1] for part in own_rows(path, 4, wanted)) == a.astype(wanted).data.tobytes()


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_elements_are_noticed(compressed: bool, tmp_path: Path) -> None:
    """A value, which may be any number, is protected by the checksum only; ranks read a part of it each."""
    path = tmp_path / "bad.npz"
    a = unsymmetric(4000)
    sp.save_npz(path, a, compressed=compressed)
    with zipfile.ZipFile(path) as archive:
        data = archive.getinfo("data.npy")
    good = path.read_bytes()
    for at in (0.3, 0.6, 0.99):
        bad = bytearray(good)
        bad[data.header_offset + 50 + int(at * (data.compress_size - 10))] ^= 1
        path.write_bytes(bad)
        for ranks in (1, 3):
            with pytest.raises(tacit.InputError, match="damaged archive"):
                own_rows(path, ranks)


def test_numbers_are_not_changed_silently(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(BANNER + "2 2 2\n1 1 1.0\n2 2 -1e-400\n")
    with pytest.raises(tacit.InputError, match=r'a\.mtx:4: .* in the range of float64, found "-1e-400"'):
        tacit.read(path)
    path.write_text(BANNER.replace("real", "integer") + "2 2 2\n1 1 1\n2 2 9007199254740993\n")
    with pytest.raises(tacit.InputError, match=r'a\.mtx:4: .* found "9007199254740993"'):
        tacit.read(path)
    path = tmp_path / "a.npz"
    integers = np.array([2**53, -(2**53) - 1])
    for dtype in (np.int64, np.uint64):
        np.savez(
            path, format=b"csr", shape=[2, 2], data=np.abs(integers).astype(dtype), indices=[0, 1], indptr=[0, 1, 2]
        )
        with pytest.raises(tacit.InputError, match="value 1 is 9007199254740993"):
            tacit.read(path)
    npz(path, data=np.array([2**53, 2**54]))
    assert tacit.read(path).to_scipy().data.tolist() == [2.0**53, 2.0**54]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_mutated_archives_never_crash(compression: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = npz(tmp_path / "good.npz")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    good = path.read_bytes()
    path = tmp_path / "bad.npz"
    refused: list[str] = []
    for _ in range(600):
        data = bytearray(good)
        for _ in range(rng.integers(1, 6)):
            data[rng.integers(len(data))] = rng.integers(256)
        if rng.random() < 0.2:
            data = data[: rng.integers(len(data))]
        path.write_bytes(data)
        try:
            assert max(tacit.read(path).shape) < 10**8
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert all("bad.npz" in text for text in refused)


def test_not_there_or_not_a_matrix(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.mtx"):
        tacit.read(tmp_path / "missing.mtx")
    with pytest.raises(FileNotFoundError, match=r"missing\.mtx"):
        tacit.comm.run_threads(2, lambda comm: tacit.read(tmp_path / "missing.mtx", comm))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(tacit.InputError, match="first bytes"):
        tacit.read(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(tacit.InputError):
        tacit.read(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"(?i)regular|directory"):
        tacit.read(tmp_path)
    tacit.write(tmp_path / "b.petsc", np.ones(3))
    with pytest.raises(tacit.InputError, match="read_vector"):
        tacit.read(tmp_path / "b.petsc")
    tacit.write(tmp_path / "a.petsc", laplacian(3))
    with pytest.raises(tacit.InputError, match="PETSc matrix"):
        tacit.read_vector(tmp_path / "a.petsc")
    scipy.io.mmwrite(tmp_path / "c.mtx", sp.csr_array(1j * np.eye(2)))
    with pytest.raises(ValueError, match="complex"):
        tacit.read(tmp_path / "c.mtx", scalar="float64")
    np.save(tmp_path / "three.npy", np.ones((2, 2, 2)))
    with pytest.raises(tacit.InputError, match="shape"):
        tacit.read(tmp_path / "three.npy")
    with pytest.raises(ValueError, match="did you mean 'float32'"):
        tacit.read(tmp_path / "a.petsc", scalar="flaot32")


@pytest.mark.parametrize("kind", ["uint8", "uint32", "uint64"])
def test_unsigned_integers_of_scipy(kind: str, tmp_path: Path) -> None:
    D, path = np.array([[2, 0], [1, 3]]).astype(kind), tmp_path / "a.mtx"
    scipy.io.mmwrite(path, sp.csr_array(D))
    np.testing.assert_array_equal(tacit.read(path) @ np.eye(2), D)
    scipy.io.mmwrite(path, D[:, :1])
    np.testing.assert_array_equal(tacit.read_vector(path), [2, 1])


def test_blanks_in_front_of_the_banner(tmp_path: Path) -> None:
    """MUMPS writes such files."""
    for name, pack in (("a.mtx", bytes), ("a.mtx.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(b"   " + mtx_text(laplacian(4))))
        np.testing.assert_array_equal(tacit.read(tmp_path / name) @ np.eye(4), laplacian(4).toarray())


@pytest.mark.parametrize("form", ["coordinate", "array"])
def test_skew_symmetric_with_zeros_on_the_diagonal(form: str, tmp_path: Path) -> None:
    path, banner = tmp_path / "a.mtx", f"%%MatrixMarket matrix {form} real skew-symmetric\n"
    rest = "2 2 3\n1 1 0\n2 1 3\n2 2 0\n" if form == "coordinate" else "2 2\n0\n3\n0\n"
    path.write_text(banner + rest)
    np.testing.assert_array_equal(tacit.read(path) @ np.eye(2), [[0, -3], [3, 0]])
    path.write_text(banner + rest.replace("\n0\n", "\n4\n", 1).replace("1 1 0", "1 1 4"))
    with pytest.raises(tacit.InputError, match="zero"):
        tacit.read(path)


def test_dense_arrays_of_an_archive(tmp_path: Path) -> None:
    """An archive with one array is a dense matrix or a vector, as .npy is; `tacit convert` writes such."""
    D, path = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 2.0]]), tmp_path / "a.npz"
    np.savez_compressed(path, x=D)
    for ranks in (1, 3):
        read = tacit.comm.run_threads(ranks, lambda comm: tacit.read(path, comm) @ np.eye(3))
        np.testing.assert_array_equal(read[0], D)
    assert io.header(path).dense
    np.savez_compressed(path, x=D, y=D)
    with pytest.raises(tacit.InputError, match="no array format, found x, y"):
        tacit.read(path)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_room_behind_the_last_row(form: str, compressed: bool, tmp_path: Path) -> None:
    """SciPy keeps room for more entries in some matrices, whose contents are no entries."""
    a = unsymmetric(18)
    made = a.tobsr((2, 3)) if form == "bsr" else a.asformat(form)
    made.indices = np.concatenate([made.indices, np.array([10**6, -1], made.indices.dtype)])
    made.data = np.concatenate([made.data, np.full((2, *made.data.shape[1:]), 7.0)])
    path = tmp_path / "a.npz"
    save = np.savez_compressed if compressed else np.savez
    save(path, format=form.encode(), shape=a.shape, data=made.data, indices=made.indices, indptr=made.indptr)
    for ranks in (1, 2, 5):
        read = tacit.comm.run_threads(ranks, lambda comm: tacit.read(path, comm) @ np.eye(18))
        np.testing.assert_array_equal(read[0], a.toarray())
    if not compressed:  # what is there counts in the checksum all the same
        damaged = bytearray(path.read_bytes())
        damaged[damaged.index(np.array([7.0, 7.0]).tobytes())] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(tacit.InputError, match="CRC"):
            tacit.read(path)


def test_a_petsc_file_with_matrix_and_right_hand_side(tmp_path: Path) -> None:
    a, b, path = laplacian(9), np.arange(9.0), tmp_path / "system.petsc"
    petsc(path, a)
    vector = struct.pack(">2i", 1211214, 9) + b.astype(">f8").tobytes()
    matrix = path.read_bytes()
    path.write_bytes(matrix + vector)
    for ranks in (1, 3):
        read = tacit.comm.run_threads(ranks, lambda comm: tacit.read(path, comm) @ np.eye(9))
        np.testing.assert_array_equal(read[0], a.toarray())
    np.testing.assert_array_equal(tacit.read_vector(path), b)
    assert io.header(path).vectors == 1
    path.write_bytes(matrix + vector + vector)
    with pytest.raises(tacit.InputError, match="2 vectors behind it"):
        tacit.read_vector(path)
    path.write_bytes(matrix + vector[:-1])
    with pytest.raises(tacit.InputError, match="at most vectors behind them"):
        tacit.read(path)


def tar(content: bytes) -> bytes:
    out = streams.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        about = tarfile.TarInfo("m/m.mtx")
        about.size = len(content)
        archive.addfile(about, streams.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (bz2.compress, "compressed by bzip2: unpack it"),
        (lzma.compress, "compressed by xz: unpack it"),
        (tar, "a tar archive: unpack it"),
        (lambda text: gzip.compress(tar(text)), "inside gzip, it is a tar archive"),
        (lambda text: gzip.compress(text)[:-20], "damaged|cut short|rest of a gzip"),
        (lambda text: b"\x89HDF\r\n\x1a\n" + text, "an HDF5 file"),
        (lambda text: b"\xef\xbb\xbf" + text, "byte order mark"),
        (lambda text: text.decode().encode("utf-16"), "UTF-16"),
        (lambda text: text[1:], "one percent sign"),
        (
            lambda text: b"title\n 1 1 1\nRSA   3 3 9 0\n(1X,8I9)\n",
            "a Harwell-Boeing file: line 2 has 3 numbers|a Rutherford-Boeing matrix",
        ),
        (lambda text: b"<!DOCTYPE html>" + text, "a web page"),
        (lambda text: b"", "it is empty"),
    ],
)
def test_what_a_refused_file_is(made: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_bytes(made(mtx_text(laplacian(20))))
    for read in (tacit.read, tacit.read_vector):
        with pytest.raises(tacit.InputError, match=said) as caught:
            read(path)
        assert str(path) in str(caught.value)


def test_rows_without_entries_are_limited(tmp_path: Path) -> None:
    """A row costs memory, and a few bytes may claim any number of rows: 2^20 + 64 for each entry are read."""
    path, most = tmp_path / "a.mtx", (1 << 20) + 64
    text = "%%MatrixMarket matrix coordinate real general\n{0} {0} 1\n1 1 2\n"
    path.write_text(text.format(most))
    assert io.header(path).rows == most
    path.write_text(text.format(most + 1))
    with pytest.raises(tacit.InputError, match="2\\^20 \\+ 64 entries"):
        tacit.read(path)
    one = np.ones(1)
    for rows, right in ((most, True), (most + 1, False)):
        arrays = dict(format=b"coo", shape=[rows, rows], data=one, row=[0], col=[0])
        np.savez(tmp_path / "a.npz", **{name: np.asarray(value) for name, value in arrays.items()})
        if right:
            assert io.header(tmp_path / "a.npz").rows == rows
        else:
            with pytest.raises(tacit.InputError, match="a matrix of"):
                io.header(tmp_path / "a.npz")


@pytest.mark.slow
def test_arrays_of_an_archive_that_nobody_needs_are_not_expanded(tmp_path: Path) -> None:
    """Nor are those of a matrix that their headers refute."""
    path = tmp_path / "a.npz"
    junk = np.zeros(30_000_000)
    for arrays in (
        dict(format=b"csr", shape=[2, 2], data=[1.0, 2.0], indices=[0, 1], indptr=[0, 1, 2], junk=junk),
        dict(format=b"csr", shape=[2, 2], data=junk, indices=[0, 1], indptr=[0, 1, 2]),
        dict(format=b"coo", shape=[2, 2], data=junk, row=[0, 1], col=[0, 1]),
        dict(format=b"coo", data=junk),
    ):
        np.savez_compressed(path, **{name: np.asarray(value) for name, value in arrays.items()})
        tracemalloc.start()
        if "junk" in arrays:
            assert io.read_share(path, "float64")[2].value.tolist() == [1, 2]
        else:
            with pytest.raises(tacit.InputError):
                io.read_share(path, "float64")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000
