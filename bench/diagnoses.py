"""Failures with a known cause, solved through tacit.solve: does each result name the cause, and claim nothing false?

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

import harness
import tacit

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


def dense(A: Any) -> Any:
    return A.toarray() if sp.issparse(A) else np.asarray(A)


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


def mistold(r: tacit.Result, A: Any, b: Any) -> float | None:
    """The residual of x where the one that was reported is another by more than rounding."""
    sizes = np.abs(A).astype(np.longdouble) @ np.abs(r.x).astype(np.longdouble)
    size, norm = (float(np.sqrt(np.sum(np.abs(v).astype(np.longdouble) ** 2))) for v in (sizes, b))
    true = residual(A, r.x, b)
    noise = 4 * len(b) * epsilon_of(r.scalar) * (size / norm if norm > 0 else np.inf)
    near = abs(true - r.residual_norm) <= 0.1 * r.residual_norm + noise
    return None if near or not np.isfinite(r.residual_norm) else true


# --- systems ----------------------------------------------------------------------------------------------------------


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def path(n: int) -> Any:
    """The Laplacian of a path: constants are its null space."""
    L = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]).tolil()
    L[0, 0] = L[n - 1, n - 1] = 1
    return L.tocsr()


def neumann(nx: int, ny: int) -> Any:
    return (sp.kron(sp.eye_array(ny), path(nx)) + sp.kron(path(ny), sp.eye_array(nx))).tocsr()


def poisson(nx: int, ny: int) -> Any:
    line = [sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) for n in (nx, ny)]
    return (sp.kron(sp.eye_array(ny), line[0]) + sp.kron(line[1], sp.eye_array(nx))).tocsr()


def convection(n: int, speed: float) -> Any:
    """u'' and a first derivative `speed` times as large, on a line."""
    return sp.diags_array([-1.0 - speed, 2.0, -1.0 + speed], offsets=[-1, 0, 1], shape=(n, n)).tocsr()


def skew(n: int) -> Any:
    return sp.diags_array([-1.0, 1.0], offsets=[-1, 1], shape=(n, n)).tocsr()


def cycle(n: int) -> Any:
    """The permutation that shifts by one, cyclically."""
    return sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))


def orthogonal(n: int, seed: int, complex_: bool = False) -> Any:
    M = rng(seed).standard_normal((n, n))
    return np.linalg.qr(M + 1j * rng(seed + 1).standard_normal((n, n)) if complex_ else M)[0]


def spectrum(values: Any, seed: int = 5, complex_: bool = False) -> Any:
    """A dense Hermitian matrix with these eigenvalues."""
    Q = orthogonal(len(values), seed, complex_)
    A = (Q * np.asarray(values)) @ Q.conj().T
    return (A + A.conj().T) / 2


def singular_values(values: Any, seed: int = 6, complex_: bool = False) -> Any:
    n = len(values)
    return (orthogonal(n, seed, complex_) * np.asarray(values)) @ orthogonal(n, seed + 10, complex_).conj().T


def random_graph(n: int, seed: int) -> Any:
    """The Laplacian of a connected random graph with weights."""
    g = rng(seed)
    i = np.concatenate([np.arange(n - 1), g.integers(0, n, 3 * n)])
    j = np.concatenate([np.arange(1, n), g.integers(0, n, 3 * n)])
    W = sp.coo_array((g.uniform(0.1, 2, len(i)), (i, j)), shape=(n, n)).tocsr()
    W = W + W.T
    W = (W - sp.diags_array(W.diagonal())).tocsr()
    return (sp.diags_array(W.sum(axis=1)) - W).tocsr()


def normal(n: int, seed: int = 3, complex_: bool = False) -> Any:
    b = rng(seed).standard_normal(n)
    return b + 1j * rng(seed + 1).standard_normal(n) if complex_ else b


def hilbert(n: int) -> Any:
    return la.hilbert(n)


# --- the table --------------------------------------------------------------------------------------------------------

FAILED = ("max_iterations", "breakdown", "stagnated", "diverged", "non_finite")
FRUITLESS = r"[Aa]llow more iterations|longer restart(?! or another method does not help)|stronger preconditioner"
CG = ("cg", "pipelined-cg", "ca-cg", "chebyshev")
GENERAL = ("gmres", "bicgstab", "idr", "pipelined-gmres", "ca-gmres", "pipelined-bicgstab", "ca-bicgstab")
SHORT = ("auto", "gmres", "bicgstab", "idr")


@dataclasses.dataclass
class Case:
    name: str
    cause: str
    make: Callable[[], dict[str, Any]]  # A, b and arguments of solve; "P": the preconditioner's dense matrix
    settings: Sequence[Any]  # methods, or (method, precond)
    says: Sequence[str] = ()  # each must stand in detail, advice or warnings
    never: Sequence[str] = ()
    ends: Sequence[str] = FAILED


def system(A: Any, b: Any = None, **more: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        matrix = A() if callable(A) else A
        return {"A": matrix, "b": normal(matrix.shape[0]) if b is None else b, **more}

    return make


def drifting(n: int) -> Any:
    """A function whose product changes by a hundredth from call to call."""
    A, g = poisson(n, n), rng(1)

    def product(x: Any) -> Any:
        return A @ x * (1 + 0.01 * g.standard_normal())

    return tacit.function((n * n, n * n), product)


def failing(n: int, after: int) -> Any:
    """A function that returns NaN after so many calls."""
    A, calls = poisson(n, n), [0]

    def product(x: Any) -> Any:
        calls[0] += 1
        return A @ x if calls[0] <= after else np.full(n * n, np.nan)

    return tacit.function((n * n, n * n), product)


def wrong_adjoint() -> Any:
    """A regular matrix, slow to solve, whose adjoint product is announced, and wrong."""
    A = cycle(300)
    return tacit.function((300, 300), lambda x: A @ x, rmatvec=lambda x: 0 * x)


INCONSISTENT: dict[str, Any] = {"says": ["inconsistent"], "never": [FRUITLESS]}
NOT_HERMITIAN: dict[str, Any] = {"says": ["A is not Hermitian"], "never": ["[Aa]llow more iterations", "singular"]}
NOT_DEFINITE: dict[str, Any] = {
    "says": ["not positive definite"],
    "never": ["[Aa]llow more iterations", "not Hermitian"],
}
SOLVED: dict[str, Any] = {"ends": ["converged"]}


def two_parts() -> Any:
    return sp.block_diag([path(40), path(60)]).tocsr()


def with_zero_row(A: Any, row: int = 7, column: bool = False) -> Any:
    A = A.tolil()
    A[row, :] = 0
    if column:
        A[:, row] = 0
    return A.tocsr()


def with_zero_column(A: Any, column: int = 7) -> Any:
    return with_zero_row(A.T.tocsr(), column).T.tocsr()


def weighted() -> Any:
    D = sp.diags_array(np.linspace(1, 3, 90))
    return (D @ path(90) @ D).tocsr()


def table() -> Iterator[Case]:
    one = np.ones
    # singular, inconsistent
    every = ("auto", *CG, *GENERAL)
    yield Case(
        "Neumann problem", "b has a mean, the null space is constant", system(neumann(12, 10)), every, **INCONSISTENT
    )
    yield Case(
        "Neumann, with Jacobi",
        "the same",
        system(neumann(12, 10)),
        [(m, "jacobi") for m in ("cg", "gmres", "bicgstab")],
        **INCONSISTENT,
    )
    yield Case(
        "Neumann, with ilu0",
        "the same",
        system(neumann(12, 10)),
        [("gmres", "ilu0"), ("bicgstab", "ilu0"), ("idr", "ilu0"), ("cg", "ic0")],
        **INCONSISTENT,
    )
    yield Case("Neumann, restart 5", "the same", system(neumann(12, 10), restart=5), ["gmres"], **INCONSISTENT)
    yield Case("Neumann, norm max", "the same", system(neumann(12, 10), norm="max"), ["cg", "gmres"], **INCONSISTENT)
    yield Case(
        "Neumann, single",
        "the same",
        system(neumann(12, 10).astype(np.float32), normal(120).astype(np.float32), rtol=1e-4),
        ["auto", "cg", "gmres", "bicgstab"],
        **INCONSISTENT,
    )
    yield Case(
        "graph Laplacian",
        "b = e_1 is not orthogonal to 1",
        system(random_graph(150, 2), np.eye(150)[0]),
        every,
        **INCONSISTENT,
    )
    yield Case(
        "two components",
        "b has a mean on each component",
        system(two_parts, np.r_[one(40), -one(60) * 40 / 60] + 0.1 * (normal(100) - normal(100).mean())),
        every,
        **INCONSISTENT,
    )
    yield Case("weighted null vector", "the null vector is not constant", system(weighted), every, **INCONSISTENT)
    yield Case(
        "b is the null vector",
        "A b = 0",
        system(path(50), one(50)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
        **INCONSISTENT,
    )
    yield Case(
        "negative Laplacian",
        "a negative semidefinite matrix, b with a mean",
        system(-neumann(12, 10)),
        ("auto", "cg", "gmres"),
        **INCONSISTENT,
    )
    yield Case(
        "zero row",
        "a row of zeros where b is not",
        system(with_zero_row(convection(80, 0.3)), one(80)),
        ("auto", *GENERAL),
        **INCONSISTENT,
    )
    yield Case(
        "zero row and column",
        "the same, symmetric",
        system(with_zero_row(poisson(9, 9), 7, True), one(81)),
        every,
        **INCONSISTENT,
    )
    yield Case(
        "zero row, given to cg",
        "a row of zeros where b is not",
        system(with_zero_row(convection(80, 0.0)), one(80)),
        ["cg", "pipelined-cg"],
        says=["inconsistent|A is not Hermitian"],
        never=[FRUITLESS],
    )
    yield Case(
        "zero column",
        "a column of zeros, b outside the range",
        system(with_zero_column(convection(80, 0.3)), one(80)),
        ("auto", *GENERAL),
        **INCONSISTENT,
    )
    rank = np.r_[np.linspace(1, 2, 50), np.zeros(10)]
    yield Case("rank 50 of 60", "b outside the range", system(singular_values(rank), normal(60)), SHORT, **INCONSISTENT)
    yield Case(
        "rank 50 of 60, complex",
        "b outside the range",
        system(singular_values(rank, 6, True), normal(60, 3, True)),
        SHORT,
        **INCONSISTENT,
    )
    yield Case(
        "semidefinite, complex",
        "b outside the range",
        system(spectrum(rank, 5, True), normal(60, 3, True)),
        ("auto", "cg", "gmres", "bicgstab"),
        **INCONSISTENT,
    )
    yield Case(
        "graded, inconsistent",
        "singular values from 1 to 1e-4, and five zeros",
        system(singular_values(np.r_[np.logspace(0, -4, 75), np.zeros(5)]), normal(80)),
        SHORT,
        **INCONSISTENT,
    )
    yield Case(
        "zero matrix",
        "A = 0",
        system(sp.csr_array((30, 30)), one(30)),
        every,
        says=["inconsistent|A is zero"],
        never=[FRUITLESS, "[Uu]se (gmres|bicgstab|another)", "Hermitian"],
    )
    yield Case(
        "nilpotent, outside the range",
        "b is not in the range of the shift",
        system(sp.eye_array(40, k=1).tocsr(), np.eye(40)[39]),
        ("auto", *GENERAL),
        **INCONSISTENT,
    )
    yield Case(
        "nilpotent, in the range",
        "A is singular, no Krylov space of b has a solution",
        system(sp.eye_array(40, k=1).tocsr(), np.eye(40)[0]),
        GENERAL,
        says=["singular"],
        never=[FRUITLESS, "inconsistent"],
    )
    yield Case(
        "skew-symmetric, odd",
        "an odd skew-symmetric matrix is singular",
        system(skew(61), one(61)),
        ("auto", *GENERAL),
        **INCONSISTENT,
    )
    # singular, consistent
    mean_free = normal(120) - normal(120).mean()
    yield Case("Neumann, consistent", "none: b has no mean", system(neumann(12, 10), mean_free), every, **SOLVED)
    yield Case(
        "rank 50 of 60, consistent",
        "none",
        system(singular_values(rank), singular_values(rank) @ one(60)),
        SHORT,
        **SOLVED,
    )
    yield Case(
        "negative Laplacian, consistent", "none", system(-neumann(12, 10), mean_free), ("auto", "cg", "gmres"), **SOLVED
    )
    # matrices that a method is not made for
    yield Case("convection", "nonsymmetric", system(convection(120, 0.9), one(120)), CG, **NOT_HERMITIAN)
    yield Case(
        "weak convection",
        "nonsymmetric",
        system(convection(400, 0.05), one(400)),
        CG,
        **NOT_HERMITIAN,
    )
    yield Case(
        "random nonsymmetric",
        "nonsymmetric",
        system(rng(4).standard_normal((90, 90)) / 9 + 3 * np.eye(90)),
        CG,
        says=["A is not Hermitian"],
        never=["[Aa]llow more", "singular"],
        ends=[*FAILED, "converged"],
    )
    yield Case("skew-symmetric", "skew-symmetric", system(skew(60), one(60)), CG, **NOT_HERMITIAN)
    yield Case("skew-symmetric, solved", "none", system(skew(60), one(60)), ("auto", "gmres"), **SOLVED)
    yield Case(
        "skew-symmetric, idr",
        "(t, r) = 0 for every r",
        system(skew(60), one(60)),
        ["idr", "bicgstab"],
        says=["gmres"],
        never=["singular", "[Aa]llow more"],
        ends=["breakdown", "converged"],
    )
    yield Case(
        "complex symmetric", "A = A^T, not A^H", system(poisson(10, 10) + 2j * sp.eye_array(100)), CG, **NOT_HERMITIAN
    )
    yield Case(
        "indefinite",
        "half of the eigenvalues are negative",
        system(poisson(12, 12) - 3.3 * sp.eye_array(144)),
        CG,
        **NOT_DEFINITE,
    )
    yield Case(
        "one negative eigenvalue", "one of 100", system(spectrum(np.r_[-1, np.linspace(1, 50, 99)])), CG, **NOT_DEFINITE
    )
    yield Case(
        "one tiny negative eigenvalue",
        "-1e-3 of 50",
        system(spectrum(np.r_[-1e-3, np.linspace(1, 50, 99)])),
        CG,
        **NOT_DEFINITE,
    )
    yield Case(
        "indefinite, complex",
        "half of the eigenvalues are negative",
        system(spectrum(np.r_[-np.linspace(1, 2, 30), np.linspace(1, 2, 30)], 5, True), normal(60, 3, True)),
        CG,
        **NOT_DEFINITE,
    )
    shifted = poisson(12, 12) - 3.3 * sp.eye_array(144)
    yield Case(
        "indefinite function",
        "half of the eigenvalues are negative",
        lambda: {
            "A": tacit.function((144, 144), lambda x: shifted @ x),
            "b": normal(144),
            "dense": shifted,
        },
        CG,
        **NOT_DEFINITE,
    )
    yield Case("negative definite", "none", system(-poisson(10, 10)), CG, **SOLVED)
    # preconditioners
    signs = np.where(np.arange(144) % 2 == 0, 1.0, -1.0)
    yield Case(
        "P indefinite",
        "P has both signs",
        system(poisson(12, 12), precond=sp.diags_array(signs).tocsr(), P=np.diag(signs)),
        ("cg", "pipelined-cg", "ca-cg"),
        says=["preconditioner"],
        never=["[Aa]llow more", "matrix is not positive definite", "singular"],
    )
    upper = sp.eye_array(144) + 3 * sp.eye_array(144, k=1)
    yield Case(
        "P nonsymmetric",
        "P is not Hermitian",
        system(poisson(12, 12), precond=upper.tocsr(), P=dense(upper)),
        ("cg", "pipelined-cg", "ca-cg"),
        says=["preconditioner P.* not Hermitian"],
        never=["[Aa]llow more", "A is not Hermitian"],
    )
    hole = np.r_[np.zeros(5), one(139)]
    yield Case(
        "P singular",
        "P maps five unknowns to zero",
        system(poisson(12, 12), precond=sp.diags_array(hole).tocsr(), P=np.diag(hole)),
        ("cg", "gmres", "bicgstab", "idr"),
        says=["preconditioner"],
        never=["[Aa]llow more", "longer restart"],
    )
    yield Case(
        "P zero",
        "P = 0",
        system(poisson(12, 12), precond=sp.csr_array((144, 144)), P=np.zeros((144, 144))),
        ("cg", "gmres", "bicgstab", "idr", "pipelined-cg", "ca-gmres"),
        says=["preconditioner"],
        never=["[Aa]llow more", "longer restart", "matrix is not positive definite"],
    )
    nan = tacit_function_nan
    yield Case(
        "P with NaN",
        "P returns NaN",
        lambda: {"A": poisson(12, 12), "b": normal(144), "precond": nan(), "P": np.eye(144)},
        ("cg", "gmres", "bicgstab", "idr", "pipelined-cg", "ca-gmres", "chebyshev"),
        says=["preconditioner"],
        never=["[Aa]llow more", "double precision", "singular"],
        ends=["non_finite"],
    )
    yield Case(
        "A function with NaN",
        "A returns NaN after 12 products",
        lambda: {"A": failing(12, 12), "b": normal(144), "dense": poisson(12, 12)},
        ("cg", "gmres", "bicgstab", "idr", "pipelined-cg"),
        says=[r"(A|operator|function).*(NaN|not finite)"],
        never=["[Aa]llow more", "double precision", "singular"],
        ends=["non_finite"],
    )
    pairs = sp.kron(sp.eye_array(40), np.array([[0.0, 1.0], [1.0, 0.0]])) + sp.diags_array(
        0.3 * one(77), offsets=3, shape=(80, 80)
    )
    yield Case(
        "zero diagonal",
        "every diagonal entry is zero",
        system(pairs.tocsr()),
        [("gmres", "ilu0"), ("bicgstab", "ilu0"), ("idr", "iluk")],
        says=["ilu0|iluk"],
        never=["[Aa]llow more", "double precision"],
        ends=[*FAILED, "converged"],
    )
    yield Case("zero diagonal, Jacobi", "none: taken as 1", system(pairs.tocsr()), [("gmres", "jacobi")], **SOLVED)
    swap = sp.kron(sp.eye_array(40), np.array([[0.0, 1.0], [1.0, 0.0]])).tocsr()
    yield Case(
        "zero diagonal, symmetric",
        "indefinite, with a zero diagonal",
        system(swap),
        [("cg", "jacobi"), ("cg", "ic0"), ("cg", None)],
        says=["not positive definite|ic0"],
        never=["[Aa]llow more"],
        ends=[*FAILED, "converged"],
    )
    yield Case(
        "polynomial, wrong interval",
        "lambda_max of P is too small: P is indefinite",
        system(poisson(12, 12), precond={"name": "polynomial", "degree": 5, "lambda_min": 0.05, "lambda_max": 0.4}),
        ["cg"],
        says=["preconditioner|polynomial"],
        never=["matrix is not positive definite", "[Aa]llow more"],
    )
    # spectra and restarts
    yield Case(
        "cyclic shift, gmres(30)",
        "the restart is too short for a permutation",
        system(cycle(300), np.eye(300)[0], restart=30),
        ["gmres", "ca-gmres", "pipelined-gmres"],
        says=["restart"],
        never=["singular", "inconsistent", "[Aa]llow more"],
    )
    yield Case(
        "cyclic shift, bicgstab",
        "b is orthogonal to A b",
        system(cycle(300), np.eye(300)[0]),
        ["bicgstab", "pipelined-bicgstab", "ca-bicgstab", "idr"],
        never=["singular", "inconsistent", "[Aa]llow more"],
        ends=[*FAILED, "converged"],
    )
    yield Case(
        "restart too short",
        "an indefinite matrix and cycles of 3",
        system(spectrum(np.r_[-np.linspace(1, 3, 50), np.linspace(1, 9, 50)]), restart=3, fallbacks=False),
        ["gmres"],
        says=["restart"],
        never=["singular", "inconsistent"],
        ends=[*FAILED, "converged"],
    )
    yield Case(
        "rotations",
        "(b, A b) = 0: a breakdown of bicgstab",
        system(sp.kron(sp.eye_array(30), np.array([[0.0, 1.0], [-1.0, 0.0]])).tocsr(), one(60), fallbacks=False),
        ["bicgstab", "pipelined-bicgstab", "ca-bicgstab"],
        says=["gmres"],
        never=["is singular", "inconsistent", "[Aa]llow more"],
        ends=["breakdown"],
    )
    # limits
    yield Case(
        "limit too low, cg",
        "the limit",
        system(poisson(40, 40), one(1600), max_iterations=40),
        ("cg", "pipelined-cg", "ca-cg"),
        says=["[Aa]llow more iterations"],
        never=["singular", "definite", "Hermitian"],
        ends=["max_iterations"],
    )
    yield Case(
        "limit too low, general",
        "the limit",
        system(convection(400, 0.2), one(400), max_iterations=60),
        ("auto", "gmres", "bicgstab", "idr"),
        says=["[Aa]llow more iterations"],
        never=["singular", "definite"],
        ends=["max_iterations", "converged"],
    )
    yield Case(
        "limit of 0",
        "the limit",
        system(poisson(9, 9), one(81), max_iterations=0),
        ("auto", "cg", "gmres"),
        says=["[Aa]llow more iterations"],
        ends=["max_iterations"],
    )
    yield Case(
        "limit of 150, slow",
        "the limit",
        system(poisson(200, 200), one(40000), max_iterations=150, fallbacks=False),
        ("cg",),
        says=["[Aa]llow more iterations"],
        never=["singular", "definite", "Hermitian"],
        ends=["max_iterations"],
    )
    # precision
    yield Case(
        "rtol 1e-17",
        "below the rounding of b - A x",
        system(poisson(20, 20), one(400), rtol=1e-17),
        ("cg", "gmres", "bicgstab", "idr", "auto"),
        says=["precision|rounding"],
        never=["(use|or) double precision", "singular", "not positive", "longer restart", "[Aa]llow more"],
    )
    yield Case(
        "rtol 1e-12, single",
        "float32 does not reach it",
        system(poisson(20, 20).astype(np.float32), one(400, np.float32), rtol=1e-12),
        ("cg", "gmres", "bicgstab", "idr", "auto", "pipelined-cg", "ca-gmres"),
        says=["double precision|float64"],
        never=["singular", "not positive", "longer restart", "[Aa]llow more"],
    )
    yield Case(
        "rtol 1e-12, complex single",
        "complex64 does not reach it",
        system((poisson(20, 20) + 0j).astype(np.complex64), one(400, np.complex64), rtol=1e-12),
        ("cg", "gmres", "bicgstab", "auto"),
        says=["double precision|complex128"],
        never=["singular", "not positive", "longer restart", "[Aa]llow more"],
    )
    yield Case(
        "Hilbert 24",
        "condition beyond the digits of double",
        system(hilbert(24), normal(24)),
        (*SHORT, "cg"),
        says=["singular, or nearly so|nearly singular|ill-conditioned"],
        never=["(use|or) double precision", "longer restart(?! or another)", "[Aa]llow more", "not Hermitian"],
    )
    yield Case(
        "condition 1e18",
        "singular values from 1 to 1e-18",
        system(singular_values(np.logspace(0, -18, 80)), normal(80)),
        SHORT,
        says=["singular, or nearly so|nearly singular|ill-conditioned"],
        never=["(use|or) double precision", "[Aa]llow more", "longer restart(?! or another)"],
    )
    yield Case(
        "one eigenvalue of 1e-14",
        "nearly singular",
        system(spectrum(np.r_[1e-14, np.linspace(1, 2, 59)]), normal(60)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
        says=["singular, or nearly so|nearly singular|ill-conditioned"],
        never=["(use|or) double precision", "longer restart(?! or another)", "[Aa]llow more"],
    )
    yield Case(
        "one eigenvalue of 1e-10",
        "nearly singular: rounding allows 1e-6 only",
        system(spectrum(np.r_[1e-10, np.linspace(1, 2, 59)]), normal(60)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
        says=["singular, or nearly so|nearly singular|ill-conditioned|precision"],
        never=["(use|or) double precision", "longer restart(?! or another)", "[Aa]llow more"],
        ends=[*FAILED, "converged"],
    )
    yield Case(
        "lost orthogonality",
        "one round of Gram-Schmidt on a condition of 1e10",
        system(
            singular_values(np.logspace(0, -10, 150)),
            singular_values(np.logspace(0, -10, 150)) @ normal(150),
            restart=150,
            orthogonalisation="cgs",
            rtol=1e-9,
        ),
        ["gmres"],
        says=["orthogonal|converged"],
        never=["singular", "inconsistent"],
        ends=[*FAILED, "converged"],
    )
    yield Case(
        "rows scaled by 1e-150 to 1e150",
        "none: b has the same scales",
        system(sp.diags_array(np.logspace(-150, 150, 80)) @ convection(80, 0.3), np.logspace(-150, 150, 80)),
        SHORT,
        ends=["converged"],
    )
    yield Case(
        "columns scaled by 1e-150 to 1e150",
        "columns of very different lengths",
        system(convection(80, 0.3) @ sp.diags_array(np.logspace(-150, 150, 80))),
        SHORT,
        never=["(use|or) double precision", "[Aa]llow more", "longer restart", "inconsistent"],
        ends=[*FAILED, "converged"],
        says=["scale|converged"],
    )
    yield Case(
        "solution overflows",
        "x = 1e60 in float32",
        system((1e-30 * poisson(6, 6)).astype(np.float32), (1e30 * one(36)).astype(np.float32)),
        ("cg", "gmres", "bicgstab", "auto"),
        says=["too large"],
        ends=["non_finite"],
    )
    yield Case(
        "entries near overflow",
        "none",
        system(1e300 * poisson(8, 8), 1e300 * one(64)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
        **SOLVED,
    )
    # operators and callbacks
    yield Case(
        "product changes",
        "the function gives another product at each call",
        lambda: {"A": drifting(12), "b": normal(144), "dense": poisson(12, 12)},
        ("cg", "gmres", "bicgstab", "idr"),
        says=["(changes|differ|not the same).*"],
        never=["[Aa]llow more", "A is not Hermitian", "singular", "in this precision"],
    )
    yield Case(
        "wrong adjoint",
        "the announced adjoint is wrong; the restart is too short",
        lambda: {"A": wrong_adjoint(), "b": np.eye(300)[0], "restart": 30, "dense": cycle(300)},
        ["gmres"],
        says=["restart"],
        never=["singular", "inconsistent"],
    )
    yield Case(
        "callback stops",
        "the callback",
        system(poisson(12, 12), callback=lambda s: s.iteration >= 3),
        ("auto", "cg", "gmres", "bicgstab"),
        says=["callback"],
        ends=["stopped"],
    )
    yield Case(
        "exact x0", "none: x0 solves", system(poisson(9, 9), poisson(9, 9) @ one(81), x0=one(81)), every, **SOLVED
    )
    bad = poisson(6, 6).tolil()
    bad[3, 4] = np.nan
    yield Case(
        "NaN in A", "an entry", system(bad.tocsr()), ("auto", "cg", "gmres"), says=[r"\b3\b"], ends=["non_finite"]
    )
    yield Case(
        "Inf in b",
        "an element",
        system(poisson(6, 6), np.where(np.arange(36) == 5, np.inf, 1.0)),
        ("auto", "cg", "gmres"),
        says=[r"b has .* index 5"],
        ends=["non_finite"],
    )
    # methods with parameters
    yield Case(
        "chebyshev, lambda_max too small",
        "the interval",
        system(poisson(10, 10), lambda_min=0.1, lambda_max=2.0),
        ["chebyshev"],
        says=["lambda_max"],
        never=["[Aa]llow more", "matrix is not positive definite"],
    )
    yield Case(
        "chebyshev, lambda_min too large",
        "the interval",
        system(poisson(30, 30), lambda_min=6.0, lambda_max=8.0),
        ["chebyshev"],
        says=["lambda_min|[Aa]llow more"],
        never=["not positive definite", "singular"],
        ends=[*FAILED, "converged"],
    )
    yield Case(
        "richardson, omega 1",
        "omega is above 2 / lambda_max",
        system(poisson(10, 10), relaxation=1.0),
        ["richardson"],
        says=["smaller relaxation"],
        ends=["diverged"],
    )
    yield Case(
        "richardson, indefinite",
        "no omega converges",
        system(poisson(10, 10) - 3.3 * sp.eye_array(100), relaxation=0.1),
        ["richardson"],
        says=["gmres"],
        never=[r"^[^|]*\| Use a smaller relaxation, a preconditioner"],
        ends=FAILED,
    )
    yield Case(
        "richardson, negative definite",
        "omega needs the other sign",
        system(-poisson(10, 10), relaxation=0.1),
        ["richardson"],
        says=["sign|negative"],
        ends=FAILED,
    )


def tacit_function_nan() -> Any:
    return tacit.function((144, 144), lambda x: np.full(144, np.nan))


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
    matrix = dense(A if known is None else known)
    text, wrong = words(r), []
    rtol = facts.get("rtol", 1e-8)
    if r.converged:
        if residual(matrix, r.x, b) > 1.01 * rtol and not facts.get("norm"):
            wrong.append("not solved")
    elif np.isfinite(matrix).all() and np.isfinite(b).all() and len(b) <= 2000:

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
    for case in table():
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
    elif (true := mistold(r, matrix, b)) is not None:
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
