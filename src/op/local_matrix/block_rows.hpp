// The dense blocks of a sparse matrix: how they are found, and the product of rows of blocks.
#pragma once

#include <tacit/op/local_matrix.hpp>
#include "base/lanes.hpp"
#include "base/registers.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace tacit::op {

/// Blocks of b x b, aligned at row 0 and column 0 of the whole matrix. Only blocks that lie entirely on this rank and
/// have all their entries are used: a product then reads no element of x for which its rows have no entry, and rows()
/// returns the entries that were given.
struct BlockGrid {
  static constexpr int least = 2, most = 8;
  static constexpr std::size_t slack = 64;
  int b = 0;
  Local row = 0, column = 0;  // where the first whole block begins
  Local block_rows = 0;

  template <class T>
  BlockGrid(const LocalRowsView<T>& a, int size) : b(size) {
    row = Local((b - a.row_begin % b) % b), column = Local((b - a.column_begin % b) % b);
    block_rows = std::max(Local(0), a.count() - row) / b;
  }
  BlockGrid() = default;
  Local first_row(Local r) const { return row + r * b; }
  /// The block row that contains a row; -1 where that is not entirely on this rank.
  Local block_row(Local of) const { return of < row || of >= first_row(block_rows) ? -1 : (of - row) / b; }

  /// The block columns of the full blocks in block row r, ascending.
  template <class T>
  void find(const LocalRowsView<T>& a, Local r, std::vector<Local>& found) const {
    found.clear();
    Global at[most];
    std::copy_n(a.start.begin() + first_row(r), b, at);
    const auto end = a.start.begin() + first_row(r) + 1;
    const auto whole = [&](int i, Local c) {  // whether row i has all columns from c to c + b - 1 (columns ascend)
      return at[i] + b <= end[i] && a.column[at[i]] == c && a.column[at[i] + b - 1] == c + b - 1;
    };
    for (; at[0] < end[0]; ++at[0]) {
      const Local c = a.column[at[0]];
      if (c < column || (c - column) % b != 0 || !whole(0, c)) continue;
      bool full = true;
      for (int i = 1; full && i < b; ++i) {
        while (at[i] < end[i] && a.column[at[i]] < c) ++at[i];
        full = whole(i, c);
      }
      if (full) found.push_back((c - column) / b);
    }
  }

  /// From a sample of the block rows, with 16-bit offsets assumed: the bytes of an entry, those of blocks, of their
  /// rows' beginnings, and of the list of the other entries and their rows; and what part of the entries is in blocks.
  struct Estimate {
    double bytes = 1e30, in_blocks = 0;
  };
  template <class T>
  Estimate estimate(const LocalRowsView<T>& a) const {
    constexpr Local most_samples = 256;
    const Local samples = std::min(most_samples, block_rows);
    // The rows above the first block row and below the last one.
    const Global above = a.start[std::min(row, a.count())];
    const Global below = a.start.back() - a.start[std::min(first_row(block_rows), a.count())];
    double entries = double(above + below) * (block_rows > 0 ? double(samples) / block_rows : 1), blocks = 0;
    Global rows_of_rest = 0;
    std::vector<Local> found;
    for (Local s = 0; s < samples; ++s) {
      // Scattered by the golden ratio: in equal steps the sample of a grid could be all of one of its faces.
      const std::uint64_t fraction = samples < block_rows ? std::uint64_t(s) * 0x9e3779b97f4a7c15u >> 32 : 0;
      const Local r = samples < block_rows ? Local(fraction * std::uint64_t(block_rows) >> 32) : s;
      find(a, r, found);
      blocks += double(found.size());
      entries += double(a.start[first_row(r + 1)] - a.start[first_row(r)]);
      for (Local i = first_row(r); i < first_row(r + 1); ++i)
        rows_of_rest += a.start[i + 1] - a.start[i] > Global(found.size()) * b;
    }
    if (entries == 0) return {};
    const double inside = blocks * b * b, rest = entries - inside;
    const double bytes = inside * sizeof(T) + blocks * 2 + samples * double(sizeof(Global)) +
                         rest * (sizeof(T) + sizeof(Local)) + double(rows_of_rest) * (sizeof(Local) + sizeof(Global));
    return {bytes / entries, inside / entries};
  }

  /// The block size with which the matrix is estimated to take the fewest bytes.
  template <class T>
  static BlockGrid best(const LocalRowsView<T>& a, Estimate& found) {
    BlockGrid chosen(a, least);
    found = chosen.estimate(a);
    for (int b = least + 1; b <= most; ++b) {
      const BlockGrid other(a, b);
      if (const Estimate estimate = other.estimate(a); estimate.bytes < found.bytes) chosen = other, found = estimate;
    }
    return chosen;
  }
};

/// Rows of blocks times m of k interleaved columns of x (`alone`: k = 1). Blocks are stored by columns, and each column
/// is loaded in as many registers as it needs: the lanes of the last register that belong to the next column are not
/// used, and BlockGrid::slack bytes have to follow the last block.
template <int b, int m, class T, bool alone = false>
class BlockRows {
  static_assert(m == 1 || !alone);
  using R = real_t<T>;
  static constexpr int parts = sizeof(T) / sizeof(R), reals = b * parts;
  static constexpr int lanes = std::clamp(int(std::bit_ceil(reals * sizeof(R))), 16, register_bytes) / int(sizeof(R));
  static constexpr int registers = (reals + lanes - 1) / lanes;
  static constexpr int at_once = b * m == 2 ? 2 : 1;  // blocks
  // Independent chains of additions, over which a block's columns are distributed: as many as registers allow.
  static constexpr int sums = std::clamp(8 / (registers * parts * m * at_once), 1, b);
  typedef R V __attribute__((vector_size(lanes * sizeof(R))));

  /// The elements of x for a block, each of which is broadcast to all lanes. One masked load of exactly these elements,
  /// where the processor has it, is faster than a load for each: the kernel is limited by loads.
  struct Factors {
#ifdef __AVX512VL__
    static constexpr bool in_register = registers == 1 && alone;
#else
    static constexpr bool in_register = false;
#endif
    const R* from;
    V x = {};

    [[gnu::always_inline]] explicit Factors(const R* p) : from(p) {
#ifdef __AVX512VL__
      constexpr auto mask = (1u << reals) - 1;
      if constexpr (!in_register) return;
      else if constexpr (sizeof(V) == 64 && sizeof(R) == 8) x = V(_mm512_maskz_loadu_pd(__mmask8(mask), p));
      else if constexpr (sizeof(V) == 64) x = V(_mm512_maskz_loadu_ps(__mmask16(mask), p));
      else if constexpr (sizeof(V) == 32 && sizeof(R) == 8) x = V(_mm256_maskz_loadu_pd(mask, p));
      else if constexpr (sizeof(V) == 32) x = V(_mm256_maskz_loadu_ps(mask, p));
      else if constexpr (sizeof(R) == 8) x = V(_mm_maskz_loadu_pd(mask, p));
      else x = V(_mm_maskz_loadu_ps(mask, p));
#endif
    }
    template <int i>
    [[gnu::always_inline]] V get(std::ptrdiff_t at) const {
      if constexpr (in_register) return shuffled<[](int) { return i; }>(x, x);
      else return from[at] - V{};
    }
  };

  using Sums = V[sums][m][parts][registers];
  /// sum += A x for one block.
  [[gnu::always_inline]] static void add(const R* a, const R* x, int k, Sums& sum) {
    const Factors factors(x);
    __builtin_prefetch(reinterpret_cast<const char*>(a) + 1024);
    [&]<int... j>(std::integer_sequence<int, j...>) __attribute__((always_inline)) {
      (add_column<j>(a, factors, k, sum[j % sums]), ...);
    }
    (std::make_integer_sequence<int, b>{});
  }
  template <int j>
  [[gnu::always_inline]] static void add_column(const R* a, const Factors& x, int k, V (&sum)[m][parts][registers]) {
    V v[registers];
    for (int i = 0; i < registers; ++i) std::memcpy(&v[i], a + j * reals + i * lanes, sizeof(V));
#pragma GCC unroll 4
    for (int c = 0; c < m; ++c)
#pragma GCC unroll 8
      for (int i = 0; i < registers; ++i) {
        const std::ptrdiff_t at = (std::ptrdiff_t(j) * k + c) * parts;  // the real part of x, the imaginary one
        sum[c][0][i] = mul_add(x.template get<j * parts>(at), v[i], sum[c][0][i]);
        if constexpr (parts == 2) sum[c][1][i] = mul_add(x.template get<j * parts + 1>(at + 1), v[i], sum[c][1][i]);
      }
  }

 public:
  /// y = A x for block rows [from, to); y points to their first row, x to the first column of the first block column,
  /// both to the first of the m columns of vectors. start[r] is the first block of block row r. The block column of
  /// block e in block row r is column[e] or, where `offset` is not null, r + offset[e].
  [[gnu::noinline]] static void multiply(Local from, Local to, const Global* start, const T* value,
                                         const std::int16_t* offset, const Local* column, const T* x, T* y, int k) {
    if constexpr (alone) k = 1;
    const R* a = reinterpret_cast<const R*>(value + start[from] * (b * b));
    for (Local r = from; r < to; ++r, y += std::ptrdiff_t(b) * k) {
      Sums sum[at_once] = {};
      const auto x_of = [&](Global e) {
        return reinterpret_cast<const R*>(x + std::ptrdiff_t(offset ? r + offset[e] : column[e]) * (b * k));
      };
      Global e = start[r];
      const Global end = start[r + 1];
      for (; e + at_once <= end; e += at_once)
#pragma GCC unroll 2
        for (int u = 0; u < at_once; ++u, a += b * reals) add(a, x_of(e + u), k, sum[u]);
      if constexpr (at_once > 1)
        if (e < end) add(a, x_of(e), k, sum[0]), a += b * reals;
#pragma GCC unroll 4
      for (int c = 0; c < m; ++c) {
        R total[parts][registers * lanes];
        for (int p = 0; p < parts; ++p)
          for (int i = 0; i < registers; ++i) {
            V all = sum[0][0][c][p][i];
            for (int s = 1; s < at_once * sums; ++s) all += sum[s / sums][s % sums][c][p][i];
            std::memcpy(total[p] + i * lanes, &all, sizeof all);
          }
        for (int i = 0; i < b; ++i) {
          T& to = y[std::ptrdiff_t(i) * k + c];
          if constexpr (parts == 1) to = total[0][i];
          else to = T(total[0][2 * i] - total[1][2 * i + 1], total[0][2 * i + 1] + total[1][2 * i]);
        }
      }
    }
  }
};

/// Calls f(std::integral_constant<int, b>) for a block size b that is known at run time.
template <class F>
void with_block_size(int b, F&& f) {
  const auto each = [&]<int... B>(std::integer_sequence<int, B...>) {
    (void)((b == B + BlockGrid::least && (f(std::integral_constant<int, B + BlockGrid::least>{}), true)) || ...);
  };
  each(std::make_integer_sequence<int, BlockGrid::most - BlockGrid::least + 1>{});
}

}  // namespace tacit::op
