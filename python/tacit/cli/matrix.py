"""`tacit info`, `tacit check` and `tacit convert`: what a matrix or vector file holds, and into what it is made."""

from __future__ import annotations

import argparse
import os

from tacit.cli.arguments import OUTPUTS, WrongUse, add_json, destination
from tacit.cli.failures import guarded


def add_info(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE")
    add_json(p, "this")


def add_check(p: argparse.ArgumentParser) -> None:
    p.add_argument("files", nargs="+", metavar="FILE")


def add_convert(p: argparse.ArgumentParser) -> None:
    p.add_argument("input", metavar="IN")
    p.add_argument("output", metavar="OUT", type=destination(OUTPUTS), help=".mtx, .mtx.gz, .npz, .npy, .petsc")


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
