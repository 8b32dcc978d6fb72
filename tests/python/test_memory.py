"""Little memory: an error that says how much was asked for and what limits it, and never a crash or a wait for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import LONG
from conftest import ROOT, Run

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space need /proc")

LIMITED = """
import resource, signal, sys
import numpy as np, scipy.sparse as sp, tacit
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm(60)  # a wait for ever ends here
T = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(250, 250))
I = sp.eye_array(250)
A = (sp.kron(T, I) + sp.kron(I, T)).tocsr()
b = np.ones(A.shape[0])
def leave(bytes):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + bytes,) * 2)
"""


@linux_only
def test_openblas_has_room_for_its_buffer_or_is_not_called(python: Run) -> None:
    """OpenBLAS asks for its buffer of 128 MiB again and again until it has it."""
    done = python(
        LIMITED
        + """
full = tacit.csr(np.ones((300, 300)) + 300 * np.eye(300))
tacit.precond.make(full, "jacobi")
leave(64 << 20)
try:
    tacit.precond.amg(full)  # the last level is inverted by LAPACK
    print("made")
except MemoryError as error:
    print(type(error).__name__, error)
""",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
    )
    assert done.stdout.startswith(("OutOfMemory out of memory: ", "made")), done.stdout
    if done.stdout.startswith("Out"):
        assert "are free of the limit of address space" in done.stdout


@linux_only
def test_a_matrix_stays_as_it_is_where_new_values_do_not_fit(python: Run) -> None:
    """Values that need more bits than are stored of them: what cannot be stored changes nothing, nor does it differ
    from one part to another."""
    done = python(
        LIMITED
        + """
n = 400_000
band = sp.diags_array([1.0, 3.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
band.data[:] = np.arange(band.nnz) % 255
A = tacit.csr(band)
assert "bfloat16" in A.storage, A.storage
x, new = np.ones(n), (band.data + 7) % 255
new[-1] += 1 / 3
before, diagonal = A @ x, A.diagonal()
leave(4 << 20)
try:
    A.update_values(new)
    print("updated")
except MemoryError:
    print("refused")
    assert "bfloat16" in A.storage, A.storage
    assert np.array_equal(A @ x, before) and np.array_equal(A.diagonal(), diagonal)
""",
        OMP_NUM_THREADS="1",
    )
    assert done.stdout.strip() == "refused", done.stdout


@linux_only
@pytest.mark.slow
def test_tiled_matrices_under_limits_of_address_space(python: Run) -> None:
    ends = set()
    for megabytes in range(6, 26, 2):
        done = python(
            LIMITED
            + f"""
tacit.solve(A, b, method="cg", max_iterations=3, threads=2)
leave({megabytes} << 20)
try:
    tacit.tiled(A) @ b
    print("made")
except MemoryError as error:
    print(error)
""",
            OMP_NUM_THREADS="2",
            check=False,
        )
        assert done.returncode == 0, (megabytes, done.returncode, done.stderr[-500:])
        assert "bad_alloc" not in done.stdout
        ends.add("made" if "made" in done.stdout else "refused")
    assert "refused" in ends, "the limits are too high to test anything"


@linux_only
def test_a_limit_of_a_control_group_is_seen_before_it_is_met(tmp_path: Path) -> None:
    """The system would end the process when it writes to the pages."""
    group = Path("/sys/fs/cgroup/memory")
    limit, members = "memory.limit_in_bytes", "cgroup.procs"
    if not (group / limit).exists():
        group, limit = Path("/sys/fs/cgroup"), "memory.max"
    job = group / f"tacit-test-{os.getpid()}"
    try:
        job.mkdir()
        (job / limit).write_text(str(300 << 20))
    except OSError:
        if job.exists():
            job.rmdir()
        pytest.skip("control groups cannot be made here")
    program = tmp_path / "program.py"
    program.write_text(
        f"import os; open({str(job / members)!r}, 'w').write(str(os.getpid()))\n"
        "import tacit\n"
        "from tacit import _core\n"
        "print(min(limit for _, limit, _ in _core.memory_limits()))\n"
        "import numpy as np\n"
        "A = tacit.stencil((2000, 2000), [4.0, -1.0])\n"
        "try: tacit.solve(A, np.ones(4_000_000), method='gmres', precond='none')\n"
        "except MemoryError as error: print(error)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, str(program)],
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=LONG,
        )
    finally:
        for _ in range(50):
            try:
                job.rmdir()
                break
            except OSError:
                time.sleep(0.1)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    assert done.stdout.startswith(str(300 << 20)), done.stdout
    assert "out of memory: " in done.stdout, done.stdout
    assert job.name in done.stdout, done.stdout


def test_ctrl_c_ends_incomplete_factors(python: Run) -> None:
    """The factors would take much longer than the time after which the signal comes."""
    done = python(
        """
        import signal, time, numpy as np, scipy.sparse as sp, tacit
        n = 6000
        rng = np.random.default_rng(1)
        A = sp.random_array((n, n), density=0.003, rng=rng, format="csr") + 40 * sp.eye_array(n)
        A = tacit.csr(A.tocsr())
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            tacit.precond.make(A, "iluk", levels=30)
            print("made")
        except KeyboardInterrupt:
            print("ended", time.thread_time())
        """
    )
    word, *seconds = done.stdout.split()
    assert word == "ended", done.stdout
    assert float(seconds[0]) < 10
