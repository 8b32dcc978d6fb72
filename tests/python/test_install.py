"""What `cmake --install` leaves is enough for a program of somebody else: find_package(tacit), compile, run."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TACIT_BUILD", ROOT / "build" / "release"))
EXAMPLE = ROOT / "examples" / "cpp"


def call(*command: object, cwd: Path | None = None) -> str:
    """The output of a command; if it fails, the test does, and shows it."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, capture_output=True, timeout=280)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def cache(build: Path) -> dict[str, str]:
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    return {m[1]: m[2] for m in (re.match(r"([A-Za-z]\w*):\w+=(.*)", line) for line in lines) if m}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (BUILD / "libtacit.a").exists() or shutil.which("cmake") is None:
        pytest.skip(f"no built library in {BUILD}")
    prefix = tmp_path_factory.mktemp("tacit prefix")  # a blank in the path on purpose
    call("cmake", "--install", BUILD, "--prefix", prefix, "--component", "development")
    return prefix


def test_nothing_of_the_build_leaks(prefix: Path) -> None:
    files = list(prefix.rglob("*.cmake"))
    assert {"tacitConfig.cmake", "tacitConfigVersion.cmake", "tacitTargets.cmake"} <= {file.name for file in files}
    for file in files:
        text = file.read_text()
        for word in (str(ROOT), "tacit_build", "-march", "-fsanitize", "-fcx-limited-range"):
            assert word not in text, f"{file.name} mentions {word}"


@pytest.mark.slow
def test_example(prefix: Path, tmp_path: Path) -> None:
    build = tmp_path / "example"
    settings = cache(BUILD)
    kept = ["CMAKE_MAKE_PROGRAM", "CMAKE_CXX_COMPILER"]
    if "MPI_SKIP_COMPILER_WRAPPER" in settings:  # an MPI that CMake does not find by itself
        kept += [name for name in settings if name.startswith("MPI_") or name == "CMAKE_DISABLE_FIND_PACKAGE_PkgConfig"]
    kept = [f"-D{name}={settings[name]}" for name in kept if settings.get(name)]
    call("cmake", "-G", settings["CMAKE_GENERATOR"], "-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *kept)
    call("cmake", "--build", build)
    out = call(build / "poisson", "40")
    assert "converged" in out
    mpiexec = settings.get("MPIEXEC_EXECUTABLE")
    if settings.get("TACIT_MPI") == "ON" and mpiexec:
        allow = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [mpiexec, "-n", "3", build / "poisson", "40"],
            env=os.environ | allow, text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "converged" in done.stdout
        assert "3 ranks" in done.stdout
