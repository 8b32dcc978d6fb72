"""tacit/_mpi.py: which MPI a wheel that is linked to none takes, and that it takes none before it has to."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tacit
from tacit import _core, _mpi, launch


def test_another_library_by_ld_library_path_is_named(tmp_path: Path) -> None:
    """The loader takes a library of the same name from there, before that which Tacit was built with."""
    if not all(shutil.which(tool) for tool in ("readelf", "gcc")):
        pytest.skip("no compiler")
    needed = subprocess.run(["readelf", "-d", str(_core.__file__)], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"NEEDED.*\[(libmpi\S*|lib\S*openblas\S*)\]", needed)
    if not names:
        pytest.skip("the module needs neither MPI nor OpenBLAS")
    (tmp_path / "empty.c").write_text("int nothing;\n")
    make = ["gcc", "-shared", "-fPIC", str(tmp_path / "empty.c"), f"-Wl,-soname,{names[0]}"]
    subprocess.run([*make, "-o", str(tmp_path / names[0])], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    for command in (["-c", "import tacit; tacit.solve"], ["-m", "tacit", "doctor"]):
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
        assert done.returncode != 0
        assert f"LD_LIBRARY_PATH={tmp_path} comes before" in done.stderr.splitlines()[-1]


MODULES = {"openmpi": Path("/wheel/_mpi_openmpi.so"), "mpich": Path("/wheel/_mpi_mpich.so")}


class Machine:
    """Libraries that can be loaded, by name, with their kind; `loaded` are those that the process has."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, libraries: dict[str, str], loaded: tuple[str, ...] = ()
    ) -> None:
        self.libraries, self.loaded = libraries, loaded
        self.tried: list[str] = []
        self.taken: list[str] = []
        core = SimpleNamespace(
            mpi_built=lambda: bool(self.taken), mpi_load=self.taken.append, Error=_core.Error,
            EnvironmentFailure=_core.EnvironmentFailure,
        )  # fmt: skip
        for name in (*launch._SHOWN[0], *launch._SHOWN[1], "PMIX_RANK", "MPI_LOCALNRANKS", "TACIT_MPI_LIBRARY"):
            monkeypatch.delenv(name, raising=False)
        for name in _mpi._LOADERS:
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(_mpi, "_core", core)
        monkeypatch.setattr(_mpi, "modules", lambda: MODULES)
        monkeypatch.setattr(_mpi.shutil, "which", lambda name: None)
        monkeypatch.setattr(ctypes, "CDLL", self.open)

    def open(self, name: str, mode: int) -> Any:
        self.tried.append(name)
        assert mode & os.RTLD_GLOBAL, "the module would not find MPI's names"
        if name not in (self.loaded if mode & os.RTLD_NOLOAD else self.libraries):
            raise OSError(f"{name}: cannot open shared object file")
        names = {"openmpi": ["ompi_mpi_comm_world", "MPI_Init_thread"], "mpich": ["MPI_Init_thread"], "": []}
        return SimpleNamespace(**dict.fromkeys(names[self.libraries[name]]))

    @property
    def kind(self) -> str:
        return Path(self.taken[0]).stem.removeprefix("_mpi_") if self.taken else ""


BOTH = {"libmpi.so.40": "openmpi", "libmpi.so.12": "mpich"}


@pytest.mark.parametrize(
    ("libraries", "environment", "kind"),
    [
        ({}, {}, ""),
        ({"libmpi.so.40": "openmpi"}, {}, "openmpi"),
        ({"libmpich.so.12": "mpich"}, {}, "mpich"),
        (BOTH, {"OMPI_COMM_WORLD_SIZE": "2"}, "openmpi"),
        (BOTH, {"PMIX_RANK": "0"}, "openmpi"),
        (BOTH, {"PMI_SIZE": "2"}, "mpich"),
        (BOTH | {"/opt/libmpi.so": "openmpi"}, {"TACIT_MPI_LIBRARY": "/opt/libmpi.so", "PMI_SIZE": "2"}, "openmpi"),
        (BOTH, {"TACIT_MPI_LIBRARY": "none"}, ""),
    ],
)
def test_the_launchers_kind_is_taken_first(
    monkeypatch: pytest.MonkeyPatch, libraries: dict[str, str], environment: dict[str, str], kind: str
) -> None:
    machine = Machine(monkeypatch, libraries)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _mpi.ready() == bool(kind)
    assert machine.kind == kind


def test_the_mpi_of_the_environment_is_taken_before_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    own = tmp_path / "lib" / "libmpi.so.40"
    own.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    machine = Machine(monkeypatch, BOTH | {str(own): "openmpi"})
    assert _mpi.ready()
    assert machine.kind == "openmpi"
    assert machine.tried[-1] == str(own)
    machine.taken.clear()
    monkeypatch.setenv("PMI_SIZE", "2")  # but not where MPICH's mpiexec started this process
    assert _mpi.ready()
    assert machine.kind == "mpich"


@pytest.mark.parametrize("folder", ["lib", "lib64", "lib/release"])
def test_the_library_beside_mpiexec_is_taken_before_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    own = tmp_path / folder / "libmpi.so.12"
    own.parent.mkdir(parents=True)
    own.touch()
    machine = Machine(monkeypatch, BOTH | {str(own): "mpich"})
    monkeypatch.setattr(_mpi.shutil, "which", lambda name: str(tmp_path / "bin" / name))
    assert _mpi.ready()
    assert machine.tried[-1] == str(own)


def test_the_mpi_that_is_loaded_is_taken_before_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """mpi4py has chosen: another library in the same process would be another MPI."""
    machine = Machine(monkeypatch, BOTH, loaded=("libmpi.so.12",))
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert _mpi.ready()
    assert machine.kind == "mpich"


def test_nothing_is_looked_for_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, BOTH)
    assert not _mpi.ready(search=False)
    assert machine.tried == []
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace())
    assert not _mpi.ready(search=False)
    assert machine.taken == []
    assert machine.tried, "mpi4py may have loaded one"


def test_a_library_that_is_no_mpi_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch, BOTH | {"libm.so.6": ""})
    for name, why in (("libm.so.6", "it is no MPI"), ("/none", "cannot open")):
        monkeypatch.setenv("TACIT_MPI_LIBRARY", name)
        with pytest.raises(RuntimeError, match=f"TACIT_MPI_LIBRARY={name}: .*{why}"):
            _mpi.ready()


def test_the_cure_fits_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACIT_MPI_LIBRARY", raising=False)
    monkeypatch.setattr(_mpi, "modules", lambda: MODULES)
    assert launch.no_mpi() == (
        "no MPI was found", "pip install mpich, or apt install openmpi-bin, or name one in TACIT_MPI_LIBRARY"
    )  # fmt: skip
    monkeypatch.setenv("TACIT_MPI_LIBRARY", "none")
    assert launch.no_mpi()[1] == "unset it"


def test_a_build_with_an_mpi_takes_no_other() -> None:
    if not tacit.comm.library() or _mpi.modules():
        pytest.skip("no MPI is linked")
    with pytest.raises(ValueError, match="has its MPI linked"):
        _core.mpi_load("module.so")


def test_a_module_of_another_kind_is_refused() -> None:
    if _core.mpi_built():
        pytest.skip("an MPI is linked or loaded")
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        _core.mpi_load("/none.so")
    with pytest.raises(RuntimeError, match="is no MPI module of this Tacit"):
        _core.mpi_load("libm.so.6")
