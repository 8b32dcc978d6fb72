"""Made by scripts/describe.py from the tables of the compiled part; not to be edited."""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf as INFINITY
from typing import Literal, TypedDict

from ._options import Method, Option

SOLVE: Mapping[str, Option] = {
    'rtol': Option('real', None, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed', '1e-8; with float32 and complex64 1e-4', ()),
    'atol': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'see rtol', '', ()),
    'max_iterations': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 iterations', 'products with A at most (bicgstab: pairs of them)', '10 per unknown, from 1000 to 50000', ()),
    'restart': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 vector', 'vectors in a cycle; in block-gmres for each column', '30; with fallbacks up to 120 if slow, with a warning', ('auto', 'gmres', 'fgmres', 'pipelined-gmres', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres')),
    'side': Option('choice', None, ('right', 'left', 'flexible'), -INFINITY, INFINITY, False, 0, 'a number', 'of the preconditioner; flexible: as in fgmres (taken by itself for "inner")', 'right', ('auto', 'gmres', 'pipelined-gmres', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres')),
    'orthogonalisation': Option('choice', None, ('auto', 'one-reduction', 'cgs', 'cgs2', 'mgs', 'bcgs', 'bcgs2', 'bcgs-pip', 'bcgs-pip2', 'two-stage'), -INFINITY, INFINITY, False, 0, 'a number', 'how vectors are made orthogonal to those before them', 'auto: one-reduction; in ca-gmres and block-gmres bcgs-pip, twice where a block needs it', ('auto', 'gmres', 'fgmres', 'ca-gmres', 'block-gmres')),
    'shadow_dimension': Option('whole', None, (), 1.0, 100.0, False, 0, 'from 1 to 100 vectors', 's: vectors of the shadow space; more of them save iterations and cost 3 vectors each', '4', ('idr',)),
    'step': Option('whole', None, (), 1.0, 1000.0, False, 0, 'from 1 to 1000 iterations', 's: iterations for one reduction', 'ca-gmres 10, ca-cg 8, ca-bicgstab 4 (2 or 1 without a stored basis, but where ranks have few rows)', ('ca-cg', 'ca-bicgstab', 'ca-gmres')),
    'depth': Option('whole', None, (), 1.0, 1000.0, False, 0, 'from 1 to 1000 reductions', 'l: reductions in flight', '2; in pipelined-cg 1', ('pipelined-cg', 'pipelined-gmres', 'pipelined-ca-gmres')),
    'block': Option('whole', None, (), 1.0, 1000.0, False, 0, 'from 1 to 1000 vectors', 't: vectors for one reduction', '5', ('pipelined-ca-gmres',)),
    'tau': Option('real', None, (), 0.0, 1.0, False, 0, 'a number in [0, 1)', "entries of the change of basis below tau times the subdiagonal one are left out (the paper's choice corresponds to 8e-3)", '0', ('pipelined-gmres', 'pipelined-ca-gmres')),
    'basis': Option('choice', None, ('auto', 'newton', 'chebyshev', 'monomial'), -INFINITY, INFINITY, False, 0, 'a number', 'the polynomials of the basis', 'newton once Ritz values are known; in ca-cg and ca-bicgstab chebyshev', ('pipelined-cg', 'pipelined-gmres', 'ca-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres')),
    'block_qr': Option('choice', None, ('cholqr', 'cholqr2', 'shifted-cholqr3', 'mixed-cholqr', 'tsqr'), -INFINITY, INFINITY, False, 0, 'a number', 'with bcgs or bcgs2: how the vectors of a block are made orthonormal', 'cholqr', ('ca-gmres',)),
    'storage': Option('choice', None, ('full', 'float32', 'bfloat16'), -INFINITY, INFINITY, False, 0, 'a number', 'the precision that the basis is kept in; arithmetic is that of the scalar', 'full', ('ca-gmres',)),
    'powers': Option('choice', None, ('products', 'kernel'), -INFINITY, INFINITY, False, 0, 'a number', 'how the vectors of a block are made: one product after the other with an exchange each, or a matrix powers kernel with one exchange for all (sparse matrices on the host, with a diagonal preconditioner or none, with a warning where there is none)', 'products; ca-cg, ca-bicgstab of a sparse matrix: one exchange, where a rank needs few rows of others', ('ca-cg', 'ca-bicgstab', 'ca-gmres')),
    'replacement': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 iterations (0: never)', 'residual replacement every so many iterations', 'when an estimate of its error is too large', ('pipelined-cg', 'pipelined-bicgstab', 'ca-cg', 'ca-bicgstab')),
    'relaxation': Option('real', None, (), -INFINITY, INFINITY, True, 0, 'a finite number other than 0', 'omega', '1', ('richardson',)),
    'sweeps': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 step', 'with a diagonal preconditioner of equal entries (or none): steps in one pass through memory, where the operator has a kernel for it; the same iterates', 'what the operator does; 1 with a callback', ('richardson',)),
    'lambda_min': Option('real', None, (), 0.0, INFINITY, True, 0, 'a number > 0', 'lower bound of the spectrum of P A', 'estimated by a few steps of Lanczos', ('chebyshev',)),
    'lambda_max': Option('real', None, (), 0.0, INFINITY, True, 0, 'a number > 0', 'upper bound of the spectrum of P A', 'estimated by a few steps of Lanczos', ('chebyshev',)),
    'engine': Option('choice', 'polling', ('polling', 'thread', 'tasks'), -INFINITY, INFINITY, False, 0, 'a number', "what pushes messages on during computation: the compute loops poll, a thread of its own, or kernels as tasks that wait for each other's blocks; the numbers are the same", '', ()),
    'norm': Option('choice', '2', ('2', 'max'), -INFINITY, INFINITY, False, 0, 'a number', 'of the residual, in what decides and in the report: 2, or max (largest magnitude)', '', ()),
    'schedule': Option('choice', 'auto', ('auto', 'overlapped', 'synchronous', 'split', 'jobs'), -INFINITY, INFINITY, False, 0, 'a number', 'how products with A are dealt to the threads of a rank; auto: the fastest, timed; the numbers are the same', '', ()),
    'remote_threads': Option('whole', 1, (), 1.0, INFINITY, False, 0, 'at least 1 thread', 'schedule split: threads that wait for the halo', '', ()),
    'job_rows': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 rows', 'schedule jobs: rows of a job; 0: some 16 jobs a thread', '', ()),
    'divergence': Option('real', 10000000000.0, (), 1.0, INFINITY, True, 0, 'a factor > 1', '"diverged" when ||r|| exceeds this multiple of max(||b||, ||r_0||)', '', ()),
    'history': Option('flag', True, (), -INFINITY, INFINITY, False, 0, 'a number', 'keep the residual of every iteration', '', ()),
    'fallbacks': Option('flag', True, (), -INFINITY, INFINITY, False, 0, 'a number', 'where the method gets no further, scale by the diagonal, take another shadow residual (bicgstab) or longer cycles (gmres without restart), and tell so in the warnings; false: the method as it stands', '', ()),
    'explain': Option('flag', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'look into the cause of a failure by products of its own: true, as far as it takes; false, not at all', 'at most as long as the solve took, or 10 ms; not after few iterations', ()),
}
SOLVE_NAMES = ('auto', 'cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'direct', 'block-gmres',)
PRECOND: Mapping[str, Option] = {
    'absolute': Option('flag', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'by the magnitude of the diagonal', 'false', ('jacobi', 'schwarz')),
    'solver': Option('choice', None, ('none', 'jacobi', 'node-jacobi', 'block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai', 'polynomial', 'amg', 'schwarz', 'direct'), -INFINITY, INFINITY, False, 0, 'a number', "of each rank's block", 'ilu0', ('block-jacobi', 'schwarz')),
    'blocks': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 block', 'blocks that the rows of a rank are cut into, one a thread', '1', ('block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'schwarz')),
    'levels': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 levels', 'k: levels of fill', '1', ('block-jacobi', 'iluk', 'ick', 'schwarz')),
    'drop': Option('real', None, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'entries of the factors below drop times the mean magnitude in their row of A are dropped', '1e-3', ('block-jacobi', 'ilut', 'schwarz')),
    'fill': Option('real', None, (), 0.0, INFINITY, True, 0, 'a number > 0', 'at most so many entries of the factors for an entry of A', '10', ('block-jacobi', 'ilut', 'schwarz')),
    'pivoting': Option('real', None, (), 0.0, 1.0, False, 0, 'from 0 to 1 ', 'columns are swapped where a diagonal entry is below this times the largest right of it', '0.1', ('block-jacobi', 'ilut', 'schwarz')),
    'matching': Option('flag', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'columns are permuted, and rows and columns scaled by powers of two, for the largest product of diagonal entries', 'false; with ilut true', ('block-jacobi', 'ilu0', 'iluk', 'ilut', 'schwarz')),
    'ordering': Option('choice', None, ('none', 'rcm', 'dissection', 'minimum-degree'), -INFINITY, INFINITY, False, 0, 'a number', 'of the elimination in a block: as it is, reverse Cuthill-McKee, nested dissection by METIS, approximate minimum degree by AMD', 'none; with ilut minimum-degree (without AMD dissection, without METIS rcm)', ('block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'schwarz')),
    'local': Option('flag', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'couplings between ranks are dropped: an apply sends nothing', 'false', ('spai', 'fsai')),
    'kind': Option('choice', None, ('chebyshev', 'neumann'), -INFINITY, INFINITY, False, 0, 'a number', 'of the polynomial: least error over an interval, or a geometric series', 'chebyshev', ('polynomial', 'schwarz')),
    'degree': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 products', 'products with A in an apply', '4', ('polynomial', 'schwarz')),
    'lambda_min': Option('real', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'chebyshev: lower end of the interval of D^-1 A', 'estimated', ('polynomial', 'schwarz')),
    'lambda_max': Option('real', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'chebyshev: upper end of the interval of D^-1 A', 'estimated', ('polynomial', 'schwarz')),
    'relaxation': Option('real', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'neumann: omega', '1', ('polynomial', 'schwarz')),
    'strength': Option('real', None, (), 0.0, 1.0, False, 0, 'from 0 to 1 ', 'aggregation: unknowns are coupled strongly where |a_ij| exceeds this times sqrt(|a_ii a_jj|); half of it on each coarser level; pmis, hmis: where -a_ij, relative to the sign of a_ii, is at least this times the largest such in row i', '0.04; with pmis or hmis 0.25', ('amg',)),
    'coarsening': Option('choice', None, ('aggregation', 'pmis', 'hmis'), -INFINITY, INFINITY, False, 0, 'a number', 'smoothed aggregation, or classical: coarse unknowns are an independent set of the fine ones', 'aggregation', ('amg',)),
    'interpolation': Option('choice', None, ('extended+i', 'multipass', 'direct'), -INFINITY, INFINITY, False, 0, 'a number', 'pmis, hmis: of unknowns from coarse ones', 'extended+i; on aggressive levels multipass', ('amg',)),
    'p_max': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 entries (0: all)', 'pmis, hmis: a row of the interpolation keeps so many of its largest entries', '4', ('amg',)),
    'aggressive': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 levels', 'pmis, hmis: the first so many levels are coarsened more, along two couplings', '0', ('amg',)),
    'smoother': Option('choice', None, ('spai0', 'jacobi', 'l1-jacobi', 'gauss-seidel', 'chebyshev'), -INFINITY, INFINITY, False, 0, 'a number', 'of each level', 'spai0', ('amg',)),
    'cycle': Option('choice', None, ('V', 'W', 'F', 'K', 'mult-additive'), -INFINITY, INFINITY, False, 0, 'a number', 'how coarser levels are visited', 'V', ('amg',)),
    'sweeps': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 sweep', 'of the smoother before and after the coarser level', '1', ('amg',)),
    'coarsest': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 unknown', 'a level of at most so many unknowns is left to the bottom solver', '400', ('amg',)),
    'agglomerate_below': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 unknowns', 'levels with fewer unknowns a rank move to fewer ranks; 0: none moves', 'levels of fewer than 4096 to as many ranks as are predicted to take the least time', ('amg',)),
    'single_levels': Option('flag', None, (), -INFINITY, INFINITY, False, 0, 'a number', 'levels in single precision: half the traffic of a cycle, one reduction more', 'false', ('amg',)),
    'block': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 unknown', 'unknowns at a node, which stay together; in amg each is nearly in the null space', '1; in node-jacobi from 1 to 6, as the entries of the matrix show', ('node-jacobi', 'amg')),
    'overlap': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 levels', 'levels of neighbours in the graph of A that a block is extended by', '1', ('schwarz',)),
    'restricted': Option('flag', None, (), -INFINITY, INFINITY, False, 0, 'a number', "a block's solution is kept on its own rows only, which halves the messages; false: where blocks overlap their solutions are added, which cg needs", 'true', ('schwarz',)),
    'bottom': Option('choice', 'automatic', ('automatic', 'direct', 'smoother', 'cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres'), -INFINITY, INFINITY, False, 0, 'a number', 'solver of the coarsest level; automatic: direct for few unknowns, else of boxes of cells the cheapest of bicgstab and ca-bicgstab by measured reductions and products, of amg the smoother', '', ('amg',), SOLVE),
    'bottom_reduction': Option('real', 0.001, (), 0.0, INFINITY, True, 0, 'a number > 0', 'a bottom solve reduces its residual by this factor', '', ('amg',)),
    'bottom_norm': Option('choice', 'max', ('2', 'max'), -INFINITY, INFINITY, False, 0, 'a number', 'of that residual', '', ('amg',)),
    'bottom_max_iterations': Option('whole', 1000, (), 0.0, INFINITY, False, 0, 'at least 0 iterations', 'of a bottom solve', '1000', ('amg',)),
    'step': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 iteration', 'of a bottom that names a Krylov method: as in solve', 'by method', ('amg',)),
    'basis': Option('choice', None, ('auto', 'newton', 'chebyshev', 'monomial'), -INFINITY, INFINITY, False, 0, 'a number', 'of a bottom that names a Krylov method: as in solve', 'by method', ('amg',)),
    'powers': Option('choice', None, ('products', 'kernel'), -INFINITY, INFINITY, False, 0, 'a number', 'of a bottom that names a Krylov method: as in solve', 'products', ('amg',)),
    'depth': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 reduction', 'of a bottom that names a Krylov method: as in solve', 'by method', ('amg',)),
}
PRECOND_NAMES = ('none', 'jacobi', 'node-jacobi', 'block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai', 'polynomial', 'amg', 'schwarz', 'direct',)
BEM: Mapping[str, Option] = {
    'discretisation': Option('choice', 'collocation', ('collocation', 'galerkin'), -INFINITY, INFINITY, False, 0, 'a number', 'collocation: the potential at centroids; galerkin: its mean over triangles, a symmetric matrix', 'collocation; with linear elements galerkin', ()),
    'elements': Option('choice', 'constant', ('constant', 'linear'), -INFINITY, INFINITY, False, 0, 'a number', 'of the density: constant on triangles, or continuous and linear on them, a value at each vertex (galerkin, without dielectrics, on the host)', '', ()),
    'quadrature': Option('real', 0.05, (), 0.0, INFINITY, True, 0, 'a number > 0', 'relative accuracy of entries by quadrature, in tolerances', '', ()),
    'assembly': Option('choice', 'host', ('host', 'cuda', 'virtual'), -INFINITY, INFINITY, False, 0, 'a number', "who evaluates entries and finds crosses; cuda: a GPU, for the collocation matrix by aca and aca+, with the host's crosses but for rounding, recompressed there too; virtual: the same kernels, run on the CPU", '', ()),
}
DEVICE_PRODUCT: Mapping[str, Option] = {
    'path': Option('choice', 'peer', ('host', 'copy', 'peer'), -INFINITY, INFINITY, False, 0, 'a number', 'how vectors travel between the GPUs of a rank: through the host, which waits; through its memory in pieces, without waiting; over direct links, where there are any', '', ()),
    'deal': Option('choice', 'rows', ('rows', 'round_robin'), -INFINITY, INFINITY, False, 0, 'a number', 'of blocks to GPUs: in the order of rows, cut at equal bytes, so that partial results overlap little; or in turn, the largest first', '', ()),
    'work': Option('choice', 'redundant', ('redundant', 'shared'), -INFINITY, INFINITY, False, 0, 'a number', 'on vectors: every GPU does all of it, or a part of every sum and of the vectors that no product reads', '', ()),
    'overlap': Option('choice', 'gather', ('copy', 'gather'), -INFINITY, INFINITY, False, 0, 'a number', 'in pipelined-bicgstab the host reads sums until the own rows have arrived (pipe1 of Yamazaki et al. 2018), or also while rows are sent to all ranks (pipe2)', '', ()),
}
HMATRIX: Mapping[str, Option] = {
    'tolerance': Option('real', 0.0001, (), 0.0, INFINITY, True, 0, 'a number > 0', 'relative error of the matrix, in the Frobenius norm', '', ()),
    'measure': Option('choice', 'matrix', ('matrix', 'block'), -INFINITY, INFINITY, False, 0, 'a number', 'the error is that of the whole matrix, or of every block by itself, which is stricter', '', ()),
    'storage': Option('choice', 'automatic', ('automatic', 'single', 'full'), -INFINITY, INFINITY, False, 0, 'a number', "automatic: the lowest of float64, float32 and 16 bits that keeps the tolerance, block by block and column by column; single: without 16 bits; full: the scalar's own", '', ()),
    'compression': Option('choice', 'aca+', ('aca+', 'aca', 'svd'), -INFINITY, INFINITY, False, 0, 'a number', 'crosses (aca+, aca) or the singular values of all entries (svd)', '', ()),
    'admissibility': Option('choice', 'smaller', ('smaller', 'larger', 'weak', 'none'), -INFINITY, INFINITY, False, 0, 'a number', 'blocks are far where the smaller or the larger diameter is at most eta times the distance; weak: where they do not overlap; none: nowhere', '', ()),
    'eta': Option('real', 3.0, (), 0.0, INFINITY, True, 0, 'a number > 0', 'admissibility smaller, larger: a block is far where its diameter is at most so many times the distance', '', ()),
    'leaf_size': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 point', 'largest number of points of a leaf cluster', '64; with nested bases 32', ()),
    'bisection': Option('choice', 'median', ('median', 'midpoint'), -INFINITY, INFINITY, False, 0, 'a number', 'clusters are cut into halves of equal number, or of equal size', '', ()),
    'recompress': Option('flag', True, (), -INFINITY, INFINITY, False, 0, 'a number', 'ranks become those of the singular values of each low-rank block', '', ()),
    'verify': Option('flag', True, (), -INFINITY, INFINITY, False, 0, 'a number', 'rows and columns that no cross has used are sampled before a block is accepted', '', ()),
    'max_rank': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 (0: no limit)', 'blocks that need a higher rank stay dense', '', ()),
    'cut_rank': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 (0: no limit)', 'low-rank blocks are truncated to this rank, whatever the error: for preconditioning', '', ()),
    'symmetry': Option('choice', 'none', ('none', 'symmetric', 'hermitian'), -INFINITY, INFINITY, False, 0, 'a number', 'symmetric (A = A^T) or hermitian: blocks above the diagonal are neither evaluated nor stored', '', ()),
    'nested': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'one basis for all far blocks of a cluster, made of those of its children: less memory and faster products, for smooth kernels', '', ()),
    'sampled_rows': Option('whole', 32, (), 1.0, INFINITY, False, 0, 'at least 1 row', 'rows by which the norm is estimated and the error measured', '', ()),
}
HMATRIX_PRECOND: Mapping[str, Option] = {
    'absolute': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'by the magnitude of the diagonal', '', ('jacobi',)),
    'size': Option('whole', 400, (), 1.0, INFINITY, False, 0, 'at least 1 point', 'points of a cluster whose block is inverted, at most', '', ('block-jacobi',)),
    'tolerance': Option('real', 0.01, (), 0.0, INFINITY, False, 0, 'a number >= 0', "hlu: low-rank blocks are cut here at each step, relative to their norm, in (0, 1); inner: the coarse copy's keep what is above this part of their norm", '', ('hlu', 'inner')),
    'rank': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 term (0: any number)', 'low-rank blocks are taken with at most so many terms', 'hlu: as they are; inner: 1', ('hlu', 'inner')),
    'leaf_size': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 row', 'clusters of at most so many rows are not cut', '64 to 512, by the ranks', ('hlu',)),
    'factors': Option('choice', 'auto', ('auto', 'lu', 'cholesky'), -INFINITY, INFINITY, False, 0, 'a number', 'L U, or L L^H of a matrix stored as hermitian, at half the cost; auto: the latter where the diagonal is positive, and L U if it fails', '', ('hlu',)),
    'precision': Option('choice', 'auto', ('auto', 'single', 'full'), -INFINITY, INFINITY, False, 0, 'a number', 'of the factors, which are approximate anyway; auto: single where the tolerance allows it', '', ('block-jacobi', 'hlu')),
    'method': Option('choice', 'bicgstab', ('cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'direct', 'block-gmres'), -INFINITY, INFINITY, False, 0, 'a number', 'of the iterations', '', ('inner',), SOLVE),
    'iterations': Option('whole', 20, (), 1.0, INFINITY, False, 0, 'at least 1 iteration', 'at most so many for each solve', '', ('inner',)),
    'rtol': Option('real', 0.0, (), 0.0, 1.0, False, 0, 'a number >= 0 and below 1', 'a solve ends earlier where its residual has fallen by this', '', ('inner',)),
    'precond': Option('choice', None, ('none', 'jacobi', 'node-jacobi', 'block-jacobi', 'ilu0', 'ic0', 'iluk', 'ick', 'ilut', 'spai', 'fsai', 'polynomial', 'amg', 'schwarz', 'direct', 'hlu', 'inner'), -INFINITY, INFINITY, False, 0, 'a number', 'of the iterations', 'jacobi for an H-matrix, else none', ('inner',), PRECOND),
}
HMATRIX_PRECOND_NAMES = ('none', 'jacobi', 'block-jacobi', 'hlu', 'inner',)
INFERENCE: Mapping[str, Option] = {
    'values': Option('choice', 'full', ('full', 'float32', 'float16', 'bfloat16'), -INFINITY, INFINITY, False, 0, 'a number', 'how weights are stored; full: float32', '', ('network',)),
    'weight_bytes': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'memory for weights; where they need more they are made anew in every inference, those of the next layers while others are worked on; 0: all are kept', '', ('network',)),
    'bias': Option('real', -0.30000001192092896, (), -INFINITY, 0.0, False, 0, 'a number <= 0', 'added to every sum; inputs without outputs are dropped, which takes one that is not above 0', "the challenge's for this number of neurons", ('infer',)),
    'ceiling': Option('real', 32.0, (), 0.0, INFINITY, True, 0, 'a number > 0', 'of outputs', '', ('infer',)),
    'panel': Option('whole', 0, (), 0.0, INFINITY, False, 16, 'a multiple of 16 (0: by the number of neurons)', 'images that are worked on together; the results are the same', '', ('infer',)),
    'group': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 layers (0: 6)', 'layers between putting together what is alive; the results are the same', '', ('infer',)),
    'report_layers': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'counts and sums by layer; costs a pass over the outputs each', '', ('infer',)),
    'keep_outputs': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'the outputs, and not only what has any', '', ('infer',)),
}
INFERENCE_NAMES = ('network', 'infer',)
LEAST_SQUARES: Mapping[str, Option] = {
    'atol': Option('real', None, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'converged means, recomputed with r = b - A x, that ||r|| <= btol ||b|| + atol ||A|| ||x||, or that ||A^H r|| <= atol ||A|| ||r||', '1e-8; with float32 and complex64 1e-4', ()),
    'btol': Option('real', None, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'see atol', 'as atol', ()),
    'damp': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'what is minimised is ||b - A x||^2 + damp^2 ||x||^2', '', ()),
    'condition_limit': Option('real', None, (), 1.0, INFINITY, False, 0, 'at least 1 (a condition)', 'ends the solve where the estimated condition of A exceeds it', '1 / epsilon of the scalar', ('lsmr', 'lsqr')),
    'max_iterations': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 iterations', 'pairs of products with A and A^H at most', '10 per row or column, from 1000 to 50000', ()),
    'step': Option('whole', None, (), 1.0, 1000.0, False, 0, 'from 1 to 1000 iterations', 's: iterations for one reduction', '8', ('ca-cg',)),
    'history': Option('flag', True, (), -INFINITY, INFINITY, False, 0, 'a number', 'keep the residual and the gradient of every iteration', '', ()),
}
LEAST_SQUARES_NAMES = ('lsmr', 'lsqr', 'cg', 'pipelined-cg', 'ca-cg',)
MACHINE: Mapping[str, Option] = {
    'latency': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'L: seconds of a message on the wire', '', ()),
    'overhead': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'o: seconds of the processor for a message, at each end', '', ()),
    'gap': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'G: seconds a byte on the wire', '', ()),
    'noise': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'mean of an exponentially distributed delay of each kernel on each rank', '', ()),
    'bandwidth': Option('real', 0.0, (), 0.0, 1.7976931348623157e+308, False, 0, '0, or a number above 1e-15', 'bytes a second that a rank moves in kernels; 0: they cost nothing', '', ()),
    'flop_rate': Option('real', 0.0, (), 0.0, 1.7976931348623157e+308, False, 0, '0, or a number above 1e-15', 'operations a second of a rank; 0: they cost nothing', '', ()),
    'kernel': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'a fixed time for every kernel (the launch on a device)', '', ()),
    'cache': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'bytes; a kernel that moves at most so many runs from the cache', '', ()),
    'cache_bandwidth': Option('real', 0.0, (), 0.0, 1.7976931348623157e+308, False, 0, '0, or a number above 1e-15', 'bytes a second of kernels that run from the cache', '', ()),
    'eager_limit': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'bytes; a larger message is announced, and fetched when its receiver calls next (rendezvous); 0: none', '', ()),
    'ranks_per_node': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 ranks', "neighbouring ranks that share a node's memory and network interface; 0: each has its own", '', ()),
    'nic_gap': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'seconds a byte that enters or leaves a node', '', ()),
    'node_bandwidth': Option('real', 0.0, (), 0.0, 1.7976931348623157e+308, False, 0, '0, or a number above 1e-15', "bytes a second of a node's memory, in equal parts for its ranks; 0: no limit", '', ()),
    'noise_interval': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'mean seconds between interruptions of a rank by the system, exponentially distributed; 0: none', '', ()),
    'noise_duration': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'mean seconds of an interruption, exponentially distributed', '', ()),
    'topology': Option('choice', 'flat', ('flat', 'fat-tree', 'torus', 'dragonfly'), -INFINITY, INFINITY, False, 0, 'a number', 'how nodes are connected', '', ()),
    'hop_latency': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', "seconds a switch of a message's way beyond the first", '', ()),
    'nodes_per_switch': Option('whole', 16, (), 1.0, INFINITY, False, 0, 'at least 1 node', 'nodes at a leaf switch (fat-tree) or router (dragonfly)', '', ()),
    'switches_per_group': Option('whole', 16, (), 1.0, INFINITY, False, 0, 'at least 1 switch', 'leaf switches of a pod (fat-tree), routers of a group (dragonfly)', '', ()),
    'torus_axes': Option('whole', 3, (), 1.0, 6.0, False, 0, 'from 1 to 6 axes', 'axes of a torus', '', ()),
    'uplink_gap': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'seconds a byte on the links, together, that leave a leaf switch (fat-tree) or a group (dragonfly), or join the halves of a torus', '', ()),
    'poll_interval': Option('real', 5e-05, (), 0.0, INFINITY, True, 0, 'a number > 0', 'with progress poll: seconds between two polls', '', ()),
    'seed': Option('whole', 1, (), 0.0, 9007199254740992.0, False, 0, 'from 0 to 9007199254740992 (2^53)', 'of noise and interruptions', '', ()),
    'delivery': Option('choice', 'eager', ('eager', 'meeting'), -INFINITY, INFINITY, False, 0, 'a number', 'meeting: a message leaves when its receiver is ready, too (rendezvous); eager: a late receiver finds it there', '', ()),
    'progress': Option('choice', 'ideal', ('ideal', 'in_wait', 'poll'), -INFINITY, INFINITY, False, 0, 'a number', 'how the rounds of a started sum go on: by themselves (ideal), while the rank waits for something (in_wait), also from kernels (poll)', '', ()),
}
MACHINE_LEVEL: Mapping[str, Option] = {
    'ranks': Option('whole', 1, (), 1.0, INFINITY, False, 0, 'at least 1 rank', 'neighbouring ranks of a group (a socket, a node)', '', ()),
    'latency': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'L within the group', '', ()),
    'overhead': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'o within the group', '', ()),
    'gap': Option('real', 0.0, (), 0.0, 1000000000000000.0, False, 0, 'a number from 0 to 1e15', 'G within the group', '', ()),
}
MULTIGRID: Mapping[str, Option] = {
    'cycle': Option('choice', 'V', ('V', 'W', 'F', 'K', 'U'), -INFINITY, INFINITY, False, 0, 'a number', 'F: full multigrid, a solve goes on with V; U: a V-cycle that ends where boxes have smallest_box cells along an axis, no box moves to another rank', '', ()),
    'smoother': Option('choice', 'gauss-seidel', ('gauss-seidel', 'chebyshev', 'jacobi', 'l1-jacobi'), -INFINITY, INFINITY, False, 0, 'a number', 'gauss-seidel is red-black', '', ()),
    'interpolation': Option('choice', None, ('constant', 'linear', 'quadratic', 'cubic', 'quartic'), -INFINITY, INFINITY, False, 0, 'a number', 'of corrections; above linear exact for averages over cells', 'constant; quadratic with the fourth-order stencil', ()),
    'restriction': Option('choice', 'constant', ('constant', 'linear', 'quadratic', 'cubic', 'quartic'), -INFINITY, INFINITY, False, 0, 'a number', 'of residuals: the adjoint of this interpolation; constant sums them over the children', '', ()),
    'full_interpolation': Option('choice', None, ('constant', 'linear', 'quadratic', 'cubic', 'quartic'), -INFINITY, INFINITY, False, 0, 'a number', 'of solutions, by the F-cycle', 'linear; quartic with the fourth-order stencil', ()),
    'pre': Option('whole', 2, (), 0.0, 1000.0, False, 0, 'from 0 to 1000 sweeps', 'sweeps before the coarser level', '', ()),
    'post': Option('whole', 2, (), 0.0, 1000.0, False, 0, 'from 0 to 1000 sweeps', 'sweeps after it', '', ()),
    'symmetric': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'sweeps after mirror those before: for cg', '', ()),
    'bottom': Option('choice', 'automatic', ('automatic', 'direct', 'smoother', 'cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres'), -INFINITY, INFINITY, False, 0, 'a number', 'solver of the coarsest level; automatic: direct for few unknowns, else of boxes of cells the cheapest of bicgstab and ca-bicgstab by measured reductions and products, of amg the smoother', '', (), SOLVE),
    'bottom_reduction': Option('real', 0.001, (), 0.0, INFINITY, True, 0, 'a number > 0', 'a bottom solve reduces its residual by this factor', '', ()),
    'bottom_norm': Option('choice', 'max', ('2', 'max'), -INFINITY, INFINITY, False, 0, 'a number', 'of that residual', '', ()),
    'bottom_max_iterations': Option('whole', 1000, (), 0.0, INFINITY, False, 0, 'at least 0 iterations', 'of a bottom solve', '1000', ()),
    'step': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 iteration', 'of a bottom that names a Krylov method: as in solve', 'by method', ()),
    'basis': Option('choice', None, ('auto', 'newton', 'chebyshev', 'monomial'), -INFINITY, INFINITY, False, 0, 'a number', 'of a bottom that names a Krylov method: as in solve', 'by method', ()),
    'powers': Option('choice', None, ('products', 'kernel'), -INFINITY, INFINITY, False, 0, 'a number', 'of a bottom that names a Krylov method: as in solve', 'products', ()),
    'depth': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 reduction', 'of a bottom that names a Krylov method: as in solve', 'by method', ()),
    'smallest_box': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 cell', 'an axis is coarsened while its boxes have at least twice as many cells', '2; 4 for U', ()),
    'agglomerate_below': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 cells', 'levels with fewer cells a rank move to fewer ranks; 0: none moves', '4096; 0 for U; with the automatic bottom they stay where a Krylov method on all ranks is predicted to be cheaper', ()),
    'levels': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 levels (0: as many as go)', 'at most', '', ()),
    'single_levels': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'levels in float32, residuals and solutions in float64', '', ()),
    'relaxation': Option('real', None, (), 0.0, 2.0, True, 0, 'a number in (0, 2)', 'of the smoother jacobi', '6/7', ()),
    'chebyshev_range': Option('real', None, (), 1.0, INFINITY, True, 0, 'a number > 1', 'the smoother chebyshev smooths [lambda_max / range, lambda_max]', '4', ()),
    'bottom_cells': Option('whole', None, (), 1.0, INFINITY, False, 0, 'at least 1 cell', 'of a device: the bottom is the first level of at most so many cells', '4096', ()),
}
MULTIGRID_SOLVE: Mapping[str, Option] = {
    'rtol': Option('real', None, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'converged means ||f - A x|| <= max(rtol ||f||, atol), recomputed', '1e-10; with float32 1e-4', ()),
    'atol': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'see rtol', '', ()),
    'max_cycles': Option('whole', 50, (), 0.0, INFINITY, False, 0, 'at least 0 cycles', 'at most', '', ()),
    'norm': Option('choice', 'max', ('2', 'max'), -INFINITY, INFINITY, False, 0, 'a number', 'of the residual: the largest magnitude (max), or 2', '', ()),
}
POINT_KERNEL: Mapping[str, Option] = {
    'kernel': Option('choice', 'gaussian', ('laplace', 'helmholtz', 'yukawa', 'gaussian', 'matern12', 'matern32', 'matern52', 'matern', 'inverse_multiquadric', 'thin_plate', 'stokeslet', 'kelvin', 'rpy'), -INFINITY, INFINITY, False, 0, 'a number', 'k(r), r the distance over the length scale: laplace 1/(4 pi r), helmholtz exp(i kappa r)/(4 pi r), yukawa exp(-kappa r)/(4 pi r), 0 at r = 0; gaussian exp(-r^2/2); matern12, matern32, matern52, and matern for any nu; inverse_multiquadric 1/sqrt(1 + r^2); thin_plate r^2 log r; of three components, at points of three coordinates: stokeslet, kelvin, rpy', '', ()),
    'variance': Option('real', 1.0, (), -INFINITY, INFINITY, True, 0, 'a finite number other than 0', 'factor of the kernel', '', ()),
    'nugget': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'added on the diagonal', '', ()),
    'kappa': Option('real', 1.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'kernel helmholtz, yukawa: wave number, or decay', '', ()),
    'nu': Option('real', 1.5, (), 0.05, 30.0, False, 0, 'from 0.05 to 30 (smoothness)', 'kernel matern: of K_nu', '', ()),
    'epsilon': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'kernel stokeslet, kelvin: regularises: s^2 = r^2 + epsilon^2 in place of r^2', '', ()),
    'poisson': Option('real', 0.3, (), -1.0, 0.5, False, 0, "from -1 to 0.5 (Poisson's ratio)", "kernel kelvin: Poisson's ratio", '', ()),
    'radius': Option('real', 1.0, (), 0.0, INFINITY, True, 0, 'a number > 0', 'kernel rpy: of the spheres', '', ()),
}
RECONSTRUCT: Mapping[str, Option] = {
    'iterations': Option('whole', 30, (), 0.0, INFINITY, False, 0, 'at least 0 iterations', 'at most', '', ()),
    'discrepancy': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'ends a slice at |b - A x| <= discrepancy: the norm of its noise; 0: not', '', ()),
    'tolerance': Option('real', 0.0, (), 0.0, INFINITY, False, 0, 'a number >= 0', 'ends a slice at |A^T (b - A x)| <= tolerance |A^T b|; 0: not', '', ()),
    'l_curve': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'ends a slice when the corner of its L-curve has been passed, with the image at the corner', '', ()),
    'relaxation': Option('real', 1.0, (), 0.0, 2.0, True, 0, 'a number in (0, 2)', 'w', '', ('sirt',)),
    'nonnegative': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'no pixel below 0', '', ('sirt',)),
    'reorthogonalise': Option('whole', None, (), 0.0, INFINITY, False, 0, 'at least 0 gradients', "every gradient is kept orthogonal to the first so many, each of which takes an image's memory; with none rounding costs an iteration or two in float32, more with 16-bit values or vectors", '1; with vectors in 16 bits 5', ('cgls',)),
}
RECONSTRUCT_NAMES = ('cgls', 'sirt',)
TILED: Mapping[str, Option] = {
    'values': Option('choice', 'full', ('full', 'float32', 'float16', 'bfloat16'), -INFINITY, INFINITY, False, 0, 'a number', "how entries are stored: as the matrix's own scalar (full), or rounded (scaled by a power of two for each block of rows); sums are formed in the scalar", '', ('tiled', 'projector')),
    'vectors': Option('choice', 'full', ('full', 'float16', 'bfloat16'), -INFINITY, INFINITY, False, 0, 'a number', 'what products of a float32 matrix read: the vectors, or a copy in 16 bits, each column scaled by a power of two of its own; what rounding takes from a number the next ones of its column get, up to half a unit of their own last place; sums are formed in float32; messages between ranks are then of 16 bits too: whole numbers scaled by a power of two for every 64; cgls takes vectors and messages in full until its gradient is small enough for theirs', '', ('tiled', 'projector')),
    'order': Option('choice', None, ('natural', 'hilbert', 'clustered', 'spectral', 'greedy', 'metis'), -INFINITY, INFINITY, False, 0, 'a number', 'how rows and columns are stored; vectors keep their numbers. natural: as they come; hilbert: rays and pixels along curves; clustered: rows that read the same columns together, and columns likewise, where nothing is known of their geometry, by spectral (long rows), greedy (short ones) or metis where these are named', 'natural; of a projector hilbert', ('tiled', 'projector')),
    'cluster_rows': Option('whole', 1024, (), 1.0, INFINITY, False, 0, 'at least 1 row', 'order clustered, spectral, greedy, metis: rows of a cluster', '', ('tiled',)),
    'format': Option('choice', 'automatic', ('automatic', 'list', 'bitmap', 'plain', 'computed'), -INFINITY, INFINITY, False, 0, 'a number', "list (fastest), bitmap (fewer bytes where neighbouring columns come together), plain (as a csr matrix; where rows are short and columns many); computed: entries are made in every product, no memory and next to no time to build, quickest up to 4 columns (8 where building counts), of values and vectors in full; automatic: by the columns and the rows' lengths, of a projector computed up to 8 columns and where a stored matrix would not fit the memory, unless options say how it is stored", '', ('tiled', 'projector')),
    'columns': Option('whole', 1, (), 1.0, INFINITY, False, 0, 'at least 1 column', 'columns at once (slices of a reconstruction), as expected; decides the automatic format', '', ('tiled', 'projector')),
    'block_rows': Option('whole', 0, (), 0.0, 65536.0, False, 0, 'from 0 to 65536 rows', "rows of a block; 0: Tacit's choice", '', ('tiled', 'projector')),
    'tile': Option('whole', 0, (), 0.0, 128.0, False, 8, 'a multiple of 8 up to 128', "columns whose sums are kept in registers; 0: Tacit's choice", '', ('tiled', 'projector')),
    'groups': Option('wholes', (), (), 1.0, INFINITY, False, 0, 'at least 1 rank', 'ranks of nested groups within which partial sums are added before they travel farther, inside out: 3,6 for sockets of 3, nodes of 6', '', ('tiled', 'projector')),
    'minibatch': Option('whole', 0, (), 0.0, INFINITY, False, 0, 'at least 0 columns', 'columns to a message, whose sums the product of the next ones hides; 0: all', '', ('tiled', 'projector')),
    'tune': Option('flag', False, (), -INFINITY, INFINITY, False, 0, 'a number', 'format, block_rows and tile are chosen by timing products of `columns` columns with a sample of the rows, where they were left open (of a projector computed entries, too); what was found is kept in ~/.cache/tacit/tiled.tsv', '', ('tiled', 'projector')),
}
TILED_NAMES = ('tiled', 'projector',)
# What may be chosen elsewhere.
BATCH_CUTS = ('count', 'ranges')
BOUNDARIES = ('dirichlet', 'neumann', 'periodic')
CONVECTIONS = ('upwind', 'central')
FORMATS = ('automatic', 'csr', 'sell', 'bsr')
GROUP_METHODS = ('bicgstab', 'pipelined-bicgstab')
MEANS = ('harmonic', 'arithmetic')
PARTS = ('slices', 'boxes')
PATHS = ('auto', 'messages', 'persistent', 'neighbour', 'put', 'shared', 'gather', 'gaspi')
SOLUTIONS = ('bump', 'sine')
STENCILS = ('7-point', '27-point', 'fourth-order')
TASK_ORDERS = ('none', 'rows', 'grouped', 'columns')


class SolveOptions(TypedDict, total=False):
    """Options of Solve, for type checkers."""

    rtol: float | None
    atol: float
    max_iterations: int | None
    restart: int | None
    side: Literal['right', 'left', 'flexible'] | None
    orthogonalisation: Literal['auto', 'one-reduction', 'cgs', 'cgs2', 'mgs', 'bcgs', 'bcgs2', 'bcgs-pip', 'bcgs-pip2', 'two-stage'] | None
    shadow_dimension: int | None
    step: int | None
    depth: int | None
    block: int | None
    tau: float | None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None
    block_qr: Literal['cholqr', 'cholqr2', 'shifted-cholqr3', 'mixed-cholqr', 'tsqr'] | None
    storage: Literal['full', 'float32', 'bfloat16'] | None
    powers: Literal['products', 'kernel'] | None
    replacement: int | None
    relaxation: float | None
    sweeps: int | None
    lambda_min: float | None
    lambda_max: float | None
    engine: Literal['polling', 'thread', 'tasks']
    norm: Literal['2', 'max']
    schedule: Literal['auto', 'overlapped', 'synchronous', 'split', 'jobs']
    remote_threads: int
    job_rows: int
    divergence: float
    history: bool
    fallbacks: bool
    explain: bool | None


class BemOptions(TypedDict, total=False):
    """Options of Bem, for type checkers."""

    discretisation: Literal['collocation', 'galerkin'] | None
    elements: Literal['constant', 'linear']
    quadrature: float
    assembly: Literal['host', 'cuda', 'virtual']


class DeviceProductOptions(TypedDict, total=False):
    """Options of DeviceProduct, for type checkers."""

    path: Literal['host', 'copy', 'peer']
    deal: Literal['rows', 'round_robin']
    work: Literal['redundant', 'shared']
    overlap: Literal['copy', 'gather']


class HmatrixOptions(TypedDict, total=False):
    """Options of Hmatrix, for type checkers."""

    tolerance: float
    measure: Literal['matrix', 'block']
    storage: Literal['automatic', 'single', 'full']
    compression: Literal['aca+', 'aca', 'svd']
    admissibility: Literal['smaller', 'larger', 'weak', 'none']
    eta: float
    leaf_size: int | None
    bisection: Literal['median', 'midpoint']
    recompress: bool
    verify: bool
    max_rank: int
    cut_rank: int
    symmetry: Literal['none', 'symmetric', 'hermitian']
    nested: bool
    sampled_rows: int


class NetworkOptions(TypedDict, total=False):
    """Options of Network, for type checkers."""

    values: Literal['full', 'float32', 'float16', 'bfloat16']
    weight_bytes: float


class InferOptions(TypedDict, total=False):
    """Options of Infer, for type checkers."""

    bias: float | None
    ceiling: float
    panel: int
    group: int
    report_layers: bool
    keep_outputs: bool


class LeastSquaresOptions(TypedDict, total=False):
    """Options of LeastSquares, for type checkers."""

    atol: float | None
    btol: float | None
    damp: float
    condition_limit: float | None
    max_iterations: int | None
    step: int | None
    history: bool


class MultigridOptions(TypedDict, total=False):
    """Options of Multigrid, for type checkers."""

    cycle: Literal['V', 'W', 'F', 'K', 'U']
    smoother: Literal['gauss-seidel', 'chebyshev', 'jacobi', 'l1-jacobi']
    interpolation: Literal['constant', 'linear', 'quadratic', 'cubic', 'quartic'] | None
    restriction: Literal['constant', 'linear', 'quadratic', 'cubic', 'quartic']
    full_interpolation: Literal['constant', 'linear', 'quadratic', 'cubic', 'quartic'] | None
    pre: int
    post: int
    symmetric: bool
    bottom: Literal['automatic', 'direct', 'smoother', 'cg', 'minres', 'bicgstab', 'gmres', 'fgmres', 'idr', 'cocg', 'cocr', 'richardson', 'chebyshev', 'pipelined-cg', 'pipelined-bicgstab', 'pipelined-gmres', 'ca-cg', 'block-cg', 'ca-bicgstab', 'ca-gmres', 'pipelined-ca-gmres', 'block-gmres'] | Method
    bottom_reduction: float
    bottom_norm: Literal['2', 'max']
    bottom_max_iterations: int | None
    step: int | None
    basis: Literal['auto', 'newton', 'chebyshev', 'monomial'] | None
    powers: Literal['products', 'kernel'] | None
    depth: int | None
    smallest_box: int | None
    agglomerate_below: int | None
    levels: int
    single_levels: bool
    relaxation: float | None
    chebyshev_range: float | None
    bottom_cells: int | None


class MultigridSolveOptions(TypedDict, total=False):
    """Options of MultigridSolve, for type checkers."""

    rtol: float | None
    atol: float
    max_cycles: int
    norm: Literal['2', 'max']


class PointKernelOptions(TypedDict, total=False):
    """Options of PointKernel, for type checkers."""

    variance: float
    nugget: float
    kappa: float
    nu: float
    epsilon: float
    poisson: float
    radius: float


class ReconstructOptions(TypedDict, total=False):
    """Options of Reconstruct, for type checkers."""

    iterations: int
    discrepancy: float
    tolerance: float
    l_curve: bool
    relaxation: float
    nonnegative: bool
    reorthogonalise: int | None


class TiledOptions(TypedDict, total=False):
    """Options of Tiled, for type checkers."""

    values: Literal['full', 'float32', 'float16', 'bfloat16']
    vectors: Literal['full', 'float16', 'bfloat16']
    order: Literal['natural', 'clustered', 'spectral', 'greedy', 'metis'] | None
    cluster_rows: int
    format: Literal['automatic', 'list', 'bitmap', 'plain']
    columns: int
    block_rows: int
    tile: int
    groups: Sequence[int]
    minibatch: int
    tune: bool


class ProjectorOptions(TypedDict, total=False):
    """Options of Projector, for type checkers."""

    values: Literal['full', 'float32', 'float16', 'bfloat16']
    vectors: Literal['full', 'float16', 'bfloat16']
    order: Literal['natural', 'hilbert', 'clustered', 'spectral', 'greedy', 'metis'] | None
    format: Literal['automatic', 'list', 'bitmap', 'plain', 'computed']
    columns: int
    block_rows: int
    tile: int
    groups: Sequence[int]
    minibatch: int
    tune: bool
