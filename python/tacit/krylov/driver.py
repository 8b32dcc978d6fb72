"""``tacit.solve``: checks options and compares them between ranks, makes the operator, solves."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core, layout, op
from .. import comm as _comm
from .. import device as _device
from .. import precond as _precond
from .._alike import alike_and_least, scalar_bits, scalar_of_bits
from .._described import GROUP_METHODS, PATHS, SOLVE, SOLVE_NAMES, SolveOptions
from .._options import Described, Method, fill, named, take_numbers, told, told_value
from .._support import (
    Array,
    agreed,
    as_array,
    as_columns,
    choose,
    chosen_scalar,
    common_scalar,
    core,
    default_threads,
    like,
    refuse_unknown,
    scalar_name,
    thread_count,
    to_scalar,
    using_threads,
    vectors_of,
)
from .results import CallbackState, ColumnsResult, NotConverged, Observer, Result, TraceEvent, _OfIterate


def _stops(callback: Callable[[Any], Any], form: Callable[[Array], Array]) -> Callable[[_core.CallbackState], bool]:
    def call(state: _core.CallbackState) -> bool:
        try:
            answer = callback(CallbackState(state, form))
        except StopIteration:
            return True
        return isinstance(answer, (bool, np.bool_)) and bool(answer)

    return call


class SolveArguments(SolveOptions, total=False):
    """Options of :func:`solve`, and the null space of A."""

    nullspace: Any
    left_nullspace: Any


class _Prepared(NamedTuple):
    b: Any  # an array, or what one in the memory of a GPU says of itself
    x0: Any
    scalar: str
    options: _core.Options
    precond: Any
    automatic: str  # "asked", "default": preconditioners are chosen where A is a stored matrix; "": they are not
    spaces: tuple[Array | None, Array | None]  # the null space and the left one; None: none, or the constants
    constant: tuple[bool, bool]
    alike: dict[str, float | str]  # several ranks: what must be the same on all of them, in the form that they compare


def _columns(b: Any) -> str:
    what = "a vector" if len(b.shape) == 1 else f"{b.shape[1]} columns"
    return what if isinstance(b, np.ndarray) else what + " on a GPU"


def _right_hand_side(value: Any, what: str, on_gpu: bool) -> Any:
    """b or x0: a vector or several columns in host memory, or one vector in the memory of a GPU. Local."""
    if not on_gpu:
        value = _device.read_by_numpy(value)
    if not _device.is_array(value):
        return as_columns(value, what)
    found = _device.view(value, what)
    if len(found.shape) == 2 and found.shape[1] != 1:
        raise ValueError(f"{what} has shape {found.shape} on a GPU; there one column is solved at a time, shape (n,)")
    return found._replace(shape=found.shape[:1])


def _told(what: str, given: Any) -> dict[str, float | str]:
    """An argument in the form that ranks compare: its name and options, and those of methods that an option names."""
    if isinstance(given, (dict, Described)):
        name, options = (given.name, given.given()) if isinstance(given, Method) else _precond.split(given)
        found: dict[str, float | str] = {what: repr(name)}
        for key, value in options.items():
            if name == "amg" and key in _precond.AMG_ARRAYS:  # may be a rank's own part
                found[f"{what}'s {key}"] = "None" if value is None else f"an array (n, {np.shape(value)[1:]})"
            else:
                found |= _told(f"{what}'s {key}", value)
        return found
    if isinstance(given, op.Operator):
        return {what: op.told_of(given)}
    if op._is_matrix(given) or op.is_petsc(given):
        return {what: "a matrix"}
    return {what: "a function" if callable(given) else told_value(given)}


def _with_numbers(what: str, given: Any, first: dict[str, Any]) -> Any:
    """The argument with its real numbers replaced by rank 0's."""
    if isinstance(given, (dict, Described)):
        options = given.given() if isinstance(given, Described) else given
        taken = {key: _with_numbers(f"{what}'s {key}", value, first) for key, value in options.items()}
        return taken if isinstance(given, dict) else dataclasses.replace(given, **taken)  # type: ignore[type-var]
    return first.get(what, given) if isinstance(given, float) else given


def _factors_for_direct(precond: Any, on_gpu: bool) -> Any:
    """The preconditioner of method "direct": its factors, by name or made before. Local."""
    if on_gpu:
        raise ValueError('method "direct" works in host memory; A is on a GPU')
    name = "direct"
    if precond is None or isinstance(precond, (str, dict, Described)):
        name = _precond.split("direct" if precond is None else precond)[0]
    elif isinstance(precond, op.Operator):
        name = precond.name
    if name != "direct":
        raise ValueError(
            f'precond is {name!r}; method "direct" solves with the factors that precond "direct" makes: leave precond'
            " out, or name a method that takes this preconditioner"
        )
    return {"name": "direct"} if precond is None else precond


def _alike(on: _core.Communicator, prepare: Callable[[], _Prepared]) -> _Prepared:
    """What prepare() makes of the arguments, the same on all ranks: with the smallest scalar that holds what each rank
    asks for, and rank 0's real numbers. ValueError on every rank when options differ by more than rounding. Collective;
    one small reduction.
    """

    def bits(ready: _Prepared) -> tuple[int, int]:
        # A rank without elements does not count for the scalar: np.array([]) is float64 whatever the others have.
        given = ready.b.shape[0] + (0 if ready.x0 is None else ready.x0.shape[0]) > 0
        return scalar_bits(ready.scalar, given)

    ready, first, least = alike_and_least(on, prepare, lambda ready: ready.alike, bits)
    if on.size == 1:
        return ready
    take_numbers(ready.options, SOLVE, first)
    return ready._replace(
        scalar=scalar_of_bits(least, ready.scalar), precond=_with_numbers("precond", ready.precond, first)
    )


def solve(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    method: str | Method = "auto",
    precond: Any = None,
    comm: Any = None,
    callback: Callable[[CallbackState], Any] | None = None,
    partition: str = "rows",
    ordering: str = "none",
    path: str | None = None,
    threads: int | None = None,
    device: str = "host",
    scalar: npt.DTypeLike | None = None,
    trace: bool = False,
    raise_on_failure: bool = False,
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
        for many right-hand sides: "block-cg". An object carries its options: ``tacit.methods.CaGmres(step=10)``.
    precond : str, dict, object of :mod:`tacit.precond` or operator, optional
        An approximate inverse: a name, ``dict(name="polynomial", degree=4)``, ``tacit.precond.Polynomial(degree=4)``,
        or anything that A may be. "auto": candidates from cheap factors to nearly complete ones are tried, with this
        method or with ``method="auto"`` several, at last complete factors where these fit the memory, and the one that
        solves is kept for the next solve with the same operator (``result.choice`` says what was tried). Default:
        "auto" for a stored matrix with ``method="auto"`` and ``fallbacks``, else "none" (of "direct" its factors).
    comm : communicator, optional
        Of :mod:`tacit.comm` or mpi4py. Default: that of A, all ranks under mpiexec, or one rank.
    callback : callable, optional
        ``callback(state)`` after each iteration, on every rank; see :class:`CallbackState`. Returning True or raising
        StopIteration on any rank ends the solve on all ("stopped"). To agree on this costs one reduction an iteration;
        an :class:`Observer` needs none.
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
        On every rank, when the user asked one of them to stop.
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
    k right-hand sides this for each of up to 8 columns (block-cg: 64) that are solved together, and 2 vectors for each
    of these.

    A solve whose stored numbers of A or b change in memory ends as "damaged" and never as "converged": operators keep a
    checksum of them, and b - A x counts only where it still holds (docs/theory/methods.md has what is checked).

    Several right-hand sides: every column is a solve of its own, with its own residual, reason and fallbacks, by any
    method, and the columns advance together: one product of A, and one reduction, serves all that are at the same
    point. ``result.together`` says how many advanced together, and ``result.alone`` why, where they were solved one
    after another (engine "tasks", powers "kernel", richardson on a stencil, on a GPU). The preconditioner is made
    once. A callback is told the column (``state.column``), and stops that column only. In "block-cg" the columns share
    one search space, so that all of them need fewer iterations.

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
    begin = _core.wall_time()
    on = A.comm if comm is None and isinstance(A, op.Operator) else _comm.resolve(comm)
    if op.is_petsc(A):
        A = op.as_operator(A, on)

    def prepare() -> _Prepared:
        hierarchical = isinstance(A, (op.HMatrix, op.DeviceHMatrix))
        kind = _device.kind_of(device, several=hierarchical)
        on_gpu = kind == "cuda" or (isinstance(A, op.Operator) and A.device != "host")
        right = _right_hand_side(b, "b", on_gpu)
        guess = None if x0 is None else _right_hand_side(x0, "x0", on_gpu)
        if guess is not None and isinstance(guess, np.ndarray) != isinstance(right, np.ndarray):
            there, here = ("x0", "b") if isinstance(right, np.ndarray) else ("b", "x0")
            raise ValueError(f"{there} is in the memory of a GPU and {here} in that of the host; give both in one")
        if guess is not None and guess.shape[1:] != right.shape[1:]:
            raise ValueError(f"b has shape {right.shape} and x0 {guess.shape}; each column of b needs one of x0")
        wanted = chosen_scalar(scalar)
        if wanted is None:
            parts = [op.scalar_of(A, "A") or "float64" if hasattr(A, "dtype") else None, scalar_name(right.dtype, "b")]
            if isinstance(A, (list, tuple)):
                parts.append(scalar_name(as_array(A, "A").dtype, "A"))
            if guess is not None:
                parts.append(scalar_name(guess.dtype, "x0"))
            wanted = common_scalar(*(p for p in parts if p is not None))
            if isinstance(A, op.Operator) and not isinstance(A, (op.Csr, op.DeviceCsr, op.Stencil)):
                wanted = A._scalar if A.dtype.kind == "c" or not wanted.startswith("complex") else wanted
        o = _core.Options()
        table = {key: value for key, value in options.items() if key not in _SPACES}
        spaces = [options.get(key) for key in _SPACES]
        if isinstance(A, op.Operator) and A.comm != on:
            raise ValueError("A lives on another communicator than the one given as comm=")
        if spaces[1] is not None and spaces[0] is None:
            raise ValueError("left_nullspace goes with nullspace, which was not given")
        vectors = [vectors_of(space, key) for space, key in zip(spaces, _SPACES, strict=True)]
        constant = [isinstance(space, str) for space in spaces]
        place = device if kind == "cuda" or not on_gpu else A.device
        if hierarchical and on_gpu and not isinstance(right, np.ndarray):
            raise ValueError("b is in the memory of a GPU; a solve with an H-matrix on GPUs takes NumPy arrays")
        if spaces[0] is not None and on_gpu:
            raise ValueError(f"nullspace works in host memory; the solve is on {place}")
        if not isinstance(right, np.ndarray) and not on_gpu:
            raise ValueError("b is in the memory of a GPU, and A in that of the host; A.to('cuda') moves it there")
        if on_gpu and isinstance(A, op.Operator) and A.device != "host":
            if kind == "cuda" and device not in ("cuda", A.device):
                raise ValueError(
                    f"device is {device!r} and A is in the memory of {A.device}; A.to({device!r}) moves it"
                )
            if partition != "rows" or ordering != "none":
                raise ValueError(f"partition and ordering renumber a matrix in host memory; A is in that of {A.device}")
        if not isinstance(right, np.ndarray) and (partition != "rows" or ordering != "none"):
            raise ValueError("partition and ordering renumber vectors in host memory; b is in that of a GPU")
        name, given = named("method", method, table)
        o.method = choose("method", name, SOLVE_NAMES)
        if hierarchical and on_gpu:
            o.method = method_on_gpus(o.method, precond, "A.to('host') is solved with in host memory")
        fill(o, "solve", SOLVE, given, _BESIDE)
        _core.check_solve(o)
        if path is not None:
            choose("path", path, PATHS)
        choose("partition", partition, ("rows", "graph"))
        choose("ordering", ordering, ("none", "rcm"))
        thread_count(threads)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback is {callback!r}; a function of one argument is needed")
        o.callback_stops = not isinstance(callback, Observer)
        by_name = precond is None or isinstance(precond, str)
        P = {"name": "none" if precond is None else precond} if by_name else precond
        if o.method == "direct":
            P = _factors_for_direct(precond, on_gpu)
        automatic = ""
        if precond is None and o.method == "auto" and o.fallbacks and not on_gpu:
            automatic = "default"
        elif isinstance(P, dict) and P.get("name") == "auto":
            refuse_unknown("precond 'auto'", {key: P[key] for key in P if key != "name"}, ())
            if on_gpu:
                raise ValueError('precond="auto" works in host memory; name one of ' + ", ".join(_precond.names()))
            automatic = "asked"
        alike = _told("precond", P)
        if on.size > 1:
            alike |= {"method": repr(o.method), "b": _columns(right), **told(o, SOLVE)}
            alike |= {"partition": repr(partition), "ordering": repr(ordering), "device": repr(kind)}
            alike |= {"path": on.path if path is None else path, "scalar": repr(chosen_scalar(scalar))}
            alike |= {"trace": repr(bool(trace)), "raise_on_failure": repr(bool(raise_on_failure))}
            alike["x0"] = "None" if x0 is None else "given"
            for key, space, given_vectors in zip(_SPACES, spaces, vectors, strict=True):
                alike[key] = str(space) if given_vectors is None else f"{given_vectors.shape[1]} vectors"
            alike["callback"] = "None" if callback is None else "given" if o.callback_stops else "an Observer"
            alike["A"] = op.told_of(A) if isinstance(A, op.Operator) else "a matrix or a function"
            if isinstance(callback, _OfIterate):
                alike["callback"] = callback.told
        pairs = (vectors[0], vectors[1]), (constant[0], constant[1])
        return _Prepared(right, guess, wanted, o, P, automatic, *pairs, alike)

    ready = _alike(on, prepare)
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
                A, b, x0, ready, on, callback, begin, origin, partition, ordering, used_threads, device, bool(trace)
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


# The arguments of solve() that are not options of the table.
_SPACES = ("nullspace", "left_nullspace")
_BESIDE = (*(name for name in inspect.signature(solve).parameters if name != "options"), *_SPACES)


def _is_whole(on: _core.Communicator, vector: Any, offsets: Any, what: str) -> bool:
    """Whether all ranks give the vector whole. Collective."""
    if isinstance(vector, np.ndarray):
        return layout.form(on, vector, offsets, what)
    return layout.is_whole(on, vector.shape[0], offsets, what)


def _own_vectors(vectors: Array, on: _core.Communicator, offsets: Any, is_whole: bool, scalar: str, what: str) -> Array:
    return to_scalar(layout.own_part(vectors, on, offsets, is_whole), scalar, what)


def _null_space(
    ready: _Prepared, on: _core.Communicator, solved: op.Operator, offsets: Any, numbers: Any, scalar: str
) -> Any:
    """The compiled null space of the operator that is solved with; None where none was given. Collective."""
    if ready.spaces[0] is None and not ready.constant[0]:
        return None
    own_rows = offsets[on.rank + 1] - offsets[on.rank]
    parts: list[tuple[Array, int]] = []
    for what, vectors, constant in zip(_SPACES, ready.spaces, ready.constant, strict=True):
        if constant:
            own = np.ones((own_rows, 1), scalar)
        elif vectors is None:
            own = np.ones((own_rows, 0), scalar)
        else:
            whole = layout.form(on, vectors, offsets, what)
            own = agreed(on, functools.partial(_own_vectors, vectors, on, offsets, whole, scalar, what))
        columns = [np.ascontiguousarray(own[:, c]) for c in range(own.shape[1])]
        if numbers is not None:
            columns = [getattr(numbers, f"forward_{scalar}")(on, column) for column in columns]
        flat = np.concatenate(columns) if columns else np.empty(0, scalar)
        parts.append((flat, len(columns)))
    return core("NullSpace", scalar)(solved._handle, *parts[0], *parts[1])


def _solve(
    A: Any,
    b: Any,
    x0: Any,
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
    node = agreed(on, lambda: _precond.node_of(ready.precond))
    spread = None if node == 1 else agreed(on, lambda: op.of_nodes(A, on, node))
    matrix = op.as_operator(A, on, ready.scalar, offsets=spread)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A has shape {matrix.shape}; a square matrix is needed")
    if ready.automatic:
        matrix = op.worth_storing(matrix)
    scalar = matrix._scalar
    offsets = matrix._handle.range_offsets
    whole = _is_whole(on, ready.b, offsets, "b")
    whole_guess = whole if ready.x0 is None else _is_whole(on, ready.x0, offsets, "x0")

    on_gpu = matrix.device != "host" or device != "host"
    given_on_gpu = not isinstance(ready.b, np.ndarray)
    if given_on_gpu and on.size > 1 and (whole or (whole_guess and ready.x0 is not None)):
        raise ValueError("b or x0 is whole on every rank; an array in the memory of a GPU is this rank's own part")

    def cut() -> tuple[Any, Any]:
        if given_on_gpu:
            return b, x0  # taken where the matrix will be
        right = to_scalar(layout.own_part(ready.b, on, offsets, whole), scalar, "b")
        guess = (
            None if ready.x0 is None else to_scalar(layout.own_part(ready.x0, on, offsets, whole_guess), scalar, "x0")
        )
        return right, guess

    right, guess = agreed(on, cut)
    solved, numbers = matrix, None
    if partition != "rows" or ordering != "none":
        # Numbers that are not finite are reported with the user's indices, so nothing is renumbered then.
        finite = np.isfinite(right).all() and (guess is None or np.isfinite(guess).all()) and not matrix._handle.fault
        if on.all_min(int(finite)):
            solved, numbers = op.renumbered(matrix, partition == "graph", ordering == "rcm")
    if ready.automatic == "asked":
        solved = op.stored(solved, 'precond="auto"')
    chooser = solved.automatic(ready.options.method) if ready.automatic and isinstance(solved, op.Csr) else None
    if chooser is not None:
        M, symmetric = None, False
    else:
        if on_gpu and solved.device == "host":
            solved = solved.to(device)
        M, symmetric = _precond.build(solved, ready.precond, None if numbers is None else (matrix, numbers))
    hermitian = chooser is None and ready.options.method == "auto" and symmetric and matrix.is_hermitian()
    if given_on_gpu:
        right, guess = agreed(on, functools.partial(_taken, right, guess, solved._handle))
    many, column = not given_on_gpu and right.ndim == 2, not given_on_gpu and len(np.shape(b)) == 2

    def form(own: Array) -> Array:
        if numbers is not None:
            own = _by_columns(getattr(numbers, f"backward_{scalar}"), on, own)
        x = layout.gather(own, on) if whole else own
        return x.reshape(-1, 1) if column and not many else x

    if numbers is not None:
        forward = getattr(numbers, f"forward_{scalar}")
        right = _by_columns(forward, on, right)
        guess = None if guess is None else _by_columns(forward, on, guess)
    null_space = _null_space(ready, on, solved, offsets, numbers, scalar)
    call = None if callback is None else _stops(callback, form)
    setup = on.all_max_real(_core.wall_time() - begin)
    facts: dict[str, Any] = {
        "unknowns": matrix.shape[0],
        "nonzeros": matrix.nnz,
        "ranks": on.size,
        "rank": on.rank,
        "threads": threads,
        "scalar": scalar,
        "device": solved.device,
        "rtol": _core.default_rtol(scalar) if ready.options.rtol is None else ready.options.rtol,
        "atol": ready.options.atol,
    }
    # A given one may be wrapped in M, for renumbered rows.
    made = next((one for one in (M, ready.precond) if isinstance(one, _precond.Multilevel)), None)
    levels_before = None if made is None else made.report
    traffic_before = solved.traffic if isinstance(solved, op.DeviceHMatrix) else None
    end = "_columns" if many else ""
    if on_gpu:
        handle = None if M is None else M._handle
        solve_one = functools.partial(core("solve", scalar), solved._handle, handle)
        if many:
            own, report = _columns_on_gpu(solve_one, right, guess, ready.options, call, hermitian)
        else:
            own, report = solve_one(right, guess, ready.options, call, hermitian)
        if given_on_gpu:
            own = _device.DeviceArray(own, scalar)
    elif chooser is not None:
        own, report = getattr(chooser, "solve" + end)(solved._handle, right, guess, ready.options, call, null_space)
        setup += chooser.setup_seconds
    else:
        handle = None if M is None else M._handle
        solver = core("solve" + end, scalar)
        own, report = solver(solved._handle, handle, right, guess, ready.options, call, hermitian, null_space)
    facts["levels"] = None if made is None else made.report
    facts["traffic"] = None
    if traffic_before is not None and isinstance(solved, op.DeviceHMatrix):
        facts["traffic"] = {name: value - traffic_before[name] for name, value in solved.traffic.items()}
    facts["seconds"] = {"setup": setup, "solve": report.seconds, "explain": report.explain_seconds}
    facts["trace"] = _gather_trace(on, origin) if trace else None
    result = (ColumnsResult if many else Result)(like(form(own), b), report, **facts)
    if M is not None and not symmetric:
        result.warnings.extend(_takes_for_hermitian(ready.options.method, M if made is None else made))
    if made is not None and levels_before is not None:
        result.warnings.extend(_failures_below(made.name, levels_before, facts["levels"]))
    if 0 < result.unknowns < on.size:
        spare = on.size - result.unknowns
        result.warnings.append(f"{on.size} ranks for {result.unknowns} unknowns: {spare} of them have no rows")
    return result


def method_on_gpus(method: str, precond: Any, cure: str) -> str:
    """The method that ``method=`` stands for where A is an H-matrix on GPUs. ValueError, which ends with the `cure`,
    for one that does not work there, and for such a preconditioner. Local.
    """
    if method not in ("auto", *GROUP_METHODS):
        raise ValueError(
            f"method is {method!r}; an H-matrix on GPUs is solved with by {' and '.join(GROUP_METHODS)}: {cure}"
        )
    _precond.refuse_on_gpus(precond, cure)
    return GROUP_METHODS[0] if method == "auto" else method


def _takes_for_hermitian(method: str, M: Any) -> list[str]:
    """What a solve is told of a linear preconditioner that need not be Hermitian where the matrix is. Local."""
    if _core.classical_of(method) not in ("cg", "minres", "chebyshev") or getattr(M._handle, "varies", True):
        return []
    if isinstance(M, _precond.Multilevel) and M._handle.has_adjoint:  # which amg has where it is Hermitian
        return []
    return [
        f"{M.name} with these options need not be Hermitian where A is, and {method} takes it for a Hermitian map: it "
        "may need more iterations or stagnate; bicgstab and gmres take any preconditioner"
    ]


def _failures_below(name: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a solve is told of the coarsest level of its multigrid preconditioner, from the levels' reports. Local."""
    failures = after.get("bottom_failures", 0) - before.get("bottom_failures", 0)
    if failures == 0:
        return []
    solves = after["bottom_solves"] - before["bottom_solves"]
    why = "; ".join(after["warnings"])
    return [
        f"{name}: the coarsest level was not solved in {failures} of {solves} cycles" + (f" ({why})" if why else "")
    ]


def _by_columns(move: Callable[[Any, Array], Array], on: _core.Communicator, own: Array) -> Array:
    """A renumbering of one or more columns."""
    if own.ndim == 1:
        return move(on, own)
    return np.stack([move(on, np.ascontiguousarray(c)) for c in own.T], axis=1)


class _CudaReports(NamedTuple):
    columns: list[_core.Report]
    counts: dict[str, int]
    seconds: float
    explain_seconds: float
    together: int
    alone: str


def _columns_on_gpu(
    solve_one: Callable[..., Any], b: Array, x0: Array | None, o: Any, call: Any, hermitian: bool
) -> Any:
    """A solve of each column: (X, reports)."""
    xs, reports = [], []
    o.solves_of_call = b.shape[1]
    for c in range(b.shape[1]):
        guess = None if x0 is None else np.ascontiguousarray(x0[:, c])
        state = None if call is None else _OfColumn(call, c)
        x, report = solve_one(np.ascontiguousarray(b[:, c]), guess, o, state, hermitian)
        xs.append(x)
        reports.append(report)
    counts = {key: sum(r.counts[key] for r in reports) for key in reports[0].counts}
    why = "device='cuda' solves one column at a time"
    seconds, explain = sum(r.seconds for r in reports), sum(r.explain_seconds for r in reports)
    return np.stack(xs, axis=1), _CudaReports(reports, counts, seconds, explain, 1, why)


def _taken(b: Any, x0: Any, operator: Any) -> tuple[Any, Any]:
    """The compiled arrays of b and x0, which are in the memory of the operator's GPU. Local."""
    right = _device.taken(b, "b", operator, True)
    return right, None if x0 is None else _device.taken(x0, "x0", operator, False)


class _OfColumn:
    """The state of a solve with one right-hand side, as that of one column."""

    def __init__(self, call: Callable[[Any], bool], column: int) -> None:
        self._call, self._column = call, column

    def __call__(self, state: _core.CallbackState) -> bool:
        state.column = self._column
        return self._call(state)


def _gather_trace(on: _core.Communicator, origin: float) -> list[TraceEvent]:
    """The events of all ranks, on every rank. Collective."""
    _core.trace_stop()
    on.barrier()
    mine = _core.take_events(_core.trace_rank(), origin)
    events: list[TraceEvent] = []
    for part in on.all_gather(json.dumps(mine).encode()):
        events += [TraceEvent(*e) for e in json.loads(part)]
    return sorted(events, key=lambda e: (e.rank, e.begin, -e.end))
