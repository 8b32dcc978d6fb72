// Staged matrices over both memory spaces; instantiated by staged.cpp (host) and staged.cu (device).
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/op/kernels/staged.hpp>
#include <tacit/op/staged_matrix.hpp>

#include "simd.hpp"

#include <algorithm>
#include <cmath>

#ifdef __CUDACC__
#include <tacit/exec/cuda.hpp>
#endif

namespace tacit::op {
namespace detail {

/// One block of rows, cut into stages: calls stage(first, last) for the columns of each, ascending.
template <class T, class F>
void each_stage(const RowBuffer<T>& rows, int capacity, std::vector<Local>& distinct, F&& stage) {
  distinct.assign(rows.column.begin(), rows.column.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (std::size_t first = 0; first < distinct.size(); first += std::size_t(capacity))
    stage(first, std::min(distinct.size(), first + std::size_t(capacity)));
}

}  // namespace detail

template <class T, Memory M>
StagedMatrix<T, M>::StagedMatrix(Local rows, Local columns, const RowSource<T>& source, int columns_at_once,
                                 Values values)
    : rows_(rows), columns_(columns), at_once_(columns_at_once), half_(values == Values::half) {
  require(columns_at_once == 1 || columns_at_once == 8 || columns_at_once == 32, "stages for ", columns_at_once,
          " columns at once; 1, 8 or 32 are possible");
  require(values == Values::full || values == Values::half, "a staged matrix keeps its values in full or as halves");
  const int block_rows = columns_at_once == 32 ? 128 : 256, capacity = 48 * 1024 / int(sizeof(T)) / columns_at_once;
  blocks_ = (Global(rows) + block_rows - 1) / block_rows;
  std::vector<std::int32_t> stage_begin{0};
  std::vector<Global> map_begin{0}, entry_begin;
  std::vector<Local> map, distinct;
  std::vector<std::uint16_t> slot, halves;
  std::vector<T> value, scale;
  RowBuffer<T> buffer;
  std::vector<std::size_t> at;
  double warp_entries = 0;
  for (Local b = 0; b < blocks_; ++b) {
    const Local begin = b * block_rows, end = Local(std::min<Global>(rows, Global(begin) + block_rows));
    buffer.start = {0}, buffer.column.clear(), buffer.value.clear();
    source(begin, end, buffer);
    T power = 1;
    if (half_) {
      double most = 0;
      for (const T v : buffer.value)
        if (std::isfinite(v)) most = std::max(most, double(std::abs(v)));
      const int range = sizeof(T) == 4 ? 120 : 1000;
      power = most > 0 ? T(std::ldexp(1.0, std::clamp(std::ilogb(most) - 14, -range, range))) : T(1);
      scale.push_back(power);
    }
    // Entries by place among the distinct columns, in the order of the source within a stage.
    detail::each_stage(buffer, capacity, distinct, [&](std::size_t first, std::size_t last) {
      map.insert(map.end(), distinct.begin() + std::ptrdiff_t(first), distinct.begin() + std::ptrdiff_t(last));
      map_begin.push_back(Global(map.size()));
      Global longest = 0;
      for (Local r = 0; r < block_rows; ++r) {
        entry_begin.push_back(Global(slot.size()));
        if (begin + r < end)
          for (auto i = std::size_t(buffer.start[std::size_t(r)]); i < std::size_t(buffer.start[std::size_t(r) + 1]);
               ++i) {
            const auto place =
                std::size_t(std::lower_bound(distinct.begin(), distinct.end(), buffer.column[i]) - distinct.begin());
            if (place < first || place >= last) continue;
            slot.push_back(std::uint16_t(place - first));
            if (half_) halves.push_back(detail::to_half(float(double(buffer.value[i]) / double(power))));
            else value.push_back(buffer.value[i]);
          }
        longest = std::max(longest, Global(slot.size()) - entry_begin.back());
        if (r % 32 == 31) warp_entries += 32.0 * double(longest), longest = 0;
      }
    });
    stage_begin.push_back(std::int32_t(map_begin.size()) - 1);
  }
  entries_ = Global(slot.size());
  entry_begin.push_back(entries_);
  if (!map.empty())
    staging_ = {double(entries_) / double(map.size()), double(stage_begin.back()) / double(blocks_),
                warp_entries / double(entries_)};
  stage_begin_ = exec::Array<std::int32_t, M>::from(stage_begin);
  map_begin_ = exec::Array<Global, M>::from(map_begin);
  entry_begin_ = exec::Array<Global, M>::from(entry_begin);
  map_ = exec::Array<Local, M>::from(map);
  slot_ = exec::Array<std::uint16_t, M>::from(slot);
  halves_ = exec::Array<std::uint16_t, M>::from(halves);
  value_ = exec::Array<T, M>::from(value);
  scale_ = exec::Array<T, M>::from(scale);
}

template <class T, Memory M>
double StagedMatrix<T, M>::bytes() const {
  return double(stage_begin_.size() * 4 + (map_begin_.size() + entry_begin_.size()) * 8 + map_.size() * 4 +
                (slot_.size() + halves_.size()) * 2 + (value_.size() + scale_.size()) * sizeof(T));
}

template <class T, Memory M>
template <class V, int K>
void StagedMatrix<T, M>::launch(const V* value, const T* x, T* y, int k, [[maybe_unused]] bool race_check) const {
  for (int first = 0; first < k; first += K) {
    const StagedProduct<T, V, K> kernel{rows_,
                                        k,
                                        first,
                                        stage_begin_.data(),
                                        map_begin_.data(),
                                        map_.data(),
                                        entry_begin_.data(),
                                        slot_.data(),
                                        value,
                                        half_ ? scale_.data() : nullptr,
                                        x,
                                        y};
    if constexpr (std::same_as<M, Host>) {
      if (race_check) exec::launch_threads(blocks_, kernel);
      else exec::launch_serial(blocks_, kernel);
    } else {
#ifdef __CUDACC__
      exec::launch_cuda(blocks_, kernel);
#endif
    }
  }
}

template <class T, Memory M>
void StagedMatrix<T, M>::multiply(const T* x, T* y, int k, bool race_check) const {
  require(k >= 1, "a product of ", k, " columns");
  const auto with = [&](const auto* value) {
    using V = std::remove_cvref_t<decltype(*value)>;
    if (at_once_ == 32) launch<V, 32>(value, x, y, k, race_check);
    else if (at_once_ == 8) launch<V, 8>(value, x, y, k, race_check);
    else launch<V, 1>(value, x, y, k, race_check);
  };
  if (half_) with(halves_.data());
  else with(value_.data());
}

}  // namespace tacit::op
