"""Meshes of triangles in space: bodies, files, and whether a surface is fit to be computed on. See :mod:`tacit.bem`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from .._support import Array, as_array, choose, core, real_number, whole_number
from . import mesh_by_meshio, mesh_fastcap, mesh_off, mesh_ply, mesh_stl, mesh_vtk, mesh_vtp
from .mesh_by_meshio import meshio_module
from .mesh_faces import Faces, order_of

__all__ = ["Mesh", "bodies", "body", "cube", "ellipsoid", "read", "ring_sphere", "sphere", "sphere_pair"]

_FEW = 8  # triangles of a component that may be a piece of a torn surface
_IN_C = (".pbf", ".pbs", ".obj")
_READERS: dict[str, Callable[[Path], Faces | None]] = {
    ".ply": mesh_ply.read, ".off": mesh_off.read, ".stl": mesh_stl.read, ".vtk": mesh_vtk.read,
    ".vtp": mesh_vtp.read, ".lst": mesh_fastcap.read_list, ".qui": mesh_fastcap.read_surface
}  # fmt: skip


def core_function(name: str) -> Any:
    """A function of the compiled part, by name; EnvironmentFailure in a build without applications."""
    start, _, end = name.rpartition("_")
    return core(start, end)


class Mesh:
    """Triangles in space.

    Parameters
    ----------
    vertices : array_like, (n, 3)
    triangles : array_like of int, (m, 3)
        Vertex numbers, from 0.
    cell_data : dict, optional
        Arrays with one value a triangle: "potential", "gmsh:physical", ..
    names : dict, optional
        What whole numbers of cell data are named: {"gmsh:physical": {1: "plate"}}.

    Examples
    --------
    >>> import tacit
    >>> mesh = tacit.bem.cube(4)
    >>> mesh, mesh.surface["closed"]
    (<Mesh of 192 triangles, 98 vertices>, True)
    """

    def __init__(
        self,
        vertices: Any,
        triangles: Any,
        cell_data: dict[str, Any] | None = None,
        names: dict[str, dict[int, str]] | None = None,
    ) -> None:
        v, t = as_array(vertices, "vertices"), as_array(triangles, "triangles")
        if v.ndim != 2 or v.shape[1] != 3 or v.dtype.kind == "c":
            raise ValueError(f"vertices have shape {v.shape}; real numbers of shape (n, 3) are needed")
        if t.ndim != 2 or t.shape[1] != 3 or t.dtype.kind not in "iu":
            raise ValueError(f"triangles have shape {t.shape} of {t.dtype}; whole numbers of shape (m, 3) are needed")
        if len(t) == 0:
            raise ValueError("a mesh without triangles")
        if t.min() < 0 or t.max() >= len(v):
            raise ValueError(f"triangles name vertices {t.min()} to {t.max()}; there are 0 to {len(v) - 1}")
        self.vertices: Array = np.ascontiguousarray(v, dtype=np.float64)
        self.triangles: Array = np.ascontiguousarray(t, dtype=np.int32)
        self.cell_data: dict[str, Array] = {}
        for name, values in (cell_data or {}).items():
            array = np.asarray(values)
            if len(array) != len(t):
                raise ValueError(f"cell data {name!r} has {len(array)} values for {len(t)} triangles")
            self.cell_data[name] = array
        self.names = {name: dict(of) for name, of in (names or {}).items() if name in self.cell_data}
        self._surface: tuple[dict[str, Any], Array] | None = None
        self._notes: list[str] = []  # of its file
        self._media_known = False  # cell data have the media and conductors, whatever lies within what
        self._onto: Callable[[Array], Array] | None = None  # moves points near the body to its surface

    def __len__(self) -> int:
        return len(self.triangles)

    def __repr__(self) -> str:
        return f"<Mesh of {len(self)} triangles, {len(self.vertices)} vertices>"

    @property
    def centroids(self) -> Array:
        return np.asarray(self.vertices[self.triangles].mean(axis=1))

    @property
    def normals(self) -> Array:
        """Half the cross product of two edges of each triangle, (m, 3): normals whose lengths are the areas."""
        p = self.vertices[self.triangles]
        return np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]) / 2

    @property
    def areas(self) -> Array:
        return np.asarray(np.linalg.norm(self.normals, axis=1))

    def _looked_at(self) -> tuple[dict[str, Any], Array]:
        if self._surface is None:
            self._surface = core_function("bem_inspect")(self.vertices, self.triangles)
        return self._surface

    @property
    def surface(self) -> dict[str, Any]:
        """Properties of the mesh: closed, oriented, components, area, volume, least_area, most_area, longest_edge, low
        and high (corners of the bounding box). Possible defects: border_edges, crowded_edges (of more than two
        triangles), flipped_edges, flat_triangles, repeated_triangles, repeated_vertices, unused_vertices, and the
        first flat or repeated triangle and repeated vertex. InputError for a coordinate that is not finite.
        """
        return self._looked_at()[0]

    @property
    def component(self) -> Array:
        """The connected component of each triangle, from 0. Triangles with a common vertex, or vertices at the same
        point, are connected.
        """
        return self._looked_at()[1]

    def mended(self, distance: float = 0.0) -> Mesh:
        """A copy in which vertices within `distance` of each other are merged (0: those at one point), flat and
        repeated triangles and unused vertices are removed, and neighbours have the same orientation, outwards where a
        component is closed.
        """
        made = core_function("bem_mend")(self.vertices, self.triangles, float(distance))
        vertices, triangles, kept = made[:3]
        mesh = Mesh(vertices, triangles, {name: values[kept] for name, values in self.cell_data.items()}, self.names)
        if "permittivity_inside" in mesh.cell_data:  # of which side is which the normal tells
            inside, outside = mesh.cell_data["permittivity_inside"], mesh.cell_data["permittivity"]
            turned = ((mesh.normals * self.normals[kept]).sum(axis=1) < 0) & ~np.isnan(inside)
            inside[turned], outside[turned] = outside[turned], inside[turned]
        mesh._notes = list(self._notes)
        return mesh

    def faults(self) -> str:
        """Defects that make the system of equations singular, as a sentence; empty if there are none."""
        s, found = self.surface, []
        if s["flat_triangles"]:
            found.append(f"{s['flat_triangles']} triangles without area (the first is {s['first_flat_triangle']})")
        if s["repeated_triangles"]:
            found.append(
                f"{s['repeated_triangles']} triangles that repeat others (the first is {s['first_repeated_triangle']})"
            )
        return " and ".join(found)

    def notes(self) -> list[str]:
        """What was read from a file otherwise than one may expect (curved cells, bent faces), and possible defects that
        do not affect the single-layer potential, as sentences.
        """
        s, found = self.surface, list(self._notes)
        if s["repeated_vertices"]:
            found.append(f"{s['repeated_vertices']} vertices stand at the place of others; they count as one")
        if s["border_edges"]:
            found.append(f"the surface is open: {s['border_edges']} edges belong to one triangle only")
        if s["crowded_edges"]:
            found.append(f"{s['crowded_edges']} edges belong to more than two triangles")
        if s["flipped_edges"]:
            found.append(f"neighbours at {s['flipped_edges']} edges go round in different senses (normals differ)")
        if s["unused_vertices"]:
            found.append(f"{s['unused_vertices']} vertices belong to no triangle")
        return found + self._scattered()

    def _scattered(self) -> list[str]:
        """A sentence on components of a few triangles that are one where vertices very near each other are merged."""
        s = self.surface
        if s["components"] < 10 or np.median(np.bincount(self.component)) > _FEW:
            return []
        side = float(np.linalg.norm(np.subtract(s["high"], s["low"])))
        for share in (1e-12, 1e-9, 1e-6):
            distance = float(f"{share * side:.1g}")
            left = self.mended(distance).surface["components"]
            if left <= s["components"] / 2:
                return [
                    f"{s['components']} components, most of at most {_FEW} triangles; {left} where vertices within"
                    f" {distance:g} of each other are merged: mended({distance:g}), --mend --merge {distance:g}"
                ]
        return []

    def copies(self, counts: Sequence[int], *, gap: float | None = None, up: str = "z") -> Mesh:
        """counts[0] x counts[1] copies on a grid across the axis `up`, `gap` between their boxes (default: a tenth of
        the box's longer side). Cell data are repeated; those with names get further numbers and names in each copy
        ("ring", "ring.1", ..), so that conductors are its own.
        """
        choose("up", up, ("x", "y", "z"))
        if len(counts) != 2 or any(whole_number(c, "a count of copies") < 1 for c in counts):
            raise ValueError(f"copies are {counts!r}; two positive numbers are needed")
        across = [axis for axis in range(3) if axis != "xyz".index(up)]
        side = np.subtract(self.surface["high"], self.surface["low"])
        between = 0.1 * max(side[across]) if gap is None else real_number(gap, "gap")
        if not between >= 0:
            raise ValueError(f"gap is {gap}; bodies must not meet")
        number, pitch = [1, 1, 1], [0.0, 0.0, 0.0]
        for axis, count in zip(across, counts, strict=True):
            number[axis], pitch[axis] = int(count), float(side[axis] + between)
        vertices, triangles = core_function("bem_copies")(self.vertices, self.triangles, number, pitch)
        many = int(np.prod(number))
        data = {k: np.concatenate([v] * many) for k, v in self.cell_data.items()}
        names = {k: dict(of) for k, of in self.names.items()}
        for k, of in self.names.items():
            step = int(max(0, self.cell_data[k].max(), *of)) + 1
            copy = np.repeat(np.arange(many), len(self))
            data[k] = np.where(data[k] < 0, data[k], data[k] + step * copy)
            names[k] |= {value + step * c: f"{name}.{c}" for c in range(1, many) for value, name in of.items()}
        return Mesh(vertices, triangles, data, names)

    def joined(self, other: Mesh) -> Mesh:
        """The triangles of this mesh and then those of the other, without cell data."""
        triangles = np.concatenate([self.triangles, other.triangles + np.int32(len(self.vertices))])
        return Mesh(np.concatenate([self.vertices, other.vertices]), triangles)

    def divided(self, chosen: Any = True) -> Mesh:
        """A mesh in which chosen triangles (a mask; all) are divided into four by the middles of their edges; those of
        a triangle stay together, in its place. Neighbours that are not chosen keep their edges.
        """
        mask = np.broadcast_to(np.asarray(chosen, dtype=bool), (len(self),))
        t = self.triangles[mask]
        edges = np.sort(t[:, [[0, 1], [1, 2], [2, 0]]], axis=2).reshape(-1, 2)
        ends, middle = np.unique(edges, axis=0, return_inverse=True)
        added = self.vertices[ends].mean(axis=1)
        if self._onto is not None:
            added = self._onto(added)
        a, b, c = t.T
        ab, bc, ca = (len(self.vertices) + middle.reshape(-1, 3)).T
        four = np.stack(
            [np.stack(one, axis=1) for one in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))], axis=1
        )
        count = np.where(mask, 4, 1)
        triangles = np.repeat(self.triangles, count, axis=0)
        triangles[np.repeat(mask, count)] = four.reshape(-1, 3)
        data = {name: np.repeat(values, count, axis=0) for name, values in self.cell_data.items()}
        return Mesh(np.concatenate([self.vertices, added]), triangles, data, self.names)

    def moved(self, by: Sequence[float]) -> Mesh:
        """The same mesh, its vertices moved by a vector of three numbers."""
        return Mesh(self.vertices + np.asarray(by, dtype=np.float64), self.triangles, self.cell_data, self.names)

    def write(
        self,
        path: str | os.PathLike[str],
        cell_data: dict[str, Any] | None = None,
        point_data: dict[str, Any] | None = None,
    ) -> None:
        """Writes the mesh with values by triangle and by vertex, in the format that the suffix says (.vtu, .vtk, .ply,
        .stl, ..). ValueError for a suffix of which meshio writes no format.
        """
        from .. import report

        meshio = meshio_module()
        how = mesh_by_meshio.how_to_write(Path(path))
        data = {k: [np.asarray(v)] for k, v in (self.cell_data | (cell_data or {})).items()}
        made = meshio.Mesh(self.vertices, [("triangle", self.triangles)], point_data, data)
        with report.replacing(Path(path)) as temporary:
            made.write(temporary, **how)


def read(path: str | os.PathLike[str]) -> Mesh:
    """Reads the triangles of a mesh file: HACApK's .pbf and .pbs, Wavefront .obj, .stl, .ply, .off, .vtk, .vtp,
    FastCap's .lst and .qui, and what meshio reads (gmsh .msh, .vtu, .inp, ..). The suffix may be in capitals. Lines,
    points and volumes are ignored.

    Faces of more than three corners are divided into triangles with the same corners, in the plane that fits them
    best: convex ones from their first corner, others by cutting off ears. Curved cells are divided into flat ones
    through all of their nodes. ``cell_data`` has "potential" from a .pbf, and the data of cells in the file
    ("gmsh:physical", where 0 is no group, ..), one value a triangle.

    Raises
    ------
    tacit.InputError
        With the name of the file, and the line or byte where there is one, if it is not a mesh of triangles or
        polygons, is damaged, or has a face that crosses itself.
    FileNotFoundError

    Warns
    -----
    RuntimeWarning
        When curved cells were divided; when a face is bent by more than a tenth of its size, so that its
        division into triangles is one of several surfaces. :meth:`Mesh.notes` has the same sentences.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(2, "no such file", str(path))
    if path.is_dir():
        raise _core.InputError(f"{path}: a folder; the file of a mesh is needed")
    if path.stat().st_size == 0:
        raise _core.InputError(f"{path}: the file is empty")
    suffix = path.suffix.lower()
    if suffix in _IN_C:
        vertices, triangles, potential, notes = core_function("bem_read")(str(path))
        if len(triangles) == 0:
            raise _core.InputError(f"{path}: no triangles")
        mesh = Mesh(vertices, triangles, {"potential": potential} if len(potential) else None)
        mesh._notes = list(notes)
    else:
        faces = _READERS[suffix](path) if suffix in _READERS else None
        mesh = _divided(path, mesh_by_meshio.read(path, (*_IN_C, *_READERS)) if faces is None else faces)
    for note in mesh._notes:
        warnings.warn(f"{path}: {note}", RuntimeWarning, stacklevel=2)
    return mesh


def _divided(path: Path, faces: Faces) -> Mesh:
    """The mesh of the faces of a file."""
    if len(faces) == 0:
        kinds = ", ".join(faces.others)
        hint = "; write the surface of the body, as triangles" if "tetra" in kinds or "hexa" in kinds else ""
        raise _core.InputError(
            f"{path}: no triangles" + (f", only {kinds}{hint}" if kinds else ": the file has no cells")
        )

    def face_at(corner: Any) -> str:
        return faces.name_of(int(np.searchsorted(faces.starts, corner, "right")) - 1)

    wrong = np.flatnonzero((faces.corners < 0) | (faces.corners >= len(faces.vertices)))
    if len(wrong):
        vertex = faces.corners[wrong[0]]
        raise _core.InputError(f"{path}: {face_at(wrong[0])} has vertex {vertex} of {len(faces.vertices)}")
    endless = np.flatnonzero(~np.isfinite(faces.vertices).all(axis=1))
    if len(endless):
        corners = np.flatnonzero(faces.corners == endless[0])
        where = f", a corner of {face_at(corners[0])}," if len(corners) else ""
        place = ", ".join(f"{x:g}" for x in faces.vertices[endless[0]])
        raise _core.InputError(f"{path}: vertex {endless[0]}{where} is at {place}; finite coordinates are needed")
    few = np.flatnonzero(np.diff(faces.starts) < 3)
    if len(few):
        face = int(few[0])
        count = faces.starts[face + 1] - faces.starts[face]
        raise _core.InputError(f"{path}: {faces.name_of(face)} has {count} corners; at least 3 are needed")
    vertices = np.ascontiguousarray(faces.vertices, np.float64)
    triangles, face, crossing, bent = core_function("bem_triangulate")(
        vertices, faces.starts, faces.corners.astype(np.int32), faces.name_of
    )
    if crossing:
        raise _core.InputError(f"{path}: {crossing}")
    order = order_of(faces, face)
    if order is not None:
        triangles, face = triangles[order], face[order]
    mesh = Mesh(vertices, triangles, {name: values[face] for name, values in faces.cell_data.items()}, faces.names)
    mesh._notes = faces.notes + ([bent] if bent else [])
    return mesh


def sphere(cuts: int, radius: float = 1.0) -> Mesh:
    """The icosahedron with every edge cut in `cuts`, on a sphere around 0: 20 cuts^2 nearly equal triangles."""
    made = Mesh(*core_function("bem_geodesic_sphere")(whole_number(cuts, "cuts"), real_number(radius, "radius")))
    return _round(made, (radius, radius, radius))


def _round(mesh: Mesh, axes: Sequence[float]) -> Mesh:
    """The mesh of an ellipsoid around 0, for new points on it."""
    half = np.asarray(axes, dtype=np.float64)
    mesh._onto = lambda points: points / np.linalg.norm(points / half, axis=1, keepdims=True)
    return mesh


def ring_sphere(wedges: int, rings: int, radius: float = 1.0) -> Mesh:
    """A sphere divided along circles of latitude, as in HACApK's inputs: 2 wedges rings^2 triangles."""
    sizes = whole_number(wedges, "wedges"), whole_number(rings, "rings"), real_number(radius, "radius")
    return _round(Mesh(*core_function("bem_ring_sphere")(*sizes)), (radius, radius, radius))


def sphere_pair(cuts: int, radius: float = 0.25, distance: float = 1.0) -> Mesh:
    """Two spheres whose centres are `distance` apart on the z axis, 40 cuts^2 triangles."""
    if not real_number(distance, "distance") > 2 * real_number(radius, "radius"):
        raise ValueError(f"spheres of radius {radius} whose centres are {distance} apart meet")
    one = sphere(cuts, radius)
    made = one.moved((0, 0, -distance / 2)).joined(one.moved((0, 0, distance / 2)))

    def onto(points: Array) -> Array:
        centres = np.where(points[:, 2:] < 0, -1, 1) * np.array([0, 0, distance / 2])
        arms = points - centres
        return np.asarray(centres + radius * arms / np.linalg.norm(arms, axis=1, keepdims=True))

    made._onto = onto
    return made


def ellipsoid(cuts: int, a: float = 1.0, b: float = 1.0, c: float = 1.0) -> Mesh:
    """The sphere of :func:`sphere` stretched to the half axes a, b, c along x, y, z."""
    axes = [real_number(v, "a half axis") for v in (a, b, c)]
    return _round(Mesh(*core_function("bem_ellipsoid")(whole_number(cuts, "cuts"), axes)), axes)


def cube(cuts: int, side: float = 1.0, grading: float = 1.0) -> Mesh:
    """A cube around 0, 12 cuts^2 triangles; with a grading above 1 they are smaller towards edges and corners."""
    sizes = whole_number(cuts, "cuts"), real_number(side, "side"), real_number(grading, "grading")
    return Mesh(*core_function("bem_cube")(*sizes))


_BODIES = {
    "sphere": (sphere, ("cuts", "radius")),
    "ring-sphere": (ring_sphere, ("wedges", "rings", "radius")),
    "sphere-pair": (sphere_pair, ("cuts", "radius", "distance")),
    "ellipsoid": (ellipsoid, ("cuts", "a", "b", "c")),
    "cube": (cube, ("cuts", "side", "grading")),
}


def bodies() -> list[str]:
    """The names that :func:`body` knows."""
    return list(_BODIES)


def body(text: str) -> Mesh:
    """A body by its name: "sphere:20", "sphere:20,radius=2", "ring-sphere:13,20", "sphere-pair:20,radius=1,distance=3",
    "ellipsoid:20,a=2", "cube:20,grading=2". Numbers without a name go by their order.
    """
    name, _, rest = text.partition(":")
    make, known = _BODIES[choose("body", name, tuple(_BODIES))]
    given: dict[str, float] = {}
    for place, item in enumerate(part for part in rest.split(",") if part):
        key, equals, value = item.partition("=") if "=" in item else ("", "", item)
        if not equals and place >= len(known):
            raise ValueError(f'"{text}": {name} has {len(known)} numbers: {", ".join(known)}')
        key = choose(f"number of {name}", key.strip(), known) if equals else known[place]
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f'"{text}": {key} is "{value}"; a number is needed') from None
        given[key] = int(number) if number.is_integer() and key in ("cuts", "wedges", "rings") else number
    if known[0] not in given:
        raise ValueError(f'"{text}": {name} needs {known[0]}, as in "{name}:20"')
    made: Mesh = make(**given)  # type: ignore[operator]
    return made
