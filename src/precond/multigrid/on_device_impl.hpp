// Multigrid over either memory: instantiated for the host by on_device.cpp, for CUDA's device by on_device.cu.
#pragma once

#include <tacit/precond/multigrid/on_device.hpp>

#include <tacit/base/trace.hpp>

#include "device_data.hpp"
#include "hierarchy.hpp"

#include <algorithm>
#include <cmath>

namespace tacit::precond {

template <Scalar T, Memory M>
MultigridOnDevice<T, M>::MultigridOnDevice(std::shared_ptr<const op::FiniteVolume<T>> A,
                                           const MultigridOptions& options, const ResidentBottom& bottom)
    : op::Operator<T, M>(A->range(), A->domain()), a_(std::move(A)), options_(options) {
  levels_ = std::make_unique<mg::DeviceLevels<T, M>>(mg::device_data<T>(a_, options, bottom.cells), options, bottom);
}
template <Scalar T, Memory M>
MultigridOnDevice<T, M>::~MultigridOnDevice() = default;

template <Scalar T, Memory M>
op::Cost MultigridOnDevice<T, M>::cost() const {
  const auto one = a_->cost();
  const double sweeps = options_.pre + options_.post, levels = 8.0 / 7;
  return {one.flops * (sweeps + 1) * levels, one.bytes * (2 * sweeps + 2) * levels, 0, 0};
}
template <Scalar T, Memory M>
int MultigridOnDevice<T, M>::levels() const {
  return levels_->levels();
}
template <Scalar T, Memory M>
mg::ResidentCounts MultigridOnDevice<T, M>::bottom() const {
  return levels_->counts();
}
template <Scalar T, Memory M>
std::int64_t MultigridOnDevice<T, M>::launches() const {
  return levels_->launches();
}
template <Scalar T, Memory M>
void MultigridOnDevice<T, M>::race_check(bool on) const {
  levels_->race_check(on);
}

template <Scalar T, Memory M>
void MultigridOnDevice<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool, int) const {
  const Span span("multigrid cycle", "precond");
  if (x.size() == 0) return;
  auto& levels = *levels_;
  const double n = double(this->range().size());
  const bool singular = a_->singular();
  const int columns = x.columns();
  for (int c = 0; c < columns; ++c) {
    levels.load_f(x.data() + c, 1, 0, columns);
    if (singular) levels.load_f(x.data() + c, 1, T(levels.norms(mg::Quantity::f).total / n), columns);
    levels.cycle(true);
    levels.store_u(y.data() + c, 1, singular ? T(levels.norms(mg::Quantity::u).total / n) : T(0), columns);
  }
}

template <Scalar T, Memory M>
MultigridReport MultigridOnDevice<T, M>::solve(const Vector<T, M>& b, Vector<T, M>& x,
                                               const MultigridSolve& options) const {
  using mg::Quantity;
  require(b.space() == this->range() && x.space() == this->range() && b.columns() == 1 && x.columns() == 1,
          "multigrid solves for one column of ", this->range().size(), " cells");
  require(options.rtol >= 0 && options.atol >= 0 && options.max_cycles >= 0, "rtol = ", options.rtol,
          ", atol = ", options.atol, ", max_cycles = ", options.max_cycles, "; numbers >= 0 are needed");
  const double started = wall_time(), n = double(this->range().size());
  auto& levels = *levels_;
  const bool singular = a_->singular();
  MultigridReport report;
  report.norm = options.max_norm ? "max" : "2";
  report.bottom = "bicgstab";
  report.bottom_choice = "bicgstab: in one launch";
  const auto before = levels.counts();
  const auto of = [&](const mg::Norms& norms) {
    return options.max_norm || std::isnan(norms.largest) ? norms.largest : std::sqrt(norms.squares);
  };

  levels.load_f(b.data()), levels.load_u(x.data());
  const double b_most = levels.norms(Quantity::f).largest, r_most = levels.norms(Quantity::residual).largest;
  const double most = std::isfinite(b_most) && std::isfinite(r_most) ? std::max(b_most, r_most) : NAN;
  // Squares are added up on the way: what is far from 1 is brought there by a power of two, exactly.
  const int exponent = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
  constexpr int range = std::numeric_limits<T>::max_exponent - 2;
  const int shift = std::abs(exponent) > 24 ? std::clamp(-exponent, -range, range) : 0;
  const T scale = T(std::ldexp(1.0, shift));
  if (shift != 0) levels.load_f(b.data(), scale), levels.load_u(x.data(), scale);
  if (singular) {
    const T mean = T(levels.norms(Quantity::f).total / n / double(scale));
    const double removed = std::abs(double(mean)), unit = double(std::numeric_limits<T>::epsilon());
    if (removed > std::sqrt(unit) * most)
      report.warnings.push_back(message("A maps constants to zero, but the mean of f is ", removed,
                                        " (its largest element is ", b_most,
                                        "): no u solves A u = f; A u = f - mean is what was solved"));
    levels.load_f(b.data(), scale, mean);
  }
  const double f_norm = of(levels.norms(Quantity::f));
  const double divisor = f_norm > 0 ? f_norm : std::ldexp(1.0, shift);
  report.b_norm = std::ldexp(f_norm, -shift);
  const double goal = std::max(options.rtol * f_norm, std::ldexp(options.atol, shift));
  double now = of(levels.norms(Quantity::residual));
  const double start = now;
  // x is what the finest level has; its mean, where A is singular, is nobody's.
  const auto store = [&] {
    const double mean = singular ? levels.norms(Quantity::u).total / n : 0;
    levels.store_u(x.data(), T(std::ldexp(1.0, -shift)), T(mean));
  };
  const auto confirmed = [&] {
    store();
    levels.load_u(x.data(), scale);
    return of(levels.norms(Quantity::residual));
  };
  report.history.push_back(now / divisor);
  bool stored = false;
  for (;;) {
    if (std::isfinite(now) && now <= goal) {
      if (!stored) now = confirmed(), stored = true;
      report.history.back() = now / divisor;
      if (now <= goal) {
        report.reason = "converged";
        break;
      }
    }
    if (mg::gives_up(now, std::max(start, f_norm), divisor, options.max_cycles, report)) break;
    this->range().comm().check_interrupt();
    levels.cycle(false);
    stored = false;
    now = of(levels.norms(Quantity::residual, true));
    ++report.cycles;
    report.history.push_back(now / divisor);
    if (options.callback && options.callback(report.cycles, now / divisor)) {
      report.reason = "stopped";
      break;
    }
  }
  if (!stored) now = confirmed();
  report.residual_norm = now / divisor;
  report.converged = report.reason == "converged";
  const auto after = levels.counts();
  report.bottom_solves = int(after.solves - before.solves);
  report.bottom_iterations = int(after.iterations - before.iterations);
  report.bottom_failures = int(after.failures - before.failures);
  if (report.bottom_failures > 0)
    report.warnings.push_back(message("bottom bicgstab: ", report.bottom_failures, " of ", report.bottom_solves,
                                      " solves did not converge; Jacobi's method went on"));
  for (int i = 0; i < levels.levels(); ++i) {
    LevelReport level;
    level.cells = levels.cells(i), level.ranks = 1;
    report.levels.push_back(level);
  }
  report.seconds = wall_time() - started;
  return report;
}

}  // namespace tacit::precond
