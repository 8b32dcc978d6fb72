// Sums: a few scalars that a sweep returns and a space sums over ranks.
#pragma once

#include <tacit/base/types.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace tacit::exec {

/// K partial sums of type T; supports `auto [rr, rz] = sums;`.
template <int K, class T>
struct Sums {
  using scalar = T;
  static constexpr int count = K;
  T v[K] = {};

  TACIT_HD T& operator[](int i) { return v[i]; }
  TACIT_HD const T& operator[](int i) const { return v[i]; }
  template <std::size_t I>
  TACIT_HD T& get() {
    return v[I];
  }
  template <std::size_t I>
  TACIT_HD const T& get() const {
    return v[I];
  }
};

/// What a sweep over vectors in M returns for Sums<K, T>: these, or where a device computes them something with wait().
template <int K, Scalar T, Memory M>
struct SumsIn {
  using type = Sums<K, T>;
};
template <int K, Scalar T, Memory M>
using sums_in_t = typename SumsIn<K, T, M>::type;

/// The sums of a sweep as numbers; waits for a device.
template <class S>
auto numbers(const S& sums) {
  if constexpr (requires { sums.wait(); }) return sums.wait();
  else return sums;
}

}  // namespace tacit::exec

template <int K, class T>
struct std::tuple_size<tacit::exec::Sums<K, T>> : std::integral_constant<std::size_t, K> {};
template <std::size_t I, int K, class T>
struct std::tuple_element<I, tacit::exec::Sums<K, T>> {
  using type = T;
};
