"""Options that are not on the command line: the variable ``TACIT_OPTIONS`` and files in TOML.

An option is taken from the first of: the command line, the file of ``--config``, ``TACIT_OPTIONS``, ``tacit.toml`` in
the present folder, ``tacit/tacit.toml`` in the user's folder of settings. In a file, keys at the top are for every
command that has such an option, and those of ``[solve]`` for ``tacit solve``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tacit.cli.arguments import Parser, WrongUse, nearest

VARIABLE = "TACIT_OPTIONS"
FILE = "tacit.toml"
#: Options that choose what a command does or where settings come from: on the command line only.
_OWN = ("help", "config", "show_options", "version")


class Setting(NamedTuple):
    """A value of an option, and where it was found."""

    value: Any
    source: str


class _Absent:
    """The default of an option until the place that it comes from is known."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _absent(action: argparse.Action) -> Any:
    """What stands for an option that was not given; argparse itself makes the list of one that may be said again."""
    return None if isinstance(action, argparse._AppendAction) else _ABSENT


def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The options of a command that may come from elsewhere, by the name of their value."""
    found: dict[str, argparse.Action] = {}
    for action in parser._actions:
        if action.option_strings and action.dest not in _OWN:
            found.setdefault(action.dest, action)
    return found


def _key(name: str) -> str:
    return name.strip().lstrip("-").replace("-", "_")


class Found:
    """The settings outside of the command line, for one command: those nearest to it count."""

    def __init__(self, commands: Mapping[str, argparse.ArgumentParser], name: str) -> None:
        self._name, self._options = name, options_of(commands[name])
        self._names = {key: dest for dest in self._options for key in _keys(self._options[dest])}
        self._elsewhere = {key for p in commands.values() for a in options_of(p).values() for key in _keys(a)}
        self._commands = commands
        self.settings: dict[str, Setting] = {}

    def file(self, path: Path, shown: str) -> None:
        """Takes the settings of a file that are not known yet."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise WrongUse(f"{path}: not UTF-8; a file in TOML is needed") from None
        except tomllib.TOMLDecodeError as error:
            raise WrongUse(f"{path}: {error}") from None
        general = {key: value for key, value in content.items() if _key(key) in self._elsewhere}
        own = {}
        for key, value in content.items():
            if key in general:
                continue
            if not isinstance(value, dict) or key not in self._commands:
                known = [*self._commands, *sorted(self._elsewhere)]
                raise WrongUse(f'{path}: no command and no option "{key}"{nearest(_key(key), known)}')
            if key == self._name:
                own = value
        for key, value in own.items():
            self._take(key, value, shown, True)
        for key, value in general.items():
            self._take(key, value, shown, False)

    def words(self, text: str) -> None:
        """Takes the settings of TACIT_OPTIONS, words as on the command line."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise WrongUse(f"{VARIABLE}: {error}") from None
        last: dict[str, Any] = {}
        for key, value in _groups(words):
            last[key] = value
        for key, value in last.items():
            self._take(key, value, VARIABLE, False)

    def _take(self, key: str, value: Any, source: str, here: bool) -> None:
        name = _key(key)
        if name not in self._names:
            if not here and name in self._elsewhere:
                return  # of another command
            raise WrongUse(f'{source}: tacit {self._name} has no option "{key}"{nearest(name, sorted(self._names))}')
        dest = self._names[name]
        if dest not in self.settings:
            found = _converted(self._options[dest], name, value, source)
            self.settings[dest] = Setting(found, source)


def _keys(action: argparse.Action) -> list[str]:
    return [action.dest, *(_key(word) for word in action.option_strings if word.startswith("--"))]


def _groups(words: list[str]) -> Iterator[tuple[str, Any]]:
    """Each option of a list of words, with its value; True where it has none."""
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("--"):
            raise WrongUse(f'{VARIABLE}: "{word}" is no option; words like --rtol 1e-10 are needed')
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif position < len(words) and not words[position].startswith("--"):
            yield name, words[position]
            position += 1
        else:
            yield name, True


def _converted(action: argparse.Action, name: str, value: Any, source: str) -> Any:
    """The value as the command line would have it. WrongUse with the place that it comes from."""
    if action.nargs == 0:  # a flag, perhaps one that says no
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if not isinstance(value, bool):
            raise WrongUse(f"{source}: {name} is {value!r}; true or false is needed")
        on = value != name.startswith("no_")
        if isinstance(action, argparse._StoreTrueAction | argparse.BooleanOptionalAction):
            return on
        return action.const if on == action.const else None  # None: what holds without the option
    if value is True and action.nargs == "?":
        return action.const
    if isinstance(action, argparse._AppendAction):
        several = isinstance(value, list) and bool(value) and isinstance(value[0], list | str)
        return [_one(action, name, item, source) for item in (value if several else [value])]
    return _one(action, name, value, source)


def _one(action: argparse.Action, name: str, value: Any, source: str) -> Any:
    if isinstance(value, bool) and action.type is None:
        raise WrongUse(f"{source}: {name} is {str(value).lower()}; a value is needed")
    try:
        text = _text(value)
        return text if action.type is None else action.type(text)  # type: ignore[operator]
    except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
        raise WrongUse(f"{source}: {name}: {error}") from None


def _text(value: Any) -> str:
    """A value of TOML as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if isinstance(value, dict):  # a preconditioner with its options
        rest = ",".join(f"{key}={_text(item)}" for key, item in value.items() if key != "name")
        return f"{value.get('name', '')}{':' if rest else ''}{rest}"
    return str(value)


def folder() -> Path:
    """The user's folder of settings, by the XDG base directory specification."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".config") / "tacit"


def _collect(found: Found, config: str | None) -> None:
    if config is not None:
        if not os.path.exists(config):
            raise FileNotFoundError(f"{config}: no such file")
        found.file(Path(config), f"--config {config}")
    if os.environ.get(VARIABLE):
        found.words(os.environ[VARIABLE])
    for path, shown in ((Path(FILE), f"./{FILE}"), (folder() / FILE, str(folder() / FILE))):
        if path.is_file():
            found.file(path, shown)


class Settings:
    """Makes the defaults of a parser's options unknown, so that after parsing each value has its place: the command
    line, a setting, or the default.
    """

    def __init__(self, commands: Mapping[str, Parser]) -> None:
        self._commands = commands
        self._defaults: dict[str, dict[str, Any]] = {}
        for name, parser in commands.items():
            self._defaults[name] = {}
            for action in parser._actions:
                if action.option_strings and action.dest not in _OWN and not action.required:
                    self._defaults[name].setdefault(action.dest, action.default)
                    action.default = _absent(action)

    def fill(self, arguments: argparse.Namespace) -> dict[str, Setting]:
        """Sets what the command line did not give, and returns each option's value and place. Options that came from
        settings are kept as ``arguments.settings`` too.
        """
        name = arguments.name
        found = Found(self._commands, name)
        _collect(found, getattr(arguments, "config", None))
        options = options_of(self._commands[name])
        every: dict[str, Setting] = {}
        for dest, default in self._defaults[name].items():
            if getattr(arguments, dest) is not _absent(options[dest]):
                every[dest] = Setting(getattr(arguments, dest), "command line")
                continue
            every[dest] = found.settings.get(dest) or Setting(_default(options[dest], default), "default")
            setattr(arguments, dest, every[dest].value)
        arguments.settings = {dest: s for dest, s in every.items() if s.source not in ("command line", "default")}
        return every


def _default(action: argparse.Action, default: Any) -> Any:
    """A default, which argparse converts where it is a text."""
    return action.type(default) if isinstance(default, str) and callable(action.type) else default


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return _text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def show(every: Mapping[str, Setting], arguments: argparse.Namespace) -> None:
    """Prints what would run: the words given, then each option with its value and place; as JSON with --json."""
    from tacit import report

    target = getattr(arguments, "json", None)
    if target:
        options = {name: s._asdict() for name, s in every.items()}
        report.write_json(report.header("tacit.options/1", arguments.words) | {"options": options}, target)
    out = report.console(stderr=target == "-")
    out.print(" ".join(["tacit", *map(shlex.quote, arguments.words)]))
    widths = [max(map(len, rows)) for rows in (every, (_shown(s.value) for s in every.values()))]
    for name, setting in every.items():
        shown = f"{name:<{widths[0]}}  {_shown(setting.value):<{min(widths[1], 30)}}  {setting.source}"
        out.print(shown, style=None if setting.source != "default" else "dim")
