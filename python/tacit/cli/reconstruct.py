"""`tacit reconstruct`: images from the sinograms of a scan by a parallel, fan or cone beam."""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import replace
from typing import Any

from tacit import report
from tacit._described import TILED
from tacit._progress import working
from tacit.app.methods import NAMES, OPTIONS
from tacit.cli import arguments as cli
from tacit.cli.ranks import on_ranks

TEXT = "images from the sinograms of a scan by a parallel, fan or cone beam"
IMAGES = (".tif", ".tiff", ".h5", ".hdf5", ".npy", ".zarr", ".png")  # app/volumes.py, which a test compares
BITS = ("8", "16", "32")
DEAD = ("interpolate", "none")
RINGS = ("offset", "none", "sorting", "filtering", "wavelet", "all")  # app/rings.py, which a test compares
NOISE = ("counts", "none")
NOISE_TEXT = (
    "counts: iterations end at the noise of the counts, by their white and dark frames, and tikhonov and tv weigh by it"
    "; none; not with discrepancy, tolerance or l-curve [counts]"
)
FILTERS = ("shepp-logan", "ramp", "cosine", "hamming", "hann")  # app/filtering.py, likewise
RINGS_TEXT = "offset: of each bin; none; of algotom: sorting, filtering, wavelet, all [offset]"
# The options of the projector, whose `columns` is the batch.
PROJECTOR = [name for name, option in TILED.items() if "projector" in option.takers and name != "columns"]

_N = r"([1-9]\d*)"
sizes = cli.matching(rf"{_N}(?:,{_N})?", "N or ROWS,COLUMNS", lambda m, n: int(m) if n is None else (int(m), int(n)))
pair = cli.matching(f"{_N},{_N}", "ANGLES,DETECTORS", lambda m, n: (int(m), int(n)))
grid = cli.matching(f"{_N}x{_N}", "DATAxBATCH like 4x3", lambda m, n: (int(m), int(n)))
span = cli.matching(
    r"(\d+)(?:(:)(\d*))?",
    "FIRST:END or one number",
    lambda first, colon, end: (int(first), int(first) + 1 if not colon else int(end) if end else None),
)


def level(strictly: bool) -> Any:
    """The type of a level of counts, or of files of frames."""

    def check(text: str) -> float | str:
        try:
            float(text)
        except ValueError:
            return text
        return float(cli.real(0, strictly)(text))

    return check


def ends(text: str) -> tuple[float, float]:
    """The ends of a range of values."""
    try:
        low, high = map(float, text.split(","))
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected LOW,HIGH in ascending order, found "{text}"') from None
    return low, high


def zingers(text: str) -> float:
    return 0.0 if text == "none" else float(cli.real(0, True)(text))


def phase(text: str) -> Any:
    """Paganin's numbers, PIXEL,DISTANCE,ENERGY,RATIO; None for "none"."""
    from tacit.app.phase import Paganin

    if text == "none":
        return None
    try:
        pixel, distance, energy, ratio = map(float, text.split(","))
        return Paganin(pixel, distance, energy, ratio)
    except ValueError as error:
        why = str(error) if str(error).startswith("phase") else "expected none or four numbers"
        raise argparse.ArgumentTypeError(
            f'{why}: PIXEL (micrometres), DISTANCE (millimetres), ENERGY (keV), delta/beta, found "{text}"'
        ) from None


def pitch(text: str) -> tuple[float, float]:
    """Height and width of a detector's pixel."""
    parts = text.split(",")
    if len(parts) > 2:
        raise argparse.ArgumentTypeError(f'expected P or HEIGHT,WIDTH, found "{text}"')
    high, wide = (float(cli.real(0, True)(part)) for part in (parts[0], parts[-1]))
    return high, wide


def number(text: str) -> float:
    try:
        if math.isfinite(float(text)):
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'expected a number, found "{text}"')


def pad(text: str) -> int | str:
    return text if text == "auto" else 0 if text == "none" else cli.whole(0)(text)


def axis(text: str) -> str:
    if text != "auto":
        try:
            if not math.isfinite(float(text)):
                raise ValueError
        except ValueError:
            raise argparse.ArgumentTypeError(f'expected a number of bins or auto, found "{text}"') from None
    return text


def add(a: cli.Arguments) -> None:
    a("file SCAN", "HDF5 of Data Exchange (/exchange/data) or NXtomo, 'PROJECTIONS_*.tif' or their folder", nargs="?")
    a("--sinogram FILE", "instead: raw float32 [slice][angle][detector], line integrals")
    a("--shape ANGLES,DETECTORS", "of that sinogram", pair)
    a("--theta FILE", "with it, or in place of the angles of SCAN: raw float32, radians; .txt, .csv: degrees")
    a("--data NAME", "the numbers of SCAN are counts, transmission or line-integrals [counts]")
    a("--white LEVEL|FILES", "counts without the sample, in place of white frames; 'WHITE_*.tif' for TIFF", level(True))
    a("--dark LEVEL|FILES", "counts without the beam, likewise", level(False))
    a("--slices FIRST:END", "[all]", span)
    a("--centre BINS|auto", "of rotation, from the detector's left edge [the middle]", axis)
    a("--image N|ROWS,COLUMNS", "pixels [as many as bins; half acquisition: those seen]", sizes)
    a("--pad N|auto|none", "pixels computed on each side of the image [auto: where the sample is cut off]", pad)
    a("--stitch", "join opposite projections of half acquisition, as for fbp")
    a("--pixel BINS", "side of a pixel", cli.real(0, True), 1.0)
    a.section("fan and cone beams (lengths in one unit, such as mm; with these options no parallel beam)")
    a("--source-distance S", "from the source to the axis of rotation", cli.real(0, True))
    a("--detector-distance D", "from the axis to the flat detector", cli.real(0))
    a("--detector-pixel P|HEIGHT,WIDTH", "of the detector, from middle to middle", pitch)
    a("--fan", "each row is a scan of its own; without it a cone beam, and one volume")
    a("--centre-row ROWS", "where the source's plane meets the detector, from its first edge [the middle]", number)
    a("--reverse", "the sample turns the other way: edges are double everywhere otherwise")
    a.section("preparation (of counts and transmissions; line integrals are taken as they are unless one is given)")
    a(
        "--zingers X|none",
        "replace values so many standard deviations above their neighbours [8; fan and cone beams: none]",
        zingers,
        known=("none",),
    )
    a("--dead NAME", "interpolate dead bins and gaps, or none [interpolate]", cli.one_of("dead", DEAD), known=DEAD)
    a("--phase PIXEL,DISTANCE,ENERGY,RATIO", "Paganin's filter: um, mm, keV, delta/beta [none]", phase)
    a("--rings NAME", RINGS_TEXT, cli.one_of("rings", RINGS), known=RINGS)
    a("--ring-width BINS", "bins to smooth across [21]", cli.whole(3))
    a.section("method")
    a.choice("--method", (*NAMES, "fbp"))
    a("--filter NAME", f"fbp: window of the ramp: {', '.join(FILTERS)} [{FILTERS[0]}]", cli.one_of("filter", FILTERS))
    a.options(OPTIONS)
    a("--noise NAME", NOISE_TEXT, cli.one_of("noise", NOISE), known=NOISE)
    a("--no-reorthogonalisation", "cgls as it stands: one image less in memory, or five images")
    a("--start FILE.npy", "images to start from")
    a.section("where and how it runs")
    a.options(TILED, PROJECTOR, takers=False)
    a.choice("--scalar", ("float32", "float64"))
    a("--batch K", "slices worked on together; twice as many in memory", cli.whole(1), 32)
    a.where()
    a.device()
    a("--grid DATAxBATCH", "ranks that share an image x groups that share the slices [Nx1]", grid)
    a.section("what it leaves")
    a("--output FILE", f"images: {', '.join(IMAGES)}", cli.destination(IMAGES))
    a("--bits N", f".tif: of a value, {', '.join(BITS)} (as it is) [32]", cli.one_of("bits", BITS), known=BITS)
    a(
        "--range LOW,HIGH",
        "8 or 16 bits: the values that 0 and the largest number stand for [of the first slices]",
        ends,
    )
    a("--preview FILE.png", "the middle slice as a picture", cli.destination((".png",)))
    a("--report FILE.html", "a page: slices, the axis, sinograms, what was done", cli.destination((".html",)))
    a("--monitor", "print progress (a terminal always shows it)")
    a.json()


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


def _scan(a: argparse.Namespace) -> Any:
    from tacit.app import scans
    from tacit.app.nexus import open_scan
    from tacit.app.preparation import AS_GIVEN, Preparation

    if a.file is None:
        return scans.Raw(a.sinogram, a.theta, a.shape, preparation=_preparation(a, AS_GIVEN))
    kind = a.data or "counts"
    usual = AS_GIVEN if kind == "line-integrals" else Preparation()
    if a.source_distance is not None:
        usual = replace(usual, zingers=0.0)  # edges move far between views, and would be taken for zingers
    made = _preparation(a, usual)
    return open_scan(a.file, data=kind, white=a.white, dark=a.dark, theta=a.theta, preparation=made)


def _preparation(a: argparse.Namespace, usual: Any) -> Any:
    """What is done to the numbers: the options given, for others those of `usual`."""
    names = ("zingers", "dead", "phase", "rings", "ring_width")
    return replace(usual, **{name: getattr(a, name) for name in names if getattr(a, name) is not None})


def _here(a: argparse.Namespace, world: Any, out: Any) -> int:
    """The reconstruction itself, on every rank of `world`. Only the first prints and writes."""
    from tacit.app import reconstruction
    from tacit.app.methods import checked
    from tacit.app.volumes import Scale
    from tacit.plot import scan as scan_page

    options: dict[str, Any] = cli.given(a, OPTIONS)
    if a.no_reorthogonalisation:
        options["reorthogonalise"] = 0
    if a.method == "fbp":
        options = {} if a.filter is None else {"filter": a.filter}
    else:
        checked(a.method, options)
    grid = reconstruction.Grid(world, a.grid)
    begin = time.perf_counter()
    scan = _scan(a)
    job = _job(a, scan, grid)
    job.scale = Scale(int(a.bits or 32), a.range, "detector bin" if a.source_distance is None else "unit of length")
    doubts = len(scan.assumed)
    for text in scan.assumed:
        out.print(f"warning: {text}", style="yellow")
    job.seconds["read"] = time.perf_counter() - begin
    making = {name: getattr(a, name) for name in ("image", "pixel", "threads", "device")} | {"dtype": a.scalar}
    with working("building the projector", out, world.rank == 0):
        job.build(
            a.batch, pad=None if a.pad == "auto" else a.pad, method=a.method, **making, **cli.given(a, TILED, PROJECTOR)
        )
    for text in scan.assumed[doubts:]:
        out.print(f"warning: {text}", style="yellow")
    doubts = len(scan.assumed)
    views = job.views() if a.report else None
    line = Line((bool(a.monitor) or sys.stderr.isatty()) and world.rank == 0, job.count)
    try:
        more = options if a.method == "fbp" else options | {"threads": a.threads}
        job.run([a.output, a.preview], line, views, _ends_by_noise(a), method=a.method, **more)
    finally:
        line.end()
    spoilt = job.spoilt
    if world.rank == 0:
        for text in scan.assumed[doubts:]:
            out.print(f"warning: {text}", style="yellow")
        given_files = {"method": a.method, "output": a.output, "preview": a.preview, "report": a.report}
        facts = report.header("tacit.reconstruct/1", a.words) | job.facts() | given_files
        facts["advice"] = job.advice(a.method)
        if a.noise == "counts" and not job.noise_shares:
            facts["advice"].append(
                "--noise counts: this scan does not tell the noise of its counts, which takes two white frames or more,"
                " so that iterations have not ended by it"
            )
        if views is not None:
            views.finish(job.scan, job.axis, job.field, a.pixel)
            scan_page.write_page(a.report, facts, views)
        if a.json:
            report.write_json(facts, a.json)
        show(facts, out)
    if spoilt:
        named = ", ".join(map(str, spoilt[:8])) + (", .." if len(spoilt) > 8 else "")
        out.print(f"not reconstructed, as their numbers are not finite: slices {named}")
    wrong = bool(world.all_max_real(float(len(spoilt))))
    return cli.INTERRUPTED if job.interrupted else cli.NOT_CONVERGED if wrong else cli.OK


def _job(a: argparse.Namespace, scan: Any, grid: Any) -> Any:
    """The reconstruction of a scan by the beam that the options name."""
    from tacit.app import beam_scans, reconstruction

    if a.source_distance is None:
        stitched = a.stitch or a.method == "fbp"
        return reconstruction.ScanReconstruction(scan, grid, a.slices, a.centre, a.start, stitched)
    distances = a.source_distance, a.detector_distance
    beam = beam_scans.Beam(*distances, a.detector_pixel, bool(a.fan), a.centre_row, bool(a.reverse))
    return beam_scans.BeamReconstruction(scan, grid, beam, a.slices, a.centre, a.start)


def _axis_text(facts: dict[str, Any]) -> str:
    if facts["centre_method"] is None:
        return f"{facts['centre']:g}"
    return f"{facts['centre']:.2f} +- {facts['centre_uncertainty']:.2g} (by {facts['centre_method']})"


def show(facts: dict[str, Any], out: Any) -> None:
    seconds = facts["seconds"]
    rows, columns = facts["image_shape"]
    place = "" if facts["device"] == "host" else f" on {facts['device']}"
    scan = f"{facts['angles']} angles x {' x '.join(map(str, facts['detector_shape']))} bins"
    out.print(
        f"{facts['slices']} slices of {rows} x {columns} pixels from {scan},"
        f" axis at {_axis_text(facts)}; {facts['nonzeros']:,} entries ({facts['storage']}{place})"
    )
    for text in facts["prepared"]:
        out.print(f"prepared: {text}")
    if facts["residual"]:
        out.print(
            f"{facts['method']}: {min(facts['iterations'])} to {max(facts['iterations'])} iterations, |b - A x|"
            f" {min(facts['residual']):.4g} to {max(facts['residual']):.4g}"
        )
    out.print(
        f"read {seconds['read']:.2f} s, build {seconds['build']:.2f} s, solve {seconds['solve']:.2f} s;"
        f" {facts['peak_memory_bytes'] / 1e9:.2f} GB"
    )
    if facts["scale"]["range"] is not None and facts["output"]:
        low, high = facts["scale"]["range"]
        out.print(
            f"{facts['scale']['bits']} bits: 0 to {2 ** facts['scale']['bits'] - 1} are {low:.6g} to {high:.6g};"
            f" {facts['scale']['outside']:.2%} of the values are outside"
        )
    for text in facts["advice"]:
        out.print(f"advice: {text}")
    for name in ("output", "preview", "report"):
        if facts[name]:
            out.print(f"{name} {facts[name]}")
    if facts["reason"] == "interrupted":
        out.print("interrupted: images are those of the moment")


def _ends_by_noise(a: argparse.Namespace) -> bool:
    """Whether the noise of the counts is to be used: unless it is not wanted, or slices end by another rule."""
    return a.noise != "none" and not (a.discrepancy or a.tolerance or a.l_curve)


def _check_method(arguments: argparse.Namespace) -> None:
    if arguments.method != "fbp":
        if arguments.filter is not None:
            raise cli.WrongUse(f"--filter is of --method fbp, and the method is {arguments.method}")
        return
    given = [name for name in (*OPTIONS, "noise", "start") if getattr(arguments, name) is not None]
    given += ["no_reorthogonalisation"] if arguments.no_reorthogonalisation else []
    if given:
        raise cli.WrongUse(f"--{given[0].replace('_', '-')} is of iterations, and --method fbp has none")


def _check_output(arguments: argparse.Namespace) -> None:
    if arguments.bits in ("8", "16") and not (arguments.output or "").endswith((".tif", ".tiff")):
        raise cli.WrongUse(f"--bits {arguments.bits} is of --output FILE.tif")
    if arguments.range is not None and arguments.bits not in ("8", "16"):
        raise cli.WrongUse("--range is of --bits 8 or 16; with 32 values stay as they are")


def _check_beam(a: argparse.Namespace) -> None:
    needed = ("source_distance", "detector_distance", "detector_pixel")
    missing = [name for name in needed if getattr(a, name) is None]
    given = [name for name in (*needed, "fan", "centre_row", "reverse") if getattr(a, name) not in (None, False)]
    if not given:
        return
    if missing:
        raise cli.WrongUse(f"--{_dashes(given[0])} needs --{' and --'.join(map(_dashes, missing))} beside it")
    parallel = ["stitch", "pad", "phase", "report", *(n for n in PROJECTOR if n not in ("groups", "minibatch"))]
    parallel += [] if a.fan else ["slices"]
    wrong = [name for name in parallel if getattr(a, name) not in (None, False)]
    if wrong:
        kind = "fan" if a.fan else "cone"
        raise cli.WrongUse(f"--{_dashes(wrong[0])} is of a parallel beam, and --source-distance says {kind} beam")
    if a.centre == "auto":
        raise cli.WrongUse("--centre auto is of a parallel beam; of a fan or cone beam give the axis in bins")
    if a.fan and a.centre_row is not None:
        raise cli.WrongUse("--centre-row is of a cone beam, and --fan is given")
    if a.device not in (None, "host"):
        raise cli.WrongUse(f"--device {a.device} is of a parallel beam; fan and cone beams are computed on the host")
    if not a.fan and a.grid is not None and a.grid[1] > 1:
        raise cli.WrongUse(f"--grid {a.grid[0]}x{a.grid[1]} shares slices, and a cone beam has one volume: Nx1")


def _dashes(name: str) -> str:
    return name.replace("_", "-")


def _check(arguments: argparse.Namespace) -> None:
    _check_method(arguments)
    _check_beam(arguments)
    rules = [name for name in ("discrepancy", "tolerance", "l_curve") if getattr(arguments, name)]
    if arguments.noise == "counts" and rules:
        raise cli.WrongUse(f"--noise counts and --{rules[0].replace('_', '-')} are given: each ends a slice")
    _check_output(arguments)
    raw = [arguments.sinogram, arguments.shape]
    if (arguments.file is None) == all(r is None for r in raw):
        raise cli.WrongUse("either SCAN or --sinogram, --theta and --shape")
    if arguments.file is None and any(r is None for r in (*raw, arguments.theta)):
        raise cli.WrongUse("--sinogram needs --theta and --shape beside it")
    if arguments.noise == "counts" and (arguments.file is None or arguments.data in ("transmission", "line-integrals")):
        raise cli.WrongUse("--noise counts is of scans of counts; these are line integrals or transmissions")
    for option in ("data", "white", "dark"):
        if arguments.file is None and getattr(arguments, option) is not None:
            raise cli.WrongUse(f"--{option} is of SCAN; --sinogram holds line integrals")
    cli.check_files(arguments, ("file", "sinogram", "theta", "start"), ("output", "preview", "report", "json"))
    if arguments.no_reorthogonalisation and arguments.reorthogonalise is not None:
        raise cli.WrongUse("--reorthogonalise and --no-reorthogonalisation are given")
