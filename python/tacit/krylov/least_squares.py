"""``tacit.lstsq``: least-squares problems and rectangular systems."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core, layout, op
from .. import comm as _comm
from .. import device as _device
from .. import precond as _precond
from .._alike import alike_and_least, scalar_bits, scalar_of_bits
from .._described import LEAST_SQUARES, LEAST_SQUARES_NAMES, LeastSquaresOptions
from .._options import Described, Method, compared_form, fill, take_numbers
from .._progress import Watch
from .._support import (
    Array,
    agreed,
    as_array,
    as_columns,
    choose,
    chosen_scalar,
    core,
    default_threads,
    like,
    thread_count,
    to_scalar,
    using_threads,
)
from .callbacks import CallbackState, Observer, one_by_one, stopping
from .compared import argument_form, callback_form, columns_form
from .request import check_verbose, least_scalar, refuse_unlike
from .results import ColumnResult, ColumnsResult, Log, NotConverged, OneByOne, Result
from .signatures import flat, hinted

_BESIDE = ("A", "b", "x0", "method", "precond", "comm", "callback", "threads", "scalar", "variance")


class LeastSquaresResult(Result):
    """How a least-squares solve ended. Unpacks as ``x, info``. With r = b - A x; what :class:`tacit.Result` has, and:

    Attributes
    ----------
    converged : bool
        Whether one of the goals of :func:`tacit.lstsq` is met, recomputed.
    met : str
        Which: "residual" (x solves A x = b), "gradient" (x is a least-squares solution), or "neither".
    ending : str
        What ended the iteration: "start", "residual", "gradient", "condition", "iterations", these with " rounding"
        where the rounding errors of the scalar did, or "other".
    residual_norm : float
        ||r|| / ||b||, recomputed.
    gradient_norm : float
        ||A^H r|| / (||A|| ||r||), recomputed; with ``damp`` of (A; damp I) and (b; 0), with a preconditioner P of A P.
    residual, damped_residual, gradient, solution : float
        ||r||, (||r||^2 + damp^2 ||x||^2)^(1/2), ||A^H r - damp^2 x|| and ||x||, recomputed.
    matrix_norm, frobenius_norm, condition : float
        Estimates of (A; damp I) P: a lower bound of the 2-norm, the Frobenius norm, the condition; the latter two are 0
        for methods on the normal equations, which have none.
    gradient_history : ndarray
        ||A^H r_k|| / ||A^H r_0|| of the recurrence, with P ||P^H A^H r_k||.
    variance : ndarray or None
        With ``variance=True``: the estimate of the diagonal of (A^H A + damp^2 I)^-1.
    equations : int
        Rows of A; ``unknowns`` are its columns.
    """

    equations: int
    variance: Array | None

    def __init__(self, x: Any, report: _core.LeastSquaresReport, log: Log, facts: dict[str, Any]) -> None:
        super().__init__(x, report, log, facts)
        self.met: str = report.met
        self.ending: str = report.ending
        self.gradient_norm: float = report.gradient_norm
        self.residual: float = report.residual
        self.damped_residual: float = report.damped_residual
        self.gradient: float = report.gradient
        self.solution: float = report.solution
        self.matrix_norm: float = report.matrix_norm
        self.frobenius_norm: float = report.frobenius_norm
        self.condition: float = report.condition
        self.gradient_history: npt.NDArray[np.float64] = report.gradient_history

    def facts(self) -> dict[str, Any]:
        """Those of every result, and what the solve says of the residual and the gradient."""
        names = ("met", "ending", "gradient_norm", "residual", "gradient", "solution", "matrix_norm", "condition")
        return {**super().facts(), **{name: getattr(self, name) for name in names}, "equations": self.equations}

    def __repr__(self) -> str:
        return (
            f"<tacit.LeastSquaresResult: {self.reason} after {self.iterations} iterations of {self._solver()}, residual"
            f" {self.residual_norm:.2e}, gradient {self.gradient_norm:.2e}>"
        )

    def summary(self) -> str:
        """A few lines of text: as of :class:`Result`, and the gradient."""
        first, second, third, *rest = super().summary().splitlines()
        gradient = f"  ||A^H r|| / (||A|| ||r||) = {self.gradient_norm:.2e} (recomputed)"
        third = third.replace(f"{self.unknowns} unknowns", f"{self.equations} equations, {self.unknowns} unknowns", 1)
        return "\n".join([first, gradient, second, third, *rest])

    def _rows(self) -> list[tuple[str, str]]:
        return [*super()._rows(), ("equations", str(self.equations)), ("gradient", f"{self.gradient_norm:.2e}")]


@dataclass(frozen=True, eq=False)
class LeastSquaresColumn(ColumnResult):
    """How the least-squares solve with one of several right-hand sides ended; see :class:`LeastSquaresResult`."""

    met: str
    ending: str
    gradient_norm: float
    residual: float
    damped_residual: float
    gradient: float
    solution: float
    matrix_norm: float
    frobenius_norm: float
    condition: float
    gradient_history: npt.NDArray[np.float64]


class LeastSquaresColumnsResult(ColumnsResult, LeastSquaresResult):  # type: ignore[misc]  # both are the pair x, info
    """How a least-squares solve with k right-hand sides ended. Unpacks as ``x, info``.

    Attributes
    ----------
    x : ndarray
        Shape (n, k).
    columns : list of LeastSquaresColumn
        The outcome of each column.
    converged, reason, iterations, residual_norm, counts, and others of :class:`ColumnsResult`
        As there.
    gradient_norm : float
        The largest over the columns.
    met, ending, residual, gradient, solution, condition, and others of :class:`LeastSquaresResult`
        Of the column that ``reason`` is of.
    variance : ndarray or None
        Shape (n, k): the estimate of each column.
    """

    columns: list[LeastSquaresColumn]  # type: ignore[assignment]
    _column = LeastSquaresColumn

    def __init__(self, x: Any, reports: OneByOne, log: Log, facts: dict[str, Any]) -> None:
        super().__init__(x, reports, log, facts)
        self.gradient_norm = float(np.max([c.gradient_norm for c in self.columns]))


class _Request(NamedTuple):
    """A least-squares solve that can be done, as far as one rank can tell."""

    b: Array
    x0: Array | None
    scalar: str
    options: _core.LeastSquaresOptions
    precond: Any  # None, "jacobi", or anything that A may be
    variance: bool


def _checked(A: Any, b: Any, x0: Any, how: dict[str, Any], options: LeastSquaresOptions) -> _Request:
    """ValueError or TypeError for what is wrong in the arguments. Local."""
    if isinstance(A, op.Operator) and A.device != "host":
        raise ValueError(f"a least-squares solve works in host memory; A is in that of {A.device}: A.to('host')")
    b = as_columns(_device.read_by_numpy(b), "b")
    if x0 is not None:
        x0 = as_columns(_device.read_by_numpy(x0), "x0")
        refuse_unlike(b, x0)
    scalar = chosen_scalar(how["scalar"]) or least_scalar(A, b=b, x0=x0)
    method = how["method"]
    if isinstance(method, Method):
        raise TypeError(f"method is {method!r}, of tacit.solve; one of {', '.join(LEAST_SQUARES_NAMES)} is needed")
    filled = _core.LeastSquaresOptions()
    filled.method = choose("method", method, LEAST_SQUARES_NAMES)
    fill(filled, "lstsq", LEAST_SQUARES, options, _BESIDE)
    _core.check_least_squares(filled)
    thread_count(how["threads"])
    check_verbose(how["verbose"])
    callback = how["callback"]
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}; a function of one argument is needed")
    if callback is not None and method not in ("lsmr", "lsqr"):
        raise ValueError(f"a callback is called by lsmr and lsqr; {method} has none")
    filled.callback_stops = not isinstance(callback, Observer)
    variance = bool(how["variance"])
    precond = _named(how["precond"])
    if variance and (method != "lsqr" or precond is not None):
        raise ValueError('variance=True goes with method="lsqr" and no preconditioner')
    return _Request(b, x0, scalar, filled, precond, variance)


def _named(given: Any) -> Any:
    """The preconditioner: None, "jacobi", or an operator; ValueError for another name. Local."""
    if isinstance(given, (str, dict, Described)):
        name, more = _precond.split(given)
        if name == "none":
            return None
        if name != "jacobi" or more:
            raise ValueError(
                f'precond is {given!r}; a least-squares solve takes "jacobi" (columns of one length), or an operator'
                " with an adjoint product"
            )
        return name
    return given


def _agreed(on: _core.Communicator, A: Any, look: Callable[[], _Request], how: dict[str, Any]) -> _Request:
    """What look() finds, the same on all ranks. Collective; one small reduction."""

    def tell(found: _Request) -> dict[str, Any]:
        facts = {"method": found.options.method, **compared_form(found.options, LEAST_SQUARES)}
        facts |= argument_form("precond", found.precond) | {"variance": str(found.variance)}
        facts |= {
            "b": columns_form(found.b),
            "x0": "None" if found.x0 is None else "given",
            "scalar": repr(chosen_scalar(how["scalar"])),
        }
        facts |= {"callback": callback_form(how["callback"], found.options.callback_stops)}
        facts |= {"raise_on_failure": repr(bool(how["raise_on_failure"]))}
        return facts | {"A": op.structure_of(A) if isinstance(A, op.Operator) else "a matrix or a function"}

    def bits(found: _Request) -> tuple[int, int]:
        return scalar_bits(found.scalar, len(found.b) + (0 if found.x0 is None else len(found.x0)) > 0)

    request, first, least = alike_and_least(on, look, tell, bits)
    if on.size > 1:
        take_numbers(request.options, LEAST_SQUARES, first)
        request = request._replace(scalar=scalar_of_bits(least, request.scalar))
    return request


def _preconditioner(matrix: op.Operator, request: _Request) -> Any:
    """The compiled preconditioner, or None. Collective."""
    if request.precond is None:
        return None
    if isinstance(request.precond, str):
        stored = op.stored(matrix, 'precond="jacobi" of a least-squares solve')
        return core("column_scaling", matrix._scalar)(stored._handle, request.options.damp)
    offsets = matrix._handle.domain_offsets
    made = op.as_operator(request.precond, matrix.comm, matrix._scalar, what="precond", offsets=offsets)
    if made.shape[0] != matrix.shape[1]:
        raise ValueError(f"precond has shape {made.shape}, and A {matrix.shape}; x = precond y is needed")
    return made._handle


def _own(on: _core.Communicator, array: Array, offsets: Any, scalar: str, what: str) -> tuple[Array, bool]:
    """This rank's part of a vector, and whether it was given whole. Collective."""
    whole = layout.form(on, array, offsets, what)
    return agreed(on, lambda: to_scalar(layout.own_part(array, on, offsets, whole), scalar, what)), whole


def lstsq(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    method: str = "lsmr",
    precond: Any = None,
    comm: Any = None,
    callback: Callable[[CallbackState], Any] | None = None,
    threads: int | None = None,
    scalar: npt.DTypeLike | None = None,
    variance: bool = False,
    raise_on_failure: bool = False,
    verbose: bool = False,
    **options: Unpack[LeastSquaresOptions],
) -> LeastSquaresResult:
    """The x with the least ||b - A x||^2 + damp^2 ||x||^2, for A of any shape and rank.

    Parameters
    ----------
    A : operator, sparse matrix, array, LinearOperator, petsc4py Mat
        m x n, with products with A and with its conjugate transpose. On several ranks as for :func:`tacit.solve`: rows
        and columns are spread over the ranks.
    b : array_like
        Shape (m,), or (m, k) for k right-hand sides: whole, or this rank's own rows on all ranks.
    x0 : array_like, optional
        The x to begin with, shape (n,) or (n, k), whole or this rank's own part. Default: zero. What is minimised is
        the same.
    method : str
        "lsmr": ||r|| and ||A^H r|| fall in every iteration. "lsqr": ||r|| is the least that the Krylov space has. "cg",
        "pipelined-cg", "ca-cg" (with ``step``): those of :func:`tacit.solve` on A^H A x = A^H b, with half or a
        ``step``-th of the reductions; the condition of A counts squared, so that they need a well-conditioned A.
    precond : str or operator, optional
        P, from the right: A P y with x = P y is solved for. "jacobi": diagonal, the columns of (A; damp I) get the
        length 1 (of a stored matrix). An operator, matrix or LinearOperator of n rows, with an adjoint product.
    comm, threads, scalar, raise_on_failure, verbose
        As for :func:`tacit.solve`.
    callback : callable, optional
        ``callback(state)`` after each iteration of lsmr and lsqr; see :class:`CallbackState`. ``residual_norm`` is that
        of (b - A x; -damp x).
    variance : bool
        With "lsqr": estimate the diagonal of (A^H A + damp^2 I)^-1, in exact arithmetic from below. Directions that
        rounding errors let come again, after many iterations, count again.
    **options
        ``damp`` (0). ``atol``, ``btol`` (1e-8; float32 and complex64: 1e-4): converged means, recomputed with
        r = b - A x, that ||r|| <= btol ||b|| + atol ||A|| ||x||, or that ||A^H r|| <= atol ||A|| ||r||. ||A|| is the
        largest lower bound that the solve has found; the term with ||x|| counts up to ||b|| / 100.
        ``condition_limit``: "stopped" where the estimated condition exceeds it. ``max_iterations``, ``step``,
        ``history``. docs/reference/least-squares.md has all of them.

    Returns
    -------
    LeastSquaresResult
        Unpacks as ``x, info``, with x of shape (n,), for b of shape (m, 1) of (n, 1). Numerical failures are its
        ``reason``, never an exception. For k >= 2 right-hand sides a :class:`LeastSquaresColumnsResult`, with x of
        shape (n, k) and the outcome of each column.

    Raises
    ------
    ValueError, TypeError
        Shapes, types, names and numbers that do not fit, or that differ between ranks; the same on every rank.

    Notes
    -----
    Collective. Where the columns of A are dependent, the solution is the shortest one if x0 is zero and there is no
    preconditioner. A solve that the recomputed r and A^H r do not confirm goes on from there, and ends as "stagnated"
    where that gains nothing. Several right-hand sides are solved one after another, each with its own residuals,
    iterations and reason; A and P are made once. A callback reads the column from ``state.column``, and stops that
    column only. docs/theory/least-squares.md has the formulas and costs.

    References
    ----------
    Fong, Saunders, LSMR (2011), doi 10.1137/10079687X; Paige, Saunders, LSQR (1982), doi 10.1145/355984.355989.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, info = tacit.lstsq(A, np.array([2.0, 2.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 2.0])
    >>> tacit.lstsq(A, np.array([2.0, 2.0, 3.0])).met
    'gradient'
    """
    begin = _core.wall_time()
    on = A.comm if comm is None and isinstance(A, op.Operator) else _comm.resolve(comm)
    if op.is_petsc(A):
        A = op.as_operator(A, on)
    how = {"method": method, "precond": precond, "callback": callback, "threads": threads, "scalar": scalar}
    how |= {"variance": variance, "raise_on_failure": raise_on_failure, "verbose": verbose}
    request = _agreed(on, A, lambda: _checked(A, b, x0, how, options), how)
    workers = default_threads(on) if threads is None else int(threads)
    with using_threads(workers), Watch(bool(verbose), on.rank == 0) as watch:
        watch.now("setting up")
        result = _solved(A, b, request, on, callback, begin, workers, watch)
    watch.end(result)
    if raise_on_failure and not result.converged:
        raise NotConverged.of(result)
    return result


def _solved(
    A: Any,
    b: Any,
    request: _Request,
    on: _core.Communicator,
    callback: Any,
    begin: float,
    threads: int,
    watch: Watch,
) -> LeastSquaresResult:
    """The result of a request that all ranks have. Collective."""
    matrix = op.as_operator(A, on, request.scalar)
    options, scalar = request.options, matrix._scalar
    rows, columns = matrix._handle.range_offsets, matrix._handle.domain_offsets
    own_b, whole = _own(on, request.b, rows, scalar, "b")
    own_x0 = None if request.x0 is None else _own(on, request.x0, columns, scalar, "x0")[0]
    many = own_b.ndim == 2

    def form(own: Array) -> Array:
        return layout.gather(own, on) if whole else own

    P = _preconditioner(matrix, request)
    call = None if callback is None else stopping(callback, form)
    atol = _core.default_rtol(scalar) if options.atol is None else options.atol
    watching = options.method in ("lsmr", "lsqr")
    observed = watch.observed(call, atol) if watching else None
    if call is None and observed is not None:
        options.callback_stops = False
    setup = on.all_max_real(_core.wall_time() - begin)
    watch.now("solving")
    solve = functools.partial(core("least_squares", scalar), matrix._handle, P)
    given = one_by_one(own_b, own_x0, observed) if many else [(own_b, own_x0, observed)]
    found = [solve(right, guess, options, watcher, request.variance) for right, guess, watcher in given]
    parts, reports, variances = zip(*found, strict=True)
    together = OneByOne.of(list(reports), "least-squares problems are solved one column at a time")
    facts: dict[str, Any] = {
        "equations": matrix.shape[0],
        "unknowns": matrix.shape[1],
        "nonzeros": matrix.nnz,
        "ranks": on.size,
        "rank": on.rank,
        "threads": threads,
        "scalar": scalar,
        "device": "host",
        "rtol": atol,
        "atol": 0.0,
        "seconds": {"setup": setup, "solve": together.seconds, "explain": 0.0},
        "variance": form(_beside(variances, many).real) if request.variance else None,
    }
    x = form(_beside(parts, many))
    x = like(x.reshape(-1, 1) if not many and np.ndim(b) == 2 else x, b)
    if many:
        return LeastSquaresColumnsResult(x, together, Log(reports), facts)
    return LeastSquaresResult(x, reports[0], Log(reports), facts)


def _beside(parts: Sequence[Any], many: bool) -> Array:
    """The columns as one array, (n, k), or the only one, (n,)."""
    return np.stack(parts, axis=1) if many else np.asarray(parts[0])


@hinted
def lsqr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float | None = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
    *,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
) -> LeastSquaresResult:
    """LSQR with SciPy's signature, for A of any shape and rank: ``x, info = tacit.lsqr(A, b)``.

    Parameters
    ----------
    A, b, x0, damp, atol, btol
        As for :func:`tacit.lstsq`, with SciPy's tolerances; for b of shape (m, 1) x has shape (n,). With ``damp`` the x
        that is minimised is x itself, not x - x0 as in SciPy.
    conlim : float, optional
        ``condition_limit``; 0 or None: none.
    iter_lim : int, optional
        Largest number of iterations. Default: that of :func:`tacit.lstsq`. (SciPy: 2 n.)
    show : bool
        Print ``result.summary()`` at the end.
    calc_var : bool
        ``variance``.
    M : operator or name, optional
        ``precond``.
    callback : callable, optional
        ``callback(xk)`` after each iteration; raising StopIteration ends the solve.

    Returns
    -------
    LeastSquaresResult
        Unpacks as ``x, info``; :func:`tacit.scipy.lsqr` returns SciPy's tuple.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.lsqr(np.array([[1.0, 1.0]]), np.array([2.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    options = _named_by_scipy(damp, atol, btol, conlim, iter_lim)
    return _of_scipy("lsqr", A, b, x0, M, callback, show, calc_var, **options)


@hinted
def lsmr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float | None = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
    *,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
) -> LeastSquaresResult:
    """LSMR with SciPy's signature; arguments and result as of :func:`lsqr`, ``maxiter`` for ``iter_lim``.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.lsmr(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [2.0])
    """
    options = _named_by_scipy(damp, atol, btol, conlim, maxiter)
    return _of_scipy("lsmr", A, b, x0, M, callback, show, False, **options)


def _named_by_scipy(
    damp: float, atol: float, btol: float, conlim: float | None, most: int | None
) -> LeastSquaresOptions:
    return {"damp": damp, "atol": atol, "btol": btol, "condition_limit": conlim or None, "max_iterations": most}


def _of_scipy(
    name: str,
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    callback: Callable[[Any], Any] | None,
    show: bool,
    variance: bool,
    **options: Unpack[LeastSquaresOptions],
) -> LeastSquaresResult:
    call = None if callback is None else _Iterates(callback)
    result = lstsq(A, b, x0, method=name, precond=M, callback=call, variance=variance, **options)
    if show:
        print(result.summary())
    return flat(result)


class _Iterates:
    """A callback that is given the iterate."""

    def __init__(self, callback: Callable[[Any], Any]) -> None:
        self._callback = callback

    def __call__(self, state: CallbackState) -> bool:
        self._callback(as_array(state.x, "x").ravel())
        return False
