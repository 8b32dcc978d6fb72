"""Options from tables: name, values, default and meaning of each option are defined once, in the compiled part
(``include/tacit/base/described.hpp``). ``scripts/describe.py`` writes these tables to ``_described.py``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import re
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, dataclass_transform


class Option(NamedTuple):
    """An entry of a table.

    Attributes
    ----------
    kind : str
        "flag", "whole", "real", "choice" or "wholes" (several whole numbers).
    default
        None where the option may be absent.
    choices : tuple of str
        The names that a choice may have.
    least, most, open_below, step
        The range of a number: ``open_below`` excludes ``least``; if ``step`` is not 0, only its multiples are allowed.
    needed, text, absent : str
        The allowed numbers in words, for messages; the option's meaning; what holds where it is absent.
    takers : tuple of str
        The methods (preconditioners, ..) that take the option; empty: all do.
    inner : mapping, optional
        The table of a choice that has options of its own. An object with options may then be given as well as a name.
    """

    kind: str
    default: Any
    choices: tuple[str, ...]
    least: float
    most: float
    open_below: bool
    step: int
    needed: str
    text: str
    absent: str
    takers: tuple[str, ...]
    inner: Mapping[str, Option] | None = None

    def has(self, value: float) -> bool:
        """Is the number in the range? (An open upper end is checked by the compiled part.)"""
        low = value > self.least if self.open_below else value >= self.least
        return low and value <= self.most and math.isfinite(value) and not (self.step and value % self.step)


Table = Mapping[str, Option]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Described:
    """A choice with its options, such as a method: ``tacit.methods.CaGmres(step=10)``."""

    name: ClassVar[str]  #: from the name of the class: "ca-gmres" for CaGmres
    #: For messages: what the object is, and the argument that takes it.
    _role: ClassVar[tuple[str, str]]

    def __init_subclass__(cls) -> None:
        cls.name = re.sub("(?<=.)([A-Z])", r"-\1", cls.__name__).lower()
        dataclasses.dataclass(frozen=True, kw_only=True, repr=False)(cls)

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"


class Method(Described):
    """A method of :func:`tacit.solve` with its options; see :mod:`tacit.methods`."""

    _role = ("a method of a solve", "method=, or the method of tacit.precond.Inner")


class Preconditioner(Described):
    """A preconditioner with its options; see :mod:`tacit.precond`."""

    _role = ("a preconditioner", "precond=")


def of_its_kind(what: str, given: Any, kind: type[Described]) -> Any:
    """`given`; TypeError, which names the argument that would take it, where it is an object of another kind."""
    if isinstance(given, Described) and not isinstance(given, kind):
        raise TypeError(f"{what} is {given!r}, {given._role[0]}; its place is {given._role[1]}")
    return given


def named(what: str, given: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The name of a method that is given by name or as an object, and all its options. TypeError where an option is
    given twice.
    """
    if not isinstance(of_its_kind(what, given, Method), Described):
        return given, dict(options)
    own = given.given()
    for name in own:
        if options.get(name) is not None:
            raise TypeError(_twice(name, what, given, options[name]))
    return given.name, {**options, **own}


def _twice(name: str, what: str, given: Described, value: Any) -> str:
    return f"{name} is given twice: in {what}={given!r} and as {name}={value!r}"


def of_kind(option: Option, name: str, value: Any) -> Any:
    """`value` in the option's type; TypeError or ValueError with the option's name where it is of another kind."""
    if option.kind == "choice":
        if isinstance(value, str) and value not in option.choices:  # in another case
            value = next((one for one in option.choices if one.lower() == value.lower()), value)
        return _support().choose(name, value, option.choices)
    if option.kind == "flag":
        if value is True or value is False:
            return value
        whole = isinstance(value, numbers.Integral) and value in (0, 1)
        if not (whole or type(value).__name__ in ("bool_", "bool")):
            raise TypeError(f"{name} is {value!r}; True or False is needed")
        return bool(value)
    if option.kind == "wholes":
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            raise TypeError(f"{name} is {value!r}; a sequence of whole numbers is needed")
        return [_support().whole_number(one, name) for one in value]
    if option.kind == "whole":
        return _support().whole_number(value, name, option.most)
    return _support().real_number(value, name)


@functools.cache
def _support() -> Any:
    """Found at the first use, since it needs NumPy; an import within a function takes a microsecond at each call."""
    from . import _support

    return _support


def fill(target: Any, where: str, table: Table, given: Mapping[str, Any], beside: tuple[str, ...] = ()) -> Any:
    """Sets the attributes of `target`, the compiled part's options, to what is given, and returns `target`.

    `where` is the name of the function in messages, `beside` its arguments that are not in the table. Ranges are
    checked by the compiled part.
    """
    if unknown := [name for name in given if name not in table]:
        _support().refuse_unknown(where, dict.fromkeys(unknown), [*beside, *table])
    inside: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, Described) and table[name].inner is not None:
            own = of_its_kind(name, value, Method).given()
            fill(getattr(target, f"{name}_options"), f"{name}={value!r}", table[name].inner or {}, own)
            setattr(target, name, of_kind(table[name], name, value.name))
            inside |= dict.fromkeys(own, name)
    for name, value in given.items():
        option = table[name]
        if isinstance(value, Described) and option.inner is not None:
            continue
        if name in inside and value is not None and getattr(target, name) is not None:
            raise TypeError(_twice(name, inside[name], given[inside[name]], value))
        if value is not None or not option.absent:
            setattr(target, name, of_kind(option, name, value))
    return target


def _with_inner(target: Any, table: Table) -> list[tuple[str, Any, Table]]:
    """The options, then those of each object that they name, each with a prefix for its names in messages."""
    found = [("", target, table)]
    for name, option in table.items():
        if option.inner is not None and hasattr(target, f"{name}_options"):
            found.append((f"{name}'s ", getattr(target, f"{name}_options"), option.inner))
    return found


def compared_form(target: Any, table: Table) -> dict[str, float | str]:
    """The options in the form that ranks compare: numbers, everything else as text."""
    return {
        whose + name: compared_value(getattr(part, name))
        for whose, part, own in _with_inner(target, table)
        for name in own
    }


def compared_value(value: Any) -> float | str:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return repr(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def take_numbers(target: Any, table: Table, first: Mapping[str, float | str]) -> None:
    """Replaces the real numbers by those of another rank, which differ by rounding at most, so that all ranks have the
    same bits.
    """
    for whose, part, own in _with_inner(target, table):
        for name, option in own.items():
            value = first[whose + name]
            if option.kind == "real" and not isinstance(value, str):
                setattr(part, name, value)


def agree(on: Any, target: Any, table: Table, **more: Any) -> Mapping[str, Any]:
    """Checks that all ranks have the same options and the same `more`: ValueError on every rank where they differ by
    more than rounding (see :mod:`tacit._alike`). Takes rank 0's real numbers and returns rank 0's `more`. Collective;
    one small reduction.
    """
    from ._alike import same

    if on.size == 1:
        return same(on, more)
    first = same(on, {**compared_form(target, table), **more})
    take_numbers(target, table, first)
    return {name: first[name] for name in more}
