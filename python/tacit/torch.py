"""Solves in programs of PyTorch: ``tacit.torch.solve(A, b, values)`` is differentiated by ``backward()``.

PyTorch is no requirement of Tacit: ``pip install torch``.
"""

from __future__ import annotations

from typing import Any

import torch

from ._gradients import Entries

__all__ = ["solve"]


def solve(A: Any, b: Any, values: Any = None, **options: Any) -> Any:
    """x = A^-1 b, with derivatives in b and in the entries of A.

    Parameters
    ----------
    A : sparse matrix of SciPy, operator of Tacit, or dense tensor
        A sparse matrix gives the places of the ``values``. Without these A does not change, and may be all that
        :func:`tacit.solve` takes. A dense tensor of shape (n, n) is differentiated itself.
    b : tensor of shape (n,) or (n, k)
        In host memory.
    values : tensor of shape (nnz,), optional
        The entries, in the order of ``A.tocsr().data``.
    **options
        Of :func:`tacit.solve`, such as ``method``, ``precond`` (of an operator the transpose is used for the gradient)
        and ``rtol``; by default ``raise_on_failure``: :class:`tacit.NotConverged` where a solve has not converged.

    Returns
    -------
    torch.Tensor
        x, of the shape of b.

    Raises
    ------
    ValueError, TypeError
        Shapes and arguments that do not fit; tensors that are not in host memory.

    Notes
    -----
    With the gradient g in x, lambda = A^-H g is that in b, and -lambda_i conj(x_j) that in the entry (i, j): one solve
    with A^T. It can be differentiated again. Gradients are as accurate as the two solves: choose ``rtol``.

    Examples
    --------
    >>> import scipy.sparse as sp, torch, tacit.torch
    >>> A = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5)).tocsr()
    >>> values = torch.tensor(A.data, requires_grad=True)
    >>> tacit.torch.solve(A, torch.ones(5, dtype=torch.float64), values).sum().backward()
    >>> values.grad.shape
    torch.Size([13])
    """
    task, b, values = Entries.of(A, b, values, options, torch.Tensor, torch.as_tensor)
    for what, given in (("b", b), ("values", values)):
        if given is not None and given.device.type != "cpu":
            raise ValueError(f"{what} is on {given.device}; {what}.cpu() is in host memory, where gradients are found")
    of_A = getattr(torch, str(task.dtype)) if values is None else values.dtype
    dtype = torch.promote_types(torch.promote_types(b.dtype, of_A), torch.float32)
    return _Solved.apply(task, False, None if values is None else values.to(dtype), b.to(dtype))


class _Solved(torch.autograd.Function):  # type: ignore[misc]
    """A^-1 b, or A^-T b where transposed."""

    @staticmethod
    def forward(ctx: Any, task: Entries, transposed: bool, values: Any, b: Any) -> Any:
        entries = None if values is None else values.detach().resolve_conj().numpy()
        x = torch.from_numpy(task.solve(transposed, entries, b.detach().resolve_conj().numpy()))
        ctx.task, ctx.transposed = task, transposed
        ctx.save_for_backward(*([x] if values is None else [values, x]))
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        *given, x = ctx.saved_tensors
        values = given[0] if given else None
        y = _Solved.apply(ctx.task, not ctx.transposed, values, g.conj()).conj()  # A^-H g = conj(A^-T conj(g))
        if values is None:
            return None, None, None, y
        rows, columns = torch.as_tensor(ctx.task.rows), torch.as_tensor(ctx.task.columns, dtype=torch.int64)
        # Of A^T the entry (j, i) is that of A at (i, j).
        into, of = (columns, rows) if ctx.transposed else (rows, columns)
        products = y[into] * x[of].conj()
        return None, None, -(products.sum(dim=1) if products.ndim == 2 else products), y
