// Breakdowns: tests of the scalars that methods divide by, and what a vanishing one says about the system.
#pragma once

#include "krylov/monitor.hpp"
#include "krylov/projected.hpp"

namespace tacit::krylov {

/// Conjugate gradients and their variants: (r, P r) and (p, A p) must be positive.
class CgGuard {
 public:
  explicit CgGuard(Monitor& monitor) : monitor_(monitor) {}

  bool allows_direction(double rz) {
    return rz > 0 || monitor_.breakdown("(r, P r)", rz, "the preconditioner is not positive definite");
  }
  /// The step of length rz / pAp. It reduces ||x - x_k||_A^2 by rz^2 / pAp: Hestenes and Stiefel, theorem 6:1.
  bool allows_step(double rz, double pAp) {
    if (!(pAp > 0)) return monitor_.breakdown("(p, A p)", pAp, "the matrix is not positive definite");
    has_gained(rz / pAp * rz);
    return true;
  }
  /// A step that has reduced ||x - x_k||_A^2 by so much.
  void has_gained(double energy) {
    energy_ += energy;
    if (energy_ > 1.01 * seen_) seen_ = energy_, monitor_.progress();
  }

 private:
  Monitor& monitor_;
  double energy_ = 0, seen_ = 0;
};

/// The minimal residual method. Lanczos vectors u have (u, P u) > 0 but for rounding errors; where A r is rounding
/// error the residual is the least one, and a further step would only lengthen x along the null space.
template <Scalar T>
class MinresGuard {
 public:
  explicit MinresGuard(Monitor& monitor) : monitor_(monitor) {}

  /// beta from its square (u, P u); 0 where it is rounding error of the Lanczos process, whose `largest` entry is
  /// given: the Krylov space is exhausted.
  bool allows_vector(double uz, double largest, double& beta) {
    beta = std::sqrt(std::abs(uz));
    if (beta <= tiny * largest) beta = 0;
    return !(uz < 0 && beta > 0) || monitor_.breakdown("(r, P r)", uz, "the preconditioner is not positive definite");
  }
  /// `image`: ||A r|| / (||A|| ||r||) before the step, `stretch`: ||A|| ||w|| / ||A w|| of its direction, `share`: the
  /// part of r along A w, which the step removes. epsilon stretch is the relative error of A w: a step that removes
  /// less than its error is one along the null space.
  bool allows_step(double image, double stretch, double share) {
    const double error = stretch * double(std::numeric_limits<real_t<T>>::epsilon());
    return (!(image <= tiny) && !(error > 0.5) && !(error > 0.005 && share < 3 * error)) ||
           monitor_.breakdown(
               "||A r|| / (||A|| ||r||)", image,
               "in this precision no step makes the residual r smaller: the matrix, or its product with the "
               "preconditioner, is singular or nearly so");
  }

 private:
  static constexpr double tiny = 10 * double(std::numeric_limits<real_t<T>>::epsilon());
  Monitor& monitor_;
};

/// BiCGStab and its variants. An inner product below `tiny` times the vectors' norms is rounding error. In the first
/// iteration that is a breakdown; later the iteration often recovers from such a (r0, .), because r = b - A d holds for
/// any alpha and omega: then only far smaller values end it.
template <Scalar T>
class BicgstabGuard {
 public:
  BicgstabGuard(Monitor& monitor, double r0_norm) : monitor_(monitor), r0_norm_(r0_norm) {}

  double r0_norm() const { return r0_norm_; }
  /// rho = (r0, r)
  bool allows_direction(double rho, double r_norm) {
    return rho > least_ * r0_norm_ * r_norm ||
           monitor_.breakdown("(r0, r)", rho, "the residual is orthogonal to the shadow residual");
  }
  /// alpha = rho / (r0, v), v = A p
  bool allows_half_step(double r0v, double v_norm) {
    if (!(r0v > least_ * r0_norm_ * v_norm))
      return monitor_.breakdown("(r0, A p)", r0v, "the step along p cannot be determined");
    least_ = 2e-4 * tiny;
    return true;
  }
  /// omega = (t, s) / (t, t), t = A s
  bool allows_smoothing(double ts, double tt, double s_norm) {
    if (tt > 0 && ts > tiny * std::sqrt(tt) * s_norm) return true;
    if (tt <= 0) return monitor_.breakdown("(t, t)", tt, "the matrix maps the half-step residual to zero");
    return monitor_.breakdown("omega", ts, "(t, s) vanishes: the residual cannot be reduced along t");
  }

 private:
  static constexpr double tiny = 4 * double(std::numeric_limits<real_t<T>>::epsilon());
  Monitor& monitor_;
  double r0_norm_, least_ = tiny;
};

/// Takes column h of the Hessenberg matrix into the projected problem. False where that ends the run: the Krylov space
/// is exhausted and the solution not in it, or h is not finite.
template <Scalar T>
bool append(Projected<T>& projected, T* h, Monitor& monitor) {
  if (projected.append(h)) return true;
  const double pivot = projected.pivot();
  if (!std::isfinite(pivot)) return monitor.go_on(pivot);
  return monitor.breakdown("R_jj", pivot, "the Krylov space is exhausted, and has no solution to rounding");
}

}  // namespace tacit::krylov
