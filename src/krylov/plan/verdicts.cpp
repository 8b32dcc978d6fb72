#include "verdicts.hpp"

#include "words.hpp"

#include <algorithm>

namespace tacit::krylov {
namespace {

using Parameters = Traits::Parameters;

/// gmres and its variants; fgmres keeps other vectors.
bool has_orthogonal_cycles(const Facts& f) {
  return f.traits().cycles && f.traits().varying != Traits::Varying::exact;
}

/// For gmres that orthogonalises once, by its options.
std::string twice(const Facts& f) {
  const auto how = f.options.orthogonalisation.value_or(Orthogonalisation::automatic);
  const bool once =
      how == Orthogonalisation::cgs || how == Orthogonalisation::mgs || how == Orthogonalisation::one_reduction;
  return once ? "orthogonalisation=\"cgs2\", " : "";
}

/// The advice where the method believes in a residual that b - A x does not have.
std::string drifted(const Facts& f) {
  return message("The method believes in ", about(f.run->norm() / f.b_norm), " of ||b||: its vectors ",
                 has_orthogonal_cycles(f)
                     ? "have lost their orthogonality; use orthogonalisation=\"cgs2\" with gmres, a preconditioner "
                       "or a tolerance above this level."
                     : "have drifted from b - A x; use gmres, a preconditioner or a tolerance above this level.");
}

/// Of a breakdown.
std::string after_breakdown(const Facts& f, const std::string& detail) {
  if (is_cg(f.now.method))
    return "cg needs a positive definite matrix and preconditioner; use minres for another Hermitian matrix, else "
           "gmres or bicgstab.";
  if (f.traits().matrix == Traits::Matrix::hermitian && detail.find("(r, P r)") == 0)
    return "minres needs a positive definite preconditioner, such as ic0 or ick; with this one use gmres.";
  if (f.traits().erratic) return "Use gmres, which cannot break down this way.";
  return "Use bicgstab, or another preconditioner.";
}

const char* after_divergence(const Facts& f) {
  switch (f.traits().parameters) {
    case Parameters::given:
      return "Use another relaxation, a preconditioner, or gmres or bicgstab.";
    case Parameters::estimated:
      return "Give a larger lambda_max, or use cg, gmres or bicgstab.";
    default:
      return "Use another method or a stronger preconditioner.";
  }
}

std::string stays_at(const Facts& f) {
  return message("the recomputed residual stays at ", f.norm / f.b_norm, " of ||b||");
}

}  // namespace

std::string rounding_advice(double level, bool is_double) {
  if (level > 0.1) return is_double ? "Scale or regularise the problem." : "Use double precision.";
  return message("Ask for a tolerance above ", about(level),
                 is_double ? ", or scale or regularise the problem." : ", or use double precision.");
}

/// Where the residual has hardly fallen lately, more iterations are not the advice.
Verdict too_few_iterations(const Facts& f) {
  const Monitor& run = *f.run;
  const int done = run.iterations();
  const bool erratic = f.traits().erratic;
  int more = needs_definite(f.now.method) ? 0 : run.prediction();
  // A residual that the method believed in for a moment predicts nothing; nor does a rate before a rest, or so long
  // after the end that the short recurrences would have in exact arithmetic.
  const bool rests = erratic && run.lowest_at() < done - done / 4;
  if (erratic && (rests || f.norm > 10 * run.lowest() || (done > 5 * f.unknowns && more > 2 * done))) more = -1;
  const Global long_enough = has_orthogonal_cycles(f) ? 2 * f.now.restart : erratic ? f.unknowns : 20;
  if (more < 0 && done > long_enough)
    return {Reason::max_iterations,
            rests ? message("the residual has not fallen below its lowest since iteration ", run.lowest_at())
                  : "the residual has hardly fallen in the last half of the iterations",
            "Use another method or a stronger preconditioner; more iterations are unlikely to help."};
  if (more > done && done >= 100)
    return {Reason::max_iterations, "",
            message("Allow more iterations (at this rate about ", more, " in all), or use a stronger preconditioner.")};
  const std::string few =
      done < f.unknowns && done < 100 ? message(" (these were fewer than the ", f.unknowns, " unknowns)") : "";
  return {Reason::max_iterations, "", "Allow more iterations" + few + ", or use a stronger preconditioner."};
}

Verdict stopped(const Facts&) {
  return {Reason::stopped, "the callback asked to stop", ""};
}

Verdict not_hermitian(const Facts& f) {
  return {Reason::stagnated,
          message("after ", f.run->iterations(), " iterations the recomputed residual is at ", f.norm / f.b_norm,
                  " of ||b||"),
          "Use gmres or bicgstab."};
}

/// Reports the first failure at this residual, not that of the last fallback.
Verdict failed(const Facts& f) {
  const Facts::Failure failure = f.first.detail.empty() ? Facts::Failure{f.run->outcome(), f.run->detail()} : f.first;
  switch (failure.outcome) {
    case Outcome::breakdown:
      if (f.norm <= 100 * f.epsilon * f.b_norm)
        return {Reason::stagnated, stays_at(f), rounding_advice(10 * f.norm / f.b_norm, f.is_double())};
      return {Reason::breakdown, failure.detail, after_breakdown(f, failure.detail)};
    case Outcome::diverged:
      return {Reason::diverged, message("||r|| grew beyond ", f.options.divergence, " times its start"),
              after_divergence(f)};
    default:
      return {Reason::non_finite,
              failure.detail.empty() ? "the residual became NaN or Inf during the iteration" : failure.detail,
              message("The numbers left the range of the scalar; use another method, a preconditioner or ",
                      f.is_double() ? "a better scaled problem." : "double precision.")};
  }
}

Verdict doubtful_factors(const Facts& f) {
  return {Reason::breakdown, f.noted->note(),
          "Where b is in the range of A, name the null space (nullspace=), or use gmres or minres."};
}

Verdict stagnated(const Facts& f) {
  return {Reason::stagnated, stays_at(f),
          f.run->outcome() == Outcome::at_goal ? drifted(f)
          : has_orthogonal_cycles(f)           ? "Use another method, a stronger preconditioner or a longer restart."
                                               : "Use another method or a stronger preconditioner."};
}

Verdict cycles_stagnated(const Facts& f) {
  return {Reason::stagnated, message("three cycles in a row left the residual at ", f.norm / f.b_norm, " of ||b||"),
          f.norm > 10 * f.run->norm() && f.options.side != Side::left
              ? drifted(f)
              : message("Use a longer restart, ", twice(f), "another method or a stronger preconditioner.")};
}

}  // namespace tacit::krylov
