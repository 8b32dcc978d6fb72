"""`tacit info`, `tacit check` and `tacit convert` for matrix and vector files."""

from __future__ import annotations

import argparse
import os

from tacit.cli.arguments import OUTPUTS, Arguments, WrongUse, destination
from tacit.cli.failures import guarded


def add_info(a: Arguments) -> None:
    a("file FILE")
    a.json("this")


def add_check(a: Arguments) -> None:
    a("files FILE", nargs="+")


def add_convert(a: Arguments) -> None:
    a("input IN")
    a("output OUT", ".mtx, .mtx.gz, .npz, .npy, .petsc", destination(OUTPUTS))


def run_info(arguments: argparse.Namespace) -> int:
    from tacit import files

    return files.info(arguments.file, arguments.json)


def run_check(arguments: argparse.Namespace) -> int:
    from tacit import files

    return max(guarded(lambda name=name: files.check(name), "tacit check") for name in arguments.files)  # type: ignore


def run_convert(arguments: argparse.Namespace) -> int:
    from tacit import files

    if os.path.realpath(arguments.input) == os.path.realpath(arguments.output):
        raise WrongUse(f"IN and OUT are the same file, {arguments.input}")
    return files.convert(arguments.input, arguments.output)
