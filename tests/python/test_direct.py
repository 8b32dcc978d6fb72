"""Complete factors: method="direct", precond="direct", and the last candidate of the default solve."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import Run

import tacit
from tacit import _core

pytestmark = pytest.mark.skipif(not _core.direct_built(), reason="a build without Eigen")


def scattered(n: int, density: float, dtype: str = "float64") -> sp.csr_array:
    """Random entries at random places and 0.5 I: factors fill, and iterations see no structure."""
    rng = np.random.default_rng(1)
    a = sp.random_array((n, n), density=density, rng=rng, data_sampler=rng.standard_normal) + 0.5 * sp.eye_array(n)
    if dtype.startswith("complex"):
        a = a + 1j * a.T
    return sp.csr_array(a.astype(dtype))


def residual(a: sp.csr_array, b: np.ndarray, x: np.ndarray) -> float:
    return float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))


def test_the_default_solve_ends_with_complete_factors() -> None:
    a = scattered(3000, 0.002)
    operator = tacit.csr(a)
    for seed in (2, 3):
        b = a @ np.random.default_rng(seed).standard_normal(3000)
        r = tacit.solve(operator, b)
        assert r.converged, (r.reason, r.choice)
        assert residual(a, b, r.x) <= 1.1e-8
        assert "direct" in r.choice
        assert r.precond == "direct"
    assert r.iterations <= 3  # of the factors that were kept


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_all_scalars_and_many_right_hand_sides(dtype: str) -> None:
    a = scattered(300, 0.02, dtype)
    B = a @ np.random.default_rng(4).standard_normal((300, 70)).astype(dtype)
    rtol = 1e-5 if dtype in ("float32", "complex64") else 1e-12
    r = tacit.solve(a, B, method="direct", rtol=rtol)
    assert r.converged
    assert r.x.dtype == np.dtype(dtype)
    for c in range(70):
        assert residual(a, B[:, c], r.x[:, c]) <= 1.1 * rtol
    assert all(one.iterations <= 3 for one in r.columns)


def test_factors_are_made_once_and_serve_any_method() -> None:
    a = scattered(300, 0.02)
    A = tacit.csr(a)
    M = tacit.precond.make(A, "direct")
    assert M is not None
    b = np.ones(300)
    for method in ("direct", "gmres", "bicgstab", "richardson"):
        r = tacit.solve(A, b, method=method, precond=M)
        assert r.converged
        assert r.iterations <= 3
        assert residual(a, b, r.x) <= 1.1e-8
    x = tacit.solve(A, b, method="direct", rtol=1e-12).x
    assert residual(a, b, x) <= 1.1e-12


@pytest.mark.parametrize("place", [5, 17])
def test_singular_matrices_are_a_breakdown_that_names_the_column(place: int) -> None:
    a = scattered(60, 0.05).tolil()
    a[:, [place]] = 0
    r = tacit.solve(sp.csr_array(a), np.ones(60), method="direct")
    assert r.reason == "breakdown"
    assert f"column {place}" in r.detail
    assert np.isfinite(r.x).all()


def test_a_singular_matrix_with_a_solution_is_solved_by_default() -> None:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tolil()
    line[0, 0] = line[49, 49] = 1
    a = sp.csr_array(line)
    b = a @ np.random.default_rng(6).standard_normal(50)
    for method in ("auto", "direct"):
        r = tacit.solve(a, b, method=method)
        assert r.converged, (method, r.reason, r.detail)
        assert residual(a, b, r.x) <= 1.1e-8


def test_other_preconditioners_are_refused() -> None:
    with pytest.raises(ValueError, match='method "direct" solves with the factors'):
        tacit.solve(sp.eye_array(4).tocsr(), np.ones(4), method="direct", precond="ilu0")
    with pytest.raises(ValueError, match=r"entries|stored"):
        tacit.solve(tacit.function((4, 4), lambda x: x), np.ones(4), method="direct")


def test_a_large_coarsest_level_is_factorised() -> None:
    A = tacit.poisson((70, 70), assembled=True)
    M = tacit.precond.amg(A, coarsest=3000, bottom="direct")
    assert M.report["bottom"] == "direct"
    r = tacit.solve(A, np.ones(4900), method="cg", precond=M)
    assert r.converged


@pytest.mark.mpi
def test_ranks_give_the_numbers_of_one(python: Run) -> None:
    program = """
import numpy as np, scipy.sparse as sp, tacit
rng = np.random.default_rng(1)
a = sp.csr_array(sp.random_array((90, 90), density=0.05, rng=rng) + 0.5 * sp.eye_array(90))
w = tacit.comm.world()
B = np.arange(180.0).reshape(90, 2)
r = tacit.solve(a, B, method="direct", rtol=1e-12)
one = tacit.solve(a, B, method="direct", rtol=1e-12, comm=tacit.comm.self_())
assert r.converged and np.abs(r.x - one.x).max() <= 1e-9 * np.abs(one.x).max(), r
parts = w.all_gather(r.x.tobytes())
assert all(p == parts[0] for p in parts)
"""
    for ranks in (2, 3, 5):
        python(program, ranks=ranks)
