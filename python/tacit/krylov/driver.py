"""A solve: what is given is checked, placed where it runs, and solved there."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .. import _core, op
from .. import comm as _comm
from .._progress import Watch, said_to_somebody, warn_of
from .._support import SCALAR_OF, agreed, core, default_threads, using_threads
from .callbacks import stopping
from .checkpoints import Checkpoint
from .compared import agreed_request
from .placed import OnHost, Placed, place_of
from .request import Choice, Given, Request, checked, chosen
from .results import ColumnsResult, Log, NotConverged, Result, TraceEvent


def run(given: Given) -> Result:
    """:func:`tacit.solve`. Collective."""
    if given.checkpoint is not None:
        return _kept(given)
    begin = _core.wall_time()
    choice = chosen(given, OnHost) if _is_in_place(given) else None
    if choice is not None and choice.bare and not said_to_somebody():
        result = _at_once(given, choice, begin)
    else:
        result = _by_place(given, choice, begin)
    if given.raise_on_failure and not result.converged:
        raise NotConverged.of(result)
    return result


def _kept(given: Given) -> Result:
    """A solve whose iterate is kept in a file, from which it starts where there is one. Collective."""
    A, keep = given.A, given.checkpoint
    on = A.comm if isinstance(A, op.Operator) and given.comm is None else _comm.resolve(given.comm)
    if op.is_petsc(A):
        A = op.as_operator(A, on)

    def look() -> Checkpoint:
        if given.relative_to == "first":
            raise ValueError(
                'relative_to="first" and checkpoint: a resumed solve begins elsewhere; take relative_to="b"'
            )
        if given.device != "host" or getattr(A, "device", "host") != "host":
            raise ValueError("checkpoint keeps iterates in host memory, and this solve runs on a GPU")
        if getattr(A, "shape", None) is None:
            raise TypeError(f"A is {type(A).__name__}; an operator or matrix with a shape is needed")
        return keep if isinstance(keep, Checkpoint) else Checkpoint(keep)

    keep = agreed(on, look)
    x = keep.begin(given.b, int(A.shape[1]), on)
    result = run(
        given._replace(
            A=A, x0=given.x0 if x is None else x, callback=keep.observer(given.callback), checkpoint=None, comm=on
        )
    )
    keep.end(result)
    return result


def _is_in_place(given: Given) -> bool:
    """Whether the compiled part reads the system as it is: a sparse matrix on one rank and one right-hand side, of one
    type in host memory, to be solved from x = 0 without a callback.
    """
    A, b = given.A, given.b
    if type(b) is not np.ndarray or not b.flags.c_contiguous or given.device != "host":
        return False
    if not (given.x0 is None and given.callback is None and given.comm is None):
        return False
    if given.scalar is not None and (type(given.scalar) is not str or given.scalar != SCALAR_OF.get(b.dtype)):
        return False
    if type(A) is op.Csr:
        return A.solves_at_once(b)
    return op.is_like(A, b) and _comm.resolve().size == 1


def _at_once(given: Given, choice: Choice, begin: float) -> Result:
    """The result for a system that :func:`_is_in_place`, where nothing else has to be prepared."""
    A = given.A if type(given.A) is op.Csr else op.as_operator(given.A, _comm.resolve())
    assert isinstance(A, op.Csr)  # as a sparse matrix becomes
    options, scalar, setup = choice.options, A._scalar, 0.0
    chooser = A.automatic(options.method) if choice.automatic else None
    begun = _core.wall_time()
    if chooser is None:
        x, report = core("solve", scalar)(A._handle, None, given.b, None, options, None, False, None)
    else:
        x, report = chooser.solve(A._handle, given.b, None, options, None, None)
        setup = chooser.setup_seconds
    log = Log([report])
    rtol = _core.default_rtol(scalar) if options.rtol is None else options.rtol
    facts = _facts(A, _core.threads(), "host", options.atol, rtol, setup + (begun - begin), report)
    result = Result(x, report, log, facts)
    if log.warnings:
        warn_of(result)
    return result


def _by_place(given: Given, choice: Choice | None, begin: float) -> Result:
    """The result for any system; `choice` may be known already, of one that :func:`_is_in_place`. Collective."""
    A = given.A
    if isinstance(A, op.Operator):
        on = A.comm if given.comm is None else _comm.resolve(given.comm)
    else:
        on = _comm.resolve(given.comm)
        if op.is_petsc(A):
            given = given._replace(A=op.as_operator(A, on))

    def look() -> tuple[type[Placed], Request]:
        place = place_of(given)
        return place, checked(given, on, place, choice)

    place, request = look() if on.size == 1 else agreed_request(on, look)
    threads = default_threads(on) if given.threads is None else int(given.threads)
    if given.path is None and not given.trace and threads == _core.threads():
        return _watched(place, request, on, begin, threads)
    return _elsewhere(place, request, on, begin, threads)


def _elsewhere(place: type[Placed], request: Request, on: _core.Communicator, begin: float, threads: int) -> Result:
    """The result of a request that changes what is around it: threads, the path of exchanges, the tracing of events.
    Collective.
    """
    given, path_before = request.given, on.path
    with using_threads(threads):
        try:
            if given.path is not None:
                on.path = given.path
            if given.trace:
                on.barrier()
                _core.trace_start()
            return _watched(place, request, on, begin, threads, _core.wall_time())
        finally:
            on.path = path_before
            if given.trace:
                _core.trace_stop()


def _watched(
    place: type[Placed], request: Request, on: _core.Communicator, begin: float, threads: int, origin: float = 0.0
) -> Result:
    """The result of a request, with what is said about it meanwhile. Collective."""
    first = on.rank == 0
    if not (request.given.verbose or said_to_somebody()):
        result = _solved(place(request, on), begin, origin, threads, None)
        if result.warnings and first:
            warn_of(result)
        return result
    with Watch(bool(request.given.verbose), first) as watch:
        watch.now("setting up")
        result = _solved(place(request, on), begin, origin, threads, watch)
    watch.end(result)
    return result


def _solved(problem: Placed, begin: float, origin: float, threads: int, watch: Watch | None) -> Result:
    """The result of a placed problem. Collective."""
    on, request, given = problem.on, problem.request, problem.request.given
    call = None if given.callback is None else stopping(given.callback, problem.vectors.form)
    if "relative_to" in given.options and given.relative_to == "first":
        problem.begin_from_first()
    options = request.options
    rtol = options.rtol
    if rtol is None:
        rtol = _core.default_rtol(problem.scalar)
    if watch is not None:
        stops = call is not None
        call = watch.observed(call, rtol)
        if call is not None and not stops:
            options.callback_stops = False  # it is this rank's own
    setup = _core.wall_time() - begin
    if on.size > 1:
        setup = on.all_max_real(setup)
    if watch is not None:
        watch.now("solving")
    own, report = problem.solve(call)
    many = problem.vectors.many
    log = Log(report.columns if many else [report])
    facts = _facts(problem.matrix, threads, problem.device, options.atol, rtol, setup + problem.setup_seconds, report)
    facts["levels"] = problem.note(log)
    facts["traffic"] = problem.traffic
    if given.trace:
        facts["trace"] = _gathered_trace(on, origin)
    return (ColumnsResult if many else Result)(problem.vectors.result(own), report, log, facts)


def _facts(
    matrix: op.Operator, threads: int, device: str, atol: float, rtol: float, setup: float, report: Any
) -> dict[str, Any]:
    """What a result says beside the report. Local."""
    on = matrix.comm
    return {
        "unknowns": matrix.shape[0],
        "nonzeros": matrix.nnz,
        "ranks": on.size,
        "rank": on.rank,
        "threads": threads,
        "scalar": matrix._scalar,
        "device": device,
        "rtol": rtol,
        "atol": atol,
        "levels": None,
        "traffic": None,
        "seconds": {"setup": setup, "solve": report.seconds, "explain": report.explain_seconds},
        "trace": None,
    }


def _gathered_trace(on: _core.Communicator, origin: float) -> list[TraceEvent]:
    """The events of all ranks, on every rank. Collective."""
    _core.trace_stop()
    on.barrier()
    mine = _core.take_events(_core.trace_rank(), origin)
    events: list[TraceEvent] = []
    for part in on.all_gather(json.dumps(mine).encode()):
        events += [TraceEvent(*e) for e in json.loads(part)]
    return sorted(events, key=lambda e: (e.rank, e.begin, -e.end))
