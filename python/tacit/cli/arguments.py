"""Parts of the command line: types of arguments, and a parser whose errors name the nearest known word."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tacit import _names, launch
from tacit._options import Option, Table

OK, USAGE, NOT_CONVERGED, INPUT, ENVIRONMENT, INTERRUPTED = 0, 2, 3, 4, 5, 130
SCALARS = ("float64", "float32", "complex128", "complex64")
OUTPUTS = (".mtx", ".npy", ".npz", ".petsc")
SIZES = ("s", "m", "l")
PLOTS = (".png", ".pdf", ".svg")


class WrongUse(Exception):
    """Arguments that are wrong or do not fit together."""


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


def preconditioner(table: Table, names: Sequence[str]) -> Callable[[str], dict[str, Any]]:
    """The type of a preconditioner, NAME:OPTION=VALUE,... with one of these names; the value is a dict."""

    def check(text: str) -> dict[str, Any]:
        name, colon, rest = text.partition(":")
        one_of("preconditioner", names)(name)
        if name == "auto" and not colon:
            return {"name": name}
        known = [key for key, option in table.items() if name in option.takers]
        found: dict[str, Any] = {"name": name}
        for item in rest.split(",") if colon else ():
            key, equals, word = (part.strip() for part in item.partition("="))
            if not (key and equals and word):
                raise argparse.ArgumentTypeError(f'expected {name}:OPTION=VALUE,..., found "{text}"')
            key = key.replace("-", "_")
            if key not in known:
                takes = f" ({', '.join(known)})" if known else "; it takes none"
                raise argparse.ArgumentTypeError(f'{name} has no option "{key}"{nearest(key, known)}{takes}')
            if key in found:
                raise argparse.ArgumentTypeError(f'{key} is given twice in "{text}"')
            try:
                found[key] = _kind(table[key], key)(word)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentTypeError(f"{name}'s {key}: {error}") from None
        return found

    return check


def matching(pattern: str, what: str, kind: Callable[..., Any]) -> Callable[[str], Any]:
    """The type of a text that matches the pattern as a whole; its value is kind(*groups)."""

    def check(text: str) -> Any:
        found = re.fullmatch(pattern, text)
        if not found:
            raise argparse.ArgumentTypeError(f'expected {what}, found "{text}"')
        return kind(*found.groups())

    return check


def right_hand_side(text: str) -> str:
    if text.startswith("random") and text != "random":
        seed = text.removeprefix("random:")
        if seed == text or not seed.isdigit():
            raise argparse.ArgumentTypeError(f'expected random:SEED with a whole number, found "{text}"')
    return text


def destination(suffixes: Sequence[str]) -> Callable[[str], str]:
    """The type of an output file: its folder exists (for a link, that of its target), and its suffix is known."""

    def check(text: str) -> str:
        path = Path(text)
        if suffixes and path.suffix not in suffixes and not text.endswith(".mtx.gz"):
            raise argparse.ArgumentTypeError(f'"{text}" must end in one of {", ".join(suffixes)}')
        folder = Path(os.path.realpath(text)).parent if path.is_symlink() else path.parent
        device = path.exists() and not path.is_file()  # a device or pipe is written to directly
        if not device and not folder.is_dir():
            raise argparse.ArgumentTypeError(f"the folder {folder} does not exist")
        if path.is_dir() or not os.access(path if device else folder, os.W_OK):
            raise argparse.ArgumentTypeError(f"{text} cannot be written")
        return text

    return check


def json_target(text: str) -> str:
    return text if text == "-" else destination(())(text)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with the nearest known word. On several ranks only the first prints them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        place = launch.launched()
        message = message.removeprefix("argument ")
        if place is None or place[0] == 0:
            text = _names.printable(message)
            sys.stderr.write(f"{self.prog}: {text}\n{self.prog} --help shows what there is\n")
        raise SystemExit(USAGE)

    def parse_all(self, words: Sequence[str]) -> argparse.Namespace:
        arguments, rest = self.parse_known_args(words)
        if rest:
            parser = getattr(arguments, "parser", self)
            known = [name for name in parser._option_string_actions if name.startswith("--")]
            word = rest[0].partition("=")[0]
            unknown = f'unknown option "{word}"{nearest(word, known)}'
            parser.error(unknown if word.startswith("-") else f'unexpected argument "{word}"')
        return arguments


class Arguments:
    """Adds the arguments of a command, in the sections of its help.

    >>> a("--n N", "cells along each axis", whole(1), 64)  # doctest: +SKIP
    """

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser
        self._section: Any = parser

    def section(self, title: str) -> None:
        self._section = self.parser.add_argument_group(title)

    def __call__(
        self,
        name: str,
        text: str = "",
        kind: Callable[[str], Any] | None = None,
        default: Any = None,
        *,
        also: Sequence[str] = (),
        known: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """Adds an option with the name of its value ("--n N"), a flag ("--ell"), or a positional argument ("mesh
        MESH"). The help ends with the default if there is one; otherwise `text` states what holds without the option.
        `also`: further names of the option; `known`: values that a shell completes.
        """
        name, _, value = name.partition(" ")
        if value:
            more |= {"metavar": value, "default": default} | ({"type": kind} if kind else {})
        elif name.startswith("-"):
            more["action"] = "store_true"
        shown = _shown(default) if isinstance(default, (int, float, str)) and default is not False else ""
        text = _plain(f"{text} [{shown}]".lstrip() if shown else text)
        self._section.add_argument(name, *also, help=text or None, **more).known = known

    def choice(self, name: str, known: Sequence[str], before: str = "", default: str = "", what: str = "") -> None:
        """Adds an option with one of the known names. Default: the first, or what `default` says in words."""
        kind = one_of(what or name.lstrip("-").replace("-", " "), known)
        text = f"{before}: " if before else ""
        text += f"{', '.join(known)} [{default or known[0]}]"
        self._section.add_argument(
            name, default=None if default else known[0], type=kind, metavar="NAME", help=_plain(text)
        ).known = known

    def options(self, table: Table, names: Iterable[str] | None = None, takers: bool = True) -> None:
        """Adds the options of a table, without defaults. With `takers` the help says which methods take each option."""
        for name in table if names is None else names:
            option = table[name]
            flag = "--" + name.replace("_", "-")
            whose = ", ".join(option.takers) if takers else ""
            text = f"{whose}: {option.text}" if whose else option.text
            if option.kind == "flag" and option.absent not in ("", "false"):  # which is neither true nor false
                action = argparse.BooleanOptionalAction
                self._section.add_argument(flag, dest=name, action=action, help=_plain(f"{text} [{option.absent}]"))
                continue
            if option.kind == "flag":
                word = flag if not option.default else f"--no-{flag[2:]}"
                const = not option.default
                self._section.add_argument(word, dest=name, action="store_const", const=const, help=_plain(text))
                continue
            if option.choices:
                text += f": {', '.join(option.choices)}"
            default = option.absent or _shown(option.default)
            value = {"choice": "NAME", "real": "X", "whole": "N"}.get(option.kind, "N,N")
            shown = _plain(f"{text} [{default}]" if default else text)
            kind = _kind(option, flag[2:])
            made = self._section.add_argument(flag, dest=name, type=kind, metavar=value, help=shown)
            made.known = option.choices

    def where(self, ranks: bool = True) -> None:
        """``--ranks N`` and ``--threads N``."""
        if ranks:
            self("--ranks N", "MPI ranks, started here [1, or those of mpiexec]", whole(1))
        self("--threads N", "threads of a rank [the cores, shared by the ranks]", whole(1))

    def device(
        self, text: str = "host; cuda: the GPU of each rank; cuda:N: that GPU", other: str = "", several: bool = False
    ) -> None:
        """``--device NAME``, the same for every command; other: a further name that this one takes; several: whether it
        takes several GPUs together.
        """
        names = [*(["cuda:N,N"] if several else []), *([other] if other else [])]
        text_of_names = ", ".join(["host", "cuda", "cuda:N", *names][:-1]) + f" or {['cuda:N', *names][-1]}"
        more = "(?:,[0-9]+)*" if several else ""
        pattern = f"(host|cuda(?::[0-9]+{more})?{'|' + other if other else ''})"
        known = ("host", "cuda", *([other] if other else []))
        self("--device NAME", text, matching(pattern, text_of_names, str), "host", known=known)

    def json(self, what: str = "the result") -> None:
        """``--json [FILE|-]``, the same for every command."""
        self("--json FILE|-", f"write {what} as JSON [-]", json_target, nargs="?", const="-")

    def settings(self) -> None:
        """``--config FILE`` and ``--show-options``, the same for every command."""
        self.section("settings")
        self("--config FILE", "take options from this TOML file, before those of TACIT_OPTIONS and tacit.toml")
        self("--show-options", "print every option with its value and where that comes from, and do nothing else")

    def plot(self, text: str) -> None:
        self("--plot FILE", text, destination(PLOTS))


def given(arguments: argparse.Namespace, table: Table, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The options of the table that were given on the command line."""
    values = {name: getattr(arguments, name, None) for name in (table if names is None else names)}
    return {name: value for name, value in values.items() if value is not None}


def check_files(arguments: argparse.Namespace, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Refuses two outputs to one file, and an output to an input file."""
    seen: dict[str, str] = {}
    for name in (*inputs, *outputs):
        path = getattr(arguments, name)
        if not path or path == "-" or (name in inputs and not os.path.exists(path)):
            continue
        word = f"--{name.replace('_', '-')}" if name != "file" else "FILE"
        other = seen.setdefault(os.path.realpath(path), word)
        if other != word and name in outputs:
            raise WrongUse(f"{word} and {other} are the same file, {path}")


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _kind(option: Option, name: str) -> Callable[[str], Any]:
    """The function that converts the text of an option to its value."""
    if option.choices:
        return one_of(name, option.choices)

    def check(text: str) -> Any:
        try:
            if option.kind == "flag":
                return {"true": True, "false": False}[text.lower()]
            number = float if option.kind == "real" else int
            values = [number(part) for part in (text.split(",") if option.kind == "wholes" else [text])]
            if not all(map(option.has, values)):
                raise ValueError
            return values if option.kind == "wholes" else values[0]
        except (KeyError, ValueError):
            needed = {"flag": "true or false", "wholes": f"{option.needed} each, like 3,6,"}
            raise argparse.ArgumentTypeError(
                f'expected {needed.get(option.kind, option.needed)}, found "{text}"'
            ) from None

    return check
