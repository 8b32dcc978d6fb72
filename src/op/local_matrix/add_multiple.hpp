// The step of every sum of a row: all products of stored entries add it in the order of the entries, so that they have
// the same bits in every format and for any number of columns.
#pragma once

#include <tacit/base/types.hpp>
#include "base/fused.hpp"

namespace tacit::op {

/// sum[c] += a x[c] for m columns; of real numbers by mul_add(). Complex numbers as pairs of reals, which gcc
/// vectorises; with the same roundings.
template <class T, class Width>
inline void add_multiple(T a, const T* x, T* sum, Width m) {
  if constexpr (is_complex<T>) {
    const auto re = a.real(), im = a.imag();
    const auto* const from = reinterpret_cast<const real_t<T>*>(x);
    auto* const to = reinterpret_cast<real_t<T>*>(sum);
    for (int c = 0; c < m; ++c) {
      const auto real = re * from[2 * c] - im * from[2 * c + 1], imaginary = re * from[2 * c + 1] + im * from[2 * c];
      to[2 * c] += real, to[2 * c + 1] += imaginary;
    }
  } else {
    for (int c = 0; c < m; ++c) sum[c] = mul_add(a, x[c], sum[c]);
  }
}
/// The same of one number.
template <class T>
[[gnu::always_inline]] inline void add_product(const T& a, const T& x, T& sum) {
  if constexpr (is_complex<T>) sum += a * x;
  else sum = mul_add(a, x, sum);
}

}  // namespace tacit::op
