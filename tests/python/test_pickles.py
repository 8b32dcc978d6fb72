"""What is saved, copied, and sent to other processes: communicators, preconditioners, results; and what is not."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest
from conftest import Run, in_this_build

import tacit

PRECONDITIONERS = [name for name in in_this_build(tacit.precond.names()) if name != "none"]


def solved(A: Any, P: Any, factor: float) -> Any:
    """Work for another process."""
    return tacit.solve(A, np.full(A.shape[0], factor), method="cg", precond=P)


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_workers_take_operators_and_give_results(how: str) -> None:
    A = tacit.poisson((20, 20), assembled=True)
    P = tacit.precond.amg(A)
    expected = solved(A, P, 2.0)
    with multiprocessing.get_context(how).Pool(1) as pool:
        (found,) = pool.starmap(solved, [(A, P, 2.0)])
    assert np.array_equal(found.x, expected.x)
    assert (found.iterations, found.reason, found.summary().split()[0]) == (
        expected.iterations,
        "converged",
        "converged:",
    )
    assert found.levels.keys() == expected.levels.keys()


def test_joblib() -> None:
    joblib = pytest.importorskip("joblib")
    A = tacit.poisson((12, 12), assembled=True)
    P = tacit.precond.make(A, "ic0")
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(solved)(A, P, k) for k in (1.0, 2.0))
    assert np.allclose(2 * found[0].x, found[1].x)
    assert found[1].iterations == solved(A, P, 2.0).iterations


@pytest.mark.parametrize("ranks", [1, 2])
def test_saved_preconditioners(ranks: int, python: Run) -> None:
    """To a file and back; on two ranks each has its own part."""
    code = f"""
    import pickle, numpy as np, tacit
    comm = tacit.comm.resolve()
    A = tacit.csr(tacit.poisson((16, 12)).to_scipy())
    for name in {PRECONDITIONERS}:
        if comm.size > 1 and name == "direct":
            continue
        P = tacit.precond.make(A, name)
        with open(f"P{{comm.rank}}", "wb") as out:
            pickle.dump((P, A, comm), out)
        with open(f"P{{comm.rank}}", "rb") as source:
            again, B, on = pickle.load(source)
        x = np.linspace(0, 1, A.shape[0])
        assert np.array_equal(again @ x, P @ x), name
        assert on == comm
        if name == "amg":
            B.update_values(2 * B.local_rows()[2])   # that of the pickle: again refers to it
            assert again.update()
            assert np.allclose(2 * (again @ x), P @ x)
    print("good")
    """
    done = python(code, ranks=0 if ranks == 1 else ranks)
    assert done.stdout.count("good") == ranks, done.stderr


def test_communicators() -> None:
    one = tacit.comm.self_()
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy({"comm": one})["comm"] is one
    assert copy.copy(one) is one

    def rank(comm: Any) -> None:
        assert copy.deepcopy([comm])[0] is comm
        with pytest.raises(TypeError, match="communicator of 2 ranks can be pickled where these are all ranks"):
            pickle.dumps(comm)

    tacit.comm.run_threads(2, rank)


def test_a_pickle_of_more_ranks() -> None:
    """As a program finds it that is started with another number of ranks."""
    with pytest.raises(ValueError, match="this communicator was pickled on 3 ranks and cannot be loaded on 1"):
        tacit.comm.of_ranks(3, "this communicator")


def test_what_is_not_pickled_says_what_to_do() -> None:
    A = tacit.poisson((5, 5), assembled=True)
    states: list[Any] = []
    tacit.solve(A, np.ones(25), callback=tacit.Observer(states.append))
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"keep what you need of it: state\.iteration"):
            attempt(states[0])


def test_preconditioners_of_an_hmatrix() -> None:
    x = np.linspace(0, 1, 400)
    H = tacit.hmatrix(x, lambda i, j: 1 / (1 + np.abs(x[i, None] - x[None, j])) + (i[:, None] == j), leaf_size=32)
    for name in ("jacobi", "block-jacobi", "hlu", "inner"):
        P = tacit.precond.make(H, name)
        again, B = pickle.loads(pickle.dumps((P, H)))
        assert np.array_equal(again @ x, P @ x), name
        assert np.array_equal(B @ x, H @ x)


def test_a_projector_is_not_pickled() -> None:
    P = tacit.tomography.projector(np.linspace(0, np.pi, 8, endpoint=False), 8)
    with pytest.raises(TypeError, match=r"make it anew by tacit\.tomography\.projector"):
        pickle.dumps(P)
