// Multigrid over either memory: instantiated for the host by on_device.cpp, for CUDA's device by on_device.cu.
#pragma once

#include <tacit/precond/multigrid/on_device.hpp>

#include <tacit/base/trace.hpp>

#include <algorithm>
#include <cmath>
#include "cycles.hpp"
#include "device_data.hpp"

namespace tacit::precond {

template <Scalar T, Memory M>
MultigridOnDevice<T, M>::MultigridOnDevice(std::shared_ptr<const op::FiniteVolume<T>> A,
                                           const MultigridOptions& options, const ResidentBottom& bottom)
    : op::Operator<T, M>(A->range(), A->domain()), a_(std::move(A)), options_(options) {
  comm::collective(a_->range().comm(), [&] {
    levels_ = std::make_unique<mg::DeviceLevels<T, M>>(mg::device_data<T>(a_, options, bottom.cells), options, bottom);
  });
}
template <Scalar T, Memory M>
MultigridOnDevice<T, M>::~MultigridOnDevice() = default;

template <Scalar T, Memory M>
op::Cost MultigridOnDevice<T, M>::cost() const {
  const auto one = a_->cost();
  const double sweeps = options_.pre + options_.post, levels = 8.0 / 7;
  return {one.flops * (sweeps + 1) * levels, one.bytes * (2 * sweeps + 2) * levels,
          one.messages * (2 * sweeps + 1) * double(this->levels()), one.message_bytes * (sweeps + 1) * levels};
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
  auto& levels = *levels_;
  const bool singular = a_->singular();
  const int columns = x.columns();
  const auto mean = [&](mg::Quantity what) {
    double total = levels.norms(what).total;
    this->range().sum(&total, 1);
    return T(total / double(this->range().size()));
  };
  for (int c = 0; c < columns; ++c) {
    levels.load_f(x.data() + c, 1, 0, columns);
    if (singular) levels.load_f(x.data() + c, 1, mean(mg::Quantity::f), columns);
    levels.cycle(options_.cycle, true);
    levels.store_u(y.data() + c, 1, singular ? mean(mg::Quantity::u) : T(0), columns);
  }
}

/// Cycles of levels in a device's memory, on any number of ranks.
template <Scalar T, Memory M>
class MultigridOnDevice<T, M>::Solve final : public mg::Cycles {
  using Quantity = mg::Quantity;

 public:
  Solve(const MultigridOnDevice& A, const Vector<T, M>& b, Vector<T, M>& x, const MultigridSolve& options,
        MultigridReport& report)
      : Cycles(b.space().comm(), options, report, T()),
        levels_(*A.levels_),
        kind_(A.options_.cycle),
        report_(report),
        b_(b),
        x_(x),
        space_(b.space()),
        singular_(A.a_->singular()) {}

  void compute() {
    levels_.load_f(b_.data()), levels_.load_u(x_.data());
    double most_of[] = {levels_.norms(Quantity::f).largest, levels_.norms(Quantity::residual).largest};
    space_.start_sum(most_of, 2, comm::Operation::max).wait(most_of);
    const auto [b_most, r_most] = most_of;
    const double most = std::isfinite(b_most) && std::isfinite(r_most) ? std::max(b_most, r_most) : NAN;
    // Cycles add up squares: b is brought near 1 by a power of two, which is exact.
    const int exponent = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
    constexpr int range = std::numeric_limits<T>::max_exponent - 2;
    const int shift = std::abs(exponent) > 24 ? std::clamp(-exponent, -range, range) : 0;
    scale_ = T(std::ldexp(1.0, shift)), back_ = T(std::ldexp(1.0, -shift));
    if (shift != 0) levels_.load_f(b_.data(), scale_), levels_.load_u(x_.data(), scale_);
    if (singular_) {
      const T mean = T(mean_of(Quantity::f) / double(scale_));
      const double removed = std::abs(double(mean)), unit = double(std::numeric_limits<T>::epsilon());
      if (removed > std::sqrt(unit) * most)
        report_.warnings.push_back(message("A maps constants to zero, but the mean of f is ", removed,
                                           " (its largest element is ", b_most,
                                           "): no u solves A u = f; A u = f - mean is what was solved"));
      levels_.load_f(b_.data(), scale_, mean);
    }
    const double f_norm = norm(levels_.norms(Quantity::f)), start = norm(levels_.norms(Quantity::residual));
    double u_most = levels_.norms(Quantity::u).largest;
    space_.start_sum(&u_most, 1, comm::Operation::max).wait(&u_most);
    solve(f_norm, start, shift, u_most == 0);
  }

 private:
  /// Of the norms that each rank has of its own cells. One reduction.
  double norm(const mg::Norms& norms) const {
    const bool max = options().norm == krylov::Norm::max;
    // A NaN is one of either kind.
    double value = max || std::isnan(norms.largest) ? norms.largest : norms.squares;
    space_.start_sum(&value, 1, max ? comm::Operation::max : comm::Operation::sum).wait(&value);
    return max ? value : std::sqrt(value);
  }
  double mean_of(Quantity what) const {
    double total = levels_.norms(what).total;
    space_.sum(&total, 1);
    return total / double(space_.size());
  }
  double cycle() override {
    // As on the host: solutions of all levels first, then V-cycles.
    levels_.cycle(kind_ == Cycle::f && cycles() > 0 ? Cycle::v : kind_, false);
    return norm(levels_.norms(Quantity::residual, true));
  }
  /// u of the finest level, without its mean where A is singular, as the user is to have it.
  void store(Vector<T, M>& to) {
    const double mean = singular_ ? mean_of(Quantity::u) : 0;
    levels_.store_u(to.data(), back_, T(mean));
  }
  double recompute() override {
    store(x_);
    levels_.load_u(x_.data(), scale_);
    return norm(levels_.norms(Quantity::residual));
  }
  void save(Copy copy) override {
    auto& to = copies_[std::size_t(copy)];
    if (!to) to = std::make_unique<Vector<T, M>>(x_);
    if (copy == Copy::best) store(*to);
    else layout::copy(x_, *to);
  }
  void restore(Copy copy) override {
    layout::copy(*copies_[std::size_t(copy)], x_);
    levels_.load_u(x_.data(), scale_);
  }
  void clear() override {
    layout::fill(x_, T(0));
    levels_.load_u(x_.data(), scale_);
  }

  mg::DeviceLevels<T, M>& levels_;
  Cycle kind_;
  MultigridReport& report_;
  const Vector<T, M>& b_;
  Vector<T, M>& x_;
  const layout::Space& space_;
  bool singular_;
  T scale_ = 1, back_ = 1;
  std::unique_ptr<Vector<T, M>> copies_[2];
};

template <Scalar T, Memory M>
MultigridReport MultigridOnDevice<T, M>::solve(const Vector<T, M>& b, Vector<T, M>& x,
                                               const MultigridSolve& options) const {
  return mg::reported(this->range(), b, x, options, [&](MultigridReport& report) {
    report.bottom = "bicgstab";
    report.bottom_choice = "bicgstab: in one launch";
    const auto before = levels_->counts();
    Solve(*this, b, x, options, report).compute();
    const auto after = levels_->counts();
    // One rank may have done them alone, or all of them the same.
    const auto& comm = this->range().comm();
    report.bottom_solves = int(comm.all_max(Global(after.solves - before.solves)));
    report.bottom_iterations = int(comm.all_max(Global(after.iterations - before.iterations)));
    report.bottom_failures = int(comm.all_max(Global(after.failures - before.failures)));
    if (report.bottom_failures > 0)
      report.warnings.push_back(message("bottom bicgstab: ", report.bottom_failures, " of ", report.bottom_solves,
                                        " solves did not converge; Jacobi's method went on"));
    for (int i = 0; i < levels_->levels(); ++i) {
      LevelReport level;
      level.cells = levels_->cells(i), level.boxes = levels_->boxes(i), level.ranks = levels_->ranks(i);
      report.levels.push_back(level);
    }
  });
}

}  // namespace tacit::precond
