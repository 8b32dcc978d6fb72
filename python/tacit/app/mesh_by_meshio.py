"""Reads mesh files by meshio: gmsh's .msh, .vtu, .inp, .bdf, .vol, .xdmf and others."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._core import Error, InputError
from .._support import Array
from . import mesh_counts, mesh_curved, mesh_guard
from .mesh_faces import Faces, starts_of
from .mesh_vtk import faces_of

# Cells that are surfaces, by meshio's names: the corners of flat ones in their order, and the number of those of curved
# ones.
_FLAT = {"triangle": [0, 1, 2], "quad": [0, 1, 2, 3], "pixel": [0, 1, 3, 2]}
_CURVED = {"triangle": 3, "quad": 4, "VTK_LAGRANGE_TRIANGLE": 3, "VTK_LAGRANGE_QUADRILATERAL": 4}


def meshio_module() -> Any:
    try:
        import meshio  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError("this kind of mesh file needs meshio: pip install meshio") from error
    return meshio


def how_to_write(path: Path) -> dict[str, Any]:
    """Options of meshio for writing a file of this name. ValueError for an unknown suffix."""
    known, suffix = meshio_module().extension_to_filetypes, path.suffix.lower()
    if suffix not in known:
        raise ValueError(
            f"{path}: meshes are not written as {suffix or 'files without a suffix'}; .vtu, .vtk, .xdmf, .ply, .stl and"
            " others of meshio are"
        )
    # Else numbers are in a second file, which has the name of a temporary one.
    return {"data_format": "XML"} if "xdmf" in known[suffix] else {}


def read(path: Path, own: tuple[str, ...]) -> Faces:
    """The faces of a file. InputError with what meshio says; `own` are the suffixes that are read without it."""
    meshio = meshio_module()
    mesh_counts.check(path)
    guard = mesh_guard.Guard(path)
    said = io.StringIO()
    parts: list[_Part] = []
    several: list[int] = []
    replaced: mesh_guard.Replaced = [
        ("meshio.gmsh._gmsh41", "_read_entities", lambda old: _with_a_group(old, several)),
        ("meshio.vtu._vtu", "_organize_cells", _taking(parts)),
    ]
    try:
        # meshio prints its messages to the terminal, and exits the program when it cannot read a file.
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = mesh_guard.read(meshio, guard, replaced)
    except mesh_guard.Refused as error:
        raise InputError(f"{path}: {guard.place + ': ' if guard.place else ''}{error}") from None
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split()) if str(error) not in ("", "1") else " ".join(said.getvalue().split())
        known = sorted({*own, *meshio.extension_to_filetypes})
        suffixes = "".join(path.suffixes[-2:]).lower(), path.suffix.lower()
        unknown = not any(suffix in meshio.extension_to_filetypes for suffix in suffixes)
        raise InputError(
            f"{path}: not read by meshio: {text or type(error).__name__}"
            f"{'; read up to ' + guard.place if guard.place else ''}"
            f"{'; known suffixes: ' + ' '.join(known) if unknown else ''}"
        ) from None
    try:
        points = np.asarray(found.points, dtype=np.float64)
        if points.ndim == 2 and points.shape[1] == 2:
            points = np.column_stack([points, np.zeros(len(points))])
        faces = _of_parts(points, parts, path) if parts else _faces(points, found, path)
        if several:
            faces.notes.append(f"{len(several)} surfaces are in several physical groups; the first of each is used")
        return faces
    except (ValueError, TypeError, LookupError, OverflowError) as error:  # inconsistent files
        if isinstance(error, Error):
            raise
        raise InputError(f"{path}: {error}") from None


def _faces(points: Array, found: Any, path: Path) -> Faces:
    """The surface cells of a mesh that meshio has read."""
    corners, sizes, curved, made = list[Array](), list[Array](), 0, 0
    blocks, owners = list[int](), list[Array]()
    for number, cells in enumerate(found.cells):
        data = np.asarray(cells.data)
        owner = np.arange(len(data))
        name = re.sub(r"\d+$", "", cells.type)
        if cells.type in _FLAT:
            data = data[:, _FLAT[cells.type]]
        elif name in _CURVED:
            pieces = mesh_curved.pieces(_CURVED[name], data.shape[1], path)
            curved, made = curved + len(data), made + len(data) * len(pieces)
            data, owner = data[:, pieces].reshape(-1, pieces.shape[1]), np.repeat(owner, len(pieces))
        elif name != "polygon":
            continue
        corners.append(data.reshape(-1))
        sizes.append(np.full(len(data), data.shape[1]))
        blocks.append(number)
        owners.append(owner)
    if not sum(map(len, sizes)):
        return Faces(points, np.zeros(1, np.int64), np.zeros(0, np.int64), others=sorted({c.type for c in found.cells}))
    cell_data = {
        name: np.concatenate([np.asarray(values[b])[o] for b, o in zip(blocks, owners, strict=True)])
        for name, values in found.cell_data.items()
        if all(np.ndim(values[b]) == 1 for b in blocks)
    }
    starts, block = starts_of(np.concatenate(sizes)), np.repeat(blocks, [len(s) for s in sizes])
    notes = [mesh_curved.note(curved, made)] if curved else []
    names = _names_of_groups(path) if "gmsh:physical" in cell_data else {}
    return Faces(points, starts, np.concatenate(corners), cell_data, notes=notes, block=block, names=names)


# --- what meshio 5.3 does not read, or leaves out


def _names_of_groups(path: Path) -> dict[str, dict[int, str]]:
    """The names of gmsh's physical surfaces. meshio has one group for a name, of whatever dimension comes last."""
    section = re.search(rb"^\$PhysicalNames\s(.*?)^\$EndPhysicalNames", path.read_bytes(), re.MULTILINE | re.DOTALL)
    found = re.findall(rb'^\s*2\s+(\d+)\s+"(.*)"', section[1], re.MULTILINE) if section else []
    named = {int(number): name.decode("utf-8", "replace") for number, name in found}
    return {"gmsh:physical": named} if named else {}


class _Part:
    """The cells of one piece of a .vtu file."""

    def __init__(self, shift: int, cells: dict[str, Array], data: dict[str, Array]) -> None:
        ends = np.asarray(cells["offsets"]).ravel().astype(np.int64)
        self.starts = np.concatenate([[0], ends])
        self.nodes = np.asarray(cells["connectivity"]).ravel().astype(np.int64)
        if len(self.nodes):
            self.nodes = np.where(self.nodes < 0, self.nodes, self.nodes + shift)
        self.types = np.asarray(cells["types"]).ravel().astype(np.int64)
        self.data = {name: np.asarray(values) for name, values in data.items()}


def _taking(parts: list[_Part]) -> Any:
    """Takes the cells of all pieces of a .vtu file as they are: meshio returns those of the last piece, without strips
    of triangles and without the data of polygons.
    """

    def organised(shifts: Any, cells: Any, data: Any) -> tuple[list[Any], dict[str, Any]]:
        parts.extend(_Part(int(s), c, d) for s, c, d in zip(shifts, cells, data, strict=True))
        return [], {}

    return lambda old: organised


def _of_parts(points: Array, parts: list[_Part], path: Path) -> Faces:
    shifts = np.cumsum([0] + [len(p.nodes) for p in parts])
    starts = np.concatenate([[0], *(p.starts[1:] + s for p, s in zip(parts, shifts, strict=False))])
    names = [n for n in parts[0].data if all(n in p.data and p.data[n].ndim == 1 for p in parts)]
    data = {n: np.concatenate([p.data[n] for p in parts]) for n in names}
    nodes, types = (np.concatenate([getattr(p, what) for p in parts]) for what in ("nodes", "types"))
    return faces_of(points, nodes, starts, types, data, path)


def _with_a_group(old: Any, several: list[int]) -> Any:
    """Appends to `several` the numbers of surfaces in several physical groups, of which meshio uses the first. Gives
    entities without a physical group the group 0, as in version 2 of the format, where others have one: meshio
    refuses such files (gmsh writes them with Mesh.SaveAll).
    """

    def entities(*words: Any) -> Any:
        groups, bounding = old(*words)
        several.extend(int(tag) for tag, group in groups[2].items() if len(group) > 1)
        if any(group for of_dimension in groups for group in of_dimension.values()):
            for of_dimension in groups:
                of_dimension.update({tag: [0] for tag, group in of_dimension.items() if not group})
        return groups, bounding

    return entities
