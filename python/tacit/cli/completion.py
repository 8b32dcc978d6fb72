"""`tacit completion`: the words of commands, options and names, completed by the shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any

from tacit.cli.arguments import OK, Arguments, Parser, one_of

TEXT = "print what makes a shell complete the words of tacit"
SHELLS = ("bash", "zsh", "fish")
# Names of values that are files or folders; for other values without known names nothing is proposed.
_FILES = ("FILE", "FOLDER", "IN", "OUT", "IMAGES", "MESH", "SCAN", "PROGRAM")


def add(a: Arguments) -> None:
    a("shell SHELL", ", ".join(SHELLS), one_of("shell", SHELLS), known=SHELLS)


def run(arguments: argparse.Namespace) -> int:
    argcomplete = _library()
    print(argcomplete.shellcode(["tacit"], shell=arguments.shell))
    return OK


def _library() -> Any:
    try:
        import argcomplete
    except ImportError as error:
        raise ImportError("completion needs argcomplete: pip install argcomplete") from error
    return argcomplete


def answer(parser: Parser) -> None:
    """Answers the shell that wants completions, and ends the process then; else does nothing."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    argcomplete = _library()
    _mark(parser)
    argcomplete.autocomplete(parser, always_complete_options="long")


def _mark(parser: argparse.ArgumentParser) -> None:
    """Gives each argument its completer: known names, files (where there is none), or nothing."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark(command)
            continue
        known = getattr(action, "known", ())
        shown = str(action.metavar or "")
        if known:
            action.completer = _of(known)  # type: ignore[attr-defined]
        elif action.nargs != 0 and not any(word in _FILES for word in shown.replace("|", ".").split(".")):
            action.completer = _of(())  # type: ignore[attr-defined]


def _of(known: Iterable[str]) -> Callable[..., list[str]]:
    def complete(prefix: str, **_: object) -> list[str]:
        return [name for name in known if name.startswith(prefix)]

    return complete
