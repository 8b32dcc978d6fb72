// The product of an H-matrix as two team kernels, on numbers stored without padding for blocks of any size:
//
//   t = diag(s) V^T x    a team for some columns of one factor V: a warp for a few columns, the team for long ones
//   y = P [x; t]         a team for a panel of up to 64 rows: dense blocks and the rows of all U, by columns
// No two teams write to one element, so there are no atomics, and the order of sums depends on the matrix only.
// Yamazaki et al. 2018 do the same products as batches of matrix-vector products of variable size
// (op/hmatrix/batched.hpp).
#pragma once

#include <tacit/exec/kernels.hpp>

#include <cstdint>
#include <type_traits>

namespace tacit::op {

/// The numbers of an H-matrix by format: the scalar's own precision, float, 16-bit integers.
template <class R>
struct PackedNumbers {
  const R* native;
  const float* single;
  const std::int16_t* fixed;
};

/// Some columns of a factor V: numbers [data, data + rows columns) of its format, by columns.
struct FactorTask {
  std::int64_t data;
  std::uint32_t begin, rows;  ///< of z
  std::uint32_t to, columns;  ///< z[to + j] takes the product with column j
  std::int32_t format;        ///< 0 native, 1 single, 2 fixed
  std::int32_t aligned;       ///< data, begin and rows are multiples of 4
};

/// Rows [begin, begin + rows) of y, rows at most 64. Columns of format f are [column[f], column[f + 1]) in the
/// numbering of all panels' columns; their numbers begin at data[f].
struct PanelTask {
  std::int64_t data[3];
  std::int64_t column[4];
  std::int32_t begin, rows;
  std::int32_t aligned;  ///< data and rows are multiples of 4
  std::int32_t run;      ///< the panel's first run
};

/// Columns of a panel, from `column` on, that are multiplied with neighbouring elements of z from `offset` on.
struct ColumnRun {
  double scale;
  std::int64_t column;
  std::uint32_t offset, unused;
};

/// The number of values of S that a thread loads at once.
template <class S>
inline constexpr int packed_width = sizeof(S) == 8 ? 2 : 4;

/// z[k ld + to + j] = scale[to + j - columns] sum_i V(i, j) z[k ld + begin + i] for K planes; scale is indexed from the
/// first position after x. Memory: V once, x from cache.
template <class R, int K>
struct FactorProducts {
  static constexpr int threads = 128;
  static constexpr int long_column = 1024;
  using Shared = exec::NothingShared;
  /// The number of columns of a task, for factors with `rows` rows, that occupies a team.
  static constexpr int columns_of_task(std::int64_t rows) { return rows >= long_column ? 4 : 16; }

  const FactorTask* task;
  PackedNumbers<R> numbers;
  const double* scale;
  std::int64_t columns, ld;
  R* z;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const FactorTask t = task[team.block()];
    if (t.format == 0) product<R>(team, t, numbers.native + t.data);
    else if (t.format == 1) product<float>(team, t, numbers.single + t.data);
    else product<std::int16_t>(team, t, numbers.fixed + t.data);
  }

 private:
  template <class S, class U>
  TACIT_HD void product(const U& team, const FactorTask& t, const S* v) const {
    if (t.aligned) columns_of<S, packed_width<S>>(team, t, v);
    else columns_of<S, 1>(team, t, v);
  }
  template <class S, int W, class U>
  TACIT_HD void columns_of(const U& team, const FactorTask& t, const S* v) const {
    constexpr int C = K == 1 ? 4 : 2;
    const auto lanes = team.template lanes<32>();
    using L = exec::Lanes<32, U>;
    const int count = static_cast<int>(t.columns), rows = static_cast<int>(t.rows);
    const bool together = rows >= long_column;
    const int lane = together ? team.rank() : lanes.lane(), width = together ? U::threads : L::width,
              group = together ? 0 : lanes.group(), groups = together ? 1 : L::groups;
    // Every member does the same number of rounds, since sums are called by the whole team.
    for (int round = 0; round < count; round += groups * C) {
      const int first = round + group * C;
      exec::Sums<C * K, R> sum{};
      if (first < count) {
        const S* column[C];
        TACIT_UNROLL
        for (int c = 0; c < C; ++c)  // beyond the last column: the last again, whose product is not used
          column[c] = v + std::int64_t(first + c < count ? first + c : count - 1) * rows;
        TACIT_UNROLL_BY(2)
        for (int i = lane * W; i < rows; i += width * W) {
          exec::Packet<S, W> a[C];
          TACIT_UNROLL
          for (int c = 0; c < C; ++c) a[c] = exec::Packet<S, W>::load(column[c] + i);
          TACIT_UNROLL
          for (int k = 0; k < K; ++k) {
            const R* const x = z + k * ld + t.begin + i;
            TACIT_UNROLL
            for (int w = 0; w < W; ++w) {
              const R b = x[w];
              TACIT_UNROLL
              for (int c = 0; c < C; ++c) sum[c * K + k] += static_cast<R>(a[c].v[w]) * b;
            }
          }
        }
      }
      sum = together ? team.sum(sum) : lanes.sum(sum);
      if (first < count && lane == 0) {
        TACIT_UNROLL
        for (int c = 0; c < C; ++c)
          if (first + c < count) {
            const std::int64_t at = std::int64_t(t.to) + first + c;
            const double s = scale[at - columns];
            TACIT_UNROLL
            for (int k = 0; k < K; ++k) z[k * ld + at] = static_cast<R>(static_cast<double>(sum[c * K + k]) * s);
          }
      }
    }
  }
};

/// y[k ldy + begin + r] = sum over the panel's columns c of P(r, c) scale(c) z[k ld + position(c)] for K planes, scale
/// and position from the column's run. Memory: P once, and 2 bytes for each column.
template <class R, int K>
struct PanelProducts {
  static constexpr int threads = 256;
  static constexpr int chunk = 256;  ///< columns whose coefficients are loaded at once
  static constexpr int most_rows = 64;
  struct Shared {
    R coefficient[K][chunk];
    R part[K][threads * 4];
  };

  const PanelTask* task;
  const ColumnRun* run;
  const std::uint16_t* run_of;  ///< of each column: its run, from the panel's first on
  PackedNumbers<R> numbers;
  std::int64_t ld, ldy;
  const R* z;
  R* y;

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared& shared) const {
    const PanelTask t = task[team.block()];
    exec::PerItem<exec::Sums<K, R>, most_rows, U> total;
    add<R>(team, shared, t, 0, numbers.native, total);
    add<float>(team, shared, t, 1, numbers.single, total);
    add<std::int16_t>(team, shared, t, 2, numbers.fixed, total);
    for (int r = team.rank(), own = 0; r < t.rows; r += U::threads, ++own) {
      TACIT_UNROLL
      for (int k = 0; k < K; ++k) y[k * ldy + t.begin + r] = total[own][k];
    }
  }

 private:
  template <class S, class U, class Total>
  TACIT_HD void add(const U& team, Shared& shared, const PanelTask& t, int format, const S* data, Total& total) const {
    if (t.column[format + 1] == t.column[format]) return;
    if (t.aligned) multiply<S, packed_width<S>>(team, shared, t, format, data + t.data[format], total);
    else multiply<S, 1>(team, shared, t, format, data + t.data[format], total);
  }
  // Neighbouring threads work on one column, W rows each, and groups of threads on consecutive columns.
  template <class S, int W, class U, class Total>
  TACIT_HD void multiply(const U& team, Shared& shared, const PanelTask& t, int format, const S* data,
                         Total& total) const {
    const int across = (t.rows + W - 1) / W, groups = threads / across;
    const std::int64_t begin = t.column[format], end = t.column[format + 1];
    exec::PerItem<exec::Sums<W * K, R>, threads, U> sum;
    for (std::int64_t from = begin; from < end; from += chunk) {
      const int count = static_cast<int>(end - from < chunk ? end - from : chunk);
      for (int c = team.rank(); c < count; c += U::threads) {
        const ColumnRun of = run[t.run + run_of[from + c]];
        const std::int64_t at = of.offset + (from + c - of.column);
        TACIT_UNROLL
        for (int k = 0; k < K; ++k)
          shared.coefficient[k][c] = static_cast<R>(of.scale * static_cast<double>(z[k * ld + at]));
      }
      team.barrier();
      const S* const numbers_from = data + (from - begin) * t.rows;
      TACIT_UNROLL
      for (int own = 0; own < exec::PerItem<int, threads, U>::count; ++own) {
        const int item = team.rank() + own * U::threads, group = item / across, row = item % across * W;
        if (group >= groups) continue;
        exec::Sums<W * K, R> s = sum[own];
        TACIT_UNROLL_BY(4)
        for (int c = group; c < count; c += groups) {
          const auto a = exec::Packet<S, W>::load(numbers_from + c * t.rows + row);
          TACIT_UNROLL
          for (int k = 0; k < K; ++k) {
            const R b = shared.coefficient[k][c];
            TACIT_UNROLL
            for (int w = 0; w < W; ++w) s[w * K + k] += static_cast<R>(a.v[w]) * b;
          }
        }
        sum[own] = s;
      }
      team.barrier();
    }
    TACIT_UNROLL
    for (int own = 0; own < exec::PerItem<int, threads, U>::count; ++own) {
      const int item = team.rank() + own * U::threads, group = item / across, row = item % across * W;
      if (group >= groups) continue;
      TACIT_UNROLL
      for (int w = 0; w < W; ++w) {
        TACIT_UNROLL
        for (int k = 0; k < K; ++k) shared.part[k][group * across * W + row + w] = sum[own][w * K + k];
      }
    }
    team.barrier();
    for (int r = team.rank(), own = 0; r < t.rows; r += U::threads, ++own)
      for (int g = 0; g < groups; ++g) {
        TACIT_UNROLL
        for (int k = 0; k < K; ++k) total[own][k] += shared.part[k][g * across * W + r];
      }
    team.barrier();
  }
};

/// z[k ld + p] = x[order[p] columns + first + k] for K planes.
template <class R, int K>
struct IntoPlanes {
  static constexpr int threads = 256;
  using Shared = exec::NothingShared;
  std::int64_t n, ld;
  int columns, first;
  const Local* order;
  const R* x;
  R* z;
  static Global blocks(Global n) { return (n + threads - 1) / threads; }
  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    exec::for_items<threads>(team, [&](int t) {
      const std::int64_t p = team.block() * threads + t;
      if (p >= n) return;
      TACIT_UNROLL
      for (int k = 0; k < K; ++k) z[k * ld + p] = x[std::int64_t(order[p]) * columns + first + k];
    });
  }
};

}  // namespace tacit::op
