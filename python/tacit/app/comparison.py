"""A user's own system solved by Tacit and by other libraries: the same goal, set-up included, rounds interleaved.

Every library gets what its users would try first. What counts is |b - A x| / |b|, recomputed here for all alike.
"""

from __future__ import annotations

import importlib
import inspect
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import comm as _comm
from .. import krylov, op

LIBRARIES = {"scipy": "scipy", "pyamg": "pyamg", "petsc": "petsc4py"}
#: Factors of larger matrices are left out, since nothing can interrupt their computation.
LARGEST_DIRECT = 100_000
_RESTART = 30


class Answer(NamedTuple):
    """What one run gives: x, its seconds of set-up, and its iterations where the library says them."""

    x: Any
    setup: float
    iterations: int | None


class Problem(NamedTuple):
    """A system and its goal. `late` is called each iteration, and raises _TooLong when the time is over."""

    A: Any  # a SciPy csr
    b: Any
    rtol: float
    hermitian: bool
    threads: int | None
    late: Callable[..., None]


class _TooLong(Exception):
    """The time that one run may take is over."""


Run = Callable[[Problem], Answer]


@dataclass
class Row:
    """One method of one library, over all rounds."""

    library: str
    method: str
    setup: list[float] = field(default_factory=list)  #: seconds, of each round
    total: list[float] = field(default_factory=list)
    iterations: int | None = None
    residual: float = float("nan")
    ended: str = ""

    @property
    def converged(self) -> bool:
        return self.ended == "converged"

    def facts(self) -> dict[str, Any]:
        """The row as JSON has it, with the medians."""
        medians = {"setup": _median(self.setup), "total": _median(self.total)}
        more = {name: getattr(self, name) for name in ("iterations", "residual", "ended", "converged")}
        return {"library": self.library, "method": self.method, "median": medians, **more} | {
            "rounds": {"setup": self.setup, "total": self.total}
        }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


# --- what each library does -------------------------------------------------------------------------------------------


def _tacit(problem: Problem) -> Answer:
    begin = time.perf_counter()
    A = op.csr(problem.A, comm=_comm.self_())
    made = time.perf_counter() - begin
    r = krylov.solve(A, problem.b, rtol=problem.rtol, threads=problem.threads, comm=A.comm)
    return Answer(r.x, made + r.seconds["setup"], r.iterations)


def _scipy(method: str, ilu: bool) -> Run:
    def run(problem: Problem) -> Answer:
        import scipy.sparse.linalg as spl

        begin = time.perf_counter()
        M = None
        if ilu:
            factors = spl.spilu(problem.A.tocsc())
            M = spl.LinearOperator(problem.A.shape, factors.solve, dtype=problem.A.dtype)
        setup, steps = time.perf_counter() - begin, [0]

        def count(_: Any) -> None:
            steps[0] += 1
            problem.late()

        more: dict[str, Any] = {"restart": _RESTART, "callback_type": "pr_norm"} if method == "gmres" else {}
        function = getattr(spl, method)
        goal = "rtol" if "rtol" in inspect.signature(function).parameters else "tol"  # SciPy before 1.12
        options = {goal: problem.rtol, "atol": 0.0, "M": M, "callback": count, "maxiter": 10 * len(problem.b), **more}
        x, _ = function(problem.A, problem.b, **options)
        return Answer(x, setup, steps[0])

    return run


def _superlu(problem: Problem) -> Answer:
    import scipy.sparse.linalg as spl

    begin = time.perf_counter()
    factors = spl.splu(problem.A.tocsc())
    setup = time.perf_counter() - begin
    return Answer(factors.solve(problem.b), setup, None)


def _pyamg(kind: str) -> Run:
    def run(problem: Problem) -> Answer:
        import pyamg

        begin = time.perf_counter()
        symmetry = {} if kind == "ruge_stuben_solver" else {
            "symmetry": "hermitian" if problem.hermitian else "nonsymmetric"
        }  # fmt: skip
        levels = getattr(pyamg, kind)(problem.A, **symmetry)
        setup = time.perf_counter() - begin
        residuals: list[float] = []
        how: dict[str, Any] = {"accel": "cg" if problem.hermitian else "gmres", "maxiter": 1000}
        x = levels.solve(problem.b, tol=problem.rtol, residuals=residuals, callback=problem.late, **how)
        return Answer(x, setup, max(0, len(residuals) - 1))

    return run


def _petsc(method: str, precond: str) -> Run:
    def run(problem: Problem) -> Answer:
        from petsc4py import PETSc

        if np.iscomplexobj(problem.A) and not np.issubdtype(PETSc.ScalarType, np.complexfloating):
            raise TypeError("this PETSc has real numbers")
        begin = time.perf_counter()
        one = PETSc.COMM_SELF
        start, column = (index.astype(PETSc.IntType) for index in (problem.A.indptr, problem.A.indices))
        A = PETSc.Mat().createAIJ(problem.A.shape, csr=(start, column, problem.A.data), comm=one)
        A.setOption(PETSc.Mat.Option.SYMMETRIC, problem.hermitian and not np.iscomplexobj(problem.A))
        ksp = PETSc.KSP().create(comm=one)
        ksp.setOperators(A)
        ksp.setType(method)
        ksp.getPC().setType(precond)
        if method != "preonly":
            ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        if method == "gmres":
            ksp.setPCSide(PETSc.PC.Side.RIGHT)
        ksp.setTolerances(rtol=problem.rtol, atol=1e-300, divtol=1e10, max_it=10 * len(problem.b))
        ksp.setMonitor(lambda *_: problem.late())
        ksp.setUp()
        setup = time.perf_counter() - begin
        b, x = A.createVecLeft(), A.createVecRight()
        b.setArray(problem.b)
        ksp.solve(b, x)
        return Answer(x.getArray().copy(), setup, None if method == "preonly" else ksp.getIterationNumber())

    return run


def contenders(library: str, hermitian: bool, unknowns: int) -> list[tuple[str, Run]]:
    """The methods of a library that its users would try first, by name."""
    small = unknowns <= LARGEST_DIRECT
    if library == "tacit":
        return [("solve(A, b)", _tacit)]
    if library == "scipy":
        iterative = [("cg", _scipy("cg", False))] if hermitian else [("bicgstab", _scipy("bicgstab", False))]
        name = "bicgstab" if not hermitian else "gmres"
        iterative += [(f"{name} + spilu", _scipy(name, True))]
        return iterative + ([("splu", _superlu)] if small else [])
    if library == "pyamg":
        krylov_of = "cg" if hermitian else "gmres"
        names = ("smoothed_aggregation_solver", "ruge_stuben_solver")
        return [(f"{kind.removesuffix('_solver')} + {krylov_of}", _pyamg(kind)) for kind in names]
    pairs = [("cg", "icc"), ("cg", "gamg")] if hermitian else [("gmres", "ilu"), ("bcgs", "ilu"), ("gmres", "gamg")]
    return [(f"{m} + {p}", _petsc(m, p)) for m, p in pairs] + ([("lu", _petsc("preonly", "lu"))] if small else [])


# --- the comparison ---------------------------------------------------------------------------------------------------


def missing(libraries: Sequence[str]) -> dict[str, str]:
    """The libraries that cannot be imported here, and why."""
    found = {}
    for name in libraries:
        try:
            importlib.import_module(LIBRARIES[name])
            if name == "petsc":
                import petsc4py

                petsc4py.init([])
        except Exception as error:  # an installation may be broken in any way
            found[name] = f"{type(error).__name__}: {error}"
    return found


def versions(libraries: Sequence[str]) -> dict[str, str]:
    """The versions of Tacit and of these libraries."""
    from .. import report

    found = {"tacit": report.version()}
    for name in libraries:
        found[name] = str(getattr(importlib.import_module(LIBRARIES[name]), "__version__", "?"))
    return found


def compare(
    A: Any,
    b: Any,
    libraries: Sequence[str],
    *,
    rtol: float,
    rounds: int = 5,
    limit: float = 60.0,
    threads: int | None = None,
    show: Callable[[str, float], None] = lambda text, share: None,
) -> list[Row]:
    """Solves A x = b by Tacit and by these libraries.

    Parameters
    ----------
    A : SciPy csr
    b : ndarray
    libraries : sequence of str
        Of ``LIBRARIES``, all importable.
    rtol : float
        The goal of all: |b - A x| <= rtol |b|.
    rounds : int
        How often each method runs; one round after the other goes through all of them, so that a slow moment of the
        machine meets all alike. A method that has failed does not run again.
    limit : float
        Seconds that one run may take (factors cannot be interrupted).
    show : callable
        ``show(method, share done)`` before each run.

    Returns
    -------
    list of Row
        Tacit first. Local.
    """
    hermitian = bool(op.csr(A, comm=_comm.self_()).is_hermitian())
    deadline = [0.0]

    def late(*_: Any) -> None:
        if time.perf_counter() > deadline[0]:
            raise _TooLong

    problem = Problem(A, b, rtol, hermitian, threads, late)
    found = [(Row(lib, name), run) for lib in ("tacit", *libraries) for name, run in contenders(lib, hermitian, len(b))]
    b_norm = float(np.linalg.norm(b)) or 1.0
    for k in range(rounds):
        for i, (row, run) in enumerate(found):
            if k and not row.converged:
                continue
            show(f"{row.library} {row.method}", (k * len(found) + i) / (rounds * len(found)))
            deadline[0] = time.perf_counter() + limit
            _once(row, run, problem, b_norm)
    return [row for row, _ in found]


def _once(row: Row, run: Run, problem: Problem, b_norm: float) -> None:
    """One run, whose times and residual are noted in the row."""
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of other libraries, on what suits them better
            answer = run(problem)
    except _TooLong:
        row.ended = "too long"
        return
    except Exception as error:  # of another library, which is not to end the comparison
        late = isinstance(error.__context__ or error.__cause__, _TooLong) or "_TooLong" in str(error)
        text = " ".join(str(error).split())[:100]
        row.ended = "too long" if late else f"{type(error).__name__}: {text}"
        return
    row.total.append(time.perf_counter() - begin)
    row.setup.append(answer.setup)
    row.iterations = answer.iterations
    with np.errstate(all="ignore"):
        row.residual = float(np.linalg.norm(problem.b - problem.A @ np.ravel(answer.x))) / b_norm
    # The last bits of |b - A x| depend on the order of its sums.
    row.ended = "converged" if row.residual <= problem.rtol * (1 + 1e-6) else "goal missed"
