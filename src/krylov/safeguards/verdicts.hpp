// How a solve that has not converged ends: the reason, and what the user is advised to do. Part of solve_impl.hpp.
#pragma once

namespace tacit::krylov {
namespace {

/// For gmres that was asked to orthogonalise once.
template <Scalar T, Memory M>
std::string Solve<T, M>::twice() const {
  const auto how = options_.orthogonalisation.value_or(Orthogonalisation::automatic);
  const bool once =
      how == Orthogonalisation::cgs || how == Orthogonalisation::mgs || how == Orthogonalisation::one_reduction;
  return once ? "orthogonalisation=\"cgs2\", " : "";
}

/// The advice where the method believes in a residual that b - A x does not have.
template <Scalar T, Memory M>
std::string Solve<T, M>::drifted() const {
  return message("The method believes in ", about(monitor_->norm() / b_norm_), " of ||b||: its vectors ",
                 classical_of(method_) == Method::gmres
                     ? "have lost their orthogonality; use orthogonalisation=\"cgs2\" with gmres, a preconditioner "
                       "or a tolerance above this level."
                     : "have drifted from b - A x; use gmres, a preconditioner or a tolerance above this level.");
}

/// The limit has been reached. Where the residual has hardly fallen lately, more iterations are not the advice.
template <Scalar T, Memory M>
Verdict Solve<T, M>::too_few_iterations(double norm) const {
  const int done = monitor_->iterations();
  const Method kind = classical_of(method_);
  const bool erratic = kind == Method::bicgstab || kind == Method::idr;
  int more = needs_definite() ? 0 : monitor_->prediction();
  // A residual that the method believed in for a moment predicts nothing; nor does a rate before a rest, or so long
  // after the end that the short recurrences would have in exact arithmetic.
  const bool rests = erratic && monitor_->lowest_at() < done - done / 4;
  if (erratic && (rests || norm > 10 * monitor_->lowest() || (done > 5 * space_.size() && more > 2 * done))) more = -1;
  const Global long_enough = kind == Method::gmres ? 2 * restart_ : erratic ? space_.size() : 20;
  if (more < 0 && done > long_enough)
    return {Reason::max_iterations,
            rests ? message("the residual has not fallen below its lowest since iteration ", monitor_->lowest_at())
                  : "the residual has hardly fallen in the last half of the iterations",
            "Use another method or a stronger preconditioner; more iterations are unlikely to help."};
  if (more > done && done >= 100)
    return {Reason::max_iterations, "",
            message("Allow more iterations (at this rate about ", more, " in all), or use a stronger preconditioner.")};
  const std::string few =
      done < space_.size() && done < 100 ? message(" (these were fewer than the ", space_.size(), " unknowns)") : "";
  return {Reason::max_iterations, "", "Allow more iterations" + few + ", or use a stronger preconditioner."};
}

/// For a matrix that cg cannot use; explain() adds the reason.
template <Scalar T, Memory M>
Verdict Solve<T, M>::hopeless(double norm) const {
  return {Reason::stagnated,
          message("after ", monitor_->iterations(), " iterations the recomputed residual is at ", norm / b_norm_,
                  " of ||b||"),
          "Use gmres or bicgstab."};
}

/// Of a breakdown.
template <Scalar T, Memory M>
std::string Solve<T, M>::advice(const std::string& detail) const {
  const Method kind = classical_of(method_);
  if (kind == Method::cg)
    return "cg needs a positive definite matrix and preconditioner; use minres for another Hermitian matrix, else "
           "gmres or bicgstab.";
  if (kind == Method::minres && detail.find("(r, P r)") == 0)
    return "minres needs a positive definite preconditioner, such as ic0 or ick; with this one use gmres.";
  if (kind == Method::bicgstab || kind == Method::idr) return "Use gmres, which cannot break down this way.";
  return "Use bicgstab, or another preconditioner.";
}

template <Scalar T, Memory M>
Verdict Solve<T, M>::failed(double norm) const {
  // Reports the first failure at this residual, not that of the last fallback.
  const Failure failure = failure_.detail.empty() ? Failure{monitor_->outcome(), monitor_->detail()} : failure_;
  switch (failure.outcome) {
    case Outcome::breakdown:
      if (norm <= 100 * double(std::numeric_limits<real_t<T>>::epsilon()) * b_norm_)
        return {Reason::stagnated, message("the recomputed residual stays at ", norm / b_norm_, " of ||b||"),
                rounding_advice(10 * norm / b_norm_)};
      return {Reason::breakdown, failure.detail, advice(failure.detail)};
    case Outcome::diverged:
      return {Reason::diverged, message("||r|| grew beyond ", options_.divergence, " times its start"),
              method_ == Method::richardson  ? "Use another relaxation, a preconditioner, or gmres or bicgstab."
              : method_ == Method::chebyshev ? "Give a larger lambda_max, or use cg, gmres or bicgstab."
                                             : "Use another method or a stronger preconditioner."};
    default:
      return {Reason::non_finite,
              failure.detail.empty() ? "the residual became NaN or Inf during the iteration" : failure.detail,
              message("The numbers left the range of the scalar; use another method, a preconditioner or ",
                      std::same_as<real_t<T>, double> ? "a better scaled problem." : "double precision.")};
  }
}

}  // namespace
}  // namespace tacit::krylov
