"""Methods with SciPy's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._support import Array, choose
from .driver import solve
from .results import ColumnsResult, Result, _OfIterate


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
    result = solve(
        A,
        b,
        x0,
        method=name,
        precond=M,
        rtol=rtol,
        atol=atol,
        max_iterations=maxiter,
        callback=_OfIterate(callback, as_norm) if callable(callback) else callback,
        **more,
    )
    if isinstance(result.x, np.ndarray) and not isinstance(result, ColumnsResult):
        result.x = result.x.reshape(-1)
    return result


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
    """Conjugate gradients with SciPy's signature: ``x, info = tacit.cg(A, b)``.

    Parameters
    ----------
    A : as for :func:`tacit.solve`
        Hermitian positive definite.
    b, x0 : array_like
        Shape (n,) or (n, 1). SciPy takes no more; here shape (n, k) is k right-hand sides, as for :func:`tacit.solve`.
    rtol, atol : float
        Converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed.
    maxiter : int, optional
        Largest number of iterations.
    M : operator or name, optional
        An approximate inverse of A; Hermitian positive definite.
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
    """BiCGStab with SciPy's signature, for any square A; parameters and result as in :func:`tacit.cg`.

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
    """GMRES with SciPy's signature, for any square A; parameters and result as in :func:`tacit.cg`, and:

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
    if callback_type is not None:
        choose("callback_type", callback_type, ("x", "pr_norm", "legacy"))
    return _scipy("gmres", A, b, x0, rtol, atol, maxiter, M, callback, callback_type != "x", restart=restart)


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
    """Richardson's iteration x += relaxation M (b - A x); parameters and result as in :func:`tacit.cg`.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x, info = tacit.richardson(np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([1.0, 2.0]))
    >>> info
    0
    """
    return _scipy("richardson", A, b, x0, rtol, atol, maxiter, M, callback, relaxation=relaxation)


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
    Parameters and result as in :func:`tacit.cg`, and:

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
