// Iterative refinement of a direct solve: Wilkinson (1963), section 3.25; Skeel (1980),
// doi 10.1090/S0025-5718-1980-0572859-4.
#pragma once

#include <tacit/exec/sweep.hpp>
#include "krylov/iteration.hpp"

#include <cmath>

namespace tacit::krylov {

namespace formula {
template <class T>
struct RefinedResidual {
  TACIT_HD exec::Sums<1, T> operator()(T f, T v, T& s) const {
    s = f - v;
    return {{T(abs2(s))}};
  }
};
}  // namespace formula

/// d_{k+1} = d_k + P (f - A d_k), f = r on entry, with P = A^-1 to rounding: one step mostly, another where rounding
/// errors of the factors matter. A step that does not halve the residual ends the run, and is dropped where it raised
/// it. An iteration: 1 apply of P, 1 product, 1 reduction; 6 vectors of traffic beside theirs.
template <Scalar T, Memory M>
class Direct final : public Iteration<T, M> {
 public:
  void run(const Run<T, M>& run, Monitor& monitor) override {
    auto &f = run.r, &d = run.d, &v = run.w[0], &s = run.w[1], &z = run.w[2];
    monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
    layout::copy(f, s);
    double norm = monitor.norm();
    while (monitor.go_on(norm)) {
      run.P->apply(s, z);
      layout::axpy(T(1), z, d);
      run.A.apply(d, v);
      const auto step = exec::sweep(exec::reads(f, v), exec::updates(), exec::writes(s), formula::RefinedResidual<T>{});
      const double now = std::sqrt(double(real(f.space().sum(step).wait()[0])));
      if (!std::isfinite(now)) layout::fill(d, T(0));  // z may be infinite, and d - z then NaN
      else if (!(now < norm)) layout::axpy(T(-1), z, d);
      if (!(now <= norm / 2)) {
        if (monitor.go_on(now)) monitor.end(Outcome::no_progress);
        return;
      }
      norm = now;
    }
  }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_direct(const Options&) {
  return std::make_unique<Direct<T, M>>();
}

}  // namespace tacit::krylov
