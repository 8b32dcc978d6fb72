"""`tacit demo`: one flow problem, solved several ways on one rank and on two; a table, two pictures and a trace.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import launch, report
from tacit.cli.failures import guarded
from tacit.cli.ranks import communicator, own_command

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
SAMPLE = 16  # points along an edge of the system that is left to play with
DEFAULT = "one-reduction"  # of the ways to make a basis of gmres orthogonal
TRACED = 12  # iterations in the trace


@dataclass(frozen=True)
class Case:
    """One solve of the demo: what is chosen, and on how many ranks."""

    method: str
    precond: str
    ranks: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        detail = self.options.get("orthogonalisation", DEFAULT)
        return self.method + (f" ({detail})" if detail != DEFAULT else "")


def cases(quick: bool, most: int) -> list[Case]:
    mgs = {"orthogonalisation": "mgs"}
    some = [Case("bicgstab", "ilu0", 1), Case("gmres", "ilu0", 1)]
    if most > 1:
        some += [Case("bicgstab", "ilu0", 2), Case("gmres", "ilu0", 2), Case("gmres", "ilu0", 2, mgs)]
    if not quick:
        some += [Case("bicgstab", name, most) for name in ("spai", "none")]
    return some


# --- the problem ------------------------------------------------------------------------------------------------------


def flow(x: Values, y: Values, z: Values) -> tuple[Values, Values]:
    """Velocity across (x) and up (y): two vortices that turn against each other, at rest on the walls z = 0 and 1.

    Its paths on a plane z are the lines on which sin(pi x) sin(2 pi y) stays the same.
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
        value: Values = np.exp(-r2 / (2 * width**2))
        return value

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
    from tacit import _core, layout, op

    offsets = layout.blocks(n**3, comm.size)
    first, last = offsets[comm.rank], offsets[comm.rank + 1]
    start, columns, values, b = rows(n, first, last)
    return op.Csr(_core.csr_float64(comm, offsets, offsets, first, start, columns, values), comm, "float64"), b


# --- the ranks' side --------------------------------------------------------------------------------------------------


def work(specification: str) -> None:
    """What one rank of the demo does: solves its cases and leaves a line of JSON for each."""
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
        result = krylov.solve(
            A,
            b,
            method=case.method,
            precond=None if case.precond == "none" else case.precond,
            rtol=RTOL,
            comm=comm,
            callback=krylov.Observer(_clock(stamps)),
            **case.options,
        )
        document = report.document(result, command=["tacit", "demo"], read_seconds=built, rtol=RTOL)
        setup = document["seconds"]["setup"]
        first = len(document["history"]) - len(stamps)  # the residual before the first iteration has no call
        times = [setup] * first + [max(setup, t) for t in stamps]
        say({"number": number, "state": "done", "result": document, "times": times})
        if result.converged:
            x = result.x
    if task["trace"]:
        case = Case(**task["cases"][0][1])
        chosen: dict[str, Any] = {"method": case.method, "precond": case.precond, **case.options}
        traced = krylov.solve(A, b, rtol=RTOL, comm=comm, max_iterations=TRACED, trace=True, **chosen)
        if comm.rank == 0:
            traced.save_trace(task["trace"])
    if task["field"] and x is not None:
        import numpy as np

        whole = layout.gather(x, comm)
        if comm.rank == 0:
            with report.replacing(task["field"]) as temporary:
                np.save(temporary, whole.reshape(n, n, n)[n // 2])


def _clock(stamps: list[float]) -> Any:
    """A callback that notes when each iteration was over, in seconds from now."""
    start = time.perf_counter()

    def note(_state: Any) -> bool:
        stamps.append(time.perf_counter() - start)
        return False

    return note


# --- the launching side -----------------------------------------------------------------------------------------------

COLUMNS = ("method", "preconditioner", "ranks", "seconds", "iterations", "residual", "reductions", "sent")


def cells(case: Case, done: dict[str, Any] | None, running: bool) -> list[str]:
    if done is None:
        return [case.label, case.precond, str(case.ranks), "..." if running else "", "", "", "", ""]
    times, counts = done["seconds"], done["counts"]
    return [
        case.label,
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
    """A row of the table where it cannot be drawn anew."""
    parts = [f"{w:<{k}}" if i < 2 else f"{w:>{k}}" for i, (w, k) in enumerate(zip(words, WIDTHS, strict=True))]
    return "  ".join(parts).rstrip()


def main(size: str = "m", quick: bool = False, folder: Path = Path("tacit-demo")) -> int:
    """Runs the demo and returns 0, or 3 if a solve did not converge."""
    out = report.console()
    n = QUICK if quick else POINTS[size]
    try:
        launch.find_mpiexec()
        most = 2
    except launch.LaunchError as error:
        out.print(f"one rank only: {error}", markup=False)
        most = 1
    threads = max(1, launch.cores() // 2)
    folder.mkdir(parents=True, exist_ok=True)
    plan = cases(quick, most)
    heading = "[bold]Two sources in a stirred box:[/] convection, diffusion and decay in three dimensions"
    out.print(f"{heading}, {report.count(n**3)} unknowns, relative residual {RTOL:g}", soft_wrap=True)
    out.print(f"{report.processor()}; {report.plural(threads, 'thread')} a rank; times with set-up", markup=False)
    start = time.perf_counter()
    show = Show(plan, out)
    with tempfile.TemporaryDirectory(prefix="tacit-") as scratch, show:
        slice_file = Path(scratch) / "slice.npy"
        for ranks in sorted({case.ranks for case in plan}):
            results = Path(scratch) / f"{ranks}.jsonl"
            results.touch()
            task = {
                "points": n,
                "cases": [(k, asdict(case)) for k, case in enumerate(plan) if case.ranks == ranks],
                "results": str(results),
                "trace": str(folder / "trace.json") if ranks == most else "",
                "field": str(slice_file) if ranks == most else "",
            }
            code = launch.run(
                ranks,
                [*own_command()[:-1], "tacit.cli.demo", json.dumps(task)],
                threads,
                meanwhile=lambda results=results: show.follow(results),  # type: ignore[misc]
            )
            show.follow(results)
            if code != 0:
                return code
        names = write(folder, plan, show, n, slice_file)
    out.print(f"{time.perf_counter() - start:.0f} s in all. It left")
    for name, what in names:
        out.print(f"  {folder / name}: {what}", markup=False, soft_wrap=True)
    sample = folder / "flow.mtx"
    command = f"tacit solve {sample} --method gmres --precond ilu0 --ranks {most} --monitor"
    out.print(f"Go on with: {command}", markup=False, soft_wrap=True)
    return 0 if all(result["converged"] for result in show.done.values()) else 3


class Show:
    """The table while it fills: drawn anew on a terminal, line by line elsewhere."""

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
            self.out.print(line(list(COLUMNS)), markup=False, soft_wrap=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.update(table(self.plan, self.done, set()))
            self.live.stop()

    def follow(self, results: Path) -> None:
        """Takes in what the ranks have written since the last look."""
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
            self.out.print(line(cells(self.plan[number], said["result"], False)), markup=False, soft_wrap=True)


def write(folder: Path, plan: list[Case], show: Show, n: int, slice_file: Path) -> list[tuple[str, str]]:
    """The demo's files; their names, and what they are."""
    import numpy as np
    from scipy.sparse import csr_array

    from tacit import op

    names = []
    runs = [{**asdict(case), **show.done[k]} for k, case in enumerate(plan)]
    facts = {"schema": "tacit.demo/1", "version": report.version(), "runs": runs}
    report.write_json(facts, str(folder / "results.json"))
    start, columns, values, _ = rows(SAMPLE, 0, SAMPLE**3)
    op.write(folder / "flow.mtx", csr_array((values, columns, start), shape=(SAMPLE**3, SAMPLE**3)))
    try:
        from tacit.plot import plotting

        plotting.figure(1, 1)
    except ImportError as error:
        show.out.print(str(error), markup=False)
    else:
        curves = [
            plotting.Curve(
                f"{case.label} + {case.precond}" if case.precond != "none" else case.label,
                [math.nan if r is None else r for r in show.done[k]["history"]],
                show.times[k],
                show.done[k]["residual_norm"],
                report.plural(case.ranks, "rank"),
            )
            for k, case in enumerate(plan)
        ]
        title = f"Two sources in a stirred box, {report.count(n**3)} unknowns"
        plotting.convergence(curves, folder / "convergence.png", title=title, goal=RTOL)
        names.append(("convergence.png", "residual against iterations and seconds"))
        if slice_file.exists():
            c = np.load(slice_file)
            g = (np.arange(200) + 0.5) / 200
            y, x = np.meshgrid(g, g, indexing="ij")
            plotting.field(
                c / c.max(),
                folder / "field.png",
                title="Two sources in a stirred box",
                label="concentration (largest = 1)",
                note="Plane z = 1/2. Lines: paths of the fluid, clockwise above, counterclockwise below.",
                lines=np.sin(np.pi * x) * np.sin(2 * np.pi * y),
            )
            names.append(("field.png", "the solution on a plane through the middle"))
    if (folder / "trace.json").exists():
        ranks = report.plural(max(case.ranks for case in plan), "rank")
        names.append(("trace.json", f"{TRACED} iterations on {ranks}: open it at ui.perfetto.dev"))
    names.append(("results.json", "all numbers"))
    names.append(("flow.mtx", f"the same problem with {report.count(SAMPLE**3)} unknowns, to play with"))
    return names


def _main() -> int:
    def run() -> int:
        work(sys.argv[1])
        return 0

    return launch.leave(guarded(run, "tacit demo"))


if __name__ == "__main__":
    sys.exit(_main())
