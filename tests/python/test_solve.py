"""tacit.solve: methods, preconditioners, scalars, outcomes, callbacks, automatic choices."""

from __future__ import annotations

import ast
import gc
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from conftest import SCALARS, Run, as_scalar, laplacian, true_residual, unsymmetric

import tacit


def test_empty_and_tiny_systems() -> None:
    assert tacit.solve(np.zeros((0, 0)), np.zeros(0)).x.shape == (0,)
    assert tacit.solve([[4.0]], [2.0]).x.tolist() == [0.5]
    assert tacit.solve(np.eye(3), np.zeros(3)).info == 0


def test_a_given_restart_is_what_runs() -> None:
    a, b = laplacian(40, 40), np.ones(1600)
    options: dict[str, Any] = {"method": "gmres", "rtol": 1e-12, "max_iterations": 60}
    absent = tacit.solve(a, b, **options)
    assert any("its cycles are of 60 vectors" in text for text in absent.warnings)
    given = tacit.solve(a, b, restart=30, **options)
    assert given.warnings == []
    plain = tacit.solve(a, b, restart=30, fallbacks=False, **options)
    assert np.array_equal(given.history, plain.history)


def test_a_cycle_that_breaks_down_leaves_what_was_good() -> None:
    a = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tolil()
    a[7, :] = 0
    a, b = a.tocsr(), np.ones(50)
    least = 1.0
    for most in range(60, 140):
        r = tacit.solve(a, b, method="gmres", max_iterations=most)
        assert true_residual(a, r.x, b) <= 1.001 * least, (most, r.summary())
        least = min(least, r.residual_norm)
    assert least <= 0.1415  # 1 / sqrt(50): no x does better


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("method", ["auto", "cg", "bicgstab", "gmres", "chebyshev"])
def test_methods_and_scalars(method: str, scalar: str) -> None:
    a = as_scalar(laplacian(9, 8), scalar)
    rng = np.random.default_rng(2)
    exact = rng.standard_normal(72).astype(scalar)
    if scalar.startswith("complex"):
        exact += (1j * rng.standard_normal(72)).astype(scalar)
    b = a @ exact
    rtol = 1e-5 if scalar in ("float32", "complex64") else 1e-11
    r = tacit.solve(a, b, method=method, rtol=rtol)
    assert r.converged, r.summary()
    assert r.scalar == scalar
    assert r.x.dtype == np.dtype(scalar)
    assert true_residual(a, r.x, b) <= rtol * (1.001 if rtol < 1e-8 else 1.2)
    assert np.linalg.norm(r.x - np.linalg.solve(a.toarray(), b)) <= 200 * rtol * np.linalg.norm(exact)


def test_minres_of_a_matrix_of_zeros_breaks_down() -> None:
    r = tacit.solve(np.zeros((4, 4)), np.ones(4), method="minres", precond="none", fallbacks=False)
    assert (r.reason, len(r.history)) == ("breakdown", r.iterations + 1)
    assert "inconsistent" in r.detail


def test_one_rank_spells_out_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(*_: Any) -> Any:
        raise AssertionError("one rank has nobody to compare its arguments with")

    monkeypatch.setattr("tacit.krylov.compared.compared_form", compared)
    a, b = laplacian(4, 4), np.ones(16)
    assert tacit.solve(a, b).converged
    with pytest.raises(AssertionError, match="nobody"):
        tacit.comm.run_threads(2, lambda c: tacit.solve(a, b, comm=c))


def test_methods_are_named_in_one_file() -> None:
    """What a solve has to know of a method is in traits.py; signatures.py has functions with their names."""
    folder = Path(tacit.krylov.__file__).parent
    names = {*tacit.methods.names()} - {"auto"}  # which is a preconditioner, too
    found = {
        file.name
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in names and file.name != "__init__.py"
    }
    assert found == {"traits.py", "signatures.py"}


def test_auto_knows_symmetry() -> None:
    a = laplacian(8, 8)
    assert tacit.solve(a, np.ones(64)).method == "cg"
    assert tacit.solve(-a, np.ones(64)).method == "cg"
    assert tacit.solve(a - sp.diags_array(np.linspace(0, 8, 64)), np.ones(64)).method == "minres"
    assert tacit.solve(unsymmetric(64), np.ones(64)).method != "cg"
    assert tacit.solve(as_scalar(a, "complex128"), np.ones(64)).method == "cg"
    assert tacit.solve(a, np.ones(64), precond="spai").method == "gmres"
    indefinite = sp.csr_array(a.toarray() - 0.7 * np.eye(64))
    r = tacit.solve(indefinite, np.ones(64))
    assert r.converged
    assert r.method in ("cg", "minres")


def test_asymmetry_of_rounding_is_none() -> None:
    # P^T A P is summed up in two orders on both sides of its diagonal, and some sums cancel.
    rng = np.random.default_rng(0)
    p = sp.random_array((400, 60), density=0.2, rng=rng, format="csr")
    a = sp.csr_array(p.T @ (laplacian(20, 20) @ p))
    assert 0 < abs(a - a.T).max() < 1e-15 * abs(a).max()
    assert tacit.csr(a).is_hermitian()
    assert tacit.solve(a, np.ones(60)).method == "cg"
    r = tacit.solve(a, np.ones(60), precond="ic0")
    assert r.converged
    assert r.method == "cg"
    scale = sp.diags_array(10.0 ** rng.uniform(-6, 6, 60))
    assert tacit.csr(sp.csr_array(scale @ a @ scale)).is_hermitian()
    a[3, 7] *= 1 + 1e-10
    assert not tacit.csr(a).is_hermitian()


@pytest.mark.parametrize("method", ["auto", "cg", "ca-cg", "pipelined-cg"])
@pytest.mark.parametrize("scalar", ["float64", "complex64"])
def test_negative_definite_matrices(method: str, scalar: str) -> None:
    a = as_scalar(-laplacian(9, 8), scalar)
    b = (a @ np.arange(72)).astype(scalar)
    rtol = 1e-4 if scalar == "complex64" else 1e-10
    positive = spl.LinearOperator((72, 72), matvec=lambda x: 0.25 * x, dtype=scalar)
    negative = spl.LinearOperator((72, 72), matvec=lambda x: -0.25 * x, dtype=scalar)
    for precond in (
        None,
        "jacobi",
        dict(name="jacobi", absolute=True),
        "ilu0",
        "ic0",
        "fsai",
        "polynomial",
        dict(name="polynomial", kind="neumann", relaxation=0.5),
        positive,
        negative,
    ):
        r = tacit.solve(a, b, method=method, precond=precond, rtol=rtol)
        assert r.converged, r.summary()
        assert r.method == ("cg" if method == "auto" else method)
        assert any("-A x = -b" in text for text in r.warnings), r.warnings
        assert true_residual(a, r.x, b) <= 1.2 * rtol
    if method != "auto":
        r = tacit.solve(spl.aslinearoperator(a), b, method=method, precond=negative, rtol=rtol)
        assert r.converged, r.summary()
        assert any("-A x = -b" in text for text in r.warnings), r.warnings


@pytest.mark.parametrize(
    "options",
    [dict(method="cg"), dict(method="ca-cg"), dict(method="pipelined-cg"), dict(method="pipelined-cg", depth=3)],
)
def test_cg_says_that_a_matrix_is_not_hermitian(options: dict[str, Any]) -> None:
    a = laplacian(20, 20) + sp.diags_array([0.9, -0.9], offsets=[-1, 1], shape=(400, 400))
    for A in (a, spl.aslinearoperator(a)):
        r = tacit.solve(A, np.ones(400), **options)
        assert not r.converged
        assert "A is not Hermitian" in r.detail
        assert "gmres" in r.advice
        assert "more iterations" not in r.advice
        assert r.iterations <= 110  # of the 4000 that it may do
    # With rows of the identity for boundary values A is not Hermitian either, and cg works.
    fixed = laplacian(20, 20).tolil()
    b = np.ones(400)
    for i in range(20):
        fixed[i, :] = 0
        fixed[i, i] = 1
        b[i] = 0
    assert not tacit.csr(fixed).is_hermitian()
    assert tacit.solve(fixed, b, **options).converged


def test_cg_says_that_a_preconditioner_is_not_hermitian() -> None:
    a = laplacian(20, 20)
    shift = sp.diags_array([1.0, 0.98], offsets=[0, 1], shape=(400, 400)).tocsr()
    r = tacit.solve(a, np.ones(400), method="cg", precond=shift)
    assert not r.converged
    assert "P - P^H" in r.detail
    assert "A is not Hermitian" not in r.detail


def without_diagonal(n: int = 479, seed: int = 1) -> sp.csr_array:
    """A nonsingular matrix without a diagonal: its large entries stand elsewhere, as in chemical engineering."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((n, n), density=3 / n, rng=rng, format="lil")
    a.setdiag(0)
    for i, d in enumerate(10.0 ** rng.uniform(-2, 2, n)):
        a[i, (i + 17) % n] = d
    return sp.csr_array(a)


@pytest.mark.parametrize("method", ["auto", "gmres", "bicgstab", "ca-gmres"])
def test_replaced_pivots_are_told_and_blamed(method: str) -> None:
    a = without_diagonal()
    r = tacit.solve(a, np.ones(479), method=method, precond="ilu0")
    assert not r.converged
    assert "pivots of 479 were zero or too small and replaced" in r.warnings[0]
    assert "ilu0" in r.warnings[0]
    assert "preconditioner block-jacobi (ilu0) is the likely cause" in r.detail
    assert "the matrix" not in r.detail
    assert "preconditioner" in r.advice
    assert not tacit.solve(laplacian(9, 9), np.ones(81), method="gmres", precond="ilu0").warnings


@pytest.mark.parametrize("method", ["auto", "gmres", "bicgstab", "cg"])
def test_inconsistent_systems_are_named(method: str) -> None:
    # Poisson's equation with no flux through the sides, and sources that do not add up to zero.
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(20, 20)).tolil()
    line[0, 0] = line[19, 19] = 1
    a = sp.csr_array(sp.kron(line, sp.eye_array(20)) + sp.kron(sp.eye_array(20), line))
    b = 1 + np.random.default_rng(3).standard_normal(400)
    r = tacit.solve(a, b, method=method)
    assert not r.converged
    assert "inconsistent" in r.detail
    # What no x comes below is told rightly.
    part = abs(b.sum()) / 20 / np.linalg.norm(b)
    assert f"{part:.2g}" in r.detail
    assert "mean" in r.advice
    assert "longer restart or another method does not help" in r.advice
    assert tacit.solve(a, b - b.mean(), method=method).converged
    if method in ("auto", "gmres"):
        row = laplacian(20, 20).tolil()
        row[7, :] = 0
        r = tacit.solve(row.tocsr(), b, method=method)
        assert not r.converged
        assert "rows of zeros" in r.detail
        assert f"{abs(b[7]) / np.linalg.norm(b):.2g}" in r.detail


@pytest.mark.parametrize(
    "precond",
    [
        "jacobi",
        "block-jacobi",
        "ilu0",
        "ic0",
        "spai",
        "fsai",
        "polynomial",
        "none",
        dict(name="polynomial", degree=2),
        dict(name="jacobi", absolute=True),
        dict(name="ilu0", blocks=3),
        dict(name="block_jacobi", solver="ic0"),
    ],
    ids=str,
)
def test_preconditioners(precond: Any) -> None:
    a = laplacian(25, 25)
    b = np.random.default_rng(3).standard_normal(625)
    plain = tacit.solve(a, b, method="gmres", restart=60)
    r = tacit.solve(a, b, method="gmres", restart=60, precond=precond)
    assert r.converged
    assert true_residual(a, r.x, b) <= 1e-8 * 1.001
    name = precond if isinstance(precond, str) else precond["name"]
    if name in ("none", "jacobi"):
        assert r.iterations == plain.iterations
    else:
        assert r.iterations < plain.iterations + (20 if "blocks" in precond else 0)
        assert r.counts["preconditioner_applies"] > 0


def test_preconditioners_made_once() -> None:
    a = tacit.csr(laplacian(15, 15))
    M = tacit.precond.make(a, "polynomial", degree=3)
    assert M is not None
    del a
    gc.collect()  # a polynomial refers to its matrix, and keeps it
    a = laplacian(15, 15)
    for _ in range(2):
        assert tacit.solve(tacit.csr(a), np.ones(225), precond=M).converged
    assert np.allclose(M.diagonal() if M.name == "jacobi" else M @ np.zeros(225), 0)
    assert tacit.precond.make(tacit.csr(a), "none") is None
    assert set(tacit.precond.names()) >= {"none", "jacobi", "ilu0", "ic0", "spai", "polynomial"}


def test_preconditioners_that_users_bring() -> None:
    a = laplacian(12, 12)
    lu = spl.splu(a.tocsc())
    b = np.ones(144)
    for M in (
        spl.LinearOperator(a.shape, matvec=lu.solve),
        tacit.function(a.shape, lu.solve),
        np.linalg.inv(a.toarray()),
    ):
        r = tacit.solve(a, b, precond=M)
        assert r.converged
        assert r.iterations <= 3
    changing = {"n": 0}

    def unsteady(r: np.ndarray) -> np.ndarray:
        changing["n"] += 1
        return lu.solve(r) * (1 + 0.2 * np.sin(changing["n"]))

    r = tacit.solve(a, b, method="gmres", side="flexible", precond=tacit.function(a.shape, unsteady))
    assert r.converged
    assert r.iterations < 15


def test_matrix_free_operators_and_named_preconditioners() -> None:
    a = tacit.poisson((12, 12))
    for precond in ("jacobi", "ilu0", "polynomial"):
        r = tacit.solve(a, np.ones(144), precond=precond)
        assert r.converged, precond
        assert r.method == "cg"
    with pytest.raises(ValueError, match="needs the entries"):
        tacit.solve(tacit.function((4, 4), lambda x: x), np.ones(4), precond="ilu0")


@pytest.mark.parametrize("option", ["one-reduction", "cgs", "cgs2", "mgs"])
@pytest.mark.parametrize("side", ["right", "left", "flexible"])
def test_gmres_options(option: str, side: str) -> None:
    a = unsymmetric(120)
    r = tacit.solve(a, np.ones(120), method="gmres", restart=7, side=side, orthogonalisation=option, precond="jacobi")
    assert r.converged
    assert true_residual(a, r.x, np.ones(120)) <= 1e-8


def test_richardson_and_chebyshev_take_their_numbers() -> None:
    a = laplacian(10)
    ends = np.linalg.eigvalsh(a.toarray())[[0, -1]]
    best = 2 / ends.sum()
    fast = tacit.solve(a, np.ones(10), method="richardson", relaxation=best)
    slow = tacit.solve(a, np.ones(10), method="richardson", relaxation=best / 2)
    assert fast.converged
    assert slow.converged
    assert fast.iterations < slow.iterations
    r = tacit.solve(a, np.ones(10), method="chebyshev", lambda_min=ends[0], lambda_max=ends[1])
    assert r.converged
    assert r.iterations < fast.iterations / 3


# --- numerical outcomes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", [{}, {"partition": "graph"}, {"ordering": "rcm"}], ids=str)
def test_numbers_that_are_not_finite_are_named(value: float, options: dict[str, Any]) -> None:
    a, b = laplacian(20), np.ones(20)
    b[13] = value
    r = tacit.solve(a, b, **options)
    assert r.reason == "non_finite"
    assert "b has a value that is not finite at index 13" in r.detail
    assert r.info == -3
    assert np.all(r.x == 0)
    assert r.iterations == 0
    x0 = np.zeros(20)
    x0[2] = value
    assert "x0 has a value that is not finite at index 2" in tacit.solve(a, np.ones(20), x0, **options).detail
    bad = a.copy()
    bad[7, 8] = value
    assert "row 7, column 8" in tacit.solve(bad, np.ones(20), **options).detail


@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres", "richardson", "chebyshev"])
def test_operators_that_turn_nan(method: str, python: Run) -> None:
    """In a process of its own: a method that never notices would never end."""
    python(
        f"""
        import numpy as np, tacit
        calls = 0
        def product(x):
            global calls
            calls += 1
            return np.full(20, np.nan) if calls > 4 else 2 * x - np.roll(x, 1) / 2 - np.roll(x, -1) / 3
        r = tacit.solve(tacit.function((20, 20), product), np.arange(20.0), method={method!r},
                        **({{"relaxation": 0.2}} if {method!r} == "richardson" else {{}}),
                        **({{"lambda_min": 0.5, "lambda_max": 3.0}} if {method!r} == "chebyshev" else {{}}))
        assert r.reason == "non_finite", r.summary()
        assert np.all(np.isfinite(r.x))
        """
    )


def test_outcomes() -> None:
    a = laplacian(200)
    assert tacit.solve(a, np.ones(200), precond="none", max_iterations=5).reason == "max_iterations"
    b = np.random.default_rng(0).standard_normal(200)
    assert tacit.solve(a, b, rtol=1e-30).reason == "stagnated"
    assert tacit.solve(np.diag([3.0, 5.0]), np.ones(2), method="richardson").reason == "diverged"
    singular = tacit.solve(np.diag([1.0, 0.0]), np.ones(2))
    assert not singular.converged
    assert singular.advice
    with pytest.raises(tacit.NotConverged, match="max_iterations") as caught:
        tacit.solve(a, np.ones(200), precond="none", max_iterations=5, raise_on_failure=True)
    assert caught.value.result.iterations == 5
    assert isinstance(caught.value, RuntimeError)


def test_scaling_by_powers_of_ten() -> None:
    a, b = laplacian(30), np.ones(30)
    plain = tacit.solve(a, b)
    for factor in (1e-250, 1e250):
        r = tacit.solve(a * factor, b)
        assert r.converged
        assert r.iterations == plain.iterations
        r = tacit.solve(a, b * factor)
        assert r.iterations == plain.iterations


def test_history_can_be_left_out() -> None:
    assert len(tacit.solve(laplacian(20), np.ones(20), history=False).history) == 0


# --- callbacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cg", "bicgstab", "gmres", "richardson", "chebyshev"])
def test_callback_sees_the_iteration(method: str) -> None:
    a, b = laplacian(12), np.ones(12)
    seen = []

    def look(state: tacit.CallbackState) -> None:
        residual = np.linalg.norm(b - a @ state.x) / np.linalg.norm(b)
        seen.append((state.iteration, state.residual_norm, residual))

    r = tacit.solve(
        a, b, method=method, callback=look, max_iterations=9, **({"relaxation": 0.4} if method == "richardson" else {})
    )
    assert [s[0] for s in seen] == list(range(1, r.iterations + 1))
    if method == "richardson":  # which knows a residual when the next iterate is made
        seen = [(k, later[1], residual) for (k, _, residual), later in itertools.pairwise(seen)]
    for _, told, true in seen:
        assert told == pytest.approx(true, rel=1e-5, abs=1e-12)


def test_callback_stops() -> None:
    a, b = laplacian(50), np.ones(50)
    for answer in (True, np.True_):
        r = tacit.solve(a, b, precond="none", callback=lambda s, answer=answer: answer if s.iteration == 4 else None)
        assert (r.reason, r.iterations, r.info) == ("stopped", 4, 4)
    for answer in (None, 1, 0.5, "yes", False):  # whatever a lambda happens to return
        assert tacit.solve(a, b, callback=lambda s, answer=answer: answer).converged

    def stop(state: tacit.CallbackState) -> None:
        if state.iteration == 2:
            raise StopIteration

    assert tacit.solve(a, b, precond="none", callback=stop).iterations == 2


def test_callback_state_ends_with_the_callback() -> None:
    kept = []
    tacit.solve(laplacian(10), np.ones(10), callback=kept.append)
    assert "iteration 1" in repr(kept[0])
    with pytest.raises(ValueError, match="while the callback runs"):
        _ = kept[0].x


class Unusual(Exception):
    pass


def test_exceptions_of_callbacks_and_operators_arrive_unchanged() -> None:
    error = Unusual("told", 7)

    def fail(*_: Any) -> None:
        raise error

    for solve in (
        lambda: tacit.solve(laplacian(9), np.ones(9), callback=fail),
        lambda: tacit.cg(laplacian(9), np.ones(9), callback=fail),
        lambda: tacit.solve(tacit.function((9, 9), fail), np.ones(9)),
        lambda: tacit.solve(laplacian(9), np.ones(9), precond=tacit.function((9, 9), fail)),
        lambda: tacit.function((9, 9), fail) @ np.ones(9),
    ):
        with pytest.raises(Unusual) as caught:
            solve()
        assert caught.value is error


class TestAutomatic:
    """Solves that choose method and preconditioner by trial."""

    @staticmethod
    def permuted(n: int = 400) -> Any:
        """A matrix with zeros on its diagonal and rows of very different size."""
        rng = np.random.default_rng(2)
        line = sp.diags_array([-1.6, 2.0, -0.4], offsets=[-1, 0, 1], shape=(n, n))
        return sp.csr_array((sp.diags_array(10.0 ** rng.uniform(-3, 3, n)) @ line).tocsr()[rng.permutation(n)])

    def test_it_is_the_default_and_says_what_it_tried(self) -> None:
        a = self.permuted()
        b = a @ np.ones(400)
        r = tacit.solve(a, b)
        assert r.converged
        assert np.linalg.norm(b - a @ r.x) <= 1.01e-8 * np.linalg.norm(b)
        assert r.choice.startswith("auto: gmres with block-jacobi (ilut")
        assert r.choice in r.summary()
        none = tacit.solve(a, b, precond="none")
        assert (none.precond, none.choice) == ("none", "")

    def test_a_named_method_is_kept(self) -> None:
        a = self.permuted()
        r = tacit.solve(a, a @ np.ones(400), method="bicgstab", precond="auto")
        assert r.converged
        assert r.method == "bicgstab"
        assert tacit.solve(a, np.ones(400), method="bicgstab", max_iterations=3).precond == "none"

    def test_what_solved_is_kept_with_the_operator(self) -> None:
        a = tacit.csr(self.permuted())
        for seed in range(3):
            r = tacit.solve(a, a @ np.random.default_rng(seed).standard_normal(400))
            assert r.converged
            assert "then" not in r.choice
        first = tacit.solve(a, np.ones(400), x0=np.ones(400), max_iterations=500)
        assert first.iterations <= 500

    def test_callbacks_count_on_over_candidates(self) -> None:
        seen: list[int] = []
        line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40))
        helmholtz = sp.csr_array(
            sp.kron(line, sp.eye_array(40)) + sp.kron(sp.eye_array(40), line) - 1.5 * sp.eye_array(1600)
        )
        r = tacit.solve(
            helmholtz, np.ones(1600), callback=tacit.Observer(lambda s: seen.append(s.iteration)), rtol=1e-6
        )
        assert r.converged
        assert "then" in r.choice
        assert seen == list(range(1, r.iterations + 1))
        assert len(r.history) == r.iterations + 1

    def test_wrong_use(self) -> None:
        a = self.permuted()
        with pytest.raises(TypeError, match="no option 'drop'"):
            tacit.solve(a, np.ones(400), precond={"name": "auto", "drop": 0.1})
        with pytest.raises(ValueError, match="auto"):
            tacit.solve(tacit.function((4, 4), lambda x: x), np.ones(4), precond="auto")
        with pytest.raises(ValueError, match="auto"):
            tacit.precond.make(tacit.csr(a), "auto")


def _in_single(kind: str) -> tuple[Any, sp.csr_array]:
    """An operator of single precision, and its matrix with the entries as they are, in double precision."""
    grid = (24, 24, 24) if kind != "cells" else (40, 40)
    scalar = "complex64" if "complex" in kind else "float32"
    S = tacit.poisson(grid, scalar=scalar)
    if kind in ("stencil", "stencil complex"):
        return S, S.to_scipy().astype("complex128" if "complex" in kind else float)
    A = tacit.csr(S.to_scipy())
    wide = A.to_scipy().astype(float)
    eye = sp.eye_array(wide.shape[0]).tocsr()
    if kind == "csr":
        return A, wide
    if kind == "tiled":
        return tacit.tiled(S.to_scipy()), wide
    if kind == "sum":
        return S + tacit.csr((0.25 * eye).astype("float32").tocsr()), wide + 0.25 * eye
    if kind == "shifted":
        return S.shifted(0.25), wide + 0.25 * eye
    if kind == "transpose":
        return S.T, wide.T
    from tacit.app import multigrid

    assert kind == "cells"
    F = multigrid.finite_volume(multigrid.cells(grid, "dirichlet"), dtype="float32")
    return F, tacit.Csr(F._handle.assemble(), F.comm, F.dtype).to_scipy().astype(float)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["csr", "stencil", "stencil complex", "tiled", "sum", "shifted", "transpose", "cells", "null space"]
)
def test_what_passes_in_single_precision_is_seen_to_pass(kind: str) -> None:
    """A plain product of single precision has rounding errors above such a goal, where x is good enough."""
    if kind == "null space":
        A = tacit.poisson((200,), boundary="neumann", scalar="float32")
        wide: sp.csr_array = A.to_scipy().astype(float)
        b = np.sin(np.arange(200)).astype("float32")
        b -= b.mean()
        more: dict[str, Any] = {"nullspace": "constant"}
    else:
        A, wide = _in_single(kind)
        b, more = np.random.default_rng(1).random(wide.shape[0]).astype(A.dtype), {}
    norm = np.linalg.norm(b.astype(wide.dtype))
    x = sp.linalg.spsolve(wide.tocsc(), b.astype(wide.dtype)) if kind != "null space" else None
    if x is None:
        x = np.linalg.lstsq(wide.toarray(), b.astype(float))[0]
        x -= x.mean()
    # What rounding x to single precision leaves, and what a plain product would make of it.
    rounded = x.astype(A.dtype)
    attainable = np.linalg.norm(b - wide @ rounded.astype(wide.dtype)) / norm
    r = tacit.solve(A, b, method="cg", precond="none", rtol=2 * float(attainable), **more)
    assert r.converged, (attainable, r.summary())
    assert np.linalg.norm(b - wide @ r.x.astype(wide.dtype)) / norm <= 2.01 * attainable + float(r.projected_norm)


def test_columns_in_single_precision_pass_as_one_does() -> None:
    # Columns are solved together where products read much beside them: not with few entries, or values that rows share.
    _, wide = _in_single("csr")
    spread = sp.diags_array(np.linspace(0.9, 1.1, wide.shape[0]))
    wide = (wide + 0.05 * spread @ wide @ wide @ spread).tocsr()
    A = tacit.csr(wide.astype("float32"))
    b = np.random.default_rng(1).random((wide.shape[0], 2)).astype("float32")
    one = [tacit.solve(A, b[:, k], method="cg", precond="none", rtol=3e-6) for k in range(2)]
    many = tacit.solve(A, b, method="cg", precond="none", rtol=3e-6)
    assert many.together == 2, many.alone
    assert [c.reason for c in many.columns] == [r.reason for r in one]


@pytest.mark.parametrize("scalar", SCALARS)
def test_the_default_tolerance_follows_the_scalar(scalar: str) -> None:
    A = as_scalar(laplacian(50, 50), scalar)
    r = tacit.solve(A, np.ones(2500, scalar))
    assert r.converged, r.summary()
    assert r.rtol == (1e-4 if scalar in ("float32", "complex64") else 1e-8)
    assert r.residual_norm <= r.rtol
    assert tacit.solve(A, np.ones(2500, scalar), rtol=1e-3).rtol == 1e-3
