// Quadrature over pairs of triangles, by what the two have in common.
#pragma once

#include <vector>

namespace tacit::app::bem {

/// Points (x, y) of a pair of triangles, x = v0 + x1 (v1 - v0) + x2 (v2 - v1) on the first and y likewise on the
/// second. Weights sum to 1 / 4: the integral is four times the product of the areas times the weighted sum.
struct PairRule {
  std::vector<double> x1, x2, y1, y2, w;

  int size() const { return int(w.size()); }
};

enum class Common { nothing, vertex, edge, all };

/// For kernels like 1 / |x - y|, with `order` Gauss points in each of four variables in which the integrand is
/// analytic: S. Sauter, C. Schwab, Boundary Element Methods, 2011, section 5.2, doi 10.1007/978-3-540-68093-2. The
/// common corners come first, in the same order, on both triangles. Order 3 to 8; made once.
const PairRule& touching_rule(Common common, int order);

/// Gauss-Legendre on (0, 1), 1 to 16 points.
struct GaussRule {
  std::vector<double> x, w;
};
const GaussRule& gauss_rule(int n);

/// For smooth kernels: `points` (7: degree 5, or 16: degree 8) on each triangle. D. Dunavant, High degree efficient
/// symmetrical Gaussian quadrature rules for the triangle, 1985, doi 10.1002/nme.1620210612.
const PairRule& apart_rule(int points);

/// The points of one triangle that apart_rule() takes, as barycentric coordinates of the second and third corner; the
/// weights sum to 1.
struct TriangleRule {
  std::vector<double> second, third, w;
};
const TriangleRule& triangle_rule(int points);

}  // namespace tacit::app::bem
