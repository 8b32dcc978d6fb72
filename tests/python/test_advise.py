"""Advice by simulated solves: that it is near the best choice, and what it says."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import refused
from cli_support import tacit as command

import tacit


def wind(n: int) -> sp.csr_array:
    line = sp.diags_array([-1.4, 2.0, -0.6], offsets=[-1, 0, 1], shape=(n, n))
    five = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return sp.csr_array(sp.kron(sp.eye_array(n), line) + sp.kron(five, sp.eye_array(n)))


@pytest.mark.parametrize("ranks", [16, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", ["hopper", "tsubame"])
def test_extrapolated_advice_is_near_the_best_choice(machine: str, ranks: int) -> None:
    for A in (tacit.poisson((48, 48)), wind(48)):
        how = {"ranks": ranks, "machine": machine, "turns": False}
        short, whole = tacit.advise(A, whole=0, **how), tacit.advise(A, whole=10**9, **how)
        assert short.best is not None
        assert whole.best is not None
        assert any(c.extrapolated for c in short.candidates)
        assert not any(c.extrapolated for c in whole.candidates)
        seconds = {c.name: c.seconds for c in whole.candidates}
        assert seconds[short.best.name] <= 1.1 * whole.best.seconds
        for c in short.candidates:
            assert c.reason == "converged"
            assert abs(c.seconds / seconds[c.name] - 1) < 0.25, c.name


def test_what_advice_says() -> None:
    seen = []
    found = tacit.advise(tacit.poisson((30, 30)), ranks=32, machine="hopper", after=lambda *step: seen.append(step))
    assert [step[:2] for step in seen] == [(i + 1, 4) for i in range(4)]
    best = found.best
    assert best is not None
    assert [c.seconds for c in found.candidates] == sorted(c.seconds for c in found.candidates)
    for c in found.candidates:
        assert c.least < c.seconds < c.most
        assert sum(c.shares.values()) == pytest.approx(1)
    one = tacit.simulate.solve(
        tacit.poisson((30, 30)), np.ones(900), ranks=32, machine="hopper", method=best.method, precond="jacobi",
        explain=False, fallbacks=False, **best.options,
    )  # fmt: skip
    assert best.seconds == one.seconds
    text = str(found)
    assert text.startswith("SIMULATED: 32 ranks")
    assert f"take {best.name}" in text
    # Of little latency and no noise nothing is left to gain; the classical method reads the least.
    free = tacit.simulate.machine("hopper") | {"latency": 0.0, "overhead": 0.0, "noise": 0.0, "levels": []}
    calm = tacit.advise(tacit.poisson((30, 30)), ranks=4, machine=free, turns=False).best
    assert calm is not None
    assert calm.family == "classical"
    # What would change that: none of what is varied does, since it is all zero.
    still = tacit.advise(tacit.poisson((30, 30)), ranks=4, machine=free)
    assert still.turns == still.to_dict()["turns"] == []
    assert "changes this" in str(still)
    untried = tacit.advise(tacit.poisson((30, 30)), ranks=4, machine=free, turns=False)
    assert untried.turns is untried.to_dict()["turns"] is None
    assert "changes this" not in str(untried)


@pytest.mark.parametrize("where", ["A", "b"])
def test_values_that_are_not_finite_are_refused(where: str) -> None:
    A, b = wind(8), np.ones(64)
    (A.data if where == "A" else b)[5] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        tacit.advise(A, b, ranks=4)


def test_what_does_not_converge_is_last() -> None:
    A = wind(12)
    found = tacit.advise(A, ranks=4, turns=False, max_iterations=12)
    assert found.candidates[-1].reason == "max_iterations"
    assert np.isnan(found.candidates[-1].seconds)
    none = tacit.advise(A, ranks=4, max_iterations=2)
    assert none.best is None
    assert "none of these converges" in str(none)
    assert none.to_dict()["best"] is None


def test_the_command(tmp_path: pathlib.Path) -> None:
    matrix, facts = tmp_path / "A.npz", tmp_path / "facts.json"
    sp.save_npz(matrix, sp.csr_matrix(wind(16)))
    words = ["--ranks", 8, "--machine", "tsubame", "--precond", "jacobi", "--precond", "none", "--no-turns"]
    done = command("advise", matrix, *words, "--json", facts)
    assert "SIMULATED: 8 ranks" in done.stdout
    found = json.loads(facts.read_text())
    assert found["simulated"]
    assert len(found["candidates"]) == 16
    assert found["best"]["seconds"] == min(c["seconds"] for c in found["candidates"] if c["seconds"])
    assert "--ranks N is needed" in refused("advise", matrix)
    assert "1 to 256" in refused("advise", matrix, "--ranks", "257")
    assert "hoper" in refused("advise", matrix, "--ranks", "4", "--machine", "hoper")
    assert "jakobi" in refused("advise", matrix, "--ranks", "4", "--precond", "jakobi")
    command("advise", matrix, "--ranks", 4, "--max-iterations", 2, code=3)
