"""``tacit.solve``: options as all ranks agree on them, the matrix, the solve."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core, layout, op
from .. import comm as _comm
from .. import precond as _precond
from .._support import (
    Array,
    agreed,
    as_array,
    as_vector,
    choose,
    chosen_scalar,
    common_scalar,
    core,
    default_threads,
    like,
    real_number,
    refuse_differences,
    refuse_unknown,
    scalar_name,
    thread_count,
    to_scalar,
    using_threads,
    whole_number,
)
from .results import CallbackState, NotConverged, Observer, Result, TraceEvent, _OfIterate, methods


def _stops(callback: Callable[[Any], Any], form: Callable[[Array], Array]) -> Callable[[_core.CallbackState], bool]:
    def call(state: _core.CallbackState) -> bool:
        try:
            answer = callback(CallbackState(state, form))
        except StopIteration:
            return True
        return isinstance(answer, (bool, np.bool_)) and bool(answer)

    return call


class _Prepared(NamedTuple):
    b: Array
    x0: Array | None
    scalar: str
    options: _core.Options
    precond: Any
    told: dict[str, float | str]  # what all ranks must have given alike, as they are told of it


def _told(value: Any) -> float | str:
    """A number as it is, the rest as text."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return int(value) if isinstance(value, (int, np.integer)) else float(value)
    return repr(value)


def _told_precond(precond: Any) -> dict[str, float | str]:
    given = {"name": precond} if isinstance(precond, str) else {"name": "none"} if precond is None else precond
    if isinstance(given, dict):
        name = given.get("name")
        told = {f"precond's {key}": _told(value) for key, value in given.items() if key != "name"}
        return {"precond": repr(name.replace("_", "-") if isinstance(name, str) else name), **told}
    if isinstance(given, op.Operator):
        return {"precond": "an operator of Tacit"}
    return {"precond": "a matrix" if op._is_matrix(given) or op.is_petsc(given) else "a function"}


def _alike(on: _core.Communicator, ready: _Prepared) -> _Prepared:
    """What all ranks use: the smallest scalar that holds what each asks for, and rank 0's numbers. Collective, one
    message round; ValueError on every rank when options differ by more than the rounding of a number.
    """
    if on.size == 1:
        return ready
    # A rank without elements has no say in the scalar: np.array([]) is float64 whatever the others have.
    given = len(ready.b) + (0 if ready.x0 is None else len(ready.x0)) > 0
    parts = on.all_gather(json.dumps([ready.scalar, given, ready.told]).encode())
    scalars, says, told = zip(*(json.loads(part) for part in parts), strict=True)
    refuse_differences(told)
    first = told[0]
    for name in ("rtol", "atol", "relaxation", "tau", "lambda_min", "lambda_max"):
        if not isinstance(first[name], str):
            setattr(ready.options, name, first[name])
    precond = ready.precond
    if isinstance(precond, dict):
        precond = {
            k: first[f"precond's {k}"] if isinstance(v, float) and k != "name" else v for k, v in precond.items()
        }
    asked = [scalar for scalar, say in zip(scalars, says, strict=True) if say]
    return ready._replace(scalar=common_scalar(*(asked or scalars)), precond=precond)


def solve(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    method: str = "auto",
    precond: Any = None,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_iterations: int | None = None,
    restart: int | None = None,
    side: str = "right",
    orthogonalisation: str = "auto",
    step: int | None = None,
    depth: int | None = None,
    block: int | None = None,
    tau: float | None = None,
    basis: str | None = None,
    block_qr: str | None = None,
    storage: str | None = None,
    powers: str | None = None,
    replacement: int | None = None,
    engine: str = "polling",
    norm: str = "2",
    sweeps: int | None = None,
    schedule: str = "auto",
    remote_threads: int = 1,
    job_rows: int = 0,
    path: str | None = None,
    relaxation: float = 1.0,
    lambda_min: float | None = None,
    lambda_max: float | None = None,
    comm: Any = None,
    callback: Callable[[CallbackState], Any] | None = None,
    partition: str = "rows",
    ordering: str = "none",
    threads: int | None = None,
    device: str = "host",
    scalar: npt.DTypeLike | None = None,
    history: bool = True,
    fallbacks: bool = True,
    trace: bool = False,
    raise_on_failure: bool = False,
    **unknown: Any,
) -> Result:
    """Solves A x = b.

    Parameters
    ----------
    A : operator, sparse matrix, array, LinearOperator, petsc4py Mat or callable with shape
        Square, n x n. On several ranks: an operator of Tacit or a Mat (distributed), or the same matrix on every rank.
    b : array_like
        Shape (n,) or (n, 1), whole; or this rank's own part. NumPy or DLPack; not copied where type and layout fit.
    x0 : array_like, optional
        First guess, in the form of b. Default: zero.
    method : str
        "auto" (cg for a Hermitian matrix whose diagonal has one sign, changing to gmres should it break down; gmres for
        the rest), "cg", "bicgstab", "gmres", "richardson", "chebyshev"; with one sum for many iterations: "ca-cg",
        "ca-bicgstab", "ca-gmres"; with sums hidden behind products: "pipelined-cg", "pipelined-bicgstab",
        "pipelined-gmres"; with both: "pipelined-ca-gmres". cg and its kin solve -A x = -b where A is negative definite.
    precond : str, dict or operator, optional
        An approximate inverse: a name of :mod:`tacit.precond`, ``dict(name="polynomial", degree=4)``, or anything
        that A may be.
    rtol, atol : float
        Converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed.
    max_iterations : int, optional
        Of products with A (bicgstab: pairs of them), whatever the method. Default: 10 n, at least 1000, at most 50000.
    restart : int, optional
        gmres and its relatives: vectors in a cycle, and no more than that. Default: 30; where such cycles are too slow
        60, then 120 (with ``fallbacks``), which the result's warnings tell.
    side : str
        gmres and its relatives: "right" or "left"; gmres: "flexible" (for a preconditioner that changes from call to
        call; taken by itself for "inner").
    orthogonalisation : str
        gmres: "one-reduction", "cgs", "cgs2" or "mgs". ca-gmres: "bcgs", "bcgs2", "bcgs-pip", "bcgs-pip2" or
        "two-stage".
    step : int, optional
        ca- methods: s, the iterations for one sum. Default: ca-gmres 10, ca-cg 8, ca-bicgstab 4.
    depth : int, optional
        pipelined- methods: l, the sums in flight. Default: pipelined-gmres and pipelined-ca-gmres 2, pipelined-cg 1.
    block : int, optional
        pipelined-ca-gmres: t, the vectors for one sum. Default: 5.
    tau : float, optional
        pipelined-gmres and pipelined-ca-gmres: entries of the change of basis below tau times the subdiagonal one are
        left out. Default: 0; the paper's choice corresponds to 8e-3.
    basis : str, optional
        ca- and pipelined- methods: "newton", "chebyshev" or "monomial". Default: newton once Ritz values are known
        (GMRES variants), chebyshev (ca-cg, ca-bicgstab), the roots of a Chebyshev polynomial (pipelined-cg).
    block_qr : str, optional
        ca-gmres with bcgs or bcgs2: "cholqr", "cholqr2", "shifted-cholqr3", "mixed-cholqr" or "tsqr".
    storage : str, optional
        ca-gmres: the basis is kept in "full" (the scalar's), "float32" or "bfloat16" precision.
    powers : str, optional
        ca- methods: how their vectors are made. "products": one after the other, an exchange each; "kernel": a matrix
        powers kernel, one exchange for all of a block (sparse matrices on the host, with a diagonal preconditioner or
        none; a warning tells where there is none). Default: "products".
    replacement : int, optional
        pipelined- and ca- variants of cg and bicgstab: residual replacement every so many iterations, 0 never. Default:
        when an estimate of its error asks for it.
    engine : str
        What pushes messages on during computation: "polling" (the compute loops), "thread" (a thread of its own) or
        "tasks" (kernels as tasks that wait for each other's blocks). The numbers are the same.
    norm : str
        Of the residual that decides, and of all norms in the result: "2", or "max" (the largest magnitude). For every
        method.
    sweeps : int, optional
        richardson with a diagonal preconditioner of equal entries (or none): steps in one pass through memory, where
        the operator has a kernel for it (:class:`tacit.Stencil`). The same iterates. Default: what the operator does;
        1 with a callback.
    schedule : str
        How products with A are dealt to the threads of a rank: "auto" (the fastest, timed), "overlapped",
        "synchronous", "split" (`remote_threads` of them wait for the halo) or "jobs" (of `job_rows` rows; 0: a fair
        number). The numbers are the same.
    path : str, optional
        How halo exchanges travel during this solve: "auto" (the fastest, measured), "messages", "persistent",
        "neighbour", "put", "shared", "gather", "gaspi". The numbers are the same. Default: as ``comm.path`` says.
    relaxation : float
        richardson: omega.
    lambda_min, lambda_max : float, optional
        chebyshev: bounds of the (preconditioned) spectrum; estimated where absent.
    comm : communicator, optional
        Of :mod:`tacit.comm` or mpi4py. Default: that of A, all ranks under mpiexec, or one rank.
    callback : callable, optional
        ``callback(state)`` after each iteration, on every rank; see :class:`CallbackState`. Returning True or raising
        StopIteration on any rank ends the solve on all ("stopped"). One reduction an iteration, to agree
        on that; :class:`Observer` needs none.
    partition : str
        "rows": blocks of rows as they come; "graph": rows renumbered so that ranks share few entries (METIS).
    ordering : str
        "none", or "rcm": reverse Cuthill-McKee within each rank, for memory locality and incomplete factors.
    threads : int, optional
        Threads of this rank. Default: OMP_NUM_THREADS, or this node's cores shared among its ranks.
    device : str
        "host", or "cuda" for the current GPU.
    scalar : dtype, optional
        float32, float64, complex64 or complex128. Default: what A, b and x0 ask for; integers count as float64.
    history : bool
        Keep the residual of every iteration.
    fallbacks : bool
        Where the method gets no further, scale by the diagonal, take another shadow residual (bicgstab) or longer
        cycles (gmres without ``restart``), and tell so in the result's warnings. False: the method as it stands.
    trace : bool
        Keep what ran when, on all ranks.
    raise_on_failure : bool
        Raise :class:`NotConverged` instead of returning a result that has not converged.

    Returns
    -------
    Result
        Unpacks as ``x, info``. Numerical trouble is a reason in it, never an exception.

    Raises
    ------
    ValueError, TypeError
        Shapes, types, names and numbers that do not fit, or that differ between ranks, before any work; the same on
        every rank.
    KeyboardInterrupt
        On every rank, when the user asked one of them to stop.
    Exception
        What a callback or a user's operator raises: on one rank unchanged, on several on all ranks, with the rank in
        its text.

    Notes
    -----
    Collective: all ranks pass the same options, and x0 and a callback on all ranks or none; checked (numbers may differ
    by 1e-12 of their size, rank 0's count; ``threads`` is each rank's own). The scalar that is used holds what b and x0
    have on any rank.

    Memory: the distributed matrix, the vectors of the method (cg 4, bicgstab 7, gmres restart + 3), and 2.

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
    """
    begin = _core.wall_time()
    on = A.comm if comm is None and isinstance(A, op.Operator) else _comm.resolve(comm)
    if op.is_petsc(A):
        A = op.as_operator(A, on)

    def prepare() -> _Prepared:
        refuse_unknown("solve", unknown, _OPTIONS)
        right, guess = as_vector(b, "b"), None if x0 is None else as_vector(x0, "x0")
        wanted = chosen_scalar(scalar)
        if wanted is None:
            parts = [op.scalar_of(A, "A") or "float64" if hasattr(A, "dtype") else None, scalar_name(right.dtype, "b")]
            if isinstance(A, (list, tuple)):
                parts.append(scalar_name(as_array(A, "A").dtype, "A"))
            if guess is not None:
                parts.append(scalar_name(guess.dtype, "x0"))
            wanted = common_scalar(*(p for p in parts if p is not None))
            if isinstance(A, op.Operator) and not isinstance(A, (op.Csr, op.Stencil)):
                wanted = A.dtype.name if A.dtype.kind == "c" or not wanted.startswith("complex") else wanted
        o = _core.Options()
        o.method = choose("method", method, methods())
        o.side = choose("side", side, _core.side_names())
        o.orthogonalisation = choose("orthogonalisation", orthogonalisation, _core.orthogonalisation_names())
        o.engine = choose("engine", engine, _core.engine_names())
        o.norm = choose("norm", norm, _core.norm_names())
        if basis is not None:
            o.basis = choose("basis", basis, _core.basis_names())
        if block_qr is not None:
            o.block_qr = choose("block_qr", block_qr, _core.block_qr_names())
        if storage is not None:
            o.storage = choose("storage", storage, _core.storage_names())
        if powers is not None:
            o.powers = choose("powers", powers, _core.powers_names())
        o.schedule = choose("schedule", schedule, _core.schedule_names())
        o.remote_threads = whole_number(remote_threads, "remote_threads")
        o.job_rows = whole_number(job_rows, "job_rows")
        o.sweeps = None if sweeps is None else whole_number(sweeps, "sweeps")
        if path is not None:
            choose("path", path, _core.path_names())
        o.step = None if step is None else whole_number(step, "step")
        o.depth = None if depth is None else whole_number(depth, "depth")
        o.block = None if block is None else whole_number(block, "block")
        o.replacement = None if replacement is None else whole_number(replacement, "replacement")
        o.tau = None if tau is None else real_number(tau, "tau")
        o.rtol, o.atol = real_number(rtol, "rtol"), real_number(atol, "atol")
        o.max_iterations = None if max_iterations is None else whole_number(max_iterations, "max_iterations")
        o.restart = None if restart is None else whole_number(restart, "restart")
        o.relaxation = real_number(relaxation, "relaxation")
        o.lambda_min = None if lambda_min is None else real_number(lambda_min, "lambda_min")
        o.lambda_max = None if lambda_max is None else real_number(lambda_max, "lambda_max")
        o.history = bool(history)
        o.fallbacks = bool(fallbacks)
        for name, low in (("rtol", 0.0), ("atol", 0.0)):
            value = getattr(o, name)
            if not (value >= low and math.isfinite(value)):
                raise ValueError(f"{name} is {value}; a number >= 0 is needed")
        choose("partition", partition, ("rows", "graph"))
        choose("ordering", ordering, ("none", "rcm"))
        choose("device", device, ("host", "cuda"))
        thread_count(threads)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r}; a function of one argument is needed")
        if device == "cuda" and not (_core.cuda_built and _core.device_available()):
            why = "no GPU answers" if _core.cuda_built else "this Tacit was built without CUDA"
            raise _core.EnvironmentFailure(f"device='cuda': {why}")
        told = {name: _told(getattr(o, name)) for name in _TOLD}
        told |= {"partition": repr(partition), "ordering": repr(ordering), "device": repr(device)}
        told |= {"path": repr(path)}
        told |= {"scalar": repr(chosen_scalar(scalar)), "trace": repr(bool(trace))}
        told |= {"raise_on_failure": repr(bool(raise_on_failure)), "x0": "None" if x0 is None else "given"}
        o.callback_stops = not isinstance(callback, Observer)
        told["callback"] = "None" if callback is None else "given" if o.callback_stops else "an Observer"
        told["A"] = f"of {A.dtype.name}" if isinstance(A, op.Operator) else "given"
        if isinstance(callback, _OfIterate):
            told["callback"] = callback.told
        return _Prepared(right, guess, wanted, o, precond, told | _told_precond(precond))

    ready = _alike(on, agreed(on, prepare))
    used_threads = default_threads(on) if threads is None else int(threads)
    path_before = on.path
    if path is not None:
        on.path = path
    with using_threads(used_threads):
        if trace:
            on.barrier()
            _core.trace_start()
        origin = _core.wall_time()
        try:
            result = _solve(
                A,
                b,
                ready,
                on,
                callback,
                begin,
                origin,
                partition,
                ordering,
                used_threads,
                device,
                bool(trace),
            )
        finally:
            on.path = path_before
            if trace:
                _core.trace_stop()
    if raise_on_failure and not result.converged:
        text = ": ".join(part for part in (result.reason, result.detail) if part)
        text += f" (residual {result.residual_norm:.2e} after {result.iterations} iterations). {result.advice}"
        raise NotConverged(text.strip(), result)
    return result


# Of the core's options: what the user sets.
_TOLD = ["method", "side", "orthogonalisation", "rtol", "atol", "max_iterations", "restart", "relaxation"]
_TOLD += ["sweeps", "schedule", "remote_threads", "job_rows"]
_TOLD += ["step", "depth", "block", "tau", "basis", "block_qr", "storage", "powers", "replacement", "engine", "norm"]
_TOLD += ["lambda_min", "lambda_max", "history", "fallbacks"]
_OPTIONS = [name for name in inspect.signature(solve).parameters if name != "unknown"]


def _solve(
    A: Any,
    b: Any,
    ready: _Prepared,
    on: _core.Communicator,
    callback: Any,
    begin: float,
    origin: float,
    partition: str,
    ordering: str,
    threads: int,
    device: str,
    trace: bool,
) -> Result:
    matrix = op.as_operator(A, on, ready.scalar)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A has shape {matrix.shape}; a square matrix is needed")
    scalar = matrix.dtype.name
    offsets = matrix._handle.range_offsets
    whole = layout.is_whole(on, len(ready.b), offsets, "b")
    whole_guess = whole if ready.x0 is None else layout.is_whole(on, len(ready.x0), offsets, "x0")

    def cut() -> tuple[Array, Array | None]:
        right = to_scalar(layout.own_part(ready.b, on, offsets, whole), scalar, "b")
        guess = (
            None if ready.x0 is None else to_scalar(layout.own_part(ready.x0, on, offsets, whole_guess), scalar, "x0")
        )
        return right, guess

    right, guess = agreed(on, cut)
    solved, numbers = matrix, None
    if partition != "rows" or ordering != "none":
        # Numbers that are not finite are told with the user's indices: nothing is renumbered for them.
        finite = np.isfinite(right).all() and (guess is None or np.isfinite(guess).all()) and not matrix._handle.fault
        if on.all_min(int(finite)):
            solved, numbers = op.renumbered(matrix, partition == "graph", ordering == "rcm")
    on_device = device == "cuda"
    if on_device:
        solved = op.stored(solved, "device='cuda'")
        name, options, symmetric = agreed(on, lambda: _precond.named(ready.precond))
    else:
        M, symmetric = _precond.build(solved, ready.precond, None if numbers is None else (matrix, numbers))
    if not on_device and isinstance(M, _precond.Reporting) and M.name.startswith("inner"):
        # No linear map: only these two methods are exact with it.
        if ready.options.method == "auto":
            ready.options.method = "gmres"
        if ready.options.method == "gmres" and ready.options.side == "right":
            ready.options.side = "flexible"
    hermitian = ready.options.method == "auto" and symmetric and matrix.is_hermitian()
    column = len(np.shape(b)) == 2

    def form(own: Array) -> Array:
        if numbers is not None:
            own = getattr(numbers, f"backward_{scalar}")(on, own)
        x = layout.gather(own, on) if whole else own
        return x.reshape(-1, 1) if column else x

    if numbers is not None:
        forward = getattr(numbers, f"forward_{scalar}")
        right, guess = forward(on, right), None if guess is None else forward(on, guess)
    call = None if callback is None else _stops(callback, form)
    setup = on.all_max_real(_core.wall_time() - begin)
    if on_device:
        own, report, moved = core("solve_cuda", scalar)(
            solved._handle, name, options, right, guess, ready.options, call, hermitian
        )
        setup += moved
    else:
        handle = None if M is None else M._handle
        own, report = core("solve", scalar)(solved._handle, handle, right, guess, ready.options, call, hermitian)
    return Result(
        like(form(own), b),
        report,
        seconds={"setup": setup, "solve": report.seconds},
        unknowns=matrix.shape[0],
        nonzeros=matrix.nnz,
        ranks=on.size,
        rank=on.rank,
        threads=threads,
        scalar=scalar,
        device=device,
        rtol=ready.options.rtol,
        atol=ready.options.atol,
        trace=_gather_trace(on, origin) if trace else None,
    )


def _gather_trace(on: _core.Communicator, origin: float) -> list[TraceEvent]:
    """The events of all ranks, on every rank. Collective."""
    _core.trace_stop()
    on.barrier()
    mine = _core.take_events(_core.trace_rank(), origin)
    events: list[TraceEvent] = []
    for part in on.all_gather(json.dumps(mine).encode()):
        events += [TraceEvent(*e) for e in json.loads(part)]
    return sorted(events, key=lambda e: (e.rank, e.begin, -e.end))
