// y = A x or y += A x for A in SELL-C-sigma, as a kernel over a Team with one thread for each row of a slice.
//
// Kreutzer, Hager, Wellein, Fehske, Bishop (2014): rows are sorted by length inside windows of sigma rows, cut into
// slices of C rows, and each slice is padded to its longest row and stored column by column, so that C neighbouring
// threads read C neighbouring entries. On the device C = 32, a warp.
#pragma once

#include <tacit/op/kernels/csr.hpp>

namespace tacit::op {

/// Y = A X (add: Y += A X) on K columns. Slice s holds the entries slice_begin[s] .. slice_begin[s + 1]; the j-th entry
/// of its row r is number slice_begin[s] + j C + r. Padding has column no_column<Column> and is skipped. Row r of slice
/// s is row s C + r of Y, or row[s C + r] where `row` is not null (-1 for padding of the last slice); 16-bit columns
/// count from s C + r. y[i k + c] = sum of value x[column k + c], c in [first, first + K), with k columns stored side
/// by side. Memory: padded entries (sizeof(T) + sizeof(Column)) + rows 4 + the touched part of X + Y. Alignment as for
/// CsrProduct.
template <class T, StoredColumn Column, int C, int K, int Threads>
struct SellProduct {
  static constexpr int threads = Threads;
  static constexpr int slices_per_block = Threads / C;
  static_assert(Threads % C == 0);
  using Shared = exec::NothingShared;
  using Row = RowProduct<T, Column, K>;

  Local rows;
  int k, first;
  bool add;
  const Global* slice_begin;  // [slices + 1]
  const Local* row;           // [slices C] or null
  const Column* column;
  const T* value;
  const T* x;
  T* y;

  static Global slices(Global rows) { return (rows + C - 1) / C; }
  static Global blocks(Global rows) { return (slices(rows) + slices_per_block - 1) / slices_per_block; }

  template <exec::Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    exec::for_items<Threads>(team, [&](int t) {
      const Global place = team.block() * Threads + t, slice = place / C;
      if (place >= (Global(rows) + C - 1) / C * C) return;
      typename Row::Sum sum{};
      Row::add(sum, slice_begin[slice] + place % C, slice_begin[slice + 1], C, column, value, x + first, k, place);
      const Global i = row ? row[place] : place;
      if (i >= 0 && i < rows) Row::store(sum, add, y + i * k + first);
    });
  }
};

}  // namespace tacit::op
