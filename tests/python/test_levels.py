"""tacit/_core.py: a wheel for any processor takes the best of its modules that this processor can execute."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tacit._core

SOURCE = Path(__file__).resolve().parent.parent.parent / "python" / "tacit" / "_core.py"
V2 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = "avx512f avx512bw avx512cd avx512dq avx512vl"


def choose(folder: Path, flags: str, **environment: str) -> str:
    """What the file loads in a folder for a processor with these flags."""
    (folder / "cpuinfo").write_text(f"processor: 0\nflags\t\t: fpu {flags}\n\nprocessor: 1\nflags: fpu\n")
    (folder / "_core.py").write_text(
        SOURCE.read_text().replace("/proc/cpuinfo", str(folder / "cpuinfo")).replace("_load(_choose())", "")
    )
    code = "import sys; sys.path.insert(0, sys.argv[1]); import _core; print(_core._choose().name)"
    known = {name: value for name, value in os.environ.items() if name != "TACIT_LEVEL"} | environment
    words = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(words, env=known, text=True, capture_output=True, timeout=60)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    for level in ("v2", "v3", "v4"):
        (tmp_path / f"_core_x86-64-{level}.so").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "level"),
    [(V2, "v2"), (f"{V2} {V3}", "v3"), (f"{V2} {V3} {V4}", "v4"), (f"{V2} {V4}", "v2"), (f"{V2} avx avx2 fma", "v2")],
)
def test_the_best_level_of_the_processor_is_taken(wheel: Path, flags: str, level: str) -> None:
    assert choose(wheel, flags) == f"_core_x86-64-{level}.so"


def test_a_level_can_be_named(wheel: Path) -> None:
    assert choose(wheel, f"{V2} {V3} {V4}", TACIT_LEVEL="x86-64-v2") == "_core_x86-64-v2.so"
    said = choose(wheel, V2, TACIT_LEVEL="x86-64-v5")
    assert "TACIT_LEVEL=x86-64-v5: here are x86-64-v2, x86-64-v3, x86-64-v4" in said


def test_the_best_one_may_be_missing(wheel: Path) -> None:
    (wheel / "_core_x86-64-v4.so").unlink()
    assert choose(wheel, f"{V2} {V3} {V4}") == "_core_x86-64-v3.so"


def test_a_processor_that_is_too_old_is_named(wheel: Path) -> None:
    (wheel / "_core_x86-64-v2.so").unlink()
    said = choose(wheel, V2)
    assert "needs a processor of level x86-64-v3, and this one lacks avx, avx2" in said
    assert "--no-binary" in said


def test_without_a_module_the_cure_is_named(tmp_path: Path) -> None:
    said = choose(tmp_path, V2)
    assert "has no compiled module" in said
    assert "./run" in said


def test_the_module_takes_the_place_of_the_file(tmp_path: Path) -> None:
    """With the module of this build as the only level: all of the package is there, and imported once."""
    file = tacit._core.__file__
    if file is None or not Path(file).name.startswith("_core."):
        pytest.skip("this is such a wheel already")
    package = tmp_path / "tacit"
    shutil.copytree(SOURCE.parent, package, ignore=shutil.ignore_patterns("_core.*.so", "__pycache__"))
    (package / "_core_x86-64.so").symlink_to(Path(file).resolve())
    code = (
        "import tacit, numpy as np, sys\n"
        "from tacit import _core\n"
        "assert _core is sys.modules['tacit._core'] is tacit._core, _core\n"
        "assert _core.__file__.endswith('_core_x86-64.so'), _core.__file__\n"
        "print(tacit.solve(tacit.poisson((20, 20)), np.ones(400)).info)\n"
    )
    known = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=known, text=True, capture_output=True, timeout=120)
    assert done.stdout.strip() == "0", done.stderr


def test_the_levels_are_those_of_the_psabi() -> None:
    """As gcc defines them, for the instruction sets that it has macros of."""
    if shutil.which("g++") is None or os.uname().machine != "x86_64":
        pytest.skip("no g++ for x86-64")
    text = SOURCE.read_text().replace("_load(_choose())", "")
    names: dict[str, object] = {"__file__": str(SOURCE), "__name__": "levels"}
    exec(compile(text, str(SOURCE), "exec"), names)
    levels = names["_LEVELS"]
    assert isinstance(levels, dict)
    words = {"pni": "SSE3", "abm": "LZCNT", "cx16": "GCC_HAVE_SYNC_COMPARE_AND_SWAP_16", "lahf_lm": "LAHF_SAHF"}
    words |= {"bmi1": "BMI"}
    before: set[str] = set()
    for level, flags in levels.items():
        command = ["g++", f"-march={level}", "-dM", "-E", "-x", "c++", "/dev/null"]
        done = subprocess.run(command, text=True, capture_output=True, timeout=60)
        if done.returncode != 0:
            pytest.skip(f"this g++ does not know {level}")
        macros = {line.split()[1].strip("_") for line in done.stdout.splitlines()}
        for flag in flags:
            name = words.get(flag, flag.upper())
            if flag != "xsave":  # of the operating system; gcc does not enable it by the level
                assert name in macros or name == "LAHF_SAHF", (level, flag)
            assert name not in before, (flag, "belongs to a lower level")
        before = macros


def test_the_module_exports_nothing_of_the_library() -> None:
    """Static variables of templates are unique in a process, also those of Eigen: another package's module would share
    them."""
    file = tacit._core.__file__
    if file is None or shutil.which("nm") is None:
        pytest.skip("no nm")
    done = subprocess.run(["nm", "-D", "--defined-only", file], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    names = [line.split()[-2:] for line in done.stdout.splitlines()]
    assert "PyInit__core" in [name for _, name in names]
    if "_ZN12cuda_on_host6countsEv" in [name for _, name in names]:
        pytest.skip("a build with the CPU emulator of CUDA, which tests call by its names")
    assert [name for kind, name in names if kind == "u"] == []
    assert [name for _, name in names if name.startswith(("_ZN5Eigen", "_ZN5tacit2op", "_ZNK5tacit2op"))] == []
