"""Multigrid from Python: problems with known answers, cells on one and several ranks, the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_support import refused
from cli_support import tacit as run

import tacit
from tacit import grid_problems as problems
from tacit import multigrid as mg


def test_cells_and_grids() -> None:
    cells = mg.cells((6, 4, 5), ["periodic", "dirichlet", ("neumann", "dirichlet")], lengths=(2.0, 1.0, 1.0))
    assert cells.count == 120
    x, y, z = cells.centres()
    A = mg.finite_volume(cells, a=1.0, beta=lambda x, y, z: 1 + y * z)
    grid = A.to_grid(A.sample(lambda x, y, z: x + 10 * y + 100 * z))
    assert grid.shape == (6, 4, 5)
    assert grid[1, 2, 3] == pytest.approx(0.5 + 10 * 0.625 + 100 * 0.7)
    np.testing.assert_array_equal(A.from_grid(grid), x + 10 * y + 100 * z)
    dense = A.assemble().to_scipy().toarray()  # type: ignore[attr-defined]
    np.testing.assert_allclose(dense, dense.T)
    v = np.linspace(-1, 1, 120)
    np.testing.assert_allclose(A @ v, dense @ v, rtol=1e-12)


def test_coefficients_by_cell_are_those_of_each_rank() -> None:
    rng = np.random.default_rng(7)
    beta, u = 1 + rng.random((8, 6, 4)), rng.standard_normal((8, 6, 4))

    def product(on: object) -> np.ndarray:
        cells = mg.cells((8, 6, 4), "periodic", comm=on)
        A = mg.finite_volume(cells, 0.9, 0.9, beta=cells.from_grid(beta))
        with pytest.raises(ValueError, match="beta has 7 values; this rank has"):
            mg.finite_volume(cells, beta=np.ones(7))
        return A.to_grid(A @ A.from_grid(u))

    alone = product(None)
    for found in tacit.comm.run_threads(2, product):
        np.testing.assert_array_equal(found, alone)


def test_inhomogeneous_boundaries_are_second_order() -> None:
    """u = exp(x) sin 2 y with its values on two sides and its fluxes on the others."""
    errors = []
    for n in (16, 32, 64):
        cells = mg.cells((n, n), [("dirichlet", "neumann"), ("neumann", "dirichlet")])
        A = mg.finite_volume(cells, 2.0, 1.0, beta=lambda x, y: 1 + x * y)
        u = A.sample(lambda x, y: np.exp(x) * np.sin(2 * y))
        # 2 u - (beta u_x)_x - (beta u_y)_y
        f = A.sample(
            lambda x, y: (
                np.exp(x)
                * (2 * np.sin(2 * y) - y * np.sin(2 * y) - 2 * x * np.cos(2 * y) + 3 * (1 + x * y) * np.sin(2 * y))
            )
        )

        def flux(x: float, y: float) -> float:
            beta = 1 + x * y
            return beta * np.exp(x) * np.sin(2 * y) if x == 1 else -beta * 2 * np.exp(x) * np.cos(2 * y)

        f = f + A.boundary_terms(lambda x, y: np.exp(x) * np.sin(2 * y), flux)
        result = mg.solve(A, f, rtol=1e-11)
        assert result.converged
        errors.append(np.abs(result.x - u).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 1.85).all(), (errors, orders)


@pytest.mark.parametrize(
    ("axes", "n", "jump", "ell", "expected"),
    [
        # Smallest, largest, rms of phi by a sparse direct solver.
        (2, 64, 10, False, (-2.851178998e-1, 5.827759317e-1, 1.370409194e-1)),
        (2, 64, 10, True, (-3.998749629e-1, 1.831581806e-1, 1.122927815e-1)),
        (2, 64, 816, False, (-3.074461293e1, 3.955452453e1, 8.953980845e0)),
        (2, 64, 816, True, (-3.407002330e1, 1.754158789e1, 9.035313977e0)),
        (3, 32, 10, False, (-5.956440431e-1, 7.790407945e-1, 1.760433083e-1)),
        (3, 32, 816, True, (-6.128907458e1, 5.026972885e1, 1.325088877e1)),
    ],
)
def test_projections_as_by_a_direct_solver(
    axes: int, n: int, jump: float, ell: bool, expected: tuple[float, ...]
) -> None:
    p = problems.projection(n, axes=axes, jump=jump, ell=ell)
    M = mg.multigrid(p.A, symmetric=True)
    result = tacit.solve(p.A, p.f, method="cg", precond=M, rtol=1e-12, norm="max")
    assert result.iterations < 25
    phi = result.x
    seen = phi.min(), phi.max(), np.sqrt((phi**2).mean())
    np.testing.assert_allclose(seen, expected, rtol=2e-8)


@pytest.mark.parametrize("bottom", ["bicgstab", "ca-bicgstab", "ca-cg"])
def test_projection_has_no_failed_bottom(bottom: str) -> None:
    for time in (0.0, 2.0):
        p = problems.projection(32, axes=2, jump=816, ell=True, time=time)
        result = mg.solve(p.A, p.f, cycle="U", smallest_box=2, bottom=bottom, pre=3, post=3, max_cycles=100)
        assert result.converged, result
        assert result.bottom_failures == 0


@pytest.mark.parametrize(("shape", "cycles"), [((64, 64, 64), 15), ((96, 64, 80), 29)])
def test_a_jump_on_faces_does_not_stop_cycles(shape: tuple[int, ...], cycles: int) -> None:
    """beta on the interface is that of one side, so coarse faces must account for the fine faces between coarse
    centres. Cells of 96 x 64 x 80 are half as long again along one axis as along another, where point smoothers are
    weaker: a cycle reduces the residual by 0.40 instead of 0.21.
    """
    cells = mg.cells(shape, "periodic")
    A = mg.finite_volume(cells, 1.0, 0.1, beta=lambda x, y, z: 1 + 9 * (x > 0.5))
    result = mg.solve(A, A.sample(lambda x, y, z: np.sin(2 * np.pi * x) + y))
    assert result.converged
    assert result.cycles <= cycles


def test_gravity_as_by_fourier_transform() -> None:
    p = problems.gravity(64, growth=0.1)
    assert p.exact is not None
    np.testing.assert_allclose(np.sqrt((p.f**2).mean()), 0.233617942, rtol=1e-8)
    result = mg.solve(p.A, p.f)
    assert result.converged
    assert np.abs(result.x - p.exact).max() < 1e-8 * np.abs(p.exact).max()
    np.testing.assert_allclose(np.sqrt((result.x**2).mean()), 2.723207468597e-4, rtol=1e-9)


def test_easy_diffusion_has_few_bottom_iterations() -> None:
    p = problems.diffusion(32, boxes=8)
    counts = {}
    for bottom in ("bicgstab", "ca-bicgstab"):
        result = mg.solve(p.A, p.f, cycle="U", smallest_box=2, bottom=bottom)
        assert result.converged
        counts[bottom] = result.cycles, result.bottom_iterations
    # Solves of 4 or 5 iterations: blocks of 1, 2, 4 are left as soon as the residual is small enough.
    assert counts["ca-bicgstab"] == counts["bicgstab"]


def test_ranks_share_cells() -> None:
    """The same numbers on three ranks, whichever way vectors are given."""
    alone = problems.helmholtz(24, coefficient="bubble")
    expected = alone.A.to_grid(mg.solve(alone.A, alone.f).x)
    grids = []

    def body(comm: object) -> None:
        p = problems.helmholtz(24, coefficient="bubble", comm=comm)
        result = mg.solve(p.A, p.f, bottom="ca-bicgstab", agglomerate_below=0)
        assert result.converged
        assert result.levels[0]["ranks"] == 3
        grids.append(p.A.to_grid(result.x))

    tacit.comm.run_threads(3, body)
    for grid in grids:
        np.testing.assert_allclose(grid, expected, atol=1e-12 * np.abs(expected).max() * 100)


def test_one_rank_may_have_all_cells() -> None:
    def body(comm: object) -> tuple[float, bool]:
        cells = mg.cells((4, 4), "dirichlet", boxes=4, comm=comm)
        A = mg.finite_volume(cells, 1.0)
        f = A.sample(lambda x, y: x)
        result = mg.solve(A, f)
        grid = A.to_grid(f)
        assert np.array_equal(A.to_grid(A.from_grid(grid)), grid)
        return float(grid.sum()), result.converged

    assert tacit.comm.run_threads(2, body) == [(8.0, True)] * 2


def test_a_mean_that_nothing_solves_is_told() -> None:
    A = mg.finite_volume(mg.cells((16, 16)))
    assert A.singular
    result = mg.solve(A, np.ones(256) + np.linspace(-1, 1, 256))
    assert result.converged
    assert "no u solves" in result.warnings[0]
    assert not mg.solve(A, np.linspace(-1, 1, 256)).warnings


def test_wrong_use_is_refused() -> None:
    cells = mg.cells((8, 8))
    A = mg.finite_volume(cells, 1.0)
    with pytest.raises(ValueError, match="gauss-seidel"):
        mg.multigrid(A, smoother="gaus-seidel")
    with pytest.raises(ValueError, match="bicgstab"):
        mg.multigrid(A, bottom="bicgstb")
    with pytest.raises(TypeError, match="max_cycles"):
        mg.solve(A, np.ones(64), cycles=3)
    with pytest.raises(ValueError, match="64"):
        mg.solve(A, np.ones(63))
    with pytest.raises(tacit.UsageError, match="ca-cg"):
        mg.multigrid(A, bottom="bicgstab", step=4)
    with pytest.raises(tacit.UsageError, match="direct"):
        mg.multigrid(A, bottom="direct", step=4)
    with pytest.raises(tacit.UsageError, match=r"relaxation 0\.75 is an option of the smoother jacobi"):
        mg.multigrid(A, relaxation=0.75)
    with pytest.raises(tacit.UsageError, match="chebyshev_range 3 is an option of the smoother chebyshev"):
        mg.multigrid(A, smoother="jacobi", chebyshev_range=3)
    mg.multigrid(A, smoother="jacobi", relaxation=0.75)
    mg.multigrid(A, smoother="chebyshev", chebyshev_range=3)
    with pytest.raises(ValueError, match="periodic"):
        mg.cells((8, 8), "periodical")
    with pytest.raises(tacit.UsageError, match="one end"):
        mg.cells((8,), [("periodic", "neumann")])


def test_command_line(tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    words = ["multigrid", "--n", "16", "--coefficient", "bubble", "--rhs", "manufactured", "--bottom", "ca-bicgstab"]
    run(*words, "--step", "4", "--boxes", "8", "--cycle", "U", "--json", out, "--plot", tmp_path / "m.png")
    facts = json.loads(out.read_text())
    assert facts["converged"] is True
    assert facts["reason"] == "converged"
    assert facts["unknowns"] == 4096
    assert facts["bottom"] == "ca-bicgstab"
    assert facts["error_norm"] == pytest.approx(1.25e-2, rel=1e-3)
    assert facts["residual_norm"] <= 1e-10
    assert set(facts["seconds"]) == {"setup", "solve", "bottom"}
    assert facts["levels"][0]["cells"] == [16, 16, 16]
    assert facts["dofs_per_second"] > 0
    assert (tmp_path / "m.png").stat().st_size > 10000
    run("multigrid", "--n", "16", "--precondition", "cg", "--bottom", "ca-cg", "--levels", "2", "--json", out)
    facts = json.loads(out.read_text())
    assert facts["bottom"] == "ca-cg"
    assert facts["bottom_iterations"] > facts["bottom_solves"] == facts["cycles"] > 0
    for key in (
        "unknowns",
        "bottom_choice",
        "cycle",
        "converged",
        "reason",
        "residual_norm",
        "error_norm",
        "dofs_per_second",
        "counts",
    ):
        assert key in facts
    run("multigrid", "--n", "8", "--max-cycles", "1", code=3)
    refused("multigrid", "--cycle", "X")


@pytest.mark.parametrize(
    ("words", "option"),
    [("--growth 0.3", "growth"), ("--problem gravity --jump 3", "jump"), ("--problem diffusion --ell", "ell"),
     ("--problem gravity --coefficient bubble", "coefficient"), ("--problem projection --rhs manufactured", "rhs")],
)  # fmt: skip
def test_options_of_another_problem_are_refused(words: str, option: str) -> None:
    assert f"--{option} is of --problem" in refused("multigrid", *words.split())


def test_fourth_order_stencil() -> None:
    """u = exp(x) sin 2 y with its values on all sides, beta and alpha varying: averages over cells."""
    errors = []
    for n in (16, 32):
        cells = mg.cells((n, n), "dirichlet")
        A = mg.finite_volume(
            cells, 1.0, 1.0, alpha=lambda x, y: 1 + x, beta=lambda x, y: 1 + x * y, stencil="fourth-order"
        )
        assert not A.is_hermitian()
        u = A.sample(lambda x, y: np.exp(x) * np.sin(2 * y))
        f = A.sample(
            lambda x, y: (
                np.exp(x)
                * (
                    (1 + x) * np.sin(2 * y)
                    - y * np.sin(2 * y)
                    - 2 * x * np.cos(2 * y)
                    + 3 * (1 + x * y) * np.sin(2 * y)
                )
            )
        ) + A.boundary_terms(lambda x, y: np.exp(x) * np.sin(2 * y))
        result = mg.solve(A, f, rtol=1e-11)
        assert result.converged
        assert result.cycles <= 10
        errors.append(np.abs(result.x - u).max())
        if n == 16:
            dense = A.assemble().to_scipy().toarray()  # type: ignore[attr-defined]
            v = np.linspace(-1, 1, n * n)
            np.testing.assert_allclose(A @ v, dense @ v, atol=1e-9 * np.abs(dense).max())
            x = tacit.solve(A, f, method="gmres", precond=mg.multigrid(A), rtol=1e-9).x
            np.testing.assert_allclose(x, result.x, atol=1e-7)
    assert np.log2(errors[0] / errors[1]) > 3.7, errors
    with pytest.raises(ValueError, match="a callable"):
        mg.finite_volume(cells, beta=np.ones(n * n), stencil="fourth-order")
    with pytest.raises(Exception, match="constant coefficients"):
        mg.finite_volume(cells, beta=lambda x, y: 1 + x, stencil="27-point")


@pytest.mark.parametrize("stencil", mg.stencils())
def test_one_full_cycle_on_the_command_line(stencil: str) -> None:
    """The error of an F-cycle alone is that of the discretisation, of each order."""
    words = ["multigrid", "--n", "32", "--boundary", "dirichlet", "--rhs", "manufactured", "--stencil", stencil]
    words += ["--cycle", "F", "--pre", "3", "--post", "3", "--json"]
    if stencil != "fourth-order":
        words += ["--full-interpolation", "quadratic"]
    one = json.loads(run(*words, "--max-cycles", "1", code=3).stdout)
    all_ = json.loads(run(*words).stdout)
    assert one["stencil"] == stencil
    assert one["cycles"] == 1
    assert one["error_norm"] <= 1.1 * all_["error_norm"]


def test_one_full_cycle_treats_all_ends_alike() -> None:
    """u = cos(pi t / 2) sin(pi s), t from a Neumann end that lies on one of four sides."""

    def error(axis: int, low: bool) -> float:
        ends: list[object] = ["dirichlet", "dirichlet"]
        ends[axis] = ("neumann", "dirichlet") if low else ("dirichlet", "neumann")
        A = mg.finite_volume(mg.cells((32, 32), ends))
        x, y = A.cells.centres()
        t, s = (x, y) if axis == 0 else (y, x)
        u = np.cos(np.pi * (t if low else 1 - t) / 2) * np.sin(np.pi * s)
        one = mg.solve(A, 1.25 * np.pi**2 * u, cycle="F", max_cycles=1, pre=1, post=1)
        return float(np.abs(one.x - u).max())

    errors = [error(axis, low) for axis in (0, 1) for low in (True, False)]
    np.testing.assert_allclose(errors, errors[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_virtual_device_solves_as_the_host_does(dtype: str) -> None:
    """The kernels of a device, run by the processor, on an L-shape with boxes that touch."""
    cells = mg.cells((40, 32), [("dirichlet", "neumann"), "periodic"], boxes=8, inside=lambda x, y: x < 0.5 or y < 0.5)
    A = mg.finite_volume(cells, a=0.1, beta=lambda x, y: 1.5 + np.sin(6 * x + y), dtype=dtype)
    f = A.sample(lambda x, y: np.cos(5 * x) - y)
    rtol = 1e-4 if dtype == "float32" else 1e-10
    expected = mg.solve(A, f, rtol=rtol)
    got = mg.solve(A, f, rtol=rtol, device="virtual", bottom_cells=100)
    assert got.converged
    assert got.bottom == "bicgstab"
    assert got.bottom_failures == 0
    assert got.cycles <= expected.cycles + 1  # of fewer levels
    np.testing.assert_allclose(got.x, expected.x, atol=100 * rtol * np.abs(expected.x).max())
    assert np.abs(f - A @ got.x).max() <= 2 * rtol * np.abs(f).max()


def test_a_device_refuses_what_it_has_not() -> None:
    A = mg.finite_volume(mg.cells((16, 16), "dirichlet"))
    f = A.sample(lambda x, y: x + y)
    for options, told in (
        ({"cycle": "K"}, "cycles V, W, F and U; this one is K"),
        ({"bottom": "cg"}, "bicgstab"),
        ({"step": 4}, "bottom_reduction"),
        ({"interpolation": "cubic"}, "linearly"),
    ):
        with pytest.raises(tacit.UsageError, match=told):
            mg.solve(A, f, device="virtual", **options)
    with pytest.raises(ValueError, match="unknown device"):
        mg.solve(A, f, device="tpu")
    with pytest.raises(tacit.UsageError, match="bottom_cells 100 is an option of a device"):
        mg.solve(A, f, bottom_cells=100)
    if not tacit._core.cuda_built:
        with pytest.raises(tacit.EnvironmentFailure, match="CUDA"):
            mg.solve(A, f, device="cuda")


def test_a_virtual_device_on_the_command_line() -> None:
    done = run("multigrid", "--n", "16", "--boundary", "dirichlet", "--device", "virtual", "--json")
    facts = json.loads(done.stdout)
    assert facts["device"] == "virtual"
    assert facts["converged"]
    assert facts["residual_norm"] <= 1e-10
    refused("multigrid", "--n", "16", "--device", "virtual", "--precondition", "cg")


def test_virtual_devices_on_ranks_have_the_residuals_of_one_rank() -> None:
    def body(comm: object) -> mg.Result:
        A = mg.finite_volume(
            mg.cells((16, 16, 16), "dirichlet", boxes=4, comm=comm), beta=lambda x, y, z: 1 + x + y * z
        )
        f = A.sample(lambda x, y, z: np.sin(5 * x) - y + z)
        return mg.solve(A, f, device="virtual", bottom_cells=30, bottom_reduction=1e-12)

    (alone,) = tacit.comm.run_threads(1, body)
    for ranks in (2, 3):
        for found in tacit.comm.run_threads(ranks, body):
            assert found.converged
            assert found.levels[0]["ranks"] == ranks
            assert found.counts["messages"] > 0
            np.testing.assert_allclose(found.history, alone.history, atol=1e-12)


def test_a_preconditioner_tells_what_its_levels_did() -> None:
    p = problems.helmholtz(16, boundary="dirichlet")
    M = mg.multigrid(p.A)
    M @ p.f
    levels = M.take_report()["levels"]
    assert [level["cells"][0] for level in levels][:2] == [16, 8]
    assert levels[0]["half_sweeps"] == 8
    assert M.take_report()["levels"][0]["half_sweeps"] == 0
