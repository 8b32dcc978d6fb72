// BiCGStab, preconditioned from the right. van der Vorst (1992), doi 10.1137/0913035; the letters of the H-matrix and
// multigrid papers: r0 the shadow, p, v = A p, s = r - alpha v, t = A s.
#pragma once

#include "../safeguards/best.hpp"
#include "../safeguards/breakdowns.hpp"

#include <tacit/exec/sweep.hpp>
#include "krylov/iteration.hpp"

namespace tacit::krylov {

namespace formula {
template <class T>
struct BicgstabDirection {
  T beta, omega;
  TACIT_HD void operator()(T r, T v, T& p) const { p = r + beta * (p - omega * v); }
};
template <class T>
struct BicgstabShadow {  // (r0, v), (v, v)
  TACIT_HD exec::Sums<2, T> operator()(T r0, T v) const { return {{conj(r0) * v, T(abs2(v))}}; }
};
template <class T>
struct BicgstabHalf {  // s overwrites r
  T alpha;
  TACIT_HD exec::Sums<1, T> operator()(T v, T& r) const {
    r = r - alpha * v;
    return {{T(abs2(r))}};
  }
};
template <class T>
struct BicgstabSteepest {  // (t, s), (t, t)
  TACIT_HD exec::Sums<2, T> operator()(T t, T s) const { return {{conj(t) * s, T(abs2(t))}}; }
};
template <class T>
struct BicgstabSteepestOfS {  // and (s, s)
  TACIT_HD exec::Sums<3, T> operator()(T t, T s) const { return {{conj(t) * s, T(abs2(t)), T(abs2(s))}}; }
};
template <class T>
struct BicgstabStep {  // (r0, r), (r, r)
  T alpha, omega;
  TACIT_HD exec::Sums<2, T> operator()(T r0, T ph, T sh, T t, T& d, T& r) const {
    d = d + (alpha * ph + omega * sh);
    r = r - omega * t;
    return {{conj(r0) * r, T(abs2(r))}};
  }
};
template <class T>
struct BicgstabStepPlain {  // without a preconditioner s-hat is s, which stands in r
  T alpha, omega;
  TACIT_HD exec::Sums<2, T> operator()(T r0, T p, T t, T& d, T& r) const {
    d = d + (alpha * p + omega * r);
    r = r - omega * t;
    return {{conj(r0) * r, T(abs2(r))}};
  }
};
}  // namespace formula

/// Any square A. An iteration: 2 products, 2 applies of P, 3 reductions, 18 vectors of traffic (19 with P) beside the
/// products'. Vectors: r, d, r0, p, v, t (and p-hat, s-hat), and the best d so far. Breakdowns: rho = (r0, r),
/// (r0, A p), (t, t), omega = (t, s) / (t, t), where they are no larger than their rounding error.
template <Scalar T, Memory M>
class Bicgstab final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  void run(const Run<T, M>& run, Monitor& monitor) override {
    using namespace exec;
    auto& A = run.A;
    const auto* P = run.P;
    auto& w = run.w;
    auto &r = run.r, &d = run.d, &r0 = w[0], &p = w[1], &v = w[2], &t = w[3], &ph = P ? w[5] : p, &sh = P ? w[6] : r;
    const auto& space = r.space();
    const auto write = [&](Vector& to) { layout::copy(d, to); };
    monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
    monitor.confirm_by([&] { return layout::max_norm(r); });
    if (shadow_ == 0) layout::copy(r, r0);
    else scatter(r0, std::uint64_t(shadow_));
    for (auto* x : {&v, &p}) layout::fill(*x, T(0));
    auto [rho, rr] = space.sum(sweep(reads(r0, r), updates(), writes(), layout::formula::Dots<T>{})).wait();
    Best<T, M> best(w[4], root(rr));
    BicgstabGuard<T> guard(monitor, shadow_ == 0 ? root(rr) : layout::norm(r0));
    T alpha{1}, omega{1}, beta{0};
    while (monitor.go_on(root(rr))) {
      best.look(root(rr), write);
      if (!guard.allows_direction(std::abs(rho), root(rr))) break;
      // p = r + beta (p - omega v)
      sweep(reads(r, v), updates(p), writes(), formula::BicgstabDirection<T>{beta, omega});
      if (P) P->apply(p, ph);
      A.apply(ph, v);  // v = A P p
      const auto [r0v, vv] = space.sum(sweep(reads(r0, v), updates(), writes(), formula::BicgstabShadow<T>{})).wait();
      if (!guard.allows_half_step(std::abs(r0v), root(vv))) break;
      alpha = rho / r0v;
      const auto half = half_step(alpha, v, r);  // s = r - alpha v, over r
      if (P) P->apply(r, sh);
      A.apply(sh, t);  // t = A P s
      const auto [ts, tt, ss] = space.sum(smoothing(t, r, half)).wait();
      // Where s is at the goal the half step is enough; t may then be 0.
      const bool enough = root(ss) <= monitor.goal();
      const double whole = root(tt) * root(ss);  // |(t, s)| is at most that
      if (enough || !guard.allows_smoothing(is_long() ? whole : std::abs(ts), real(tt), root(ss))) {
        layout::axpy(alpha, ph, d);
        rr = ss, rho = T(1);
        if (enough) continue;
        best.look(root(ss), write, 1);
        break;
      }
      omega = ts / tt;
      if (const double angle = std::abs(ts) / whole; is_long() && angle < 0.7)
        omega = (angle > 0 ? ts / T(real_t<T>(std::abs(ts))) : T(1)) * T(real_t<T>(0.7 * root(ss) / root(tt)));
      const T old = rho;
      const auto both =  // d += alpha P p + omega P s;  r = s - omega t
          P ? sweep(reads(r0, ph, sh, t), updates(parts(d), r), writes(), formula::BicgstabStep<T>{alpha, omega})
            : sweep(reads(r0, p, t), updates(parts(d), r), writes(), formula::BicgstabStepPlain<T>{alpha, omega});
      const auto sums = space.sum(both).wait();
      rho = sums[0], rr = sums[1];
      beta = (rho / old) * (alpha / omega);
    }
    if (best.stays(root(rr), monitor)) layout::copy(w[4], d);
  }

  std::string step_down() override {
    if (shadow_ == 12) return {};
    ++shadow_;
    return is_long() ? "it went on with another shadow residual and longer smoothing steps"
                     : "it went on with another shadow residual";
  }

 private:
  /// Every other time: |omega| is at least 0.7 ||s|| / ||t||. Where s is nearly orthogonal to t, as where the spectrum
  /// surrounds 0, the step of least residual is so short that alpha and beta lose their digits. Sleijpen and van der
  /// Vorst (1995), Numerical Algorithms 10, 203-223.
  bool is_long() const { return shadow_ > 0 && shadow_ % 2 == 0; }
  static double root(T square) { return std::sqrt(double(real(square))); }

  // (s, s) is formed with s on the host, where loops with few sums are faster; on devices with (t, s) and (t, t),
  // because each wait for sums is expensive.
  static constexpr bool apart = !std::same_as<M, Host>;
  static exec::Sums<1, T> half_step(T alpha, const Vector& v, Vector& r) {
    using namespace exec;
    if constexpr (apart) return layout::axpy(-alpha, v, r), Sums<1, T>{};
    else return sweep(reads(v), updates(r), writes(), formula::BicgstabHalf<T>{alpha});
  }
  static auto smoothing(const Vector& t, const Vector& s, const exec::Sums<1, T>& ss) {
    using namespace exec;
    if constexpr (apart) {
      return sweep(reads(t, s), updates(), writes(), formula::BicgstabSteepestOfS<T>{});
    } else {
      const auto [ts, tt] = sweep(reads(t, s), updates(), writes(), formula::BicgstabSteepest<T>{});
      return Sums<3, T>{{ts, tt, ss[0]}};
    }
  }

  int shadow_ = 0;  // 0 takes r0 = r; k > 0 a fixed pseudo-random r0, another one for each k
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_bicgstab(const Options&) {
  return std::make_unique<Bicgstab<T, M>>();
}

}  // namespace tacit::krylov
