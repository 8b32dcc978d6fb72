"""Fan and cone beams: lengths against exact clipping, limits known otherwise, reconstructions of ellipsoids."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scans_of_ellipsoids import integrals, rays, turn, volume_of

import tacit
from tacit import tomography
from tacit._support import Array, using_threads

TURN = np.array([0.0, 0.3, np.pi / 4, 1.2, np.pi / 2, 2.5, np.pi, 3.9, 5.1])


def clipped(P: tomography.Projector) -> Array:
    """The matrix by clipping every ray to every voxel: the largest of three entries to the smallest of three exits."""
    nz, ny, nx = (1,) * (3 - len(P.image_shape)) + P.image_shape
    dz, dy, dx = (1.0,) * (3 - len(P.image_shape)) + tuple(P.pixel)  # type: ignore[arg-type]
    low = [(np.arange(n) - n / 2) * d for n, d in ((nx, dx), (ny, dy), (nz, dz))]
    low[1] = low[1][::-1]  # row 0 is on top
    z, y, x = (part.reshape(-1) for part in np.meshgrid(low[2], low[1], low[0], indexing="ij"))
    begin = np.stack([x, y, z], 1)
    made = []
    for source, to in zip(*rays(P), strict=True):
        enter, leave = np.zeros(len(x)), np.full(len(x), np.inf)
        for c, side in enumerate((dx, dy, dz)):
            a, b = begin[:, c] - source[c], begin[:, c] + side - source[c]
            if to[c] == 0:
                leave[(a > 0) | (b <= 0)] = 0
                continue
            a, b = a / to[c], b / to[c]
            enter, leave = np.maximum(enter, np.minimum(a, b)), np.minimum(leave, np.maximum(a, b))
        made.append(np.maximum(leave - enter, 0) * np.linalg.norm(to))
    return np.array(made)


def dense(P: tomography.Projector, adjoint: bool = False) -> Array:
    """A, or A^T transposed, column by column."""
    here, there = (P.sinogram_shape, P.image_shape) if adjoint else (P.image_shape, P.sinogram_shape)
    units = np.eye(int(np.prod(here))).reshape(-1, *here)
    made = (P.backproject if adjoint else P.project)(units).reshape(-1, int(np.prod(there)))
    return made if adjoint else made.T


def shaken(P: tomography.Projector, detectors: Any, size: float = 0.02, **options: Any) -> tomography.Projector:
    """The same with sources, detectors and steps moved at random, so that nothing is along an axis."""
    assert P.views is not None
    views = P.views + size * np.random.default_rng(1).standard_normal(P.views.shape)
    return tomography.vector_projector(views, detectors, image=P.image_shape, pixel=P.pixel, **options)


CONES: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "usual": ((5, 7), {"source": 8, "detector": 4, "volume": (3, 4, 5), "voxel": 1}),
    "voxels with three sides": ((6, 4), {"source": 6, "detector": 3, "volume": (4, 3, 4), "voxel": (0.7, 1.2, 0.9)}),
    "wide angles": ((9, 20), {"source": 7.3, "detector": 0, "volume": 8, "voxel": 1, "pitch": (1.5, 0.9)}),
    "small voxels": ((4, 4), {"source": 9, "detector": 2, "volume": 9, "voxel": 0.21}),
    "detector aside": ((5, 6), {"source": 8, "detector": 4, "volume": 4, "voxel": 1, "centre": (1.2, 7.4)}),
}


@pytest.mark.parametrize("name", CONES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_are_those_of_clipped_rays(name: str, dtype: str) -> None:
    detectors, how = CONES[name]
    P = shaken(tomography.cone_projector(TURN, detectors, **how), detectors, dtype=dtype)
    exact = clipped(P)
    np.testing.assert_allclose(dense(P), exact, atol=1e-11 if dtype == "float64" else 2e-7)
    np.testing.assert_array_equal(dense(P), dense(P, adjoint=True))
    assert P.nnz == (exact > 1e-8).sum() > 0
    flat = shaken(tomography.fan_projector(TURN, 9, source=8, detector=3, image=(5, 6), pixel=(1.1, 0.8)), 9)
    np.testing.assert_allclose(dense(flat), clipped(flat), atol=2e-7)
    np.testing.assert_array_equal(dense(flat), dense(flat, adjoint=True))


def test_rays_along_axes_and_through_corners() -> None:
    # From (-9, y, z) along x: through middles of voxels, along faces between them, along edges, beside the volume.
    places = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
    views = [[-9, y, z, 9, y, z, 0, 1, 0, 0, 0, 1] for y in places for z in places]
    views += [[-9, -9, z, 9, 9, z, 1, -1, 0, 0, 0, 1] for z in places]  # through edges and corners
    views += [[-9, -9, -9, 9, 9, 9, 1, -1, 0, 0, 1, -1], [9, 9, 9, 5, 5, 5, 1, -1, 0, 0, 1, -1]]
    views += [[-9, 0, 0, -10, 0, 0, 0, 1, 0, 0, 0, 1]]  # away from the volume
    views += [[0, 0, -9, 0, 0, 9, 1, 0, 0, 0, 1, 0], [0.5, 0.5, 9, 0.5, 0.5, -9, 1, 0, 0, 0, 1, 0]]
    P = tomography.vector_projector(np.array(views, float), (1, 1), image=(3, 3, 3), dtype="float64")
    A, exact = dense(P), clipped(P)
    np.testing.assert_array_equal(A, dense(P, adjoint=True))
    inside = [abs(y) < 1.5 and abs(z) < 1.5 for y in places for z in places]
    sums = A.sum(1)
    np.testing.assert_allclose(sums[: len(inside)][inside], 3, atol=1e-12)
    beside = [abs(y) > 1.5 or abs(z) > 1.5 for y in places for z in places]
    assert (sums[: len(inside)][beside] == 0).all()
    on_faces = [v for v, n in zip(sums[: len(inside)], places * 9, strict=True) if abs(n) == 1.5]
    assert all(v in (0, pytest.approx(3)) for v in on_faces)
    assert ((A > 1e-9).sum(1) <= 5).all()  # a ray along a face is counted once
    diagonals = sums[len(inside) :]
    assert diagonals[len(places) // 2] == pytest.approx(3 * 2**0.5)
    np.testing.assert_allclose(diagonals[len(places) : len(places) + 2], 3 * 3**0.5)
    assert diagonals[len(places) + 2] == 0
    np.testing.assert_allclose(diagonals[-2:], 3)
    inner = np.array([abs(y) % 1 != 0.5 and abs(z) % 1 != 0.5 for y in places for z in places])
    np.testing.assert_allclose(A[: len(inner)][inner], exact[: len(inner)][inner], atol=1e-12)  # not in faces


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-6), ("float64", 1e-13)])
def test_products_are_adjoint(dtype: str, within: float) -> None:
    rng = np.random.default_rng(0)
    cone = tomography.cone_projector(turn(17), (19, 37), source=60, detector=20, volume=(18, 40, 35), dtype=dtype)
    fan = tomography.fan_projector(turn(31), 45, source=60, detector=20, image=(70, 66), pixel=0.6, dtype=dtype)
    for P in (cone, fan):
        for k in (1, 3, 4, 21):
            x, y = rng.random((k, *P.image_shape)), rng.random((k, *P.sinogram_shape))
            left, right = np.vdot(P.project(x).astype(float), y), np.vdot(x, P.backproject(y).astype(float))
            assert left == pytest.approx(right, rel=within)
        one, many = P.project(x[7]), P.project(x)[7]
        np.testing.assert_allclose(one, many, rtol=2e-6 if dtype == "float32" else 1e-13, atol=1e-5)


def test_a_volume_of_ones_has_the_chords_of_a_box() -> None:
    P = tomography.cone_projector(turn(7), (11, 13), source=30, detector=12, volume=(10, 10, 10), dtype="float64")
    half = 5 * P.pixel[0]  # type: ignore[index]
    source, to = rays(P)
    with np.errstate(divide="ignore"):
        a, b = (-half - source) / to, (half - source) / to
    chord = np.maximum(np.minimum.reduce(np.maximum(a, b), 1) - np.maximum.reduce(np.minimum(a, b), 1), 0)
    sums = P.project(np.ones(P.image_shape)).reshape(-1)
    inner = chord > 0
    np.testing.assert_allclose(sums[inner], (chord * np.linalg.norm(to, axis=1))[inner], rtol=1e-12)
    assert (sums[~inner] == 0).all()
    ten = tomography.cone_projector([0.0], (1, 1), source=30, detector=0, volume=10, voxel=1)
    assert ten.project(np.ones((10, 10, 10))).item() == pytest.approx(10)  # from face to face


def test_a_far_source_is_a_parallel_beam() -> None:
    angles = turn(23) + 0.01
    far = tomography.fan_projector(
        angles, 31, source=1e9, detector=5, image=(17, 40), pixel=1, centre=12.25, dtype="float64"
    )
    P = tomography.projector(angles, 31, image=(17, 40), centre=12.25, dtype="float64")
    x = np.random.default_rng(0).random((17, 40))
    np.testing.assert_allclose(far.project(x), P.project(x), atol=1e-5)
    assert far.nnz == pytest.approx(P.nnz, abs=5)


def test_the_middle_row_of_a_cone_is_a_fan() -> None:
    how: dict[str, Any] = {"source": 40, "detector": 25, "dtype": "float64"}
    fan = tomography.fan_projector(turn(12), 24, **how, image=18, pixel=0.8)
    cone = tomography.cone_projector(
        turn(12), (5, 24), **how, pitch=(0.4, 1), volume=(3, 18, 18), voxel=(0.5, 0.8, 0.8)
    )
    volume = np.random.default_rng(0).random((3, 18, 18))
    np.testing.assert_allclose(cone.project(volume)[:, 2], fan.project(volume[1]), rtol=1e-12, atol=1e-12)
    # Later rows of the detector see later images, where the detector is above the axis.
    lit = cone.project((np.arange(3)[:, None, None] == 2) * np.ones((3, 18, 18)))
    assert lit[:, 0].sum() == 0 < lit[:, 4].sum()
    one = tomography.cone_projector(turn(12), (1, 24), **how, volume=(1, 18, 18), voxel=0.8)
    np.testing.assert_allclose(one.project(volume[:1])[:, 0], fan.project(volume[0]), rtol=1e-12, atol=1e-12)


def test_a_centre_is_a_detector_that_has_moved() -> None:
    """Of every view alone, too: a detector that goes d to the right has the axis d / bin further to the left."""
    angles, n = turn(9), 15
    x = np.random.default_rng(0).random((9, 9))
    moved = np.linspace(-2, 3, 9)
    P = tomography.fan_projector(angles, n, source=30, detector=10, bin=2.0, image=9)
    views = P.views
    assert views is not None
    views[:, 2:4] += moved[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    one = tomography.vector_projector(views, n, image=9, pixel=P.pixel).project(x)
    other = tomography.fan_projector(
        angles, n, source=30, detector=10, bin=2.0, image=9, centre=n / 2 - moved / 2
    ).project(x)
    np.testing.assert_allclose(one, other, atol=1e-5)
    # A dot right of the axis, seen from below (t = 0), is on the right of the detector.
    dot = np.zeros((9, 9))
    dot[4, 7] = 1
    assert P.project(dot)[0].argmax() > n // 2
    whole = tomography.cone_projector([0.0, 0.5], (4, 6), source=9, detector=3, volume=3, centre=[(2, 3), (1, 2.5)])
    parts = [
        tomography.cone_projector([t], (4, 6), source=9, detector=3, volume=3, centre=c)
        for t, c in ((0.0, (2, 3)), (0.5, (1, 2.5)))
    ]
    ball = np.random.default_rng(1).random((3, 3, 3))
    np.testing.assert_array_equal(whole.project(ball), np.concatenate([p.project(ball) for p in parts]))


def test_ellipsoids_come_back() -> None:
    n = 32
    P = tomography.cone_projector(turn(60), (48, 48), source=4 * n, detector=2 * n, pitch=1.1, volume=n, voxel=1)
    b, truth = integrals(P, n / 2), volume_of(n)
    assert np.linalg.norm(P.project(truth) - b) < 0.05 * np.linalg.norm(b)  # voxels against ellipsoids
    result = tomography.reconstruct(b, projector=P, iterations=15)
    assert result.images.shape == (n, n, n)
    assert np.linalg.norm(result.images - truth) < 0.12 * np.linalg.norm(truth)
    assert (np.diff(result.residual[:, 0]) < 0).all()
    mirrored = np.linalg.norm(result.images[:, ::-1] - truth) / np.linalg.norm(truth)
    assert mirrored > 0.25  # the phantom tells left from right and up from down
    two = tomography.reconstruct(np.stack([b, 2 * b]), projector=P, iterations=15)
    np.testing.assert_allclose(two.images[1], 2 * result.images, atol=1e-3)


@pytest.mark.parametrize("method", ["sirt", "sart", "osem", "mlem", "tikhonov", "tv"])
def test_every_method_takes_them(method: str) -> None:
    n = 12
    cone = tomography.cone_projector(turn(20), (16, 16), source=50, detector=20, volume=n, voxel=0.9)
    fan = tomography.fan_projector(turn(40), 20, source=50, detector=20, image=n, pixel=0.9)
    truth = volume_of(n)
    for P, x in ((cone, truth), (fan, truth[n // 2])):
        b = P.project(x)
        start = tomography.reconstruct(b, projector=P, method=method, iterations=2)
        more = tomography.reconstruct(b, projector=P, method=method, iterations=12, start=start.images)
        errors = [np.linalg.norm(r.images - x) / np.linalg.norm(x) for r in (start, more)]
        assert errors[1] < min(1.05 * errors[0], 0.35)
        noisy = tomography.reconstruct(b, projector=P, method=method, iterations=3, deviations=0.5)
        assert np.isfinite(noisy.images).all()


def test_a_detector_aside_sees_half_in_every_view() -> None:
    n = 24
    how: dict[str, Any] = {"source": 120, "detector": 60, "image": n, "pixel": 1}
    half = tomography.fan_projector(turn(120), 26, **how, centre=4)
    x = volume_of(n)[n // 2]
    r = tomography.reconstruct(half.project(x), projector=half, iterations=60)
    assert np.linalg.norm(r.images - x) < 0.03 * np.linalg.norm(x)


@pytest.mark.parametrize("source", [1.5, 3, 30])
def test_filtered_back_projection(source: float) -> None:
    """FDK: as good from near as from far in the plane of the source, and for a detector that sees half."""
    n = 32
    how: dict[str, Any] = {"source": source * n, "detector": n}
    pitch = (source + 1) / source
    cone = tomography.cone_projector(turn(90), (44, 60), **how, pitch=pitch, volume=n, voxel=1)
    truth = volume_of(n)
    result = tomography.fbp(integrals(cone, n / 2), projector=cone)
    middle = slice(n // 2 - 3, n // 2 + 3)
    for found, exact, room in ((result.images, truth, 0.18), (result.images[middle], truth[middle], 0.08)):
        assert np.linalg.norm(found - exact) < room * np.linalg.norm(exact)
        assert np.vdot(found, exact) / np.vdot(exact, exact) == pytest.approx(1, abs=0.05)
    assert result.end == ["filtered"]
    exact = volume_of(2 * n)[n - 1 : n + 1].mean(0).reshape(n, 2, n, 2).mean((1, 3))
    errors = []
    for columns, centre in ((60, 30), (44, 14), (44, 31)):
        fan = tomography.fan_projector(
            turn(90), columns, **how, bin=pitch, image=n, pixel=1, centre=centre, dtype="float64"
        )
        b = integrals(fan, n / 2)
        image = tomography.fbp(np.stack([b, 2 * b]), projector=fan, batch=1).images
        np.testing.assert_allclose(image[1], 2 * image[0], rtol=1e-5, atol=1e-5)
        errors.append(np.linalg.norm(image[0] - exact) / np.linalg.norm(exact))
    assert max(errors) < 0.08
    assert max(errors) < 1.15 * min(errors)


def test_filtered_back_projection_is_of_a_whole_circle() -> None:
    how: dict[str, Any] = {"source": 60, "detector": 20}
    half = tomography.cone_projector(np.linspace(0, np.pi, 30), (4, 9), **how)
    circle = tomography.cone_projector(turn(30), (4, 9), **how)
    assert circle.views is not None
    helix, tilted = circle.views.copy(), circle.views.copy()
    helix[:, [2, 5]] += np.arange(30)[:, None]
    tilted[:, 6:9] += 0.01 * tilted[:, 9:12]
    beside = tomography.fan_projector(turn(30), 9, **how, centre=-3)
    for P, text in (
        (half, r"cover 186.* degrees: take"),
        (tomography.vector_projector(helix, (4, 9), pixel=circle.pixel), "not"),
        (tomography.vector_projector(tilted, (4, 9), pixel=circle.pixel), "circle about the z axis"),
        (beside, "axis is beside the detector"),
    ):
        with pytest.raises(ValueError, match=text):
            tomography.fbp(np.ones(P.sinogram_shape), projector=P)
    same = tomography.vector_projector(circle.views, (4, 9), image=circle.image_shape, pixel=circle.pixel)
    b = circle.project(np.ones(circle.image_shape))
    one, other = (tomography.fbp(b, projector=P).images for P in (circle, same))
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_helix_sees_a_long_volume() -> None:
    n = 12
    P = tomography.cone_projector(
        np.linspace(0, 8 * np.pi, 160), (10, 18), source=40, detector=20, pitch=1.5, volume=(30, n, n), voxel=1
    )
    views = P.views
    assert views is not None
    views[:, [2, 5]] += np.linspace(-15, 15, 160)[:, None]
    helix = tomography.vector_projector(views, (10, 18), image=(30, n, n))
    x = np.repeat(volume_of(n, 1)[n // 2][None], 30, 0) * (1 + np.arange(30) % 5)[:, None, None]
    errors = [
        np.linalg.norm(tomography.reconstruct(A.project(x), projector=A, iterations=40).images - x) for A in (P, helix)
    ]
    assert errors[1] < 0.05 * np.linalg.norm(x) < errors[0]


def test_threads_and_ranks_agree() -> None:
    angles, rng = turn(10), np.random.default_rng(0)

    def made(comm: Any = None, **options: Any) -> list[tomography.Projector]:
        return [
            tomography.cone_projector(
                angles, (14, 17), source=40, detector=12, volume=(7, 12, 11), comm=comm, dtype="float64", **options
            ),
            tomography.fan_projector(angles, 25, source=40, detector=12, image=(3, 40), comm=comm, dtype="float64"),
        ]

    xs = [rng.random((4, *P.image_shape)) for P in made()]
    with using_threads(1):
        once = [(P.project(x), P.backproject(P.project(x))) for P, x in zip(made(), xs, strict=True)]
    with using_threads(2):
        twice = [(P.project(x), P.backproject(P.project(x))) for P, x in zip(made(), xs, strict=True)]
    for a, b in zip(once, twice, strict=True):
        assert all((p == q).all() for p, q in zip(a, b, strict=True))  # to the bit

    def rank(comm: Any) -> Any:
        parts = made(comm, groups=(2,), minibatch=1) if comm.size == 4 else made(comm)
        found = [(P.project(x), P.backproject(P.project(x)), P.nnz) for P, x in zip(parts, xs, strict=True)]
        image = tomography.reconstruct(found[0][0][0], projector=parts[0], iterations=3).images
        return found, image

    alone, image = rank(tacit.comm.self_())
    for size in (2, 3, 4):
        for found, same in tacit.comm.run_threads(size, rank):
            for a, b in zip(alone, found, strict=True):
                np.testing.assert_allclose(b[0], a[0], rtol=1e-12, atol=1e-12)
                np.testing.assert_allclose(b[1], a[1], rtol=1e-12)
                assert a[2] == b[2]
            np.testing.assert_allclose(same, image, atol=1e-10)


def test_operators_are_operators() -> None:
    P = tomography.cone_projector(turn(8), (6, 7), source=30, detector=10, volume=5, dtype="float64")
    A = P.operator
    x = np.random.default_rng(0).random(A.shape[1])
    np.testing.assert_array_equal(A @ x, P.project(x.reshape(5, 5, 5)).reshape(-1))
    assert (P.ray_order == np.arange(A.shape[0])).all()
    assert (P.pixel_order == np.arange(125)).all()
    b = A.H @ (A @ x)
    solved = tacit.solve(A.H @ A, b, method="cg", rtol=1e-9)
    assert np.linalg.norm(A.H @ (A @ solved.x) - b) < 1e-8 * np.linalg.norm(b)
    assert "5 x 5 x 5 pixels on 8 angles x 6 x 7 bins" in repr(P)
    part = P.subset([1, 3])
    np.testing.assert_array_equal(part.project(x.reshape(5, 5, 5)), P.project(x.reshape(5, 5, 5))[[1, 3]])
    assert (part.angles == P.angles[[1, 3]]).all()
    assert "computed" in P.storage


def test_what_is_wrong_is_named() -> None:
    good: dict[str, Any] = {"source": 30, "detector": 10}
    fan, cone, vector = tomography.fan_projector, tomography.cone_projector, tomography.vector_projector
    P = cone([0.0], (4, 4), **good)
    views = P.views
    assert views is not None
    for call, text in (
        (
            lambda: cone([0.0], (4, 4), source=1, detector=10, volume=8, voxel=1),
            r"source of view 0.*\(0, -1, 0\).*within",
        ),
        (lambda: fan([0, 1.0], 9, source=3, detector=10, image=9, pixel=1), r"source of view 0.*within"),
        (lambda: fan([0.0], 4, source=0, detector=10), "source is 0"),
        (lambda: fan([0.0], 4, source=-3, detector=10), "source is -3"),
        (lambda: fan([0.0], 4, source=3, detector=-10), "detector is -10"),
        (lambda: fan([0.0], 4, source=np.nan, detector=10), "source is nan"),
        (lambda: fan([0.0, np.nan], 4, **good), r"angles\[1\] is nan"),
        (lambda: fan([], 4, **good), "no angles"),
        (lambda: fan([0.0], 0, **good), "detectors is 0"),
        (lambda: fan([0.0], 4, **good, bin=0), "bin is 0"),
        (lambda: fan([0.0], 4, **good, pixel=-1), "pixel is -1"),
        (lambda: fan([0.0], 4, **good, image=(3, 0)), r"image is \(3, 0\)"),
        (lambda: fan([0.0], 4, **good, image=(3, 3, 3)), r"image is \(3, 3, 3\)"),
        (lambda: fan([0.0], (4, 4), **good), r"detectors is \(4, 4\)"),
        (lambda: fan([0.0], 4, **good, centre=[1, 2, 3]), r"centre has shape \(3,\)"),
        (lambda: fan([0.0], 4, **good, centre=np.inf), "centre has inf"),
        (lambda: cone([0.0], 4, **good), "detectors is 4; 2 numbers"),
        (lambda: cone([0.0], (4, 4), **good, volume=(3, 3)), r"volume is \(3, 3\)"),
        (lambda: cone([0.0], (4, 4), **good, pitch=(1, 0)), r"pitch is \(1, 0\)"),
        (lambda: cone([0.0], (4, 4), **good, voxel=(1, 2)), r"voxel is \(1, 2\)"),
        (lambda: cone([0.0], (4, 4), **good, dtype="float16"), "float16"),
        (lambda: cone([0.0], (4, 4.5), **good), r"detectors is 4\.5"),
        (lambda: cone([0.0], (4, 4), **good, threads=0), "threads is 0"),
        (lambda: vector(np.zeros((3, 11)), 4), r"\(3, 11\)"),
        (lambda: vector(np.zeros((3, 12)), (4, 4)), "view 0"),
        (lambda: vector(views * np.nan, (4, 4)), "view 0 has a number that is not finite"),
        (lambda: vector([[0, -9, 0, -9, 1, 0]], 3), "in the plane of its detector"),
        (lambda: vector([[0, -9, 0, 9, 0, 0]], 3), "no area"),
        (lambda: P.project(np.zeros((4, 4))), r"\(4, 4, 4\) or \(k, 4, 4, 4\)"),
        (lambda: P.backproject(np.zeros((2, 4, 4))), r"sinograms has shape \(2, 4, 4\)"),
        (lambda: tomography.reconstruct(np.zeros((4, 4)), projector=P), r"\(angles, rows, columns\)"),
        (lambda: tomography.reconstruct(np.zeros((4, 5, 4)), projector=P), r"\(4, 5, 4\)"),
        (lambda: tomography.fbp(np.zeros((1, 4)), projector=fan([0.0], 4, **good)), "whole turn"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="source is '3'"):
        fan([0.0], 4, source="3", detector=1)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="look like degrees"):
        fan(np.arange(0, 360, 10), 4, **good)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fan(turn(36), 4, **good)


def test_views_of_a_projector_are_copies() -> None:
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    P = tacit.tomography.fan_projector(angles, 20, source=60, detector=20, image=12)
    first = P.views
    first[:, 0] = 0
    assert not np.array_equal(P.views, first)
    with pytest.raises(ValueError, match="read-only"):
        P.angles[0] = 1
    angles[0] = 1
    assert P.angles[0] == 0
    parallel = tacit.tomography.projector(np.linspace(0, 3, 5), 8)
    assert parallel.views is None
