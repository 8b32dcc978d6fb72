"""Preconditioners as objects: ``precond=tacit.precond.Ilu0(blocks=4)``.

Made by scripts/describe.py from the tables of the compiled part; not to be edited.
"""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from typing import Any, Literal

from ._options import Method, Preconditioner


class Jacobi(Preconditioner):
    """Divides by the diagonal.

    Parameters
    ----------
    absolute : bool, optional
        By the magnitude of the diagonal. Default: false.
    """

    absolute: bool | None = None


class NodeJacobi(Preconditioner):
    """Inverts the dense diagonal block of each node: for systems of equations with several unknowns at a node.

    Parameters
    ----------
    block : int, optional
        Unknowns at a node, which stay together; in amg each is nearly in the null space. At least 1 unknown.
        Default: 1; in node-jacobi from 1 to 6, as the entries of the matrix show.

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 12.2.
    """

    block: int | None = None


class BlockJacobi(Preconditioner):
    """Works on each rank's diagonal block, without messages; of an H-matrix: inverts the near field of clusters.

    Parameters
    ----------
    size : int, optional
        Points of a cluster whose block is inverted, at most. At least 1 point. Default: 400.
    precision : one of ['auto', 'single', 'full'], optional
        Of the factors, which are approximate anyway; auto: single where the tolerance allows it. Default: auto.
    solver : one of ['ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai'], optional
        Of each rank's block. Default: ilu0.
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    levels : int, optional
        K: levels of fill. At least 0 levels. Default: 1.
    drop : float, optional
        Entries of the factors below drop times the mean magnitude in their row of A are dropped. A number >= 0.
        Default: 1e-3.
    fill : float, optional
        At most so many entries of the factors for an entry of A. A number > 0. Default: 10.
    pivoting : float, optional
        Columns are swapped where a diagonal entry is below this times the largest right of it. From 0 to 1 .
        Default: 0.1.
    matching : bool, optional
        Columns are permuted, and rows and columns scaled by powers of two, for the largest product of diagonal
        entries. Default: false; with ilut true.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).
    """

    size: int | None = None
    precision: Literal['auto', 'single', 'full'] | None = None
    solver: Literal['ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai'] | None = None
    blocks: int | None = None
    levels: int | None = None
    drop: float | None = None
    fill: float | None = None
    pivoting: float | None = None
    matching: bool | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None


class Ilu0(Preconditioner):
    """Incomplete LU factors of each rank's diagonal block, without fill.

    Parameters
    ----------
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    matching : bool, optional
        Columns are permuted, and rows and columns scaled by powers of two, for the largest product of diagonal
        entries. Default: false; with ilut true.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 10.3.
    """

    blocks: int | None = None
    matching: bool | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None


class Ic0(Preconditioner):
    """Incomplete Cholesky factors of each rank's diagonal block, without fill: Hermitian A (the diagonal is raised
    where a pivot is not positive).

    Parameters
    ----------
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).

    References
    ----------
    Meijerink, van der Vorst (1977), doi 10.1090/S0025-5718-1977-0438681-4; shift: Manteuffel (1980), doi
    10.1090/S0025-5718-1980-0559197-0.
    """

    blocks: int | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None


class Iluk(Preconditioner):
    """ILU(k): as ilu0, with fill of `levels` levels.

    Parameters
    ----------
    levels : int, optional
        K: levels of fill. At least 0 levels. Default: 1.
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    matching : bool, optional
        Columns are permuted, and rows and columns scaled by powers of two, for the largest product of diagonal
        entries. Default: false; with ilut true.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 10.3.3.
    """

    levels: int | None = None
    blocks: int | None = None
    matching: bool | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None


class Ick(Preconditioner):
    """IC(k): as ic0, with fill of `levels` levels.

    Parameters
    ----------
    levels : int, optional
        K: levels of fill. At least 0 levels. Default: 1.
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 10.3.3.
    """

    levels: int | None = None
    blocks: int | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None


class Ilut(Preconditioner):
    """ILUTP: incomplete LU factors of each rank's diagonal block with a threshold, columns swapped for large
    pivots, after a matching that makes the diagonal large: for matrices that ilu0 fails on.

    Parameters
    ----------
    drop : float, optional
        Entries of the factors below drop times the mean magnitude in their row of A are dropped. A number >= 0.
        Default: 1e-3.
    fill : float, optional
        At most so many entries of the factors for an entry of A. A number > 0. Default: 10.
    pivoting : float, optional
        Columns are swapped where a diagonal entry is below this times the largest right of it. From 0 to 1 .
        Default: 0.1.
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    matching : bool, optional
        Columns are permuted, and rows and columns scaled by powers of two, for the largest product of diagonal
        entries. Default: false; with ilut true.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 10.4.4; matching: Duff, Koster (2001), doi
    10.1137/S0895479899358443.
    """

    drop: float | None = None
    fill: float | None = None
    pivoting: float | None = None
    blocks: int | None = None
    matching: bool | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None


class Spai(Preconditioner):
    """A sparse approximate inverse on the pattern of A: an apply is a product.

    Parameters
    ----------
    local : bool, optional
        Couplings between ranks are dropped: an apply sends nothing. Default: false.

    References
    ----------
    Grote, Huckle (1997), doi 10.1137/S1064827594276552.
    """

    local: bool | None = None


class Fsai(Preconditioner):
    """A factorised sparse approximate inverse on the pattern of A, for cg.

    Parameters
    ----------
    local : bool, optional
        Couplings between ranks are dropped: an apply sends nothing. Default: false.

    References
    ----------
    Kolotilina, Yeremin (1993), doi 10.1137/0614004.
    """

    local: bool | None = None


class Polynomial(Preconditioner):
    """A polynomial in the matrix: no reductions, as parallel as the matrix.

    Parameters
    ----------
    kind : one of ['chebyshev', 'neumann'], optional
        Of the polynomial: least error over an interval, or a geometric series. Default: chebyshev.
    degree : int, optional
        Products with A in an apply. At least 0 products. Default: 4.
    lambda_min : float, optional
        Chebyshev: lower end of the interval of D^-1 A. A number. Default: estimated.
    lambda_max : float, optional
        Chebyshev: upper end of the interval of D^-1 A. A number. Default: estimated.
    relaxation : float, optional
        Neumann: omega. A number. Default: 1.

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 12.3.2; neumann: Dubois, Greenbaum, Rodrigue
    (1979), doi 10.1007/BF02243566.
    """

    kind: Literal['chebyshev', 'neumann'] | None = None
    degree: int | None = None
    lambda_min: float | None = None
    lambda_max: float | None = None
    relaxation: float | None = None


class Amg(Preconditioner):
    """Algebraic multigrid by smoothed aggregation, or classical: for matrices of elliptic equations.

    Parameters
    ----------
    coarsening : one of ['aggregation', 'pmis', 'hmis'], optional
        Smoothed aggregation, or classical: coarse unknowns are an independent set of the fine ones. Default:
        aggregation.
    strength : float, optional
        Aggregation: unknowns are coupled strongly where |a_ij| exceeds this times sqrt(|a_ii a_jj|); half of it on
        each coarser level; pmis, hmis: where -a_ij, relative to the sign of a_ii, is at least this times the
        largest such in row i. From 0 to 1 . Default: 0.04; with pmis or hmis 0.25.
    interpolation : one of ['extended+i', 'multipass', 'direct'], optional
        Pmis, hmis: of unknowns from coarse ones. Default: extended+i; on aggressive levels multipass.
    p_max : int, optional
        Pmis, hmis: a row of the interpolation keeps so many of its largest entries. At least 0 entries (0: all).
        Default: 4.
    aggressive : int, optional
        Pmis, hmis: the first so many levels are coarsened more, along two couplings. At least 0 levels. Default: 0.
    smoother : one of ['spai0', 'jacobi', 'l1-jacobi', 'gauss-seidel', 'chebyshev'], optional
        Of each level. Default: spai0.
    cycle : one of ['V', 'W', 'F', 'K', 'mult-additive'], optional
        How coarser levels are visited. Default: V.
    sweeps : int, optional
        Of the smoother before and after the coarser level. At least 1 sweep. Default: 1.
    coarsest : int, optional
        A level of at most so many unknowns is left to the bottom solver. At least 1 unknown. Default: 400.
    block : int, optional
        Unknowns at a node, which stay together; in amg each is nearly in the null space. At least 1 unknown.
        Default: 1; in node-jacobi from 1 to 6, as the entries of the matrix show.
    single_levels : bool, optional
        Levels in single precision: half the traffic of a cycle, one reduction more. Default: false.
    agglomerate_below : int, optional
        Levels with fewer unknowns a rank move to fewer ranks; 0: none moves. At least 0 unknowns. Default: levels
        of fewer than 4096 to as many ranks as are predicted to take the least time.
    bottom : one of ['automatic', 'direct', 'smoother', 'cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres'] or object of tacit.methods, optional
        Solver of the coarsest level; automatic: direct for few unknowns, else of boxes of cells the cheapest of
        bicgstab and ca-bicgstab by measured reductions and products, of amg the smoother. Default: automatic.
    bottom_reduction : float, optional
        A bottom solve reduces its residual by this factor. A number > 0. Default: 0.001.
    bottom_norm : one of ['2', 'max'], optional
        Of that residual. Default: max.
    bottom_max_iterations : int, optional
        Of a bottom solve. At least 0 iterations. Default: 1000.
    step : int, optional
        Of a bottom that names a Krylov method: as in solve. At least 1 iteration. Default: by method.
    basis : one of ['auto', 'newton', 'chebyshev', 'monomial'], optional
        Of a bottom that names a Krylov method: as in solve. Default: by method.
    powers : one of ['products', 'kernel'], optional
        Of a bottom that names a Krylov method: as in solve. Default: products.
    depth : int, optional
        Of a bottom that names a Krylov method: as in solve. At least 1 reduction. Default: by method.

    References
    ----------
    Vanek, Mandel, Brezina (1996), doi 10.1007/BF02238511; pmis, hmis: De Sterck, Yang, Heys (2006), doi
    10.1137/040615729; extended+i: De Sterck, Falgout, Nolting, Yang (2008), doi 10.1002/nla.544.
    """

    coarsening: Literal['aggregation', 'pmis', 'hmis'] | None = None
    strength: float | None = None
    interpolation: Literal['extended+i', 'multipass', 'direct'] | None = None
    p_max: int | None = None
    aggressive: int | None = None
    smoother: Literal['spai0', 'jacobi', 'l1-jacobi', 'gauss-seidel', 'chebyshev'] | None = None
    cycle: Literal['V', 'W', 'F', 'K', 'mult-additive'] | None = None
    sweeps: int | None = None
    coarsest: int | None = None
    block: int | None = None
    single_levels: bool | None = None
    agglomerate_below: int | None = None
    bottom: Literal['automatic', 'direct', 'smoother', 'cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres'] | Method | None = None
    bottom_reduction: float | None = None
    bottom_norm: Literal['2', 'max'] | None = None
    bottom_max_iterations: int | None = None
    step: int | None = None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None = None
    powers: Literal['products', 'kernel'] | None = None
    depth: int | None = None


class Schwarz(Preconditioner):
    """Additive Schwarz: a local solver on each rank's rows and `overlap` levels of their neighbours.

    Parameters
    ----------
    overlap : int, optional
        Levels of neighbours in the graph of A that a block is extended by. At least 0 levels. Default: 1.
    restricted : bool, optional
        A block's solution is kept on its own rows only, which halves the messages; false: where blocks overlap
        their solutions are added, which cg needs. Default: true.
    solver : one of ['ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'jacobi', 'spai', 'fsai', 'polynomial'], optional
        Of each rank's block. Default: ilu0.
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    levels : int, optional
        K: levels of fill. At least 0 levels. Default: 1.
    drop : float, optional
        Entries of the factors below drop times the mean magnitude in their row of A are dropped. A number >= 0.
        Default: 1e-3.
    fill : float, optional
        At most so many entries of the factors for an entry of A. A number > 0. Default: 10.
    pivoting : float, optional
        Columns are swapped where a diagonal entry is below this times the largest right of it. From 0 to 1 .
        Default: 0.1.
    matching : bool, optional
        Columns are permuted, and rows and columns scaled by powers of two, for the largest product of diagonal
        entries. Default: false; with ilut true.
    ordering : one of ['none', 'rcm', 'dissection', 'minimum-degree'], optional
        Of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate
        minimum degree by AMD. Default: none; with ilut minimum-degree (without AMD dissection, without METIS rcm).
    absolute : bool, optional
        By the magnitude of the diagonal. Default: false.
    kind : one of ['chebyshev', 'neumann'], optional
        Of the polynomial: least error over an interval, or a geometric series. Default: chebyshev.
    degree : int, optional
        Products with A in an apply. At least 0 products. Default: 4.
    lambda_min : float, optional
        Chebyshev: lower end of the interval of D^-1 A. A number. Default: estimated.
    lambda_max : float, optional
        Chebyshev: upper end of the interval of D^-1 A. A number. Default: estimated.
    relaxation : float, optional
        Neumann: omega. A number. Default: 1.

    References
    ----------
    Cai, Sarkis (1999), doi 10.1137/S106482759732678X; Dryja, Widlund (1987).
    """

    overlap: int | None = None
    restricted: bool | None = None
    solver: Literal['ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'jacobi', 'spai', 'fsai', 'polynomial'] | None = None
    blocks: int | None = None
    levels: int | None = None
    drop: float | None = None
    fill: float | None = None
    pivoting: float | None = None
    matching: bool | None = None
    ordering: Literal['none', 'rcm', 'dissection', 'minimum-degree'] | None = None
    absolute: bool | None = None
    kind: Literal['chebyshev', 'neumann'] | None = None
    degree: int | None = None
    lambda_min: float | None = None
    lambda_max: float | None = None
    relaxation: float | None = None


class Direct(Preconditioner):
    """Complete LU factors of the whole matrix: a sparse direct solver, by Eigen; on several ranks rank 0 has them.

    References
    ----------
    Demmel, Eisenstat, Gilbert, Li, Liu (1999), doi 10.1137/S0895479895291765; matching: Duff, Koster (2001), doi
    10.1137/S0895479899358443; counts: Gilbert, Ng, Peyton (1994), doi 10.1137/S0895479892236921.
    """


class Hlu(Preconditioner):
    """Approximate triangular factors in hierarchical form: the strong one, a direct solver where its tolerance is
    small.

    Parameters
    ----------
    tolerance : float, optional
        Hlu: low-rank blocks are cut here at each step, relative to their norm, in (0, 1); inner: the coarse copy's
        keep what is above this part of their norm. A number >= 0. Default: 0.01.
    rank : int, optional
        Low-rank blocks are taken with at most so many terms. At least 0 term (0: any number). Default: hlu: as they
        are; inner: 1.
    leaf_size : int, optional
        Clusters of at most so many rows are not cut. At least 1 row. Default: 64 to 512, by the ranks.
    factors : one of ['auto', 'lu', 'cholesky'], optional
        L U, or L L^H of a matrix stored as hermitian, at half the cost; auto: the latter where the diagonal is
        positive, and L U if it fails. Default: auto.
    precision : one of ['auto', 'single', 'full'], optional
        Of the factors, which are approximate anyway; auto: single where the tolerance allows it. Default: auto.

    References
    ----------
    Grasedyck, Hackbusch (2003), doi 10.1007/s00607-003-0019-1.
    """

    tolerance: float | None = None
    rank: int | None = None
    leaf_size: int | None = None
    factors: Literal['auto', 'lu', 'cholesky'] | None = None
    precision: Literal['auto', 'single', 'full'] | None = None


class Inner(Preconditioner):
    """A few iterations of a method, of an H-matrix on a coarse copy (by default of rank one, as in the paper,
    scaled by its diagonal): for bicgstab, and gmres with side flexible; also of any other operator, which is not
    copied.

    Parameters
    ----------
    method : one of ['cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'direct', 'block-gmres'] or object of tacit.methods, optional
        Of the iterations. Default: bicgstab.
    iterations : int, optional
        At most so many for each solve. At least 1 iteration. Default: 20.
    rtol : float, optional
        A solve ends earlier where its residual has fallen by this. A number >= 0 and below 1. Default: 0.
    precond : one of ['none', 'jacobi', 'node-jacobi', 'block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai', 'polynomial', 'amg', 'schwarz', 'direct', 'hlu', 'inner'] or what precond= takes, optional
        Of the iterations. Default: jacobi for an H-matrix, else none.
    rank : int, optional
        Low-rank blocks are taken with at most so many terms. At least 0 term (0: any number). Default: hlu: as they
        are; inner: 1.
    tolerance : float, optional
        Hlu: low-rank blocks are cut here at each step, relative to their norm, in (0, 1); inner: the coarse copy's
        keep what is above this part of their norm. A number >= 0. Default: 0.01.

    References
    ----------
    Ida, Iwashita, Mifune, Takahashi (2016), doi 10.1109/TMAG.2015.2464104.
    """

    method: Literal['cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'direct', 'block-gmres'] | Method | None = None
    iterations: int | None = None
    rtol: float | None = None
    precond: Literal['none', 'jacobi', 'node-jacobi', 'block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai', 'polynomial', 'amg', 'schwarz', 'direct', 'hlu', 'inner'] | Any | None = None
    rank: int | None = None
    tolerance: float | None = None


__all__ = ['Amg', 'BlockJacobi', 'Direct', 'Fsai', 'Hlu', 'Ic0', 'Ick', 'Ilu0', 'Iluk', 'Ilut', 'Inner', 'Jacobi', 'NodeJacobi', 'Polynomial', 'Schwarz', 'Spai']
