"""`tacit poisson`, tacit.app.poisson, and the options of halos: paths, levels, schedules, sweeps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_support import LONG, needs_mpi, refused
from cli_support import tacit as command

import tacit
from tacit.app.poisson import Cube

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("solution", ["bump", "sine"])
def test_the_error_falls_with_the_square_of_the_mesh_width(solution: str) -> None:
    errors = []
    for nodes in (9, 17, 33):
        cube = Cube(nodes)
        result = tacit.solve(cube.stencil(), cube.right_side(solution), method="cg", rtol=1e-11)
        errors.append(cube.distance(result.x, solution)["max"])
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.2)
    assert errors[1] / errors[2] == pytest.approx(4, abs=0.1)


def test_sweeps_and_forms_have_the_closed_form_of_richardson() -> None:
    cube = Cube(17)
    b = cube.right_side("sine")
    for A in (cube.stencil(), cube.matrix()):
        for sweeps in (None, 1, 2):
            result = tacit.solve(
                A, b, method="richardson", precond="jacobi", rtol=0, max_iterations=50, sweeps=sweeps, fallbacks=False
            )
            # An eigenvector: each step multiplies the residual by cos(pi h).
            factor = np.cos(np.pi / 16)
            assert result.residual_norm == pytest.approx(factor**50, abs=1e-12)
            assert result.history[-1] == pytest.approx(factor**49, abs=1e-12)


def test_paths_and_schedules_change_no_bit() -> None:
    def solve(comm: tacit.comm.Communicator) -> list[np.ndarray]:
        cube = Cube(13, "boxes", comm=comm)
        A, b = cube.matrix(), cube.right_side("bump")
        found = [
            tacit.solve(A, b, comm=comm, method="cg", path=path, schedule=schedule).x
            for path, schedule in [
                ("auto", "auto"),
                ("messages", "overlapped"),
                ("shared", "jobs"),
                ("persistent", "split"),
                ("put", "synchronous"),
                ("gather", "jobs"),
            ]
        ]
        assert comm.path == "auto"
        return [np.asarray(x) for x in found]

    for all_of_rank in tacit.comm.run_threads(3, solve):
        for x in all_of_rank[1:]:
            assert np.array_equal(x, all_of_rank[0])


def test_levels_and_paths_are_checked() -> None:
    def look(comm: tacit.comm.Communicator) -> str:
        comm.set_levels("2")
        with pytest.raises(ValueError, match="levels"):
            comm.set_levels("2,a")
        with pytest.raises(ValueError, match="did you mean"):
            comm.path = "sharde"
        return comm.topology

    assert tacit.comm.run_threads(4, look) == ["4 ranks: 2 node groups"] * 4
    with pytest.raises(ValueError, match="path"):
        tacit.solve(Cube(5).stencil(), np.ones(27), path="messags")
    with pytest.raises(ValueError, match="sweeps"):
        tacit.solve(Cube(5).stencil(), np.ones(27), method="cg", sweeps=2)


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    command("poisson", "--n", "9", "--nested", "3", "--json", str(tmp_path / "r.json"))
    runs = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert [r["nodes"] for r in runs] == [9, 17, 33]
    assert runs[2]["error_ratio"] == pytest.approx(4, abs=0.1)
    done = command("poisson", "--n", "9", "--method", "richardson", "--iterations", "20", "--solution", "sine")
    assert f"{np.cos(np.pi / 8) ** 20:.4e}" in done.stdout
    refused("poisson", "--n", "2")
    refused("poisson", "--form", "cs")


@needs_mpi[0]
@needs_mpi[1]
def test_the_command_runs_on_ranks(tmp_path: Path) -> None:
    command(
        *("poisson", "--n", "17", "--ranks", "2", "--form", "csr", "--parts", "boxes", "--path", "shared"),
        *("--schedule", "jobs", "--levels", "1", "--json", str(tmp_path / "r.json")),
    )
    run = json.loads((tmp_path / "r.json").read_text())["runs"][0]
    assert run["converged"]
    assert run["ranks"] == [1, 1, 2]
    assert run["topology"] == "2 ranks: 2 node groups"


@pytest.mark.slow
def test_a_solve_runs_over_the_wire() -> None:
    if "Open MPI" not in tacit.comm.library() and "MPICH" not in tacit.comm.library():
        pytest.skip("no MPI in this build")
    mpi = "openmpi" if "Open MPI" in tacit.comm.library() else "mpich"
    environment = dict(os.environ, MPI=mpi, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT / "python"))
    words = ["poisson", "--n", "17", "--schedule", "jobs", "--method", "cg"]
    done = subprocess.run(
        ["sh", str(ROOT / "scripts/with_delay.sh"), "300", sys.executable, "-m", "tacit", *words],
        capture_output=True, text=True, check=False, timeout=LONG, env=environment,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stderr.strip() or "no wire here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1x1x2 ranks" in done.stdout
