#include <tacit/krylov/outer.hpp>

#include <cmath>
#include <limits>
#include <utility>

namespace tacit::krylov {

Verdict judge(OuterIteration& solve, double norm, double goal) {
  const auto ends = [&](std::optional<Verdict>& verdict) {
    if (auto damage = solve.damage()) return std::move(*damage);
    verdict->norm = norm;
    return std::move(*verdict);
  };
  while (!reached(norm, goal)) {
    const double before = norm;
    if (auto verdict = solve.run(norm)) return ends(verdict);
    const double trial = solve.recompute();
    if (!std::isfinite(trial))
      if (auto damage = solve.damage()) {
        solve.reject();
        return std::move(*damage);
      }
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

std::optional<Verdict> damage_on(const comm::Communicator& comm, bool intact) {
  const Global first = comm.all_min(Global(intact ? comm.size() : comm.rank()));
  if (first == comm.size()) return {};
  return Verdict{
      Reason::damaged,
      message("the numbers of A or b in the memory of rank ", first,
              " are not those that were stored there: something has changed them, and residuals computed "
              "with them mean nothing"),
      "Make the operator anew and solve again. If it happens again, test this machine's memory, and look for "
      "code that writes beyond its arrays.",
      std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace tacit::krylov
