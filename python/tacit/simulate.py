"""Solves on simulated ranks: the library's code on a machine that is described by a few parameters.

The solve is carried out by the same code and with the same messages as on real ranks; only time is simulated, by a
LogGP model (docs/theory/simulator.md). This shows, for hundreds or thousands of ranks, whether a method is faster, with
which step or depth, and on which network.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np

from . import _core, krylov
from . import comm as _comm
from . import precond as _precond
from ._described import MACHINE, MACHINE_LEVEL, SOLVE, SOLVE_NAMES, SolveOptions
from ._files import reading
from ._options import Method, fill, named
from ._support import (
    as_array,
    as_vector,
    choose,
    chosen_scalar,
    core,
    like,
    to_scalar,
    unknown_option,
    whole_number,
)
from .op import Csr, HMatrix, as_operator, csr, stored

__all__ = [
    "Phase", "Replayed", "Simulated", "boxes", "machine", "machines", "measure", "ranks_of", "replay", "solve",
]  # fmt: skip

# Options of a solve that do not apply to simulated ranks, which have no threads and no transport of their own.
_REAL = ("engine", "schedule", "remote_threads", "job_rows")
_OPTIONS = {name: option for name, option in SOLVE.items() if name not in _REAL}


def machines() -> list[str]:
    """The names of the machines that Tacit describes."""
    return list(core("machine_names")())


def machine(given: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a machine, in seconds, bytes and operations.

    Parameters
    ----------
    given : str or dict
        A name of :func:`machines`, a JSON file, or a dict of parameters. "base" names the machine that the missing ones
        are taken from; without it they have their defaults. Parameters: "latency", "overhead" (at each end of a
        message), "gap" (seconds a byte), "noise" (mean delay of a kernel), "bandwidth" and "flop_rate" of a rank,
        "kernel" (fixed seconds of each kernel), "cache" (bytes) and
        "cache_bandwidth", "delivery" ("eager", "meeting"), "progress" ("ideal", "in_wait", "poll" every
        "poll_interval"), "seed", and "levels", from the smallest groups of ranks to the largest: [{"ranks": 12,
        "latency": ..., "overhead": ..., "gap": ...}]. Off by default: "eager_limit" (rendezvous of larger messages),
        "ranks_per_node" with "nic_gap" and "node_bandwidth", "topology" ("flat", "fat-tree", "torus", "dragonfly")
        with "hop_latency" and "uplink_gap", "noise_interval" and "noise_duration". docs/reference/machines.md
        describes each.

    Raises
    ------
    ValueError, TypeError
        For an unknown name or parameter, or a value out of range.

    Examples
    --------
    >>> import tacit
    >>> tacit.simulate.machine({"base": "modern", "noise": 0})["latency"]
    1e-06
    """
    return _as_dict(_model(given))


def measure(comm: Any = None) -> dict[str, Any]:
    """The parameters of the machine that ranks are, measured by Tacit's own kernels and messages in about a second.

    Parameters
    ----------
    comm : tacit.comm.Communicator, mpi4py.MPI.Comm or None
        One rank has no messages, whose parameters are then 0.

    Returns
    -------
    dict
        As of :func:`machine`, which takes it; in seconds, bytes and operations. The same on all ranks.

    Notes
    -----
    Collective. "bandwidth", "cache_bandwidth" and "kernel" come from y += a x on vectors of many sizes on all ranks at
    once, "latency", "overhead" and "gap" from messages between two ranks (with "levels" where nodes have several),
    "eager_limit" from sends to a rank that does not receive yet, "noise_interval" and "noise_duration" from pauses of a
    loop. What else runs on the machine is measured with it.

    Examples
    --------
    >>> import tacit
    >>> tacit.simulate.measure(tacit.comm.self_())["bandwidth"] > 1e8
    True
    """
    return _as_dict(core("measure_model")(_comm.resolve(comm)))


def _as_dict(model: _core.MachineModel) -> dict[str, Any]:
    facts = {key: getattr(model, key) for key in MACHINE}
    return facts | {"levels": [{part: getattr(level, part) for part in MACHINE_LEVEL} for level in model.levels]}


def _model(given: str | os.PathLike[str] | Mapping[str, Any]) -> _core.MachineModel:
    if isinstance(given, Mapping):
        return _with_values("a machine", given)
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"machine is {given!r}; a name, a JSON file or a dict of parameters is needed")
    name = os.fspath(given)
    if not name.endswith(".json"):
        named: _core.MachineModel = core("machine_model")(choose("machine", name, machines()))
        return named
    with open(name, encoding="utf-8") as file, reading(name, "the parameters of a machine in JSON"):
        found = json.load(file, object_pairs_hook=_once)
    if not isinstance(found, dict):
        raise _core.InputError(f"{name}: an object with the parameters of a machine is needed")
    try:
        return _with_values("a machine", found)
    except (ValueError, TypeError, OverflowError) as error:
        raise _core.InputError(f"{name}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, none of whose keys is there twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is there twice")
    return made


def _with_values(where: str, given: Mapping[str, Any]) -> _core.MachineModel:
    values = dict(given)
    base = values.pop("base", None)
    model: _core.MachineModel = (
        core("MachineModel")() if base is None else core("machine_model")(choose("machine", base, machines()))
    )
    known = [*MACHINE, "levels", "base"]
    for key in values:
        if key not in known:
            raise ValueError(unknown_option(where, str(key), known))
    levels = values.pop("levels", None)
    if levels is not None:
        if not isinstance(levels, (list, tuple)) or not all(isinstance(level, Mapping) for level in levels):
            raise TypeError(f"{where}: levels is {levels!r}; a list of objects is needed")
        for level in levels:
            if sorted(level) != sorted(MACHINE_LEVEL):
                raise ValueError(f"{where}: a level has {', '.join(MACHINE_LEVEL)}; found {', '.join(map(str, level))}")
        model.levels = [fill(core("MachineLevel")(), f"{where}'s level", MACHINE_LEVEL, level) for level in levels]
    fill(model, where, MACHINE, values)
    model.check()
    return model


class Phase(NamedTuple):
    """A kernel or a kind of communication, and the time spent in it.

    Attributes
    ----------
    name : str
        "sum" (all-reduces), "halo" (exchanges), "agree" (the ranks' agreement on errors), or a kernel's name.
    kernel : bool
    seconds : float
        Mean over ranks. Waiting for a late rank counts in the phase that waits.
    times : float
        How often it occurred, as the mean over ranks.
    """

    name: str
    kernel: bool
    seconds: float
    times: float


def _table(phases: list[Phase], whole: float) -> list[str]:
    """A line for each phase, the longest first."""
    lines = []
    for phase in sorted(phases, key=lambda p: -p.seconds):
        share = 100 * phase.seconds / whole if whole else 0.0
        lines.append(f"  {phase.name:24s} {phase.seconds:.3e} s {share:5.1f} %  {phase.times:9.1f} times")
    return lines


class Simulated:
    """A simulated solve. All times are simulated, in seconds.

    Attributes
    ----------
    result : tacit.Result
        As from a solve on as many real ranks; its times are simulated.
    seconds : float
        The latest rank's clock at the end of the solve, including the products that recompute b - A x to confirm it.
        The set-up before takes no simulated time, and what looks for the cause of a failure afterwards is not included.
    phases : list of Phase
        Kernels come first.
    messages, bytes : int
        Of all ranks: exchanges, sums and agreements.
    ranks : int
    machine : dict
        All parameters.
    """

    def __init__(self, result: krylov.Result, times: _core.SimulatedTimes, ranks: int, model: _core.MachineModel):
        self.result = result
        self.seconds: float = times.finish
        self.phases = [Phase(*phase) for phase in times.phases]
        self.messages: int = times.messages
        self.bytes: int = times.bytes
        self.ranks = ranks
        self.machine = _as_dict(model)
        self._described: str = model.describe()

    def __repr__(self) -> str:
        return f"<tacit.simulate.Simulated: {self.seconds:.4g} s on {self.ranks} ranks, {self.result!r}>"

    def summary(self) -> str:
        """Lines of text: what was simulated, on which machine, and the time of each phase."""
        r = self.result
        lines = [
            f"SIMULATED: {self.ranks} ranks, {self._described}",
            f"{r.reason}: {r.method}, precond {r.precond}, {r.iterations} iterations, ||b - A x|| / ||b|| ="
            f" {r.residual_norm:.2e}",
            f"  {self.seconds:.4g} s; {r.counts['reductions']} sums and {r.counts['exchanges']} exchanges of a rank,"
            f" {self.messages} messages and {self.bytes} bytes in all",
        ]
        lines += _table(self.phases, self.seconds)
        lines += [f"  {text}" for text in (r.detail, r.advice) if text]
        lines += [f"  warning: {text}" for text in r.warnings]
        return "\n".join(lines)


def solve(
    A: Any,
    b: Any,
    *,
    ranks: int,
    machine: str | os.PathLike[str] | Mapping[str, Any] = "modern",
    method: str | Method = "auto",
    precond: Any = None,
    scalar: Any = None,
    trace: bool = False,
    **options: Unpack[SolveOptions],
) -> Simulated:
    """Solves A x = b on simulated ranks, each with a block of rows in order.

    Parameters
    ----------
    A : sparse matrix, array, or matrix, stencil or H-matrix of Tacit on one rank
        Square. An H-matrix is compressed again on the simulated ranks, from its points and entries, as on real ones.
    b : array_like
        Shape (n,), or (n, k) for k right-hand sides, which advance together (:func:`tacit.solve`).
    ranks : int
    machine : str or dict
        See :func:`machine`.
    method : str or object of :mod:`tacit.methods`
    precond : str, dict or object, optional
        By name or with options, no operators. Incomplete factors are those of each rank's diagonal block.
    scalar : dtype, optional
        Of a stored matrix.
    trace : bool
        Record the begin and end of kernels and messages in simulated time, for ``result.save_trace(path)``.
    **options
        Those of :func:`tacit.solve`, except the engine and the schedule. With k right-hand sides the cause of a failure
        is looked into only with ``explain=True``, in simulated time.

    Returns
    -------
    Simulated

    Raises
    ------
    TypeError, ValueError
        For unknown options, for those that simulated ranks do not have (threads, paths of exchanges, engines), and for
        an H-matrix whose entries are not known (loaded from a file).

    Notes
    -----
    The result has the same bits as on as many real ranks. Runs in one process and one thread, which needs the memory of
    all ranks.

    Source: Alexandrov, Ionescu, Schauser, Scheiman, LogGP (1995), doi 10.1145/215399.215427.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((40, 40))
    >>> one = tacit.simulate.solve(A, np.ones(1600), ranks=32, method="cg")
    >>> other = tacit.simulate.solve(A, np.ones(1600), ranks=32, method="pipelined-cg")
    >>> one.result.converged, other.seconds < one.seconds
    (True, True)
    >>> K = tacit.hmatrix(np.linspace(0, 1, 400), "matern32", length=0.1, nugget=0.1)
    >>> many = tacit.simulate.solve(K, np.eye(400)[:, :3], ranks=8, method="cg")
    >>> many.result.x.shape, many.result.together
    ((400, 3), 3)
    """
    return _solved(A, b, ranks, _model(machine), (method, precond, scalar), options, trace)[0]


def _solved(
    A: Any, b: Any, ranks: int, model: Any, how: tuple[Any, Any, Any], options: Any, trace: bool, recorded: bool = False
) -> tuple[Simulated, Any]:
    """A simulated solve, and its recording where one is made. `how`: method, precond and scalar."""
    method, precond, scalar = how
    if whole_number(ranks, "ranks") < 1:
        raise ValueError(f"ranks is {ranks}; at least 1 is needed")
    choices = _core.Options()
    name, given = named("method", method, options)
    choices.method = choose("method", name, SOLVE_NAMES)
    fill(choices, "a simulated solve", _OPTIONS, given, ("method", "precond", "scalar", "trace"))
    right = _right_sides(b)
    if right.ndim == 2 and choices.explain is None:
        choices.explain = False
    matrix, on_ranks = _matrix_of(A, right, scalar)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] != len(right):
        raise ValueError(f"A has shape {matrix.shape}, b {right.shape}; a square matrix and as many values are needed")
    kind = matrix._scalar
    of = _precond.named(precond, "on simulated ranks", isinstance(matrix, HMatrix))
    hermitian = choices.method == "auto" and of.symmetric and matrix.is_hermitian()
    events = None
    try:
        given_b = to_scalar(right, kind, "b")
        further = (model, of.name, of.options, of.of_hmatrices, choices, hermitian, bool(trace), recorded)
        solution, report, times, recording = core("simulate_solve", kind)(on_ranks(), given_b, int(ranks), *further)
    finally:
        if trace:  # also after a solve that has failed, so that the next trace begins empty
            _core.trace_stop()
            events = [krylov.TraceEvent(*event) for rank in range(ranks) for event in _core.take_events(rank, 0.0)]
            events.sort(key=lambda e: (e.rank, e.begin, -e.end))
    facts = {
        "seconds": {"setup": 0.0, "solve": report.seconds, "explain": report.explain_seconds},
        "unknowns": matrix.shape[0],
        "nonzeros": matrix.nnz,
        "ranks": int(ranks),
        "threads": 1,
        "scalar": kind,
        "device": "host",
        "rtol": _core.default_rtol(kind) if choices.rtol is None else choices.rtol,
        "atol": choices.atol,
        "trace": events,
    }
    x = like(solution.reshape(len(right), -1) if len(np.shape(b)) == 2 else solution, b)
    if right.ndim == 2:
        result: krylov.Result = krylov.ColumnsResult(x, report, krylov.Log(report.columns), facts)
    else:
        result = krylov.Result(x, report, krylov.Log([report]), facts)
    return Simulated(result, times, int(ranks), model), recording


def _right_sides(b: Any) -> np.ndarray[Any, Any]:
    """b as (n,) or (n, k), k > 1."""
    array = as_array(b, "b")
    if array.ndim != 2 or array.shape[1] == 1:
        return as_vector(b, "b")
    if array.shape[1] == 0:
        raise ValueError(f"b has shape {array.shape}; at least one right-hand side is needed")
    return array


def _matrix_of(A: Any, b: Any, scalar: Any) -> tuple[Any, Callable[[], Any]]:
    """A as an operator of one rank, and the function that gives what makes it on simulated ones."""
    on = _comm.self_()
    if isinstance(A, HMatrix):
        if scalar is not None and chosen_scalar(scalar) != A._scalar:
            raise ValueError(f"scalar is {scalar} and the H-matrix of {A._scalar}; make it with this dtype")
        return A, A._on_ranks
    kind = chosen_scalar(scalar) or krylov.least_scalar(A, b=b)
    matrix = stored(as_operator(A, on, kind), "a simulated solve")
    return matrix, lambda: core("csr_on_ranks", matrix._scalar)(matrix._handle)


class Replayed:
    """Simulated times of a solve that was played on many ranks from a recording on few. All times are simulated.

    Attributes
    ----------
    seconds : float
        The latest rank's clock at the end.
    phases : list of Phase
    messages, bytes : int
        Of all ranks.
    ranks : int
    grid : tuple of int
        Of the ranks.
    iterations : int
        That were played: the number asked for, or the nearest that whole periods of the method reach.
    period : int
        Iterations that are repeated; 0 where the recorded ones are played as they are.
    set_ups : int
        Exchanges that were set up within the recorded solve (by the first block of an s-step method), of which only the
        reduction at the end is played.
    recorded : Simulated
        The solve that was recorded, on `recorded_grid`.
    recorded_grid : tuple of int
    machine : dict
        All parameters.
    """

    def __init__(self, made: Any, grid: Any, recorded: Simulated, recorded_grid: Any, model: _core.MachineModel):
        times, self.iterations, self.period, self.set_ups = made
        self.seconds: float = times.finish
        self.phases = [Phase(*phase) for phase in times.phases]
        self.messages: int = times.messages
        self.bytes: int = times.bytes
        self.grid: tuple[int, ...] = grid
        self.ranks = math.prod(grid)
        self.recorded, self.recorded_grid = recorded, recorded_grid
        self.machine = _as_dict(model)
        self._described: str = model.describe()

    def __repr__(self) -> str:
        return f"<tacit.simulate.Replayed: {self.seconds:.4g} s on {self.ranks} ranks, {self.iterations} iterations>"

    def summary(self) -> str:
        """Lines of text: what was played, on which machine, whose iterations, and the time of each phase."""
        r = self.recorded.result
        few, many = (" x ".join(map(str, grid)) for grid in (self.recorded_grid, self.grid))
        made = f"those of the recording on {few} ranks"
        if self.period:
            made = f"recorded on {few} ranks were {r.iterations}; {self.period} of them are repeated"
        left = []
        if self.set_ups:
            left = [f"  without the set-up of {self.set_ups} exchange{'s' * (self.set_ups > 1)} within the solve"]
        return "\n".join(
            [
                f"SIMULATED by replay, without numbers: {self.ranks} ranks ({many}), {self._described}",
                f"{r.method}, precond {r.precond}: {self.iterations} iterations ({made})",
                f"  {self.seconds:.4g} s; {self.messages} messages and {self.bytes} bytes in all",
                *_table(self.phases, self.seconds),
                *left,
            ]
        )


def replay(
    A: Any,
    b: Any,
    *,
    ranks: int | Sequence[int],
    recorded: int | Sequence[int],
    machine: str | os.PathLike[str] | Mapping[str, Any] = "modern",
    method: str | Method = "auto",
    precond: Any = None,
    periodic: bool = False,
    iterations: int | None = None,
    progress: Callable[[float], Any] | None = None,
    **options: Unpack[SolveOptions],
) -> Replayed:
    """The simulated time of a solve on very many ranks, each with as much work as those of a small solve.

    The solve of A x = b is simulated on the `recorded` ranks (:func:`solve`). Then each of the many ranks does what the
    recorded one in its position does (inside, or as near to the boundary of the grid): the same kernels, exchanges of
    the same sizes with its own neighbours, and reductions over all ranks. No numbers are computed.

    Parameters
    ----------
    A, b
        As of :func:`solve`: the problem on the recorded ranks, such as that of :func:`boxes`.
    ranks, recorded : int or sequence of int
        The grids of ranks, up to three numbers, the first fastest: rank i + nx (j + ny k) at (i, j, k). A number is a
        row of ranks, as with a matrix whose blocks of rows exchange with the next ones only.
    machine, method, precond, **options
        As of :func:`solve`.
    periodic : bool
        Whether ranks at opposite sides are neighbours.
    iterations : int, optional
        Larger problems mostly take more; the recorded iterations that repeat themselves are played more often. Default:
        those of the recorded solve.
    progress : callable, optional
        Is called with the share that is done.

    Returns
    -------
    Replayed

    Raises
    ------
    ValueError
        As of :func:`solve`; for grids of different dimensions; for messages that go further than the recorded grid can
        tell (an H-matrix: to all ranks); for `iterations` where no two recorded ones were alike.

    Notes
    -----
    On the recorded ranks themselves the times are those of :func:`solve`, to the last bit on a machine without noise
    and without ``set_ups``.

    Examples
    --------
    >>> import tacit
    >>> A, b = tacit.simulate.boxes((4, 4, 4), (3, 3, 3))
    >>> made = tacit.simulate.replay(A, b, ranks=(8, 8, 8), recorded=(3, 3, 3), method="cg", iterations=30)
    >>> made.ranks, made.iterations
    (512, 30)
    """
    model = _model(machine)
    many, few = _grid(ranks, "ranks"), _grid(recorded, "recorded")
    if len(many) != len(few):
        raise ValueError(f"ranks is {ranks} and recorded {recorded}; both are grids of as many dimensions")
    if iterations is not None and whole_number(iterations, "iterations") < 1:
        raise ValueError(f"iterations is {iterations}; at least 1 is needed")
    small, recording = _solved(A, b, math.prod(few), model, (method, precond, None), options, False, True)
    of, to = ([*grid, 1, 1][:3] for grid in (few, many))
    made = _core.replay(recording, model, of, to, bool(periodic), iterations, progress)
    return Replayed(made, many, small, few, model)


def ranks_of(grid: Sequence[int]) -> int:
    """The number of ranks of a grid.

    Examples
    --------
    >>> import tacit
    >>> tacit.simulate.ranks_of((4, 4, 2))
    32
    """
    return math.prod(_grid(grid, "grid"))


def _grid(given: Any, what: str) -> tuple[int, ...]:
    """A grid of ranks of one to three dimensions."""
    numbers = tuple(whole_number(n, what) for n in (given if isinstance(given, (tuple, list)) else (given,)))
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1 or math.prod(numbers) > 2**20:
        raise ValueError(f"{what} is {given!r}; one to three numbers of at least 1, of 2^20 ranks at most, are needed")
    return numbers


def boxes(
    cells: Sequence[int], ranks: Sequence[int], *, periodic: bool = False, shift: float = 0.0
) -> tuple[Csr, np.ndarray[Any, Any]]:
    """A matrix of which each rank of a grid owns a box of cells, and a right-hand side: shift - Laplacian with 2 d + 1
    points, mesh width 1, whose rows are numbered box by box.

    Parameters
    ----------
    cells, ranks : sequence of int
        Cells of a box and ranks along each of one to three axes, the first fastest.
    periodic : bool
        Needs a positive `shift`; else u = 0 outside.
    shift : float

    Returns
    -------
    (Csr, ndarray)
        b has random numbers of a fixed seed, so that a solve takes as long as one with any data.

    Examples
    --------
    >>> import tacit
    >>> A, b = tacit.simulate.boxes((4, 4), (2, 2))
    >>> A.shape, len(b)
    ((64, 64), 64)
    """
    import scipy.sparse as sp  # 60 ms, which a solve does not need

    box, grid = _grid(cells, "cells"), _grid(ranks, "ranks")
    if len(box) != len(grid):
        raise ValueError(f"cells is {cells} and ranks {ranks}; both have as many dimensions")
    if not shift >= 0 or (periodic and shift == 0):
        raise ValueError(f"shift is {shift}; {'a positive number' if periodic else 'a number >= 0'} is needed")
    sides = [n * m for n, m in zip(box, grid, strict=True)]
    each, n = math.prod(box), math.prod(sides)
    number = np.arange(n)
    at = []  # of each row the cell's place along each axis
    inner, outer = number % each, number // each
    for size, count in zip(box, grid, strict=True):
        at.append(outer % count * size + inner % size)
        inner, outer = inner // size, outer // count

    def row_of(places: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        inside, owner, stride, of = np.zeros(n, np.int64), np.zeros(n, np.int64), 1, 1
        for place, size, count in zip(places, box, grid, strict=True):
            inside, stride = inside + stride * (place % size), stride * size
            owner, of = owner + of * (place // size), of * count
        return np.asarray(owner * each + inside)

    rows, columns = [number], [number]
    for axis, side in enumerate(sides):
        for step in (-1, 1):
            moved = [place + step * (k == axis) for k, place in enumerate(at)]
            there = (moved[axis] >= 0) & (moved[axis] < side) | periodic
            moved[axis] = moved[axis] % side
            rows.append(number[there])
            columns.append(row_of(moved)[there])
    values = np.concatenate([np.full(n, 2.0 * len(box) + shift), np.full(sum(map(len, rows[1:])), -1.0)])
    matrix = sp.csr_array((values, (np.concatenate(rows), np.concatenate(columns))), shape=(n, n))
    return csr(matrix, comm=_comm.self_()), np.random.default_rng(0).standard_normal(n)
