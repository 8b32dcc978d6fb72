"""What engineers ask of charges on conductors: farads and coulombs, conductors by name, forces, dielectrics."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import refused
from cli_support import tacit as run
from test_bem import pair_capacitance
from test_meshes import gmsh41

import tacit
from tacit.app import bem

meshio = pytest.importorskip("meshio")
# pytest's approx takes 1e-12 for 0 unless it has an abs of its own.
FARAD = 4 * math.pi * bem.EPS0  # of a sphere of 1 m


# --- farads, coulombs, names ------------------------------------------------------------------------------------------


def test_farads_of_a_sphere_in_oil() -> None:
    for unit, metres in (("mm", 1e-3), (2e-6, 2e-6)):
        system = bem.assemble(bem.sphere(8, 2.0), unit=unit, permittivity=2.2, tolerance=1e-5)
        charges = system.solve(3.0)
        exact = FARAD * 2 * metres * 2.2
        assert charges.coulombs[0] == pytest.approx(3 * exact, rel=5e-3, abs=0)
        found = system.capacitance()
        assert found.farads[0, 0] == pytest.approx(exact, rel=5e-3, abs=0)
        assert found.mutual[0, 0] == found.farads[0, 0]
        # The same potential is made by 2.2 times the charge.
        assert charges.potential_at([[0, 0, 4.0]])[0] == pytest.approx(1.5, rel=5e-3, abs=0)


def test_cube_in_farads() -> None:
    found = bem.assemble(bem.cube(12, grading=2.5), discretisation="galerkin", tolerance=1e-5).capacitance()
    assert found.farads[0, 0] == pytest.approx(0.6606785 * FARAD, rel=1e-3, abs=0)


def test_forms_of_the_capacitance_of_two_spheres() -> None:
    c11, c12 = (value * FARAD for value in pair_capacitance(1.0, 3.0))
    found = bem.assemble(bem.sphere_pair(10, 1.0, 3.0), tolerance=1e-5).capacitance()
    np.testing.assert_allclose(found.farads, [[c11, c12], [c12, c11]], rtol=6e-3)
    np.testing.assert_allclose(found.mutual, [[c11 + c12, -c12], [-c12, c11 + c12]], rtol=8e-3)
    # Equal spheres with charges q and -q have potentials V and -V.
    assert found.between(0, 1) == pytest.approx((c11 - c12) / 2, rel=5e-3, abs=0)
    # Far apart they are in series through infinity.
    far = bem.assemble(bem.sphere_pair(8, 1.0, 1000.0), tolerance=1e-6).capacitance()
    assert far.between(1, 0) == pytest.approx(FARAD / 2, rel=6e-3, abs=0)
    with pytest.raises(ValueError, match="two different conductors"):
        found.between(1, 1)


def grouped(path: Path, binary: bool = False) -> bem.Mesh:
    """Two spheres; half of the first is a group of its own."""
    mesh = bem.sphere_pair(3)
    groups = np.repeat([5, 7, 2], [90, 90, 180])
    data: Any = {"gmsh:physical": [groups], "gmsh:geometrical": [groups]}
    # A volume has the name of a surface's group, as in files of whole devices.
    names = {"upper half": np.array([5, 2]), "lower half": np.array([7, 2]), "ring": np.array([2, 2])}
    made = meshio.Mesh(mesh.vertices, [("triangle", mesh.triangles)], cell_data=data, field_data=names)
    made.write(path, file_format="gmsh22", binary=binary)
    text = path.read_bytes().replace(b"$PhysicalNames\n3\n", b"$PhysicalNames\n4\n")
    path.write_bytes(text.replace(b"$EndPhysicalNames", b'3 9 "ring"\n$EndPhysicalNames'))
    return bem.read(path)


@pytest.mark.parametrize("binary", [False, True])
def test_conductors_by_the_names_of_gmsh(binary: bool, tmp_path: Path) -> None:
    mesh = grouped(tmp_path / "a.msh", binary)
    assert mesh.names == {"gmsh:physical": {5: "upper half", 7: "lower half", 2: "ring"}}
    system = bem.assemble(mesh)
    assert system.names == ["ring", "upper half", "lower half"]
    np.testing.assert_array_equal(system.conductor, np.repeat([1, 2, 0], [90, 90, 180]))
    np.testing.assert_array_equal(system.solve({"ring": 2.0, "1": -1}).potential, [2, -1, 0])
    floating = system.solve({"upper half": 1.0}, floating=["ring"], net_charge={"ring": 0.25})
    assert floating.charge[0] == pytest.approx(0.25, rel=1e-9, abs=0)
    # Components have the names of groups that they are the whole of.
    assert bem.assemble(mesh, conductors="components").names == ["0", "ring"]
    assert bem.assemble(mesh, conductors="one").names == ["0"]
    for call, text in [
        (lambda: system.solve({"rinq": 1.0}), "did you mean 'ring'"),
        (lambda: system.solve(floating=["nothing"]), "the name of no conductor"),
        (lambda: system.solve(floating=["ring"], net_charge={"lower half": 1.0}), "whose potential is given"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("binary", [False, True])
def test_names_of_gmsh_41(binary: bool, tmp_path: Path) -> None:
    """Surface 1 is in two groups, of which meshio knows the first: there is a note."""
    names = b'$PhysicalNames\n3\n2 7 "plate"\n2 9 "ring"\n3 7 "ring"\n$EndPhysicalNames\n'
    for groups, several in [({1: [7], 2: [9]}, False), ({1: [7, 9], 2: [9]}, True)]:
        content = gmsh41(groups, binary).replace(b"$Entities", names + b"$Entities")
        (tmp_path / "a.msh").write_bytes(content)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mesh = bem.read(tmp_path / "a.msh")
        assert bem.assemble(mesh).names == ["plate", "ring"]
        assert any("several physical groups" in str(w.message) for w in caught) == several
        assert any("several physical groups" in note for note in mesh.notes()) == several


def test_copies_of_named_conductors(tmp_path: Path) -> None:
    """Each copy is conductors of its own."""
    many = grouped(tmp_path / "a.msh").copies((1, 2))
    system = bem.assemble(many)
    assert system.names == ["ring", "upper half", "lower half", "ring.1", "upper half.1", "lower half.1"]
    assert (np.bincount(system.conductor) == [180, 90, 90] * 2).all()


def test_command_in_farads_and_by_name(tmp_path: Path) -> None:
    grouped(tmp_path / "a.msh")
    words = ("bem", "a.msh", "--unit", "mm", "--permittivity", "4", "--capacitance", "--json", "a.json")
    done = run(*words, "--potential", "ring=5,lower half=1", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["names"] == ["ring", "upper half", "lower half"]
    assert facts["potential"] == [5, 0, 1]
    np.testing.assert_allclose(np.array(facts["charge"]) * FARAD * 1e-3, facts["charge_coulomb"])
    assert facts["total_charge_coulomb"] == pytest.approx(sum(facts["charge_coulomb"]), rel=1e-9, abs=0)
    assert np.array(facts["capacitance_farad"])[0, 0] == pytest.approx(4e-3 * 0.2679 * FARAD, rel=0.05, abs=0)
    assert np.array(facts["capacitance_mutual_farad"])[0, 1] > 0
    assert not any("rtol" in text for text in facts["warnings"])
    assert "ring at 5 V" in done.stdout
    assert " fF" in done.stdout
    assert " in all" in done.stdout
    assert "note: rtol" not in done.stdout
    charged = run(*words, "--floating", "ring", "--charge", "ring=1e-15", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["charge_coulomb"][0] == pytest.approx(1e-15, rel=1e-9, abs=0)
    assert "1 fC" in charged.stdout or "0.001 pC" in charged.stdout
    for more, text in [
        (("--unit", "feet"), "unknown unit"),
        (("--unit", "0"), "above 0"),
        (("--permittivity", "0"), "above 0"),
        (("--potential", "ring=1,2"), "all by name"),
        (("--potential", "rong=1"), "did you mean"),
        (("--charge", "1e-12"), "--floating"),
    ]:
        assert text in refused("bem", "a.msh", *more, cwd=tmp_path)


def test_rtol_follows_the_matrix() -> None:
    system = bem.assemble(bem.sphere(6), tolerance=1e-3)
    charges = system.solve(1.0)
    assert charges.converged
    assert not charges.warnings
    assert 1e-6 < system.default_rtol < 1e-3
    assert charges.residual_norm <= system.default_rtol
    assert bem.assemble(bem.sphere(6), tolerance=1e-6).default_rtol < system.default_rtol / 10


def test_torn_surfaces_are_hinted_at() -> None:
    """Every triangle with corners of its own, written with rounding errors: no component has more than one."""
    good = bem.sphere(4)
    noise = 1e-9 * np.random.default_rng(0).standard_normal((3 * len(good), 3))
    torn = bem.Mesh(good.vertices[good.triangles].reshape(-1, 3) + noise, np.arange(3 * len(good)).reshape(-1, 3))
    assert torn.surface["components"] == len(good)
    note = next(text for text in torn.notes() if "components" in text)
    assert "1 where vertices within" in note
    assert "--merge" in note
    distance = float(note.split("--merge ")[1])
    assert torn.mended(distance).surface["components"] == 1
    assert not any("components" in text for text in good.notes())
    many = bem.sphere(1).copies((4, 4))  # 16 conductors that are what they are
    assert not any("components" in text for text in many.notes())


# --- dielectrics ------------------------------------------------------------------------------------------------------


def named(**parts: bem.Mesh) -> bem.Mesh:
    """Meshes together, each a group of its name."""
    vertices = np.concatenate([mesh.vertices for mesh in parts.values()])
    shifts = np.cumsum([0, *(len(mesh.vertices) for mesh in parts.values())])
    triangles = np.concatenate([m.triangles + np.int32(s) for m, s in zip(parts.values(), shifts, strict=False)])
    groups = np.repeat(np.arange(len(parts)), [len(mesh) for mesh in parts.values()])
    return bem.Mesh(vertices, triangles, {"group": groups}, {"group": dict(enumerate(parts))})


@pytest.mark.parametrize("inside", [0.02, 4.0, 80.0])
def test_dielectric_sphere_in_a_field(inside: float) -> None:
    """The field within is 3 / (eps + 2) of that outside, the bound charge 3 (eps - 1) / (eps + 2) cos(theta)."""
    errors = []
    for cuts in (4, 8):
        mesh = named(ball=bem.sphere(cuts))
        system = bem.assemble(mesh, dielectrics={"ball": inside}, tolerance=1e-5)
        assert system.names == []
        charges = system.solve(field=(0, 0, 1.0))
        assert charges.converged
        errors.append(charges.field_at([[0.1, 0.1, 0.2]])[0] - [0, 0, 3 / (inside + 2)])
        # All of the flux that enters leaves: no net charge, for any contrast.
        assert abs((charges.density * mesh.areas).sum()) < 1e-4
        cosine = mesh.centroids[:, 2] / np.linalg.norm(mesh.centroids, axis=1)
        exact = 3 * (inside - 1) / (inside + 2) * cosine
        assert np.abs(charges.density - exact).max() < 0.3 / cuts
    assert np.abs(errors[1]).max() < 3e-3
    assert np.abs(errors[0]).max() / np.abs(errors[1]).max() > 3.3
    turned = bem.assemble(named(ball=bem.Mesh(mesh.vertices, mesh.triangles[:, ::-1])).mended(), dielectrics={"0": 4.0})
    assert turned.contrast[0] == pytest.approx(-0.6, rel=1e-9, abs=0)


def test_coated_sphere() -> None:
    """An example of FastCap's guide: 148.35 pF for a conductor of 1 m in a coat of permittivity 2 up to 2 m."""
    exact = FARAD / (1 / 2 + (1 - 1 / 2) / 2)
    assert exact == pytest.approx(148.35e-12, rel=1e-4, abs=0)
    errors = []
    for cuts in (4, 8):
        mesh = named(core=bem.sphere(cuts), coat=bem.sphere(cuts, 2.0))
        system = bem.assemble(mesh, media={"core": 2.0}, dielectrics={"coat": 2.0}, tolerance=1e-5)
        assert system.names == ["core"]
        errors.append(system.capacitance().farads[0, 0] / exact - 1)
        charges = system.solve(1.0)
        # Outside, the field is that of the free charge alone; in the coat, half of that.
        far, near = charges.field_at([[0, 0, 4.0], [0, 0, 1.5]])[:, 2]
        assert far == pytest.approx(charges.charge[0] / 16, rel=1e-3, abs=0)
        assert near == pytest.approx(charges.charge[0] / 2 / 1.5**2, rel=0.03, abs=0)
    assert abs(errors[1]) < 4e-3
    assert errors[0] / errors[1] == pytest.approx(4, rel=1e-9, abs=0.5)


def test_media_that_are_one() -> None:
    """An interface between equal media changes nothing, and a medium everywhere multiplies the capacitance."""
    mesh = named(core=bem.sphere(5), coat=bem.sphere(4, 2.0))
    one = bem.assemble(mesh, dielectrics={"coat": 1.0}, tolerance=1e-6).solve(1.0)
    alone = bem.solve(bem.sphere(5), tolerance=1e-6)
    assert one.charge[0] == pytest.approx(alone.charge[0], rel=1e-5, abs=0)
    assert np.abs(one.density[len(bem.sphere(5)) :]).max() < 1e-5
    everywhere = bem.assemble(mesh, permittivity=3.0, media={"core": 3.0}, dielectrics={"coat": (3.0, 3.0)})
    assert everywhere.capacitance().matrix[0, 0] == pytest.approx(3 * alone.charge[0], rel=1e-4, abs=0)


def test_dielectrics_refused() -> None:
    mesh = named(core=bem.sphere(2), coat=bem.sphere(2, 2.0))
    inwards = named(core=bem.Mesh(mesh.vertices, mesh.triangles[:80, ::-1]))
    for call, error, text in [
        (lambda: bem.assemble(mesh, dielectrics={"coats": 2.0}), ValueError, "did you mean 'coat'"),
        (lambda: bem.assemble(mesh, dielectrics={"coat": 0.0}), ValueError, "above 0"),
        (lambda: bem.assemble(mesh, media={"core": -1.0}), ValueError, "above 0"),
        (lambda: bem.assemble(mesh, permittivity=0), ValueError, "above 0"),
        (lambda: bem.assemble(inwards, dielectrics={"core": 2.0}), tacit.InputError, "do not all point outwards"),
        (lambda: bem.assemble(mesh, dielectrics={"coat": 2.0}, discretisation="galerkin"), ValueError, "Galerkin"),
        (lambda: bem.assemble(mesh, dielectrics={"coat": 2.0}, assembly="virtual"), ValueError, "the host"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_conductors_and_interfaces_within_interfaces() -> None:
    """What lies within a closed interface is in the medium there, unless the caller says otherwise."""
    core, coat = bem.sphere(3), bem.sphere(3, 2.0)
    mesh = named(core=core, coat=coat, far=core.moved((5, 0, 0)))
    told = bem.assemble(mesh, media={"core": 2.0}, dielectrics={"coat": 2.0})
    found = bem.assemble(mesh, dielectrics={"coat": 2.0})
    np.testing.assert_array_equal(found.permittivity, told.permittivity)
    assert told.notes == []
    (note,) = found.notes
    assert "'core' lies within dielectric 'coat': permittivity 2," in note
    kept = bem.assemble(mesh, media={"core": 3.0}, dielectrics={"coat": 2.0})
    assert set(kept.permittivity[kept.conductor == 0]) == {3.0}
    assert "keeps the 3 given" in kept.notes[0]
    # One conductor in two parts, and a coat in a coat whose inner side is another.
    both = bem.assemble(mesh, join={"all": ["core", "far"]}, dielectrics={"coat": 2.0})
    assert set(both.permittivity[: len(core)]) == {2.0}
    assert set(both.permittivity[-len(core) :]) == {1.0}
    nested = named(core=core, inner=coat, outer=bem.sphere(3, 3.0))
    system = bem.assemble(nested, dielectrics={"inner": 4.0, "outer": 2.0})
    of = np.repeat([4.0, 2.0, 1.0], len(core))
    np.testing.assert_array_equal(system.permittivity, of)
    assert len(system.notes) == 2
    kept = bem.assemble(nested, dielectrics={"inner": (4.0, 1.0), "outer": 2.0})
    assert set(kept.permittivity[len(core) : 2 * len(core)]) == {1.0}
    # Not so within a conductor, through which the interface is not seen, and beside an open interface.
    shell = named(core=core, shell=coat, coat=bem.sphere(3, 3.0))
    np.testing.assert_array_equal(bem.assemble(shell, dielectrics={"coat": 2.0}).permittivity[: len(core)], 1.0)
    sheet = bem.Mesh([[1.2, -0.5, 0], [1.2, 0.5, 0], [1.2, 0, 0.5]], [[0, 1, 2]])
    open_one = named(core=core, coat=coat, sheet=sheet)
    system = bem.assemble(open_one, dielectrics={"coat": 2.0, "sheet": 3.0})
    np.testing.assert_array_equal(system.permittivity[: len(core)], 1.0)


def test_holes_in_interfaces_are_told() -> None:
    """What lies within is in the medium outside then, and its capacitance is wrong by the ratio of permittivities."""
    inner, outer = bem.sphere(3), bem.sphere(3, 2.0)
    torn = named(core=inner, coat=bem.Mesh(outer.vertices, outer.triangles[3:]))
    system = bem.assemble(torn, dielectrics={"coat": 4.0})
    assert system.permittivity[0] == 1
    assert [note for note in system.notes if "conductor 'core' lies within dielectric 'coat' but for a hole" in note]
    assert bem.assemble(torn, dielectrics={"coat": 4.0}, media={"core": 4.0}).notes == []
    apart = [bem.Mesh(0.3 * inner.vertices + [x, 0, 0], inner.triangles) for x in (-1, 1)]
    two = named(a=apart[0], b=apart[1], coat=bem.Mesh(outer.vertices, outer.triangles[3:]))
    (note,) = bem.assemble(two, dielectrics={"coat": 4.0}, media={"a": 2.5}).notes
    assert "'b'" in note
    assert "'a'" not in note
    assert "permittivity 1 is taken" in note
    # Half of a surface, or a conductor on a plane, is no body with a hole.
    half = named(core=bem.sphere(3, 0.2), coat=bem.Mesh(outer.vertices, outer.triangles[outer.centroids[:, 2] < 0]))
    assert bem.assemble(half, dielectrics={"coat": 4.0}).notes == []


def test_what_lies_within_an_interface_cut_by_planes() -> None:
    """A half of a coated cube is closed by its image."""
    cube = bem.cube(2)
    low, high = cube.vertices.min(axis=0), cube.vertices.max(axis=0)
    core = half(bem.Mesh(cube.vertices - (low + high) / 2, cube.triangles), 2)
    mesh = named(core=core, coat=bem.Mesh(2 * core.vertices, core.triangles))
    for planes in ({"mirror": [("z", 0.0)]}, {"plane": ("z", 0.0)}):
        system = bem.assemble(mesh, dielectrics={"coat": 2.0}, **planes)
        assert set(system.permittivity[system.conductor == 0]) == {2.0}
    assert bem.assemble(mesh, dielectrics={"coat": 2.0}).notes == []


def test_command_on_dielectrics_alone_and_names_given_twice(tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    named(core=bem.sphere(2), coat=bem.sphere(2, 2.0)).write(tmp_path / "a.vtu")
    whole = ("bem", "a.vtu", "--conductors", "group", "--dielectric", "0=4,1=2", "--field", "0,0,1")
    for option in (("--potential", "1"), ("--forces",), ("--capacitance",), ("--floating", "all"), ("--settle", "0.1")):
        assert f"{option[0]} is of conductors" in refused(*whole, *option, cwd=tmp_path)
    coated = run("bem", "a.vtu", "--conductors", "group", "--dielectric", "1=2", "--tolerance", "1e-3", cwd=tmp_path)
    assert "note: conductor '0' lies within dielectric '1'" in coated.stdout
    for option, value, text in [
        ("--potential", "0=1,0=2", '"0" is there twice'),
        ("--media", "0=1,1=3,0=2", '"0" is there twice'),
        ("--join", "a=0,a=1", '"a" is there twice'),
        ("--dielectric", "0=1,0=2", '"0" is there twice'),
        ("--dielectric", "coat", "expected NAME=IN or NAME=IN:OUT"),
        ("--dielectric", "coat=nan", "expected NAME=IN or NAME=IN:OUT"),
        ("--media", "coat", "by name like core=3.9"),
        ("--potential", "coat", "all by name like plate=5"),
        ("--potential", "coat=1:2", "all by name like plate=5"),
    ]:
        assert text in refused("bem", "a.vtu", option, value, cwd=tmp_path), value
    mesh = named(core=bem.sphere(2), coat=bem.sphere(2, 2.0))
    with pytest.raises(ValueError, match="potential of 'core' and 0, which are the same conductor"):
        bem.solve(mesh, {"core": 1.0, 0: 2.0})
    with pytest.raises(ValueError, match="the same conductor"):
        bem.assemble(mesh, media={"core": 1.0, "0": 2.0})


# --- planes -----------------------------------------------------------------------------------------------------------


def half(mesh: bem.Mesh, *axes: int) -> bem.Mesh:
    """The triangles of a mesh, made of parts, whose centroids are above 0 along some axes."""
    inside = (mesh.centroids[:, axes] > 0).all(axis=1)
    return bem.Mesh(mesh.vertices, mesh.triangles[inside]).mended()


@pytest.mark.parametrize("discretisation", ["collocation", "galerkin"])
def test_planes_of_symmetry(discretisation: str) -> None:
    """An eighth of a cube, a half of it, and the whole one."""
    how: dict[str, Any] = {"tolerance": 1e-7, "discretisation": discretisation}
    for axes in ((0,), (0, 2), (0, 1, 2)):
        part = half(bem.cube(4), *axes)
        assert len(part) == len(bem.cube(4)) / 2 ** len(axes)
        mesh = part
        for axis in axes:
            mesh = mesh.joined(bem.Mesh(mesh.vertices * np.where(np.arange(3) == axis, -1, 1), mesh.triangles))
        whole = bem.assemble(mesh, **how).solve(1.0, rtol=1e-10)
        charges = bem.assemble(part, mirror=[("xyz"[a], 0.0) for a in axes], **how).solve(1.0, rtol=1e-10)
        assert charges.charge[0] * 2 ** len(axes) == pytest.approx(whole.charge[0], rel=2e-6, abs=0)
        points = [[1.0, 0.3, 0.2], [-1.0, 0.3, 0.2], [0.1, -0.1, -2]]
        np.testing.assert_allclose(charges.potential_at(points), whole.potential_at(points), rtol=1e-5)
        np.testing.assert_allclose(charges.field_at(points), whole.field_at(points), atol=1e-5)


def test_a_grounded_plane_and_a_mirror() -> None:
    """Four spheres at potentials +, + above and -, - below, of which one is there; the plane alone, by both ways."""
    one = bem.sphere(5).moved((1.5, 0, 2.0))
    others = [(1, 1, 1), (-1, 1, 1), (1, 1, -1), (-1, 1, -1)]
    four = named(**{str(k): bem.Mesh(one.vertices * sign, one.triangles) for k, sign in enumerate(others)})
    all_of_them = bem.solve(four, [1, 1, -1, -1], tolerance=1e-6)
    part = bem.assemble(one, plane=("z", 0.0), mirror=[("x", 0.0)], tolerance=1e-6).solve(1.0)
    assert part.charge[0] == pytest.approx(all_of_them.charge[0], rel=1e-5, abs=0)
    assert part.potential_at([[0.3, 1.0, 0.0]])[0] == pytest.approx(0, abs=1e-9)
    # With an interface of equal media the plane is an image like a mirror's.
    mesh = named(ball=one, coat=bem.sphere(3, 1.5).moved((1.5, 0, 2.0)))
    coated = bem.assemble(mesh, plane=("z", 0.0), dielectrics={"coat": 1.0}, tolerance=1e-6).solve(1.0)
    plain = bem.assemble(one, plane=("z", 0.0), tolerance=1e-6).solve(1.0)
    assert coated.charge[0] == pytest.approx(plain.charge[0], rel=1e-5, abs=0)
    for call, error, text in [
        (lambda: bem.assemble(one, mirror=[("x", 1.5)]), tacit.InputError, "reaches beyond the mirror x = 1.5"),
        (lambda: bem.assemble(one, mirror=[("x", 0), ("x", 1)]), ValueError, "two planes across x"),
        (lambda: bem.assemble(one, mirror=[("w", 0)]), ValueError, "axis of the mirror"),
        (lambda: part.system.solve(field=(0, 1, 0)), ValueError, "along z"),
        (lambda: bem.assemble(one, mirror=[("x", 0)]).solve(field=(1, 0, 0)), ValueError, "along the mirror"),
        (lambda: bem.assemble(one, mirror=[("x", 0)], assembly="virtual"), ValueError, "the host"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_a_mirror_through_rounding_errors() -> None:
    part = half(bem.cube(4), 0)
    noisy = part.vertices + np.where(part.vertices == 0, 1e-14, 0) * np.array([-1, 0, 0])
    exact, found = (bem.solve(m, mirror=[("x", 0.0)]).charge[0] for m in (part, bem.Mesh(noisy, part.triangles)))
    assert found == pytest.approx(exact, rel=1e-12, abs=0)


# --- FastCap's files --------------------------------------------------------------------------------------------------


def surface(mesh: bem.Mesh, name: str = "1") -> str:
    lines = [
        f"T {name} " + " ".join(f"{x:.17g}" for x in corners)
        for corners in mesh.vertices[mesh.triangles].reshape(-1, 9)
    ]
    return "\n".join(["0 a surface", *lines, ""])


CUBE = """0 unit cube
* faces of a cube
Q a 0 0 0 1 0 0 1 1 0 0 1 0
Q a 0 0 1 1 0 1 1 1 1 0 1 1
Q a 0 0 0 1 0 0 1 0 1 0 0 1
q a 0 1 0 1 1 0 1 1 1 0 1 1
T a 0 0 0 0 1 0 0 1 1
T a 0 0 0 0 0 1 0 1 1
Q a 1 0 0 1 1 0 1 1 1 1 0 1
N a block
"""


def test_fastcap_surfaces(tmp_path: Path) -> None:
    (tmp_path / "cube.qui").write_text(CUBE)
    mesh = bem.read(tmp_path / "cube.qui")
    assert len(mesh) == 12
    assert mesh.surface["closed"]
    assert mesh.areas.sum() == pytest.approx(6, rel=1e-9, abs=0)
    assert bem.assemble(mesh).names == ["block"]
    assert not [note for note in mesh.notes() if "place of others" in note]


def test_fastcap_lists(tmp_path: Path) -> None:
    """Two cubes are one conductor by a +; the third is another, whose name is the same."""
    (tmp_path / "cube.qui").write_text(CUBE)
    (tmp_path / "a.lst").write_text(
        "* three cubes\nC cube.qui 2.5 0 0 0 +\nC cube.qui 2.5 0 0 4\nG other\nC cube.qui 3 -3 0 0\n"
        "C inner.qui 1 0 9 0\nFile inner.qui\n0 a triangle\nT plate 0 0 0 1 0 0 0 1 0\nEnd\n"
    )
    mesh = bem.read(tmp_path / "a.lst")
    system = bem.assemble(mesh)
    assert system.names == ["block%GROUP1", "block%other", "plate"]
    areas = np.bincount(system.conductor, mesh.areas)
    np.testing.assert_allclose(areas, [12, 6, 0.5])
    np.testing.assert_allclose([system.permittivity[system.conductor == k].mean() for k in range(3)], [2.5, 3, 1])
    assert mesh.vertices[:, 0].min() == -3
    # The permittivity of the command or the call goes before that of the file.
    assert set(bem.assemble(mesh, permittivity=1.0).permittivity) == {1.0}


def test_fastcap_dielectrics(tmp_path: Path) -> None:
    """The coated sphere; normals of the interface are those of the point given, whatever the order of corners."""
    core, coat = bem.sphere(5), bem.sphere(5, 2.0)
    mixed = np.where((np.arange(len(coat)) % 2 == 0)[:, None], coat.triangles, coat.triangles[:, ::-1])
    (tmp_path / "core.qui").write_text(surface(core))
    # A point of which all normals point away is the centre, which is inside: a -.
    (tmp_path / "coat.qui").write_text(surface(bem.Mesh(coat.vertices, mixed)))
    (tmp_path / "a.lst").write_text("C core.qui 2 0 0 1\nD coat.qui 1 2 0 0 1 0 0 1 -\n")
    system = bem.assemble(bem.read(tmp_path / "a.lst"), tolerance=1e-5)
    assert system.names == ["1"]
    np.testing.assert_allclose(system.contrast[system.conductor < 0], -1 / 3)
    assert system.capacitance().farads[0, 0] == pytest.approx(148.35e-12, rel=0.01, abs=0)
    said = run("bem", "a.lst", "--capacitance", "--json", "a.json", cwd=tmp_path).stdout
    assert "triangles between two" in said
    assert "relative permittivity 1, 2" in said
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["capacitance_farad"][0][0] == pytest.approx(148.35e-12, rel=0.01, abs=0)
    # Turned by mending, sides and permittivities go together.
    mended = bem.assemble(bem.read(tmp_path / "a.lst").mended(), tolerance=1e-5)
    assert mended.capacitance().matrix[0, 0] == pytest.approx(system.capacitance().matrix[0, 0], rel=1e-4, abs=0)


def sides(path: Path, line: str) -> list[float]:
    """By interface panel of a list: the permittivity on its side away from the origin."""
    (path / "a.lst").write_text(line)
    mesh = bem.read(path / "a.lst")
    away = (mesh.normals * mesh.centroids).sum(axis=1) > 0
    return list(np.where(away, mesh.cell_data["permittivity"], mesh.cell_data["permittivity_inside"]))


def test_sides_of_closed_fastcap_interfaces(tmp_path: Path) -> None:
    """A closed interface has one side, whichever of its panels face the point."""
    ball = bem.sphere(3)
    mixed = np.where((np.arange(len(ball)) % 3 == 0)[:, None], ball.triangles, ball.triangles[:, ::-1])
    (tmp_path / "ball.qui").write_text(surface(bem.Mesh(ball.vertices, mixed)))
    (tmp_path / "cube.qui").write_text(CUBE)
    for name, beside in [("ball", "1.1 0.2 0.2"), ("cube", "-0.3 2 0.4")]:
        offset = "-0.5 -0.5 -0.5" if name == "cube" else "0 0 0"
        for point, outer in [(beside, 1), (f"{beside} -", 2), ("0 0 0", 2), ("0.2 0.1 0 -", 1)]:
            assert set(sides(tmp_path, f"D {name}.qui 1 2 {offset} {point}\n")) == {outer}, (name, point)
    # Coordinates of another rounding in each panel, as of single precision.
    words = surface(ball).split()
    shaken = [f"{float(w) * (1 + 1e-7 * (-1) ** k):.9f}" if "." in w else w for k, w in enumerate(words)]
    (tmp_path / "shaken.qui").write_text("0 x\n" + " ".join(shaken[3:]).replace(" T", "\nT") + "\n")
    assert set(sides(tmp_path, "D shaken.qui 1 2 0 0 0 1.1 0.2 0.2\n")) == {1}
    # A shell: the first medium is around it and in its hole.
    hole = bem.sphere(3, 0.5)
    (tmp_path / "shell.qui").write_text(surface(ball) + surface(hole).replace("0 a surface\n", ""))
    for point in ("9 9 9", "0 0 0", "0.1 0.2 0.7 -"):
        outer, inner = np.split(np.array(sides(tmp_path, f"D shell.qui 1 2 0 0 0 {point}\n")), 2)
        assert set(outer) == {1}
        assert set(inner) == {2}
    with pytest.raises(tacit.InputError, match=r"line 1: the point .* lies on the interface"):
        sides(tmp_path, "D cube.qui 1 2 0 0 0 0.3 0.4 1\n")
    # A conductor within shows that the point is on the other side.
    (tmp_path / "core.qui").write_text(surface(hole))
    (tmp_path / "a.lst").write_text("C core.qui 2 0 0 0\nD ball.qui 1 2 0 0 0 0 0 0\n")
    with pytest.raises(tacit.InputError, match=r"has permittivity 2 .* whose inside has 1: .* of a D line"):
        bem.assemble(bem.read(tmp_path / "a.lst"))


def test_sides_of_open_fastcap_interfaces(tmp_path: Path) -> None:
    """All panels have the point on one side, or the list is refused."""
    (tmp_path / "box.qui").write_text("".join(f"{line}\n" for line in CUBE.splitlines() if "a 0 0 1 1 0 1" not in line))
    assert set(sides(tmp_path, "D box.qui 1 2 -0.5 -0.5 -0.5 0 0 0 -\n")) == {1}
    assert set(sides(tmp_path, "D box.qui 1 2 -0.5 -0.5 -0.5 0 0 9 -\n")) == {1}  # seen through the open face
    for point in ("0 0 -9", "9 9 9 -"):
        with pytest.raises(tacit.InputError, match=r"line 1: the point .* the panel in line .* D lines with a point"):
            sides(tmp_path, f"D box.qui 1 2 -0.5 -0.5 -0.5 {point}\n")
    # Where other panels meet at the edge, neighbours may differ.
    (tmp_path / "bend.qui").write_text("0 x\nQ a 0 0 1 1 0 1 1 1 1 0 1 1\nQ a 1 0 1 1 0 0 1 1 0 1 1 1\n")
    (tmp_path / "fin.qui").write_text("0 x\nQ a 1 0 1 2 0 2 2 1 2 1 1 1\n")
    with pytest.raises(tacit.InputError, match="line 1: the point 0, 0, 5 is before the panel in line"):
        sides(tmp_path, "D bend.qui 1 2 0 0 0 0 0 5\n")
    assert len(sides(tmp_path, "D bend.qui 1 2 0 0 0 0 0 5\nC fin.qui 1 0 0 0\n")) == 6


def test_fastcap_refused(tmp_path: Path) -> None:
    for name, text, match in [
        ("a.qui", "Q a 0 0 0\n", "line 1: expected the title of a surface behind a 0"),
        ("a.qui", "0 x\nQ a 0 0 0 1 0 0 1 1 0 0 1\n", "line 2: expected Q, a conductor and 12 coordinates"),
        ("a.qui", "0 x\nT a 0 0 0 1 0 0 1 nan 0\n", "line 2: expected T, a conductor and 9"),
        ("a.qui", "0 x\nP a 0 0 0\n", "line 2: expected T, Q, N"),
        ("a.qui", "0 x\n", "no triangles"),
        ("a.lst", "C none.qui 1 0 0 0\n", "line 1: there is no file"),
        ("a.lst", "C a.qui one 0 0 0\n", "line 1: expected C, a file"),
        ("a.lst", "C a.qui 0 0 0 0\n", "line 1: a relative permittivity of 0"),
        ("a.lst", "* x\n\nB a.qui 1 2 0 0 0 0 0 0\n", "line 3: a conductor between two dielectrics"),
        ("a.lst", "X a.qui\n", "line 1: expected C, D, G"),
        ("a.lst", "File b.qui\n0 x\n", "ends within 'b.qui'"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(tacit.InputError, match=match):
            bem.read(tmp_path / name)


# --- forces and fields ------------------------------------------------------------------------------------------------


def force_between_spheres(d: float, volts: tuple[float, float]) -> float:
    """On the upper of two spheres of radius 1, in N: the derivative of the energy at fixed potentials."""
    step = 1e-4
    c11, c12 = (np.array(pair_capacitance(1.0, d + step)) - pair_capacitance(1.0, d - step)) / (2 * step)
    return FARAD * ((volts[0] ** 2 + volts[1] ** 2) / 2 * c11 + volts[0] * volts[1] * c12)


@pytest.mark.parametrize("volts", [(1.0, 1.0), (1.0, -1.0), (2.0, 0.0)])
def test_forces_between_spheres(volts: tuple[float, float]) -> None:
    for permittivity, metres in ((1.0, 1.0), (3.0, 1e-3)):
        system = bem.assemble(bem.sphere_pair(8, 1.0, 3.0), tolerance=1e-5, permittivity=permittivity, unit=metres)
        found = system.solve(volts).forces()
        exact = permittivity * force_between_spheres(3.0, volts)
        np.testing.assert_allclose(found.newtons[1], [0, 0, exact], atol=0.02 * abs(exact))
        np.testing.assert_allclose(found.newtons.sum(axis=0), 0, atol=1e-4 * abs(exact))


def test_forces_on_a_sphere_over_a_plane_and_beside_a_mirror() -> None:
    """The grounded plane is half of a pair at 1 and -1 V, the mirror of one at 1 and 1 V."""
    one = bem.sphere(8).moved((0, 0, 1.5))
    over = bem.solve(one, 1.0, plane=("z", 0.0), tolerance=1e-5).forces()
    assert over.newtons[0, 2] == pytest.approx(force_between_spheres(3.0, (1, -1)), rel=0.015, abs=0)
    beside = bem.solve(one, 1.0, mirror=[("z", 0.0)], tolerance=1e-5).forces()
    assert beside.newtons[0, 2] == pytest.approx(force_between_spheres(3.0, (1, 1)), rel=0.015, abs=0)


def test_force_and_moment_in_a_field() -> None:
    """Q E on a charged body; p x E on a neutral ellipsoid that is turned."""
    system = bem.assemble(bem.sphere(6).moved((3.0, 0, 0)), tolerance=1e-5, unit="mm")
    charges = system.solve(floating=True, net_charge=2.0, field=(0, 0, 5.0))
    found = charges.forces()
    np.testing.assert_allclose(found.newtons[0], [0, 0, charges.coulombs[0] * 5e3], rtol=1e-5, atol=1e-17)
    np.testing.assert_allclose(found.newton_metres[0, 1], -3e-3 * found.newtons[0, 2], rtol=1e-4)
    np.testing.assert_allclose(charges.forces(about=(3.0, 0, 0)).newton_metres[0], 0, atol=1e-16)
    turn = np.array([[math.cos(0.5), 0, math.sin(0.5)], [0, 1, 0], [-math.sin(0.5), 0, math.cos(0.5)]])
    long = bem.ellipsoid(6, 1.0, 1.0, 2.0)
    turned = bem.Mesh(long.vertices @ turn.T, long.triangles)
    charges = bem.solve(turned, floating=True, field=(0, 0, 1.0), potential=0.0)
    dipole = bem.EPS0 * (charges.density * turned.areas) @ turned.centroids
    np.testing.assert_allclose(charges.forces().newton_metres[0], np.cross(dipole, [0, 0, 1.0]), rtol=1e-4, atol=1e-14)
    with pytest.raises(ValueError, match="three numbers"):
        charges.forces(about=(1, 2))


def test_force_in_two_media_is_refused() -> None:
    mesh = bem.sphere(3)
    mesh = bem.Mesh(mesh.vertices, mesh.triangles, {"permittivity": np.where(mesh.centroids[:, 2] > 0, 1.0, 2.0)})
    with pytest.raises(ValueError, match="media of permittivity 1 and 2"):
        bem.solve(mesh).forces()


def test_values_on_the_surface(tmp_path: Path) -> None:
    core, coat = bem.sphere(6), bem.sphere(6, 2.0)
    system = bem.assemble(
        named(core=core, coat=coat), media={"core": 2.0}, dielectrics={"coat": 2.0}, unit="cm", tolerance=1e-5
    )
    charges = system.solve(1.0)
    q = charges.charge[0]
    inner = system.conductor == 0
    np.testing.assert_allclose(charges.surface_field[inner], q / 2, rtol=0.03)
    np.testing.assert_allclose(charges.surface_field[~inner], q / 4, rtol=0.03)
    charges.write(tmp_path / "a.vtu")
    data = bem.read(tmp_path / "a.vtu").cell_data
    np.testing.assert_allclose(data["normal_field_V_m"][inner], 100 * q / 2, rtol=0.03)
    areas = system.mesh.areas * 1e-4
    assert (data["free_charge_C_m2"] * areas).sum() == pytest.approx(charges.coulombs[0], rel=1e-6, abs=0)
    assert (data["free_charge_C_m2"][~inner] == 0).all()
    equal = bem.assemble(named(core=core, coat=coat), dielectrics={"coat": 1.0}).solve(1.0)
    assert np.isnan(equal.surface_field[len(core) :]).all()


def test_potential_on_lines_and_in_planes(tmp_path: Path) -> None:
    charges = bem.solve(bem.sphere_pair(6, 1.0, 3.0), [1.0, -1.0], tolerance=1e-5)
    on_axis = bem.line((0, 0, -1.5), (0, 0, 1.5), 7)
    np.testing.assert_allclose(on_axis[:, 2], np.linspace(-1.5, 1.5, 7))
    np.testing.assert_allclose(charges.potential_at(on_axis)[[0, 3, 6]], [1, 0, -1], atol=2e-3)
    for plane, sides in ((("x", 0.0), (1, 2)), (("y", 0.1), (0, 2)), (("z", 1.5), (0, 1))):
        found = charges.section(plane, points=41, margin=0.25)
        assert found.across == sides
        assert max(found.potential.shape) == 41
        # Outlines are on the circles where the spheres cross the plane.
        places = found.outlines().reshape(-1, 2)
        radius = math.sqrt(1 - 0.01) if plane[0] == "y" else 1.0
        distance = np.hypot(places[:, 0], places[:, 1] if plane[0] == "z" else np.abs(places[:, 1]) - 1.5)
        assert len(places) > 40
        assert np.abs(distance - radius).max() < 0.02
        middle = found.potential[np.abs(found.v - (0 if plane[0] == "z" else 1.5)).argmin(), np.abs(found.u).argmin()]
        assert middle == pytest.approx(-1, rel=1e-9, abs=0.01)
    found.write(tmp_path / "a.vtu")
    grid = meshio.read(tmp_path / "a.vtu")
    np.testing.assert_allclose(grid.point_data["potential"], found.potential.reshape(-1))
    np.testing.assert_allclose(grid.point_data["field_V_m"][0], charges.field_at(grid.points[:1])[0], rtol=1e-6)
    over = bem.solve(bem.sphere(4).moved((0, 0, 1.5)), 1.0, plane=("z", 0.0)).section(("x", 0.0), points=21)
    assert over.v[0] == 0
    assert np.abs(over.potential[0]).max() < 1e-9
    for call, text in [
        (lambda: bem.line((0, 0), (1, 1, 1)), "three numbers each"),
        (lambda: bem.line((0, 0, 0), (1, 1, 1), 1), "at least 2"),
        (lambda: charges.section(("w", 0)), "axis of the section"),
        (lambda: charges.section(("x", 0), points=1), "at least 2"),
        (lambda: charges.section(("x", 0), margin=-1), "from 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


def test_command_with_forces_lines_and_maps(tmp_path: Path) -> None:
    words = ("bem", "sphere-pair:4,1,3", "--potential", "1,-1", "--tolerance", "1e-3", "--json", "a.json")
    more = ("--forces", "--line", "0,0,2.6:0,0,9:5", "--output", "a.csv", "--section", "x=0")
    done = run(*words, *more, "--map", "a.png", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    exact = force_between_spheres(3.0, (1, -1))
    assert facts["force_newton"][1][2] == pytest.approx(exact, rel=0.08, abs=0)
    assert " N  1" in done.stdout
    table = np.loadtxt(tmp_path / "a.csv", delimiter=",")
    np.testing.assert_allclose(table[:, 2], np.linspace(2.6, 9, 5))
    from PIL import Image

    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB")).reshape(-1, 3).astype(int)
    assert (pixels[:, 0] > pixels[:, 2] + 100).any()  # red and blue: both signs
    assert (pixels[:, 2] > pixels[:, 0] + 100).any()
    run(*words, "--section", "z=1.5", "--map", "a.vtu", cwd=tmp_path)
    assert set(meshio.read(tmp_path / "a.vtu").point_data) == {"potential", "field_V_m"}
    for extra, text in [
        (("--section", "x=0"), "go together"),
        (("--line", "0,0,0:1,1,1"), "--output"),
        (("--line", "0,0,0", "--output", "b.csv"), "a line like"),
        (("--line", "0,0,0:1,1,1:1", "--output", "b.csv"), "from 2"),
        (("--mirror", "x=0", "--mirror", "x=1"), "two planes"),
    ]:
        assert text in refused(*words, *extra, cwd=tmp_path), extra


# --- refinement -------------------------------------------------------------------------------------------------------


def plate(cuts: int) -> bem.Mesh:
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]])
    mesh = bem.Mesh(corners, [[0, 1, 2], [0, 2, 3]])
    for _ in range(cuts):
        mesh = mesh.divided()
    return mesh


@pytest.mark.parametrize(
    ("mesh", "exact"),
    [(bem.cube(2), 0.6606782), (plate(1), 0.3667892), (bem.sphere(2), 1.0), (bem.ellipsoid(2, 1, 1, 2), 1.3151907)],
    ids=["cube", "square plate", "sphere", "spheroid"],
)
def test_capacitance_settles(mesh: bem.Mesh, exact: float) -> None:
    """The estimate is near the error, and the limit nearer than the last mesh."""
    found = bem.settled_capacitance(mesh, 4e-3)
    assert found.settled
    error = abs(found.capacitance.matrix[0, 0] / exact - 1)
    assert error < 1.5 * found.error
    assert found.error < 4e-3
    assert abs(found.extrapolated[0, 0] / found.capacitance.scale / exact - 1) < error
    assert [step.triangles for step in found.steps] == sorted({step.triangles for step in found.steps})
    assert len(found.system.mesh) == found.steps[-1].triangles


def test_dielectrics_and_groups_are_kept_by_refinement() -> None:
    mesh = named(core=bem.sphere(2), coat=bem.sphere(2, 2.0))
    how: dict[str, Any] = {"media": {"core": 2.0}, "dielectrics": {"coat": 2.0}}
    found = bem.settled_capacitance(mesh, 0.05, most_triangles=3000, unit="mm", **how)
    assert found.system.names == ["core"]
    assert set(np.unique(found.system.contrast[found.system.conductor < 0])) == {-1 / 3}
    # The mesh has no body to be moved to: it stays the polyhedron of the first one.
    first = bem.assemble(mesh, unit="mm", **how).capacitance().farads[0, 0]
    assert found.capacitance.farads[0, 0] == pytest.approx(first, rel=0.05, abs=0)
    # The core is within the coat also where the finer mesh of that has holes.
    seen = bem.settled_capacitance(mesh, 0.05, most_triangles=3000, unit="mm", dielectrics={"coat": 2.0})
    assert not seen.system.mesh.surface["closed"]
    np.testing.assert_array_equal(seen.system.permittivity, found.system.permittivity)
    assert seen.capacitance.farads[0, 0] == pytest.approx(found.capacitance.farads[0, 0], rel=1e-9, abs=0)
    assert "'core' lies within" in seen.system.notes[0]
    kept = bem.settled_capacitance(mesh, 0.05, most_triangles=1000, media={"core": 3.0}, dielectrics={"coat": 2.0})
    assert set(kept.system.permittivity[kept.system.conductor == 0]) == {3.0}
    pair = named(core=bem.sphere(2), far=bem.sphere(2).moved((5, 0, 0)))
    joined = bem.settled_capacitance(pair, 1e-3, most_triangles=600, join={"all": ["core", "far"]})
    assert joined.system.names == ["all"]
    assert len(joined.steps) > 1
    stopped = bem.settled_capacitance(mesh, 1e-4, most_triangles=500, **how)
    assert not stopped.settled
    assert len(stopped.system.mesh) <= 500
    for call, text in [
        (lambda: bem.settled_capacitance(mesh, 0.0), "between 0 and 1"),
        (lambda: bem.settled_capacitance(mesh, 0.1, most_triangles=1.5), "whole number"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


def test_division_of_triangles() -> None:
    mesh = named(cube=bem.cube(2), ball=bem.sphere(2).moved((3, 0, 0)))
    chosen = np.arange(len(mesh)) % 3 == 0
    made = mesh.divided(chosen)
    assert len(made) == len(mesh) + 3 * chosen.sum()
    assert made.areas.sum() == pytest.approx(mesh.areas.sum(), rel=1e-9, abs=0)
    assert made.surface["volume"] == pytest.approx(mesh.surface["volume"], rel=1e-9, abs=0)
    np.testing.assert_array_equal(np.unique(made.cell_data["group"], return_counts=True)[0], [0, 1])
    assert made.names == mesh.names
    whole = bem.sphere(2, 3.0).divided()
    np.testing.assert_allclose(np.linalg.norm(whole.vertices, axis=1), 3)  # on the sphere, not within
    assert whole.surface["closed"]
    assert whole.surface["oriented"]


def test_command_that_settles(tmp_path: Path) -> None:
    done = run("bem", "cube:2", "--settle", "0.01", "--unit", "mm", "--json", "a.json", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["settled"]
    assert facts["capacitance_error"] < 0.01
    assert facts["capacitance_extrapolated_farad"][0][0] == pytest.approx(0.6606785e-3 * FARAD, rel=3e-3, abs=0)
    assert facts["steps"][-1]["triangles"] == facts["unknowns"]
    assert "by estimate, on 48" in done.stdout
    assert "(extrapolated)" in done.stdout
    assert "triangles, refined" in done.stdout
    words = ("bem", "cube:2", "--settle", "1e-4", "--most-triangles", "200", "--json", "a.json")
    assert "raise it" in run(*words, cwd=tmp_path, code=3).stdout
    assert not json.loads((tmp_path / "a.json").read_text())["converged"]
    assert "below 1" in refused("bem", "cube:2", "--settle", "2")
    assert "--most-triangles is of --settle" in refused("bem", "cube:2", "--most-triangles", "100")
    first = run("bem", "cube:2", "--settle", "0.01", "--most-triangles", "100", cwd=tmp_path, code=3).stdout
    assert "extrapolated" not in first
    assert "48 triangles, closed" in first


def test_groups_that_are_one_conductor() -> None:
    """A sphere half in oil and half in air: the interface is the plane around it, and the flux is radial in both."""
    from scipy.spatial import Delaunay

    ball = bem.sphere(6)
    upper = ball.centroids[:, 2] > 0
    rings = [1.0 * 1.35**k for k in range(9)]
    flat = np.array([(r * math.cos(t), r * math.sin(t)) for r in rings for t in np.arange(36) * math.pi / 18])
    found = Delaunay(flat).simplices
    found = found[np.linalg.norm(flat[found].mean(axis=1), axis=1) > 0.99]
    (a, b), (c, d) = (flat[found[:, 1]] - flat[found[:, 0]]).T, (flat[found[:, 2]] - flat[found[:, 0]]).T
    turned = a * d < b * c
    found[turned] = found[turned][:, ::-1]
    half = [bem.Mesh(ball.vertices, ball.triangles[side]) for side in (upper, ~upper)]
    mesh = named(above=half[0], below=half[1], oil=bem.Mesh(np.c_[flat, 0 * flat[:, 0]], found))
    how: dict[str, Any] = {"media": {"below": 3.0}, "dielectrics": {"oil": 3.0}, "tolerance": 1e-5}
    system = bem.assemble(mesh, join={"ball": ["above", "below"]}, **how)
    assert system.names == ["ball"]
    assert system.capacitance().matrix[0, 0] == pytest.approx(2.0, rel=0.03, abs=0)  # the mean of 1 and 3
    for join, text in [
        ({"ball": []}, "a list of conductors"),
        ({"ball": ["above", "belov"]}, "did you mean 'below'"),
        ({"a": ["above", "below"], "b": ["above", "below"]}, "joined twice"),
    ]:
        with pytest.raises(ValueError, match=text):
            bem.assemble(mesh, join=join, **how)


def test_floating_conductors_are_eliminated() -> None:
    """What is left of the capacitance matrix by floating conductors is its Schur complement."""
    mesh = bem.sphere_pair(4, 1.0, 3.0).joined(bem.sphere(4).moved((3, 0, 0)))
    system = bem.assemble(mesh, tolerance=1e-7)
    c = system.capacitance(rtol=1e-9).matrix
    found = system.solve([1.0, 0, 0], floating=[2], rtol=1e-9)
    np.testing.assert_allclose(found.charge, [*(c[:2, 0] - c[:2, 2] * c[2, 0] / c[2, 2]), 0], rtol=1e-6, atol=1e-9)


def test_panels_of_nanometres(tmp_path: Path) -> None:
    """A quadrangle of 72 nm x 1 nm in metres is none whose corners are on a line."""
    (tmp_path / "a.qui").write_text(
        "0 thin\nQ Q 2.258e-006 -1.887e-006 6.86e-007 2.33e-006 -1.887e-006 6.86e-007 2.33e-006 -1.886e-006 6.86e-007"
        " 2.258e-006 -1.886e-006 6.86e-007\n"
    )
    mesh = bem.read(tmp_path / "a.qui")
    assert mesh.areas.sum() == pytest.approx(72e-18, rel=1e-9, abs=0)
    assert bem.settled_capacitance(mesh, 0.05).settled


def test_ranks_agree_with_images_and_dielectrics() -> None:
    mesh = named(core=bem.sphere(3).moved((0, 0, 3.0)), coat=bem.sphere(3, 2.0).moved((0, 0, 3.0)))
    how: dict[str, Any] = {"media": {"core": 2.0}, "dielectrics": {"coat": 2.0}, "plane": ("z", 0.0), "tolerance": 1e-6}

    def rank(comm: Any) -> tuple[Any, ...]:
        charges = bem.assemble(mesh, comm=comm, threads=1, **how).solve(1.0, rtol=1e-8)
        return charges.density, charges.forces().newtons, charges.section(("x", 0.0), points=9).potential

    (alone,) = tacit.comm.run_threads(1, rank)
    for found in tacit.comm.run_threads(2, rank):
        np.testing.assert_allclose(found[0], alone[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[1], alone[1], rtol=1e-4, atol=1e-16)
        np.testing.assert_allclose(found[2], alone[2], rtol=1e-4, atol=1e-6)
