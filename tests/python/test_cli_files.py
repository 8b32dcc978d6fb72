"""`tacit info`, `check` and `convert`."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import grid_entries, poisson, refused, tacit, write_mtx

import tacit as library
from tacit import cli, report


def dense(n: int, wind: float = 0.0) -> np.ndarray[Any, Any]:
    a = np.zeros((n * n, n * n))
    for place, value in grid_entries(n, wind).items():
        a[place] = value
    return a


def info(path: Path) -> dict[str, Any]:
    done = tacit("info", path, "--json", "-")
    facts: dict[str, Any] = json.loads(done.stdout)
    assert facts["schema"] == "tacit.info/1"
    assert str(path) in done.stderr
    return facts


def test_info_of_a_matrix(tmp_path: Path) -> None:
    facts = info(poisson(tmp_path / "p.mtx", 6))
    assert (facts["rows"], facts["columns"], facts["nonzeros"]) == (36, 36, 36 * 5 - 24)
    assert facts["bandwidth"] == {"lower": 6, "upper": 6}
    assert facts["hermitian"] is True
    assert facts["symmetric_pattern"] is True
    assert facts["diagonal"] == {"largest": 4.0, "smallest": 4.0, "zeros": 0, "positive": True}
    assert facts["dominant_rows"] == 36
    assert facts["row_entries"]["least"] == 3
    assert "cg" in facts["advice"]
    facts = info(poisson(tmp_path / "w.mtx", 6, wind=0.5))
    assert facts["hermitian"] is False
    assert facts["hermitian_defect"] == pytest.approx(0.5 / 4.5)
    assert "gmres" in facts["advice"]
    # The same rule as of method="auto": rounding is no asymmetry, and negative definite matrices are for cg too.
    entries = (
        {(i, i): -4.0 for i in range(5)}
        | {(i, i + 1): 1.0 for i in range(4)}
        | {(i + 1, i): 1 + 4e-16 for i in range(4)}
    )
    facts = info(write_mtx(tmp_path / "r.mtx", (5, 5), entries))
    assert facts["hermitian"] is True
    assert facts["hermitian_defect"] > 0
    assert "cg" in facts["advice"]
    assert "rounding" in tacit("info", tmp_path / "r.mtx").stdout


def test_info_in_words(tmp_path: Path) -> None:
    out = tacit("info", poisson(tmp_path / "p.mtx", 6)).stdout
    for words in (
        "Matrix Market coordinate real general",
        "36 x 36 matrix",
        "6 below, 6 above",
        "all positive",
        "symmetric",
        "bfloat16 values",
    ):
        assert words in out


def test_info_of_the_unusual(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 2\n3 1 -1e-3\n1 1 1\n"
    (tmp_path / "s.mtx").write_text(text)
    facts = info(tmp_path / "s.mtx")
    assert facts["symmetry"] == "symmetric"
    assert facts["duplicates"] == 1
    assert facts["empty_rows"] == 1
    assert facts["diagonal"]["zeros"] == 2
    assert facts["values"] == {"largest": 3.0, "smallest": 1e-3, "zeros": 0}
    facts = info(write_mtx(tmp_path / "wide.mtx", (2, 5), {(1, 4): 1.0}))
    assert facts["square"] is False
    np.save(tmp_path / "v.npy", np.array([0.0, -2.0]))
    facts = info(tmp_path / "v.npy")
    assert facts["what"] == "vector"
    assert facts["values"] == {"largest": 2.0, "smallest": 2.0, "zeros": 1}
    facts = info(write_mtx(tmp_path / "c.mtx", (2, 2), {(0, 1): 1j, (1, 0): -1j}, "complex"))
    assert facts["hermitian"] is True
    assert facts["scalar"] == "complex128"


def test_check(tmp_path: Path) -> None:
    good = poisson(tmp_path / "good.mtx", 3)
    np.save(tmp_path / "v.npy", np.ones(3))
    out = tacit("check", good, tmp_path / "v.npy").stdout
    assert out.count("valid") == 2
    bad = tmp_path / "bad.mtx"
    bad.write_text(good.read_text().replace("1 1 4.0", "1 1 4.0 5.0"))
    done = tacit("check", bad, good, code=4)
    assert f"{bad}:3:" in done.stderr
    assert f"{good}: valid" in done.stdout
    np.save(tmp_path / "nan.npy", np.array([1.0, np.nan]))
    assert "value 2 is not finite" in tacit("check", tmp_path / "nan.npy", code=4).stderr
    tacit("check", tmp_path / "nothing", code=4)


def test_convert_matrices(tmp_path: Path) -> None:
    first = poisson(tmp_path / "0.mtx", 5, wind=0.1)
    chain = [first, *(tmp_path / name for name in ("1.npz", "2.petsc", "3.mtx.gz", "4.mtx"))]
    for source, target in pairwise(chain):
        out = tacit("convert", source, target).stdout
        assert f"-> {target}" in out
        assert np.array_equal(library.read(target).to_scipy().toarray(), dense(5, 0.1))
    assert np.array_equal(sp.load_npz(tmp_path / "1.npz").toarray(), dense(5, 0.1))
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(path.name for path in chain)


def test_convert_vectors(tmp_path: Path) -> None:
    values = np.array([1.5, -2e-300, 0.1])
    np.save(tmp_path / "0.npy", values)
    chain = [tmp_path / name for name in ("0.npy", "1.mtx", "2.petsc", "3.npz", "4.npy")]
    for source, target in pairwise(chain):
        tacit("convert", source, target)
        assert np.array_equal(np.asarray(library.read_vector(target)).ravel(), values)


def test_convert_refuses(tmp_path: Path) -> None:
    good = poisson(tmp_path / "good.mtx", 3)
    assert ".npz holds those" in refused("convert", good, tmp_path / "x.npy")
    assert "must end in" in refused("convert", good, tmp_path / "x.txt")
    bad = tmp_path / "bad.mtx"
    bad.write_text(good.read_text() + "3 3 1\n")
    (tmp_path / "kept.npz").write_bytes(b"before")
    assert str(bad) in tacit("convert", bad, tmp_path / "kept.npz", code=4).stderr
    assert (tmp_path / "kept.npz").read_bytes() == b"before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.mtx", "good.mtx", "kept.npz"]


# --- names and places of files ----------------------------------------------------------------------------------------

ODD = os.fsdecode(b"caf\xe9")  # in Latin-1: no UTF-8


@pytest.mark.slow
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """They are names as any others, whatever is done with the file."""
    a, b = f"{ODD}.mtx", f"{ODD} b.npy"
    poisson(tmp_path / a, 4)
    np.save(tmp_path / b, np.ones(16))
    (tmp_path / f"{ODD}.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")

    def run(*words: str, code: int = 0) -> str:
        done = tacit(*words, code=code, cwd=tmp_path)
        return done.stdout if code == 0 else done.stderr

    x, plot, trace = f"{ODD} x.mtx.gz", f"{ODD}.png", f"{ODD}.trace"
    outputs = ["--output", x, "--json", f"{ODD}.json", "--plot", plot, "--trace", trace]
    run("solve", a, "--rhs", b, *outputs)
    facts = json.loads((tmp_path / f"{ODD}.json").read_text("utf-8"))
    assert (facts["file"], facts["rhs"], facts["converged"]) == (a, b, True)
    assert np.allclose(dense(4) @ library.read_vector(tmp_path / x), 1, atol=1e-6)
    assert all((tmp_path / name).stat().st_size for name in outputs[1::2])
    assert json.loads(run("solve", a, "--simulate", "2", "--trace", trace, "--json", "-"))["file"] == a
    assert json.loads(run("info", a, "--json", "-"))["file"] == a
    assert "valid" in run("check", a, b)
    chain = [f"{ODD}.{end}" for end in ("mtx", "petsc", "npz", "mtx.gz")]
    for source, target in pairwise(chain):
        run("convert", source, target)
        assert np.array_equal(library.read(tmp_path / target).to_scipy().toarray(), dense(4))
    run("bem", f"{ODD}.obj", "--json", f"{ODD} bem.json", "--plot", f"{ODD} bem.png")
    assert json.loads((tmp_path / f"{ODD} bem.json").read_text("utf-8"))["unknowns"] == 4
    (tmp_path / f"{ODD} bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 x\n")
    for command in ("solve", "info", "check"):
        assert "caf\\udce9 bad.mtx:3: " in run(command, f"{ODD} bad.mtx", code=4)
        assert "caf\\udce9 none.mtx: no such file" in run(command, f"{ODD} none.mtx", code=4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["solve", "{a}", "--precond", f"jacobi:{ODD}=1"], "caf\\udce9"),
        (["solve", "{a}", "--precond", f"polynomial:degree={ODD}"], "caf\\udce9"),
        (["solve", "{a}", "--levels", ODD], "numbers like"),
        (["poisson", "--n", "9", "--levels", f"2,{ODD}"], "numbers like"),
        (["bem", "sphere:2", "--precond", f"jacobi:{ODD}=1"], "caf\\udce9"),
        (["bem", f"sphere:2,{ODD}=1"], "caf\\udce9"),
        (["solve", "{a}", "--method", ODD], "caf\\udce9"),
    ],
)
def test_words_that_are_not_utf8(words: list[str], said: str, tmp_path: Path) -> None:
    """They are refused as any other words that nobody knows."""
    a = poisson(tmp_path / "a.mtx", 4)
    assert said in tacit(*(word.format(a=a) for word in words), code=2).stderr


def test_texts_that_utf8_has_not_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"half \\ud83d"):
        library.solve(np.eye(3), np.ones(3), precond={"name": "jacobi", "half \ud83d": 1})
    with pytest.raises(ValueError, match=r"half \\ud83d"):
        library.solve(np.eye(3), np.ones(3), precond="half \ud83d")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    ("option", "name"), [("--json", "a.json"), ("--plot", "a.png"), ("--trace", "a.trace"), ("--output", "a.npy")]
)
def test_a_full_disk_is_told_with_the_file(option: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.symlink_to("/dev/full")
    done = tacit("solve", poisson(tmp_path / "a.mtx", 4), option, path, code=5)
    assert done.stderr.endswith(f"tacit solve: {path}: No space left on device\n")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["a.mtx", name])


def test_nothing_to_compute(tmp_path: Path) -> None:
    """Files without a row, an image or a point are refused by name."""
    np.save(tmp_path / "images.npy", np.zeros((0, 1024), np.float32))
    np.savez(tmp_path / "bits.npz", bits=np.zeros((0, 128), np.uint8))
    np.savez(tmp_path / "classes.npz", row_class=np.zeros((0, 64), int))
    np.savez(tmp_path / "void.npz")
    np.save(tmp_path / "one.npy", np.ones((1, 1024), np.float32))
    np.save(tmp_path / "matrix.npy", np.zeros((0, 0)))
    np.save(tmp_path / "wide.npy", np.zeros((0, 5)))
    np.save(tmp_path / "points.npy", np.zeros((0, 3)))
    write_mtx(tmp_path / "matrix.mtx", (0, 0), {})
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array((0, 0)))
    for words in (
        ["infer", "images.npy", "--layers", "1"],
        ["infer", "bits.npz", "--layers", "1"],
        ["infer", "void.npz", "--layers", "1"],
        ["infer", "one.npy", "--layers", "1", "--classes", "classes.npz"],
        ["solve", "matrix.npy"],
        ["solve", "matrix.mtx"],
        ["solve", "sparse.npz"],
        ["solve", "wide.npy"],
        ["solve", "void.npz"],
        ["bem", "sphere:2", "--output", "x.npy", "--points", "points.npy"],
    ):
        name = words[-1] if "--classes" in words or "--points" in words else words[1]
        assert f"tacit {words[0]}: {name}: " in refused(*words, code=4, cwd=tmp_path)
    with pytest.raises(ValueError, match="classes have shape"):
        library.inference.radixnet(1024, 1, classes=np.zeros((0, 64), int))


def writers() -> list[tuple[str, Callable[[Path], None], Callable[[Path], float]]]:
    """Kinds of files that Tacit writes: the suffix, how one is written, and the number read back from it."""
    import h5py

    from tacit.app import volumes

    def images(path: Path) -> None:
        writer = volumes.Writer(str(path), 1, (2, 2))
        writer.write(0, np.full((1, 2, 2), 1, np.float32))
        writer.close()

    return [
        (".mtx", lambda path: library.write(path, np.ones(3)), lambda path: library.read_vector(path)[0]),
        (".npy", lambda path: library.write(path, np.ones(3)), lambda path: library.read_vector(path)[0]),
        (".npz", lambda path: library.write(path, sp.eye_array(3)), lambda path: library.read(path).to_scipy()[0, 0]),
        (".json", lambda path: report.write_json([1], str(path)), lambda path: json.loads(path.read_text())[0]),
        (".h5", images, lambda path: h5py.File(path)["exchange/data"][0, 0, 0]),
    ]


@pytest.mark.parametrize("kind", range(5), ids=["mtx", "npy", "npz", "json", "h5"])
def test_where_files_are_written(kind: int, tmp_path: Path) -> None:
    """A link is followed and stays; names beside the destination are left alone; permissions are those of new files."""
    pytest.importorskip("h5py")
    suffix, write, read = writers()[kind]
    folder = tmp_path / "behind"
    folder.mkdir()
    path, real, part = tmp_path / f"x{suffix}", folder / f"y{suffix}", tmp_path / f"x{suffix}.part"
    part.write_text("of the user")
    path.symlink_to(os.path.join("behind", real.name))
    before = os.umask(0o027)
    try:
        for _ in range(2):  # at first the link leads to nothing
            write(path)
            assert path.is_symlink()
            assert read(real) == 1
    finally:
        os.umask(before)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert part.read_text() == "of the user"
    path.unlink()
    path.symlink_to("/dev/null")
    write(path)
    assert stat.S_ISCHR(path.stat().st_mode)
    path.unlink()
    path.mkdir()
    with pytest.raises((OSError, library.EnvironmentFailure), match="Is a directory"):
        write(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["behind", path.name, part.name]
    assert [file.name for file in folder.iterdir()] == [real.name]


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    """What one of them wrote is there, whole."""
    path = tmp_path / "x.npy"
    failures: list[BaseException] = []

    def write(value: int) -> None:
        try:
            for _ in range(20):
                library.write(path, np.full(1000, float(value)))
                assert len(set(library.read_vector(path))) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(value,)) for value in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]


def test_output_through_a_link(tmp_path: Path) -> None:
    """The command asks for the folder of the file, not of the link to it."""
    system = poisson(tmp_path / "p.mtx", 3)
    (tmp_path / "x.npy").symlink_to("nowhere/x.npy")
    assert "does not exist" in tacit("solve", system, "--output", tmp_path / "x.npy", code=2).stderr
    (tmp_path / "nowhere").mkdir()
    tacit("solve", system, "--output", tmp_path / "x.npy")
    assert len(np.load(tmp_path / "nowhere" / "x.npy")) == 9
    assert json.loads(tacit("info", system, "--json", "/dev/stdout").stdout.partition("\n}\n")[0] + "}")["rows"] == 9


# Every command that has --json, with as little as it needs.
JSON = {
    "solve": ["{matrix}"],
    "poisson": ["--n", "9"],
    "multigrid": ["--n", "8"],
    "reconstruct": ["--sinogram", "{sinogram}", "--theta", "{theta}", "--shape", "6,8", "--iterations", "1"],
    "infer": ["{images}", "--neurons", "1024", "--layers", "1"],
    "bem": ["sphere:2"],
    "scatter": ["sphere:2", "--wavenumber", "1"],
    "info": ["{matrix}"],
    "check": ["{matrix}"],
    "explain-plan": ["{matrix}"],
    "convert": ["{matrix}", "a.npz"],
    "bench": ["{matrix}", "--vs", "scipy", "--rounds", "1"],
    "advise": ["{matrix}", "--ranks", "2", "--no-turns"],
    "machine": ["show", "modern"],
    "simulate": ["--cells", "3", "--grid", "2"],
    "reproduce": ["--list"],
    "demo": ["--quick"],
    "doctor": [],
}


def test_all_commands_that_write_json_are_looked_at() -> None:
    parser = cli.build_parser()
    commands = next(action for action in parser._subparsers._group_actions if action.choices).choices  # type: ignore
    assert {name for name, command in commands.items() if "--json" in command._option_string_actions} == set(JSON)


@pytest.mark.slow
@pytest.mark.parametrize("command", JSON)
def test_json_without_a_file_is_standard_output(command: str, tmp_path: Path) -> None:
    """``--json`` is ``--json -``: JSON alone on standard output; a name makes a file of the same."""
    places = {name: tmp_path / name for name in ("matrix", "sinogram", "theta", "images")}
    places["matrix"] = poisson(tmp_path / "a.mtx", 6)
    np.ones((6, 8), np.float32).tofile(places["sinogram"])
    np.linspace(0, 3, 6, dtype=np.float32).tofile(places["theta"])
    places["images"] = tmp_path / "images.npy"
    np.save(places["images"], np.ones((2, 1024), np.float32))
    words = [command, *(word.format(**places) for word in JSON[command])]
    facts = json.loads(tacit(*words, "--json", cwd=tmp_path).stdout)
    tacit(*words, "--json", "r.json", cwd=tmp_path)
    assert set(json.loads((tmp_path / "r.json").read_text())) == set(facts)
