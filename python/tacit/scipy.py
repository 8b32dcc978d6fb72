"""SciPy's iterative solvers with SciPy's meaning, done by Tacit: ``from tacit.scipy import cg, gmres, lsqr``.

``cg``, ``bicgstab``, ``gmres`` and ``minres`` take what those of ``scipy.sparse.linalg`` take, and count and report as
these do: a tuple ``(x, info)``; ``maxiter`` (of gmres in cycles, 10 n by default); ``restart`` of 20 vectors; M from
the left in gmres; ``x0="Mb"``; callbacks and ``callback_type``; the dtype of A and b. ``lsqr`` and ``lsmr`` return
SciPy's tuples of ten and eight, with its ``istop``. ``tacit.cg`` and the like have the same arguments and Tacit's
meaning: a :class:`tacit.Result`, products counted, fallbacks, several right-hand sides.

What differs, always to the safe side:

- info is 0 where the recomputed b - A x passes, and where it does not info is not 0.
- A solve that gets no further ends, with info > 0 before ``maxiter`` is used up; numbers that are not finite end it at
  once, and x is finite. With ``maxiter=0`` info is 1.
- A callback is given arrays of its own, which later iterations do not change. That of bicgstab is also called for the
  last x where the first half of an iteration reaches it; SciPy ends there without a call.
- minres keeps float32, of which SciPy's makes float64.
- istop of lsqr and lsmr is 1 or 2 only where the recomputed b - A x and A^H (b - A x) pass, and the norms that are
  returned are those of this x. ||A|| in these tests is a bound from below, where SciPy's estimate grows with the
  iterations.

M may also be a name of :mod:`tacit.precond`, such as ``"ilu0"``, or an operator of Tacit, and A an operator on several
ranks, with b whole on each of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from . import op
from ._support import SCALAR_OF, Array, as_array, common_scalar, scalar_name
from .krylov import CallbackState, LeastSquaresResult, Observer, Result, lstsq, solve
from .krylov.signatures import hinted, refuse_unsymmetric, shifted

__all__ = ["bicgstab", "cg", "gmres", "lsmr", "lsqr", "minres"]

Guess = Any  # array, "Mb" or None

# What to take for the others of scipy.sparse.linalg, which Tacit lacks.
_NEAREST = {
    "bicg": "bicgstab needs no transpose",
    "cgs": "bicgstab is its stabilised form",
    "gcrotmk": "tacit.fgmres also takes a preconditioner that changes",
    "lgmres": "gmres with a longer restart, or tacit.idr, which has none",
    "qmr": "bicgstab, or tacit.idr",
    "tfqmr": "bicgstab and tacit.idr need as few vectors",
}
_MOST = 2**31 - 1  # iterations of a solve


def __getattr__(name: str) -> Any:
    near = _NEAREST.get(name)
    here = "" if near is None else f"; scipy.sparse.linalg.{name} takes Tacit's operators, and the nearest here: {near}"
    raise AttributeError(f"module 'tacit.scipy' has no attribute {name!r}{here}")


class _User:
    """A function of the user as something that stands for an operator."""

    def __init__(self, matvec: Callable[[Any], Any], shape: tuple[int, int]) -> None:
        self.matvec, self.shape = matvec, shape


def _norm(b: Array) -> float:
    """The 2-norm, also where squares of elements are 0 or infinite. NumPy's costs more than a small product."""
    norm = math.sqrt(b.dot(b)) if SCALAR_OF.get(b.dtype) == "float64" else float(np.linalg.norm(b))
    if 0 < norm < math.inf or not len(b):
        return norm
    size = float(np.abs(b).max())
    return size * float(np.linalg.norm(b / size)) if 0 < size < math.inf else norm


class _System:
    """A x = b, M and x0, checked as SciPy checks them."""

    def __init__(self, A: Any, M: Any, x0: Guess, b: Any) -> None:
        b = as_array(b, "b")
        parts = [] if (of_A := op.scalar_of(A, "A")) is None else [of_A]
        self.scalar = common_scalar(*parts, scalar_name(b.dtype, "b"))
        self.A = op.as_operator(A, scalar=self.scalar)
        rows, columns = self.A.shape
        if rows != columns:
            raise ValueError(f"A has shape {self.A.shape}; a square matrix is needed")
        self.n = rows
        self.b = self._vector(b, "b")
        if M is None and hasattr(A, "psolve"):
            M = _User(A.psolve, self.A.shape)
        self.M = M if M is None or isinstance(M, (str, dict)) else op.as_operator(M, self.A.comm, self.scalar, what="M")
        if isinstance(self.M, op.Operator) and self.M.shape != self.A.shape:
            raise ValueError(f"A has shape {self.A.shape} and M {self.M.shape}; the same is needed")
        if isinstance(x0, str) and x0 != "Mb":
            raise ValueError(f'x0 is {x0!r}; an array is needed, or "Mb"')
        self.x0: Array | None = None
        if isinstance(x0, str):
            self.x0 = self.applied(self.b).copy()
        elif x0 is not None:
            self.x0 = self._vector(as_array(x0, "x0"), "x0").copy()
        self.b_norm = _norm(self.b)

    def _vector(self, array: Array, what: str) -> Array:
        if array.shape not in ((self.n,), (self.n, 1)):
            raise ValueError(f"A has shape {self.A.shape} and {what} {array.shape}; ({self.n},) or ({self.n}, 1) fits")
        if array.ndim == 1 and SCALAR_OF.get(array.dtype) == self.scalar and array.flags.c_contiguous:
            return array
        return np.ascontiguousarray(array.ravel(), dtype=self.scalar)

    def applied(self, r: Array) -> Array:
        """M r."""
        if isinstance(self.M, (str, dict)):
            from . import precond

            self.M = precond.build(self.A, self.M)[0]
        return r if self.M is None else np.asarray(self.M @ r)

    def residual(self, x: Array) -> Array:
        return np.asarray(self.b - self.A @ x)

    def at_guess(self) -> Array:
        return np.zeros(self.n, self.scalar) if self.x0 is None else self.x0


def _tolerance(name: str, system: _System, rtol: Any, atol: Any) -> float:
    """max(rtol ||b||, atol); ValueError for an atol that is none."""
    if atol is None or isinstance(atol, str) or not atol >= 0:
        raise ValueError(f"{name}: atol is {atol!r}; a number >= 0 is needed")
    return max(float(atol), float(rtol) * system.b_norm)


class _Raised(Exception):
    """Carries a StopIteration of the user's callback, which ends the solve for SciPy's callers, through the solve."""


def _guarded(callback: Callable[[CallbackState], Any]) -> Observer:
    def call(state: CallbackState) -> None:
        try:
            callback(state)
        except StopIteration as e:
            raise _Raised from e

    return Observer(call)


def _run(
    name: str,
    system: _System,
    goal: float,
    most: int,
    callback: Callable[[CallbackState], Any] | None,
    guess: Array | None = None,
    **more: Any,
) -> Result:
    try:
        return solve(
            system.A,
            system.b,
            system.x0 if guess is None else guess,
            method=name,
            precond="none" if system.M is None else system.M,
            rtol=0.0,
            atol=goal,
            max_iterations=min(most, _MOST),
            callback=None if callback is None else _guarded(callback),
            scalar=system.scalar,
            fallbacks=False,
            history=False,
            explain=False,
            **more,
        )
    except _Raised as e:
        raise e.__cause__ if e.__cause__ is not None else e from None


def _at_once(system: _System, goal: float) -> Array | None:
    """x where SciPy knows it without an iteration: b = 0, or any residual is small enough."""
    if system.b_norm == 0:
        return np.zeros(system.n, system.scalar)
    return system.at_guess() if goal == np.inf and np.isfinite(system.b_norm) else None


def _iterated(
    name: str,
    A: Any,
    b: Any,
    x0: Guess,
    rtol: float,
    atol: float,
    maxiter: int | None,
    M: Any,
    callback: Callable[[Array], Any] | None,
    breakdown: int | None,
) -> tuple[Array, int]:
    """Of methods without cycles; `breakdown`: info where the method breaks down, None where SciPy knows none."""
    system = _System(A, M, x0, b)
    goal = _tolerance(name, system, rtol, atol)
    if (x := _at_once(system, goal)) is not None:
        return x, 0
    call = None if callback is None else lambda state: callback(state.x.copy())
    most = 10 * system.n if maxiter is None else maxiter
    result = _run(name, system, goal, most, call)
    done = result.iterations
    if name == "cg" and result.reason == "breakdown" and done < most:
        # A is indefinite: SciPy's cg does not look, and often converges.
        result = _run("minres", system, goal, most - done, call, result.x)
        done += result.iterations
    if result.converged:
        return result.x, 0
    if result.reason == "breakdown" and breakdown is not None:
        return result.x, breakdown
    return result.x, max(1, done)


@hinted
def cg(
    A: Any,
    b: Any,
    x0: Guess = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
) -> tuple[Array, int]:
    """``scipy.sparse.linalg.cg``: conjugate gradients for Hermitian positive definite A.

    Where A turns out to be indefinite, minres goes on from there; SciPy's cg would go on without a guarantee.

    Parameters
    ----------
    A : sparse matrix, array, LinearOperator or operator of Tacit
        Square, n x n. An attribute ``psolve`` is taken for M where M is None.
    b : array_like
        Shape (n,) or (n, 1).
    x0 : array_like or "Mb", optional
        Initial guess; "Mb": M b. Default: zero.
    rtol, atol : float
        Converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed.
    maxiter : int, optional
        Largest number of iterations. Default: 10 n.
    M : as A, or a name, optional
        Approximate inverse of A.
    callback : callable, optional
        ``callback(x)`` after each iteration; what it raises reaches the caller.

    Returns
    -------
    x : ndarray of shape (n,)
    info : int
        0: converged; > 0: the number of iterations; < 0: breakdown (of bicgstab).

    Raises
    ------
    ValueError, TypeError
        Shapes, tolerances and numbers that do not fit.

    Notes
    -----
    A solve of :func:`tacit.solve` with this method, without its fallbacks. Collective.

    Examples
    --------
    >>> import numpy as np, tacit.scipy
    >>> x, info = tacit.scipy.cg(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]), x0="Mb")
    >>> info, np.round(x, 6).tolist()
    (0, [0.090909, 0.636364])
    """
    return _iterated("cg", A, b, x0, rtol, atol, maxiter, M, callback, None)


@hinted
def bicgstab(
    A: Any,
    b: Any,
    x0: Guess = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
) -> tuple[Array, int]:
    """``scipy.sparse.linalg.bicgstab``, for any square A; arguments and results as of :func:`cg`, info -10: breakdown.

    Examples
    --------
    >>> import numpy as np, tacit.scipy
    >>> x, info = tacit.scipy.bicgstab(np.array([[4.0, 1.0], [0.0, 3.0]]), np.array([5.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    return _iterated("bicgstab", A, b, x0, rtol, atol, maxiter, M, callback, -10)


class _Cycles:
    """A callback of gmres as SciPy calls it, over one or more runs.

    "x": with the iterate after each cycle; else with ||M r|| / ||b|| after each iteration. Tacit's residual within a
    cycle is ||M r||, scaled to ||r|| where the cycle begins; that factor is found from the iterate there.
    """

    def __init__(self, system: _System, callback: Callable[[Any], Any], kind: str, restart: int) -> None:
        self._system, self._callback, self._restart = system, callback, restart
        self._of_x = kind == "x"
        self._factor = 1.0
        self._last = -1  # the iteration of the last call with x

    def begin(self, x: Array) -> None:
        """A cycle begins at x."""
        if not self._of_x and self._system.M is not None:
            r = self._system.residual(x)
            norm = float(np.linalg.norm(r))
            self._factor = float(np.linalg.norm(self._system.applied(r))) / norm if norm > 0 else 1.0

    def __call__(self, state: CallbackState) -> None:
        ends = state.iteration % self._restart == 0
        if self._of_x:
            if ends:
                self._last = state.iteration
                self._callback(state.x.copy())
            return
        self._callback(np.float64(self._factor * state.residual_norm))
        if ends:
            self.begin(state.x)

    def finish(self, result: Result) -> None:
        """After a run: a cycle that was not filled ends there, too."""
        if self._of_x and self._last != result.iterations:
            self._callback(result.x.copy())
        self._last = -1


def _tightened(
    system: _System, goal: float, most: int, call: _Cycles | None, restart: int
) -> tuple[Array, bool, int, int]:
    """gmres with M from the left, in runs: x, whether it has converged, its iterations and cycles.

    A run ends where the residual of the preconditioned system passes. Where b - A x then does not, the next run is
    given a smaller goal, as in SciPy: a badly conditioned M makes the one residual small long before the other.
    """
    x, aim, iterations, cycles = system.at_guess(), goal, 0, 0
    side = {} if system.M is None else {"side": "left"}
    while True:
        if call is not None:
            call.begin(x)
        result = _run("gmres", system, aim, most - iterations, call, x, restart=restart, **side)
        x = result.x
        if call is not None:
            call.finish(result)
        iterations += result.iterations
        cycles += max(1, -(-result.iterations // restart))
        norm = result.residual_norm * system.b_norm
        if norm <= goal or not side or result.reason != "stagnated" or result.iterations == 0 or iterations >= most:
            return x, bool(norm <= goal), iterations, cycles
        aim *= min(0.25, goal / norm)


def _kind_of(callback: Any, callback_type: str | None) -> str | None:
    """What a callback of gmres is given, None without one. SciPy warns where it is not said."""
    if callback is not None and callback_type is None:
        warnings.warn(
            "tacit.scipy.gmres called without specifying `callback_type`: as in SciPy it is 'legacy' then, and maxiter"
            " counts iterations; 'pr_norm' is given the same, and maxiter counts cycles; 'x' is given iterates",
            DeprecationWarning,
            stacklevel=4,
        )
    kind = callback_type or "legacy"
    if kind not in ("x", "pr_norm", "legacy"):
        raise ValueError(f"callback_type is {callback_type!r}; 'x', 'pr_norm' or 'legacy' is needed")
    return None if callback is None else kind


@hinted
def gmres(
    A: Any,
    b: Any,
    x0: Guess = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
    callback_type: Literal["x", "pr_norm", "legacy"] | None = None,
) -> tuple[Array, int]:
    """``scipy.sparse.linalg.gmres``, for any square A, preconditioned from the left; see :func:`cg` for the rest.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle. Default: 20; at most n.
    maxiter : int, optional
        Largest number of cycles; with a callback of type "legacy" of iterations. Default: 10 n.
    callback, callback_type
        "pr_norm" and "legacy": ``callback(||M r|| / ||b||)`` after each iteration, with M at the cost of a product and
        an apply of M for each cycle; "x": ``callback(x)`` after each cycle. Without a type "legacy", with a
        DeprecationWarning.

    Returns
    -------
    x : ndarray of shape (n,)
    info : int
        0: converged; > 0: the number of cycles ("legacy": iterations).

    Examples
    --------
    >>> import numpy as np, tacit.scipy
    >>> x, info = tacit.scipy.gmres(np.array([[4.0, 1.0], [0.0, 3.0]]), np.array([5.0, 3.0]), restart=2, maxiter=1)
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    kind = _kind_of(callback, callback_type)
    system = _System(A, M, x0, b)
    goal = _tolerance("gmres", system, rtol, atol)
    if (x := _at_once(system, goal)) is not None:
        return x, 0
    restart = max(1, min(20 if restart is None else restart, system.n))
    cycles = 10 * system.n if maxiter is None else maxiter
    most = cycles if kind == "legacy" else cycles * restart
    call = None if callback is None or kind is None else _Cycles(system, callback, kind, restart)
    x, converged, iterations, done = _tightened(system, goal, most, call, restart)
    return x, 0 if converged else max(1, iterations) if kind == "legacy" else done


@hinted
def minres(
    A: Any,
    b: Any,
    x0: Guess = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
    show: bool = False,
    check: bool = False,
) -> tuple[Array, int]:
    """``scipy.sparse.linalg.minres``, for Hermitian A, definite or not; see :func:`cg` for the rest.

    Parameters
    ----------
    rtol : float
        Converged means ||b - A x|| <= rtol ||b||. Where that is not reached info is 0, too, if one of SciPy's tests
        holds: ||r|| <= rtol ||A|| ||x||, or ||A r|| <= rtol ||A|| ||r||, a least-squares solution of a singular A.
    shift : float
        Solves (A - shift I) x = b.
    maxiter : int, optional
        Largest number of iterations. Default: 5 n.
    show : bool
        Print a summary at the end.
    check : bool
        ValueError where A or M is seen not to be Hermitian; costs two products with each.

    Examples
    --------
    >>> import numpy as np, tacit.scipy
    >>> x, info = tacit.scipy.minres(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([3.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    system = _System(shifted(A, shift) if shift else A, M, x0, b)
    if check:
        refuse_unsymmetric(A, "A")
        if isinstance(system.M, op.Operator):
            refuse_unsymmetric(system.M, "M")
    goal = _tolerance("minres", system, rtol, 0.0)
    if (x := _at_once(system, goal)) is not None:
        return x, 0
    call = None if callback is None else lambda state: callback(state.x.copy())
    result = _run("minres", system, goal, 5 * system.n if maxiter is None else maxiter, call)
    if show:
        print(result.summary())
    if result.converged or (np.isfinite(system.b_norm) and _is_least(system, result.x, float(rtol))):
        return result.x, 0
    return result.x, -1 if result.reason == "breakdown" else max(1, result.iterations)


def _is_least(system: _System, x: Array, rtol: float) -> bool:
    """SciPy's further tests of minres, with ||A|| from its products with r, x and b: three products."""
    r = system.residual(x)
    lengths = [float(np.linalg.norm(v)) for v in (r, x, system.b)]
    images = [float(np.linalg.norm(system.A @ v)) for v in (r, x, system.b)]
    size = max((image / length for image, length in zip(images, lengths, strict=True) if length > 0), default=0.0)
    return lengths[0] <= rtol * size * lengths[1] or images[0] <= rtol * size * lengths[0]


# What ended a solve as SciPy's istop; where it has converged, 1 or 2.
_ISTOP = {"condition": 3, "residual rounding": 4, "gradient rounding": 5, "iterations": 7, "other": 6}


class _LeastSquares:
    """A least-squares problem, checked as SciPy checks it, and solved for x - x0: ``damp`` is of that."""

    def __init__(self, A: Any, b: Any, x0: Any) -> None:
        if isinstance(A, (list, np.ndarray)):
            A = np.atleast_2d(A)
        self.b = np.atleast_1d(as_array(b, "b"))
        if self.b.ndim > 1:
            self.b = np.atleast_1d(self.b.squeeze())
        given = [self.b] if x0 is None else [self.b, as_array(x0, "x0")]
        parts = [] if (of_A := op.scalar_of(A, "A")) is None else [of_A]
        parts += [scalar_name(array.dtype, "b") for array in given]
        known = isinstance(A, op.Operator) and not isinstance(A, op.Csr)
        self.scalar = common_scalar(*parts) if known else common_scalar("float64", *parts)
        self.A = op.as_operator(A, scalar=self.scalar)
        rows, self.n = self.A.shape
        if self.b.shape != (rows,):
            raise ValueError(f"A has shape {self.A.shape} and b {self.b.shape}; ({rows},) is needed")
        self.b = np.ascontiguousarray(self.b, self.scalar)
        self.b_norm = _norm(self.b)
        self.x0: Array | None = None
        self.right = self.b
        if x0 is not None:
            if given[1].size != self.n:
                raise ValueError(f"A has shape {self.A.shape} and x0 {given[1].shape}; ({self.n},) is needed")
            if given[1].any():
                self.x0 = np.ascontiguousarray(given[1].ravel(), self.scalar)
                self.right = np.asarray(self.b - self.A @ self.x0)

    def solve(self, method: str, damp: Any, atol: Any, btol: Any, conlim: Any, most: int, **more: Any) -> Any:
        """(x, istop, the result). b = 0 gives x = 0 where nothing is damped."""
        if self.b_norm == 0 and not damp:
            self.x0, self.right = None, self.b
        length = _norm(self.right)
        btol = 1e-6 if btol is None else float(btol)
        result = lstsq(
            self.A,
            self.right,
            method=method,
            damp=abs(float(damp or 0.0)),
            atol=1e-6 if atol is None else float(atol),
            btol=btol * (self.b_norm / length if 0 < length < np.inf and self.b_norm < np.inf else 1.0),
            condition_limit=max(1.0, float(conlim)) if conlim > 0 else None,
            max_iterations=min(int(most), _MOST),
            scalar=self.scalar,
            history=False,
            **more,
        )
        x = result.x if self.x0 is None else self.x0 + result.x
        return x, _istop(result), result


def _istop(result: LeastSquaresResult) -> int:
    if result.converged:
        if result.iterations == 0 and result.gradient == 0:
            return 0
        return 1 if result.met == "residual" else 2
    return _ISTOP.get(result.ending, 6)


@hinted
def lsqr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: Any = None,
) -> tuple[Array, int, int, float, float, float, float, float, float, Array]:
    """``scipy.sparse.linalg.lsqr``: the least ||b - A x||^2 + damp^2 ||x - x0||^2.

    Parameters
    ----------
    A : sparse matrix, array, LinearOperator or operator of Tacit
        m x n, with its adjoint product.
    b : array_like
        Shape (m,) or (m, 1).
    damp, x0
        See above; x0 is zero by default.
    atol, btol : float
        istop is 1 where ||r|| <= btol ||b|| + atol ||A|| ||x||, 2 where ||A^H r|| <= atol ||A|| ||r||, recomputed.
    conlim : float
        istop is 3 where the estimated condition exceeds it; 0: no limit.
    iter_lim : int, optional
        Largest number of iterations. Default: 2 n.
    show : bool
        Print a summary at the end.
    calc_var : bool
        Whether ``var`` is estimated.

    Returns
    -------
    x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var
        istop 0: x0 is the solution; 4, 5, 6: nothing better in this arithmetic; 7: the limit of iterations. r1norm is
        ||b - A x||, r2norm with the damped part, arnorm ||A^H r - damp^2 (x - x0)||, xnorm ||x||: recomputed; anorm and
        acond estimate the Frobenius norm and the condition of (A; damp I); var the diagonal of
        (A^H A + damp^2 I)^-1, or zeros.

    Examples
    --------
    >>> import numpy as np, tacit.scipy
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, istop, itn, r1norm = tacit.scipy.lsqr(A, np.array([1.0, 0.0, -1.0]))[:4]
    >>> istop, itn, np.round(x, 6).tolist()
    (1, 1, [1.0, -1.0])
    """
    problem = _LeastSquares(A, b, x0)
    most = 2 * problem.n if iter_lim is None else iter_lim
    x, istop, r = problem.solve("lsqr", damp, atol, btol, conlim, most, variance=bool(calc_var))
    if show:
        print(r.summary())
    norms = (r.residual, r.damped_residual, r.frobenius_norm, r.condition, r.gradient, _norm(x))
    return (x, istop, r.iterations, *norms, np.zeros(problem.n) if r.variance is None else r.variance)


@hinted
def lsmr(
    A: Any,
    b: Any,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: Any = None,
) -> tuple[Array, int, int, float, float, float, float, float]:
    """``scipy.sparse.linalg.lsmr``; arguments as of :func:`lsqr`, ``maxiter`` (min(m, n) by default) for ``iter_lim``.

    Returns
    -------
    x, istop, itn, normr, normar, norma, conda, normx
        As of :func:`lsqr`; normr is with the damped part, norma the Frobenius norm, normx ||x||.

    Examples
    --------
    >>> import numpy as np, tacit.scipy
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, istop = tacit.scipy.lsmr(A, np.array([1.0, 0.01, -1.0]))[:2]
    >>> istop, np.round(x, 6).tolist()
    (2, [1.003333, -0.996667])
    """
    problem = _LeastSquares(A, b, x0)
    most = min(problem.A.shape) if maxiter is None else maxiter
    x, istop, r = problem.solve("lsmr", damp, atol, btol, conlim, most)
    if show:
        print(r.summary())
    norms = (r.damped_residual, r.gradient, r.frobenius_norm, r.condition, _norm(x))
    return (x, istop, r.iterations, *norms)
