// Elementary functions that compilers turn into vector code, to 2 or 3 units of rounding.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

namespace tacit::op::detail {

// Adding it rounds a number of less than 2^51 to an integer, which is then in the lowest bits.
inline constexpr double rounder = 0x1.8p52;

// exp(x) for x <= 0; 0 below -708.
inline double exp_of_negative(double x) {
  const double shifted = x * std::numbers::log2e + rounder, n = shifted - rounder;
  const double r = (x - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  const auto power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
  return x < -708 ? 0.0 : p * power;
}

// sin(x) and cos(x) for |x| up to 10^6.
struct SineCosine {
  double sine, cosine;
};
inline SineCosine sine_cosine(double x) {
  const double shifted = x * (2 / std::numbers::pi) + rounder, n = shifted - rounder;
  // pi / 2 in parts of 33 bits, so that multiples of the first two are exact.
  const double r = ((x - n * 0x1.921fb544p0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69, r2 = r * r;
  double s = -1.0 / 1307674368000;
  s = s * r2 + 1.0 / 6227020800;
  s = s * r2 - 1.0 / 39916800;
  s = s * r2 + 1.0 / 362880;
  s = s * r2 - 1.0 / 5040;
  s = s * r2 + 1.0 / 120;
  s = s * r2 - 1.0 / 6;
  s = s * r2 * r + r;
  double c = -1.0 / 87178291200;
  c = c * r2 + 1.0 / 479001600;
  c = c * r2 - 1.0 / 3628800;
  c = c * r2 + 1.0 / 40320;
  c = c * r2 - 1.0 / 720;
  c = c * r2 + 1.0 / 24;
  c = c * r2 - 0.5;
  c = c * r2 + 1;
  const auto quarter = std::bit_cast<std::uint64_t>(shifted);
  const bool odd = (quarter & 1) != 0;
  const double a = odd ? c : s, b = odd ? s : c;
  return {(quarter & 2) != 0 ? -a : a, ((quarter + 1) & 2) != 0 ? -b : b};
}

// log(x) for normal positive x.
inline double log_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  // The mantissa from 1 / sqrt(2) to sqrt(2).
  const std::uint64_t moved = bits - 0x3fe6a09e667f3bcdULL;
  const auto e = double(std::int64_t(moved) >> 52);
  const auto m = std::bit_cast<double>(bits - (moved & 0xfff0000000000000ULL));
  const double f = (m - 1) / (m + 1), f2 = f * f;
  double p = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) p = p * f2 + 1.0 / k;
  return e * std::numbers::ln2 + (2 * f + 2 * f * f2 * p);
}

// 2^(1 - nu) / Gamma(nu) t^nu K_nu(t): e^t times it is smooth in log t, and interpolated on eighths of octaves; 0.05 <=
// nu <= 30.
class MaternTable {
 public:
  explicit MaternTable(double nu) {
    // Below 2^-first the function is 1 to rounding: its deviation is about t^(2 nu), or t^2.
    first_ = 1023 - int(std::ceil(27 / std::min(nu, 1.0)));
    const double factor = std::exp2(1 - nu) / std::tgamma(nu);
    for (int piece = 0; piece < (1023 + 10 - first_) * pieces; ++piece) {
      const double octave = std::ldexp(1.0, first_ + piece / pieces - 1023);
      const double low = octave * (1 + double(piece % pieces) / pieces), half = octave / (2 * pieces);
      double value[terms];
      for (int k = 0; k < terms; ++k) {
        const double t = low + half * (1 + std::cos(std::numbers::pi * (k + 0.5) / terms));
        value[k] = t > 704 ? 0.0 : factor * std::pow(t, nu) * std::cyl_bessel_k(nu, t) * std::exp(t);
      }
      append(value);
    }
    least_ = std::ldexp(1.0, first_ - 1023);
  }
  double operator()(double t) const {
    const double inside = t < least_ ? least_ : t > 1000 ? 1000.0 : t;
    const auto bits = std::bit_cast<std::uint64_t>(inside);
    const auto piece = std::int64_t(bits >> 49) - std::int64_t(first_) * pieces;
    const auto low = std::bit_cast<double>(bits & ~((std::uint64_t(1) << 49) - 1));
    const auto per_octave = std::bit_cast<double>((2046 - (bits >> 52)) << 52);
    const double u = (inside - low) * per_octave * (2 * pieces) - 1;
    const double* const c = coefficients_.data() + piece * terms;
    double p = c[terms - 1];
    for (int k = terms - 2; k >= 0; --k) p = p * u + c[k];
    return t < least_ ? 1.0 : p * exp_of_negative(-t);
  }

 private:
  static constexpr int pieces = 8, terms = 11;
  // The polynomial through the values at Chebyshev's points, by powers.
  void append(const double* value) {
    double chebyshev[terms], sum[terms] = {}, before[terms] = {}, last[terms] = {};
    for (int j = 0; j < terms; ++j) {
      chebyshev[j] = 0;
      for (int k = 0; k < terms; ++k)
        chebyshev[j] += (j == 0 ? 1.0 : 2.0) / terms * value[k] * std::cos(std::numbers::pi * j * (k + 0.5) / terms);
    }
    before[0] = 1, last[1] = 1;  // T_0, T_1
    for (int j = 0; j < terms; ++j) {
      for (int k = 0; k < terms; ++k) sum[k] += chebyshev[j] * before[k];
      double next[terms];
      for (int k = 0; k < terms; ++k) next[k] = (k > 0 ? 2 * last[k - 1] : 0.0) - before[k];
      for (int k = 0; k < terms; ++k) before[k] = last[k], last[k] = next[k];
    }
    coefficients_.insert(coefficients_.end(), sum, sum + terms);
  }
  int first_;  // biased exponent of the first octave
  double least_ = 0;
  std::vector<double> coefficients_;
};

}  // namespace tacit::op::detail
