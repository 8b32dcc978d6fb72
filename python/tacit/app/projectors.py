"""Projectors: line integrals of images as a matrix; those of a parallel beam are made here."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import comm as _comm
from .. import device as _device
from .. import op
from .._alike import Whole, alike
from .._described import TILED, ProjectorOptions
from .._options import agree
from .._support import (
    Array,
    agreed,
    as_array,
    choose,
    core,
    real_number,
    thread_count,
    using_threads,
    whole_number,
)
from .axis import doubtful_angles

__all__ = ["Projector", "for_few_products", "projector", "stacks"]

_GEOMETRY = ("image", "centre", "pixel", "dtype", "threads", "comm", "device")
#: Options that say how entries are stored.
_STORED = frozenset(TILED) - {"columns", "groups", "minibatch", "order"}


def for_few_products(options: dict[str, Any]) -> dict[str, Any]:
    """These options of a projector that is used for some tens of products, which do not pay for building it: entries
    are computed, unless the options say how they are stored, or a GPU has them. Local.
    """
    stored = _STORED & set(options) or options.get("device") not in (None, "host")
    return options if stored else options | {"format": "computed"}


class Projector:
    """The matrix A, of rays x pixels, whose products are line integrals along rays through an image or a volume.

    Made by :func:`projector` (parallel beam), :func:`fan_projector`, :func:`cone_projector`, :func:`vector_projector`.

    Attributes
    ----------
    image_shape : tuple of int
        Rows and columns of the image; row 0 is on top. Of a cone beam images, rows and columns of a volume.
    sinogram_shape : tuple of int
        Angles and detector bins; of a cone beam angles, rows and columns of the detector.
    pixel : float or tuple of float
        Side of a pixel, in bins; of a fan or cone beam (height, width) or (z, height, width), in its unit of length.
    views : ndarray or None
        Of a fan or cone beam: source and detector of each view (:func:`vector_projector`).
    operator : tacit.op.TiledSpmm or tacit.op.DeviceTiledSpmm
        A with rays and pixels in its own order: element i of its vectors is ray ``ray_order[i]`` or pixel
        ``pixel_order[i]``. Any method of :func:`tacit.solve` can be used on ``operator.H @ operator``.
    angles : ndarray
        In radians.
    nnz : int
    storage : str
        How the matrix is stored.
    device : str
        "host", or the GPU that holds the matrix: "cuda:0" or the like.
    """

    def __init__(
        self,
        handle: Any,
        comm: Any,
        dtype: str,
        image: tuple[int, ...],
        sinogram: tuple[int, ...],
        pixel: float | tuple[float, ...],
        angles: Array,
        again: Callable[[Any], Projector],
        views: Array | None = None,
    ) -> None:
        self._handle, self._again = handle, again
        # Products have them compiled in: changed ones would be those of other methods only.
        self.angles, self._views = np.array(angles), None if views is None else np.array(views)
        self.angles.flags.writeable = False
        self.comm = comm
        self.dtype = np.dtype(dtype)
        self.image_shape, self.sinogram_shape = image, sinogram
        self.pixel: Any = pixel
        self.device = _device.of(handle)
        kind = op.TiledSpmm if self.device == "host" else op.DeviceTiledSpmm
        self.operator: op.Operator = kind(handle.operator, comm, dtype)
        self.nnz = int(handle.entries)
        self.storage = str(handle.storage)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a Projector can be neither pickled nor copied; make it anew by tacit.tomography.projector, with the same"
            " angles and sizes"
        )

    @property
    def views(self) -> Array | None:
        """Of a fan or cone beam: a copy of the views, a row of 6 or 12 numbers for each, to be changed for another
        projector; else None.
        """
        return None if self._views is None else self._views.copy()

    @property
    def ray_order(self) -> Array:
        return np.asarray(self._handle.ray_order)

    @property
    def pixel_order(self) -> Array:
        return np.asarray(self._handle.pixel_order)

    def subset(self, at: Any) -> Projector:
        """The projector of the angles of these numbers, with all other options of this one. Collective."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # doubts about the angles have been stated
            return self._again(at)

    def project(self, images: Any) -> Array:
        """A x: sinograms (k, angles, detectors) of images (k, rows, columns), or one sinogram of one image, without k.
        Of a cone beam projections (k, angles, rows, columns) of volumes. Collective; every rank passes and gets the
        same whole arrays.
        """
        return self._apply(images, self.image_shape, self.sinogram_shape, False)

    def backproject(self, sinograms: Any) -> Array:
        """A^T y: images of sinograms, with shapes as in :meth:`project`. Collective."""
        return self._apply(sinograms, self.sinogram_shape, self.image_shape, True)

    def _apply(self, x: Any, given: tuple[int, ...], wanted: tuple[int, ...], adjoint: bool) -> Array:
        what = "images" if not adjoint else "sinograms"
        stack = _one_stack(self.comm, x, given, self.dtype, what)
        result = self._handle.apply(stack.reshape(len(stack), -1), adjoint).reshape(len(stack), *wanted)
        return np.asarray(result[0] if np.ndim(x) == len(given) else result)

    def __repr__(self) -> str:
        pixels, bins = (" x ".join(map(str, part)) for part in (self.image_shape, self.sinogram_shape[1:]))
        return (
            f"<tacit projector of {pixels} pixels on {self.sinogram_shape[0]} angles x {bins} bins, {self.nnz} entries,"
            f" {self.storage}{_device.on(self.device)}>"
        )


def _stack(value: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, what: str) -> Array:
    """A contiguous array (k, ..) of this type; ValueError for another shape."""
    array = as_array(value, what)
    if array.ndim == len(shape):
        array = array[None]
    if array.ndim != len(shape) + 1 or array.shape[1:] != tuple(shape) or len(array) == 0:
        several = ", ".join(map(str, shape))
        raise ValueError(f"{what} has shape {np.shape(value)}; {tuple(shape)} or (k, {several}) is needed")
    return np.ascontiguousarray(array, dtype=dtype)


def _one_stack(comm: Any, value: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, what: str) -> Array:
    """:func:`_stack`, the same on every rank. Collective."""
    _, first = alike(comm, lambda: _stack(value, shape, dtype, what), lambda stack: {what: Whole(stack, "first")})
    return np.asarray(first[what])


def projector(
    angles: Any,
    detectors: int,
    *,
    image: int | Sequence[int] | None = None,
    centre: float | None = None,
    pixel: float = 1.0,
    dtype: str = "float32",
    threads: int | None = None,
    comm: Any = None,
    device: str = "host",
    **options: Unpack[ProjectorOptions],
) -> Projector:
    """The projector of a parallel beam: entry (ray, pixel) is the length of the ray within the pixel (Siddon 1985, doi
    10.1118/1.595715), stored or computed in every product.

    Parameters
    ----------
    angles : array_like, (a,)
        In radians. Ray j at angle t is the line x cos t + y sin t = j + 1/2 - centre, in bins; y points upwards.
    detectors : int
        Bins of the detector, of width 1.
    image : int or (rows, columns), optional
        Pixels; default: detectors x detectors.
    centre : float, optional
        Where the rotation axis meets the detector, in bins from its left edge; default: detectors / 2.
    pixel : float
        Side of a pixel, in bins.
    dtype : str
        "float32" or "float64".
    threads : int, optional
    comm : communicator, optional
        The image is spread over its ranks.
    device : str
        "host"; "cuda": the matrix, and the vectors of products and reconstructions, in the memory of this rank's GPU;
        "cuda:1": of that one. The matrix is built on the host and stored there ("automatic" is "list"), in its own
        blocks: ``block_rows``, ``tile``, ``tune``, ``minibatch``, bfloat16 and clusters are refused. On several ranks
        partial sums are added in host memory.
    **options
        ``format`` ("computed": entries are computed in every product; stored: "list", "bitmap", "plain"; "automatic"),
        ``columns`` (expected number of slices in a product), ``values`` and ``vectors`` (in 16 bits), ``order``
        ("hilbert", "natural"; for a stored matrix also "clustered", .., which do not use the geometry), ``groups``,
        ``minibatch``, ``tune``, ``block_rows``, ``tile``: see docs/reference/tiled.md.

    Returns
    -------
    Projector
    """
    on = _comm.resolve(comm)

    def look() -> tuple[Array, dict[str, Any], Any]:
        t = as_array(angles, "angles").astype(np.float64).reshape(-1)
        size = (detectors, detectors) if image is None else (image, image) if isinstance(image, int) else tuple(image)
        if len(size) != 2:
            raise ValueError(f"image is {image!r}; a number or (rows, columns) is needed")
        thread_count(threads)
        geometry = {
            "rows": whole_number(size[0], "image"),
            "columns": whole_number(size[1], "image"),
            "detectors": whole_number(detectors, "detectors"),
            "centre": detectors / 2 if centre is None else real_number(centre, "centre"),
            "pixel": real_number(pixel, "pixel"),
            "dtype": choose("dtype", str(np.dtype(dtype)), ("float32", "float64")),
            "device": _device.kind_of(device),
        }
        return t, geometry, op.filled("projector", options, _GEOMETRY)

    t, geometry, o = agreed(on, look)
    said = doubtful_angles(t)
    if said and on.rank == 0:
        warnings.warn(said, UserWarning, stacklevel=2)
    first = agree(on, o, TILED, angles=Whole(t, "first"), **{f"the geometry's {k}": v for k, v in geometry.items()})
    t, rows, columns, bins, middle, side, scalar, kind = first.values()
    gpu = -1 if kind == "host" else _device.number(device, on)
    with using_threads(threads) if threads else contextlib.nullcontext():
        handle = core("projector", scalar)(on, columns, rows, bins, t, middle, side, o, gpu)
    how: dict[str, Any] = {"detectors": bins, "image": (rows, columns), "centre": middle, "pixel": side}
    how |= {"dtype": scalar, "threads": threads, "comm": on, "device": device, **options}

    def again(at: Any) -> Projector:
        return projector(t[at], **how)

    return Projector(handle, on, scalar, (rows, columns), (len(t), bins), side, t, again)


def stacks(P: Projector, sinograms: Array, start: Any) -> tuple[Array, Array | None]:
    """The sinograms and the initial images, if any, as P needs them. Collective."""
    b = agreed(P.comm, lambda: _stack(sinograms, P.sinogram_shape, P.dtype, "sinograms"))
    x0 = None if start is None else _one_stack(P.comm, start, P.image_shape, P.dtype, "start")
    if x0 is not None and len(x0) != len(b):
        raise ValueError(f"{len(x0)} start images for {len(b)} sinograms")
    return b, x0


def meets_nothing(P: Projector, options: dict[str, Any]) -> str:
    """The error for a projector without entries; `options`: those it was made with, if known."""
    text = "no ray meets the image"
    if options.get("centre") is None:
        return text + ": all of its line integrals are zero"
    reach = float(options.get("pixel", 1.0)) * float(np.linalg.norm(P.image_shape)) / 2
    return (
        f"{text}: the rotation axis is at {options['centre']:g} bins of a detector of {P.sinogram_shape[1]}; with this"
        f" image rays meet it from {-reach:.1f} to {P.sinogram_shape[1] + reach:.1f}"
    )
