// solve: runs a method, recomputes b - A x, and starts the method anew from it until the answer is right or can get no
// better. The one place that says "converged".
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

namespace tacit::krylov {

/// Solves A x = b. x holds the first guess on entry and the best finite approximation on return, whose recomputed
/// ||b - A x|| / ||b|| is in the report.
///
/// P approximates the inverse of A (null: none). Stops when the recomputed ||b - A x|| <= max(rtol ||b||, atol).
/// Whenever the method's recurrence claims that, the residual is recomputed; if it does not hold, the method solves
/// A d = b - A x for a correction d and goes on (report.restarts), until it holds or the residual no longer falls
/// (`stagnated`). b and A are scaled by powers of two when squares could overflow or underflow, so a problem times
/// 1e-200 takes the same iterations. b = 0 gives x = 0. With Options::norm = max every norm here is the largest
/// magnitude.
///
/// Where the method gets no further, or has used a quarter of its iterations, it may fall back (Options::fallbacks): on
/// the inverse diagonal as P when there is none, on another shadow residual (bicgstab), on longer cycles (gmres, where
/// their length was not given). report.warnings tells.
///
/// Method::automatic takes cg when `hermitian` says so and the diagonal is positive, gmres otherwise, and changes from
/// cg to gmres on breakdown (report.warnings).
///
/// Collective. Vectors: the method's, and 2 (b scaled, r; a correction after a restart).
/// Error(usage): spaces that do not fit, options out of range. Everything numerical is a Reason.
template <Scalar T, Memory M>
Report solve(const op::Operator<T, M>& A, const op::Operator<T, M>* P, const layout::Vector<T, M>& b,
             layout::Vector<T, M>& x, const Options& options, bool hermitian = false);

}  // namespace tacit::krylov
