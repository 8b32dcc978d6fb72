"""A solve: what is given is checked, placed where it runs, and solved there."""

from __future__ import annotations

import json
from typing import Any

from .. import _core, op
from .. import comm as _comm
from .._progress import Watch, said_to_somebody, warn_of
from .._support import default_threads, using_threads
from .callbacks import stopping
from .compared import agreed_request
from .placed import Placed, place_of
from .request import Given, Request, checked
from .results import ColumnsResult, Log, NotConverged, Result, TraceEvent


def run(given: Given) -> Result:
    """:func:`tacit.solve`. Collective."""
    begin = _core.wall_time()
    A = given.A
    if isinstance(A, op.Operator):
        on = A.comm if given.comm is None else _comm.resolve(given.comm)
    else:
        on = _comm.resolve(given.comm)
        if op.is_petsc(A):
            given = given._replace(A=op.as_operator(A, on))

    def look() -> tuple[type[Placed], Request]:
        place = place_of(given)
        return place, checked(given, on, place)

    place, request = look() if on.size == 1 else agreed_request(on, look)
    threads = default_threads(on) if given.threads is None else int(given.threads)
    if given.path is None and not given.trace and threads == _core.threads():
        result = _watched(place, request, on, begin, threads)
    else:
        result = _elsewhere(place, request, on, begin, threads)
    if given.raise_on_failure and not result.converged:
        raise NotConverged.of(result)
    return result


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
    matrix = problem.matrix
    facts: dict[str, Any] = {
        "unknowns": matrix.shape[0],
        "nonzeros": matrix.nnz,
        "ranks": on.size,
        "rank": on.rank,
        "threads": threads,
        "scalar": problem.scalar,
        "device": problem.device,
        "rtol": rtol,
        "atol": options.atol,
        "levels": problem.note(log),
        "traffic": problem.traffic,
        "seconds": {"setup": setup + problem.setup_seconds, "solve": report.seconds, "explain": report.explain_seconds},
        "trace": _gathered_trace(on, origin) if given.trace else None,
    }
    return (ColumnsResult if many else Result)(problem.vectors.result(own), report, log, facts)


def _gathered_trace(on: _core.Communicator, origin: float) -> list[TraceEvent]:
    """The events of all ranks, on every rank. Collective."""
    _core.trace_stop()
    on.barrier()
    mine = _core.take_events(_core.trace_rank(), origin)
    events: list[TraceEvent] = []
    for part in on.all_gather(json.dumps(mine).encode()):
        events += [TraceEvent(*e) for e in json.loads(part)]
    return sorted(events, key=lambda e: (e.rank, e.begin, -e.end))
