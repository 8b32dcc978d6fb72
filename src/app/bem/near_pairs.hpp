// Integrals over pairs of triangles that touch or are near each other, of any shape: exact over one of them.
#pragma once

#include "triangles.hpp"

#include <tacit/app/bem/boundary.hpp>

namespace tacit::app::bem {

/// Sums over pairs of triangles: products of 1 and the second and third barycentric coordinates on both.
template <class T>
struct PairMoments {
  T with[3][3] = {};  ///< of all operators but the curls: 1, second, third of x by those of y
  T plain = {};       ///< of G
};

/// Adds the moments of V, the normal parts of W, K and K' (form), without the factor 1 / (4 pi). Over one triangle the
/// integral of 1 / r, or of its derivative along this triangle's normal, is exact (Wilton et al. 1984, doi
/// 10.1109/TAP.1984.1143304); over the other by points that are graded towards a common edge or corner, and on pieces
/// that are small beside their distance. What waves add to 1 / r, which is bounded, by 16 points.
template <class T>
void add_near_pair(const Corners& first, const Corners& second, const BoundaryForm<T>& form, PairMoments<T>& to);

}  // namespace tacit::app::bem
