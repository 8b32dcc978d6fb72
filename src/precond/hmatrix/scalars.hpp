// Numbers in another precision.
#pragma once

#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <type_traits>

namespace tacit::precond::detail {

template <Scalar T>
using SingleOf = std::conditional_t<is_complex<T>, std::complex<float>, float>;

template <Scalar F, Scalar T>
F as_scalar(const T& v) {
  if constexpr (is_complex<T> && !is_complex<F>) return F(v.real());
  else if constexpr (is_complex<T>) return F(real_t<F>(v.real()), real_t<F>(v.imag()));
  else return F(v);
}

/// Whether numbers of this size, and their squares, keep their digits in single precision.
inline bool fits_single(double size) {
  return size > 1e-15 && size < 1e15;
}

/// Whether squares of numbers of this size are within the range of F, with digits to spare.
template <Scalar F>
bool fits_squares(double size) {
  return std::is_same_v<real_t<F>, float> ? fits_single(size) : size > 1e-120 && size < 1e120;
}

/// Calls f(), which computes `to` from `from`. Where single precision cannot hold these numbers, `from` is scaled by a
/// power of two that brings them near 1 before the call, and `to` is scaled back after it. largest(m) is the largest m
/// of the ranks whose numbers f() combines. `more`: of a factor 2^more of `to`, by one scaling.
template <Scalar T, class F, class Largest>
void near_one(T* from, T* to, std::size_t count, const F& f, Largest&& largest, int more = 0) {
  using R = real_t<T>;
  R own(0);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (is_complex<T>) own = std::max({own, std::abs(from[i].real()), std::abs(from[i].imag())});
    else own = std::max(own, std::abs(from[i]));
  }
  const R most = R(largest(double(own)));
  const bool fits = most == R(0) || !std::isfinite(most) || fits_single(double(most));
  if (fits && more == 0) return f();
  const int exponent = fits ? 0 : std::ilogb(most);
  const auto scale = [count](T* v, int e) {
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (is_complex<T>) v[i] = {std::ldexp(v[i].real(), e), std::ldexp(v[i].imag(), e)};
      else v[i] = std::ldexp(v[i], e);
    }
  };
  if (exponent != 0) scale(from, -exponent);
  f();
  if (exponent + more != 0) scale(to, exponent + more);
}

}  // namespace tacit::precond::detail
