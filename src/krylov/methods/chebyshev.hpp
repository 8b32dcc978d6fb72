// Chebyshev iteration: Saad, Iterative Methods for Sparse Linear Systems (2003), Algorithm 12.1.
#pragma once

#include "cg.hpp"

#include <tacit/op/spectrum.hpp>

#include <utility>

namespace tacit::krylov {

namespace formula {
template <class T>
struct ChebyshevStep {
  T a, b;
  TACIT_HD void operator()(T z, T& p, T& d) const {
    p = a * p + b * z;
    d = d + p;
  }
};
template <class T>
struct ChebyshevPointwise {
  T a, b;
  TACIT_HD void operator()(T r, T scaling, T& p, T& d) const {
    p = a * p + b * (scaling * r);
    d = d + p;
  }
};
}  // namespace formula

/// A and P Hermitian positive definite, spectrum of P A in [lambda_min, lambda_max]. An iteration: 1 product, 1 apply
/// of P, 1 reduction, 8 vectors of traffic beside the product's.
template <Scalar T, Memory M>
class Chebyshev final : public Iteration<T, M> {
 public:
  explicit Chebyshev(const Options& options) : given_min_(options.lambda_min), given_max_(options.lambda_max) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    using namespace exec;
    if (!find_bounds(run, monitor)) return;
    auto& P = run.P;
    auto &r = run.r, &d = run.d, &p = run.w[0], &v = run.w[1];
    const auto* scaling = P ? P->pointwise() : nullptr;
    monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
    const double theta = (bounds_.lambda_max + bounds_.lambda_min) / 2;
    const double delta = (bounds_.lambda_max - bounds_.lambda_min) / 2, sigma = theta / delta;
    double rho = 1 / sigma, a = 0, b = 1 / theta;
    layout::fill(p, T(0));
    for (double norm = monitor.norm(); monitor.go_on(norm);) {
      const T ta = T(real_t<T>(a)), tb = T(real_t<T>(b));
      if (scaling) {  // p = a p + b P r,  d += p
        P->count_apply();
        sweep(reads(r, *scaling), updates(p, d), writes(), formula::ChebyshevPointwise<T>{ta, tb});
      } else {
        auto& z = P ? run.w[2] : r;
        if (P) P->apply(r, z);
        sweep(reads(z), updates(p, d), writes(), formula::ChebyshevStep<T>{ta, tb});
      }
      run.A.apply(p, v);  // r -= A p
      const auto step = sweep(reads(v), updates(r), writes(), formula::CgResidual<T>{T(1)});
      norm = std::sqrt(double(real(r.space().sum(step).wait()[0])));
      const double next = 1 / (2 * sigma - rho);
      a = next * rho, b = 2 * next / delta;
      rho = next;
    }
  }

 private:
  /// The interval, estimated where it is not given; the monitor's verdict where there is none.
  bool find_bounds(const Run<T, M>& run, Monitor& monitor) {
    if (!std::exchange(known_, true)) {
      const int e = run.P ? 0 : -run.exponent;
      bounds_ = {std::ldexp(given_min_.value_or(0), e), std::ldexp(given_max_.value_or(0), e)};
      if (!given_min_ || !given_max_) {
        const auto found = op::estimate_spectrum(run.A, run.P, 20, run.project);
        if (!given_max_) bounds_.lambda_max = 1.05 * found.lambda_max;
        if (!given_min_) bounds_.lambda_min = found.lambda_min;
      }
    }
    if (bounds_.lambda_min > 0 && bounds_.lambda_max > bounds_.lambda_min) return true;
    if (given_min_ && bounds_.lambda_max > 0)
      return monitor.refuse({Reason::breakdown,
                             message("lambda_min = ", *given_min_, " lies above the estimated lambda_max of ",
                                     std::ldexp(bounds_.lambda_max, run.P ? 0 : run.exponent)),
                             "Give both bounds of the spectrum of P A, or neither."});
    if (!(bounds_.lambda_max > 0 && bounds_.lambda_min > 0))
      return monitor.refuse({Reason::breakdown, "the spectrum of P A is not positive",
                             "chebyshev needs a positive definite matrix and preconditioner; use gmres or bicgstab."});
    bounds_.lambda_min = 0.9 * bounds_.lambda_max;  // one eigenvalue: any interval around it does
    return true;
  }

  std::optional<double> given_min_, given_max_;
  op::Spectrum bounds_;
  bool known_ = false;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_chebyshev(const Options& options) {
  return std::make_unique<Chebyshev<T, M>>(options);
}

}  // namespace tacit::krylov
