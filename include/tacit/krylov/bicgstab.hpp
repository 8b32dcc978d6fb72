// BiCGStab, preconditioned from the right. van der Vorst (1992), doi 10.1137/0913035; the letters of the H-matrix and
// multigrid papers: r0 the shadow, p, v = A p, s = r - alpha v, t = A s.
#pragma once

#include <tacit/exec/sweep.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/workspace.hpp>

#include <limits>

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

/// Any square A. An iteration: 2 products, 2 applies of P, 3 reductions, 19 vectors of traffic (20 with P) beside the
/// products'. Vectors: r, d, r0, p, v, t (and p-hat, s-hat), and the best d so far.
/// shadow: 0 takes r0 = r; k > 0 a fixed pseudo-random r0, another one for each k.
/// Breakdowns: rho = (r0, r), (r0, A p), (t, t), omega = (t, s) / (t, t), each against rounding.
template <Scalar T, Memory M>
void bicgstab(const Run<T, M>& run, Monitor& monitor, int shadow = 0) {
  using namespace exec;
  auto& A = run.A;
  auto& P = run.P;
  auto& r = run.r;
  auto& d = run.d;
  auto& w = run.w;
  const auto& space = r.space();
  auto &r0 = w[0], &p = w[1], &v = w[2], &t = w[3], &best = w[4];
  auto& ph = P ? w[5] : p;
  // At this size a product of two vectors is rounding. In the first iteration that means breakdown; later the iteration
  // often recovers from a (r0, .) that is, because r = b - A d holds for any alpha and omega: only what is far smaller
  // ends it.
  const double tiny = 4 * double(std::numeric_limits<real_t<T>>::epsilon());
  double least = tiny;
  monitor.solution_by([&](void* x) { solution(d, T(0), d, x); });
  monitor.confirm_by([&] { return layout::max_norm(r); });

  if (shadow == 0) layout::copy(r, r0);
  else scatter(r0, std::uint64_t(shadow));
  layout::fill(v, T(0));
  layout::fill(p, T(0));
  layout::copy(d, best);
  auto [rho, rr] = space.sum(sweep(reads(r0, r), updates(), writes(), layout::formula::Dots<T>{})).wait();
  const double start = std::sqrt(double(real(rr))), r0_norm = shadow == 0 ? start : layout::norm(r0);
  double best_norm = start;
  T alpha{1}, omega{1}, beta{0};
  while (monitor.go_on(std::sqrt(double(real(rr))))) {
    const double r_norm = std::sqrt(double(real(rr)));
    // Residuals of BiCGStab jump; what is returned after a failure is the best d, kept once a decade.
    if (r_norm < 0.1 * best_norm) layout::copy(d, best), best_norm = r_norm;
    if (!(std::abs(rho) > least * r0_norm * r_norm)) {
      monitor.breakdown("(r0, r)", std::abs(rho), "the residual is orthogonal to the shadow residual");
      break;
    }
    sweep(reads(r, v), updates(p), writes(), formula::BicgstabDirection<T>{beta, omega});
    if (P) P->apply(p, ph);
    A.apply(ph, v);
    const auto [r0v, vv] = space.sum(sweep(reads(r0, v), updates(), writes(), formula::BicgstabShadow<T>{})).wait();
    if (!(std::abs(r0v) > least * r0_norm * std::sqrt(double(real(vv))))) {
      monitor.breakdown("(r0, A p)", std::abs(r0v), "the step along p cannot be determined");
      break;
    }
    least = 2e-4 * tiny;
    alpha = rho / r0v;
    // (s, s) is formed with s on the host, whose loops like few sums; with the next two where each wait for sums
    // counts.
    constexpr bool apart = !std::same_as<M, Host>;
    Sums<1, T> half;
    if constexpr (apart) layout::axpy(-alpha, v, r);
    else half = sweep(reads(v), updates(r), writes(), formula::BicgstabHalf<T>{alpha});
    // s = 0 to rounding would make t = 0: the half step is then the whole one.
    auto& sh = P ? w[6] : r;
    if (P) P->apply(r, sh);
    A.apply(sh, t);
    const auto steepest = [&] {
      if constexpr (apart) {
        return space.sum(sweep(reads(t, r), updates(), writes(), formula::BicgstabSteepestOfS<T>{}));
      } else {
        const auto [ts, tt] = sweep(reads(t, r), updates(), writes(), formula::BicgstabSteepest<T>{});
        return space.sum(Sums<3, T>{{ts, tt, half[0]}});
      }
    };
    const auto [ts, tt, ss] = steepest().wait();
    const double s_norm = std::sqrt(double(real(ss))), t_norm = std::sqrt(double(real(tt)));
    if (s_norm <= monitor.goal()) {
      layout::axpy(alpha, ph, d);
      rr = ss;
      rho = T(1);
      continue;
    }
    if (!(std::abs(ts) > tiny * t_norm * s_norm)) {
      layout::axpy(alpha, ph, d);
      if (std::isfinite(s_norm) && s_norm < best_norm) layout::copy(d, best), best_norm = s_norm;
      rr = ss;
      if (real(tt) == 0) monitor.breakdown("(t, t)", real(tt), "the matrix maps the half-step residual to zero");
      else monitor.breakdown("omega", std::abs(ts), "(t, s) vanishes: the residual cannot be reduced along t");
      break;
    }
    omega = ts / tt;
    const T old = rho;
    const auto sums =
        P ? sweep(reads(r0, ph, sh, t), updates(parts(d), r), writes(), formula::BicgstabStep<T>{alpha, omega})
          : sweep(reads(r0, p, t), updates(parts(d), r), writes(), formula::BicgstabStepPlain<T>{alpha, omega});
    const auto dots = space.sum(sums).wait();
    rho = dots[0], rr = dots[1];
    beta = (rho / old) * (alpha / omega);
  }
  const Outcome outcome = monitor.outcome();
  if (outcome != Outcome::claims && !(std::sqrt(double(real(rr))) <= best_norm)) layout::copy(best, d);
}

}  // namespace tacit::krylov
