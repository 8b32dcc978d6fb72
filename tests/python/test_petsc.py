"""libtacit_petsc.so, Tacit's methods and preconditioners in PETSc: in a program of ours, in PETSc's tutorials and from
petsc4py, each where it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ALLOW, ROOT

BUILD = Path(os.environ.get("TACIT_BUILD", ROOT / "build" / "release"))
PLUGIN = BUILD / "src" / "petsc" / "libtacit_petsc.so"
TABLES = ROOT / "include" / "tacit"
METHODS = re.findall(r'^TACIT_METHOD\(\w+, "([^"]+)"', (TABLES / "krylov/methods.def").read_text(), re.M)
PRECONDS = re.findall(r'^TACIT_PRECOND\(\w+, "([^"]+)"', (TABLES / "precond/preconds.def").read_text(), re.M)
pytestmark = pytest.mark.slow


def call(*command: object, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env=os.environ | ALLOW | {"OMP_NUM_THREADS": "1"} | variables,
        text=True, capture_output=True, timeout=280, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def pkg_config(*words: str) -> str:
    return subprocess.run(["pkg-config", *words, "petsc"], text=True, capture_output=True).stdout.strip()


@pytest.fixture(scope="module")
def plugin() -> Path:
    if not shutil.which("pkg-config") or not shutil.which("mpicc") or not pkg_config("--modversion"):
        pytest.skip("no PETSc that pkg-config finds")
    if not (BUILD / "src" / "petsc" / "CMakeFiles" / "tacit_petsc.dir").exists():
        pytest.skip(f"{BUILD} was configured without PETSc")
    if "MPI_SKIP_COMPILER_WRAPPER" in (BUILD / "CMakeCache.txt").read_text():
        pytest.skip("the build's MPI is not the system's, which PETSc has")
    call("cmake", "--build", BUILD, "--target", "tacit_petsc")
    return PLUGIN


def compiled(source: Path, folder: Path) -> Path:
    program = folder / source.stem
    call("mpicc", source, "-o", program, *pkg_config("--cflags").split(), *pkg_config("--libs").split(), "-lm")
    return program


@pytest.fixture(scope="module")
def program(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ROOT / "tests" / "petsc" / "solve.c", tmp_path_factory.mktemp("petsc"))


def run(program: Path, plugin: Path, options: str, ranks: int = 1) -> str:
    return call("mpiexec", "-n", ranks, program, "-dll_append", plugin, *options.split())


def solves(out: str) -> list[tuple[str, int, float]]:
    found = re.findall(r"solve: reason=(\w+) its=(\d+) residual=(\S+)", out)
    return [(reason, int(its), float(residual)) for reason, its, residual in found]


def types(names: list[str]) -> str:
    return ",".join("tacit_" + name.replace("-", "_") for name in names)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_method_is_a_type_of_ksp(program: Path, plugin: Path, ranks: int) -> None:
    names = ["auto", *METHODS]
    out = run(program, plugin, f"-ksps {types(names)} -pc_type jacobi -ksp_rtol 1e-7 -ksp_max_it 3000", ranks)
    found = solves(out)
    assert len(found) == len(names)
    for name, (reason, its, residual) in zip(names, found, strict=True):
        assert (reason, residual <= 1.001e-7, its > 0) == ("CONVERGED_RTOL", True, True), (name, residual)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_preconditioner_is_a_type_of_pc(program: Path, plugin: Path, ranks: int) -> None:
    names = [name for name in PRECONDS if name != "none"]
    out = run(program, plugin, f"-ksps gmres,tacit_gmres -pcs {types(names)} -ksp_rtol 1e-6", ranks)
    found = solves(out)
    assert len(found) == 2 * len(names)
    for name, (reason, _, residual) in zip(2 * names, found, strict=True):
        assert (reason, residual < 1e-4) == ("CONVERGED_RTOL", True), (name, residual)


@pytest.mark.parametrize("ranks", [1, 2])
def test_numbers_and_places_of_the_matrix_may_change(program: Path, plugin: Path, ranks: int) -> None:
    for options in ("-pc_type tacit_amg", "-pc_type bjacobi", "-pc_type tacit_ilu0 -skew 0.3", "-kind shell"):
        out = run(program, plugin, f"-ksp_type tacit_gmres -again -ksp_rtol 1e-8 {options}", ranks)
        found = solves(out)
        assert len(found) == 3
        assert all(reason == "CONVERGED_RTOL" and residual <= 1.001e-8 for reason, _, residual in found), out


@pytest.mark.parametrize("ranks", [1, 2])
def test_shells_null_spaces_and_guesses(program: Path, plugin: Path, ranks: int) -> None:
    out = run(program, plugin, "-kind shell -ksp_type tacit_cg -pc_type jacobi -ksp_rtol 1e-8", ranks)
    assert solves(out)[0][0] == "CONVERGED_RTOL"
    assert int(re.search(r"products=(\d+)", out)[1]) > 20  # type: ignore[index]
    found = solves(
        run(program, plugin, "-closed -ksps tacit_cg,tacit_minres,tacit_ca_gmres -pcs none,tacit_amg,bjacobi", ranks)
    )
    assert len(found) == 9
    assert all(reason == "CONVERGED_RTOL" and residual <= 1.001e-5 for reason, _, residual in found), found
    ((reason, _, residual),) = solves(run(program, plugin, "-closed -far -ksp_type tacit_cg -pc_type jacobi", ranks))
    assert reason == "CONVERGED_RTOL"
    assert residual > 1e-4  # what A does not reach
    ((reason, _, residual),) = solves(run(program, plugin, "-zero -guess -ksp_type tacit_cg", ranks))
    assert (reason.startswith("CONVERGED"), residual) == (True, 0)
    ((reason, _, residual),) = solves(run(program, plugin, "-kind baij -ksp_type tacit_cg -pc_type tacit_ic0", ranks))
    assert reason == "CONVERGED_RTOL"
    for options in ("-pc_type tacit_amg", "-pc_type bjacobi", "-kind shell -pc_type none"):
        found = solves(run(program, plugin, f"-columns -ksp_type tacit_cg -ksp_rtol 1e-8 {options}", ranks))
        assert all(residual <= 1.001e-8 for _, _, residual in found), found
    ((reason, _, residual),) = solves(run(program, plugin, "-guess -ksp_type tacit_cg -ksp_rtol 1e-6", ranks))
    assert reason == "CONVERGED_RTOL"
    assert residual <= 1.001e-6


def test_tolerances_limits_and_tests_of_ksp(program: Path, plugin: Path) -> None:
    def ends(options: str) -> tuple[str, int, float]:
        ((reason, its, residual),) = solves(run(program, plugin, f"-ksp_type tacit_cg -pc_type none {options}"))
        return reason, its, residual

    assert ends("-ksp_max_it 7")[:2] == ("DIVERGED_ITS", 7)
    assert ends("-ksp_max_it 7 -ksp_converged_maxits")[:2] == ("CONVERGED_ITS", 7)
    assert ends("-ksp_max_it 7 -ksp_norm_type none")[:2] == ("CONVERGED_ITS", 7)
    assert ends("-ksp_atol 1e-2 -ksp_rtol 1e-12")[0] == "CONVERGED_ATOL"
    assert ends("-own_test")[:2] == ("CONVERGED_HAPPY_BREAKDOWN", 5)
    plain, initial = (
        ends("-guess -ksp_rtol 1e-6"),
        ends("-guess -ksp_rtol 1e-6 -ksp_converged_use_initial_residual_norm"),
    )
    assert plain[0].startswith("CONVERGED")
    assert initial[0].startswith("CONVERGED")
    assert initial[1] < plain[1]  # ||r_0|| is larger than ||b||


def test_monitors_and_views(program: Path, plugin: Path) -> None:
    out = run(
        program,
        plugin,
        "-ksp_type tacit_cg -pc_type jacobi -ksp_monitor_true_residual -ksp_view -ksp_tacit_report"
        " -ksp_converged_reason",
    )
    lines = re.findall(r"(\d+) KSP unpreconditioned resid norm (\S+) true resid norm (\S+)", out)
    ((_, its, _),) = solves(out)
    assert [int(line[0]) for line in lines] == list(range(its + 1))
    for _, recurrence, true in lines:
        assert float(recurrence) == pytest.approx(float(true), rel=1e-6)
    assert "type: tacit_cg" in out
    assert "Linear solve converged due to CONVERGED_RTOL" in out
    assert re.search(r"tacit: cg with PETSc jacobi: converged after \d+ iterations", out)


def test_options_come_from_the_tables(program: Path, plugin: Path) -> None:
    out = run(
        program, plugin, "-ksp_type tacit_ca_gmres -ksp_tacit_step 4 -ksp_tacit_basis newton -pc_type none -ksp_view"
    )
    assert "step=4" in out
    assert "basis=newton" in out
    out = run(program, plugin, "-ksp_type tacit_gmres -ksp_gmres_restart 17 -pc_type none -ksp_view")
    assert "restart=17" in out
    out = run(program, plugin, "-ksp_type tacit_cg -pc_type tacit_amg -pc_tacit_smoother chebyshev -ksp_view")
    assert "smoother=chebyshev" in out
    help_text = run(program, plugin, "-ksp_type tacit_ca_cg -pc_type tacit_amg -help")
    assert "-ksp_tacit_step" in help_text
    assert "-pc_tacit_smoother" in help_text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("-ksp_type tacit_cg -ksp_tacit_step 4", "ca-cg"),
        ("-ksp_type tacit_ca_cg -ksp_tacit_step 0", "from 1 to 1000"),
        ("-ksp_type tacit_cg -pc_type tacit_amg -pc_tacit_smoother cheby", "chebyshev"),
        ("-ksp_type tacit_cg -kind shell -pc_type tacit_amg -ksp_pc_side symmetric", "symmetric"),
    ],
)
def test_wrong_options_are_refused(program: Path, plugin: Path, options: str, text: str) -> None:
    done = subprocess.run(
        [program, "-dll_append", plugin, *options.split()], text=True, capture_output=True, timeout=100
    )
    assert done.returncode != 0
    assert text in done.stdout + done.stderr


TUTORIALS = next(iter(Path("/usr/share/petsc").glob("*/share/petsc/examples/src/ksp/ksp/tutorials")), Path("none"))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(
    ("tutorial", "options"),
    [
        ("ex2", "-m 60 -n 60 -ksp_type tacit_pipelined_cg -pc_type tacit_amg"),
        ("ex2", "-m 60 -n 60 -ksp_type tacit_ca_gmres -ksp_tacit_step 4 -pc_type bjacobi"),
        ("ex45", "-da_refine 2 -ksp_type tacit_cg -pc_type tacit_amg"),
        (
            "ex45",
            "-da_refine 2 -ksp_type tacit_cg -pc_type mg -mg_levels_ksp_type tacit_richardson -mg_levels_ksp_max_it 2",
        ),
    ],
)
def test_tutorials_of_petsc(plugin: Path, tmp_path: Path, tutorial: str, options: str, ranks: int) -> None:
    source = TUTORIALS / f"{tutorial}.c"
    if not source.exists():
        pytest.skip("PETSc's tutorials are not installed")
    program = compiled(source, tmp_path)
    out = run(program, plugin, f"{options} -ksp_rtol 1e-6 -ksp_converged_reason", ranks)
    assert "Linear solve converged due to CONVERGED_RTOL" in out
    if tutorial == "ex2":
        assert float(re.search(r"Norm of error (\S+)", out)[1]) < 1e-2  # type: ignore[index]


def test_near_null_spaces_of_elasticity(plugin: Path, tmp_path: Path) -> None:
    """Vectors that are given, and those made of coordinates, are the same six motions."""
    if not (TUTORIALS / "ex56.c").exists():
        pytest.skip("PETSc's tutorials are not installed")
    program = compiled(TUTORIALS / "ex56.c", tmp_path)
    options = "-ne 7 -alpha 1e-3 -ksp_rtol 1e-6 -ksp_type tacit_cg -pc_type tacit_amg -pc_tacit_coarsest 100"
    levels = []
    for more in ("", "-use_mat_nearnullspace"):
        out = run(program, plugin, f"{options} -ksp_converged_reason -ksp_view {more}")
        assert "Linear solve converged due to CONVERGED_RTOL" in out
        levels.append(re.findall(r"level of (\d+) rows", out))
    assert levels[0] == levels[1]
    assert int(levels[0][1]) % 6 == 0


def commands_of_the_guide() -> list[str]:
    """The blocks of its page: of PETSc's tutorials, and of dolfinx."""
    page = (ROOT / "docs" / "guide" / "plug-in.md").read_text()
    return re.findall(r"<!-- not run: tests/python/test_petsc.py runs it -->\n```(?:python)?\n(.*?)```", page, re.S)


def test_commands_of_the_guide(plugin: Path, tmp_path: Path) -> None:
    block = commands_of_the_guide()[0]
    if not TUTORIALS.exists():
        pytest.skip("PETSc's tutorials are not installed")
    for name in ("ex2", "ex45"):
        compiled(TUTORIALS / f"{name}.c", tmp_path)
    (tmp_path / plugin.name).symlink_to(plugin)
    for line in block.splitlines():
        out = call(*line.split(), "-ksp_converged_reason", cwd=tmp_path)
        assert "Linear solve converged" in out


SCRIPT = """
import sys
import petsc4py
petsc4py.init(sys.argv)
from petsc4py import PETSc
n = 400
A = PETSc.Mat().createAIJ((n, n), nnz=3)
for i in range(*A.getOwnershipRange()):
    for j, v in ((i - 1, -1), (i, 2.1), (i + 1, -1)):
        if 0 <= j < n:
            A[i, j] = v
A.assemble()
x, b = A.createVecs()
b.set(1)
ksp = PETSc.KSP().create()
ksp.setOperators(A)
ksp.setType("tacit_ca_cg")
ksp.getPC().setType("tacit_amg")
seen = []
ksp.setMonitor(lambda ksp, it, norm: seen.append((it, norm)))
ksp.setTolerances(rtol=1e-9)
ksp.setFromOptions()
ksp.solve(b, x)
r = b - A * x
assert ksp.getConvergedReason() > 0, ksp.getConvergedReason()
assert r.norm() <= 1.001e-9 * b.norm()
assert seen[0] == (0, b.norm()) and len(seen) >= 2
PETSc.Sys.Print("petsc4py solved")
"""


def python_with(module: str) -> tuple[str, str]:
    """A Python that has this module of PETSc's, and PYTHONPATH for it."""
    path = pkg_config("--variable=prefix") + "/lib/python3/dist-packages"  # Debian's place
    for python in ("/usr/bin/python3", sys.executable):
        command = [python, "-c", f"import {module}"]
        if (
            Path(python).exists()
            and not subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True).returncode
        ):
            return python, path
    pytest.skip(f"no Python with {module}")


@pytest.mark.parametrize("ranks", [1, 2])
def test_petsc4py(plugin: Path, tmp_path: Path, ranks: int) -> None:
    python, path = python_with("petsc4py")
    (tmp_path / "script.py").write_text(SCRIPT)
    out = call(
        "mpiexec", "-n", ranks, python, "script.py", "-dll_append", plugin, "-ksp_tacit_step", "3",
        cwd=tmp_path, PYTHONPATH=path,
    )  # fmt: skip
    assert "petsc4py solved" in out


@pytest.mark.parametrize("ranks", [1, 2])
def test_unusual_programs(plugin: Path, ranks: int) -> None:
    """Numbers that are not finite, objects used again, prefixes, inner solves: tests/petsc/hostile.py has the list."""
    python, path = python_with("petsc4py")
    script = ROOT / "tests" / "petsc" / "hostile.py"
    out = call("mpiexec", "-n", ranks, python, script, "-dll_append", plugin, PYTHONPATH=path)
    assert out.count("passed: ") == len(re.findall(r"^def \w+\(\):$", script.read_text(), re.M))


DOLFINX = Path("/usr/share/dolfinx/demo-python")


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_demo_of_dolfinx_as_it_is(plugin: Path, tmp_path: Path, ranks: int) -> None:
    """Stokes' equations: nested vectors and matrices, PETSc's fieldsplit as preconditioner, a null space."""
    python, path = python_with("dolfinx")
    if not (DOLFINX / "demo_stokes.py").exists():
        pytest.skip("the demos of dolfinx are not installed")
    shown = re.search(r'PETSC_OPTIONS="-dll_append \$PWD/libtacit_petsc.so (.*)"', commands_of_the_guide()[1])
    assert shown
    norms = []
    for options in ("", f"-dll_append {plugin} {shown[1]}"):
        out = call(
            "mpiexec", "-n", ranks, python, DOLFINX / "demo_stokes.py",
            cwd=tmp_path, PYTHONPATH=path, PETSC_OPTIONS=options,
        )  # fmt: skip
        assert out.count("tacit: minres with PETSc fieldsplit: converged") == (2 if options else 0)
        norms.append([float(one) for one in re.findall(r"\([AB]\) Norm of .*: (\S+)", out)])
    assert len(norms[0]) == 4
    assert norms[1] == pytest.approx(norms[0], rel=1e-7)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_demo_of_dolfinx_with_its_options_in_the_text(plugin: Path, tmp_path: Path, ranks: int) -> None:
    """Poisson's equation: the demo's own text names the solver, and so there Tacit's is named."""
    python, path = python_with("dolfinx")
    if not (DOLFINX / "demo_poisson.py").exists():
        pytest.skip("the demos of dolfinx are not installed")
    text = (DOLFINX / "demo_poisson.py").read_text()
    given = '{"ksp_type": "preonly", "pc_type": "lu"}'
    assert given in text
    (ours,) = re.findall(r"petsc_options=(\{.*\})", commands_of_the_guide()[2])
    ours = ours.replace("}", ', "ksp_rtol": 1e-8, "ksp_tacit_report": True}')
    (tmp_path / "demo.py").write_text(text.replace(given, ours))
    out = call(
        "mpiexec", "-n", ranks, python, "demo.py",
        cwd=tmp_path, PYTHONPATH=path, PETSC_OPTIONS=f"-dll_append {plugin}",
    )  # fmt: skip
    assert re.search(r"tacit: cg with .*: converged after \d+ iterations", out), out
