"""Linear boundary elements, boundary operators, Laplace's direct formulation, and waves scattered by bodies: against
closed forms, on one and several ranks.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import needs_mpi, refused
from cli_support import tacit as run

import tacit
from tacit.app import bem

meshio = pytest.importorskip("meshio")


def wedge(height: float, cuts: int) -> bem.Mesh:
    """The prism over a triangle with corners (0, 0), (1, 0) and (1, height), of length 1: two sides meet at an acute
    angle.
    """
    t = np.linspace(0, 1, cuts + 1)
    profile = [(0, 0), *((s, 0) for s in t[1:]), *((s, height * s) for s in t[:0:-1])]
    n = len(profile)
    points = [(x, y, z) for y in t for x, z in profile]
    triangles = []
    for row in range(cuts):
        for k in range(n):
            a, b = row * n + k, row * n + (k + 1) % n
            triangles += [(a, b, b + n), (a, b + n, a + n)]
    for row in (0, cuts * n):  # strips between the lower and the upper side
        triangles.append((row, row + 1, row + n - 1))
        for k in range(1, cuts):
            low, above = row + k, row + n - k
            triangles += [(low, low + 1, above - 1), (low, above - 1, above)]
    return bem.Mesh(points, triangles).mended()


# --- linear elements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "exact", "order", "within"),
    [
        (bem.sphere, 1.0, 1.9, 6e-3),
        (lambda c: bem.ellipsoid(c, 1, 1, 2), 1.3151907222, 1.9, 6e-3),
        (bem.cube, 0.6606782, 1.2, 5e-3),
    ],
)
def test_capacitance_of_linear_elements(
    body: Callable[[int], bem.Mesh], exact: float, order: float, within: float
) -> None:
    errors = [exact - bem.solve(body(c), elements="linear", tolerance=1e-5, rtol=1e-7).charge[0] for c in (3, 6)]
    assert abs(errors[1]) < within * exact
    assert math.log2(errors[0] / errors[1]) > order


def test_linear_density_is_continuous_and_better() -> None:
    """A sphere in a field: sigma = 3 E cos theta at the vertices; constant elements have it to first order between."""
    mesh = bem.sphere(6)
    charges = bem.solve(mesh, 0.0, field=(0, 0, 1.0), elements="linear", tolerance=1e-5, rtol=1e-7)
    cosines = charges.system.mesh.vertices[:, 2]
    assert charges.density.shape == (len(cosines),)
    assert np.abs(charges.density - 3 * cosines).max() < 0.06
    assert np.abs(charges.field_at([[0.1, 0.2, 0.3], [0, 0.5, -0.5]])).max() < 0.03
    at = [[0, 0, 1.5], [2.0, 1.0, 0.5], [0.0, 0.0, 1.0005]]
    expected = [-p[2] + p[2] / np.linalg.norm(p) ** 3 for p in np.asarray(at)]
    np.testing.assert_allclose(charges.potential_at(at), expected, atol=1.2e-2)
    step = 1e-3
    for axis in range(3):
        ends = np.array([[1.1, 0.4, 0.7]] * 2)
        ends[:, axis] += [-step, step]
        phi = charges.potential_at(ends)
        assert charges.field_at([[1.1, 0.4, 0.7]])[0, axis] == pytest.approx((phi[0] - phi[1]) / (2 * step), abs=1e-4)


def test_linear_elements_do_what_constant_ones_do(tmp_path: Path) -> None:
    """Names, floating conductors, farads, forces, mirrors, planes, potentials by triangle, and files."""
    pair = bem.sphere_pair(5, 1.0, 3.0)
    constant, linear = (bem.assemble(pair, elements=e, unit="mm", tolerance=1e-5) for e in ("constant", "linear"))
    assert linear.discretisation == "galerkin"
    one, two = constant.capacitance(), linear.capacitance()
    np.testing.assert_allclose(one.farads, two.farads, rtol=0.02)
    assert two.asymmetry < 1e-4
    for some in ({"potential": {"0": 2.0}}, {"floating": ["1"], "potential": [1.0, 0.0], "net_charge": 0.5}):
        a, b = constant.solve(**some), linear.solve(**some)
        np.testing.assert_allclose(a.charge, b.charge, rtol=0.02, atol=1e-3)
        np.testing.assert_allclose(a.potential, b.potential, rtol=0.02)
        np.testing.assert_allclose(a.forces().newtons[:, 2], b.forces().newtons[:, 2], rtol=0.05)
    by_triangle = linear.solve(np.where(constant.conductor == 0, 2.0, 0.0))
    np.testing.assert_allclose(by_triangle.charge, linear.solve([2.0, 0.0]).charge)
    by_vertex = linear.solve(np.where(linear.held_by == 0, 2.0, 0.0))
    np.testing.assert_allclose(by_vertex.charge, by_triangle.charge)
    by_vertex.write(tmp_path / "a.vtu")
    stored = meshio.read(tmp_path / "a.vtu")
    np.testing.assert_allclose(stored.point_data["charge_density"], by_vertex.density)
    assert len(stored.cell_data["charge_density"][0]) == len(pair)
    by_vertex.plot(tmp_path / "a.png")
    with pytest.raises(ValueError, match="neighbour with a vertex in common"):
        linear.solve(np.arange(len(pair)) * 1.0)


def test_linear_elements_with_images() -> None:
    whole = bem.solve(bem.cube(4), elements="linear", tolerance=1e-5, rtol=1e-7)
    corners = bem.cube(4).vertices[bem.cube(4).triangles]
    half = bem.Mesh(bem.cube(4).vertices, bem.cube(4).triangles[(corners[..., 0] >= -1e-12).all(axis=1)])
    mirrored = bem.solve(half, elements="linear", mirror=[("x", 0.0)], tolerance=1e-5, rtol=1e-7)
    assert 2 * mirrored.charge[0] == pytest.approx(whole.charge[0], rel=1e-4)
    np.testing.assert_allclose(
        mirrored.potential_at([[0.9, 0.2, 0.1], [-0.9, 0.2, 0.1]]), whole.potential_at([[0.9, 0.2, 0.1]])[0], rtol=1e-3
    )
    over = bem.solve(bem.sphere(5).moved((0, 0, 1.5)), elements="linear", plane=("z", 0), tolerance=1e-5)
    pair = bem.solve(bem.sphere_pair(5, 1.0, 3.0), [-1.0, 1.0], elements="linear", tolerance=1e-5)
    assert over.charge[0] == pytest.approx(pair.charge[1], rel=1e-4)
    assert over.potential_at([[0.3, 2.0, 0.0]])[0] == pytest.approx(0, abs=1e-9)


def test_meshes_of_linear_elements() -> None:
    """Loose triangles (STL) are joined where they touch, vertices of no triangle left out; slim triangles are fine."""
    good = bem.sphere(3)
    loose = bem.Mesh(good.vertices[good.triangles].reshape(-1, 3), np.arange(540).reshape(-1, 3))
    more = bem.Mesh(np.vstack([good.vertices, [[9.0, 9, 9]]]), good.triangles)
    truth = bem.solve(good, elements="linear", rtol=1e-8)
    for mesh in (loose, more):
        found = bem.solve(mesh, elements="linear", rtol=1e-8)
        assert found.charge[0] == pytest.approx(truth.charge[0], rel=1e-4)
        assert len(found.density) == len(good.vertices)
    slim = bem.solve(bem.cube(6, grading=3), elements="linear", tolerance=1e-5, rtol=1e-6)
    assert slim.charge[0] == pytest.approx(0.6606782, rel=2e-3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: bem.solve(m, elements="quadratic"), "elements"),
        (lambda m: bem.solve(m, elements="linear", discretisation="collocation"), "by 'galerkin'"),
        (lambda m: bem.solve(m, elements="linear", assembly="virtual"), "galerkin was asked for"),
        (lambda m: bem.solve(m, elements="linear", dielectrics={"1": 2.0}), "with dielectrics take 'constant'"),
        (lambda m: bem.settled_capacitance(m, elements="linear"), "constant elements"),
        (lambda m: bem.assemble(m, elements="linear", conductors=np.arange(len(m))), "vertex in common"),
        (lambda m: bem.boundary_operator(m, hypersingular=1.0, elements="constant"), "take elements='linear'"),
        (lambda m: bem.boundary_operator(m, single=1j), "real number"),
        (lambda m: bem.boundary_operator(m, single=1.0, wavenumber=-1.0), "from 0"),
        (lambda m: bem.boundary_operator(m, single=1.0, wavenumber=1.0, scalar="float64"), "complex"),
        (lambda m: bem.boundary_operator(m, single=1.0) @ np.ones(3), "values have shape"),
        (lambda m: bem.laplace(m), "one of dirichlet and neumann"),
        (lambda m: bem.laplace(m, dirichlet=[1.0]), "boundary values"),
        (lambda m: bem.scatter(m, 0.0), "above 0"),
        (lambda m: bem.scatter(m, math.nan), "above 0"),
        (lambda m: bem.scatter(m, 1.0, incident=(0, 0, 0)), "direction"),
        (lambda m: bem.scatter(m, 1.0, boundary="rigid"), "boundary"),
        (lambda m: bem.scatter(m, 1.0, elements="constant"), "take 'linear'"),
        (lambda m: bem.scatter(m, 1.0, coupling=math.inf), "coupling"),
        (lambda m: bem.scatter(m, 1.0, coupling="i"), "coupling"),
        (lambda m: bem.scatter(m, 1e300), "radians across the mesh"),
        (lambda m: bem.scatter(m, 1 + 1j), "a number is needed"),
        (lambda m: bem.scatter(m, 1.0, incident=(0, 1j, 0)), "direction"),
        (lambda m: bem.laplace(m, dirichlet=lambda p: p[:, 0] * np.nan), "not finite"),
        (lambda m: bem.laplace(m, neumann=lambda p, n: p[:, 0] * np.nan), "not finite"),
        (lambda m: bem.laplace(m, neumann=lambda p, n: np.ones(3)), "boundary values have shape"),
        (lambda m: bem.laplace(m, dirichlet=lambda p: 1j * p[:, 0]), "real numbers"),
        (lambda m: bem.boundary_operator(m, single=1.0).solve(np.ones(3)), "tested has shape"),
        (
            lambda m: bem.boundary_operator(m, single=1.0, elements="constant").solve(1j * np.ones(len(m))),
            "tested is of complex128",
        ),
        (lambda m: bem.scatter(m, 1.0, symmetry="symmetric"), "symmetry"),
        (lambda m: bem.scatter(bem.Mesh(m.vertices, m.triangles[1:]), 1.0), "do not belong to two triangles"),
        (lambda m: bem.scatter(bem.Mesh(m.vertices, m.triangles[:, ::-1]), 1.0), "point inwards"),
    ],
)
def test_wrong_use(call: Callable[[bem.Mesh], Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        call(bem.sphere_pair(2))


def test_mixed_normals_are_refused() -> None:
    """As a mesh from another program may have them: the operators would be wrong without a sign of it."""
    good = bem.sphere(3)
    turned = good.triangles.copy()
    turned[::2] = turned[::2, ::-1]
    with pytest.raises(ValueError, match="edges differ"):
        bem.scatter(bem.Mesh(good.vertices, turned), 1.0)
    mended = bem.Mesh(good.vertices, turned).mended()
    wave = bem.scatter(mended, 1.0)
    assert wave.cross_section == pytest.approx(bem.scatter(good, 1.0).cross_section, rel=1e-3)


# --- operators and Laplace's equation ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("elements", ["constant", "linear"])
@pytest.mark.parametrize("mesh", [wedge(0.07, 6), bem.cube(3, grading=2.5), bem.ellipsoid(3, 1, 3, 0.5)])
def test_double_layer_of_one_is_minus_one_half(mesh: bem.Mesh, elements: str) -> None:
    """Also where two sides meet at four degrees: the solid angle, as the mean over each function."""
    assert mesh.surface["closed"]
    K = bem.boundary_operator(mesh, double=1.0, elements=elements, tolerance=1e-5)
    one = np.ones(len(K.elements))
    error = (K @ one) / K.elements.integrals + 0.5
    # Of single functions and, weighted, of all.
    assert np.abs(error).max() < 5e-3
    assert math.sqrt((K.elements.integrals * error**2).sum() / K.elements.integrals.sum()) < 5e-4


def test_a_triangle_and_itself() -> None:
    """The double integral of 1 / r, in closed form (Arcioni 1997, table 1), from constant and from linear functions."""
    triangle = bem.Mesh([[0, 0, 0], [0.1, 0, 0], [0.05, 0.1, 0]], [[0, 1, 2]])
    for elements in ("constant", "linear"):
        V = bem.boundary_operator(triangle, single=1.0, elements=elements, tolerance=1e-6)
        total = (V @ np.ones(len(V.elements))).sum() * 4 * math.pi
        assert total == pytest.approx(1.0210603e-3, rel=3e-8)


def test_potentials_are_smooth_at_the_surface() -> None:
    """At any distance from a conductor, also on it, at centroids and vertices."""
    charges = bem.solve(bem.sphere(3), elements="linear")
    mesh = charges.system.mesh
    n = mesh.normals[:20] / mesh.areas[:20, None]
    found = [charges.potential_at(mesh.centroids[:20] + h * n) for h in (-1e-3, -1e-7, 0, 1e-9, 1e-5, 1e-3)]
    assert np.abs(np.diff(found, axis=0)).max() < 1.5e-3
    assert np.abs(found[2] - 1).max() < 5e-3
    assert np.abs(charges.potential_at(mesh.vertices[:20]) - 1).max() < 2e-2


@pytest.mark.slow
def test_operators_of_waves_on_the_sphere() -> None:
    """V = i k j h, K = i k^2 (j h)' / 2, W = -i k^3 j' h' on spherical harmonics of degree 1."""
    from scipy.special import spherical_jn, spherical_yn

    k, n = 2.0, 1
    j, h = spherical_jn(n, k), spherical_jn(n, k) + 1j * spherical_yn(n, k)
    dj = spherical_jn(n, k, True)
    dh = dj + 1j * spherical_yn(n, k, True)
    exact = {"single": 1j * k * j * h, "double": 0.5j * k**2 * (j * dh + dj * h), "hypersingular": -1j * k**3 * dj * dh}
    for name, value in exact.items():
        errors = []
        for cuts in (3, 6):
            A = bem.boundary_operator(bem.sphere(cuts), wavenumber=k, **{name: 1.0})  # type: ignore[arg-type]
            z = A.mesh.vertices[:, 2]
            errors.append(abs(z @ (A @ z) / (z @ A.elements.tested(z)) - value))
        assert errors[1] < 0.012
        assert errors[0] / errors[1] > 3.3, name


@pytest.mark.slow
@pytest.mark.parametrize("elements", ["constant", "linear"])
@pytest.mark.parametrize("side", ["outside", "inside"])
def test_direct_formulation(side: str, elements: str) -> None:
    """The potential of a charge on the other side, from its values or its slope on the sphere."""
    source = np.array([0.2, -0.3, 0.1]) if side == "outside" else np.array([2.0, 1.0, -1.0])
    points = np.array([[1.4, 0, 0.3], [0, -2, 1]]) if side == "outside" else np.array([[0.3, 0.4, 0], [0, 0, -0.6]])

    def potential(p: Any) -> Any:
        return 1 / np.linalg.norm(p - source, axis=1)

    def slope(p: Any, n: Any) -> Any:
        return -((p - source) * n).sum(axis=1) / np.linalg.norm(p - source, axis=1) ** 3

    mesh = bem.sphere(5)
    given = bem.laplace(mesh, dirichlet=potential, side=side, elements=elements)
    np.testing.assert_allclose(given.at(points), potential(points), rtol=1.5e-2)
    found = bem.laplace(mesh, neumann=slope, side=side, elements=elements)
    # Inside it is known up to a constant: its mean on the sphere, which is the value in the centre.
    constant = 0.0 if side == "outside" else 1 / np.linalg.norm(source)
    np.testing.assert_allclose(found.at(points) + constant, potential(points), rtol=2.5e-2)
    assert found.result.converged


# --- waves ------------------------------------------------------------------------------------------------------------


def sphere_series(k: float, boundary: str, cosines: Any) -> Any:
    """The far field of the unit sphere in exp(i k z), by angle from z."""
    from scipy.special import eval_legendre, spherical_jn, spherical_yn

    total = np.zeros(np.shape(cosines), complex)
    for n in range(int(k + 8 * k ** (1 / 3) + 12)):
        j, y = (f(n, k, boundary == "hard") for f in (spherical_jn, spherical_yn))
        total += (2 * n + 1) * (j / (j + 1j * y)) * eval_legendre(n, cosines)
    return 1j / k * total


ANGLES = np.linspace(0, math.pi, 31)
DIRECTIONS = np.column_stack([np.sin(ANGLES), 0 * ANGLES, np.cos(ANGLES)])


def error_of(wave: bem.Scattering) -> float:
    exact = sphere_series(wave.wavenumber, wave.boundary, np.cos(ANGLES))
    return float(np.linalg.norm(wave.far_field(DIRECTIONS) - exact) / np.linalg.norm(exact))


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["hard", "soft"])
def test_sphere_against_its_series(boundary: str) -> None:
    errors = [error_of(bem.scatter(bem.sphere(c), 2.0, boundary=boundary, tolerance=1e-5)) for c in (3, 6)]
    assert errors[1] < 0.03
    assert errors[0] / errors[1] > 3.2


@pytest.mark.parametrize("boundary", ["hard", "soft"])
@pytest.mark.parametrize("k", [1e-3, 0.05])
def test_bodies_much_smaller_than_the_wavelength(k: float, boundary: str) -> None:
    """Neither the equation nor the cross-section loses digits: a hard sphere's is 7/9 pi k^4, a soft one's 4 pi. Nor is
    there a word on a goal that the caller has not given.
    """
    wave = bem.scatter(bem.sphere(6), k, boundary=boundary)
    assert error_of(wave) < (0.02 if boundary == "hard" else 0.006)
    exact = 7 / 9 * math.pi * k**4 if boundary == "hard" else 4 * math.pi
    assert wave.cross_section == pytest.approx(exact, rel=4e-2, abs=0)
    assert wave.warnings == []


def test_far_fields_that_the_error_of_the_matrix_hides_are_told() -> None:
    with pytest.warns(RuntimeWarning, match="take a smaller tolerance"):
        bem.scatter(bem.sphere(3), 1e-6)


def test_directions_of_any_length() -> None:
    wave = bem.scatter(bem.sphere(2), 1.0, incident=(1e-320, 1e-320, 0.0))
    np.testing.assert_allclose(wave.incident, np.array([1, 1, 0]) / math.sqrt(2))
    d = np.array([[1e300, 1e300, 0.0], [0, 1e-310, 0]])
    np.testing.assert_allclose(wave.far_field(d), wave.far_field([[1, 1, 0], [0, 1, 0]]))


def dense(operator: bem.BoundaryOperator) -> Any:
    return np.column_stack([operator.A @ e for e in np.eye(len(operator.elements))])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plain", "combined"),
    [
        ({"identity": 0.5, "double": -1.0}, {"identity": 0.5, "double": -1.0, "hypersingular": 1j / math.pi}),
        ({"single": 1.0}, {"single": 1.0, "adjoint": 0.0}),
    ],
)
def test_resonances_of_the_inside(plain: dict[str, Any], combined: dict[str, Any]) -> None:
    """Near k = pi the unit ball has a wave with u = 0 on its surface, at which the equations without their derivative
    are singular. Burton and Miller's are not.
    """
    from scipy.optimize import minimize_scalar

    mesh = bem.sphere(2)
    if "adjoint" in combined:  # V + i / k (1/2 + K'), times k / i
        combined = {"identity": 0.5, "adjoint": 1.0, "single": -1j * math.pi}

    def least(k: float, form: dict[str, Any]) -> float:
        values = np.linalg.svd(dense(bem.boundary_operator(mesh, wavenumber=k, **form)), compute_uv=False)
        return float(values[-1] / values[0])

    found = minimize_scalar(lambda k: least(k, plain), bounds=(3.15, 3.4), method="bounded", options={"maxiter": 14})
    assert found.fun < 2e-3
    assert least(found.x, combined) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["hard", "soft"])
def test_a_resonance_does_no_harm(boundary: str) -> None:
    """At k = pi Burton and Miller's equation is as good as at other wave numbers."""
    errors = [error_of(bem.scatter(bem.sphere(4), k, boundary=boundary)) for k in (2.9, math.pi, 3.4)]
    assert errors[1] < 0.06
    assert errors[1] < 1.2 * max(errors[0], errors[2])


def test_fields_of_waves(tmp_path: Path) -> None:
    """Near and far of one another, energy, the boundary condition, and nothing within the body."""
    mesh = bem.ellipsoid(4, 1, 0.7, 0.8)
    hard, soft = (bem.scatter(mesh, 2.0, incident=(1, 2, 0), boundary=b) for b in ("hard", "soft"))
    d = np.array([[0.6, 0.0, 0.8], [0.0, -1.0, 0.0]])
    for wave in (hard, soft):
        r = 3e3
        near = wave.scattered_at(r * d) * r * np.exp(-2j * r)
        np.testing.assert_allclose(near, wave.far_field(d), rtol=1e-2)
        assert np.abs(wave.field_at([[0.1, 0.2, 0.1], [0, 0, -0.3]])).max() < 0.06
        # All power that is taken from the wave is scattered: a rule of 20 x 40 angles.
        x, w = np.polynomial.legendre.leggauss(20)
        phi = np.arange(40) * 2 * math.pi / 40
        s = np.sqrt(1 - x**2)
        grid = np.stack([np.outer(s, np.cos(phi)), np.outer(s, np.sin(phi)), np.outer(x, 0 * phi + 1)], -1).reshape(
            -1, 3
        )
        power = float((np.abs(wave.far_field(grid)) ** 2).reshape(20, 40).sum(1) @ w * 2 * math.pi / 40)
        assert wave.cross_section == pytest.approx(power, rel=2e-2)
    n = mesh.normals / mesh.areas[:, None]
    assert np.abs(soft.field_at(mesh.centroids[:40])).max() < 0.1
    away = [np.abs(hard.field_at(mesh.centroids[:40] + h * n[:40])) for h in (0.01, 0.02)]
    np.testing.assert_allclose(away[0], away[1], atol=0.02)
    section = hard.section(("z", 0.0), points=25)
    assert np.isnan(section.field[12, 12])
    assert np.isfinite(section.field[0]).all()
    section.plot(tmp_path / "near.png")
    hard.write(tmp_path / "a.vtu")
    np.testing.assert_allclose(meshio.read(tmp_path / "a.vtu").point_data["magnitude"], np.abs(hard.density))


def test_constant_elements_on_soft_bodies() -> None:
    wave = bem.scatter(bem.sphere(5), 2.0, boundary="soft", elements="constant")
    assert len(wave.density) == len(wave.mesh)
    assert error_of(wave) < 0.05


def test_coarse_meshes_are_told() -> None:
    with pytest.warns(RuntimeWarning, match=r"edges in a wavelength"):
        wave = bem.scatter(bem.sphere(3), 8.0)
    assert any("edges in a wavelength" in text for text in wave.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bem.scatter(bem.sphere(3), 1.0).warnings == []


def test_two_bodies_and_a_rotated_wave() -> None:
    """Turning bodies and wave together changes nothing; far apart they scatter as one each."""
    turn = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    pair = bem.sphere_pair(3, 1.0, 3.0)
    turned = bem.Mesh(pair.vertices @ turn.T, pair.triangles)
    one = bem.scatter(pair, 1.0, incident=(0.3, 0.2, 1.0), tolerance=1e-5)
    two = bem.scatter(turned, 1.0, incident=turn @ np.array([0.3, 0.2, 1.0]), tolerance=1e-5)
    assert one.cross_section == pytest.approx(two.cross_section, rel=1e-4)
    np.testing.assert_allclose(one.far_field(DIRECTIONS), two.far_field(DIRECTIONS @ turn.T), atol=1e-3)


# --- the command, and ranks -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    words = ["scatter", "sphere:5", "--wavenumber", "2", "--boundary", "soft", "--angles", "5", "--at", "0,0,-2"]
    run(*words, "--json", "a.json", "--section", "y=0", "--map", "near.png", "--vtu", "a.vtu", cwd=tmp_path)
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["converged"]
    assert [f["degrees"] for f in facts["far_field"]] == pytest.approx([0, 45, 90, 135, 180])
    exact = sphere_series(2.0, "soft", np.cos(np.radians([0, 45, 90, 135, 180])))
    np.testing.assert_allclose([complex(f["real"], f["imaginary"]) for f in facts["far_field"]], exact, atol=0.06)
    assert (tmp_path / "near.png").stat().st_size > 1000
    run("bem", "cube:4", "--elements", "linear", "--capacitance", "--json", "c.json", "--vtu", "c.vtu", cwd=tmp_path)
    c = json.loads((tmp_path / "c.json").read_text())
    assert c["elements"] == "linear"
    assert c["unknowns"] == 98
    assert c["capacitance"][0][0] == pytest.approx(0.6606782, rel=2e-2)


def test_commands_refuse(tmp_path: Path) -> None:
    assert "--wavenumber is needed" in refused("scatter", "sphere:2")
    assert "above 0" in refused("scatter", "sphere:2", "--wavenumber", "0") or "> 0" in refused(
        "scatter", "sphere:2", "--wavenumber", "0"
    )
    assert "no direction" in refused("scatter", "sphere:2", "--wavenumber", "1", "--incident", "0,0,0")
    assert "take 'linear'" in refused("scatter", "sphere:2", "--wavenumber", "1", "--elements", "constant")
    mesh = bem.sphere(2)
    bem.Mesh(mesh.vertices, mesh.triangles[1:]).write(tmp_path / "open.vtu")
    assert "closed surfaces" in refused("scatter", "open.vtu", "--wavenumber", "1", cwd=tmp_path, code=4)
    assert "constant elements" in refused("bem", "sphere:2", "--elements", "linear", "--settle", "0.1")


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=needs_mpi), pytest.param(4, marks=[*needs_mpi, pytest.mark.slow])]
)
def test_ranks_agree(ranks: int, tmp_path: Path) -> None:
    """Charges, fields and cross-sections of one rank and of several."""
    found = []
    for count in (1, ranks):
        words = ["--ranks", str(count), "--at", "0,0,-2"]
        wave = ["scatter", "sphere:4", "--wavenumber", "2", "--angles", "3", "--json", f"s{count}.json"]
        run(*wave, *words, cwd=tmp_path)
        charges = ["bem", "sphere-pair:3", "--elements", "linear", "--capacitance", "--json", f"c{count}.json"]
        run(*charges, *words, cwd=tmp_path)
        s, c = (json.loads((tmp_path / f"{kind}{count}.json").read_text()) for kind in "sc")
        found.append([s["cross_section"], s["at"][0]["real"], s["far_field"][1]["imaginary"], *c["capacitance"][0],
                      c["at"][0]["potential"]])  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


def test_options_that_differ_between_ranks_are_refused() -> None:
    def body(comm: Any) -> str:
        with pytest.raises(ValueError, match="wavenumber"):
            bem.scatter(bem.sphere(2), 1.0 + comm.rank, comm=comm)
        return "refused"

    assert tacit.comm.run_threads(2, body) == ["refused"] * 2
