"""The result of a solve, and the state that its callbacks are given."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core, _svg, report
from .._outcome import Outcome


class NotConverged(_core.Error, RuntimeError):
    """Raised with ``raise_on_failure=True`` when a solve has not converged; ``result`` is its :class:`Result`."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.result)

    @classmethod
    def of(cls, result: Result) -> NotConverged:
        text = ": ".join(part for part in (result.reason, result.detail) if part)
        text += f" (residual {result.residual_norm:.2e} after {result.iterations} iterations). {result.advice}"
        return cls(text.strip(), result)


class TraceEvent(NamedTuple):
    """A kernel, message or wait of a rank, from `begin` to `end` in seconds since the solve began."""

    name: str
    category: str
    begin: float
    end: float
    rank: int
    thread: int
    bytes: int


class Log:
    """What a solve noticed, for one or more columns: the ``warnings`` of its :class:`Result`."""

    def __init__(self, reports: Sequence[_core.Report]) -> None:
        self.warnings: list[str] = reports[0].warnings if len(reports) == 1 else _shared([r.warnings for r in reports])


def _shared(columns: list[list[str]]) -> list[str]:
    """The warnings of all columns; those that not all have are preceded by the columns' numbers."""
    found: dict[str, list[int]] = {}
    for i, warnings in enumerate(columns):
        for text in dict.fromkeys(warnings):
            found.setdefault(text, []).append(i)
    return [
        text if len(which) == len(columns) else f"column {', '.join(map(str, which))}: {text}"
        for text, which in found.items()
    ]


if TYPE_CHECKING:
    # To a type checker: so that it knows the types in ``x, info = tacit.solve(A, b)``.
    _Pair = tuple[npt.NDArray[Any], int]
else:
    _Pair = object


# Attributes of a result by those of the compiled report.
_OF_REPORT = {
    "_iterations": "iterations",
    **{
        name: name
        for name in (
            "reason", "detail", "advice", "restarts", "residual_norm", "recurrence_residual_norm", "projected_norm",
            "norm", "history", "counts", "method", "precond", "choice"
        )
    },
}  # fmt: skip


class Result(Outcome, _Pair):
    """How a solve ended. Unpacks as ``x, info``.

    Attributes
    ----------
    x : ndarray
        An array of the library of b, where that was PyTorch, JAX or CuPy.
        The best iterate whose residual was recomputed; always finite. If a limit or the callback ends a run of cg, of
        one of its variants or of chebyshev, the last iterate, provided that it is nearer to the solution than x0 in
        the norm of A.
    info : int
        SciPy's number: 0 if converged; the number of iterations if ended for another reason; -1 breakdown, -2
        divergence, -3 numbers that are not finite, -4 memory that was changed.
    converged : bool
        Whether the recomputed residual is at or below max(rtol ||b||, atol).
    reason : str
        "converged", "max_iterations", "breakdown", "stagnated", "diverged", "non_finite", "stopped" or "damaged".
    detail, advice : str
        What happened and what to try, a sentence each; "" when there is nothing to say.
    iterations, restarts : int
        Restarts: how often the method started anew from a recomputed residual; cycles of gmres do not count.
    residual_norm : float
        ||b - A x|| / ||b||, recomputed at the end (for b = 0: ||A x||); NaN where the reason is "damaged".
    recurrence_residual_norm : float
        The same quotient with the residual of the method's recurrence.
    projected_norm : float
        With ``nullspace``: the 2-norm of the part of b that was taken out as orthogonal to the range of A; residuals
        are those of the rest, and x is a least-squares solution. Else 0.
    norm : str
        "2" or "max": the norm in which all residuals here are given.
    history : ndarray
        ||r|| / ||b|| of the recurrence residual from iteration 0 on; where a solve has broken down, the last may not
        be finite.
    seconds : dict
        "setup" (conversion, partition, preconditioner), "solve", and "explain" (what the search for the cause of a
        failure took after it, see the option ``explain``); the maximum over ranks.
    counts : dict
        "reductions", "operator_applies", "preconditioner_applies", "exchanges" (this rank's), "messages", "bytes"
        (all ranks').
    trace : list of TraceEvent or None
        Of all ranks, with ``trace=True``.
    warnings : list of str
        Fallbacks taken, pivots that a preconditioner replaced, and the like.
    method, precond, scalar, device : str
        What was used.
    choice : str
        Where method and preconditioner were chosen by trial: what was tried, in one sentence; else "".
    levels : dict or None
        Of "amg" that was named or made: the report of its levels, see :class:`tacit.precond.Reporting`.
    traffic : dict or None
        Of an H-matrix on GPUs: the copies and waits of this solve, counted on this rank
        (:attr:`tacit.DeviceHMatrix.traffic`), those before the first and after the last iteration included.
    unknowns, nonzeros, ranks, threads : int
        nonzeros is 0 when the operator does not know them.
    """

    seconds: dict[str, float]
    unknowns: int
    nonzeros: int
    ranks: int
    rank: int = 0
    threads: int
    scalar: str
    device: str
    rtol: float
    atol: float
    levels: dict[str, Any] | None = None
    trace: list[TraceEvent] | None = None
    traffic: dict[str, float] | None = None

    # Of the compiled report, from which each is read when it is first asked for.
    x: npt.NDArray[Any]
    detail: str
    advice: str
    restarts: int
    recurrence_residual_norm: float
    projected_norm: float
    norm: str
    history: npt.NDArray[np.float64]
    method: str
    precond: str
    choice: str
    _iterations: int

    def __init__(self, x: Any, report: _core.Report, log: Log, facts: dict[str, Any]) -> None:
        facts["x"], facts["converged"], facts["warnings"], facts["_report"] = x, report.converged, log.warnings, report
        self.__dict__ = facts  # the attributes above

    if not TYPE_CHECKING:  # which knows them

        def __getattr__(self, name: str) -> Any:
            report = self.__dict__.get("_report") if name in _OF_REPORT else None
            if report is None:
                return super().__getattribute__(name)  # which says that there is none
            value = self.__dict__[name] = getattr(report, _OF_REPORT[name])
            return value

    def __getstate__(self) -> dict[str, Any]:
        """Everything that there is, for copies and pickles, which cannot have the report."""
        read = {name: getattr(self, name) for name in _OF_REPORT}
        return {name: value for name, value in (read | vars(self)).items() if name != "_report"}

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_OF_REPORT})

    @property
    def iterations(self) -> int:
        return self._iterations

    @property
    def info(self) -> int:
        if self.converged:
            return 0
        failed = {"breakdown": -1, "diverged": -2, "non_finite": -3, "damaged": -4}
        return failed.get(self.reason, max(1, self.iterations))

    if not TYPE_CHECKING:  # which has them of _Pair

        def __iter__(self) -> Iterator[Any]:
            return iter((self.x, self.info))

        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> Any:
            return (self.x, self.info)[i]

    def _solver(self, joined: str = " with ") -> str:
        """The method and, where there is one beside it, the preconditioner."""
        return self.method + ("" if self.precond in ("", "none", self.method) else joined + self.precond)

    def __repr__(self) -> str:
        return (
            f"<tacit.Result: {self.reason} after {self.iterations} iterations of {self._solver()},"
            f" residual {self.residual_norm:.2e}>"
        )

    def summary(self) -> str:
        """A few lines of text: what was solved, how it ended, times and counts."""
        count, seconds = self.counts, self.seconds
        explained = f", explanation {seconds['explain']:.3g} s" if seconds.get("explain") else ""
        lines = [
            f"{self.reason}: ||b - A x|| / ||b|| = {self.residual_norm:.2e} (recomputed; the recurrence said"
            f" {self.recurrence_residual_norm:.2e})",
            f"  {self.method}, precond {self.precond}: {self.iterations} iterations, {self.restarts} restarts",
            f"  {self.unknowns} unknowns, {self.nonzeros or '?'} nonzeros, {self.scalar}; ranks {self.ranks}, threads"
            f" {self.threads}, {self.device}",
            f"  setup {seconds['setup']:.3g} s, solve {seconds['solve']:.3g} s{explained}",
            f"  {count['operator_applies']} products, {count['preconditioner_applies']} preconditioner applies,"
            f" {count['reductions']} reductions, {count['messages']} messages, {count['bytes']} bytes",
        ]
        lines += [f"  {text}" for text in (self.choice, self.detail, self.advice) if text]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace of all ranks as Chrome JSON, for chrome://tracing or Perfetto. Local; rank 0 writes.

        Raises
        ------
        ValueError
            When the solve was not traced.
        """
        if self.trace is None:
            raise ValueError("there is no trace: solve with trace=True")
        if self.rank != 0:
            return
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
            for rank in range(self.ranks)
        ]
        for e in self.trace:
            times = {"ts": round(e.begin * 1e6, 3), "dur": round((e.end - e.begin) * 1e6, 3)}
            place = {"pid": e.rank, "tid": e.thread, "args": {"bytes": e.bytes}}
            events.append({"name": e.name, "cat": e.category, "ph": "X", **times, **place})
        with report.replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as out:
            json.dump({"displayTimeUnit": "ms", "traceEvents": events}, out)

    def _rows(self) -> list[tuple[str, str]]:
        solver = self._solver(", preconditioned by ")
        entries = f", {report.plural(self.nonzeros, 'nonzero')}" if self.nonzeros else ""
        place = f"{report.plural(self.ranks, 'rank')} x {report.plural(self.threads, 'thread')}, {self.device}"
        rows = [("method", solver), ("system", f"{report.plural(self.unknowns, 'unknown')}{entries}, {self.scalar}")]
        rows += [("ran on", place), *super()._rows()]
        more = (("tried", self.choice), ("detail", self.detail), ("advice", self.advice))
        return rows + [(name, text) for name, text in more if text]

    def _picture(self) -> _svg.Picture:
        return _svg.Picture(_svg.convergence([("", self.history)], self.rtol, self.residual_norm))

    def report(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Writes one page of HTML, which needs no other file: convergence, what was tried, time by phase, advice; of a
        solve with ``trace=True`` also time by kind of work, and the bytes moved beside what memory allows, whose speed
        is measured then (0.1 s). Local; rank 0 writes.

        Examples
        --------
        >>> import os, tempfile, numpy as np, tacit
        >>> r = tacit.solve(tacit.poisson((30, 30)), np.ones(900), trace=True)
        >>> r.report(os.path.join(tempfile.mkdtemp(), "solve.html"))
        """
        if self.rank != 0:
            return
        from ..plot import solve_page

        facts = report.document(self, words=[], read_seconds=0.0, rtol=self.rtol, atol=self.atol)
        facts["command"] = []
        solve_page.write_page(path, facts, self.trace, title)

    def plot(self, path: str | os.PathLike[str] | None = None) -> _svg.Picture | None:
        """Plots the residual over the iterations to a file (needs matplotlib). Local; rank 0 writes. Without a path:
        a picture that notebooks show, which needs no matplotlib.
        """
        if path is None:
            return self._picture()
        if self.rank != 0:
            return None
        from ..plot import plotting

        curve = plotting.Curve(self._solver(" + "), self.history.tolist(), None, self.residual_norm)
        plotting.convergence([curve], os.fspath(path), title=f"{self.unknowns:,} unknowns", goal=self.rtol)
        return None


class OneByOne(NamedTuple):
    """What the compiled part reports of several columns, for those that were solved one after another."""

    columns: list[Any]
    alone: str
    counts: dict[str, int]
    seconds: float
    explain_seconds: float
    together: int = 1

    @classmethod
    def of(cls, reports: list[Any], alone: str) -> OneByOne:
        """`alone` says why they were."""
        counts = {key: sum(r.counts[key] for r in reports) for key in reports[0].counts}
        seconds, explain = sum(r.seconds for r in reports), sum(r.explain_seconds for r in reports)
        return cls(reports, alone, counts, seconds, explain)


@dataclasses.dataclass(frozen=True, eq=False)
class ColumnResult:
    """How the solve with one of several right-hand sides ended; see :class:`Result` for the fields."""

    converged: bool
    reason: str
    detail: str
    advice: str
    iterations: int
    restarts: int
    residual_norm: float
    recurrence_residual_norm: float
    history: npt.NDArray[np.float64]
    method: str
    warnings: list[str]


class ColumnsResult(Result):
    """How a solve with k right-hand sides ended. Unpacks as ``x, info``. The fields of :class:`Result` hold for all
    columns together, and ``columns`` for each.

    Attributes
    ----------
    x : ndarray
        Shape (n, k).
    columns : list of ColumnResult
        The outcome of each column.
    converged : bool
        Whether all columns converged.
    reason, detail, advice, method, info
        Of the first column that has not converged, if any, else of the one with most iterations.
    iterations, residual_norm, recurrence_residual_norm
        The largest over the columns.
    restarts : int
        Of all columns.
    history : ndarray
        Of the column with most iterations.
    counts : dict
        As of :class:`Result`, for all columns: an apply to several columns counts as one for each; a reduction or
        exchange for several columns is one.
    together : int
        How many columns were advanced together, at most.
    alone : str
        Where that is 1, the reason; else "".
    """

    columns: list[ColumnResult]
    _column: type[Any] = ColumnResult

    def __init__(self, x: Any, reports: Any, log: Log, facts: dict[str, Any]) -> None:
        each: list[Any] = list(reports.columns)
        slowest = max(range(len(each)), key=lambda c: each[c].iterations)
        shown = next((c for c, r in enumerate(each) if not r.converged), slowest)
        super().__init__(x, each[shown], log, facts)
        kind = self._column
        self.columns = [kind(*(getattr(r, one.name) for one in dataclasses.fields(kind))) for r in each]
        self.choice = each[0].choice
        self.together: int = reports.together
        self.alone: str = reports.alone
        self.converged = all(r.converged for r in each)
        if self.detail and not self.converged:
            self.detail = f"column {shown}: {self.detail}"
        self._iterations = each[slowest].iterations
        self.history = each[slowest].history
        self.restarts = sum(r.restarts for r in each)
        self.residual_norm = float(np.max([r.residual_norm for r in each]))
        self.recurrence_residual_norm = float(np.max([r.recurrence_residual_norm for r in each]))
        self.counts = reports.counts

    def facts(self) -> dict[str, Any]:
        """The facts of all columns, and for each its own."""
        columns = [report.plain(vars(c)) for c in self.columns]
        return {**super().facts(), "columns": columns, "together": self.together, "alone": self.alone}

    def __repr__(self) -> str:
        done = sum(c.converged for c in self.columns)
        return (
            f"<tacit.{type(self).__name__}: {done} of {len(self.columns)} columns converged, {self.reason} after at"
            f" most {self.iterations} iterations of {self._solver()}, largest residual {self.residual_norm:.2e}>"
        )

    def summary(self) -> str:
        """A few lines of text: as of :class:`Result`, and a line for the columns."""
        done = sum(c.converged for c in self.columns)
        how = f"up to {self.together} together" if self.together > 1 else f"one after another: {self.alone}"
        fewest = min(c.iterations for c in self.columns)
        failed = [
            f"  column {i}: {c.reason} at {c.residual_norm:.2e} after {c.iterations} iterations"
            for i, c in enumerate(self.columns)
            if not c.converged
        ][:8]
        first = f"{done} of {len(self.columns)} columns converged, {how}"
        last = f"  {fewest} to {self.iterations} iterations a column; the worst column:"
        return "\n".join([first, *failed, last, super().summary()])
