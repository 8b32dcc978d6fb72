// Integrals of boundary operators over a pair of triangles, near or far, touching or not.
#pragma once

#include "triangles.hpp"

#include <tacit/app/bem/boundary.hpp>

namespace tacit::app::bem {

/// For linear functions phi_a (1 at corner a) on the first triangle and phi_b on the second.
template <class T>
struct PairIntegral {
  T linear[3][3] =
      {};        ///< of F(x, y) phi_a(x) phi_b(y), F the sum of all operators but the curls of the hypersingular one
  T plain = {};  ///< of G(x, y)
};

/// Orders of quadrature for a relative accuracy.
struct PairAccuracy {
  explicit PairAccuracy(double accuracy);
  int touching;           ///< Gauss points in each variable for a triangle and itself
  double seven, sixteen;  ///< distances of centroids, in longest edges, from which so many points on each are enough
};

/// Without the factor 1 / (4 pi). By products of rules for two triangles that are apart, by pair_rules.hpp for well
/// shaped ones that touch in whole edges or corners (with the same coordinates), and by near_pairs.hpp for all others.
template <class T>
PairIntegral<T> pair_integral(const Corners& first, const Corners& second, const BoundaryForm<T>& form,
                              const PairAccuracy& accuracy);

}  // namespace tacit::app::bem
