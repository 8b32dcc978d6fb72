#include <tacit/krylov/outer.hpp>

#include <utility>

namespace tacit::krylov {

Verdict judge(OuterIteration& solve, double norm, double goal) {
  const auto ends = [&norm](std::optional<Verdict>& verdict) {
    verdict->norm = norm;
    return std::move(*verdict);
  };
  while (!reached(norm, goal)) {
    const double before = norm;
    if (auto verdict = solve.run(norm)) return ends(verdict);
    const double trial = solve.recompute();
    if (reached(trial, goal) || solve.is_better(trial, norm)) {
      solve.accept();
      norm = trial;
      if (reached(norm, goal)) break;
    } else {
      solve.reject();
    }
    if (auto verdict = solve.next(before, norm)) return ends(verdict);
  }
  return {Reason::converged, "", "", norm};
}

}  // namespace tacit::krylov
