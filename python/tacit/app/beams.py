"""Projectors of fan and cone beams: line integrals along the rays of a point source as a matrix."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import comm as _comm
from .. import op
from .._alike import Whole
from .._described import TILED
from .._options import agree
from .._support import Array, agreed, as_array, choose, core, real_number, thread_count, using_threads, whole_number
from .axis import doubtful_angles
from .projectors import Projector

__all__ = ["cone_projector", "fan_projector", "sizes_of", "vector_projector"]

_FLAT = [0, 1, 3, 4, 6, 7]  # where the six numbers of a fan's view stand among twelve


class _Geometry(NamedTuple):
    views: Array
    size: tuple[int, ...]  # of the detector
    image: tuple[int, ...]
    pixel: tuple[float, ...]
    angles: Array
    doubts: str | None


def fan_projector(
    angles: Any,
    detectors: int,
    *,
    source: float,
    detector: float,
    bin: float = 1.0,
    centre: Any = None,
    image: int | Sequence[int] | None = None,
    pixel: float | Sequence[float] | None = None,
    dtype: str = "float32",
    threads: int | None = None,
    comm: Any = None,
    groups: Sequence[int] = (),
    minibatch: int = 0,
) -> Projector:
    """The projector of a fan beam with a flat detector: entry (ray, pixel) is the length, within the pixel, of the ray
    from the source through the middle of a detector's bin. Entries are computed in every product, and not stored.

    Parameters
    ----------
    angles : array_like, (a,)
        In radians, any list. At angle t the source is at source (sin t, -cos t), the foot of the axis on the detector
        at detector (-sin t, cos t), and bins follow (cos t, sin t); y points upwards, and row 0 of an image is on top.
        With a source that is far away this is :func:`projector`.
    detectors : int
        Bins of the detector.
    source, detector : float
        Distances of source and detector from the axis of rotation. All lengths are in one unit, that of ``bin`` and
        ``pixel``, such as mm, and so are line integrals. Rays do not end at the detector: with 0 it is a virtual one
        through the axis.
    bin : float
        Width of a bin.
    centre : float or array_like (a,), optional
        Where the ray through the axis meets the detector, in bins from its left edge, for each view or for all;
        default: detectors / 2. A detector that is moved by d along (cos t, sin t) has detectors / 2 - d / bin.
    image : int or (rows, columns), optional
        Pixels, around the axis; default: detectors x detectors.
    pixel : float or (height, width), optional
        Sides of a pixel; default: a bin's shadow at the axis, bin source / (source + detector).
    dtype : str
        "float32" or "float64".
    threads : int, optional
    comm : communicator, optional
        The image is spread over its ranks. Collective.
    groups, minibatch
        As for :func:`projector`.

    Returns
    -------
    Projector
        Its products take images (k, rows, columns) and sinograms (k, angles, detectors); ``views`` has a row of six
        numbers for each view, as :func:`vector_projector` takes them.

    Notes
    -----
    A product costs 2 to 3 ns an entry on a thread, with 16 images at a time 0.4 to 1.3 ns for each. Full data need a
    turn, or half a turn and the angle of the fan.
    """

    def look() -> _Geometry:
        t = _angles(angles)
        size = _whole_numbers(detectors, "detectors", 1, None)
        near, far = _distances(source, detector)
        (width,) = _sides(bin, "bin", 1, 1.0)
        middle = _per_view(centre, len(t), 1, [size[0] / 2], "centre")
        views = _views(t, near, far, (1.0, width), np.hstack([np.full((len(t), 1), 0.5), middle]), (1, *size))[:, _FLAT]
        sides = _sides(pixel, "pixel", 2, width * near / (near + far))
        return _Geometry(views, size, _whole_numbers(image, "image", 2, size * 2), sides, t, doubtful_angles(t))

    return _made(look, dtype, threads, comm, groups, minibatch)


def cone_projector(
    angles: Any,
    detectors: Sequence[int],
    *,
    source: float,
    detector: float,
    pitch: float | Sequence[float] = 1.0,
    centre: Any = None,
    volume: int | Sequence[int] | None = None,
    voxel: float | Sequence[float] | None = None,
    dtype: str = "float32",
    threads: int | None = None,
    comm: Any = None,
    groups: Sequence[int] = (),
    minibatch: int = 0,
) -> Projector:
    """The projector of a cone beam with a flat detector: entry (ray, voxel) is the length, within the voxel, of the ray
    from the source through the middle of a detector's pixel. Entries are computed in every product, and not stored.

    Parameters
    ----------
    angles : array_like, (a,)
        In radians, as for :func:`fan_projector`: source at source (sin t, -cos t, 0), detector around detector
        (-sin t, cos t, 0), its columns along (cos t, sin t, 0), its rows along (0, 0, 1).
    detectors : (rows, columns)
        Pixels of the detector.
    source, detector : float
        Distances from the axis of rotation, in any one unit of length; see :func:`fan_projector`.
    pitch : float or (height, width)
        Sides of a detector's pixel, from middle to middle.
    centre : (row, column) or array_like (a, 2), optional
        Where the ray through the origin meets the detector, in pixels from its first edges, for each view or for all;
        default: its middle.
    volume : int or (images, rows, columns), optional
        Voxels, around the origin. Image i + 1 lies beside image i in the direction in which rows of the detector
        follow each other; within an image row 0 is on top. Default: (rows, columns, columns) of the detector.
    voxel : float or (z, height, width), optional
        Sides of a voxel; default: the width of a pixel's shadow at the axis.
    dtype, threads, comm, groups, minibatch
        As for :func:`fan_projector`.

    Returns
    -------
    Projector
        Its products take volumes (k, images, rows, columns) and projections (k, angles, rows, columns), or one without
        k, and so does :func:`reconstruct`; ``views`` has a row of twelve numbers for each view.

    Notes
    -----
    A product costs 4 to 6 ns an entry on a thread, and a copy of the volume; with several volumes at a time less for
    each. Ranks have neighbouring images. A plane of sources does not see everything: far from the plane of the source
    surfaces along it are blurred.
    """

    def look() -> _Geometry:
        t = _angles(angles)
        size = _whole_numbers(detectors, "detectors", 2, None)
        near, far = _distances(source, detector)
        high, wide = _sides(pitch, "pitch", 2, 1.0)
        middle = _per_view(centre, len(t), 2, [n / 2 for n in size], "centre")
        views = _views(t, near, far, (high, wide), middle, size)
        sides = _sides(voxel, "voxel", 3, wide * near / (near + far))
        image = _whole_numbers(volume, "volume", 3, (*size, size[1]))
        return _Geometry(views, size, image, sides, t, doubtful_angles(t))

    return _made(look, dtype, threads, comm, groups, minibatch)


def vector_projector(
    views: Any,
    detectors: int | Sequence[int],
    *,
    image: int | Sequence[int] | None = None,
    pixel: float | Sequence[float] = 1.0,
    dtype: str = "float32",
    threads: int | None = None,
    comm: Any = None,
    groups: Sequence[int] = (),
    minibatch: int = 0,
) -> Projector:
    """The projector of any views by a source and a flat detector: a helix, tilted detectors, laminography, a source or
    a detector that moves. Otherwise as :func:`cone_projector`, or :func:`fan_projector` for views in a plane.

    Parameters
    ----------
    views : array_like, (a, 12) or (a, 6)
        Rows of the source's place, that of the detector's middle, the step from a pixel to that of the next column, and
        the step to that of the next row: x, y, z each, in the order of ASTRA's "cone_vec". Of a fan: x, y each of the
        first three, as "fanflat_vec". x is to the right within an image, y upwards (against the order of its rows), z
        from image to image.
    detectors : (rows, columns), or int of a fan
        Pixels of the detector.
    image : int or (images, rows, columns), of a fan (rows, columns), optional
        Voxels, around the origin; default: (rows, columns, columns) of the detector, of a fan detectors x detectors.
    pixel : float or one number for each side
        Sides of a voxel (z, height, width), or of a pixel (height, width).
    dtype, threads, comm, groups, minibatch
        As for :func:`fan_projector`.

    Returns
    -------
    Projector
        ``angles`` are those of the line from the source to the middle of the detector in the plane of x and y.

    Examples
    --------
    A helix: the source, and the detector with it, rises by 0.5 in each of 90 views:

    >>> import numpy as np, tacit
    >>> turns = np.linspace(0, 4 * np.pi, 90)
    >>> P = tacit.tomography.cone_projector(turns, (8, 16), source=60, detector=20, volume=(24, 16, 16))
    >>> views = P.views
    >>> views[:, [2, 5]] += np.linspace(-12, 12, 90)[:, None]
    >>> tacit.tomography.vector_projector(views, (8, 16), image=(24, 16, 16), pixel=P.pixel).sinogram_shape
    (90, 8, 16)
    """

    def look() -> _Geometry:
        v = as_array(views, "views").astype(np.float64)
        if v.ndim != 2 or v.shape[1] not in (6, 12) or len(v) == 0:
            raise ValueError(f"views has shape {v.shape}; (views, 12), or (views, 6) of a fan, is needed")
        axes = v.shape[1] // 6 + 1
        size = _whole_numbers(detectors, "detectors", axes - 1, None)
        sides = _whole_numbers(image, "image", axes, (*size, size[-1]))
        directions = np.arctan2(v[:, 0] - v[:, axes], v[:, axes + 1] - v[:, 1])
        return _Geometry(v, size, sides, _sides(pixel, "pixel", axes, 1.0), directions, None)

    return _made(look, dtype, threads, comm, groups, minibatch)


def _made(
    look: Callable[[], _Geometry], dtype: str, threads: int | None, comm: Any, groups: Sequence[int], minibatch: int
) -> Projector:
    """The projector of what `look` finds. Collective."""
    on = _comm.resolve(comm)

    def looked() -> tuple[_Geometry, str, Any]:
        g = look()
        thread_count(threads)
        scalar = choose("dtype", str(np.dtype(dtype)), ("float32", "float64"))
        return g, scalar, op.filled("projector", {"groups": groups, "minibatch": minibatch}, ("dtype", "threads"))

    g, scalar, o = agreed(on, looked)
    if g.doubts and on.rank == 0:
        warnings.warn(g.doubts, UserWarning, stacklevel=3)
    facts = {"detector": list(g.size), "image": list(g.image), "pixel": list(g.pixel), "dtype": scalar}
    wholes = {"views": Whole(g.views, "first"), "angles": Whole(g.angles, "first")}
    first = agree(on, o, TILED, **wholes, **{f"the geometry's {k}": v for k, v in facts.items()})
    views, angles, *_ = first.values()
    return _projector(g._replace(views=views, angles=angles), scalar, threads, on, o)


def sizes_of(P: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...], Array]:
    """(volume, detector, sides of a voxel, views as one row) of a fan's or cone's projector, as the compiled part takes
    them: of a fan one image, one row of the detector.
    """
    return _threefold(P.image_shape, P.sinogram_shape[1:], P.pixel, P.views)


def _threefold(
    image: tuple[int, ...], size: tuple[int, ...], pixel: tuple[float, ...], views: Array
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...], Array]:
    twelve = views
    if views.shape[1] == len(_FLAT):
        twelve = np.zeros((len(views), 12))
        twelve[:, _FLAT] = views
        twelve[:, 11] = 1
        image, size, pixel = (1, *image), (1, *size), (1.0, *pixel)
    return image, size, pixel, twelve.reshape(-1)


def _projector(g: _Geometry, scalar: str, threads: int | None, on: Any, o: Any) -> Projector:
    sizes = _threefold(g.image, g.size, g.pixel, g.views)
    with using_threads(threads) if threads else contextlib.nullcontext():
        handle = core("cone_projector", scalar)(on, *sizes, o)

    def again(at: Any) -> Projector:
        return _projector(g._replace(views=g.views[at], angles=g.angles[at]), scalar, threads, on, o)

    return Projector(handle, on, scalar, g.image, (len(g.views), *g.size), g.pixel, g.angles, again, g.views.copy())


def _views(t: Array, near: float, far: float, pitch: tuple[float, float], middle: Array, size: Sequence[int]) -> Array:
    """Views of a source and a detector that turn about the z axis: rows of twelve numbers. `middle`: (views, 2), where
    the ray through the origin meets the detector, (row, column) from its first edges.
    """
    (rows, columns), (high, wide), none = size, pitch, np.zeros_like(t)
    right, back = np.stack([np.cos(t), np.sin(t), none], -1), np.stack([-np.sin(t), np.cos(t), none], -1)
    up = np.broadcast_to([0.0, 0.0, 1.0], right.shape)
    beside, above = (np.array([columns, rows]) / 2 - middle[:, ::-1]).T[:, :, None]
    place = far * back + beside * wide * right + above * high * up
    return np.hstack([-near * back, place, wide * right, high * up]) + 0.0  # no -0


def _angles(angles: Any) -> Array:
    t = as_array(angles, "angles").astype(np.float64).reshape(-1)
    if len(t) == 0:
        raise ValueError("there are no angles; at least one is needed")
    for i in np.flatnonzero(~np.isfinite(t))[:1]:
        raise ValueError(f"angles[{i}] is {t[i]}; finite numbers are needed")
    return t


def _distances(source: Any, detector: Any) -> tuple[float, float]:
    """The distances of source and detector from the axis; ValueError for others than they can be."""
    near, far = real_number(source, "source"), real_number(detector, "detector")
    if not (0 < near < np.inf):
        raise ValueError(f"source is {source}; a positive distance from the axis is needed")
    if not (0 <= far < np.inf):
        raise ValueError(f"detector is {detector}; a distance from the axis is needed (0: a virtual one through it)")
    return near, far


def _per_view(given: Any, views: int, width: int, usual: Sequence[float], what: str) -> Array:
    """`given` for each view, (views, width)."""
    rows = np.asarray(usual if given is None else as_array(given, what), np.float64)
    shape = (width,) if width > 1 else ()
    if rows.shape not in (shape, (views, *shape)) and rows.shape != (width,):
        needed = f"{shape or 'a number'} or {(views, *shape)}"
        raise ValueError(f"{what} has shape {rows.shape}; {needed} is needed, for all views or for each")
    if not np.isfinite(rows).all():
        raise ValueError(f"{what} has {rows[~np.isfinite(rows)][0]}; finite numbers are needed")
    return np.array(np.broadcast_to(rows.reshape(-1, width), (views, width)))


def _several(given: Any, what: str, count: int, usual: Sequence[Any] | None) -> tuple[Any, ...]:
    """`count` numbers, of one number as many times."""
    if given is None and usual is not None:
        return tuple(usual)
    alone = usual is not None or count == 1
    parts = (given,) * count if alone and np.ndim(given) == 0 else tuple(given) if np.ndim(given) == 1 else ()
    if len(parts) != count:
        raise ValueError(f"{what} is {given!r}; {'a number or ' if alone else ''}{count} numbers are needed")
    return parts


def _whole_numbers(given: Any, what: str, count: int, usual: Sequence[int] | None) -> tuple[int, ...]:
    sizes = tuple(whole_number(n, what) for n in _several(given, what, count, usual))
    if min(sizes) < 1:
        raise ValueError(f"{what} is {given!r}; at least 1 is needed")
    return sizes


def _sides(given: Any, what: str, count: int, usual: float) -> tuple[float, ...]:
    sides = tuple(real_number(v, what) for v in _several(given, what, count, (usual,) * count))
    if not all(0 < side < np.inf for side in sides):
        raise ValueError(f"{what} is {given!r}; positive numbers are needed")
    return sides
