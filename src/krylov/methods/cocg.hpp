// Conjugate gradients for complex symmetric matrices: cg with x^T y in place of x^H y. van der Vorst and Melissen
// (1990), doi 10.1109/20.106415.
#pragma once

#include "cg.hpp"

#include "../safeguards/best.hpp"

namespace tacit::krylov {

namespace formula {
template <class T>
struct Bilinear {  // x^T y, (x, x), (y, y)
  TACIT_HD exec::Sums<3, T> operator()(T x, T y) const { return {{x * y, T(abs2(x)), T(abs2(y))}}; }
};
template <class T>
struct CocgResidual {  // r -= alpha v; the same sums of r and r
  T alpha;
  TACIT_HD exec::Sums<3, T> operator()(T v, T& r) const {
    r = r - alpha * v;
    return Bilinear<T>{}(r, r);
  }
};
}  // namespace formula

/// Tests of the products x^T y that methods for complex symmetric matrices divide by. They may vanish for any x and y;
/// below `tiny` times the norms of both they are rounding error.
template <Scalar T>
class BilinearGuard {
 public:
  explicit BilinearGuard(Monitor& monitor) : monitor_(monitor) {}
  bool allows(const char* name, T product, T xx, T yy) {
    const double size = std::abs(product), norms = std::sqrt(double(real(xx))) * std::sqrt(double(real(yy)));
    return size > tiny * norms ||
           monitor_.breakdown(name, size, "this product, which is not conjugated, vanishes beside its vectors' norms");
  }

 private:
  static constexpr double tiny = 4 * double(std::numeric_limits<real_t<T>>::epsilon());
  Monitor& monitor_;
};

/// A = A^T and P = P^T, complex or real (then it is cg, for definite A). An iteration: 1 product, 1 apply of P, 2
/// reductions, 10 vectors of traffic (12 with P) beside the product's. Vectors: r, d, p, v (and z, with P), and the
/// best d so far. r stays b - A d for any A and P; r_i^T P r_j = 0 and p_i^T A p_j = 0 need the symmetry.
/// Breakdowns: r^T P r and p^T A p, where they are no larger than their rounding error.
template <Scalar T, Memory M>
class Cocg final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  void run(const Run<T, M>& run, Monitor& monitor) override {
    using namespace exec;
    auto &r = run.r, &d = run.d, &p = run.w[0], &v = run.w[1], &z = run.P ? run.w[3] : r;
    const auto& space = r.space();
    const auto products = [&] {  // z = P r; r^T z, (r, r), (z, z)
      if (run.P) run.P->apply(r, z);
      return space.sum(sweep(reads(r, z), updates(), writes(), formula::Bilinear<T>{})).wait();
    };
    layout::fill(p, T(0));
    T alpha{}, beta{};
    const auto write = [&](Vector& to) {  // the d of r: that of before, and the last step
      layout::copy(d, to);
      layout::axpy(alpha, p, to);
    };
    monitor.solution_by([&](void* x) { solution(d, alpha, p, x); });
    monitor.confirm_by([&] { return layout::max_norm(r); });
    BilinearGuard<T> guard(monitor);
    auto [rz, rr, zz] = products();
    const auto norm = [](T square) { return std::sqrt(double(real(square))); };
    Best<T, M> best(run.w[2], norm(rr));
    while (monitor.go_on(norm(rr))) {
      best.look(norm(rr), write);
      if (!guard.allows("r^T P r", rz, rr, zz)) break;
      // d += alpha p;  p = z + beta p
      sweep(reads(z), updates(d, p), writes(), formula::CgDirection<T>{alpha, beta});
      alpha = T(0);
      run.A.apply(p, v);  // v = A p
      const auto [pv, pp, vv] = space.sum(sweep(reads(p, v), updates(), writes(), formula::Bilinear<T>{})).wait();
      if (!guard.allows("p^T A p", pv, pp, vv)) break;
      alpha = rz / pv;  // alpha = r^T z / p^T A p
      const T old = rz;
      if (run.P) layout::axpy(-alpha, v, r);  // r -= alpha A p
      const auto next =
          run.P ? products() : space.sum(sweep(reads(v), updates(r), writes(), formula::CocgResidual<T>{alpha})).wait();
      rz = next[0], rr = next[1], zz = next[2];
      beta = rz / old;
    }
    layout::axpy(alpha, p, d);
    if (best.stays(norm(rr), monitor)) layout::copy(run.w[2], d);
  }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_cocg(const Options&) {
  return std::make_unique<Cocg<T, M>>();
}

}  // namespace tacit::krylov
