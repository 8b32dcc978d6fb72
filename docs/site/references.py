"""Writes the pages of the references: Python from the lists of its modules, C++ from the comments of its headers."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include/tacit"
MODULES = (
    "methods", "precond", "op", "krylov", "comm", "layout", "io", "device", "simulate", "multigrid", "grid_problems",
    "bem", "tomography", "inference",
)  # fmt: skip
DIRECTIVES = {"functions": "autofunction", "classes": "autoclass", "errors": "autoexception", "values": "autodata"}
FLOORS = {
    "krylov": "methods, options and reports of a solve",
    "op": "operators (matrices, stencils, cells, H-matrices, tiled matrices)",
    "precond": "preconditioners and multigrid",
    "layout": "spaces, vectors, orders",
    "comm": "communicators and exchanges",
    "app": "boundary elements, tomography, networks, grids",
    "io": "files",
    "model": "models of machines",
    "exec": "threads, devices, memory",
    "base": "scalars, errors, options",
    "c": "the interface of C",
}


def write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def headed(text: str, rule: str) -> str:
    return f"{text}\n{rule * len(text)}\n\n"


# --- Python -----------------------------------------------------------------------------------------------------------


def kind(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return "modules"
    if inspect.isclass(thing):
        return "errors" if issubclass(thing, BaseException) else "classes"
    return "functions" if callable(thing) else "values"


def public_names(module: ModuleType) -> list[str]:
    """Its __all__, without what another page has: modules, and what :mod:`tacit` gives under its own name."""
    return [name for name in module.__all__ if kind(getattr(module, name)) != "modules" and not name.startswith("__")]


def name_entries(prefix: str, module: ModuleType, left_out: set[str]) -> str:
    """A table of the names of a module, and below it each name with its docstring, by kinds."""
    kinds: dict[str, list[str]] = {}
    for name in public_names(module):
        if name not in left_out:
            kinds.setdefault(kind(getattr(module, name)), []).append(name)
    order = [what for what in ("functions", "classes", "errors", "values") if what in kinds]
    for what in order:
        kinds[what].sort(key=str.lower)
    every = "\n".join(f"   {name}" for what in order for name in kinds[what])
    text = f".. autosummary::\n   :nosignatures:\n\n{every}\n\n"
    for what in order:
        text += headed(what.capitalize(), "-")
        for name in kinds[what]:
            text += headed(name, "^") + f".. {DIRECTIVES[what]}:: {prefix}.{name}\n"
            text += "   :members:\n\n" if what in ("classes", "errors") else "\n"
    return text


def write_python(folder: Path) -> None:
    """A page for :mod:`tacit` and one for each of its modules."""
    tacit = importlib.import_module("tacit")
    top = set(public_names(tacit))
    text = headed("Python", "=") + ".. automodule:: tacit\n\n" + name_entries("tacit", tacit, set())
    text += headed("Modules", "-") + ".. toctree::\n   :maxdepth: 1\n\n"
    text += "".join(f"   tacit.{name}\n" for name in MODULES)
    write(folder / "index.rst", text)
    for name in MODULES:
        module = getattr(tacit, name)
        # What is tacit.X too is shown there; a module of an application has names of its own.
        same = {n for n in public_names(module) if n in top and getattr(tacit, n) is getattr(module, n)}
        page = headed(f"tacit.{name}", "=") + f".. automodule:: tacit.{name}\n\n"
        if same:
            page += "Also here: " + ", ".join(f":obj:`tacit.{n}`" for n in sorted(same, key=str.lower)) + ".\n\n"
        write(folder / f"tacit.{name}.rst", page + name_entries(f"tacit.{name}", module, same))


# --- C++ --------------------------------------------------------------------------------------------------------------

DOXYFILE = """
PROJECT_NAME = tacit
INPUT = {include}
RECURSIVE = YES
FILE_PATTERNS = *.hpp *.h
EXCLUDE_PATTERNS = */kernels/*
STRIP_FROM_PATH = {root}/include
STRIP_FROM_INC_PATH = {root}/include
INCLUDE_PATH = {root}/include
SEARCH_INCLUDES = YES
MACRO_EXPANSION = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
JAVADOC_AUTOBRIEF = YES
AUTOLINK_SUPPORT = NO
MAX_INITIALIZER_LINES = 0
WARN_IF_UNDOCUMENTED = NO
QUIET = YES
OUTPUT_DIRECTORY = {out}
"""


def lead(header: Path) -> str:
    """The comment at the top of a header: what stands in it."""
    lines = []
    for line in header.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.lstrip("/ "))
    # In reStructuredText a word before a colon may be taken for the scheme of a link (FILE:LINE).
    return re.sub(r"([*_`|\\]|(?<=\w):(?=\w))", r"\\\1", " ".join(lines))


def name_by_path(xml: Path) -> None:
    """Gives files in doxygen's index the names by which programs include them; breathe looks for these."""

    def named(match: re.Match[str]) -> str:
        place = re.findall(r'<location file="([^"]+)"', (xml / f"{match[1]}.xml").read_text())[-1]
        return f'<compound refid="{match[1]}" kind="file"><name>{place}</name>'

    index = xml / "index.xml"
    text = re.sub(r'<compound refid="(\w+)" kind="file"><name>[^<]*</name>', named, index.read_text())
    index.write_text(text)


def restore_local(xml: Path) -> None:
    """Doxygen drops the word `local`, which is a keyword of another of its languages, and takes `bool` for the name."""
    for file in xml.glob("*.xml"):
        text = file.read_text()
        if "<name>bool</name>" in text:
            text = re.sub(r"<type></type>(\s*<definition>[\w:]+::)bool<", r"<type>bool</type>\1local<", text)
            text = text.replace("<name>bool</name>", "<name>local</name>").replace("::bool</q", "::local</q")
            file.write_text(text)


def run_doxygen(out: Path) -> bool:
    """Reads the headers, with doxygen's remarks in a log; False where there is no doxygen."""
    if shutil.which("doxygen") is None:
        print("no doxygen: the C++ reference only lists headers (apt-get install doxygen)", flush=True)
        return False
    out.mkdir(parents=True, exist_ok=True)
    write(out / "Doxyfile", DOXYFILE.format(include=INCLUDE, root=ROOT, out=out))
    with open(out / "log", "w") as log:
        subprocess.run(["doxygen", out / "Doxyfile"], check=True, stdout=log, stderr=log)
    name_by_path(out / "xml")
    restore_local(out / "xml")
    return True


def write_cpp(folder: Path, out: Path) -> None:
    """Lists of headers by folders, and with doxygen a page for each header."""
    complete = run_doxygen(out)
    text = headed("C++", "=") + (
        "What the headers of ``include/tacit`` declare, folder by folder. The :doc:`page of the guide </guide/cpp>`\n"
        "begins with a whole program.\n\n"
    )
    for floor, what in FLOORS.items():
        entries = []
        for header in sorted(file for file in (INCLUDE / floor).rglob("*.h*") if file.parent.name != "kernels"):
            name = str(header.relative_to(INCLUDE.parent))
            page = name.rpartition(".")[0].replace("/", "-")
            first = lead(header).partition(". ")[0].rstrip(".")
            if complete:
                body = f"{headed(name, '=')}{lead(header)}\n\n.. doxygenfile:: {name}\n"
                write(folder / f"{page}.rst", f":orphan:\n\n{body}")
            entries.append(f"- :doc:`{name} <{page}>`: {first}.\n" if complete else f"- ``{name}``: {first}.\n")
        if entries:
            text += headed(f"{floor}: {what}", "-") + "".join(entries) + "\n"
    write(folder / "index.rst", text)
