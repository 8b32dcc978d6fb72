"""What a solve would try, and why: the tables of the compiled part, without a solve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import _core, op
from .. import comm as _comm
from .._described import SOLVE_NAMES
from .._support import agreed, choose, core

SCHEMA = "tacit.plan/1"


class Candidate(NamedTuple):
    """A row of the table of what ``auto`` tries."""

    what: str  # method and preconditioner, in words
    when: str  # for which matrices
    tried_if: str  # what attempts before must have shown; "": nothing
    why: str
    method: str = ""  # of a matrix for which the row holds, with all that follows
    precond: str = ""
    options: str = ""
    trial: int = 0  # iterations before it may be given up; 0: it is not
    patience: float = 0.0  # iterations still to come for which it is not given up


class Rule(NamedTuple):
    """A rule by which a solve begins (no outcomes) or goes on after a run with one of these outcomes."""

    after: list[str]
    when: str
    then: str


class Plan:
    """What a solve would try; printed, it is a text.

    Attributes
    ----------
    facts : dict or None
        What the choice depends on, of the matrix; None without one.
    candidates : list of Candidate
        What ``auto`` tries, in this order. Without a matrix: all rows of the table.
    left_out : list of Candidate
        The rows that do not hold for this matrix.
    rules : list of Rule
        The rules of each of these solves, and of one whose preconditioner is named, in the order in which they are
        looked at.
    fault : str
        What is not finite in A: a solve then only says so. "": nothing.
    """

    def __init__(self, found: dict[str, Any] | None = None) -> None:
        rows = [Candidate(**row) for row in (_core.candidate_rows() if found is None else found["rows"])]
        self.facts: dict[str, Any] | None = None if found is None else found["facts"]
        self.fault: str = "" if found is None else found["fault"]
        self.candidates = [row for row in rows if found is None or row.method]
        self.left_out = [row for row in rows if found is not None and not row.method]
        self.rules = [Rule(**row) for row in _core.plan_rows()]

    def to_dict(self) -> dict[str, Any]:
        """The plan as a document for JSON."""
        rows = {name: [row._asdict() for row in getattr(self, name)] for name in ("candidates", "left_out", "rules")}
        if self.facts is None:  # no row has been decided
            words = ("what", "when", "tried_if", "why")
            rows["candidates"] = [{name: row[name] for name in words} for row in rows["candidates"]]
            del rows["left_out"]
        more = {} if self.facts is None else {"facts": self.facts, "fault": self.fault}
        return {"schema": SCHEMA} | more | rows

    def __str__(self) -> str:
        if self.facts is None:
            return str(_core.candidate_table()) + "\n" + str(_core.plan_table())
        return "\n".join(_sentences(self)) + "\n"

    def __repr__(self) -> str:
        return f"<Plan: {len(self.candidates)} candidates{'' if self.facts is None else ' for a matrix'}>"


def explain_plan(A: Any = None, *, method: str = "auto", ranks: int | None = None, comm: Any = None) -> Plan:
    """What :func:`tacit.solve` would try, and why, without solving. Collective where A is given.

    Parameters
    ----------
    A : matrix or stored operator, optional
        Without it the plan has the tables: all candidates of ``auto`` with their conditions, and the rules of a solve.
        With it: the candidates for this matrix in their order, and those that are left out. Some are tried only where
        attempts before them have shown something (``tried_if``).
    method : str
        Of the solve; a name other than ``auto`` goes with ``precond="auto"``. Needs A.
    ranks : int, optional
        As on so many ranks; default: those that share A. Needs A.
    comm : communicator, optional

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        For a matrix that is not square, and for an operator whose entries are not known: it is solved with one method
        and no preconditioner, by the rules alone.

    Notes
    -----
    Costs an exchange, some reductions, and passes over the matrix; nothing is factorised, so whether complete factors
    fit the memory is not decided.

    Examples
    --------
    >>> import tacit
    >>> plan = tacit.explain_plan(tacit.poisson((70, 70)))
    >>> [c.precond for c in plan.candidates][:3]
    ['none', 'amg', 'amg']
    """
    if A is None:
        if method != "auto" or ranks is not None:
            raise ValueError("method and ranks are of the plan for a matrix, and A was not given")
        return Plan()
    on = A.comm if comm is None and isinstance(A, op.Operator) else _comm.resolve(comm)

    def checked() -> None:
        choose("method", method, SOLVE_NAMES)
        if ranks is not None and (isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1):
            raise ValueError(f"ranks is {ranks!r}; a whole number from 1 is needed")
        if _core.needs_factors(method):
            raise ValueError(f'method "{method}" has its own preconditioner: there are no candidates')

    agreed(on, checked)
    matrix = op.stored(op.worth_storing(op.as_operator(A, on)), "explain_plan")
    return Plan(core("plan_candidates", matrix._scalar)(matrix._handle, method, ranks))


def _sentences(plan: Plan) -> Iterator[str]:
    """The lines of a plan for a matrix."""
    f = plan.facts or {}
    place = "several ranks" if f["several_ranks"] else "one rank"
    yield f"{f['unknowns']} unknowns, {f['entries']} entries; on {place}"
    diagonal = "of one sign" if f["diagonal_of_one_sign"] else "not of one sign, or A is not Hermitian"
    yield f"{'Hermitian' if f['hermitian'] else 'not Hermitian'}; its diagonal: {diagonal}"
    yield (
        f"zeros on the diagonal: {f['zeros_on_diagonal']:.3g} of the rows; largest over smallest of the others:"
        f" {f['spread_of_diagonal']:.3g}"
    )
    if f["network"]:
        yield "half of the rows have two or three entries (a network)"
    if plan.fault:
        yield f"{plan.fault}: a solve does no iteration"
        return
    yield "auto tries, in this order, until one solves:"
    for number, row in enumerate(plan.candidates, 1):
        name = row.method if row.precond in ("none", row.method) else f"{row.method} with {row.precond}"
        yield f"{number:3d}. {name}{f' ({row.options})' if row.options else ''}: {row.why}"
        if row.tried_if:
            yield f"     only if {row.tried_if}"
        if row.trial:
            yield f"     given up after {row.trial} iterations or more if over {row.patience:.0f} are to come"
    yield "left out, since these conditions do not hold:"
    for row in plan.left_out:
        yield f"   - {row.what}: {row.when}"
