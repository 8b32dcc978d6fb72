// How LocalMatrix stores its entries in host memory; its parts are store.cpp and blocks.cpp (construction),
// product.cpp, entries.cpp (copies of entries) and mirror.cpp.
#pragma once

#include "block_rows.hpp"
#include "narrow.hpp"

#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tacit::op {

// SELL has slices of two kinds. General: every lane has column indices of its own. Diagonal, where neighbouring rows
// have the same pattern: the entries of a step lie on one diagonal of the matrix, so a step has one index, and x is
// read without a gather. A mask has a bit for each row that has an entry there; other rows read nothing. Slices of
// nearby rows that have equal patterns or equal values share one copy of them: a matrix with constant coefficients on a
// grid is then read from cache.
//
// Where every value is exact as float or as bfloat16, SELL and CSR have these, and products widen them: results have
// the same bits. One kind for all values of a rank: of 186 public matrices 34 are exact as a whole, one more in some of
// its parts of 8,192 rows. Not BSR, where widening takes longer than the cache does to bring the bytes saved.
template <Scalar T, Memory M>
struct LocalMatrix<T, M>::Storage {
  Local rows = 0, columns = 0;
  Global row_begin = 0, column_begin = 0, entries = 0;
  Format format = Format::csr;
  bool narrow = false;
  exec::Array<Global, Host> start;  // CSR: of rows, in entries; BSR: of block rows, in blocks
  // Column - row (CSR), column - first row of the slice (SELL, general), block column - block row (BSR).
  exec::Array<std::int16_t, Host> offset;
  exec::Array<Local, Host> column;  // the columns themselves, where 16 bits do not suffice
  enum class Numbers { given, single, bfloat16 } numbers = Numbers::given;  // which of these arrays has the values
  exec::Array<T, Host> value;
  exec::Array<InSingle<T>, Host> single;
  exec::Array<InBfloat16<T>, Host> brief;
  struct Slice {
    std::uint32_t steps : 31, is_diagonal : 1;
    std::uint32_t value;  // where its values begin, in units of `slice`
    // Where its column indices begin, in units of `slice`, or where its diagonals and masks begin.
    std::uint32_t pattern;
    // Diagonal: so many slices from this one on have an entry on each of the same diagonals in every row, and values
    // that follow each other or, if `repeats`, one copy of them.
    std::uint32_t alike : 31 = 1, repeats : 1 = 0;
    Global first_value() const { return Global(value) * slice; }
    Global first_index() const { return Global(pattern) * slice; }
  };
  exec::Array<Slice, Host> slices;        // SELL
  exec::Array<Local, Host> diagonal;      // SELL, diagonal: column - row of each step
  exec::Array<std::uint8_t, Host> mask;   // SELL, diagonal: of each step, the rows that have an entry
  bool shared = false;                    // SELL: whether slices share values
  std::vector<Local> width;               // SELL, general: entries of each row that are not padding
  std::vector<Local> empty;               // SELL, general: rows without entries among others that have some
  BlockGrid grid;                         // BSR
  RowList<T, Host> rest{LocalRows<T>()};  // BSR: the entries outside of full blocks
  struct Block {                          // of about block_entries
    Local row;                            // the first row
    int lowest = 0, needs = 0;            // LocalMatrix::lowest(), needs()
    Global entry = 0;                     // of this row, the first one, where all entries follow each other
  };
  std::vector<Block> block;
  // CSR: the rows of each block, counted from its first, by falling number of entries: rows of about one length are
  // summed at the same time.
  std::vector<std::uint16_t> order;
  bool scattered = false;  // CSR, SELL: most entries are in columns that the row before does not come near
  mutable std::vector<std::vector<Local>> needs;  // blocks of x that a block of rows reads; made by the first tasks

  // Entries of a block of rows, by which each step of powers() advances: the blocks of several steps fit a cache.
  static constexpr Global block_entries = 1 << 12;
  // A block also ends at multiples of this number of rows, so that each belongs to one task (exec::Tasks::block_of).
  static constexpr Local task_rows = 8192;

  /// Whether all numbers are 16-bit.
  static constexpr bool is_narrow(Global least, Global most) { return least >= INT16_MIN && most <= INT16_MAX; }

  template <class V>
  auto& array_of() {
    if constexpr (std::same_as<V, T>) return value;
    else if constexpr (std::same_as<V, InSingle<T>>) return single;
    else return brief;
  }
  /// f(the values), in the type in which they are stored.
  template <class F>
  decltype(auto) with_values(F&& f) const {
    if constexpr (is_narrower<T, InBfloat16<T>>)
      if (numbers == Numbers::bfloat16) return f(brief.data());
    if constexpr (is_narrower<T, InSingle<T>>)
      if (numbers == Numbers::single) return f(single.data());
    return f(value.data());
  }
  std::size_t stored() const { return value.size() + single.size() + brief.size(); }
  static constexpr std::size_t bytes_of(Numbers n) {
    return n == Numbers::given ? sizeof(T) : n == Numbers::single ? sizeof(InSingle<T>) : sizeof(InBfloat16<T>);
  }
  /// The value at a place that each_place() gives.
  T at(Global place) const {
    if (place < 0) return rest.values()[~place];
    return numbers == Numbers::given ? value[std::size_t(place)]
                                     : with_values([&](const auto* v) { return widen<T>(v[place]); });
  }

  void find_neighbours(const LocalRowsView<T>& a);
  /// The block that has this row, the last one for rows behind it.
  int block_of(Local row) const;
  /// Divides the rows into blocks that end at the end of a unit (`unit` rows each, counted from row `first`) or of
  /// task_rows.
  void cut(const LocalRowsView<T>& a, Local first, Local unit) {
    Global since = 0;
    block.push_back({0});
    for (Local r = 0; r < rows; ++r) {
      since += a.start[r + 1] - a.start[r] + 1;
      const bool full = since >= block_entries && (r + 1 - first) % unit == 0;
      if ((full || (r + 1) % task_rows == 0) && r + 1 < rows) block.push_back({r + 1}), since = 0;
    }
    block.push_back({rows});
  }
  void find_order();
  void find_scattered(const LocalRowsView<T>& a);
  /// Whether m columns of x, whose elements are read in no order, are more than the cache of a core holds.
  bool is_far(int m) const {
    return scattered && !narrow && sizeof(T) * std::size_t(m) * std::size_t(columns) > std::size_t(1) << 20;
  }
  /// Whether elements of x are asked for before a slice's products with m columns read them.
  bool fetches(const Slice& q, int m) const {
    return is_far(m) && q.first_index() + 2 * Global(q.steps) * slice <= Global(column.size());
  }
  struct Kinds;
  struct Chunk;
  /// The place of the entry at (row, column); `nowhere` where there is none.
  static constexpr Global nowhere = std::numeric_limits<Global>::max();
  Global find(Local row, Local of) const;
  template <class V>
  bool slice_mirrors_itself(const V* values, std::size_t q, std::span<const T> diagonals, Global& below,
                            Global& met) const;
  /// Where block (r, c) stands, in blocks; `nowhere` where there is none; BSR.
  Global find_block(Local r, Local c) const;
  bool block_row_mirrors_itself(Local r, std::span<const T> diagonals, Global& below, Global& met) const;
  /// Chooses how values are stored, before any is.
  void choose_numbers(std::span<const T> values);
  // Stored as V.
  template <class V>
  void store_rows(const LocalRowsView<T>& a);
  template <class V>
  void store_slices(const LocalRowsView<T>& a, const Kinds& kinds);
  template <class V>
  void store_chunk(const LocalRowsView<T>& a, const Kinds& kinds, std::size_t i, Chunk& c);
  template <class V>
  void close_gaps(std::span<Chunk> chunk);
  void find_alike(Local first, Local end);
  template <class V>
  void store_diagonals(const LocalRowsView<T>& a, Local base, Local steps, V* to, Global d);
  template <class V>
  void store_general(const LocalRowsView<T>& a, Local base, Local steps, V* to, Global index,
                     std::vector<Local>& without);
  void store_block_row(const LocalRowsView<T>& a, Local row, const Local* found, Global before, LocalRows<T>& outside);
  void store_blocks(const LocalRowsView<T>& a);

  Local column_of(Local origin, Global k) const { return narrow ? origin + offset[k] : column[k]; }
  /// y = A x for block rows [from, to); y points to their first row.
  void multiply_bsr(Local begin, Local end, const T* x, T* y, int columns) const;
  void multiply_blocks(Local from, Local to, const T* x, T* y, int columns) const;
  /// Rows [begin, end), whole slices, of the products with K vectors; SELL.
  template <std::size_t K>
  void multiply_slices(Local begin, Local end, const std::array<const T*, K>& x, const std::array<T*, K>& y) const;
  template <class V, std::size_t K>
  void multiply_slices(const V* all, Local begin, Local end, const std::array<const T*, K>& x,
                       const std::array<T*, K>& y) const;
  const T* wide_values(Global first, std::size_t n) const;
  /// Rows of block b of y = A x; CSR.
  void multiply_rows(int b, const T* x, T* y, int columns) const;
  template <int m, class Index, class Columns>
  void multiply_rows(const T* values, const Index* index, int b, const T* x, T* y, Columns columns,
                     bool streamed) const;
  /// Rows [begin, end) of y = A x for several columns; SELL.
  void multiply_columns(Local begin, Local end, const T* x, T* y, int columns) const;
  template <int m, class Index, class Columns>
  void multiply_columns(const Index* indices, Local begin, Local end, const T* x, T* y, Columns columns,
                        bool streamed) const;
  template <int m, class Columns>
  void multiply_diagonals(const Slice& q, const T* values, int rows_here, const T* x, T* y, Columns columns,
                          bool streamed) const;
  /// Rows of block b of y = A x.
  void multiply(int b, const T* x, T* y, int columns) const;
  /// Calls f(row, column, value) for the rows of blocks [from, to), rows and columns ascending.
  template <class F>
  void each(int from, int to, F&& f) const {
    each_place(from, to, [&](Local row, Local of, Global place) { f(row, of, at(place)); });
  }
  /// The same with the place of the value: its index or, in `rest`, the complement of its index there.
  template <class F>
  void each_place(int from, int to, F&& f) const;
  /// Calls f(row, k, place) for entry k of the rows of a block.
  template <class F>
  void each_value(int b, F&& f) const;
  /// Calls f(k, place) for the entries of a block, k in values of which row i has begin[i], begin[i] + 1, ...; null: in
  /// those of all rows, one after the other.
  template <class F>
  void each_number(int b, const Global* begin, F&& f) const;
  template <class F>
  void each_of_blocks(int b, F&& f) const;
  /// Whether these values are exact as values are stored.
  bool holds(const Global* begin, const T* values) const;
  /// Replaces the values by these, which are. Stores the entries (i, i) in diagonal_of[i], where that is not null.
  void replace(const Global* begin, const T* values, T* diagonal_of);
  /// Stores the entries (i, i) of the rows of a block in diagonal[i].
  void copy_diagonal(int b, T* diagonal) const;
  /// Calls f(row, column, value) for the entries of rows and columns [first, first + count), numbered from 0, by all
  /// threads: each row on one of them, columns ascending.
  template <class F>
  void each_of_block(Local first, Local count, const F& f) const;
  double bytes() const { return bytes(bytes_of(numbers)); }
  double bytes(std::size_t of_value) const {
    return double(stored() * of_value) + double(offset.size()) * 2 + double(column.size() + diagonal.size()) * 4 +
           double(mask.size()) + double(slices.size()) * sizeof(Slice) + double(start.size()) * sizeof(Global) +
           double(order.size()) * sizeof(std::uint16_t) + rest.bytes();
  }
};

template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_place(int from, int to, F&& f) const {
  for (int b = from; b < to; ++b) {
    for (Local row = block[b].row; row < block[b + 1].row; ++row) {
      if (format == Format::csr) {
        for (Global k = start[row]; k < start[row + 1]; ++k) f(row, column_of(row, k), k);
      } else if (format == Format::sell) {
        const Local base = row / slice * slice, l = row - base;
        const Slice& of = slices[std::size_t(base / slice)];
        const Local n = of.is_diagonal ? Local(of.steps) : width[row];
        const std::size_t d = of.pattern;
        for (Local j = 0; j < n; ++j) {
          const Global at = Global(j) * slice + l;
          const Global place = of.first_value() + at;
          if (!of.is_diagonal) f(row, column_of(base, of.first_index() + at), place);
          else if (mask[d + std::size_t(j)] >> l & 1) f(row, row + diagonal[d + std::size_t(j)], place);
        }
      } else {
        const Local r = grid.block_row(row), i = row - grid.first_row(r), size = grid.b;
        const Local p = rest.count() ? rest.place(row) : 0;
        const bool more = p < rest.count() && rest.row(p) == row;
        const auto columns_outside = more ? rest.columns_of(p) : std::span<const Local>();
        const Global place_outside = more ? rest.values_of(p).data() - rest.values() : 0;
        std::size_t t = 0;
        const auto outside_until = [&](Local column) {
          for (; t < columns_outside.size() && columns_outside[t] < column; ++t)
            f(row, columns_outside[t], ~(place_outside + Global(t)));
        };
        for (Global k = r < 0 ? 0 : start[r]; k < (r < 0 ? 0 : start[r + 1]); ++k) {
          const Local first = grid.column + column_of(r, k) * size;
          outside_until(first);
          for (Local j = 0; j < size; ++j) f(row, first + j, (k * size + j) * size + i);
        }
        outside_until(columns);
      }
    }
  }
}

}  // namespace tacit::op
