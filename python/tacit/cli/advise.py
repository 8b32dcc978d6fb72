"""`tacit advise`: which method for a matrix on a machine with so many ranks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tacit import report
from tacit._described import PRECOND_NAMES, SOLVE
from tacit.cli import arguments as cli

TEXT = "say which method solves a system fastest on so many ranks of a machine, by simulated solves"
_OPTIONS = ["rtol", "atol", "max_iterations"]
_LOCAL = tuple(name for name in PRECOND_NAMES if name not in ("none", "amg", "direct", "schwarz"))


def add(a: cli.Arguments) -> None:
    a("file FILE", "the matrix: Matrix Market (.mtx, .mtx.gz), PETSc binary, SciPy's .npz")
    a("--ranks N", "of the machine; none is started here", cli.whole(1))
    a("--machine NAME|FILE.json", "a known machine, or parameters [modern]")
    a("--rhs FILE|ones|random:SEED", "b", cli.right_hand_side, "ones", also=["--b"], known=("ones", "random:0"))
    known = cli.one_of("preconditioner", ("none", *_LOCAL))
    a("--precond NAME", "may be given several times; all methods are tried with each [jacobi]", known, action="append",
      known=("none", *_LOCAL))  # fmt: skip
    a.options(SOLVE, _OPTIONS)
    a("--no-turns", "do not try what would change the answer")
    a.json("the advice")


def run(arguments: argparse.Namespace) -> int:
    if arguments.ranks is None:
        raise cli.WrongUse("--ranks N is needed: how many the machine would give")
    from tacit import advice, comm, files
    from tacit._progress import Line

    out = report.console(stderr=arguments.json == "-")
    alone = comm.self_()
    A = files.read_square(arguments.file, alone)
    b = files.right_hand_side(arguments.rhs, A, alone)
    if b.ndim == 2:
        raise cli.WrongUse(f"--rhs {arguments.rhs} has {b.shape[1]} vectors; advice is for one")
    how: dict[str, Any] = {"machine": arguments.machine or "modern", "preconds": arguments.precond or ("jacobi",)}
    how |= {"turns": not arguments.no_turns, **cli.given(arguments, SOLVE)}
    with Line(out, shown=out.is_terminal and not out.quiet) as line:
        line.now(f"{Path(arguments.file).name} on {arguments.ranks} simulated ranks")
        found = advice.advise(
            A, b, ranks=arguments.ranks, after=lambda done, of, name: line.update(done / of, name), **how
        )
    out.print(str(found), markup=False, highlight=False, soft_wrap=True)
    if arguments.json:
        facts = report.header("tacit.advice/1", arguments.words) | {"file": arguments.file, **found.to_dict()}
        report.write_json(facts, arguments.json)
    return cli.OK if found.best is not None else cli.NOT_CONVERGED
