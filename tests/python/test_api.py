"""The package itself: import time, its names, the examples of its docstrings."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from conftest import Run, laplacian, true_residual, unsymmetric

import tacit
from tacit import app, comm, io, krylov, layout, op, precond, simulate


def test_import_is_quick(python: Run) -> None:
    """In processor time, since the machine may be busy; then with NumPy and the compiled part."""
    code = "import time; start = time.process_time(); import tacit; print(time.process_time() - start)"
    assert min(float(python(code).stdout) for _ in range(3)) < 0.2
    code = (
        "import numpy, time; start = time.process_time(); import tacit; tacit.solve; print(time.process_time() - start)"
    )
    assert min(float(python(code).stdout) for _ in range(3)) < 0.2


def test_import_starts_nothing(python: Run) -> None:
    python(
        """
        import sys
        import tacit
        assert "numpy" not in sys.modules
        tacit.solve, tacit.comm, tacit.read, tacit.Error
        heavy = [m for m in ("scipy", "mpi4py", "matplotlib", "rich", "multiprocessing") if m in sys.modules]
        assert not heavy, heavy
        if tacit.comm.library():
            assert not tacit.comm.launched()  # says yes once MPI is initialised
        assert tacit.solve([[2.0]], [1.0]).ranks == 1
        assert not tacit.comm.launched()
        """
    )


def test_names_are_there() -> None:
    assert tacit.__version__
    for name in tacit.__all__:
        assert hasattr(tacit, name), name
        assert name in dir(tacit)
    with pytest.raises(AttributeError, match="has no attribute 'slove'"):
        _ = tacit.slove
    assert tacit.methods.names()[0] == "auto"
    assert {"cg", "bicgstab", "gmres", "pipelined-ca-gmres"} < set(tacit.methods.names())


def parts_of(package: Any) -> list[Any]:
    """The modules that a package is made of."""
    return [
        importlib.import_module(f"{package.__name__}.{part.name}") for part in pkgutil.iter_modules(package.__path__)
    ]


FOLDERS = (krylov, op, precond, app)
MODULES = [tacit, comm, io, layout, tacit.scipy, simulate, *(part for folder in FOLDERS for part in parts_of(folder))]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_examples_in_the_documentation(module: Any) -> None:
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


def test_every_public_function_is_documented() -> None:
    for module in (comm, io, krylov, layout, op, precond):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                assert inspect.getdoc(thing), f"{module.__name__}.{name}"


def callables() -> Iterator[tuple[str, Any]]:
    """Public functions, and public methods of public classes."""
    modules = [tacit, tacit.methods, tacit.multigrid, tacit.grid_problems, tacit.bem, tacit.tomography, tacit.inference]
    for module in [*modules, comm, io, layout, op, precond, simulate]:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
            elif inspect.isclass(thing):
                yield from (
                    (f"{module.__name__}.{name}.{method}", function)
                    for method, function in vars(thing).items()
                    if inspect.isfunction(function) and not method.startswith("_")
                )


def test_lists_of_parameters_are_complete() -> None:
    """Where a docstring has a section of parameters, each parameter is in it, and nothing else."""
    wrong, seen = [], 0
    for name, function in callables():
        section = re.search(
            r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", inspect.getdoc(function) or "", re.S | re.M
        )
        if section is None:
            continue
        seen += 1
        heads = re.findall(r"^\*{0,2}(\w[^\n:]*?)(?: :|$)", section[1], re.M)
        named = {word.strip(" *") for head in heads for word in head.split(",")}
        taken = {
            p.name: p.kind for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")
        }
        open_ended = inspect.Parameter.VAR_KEYWORD in taken.values()
        wrong += [
            f"{name}: {p} is not described" for p, kind in taken.items() if p not in named and kind.value not in (2, 4)
        ]
        wrong += [f"{name}: there is no {p}" for p in sorted(named - set(taken)) if not open_ended]
    assert wrong == []
    assert seen > 50


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres", "minres"])
def test_signatures_are_scipys(name: str) -> None:
    ours, theirs = inspect.signature(getattr(tacit, name)), inspect.signature(getattr(spl, name))
    assert list(ours.parameters) == list(theirs.parameters)
    for key, parameter in theirs.parameters.items():
        assert ours.parameters[key].kind == parameter.kind, key
        assert ours.parameters[key].default == parameter.default, key


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres", "minres"])
@pytest.mark.parametrize("rtol", [1e-3, 1e-10])
def test_same_answers_as_scipy(name: str, rtol: float) -> None:
    a = laplacian(12, 11) if name in ("cg", "minres") else unsymmetric(150)
    b = np.random.default_rng(1).standard_normal(a.shape[0])
    x, info = getattr(tacit, name)(a, b, rtol=rtol)
    y, their_info = getattr(spl, name)(a, b, rtol=rtol)
    assert info == their_info == 0
    assert type(info) is int
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    assert true_residual(a, x, b) <= rtol * (1 + 1e-10)
    # The condition number of these matrices is below 500.
    assert np.linalg.norm(x - y) <= 1000 * rtol * np.linalg.norm(y)


@pytest.mark.parametrize("name", ["cg", "minres", "bicgstab", "gmres", "fgmres", "idr", "richardson", "chebyshev"])
def test_scipy_meaning_of_info(name: str) -> None:
    a, b = laplacian(60), np.ones(60)
    result = getattr(tacit, name)(a, b, maxiter=3)
    x, info = result
    assert info == 3 or result.reason in ("diverged", "breakdown")
    assert not result.converged
    assert np.all(np.isfinite(x))
    assert len(result) == 2
    assert result[1] == info


def test_minres_takes_what_scipys_takes(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = laplacian(40), np.random.default_rng(2).standard_normal(40)
    x, info = tacit.minres(a, b, shift=0.7, rtol=1e-10)  # in the middle of the spectrum
    assert info == 0
    assert true_residual(a - 0.7 * sp.eye_array(40), x, b) <= 1e-10
    y, info = tacit.minres(tacit.csr(a), b, shift=0.7, rtol=1e-10)
    assert info == 0
    assert np.linalg.norm(x - y) <= 1e-6 * np.linalg.norm(x)
    assert capsys.readouterr().out == ""
    tacit.minres(a, b, show=True, check=True, M=spl.aslinearoperator(sp.eye_array(40)))
    assert "converged" in capsys.readouterr().out
    with pytest.raises(ValueError, match="A is not Hermitian"):
        tacit.minres(unsymmetric(40), b, check=True)
    with pytest.raises(ValueError, match="M is not Hermitian"):
        tacit.minres(a, b, M=unsymmetric(40), check=True)


@pytest.mark.parametrize("name", ["bicg", "cgs", "gcrotmk", "lgmres", "qmr", "tfqmr"])
def test_methods_of_scipy_that_are_not_there_name_others(name: str) -> None:
    with pytest.raises(AttributeError, match=r"gmres|bicgstab"):
        getattr(tacit, name)


def test_sparse_arrays_are_named_where_dense_ones_are_needed() -> None:
    a = laplacian(5)
    A = tacit.csr(a)
    with pytest.raises(TypeError, match=r"A @ S with a sparse S.*tacit\.csr\(S\).*S\.toarray"):
        A @ a
    for right in (sp.csr_array(np.ones((5, 1))), sp.coo_array(np.ones((5, 2)))):
        with pytest.raises(TypeError, match=r"b is sparse .*b\.toarray"):
            tacit.solve(A, right)
        with pytest.raises(TypeError, match=r"b is sparse"):
            tacit.cg(A, right)
        with pytest.raises(TypeError, match=r"x0 is sparse"):
            tacit.solve(A, np.ones(5), right)
        with pytest.raises(TypeError, match="sparse"):
            tacit.solve(A, np.ones(5), nullspace=right)
    with pytest.raises(TypeError, match="sparse"):
        sp.csr_array(np.ones((2, 5))) @ A


def test_info_of_breakdown_is_negative() -> None:
    result = tacit.cg(np.diag([1.0, -1.0]), np.ones(2))
    assert (result.reason, result.info) == ("breakdown", -1)
    assert "(p, A p)" in result.detail
    assert "gmres" in result.advice


def test_atol_and_x0_as_in_scipy() -> None:
    a, b = laplacian(40), np.ones(40)
    x, info = tacit.cg(a, b, rtol=0.0, atol=0.5)
    assert info == 0
    assert np.linalg.norm(b - a @ x) <= 0.5
    exact = spl.spsolve(a.tocsc(), b)
    result = tacit.cg(a, b, exact, rtol=1e-6)
    assert (result.info, result.iterations) == (0, 0)


def test_preconditioner_as_in_scipy() -> None:
    a, b = laplacian(40), np.ones(40)
    inverse = sp.csr_array(np.linalg.inv(a.toarray()))
    wrapped = spl.aslinearoperator(inverse)
    for M in (inverse, inverse.toarray(), wrapped):
        result = tacit.cg(a, b, M=M)
        assert result.info == 0
        assert result.iterations <= 2
    assert tacit.cg(a, b, M="jacobi").info == 0


def test_callbacks_as_in_scipy() -> None:
    a, b = laplacian(30), np.ones(30)
    iterates: list[np.ndarray] = []
    result = tacit.cg(a, b, callback=iterates.append)
    assert len(iterates) == result.iterations
    assert np.array_equal(iterates[-1], result.x)
    assert np.linalg.norm(b - a @ iterates[3]) == pytest.approx(result.history[4] * np.linalg.norm(b), rel=1e-8)

    norms: list[float] = []
    result = tacit.gmres(a, b, callback=norms.append, callback_type="pr_norm")
    assert norms == result.history[1:].tolist()
    iterates.clear()
    result = tacit.gmres(a, b, callback=iterates.append, callback_type="x")
    assert iterates[0].shape == (30,)
    with pytest.raises(ValueError, match="did you mean 'pr_norm'"):
        tacit.gmres(a, b, callback=norms.append, callback_type="prnorm")

    def stop(_: np.ndarray) -> None:
        raise StopIteration

    assert tacit.cg(a, b, callback=stop).reason == "stopped"


def test_result_tells_all() -> None:
    a = laplacian(20, 20)
    b = np.ones(400)
    r = tacit.solve(a, b, precond="jacobi")
    assert r.converged
    assert r.reason == "converged"
    assert r.info == 0
    assert (r.detail, r.advice) == ("", "")
    assert r.residual_norm == pytest.approx(true_residual(a, r.x, b), rel=1e-3)
    assert r.recurrence_residual_norm <= 1e-8
    assert len(r.history) == r.iterations + 1
    assert r.history[0] == pytest.approx(1.0)
    assert isinstance(r.history, np.ndarray)
    assert set(r.seconds) == {"setup", "solve", "explain"}
    assert all(value >= 0 for value in r.seconds.values())
    assert set(r.counts) == {
        "reductions",
        "operator_applies",
        "preconditioner_applies",
        "exchanges",
        "messages",
        "bytes",
    }
    assert r.counts["operator_applies"] >= r.iterations
    assert r.counts["messages"] == 0
    assert (r.method, r.precond) == ("cg", "jacobi")
    assert (r.unknowns, r.nonzeros, r.ranks) == (400, a.nnz, 1)
    assert (r.scalar, r.device) == ("float64", "host")
    assert r.threads >= 1
    assert r.warnings == []
    assert r.trace is None
    assert "converged" in repr(r)
    assert "cg" in repr(r)
    for word in ("converged", "jacobi", "400 unknowns", "reductions"):
        assert word in r.summary()


def test_version_is_the_packages() -> None:
    assert sys.version_info >= (3, 11)
    assert tacit.__version__.count(".") == 2
