// y = A x or y += A x for A in compressed rows, as a kernel over a Team: W lanes share a row.
#pragma once

#include <tacit/exec/kernels.hpp>

#include <concepts>
#include <cstdint>
#include <limits>

namespace tacit::op {

/// How columns are stored: as Local, or for narrow bands as int16, the column minus the row.
template <class C>
concept StoredColumn = std::same_as<C, Local> || std::same_as<C, std::int16_t>;

/// The column number of padding. Kernels skip it: a padding zero must not be multiplied by a NaN.
template <StoredColumn C>
inline constexpr C no_column = std::same_as<C, Local> ? C(-1) : std::numeric_limits<C>::min();

template <StoredColumn C>
TACIT_HD Local column_of(C stored, Global row) {
  if constexpr (std::same_as<C, Local>) return stored;
  else return static_cast<Local>(row) + stored;
}

/// One element in one load, also complex (aligned to its size).
template <class T>
TACIT_HD T element(const T* p) {
  return exec::Packet<T, 1>::load(p).v[0];
}

/// The part of a row that one thread multiplies with K neighbouring columns of X.
template <class T, StoredColumn Column, int K>
struct RowProduct {
  static constexpr int packet = K < exec::packet_width<T> ? K : exec::packet_width<T>;
  static constexpr int batch = K == 1 ? 4 : 2;
  using P = exec::Packet<T, packet>;
  using Sum = exec::Sums<K, T>;

  /// sum += the entries e, e + step, ... before end. The loads of a batch precede its operations, so that they are in
  /// flight together, also in rows shorter than the batch. x points to the first of the K columns; rows of X are k
  /// elements apart.
  TACIT_HD static void add(Sum& sum, Global e, Global end, int step, const Column* column, const T* value, const T* x,
                           int k, Global row) {
    for (; e < end; e += batch * step) {
      Column j[batch];
      T a[batch];
      TACIT_UNROLL
      for (int b = 0; b < batch; ++b) {
        const Global at = e + b * step;
        j[b] = no_column<Column>;
        if (at < end) j[b] = column[at], a[b] = element(value + at);
      }
      TACIT_UNROLL
      for (int b = 0; b < batch; ++b)
        if (j[b] != no_column<Column>) {
          const T* const from = x + Global(column_of(j[b], row)) * k;
          TACIT_UNROLL
          for (int c = 0; c < K; c += P::count) {
            const P p = P::load(from + c);
            TACIT_UNROLL
            for (int d = 0; d < P::count; ++d) sum[c + d] += a[b] * p.v[d];
          }
        }
    }
  }
  TACIT_HD static void store(const Sum& sum, bool add, T* y) {
    TACIT_UNROLL
    for (int c = 0; c < K; ++c) exec::Packet<T, 1>{{add ? element(y + c) + sum[c] : sum[c]}}.store(y + c);
  }
};

/// The number of lanes that share a row: the smallest power of two with at most two entries of a mean row for each
/// lane, at most 32.
inline int csr_lanes(Global rows, Global entries) {
  int lanes = 1;
  while (lanes < 32 && rows > 0 && 2 * Global(lanes) * rows < entries) lanes *= 2;
  return lanes;
}

/// Y = A X (add: Y += A X) on K columns: y[to(i) k + c] = sum over e in row i of value[e] x[column(e) k + c], for c in
/// [first, first + K), with k columns stored side by side; to(i) is i, or row[i] where `row` is not null. Rows may be
/// empty; those of `row` are distinct.
/// Memory: entries (sizeof(T) + sizeof(Column)) + rows sizeof(Offset) + the touched part of X + Y.
/// Alignment: value and y to sizeof(T), x to min(16, K sizeof(T)) bytes; k and first are multiples of K.
template <class T, class Offset, StoredColumn Column, int W, int K, int Threads>
struct CsrProduct {
  static constexpr int threads = Threads;
  static constexpr int rows_per_block = Threads / W;
  using Shared = exec::NothingShared;
  using Row = RowProduct<T, Column, K>;

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
    // Every lane does the same number of rounds, since lanes.sum() is called by the whole team.
    static_assert(rows_per_block % L::groups == 0);
    for (int r = lanes.group(); r < rows_per_block; r += L::groups) {
      const Global i = team.block() * rows_per_block + r;
      typename Row::Sum sum{};
      if (i < rows)
        Row::add(sum, row_begin[i] + lanes.lane(), row_begin[i + 1], L::width, column, value, x + first, k, i);
      sum = lanes.sum(sum);
      if (i < rows && lanes.lane() == 0) Row::store(sum, add, y + (row ? row[i] : i) * k + first);
    }
  }
};

}  // namespace tacit::op
