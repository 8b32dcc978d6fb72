"""Which processors each rank may run on, and whether ranks share some that they need alone."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Of a rank: the processors that it may run on, the cores that they belong to, and its threads.

    A core has the number of the least of the processors that are its hardware threads.
    """

    host: str
    processors: frozenset[int]
    cores: frozenset[int]
    threads: int
    of_host: tuple[int, int]  # processors and cores of the whole machine


class Crowd(NamedTuple):
    """Ranks of a host with more threads together than processors (or cores) that they may run on."""

    ranks: tuple[int, ...]
    what: str  # processor, core
    on: frozenset[int]
    threads: int
    avoidable: bool  # the machine has enough of them for all of its ranks

    def __str__(self) -> str:
        on = f"{self.what}{'s' * (len(self.on) > 1)} {ranges(self.on)}"
        if len(self.ranks) == 1:
            return f"{self.threads} threads of rank {self.ranks[0]} share {on}"
        return f"ranks {ranges(self.ranks)}, {self.threads} threads together, share {on}"


def written(mask: Iterable[int], threads: int) -> str:
    """The place of this process as text. `mask`: its affinity as it began, since OpenMP may bind the first thread."""
    processors = sorted(mask)
    all_of_host = range(os.cpu_count() or 1)
    of_host = (len(all_of_host), len({_core_of(p) for p in all_of_host}))
    return json.dumps([platform.node(), processors, [_core_of(p) for p in processors], threads, of_host])


def read(text: str) -> Place:
    host, processors, cores, threads, of_host = json.loads(text)
    return Place(host, frozenset(processors), frozenset(cores), threads, tuple(of_host))


def _core_of(processor: int) -> int:
    """The core of a processor; its own number where the system does not say."""
    with contextlib.suppress(OSError):
        path = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        return int(re.findall(r"\d+", path.read_text(encoding="ascii"))[0])
    return processor


def crowds(places: Sequence[Place]) -> list[Crowd]:
    """The smallest crowd of each host: of processors, or else of cores if the machine has enough of them."""
    found = []
    for host in dict.fromkeys(p.host for p in places):
        here = {rank: p for rank, p in enumerate(places) if p.host == host}
        on_processors = _crowd(here, "processor", {rank: p.processors for rank, p in here.items()})
        on_cores = _crowd(here, "core", {rank: p.cores for rank, p in here.items()})
        if on_processors is not None:
            found.append(on_processors)
        elif on_cores is not None and on_cores.avoidable:
            found.append(on_cores)
    return found


def _crowd(here: dict[int, Place], what: str, of: dict[int, frozenset[int]]) -> Crowd | None:
    whole = frozenset[int]().union(*of.values())
    has = min(p.of_host[what == "core"] for p in here.values())
    avoidable = sum(p.threads for p in here.values()) <= has
    # Each thread can have a processor of its own if every set of ranks has enough of them; it suffices to look at sets
    # of ranks within one of their masks where masks either contain each other or have nothing in common.
    for mask in sorted({*of.values(), whole}, key=lambda m: (len(m), sorted(m))):
        inside = tuple(rank for rank in here if of[rank] <= mask)
        threads = sum(here[rank].threads for rank in inside)
        if threads > len(mask):
            return Crowd(inside, what, mask, threads, avoidable)
    return None


def ranges(numbers: Iterable[int]) -> str:
    """As "0-3,8"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def table(places: Sequence[Place], most: int = 16) -> str:
    """In words, ranks with the same processors together."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for rank, p in enumerate(places):
        groups.setdefault((p.host, p.processors, p.threads), []).append(rank)
    several = len({p.host for p in places}) > 1
    parts = []
    for (host, processors, threads), ranks in groups.items():
        on = f"processor{'s' * (len(processors) > 1)} {ranges(processors)}{f' of {host}' if several else ''}"
        each = f", {threads} threads{' each' if len(ranks) > 1 else ''}" if threads > 1 else ""
        parts.append(f"rank{'s' * (len(ranks) > 1)} {ranges(ranks)}: {on}{each}")
    return "; ".join(parts[:most]) + (f"; and {len(parts) - most} more" if len(parts) > most else "")
