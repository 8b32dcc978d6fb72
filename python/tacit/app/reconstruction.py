"""The images of a scan, from file to file: batches of slices are read ahead, shared by groups of ranks, and written."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import comm as _comm
from .. import report
from .._core import InputError
from .._files import load_arrays
from . import preparation, scans, tomography
from .field import Stitched, field_of
from .filtering import extended
from .projectors import for_few_products
from .results import Progress, interrupts
from .scan_axis import centre_of
from .views import Views
from .volumes import Scale, Writer


def split_evenly(n: int, parts: int) -> list[tuple[int, int]]:
    """Ranges of 0 .. n - 1 whose lengths differ by at most one, such as 342, 341, 341."""
    cuts = [n // parts * i + min(i, n % parts) for i in range(parts + 1)]
    return list(itertools.pairwise(cuts))


NOISY = 0.02  #: noise of counts, relative to the line integrals, from which penalties are advised


class Grid:
    """`groups` groups of `size` ranks: those of a group share an image, the groups share the slices. Collective."""

    def __init__(self, world: Any, sizes: tuple[int, int] | None) -> None:
        self.world = world
        size, groups = sizes or (int(world.size), 1)
        self.size, self.groups = size, groups
        if self.size * self.groups != world.size:
            raise ValueError(f"a grid of {self.size} x {self.groups} ranks, but there are {world.size}")
        self.group, self.leads = world.rank // self.size, world.rank % self.size == 0
        self.comm, self._leaders = world, None
        if self.groups > 1:
            from mpi4py import MPI

            # Ranks that share an image are neighbours, so that they share a node where they can.
            self.comm = _comm.resolve(MPI.COMM_WORLD.Split(self.group, world.rank))
            self._leaders = MPI.COMM_WORLD.Split(0 if self.leads else MPI.UNDEFINED, world.rank)

    def gather(self, part: Any) -> list[Any]:
        """On the first rank the parts of all groups that have one, else none. Collective."""
        # If a rank has failed the others learn of it here, and not in a gather, which does not check for failures.
        self.world.all_min(1)
        parts = [part] if self._leaders is None else self._leaders.gather(part) if self.leads else None
        return [p for p in parts or [] if p is not None] if self.world.rank == 0 else []


class ScanReconstruction:
    """Slices `slices` (first, end) of a scan: :meth:`build` makes the projector, :meth:`run` the images.

    `centre` is a number of bins, "auto" or None, as for :func:`scan_axis.centre_of`; `start` a .npy file of initial
    images.
    """

    def __init__(
        self,
        scan: scans.Scan,
        grid: Grid,
        slices: tuple[int, int | None] | None,
        centre: str | None,
        start: str | None,
        stitch: bool = False,
    ) -> None:
        self.scan, self.grid, self.start_file = scan, grid, start
        low, end = slices or (0, None)
        high = scan.slices if end is None else end
        if not low < high <= scan.slices:
            raise ValueError(f"--slices {low}:{high} of a scan with slices 0 to {scan.slices - 1}")
        self.low, self.count = low, high - low
        self.centre = centre_of(scan, centre)
        self.stitched = stitch and field_of(scan, self.centre, None, 1.0, 0).half
        if self.stitched:
            self.scan = joined = Stitched(scan, self.centre)
            self.axis: float = joined.centre
            scan.assumed.append(
                f"{scan.path}: half acquisition: opposite projections are joined to {len(joined.angles)} of"
                f" {joined.detectors} bins over half a turn"
            )
        else:
            self.axis = float(self.centre)
        images = load_arrays(start) if start else None
        if isinstance(images, dict):
            raise InputError(f"{start}: one array (.npy) is needed")
        self.start = images
        self.history: dict[int, tuple[Any, int, str, float]] = {}  # by slice: residuals, iterations, end, last residual
        self.noise_shares: dict[int, float] = {}  # by slice: |deviations| / |b|, where they are known
        self.scale = Scale()  # of values in TIFF files
        self.repairs = Counter[str]()
        self.interrupted = False
        self.seconds = {"read": 0.0, "build": 0.0, "solve": 0.0}

    def build(self, batch: int, *, pad: int | None = None, method: str = "cgls", **options: Any) -> None:
        """Makes the projector for a method, with the options of :func:`tomography.projector`, and `pad` of
        :func:`field_of`. Collective.
        """
        begin = time.perf_counter()
        self.batch = batch
        self.field = field_of(self.scan, self.axis, options.get("image"), options.get("pixel", 1.0), pad)
        self.scan.assumed += [f"{self.scan.path}: {text}" for text in self.field.said]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # doubts about the angles are in scan.assumed
            options |= {
                "centre": self.axis,
                "image": self.field.made,
                "columns": 1 if method in tomography.ONE_BY_ONE else min(batch, self.count),
                "comm": self.grid.comm,
            }
            if self.count <= batch:  # whose iterations are all products that there are
                options = for_few_products(options)
            self.projector = tomography.projector(self.scan.angles, self.scan.detectors, **options)
            self.outer = None
            if self.field.wide and not self.field.half and self.field.made != self.field.kept:
                n = self.scan.detectors
                more = {"centre": self.axis + n, "image": self.field.made, "comm": self.grid.comm, "format": "computed"}
                more |= {name: options[name] for name in ("pixel", "threads") if name in options}
                self.outer = tomography.projector(self.scan.angles, 3 * n, **more)
        self.seconds["build"] = time.perf_counter() - begin
        if self.start is not None:
            shape = self.count, *self.field.kept
            self.start = self.start[None] if self.start.ndim == 2 else self.start
            if self.start.shape != shape:
                raise ValueError(f"{self.start_file} has shape {self.start.shape} where {shape} is needed")
            self.start = self.field.spread(self.start)

    def views(self) -> Views:
        """For :meth:`run`: the first, the middle and the last slice are shown."""
        middle = self.low + self.count // 2
        return Views(middle, tuple(dict.fromkeys((self.low, middle, self.low + self.count - 1))))

    def run(
        self,
        paths: list[str | None],
        show: Callable[[Progress], Any],
        views: Views | None = None,
        noise: bool = True,
        **options: Any,
    ) -> None:
        """Reconstructs all slices, and writes their images to the files `paths` (those that are not None) and what is
        shown of them to `views`, on the first rank. `show` is called with the progress, slices counted from the first.
        `noise`: iterations end by the noise of counts, and penalties weigh by it, where the scan tells. `options`:
        those of :func:`tomography.reconstruct`, or for the method "fbp" of :func:`tomography.fbp`. Collective.
        """
        shares = split_evenly(self.count, self.grid.groups)
        first, end = shares[self.grid.group]
        self._middle = None if views is None else views.at
        ranges = [(self.low + a, self.low + min(a + self.batch, end)) for a in range(first, end, self.batch)]
        self._progress = _Progress(first, end - first, show)
        with contextlib.ExitStack() as files:
            wanted = [path for path in paths if path] if self.grid.world.rank == 0 else []
            scales = [self.scale if path.lower().endswith((".tif", ".tiff")) else None for path in wanted]
            writers = [
                files.enter_context(Writer(path, self.count, self.field.kept, scale))
                for path, scale in zip(wanted, scales, strict=True)
            ]
            begin, waited = time.perf_counter(), 0.0
            self.noise = noise
            stream = scans.ahead(self.scan.measure, ranges)
            # Ctrl-C between two batches ends the next one at its start.
            with contextlib.closing(self.scan), interrupts():
                if views is not None and self.grid.world.rank == 0:
                    views.look(self.scan)
                for _ in range(-(-shares[0][1] // self.batch)):
                    before = time.perf_counter()
                    item = next(stream, None)
                    waited += time.perf_counter() - before
                    found = None if item is None or self.interrupted else self._batch(*item, options)
                    for at, images, histories, whole, shares_ in self.grid.gather(found):
                        self.noise_shares |= dict(enumerate(shares_, at))
                        for writer in writers:
                            writer.write(at, images)
                        if views is not None:
                            views.keep(self.low + at, images)
                            views.whole = views.whole if whole is None else whole
                        self.history |= dict(enumerate(histories, at))
            self.seconds["read"] += waited
            self.seconds["solve"] = time.perf_counter() - begin - waited
        # Ranks that share an image have read the same values.
        mine = self.scan.repairs if self.grid.leads else Counter[str]()
        self.repairs = Counter({kind: int(self.grid.world.all_sum(mine[kind])) for kind in preparation.KINDS})
        lost = {kind: self.repairs[kind] for kind in preparation.LOST}
        self.scan.assumed += [f"{self.scan.path}: {text}" for text in preparation.sentences(Counter(lost))]

    def _begin(self, sinograms: Any) -> Any:
        """The initial images: none, and of a sample that is cut off filtered back-projections of its sinograms, which
        continue beyond the detector. What iterations cannot see, such as how much lies there, stays as it is in these.
        """
        if self.outer is None:
            return None
        wider = extended(sinograms, self.scan.detectors)
        made = tomography.fbp(wider, self.scan.angles, projector=self.outer, batch=self.batch).images
        made[~np.isfinite(made).all((1, 2))] = 0  # its sinogram has values that are no numbers
        return made

    def _batch(
        self, slices: tuple[int, int], measured: tuple[Any, Any], options: dict[str, Any]
    ) -> tuple[int, Any, list[Any], Any, list[float]]:
        """The first slice of a batch, its images, the history of each slice, with the pixels beside it the image of
        the slice that a report shows, if it is among them, and each slice's noise relative to its sinogram, where it is
        known. Collective over the group.
        """
        first, end = (n - self.low for n in slices)
        sinograms, deviations = measured
        how = {"projector": self.projector, "batch": self.batch, **options}
        if how["method"] == "fbp":
            names = ("projector", "batch", "filter")
            result = tomography.fbp(
                sinograms, self.scan.angles, wide=self.field.wide, **{name: how[name] for name in names if name in how}
            )
        else:
            how |= {"start": self._begin(sinograms) if self.start is None else self.start[first:end]}
            how |= {"deviations": deviations if self.noise else None}
            result = tomography.reconstruct(sinograms, callback=lambda s: self._progress(first, s), **how)
        self.interrupted = result.interrupted
        columns = result.residual.T, result.slice_iterations, result.end, result.final_residual
        histories = list(zip(*columns, strict=True))
        at = -1 if self._middle is None else self._middle - slices[0]
        whole = np.array(result.images[at]) if 0 <= at < len(result.images) else None
        return first, self.field.crop(result.images), histories, whole, shares_of_noise(sinograms, deviations)

    def advice(self, method: str) -> list[str]:
        """What would do better with the noise of this scan, as sentences; on the first rank."""
        noisy = [at for at, share in self.noise_shares.items() if share > NOISY]
        if not noisy or method in tomography.ONE_BY_ONE:
            return []
        most = max(self.noise_shares[at] for at in noisy)
        return [
            f"the noise of the counts is up to {most:.0%} of the line integrals ({len(noisy)} of"
            f" {len(self.noise_shares)} slices above {NOISY:.0%}): --method tv keeps flat parts and edges at such"
            " noise, --method tikhonov is smooth"
        ]

    @property
    def spoilt(self) -> list[int]:
        """The slices whose numbers are not finite; on the first rank."""
        return [self.low + i for i in sorted(self.history) if self.history[i][2] == "non_finite"]

    def facts(self) -> dict[str, Any]:
        """What was done, for the document of the command; on the first rank."""
        scan, P, grid = self.scan, self.projector, self.grid
        slices = [self.history[i] for i in sorted(self.history)]
        return {
            "scan": scan.path,
            "angles": len(scan.angles),
            "detectors": scan.detectors,
            "detector_shape": [scan.detectors],
            "centre": float(self.centre),
            "centre_uncertainty": getattr(self.centre, "uncertainty", None),
            "centre_method": getattr(self.centre, "method", None),
            "nonzeros": P.nnz,
            "storage": P.storage,
            "device": P.device,
            "image_shape": list(self.field.kept),
            "computed_shape": list(self.field.made),
            "half_acquisition": self.stitched or self.field.half,
            "slices": len(slices),
            "ranks": grid.world.size,
            "grid": [grid.size, grid.groups],
            "seconds": self.seconds,
            "peak_memory_bytes": report.peak_memory(),
            "iterations": [iterations for _, iterations, _, _ in slices],
            "residual_history": [[float(v) for v in residuals if not math.isnan(v)] for residuals, *_ in slices],
            "residual": [residual for *_, residual in slices],
            "reason": "interrupted" if self.interrupted else "non_finite" if self.spoilt else "done",
            "reasons": [end for _, _, end, _ in slices],
            "preparation": scan.preparation.facts(),
            "repairs": {kind: count for kind, count in self.repairs.items() if count > 0},
            "prepared": preparation.sentences(
                self.repairs - Counter({kind: self.repairs[kind] for kind in preparation.LOST})
            ),
            "scale": self.scale.facts(),
            "noise": [self.noise_shares[i] for i in sorted(self.noise_shares)],
            "warnings": scan.assumed,
        }


def shares_of_noise(sinograms: Any, deviations: Any) -> list[float]:
    """|deviations| / |b| of each slice."""
    if deviations is None:
        return []
    norms = [np.sqrt(np.square(a, dtype=np.float64).reshape(len(a), -1).sum(1)) for a in (deviations, sinograms)]
    return [float(v) for v in np.divide(norms[0], norms[1], out=np.zeros(len(sinograms)), where=norms[1] > 0)]


class _Progress:
    """Turns the progress of a batch into that of all slices of this rank, from `first`, and shows it."""

    def __init__(self, first: int, count: int, show: Callable[[Progress], Any]) -> None:
        self.first, self.count, self.show, self.begin = first, count, show, time.perf_counter()

    def __call__(self, at: int, state: Progress) -> Any:
        batch, at = len(state.slices), at + state.slices.start
        done = (at - self.first + batch * state.iteration / max(1, state.iterations)) / max(1, self.count)
        left = (time.perf_counter() - self.begin) * (1 - done) / done if done > 0 else math.nan
        slices = range(at, at + batch)
        made = Progress(state.iteration, state.iterations, slices, state.residual, state.seconds, left)
        return self.show(made)
