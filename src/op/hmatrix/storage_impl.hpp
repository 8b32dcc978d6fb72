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

/// A round of `rounds` over all items: f(item) for a part of each thread's items in each_by_cost(), in parallel, then
/// after(item) for the same ones, one after the other.
template <class F, class G>
void each_of_round(const std::vector<std::size_t>& cost, std::size_t round, std::size_t rounds, F&& f, G&& after) {
  const auto threads = std::size_t(exec::threads());
  const auto item = [&](std::size_t thread, std::size_t r) {
    const std::size_t piece = thread * rounds + r;
    if (piece == threads * rounds) return cost.size() - 1;
    const auto from = std::size_t(double(cost.back()) * double(piece) / double(threads * rounds));
    return std::size_t(std::lower_bound(cost.begin(), cost.end() - 1, from) - cost.begin());
  };
  exec::parallel_for(threads, true, [&](std::size_t t) {
    for (std::size_t i = item(t, round), end = item(t, round + 1); i < end; ++i) f(i);
  });
  for (std::size_t t = 0; t < threads; ++t)
    for (std::size_t i = item(t, round), end = item(t, round + 1); i < end; ++i) after(i);
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
void Storage<T>::project_all(const T* x, std::span<const Global> order, int k, int column, T* zeroed,
                             const comm::Communicator& comm) const {
  reserve(K);
  R* const z = z_.data();
  exec::parallel_for(std::size_t(columns_), true, [&, ld = std::ptrdiff_t(ld_)](std::size_t i) {
    for (int c = 0; c < K / parts; ++c) {
      const T& v = x[std::size_t(order[i]) * k + column + c];
      for (int p = 0; p < parts; ++p) z[(c * parts + p) * ld + std::ptrdiff_t(i)] = part(v, p);
      if (zeroed) zeroed[i * k + c] = T(0);
    }
  });
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

template <Scalar T>
template <int K, class F>
void Storage<T>::each_value(const R* sum, Local rows, T* y, int k, F&& f) {
  for (Local r = 0; r < rows; ++r)
    for (int c = 0; c < K / parts; ++c) {
      T& to = y[std::size_t(r) * std::size_t(k) + std::size_t(c)];
      if constexpr (is_complex<T>) f(to, T(sum[2 * c * panel_rows + r], sum[(2 * c + 1) * panel_rows + r]));
      else f(to, sum[c * panel_rows + r]);
    }
}

template <Scalar T>
template <int K>
void Storage<T>::sum_panels(R* t, std::ptrdiff_t ldt) const {
  const Adjoint& a = *adjoint_;
  const R* const w = a.sums.data();
  each_by_cost<R>(factor_cost_, nullptr, [&](std::size_t f, std::vector<R>&) {
    const Factor& factor = factors_[f];
    for (Local j = 0; j < factor.count; ++j) {
      double s[K] = {};
      for (std::size_t h = a.held_start[f]; h < a.held_start[f + 1]; ++h)
        for (int c = 0; c < K; ++c) s[c] += double(w[(a.work[h] + std::size_t(j)) * K + std::size_t(c)]);
      const std::size_t at = factor.t + std::size_t(j) - std::size_t(columns_);
      for (int c = 0; c < K; ++c) t[c * ldt + std::ptrdiff_t(at)] = R(s[c] * t_scale_[at]);
    }
  });
}

template <Scalar T>
template <int K, class F>
void Storage<T>::multiply_cells(const R* t, std::ptrdiff_t ldt, T* y, int k, const comm::Communicator& comm,
                                F&& f) const {
  const Adjoint& a = *adjoint_;
  const R* const w = a.sums.data();
  each_by_cost<R>(a.cell_cost, &comm, [&](std::size_t cell, std::vector<R>&) {
    const Local begin = Local(cell) * panel_rows, end = std::min(columns_, begin + panel_rows);
    R sum[K * panel_rows] = {};
    for (std::size_t i = a.piece_start[cell]; i < a.piece_start[cell + 1]; ++i) {
      const Piece& p = a.piece[i];
      for (Local j = 0; j < p.count; ++j)
        for (int c = 0; c < K; ++c)
          sum[c * panel_rows + p.begin - begin + j] +=
              R(double(w[(p.work + std::size_t(j)) * K + std::size_t(c)]) * p.scale);
    }
    for (std::size_t i = a.factor_start[cell]; i < a.factor_start[cell + 1]; ++i) {
      const Factor& factor = factors_[a.factor[i]];
      const Local low = std::max(begin, factor.begin), high = std::min(end, factor.begin + factor.rows);
      const Run run{factor.t - std::uint32_t(columns_), std::uint32_t(factor.count), 1};
      each_format([&](auto format) {
        if (factor.format != format) return;
        multiply_add<Stored<format>, R, K, is_complex<T>>(
            std::get<format>(factor_data_).data() + factor.data + (low - factor.begin), high - low, factor.rows, &run,
            &run + 1, t, ldt, sum + (low - begin), panel_rows);
      });
    }
    each_value<K>(sum, end - begin, y + std::size_t(begin) * std::size_t(k), k, f);
  });
}

}  // namespace tacit::op::detail
