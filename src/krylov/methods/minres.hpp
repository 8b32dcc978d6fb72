// The minimal residual method, preconditioned. Paige, Saunders (1975), doi 10.1137/0712047, in its letters: alpha,
// beta of the Lanczos process; delta, epsilon, gamma of the factor of its tridiagonal matrix; c, s of the reflections.
#pragma once

#include "../safeguards/breakdowns.hpp"

#include <tacit/exec/sweep.hpp>
#include "krylov/iteration.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tacit::krylov {

namespace formula {
/// The next Lanczos vector, u_k+1 over u_k-1, the next direction, m_k over m_k-2, and the step along m_k-1, which was
/// known one product later than m_k-1.
template <class T>
struct MinresStep {
  real_t<T> alpha, inverse, ratio, delta, epsilon, tau;
  TACIT_HD void operator()(T p, T u, T m, T& u_old, T& m_old, T& d) const {
    u_old = inverse * (p - alpha * u) - ratio * u_old;
    m_old = inverse * u - delta * m - epsilon * m_old;
    d = d + tau * m;
  }
};
/// The same where z = P u, with the residual of that step.
template <class T>
struct MinresStepWithResidual {
  MinresStep<T> step;
  real_t<T> square;
  TACIT_HD void operator()(T p, T u, T z, T m, T& u_old, T& m_old, T& d, T& r) const {
    r = square * r - step.tau * u;
    u_old = step.inverse * (p - step.alpha * u) - step.ratio * u_old;
    m_old = step.inverse * z - step.delta * m - step.epsilon * m_old;
    d = d + step.tau * m;
  }
};
template <class T>
struct MinresSums {  // (u, z), (z, p), (u, u), (r, u), (r, r)
  TACIT_HD exec::Sums<5, T> operator()(T u, T z, T p, T r) const {
    return {{conj(u) * z, conj(z) * p, T(abs2(u)), conj(r) * u, T(abs2(r))}};
  }
};
}  // namespace formula

/// The tridiagonal matrix of the Lanczos process, made triangular column by column. Column k has beta_k, alpha_k,
/// beta_k+1; its reflection is known with beta_k+1. The same on all ranks. Local.
class MinresFactor {
 public:
  explicit MinresFactor(double beta) : beta_(beta), residual_(beta) {}

  /// Column k, as far as it is known before beta_k+1.
  void column(double alpha) {
    alpha_ = alpha;
    epsilon_ = s_old_ * beta_;
    delta_ = -c_ * (k_ > 0 ? c_old_ : 0) * beta_ + s_ * alpha;
    gamma_bar_ = -s_ * (k_ > 0 ? c_old_ : 0) * beta_ - c_ * alpha;
    largest_ = std::max({largest_, std::abs(alpha), k_ > 0 ? beta_ : 0.0});
  }
  /// The coefficients of the sweep of column k, with the step of column k - 1.
  template <class T>
  formula::MinresStep<T> step() const {
    using R = real_t<T>;
    return {R(alpha_), R(1 / beta_), R(k_ > 0 ? beta_ / beta_old_ : 0), R(delta_ / gamma_), R(epsilon_ / gamma_old_),
            R(tau_)};
  }
  /// Completes column k by beta_k+1 and makes its step.
  void reflect(double beta) {
    const double gamma = std::hypot(gamma_bar_, beta);
    image_ = std::hypot(gamma_bar_, c_ * beta);
    // gamma_k w_k = v_k - delta_k w_k-1 - epsilon_k w_k-2, and v_k is orthogonal to the directions before it.
    const double square =
        1 + delta_ * delta_ * square_ + epsilon_ * epsilon_ * square_old_ + 2 * delta_ * epsilon_ * overlap_;
    overlap_ = -(delta_ * square_ + epsilon_ * overlap_) / gamma;
    square_old_ = std::exchange(square_, std::max(square, 1.0) / (gamma * gamma));
    beta_old_ = std::exchange(beta_, beta), gamma_old_ = std::exchange(gamma_, gamma);
    c_old_ = std::exchange(c_, gamma_bar_ / gamma), s_old_ = std::exchange(s_, beta / gamma);
    tau_ = c_ * residual_ / gamma;
    residual_ *= s_;
    largest_ = std::max(largest_, beta);
    ++k_;
  }
  void drop_step() { tau_ = 0; }

  double residual() const { return residual_; }  ///< of step k - 1, in the norm of P
  double largest() const { return largest_; }    ///< entry of the matrix so far
  double tau() const { return tau_; }            ///< the step along m_k-1
  /// ||A r|| / (||A|| ||r||) of the residual before the last step, in the norms of the Lanczos process.
  double image() const { return image_ == 0 ? 0 : image_ / largest_; }
  /// ||A|| ||w|| / ||A w|| of the last step's direction: its rounding errors are those of A w times this.
  double stretch() const { return largest_ * std::sqrt(square_); }
  /// |A w^H r| / (||A w|| ||r||) of the last step.
  double share() const { return std::abs(c_); }
  double square() const { return k_ > 0 ? s_ * s_ : 1; }

 private:
  int k_ = 0;
  double beta_, residual_, alpha_ = 0, beta_old_ = 1;
  double c_ = -1, s_ = 0, c_old_ = -1, s_old_ = 0;
  double delta_ = 0, epsilon_ = 0, gamma_bar_ = 0, gamma_ = 1, gamma_old_ = 1;
  double tau_ = 0, largest_ = 0, image_ = 0;
  double square_ = 0, square_old_ = 0, overlap_ = 0;  // of w_k-1, of w_k-2, (w_k-1, w_k-2)
};

/// Hermitian A, definite or not, and Hermitian positive definite P. An iteration: 1 product, 1 apply of P, 1 reduction,
/// 11 vectors of traffic (16 with P, or with Norm::max) beside the product's; one product and one apply more a run.
/// Vectors: r, d, u_k-1, p, m_k, m_k-1 (with P also u_k and z). Minimises ||r|| in the norm of P, that is
/// (r, P r)^(1/2); the monitor sees the 2-norm. Breakdowns: (r, P r), not positive; ||A r|| / ||A||, rounding error: r
/// is the least residual of an inconsistent system.
///
/// Norms of Lanczos vectors are taken with the product of the next one, so that one reduction has both.
template <Scalar T, Memory M>
class Minres final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;

 public:
  void run(const Run<T, M>& run, Monitor& monitor) override {
    using namespace exec;
    auto& w = run.w;
    auto &r = run.r, &d = run.d, &p = w[0];
    Vector *m = &w[1], *m_old = &w[2], *u_old = &w[3], *u = &r;
    const bool keeps_residual = run.P || monitor.uses_max_norm();
    if (keeps_residual) layout::copy(r, *(u = &w[4]));
    for (auto* x : {m, m_old, u_old}) layout::fill(*x, T(0));
    const auto z = [&]() -> Vector& { return run.P ? w[5] : *u; };

    const auto product = [&] {  // z = P u, p = A z
      if (run.P) run.P->apply(*u, z());
      run.A.apply(z(), p);
      return keeps_residual ? sums(*u, z(), p, r) : sums(*u, p);
    };
    auto s = product();
    if (!(s.uz > 0)) return void(monitor.breakdown("(r, P r)", s.uz, "the preconditioner is not positive definite"));
    MinresFactor factor(std::sqrt(s.uz));
    MinresGuard<T> guard(monitor);
    const auto at = [&] { return T(real_t<T>(factor.tau())); };
    monitor.solution_by([&](void* x) { solution(d, at(), *m, x); });
    if (keeps_residual)
      monitor.confirm_by([&] {
        layout::copy(r, w[6]);
        layout::scale(T(real_t<T>(factor.square())), w[6]);
        layout::axpy(-at(), *u, w[6]);
        return layout::max_norm(w[6]);
      });

    double norm = std::sqrt(s.uu);
    while (monitor.go_on(norm)) {
      factor.column(s.zp / s.uz);
      const auto step = factor.template step<T>();
      if (keeps_residual)
        sweep(reads(p, *u, z(), *m), updates(*u_old, *m_old, d, r), writes(),
              formula::MinresStepWithResidual<T>{step, real_t<T>(factor.square())});
      else sweep(reads(p, *u, *m), updates(*u_old, *m_old, d), writes(), step);
      std::swap(u, u_old), std::swap(m, m_old);
      factor.drop_step();
      s = product();
      double beta = 0;
      if (!guard.allows_vector(s.uz, factor.largest(), beta)) break;
      factor.reflect(beta);
      if (!guard.allows_step(factor.image(), factor.stretch(), factor.share())) {
        factor.drop_step();
        break;
      }
      norm = run.P ? recurred_norm(s, factor) : factor.residual();
      if (beta == 0) {  // the Krylov space is exhausted, and x is in it: b - A x shows how exactly
        if (monitor.go_on(norm)) monitor.end(Outcome::at_goal);
        break;
      }
    }
    if (std::isfinite(factor.tau())) layout::axpy(at(), *m, d);
  }

 private:
  struct Sums {
    double uz, zp, uu, ru, rr;
  };
  static Sums sums(const Vector& u, const Vector& p) {
    const auto all = exec::sweep(exec::reads(u, p), exec::updates(), exec::writes(), layout::formula::Dots<T>{});
    const auto [up, uu] = u.space().sum(all).wait();
    return {double(real(uu)), double(real(up)), double(real(uu)), 0, 0};
  }
  static Sums sums(const Vector& u, const Vector& z, const Vector& p, const Vector& r) {
    const auto all = exec::sweep(exec::reads(u, z, p, r), exec::updates(), exec::writes(), formula::MinresSums<T>{});
    const auto [uz, zp, uu, ru, rr] = u.space().sum(all).wait();
    return {double(real(uz)), double(real(zp)), double(real(uu)), double(real(ru)), double(real(rr))};
  }
  /// ||s^2 r_k-1 - tau u_k+1||, the residual that the next sweep makes.
  static double recurred_norm(const Sums& s, const MinresFactor& factor) {
    const double a = factor.square(), b = factor.tau();
    const double square = a * a * s.rr - 2 * a * b * s.ru + b * b * s.uu;
    return std::isnan(square) ? square : std::sqrt(std::max(square, 0.0));
  }
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_minres(const Options&) {
  return std::make_unique<Minres<T, M>>();
}

}  // namespace tacit::krylov
