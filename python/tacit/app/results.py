"""What a reconstruction gives: its progress, its result, and how Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._outcome import Outcome
from .._support import Array

__all__ = ["Progress", "Reconstruction", "interrupts"]


@dataclass
class Progress:
    """What the callback of :func:`reconstruct` is given after each iteration."""

    iteration: int  #: 0 is the start
    iterations: int  #: the largest number
    slices: range  #: the slices of the present batch
    residual: Array  #: |b - A x| of each of these slices
    seconds: float  #: time since the batch began
    remaining: float  #: seconds until all slices are done, if they take all iterations; NaN before the first one


@dataclass
class Reconstruction(Outcome):
    """The result of a reconstruction: the attributes of all results of Tacit, and those below. ``history`` and
    ``residual_norm`` are relative to the first residual, and are those of the worst slice.
    """

    images: Array  #: (k, rows, columns), or (rows, columns) of a single sinogram; of a cone beam volumes
    residual: Array  #: recurrence residual |b - A x| by iteration (from 0) and slice; NaN after a batch has ended
    gradient: Array  #: |A^T (b - A x)| likewise
    slice_iterations: list[int]
    #: why each slice ended: iterations, discrepancy, gradient, corner, non_finite, callback; "filtered" of :func:`fbp`
    end: list[str]
    final_residual: list[float]  #: |b - A x| of each slice, recomputed
    seconds: dict[str, float] = field(default_factory=dict)  #: "build" and "solve"
    interrupted: bool = False  #: by Ctrl-C: images are the present ones, and zero for slices that have not begun
    warnings: list[str] = field(default_factory=list, init=False, repr=False)

    @property
    def iterations(self) -> int:
        return max(self.slice_iterations, default=0)

    @property
    def reason(self) -> str:  # type: ignore[override]
        """The worst reason of all slices: non_finite, stopped or max_iterations; "converged" where every slice ended by
        its stopping rule before the last iteration.
        """
        words = {"iterations": "max_iterations", "callback": "stopped", "non_finite": "non_finite"}
        order = ("non_finite", "stopped", "max_iterations")
        found = {words.get(end, "converged") for end in self.end}
        return next((word for word in order if word in found), "converged")

    @property
    def converged(self) -> bool:  # type: ignore[override]
        return self.reason == "converged"

    @property
    def history(self) -> Array:  # type: ignore[override]
        first = np.where(self.residual[0] > 0, self.residual[0], 1)
        return np.asarray(np.nanmax(self.residual / first, axis=1, initial=0.0))

    @property
    def residual_norm(self) -> float:  # type: ignore[override]
        first = np.where(self.residual[0] > 0, self.residual[0], 1)
        return float(np.max(np.asarray(self.final_residual) / first, initial=0.0))

    @property
    def counts(self) -> dict[str, int]:  # type: ignore[override]
        return {"slices": len(self.slice_iterations), "slice_iterations": sum(self.slice_iterations)}


@contextlib.contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """A context in which the first Ctrl-C raises nothing; it gives a function that returns whether Ctrl-C was pressed.
    A context within another one gives the function of the outer one. Where SIGINT is ignored, it stays so.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before == signal.SIG_IGN:
        yield pressed.is_set
        return
    around = getattr(before, "pressed", None)
    if around is not None:
        yield around.is_set
        return

    def note(number: int, frame: Any) -> None:
        if pressed.is_set() and callable(before):
            before(number, frame)
        pressed.set()

    note.pressed = pressed  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
