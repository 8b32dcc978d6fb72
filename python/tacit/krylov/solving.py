"""``tacit.solve``: the arguments, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Unpack

import numpy.typing as npt

from .._described import SolveOptions
from .._options import Method
from .callbacks import CallbackState
from .checkpoints import Checkpoint
from .driver import run
from .request import Given
from .results import Result


class SolveArguments(SolveOptions, total=False):
    """Options of :func:`solve`, the null space of A, and what the goal is relative to."""

    nullspace: Any
    left_nullspace: Any
    relative_to: Literal["b", "first"]


def solve(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    method: str | Method = "auto",
    precond: Any = None,
    comm: Any = None,
    callback: Callable[[CallbackState], Any] | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    partition: str = "rows",
    ordering: str = "none",
    path: str | None = None,
    threads: int | None = None,
    device: str = "host",
    scalar: npt.DTypeLike | None = None,
    trace: bool = False,
    raise_on_failure: bool = False,
    verbose: bool = False,
    **options: Unpack[SolveArguments],
) -> Result:
    """Solves A x = b.

    Parameters
    ----------
    A : operator, sparse matrix, array, LinearOperator, petsc4py Mat or callable with shape
        Square, n x n. On several ranks: an operator of Tacit or a Mat (distributed), or the same matrix on every rank.
    b : array_like
        Shape (n,), or (n, k) for k right-hand sides: whole, or this rank's own rows on all ranks. NumPy or DLPack, in
        host memory; not copied where type and layout fit. For a solve on a GPU also in its memory, shape (n,), of the
        scalar of A, on several ranks this rank's own rows: a :class:`tacit.DeviceArray`, or an array of CuPy, PyTorch,
        JAX or Numba, which is copied once within that memory. x is then there too.
    x0 : array_like, optional
        Initial guess, of the shape of b, whole or this rank's own rows. Default: zero.
    method : str or object of :mod:`tacit.methods`
        "auto" (with a preconditioner that is named: cg for a Hermitian matrix whose diagonal has one sign, changing to
        gmres should it break down; gmres for the rest. Without one: see there), "cg", "minres", "bicgstab", "gmres",
        "fgmres", "idr", "richardson", "chebyshev"; with complete factors of a stored matrix: "direct"; with one
        reduction for several iterations: "ca-cg", "ca-bicgstab", "ca-gmres"; with reductions hidden behind products:
        "pipelined-cg", "pipelined-bicgstab", "pipelined-gmres"; with both: "pipelined-ca-gmres"; with one search space
        for many right-hand sides: "block-cg", "block-gmres". An object carries its options:
        ``tacit.methods.CaGmres(step=10)``.
    precond : str, dict, object of :mod:`tacit.precond` or operator, optional
        An approximate inverse: a name, ``dict(name="polynomial", degree=4)``, ``tacit.precond.Polynomial(degree=4)``,
        or anything that A may be. "auto": candidates from cheap factors to nearly complete ones are tried, with this
        method or with ``method="auto"`` several, at last complete factors where these fit the memory, and the one that
        solves is kept for the next solve with the same operator (``result.choice`` says what was tried, and
        :func:`explain_plan` beforehand what would be). Default: "auto" for a stored matrix with ``method="auto"`` and
        ``fallbacks``, else "none" (of "direct" its factors).
    comm : communicator, optional
        Of :mod:`tacit.comm` or mpi4py. Default: that of A, all ranks under mpiexec, or one rank.
    callback : callable, optional
        ``callback(state)`` after each iteration, on every rank; see :class:`CallbackState`. Returning True or raising
        StopIteration on any rank ends the solve on all ("stopped"). To agree on this costs one reduction an iteration;
        an :class:`Observer` needs none.
    checkpoint : path or Checkpoint, optional
        A file that keeps the iterate every 100 iterations (``Checkpoint(path, every=)``) and at the end, and from which
        the solve starts where it exists, instead of x0: after a job that was ended, on any number of ranks.
    path : str, optional
        The mechanism of halo exchanges during this solve: "auto" (the fastest, measured), "messages", "persistent",
        "neighbour", "put", "shared", "gather", "gaspi". The result is the same. Default: ``comm.path``.
    partition : str
        "rows": the blocks of rows as given; "graph": rows renumbered so that few entries couple different ranks
        (METIS).
    ordering : str
        "none", or "rcm": reverse Cuthill-McKee within each rank, for memory locality and incomplete factors.
    threads : int, optional
        Threads of this rank. Default: OMP_NUM_THREADS, or this node's cores shared among its ranks.
    device : str
        "host"; "cuda", the GPU of this rank (ranks of a node take its GPUs in turn); "cuda:1", that GPU. A matrix in
        host memory is copied there for this solve; one that is there (``tacit.csr(S, device="cuda")``,
        ``A.to("cuda")``) stays and needs no ``device``, and so does a preconditioner that was made for it. An H-matrix
        also takes "cuda:0,1", these GPUs together (:class:`tacit.DeviceHMatrix`); there "auto" is bicgstab.
    scalar : dtype, optional
        float32, float64, complex64 or complex128. Default: the smallest that holds A, b and x0; integers count as
        float64.
    trace : bool
        Record the begin and end of kernels and messages on all ranks, as ``result.trace``.
    raise_on_failure : bool
        Raise :class:`NotConverged` instead of returning a result that has not converged.
    verbose : bool
        Print on rank 0 how the solve ended, and what was tried; on a terminal and in notebooks show its progress with
        the time that is left. The logger "tacit" has the same at INFO, and each iteration at DEBUG, without it.
    **options
        ``rtol`` (1e-8; float32 and complex64: 1e-4), ``atol`` (0), ``max_iterations``, ``restart``, ``side``, ``step``,
        ``basis``, ``engine``, ``norm``, ``fallbacks`` and more: docs/reference/methods.md has all of them, and the
        classes of :mod:`tacit.methods` those of each method. An option that the method does not take is refused.

        ``explain``: whether products of their own look for the cause of a failure, which ``detail`` and ``advice`` then
        name. Not given: at most as much work as the solve did, or 10 ms for all columns together; none where
        ``max_iterations`` ended the solve after fewer than 100 iterations (or n). Work is counted, not timed, so that
        runs repeat; only where a solve took more than 30 times its counted work is a product timed. True: as far as it
        takes. False: none.

        ``nullspace``: what a singular A maps to zero, "constant" or vectors of shape (n,) or (n, k), whole or this
        rank's own part; made orthonormal, and refused where A v is not zero. x is orthogonal to it. b is projected onto
        the range of A where that is known: for Hermitian A, where A^H v is zero too, or with ``left_nullspace``, the
        null space of A^H. ``result.projected_norm`` is what was taken out of b.

        ``relative_to``: "b" (default), or "first": converged means ||b - A x|| <= max(rtol ||b - A x0||, atol), so
        that a good x0 is improved by as many digits as a bad one; ``result.atol`` is then that goal, and its ``rtol``
        0. Where x0 is nearly exact no arithmetic reaches it, and the solve ends as "stagnated".

    Returns
    -------
    Result
        Unpacks as ``x, info``. Numerical failures are reported as its ``reason``, never as an exception. For k >= 2
        right-hand sides a :class:`ColumnsResult`, with x of shape (n, k) and the outcome of each column.

    Raises
    ------
    ValueError, TypeError
        Shapes, types, names and numbers that do not fit, or that differ between ranks, before any work; the same on
        every rank.
    KeyboardInterrupt
        On every rank, when one of them was interrupted.
    Exception
        What a callback or a user's operator raises: on one rank unchanged, on several on all ranks, with the rank in
        its text.

    Notes
    -----
    Collective: all ranks pass the same options, and x0 and a callback on all ranks or none. This is checked: numbers
    may differ by 1e-12 of their size, and rank 0's are used; ``threads`` may differ. The scalar holds the b and x0 of
    all ranks. A matrix, b, x0 and null vectors that are whole on every rank are compared by checksums (each rank reads
    its arrays once); they may differ by rounding.

    Memory: the distributed matrix, the vectors of the method (cg 4, bicgstab 7, gmres restart + 3), and b; with
    k right-hand sides this for each of up to 8 columns (block-cg: 64, block-gmres: 16) that are solved together, and 2
    vectors for each of these.

    A solve whose stored numbers of A or b change in memory ends as "damaged" and never as "converged": operators keep a
    checksum of them, and b - A x counts only where it still holds (docs/theory/methods.md has what is checked).

    Several right-hand sides: every column is a solve of its own, with its own residual, reason and fallbacks, by any
    method, and the columns advance together: one product of A, and one reduction, serves all that are at the same
    point. ``result.together`` says how many advanced together, and ``result.alone`` why, where they were solved one
    after another (engine "tasks", powers "kernel", richardson on a stencil, on a GPU). The preconditioner is made
    once. A callback reads the column from ``state.column``, and stops that column only. In "block-cg" and "block-gmres"
    the columns share one search space, so that all of them need fewer iterations.

    Threads: on one rank several threads may solve, at the same time where they have no operator in common; otherwise
    one waits for the other. On several ranks one thread at a time uses a communicator, and the call of another one
    raises ValueError on all ranks (``tacit.comm``).

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, tacit
    >>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(100, 100))
    >>> x, info = tacit.solve(A, np.ones(100))
    >>> info, bool(np.linalg.norm(1 - A @ x) <= 1e-8 * 10)
    (0, True)
    >>> result = tacit.solve(A, np.ones(100), method="gmres", precond="ilu0")
    >>> result.reason, result.method
    ('converged', 'gmres')
    >>> many = tacit.solve(A, np.eye(100)[:, :3])
    >>> many.x.shape, many.converged, [c.reason for c in many.columns]
    ((100, 3), True, ['converged', 'converged', 'converged'])
    """
    further = partition, ordering, path, threads, device, scalar, trace, raise_on_failure, verbose
    return run(Given(A, b, x0, comm, callback, checkpoint, method, precond, *further, options))


_FURTHER = tuple((solve.__kwdefaults__ or {})[name] for name in Given._fields[Given._fields.index("precond") + 1 : -1])


def solve_by(
    method: str, A: Any, b: Any, x0: Any, precond: Any, callback: Callable[[CallbackState], Any] | None, options: Any
) -> Result:
    """:func:`solve` with its defaults for all other arguments."""
    return run(Given._make((A, b, x0, None, callback, None, method, precond, *_FURTHER, options)))
