"""The causes that failed solves name: cases of bench/diagnoses.py, and random systems."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import ROOT, laplacian

import tacit

sys.path.insert(0, str(ROOT / "bench"))
import diagnosed_systems as systems
import diagnoses

CASES = {case.name: case for case in systems.CASES}
QUICK = [
    "Neumann problem",
    "weighted null vector",
    "two components",
    "b is the null vector",
    "zero column",
    "rank 50 of 60, complex",
    "rank 50 of 60, consistent",
    "zero matrix",
    "nilpotent, in the range",
    "convection",
    "one tiny negative eigenvalue",
    "P nonsymmetric",
    "P singular",
    "P zero",
    "P with NaN",
    "A function with NaN",
    "cyclic shift, gmres(30)",
    "limit too low, cg",
    "rtol 1e-17",
    "rtol 1e-12, single",
    "Hilbert 24",
    "condition 1e18",
    "one eigenvalue of 1e-14",
    "lost orthogonality",
    "product changes",
    "wrong adjoint",
    "chebyshev, lambda_max too small",
    "richardson, omega 1",
    "richardson, negative definite",
]


def verdicts(case: Any) -> list[str]:
    rows = [diagnoses.judge(case, setting) for setting in case.settings]
    return [f"{r['method']}: {r['wrong']}: {r['detail']} | {r['advice']}" for r in rows if r["wrong"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_failure_names_its_cause(name: str) -> None:
    assert verdicts(CASES[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in QUICK])
def test_every_failure_names_its_cause(name: str) -> None:
    assert verdicts(CASES[name]) == []


def test_no_random_system_is_claimed_falsely() -> None:
    rows = [diagnoses.fuzz_one(7000000 + i) for i in range(150)]
    assert [r for r in rows if any("more iterations" not in text for text in r["wrong"])] == []


def test_transposes_of_hermitian_matrices_are_hermitian() -> None:
    a = laplacian(8, 8)
    for A in (tacit.csr(a).T, tacit.csr(a).H, tacit.csr(a).T.H):
        assert A.is_hermitian()
        assert tacit.solve(A, np.ones(64)).method == "cg"
    assert not tacit.csr(a + sp.diags_array(0.5 * np.ones(63), offsets=1)).T.is_hermitian()


def test_more_iterations_are_not_the_advice_where_the_residual_rests() -> None:
    rested = 0
    for seed in range(60):
        A = systems.singular_values(np.r_[np.logspace(0, -10, 17), 0, 0, 0], seed)
        r = tacit.solve(A, A @ np.ones(20), method="bicgstab", rtol=1e-10, fallbacks=False, history=True)
        if r.reason == "max_iterations" and np.argmin(r.history) < 0.7 * r.iterations:
            rested += 1
            assert "more iterations are unlikely to help" in r.advice, r.advice
    assert rested > 0


def test_a_solution_within_the_tolerance_is_not_denied() -> None:
    # b has a part of 2e-7 along a singular vector of 8e-15: x is long, and its residual exact to about 1e-8.
    solved = 0
    for seed in range(8):
        values = np.r_[np.linspace(1, 2, 34), 1e-7, 1e-8, 3e-9, 3e-9, 1e-9, 8e-15]
        part = np.r_[systems.normal(34, seed), np.zeros(5)]
        b = systems.orthogonal(40, seed) @ np.r_[part / np.linalg.norm(part), 2e-7]
        A = systems.singular_values(values, seed)
        solved += tacit.solve(A, b, method="gmres", precond="none").converged
        r = tacit.solve(A, b, method="idr", precond="none", max_iterations=400)
        assert "inconsistent" not in r.detail, r.detail
    assert solved > 4


def test_bicgstab_leaves_a_run_that_wanders() -> None:
    # Where the spectrum surrounds 0, steps of least residual along t = A s are too short.
    for values in (np.linspace(1, 2, 60), np.r_[np.linspace(1, 2, 50), np.zeros(10)]):
        for seed in range(5):
            A = systems.singular_values(values, seed)
            r = tacit.solve(A, A @ np.ones(60), method="bicgstab")
            assert r.converged, r.advice


def test_a_nearly_singular_matrix_is_not_called_inconsistent() -> None:
    values = np.r_[1e-14, np.linspace(1, 2, 59)]
    r = tacit.solve(systems.spectrum(values), systems.normal(60), method="gmres")
    assert not r.converged
    assert "nearly singular" in r.detail
    assert "inconsistent" not in r.detail


def test_advice_depends_on_the_precision() -> None:
    a, b = laplacian(12, 12), np.ones(144)
    single = tacit.solve(a.astype(np.float32), b.astype(np.float32), method="cg", rtol=1e-12)
    double = tacit.solve(a, b, method="cg", rtol=1e-17)
    assert "use double precision" in single.advice
    assert "use double precision" not in double.advice
    assert "rounding error of b - A x" in double.detail


def waves(n: int) -> Any:
    """A damped wave equation on a square: complex symmetric, indefinite, not Hermitian."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    laplacian = sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line)
    return sp.csr_array(laplacian + (-0.2 + 0.1j) * sp.eye_array(n * n))


@pytest.mark.parametrize("method", ["cocg", "cocr"])
def test_complex_symmetric_methods_say_what_they_need(method: str) -> None:
    a = waves(30)
    b = np.ones(900) + 0.5j
    for precond in ("none", "ilu0"):
        r = tacit.solve(a, b, method=method, precond=precond)
        other = tacit.solve(a, b, method="bicgstab", precond=precond)
        assert r.converged
        assert np.linalg.norm(b - a @ r.x) <= 1.001e-8 * np.linalg.norm(b)
        assert r.counts["operator_applies"] < other.counts["operator_applies"]
    upper = sp.triu(a.real, 1)
    hermitian = sp.csr_array((1 + 0.5j) * upper + (1 - 0.5j) * upper.T + 5 * sp.eye_array(900))
    r = tacit.solve(hermitian, b, method=method, precond="none", max_iterations=200, explain=True)
    assert not r.converged
    assert "the matrix A is not symmetric" in r.detail
    assert "Hermitian: use cg or minres" in r.advice
    bent = tacit.csr(sp.diags_array([1.0, 0.9], offsets=[0, -1], shape=(900, 900)), scalar="complex128")
    r = tacit.solve(a, b, method=method, precond=bent, max_iterations=40, explain=True)
    assert not r.converged
    assert "the preconditioner P, csr, is not symmetric" in r.detail
