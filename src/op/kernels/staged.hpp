// The product of a staged matrix: a team works on a block of rows, stage by stage, while the next stage is copied.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/team.hpp>
#include <tacit/op/local_product.hpp>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tacit::op {

/// Converts a half (IEEE binary16) to float.
TACIT_HD inline float half_value(std::uint16_t h) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(h));
  return value;
#else
  const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16, mag = h & 0x7fffu;
  if (mag >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
  if (mag < 0x400u) return sign ? -(float(mag) * 5.9604644775390625e-8F) : float(mag) * 5.9604644775390625e-8F;
  return std::bit_cast<float>(sign | (mag + 0x1c000u) << 13);
#endif
}

/// A lane's cell of X: one number of T, or two columns in halves, the first in the low bits.
template <class T, bool Packed>
using StagedCell = std::conditional_t<Packed, std::uint32_t, T>;

/// How a block of rows is divided for a team. A slice has `side` rows with `lanes` lanes each, together one warp. Its
/// entries are stored in groups of four steps (quads), in which the four entries of a row are contiguous.
struct StagedShape {
  int lanes;  ///< cells of a row of X that are processed at once: 1, 8 or 32
  int cell;   ///< bytes of a cell
  int rows;   ///< of a block
  int slots;  ///< rows of X in a stage
  int quads;  ///< of a part (the entries that are copied at once), at most; 0: entries are read from global memory
  constexpr int side() const { return 32 / lanes; }
  constexpr int slices() const { return rows / side(); }
  /// The number of rows of X that together cover all banks of shared memory; also the number of rows of a slice that
  /// are read in one transaction (half a warp where a lane reads 8 bytes).
  constexpr int banks() const { return lanes * cell >= 128 ? 1 : 128 / (lanes * cell); }
  /// Rows of zeros that padding reads, after those of a stage; one for each bank.
  constexpr int zeros() const { return side(); }
};
template <class T, int Lanes, bool Packed>
constexpr StagedShape staged_shape() {
  constexpr int cell = int(sizeof(StagedCell<T, Packed>));
  return {Lanes, cell, Lanes == 32 ? 128 : 256, 32 * 1024 / cell / Lanes, Lanes == 32 ? 768 : Lanes == 8 ? 256 : 0};
}

/// *flag = 1, by any number of members at once.
TACIT_HD inline void raise_flag(std::uint32_t* flag) {
#ifdef __CUDA_ARCH__
  if (*const_cast<volatile std::uint32_t*>(flag) == 0) atomicExch(flag, 1u);
#else
  std::atomic_ref<std::uint32_t>(*flag).store(1, std::memory_order_relaxed);
#endif
}

/// Y = A X, a team for each block of rows and each group of `Lanes` cells of a row of X; the groups of a block follow
/// each other, so that they find its entries in the cache. Lane l works on cell l. With 32 lanes a staged row of X is
/// read as neighbouring words: there are no bank conflicts, an entry is read once for all lanes, and rows need no
/// padding. With fewer lanes several rows are read at a time, in an order that the host has chosen to avoid bank
/// conflicts. The entries of the next part, and the rows of X of the next stage, are copied while a part is processed.
/// Sums are formed in T.
template <class T, class V, int Lanes, bool Packed>
struct StagedProduct {
  static constexpr StagedShape shape = staged_shape<T, Lanes, Packed>();
  static constexpr int threads = 256, side = shape.side(), slices = shape.slices(), slots = shape.slots,
                       zeros = shape.zeros();
  static constexpr int packed = Packed ? 2 : 1;                                 // columns of a cell
  static constexpr int entries = shape.quads > 0 ? shape.quads * 4 * side : 8;  // of a part
  static_assert(shape.rows * Lanes % threads == 0);
  using Cell = StagedCell<T, Packed>;
  struct alignas(32) Shared {
    Cell x[2][(std::size_t(slots) + zeros) * Lanes];
    alignas(32) V value[2][entries];
    alignas(32) std::uint16_t slot[2][entries];
    std::uint32_t slice[2][slices];
  };
  struct Sums {
    T v[packed] = {};
  };

  Local count;                     // of rows of A
  int columns;                     // of Y
  int cells, groups;               // of a row of X
  const std::int32_t* part_begin;  // of blocks
  const Global* map_begin;         // of parts; no columns for parts that continue the stage of the part before
  const Local* map;                // the rows of X that a stage reads
  const Global* quad_begin;        // of parts
  const std::uint32_t* slice;      // of part p, slice s at p slices + s: its first quad in the part, steps << 16
  const std::uint16_t* slot;
  const V* value;
  const T* scale;  // of blocks; null for 1
  const T* up;     // of columns, where cells are packed; null for 1
  const Cell* x;
  T* y;
  const Local* order;    // stored row i is row order[i] of Y; null: row i
  bool clamped;          // y := min(max(y + bias, low), high)
  Clamp<T> clamp;        //
  std::uint32_t* alive;  // of columns: 1 where an element of Y is above 0 or NaN; null: not asked for

  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared& shared) const {
    const Global block = team.block() / groups;
    const int first = int(team.block() % groups) * Lanes;
    const int live = cells - first < Lanes ? cells - first : Lanes;
    exec::PerItem<Sums, shape.rows * Lanes, Tm> sum;
    for (int i = team.rank(); i < zeros * Lanes; i += Tm::threads)
      shared.x[0][slots * Lanes + i] = shared.x[1][slots * Lanes + i] = Cell(0);
    const std::int32_t begin = part_begin[block], end = part_begin[block + 1];
    int of_x = 0;
    if (begin < end) fetch(team, shared, begin, 0, 0, first, live);
    team.close_copies();
    for (std::int32_t p = begin; p < end; ++p) {
      const int now = (p - begin) & 1, x_now = of_x;
      if (p + 1 < end) {
        if (map_begin[p + 2] > map_begin[p + 1]) of_x = 1 - of_x;
        fetch(team, shared, p + 1, 1 - now, of_x, first, live);
      }
      team.close_copies();
      team.template await_copies<1>();
      team.barrier();
      const V* const values = shape.quads > 0 ? shared.value[now] : value + quad_begin[p] * 4 * side;
      const std::uint16_t* const places = shape.quads > 0 ? shared.slot[now] : slot + quad_begin[p] * 4 * side;
      TACIT_UNROLL
      for (int own = 0; own < exec::PerItem<Sums, shape.rows * Lanes, Tm>::count; ++own) {
        const int item = team.rank() + own * Tm::threads, row = item / Lanes;
        const std::uint32_t word = shared.slice[now][row / side];
        sum[own] = row_sum(sum[own], values, places, int(word & 0xffffu), int(word >> 16), row % side,
                           shared.x[x_now] + item % Lanes);
      }
      team.barrier();
    }
    TACIT_UNROLL
    for (int own = 0; own < exec::PerItem<Sums, shape.rows * Lanes, Tm>::count; ++own) {
      const int item = team.rank() + own * Tm::threads, lane = item % Lanes;
      const Global row = block * shape.rows + item / Lanes;
      if (row >= count || lane >= live) continue;
      const auto to = std::size_t(order ? Global(order[row]) : row) * std::size_t(columns);
      TACIT_UNROLL
      for (int c = 0; c < packed; ++c) {
        const int column = (first + lane) * packed + c;
        if (column >= columns) break;
        T total = sum[own].v[c];
        if (scale) total *= scale[block];
        if (up) total *= up[column];
        if (clamped) {
          total += clamp.bias;
          total = clamp.low > total ? clamp.low : total;
          total = clamp.high < total ? clamp.high : total;
        }
        if (alive && !(total <= T(0))) raise_flag(alive + column);
        y[to + std::size_t(column)] = total;
      }
    }
  }

 private:
  // Starts to copy part p: its slices and entries to buffers `to`, and where it begins a stage, the stage's rows of X
  // to buffer `to_x`.
  template <exec::Team Tm>
  TACIT_HD void fetch(const Tm& team, Shared& shared, std::int32_t p, int to, int to_x, int first, int live) const {
    const std::uint32_t* const heads = slice + std::size_t(p) * slices;
    for (int i = team.rank(); i < slices; i += Tm::threads) team.template copy<4>(&shared.slice[to][i], heads + i);
    if constexpr (shape.quads > 0) {
      // Parts are multiples of 16 bytes in both arrays.
      const Global from = quad_begin[p] * 4 * side;
      const int n = int(quad_begin[p + 1] - quad_begin[p]) * 4 * side;
      constexpr int some = 16 / int(sizeof(V));
      for (int i = team.rank() * some; i < n; i += Tm::threads * some)
        team.template copy<16>(&shared.value[to][i], value + from + i);
      for (int i = team.rank() * 8; i < n; i += Tm::threads * 8)
        team.template copy<16>(&shared.slot[to][i], slot + from + i);
    }
    const Local* const of_stage = map + map_begin[p];
    const int staged = int(map_begin[p + 1] - map_begin[p]);
    Cell* const buffer = shared.x[to_x];
    constexpr int wide = 16 / int(sizeof(Cell));
    const auto row_of = [&](int i) { return x + std::size_t(of_stage[i]) * std::size_t(cells) + std::size_t(first); };
    if constexpr (Lanes % wide == 0) {
      if (live == Lanes && cells % wide == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {
        constexpr int pieces = Lanes / wide;  // of a row
        for (int i = team.rank(); i < staged * pieces; i += Tm::threads)
          team.template copy<16>(buffer + i * wide, row_of(i / pieces) + i % pieces * wide);
        return;
      }
    }
    for (int i = team.rank(); i < staged * Lanes; i += Tm::threads) {
      const int lane = i % Lanes;
      if (lane < live) team.template copy<sizeof(Cell)>(buffer + i, row_of(i / Lanes) + lane);
      else buffer[i] = Cell(0);
    }
  }

  TACIT_HD static void add(Sums& sum, V v, Cell cell) {
    T factor;
    if constexpr (std::is_same_v<V, std::uint16_t>) factor = T(half_value(v));
    else factor = T(v);
    // An explicit fma, so that every compiler rounds once and serial and team runs have the same bits.
    if constexpr (Packed) {
      sum.v[0] = std::fma(factor, T(half_value(std::uint16_t(cell & 0xffffu))), sum.v[0]);
      sum.v[1] = std::fma(factor, T(half_value(std::uint16_t(cell >> 16))), sum.v[1]);
    } else {
      sum.v[0] = std::fma(factor, cell, sum.v[0]);
    }
  }
  // Sums the steps of a row, quad by quad, while the next quad is loaded; x points to this lane's cell of row 0.
  TACIT_HD static Sums row_sum(Sums sum, const V* values, const std::uint16_t* places, int quad, int steps, int row,
                               const Cell* x) {
    if (steps == 0) return sum;
    using Values = exec::Packet<V, 4>;
    using Places = exec::Packet<std::uint16_t, 4>;
    std::size_t at = (std::size_t(quad) * side + std::size_t(row)) * 4;
    Values v = Values::load(values + at);
    Places c = Places::load(places + at);
    int left = steps;
    for (; left > 4; left -= 4) {
      at += 4 * side;
      const Values next_v = Values::load(values + at);
      const Places next_c = Places::load(places + at);
      TACIT_UNROLL
      for (int u = 0; u < 4; ++u) add(sum, v.v[u], x[int(c.v[u]) * Lanes]);
      v = next_v, c = next_c;
    }
    TACIT_UNROLL
    for (int u = 0; u < 4; ++u)
      if (u < left) add(sum, v.v[u], x[int(c.v[u]) * Lanes]);
    return sum;
  }
};

/// most[t columns + c] = max of finite |x[i columns + c]| over the rows i of team t.
struct ColumnMaxima {
  static constexpr int threads = 256, rows = 2048;
  struct Shared {
    float most[threads];
  };
  Local count;
  int columns;
  const float* x;
  float* most;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared& shared) const {
    const Global first = team.block() * rows, last = first + rows < count ? first + rows : Global(count);
    for (int begin = 0; begin < columns; begin += threads) {
      const int wide = columns - begin < threads ? columns - begin : threads, side = threads / wide;
      exec::for_items<threads>(team, [&](int item) {
        float largest = 0;
        if (item < side * wide)
          for (Global i = first + item / wide; i < last; i += side) {
            const float v = x[std::size_t(i) * std::size_t(columns) + std::size_t(begin + item % wide)];
            const float a = v < 0 ? -v : v;
            largest = a > largest && a <= 3.4028234663852886e38F ? a : largest;
          }
        shared.most[item] = largest;
      });
      team.barrier();
      exec::for_items<threads>(team, [&](int item) {
        if (item >= wide) return;
        float largest = 0;
        for (int s = 0; s < side; ++s)
          largest = shared.most[s * wide + item] > largest ? shared.most[s * wide + item] : largest;
        most[team.block() * columns + begin + item] = largest;
      });
      team.barrier();
    }
  }
};

/// 2^e for -126 <= e <= 127.
TACIT_HD inline float power_of_two(int e) {
#ifdef __CUDA_ARCH__
  return __int_as_float((e + 127) << 23);
#else
  return std::bit_cast<float>(std::uint32_t(e + 127) << 23);
#endif
}

/// up[c]: the power of two by which column c is divided so that it is below 2^(room + 1); from `teams` partial maxima.
struct ColumnPowers {
  static constexpr int threads = 256;
  struct Shared {};
  Global teams;
  int columns, room;
  const float* most;
  float* up;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared&) const {
    for (int c = team.rank(); c < columns; c += Tm::threads) {
      float largest = 0;
      for (Global t = 0; t < teams; ++t) largest = most[t * columns + c] > largest ? most[t * columns + c] : largest;
      std::uint32_t bits;
#ifdef __CUDA_ARCH__
      bits = __float_as_uint(largest);
#else
      bits = std::bit_cast<std::uint32_t>(largest);
#endif
      // Below the range of floats the smallest exponent is used.
      int e = largest > 0 ? int(bits >> 23) - 127 - room : 0;
      e = e < -126 ? -126 : e > 126 ? 126 : e;
      up[c] = power_of_two(e);
    }
  }
};

/// Rounds to half, ties to even; infinite beyond its range.
TACIT_HD inline std::uint16_t nearest_half(float f) {
#ifdef __CUDA_ARCH__
  std::uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  const std::uint32_t b = std::bit_cast<std::uint32_t>(f), sign = b >> 16 & 0x8000u, mag = b & 0x7fffffffu;
  if (mag >= 0x7f800000u) return std::uint16_t(sign | (mag > 0x7f800000u ? 0x7e00u : 0x7c00u));
  if (mag >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);
  if (mag < 0x38800000u) {  // subnormal: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(mag) * 16777216.0f;
    std::uint32_t n = std::uint32_t(scaled);
    const float rest = scaled - float(n);
    n += rest > 0.5f || (rest == 0.5f && (n & 1u));
    return std::uint16_t(sign | n);
  }
  const std::uint32_t kept = mag - 0x38000000u;
  return std::uint16_t(sign | ((kept + 0xfffu + (kept >> 13 & 1u)) >> 13));
#endif
}

/// Packs two columns into a cell, each divided by its power of two; a missing second column is 0.
struct PackHalves {
  static constexpr int threads = 256;
  struct Shared {};
  Global rows;
  int columns, cells;
  const float *x, *up;
  std::uint32_t* out;
  template <exec::Team Tm>
  TACIT_HD void operator()(Tm team, Shared&) const {
    exec::for_items<threads>(team, [&](int item) {
      const Global at = team.block() * threads + item;
      if (at >= rows * cells) return;
      const Global row = at / cells;
      const int c = int(at % cells) * 2;
      const float* const from = x + row * columns + c;
      const std::uint32_t low = nearest_half(from[0] * (1 / up[c]));
      const std::uint32_t high = c + 1 < columns ? nearest_half(from[1] * (1 / up[c + 1])) : 0;
      out[at] = high << 16 | low;
    });
  }
};

}  // namespace tacit::op
