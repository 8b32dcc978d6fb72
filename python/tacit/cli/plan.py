"""`tacit explain-plan`: what a solve would try, and why."""

from __future__ import annotations

import argparse

from tacit import report
from tacit._described import SOLVE_NAMES
from tacit.cli import arguments as cli

TEXT = "say what a solve would try for a matrix, and why, without solving; without a matrix: all rules"


def add(a: cli.Arguments) -> None:
    a("file FILE", "the matrix: Matrix Market (.mtx, .mtx.gz), PETSc binary, SciPy's .npz", nargs="?")
    a.choice("--method", SOLVE_NAMES, "of the solve; one that is named goes with --precond auto")
    a("--ranks N", "as on so many ranks [1]", cli.whole(1))
    a.json("the plan")


def run(arguments: argparse.Namespace) -> int:
    from tacit import comm, files, krylov

    if arguments.file is None and (arguments.method != SOLVE_NAMES[0] or arguments.ranks is not None):
        raise cli.WrongUse("--method and --ranks are of the plan for a matrix: name its file")
    if arguments.file is None:
        plan = krylov.explain_plan()
    else:
        alone = comm.self_()
        A = files.read_square(arguments.file, alone)
        plan = krylov.explain_plan(A, method=arguments.method, ranks=arguments.ranks)
    if arguments.json:
        more = {"version": report.version()} | ({"file": arguments.file} if arguments.file else {})
        report.write_json(plan.to_dict() | more, arguments.json)
    if arguments.json != "-":
        out = report.console()
        out.print(str(plan), end="", markup=False, highlight=False, soft_wrap=True)
    return cli.OK
