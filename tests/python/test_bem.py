"""Boundary elements against known solutions: capacitances, eigenvalues, charges in a field; meshes, the command."""

from __future__ import annotations

import doctest
import inspect
import json
import math
import os
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import needs_mpi, refused
from cli_support import tacit as run
from conftest import ROOT

import tacit
from tacit.app import bem, meshes

meshio = pytest.importorskip("meshio")
SHARED = Path(os.environ.get("TACIT_TEST_SHARED", ROOT.parent / "shared")) / "data" / "bem"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no {SHARED}")


def pair_capacitance(a: float, d: float) -> tuple[float, float]:
    """c11 and c12 of two spheres of radius a whose centres are d apart, by images."""
    b = math.acosh(d / (2 * a))
    odd = sum(1 / math.sinh((2 * n - 1) * b) for n in range(1, 400) if (2 * n - 1) * b < 700)
    even = sum(1 / math.sinh(2 * n * b) for n in range(1, 400) if 2 * n * b < 700)
    return a * math.sinh(b) * odd, -a * math.sinh(b) * even


# --- known solutions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discretisation", ["collocation", "galerkin"])
def test_sphere_is_second_order(discretisation: str) -> None:
    errors = [
        1 - bem.solve(bem.sphere(cuts), tolerance=1e-6, discretisation=discretisation, rtol=1e-8).charge[0]
        for cuts in (3, 6, 12)
    ]
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.25)
    assert errors[1] / errors[2] == pytest.approx(4, abs=0.15)
    assert errors[2] < 2e-3


@pytest.mark.slow
def test_anchor_sphere() -> None:
    """10,580 triangles: three other codes agree on 0.9995937."""
    charges = bem.solve(bem.sphere(23), tolerance=1e-6)
    assert charges.converged
    assert charges.charge[0] == pytest.approx(0.9995937, abs=3e-7)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
def test_eigenvalues_of_the_sphere(degree: int) -> None:
    """A Y_lm = a / (2 l + 1) Y_lm, m = 0 and m = l, at second order."""
    errors = []
    for cuts in (6, 12):
        system = bem.assemble(bem.sphere(cuts, 2.0), tolerance=1e-6)
        p = system.mesh.centroids[system.order]
        p /= np.linalg.norm(p, axis=1)[:, None]
        worst = 0.0
        for y in (
            np.polynomial.legendre.Legendre.basis(degree)(p[:, 2]),
            ((p[:, 0] + 1j * p[:, 1]) ** degree).real,
        ):
            value = (y @ (system.A @ y)) / (y @ y)
            worst = max(worst, abs(value - 2 / (2 * degree + 1)))
        errors.append(worst)
    assert errors[1] < 0.008
    assert errors[0] / errors[1] > 3


@pytest.mark.parametrize(
    ("axes", "exact"),
    [((1, 1, 2), 1.3151907222), ((2, 2, 1), 1.6539866863)],
)
def test_ellipsoids(axes: tuple[float, float, float], exact: float) -> None:
    errors = [exact - bem.solve(bem.ellipsoid(cuts, *axes), tolerance=1e-5).charge[0] for cuts in (5, 10)]
    assert abs(errors[1]) < 5e-3 * exact
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.5)


def test_cube() -> None:
    """Helsing and Perfekt (2013); small triangles at the edges resolve the singularity there."""
    graded = bem.solve(bem.cube(10, grading=2.5), tolerance=1e-5, rtol=1e-6).charge[0]
    even = bem.solve(bem.cube(10), tolerance=1e-5, rtol=1e-6).charge[0]
    assert graded == pytest.approx(0.6606782, abs=1.5e-3)
    assert abs(graded - 0.6606782) < abs(even - 0.6606782) / 3


@pytest.mark.parametrize(
    ("a", "d", "within", "order"), [(0.25, 1.0, 0.004, 1.9), (1.0, 3.0, 0.004, 1.9), (1.0, 2.01, 0.06, 0.9)]
)
def test_pairs_of_spheres(a: float, d: float, within: float, order: float) -> None:
    """Second order; less where triangles are larger than the gap."""
    exact = pair_capacitance(a, d)
    errors = []
    for cuts in (5, 10):
        system = bem.assemble(bem.sphere_pair(cuts, a, d), tolerance=1e-5)
        c = system.capacitance(rtol=1e-7)
        assert c.converged
        assert c.asymmetry < 1e-4
        errors.append(np.abs(c.matrix - [exact, exact[::-1]]).max() / exact[0])
    assert errors[1] < within
    assert np.log2(errors[0] / errors[1]) > order
    charges = system.solve([1.0, -1.0])
    assert charges.charge[0] == pytest.approx(c.matrix[0, 0] - c.matrix[0, 1], rel=1e-5)
    assert abs(charges.charge.sum()) < 1e-5


def test_known_values_of_pairs() -> None:
    assert pair_capacitance(0.25, 1.0) == pytest.approx((0.267955362985243, -0.067309590284364), abs=1e-13)
    assert pair_capacitance(1.0, 2.01) == pytest.approx((2.136670826375427, -1.442786042250584), abs=1e-12)


@needs_shared
@pytest.mark.parametrize(
    ("file", "charge"),
    [("input_sample.pbf", [-0.32841118, 0.32841118]), ("input_1ts.pbf", [9.955107])],
)
def test_inputs_of_others(file: str, charge: list[float]) -> None:
    mesh = bem.read(SHARED / file)
    charges = bem.solve(mesh, mesh.cell_data["potential"], tolerance=1e-7, rtol=1e-8)
    np.testing.assert_allclose(charges.charge, charge, rtol=2e-6)
    assert mesh.surface["closed"]


@pytest.mark.slow
@needs_shared
def test_human() -> None:
    mesh = bem.read(SHARED / "human.obj")
    assert len(mesh) == 26_756
    charges = bem.solve(mesh)
    assert charges.charge[0] == pytest.approx(4.0577, abs=2e-4)
    assert charges.iterations <= 45
    grid = mesh.copies((2, 1), up="y")
    assert grid.surface["components"] == 2


def test_sphere_in_a_field() -> None:
    """sigma = 3 eps0 E cos(theta), no field within, a dipole 4 pi eps0 a^3 E without, grounded or floating."""
    system = bem.assemble(bem.sphere(12, 2.0), tolerance=1e-5)
    z = system.mesh.centroids[:, 2] / np.linalg.norm(system.mesh.centroids, axis=1)
    for floating in (False, True):
        charges = system.solve(field=(0, 0, 5.0), floating=floating, rtol=1e-6)
        assert charges.converged
        assert np.abs(charges.density - 15 * z).max() < 0.15
        assert abs(charges.charge[0]) < 1e-4
        assert np.abs(charges.field_at([[0.1, 0.2, 0.3], [0, 0.5, -0.5]])).max() < 0.02
        far = np.array([[3.0, 4.0, 12.0]])
        dipole = 5 * 8 * far[0, 2] / 13**3
        assert charges.potential_at(far)[0] == pytest.approx(-5 * 12 + dipole, abs=5e-3)
    # A given potential, where that of the field is not 0.
    off = system.solve(field=(0, 0, 5.0), origin=(0, 0, 1.0), floating=True, rtol=1e-6)
    assert off.potential[0] == pytest.approx(5.0, abs=1e-3)
    charged = system.solve(floating=[0], net_charge=3.0, rtol=1e-6)
    assert charged.potential[0] == pytest.approx(3 / 2 / (1 - 0.0015), abs=5e-3)
    assert charged.charge[0] == pytest.approx(3.0)


def test_grounded_plane() -> None:
    """A sphere above it is half of a pair; in a field it is what raises charge out of the ground."""
    c11, c12 = pair_capacitance(1.0, 3.0)
    system = bem.assemble(bem.sphere(10).moved((0, 0, 1.5)), tolerance=1e-5, plane=("z", 0))
    charges = system.solve(1.0, rtol=1e-6)
    assert charges.charge[0] == pytest.approx(c11 - c12, rel=4e-3)
    assert charges.potential_at([[0.3, 2.0, 0.0]])[0] == pytest.approx(0, abs=1e-9)
    assert charges.potential_at([[0, 0, 1.4]])[0] == pytest.approx(1, abs=1e-3)
    raised = system.solve(field=(0, 0, -1.0))
    assert raised.charge[0] < 0
    assert raised.potential_at([[0, 0, 1.5]])[0] == pytest.approx(0, abs=2e-3)
    with pytest.raises(ValueError, match="along z"):
        system.solve(field=(1.0, 0, 0))
    with pytest.raises(tacit.InputError, match="beyond the grounded plane"):
        bem.assemble(bem.sphere(4), plane=("z", 0))


@pytest.mark.parametrize("discretisation", ["collocation", "galerkin"])
def test_matrix_is_that_of_its_entries(discretisation: str) -> None:
    """Many tolerances, scalars and admissibilities against the same matrix kept dense; Galerkin's is symmetric."""
    mesh = bem.sphere_pair(4)
    kept = bem.assemble(mesh, tolerance=1e-9, admissibility="none", storage="full", discretisation=discretisation)
    dense = np.column_stack([kept.A @ e for e in np.eye(len(mesh))])
    if discretisation == "galerkin":
        np.testing.assert_allclose(dense, dense.T, atol=1e-9 * dense.max())
        assert np.linalg.eigvalsh(dense).min() > 0
    for options in (
        {"tolerance": 1e-3},
        {"tolerance": 1e-6, "measure": "block"},
        {"tolerance": 1e-5, "scalar": "float32"},
    ):
        system = bem.assemble(mesh, leaf_size=16, discretisation=discretisation, **options)  # type: ignore[arg-type]
        x = np.cos(np.arange(len(mesh))).astype(system.A.dtype)
        # Both in the mesh's own order, since another leaf size gives another tree.
        truth, value = np.empty(len(mesh)), np.empty(len(mesh))
        truth[kept.order] = dense @ x[kept.order]
        value[system.order] = system.A @ x[system.order]
        assert np.linalg.norm(value - truth) < 3 * options["tolerance"] * np.linalg.norm(dense)  # type: ignore[operator]


def test_galerkin_by_cg_is_collocation_to_the_discretisation() -> None:
    mesh = bem.ellipsoid(6, 1, 2, 3)
    one = bem.solve(mesh, discretisation="galerkin", method="cg", rtol=1e-6, tolerance=1e-6)
    two = bem.solve(mesh, rtol=1e-6)
    assert one.method == "cg"
    assert one.charge[0] == pytest.approx(two.charge[0], rel=5e-3)
    np.testing.assert_allclose(one.density, two.density, rtol=0.1)


def test_gauss_and_jumps() -> None:
    """The field's flux through a sphere around the bodies is their charge; it jumps by sigma on them."""
    charges = bem.solve(bem.sphere_pair(8, 1.0, 3.0), [2.0, -0.5], rtol=1e-6)
    around = bem.sphere(12, 5.0)
    outwards = around.normals
    flux = float((charges.field_at(around.centroids) * outwards).sum())
    assert flux / (4 * np.pi) == pytest.approx(charges.charge.sum(), rel=5e-3)
    mesh = charges.system.mesh
    n = mesh.normals / mesh.areas[:, None]
    outside = charges.field_at(mesh.centroids[:50] + 1e-6 * n[:50])
    np.testing.assert_allclose((outside * n[:50]).sum(axis=1), charges.density[:50], rtol=0.05)


# --- problems and conductors ------------------------------------------------------------------------------------------


def test_conductors() -> None:
    mesh = bem.sphere_pair(4)
    half = np.arange(len(mesh)) // (len(mesh) // 4)
    assert bem.assemble(mesh).conductors == 2
    assert bem.assemble(mesh, conductors="one").conductors == 1
    system = bem.assemble(mesh, conductors=half * 7 - 3)
    assert system.conductors == 4
    np.testing.assert_array_equal(system.conductor, half)
    one, two = system.solve([1, 1, -1, -1]), bem.solve(mesh, [1, -1])
    assert one.charge[:2].sum() == pytest.approx(two.charge[0])
    by_triangle = system.solve(np.where(half < 2, 1.0, -1.0))
    np.testing.assert_allclose(by_triangle.charge, one.charge)
    assert np.isnan(bem.assemble(mesh, conductors="one").solve(np.where(half < 2, 1.0, -1.0)).potential[0])
    named = bem.Mesh(mesh.vertices, mesh.triangles, {"part": half})
    assert bem.assemble(named, conductors="part").conductors == 4


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: bem.solve(m, [1, 2, 3]), "one for each of 2 conductors"),
        (lambda m: bem.solve(m, np.nan), "not finite"),
        (lambda m: bem.solve(m, floating=[2]), "conductors are 0 to 1"),
        (lambda m: bem.solve(m, np.full(len(m), np.nan)), "not finite"),
        (lambda m: bem.solve(m, 1j), "real numbers"),
        (lambda m: bem.solve(m, floating=True, net_charge=np.nan), "not finite"),
        (lambda m: bem.solve(m, floating=True, net_charge=[1, 2, 3]), "2 conductors float"),
        (lambda m: bem.solve(m, net_charge=1.0), "none does"),
        (lambda m: bem.solve(m, floating="1"), "a list of conductors"),
        (lambda m: bem.solve(m, floating=1), "a list of conductors"),
        (lambda m: bem.assemble(m).capacitance(field=(0, 0, 1)), "field is of a solve"),
        (lambda m: bem.settled_capacitance(m, 0.1, floating=True), "floating is of a solve"),
        (lambda m: bem.solve(m, plane="z"), "an axis and a coordinate"),
        (lambda m: bem.solve(m, plane=("z", np.nan)), "a finite coordinate"),
        (lambda m: bem.solve(m, mirror=("x", -3.0)), "an axis and a coordinate"),
        (lambda m: bem.solve(m, 1.0).section(("x", np.nan)), "a finite coordinate"),
        (lambda m: bem.solve(m, 1.0).potential_at([[1e300, 0, 0]]), "below 1e\\+150"),
        (lambda m: bem.sphere(100_000_000), "too many"),
        (lambda m: bem.ring_sphere(3, 100_000), "too many"),
        (lambda m: bem.cube(100_000_000), "too many"),
        (lambda m: m.copies((2_000_000_000, 2_000_000_000)), "too many"),
        (lambda m: bem.sphere(3, np.inf), "finite"),
        (lambda m: bem.solve(m, field=(1, 2)), "three numbers"),
        (lambda m: bem.solve(m, tolerance=2.0), "tolerance"),
        (lambda m: bem.solve(m, discretisation="nystrom"), "discretisation"),
        (lambda m: bem.solve(m, conductors="parts"), "components"),
        (lambda m: bem.solve(m, conductors=[1, 2]), "a whole number for each"),
        (lambda m: bem.solve(m, plane=("w", 0)), "axis"),
        (lambda m: bem.solve(m, scalar="complex128"), "float64 or float32"),
        (lambda m: bem.solve(m, quadrature=0.0), "quadrature"),
        (lambda m: bem.solve(m, assembly="gpu"), "assembly"),
        (lambda m: bem.solve(m, assembly="virtual", discretisation="galerkin"), "galerkin was asked for"),
        (lambda m: bem.solve(m, assembly="virtual", compression="svd"), "svd was asked for"),
        (lambda m: bem.sphere_pair(3, 1.0, 2.0), "meet"),
        (lambda m: m.copies((0, 2)), "positive"),
        (lambda m: m.copies((1, 2), gap=-1.0), "must not meet"),
        (lambda m: bem.Mesh(m.vertices, m.triangles[:, :2]), "shape"),
        (lambda m: bem.Mesh(m.vertices[:3], m.triangles), "there are 0 to 2"),
        (lambda m: bem.solve(m, 1.0).potential_at([1, 2]), r"shape \(n, 3\)"),
    ],
)
def test_wrong_use(call: Callable[[bem.Mesh], Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        call(bem.sphere_pair(2))


def test_faults_of_meshes() -> None:
    good = bem.sphere(3)
    flat = bem.Mesh(good.vertices, np.vstack([good.triangles, [[0, 1, 1]]]))
    with pytest.raises(tacit.InputError, match=r"1 triangles without area .the first is 180."):
        bem.solve(flat)
    twice = bem.Mesh(good.vertices, np.vstack([good.triangles, good.triangles[7, ::-1]]), {"mark": np.arange(181)})
    with pytest.raises(tacit.InputError, match=r"repeat others .the first is 180."):
        bem.solve(twice)
    mended = twice.mended()
    np.testing.assert_array_equal(mended.cell_data["mark"], np.arange(180))
    assert mended.surface["closed"]
    assert mended.surface["oriented"]
    # Every triangle with corners of its own, as in an STL: one body all the same.
    loose = bem.Mesh(good.vertices[good.triangles].reshape(-1, 3), np.arange(540).reshape(-1, 3))
    assert loose.surface["components"] == 1
    assert "at the place of others" in " ".join(loose.notes())
    assert bem.solve(loose).charge[0] == pytest.approx(bem.solve(good).charge[0], rel=1e-12)
    galerkin = [bem.solve(m, discretisation="galerkin").charge[0] for m in (loose, good)]
    assert galerkin[0] == pytest.approx(galerkin[1], rel=1e-12)
    wrong = good.vertices.copy()
    wrong[5, 1] = np.nan
    with pytest.raises(tacit.InputError, match="vertex 5"):
        bem.solve(bem.Mesh(wrong, good.triangles))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".vtu", ".vtk", ".xdmf"])
def test_writes_one_file_of_values(suffix: str, tmp_path: Path) -> None:
    mesh = bem.sphere(3)
    mesh.write(tmp_path / f"a{suffix}", {"area": mesh.areas})
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"]
    np.testing.assert_allclose(bem.read(tmp_path / f"a{suffix}").cell_data["area"], mesh.areas, rtol=1e-12)


def test_formats_that_are_not_written(tmp_path: Path) -> None:
    for name, text in [("a.vtp", "not written as .vtp; .vtu"), ("a", "not written as files without a suffix")]:
        with pytest.raises(ValueError, match=text):
            bem.sphere(2).write(tmp_path / name)
    assert ".vtu" in refused("bem", "sphere:2", "--vtu", "a.vtp", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "options"),
    [(s, {}) for s in (".vtu", ".off", ".obj")]
    + [(s, {"binary": b}) for s in (".stl", ".ply", ".vtk") for b in (False, True)]
    + [(".msh", {"file_format": f, "binary": b}) for f in ("gmsh22", "gmsh") for b in (False, True)],
)
def test_reads_what_meshio_writes(suffix: str, options: dict[str, Any], tmp_path: Path) -> None:
    mesh = bem.sphere_pair(3)
    path = tmp_path / f"pair{suffix}"
    meshio.Mesh(mesh.vertices, [("triangle", mesh.triangles)]).write(path, **options)
    read = bem.read(path)
    assert len(read) == len(mesh)
    assert read.surface["components"] == 2
    assert read.surface["closed"]
    np.testing.assert_allclose(np.sort(read.areas), np.sort(mesh.areas), rtol=1e-5)


def test_reads_physical_groups_and_quadrangles(tmp_path: Path) -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0], [2, 1, 0.0]])
    made = meshio.Mesh(
        points,
        [("line", np.array([[0, 1]])), ("triangle", np.array([[1, 4, 5]])), ("quad", np.array([[0, 1, 2, 3]]))],
        cell_data={"gmsh:physical": [np.array([9]), np.array([2]), np.array([1])], "gmsh:geometrical": [[1], [2], [3]]},
    )
    made.write(tmp_path / "a.msh", file_format="gmsh22", binary=False)
    mesh = bem.read(tmp_path / "a.msh")
    assert len(mesh) == 3
    np.testing.assert_array_equal(mesh.cell_data["gmsh:physical"], [2, 1, 1])
    assert mesh.areas.sum() == pytest.approx(1.5)


MANY = 2_000_000_000
FALSE_COUNTS: dict[str, tuple[str, bytes]] = {
    "vertices of an OFF": ("a.off", b"OFF\n%d 1 0\n0 0 0\n3 0 1 2\n" % MANY),
    "faces of an OFF": ("a.off", b"OFF\n# a comment\n\n3 %d 0\n0 0 0 1 0 0 0 1 0\n3 0 1 2\n" % MANY),
    "nodes of gmsh 2": ("a.msh", b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n%d\n1 0 0 0\n$EndNodes\n" % MANY),
    "nodes of gmsh 2, binary": (
        "a.msh",
        b"$MeshFormat\n2.2 1 8\n\1\0\0\0\n$EndMeshFormat\n$Nodes\n%d\n" % MANY + bytes(28) + b"\n$EndNodes\n",
    ),
    "elements of gmsh 2, binary": (
        "a.msh",
        b"$MeshFormat\n2.2 1 8\n\1\0\0\0\n$EndMeshFormat\n$Nodes\n1\n" + bytes(28) + b"\n$EndNodes\n$Elements\n1\n"
        + struct.pack("<3i", 2, MANY, 2) + b"\n$EndElements\n",
    ),
    "nodes of gmsh 4": (
        "a.msh",
        b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 %d 1 2\n2 1 0 2\n1\n2\n0 0 0\n1 0 0\n$EndNodes\n" % MANY,
    ),
    "nodes of a block of gmsh 4": (
        "a.msh",
        b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 2 1 2\n2 1 0 %d\n1\n2\n0 0 0\n1 0 0\n$EndNodes\n" % MANY,
    ),
    "elements of a block of gmsh 4": (
        "a.msh",
        b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 1 1 1\n2 1 0 1\n1\n0 0 0\n$EndNodes\n"
        b"$Elements\n1 1 1 1\n2 1 2 %d\n1 1 1 1\n$EndElements\n" % MANY,
    ),
    "nodes of gmsh 4, binary": (
        "a.msh",
        b"$MeshFormat\n4.1 1 8\n\1\0\0\0\n$EndMeshFormat\n$Nodes\n" + struct.pack("<4Q", 1, MANY, 1, 2)
        + b"\n$EndNodes\n",
    ),
    "vertices of a PLY": (
        "a.ply",
        b"ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty float x\nproperty float y\n"
        b"property float z\nend_header\n" % MANY,
    ),
    "points of a VTK": (
        "a.vtk", b"# vtk DataFile Version 3.0\nx\nBINARY\nDATASET POLYDATA\nPOINTS %d double\n" % MANY + bytes(24),
    ),
    "triangles of an STL": ("a.stl", bytes(80) + struct.pack("<I", MANY) + bytes(50)),
    "triangles of an STL that is short": ("a.stl", bytes(80)),
    "triangles of an STL that has more": ("a.stl", bytes(80) + struct.pack("<I", 1) + bytes(100)),
    "triangles of an STL that begins as text": ("a.stl", b"solid".ljust(80) + struct.pack("<I", 7) + bytes(50)),
}  # fmt: skip


@pytest.mark.parametrize("case", FALSE_COUNTS)
def test_counts_that_a_file_cannot_hold(case: str, tmp_path: Path) -> None:
    """They are refused before memory is allocated, with the count and the bytes of the file."""
    name, content = FALSE_COUNTS[case]
    (tmp_path / name).write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(tacit.InputError) as refused:
            bem.read(tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    claimed = {"more": 1, "text": 7, "short": 84}.get(case.split()[-1], MANY)
    assert re.search(rf"{name}: .*\b{claimed}\b", str(refused.value)), refused.value
    assert f"the file has {len(content)} bytes" in str(refused.value)
    assert peak < 1 << 24


# Files with false claims: suffix, bytes, and the text of the refusal.
BIG = 4_000_000_000
UNBELIEVABLE: dict[str, tuple[str, bytes, str]] = {
    "PLY that is cut": ("a.ply", b"ply\n", "line 1: the file ends where more is expected"),
    "OFF that is cut": ("a.off", b"OFF\n", "line 1: the file ends where more is expected"),
    "Tecplot that is cut": (
        "a.dat",
        b'TITLE = "x"\nVARIABLES = "X", "Y", "Z"\nZONE NODES = 3, ELEMENTS = 1,\n'
        b"DATAPACKING = BLOCK, ZONETYPE = FETRIANGLE\n0 1 0\n0 0 1\n",
        "line 6: the file ends where more is expected",
    ),
    "PLY that lacks faces": (
        "a.ply",
        b"ply\nformat binary_little_endian 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
        b"property float z\nelement face 2\nproperty list uchar int vertex_indices\nend_header\n"
        + np.eye(3, dtype="<f4").tobytes() + b"\3" + struct.pack("<3i", 0, 1, 2),
        "says that it holds 2 elements of kind face; 1 are there",
    ),
    "STL without an end": ("a.stl", b"solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
                           b"endloop\nendfacet\n", "line 9: the file ends without endsolid"),
    "numbers that end": ("a.off", b"OFF\n3 1 0\n0 0 0 1 0 0 zero one none\n3 0 1 2\n", "9 numbers are announced"),
    "WKT that is cut": (
        "a.wkt", b"TIN (" + b"((0.123456789 0 0, 1 0 0, 0 1 0, 0 0 0))," * 9 + b" ((0 0 0, 1", "behind 9 triangles",
    ),
    "Medit": ("a.mesh", b"MeshVersionFormatted 2\nDimension 3\nVertices\n%d\n0 0 0 1\n" % BIG, f"{4 * BIG} numbers"),
    "Medit, binary": (
        "a.meshb", struct.pack("<8i", 1, 2, 3, 0, 3, 4, 0, MANY), f"{MANY} numbers .*at least {28 * MANY} bytes; 0 ",
    ),
    "TetGen": ("a.node", b"%d 3 0 0\n1 0 0 0\n" % BIG, f"line 1: {4 * BIG} numbers"),
    "SU2": ("a.su2", b"NDIME= 3\nNPOIN= %d\n0 0 0\n" % BIG, f"line 3: {3 * (BIG - 1)} numbers"),
    "Netgen": ("a.vol", b"mesh3d\ndimension\n3\npoints\n%d\n0 0 0\n" % BIG, f"{BIG} numbers"),
    "DOLFIN": (
        "a.xml", b'<dolfin><mesh celltype="triangle" dim="3"><vertices size="%d"/></mesh></dolfin>' % BIG, f"{BIG} x 3",
    ),
    "a set of Abaqus": (
        "a.inp", b"*NODE\n1, 0, 0, 0\n2, 1, 0, 0\n3, 0, 1, 0\n*ELEMENT, TYPE=S3\n1, 1, 2, 3\n"
        b"*NSET, NSET=all, GENERATE\n1, %d, 1\n" % MANY, f"{MANY} numbers",
    ),
    "a grid of VTK": (
        "a.vtk", b"# vtk DataFile Version 3.0\nx\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 100000 100000 1\n"
        b"ORIGIN 0 0 0\nSPACING 1 1 1\n", "numbers are announced",
    ),
    "numbers of nodes of gmsh": (
        "a.msh", b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n1\n%d 0 0 0\n$EndNodes\n$Elements\n1\n"
        b"1 15 2 0 0 %d\n$EndElements\n" % (MANY, MANY), f"{MANY} numbers",
    ),
}  # fmt: skip

# Runs in a process of its own: the alarm ends a reader that hangs, the limit one that allocates too much.
BOUNDED = """
    import contextlib, io, resource, signal, sys, time
    from pathlib import Path
    from tacit import InputError, bem

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30),) * 2)
    for path in sorted(Path(sys.argv[1] if len(sys.argv) > 1 else "files").rglob("*.*")):
        print(path, end=": ", flush=True)
        signal.alarm(20)
        try:
            print("triangles", len(bem.read(path)))
        except InputError as error:
            print("refused", error)
"""


def test_unbelievable_files(tmp_path: Path, python: Callable[..., Any]) -> None:
    """They are refused at once, with the place, and without allocating the memory that they claim."""
    for number, (name, content, _) in enumerate(UNBELIEVABLE.values()):
        folder = tmp_path / "files" / f"{number:02}"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(content)
    (tmp_path / "files" / "09" / "a.ele").touch()
    said = [line for line in python(BOUNDED).stdout.splitlines() if "a.ele: " not in line]
    assert len(said) == len(UNBELIEVABLE)
    for line, (case, (name, _, text)) in zip(said, UNBELIEVABLE.items(), strict=True):
        assert re.search(rf"{name}: refused .*{name}: .*{text}", line), (case, line)
        assert "Unable to allocate" not in line


def test_hdf5_arrays_that_were_never_written(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    mesh = bem.sphere(2)
    meshio.Mesh(mesh.vertices, [("triangle", mesh.triangles)]).write(tmp_path / "a.xdmf")
    assert len(bem.read(tmp_path / "a.xdmf")) == len(mesh)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["data0"]
        file.create_dataset("data0", (BIG, 3), "f8", chunks=(1000, 3))
    with pytest.raises(tacit.InputError, match=rf"a.xdmf: /data0 has {BIG} x 3 numbers, {24 * BIG} bytes; 0 bytes"):
        bem.read(tmp_path / "a.xdmf")


# Formats that state their sizes: a truncated file is refused.
COUNTED = [".vtu", ".off", ".ply", ".vtk", ".msh", ".mdpa", ".avs", ".mesh", ".meshb", ".vol", ".dat", ".ugrid", ".xml"]
UNCOUNTED = [".stl", ".obj", ".inp", ".bdf", ".post", ".wkt", ".vol.gz", ".xdmf", ".cgns", ".hmf", ".med"]


def test_files_that_are_cut(tmp_path: Path, python: Callable[..., Any]) -> None:
    """None hangs, asks for memory without end, or ends in another error; a count that is not met is one."""
    mesh = bem.sphere(2)
    made = meshio.Mesh(mesh.vertices, [("triangle", mesh.triangles)])
    for suffix in COUNTED + UNCOUNTED:
        whole = tmp_path / f"whole{suffix}"
        try:
            made.write(whole)
        except (ImportError, AssertionError, AttributeError):  # without h5py, and where meshio fails with this NumPy
            continue
        content = whole.read_bytes()
        for share in range(8):
            folder = tmp_path / "files" / f"{share}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"a{suffix}").write_bytes(content[: len(content) * share // 8])
    said = python(BOUNDED).stdout.splitlines()
    assert len(said) > 150
    for line in said:
        assert ": refused " in line or Path(line.partition(": ")[0]).suffix not in COUNTED, line


@pytest.mark.parametrize("suffix", ["off", "stl", "vtk", "vtu", "msh"])
def test_coordinates_that_are_not_finite(suffix: str, tmp_path: Path) -> None:
    """With the file, the vertex, and a face of it."""
    mesh = bem.sphere(2)
    vertices = mesh.vertices.copy()
    vertices[7, 1] = np.nan
    path = tmp_path / f"a.{suffix}"
    if suffix == "off":
        rows = [" ".join(map(str, row)) for row in vertices] + [f"3 {a} {b} {c}" for a, b, c in mesh.triangles]
        path.write_text("\n".join([f"OFF {len(vertices)} {len(mesh)} 0", *rows, ""]))
    else:
        how = {"file_format": "gmsh22", "binary": False} if suffix == "msh" else {}
        meshio.Mesh(vertices, [("triangle", mesh.triangles)]).write(path, **how)
    with pytest.raises(tacit.InputError, match=rf"a\.{suffix}: vertex \d+, a corner of fac.* is at .*nan"):
        bem.read(path)


def test_refuses_files(tmp_path: Path) -> None:
    def refused(name: str, text: str, match: str) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(tacit.InputError, match=match):
            bem.read(tmp_path / name)

    refused("a.stl", "nothing", "a.stl: line 1: a .stl file of text begins with")
    refused("void.stl", "solid void\nendsolid void\n", "void.stl: no triangles: the file has no cells")
    refused("a.foo", "nothing", r"known suffixes: .* \.pbf")
    refused("a.msh", "nothing", "a.msh: not read by meshio")
    refused("a.pbf", "3 0 0 0", "a coordinate is missing")
    refused("a.obj", "v 0 0 0\n", "no triangles")
    refused("b.obj", "v 0 0 0\nf 1 2 3\n", "line 2 has vertex 2 of 1")
    for name in ("void.msh", "void.obj", "void.vtu", "void.lst"):
        refused(name, "", f"{name}: the file is empty")
    with pytest.raises(tacit.InputError, match="a folder"):
        bem.read(tmp_path)
    with pytest.raises(FileNotFoundError):
        bem.read(tmp_path / "none.stl")
    tetra = meshio.Mesh(np.eye(4, 3), [("tetra", np.array([[0, 1, 2, 3]]))])
    tetra.write(tmp_path / "t.vtu")
    with pytest.raises(tacit.InputError, match=r"only tetra; write the surface"):
        bem.read(tmp_path / "t.vtu")


@pytest.mark.slow
def test_writes_and_draws(tmp_path: Path) -> None:
    charges = bem.solve(bem.sphere_pair(5), [1.0, -2.0])
    charges.write(tmp_path / "a.vtu")
    back = bem.read(tmp_path / "a.vtu")
    np.testing.assert_allclose(back.cell_data["charge_density"], charges.density)
    np.testing.assert_array_equal(back.cell_data["conductor"], charges.system.conductor)
    np.testing.assert_array_equal(np.unique(back.cell_data["potential"]), [-2, 1])
    from PIL import Image

    for up in "xyz":
        charges.plot(tmp_path / f"{up}.png", up)
        pixels = np.asarray(Image.open(tmp_path / f"{up}.png").convert("RGB")).reshape(-1, 3)
        assert len(np.unique(pixels, axis=0)) > 200
        assert (pixels[:, 0] > pixels[:, 2] + 40).any()  # red, where the charge is positive
        assert (pixels[:, 2] > pixels[:, 0] + 40).any()


def test_bodies_by_name() -> None:
    assert len(bem.body("sphere:3")) == 180
    assert bem.body("sphere:3,radius=2").surface["high"][2] == pytest.approx(2, abs=0.2)
    assert len(bem.body("ring-sphere:5,10,10")) == 1000
    assert bem.body("ellipsoid:6,a=2,c=3").surface["volume"] == pytest.approx(8 * np.pi, rel=0.05)
    assert bem.body("cube:4,side=3,grading=2").surface["volume"] == pytest.approx(27)
    assert bem.body("sphere-pair:2,0.5,4").surface["components"] == 2
    for wrong, text in [
        ("spher:3", "did you mean"),
        ("sphere", "needs cuts"),
        ("sphere:a", "a number"),
        ("sphere:3,4,5", "2 numbers"),
        ("cube:3,siide=2", "did you mean"),
    ]:
        with pytest.raises(ValueError, match=text):
            bem.body(wrong)


def test_assembly_on_a_device_that_the_processor_plays() -> None:
    mesh = bem.sphere_pair(6)
    systems = [bem.assemble(mesh, assembly=a, tolerance=1e-5, leaf_size=32) for a in ("host", "virtual")]
    host, device = (s.A.report for s in systems)
    assert device["low_rank_blocks"] == host["low_rank_blocks"] > 0
    assert device["bytes"] == pytest.approx(host["bytes"], rel=0.01)
    assert device["measured_error"] <= 1e-5
    a, b = (s.solve([1, -1]).charge for s in systems)
    np.testing.assert_allclose(a, b, rtol=1e-5)
    if not tacit._core.cuda_built:
        with pytest.raises(tacit.EnvironmentFailure, match="without CUDA"):
            bem.assemble(mesh, assembly="cuda")


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_ranks_agree() -> None:
    alone = bem.solve(bem.sphere_pair(5), [1, -1], tolerance=1e-6, rtol=1e-8)
    points = np.array([[0, 0, 0.1], [1, 2, 3.0], [0.1, 0.1, -2]])

    def rank(comm: Any) -> tuple[Any, ...]:
        charges = bem.solve(bem.sphere_pair(5), [1, -1], tolerance=1e-6, rtol=1e-8, comm=comm, threads=1)
        return charges.density, charges.charge, charges.potential_at(points), charges.field_at(points)

    for ranks in (2, 3):
        for density, charge, potential, field in tacit.comm.run_threads(ranks, rank):
            np.testing.assert_allclose(density, alone.density, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(charge, alone.charge, rtol=1e-6)
            np.testing.assert_allclose(potential, alone.potential_at(points), atol=1e-6)
            np.testing.assert_allclose(field, alone.field_at(points), atol=1e-5)


def test_ranks_refuse_different_meshes() -> None:
    def rank(comm: Any) -> str:
        with pytest.raises(ValueError, match=r"vertices is an array of shape \(92, 3\) on rank 0 and") as caught:
            bem.assemble(bem.sphere(3 + comm.rank), comm=comm)
        return str(caught.value)

    assert len(set(tacit.comm.run_threads(2, rank))) == 1


def test_documentation() -> None:
    for module in (bem, meshes):
        failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert not failed
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                assert inspect.getdoc(thing), name


# --- the command ------------------------------------------------------------------------------------------------------

KEYS = {
    *("unknowns", "conductors", "seconds", "matrix_bytes", "dense_fraction", "mean_rank", "max_rank"),
    *("operator_error", "method", "iterations", "converged", "reason", "residual_norm", "charge"),
}


def test_command(tmp_path: Path) -> None:
    done = run(
        *("bem", "sphere-pair:6", "--potential", "1,-1", "--tolerance", "1e-5", "--capacitance", "--json", "-"),
        *("--assembly", "virtual"),
        *("--vtu", "a.vtu", "--plot", "a.png", "--at", "0,0,0", "--at", "0,0,9", "--rtol", "1e-6"),
        cwd=tmp_path,
    )
    facts = json.loads(done.stdout)
    assert set(facts) >= KEYS
    assert set(facts["seconds"]) >= {"mesh", "assembly", "solve", "product"}
    assert facts["unknowns"] == 40 * 36
    assert facts["conductors"] == 2
    assert facts["converged"]
    assert facts["residual_norm"] <= 1e-6
    assert 0 < facts["operator_error"] <= 3e-5
    c11, c12 = pair_capacitance(0.25, 1.0)
    np.testing.assert_allclose(facts["capacitance"], [[c11, c12], [c12, c11]], rtol=0.02)
    np.testing.assert_allclose(facts["charge"], [c11 - c12, c12 - c11], rtol=0.02)
    assert facts["at"][0]["potential"] == pytest.approx(0, abs=1e-4)
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert len(bem.read(tmp_path / "a.vtu")) == facts["unknowns"]
    assert "capacitance" in done.stderr


@pytest.mark.parametrize("option", ["jacobi:foo=1", "hlu:rank=x", "block-jacobi:precision=3", "inner:method=4"])
def test_options_of_preconditioners_that_do_not_fit(option: str) -> None:
    name = re.split("[:=]", option)[1]
    assert re.search(f"tacit bem: --precond: .*{name}", refused("bem", "sphere:2", "--precond", option))


def test_command_in_a_field(tmp_path: Path) -> None:
    bem.cube(3).write(tmp_path / "cube.stl")
    np.savetxt(tmp_path / "p.txt", [[0, 0, 5.0], [0.1, 0, 0]])
    run(
        *("bem", "cube.stl", "--copies", "2x2", "--gap", "1", "--field", "0,0,1", "--plane", "z=-2"),
        *("--floating", "0,3", "--points", "p.txt", "--output", "q.csv", "--json", "a.json", "--tolerance", "1e-3"),
        *("--discretisation", "galerkin", "--method", "gmres"),
        cwd=tmp_path,
    )
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["conductors"] == 4
    assert facts["method"] == "gmres"
    charge, potential = np.array(facts["charge"]), np.array(facts["potential"])
    assert np.abs(charge[[0, 3]]).max() < 1e-6
    assert charge[1] == pytest.approx(charge[2], rel=1e-2)
    assert charge[1] > 0.5
    assert potential[1] == 0
    assert potential[0] < -0.5
    assert np.loadtxt(tmp_path / "q.csv", delimiter=",").shape == (2, 7)


def test_command_not_converged_and_refused(tmp_path: Path) -> None:
    facts = json.loads(run("bem", "cube:4", "--max-iterations", "1", "--json", "-", code=3).stdout)
    assert not facts["converged"]
    assert facts["reason"] == "max_iterations"
    (tmp_path / "flat.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 2 0 0\nf 1 2 3\nf 1 2 4\n")
    assert "--mend leaves them out" in refused("bem", "flat.obj", code=4, cwd=tmp_path)
    assert "1 triangles and 1 vertices left out" in run("bem", "flat.obj", "--mend", cwd=tmp_path).stdout
    assert "is open" in run("bem", "flat.obj", "--mend", cwd=tmp_path).stdout
    for words, code, text in [
        (("bem", "none.stl"), 4, "no such file"),
        (("bem", "spher:3"), 2, "did you mean"),
        (("bem", "sphere:3", "--plane", "z"), 2, "z=0"),
        (("bem", "sphere:3", "--plane", "z=0"), 4, "beyond the grounded plane"),
        (("bem", "sphere:3", "--potential", "1,2"), 2, "conductors"),
        (("bem", "sphere:3", "--copies", "2"), 2, "2x2"),
        (("bem", "sphere:3", "--gap", "1"), 2, "--copies"),
        (("bem", "sphere:3", "--points", "p.txt"), 2, "--output"),
        (("bem", "sphere:3", "--precond", "jacoby"), 2, "did you mean"),
        (("bem", "sphere:3", "--methd", "cg"), 2, "did you mean"),
        (("bem", "sphere:3", "--json", "a.vtu", "--vtu", "a.vtu"), 2, "the same file"),
    ]:
        assert text in refused(*words, code=code, cwd=tmp_path), words


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=needs_mpi), pytest.param(3, marks=[*needs_mpi, pytest.mark.slow])]
)
def test_command_on_ranks(ranks: int) -> None:
    words = ("bem", "sphere-pair:5", "--potential", "1,-1", "--tolerance", "1e-6", "--json", "-", "--at", "0,0,2")
    alone, facts = (json.loads(run(*words, *more).stdout) for more in ((), ("--ranks", ranks)))
    assert facts["ranks"] == ranks
    np.testing.assert_allclose(facts["charge"], alone["charge"], rtol=1e-5)
    assert facts["at"][0]["potential"] == pytest.approx(alone["at"][0]["potential"], rel=1e-4)
    assert abs(facts["iterations"] - alone["iterations"]) <= 2


@needs_shared
def test_cg_on_collocation_says_what_is_wrong() -> None:
    done = run("bem", SHARED / "human.obj", "--method", "cg", "--tolerance", "1e-3", "--json", "-", code=3)
    facts = json.loads(done.stdout)
    assert facts["iterations"] <= 100  # of 50,000 that are allowed
    assert "this one is not Hermitian" in facts["advice"]
    assert "--discretisation galerkin" in facts["advice"]
