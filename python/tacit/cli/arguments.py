"""What the command's arguments are made of: their kinds, and a parser that names the nearest known word."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tacit import _names, launch
from tacit._described import PRECOND, PRECOND_NAMES
from tacit._options import Option, Table, from_text

OK, USAGE, NOT_CONVERGED, INPUT, ENVIRONMENT, INTERRUPTED = 0, 2, 3, 4, 5, 130
SCALARS = ("float64", "float32", "complex128", "complex64")
OUTPUTS = (".mtx", ".npy", ".npz", ".petsc")
SIZES = ("s", "m", "l")
PLOTS = (".png", ".pdf", ".svg")
THREADS = "threads of a rank [the cores, shared by the ranks]"


class WrongUse(Exception):
    """Arguments that do not fit."""


def nearest(name: str, known: Sequence[str]) -> str:
    """'; did you mean "gmres"?', or nothing when no known name resembles or means the same elsewhere."""
    meant = _names.nearest(name, known)
    return "" if meant is None else f'; did you mean "{meant}"?'


def one_of(what: str, known: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f'unknown {what} "{text}"{nearest(text, known)} ({", ".join(known)})')
        return text

    return check


def whole(least: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f'expected a whole number from {least}, found "{text}"')
        return value

    return check


def real(least: float, strictly: bool = False) -> Callable[[str], float]:
    def check(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < least or (strictly and value == least):
            raise argparse.ArgumentTypeError(
                f'expected a number {"above" if strictly else "from"} {least:g}, found "{text}"'
            )
        return value

    return check


def named_options(
    text: str, what: str, names: Sequence[str], value: Callable[[str, str, str], Any]
) -> tuple[str, dict[str, Any]]:
    """NAME:OPTION=VALUE,... as a name and options; value(name, option, text) says what a text stands for."""
    name, colon, rest = text.partition(":")
    one_of(what, names)(name)
    options = {}
    for item in rest.split(",") if colon else ():
        key, equals, word = item.partition("=")
        if not (key and equals and word):
            raise argparse.ArgumentTypeError(f'expected {name}:OPTION=VALUE,..., found "{text}"')
        option = key.strip().replace("-", "_")
        options[option] = value(name, option, word.strip())
    if options and name == "none":
        raise argparse.ArgumentTypeError(f'"none" takes no options, found "{text}"')
    return name, options


def preconditioner(text: str) -> tuple[str, dict[str, Any]]:
    """Of a stored matrix."""

    def value(name: str, option: str, word: str) -> Any:
        known = [key for key, one in PRECOND.items() if name in one.takers]
        if option not in known:
            takes = f" ({', '.join(known)})" if known else "; it takes none"
            raise argparse.ArgumentTypeError(f'{name} has no option "{option}"{nearest(option, known)}{takes}')
        try:
            return from_text(PRECOND[option], option, word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return named_options(text, "preconditioner", PRECOND_NAMES, value)


def right_hand_side(text: str) -> str:
    if text.startswith("random") and text != "random":
        seed = text.removeprefix("random:")
        if seed == text or not seed.isdigit():
            raise argparse.ArgumentTypeError(f'expected random:SEED with a whole number, found "{text}"')
    return text


def destination(suffixes: Sequence[str]) -> Callable[[str], str]:
    """A file that can be written: its folder exists (that of the file behind a link), its suffix is known."""

    def check(text: str) -> str:
        path = Path(text)
        if suffixes and path.suffix not in suffixes and not text.endswith(".mtx.gz"):
            raise argparse.ArgumentTypeError(f'"{text}" must end in one of {", ".join(suffixes)}')
        folder = Path(os.path.realpath(text)).parent if path.is_symlink() else path.parent
        device = path.exists() and not path.is_file()  # written to as it is
        if not device and not folder.is_dir():
            raise argparse.ArgumentTypeError(f"the folder {folder} does not exist")
        if path.is_dir() or not os.access(path if device else folder, os.W_OK):
            raise argparse.ArgumentTypeError(f"{text} cannot be written")
        return text

    return check


def json_target(text: str) -> str:
    return text if text == "-" else destination(())(text)


def add_json(group: Any, what: str = "the result") -> None:
    """``--json [FILE|-]``, the same for every command."""
    group.add_argument(
        "--json", nargs="?", const="-", type=json_target, metavar="FILE|-", help=f"write {what} as JSON [-]"
    )


class Parser(argparse.ArgumentParser):
    """Refuses in one line that names the nearest known word; of several ranks only the first speaks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        place = launch.launched()
        message = message.removeprefix("argument ")
        if place is None or place[0] == 0:
            sys.stderr.write(f"{self.prog}: {message}\n{self.prog} --help shows what there is\n")
        raise SystemExit(USAGE)

    def parse_all(self, words: Sequence[str]) -> argparse.Namespace:
        arguments, rest = self.parse_known_args(words)
        if rest:
            parser = getattr(arguments, "parser", self)
            known = [name for name in parser._option_string_actions if name.startswith("--")]
            word = rest[0].partition("=")[0]
            parser.error(
                f'unknown option "{word}"{nearest(word, known)}'
                if word.startswith("-")
                else f'unexpected argument "{word}"'
            )
        return arguments


def choice(
    group: Any, option: str, what: str, known: Sequence[str], before: str = "", default: str | None = None
) -> None:
    """An option that takes one of some names; the first unless `default` says what happens without it."""
    group.add_argument(
        option,
        default=None if default else known[0],
        type=one_of(what, known),
        metavar="NAME",
        help=f"{before}{', '.join(known)} [{default or known[0]}]",
    )


def add_options(group: Any, table: Table, names: Sequence[str]) -> None:
    """The options of these names as arguments, absent where they are not given."""
    for name in names:
        option = table[name]
        flag = "--" + name.replace("_", "-")
        whose = ", ".join(option.takers)
        text = f"{whose}: {option.text}" if whose else option.text
        if option.kind == "flag":
            word = flag if not option.default else f"--no-{flag[2:]}"
            group.add_argument(word, dest=name, action="store_const", const=not option.default, help=_plain(text))
            continue
        default = option.absent or str(option.default)
        if option.choices:
            text += f": {', '.join(option.choices)}"
        group.add_argument(
            flag,
            type=one_of(name.replace("_", "-"), option.choices) if option.choices else _number(option),
            metavar="NAME" if option.choices else "N" if option.kind == "whole" else "X",
            help=f"{_plain(text)} [{_plain(default)}]",
        )


def given(arguments: argparse.Namespace, table: Table) -> dict[str, Any]:
    """The options of the table that were given on the command line."""
    values = {name: getattr(arguments, name, None) for name in table}
    return {name: value for name, value in values.items() if value is not None}


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _number(option: Option) -> Callable[[str], float]:
    kind = int if option.kind == "whole" else float

    def check(text: str) -> float:
        try:
            value: float = kind(text)
        except ValueError:
            value = math.nan
        low = value > option.least if option.open_below else value >= option.least
        if not (low and value <= option.most and math.isfinite(value)):
            raise argparse.ArgumentTypeError(f'expected {option.needed}, found "{text}"')
        return value

    return check
