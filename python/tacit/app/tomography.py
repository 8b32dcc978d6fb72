"""Parallel-beam tomography: images from sinograms, slice by slice, many slices at a time.

>>> import numpy as np, tacit
>>> angles = np.linspace(0, np.pi, 60, endpoint=False)
>>> P = tacit.tomography.projector(angles, detectors=48)
>>> disc = (np.hypot(*np.mgrid[-23.5:24, -23.5:24]) < 15).astype(np.float32)
>>> result = tacit.tomography.reconstruct(P.project(disc), projector=P, iterations=20)
>>> bool(np.abs(result.images - disc).mean() < 0.03)
True
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core, op
from .. import comm as _comm
from .. import device as _device
from .._alike import Whole, alike
from .._described import RECONSTRUCT, RECONSTRUCT_NAMES, TILED, ProjectorOptions, ReconstructOptions
from .._options import agree, fill
from .._outcome import Outcome
from .._support import (
    Array,
    agreed,
    as_array,
    choose,
    core,
    real_number,
    refuse_unknown,
    thread_count,
    using_threads,
    whole_number,
)
from .axis import Axis, doubtful_angles, find_centre
from .counts import normalise
from .filtering import FILTERS, filtered, shares
from .nexus import open_scan
from .preparation import Paganin, Preparation
from .rings import remove_rings
from .stitching import stitch

__all__ = [
    "Axis",
    "Paganin",
    "Preparation",
    "Progress",
    "Projector",
    "Reconstruction",
    "fbp",
    "find_centre",
    "normalise",
    "open_scan",
    "projector",
    "reconstruct",
    "remove_rings",
    "stitch",
]


class Projector:
    """The matrix A, of rays x pixels, whose products are line integrals along rays through an image of square pixels.
    Made by :func:`projector`.

    Attributes
    ----------
    image_shape : tuple of int
        Rows and columns of the image; row 0 is on top.
    sinogram_shape : tuple of int
        Angles and detector bins.
    pixel : float
        Side of a pixel, in bins.
    operator : tacit.op.TiledSpmm or tacit.op.DeviceTiledSpmm
        A with rays and pixels in its own order: element i of its vectors is ray ``ray_order[i]`` or pixel
        ``pixel_order[i]``. Any method of :func:`tacit.solve` can be used on ``operator.H @ operator``.
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
        image: tuple[int, int],
        sinogram: tuple[int, int],
        pixel: float = 1.0,
    ) -> None:
        self._handle = handle
        self.comm = comm
        self.dtype = np.dtype(dtype)
        self.image_shape, self.sinogram_shape, self.pixel = image, sinogram, pixel
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
    def ray_order(self) -> Array:
        return np.asarray(self._handle.ray_order)

    @property
    def pixel_order(self) -> Array:
        return np.asarray(self._handle.pixel_order)

    def project(self, images: Any) -> Array:
        """A x: sinograms (k, angles, detectors) of images (k, rows, columns), or one sinogram of one image, without k.
        Collective; every rank passes and gets the same whole arrays.
        """
        return self._apply(images, self.image_shape, self.sinogram_shape, False)

    def backproject(self, sinograms: Any) -> Array:
        """A^T y: images of sinograms, with shapes as in :meth:`project`. Collective."""
        return self._apply(sinograms, self.sinogram_shape, self.image_shape, True)

    def _apply(self, x: Any, given: tuple[int, int], wanted: tuple[int, int], adjoint: bool) -> Array:
        what = "images" if not adjoint else "sinograms"
        stack = _one_stack(self.comm, x, given, self.dtype, what)
        result = self._handle.apply(stack.reshape(len(stack), -1), adjoint).reshape(len(stack), *wanted)
        return np.asarray(result[0] if np.ndim(x) == 2 else result)

    def __repr__(self) -> str:
        return (
            f"<tacit projector of {self.image_shape[0]} x {self.image_shape[1]} pixels on {self.sinogram_shape[0]}"
            f" angles x {self.sinogram_shape[1]} bins, {self.nnz} entries, {self.storage}"
            f"{_device.on(self.device)}>"
        )


def _stack(value: Any, shape: tuple[int, int], dtype: npt.DTypeLike, what: str) -> Array:
    """A contiguous array (k, rows, columns) of this type; ValueError for another shape."""
    array = as_array(value, what)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[1:] != tuple(shape) or len(array) == 0:
        raise ValueError(f"{what} has shape {np.shape(value)}; {tuple(shape)} or (k, {shape[0]}, {shape[1]}) is needed")
    return np.ascontiguousarray(array, dtype=dtype)


def _one_stack(comm: Any, value: Any, shape: tuple[int, int], dtype: npt.DTypeLike, what: str) -> Array:
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
    return Projector(handle, on, scalar, (rows, columns), (len(t), bins), side)


_projector = projector  # reconstruct() has an argument of the same name
_GEOMETRY = ("image", "centre", "pixel", "dtype", "threads", "comm", "device")


@dataclass
class Progress:
    """What the callback of :func:`reconstruct` is given after each iteration."""

    iteration: int  #: 0 is the start
    iterations: int  #: the largest number
    slices: range  #: the slices of the present batch
    residual: Array  #: |b - A x| of each of these slices
    seconds: float  #: time since the batch began
    remaining: float  #: seconds until all slices are done, if they take all iterations; NaN before the first one


@dataclass
class Reconstruction(Outcome):
    """The result of a reconstruction: the attributes of all results of Tacit, and those below. ``history`` and
    ``residual_norm`` are relative to the first residual, and are those of the worst slice.
    """

    images: Array  #: (k, rows, columns), or (rows, columns) of a single sinogram
    residual: Array  #: recurrence residual |b - A x| by iteration (from 0) and slice; NaN after a batch has ended
    gradient: Array  #: |A^T (b - A x)| likewise
    slice_iterations: list[int]
    #: why each slice ended: iterations, discrepancy, gradient, corner, non_finite, callback; "filtered" of :func:`fbp`
    end: list[str]
    final_residual: list[float]  #: |b - A x| of each slice, recomputed
    seconds: dict[str, float] = field(default_factory=dict)  #: "build" and "solve"
    interrupted: bool = False  #: by Ctrl-C: images are the present ones, and zero for slices that have not begun
    warnings: list[str] = field(default_factory=list, init=False, repr=False)

    @property
    def iterations(self) -> int:
        return max(self.slice_iterations, default=0)

    @property
    def reason(self) -> str:  # type: ignore[override]
        """The worst reason of all slices: non_finite, stopped or max_iterations; "converged" where every slice ended by
        its stopping rule before the last iteration.
        """
        words = {"iterations": "max_iterations", "callback": "stopped", "non_finite": "non_finite"}
        order = ("non_finite", "stopped", "max_iterations")
        found = {words.get(end, "converged") for end in self.end}
        return next((word for word in order if word in found), "converged")

    @property
    def converged(self) -> bool:  # type: ignore[override]
        return self.reason == "converged"

    @property
    def history(self) -> Array:  # type: ignore[override]
        first = np.where(self.residual[0] > 0, self.residual[0], 1)
        return np.asarray(np.nanmax(self.residual / first, axis=1, initial=0.0))

    @property
    def residual_norm(self) -> float:  # type: ignore[override]
        first = np.where(self.residual[0] > 0, self.residual[0], 1)
        return float(np.max(np.asarray(self.final_residual) / first, initial=0.0))

    @property
    def counts(self) -> dict[str, int]:  # type: ignore[override]
        return {"slices": len(self.slice_iterations), "slice_iterations": sum(self.slice_iterations)}


@contextlib.contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """A context in which the first Ctrl-C raises nothing; it gives a function that returns whether Ctrl-C was pressed.
    A context within another one gives the function of the outer one. Where SIGINT is ignored, it stays so.
    """
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before == signal.SIG_IGN:
        yield pressed.is_set
        return
    around = getattr(before, "pressed", None)
    if around is not None:
        yield around.is_set
        return

    def note(number: int, frame: Any) -> None:
        if pressed.is_set() and callable(before):
            before(number, frame)
        pressed.set()

    note.pressed = pressed  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, note)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class Options(ReconstructOptions, ProjectorOptions, total=False):
    """The ``**options`` of :func:`reconstruct`, for type checkers."""

    image: int | Sequence[int] | None
    centre: float | None
    pixel: float
    dtype: str
    device: str


_KNOWN = [*Options.__annotations__]
_PROJECTING = [name for name in _KNOWN if name not in RECONSTRUCT]


def checked(method: str, options: dict[str, Any]) -> Any:
    """The options of :func:`reconstruct`, without those of the projector, as an object of the compiled part; ValueError
    or TypeError for options that the method does not take.
    """
    o = core("ReconstructOptions")()
    o.method = choose("method", method, RECONSTRUCT_NAMES)
    kept = options.get("reorthogonalise")
    if isinstance(kept, (bool, np.bool_)):
        options = options | {"reorthogonalise": int(kept)}
    fill(o, "reconstruct", RECONSTRUCT, options)
    _core.check_reconstruct(o)
    return o


def reconstruct(
    sinograms: Any,
    angles: Any = None,
    *,
    projector: Projector | None = None,
    method: str = "cgls",
    start: Any = None,
    batch: int = 32,
    callback: Callable[[Progress], Any] | None = None,
    threads: int | None = None,
    comm: Any = None,
    **options: Unpack[Options],
) -> Reconstruction:
    """Reconstructs images from sinograms: min |b - A x| for each slice, with its own step lengths and stopping test.

    Parameters
    ----------
    sinograms : array_like, (angles, detectors) or (k, angles, detectors)
        Line integrals, minus the logarithm of the transmission (:func:`normalise`). Lengths are in bins.
    angles : array_like, (a,)
        In radians; needed without a projector.
    projector : Projector, optional
        One made earlier, to be used again. Otherwise it is made by :func:`projector` with its options (centre, image,
        values, ..).
    method : str
        "cgls" or "sirt".
    start : array_like, optional
        Initial images, of the shape of the result; default: zero.
    batch : int
        Number of slices that are computed together, as columns of products.
    callback : callable, optional
        Called with a :class:`Progress` after each iteration; returning True ends the reconstruction.
    threads : int, optional
    comm : communicator, optional
        Collective over its ranks, which pass and get the same whole arrays.
    **options
        ``iterations`` (at most; 30). A slice ends earlier by ``discrepancy`` (when |b - A x| reaches the norm of its
        noise), ``tolerance`` (of the gradient) or ``l_curve`` (at its corner). ``relaxation`` and ``nonnegative`` are
        for "sirt", ``reorthogonalise`` for "cgls" (True: 1, False: 0): see docs/reference/tomography.md. Also the
        options of :func:`projector`, among them ``device``: "host"; "cuda", "cuda:1": all vectors stay in the memory of
        that GPU during the iteration.

    Returns
    -------
    Reconstruction
        Ctrl-C ends the reconstruction early with the present images (``interrupted``); a second one raises
        KeyboardInterrupt.

    Notes
    -----
    An iteration is one product with A and one with A^T. CGLS fits noise in the end: stop it early, by `iterations`,
    `discrepancy` or `l_curve`.
    """
    begin = time.perf_counter()
    on = _comm.resolve(comm) if projector is None else projector.comm
    own: dict[str, Any] = {name: value for name, value in options.items() if name in RECONSTRUCT}
    making: dict[str, Any] = {name: value for name, value in options.items() if name not in RECONSTRUCT}

    def look() -> tuple[Array, Any]:
        o = checked(method, own)
        given = as_array(sinograms, "sinograms")
        if given.ndim not in (2, 3):
            needed = "(angles, detectors) or (k, angles, detectors)"
            raise ValueError(f"sinograms has shape {given.shape}; {needed} is needed")
        if whole_number(batch, "batch") < 1:
            raise ValueError(f"batch is {batch}; a positive number is needed")
        thread_count(threads)
        if projector is None:
            if angles is None:
                raise ValueError("either angles or a projector is needed")
            refuse_unknown("reconstruct", {k: v for k, v in making.items() if k not in _KNOWN}, _KNOWN)
        elif making:
            raise TypeError(f"{next(iter(making))} is an option of the projector, which was given")
        return given, o

    given, o = agreed(on, look)
    forms = {"projector": "None" if projector is None else "given", "start": "None" if start is None else "given"}
    first = agree(on, o, RECONSTRUCT, method=method, batch=int(batch), sinograms=Whole(given, "first"), **forms)
    given = first["sinograms"]
    with using_threads(threads) if threads else contextlib.nullcontext():
        if projector is None:
            making.setdefault("columns", 1 if given.ndim == 2 else min(batch, len(given)))
            projector = _projector(angles, given.shape[-1], comm=on, **making)
        built = time.perf_counter()
        P: Projector = projector
        if P.nnz == 0:
            raise ValueError(_meets_nothing(P, making))
        b, x0 = _stacks(P, given, start)
        images, parts, interrupted = _by_batches(P, b, x0, o, batch, callback)
    missing = len(b) - sum(len(p["iterations"]) for p in parts)
    return Reconstruction(
        images=images[0] if given.ndim == 2 else images,
        residual=_side_by_side([p["residual"] for p in parts], len(b)),
        gradient=_side_by_side([p["gradient"] for p in parts], len(b)),
        slice_iterations=[n for p in parts for n in p["iterations"]] + [0] * missing,
        end=[e for p in parts for e in p["end"]] + ["callback"] * missing,
        final_residual=[float(r) for p in parts for r in p["final_residual"]] + [float("nan")] * missing,
        seconds={"build": built - begin, "solve": time.perf_counter() - built},
        interrupted=interrupted,
    )


def fbp(
    sinograms: Any,
    angles: Any = None,
    *,
    projector: Projector | None = None,
    filter: str = "shepp-logan",
    wide: bool = False,
    batch: int = 32,
    comm: Any = None,
    **options: Unpack[Options],
) -> Reconstruction:
    """Filtered back-projection, A^T W F b: sinograms filtered by a ramp, weighted by the part of half a turn that each
    projection stands for, and back-projected. Takes about as long as one iteration; needs projections from everywhere.

    Parameters
    ----------
    sinograms, angles, projector, batch, comm, **options
        As for :func:`reconstruct`.
    filter : str
        Window of the ramp: "shepp-logan", "ramp" (none), "cosine", "hamming", "hann".
    wide : bool
        The sample is wider than the detector: sinograms continue beyond its ends with their last values, falling to
        zero, where otherwise they end; without that images rise towards the rim.

    Returns
    -------
    Reconstruction
        ``residual`` has one row, |b - A x|.
    """
    begin = time.perf_counter()
    on = _comm.resolve(comm) if projector is None else projector.comm

    def look() -> Array:
        choose("filter", filter, tuple(FILTERS))
        given = as_array(sinograms, "sinograms")
        if given.ndim not in (2, 3):
            raise ValueError(
                f"sinograms has shape {given.shape}; (angles, detectors) or (k, angles, detectors) is needed"
            )
        if whole_number(batch, "batch") < 1:
            raise ValueError(f"batch is {batch}; a positive number is needed")
        if angles is None:
            raise ValueError(
                "angles are needed, also with a projector: each projection is weighted by its part of the turn"
            )
        refuse_unknown("fbp", {k: v for k, v in options.items() if k not in _PROJECTING}, _PROJECTING)
        if projector is not None and options:
            raise TypeError(f"{next(iter(options))} is an option of the projector, which was given")
        return given

    given = agreed(on, look)
    if projector is None:
        making: dict[str, Any] = {"columns": 1 if given.ndim == 2 else min(batch, len(given))} | dict(options)
        projector = _projector(angles, given.shape[-1], comm=on, **making)
    built, P = time.perf_counter(), projector
    b, _ = _stacks(P, given, None)
    weights = (shares(np.asarray(angles, np.float64).reshape(-1))[:, None]).astype(P.dtype)
    images = np.empty((len(b), *P.image_shape), P.dtype)
    norms = np.empty(len(b))
    for first in range(0, len(b), batch):
        here = slice(first, first + batch)
        images[here] = P.backproject(filtered(b[here], filter, wide) * weights) / P.pixel**2
        norms[here] = np.linalg.norm((b[here] - P.project(images[here])).reshape(len(b[here]), -1), axis=1)
    end = ["filtered" if np.isfinite(norm) else "non_finite" for norm in norms]
    return Reconstruction(
        images=images[0] if given.ndim == 2 else images,
        residual=norms[None],
        gradient=np.full((1, len(b)), np.nan),
        slice_iterations=[0] * len(b),
        end=end,
        final_residual=norms.tolist(),
        seconds={"build": built - begin, "solve": time.perf_counter() - built},
    )


def _stacks(P: Projector, sinograms: Array, start: Any) -> tuple[Array, Array | None]:
    """The sinograms and the initial images, if any, as P needs them. Collective."""
    b = agreed(P.comm, lambda: _stack(sinograms, P.sinogram_shape, P.dtype, "sinograms"))
    x0 = None if start is None else _one_stack(P.comm, start, P.image_shape, P.dtype, "start")
    if x0 is not None and len(x0) != len(b):
        raise ValueError(f"{len(x0)} start images for {len(b)} sinograms")
    return b, x0


def _by_batches(
    P: Projector, b: Array, x0: Array | None, o: Any, batch: int, callback: Callable[[Progress], Any] | None
) -> tuple[Array, list[dict[str, Any]], bool]:
    """(images, what the compiled part returns of each batch, whether Ctrl-C was pressed). Collective."""
    images, parts = np.zeros((len(b), *P.image_shape), P.dtype), list[dict[str, Any]]()
    begin, ended = time.perf_counter(), False
    with interrupts() as pressed:
        for first in range(0, len(b), batch):
            rows = range(first, min(len(b), first + batch))

            def after(iteration: int, residual: Array, seconds: float, rows: range = rows) -> bool:
                nonlocal ended
                if callback is not None:
                    share = (rows.start + len(rows) * iteration / max(1, o.iterations)) / len(b)
                    left = (time.perf_counter() - begin) * (1 - share) / share if share > 0 else float("nan")
                    wanted = callback(Progress(iteration, o.iterations, rows, residual, seconds, left))
                    ended = bool(wanted) or ended
                ended = ended or pressed()
                return ended

            k, here = len(rows), slice(rows.start, rows.stop)
            start = np.zeros((0, 0), P.dtype) if x0 is None else x0[here].reshape(k, -1)
            part = P._handle.reconstruct(b[here].reshape(k, -1), start, o, after)
            images[here] = part.pop("images").reshape(k, *P.image_shape)
            parts.append(part)
            # If one rank wants to stop, all ranks have "callback" as the end here.
            if "callback" in part["end"]:
                break
        return images, parts, bool(P.comm.all_max_real(float(pressed())))


def _side_by_side(tables: list[Array], columns: int) -> Array:
    """Tables (iterations, slices) of the batches beside each other; NaN where a row or slice is missing."""
    joined = np.full((max(map(len, tables)), columns), np.nan)
    at = 0
    for table in tables:
        joined[: len(table), at : at + table.shape[1]] = table
        at += table.shape[1]
    return joined


def _meets_nothing(P: Projector, options: dict[str, Any]) -> str:
    """The error for a projector without entries; `options`: those it was made with, if known."""
    text = "no ray meets the image"
    if options.get("centre") is None:
        return text + ": all of its line integrals are zero"
    reach = float(options.get("pixel", 1.0)) * float(np.hypot(*P.image_shape)) / 2
    return (
        f"{text}: the rotation axis is at {options['centre']:g} bins of a detector of {P.sinogram_shape[1]}; with this"
        f" image rays meet it from {-reach:.1f} to {P.sinogram_shape[1] + reach:.1f}"
    )
