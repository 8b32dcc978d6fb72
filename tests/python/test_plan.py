"""What a solve would try, without solving: the same as what it then tries, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cli_support import poisson, refused, tacit

import tacit as t


def laplacian(n: int) -> sp.csr_matrix:
    line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    return sp.csr_matrix(sp.kron(line, sp.eye(n)) + sp.kron(sp.eye(n), line))


def named(plan: t.Plan) -> list[str]:
    alone = ("none", "direct")
    return [row.method if row.precond in alone else f"{row.method} {row.precond}" for row in plan.candidates]


def test_without_a_matrix_there_are_all_rules() -> None:
    plan = t.explain_plan()
    assert plan.facts is None
    assert not plan.left_out
    assert len(plan.candidates) > 10
    assert plan.candidates[-1].what == "auto without preconditioner"
    assert all(row.what and row.when and row.why for row in plan.candidates)
    assert any(rule.after == [] for rule in plan.rules)
    text = str(plan)
    assert all(row.what in text for row in plan.candidates)
    assert all(rule.when in text for rule in plan.rules)
    assert json.loads(json.dumps(plan.to_dict()))["schema"] == "tacit.plan/1"


def test_candidates_of_a_matrix_in_their_order() -> None:
    A = laplacian(70)
    plan = t.explain_plan(A)
    assert named(plan)[:5] == ["cg", "cg amg", "cg amg", "cg ic0", "cg ick"]
    assert plan.facts is not None
    assert plan.facts["unknowns"] == 4900
    assert plan.facts["hermitian"]
    assert plan.facts["diagonal_of_one_sign"]
    assert len(plan.candidates) + len(plan.left_out) == len(t.explain_plan().candidates)
    assert "1. cg" in str(plan)
    assert t.explain_plan(A, ranks=3).facts["several_ranks"]  # type: ignore[index]
    assert named(t.explain_plan(A, method="cg")) == ["cg", "cg amg", "cg amg", "cg ic0", "cg ick", "cg"]
    convection = A + sp.csr_matrix(sp.kron(sp.diags([0.4, -0.4], [1, -1], shape=(70, 70)), sp.eye(70)))
    assert "gmres schwarz" in named(t.explain_plan(convection, ranks=2))
    assert "gmres ilu0" in named(t.explain_plan(convection))


def test_aggregation_is_left_out_where_it_does_not_suit() -> None:
    # All couplings have the sign of the diagonal.
    plan = t.explain_plan(abs(laplacian(70)))
    assert "cg amg" not in named(plan)
    assert any("amg" in row.what for row in plan.left_out)


@pytest.mark.parametrize("kind", ["definite", "indefinite", "complex", "small", "saddle", "convection", "zeros"])
def test_a_solve_begins_with_the_first_candidate(kind: str) -> None:
    A = laplacian(12)
    n = A.shape[0]
    if kind == "indefinite":
        A = A - sp.diags(np.where(np.arange(n) % 2, 7.0, 0.0))
    elif kind == "complex":  # Hermitian, of both signs
        A = A + 1j * sp.diags([0.3, -0.3], [1, -1], shape=(n, n)) - sp.diags(np.where(np.arange(n) % 2, 7.0, 0.0))
    elif kind == "small":  # Hermitian, with zeros on the diagonal
        A = sp.csr_matrix([[1.0, 1, 0, 0], [1, 0, 0, 2], [0, 0, 3, 0], [0, 2, 0, 0]])
    elif kind == "saddle":
        B = sp.eye(20, n, format="csr")
        A = sp.bmat([[A, B.T], [B, None]], format="csr")
    elif kind == "convection":
        A = A + sp.diags([0.9], [1], shape=(n, n))
    elif kind == "zeros":
        A = sp.csr_matrix(A[np.arange(n) ^ 1])
    plan = t.explain_plan(A)
    found = t.solve(A, np.ones(A.shape[0]))
    first = plan.candidates[0]
    assert found.choice.startswith(f"auto: {first.method}"), (found.choice, named(plan))
    assert found.converged


def test_what_is_not_finite_is_said() -> None:
    A = laplacian(5)
    A.data[3] = np.nan
    plan = t.explain_plan(A)
    assert "not finite" in plan.fault
    assert plan.candidates == []
    assert "no iteration" in str(plan)


def test_wrong_use() -> None:
    A = laplacian(4)
    with pytest.raises(ValueError, match="A was not given"):
        t.explain_plan(method="cg")
    with pytest.raises(ValueError, match="A was not given"):
        t.explain_plan(ranks=2)
    with pytest.raises(ValueError, match="did you mean 'gmres'"):
        t.explain_plan(A, method="gmers")
    with pytest.raises(ValueError, match="ranks is 0"):
        t.explain_plan(A, ranks=0)
    with pytest.raises(ValueError, match="its own preconditioner"):
        t.explain_plan(A, method="direct")
    with pytest.raises(ValueError, match="entries"):
        t.explain_plan(t.function((16, 16), lambda x: x))
    with pytest.raises((ValueError, t.Error), match="square"):
        t.explain_plan(A[:10])


def test_on_the_command_line(tmp_path: Path) -> None:
    assert tacit("explain-plan").stdout == str(t.explain_plan())
    document = json.loads(tacit("explain-plan", "--json").stdout)
    assert document["schema"] == "tacit.plan/1"
    assert [row["what"] for row in document["candidates"]] == [row.what for row in t.explain_plan().candidates]
    assert "facts" not in document
    file = poisson(tmp_path / "A.mtx")
    out = tacit("explain-plan", file).stdout
    assert "Hermitian" in out
    assert "1. cg" in out
    found = json.loads(tacit("explain-plan", file, "--method", "cg", "--ranks", 2, "--json").stdout)
    assert {row["method"] for row in found["candidates"]} == {"cg"}
    assert found["facts"]["several_ranks"]
    written = tmp_path / "plan.json"
    assert tacit("explain-plan", file, "--json", written).stdout == out
    assert json.loads(written.read_text())["file"] == str(file)
    assert "name its file" in refused("explain-plan", "--ranks", 2)
    oblong = tmp_path / "oblong.mtx"
    oblong.write_text("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1.0\n")
    assert "2 x 3" in refused("explain-plan", oblong, code=4)
