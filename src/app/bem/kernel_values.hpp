// Values of the kernels at many distances at once.
#pragma once

#include <tacit/base/types.hpp>

#include <cmath>
#include <complex>
#include <cstdint>

namespace tacit::app::bem {

/// 1 for real scalars, 2 for complex ones: real and imaginary parts are kept apart, so that loops are vectorised.
template <class T>
inline constexpr int parts_of = is_complex<T> ? 2 : 1;

/// A scalar from its parts in arrays, at i.
template <class T>
T joined_parts(const double* const* from, std::size_t i) {
  if constexpr (is_complex<T>) return T(from[0][i], from[1][i]);
  else return from[0][i];
}

/// The sine and cosine of x, |x| < 1e6, to a few roundings, without branches: Taylor polynomials about the nearest
/// multiple of pi / 2, which is subtracted in three parts.
[[gnu::always_inline]] inline void sine_and_cosine(double x, double& sine, double& cosine) {
  constexpr double two_over_pi = 0.63661977236758134308, shift = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double part1 = 1.57079632673412561417e+00, part2 = 6.07710050630396597660e-11,
                   part3 = 2.02226624871116645580e-21;
  const double turns = (x * two_over_pi + shift) - shift;
  const double y = ((x - turns * part1) - turns * part2) - turns * part3, z = y * y;
  const double odd =
      y *
      (1 + z * (-1.0 / 6 +
                z * (1.0 / 120 + z * (-1.0 / 5040 +
                                      z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                                               z * (1.0 / 6227020800 - z * (1.0 / 1307674368000))))))));
  const double even =
      1 + z * (-0.5 + z * (1.0 / 24 +
                           z * (-1.0 / 720 +
                                z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                                        z * (1.0 / 479001600 + z * (-1.0 / 87178291200 +
                                                                                    z * (1.0 / 20922789888000))))))));
  // The quarter, 0 to 3, in floating point: remainders of powers of two are exact.
  const double halves = (turns * 0.5 + shift) - shift, rest = turns - 2 * halves;  // -1, 0 or 1
  const double half_parity = halves - 2 * ((halves * 0.5 + shift) - shift);        // -1, 0 or 1
  const double sign = 1 - 2 * half_parity * half_parity;
  const double other = rest * rest;  // 1 in odd quarters
  sine = sign * (other * rest * even + (1 - other) * odd);
  cosine = sign * ((1 - other) * even - other * rest * odd);
}

/// For vectors of `n` distances d: G = exp(i k r) / r and g = G' / r, without the factor 1 / (4 pi); for real scalars
/// with k = 0. `slope` may be null.
template <class T>
inline void kernels(const double* dx, const double* dy, const double* dz, int n, double k, double* const* value,
                    double* const* slope) {
  if constexpr (is_complex<T>) {
#pragma omp simd
    for (int i = 0; i < n; ++i) {
      const double r2 = dx[i] * dx[i] + dy[i] * dy[i] + dz[i] * dz[i], root = std::sqrt(r2), one = 1 / root;
      double s, c;
      sine_and_cosine(k * root, s, c);
      value[0][i] = c * one, value[1][i] = s * one;
    }
    if (!slope) return;
#pragma omp simd
    for (int i = 0; i < n; ++i) {
      const double r2 = dx[i] * dx[i] + dy[i] * dy[i] + dz[i] * dz[i], inverse2 = 1 / r2, kr = k * std::sqrt(r2);
      slope[0][i] = -(value[0][i] + kr * value[1][i]) * inverse2;
      slope[1][i] = (kr * value[0][i] - value[1][i]) * inverse2;
    }
  } else {
#pragma omp simd
    for (int i = 0; i < n; ++i) value[0][i] = 1 / std::sqrt(dx[i] * dx[i] + dy[i] * dy[i] + dz[i] * dz[i]);
    if (!slope) return;
#pragma omp simd
    for (int i = 0; i < n; ++i) slope[0][i] = -value[0][i] * value[0][i] * value[0][i];
  }
}

}  // namespace tacit::app::bem
