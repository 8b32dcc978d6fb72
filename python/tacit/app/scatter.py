"""Scattering of plane waves by closed bodies: exterior Helmholtz problems by Burton and Miller's combined equation. See
:func:`tacit.bem.scatter`.
"""

from __future__ import annotations

import cmath
import math
import numbers
import os
import time
import warnings
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from .. import comm as _comm
from .._described import HmatrixOptions, SolveOptions
from .._outcome import Outcome
from .._support import Array, agreed, choose, real_number
from .boundary import boundary_operator, closed, layers_at
from .elements import tested_function
from .meshes import Mesh
from .points import directions_of, points_of, three
from .sections import PlaneGrid

BOUNDARIES = ("hard", "soft")
#: Elements for a wavelength below which a warning is given.
FEW = 6.0
#: The share of the imaginary part in the far field forwards below which the optical theorem loses digits.
_SMALL = 0.3
#: The wave number times the radius above which it is taken all the same: the integral takes its square in directions.
_LARGE = 50.0


class Scattering(Outcome):
    """A plane wave scattered by bodies. Made by :func:`scatter`.

    Attributes
    ----------
    mesh : Mesh
        With linear elements vertices at one point are one, and those of no triangle are left out.
    density : numpy.ndarray of complex
        By vertex (constant elements: by triangle): on hard bodies the total field, on soft ones its derivative along
        the normal.
    boundary : str
        "hard" or "soft".
    wavenumber : float
    incident : numpy.ndarray, (3,)
        The direction of the plane wave exp(i k d . x), of length 1.
    coupling : complex
        Of the equation with its derivative.
    elements_per_wavelength : float
        The wavelength over the longest edge.
    converged, reason, advice, iterations, residual_norm, seconds, counts, history, method, precond, warnings
        As in :class:`tacit.Result`.
    """

    density: Array
    boundary: str
    incident: Array
    coupling: complex
    elements_per_wavelength: float
    advice: str
    method: str
    precond: str

    def __init__(self, operator: Any, density: Array, facts: dict[str, Any]) -> None:
        self.operator, self.density = operator, density
        self.mesh: Mesh = operator.mesh
        self.elements, self.wavenumber = operator.elements, operator.wavenumber
        self.comm, self.threads = operator.comm, operator.threads
        self.__dict__ |= facts

    @property
    def iterations(self) -> int:
        return int(self.__dict__["_iterations"])

    def __repr__(self) -> str:
        what = f"{len(self.mesh)} {self.boundary} triangles, k = {self.wavenumber:g}"
        return f"<{self.reason} after {self.iterations} iterations, {what}>"

    def _layers(self) -> tuple[Array | None, Array | None]:
        return (None, self.density) if self.boundary == "hard" else (-self.density, None)

    def scattered_at(self, points: Any) -> Array:
        """The scattered field at points (n, 3) outside of the bodies: the double layer of the field on hard bodies,
        minus the single layer of its derivative on soft ones. Collective; points times triangles operations.
        """
        return layers_at(self, *self._layers(), points)

    def field_at(self, points: Any) -> Array:
        """The total field, incident and scattered, at points (n, 3); near 0 within the bodies. Collective."""
        scattered = self.scattered_at(points)
        return np.asarray(scattered + np.exp(1j * self.wavenumber * (points_of(points) @ self.incident)))

    def far_field(self, directions: Any) -> Array:
        """f in directions (n, 3) of any length: far away the scattered field is f(d) exp(i k r) / r. The square of its
        magnitude is the differential cross-section. Collective; directions times triangles operations.
        """
        return layers_at(self, *self._layers(), directions_of(directions), far=True)

    @property
    def cross_section(self) -> float:
        """The power that is scattered, over that of the incident wave through a unit of area: the integral of |f|^2
        over all directions d, which is 4 pi / k times the imaginary part of f forwards (optical theorem).

        The latter is taken unless it is small beside the real part, as for bodies much smaller than the wavelength:
        there it would be a small difference of large numbers. Of bodies of more than 50 radians (k times half their
        diagonal) it is always taken. Collective.
        """
        forwards = complex(self.far_field(self.incident)[0])
        reach = self.wavenumber * float(np.linalg.norm(np.ptp(self.mesh.vertices, axis=0))) / 2
        if abs(forwards.imag) > _SMALL * abs(forwards) or reach > _LARGE:
            return float(4 * math.pi / self.wavenumber * forwards.imag)
        # The degree of |f|^2 in directions is twice that of f, which is little above k times the radius.
        x, weights = np.polynomial.legendre.leggauss(math.ceil(reach + 4 * reach ** (1 / 3)) + 4)
        angles = math.pi / len(x) * np.arange(2 * len(x))
        across = np.sqrt(1 - x**2)[:, None]
        d = np.stack([across * np.cos(angles), across * np.sin(angles), x[:, None] + 0 * angles], axis=-1)
        power = (np.abs(self.far_field(d.reshape(-1, 3))) ** 2).reshape(len(x), -1).sum(axis=1)
        return float(weights @ power) * math.pi / len(x)

    def inside(self, points: Any) -> Array:
        """Which points (n, 3) are within a body: from the solid angle under which they see it. Collective."""

        class Still:
            mesh, elements, wavenumber, comm, threads = self.mesh, self.elements, 0.0, self.comm, self.threads

        return np.asarray(layers_at(Still, None, np.ones(len(self.elements)), points) < -0.5)

    def section(self, plane: tuple[str, float], *, points: int = 201, margin: float = 0.75) -> NearField:
        """The total field in a plane ("y", 0.0), on a grid of `points` along its longer side, that is wider than the
        bodies by `margin` times their longest side. Collective; cost as of :meth:`field_at`.
        """
        return NearField(self, plane, points, margin)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the mesh with the density: .vtu, .vtk, .. Local. "real", "imaginary" and "magnitude", by triangle and,
        with linear elements, by vertex.
        """

        def parts(values: Array) -> dict[str, Array]:
            return {"real": values.real.copy(), "imaginary": values.imag.copy(), "magnitude": np.abs(values)}

        by_vertex = parts(self.density) if self.elements.linear else None
        of_triangles = parts(self.elements.on_triangles(self.density))
        Mesh(self.mesh.vertices, self.mesh.triangles).write(path, of_triangles, by_vertex)


class NearField(PlaneGrid):
    """The field around bodies in a plane, on a grid. Made by :meth:`Scattering.section`.

    Attributes
    ----------
    plane, across, u, v, places
        As of :class:`tacit.bem.Section`.
    field : numpy.ndarray of complex, (len(v), len(u))
        NaN within the bodies.
    """

    def __init__(self, wave: Scattering, plane: Any, points: int, margin: float) -> None:
        super().__init__(plane, points, margin, wave.mesh.vertices)
        found = np.where(wave.inside(self.places), np.nan, wave.field_at(self.places))
        self.field: Array = self._by_grid(found)

    def plot(self, path: str | os.PathLike[str], unit: str = "u") -> None:
        """Plots the real part and the magnitude of the field: .png, .pdf, .svg. Local."""
        from ..plot import bem as figures

        figures.near_field(self.u, self.v, self.field, path, self._names, self._title, unit)


def _checked(mesh: Any, wavenumber: Any, incident: Any, boundary: str, elements: str, coupling: Any) -> dict[str, Any]:
    """The arguments of :func:`scatter`. Local."""
    k = real_number(wavenumber, "wavenumber")
    if not 0 < k < math.inf:
        raise ValueError(f"wavenumber is {wavenumber!r}; a number above 0 is needed (2 pi over the wavelength)")
    needed = "a direction of three numbers, not all 0, is needed"
    d = three(incident, "incident", needed)
    if not d.any():
        raise ValueError(f"incident is {incident!r}; {needed}")
    choose("boundary", boundary, BOUNDARIES)
    choose("elements", elements, ("linear", "constant"))
    if boundary == "hard" and elements == "constant":
        raise ValueError("elements is 'constant'; on hard bodies the field is continuous, take 'linear'")
    closed(mesh, "scattering")
    return {"k": k, "incident": directions_of(d)[0], "eta": _coupling(coupling, k, mesh)}


def _longest_side(mesh: Mesh) -> float:
    """Of the boxes around the components. Local."""
    corners, of = mesh.vertices[mesh.triangles], mesh.component
    low, high = np.full((int(of.max()) + 1, 3), np.inf), np.full((int(of.max()) + 1, 3), -np.inf)
    np.minimum.at(low, of, corners.min(axis=1))
    np.maximum.at(high, of, corners.max(axis=1))
    return float((high - low).max())


def _coupling(given: Any, k: float, mesh: Mesh) -> complex:
    """eta; by default i / k for waves that are not longer than the largest body. Local."""
    if given is None:
        return 1j / max(k, 1 / _longest_side(mesh))
    if not isinstance(given, numbers.Complex) or not cmath.isfinite(given):
        raise ValueError(f"coupling is {given!r}; a finite number is needed")
    return complex(given)


def _form(boundary: str, eta: complex) -> tuple[dict[str, Any], complex]:
    """The operators of the equation, and what its right-hand side u + eta du/dn is multiplied by."""
    if boundary == "hard":
        return {"identity": 0.5, "double": -1.0, "hypersingular": eta}, 1.0
    if eta == 0:
        return {"single": 1.0}, 1.0
    return {"identity": 0.5, "adjoint": 1.0, "single": 1 / eta}, 1 / eta


def _doubts(operator: Any, boundary: str, per_wavelength: float) -> list[str]:
    """What makes the far field wrong, as sentences."""
    found = []
    if per_wavelength < FEW:
        found.append(
            f"{per_wavelength:.1f} edges in a wavelength; below {FEW:g} the wave is not resolved, take a finer mesh"
        )
    # The far field of a small hard body is of second order in k times its size, and the error of its density of first.
    reach, error = operator.wavenumber * _longest_side(operator.mesh), operator.A.report["measured_error"]
    if boundary == "hard" and error > 0.1 * reach:
        found.append(
            f"the wave number times the size of the largest body is {reach:.1e}; the error of the matrix, {error:.1e},"
            " is above a tenth of it and hides the far field of hard bodies, take a smaller tolerance"
        )
    return found


def scatter(
    mesh: Mesh,
    wavenumber: float,
    *,
    incident: Sequence[float] = (0.0, 0.0, 1.0),
    boundary: str = "hard",
    elements: str = "linear",
    coupling: complex | None = None,
    method: Any = "gmres",
    precond: Any = "jacobi",
    threads: int | None = None,
    comm: Any = None,
    solve: SolveOptions | None = None,
    raise_on_failure: bool = False,
    **options: Unpack[HmatrixOptions],
) -> Scattering:
    """The scattering of the plane wave exp(i k d . x) by closed bodies, as a boundary element problem of Helmholtz'
    equation outside of them. Waves go outwards as exp(i k r) / r: times are exp(-i omega t).

    On hard bodies du/dn = 0, and the field u on the surface satisfies, with K, V, W and K' of
    :func:`tacit.bem.boundary_operator`,

        (1/2 - K + eta W) u = u_inc + eta du_inc/dn;

    on soft ones u = 0, and its derivative q along the normal

        (V + eta (1/2 + K')) q = u_inc + eta du_inc/dn.

    With an eta that is not real these have one solution at every wave number (Burton and Miller 1971, doi
    10.1098/rspa.1971.0097); with eta = 0 they have none, or a wrong one, at the resonances of the inside. eta = i / k
    is good for large bodies; on a sphere of radius a much smaller than the wavelength, 2 i a is (R. Kress, Q. J. Mech.
    Appl. Math. 38, 323, 1985). Collective; the mesh is the same on every rank.

    Parameters
    ----------
    mesh : Mesh
        Closed, with normals outwards, in any unit u. Edges are to be shorter than a sixth of the wavelength 2 pi / k.
    wavenumber : float
        k > 0, in 1 / u.
    incident : (3,) floats
        The direction d that the wave travels in, of any length.
    boundary : str
        "hard" (du/dn = 0: sound at rigid walls) or "soft" (u = 0).
    elements : str
        "linear": continuous, a value at each vertex; on soft bodies also "constant".
    coupling : complex, optional
        eta. Default: i / k, at most i times the longest side of the box around the largest body.
    method, precond : as for :func:`tacit.solve`
    threads : int, optional
        Of this rank.
    comm : communicator, optional
    solve : dict, optional
        Options of :func:`tacit.solve`, such as {"max_iterations": 200}; the default of ``rtol`` is the error of the
        matrix.
    raise_on_failure : bool
    **options
        Those of :func:`tacit.hmatrix`, such as ``tolerance`` (1e-4).

    Returns
    -------
    Scattering

    Raises
    ------
    ValueError
        For a wave number that is not positive, an open surface or normals inwards, and invalid options; before any
        message is sent.

    Warns
    -----
    RuntimeWarning
        On rank 0, for fewer than six edges in a wavelength, and for hard bodies so small beside the wavelength that the
        error of the matrix hides their far field.

    Examples
    --------
    >>> import tacit
    >>> wave = tacit.bem.scatter(tacit.bem.sphere(6), 1.0, boundary="soft")
    >>> bool(abs(wave.cross_section / 10.626 - 1) < 0.05)  # by the series of spherical waves
    True
    """
    on = _comm.resolve(comm)
    given = agreed(on, lambda: _checked(mesh, wavenumber, incident, boundary, elements, coupling))
    k, d, eta = given["k"], given["incident"], given["eta"]
    shares, factor = _form(boundary, eta)
    how: dict[str, Any] = {"elements": elements, "wavenumber": k, "threads": threads, "comm": comm, **options}
    operator = boundary_operator(mesh, **shares, **how)

    def incoming(points: Array, normals: Array) -> Array:
        return np.asarray(np.exp(1j * k * (points @ d)) * (factor + factor * eta * 1j * k * (normals @ d)))

    begin = time.perf_counter()
    tested = tested_function(operator.mesh, operator.elements, incoming)
    density, result = operator.solve(
        tested, method=method, precond=precond, raise_on_failure=raise_on_failure, **(solve or {})
    )
    per_wavelength = 2 * math.pi / k / operator.mesh.surface["longest_edge"]
    notes = list(result.warnings)
    for text in _doubts(operator, boundary, per_wavelength):
        notes.append(text)
        if on.rank == 0:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
    names = ("converged", "reason", "advice", "method", "residual_norm", "history", "counts")
    facts = {name: getattr(result, name) for name in names} | {"precond": result.precond or "none"}
    facts |= {"_iterations": result.iterations, "warnings": notes, "boundary": boundary, "incident": d, "coupling": eta}
    facts |= {"elements_per_wavelength": per_wavelength, "result": result}
    facts["seconds"] = {"setup": operator.seconds, "solve": on.all_max_real(time.perf_counter() - begin)}
    return Scattering(operator, density, facts)
