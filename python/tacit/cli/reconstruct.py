"""`tacit reconstruct`: images from the sinograms of a parallel-beam scan."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import sys
import time
import warnings
from typing import Any

from tacit import report
from tacit._described import RECONSTRUCT, RECONSTRUCT_NAMES, TILED
from tacit.cli.arguments import (
    INTERRUPTED,
    NOT_CONVERGED,
    OK,
    Arguments,
    WrongUse,
    check_files,
    destination,
    given,
    matching,
    real,
    whole,
)
from tacit.cli.ranks import on_ranks

TEXT = "images from the sinograms of a parallel-beam scan"
IMAGES = (".tif", ".tiff", ".h5", ".hdf5", ".npy", ".png")
# The options of the projector, whose `columns` is the batch.
PROJECTOR = [name for name, option in TILED.items() if "projector" in option.takers and name != "columns"]

_N = r"([1-9]\d*)"
sizes = matching(rf"{_N}(?:,{_N})?", "N or ROWS,COLUMNS", lambda m, n: int(m) if n is None else (int(m), int(n)))
pair = matching(f"{_N},{_N}", "ANGLES,DETECTORS", lambda m, n: (int(m), int(n)))
grid = matching(f"{_N}x{_N}", "DATAxBATCH like 4x3", lambda m, n: (int(m), int(n)))
span = matching(
    r"(\d+)(?:(:)(\d*))?",
    "FIRST:END or one number",
    lambda first, colon, end: (int(first), int(first) + 1 if not colon else int(end) if end else None),
)


def axis(text: str) -> str:
    if text != "auto":
        try:
            if not math.isfinite(float(text)):
                raise ValueError
        except ValueError:
            raise argparse.ArgumentTypeError(f'expected a number of bins or auto, found "{text}"') from None
    return text


def add(a: Arguments) -> None:
    a("file SCAN.h5", "HDF5 Data Exchange: /exchange/data, data_white, data_dark, theta", nargs="?")
    a("--sinogram FILE", "instead: raw float32 [slice][angle][detector], line integrals")
    a("--shape ANGLES,DETECTORS", "of that sinogram", pair)
    a("--theta FILE", "with it, or in place of the theta of SCAN.h5: raw float32, radians")
    a("--data NAME", "the numbers of SCAN.h5 are counts, transmission or line-integrals [counts]")
    a("--white LEVEL", "counts without the sample, in place of data_white", real(0, True))
    a("--dark LEVEL", "counts without the beam, in place of data_dark", real(0))
    a("--slices FIRST:END", "[all]", span)
    a("--centre BINS|auto", "of rotation, from the detector's left edge [the middle]", axis)
    a("--image N|ROWS,COLUMNS", "pixels [as many as bins]", sizes)
    a("--pixel BINS", "side of a pixel", real(0, True), 1.0)
    a.section("method")
    a.choice("--method", RECONSTRUCT_NAMES)
    a.options(RECONSTRUCT)
    a("--no-reorthogonalisation", "cgls as it stands: one image less in memory")
    a("--start FILE.npy", "images to start from")
    a.section("where and how it runs")
    a.options(TILED, PROJECTOR, takers=False)
    a.choice("--scalar", ("float32", "float64"))
    a("--batch K", "slices worked on together; twice as many in memory", whole(1), 32)
    a.where()
    a.device()
    a("--grid DATAxBATCH", "ranks that share an image x groups that share the slices [Nx1]", grid)
    a.section("what it leaves")
    a("--output FILE", f"images: {', '.join(IMAGES)}", destination(IMAGES))
    a("--preview FILE.png", "the middle slice as a picture", destination((".png",)))
    a("--monitor", "show progress")
    a.json()


def split_evenly(n: int, parts: int) -> list[tuple[int, int]]:
    """Ranges of 0 .. n - 1 whose lengths differ by at most one, such as 342, 341, 341."""
    cuts = [n // parts * i + min(i, n % parts) for i in range(parts + 1)]
    return list(itertools.pairwise(cuts))


class Line:
    """Shows progress, in one line that is overwritten on a terminal, in lines elsewhere."""

    def __init__(self, shown: bool, slices: int) -> None:
        self.shown, self.slices, self.live = shown, slices, sys.stderr.isatty()

    def __call__(self, state: Any) -> bool:
        if not self.shown:
            return False
        left = state.remaining
        eta = "" if math.isnan(left) else f", {left:.0f} s left"
        text = (
            f"slices {state.slices.start + 1} to {state.slices.stop} of {self.slices}, iteration {state.iteration} of"
            f" {state.iterations}, |b - A x| {max(state.residual):.4g}{eta}"
        )
        sys.stderr.write(f"\r{text:<78}" if self.live else text + "\n")
        sys.stderr.flush()
        return False

    def end(self) -> None:
        if self.shown and self.live:
            sys.stderr.write("\n")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    return on_ranks(arguments, _here)


def _here(arguments: argparse.Namespace, world: Any, out: Any) -> int:
    """The reconstruction itself, on every rank of `world`. Only the first prints and writes."""
    from tacit import comm as _comm
    from tacit._core import InputError
    from tacit._files import load_arrays
    from tacit.app import scans, tomography

    first = world.rank == 0
    options: Any = given(arguments, RECONSTRUCT)
    if arguments.no_reorthogonalisation:
        options["reorthogonalise"] = 0
    tomography.checked(arguments.method, options)
    data, batches = arguments.grid or (world.size, 1)
    if data * batches != world.size:
        raise ValueError(f"a grid of {data} x {batches} ranks, but there are {world.size}")
    leaders: Any = None
    if batches > 1:
        from mpi4py import MPI

        # Ranks that share an image are neighbours, so that they share a node where they can.
        group = MPI.COMM_WORLD.Split(world.rank // data, world.rank)
        leaders = MPI.COMM_WORLD.Split(0 if world.rank % data == 0 else MPI.UNDEFINED, world.rank)
        comm = _comm.resolve(group)
    else:
        comm = world
    mine = world.rank // data

    begin = time.perf_counter()
    scan: scans.Scan
    if arguments.file is not None:
        scan = scans.DataExchange(
            arguments.file,
            data=arguments.data or "counts",
            white=arguments.white,
            dark=arguments.dark,
            theta=arguments.theta,
        )
    else:
        scan = scans.Raw(arguments.sinogram, arguments.theta, arguments.shape)
    low, high = arguments.slices or (0, None)
    high = scan.slices if high is None else high
    if not low < high <= scan.slices:
        raise ValueError(f"--slices {low}:{high} of a scan with slices 0 to {scan.slices - 1}")
    centre = scans.centre_of(scan, arguments.centre)
    start = load_arrays(arguments.start) if arguments.start else None
    if isinstance(start, dict):
        raise InputError(f"{arguments.start}: one array (.npy) is needed")
    for text in scan.assumed:
        out.print(f"warning: {text}", style="yellow")
    read_seconds = time.perf_counter() - begin

    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # doubts about the angles are in scan.assumed
        P = tomography.projector(
            scan.angles,
            scan.detectors,
            image=arguments.image,
            centre=centre,
            pixel=arguments.pixel,
            columns=min(arguments.batch, high - low),
            dtype=arguments.scalar,
            threads=arguments.threads,
            comm=comm,
            device=arguments.device,
            **given(arguments, TILED, PROJECTOR),
        )
    build_seconds = time.perf_counter() - begin
    if start is not None:
        start = start[None] if start.ndim == 2 else start
        if start.shape != (high - low, *P.image_shape):
            raise ValueError(
                f"{arguments.start} has shape {start.shape} where {(high - low, *P.image_shape)} is needed"
            )

    share = split_evenly(high - low, batches)[mine]
    ranges = [(low + a, low + min(a + arguments.batch, share[1])) for a in range(share[0], share[1], arguments.batch)]
    rounds = -(-split_evenly(high - low, batches)[0][1] // arguments.batch)
    writer = scans.Writer(arguments.output, high - low, P.image_shape) if first and arguments.output else None
    preview = scans.Writer(arguments.preview, high - low, P.image_shape) if first and arguments.preview else None
    line = Line(bool(arguments.monitor) and first, high - low)
    begin = time.perf_counter()
    waited = 0.0
    history: dict[int, Any] = {}
    interrupted = False
    stream = scans.ahead(scan.read, ranges)
    keys = contextlib.ExitStack()
    try:
        # Ctrl-C between two batches ends the next one at its start.
        keys.enter_context(tomography.interrupts())
        for _ in range(rounds):
            before = time.perf_counter()
            item = next(stream, None)
            waited += time.perf_counter() - before
            found = None
            if item is not None and not interrupted:
                (a, b), sinograms = item
                result = tomography.reconstruct(
                    sinograms,
                    projector=P,
                    method=arguments.method,
                    start=None if start is None else start[a - low : b - low],
                    batch=arguments.batch,
                    callback=lambda s, a=a: line(  # type: ignore[misc]
                        tomography.Progress(
                            s.iteration,
                            s.iterations,
                            range(a - low, a - low + len(s.slices)),
                            s.residual,
                            s.seconds,
                            _left(
                                time.perf_counter() - begin, a - low - share[0], len(s.slices), s, share[1] - share[0]
                            ),
                        )
                    ),
                    threads=arguments.threads,
                    **options,
                )
                interrupted = result.interrupted
                told = (result.residual, result.slice_iterations, result.end, result.final_residual)
                found = (a - low, result.images, *told)
            # If a rank has failed the others learn of it here, and not in a gather, which does not check for failures.
            world.all_min(1)
            parts = [found] if leaders is None else leaders.gather(found) if world.rank % data == 0 else None
            for part in parts or []:
                if part is None or not first:
                    continue
                for target in (writer, preview):
                    if target:
                        target.write(part[0], part[1])
                for i in range(len(part[3])):
                    history[part[0] + i] = (part[2][:, i], part[3][i], part[4][i], part[5][i])
    except BaseException:
        for target in (writer, preview):
            if target:
                target.close(keep=False)
        raise
    finally:
        keys.close()
        line.end()
        scan.close()
    solve_seconds = time.perf_counter() - begin - waited
    for target in (writer, preview):
        if target:
            target.close()
    spoilt: list[int] = []
    # Ranks that share an image have read the same values.
    lost = world.all_sum(scan.without_counts if world.rank % data == 0 else 0)
    if first:
        if lost:
            text = f"{scan.path}: {lost} values without counts are interpolated from the bins beside them"
            scan.assumed.append(text)
            out.print(f"warning: {text}", style="yellow")
        order = sorted(history)
        spoilt = [low + i for i in order if history[i][2] == "non_finite"]
        facts = report.header("tacit.reconstruct/1", arguments.words) | {
            "scan": scan.path,
            "angles": len(scan.angles),
            "detectors": scan.detectors,
            "centre": float(centre),
            "centre_uncertainty": getattr(centre, "uncertainty", None),
            "centre_method": getattr(centre, "method", None),
            "nonzeros": P.nnz,
            "storage": P.storage,
            "device": P.device,
            "image_shape": list(P.image_shape),
            "slices": len(order),
            "ranks": world.size,
            "grid": [data, batches],
            "seconds": {"read": read_seconds + waited, "build": build_seconds, "solve": solve_seconds},
            "peak_memory_bytes": report.peak_memory(),
            "method": arguments.method,
            "iterations": [history[i][1] for i in order],
            "residual_history": [[float(v) for v in history[i][0] if not math.isnan(v)] for i in order],
            "residual": [history[i][3] for i in order],
            "reason": "interrupted" if interrupted else "non_finite" if spoilt else "done",
            "reasons": [history[i][2] for i in order],
            "warnings": scan.assumed,
            "output": arguments.output,
            "preview": arguments.preview,
        }
        if arguments.json:
            report.write_json(facts, arguments.json)
        show(facts, out)
    if spoilt:
        named = ", ".join(map(str, spoilt[:8])) + (", .." if len(spoilt) > 8 else "")
        out.print(f"not reconstructed, as their numbers are not finite: slices {named}")
    wrong = bool(world.all_max_real(float(len(spoilt))))
    return INTERRUPTED if interrupted else NOT_CONVERGED if wrong else OK


def _left(spent: float, done: int, now: int, state: Any, slices: int) -> float:
    """Estimated seconds until this rank's slices are done."""
    share = (done + now * state.iteration / max(1, state.iterations)) / max(1, slices)
    return spent * (1 - share) / share if share > 0 else float("nan")


def _axis_text(facts: dict[str, Any]) -> str:
    if facts["centre_method"] is None:
        return f"{facts['centre']:g}"
    return f"{facts['centre']:.2f} +- {facts['centre_uncertainty']:.2g} (by {facts['centre_method']})"


def show(facts: dict[str, Any], out: Any) -> None:
    seconds = facts["seconds"]
    rows, columns = facts["image_shape"]
    out.print(
        f"{facts['slices']} slices of {rows} x {columns} pixels from {facts['angles']} angles x {facts['detectors']}"
        f" bins,"
        f" axis at {_axis_text(facts)}; {facts['nonzeros']:,} entries ({facts['storage']}"
        f"{'' if facts['device'] == 'host' else ' on ' + facts['device']})"
    )
    if facts["residual"]:
        out.print(
            f"{facts['method']}: {min(facts['iterations'])} to {max(facts['iterations'])} iterations, |b - A x|"
            f" {min(facts['residual']):.4g} to {max(facts['residual']):.4g}"
        )
    out.print(
        f"read {seconds['read']:.2f} s, build {seconds['build']:.2f} s, solve {seconds['solve']:.2f} s;"
        f" {facts['peak_memory_bytes'] / 1e9:.2f} GB"
    )
    for name in ("output", "preview"):
        if facts[name]:
            out.print(f"{name} {facts[name]}")
    if facts["reason"] == "interrupted":
        out.print("interrupted: images are those of the moment")


def _check(arguments: argparse.Namespace) -> None:
    raw = [arguments.sinogram, arguments.shape]
    if (arguments.file is None) == all(r is None for r in raw):
        raise WrongUse("either SCAN.h5 or --sinogram, --theta and --shape")
    if arguments.file is None and any(r is None for r in (*raw, arguments.theta)):
        raise WrongUse("--sinogram needs --theta and --shape beside it")
    for option in ("data", "white", "dark"):
        if arguments.file is None and getattr(arguments, option) is not None:
            raise WrongUse(f"--{option} is of SCAN.h5; --sinogram holds line integrals")
    check_files(arguments, ("file", "sinogram", "theta", "start"), ("output", "preview", "json"))
    if arguments.no_reorthogonalisation and arguments.reorthogonalise is not None:
        raise WrongUse("--reorthogonalise and --no-reorthogonalisation are given")
