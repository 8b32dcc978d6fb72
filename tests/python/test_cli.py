"""`tacit solve`: exit codes, what it prints and writes, ranks."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from cli_support import (
    LONG,
    clean_environment,
    grid_entries,
    needs_applications,
    needs_mpi,
    poisson,
    refused,
    tacit,
    write_mtx,
)
from conftest import ALLOW, ROOT

import tacit as library
from tacit import report
from tacit.files import uniform


@pytest.fixture
def system(tmp_path: Path) -> Path:
    return poisson(tmp_path / "poisson.mtx")


def residual(x: np.ndarray[Any, Any], b: np.ndarray[Any, Any], n: int = 12, wind: float = 0.0) -> float:
    """|b - A x| / |b| of the grid's system, in sums that lose nothing."""
    rows: dict[int, list[float]] = {i: [float(b[i])] for i in range(n * n)}
    for (i, j), value in grid_entries(n, wind).items():
        rows[i].append(-value * float(x[j]))
    return math.hypot(*(math.fsum(parts) for parts in rows.values())) / math.hypot(*map(float, b))


# --- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["slove"], 'did you mean "solve"?'),
        (["solve", "a.mtx", "--method", "gmrs"], 'did you mean "gmres"?'),
        (["solve", "a.mtx", "--precond", "jacoby"], 'did you mean "jacobi"?'),
        (["solve", "a.mtx", "--precond", "polynomial:degree"], "OPTION=VALUE"),
        (["solve", "a.mtx", "--orthogonalisation", "cgs3"], 'did you mean "cgs"?'),
        (["solve", "a.mtx", "--side", "rigth"], 'did you mean "right"?'),
        (["solve", "a.mtx", "--scalar", "float46"], 'did you mean "float64"?'),
        (["solve", "a.mtx", "--methd", "cg"], 'did you mean "--method"?'),
        (["solve", "a.mtx", "--meth", "cg"], 'unknown option "--meth"'),
        (["solve", "a.mtx", "--verbose"], 'did you mean "--monitor"?'),
        (["solve", "a.mtx", "--maxiter", "3"], 'did you mean "--max-iterations"?'),
        (["solve", "a.mtx", "--tol", "3"], 'did you mean "--rtol"?'),
        (["solve", "a.mtx", "--pc", "ilu0"], 'did you mean "--precond"?'),
        (["solve", "a.mtx", "-ksp_type", "cg"], 'did you mean "--method"?'),
        (["solve", "a.mtx", "--precond", "icc"], 'did you mean "ic0"?'),
        (["solve", "a.mtx", "--wobble"], 'unknown option "--wobble"\n'),
        (["bem", "a.mtx", "--precond", "bjacobi"], 'did you mean "block-jacobi"?'),
        (["solve", "a.mtx", "b.mtx"], 'unexpected argument "b.mtx"'),
        (["solve", "a.mtx", "--rtol", "-1"], "expected a number >= 0"),
        (["solve", "a.mtx", "--rtol", "nan"], "expected a number >= 0"),
        (["solve", "a.mtx", "--ranks", "0"], "from 1"),
        (["solve", "a.mtx", "--rhs", "random:x"], "random:SEED"),
        (["solve", "a.mtx", "--output", "x.txt"], ".mtx, .npy"),
        (["solve", "a.mtx", "--output", "nowhere/x.npy"], "does not exist"),
        (["solve", "a.mtx", "--output", "a.mtx"], "the same file"),
        (["solve", "a.mtx", "--json", "x", "--trace", "x"], "the same file"),
        (["solve"], "FILE"),
        (["mpirun", "-n", "2"], "is missing"),
        (["convert", "a.mtx", "a.mtx"], "the same file"),
        (["demo", "--size", "xl"], 's, m, l'),
        ([], "commands:"),
    ],
)  # fmt: skip
def test_wrong_use(words: list[str], said: str, tmp_path: Path) -> None:
    poisson(tmp_path / "a.mtx", 2)
    assert said in refused(*words, cwd=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.mtx"]


def test_an_option_that_a_preconditioner_lacks(system: Path) -> None:
    assert "degree" in refused("solve", system, "--precond", "polynomial:degre=3")


def test_help_is_quick_and_version_is_known() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = tacit("--help").stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time, since the machine may be busy; alone it takes a tenth of a second.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
    assert all(name in out for name in ("solve", "info", "check", "convert", "doctor", "demo", "exit codes"))
    assert tacit("--version").stdout.strip() == f"tacit {report.version()}"
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys; from tacit import cli; cli.build_parser(); print('numpy' in sys.modules)"],
        capture_output=True, text=True, check=True, env=clean_environment(),
    )  # fmt: skip
    assert loaded.stdout.strip() == "False"


# --- the result -------------------------------------------------------------------------------------------------------

TYPES: dict[str, Any] = {
    "schema": str, "version": str, "command": list, "method": str, "precond": str, "converged": bool, "reason": str,
    "advice": str, "iterations": int, "residual_norm": float, "recurrence_residual_norm": float, "history": list,
    "unknowns": int, "nonzeros": int, "ranks": int, "threads": int, "device": str, "scalar": str, "seconds": dict,
    "counts": dict,
}  # fmt: skip


def parsed(text: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    facts: dict[str, Any] = json.loads(text, parse_constant=refuse)
    for name, kind in TYPES.items():
        assert type(facts[name]) is kind, f"{name} is {facts[name]!r}"
    assert facts["schema"] == "tacit.solve/1"
    assert set(facts["seconds"]) == {"read", "setup", "solve", "explain"}
    assert all(type(value) is float and value >= 0 for value in facts["seconds"].values())
    assert set(facts["counts"]) == {
        "reductions", "operator_applies", "preconditioner_applies", "exchanges", "messages", "bytes"
    }  # fmt: skip
    assert all(type(value) is int and value >= 0 for value in facts["counts"].values())
    return facts


def test_json_alone_on_standard_output(system: Path) -> None:
    done = tacit("solve", system, "--method", "cg", "--precond", "jacobi", "--json", "-")
    facts = parsed(done.stdout)
    assert facts["method"].startswith("cg")
    assert facts["precond"] == "jacobi"
    assert facts["converged"] is True
    assert facts["reason"] == "converged"
    assert facts["residual_norm"] <= 1e-8
    assert facts["unknowns"] == 144
    assert facts["nonzeros"] == 144 * 5 - 4 * 12
    assert facts["ranks"] == 1
    assert len(facts["history"]) == facts["iterations"] + 1
    assert facts["command"][:2] == ["tacit", "solve"]
    assert "converged" in done.stderr  # the report for people


def test_report(system: Path) -> None:
    out = tacit("solve", system, "--method", "gmres", "--precond", "ilu0").stdout
    for word in (
        "144 unknowns",
        "gmres",
        "ilu0",
        "1 rank",
        "converged",
        "recomputed",
        "iterations",
        "reductions",
        "ms",
    ):
        assert word in out


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["doctor"],
        ["solve", "SYSTEM"],
        pytest.param(["multigrid", "--n", "8", "--axes", "2"], marks=needs_applications),
        pytest.param(["bem", "sphere:2"], marks=needs_applications),
    ],
    ids=lambda words: words[0],
)
def test_who_reads_no_further_is_no_failure(words: list[str], system: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tacit", *(str(system) if w == "SYSTEM" else w for w in words)],
            env=clean_environment(), stdout=write, stderr=subprocess.PIPE, text=True, timeout=LONG, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_not_converged(system: Path, tmp_path: Path) -> None:
    done = tacit(
        "solve",
        system,
        "--method",
        "cg",
        "--max-iterations",
        "3",
        "--json",
        "r.json",
        "--output",
        "x.npy",
        code=3,
        cwd=tmp_path,
    )
    facts = parsed((tmp_path / "r.json").read_text())
    assert facts["converged"] is False
    assert facts["reason"] == "max_iterations"
    assert facts["advice"]
    assert facts["advice"].split()[0] in done.stdout
    assert "NOT CONVERGED: max iterations" in done.stdout
    assert len(np.load(tmp_path / "x.npy")) == 144


def test_replaced_pivots_are_reported(tmp_path: Path) -> None:
    entries = {(i, (i + 1) % 40): 2.0 for i in range(40)} | {(i, (i + 7) % 40): 0.5 for i in range(40)}
    path = write_mtx(tmp_path / "a.mtx", (40, 40), entries)
    words = ("solve", path, "--method", "bicgstab", "--precond", "ilu0", "--json", tmp_path / "r.json")
    out = tacit(*words, code=3).stdout
    facts = parsed((tmp_path / "r.json").read_text())
    assert "pivots of 40 were zero or too small and replaced" in facts["warnings"][0]
    assert "pivots of 40 were zero" in " ".join(out.split())
    assert "is the likely cause" in facts["detail"]


def test_cg_on_a_matrix_that_is_not_symmetric(tmp_path: Path) -> None:
    out = tacit("solve", poisson(tmp_path / "a.mtx", 12, wind=0.9), "--method", "cg", code=3).stdout
    out = " ".join(out.split())
    assert "A is not Hermitian" in out
    assert "use gmres or bicgstab" in out


def test_what_json_cannot_say_is_null() -> None:
    text = report.dump({"a": math.nan, "b": [math.inf, 1.0], "c": np.float64(-math.inf), "d": np.arange(2), "e": 1j})
    assert json.loads(text) == {"a": None, "b": [None, 1.0], "c": None, "d": [0, 1], "e": [0.0, 1.0]}


@pytest.mark.parametrize("suffix", [".mtx", ".npy", ".npz", ".petsc"])
def test_output(system: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    tacit("solve", system, "--rhs", "random:7", "--rtol", "1e-10", "--output", path)
    x = np.asarray(library.read_vector(path)).ravel()
    from tacit import files

    assert residual(x, files.uniform(7, 0, 144)) < 1.01e-10
    assert not list(tmp_path.glob(".*"))
    # What was written can be a right-hand side.
    assert parsed(tacit("solve", system, "--rhs", path, "--json", "-").stdout)["converged"] is True


@pytest.mark.parametrize("rhs", ["ones", "random:3", "b.npy", "b.mtx"])
def test_right_hand_sides(system: Path, tmp_path: Path, rhs: str) -> None:
    from tacit import files

    b = {"ones": np.ones(144), "random:3": files.uniform(3, 0, 144)}.get(rhs, np.linspace(-1, 2, 144))
    if rhs.startswith("b."):
        library.write(tmp_path / rhs, b)
    tacit("solve", system, "--rhs", rhs, "--output", "x.npy", cwd=tmp_path)
    assert residual(np.load(tmp_path / "x.npy"), b) < 1.01e-8


def test_random_numbers_do_not_depend_on_who_asks() -> None:
    from tacit import files

    whole = files.uniform(5, 0, 100)
    parts = [files.uniform(5, a, b) for a, b in ((0, 7), (7, 7), (7, 8), (8, 50), (50, 100))]
    assert np.array_equal(np.concatenate(parts), whole)
    assert -1 <= whole.min() < 0 < whole.max() < 1
    assert not np.array_equal(whole, files.uniform(6, 0, 100))


def test_complex_system(tmp_path: Path) -> None:
    entries = {place: complex(value, 0.5 * (place[0] == place[1])) for place, value in grid_entries(6).items()}
    path = write_mtx(tmp_path / "c.mtx", (36, 36), entries, "complex")
    facts = parsed(tacit("solve", path, "--method", "gmres", "--output", "x.npy", "--json", "-", cwd=tmp_path).stdout)
    assert facts["scalar"] == "complex128"
    assert np.load(tmp_path / "x.npy").dtype == np.complex128
    assert "complex" in tacit("solve", path, "--scalar", "float64", code=4).stderr


def test_options_reach_the_method(tmp_path: Path) -> None:
    path = poisson(tmp_path / "wind.mtx", wind=1.5)

    def run(*words: str) -> dict[str, Any]:
        return parsed(tacit("solve", path, *words, "--json", "-").stdout)

    one, mgs = (run("--method", "gmres", "--orthogonalisation", name) for name in ("one-reduction", "mgs"))
    assert mgs["counts"]["reductions"] > 3 * one["counts"]["reductions"]
    assert run("--method", "gmres", "--restart", "5")["iterations"] > one["iterations"]
    assert run("--method", "bicgstab", "--scalar", "float32", "--rtol", "1e-4")["scalar"] == "float32"
    assert (
        run("--method", "gmres", "--precond", "polynomial:degree=2", "--side", "left")["counts"][
            "preconditioner_applies"
        ]
        > 0
    )
    assert run("--method", "bicgstab", "--atol", "1e3", "--rtol", "0")["iterations"] == 0


def test_monitor_writes_plain_lines(system: Path) -> None:
    done = tacit("solve", system, "--method", "cg", "--monitor")
    lines = [line.split() for line in done.stdout.splitlines() if line[:1] == " " and line.split()[0].isdigit()]
    assert [int(words[0]) for words in lines[:3]] in ([0, 1, 2], [1, 2, 3])
    values = [float(words[1]) for words in lines]
    assert values[-1] <= 1e-8 < values[0]
    assert "\x1b" not in done.stdout


def test_plot_and_trace(system: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    tacit("solve", system, "--plot", "c.png", "--trace", "t.json", cwd=tmp_path)
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    events = json.loads((tmp_path / "t.json").read_text())
    assert events["traceEvents"] if isinstance(events, dict) else events


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=needs_mpi)])
def test_malformed_file(tmp_path: Path, ranks: int) -> None:
    path = poisson(tmp_path / "bad.mtx", 4)
    lines = path.read_text().splitlines()
    lines[9] = "3 2 abc"
    path.write_text("\n".join(lines) + "\n")
    words = ["--output", "x.npy", "--json", "r.json", "--plot", "p.png", "--trace", "t.json"]
    done = tacit("solve", path, *words, "--ranks", ranks, code=4, cwd=tmp_path)
    assert f"{path}:10:" in done.stderr
    assert done.stderr.count(":10:") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["bad.mtx"]


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=[*needs_mpi, pytest.mark.slow])])
def test_other_bad_input(system: Path, tmp_path: Path, ranks: int) -> None:
    def solve(*words: object) -> str:
        return tacit("solve", *words, "--ranks", ranks, code=4, cwd=tmp_path).stderr

    assert "no such file" in solve("nothing.mtx")
    (tmp_path / "junk").write_bytes(b"what is this?")
    assert "junk" in solve("junk")
    write_mtx(tmp_path / "wide.mtx", (2, 3), {(0, 0): 1.0})
    assert "wide.mtx: expected a square matrix, found 2 x 3" in solve("wide.mtx")
    np.save(tmp_path / "short.npy", np.ones(7))
    assert "short.npy: expected a vector of 144 elements, found 7" in solve(system, "--rhs", "short.npy")
    assert "no such file" in solve(system, "--rhs", "nothing.npy")


def test_environment(system: Path) -> None:
    done = tacit("solve", system, "--ranks", "2", code=5, TACIT_MPIEXEC="/bin/false")
    assert "TACIT_MPIEXEC" in done.stderr
    if not library._core.device_available():
        assert tacit("solve", system, "--device", "cuda", code=5).stderr


# --- null spaces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=needs_mpi)])
@pytest.mark.parametrize("given", ["constant", "null.npy"])
def test_null_space(tmp_path: Path, ranks: int, given: str) -> None:
    """The pure Neumann problem on a line; what b has along the constants is taken out and reported."""
    n = 60
    A = scipy.sparse.diags_array(
        [-np.ones(n - 1), np.r_[1, 2 * np.ones(n - 2), 1], -np.ones(n - 1)], offsets=[-1, 0, 1]
    )
    library.write(tmp_path / "A.mtx", scipy.sparse.csr_array(A))
    b = np.arange(n, dtype=float)
    np.save(tmp_path / "b.npy", b)
    np.save(tmp_path / "null.npy", np.full((n, 1), 3.0))
    words = ["--nullspace", given, "--method", "cg", "--rhs", "b.npy", "--ranks", ranks, "--output", "x.npy"]
    facts = parsed(tacit("solve", "A.mtx", *words, "--json", "-", cwd=tmp_path).stdout)
    assert facts["converged"] is True
    assert facts["projected_norm"] == pytest.approx(abs(b.sum()) / np.sqrt(n), rel=1e-12)
    x = np.load(tmp_path / "x.npy").ravel()
    assert abs(x.sum()) < 1e-8 * np.linalg.norm(x)
    assert np.linalg.norm(b - b.mean() - A @ x) < 1.1e-8 * np.linalg.norm(b)


def test_null_space_is_looked_at(system: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.ones(7))
    short = refused("solve", system, "--nullspace", "short.npy", code=4, cwd=tmp_path)
    assert "short.npy: expected vectors of 144 elements as columns, found 7" in short
    assert "left_nullspace goes with nullspace" in refused("solve", system, "--left-nullspace", "constant")
    both = refused("solve", system, "--nullspace", "constant", "--simulate", "4")
    assert "--nullspace needs real ranks" in both
    left = refused("solve", system, "--left-nullspace", "constant", "--simulate", "4")
    assert "--left-nullspace needs real ranks" in left


# --- the near null space of multigrid ---------------------------------------------------------------------------------


def elastic(n: int, m: int, folder: Path) -> tuple[scipy.sparse.csr_array, np.ndarray[Any, Any]]:
    """Springs between neighbours of a grid, also across, whose left edge is held; the matrix and the coordinates."""
    x, y = (c.ravel() for c in np.meshgrid(np.arange(n), np.arange(m), indexing="ij"))
    at = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(x, y, strict=True))}
    rows, columns, values = [], [], []
    for (i, j), k in at.items():
        for step in ((1, 0), (0, 1), (1, 1), (1, -1)):
            to = at.get((i + step[0], j + step[1]))
            if to is not None:
                along = np.array(step) / np.hypot(*step)
                unit = np.kron([1, -1], along)
                four = [2 * k, 2 * k + 1, 2 * to, 2 * to + 1]
                rows += np.repeat(four, 4).tolist()
                columns += 4 * four
                values += np.outer(unit, unit).ravel().tolist()
    free = np.flatnonzero(np.repeat(x, 2) > 0)
    A = scipy.sparse.csr_array((values, (rows, columns)), shape=(2 * n * m, 2 * n * m))[free][:, free]
    A.eliminate_zeros()
    points = np.stack([x, y], 1)[x > 0].astype(float)
    library.write(folder / "A.mtx", A)
    np.save(folder / "nodes.npy", points)
    library.write(folder / "nodes.mtx", points)
    np.save(folder / "modes.npy", library.precond.rigid_body_modes(points))
    return A, points


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=[*needs_mpi, pytest.mark.slow])])
def test_rigid_body_modes(tmp_path: Path, ranks: int) -> None:
    """Rows of a node stay on a rank, however many there are."""
    A, points = elastic(40, 9, tmp_path)
    assert len(points) % 2 == 1
    iterations = []
    for words in (
        ["--precond", "amg:coarsest=50", "--coordinates", "nodes.npy"],
        ["--precond", "amg:coarsest=50,block=2", "--coordinates", "nodes.mtx"],
        ["--precond", "amg:coarsest=50,block=2", "--near-null", "modes.npy"],
        ["--precond", "amg:coarsest=50,block=2"],
    ):
        words += ["--method", "cg", "--rhs", "random:1", "--rtol", "1e-8", "--ranks", ranks, "--output", "x.npy"]
        facts = parsed(tacit("solve", "A.mtx", *words, "--json", "-", cwd=tmp_path).stdout)
        assert facts["converged"] is True
        iterations.append(facts["iterations"])
        x = np.load(tmp_path / "x.npy").ravel()
        b = uniform(1, 0, len(x))
        assert np.linalg.norm(b - A @ x) < 1.1e-8 * np.linalg.norm(b)
    assert iterations[0] == iterations[1] == iterations[2] < 25
    assert iterations[3] > 1.4 * iterations[0]


def test_near_null_is_looked_at(tmp_path: Path) -> None:
    elastic(5, 3, tmp_path)
    np.save(tmp_path / "short.npy", np.ones((7, 2)))
    for words, code, text in (
        (["--coordinates", "nodes.npy"], 2, "--coordinates is for --precond amg"),
        (["--precond", "ic0", "--near-null", "modes.npy"], 2, "--near-null is for --precond amg"),
        (["--precond", "amg:block=3", "--coordinates", "nodes.npy"], 2, "block is 3, and coordinates has 2 columns"),
        (["--precond", "amg", "--near-null", "modes.npy", "--coordinates", "nodes.npy"], 2, "are both given"),
        (
            ["--precond", "amg", "--coordinates", "short.npy"],
            4,
            "short.npy: expected coordinates, 12 x 2 or 8 x 3, for",
        ),
        (["--precond", "amg", "--near-null", "short.npy"], 4, "short.npy: expected vectors of 24 elements as columns"),
        (["--precond", "amg", "--near-null", "none.npy"], 4, "none.npy"),
        (["--precond", "amg", "--near-null", "modes.npy", "--simulate", "4"], 2, "--near-null needs real ranks"),
        (["--precond", "amg", "--near-null", "x.npy", "--output", "x.npy"], 4, "x.npy"),
        (["--precond", "amg", "--near-null", "modes.npy", "--output", "modes.npy"], 2, "the same file"),
    ):
        assert text in refused("solve", "A.mtx", *words, code=code, cwd=tmp_path), words


# --- ranks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranks", [1, pytest.param(2, marks=needs_mpi), pytest.param(4, marks=[*needs_mpi, pytest.mark.slow])]
)
def test_ranks(system: Path, tmp_path: Path, ranks: int) -> None:
    words = ["--rhs", "random:1", "--method", "bicgstab", "--ranks", ranks, "--output", "x.npy", "--json", "-"]
    done = tacit("solve", system, *words, cwd=tmp_path)
    facts = parsed(done.stdout)
    assert facts["ranks"] == ranks
    assert facts["converged"] is True
    assert (facts["counts"]["messages"] > 0) == (ranks > 1)
    from tacit import files

    assert residual(np.load(tmp_path / "x.npy"), files.uniform(1, 0, 144)) < 1.01e-8


@pytest.mark.slow
@needs_mpi[0]
@needs_mpi[1]
def test_codes_of_ranks(system: Path, tmp_path: Path) -> None:
    done = tacit("solve", system, "--ranks", "2", "--method", "cg", "--max-iterations", "2", code=3)
    assert done.stdout.count("NOT CONVERGED") == 1
    assert done.stderr == ""
    done = tacit("solve", system, "--ranks", "2", "--precond", "polynomial:degre=3", code=2)
    assert done.stderr.count("has no option") == 1
    done = tacit("solve", system, "--ranks", "2", "--monitor", "--threads", "1")
    assert done.stdout.count("converged") == 1
    assert "\x1b" not in done.stdout
    assert "2 ranks x 1 thread" in done.stdout


@needs_mpi[0]
@needs_mpi[1]
def test_under_mpiexec(system: Path) -> None:
    from tacit import launch

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        variables = launch.environment(2, 1)
        for name in (launch.RANKS, launch.TERMINAL):
            variables.pop(name, None)
        return subprocess.run(
            [launch.find_mpiexec().path, "-n", "2", sys.executable, "-m", "tacit", "solve", str(system), *words],
            env=variables, text=True, capture_output=True, timeout=LONG, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    done = run("--ranks", "2", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert parsed(done.stdout)["ranks"] == 2
    done = run("--ranks", "3")
    assert done.returncode == 2
    assert done.stderr.count("--ranks 3, but mpiexec started 2") == 1


def test_closed_standard_streams(tmp_path: Path, system: Path) -> None:
    """Daemons and some schedulers close them; the first file that is opened must not take their place."""

    def shell(text: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python")}
        command = f'"{sys.executable}" -m tacit solve "{system}" --threads 1 {text}'
        return subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, timeout=LONG)

    done = shell(">&-")
    assert (done.returncode, done.stderr) == (0, "")
    done = shell(f">&- 2>&- <&- --json {tmp_path / 'o.json'}")
    assert done.returncode == 0
    assert json.loads((tmp_path / "o.json").read_text())["schema"].startswith("tacit.")
    done = shell("--json - >&-")
    assert done.returncode == 5
    assert "standard output: Bad file descriptor" in done.stderr
