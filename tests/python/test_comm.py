"""Several ranks: threads of this process, and processes that mpiexec starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import LONG, processor_seconds
from conftest import ALLOW, ROOT, Run, in_this_build, laplacian, mpiexec, true_residual, unsymmetric

import tacit

Comm = tacit.comm.Communicator


def test_alone() -> None:
    comm = tacit.comm.self_()
    assert (comm.rank, comm.size, comm.kind) == (0, 1, "self")
    assert comm == tacit.comm.self_()
    assert hash(comm) == hash(tacit.comm.self_())
    assert comm.all_sum(3) == 3
    assert comm.all_gather(b"ab") == [b"ab"]
    assert comm.collective(lambda: "x") == "x"
    assert tacit.comm.resolve(comm) is comm
    for wrong in (3, "world", object()):
        with pytest.raises(TypeError, match="communicator"):
            tacit.comm.resolve(wrong)


def test_threads_as_ranks() -> None:
    def rank(comm: Comm) -> tuple[int, list[bytes], int]:
        comm.barrier()
        assert comm.duplicate() != comm
        assert comm == tacit.comm.resolve(comm)
        return comm.all_sum(comm.rank), comm.all_gather(b"x" * comm.rank), comm.all_max(comm.rank)

    assert tacit.comm.run_threads(3, rank) == [(3, [b"", b"x", b"xx"], 2)] * 3
    with pytest.raises(ValueError, match="ranks"):
        tacit.comm.run_threads(0, rank)
    with pytest.raises(ValueError, match="100000 ranks: at most"):
        tacit.comm.run_threads(100000, rank)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("method", ["auto", "bicgstab", "gmres", "chebyshev"])
def test_every_rank_gets_the_whole_solution(method: str, ranks: int) -> None:
    a, b = laplacian(11, 9), np.random.default_rng(0).standard_normal(99)
    alone = tacit.solve(a, b, method=method, rtol=1e-10)

    def rank(comm: Comm) -> Any:
        return tacit.solve(a, b, method=method, comm=comm, rtol=1e-10, precond="jacobi")

    results = tacit.comm.run_threads(ranks, rank)
    for r in results:
        assert r.converged
        assert r.ranks == ranks
        assert true_residual(a, r.x, b) <= 1.01e-10
        assert np.array_equal(r.x, results[0].x)
        assert r.history.tolist() == results[0].history.tolist()
        assert r.counts["messages"] > 0
        assert np.allclose(r.x, alone.x, atol=1e-7)


@pytest.mark.parametrize("precond", [None, "jacobi", "ilu0", "polynomial"])
def test_more_ranks_than_rows(precond: str | None) -> None:
    a, b = unsymmetric(5), np.arange(1.0, 6)
    spd = laplacian(5)

    def rank(comm: Comm) -> None:
        for method in in_this_build(tacit.methods.names()):
            if method == "direct" and precond:  # which has its own
                continue
            matrix = spd if "cg" in method or method in ("chebyshev", "minres") else a
            more: dict[str, Any] = dict(relaxation=0.2, max_iterations=10000) if method == "richardson" else {}
            r = tacit.solve(matrix, b, method=method, precond=precond, comm=comm, **more)
            assert r.converged
            assert true_residual(matrix, r.x, b) <= 1.01e-8
        for options in (dict(partition="graph"), dict(ordering="rcm"), dict(path="shared"), dict(schedule="jobs")):
            r = tacit.solve(spd, b, precond=precond, comm=comm, **options)
            assert r.converged
            assert true_residual(spd, r.x, b) <= 1.01e-8

    in_time(rank, 8)


def test_own_parts_in_and_out() -> None:
    a, b = laplacian(40), np.random.default_rng(0).standard_normal(40)

    def rank(comm: Comm) -> None:
        A = tacit.csr(a, comm=comm)
        low, high = A.own_range
        seen = []
        r = tacit.solve(A, b[low:high], np.zeros(40), method="cg", callback=lambda s: seen.append(s.x.shape))
        assert r.x.shape == (high - low,)
        assert seen[0] == (high - low,)
        whole = tacit.solve(A, b, x0=np.zeros(high - low), method="cg")
        assert whole.x.shape == (40,)
        assert np.array_equal(whole.x[low:high], r.x)
        column = tacit.solve(A, b[low:high, None])
        assert column.x.shape == (high - low, 1)

    tacit.comm.run_threads(3, rank)


def test_matrices_that_differ_between_ranks() -> None:
    def scalars(comm: tacit.comm.Communicator) -> str:
        a = np.eye(6, dtype=np.complex64 if comm.rank == 1 else np.float64)
        return tacit.csr(a, comm=comm).dtype.name

    assert tacit.comm.run_threads(3, scalars) == ["complex128"] * 3

    def shapes(comm: tacit.comm.Communicator) -> None:
        with pytest.raises(ValueError, match="7 x 7 on rank 2"):
            tacit.csr(np.eye(7 if comm.rank == 2 else 6), comm=comm)

    tacit.comm.run_threads(3, shapes)


@pytest.mark.parametrize("precond", ["ilu0", "ic0", "spai", "polynomial", "jacobi"])
def test_preconditioners_on_ranks(precond: str) -> None:
    a, b = laplacian(14, 10), np.ones(140)

    def rank(comm: Comm) -> None:
        r = tacit.solve(a, b, precond=precond, comm=comm)
        assert r.converged
        assert true_residual(a, r.x, b) <= 1.001e-8
        inverse = np.linalg.inv(a.toarray())
        assert tacit.solve(tacit.csr(a, comm=comm), b, precond=inverse).iterations <= 2
        assert (
            tacit.solve(a, b, comm=comm, precond=tacit.function(a.shape, lambda v: inverse @ v, comm=comm)).iterations
            <= 2
        )

    tacit.comm.run_threads(3, rank)


@pytest.mark.parametrize(
    "options", [dict(partition="graph"), dict(ordering="rcm"), dict(partition="graph", ordering="rcm")], ids=str
)
def test_renumbered_on_ranks(options: dict[str, str]) -> None:
    rng = np.random.default_rng(7)
    order = rng.permutation(144)
    a = laplacian(12, 12)[order][:, order].tocsr()
    b, x0 = rng.standard_normal(144), rng.standard_normal(144)

    def rank(comm: Comm) -> Any:
        seen = []
        r = tacit.solve(a, b, x0, comm=comm, rtol=1e-10, precond="ilu0", callback=lambda s: seen.append(s.x), **options)
        assert r.converged
        assert true_residual(a, r.x, b) <= 1.001e-10
        assert np.allclose(seen[-1], r.x)
        A = tacit.csr(a, comm=comm)
        low, high = A.own_range
        own = tacit.solve(A, b[low:high], rtol=1e-10, **options)
        assert np.allclose(own.x, r.x[low:high], atol=1e-7)
        bad = b.copy()
        bad[100] = np.nan
        assert "index 100" in tacit.solve(a, bad, comm=comm, **options).detail
        return r.counts["bytes"]

    sent = tacit.comm.run_threads(3, rank)[0]
    if options.get("partition") == "graph":

        def plain(comm: Comm) -> Any:
            r = tacit.solve(a, b, x0, comm=comm, rtol=1e-10, precond="ilu0")
            return r.counts["bytes"] / r.iterations

        assert sent / 30 < tacit.comm.run_threads(3, plain)[0] * 3


def test_not_finite_is_named_on_all_ranks() -> None:
    b = np.ones(30)
    b[22] = np.nan

    def rank(comm: Comm) -> str:
        return str(tacit.solve(laplacian(30), b, comm=comm).detail)

    assert set(tacit.comm.run_threads(3, rank)) == {"b has a value that is not finite at index 22 (counted from 0)"}


def test_trace_of_all_ranks(tmp_path: Path) -> None:
    def rank(comm: Comm) -> set[int]:
        r = tacit.solve(laplacian(60), np.ones(60), comm=comm, trace=True)
        r.save_trace(tmp_path / "trace.json")
        return {e.rank for e in r.trace}

    assert tacit.comm.run_threads(3, rank) == [{0, 1, 2}] * 3
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["pid"] for e in events} == {0, 1, 2}
    assert any(e["cat"] == "comm" for e in events if "cat" in e)


def test_threads_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0))
    used = tacit.comm.run_threads(2, lambda comm: tacit.solve(laplacian(5), np.ones(5), comm=comm).threads)
    assert used == [max(1, cores // 2)] * 2


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.mpi
def test_world(python: Run) -> None:
    done = python(
        """
        import numpy as np, tacit
        assert tacit.comm.launched()
        comm = tacit.comm.world()
        assert (comm.kind, comm.size) == ("mpi", 3)
        A = tacit.poisson((20, 20))
        assert A.comm is comm
        r = tacit.solve(A, np.ones(400), precond="polynomial")
        assert r.converged and r.ranks == 3 and r.x.shape == (400,)
        alone = tacit.solve(tacit.poisson((20, 20), comm=tacit.comm.self_()), np.ones(400))
        assert np.allclose(r.x, alone.x, atol=1e-5)
        if comm.rank == 0:
            print("fine")
        """,
        ranks=3,
    )
    assert done.stdout.split() == ["fine"]


@pytest.mark.slow
@pytest.mark.mpi
def test_mpi4py_communicators(python: Run) -> None:
    pytest.importorskip("mpi4py")
    python(
        """
        from mpi4py import MPI
        import numpy as np, scipy.sparse as sp, tacit
        world = MPI.COMM_WORLD
        a = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(50, 50)).tocsr()
        r = tacit.solve(a, np.ones(50), comm=world)
        assert r.converged and r.ranks == 4
        halves = world.Split(world.rank % 2)
        r = tacit.solve(a, np.ones(50), comm=halves)
        assert r.converged and r.ranks == 2
        assert tacit.comm.resolve(halves) is tacit.comm.resolve(halves)
        halves.Free()
        again = world.Split(world.rank // 2, -world.rank)
        mine = tacit.comm.resolve(again)
        assert (mine.rank, mine.size) == (again.rank, again.size)
        assert tacit.solve(a, np.ones(50), comm=MPI.COMM_SELF).ranks == 1
        try:
            tacit.comm.resolve(MPI.COMM_NULL)
        except ValueError:
            pass
        else:
            raise AssertionError
        for _ in range(300):  # communicators of MPI are not used up
            part = world.Dup()
            tacit.comm.resolve(part)
            part.Free()
        """,
        ranks=4,
    )


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("where", ["callback", "operator", "arguments", "outside"])
def test_one_rank_raises_and_all_do(where: str, python: Run) -> None:
    done = python(
        f"""
        import sys, numpy as np, scipy.sparse as sp, tacit
        comm = tacit.comm.world()
        a = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(500, 500)).tocsr()

        def fail(*_):
            if comm.rank == 1:
                raise KeyError("from rank one")
            return np.ones(500)

        def late(state):
            if state.iteration == 5:
                fail()

        try:
            where = {where!r}
            if where == "callback":
                tacit.solve(a, np.ones(500), precond="none", callback=late)
            elif where == "operator":
                tacit.solve(tacit.function((500, 500), fail), np.ones(500))
            elif where == "arguments":
                tacit.solve(a, np.ones(499 if comm.rank == 1 else 500))
            else:
                comm.collective(fail)
            raise AssertionError("nothing was raised")
        except (KeyError, ValueError) as e:
            text = str(e)
            if where == "arguments":
                assert "499" in text, text
            else:
                assert isinstance(e, KeyError) and "rank 1: from rank one" in text, text
                assert (e.__cause__ is not None) == (comm.rank == 1)
        # and everything still works
        assert tacit.solve(a, np.ones(500)).converged
        sys.stdout.write(text + "\\n")  # at once: the ranks share the pipe
        """,
        ranks=3,
    )
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1


# Processor time from Ctrl-C to the end of a solve: the ranks look up every 50 ms. Unlike seconds it does not grow with
# other load.
PROMPT = 4


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_ends_all_ranks(ranks: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, pathlib, time, numpy as np, tacit
            comm = tacit.comm.world() if {ranks} > 1 else tacit.comm.self_()
            A = tacit.poisson((400, 400), comm=comm)
            def tell(name, text):
                pathlib.Path("unfinished%d" % comm.rank).write_text(text)
                os.replace("unfinished%d" % comm.rank, name + str(comm.rank))
            def look(state):
                if state.iteration == 3:
                    tell("rank", str(os.getpid()))
            try:
                tacit.solve(A, np.ones(160000), method="richardson", relaxation=0.01, max_iterations=10**9, rtol=1e-14,
                            callback=look)
            except KeyboardInterrupt:
                tell("end", str(time.process_time()))
            """
        )
    )
    command = [mpiexec(), "-n", str(ranks), sys.executable, str(script)] if ranks > 1 else [sys.executable, str(script)]
    env = os.environ | ALLOW | {"PYTHONPATH": str(ROOT / "python")}
    job = subprocess.Popen(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + LONG
        starts = [tmp_path / f"rank{r}" for r in range(ranks)]
        while not all(p.exists() for p in starts):
            assert time.monotonic() < limit, "the solve did not start"
            assert job.poll() is None, "the job ended early"
            time.sleep(0.02)
        processes = [int(p.read_text()) for p in starts]
        used = [processor_seconds(pid) for pid in processes]
        os.kill(processes[-1], signal.SIGINT)  # only one rank gets the signal
        assert job.wait(LONG) == 0
        for r in range(ranks):
            assert float((tmp_path / f"end{r}").read_text()) - used[r] < PROMPT
    finally:
        job.kill()
        job.wait()


def test_ctrl_c_ends_ranks_that_are_threads(python: Run) -> None:
    python(
        f"""
        import os, signal, threading, time, numpy as np, tacit
        begun, told = threading.Barrier(3), []
        def interrupt():
            begun.wait()  # until both ranks iterate
            told.append(time.process_time())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        def rank(comm):
            def look(state):
                if state.iteration == 3:
                    begun.wait()
            A = tacit.poisson((60, 60), comm=comm)
            return tacit.solve(A, np.ones(3600), method="richardson", relaxation=0.01, max_iterations=10**9, rtol=1e-14,
                               callback=look)
        try:
            tacit.comm.run_threads(2, rank)
            raise AssertionError
        except KeyboardInterrupt:
            assert time.process_time() - told[0] < 2 * {PROMPT}  # of two ranks
        assert tacit.comm.run_threads(2, lambda comm: comm.rank) == [0, 1]
        """
    )


def test_handlers_of_signals_raise_what_they_like(python: Run) -> None:
    python(
        """
        import os, signal, threading, numpy as np, tacit
        class Enough(Exception):
            pass
        def handle(*_):
            raise Enough
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            tacit.solve(tacit.poisson((60, 60)), np.ones(3600), method="richardson", relaxation=0.01,
                        max_iterations=10**9, rtol=1e-14)
            raise AssertionError
        except Enough:
            pass
        """
    )


@pytest.mark.mpi
def test_default_threads_under_mpiexec(python: Run) -> None:
    """Cores are shared among the ranks of a node, unless the user says otherwise."""
    code = "import tacit; print(tacit.solve([[2.0]], [1.0]).threads)"
    done = python(code, ranks=2, OMP_NUM_THREADS="3")
    assert done.stdout.split() == ["3", "3"]


def test_errors_name_the_lowest_rank() -> None:
    def rank(comm: Comm) -> None:
        if comm.rank > 0:
            raise ValueError(f"rank says {comm.rank}")

    with pytest.raises(ValueError, match="rank 1: rank says 1"):
        tacit.comm.run_threads(3, rank)


class Twofold(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ExceptionGroup("two faults", [ValueError("a"), OSError(5, "b")]), "ExceptionGroup"),
        (BaseExceptionGroup("two faults", [KeyboardInterrupt()]), "BaseExceptionGroup"),
        (UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "two faults"), "UnicodeDecodeError"),
        (Twofold("two", "faults"), "Twofold"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_that_need_more_than_a_text(error: BaseException, name: str) -> None:
    """They arrive as their name and text, because another rank cannot construct them from a text."""

    def rank(comm: Comm) -> None:
        raise error

    with pytest.raises(tacit.Error, match=rf"^rank 0: {name}: .*two.*faults") as told:
        tacit.comm.run_threads(2, rank)
    assert told.type in (tacit.UsageError, tacit.EnvironmentFailure)


@pytest.mark.parametrize("where", ["rank", "collective", "callback", "operator"])
def test_errors_with_any_text(where: str, python: Run) -> None:
    """The same text on every rank; in a process of its own, which must not be aborted."""
    python(
        f"""
        import numpy as np, tacit
        text, heard = "", []
        def fail(*_):
            raise ValueError(text)
        def rank(comm):
            last = comm.rank == 1
            try:
                if {where!r} == "rank":
                    fail()
                elif {where!r} == "collective":
                    comm.collective(fail if last else int)
                elif {where!r} == "callback":
                    tacit.solve(np.eye(4), np.ones(4), comm=comm, callback=fail if last else lambda state: None)
                else:
                    tacit.solve(tacit.function((4, 4), fail if last else lambda x: x, comm=comm), np.ones(4))
            except ValueError as error:
                heard.append(str(error))
                raise
        # Python's text for a file name that is not UTF-8, half of a pair of surrogates, a zero byte
        for text, said in (("caf\\udce9.dat",) * 2, ("half \\ud83d", r"half \\ud83d"), ("a\\0b", r"a\\x00b")):
            try:
                tacit.comm.run_threads(2, rank)
            except ValueError as error:
                assert str(error) == "rank %d: " % ({where!r} != "rank") + said, ascii(str(error))
            else:
                raise AssertionError("nothing was raised")
        assert len(heard) == 6
        """
    )


def test_wrong_use_is_told_on_all_ranks() -> None:
    a = unsymmetric(10)

    def rank(comm: Comm) -> None:
        for call, text in (
            (lambda: tacit.solve(a, np.ones(9 + (comm.rank == 0)), comm=comm), "9 elements"),
            (
                lambda: tacit.solve(a, np.ones(10), comm=comm, method="cgg" if comm.rank else "cg"),
                "rank 1: unknown method",
            ),
            (lambda: tacit.solve(a if comm.rank else None, np.ones(10), comm=comm), "rank 0"),
            (lambda: tacit.solve(tacit.csr(a, comm=comm), np.ones(10 if comm.rank else 5)), "whole|own"),
            (lambda: tacit.precond.make(tacit.csr(a, comm=comm), "ilu0", blocks="two" if comm.rank else 1), "blocks"),
        ):
            with pytest.raises((ValueError, TypeError), match=text):
                call()
        assert tacit.solve(a, np.ones(10), comm=comm).converged

    tacit.comm.run_threads(2, rank)


def in_time(f: Callable[[Comm], Any], ranks: int = 3) -> Any:
    """run_threads, but a deadlock of the ranks fails the test instead of hanging."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(tacit.comm.run_threads(ranks, f))
        except BaseException as e:
            found.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert found, "the ranks wait for each other"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ValueError, match="all ranks must give the same") as caught:
        call()
    return str(caught.value)


def test_scalars_of_ranks_are_joined() -> None:
    a = unsymmetric(7)

    def rank(comm: Comm) -> None:
        A = tacit.csr(a.astype(np.float32), comm=comm)
        low, high = A.own_range
        for on_one, elsewhere, expected in (
            ("f4", "f4", "float32"),
            ("f8", "f4", "float64"),
            ("f4", "f8", "float64"),
            ("i4", "f4", "float64"),
            ("c8", "f4", "complex64"),
            ("c8", "f8", "complex128"),
        ):
            b = np.ones(high - low, on_one if comm.rank == 1 else elsewhere)
            for r in (tacit.solve(A, b, rtol=1e-4), tacit.solve(A, np.ones(7, "f4"), x0=b, rtol=1e-4)):
                assert (r.scalar, r.x.dtype, r.converged) == (expected, np.dtype(expected), True)
        # A rank without rows does not count for the scalar, unless no rank has rows.
        few = tacit.csr(a[:2, :2].astype(np.float32), comm=comm)
        own = few.own_range[1] - few.own_range[0]
        r = tacit.solve(few, np.ones(own, np.float32) if own else np.array([]), rtol=1e-4)
        assert (r.scalar, len(r.x), r.converged) == ("float32", own, True)

    in_time(rank)


def test_options_are_the_same_on_all_ranks() -> None:
    a, b = laplacian(12), np.ones(12)

    def rank(comm: Comm) -> list[str]:
        odd = comm.rank == 1
        A = tacit.csr(a, comm=comm)
        jacobi = tacit.precond.make(A, "jacobi")
        texts = []
        for name, value, other in (
            ("x0", np.zeros(12), None),
            ("callback", lambda state: None, None),
            ("rtol", 1e-3, 1e-8),
            ("atol", 1e-3, 0.0),
            ("method", "gmres", "cg"),
            ("restart", 5, 6),
            ("max_iterations", 7, None),
            ("side", "left", "right"),
            ("orthogonalisation", "mgs", "cgs"),
            ("relaxation", 0.5, 1.0),
            ("lambda_min", 0.5, None),
            ("partition", "graph", "rows"),
            ("ordering", "rcm", "none"),
            ("scalar", "float32", None),
            ("fallbacks", False, True),
            ("trace", True, False),
            ("raise_on_failure", True, False),
            ("precond", None, "jacobi"),
            ("precond", jacobi, None),
            ("precond", jacobi, "jacobi"),
            ("precond", np.eye(12), jacobi),
            ("precond", dict(name="polynomial", degree=2), "polynomial"),
            ("precond", dict(name="polynomial", degree=2), dict(name="polynomial", degree=3)),
        ):
            of = {"relaxation": "richardson", "lambda_min": "chebyshev"}  # methods that take the option
            options = {name: value if odd else other, **({"method": of[name]} if name in of else {})}
            texts.append(refusal(lambda options=options: tacit.solve(A, b, **options)))
            assert texts[-1].startswith(name)
            assert "on rank 0 and" in texts[-1]
            assert "on rank 1;" in texts[-1]
        kind = "x" if odd else "pr_norm"
        texts.append(refusal(lambda: tacit.gmres(A, b, callback=lambda x: None, callback_type=kind)))
        with pytest.raises(TypeError, match="callback is 3"):
            tacit.cg(A, b, callback=3 if odd else None)
        # Differences by rounding, or by two ways to write the same, are accepted.
        near = 1e-8 * (1 + 4e-16 * comm.rank)
        r = tacit.solve(A, b, method="cg", rtol=near, precond=None if odd else "none", threads=comm.rank + 1)
        assert (r.rtol, r.converged) == (1e-8, True)
        poly = dict(name="polynomial", lambda_max=4 * (1 + 4e-16 * comm.rank))
        assert tacit.solve(A, b, precond=poly, scalar="float64" if odd else float).converged
        return texts

    first, *others = in_time(rank)
    assert others == [first, first]
    assert "rtol is 1e-08 on rank 0 and 0.001 on rank 1; all ranks must give the same" in first


def test_vectors_are_of_one_kind_on_all_ranks() -> None:
    a = unsymmetric(7)
    x = np.arange(14.0).reshape(7, 2)

    def rank(comm: Comm) -> list[str]:
        texts = []
        products = tacit.function((7, 7), lambda v: a @ v, rmatvec=lambda v: a.T @ v, comm=comm)
        for A in (tacit.csr(a, comm=comm), products):
            low, high = A.own_range
            for at in range(3):
                mine = x[low:high] * (1j if comm.rank == at else 1)
                whole = x.astype(complex)
                whole[slice(*tacit.layout.blocks(7, 3)[at : at + 2])] *= 1j
                for got, expected in ((A @ mine, a @ whole), (A.H @ mine, a.T @ whole), ((mine.T @ A).T, a.T @ whole)):
                    assert got.dtype == complex
                    assert np.allclose(got, expected[low:high])
                assert np.allclose(A @ mine[:, 0], (a @ whole)[low:high, 0])
                for k in (0, 1, 3):
                    for rows in (high - low, 7):
                        columns = np.ones((rows, k if comm.rank == at else 2))
                        texts.append(refusal(lambda A=A, columns=columns: A @ columns))
                flat = np.ones(high - low) if comm.rank == at else np.ones((high - low, 1))
                texts.append(refusal(lambda A=A, flat=flat: A @ flat))
            assert (A @ np.ones((high - low, 0))).shape == (high - low, 0)
        return texts

    first, *others = in_time(rank)
    assert others == [first, first]
    assert "x is 2 columns on rank 0 and 3 columns on rank 1; all ranks must give the same" in first


def test_matrices_from_own_rows() -> None:
    whole = sp.csr_array(unsymmetric(23))
    cuts = [0, 7, 7, 20, 23]  # rank 1 has none

    def rank(comm: Any) -> tuple[Any, Any, int]:
        mine = whole[cuts[comm.rank] : cuts[comm.rank + 1]]
        a = tacit.csr(mine, own_rows=True, comm=comm)
        arrays = tacit.csr((mine.data, mine.indices, mine.indptr), mine.shape, own_rows=True, comm=comm)
        assert a.own_range == arrays.own_range == (cuts[comm.rank], cuts[comm.rank + 1])
        b = np.ones(a.own_range[1] - a.own_range[0])
        x = tacit.solve(a, b, rtol=1e-12).x
        return a.to_scipy().toarray(), arrays.to_scipy().toarray(), x

    results = tacit.comm.run_threads(4, rank)
    for dense, from_arrays, _ in results:
        assert np.array_equal(dense, whole.toarray())
        assert np.array_equal(from_arrays, whole.toarray())
    x = np.concatenate([r[2] for r in results])
    assert np.allclose(whole @ x, 1, atol=1e-10)


def test_own_rows_that_do_not_fit() -> None:
    def rank(comm: Any) -> None:
        with pytest.raises(ValueError, match=r"rank 0 have 4 columns and those of rank 2 5"):
            tacit.csr(np.ones((2, 4 + comm.rank // 2)), own_rows=True, comm=comm)
        with pytest.raises(TypeError, match="own_rows"):
            tacit.csr(lambda x: x, own_rows=True, comm=comm)  # type: ignore[arg-type]

    tacit.comm.run_threads(3, rank)
