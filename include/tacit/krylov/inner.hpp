// Inner: a few iterations of a Krylov method as a preconditioner: inner-outer iteration, variable preconditioning. Ida,
// Iwashita, Mifune, Takahashi 2016, "Variable preconditioning of Krylov subspace methods for hierarchical matrices with
// adaptive cross approximation", doi 10.1109/TMAG.2015.2464104: an H-matrix of rank one for A, 20 iterations.
#pragma once

#include <tacit/krylov/solve.hpp>
#include <tacit/op/noted.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

namespace tacit::krylov {

/// Totals over all solves of an Inner so far; the same on all ranks.
struct InnerReport {
  std::int64_t solves = 0, iterations = 0;
  std::int64_t stopped = 0;    ///< solves that ended before max_iterations without converging
  double best = 0, worst = 0;  ///< smallest and largest ||b - A y|| / ||b|| of a solve
};

/// y = the approximate solution of A y = x that the method of `options` finds from y = 0: by default 20 iterations of
/// bicgstab, whatever residual they reach. Not a linear operator: bicgstab, and gmres with side = flexible (taken where
/// no side is given), keep r = b - A x with such a preconditioner; solve() warns where another method is used. Columns
/// are solved one after the other. An apply costs a solve for each column. Collective.
template <Scalar T, Memory M = Host>
class Inner final : public op::Operator<T, M>, public op::Varying {
 public:
  static Options defaults() {
    Options o;
    o.method = Method::bicgstab;
    o.max_iterations = 20;
    o.rtol = 0;
    o.history = false;
    o.fallbacks = false;
    return o;
  }

  /// A: the operator of the inner solves, such as a coarse approximation of the outer one. P: the inner method's own
  /// preconditioner, or null. Both are kept. Error(usage): an A that is not square, options that do not fit.
  Inner(std::shared_ptr<const op::Operator<T, M>> A, std::shared_ptr<const op::Operator<T, M>> P = nullptr,
        Options options = defaults(), bool hermitian = false)
      : op::Operator<T, M>(A->domain(), A->range()),
        a_(std::move(A)),
        p_(std::move(P)),
        options_(std::move(options)),
        hermitian_(hermitian) {
    require(a_->range() == a_->domain(), "an inner method for a matrix of ", a_->range().size(), " x ",
            a_->domain().size());
    require(!p_ || p_->range() == a_->range(), "an inner preconditioner of ", p_ ? p_->range().size() : 0,
            " rows for a matrix of ", a_->range().size());
    check(options_);
    options_.explain = options_.check_memory = false;
  }

  std::string name() const override {
    return message("inner ", to_string(options_.method), " (", options_.max_iterations.value_or(0), " iterations on ",
                   a_->name(), p_ ? ", " + p_->name() : std::string(), ")");
  }
  const InnerReport& report() const { return report_; }

 protected:
  int begin(const layout::Vector<T, M>&, layout::Vector<T, M>&, bool) const override { return 0; }
  void finish(const layout::Vector<T, M>& x, layout::Vector<T, M>& y, bool, int) const override {
    if (x.columns() == 1) {
      layout::fill(y, T(0));
      return solve_one(x, y);
    }
    const int k = x.columns();
    const auto all = x.to_host();
    std::vector<T> result(all.size()), column(all.size() / std::size_t(k));
    layout::Vector<T, M> b(x.space()), d(y.space());
    for (int c = 0; c < k; ++c) {
      for (std::size_t i = 0; i < column.size(); ++i) column[i] = all[i * std::size_t(k) + std::size_t(c)];
      b.assign(column);
      layout::fill(d, T(0));
      solve_one(b, d);
      const auto one = d.to_host();
      for (std::size_t i = 0; i < one.size(); ++i) result[i * std::size_t(k) + std::size_t(c)] = one[i];
    }
    y.assign(result);
  }

 private:
  void solve_one(const layout::Vector<T, M>& b, layout::Vector<T, M>& y) const {
    const Report r = solve<T, M>(*a_, p_.get(), b, y, options_, hermitian_);
    if (std::isfinite(r.residual_norm)) {
      report_.best = report_.solves == 0 ? r.residual_norm : std::min(report_.best, r.residual_norm);
      report_.worst = std::max(report_.worst, r.residual_norm);
    }
    ++report_.solves, report_.iterations += r.iterations;
    if (!r.converged() && r.reason != Reason::max_iterations) ++report_.stopped;
  }

  std::shared_ptr<const op::Operator<T, M>> a_, p_;
  Options options_;
  bool hermitian_;
  mutable InnerReport report_;
};

}  // namespace tacit::krylov
