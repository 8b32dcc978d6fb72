// One angle of a parallel beam, and how long its rays are within a pixel: what stored and computed projectors share.
#pragma once

#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::app::tomography {

struct Beam {
  double cos, sin;
  double half, most, slope;  // half the width of a pixel's shadow; min(|cos|, |sin|); what it rises by
  bool along;                // an axis

  // Within a unit square, of a line at this distance from its centre: a trapezoid.
  double length(double distance) const {
    if (along) return distance >= -0.5 && distance < 0.5 ? 1.0 : 0.0;
    return std::min(half - std::abs(distance), most) * slope;
  }
  // Of a ray at r from the centre of a pixel, in pixels; one expression for A and A^T, so that both see the same bits.
  double distance(double x, double y, double r) const { return std::fma(x, cos, std::fma(y, sin, -r)); }
  // Image rows are crossed at a pixel or two each, or else columns.
  bool steep() const { return std::abs(cos) >= std::abs(sin); }
  double largest() const { return along ? 1 : most * slope; }
};

inline constexpr double shortest = 1e-8;   // lengths that count, in pixels
inline constexpr double parallel = 1e-10;  // below: a ray along an axis

// Pixels, the ends excluded.
struct Box {
  Local left, right, top, bottom;
  Local width() const { return right - left; }
  Local height() const { return bottom - top; }
};

}  // namespace tacit::app::tomography
