"""Boundary elements: charges on conductors, their capacitances, and the field around them.

Charge of density sigma on surfaces of triangles, constant on each, makes the potential

    phi(x) = 1 / (4 pi eps0) * integral of sigma(y) / |x - y| dy.

Where phi is known on the conductors, sigma solves A sigma = phi with a dense matrix A, stored as an H-matrix. Densities
are in units of eps0 V / u, u the unit of the mesh; charges are divided by 4 pi eps0 (in V u), so that the capacitance
of a sphere is its radius.

>>> import tacit
>>> mesh = tacit.bem.sphere(8, radius=2.0)
>>> charges = tacit.bem.solve(mesh, potential=1.0)
>>> bool(abs(charges.charge[0] - 2.0) < 0.01)
True
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core, krylov, layout, op, simulate
from .. import comm as _comm
from .. import device as _device
from .._alike import Whole, alike
from .._described import (
    BEM,
    DEVICE_PRODUCT,
    HMATRIX,
    SOLVE,
    BemOptions,
    DeviceProductOptions,
    HmatrixOptions,
    SolveOptions,
)
from .._options import Method, agree, fill, named
from .._outcome import Outcome
from .._support import (
    Array,
    agreed,
    as_array,
    chosen_scalar,
    core,
    default_threads,
    thread_count,
    using_threads,
)
from .boundary import BoundaryOperator, Harmonic, boundary_operator, laplace
from .capacitance import EPS0, UNITS, Capacitance, metres_of
from .conductors import by_name, conductors_of, place_of
from .elements import Elements, welded
from .forces import Forces, forces_on
from .media import media_of
from .meshes import Mesh, bodies, body, core_function, cube, ellipsoid, read, ring_sphere, sphere, sphere_pair
from .mirrors import Mirrors, plane_of
from .refinement import Settled, settle
from .scatter import NearField, Scattering, scatter
from .sections import Section, line

__all__ = [
    "EPS0", "UNITS", "BoundaryOperator", "Capacitance", "Charges", "Forces", "Harmonic", "Mesh", "NearField",
    "Scattering", "Section", "Settled", "System", "assemble", "bodies", "body", "boundary_operator", "cube",
    "ellipsoid", "laplace", "line", "read", "ring_sphere", "scatter", "settled_capacitance", "solve", "sphere",
    "sphere_pair"
]  # fmt: skip

# --- the system -------------------------------------------------------------------------------------------------------


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


class Charges(Outcome):
    """Charges on conductors.

    Attributes
    ----------
    density : numpy.ndarray
        sigma of each triangle of the mesh, or of each vertex with linear elements, in units of eps0 V / u.
    charge : numpy.ndarray
        Of each conductor, over 4 pi eps0, in V u: the free charge, where a permittivity is given.
    coulombs : numpy.ndarray
        The same in C.
    potential : numpy.ndarray
        Of each conductor, in V; NaN where its triangles were given different potentials.
    field : tuple of float
        The uniform field from outside, in V / u.
    converged, reason, advice, iterations, residual_norm, seconds, counts, history, method, precond, warnings, device,
    traffic
        As in :class:`tacit.Result`. With floating conductors ``iterations``, ``counts`` and ``traffic`` are sums over
        all solves, and ``residual_norm`` is that of the combined solution.
    """

    def __init__(self, system: System, density: Array, facts: dict[str, Any]) -> None:
        self.system = system
        self.density = density
        self.charge: Array = system.charge(density)
        self.__dict__ |= facts

    potential: Array
    field: tuple[float, float, float]
    origin: Array
    advice: str
    method: str
    precond: str
    device: str
    traffic: dict[str, float] | None
    _iterations: int

    @property
    def iterations(self) -> int:
        return self._iterations

    @property
    def coulombs(self) -> Array:
        return np.asarray(self.charge * self.system.scale)

    def __repr__(self) -> str:
        total = ", ".join(f"{q:.6g}" for q in self.charge[:4]) + (", .." if len(self.charge) > 4 else "")
        return f"<{self.reason} after {self.iterations} iterations, charge {total} over 4 pi eps0>"

    def _at(self, points: Any, name: str, what: str) -> tuple[Array, Array]:
        s = self.system

        def look() -> Array:
            p = np.ascontiguousarray(as_array(points, what), dtype=np.float64)
            if p.ndim == 1 and len(p) == 3:
                p = p[None, :]
            if p.ndim != 2 or p.shape[1] != 3 or not np.isfinite(p).all():
                raise ValueError(f"{what} have shape {p.shape}; finite numbers of shape (n, 3) are needed")
            return p

        p, _ = alike(s.comm, look, lambda p: {what: Whole(p)})
        o = layout.blocks(len(p), s.comm.size)
        own = np.ascontiguousarray(p[o[s.comm.rank] : o[s.comm.rank + 1]])
        vertices, triangles, density = s.mirrors.unfolded(s.mesh, np.asarray(self.density, dtype=np.float64))

        def summed() -> Array:
            if not s.elements.linear:
                plane = None if s.mirrors else s.plane
                mesh = vertices, triangles, plane, min(1e-4, s.tolerance)
                return np.asarray(core_function(f"bem_{name}")(*mesh, density, own, 1 / (4 * math.pi)))
            of = vertices, triangles, "linear", 0.0, density
            if name == "field":
                return np.asarray(-core("bem_layer_gradient", "float64")(*of, own))
            return np.asarray(core("bem_layers_at", "float64")(*of, np.zeros(0), own))

        with using_threads(s.threads):
            mine = agreed(s.comm, summed)
        return layout.gather(mine, s.comm), p

    def potential_at(self, points: Any) -> Array:
        """The potential in V at points (n, 3), the same on all ranks: that of the charges plus that of the external
        field. Collective. The points are divided among ranks; each takes a sum over all triangles.
        """
        phi, p = self._at(points, "potential", "points")
        return np.asarray(phi - (p - self.origin) @ np.asarray(self.field))

    def field_at(self, points: Any) -> Array:
        """The field in V / u at points (n, 3), of shape (n, 3). It jumps by sigma / eps0 across a triangle; on a
        triangle this is the mean of both sides. Collective; cost as of :meth:`potential_at`.
        """
        field, _ = self._at(points, "field", "points")
        return np.asarray(field + np.asarray(self.field))

    def section(self, plane: tuple[str, float], *, points: int = 201, margin: float = 0.5) -> Section:
        """The potential in a plane ("z", 0.0), on a grid of `points` along its longer side, that is wider than the
        bodies and their images by `margin` times their longest side. Collective; cost as of :meth:`potential_at`.
        """
        return Section(self, plane, points, margin)

    def forces(self, about: Sequence[float] = (0.0, 0.0, 0.0)) -> Forces:
        """The force in N on each conductor, (k, 3), and its moment in N m about a point of the mesh.

        The charge of each conductor in the field of all others, of the external field and of images: a body exerts no
        force on itself, in one medium also with the charge bound at its surface. With a mirror the force on the part
        given. Collective; takes the time of the field at all centroids.

        Raises
        ------
        ValueError
            For a conductor that touches two media.
        """
        return forces_on(self, about)

    @property
    def mean_density(self) -> Array:
        """The mean of the density over each triangle."""
        return self.system.elements.on_triangles(np.asarray(self.density))

    @property
    def surface_field(self) -> Array:
        """The field in V / u along the normal at the outside of each triangle: on conductors sigma / eps0, positive
        where it leaves them; NaN on interfaces between equal media.
        """
        s = self.system
        with np.errstate(divide="ignore", invalid="ignore"):
            outside = s.inside / (s.inside - s.permittivity)
        outside = np.where(np.isfinite(outside), outside, np.nan)
        return np.asarray(self.mean_density * np.where(s.conductor < 0, outside, 1.0))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the mesh with values of each triangle: .vtu, .vtk, .. Local.

        "charge_density" (the total, in eps0 V / u; with linear elements also by vertex), "conductor" (-1 on
        interfaces), "potential"; in SI units
        "free_charge_C_m2" (0 on interfaces) and "normal_field_V_m" (:attr:`surface_field`).
        """
        s = self.system
        of, metres = s.conductor, s.metres
        data = {"charge_density": np.asarray(self.mean_density, dtype=np.float64), "conductor": of.astype(np.int32)}
        data["potential"] = np.append(self.potential, np.nan)[of]
        data["free_charge_C_m2"] = np.where(of < 0, 0.0, EPS0 / metres * s.permittivity * data["charge_density"])
        data["normal_field_V_m"] = self.surface_field / metres
        at_vertices = {"charge_density": np.asarray(self.density, dtype=np.float64)} if s.elements.linear else None
        Mesh(s.mesh.vertices, s.mesh.triangles).write(path, data, at_vertices)

    def plot(self, path: str | os.PathLike[str], up: str = "z") -> None:
        """Plots two views of the charge density to a file: .png, .pdf, .svg. Local."""
        from ..plot import bem as figures

        mesh = self.system.mesh
        solid = bool(mesh.surface["closed"] and mesh.surface["oriented"] and mesh.surface["volume"] > 0)
        of_bodies: Any = {"solid": solid, "potential": self.potential, "charge": self.charge}
        figures.charges(mesh.vertices[mesh.triangles], mesh.areas, self.mean_density, path, up, **of_bodies)


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
        errors = (self.A.report[name] for name in ("estimated_error", "measured_error", "measured_error_ones"))
        return float(max(*errors, 1e-12 if self.A.dtype == np.float64 else 1e-6))

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
        given = np.asarray(as_array(potential, "potential"), dtype=np.float64)
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
        if not np.isfinite(by_conductor).all():
            raise ValueError("potential has a value that is not finite")
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
        floating: Any = False,
        net_charge: Any = 0.0,
        field: Sequence[float] = (0.0, 0.0, 0.0),
        origin: Sequence[float] | None = None,
        method: str | Method = "bicgstab",
        precond: Any = "jacobi",
        callback: Any = None,
        raise_on_failure: bool = False,
        **options: Unpack[SolveOptions],
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
        options.setdefault("rtol", self.default_rtol)
        how = {"callback": callback, "raise_on_failure": raise_on_failure, "threads": self.threads, "comm": self.comm}
        if isinstance(self.A, op.DeviceHMatrix):
            agreed(self.comm, lambda: check_on_gpus(method, precond))

        def solved(b: Array) -> krylov.Result:
            return krylov.solve(self.A, b, method=method, precond=precond, **how, **options)

        return self._solved_by(solved, (potential, floating, net_charge, field, origin))

    def simulate(
        self,
        potential: Any = 0.0,
        *,
        ranks: int,
        machine: Any = "modern",
        floating: Any = False,
        net_charge: Any = 0.0,
        field: Sequence[float] = (0.0, 0.0, 0.0),
        origin: Sequence[float] | None = None,
        method: str | Method = "bicgstab",
        precond: Any = "jacobi",
        **options: Unpack[SolveOptions],
    ) -> tuple[Charges, list[simulate.Simulated]]:
        """:meth:`solve` on simulated ranks (:func:`tacit.simulate.solve`): the charges, whose times are simulated, and
        the simulated solves. The system is on one rank; its matrix is assembled again on the simulated ones.
        """
        if self.comm.size > 1:
            raise ValueError(f"a simulated solve starts from a system on one rank; this one is on {self.comm.size}")
        if isinstance(self.A, op.DeviceHMatrix):
            raise ValueError("a simulated solve starts from a system in host memory; assemble it with device='host'")
        options.setdefault("rtol", self.default_rtol)
        made: list[simulate.Simulated] = []

        def solved(b: Array) -> krylov.Result:
            how: Any = {"ranks": ranks, "machine": machine, "method": method, "precond": precond}
            made.append(simulate.solve(self.A, b, **how, **options))
            return made[-1].result

        charges = self._solved_by(solved, (potential, floating, net_charge, field, origin))
        charges.seconds["solve"] = sum(one.seconds for one in made)
        return charges, made

    def _solved_by(self, solver: Callable[[Array], krylov.Result], given: tuple[Any, ...]) -> Charges:
        """The charges at what :meth:`solve` was given, by this function of a right-hand side. Collective."""
        data, first = alike(self.comm, lambda: self._data(*given), _BoundaryData.compared)
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

    def _data(self, potential: Any, floating: Any, net_charge: Any, field: Any, origin: Any) -> _BoundaryData:
        """The arguments of :meth:`solve`, checked. Local."""
        e = np.asarray(as_array(field, "field"), dtype=np.float64)
        if e.shape != (3,) or not np.isfinite(e).all():
            raise ValueError(f"field is {field!r}; three numbers are needed")
        zero = np.zeros(3) if origin is None else np.asarray(as_array(origin, "origin"), dtype=np.float64)
        if zero.shape != (3,) or not np.isfinite(zero).all():
            raise ValueError(f"origin is {origin!r}; three numbers are needed")
        if e.any():
            self.mirrors.refuse_field(e)
            if self.plane is not None:
                zero[self.plane[0]] = self.plane[1]
        k = self.conductors
        if floating is True or floating is False:
            free = list(range(k)) if floating else []
        else:
            free = sorted({place_of(c, self.names, "a floating conductor") for c in floating})
        if isinstance(net_charge, Mapping):
            held = [name for name in net_charge if place_of(name, self.names, "net_charge of") not in free]
            if held:
                raise ValueError(f"net_charge of {held[0]!r}, whose potential is given; it is of floating conductors")
            net_charge = by_name(net_charge, self.names, "net_charge")[free]
        net = np.broadcast_to(np.asarray(as_array(net_charge, "net_charge"), dtype=np.float64), (len(free),))
        phi, by_conductor = self._potentials(potential)
        phi = np.where(np.isin(self.held_by, free), 0.0, phi) + (self.elements.places - zero) @ e
        if len(self.contrast):  # the rows of interfaces
            normal = (self.mesh.normals / self.mesh.areas[:, None]) @ e
            phi = np.where(self.conductor < 0, -self.contrast * normal, phi)
        by_conductor[free] = np.nan
        return _BoundaryData(phi, by_conductor, free, net, (float(e[0]), float(e[1]), float(e[2])), zero)

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


class Options(BemOptions, HmatrixOptions, DeviceProductOptions, total=False):
    """The ``**options`` of :func:`assemble`, for type checkers."""


def assemble(
    mesh: Mesh,
    *,
    conductors: Any = "auto",
    unit: str | float = "m",
    permittivity: float | None = None,
    media: Mapping[Any, float] = {},
    dielectrics: Mapping[Any, Any] = {},
    join: Mapping[str, Sequence[Any]] = {},
    plane: tuple[str, float] | None = None,
    mirror: Sequence[tuple[str, float]] = (),
    scalar: npt.DTypeLike = np.float64,
    threads: int | None = None,
    comm: Any = None,
    device: str = "host",
    **options: Unpack[Options],
) -> System:
    """Assembles the matrix of the single-layer potential on a mesh as an H-matrix. Collective; the mesh is the same on
    every rank.

    Parameters
    ----------
    mesh : Mesh
    conductors : str or array_like of int
        "auto" (the named groups of the file, such as gmsh's physical surfaces; else components), "components" (each
        connected part of the mesh), "one" (all triangles), the name of cell data, or a number for each triangle.
    unit : str or float
        The unit of the mesh, for coulombs and farads: one of :data:`UNITS`, or the metres in it.
    permittivity : float, optional
        The relative one of the medium around everything. Default: the file's (FastCap's), else 1.
    media : dict
        That of the medium around some conductors, by name: {"core": 3.9}. Default: `permittivity`, or, for a conductor
        that lies within a closed interface, the permittivity inside that (a note of the system says so).
    dielectrics : dict
        Surfaces that are no conductors but interfaces between two media, by name: {"coat": 3.9} with this permittivity
        inside and `permittivity` outside, or {"coat": (3.9, 2.2)} with 2.2 outside. Normals point outwards. Within
        another closed interface, {"coat": 3.9} has outside what is inside that.
    join : dict
        Groups that are one conductor, as its parts in different media: {"plate": ["plate above", "plate below"]}.
    plane : (str, float), optional
        A grounded plane: ("z", 0.0). All triangles are on one side of it.
    mirror : sequence of (str, float)
        Planes of symmetry, [("x", 0.0), ("y", 0.0)], at most one plane across each axis: the mesh is the part on one
        side, and so are the charges of the result.
    scalar : dtype
        float64 or float32.
    threads : int, optional
        Of this rank.
    comm : communicator, optional
    device : str
        Where the matrix is assembled and solved with: "host"; "cuda", this rank's GPU; "cuda:1", that one; "cuda:0,1",
        these together (the first assembles): a :class:`tacit.DeviceHMatrix`, for methods "bicgstab" and
        "pipelined-bicgstab" and preconditioners "jacobi" and "none". With ``assembly="host"`` the host assembles for
        GPUs; ``assembly="cuda"`` without `device` assembles on the GPU and solves on the host.
    **options
        ``discretisation`` ("collocation": the potential at centroids; "galerkin": its mean over triangles, a symmetric
        matrix), ``elements`` ("constant" on triangles; "linear": continuous, a value at each vertex, by galerkin and
        for conductors without dielectrics), ``quadrature`` (0.05: the accuracy of entries, as a multiple of
        ``tolerance``), ``assembly`` ("host",
        "cuda", "virtual": where entries are evaluated and blocks compressed); those of :func:`tacit.hmatrix` except
        ``symmetry``, such as ``tolerance`` (1e-4); and with GPUs those of :meth:`tacit.HMatrix.to`:
        docs/reference/h-matrices.md.

    Returns
    -------
    System

    Raises
    ------
    tacit.InputError
        For triangles without area, repeated triangles (:meth:`Mesh.mended` removes both), coordinates that are not
        finite, triangles beyond the plane, and permittivities of a file that contradict its closed interfaces.
    ValueError
        For an invalid option, or options that differ between ranks.
    tacit.EnvironmentFailure
        For assembly="cuda" without a GPU or in a build without CUDA.
    """
    on = _comm.resolve(comm)

    def look() -> dict[str, Any]:
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh is a {type(mesh).__name__}; what tacit.bem.read or Mesh() makes is needed")
        wrong = mesh.faults()
        if wrong:
            raise _core.InputError(f"the mesh has {wrong}; mended() leaves them out")
        numbers, names = conductors_of(conductors, mesh)
        where = None if plane is None else plane_of(plane, "plane")
        images = Mirrors(where, mirror)
        found, notes = media_of(mesh, numbers, names, permittivity, media, dielectrics, join, images)
        made: dict[str, Any] = {"media": found, "notes": notes, "metres": metres_of(unit)}
        thread_count(threads)
        chosen = chosen_scalar(scalar) or "float64"
        if chosen not in ("float64", "float32"):
            raise ValueError(f"scalar is {chosen}; float64 or float32 is needed")
        # With a grounded plane alone a device can assemble; other images are summed by the host.
        made |= {"plane": where, "scalar": chosen, "device": device, **_assembly(device, options)}
        linear = made["system"].elements == "linear"
        if linear and len(found.contrast):
            raise ValueError("elements is 'linear', which are of conductors; with dielectrics take 'constant'")
        made["mirrors"] = Mirrors(where, mirror, not mirror and not linear and len(found.contrast) == 0)
        made["mesh"] = made["mirrors"].placed(mesh) if made["mirrors"] else mesh
        if linear:
            made["mesh"] = welded(made["mesh"])[0]
        made["elements"] = Elements(made["system"].elements, made["mesh"])
        made["elements"].of_triangles(found.conductor, "the conductor")
        return made

    made = agreed(on, look)
    arrays = {"vertices": mesh.vertices, "triangles": mesh.triangles, **made["media"]._asdict()}
    arrays["names"] = np.frombuffer("\n".join(arrays["names"]).encode(), np.uint8)
    same = {name: Whole(array, "refused") for name, array in arrays.items()}
    kind = _device.kind_of(device, several=True)
    planes = {"plane": str(made["plane"]), "mirror": str(made["mirrors"].planes), "metres": made["metres"]}
    agree(on, made["hmatrix"], HMATRIX, scalar=made["scalar"], device=kind, **planes, **same)
    agree(on, made["system"], BEM)
    on_gpu = made["system"].assembly == "cuda"
    made["gpu"] = _device.number("cuda" if device == "host" else device, on) if on_gpu else -1
    return System(made["mesh"], made, on, default_threads(on) if threads is None else int(threads))


def _assembly(device: str, options: Any) -> dict[str, Any]:
    """The options of :func:`assemble` as objects of the compiled part, checked. Local."""
    known = {name: option for name, option in HMATRIX.items() if name != "symmetry"}
    own: dict[str, Any] = {name: value for name, value in options.items() if name in BEM}
    there: dict[str, Any] = {name: value for name, value in options.items() if name in DEVICE_PRODUCT}
    rest: dict[str, Any] = {name: value for name, value in options.items() if name not in {**own, **there}}
    kind = _device.kind_of(device, several=True)
    if kind == "host" and there:
        raise ValueError(f"{', '.join(there)} is of a matrix on GPUs; the device is 'host'")
    fill(core("DeviceProductOptions")(), "assemble", DEVICE_PRODUCT, there)
    if own.get("elements") == "linear":
        own = {"discretisation": "galerkin"} | own
    system = fill(_core.BemOptions(), "assemble", BEM, own)
    if system.elements == "linear" and system.discretisation != "galerkin":
        raise ValueError("elements is 'linear' and discretisation 'collocation'; linear elements are by 'galerkin'")
    o = fill(_core.HMatrixOptions(), "assemble", known, rest, (*BEM, *DEVICE_PRODUCT, *_ASSEMBLING))
    galerkin = system.discretisation == "galerkin"
    if galerkin:
        o.symmetry = "symmetric"
    if kind == "cuda":
        if galerkin:
            raise ValueError(
                f"device is {device!r}: GPUs need both triangles of the matrix, and galerkin stores one; take"
                " collocation, or device='host'"
            )
        if "assembly" not in own:
            system.assembly = "cuda"
    if o.nested and galerkin:
        raise ValueError("nested bases and galerkin, which stores one triangle; take collocation, or nested=False")
    if o.nested and (kind == "cuda" or system.assembly != "host"):
        raise ValueError(
            f"nested bases are made and multiplied by the host; device is {device!r} and assembly {system.assembly!r}"
        )
    if system.assembly != "host" and (galerkin or o.compression == "svd"):
        raise ValueError(
            f"assembly is {system.assembly!r}: a device makes the collocation matrix by aca or aca+, and"
            f" {'galerkin' if galerkin else 'svd'} was asked for"
        )
    if system.assembly == "cuda":
        _device.kind_of("cuda")
    return {"system": system, "hmatrix": o, "there": there}


_ASSEMBLING = (
    "conductors",
    "unit",
    "permittivity",
    "media",
    "dielectrics",
    "plane",
    "mirror",
    "scalar",
    "threads",
    "comm",
    "device",
)
_SOLVING = {"floating", "net_charge", "field", "origin", "method", "precond", "callback", "raise_on_failure", *SOLVE}
_SOLVING -= HMATRIX.keys()


def solve(mesh: Mesh, potential: Any = 1.0, **options: Any) -> Charges:
    """``assemble(mesh, ...).solve(potential, ...)``, with the options of both.

    Examples
    --------
    >>> import tacit
    >>> pair = tacit.bem.sphere_pair(6, radius=1.0, distance=3.0)
    >>> charge = tacit.bem.solve(pair, [1.0, -1.0]).charge  # exactly 1.5353705 and its negative
    >>> bool(abs(charge[0] - 1.535) < 0.03 and abs(charge.sum()) < 1e-4)
    True
    """
    first = {k: v for k, v in options.items() if k not in _SOLVING}
    if first.get("device", "host") != "host":
        check_on_gpus(options.get("method", "bicgstab"), options.get("precond", "jacobi"))
    return assemble(mesh, **first).solve(potential, **{k: v for k, v in options.items() if k in _SOLVING})


def settled_capacitance(mesh: Mesh, error: float = 1e-2, *, most_triangles: int = 50_000, **options: Any) -> Settled:
    """The capacitance matrix on finer and finer meshes, until it is accurate to `error` by estimate. Collective.

    Triangles are divided into four where their charge times the error of the potential between centroids is largest, at
    edges, corners and narrow gaps, and all of them every third time. The changes of the matrix become smaller by a
    ratio, from which follow its limit and the estimate of its error, from four meshes on. New corners are in the
    planes of the old triangles, but for spheres and ellipsoids of this module: the estimate is that of the solution,
    not of a mesh that is only near the body.

    Parameters
    ----------
    mesh : Mesh
        The first one; it may be as coarse as the body allows.
    error : float
        Relative, in the Frobenius norm.
    most_triangles : int
        Where the next mesh would have more, the refinement ends without having settled.
    **options
        Those of :func:`assemble`, with a default of ``tolerance`` that suits `error`, and of :meth:`System.solve`.

    Examples
    --------
    >>> import tacit
    >>> found = tacit.bem.settled_capacitance(tacit.bem.cube(2), error=0.005)
    >>> ratio = found.extrapolated[0, 0] / found.capacitance.scale  # 0.6606785 of a sphere whose radius is the side
    >>> found.settled, bool(abs(ratio - 0.6607) < 0.005)
    (True, True)
    """
    if options.get("elements") == "linear":
        raise ValueError(
            "elements is 'linear'; meshes are refined by the charges of constant elements, which these need"
        )
    solving = {k: v for k, v in options.items() if k in _SOLVING}
    return settle(
        assemble, mesh, error, most_triangles, solving, {k: v for k, v in options.items() if k not in _SOLVING}
    )
