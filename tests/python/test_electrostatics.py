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

from tacit.app import bem

meshio = pytest.importorskip("meshio")
FARAD = 4 * math.pi * bem.EPS0  # of a sphere of 1 m


# --- farads, coulombs, names ------------------------------------------------------------------------------------------


def test_farads_of_a_sphere_in_oil() -> None:
    for unit, metres in (("mm", 1e-3), (2e-6, 2e-6)):
        system = bem.assemble(bem.sphere(8, 2.0), unit=unit, permittivity=2.2, tolerance=1e-5)
        charges = system.solve(3.0)
        exact = FARAD * 2 * metres * 2.2
        assert charges.coulombs[0] == pytest.approx(3 * exact, rel=5e-3)
        found = system.capacitance()
        assert found.farads[0, 0] == pytest.approx(exact, rel=5e-3)
        assert found.mutual[0, 0] == found.farads[0, 0]
        # The same potential is made by 2.2 times the charge.
        assert charges.potential_at([[0, 0, 4.0]])[0] == pytest.approx(1.5, rel=5e-3)


def test_cube_in_farads() -> None:
    found = bem.assemble(bem.cube(12, grading=2.5), discretisation="galerkin", tolerance=1e-5).capacitance()
    assert found.farads[0, 0] == pytest.approx(0.6606785 * FARAD, rel=1e-3)


def test_forms_of_the_capacitance_of_two_spheres() -> None:
    c11, c12 = (value * FARAD for value in pair_capacitance(1.0, 3.0))
    found = bem.assemble(bem.sphere_pair(10, 1.0, 3.0), tolerance=1e-5).capacitance()
    np.testing.assert_allclose(found.farads, [[c11, c12], [c12, c11]], rtol=6e-3)
    np.testing.assert_allclose(found.mutual, [[c11 + c12, -c12], [-c12, c11 + c12]], rtol=8e-3)
    # Equal spheres with charges q and -q have potentials V and -V.
    assert found.between(0, 1) == pytest.approx((c11 - c12) / 2, rel=5e-3)
    # Far apart they are in series through infinity.
    far = bem.assemble(bem.sphere_pair(8, 1.0, 1000.0), tolerance=1e-6).capacitance()
    assert far.between(1, 0) == pytest.approx(FARAD / 2, rel=6e-3)
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
    assert floating.charge[0] == pytest.approx(0.25)
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


def test_command_in_farads_and_by_name(tmp_path: Path) -> None:
    grouped(tmp_path / "a.msh")
    words = ("bem", "a.msh", "--unit", "mm", "--permittivity", "4", "--capacitance", "--json", "a.json")
    done = run(*words, "--potential", "ring=5,lower half=1", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["names"] == ["ring", "upper half", "lower half"]
    assert facts["potential"] == [5, 0, 1]
    np.testing.assert_allclose(np.array(facts["charge"]) * FARAD * 1e-3, facts["charge_coulomb"])
    assert facts["total_charge_coulomb"] == pytest.approx(sum(facts["charge_coulomb"]))
    assert np.array(facts["capacitance_farad"])[0, 0] == pytest.approx(4e-3 * 0.2679 * FARAD, rel=0.05)
    assert np.array(facts["capacitance_mutual_farad"])[0, 1] > 0
    assert not any("rtol" in text for text in facts["warnings"])
    assert "ring at 5 V" in done.stdout
    assert " fF" in done.stdout
    assert " in all" in done.stdout
    assert "note: rtol" not in done.stdout
    charged = run(*words, "--floating", "ring", "--charge", "ring=1e-15", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["charge_coulomb"][0] == pytest.approx(1e-15)
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
