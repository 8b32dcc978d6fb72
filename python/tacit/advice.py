"""Which method, step and preconditioner for a matrix on a machine with so many ranks, by simulated solves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import comm as _comm
from . import krylov, simulate
from ._support import as_vector, whole_number
from .op import as_operator, stored

__all__ = ["Advice", "Candidate", "advise"]

#: (method, options, iterations between which steps repeat): of matrices that are Hermitian, and of others.
_HERMITIAN: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("cg", {}, 16),
    ("pipelined-cg", {}, 16),
    ("ca-cg", {"step": 4}, 24),
    ("ca-cg", {"step": 8}, 24),
)
_GENERAL: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("bicgstab", {}, 16),
    ("pipelined-bicgstab", {}, 16),
    ("ca-bicgstab", {"step": 2}, 16),
    ("ca-bicgstab", {"step": 4}, 16),
    ("gmres", {}, 30),
    ("pipelined-gmres", {}, 30),
    ("ca-gmres", {"step": 10}, 30),
    ("pipelined-ca-gmres", {"block": 10}, 30),
)
#: Iterations times ranks that are simulated whole; more are extrapolated from two short solves.
_WHOLE = 40_000
_FEW = 8  # ranks on which iterations are counted, where solves are extrapolated
#: More than the clock was off another simulator, and off two real ranks on a delayed wire (docs/theory/simulator.md).
_CLOCK = 0.125
#: What is varied to see what would change the answer: parameters, and in words.
_VARIED: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("four times the latency", {"latency": 4.0}),
    ("a quarter of the latency", {"latency": 0.25}),
    ("four times the noise", {"noise": 4.0}),
    ("no noise", {"noise": 0.0}),
)


class Candidate(NamedTuple):
    """A way to solve, and what it would take.

    Attributes
    ----------
    method, precond : str
    options : dict
    reason : str
        "converged", or how the solve on few ranks ended.
    iterations : int
    seconds : float
        Simulated, of the solve without its set-up; NaN unless it converges.
    least, most : float
        The interval: with messages that advance by themselves and that advance when they are polled, and 12.5 % more
        or less: the clock was off by less against another simulator, and against two real ranks.
    shares : dict
        "sums", "halo" and "kernels": of the simulated time.
    extrapolated : bool
        From two short solves on these ranks and the iterations on few; else the whole solve was simulated.
    """

    method: str
    options: dict[str, Any]
    precond: str
    reason: str
    iterations: int
    seconds: float
    least: float
    most: float
    shares: dict[str, float]
    extrapolated: bool

    @property
    def name(self) -> str:
        words = [self.method, *(f"--{key} {value}" for key, value in self.options.items()), f"--precond {self.precond}"]
        return " ".join(words)

    @property
    def family(self) -> str:
        head = self.method.rpartition("-")[0]
        return head or "classical"


class Advice:
    """What :func:`advise` found: ``print`` shows it.

    Attributes
    ----------
    best : Candidate or None
        None where none converges.
    candidates : list of Candidate
        By seconds; those that do not converge at the end.
    ranks : int
    machine : dict
        All parameters.
    turns : list of (str, Candidate) or None
        What would change the answer, and what is best then; None where that was not tried.
    """

    def __init__(
        self,
        candidates: list[Candidate],
        ranks: int,
        machine: dict[str, Any],
        turns: list[tuple[str, Candidate]] | None = None,
    ) -> None:
        self.candidates = sorted(candidates, key=lambda c: (np.isnan(c.seconds), c.seconds))
        good = [c for c in self.candidates if c.reason == "converged"]
        self.best = good[0] if good else None
        self.ranks, self.machine, self.turns = ranks, machine, turns

    def to_dict(self) -> dict[str, Any]:
        def facts(c: Candidate) -> dict[str, Any]:
            return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in c._asdict().items()}

        return {
            "simulated": True,
            "ranks": self.ranks,
            "machine": self.machine,
            "best": None if self.best is None else facts(self.best),
            "candidates": [facts(c) for c in self.candidates],
            "turns": None if self.turns is None else [{"with": what, "best": facts(c)} for what, c in self.turns],
        }

    def __repr__(self) -> str:
        found = "none converges" if self.best is None else f"{self.best.name}, {self.best.seconds:.3g} s"
        return f"<tacit.Advice for {self.ranks} simulated ranks: {found}>"

    def __str__(self) -> str:
        lines = [f"SIMULATED: {self.ranks} ranks", f"{'seconds':>10}  {'interval':>19} {'iterations':>10}  method"]
        for c in self.candidates:
            if c.reason != "converged":
                lines.append(f"{'-':>10}  {'':19} {c.iterations:10d}  {c.name}: {c.reason}")
                continue
            lines.append(f"{c.seconds:10.4g}  {c.least:9.3g} {c.most:9.3g} {c.iterations:10d}  {c.name}")
        if self.best is None:
            return "\n".join([*lines, "none of these converges; tacit explain-plan names stronger preconditioners"])
        lines.append(f"take {self.best.name}: {_why(self.best, self.candidates)}")
        close = [c for c in self.candidates[1:] if c.least < self.best.most]
        if close:
            lines.append(f"within the interval of it: {'; '.join(c.name for c in close)}")
        for what, c in self.turns or ():
            lines.append(f"with {what}: {c.name}")
        if self.turns == []:
            lines.append("neither four times nor a quarter of the latency, nor of the noise, changes this")
        return "\n".join(lines)


def _why(best: Candidate, candidates: Sequence[Candidate]) -> str:
    """In a sentence, by the shares of the time."""
    plain = next((c for c in candidates if c.family == "classical" and c.reason == "converged"), best)
    parts = ", ".join(f"{100 * share:.0f} % {what}" for what, share in best.shares.items())
    if plain is best:
        return f"its time is {parts}, so that there is little to gain from fewer or hidden sums"
    of = ", ".join(f"{100 * share:.0f} % {what}" for what, share in plain.shares.items())
    return f"{plain.seconds / best.seconds:.2f} times as fast as {plain.method}, whose time is {of}; here {parts}"


class _Study:
    """Simulated solves of one system on one machine."""

    def __init__(self, A: Any, b: Any, ranks: int, machine: dict[str, Any], options: dict[str, Any]) -> None:
        self.A, self.b, self.ranks, self.machine, self.options = A, b, ranks, machine, options

    def solve(self, c: Candidate, ranks: int, machine: Mapping[str, Any], **more: Any) -> simulate.Simulated:
        how = {"explain": False, "fallbacks": False, **self.options, **c.options, **more}
        return simulate.solve(self.A, self.b, ranks=ranks, machine=machine, method=c.method, precond=c.precond, **how)

    def seconds(self, c: Candidate, step: int, machine: Mapping[str, Any]) -> tuple[float, simulate.Simulated]:
        """Of the solve of a candidate whose iterations are known, and the solve that was simulated."""
        if not c.extrapolated:
            made = self.solve(c, self.ranks, machine)
            return made.seconds, made
        short, long = (self.solve(c, self.ranks, machine, max_iterations=k * step) for k in (1, 3))
        slope = (long.seconds - short.seconds) / max(1, long.result.iterations - short.result.iterations)
        return long.seconds + slope * max(0, c.iterations - long.result.iterations), long

    def candidate(self, method: str, options: dict[str, Any], step: int, precond: str, whole: int) -> Candidate:
        nothing = float("nan")
        c = Candidate(method, options, precond, "", 0, nothing, nothing, nothing, {}, False)
        local = precond not in ("none", "jacobi", "polynomial")  # whose iterations depend on the ranks
        counted = self.solve(c, self.ranks if local else min(self.ranks, _FEW), self.machine)
        r = counted.result
        c = c._replace(reason=r.reason, iterations=int(r.iterations))
        if r.reason == "non_finite" and c.iterations == 0:
            raise ValueError(f"{method}: {r.detail or 'A or b has values that are not finite'}")
        if not r.converged:
            return c
        c = c._replace(extrapolated=not local and self.ranks * c.iterations > whole and c.iterations > 3 * step)
        done = local or self.ranks <= _FEW
        seconds, made = (counted.seconds, counted) if done else self.seconds(c, step, self.machine)
        other = seconds
        if method.startswith("pipelined-"):
            mode = "ideal" if self.machine["progress"] != "ideal" else "poll"
            other = self.seconds(c, step, self.machine | {"progress": mode})[0]
        total = sum(phase.seconds for phase in made.phases) or 1.0
        sums = sum(phase.seconds for phase in made.phases if phase.name in ("sum", "agree")) / total
        halo = sum(phase.seconds for phase in made.phases if phase.name == "halo") / total
        return c._replace(
            seconds=seconds,
            least=(1 - _CLOCK) * min(seconds, other),
            most=(1 + _CLOCK) * max(seconds, other),
            shares={"sums": sums, "halo": halo, "kernels": 1 - sums - halo},
        )


def _varied(machine: dict[str, Any], factors: Mapping[str, float]) -> dict[str, Any]:
    made = dict(machine)
    for name, factor in factors.items():
        made[name] = factor * machine[name]
        if any(name in level for level in machine.get("levels", ())):
            made["levels"] = [
                level | ({name: factor * level[name]} if name in level else {}) for level in machine["levels"]
            ]
    return made


def advise(
    A: Any,
    b: Any = None,
    *,
    ranks: int,
    machine: str | os.PathLike[str] | Mapping[str, Any] = "modern",
    preconds: Sequence[str] = ("jacobi",),
    turns: bool = True,
    whole: int = _WHOLE,
    after: Callable[[int, int, str], Any] | None = None,
    **options: Any,
) -> Advice:
    """Which method with which step and preconditioner solves A x = b fastest on `ranks` ranks of a machine.

    Every candidate is solved on simulated ranks (:func:`tacit.simulate.solve`): cg, pipelined-cg and ca-cg for a
    Hermitian A; bicgstab, gmres, and their pipelined, s-step and pipelined s-step forms for others. Where a whole solve
    on all ranks would take long, its iterations are counted on eight ranks, and the time of an iteration is that
    between two short solves on all ranks.

    Parameters
    ----------
    A : sparse matrix, array, or matrix or stencil of Tacit on one rank
        Square, with at least one row for each rank.
    b : array_like, optional
        Shape (n,). Default: ones.
    ranks : int
    machine : str or dict
        See :func:`tacit.simulate.machine`.
    preconds : sequence of str
        Names of preconditioners; all methods are tried with each.
    turns : bool
        Try four times and a quarter of the latency, and other noise, to see what would change the answer.
    whole : int
        Ranks times iterations that are simulated whole.
    after : callable, optional
        ``after(done, all, name)`` after each candidate.
    **options
        Of every solve: ``rtol``, ``atol``, ``max_iterations``, ``restart``.

    Returns
    -------
    Advice
        Seconds do not include set-up.

    Raises
    ------
    ValueError, TypeError
        As :func:`tacit.simulate.solve`; for fewer rows than ranks, and for values that are not finite.

    Examples
    --------
    >>> import tacit
    >>> found = tacit.advise(tacit.poisson((40, 40)), ranks=64, machine="hopper", turns=False)
    >>> found.best.family in ("pipelined", "ca")
    True
    """
    count = whole_number(ranks, "ranks")
    alone = _comm.self_()
    matrix = stored(as_operator(A, alone, krylov.least_scalar(A)), "advice")
    n = matrix.shape[0]
    if not 1 <= count <= n:
        raise ValueError(f"ranks is {ranks}; 1 to {n}, the rows of A, are needed")
    right = np.ones(n, matrix.dtype) if b is None else as_vector(b, "b")
    study = _Study(matrix, right, count, simulate.machine(machine), options)
    ways = _HERMITIAN if matrix.is_hermitian() else _GENERAL
    names = [preconds] if isinstance(preconds, str) else list(preconds)
    steps, found = {}, []
    for precond in names:
        for method, own, step in ways:
            c = study.candidate(method, dict(own), step, precond, whole)
            steps[c.name] = step
            found.append(c)
            if after is not None:
                after(len(found), len(names) * len(ways), c.name)
    advice = Advice(found, count, study.machine)
    if turns and advice.best is not None:
        advice.turns = _turns(study, advice, steps)
    return advice


def _turns(study: _Study, advice: Advice, steps: Mapping[str, int]) -> list[tuple[str, Candidate]]:
    """Variations of the machine under which another family of methods is best, with its best candidate."""
    best: dict[str, Candidate] = {}
    for c in advice.candidates:
        if c.reason == "converged":
            best.setdefault(c.family, c)
    found = []
    for what, factors in _VARIED:
        machine = _varied(study.machine, factors)
        if machine == study.machine:
            continue
        times = {family: study.seconds(c, steps[c.name], machine)[0] for family, c in best.items()}
        winner = best[min(times, key=times.__getitem__)]
        assert advice.best is not None
        if winner.family != advice.best.family:
            found.append((what, winner))
    return found
