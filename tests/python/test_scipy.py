"""tacit.scipy: what SciPy's own tests say of it, and SciPy's meaning of arguments and results."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from cli_support import LONG
from conftest import ROOT, in_this_build, laplacian, true_residual, unsymmetric

import tacit
import tacit.scipy as drop_in

SOLVERS = ["cg", "bicgstab", "gmres", "minres"]
LEAST_SQUARES = ["lsqr", "lsmr"]

# Run inside the pytest that runs SciPy's tests: puts tacit.scipy in the place of SciPy's solvers, leaves out the tests
# of other solvers, and writes how each test ended.
PLUGIN = """
import json
import os
import pickle

import scipy.sparse.linalg
import scipy.sparse.linalg._isolve as place

import tacit.scipy

OURS = [getattr(tacit.scipy, name) for name in {solvers!r}]
for function in OURS:
    setattr(place, function.__name__, function)
    if function.__name__ in ("lsqr", "lsmr"):  # which their tests take from the public name
        setattr(scipy.sparse.linalg, function.__name__, function)
outcomes = {{}}


def is_ours(item):
    params = item.callspec.params if hasattr(item, "callspec") else {{}}
    if "solver" in params:
        return params["solver"] in OURS
    solver = getattr(params.get("case"), "solver", None)
    if solver is not None:
        return solver in OURS
    if "test_ls" in item.nodeid:
        return True
    return "minres" in item.nodeid or "TestGMRES" in item.nodeid or "precond_inverse" in item.nodeid


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if is_ours(item)]


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid.rpartition("/")[2]] = report.outcome


def pytest_sessionfinish():
    with open(os.environ["TACIT_OUTCOMES"], "w") as out:
        json.dump(outcomes, out)
"""

# Where SciPy's tests of these four do not pass, and why that is right.
DIFFERENCES = {
    "test_iterative.py::test_precond_inverse[poisson1d]": (
        "allows three products of A given as a function; here one more finds the size of A x, by which numbers are "
        "scaled, and one recomputes b - A x at the end"
    ),
    "test_iterative.py::test_precond_inverse[poisson2d]": "the same",
    "test_iterative.py::TestGMRES::test_defective_precond_breakdown": (
        "compares with an exact zero, and the element is 2e-16: the rounding of a basis that is orthogonalised in "
        "another order; b - A x outside of the null space of M is as small as the test wants it otherwise"
    ),
}


# The same for pyamg: its functions of these names with pyamg's arguments, and SciPy's where pyamg calls those.
PYAMG_PLUGIN = """
import json
import os

import numpy as np
import pyamg.krylov
import scipy.sparse.linalg

import tacit.scipy


def with_arguments_of_pyamg(solver, **own):
    def solve(A, b, x0=None, tol=1e-5, maxiter=None, M=None, callback=None, residuals=None, **unused):
        if residuals is not None:
            residuals[:] = [np.linalg.norm(b - A @ (0 * b if x0 is None else x0))]

        def see(x):
            if residuals is not None:
                residuals.append(np.linalg.norm(np.ravel(b) - A @ x))
            if callback is not None:
                callback(x)

        return solver(A, b, x0, rtol=tol, maxiter=maxiter, M=M, callback=see, **own)

    return solve


for name in {solvers!r}:
    setattr(scipy.sparse.linalg, name, getattr(tacit.scipy, name))
pyamg.krylov.cg = with_arguments_of_pyamg(tacit.scipy.cg)
pyamg.krylov.bicgstab = with_arguments_of_pyamg(tacit.scipy.bicgstab)
pyamg.krylov.gmres = with_arguments_of_pyamg(tacit.scipy.gmres, callback_type="x")
outcomes = {{}}


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid.rpartition("/")[2]] = report.outcome


def pytest_sessionfinish():
    with open(os.environ["TACIT_OUTCOMES"], "w") as out:
        json.dump(outcomes, out)
"""


def files_of(package: str, *names: str) -> list[str]:
    """Test files or folders of an installed package, those that are there."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    if found is None or found.submodule_search_locations is None:
        return []
    folder = Path(found.submodule_search_locations[0])
    return [str(folder / name) for name in names if (folder / name).exists()]


def outcomes_of(plugin: str, tests: list[str], folder: Path) -> tuple[dict[str, str], str]:
    """How each of these tests ends with a plugin, and what pytest printed."""
    (folder / "in_place.py").write_text(plugin.format(solvers=[*SOLVERS, *LEAST_SQUARES]))
    seen = folder / "outcomes.json"
    quiet = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "-W", "ignore::pytest.PytestUnknownMarkWarning"]
    paths = os.pathsep.join([str(folder), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, "-p", "in_place", *tests],
        env={**os.environ, "TACIT_OUTCOMES": str(seen), "PYTHONPATH": paths},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert seen.exists(), done.stdout + done.stderr
    outcomes = json.loads(seen.read_text())
    print(f"{sum(outcome == 'passed' for outcome in outcomes.values())} of {len(outcomes)} pass")
    return outcomes, done.stdout


OF_SCIPY = files_of(
    "scipy.sparse.linalg._isolve",
    *(f"tests/test_{name}.py" for name in ("iterative", "minres", "lsqr", "lsmr")),
)
OF_PYAMG = files_of("pyamg", "krylov/tests", "tests/test_multilevel.py")


@pytest.mark.slow
@pytest.mark.skipif(len(OF_SCIPY) < 4, reason="this SciPy is installed without its tests")
def test_scipys_own_tests(tmp_path: Path) -> None:
    outcomes, text = outcomes_of(PLUGIN, OF_SCIPY, tmp_path)
    assert len(outcomes) > 200
    assert {name for name, outcome in outcomes.items() if outcome == "failed"} <= set(DIFFERENCES), text[-6000:]


@pytest.mark.slow
@pytest.mark.skipif(len(OF_PYAMG) < 2, reason="pyamg is not installed, or without its tests")
def test_pyamgs_own_tests(tmp_path: Path) -> None:
    outcomes, text = outcomes_of(PYAMG_PLUGIN, OF_PYAMG, tmp_path)
    assert len(outcomes) > 10
    assert "failed" not in outcomes.values(), text[-6000:]


@pytest.mark.parametrize("name", [*SOLVERS, *LEAST_SQUARES])
def test_signatures_are_scipys(name: str) -> None:
    ours, theirs = inspect.signature(getattr(drop_in, name)), inspect.signature(getattr(spl, name))
    assert list(ours.parameters) == list(theirs.parameters)
    for key, parameter in theirs.parameters.items():
        assert (ours.parameters[key].kind, ours.parameters[key].default) == (parameter.kind, parameter.default), key


@pytest.mark.parametrize("name", SOLVERS)
def test_results_are_scipys(name: str) -> None:
    a = laplacian(9, 8) if name in ("cg", "minres") else unsymmetric(90)
    b = np.random.default_rng(1).standard_normal(a.shape[0])
    for scalar in ("float32", "float64"):
        for right in (b, b[:, None]):
            found = getattr(drop_in, name)(a.astype(scalar), right.astype(scalar), rtol=1e-4)
            assert type(found) is tuple
            x, info = found
            y, their_info = getattr(spl, name)(a.astype(scalar), right.astype(scalar), rtol=1e-4)
            assert (x.shape, type(info), info) == (y.shape, int, their_info)
            assert x.dtype == (scalar if name == "minres" else y.dtype)  # SciPy's minres makes float64 of float32
            assert np.linalg.norm(x - y) <= 0.1 * np.linalg.norm(y)


def test_gmres_counts_cycles() -> None:
    """maxiter=50 is 50 cycles of 30, in which SciPy's converges; tacit.gmres takes it for 50 products."""
    a, b = laplacian(30, 30), np.random.default_rng(0).standard_normal(900)
    x, info = drop_in.gmres(a, b, restart=30, maxiter=50)
    _, their_info = spl.gmres(a, b, restart=30, maxiter=50)
    assert info == their_info == 0
    assert true_residual(a, x, b) <= 1e-5
    assert true_residual(a, tacit.gmres(a, b, restart=30, maxiter=50).x, b) > 1e-5
    assert drop_in.gmres(a, b, restart=30, maxiter=2)[1] == spl.gmres(a, b, restart=30, maxiter=2)[1] == 2


@pytest.mark.parametrize("preconditioned", [False, True])
def test_gmres_gives_callbacks_the_numbers_of_scipy(preconditioned: bool) -> None:
    a, b = unsymmetric(60), np.random.default_rng(2).standard_normal(60)
    M = sp.diags_array(np.linspace(0.5, 3.0, 60)) if preconditioned else None
    ours: list[Any] = []
    theirs: list[Any] = []
    options: Any = dict(restart=5, maxiter=2, rtol=1e-14, M=M, callback_type="pr_norm")
    drop_in.gmres(a, b, callback=ours.append, **options)
    spl.gmres(a, b, callback=theirs.append, **options)
    assert len(ours) == len(theirs) == 10
    assert all(type(norm) is np.float64 for norm in ours)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    iterates: list[Any] = []
    their_iterates: list[Any] = []
    options["callback_type"] = "x"
    drop_in.gmres(a, b, callback=iterates.append, **options)
    spl.gmres(a, b, callback=lambda x: their_iterates.append(x.copy()), **options)
    np.testing.assert_allclose(iterates, their_iterates, rtol=1e-6, atol=1e-12)


def test_gmres_warns_of_a_callback_without_type() -> None:
    a, b = laplacian(20), np.ones(20)
    with pytest.warns(DeprecationWarning, match=".*called without specifying `callback_type`") as seen:
        assert drop_in.gmres(a, b, maxiter=3, callback=lambda norm: None)[1] == 3  # iterations
    assert seen[0].filename == __file__
    with pytest.raises(ValueError, match="callback_type is 'norm'"):
        drop_in.gmres(a, b, callback_type="norm")  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drop_in.gmres(a, b, maxiter=3, callback=lambda norm: None, callback_type="legacy")


def test_a_badly_conditioned_preconditioner_from_the_left() -> None:
    """||M r|| passes long before ||r||: further runs with a smaller goal, as SciPy does."""
    rng = np.random.default_rng(3)
    m = rng.standard_normal((10, 10))
    a = m @ m.T + 10 * np.eye(10)
    b = 1e3 * rng.random(10)
    M = 1e-6 * rng.standard_normal((10, 10))
    M = M @ M.T
    for rtol in (1e-1, 1e-2, 1e-5, 1e-9):
        x, info = drop_in.gmres(a, b, M=M, rtol=rtol)
        assert info == 0
        assert np.linalg.norm(a @ x - b) <= rtol * np.linalg.norm(b)


@pytest.mark.parametrize("name", SOLVERS)
def test_guess_of_the_preconditioner(name: str) -> None:
    a, b = laplacian(30), np.linspace(1.0, 2.0, 30)
    exact = sp.csr_array(np.linalg.inv(a.toarray()))
    seen: list[Any] = []
    options = {"callback_type": "x"} if name == "gmres" else {}
    x, info = getattr(drop_in, name)(a, b, x0="Mb", M=exact, callback=seen.append, **options)
    assert info == 0
    assert len(seen) <= 1  # M b is the solution
    assert true_residual(a, x, b) <= 1e-5
    with pytest.raises(ValueError, match="x0 is 'bM'"):
        getattr(drop_in, name)(a, b, x0="bM")


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_tolerances(name: str) -> None:
    solver = getattr(drop_in, name)
    a, b, x0 = laplacian(30), np.ones(30), np.linspace(0.0, 1.0, 30)
    for atol in ("legacy", None, -1, np.nan):
        with pytest.raises(ValueError, match="atol is"):
            solver(a, b, atol=atol)
    x, info = solver(a, b, x0, atol=np.inf)
    assert info == 0
    assert np.array_equal(x, x0)
    assert x is not x0
    x, info = solver(a, 0 * b, x0)
    assert info == 0
    assert not x.any()
    with pytest.raises(TypeError, match="has no option 'tol'; did you mean 'rtol'"):
        solver(a, b, tol=1e-5)
    with pytest.raises(TypeError):
        solver(a, b, x0, 1e-5)


def test_shapes_are_compared() -> None:
    a, b = laplacian(30), np.ones(30)
    with pytest.raises(ValueError, match="square"):
        drop_in.cg(np.ones((3, 4)), np.ones(3))
    for options in (dict(b=np.ones(29)), dict(b=np.ones((30, 2))), dict(b=b, x0=np.ones(31)), dict(b=b, M=np.eye(29))):
        with pytest.raises(ValueError, match=r"A has shape \(30, 30\)"):
            drop_in.cg(a, **options)


@pytest.mark.parametrize("name", SOLVERS)
def test_what_a_callback_raises_reaches_the_caller(name: str) -> None:
    for kind in (StopIteration, KeyError):

        def fail(_: Any, kind: Any = kind) -> None:
            raise kind("enough")

        options = {"callback_type": "pr_norm"} if name == "gmres" else {}
        with pytest.raises(kind, match="enough"):
            getattr(drop_in, name)(laplacian(30), np.ones(30), callback=fail, **options)


def test_preconditioner_in_an_attribute() -> None:
    a, b = laplacian(30), np.ones(30)
    calls: list[int] = []

    def psolve(r: Any) -> Any:
        calls.append(1)
        return r / 2

    A = spl.aslinearoperator(a)
    A.psolve = psolve
    assert drop_in.cg(A, b)[1] == 0
    assert calls
    assert drop_in.cg(a, b, M="ic0")[1] == 0
    assert drop_in.gmres(tacit.csr(a), b, x0="Mb", M="ilu0")[1] == 0


def test_minres_of_singular_systems() -> None:
    """A least-squares solution is a success for SciPy; a number of iterations that is too small is none."""
    a = np.diag([1.0, 2.0, 3.0, 0.0])
    x, info = drop_in.minres(a, np.ones(4))
    assert info == spl.minres(a, np.ones(4))[1] == 0
    np.testing.assert_allclose(x[:3], [1, 1 / 2, 1 / 3], rtol=1e-5)
    assert drop_in.minres(laplacian(200), np.ones(200), maxiter=3)[1] == 3
    with pytest.raises(ValueError, match="not Hermitian"):
        drop_in.minres(unsymmetric(30), np.ones(30), check=True)


def test_breakdown_is_not_healed() -> None:
    a = np.array([[0.0, 1.0], [-1.0, 0.0]])  # (r~, A r) = 0
    assert drop_in.bicgstab(a, np.array([1.0, 0.0]))[1] < 0
    assert tacit.bicgstab(a, np.array([1.0, 0.0])).info == 0


@pytest.mark.parametrize("maxiter", [None, 7])
def test_cg_of_an_indefinite_matrix(maxiter: int | None) -> None:
    """SciPy's cg does not look at the sign of (p, A p), and solves many of these."""
    a, b = laplacian(30) - 0.5 * sp.eye_array(30), np.random.default_rng(1).standard_normal(30)
    seen: list[Any] = []
    x, info = drop_in.cg(a, b, maxiter=maxiter, callback=seen.append)
    assert info == spl.cg(a, b, maxiter=maxiter)[1]
    assert (true_residual(a, x, b) <= 1e-5) == (info == 0)
    assert maxiter is None or len(seen) == maxiter


@pytest.mark.parametrize("name", ["bicg", "cgs", "gcrotmk", "lgmres", "qmr", "tfqmr"])
def test_solvers_that_are_not_there_name_others(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"scipy\.sparse\.linalg\.{name} takes Tacit's operators"):
        getattr(drop_in, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'spsolve'$"):
        _ = drop_in.spsolve


@pytest.mark.parametrize("name", ["minres", "gmres"])
def test_residuals_are_the_smallest_of_the_space(name: str) -> None:
    """On a symmetric matrix minres and gmres without restarts are the same: 10, 7.75, 6.32, 5.22 after b of ones."""
    a, b = laplacian(100), np.ones(100)
    norms: list[float] = []
    options = {"callback_type": "pr_norm", "restart": 4} if name == "gmres" else {}

    def see(state: Any) -> None:
        norms.append(float(10 * state if np.ndim(state) == 0 else np.linalg.norm(b - a @ state)))

    getattr(drop_in, name)(a, b, x0=np.zeros(100), rtol=1e-12, maxiter=4, callback=see, **options)
    smallest = []
    space = np.zeros((100, 0))
    for _ in range(4):
        space = np.column_stack([space, b if space.shape[1] == 0 else a @ space[:, -1]])
        y = np.linalg.lstsq(a @ space, b, rcond=None)[0]
        smallest.append(np.linalg.norm(b - a @ space @ y))
    np.testing.assert_allclose(norms[:4], smallest, rtol=1e-6)


def test_a_complex_function_with_a_real_right_hand_side() -> None:
    a = laplacian(20) + sp.eye_array(20) + 0.5j * (sp.triu(laplacian(20), 1) - sp.tril(laplacian(20), -1))
    A = spl.LinearOperator((20, 20), matvec=lambda x: a @ x)
    for name in SOLVERS:
        x, info = getattr(drop_in, name)(A, np.ones(20), rtol=1e-9)
        assert info == 0
        assert x.dtype == complex
        assert true_residual(a, x, np.ones(20)) <= 1e-9


# -- operators, preconditioners and results in programs written for SciPy and pyamg ------------------------------------


def test_operators_multiply_as_those_of_scipy() -> None:
    a = unsymmetric(20)
    A, x, B = tacit.csr(a), np.linspace(0.0, 1.0, 20), tacit.csr(laplacian(20))
    for y in (A * x, A.dot(x), A.matvec(x)):
        np.testing.assert_allclose(y, a @ x)
    np.testing.assert_allclose(A.dot(np.eye(20)), a.toarray())
    np.testing.assert_allclose((A * B) @ x, a @ (laplacian(20) @ x))
    for half in (0.5 * A, A * 0.5, A.dot(0.5), A * np.float64(0.5)):
        np.testing.assert_allclose(half @ x, 0.5 * (a @ x))
    with pytest.raises(TypeError):
        x * A


def test_preconditioners_take_matrices_of_scipy() -> None:
    a, b = laplacian(30, 30), np.ones(900)
    for M in (
        tacit.precond.amg(a),
        tacit.precond.make(a, "ic0"),
        *([tacit.precond.inner(a, method="cg", iterations=5)] if tacit._core.applications_built else []),
        tacit.precond.amg(a, cycle="w"),
        tacit.precond.make(a.tocsc(), "amg", cycle="f"),
    ):
        _, info = spl.cg(a, b, M=M, rtol=1e-8)
        assert info == 0
        assert drop_in.cg(a, b, M=M, rtol=1e-8)[1] == 0
    assert tacit.precond.make(np.eye(4), "jacobi") @ np.ones(4) == pytest.approx(1)
    with pytest.raises(ValueError, match="unknown cycle 'x'"):
        tacit.precond.amg(a, cycle="x")
    with pytest.raises(TypeError, match="A is a str"):
        tacit.precond.amg("a")
    with pytest.raises(AttributeError, match=r"tacit\.precond\.amg"):
        _ = tacit.amg


@pytest.mark.parametrize("name", ["cg", "gmres", "minres", "idr", "chebyshev"])
def test_unknown_arguments_name_those_that_are_meant(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} has no option 'tol'; did you mean 'rtol'"):
        getattr(tacit, name)(np.eye(2), np.ones(2), tol=1e-3)
    with pytest.raises(TypeError, match="positional"):
        getattr(tacit, name)(np.eye(2), np.ones(2), None, 1e-3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jacobi", {}),
        ("ilut", {"drop": 1e-3}),
        ("polynomial", {"degree": 3}),
        ("amg", {"cycle": "W", "near_null": np.ones(400)}),
        ("direct", {}),
        ("inner", {"method": "cg", "iterations": 4}),
    ],
)
def test_preconditioners_are_pickled(name: str, options: dict[str, Any]) -> None:
    if name == "inner" and not tacit._core.applications_built:
        pytest.skip("this build is without inner solves as preconditioners")
    if not in_this_build([name]):
        pytest.skip("a build without Eigen")
    A = tacit.csr(laplacian(20, 20))
    M = tacit.precond.make(A, name, **options)
    r = np.random.default_rng(0).standard_normal(400)
    for again in (pickle.loads(pickle.dumps(M)), copy.deepcopy(M)):
        assert type(again) is type(M)
        assert np.array_equal(again @ r, M @ r)
        assert tacit.solve(A, r, method="fgmres", precond=again).converged


def test_a_pickle_does_not_hold_other_values() -> None:
    A = tacit.csr(laplacian(20, 20))
    M, P = tacit.precond.amg(A), tacit.precond.make(A, "ic0")
    A.update_values(2 * A.local_rows()[2])
    with pytest.raises(TypeError, match=r"values of the matrix have changed since 'amg' was made.*update\(\) it"):
        pickle.dumps(M)
    with pytest.raises(TypeError, match=r"make it anew$"):
        copy.deepcopy(P)
    M.update()
    assert np.array_equal(pickle.loads(pickle.dumps(M)) @ np.ones(400), M @ np.ones(400))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_right_hand_side_whose_squares_do_not_exist(size: float) -> None:
    """SciPy takes the small one for zero, and finds no number in the large one."""
    a, b = laplacian(20), np.full(20, size)
    for solver in (drop_in.cg, drop_in.bicgstab, drop_in.gmres, drop_in.minres):
        x, info = solver(a, b, rtol=1e-6)
        assert info == 0
        assert np.linalg.norm(b / size - a @ (x / size)) <= 1e-5 * np.sqrt(20)
    for found in (drop_in.lsqr(a, b), drop_in.lsmr(a, b)):
        assert np.linalg.norm(b / size - a @ (found[0] / size)) <= 1e-3 * np.sqrt(20)
