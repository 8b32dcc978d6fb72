"""Arrows only point down: no include and no import reaches a higher floor, and methods know neither MPI nor CUDA."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the bottom up. Folders of one floor may include each other, but only in one direction.
FLOORS = [
    {"base"},
    {"exec", "io"},
    {"comm"},
    {"layout", "model"},
    {"op"},
    {"krylov", "precond"},
    {"app"},
    {"c"},
    {"petsc"},
]
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}

# Modules and folders of python/tacit. Those of one floor, and those of one folder, may import each other.
PYTHON = ROOT / "python/tacit"
PYTHON_FLOORS = [
    {
        *("_alike", "_core", "_described", "_files", "_harwell", "_mpi", "_names", "_options", "_outcome", "_preconds"),
        *("_progress", "_support", "_svg", "_traffic"),
        *("launch", "methods", "report"),
    },
    {"plot"},
    {"io"},
    {"comm"},
    {"device", "layout"},
    {"op"},
    {"precond"},
    {"krylov"},
    {"_gradients", "advice", "files", "jax", "scipy", "simulate", "torch"},
    {"app"},
    {"cli"},
    {"__init__", "__main__"},
]
PYTHON_HEIGHT = {name: height for height, names in enumerate(PYTHON_FLOORS) for name in names}
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
    """Each source file of the library with its floor."""
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
    if parts[0] in HEIGHT:  # of src
        return parts[0]
    return parts[1] if parts[0] == "tacit" and len(parts) > 2 else None


def show(file: Path) -> str:
    return str(file.relative_to(ROOT))


def python_modules() -> dict[str, Path]:
    """Every module of the package by its full name; that of a folder's __init__ is the folder's."""
    found = {}
    for file in sorted(PYTHON.rglob("*")):
        if file.suffix in {".py", ".pyi"}:
            parts = file.relative_to(PYTHON.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def python_floor(module: str) -> str:
    return (module.split(".") + ["__init__"])[1]


def python_imports(module: str, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that one imports, at its head, inside functions and for type checkers alike.

    `from .op import x` is an import of tacit.op.x if that is a module, else of tacit.op.
    """
    file = modules[module]
    folder = module.split(".") if file.stem == "__init__" else module.split(".")[:-1]
    named = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            named += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            named += [(origin, alias.name) for alias in node.names]
    found = set()
    for origin, name in named:
        if origin.split(".")[0] == PYTHON.name:
            target = f"{origin}.{name}" if f"{origin}.{name}" in modules else origin
            assert target in modules, f"{show(file)} imports {target}, which is not there"
            found.add(target)
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Names along one circle of a graph, the first again at the end; none if there is no circle."""
    path: list[str] = []
    done: set[str] = set()

    def walk(name: str) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for target in sorted(graph[name]):
            if found := walk(target):
                return found
        path.pop()
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := walk(name))), [])


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


def test_every_python_module_is_on_a_floor() -> None:
    floors = {python_floor(module) for module in python_modules()}
    named = set(PYTHON_HEIGHT)
    assert floors == named, f"on no floor of PYTHON_FLOORS: {floors - named}; floors without a module: {named - floors}"


def test_python_imports_point_down() -> None:
    modules = python_modules()
    wrong = [
        f"{show(file)} imports {target}, a floor above"
        for module, file in modules.items()
        for target in sorted(python_imports(module, modules))
        if PYTHON_HEIGHT[python_floor(target)] > PYTHON_HEIGHT[python_floor(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_python_imports_make_no_circle() -> None:
    modules = python_modules()
    found = circle({module: python_imports(module, modules) for module in modules})
    assert not found, f"modules that import each other: {' -> '.join(found)}"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"c"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}, ["c", "d", "b", "c"]),
        ({"a": {"a"}}, ["a", "a"]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], expected: list[str]) -> None:
    assert circle(graph) == expected


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


def test_only_comm_knows_the_simulator() -> None:
    """Floors above comm ask a communicator for properties (has_threads(), clock()), not whether it is simulated."""
    asks = re.compile(r"comm/simulate\.hpp|\bMachineModel\b|\bis_simulated\(|\bsimulated_machine\(|\bsimulate\(")
    wrong = [
        show(file) for floor, file in sources() if HEIGHT[floor] > HEIGHT["comm"] and asks.search(file.read_text())
    ]
    assert not wrong, f"files above comm that know the simulator: {wrong}"


def test_one_judge_of_convergence() -> None:
    """Only krylov/outer.cpp assigns Reason::converged; elsewhere it is compared (==, !=) and named."""
    says = re.compile(r"(?<![=!]= )(?<![=!]= krylov::)Reason::converged(?!, \"converged\")")
    wrong = [
        show(file) for _, file in sources() if says.search(file.read_text()) and show(file) != "src/krylov/outer.cpp"
    ]
    assert not wrong, f"files that say `converged` by themselves (krylov::judge does): {wrong}"


MOST_LINES = {"function": 60, "class": 400}

# Longer ones, and why: ten at most.
LONG = {
    "src/op/stencil_sweeps.cpp: run": "one time step after another on slabs in the cache: its closures share them",
    "src/op/stencil_sweeps.cpp: sweeps": "exchanges, tiles and threads of one pass share its numbers",
    "src/op/csr_powers_impl.hpp: powers_kernel": "levels of rows and vectors share their buffers",
    "src/precond/multigrid/lines.hpp: interpolate_line": "its loops are inlined: divided, a solve takes a tenth longer",
}


def long_blocks(text: str) -> list[tuple[int, str]]:
    """Lines and names of functions and classes that are too long, in C++ as clang-format leaves it.

    A block begins at the last line that is indented as its closing brace is. A block within a long one does not count.
    """
    found: list[tuple[int, int, str]] = []
    last: dict[int, tuple[int, str]] = {}  # by indentation
    for number, line in enumerate(text.splitlines()):
        code = line.lstrip()
        if not code or code.startswith(("#", "//")):
            continue
        indent = len(line) - len(code)
        if code in ("}", "};"):
            start, head = last[indent]
            named = re.match(r"(namespace|class|struct|union|enum)\b", head)
            kind = "function" if not named else "class" if named[1] in ("class", "struct", "union") else ""
            if kind and number - start + 1 > MOST_LINES[kind]:
                found = [one for one in found if kind == "class" or one[0] < start]
                found.append((start, number - start + 1, head))
        last[indent] = number, code
    names = (re.search(r"(?:class|struct|union) (\w+)|([~\w]+)\(", head) for _, _, head in found)
    return [(lines, name[1] or name[2] if name else head) for (_, lines, head), name in zip(found, names, strict=True)]


def long_definitions(text: str) -> list[tuple[int, str]]:
    """The same in Python, without a function's docstring."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if not isinstance(node, ast.ClassDef) and ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            if lines > MOST_LINES["class" if isinstance(node, ast.ClassDef) else "function"]:
                found.append((lines, node.name))
    return found


def test_long_functions_are_found() -> None:
    body = "  if (a) {\n" + 58 * "    b = a;\n" + "  }\n"
    text = f"namespace a {{\nint f(int a,\n      int b) {{\n{body}  return b;\n}}\n}}\n"
    assert long_blocks(text) == [(64, "f")]
    assert not long_blocks(text.replace(4 * "    b = a;\n", ""))
    members = 398 * "  int a;\n"
    assert long_blocks(f"class A {{\n public:\n{members}}};\n") == [(401, "A")]
    assert not long_blocks(f"struct A {{\n{members}}};\n")
    assert long_definitions("def f():\n" + 60 * "    a = 1\n") == [(61, "f")]
    assert not long_definitions('def f():\n    """a\n    b"""\n' + 59 * "    a = 1\n")


def test_functions_can_be_read() -> None:
    """A function fits on a screen, a class on a few pages."""
    found = {}
    for folder in ("include", "src", "python"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in SOURCES:
                blocks = long_blocks(file.read_text())
            elif file.suffix == ".py":
                blocks = long_definitions(file.read_text())
            else:
                continue
            found |= {f"{show(file)}: {name}": lines for lines, name in blocks}
    wrong = [f"{name}: {lines} lines" for name, lines in found.items() if name not in LONG]
    assert not wrong, f"functions of more than 60 lines, classes of more than 400: {wrong}"
    assert set(LONG) <= set(found), f"short enough now, take them out of LONG: {set(LONG) - set(found)}"
    assert len(LONG) <= 10


# Of std, what a kernel may call: types, and what CUDA declares for the device. nvcc leaves a call of another constexpr
# function out of the kernel, and its warning is turned off (cmake/TacitCuda.cmake), because formulas are compiled for
# std::complex too.
IN_KERNELS = re.compile(
    r"size_t|ptrdiff_t|uintptr_t|u?int(8|16|32|64)_t|(make_)?index_sequence(_for)?|integral_constant|bool_constant|declval"
    r"|sqrt|fabs|hypot|fma|fmax|fmin|ldexp|log|exp|sin|cos|atan2|isfinite|isnan"
)


def host_calls_of_kernels(text: str) -> list[str]:
    """Calls of std's host functions in functions for the device; not those in the host's part of __CUDA_ARCH__."""
    text = re.sub(r"#ifdef __CUDA_ARCH__\n(.*?)(#else\n.*?)?#endif", r"\1", text, flags=re.S)
    text = re.sub(r"^\s*#.*$|//.*$", "", text, flags=re.M)
    found = []
    for mark in re.finditer(r"\b(TACIT_HD|__device__|__global__)\b", text):
        depth, begin = 0, mark.end()
        while begin < len(text) and (depth > 0 or text[begin] not in "{;"):
            depth += {"(": 1, ")": -1}.get(text[begin], 0)
            begin += 1
        if begin == len(text) or text[begin] == ";":
            continue
        end, depth = begin, 0
        while end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        for call in re.finditer(r"std::(\w+)(?:<[^<>;]*>)?(?:::\w+)?\(", text[begin:end]):
            if not IN_KERNELS.fullmatch(call[1]):
                found.append(call[0] + ")")
    return found


def test_host_calls_of_kernels_are_found() -> None:
    kernel = (
        "template <class T>\nTACIT_HD T f(T a, T b) const {\n  return BODY;\n}\nT g(T a) { return std::max(a, a); }\n"
    )
    assert host_calls_of_kernels(kernel.replace("BODY", "std::max(a, b)")) == ["std::max()"]
    assert host_calls_of_kernels(kernel.replace("BODY", "a * std::numeric_limits<T>::epsilon()"))
    assert not host_calls_of_kernels(kernel.replace("BODY", "std::sqrt(a) + T(std::size_t(b))"))
    assert not host_calls_of_kernels(
        kernel.replace(
            "return BODY;", "\n#ifdef __CUDA_ARCH__\n  return a;\n#else\n  return std::bit_cast<T>(a);\n#endif\n"
        )
    )


def test_kernels_call_no_host_function() -> None:
    """What nvcc would leave out of a kernel, silently: std::max is the usual one."""
    files = [
        file
        for folder in ("include", "src", "bench/device")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".hpp", ".cu", ".cuh"}
    ]
    wrong = [f"{show(file)}: {call}" for file in sorted(files) for call in host_calls_of_kernels(file.read_text())]
    assert not wrong, "\n".join(wrong)


# Sizes of vectors that do not follow from register_bytes, and why.
OTHER_VECTORS = {
    "src/exec/checksum.cpp": "whole numbers: AVX has registers of 32 bytes for them from AVX2 on only",
    "src/model/memory.cpp": "32 bytes: half a register, one, or two, whose sums wait for memory in any case",
}


def vectors_of_one_size(text: str) -> list[str]:
    """Vectors of gcc whose size does not depend on the processor."""
    found = re.findall(r"vector_size\((?:[^()]|\([^()]*\))*\)", text)
    return [vector for vector in found if "register_bytes" not in text or re.fullmatch(r"vector_size\(\d+\)", vector)]


def test_vectors_of_one_size_are_found() -> None:
    one = "typedef float V __attribute__((vector_size(64)));"
    assert vectors_of_one_size(one) == ["vector_size(64)"]
    assert vectors_of_one_size(one + "constexpr int bytes = register_bytes;") == ["vector_size(64)"]
    by_lanes = "typedef T V __attribute__((vector_size(lanes * sizeof(T))));"
    assert vectors_of_one_size(by_lanes) == ["vector_size(lanes * sizeof(T))"]
    assert not vectors_of_one_size("constexpr int lanes = register_bytes / int(sizeof(T));" + by_lanes)


def test_vectors_fit_registers() -> None:
    """gcc keeps a vector in memory that is longer than a register, and its loops take up to ten times as long.

    Nothing else shows it on a processor with AVX-512, where 64 bytes are a register.
    """
    found = {show(file): vectors for _, file in sources() if (vectors := vectors_of_one_size(file.read_text()))}
    wrong = [f"{file}: {vector}" for file, vectors in found.items() if file not in OTHER_VECTORS for vector in vectors]
    assert not wrong, "take Registers or register_bytes of base/registers.hpp instead:\n" + "\n".join(wrong)
    assert set(OTHER_VECTORS) <= set(found), f"take them out of OTHER_VECTORS: {set(OTHER_VECTORS) - set(found)}"


def test_public_headers_start_with_a_sentence() -> None:
    """The first line of a public header says what the header is for."""
    silent = [
        show(file)
        for file in sorted((ROOT / "include/tacit").rglob("*.hpp"))
        if not file.read_text().startswith(("// ", "/// ", "/*"))
    ]
    assert not silent, f"headers without a first comment line: {silent}"


def test_public_headers_are_reached() -> None:
    """A header that only the library's own sources include belongs in src, and none in include needs one of src."""
    public = {
        show(file).removeprefix("include/"): file
        for file in (ROOT / "include/tacit").rglob("*")
        if file.is_file() and file.suffix != ".f90"  # a module is used by its name
    }
    wrong = [
        f"{name} includes {other}, which is not installed"
        for name, file in sorted(public.items())
        for other in includes(file)
        if other.split("/")[0] in HEIGHT
    ]
    users = [
        file
        for folder in ("bench", "examples", "python/bindings", "tests")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in SOURCES | {".c"}
    ]
    reached: set[str] = set()
    waiting = [name for file in users for name in includes(file)]
    while waiting:
        name = waiting.pop()
        if name in public and name not in reached:
            reached.add(name)
            waiting += includes(public[name])
    wrong += [f"nothing outside src reaches {name}" for name in sorted(set(public) - reached)]
    assert not wrong, "\n".join(wrong)
