"""Surface cells of VTK's formats, and a reader of its legacy format (.vtk): unstructured grids and polygonal data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from .._core import InputError
from .._support import Array
from . import mesh_curved
from .mesh_faces import Faces, numbers_in, ragged, starts_of, too_few

# VTK's numbers of cell types (vtkCellType.h). Of a curved cell the corners come first; those of control points (76, 77)
# do not pass through their nodes.
_STRIP, _POLYGON, _PIXEL, _QUADRATIC_POLYGON = 6, 7, 8, 36
_FLAT = {5: 3, 9: 4}
_CURVED = {22: 3, 34: 3, 69: 3, 23: 4, 28: 4, 30: 4, 70: 4}
_CONTROLLED = (76, 77)
_NO_SURFACE = {
    0: "empty", 1: "vertex", 2: "vertices", 3: "line", 4: "line", 10: "tetra", 11: "voxel", 12: "hexahedron",
    13: "wedge", 14: "pyramid", 15: "pentagonal prism", 16: "hexagonal prism", 21: "curved line", 24: "tetra10",
    25: "hexahedron20", 26: "wedge15", 27: "pyramid13", 29: "hexahedron27", 31: "wedge12", 32: "wedge18",
    33: "hexahedron24", 35: "curved line", 37: "pyramid19", 41: "point set", 42: "polyhedron", 68: "curved line",
    71: "curved tetra", 72: "curved hexahedron", 73: "curved wedge", 74: "curved pyramid", 75: "curved line",
    78: "curved tetra", 79: "curved hexahedron", 80: "curved wedge", 81: "curved pyramid",
}  # fmt: skip

_KINDS = {
    "unsigned_char": "u1", "char": "i1", "unsigned_short": "u2", "short": "i2", "unsigned_int": "u4", "int": "i4",
    "unsigned_long": "u8", "long": "i8", "float": "f4", "double": "f8", "vtkidtype": "i4", "vtktypeint8": "i1",
    "vtktypeuint8": "u1", "vtktypeint16": "i2", "vtktypeuint16": "u2", "vtktypeint32": "i4", "vtktypeuint32": "u4",
    "vtktypeint64": "i8", "vtktypeuint64": "u8", "long_long": "i8", "unsigned_long_long": "u8",
}  # fmt: skip


def _without_curves(
    connectivity: Array, starts: Array, types: Array, path: Path
) -> tuple[Array, Array, Array, Array, int]:
    """Nodes, starts and types with the flat faces of curved cells in their place, the cell of each, and the number of
    curved cells.
    """
    sizes, cells = np.diff(starts), np.arange(len(types))
    if np.isin(types, _CONTROLLED).any():
        raise InputError(
            f"{path}: Bezier cells, whose nodes are not on the surface: write cells of the second order, or flat ones"
        )
    curved = np.isin(types, [*_CURVED, _QUADRATIC_POLYGON])
    if not curved.any():
        return connectivity, starts, types, cells, 0
    flat = cells[~curved]
    nodes = [connectivity[ragged(starts[flat], sizes[flat])]]
    owners, ranks, counts, kinds = [flat], [np.zeros(len(flat), int)], [sizes[flat]], [types[flat]]
    for kind, size in np.unique(np.column_stack([types, sizes])[curved], axis=0).tolist():
        here = cells[(types == kind) & (sizes == size)]
        if kind == _QUADRATIC_POLYGON:  # corner, middle of its edge, corner, ..
            faces = np.arange(2 * (size // 2)).reshape(2, -1).T.reshape(1, -1)
        elif size == _CURVED[kind]:
            faces = np.arange(size)[None]
        else:
            faces = mesh_curved.pieces(_CURVED[kind], size, path)
        for rank, face in enumerate(faces):
            nodes.append(connectivity[starts[here][:, None] + face].reshape(-1))
            owners.append(here)
            ranks.append(np.full(len(here), rank))
            counts.append(np.full(len(here), len(face)))
            kinds.append(np.full(len(here), {3: 5, 4: 9}.get(len(face), _POLYGON)))
    owner, count = np.concatenate(owners), np.concatenate(counts)
    order = np.lexsort((np.concatenate(ranks), owner))
    together = np.concatenate(nodes)[ragged(starts_of(count)[:-1][order], count[order])]
    return together, starts_of(count[order]), np.concatenate(kinds)[order], owner[order], int(curved.sum())


def faces_of(
    vertices: Array, connectivity: Array, starts: Array, types: Array, data: dict[str, Array], path: Path
) -> Faces:
    """The surface cells among cells; cell c has the nodes connectivity[starts[c] : starts[c + 1]] and VTK's type
    types[c]. Lines, points and volumes are left out; other types that are not known are refused.
    """
    if len(starts) != len(types) + 1 or starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] > len(connectivity):
        raise InputError(f"{path}: {len(types)} types of cells, and the places of their nodes do not fit them")
    known = [_STRIP, _POLYGON, _PIXEL, *_FLAT]
    unknown = types[~np.isin(types, [*known, _QUADRATIC_POLYGON, *_CURVED, *_CONTROLLED, *_NO_SURFACE])]
    if len(unknown):
        raise InputError(f"{path}: cells of VTK's type {unknown[0]}, which are not known here")
    before = types
    connectivity, starts, types, owner, curved = _without_curves(connectivity, starts, types, path)
    data = {name: values[owner] for name, values in data.items()} if curved else data
    sizes = np.diff(starts)
    cells = np.flatnonzero(np.isin(types, known))
    corners = sizes[cells].copy()
    for kind, count in (_FLAT | {_PIXEL: 4}).items():
        here = types[cells] == kind
        if (corners[here] < count).any():
            raise InputError(f"{path}: a cell of VTK's type {kind} with {corners[here].min()} nodes")
        corners[here] = count
    nodes = connectivity[ragged(starts[cells], corners)].astype(np.int64)
    at = starts_of(corners)
    for place in at[:-1][types[cells] == _PIXEL]:
        nodes[place + 2], nodes[place + 3] = nodes[place + 3], nodes[place + 2]
    strips = types[cells] == _STRIP
    if strips.any():
        nodes, corners, cells = _without_strips(nodes, corners, cells, strips)
    faces = Faces(vertices, starts_of(corners), nodes, {name: v[cells] for name, v in data.items()})
    if curved:
        faces.notes.append(mesh_curved.note(curved, int(len(owner) - len(before) + curved)))
    if not len(faces):
        faces.others = sorted({_NO_SURFACE[int(t)] for t in np.unique(before)})
    return faces


def _without_strips(nodes: Array, corners: Array, cells: Array, strips: Array) -> tuple[Array, Array, Array]:
    """Each strip as its triangles, every second one the other way round."""
    starts = starts_of(corners)
    many = np.where(strips, np.maximum(corners - 2, 0), 1)
    cell = np.repeat(np.arange(len(cells)), many)
    place = np.arange(len(cell)) - np.repeat(starts_of(many)[:-1], many)
    of_strip = strips[cell]
    made = nodes[ragged(starts[:-1][cell] + np.where(of_strip, place, 0), np.where(of_strip, 3, corners[cell]))].copy()
    sizes = np.where(of_strip, 3, corners[cell])
    turned = starts_of(sizes)[:-1][of_strip & (place % 2 == 1)]
    made[turned], made[turned + 1] = made[turned + 1].copy(), made[turned].copy()
    return made, sizes, cells[cell]


# --- the legacy format


class _Legacy:
    """The sections of a legacy file."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.at = path, path.read_bytes(), 0
        self.text = True
        self.points: Array | None = None
        self.cells: dict[str, tuple[Array, Array]] = {}  # starts and connectivity, by section
        self.types: Array | None = None
        self.cell_data: dict[str, Array] = {}

    def refuse(self, what: str) -> InputError:
        place = f"line {self.data.count(10, 0, self.at) + 1}" if self.text else f"byte {self.at}"
        return InputError(f"{self.path}: {place}: {what}")

    def line(self) -> list[str]:
        """The words of the next line that is not empty; none at the end of the file."""
        while self.at < len(self.data):
            end = self.data.find(b"\n", self.at)
            end = len(self.data) if end < 0 else end
            words, self.at = self.data[self.at : end].decode("latin-1").split(), end + 1
            if words:
                return words
        return []

    def count(self, words: list[str], place: int) -> int:
        if len(words) <= place or not words[place].isdigit():
            raise self.refuse(f"a number is needed, found {' '.join(words)[:60]!r}")
        return int(words[place])

    def kind(self, words: list[str], place: int) -> str:
        name = words[place].lower() if len(words) > place else ""
        if name not in _KINDS:
            raise self.refuse(f"a type of numbers is needed, found {' '.join(words)[:60]!r}")
        return _KINDS[name]

    def numbers(self, items: int, kind: str, what: str, width: int = 1) -> Array:
        """The numbers of the next items, `width` each; binary ones have the most significant byte first."""
        count, size = items * width, 2 if self.text else np.dtype(kind).itemsize
        if count * size > len(self.data) - self.at + int(self.text):  # the last separator may be missing
            raise too_few(self.path, items, what, count * size, len(self.data))
        if not self.text:
            made = np.frombuffer(self.data, ">" + kind, count, self.at)
            self.at += count * size
            return made.astype(kind)
        # Up to the next line that begins with a word.
        found = re.compile(rb"^[ \t]*(?!nan|inf)[A-Za-z]", re.MULTILINE | re.IGNORECASE).search(self.data, self.at)
        end = found.start() if found else len(self.data)
        numbers = numbers_in(self.data[self.at : end], float if kind[0] == "f" else int)
        if len(numbers) < count:
            raise self.refuse(f"{count} numbers of {what} are announced, and {len(numbers)} are there")
        self.at = end
        with np.errstate(invalid="ignore"):
            return numbers[:count].astype(kind)

    def read_cells(self, section: str, words: list[str]) -> None:
        count, size = self.count(words, 1), self.count(words, 2)
        what = section.lower().replace("_", " ")
        before = self.at
        line = self.line()
        if line[:1] == ["OFFSETS"]:  # from version 5 on
            starts = self.numbers(count, self.kind(line, 1), what).astype(np.int64)
            line = self.line()
            if line[:1] != ["CONNECTIVITY"]:
                raise self.refuse(f"CONNECTIVITY is needed, found {' '.join(line)[:60]!r}")
            self.cells[section] = starts, self.numbers(size, self.kind(line, 1), "nodes of " + what)
            return
        self.at = before
        together = self.numbers(size, "i4", what)
        self.cells[section] = _apart(together, count, self.path)

    def read_data(self, section: str, words: list[str], active: str, count: int) -> None:
        """An array of values of points or cells; those of cells with one value each are kept."""
        width = {"SCALARS": 1, "VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6}.get(section, 1)
        kind = "f4" if self.text else "u1"
        if section == "COLOR_SCALARS":
            width = self.count(words, 2)
        elif section == "TEXTURE_COORDINATES":
            width, kind = self.count(words, 2), self.kind(words, 3)
        elif section == "LOOKUP_TABLE":
            count, width = self.count(words, 2), 4
        else:
            kind = self.kind(words, 2)
        if section == "SCALARS":
            width = self.count(words, 3) if len(words) > 3 else 1
            before = self.at
            if self.line()[:1] != ["LOOKUP_TABLE"]:
                self.at = before
        values = self.numbers(count, kind, words[1] if len(words) > 1 else section, width)
        if active == "CELL_DATA" and width == 1:
            self.cell_data[words[1]] = values

    def read_field(self, words: list[str], active: str) -> None:
        for _ in range(self.count(words, 2)):
            line = self.line()
            if line[:1] == ["METADATA"]:
                self.skip_metadata()
                line = self.line()
            width, count = self.count(line, 1), self.count(line, 2)
            if line[3:4] == ["string"]:
                raise self.refuse("an array of strings")
            values = self.numbers(count, self.kind(line, 3), line[0], width)
            if active == "CELL_DATA" and width == 1:
                self.cell_data[line[0]] = values

    def skip_metadata(self) -> None:
        end = re.compile(rb"\n[ \t\r]*\n").search(self.data, self.at)
        self.at = end.end() if end else len(self.data)


def _apart(together: Array, count: int, path: Path) -> tuple[Array, Array]:
    """Starts and nodes of cells that are stored as: number of nodes, nodes, number of nodes, .."""
    if count > len(together):
        raise InputError(f"{path}: {count} cells are announced, and {len(together)} numbers for them")
    starts = np.zeros(count + 1, np.int64)
    width = int(together[0]) + 1 if len(together) else 1
    if width > 0 and len(together) == count * width and (together[::width] == width - 1).all():  # all alike
        return np.arange(count + 1) * (width - 1), together.reshape(count, width)[:, 1:].reshape(-1)
    numbers, at, places = together.tolist(), 0, np.zeros(count, np.int64)
    for cell in range(count):
        size = numbers[at] if at < len(numbers) else -1
        if not 0 <= size < len(numbers) - at:
            raise InputError(f"{path}: {count} cells are announced, and the nodes of cell {cell} are not there")
        places[cell], starts[cell + 1] = at + 1, starts[cell] + size
        at += 1 + size
    return starts, together[ragged(places, np.diff(starts))]


def read(path: Path) -> Faces | None:
    """The faces of a legacy file; None for structured grids, which are not read here."""
    file = _Legacy(path)
    if not re.match(rb"# vtk DataFile Version ", file.data, re.IGNORECASE):
        raise InputError(f'{path}: line 1: a .vtk file begins with "# vtk DataFile Version"; found {file.data[:40]!r}')
    ends = [m.end() for m in re.finditer(rb"\n", file.data[:4096])][:2]
    file.at = ends[-1] if len(ends) == 2 else len(file.data)
    form, dataset = [word.upper() for word in file.line()], [word.upper() for word in file.line()]
    if form not in (["ASCII"], ["BINARY"]) or dataset[:1] != ["DATASET"]:
        raise file.refuse(f"ASCII or BINARY and DATASET are needed, found {' '.join(form + dataset)[:60]!r}")
    file.text = form == ["ASCII"]
    if dataset[1:] not in (["UNSTRUCTURED_GRID"], ["POLYDATA"]):
        return None
    _sections(file)
    if file.points is None:
        raise file.refuse("the file ends where more is expected: it has no POINTS")
    return _surface(file, dataset[1] == "POLYDATA")


def _sections(file: _Legacy) -> None:
    active, count = "", 0
    while words := file.line():
        section = words[0].upper()
        if section == "POINTS":
            numbers = file.numbers(file.count(words, 1), file.kind(words, 2), "points", 3)
            file.points = numbers.reshape(-1, 3).astype(np.float64)
        elif section in ("CELLS", "POLYGONS", "TRIANGLE_STRIPS", "LINES", "VERTICES"):
            file.read_cells(section, words)
        elif section == "CELL_TYPES":
            file.types = file.numbers(file.count(words, 1), "i4", "cell types")
        elif section in ("CELL_DATA", "POINT_DATA"):
            active, count = section, file.count(words, 1)
        elif section == "FIELD":
            file.read_field(words, active)
        elif section == "METADATA":
            file.skip_metadata()
        elif active or section == "LOOKUP_TABLE":
            file.read_data(section, words, active, count)
        else:
            raise file.refuse(f"a section that is not known: {' '.join(words)[:60]!r}")


def _surface(file: _Legacy, polydata: bool) -> Faces:
    parts = [(s, file.cells[s]) for s in ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS") if s in file.cells]
    if not polydata:
        starts, nodes = file.cells.get("CELLS", (np.zeros(1, np.int64), np.zeros(0, np.int64)))
        types: Any = file.types
        if types is None or "CELLS" not in file.cells:
            raise file.refuse("the file ends where more is expected: CELLS and CELL_TYPES are needed")
    else:  # data of cells are in this order
        number = {"VERTICES": 2, "LINES": 4, "POLYGONS": _POLYGON, "TRIANGLE_STRIPS": _STRIP}
        types = np.concatenate([np.zeros(0, np.int64), *(np.full(len(s) - 1, number[name]) for name, (s, _) in parts)])
        sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(s) for _, (s, _) in parts)])
        starts, nodes = starts_of(sizes), np.concatenate([np.zeros(0, np.int64), *(n for _, (_, n) in parts)])
    for name, values in file.cell_data.items():
        if len(values) != len(types):
            raise InputError(f"{file.path}: the cell data {name} have {len(values)} values for {len(types)} cells")
    assert file.points is not None
    return faces_of(file.points, nodes, starts, types, file.cell_data, file.path)
