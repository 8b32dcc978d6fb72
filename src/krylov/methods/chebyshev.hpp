#pragma once

#include <tacit/krylov/iteration.hpp>
#include <tacit/krylov/stationary.hpp>
#include <tacit/op/spectrum.hpp>

#include <utility>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Chebyshev final : public Iteration<T, M> {
 public:
  explicit Chebyshev(const Options& options) : given_min_(options.lambda_min), given_max_(options.lambda_max) {}

  void run(const Run<T, M>& run, Monitor& monitor) override {
    if (find_bounds(run, monitor)) chebyshev<T, M>(run, monitor, bounds_.lambda_min, bounds_.lambda_max);
  }

 private:
  /// The interval, estimated where it is not given; the monitor's verdict where there is none.
  bool find_bounds(const Run<T, M>& run, Monitor& monitor) {
    if (!std::exchange(known_, true)) {
      const int e = run.P ? 0 : -run.exponent;
      bounds_ = {std::ldexp(given_min_.value_or(0), e), std::ldexp(given_max_.value_or(0), e)};
      if (!given_min_ || !given_max_) {
        const auto found = op::estimate_spectrum(run.A, run.P, 20);
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
