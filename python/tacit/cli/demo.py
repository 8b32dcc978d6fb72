"""`tacit demo`: the main features of Tacit, on a page of pictures. A flow problem is solved by classical, s-step and
pipelined methods on one rank and on two; if the applications are built, the parts of demo_parts follow.

Something that decays is released at two places into a box of stirred fluid: -nu Laplace(c) + v . grad(c) + sigma c = f
in the unit cube, c = 0 on its walls, v a steady pair of vortices. Upwind differences on n x n x n points give a sparse
system that is not symmetric, with seven entries a row.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import _core, launch, report
from tacit.cli import demo_parts
from tacit.cli.failures import guarded
from tacit.cli.ranks import communicator, own_command
from tacit.plot import page

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.table import Table

    Values = npt.NDArray[Any]
    Indices = npt.NDArray[np.int64]

POINTS = {"s": 40, "m": 100, "l": 200}  # along an edge
QUICK = 20
DIFFUSION = 0.004
DECAY = 3.0
RTOL = 1e-8
SAMPLE = 16  # points along an edge of the small system that is written to a file
TRACED = 12  # iterations in the trace
SCHEMA = "tacit.demo/2"
MORE = "`./run demo` builds these applications and shows them too."


@dataclass(frozen=True)
class Case:
    """One solve of the demo: its method and options, and the number of ranks."""

    method: str
    precond: str
    ranks: int


def cases(most: int) -> list[Case]:
    variants = ("gmres", "ca-gmres", "pipelined-gmres", "bicgstab", "ca-bicgstab", "pipelined-bicgstab")
    return [
        Case(method, "ilu0", ranks)
        for ranks in range(1, most + 1)
        for method in (variants if ranks == most else ("gmres", "bicgstab"))
    ]


# --- the problem ------------------------------------------------------------------------------------------------------


def flow(x: Values, y: Values, z: Values) -> tuple[Values, Values]:
    """Velocity across (x) and up (y): two vortices that turn against each other, at rest on the walls z = 0 and 1.

    Its streamlines on a plane z are the lines of constant sin(pi x) sin(2 pi y).
    """
    import numpy as np

    slow = np.sin(np.pi * z)
    u = np.sin(np.pi * x) * np.cos(2 * np.pi * y) * slow
    v = -0.5 * np.cos(np.pi * x) * np.sin(2 * np.pi * y) * slow
    return u, v


def source(x: Values, y: Values, z: Values) -> Values:
    import numpy as np

    def puff(x0: float, y0: float, width: float) -> Values:
        r2 = (x - x0) ** 2 + (y - y0) ** 2 + (z - 0.5) ** 2
        return np.exp(-r2 / (2 * width**2))

    return puff(0.3, 0.5, 0.045) + puff(0.75, 0.26, 0.045)


def rows(n: int, first: int, last: int) -> tuple[Indices, Indices, Values, Values]:
    """Rows `first` to `last` (excluded) of the system: row starts, columns, values, right-hand side."""
    import numpy as np

    h = 1 / (n + 1)
    row = np.arange(first, last, dtype=np.int64)
    place = (row % n, row // n % n, row // n**2)  # along x, y, z
    x, y, z = ((p + 1) * h for p in place)
    u, v = flow(x, y, z)
    columns = np.empty((len(row), 7), np.int64)
    values = np.empty((len(row), 7))
    inside = np.ones((len(row), 7), bool)
    columns[:, 3] = row
    values[:, 3] = 6 * DIFFUSION + h * (np.abs(u) + np.abs(v)) + h * h * DECAY
    # In ascending order of columns: below in z, y, x, the point itself, above in x, y, z.
    for axis, (velocity, step) in enumerate(((u, 1), (v, n), (np.zeros(1), n * n))):
        for where, sign in ((2 - axis, -1), (4 + axis, 1)):
            columns[:, where] = row + sign * step
            values[:, where] = -DIFFUSION - h * np.maximum(-sign * velocity, 0)
            inside[:, where] = (place[axis] > 0) if sign < 0 else (place[axis] < n - 1)
    start = np.concatenate(([0], np.cumsum(inside.sum(axis=1, dtype=np.int64))))
    return start, columns[inside], values[inside], h * h * source(x, y, z)


def system(n: int, comm: Any) -> tuple[Any, Values]:
    """The distributed operator and this rank's part of the right-hand side."""
    from tacit import layout, op

    offsets = layout.blocks(n**3, comm.size)
    first, last = offsets[comm.rank], offsets[comm.rank + 1]
    start, columns, values, b = rows(n, first, last)
    return op.csr((values, columns, start), (last - first, n**3), own_rows=True, comm=comm), b


# --- run by the ranks -------------------------------------------------------------------------------------------------


def work(specification: str) -> None:
    """The program of a rank: solves the cases and writes a line of JSON for each."""
    from tacit import krylov, layout

    task = json.loads(specification)
    comm = communicator(None)
    n = task["points"]
    results = Path(task["results"])

    def say(what: dict[str, Any]) -> None:
        if comm.rank == 0:
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(report.plain(what)) + "\n")

    start = time.perf_counter()
    A, b = system(n, comm)
    comm.barrier()
    built = time.perf_counter() - start
    x = None
    for number, given in task["cases"]:
        case = Case(**given)
        say({"number": number, "state": "running"})
        stamps: list[float] = []
        how = {"method": case.method, "precond": case.precond, "rtol": RTOL, "comm": comm}
        result = krylov.solve(A, b, callback=krylov.Observer(_clock(stamps)), **how)
        document = report.document(result, words=["demo"], read_seconds=built, rtol=RTOL)
        setup = document["seconds"]["setup"]
        first = len(document["history"]) - len(stamps)  # the callback is not called for the initial residual
        times = [setup] * first + [max(setup, t) for t in stamps]
        say({"number": number, "state": "done", "result": document, "times": times})
        if result.converged:
            x = result.x
    if task["trace"]:
        case = Case(**task["cases"][-1][1])
        traced = krylov.solve(
            A, b, method=case.method, precond=case.precond, rtol=RTOL, comm=comm, max_iterations=TRACED, trace=True
        )
        if comm.rank == 0:
            traced.save_trace(task["trace"])
    if task["field"] and x is not None:
        import numpy as np

        whole = layout.gather(x, comm)
        if comm.rank == 0:
            with report.replacing(task["field"]) as temporary:
                np.save(temporary, whole.reshape(n, n, n)[n // 2])


def _clock(stamps: list[float]) -> Any:
    """A callback that records the end of each iteration, in seconds from now."""
    start = time.perf_counter()

    def note(_state: Any) -> bool:
        stamps.append(time.perf_counter() - start)
        return False

    return note


# --- run by the command -----------------------------------------------------------------------------------------------

COLUMNS = ("method", "preconditioner", "ranks", "seconds", "iterations", "residual", "reductions", "sent")


def cells(case: Case, done: dict[str, Any] | None, running: bool) -> list[str]:
    if done is None:
        return [case.method, case.precond, str(case.ranks), "..." if running else "", "", "", "", ""]
    times, counts = done["seconds"], done["counts"]
    return [
        case.method,
        case.precond,
        str(case.ranks),
        f"{times['setup'] + times['solve']:.2f}",
        report.count(done["iterations"]),
        report.residual(done["residual_norm"]) if done["converged"] else done["reason"],
        report.count(counts["reductions"]),
        report.size(counts["bytes"]),
    ]


def table(plan: list[Case], done: dict[int, dict[str, Any]], running: set[int]) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in COLUMNS:
        made.add_column(name, justify="left" if name in ("method", "preconditioner") else "right", no_wrap=True)
    for number, case in enumerate(plan):
        result = done.get(number)
        style = "dim" if result is None else None if result["converged"] else "red"
        made.add_row(*cells(case, result, number in running), style=style)
    return made


WIDTHS = (22, 14, 5, 8, 10, 10, 10, 10)


def line(words: list[str]) -> str:
    """A row of the table as plain text, for output that is not a terminal."""
    parts = [f"{w:<{k}}" if i < 2 else f"{w:>{k}}" for i, (w, k) in enumerate(zip(words, WIDTHS, strict=True))]
    return "  ".join(parts).rstrip()


def solve(ranks: int, threads: int, task: dict[str, Any], results: Path, show: Show) -> int:
    """Runs the cases of so many ranks, and returns their exit code."""
    results.touch()
    cases = [(k, asdict(case)) for k, case in enumerate(show.plan) if case.ranks == ranks]
    words = json.dumps({**task, "cases": cases, "results": str(results)})
    command = [*own_command()[:-1], "tacit.cli.demo", words]
    code = launch.run(ranks, command, threads, meanwhile=lambda: show.follow(results))
    show.follow(results)
    return code


def main(size: str = "m", quick: bool = False, folder: Path = Path("tacit-demo"), json_too: str | None = None) -> int:
    """Runs the demo and returns 0, or 3 if a solve did not converge."""
    out = report.console(stderr=json_too == "-")
    n = QUICK if quick else POINTS[size]
    try:
        launch.find_mpiexec()
        most = 2
    except launch.LaunchError as error:
        out.print(f"one rank only: {error}")
        most = 1
    threads = max(1, launch.cores() // 2)
    folder.mkdir(parents=True, exist_ok=True)
    plan = cases(most)
    heading = "[bold]Two sources in a stirred box:[/] convection, diffusion and decay in three dimensions"
    out.print(f"{heading}, {report.count(n**3)} unknowns, relative residual {RTOL:g}", markup=True)
    out.print(f"{report.processor()}; {report.plural(threads, 'thread')} a rank; times with set-up")
    start = time.perf_counter()
    show = Show(plan, out)
    with tempfile.TemporaryDirectory(prefix="tacit-") as scratch, show:
        slice_file = Path(scratch) / "slice.npy"
        for ranks in sorted({case.ranks for case in plan}):
            last = {"trace": str(folder / "trace.json"), "field": str(slice_file)}
            task = {"points": n, **(last if ranks == most else {"trace": "", "field": ""})}
            if code := solve(ranks, threads, task, Path(scratch) / f"{ranks}.jsonl", show):
                return code
        names, sections = write(folder, plan, show, n, slice_file)
    converged = all(result["converged"] for result in show.done.values())
    runs = [{**asdict(case), **show.done[k]} for k, case in enumerate(plan)]
    facts: dict[str, Any] = {"schema": SCHEMA, "version": report.version(), "runs": runs, "parts": {}}
    foot = [f"Tacit {report.version()}, {report.processor()}; {report.plural(threads, 'thread')} a rank."]
    if not _core.applications_built:
        foot = [
            f"Without multigrid, boundary elements, tomography and simulated ranks, which this build lacks. {MORE}",
            *foot,
        ]
        out.print(MORE)
    elif sections:  # without matplotlib there are no sections
        for name, part in demo_parts.run(folder, quick):
            out.print(part.line)
            facts["parts"][name] = part.facts
            sections.append(part.section)
            names += part.section.pictures
            converged = converged and part.facts["converged"]
    report.write_json(facts, str(folder / "results.json"))
    if json_too:
        report.write_json(facts, json_too)
    if sections:
        intro = ["What Tacit can do, on small problems. Every number on this page was computed here, just now."]
        page.write(folder / "index.html", "Tacit", intro, sections, foot)
        names.insert(0, ("index.html", "a page with all of it: open it in a browser"))
    out.print(f"{time.perf_counter() - start:.0f} s in all. It left")
    for name, what in names:
        out.print(f"  {folder / name}: {what}")
    out.print(f"Go on with: {again(folder, plan)}")
    return 0 if converged else 3


class Show:
    """The growing table of results: redrawn on a terminal, line by line elsewhere."""

    def __init__(self, plan: list[Case], out: Any) -> None:
        self.plan, self.out = plan, out
        self.done: dict[int, dict[str, Any]] = {}
        self.times: dict[int, list[float]] = {}
        self.running: set[int] = set()
        self.read: dict[Path, int] = {}
        self.live: Any = None

    def __enter__(self) -> Show:
        if self.out.is_terminal:
            from rich.live import Live

            self.live = Live(table(self.plan, {}, set()), console=self.out, refresh_per_second=8)
            self.live.start()
        else:
            self.out.print(line(list(COLUMNS)))
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.update(table(self.plan, self.done, set()))
            self.live.stop()

    def follow(self, results: Path) -> None:
        """Reads what the ranks have written since the last call, and shows it."""
        with results.open(encoding="utf-8") as file:
            file.seek(self.read.get(results, 0))
            while (text := file.readline()).endswith("\n"):
                self.read[results] = file.tell()
                self._take(json.loads(text))
        if self.live is not None:
            self.live.update(table(self.plan, self.done, self.running))

    def _take(self, said: dict[str, Any]) -> None:
        number = said["number"]
        if said["state"] == "running":
            self.running.add(number)
            return
        self.running.discard(number)
        self.done[number] = said["result"]
        self.times[number] = said["times"]
        if self.live is None:
            self.out.print(line(cells(self.plan[number], said["result"], False)))


def plot_field(concentration: Path, path: Path) -> None:
    """Plots the solution on the plane z = 1/2, with the paths of the fluid."""
    import numpy as np

    from tacit.plot import plotting

    c = np.load(concentration)
    g = (np.arange(200) + 0.5) / 200
    y, x = np.meshgrid(g, g, indexing="ij")
    plotting.field(
        c / c.max(),
        path,
        title="Two sources in a stirred box",
        label="concentration (largest = 1)",
        note="Plane z = 1/2. Lines: paths of the fluid, clockwise above, counterclockwise below.",
        lines=np.sin(np.pi * x) * np.sin(2 * np.pi * y),
    )


def write(
    folder: Path, plan: list[Case], show: Show, n: int, slice_file: Path
) -> tuple[list[tuple[str, str]], list[page.Section]]:
    """Writes the files of the solves. Returns their names with descriptions, and the sections of the page (none without
    matplotlib).
    """
    from scipy.sparse import csr_array

    from tacit import op

    start, columns, values, _ = rows(SAMPLE, 0, SAMPLE**3)
    op.write(folder / "flow.mtx", csr_array((values, columns, start), shape=(SAMPLE**3, SAMPLE**3)))
    most = report.plural(max(case.ranks for case in plan), "rank")
    names = [("results.json", "all numbers")]
    names.append(("flow.mtx", f"the same problem with {report.count(SAMPLE**3)} unknowns, to play with"))
    if (folder / "trace.json").exists():
        names.append(("trace.json", f"{TRACED} iterations on {most}: open it at ui.perfetto.dev"))
    try:
        from tacit.plot import demo as figures
        from tacit.plot import plotting

        plotting.figure(1, 1)
    except ImportError as error:
        show.out.print(str(error))
        return names, []
    curves = [
        plotting.Curve(
            case.method,
            [math.nan if r is None else r for r in show.done[k]["history"]],
            show.times[k],
            show.done[k]["residual_norm"],
            report.plural(case.ranks, "rank"),
        )
        for k, case in enumerate(plan)
    ]
    title = f"Two sources in a stirred box, {report.count(n**3)} unknowns"
    plotting.convergence(curves, folder / "convergence.png", title=title, goal=RTOL)
    counts = {
        case.method: (show.done[k]["counts"]["reductions"], case.method.startswith("pipelined"))
        for k, case in enumerate(plan)
        if case.ranks == plan[-1].ranks
    }
    figures.reductions(counts, folder / "reductions.png", f"Global reductions of the same solve on {most}")
    pictures = [
        ("convergence.png", "Residual against iterations and seconds"),
        ("reductions.png", "Reductions of each method"),
    ]
    if slice_file.exists():
        plot_field(slice_file, folder / "field.png")
        pictures.append(("field.png", "The solution on a plane through the middle"))
    text = (
        f"A convection-diffusion problem with {report.count(n**3)} unknowns and a matrix that is not symmetric, to a"
        f" relative residual of {RTOL:g}, which is recomputed at the end. The s-step methods (ca-) have the iterates of"
        " their classical methods in exact arithmetic, and take one reduction for several iterations. The pipelined"
        " methods compute the next product while a reduction is under way. On two ranks of one machine a reduction"
        " costs little, and these methods are faster or slower by the bytes that they move; on many ranks reductions"
        " dominate.",
        f"`{folder / 'trace.json'}` shows a pipelined solve step by step at ui.perfetto.dev. Try:"
        f" `{again(folder, plan)}`",
    )
    rows_shown = [cells(case, show.done[k], False) for k, case in enumerate(plan)]
    section = page.Section("Classical, s-step and pipelined methods", text, pictures, COLUMNS, rows_shown, words=2)
    return pictures + names, [section]


def again(folder: Path, plan: list[Case]) -> str:
    ranks = max(case.ranks for case in plan)
    return f"{report.program()} solve {folder / 'flow.mtx'} --method gmres --precond ilu0 --ranks {ranks} --monitor"


def _main() -> int:
    def run() -> int:
        work(sys.argv[1])
        return 0

    return launch.leave(guarded(run, "tacit demo"))


if __name__ == "__main__":
    sys.exit(_main())
