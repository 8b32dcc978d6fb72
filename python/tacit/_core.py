"""The compiled module of this processor.

A source folder and a wheel for one processor have the compiled module itself, which is found before this file. A wheel
for any processor has one for each level of instruction sets, `_core_LEVEL.so`: this file takes the best one that the
processor has, or that TACIT_LEVEL names.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

# What a level has beyond the one before it, in the words of /proc/cpuinfo. The levels are those of the x86-64 psABI.
_LEVELS = {
    "x86-64": (),
    "x86-64-v2": ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
_HERE = Path(__file__).parent


def _flags() -> set[str]:
    """The instruction sets of the first processor; empty where they are not listed."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


def levels() -> dict[str, Path]:
    """The modules that this installation has, by level, the lowest first."""
    found = {file.stem.removeprefix("_core_"): file for file in _HERE.glob("_core_*.so")}
    return {level: found[level] for level in (*_LEVELS, *sorted(found.keys() - _LEVELS.keys())) if level in found}


def _choose() -> Path:
    here = levels()
    if not here:
        raise ImportError(
            f"{_HERE} has no compiled module for Python {sys.version_info[0]}.{sys.version_info[1]}: in a source folder"
            " ./run builds it; elsewhere, pip install --force-reinstall tacit-solvers",
            name=__name__,
        )
    wanted = os.environ.get("TACIT_LEVEL")
    if wanted:
        if wanted not in here:
            raise ImportError(f"TACIT_LEVEL={wanted}: here are {', '.join(here)}", name=__name__)
        return here[wanted]
    flags, usable = _flags(), []
    for level, more in _LEVELS.items():
        if not flags.issuperset(more):
            break
        usable.append(level)
    fitting = [level for level in here if level in usable or level not in _LEVELS]
    if not fitting:
        lacking = [flag for flag in sum(_LEVELS.values(), ()) if flag not in flags]
        raise ImportError(
            f"this wheel needs a processor of level {next(iter(here))}, and this one lacks {', '.join(lacking[:4])}:"
            " build Tacit here, pip install --no-binary tacit-solvers tacit-solvers",
            name=__name__,
        )
    return here[fitting[-1]]


def _load(file: Path) -> None:
    """Puts the compiled module in the place of this one, which importlib then returns."""
    loader = importlib.machinery.ExtensionFileLoader(__name__, str(file))
    spec = importlib.util.spec_from_file_location(__name__, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = module
    loader.exec_module(module)


_load(_choose())
