#pragma once

#include <tacit/krylov/iteration.hpp>
#include <tacit/krylov/stationary.hpp>

#include <limits>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Richardson final : public Iteration<T, M> {
 public:
  explicit Richardson(const Options& options)
      : relaxation_(options.relaxation.value_or(1)),
        sweeps_(options.callback ? 1 : options.sweeps.value_or(std::numeric_limits<int>::max())) {}
  void run(const Run<T, M>& run, Monitor& monitor) override {
    // The relaxation balances A where nothing else does.
    const double omega = run.P ? relaxation_ : std::ldexp(relaxation_, run.exponent);
    richardson<T, M>(run, monitor, omega, sweeps_);
  }

 private:
  double relaxation_;
  int sweeps_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_richardson(const Options& options) {
  return std::make_unique<Richardson<T, M>>(options);
}

}  // namespace tacit::krylov
