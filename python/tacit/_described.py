"""Made by scripts/describe.py from the tables of the compiled part; not to be edited."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from math import inf as INFINITY
from typing import Literal, TypedDict

from ._options import Option

# fmt: off
SOLVE: Mapping[str, Option] = {
    'rtol': Option('real', 1e-08, (), 0.0, INFINITY, False, 'a number >= 0', 'converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed', '', ()),
    'atol': Option('real', 0.0, (), 0.0, INFINITY, False, 'a number >= 0', 'see rtol', '', ()),
    'max_iterations': Option('whole', None, (), 0.0, INFINITY, False, 'at least 0 iterations', 'products with A at most (bicgstab: pairs of them)', '10 per unknown, from 1000 to 50000', ()),
    'restart': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 vector', 'vectors in a cycle', '30; with fallbacks up to 120 where that is slow, as the warnings tell', ('auto', 'gmres', 'pipelined-gmres', 'ca-gmres', 'pipelined-ca-gmres')),
    'side': Option('choice', None, ('right', 'left', 'flexible'), -INFINITY, INFINITY, False, 'a number', 'of the preconditioner; flexible: it may change from call to call (taken by itself for "inner")', 'right', ('auto', 'gmres', 'pipelined-gmres', 'ca-gmres', 'pipelined-ca-gmres')),
    'orthogonalisation': Option('choice', None, ('auto', 'one-reduction', 'cgs', 'cgs2', 'mgs', 'bcgs', 'bcgs2', 'bcgs-pip', 'bcgs-pip2', 'two-stage'), -INFINITY, INFINITY, False, 'a number', 'how vectors are made orthogonal to those before them', 'auto: one-reduction; in ca-gmres bcgs-pip, twice where a block needs it', ('auto', 'gmres', 'ca-gmres')),
    'shadow_dimension': Option('whole', None, (), 1.0, 100.0, False, 'from 1 to 100 vectors', 's: vectors of the shadow space; more of them save iterations and cost 3 vectors each', '4', ('idr',)),
    'step': Option('whole', None, (), 1.0, 1000.0, False, 'from 1 to 1000 iterations', 's: iterations for one reduction', 'ca-gmres 10, ca-cg 8, ca-bicgstab 4', ('ca-cg', 'ca-bicgstab', 'ca-gmres')),
    'depth': Option('whole', None, (), 1.0, 1000.0, False, 'from 1 to 1000 reductions', 'l: reductions in flight', '2; in pipelined-cg 1', ('pipelined-cg', 'pipelined-gmres', 'pipelined-ca-gmres')),
    'block': Option('whole', None, (), 1.0, 1000.0, False, 'from 1 to 1000 vectors', 't: vectors for one reduction', '5', ('pipelined-ca-gmres',)),
    'tau': Option('real', None, (), 0.0, 1.0, False, 'a number in [0, 1)', "entries of the change of basis below tau times the subdiagonal one are left out (the paper's choice corresponds to 8e-3)", '0', ('pipelined-gmres', 'pipelined-ca-gmres')),
    'basis': Option('choice', None, ('auto', 'newton', 'chebyshev', 'monomial'), -INFINITY, INFINITY, False, 'a number', 'the polynomials of the basis', 'newton once Ritz values are known; in ca-cg and ca-bicgstab chebyshev', ('pipelined-cg', 'pipelined-gmres', 'ca-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres')),
    'block_qr': Option('choice', None, ('cholqr', 'cholqr2', 'shifted-cholqr3', 'mixed-cholqr', 'tsqr'), -INFINITY, INFINITY, False, 'a number', 'with bcgs or bcgs2: how the vectors of a block are made orthonormal', 'cholqr', ('ca-gmres',)),
    'storage': Option('choice', None, ('full', 'float32', 'bfloat16'), -INFINITY, INFINITY, False, 'a number', 'the precision that the basis is kept in; arithmetic is that of the scalar', 'full', ('ca-gmres',)),
    'powers': Option('choice', None, ('products', 'kernel'), -INFINITY, INFINITY, False, 'a number', 'how the vectors of a block are made: one product after the other with an exchange each, or a matrix powers kernel with one exchange for all (sparse matrices on the host, with a diagonal preconditioner or none; a warning tells where there is none)', 'products', ('ca-cg', 'ca-bicgstab', 'ca-gmres')),
    'replacement': Option('whole', None, (), 0.0, INFINITY, False, 'at least 0 iterations (0: never)', 'residual replacement every so many iterations', 'when an estimate of its error asks for it', ('pipelined-cg', 'pipelined-bicgstab', 'ca-cg', 'ca-bicgstab')),
    'relaxation': Option('real', None, (), -INFINITY, INFINITY, True, 'a finite number other than 0', 'omega', '1', ('richardson',)),
    'sweeps': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 step', 'with a diagonal preconditioner of equal entries (or none): steps in one pass through memory, where the operator has a kernel for it; the same iterates', 'what the operator does; 1 with a callback', ('richardson',)),
    'lambda_min': Option('real', None, (), 0.0, INFINITY, True, 'a number > 0', 'lower bound of the spectrum of P A', 'estimated by a few steps of Lanczos', ('chebyshev',)),
    'lambda_max': Option('real', None, (), 0.0, INFINITY, True, 'a number > 0', 'upper bound of the spectrum of P A', 'estimated by a few steps of Lanczos', ('chebyshev',)),
    'engine': Option('choice', 'polling', ('polling', 'thread', 'tasks'), -INFINITY, INFINITY, False, 'a number', "what pushes messages on during computation: the compute loops poll, a thread of its own, or kernels as tasks that wait for each other's blocks; the numbers are the same", '', ()),
    'norm': Option('choice', '2', ('2', 'max'), -INFINITY, INFINITY, False, 'a number', 'of the residual, in what decides and in the report: 2, or max (largest magnitude)', '', ()),
    'schedule': Option('choice', 'auto', ('auto', 'overlapped', 'synchronous', 'split', 'jobs'), -INFINITY, INFINITY, False, 'a number', 'how products with A are dealt to the threads of a rank; auto: the fastest, timed; the numbers are the same', '', ()),
    'remote_threads': Option('whole', 1, (), 1.0, INFINITY, False, 'at least 1 thread', 'schedule split: threads that wait for the halo', '', ()),
    'job_rows': Option('whole', 0, (), 0.0, INFINITY, False, 'at least 0 rows', 'schedule jobs: rows of a job; 0: some 16 jobs a thread', '', ()),
    'divergence': Option('real', 10000000000.0, (), 1.0, INFINITY, True, 'a factor > 1', '"diverged" when ||r|| exceeds this multiple of max(||b||, ||r_0||)', '', ()),
    'history': Option('flag', True, (), -INFINITY, INFINITY, False, 'a number', 'keep the residual of every iteration', '', ()),
    'fallbacks': Option('flag', True, (), -INFINITY, INFINITY, False, 'a number', 'where the method gets no further, scale by the diagonal, take another shadow residual (bicgstab) or longer cycles (gmres without restart), and tell so in the warnings; false: the method as it stands', '', ()),
}
SOLVE_NAMES = ('auto', 'cg', 'bicgstab', 'gmres', 'idr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres',)

PRECOND: Mapping[str, Option] = {
    'absolute': Option('flag', None, (), -INFINITY, INFINITY, False, 'a number', 'by the magnitude of the diagonal', 'false', ('jacobi',)),
    'solver': Option('choice', None, ('none', 'jacobi', 'block-jacobi', 'ilu0', 'ic0', 'spai', 'fsai', 'polynomial'), -INFINITY, INFINITY, False, 'a number', "of each rank's block", 'ilu0', ('block-jacobi',)),
    'blocks': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 block', 'blocks that the rows of a rank are cut into, one a thread', '1', ('block-jacobi', 'ilu0', 'ic0')),
    'local': Option('flag', None, (), -INFINITY, INFINITY, False, 'a number', 'couplings between ranks are dropped: an apply sends nothing', 'false', ('spai', 'fsai')),
    'kind': Option('choice', None, ('chebyshev', 'neumann'), -INFINITY, INFINITY, False, 'a number', 'of the polynomial: least error over an interval, or a geometric series', 'chebyshev', ('polynomial',)),
    'degree': Option('whole', None, (), 0.0, INFINITY, False, 'at least 0 product', 'products with A in an apply', '4', ('polynomial',)),
    'lambda_min': Option('real', None, (), -INFINITY, INFINITY, False, 'a number', 'chebyshev: lower end of the interval of D^-1 A', 'estimated', ('polynomial',)),
    'lambda_max': Option('real', None, (), -INFINITY, INFINITY, False, 'a number', 'chebyshev: upper end of the interval of D^-1 A', 'estimated', ('polynomial',)),
    'relaxation': Option('real', None, (), -INFINITY, INFINITY, False, 'a number', 'neumann: omega', '1', ('polynomial',)),
}
PRECOND_NAMES = ('none', 'jacobi', 'block-jacobi', 'ilu0', 'ic0', 'spai', 'fsai', 'polynomial',)

MULTIGRID: Mapping[str, Option] = {
    'cycle': Option('choice', 'V', ('V', 'W', 'F', 'U'), -INFINITY, INFINITY, False, 'a number', 'F: full multigrid, a solve goes on with V; U: a V-cycle that ends where boxes have smallest_box cells along an axis, no box moves to another rank', '', ()),
    'smoother': Option('choice', 'gauss-seidel', ('gauss-seidel', 'chebyshev', 'jacobi', 'l1-jacobi'), -INFINITY, INFINITY, False, 'a number', 'gauss-seidel is red-black', '', ()),
    'interpolation': Option('choice', None, ('constant', 'linear', 'quadratic', 'cubic', 'quartic'), -INFINITY, INFINITY, False, 'a number', 'of corrections; above linear exact for averages over cells', 'constant; quadratic with the fourth-order stencil', ()),
    'restriction': Option('choice', 'constant', ('constant', 'linear', 'quadratic', 'cubic', 'quartic'), -INFINITY, INFINITY, False, 'a number', 'of residuals: the adjoint of this interpolation; constant sums them over the children', '', ()),
    'full_interpolation': Option('choice', None, ('constant', 'linear', 'quadratic', 'cubic', 'quartic'), -INFINITY, INFINITY, False, 'a number', 'of solutions, by the F-cycle', 'linear; quartic with the fourth-order stencil', ()),
    'pre': Option('whole', 2, (), 0.0, 1000.0, False, 'from 0 to 1000 sweeps', 'sweeps before the coarser level', '', ()),
    'post': Option('whole', 2, (), 0.0, 1000.0, False, 'from 0 to 1000 sweeps', 'sweeps after it', '', ()),
    'symmetric': Option('flag', False, (), -INFINITY, INFINITY, False, 'a number', 'sweeps after mirror those before: for cg', '', ()),
    'bottom': Option('choice', 'automatic', ('automatic', 'direct', 'smoother', 'cg', 'bicgstab', 'gmres', 'idr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres'), -INFINITY, INFINITY, False, 'a number', 'solver of the coarsest level; automatic: direct for few cells, else the cheapest of bicgstab and ca-bicgstab by measured reductions and products', '', ()),
    'bottom_reduction': Option('real', 0.001, (), 0.0, INFINITY, True, 'a number > 0', 'a bottom solve reduces its residual by this factor', '', ()),
    'bottom_norm': Option('choice', 'max', ('2', 'max'), -INFINITY, INFINITY, False, 'a number', 'of that residual', '', ()),
    'bottom_max_iterations': Option('whole', 1000, (), 0.0, INFINITY, False, 'at least 0 iterations', 'of a bottom solve', '1000', ()),
    'step': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 iteration', 'of a bottom that names a Krylov method: as in solve', 'by method', ()),
    'basis': Option('choice', None, ('auto', 'newton', 'chebyshev', 'monomial'), -INFINITY, INFINITY, False, 'a number', 'of a bottom that names a Krylov method: as in solve', 'by method', ()),
    'powers': Option('choice', None, ('products', 'kernel'), -INFINITY, INFINITY, False, 'a number', 'of a bottom that names a Krylov method: as in solve', 'products', ()),
    'depth': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 reduction', 'of a bottom that names a Krylov method: as in solve', 'by method', ()),
    'smallest_box': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 cell', 'an axis is coarsened while its boxes have at least twice as many cells', '2; 4 for U', ()),
    'agglomerate_below': Option('whole', None, (), 0.0, INFINITY, False, 'at least 0 cells', 'levels with fewer cells a rank move to fewer ranks; 0: none moves', '4096; 0 for U; with the automatic bottom they stay where a Krylov method on all ranks is predicted to be cheaper', ()),
    'levels': Option('whole', 0, (), 0.0, INFINITY, False, 'at least 0 levels (0: as many as go)', 'at most', '', ()),
    'single_levels': Option('flag', False, (), -INFINITY, INFINITY, False, 'a number', 'levels in float32, residuals and solutions in float64', '', ()),
    'relaxation': Option('real', None, (), 0.0, 2.0, True, 'a number in (0, 2)', 'of the smoother jacobi', '6/7', ()),
    'chebyshev_range': Option('real', None, (), 1.0, INFINITY, True, 'a number > 1', 'the smoother chebyshev smooths [lambda_max / range, lambda_max]', '4', ()),
    'bottom_cells': Option('whole', None, (), 1.0, INFINITY, False, 'at least 1 cell', 'of a device: the bottom is the first level of at most so many cells', '4096', ()),
}

HMATRIX: Mapping[str, Option] = {
    'tolerance': Option('real', 0.0001, (), 0.0, INFINITY, True, 'a number > 0', 'relative error of the matrix, in the Frobenius norm', '', ()),
    'measure': Option('choice', 'matrix', ('matrix', 'block'), -INFINITY, INFINITY, False, 'a number', 'the error is that of the whole matrix, or of every block by itself, which is stricter', '', ()),
    'storage': Option('choice', 'automatic', ('automatic', 'single', 'full'), -INFINITY, INFINITY, False, 'a number', "automatic: the lowest of float64, float32 and 16 bits that keeps the tolerance, block by block and column by column; single: without 16 bits; full: the scalar's own", '', ()),
    'compression': Option('choice', 'aca+', ('aca+', 'aca', 'svd'), -INFINITY, INFINITY, False, 'a number', 'crosses (aca+, aca) or the singular values of all entries (svd)', '', ()),
    'admissibility': Option('choice', 'smaller', ('smaller', 'larger', 'weak', 'none'), -INFINITY, INFINITY, False, 'a number', 'blocks are far where the smaller or the larger diameter is at most eta times the distance; weak: where they do not overlap; none: nowhere', '', ()),
    'eta': Option('real', 3.0, (), 0.0, INFINITY, True, 'a number > 0', 'of the admissibility smaller and larger', '', ()),
    'leaf_size': Option('whole', 64, (), 1.0, INFINITY, False, 'at least 1 point', 'points of a cluster that is not cut any more', '', ()),
    'bisection': Option('choice', 'median', ('median', 'midpoint'), -INFINITY, INFINITY, False, 'a number', 'clusters are cut into halves of equal number, or of equal size', '', ()),
    'recompress': Option('flag', True, (), -INFINITY, INFINITY, False, 'a number', 'ranks become those of the singular values of each low-rank block', '', ()),
    'verify': Option('flag', True, (), -INFINITY, INFINITY, False, 'a number', 'rows and columns that the crosses left out are looked at', '', ()),
    'max_rank': Option('whole', 0, (), 0.0, INFINITY, False, 'at least 0 (0: no limit)', 'blocks that need a higher rank stay dense', '', ()),
    'cut_rank': Option('whole', 0, (), 0.0, INFINITY, False, 'at least 0 (0: no limit)', 'low-rank blocks are cut to this rank, whatever the error: a matrix to precondition with', '', ()),
    'symmetry': Option('choice', 'none', ('none', 'symmetric', 'hermitian'), -INFINITY, INFINITY, False, 'a number', 'symmetric (A = A^T) or hermitian: blocks above the diagonal are neither evaluated nor kept', '', ()),
    'sampled_rows': Option('whole', 32, (), 1.0, INFINITY, False, 'at least 1 row', 'rows by which the norm is estimated and the error measured', '', ()),
}

# fmt: on

# What may be chosen elsewhere.
PATHS = ("auto", "messages", "persistent", "neighbour", "put", "shared", "gather", "gaspi")


class SolveOptions(TypedDict, total=False):
    """Options of solve, for type checkers."""

    rtol: float
    atol: float
    max_iterations: int | None
    restart: int | None
    side: Literal["right", "left", "flexible"] | None
    orthogonalisation: (
        Literal["auto", "one-reduction", "cgs", "cgs2", "mgs", "bcgs", "bcgs2", "bcgs-pip", "bcgs-pip2", "two-stage"]
        | None
    )
    shadow_dimension: int | None
    step: int | None
    depth: int | None
    block: int | None
    tau: float | None
    basis: Literal["auto", "newton", "chebyshev", "monomial"] | None
    block_qr: Literal["cholqr", "cholqr2", "shifted-cholqr3", "mixed-cholqr", "tsqr"] | None
    storage: Literal["full", "float32", "bfloat16"] | None
    powers: Literal["products", "kernel"] | None
    replacement: int | None
    relaxation: float | None
    sweeps: int | None
    lambda_min: float | None
    lambda_max: float | None
    engine: Literal["polling", "thread", "tasks"]
    norm: Literal["2", "max"]
    schedule: Literal["auto", "overlapped", "synchronous", "split", "jobs"]
    remote_threads: int
    job_rows: int
    divergence: float
    history: bool
    fallbacks: bool


class PrecondOptions(TypedDict, total=False):
    """Options of precond, for type checkers."""

    absolute: bool | None
    solver: Literal["none", "jacobi", "block-jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial"] | None
    blocks: int | None
    local: bool | None
    kind: Literal["chebyshev", "neumann"] | None
    degree: int | None
    lambda_min: float | None
    lambda_max: float | None
    relaxation: float | None


class MultigridOptions(TypedDict, total=False):
    """Options of multigrid, for type checkers."""

    cycle: Literal["V", "W", "F", "U"]
    smoother: Literal["gauss-seidel", "chebyshev", "jacobi", "l1-jacobi"]
    interpolation: Literal["constant", "linear", "quadratic", "cubic", "quartic"] | None
    restriction: Literal["constant", "linear", "quadratic", "cubic", "quartic"]
    full_interpolation: Literal["constant", "linear", "quadratic", "cubic", "quartic"] | None
    pre: int
    post: int
    symmetric: bool
    bottom: Literal[
        "automatic",
        "direct",
        "smoother",
        "cg",
        "bicgstab",
        "gmres",
        "idr",
        "richardson",
        "chebyshev",
        "pipelined-cg",
        "pipelined-bicgstab",
        "pipelined-gmres",
        "ca-cg",
        "ca-bicgstab",
        "ca-gmres",
        "pipelined-ca-gmres",
    ]
    bottom_reduction: float
    bottom_norm: Literal["2", "max"]
    bottom_max_iterations: int | None
    step: int | None
    basis: Literal["auto", "newton", "chebyshev", "monomial"] | None
    powers: Literal["products", "kernel"] | None
    depth: int | None
    smallest_box: int | None
    agglomerate_below: int | None
    levels: int
    single_levels: bool
    relaxation: float | None
    chebyshev_range: float | None
    bottom_cells: int | None


class HmatrixOptions(TypedDict, total=False):
    """Options of hmatrix, for type checkers."""

    tolerance: float
    measure: Literal["matrix", "block"]
    storage: Literal["automatic", "single", "full"]
    compression: Literal["aca+", "aca", "svd"]
    admissibility: Literal["smaller", "larger", "weak", "none"]
    eta: float
    leaf_size: int
    bisection: Literal["median", "midpoint"]
    recompress: bool
    verify: bool
    max_rank: int
    cut_rank: int
    symmetry: Literal["none", "symmetric", "hermitian"]
    sampled_rows: int
