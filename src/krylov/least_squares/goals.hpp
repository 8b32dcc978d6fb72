// When a least-squares solve has ended: the tests of Paige and Saunders (1982), section 6, of norms.
#pragma once

#include <tacit/krylov/least_squares.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::krylov {

/// Norms of an iterate, of the recurrence or recomputed.
struct Norms {
  double residual = 0;  ///< ||r||
  double gradient = 0;  ///< ||A^H r||
  double matrix = 0;    ///< ||A||, or a lower bound
  double solution = 0;  ///< ||x||, or a lower bound
};

struct Goals {
  double atol = 0, btol = 0, condition = 0, epsilon = 0;
  double b = 0;  ///< ||b||

  /// An iterate with a residual of this size solves A x = b. An x that is so long that ||A|| ||x|| is large against b
  /// says nothing.
  double allowed_residual(const Norms& n) const { return btol * b + std::min(atol * n.matrix * n.solution, 0.01 * b); }
  double allowed_gradient(const Norms& n) const { return atol * n.matrix * n.residual; }
  bool meet_residual(const Norms& n, double factor = 1) const { return n.residual <= factor * allowed_residual(n); }
  bool meet_gradient(const Norms& n, double factor = 1) const { return n.gradient <= factor * allowed_gradient(n); }
  /// The distance to the nearer goal: 1 or less where it is met. NaN where a norm is.
  double distance(const Norms& n) const {
    const auto part = [](double is, double allowed) { return is == 0 ? 0 : is / allowed; };
    const double residual = part(n.residual, allowed_residual(n)), gradient = part(n.gradient, allowed_gradient(n));
    return std::isnan(residual) || std::isnan(gradient) ? std::numeric_limits<double>::quiet_NaN()
                                                        : std::min(residual, gradient);
  }
  /// What ends the iteration here; `other`: nothing. The goals are aimed at with a little to spare, since what is
  /// recomputed has other rounding errors.
  Ending ending(const Norms& n, double condition_of_A) const {
    constexpr double spare = 0.98;
    if (meet_residual(n, spare)) return Ending::residual;
    if (meet_gradient(n, spare)) return Ending::gradient;
    if (condition > 0 && condition_of_A >= condition) return Ending::condition;
    if (n.residual <= epsilon * (b + n.matrix * n.solution)) return Ending::residual_rounding;
    if (n.gradient <= epsilon * n.matrix * n.residual) return Ending::gradient_rounding;
    if (condition_of_A * epsilon >= 1) return Ending::condition_rounding;
    return Ending::other;
  }
};

}  // namespace tacit::krylov
