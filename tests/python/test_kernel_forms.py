"""Derivatives of named kernels, kernels of three components, entries as arrays, and points of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Run

import tacit
from tacit.op.kernels import entries

SMOOTH = ("gaussian", "matern12", "matern32", "matern52", "matern", "inverse_multiquadric")
ALL = ("laplace", "helmholtz", "yukawa", "thin_plate", *SMOOTH)
MORE: dict[str, dict[str, float]] = {"helmholtz": {"kappa": 5.0}, "yukawa": {"kappa": 3.0}, "matern": {"nu": 2.2}}


def whole(A: Any) -> np.ndarray:
    return np.asarray(A @ np.eye(A.shape[1], dtype=A.dtype))


def error(A: Any, a: np.ndarray) -> float:
    return float(np.linalg.norm(whole(A) - a) / np.linalg.norm(a))


# --- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_derivatives_are_differences(name: str) -> None:
    rng = np.random.default_rng(1)
    x, y, length = rng.random((20, 3)), rng.random((15, 3)) + 0.1, np.array([0.5, 0.8, 1.3])
    more: dict[str, Any] = {"variance": 1.7, **MORE.get(name, {})}
    h = 1e-5
    for a in range(3):
        e = h * np.eye(3)[a]
        found = entries(x, name, sources=y, length=length, derivative=a, **more)
        plus, minus = (entries(x + s * e, name, sources=y, length=length, **more) for s in (1, -1))
        assert np.abs(found - (plus - minus) / (2 * h)).max() < 1e-7 * np.abs(found).max()
        found = entries(x, name, sources=y, length=length, derivative=("length", a), **more)
        plus, minus = (entries(x, name, sources=y, length=length + s * e, **more) for s in (1, -1))
        assert np.abs(found - (plus - minus) / (2 * h)).max() < 1e-7 * np.abs(found).max()
    found = entries(x, name, sources=y, length=0.7, derivative="length", **more)
    plus, minus = (entries(x, name, sources=y, length=0.7 + s * h, **more) for s in (1, -1))
    assert np.abs(found - (plus - minus) / (2 * h)).max() < 1e-7 * np.abs(found).max()


def test_derivatives_of_the_gaussian_are_the_formula() -> None:
    x = np.random.default_rng(0).random((50, 2))
    d = (x[:, None] - x[None]) / [0.5, 2.0]
    k = 3 * np.exp(-(d**2).sum(2) / 2)
    given: dict[str, Any] = {"length": [0.5, 2.0], "variance": 3.0, "nugget": 0.7}
    assert np.allclose(entries(x, "gaussian", derivative=1, **given), -d[:, :, 1] / 2 * k, rtol=0, atol=1e-14)
    by_length = d[:, :, 0] ** 2 / 0.5 * k
    assert np.allclose(entries(x, "gaussian", derivative=("length", 0), **given), by_length, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["laplace", "helmholtz", "matern32", "matern"])
@pytest.mark.parametrize("derivative", [2, "length"])
def test_matrices_of_derivatives(name: str, derivative: Any) -> None:
    p = np.random.default_rng(2).random((500, 3)) * [5, 1, 1]
    given: dict[str, Any] = {"length": 0.6, "derivative": derivative, **MORE.get(name, {})}
    a = entries(p, name, **given)
    A = tacit.hmatrix(p, name, tolerance=1e-6, leaf_size=32, **given)
    assert A.report["low_rank_blocks"] > 0
    assert error(A, a) < 1e-6
    assert np.array_equal(a.T, -a if derivative == 2 else a)
    far = p + [6.0, 0, 0]
    B = tacit.hmatrix(p, name, sources=far, tolerance=1e-6, leaf_size=32, **given)
    assert error(B, entries(p, name, sources=far, **given)) < 1e-6


def test_likelihoods_have_gradients() -> None:
    """d log det K / d length = tr(K^-1 dK / d length)."""
    x = np.random.default_rng(0).random((60, 2))
    given: dict[str, Any] = {"length": 0.3, "nugget": 0.1}
    k, dk = entries(x, "matern52", **given), entries(x, "matern52", derivative="length", **given)
    h = 1e-5
    lengths = [entries(x, "matern52", length=0.3 + s * h, nugget=0.1) for s in (1, -1)]
    plus, minus = (np.linalg.slogdet(a)[1] for a in lengths)
    assert np.trace(np.linalg.solve(k, dk)) == pytest.approx((plus - minus) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_derivatives_at_equal_points_are_zero(name: str) -> None:
    """What a gradient through the root of a squared distance makes of them is no number."""
    x = np.random.default_rng(0).random((30, 3))
    x[4] = x[9]
    for derivative in (0, 2, "length", ("length", 1)):
        a = entries(x, name, derivative=derivative, **MORE.get(name, {}))
        assert np.isfinite(a).all()
        assert not a[np.arange(30), np.arange(30)].any()
        assert a[4, 9] == a[9, 4] == 0


def test_many_near_points_have_a_semidefinite_gaussian() -> None:
    x = np.linspace(500, 501, 513)
    assert np.linalg.eigvalsh(entries(x, "gaussian", length=0.7)).min() > -1e-12


def test_derivatives_that_are_refused() -> None:
    p = np.random.default_rng(0).random((40, 2))
    for given, match in (
        ({"derivative": 2}, r"derivative is 2; a coordinate of the targets \(0 to 1\)"),
        ({"derivative": -1}, "derivative is -1"),
        ({"derivative": True}, "derivative is True"),
        ({"derivative": "lengths"}, "derivative is 'lengths'"),
        ({"derivative": ("length", 2)}, "derivative is"),
        ({"derivative": ("width", 0)}, "derivative is"),
        ({"derivative": "length", "length": [1.0, 2.0]}, r"there are 2; \('length', coordinate\) is needed"),
    ):
        with pytest.raises(ValueError, match=match):
            tacit.hmatrix(p, "gaussian", **given)
    with pytest.raises(ValueError, match=r"matern with nu = 0.7; 0.5, or from 1.05 on, is needed"):
        tacit.hmatrix(p, "matern", nu=0.7, derivative=0)
    with pytest.raises(ValueError, match="derivative is of a kernel by name"):
        tacit.hmatrix(p, lambda i, j: np.ones((len(i), len(j))), derivative=0)


# --- three components -------------------------------------------------------------------------------------------------


def tensor(
    x: np.ndarray, y: np.ndarray, name: str, epsilon: float = 0.0, nu: float = 0.5, a: float = 1.0
) -> np.ndarray:
    r = x[:, None] - y[None]
    square = (r**2).sum(2)
    outer, eye = r[:, :, :, None] * r[:, :, None, :], np.eye(3)
    if name == "rpy":
        d = np.sqrt(np.where(square > 0, square, 1.0))[:, :, None, None]
        apart = ((1 + 2 * a**2 / (3 * d**2)) * eye + (1 - 2 * a**2 / d**2) * outer / d**2) / (8 * np.pi * d)
        d = d * (square > 0)[:, :, None, None]
        over = ((1 - 9 * d / (32 * a)) * eye + 3 / (32 * a) * outer / np.where(d > 0, d, 1)) / (6 * np.pi * a)
        g = np.where(d > 2 * a, apart, over)
    else:
        s = np.sqrt(square + epsilon**2)[:, :, None, None]
        t = np.where(s > 0, s, np.inf)
        g = ((3 - 4 * nu) / t + 2 * (1 - nu) * epsilon**2 / t**3) * eye + outer / t**3
        g /= 16 * np.pi * (1 - nu)
    return np.asarray(g.transpose(0, 2, 1, 3).reshape(3 * len(x), 3 * len(y)))


CASES: tuple[tuple[str, dict[str, float], dict[str, float]], ...] = (
    ("stokeslet", {}, {}),
    ("stokeslet", {"epsilon": 0.02}, {"epsilon": 0.02}),
    ("kelvin", {"poisson": 0.25}, {"nu": 0.25}),
    ("kelvin", {"poisson": 0.4, "epsilon": 0.1}, {"nu": 0.4, "epsilon": 0.1}),
    ("rpy", {"radius": 0.03}, {"a": 0.03}),
)


@pytest.mark.parametrize(("name", "given", "form"), CASES)
def test_tensors_are_those_of_the_formula(name: str, given: Any, form: Any) -> None:
    rng = np.random.default_rng(0)
    p = rng.random((60, 3))
    p[5] = p[2]
    p[9] = p[3] + 0.01
    a = 2.5 * tensor(p, p, name, **form)
    found = entries(p, name, variance=2.5, **given)
    assert np.abs(found - a).max() < 1e-14 * np.abs(a).max()
    assert np.array_equal(found, found.T)
    rows, columns = [7, 8, 100, 7], [0, 179, 16]
    assert np.array_equal(entries(p, name, rows, columns, variance=2.5, **given), found[np.ix_(rows, columns)])
    q = rng.random((50, 3))
    assert np.abs(entries(p, name, sources=q, **given) - tensor(p, q, name, **form)).max() < 1e-14 * np.abs(a).max()


@pytest.mark.parametrize(("name", "given", "form"), CASES)
def test_matrices_of_tensors(name: str, given: Any, form: Any) -> None:
    p = np.random.default_rng(0).standard_normal((300, 3))
    p /= np.linalg.norm(p, axis=1)[:, None]
    a = tensor(p, p, name, **form) + 0.1 * np.eye(900)
    for more in ({}, {"symmetry": "symmetric"}, {"dtype": "float32"}, {"compression": "aca"}):
        A = tacit.hmatrix(p, name, nugget=0.1, tolerance=1e-4, **given, **more)
        assert A.shape == (900, 900)
        assert A.report["low_rank_blocks"] > 0
        assert error(A, a) < 1e-4
        assert A.report["error_bound"] < 2e-4


def test_components_that_are_hardly_coupled() -> None:
    """Of spheres that all overlap: crosses of one component do not lead to another."""
    p = np.random.default_rng(0).random((800, 3))
    A = tacit.hmatrix(p, "rpy", nugget=100.0)
    assert A.report["entries_evaluated"] < 0.9  # blocks are not made twice
    assert error(A, tensor(p, p, "rpy") + 100 * np.eye(2400)) < 1e-4


@pytest.mark.parametrize(("m", "n"), [(40, 900), (900, 40), (1, 300)])
def test_slim_matrices_of_tensors(m: int, n: int) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.random((m, 3)), rng.random((n, 3)) + [1.5, 0, 0]
    A = tacit.hmatrix(p, "kelvin", sources=q, tolerance=1e-6)
    assert error(A, tensor(p, q, "kelvin", nu=0.3)) < 1e-6
    x = rng.standard_normal(3 * m)
    assert np.allclose(A.T @ x, tensor(p, q, "kelvin", nu=0.3).T @ x, atol=1e-5)


def test_properties_of_tensors() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((80, 3))
    assert np.allclose(entries(p, "kelvin", poisson=0.5, epsilon=0.1), entries(p, "stokeslet", epsilon=0.1), rtol=1e-13)
    # Spheres that overlap as well: mobilities are positive definite.
    assert np.linalg.eigvalsh(entries(p, "rpy", radius=0.1)).min() > 0
    # The flow of a force has no divergence, and a regularised force acts on its own point.
    y, x, h = np.zeros((1, 3)), np.array([[0.3, -0.5, 0.7]]), 1e-5
    for epsilon in (0.0, 0.2):
        divergence = np.zeros(3)
        for a in range(3):
            e = h * np.eye(3)[a]
            plus, minus = (entries(x + s * e, "stokeslet", [a], sources=y, epsilon=epsilon) for s in (1, -1))
            divergence += ((plus - minus) / (2 * h))[0]
        assert np.abs(divergence).max() < 1e-9
    assert np.allclose(entries(y, "stokeslet", epsilon=0.2), 2 / 0.2 / (8 * np.pi) * np.eye(3))
    assert not entries(y, "stokeslet").any()


@pytest.mark.parametrize("ranks", [2, 3])
def test_tensors_on_ranks(ranks: int) -> None:
    p = np.random.default_rng(0).random((150, 3))
    a = tensor(p, p, "stokeslet", epsilon=0.05)
    x = np.random.default_rng(1).standard_normal(450)

    def work(comm: Any) -> None:
        A = tacit.hmatrix(p, "stokeslet", epsilon=0.05, leaf_size=48, comm=comm)
        assert np.linalg.norm(A @ x - a @ x) < 2e-4 * np.linalg.norm(a) * np.linalg.norm(x) / 450**0.5
        with pytest.raises(ValueError, match="epsilon"):
            tacit.hmatrix(p, "stokeslet", epsilon=0.05 * (1 + comm.rank), comm=comm)

    tacit.comm.run_threads(ranks, work)


def test_a_solve_with_stokeslets() -> None:
    """Forces on a sphere that moves with velocity 1: 6 pi radius viscosity in all (Stokes 1851)."""
    n = 400
    k = np.arange(n)
    z, angle = 1 - (2 * k + 1) / n, 2.399963229728653 * k
    p = np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], axis=1)
    A = tacit.hmatrix(p, "stokeslet", epsilon=0.06, tolerance=1e-6)
    velocity = np.tile([1.0, 0.0, 0.0], n)
    result = tacit.solve(A, velocity, rtol=1e-6)
    assert result.converged
    assert result.x.reshape(n, 3).sum(0) == pytest.approx([6 * np.pi, 0, 0], rel=0.03, abs=0.01)


def test_tensors_that_are_refused() -> None:
    p = np.random.default_rng(0).random((40, 3))
    for points, name, given, match in (
        (p[:, :2], "stokeslet", {}, "points have 2 coordinates; the kernel 'stokeslet' is of points of 3"),
        (p, "stokeslet", {"length": 2.0}, "length is of a kernel with one number for each point"),
        (p, "kelvin", {"derivative": 0}, "derivative is of a kernel with one number"),
        (p, "kelvin", {"poisson": 0.6}, "poisson is 0.6"),
        (p, "stokeslet", {"poisson": 0.3}, "poisson is of the kernel kelvin"),
        (p, "rpy", {"radius": 0.0}, "radius is 0"),
        (p, "laplace", {"epsilon": 0.1}, "epsilon is of the kernel stokeslet or kelvin"),
        (p, "stokeslet", {"epsilon": -0.1}, "epsilon is -0.1"),
    ):
        with pytest.raises(ValueError, match=match):
            tacit.hmatrix(points, name, **given)


# --- entries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_entries_are_those_of_the_matrix(name: str) -> None:
    p = np.random.default_rng(0).random((70, 2))
    given = MORE.get(name, {})
    A = tacit.hmatrix(p, name, length=0.4, nugget=0.3, admissibility="none", storage="full", **given)
    a = entries(p, name, length=0.4, nugget=0.3, **given)
    assert np.abs(whole(A) - a).max() < 1e-15 * np.abs(a).max() * 70
    assert np.array_equal(
        entries(p, name, [3, 1], [2, 2, 69], length=0.4, nugget=0.3, **given), a[[3, 1]][:, [2, 2, 69]]
    )


def test_entries_need_no_import_of_their_own(python: Run) -> None:
    done = python("import tacit; print(tacit.op.kernels.entries([0.0, 1.0, 2.0], 'gaussian').shape)")
    assert done.stdout.strip() == "(3, 3)", done.stderr


def test_entries_that_are_refused() -> None:
    p = np.random.default_rng(0).random((40, 3))
    with pytest.raises(TypeError, match="unexpected option 'lenght'"):
        entries(p, "gaussian", lenght=None)
    with pytest.raises(IndexError, match="rows has 40; numbers from 0 to 39"):
        entries(p, "gaussian", [40])
    with pytest.raises(IndexError, match="columns has -1"):
        entries(p, "gaussian", [0], [-1])
    with pytest.raises(TypeError, match="rows is of float64"):
        entries(p, "gaussian", [0.5])
    with pytest.raises(TypeError, match="kernel is of function"):
        entries(p, lambda i, j: i)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"nugget is 1\.0, of the diagonal, with sources"):
        entries(p, "gaussian", sources=p, nugget=1.0)
    with pytest.raises(ValueError, match="sources has shape"):
        entries(p, "gaussian", sources=p[:, :2])
    assert entries(p, "gaussian", [], [1]).shape == (0, 1)


# --- points of any size -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e160, 1e-160, 1e100, 1e-100])
def test_points_of_any_size(scale: float) -> None:
    p = np.random.default_rng(0).random((300, 3))
    for name, more, power in (
        ("laplace", {}, -1),
        ("yukawa", {"kappa": 2.0}, -1),
        ("helmholtz", {"kappa": 2.0}, -1),
        ("stokeslet", {}, -1),
        ("rpy", {"radius": 0.01}, -1),
    ):
        there = {k: v / scale if k == "kappa" else v * scale for k, v in more.items()}
        a = entries(p, name, **more)
        found = entries(p * scale, name, **there)
        assert np.abs(found / scale**power - a).max() < 1e-13 * np.abs(a).max(), name
        A = tacit.hmatrix(p * scale, name, leaf_size=24, **there)
        x = np.random.default_rng(1).standard_normal(A.shape[1])
        assert np.linalg.norm((A @ x) / scale**power - a @ x) < 1e-3 * np.linalg.norm(a @ x), name
        assert A.report["low_rank_blocks"] > 0
    for name in SMOOTH:
        a = entries(p * scale, name)
        far = np.eye(300) if scale > 1 else np.ones((300, 300))
        assert np.abs(a - far).max() < 1e-90, name
    force = entries(p * scale, "laplace", derivative=0)
    if abs(np.log10(scale)) < 150:
        a = entries(p, "laplace", derivative=0)
        assert np.abs(force * scale**2 - a).max() < 1e-13 * np.abs(a).max()


def test_near_and_far_points_together() -> None:
    """Distances whose squares leave the range of double, beside ordinary ones."""
    x = np.array([0.0, 1e-170, 3e-170, 1.0, 2.0, 1e170, 3e170])[:, None]
    r = np.abs(x - x.T)
    expected = np.where(r > 0, 0.25 / np.pi / np.where(r > 0, r, 1.0), 0.0)
    assert np.allclose(entries(x, "laplace"), expected, rtol=1e-14, atol=0)
    with pytest.raises(tacit.InputError, match="distances are above the largest number"):
        tacit.hmatrix(np.array([[-1.5e308], [1.5e308]]), "laplace")
    with pytest.raises(tacit.InputError, match="the entry at row"):
        tacit.hmatrix(np.linspace(0, 1e300, 20), "thin_plate")


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", ["laplace", "gaussian", "stokeslet"])
def test_few_points_and_equal_ones(name: str, n: int) -> None:
    for p in (np.random.default_rng(0).random((n, 3)), np.ones((n, 3))):
        A = tacit.hmatrix(p, name, nugget=1.0)
        assert error(A, entries(p, name, nugget=1.0)) < 1e-4
    q = np.ones((n, 3))
    q[0, 1] = np.nan
    with pytest.raises(tacit.InputError, match="point 0 is at"):
        tacit.hmatrix(q, name)
