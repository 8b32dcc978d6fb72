"""Mesh files: polygons are divided into triangles of the same area, variants of the formats, damaged files."""

from __future__ import annotations

import base64
import itertools
import lzma
import math
import struct
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit._core import InputError
from tacit.app import meshes

meshio = pytest.importorskip("meshio")
Polygons = list[list[int]]


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def shoelace(points: np.ndarray) -> float:
    """The area of a polygon in its plane: half of the sum of the cross products of its edges."""
    relative = points - points[0]
    return float(np.linalg.norm(np.cross(relative, np.roll(relative, -1, axis=0)).sum(axis=0)) / 2)


def prism(outline: Any, seed: int = 0) -> tuple[np.ndarray, Polygons]:
    """A polygon in the plane, a copy above it, and the quadrangles between them; turned at random."""
    flat = np.asarray(outline, float)
    k = len(flat)
    points = np.concatenate([np.c_[flat, np.zeros(k)], np.c_[flat, np.ones(k)]])
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    sides = [[i, (i + 1) % k, k + (i + 1) % k, k + i] for i in range(k)]
    return (points @ turn.T).astype(np.float32).astype(float), [list(range(k))[::-1], list(range(k, 2 * k)), *sides]


def regular(k: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(k) / k
    return np.c_[np.cos(angle), np.sin(angle)]


def comb(teeth: int) -> np.ndarray:
    return np.array([(0, 0), *((i, 1 + 4 * (i % 2)) for i in range(2 * teeth + 1)), (2 * teeth, 0)], float)


OUTLINES = {
    "triangle": regular(3),
    "square": regular(4),
    "pentagon": regular(5),
    "12-gon": regular(12),
    "star": regular(10) * np.where(np.arange(10) % 2, 0.3, 1)[:, None],
    "arrow": np.array([(0, 0), (1, 3), (0, 2), (-1, 3)], float),
    "comb": comb(5),
    "square with points on its sides": np.array(
        [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (1, 2), (0, 2), (0, 1)], float
    ),
}


# --- writers: the same polygons in every format -----------------------------------------------------------------------


def ply(points: np.ndarray, faces: Polygons, order: str = "", count: str = "uchar", index: str = "int") -> bytes:
    kinds = {"uchar": "B", "ushort": "H", "int": "i", "uint": "I", "short": "h", "uint8": "B", "int32": "i"}
    form = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
    head = (
        f"ply\nformat {form} 1.0\ncomment made by a test\nelement vertex {len(points)}\nproperty float x\n"
        f"property float y\nproperty float z\n"
        f"element face {len(faces)}\nproperty list {count} {index} vertex_indices\nend_header\n"
    )
    if not order:
        rows = [" ".join(map(repr, map(float, p))) for p in points] + [" ".join(map(str, [len(f), *f])) for f in faces]
        return (head + "\n".join(rows) + "\n").encode()
    body = b"".join(struct.pack(order + "3f", *p) for p in points)
    return (
        head.encode()
        + body
        + b"".join(struct.pack(f"{order}{kinds[count]}{len(f)}{kinds[index]}", len(f), *f) for f in faces)
    )


def off(points: np.ndarray, faces: Polygons) -> bytes:
    rows = [" ".join(f"{c:.9g}" for c in p) for p in points] + [" ".join(map(str, [len(f), *f])) for f in faces]
    return (f"OFF\n{len(points)} {len(faces)} 0\n" + "\n".join(rows) + "\n").encode()


def obj(points: np.ndarray, faces: Polygons) -> bytes:
    rows = ["v " + " ".join(f"{c:.9g}" for c in p) for p in points] + [
        "f " + " ".join(str(i + 1) for i in f) for f in faces
    ]
    return ("\n".join(rows) + "\n").encode()


def vtk(points: np.ndarray, faces: Polygons, text: bool, version: str, polydata: bool, data: bool = False) -> bytes:
    def numbers(values: Any, kind: str) -> bytes:
        values = np.asarray(values).ravel()
        return (" ".join(map(str, values.tolist())).encode() if text else values.astype(">" + kind).tobytes()) + b"\n"

    sizes = [len(f) for f in faces]
    made = f"# vtk DataFile Version {version}\nx\n{'ASCII' if text else 'BINARY'}\n".encode()
    made += f"DATASET {'POLYDATA' if polydata else 'UNSTRUCTURED_GRID'}\nPOINTS {len(points)} double\n".encode()
    made += numbers(points, "f8")
    section = "POLYGONS" if polydata else "CELLS"
    if version == "5.1":
        made += f"{section} {len(faces) + 1} {sum(sizes)}\nOFFSETS vtktypeint64\n".encode()
        made += numbers(np.cumsum([0, *sizes]), "i8") + b"CONNECTIVITY vtktypeint64\n"
        made += numbers(np.concatenate(faces), "i8")
    else:
        made += f"{section} {len(faces)} {sum(sizes) + len(faces)}\n".encode()
        made += numbers(np.concatenate([[len(f), *f] for f in faces]), "i4")
    if not polydata:
        made += f"CELL_TYPES {len(faces)}\n".encode() + numbers([{3: 5, 4: 9}.get(s, 7) for s in sizes], "i4")
    if data:
        made += f"POINT_DATA {len(points)}\nVECTORS v float\n".encode() + numbers(points, "f4")
        made += f"CELL_DATA {len(faces)}\nSCALARS group int 1\nLOOKUP_TABLE default\n".encode()
        made += numbers(np.arange(len(faces)), "i4") + f"FIELD more 1\nweight 1 {len(faces)} double\n".encode()
        made += numbers(0.5 * np.arange(len(faces)), "f8")
    return made


def vtu(points: np.ndarray, faces: Polygons, path: Path, **options: Any) -> None:
    names = {3: "triangle", 4: "quad"}
    sizes = sorted({len(f) for f in faces})
    cells = [(names.get(s, "polygon"), np.array([f for f in faces if len(f) == s])) for s in sizes]
    meshio.Mesh(points, cells).write(path, **options)


WRITERS: dict[str, tuple[str, Callable[..., bytes]]] = {
    "ply text": ("a.ply", ply),
    "ply little": ("a.ply", lambda p, f: ply(p, f, "<")),
    "ply big": ("a.ply", lambda p, f: ply(p, f, ">", "int", "ushort")),
    "off": ("a.off", off),
    "obj": ("a.obj", obj),
    **{
        f"vtk {version} {'text' if text else 'binary'} {'polydata' if polydata else 'grid'}": (
            "a.vtk",
            lambda p, f, t=text, v=version, d=polydata: vtk(p, f, t, v, d),
        )
        for version, text, polydata in itertools.product(("3.0", "5.1"), (True, False), (True, False))
    },
}


def area_of(points: np.ndarray, faces: Polygons) -> float:
    return sum(shoelace(points[f]) for f in faces)


# --- polygons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outline", OUTLINES)
@pytest.mark.parametrize("writer", [*WRITERS, "vtu"])
def test_polygons_keep_their_area(writer: str, outline: str, tmp_path: Path) -> None:
    """A prism over the outline: every face is divided, and the triangles of a face have its area."""
    points, faces = prism(OUTLINES[outline])
    if writer == "vtu":
        vtu(points, faces, path := tmp_path / "a.vtu")
    else:
        (path := tmp_path / WRITERS[writer][0]).write_bytes(WRITERS[writer][1](points, faces))
    mesh = meshes.read(path)
    assert len(mesh) == sum(len(f) - 2 for f in faces)
    assert mesh.areas.sum() == pytest.approx(area_of(points, faces), rel=1e-6)
    assert mesh.surface["closed"]
    assert mesh.surface["oriented"]
    assert mesh.surface["flat_triangles"] == 0
    heights = abs(np.sum(mesh.normals * mesh.vertices[mesh.triangles[:, 0]], axis=1).sum()) / 3
    assert heights == pytest.approx(shoelace(np.c_[OUTLINES[outline], np.zeros(len(OUTLINES[outline]))]), rel=1e-6)


def read_obj(tmp_path: Path, points: Any, faces: Sequence[Sequence[int]]) -> meshes.Mesh:
    (tmp_path / "p.obj").write_bytes(obj(np.asarray(points, float), [list(f) for f in faces]))
    return meshes.read(tmp_path / "p.obj")


def test_convex_polygons_are_fans_from_their_first_corner(tmp_path: Path) -> None:
    points = np.c_[regular(7), np.zeros(7)]
    mesh = read_obj(tmp_path, points, [range(7)])
    np.testing.assert_array_equal(mesh.triangles, [[0, k, k + 1] for k in range(1, 6)])
    # Also a concave one that is divided so: the reflex corner is the first.
    arrow = [(0, 2, 0), (-1, 3, 0), (0, 0, 0), (1, 3, 0)]
    np.testing.assert_array_equal(read_obj(tmp_path, arrow, [range(4)]).triangles, [[0, 1, 2], [0, 2, 3]])


def test_polygons_with_corners_on_lines(tmp_path: Path) -> None:
    """No triangle without area is made where a division without one exists."""
    side = np.linspace(0, 1, 9)
    points = np.c_[np.r_[side, 0.3], np.r_[0 * side, 1], np.zeros(10)]
    for first in range(10):
        mesh = read_obj(tmp_path, np.roll(points, first, axis=0), [range(10)])
        assert mesh.areas.sum() == pytest.approx(0.5)
        assert mesh.areas.min() > 0.01


def test_polygons_with_holes_joined_to_their_outside(tmp_path: Path) -> None:
    outside, hole = [(0, 0), (4, 0), (4, 4), (0, 4)], [(1, 1), (1, 3), (3, 3), (3, 1)]
    points = np.c_[np.array([*outside, *hole], float), np.zeros(8)]
    mesh = read_obj(tmp_path, points, [[0, 1, 2, 3, 0, 4, 5, 6, 7, 4]])
    assert mesh.areas.sum() == pytest.approx(12)
    inside = (np.abs(mesh.centroids[:, :2] - 2) < 1).all(axis=1)
    assert not inside.any()


def test_random_polygons(tmp_path: Path) -> None:
    """Random simple polygons (star-shaped around 0, but not seen from their corners) in random planes."""
    rng = np.random.default_rng(5)
    for corners in range(4, 60):
        angle = 2 * np.pi * (np.arange(corners) + 0.8 * rng.random(corners)) / corners
        flat = (0.05 + rng.random(corners))[:, None] * np.c_[np.cos(angle), np.sin(angle)]
        turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        points = (np.c_[flat, np.zeros(corners)] @ turn.T) * 10.0 ** rng.integers(-9, 9)
        mesh = read_obj(tmp_path, points + 0.0, [np.roll(range(corners), rng.integers(corners)).tolist()])
        assert len(mesh) == corners - 2
        read = mesh.vertices
        assert mesh.areas.sum() == pytest.approx(shoelace(read), rel=1e-9)


def test_repeated_corners(tmp_path: Path) -> None:
    square = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])
    assert read_obj(tmp_path, square, [[0, 1, 2, 2]]).triangles.tolist() == [[0, 1, 2]]
    assert read_obj(tmp_path, square, [[0, 0, 1, 2, 3, 0]]).areas.sum() == pytest.approx(1)
    line = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]
    assert "without area" in read_obj(tmp_path, line, [range(4)]).faults()
    assert "without area" in read_obj(tmp_path, square, [[0, 1, 0, 1], [0, 1, 2]]).faults()


CROSSING = {
    "bow tie": [(0, 0), (1, 1), (1, 0), (0, 1)],
    "uneven bow tie": [(0, 0), (1, 1), (1, 0), (0, 2)],
    "pentagram": [tuple(p) for p in regular(5)[[0, 2, 4, 1, 3]]],
    "twice round": [tuple((1 + 0.02 * k) * regular(12)[k % 12]) for k in range(23)],
}


@pytest.mark.parametrize("case", CROSSING)
@pytest.mark.parametrize("writer", ["obj", "off", "ply text", "ply little", "vtk 3.0 text polydata"])
def test_faces_that_cross_themselves_are_refused(case: str, writer: str, tmp_path: Path) -> None:
    """With the number of the face and the line of the file, where it has lines."""
    outline = CROSSING[case]
    points = np.r_[np.c_[regular(3), np.ones(3)], np.c_[np.array(outline, float), np.zeros(len(outline))]]
    faces = [[0, 1, 2], list(range(3, 3 + len(outline)))]
    name, write = WRITERS[writer]
    (tmp_path / name).write_bytes(write(points, faces))
    lines = (tmp_path / name).read_bytes().splitlines()
    with pytest.raises(InputError, match=rf"{name}: 1 face crosses itself: face 1\b") as refused:
        meshes.read(tmp_path / name)
    if writer in ("obj", "off", "ply text"):
        assert f"(line {len(lines)})" in str(refused.value)


def test_bent_faces_are_told(tmp_path: Path) -> None:
    points = [(0, 0, 0), (1, 0, 0.02), (1, 1, 0), (0, 1, 0.02), (1, 1, 0.6)]
    assert read_obj(tmp_path, points, [[0, 1, 2, 3]]).notes()[:1] != ["bent"]
    with pytest.warns(RuntimeWarning, match=r"1 face is bent .* face 1 \(line 7\)"):
        mesh = read_obj(tmp_path, points, [[0, 1, 2, 3], [0, 1, 4, 3]])
    assert "bent" in mesh.notes()[0]
    assert "bent" in mesh.mended().notes()[0]


def test_quadrangles_keep_their_order(tmp_path: Path) -> None:
    """First one triangle of each quadrangle of a block, then the other: results by triangle stay comparable."""
    points = np.array([(x, y, 0) for y in (0, 1) for x in range(4)], float)
    quads = np.array([[0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6]])
    for name in ("a.vtu", "a.vtk", "a.ply", "a.msh"):
        options = {"file_format": "gmsh22", "binary": False} if name == "a.msh" else {}
        data = {} if name in ("a.ply", "a.msh") else {"group": [np.arange(3)]}
        meshio.Mesh(points, [("quad", quads)], cell_data=data).write(tmp_path / name, **options)
        mesh = meshes.read(tmp_path / name)
        np.testing.assert_array_equal(mesh.triangles, np.r_[quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
        if data:
            np.testing.assert_array_equal(mesh.cell_data["group"], [0, 1, 2, 0, 1, 2])


def on_lattice(corners: int, order: int) -> np.ndarray:
    """Places (s, t) of the nodes of a curved cell in the numbering of gmsh and VTK, by hand up to the third order."""
    if corners == 3:
        inside = {2: [], 3: [(1, 1)], 4: [(1, 1), (2, 1), (1, 2)]}[order]
        steps = range(1, order)
        edges = [(k, 0) for k in steps] + [(order - k, k) for k in steps] + [(0, order - k) for k in steps]
        return np.array([(0, 0), (order, 0), (0, order), *edges, *inside]) / order
    return np.array([(0, 0), (2, 0), (2, 2), (0, 2), (1, 0), (2, 1), (1, 2), (0, 1), (1, 1)]) / 2


# Curved cells: the number of corners, the order, the nodes, and flat triangles of each.
CURVED = {
    "triangle6": (3, 2, 6, 4), "triangle10": (3, 3, 10, 9), "triangle15": (3, 4, 15, 16),
    "quad8": (4, 2, 8, 6), "quad9": (4, 2, 9, 8),
}  # fmt: skip


@pytest.mark.parametrize("kind", CURVED)
def test_curved_cells_are_divided_through_their_nodes(kind: str, tmp_path: Path) -> None:
    """Two cells on a saddle: every node is a corner, the projection is covered once, and data stay with their cell."""
    corners, order, nodes, triangles = CURVED[kind]
    st = on_lattice(corners, order)[:nodes]
    height = st[:, 0] * st[:, 1] / 10
    points = np.r_[np.c_[st, height], np.c_[st + [2, 0], height]]
    cells = [(kind, np.arange(2 * nodes).reshape(2, nodes))]
    for name in ("a.vtu", "a.vtk", "a.msh"):
        if name != "a.msh" and "1" in kind:
            continue  # which meshio does not write
        data: dict[str, Any] = {"gmsh:physical": [np.array([5, 9])], "gmsh:geometrical": [np.array([5, 9])]}
        options: dict[str, Any] = {"file_format": "gmsh22", "binary": False} if name == "a.msh" else {}
        meshio.Mesh(points, cells, cell_data=data).write(tmp_path / name, **options)
        with pytest.warns(RuntimeWarning, match="2 curved cells are divided into"):
            mesh = meshes.read(tmp_path / name)
        assert len(mesh) == 2 * triangles
        assert len(np.unique(mesh.triangles)) == 2 * nodes
        flat = mesh.normals[:, 2]
        assert (flat > 0).all()
        assert flat.sum() == pytest.approx(1 if corners == 3 else 2)
        first = mesh.centroids[:, 0] < 1.5
        np.testing.assert_array_equal(mesh.cell_data["gmsh:physical"], np.where(first, 5, 9))
        assert "curved" in mesh.notes()[0]


def test_lagrange_cells_of_vtk(tmp_path: Path) -> None:
    """Their order is found from the number of nodes; those that are not divided are refused."""
    for order, kind, corners in [(3, 69, 3), (2, 70, 4), (2, 34, 3)]:
        st = on_lattice(corners, order)
        if kind == 34:
            st = np.r_[st, [[1 / 3, 1 / 3]]]
        points = "\n".join(f"{s} {t} 0" for s, t in st)
        text = f"# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS {len(st)} double\n{points}\n"
        cell = " ".join(map(str, range(len(st))))
        text += f"CELLS 1 {len(st) + 1}\n{len(st)} {cell}\nCELL_TYPES 1\n"
        (tmp_path / "a.vtk").write_text(text + f"{kind}\n")
        with pytest.warns(RuntimeWarning, match="1 curved cells"):
            assert meshes.read(tmp_path / "a.vtk").areas.sum() == pytest.approx(0.5 if corners == 3 else 1)
        (tmp_path / "a.vtk").write_text(text + f"{75 + corners - 2}\n")
        with pytest.raises(InputError, match=r"Bezier cells.*second order"):
            meshes.read(tmp_path / "a.vtk")
    points = np.random.default_rng(1).random((16, 3))
    meshio.Mesh(points, [("quad16", np.arange(16)[None])]).write(tmp_path / "a.msh", file_format="gmsh22", binary=False)
    with pytest.raises(InputError, match=r"4 corners and 16 nodes.*Mesh.ElementOrder = 2"):
        meshes.read(tmp_path / "a.msh")


def test_quadratic_polygon(tmp_path: Path) -> None:
    """Corners, then the middles of edges: all are corners of a polygon."""
    angle = np.r_[np.arange(5) * 2, np.arange(5) * 2 + 1] * np.pi / 5
    points = "\n".join(f"{x} {y} 0" for x, y in zip(np.cos(angle), np.sin(angle), strict=True))
    (tmp_path / "a.vtk").write_text(
        f"# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 10 double\n{points}\n"
        "CELLS 1 11\n10 0 1 2 3 4 5 6 7 8 9\nCELL_TYPES 1\n36\n"
    )
    with pytest.warns(RuntimeWarning, match="1 curved cells are divided into 1 flat"):
        assert meshes.read(tmp_path / "a.vtk").areas.sum() == pytest.approx(5 * math.sin(2 * math.pi / 10))


def test_curved_sphere_keeps_its_area(tmp_path: Path) -> None:
    """80 cells of six nodes: without the nodes on edges 7 % of the area would be missing."""
    fine, coarse = meshes.sphere(4), meshes.sphere(2)
    middles = (coarse.vertices[coarse.triangles] + coarse.vertices[np.roll(coarse.triangles, -1, axis=1)]) / 2
    middles /= np.linalg.norm(middles, axis=2, keepdims=True)
    points = np.concatenate([coarse.vertices, middles.reshape(-1, 3)])
    cells = np.c_[coarse.triangles, len(coarse.vertices) + np.arange(240).reshape(80, 3)]
    meshio.Mesh(points, [("triangle6", cells)]).write(tmp_path / "a.msh", file_format="gmsh22", binary=True)
    with pytest.warns(RuntimeWarning, match="80 curved cells are divided into 320"):
        mesh = meshes.read(tmp_path / "a.msh")
    assert mesh.surface["closed"]
    assert mesh.areas.sum() == pytest.approx(fine.areas.sum(), rel=3e-3)
    assert coarse.areas.sum() < 0.94 * 4 * np.pi


# --- polygonal data in XML --------------------------------------------------------------------------------------------


class Vtp:
    """Writes a cube with a group of each face, in an encoding, as VTK does."""

    def __init__(self, form: str, packed: str, header: str) -> None:
        self.form, self.packed, self.header, self.appended = form, packed, np.dtype(header), b""

    def stream(self, content: bytes, text: bool) -> bytes:
        def coded(part: bytes) -> bytes:
            return base64.b64encode(part) if text else part

        if not self.packed:
            return coded(np.array([len(content)], self.header).tobytes() + content)
        size = 64  # small blocks, so that there are several
        blocks = [content[k : k + size] for k in range(0, len(content), size)]
        made = [(zlib if self.packed == "ZLib" else lzma).compress(block) for block in blocks]
        last = len(content) % size
        head = np.array([len(blocks), size, last, *map(len, made)], self.header).tobytes()
        return coded(head) + coded(b"".join(made))

    def array(self, name: str, values: Any, kind: str, components: int = 1) -> str:
        data = np.asarray(values).astype({"Float64": "f8", "Int64": "i8", "Int32": "i4"}[kind])
        opening = f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{components}" '
        if self.form == "ascii":
            return opening + f'format="ascii">{" ".join(map(str, data.ravel().tolist()))}</DataArray>'
        if self.form == "binary":
            return opening + f'format="binary">\n{self.stream(data.tobytes(), True).decode()}\n</DataArray>'
        at = len(self.appended)
        self.appended += self.stream(data.tobytes(), self.form == "base64")
        return opening + f'format="appended" offset="{at}"/>'

    def file(self) -> bytes:
        quads = CUBE_FACES[:4]
        points = self.array("Points", CUBE, "Float64", 3)
        pieces = f'<Piece NumberOfPoints="8"><Points>{points}</Points><CellData>'
        pieces += self.array("group", [3, 4, 5, 6, 7, 8, 9, 10], "Int32") + "</CellData><Lines>"
        pieces += self.array("connectivity", [0, 1], "Int64") + self.array("offsets", [2], "Int64") + "</Lines><Polys>"
        pieces += self.array("connectivity", [*np.ravel(quads), *CUBE_TRIANGLES[8], *CUBE_TRIANGLES[9]], "Int64")
        pieces += self.array("offsets", [4, 8, 12, 16, 19, 22], "Int64") + "</Polys><Strips>"
        a, b, c, d = CUBE_FACES[5]
        pieces += self.array("connectivity", [a, b, d, c], "Int64") + self.array("offsets", [4], "Int64")
        pieces += "</Strips></Piece>"
        more = f'header_type="UInt{8 * self.header.itemsize}"'
        more += f' compressor="vtk{self.packed}DataCompressor"' if self.packed else ""
        appended = b""
        if self.appended:
            appended = f'<AppendedData encoding="{self.form}">\n _'.encode() + self.appended + b"\n</AppendedData>\n"
        head = f'<?xml version="1.0"?>\n<VTKFile type="PolyData" byte_order="LittleEndian" {more}>\n<PolyData>'
        return (head + pieces + "</PolyData>\n").encode() + appended + b"</VTKFile>"


VTPS = [("ascii", "", "<u4"), ("raw", "", "<u4"), ("raw", "ZLib", "<u8"), ("base64", "ZLib", "<u4")] + [
    ("binary", packed, header) for packed in ("", "ZLib", "LZMA") for header in ("<u4", "<u8")
]


@pytest.mark.parametrize(("form", "packed", "header"), VTPS)
def test_vtp(form: str, packed: str, header: str, tmp_path: Path) -> None:
    (tmp_path / "a.vtp").write_bytes(Vtp(form, packed, header).file())
    mesh = meshes.read(tmp_path / "a.vtp")
    assert mesh.areas.sum() == pytest.approx(6)
    assert mesh.surface["closed"]
    # The line has group 3.
    np.testing.assert_array_equal(np.unique(mesh.cell_data["group"]), [4, 5, 6, 7, 8, 9, 10])
    assert (mesh.cell_data["group"] == 10).sum() == 2


def test_vtp_refused(tmp_path: Path) -> None:
    good = Vtp("binary", "", "<u4").file()
    for content, text in [
        (b"", "the file is empty"),
        (good[: len(good) // 2], "not XML"),
        (good.replace(b'PolyData"', b'ImageData"', 1), "PolyData is needed"),
        (good.replace(b'Name="offsets"', b'Name="ofsets"'), "no DataArray of offsets of Lines"),
        (good.replace(b"Int64", b"Bit"), "of type Bit"),
        (Vtp("ascii", "", "<u4").file().replace(b">2</DataArray>", b">3</DataArray>"), "offsets of Lines do not fit"),
        (Vtp("raw", "", "<u4").file().replace(b'offset="0"', b'offset="99999"'), "at byte 99999 of"),
        (Vtp("binary", "LZ4", "<u4").file(), "compressed by vtkLZ4DataCompressor; zlib and lzma are read"),
    ]:
        (tmp_path / "a.vtp").write_bytes(content)
        with pytest.raises(InputError, match=text):
            meshes.read(tmp_path / "a.vtp")
    # A count that the bytes cannot hold is refused before memory is taken.
    huge = base64.b64encode(np.array([2_000_000_000], "<u4").tobytes() + bytes(48))
    small = base64.b64encode(np.array([CUBE.nbytes], "<u4").tobytes() + CUBE.tobytes())
    (tmp_path / "a.vtp").write_bytes(good.replace(small, huge))
    with pytest.raises(InputError, match="2000000000 bytes of points are announced, and 48 are there"):
        meshes.read(tmp_path / "a.vtp")


# --- variants of the formats ------------------------------------------------------------------------------------------

CUBE = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
CUBE_FACES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
CUBE_TRIANGLES = [t for a, b, c, d in CUBE_FACES for t in ([a, b, c], [a, c, d])]


def cube_area(tmp_path: Path, name: str, content: bytes) -> float:
    (tmp_path / name).write_bytes(content)
    mesh = meshes.read(tmp_path / name)
    assert mesh.surface["closed"]
    return float(mesh.areas.sum())


PLY_KINDS = {
    "char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I",
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
}  # fmt: skip


@pytest.mark.parametrize("order", ["", "<", ">"])
def test_ply_types(order: str, tmp_path: Path) -> None:
    for count, index in itertools.product(PLY_KINDS, PLY_KINDS):
        form = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
        head = (
            f"ply\r\nformat {form} 1.0\r\nobj_info x\r\nelement vertex 8\r\nproperty uchar red\r\nproperty double x\r\n"
            f"property float64 y\r\nproperty float32 z\r\nproperty list uchar float extra\r\nelement edge 1\r\n"
            f"property int a\r\nelement face 7\r\nproperty short group\r\nproperty list uchar float texcoord\r\n"
            f"property list {count} {index} vertex_index\r\nproperty uchar blue\r\nelement camera 1\r\n"
            "property float f\r\nend_header\r\n"
        ).encode()
        # Lists of several lengths.
        faces = [*CUBE_FACES[:5], *CUBE_TRIANGLES[10:]]
        if order:
            body = b"".join(
                struct.pack(f"{order}BddfB{k % 2}f", 9, *p, k % 2, *[0.5] * (k % 2)) for k, p in enumerate(CUBE)
            ) + struct.pack(order + "i", 3)
            for k, f in enumerate(faces):
                body += struct.pack(f"{order}hB{k % 3}f", k, k % 3, *[0.5] * (k % 3))
                body += struct.pack(f"{order}{PLY_KINDS[count]}{len(f)}{PLY_KINDS[index]}B", len(f), *f, 7)
            body += struct.pack(order + "f", 1)
        else:
            rows: list[list[Any]] = [[9, *p, k % 2, *[0.5] * (k % 2)] for k, p in enumerate(CUBE)] + [[3]]
            rows += [[k, k % 3, *[0.5] * (k % 3), len(f), *f, 7] for k, f in enumerate(faces)] + [[1.0]]
            body = "".join(" ".join(map(str, r)) + "\r\n" for r in rows).encode()
        assert cube_area(tmp_path, "a.ply", head + body) == pytest.approx(6)
        mesh = meshes.read(tmp_path / "a.ply")
        np.testing.assert_array_equal(np.sort(mesh.cell_data["group"]), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6])


@pytest.mark.parametrize("order", ["", "<"])
def test_ply_strips(order: str, tmp_path: Path) -> None:
    strips = [0, 1, 2, 3, 6, 7, 4, 5, -1, 4, 5, 0, 1, -1, 0, 2, 4, 6, -1, 3, 1, 7, 5]
    form = "binary_little_endian" if order else "ascii"
    head = (
        f"ply\nformat {form} 1.0\nelement vertex 8\nproperty float x\nproperty float y\nproperty float z\n"
        "element tristrips 1\nproperty list int int vertex_indices\nend_header\n"
    ).encode()
    if order:
        body = b"".join(struct.pack("<3f", *p) for p in CUBE) + struct.pack(
            f"<{len(strips) + 1}i", len(strips), *strips
        )
    else:
        body = (
            "".join(" ".join(map(str, p)) + "\n" for p in CUBE).encode()
            + (" ".join(map(str, [len(strips), *strips])) + "\n").encode()
        )
    assert cube_area(tmp_path, "a.ply", head + body) == pytest.approx(6)


def vertex_lines(more: str = "") -> list[str]:
    return [" ".join(f"{c:g}" for c in p) + more for p in CUBE]


OFFS = {
    "quadrangles": ["OFF", "8 6 12", *vertex_lines(), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "mixed": ["OFF", "8 7 0", *vertex_lines(), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES[:5]),
              *(f"3 {a} {b} {c}" for a, b, c in CUBE_TRIANGLES[10:])],
    "no word OFF": ["8 6 12", *vertex_lines(), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "OFF without a blank": ["OFF8 6 12", *vertex_lines(), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "no edges": ["OFF", "8 6", *vertex_lines(), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "COFF": ["COFF", "8 6 0", *vertex_lines(" 255 0 0 255"), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "COFF of three": ["COFF", "8 6 0", *vertex_lines(" 255 0 0"), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "NOFF": ["NOFF", "8 6 0", *vertex_lines(" 0 0 1"), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "STCNOFF": ["STCNOFF", "8 6 0", *vertex_lines(" 0 0 1 1 0 0 1 .5 .5"),
                *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "colours of some faces": ["OFF # a cube", "8 6 0 # counts", "", *vertex_lines("  # a vertex"), "# faces",
                              *(f"4 {a} {b} {c} {d}" + " 255 0 0" * (a == 0) for a, b, c, d in CUBE_FACES)],
    "a mark of UTF-8": ["\ufeffOFF", "8 6 12", *vertex_lines(), *(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
    "numbers in few lines": ["OFF 8 6 12", " ".join(vertex_lines()),
                             " ".join(f"4 {a} {b} {c} {d}" for a, b, c, d in CUBE_FACES)],
}  # fmt: skip


@pytest.mark.parametrize("case", OFFS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_off(case: str, end: str, tmp_path: Path) -> None:
    assert cube_area(tmp_path, "a.OFF", end.join([*OFFS[case], ""]).encode()) == pytest.approx(6)


def test_off_refused(tmp_path: Path) -> None:
    for text, match in [
        ("OFF BINARY\n", "line 1: a binary OFF file"),
        ("4OFF\n1 1 0\n", "line 1: 4OFF: vertices of 3 coordinates"),
        ("COIN\n", 'line 1: a .off file begins with "OFF"'),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 x\n", "line 6: no face"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1\n", "line 6: a face of 3 vertices, and 2 are there"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", r"face 0 \(line 6\) has vertex 3 of 3"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n", r"face 0 \(line 6\) has 2 corners"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 1.5\n", "a vertex of a face is 1.5"),
        ("OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "2 faces are announced, and 1 are there"),
    ]:
        (tmp_path / "a.off").write_text(text)
        with pytest.raises(InputError, match=match):
            meshes.read(tmp_path / "a.off")


def obj_text(faces: Sequence[str]) -> bytes:
    return "\n".join([*("v " + v for v in vertex_lines()), *faces, ""]).encode()


OBJS = {
    "from the last vertex": obj_text([f"f {a - 8} {b - 8} {c - 8} {d - 8}" for a, b, c, d in CUBE_FACES]),
    "textures and normals": obj_text(["vt 0 0", "vn 0 0 1"] + [
        f"f {a + 1}/1/1 {b + 1}//1 {c + 1}/1 {d + 1}/1/1" for a, b, c, d in CUBE_FACES]),
    "groups, lines, points": obj_text(["o body", "g one two", "s off", "usemtl red", "l 1 2 3", "p 1"] + [
        f"f {a + 1} {b + 1} {c + 1} {d + 1}" for a, b, c, d in CUBE_FACES]),
    "continued lines": obj_text([f"f {a + 1} \\\n{b + 1} {c + 1}\\\n {d + 1} # x" for a, b, c, d in CUBE_FACES]),
    "in capitals, and tabs": obj_text([f"\tF\t{a + 1}\t{b + 1} {c + 1}  {d + 1}\t" for a, b, c, d in CUBE_FACES]),
    "a mark of UTF-8": b"\xef\xbb\xbf" + obj_text([f"f {a + 1} {b + 1} {c + 1} {d + 1}" for a, b, c, d in CUBE_FACES]),
    "weights": "\n".join([*("v " + v + " 1.0 0.5 0.5" for v in vertex_lines()),
                          *(f"f {a + 1} {b + 1} {c + 1} {d + 1}" for a, b, c, d in CUBE_FACES), ""]).encode(),
}  # fmt: skip


@pytest.mark.parametrize("case", OBJS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_obj(case: str, end: bytes, tmp_path: Path) -> None:
    assert cube_area(tmp_path, "a.OBJ", OBJS[case].replace(b"\n", end)) == pytest.approx(6)


def test_obj_refused(tmp_path: Path) -> None:
    for text, match in [
        (b"f 1 2 3x\n", "line 9 is no face"),
        (b"f 1 2 \\\n 9\n", "line 9 has vertex 9 of 8"),
        (b"f 1 2 -9\n", "line 9 has vertex -9 of 8"),
        (b"f 0 1 2\n", "line 9 has vertex 0 of 8"),
        (b"v 0 0 nan\n", "line 9 is no vertex"),
        (b"v 0 0 1,5\n", "line 9 is no vertex"),
    ]:
        (tmp_path / "a.obj").write_bytes(obj_text([]) + text)
        with pytest.raises(InputError, match=match):
            meshes.read(tmp_path / "a.obj")


def stl_text(triangles: Sequence[Sequence[int]], name: str = "") -> str:
    corners = ["\n".join("   vertex " + " ".join(f"{c:e}" for c in CUBE[i]) for i in t) for t in triangles]
    facets = "".join(f" facet normal 0 0 0\n  outer loop\n{c}\n  endloop\n endfacet\n" for c in corners)
    return f"solid {name}\n{facets}endsolid {name}\n"


def stl_binary(header: bytes) -> bytes:
    rows = b"".join(struct.pack("<12fH", 0, 0, 0, *CUBE[t].ravel(), 7) for t in CUBE_TRIANGLES)
    return header.ljust(80, b" ")[:80] + struct.pack("<I", len(CUBE_TRIANGLES)) + rows


STLS = {
    "text": stl_text(CUBE_TRIANGLES).encode(),
    "capitals": stl_text(CUBE_TRIANGLES).upper().encode(),
    "several solids": (stl_text(CUBE_TRIANGLES[:5], "a vertex") + stl_text(CUBE_TRIANGLES[5:], "facet")).encode(),
    "polygons": stl_text(CUBE_FACES).encode(),
    "binary": stl_binary(b"\0"),
    "binary that begins as text": stl_binary(b"solid facet normal"),
}


@pytest.mark.parametrize("case", STLS)
def test_stl(case: str, tmp_path: Path) -> None:
    assert cube_area(tmp_path, "a.STL", STLS[case]) == pytest.approx(6)
    assert len(meshes.read(tmp_path / "a.STL").vertices) == 8
    if not case.startswith("binary"):
        assert cube_area(tmp_path, "b.stl", STLS[case].replace(b"\n", b"\r\n")) == pytest.approx(6)


def test_stl_refused(tmp_path: Path) -> None:
    whole = stl_text(CUBE_TRIANGLES)
    for text, match in [
        (whole.replace("vertex", "vertx", 1), r"facet 0 \(line 7\) has 2 corners"),
        (whole.replace("1.000000e+00\n", "one\n", 1), "line 5: three coordinates"),
        (whole.replace("endloop", "", 1), "facets and 11 ends"),
        (whole.replace("endsolid", ""), "the file ends without endsolid"),
        (whole.replace("\n", " "), "begins a line"),
    ]:
        (tmp_path / "a.stl").write_text(text)
        with pytest.raises(InputError, match=match):
            meshes.read(tmp_path / "a.stl")


def test_vtk_strips_pixels_and_other_cells(tmp_path: Path) -> None:
    """Strips of triangles and pixels are read, lines and volumes left out, unknown types refused."""
    numbers = [4, 0, 1, 2, 3, 4, 4, 5, 6, 7, 2, 0, 1, 8, *range(8), 5, 0, 1, 3, 2, 0]
    types = [8, 6, 3, 12, 7]
    text = (
        "# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 8 float\n" + "\n".join(vertex_lines())
        + f"\nCELLS 5 {len(numbers)}\n{' '.join(map(str, numbers))}\nCELL_TYPES 5\n{' '.join(map(str, types))}\n"
        + "CELL_DATA 5\nSCALARS group int\nLOOKUP_TABLE default\n5 6 7 8 9\n"
    )  # fmt: skip
    (tmp_path / "a.vtk").write_text(text)
    mesh = meshes.read(tmp_path / "a.vtk")
    assert mesh.areas.sum() == pytest.approx(3)
    np.testing.assert_array_equal(np.bincount(mesh.cell_data["group"].astype(int), minlength=10)[5:], [2, 2, 0, 0, 2])
    (tmp_path / "a.vtk").write_text(text.replace("8 6 3 12 7", "8 6 3 12 62"))
    with pytest.raises(InputError, match="cells of VTK's type 62"):
        meshes.read(tmp_path / "a.vtk")
    (tmp_path / "a.vtk").write_text(text.replace("8 6 3 12 7", "12 3 3 12 12").replace("CELLS 5", "CELLS 5"))
    with pytest.raises(InputError, match="no triangles, only hexahedron, line; write the surface"):
        meshes.read(tmp_path / "a.vtk")


def test_vtk_polydata_with_strips_and_data(tmp_path: Path) -> None:
    text = (
        "# vtk DataFile Version 3.0\nx\nASCII\nDATASET POLYDATA\nPOINTS 8 float\n" + "\n".join(vertex_lines())
        + "\nLINES 1 3\n2 0 1\nPOLYGONS 2 10\n4 0 1 3 2\n4 4 6 7 5\nTRIANGLE_STRIPS 1 5\n4 0 1 4 5\n"
        + "METADATA\nINFORMATION 0\n\nCELL_DATA 4\nNORMALS n float\n" + "0 0 1\n" * 4
        + "SCALARS group int\nLOOKUP_TABLE default\n1 2 3 4\n"
    )  # fmt: skip
    (tmp_path / "a.vtk").write_text(text)
    mesh = meshes.read(tmp_path / "a.vtk")
    assert mesh.areas.sum() == pytest.approx(3)
    assert sorted(mesh.cell_data["group"]) == [2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("version", ["3.0", "5.1"])
@pytest.mark.parametrize("text", [True, False])
def test_vtk_data(version: str, text: bool, tmp_path: Path) -> None:
    for polydata in (True, False):
        (tmp_path / "a.vtk").write_bytes(vtk(CUBE, CUBE_FACES, text, version, polydata, data=True))
        mesh = meshes.read(tmp_path / "a.vtk")
        np.testing.assert_array_equal(mesh.cell_data["group"], [*range(6), *range(6)])
        np.testing.assert_array_equal(mesh.cell_data["weight"], mesh.cell_data["group"] / 2)


def vtu_piece(first: int, faces: Polygons) -> str:
    used = sorted({i for f in faces for i in f})
    nodes = " ".join(str(used.index(i)) for f in faces for i in f)
    ends = " ".join(map(str, np.cumsum([len(f) for f in faces])))
    groups = " ".join(str(first + k) for k in range(len(faces)))
    return (
        f'<Piece NumberOfPoints="{len(used)}" NumberOfCells="{len(faces)}"><Points><DataArray type="Float64" '
        f'NumberOfComponents="3" format="ascii">{" ".join(vertex_lines()[i] for i in used)}</DataArray></Points><Cells>'
        f'<DataArray type="Int32" Name="connectivity" format="ascii">{nodes}</DataArray>'
        f'<DataArray type="Int32" Name="offsets" format="ascii">{ends}'
        f'</DataArray><DataArray type="UInt8" Name="types" format="ascii">{"7 " * len(faces)}</DataArray></Cells>'
        f'<CellData><DataArray type="Int32" Name="group" format="ascii">{groups}'
        "</DataArray></CellData></Piece>"
    )


def test_vtu_of_several_pieces(tmp_path: Path) -> None:
    """All pieces are read, with the data of their polygons (meshio returns the last one)."""
    (tmp_path / "a.vtu").write_text(
        '<VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian"><UnstructuredGrid>'
        f"{vtu_piece(0, CUBE_FACES[:2])}{vtu_piece(2, CUBE_FACES[2:])}</UnstructuredGrid></VTKFile>"
    )
    mesh = meshes.read(tmp_path / "a.vtu")
    assert mesh.areas.sum() == pytest.approx(6)
    assert mesh.surface["closed"]
    assert sorted(mesh.cell_data["group"]) == sorted([*range(6), *range(6)])


@pytest.mark.parametrize(
    "options", [{"binary": False}, {"compression": None}, {"compression": "zlib"}, {"compression": "lzma"}]
)
def test_vtu_encodings(options: dict[str, Any], tmp_path: Path) -> None:
    vtu(CUBE, CUBE_FACES, tmp_path / "a.vtu", **options)
    assert meshes.read(tmp_path / "a.vtu").areas.sum() == pytest.approx(6)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("file_format", ["gmsh22", "gmsh"])
def test_gmsh(file_format: str, binary: bool, tmp_path: Path) -> None:
    cells = [
        ("line", np.array([[0, 1]])),
        ("quad", np.array(CUBE_FACES[:4])),
        ("triangle", np.array(CUBE_TRIANGLES[8:])),
    ]
    if file_format == "gmsh":  # meshio writes one kind of cells there
        cells = [("quad", np.array(CUBE_FACES))]
    meshio.Mesh(CUBE, cells).write(tmp_path / "a.MSH", file_format=file_format, binary=binary)
    mesh = meshes.read(tmp_path / "a.MSH")
    assert mesh.areas.sum() == pytest.approx(6)
    assert mesh.surface["closed"]


def gmsh41(groups: dict[int, list[int]], binary: bool) -> bytes:
    """Two surfaces of 6 triangles each, in physical groups."""
    parts = {1: CUBE_TRIANGLES[:6], 2: CUBE_TRIANGLES[6:]}
    made = f"$MeshFormat\n4.1 {int(binary)} 8\n".encode() + (struct.pack("<i", 1) + b"\n" if binary else b"")
    made += b"$EndMeshFormat\n$Entities\n"
    if binary:
        made += struct.pack("<4Q", 0, 0, 2, 0)
        for e in parts:
            own = groups.get(e, [])
            made += struct.pack(f"<i6dQ{len(own)}iQ", e, 0, 0, 0, 1, 1, 1, len(own), *own, 0)
        made += b"\n$EndEntities\n$Nodes\n" + struct.pack("<4Q", 1, 8, 1, 8) + struct.pack("<3iQ", 2, 1, 0, 8)
        made += struct.pack("<8Q", *range(1, 9)) + CUBE.astype("<f8").tobytes() + b"\n$EndNodes\n$Elements\n"
        made += struct.pack("<4Q", 2, 12, 1, 12)
        for e, triangles in parts.items():
            made += struct.pack("<3iQ", 2, e, 2, 6)
            for k, t in enumerate(triangles):
                made += struct.pack("<4Q", 6 * (e - 1) + k + 1, *(i + 1 for i in t))
        return made + b"\n$EndElements\n"
    made += b"0 0 2 0\n"
    for e in parts:
        own = groups.get(e, [])
        made += f"{e} 0 0 0 1 1 1 {len(own)} {' '.join(map(str, own))} 0\n".encode()
    made += b"$EndEntities\n$Nodes\n1 8 1 8\n2 1 0 8\n" + "".join(f"{i}\n" for i in range(1, 9)).encode()
    made += "\n".join([*vertex_lines(), "$EndNodes\n$Elements\n2 12 1 12\n"]).encode()
    for e, triangles in parts.items():
        made += f"2 {e} 2 6\n".encode()
        made += "".join(
            f"{6 * (e - 1) + k + 1} {a + 1} {b + 1} {c + 1}\n" for k, (a, b, c) in enumerate(triangles)
        ).encode()
    return made + b"$EndElements\n"


@pytest.mark.parametrize("binary", [False, True])
def test_gmsh_surfaces_without_a_group(binary: bool, tmp_path: Path) -> None:
    """gmsh's Mesh.SaveAll: those without a physical group have group 0."""
    for groups, expected in [({}, None), ({1: [7]}, [7, 0]), ({1: [7], 2: [9]}, [7, 9]), ({2: [9]}, [0, 9])]:
        (tmp_path / "a.msh").write_bytes(gmsh41(groups, binary))
        mesh = meshes.read(tmp_path / "a.msh")
        assert mesh.areas.sum() == pytest.approx(6)
        found = mesh.cell_data.get("gmsh:physical")
        if expected is None:
            assert found is None
        else:
            np.testing.assert_array_equal(found, np.repeat(expected, 6))


# --- damaged files ----------------------------------------------------------------------------------------------------


def whole_files() -> dict[str, bytes]:
    files = {f"{name.replace(' ', '-')}-{w[0]}": w[1](CUBE, CUBE_FACES) for name, w in WRITERS.items()}
    files |= {f"{case.replace(' ', '-')}-a.stl": content for case, content in STLS.items()}
    files |= {f"{case.replace(' ', '-')}-a.off": "\n".join([*lines, ""]).encode() for case, lines in OFFS.items()}
    files |= {f"{binary}-a.msh": gmsh41({1: [7]}, binary) for binary in (False, True)}
    files |= {f"{form}{packed}-a.vtp": Vtp(form, packed, header).file() for form, packed, header in VTPS}
    panels = "".join(f"Q face {' '.join(map(str, CUBE[f].ravel()))}\n" for f in CUBE_FACES)
    files["a.qui"] = f"0 cube\n* faces\n{panels}N face box\n".encode()
    files["a.lst"] = f"C b.qui 1 0 0 0 +\nD b.qui 1 2 0 0 9 .5 .5 9.5 -\nFile b.qui\n0 cube\n{panels}End\n".encode()
    files["data-a.vtk"] = vtk(CUBE, CUBE_FACES, False, "3.0", True, data=True)
    return files


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files(seed: int, tmp_path: Path) -> None:
    """Each is read, or refused with its name; never another exception, nor memory out of proportion."""
    rng = np.random.default_rng(seed)
    warnings.simplefilter("ignore", RuntimeWarning)
    for name, content in whole_files().items():
        for _ in range(6):
            data = bytearray(content)
            kind = rng.integers(4)
            place = int(rng.integers(len(data)))
            if kind == 0:
                del data[place:]
            elif kind == 1:
                data[place : place + int(rng.integers(1, 9))] = rng.bytes(int(rng.integers(1, 9)))
            elif kind == 2:
                data[place] = rng.choice(list(b"0123456789-.e \n"))
            else:
                data[place : place + 1] = b"9999999"
            (tmp_path / name).write_bytes(bytes(data))
            tracemalloc.start()
            refusal = name
            try:
                meshes.read(tmp_path / name)
            except InputError as error:
                refusal = str(error)
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert name in refusal
            # meshio indexes nodes by their numbers, up to a limit of 2^28 bytes (mesh_guard).
            assert peak < (1 << 29 if name.endswith(".msh") else 1 << 24), (name, bytes(data))


def test_counts_in_ply_headers(tmp_path: Path) -> None:
    for body, match in [
        (b"element vertex 3\nproperty float x\nproperty float y\nend_header\n0 0\n1 0\n", "element vertex"),
        (b"element vertex 99999999999999\nproperty float x\nend_header\n0\n", "99999999999999 elements of kind vertex"),
        (b"element vertex 1\nproperty quad x\nend_header\n0\n", "line 4: not understood"),
        (b"element face 1\nproperty list uchar int vertex_indices\nend_header\n3 0 1 2\n", "no element vertex"),
        (b"element vertex 1\nproperty float a\nend_header\n0\n", "x, y and z are needed"),
        (b"element vertex 1\nproperty float x\nproperty float y\nend_header\n0 0\n", "no element face"),
        (b"element vertex 1\nproperty float x\nproperty float y\nelement face 0\n"
         b"property list uchar int vertex_indices\nend_header\n0 0\n", "no triangles"),
    ]:  # fmt: skip
        (tmp_path / "a.ply").write_bytes(b"ply\nformat ascii 1.0\n" + body)
        with pytest.raises(InputError, match=match):
            meshes.read(tmp_path / "a.ply")
