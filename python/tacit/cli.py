"""The command `tacit`: arguments, exit codes, and what each command hands to the library.

Exit codes: 0 verified convergence (or simply done), 2 wrong use, 3 not converged, 4 bad input, 5 environment,
130 interrupted. Nothing that is slow to import is imported before a command needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tacit import cli_apps, cli_bem, cli_multigrid, cli_poisson, cli_simulate, launch, report
from tacit.cli_arguments import (
    BASES,
    BLOCK_QRS,
    ENGINES,
    ENVIRONMENT,
    INPUT,
    INTERRUPTED,
    METHODS,
    NORMS,
    NOT_CONVERGED,
    OK,
    ORTHOGONALISATIONS,
    OUTPUTS,
    PLOTS,
    POWERS,
    SCALARS,
    SIDES,
    SIZES,
    STORAGES,
    THREADS,
    USAGE,
    Parser,
    WrongUse,
    add_json,
    choice,
    destination,
    nearest,
    one_of,
    preconditioner,
    real,
    right_hand_side,
    whole,
)
from tacit.cli_arguments import PRECONDS as PRECONDS
from tacit.cli_monitor import Monitor

EXIT_CODES = """exit codes:
  0  done; of solve: converged, and |b - A x| was recomputed to say so
  2  wrong use
  3  not converged (the report says why and what to try)
  4  bad input (the message names file and line)
  5  environment: MPI, memory, device, file system (see tacit doctor)
"""


def build_parser() -> Parser:
    parser = Parser(
        prog="tacit",
        description="Solves large sparse linear systems and says truthfully how that went.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"tacit {report.version()}")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", title="commands", parser_class=Parser)

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str, **more: Any) -> Parser:
        made: Parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", **more)
        made.set_defaults(run=run, parser=made)
        return made

    p = command("solve", solve, "solve A x = b with the matrix of a file", epilog=EXIT_CODES)
    p.add_argument("file", metavar="FILE", help="the matrix: Matrix Market (.mtx, .mtx.gz), PETSc binary, SciPy's .npz")
    p.add_argument("--rhs", default="ones", type=right_hand_side, metavar="FILE|ones|random:SEED", help="b [ones]")
    g = p.add_argument_group("method (in brackets: what is taken when nothing is said)")
    choice(g, "--method", "method", METHODS)
    g.add_argument(
        "--precond",
        default=("none", {}),
        type=preconditioner,
        metavar="NAME[:OPTION=VALUE,...]",
        help=f"{', '.join(PRECONDS)}; say polynomial:degree=6 [none]",
    )
    g.add_argument("--rtol", default=1e-8, type=real(0), help="converged is |b - A x| <= max(rtol |b|, atol) [1e-8]")
    g.add_argument("--atol", default=0.0, type=real(0), help="[0]")
    g.add_argument("--max-iterations", type=whole(0), metavar="N", help="[10 per unknown, 1000 to 50000]")
    text = "vectors in a cycle of gmres and its kin [30; up to 120 where that is slow]"
    g.add_argument("--restart", type=whole(1), metavar="N", help=text)
    choice(g, "--side", "side", SIDES, "of the preconditioner in gmres and its kin: ")
    choice(g, "--orthogonalisation", "orthogonalisation", ORTHOGONALISATIONS, "in gmres and ca-gmres: ")
    g.add_argument("--step", type=whole(1), metavar="S", help="ca-: iterations for one sum [by method, 4 to 10]")
    g.add_argument("--depth", type=whole(1), metavar="L", help="pipelined-: sums in flight [2; pipelined-cg 1]")
    g.add_argument("--block", type=whole(1), metavar="T", help="pipelined-ca-gmres: vectors for one sum [5]")
    tau = "pipelined-gmres, pipelined-ca-gmres: leave out small entries of the change of basis [0]"
    g.add_argument("--tau", type=real(0), help=tau)
    choice(g, "--basis", "basis", BASES, "ca-, pipelined-: ", default="that of the method's page")
    choice(g, "--block-qr", "block-qr", BLOCK_QRS, "ca-gmres with bcgs, bcgs2: ", default="cholqr")
    choice(g, "--storage", "storage", STORAGES, "ca-gmres, of the basis: ", default="full")
    choice(g, "--powers", "powers", POWERS, "ca-, of the vectors of a block: ", default="products")
    g.add_argument("--replacement", type=whole(0), metavar="N", help="residual replacement [by an estimate]")
    choice(g, "--engine", "engine", ENGINES, "what pushes messages on: ")
    choice(g, "--norm", "norm", NORMS, "of the residual: ")
    g.add_argument("--relaxation", default=1.0, type=real(0, True), metavar="OMEGA", help="of richardson [1]")
    g.add_argument("--sweeps", type=whole(1), metavar="N", help="richardson: steps in one pass [what A does]")
    g.add_argument("--no-fallbacks", action="store_true", help="the method as it stands: nothing else is tried")
    g = p.add_argument_group("where it runs")
    g.add_argument("--ranks", type=whole(1), metavar="N", help="MPI ranks, started here [1, or those of mpiexec]")
    g.add_argument("--threads", type=whole(1), metavar="N", help=THREADS)
    choice(g, "--partition", "partition", ("rows", "graph"), "how rows go to ranks: ")
    choice(g, "--ordering", "ordering", ("none", "rcm"), "of the unknowns: ")
    choice(g, "--scalar", "scalar", SCALARS, default="as the file needs")
    choice(g, "--device", "device", ("host", "cuda"))
    cli_poisson.add_where(g, choice, whole)
    cli_simulate.add(g, whole)
    g = p.add_argument_group("what it leaves")
    g.add_argument("--monitor", action="store_true", help="show the residual while it runs")
    g.add_argument("--output", type=destination(OUTPUTS), metavar="FILE", help="write x: .mtx, .npy, .npz, .petsc")
    add_json(g)
    g.add_argument("--plot", type=destination(PLOTS), metavar="FILE", help="plot the convergence: .png, .pdf, .svg")
    g.add_argument("--trace", type=destination(()), metavar="FILE", help="write what ran when, for ui.perfetto.dev")

    text = "solve Poisson's equation in the unit cube and compare with the solution"
    p = command("poisson", poisson, text, epilog=EXIT_CODES)
    cli_poisson.build(p, choice, whole, real)
    add_json(p)

    p = command("reconstruct", reconstruct, "images from the sinograms of a parallel-beam scan", epilog=EXIT_CODES)
    cli_apps.add_reconstruct(p, choice, whole, real, destination)

    p = command("infer", infer, "sparse network inference by the rules of the Graph Challenge", epilog=EXIT_CODES)
    cli_apps.add_infer(p, choice, whole, real, destination)

    p = command("multigrid", multigrid, "solve a problem on a grid by multigrid", epilog=EXIT_CODES)
    cli_multigrid.add(p, sys.modules[__name__])

    p = command("bem", bem, "find the charges on conductors whose surface is a mesh", epilog=EXIT_CODES)
    cli_bem.add(p, sys.modules[__name__])

    p = command("info", info, "say what a matrix or vector file holds")
    p.add_argument("file", metavar="FILE")
    add_json(p, "this")

    p = command("check", check, "read files strictly and say whether they are valid")
    p.add_argument("files", nargs="+", metavar="FILE")

    p = command("convert", convert, "convert a matrix or vector file; the suffix says into what")
    p.add_argument("input", metavar="IN")
    p.add_argument("output", metavar="OUT", type=destination(OUTPUTS), help=".mtx, .mtx.gz, .npz, .npy, .petsc")

    p = command("doctor", doctor, "find out whether MPI, threads and GPU work here, and what cures what does not")
    add_json(p, "all findings")

    p = command("demo", demo, "solve a flow problem with a million unknowns several ways and show what that took")
    p.add_argument("--size", default="m", type=one_of("size", SIZES), metavar="NAME", help="s, m, l [m]")
    p.add_argument("--quick", action="store_true", help="a small problem and few runs: seconds")
    p.add_argument("--output", default="tacit-demo", metavar="FOLDER", help="[tacit-demo]")

    p = command("mpirun", mpirun, "run a program or Python script on several ranks with the MPI of Tacit")
    p.add_argument("-n", "--ranks", required=True, type=whole(1), metavar="N")
    p.add_argument("--threads", type=whole(1), metavar="N", help=THREADS)
    p.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM ARGUMENTS", help="a .py file is run by this Python"
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    code = _main(words)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    return code


def _main(words: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    with contextlib.suppress(AttributeError, OSError):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    parser = build_parser()
    if words and not words[0].startswith("-"):
        known = [name for action in parser._subparsers._group_actions for name in action.choices]  # type: ignore
        if words[0] not in known:
            return _refuse(parser, f'unknown command "{words[0]}"{nearest(words[0], known)} ({", ".join(known)})')
    try:
        arguments = parser.parse_all(words)
    except SystemExit as end:
        return launch.leave(int(end.code or 0))
    if arguments.name is None:
        parser.print_help()
        return USAGE
    arguments.words = words

    def run() -> int:
        if launch.launched() is None and hasattr(arguments, "threads"):
            launch.refuse_crowds(getattr(arguments, "ranks", None) or 1, arguments.threads)
        return int(arguments.run(arguments))

    return launch.leave(guarded(run, arguments.parser.prog))


def _drop_output() -> None:
    """Nobody reads standard output any more: what is still to be flushed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(parser: Parser, text: str) -> int:
    with contextlib.suppress(SystemExit):
        parser.error(text)
    return launch.leave(USAGE)


def guarded(run: Callable[[], int], name: str) -> int:
    """run()'s exit code, or that of what it raises, said in one line. Bugs show where they are."""
    try:
        return run()
    except BrokenPipeError:  # `tacit info A.mtx | head`
        _drop_output()
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
    import tacit

    kinds = (
        (tacit.UsageError, USAGE),
        (tacit.InputError, INPUT),
        (tacit.EnvironmentFailure, ENVIRONMENT),
        (ValueError, USAGE),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), None)


def own_command() -> list[str]:
    """What runs this Tacit again, wherever the ranks start. -P: a folder `tacit` in theirs is not taken for it."""
    home = Path(__file__).resolve().parent.parent
    return [sys.executable, *([] if home == Path.cwd() else ["-P"]), "-m", "tacit"]


def communicator(ranks: int | None) -> Any:
    """All ranks if mpiexec started this process, else this process alone."""
    from tacit import comm

    place = launch.launched()
    if place is None:
        return comm.self_()
    expected = int(os.environ.get(launch.RANKS, place[1]))
    if ranks is not None and ranks != place[1]:
        raise WrongUse(f"--ranks {ranks}, but mpiexec started {place[1]}: leave --ranks out, or mpiexec")
    if place[1] > 1 and not comm.library():
        raise launch.LaunchError(f"mpiexec started {place[1]} ranks of a Tacit without MPI: see tacit doctor")
    world = comm.world()
    if world.size != expected:
        raise launch.LaunchError(
            f"mpiexec started {expected} ranks, but each finds {world.size}: mpiexec is not of {comm.library()},"
            " the MPI that Tacit was built with; see tacit doctor"
        )
    return world


def check_files(arguments: argparse.Namespace) -> None:
    """No two outputs are one file, and none is an input."""
    files = {"FILE": arguments.file}
    if os.path.exists(arguments.rhs):
        files["--rhs"] = arguments.rhs
    for name in ("output", "json", "plot", "trace"):
        path = getattr(arguments, name)
        if path is None or path == "-":
            continue
        for other, taken in files.items():
            if os.path.realpath(path) == os.path.realpath(taken):
                raise WrongUse(f"--{name} and {other} are the same file, {path}")
        files[f"--{name}"] = path


def solve(arguments: argparse.Namespace) -> int:
    check_files(arguments)
    cli_simulate.check(arguments, WrongUse)
    if arguments.simulate is not None:
        return OK if cli_simulate.run(arguments) else NOT_CONVERGED
    if arguments.ranks is not None and arguments.ranks > 1 and launch.launched() is None:
        return launch.run(arguments.ranks, [*own_command(), *arguments.words], arguments.threads)
    comm = communicator(arguments.ranks)
    return int(comm.collective(lambda: solve_here(arguments, comm)))


def solve_here(arguments: argparse.Namespace, comm: Any) -> int:
    """The solve itself, on every rank. Only the first prints and writes."""
    import tacit
    from tacit import Observer, files, layout
    from tacit._support import utf8

    first = comm.rank == 0
    if arguments.levels:
        comm.set_levels(utf8(arguments.levels))
    out = report.console(stderr=arguments.json == "-", quiet=not first)
    start = time.perf_counter()
    A = files.read_matrix(arguments.file, comm, arguments.scalar)
    if A.shape[0] != A.shape[1]:
        raise tacit.InputError(f"{arguments.file}: expected a square matrix, found {A.shape[0]} x {A.shape[1]}")
    if A.shape[0] == 0:
        raise tacit.InputError(f"{arguments.file}: expected a matrix with rows, found 0 x 0")
    b = files.right_hand_side(arguments.rhs, A, comm)
    read_seconds = time.perf_counter() - start

    monitor = Monitor(arguments, out, live=bool(os.environ.get(launch.TERMINAL)) or out.is_terminal)
    with monitor:
        result = tacit.solve(
            A,
            b,
            method=arguments.method,
            precond={"name": arguments.precond[0], **arguments.precond[1]},
            rtol=arguments.rtol,
            atol=arguments.atol,
            max_iterations=arguments.max_iterations,
            restart=arguments.restart,
            side=arguments.side,
            orthogonalisation=arguments.orthogonalisation,
            step=arguments.step,
            depth=arguments.depth,
            block=arguments.block,
            tau=arguments.tau,
            basis=arguments.basis,
            block_qr=arguments.block_qr,
            storage=arguments.storage,
            powers=arguments.powers,
            replacement=arguments.replacement,
            engine=arguments.engine,
            norm=arguments.norm,
            sweeps=arguments.sweeps,
            schedule=arguments.schedule,
            remote_threads=arguments.remote_threads,
            job_rows=arguments.job_rows,
            path=arguments.path,
            relaxation=arguments.relaxation,
            fallbacks=not arguments.no_fallbacks,
            partition=arguments.partition,
            ordering=arguments.ordering,
            threads=arguments.threads,
            device=arguments.device,
            scalar=arguments.scalar,
            trace=arguments.trace is not None,
            comm=comm,
            callback=Observer(monitor.callback) if arguments.monitor or arguments.plot else None,
        )

    written = {}
    if arguments.output:
        x = layout.gather(result.x, comm)
        if first:
            tacit.write(arguments.output, x)
        written["solution"] = arguments.output
    if arguments.trace:
        if first:
            result.save_trace(arguments.trace)
        written["trace"] = arguments.trace
    if first:
        facts = report.document(
            result,
            command=["tacit", *arguments.words],
            read_seconds=read_seconds,
            file=arguments.file,
            rhs=arguments.rhs,
            rtol=arguments.rtol,
            atol=arguments.atol,
        )
        if arguments.plot:
            from tacit import plotting

            label = facts["method"] + ("" if facts["precond"] == "none" else f" + {facts['precond']}")
            curve = plotting.Curve(label, result.history, monitor.times(facts), facts["residual_norm"])
            title = f"{Path(arguments.file).name}: {report.count(facts['unknowns'])} unknowns"
            plotting.convergence([curve], arguments.plot, title=title, goal=arguments.rtol)
            written["plot"] = arguments.plot
        if arguments.json:
            report.write_json(facts, arguments.json)
            if arguments.json != "-":
                written["result"] = arguments.json
        report.show(facts | {"written": written}, out)
    return OK if result.converged else NOT_CONVERGED


def poisson(arguments: argparse.Namespace) -> int:
    return cli_poisson.main(arguments, own_command(), communicator)


def reconstruct(arguments: argparse.Namespace) -> int:
    cli_apps.check_reconstruct(arguments, WrongUse)
    if arguments.ranks is not None and arguments.ranks > 1 and launch.launched() is None:
        return launch.run(arguments.ranks, [*own_command(), *arguments.words], arguments.threads)
    comm = communicator(arguments.ranks)
    return int(comm.collective(lambda: cli_apps.reconstruct_here(arguments, comm)))


def infer(arguments: argparse.Namespace) -> int:
    cli_apps.check_infer(arguments, WrongUse)
    return cli_apps.infer_here(arguments)


def multigrid(arguments: argparse.Namespace) -> int:
    return cli_multigrid.run(arguments, sys.modules[__name__])


def bem(arguments: argparse.Namespace) -> int:
    return cli_bem.run(arguments, sys.modules[__name__])


def info(arguments: argparse.Namespace) -> int:
    from tacit import files

    return files.info(arguments.file, arguments.json)


def check(arguments: argparse.Namespace) -> int:
    from tacit import files

    return max(guarded(lambda name=name: files.check(name), "tacit check") for name in arguments.files)  # type: ignore


def convert(arguments: argparse.Namespace) -> int:
    from tacit import files

    if os.path.realpath(arguments.input) == os.path.realpath(arguments.output):
        raise WrongUse(f"IN and OUT are the same file, {arguments.input}")
    return files.convert(arguments.input, arguments.output)


def doctor(arguments: argparse.Namespace) -> int:
    from tacit import doctor

    return doctor.main(arguments.json)


def demo(arguments: argparse.Namespace) -> int:
    from tacit import demo

    return demo.main(size=arguments.size, quick=arguments.quick, folder=Path(arguments.output))


def mpirun(arguments: argparse.Namespace) -> int:
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
