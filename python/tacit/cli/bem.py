"""`tacit bem`: charges on conductors whose surface is a mesh of triangles."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tacit import report
from tacit._described import BEM, DEVICE_PRODUCT, HMATRIX, SOLVE
from tacit._progress import working
from tacit.cli import arguments as cli
from tacit.cli import simulated_solve, surfaces
from tacit.cli.ranks import on_ranks

if TYPE_CHECKING:
    from rich.console import Console

TEXT = "find the charges on conductors whose surface is a mesh"


def _pairs(text: str, expected: str) -> Iterator[tuple[str, str]]:
    """The names and values of NAME=VALUE,.., each name once."""
    seen = set[str]()
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        if not equals or not name:
            raise argparse.ArgumentTypeError(f'expected {expected}, found "{text}"')
        if name in seen:
            raise argparse.ArgumentTypeError(f'"{name}" is there twice in "{text}"; give one')
        seen.add(name)
        yield name, value


def _values(text: str, counts: tuple[int, ...], separator: str, expected: str, whole: str) -> list[float]:
    """So many finite numbers."""
    try:
        found = [float(part) for part in text.split(separator)]
    except ValueError:
        found = []
    if len(found) not in counts or not all(map(math.isfinite, found)):
        raise argparse.ArgumentTypeError(f'expected {expected}, found "{whole}"')
    return found


def by_name(text: str) -> Any:
    """Numbers, or a dict of those that are given by name: plate=5,ring=0."""
    expected = "numbers like 1,-1 or all by name like plate=5"
    if "=" not in text:
        return _values(text, (text.count(",") + 1,), ",", expected, text)
    return {name: _values(value, (1,), ",", expected, text)[0] for name, value in _pairs(text, expected)}


def only_by_name(text: str) -> dict[str, float]:
    expected = "numbers by name like core=3.9"
    return {name: _values(value, (1,), ",", expected, text)[0] for name, value in _pairs(text, expected)}


def dielectrics(text: str) -> dict[str, Any]:
    """Permittivities by name, inside or inside:outside."""
    expected, found = "NAME=IN or NAME=IN:OUT, like coat=3.9 or coat=3.9:1", dict[str, Any]()
    for name, value in _pairs(text, expected):
        values = _values(value, (1, 2), ":", expected, text)
        found[name] = values[0] if len(values) == 1 else tuple(values)
    return found


def joined(text: str) -> dict[str, list[str]]:
    """Names of conductors, and the groups that each is made of."""
    found: dict[str, list[str]] = {}
    for part in text.split(","):
        name, equals, groups = part.partition("=")
        if name in found:
            raise argparse.ArgumentTypeError(f'"{name}" is there twice in "{text}"; give one')
        found[name] = groups.split("+")
        if not equals or not name or "" in found[name]:
            raise argparse.ArgumentTypeError(f'expected conductors like plate=above+below, found "{text}"')
    return found


def unit(text: str) -> Any:
    from tacit.app.capacitance import UNITS, metres_of

    try:
        return metres_of(text if text in UNITS or not text[:1].isdigit() else float(text)) and text
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def straight(text: str) -> tuple[list[float], list[float], int]:
    """Two points, and the number of points on the line between them."""
    ends, count = [surfaces.triple(part) for part in text.split(":")[:2]], text.split(":")[2:] or ["101"]
    if len(ends) != 2 or len(count) != 1:
        raise argparse.ArgumentTypeError(f'expected a line like 0,0,1:0,0,5 or 0,0,1:0,0,5:50, found "{text}"')
    return ends[0], ends[1], cli.whole(2)(count[0])


grid = cli.matching(r"([1-9]\d*)x([1-9]\d*)", "copies like 2x2", lambda m, n: (int(m), int(n)))
free = cli.matching(
    r"([^,]+(?:,[^,]+)*)",
    "names or numbers of conductors like 0,2, or all",
    lambda text: text == "all" or text.split(","),
)


def _add_problem(a: cli.Arguments) -> None:
    a(
        "mesh MESH",
        "triangles: .pbf, .obj, .stl, .ply, .msh, .vtu, ..; or sphere:20, sphere-pair:20, cube:20,grading=2,"
        " ellipsoid:20,a=2, ring-sphere:13,20",
    )
    a.section("problem (in brackets: what is taken when nothing is said)")
    a("--potential V[,V..]|NAME=V,..", "of all conductors, of each, or of those named and 0 of others [the file's, else"
      " 1; 0 in a --field]", by_name)  # fmt: skip
    a("--floating N,N|all", "held at no potential; numbers or names", free, False)
    a("--charge Q[,Q..]|NAME=Q,..", "of those that float, in C [0]", by_name)
    a("--unit NAME", "the mesh's, for coulombs and farads: m, cm, mm, um, nm, in, mil, or the metres in it", unit, "m")
    a("--permittivity X", "relative, of the medium around everything [the file's, else 1]", cli.real(0, strictly=True))
    a("--media NAME=X,..", "that of the medium around conductors of these names [IN of a closed --dielectric around"
      " them, else --permittivity]", only_by_name, {})  # fmt: skip
    a("--join NAME=A+B,..", "groups that are one conductor, as its parts in different media", joined, {})
    a("--dielectric NAME=IN[:OUT],..", "these surfaces are interfaces, with this permittivity inside and outside",
      dielectrics, {})  # fmt: skip
    a("--field X,Y,Z", "uniform, from outside [none]", surfaces.triple, [0.0, 0.0, 0.0])
    a("--plane AXIS=VALUE", "grounded, as z=0, all triangles on one side [none]", surfaces.plane)
    a("--mirror AXIS=VALUE", "a plane of symmetry, as x=0, all triangles on one side; may be said again",
      surfaces.plane, [], action="append")  # fmt: skip
    a("--copies NxN", "of the mesh, on a grid across --up", grid)
    a("--gap D", "between the boxes of copies [a tenth of the longer side]", cli.real(0))
    a.choice("--up", ("z", "y", "x"), "of copies and of the plot", what="axis")
    a("--conductors NAME|FILE", "auto (named groups of the file, else components), components, one, cell data of the"
      " mesh (gmsh:physical), or numbers in a .txt or .npy", None, "auto")  # fmt: skip
    surfaces.add_mending(a, "turn neighbours alike")


def add(a: cli.Arguments) -> None:
    _add_problem(a)
    a.section("matrix")
    a.options(BEM)
    surfaces.add_matrix(a)
    a.choice("--scalar", ("float64", "float32"))
    surfaces.add_method(a, "bicgstab")
    a("--capacitance", "the capacitance matrix in farads, one solve a conductor")
    a("--settle X", "the capacitance matrix, on finer and finer meshes until it has this error by estimate",
      cli.real(0, strictly=True))  # fmt: skip
    a("--most-triangles N", "of --settle [50000]", cli.whole(4))
    a.section("where it runs")
    a.where()
    a.device(
        "host; cuda: each rank's GPU assembles the matrix and has it in the solve, by bicgstab or pipelined-bicgstab,"
        " with jacobi or none; cuda:N: that GPU; cuda:N,N: these together. --assembly cuda alone: assembled on the"
        " GPU, solved on the host",
        several=True,
    )
    a.options(DEVICE_PRODUCT)
    simulated_solve.add(a)
    a.section("what it leaves")
    a.json()
    a("--vtu FILE", "mesh and charge density", cli.destination(surfaces.VIEWS))
    a.plot("two views of the charge density")
    a("--forces", "the force on each conductor, in newtons")
    a("--points FILE", "x y z in lines (.txt, .csv) or an array (.npy)")
    a("--line X,Y,Z:X,Y,Z[:N]", "N points on a line, in place of --points [101]", straight)
    a("--at X,Y,Z", "potential and field here, into the JSON; may be said again", surfaces.triple, [], action="append")
    a("--output FILE", "with --points or --line: x y z, potential and field", cli.destination(surfaces.TABLES))
    a("--section AXIS=VALUE", "a plane for --map, as x=0", surfaces.plane)
    a("--map FILE", "with --section: the potential there as a picture, or with the field as a grid",
      cli.destination((*cli.PLOTS, *surfaces.VIEWS[:2])))  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    if arguments.points and arguments.line:
        raise cli.WrongUse("--points and --line exclude each other")
    if (arguments.points is None and arguments.line is None) != (arguments.output is None):
        raise cli.WrongUse("--points or --line, and --output go together")
    surfaces.check(arguments)
    if arguments.charge is not None and not arguments.floating:
        raise cli.WrongUse("--charge is of --floating")
    if arguments.settle and arguments.settle >= 1:
        raise cli.WrongUse("--settle is a relative error, below 1")
    if arguments.most_triangles is not None and not arguments.settle:
        raise cli.WrongUse("--most-triangles is of --settle")
    if arguments.gap is not None and not arguments.copies:
        raise cli.WrongUse("--gap is of --copies")
    _check_simulated(arguments)
    there = cli.given(arguments, DEVICE_PRODUCT)
    if arguments.device == "host" and there:
        raise cli.WrongUse(f"--{next(iter(there))} is for --device cuda")
    cli.check_files(arguments, ("mesh", "points"), ("json", "vtu", "plot", "output", "map"))
    return on_ranks(arguments, _here)


def _check_simulated(a: argparse.Namespace) -> None:
    if a.simulate is None:
        simulated_solve.check_machine(a)
        return
    given = {"ranks": a.ranks not in (None, 1), "device": a.device != "host", "capacitance": a.capacitance,
             "settle": a.settle is not None}  # fmt: skip
    for name, there in given.items():
        if there:
            raise cli.WrongUse(f"--{name} is for real ranks, and --simulate is there")


def _conductors(a: argparse.Namespace, mesh: Any) -> Any:
    import numpy as np

    from tacit._core import InputError
    from tacit._files import read_numbers

    if (
        a.conductors in ("auto", "components", "one")
        or a.conductors in mesh.cell_data
        or not os.path.exists(a.conductors)
    ):
        return a.conductors
    found = read_numbers(a.conductors, "numbers of conductors, whole", np.int64)
    if found.size != len(mesh) or min(found.shape) > 1:
        raise InputError(f"{a.conductors}: {found.size} numbers for {len(mesh)} triangles")
    return found.reshape(-1)


def _check_conductors(a: argparse.Namespace, mesh: Any, conductors: Any) -> None:
    """WrongUse for options on conductors where all triangles are interfaces between dielectrics."""
    from tacit.app.conductors import conductors_of, place_of

    words = {name: getattr(a, name) for name in ("floating", "charge", "capacitance", "settle", "forces")}
    asked = [f"--{name}" for name, value in words.items() if value] + ["--potential"] * (a.potential is not None)
    if asked:
        number, names = conductors_of(conductors, mesh)
        left = set(number[number >= 0].tolist()) - {place_of(name, names, "dielectric") for name in a.dielectric}
        if not left:
            raise cli.WrongUse(
                f"{asked[0]} is of conductors, and all triangles are interfaces between dielectrics; leave it out"
            )


def _other_matrix(discretisation: str, charges: Any) -> str:
    """Further advice if cg has failed on the collocation matrix, which is not symmetric."""
    if charges.converged or discretisation != "collocation" or not charges.method.endswith("cg"):
        return ""
    return " --discretisation galerkin gives a symmetric matrix."


def _here(a: argparse.Namespace, comm: Any, out: Console) -> int:
    import numpy as np

    from tacit import _support, krylov
    from tacit.app import bem

    notes: list[str] = []
    if a.device != "host":
        cure = "--assembly cuda without --device assembles on the GPU, and the host solves"
        krylov.method_on_gpus(a.method, a.precond, cure)
    begin = time.perf_counter()
    mesh = _support.agreed(comm, lambda: surfaces.mesh_of(a, notes))
    conductors = _support.agreed(comm, lambda: _conductors(a, mesh))
    _support.agreed(comm, lambda: _check_conductors(a, mesh, conductors))
    points = _support.agreed(comm, lambda: bem.line(*a.line) if a.line else surfaces.points_in(a.points))
    mesh_seconds = comm.all_max_real(time.perf_counter() - begin)
    how = {"method": a.method, "precond": a.precond, **cli.given(a, SOLVE, surfaces.SOLVING)}
    with working("refining" if a.settle else "assembling", out, comm.rank == 0):
        system, settled = _system(a, mesh, conductors, comm, how)
    how = {"rtol": system.default_rtol} | how
    notes += system.notes
    potential: Any = a.potential
    if potential is None:
        potential = system.mesh.cell_data.get("potential", 0.0 if any(a.field) else 1.0)
    given: dict[str, Any] = {"net_charge": _net_charge(a, system), "floating": a.floating, "field": a.field}
    made: list[Any] = []
    with working("solving", out, comm.rank == 0):
        if a.simulate:
            there = {"ranks": a.simulate, "machine": a.machine or "modern"}
            charges, made = system.simulate(potential, **there, **given, **how)
        else:
            charges = system.solve(potential, **given, **how)
    facts = _facts(a, system, charges) | {"notes": notes, "rtol": how["rtol"]}
    facts["simulated"] = [simulated_solve.document(one) for one in made] or None
    facts["seconds"]["mesh"] = mesh_seconds
    if settled is not None:
        facts |= _of_settled(settled)
    elif a.capacitance:
        _add_capacitance(facts, system, charges, bool(a.floating), how)
    _add_fields(facts, a, charges)
    if points is not None:
        table = np.column_stack([points, charges.potential_at(points), charges.field_at(points)])
        if comm.rank == 0:
            surfaces.write_table(a.output, table)
    if a.map:
        _write_map(a, charges)
    if comm.rank == 0:
        if a.vtu:
            charges.write(a.vtu)
        if a.plot:
            charges.plot(a.plot, a.up)
        if a.json:
            report.write_json(facts, a.json)
        surfaces.show(_rows(facts), facts, (a.vtu, a.plot, a.output, a.map), out)
        for one in made:
            out.print(one.summary())
    return cli.OK if facts["converged"] else cli.NOT_CONVERGED


def _system(a: argparse.Namespace, mesh: Any, conductors: Any, comm: Any, how: dict[str, Any]) -> tuple[Any, Any]:
    """The system, with --settle that of the last mesh, and then how that was found. Collective."""
    from tacit.app import bem

    options = {**cli.given(a, BEM), **cli.given(a, HMATRIX), **cli.given(a, DEVICE_PRODUCT)}
    options |= {name: getattr(a, name) for name in ("plane", "mirror", "scalar", "device", "threads")}
    options |= {"permittivity": a.permittivity, "media": a.media, "dielectrics": a.dielectric, "join": a.join}
    options |= {"unit": a.unit if a.unit in bem.UNITS else float(a.unit), "conductors": conductors, "comm": comm}
    if not a.settle:
        return bem.assemble(mesh, **options), None
    settled = bem.settled_capacitance(mesh, a.settle, most_triangles=a.most_triangles or 50_000, **options, **how)
    return settled.system, settled


def _of_settled(settled: Any) -> dict[str, Any]:
    """What the document says of --settle."""
    c = settled.capacitance
    found = {"capacitance": c.matrix, "capacitance_farad": c.farads, "capacitance_mutual_farad": c.mutual}
    if len(c.names) == 2:
        found["capacitance_between_farad"] = c.between(0, 1)
    steps = [
        {"triangles": step.triangles, "capacitance_farad": step.farads, "change": step.change} for step in settled.steps
    ]
    found |= {"settled": settled.settled, "capacitance_error": settled.error, "steps": steps}
    if not settled.settled and c.converged:
        found["advice"] = "the next mesh would have more than --most-triangles; raise it, or the error of --settle"
    return found | {
        "capacitance_extrapolated_farad": settled.extrapolated,
        "converged": settled.settled and c.converged,
    }


def _add_fields(facts: dict[str, Any], a: argparse.Namespace, charges: Any) -> None:
    """Adds what --at and --forces ask for. Collective."""
    if a.at:
        potentials, fields = charges.potential_at(a.at), charges.field_at(a.at)
        facts["at"] = [
            {"point": p, "potential": v, "field": e} for p, v, e in zip(a.at, potentials, fields, strict=True)
        ]
    if a.forces:
        newtons, moments = charges.forces()
        facts |= {"force_newton": newtons, "moment_newton_metre": moments}


def _facts(a: argparse.Namespace, system: Any, charges: Any) -> dict[str, Any]:
    """The document of the command. Collective."""
    import numpy as np

    mesh = system.mesh
    return report.header("tacit.bem/1", a.words) | {
        "mesh": a.mesh,
        "surface": mesh.surface,
        "unknowns": len(system.elements),
        "triangles": len(mesh),
        "elements": system.elements.kind,
        "conductors": system.conductors,
        "conductor_triangles": np.bincount(system.conductor[system.conductor >= 0], minlength=system.conductors),
        "interface_triangles": int((system.conductor < 0).sum()),
        "discretisation": system.discretisation,
        "assembly": a.assembly or ("cuda" if a.device != "host" else BEM["assembly"].default),
        "ranks": system.comm.size,
        "threads": system.threads,
        **_where(system.A, charges),
        "seconds": {"assembly": system.seconds, "solve": charges.seconds["solve"], "product": system.product_seconds()},
        "tolerance": system.tolerance,
        **surfaces.facts_of(system.A.report, charges),
        "potential": charges.potential,
        "advice": charges.advice + _other_matrix(system.discretisation, charges),
        "field": a.field,
        "names": system.names,
        "unit": a.unit,
        "permittivity": np.unique(np.append(system.permittivity, system.inside[system.conductor < 0])),
        "plane": a.plane,
        "mirror": a.mirror,
        "charge": charges.charge,
        "charge_unit": "4 pi eps0 V u, u the unit of the mesh",
        "charge_coulomb": charges.coulombs,
        "total_charge_coulomb": charges.coulombs.sum(),
    }


def _add_capacitance(facts: dict[str, Any], system: Any, charges: Any, floating: bool, how: dict[str, Any]) -> None:
    """Adds the capacitance matrix: of one conductor that is not at 0 V from its charge, else by solves. Collective."""
    import numpy as np

    volts = charges.potential
    alone = system.conductors == 1 and not any(charges.field) and not np.isnan(volts).any()
    if alone and not floating and volts[0] != 0:
        facts["capacitance"] = charges.charge[:, None] / volts[0]
        facts["capacitance_farad"] = facts["capacitance_mutual_farad"] = charges.coulombs[:, None] / volts[0]
        return
    c = system.capacitance(**how)
    facts |= {"capacitance": c.matrix, "capacitance_asymmetry": c.asymmetry, "capacitance_iterations": c.iterations}
    facts |= {"capacitance_farad": c.farads, "capacitance_mutual_farad": c.mutual}
    if len(c.names) == 2:
        facts["capacitance_between_farad"] = c.between(0, 1)
    facts["capacitance_residual_norm"] = c.residual_norm
    facts["seconds"]["capacitance"] = c.seconds
    facts["converged"] = charges.converged and c.converged


def _net_charge(a: argparse.Namespace, system: Any) -> Any:
    """The charges of floating conductors as the library takes them."""
    if isinstance(a.charge, dict):
        return {name: value / system.scale for name, value in a.charge.items()}
    return [value / system.scale for value in a.charge or [0.0]]


def _write_map(a: argparse.Namespace, charges: Any) -> None:
    """Writes the potential in the plane of --section. Collective; the first rank writes."""
    section = charges.section(a.section)
    if not a.map.endswith(cli.PLOTS):
        section.write(a.map)
    elif charges.system.comm.rank == 0:
        section.plot(a.map, a.unit if not a.unit[:1].isdigit() else f"{a.unit} m")


def _where(A: Any, charges: Any) -> dict[str, Any]:
    """Where the solve ran, and on GPUs how: of all ranks the GPUs and their bytes, of rank 0 what an iteration copied.
    Collective.
    """
    if charges.traffic is None:
        return {"device": "host"}
    ranks = [json.loads(part) for part in A.comm.all_gather(json.dumps([A.device, A.bytes]).encode())]
    return {
        "device": A.device,
        **{name: getattr(A, name) for name in DEVICE_PRODUCT},
        "device_bytes": [{"rank": r, "device": device, "bytes": size} for r, (device, size) in enumerate(ranks)],
        "traffic_per_iteration": {name: value / max(1, charges.iterations) for name, value in charges.traffic.items()},
    }


def _numbers(values: Any, most: int = 6) -> str:
    shown = ", ".join(f"{value:.7g}" for value in values[:most])
    return shown + (f", .. ({len(values)})" if len(values) > most else "")


def _few(texts: Any, most: int = 6) -> str:
    return ", ".join(texts[:most]) + (f", .. ({len(texts)})" if len(texts) > most else "")


_PREFIXES = {0: "", -3: "m", -6: "u", -9: "n", -12: "p", -15: "f", -18: "a", -21: "z"}


def _scaled(largest: float) -> tuple[float, str]:
    """The power of ten to divide by, and its prefix, so that the largest of some numbers is 1 to 1000."""
    power = min(0, max(-21, 3 * math.floor(math.log10(largest) / 3))) if largest > 0 else 0
    return 10.0**power, _PREFIXES[power]


def _charge_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Charges in coulombs and capacitances in farads."""
    import numpy as np

    media = facts["permittivity"]
    medium = f", relative permittivity {_numbers(media)}" if len(media) > 1 or media[0] != 1 else ""
    if facts["mirror"]:
        medium += f", the part on one side of {' and '.join(f'{axis} = {value:g}' for axis, value in facts['mirror'])}"
    charge = np.asarray(facts["charge_coulomb"])
    if not len(charge):
        return
    by, prefix = _scaled(float(np.abs(charge).max()))
    total = f"; {facts['total_charge_coulomb'] / by:.7g} {prefix}C in all" if len(charge) > 1 else ""
    yield "charge", f"{_numbers(charge / by)} {prefix}C{total} (the mesh in {facts['unit']}{medium})"
    yield "", f"{_numbers(facts['charge'])} times 4 pi eps0"
    if "capacitance" not in facts:
        return
    names, most = facts["names"], 6
    forms = {"capacitance": "capacitance_farad", "as capacitors": "capacitance_mutual_farad"}
    for title, key in forms.items() if len(names) > 1 else [("capacitance", "capacitance_farad")]:
        farads = np.asarray(facts[key])
        by, prefix = _scaled(float(np.abs(farads).max()))
        of = {"as capacitors": " between conductors; on the diagonal to infinity"}.get(title, "")
        for i, row in enumerate(farads[:most]):
            words = [_numbers(row / by), f"{prefix}F{of}" if i == 0 else "", names[i] if len(names) > 1 else ""]
            yield title if i == 0 else "", "  ".join(word for word in words if word)
        if len(names) > most:
            yield "", f".. ({len(names)} rows)"
    yield from _settled_rows(facts)
    if "capacitance_between_farad" in facts:
        by, prefix = _scaled(facts["capacitance_between_farad"])
        value = facts["capacitance_between_farad"] / by
        yield "", f"{value:.7g} {prefix}F between {names[0]} and {names[1]}, without a net charge"


def _settled_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How --settle ended."""
    import numpy as np

    if "steps" not in facts:
        return
    limit = np.asarray(facts["capacitance_extrapolated_farad"])
    by, prefix = _scaled(float(np.abs(limit).max()))
    sizes = [report.count(step["triangles"]) for step in facts["steps"]]
    shown = sizes if len(sizes) < 5 else [*sizes[:1], "..", *sizes[-2:]]
    error = "unknown" if math.isinf(facts["capacitance_error"]) else f"{facts['capacitance_error']:.1e}"
    state = "settled" if facts["settled"] else "not settled"
    yield state, f"error {error} by estimate, on {' '.join(shown)} triangles"
    if len(sizes) > 3:  # what it is computed from
        yield "limit", f"{_numbers(limit.reshape(-1) / by)} {prefix}F (extrapolated)"


def _body_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Dielectrics and conductors."""
    if facts["interface_triangles"]:
        yield "dielectrics", f"{report.count(facts['interface_triangles'])} triangles between two"
    if not facts["conductors"]:
        return
    volts = [f"{name} at {value:.7g} V" for name, value in zip(facts["names"], facts["potential"], strict=True)]
    yield "conductors", f"{facts['conductors']}: {_few(volts)}"


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is printed, by name."""
    seconds, surface = facts["seconds"], facts["surface"]
    kind = ("closed" if surface["closed"] else "open") + ("" if surface["oriented"] else ", mixed orientation")
    if len(facts.get("steps", ())) > 1:  # neighbours of several sizes, which are not joined at their edges
        kind = "refined"
    yield "mesh", f"{facts['mesh']}: {report.count(facts['triangles'])} triangles, {kind}"
    yield from _body_rows(facts)
    yield surfaces.matrix_row(facts)
    yield surfaces.result_row(facts)
    if facts["device"] != "host":
        t = facts["traffic_per_iteration"]
        sizes = ", ".join(report.size(size) for one in facts["device_bytes"] for size in one["bytes"])
        copies = t["to_devices"] + t["to_host"] + t["between"]
        yield "device", f"{facts['device']} ({sizes}), path {facts['path']}, overlap {facts['overlap']}"
        yield "", f"{copies:.1f} copies, {t['reads']:.1f} reads of sums and {t['waits']:.1f} other waits an iteration"
    yield surfaces.residual_row(facts)
    yield from _charge_rows(facts)
    for i, (name, force) in enumerate(zip(facts["names"], facts.get("force_newton", ()), strict=False)):
        if i < 6:
            yield "" if i else "force", f"{_numbers(force)} N  {name}"
    for at in facts.get("at", ()):
        place = ", ".join(f"{c:g}" for c in at["point"])
        yield f"at {place}", f"{at['potential']:.7g} V, field {_numbers(at['field'])}"
    mesh, assembly, solve, product = (
        report.seconds(seconds[name]) for name in ("mesh", "assembly", "solve", "product")
    )
    yield "time", f"mesh {mesh}, assembly {assembly}, solve {solve}; a product {product}"
