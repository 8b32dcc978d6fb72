#!/usr/bin/env python3
"""Writes the files that are generated from the tables of options in the compiled part:

python/tacit/_described.py    the tables, and their types for a checker
python/tacit/methods.py       methods as objects
python/tacit/_preconds.py     preconditioners as objects
docs/reference/*.md           pages

scripts/describe.py            writes them (the module has to be built: ./run build)
scripts/describe.py --check    lists those that are not up to date; exit code 1 if there are any
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from tacit import _core  # noqa: E402

NOTE = "Made by scripts/describe.py from the tables of the compiled part; not to be edited."
TYPES = {"flag": "bool", "whole": "int", "real": "float", "wholes": "Sequence[int]"}
# For choices that have options of their own: the class of the objects that may be given instead of a name.
# Tables whose takers are functions of their own; those that no keywords are typed by.
BY_TAKER = ("tiled", "inference")
UNTYPED = ("precond", "hmatrix_precond", "machine", "machine_level")
# Options that a function takes by their place among its arguments.
BY_PLACE = {"point_kernel": "kernel"}
OBJECTS = {"solve": "Method", "precond": "Any"}


def class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def type_of(option: dict[str, Any], choices: list[str] | None = None) -> str:
    if option["kind"] != "choice":
        return TYPES[option["kind"]]
    words = f"Literal[{', '.join(repr(c) for c in choices or option['choices'])}]"
    return f"{words} | {OBJECTS[option['inner']]}" if option["inner"] else words


def takes(taker: dict[str, Any]) -> dict[str, list[str] | None]:
    """The options that one takes, with the choices that are open to it where these are not all."""
    found: dict[str, list[str] | None] = {}
    for word in taker["takes"].split():
        name, equals, choices = word.partition("=")
        found[name] = choices.split(",") if equals else None
    return found


def takers(option: dict[str, Any], described: dict[str, Any]) -> list[str]:
    return [t["name"] for t in described["takers"] if option["name"] in takes(t)]


def value_text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def meaning(option: dict[str, Any]) -> str:
    """The text of an option, and the choice that it needs."""
    other, _, choices = option["needs"].partition("=")
    return f"{other} {choices.replace(',', ', ')}: {option['text']}" if other else str(option["text"])


def default_text(option: dict[str, Any]) -> str:
    return str(option["absent"]) or value_text(option["default"])


def wrapped(text: str, indent: str, width: int = 116) -> str:
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def table(described: dict[str, Any]) -> str:
    lines = []
    for o in described["options"]:
        default = tuple(o["default"]) if o["kind"] == "wholes" else o["default"]
        fields = (o["kind"], default, tuple(o["choices"]), float(o["least"]), float(o["most"]), o["open_below"])
        values = [repr(f).replace("inf", "INFINITY") for f in (*fields, o["step"])]
        values += [repr(o["needed"]), repr(meaning(o)), repr(o["absent"]), repr(tuple(takers(o, described)))]
        values += [o["inner"].upper()] if o["inner"] else []
        lines.append(f"    {o['name']!r}: Option({', '.join(values)}),")
    return "{\n" + "\n".join(lines) + "\n}"


def typed_dict(name: str, described: dict[str, Any], taker: dict[str, Any] | None = None, by_place: str = "") -> str:
    """A TypedDict of all options but one that is given by its place, or of those of one taker."""
    taken = takes(taker) if taker else dict.fromkeys(o["name"] for o in described["options"])
    taken.pop(by_place, None)
    lines = [
        f"class {name}(TypedDict, total=False):",
        f'    """Options of {name.removesuffix("Options")}, for type checkers."""',
        "",
    ]
    for o in described["options"]:
        if o["name"] in taken:
            lines.append(f"    {o['name']}: {type_of(o, taken[o['name']])}{' | None' if o['absent'] else ''}")
    return "\n".join(lines) + "\n"


def tables_file(described: dict[str, dict[str, Any]], choices: dict[str, list[str]]) -> str:
    parts = [f'"""{NOTE}"""\n', "# ruff: noqa: E501\n# fmt: off\n", "from __future__ import annotations\n"]
    parts += ["from collections.abc import Mapping, Sequence", "from math import inf as INFINITY"]
    parts += ["from typing import Literal, TypedDict\n", f"from ._options import {', '.join(['Method', 'Option'])}\n"]
    for name, one in described.items():
        parts.append(f"{name.upper()}: Mapping[str, Option] = {table(one)}")
        names = ", ".join(repr(t["name"]) for t in one["takers"])
        if names:
            parts.append(f"{name.upper()}_NAMES = ({names},)")
    parts.append("# What may be chosen elsewhere.")
    parts += [f"{name.upper()} = {tuple(values)!r}" for name, values in choices.items()]
    parts.append("\n")
    for name, one in described.items():
        if name in BY_TAKER:
            parts += [typed_dict(class_name(t["name"]) + "Options", one, t) + "\n" for t in one["takers"]]
        elif name not in UNTYPED:
            typed = class_name(name.replace("_", "-")) + "Options"
            parts.append(typed_dict(typed, one, by_place=BY_PLACE.get(name, "")) + "\n")
    return "\n".join(parts).rstrip() + "\n"


def classes_file(what: str, base: str, tables: list[dict[str, Any]], extra: str = "") -> str:
    """A class for each taker. A taker in several tables has the options of all of them."""
    parts = [f'"""{what}\n\n{NOTE}\n"""\n', "# ruff: noqa: E501\n# fmt: off\n", "from __future__ import annotations\n"]
    takers: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for described in tables:
        for taker in described["takers"]:
            takers.setdefault(taker["name"], []).append((taker, {o["name"]: o for o in described["options"]}))
    takers.pop("none", None)
    parts += [f"from typing import {'Any, ' * ('inner' in takers)}Literal\n"]
    parts += [f"from ._options import {'Method, ' * ('inner' in takers)}{base}\n", extra]
    for name, kinds in takers.items():
        parts += ["", f"class {class_name(name)}({base}):"]
        texts = kinds[0][0]["text"] + "".join(
            f"; of an H-matrix: {k['text']}" for k, _ in kinds[1:] if k["text"] != kinds[0][0]["text"]
        )
        parts.append(wrapped('"""' + sentence(texts), "    "))
        taken = {n: (options[n], choices) for taker, options in reversed(kinds) for n, choices in takes(taker).items()}
        if taken:
            parts += ["", "    Parameters", "    ----------"]
        for option, (o, choices) in taken.items():
            kind = type_of(o, choices).replace("Literal", "one of ").replace(" | Any", " or what precond= takes")
            parts.append(f"    {option} : {kind.replace(' | Method', ' or object of tacit.methods')}, optional")
            needed = f" {o['needed'][:1].upper()}{o['needed'][1:]}." if o["kind"] in ("whole", "real") else ""
            parts.append(wrapped(f"{sentence(meaning(o))}{needed} Default: {default_text(o)}.", "        "))
        if kinds[0][0]["source"]:
            parts += ["", "    References", "    ----------", wrapped(kinds[0][0]["source"] + ".", "    ")]
        parts += ['    """', *([""] if taken else [])]
        parts += [f"    {option}: {type_of(o, choices)} | None = None" for option, (o, choices) in taken.items()]
        parts.append("" if name != list(takers)[-1] else "\n")
    made = [class_name(name) for name in takers]
    parts += [f"__all__ = {[*made, *(['names'] if extra else [])]!r}", ""]
    return "\n".join(parts)


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def reference_page(title: str, text: str, *tables: dict[str, Any]) -> str:
    lines = [f"# {title}", "", f"<!-- {NOTE} -->", "", text, ""]
    for described in tables:
        if described["takers"]:
            lines += ["| name | what it is | takes | source |", "|---|---|---|---|"]
            for taker in described["takers"]:
                words = [f"{n}: {', '.join(c)}" if c else n for n, c in takes(taker).items()]
                lines.append(row(taker["name"], taker["text"], "; ".join(words), taker["source"]))
            lines.append("")
        lines += ["| option | values | default | of | what it is |", "|---|---|---|---|---|"]
        for o in described["options"]:
            values = ", ".join(o["choices"]) or (o["needed"] if o["kind"] != "flag" else "true, false")
            values += ", or an object with options" if o["inner"] else ""
            who = ", ".join(takers(o, described)) or "all"
            lines.append(row(o["name"], values, default_text(o), who, meaning(o)))
        lines.append("")
    return "\n".join(lines)


def command_line_page() -> str:
    """The page of the command line, from `tacit --help` in processes of its own, since the tables may have just been
    written.
    """
    environment = {**os.environ, "COLUMNS": "110", "PYTHONPATH": str(ROOT / "python"), "NO_COLOR": "1"}

    def said(*words: str) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, cwd=ROOT)
        return done.stdout.rstrip()

    listed = "from tacit.cli.command import build_parser as p; print(*p()._subparsers._group_actions[0].choices)"
    lines = ["# Command line", "", f"<!-- {NOTE} -->", "", "```", said("-m", "tacit", "--help"), "```", ""]
    for command in said("-c", listed).split():
        lines += [f"## tacit {command}", "", "```", said("-m", "tacit", command, "--help"), "```", ""]
    return "\n".join(lines)


def formatted(name: str, text: str) -> str:
    if not name.endswith((".py", ".pyi")):
        return text
    command = ["ruff", "format", "--quiet", "--stdin-filename", str(ROOT / name), "-"]
    text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    command = ["ruff", "check", "--quiet", "--fix-only", "--stdin-filename", str(ROOT / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


METHODS = "Methods of :func:`tacit.solve` as objects: ``tacit.solve(A, b, method=tacit.methods.CaGmres(step=10))``."
PRECONDS = "Preconditioners as objects: ``precond=tacit.precond.Ilu0(blocks=4)``."
# Of each page of the reference: title, text, and the tables of its options.
PAGES = {
    "methods": ("Methods and options of a solve", METHODS, "solve"),
    "least-squares": (
        "Methods and options of least squares",
        "Of `tacit.lstsq`, `tacit.lsqr`, `tacit.lsmr` and, for a rectangular matrix, `tacit solve`.",
        "least_squares",
    ),
    "multigrid": (
        "Options of multigrid",
        "Of `tacit.multigrid.multigrid`, `tacit.multigrid.solve` and `tacit multigrid`; then of a solve by cycles.",
        "multigrid",
        "multigrid_solve",
    ),
    "h-matrices": (
        "Options of H-matrices",
        "Of `tacit.hmatrix`, `tacit.bem.assemble` and `tacit bem`; then what the latter two take besides; then what"
        " these two and `HMatrix.to` take for GPUs; then what `tacit.hmatrix` takes with the name of a kernel, besides"
        " `length`.",
        "hmatrix",
        "bem",
        "device_product",
        "point_kernel",
    ),
    "preconditioners": (
        "Preconditioners",
        PRECONDS + " First those of stored matrices, then those of H-matrices.",
        "precond",
        "hmatrix_precond",
    ),
    "tiled": (
        "Options of tiled matrices",
        "Of `tacit.tiled`, `tacit.tomography.projector` and `tacit reconstruct`.",
        "tiled",
    ),
    "tomography": (
        "Options of reconstructions",
        "Of `tacit.tomography.reconstruct` and `tacit reconstruct`; of its projector: [tiled matrices](tiled.md).",
        "reconstruct",
    ),
    "inference": (
        "Options of sparse networks",
        "Of `tacit.inference.network`, `radixnet`, `read_network` and `Network.infer`, and of `tacit infer`.",
        "inference",
    ),
    "machines": (
        "Parameters of a simulated machine",
        "Of `tacit.simulate.machine` and of the files of `tacit solve --machine`; then of an item of `levels`.",
        "machine",
        "machine_level",
    ),
}


def with_python_methods(compiled: dict[str, Any]) -> dict[str, Any]:
    """The table of reconstructions with the methods of tacit.app.methods."""
    from tacit.app.methods import METHODS, OPTIONS

    takers = compiled["takers"] + [{"name": name, **way._asdict()} for name, way in METHODS.items()]
    options = [{"name": name, "needs": "", **option._asdict()} for name, option in OPTIONS.items()]
    everywhere = [option["name"] for option in options if not option["takers"]]
    for taker in takers[len(compiled["takers"]) :]:
        taker["takes"] = " ".join(name for name in taker["takes"].split() if name not in everywhere)
    for taker in takers[: len(compiled["takers"])]:
        taker["takes"] += "".join(f" {o['name']}" for o in options if taker["name"] in o["takers"])
        taker["takes"] = " ".join(dict.fromkeys(taker["takes"].split()))
    return {"takers": takers, "options": options}


def plan_page() -> str:
    """The tables of what a solve tries."""
    text = (
        f"# What a solve tries\n\n{NOTE} `tacit explain-plan` and `tacit.explain_plan()` print them; with a matrix they"
        " say which candidates are tried for it.\n\n## Candidates of auto\n\nWithout a preconditioner, or with"
        ' `precond="auto"`, those whose condition holds are tried in this order, each from the best x so far, until one'
        " solves. On several ranks factors are those of overlapping blocks (`schwarz`), where the method needs no"
        " symmetry.\n\n| candidate | for which A | tried only if | why |\n|---|---|---|---|\n"
    )
    for row in _core.candidate_rows():
        text += f"| {row['what']} | {row['when']} | {row['tried_if']} | {row['why']} |\n"
    rows = _core.plan_rows()
    text += (
        "\n## Rules of a solve\n\nOf each candidate, and of a solve whose preconditioner is named. It begins with the"
        " method that is named; every rule here that holds is followed:\n\n| condition | then |\n|---|---|\n"
    )
    text += "".join(f"| {row['when']} | {row['then']} |\n" for row in rows if not row["after"])
    text += (
        "\nAfter a run of the method that has not reached the goal, the first rule that holds:\n\n"
        "| the run ended | condition | then |\n|---|---|---|\n"
    )
    for row in rows:
        if row["after"]:
            after = "in any way" if row["after"] == rows[-1]["after"] else ", ".join(row["after"])
            text += f"| {after} | {row['when']} | {row['then']} |\n"
    return text


def files() -> dict[str, str]:
    described = {
        name.removeprefix("describe_"): getattr(_core, name)() for name in dir(_core) if name.startswith("describe_")
    }
    # Tables that other tables refer to come first.
    described = {name: described[name] for name in sorted(described, key=lambda n: ([*OBJECTS, n].index(n), n))}
    choices = {n.removeprefix("choices_"): getattr(_core, n)() for n in dir(_core) if n.startswith("choices_")}
    names = 'def names() -> list[str]:\n    """The names that ``method=`` knows."""\n'
    names += "    return [method.name for method in Method.__subclasses__() if method.__module__ == __name__]\n"
    found = {
        "python/tacit/_described.py": tables_file(described, choices),
        "python/tacit/methods.py": classes_file(METHODS, "Method", [described["solve"]], names),
        "python/tacit/_preconds.py": classes_file(
            PRECONDS, "Preconditioner", [described["precond"], described["hmatrix_precond"]]
        ),
    }
    # Methods of reconstructions that Python makes of products stand beside the compiled ones.
    described["reconstruct"] = with_python_methods(described["reconstruct"])
    for name, (title, text, *tables) in PAGES.items():
        found[f"docs/reference/{name}.md"] = reference_page(title, text, *(described[table] for table in tables))
    found["docs/reference/plan.md"] = plan_page()
    return {name: formatted(name, text) for name, text in found.items()}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="write nothing, tell what is not up to date")
    check = arguments.parse_args().check
    stale = []

    def look(name: str, text: str) -> None:
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            return
        stale.append(name)
        print(f"{name} {'is not up to date: scripts/describe.py writes it' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    for name, text in files().items():
        look(name, text)
    look("docs/reference/command-line.md", command_line_page())
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
