"""The base class of all results: how a computation ended, its residual, its times and counts."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import report


def _plain(value: Any) -> Any:
    """The value in types of JSON: numbers that are not finite as text, arrays as lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return _plain(value.item())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Outcome:
    """How a solve, a reconstruction or an inference ended.

    Attributes
    ----------
    converged : bool
        Whether the goal was reached, by a recomputed residual (inference: whether every layer was done).
    reason : str
        "converged", "max_iterations", "breakdown", "stagnated", "diverged", "non_finite", "stopped".
    residual_norm : float
        Recomputed at the end, relative to the right-hand side (tomography: to the first residual); NaN where there is
        no residual.
    iterations : int
    seconds : dict
        By phase, such as "setup" and "solve".
    counts : dict
        What was counted: reductions, products, messages, or slices or edges in the applications.
    history : sequence of float
        The relative residual from iteration 0 on.
    warnings : list of str
    """

    converged: bool
    reason: str
    residual_norm: float
    seconds: dict[str, float]
    counts: dict[str, int]
    history: Sequence[float] | npt.NDArray[np.float64]
    warnings: list[str]

    @property
    def iterations(self) -> int:
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """The attributes above as plain numbers, strings, lists and dicts."""
        names = ("converged", "reason", "residual_norm", "iterations", "seconds", "counts", "history", "warnings")
        return {name: _plain(getattr(self, name)) for name in names}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The facts as JSON text; also written to `path` if given (the file appears complete or not at all)."""
        text = json.dumps(self.facts(), indent=2)
        if path is not None:
            with report.replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as out:
                out.write(text + "\n")
        return text

    def _repr_html_(self) -> str:
        """For notebooks: the facts as a table, without the history."""
        rows = []
        for name, value in self.facts().items():
            if name == "history":
                continue
            if isinstance(value, dict):
                value = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in value.items())
            elif isinstance(value, list):
                value = "; ".join(map(str, value))
            elif isinstance(value, float):
                value = f"{value:.3e}"
            rows.append(f"<tr><th style='text-align:left'>{name}</th><td>{html.escape(str(value))}</td></tr>")
        return f"<table>{''.join(rows)}</table>"
