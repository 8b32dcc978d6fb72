"""What looking into the cause of a failure costs: counted as products that the solve's own counts do not have."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import laplacian

import tacit


def neumann(n: int) -> Any:
    """-Laplace on n x n points whose rows add up to zero: with b = ones no x has a smaller residual than 0 has."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    line[0, 0] = line[n - 1, n - 1] = 1
    return (sp.kron(sp.eye_array(n), line) + sp.kron(line, sp.eye_array(n))).tocsr()


def products(A: Any, b: Any, **options: Any) -> tuple[tacit.Result, int]:
    """The result, and all products with matrices (those of levels, too)."""
    r = tacit.solve(tacit.csr(A), b, trace=True, threads=1, **options)
    assert r.trace is not None
    return r, sum(e.name == "csr product" for e in r.trace)


@pytest.mark.parametrize("method", ["auto", "cg", "gmres", "bicgstab"])
@pytest.mark.parametrize("n", [8, 50])
def test_a_solve_that_is_cut_off_early_is_not_looked_into(method: str, n: int) -> None:
    options: dict[str, Any] = {"method": method, "max_iterations": 5}
    r, made = products(laplacian(n, n), np.ones(n * n), **options)
    assert r.reason == "max_iterations"
    assert made == products(laplacian(n, n), np.ones(n * n), explain=False, **options)[1]
    assert r.seconds["explain"] == 0
    assert "more iterations" in r.advice


def test_many_columns_that_are_cut_off_early_are_not_looked_into() -> None:
    r = tacit.solve(laplacian(40, 40), np.random.default_rng(1).standard_normal((1600, 16)), max_iterations=5)
    assert [c.reason for c in r.columns] == ["max_iterations"] * 16
    assert r.seconds["explain"] == 0


@pytest.mark.parametrize("method", ["auto", "cg", "gmres"])
def test_a_cause_costs_no_more_than_the_solve(method: str) -> None:
    A, b = neumann(300), np.random.default_rng(2).standard_normal(90000)
    options: dict[str, Any] = {"method": method, "max_iterations": 120}
    r, made = products(A, b, **options)
    none, without = products(A, b, explain=False, **options)
    assert not r.converged
    # 10 ms are some ten products of this size.
    assert 0 < made - without <= r.counts["operator_applies"] + 20
    assert r.seconds["explain"] > 0 == none.seconds["explain"]
    again, same = products(A, b, **options)
    assert (same, again.detail, again.advice) == (made, r.detail, r.advice)
    assert none.counts == r.counts


def test_asked_for_it_goes_as_far_as_it_takes() -> None:
    A, b = laplacian(120, 120), np.ones(14400)
    for method in ("auto", "cg"):
        short, few = products(A, b, method=method, max_iterations=5)
        asked, many = products(A, b, method=method, max_iterations=5, explain=True)
        assert few < many
        assert asked.seconds["explain"] > 0 == short.seconds["explain"]
        assert asked.counts == short.counts


def test_a_slow_function_is_not_called_more_often_than_by_the_solve() -> None:
    calls = [0]

    def product(x: Any) -> Any:
        calls[0] += 1
        time.sleep(0.02)
        return -x if calls[0] % 2 else x

    r = tacit.solve(tacit.function((1000, 1000), product), np.ones(1000), method="cg", fallbacks=False)
    assert not r.converged
    assert calls[0] <= 2 * r.counts["operator_applies"] + 1


def test_the_option_is_that_of_the_command_line(tmp_path: Any) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix(laplacian(20, 20)))
    command = [sys.executable, "-m", "tacit", "solve", str(tmp_path / "a.npz"), "--max-iterations", "3", "--json", "-"]
    found = {}
    for word in ("--explain", "--no-explain"):
        done = subprocess.run([*command, word], capture_output=True, text=True, timeout=120)
        found[word] = json.loads(done.stdout)["seconds"]["explain"]
    assert found["--explain"] > 0 == found["--no-explain"]


def test_simulated_times_end_before_the_cause_is_looked_for() -> None:
    A, b = laplacian(40, 40), np.ones(1600)
    options: dict[str, Any] = {"ranks": 24, "method": "ca-gmres", "rtol": 1e-14, "restart": 20}
    made = {k: tacit.simulate.solve(A, b, max_iterations=k, **options) for k in (60, 90, 120)}
    assert all(not one.result.converged for one in made.values())
    times = [one.seconds for one in made.values()]
    # Each thirty iterations take as long as those before them.
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=0.2)
    for choice in (True, False):
        other = tacit.simulate.solve(A, b, max_iterations=120, explain=choice, **options)
        # But for an agreement on errors at the end.
        assert other.seconds == pytest.approx(made[120].seconds, rel=0.02)
