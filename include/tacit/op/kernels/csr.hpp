// y = A x or y += A x for A in compressed rows, as a kernel over a Team: W lanes share a row.
#pragma once

#include <tacit/exec/kernels.hpp>

#include <concepts>
#include <cstdint>
#include <limits>

namespace tacit::op {

/// How columns are stored: Local is the column; int16 is the column less the number of the row, for narrow bands.
template <class C>
concept StoredColumn = std::same_as<C, Local> || std::same_as<C, std::int16_t>;

/// What stands where a format stores no entry. Kernels skip it, so that padding brings no 0 * NaN.
template <StoredColumn C>
inline constexpr C no_column = std::same_as<C, Local> ? C(-1) : std::numeric_limits<C>::min();

template <StoredColumn C>
TACIT_HD Local column_of(C stored, Global row) {
  if constexpr (std::same_as<C, Local>) return stored;
  else return static_cast<Local>(row) + stored;
}

/// sum += a X[j, first .. first + K): K neighbouring values, loaded 16 bytes at a time where K > 1.
template <class T, int K>
struct ColumnBlock {
  static constexpr int packet = K == 1 ? 0 : (K < exec::packet_width<T> ? K : exec::packet_width<T>);
  using P = exec::Packet<T, packet>;
  using Row = exec::Sums<K, T>;
  TACIT_HD static void add(Row& sum, T a, const T* x) {
    TACIT_UNROLL
    for (int c = 0; c < K; c += P::count) {
      const P b = P::load(x + c);
      TACIT_UNROLL
      for (int d = 0; d < P::count; ++d) sum[c + d] += a * b.v[d];
    }
  }
  TACIT_HD static void store(const Row& sum, bool add, T* y) {
    TACIT_UNROLL
    for (int c = 0; c < K; ++c) y[c] = add ? y[c] + sum[c] : sum[c];
  }
};

/// Lanes that share a row of the mean length: the smallest power of two that gives a lane two entries, 32 at most.
inline int csr_lanes(Global rows, Global entries) {
  int lanes = 1;
  while (lanes < 32 && rows > 0 && 2 * Global(lanes) * rows < entries) lanes *= 2;
  return lanes;
}

/// Y = A X (add: Y += A X) on K columns: y[to(i) k + c] = sum over e in row i of value[e] x[column(e) k + c], for c in
/// [first, first + K), with k columns stored side by side; to(i) is i, or row[i] where `row` is not null. Rows may be
/// empty; those of `row` are distinct.
/// Memory: entries (sizeof(T) + sizeof(Column)) + rows sizeof(Offset) + what of X is touched + Y.
/// K > 1 loads X by packets: x is aligned to min(16, K sizeof(T)) bytes, k and first are multiples of K.
template <class T, class Offset, StoredColumn Column, int W, int K, int Threads>
struct CsrProduct {
  static constexpr int threads = Threads;
  static constexpr int rows_per_block = Threads / W;
  using Shared = exec::NothingShared;
  using Columns = ColumnBlock<T, K>;

  Local rows;
  int k, first;
  bool add;
  const Offset* row_begin;  // [rows + 1]
  const Local* row;         // [rows] or null
  const Column* column;
  const T* value;
  const T* x;
  T* y;

  static Global blocks(Global rows) { return (rows + rows_per_block - 1) / rows_per_block; }

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const auto lanes = team.template lanes<W>();
    using L = exec::Lanes<W, U>;
    // Every lane of the team makes the same number of rounds: lanes.sum needs them all.
    static_assert(rows_per_block % L::groups == 0);
    for (int r = lanes.group(); r < rows_per_block; r += L::groups) {
      const Global i = team.block() * rows_per_block + r;
      typename Columns::Row sum{};
      if (i < rows) {
        const Offset end = row_begin[i + 1];
        TACIT_UNROLL_BY(4)
        for (Offset e = row_begin[i] + lanes.lane(); e < end; e += L::width)
          Columns::add(sum, value[e], x + Global(column_of(column[e], i)) * k + first);
      }
      sum = lanes.sum(sum);
      if (i < rows && lanes.lane() == 0) Columns::store(sum, add, y + (row ? row[i] : i) * k + first);
    }
  }
};

}  // namespace tacit::op
