"""The tables and figures of the five papers that Tacit builds on, and what Tacit gives for each of their numbers.

One row for each table or figure; :data:`ROWS` is the only place where its number in the paper, the way ours is made and
its sizes are written. `tacit reproduce` runs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import paper000, paper001, paper002, paper003, paper004
from .programs import missing
from .row import Claim, Ours, Row, Size, judged

__all__ = ["PAPERS", "ROWS", "Claim", "Ours", "Row", "Size", "chosen", "run"]

_MODULES = {"000": paper000, "001": paper001, "002": paper002, "003": paper003, "004": paper004}
#: What each paper is about.
PAPERS = {number: module.PAPER for number, module in _MODULES.items()}
ROWS: tuple[Row, ...] = tuple(row for module in _MODULES.values() for row in module.ROWS)


def chosen(words: Iterable[str]) -> list[Row]:
    """The rows that words name: "all", a paper ("001") or a row ("001/figure-10"), in their order, each once.

    Raises
    ------
    KeyError
        With the first word that names none.
    """
    wanted = set()
    for word in words:
        found = {row.id for row in ROWS if word in ("all", row.paper, row.id)}
        if not found:
            raise KeyError(word)
        wanted |= found
    return [row for row in ROWS if row.id in wanted]


def run(rows: Sequence[Row], size: Size = "full", show: Callable[[float, str], None] | None = None) -> dict[str, Any]:
    """Makes ours of each row and judges them.

    Parameters
    ----------
    rows : list of Row
        Of :func:`chosen`.
    size : "small" or "full"
        Small: seconds for all rows together, and no verdicts.
    show : callable, optional
        Is called with the share that is done and the row that begins.

    Returns
    -------
    dict
        "rows": of each its id, title, how ours was made, seconds and numbers with verdicts; "verdicts": how often each
        occurs, a row without numbers counting once. The numbers of a row that raises an exception have "failed".
    """
    done = []
    for k, row in enumerate(rows):
        if show:
            show(k / len(rows), row.id)
        done.append(_facts(row, size))
    verdicts: dict[str, int] = {}
    for row_facts in done:
        for judgement in [number["verdict"] for number in row_facts["numbers"]] or [row_facts["verdict"]]:
            verdicts[judgement] = verdicts.get(judgement, 0) + 1
    return {"size": size, "rows": done, "verdicts": verdicts}


def _whole(row: Row) -> str:
    """The verdict of a row without numbers; of others, what `make` does."""
    if row.circular:
        return "circular"
    return "no numbers" if not row.claims else "not reproduced" if row.make is None else "made"


def _facts(row: Row, size: Size) -> dict[str, Any]:
    begin = time.perf_counter()
    why, failed = row.why, ""
    made: dict[str, Ours] = {}
    lacking = missing(row.needs)
    if lacking:
        why = f"it needs {' and '.join(lacking)} of a build with TACIT_BENCH=ON ($TACIT_BUILD says where that is)"
    elif row.make is not None:
        try:
            made = dict(row.make(**(row.small if size == "small" else row.full)))
        except Exception as error:  # the other rows are still worth their minutes
            failed = f"{type(error).__name__}: {error}"
    numbers = [judged(row, claim, made.get(claim.what), size) for claim in row.claims]
    for number in numbers:
        if failed:
            number |= {"verdict": "failed", "reason": failed}
        elif lacking:
            number |= {"verdict": "not reproduced", "reason": why}
    # What a small size gives beside the paper's own sizes.
    known = {claim.what for claim in row.claims}
    further = {what: ours._asdict() for what, ours in made.items() if what not in known}
    return {
        "id": row.id, "paper": row.paper, "title": row.title, "how": row.how, "why": why, "circular": row.circular,
        "verdict": _whole(row),
        "seconds": time.perf_counter() - begin, "numbers": numbers, "further": further,
    }  # fmt: skip
