"""Solves in programs of PyTorch: ``tacit.torch.solve(A, b, values)`` is differentiated by ``backward()``.

PyTorch is no requirement of Tacit: ``pip install torch``.
"""

from __future__ import annotations

from typing import Any

import torch

from ._gradients import Entries

__all__ = ["solve"]


@torch.compiler.disable  # type: ignore[untyped-decorator]  # its graphs end here, and go on with x
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
    ``torch.func.vmap`` over b solves with its columns together, over values one after another. ``torch.compile`` ends a
    graph here. ``torch.func.jvp`` is not there.

    Examples
    --------
    >>> import scipy.sparse as sp, torch, tacit.torch
    >>> A = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5)).tocsr()
    >>> values = torch.tensor(A.data, requires_grad=True)
    >>> tacit.torch.solve(A, torch.ones(5, dtype=torch.float64), values).sum().backward()
    >>> values.grad.shape
    torch.Size([13])
    """
    if isinstance(A, torch.Tensor) and A.layout != torch.strided:
        raise TypeError(
            f"A is a tensor of layout {A.layout}; a csr_array of SciPy gives the places of its entries, and `values`,"
            " such as A.values() of a tensor in CSR form, the entries"
        )
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
    def forward(task: Entries, transposed: bool, values: Any, b: Any) -> Any:
        entries = None if values is None else values.detach().resolve_conj().numpy()
        return torch.from_numpy(task.solve(transposed, entries, b.detach().resolve_conj().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.task, ctx.transposed, values, _ = inputs
        ctx.save_for_backward(*([output] if values is None else [values, output]))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], task: Entries, transposed: bool, values: Any, b: Any) -> Any:
        """Several b are columns of one solve; of several A there is a solve for each."""
        *_, of_values, of_b = in_dims
        if of_values is None:
            b = b.movedim(of_b, -1)
            x = _Solved.apply(task, transposed, values, b.reshape(b.shape[0], -1))
            return x.reshape(b.shape), b.ndim - 1
        every = values.unbind(of_values)
        right = [b] * info.batch_size if of_b is None else b.unbind(of_b)
        solved = [_Solved.apply(task, transposed, v, one) for v, one in zip(every, right, strict=True)]
        return torch.stack(solved), 0

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
