"""Methods with SciPy's signatures. What they have in common is documented once, by :func:`cg`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import comm as _comm
from .. import op
from .._support import Array, choose, refuse_unknown
from .callbacks import OfIterate
from .results import ColumnsResult, Result
from .solving import solve_by

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=Result)


def hinted(method: F) -> F:
    """A TypeError for an unknown argument names the one that is meant (SciPy's former ``tol``)."""
    known = tuple(inspect.signature(method).parameters)

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except TypeError:
            refuse_unknown(method.__name__, {name: 0 for name in options if name not in known}, known)
            raise

    return call  # type: ignore[return-value]


def _scipy(
    name: str,
    A: Any,
    b: Any,
    x0: Any,
    rtol: float,
    atol: float,
    maxiter: int | None,
    M: Any,
    callback: Callable[[Any], Any] | None,
    as_norm: bool = False,
    **more: Any,
) -> Result:
    call = OfIterate(callback, as_norm) if callable(callback) else callback
    options = {"rtol": rtol, "atol": atol, "max_iterations": maxiter, **more}
    return flat(solve_by(name, A, b, x0, M, call, options))


def flat(result: R) -> R:
    """The result with an x of shape (n,) where there is one right-hand side, as SciPy's methods return it."""
    if isinstance(result.x, np.ndarray) and result.x.ndim != 1 and not isinstance(result, ColumnsResult):
        result.x = result.x.reshape(-1)
    return result


def _takes_norm(callback_type: str | None) -> bool:
    """Whether the callback of a gmres takes the residual's norm; ValueError for an unknown type."""
    return callback_type is None or choose("callback_type", callback_type, ("x", "pr_norm", "legacy")) != "x"


@hinted
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
) -> Result:
    """Conjugate gradients with SciPy's signature, for Hermitian positive definite A: ``x, info = tacit.cg(A, b)``.

    Parameters
    ----------
    A : as for :func:`tacit.solve`
        Square.
    b, x0 : array_like
        Shape (n,) or (n, 1). SciPy takes no more; here shape (n, k) is k right-hand sides, as for :func:`tacit.solve`.
    rtol, atol : float
        Converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed.
    maxiter : int, optional
        Largest number of iterations.
    M : operator or name, optional
        An approximate inverse of A; for cg, minres and chebyshev Hermitian positive definite.
    callback : callable, optional
        ``callback(xk)`` after each iteration; raising StopIteration ends the solve. What it returns is ignored. With k
        right-hand sides xk is the iterate of one of them, shape (n,), and ends the solve of that one.

    Returns
    -------
    Result
        Unpacks as ``x, info`` with x of shape (n,); info is 0 (converged), > 0 (iterations done) or < 0 (breakdown).
        With k right-hand sides x has shape (n, k), and info is 0 where all have converged.

    References
    ----------
    Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems (1952), doi 10.6028/jres.049.044.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.cg(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [0.090909, 0.636364])
    """
    return _scipy("cg", A, b, x0, rtol, atol, maxiter, M, callback)


def _documented(method: F) -> F:
    """Adds to the docstring what that of cg has on parameters which it does not describe, and on the result."""
    if method.__doc__ is None or cg.__doc__ is None:  # python -OO
        return method
    head = "Parameters\n----------\n"
    lead, section, end = re.split(r"^(References|Examples)$", inspect.cleandoc(method.__doc__), maxsplit=1, flags=re.M)
    lead, _, own = lead.partition(head)
    shared, result = re.split(r"^(?=Returns$)", inspect.cleandoc(cg.__doc__).partition(head)[2], maxsplit=1, flags=re.M)
    entries = {re.split(r"\W", entry)[0]: entry for entry in re.findall(r"^\w.*\n(?: .*\n)+", shared, re.M)}
    for name in re.findall(r"^\w+", own, re.M):
        entries.pop(name, None)
    method.__doc__ = "".join(
        (lead, head, *entries.values(), own or "\n", result.partition("References")[0], section, end)
    )
    return method


@hinted
@_documented
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
) -> Result:
    """BiCGStab with SciPy's signature, for any square A.

    References
    ----------
    van der Vorst, Bi-CGSTAB (1992), doi 10.1137/0913035.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.bicgstab(np.array([[4.0, 1.0], [0.0, 3.0]]), np.array([5.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    return _scipy("bicgstab", A, b, x0, rtol, atol, maxiter, M, callback)


@hinted
@_documented
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
    callback_type: str | None = None,
) -> Result:
    """GMRES with SciPy's signature, for any square A.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle. Default: as in :func:`tacit.solve`, 30, and up to 120 where convergence is slow. (SciPy:
        min(20, n).)
    maxiter : int, optional
        Largest number of iterations, that is of products with A. (SciPy counts cycles.)
    callback_type : {"x", "pr_norm", "legacy"}, optional
        What ``callback`` is given after each iteration: x_k ("x"), or ||r_k|| / ||b|| ("pr_norm", "legacy" and None).

    References
    ----------
    Saad and Schultz, GMRES (1986), doi 10.1137/0907058.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> norms = []
    >>> A = np.array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = tacit.gmres(A, np.array([1.0, 3.0]), callback=norms.append, callback_type="pr_norm")
    >>> info, len(norms)
    (0, 2)
    """
    return _scipy("gmres", A, b, x0, rtol, atol, maxiter, M, callback, _takes_norm(callback_type), restart=restart)


@hinted
@_documented
def fgmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
    callback_type: str | None = None,
) -> Result:
    """Flexible GMRES, for any square A and an M that may change from call to call. (SciPy's nearest is ``gcrotmk``.)

    Parameters
    ----------
    maxiter, restart, callback_type
        As in :func:`tacit.gmres`.

    References
    ----------
    Saad, A flexible inner-outer preconditioned GMRES algorithm (1993), doi 10.1137/0914028.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.fgmres(np.array([[4.0, 1.0], [0.0, 3.0]]), np.array([5.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    return _scipy("fgmres", A, b, x0, rtol, atol, maxiter, M, callback, _takes_norm(callback_type), restart=restart)


@hinted
@_documented
def idr(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
    shadow_dimension: int | None = None,
) -> Result:
    """IDR(s), induced dimension reduction, for any square A: short recurrences, and fewer iterations than bicgstab.

    Parameters
    ----------
    shadow_dimension : int, optional
        s, the vectors of the shadow space. Default: 4.

    References
    ----------
    van Gijzen and Sonneveld, Algorithm 913 (2011), doi 10.1145/2049662.2049667.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.idr(np.array([[4.0, 1.0], [0.0, 3.0]]), np.array([5.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    return _scipy("idr", A, b, x0, rtol, atol, maxiter, M, callback, shadow_dimension=shadow_dimension)


def shifted(A: Any, shift: float) -> Any:
    """A - shift I, a stored matrix where A is one."""
    if op._is_matrix(A):
        import scipy.sparse as sp

        A = sp.csr_array(A)
        return A - shift * sp.eye_array(A.shape[0], A.shape[1], dtype=A.dtype, format="csr")
    return op.as_operator(A, _comm.resolve(None)).shifted(-shift)


def refuse_unsymmetric(A: Any, what: str) -> None:
    """ValueError where (v, A (A v)) and (A v, A v) differ by more than rounding, for a random v: A is not Hermitian.
    Collective; two products.
    """
    of = op.as_operator(A, _comm.resolve(None))
    v = np.random.default_rng(0).standard_normal(of.shape[0]).astype(of.dtype)
    Av = of @ v
    square, other = np.vdot(Av, Av), np.vdot(v, of @ Av)
    limit = np.finfo(of.dtype).eps ** (1 / 3)
    if not abs(square - other) <= limit * abs(square):
        raise ValueError(f"{what} is not Hermitian: (A v, A v) is {square:.3g} and (v, A A v) {other:.3g}")


@hinted
@_documented
def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
    show: bool = False,
    check: bool = False,
) -> Result:
    """Minimal residuals with SciPy's signature, for Hermitian A, definite or not.

    Parameters
    ----------
    rtol : float
        Converged means ||b - A x|| <= rtol ||b||, recomputed. (SciPy compares with ||A|| ||x|| instead of ||b||, so
        that its residual may be larger.)
    shift : float
        Solves (A - shift I) x = b.
    show : bool
        Print ``result.summary()`` at the end.
    check : bool
        ValueError where A, or an M that is no name, is seen not to be Hermitian; costs two products with each.

    References
    ----------
    Paige, Saunders, Solution of sparse indefinite systems of linear equations (1975), doi 10.1137/0712047.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.minres(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([3.0, 3.0]))
    >>> info, np.round(x, 6).tolist()
    (0, [1.0, 1.0])
    """
    if check:
        refuse_unsymmetric(A, "A")
        if M is not None and not isinstance(M, (str, dict)):
            refuse_unsymmetric(M, "M")
    result = _scipy("minres", shifted(A, shift) if shift else A, b, x0, rtol, 0.0, maxiter, M, callback)
    if show:
        print(result.summary())
    return result


@hinted
@_documented
def richardson(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
    relaxation: float = 1.0,
) -> Result:
    """Richardson's iteration x += relaxation M (b - A x).

    Parameters
    ----------
    relaxation : float
        The factor of each step.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.richardson(np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([1.0, 2.0]))
    >>> info
    0
    """
    return _scipy("richardson", A, b, x0, rtol, atol, maxiter, M, callback, relaxation=relaxation)


@hinted
@_documented
def chebyshev(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Array], Any] | None = None,
    lambda_min: float | None = None,
    lambda_max: float | None = None,
) -> Result:
    """Chebyshev's iteration for a Hermitian positive definite A. Its only reductions are for the residual norm.

    Parameters
    ----------
    lambda_min, lambda_max : float, optional
        Bounds of the spectrum of M A; estimated where absent.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.chebyshev(np.diag([1.0, 2.0, 3.0]), np.ones(3), lambda_min=1.0, lambda_max=3.0)
    >>> info
    0
    """
    return _scipy("chebyshev", A, b, x0, rtol, atol, maxiter, M, callback, lambda_min=lambda_min, lambda_max=lambda_max)
