// DoubleDouble: a number as the sum of two doubles, about 32 digits. Dekker (1971), doi 10.1007/BF01397083.
#pragma once

#include <tacit/base/types.hpp>

#include <cmath>

namespace tacit {

/// high + low, |low| <= ulp(high) / 2. Must not be compiled with reassociation of sums (-ffast-math).
struct DoubleDouble {
  double high = 0, low = 0;
  DoubleDouble() = default;
  explicit DoubleDouble(double a) : high(a) {}
  DoubleDouble(double a, double b) : high(a), low(b) {}

  /// a + b as a number and its rounding error, for any a and b.
  static DoubleDouble sum(double a, double b) {
    const double s = a + b, part = s - a;
    return {s, (a - (s - part)) + (b - part)};
  }
  /// The same for |a| >= |b|.
  static DoubleDouble quick_sum(double a, double b) {
    const double s = a + b;
    return {s, b - (s - a)};
  }
  static DoubleDouble product(double a, double b) {
    const double p = a * b;
    return {p, std::fma(a, b, -p)};
  }
  friend DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
    const auto s = sum(a.high, b.high), t = sum(a.low, b.low);
    const auto u = quick_sum(s.high, s.low + t.high);
    return quick_sum(u.high, u.low + t.low);
  }
  friend DoubleDouble operator-(DoubleDouble a) { return {-a.high, -a.low}; }
  friend DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + -b; }
  friend DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
    const auto p = product(a.high, b.high);
    return quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
  }
  friend DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
    const double first = a.high / b.high;
    const auto rest = a - b * DoubleDouble(first);
    const double second = rest.high / b.high;
    const double third = (rest - b * DoubleDouble(second)).high / b.high;
    return quick_sum(first, second) + DoubleDouble(third);
  }
  friend DoubleDouble sqrt(DoubleDouble a) {
    if (!(a.high > 0)) return {};
    const double root = std::sqrt(a.high);
    return quick_sum(root, (a - product(root, root)).high / (2 * root));
  }
};

}  // namespace tacit
