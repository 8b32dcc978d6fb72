#!/usr/bin/env python3
"""Writes what follows from the tables of described options in the compiled part:

python/tacit/_described.py    the tables, and their types for a checker
python/tacit/methods.py       methods as objects
python/tacit/_preconds.py     preconditioners as objects
docs/reference/*.md           pages

scripts/describe.py            writes them (the module has to be built: ./run build)
scripts/describe.py --check    tells which are not up to date; exit code 1 if any is not
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
TYPES = {"flag": "bool", "whole": "int", "real": "float"}


def class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def type_of(option: dict[str, Any], choices: list[str] | None = None) -> str:
    if option["kind"] != "choice":
        return TYPES[option["kind"]]
    return f"Literal[{', '.join(repr(c) for c in choices or option['choices'])}]"


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
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def default_text(option: dict[str, Any]) -> str:
    return str(option["absent"]) or value_text(option["default"])


def wrapped(text: str, indent: str, width: int = 116) -> str:
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def table(described: dict[str, Any]) -> str:
    lines = []
    for o in described["options"]:
        fields = (o["kind"], o["default"], tuple(o["choices"]), float(o["least"]), float(o["most"]), o["open_below"])
        values = [repr(f).replace("inf", "INFINITY") for f in fields]
        values += [repr(o[name]) for name in ("needed", "text", "absent")] + [repr(tuple(takers(o, described)))]
        lines.append(f"    {o['name']!r}: Option({', '.join(values)}),")
    return "{\n" + "\n".join(lines) + "\n}"


def typed_dict(name: str, text: str, described: dict[str, Any]) -> str:
    lines = [f"class {name}(TypedDict, total=False):", f'    """{text}"""', ""]
    for o in described["options"]:
        lines.append(f"    {o['name']}: {type_of(o)}{' | None' if o['absent'] else ''}")
    return "\n".join(lines)


def tables_file(described: dict[str, dict[str, Any]], choices: dict[str, list[str]]) -> str:
    parts = [f'"""{NOTE}"""\n', "# ruff: noqa: E501\n", "from __future__ import annotations\n"]
    parts += [
        "from collections.abc import Mapping\nfrom math import inf as INFINITY\nfrom typing import Literal, TypedDict\n"
    ]
    parts += ["from ._options import Option\n"]
    parts.append("# fmt: off")
    for name, one in described.items():
        parts.append(f"{name.upper()}: Mapping[str, Option] = {table(one)}")
        names = ", ".join(repr(t["name"]) for t in one["takers"])
        if names:
            parts.append(f"{name.upper()}_NAMES = ({names},)")
        parts.append("")
    parts += ["# fmt: on", "", "# What may be chosen elsewhere."]
    for name, values in choices.items():
        parts.append(f"{name.upper()} = {tuple(values)!r}")
    parts.append("")
    for name, one in described.items():
        text = f"Options of {name.replace('_', ' ')}, for type checkers."
        parts += ["", typed_dict(class_name(name.replace("_", "-")) + "Options", text, one), ""]
    return "\n".join(parts)


def classes_file(what: str, described: dict[str, Any], extra: str = "") -> str:
    options = {o["name"]: o for o in described["options"]}
    parts = [f'"""{what}\n\n{NOTE}\n"""\n', "from __future__ import annotations\n", "import dataclasses"]
    parts += ["from typing import ClassVar, Literal\n", "from ._options import Described\n", extra]
    made = []
    for taker in described["takers"]:
        if taker["name"] == "none":
            continue
        name = class_name(taker["name"])
        made.append(name)
        parts += ["", "@dataclasses.dataclass(frozen=True, kw_only=True)", f"class {name}(Described):"]
        parts.append(wrapped('"""' + sentence(taker["text"]), "    "))
        taken = takes(taker)
        if taken:
            parts += ["", "    Parameters", "    ----------"]
        for option, choices in taken.items():
            o = options[option]
            parts.append(f"    {option} : {type_of(o, choices).replace('Literal', 'one of ')}, optional")
            needed = f" {o['needed'][:1].upper()}{o['needed'][1:]}." if o["kind"] in ("whole", "real") else ""
            parts.append(wrapped(f"{sentence(o['text'])}{needed} Default: {default_text(o)}.", "        "))
        if taker["source"]:
            parts += ["", "    References", "    ----------", wrapped(taker["source"] + ".", "    ")]
        parts += ['    """', "", f"    name: ClassVar[str] = {taker['name']!r}"]
        for option, choices in taken.items():
            parts.append(f"    {option}: {type_of(options[option], choices)} | None = None")
        parts.append("")
    parts += ["", f"__all__ = {[*made, *(['names'] if extra else [])]!r}", ""]
    return "\n".join(parts)


def reference_page(title: str, text: str, described: dict[str, Any]) -> str:
    lines = [f"# {title}", "", f"<!-- {NOTE} -->", "", text, ""]
    if described["takers"]:
        lines += ["| name | what it is | takes | source |", "|---|---|---|---|"]
        for taker in described["takers"]:
            words = [f"{n}: {', '.join(c)}" if c else n for n, c in takes(taker).items()]
            lines.append(f"| {taker['name']} | {taker['text']} | {'; '.join(words)} | {taker['source']} |")
        lines.append("")
    lines += ["| option | values | default | of | what it is |", "|---|---|---|---|---|"]
    for o in described["options"]:
        values = ", ".join(o["choices"]) or (o["needed"] if o["kind"] != "flag" else "true, false")
        who = ", ".join(takers(o, described)) or "all"
        lines.append(f"| {o['name']} | {values} | {default_text(o)} | {who} | {o['text']} |".replace("||b", "\\|\\|b"))
    return "\n".join(line.replace("||", "\\|\\|") if line.startswith("| ") else line for line in lines) + "\n"


def command_line_page() -> str:
    """From the command itself, in processes of its own: the tables that it reads may just have been written."""
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


def files() -> dict[str, str]:
    described = {name: getattr(_core, f"describe_{name}")() for name in ("solve", "precond", "multigrid", "hmatrix")}
    choices = {"paths": _core.path_names()}
    names = 'def names() -> list[str]:\n    """The names that ``method=`` knows."""\n'
    names += "    return [method.name for method in Described.__subclasses__() if method.__module__ == __name__]\n"
    methods = "Methods of :func:`tacit.solve` as objects: ``tacit.solve(A, b, method=tacit.methods.CaGmres(step=10))``."
    preconds = "Preconditioners of stored matrices as objects: ``precond=tacit.precond.Ilu0(blocks=4)``."
    multigrid = "Of `tacit.multigrid.multigrid`, `tacit.multigrid.solve` and `tacit multigrid`."
    hmatrix = "Of `tacit.hmatrix`, `tacit.bem.assemble` and `tacit bem`."
    found = {
        "python/tacit/_described.py": tables_file(described, choices),
        "python/tacit/methods.py": classes_file(methods, described["solve"], names),
        "python/tacit/_preconds.py": classes_file(preconds, described["precond"]),
        "docs/reference/methods.md": reference_page("Methods and options of a solve", methods, described["solve"]),
        "docs/reference/multigrid.md": reference_page("Options of multigrid", multigrid, described["multigrid"]),
        "docs/reference/h-matrices.md": reference_page("Options of H-matrices", hmatrix, described["hmatrix"]),
        "docs/reference/preconditioners.md": reference_page("Preconditioners", preconds, described["precond"]),
    }
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
