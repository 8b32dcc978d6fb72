"""The system of equations of charges on a mesh. Made by :func:`tacit.bem.assemble`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from .. import krylov, op, simulate
from .._alike import Whole, alike
from .._described import HMATRIX, SOLVE, SolveOptions
from .._options import Method, named
from .._support import Array, agreed, core, using_threads
from .boundary import error_of
from .capacitance import EPS0, Capacitance
from .charges import Charges
from .conductors import by_name, place_of
from .elements import Elements
from .meshes import Mesh
from .mirrors import Mirrors
from .points import reals, three


class Applied(TypedDict, total=False):
    """What a system is solved for beside potentials; :meth:`System.solve` says what each is."""

    floating: Any
    net_charge: Any
    field: Sequence[float]
    origin: Sequence[float] | None


class Solving(SolveOptions, Applied, total=False):
    """The ``**options`` of :meth:`System.solve`, for type checkers."""


APPLIED = tuple(Applied.__annotations__)


class _BoundaryData(NamedTuple):
    """What a solve is given, checked."""

    potential: Array  #: by triangle, less that of the field; 0 on floating conductors
    by_conductor: Array
    free: list[int]  #: the floating conductors
    net_charge: Array
    field: tuple[float, float, float]
    origin: Array

    def compared(self) -> dict[str, Any]:
        """What all ranks must give alike."""
        arrays = {"potential": self.potential, "net_charge": self.net_charge}
        arrays |= {"field": np.array(self.field), "origin": self.origin}
        return {"floating": self.free, **{name: Whole(array, "first") for name, array in arrays.items()}}


def _joint(results: list[krylov.Result]) -> dict[str, Any]:
    """The facts of several solves together: those of the first that failed, else of the first, and sums over all."""
    worst = next((r for r in results if not r.converged), results[0])

    def total(name: str) -> dict[str, Any]:
        return {key: sum((getattr(r, name) or {})[key] for r in results) for key in getattr(worst, name)}

    return {
        **{name: getattr(worst, name) for name in ("reason", "advice", "method", "device")},
        "converged": all(r.converged for r in results),
        "precond": worst.precond or "none",
        "_iterations": sum(r.iterations for r in results),
        "residual_norm": float(worst.residual_norm),
        "warnings": list(dict.fromkeys(text for r in results for text in r.warnings)),
        "history": [float(value) for value in worst.history],
        "counts": total("counts"),
        "traffic": None if worst.traffic is None else total("traffic"),
    }


class System:
    """A sigma = phi on a mesh, ready to be solved for any potentials. Made by :func:`assemble`.

    Attributes
    ----------
    A : tacit.HMatrix or tacit.DeviceHMatrix
        In the order of its cluster tree: unknown k belongs to triangle (or vertex) ``order[k]``. It maps ``weight``
        times the density to ``weight`` times the potential; the weights are 1, or for "galerkin" the square roots of
        the areas (linear elements: of the integrals of the basis functions).
    mesh : Mesh
        With linear elements vertices at one point are one, and those of no triangle are left out.
    elements : tacit.app.elements.Elements
        The functions of the density: ``elements.kind`` is "constant" or "linear".
    conductor : numpy.ndarray of int
        The conductor of each triangle, from 0; -1 on interfaces between dielectrics.
    conductors : int
        Their number.
    names : list of str
        Of the conductors: those of the file's groups, else their numbers.
    permittivity, inside : numpy.ndarray
        The relative ones outside each triangle and, on interfaces between dielectrics, on the other side.
    notes : list of str
        On permittivities that were taken otherwise than by default, or contradict each other.
    metres : float
        In a unit of the mesh.
    scale : float
        Farads in a unit of the capacitance matrix, coulombs in one of charge: 4 pi ``EPS0`` ``metres``.
    order, weight : numpy.ndarray
    seconds : float
        Time of the assembly, on the slowest rank.
    """

    def __init__(self, mesh: Mesh, options: dict[str, Any], on: Any, threads: int) -> None:
        self.mesh, self.comm, self.threads = mesh, on, threads
        self.conductor, self.names, self.permittivity, self.inside = options["media"]
        self.notes: list[str] = options["notes"]
        self.contrast: Array = options["media"].contrast
        self.conductors = len(self.names)
        self.metres: float = options["metres"]
        self.scale = 4 * math.pi * EPS0 * self.metres
        self.discretisation: str = options["system"].discretisation
        self.tolerance: float = options["hmatrix"].tolerance
        self.plane: tuple[int, float] | None = options["plane"]
        self.mirrors: Mirrors = options["mirrors"]
        self.elements: Elements = options["elements"]
        #: The conductor of each unknown: of its triangle, or of the triangles around its vertex.
        self.held_by: Array = self.elements.of_triangles(self.conductor, "the conductor")
        images = self.mirrors.images, self.mirrors.at, self.contrast
        surface = mesh.vertices, mesh.triangles, None if self.mirrors else self.plane
        made_by = options["system"], options["hmatrix"]
        begin = time.perf_counter()
        with using_threads(threads):
            handle, self.order, weight = core("bem_system", options["scalar"])(
                on, *surface, *made_by, options["gpu"], *images
            )
        self.weight: Array = weight
        # Rows of interfaces are multiplied by the roots of their areas.
        self._row_weight: Array = np.where(self.held_by < 0, np.sqrt(self.elements.integrals), weight)
        matrix = op.HMatrix(
            handle, on, options["scalar"], self.tolerance, options["hmatrix"].symmetry,
            lambda: core("bem_on_ranks", options["scalar"])(*surface, *made_by, *images, len(self.elements)),
        )  # fmt: skip
        self.A: op.HMatrix | op.DeviceHMatrix = matrix.to(options["device"], **options["there"])
        self.seconds: float = on.all_max_real(time.perf_counter() - begin)

    def __repr__(self) -> str:
        n = len(self.mesh)
        kind = f"{self.discretisation}{', linear elements' if self.elements.linear else ''}"
        return f"<System of {n} triangles on {self.conductors} conductors, {kind}>"

    @property
    def default_rtol(self) -> float:
        """The error of the matrix: a smaller residual would not make the charges more accurate. At least 1e-12, or 1e-6
        in float32.
        """
        return error_of(self.A)

    def product_seconds(self, repeat: int = 5) -> float:
        """Seconds of one product with A: the least of `repeat` on each rank, the largest over ranks. Collective."""
        first, last = self.A.own_range
        x = np.ones(last - first, dtype=self.A.dtype)
        best = math.inf
        with using_threads(self.threads):
            for _ in range(repeat):
                begin = time.perf_counter()
                self.A.matvec(x)
                best = min(best, time.perf_counter() - begin)
        return float(self.comm.all_max_real(best))

    def _potentials(self, potential: Any) -> tuple[Array, Array]:
        """The potentials by unknown, and by conductor (NaN where a conductor has several)."""
        n, k = len(self.elements), self.conductors
        if isinstance(potential, Mapping):
            potential = by_name(potential, self.names, "potential")
        given = reals(potential, "potential")
        if given.ndim == 0 or given.shape == (1,):
            by_conductor = np.full(k, float(given.reshape(-1)[0]))
        elif given.shape == (k,):
            by_conductor = given.copy()
        elif given.shape in ((n,), (len(self.mesh),)):
            if len(given) != n:
                given = self.elements.of_triangles(given, "the potential")
            low, high, held = np.full(k, np.inf), np.full(k, -np.inf), self.held_by >= 0
            np.minimum.at(low, self.held_by[held], given[held])
            np.maximum.at(high, self.held_by[held], given[held])
            return given, np.where(low == high, low, np.nan)
        else:
            raise ValueError(
                f"potential has shape {given.shape}; a number, one for each of {k} conductors or one for each of"
                f" {n} {self.elements.what} is needed"
            )
        return np.append(by_conductor, 0.0)[self.held_by], by_conductor

    def charge(self, density: Array) -> Array:
        """The free charge of each conductor, over 4 pi eps0, from the density by triangle or vertex. Local."""
        held = self.conductor >= 0
        weights = (self.elements.on_triangles(density) * self.mesh.areas * self.permittivity)[held]
        return np.bincount(self.conductor[held], weights, minlength=self.conductors) / (4 * math.pi)

    def _right_side(self, phi: Array) -> Array:
        tested = self.elements.tested(phi) / self.weight if self.elements.linear else phi * self._row_weight
        return np.asarray(tested[self.order].astype(self.A.dtype))

    def _density(self, x: Array) -> Array:
        sigma = np.empty(len(self.elements))
        sigma[self.order] = x
        sigma /= self.weight
        return sigma

    def solve(
        self,
        potential: Any = 0.0,
        *,
        method: str | Method = "bicgstab",
        precond: Any = "jacobi",
        callback: Any = None,
        raise_on_failure: bool = False,
        **options: Unpack[Solving],
    ) -> Charges:
        """Solves for the charges at these potentials. Collective; all ranks pass the same arguments.

        Parameters
        ----------
        potential : float, array_like or dict
            In V: one number, one for each conductor or one for each triangle (or vertex); or by name, {"plate": 5.0},
            where conductors that are not named have 0 V.
        floating : bool or sequence of int or str
            Conductors, by number or name, whose potential is not given (True: all). It is found from their
            `net_charge`, with one more solve for each.
        net_charge : float, array_like or dict
            Of the floating conductors in the order of their numbers, or by name; over 4 pi eps0 (coulombs divided by
            ``scale``).
        field : (3,) floats
            An external uniform field E, in V / u, with the potential -E . (x - origin). Over a grounded plane, E must
            be perpendicular to the plane; with a mirror, parallel to it.
        origin : (3,) floats, optional
            A point where the potential of the field is 0. Default: (0, 0, 0); with a plane always on the plane.
        method, precond, callback, raise_on_failure, **options
            As for :func:`tacit.solve`; the default of ``rtol`` is :attr:`default_rtol`.

        Raises
        ------
        ValueError
            For arguments of a wrong shape, conductors that do not exist, and fields that are not along a plane's axis.
        """
        held, how = self._divided(options)
        how |= {"method": method, "precond": precond, "callback": callback, "raise_on_failure": raise_on_failure}
        if isinstance(self.A, op.DeviceHMatrix):
            agreed(self.comm, lambda: check_on_gpus(method, precond))

        def solved(b: Array) -> krylov.Result:
            return krylov.solve(self.A, b, threads=self.threads, comm=self.comm, **how)

        return self._solved_by(solved, potential, held)

    def simulate(
        self,
        potential: Any = 0.0,
        *,
        ranks: int,
        machine: Any = "modern",
        method: str | Method = "bicgstab",
        precond: Any = "jacobi",
        **options: Unpack[Solving],
    ) -> tuple[Charges, list[simulate.Simulated]]:
        """:meth:`solve` on simulated ranks (:func:`tacit.simulate.solve`): the charges, whose times are simulated, and
        the simulated solves. The system is on one rank; its matrix is assembled again on the simulated ones.
        """
        if self.comm.size > 1:
            raise ValueError(f"a simulated solve starts from a system on one rank; this one is on {self.comm.size}")
        if isinstance(self.A, op.DeviceHMatrix):
            raise ValueError("a simulated solve starts from a system in host memory; assemble it with device='host'")
        held, how = self._divided(options)
        made: list[simulate.Simulated] = []

        def solved(b: Array) -> krylov.Result:
            there: Any = {"ranks": ranks, "machine": machine, "method": method, "precond": precond}
            made.append(simulate.solve(self.A, b, **there, **how))
            return made[-1].result

        charges = self._solved_by(solved, potential, held)
        charges.seconds["solve"] = sum(one.seconds for one in made)
        return charges, made

    def _divided(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is given beside the potential, and the options of the solve, which ends at the matrix's error."""
        held = {name: value for name, value in options.items() if name in APPLIED}
        return held, {"rtol": self.default_rtol} | {name: v for name, v in options.items() if name not in APPLIED}

    def _solved_by(self, solver: Callable[[Array], krylov.Result], potential: Any, held: Mapping[str, Any]) -> Charges:
        """The charges at what :meth:`solve` was given, by this function of a right-hand side. Collective."""
        data, first = alike(self.comm, lambda: self._data(potential, **held), _BoundaryData.compared)
        phi, net = first["potential"], first["net_charge"]
        begin = time.perf_counter()
        results = []

        def solved(values: Array) -> Array:
            results.append(solver(self._right_side(values)))
            return self._density(np.asarray(results[-1].x))

        sigma = solved(phi) if np.any(phi) or not data.free else np.zeros(len(self.elements))
        if data.free:
            units = [solved((self.held_by == c).astype(np.float64)) for c in data.free]
            matrix = np.column_stack([self.charge(unit)[data.free] for unit in units])
            found = np.linalg.solve(matrix, net - self.charge(sigma)[data.free])
            for c, volts, unit in zip(data.free, found, units, strict=True):
                data.by_conductor[c] = volts
                phi = phi + volts * (self.held_by == c)
                sigma = sigma + volts * unit
        facts = _joint(results)
        if len(results) > 1:
            facts["residual_norm"] = self._residual(phi, sigma)
        seconds = {"setup": self.seconds, "solve": self.comm.all_max_real(time.perf_counter() - begin)}
        what = {"potential": data.by_conductor, "field": data.field, "origin": data.origin}
        return Charges(self, sigma, facts | what | {"seconds": seconds})

    def _data(
        self,
        potential: Any,
        floating: Any = False,
        net_charge: Any = 0.0,
        field: Any = (0.0, 0.0, 0.0),
        origin: Any = None,
    ) -> _BoundaryData:
        """The arguments of :meth:`solve`, checked. Local."""
        e, zero = three(field, "field"), np.zeros(3) if origin is None else three(origin, "origin")
        if e.any():
            self.mirrors.refuse_field(e)
            if self.plane is not None:
                zero[self.plane[0]] = self.plane[1]
        free = self._floating(floating)
        net = self._net_charges(net_charge, free)
        phi, by_conductor = self._potentials(potential)
        phi = np.where(np.isin(self.held_by, free), 0.0, phi) + (self.elements.places - zero) @ e
        if len(self.contrast):  # the rows of interfaces
            normal = (self.mesh.normals / self.mesh.areas[:, None]) @ e
            phi = np.where(self.conductor < 0, -self.contrast * normal, phi)
        by_conductor[free] = np.nan
        return _BoundaryData(phi, by_conductor, free, net, (float(e[0]), float(e[1]), float(e[2])), zero)

    def _floating(self, floating: Any) -> list[int]:
        """The conductors that float. Local."""
        if isinstance(floating, bool | np.bool_):
            return list(range(self.conductors)) if floating else []
        if isinstance(floating, str) or not isinstance(floating, Iterable):
            raise TypeError(f"floating is {floating!r}; True, False or a list of conductors is needed")
        return sorted({place_of(c, self.names, "a floating conductor") for c in floating})

    def _net_charges(self, net_charge: Any, free: list[int]) -> Array:
        """Those of the conductors that float. Local."""
        if isinstance(net_charge, Mapping):
            held = [name for name in net_charge if place_of(name, self.names, "net_charge of") not in free]
            if held:
                raise ValueError(f"net_charge of {held[0]!r}, whose potential is given; it is of floating conductors")
            net_charge = by_name(net_charge, self.names, "net_charge")[free]
        net = reals(net_charge, "net_charge")
        if net.shape not in ((), (1,), (len(free),)):
            raise ValueError(f"net_charge has shape {net.shape}; {len(free)} conductors float, one for each is needed")
        if not free and net.any():
            raise ValueError(
                f"net_charge is {net_charge!r}, of conductors that float, and none does; floating names them"
            )
        return np.broadcast_to(net.reshape(-1)[:1] if net.size == 1 else net, (len(free),))

    def _residual(self, phi: Array, sigma: Array) -> float:
        """|b - A x| / |b| of these potentials and densities. Collective."""
        b = self._right_side(phi)
        x = (sigma * self.weight)[self.order].astype(self.A.dtype)
        with using_threads(self.threads):
            size = float(np.linalg.norm(b))
            return float(np.linalg.norm(b - self.A.matvec(x))) / (size if size > 0 else 1.0)

    def capacitance(self, *, kept: list[Charges] | None = None, **options: Any) -> Capacitance:
        """The capacitance matrix, by one solve for each conductor; `options` as for :meth:`solve`. The charges of each
        solve are appended to `kept`. Collective.
        """
        if given := [name for name in APPLIED if name in options]:
            raise ValueError(f"{given[0]} is of a solve; capacitances are charges at potentials of 1 V and 0 V alone")
        if not self.conductors:
            raise ValueError("a capacitance needs a conductor; all triangles are interfaces between dielectrics")
        found = [self.solve(np.eye(self.conductors)[c], **options) for c in range(self.conductors)]
        if kept is not None:
            kept += found
        matrix = np.column_stack([f.charge for f in found])
        return Capacitance(
            matrix,
            float(np.abs(matrix - matrix.T).max() / np.abs(matrix).max()),
            all(f.converged for f in found),
            sum(f.iterations for f in found),
            max(f.residual_norm for f in found),
            sum(f.seconds["solve"] for f in found),
            tuple(self.names),
            self.scale,
        )


def check_on_gpus(method: Any, precond: Any) -> None:
    """ValueError for a method or preconditioner with which a system on GPUs cannot be solved. Local."""
    krylov.method_on_gpus(named("method", method, {})[0], precond, _HOST_SOLVES)


_HOST_SOLVES = "with assembly='cuda' in place of device the GPU assembles, and the host solves, by all of them"


def of_solves(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of :meth:`System.solve` among these, and the others, of the assembly."""
    known = {*APPLIED, *(System.solve.__kwdefaults__ or ()), *SOLVE} - HMATRIX.keys()
    solving = {name: value for name, value in options.items() if name in known}
    return solving, {name: value for name, value in options.items() if name not in known}
