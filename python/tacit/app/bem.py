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

from typing import Any

from .assembly import assemble
from .boundary import BoundaryOperator, Harmonic, boundary_operator, laplace
from .capacitance import EPS0, UNITS, Capacitance
from .charges import Charges
from .forces import Forces
from .meshes import Mesh, bodies, body, cube, ellipsoid, read, ring_sphere, sphere, sphere_pair
from .refinement import Settled, settled_capacitance
from .scatter import NearField, Scattering, scatter
from .sections import Section, line
from .system import System, check_on_gpus, of_solves

__all__ = [
    "EPS0", "UNITS", "BoundaryOperator", "Capacitance", "Charges", "Forces", "Harmonic", "Mesh", "NearField",
    "Scattering", "Section", "Settled", "System", "assemble", "bodies", "body", "boundary_operator", "cube",
    "ellipsoid", "laplace", "line", "read", "ring_sphere", "scatter", "settled_capacitance", "solve", "sphere",
    "sphere_pair"
]  # fmt: skip


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
    solving, assembling = of_solves(options)
    if assembling.get("device", "host") != "host":
        check_on_gpus(solving.get("method", "bicgstab"), solving.get("precond", "jacobi"))
    return assemble(mesh, **assembling).solve(potential, **solving)
