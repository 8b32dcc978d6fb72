"""Algebraic multigrid where its use goes wrong: what is said, and that nothing else breaks."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import laplacian

import tacit


@pytest.mark.parametrize("scalar", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("coarsening", ["aggregation", "pmis", "hmis"])
def test_the_unit_of_the_matrix_does_not_matter(coarsening: str, scalar: str) -> None:
    """Also where products of two entries leave the range of the scalars."""
    a = laplacian(24, 24)
    b = np.ones(a.shape[0]).astype(scalar)
    exponent = 80 if scalar in ("float32", "complex64") else 600

    def iterations(power: int) -> int:
        A = tacit.csr((a * 2.0**power).astype(scalar))
        M = tacit.precond.amg(A, coarsening=coarsening, coarsest=30)
        r = tacit.solve(A, b, method="cg", precond=M, rtol=1e-4)
        assert r.converged
        return int(r.iterations)

    assert iterations(-exponent) == iterations(0) == iterations(exponent)


def test_a_bottom_that_fails_is_reported() -> None:
    A = tacit.csr(laplacian(30, 30))
    M = tacit.precond.amg(A, coarsest=30, bottom="cg", bottom_max_iterations=1)
    assert tacit.solve(A, np.ones(900), method="fgmres", precond=M).converged
    report = M.report
    assert report["bottom_failures"] == report["bottom_solves"] > 0
    assert report["warnings"] == ["bottom cg: max_iterations"]


@pytest.mark.parametrize("bottom", ["automatic", "bicgstab", "direct"])
def test_names_a_reduction_that_is_no_number(bottom: str) -> None:
    A = tacit.csr(laplacian(8, 8))
    with pytest.raises(ValueError, match=r"bottom_reduction is -?nan"):
        tacit.precond.amg(A, bottom=bottom, bottom_reduction=float("nan"))
