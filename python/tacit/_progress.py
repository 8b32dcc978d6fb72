"""What a computation says while it runs: the logger "tacit", and a line with its progress and the time that is left.

The line is shown on a terminal and in notebooks, and nowhere else.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import report

if TYPE_CHECKING:
    from rich.console import Console

LOGGER = logging.getLogger("tacit")
LOGGER.addHandler(logging.NullHandler())  # without it warnings would go to standard error where nobody has asked

_DELAY = 0.3  # seconds before a line appears: short work shows none
_PERIOD = 0.1  # seconds between its changes


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def share_of(residual: float, first: float, goal: float) -> float | None:
    """How far a residual has come from the first one to the goal, from 0 to 1, on a logarithmic scale."""
    if not (0 < residual < math.inf and 0 < goal < first < math.inf):
        return None
    return min(1.0, max(0.0, math.log(residual / first) / math.log(goal / first)))


def time_left(elapsed: float, share: float | None) -> str:
    """The time that is left at the speed so far, in words; "" where nothing can be said."""
    if share is None or share < 0.02 or elapsed < _DELAY:
        return ""
    left = elapsed * (1 - share) / share
    if left < 99.5:
        return f"about {left:.0f} s left"
    return f"about {left / 60:.0f} min left" if left < 5400 else f"about {left / 3600:.1f} h left"


class Line:
    """A line with what is being done, a bar, and the time that is left.

    Parameters
    ----------
    console : rich Console, optional
        The terminal, if it is one. Default: standard error.
    shown : bool
        False: nothing is shown anywhere.

    Examples
    --------
    >>> with Line() as line:
    ...     line.now("assembling")
    ...     line.update(0.5, "block 3 of 6")
    """

    def __init__(self, console: Console | None = None, shown: bool = True) -> None:
        self._console, self._wanted = console, shown
        self._notebook = False
        self._bar: Any = None
        self._handle: Any = None
        self._share: float | None = None
        self._text = self._detail = ""
        self._drawn = 0.0
        self.begin = time.perf_counter()

    @property
    def live(self) -> bool:
        """Whether there is a place that shows the line."""
        return self._wanted and (self._notebook or self._bar is not None)

    def __enter__(self) -> Line:
        if not self._wanted:
            return self
        if self._console is None and in_notebook():
            self._notebook = True
            return self
        console = self._console or report.console(stderr=True)
        if console.is_terminal and not console.is_jupyter:
            self._bar = _terminal_bar(console)
            self._task = self._bar.add_task("", total=None, detail="", left="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._handle is not None:
            self._show_html("")

    def now(self, text: str) -> None:
        """Begins another part of the work, such as "setting up"."""
        self._text, self._share, self._detail = text, None, ""
        self.begin = time.perf_counter()
        self._draw(at_once=True)

    def update(self, share: float | None, detail: str = "") -> None:
        """How much of the part is done, from 0 to 1 (None: unknown), and a detail."""
        self._share, self._detail = share, detail
        self._draw()

    def _draw(self, at_once: bool = False) -> None:
        if not self.live:
            return
        now = time.perf_counter()
        if now - self._drawn < _PERIOD and not at_once:
            return
        self._drawn = now
        left = time_left(now - self.begin, self._share)
        if self._bar is not None:
            done = {"total": None} if self._share is None else {"total": 1.0, "completed": self._share}
            self._bar.update(self._task, description=self._text, detail=self._detail, left=left, **done)
            if not self._bar.live.is_started:
                self._bar.start()
        elif now - self.begin > _DELAY or self._handle is not None:
            value = "" if self._share is None else f' value="{self._share:.3f}"'
            words = "  ".join(part for part in (self._detail, left) if part)
            self._show_html(f"{self._text} <progress{value}></progress> {words}")

    def _show_html(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))


def _terminal_bar(console: Console) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    return Progress(*columns, console=console, transient=True, refresh_per_second=8)


@contextlib.contextmanager
def working(text: str, console: Console | None = None, shown: bool = True) -> Iterator[Line]:
    """A line for one piece of work."""
    with Line(console, shown) as line:
        line.now(text)
        yield line


# --- solves -----------------------------------------------------------------------------------------------------------


def attempts(choice: str) -> list[str]:
    """What a solve tried, from the sentence of its ``choice``."""
    head, _, rest = choice.partition(": ")
    return [part for part in re.split(r", then (?![^()]*\))", rest or head) if part]


def said_to_somebody() -> bool:
    """Whether the logger has an ear for more than warnings."""
    return LOGGER.isEnabledFor(logging.INFO)


def warn_of(result: Any) -> None:
    for text in result.warnings:
        LOGGER.warning("%s", text)


class Watch:
    """Follows a solve on one rank: logs it, and with `verbose` shows its progress and prints how it ended.

    Parameters
    ----------
    verbose : bool
    first : bool
        Whether this is the first rank; others are silent.
    """

    def __init__(self, verbose: bool, first: bool) -> None:
        self._first_rank, self._verbose = first, verbose and first
        self._log = first and said_to_somebody()
        self._each = self._log and LOGGER.isEnabledFor(logging.DEBUG)
        self._line = Line() if self._verbose else None
        self._goal = 0.0
        self._first: dict[int, float] = {}
        self._worst: dict[int, float] = {}

    def __enter__(self) -> Watch:
        if self._line is not None:
            self._line.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._line is not None:
            self._line.__exit__(*error)

    def now(self, text: str) -> None:
        if self._line is not None:
            self._line.now(text)

    def observed(self, call: Callable[[Any], bool] | None, goal: float) -> Callable[[Any], bool] | None:
        """The callback, with a look at each iteration where somebody wants to know."""
        self._goal = goal
        if not self._each and (self._line is None or not self._line.live):
            return call

        def both(state: Any) -> bool:
            self._look(state.column, state.iteration, state.residual_norm)
            return False if call is None else call(state)

        return both

    def _look(self, column: int, iteration: int, residual: float) -> None:
        if self._each:
            of = f" of column {column}" if column or len(self._first) > 1 else ""
            LOGGER.debug("iteration %d%s: residual %.3e", iteration, of, residual)
        self._first.setdefault(column, max(residual, 1.0))
        self._worst[column] = residual
        if self._line is not None and self._line.live:
            shares = [share_of(r, self._first[c], self._goal) for c, r in self._worst.items()]
            known = [share for share in shares if share is not None]
            share = min(known) if len(known) == len(shares) else None
            self._line.update(share, f"iteration {iteration:,}, residual {max(self._worst.values()):.2e}")

    def end(self, result: Any) -> None:
        """Says how it ended: a line of INFO, the attempts as DEBUG, its warnings as such."""
        if not (self._first_rank and (self._log or self._verbose or result.warnings)):
            return
        if self._each:
            for k, text in enumerate(attempts(result.choice)):
                LOGGER.debug("attempt %d: %s", k + 1, text)
        warn_of(result)
        if not (self._log or self._verbose):
            return
        line = line_of(result)
        if self._log:
            LOGGER.info("%s", line)
        if self._verbose:
            print("\n".join([f"tacit: {line}", *(f"  {text}" for text in (result.choice, *result.warnings) if text)]))


def line_of(result: Any) -> str:
    """How a solve ended, in one line."""
    precond = "" if result.precond in ("", "none", result.method) else f" with {result.precond}"
    setup, solve = result.seconds["setup"], result.seconds["solve"]
    took = f"{report.seconds(setup + solve)} ({report.seconds(setup)} of it set-up)"
    ended = f"{result.reason}: {result.method}{precond}, {report.plural(result.iterations, 'iteration')}"
    more = "" if result.converged else "".join(f". {text}" for text in (result.detail, result.advice) if text)
    return f"{ended}, residual {result.residual_norm:.2e}, {took}{more}"
