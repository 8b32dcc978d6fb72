// The product of a staged matrix: a team works on a block of rows, stage by stage.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/team.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tacit::op {

/// A half (IEEE binary16) as a float, by its bits.
TACIT_HD inline float half_value(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16, mag = h & 0x7fffu;
  std::uint32_t bits = sign | (mag + 0x1c000u) << 13;
  if (mag >= 0x7c00u) bits = sign | 0x7f800000u | (mag & 0x3ffu) << 13;
  float value;
  if (mag < 0x400u) {
    value = float(mag) * 5.9604644775390625e-8F;
    return sign ? -value : value;
  }
#ifdef __CUDA_ARCH__
  value = __uint_as_float(bits);
#else
  value = std::bit_cast<float>(bits);
#endif
  return value;
}

/// Y = A X for K columns of `columns`, from `first` on. Lane l of a row's threads has column l: a staged row of X is
/// read as K neighbouring words, so that no two lanes of a warp meet in a bank, rows need no padding, and an entry is
/// read once for all lanes. Sums are formed entry by entry in T, also of values that are stored in 16 bits.
template <class T, class V, int K>
struct StagedProduct {
  static constexpr int threads = 256;
  static constexpr int rows = K == 32 ? 128 : 256;  ///< of a block
  static_assert(rows * K % threads == 0);
  static constexpr int slots = 48 * 1024 / int(sizeof(T)) / K;  ///< rows of X in a stage
  struct Shared {
    T x[std::size_t(slots) * K];
  };
  Local count;  // rows in all
  int columns, first;
  const std::int32_t* stage_begin;  // of blocks
  const Global* map_begin;          // of stages
  const Local* map;                 // the rows of X that a stage reads
  const Global* entry_begin;        // of stage s, row r at s rows + r; then the end
  const std::uint16_t* slot;
  const V* value;
  const T* scale;  // of blocks; null for 1
  const T* x;
  T* y;

  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared& shared) const {
    const Global block = team.block();
    const int live = columns - first < K ? columns - first : K;
    exec::PerItem<T, rows * K, Tm> sum;
    for (std::int32_t s = stage_begin[block]; s < stage_begin[block + 1]; ++s) {
      const Local* const of_stage = map + map_begin[s];
      const int staged = int(map_begin[s + 1] - map_begin[s]) * K;
      for (int i = team.rank(); i < staged; i += Tm::threads) {
        const int lane = i % K;
        shared.x[i] =
            lane < live ? x[std::size_t(of_stage[i / K]) * std::size_t(columns) + std::size_t(first + lane)] : T(0);
      }
      team.barrier();
      const Global* const begin = entry_begin + Global(s) * rows;
      TACIT_UNROLL
      for (int own = 0; own < exec::PerItem<T, rows * K, Tm>::count; ++own) {
        const int item = team.rank() + own * Tm::threads, row = item / K, lane = item % K;
        T total = sum[own];
        for (Global e = begin[row]; e < begin[row + 1]; ++e) {
          T v;
          if constexpr (std::is_same_v<V, std::uint16_t>) v = T(half_value(value[e]));
          else v = T(value[e]);
          total += v * shared.x[int(slot[e]) * K + lane];
        }
        sum[own] = total;
      }
      team.barrier();
    }
    TACIT_UNROLL
    for (int own = 0; own < exec::PerItem<T, rows * K, Tm>::count; ++own) {
      const int item = team.rank() + own * Tm::threads, lane = item % K;
      const Global row = block * rows + item / K;
      T total = sum[own];
      if (scale) total *= scale[block];
      if (row < count && lane < live) y[std::size_t(row) * std::size_t(columns) + std::size_t(first + lane)] = total;
    }
  }
};

}  // namespace tacit::op
