// Distances of points from triangles.
#pragma once

#include "triangles.hpp"

#include <algorithm>
#include <cmath>

namespace tacit::app::bem {

inline double distance_to_segment(const Point& p, const Point& a, const Point& b) {
  const Point e = b - a;
  const double t = std::clamp(inner_product(p - a, e) / inner_product(e, e), 0.0, 1.0);
  return length(p - (a + t * e));
}
inline double distance_to(const Corners& t, const Point& p) {
  const Point n = cross(t[1] - t[0], t[2] - t[0]);
  bool within = true;
  for (std::size_t k = 0; k < 3; ++k) within = within && inner_product(cross(t[(k + 1) % 3] - t[k], p - t[k]), n) >= 0;
  if (within) return std::abs(inner_product(p - t[0], n)) / length(n);
  return std::min(
      {distance_to_segment(p, t[0], t[1]), distance_to_segment(p, t[1], t[2]), distance_to_segment(p, t[2], t[0])});
}

}  // namespace tacit::app::bem
