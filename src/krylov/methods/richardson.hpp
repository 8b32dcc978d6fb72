// Richardson's iteration: Saad, Iterative Methods for Sparse Linear Systems (2003), section 4.1.
#pragma once

#include <tacit/exec/sweep.hpp>
#include "krylov/iteration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tacit::krylov {

namespace formula {
template <class T>
struct RichardsonPointwise {
  T omega;
  TACIT_HD exec::Sums<1, T> operator()(T f, T v, T scaling, T& d) const {
    const T r = f - v;
    d = d + omega * (scaling * r);
    return {{T(abs2(r))}};
  }
};
template <class T>
struct RichardsonPlain {
  T omega;
  TACIT_HD exec::Sums<1, T> operator()(T f, T v, T& d) const {
    const T r = f - v;
    d = d + omega * r;
    return {{T(abs2(r))}};
  }
};
template <class T>
struct RichardsonResidual {
  TACIT_HD exec::Sums<1, T> operator()(T f, T v, T& s) const {
    s = f - v;
    return {{T(abs2(s))}};
  }
};
}  // namespace formula

/// d_{k+1} = d_k + omega P (f - A d_k), f = r on entry. With P = Jacobi: the iteration of Stoyanov and Pfreundt (2014).
/// An iteration: 1 product, 1 apply of P, 1 reduction; 4 vectors of traffic beside theirs (6 with P; 5 with a diagonal
/// P, those of the apply included).
/// ||f - A d_k|| is only known when d_{k+1} is made: convergence is noticed one iteration late, and that step is kept.
/// Where A does several steps in a pass through memory (Operator::sweeps) and P is diagonal, a pass takes up to
/// `sweeps` of them: 4 vectors of traffic with the product's, and 1 reduction; convergence is noticed up to a pass
/// late.
template <Scalar T, Memory M>
class Richardson final : public Iteration<T, M> {
 public:
  explicit Richardson(const Options& options)
      : relaxation_(options.relaxation.value_or(1)),
        sweeps_(options.sweeps.value_or(std::numeric_limits<int>::max())),
        watched_(options.callback != nullptr) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    // Without P, omega includes the power of two by which A was scaled.
    const T omega = T(real_t<T>(run.P ? relaxation_ : std::ldexp(relaxation_, run.exponent)));
    const auto* scaling = run.P ? run.P->pointwise() : nullptr;
    auto& d = run.d;
    monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
    layout::fill(run.w[0], T(0));  // A d for d = 0
    if (run.A.sweeps_at_once() > 1 && (!run.P || scaling)) in_passes(run, monitor, omega, scaling);
    else one_by_one(run, monitor, omega, scaling);
  }

 private:
  using Vector = layout::Vector<T, M>;

  void one_by_one(const Run<T, M>& run, Monitor& monitor, T omega, const Vector* scaling) {
    using namespace exec;
    auto& P = run.P;
    auto &f = run.r, &d = run.d, &v = run.w[0];
    const auto& space = f.space();
    double norm = monitor.norm();
    for (bool first = true; monitor.go_on(norm); first = false) {
      if (!first) run.A.apply(d, v);
      // d += omega P (f - A d)
      if (!P) {
        const auto step = sweep(reads(f, v), updates(d), writes(), formula::RichardsonPlain<T>{omega});
        norm = std::sqrt(double(real(space.sum(step).wait()[0])));
      } else if (scaling) {
        P->count_apply();
        const auto step = sweep(reads(f, v, *scaling), updates(d), writes(), formula::RichardsonPointwise<T>{omega});
        norm = std::sqrt(double(real(space.sum(step).wait()[0])));
      } else {
        auto &s = run.w[1], &z = run.w[2];
        auto pending = space.sum(sweep(reads(f, v), updates(), writes(s), formula::RichardsonResidual<T>{}));
        P->apply(s, z);
        layout::axpy(omega, z, d);
        norm = std::sqrt(double(real(pending.wait()[0])));
      }
    }
  }

  /// Several steps in each pass through memory (Operator::sweeps).
  void in_passes(const Run<T, M>& run, Monitor& monitor, T omega, const Vector* scaling) {
    std::vector<T> s;
    if (scaling) s = scaling->to_host();
    // The largest element of P and minus the smallest: P is a multiple of the identity where their sum is 0. Then
    // whether a rank has a callback, which sees every iteration: it may be that of one rank only, and passes are of
    // all.
    double known[3] = {-std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                       watched_ ? 1.0 : 0.0};
    for (const T value : s)
      known[0] = std::max(known[0], double(real(value))), known[1] = std::max(known[1], -double(real(value)));
    if (!scaling) known[0] = 1, known[1] = -1;
    const auto& space = run.r.space();
    space.start_sum(known, 3, comm::Operation::max).wait(known);
    const int most = known[2] > 0 ? 1 : std::min(sweeps_, run.A.sweeps_at_once());
    const auto* const varying = known[0] == -known[1] ? nullptr : scaling;
    std::vector<double> squares;
    std::size_t next = 0;
    bool again = false;
    for (double norm = monitor.norm(); monitor.go_on(norm); norm = std::sqrt(squares[next++])) {
      if (next < squares.size()) continue;
      squares.resize(std::size_t(std::min(most, monitor.max_iterations() - monitor.iterations())));
      next = 0;
      run.A.sweeps(run.r, omega, T(real_t<T>(known[0])), varying, run.d, run.w[0], squares, std::exchange(again, true));
      for (std::size_t c = 0; c < squares.size() && run.P; ++c) run.P->count_apply();
      space.sum(squares.data(), squares.size());
    }
  }

  double relaxation_;
  int sweeps_;
  bool watched_;  // on this rank
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_richardson(const Options& options) {
  return std::make_unique<Richardson<T, M>>(options);
}

}  // namespace tacit::krylov
