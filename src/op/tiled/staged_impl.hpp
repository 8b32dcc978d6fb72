// Staged matrices over both memory spaces; instantiated by staged.cpp (host) and staged.cu (device).
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/exec/launch.hpp>

#include "staged_layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tacit::op {

template <class T, Memory M>
StagedMatrix<T, M>::StagedMatrix(Local rows, Local columns, const RowSource<T>& source, int columns_at_once,
                                 Values values, Vectors vectors, std::span<const Local> row_order)
    : rows_(rows),
      columns_(columns),
      at_once_(columns_at_once),
      half_(values == Values::half),
      packed_(vectors == Vectors::half) {
  require(values == Values::full || values == Values::half, "a staged matrix stores its values in full or as halves");
  require(vectors == Vectors::full || (packed_ && sizeof(T) == sizeof(float)),
          "a staged matrix reads vectors in full, or floats as halves");
  if (packed_)
    require(at_once_ == 16 || at_once_ == 64, "stages for ", at_once_,
            " columns of halves at once; 16 or 64 are possible");
  else
    require(at_once_ == 1 || at_once_ == 8 || at_once_ == 32, "stages for ", at_once_,
            " columns at once; 1, 8 or 32 are possible");
  const int lanes = packed_ ? at_once_ / 2 : at_once_;
  const StagedShape shape = packed_       ? (lanes == 32 ? staged_shape<T, 32, true>() : staged_shape<T, 8, true>())
                            : lanes == 32 ? staged_shape<T, 32, false>()
                            : lanes == 8  ? staged_shape<T, 8, false>()
                                          : staged_shape<T, 1, false>();
  blocks_ = (Global(rows) + shape.rows - 1) / shape.rows;
  const auto layout = detail::staged_layout<T>(rows, columns, source, shape, half_);
  entries_ = layout.entries, counts_ = layout.counts, largest_ = layout.largest, longest_ = layout.longest;
  part_begin_ = exec::Array<std::int32_t, M>::from(layout.part_begin);
  map_begin_ = exec::Array<Global, M>::from(layout.map_begin);
  quad_begin_ = exec::Array<Global, M>::from(layout.quad_begin);
  slice_ = exec::Array<std::uint32_t, M>::from(layout.slice);
  map_ = exec::Array<Local, M>::from(layout.map);
  slot_ = exec::Array<std::uint16_t, M>::from(layout.slot);
  halves_ = exec::Array<std::uint16_t, M>::from(layout.halves);
  value_ = exec::Array<T, M>::from(layout.value);
  require(row_order.empty() || row_order.size() == std::size_t(rows), "an order of ", row_order.size(), " rows for ",
          rows);
  for (const Local r : row_order) require(r >= 0 && r < rows, "row ", r, " in an order of ", rows);
  order_ = exec::Array<Local, M>::from(row_order);
  scale_ = exec::Array<T, M>::from(layout.scale);
}

template <class T, Memory M>
double StagedMatrix<T, M>::bytes() const {
  return double((part_begin_.size() + slice_.size()) * 4 + (map_begin_.size() + quad_begin_.size()) * 8 +
                (map_.size() + order_.size()) * 4 + (slot_.size() + halves_.size()) * 2 +
                (value_.size() + scale_.size()) * sizeof(T));
}

template <class T, Memory M>
template <class V, int Lanes, bool Packed, class Cell>
void StagedMatrix<T, M>::launch(const V* value, const Cell* x, int cells, const T* up, T* y, int k,
                                const After& after) const {
  const int groups = (cells + Lanes - 1) / Lanes;
  exec::launch<M>(blocks_ * groups,
                  StagedProduct<T, V, Lanes, Packed>{
                      rows_, k, cells, groups, part_begin_.data(), map_begin_.data(), map_.data(), quad_begin_.data(),
                      slice_.data(), slot_.data(), value, half_ ? scale_.data() : nullptr, up, x, y,
                      order_.size() > 0 ? order_.data() : nullptr, after.clamp != nullptr,
                      after.clamp ? *after.clamp : Clamp<T>{}, after.alive},
                  after.race_check);
}

template <class T, Memory M>
template <class V>
void StagedMatrix<T, M>::with_values(const V* value, const T* x, T* y, int k, const After& after) const {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (packed_ && !after.full_vectors) {
      const Global teams = (Global(columns_) + ColumnMaxima::rows - 1) / ColumnMaxima::rows;
      const int cells = (k + 1) / 2;
      const auto grow = [](auto& a, std::size_t n) {
        if (a.size() < n) a = std::remove_reference_t<decltype(a)>(n);
      };
      grow(most_, std::size_t(teams) * std::size_t(k)), grow(up_, std::size_t(k));
      grow(cells_, std::size_t(columns_) * std::size_t(cells));
      // The exponent to which columns are scaled: 14, or less where sums of large entries would overflow.
      const int room =
          std::min(14, 126 - int(std::bit_width(unsigned(longest_))) - (largest_ > 0 ? std::ilogb(largest_) : 0));
      exec::launch<M>(teams, ColumnMaxima{columns_, k, x, most_.data()}, after.race_check);
      exec::launch<M>(1, ColumnPowers{teams, k, room, most_.data(), up_.data()}, after.race_check);
      exec::launch<M>((Global(columns_) * cells + PackHalves::threads - 1) / PackHalves::threads,
                      PackHalves{columns_, k, cells, x, up_.data(), cells_.data()}, after.race_check);
      if (at_once_ == 64) launch<V, 32, true>(value, cells_.data(), cells, up_.data(), y, k, after);
      else launch<V, 8, true>(value, cells_.data(), cells, up_.data(), y, k, after);
      return;
    }
  }
  const T* const no_powers = nullptr;
  const int lanes = packed_ ? at_once_ / 2 : at_once_;  // two halves have the room of one float
  if (lanes == 32) launch<V, 32, false>(value, x, k, no_powers, y, k, after);
  else if (lanes == 8) launch<V, 8, false>(value, x, k, no_powers, y, k, after);
  else launch<V, 1, false>(value, x, k, no_powers, y, k, after);
}

template <class T, Memory M>
void StagedMatrix<T, M>::multiply(const T* x, T* y, int k, const After& after) const {
  require(k >= 1, "a product of ", k, " columns");
  if (half_) with_values(halves_.data(), x, y, k, after);
  else with_values(value_.data(), x, y, k, after);
}

}  // namespace tacit::op
