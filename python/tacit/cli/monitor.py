"""What `tacit solve` shows while it runs: a line with progress on a terminal, the residual in lines with --monitor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tacit._progress import Line, share_of

if TYPE_CHECKING:
    from rich.console import Console


class Monitor:
    """Shows the residual while a method runs, as an updated line on a terminal and with `lines` as lines elsewhere, and
    records times.
    """

    def __init__(self, out: Console, live: bool, lines: bool) -> None:
        self.out = out
        self.line = Line(out, shown=live and not out.quiet)
        self.lines = lines and not live and not out.quiet
        self.goal = 0.0
        self.stamps: list[tuple[int, float]] = []
        self.first: dict[int, float] = {}
        self.last: dict[int, tuple[int, float]] = {}  # of each column
        self.printed: dict[int, int] = {}

    def __enter__(self) -> Monitor:
        self.line.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.line.__exit__(*error)
        for column, (k, r) in self.last.items():
            if self.lines and k != self.printed.get(column):
                self._print(column, k, r)

    def begin(self, goal: float) -> None:
        """The method begins, with this goal."""
        self.start, self.goal = time.perf_counter(), goal
        self.line.now("setting up")
        if self.lines:
            self.out.print("iteration  residual (by the recurrence)")

    def callback(self, state: Any) -> bool:
        column, k, r = int(state.column), int(state.iteration), float(state.residual_norm)
        if not self.last:
            self.line.now("solving")
        self.stamps.append((k, time.perf_counter() - self.start))
        self.last[column] = k, r
        self.first.setdefault(column, max(r, 1.0))
        if self.line.live:
            worst = max(self.last, key=lambda c: self.last[c][1])
            share = share_of(self.last[worst][1], self.first[worst], self.goal)
            self.line.update(share, f"iteration {k:,}, residual {self.last[worst][1]:.2e}")
        elif self.lines and k % 10 ** max(0, len(str(k)) - 2) == 0:  # 99, 100, 110, .. 990, 1000, 1100
            self._print(column, k, r)
        return False

    def _print(self, column: int, k: int, r: float) -> None:
        self.out.print(f"{k:9d}  {r:.6e}" + (f"  column {column}" if len(self.last) > 1 or column else ""))
        self.printed[column] = k

    def times(self, facts: dict[str, Any]) -> list[float]:
        """The time of each value of the history in seconds; equal steps if they were not recorded."""
        n = len(facts["history"])
        setup, whole = facts["seconds"]["setup"], facts["seconds"]["solve"]
        seen = dict(self.stamps)
        if len(self.last) < 2 and all(k in seen for k in range(1, n)):
            return [setup, *(max(setup, seen[k]) for k in range(1, n))]
        return [setup + whole * k / max(1, n - 1) for k in range(n)]
