"""Goals relative to the first residual, several right-hand sides and x0 on the command line, JSON of all commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import needs_mpi, poisson, refused
from cli_support import tacit as command
from conftest import Run, laplacian

import tacit

A = laplacian(20, 20)
B = np.ones(400)


def near() -> Any:
    """An x0 with a small residual, and that residual."""
    x0 = tacit.solve(A, B, method="cg", rtol=1e-5).x
    return x0, np.linalg.norm(B - A @ x0)


@pytest.mark.parametrize("how", [{}, {"method": "cg"}, {"method": "gmres", "precond": "ilu0"}])
def test_relative_to_the_first_residual(how: Any) -> None:
    x0, first = near()
    r = tacit.solve(A, B, x0, rtol=1e-3, relative_to="first", **how)
    left = np.linalg.norm(B - A @ r.x)
    assert r.converged
    assert left <= 1e-3 * first
    assert r.atol == pytest.approx(1e-3 * first, rel=1e-6)
    assert r.rtol == 0
    assert tacit.solve(A, B, x0, rtol=1e-3, **how).iterations == 0  # relative to b it is good enough


def test_relative_in_the_other_norm_and_without_a_guess() -> None:
    x0, _ = near()
    r = tacit.solve(A, B, x0, rtol=1e-3, relative_to="first", norm="max", method="cg")
    assert np.abs(B - A @ r.x).max() <= 1e-3 * np.abs(B - A @ x0).max()
    same = [tacit.solve(A, B, rtol=1e-3, method="cg", relative_to=to).iterations for to in ("b", "first")]
    assert same[0] == same[1]
    bad = tacit.solve(A, B, 1e6 * B, rtol=1e-3, relative_to="first", method="cg")
    assert bad.converged
    assert bad.residual_norm > 1e-3  # which is relative to b


def test_atol_still_counts() -> None:
    x0, first = near()
    assert tacit.solve(A, B, x0, atol=2 * first, rtol=1e-3, relative_to="first", method="cg").iterations == 0


def test_what_is_refused() -> None:
    two = np.ones((400, 2))
    with pytest.raises(ValueError, match="takes one right-hand side, and b has 2"):
        tacit.solve(A, two, two, relative_to="first")
    with pytest.raises(ValueError, match="nullspace"):
        tacit.solve(A, B, B, relative_to="first", nullspace="constant")
    with pytest.raises(ValueError, match="did you mean 'first'"):
        tacit.solve(A, B, B, relative_to="frist")


@pytest.mark.parametrize("one", [pytest.param(True, marks=needs_mpi)])
def test_relative_on_ranks(one: bool, python: Run) -> None:
    code = """
    import numpy as np, tacit
    world = tacit.comm.world()
    A = tacit.poisson((20, 20), comm=world)
    b = np.ones(400)
    x0 = tacit.solve(A, b, method="cg", rtol=1e-5).x
    r = tacit.solve(A, b, x0, method="cg", rtol=1e-3, relative_to="first")
    first = np.linalg.norm(b - A @ x0)
    assert r.converged and np.linalg.norm(b - A @ r.x) <= 1e-3 * first
    assert abs(r.atol - 1e-3 * first) <= 1e-9 * first
    """
    python(code, ranks=2)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    poisson(tmp_path / "a.mtx", 12)
    b = np.random.default_rng(0).standard_normal((144, 3))
    np.save(tmp_path / "b.npy", b)
    np.save(tmp_path / "one.npy", b[:, :1])
    return tmp_path


def test_several_right_hand_sides(folder: Path) -> None:
    done = command("solve", "a.mtx", "--b", "b.npy", "--output", "x.npy", "--json", "r.json", cwd=folder)
    assert "3 of 3 converged" in done.stdout
    facts = json.loads((folder / "r.json").read_text())
    assert [c["reason"] for c in facts["columns"]] == 3 * ["converged"]
    a, b, x = laplacian(12, 12), np.load(folder / "b.npy"), np.load(folder / "x.npy")
    assert x.shape == (144, 3)
    np.testing.assert_allclose(np.linalg.norm(b - a @ x, axis=0) / np.linalg.norm(b, axis=0), 0, atol=1e-8)


def test_columns_that_do_not_converge(folder: Path) -> None:
    words = ("--method", "cg", "--max-iterations", "2", "--monitor")
    done = command("solve", "a.mtx", "--b", "b.npy", *words, cwd=folder, code=3)
    assert "0 of 3 converged" in done.stdout
    assert "column 2: max iterations at" in done.stdout
    assert "column 1\n" in done.stdout  # a line of the monitor


def test_an_initial_guess(folder: Path) -> None:
    command("solve", "a.mtx", "--b", "one.npy", "--output", "x.npy", cwd=folder)
    again = ("solve", "a.mtx", "--b", "one.npy", "--x0", "x.npy", "--json")
    facts = json.loads(command(*again, cwd=folder).stdout)
    assert facts["iterations"] == 0
    assert facts["x0"] == "x.npy"
    facts = json.loads(command(*again, "--relative-to", "first", "--rtol", "1e-2", cwd=folder).stdout)
    assert facts["iterations"] > 0
    assert facts["rtol"] == 0
    assert "1 vector for 3 right-hand sides" in refused(
        "solve", "a.mtx", "--b", "b.npy", "--x0", "x.npy", cwd=folder, code=4
    )
    assert "expected a vector of 144" in refused("solve", "a.mtx", "--x0", "short.npy", cwd=with_short(folder), code=4)
    assert "--x0" in refused("solve", "a.mtx", "--x0", "x.npy", "--simulate", "2", cwd=folder)


def with_short(folder: Path) -> Path:
    np.save(folder / "short.npy", np.ones(3))
    return folder


def test_check_and_convert_as_json(folder: Path) -> None:
    (folder / "bad.mtx").write_text("no matrix")
    done = command("check", "a.mtx", "bad.mtx", "--json", cwd=folder, code=4)
    good, bad = json.loads(done.stdout)["files"]
    assert (good["valid"], good["entries"], good["kind"]) == (True, 672, "matrix_market")
    assert bad == {"file": "bad.mtx", "valid": False}
    assert "valid, Matrix Market" in done.stderr
    facts = json.loads(command("convert", "a.mtx", "a.npz", "--json", cwd=folder).stdout)
    assert (facts["schema"], facts["nonzeros"]) == ("tacit.convert/1", 672)
    assert facts["target_bytes"] == (folder / "a.npz").stat().st_size


def test_every_command_with_figures_has_json() -> None:
    from tacit.cli.command import build_parser, commands_of

    without = {name for name, p in commands_of(build_parser()).items() if "--json" not in p._option_string_actions}
    assert without == {"mpirun", "completion"}
