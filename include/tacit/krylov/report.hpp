// Report: how a solve ended, in numbers that were recomputed.
#pragma once

#include <tacit/base/names.hpp>

#include <tacit/base/types.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tacit::krylov {

enum class Reason {
  converged,       ///< the recomputed ||b - A x|| is at or below max(rtol ||b||, atol); said of nothing else
  max_iterations,  ///< the limit was reached first
  breakdown,       ///< a scalar that the method divides by vanished; `detail` names it
  stagnated,       ///< the residual no longer falls; residual_norm is the level reached
  diverged,        ///< the residual exceeded Options::divergence max(||b||, ||r_0||)
  non_finite,      ///< NaN or Inf: `detail` names the array and the global index when the input is at fault
  stopped,         ///< the callback asked to stop
  damaged          ///< the numbers of A or b have changed in memory; `detail` names the rank
};
using tacit::to_string;

struct Report {
  Reason reason = Reason::max_iterations;
  std::string detail;  ///< what happened, one sentence; empty when there is nothing to add
  std::string advice;  ///< what to try, one sentence; empty when converged
  bool converged() const { return reason == Reason::converged; }
  std::string norm = "2";  ///< the norm of all residuals here: 2, or max
  int iterations = 0;
  int restarts = 0;                     ///< new starts from a recomputed residual (cycles of gmres not counted)
  double residual_norm = 0;             ///< ||b - A x|| / ||b||, recomputed at the end (b = 0: 0; damaged: NaN)
  double recurrence_residual_norm = 0;  ///< the method's own residual norm at the end, on the same scale
  double b_norm = 0;                    ///< ||b||, of the projected b where a null space was given
  int null_space = 0;                   ///< vectors of the given null space
  double projected_norm = 0;            ///< the 2-norm of the part of b that was taken out as orthogonal to A's range
  std::vector<double> history;  ///< the recurrence's ||r_k|| / ||b||, k = 0 .. iterations; the last may not be finite
  std::string method, precond;  ///< names
  std::string choice;           ///< where these were chosen by trial: what was tried, one sentence
  struct Counts {
    std::int64_t reductions = 0;  ///< all-reduces
    std::int64_t operator_applies = 0;
    std::int64_t preconditioner_applies = 0;
    std::int64_t exchanges = 0;            ///< halo exchanges of this rank
    std::int64_t messages = 0, bytes = 0;  ///< sent in exchanges, summed over ranks
  } counts;
  double seconds = 0;                 ///< of the solve, longest over ranks
  double explain_seconds = 0;         ///< after it: the search for the cause of a failure
  std::vector<std::string> warnings;  ///< fallbacks taken, and the like
};

}  // namespace tacit::krylov

template <>
inline constexpr auto tacit::names_of<tacit::krylov::Reason> =
    tacit::named<tacit::krylov::Reason>("reason", {{tacit::krylov::Reason::converged, "converged"},
                                                   {tacit::krylov::Reason::max_iterations, "max_iterations"},
                                                   {tacit::krylov::Reason::breakdown, "breakdown"},
                                                   {tacit::krylov::Reason::stagnated, "stagnated"},
                                                   {tacit::krylov::Reason::diverged, "diverged"},
                                                   {tacit::krylov::Reason::non_finite, "non_finite"},
                                                   {tacit::krylov::Reason::stopped, "stopped"},
                                                   {tacit::krylov::Reason::damaged, "damaged"}});
