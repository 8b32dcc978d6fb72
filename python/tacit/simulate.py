"""Solves on simulated ranks: the library's code on a machine that is described by a few parameters.

The solve is carried out by the same code and with the same messages as on real ranks; only time is simulated, by a
LogGP model (docs/theory/simulator.md). This shows, for hundreds or thousands of ranks, whether a method is faster, with
which step or depth, and on which network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import numpy as np

from . import _core, krylov
from . import comm as _comm
from . import precond as _precond
from ._described import MACHINE, MACHINE_LEVEL, SOLVE, SOLVE_NAMES, SolveOptions
from ._files import reading
from ._options import Method, fill, named
from ._support import (
    as_vector,
    choose,
    chosen_scalar,
    core,
    like,
    to_scalar,
    unknown_option,
    whole_number,
)
from .op import as_operator, stored

__all__ = ["Phase", "Simulated", "machine", "machines", "measure", "solve"]

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
    name = os.fspath(given)
    if not name.endswith(".json"):
        named: _core.MachineModel = core("machine_model")(choose("machine", name, machines()))
        return named
    with open(name, encoding="utf-8") as file, reading(name, "the parameters of a machine in JSON"):
        found = json.load(file)
    if not isinstance(found, dict):
        raise _core.InputError(f"{name}: an object with the parameters of a machine is needed")
    try:
        return _with_values("a machine", found)
    except (ValueError, TypeError, OverflowError) as error:
        raise _core.InputError(f"{name}: {error}") from None


def _with_values(where: str, given: Mapping[str, Any]) -> _core.MachineModel:
    values = dict(given)
    base = values.pop("base", None)
    model: _core.MachineModel = (
        core("MachineModel")() if base is None else core("machine_model")(choose("machine", base, machines()))
    )
    known = [*MACHINE, "levels", "base"]
    for key in values:
        if key not in known:
            raise ValueError(unknown_option(where, key, known))
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
        for phase in sorted(self.phases, key=lambda p: -p.seconds):
            share = 100 * phase.seconds / self.seconds if self.seconds else 0.0
            lines.append(f"  {phase.name:24s} {phase.seconds:.3e} s {share:5.1f} %  {phase.times:9.1f} times")
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
    A : sparse matrix, array, or matrix or stencil of Tacit on one rank
        Square.
    b : array_like
        Shape (n,) or (n, 1).
    ranks : int
    machine : str or dict
        See :func:`machine`.
    method : str or object of :mod:`tacit.methods`
    precond : str, dict or object, optional
        By name or with options, no operators. Incomplete factors are those of each rank's diagonal block.
    scalar : dtype, optional
    trace : bool
        Record the begin and end of kernels and messages in simulated time, for ``result.save_trace(path)``.
    **options
        Those of :func:`tacit.solve`, except the engine and the schedule.

    Returns
    -------
    Simulated

    Raises
    ------
    TypeError, ValueError
        For unknown options, and for those that simulated ranks do not have (threads, paths of exchanges, engines).

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
    """
    model = _model(machine)
    if whole_number(ranks, "ranks") < 1:
        raise ValueError(f"ranks is {ranks}; at least 1 is needed")
    choices = _core.Options()
    name, given = named("method", method, options)
    choices.method = choose("method", name, SOLVE_NAMES)
    fill(choices, "a simulated solve", _OPTIONS, given, ("method", "precond", "scalar", "trace"))
    on = _comm.self_()
    right = as_vector(b, "b")
    matrix = stored(as_operator(A, on, chosen_scalar(scalar) or krylov.least_scalar(A, b=right)), "a simulated solve")
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] != len(right):
        raise ValueError(f"A has shape {matrix.shape}, b {right.shape}; a square matrix and as many values are needed")
    kind = matrix._scalar
    name, preconditioner, symmetric = _precond.named(precond, "on simulated ranks")
    hermitian = choices.method == "auto" and symmetric and matrix.is_hermitian()
    events = None
    try:
        given_b = to_scalar(right, kind, "b")
        how = (model, name, preconditioner, choices, hermitian, bool(trace))
        solution, report, times = core("simulate_solve", kind)(matrix._handle, given_b, int(ranks), *how)
    finally:
        if trace:  # also after a solve that has failed, so that the next trace begins empty
            _core.trace_stop()
            events = [krylov.TraceEvent(*event) for rank in range(ranks) for event in _core.take_events(rank, 0.0)]
            events.sort(key=lambda e: (e.rank, e.begin, -e.end))
    result = krylov.Result(
        like(solution.reshape(-1, 1) if len(np.shape(b)) == 2 else solution, b),
        report,
        krylov.Log([report]),
        {
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
        },
    )
    return Simulated(result, times, int(ranks), model)
