// Arithmetic on scalars whose squares may overflow (complex division is compiled as the plain formula).
#pragma once

#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::precond {

/// Largest of the parts of a, within sqrt(2) of |a|.
template <Scalar T>
real_t<T> size_of(T a) {
  if constexpr (is_complex<T>) return std::max(std::abs(a.real()), std::abs(a.imag()));
  else return std::abs(a);
}

template <Scalar T>
T times_power(T a, int e) {
  if constexpr (is_complex<T>) return {std::ldexp(a.real(), e), std::ldexp(a.imag(), e)};
  else return std::ldexp(a, e);
}

/// 1 / a without overflow or underflow on the way; Inf for 0.
template <Scalar T>
T inverse(T a) {
  if constexpr (is_complex<T>) {
    const auto size = size_of(a);
    if (!(size > 0) || !std::isfinite(size)) return T(1 / size);
    const int e = std::ilogb(size);
    const T scaled = times_power(a, -e);
    return times_power(conj(scaled) / abs2(scaled), -e);
  } else {
    return 1 / a;
  }
}

}  // namespace tacit::precond
