// Pairs: two vectors side by side, element i of column c at 2 i + c, so that one product serves both. A set of pairs
// v_0, v_1, .. has the columns 2 k + c; s-step methods keep the powers of p (c = 0) and of r (c = 1) in one.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/memory.hpp>

#include <complex>
#include <cstddef>
#include <type_traits>

namespace tacit::exec {

/// The type in which sums of many products are accumulated.
template <Scalar T>
using wide_t = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// The number of sums of pair_gram().
constexpr std::size_t pair_gram_size(int columns, bool with_shadow) {
  return std::size_t(columns) * (columns + 1) / 2 + (with_shadow ? columns : 0);
}

/// For the first `columns` columns: sums[b (b + 1) / 2 + a] = (v_a, z_b), a <= b, the triangle of V^H Z, and
/// `with_shadow` behind it (shadow, z_b). n elements a column, this rank's part; z may be v. Local; one pass over V, Z
/// and the shadow. Same bits for any number of threads.
template <Scalar T, Memory M>
void pair_gram(const T* const* v, const T* const* z, int columns, const T* shadow, bool with_shadow, std::size_t n,
               wide_t<T>* sums);

/// v_0 := [V a, V c] where a is not null, and x := x + V e where x is not null; `columns` coefficients each. Local; one
/// pass over V.
template <Scalar T, Memory M>
void pair_combine(T* const* v, int columns, const T* a, const T* c, const T* e, T* x, std::size_t n);

/// Column c of the pair v := x. Local.
template <Scalar T, Memory M>
void pair_put(const T* x, int c, T* v, std::size_t n);

/// max |v_(i stride)|, i < n; Inf when one of them is NaN. Local.
template <Scalar T, Memory M>
double largest_magnitude(const T* v, std::size_t n, std::size_t stride = 1);
template <Scalar T, Memory M>
double largest_magnitude(View<const T, M> v) {
  return largest_magnitude<T, M>(v.data(), v.size());
}

}  // namespace tacit::exec
