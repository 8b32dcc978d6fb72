"""Solves in programs of JAX: ``tacit.jax.solve(A, b, values)`` under ``jax.jit``, ``jax.grad`` and ``jax.vmap``.

JAX is no requirement of Tacit: ``pip install jax``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._gradients import Entries

__all__ = ["solve"]


def solve(A: Any, b: Any, values: Any = None, **options: Any) -> Any:
    """x = A^-1 b, with derivatives in b and in the entries of A.

    Parameters
    ----------
    A : sparse matrix of SciPy, operator of Tacit, or array of JAX
        A sparse matrix gives the places of the ``values``. Without these A does not change, and may be all that
        :func:`tacit.solve` takes. A dense array of JAX, shape (n, n), is differentiated itself.
    b : array of shape (n,) or (n, k)
    values : array of shape (nnz,), optional
        The entries, in the order of ``A.tocsr().data``.
    **options
        Of :func:`tacit.solve`, such as ``method``, ``precond`` (of an operator the transpose is used for the gradient)
        and ``rtol``; by default ``raise_on_failure``: a solve that has not converged is an error of JAX.

    Returns
    -------
    jax.Array
        x, of the shape of b.

    Raises
    ------
    ValueError, TypeError
        Shapes and arguments that do not fit.

    Notes
    -----
    The solve runs on the host, by ``jax.pure_callback``; vmap solves one after another. With the derivative g of the
    result in x, lambda = A^-T g is that in b, and -lambda_i x_j that in the entry (i, j): one solve with A^T. Its
    derivatives are found in the same way (reverse mode only). Gradients are as accurate as the two solves: choose
    ``rtol``, and ``jax_enable_x64`` where single precision is not meant.

    Examples
    --------
    >>> import jax, numpy as np, scipy.sparse as sp, tacit.jax
    >>> A = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5)).tocsr()
    >>> loss = jax.jit(lambda values, b: tacit.jax.solve(A, b, values, rtol=1e-6).sum())
    >>> of_values, of_b = jax.grad(loss, argnums=(0, 1))(A.data, np.ones(5))
    >>> of_values.shape, of_b.shape
    ((13,), (5,))
    """
    task, b, values = Entries.of(A, b, values, options, jax.Array, jnp.asarray)
    dtype = jnp.result_type(b, task.dtype if values is None else values, jnp.float32)
    return _solved(task, False, None if values is None else values.astype(dtype), b.astype(dtype))


def _host(task: Entries, transposed: bool, values: Any, b: Any) -> Any:
    def call(*arrays: Any) -> Any:
        *given, right = (np.asarray(array) for array in arrays)
        return task.solve(transposed, given[0] if given else None, right)

    arrays = (b,) if values is None else (values, b)
    return jax.pure_callback(call, jax.ShapeDtypeStruct(b.shape, b.dtype), *arrays, vmap_method="sequential")


def _forward(task: Entries, transposed: bool, values: Any, b: Any) -> Any:
    x = _solved(task, transposed, values, b)
    return x, (values, x)


def _backward(task: Entries, transposed: bool, kept: Any, g: Any) -> Any:
    values, x = kept
    y = _solved(task, not transposed, values, g)
    if values is None:
        return None, y
    left, right = (x, y) if transposed else (y, x)
    products = left[task.rows] * right[task.columns]
    return -(products.sum(axis=1) if products.ndim == 2 else products), y


_solved = jax.custom_vjp(_host, nondiff_argnums=(0, 1))
_solved.defvjp(_forward, _backward)
