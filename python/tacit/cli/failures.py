"""Turns the exceptions of a command into one line for the user and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from tacit import launch
from tacit._names import printable
from tacit.cli.arguments import ENVIRONMENT, INPUT, INTERRUPTED, OK, USAGE, WrongUse


def drop_output() -> None:
    """Discards the rest of standard output, after its reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guarded(run: Callable[[], int], name: str) -> int:
    """The exit code of run(), or that of its exception, which is printed in one line; unexpected exceptions with their
    traceback.
    """
    try:
        return run()
    except BrokenPipeError:  # `tacit info A.mtx | head`
        drop_output()
        return OK
    except KeyboardInterrupt:
        return complain(name, "interrupted", INTERRUPTED)
    except Exception as error:
        code = code_of(error)
        if code is None:
            traceback.print_exc()
            if (launch.launched() or (0, 1))[1] > 1:
                launch.abort(1)
            return 1
        return complain(name, describe(error), code)


def complain(name: str, text: str, code: int) -> int:
    place = launch.launched()
    if place is None or place[0] == 0:
        sys.stderr.write(f"{name}: {printable(text, lines=True)}\n")
    return code


def describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{os.fspath(error.filename)!s}: {error.strerror}"
    elif isinstance(error, MemoryError) and not isinstance(error, RuntimeError):  # Python's or NumPy's
        text = f"not enough memory{': ' + str(error) if str(error) else ''}"
    else:
        text = str(error) or type(error).__name__
    return printable(text, lines=isinstance(error, launch.LaunchError))  # which quotes what a launcher has printed


def code_of(error: BaseException) -> int | None:
    """The exit code for an exception; None for one that only a bug can raise."""
    if isinstance(error, WrongUse):
        return USAGE
    if isinstance(error, FileNotFoundError | IsADirectoryError | UnicodeError):
        return INPUT
    if isinstance(error, launch.LaunchError | OSError | MemoryError | ImportError):
        return ENVIRONMENT
    from tacit import _core

    kinds = (
        (_core.UsageError, USAGE),
        (_core.InputError, INPUT),
        (_core.EnvironmentFailure, ENVIRONMENT),
        (ValueError, USAGE),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), None)
