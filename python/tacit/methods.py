"""Methods of :func:`tacit.solve` as objects: ``tacit.solve(A, b, method=tacit.methods.CaGmres(step=10))``.

Made by scripts/describe.py from the tables of the compiled part; not to be edited.
"""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from typing import Literal

from ._options import Method


def names() -> list[str]:
    """The names that ``method=`` knows."""
    return [method.name for method in Method.__subclasses__() if method.__module__ == __name__]


class Auto(Method):
    """Cg for a Hermitian matrix whose diagonal has one sign, changing to gmres should it break down; gmres for the
    rest; a pipelined or s-step variant where it is predicted to be clearly faster.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    side : one of ['right', 'left', 'flexible'], optional
        Of the preconditioner; flexible: as in fgmres (taken by itself for "inner"). Default: right.
    orthogonalisation : one of ['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs'], optional
        How vectors are made orthogonal to those before them. Default: auto: one-reduction; in ca-gmres and block-
        gmres bcgs-pip, twice where a block needs it.
    """

    restart: int | None = None
    side: Literal['right', 'left', 'flexible'] | None = None
    orthogonalisation: Literal['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs'] | None = None


class Cg(Method):
    """Conjugate gradients, for Hermitian positive definite A (negative definite: -A x = -b is solved).

    References
    ----------
    Hestenes, Stiefel (1952), doi 10.6028/jres.049.044.
    """


class Minres(Method):
    """Minimal residuals, for Hermitian A, definite or not; the preconditioner must be positive definite.

    References
    ----------
    Paige, Saunders (1975), doi 10.1137/0712047.
    """


class Bicgstab(Method):
    """Stabilised bi-conjugate gradients, for any square A.

    References
    ----------
    van der Vorst (1992), doi 10.1137/0913035.
    """


class Gmres(Method):
    """Restarted GMRES, for any square A; with side flexible it is fgmres.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    side : one of ['right', 'left', 'flexible'], optional
        Of the preconditioner; flexible: as in fgmres (taken by itself for "inner"). Default: right.
    orthogonalisation : one of ['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs'], optional
        How vectors are made orthogonal to those before them. Default: auto: one-reduction; in ca-gmres and block-
        gmres bcgs-pip, twice where a block needs it.

    References
    ----------
    Saad, Schultz (1986), doi 10.1137/0907058.
    """

    restart: int | None = None
    side: Literal['right', 'left', 'flexible'] | None = None
    orthogonalisation: Literal['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs'] | None = None


class Fgmres(Method):
    """Flexible GMRES, for any square A: the preconditioner may change from call to call, as an inner solve does.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    orthogonalisation : one of ['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs'], optional
        How vectors are made orthogonal to those before them. Default: auto: one-reduction; in ca-gmres and block-
        gmres bcgs-pip, twice where a block needs it.

    References
    ----------
    Saad (1993), doi 10.1137/0914028.
    """

    restart: int | None = None
    orthogonalisation: Literal['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs'] | None = None


class Idr(Method):
    """IDR(s), induced dimension reduction, for any square A: short recurrences, fewer iterations than bicgstab.

    Parameters
    ----------
    shadow_dimension : int, optional
        S: vectors of the shadow space; more of them save iterations and cost 3 vectors each. From 1 to 100 vectors.
        Default: 4.

    References
    ----------
    van Gijzen, Sonneveld (2011), Algorithm 913, doi 10.1145/2049662.2049667; products with the shadow space as one
    reduction: Collignon, van Gijzen (2011), doi 10.1002/nla.764.
    """

    shadow_dimension: int | None = None


class Cocg(Method):
    """Conjugate gradients without conjugation, for complex symmetric A (A = A^T); the preconditioner must be
    symmetric, too.

    References
    ----------
    van der Vorst, Melissen (1990), doi 10.1109/20.106415.
    """


class Cocr(Method):
    """Conjugate residuals without conjugation, for complex symmetric A (A = A^T), smoother than cocg; the
    preconditioner must be symmetric, too.

    References
    ----------
    Sogabe, Zhang (2007), doi 10.1016/j.cam.2005.07.032.
    """


class Richardson(Method):
    """Richardson's iteration x += omega P (b - A x).

    Parameters
    ----------
    relaxation : float, optional
        Omega. A finite number other than 0. Default: 1.
    sweeps : int, optional
        With a diagonal preconditioner of equal entries (or none): steps in one pass through memory, where the
        operator has a kernel for it; the same iterates. At least 1 step. Default: what the operator does; 1 with a
        callback.

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 4.1.
    """

    relaxation: float | None = None
    sweeps: int | None = None


class Chebyshev(Method):
    """Chebyshev's iteration, for Hermitian positive definite A: no reductions but those that watch the residual.

    Parameters
    ----------
    lambda_min : float, optional
        Lower bound of the spectrum of P A. A number > 0. Default: estimated by a few steps of Lanczos.
    lambda_max : float, optional
        Upper bound of the spectrum of P A. A number > 0. Default: estimated by a few steps of Lanczos.

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), Algorithm 12.1.
    """

    lambda_min: float | None = None
    lambda_max: float | None = None


class PipelinedCg(Method):
    """Cg with its reduction hidden behind the product; depth > 1: p(l)-CG.

    Parameters
    ----------
    depth : int, optional
        L: reductions in flight. From 1 to 1000 reductions. Default: 2; in pipelined-cg 1.
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        The polynomials of the basis. Default: newton once Ritz values are known; in ca-cg and ca-bicgstab
        chebyshev.
    replacement : int, optional
        Residual replacement every so many iterations. At least 0 iterations (0: never). Default: when an estimate
        of its error is too large.

    References
    ----------
    Ghysels, Vanroose (2014), doi 10.1016/j.parco.2013.06.001, Algorithm 4.
    """

    depth: int | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None
    replacement: int | None = None


class PipelinedBicgstab(Method):
    """Bicgstab with two reductions an iteration, each hidden behind a product.

    Parameters
    ----------
    replacement : int, optional
        Residual replacement every so many iterations. At least 0 iterations (0: never). Default: when an estimate
        of its error is too large.

    References
    ----------
    Cools, Vanroose (2017), doi 10.1016/j.parco.2017.04.005, Algorithm 3.
    """

    replacement: int | None = None


class PipelinedGmres(Method):
    """GMRES with one reduction a vector, hidden behind `depth` products.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    side : one of ['right', 'left'], optional
        Of the preconditioner; flexible: as in fgmres (taken by itself for "inner"). Default: right.
    depth : int, optional
        L: reductions in flight. From 1 to 1000 reductions. Default: 2; in pipelined-cg 1.
    tau : float, optional
        Entries of the change of basis below tau times the subdiagonal one are left out (the paper's choice
        corresponds to 8e-3). A number in [0, 1). Default: 0.
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        The polynomials of the basis. Default: newton once Ritz values are known; in ca-cg and ca-bicgstab
        chebyshev.

    References
    ----------
    Ghysels, Ashby, Meerbergen, Vanroose (2013), doi 10.1137/12086563X.
    """

    restart: int | None = None
    side: Literal['right', 'left'] | None = None
    depth: int | None = None
    tau: float | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None


class CaCg(Method):
    """S-step cg: one reduction for `step` iterations.

    Parameters
    ----------
    step : int, optional
        S: iterations for one reduction. From 1 to 1000 iterations. Default: ca-gmres 10, ca-cg 8, ca-bicgstab 4 (2
        or 1 without a stored basis, but where ranks have few rows).
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        The polynomials of the basis. Default: newton once Ritz values are known; in ca-cg and ca-bicgstab
        chebyshev.
    powers : one of ['products', 'kernel'], optional
        How the vectors of a block are made: one product after the other with an exchange each, or a matrix powers
        kernel with one exchange for all (sparse matrices on the host, with a diagonal preconditioner or none, with
        a warning where there is none). Default: products; ca-cg, ca-bicgstab of a sparse matrix: one exchange,
        where a rank needs few rows of others.
    replacement : int, optional
        Residual replacement every so many iterations. At least 0 iterations (0: never). Default: when an estimate
        of its error is too large.

    References
    ----------
    Carson, Knight, Demmel (2013), doi 10.1137/120881191.
    """

    step: int | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None
    powers: Literal['products', 'kernel'] | None = None
    replacement: int | None = None


class BlockCg(Method):
    """Cg for many right-hand sides that share one search space: fewer iterations; with one, cg.

    References
    ----------
    O'Leary (1980), doi 10.1016/0024-3795(80)90247-5; Dubrulle (2001), ETNA 12, algorithm BCGrQ; Ji, Li (2017), doi
    10.1007/s10543-016-0631-z.
    """


class CaBicgstab(Method):
    """S-step bicgstab: one reduction for `step` iterations.

    Parameters
    ----------
    step : int, optional
        S: iterations for one reduction. From 1 to 1000 iterations. Default: ca-gmres 10, ca-cg 8, ca-bicgstab 4 (2
        or 1 without a stored basis, but where ranks have few rows).
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        The polynomials of the basis. Default: newton once Ritz values are known; in ca-cg and ca-bicgstab
        chebyshev.
    powers : one of ['products', 'kernel'], optional
        How the vectors of a block are made: one product after the other with an exchange each, or a matrix powers
        kernel with one exchange for all (sparse matrices on the host, with a diagonal preconditioner or none, with
        a warning where there is none). Default: products; ca-cg, ca-bicgstab of a sparse matrix: one exchange,
        where a rank needs few rows of others.
    replacement : int, optional
        Residual replacement every so many iterations. At least 0 iterations (0: never). Default: when an estimate
        of its error is too large.

    References
    ----------
    Carson, Knight, Demmel (2013), doi 10.1137/120881191; Williams et al. (2014), doi 10.1109/IPDPS.2014.119,
    Algorithm 2.
    """

    step: int | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None
    powers: Literal['products', 'kernel'] | None = None
    replacement: int | None = None


class CaGmres(Method):
    """S-step GMRES: `step` vectors are made and orthogonalised at once.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    side : one of ['right', 'left'], optional
        Of the preconditioner; flexible: as in fgmres (taken by itself for "inner"). Default: right.
    orthogonalisation : one of ['auto', 'bcgs', 'bcgs2', 'bcgs-pip', 'bcgs-pip2', 'two-stage'], optional
        How vectors are made orthogonal to those before them. Default: auto: one-reduction; in ca-gmres and block-
        gmres bcgs-pip, twice where a block needs it.
    block_qr : one of ['cholqr', 'cholqr2', 'shifted-cholqr3', 'mixed-cholqr', 'tsqr'], optional
        With bcgs or bcgs2: how the vectors of a block are made orthonormal. Default: cholqr.
    step : int, optional
        S: iterations for one reduction. From 1 to 1000 iterations. Default: ca-gmres 10, ca-cg 8, ca-bicgstab 4 (2
        or 1 without a stored basis, but where ranks have few rows).
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        The polynomials of the basis. Default: newton once Ritz values are known; in ca-cg and ca-bicgstab
        chebyshev.
    powers : one of ['products', 'kernel'], optional
        How the vectors of a block are made: one product after the other with an exchange each, or a matrix powers
        kernel with one exchange for all (sparse matrices on the host, with a diagonal preconditioner or none, with
        a warning where there is none). Default: products; ca-cg, ca-bicgstab of a sparse matrix: one exchange,
        where a rank needs few rows of others.
    storage : one of ['full', 'float32', 'bfloat16'], optional
        The precision that the basis is kept in; arithmetic is that of the scalar. Default: full.

    References
    ----------
    Yamazaki, Hoemmen, Luszczek, Dongarra (2017), doi 10.1109/IPDPSW.2017.65, Fig. 3.
    """

    restart: int | None = None
    side: Literal['right', 'left'] | None = None
    orthogonalisation: Literal['auto', 'bcgs', 'bcgs2', 'bcgs-pip', 'bcgs-pip2', 'two-stage'] | None = None
    block_qr: Literal['cholqr', 'cholqr2', 'shifted-cholqr3', 'mixed-cholqr', 'tsqr'] | None = None
    step: int | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None
    powers: Literal['products', 'kernel'] | None = None
    storage: Literal['full', 'float32', 'bfloat16'] | None = None


class PipelinedCaGmres(Method):
    """Pipelined GMRES with one reduction for a `block` of vectors.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    side : one of ['right', 'left'], optional
        Of the preconditioner; flexible: as in fgmres (taken by itself for "inner"). Default: right.
    depth : int, optional
        L: reductions in flight. From 1 to 1000 reductions. Default: 2; in pipelined-cg 1.
    block : int, optional
        T: vectors for one reduction. From 1 to 1000 vectors. Default: 5.
    tau : float, optional
        Entries of the change of basis below tau times the subdiagonal one are left out (the paper's choice
        corresponds to 8e-3). A number in [0, 1). Default: 0.
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        The polynomials of the basis. Default: newton once Ritz values are known; in ca-cg and ca-bicgstab
        chebyshev.

    References
    ----------
    Yamazaki, Hoemmen, Luszczek, Dongarra (2017), doi 10.1109/IPDPSW.2017.65.
    """

    restart: int | None = None
    side: Literal['right', 'left'] | None = None
    depth: int | None = None
    block: int | None = None
    tau: float | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None


class Direct(Method):
    """Complete LU factors (precond "direct", which it takes by itself) and iterative refinement, for any square
    stored matrix.

    References
    ----------
    Wilkinson, Rounding errors in algebraic processes (1963), section 3.25; Skeel (1980), doi
    10.1090/S0025-5718-1980-0572859-4.
    """


class BlockGmres(Method):
    """Gmres for many right-hand sides that share one search space, for any square A; with one, gmres.

    Parameters
    ----------
    restart : int, optional
        Vectors in a cycle; in block-gmres for each column. At least 1 vector. Default: 30; with fallbacks up to 120
        if slow, with a warning.
    side : one of ['right', 'flexible'], optional
        Of the preconditioner; flexible: as in fgmres (taken by itself for "inner"). Default: right.
    orthogonalisation : one of ['auto', 'bcgs-pip', 'bcgs-pip2'], optional
        How vectors are made orthogonal to those before them. Default: auto: one-reduction; in ca-gmres and block-
        gmres bcgs-pip, twice where a block needs it.

    References
    ----------
    Vital (1990), thesis, Rennes; directions that need no further vectors: Robbe, Sadkane (2006), Linear Algebra
    Appl. 419, 265-285; Gutknecht (2007), Block Krylov space methods for linear systems with multiple right-hand
    sides.
    """

    restart: int | None = None
    side: Literal['right', 'flexible'] | None = None
    orthogonalisation: Literal['auto', 'bcgs-pip', 'bcgs-pip2'] | None = None


__all__ = ['Auto', 'Bicgstab', 'BlockCg', 'BlockGmres', 'CaBicgstab', 'CaCg', 'CaGmres', 'Cg', 'Chebyshev', 'Cocg', 'Cocr', 'Direct', 'Fgmres', 'Gmres', 'Idr', 'Minres', 'PipelinedBicgstab', 'PipelinedCaGmres', 'PipelinedCg', 'PipelinedGmres', 'Richardson', 'names']
