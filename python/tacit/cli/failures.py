"""Turns the exceptions of a command into one line for the user and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

from tacit import launch, report
from tacit._names import printable
from tacit.cli.arguments import ENVIRONMENT, INPUT, INTERRUPTED, OK, USAGE, WrongUse


def drop_output() -> None:
    """Discards the rest of standard output, after its reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Opens the null device in place of standard streams that are closed, as daemons and some schedulers leave them:
    otherwise the first files that are opened would take their numbers, and be written to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            if number:
                stream = io.TextIOWrapper(open(number, "wb", closefd=False), write_through=True)  # noqa: SIM115
                stream.closed_at_start = True  # type: ignore[attr-defined]
                setattr(sys, name, stream)


def tidy_when_ended() -> None:
    """From here on SIGTERM, SIGHUP and SIGXCPU remove the temporary files of this process before they end it.

    A thread does this, since a handler of Python waits for the compiled code that the main thread may be in. Where
    another handler is set, such as that of a launcher of ranks, that one decides.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    ending = [n for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU) if signal.getsignal(n) is signal.SIG_DFL]
    if not ending:
        return
    read, write = os.pipe()
    os.set_blocking(write, False)

    def handler(number: int, frame: object) -> None:
        """Ending is the thread's work."""

    def wait() -> None:
        while True:
            for number in os.read(read, 64):
                if number in ending and signal.getsignal(number) is handler:
                    report.drop_temporaries()
                    with contextlib.suppress(OSError):
                        os.write(2, f"tacit: ended by {signal.Signals(number).name}\n".encode())
                    os._exit(128 + number)

    threading.Thread(target=wait, daemon=True).start()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in ending:
        signal.signal(number, handler)


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
    if isinstance(error, ImportError):
        text += launch.advice_on_import(error)
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

    kinds = {_core.UsageError: USAGE, _core.InputError: INPUT, _core.EnvironmentFailure: ENVIRONMENT, ValueError: USAGE}
    return next((code for kind, code in kinds.items() if isinstance(error, kind)), None)
