"""The systems of bench/diagnoses.py: each has a cause for which solves fail, or none, and says what has to be found."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

import tacit

# --- systems ----------------------------------------------------------------------------------------------------------


def dense(A: Any) -> Any:
    return A.toarray() if sp.issparse(A) else np.asarray(A)


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


# Kinds of cases: what a result has to say, and must not.
inconsistent = functools.partial(Case, says=["inconsistent"], never=[FRUITLESS])
not_hermitian = functools.partial(Case, says=["A is not Hermitian"], never=["[Aa]llow more iterations", "singular"])
not_definite = functools.partial(
    Case, says=["not positive definite"], never=["[Aa]llow more iterations", "not Hermitian"]
)
solved = functools.partial(Case, ends=["converged"])


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


# singular, inconsistent
EVERY = ("auto", *CG, *GENERAL)
rank = np.r_[np.linspace(1, 2, 50), np.zeros(10)]
INCONSISTENT_SYSTEMS = [
    inconsistent("Neumann problem", "b has a mean, the null space is constant", system(neumann(12, 10)), EVERY),
    inconsistent(
        "Neumann, with Jacobi",
        "the same",
        system(neumann(12, 10)),
        [(m, "jacobi") for m in ("cg", "gmres", "bicgstab")],
    ),
    inconsistent(
        "Neumann, with ilu0",
        "the same",
        system(neumann(12, 10)),
        [("gmres", "ilu0"), ("bicgstab", "ilu0"), ("idr", "ilu0"), ("cg", "ic0")],
    ),
    inconsistent("Neumann, restart 5", "the same", system(neumann(12, 10), restart=5), ["gmres"]),
    inconsistent("Neumann, norm max", "the same", system(neumann(12, 10), norm="max"), ["cg", "gmres"]),
    inconsistent(
        "Neumann, single",
        "the same",
        system(neumann(12, 10).astype(np.float32), normal(120).astype(np.float32), rtol=1e-4),
        ["auto", "cg", "gmres", "bicgstab"],
    ),
    inconsistent(
        "graph Laplacian", "b = e_1 is not orthogonal to 1", system(random_graph(150, 2), np.eye(150)[0]), EVERY
    ),
    inconsistent(
        "two components",
        "b has a mean on each component",
        system(two_parts, np.r_[np.ones(40), -np.ones(60) * 40 / 60] + 0.1 * (normal(100) - normal(100).mean())),
        EVERY,
    ),
    inconsistent("weighted null vector", "the null vector is not constant", system(weighted), EVERY),
    inconsistent(
        "b is the null vector", "A b = 0", system(path(50), np.ones(50)), ("auto", "cg", "gmres", "bicgstab", "idr")
    ),
    inconsistent(
        "negative Laplacian",
        "a negative semidefinite matrix, b with a mean",
        system(-neumann(12, 10)),
        ("auto", "cg", "gmres"),
    ),
    inconsistent(
        "zero row",
        "a row of zeros where b is not",
        system(with_zero_row(convection(80, 0.3)), np.ones(80)),
        ("auto", *GENERAL),
    ),
    inconsistent(
        "zero row and column", "the same, symmetric", system(with_zero_row(poisson(9, 9), 7, True), np.ones(81)), EVERY
    ),
    Case(
        "zero row, given to cg",
        "a row of zeros where b is not",
        system(with_zero_row(convection(80, 0.0)), np.ones(80)),
        ["cg", "pipelined-cg"],
        says=["inconsistent|A is not Hermitian"],
        never=[FRUITLESS],
    ),
    inconsistent(
        "zero column",
        "a column of zeros, b outside the range",
        system(with_zero_column(convection(80, 0.3)), np.ones(80)),
        ("auto", *GENERAL),
    ),
    inconsistent("rank 50 of 60", "b outside the range", system(singular_values(rank), normal(60)), SHORT),
    inconsistent(
        "rank 50 of 60, complex",
        "b outside the range",
        system(singular_values(rank, 6, True), normal(60, 3, True)),
        SHORT,
    ),
    inconsistent(
        "semidefinite, complex",
        "b outside the range",
        system(spectrum(rank, 5, True), normal(60, 3, True)),
        ("auto", "cg", "gmres", "bicgstab"),
    ),
    inconsistent(
        "graded, inconsistent",
        "singular values from 1 to 1e-4, and five zeros",
        system(singular_values(np.r_[np.logspace(0, -4, 75), np.zeros(5)]), normal(80)),
        SHORT,
    ),
    Case(
        "zero matrix",
        "A = 0",
        system(sp.csr_array((30, 30)), np.ones(30)),
        EVERY,
        says=["inconsistent|A is zero"],
        never=[FRUITLESS, "[Uu]se (gmres|bicgstab|another)", "Hermitian"],
    ),
    inconsistent(
        "nilpotent, outside the range",
        "b is not in the range of the shift",
        system(sp.eye_array(40, k=1).tocsr(), np.eye(40)[39]),
        ("auto", *GENERAL),
    ),
    Case(
        "nilpotent, in the range",
        "A is singular, no Krylov space of b has a solution",
        system(sp.eye_array(40, k=1).tocsr(), np.eye(40)[0]),
        GENERAL,
        says=["singular"],
        never=[FRUITLESS, "inconsistent"],
    ),
    inconsistent(
        "skew-symmetric, odd",
        "an odd skew-symmetric matrix is singular",
        system(skew(61), np.ones(61)),
        ("auto", *GENERAL),
    ),
]

# singular, consistent
mean_free = normal(120) - normal(120).mean()
CONSISTENT_SYSTEMS = [
    solved("Neumann, consistent", "none: b has no mean", system(neumann(12, 10), mean_free), EVERY),
    solved(
        "rank 50 of 60, consistent", "none", system(singular_values(rank), singular_values(rank) @ np.ones(60)), SHORT
    ),
    solved("negative Laplacian, consistent", "none", system(-neumann(12, 10), mean_free), ("auto", "cg", "gmres")),
]

# matrices that a method is not made for
shifted = poisson(12, 12) - 3.3 * sp.eye_array(144)
UNSUITABLE_MATRICES = [
    not_hermitian("convection", "nonsymmetric", system(convection(120, 0.9), np.ones(120)), CG),
    not_hermitian("weak convection", "nonsymmetric", system(convection(400, 0.05), np.ones(400)), CG),
    Case(
        "random nonsymmetric",
        "nonsymmetric",
        system(rng(4).standard_normal((90, 90)) / 9 + 3 * np.eye(90)),
        CG,
        says=["A is not Hermitian"],
        never=["[Aa]llow more", "singular"],
        ends=[*FAILED, "converged"],
    ),
    not_hermitian("skew-symmetric", "skew-symmetric", system(skew(60), np.ones(60)), CG),
    solved("skew-symmetric, solved", "none", system(skew(60), np.ones(60)), ("auto", "gmres")),
    Case(
        "skew-symmetric, idr",
        "(t, r) = 0 for every r",
        system(skew(60), np.ones(60)),
        ["idr", "bicgstab"],
        says=["gmres"],
        never=["singular", "[Aa]llow more"],
        ends=["breakdown", "converged"],
    ),
    not_hermitian("complex symmetric", "A = A^T, not A^H", system(poisson(10, 10) + 2j * sp.eye_array(100)), CG),
    not_definite(
        "indefinite", "half of the eigenvalues are negative", system(poisson(12, 12) - 3.3 * sp.eye_array(144)), CG
    ),
    not_definite("one negative eigenvalue", "one of 100", system(spectrum(np.r_[-1, np.linspace(1, 50, 99)])), CG),
    not_definite(
        "one tiny negative eigenvalue", "-1e-3 of 50", system(spectrum(np.r_[-1e-3, np.linspace(1, 50, 99)])), CG
    ),
    not_definite(
        "indefinite, complex",
        "half of the eigenvalues are negative",
        system(spectrum(np.r_[-np.linspace(1, 2, 30), np.linspace(1, 2, 30)], 5, True), normal(60, 3, True)),
        CG,
    ),
    not_definite(
        "indefinite function",
        "half of the eigenvalues are negative",
        lambda: {"A": tacit.function((144, 144), lambda x: shifted @ x), "b": normal(144), "dense": shifted},
        CG,
    ),
    solved("negative definite", "none", system(-poisson(10, 10)), CG),
]

# preconditioners
signs = np.where(np.arange(144) % 2 == 0, 1.0, -1.0)
upper = sp.eye_array(144) + 3 * sp.eye_array(144, k=1)
hole = np.r_[np.zeros(5), np.ones(139)]
pairs = sp.kron(sp.eye_array(40), np.array([[0.0, 1.0], [1.0, 0.0]])) + sp.diags_array(
    0.3 * np.ones(77), offsets=3, shape=(80, 80)
)
swap = sp.kron(sp.eye_array(40), np.array([[0.0, 1.0], [1.0, 0.0]])).tocsr()
PRECONDITIONERS = [
    Case(
        "P indefinite",
        "P has both signs",
        system(poisson(12, 12), precond=sp.diags_array(signs).tocsr(), P=np.diag(signs)),
        ("cg", "pipelined-cg", "ca-cg"),
        says=["preconditioner"],
        never=["[Aa]llow more", "matrix is not positive definite", "singular"],
    ),
    Case(
        "P nonsymmetric",
        "P is not Hermitian",
        system(poisson(12, 12), precond=upper.tocsr(), P=dense(upper)),
        ("cg", "pipelined-cg", "ca-cg"),
        says=["preconditioner P.* not Hermitian"],
        never=["[Aa]llow more", "A is not Hermitian"],
    ),
    Case(
        "P singular",
        "P maps five unknowns to zero",
        system(poisson(12, 12), precond=sp.diags_array(hole).tocsr(), P=np.diag(hole)),
        ("cg", "gmres", "bicgstab", "idr"),
        says=["preconditioner"],
        never=["[Aa]llow more", "longer restart"],
    ),
    Case(
        "P zero",
        "P = 0",
        system(poisson(12, 12), precond=sp.csr_array((144, 144)), P=np.zeros((144, 144))),
        ("cg", "gmres", "bicgstab", "idr", "pipelined-cg", "ca-gmres"),
        says=["preconditioner"],
        never=["[Aa]llow more", "longer restart", "matrix is not positive definite"],
    ),
    Case(
        "P with NaN",
        "P returns NaN",
        lambda: {
            "A": poisson(12, 12),
            "b": normal(144),
            "precond": tacit.function((144, 144), lambda x: np.full(144, np.nan)),
            "P": np.eye(144),
        },
        ("cg", "gmres", "bicgstab", "idr", "pipelined-cg", "ca-gmres", "chebyshev"),
        says=["preconditioner"],
        never=["[Aa]llow more", "double precision", "singular"],
        ends=["non_finite"],
    ),
    Case(
        "A function with NaN",
        "A returns NaN after 12 products",
        lambda: {"A": failing(12, 12), "b": normal(144), "dense": poisson(12, 12)},
        ("cg", "gmres", "bicgstab", "idr", "pipelined-cg"),
        says=[r"(A|operator|function).*(NaN|not finite)"],
        never=["[Aa]llow more", "double precision", "singular"],
        ends=["non_finite"],
    ),
    Case(
        "zero diagonal",
        "every diagonal entry is zero",
        system(pairs.tocsr()),
        [("gmres", "ilu0"), ("bicgstab", "ilu0"), ("idr", "iluk")],
        says=["ilu0|iluk"],
        never=["[Aa]llow more", "double precision"],
        ends=[*FAILED, "converged"],
    ),
    solved("zero diagonal, Jacobi", "none: taken as 1", system(pairs.tocsr()), [("gmres", "jacobi")]),
    Case(
        "zero diagonal, symmetric",
        "indefinite, with a zero diagonal",
        system(swap),
        [("cg", "jacobi"), ("cg", "ic0"), ("cg", None)],
        says=["not positive definite|ic0"],
        never=["[Aa]llow more"],
        ends=[*FAILED, "converged"],
    ),
    Case(
        "polynomial, wrong interval",
        "lambda_max of P is too small: P is indefinite",
        system(poisson(12, 12), precond={"name": "polynomial", "degree": 5, "lambda_min": 0.05, "lambda_max": 0.4}),
        ["cg"],
        says=["preconditioner|polynomial"],
        never=["matrix is not positive definite", "[Aa]llow more"],
    ),
]

# spectra and restarts
SPECTRA = [
    Case(
        "cyclic shift, gmres(30)",
        "the restart is too short for a permutation",
        system(cycle(300), np.eye(300)[0], restart=30),
        ["gmres", "ca-gmres", "pipelined-gmres"],
        says=["restart"],
        never=["singular", "inconsistent", "[Aa]llow more"],
    ),
    Case(
        "cyclic shift, bicgstab",
        "b is orthogonal to A b",
        system(cycle(300), np.eye(300)[0]),
        ["bicgstab", "pipelined-bicgstab", "ca-bicgstab", "idr"],
        never=["singular", "inconsistent", "[Aa]llow more"],
        ends=[*FAILED, "converged"],
    ),
    Case(
        "restart too short",
        "an indefinite matrix and cycles of 3",
        system(spectrum(np.r_[-np.linspace(1, 3, 50), np.linspace(1, 9, 50)]), restart=3, fallbacks=False),
        ["gmres"],
        says=["restart"],
        never=["singular", "inconsistent"],
        ends=[*FAILED, "converged"],
    ),
    Case(
        "rotations",
        "(b, A b) = 0: a breakdown of bicgstab",
        system(sp.kron(sp.eye_array(30), np.array([[0.0, 1.0], [-1.0, 0.0]])).tocsr(), np.ones(60), fallbacks=False),
        ["bicgstab", "pipelined-bicgstab", "ca-bicgstab"],
        says=["gmres"],
        never=["is singular", "inconsistent", "[Aa]llow more"],
        ends=["breakdown"],
    ),
]

# limits
LIMITS = [
    Case(
        "limit too low, cg",
        "the limit",
        system(poisson(40, 40), np.ones(1600), max_iterations=40),
        ("cg", "pipelined-cg", "ca-cg"),
        says=["[Aa]llow more iterations"],
        never=["singular", "definite", "Hermitian"],
        ends=["max_iterations"],
    ),
    Case(
        "limit too low, general",
        "the limit",
        system(convection(400, 0.2), np.ones(400), max_iterations=60),
        ("auto", "gmres", "bicgstab", "idr"),
        says=["[Aa]llow more iterations"],
        never=["singular", "definite"],
        ends=["max_iterations", "converged"],
    ),
    Case(
        "limit of 0",
        "the limit",
        system(poisson(9, 9), np.ones(81), max_iterations=0),
        ("auto", "cg", "gmres"),
        says=["[Aa]llow more iterations"],
        ends=["max_iterations"],
    ),
    Case(
        "limit of 150, slow",
        "the limit",
        system(poisson(200, 200), np.ones(40000), max_iterations=150, fallbacks=False),
        ("cg",),
        says=["[Aa]llow more iterations"],
        never=["singular", "definite", "Hermitian"],
        ends=["max_iterations"],
    ),
]

# precision
PRECISION = [
    Case(
        "rtol 1e-17",
        "below the rounding of b - A x",
        system(poisson(20, 20), np.ones(400), rtol=1e-17),
        ("cg", "gmres", "bicgstab", "idr", "auto"),
        says=["precision|rounding"],
        never=["(use|or) double precision", "singular", "not positive", "longer restart", "[Aa]llow more"],
    ),
    Case(
        "rtol 1e-12, single",
        "float32 does not reach it",
        system(poisson(20, 20).astype(np.float32), np.ones(400, np.float32), rtol=1e-12),
        ("cg", "gmres", "bicgstab", "idr", "auto", "pipelined-cg", "ca-gmres"),
        says=["double precision|float64"],
        never=["singular", "not positive", "longer restart", "[Aa]llow more"],
    ),
    Case(
        "rtol 1e-12, complex single",
        "complex64 does not reach it",
        system((poisson(20, 20) + 0j).astype(np.complex64), np.ones(400, np.complex64), rtol=1e-12),
        ("cg", "gmres", "bicgstab", "auto"),
        says=["double precision|complex128"],
        never=["singular", "not positive", "longer restart", "[Aa]llow more"],
    ),
    Case(
        "Hilbert 24",
        "condition beyond the digits of double",
        system(hilbert(24), normal(24)),
        (*SHORT, "cg"),
        says=["singular, or nearly so|nearly singular|ill-conditioned"],
        never=["(use|or) double precision", "longer restart(?! or another)", "[Aa]llow more", "not Hermitian"],
    ),
    Case(
        "condition 1e18",
        "singular values from 1 to 1e-18",
        system(singular_values(np.logspace(0, -18, 80)), normal(80)),
        SHORT,
        says=["singular, or nearly so|nearly singular|ill-conditioned"],
        never=["(use|or) double precision", "[Aa]llow more", "longer restart(?! or another)"],
    ),
    Case(
        "one eigenvalue of 1e-14",
        "nearly singular",
        system(spectrum(np.r_[1e-14, np.linspace(1, 2, 59)]), normal(60)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
        says=["singular, or nearly so|nearly singular|ill-conditioned"],
        never=["(use|or) double precision", "longer restart(?! or another)", "[Aa]llow more"],
    ),
    Case(
        "one eigenvalue of 1e-10",
        "nearly singular: rounding allows 1e-6 only",
        system(spectrum(np.r_[1e-10, np.linspace(1, 2, 59)]), normal(60)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
        says=["singular, or nearly so|nearly singular|ill-conditioned|precision"],
        never=["(use|or) double precision", "longer restart(?! or another)", "[Aa]llow more"],
        ends=[*FAILED, "converged"],
    ),
    Case(
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
    ),
    Case(
        "rows scaled by 1e-150 to 1e150",
        "none: b has the same scales",
        system(sp.diags_array(np.logspace(-150, 150, 80)) @ convection(80, 0.3), np.logspace(-150, 150, 80)),
        SHORT,
        ends=["converged"],
    ),
    Case(
        "columns scaled by 1e-150 to 1e150",
        "columns of very different lengths",
        system(convection(80, 0.3) @ sp.diags_array(np.logspace(-150, 150, 80))),
        SHORT,
        never=["(use|or) double precision", "[Aa]llow more", "longer restart", "inconsistent"],
        ends=[*FAILED, "converged"],
        says=["scale|converged"],
    ),
    Case(
        "solution overflows",
        "x = 1e60 in float32",
        system((1e-30 * poisson(6, 6)).astype(np.float32), (1e30 * np.ones(36)).astype(np.float32)),
        ("cg", "gmres", "bicgstab", "auto"),
        says=["too large"],
        ends=["non_finite"],
    ),
    solved(
        "entries near overflow",
        "none",
        system(1e300 * poisson(8, 8), 1e300 * np.ones(64)),
        ("auto", "cg", "gmres", "bicgstab", "idr"),
    ),
]

# operators and callbacks
bad = poisson(6, 6).tolil()
bad[3, 4] = np.nan
OPERATORS = [
    Case(
        "product changes",
        "the function gives another product at each call",
        lambda: {"A": drifting(12), "b": normal(144), "dense": poisson(12, 12)},
        ("cg", "gmres", "bicgstab", "idr"),
        says=["(changes|differ|not the same).*"],
        never=["[Aa]llow more", "A is not Hermitian", "singular", "in this precision"],
    ),
    Case(
        "wrong adjoint",
        "the announced adjoint is wrong; the restart is too short",
        lambda: {"A": wrong_adjoint(), "b": np.eye(300)[0], "restart": 30, "dense": cycle(300)},
        ["gmres"],
        says=["restart"],
        never=["singular", "inconsistent"],
    ),
    Case(
        "callback stops",
        "the callback",
        system(poisson(12, 12), callback=lambda s: s.iteration >= 3),
        ("auto", "cg", "gmres", "bicgstab"),
        says=["callback"],
        ends=["stopped"],
    ),
    solved("exact x0", "none: x0 solves", system(poisson(9, 9), poisson(9, 9) @ np.ones(81), x0=np.ones(81)), EVERY),
    Case("NaN in A", "an entry", system(bad.tocsr()), ("auto", "cg", "gmres"), says=[r"\b3\b"], ends=["non_finite"]),
    Case(
        "Inf in b",
        "an element",
        system(poisson(6, 6), np.where(np.arange(36) == 5, np.inf, 1.0)),
        ("auto", "cg", "gmres"),
        says=[r"b has .* index 5"],
        ends=["non_finite"],
    ),
]

# methods with parameters
PARAMETERS = [
    Case(
        "chebyshev, lambda_max too small",
        "the interval",
        system(poisson(10, 10), lambda_min=0.1, lambda_max=2.0),
        ["chebyshev"],
        says=["lambda_max"],
        never=["[Aa]llow more", "matrix is not positive definite"],
    ),
    Case(
        "chebyshev, lambda_min too large",
        "the interval",
        system(poisson(30, 30), lambda_min=6.0, lambda_max=8.0),
        ["chebyshev"],
        says=["lambda_min|[Aa]llow more"],
        never=["not positive definite", "singular"],
        ends=[*FAILED, "converged"],
    ),
    Case(
        "richardson, omega 1",
        "omega is above 2 / lambda_max",
        system(poisson(10, 10), relaxation=1.0),
        ["richardson"],
        says=["smaller relaxation"],
        ends=["diverged"],
    ),
    Case(
        "richardson, indefinite",
        "no omega converges",
        system(poisson(10, 10) - 3.3 * sp.eye_array(100), relaxation=0.1),
        ["richardson"],
        says=["gmres"],
        never=[r"^[^|]*\| Use a smaller relaxation, a preconditioner"],
        ends=FAILED,
    ),
    Case(
        "richardson, negative definite",
        "omega needs the other sign",
        system(-poisson(10, 10), relaxation=0.1),
        ["richardson"],
        says=["sign|negative"],
        ends=FAILED,
    ),
]

CASES = [
    *INCONSISTENT_SYSTEMS, *CONSISTENT_SYSTEMS, *UNSUITABLE_MATRICES, *PRECONDITIONERS, *SPECTRA, *LIMITS, *PRECISION,
    *OPERATORS, *PARAMETERS
]  # fmt: skip
