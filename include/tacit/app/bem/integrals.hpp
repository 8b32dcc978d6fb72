// Integrals of 1 / r over a triangle, for one or several triangles at a time (host and device): exact, by a seven-point
// rule, and by moments.
#pragma once

#include <tacit/base/types.hpp>

#include <cmath>

namespace tacit::app::bem {

// 1 / sqrt(a); for vector registers see triangles.hpp.
template <class V>
TACIT_HD V reciprocal_root(V a);
template <>
TACIT_HD inline double reciprocal_root(double a) {
#ifdef __CUDA_ARCH__
  return rsqrt(a);
#else
  return 1 / std::sqrt(a);
#endif
}

// The data of triangles for far evaluation: corners u, v and -(u + v) relative to the centroid, and moments. V: double,
// or a vector register.
template <class V>
struct Shape {
  V u[3], v[3];
  V second;    // (|u|^2 + |v|^2 + |u + v|^2) / 24
  V third[2];  // (|u|^2 - |u + v|^2) / 5 and (|v|^2 - |u + v|^2) / 5
};

// Points of the quadrature rules: the centroid plus this factor times (corner - centroid). Seven points: degree 5,
// including the centroid with weight 9 / 40; three points: degree 2.
constexpr double middle = 0.5;
constexpr double inner = -0.410426192314066, outer = 0.696140478028352;               // (1 -+ sqrt 15) / 7
constexpr double inner_weight = 0.132394152788506, outer_weight = 0.125939180544827;  // (155 +- sqrt 15) / 1200

// The mean of 1 / r over a triangle with its centroid at d, by seven points; value: 1 / r at the centroid.
template <class V>
TACIT_HD inline V seven_point_mean(const V* d, const V& value, const Shape<V>& s) {
  const auto orbit = [&](double t) {
    V x2 = {}, y2 = {}, z2 = {};
    for (int k = 0; k < 3; ++k) {
      const V su = t * s.u[k], sv = t * s.v[k];
      const V x = d[k] + su, y = d[k] + sv, z = d[k] - (su + sv);
      x2 += x * x, y2 += y * y, z2 += z * z;
    }
    return reciprocal_root(x2) + reciprocal_root(y2) + reciprocal_root(z2);
  };
  return 0.225 * value + inner_weight * orbit(inner) + outer_weight * orbit(outer);
}

// The same by the expansion in moments of the triangle up to the third: with a = d . u, b = d . v, c = -(a + b) the
// mean of (d . x)^2 is (a^2 + b^2 + c^2) / 12, that of (d . x)^3 is (a^3 + b^3 + c^3) / 30, and that of (d . x) |x|^2
// the same sum of a |u|^2.
template <class V>
TACIT_HD inline V moment_mean(const V* d, const V& value, const Shape<V>& s) {
  const V a = d[0] * s.u[0] + d[1] * s.u[1] + d[2] * s.u[2], b = d[0] * s.v[0] + d[1] * s.v[1] + d[2] * s.v[2];
  const V y2 = value * value, sum = a + b;
  const V odd = a * (sum + s.third[0]) + b * (b + s.third[1]) + y2 * (a * b * sum);
  return value + value * y2 * (0.25 * y2 * odd - s.second);
}

TACIT_HD inline double inner_product(const double* a, const double* b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
TACIT_HD inline void cross(const double* a, const double* b, double* c) {
  c[0] = a[1] * b[2] - a[2] * b[1], c[1] = a[2] * b[0] - a[0] * b[2], c[2] = a[0] * b[1] - a[1] * b[0];
}

// |a| + |a + e| - |e| for an edge from a to a + e. Where the origin is close to the edge this difference would cancel;
// it is then computed from the distance to the edge's line.
TACIT_HD inline double ends_less_edge(const double* a, const double* e, double edge, double r_a, double r_b) {
  const double less = r_a + r_b - edge;
  if (less > 1e-6 * edge) return less;
  double c[3];
  cross(a, e, c);
  const double along = -inner_product(a, e) / edge, line2 = inner_product(c, c) / (edge * edge);
  const auto end = [&](double r, double s) { return s > 0 ? line2 / (r + s) : r - s; };
  return end(r_a, along) + end(r_b, edge - along);
}

// Integral of 1 / |y| over the triangle with corners a[0 .. 3).
TACIT_HD inline double exact_potential(const double (*a)[3]) {
  double e[3][3], r[3], normal[3], c[3];
  for (int k = 0; k < 3; ++k) {
    const double* const b = a[k == 2 ? 0 : k + 1];
    for (int d = 0; d < 3; ++d) e[k][d] = b[d] - a[k][d];
    r[k] = std::sqrt(inner_product(a[k], a[k]));
  }
  cross(e[0], e[1], normal);
  const double twice_area = std::sqrt(inner_product(normal, normal));
  double sum = 0;
  for (int k = 0; k < 3; ++k) {
    const double edge = std::sqrt(inner_product(e[k], e[k])), r_b = r[k == 2 ? 0 : k + 1];
    cross(e[k], normal, c);
    const double t = inner_product(a[k], c) / (edge * twice_area);  // from the origin's projection to the edge's line
    const double ends = r[k] + r_b, less = ends_less_edge(a[k], e[k], edge, r[k], r_b);
    if (std::fabs(t) > 1e-14 * edge && less > 0) sum += t * std::log((ends + edge) / less);
  }
  cross(a[1], a[2], c);
  const double triple = std::fabs(inner_product(a[0], c));
  const double angle = 2 * std::atan2(triple, r[0] * r[1] * r[2] + inner_product(a[0], a[1]) * r[2] +
                                                  inner_product(a[1], a[2]) * r[0] + inner_product(a[2], a[0]) * r[1]);
  return sum - triple / twice_area * angle;
}

}  // namespace tacit::app::bem
