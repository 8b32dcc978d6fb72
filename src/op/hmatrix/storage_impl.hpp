// Shared by the source files of Storage.
#pragma once

#include "storage.hpp"

#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace tacit::op::detail {

inline constexpr Local panel_rows = 64;

/// Calls f(item, buffer) for all items, given their cumulative costs: threads have equal parts of [0, cost.back()) and
/// the items whose costs begin there. Each thread has its own buffer. Polls `comm`, if given, between items.
template <class R, class F>
void each_by_cost(const std::vector<std::size_t>& cost, const comm::Communicator* comm, F&& f) {
  // Several pieces for each thread, so that other threads can take those of a slow one.
  const int threads = exec::threads();
  const std::size_t pieces = threads > 1 ? 16 * std::size_t(threads) : 1;
  const auto item = [&](std::size_t piece) {
    if (piece == pieces) return cost.size() - 1;
    const auto from = std::size_t(double(cost.back()) * double(piece) / double(pieces));
    return std::size_t(std::lower_bound(cost.begin(), cost.end() - 1, from) - cost.begin());
  };
  exec::parallel_claims(pieces, exec::by_shares, true, [&](exec::Claims& claims) {
    std::vector<R> buffer;
    const bool polls = comm && exec::may_poll();
    claims.each([&](std::size_t piece) {
      for (std::size_t i = item(piece), end = item(piece + 1); i < end; ++i) {
        f(i, buffer);
        if (polls) comm->poll();
      }
    });
  });
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

// For the adjoint: columns in cells of panel_rows, each with its parts of blocks, as panels have them for rows.
template <Scalar T>
struct Storage<T>::Adjoint {
  std::vector<std::size_t> held_start, factor_start, piece_start;  // by factor; by cell; by cell
  std::vector<std::size_t> work;  // for factor f at [held_start[f], held_start[f + 1]): its positions in the work array
  std::vector<std::uint32_t> factor;
  std::vector<Piece> piece;
  std::vector<std::size_t> cell_cost{0};
  mutable exec::Array<R> sums, mirrored;
};

template <Scalar T>
template <int K>
void Storage<T>::project_all(const comm::Communicator& comm) const {
  each_by_cost<R>(factor_cost_, &comm, [&](std::size_t f, std::vector<R>& buffer) {
    const Factor& factor = factors_[f];
    if (factor.format == native) project<native, K>(factor, buffer);
    else if (factor.format == single) project<single, K>(factor, buffer);
    else project<fixed, K>(factor, buffer);
  });
}

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
