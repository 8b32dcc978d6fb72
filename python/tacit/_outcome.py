"""The base class of all results: how a computation ended, its residual, its times and counts."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _svg, report


class Outcome:
    """How a solve, a reconstruction or an inference ended.

    Attributes
    ----------
    converged : bool
        Whether the goal was reached, by a recomputed residual (inference: whether every layer was done).
    reason : str
        "converged", "max_iterations", "breakdown", "stagnated", "diverged", "non_finite", "stopped", "damaged".
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
        """The attributes above as plain numbers, strings, lists and dicts; None for a number that is not finite."""
        names = ("converged", "reason", "residual_norm", "iterations", "seconds", "counts", "history", "warnings")
        return {name: report.plain(getattr(self, name)) for name in names}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The facts as JSON text; also written to `path` if given (the file appears complete or not at all)."""
        text = report.dump(self.facts())
        if path is not None:
            with report.replacing(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return text

    def _rows(self) -> list[tuple[str, str]]:
        """What notebooks show, by name."""
        ended = "converged" if self.converged else self.reason.replace("_", " ")
        rows = [("ended", ended), ("iterations", report.count(self.iterations))]
        if len(self.history) or not np.isnan(self.residual_norm):  # an inference has none
            rows.append(("residual", report.residual(self.residual_norm)))
        times = [f"{name.replace('_', ' ')} {report.seconds(value)}" for name, value in self.seconds.items() if value]
        counts = [f"{report.count(value)} {name.replace('_', ' ')}" for name, value in self.counts.items() if value]
        rows += [(name, ", ".join(found)) for name, found in (("time", times), ("counts", counts)) if found]
        return rows + [("warning", text) for text in self.warnings]

    def _picture(self) -> _svg.Picture:
        return _svg.Picture(_svg.convergence([("", self.history)], verified=self.residual_norm))

    def _repr_html_(self) -> str:
        """For notebooks: a small table and the convergence."""
        return table(self._rows()) + self._picture().svg


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values as a table of HTML."""
    left = "style='text-align:left'"
    rest = (f"<th {left}>{html.escape(name)}</th><td {left}>{html.escape(value)}</td>" for name, value in rows)
    return "<table><tr>" + "</tr><tr>".join(rest) + "</tr></table>"
