"""A x = b where it is solved: in host memory, on a GPU, or on several GPUs that hold an H-matrix."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core, op
from .. import device as _device
from .. import precond as _precond
from .._described import GROUP_METHODS
from .._support import Array, agreed, core
from . import traits
from .callbacks import one_by_one
from .request import Given, Place, Request, as_named, is_tried, vector_of
from .results import Log, OneByOne
from .vectors import DeviceVectors, HostVectors, Vectors

Call = Callable[[_core.CallbackState], bool]


def place_of(given: Given) -> type[Placed]:
    """Where a solve runs. ValueError or TypeError for a device that is none. Local."""
    A = given.A
    if given.device == "host" and (not isinstance(A, op.Operator) or A.device == "host"):
        return OnHost
    hierarchical = isinstance(A, (op.HMatrix, op.DeviceHMatrix))
    kind = _device.kind_of(given.device, several=hierarchical)
    if kind != "cuda" and not (isinstance(A, op.Operator) and A.device != "host"):
        return OnHost
    return HMatrixOnGpus if hierarchical else OnGpu


class Placed(Place):
    """A, its preconditioner, b and x0 in the memory where the solve runs. Making one is collective.

    The functions of the class are what a request is checked by before (:class:`tacit.krylov.request.Place`).
    """

    operator: op.Operator
    vectors: Vectors
    _vectors: Callable[..., Vectors] = HostVectors
    setup_seconds = 0.0  #: of preconditioners that were made during the solve
    traffic: dict[str, float] | None = None
    P: op.Operator | None = None
    _P: Any = None  # its handle
    symmetric = False  # P, where A is
    hermitian = False  # A and P, where the method is chosen by that
    _levels: _precond.Multilevel | None = None
    _levels_before: dict[str, Any]  # where there are levels

    def __init__(self, request: Request, on: _core.Communicator) -> None:
        self.request, self.on = request, on
        self.matrix = self._square_operator()
        self.scalar = self.matrix._scalar
        self.vectors = self._vectors(request, on, self.matrix, self.scalar)
        if request.simple and type(self.matrix) is op.Csr:
            self.operator = self.matrix
            return  # there is nothing to prepare
        self.operator, numbers = self._renumbered() if request.given.renumbers else (self.matrix, None)
        self._prepare(numbers)
        self.vectors.enter(self.operator, numbers)

    def _square_operator(self) -> op.Operator:
        given, on = self.request.given, self.on
        P = self.request.precond
        spread = None
        if not self.request.simple and (node := agreed(on, lambda: _precond.node_of(P))) != 1:
            spread = agreed(on, lambda: op.of_nodes(given.A, on, node))
        matrix = op.as_operator(given.A, on, self.request.scalar, offsets=spread)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"A has shape {matrix.shape}; a square matrix is needed: tacit.lstsq minimises ||b - A x||"
            )
        return op.worth_storing(matrix) if self.request.automatic else matrix

    def _renumbered(self) -> tuple[op.Operator, Any]:
        """The matrix in the order of ``partition`` and ``ordering``, and that renumbering; None for none."""
        given = self.request.given
        # Numbers that are not finite are reported with the user's indices, so nothing is renumbered then.
        finite = self.vectors.finite() and not self.matrix._handle.fault
        if self.on.all_min(int(finite)):
            return op.renumbered(self.matrix, given.partition == "graph", given.ordering == "rcm")
        return self.matrix, None

    def _prepare(self, numbers: Any) -> None:
        """Takes the operator to its place, and makes P there."""
        users = None if numbers is None else (self.matrix, numbers)
        self.P, self.symmetric = _precond.build(self.operator, self.request.precond, users)
        if self.symmetric and traits.is_chosen(self.request.options.method):
            self.hermitian = self.matrix.is_hermitian()
        if self.P is None:
            return
        self._P = self.P._handle
        for one in (self.P, self.request.precond):  # a given one may be wrapped, for renumbered rows
            if self._levels is None and isinstance(one, _precond.Multilevel):
                self._levels, self._levels_before = one, one.report

    def begin_from_first(self) -> None:
        """Makes the goal relative to b - A x0. Collective; one product."""
        if self.vectors.x0 is None:
            return
        options = self.request.options
        order = math.inf if options.norm == "max" else 2
        own = float(np.linalg.norm(np.ravel(self.vectors.b - self.operator.matvec(self.vectors.x0)), order))
        if order == 2:
            first = math.hypot(*(struct.unpack("d", part)[0] for part in self.on.all_gather(struct.pack("d", own))))
        else:
            first = self.on.all_max_real(own)
        rtol = _core.default_rtol(self.scalar) if options.rtol is None else options.rtol
        options.atol, options.rtol = max(options.atol, rtol * first), 0.0

    def solve(self, call: Call | None) -> tuple[Any, Any]:
        """This rank's part of x, and the compiled report. Collective."""
        raise NotImplementedError

    @property
    def device(self) -> str:
        return self.operator.device

    def note(self, log: Log) -> dict[str, Any] | None:
        """Adds warnings that concern the preconditioner and the number of ranks, after the solve. Returns the levels of
        a multigrid preconditioner, as they are now. Local.
        """
        unknowns, ranks = self.matrix.shape[0], self.on.size
        if 0 < unknowns < ranks:
            log.warnings.append(f"{ranks} ranks for {unknowns} unknowns: {ranks - unknowns} of them have no rows")
        if self.P is None:
            return None
        if not self.symmetric:
            P = self.P if self._levels is None else self._levels
            log.warnings += _taken_for_hermitian(self.request.options.method, P)
        if self._levels is None:
            return None
        levels = self._levels.report
        log.warnings += _failures_below(self._levels.name, self._levels_before, levels)
        return levels


class OnHost(Placed):
    """In host memory; the preconditioner may be chosen by trial."""

    vectors: HostVectors
    device = "host"
    _chooser: Any = None
    _null_space: Any = None

    def __init__(self, request: Request, on: _core.Communicator) -> None:
        super().__init__(request, on)
        if request.spaces:
            right, left = self.vectors.null_space(request.spaces)
            self._null_space = core("NullSpace", self.scalar)(self.operator._handle, *right, *left)

    def _prepare(self, numbers: Any) -> None:
        automatic = self.request.automatic
        if automatic == "named":
            self.operator = op.stored(self.operator, 'precond="auto"')
        if automatic and isinstance(self.operator, op.Csr):
            self._chooser = self.operator.automatic(self.request.options.method)
        else:
            super()._prepare(numbers)

    def solve(self, call: Call | None) -> tuple[Any, Any]:
        b, x0, options = self.vectors.b, self.vectors.x0, self.request.options
        name = "solve_columns" if self.vectors.many else "solve"
        A = self.operator._handle
        if self._chooser is None:
            found = core(name, self.scalar)(A, self._P, b, x0, options, call, self.hermitian, self._null_space)
        else:
            found = getattr(self._chooser, name)(A, b, x0, options, call, self._null_space)
            self.setup_seconds = self._chooser.setup_seconds
        return found  # type: ignore[no-any-return]


class OnGpu(Placed):
    """In the memory of one GPU for each rank; b and x0 may be there, too."""

    moves_matrix = True

    @staticmethod
    def _vectors(request: Request, *more: Any) -> Vectors:
        return (HostVectors if isinstance(request.b, np.ndarray) else DeviceVectors)(request, *more)

    def _prepare(self, numbers: Any) -> None:
        if self.operator.device == "host":
            self.operator = self.operator.to(self.request.given.device)
        super()._prepare(numbers)

    def solve(self, call: Call | None) -> tuple[Any, Any]:
        if self.vectors.many:
            return self._solve_columns(self.vectors.b, self.vectors.x0, call)
        return self._solve_one(self.vectors.b, self.vectors.x0, call)

    def _solve_one(self, b: Any, x0: Any, call: Any, solves_of_call: int = 1) -> tuple[Any, Any]:
        A, options = self.operator._handle, self.request.options
        x, report = core("solve", self.scalar)(A, self._P, b, x0, options, call, self.hermitian, solves_of_call)
        return x, report

    def _solve_columns(self, b: Array, x0: Array | None, call: Call | None) -> tuple[Array, OneByOne]:
        found = [self._solve_one(*column, b.shape[1]) for column in one_by_one(b, x0, call)]
        reports = [report for _, report in found]
        return np.stack([x for x, _ in found], axis=1), OneByOne.of(
            reports, "device='cuda' solves one column at a time"
        )

    @staticmethod
    def vector(value: Any, what: str) -> Any:
        return vector_of(value, what)

    @staticmethod
    def refuse(given: Given, b: Any) -> None:
        there = given.A.device if isinstance(given.A, op.Operator) else "host"
        if given.options.get("nullspace") is not None:
            place = there if given.device == "host" else given.device
            raise ValueError(f"nullspace works in host memory; the solve is on {place}")
        if there != "host" and given.device not in ("host", "cuda", there):
            raise ValueError(
                f"device is {given.device!r} and A is in the memory of {there}; A.to({given.device!r}) moves it"
            )
        if given.renumbers and there != "host":
            raise ValueError(f"partition and ordering renumber a matrix in host memory; A is in that of {there}")
        if given.renumbers and not isinstance(b, np.ndarray):
            raise ValueError("partition and ordering renumber vectors in host memory; b is in that of a GPU")

    @staticmethod
    def preconditioner(given: Any, options: _core.Options) -> tuple[Any, str]:
        if traits.own_precond(options.method) is not None:
            raise ValueError(f'method "{options.method}" works in host memory; A is on a GPU')
        if is_tried(given):
            raise ValueError('precond="auto" works in host memory; name one of ' + ", ".join(_precond.names()))
        return as_named(given), ""


class HMatrixOnGpus(OnGpu):
    """An H-matrix whose blocks the GPUs of a rank share; vectors are NumPy arrays."""

    operator: op.DeviceHMatrix

    def solve(self, call: Call | None) -> tuple[Any, Any]:
        before = self.operator.traffic
        found = super().solve(call)
        self.traffic = {name: value - before[name] for name, value in self.operator.traffic.items()}
        return found

    @staticmethod
    def refuse(given: Given, b: Any) -> None:
        if not isinstance(b, np.ndarray):
            raise ValueError("b is in the memory of a GPU; a solve with an H-matrix on GPUs takes NumPy arrays")
        OnGpu.refuse(given, b)

    @staticmethod
    def method(name: str, precond: Any) -> str:
        return method_on_gpus(name, precond, "A.to('host') is solved with in host memory")


def method_on_gpus(method: str, precond: Any, cure: str) -> str:
    """The method that ``method=`` stands for where A is an H-matrix on GPUs. ValueError, which ends with the `cure`,
    for one that does not work there, and for such a preconditioner. Local.
    """
    meant = traits.of_gpus(method)
    if meant is None:
        raise ValueError(
            f"method is {method!r}; an H-matrix on GPUs is solved with by {' and '.join(GROUP_METHODS)}: {cure}"
        )
    _precond.refuse_on_gpus(precond, cure)
    return meant


def _taken_for_hermitian(method: str, P: op.Operator) -> list[str]:
    """A warning of a linear preconditioner that need not be Hermitian where the matrix is. Local."""
    if not traits.needs_hermitian(method) or getattr(P._handle, "varies", True):
        return []
    if isinstance(P, _precond.Multilevel) and P._handle.has_adjoint:  # which amg has where it is Hermitian
        return []
    return [
        f"{P.name} with these options need not be Hermitian where A is, and {method} takes it for a Hermitian map: it "
        "may need more iterations or stagnate; bicgstab and gmres take any preconditioner"
    ]


def _failures_below(name: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A warning of the coarsest level of a multigrid preconditioner, from the levels' reports. Local."""
    failures = after.get("bottom_failures", 0) - before.get("bottom_failures", 0)
    if failures == 0:
        return []
    solves = after["bottom_solves"] - before["bottom_solves"]
    why = "; ".join(after["warnings"])
    return [
        f"{name}: the coarsest level was not solved in {failures} of {solves} cycles" + (f" ({why})" if why else "")
    ]
