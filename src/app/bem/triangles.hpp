// Shared by SingleLayer and GalerkinLayer: vector registers, geometry, and exact integrals over a triangle.
#pragma once

#include <tacit/app/bem/integrals.hpp>
#include <tacit/app/bem/mesh.hpp>
#include "base/registers.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace tacit::app::bem {

constexpr int lanes = register_bytes / int(sizeof(double));
typedef double Vec __attribute__((vector_size(lanes * sizeof(double))));
typedef std::int64_t Mask __attribute__((vector_size(lanes * sizeof(double))));

inline Vec load(const double* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Vec all(double a) {
  return Vec{} + a;
}

// 1 / sqrt(a), accurate to the last one or two bits.
template <>
inline Vec reciprocal_root(Vec a) {
#ifdef __AVX512F__
  Vec y = (Vec)_mm512_maskz_rsqrt14_pd(0xff, (__m512d)a);
  for (int step = 0; step < 2; ++step) y += y * (0.5 - 0.5 * a * y * y);
  return y;
#else
  double y[lanes];
  std::memcpy(y, &a, sizeof a);
  for (double& root : y) root = 1 / std::sqrt(root);
  return load(y);
#endif
}
// a < b for each lane, as the processor's mask type.
#ifdef __AVX512F__
using Below = __mmask8;
inline Below below(Vec a, Vec b) {
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
}
inline bool any(Below m) {
  return m != 0;
}
inline bool at(Below m, std::size_t l) {
  return (m >> l & 1) != 0;
}
inline Vec choose(Below m, Vec yes, Vec no) {
  return (Vec)_mm512_mask_blend_pd(m, (__m512d)no, (__m512d)yes);
}
#else
using Below = Mask;
inline Below below(Vec a, Vec b) {
  return a < b;
}
inline bool at(Below m, std::size_t l) {
  return m[l] != 0;
}
inline Vec choose(Below m, Vec yes, Vec no) {
  return m ? yes : no;
}
#endif
inline bool any(Mask m) {
#ifdef __AVX512F__
  return _mm512_test_epi64_mask((__m512i)m, (__m512i)m) != 0;
#else
  std::int64_t some = 0;
  for (int i = 0; i < lanes; ++i) some |= m[i];
  return some != 0;
#endif
}

using Corners = std::array<Point, 3>;

inline Point operator-(const Point& a, const Point& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
inline Point operator+(const Point& a, const Point& b) {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}
inline Point operator*(double s, const Point& a) {
  return {s * a[0], s * a[1], s * a[2]};
}
inline double inner_product(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
inline double length(const Point& a) {
  return std::sqrt(inner_product(a, a));
}
inline double area_of(const Corners& t) {
  return length(cross(t[1] - t[0], t[2] - t[0])) / 2;
}

/// The exact integral of 1 / |y| over the triangle with corners a, from its edges and solid angle.
double potential_at_origin(const Corners& a);
/// Integral of -y / |y|^3: minus the gradient of the above with respect to the evaluation point. On the triangle
/// itself, where it jumps, the mean of both sides.
Point field_at_origin(const Corners& a);

}  // namespace tacit::app::bem
