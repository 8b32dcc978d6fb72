"""Common parts of the Python tests: problems with a known answer, and ways to run a few ranks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import LONG

import tacit

ROOT = Path(__file__).resolve().parent.parent.parent

# Lets Open MPI run as root and with more ranks than cores; MPICH ignores it.
ALLOW = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMP_NUM_THREADS": "1",
}
SCALARS = ["float32", "float64", "complex64", "complex128"]
# Where SIGINT is ignored (nohup, jobs in the background, some CI systems) children would ignore Ctrl-C too.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def in_this_build(names: Iterable[str]) -> list[str]:
    """Those of these methods or preconditioners that the build has: direct ones need Eigen."""
    return [name for name in names if name != "direct" or tacit._core.direct_built()]


Run = Callable[..., subprocess.CompletedProcess[str]]  # what the fixture `python` is


def laplacian(n: int, m: int = 1) -> sp.csr_array:
    """Symmetric positive definite, n m unknowns."""

    def line(k: int) -> sp.csr_array:
        return sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(k, k)).tocsr()

    if m == 1:
        return line(n)
    return sp.csr_array(sp.kron(line(n), sp.eye_array(m)) + sp.kron(sp.eye_array(n), line(m)))


def unsymmetric(n: int, seed: int = 0) -> sp.csr_array:
    """Diagonally dominant, no symmetry in pattern or values."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((n, n), density=min(1.0, 6 / n), rng=rng, format="csr")
    return sp.csr_array(a + sp.diags_array(2 + abs(a).sum(axis=1)))


def as_scalar(a: Any, scalar: str) -> Any:
    """The matrix in this scalar; a complex one gets an imaginary part that keeps it dominant, or Hermitian."""
    if not scalar.startswith("complex"):
        return a.astype(scalar)
    k = sp.triu(a, 1)
    return sp.csr_array(a + 0.3j * (k - k.T)).astype(scalar)


def true_residual(a: Any, x: np.ndarray, b: np.ndarray) -> float:
    """||b - A x|| / ||b|| in double precision."""
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(x) else np.float64
    a, x, b = a.astype(wide), x.astype(wide), np.asarray(b).astype(wide)
    return float(np.linalg.norm(b - a @ x) / np.linalg.norm(b))


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Runs a piece of Python in a process of its own, or with ranks=n in n that mpiexec starts."""

    def run(code: str, *, ranks: int = 0, timeout: float = LONG, check: bool = True, **environment: str) -> Any:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(code))
        command = [sys.executable, str(script)]
        if ranks:
            command = [mpiexec(), "-n", str(ranks), *command]
        env = os.environ | ALLOW | {"PYTHONUNBUFFERED": ""} | environment  # ranks write whole lines
        path = env.get("PYTHONPATH")
        env["PYTHONPATH"] = str(ROOT / "python") + (os.pathsep + path if path else "")
        done = subprocess.run(
            command, env=env, text=True, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, cwd=tmp_path
        )
        if check:
            assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done

    return run


def mpiexec() -> str:
    """The mpiexec of the MPI that Tacit was built with; skips the test where there is none."""
    from tacit import comm

    if not comm.library():
        pytest.skip("a build without MPI")
    for place in (Path(sys.executable).parent / "mpiexec", shutil.which("mpiexec")):
        if place and os.access(place, os.X_OK):
            return str(place)
    pytest.skip("no mpiexec")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    """A test that ends since this build is without applications is one that was skipped."""
    report = yield
    said = report.longreprtext + report.capstdout + report.capstderr
    if call.excinfo is not None and not tacit._core.applications_built and "without its applications" in said:
        file, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (file, (line or 0) + 1, "Skipped: needs the applications")
    return report
