"""`tacit scatter`: a plane wave scattered by closed bodies whose surface is a mesh of triangles."""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tacit import report
from tacit._described import HMATRIX, SOLVE
from tacit._progress import working
from tacit.cli import arguments as cli
from tacit.cli import surfaces
from tacit.cli.ranks import on_ranks

if TYPE_CHECKING:
    from rich.console import Console

TEXT = "scatter a plane wave by bodies whose surface is a mesh"


def add(a: cli.Arguments) -> None:
    a(
        "mesh MESH",
        "closed, normals outwards: .obj, .stl, .ply, .msh, .vtu, ..; or sphere:20, cube:20, ellipsoid:20,a=2",
    )
    a.section("problem")
    a("--wavenumber K", "2 pi over the wavelength, in 1 / the mesh's unit", cli.real(0, strictly=True))
    a("--incident X,Y,Z", "the direction that the wave travels in", surfaces.triple, [0.0, 0.0, 1.0])
    a.choice("--boundary", ("hard", "soft"), "hard: no derivative along the normal; soft: no field")
    a.choice("--elements", ("linear", "constant"), "of the density; constant ones for soft bodies")
    surfaces.add_mending(a, "turn neighbours alike and outwards")
    a.section("matrix")
    surfaces.add_matrix(a)
    surfaces.add_method(a, "gmres")
    a.section("where it runs")
    a.where()
    a.section("what it leaves")
    a.json()
    a(
        "--angles N",
        "the far field at N angles from the incident direction, 0 to 180 degrees, into the JSON",
        cli.whole(2),
    )
    a("--vtu FILE", "mesh and density", cli.destination(surfaces.VIEWS))
    a("--points FILE", "x y z in lines (.txt, .csv) or an array (.npy)")
    a("--at X,Y,Z", "the field here, into the JSON; may be said again", surfaces.triple, [], action="append")
    a("--output FILE", "with --points: x y z, real and imaginary part of the field",
      cli.destination(surfaces.TABLES))  # fmt: skip
    a("--section AXIS=VALUE", "a plane for --map, as y=0", surfaces.plane)
    a("--map FILE", "with --section: a picture of the field there", cli.destination(cli.PLOTS))


def run(arguments: argparse.Namespace) -> int:
    if arguments.wavenumber is None:
        raise cli.WrongUse("--wavenumber is needed: 2 pi over the wavelength")
    if (arguments.points is None) != (arguments.output is None):
        raise cli.WrongUse("--points and --output go together")
    surfaces.check(arguments)
    if not any(arguments.incident):
        raise cli.WrongUse("--incident 0,0,0 is no direction")
    cli.check_files(arguments, ("mesh", "points"), ("json", "vtu", "output", "map"))
    return on_ranks(arguments, _here)


def _here(a: argparse.Namespace, comm: Any, out: Console) -> int:
    import numpy as np

    from tacit import _support
    from tacit.app import bem

    notes: list[str] = []
    begin = time.perf_counter()
    mesh = _support.agreed(comm, lambda: _closed_mesh(a, notes))
    points = _support.agreed(comm, lambda: surfaces.points_in(a.points))
    mesh_seconds = comm.all_max_real(time.perf_counter() - begin)
    how: dict[str, Any] = {**cli.given(a, HMATRIX), "threads": a.threads, "comm": comm}
    how |= {name: getattr(a, name) for name in ("incident", "boundary", "elements", "method", "precond")}
    with working("scattering", out, comm.rank == 0), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the same sentences are among the facts
        solving: Any = cli.given(a, SOLVE, surfaces.SOLVING)
        wave = bem.scatter(mesh, a.wavenumber, solve=solving, **how)
    facts = _facts(a, wave) | {"notes": notes}
    facts["seconds"]["mesh"] = mesh_seconds
    if a.at:
        facts["at"] = [
            {"point": p, "real": u.real, "imaginary": u.imag} for p, u in zip(a.at, wave.field_at(a.at), strict=True)
        ]
    if points is not None:
        field = wave.field_at(points)
        if comm.rank == 0:
            surfaces.write_table(a.output, np.column_stack([points, field.real, field.imag]))
    section = wave.section(a.section) if a.map else None
    if comm.rank == 0:
        if a.vtu:
            wave.write(a.vtu)
        if section is not None:
            section.plot(a.map)
        if a.json:
            report.write_json(facts, a.json)
        surfaces.show(_rows(facts), facts, (a.vtu, a.output, a.map), out)
    return cli.OK if facts["converged"] else cli.NOT_CONVERGED


def _closed_mesh(a: argparse.Namespace, notes: list[str]) -> Any:
    """The mesh of the arguments; InputError where it is open, or its normals do not point outwards."""
    from tacit._core import InputError
    from tacit.app.boundary import closed

    mesh = surfaces.mesh_of(a, notes)
    try:
        closed(mesh, "scattering")
    except ValueError as error:
        raise InputError(f"{a.mesh}: {error}") from None
    return mesh


def _facts(a: argparse.Namespace, wave: Any) -> dict[str, Any]:
    """The document of the command. Collective."""
    found = report.header("tacit.scatter/1", a.words) | {
        "mesh": a.mesh,
        "surface": wave.mesh.surface,
        "triangles": len(wave.mesh),
        "unknowns": len(wave.elements),
        "wavenumber": wave.wavenumber,
        "incident": wave.incident,
        "boundary": wave.boundary,
        "elements": wave.elements.kind,
        "elements_per_wavelength": wave.elements_per_wavelength,
        "cross_section": wave.cross_section,
        "ranks": wave.comm.size,
        "threads": wave.threads,
        "seconds": {"assembly": wave.seconds["setup"], "solve": wave.seconds["solve"]},
        "tolerance": wave.operator.A.tolerance,
        **surfaces.facts_of(wave.operator.A.report, wave),
    }
    if a.angles:
        found["far_field"] = _pattern(wave, a.angles)
    return found


def _pattern(wave: Any, count: int) -> list[dict[str, float]]:
    """The far field in a half circle from forwards to backwards. Collective."""
    import numpy as np

    d = wave.incident
    across = np.cross(d, np.eye(3)[np.argmin(np.abs(d))])
    across = across / np.linalg.norm(across)
    angles = np.linspace(0.0, math.pi, count)
    values = wave.far_field(np.cos(angles)[:, None] * d + np.sin(angles)[:, None] * across)
    return [
        {"degrees": math.degrees(t), "real": f.real, "imaginary": f.imag, "magnitude": abs(f)}
        for t, f in zip(angles, values, strict=True)
    ]


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is printed, by name."""
    d = ", ".join(f"{c:.4g}" for c in facts["incident"])
    yield (
        "mesh",
        f"{facts['mesh']}: {report.count(facts['triangles'])} triangles, {report.count(facts['unknowns'])} unknowns",
    )
    yield (
        "wave",
        (
            f"k = {facts['wavenumber']:g} along ({d}), {facts['boundary']} boundary,"
            f" {facts['elements_per_wavelength']:.1f} edges in a wavelength"
        ),
    )
    yield surfaces.matrix_row(facts)
    yield surfaces.result_row(facts)
    yield surfaces.residual_row(facts)
    yield "scattered", f"{facts['cross_section']:.7g} square units of the incident wave's power"
    for at in facts.get("at", ()):
        place = ", ".join(f"{c:g}" for c in at["point"])
        yield f"at {place}", f"{at['real']:.7g} {'+' if at['imaginary'] >= 0 else '-'} {abs(at['imaginary']):.7g} i"
    mesh, assembly, solve = (report.seconds(facts["seconds"][name]) for name in ("mesh", "assembly", "solve"))
    yield "time", f"mesh {mesh}, assembly {assembly}, solve {solve}"
