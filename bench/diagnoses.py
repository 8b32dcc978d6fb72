"""Failures with a known cause, solved through tacit.solve: does each result name the cause, and is nothing of it false?

    python bench/diagnoses.py [--only WORD ...] [--wrong] [--json FILE]
    python bench/diagnoses.py --fuzz 2000 [--seed 1]

Without --fuzz: the table. A case is a system with a cause, solved with several settings. A verdict is "right" where the
reason is one of the expected ones, the words that the cause needs stand in detail, advice or warnings, none that would
be wrong stand there, and no statement on the matrix is refuted by its dense form (`refuted`). With --fuzz: random small
systems, each with a random method and preconditioner; every statement of every result is checked in the same way, and
residuals of converged solves in extended precision.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

import harness
import tacit
from diagnosed_systems import CASES, CG, GENERAL, Case, convection, dense, rng

# --- what is true of a system -----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Facts:
    """What the dense matrix says of a system."""

    skew: float  # ||A - A^H|| / ||A||
    smallest: float  # the smallest singular value over the largest
    least: float  # min ||b - A x|| / ||b|| over x no longer than 1e4 / epsilon times ||b|| / ||A||
    eigenvalues: Any  # of (A + A^H) / 2, over ||A||
    attainable: float  # epsilon ||A|| ||x|| / ||b|| of the shortest x with that residual

    @staticmethod
    def of(A: Any, b: Any, epsilon: float) -> Facts:
        exact = np.asarray(A, np.complex128 if np.iscomplexobj(A) else np.float64)
        size = max(np.abs(exact).max(initial=0.0), 1e-300)
        scaled = exact / size
        right = np.asarray(b, np.complex128 if np.iscomplexobj(b) else np.float64)
        right = right / max(np.abs(right).max(initial=0.0), 1e-300)
        right = right / max(np.linalg.norm(right), 1e-300)
        U, s, _ = la.svd(scaled)
        most = max(s[0], 1e-300)
        kept = s > 1e-4 * epsilon * most
        parts = np.abs(U.conj().T @ right)
        least = float(np.linalg.norm(parts[~kept]))
        length = float(np.linalg.norm(parts[kept] / s[kept])) if kept.any() else 0.0
        symmetric = la.eigvalsh((scaled + scaled.conj().T) / 2) / most
        skew = float(np.linalg.norm(scaled - scaled.conj().T) / max(np.linalg.norm(scaled), 1e-300))
        return Facts(skew, float(s[-1] / most), least, symmetric, epsilon * most * length)


def epsilon_of(scalar: str) -> float:
    return float(np.finfo(np.dtype(scalar)).eps)


def words(r: tacit.Result) -> str:
    return " | ".join([r.detail, r.advice, *r.warnings])


def statements(text: str) -> set[str]:
    """The statements on the system that the words of a result make."""
    known = {
        "A not Hermitian": r"\bA is not Hermitian",
        "A inconsistent": r"is inconsistent",
        "A singular": r"the matrix A is singular",
        "A nearly singular": r"A is singular, or nearly so|A is nearly singular",
        "A indefinite": r"the matrix (A )?is not positive definite|A is (not positive definite|indefinite)",
        "P at fault": r"preconditioner (P|is|[\w-]+ is the likely cause)|the preconditioner (gives|maps|changes)",
        "more iterations": r"[Aa]llow more iterations",
        "longer restart": r"longer restart",
        "rounding": r"in this precision|rounding of the scalar type",
        "double precision": r"([Uu]se|or) double precision",
    }
    denied = re.sub(r"a longer restart or another method does not help", "", text)
    return {name for name, pattern in known.items() if re.search(pattern, denied)}


def refuted(
    r: tacit.Result, A: Any, b: Any, P: Any, rtol: float, again: Callable[[int], tacit.Result] | None
) -> list[str]:
    """The statements of a failed solve that are false of A, b and the preconditioner's matrix P (None: not known).
    `again`: repeats the solve with so many iterations.
    """
    epsilon = epsilon_of(r.scalar)
    facts, says, false = Facts.of(A, b, epsilon), statements(f"{r.detail} | {r.advice}"), []
    weak = max(1e-10, 1e3 * epsilon)
    if "A not Hermitian" in says and not facts.skew > 16 * epsilon:
        false.append(f"A is Hermitian: {facts.skew:.1e}")
    if "A inconsistent" in says and not (facts.least > 0.5 * rtol or facts.attainable > rtol):
        false.append(f"A x = b has a solution: {facts.least:.1e}, attainable {facts.attainable:.1e}")
    if says & {"A singular", "A nearly singular"} and not facts.smallest < weak and not facts.attainable > 0.01 * rtol:
        false.append(f"A is regular: {facts.smallest:.1e}")
    if "A indefinite" in says and facts.skew <= 1e-10 and facts.eigenvalues[0] > 0 and facts.smallest > epsilon:
        false.append(f"A is positive definite: {facts.eigenvalues[0]:.1e}")
    if "double precision" in says and r.scalar in ("float64", "complex128"):
        false.append("the arithmetic is in double precision")
    if "rounding" in says and facts.attainable < 1e-3 * rtol and r.residual_norm > 1e3 * max(facts.attainable, epsilon):
        false.append(f"rounding allows {facts.attainable:.1e}")
    hopeless = facts.least > 2 * rtol
    if hopeless and "longer restart" in says:
        false.append(f"no restart helps: no x has a residual below {facts.least:.1e}")
    early = r.iterations < min(100, len(b))  # after so few, "more iterations" says nothing about what they bring
    if "more iterations" in says and not early and not hopeless and again is not None:
        more = again(max(10 * r.iterations, 1000))
        if not more.converged and not more.residual_norm < 0.5 * r.residual_norm:
            false.append(f"more iterations bring {more.residual_norm:.1e} instead of {r.residual_norm:.1e}")
    elif "more iterations" in says and not early and hopeless and r.residual_norm < 1.05 * facts.least:
        false.append(f"more iterations bring nothing: no x has a residual below {facts.least:.1e}")
    return false


def residual(A: Any, x: Any, b: Any) -> float:
    """||b - A x|| / ||b||, in extended precision."""
    kind = np.clongdouble if any(np.iscomplexobj(v) for v in (A, x, b)) else np.longdouble
    wide, right = dense(A).astype(kind), np.asarray(b).astype(kind)
    norm = np.sqrt(np.sum(np.abs(right) ** 2))
    return float(np.sqrt(np.sum(np.abs(right - wide @ np.asarray(x).astype(kind)) ** 2)) / (norm if norm > 0 else 1))


def misreported(r: tacit.Result, A: Any, b: Any) -> float | None:
    """The residual of x where the one that was reported is another by more than rounding."""
    sizes = np.abs(A).astype(np.longdouble) @ np.abs(r.x).astype(np.longdouble)
    size, norm = (float(np.sqrt(np.sum(np.abs(v).astype(np.longdouble) ** 2))) for v in (sizes, b))
    true = residual(A, r.x, b)
    noise = 4 * len(b) * epsilon_of(r.scalar) * (size / norm if norm > 0 else np.inf)
    near = abs(true - r.residual_norm) <= 0.1 * r.residual_norm + noise
    return None if near or not np.isfinite(r.residual_norm) else true


# --- the table --------------------------------------------------------------------------------------------------------


def judge(case: Case, setting: Any) -> dict[str, Any]:
    """Solves a case with a method, or (method, precond)."""
    method, precond = setting if isinstance(setting, tuple) else (setting, None)
    facts = case.make()
    A, b, P, known = facts.pop("A"), facts.pop("b"), facts.pop("P", None), facts.pop("dense", None)
    if precond is not None:
        facts["precond"] = precond
    begin = time.perf_counter()
    r = tacit.solve(A, b, method=method, **facts)
    seconds = time.perf_counter() - begin
    small = len(b) <= 2000  # what is larger is not judged by its dense matrix
    matrix = dense(A if known is None else known) if small else None
    text, wrong = words(r), []
    rtol = facts.get("rtol", 1e-8)
    if r.converged:
        if residual(A if matrix is None else matrix, r.x, b) > 1.01 * rtol and not facts.get("norm"):
            wrong.append("not solved")
    elif matrix is not None and np.isfinite(matrix).all() and np.isfinite(b).all():

        def again(most: int) -> tacit.Result:
            new = case.make()
            left = {key: new[key] for key in new if key not in ("A", "b", "P", "dense", "max_iterations")}
            return tacit.solve(
                new["A"],
                new["b"],
                method=method,
                max_iterations=most,
                **left | ({} if precond is None else {"precond": precond}),
            )

        wrong += refuted(r, matrix, b, P if "precond" not in facts or P is not None else np.eye(len(b)), rtol, again)
    if r.reason not in case.ends:
        wrong.append(f"ended as {r.reason}")
    if not (r.converged and "converged" in case.ends):
        wrong += [f"does not say {p}" for p in case.says if not re.search(p, text)]
        spoken = re.sub("a longer restart or another method does not help", "", f"{r.detail} | {r.advice}")
        wrong += [f"says {p}" for p in case.never if re.search(p, spoken)]
    return {
        "name": case.name,
        "cause": case.cause,
        "method": method,
        "precond": r.precond,
        "reason": r.reason,
        "residual": r.residual_norm,
        "iterations": r.iterations,
        "detail": r.detail,
        "advice": r.advice,
        "warnings": r.warnings,
        "wrong": wrong,
        "seconds": seconds,
    }


def run_table(options: Any) -> int:
    rows = []
    for case in CASES:
        if options.only and not any(word in case.name for word in options.only):
            continue
        for setting in case.settings:
            row = judge(case, setting)
            rows.append(row)
            if options.wrong and not row["wrong"]:
                continue
            print(f"{'WRONG' if row['wrong'] else 'right'}  {row['name']}: {row['cause']}")
            print(
                f"       {row['method']}, {row['precond']}: {row['reason']} at {row['residual']:.1e} after {row['iterations']}, {row['seconds']:.2f} s"
            )
            for key in ("detail", "advice"):
                if row[key]:
                    print(f"       {key}: {row[key]}")
            for text in row["wrong"]:
                print(f"       wrong: {text}")
            sys.stdout.flush()
    cases = {row["name"] for row in rows}
    wrong = [row for row in rows if row["wrong"]]
    print(
        f"{len(cases)} cases, {len(rows)} solves: {len(rows) - len(wrong)} right, {len(wrong)} wrong (in {len({r['name'] for r in wrong})} cases)"
    )
    harness.write(options.json, "diagnoses/1", rows=rows)
    return 1 if wrong else 0


# --- random systems ---------------------------------------------------------------------------------------------------

PRECONDS = (None, "none", "jacobi", "ilu0", "ic0", "ilut", "spai", "polynomial", "random", "indefinite")
METHODS = ("auto", *CG, *GENERAL, "pipelined-ca-gmres", "richardson")


def random_matrix(g: np.random.Generator, n: int, complex_: bool) -> Any:
    """A dense or sparse matrix of a random kind."""

    def numbers(*shape: int) -> Any:
        return g.standard_normal(shape) + (1j * g.standard_normal(shape) if complex_ else 0)

    kind = g.integers(0, 8)
    M: Any
    if kind <= 1:  # given singular values, or eigenvalues, some of them zero or tiny
        low = g.choice([0, -2, -6, -10, -14, -18])
        values = 10.0 ** g.uniform(low, 0, n) * g.choice([1, 1, -1], n)
        values[: g.integers(0, max(2, n // 3))] *= g.choice([0, 0, 1, 1e-14])
        Q, R = np.linalg.qr(numbers(n, n))[0], np.linalg.qr(numbers(n, n))[0]
        M = (Q * (values if g.random() < 0.6 else abs(values))) @ (Q if kind == 0 else R).conj().T
        if kind == 0:
            M = (M + M.conj().T) / 2
    elif kind == 2:  # a Laplacian of a random graph, perhaps shifted
        W = np.where(g.random((n, n)) < 3 / n, g.uniform(0.1, 1, (n, n)), 0)
        W = W + W.T
        M = np.diag(W.sum(1)) - W + g.choice([0, 0, 1e-6, 0.1, -0.3]) * np.eye(n)
    elif kind == 3:  # convection and diffusion on a line
        M = dense(convection(n, g.uniform(0, 2))) * g.choice([1, -1]) if n > 1 else np.ones((1, 1))
    elif kind == 4:  # a permutation of a diagonal
        M = np.zeros((n, n))
        M[np.arange(n), g.permutation(n)] = g.uniform(0.5, 2, n)
    elif kind == 5:
        M = numbers(n, n)
        M = (M - M.conj().T) / 2 + g.choice([0, 0, 0.1]) * np.eye(n)
    else:  # sparse, with or without a dominant diagonal
        M = np.where(g.random((n, n)) < min(1, 4 / n), numbers(n, n), 0) + np.diag(g.choice([0, 1, 4]) * numbers(n))
    M = M + (0j if complex_ else 0)
    if g.random() < 0.15:
        M[g.integers(0, n, g.integers(1, 3))] = 0
    if g.random() < 0.1:
        M[:, g.integers(0, n)] = 0
    if g.random() < 0.2:
        d = 10.0 ** g.uniform(-4, 4, n)
        M = d[:, None] * M * (d if g.random() < 0.5 else 1)
    return M * 10.0 ** g.choice([0, 0, 0, 150, -150, 8, -8])


def random_system(seed: int) -> dict[str, Any]:
    """A system, a method and options."""
    g = rng(seed)
    n, complex_, single = int(g.integers(1, 61)), g.random() < 0.25, g.random() < 0.15
    A = random_matrix(g, n, complex_)
    b = g.standard_normal(n) + (1j * g.standard_normal(n) if complex_ else 0)
    if g.random() < 0.4:
        b = A @ b
    if g.random() < 0.1:
        b = np.where(np.arange(n) == g.integers(0, n), 1.0, 0.0) + 0 * b
    options: dict[str, Any] = {"method": str(g.choice(METHODS)), "rtol": float(g.choice([1e-3, 1e-8, 1e-10, 1e-13]))}
    P = g.choice(np.array(PRECONDS, object))
    known = None
    if P in ("random", "indefinite"):
        known = np.diag(g.uniform(0.5, 2, n) * (g.choice([1, -1, 0], n) if P == "indefinite" else 1))
        P = sp.csr_array(known)
    if P is not None:
        options["precond"] = P
    if g.random() < 0.2:
        options["max_iterations"] = int(g.integers(0, 40))
    if g.random() < 0.15:
        options["fallbacks"] = False
    if single:
        kind = np.complex64 if complex_ else np.float32
        size = max(np.abs(A).max(), 1e-300)
        A, b = (A / size).astype(kind), (b / max(np.abs(b).max(), 1e-300)).astype(kind)
        options["rtol"] = max(options["rtol"], 1e-5)
        if "precond" in options and sp.issparse(options["precond"]):
            options["precond"] = options["precond"].astype(kind)
    return {"A": sp.csr_array(A), "b": b, "P": known, **options}


def fuzz_one(seed: int) -> dict[str, Any]:
    given = random_system(seed)
    A, b, P = given.pop("A"), given.pop("b"), given.pop("P")
    found: dict[str, Any] = {
        "seed": seed,
        "method": given["method"],
        "precond": str(given.get("precond"))[:20],
        "wrong": [],
    }
    begin = time.perf_counter()
    try:
        r = tacit.solve(A, b, **given)
    except (ValueError, tacit.Error) as error:  # wrong use: ic0 of a matrix that is not Hermitian, and the like
        return found | {"reason": "refused", "residual": 0.0, "text": str(error), "said": []}
    except Exception as error:
        found["wrong"].append(f"{type(error).__name__}: {error}")
        return found | {"reason": "exception", "residual": 0.0, "text": "", "said": []}
    if time.perf_counter() - begin > 20:
        found["wrong"].append("took more than 20 s")
    matrix, rtol = A.toarray(), given["rtol"]
    if not np.isfinite(r.x).all():
        found["wrong"].append("x is not finite")
    elif (true := misreported(r, matrix, b)) is not None:
        found["wrong"].append(f"the residual of x is {true:.3e}, not {r.residual_norm:.3e}")
    elif r.converged and residual(matrix, r.x, b) > rtol * 1.01 + 4 * epsilon_of(r.scalar):
        found["wrong"].append(f"false: converged at {residual(matrix, r.x, b):.3e}, rtol {rtol}")
    elif not r.converged and not r.detail and not r.advice:
        found["wrong"].append("says nothing")
    elif not r.converged and np.linalg.norm(b) > 0:
        known = np.eye(len(b)) if P is None and r.precond not in ("none", "jacobi") else P
        changed = {key: given[key] for key in given if key != "max_iterations"}
        found["wrong"] += refuted(
            r, matrix, b, known, rtol, lambda most: tacit.solve(A, b, max_iterations=most, **changed)
        )
    text = f"{r.detail} | {r.advice}"
    return found | {"reason": r.reason, "residual": r.residual_norm, "text": text, "said": sorted(statements(text))}


def run_fuzz(options: Any) -> int:
    first = options.seed * 1000000
    rows = [fuzz_one(first + i) for i in range(options.fuzz)]
    reasons, said = (
        collections.Counter(r["reason"] for r in rows),
        collections.Counter(s for r in rows for s in r["said"]),
    )
    wrong = [row for row in rows if row["wrong"]]
    for row in wrong:
        print(
            f"WRONG seed {row['seed']}, {row['method']}, {row['precond']}: {row['reason']} at {row['residual']:.1e}: {row['text']}"
        )
        for text in row["wrong"]:
            print(f"      {text}")
    print("reasons:", ", ".join(f"{count} {name}" for name, count in reasons.most_common()))
    print("statements:", ", ".join(f"{count} {name}" for name, count in said.most_common()))
    false = sum("false" in text for row in wrong for text in row["wrong"])
    print(f"{len(rows)} solves with seed {options.seed}: {false} false statements, {len(wrong)} wrong results")
    harness.write(options.json, "diagnoses-fuzz/1", rows=rows)
    return 1 if wrong else 0


def main() -> int:
    parser = harness.parser(__doc__)
    parser.add_argument("--only", nargs="+", help="cases whose names contain one of these")
    parser.add_argument("--wrong", action="store_true", help="print wrong ones only")
    parser.add_argument("--fuzz", type=int, metavar="N", help="N random systems in place of the table")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return run_fuzz(options) if options.fuzz else run_table(options)


if __name__ == "__main__":
    sys.exit(main())
