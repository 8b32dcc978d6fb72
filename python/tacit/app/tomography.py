"""Tomography: images from sinograms of a parallel or fan beam, many slices at a time, and volumes of a cone beam.

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
import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from .. import comm as _comm
from .._alike import Whole
from .._described import RECONSTRUCT, RECONSTRUCT_NAMES, ProjectorOptions, ReconstructOptions
from .._options import agree
from .._support import (
    Array,
    agreed,
    as_array,
    choose,
    refuse_unknown,
    thread_count,
    using_threads,
    whole_number,
)
from . import noise
from .axis import Axis, find_centre
from .beams import cone_projector, fan_projector, vector_projector
from .counts import normalise
from .feldkamp import circle_of, feldkamp
from .filtering import FILTERS, filtered, shares
from .methods import OPTIONS, checked
from .nexus import open_scan
from .preparation import Paganin, Preparation
from .projectors import Projector, for_few_products, meets_nothing, projector, stacks
from .regularised import regularised
from .results import Progress, Reconstruction, interrupts
from .rings import remove_rings
from .stitching import stitch
from .subsets import by_subsets

__all__ = [
    "Axis",
    "Paganin",
    "Preparation",
    "Progress",
    "Projector",
    "Reconstruction",
    "cone_projector",
    "fan_projector",
    "fbp",
    "find_centre",
    "normalise",
    "open_scan",
    "projector",
    "reconstruct",
    "remove_rings",
    "stitch",
    "vector_projector",
]

_projector = projector  # reconstruct() has an argument of the same name
#: Methods that take slices one after the other, since each has a matrix of its own.
ONE_BY_ONE = ("tikhonov", "tv")


class Options(ReconstructOptions, ProjectorOptions, total=False):
    """The ``**options`` of :func:`reconstruct`, for type checkers."""

    subsets: int
    regularisation: float | None
    penalty: str
    image: int | Sequence[int] | None
    centre: float | None
    pixel: float
    dtype: str
    device: str


_KNOWN = [*Options.__annotations__]
_PROJECTING = [name for name in _KNOWN if name not in OPTIONS]


def reconstruct(
    sinograms: Any,
    angles: Any = None,
    *,
    projector: Projector | None = None,
    method: str = "cgls",
    start: Any = None,
    deviations: Any = None,
    batch: int = 32,
    callback: Callable[[Progress], Any] | None = None,
    threads: int | None = None,
    comm: Any = None,
    **options: Unpack[Options],
) -> Reconstruction:
    """Reconstructs images from sinograms: min |b - A x| for each slice, or what the method minimises.

    Parameters
    ----------
    sinograms : array_like, (angles, detectors) or (k, angles, detectors)
        Line integrals, minus the logarithm of the transmission (:func:`normalise`). Lengths are in bins, of a fan or
        cone beam in the unit of its projector. Of a cone beam projections (angles, rows, columns), of one volume, or
        (k, angles, rows, columns).
    angles : array_like, (a,)
        In radians; needed without a projector.
    projector : Projector, optional
        One made earlier, to be used again. Otherwise it is made by :func:`projector` with its options (centre, image,
        values, ..). Fan and cone beams take one: :func:`fan_projector`, :func:`cone_projector`.
    method : str
        "cgls", "sirt", "sart", "osem", "mlem", "tikhonov" or "tv": docs/reference/tomography.md has their formulas.
    start : array_like, optional
        Initial images, of the shape of the result; default: zero, for "osem" and "mlem" one value, for "tikhonov" and
        "tv" cgls that ends at the noise.
    deviations : array_like, optional
        The standard deviations of the noise: a number, or an array of the shape of a sinogram or of all. A slice ends
        where |b - A x| is at most their norm (discrepancy principle: Morozov 1966), each slice by its own; in the norm
        none counts for more than four times their median, as rays without light would. "tikhonov" and "tv" weigh rays
        by them; without them one deviation for each slice is estimated from its sinogram.
    batch : int
        Number of slices that are computed together, as columns of products. "tikhonov" and "tv" take one at a time.
    callback : callable, optional
        Called with a :class:`Progress` after each iteration; returning True ends the reconstruction.
    threads : int, optional
    comm : communicator, optional
        Collective over its ranks, which pass and get the same whole arrays.
    **options
        ``iterations``, at most. A slice ends earlier by ``discrepancy`` (when |b - A x| reaches the norm of its
        noise), ``tolerance`` (of the gradient) or ``l_curve`` (at its corner). ``relaxation`` and ``nonnegative`` are
        for "sirt" and "sart", ``reorthogonalise`` for "cgls" (True: 1, False: 0), ``subsets`` for "sart" and "osem",
        ``regularisation`` for "tikhonov" and "tv": see docs/reference/tomography.md. Also the options of
        :func:`projector`, among them ``device``: "host"; "cuda", "cuda:1": with "cgls" and "sirt" all vectors stay in
        the memory of that GPU during the iteration, with the others products only.

    Returns
    -------
    Reconstruction
        Ctrl-C ends the reconstruction early with the present images (``interrupted``); a second one raises
        KeyboardInterrupt.

    Notes
    -----
    An iteration is one product with A and one with A^T ("sart", "osem": one more with A, for the residual; "tikhonov",
    "tv": ten of each, and one with A). CGLS fits noise in the end: stop it early, by `deviations`, `iterations`,
    `discrepancy` or `l_curve`.

    References
    ----------
    The discrepancy principle: Morozov (1966), On the solution of functional equations by the method of regularization.
    """
    begin = time.perf_counter()
    on = _comm.resolve(comm) if projector is None else projector.comm
    own: dict[str, Any] = {name: value for name, value in options.items() if name in OPTIONS}
    making: dict[str, Any] = {name: value for name, value in options.items() if name not in OPTIONS}

    def look() -> tuple[Array, Any, Array | None]:
        o = checked(method, own)
        given = _sinograms(sinograms, batch, projector)
        thread_count(threads)
        if projector is None:
            if angles is None:
                raise ValueError("either angles or a projector is needed")
            refuse_unknown("reconstruct", {k: v for k, v in making.items() if k not in _KNOWN}, _KNOWN)
        elif making:
            raise TypeError(f"{next(iter(making))} is an option of the projector, which was given")
        return given, o, _deviations(deviations, given, own)

    given, o, sigma = agreed(on, look)
    forms = {"projector": "None" if projector is None else "given", "start": "None" if start is None else "given"}
    forms["deviations"] = "None" if sigma is None else "given"
    wholes = {"sinograms": Whole(given, "first")} | ({} if sigma is None else {"sigma": Whole(sigma, "first")})
    first = agree(
        on,
        o,
        RECONSTRUCT if method in RECONSTRUCT_NAMES else OPTIONS,
        method=method,
        batch=int(batch),
        **wholes,
        **forms,
    )
    given, sigma = first["sinograms"], first.get("sigma")
    together = 1 if method in ONE_BY_ONE else batch
    with using_threads(threads) if threads else contextlib.nullcontext():
        if projector is None:
            making.setdefault("columns", 1 if given.ndim == 2 else min(together, len(given)))
            projector = _projector(angles, given.shape[-1], comm=on, **making)
        built = time.perf_counter()
        P: Projector = projector
        alone = given.ndim == len(P.sinogram_shape)
        if P.nnz == 0:
            raise ValueError(meets_nothing(P, making))
        b, x0 = stacks(P, given, start)
        sigma = None if sigma is None else np.asarray(np.broadcast_to(sigma, b.shape), P.dtype)
        images, parts, interrupted = _by_batches(P, b, x0, sigma, o, together, callback, threads)
    seconds = {"build": built - begin, "solve": time.perf_counter() - built}
    return _result(images[0] if alone else images, parts, len(b), seconds, interrupted)


def _sinograms(given: Any, batch: Any, P: Projector | None = None) -> Array:
    """The sinograms as an array; ValueError for other shapes, and for a batch below 1."""
    found = as_array(given, "sinograms")
    names = "angles, detectors" if P is None or len(P.sinogram_shape) == 2 else "angles, rows, columns"
    dimensions = names.count(",") + 1
    if found.ndim not in (dimensions, dimensions + 1):
        needed = f"({names}) or (k, {names})"
        raise ValueError(f"sinograms has shape {found.shape}; {needed} is needed")
    if whole_number(batch, "batch") < 1:
        raise ValueError(f"batch is {batch}; a positive number is needed")
    return found


def _result(
    images: Array, parts: list[dict[str, Any]], slices: int, seconds: dict[str, float], interrupted: bool
) -> Reconstruction:
    """What is known of the batches, as one result; Ctrl-C may have come before the last one."""
    missing = slices - sum(len(p["iterations"]) for p in parts)
    return Reconstruction(
        images=images,
        residual=_side_by_side([p["residual"] for p in parts], slices),
        gradient=_side_by_side([p["gradient"] for p in parts], slices),
        slice_iterations=[n for p in parts for n in p["iterations"]] + [0] * missing,
        end=[e for p in parts for e in p["end"]] + ["callback"] * missing,
        final_residual=[float(r) for p in parts for r in p["final_residual"]] + [float("nan")] * missing,
        seconds=seconds,
        interrupted=interrupted,
    )


def _deviations(given: Any, sinograms: Array, options: dict[str, Any]) -> Array | None:
    """The standard deviations as an array that broadcasts to sinograms; ValueError for others."""
    if given is None:
        return None
    if options.get("discrepancy"):
        raise ValueError(f"deviations and discrepancy {options['discrepancy']} are given: each is a norm to end at")
    sigma = np.asarray(as_array(given, "deviations"), np.float64)
    try:
        np.broadcast_to(sigma, sinograms.shape)
    except ValueError:
        raise ValueError(f"deviations has shape {sigma.shape}, and sinograms {sinograms.shape}") from None
    if not (np.isfinite(sigma).all() and (sigma > 0).all()):
        raise ValueError(f"deviations has {float(np.min(sigma)):g}; positive, finite numbers are needed")
    return sigma


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
    With the projector of a cone beam the method of Feldkamp, Davis and Kress (FDK), and with that of a fan likewise:
    for a source on a circle, over a whole turn.

    Parameters
    ----------
    sinograms, angles, projector, batch, comm, **options
        As for :func:`reconstruct`; angles are not needed with the projector of a fan or cone beam.
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
        given = _sinograms(sinograms, batch, projector)
        if angles is None and (projector is None or projector.views is None):
            raise ValueError(
                "angles are needed, also with a projector: each projection is weighted by its part of the turn"
            )
        refuse_unknown("fbp", {k: v for k, v in options.items() if k not in _PROJECTING}, _PROJECTING)
        if projector is not None and options:
            raise TypeError(f"{next(iter(options))} is an option of the projector, which was given")
        if projector is not None and projector.views is not None:
            circle_of(projector)
        return given

    given = agreed(on, look)
    if projector is None:
        columns = 1 if given.ndim == 2 else min(batch, len(given))
        making = for_few_products({"columns": columns} | dict(options))
        projector = _projector(angles, given.shape[-1], comm=on, **making)
    built, P = time.perf_counter(), projector
    b, _ = stacks(P, given, None)
    images = np.empty((len(b), *P.image_shape), P.dtype)
    norms = np.empty(len(b))
    for first in range(0, len(b), batch):
        here = slice(first, first + batch)
        if P.views is not None:
            images[here] = feldkamp(P, b[here], filter, wide)
        else:
            weights = (shares(np.asarray(angles, np.float64).reshape(-1))[:, None]).astype(P.dtype)
            images[here] = P.backproject(filtered(b[here], filter, wide) * weights) / P.pixel**2
        norms[here] = np.linalg.norm((b[here] - P.project(images[here])).reshape(len(b[here]), -1), axis=1)
    end = ["filtered" if np.isfinite(norm) else "non_finite" for norm in norms]
    return Reconstruction(
        images=images[0] if given.ndim == len(P.sinogram_shape) else images,
        residual=norms[None],
        gradient=np.full((1, len(b)), np.nan),
        slice_iterations=[0] * len(b),
        end=end,
        final_residual=norms.tolist(),
        seconds={"build": built - begin, "solve": time.perf_counter() - built},
    )


def _by_batches(
    P: Projector,
    b: Array,
    x0: Array | None,
    sigma: Array | None,
    o: Any,
    batch: int,
    callback: Callable[[Progress], Any] | None,
    threads: int | None,
) -> tuple[Array, list[dict[str, Any]], bool]:
    """(images, what is known of each batch, whether Ctrl-C was pressed). Collective."""
    images, parts = np.zeros((len(b), *P.image_shape), P.dtype), list[dict[str, Any]]()
    begin, ended = time.perf_counter(), False
    with interrupts() as pressed:
        for first in range(0, len(b), batch):
            rows = range(first, min(len(b), first + batch))

            def after(iteration: int, residual: Array, seconds: float, rows: range = rows) -> bool:
                nonlocal ended

                def asked() -> bool:
                    if callback is None:
                        return False
                    share = (rows.start + len(rows) * iteration / max(1, o.iterations)) / len(b)
                    left = (time.perf_counter() - begin) * (1 - share) / share if share > 0 else float("nan")
                    return bool(callback(Progress(iteration, o.iterations, rows, residual, seconds, left)))

                # The compiled methods agree among ranks on what callbacks return and raise.
                compiled = o.method in RECONSTRUCT_NAMES
                ended = (asked() if compiled else agreed(P.comm, asked)) or ended or pressed()
                return ended if compiled else bool(P.comm.all_max_real(float(ended)))

            here = slice(rows.start, rows.stop)
            start, noisy = (None if part is None else part[here] for part in (x0, sigma))
            with np.errstate(all="ignore"):  # slices say themselves that they are not finite
                part = _batch(P, b[here], start, noisy, o, after, threads)
            images[here] = part.pop("images").reshape(len(rows), *P.image_shape)
            parts.append(part)
            # If one rank wants to stop, all ranks have "callback" as the end here.
            if "callback" in part["end"]:
                break
        return images, parts, bool(P.comm.all_max_real(float(pressed())))


def _batch(
    P: Projector, b: Array, x0: Array | None, sigma: Array | None, o: Any, after: Any, threads: int | None
) -> dict[str, Any]:
    """The images of some slices, and what is known of them, by any method. Collective."""
    goal = np.zeros(len(b)) if sigma is None else noise.norms(sigma)
    if o.method in RECONSTRUCT_NAMES:
        return _compiled(P, b, x0, goal, o, after)
    if o.method not in ONE_BY_ONE:
        return by_subsets(P, b, x0, o, goal if sigma is not None else goal + o.discrepancy, after)
    if sigma is None:
        sigma = np.broadcast_to(noise.estimated(b), b.shape)
    return regularised(P, b, x0, _rough(P, b, sigma), o, sigma, after, threads)


def _rough(P: Projector, b: Array, sigma: Array) -> Array:
    """An image of a slice by cgls that ends at the noise, but not at 0."""
    for goal, options in ((noise.norms(sigma), {}), (np.zeros(1), {"iterations": 1})):
        image = _compiled(P, b, None, goal, checked("cgls", options), lambda *_: False)["images"]
        if image.any():
            break
    return np.asarray(image.reshape(P.image_shape))


def _compiled(P: Projector, b: Array, x0: Array | None, goal: Array, o: Any, after: Any) -> dict[str, Any]:
    """Methods of the compiled part, which ends all slices of a batch at one residual: with a `goal` for each slice that
    is not 0, slices are divided by their goals, and end at 1.
    """
    k = len(b)
    start = np.zeros((0, 0), P.dtype) if x0 is None else x0.reshape(k, -1)
    by_noise = bool((goal > 0).all())
    if not by_noise:
        return dict(P._handle.reconstruct(b.reshape(k, -1), start, o, after))
    o.discrepancy, unit = 1.0, goal.astype(P.dtype)[:, None]
    scaled = b.reshape(k, -1) / unit
    start = start if x0 is None else start / unit
    part = dict(P._handle.reconstruct(scaled, start, o, lambda i, residual, t: after(i, residual * goal, t)))
    part["images"] = part["images"] * unit
    part |= {name: part[name] * goal for name in ("residual", "gradient")}
    part["final_residual"] = (np.asarray(part["final_residual"]) * goal).tolist()
    return part


def _side_by_side(tables: list[Array], columns: int) -> Array:
    """Tables (iterations, slices) of the batches beside each other; NaN where a row or slice is missing."""
    joined = np.full((max(map(len, tables)), columns), np.nan)
    at = 0
    for table in tables:
        joined[: len(table), at : at + table.shape[1]] = table
        at += table.shape[1]
    return joined
