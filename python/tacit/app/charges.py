"""Charges on conductors, and what follows from them. Made by :meth:`tacit.bem.System.solve`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._alike import Whole, alike
from .._outcome import Outcome
from .._support import Array, core
from .capacitance import EPS0
from .forces import Forces, forces_on
from .meshes import Mesh, core_function
from .points import points_of, shared_out
from .sections import Section


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

    def __init__(self, system: Any, density: Array, facts: dict[str, Any]) -> None:
        self.system = system  #: tacit.bem.System
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

    def _at(self, points: Any, name: str) -> tuple[Array, Array]:
        """The "potential" or "field" of all charges at points, and the points. Collective."""
        s = self.system
        p, _ = alike(s.comm, lambda: points_of(points), lambda p: {"points": Whole(p)})
        vertices, triangles, density = s.mirrors.unfolded(s.mesh, np.asarray(self.density, dtype=np.float64))

        def summed(own: Array) -> Array:
            if not s.elements.linear:
                plane = None if s.mirrors else s.plane
                mesh = vertices, triangles, plane, min(1e-4, s.tolerance)
                return np.asarray(core_function(f"bem_{name}")(*mesh, density, own, 1 / (4 * math.pi)))
            of = vertices, triangles, "linear", 0.0, density
            if name == "field":
                return np.asarray(-core("bem_layer_gradient", "float64")(*of, own))
            return np.asarray(core("bem_layers_at", "float64")(*of, np.zeros(0), own))

        return shared_out(s.comm, s.threads, p, summed), p

    def potential_at(self, points: Any) -> Array:
        """The potential in V at points (n, 3), the same on all ranks: that of the charges plus that of the external
        field. Collective. The points are divided among ranks; each takes a sum over all triangles.
        """
        phi, p = self._at(points, "potential")
        return np.asarray(phi - (p - self.origin) @ np.asarray(self.field))

    def field_at(self, points: Any) -> Array:
        """The field in V / u at points (n, 3), of shape (n, 3). It jumps by sigma / eps0 across a triangle; on a
        triangle this is the mean of both sides. Collective; cost as of :meth:`potential_at`.
        """
        field, _ = self._at(points, "field")
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
        return np.asarray(self.system.elements.on_triangles(np.asarray(self.density)))

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
