"""Geometric multigrid: cells in boxes, finite volumes on them, cycles, and solvers for the coarsest level.

>>> import numpy as np, tacit
>>> cells = tacit.multigrid.cells((32, 32, 32), "periodic")
>>> A = tacit.multigrid.finite_volume(cells, a=1.0, b=0.1)
>>> f = A.sample(lambda x, y, z: np.sin(2 * np.pi * x))
>>> result = tacit.multigrid.solve(A, f)
>>> result.converged
True
>>> A.to_grid(result.x).shape
(32, 32, 32)

Operators are those of :mod:`tacit.op` (``A @ x``, :func:`tacit.solve`). The result of :func:`multigrid` is also a
preconditioner for every Krylov method: ``tacit.solve(A, f, method="cg", precond=M)``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Unpack

from .. import _core, layout
from .. import device as _device
from .._described import MULTIGRID, MULTIGRID_SOLVE, MultigridOptions, MultigridSolveOptions
from .._options import agree, fill
from .._outcome import Outcome
from .._support import Array, agreed, as_vector, core, default_threads, thread_count, to_scalar, using_threads
from ..op import Operator
from ..op.base import FromHandle
from .finite_volumes import Cells, FiniteVolume, cells, finite_volume, stencils

__all__ = [
    "Cells", "FiniteVolume", "Multigrid", "Result", "bottoms", "cells", "finite_volume", "multigrid", "solve",
    "stencils"
]  # fmt: skip


def bottoms() -> list[str]:
    """The names of solvers for the coarsest level."""
    return list(MULTIGRID["bottom"].choices)


class Result(Outcome):
    """How a multigrid solve ended.

    Attributes
    ----------
    x : numpy.ndarray
        The solution, in the form of the right-hand side (whole, or this rank's part).
    converged, reason, advice, residual_norm, counts, warnings
        As in :class:`tacit.Result`; ``residual_norm`` is in the norm ``norm``.
    cycles, iterations : int
        The number of cycles; both are the same.
    history : list of float
        ||r|| / ||f|| before the first cycle and after each.
    bottom, bottom_choice, bottom_solves, bottom_iterations, bottom_failures
        The coarsest-level solver, the reason for it (and for moving cells to fewer ranks or not) if it was chosen
        automatically, its solves, iterations and failures.
    levels : list of dict
        For each level: cells, patches, ranks, half_sweeps, exchanges, and this rank's seconds by operation.
    counts : dict
        reductions, exchanges (this rank's), messages, bytes (all ranks').
    seconds : dict
        "setup", "solve", "bottom".
    dofs_per_second : float
    warnings : list of str
    """

    def __init__(self, x: Array, report: dict[str, Any], setup: float, unknowns: int) -> None:
        self.x = x
        self.report = report
        self.__dict__ |= {name: value for name, value in report.items() if name not in ("b_norm", "seconds")}
        bottom = sum(level["seconds"]["bottom"] for level in report["levels"])
        self.seconds = {"setup": setup, "solve": report["seconds"], "bottom": bottom}
        self.unknowns = unknowns

    advice: str
    norm: str
    cycles: int
    bottom: str
    bottom_choice: str
    bottom_solves: int
    bottom_iterations: int
    bottom_failures: int
    levels: list[dict[str, Any]]

    @property
    def iterations(self) -> int:
        return self.cycles

    @property
    def dofs_per_second(self) -> float:
        return float(self.unknowns / self.seconds["solve"]) if self.seconds["solve"] > 0 else 0.0

    def __repr__(self) -> str:
        return (
            f"<{self.reason} after {self.cycles} cycles, residual {self.residual_norm:.2e} ({self.norm} norm), "
            f"bottom {self.bottom}: {self.bottom_iterations} iterations, {self.seconds['solve']:.3f} s>"
        )


class Multigrid(Operator):
    """One cycle from zero as an operator (``precond=`` of :func:`tacit.solve`), and a solver. See :func:`multigrid`."""

    __slots__ = ("A", "options", "setup_seconds")

    def __init__(self, handle: Any, A: FiniteVolume, options: dict[str, Any], seconds: float) -> None:
        super().__init__(handle, A.comm, A.dtype)
        self.A = A
        self.options = options
        self.setup_seconds = seconds

    levels = FromHandle(int, "levels")

    def take_report(self) -> dict[str, Any]:
        """The work of levels and coarsest-level solver since the last solve or the last call, for cycles used as a
        preconditioner: levels, bottom, bottom_choice, bottom_solves, bottom_iterations, bottom_failures, warnings, as
        in :class:`Result`.
        """
        return {"levels": self._handle.take_levels(), **self._handle.take_bottom()}

    def solve(
        self, f: Any, x0: Any = None, *, threads: int | None = None, **options: Unpack[MultigridSolveOptions]
    ) -> Result:
        """Repeats cycles from x0 (default: zero) until the recomputed residual satisfies ||f - A x|| <= max(rtol ||f||,
        atol), in the largest magnitude ("max") or the 2-norm ("2"). Collective. Options: ``rtol`` (1e-10; float32:
        1e-4), ``atol`` (0), ``max_cycles`` (50), ``norm`` ("max"); see docs/reference/multigrid.md.
        """

        def run(*given: Any) -> tuple[Array, dict[str, Any], float]:
            x, report = self._handle.solve(*given)
            return x, report, self.setup_seconds

        return _solved(self.A, f, run, x0, threads, options)


def _solved(
    A: FiniteVolume,
    f: Any,
    run: Callable[..., tuple[Array, dict[str, Any], float]],
    x0: Any,
    threads: int | None,
    options: Any,
) -> Result:
    """Checks the arguments, passes this rank's parts of them to `run`, and gathers x if f was whole."""
    on, scalar = A.comm, A._scalar
    offsets = A._handle.range_offsets

    def look() -> tuple[Array, Array | None, Any]:
        o = fill(_core.MultigridSolveOptions(), "a solve by multigrid", MULTIGRID_SOLVE, options, ("x0", "threads"))
        thread_count(threads)
        return as_vector(f, "f"), None if x0 is None else as_vector(x0, "x0"), o

    right, guess, o = agreed(on, look)
    agree(on, o, MULTIGRID_SOLVE, x0="none" if guess is None else "given")
    whole = layout.form(on, right, offsets, "f")
    own = to_scalar(layout.own_part(right, on, offsets, whole), scalar, "f")
    start = None
    if guess is not None:
        whole_guess = layout.form(on, guess, offsets, "x0")
        start = to_scalar(layout.own_part(guess, on, offsets, whole_guess), scalar, "x0")
    with using_threads(default_threads(on) if threads is None else int(threads)):
        x, report, setup = run(own, start, o)
    x = layout.gather(x, on) if whole and on.size > 1 else x
    return Result(x, report, setup, A.shape[0])


def multigrid(A: FiniteVolume, **options: Unpack[MultigridOptions]) -> Multigrid:
    """Makes the multigrid hierarchy of a finite-volume operator.

    Parameters
    ----------
    A : FiniteVolume
    **options
        ``cycle`` ("V"), ``smoother``, ``interpolation``, ``restriction``, ``pre`` (2), ``post`` (2), ``bottom`` (the
        coarsest-level solver; an object of :mod:`tacit.methods` carries its options) with ``bottom_reduction``,
        ``step``, ``basis`` and more, ``agglomerate_below``, ``levels``,
        ``single_levels``, ..: docs/reference/multigrid.md has all of them. If a coarsest-level solve fails, smaller
        steps, then the classical method, then the smoother are tried; ``Result.warnings`` reports this.

    Returns
    -------
    Multigrid
        Collective.
    """

    def look() -> Any:
        if not isinstance(A, FiniteVolume):
            raise TypeError(f"A is a {type(A).__name__}; what finite_volume() makes is needed")
        return fill(_core.MultigridOptions(), "multigrid", MULTIGRID, options)

    o = agreed(A.comm, look)
    agree(A.comm, o, MULTIGRID)
    begin = time.perf_counter()
    return Multigrid(core("multigrid", A._scalar)(A._handle, o), A, dict(options), time.perf_counter() - begin)


class SolveOptions(MultigridOptions, MultigridSolveOptions, total=False):
    """The ``**options`` of :func:`solve`, for type checkers."""

    x0: Any
    threads: int | None


def solve(A: FiniteVolume, f: Any, *, device: str = "host", **options: Unpack[SolveOptions]) -> Result:
    """``multigrid(A, ...).solve(f, ...)``, with the options of both.

    Parameters
    ----------
    A : FiniteVolume
    f : array_like
        The right-hand side.
    device : str
        "host"; "cuda": levels, vectors and cycles in the memory of this rank's GPU; "cuda:1": of that one; "virtual":
        the same kernels, run on the CPU. On "cuda" and "virtual" there are V-, W-, F- and U-cycles for 3, 5 and 7
        points, with constant or linear interpolation; the coarsest level, the first of at most `bottom_cells` = 4096
        cells, is solved by bicgstab in one launch, on several ranks by each of them. Other options are refused.
    """
    solving: dict[str, Any] = {
        k: v for k, v in options.items() if k in SolveOptions.__annotations__ and k not in MULTIGRID
    }
    made: dict[str, Any] = {k: v for k, v in options.items() if k not in solving}

    def look() -> Any:
        _device.kind_of(device, "virtual")
        beside = tuple(SolveOptions.__annotations__)
        return fill(_core.MultigridOptions(), "multigrid.solve", MULTIGRID, made, beside)

    o = agreed(A.comm, look)
    kind = _device.kind_of(device, "virtual")
    agree(A.comm, o, MULTIGRID, device=kind)
    gpu = _device.number(device, A.comm) if kind == "cuda" else None
    if device == "host":
        return multigrid(A, **made).solve(f, **solving)

    def run(*given: Any) -> tuple[Array, dict[str, Any], float]:
        done: tuple[Array, dict[str, Any], float] = core("multigrid_on_device", A._scalar)(A._handle, o, gpu, *given)
        return done

    return _solved(A, f, run, solving.pop("x0", None), solving.pop("threads", None), solving)
