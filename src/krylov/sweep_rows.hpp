// Loops over rows of vectors for sweeps (sweep_parts.hpp): whole registers of real rows, and what is left one by one.
#pragma once

#include <tacit/exec/pairs.hpp>
#include "base/lanes.hpp"
#include "base/registers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace tacit::krylov::detail {

/// Sums of products of rows: of whole registers, lane by lane, and of the rows behind them.
template <class T, int count>
struct RowSums {
  static constexpr int lanes = register_bytes / int(sizeof(double));
  typedef double Wide __attribute__((vector_size(lanes * sizeof(double))));
  typedef real_t<T> Row __attribute__((vector_size(lanes * sizeof(real_t<T>))));
  using W = exec::wide_t<T>;
  Wide all[count] = {};
  W rest[count] = {};

  void add(int i, const Row& a, const Row& b) {
    if constexpr (std::same_as<real_t<T>, double>) all[i] = mul_add(a, b, all[i]);
    else all[i] = mul_add(__builtin_convertvector(a, Wide), __builtin_convertvector(b, Wide), all[i]);
  }
  void add(int i, const T& a, const T& b) { rest[i] += conj(W(a)) * W(b); }
  W sum(int i) const {
    W s = rest[i];
    if constexpr (!is_complex<T>)
      for (int l = 0; l < lanes; ++l) s += all[i][l];
    return s;
  }
};

/// Calls f(X, i) for n rows, X being a register of real rows from i on, or the type of row i.
template <class T, class F>
[[gnu::always_inline]] inline void each_row(std::ptrdiff_t n, F&& f) {
  using Row = typename RowSums<T, 1>::Row;
  std::ptrdiff_t i = 0;
  if constexpr (!is_complex<T>)
    for (; i + RowSums<T, 1>::lanes <= n; i += RowSums<T, 1>::lanes) f(std::type_identity<Row>(), i);
  for (; i < n; ++i) f(std::type_identity<T>(), i);
}
template <class X, class T>
[[gnu::always_inline]] inline X load(const T* from) {
  X x;
  std::memcpy(static_cast<void*>(&x), from, sizeof x);
  return x;
}
template <class X, class T>
[[gnu::always_inline]] inline void store(T* to, const X& x) {
  std::memcpy(static_cast<void*>(to), &x, sizeof x);
}

/// a b + c
template <class T, class X>
[[gnu::always_inline]] inline X times_plus(const T& a, const X& b, const X& c) {
  if constexpr (is_complex<T>) return a * b + c;
  else return mul_add(a, b, c);
}

/// Calls f(from, to, own) for the pieces of the rows [row, end) that lie in [begin, last), and outside.
template <class F>
[[gnu::always_inline]] inline void each_piece(Local row, Local end, Local begin, Local last, F&& f) {
  begin = std::clamp(begin, row, end), last = std::clamp(last, begin, end);
  if (row < begin) f(row, begin, false);
  if (begin < last) f(begin, last, true);
  if (last < end) f(last, end, false);
}

}  // namespace tacit::krylov::detail
