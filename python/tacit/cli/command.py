"""The command `tacit`: its arguments and exit codes.

Exit codes: 0 verified convergence (or done, for commands that do not solve), 2 wrong use, 3 not converged, 4 bad input,
5 environment, 130 interrupted. Nothing that is slow to import is imported before a command needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tacit import app, launch, report
from tacit.cli import (
    advise,
    bem,
    bench,
    completion,
    infer,
    machine,
    matrix,
    mpirun,
    multigrid,
    plan,
    poisson,
    reconstruct,
    simulate,
    solve,
)
from tacit.cli.arguments import OK, SIZES, USAGE, Arguments, Parser, nearest, one_of, whole
from tacit.cli.failures import drop_output, guarded, open_streams, tidy_when_ended
from tacit.cli.settings import Settings, show

EXIT_CODES = """exit codes:
  0  done; of solve: converged, and |b - A x| was recomputed to say so
  2  wrong use
  3  not converged (the report says why and what to try); of infer: the categories differ from --truth
  4  bad input (the message names file and line)
  5  environment: MPI, memory, device, file system (see tacit doctor)
"""


def build_parser() -> Parser:
    text = "Solves large sparse linear systems and says truthfully how that went."
    parser = Parser(prog="tacit", description=text, epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"tacit {report.version()}")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", title="commands", parser_class=Parser)

    def command(name: str, text: str, add: Callable[[Arguments], None], run: Callable[[Any], int], **more: Any) -> None:
        made: Parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", **more)
        made.set_defaults(run=run, parser=made)
        wanted = Arguments(made)
        add(wanted)
        wanted.settings()

    for module in (solve, poisson, reconstruct, infer, multigrid, bem, *_applications()):
        command(module.__name__.rpartition(".")[2], module.TEXT, module.add, module.run, epilog=EXIT_CODES)
    command("bench", bench.TEXT, bench.add, bench.run)
    command("info", "say what a matrix or vector file holds", matrix.add_info, matrix.run_info)
    command("check", "read files strictly and say whether they are valid", matrix.add_check, matrix.run_check)
    text = "convert a matrix or vector file; the suffix says into what"
    command("convert", text, matrix.add_convert, matrix.run_convert)
    command("advise", advise.TEXT, advise.add, advise.run)
    command("machine", machine.TEXT, machine.add, machine.run)
    command("simulate", simulate.TEXT, simulate.add, simulate.run)
    command("explain-plan", plan.TEXT, plan.add, plan.run)
    text = "find out whether MPI, threads and GPU work here, and what cures what does not"
    command("doctor", text, _add_doctor, _doctor)
    command("demo", "show on a page of pictures what is Tacit's, in about half a minute", _add_demo, _demo)
    command("mpirun", mpirun.TEXT, mpirun.add, mpirun.run)
    command("completion", completion.TEXT, completion.add, completion.run)
    return parser


def _applications() -> list[Any]:
    """The modules of commands that have the name of their application, but for those that help lists first."""
    here = str(Path(__file__).parent)
    solved, commands = ({module.name for module in pkgutil.iter_modules(path)} for path in (app.__path__, [here]))
    found = (solved & commands) - {"bem", "multigrid", "poisson"}
    return [importlib.import_module(f"tacit.cli.{name}") for name in sorted(found)]


def commands_of(parser: Parser) -> dict[str, Parser]:
    """The parser of each command by its name."""
    return {name: made for action in parser._subparsers._group_actions for name, made in action.choices.items()}  # type: ignore


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    code = _main(words)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    return code


def _main(words: Sequence[str] | None) -> int:
    if words is None:  # as a program
        open_streams()
        tidy_when_ended()
    words = list(sys.argv[1:] if words is None else words)
    with contextlib.suppress(AttributeError, OSError):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    parser = build_parser()
    completion.answer(parser)
    commands = commands_of(parser)
    if words and not words[0].startswith("-"):
        known = list(commands)
        if words[0] not in known:
            return _refuse(parser, f'unknown command "{words[0]}"{nearest(words[0], known)} ({", ".join(known)})')
    settings = Settings(commands)
    try:
        arguments = parser.parse_all(words)
    except SystemExit as end:
        return launch.leave(int(end.code or 0))
    if arguments.name is None:
        parser.print_help()
        return USAGE
    arguments.words = words

    def run() -> int:
        every = settings.fill(arguments)
        if arguments.show_options:
            show(every, arguments)
            return OK
        if launch.launched() is None and hasattr(arguments, "threads"):
            launch.refuse_crowds(getattr(arguments, "ranks", None) or 1, arguments.threads)
        return int(arguments.run(arguments))

    return launch.leave(guarded(run, arguments.parser.prog))


def _refuse(parser: Parser, text: str) -> int:
    with contextlib.suppress(SystemExit):
        parser.error(text)
    return launch.leave(USAGE)


def _add_doctor(a: Arguments) -> None:
    a("--ranks N", "ranks that are started, and whose processors are looked at [2, or those of mpiexec]", whole(2))
    a.where(ranks=False)
    a.json("all findings")


def _doctor(arguments: argparse.Namespace) -> int:
    from tacit.cli import doctor

    return doctor.main(arguments.json, arguments.ranks, arguments.threads)


def _add_demo(a: Arguments) -> None:
    a("--size NAME", "s, m, l", one_of("size", SIZES), "m")
    a("--quick", "a small problem and few runs: seconds")
    a("--output FOLDER", "", None, "tacit-demo")
    a.json("all numbers")


def _demo(arguments: argparse.Namespace) -> int:
    # Ranks of the demo run this module as a program (python -m tacit.cli.demo), so it must not have been imported
    # before.
    from tacit.cli import demo

    return demo.main(size=arguments.size, quick=arguments.quick, folder=Path(arguments.output), json_too=arguments.json)
