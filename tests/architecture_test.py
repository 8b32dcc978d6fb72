"""Arrows only point down: no include and no import reaches a higher floor, and methods know neither MPI nor CUDA."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the ground up. Folders of one floor may see each other, as long as it stays one way.
FLOORS = [
    {"base"},
    {"exec", "io"},
    {"comm"},
    {"layout", "model"},
    {"op"},
    {"krylov", "precond"},
    {"app"},
]
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Headers of other libraries, and the floors that may include them.
GUARDED = {
    "MPI": (re.compile(r"^mpi(-ext)?\.h$"), {"comm"}),
    "CUDA": (
        re.compile(r"^(cuda|cublas|cusparse|curand|nvrtc|nccl|cub/|thrust/|nvtx)"),
        {"base", "exec", "comm", "op", "precond"},
    ),
}


def floor_folders() -> Iterator[tuple[str, Path]]:
    for top in ("include/tacit", "src"):
        for folder in sorted((ROOT / top).iterdir()):
            if folder.is_dir():
                yield folder.name, folder


def sources() -> Iterator[tuple[str, Path]]:
    """Each source file of the library with the floor it stands on."""
    for name, folder in floor_folders():
        for file in sorted(folder.rglob("*")):
            if file.suffix in SOURCES:
                yield name, file
    for file in sorted((ROOT / "python/bindings").glob("*")):
        if file.suffix in SOURCES and file.stem in HEIGHT:
            yield file.stem, file


def includes(file: Path) -> list[str]:
    return [name for _, name in INCLUDE.findall(file.read_text())]


def floor_of_include(name: str) -> str | None:
    parts = name.split("/")
    return parts[1] if parts[0] == "tacit" and len(parts) > 2 else None


def show(file: Path) -> str:
    return str(file.relative_to(ROOT))


def python_modules() -> Iterator[tuple[str, Path]]:
    """Modules named after a floor. Others (the command line, the package itself) stand above them all."""
    for file in sorted((ROOT / "python/tacit").rglob("*.py")):
        name = file.relative_to(ROOT / "python/tacit").parts[0].removesuffix(".py")
        if name in HEIGHT:
            yield name, file


def python_imports(file: Path) -> Iterator[str]:
    """First names below `tacit` that a module imports: `from tacit import op` and `from .op import x` both give op."""
    depth = len(file.relative_to(ROOT / "python/tacit").parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "tacit" and len(parts) > 1:
                    yield parts[1]
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".") if node.module else []
            if node.level == 0:
                if not parts or parts[0] != "tacit":
                    continue
                parts = parts[1:]
            elif node.level != depth:
                continue  # within one floor's own folder
            if parts:
                yield parts[0]
            else:
                yield from (alias.name for alias in node.names)


def test_every_folder_is_a_floor() -> None:
    unknown = sorted({show(folder) for name, folder in floor_folders() if name not in HEIGHT})
    assert not unknown, f"folders that are no floor (add them to FLOORS, or move them): {unknown}"


def test_includes_point_down() -> None:
    wrong, seen = [], set()
    for floor, file in sources():
        for name in includes(file):
            target = floor_of_include(name)
            if target is None or target == floor:
                continue
            if target not in HEIGHT:
                wrong.append(f"{show(file)} includes {name}, which is on no floor")
            elif HEIGHT[target] > HEIGHT[floor]:
                wrong.append(f"{show(file)} ({floor}) includes {name} ({target}), a floor above")
            elif HEIGHT[target] == HEIGHT[floor]:
                seen.add((floor, target))
    wrong += [f"{a} and {b} stand on one floor and include each other" for a, b in seen if (b, a) in seen and a < b]
    assert not wrong, "\n".join(wrong)


def test_python_imports_point_down() -> None:
    wrong = [
        f"{show(file)} ({floor}) imports tacit.{target}, a floor above"
        for floor, file in python_modules()
        for target in python_imports(file)
        if HEIGHT.get(target, -1) > HEIGHT[floor]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", GUARDED)
def test_who_includes_other_libraries(library: str) -> None:
    pattern, allowed = GUARDED[library]
    wrong = [
        f"{show(file)} includes {name}"
        for floor, file in sources()
        if floor not in allowed
        for name in includes(file)
        if pattern.match(name)
    ]
    assert not wrong, f"{library} headers belong to {sorted(allowed)}:\n" + "\n".join(wrong)


def test_one_judge_of_convergence() -> None:
    """`converged` is said in krylov/outer.cpp alone; elsewhere it is asked for (==, !=) and has a name."""
    says = re.compile(r"(?<![=!]= )(?<![=!]= krylov::)Reason::converged(?!, \"converged\")")
    wrong = [
        show(file) for _, file in sources() if says.search(file.read_text()) and show(file) != "src/krylov/outer.cpp"
    ]
    assert not wrong, f"files that say `converged` by themselves (krylov::judge does): {wrong}"


def test_public_headers_start_with_a_sentence() -> None:
    """A header says what it is for before it says anything else."""
    silent = [
        show(file)
        for file in sorted((ROOT / "include/tacit").rglob("*.hpp"))
        if not file.read_text().startswith(("// ", "/// ", "/*"))
    ]
    assert not silent, f"headers without a first comment line: {silent}"
