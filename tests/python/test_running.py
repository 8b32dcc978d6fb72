"""A solve as a part of a process: threads, signals, forks, memory, traces and plots."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import LONG
from conftest import Run, laplacian

import tacit


def test_other_threads_run_meanwhile() -> None:
    """The solve gives the interpreter away: a Python thread counts on while it runs."""
    a = tacit.poisson((300, 300))
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    def ticks_meanwhile() -> int:
        before = ticks
        tacit.solve(a, np.ones(90000), rtol=1e-12)
        return ticks - before

    counter = threading.Thread(target=count)
    counter.start()
    try:
        # On a busy machine the counter may have to wait for its turn through a whole solve.
        limit = time.monotonic() + LONG
        while ticks_meanwhile() <= 5:
            assert time.monotonic() < limit, "no other thread runs during a solve"
    finally:
        done.set()
        counter.join()


@pytest.mark.parametrize("kind", ["matrix", "callback", "function", "ranks"])
def test_a_process_ends_while_a_daemon_thread_solves(kind: str, python: Run) -> None:
    """With its own exit code and soon, whatever the solve is about: iterations, the user's Python code, waiting."""
    for delay in (0.0, 0.02, 0.1, 0.15):
        done = python(
            f"""
            import sys, threading, time
            import numpy as np, tacit
            a, n = tacit.poisson((200, 200)), 40000
            begun = threading.Event()

            def look(state):
                begun.set()

            def product(x):
                begun.set()
                return a @ x

            def solve(comm=None):
                options = dict(rtol=1e-300, max_iterations=10**9, fallbacks=False)
                if {kind!r} == "callback":
                    tacit.solve(a, np.ones(n), method="cg", callback=look, **options)
                elif {kind!r} == "function":
                    tacit.solve(tacit.function((n, n), product), np.ones(n), method="cg", **options)
                else:
                    begun.set()
                    tacit.solve(tacit.poisson((200, 200), comm=comm), np.ones(n), method="cg", **options)

            def work():
                while True:
                    tacit.comm.run_threads(2, solve) if {kind!r} == "ranks" else solve()

            threading.Thread(target=work, daemon=True).start()
            begun.wait()
            time.sleep({delay})
            sys.exit(3)
            """,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (3, ""), delay


def test_threads_are_set_and_put_back() -> None:
    before = tacit._core.threads()
    a = laplacian(40, 40)
    one, two = (tacit.solve(a, np.ones(1600), threads=n) for n in (1, 2))
    assert (one.threads, two.threads) == (1, 2)
    assert tacit._core.threads() == before
    assert np.array_equal(one.x, two.x)  # sums do not depend on the number of threads


def test_trace(tmp_path: Path) -> None:
    r = tacit.solve(laplacian(30), np.ones(30), precond="ilu0", trace=True)
    assert r.trace
    assert {"krylov", "op"} <= {e.category for e in r.trace}
    for e in r.trace:
        assert 0 <= e.begin <= e.end <= 60
        assert e.rank == 0
    path = tmp_path / "trace.json"
    r.save_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert len(events) == len(r.trace) + 1
    assert {"name", "cat", "ph", "ts", "dur", "pid", "tid"} <= set(events[-1])
    with pytest.raises(ValueError, match="trace=True"):
        tacit.solve(laplacian(3), np.ones(3)).save_trace(path)


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "residual.png"
    tacit.solve(laplacian(30), np.ones(30)).plot(path)
    assert path.stat().st_size > 1000


def test_a_thousand_solves_keep_the_memory(python: Run) -> None:
    done = python(
        """
        import gc, numpy as np, scipy.sparse as sp, tacit

        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * 4096

        a = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(500, 500)).tocsr()
        b = np.ones(500)

        def one(i):
            def look(s):
                s.x
                if i % 10 == 0 and s.iteration == 2:
                    raise ValueError("no")
            try:
                tacit.solve(a, b, precond=("jacobi", "ilu0", "polynomial")[i % 3], max_iterations=5,
                            callback=look if i % 2 else None, trace=i % 5 == 0)
            except ValueError:
                pass
            tacit.csr(a).T @ b

        for i in range(200):
            one(i)
        gc.collect()
        before = resident()
        for i in range(1000):
            one(i)
        gc.collect()
        print(resident() - before)
        """
    )
    # One matrix and its vectors take some 30 kB: a leak of one a solve would be 30 MB.
    assert int(done.stdout) < 3_000_000
    assert "leaked" not in done.stderr


def test_operators_in_cycles_are_collected(python: Run) -> None:
    python(
        """
        import gc, weakref, numpy as np, tacit

        class Problem:
            def __init__(self):
                self.operator = tacit.function((3, 3), self.product)
                self.twice = 2 * self.operator
            def product(self, x):
                return 2 * x

        problem = Problem()
        assert (problem.operator @ np.ones(3)).tolist() == [2, 2, 2]
        problem.twice = None
        gone = weakref.ref(problem)
        del problem
        gc.collect()
        assert gone() is None
        """
    )


def test_a_forked_child_solves_as_its_parent(python: Run) -> None:
    """multiprocessing forks by default on Linux; the child has none of its parent's threads."""
    done = python(
        """
        import multiprocessing, signal
        import numpy as np, scipy.sparse as sp, tacit
        from tacit import _core

        _core.set_threads(2)
        line = sp.diags_array([-np.ones(199), 2 * np.ones(200), -np.ones(199)], offsets=[-1, 0, 1])
        a = (sp.kron(line, sp.eye_array(200)) + sp.kron(sp.eye_array(200), line)).tocsr()
        b = np.random.default_rng(1).standard_normal(40000)
        ways = [
            dict(method="cg", precond="jacobi"),
            dict(method="gmres", precond="ilu0"),
            dict(method="pipelined-cg", engine="tasks"),
        ]

        def solve(which):
            return tacit.solve(a, b, max_iterations=60, **ways[which]).x

        own = [solve(which) for which in range(len(ways))]
        with multiprocessing.get_context("fork").Pool(2, signal.alarm, (90,)) as pool:
            for which, x in enumerate(pool.map(solve, range(len(ways)))):
                assert np.array_equal(x, own[which]), ways[which]
        assert all(np.array_equal(solve(which), own[which]) for which in range(len(ways)))
        print("same")
        """,
        timeout=100,
    )
    assert done.stdout.split()[-1] == "same"


@pytest.mark.slow
def test_two_threads_beside_other_programs(python: Run) -> None:
    """A team whose threads lose their processors must not take much longer than one thread does then."""
    done = python(
        """
        import os, subprocess, sys, time
        import numpy as np, scipy.sparse as sp, tacit
        from tacit import _core

        line = sp.diags_array([-np.ones(199), 2 * np.ones(200), -np.ones(199)], offsets=[-1, 0, 1])
        a = (sp.kron(line, sp.eye_array(200)) + sp.kron(sp.eye_array(200), line)).tocsr()
        b = np.random.default_rng(1).standard_normal(40000)

        def seconds(threads):
            _core.set_threads(threads)
            begin = time.perf_counter()
            tacit.solve(a, b, method="cg", rtol=1e-300, max_iterations=300)
            return time.perf_counter() - begin

        spin = [sys.executable, "-c", "while True: pass"]
        others = [subprocess.Popen(spin) for _ in range(2 * len(os.sched_getaffinity(0)))]
        try:
            times = [(seconds(1), seconds(2)) for _ in range(12)]
        finally:
            for other in others:
                other.kill(), other.wait()
        print(*np.median(times, axis=0))
        """,
        timeout=300,
    )
    one, two = map(float, done.stdout.split())
    assert two < 2 * one, f"{two:.3f} s with two threads, {one:.3f} s with one"


@pytest.mark.slow
def test_interrupt_while_a_failure_is_explained() -> None:
    n = 300
    line = sp.diags_array([-1.0, 2.0, -1.1], offsets=[-1, 0, 1], shape=(n, n))
    a = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
    b = np.random.default_rng(0).standard_normal(n * n)
    options: dict[str, Any] = {"method": "gmres", "restart": 5, "precond": "none", "fallbacks": False, "rtol": 1e-15}
    last, at = [0.0], [0.0]

    def callback(state: Any) -> None:
        last[0] = time.process_time()  # which hardly depends on what else the machine does
        at[0] = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.05)  # goes off after the last iteration

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            tacit.solve(a, b, callback=tacit.Observer(callback), **options)
        assert time.process_time() - last[0] < 3
        assert time.monotonic() - at[0] < 30  # it does not sleep, either
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
