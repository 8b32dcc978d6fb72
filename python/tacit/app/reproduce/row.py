"""What a row of the reproduction is: a table or figure of a paper, its numbers, how ours are made, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

#: How far ours may be from the paper's, relative to the paper's.
NEAR = 0.25

Size = Literal["small", "full"]


class Ours(NamedTuple):
    """What Tacit gives for one number: measured or counted here, or simulated.

    Attributes
    ----------
    measured : float, optional
        Of this machine: seconds' ratios, or counts that hold on any machine.
    simulated : float, optional
        On simulated ranks whose messages advance as they do with Tacit's own engine and an MPI library, when it is
        polled.
    ideal : float, optional
        The same with messages that advance by themselves.
    """

    measured: float | None = None
    simulated: float | None = None
    ideal: float | None = None


@dataclass(frozen=True)
class Claim:
    """One number of a paper. `apart`: why ours differs by more than a quarter, or why there is none, in a sentence."""

    what: str
    paper: float
    unit: str = ""
    apart: str = ""


@dataclass(frozen=True)
class Row:
    """A table or figure.

    Attributes
    ----------
    id : str
        "001/figure-10".
    make : callable, optional
        (**size) -> {what: Ours}; None where the row is not reproduced.
    small, full : dict
        The arguments of `make` for a test, and for the sizes of the paper or near them.
    how : str
        In a sentence, how ours are made.
    why : str
        Without `make`: why the row is not reproduced.
    circular : str
        Why ours could not differ: what of the paper went into it.
    needs : tuple of str
        Programs of bench/ that `make` runs.
    """

    id: str
    title: str
    claims: tuple[Claim, ...] = ()
    make: Callable[..., Mapping[str, Ours]] | None = None
    small: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    why: str = ""
    circular: str = ""
    needs: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        return self.id.partition("/")[0]


def near(paper: float, ours: float) -> bool:
    """Whether ours is within a quarter of the paper's."""
    return abs(ours - paper) <= NEAR * abs(paper)


def judged(row: Row, claim: Claim, ours: Ours | None, size: Size) -> dict[str, Any]:
    """The facts of one number, with a verdict: "within 25 %", "apart", "circular", "small size" or "not reproduced"."""
    value = None if ours is None else ours.measured if ours.measured is not None else ours.simulated
    reason = claim.apart
    if row.make is None or (value is None and size == "full"):
        verdict, reason = "not reproduced", reason or row.why
    elif size == "small":
        verdict, reason = "small size", ""
    elif row.circular:
        verdict, reason = "circular", row.circular
    elif value is not None and near(claim.paper, value):
        verdict, reason = f"within {100 * NEAR:.0f} %", ""
    else:
        verdict = "apart"
    return {
        "what": claim.what,
        "unit": claim.unit,
        "paper": claim.paper,
        **(ours or Ours())._asdict(),
        "ratio": None if value is None or claim.paper == 0 else value / claim.paper,
        "verdict": verdict,
        "reason": reason,
    }
