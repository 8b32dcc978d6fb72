"""`tacit info`, `tacit check` and `tacit convert` for matrix and vector files."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from typing import Any, TextIO

from tacit import report
from tacit.cli.arguments import OK, OUTPUTS, Arguments, WrongUse, destination
from tacit.cli.failures import guarded


def add_info(a: Arguments) -> None:
    a("file FILE")
    a.json("this")


def add_check(a: Arguments) -> None:
    a("files FILE", nargs="+")
    a.json("what was found")


def add_convert(a: Arguments) -> None:
    a("input IN")
    a("output OUT", ".mtx, .mtx.gz, .npz, .npy, .petsc", destination(OUTPUTS))
    a.json("what was written")


def run_info(arguments: argparse.Namespace) -> int:
    from tacit import files

    return files.info(arguments.file, arguments.json)


def run_check(arguments: argparse.Namespace) -> int:
    from tacit import files

    found: list[dict[str, Any]] = []

    def one(name: str) -> int:
        found.append({"file": name, "valid": False})
        found[-1] |= files.check(name, _stream(arguments))
        return OK

    codes = [guarded(functools.partial(one, name), "tacit check") for name in arguments.files]
    if arguments.json:
        report.write_json(report.header("tacit.check/1", arguments.words) | {"files": found}, arguments.json)
    return max(codes)


def _stream(arguments: argparse.Namespace) -> TextIO:
    """Where text is printed: not among JSON."""
    return sys.stderr if arguments.json == "-" else sys.stdout


def run_convert(arguments: argparse.Namespace) -> int:
    from tacit import files

    if os.path.realpath(arguments.input) == os.path.realpath(arguments.output):
        raise WrongUse(f"IN and OUT are the same file, {arguments.input}")
    facts = files.convert(arguments.input, arguments.output, _stream(arguments))
    if arguments.json:
        report.write_json(report.header("tacit.convert/1", arguments.words) | facts, arguments.json)
    return OK
