"""The command `tacit`: arguments, exit codes, and what each command hands to the library.

Exit codes: 0 verified convergence (or simply done), 2 wrong use, 3 not converged, 4 bad input, 5 environment,
130 interrupted. Nothing that is slow to import is imported before a command needs it.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tacit import cli_apps, cli_bem, cli_multigrid, cli_poisson, cli_simulate, launch, report

if TYPE_CHECKING:
    from rich.console import Console

OK, USAGE, NOT_CONVERGED, INPUT, ENVIRONMENT, INTERRUPTED = 0, 2, 3, 4, 5, 130

METHODS = (
    *("auto", "cg", "bicgstab", "gmres", "richardson", "chebyshev"),
    *("pipelined-cg", "pipelined-bicgstab", "pipelined-gmres"),
    *("ca-cg", "ca-bicgstab", "ca-gmres", "pipelined-ca-gmres"),
)
SIDES = ("right", "left", "flexible")
ORTHOGONALISATIONS = (
    *("auto", "one-reduction", "cgs", "cgs2", "mgs"),
    *("bcgs", "bcgs2", "bcgs-pip", "bcgs-pip2", "two-stage"),
)
BLOCK_QRS = ("cholqr", "cholqr2", "shifted-cholqr3", "mixed-cholqr", "tsqr")
BASES = ("auto", "newton", "chebyshev", "monomial")
STORAGES = ("full", "float32", "bfloat16")
POWERS = ("products", "kernel")
ENGINES = ("polling", "thread", "tasks")
NORMS = ("2", "max")
PRECONDS = ("none", "jacobi", "block-jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial")
SCALARS = ("float64", "float32", "complex128", "complex64")
OUTPUTS = (".mtx", ".npy", ".npz", ".petsc")
SIZES = ("s", "m", "l")
PLOTS = (".png", ".pdf", ".svg")
THREADS = "threads of a rank [the cores, shared by the ranks]"

EXIT_CODES = """exit codes:
  0  done; of solve: converged, and |b - A x| was recomputed to say so
  2  wrong use
  3  not converged (the report says why and what to try)
  4  bad input (the message names file and line)
  5  environment: MPI, memory, device, file system (see tacit doctor)
"""


class WrongUse(Exception):
    """Arguments that do not fit."""


# --- arguments --------------------------------------------------------------------------------------------------------


def nearest(name: str, known: Sequence[str]) -> str:
    """'; did you mean "gmres"?', or nothing when no known name resembles."""
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f'; did you mean "{close[0]}"?' if close else ""


def one_of(what: str, known: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f'unknown {what} "{text}"{nearest(text, known)} ({", ".join(known)})')
        return text

    return check


def whole(least: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f'expected a whole number from {least}, found "{text}"')
        return value

    return check


def real(least: float, strictly: bool = False) -> Callable[[str], float]:
    def check(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < least or (strictly and value == least):
            raise argparse.ArgumentTypeError(
                f'expected a number {"above" if strictly else "from"} {least:g}, found "{text}"'
            )
        return value

    return check


def preconditioner(text: str) -> tuple[str, dict[str, str]]:
    """NAME:OPTION=VALUE,... as a name and options."""
    name, colon, rest = text.partition(":")
    one_of("preconditioner", PRECONDS)(name)
    options = {}
    for item in rest.split(",") if colon else ():
        key, equals, value = item.partition("=")
        if not (key and equals and value):
            raise argparse.ArgumentTypeError(f'expected {name}:OPTION=VALUE,..., found "{text}"')
        options[key.strip().replace("-", "_")] = value.strip()
    if options and name == "none":
        raise argparse.ArgumentTypeError(f'"none" takes no options, found "{text}"')
    return name, options


def right_hand_side(text: str) -> str:
    if text.startswith("random") and text != "random":
        seed = text.removeprefix("random:")
        if seed == text or not seed.isdigit():
            raise argparse.ArgumentTypeError(f'expected random:SEED with a whole number, found "{text}"')
    return text


def destination(suffixes: Sequence[str]) -> Callable[[str], str]:
    """A file that can be written: its folder exists, its suffix is known."""

    def check(text: str) -> str:
        path = Path(text)
        if suffixes and path.suffix not in suffixes and not text.endswith(".mtx.gz"):
            raise argparse.ArgumentTypeError(f'"{text}" must end in one of {", ".join(suffixes)}')
        folder = path.parent
        if not folder.is_dir():
            raise argparse.ArgumentTypeError(f"the folder {folder} does not exist")
        if path.is_dir() or not os.access(folder, os.W_OK):
            raise argparse.ArgumentTypeError(f"{text} cannot be written")
        return text

    return check


def json_target(text: str) -> str:
    return text if text == "-" else destination(())(text)


class Parser(argparse.ArgumentParser):
    """Refuses in one line that names the nearest known word; of several ranks only the first speaks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        place = launch.launched()
        message = message.removeprefix("argument ")
        if place is None or place[0] == 0:
            sys.stderr.write(f"{self.prog}: {message}\n{self.prog} --help shows what there is\n")
        raise SystemExit(USAGE)

    def parse_all(self, words: Sequence[str]) -> argparse.Namespace:
        arguments, rest = self.parse_known_args(words)
        if rest:
            parser = getattr(arguments, "parser", self)
            known = [name for name in parser._option_string_actions if name.startswith("--")]
            word = rest[0].partition("=")[0]
            parser.error(
                f'unknown option "{word}"{nearest(word, known)}'
                if word.startswith("-")
                else f'unexpected argument "{word}"'
            )
        return arguments


def choice(
    group: Any, option: str, what: str, known: Sequence[str], before: str = "", default: str | None = None
) -> None:
    """An option that takes one of some names; the first unless `default` says what happens without it."""
    group.add_argument(
        option,
        default=None if default else known[0],
        type=one_of(what, known),
        metavar="NAME",
        help=f"{before}{', '.join(known)} [{default or known[0]}]",
    )


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
    g.add_argument(
        "--restart", default=30, type=whole(1), metavar="N", help="vectors in a cycle of gmres and its kin [30]"
    )
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
    g.add_argument("--json", type=json_target, metavar="FILE|-", help="write the result as JSON")
    g.add_argument("--plot", type=destination(PLOTS), metavar="FILE", help="plot the convergence: .png, .pdf, .svg")
    g.add_argument("--trace", type=destination(()), metavar="FILE", help="write what ran when, for ui.perfetto.dev")

    text = "solve Poisson's equation in the unit cube and compare with the solution"
    p = command("poisson", poisson, text, epilog=EXIT_CODES)
    cli_poisson.build(p, choice, whole, real)
    p.add_argument("--json", type=json_target, metavar="FILE|-", help="write the result as JSON")

    p = command("reconstruct", reconstruct, "images from the sinograms of a parallel-beam scan", epilog=EXIT_CODES)
    cli_apps.add_reconstruct(p, choice, whole, real, destination, json_target)

    p = command("infer", infer, "sparse network inference by the rules of the Graph Challenge", epilog=EXIT_CODES)
    cli_apps.add_infer(p, choice, whole, real, destination, json_target)

    p = command("multigrid", multigrid, "solve a problem on a grid by multigrid", epilog=EXIT_CODES)
    cli_multigrid.add(p, sys.modules[__name__])

    p = command("bem", bem, "find the charges on conductors whose surface is a mesh", epilog=EXIT_CODES)
    cli_bem.add(p, sys.modules[__name__])

    p = command("info", info, "say what a matrix or vector file holds")
    p.add_argument("file", metavar="FILE")
    p.add_argument("--json", type=json_target, metavar="FILE|-", help="write it as JSON")

    p = command("check", check, "read files strictly and say whether they are valid")
    p.add_argument("files", nargs="+", metavar="FILE")

    p = command("convert", convert, "convert a matrix or vector file; the suffix says into what")
    p.add_argument("input", metavar="IN")
    p.add_argument("output", metavar="OUT", type=destination(OUTPUTS), help=".mtx, .mtx.gz, .npz, .npy, .petsc")

    p = command("doctor", doctor, "find out whether MPI, threads and GPU work here, and what cures what does not")
    p.add_argument("--json", type=json_target, metavar="FILE|-", help="write it as JSON")

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


# --- entry ------------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
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
    code = guarded(lambda: int(arguments.run(arguments)), arguments.parser.prog)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    return launch.leave(code)


def _refuse(parser: Parser, text: str) -> int:
    with contextlib.suppress(SystemExit):
        parser.error(text)
    return launch.leave(USAGE)


def guarded(run: Callable[[], int], name: str) -> int:
    """run()'s exit code, or that of what it raises, said in one line. Bugs show where they are."""
    try:
        return run()
    except BrokenPipeError:  # `tacit info A.mtx | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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


# --- solve ------------------------------------------------------------------------------------------------------------


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

    first = comm.rank == 0
    if arguments.levels:
        comm.set_levels(arguments.levels)
    out = report.console(stderr=arguments.json == "-", quiet=not first)
    start = time.perf_counter()
    A = files.read_matrix(arguments.file, comm, arguments.scalar)
    if A.shape[0] != A.shape[1]:
        raise tacit.InputError(f"{arguments.file}: expected a square matrix, found {A.shape[0]} x {A.shape[1]}")
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
            files.write_vector(arguments.output, x)
        written["solution"] = arguments.output
    if arguments.trace:
        if first:
            with report.replacing(arguments.trace) as temporary:
                result.save_trace(temporary)
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


class Monitor:
    """Shows the residual while a method runs: a moving line on a terminal, lines elsewhere; and notes the times."""

    def __init__(self, arguments: argparse.Namespace, out: Console, live: bool) -> None:
        self.out = out
        self.shown = bool(arguments.monitor) and not out.quiet
        self.live = self.shown and live
        self.goal = float(arguments.rtol)
        self.stamps: list[tuple[int, float]] = []
        self.first: float | None = None
        self.last: tuple[int, float] | None = None
        self.printed = -1
        self.progress: Any = None

    def __enter__(self) -> Monitor:
        self.start = time.perf_counter()
        if self.live:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self.progress = Progress(
                TextColumn("iteration {task.fields[iteration]:>6,}"),
                BarColumn(),
                TextColumn("residual {task.fields[residual]:.2e}"),
                TimeElapsedColumn(),
                console=self.out,
                transient=True,
                refresh_per_second=8,
            )
            self.task = self.progress.add_task("", total=1.0, iteration=0, residual=1.0)
            self.progress.start()
        elif self.shown:
            self.out.print("iteration  residual (by the recurrence)")
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()
        elif self.shown and self.last is not None and self.last[0] != self.printed:
            self._line(*self.last)

    def callback(self, state: Any) -> bool:
        k, r = int(state.iteration), float(state.residual_norm)
        self.stamps.append((k, time.perf_counter() - self.start))
        self.last = k, r
        if self.first is None:
            self.first = r
        if self.progress is not None:
            self.progress.update(self.task, completed=self._share(r), iteration=k, residual=r)
        elif self.shown and k % 10 ** max(0, len(str(k)) - 2) == 0:  # two digits of every number
            self._line(k, r)
        return False

    def _line(self, k: int, r: float) -> None:
        self.out.print(f"{k:9d}  {r:.6e}", soft_wrap=True)
        self.printed = k

    def _share(self, r: float) -> float:
        """How far the residual has come, in orders of magnitude."""
        if not (0 < r < math.inf and self.goal > 0):
            return 0.0
        return min(1.0, max(0.0, math.log(r) / math.log(self.goal))) if self.goal < 1 else 1.0

    def times(self, facts: dict[str, Any]) -> list[float]:
        """Seconds at which each value of the history was there; evenly spread where nobody looked."""
        n = len(facts["history"])
        setup, whole = facts["seconds"]["setup"], facts["seconds"]["solve"]
        seen = dict(self.stamps)
        if all(k in seen for k in range(1, n)):
            return [setup, *(max(setup, seen[k]) for k in range(1, n))]
        return [setup + whole * k / max(1, n - 1) for k in range(n)]


# --- the other commands -----------------------------------------------------------------------------------------------


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
