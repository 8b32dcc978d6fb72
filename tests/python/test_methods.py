"""s-step and pipelined methods as a Python user meets them: scalars, preconditioners, options, ranks, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg
from cli_support import needs_mpi
from cli_support import tacit as command
from conftest import SCALARS, as_scalar, in_this_build, laplacian, true_residual, unsymmetric

import tacit
from tacit._described import SOLVE_NAMES

POSITIVE = ["pipelined-cg", "ca-cg"]
GENERAL = ["pipelined-bicgstab", "pipelined-gmres", "ca-bicgstab", "ca-gmres", "pipelined-ca-gmres"]
CLASSICAL = {
    "pipelined-cg": "cg", "ca-cg": "cg", "pipelined-bicgstab": "bicgstab", "ca-bicgstab": "bicgstab",
    "pipelined-gmres": "gmres", "ca-gmres": "gmres", "pipelined-ca-gmres": "gmres",
}  # fmt: skip
# Every option that a method names, with values beside the default.
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("pipelined-cg", {"depth": 2}),
    ("pipelined-cg", {"replacement": 20}),
    ("pipelined-cg", {"replacement": 0}),
    ("pipelined-bicgstab", {"replacement": 20}),
    ("ca-cg", {"step": 4, "basis": "newton"}),
    ("ca-cg", {"step": 3, "basis": "monomial", "norm": "max"}),
    ("ca-bicgstab", {"step": 8, "basis": "chebyshev"}),
    ("ca-bicgstab", {"step": 2, "basis": "monomial", "norm": "max"}),
    ("pipelined-gmres", {"depth": 5, "restart": 20}),
    ("pipelined-gmres", {"tau": 8e-3, "side": "left"}),
    ("pipelined-ca-gmres", {"depth": 3, "block": 4, "tau": 8e-3}),
    ("ca-gmres", {"step": 5, "basis": "chebyshev"}),
    ("ca-gmres", {"orthogonalisation": "bcgs", "block_qr": "tsqr"}),
    ("ca-gmres", {"orthogonalisation": "bcgs2", "block_qr": "cholqr2"}),
    ("ca-gmres", {"orthogonalisation": "bcgs", "block_qr": "mixed-cholqr"}),
    ("ca-gmres", {"orthogonalisation": "bcgs-pip2", "step": 6}),
    ("ca-gmres", {"powers": "kernel", "step": 5}),
    ("ca-cg", {"powers": "kernel", "step": 4, "precond": "jacobi"}),
    ("ca-bicgstab", {"powers": "kernel", "step": 4}),
    ("ca-gmres", {"storage": "float32"}),
    ("ca-gmres", {"storage": "bfloat16"}),
    ("ca-gmres", {"side": "left", "restart": 12}),
]


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", POSITIVE + GENERAL)
def test_answers(method: str, scalar: str) -> None:
    a = as_scalar(laplacian(9, 8) if method in POSITIVE else unsymmetric(72), scalar)
    rng = np.random.default_rng(3)
    exact = rng.standard_normal(72).astype(scalar)
    b = a @ exact
    rtol = 1e-4 if scalar in ("float32", "complex64") else 1e-11
    r = tacit.solve(a, b, method=method, rtol=rtol)
    assert r.converged, r.summary()
    assert true_residual(a, r.x, b) <= rtol * (1.001 if rtol < 1e-8 else 1.2)


@pytest.mark.parametrize(
    ("method", "options"), OPTIONS, ids=lambda v: "-".join(map(str, v.values())) if isinstance(v, dict) else v
)
def test_options_change_the_way_and_not_the_answer(method: str, options: dict[str, Any]) -> None:
    a, b = laplacian(14, 11), np.ones(154)
    exact = np.linalg.solve(a.toarray(), b)
    r = tacit.solve(a, b, method=method, rtol=1e-10, **options)
    assert r.converged, r.summary()
    assert np.linalg.norm(r.x - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("method", POSITIVE + GENERAL)
@pytest.mark.parametrize("precond", ["jacobi", "ic0"])
def test_preconditioned_like_the_classical_method(method: str, precond: str) -> None:
    a, b = laplacian(20, 20), np.ones(400)
    variant = tacit.solve(a, b, method=method, precond=precond, rtol=1e-8)
    classical = tacit.solve(a, b, method=CLASSICAL[method], precond=precond, rtol=1e-8)
    assert variant.converged, variant.summary()
    assert variant.iterations <= 1.1 * classical.iterations + 2


@pytest.mark.parametrize("method", ["ca-gmres", "pipelined-gmres", "pipelined-ca-gmres"])
@pytest.mark.parametrize("precond", [None, "ic0"])
@pytest.mark.parametrize("side", [18, 20, 21])
def test_long_cycles_keep_the_digits_of_gmres(method: str, precond: str | None, side: int) -> None:
    a, b = laplacian(side, side), np.ones(side * side)
    variant = tacit.solve(a, b, method=method, precond=precond, rtol=1e-8, restart=60)
    classical = tacit.solve(a, b, method="gmres", precond=precond, rtol=1e-8, restart=60)
    assert variant.converged, variant.summary()
    assert variant.iterations <= classical.iterations + 2


@pytest.mark.parametrize("method", POSITIVE + GENERAL)
def test_functions_and_scipys_operators(method: str) -> None:
    a, b = laplacian(9, 8), np.ones(72)
    linear = scipy.sparse.linalg.aslinearoperator(a)
    scaled = scipy.sparse.linalg.LinearOperator((72, 72), matvec=lambda x: 0.25 * x)
    stored = tacit.solve(a, b, method=method, rtol=1e-9)
    for r in (
        tacit.solve(linear, b, method=method, rtol=1e-9),
        tacit.solve(a, b, method=method, precond=scaled, rtol=1e-9),
    ):
        assert r.converged, r.summary()
        assert r.iterations <= stored.iterations + 4


def test_where_there_is_no_powers_kernel_the_report_says_so() -> None:
    for a, precond, why in (
        (tacit.poisson((8, 8)), None, "stencil"),
        (laplacian(8, 8), "ilu0", "preconditioner"),
    ):
        r = tacit.solve(a, np.ones(64), method="ca-gmres", precond=precond, powers="kernel")
        assert r.converged, r.summary()
        assert any("powers kernel" in text and why in text for text in r.warnings), r.warnings


def test_fewer_reductions() -> None:
    a, b = unsymmetric(400), np.ones(400)
    counts = {}
    for method in ("gmres", "ca-gmres", "bicgstab", "ca-bicgstab"):
        r = tacit.solve(a, b, method=method, rtol=1e-300, max_iterations=90, fallbacks=False, history=False)
        counts[method] = r.counts["reductions"] / r.iterations
    assert counts["ca-gmres"] < 0.7 * counts["gmres"]
    assert counts["ca-bicgstab"] < 0.4 * counts["bicgstab"]


@pytest.mark.parametrize(
    ("method", "options", "told"),
    [
        ("cg", {"step": 4}, "step 4 is an option of ca-cg"),
        ("gmres", {"depth": 2}, "depth 2 is an option of pipelined-cg"),
        ("ca-gmres", {"block": 5}, "block 5 is an option of pipelined-ca-gmres"),
        ("gmres", {"tau": 0.1}, "tau"),
        ("gmres", {"storage": "float32"}, "storage float32 is an option of ca-gmres"),
        ("ca-gmres", {"orthogonalisation": "mgs"}, "orthogonalisation is mgs; ca-gmres takes auto, bcgs, bcgs2"),
        ("gmres", {"orthogonalisation": "two-stage"}, "orthogonalisation is two-stage; gmres takes"),
        ("ca-gmres", {"block_qr": "tsqr"}, "goes with orthogonalisation bcgs"),
        ("ca-gmres", {"step": 0}, "step"),
        ("pipelined-gmres", {"depth": 0}, "depth"),
        ("pipelined-ca-gmres", {"depth": 1}, "depth"),
        ("ca-gmres", {"basis": "newtn"}, "newton"),
        ("ca-gmres", {"powers": "kernle"}, "kernel"),
        ("pipelined-gmres", {"powers": "kernel"}, "powers kernel"),
        ("ca-gmers", {}, "ca-gmres"),
    ],
)
def test_wrong_use_is_told(method: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        tacit.solve(laplacian(5, 5), np.ones(25), method=method, **options)


def test_a_basis_that_cannot_be_is_survived() -> None:
    # A monomial basis of 20 vectors is singular to rounding: the method falls back, reports it, and converges.
    a, b = laplacian(30, 30), np.ones(900)
    r = tacit.solve(a, b, method="ca-gmres", step=20, basis="monomial", restart=60, rtol=1e-9)
    assert r.converged, r.summary()
    assert r.warnings


@pytest.mark.slow
@needs_mpi[0]
@needs_mpi[1]
@pytest.mark.parametrize("method", POSITIVE + GENERAL)
def test_command_line_on_ranks(method: str, tmp_path: Path) -> None:
    a = laplacian(15, 12)
    scipy.io.mmwrite(tmp_path / "a.mtx", a)
    words = ["solve", tmp_path / "a.mtx", "--method", method, "--rtol", "1e-9", "--ranks", "3", "--json", "-"]
    if method.startswith("ca-"):
        words += ["--step", "4", "--basis", "newton"]
    if method == "pipelined-ca-gmres":
        words += ["--depth", "2", "--block", "4", "--tau", "1e-3"]
    report = json.loads(command(*words, "--engine", "thread").stdout)
    assert report["converged"]
    assert report["ranks"] == 3
    assert report["residual_norm"] <= 1e-9


@pytest.mark.slow
@needs_mpi[0]
@needs_mpi[1]
def test_a_powers_kernel_needs_one_exchange_a_block(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "a.mtx", laplacian(24, 20))
    reports = {}
    for powers in ("products", "kernel"):
        words = ["solve", tmp_path / "a.mtx", "--method", "ca-cg", "--step", "4", "--basis", "newton"]
        words += ["--powers", powers, "--rtol", "1e-9", "--ranks", "3", "--json", "-"]
        reports[powers] = json.loads(command(*words).stdout)
        assert reports[powers]["converged"]
    assert reports["kernel"]["iterations"] == reports["products"]["iterations"]
    assert reports["kernel"]["residual_norm"] == reports["products"]["residual_norm"]  # double precision: the same bits
    assert reports["kernel"]["counts"]["exchanges"] <= 0.5 * reports["products"]["counts"]["exchanges"]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("method", in_this_build(SOLVE_NAMES))
def test_no_iterations_need_no_products_but_that_with_x0(method: str, ranks: int) -> None:
    """Counted by the report, and for P by the function itself: x is x0, to the bit, and its residual is known."""
    a, b, calls = laplacian(9, 8), np.ones(72), []
    x0 = np.linspace(1, 2, 72)
    known = None if method in ("auto", "direct") else lambda v: calls.append(1) or v / 4

    def rank(comm: Any) -> None:
        A = tacit.csr(a, comm=comm)
        P = None if known is None else tacit.function((72, 72), known, rmatvec=known, comm=comm)
        for many in (1, 3):
            for guess in (None, x0):
                begin, right = (v if v is None or many == 1 else np.stack([v] * many, axis=1) for v in (guess, b))
                r = tacit.solve(A, right, begin, method=method, precond=P, max_iterations=0)
                assert (r.reason, r.iterations, r.info) == ("max_iterations", 0, 1)
                assert np.array_equal(r.x, np.zeros_like(right) if begin is None else begin)
                x = np.zeros(72) if guess is None else x0
                assert np.isclose(r.residual_norm, np.linalg.norm(b - a @ x) / np.linalg.norm(b))
                assert r.counts["operator_applies"] == (0 if guess is None else many)
                assert r.counts["preconditioner_applies"] == 0

    tacit.comm.run_threads(ranks, rank)
    assert calls == []


@pytest.mark.parametrize("method", [name for name in in_this_build(SOLVE_NAMES) if name != "richardson"])
def test_a_limit_that_is_just_enough_is_no_failure(method: str) -> None:
    """Where the last iteration allowed is the one that converges, the limit was not the end."""
    a, b = laplacian(9, 8), np.random.default_rng(0).standard_normal(72)
    for precond in (None, *(() if method == "direct" else ("ic0",))):
        needed = tacit.solve(a, b, method=method, precond=precond).iterations
        assert needed > 0
        r = tacit.solve(a, b, method=method, precond=precond, max_iterations=needed)
        assert (r.reason, r.iterations) == ("converged", needed)


@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres", "richardson", "chebyshev", *POSITIVE, *GENERAL])
def test_every_method_stops_on_the_largest_component(method: str) -> None:
    a = laplacian(9, 8) + 4 * sp.eye_array(72)
    b = np.random.default_rng(5).standard_normal(72)
    r = tacit.solve(a, b, method=method, precond="jacobi", norm="max", rtol=1e-6)
    assert r.converged, r.summary()
    assert r.norm == "max"
    left = np.max(np.abs(b - a @ r.x)) / np.max(np.abs(b))
    assert left <= 1e-6 * (1 + 1e-9)
    assert r.residual_norm == pytest.approx(left, rel=1e-6)
