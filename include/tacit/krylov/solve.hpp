// solve: runs a method, recomputes b - A x, and starts the method anew from it until the goal is reached or the
// residual no longer falls.
#pragma once

#include <tacit/krylov/null_space.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

#include <algorithm>
#include <string>

namespace tacit::krylov {

/// The limit of iterations where none is given: 10 n, at least 1000 and at most 50,000, for n unknowns. Local.
inline int default_max_iterations(Global n) {
  return int(std::clamp<Global>(10 * n, 1000, 50000));
}

/// Whether a solve of n unknowns that ends at its limit has hardly begun: then only the limit is to blame. Local.
inline bool is_cut_off_early(int iterations, Global n) {
  return iterations < std::min<Global>(100, n);
}

/// Solves A x = b. x holds the initial guess on entry. On return it is finite, and the report has its recomputed
/// ||b - A x|| / ||b||. x is the iterate with the smallest recomputed residual; where the limit or the callback ends
/// cg, a variant of it, or chebyshev, it is the last iterate if that is nearer to the solution in the norm of A.
///
/// P approximates the inverse of A (null: none). Stops when the recomputed ||b - A x|| <= max(rtol ||b||, atol).
/// Whenever the recurrence of the method is there, the residual is recomputed; if it does not hold, the method solves
/// A d = b - A x for a correction d and goes on (report.restarts), until it holds or the residual no longer falls
/// (`stagnated`). b and A are scaled by powers of two when squares could overflow or underflow, so a problem times
/// 1e-200 takes the same iterations. b = 0 gives x = 0. With Options::norm = max every norm here is the largest
/// magnitude.
///
/// Where the method makes no more progress, or has used a quarter of its iterations, it may fall back
/// (Options::fallbacks): to the inverse diagonal as P when there is none, to another shadow residual (bicgstab), to
/// longer cycles (gmres, where their length was not given). report.warnings lists what was done.
///
/// Method::automatic takes cg when `hermitian` is true and the diagonal has one sign, gmres otherwise, and changes from
/// cg to gmres on breakdown (report.warnings). cg and its variants solve -A x = -b where the diagonal is negative or,
/// where A does not know its diagonal, (r, A r) < 0 at the start.
///
/// null_space: what A and A^H map to zero. It is checked (a product for each vector, and one more). b is projected onto
/// the range of A, where that is known: a left null space is given, or the right one turns out to be one as well (as
/// for Hermitian A). Results of P, or of A where there is no P, are projected (a reduction each), so that every method
/// stays out of it; the returned x is orthogonal to it. report.projected_norm is what was taken out of b; the rest is
/// the b of all residuals.
///
/// A failure is looked into by products of its own (Options::explain), which report.explain_seconds has the time of.
///
/// Collective. Memory: the method's vectors and r; 1 more after a restart, for an x that is not 0 on entry, a scaled b.
/// On a group of devices (exec/group.hpp): bicgstab and pipelined_bicgstab, in float and double.
/// Error(usage): spaces that do not fit, options out of range, a null space that is none. Everything numerical is a
/// Reason.
template <Scalar T, Memory M>
Report solve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const layout::Vector<T, M>& b,
             layout::Vector<T, M>& x, const Options& options, bool hermitian = false,
             const NullSpace<T, M>* null_space = nullptr);

}  // namespace tacit::krylov
