#include <tacit/krylov/outer.hpp>

#include <cmath>
#include <utility>

namespace tacit::krylov {

Verdict judge(OuterIteration& solve, double norm, double goal) {
  // (Where b is not finite, neither is the goal.)
  const auto reached = [goal](double residual) { return std::isfinite(residual) && residual <= goal; };
  const auto ends = [&norm](std::optional<Verdict>& verdict) {
    verdict->norm = norm;
    return std::move(*verdict);
  };
  while (!reached(norm)) {
    const double before = norm;
    if (auto verdict = solve.run(norm)) return ends(verdict);
    const double trial = solve.recompute();
    if (reached(trial) || solve.is_better(trial, norm)) {
      solve.accept();
      norm = trial;
      if (reached(norm)) break;
    } else {
      solve.reject();
    }
    if (auto verdict = solve.next(before, norm)) return ends(verdict);
  }
  return {Reason::converged, "", "", norm};
}

}  // namespace tacit::krylov
