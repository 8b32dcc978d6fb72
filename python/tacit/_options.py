"""Described options: what an option is called, may be and means is written down once, in the compiled part
(``include/tacit/base/described.hpp``). ``scripts/describe.py`` brings the tables here, as ``_described.py``.
"""

from __future__ import annotations

import dataclasses
import json
import numbers
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple


class Option(NamedTuple):
    """One option.

    Attributes
    ----------
    kind : str
        "flag", "whole", "real" or "choice".
    default
        None where it may be absent.
    choices : tuple of str
        Of a choice.
    least, most, open_below
        Of a number.
    needed, text, absent : str
        The numbers that it may be; what it is; what holds where it is absent.
    takers : tuple of str
        The methods (preconditioners, ..) that take it; empty: all do.
    """

    kind: str
    default: Any
    choices: tuple[str, ...]
    least: float
    most: float
    open_below: bool
    needed: str
    text: str
    absent: str
    takers: tuple[str, ...]


Table = Mapping[str, Option]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Described:
    """A choice with its options, such as a method: ``tacit.methods.CaGmres(step=10)``."""

    name: ClassVar[str]

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def named(what: str, given: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A name, or an object with options, as a name and all options. TypeError where an option comes twice."""
    if not isinstance(given, Described):
        return given, dict(options)
    own = given.given()
    for name in own:
        if options.get(name) is not None:
            raise TypeError(f"{name} is given twice: in {what}={given!r} and as {name}={options[name]!r}")
    return given.name, {**options, **own}


def of_kind(option: Option, name: str, value: Any) -> Any:
    """`value` as the option holds it; TypeError or ValueError naming it where it is of another kind."""
    from ._support import choose, real_number, whole_number

    if option.kind == "choice":
        return choose(name, value, option.choices)
    if option.kind == "flag":
        whole = isinstance(value, numbers.Integral) and value in (0, 1)
        if not (whole or type(value).__name__ in ("bool_", "bool")):
            raise TypeError(f"{name} is {value!r}; True or False is needed")
        return bool(value)
    return whole_number(value, name) if option.kind == "whole" else real_number(value, name)


def fill(target: Any, where: str, table: Table, given: Mapping[str, Any], beside: tuple[str, ...] = ()) -> None:
    """Sets what is given on the options of the compiled part. `beside`: other names that `where` knows, for its
    messages. Ranges are checked by the compiled part.
    """
    from ._support import refuse_unknown

    refuse_unknown(where, {name: 0 for name in given if name not in table}, [*beside, *table])
    for name, value in given.items():
        if value is not None:
            setattr(target, name, of_kind(table[name], name, value))


def told(target: Any, table: Table) -> dict[str, float | str]:
    """The options as ranks compare them: numbers, and the rest as text."""
    return {name: told_value(getattr(target, name)) for name in table}


def told_value(value: Any) -> float | str:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return repr(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def take_numbers(target: Any, table: Table, first: Mapping[str, float | str]) -> None:
    """Takes over another rank's real numbers, which differ from those here by rounding at most."""
    for name, option in table.items():
        value = first[name]
        if option.kind == "real" and not isinstance(value, str):
            setattr(target, name, value)


def agree(on: Any, target: Any, table: Table, **more: float | str) -> None:
    """ValueError on every rank where options, or `more`, differ between ranks; takes rank 0's real numbers. Collective,
    one message round.
    """
    if on.size == 1:
        return
    from ._support import refuse_differences

    alike = [json.loads(part) for part in on.all_gather(json.dumps({**told(target, table), **more}).encode())]
    refuse_differences(alike)
    take_numbers(target, table, alike[0])


def from_text(option: Option, name: str, text: str) -> Any:
    """What a text of the command line stands for; ValueError naming the option where it is none of its values."""
    try:
        if option.kind == "flag":
            return {"true": True, "false": False}[text.lower()]
        return text if option.kind == "choice" else int(text) if option.kind == "whole" else float(text)
    except (KeyError, ValueError):
        needed = {"flag": "true or false", "whole": "a whole number"}.get(option.kind, "a number")
        raise ValueError(f'{name} is "{text}"; {needed} is needed') from None
