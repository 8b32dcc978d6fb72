"""`tacit mpirun`: a program or Python script on several ranks, with the MPI of Tacit."""

from __future__ import annotations

import argparse
import os

from tacit import launch
from tacit.cli.arguments import Arguments, WrongUse, whole
from tacit.cli.ranks import own_command

TEXT = "run a program or Python script on several ranks with the MPI of Tacit"


def add(a: Arguments) -> None:
    a.parser.add_argument("-n", "--ranks", required=True, type=whole(1), metavar="N")
    a.where(ranks=False)
    a("program PROGRAM ARGUMENTS", "a .py file is run by this Python", nargs=argparse.REMAINDER)


def run(arguments: argparse.Namespace) -> int:
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise WrongUse("the program to run is missing: tacit mpirun -n 4 script.py")
    if launch.launched() is not None:
        raise WrongUse("this is a rank of mpiexec already")
    if program[0].endswith(".py"):
        if not os.path.exists(program[0]):
            raise FileNotFoundError(f"{program[0]}: no such file")
        program = [*own_command()[:-1], "tacit.launch", *program]
    return launch.run(arguments.ranks, program, arguments.threads, status=False)
