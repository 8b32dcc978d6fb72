"""Names: how they are printed, and suggestions for unknown ones (another library's word for the same thing, or a
misspelling).
"""

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
    ("bgmres blockgmres bfgmres", ("block_gmres",)),
    ("pipebcgs", ("pipelined_bicgstab",)),
    ("pgmres pipefgmres", ("pipelined_gmres",)),
    ("ilu ilut spilu", ("ilu0",)),
    ("icc ichol cholesky", ("ic0",)),
    ("bjacobi asm", ("block_jacobi",)),
    ("diagonal diag", ("jacobi",)),
    ("parasails", ("fsai",)),
)
_MEANT = {word: meant for words, meant in _ELSEWHERE for word in words.split()}


# Characters that act on a terminal or on the lines around them: control characters, line separators, and those that
# reverse the direction of text.
_ACTING = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {c: f"\\x{c:02x}" if c < 256 else f"\\u{c:04x}" for c in _ACTING} | {9: "\\t", 10: "\\n", 13: "\\r"}
_LINES = {c: text for c, text in _ESCAPES.items() if c != 10}


def printable(text: str, lines: bool = False) -> str:
    """`text` as it may be printed: control characters, as file names may have them, become escapes like \\x1b, and so
    do line ends unless `lines`.
    """
    return text.translate(_LINES if lines else _ESCAPES)


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
