// What the files of Storage share.
#pragma once

#include "storage.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::op::detail {

inline constexpr Local panel_rows = 64;

// The part of [0, cost.back()) that is this thread's, as items: those whose cost begins there.
inline std::pair<std::size_t, std::size_t> share(const std::vector<std::size_t>& cost) {
  std::size_t thread = 0, threads = 1;
#ifdef _OPENMP
  thread = std::size_t(omp_get_thread_num()), threads = std::size_t(omp_get_num_threads());
#endif
  const auto item = [&](std::size_t t) {
    if (t == threads) return cost.size() - 1;
    const std::size_t from = cost.back() / threads * t;
    return std::size_t(std::lower_bound(cost.begin(), cost.end() - 1, from) - cost.begin());
  };
  return {item(thread), item(thread + 1)};
}
inline bool first_thread() {
#ifdef _OPENMP
  return omp_get_thread_num() == 0;
#else
  return true;
#endif
}

template <class F>
void each_format(F&& f) {
  f(std::integral_constant<int, native>{});
  f(std::integral_constant<int, single>{});
  f(std::integral_constant<int, fixed>{});
}

template <Scalar T>
real_t<T> part(const T& v, int which) {
  if constexpr (is_complex<T>) return which == 0 ? v.real() : v.imag();
  else return which == 0 ? v : real_t<T>(0);
}

// conj(column) . x from the dot products of real columns with real planes, K planes each.
template <bool Complex, int K, class R>
inline void combine(const R* dots, R* out) {
  if constexpr (!Complex) {
    for (int k = 0; k < K; ++k) out[k] = dots[k];
  } else {
    for (int k = 0; k < K; k += 2) {
      out[k] = dots[k] + dots[K + k + 1];
      out[k + 1] = dots[k + 1] - dots[K + k];
    }
  }
}

// Cells of columns, and what falls on each: the transposed picture of the panels.
template <Scalar T>
struct Storage<T>::Adjoint {
  std::vector<std::size_t> held_start, factor_start, piece_start;  // by factor; by cell; by cell
  std::vector<std::size_t> work;                                   // of factor f: [held_start[f], held_start[f + 1])
  std::vector<std::uint32_t> factor;
  std::vector<Piece> piece;
  std::vector<std::size_t> cell_cost{0};
  mutable exec::Array<R> sums, mirrored;
};

template <Scalar T>
template <int F, int K>
void Storage<T>::project(const Factor& f, std::vector<R>& buffer) const {
  R* const z = z_.data();
  buffer.resize(std::size_t(f.count) * parts * K);
  dots<Stored<F>, R, K>(std::get<F>(factor_data_).data() + f.data, f.rows, std::ptrdiff_t(f.count) * parts, z + f.begin,
                        std::ptrdiff_t(ld_), buffer.data());
  for (Local j = 0; j < f.count; ++j) {
    R t[K];
    combine<is_complex<T>, K>(buffer.data() + std::size_t(j) * parts * K, t);
    const std::size_t at = f.t + std::size_t(j);
    for (int k = 0; k < K; ++k) z[std::size_t(k) * ld_ + at] = R(double(t[k]) * t_scale_[at - std::size_t(columns_)]);
  }
}

}  // namespace tacit::op::detail
