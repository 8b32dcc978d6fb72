// Multiply-add of real and complex scalars for host loops.
#pragma once

#include <tacit/base/types.hpp>
#include "base/lanes.hpp"

namespace tacit::precond {

/// a b + c with the same bits in every loop (base/lanes.hpp), also for complex numbers.
template <Scalar T>
[[gnu::always_inline]] inline T add_product(T a, T b, T c) {
  if constexpr (is_complex<T>) {
    return {mul_add(-a.imag(), b.imag(), mul_add(a.real(), b.real(), c.real())),
            mul_add(a.imag(), b.real(), mul_add(a.real(), b.imag(), c.imag()))};
  } else {
    return mul_add(a, b, c);
  }
}

}  // namespace tacit::precond
