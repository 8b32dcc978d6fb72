#include "cycles.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tacit::precond::mg {

using krylov::Reason;
using krylov::Verdict;

void Cycles::solve(double f_norm, double start, int shift, bool from_zero) {
  divisor_ = f_norm > 0 ? f_norm : std::ldexp(1.0, shift);
  goal_ = std::max(rtol_ * f_norm, std::ldexp(options_.atol, shift));
  largest_ = std::max(start, f_norm);
  is_zero_ = from_zero;
  if (f_norm == 0 && !from_zero) {  // u = 0 is the solution, which no cycle reaches exactly
    clear();
    is_zero_ = true;
    start = 0;
  }
  report_.b_norm = std::ldexp(f_norm, -shift);
  report_.history.push_back(start / divisor_);
  Verdict verdict = judge(*this, start, goal_);
  report_.reason = verdict.reason;
  report_.advice = std::move(verdict.advice);
  if (!verdict.detail.empty()) report_.warnings.push_back(std::move(verdict.detail));
  report_.residual_norm = verdict.norm / divisor_;
}

std::optional<Verdict> Cycles::run(double norm) {
  if (!is_zero_) save(Copy::accepted);
  best_ = norm;
  bool has_best = false;
  for (double now = norm; !(ended_ = gives_up(now));) {
    comm_.check_interrupt();
    const double before = now;
    now = cycle();
    ++report_.cycles;
    report_.history.push_back(now / divisor_);
    const bool stop = options_.callback && options_.callback(report_.cycles, now / divisor_);
    if (options_.callback && !comm_.all(!stop)) {
      ended_ = Verdict{Reason::stopped, "", ""};
      break;
    }
    if (krylov::reached(now, goal_)) break;
    // Slow cycles may diverge later: u is saved once a decade. (Fast ones do not pay for that.)
    if (now > 0.5 * before && now < 0.1 * best_) save(Copy::best), best_ = now, has_best = true;
  }
  if (has_best && !(report_.history.back() * divisor_ <= best_)) restore(Copy::best);
  return {};
}

void Cycles::reject() {
  if (is_zero_) clear();
  else restore(Copy::accepted);
}

std::optional<Verdict> Cycles::next(double, double norm) {
  if (ended_) return std::exchange(ended_, std::nullopt);
  // The recomputed norm does not confirm it.
  report_.history.back() = norm / divisor_;
  return gives_up(norm);
}

std::optional<Verdict> Cycles::gives_up(double now) const {
  constexpr std::size_t window = 10;
  const auto& history = report_.history;
  if (!std::isfinite(now))
    return Verdict{Reason::non_finite, "", "look for NaN or Inf in the coefficients, the right-hand side and x0"};
  if (now > 1e10 * largest_)
    return Verdict{Reason::diverged, "", "try more sweeps, or multigrid as a preconditioner of a Krylov method"};
  if (history.size() > window && !(now < 0.9 * history[history.size() - 1 - window] * divisor_))
    return Verdict{
        Reason::stagnated, "",
        "the residual is as small as rounding lets it be, or the coefficients jump too much for these levels: "
        "try multigrid as a preconditioner"};
  if (report_.cycles >= options_.max_cycles)
    return Verdict{Reason::max_iterations, "",
                   "allow more cycles, or use multigrid as a preconditioner of a Krylov method"};
  return {};
}

}  // namespace tacit::precond::mg
