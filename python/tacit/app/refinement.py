"""Capacitances on meshes that are refined where the charge density varies, until they settle."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from .._support import Array, real_number, whole_number
from .assembly import assemble
from .capacitance import Capacitance
from .conductors import conductors_of
from .meshes import Mesh
from .system import System, of_solves

_SHARE = 0.7  # of the sum of all indicators: triangles with the largest ones are refined until they have it
_WAIT = (
    2  # steps after which every triangle is refined, so that none is forgotten whose neighbours are as wrong as it is
)
#: Options that are of the first mesh: the corners of small triangles on the edges of larger ones leave holes in
#: surfaces that were closed, so that what lies within them is not seen any more.
_OF_MEDIA = ("permittivity", "media", "dielectrics", "join")
_LABEL = "conductor of the first mesh"


class Step(NamedTuple):
    """One mesh."""

    triangles: int
    farads: Array  #: (k, k)
    change: float  #: in the Frobenius norm from the step before, relative; NaN in the first


class Settled(NamedTuple):
    """A capacitance matrix, and how far it is from that of finer and finer meshes."""

    capacitance: Capacitance  #: on the last mesh
    extrapolated: Array  #: (k, k), in F: the limit of the steps, by the ratio of the last two changes
    error: float  #: estimate of the relative error of `capacitance`: its distance from `extrapolated`
    settled: bool  #: whether the error is as small as was asked for
    steps: list[Step]
    system: System  #: on the last mesh


def indicators(solutions: list[Any]) -> Array:
    """For each triangle its part in the error of the charge, the largest over several solutions: on conductors its
    charge times the error of the potential at the centroids of the outer three of four triangles in it, on interfaces
    the charge by which it differs from the three nearest ones. Collective; O(n^2).
    """
    from scipy.spatial import cKDTree

    system = solutions[0].system
    mesh, held = system.mesh, system.conductor >= 0
    corners = mesh.vertices[mesh.triangles]
    places = corners / 2 + mesh.centroids[:, None] / 2
    near = cKDTree(mesh.centroids).query(mesh.centroids, k=min(4, len(mesh)))[1][:, 1:] if not held.all() else None
    found = np.zeros(len(mesh))
    for one in solutions:
        charge, size = np.abs(one.density) * mesh.areas, float(np.abs(one.density * mesh.areas).sum())
        wrong = np.zeros(len(mesh))
        given = one.potential[system.conductor[held]]
        there = one.potential_at(places[held].reshape(-1, 3)).reshape(-1, 3)
        wrong[held] = charge[held] * np.abs(there - given[:, None]).mean(axis=1)
        if near is not None:
            jump = np.abs(one.density[near] - one.density[:, None]).max(axis=1)
            wrong[~held] = (jump * mesh.areas)[~held]
        found = np.maximum(found, wrong / (size if size > 0 else 1.0))
    return found


def _marked(indicator: Array) -> Array:
    """The triangles with the largest indicators, which have _SHARE of the sum."""
    order = np.argsort(-indicator, kind="stable")
    count = int(np.searchsorted(np.cumsum(indicator[order]), _SHARE * indicator.sum())) + 1
    chosen = np.zeros(len(indicator), bool)
    chosen[order[:count]] = True
    return chosen


def _estimate(steps: list[Step]) -> tuple[Array, float]:
    """The limit of the steps, whose changes become smaller by one ratio each, the larger of the last two; and the
    relative distance of the last matrix from it. Of ratios above 0.8 or below 0.2, which say little, these ends are
    taken.
    """
    last = steps[-1].farads
    if len(steps) < 4:  # two ratios: the first one may come from meshes that do not show a gap
        return last, math.inf
    changes = [steps[k].farads - steps[k - 1].farads for k in range(-3, 0)]
    sizes = [float(np.linalg.norm(change)) for change in changes]
    ratios = [new / old if old > 0 else 0.2 for old, new in itertools.pairwise(sizes)]
    ratio, after = min(0.8, max(0.2, *ratios)), changes[-1]
    more = after * ratio / (1 - ratio)
    return last + more, float(np.linalg.norm(more) / np.linalg.norm(last + more))


def _with_media(system: Any) -> Mesh:
    """The mesh of a system with its conductors and permittivities as cell data."""
    mesh = system.mesh
    media = {_LABEL: system.conductor, "permittivity": system.permittivity, "permittivity_inside": system.inside}
    return Mesh(mesh.vertices, mesh.triangles, mesh.cell_data | media, {_LABEL: dict(enumerate(system.names))})


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
    goal, largest = real_number(error, "error"), whole_number(most_triangles, "most_triangles")
    if not 0 < goal < 1:
        raise ValueError(f"error is {error!r}; a number between 0 and 1 is needed")
    solve, options = of_solves(options)
    numbers, names = conductors_of(options.pop("conductors", "auto"), mesh)
    data, known = mesh.cell_data | {_LABEL: numbers}, {_LABEL: dict(enumerate(names))}
    onto, mesh = mesh._onto, Mesh(mesh.vertices, mesh.triangles, data, known)
    mesh._onto = onto
    options = {"tolerance": min(1e-4, 0.05 * goal)} | options
    steps: list[Step] = []
    age = np.zeros(len(mesh), int)  # since a triangle was divided
    while True:
        system = assemble(mesh, conductors=_LABEL, **options)
        if not steps:
            options = {name: value for name, value in options.items() if name not in _OF_MEDIA}
            notes = system.notes
        system.notes = notes
        solutions: list[Any] = []
        found = system.capacitance(kept=solutions, **solve)
        change = math.nan
        if steps:
            size = float(np.linalg.norm(found.farads))
            change = float(np.linalg.norm(found.farads - steps[-1].farads)) / size
        steps.append(Step(len(mesh), found.farads, change))
        limit, distance = _estimate(steps)
        enough = distance <= goal
        # A round body is refined everywhere: the charges do not show how far it is from its mesh.
        chosen = np.ones(len(mesh), bool)
        if onto is None and found.converged and not enough:
            chosen = _marked(indicators(solutions)) | (age >= _WAIT)
        if enough or not found.converged or len(mesh) + 3 * int(chosen.sum()) > largest:
            return Settled(found, limit, distance, enough, steps, system)
        mesh = _with_media(system)
        mesh._onto = onto
        mesh = mesh.divided(chosen)
        mesh._onto, mesh._media_known = onto, True
        age = np.repeat(np.where(chosen, 0, age + 1), np.where(chosen, 4, 1))
