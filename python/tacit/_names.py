"""Suggestions for unknown names: another library's word for the same thing, or a misspelling."""

from __future__ import annotations

from collections.abc import Iterable

# Words of SciPy, PETSc, MATLAB and the like, and what they are called here: the first of the names on the right that is
# known where the word was given. With underscores, and without dashes in front.
_ELSEWHERE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("M M1 pc pc_type preconditioner prec preconditioning", ("precond", "precondition")),
    ("maxiter maxit max_it max_iter maxiters max_iters maxiterations itmax", ("max_iterations", "iterations")),
    ("ksp_max_it niter n_iter num_iterations iter_lim iterations", ("max_iterations", "maxiter")),
    ("tol rel_tol reltol relative_tolerance ksp_rtol accuracy", ("rtol", "tolerance", "eps")),
    ("tolerance eps epsilon", ("rtol", "tolerance", "eps")),
    ("abstol abs_tol absolute_tolerance ksp_atol", ("atol",)),
    ("ksp ksp_type solver solver_type algorithm", ("method", "solver")),
    ("gmres_restart ksp_gmres_restart restrt inner_m max_subspace k_dim", ("restart",)),
    ("omega damping relax ksp_richardson_scale", ("relaxation",)),
    ("pc_side ksp_pc_side", ("side",)),
    ("dtype precision", ("scalar",)),
    ("guess initial_guess x_0", ("x0",)),
    ("right_hand_side", ("b", "rhs")),
    ("reorder reordering permutation rcm", ("ordering",)),
    ("num_threads nthreads n_threads n_jobs workers", ("threads",)),
    ("np n nprocs processes num_ranks", ("ranks", "comm")),
    ("verbose verbosity v disp show progress ksp_monitor ksp_view", ("monitor", "callback")),
    ("norm_type ksp_norm_type", ("norm",)),
    ("o out solution save", ("output",)),
    ("gpu cuda", ("device",)),
    # Methods and preconditioners
    ("bcgs fbcgs bicg", ("bicgstab",)),
    ("fgmres lgmres dgmres minres gcrotmk", ("gmres",)),
    ("pcg fcg conjugate_gradients", ("cg",)),
    ("pipecg groppcg", ("pipelined_cg",)),
    ("bcg bfbcg blockcg", ("block_cg",)),
    ("pipebcgs", ("pipelined_bicgstab",)),
    ("pgmres pipefgmres", ("pipelined_gmres",)),
    ("ilu ilut spilu", ("ilu0",)),
    ("icc ichol cholesky", ("ic0",)),
    ("bjacobi asm", ("block_jacobi",)),
    ("diagonal diag", ("jacobi",)),
    ("parasails", ("fsai",)),
)
_MEANT = {word: meant for words, meant in _ELSEWHERE for word in words.split()}


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that means what `name` means elsewhere, or that `name` may be a misspelling of; None if there is
    none.
    """
    known = list(known)
    word = _plain(name)
    for meant in _MEANT.get(word, ()) or _MEANT.get(word.lower(), ()):
        for other in known:
            if _plain(other) == meant:
                return other
    if not known or not word:
        return None
    best = min(known, key=lambda other: _distance(word.lower(), _plain(other).lower()))
    # A third of the letters may be wrong; a single letter is no clue.
    allowed = min((len(word) + 2) // 3, len(word) - 1)
    return best if _distance(word.lower(), _plain(best).lower()) <= allowed else None


def _distance(a: str, b: str) -> int:
    """How many letters are to be changed, added, left out, or exchanged with their neighbour, to make b of a."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
