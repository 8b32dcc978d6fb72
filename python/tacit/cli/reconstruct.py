"""`tacit reconstruct`: images from the sinograms of a parallel-beam scan."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import re
import sys
import time
from typing import Any

from tacit import report
from tacit.cli.arguments import (
    INTERRUPTED,
    NOT_CONVERGED,
    OK,
    WrongUse,
    add_json,
    choice,
    destination,
    real,
    whole,
)
from tacit.cli.ranks import on_ranks

METHODS = ("cgls", "sirt")
VALUES = ("full", "float32", "float16", "bfloat16")
VECTORS = ("full", "float16", "bfloat16")
FORMATS = ("automatic", "computed", "list", "bitmap", "plain")
ORDERS = ("hilbert", "natural", "clustered", "spectral", "greedy", "metis")
IMAGES = (".tif", ".tiff", ".h5", ".hdf5", ".npy", ".png")


def sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)?", text):
        raise argparse.ArgumentTypeError(f'expected N or ROWS,COLUMNS, found "{text}"')
    return tuple(int(n) for n in text.split(","))


def pair(text: str) -> tuple[int, int]:
    numbers = sizes(text)
    if len(numbers) != 2:
        raise argparse.ArgumentTypeError(f'expected ANGLES,DETECTORS, found "{text}"')
    return numbers[0], numbers[1]


def group_sizes(text: str) -> list[int]:
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f'expected sizes of groups of ranks like 3,6, found "{text}"')
    return [int(n) for n in text.split(",")]


def grid(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f'expected DATAxBATCH like 4x3, found "{text}"')
    return int(found[1]), int(found[2])


def span(text: str) -> tuple[int, int | None]:
    found = re.fullmatch(r"(\d+)(?:(:)(\d*))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f'expected FIRST:END or one number, found "{text}"')
    first = int(found[1])
    return first, first + 1 if not found[2] else int(found[3]) if found[3] else None


def axis(text: str) -> str:
    if text != "auto":
        try:
            if not math.isfinite(float(text)):
                raise ValueError
        except ValueError:
            raise argparse.ArgumentTypeError(f'expected a number of bins or auto, found "{text}"') from None
    return text


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "file", nargs="?", metavar="SCAN.h5", help="HDF5 Data Exchange: /exchange/data, data_white, data_dark, theta"
    )
    p.add_argument("--sinogram", metavar="FILE", help="instead: raw float32 [slice][angle][detector], line integrals")
    p.add_argument("--shape", type=pair, metavar="ANGLES,DETECTORS", help="of that sinogram")
    p.add_argument("--theta", metavar="FILE", help="with it, or in place of the theta of SCAN.h5: raw float32, radians")
    p.add_argument(
        "--data", metavar="NAME", help="the numbers of SCAN.h5 are counts, transmission or line-integrals [counts]"
    )
    p.add_argument(
        "--white", type=real(0, True), metavar="LEVEL", help="counts without the sample, in place of data_white"
    )
    p.add_argument("--dark", type=real(0), metavar="LEVEL", help="counts without the beam, in place of data_dark")
    p.add_argument("--slices", type=span, metavar="FIRST:END", help="[all]")
    p.add_argument(
        "--centre", type=axis, metavar="BINS|auto", help="of rotation, from the detector's left edge [the middle]"
    )
    p.add_argument("--image", type=sizes, metavar="N|ROWS,COLUMNS", help="pixels [as many as bins]")
    p.add_argument("--pixel", default=1.0, type=real(0, True), metavar="BINS", help="side of a pixel [1]")
    g = p.add_argument_group("method")
    choice(g, "--method", "method", METHODS)
    g.add_argument("--iterations", default=30, type=whole(0), metavar="N", help="at most [30]")
    g.add_argument("--discrepancy", default=0.0, type=real(0), metavar="R", help="end a slice at |b - A x| <= R")
    g.add_argument("--tolerance", default=0.0, type=real(0), metavar="T", help="end at |A^T r| <= T |A^T b|")
    g.add_argument("--l-curve", action="store_true", help="end at the corner of the L-curve")
    g.add_argument("--relaxation", default=1.0, type=real(0, True), metavar="W", help="of sirt [1]")
    g.add_argument("--nonnegative", action="store_true", help="sirt: no pixel below 0")
    g.add_argument(
        "--reorthogonalise", type=int, default=1, metavar="N", help="cgls: keep gradients orthogonal to the first N [1]"
    )
    g.add_argument("--no-reorthogonalisation", action="store_true", help="cgls as it stands: one image less in memory")
    g.add_argument("--start", metavar="FILE.npy", help="images to start from")
    g = p.add_argument_group("where and how it runs")
    choice(g, "--values", "values", VALUES, "of the stored projector: ")
    choice(g, "--vectors", "vectors", VECTORS, "that a product reads: ")
    choice(g, "--format", "format", FORMATS, "of the projector: ")
    choice(g, "--order", "order", ORDERS, "of rays and pixels: ")
    choice(g, "--scalar", "scalar", ("float32", "float64"))
    g.add_argument(
        "--batch",
        default=32,
        type=whole(1),
        metavar="K",
        help="slices worked on together; twice as many in memory [32]",
    )
    g.add_argument("--ranks", type=whole(1), metavar="N", help="MPI ranks, started here")
    g.add_argument(
        "--grid", type=grid, metavar="DATAxBATCH", help="ranks that share an image x groups that share the slices [Nx1]"
    )
    g.add_argument(
        "--groups", default=[], type=group_sizes, metavar="3,6", help="ranks within which partial sums are added first"
    )
    g.add_argument("--minibatch", default=0, type=whole(0), metavar="K", help="slices to a message [all]")
    g.add_argument(
        "--tune", action="store_true", help="time projectors, stored and computed, first; kept for the next time"
    )
    g.add_argument("--threads", type=whole(1), metavar="N", help="threads of a rank")
    g = p.add_argument_group("what it leaves")
    g.add_argument("--output", type=destination(IMAGES), metavar="FILE", help=f"images: {', '.join(IMAGES)}")
    g.add_argument("--preview", type=destination((".png",)), metavar="FILE.png", help="the middle slice as a picture")
    g.add_argument("--monitor", action="store_true", help="show progress")
    add_json(g)


def split_evenly(n: int, parts: int) -> list[tuple[int, int]]:
    """342, 341, 341."""
    cuts = [n // parts * i + min(i, n % parts) for i in range(parts + 1)]
    return list(itertools.pairwise(cuts))


class Line:
    """Progress in one line that is written over, on a terminal; in lines elsewhere."""

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


def _here(arguments: argparse.Namespace, world: Any) -> int:
    """The reconstruction itself, on every rank of `world`. Only the first prints and writes."""
    from tacit import comm as _comm
    from tacit._core import InputError
    from tacit._support import load_arrays
    from tacit.app import scans, tomography

    first = world.rank == 0
    out = report.console(stderr=arguments.json == "-", quiet=not first)
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
        out.print(f"warning: {text}", style="yellow", soft_wrap=True)
    read_seconds = time.perf_counter() - begin

    begin = time.perf_counter()
    image = arguments.image
    P = tomography.projector(
        scan.angles,
        scan.detectors,
        image=None if image is None else image[0] if len(image) == 1 else image,
        centre=centre,
        pixel=arguments.pixel,
        values=arguments.values,
        vectors=arguments.vectors,
        format=arguments.format,
        order=arguments.order,
        columns=min(arguments.batch, high - low),
        groups=arguments.groups,
        minibatch=arguments.minibatch,
        tune=arguments.tune,
        dtype=arguments.scalar,
        threads=arguments.threads,
        comm=comm,
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
        # Ctrl-C between two batches counts as well: it ends the next one at its start.
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
                    iterations=arguments.iterations,
                    discrepancy=arguments.discrepancy,
                    tolerance=arguments.tolerance,
                    l_curve=arguments.l_curve,
                    relaxation=arguments.relaxation,
                    nonnegative=arguments.nonnegative,
                    reorthogonalise=0 if arguments.no_reorthogonalisation else arguments.reorthogonalise,
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
                )
                interrupted = result.interrupted
                found = (
                    a - low,
                    result.images,
                    result.residual,
                    result.slice_iterations,
                    result.end,
                    result.final_residual,
                )
            # Where a rank has failed the others hear of it here, not in a gather that looks for nothing.
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
    if first:
        order = sorted(history)
        spoilt = [low + i for i in order if history[i][2] == "non_finite"]
        facts = {
            "schema": "tacit.reconstruct/1",
            "command": ["tacit", *arguments.words],
            "version": report.version(),
            "machine": report.machine(),
            "scan": scan.path,
            "angles": len(scan.angles),
            "detectors": scan.detectors,
            "centre": centre,
            "nonzeros": P.nnz,
            "storage": P.operator.storage,
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
        out.print(f"not reconstructed, as their numbers are not finite: slices {named}", soft_wrap=True)
    wrong = bool(world.all_max_real(float(len(spoilt))))
    return INTERRUPTED if interrupted else NOT_CONVERGED if wrong else OK


def _left(spent: float, done: int, now: int, state: Any, slices: int) -> float:
    """Seconds until this rank's slices are done, as it goes on."""
    share = (done + now * state.iteration / max(1, state.iterations)) / max(1, slices)
    return spent * (1 - share) / share if share > 0 else float("nan")


def show(facts: dict[str, Any], out: Any) -> None:
    seconds = facts["seconds"]
    rows, columns = facts["image_shape"]
    out.print(
        f"{facts['slices']} slices of {rows} x {columns} pixels from {facts['angles']} angles x {facts['detectors']}"
        f" bins,"
        f" axis at {facts['centre']:g}; {facts['nonzeros']:,} entries ({facts['storage']})",
        soft_wrap=True,
    )
    if facts["residual"]:
        out.print(
            f"{facts['method']}: {min(facts['iterations'])} to {max(facts['iterations'])} iterations, |b - A x|"
            f" {min(facts['residual']):.4g} to {max(facts['residual']):.4g}",
            soft_wrap=True,
        )
    out.print(
        f"read {seconds['read']:.2f} s, build {seconds['build']:.2f} s, solve {seconds['solve']:.2f} s;"
        f" {facts['peak_memory_bytes'] / 1e9:.2f} GB",
        soft_wrap=True,
    )
    for name in ("output", "preview"):
        if facts[name]:
            out.print(f"{name} {facts[name]}", soft_wrap=True)
    if facts["reason"] == "interrupted":
        out.print("interrupted: images are those of the moment", soft_wrap=True)


def _check(arguments: argparse.Namespace) -> None:
    raw = [arguments.sinogram, arguments.shape]
    if (arguments.file is None) == all(r is None for r in raw):
        raise WrongUse("either SCAN.h5 or --sinogram, --theta and --shape")
    if arguments.file is None and any(r is None for r in (*raw, arguments.theta)):
        raise WrongUse("--sinogram needs --theta and --shape beside it")
    for option in ("data", "white", "dark"):
        if arguments.file is None and getattr(arguments, option) is not None:
            raise WrongUse(f"--{option} is of SCAN.h5; --sinogram holds line integrals")
    files = [f for f in (arguments.file, arguments.sinogram, arguments.theta, arguments.start) if f]
    outputs = [f for f in (arguments.output, arguments.preview, arguments.json) if f and f != "-"]
    seen = {os.path.realpath(f) for f in files}
    for f in outputs:
        if os.path.realpath(f) in seen:
            raise WrongUse(f"{f} is named twice, or is an input")
        seen.add(os.path.realpath(f))
    if arguments.nonnegative and arguments.method != "sirt":
        raise WrongUse("--nonnegative is of sirt")
    if arguments.relaxation != 1.0 and arguments.method != "sirt":
        raise WrongUse("--relaxation is of sirt")
    if arguments.method != "cgls" and (arguments.no_reorthogonalisation or arguments.reorthogonalise != 1):
        raise WrongUse("--reorthogonalise and --no-reorthogonalisation are of cgls")
    if arguments.no_reorthogonalisation and arguments.reorthogonalise != 1:
        raise WrongUse("--reorthogonalise and --no-reorthogonalisation are given")
    if arguments.reorthogonalise < 0:
        raise WrongUse(f"--reorthogonalise {arguments.reorthogonalise}: 0 or more gradients are possible")
