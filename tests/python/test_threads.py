"""Several threads of one process, and processes that it forks. What may end the process runs in one of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from cli_support import LONG
from conftest import Run, laplacian, true_residual

import tacit

# Of several threads that use what begins with "s" together, and the rest alone; each checks its own answers.
COMMON = """
    import os, sys, threading, time
    import numpy as np, scipy.sparse as sp, tacit
    def matrix(n, d=2.5): return sp.diags_array([-1.0, d, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    wrong = []
    def check(what, error, most):
        if not error <= most: wrong.append(f"{what}: {error:.2e}")
    def all_of(threads):
        threads = [threading.Thread(target=t) for t in threads]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not wrong, wrong[:5]
"""


def test_ten_thousand_solves(python: Run) -> None:
    """Each of four threads solves its own systems, given as SciPy's and as Tacit's matrices, and common ones, by all
    kinds of methods; each answer is compared with the solution that its right-hand side was made from."""
    python(
        COMMON
        + """
    shared = [(a, tacit.csr(a)) for a in map(matrix, (12, 17))]
    shared.append((matrix(15), 2 * tacit.csr(0.5 * matrix(15))))
    precond = [tacit.precond.make(shared[0][1], name) for name in ("jacobi", "ilu0")]
    methods = ("cg", "gmres", "bicgstab", "auto", "minres", "idr", "pipelined-cg")
    def work(t):
        rng = np.random.default_rng(t)
        a = matrix(10 + t); own = a, tacit.csr(a)
        try:
            for k in range(2500):
                kind = k % 4
                a, A = own if kind < 2 else shared[k // 4 % len(shared)]
                P = precond[k % 2] if A is shared[0][1] and k % 3 == 0 else None
                method = methods[k % len(methods)]
                if P is not None: method = "gmres"
                x = rng.standard_normal(a.shape[0])
                r = tacit.solve(a if kind == 0 else A, a @ x, method=method, precond=P, rtol=1e-10)
                check(f"{t} {k} {r.method} {r.reason}", np.linalg.norm(r.x - x), 1e-8 * np.linalg.norm(x))
        except BaseException as e: wrong.append(f"{t} {k} {type(e).__name__}: {e}")
    all_of([lambda t=t: work(t) for t in range(4)])
    """,
        OMP_NUM_THREADS="2",
    )


OPERATIONS = {
    "update_values": "B.update_values(v)",
    "product": "same(B @ y, S @ y)",
    "adjoint": "same(B.T @ y, S.T @ y)",
    "csr": "same(tacit.csr(S) @ y, S @ y)",
    "is_hermitian": "B.is_hermitian()",
    "amg": "same(S @ tacit.solve(B, y, precond=tacit.precond.amg(B)).x, y, 1e-6)",
    "update": "M.update()",
    "report": "M.report",
    "ilu0": "tacit.precond.make(B, 'ilu0') @ y",
    "compose": "same((B.T @ B).assemble() @ y, S.T @ (S @ y))",
    "astype": "same(B.astype('float32') @ y.astype('float32'), S @ y, 1e-5)",
    "diagonal": "same(B.diagonal(), S.diagonal())",
    "local_rows": "same(B.local_rows()[2], v)",
    "pickle": "same(pickle.loads(pickle.dumps(B)) @ y, S @ y)",
    "deepcopy": "same(copy.deepcopy(B) @ y, S @ y)",
    "precond": "M @ y",
    "tiled": "same(tacit.tiled(S) @ y, S @ y)",
    "solve": "same(S @ tacit.solve(B, y, method='bicgstab').x, y, 1e-6)",
    "columns": "same(S @ tacit.solve(B, np.ones((m, 3)), method='cg').x[:, 1], y, 1e-6)",
    "scipy": "same(S @ tacit.cg(S, y)[0], y, 1e-3)",
    "write": "tacit.write('t.mtx', B)",
    "read": "tacit.read('k.npz')",
    "stored_as": "same(B.stored_as('csr') @ y, S @ y)",
    "multiple": "same((2 * B) @ y, 2 * (S @ y))",
    "sum": "same((B + C) @ y, 2 * (S @ y)); same((C + B) @ y, 2 * (S @ y))",
    "function": "same(F @ y, S @ y); same((F + B) @ y, 2 * (S @ y))",
    "callback": "tacit.solve(B, y, callback=lambda s: (C @ y)[0] > 1e9)",
    "choose": "same(S @ tacit.solve(B, y, precond='auto').x, y, 1e-6)",
    "spheres": "tacit.bem.assemble(tacit.bem.sphere(2))",
}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["the same matrix", "another matrix"])
def test_a_solve_beside_anything(python: Run, which: str) -> None:
    """One thread solves with A, another does something with A or with another matrix, both many times."""
    python(
        COMMON
        + f"""
    import copy, pickle
    a = matrix(1200, 2.02); A = tacit.csr(a); b = np.random.default_rng(0).random(1200)
    S = a if {which == "the same matrix"} else matrix(700); m = S.shape[0]; y = np.ones(m)
    B = A if S is a else tacit.csr(S); C = tacit.csr(S); M = tacit.precond.amg(B); v = B.local_rows()[2].copy()
    class Product:
        shape, dtype = S.shape, S.dtype
        def matvec(self, x): return S @ x
    F = tacit.op.as_operator(Product())
    sp.save_npz("k.npz", S)
    def same(seen, expected, most=1e-12):
        check(name, np.abs(seen - expected).max(), most * np.abs(expected).max())
    for name, code in {OPERATIONS!r}.items():
        ended = threading.Event()
        def solves():
            k = 0
            try:
                while not ended.is_set() or k < 3:
                    r = tacit.solve(A, b, method=("cg", "gmres", "bicgstab", "auto")[k % 4]); k += 1
                    check(f"solve beside {{name}}: {{r.reason}}", np.linalg.norm(a @ r.x - b) / np.linalg.norm(b), 2e-8)
            except BaseException as e: wrong.append(f"solve beside {{name}}: {{type(e).__name__}}: {{e}}")
        def other():
            f = eval("lambda: (" + code.replace(";", ",") + ")"); until = time.monotonic() + 0.15
            try:
                f()
                while time.monotonic() < until: f()
            except BaseException as e: wrong.append(f"{{name}}: {{type(e).__name__}}: {{e}}")
            ended.set()
        all_of([solves, other])
    """,
        OMP_NUM_THREADS="2",
    )


def test_threads_wait_without_the_interpreter_lock() -> None:
    """A thread that waits for an operator leaves Python to the one that uses it, whose operator is a function."""
    a = laplacian(30)
    entered, go_on = threading.Event(), threading.Event()

    def product(x: np.ndarray) -> np.ndarray:
        entered.set()
        assert go_on.wait(LONG)
        return np.asarray(a @ x)

    class Slow:
        shape, dtype, matvec = a.shape, a.dtype, staticmethod(product)

    A = tacit.op.as_operator(Slow())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: A @ np.ones(30))
        assert entered.wait(LONG)
        second = pool.submit(lambda: A @ np.ones(30))
        assert not second.done()  # Python goes on here, while the second one waits
        go_on.set()
        np.testing.assert_array_equal(first.result(LONG), second.result(LONG))


def test_independent_solves_do_not_wait_for_each_other() -> None:
    """A solve whose callback waits for another thread's solve ends, since the two have nothing in common."""
    a, b = laplacian(40), laplacian(50)
    A, B = tacit.csr(a), tacit.csr(b)
    with ThreadPoolExecutor(1) as pool:
        inner = []

        def callback(_state: Any) -> None:
            if not inner:
                inner.append(pool.submit(lambda: tacit.solve(B, np.ones(50))).result(LONG))

        outer = tacit.solve(A, np.ones(40), callback=callback)
    assert outer.converged
    assert inner[0].converged
    assert true_residual(b, inner[0].x, np.ones(50)) < 1.1e-8


def test_first_solves_with_a_matrix_from_several_threads() -> None:
    """What a matrix makes for s-step cg is there before its first solve."""
    a = laplacian(3000)
    b = np.ones(3000)
    for _ in range(10):
        A = tacit.csr(a)
        with ThreadPoolExecutor(4) as pool:
            solves = [
                pool.submit(tacit.solve, A, b, method="ca-cg", precond="none", max_iterations=20) for _ in range(4)
            ]
            assert len({one.result(LONG).x.tobytes() for one in solves}) == 1


def test_callbacks_may_use_the_operator_that_is_solved_with() -> None:
    a = laplacian(40)
    A = tacit.csr(a)
    seen = []
    r = tacit.solve(A, np.ones(40), callback=lambda s: seen.append(A @ s.x))
    assert r.converged
    np.testing.assert_allclose(seen[-1], a @ r.x, rtol=1e-12, atol=1e-10)


def test_threads_that_would_wait_for_each_other_get_an_error() -> None:
    """Each solves with its operator and uses the other's in its callback: one of them raises, and both end."""
    A, B = tacit.csr(laplacian(40)), tacit.csr(laplacian(40))
    both = threading.Barrier(2)

    def solve(mine: Any, other: Any) -> str:
        met = []

        def callback(_state: Any) -> None:
            if not met:
                met.append(both.wait(LONG))
            other @ np.ones(40)

        try:
            return str(tacit.solve(mine, np.ones(40), callback=callback).reason)
        except ValueError as e:
            return str(e)

    with ThreadPoolExecutor(2) as pool:
        ends = [f.result(LONG) for f in [pool.submit(solve, A, B), pool.submit(solve, B, A)]]
    assert "converged" in ends
    assert any("two threads wait for each other" in e for e in ends), ends


def test_operators_made_in_several_threads_can_be_combined() -> None:
    a = laplacian(25)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(tacit.csr, [a, 2.0 * a, 3.0 * a]))
    whole = parts[0] + parts[1] @ parts[2]
    x = np.arange(25.0)
    np.testing.assert_allclose(whole @ x, a @ x + 6.0 * (a @ (a @ x)), rtol=1e-12)
    assert parts[0].comm == parts[1].comm == tacit.comm.self_()
    assert len({p.comm for p in parts}) == 1
    r = tacit.solve(a, np.ones(25), precond=tacit.precond.make(parts[0], "ilu0"), method="gmres")
    assert r.converged


RANKS = """
    import threading, sys
    import numpy as np, scipy.sparse as sp, tacit
    comm = tacit.comm.world().duplicate()
    a = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(300, 300)).tocsr()
    A = tacit.csr(a, comm=comm)
    ends = []
    def work(solve):
        try:
            for _ in range(200): solve()
            ends.append("")
        except ValueError as e: ends.append(str(e))
    def both(solve):
        threads = [threading.Thread(target=work, args=(solve,)) for _ in range(2)]
        for t in threads: t.start()
        for t in threads: t.join()
"""


def test_two_threads_of_a_rank_with_one_communicator(python: Run) -> None:
    """Both raise on every rank, and nobody hangs; with a communicator of one rank for each they solve."""
    done = python(
        RANKS
        + """
    both(lambda: tacit.solve(a, np.ones(300), comm=tacit.comm.self_()))
    assert ends == ["", ""], ends
    ends.clear()
    both(lambda: tacit.solve(A, np.ones(300)))
    assert len(ends) == 2 and all("two threads of rank" in e and "tacit.comm.self_()" in e for e in ends), ends
    r = tacit.solve(a, np.ones(300), comm=tacit.comm.world())
    assert r.converged
    print("ended")
    """,
        ranks=2,
    )
    assert done.stdout.count("ended") == 2


def test_threads_with_duplicates_of_a_communicator(python: Run) -> None:
    """Each thread solves on its own duplicate, so that MPI is called from two threads."""
    done = python(
        RANKS
        + """
    own = [tacit.comm.world().duplicate() for _ in range(2)]
    ops = [tacit.csr(a, comm=c) for c in own]
    def solve(A):
        x = np.random.default_rng(1).random(300)
        for _ in range(100):
            r = tacit.solve(A, a @ x, method="cg")
            if not (r.converged and np.linalg.norm(r.x - x) < 1e-5): ends.append(r.reason)
    threads = [threading.Thread(target=solve, args=(A,)) for A in ops]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not ends, ends
    print("ended")
    """,
        ranks=2,
    )
    assert done.stdout.count("ended") == 2


FORK = """
    import multiprocessing, threading
    import numpy as np, scipy.sparse as sp, tacit
    a = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(60_000, 60_000)).tocsr()
    A = tacit.csr(a); b = np.ones(60_000)
    def solve(_): return bool(tacit.solve(a, b).converged), bool(tacit.solve(A, b).converged)
"""


def test_forks_after_and_during_solves(python: Run) -> None:
    """Workers have neither the parent's helpers nor the threads that held its locks."""
    python(
        FORK
        + """
    assert tacit.solve(A, b, threads=2).converged
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(solve, range(4)).get(60) == [(True, True)] * 4
    stop = threading.Event()
    own = tacit.csr(a)
    def busy():
        while not stop.is_set(): tacit.solve(own, b, threads=2); tacit.csr(a[:3000, :3000]) @ b[:3000]
    t = threading.Thread(target=busy); t.start()
    for _ in range(5):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(solve, range(2)).get(60) == [(True, True)] * 2
    stop.set(); t.join()
    """
    )


def test_an_operator_in_use_when_the_process_forked(python: Run) -> None:
    """Nobody in the child can end the use by a thread of the parent: an error and no endless wait."""
    python(
        FORK
        + """
    import os
    inside, done = threading.Event(), threading.Event()
    def callback(state): inside.set(); done.wait(60)
    t = threading.Thread(target=lambda: tacit.solve(A, b, method="cg", callback=callback)); t.start(); inside.wait(60)
    child = os.fork()
    if child == 0:
        try: A @ b; os._exit(3)
        except ValueError as e: os._exit(0 if "when the process was forked" in str(e) else 4)
        except BaseException: os._exit(5)
    status = os.waitpid(child, 0)[1]
    done.set(); t.join()
    assert os.waitstatus_to_exitcode(status) == 0, status
    """
    )
