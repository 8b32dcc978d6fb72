"""What a command's failures become: one line for the user, and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from tacit import launch
from tacit.cli.arguments import ENVIRONMENT, INPUT, INTERRUPTED, OK, USAGE, WrongUse


def drop_output() -> None:
    """Nobody reads standard output any more: what is still to be flushed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guarded(run: Callable[[], int], name: str) -> int:
    """run()'s exit code, or that of what it raises, said in one line. Bugs show where they are."""
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
        sys.stderr.write(f"{name}: {text}\n")
    return code


def describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)!s}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory{': ' + str(error) if str(error) else ''}"
    return str(error) or type(error).__name__


def code_of(error: BaseException) -> int | None:
    """The exit code that an exception stands for; None for what should never happen."""
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
