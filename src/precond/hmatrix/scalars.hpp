// Numbers in another precision.
#pragma once

#include <tacit/base/types.hpp>

#include <complex>
#include <type_traits>

namespace tacit::precond::detail {

template <Scalar T>
using SingleOf = std::conditional_t<is_complex<T>, std::complex<float>, float>;

template <Scalar F, Scalar T>
F as_scalar(const T& v) {
  if constexpr (is_complex<T>) return F(real_t<F>(v.real()), real_t<F>(v.imag()));
  else return F(v);
}

}  // namespace tacit::precond::detail
