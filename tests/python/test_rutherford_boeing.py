"""Rutherford-Boeing and Harwell-Boeing files: what they hold, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cli_support import tacit as command

import tacit
from tacit import io


def written(
    path: Path, kind: str, size: tuple[int, int], blocks: list[list[str]], formats: tuple[str, ...], entries: int = 3
) -> Path:
    """A file of fields that are given as text, the lines of each block counted."""
    lines = [block for block in blocks if block]
    counts = [len(block) for block in blocks] + [0] * (3 - len(blocks))
    head = ["a title".ljust(72) + "key", "".join(f"{c:14d}" for c in [sum(counts), *counts])]
    head += [f"{kind:14s}" + "".join(f"{c:14d}" for c in (*size, entries, 0))]
    head += ["".join(f"{form:{width}s}" for form, width in zip(formats, (16, 16, 20), strict=False))]
    path.write_text("\n".join([*head, *(line for block in lines for line in block)]) + "\n")
    return path


def dense(path: Path) -> np.ndarray:
    rows, columns, share = io.read_share(path, io.default_scalar(io.header(path).scalar))
    return sp.coo_array((share.value, (share.row, share.column)), shape=(rows, columns)).toarray()


def test_what_scipy_writes(tmp_path: Path) -> None:
    a = sp.csc_matrix(sp.random_array((40, 40), density=0.1, rng=np.random.default_rng(0)) + 3 * sp.eye_array(40))
    a.data[::2] *= -1  # its numbers are a column narrower than its format says, which a sign shows
    scipy.io.hb_write(tmp_path / "a.rua", a)
    assert io.detect(tmp_path / "a.rua") == "rutherford_boeing"
    x = np.arange(40.0)
    np.testing.assert_allclose(tacit.read(tmp_path / "a.rua") @ x, a @ x, rtol=1e-13)


I3, E12 = "(4I3)", "(2E12.4)"


def test_symmetries_and_kinds(tmp_path: Path) -> None:
    pointers, rows = ["  1  3  4"], ["  1  2  2"]
    values = ["  1.0000E+00 -2.5000D-01", "  3.0000E+00"]

    def made(kind: str, *blocks: list[str], formats: tuple[str, ...] = (I3, I3, E12)) -> np.ndarray:
        return dense(written(tmp_path / "a.rb", kind, (2, 2), [pointers, rows, *blocks], formats))

    np.testing.assert_array_equal(made("rsa", values), [[1, -0.25], [-0.25, 3]])
    np.testing.assert_array_equal(made("RUA", values), [[1, 0], [-0.25, 3]])
    np.testing.assert_array_equal(made("psa", formats=(I3, I3)), [[1, 1], [1, 1]])
    np.testing.assert_array_equal(made("isa", ["  4 -7", "  5"], formats=(I3, I3, "(2I3)")), [[4, -7], [-7, 5]])
    complex_values = ["  1.0000E+00  0.0000E+00", "  2.0000E+00  3.0000E+00", "  4.0000E+00  0.0000E+00"]
    np.testing.assert_array_equal(made("cha", complex_values), [[1, 2 - 3j], [2 + 3j, 4]])
    skew = ["  0.0000E+00 -2.5000E-01", "  0.0000E+00"]
    np.testing.assert_array_equal(made("rza", skew), [[0, 0.25], [-0.25, 0]])


def test_fields_of_fortran(tmp_path: Path) -> None:
    """Fields without spaces between them, a scale factor, exponents of three digits without a letter."""
    blocks = [["123"], ["22"], ["-1.5000E+00 2.5000-120"]]
    path = written(tmp_path / "a.rb", "rra", (2, 2), blocks, ("(3I1)", "(2I1)", "(1P,2E11.4)"), entries=2)
    assert io.header(path).entries == 2
    np.testing.assert_array_equal(dense(path), [[0, 0], [-1.5, 2.5e-120]])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rsa", "rse", "stored as elements"),
        ("  1  3  4", "  1  4  3", "pointers"),
        ("  1  3  4", "  1  3  x", 'number 3, "x", is no whole number'),
        ("  1  2  2", "  1  9  2", "row numbers: number 2 is 9; it runs from 1 to 2"),
        ("  1  2  2", "  1  2  1", "above the diagonal"),
        ("-2.5000D-01", "-2.5zzzD-01", "number 2"),
        ("  3.0000E+00", "", "within the values"),
        ("(2E12.4)", "(2Q12.4)", 'format "(2Q12.4)" of the values'),
        ("(2E12.4)", "(3E12.4)", "line 2 says 2"),
        ("             2             2             3", "             2             9             3", "is square"),
        ("             2             2             3", "       4000000       4000000             3", "entries"),
    ],
)
def test_damaged(old: str, new: str, said: str, tmp_path: Path) -> None:
    blocks = [["  1  3  4"], ["  1  2  2"], ["  1.0000E+00 -2.5000D-01", "  3.0000E+00"]]
    path = written(tmp_path / "a.rb", "rsa", (2, 2), blocks, (I3, I3, E12))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new).rstrip() + "\n")
    with pytest.raises(tacit.InputError) as caught:
        tacit.read(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_no_vector(tmp_path: Path) -> None:
    blocks = [["  1  3  4"], ["  1  2  2"]]
    path = written(tmp_path / "a.rb", "psa", (2, 2), blocks, (I3, I3))
    with pytest.raises(tacit.InputError, match="Rutherford-Boeing matrix"):
        tacit.read_vector(path)


def test_on_the_command_line(tmp_path: Path) -> None:
    blocks = [["  1  3  4"], ["  1  2  2"], ["  1.0000E+00 -2.5000D-01", "  3.0000E+00"]]
    written(tmp_path / "a.rb", "rsa", (2, 2), blocks, (I3, I3, E12))
    assert "valid, Rutherford-Boeing" in command("check", "a.rb", cwd=tmp_path).stdout
    command("convert", "a.rb", "a.mtx", cwd=tmp_path)
    np.testing.assert_array_equal(dense(tmp_path / "a.mtx"), [[1, -0.25], [-0.25, 3]])
    command("solve", "a.rb", "--output", "x.npy", cwd=tmp_path)
    x = np.load(tmp_path / "x.npy")
    np.testing.assert_allclose(np.array([[1, -0.25], [-0.25, 3]]) @ x, 1)
