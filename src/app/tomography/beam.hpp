// One angle of a parallel beam, and the length of its rays within a pixel, for stored and computed projectors.
#pragma once

#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::app::tomography {

struct Beam {
  double cos, sin;
  double half, most, slope;  // half the width of a pixel's shadow; min(|cos|, |sin|); 1 / |cos sin|
  bool along;                // whether rays are parallel to an axis

  // The length within a unit square of a line at this distance from its centre: a trapezoidal function.
  double length(double distance) const {
    if (along) return distance >= -0.5 && distance < 0.5 ? 1.0 : 0.0;
    return std::min(half - std::abs(distance), most) * slope;
  }
  // The distance, in pixels, of the ray at r from a pixel's centre (x, y); one expression, so that A and A^T have the
  // same bits.
  double distance(double x, double y, double r) const { return std::fma(x, cos, std::fma(y, sin, -r)); }
  // Whether rays cross image rows in one or two pixels each; otherwise they do so with columns.
  bool steep() const { return std::abs(cos) >= std::abs(sin); }
  double largest() const { return along ? 1 : most * slope; }
};

inline constexpr double shortest = 1e-8;   // smaller lengths are left out, in pixels
inline constexpr double parallel = 1e-10;  // below this min(|cos|, |sin|) a ray is parallel to an axis

// Pixels [left, right) x [top, bottom).
struct Box {
  Local left, right, top, bottom;
  Local width() const { return right - left; }
  Local height() const { return bottom - top; }
};

}  // namespace tacit::app::tomography
