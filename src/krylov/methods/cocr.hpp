// Conjugate residuals for complex symmetric matrices. Sogabe and Zhang (2007), doi 10.1016/j.cam.2005.07.032.
#pragma once

#include "cocg.hpp"

namespace tacit::krylov {

namespace formula {
template <class T>
struct CocrDirection {  // d += alpha p;  p = z + beta p;  v = A z + beta v, which is A p
  T alpha, beta;
  TACIT_HD void operator()(T z, T w, T& d, T& p, T& v) const {
    CgDirection<T>{alpha, beta}(z, d, p);
    v = w + beta * v;
  }
};
template <class T>
struct CocrResidual {  // r -= alpha A p;  z -= alpha P A p
  T alpha;
  TACIT_HD void operator()(T v, T q, T& r, T& z) const {
    r = r - alpha * v;
    z = z - alpha * q;
  }
};
template <class T>
struct CocrSums {  // z^T A z, (z, z), (A z, A z), (r, r)
  TACIT_HD exec::Sums<4, T> operator()(T z, T w, T r) const { return {{z * w, T(abs2(z)), T(abs2(w)), T(abs2(r))}}; }
};
}  // namespace formula

/// A = A^T and P = P^T, complex or real, definite or not. An iteration: 1 product, 1 apply of P, 2 reductions, 14
/// vectors of traffic (19 with P) beside the product's; one product more a run. Vectors: r, d, p, v = A p, w = A z (and
/// z, q = P A p, with P), and the best d so far. Its residuals vary less than those of cocg; for real A it is the
/// conjugate residual method, whose residuals do not grow. r stays b - A d for any A and P.
/// Breakdowns: z^T A z with z = P r, (A p)^T P A p, where they are no larger than their rounding error.
template <Scalar T, Memory M>
class Cocr final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  void run(const Run<T, M>& run, Monitor& monitor) override {
    using namespace exec;
    auto& w = run.w;
    auto &r = run.r, &d = run.d, &p = w[0], &v = w[1], &Az = w[2], &z = run.P ? w[4] : r, &q = run.P ? w[5] : v;
    const auto& space = r.space();
    const auto products = [&] {  // A z, and its sums
      run.A.apply(z, Az);
      if (run.P) return space.sum(sweep(reads(z, Az, r), updates(), writes(), formula::CocrSums<T>{})).wait();
      const auto [rw, rr, ww] = space.sum(sweep(reads(r, Az), updates(), writes(), formula::Bilinear<T>{})).wait();
      return Sums<4, T>{{rw, rr, ww, rr}};
    };
    for (auto* x : {&p, &v}) layout::fill(*x, T(0));
    T alpha{}, beta{};
    const auto write = [&](Vector& to) {  // the d of r: that of before, and the last step
      layout::copy(d, to);
      layout::axpy(alpha, p, to);
    };
    monitor.solution_by([&](void* x) { solution(d, alpha, p, x); });
    monitor.confirm_by([&] { return layout::max_norm(r); });
    BilinearGuard<T> guard(monitor);
    if (run.P) run.P->apply(r, z);
    auto [zw, zz, ww, rr] = products();
    const auto norm = [](T square) { return std::sqrt(double(real(square))); };
    Best<T, M> best(w[3], norm(rr));
    while (monitor.go_on(norm(rr))) {
      best.look(norm(rr), write);
      if (!guard.allows("(P r)^T A P r", zw, zz, ww)) break;
      sweep(reads(z, Az), updates(d, p, v), writes(), formula::CocrDirection<T>{alpha, beta});
      alpha = T(0);
      if (run.P) run.P->apply(v, q);  // q = P A p
      const auto [vq, vv, qq] = space.sum(sweep(reads(v, q), updates(), writes(), formula::Bilinear<T>{})).wait();
      if (!guard.allows("(A p)^T P A p", vq, vv, qq)) break;
      alpha = zw / vq;  // alpha = z^T A z / (A p)^T P A p
      if (run.P) sweep(reads(v, q), updates(r, z), writes(), formula::CocrResidual<T>{alpha});
      else layout::axpy(-alpha, v, r);
      const T old = zw;
      const auto next = products();
      zw = next[0], zz = next[1], ww = next[2], rr = next[3];
      beta = zw / old;
    }
    layout::axpy(alpha, p, d);
    if (best.stays(norm(rr), monitor)) layout::copy(w[3], d);
  }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_cocr(const Options&) {
  return std::make_unique<Cocr<T, M>>();
}

}  // namespace tacit::krylov
