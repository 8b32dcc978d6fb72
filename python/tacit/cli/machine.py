"""`tacit machine`: the machines of simulated ranks, and these ranks measured as one."""

from __future__ import annotations

import argparse
from typing import Any

from tacit import report
from tacit.cli import arguments as cli
from tacit.cli.ranks import on_ranks

TEXT = "measure these ranks as a machine of --machine, or show one that is known"
_ACTIONS = ("measure", "show")


def add(a: cli.Arguments) -> None:
    a("action ACTION", "measure, show", cli.one_of("action", _ACTIONS), known=_ACTIONS)
    a("target FILE.json|NAME", "of measure: the file to write [none]; of show: a known machine or file [all names]",
      nargs="?")  # fmt: skip
    a.where()
    a.json("the parameters")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "show":
        if arguments.ranks is not None or arguments.threads is not None:
            raise cli.WrongUse("--ranks and --threads are of tacit machine measure")
        return _show(arguments)
    if arguments.target is not None:
        try:
            cli.destination((".json",))(arguments.target)
        except argparse.ArgumentTypeError as error:
            raise cli.WrongUse(f"FILE.json: {error}") from None
        cli.check_files(arguments, (), ("target", "json"))
    return on_ranks(arguments, _measure)


def _lines(machine: dict[str, Any]) -> list[str]:
    return [
        f"{key:18} {value:g}" if isinstance(value, float) else f"{key:18} {value}" for key, value in machine.items()
    ]


def _measure(arguments: argparse.Namespace, comm: Any, out: Any) -> int:
    from tacit import simulate

    found = simulate.measure(comm)
    out.print("\n".join(_lines(found)), markup=False, highlight=False)
    if comm.size == 1:
        out.print("one rank has no messages: --ranks 2, or mpiexec, measures latency, overhead and gap")
    if comm.rank == 0:
        if arguments.target is not None:
            report.write_json(found, arguments.target)
            out.print(f"written to {arguments.target}: tacit solve FILE --simulate RANKS --machine {arguments.target}")
        if arguments.json:
            facts = report.header("tacit.machine/1", arguments.words)
            report.write_json(facts | {"ranks": comm.size, "parameters": found}, arguments.json)
    return cli.OK


def _show(arguments: argparse.Namespace) -> int:
    from tacit import simulate

    out = report.console(stderr=arguments.json == "-")
    facts = report.header("tacit.machine/1", arguments.words)
    if arguments.target is None:
        out.print("\n".join(simulate.machines()))
        facts |= {"names": simulate.machines()}
    else:
        found = simulate.machine(arguments.target)
        out.print("\n".join(_lines(found)), markup=False, highlight=False)
        facts |= {"parameters": found}
    if arguments.json:
        report.write_json(facts, arguments.json)
    return cli.OK
