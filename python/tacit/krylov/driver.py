"""A solve: what is given is checked, placed where it runs, and solved there."""

from __future__ import annotations

import json
from typing import Any

from .. import _core, op
from .. import comm as _comm
from .._progress import Watch
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
    on = A.comm if given.comm is None and isinstance(A, op.Operator) else _comm.resolve(given.comm)
    if op.is_petsc(A):
        given = given._replace(A=op.as_operator(A, on))

    def look() -> tuple[type[Placed], Request]:
        place = place_of(given)
        return place, checked(given, on, place)

    place, request = agreed_request(on, look)
    threads = default_threads(on) if given.threads is None else int(given.threads)
    path_before = on.path
    if given.path is not None:
        on.path = given.path
    with using_threads(threads):
        if given.trace:
            on.barrier()
            _core.trace_start()
        origin = _core.wall_time()
        try:
            with Watch(bool(given.verbose), on.rank == 0) as watch:
                watch.now("setting up")
                result = _solved(place(request, on), begin, origin, threads, watch)
        finally:
            on.path = path_before
            if given.trace:
                _core.trace_stop()
    watch.end(result)
    if given.raise_on_failure and not result.converged:
        raise NotConverged.of(result)
    return result


def _solved(problem: Placed, begin: float, origin: float, threads: int, watch: Watch) -> Result:
    """The result of a placed problem. Collective."""
    on, request, given = problem.on, problem.request, problem.request.given
    call = None if given.callback is None else stopping(given.callback, problem.vectors.form)
    problem.begin_from_first()
    rtol = _core.default_rtol(problem.scalar) if request.options.rtol is None else request.options.rtol
    observed = watch.observed(call, rtol)
    if call is None and observed is not None:
        request.options.callback_stops = False  # it is this rank's own
    setup = on.all_max_real(_core.wall_time() - begin)
    watch.now("solving")
    own, report = problem.solve(observed)
    levels = problem.levels()
    facts: dict[str, Any] = {
        "unknowns": problem.matrix.shape[0],
        "nonzeros": problem.matrix.nnz,
        "ranks": on.size,
        "rank": on.rank,
        "threads": threads,
        "scalar": problem.scalar,
        "device": problem.operator.device,
        "rtol": rtol,
        "atol": request.options.atol,
        "levels": levels,
        "traffic": problem.traffic,
        "seconds": {"setup": setup + problem.setup_seconds, "solve": report.seconds, "explain": report.explain_seconds},
        "trace": _gathered_trace(on, origin) if given.trace else None,
    }
    many = problem.vectors.many
    log = Log(report.columns if many else [report])
    problem.note(log, levels)
    return (ColumnsResult if many else Result)(problem.vectors.result(own), report, log, **facts)


def _gathered_trace(on: _core.Communicator, origin: float) -> list[TraceEvent]:
    """The events of all ranks, on every rank. Collective."""
    _core.trace_stop()
    on.barrier()
    mine = _core.take_events(_core.trace_rank(), origin)
    events: list[TraceEvent] = []
    for part in on.all_gather(json.dumps(mine).encode()):
        events += [TraceEvent(*e) for e in json.loads(part)]
    return sorted(events, key=lambda e: (e.rank, e.begin, -e.end))
