"""`tacit solve --monitor`: the residual while a method runs."""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Monitor:
    """Shows the residual while a method runs, as an updated line on a terminal and as lines elsewhere, and records
    times.
    """

    def __init__(self, arguments: argparse.Namespace, out: Console, live: bool, goal: float) -> None:
        self.out = out
        self.shown = bool(arguments.monitor) and not out.quiet
        self.live = self.shown and live
        self.goal = goal
        self.stamps: list[tuple[int, float]] = []
        self.first: float | None = None
        self.last: tuple[int, float] | None = None
        self.printed = -1
        self.progress: Any = None

    def __enter__(self) -> Monitor:
        self.start = time.perf_counter()
        if self.live:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self.progress = Progress(
                TextColumn("iteration {task.fields[iteration]:>6,}"),
                BarColumn(),
                TextColumn("residual {task.fields[residual]:.2e}"),
                TimeElapsedColumn(),
                console=self.out,
                transient=True,
                refresh_per_second=8,
            )
            self.task = self.progress.add_task("", total=1.0, iteration=0, residual=1.0)
            self.progress.start()
        elif self.shown:
            self.out.print("iteration  residual (by the recurrence)")
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()
        elif self.shown and self.last is not None and self.last[0] != self.printed:
            self._line(*self.last)

    def callback(self, state: Any) -> bool:
        k, r = int(state.iteration), float(state.residual_norm)
        self.stamps.append((k, time.perf_counter() - self.start))
        self.last = k, r
        if self.first is None:
            self.first = r
        if self.progress is not None:
            self.progress.update(self.task, completed=self._share(r), iteration=k, residual=r)
        elif self.shown and k % 10 ** max(0, len(str(k)) - 2) == 0:  # 99, 100, 110, .. 990, 1000, 1100
            self._line(k, r)
        return False

    def _line(self, k: int, r: float) -> None:
        self.out.print(f"{k:9d}  {r:.6e}")
        self.printed = k

    def _share(self, r: float) -> float:
        """The progress towards the goal, from 0 to 1, on a logarithmic scale of the residual."""
        if not (0 < r < math.inf and self.goal > 0):
            return 0.0
        return min(1.0, max(0.0, math.log(r) / math.log(self.goal))) if self.goal < 1 else 1.0

    def times(self, facts: dict[str, Any]) -> list[float]:
        """The time of each value of the history in seconds; equal steps if they were not recorded."""
        n = len(facts["history"])
        setup, whole = facts["seconds"]["setup"], facts["seconds"]["solve"]
        seen = dict(self.stamps)
        if all(k in seen for k in range(1, n)):
            return [setup, *(max(setup, seen[k]) for k in range(1, n))]
        return [setup + whole * k / max(1, n - 1) for k in range(n)]
