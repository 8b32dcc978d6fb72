"""Where the time of a traced solve went, and the bytes that its kernels moved beside what memory allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

_BLOCK = 4 << 20  # float64 numbers for each thread: 32 MiB, beyond its share of the caches
_ROUNDS = 6


class Part(NamedTuple):
    """A kind of work of one rank: seconds, and the bytes that its kernels read and wrote."""

    name: str
    seconds: float
    bytes: int
    calls: int


#: The category of the outermost event that is of no method, and what it is called.
_NAMES = {"op": "products with A", "precond": "preconditioner", "exec": "vectors", "comm": "waiting for other ranks"}
_SET_UP, _METHOD = "making the preconditioner", "the method itself"


def parts(trace: Sequence[Any], rank: int = 0) -> list[Part]:
    """What the main thread of a rank did, from the events of its trace, the longest first.

    Time within a preconditioner counts for it, whatever works there. Time within a method and no kernel is the method's
    own.
    """
    events = sorted((e for e in trace if e.rank == rank and e.thread == 0), key=lambda e: (e.begin, -e.end))
    seconds: dict[str, float] = {}
    moved: dict[str, int] = {}
    calls: dict[str, int] = {}
    open_: list[tuple[float, str, bool]] = []  # end, kind, whether it is a method
    for e in events:
        while open_ and open_[-1][0] <= e.begin:
            open_.pop()
        method = e.category == "krylov"
        inside = bool(open_) and not open_[-1][2]
        kind = open_[-1][1] if inside else _kind(e)
        if e.category != "comm":
            moved[kind] = moved.get(kind, 0) + e.bytes
        if not inside:
            seconds[kind] = seconds.get(kind, 0.0) + e.end - e.begin
            calls[kind] = calls.get(kind, 0) + 1
            if open_:  # within a method, whose own time this is not
                seconds[open_[-1][1]] -= e.end - e.begin
        open_.append((e.end, kind, method))
    found = [Part(kind, max(0.0, seconds.get(kind, 0.0)), moved.get(kind, 0), calls.get(kind, 0)) for kind in seconds]
    return sorted(found, key=lambda part: -part.seconds)


def _kind(event: Any) -> str:
    if event.category == "krylov":
        return _METHOD
    if event.category == "precond" and event.name.startswith("set up"):
        return _SET_UP
    return _NAMES.get(event.category, str(event.category))


def bandwidth(threads: int) -> float:
    """Bytes a second that so many threads copy in memory, reading and writing, at best. Takes about 0.1 s, and 64 MiB
    for each thread.
    """
    blocks = [(np.ones(_BLOCK), np.zeros(_BLOCK)) for _ in range(max(1, threads))]
    best = float("inf")
    with ThreadPoolExecutor(len(blocks)) as pool:
        for _ in range(_ROUNDS):
            begin = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), blocks))
            best = min(best, time.perf_counter() - begin)
    return 2 * 8 * _BLOCK * len(blocks) / best
