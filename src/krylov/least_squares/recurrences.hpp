// What lsqr and lsmr make of a bidiagonalisation: scalars, and the sweep over their vectors. The letters are those of
// the papers.
#pragma once

#include "bidiagonalisation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::krylov {

namespace formula {
template <class T>
struct LsqrStep {  // d += along w;  w = v_k+1 - back w;  (d, d), (w, w)
  real_t<T> along, of_v, back;
  TACIT_HD exec::Sums<2, T> operator()(T v, T& d, T& w) const {
    d = d + along * w;
    w = of_v * v - back * w;
    return {{T(abs2(d)), T(abs2(w))}};
  }
};
template <class T>
struct LsmrStep {  // h_bar = h - again h_bar;  d += along h_bar;  h = v_k+1 - back h;  (d, d), (h, h)
  real_t<T> again, along, of_v, back;
  TACIT_HD exec::Sums<2, T> operator()(T v, T& d, T& h, T& h_bar) const {
    h_bar = h - again * h_bar;
    d = d + along * h_bar;
    h = of_v * v - back * h;
    return {{T(abs2(d)), T(abs2(h))}};
  }
};
template <class T>
struct AddSquare {  // sum += scale |w|^2
  real_t<T> scale;
  TACIT_HD void operator()(T w, T& sum) const { sum = sum + T(scale * abs2(w)); }
};
}  // namespace formula

/// LSQR: Paige and Saunders (1982), doi 10.1145/355984.355989, section 4. Vectors: d, w.
template <Scalar T, Memory M>
class Lsqr {
  using V = Vector<T, M>;

 public:
  Lsqr(const Space& inner, V* variance) : w_(inner), variance_(variance) {}

  /// x = 0, phi_bar = beta_1, rho_bar = alpha_1, w_1 = v_1.
  void begin(const Bidiagonalisation<T, M>& B) {
    phi_bar_ = B.beta(), rho_bar_ = B.alpha();
    residual = phi_bar_, gradient = phi_bar_ * rho_bar_;
    directions_ = condition = 0;
    exec::sweep(exec::reads(B.v), exec::updates(), exec::writes(w_), formula::ScaledCopy<T>{B.scale_of_v()});
  }
  /// Step k with alpha_k+1, beta_k+1, ||w_k|| and ||B_k||. Returns the sums over d and w. Local.
  exec::Sums<2, T> step(const Bidiagonalisation<T, M>& B, double length_of_w, double frobenius, V& d) {
    const double rho = std::hypot(rho_bar_, B.beta());
    const double c = rho_bar_ / rho, s = B.beta() / rho;
    const double theta = s * B.alpha();
    const double phi = c * phi_bar_;
    rho_bar_ = -c * B.alpha();
    phi_bar_ = s * phi_bar_;
    residual = phi_bar_;                            // ||r_k||
    gradient = phi_bar_ * B.alpha() * std::abs(c);  // ||A^H r_k||
    directions_ += std::pow(length_of_w / rho, 2);  // ||D_k||_F^2, D_k = V_k R_k^-1
    condition = frobenius * std::sqrt(directions_);
    if (variance_)
      exec::sweep(exec::reads(w_), exec::updates(*variance_), exec::writes(),
                  formula::AddSquare<T>{real_t<T>(1 / (rho * rho))});
    const formula::LsqrStep<T> step{real_t<T>(phi / rho), B.scale_of_v(), real_t<T>(theta / rho)};
    return exec::numbers(exec::sweep(exec::reads(B.v), exec::updates(d, w_), exec::writes(), step));
  }
  void drop_variance() { variance_ = nullptr; }

  double residual = 0, gradient = 0, condition = 0;

 private:
  V w_;
  V* variance_;
  double phi_bar_ = 0, rho_bar_ = 0, directions_ = 0;
};

/// LSMR: Fong and Saunders (2011), doi 10.1137/10079687X, sections 2.7 (the recurrences) and 3.2 to 3.4 (the norms).
/// Vectors: d, h, h_bar.
template <Scalar T, Memory M>
class Lsmr {
  using V = Vector<T, M>;

 public:
  Lsmr(const Space& inner, V* /*variance*/) : h_(inner), h_bar_(inner) {}

  void begin(const Bidiagonalisation<T, M>& B) {
    *this = Lsmr(std::move(h_), std::move(h_bar_));
    alpha_bar_ = B.alpha(), zeta_bar_ = B.alpha() * B.beta();
    beta_2_ = residual = B.beta(), gradient = zeta_bar_;
    exec::sweep(exec::reads(B.v), exec::updates(), exec::writes(h_), formula::ScaledCopy<T>{B.scale_of_v()});
    layout::fill(h_bar_, T(0));
  }
  exec::Sums<2, T> step(const Bidiagonalisation<T, M>& B, double /*length_of_h*/, double /*frobenius*/, V& d) {
    // P_k: B_k to the upper bidiagonal R_k.
    const double rho = std::hypot(alpha_bar_, B.beta());
    const double c = alpha_bar_ / rho, s = B.beta() / rho;
    const double theta = s * B.alpha();
    alpha_bar_ = c * B.alpha();
    // P_bar_k: R_k^H to the upper bidiagonal R_bar_k.
    const double theta_bar = s_bar_ * rho, reduced = c_bar_ * rho;
    const double rho_bar = std::hypot(reduced, theta);
    c_bar_ = reduced / rho_bar, s_bar_ = theta / rho_bar;
    const double zeta = c_bar_ * zeta_bar_;
    zeta_bar_ = -s_bar_ * zeta_bar_;
    gradient = std::abs(zeta_bar_);  // ||A^H r_k||
    watch_residual(c, s, theta_bar, rho_bar, zeta);
    if (rho_bar_ > 0) largest_ = std::max(largest_, rho_bar_), smallest_ = std::min(smallest_, rho_bar_);
    condition = std::max(largest_, reduced) / std::min(smallest_, reduced);
    const formula::LsmrStep<T> step{rho_ > 0 ? real_t<T>(theta_bar * rho / (rho_ * rho_bar_)) : real_t<T>(0),
                                    real_t<T>(zeta / (rho * rho_bar)), B.scale_of_v(), real_t<T>(theta / rho)};
    rho_ = rho, rho_bar_ = rho_bar;
    return exec::numbers(exec::sweep(exec::reads(B.v), exec::updates(d, h_, h_bar_), exec::writes(), step));
  }

  double residual = 0, gradient = 0, condition = 1;

 private:
  Lsmr(V h, V h_bar) : h_(std::move(h)), h_bar_(std::move(h_bar)) {}

  /// ||r_k||: the rotations P_tilde that make R_bar_k lower bidiagonal, and the solve with that.
  void watch_residual(double c, double s, double theta_bar, double rho_bar, double zeta) {
    const double beta_hat = c * beta_2_;
    beta_2_ = -s * beta_2_;
    if (first_) {
      first_ = false;
      rho_dot_ = rho_bar, beta_dot_ = beta_hat;
      tau_tilde_ = 0, theta_tilde_ = 0;
    } else {
      const double rho_tilde = std::hypot(rho_dot_, theta_bar);
      const double c_tilde = rho_dot_ / rho_tilde, s_tilde = theta_bar / rho_tilde;
      tau_tilde_ = (zeta_ - theta_tilde_ * tau_tilde_) / rho_tilde;
      theta_tilde_ = s_tilde * rho_bar;
      rho_dot_ = c_tilde * rho_bar;
      beta_dot_ = -s_tilde * beta_dot_ + c_tilde * beta_hat;
    }
    zeta_ = zeta;
    const double tau_dot = (zeta - theta_tilde_ * tau_tilde_) / rho_dot_;
    residual = std::hypot(beta_dot_ - tau_dot, beta_2_);
  }

  V h_, h_bar_;
  double alpha_bar_ = 0, zeta_bar_ = 0, rho_ = 0, rho_bar_ = 0;  // rho_ = 0: before the first step
  double c_bar_ = 1, s_bar_ = 0;
  double largest_ = 0, smallest_ = std::numeric_limits<double>::infinity();  // rho_bar
  // Of ||r_k||; beta_2 has two dots in the paper.
  bool first_ = true;
  double beta_2_ = 0, beta_dot_ = 0, rho_dot_ = 0, tau_tilde_ = 0, theta_tilde_ = 0, zeta_ = 0;
};

}  // namespace tacit::krylov
