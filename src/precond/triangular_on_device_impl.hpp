// TriangularOnDevice; instantiated by triangular_on_device.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "triangular_levels.hpp"

#include <tacit/base/complex.hpp>
#include <tacit/exec/launch.hpp>
#include <tacit/precond/triangular_on_device.hpp>
#include "precond/kernels/triangular.hpp"

#include <cstddef>
#include <span>
#include <type_traits>

namespace tacit::precond {

/// Threads of a team.
inline constexpr int triangular_threads = 256;

template <Scalar T, Memory M>
TriangularOnDevice<T, M>::TriangularOnDevice(const TriangularFactors<T>& factors) : negative_(factors.negative) {
  const TriangularLevels<T> host(factors);
  rows_ = host.rows, levels_ = host.levels(), lanes_ = host.lanes;
  scaled_begin_ = host.scaled_begin, scaled_end_ = host.scaled_end;
  runs_ = level_runs(host.level_row, triangular_threads / host.lanes);
  const auto put = [](const auto& from, auto& to) {
    to = std::remove_reference_t<decltype(to)>::from(std::span(from.data(), from.size()));
  };
  put(host.level_row, level_row_), put(host.level_slice, level_slice_), put(host.slice_begin, slice_begin_);
  put(host.column, column_), put(host.value, value_), put(host.inverse, inverse_), put(host.from, from_);
  put(host.row, row_), put(host.place, place_), put(host.before, before_), put(host.after, after_);
}

template <Scalar T, Memory M>
void TriangularOnDevice<T, M>::load(const T* x, int columns) {
  if (columns != columns_) {
    z_ = exec::Array<T, M>(2 * std::size_t(rows_) * std::size_t(columns));
    columns_ = columns;
  }
  using Place = PlaceElements<kernel_scalar_t<T>, triangular_threads>;
  exec::launch<M>(Place::blocks(rows_, columns),
                  Place{rows_, columns, false, row_.data(), before_.size() ? before_.data() : nullptr,
                        kernel_pointer(x), kernel_pointer(z_.data())});
}

template <Scalar T, Memory M>
void TriangularOnDevice<T, M>::store(T* y) const {
  using Place = PlaceElements<kernel_scalar_t<T>, triangular_threads>;
  exec::launch<M>(Place::blocks(rows_, columns_),
                  Place{rows_, columns_, negative_, place_.data(), after_.size() ? after_.data() : nullptr,
                        kernel_pointer(z_.data()), kernel_pointer(y)});
}

template <Scalar T, Memory M>
template <int Lanes, int K>
void TriangularOnDevice<T, M>::solve_levels() {
  using Kernel = LevelSolve<kernel_scalar_t<T>, Lanes, K, triangular_threads>;
  for (const auto& run : runs_)
    exec::launch<M>(run.blocks, Kernel{run.first, run.last, run.blocks, columns_, rows_, scaled_begin_, scaled_end_,
                                       level_row_.data(), level_slice_.data(), slice_begin_.data(), column_.data(),
                                       kernel_pointer(value_.data()), kernel_pointer(inverse_.data()), from_.data(),
                                       kernel_pointer(z_.data())});
}

template <Scalar T, Memory M>
void TriangularOnDevice<T, M>::solve() {
  const auto by = [&]<int Lanes>(std::integral_constant<int, Lanes>) {
    if (columns_ % 4 == 0) solve_levels<Lanes, 4>();
    else if (columns_ % 2 == 0) solve_levels<Lanes, 2>();
    else solve_levels<Lanes, 1>();
  };
  if (lanes_ == 1) by(std::integral_constant<int, 1>{});
  else by(std::integral_constant<int, lanes_of_long_rows>{});
}

template <Scalar T, Memory M>
double TriangularOnDevice<T, M>::bytes() const {
  const double indices =
      double(level_row_.size() + level_slice_.size() + column_.size() + from_.size()) * sizeof(Local);
  return indices + double(slice_begin_.size()) * sizeof(Global) +
         (double(value_.size() + inverse_.size()) + 4.0 * rows_) * sizeof(T);
}

}  // namespace tacit::precond
