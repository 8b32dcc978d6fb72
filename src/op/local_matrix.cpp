#include "block_rows.hpp"
#include "recurrence_impl.hpp"

#include <tacit/base/lanes.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/hermitian.hpp>
#include <tacit/op/local_matrix.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

namespace tacit::op {
namespace {

// Entries of a block of rows, by which each step of powers() advances: the blocks of several steps fit a cache.
constexpr Global block_entries = 1 << 12;
// The number of blocks that a thread multiplies between two polls: some tens of microseconds.
constexpr int poll_blocks = 16;
// A block also ends at multiples of this number of rows, so that each belongs to one task (exec::Tasks::block_of).
constexpr Local task_rows = 8192;

/// A copy, made by all threads.
template <class T>
exec::Array<T, Host> array(std::span<const T> from) {
  auto to = exec::Array<T, Host>::uninitialised(from.size());
  constexpr std::size_t piece = 1 << 15;
  const std::size_t pieces = (from.size() + piece - 1) / piece;
  exec::parallel_for(pieces, pieces > 16, [&](std::size_t i) {
    const auto some = from.subspan(i * piece, std::min(piece, from.size() - i * piece));
    std::memcpy(static_cast<void*>(to.data() + i * piece), some.data(), some.size_bytes());
  });
  return to;
}
template <class T>
exec::Array<T, Host> array(const std::vector<T>& v) {
  return array(std::span<const T>(v));
}

/// Whether all numbers are 16-bit.
constexpr bool is_narrow(Global least, Global most) {
  return least >= INT16_MIN && most <= INT16_MAX;
}

constexpr int column_tile = 8;  // columns of x that are multiplied at once

}  // namespace

// SELL has slices of two kinds. General: every lane has column indices of its own. Diagonal, where neighbouring rows
// have the same pattern: the entries of a step lie on one diagonal of the matrix, so a step has one index, and x is
// read without a gather. A mask has a bit for each row that has an entry there; other rows read nothing.
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
  exec::Array<T, Host> value;
  exec::Array<std::uint32_t, Host> shape;  // SELL: of slices, 2 steps + (1 if diagonal)
  exec::Array<Local, Host> diagonal;       // SELL, diagonal: column - row of each step
  exec::Array<std::uint8_t, Host> mask;    // SELL, diagonal: of each step, the rows that have an entry
  std::vector<Local> width;                // SELL, general: entries of each row that are not padding
  std::vector<Local> empty;                // SELL, general: rows without entries among others that have some
  BlockGrid grid;                          // BSR
  RowList<T, Host> rest{LocalRows<T>()};   // BSR: the entries outside of full blocks
  struct Block {                           // of about block_entries
    Local row;                             // the first row
    Global value, index, diagonal;         // where its slices begin (SELL)
    Local reach = 0;                       // this block and those before it read columns less than this
  };
  std::vector<Block> block;
  mutable std::vector<std::vector<Local>> needs;  // blocks of x that a block of rows reads; made by the first tasks

  void find_reach(const LocalRowsView<T>& a);
  /// Divides the rows into blocks that end at the end of a unit (`unit` rows each, counted from row `first`) or of
  /// task_rows.
  void cut(const LocalRowsView<T>& a, Local first, Local unit) {
    Global since = 0;
    block.push_back({0, 0, 0, 0});
    for (Local r = 0; r < rows; ++r) {
      since += a.start[r + 1] - a.start[r] + 1;
      const bool full = since >= block_entries && (r + 1 - first) % unit == 0;
      if ((full || (r + 1) % task_rows == 0) && r + 1 < rows) block.push_back({r + 1, 0, 0, 0}), since = 0;
    }
    block.push_back({rows, 0, 0, 0});
  }
  struct Slices;
  /// Where the slices of SELL begin, by which find() goes to a row.
  struct Places {
    std::vector<Global> value, index, diagonal;
    explicit Places(const Storage& s);
  };
  /// The entry at (row, column); null where there is none.
  const T* find(const Places& places, Local row, Local of) const;
  bool slice_mirrors_itself(const Places& places, std::size_t q, std::span<const T> diagonals, Global& below,
                            Global& met) const;
  void store_rows(const LocalRowsView<T>& a);
  void store_slices(const LocalRowsView<T>& a, const Slices& slices);
  void store_diagonals(const LocalRowsView<T>& a, Local base, Local steps, Global v, Global d);
  void store_general(const LocalRowsView<T>& a, Local base, Local steps, Global v, Global index,
                     std::vector<Local>& without);
  void store_block_row(const LocalRowsView<T>& a, Local row, const Local* found, Global before, LocalRows<T>& outside);
  void store_blocks(const LocalRowsView<T>& a);

  Local column_of(Local origin, Global k) const { return narrow ? origin + offset[k] : column[k]; }
  /// y = A x for block rows [from, to); y points to their first row.
  void multiply_blocks(Local from, Local to, const T* x, T* y, int columns) const;
  /// Rows of block b of y = A x.
  void multiply(int b, const T* x, T* y, int columns) const;
  /// Calls f(row, column, value) for the rows of blocks [from, to), rows and columns ascending.
  template <class F>
  void each(int from, int to, F&& f) const;
  /// Calls f(row, k, value) for entry k of the rows of a block.
  template <class F>
  void each_value(int b, F&& f) const;
  /// Stores the entries (i, i) of the rows of a block in diagonal[i].
  void copy_diagonal(int b, T* diagonal) const;
  /// Calls f(row, column, value) for the entries of rows and columns [first, first + count), numbered from 0, by all
  /// threads: each row on one of them, columns ascending.
  template <class F>
  void each_of_block(Local first, Local count, const F& f) const;
  double bytes() const {
    return double(value.size()) * sizeof(T) + double(offset.size()) * 2 + double(column.size() + diagonal.size()) * 4 +
           double(mask.size()) + double(shape.size()) * 4 + double(start.size()) * sizeof(Global) + rest.bytes();
  }
};

namespace {

// Prefetches: without it one core does not keep enough loads of the matrix in flight.
template <class T>
[[gnu::always_inline]] inline void fetch_ahead(const T* p) {
  __builtin_prefetch(reinterpret_cast<const char*>(p) + 1024);
}

// One row of CSR times one column of x. Index is the row's column list: offsets from r or absolute.
template <class T, class Index>
inline T csr_row(const T* value, const Index* index, Global n, const T* x) {
  T sum{};
  for (Global k = 0; k < n; ++k) sum += value[k] * x[index[k]];
  return sum;
}

// Calls f(first, m) for tiles of m columns; m is a compile-time constant, so that sums stay in registers.
template <class F>
inline void each_tile(int columns, F&& f) {
  int first = 0;
  for (; first + column_tile <= columns; first += column_tile) f(first, std::integral_constant<int, column_tile>{});
  const auto rest = [&]<int... M>(std::integer_sequence<int, M...>) {
    (void)((columns - first == M + 1 && (f(first, std::integral_constant<int, M + 1>{}), true)) || ...);
  };
  rest(std::make_integer_sequence<int, column_tile - 1>{});
}

// sum[c] += a x[c] for m columns. Complex numbers as pairs of reals, which gcc vectorises; with the same roundings.
template <class T, class Width>
inline void add_multiple(T a, const T* x, T* sum, Width m) {
  if constexpr (is_complex<T>) {
    const auto re = a.real(), im = a.imag();
    const auto* const from = reinterpret_cast<const real_t<T>*>(x);
    auto* const to = reinterpret_cast<real_t<T>*>(sum);
    for (int c = 0; c < m; ++c) {
      const auto real = re * from[2 * c] - im * from[2 * c + 1], imaginary = re * from[2 * c + 1] + im * from[2 * c];
      to[2 * c] += real, to[2 * c + 1] += imaginary;
    }
  } else {
    for (int c = 0; c < m; ++c) sum[c] += a * x[c];
  }
}

template <class T, int C>
struct Register {
  typedef T type __attribute__((vector_size(C * sizeof(T))));
};

// y[c] = sum of value(k) x(k)[c] over k < n that are there, for m columns.
template <class T, class Width, class Value, class At, class There>
inline void sum_columns(Width m, Global n, T* y, Value&& value, At&& x, There&& there) {
  if constexpr (!is_complex<T> && (m == 2 || m == 4 || m == 8)) {  // gcc 12 does not keep an array in a register
    using V = typename Register<T, int(m)>::type;
    V sum = {}, from;
    for (Global k = 0; k < n; ++k)
      if (there(k)) {
        std::memcpy(&from, x(k), sizeof from);
        sum += value(k) * from;
      }
    std::memcpy(y, &sum, sizeof sum);
  } else {
    T sum[m] = {};
    for (Global k = 0; k < n; ++k)
      if (there(k)) add_multiple(value(k), x(k), sum, m);
    std::copy_n(sum, int(m), y);
  }
}

template <class T, class Index>
inline void csr_row_columns(const T* value, const Index* index, Global n, const T* x, T* y, int columns) {
  each_tile(columns, [&](int c0, auto m) {
    sum_columns(
        m, n, y + c0, [&](Global k) { return value[k]; },
        [&](Global k) { return x + std::ptrdiff_t(index[k]) * columns + c0; }, [](Global) { return true; });
  });
}

// One general slice of SELL times one column of x: lane l is a row, so a step is one SIMD instruction wide.
template <int C, class T, class Index>
inline void general_slice(const T* value, const Index* index, Local steps, const T* x, T* sum) {
  T acc[C] = {};
  for (Local j = 0; j < steps; ++j, value += C, index += C) {
    fetch_ahead(value);
#pragma GCC ivdep
    for (int l = 0; l < C; ++l) acc[l] += value[l] * x[index[l]];
  }
  for (int l = 0; l < C; ++l) sum[l] = acc[l];
}

// One diagonal slice times one column of x, which points to the element of the slice's first row.
template <int C, class T>
inline void diagonal_slice(const T* value, const Local* diagonal, const std::uint8_t* mask, Local steps, const T* x,
                           T* sum) {
  constexpr unsigned full = (1u << C) - 1;
  const auto masked = [&](Local j, T* some) {
    for (int l = 0; l < C; ++l) some[l] = mask[j] >> l & 1 ? x[std::ptrdiff_t(diagonal[j]) + l] : T{};
  };
  if constexpr (is_complex<T>) {
    T acc[C] = {}, some[C];
    for (Local j = 0; j < steps; ++j, value += C) {
      const T* from = x + diagonal[j];
      if (mask[j] != full) masked(j, some), from = some;
#pragma GCC ivdep
      for (int l = 0; l < C; ++l) acc[l] += value[l] * from[l];
    }
    for (int l = 0; l < C; ++l) sum[l] = acc[l];
  } else {
    using V = typename Register<T, C>::type;
    V acc = {}, v, from;
    for (Local j = 0; j < steps; ++j, value += C) {
      fetch_ahead(value);
      std::memcpy(&v, value, sizeof v);
      if (mask[j] == full) [[likely]] {
        std::memcpy(&from, x + diagonal[j], sizeof from);
      } else {
        T some[C];
        masked(j, some);
        std::memcpy(&from, some, sizeof from);
      }
      acc += v * from;
    }
    std::memcpy(sum, &acc, sizeof acc);
  }
}

// The same for two interleaved columns, as the s-step methods multiply them.
template <int C, class T>
requires(!is_complex<T>) inline void diagonal_slice_pair(const T* value, const Local* diagonal,
                                                         const std::uint8_t* mask, Local steps, const T* x, T* sum) {
  constexpr unsigned full = (1u << C) - 1;
  using V = typename Register<T, C>::type;
  V acc[2] = {}, v, from[2];
  for (Local j = 0; j < steps; ++j, value += C) {
    fetch_ahead(value);
    std::memcpy(&v, value, sizeof v);
    if (mask[j] == full) [[likely]] {
      std::memcpy(from, x + 2 * std::ptrdiff_t(diagonal[j]), sizeof from);
    } else {
      T some[2 * C];
      for (int l = 0; l < C; ++l)
        for (int c = 0; c < 2; ++c)
          some[2 * l + c] = mask[j] >> l & 1 ? x[2 * (std::ptrdiff_t(diagonal[j]) + l) + c] : T{};
      std::memcpy(from, some, sizeof from);
    }
    acc[0] += shuffled<[](int l) { return l / 2; }>(v, v) * from[0];
    acc[1] += shuffled<[](int l) { return (C + l) / 2; }>(v, v) * from[1];
  }
  std::memcpy(sum, acc, sizeof acc);
}

// A slice times several columns of x. column(j, l) is the column of the entry of row l in step j, counted from x;
// there(j, l) whether there is one.
template <int C, class T, class Column, class There>
inline void slice_columns(const T* value, Local steps, int rows, const T* x, T* y, int columns, Column&& column,
                          There&& there) {
  for (int l = 0; l < rows; ++l)
    each_tile(columns, [&](int c0, auto m) {
      sum_columns(
          m, steps, y + std::ptrdiff_t(l) * columns + c0, [&](Global j) { return value[j * C + l]; },
          [&](Global j) { return x + column(Local(j), l) * columns + c0; },
          [&](Global j) { return there(Local(j), l); });
    });
}

template <int C, class T>
inline void diagonals_times_columns(const T* value, const Local* diagonal, const std::uint8_t* mask, Local steps,
                                    int rows, const T* x, T* y, int columns) {
  if constexpr (!is_complex<T>)
    if (columns == 2 && rows == C) return diagonal_slice_pair<C>(value, diagonal, mask, steps, x, y);
  const auto column = [&](Local j, int l) { return std::ptrdiff_t(diagonal[j]) + l; };
  unsigned all = (1u << C) - 1;
  for (Local j = 0; j < steps; ++j) all &= mask[j];
  if (all == (1u << C) - 1)
    slice_columns<C>(value, steps, rows, x, y, columns, column, [](Local, int) { return true; });
  else slice_columns<C>(value, steps, rows, x, y, columns, column, [&](Local j, int l) { return mask[j] >> l & 1; });
}

}  // namespace

/// The kinds of slices, and their numbers of steps, in SELL; found for chunks of task_rows rows.
template <Scalar T, Memory M>
struct LocalMatrix<T, M>::Storage::Slices {
  struct Chunk {
    std::vector<Local> diagonals;  // of all diagonal slices
    Global padded = 0, general = 0;
    bool narrow_rows = true, narrow_slices = true;
  };
  exec::Array<std::uint32_t, Host> shape;
  std::vector<Chunk> chunk;
  Global padded = 0, general = 0, diagonals = 0;
  bool narrow_rows = true, narrow_slices = true;

  explicit Slices(const LocalRowsView<T>& a)
      : shape(exec::Array<std::uint32_t, Host>::uninitialised(std::size_t((a.count() + slice - 1) / slice))),
        chunk(std::size_t((a.count() + task_rows - 1) / task_rows)) {
    exec::parallel_for(
        chunk.size(), chunk.size() > 1,
        [&](std::size_t i) {
          std::vector<Local> found, merged;
          const Local end = std::min(a.count(), Local(i + 1) * task_rows);
          for (Local base = Local(i) * task_rows; base < end; base += slice) add(a, base, chunk[i], found, merged);
        },
        1);
    for (const Chunk& c : chunk) {
      padded += c.padded, general += c.general, diagonals += Global(c.diagonals.size());
      narrow_rows &= c.narrow_rows, narrow_slices &= c.narrow_slices;
    }
    // Offsets are relative to x[row] (or that of the slice's first row), so each row has to be a column as well.
    narrow_rows &= a.count() <= a.columns;
    narrow_slices &= a.count() <= a.columns;
  }

 private:
  /// Whether all rows of a slice have the pattern of its first row, shifted: the case of most slices on grids.
  static bool is_uniform(const LocalRowsView<T>& a, Local base) {
    if (a.count() - base < slice) return false;
    const Global first = a.start[base], n = a.start[base + 1] - first;
    if (a.start[base + slice] - first != n * slice) return false;
    const Local* const c = a.column.data() + first;
    for (Local l = 1; l < slice; ++l) {
      if (a.start[base + l] - first != n * l) return false;
      const Local* const other = c + n * l;
      Local differ = 0;
      for (Global k = 0; k < n; ++k) differ |= other[k] - c[k] - l;
      if (differ) return false;
    }
    return true;
  }

  /// Adds the diagonals of a row to those found, which ascend.
  static void merge(const LocalRowsView<T>& a, Local r, std::vector<Local>& found, std::vector<Local>& merged) {
    merged.clear();
    auto old = found.begin();
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) {
      const Local d = a.column[k] - r;
      while (old != found.end() && *old < d) merged.push_back(*old++);
      if (old != found.end() && *old == d) ++old;
      merged.push_back(d);
    }
    merged.insert(merged.end(), old, found.end());
    found.swap(merged);
  }

  void add(const LocalRowsView<T>& a, Local base, Chunk& c, std::vector<Local>& found, std::vector<Local>& merged) {
    const Local end = std::min(a.count(), base + slice);
    found.clear();
    Global width = 0;
    bool narrow = true;
    const auto look = [&](Local r) {
      const Global first = a.start[r], last = a.start[r + 1] - 1;
      width = std::max(width, last + 1 - first);
      if (last < first) return;
      c.narrow_rows &= is_narrow(Global(a.column[first]) - r, Global(a.column[last]) - r);
      narrow &= is_narrow(Global(a.column[first]) - base, Global(a.column[last]) - base);
    };
    bool is_diagonal = is_uniform(a, base);
    if (is_diagonal) {
      look(base), look(end - 1);
      for (Global k = a.start[base]; k < a.start[base + 1]; ++k) found.push_back(a.column[k] - base);
    } else {
      for (Local r = base; r < end; ++r) look(r);
      const Global most = width + width / 4;
      for (Local r = base; r < end && Global(found.size()) <= most; ++r) merge(a, r, found, merged);
      is_diagonal = Global(found.size()) <= most;
    }
    const Global steps = is_diagonal ? Global(found.size()) : width;
    shape[std::size_t(base / slice)] = checked_cast<std::uint32_t>(2 * steps + is_diagonal, "the length of a row");
    if (is_diagonal) c.diagonals.insert(c.diagonals.end(), found.begin(), found.end());
    else c.general += steps * slice, c.narrow_slices &= narrow;
    c.padded += steps * slice;
  }
};

template <Scalar T, Memory M>
LocalMatrix<T, M>::LocalMatrix(const LocalRowsView<T>& a, Format format) : s_(std::make_unique<Storage>()) {
  Storage& s = *s_;
  s.rows = a.count(), s.columns = a.columns;
  s.row_begin = a.row_begin, s.column_begin = a.column_begin;
  s.entries = a.start.back();
  const typename Storage::Slices slices(a);
  const bool sell =
      format == Format::sell || (format == Format::automatic && slices.padded <= s.entries + s.entries / 10);
  if (format == Format::automatic || format == Format::bsr) {
    const double otherwise =
        sell ? double(slices.padded) * sizeof(T) + double(slices.general) * (slices.narrow_slices ? 2 : 4) +
                   double(slices.diagonals) * 5
             : double(s.entries) * (sizeof(T) + (slices.narrow_rows ? 2 : 4)) + double(s.rows) * sizeof(Global);
    const auto pays = [&](double bytes) { return format == Format::bsr || bytes <= 0.95 * otherwise; };
    double of_entry;
    s.grid = BlockGrid::best(a, of_entry);
    if (pays(of_entry * double(s.entries))) {
      s.store_blocks(a);
      s.find_reach(a);
      if (pays(s.bytes())) return;  // the sample has represented the matrix
      s.start = {}, s.offset = {}, s.column = {}, s.block.clear();
      s.rest = RowList<T, Host>(LocalRows<T>());
    }
  }
  s.format = sell ? Format::sell : Format::csr;
  s.narrow = sell ? slices.narrow_slices : slices.narrow_rows;
  if (sell) s.store_slices(a, slices);
  else s.store_rows(a);
  s.find_reach(a);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::find_reach(const LocalRowsView<T>& a) {
  const std::size_t blocks = block.empty() ? 0 : block.size() - 1;
  exec::parallel_for(blocks, blocks > 64, [&](std::size_t b) {
    Local reach = 0;
    for (Local r = block[b].row; r < block[b + 1].row; ++r)
      if (a.start[r + 1] > a.start[r]) reach = std::max(reach, a.column[a.start[r + 1] - 1] + 1);
    block[b].reach = reach;
  });
  for (std::size_t b = 1; b < blocks; ++b) block[b].reach = std::max(block[b].reach, block[b - 1].reach);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_rows(const LocalRowsView<T>& a) {
  start = array(a.start);
  value = array(a.value);
  if (narrow) {
    offset = exec::Array<std::int16_t, Host>::uninitialised(a.column.size());
    exec::parallel_for(std::size_t(rows), rows > task_rows, [&](std::size_t r) {
      for (Global k = a.start[r]; k < a.start[r + 1]; ++k) offset[k] = std::int16_t(a.column[k] - Local(r));
    });
  } else {
    column = array(a.column);
  }
  cut(a, 0, 1);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_slices(const LocalRowsView<T>& a, const Slices& slices) {
  value = exec::Array<T, Host>::uninitialised(std::size_t(slices.padded));
  if (narrow) offset = exec::Array<std::int16_t, Host>::uninitialised(std::size_t(slices.general));
  else column = exec::Array<Local, Host>::uninitialised(std::size_t(slices.general));
  shape = slices.shape;
  diagonal = exec::Array<Local, Host>(std::size_t(slices.diagonals));
  mask = exec::Array<std::uint8_t, Host>(std::size_t(slices.diagonals));
  width.resize(slices.general ? std::size_t(rows) : 0);
  struct Chunk {
    Global value = 0, index = 0, diagonal = 0;  // where it begins
    std::vector<Block> block;
    std::vector<Local> empty;
  };
  std::vector<Chunk> chunk(slices.chunk.size());
  for (std::size_t i = 1; i < chunk.size(); ++i) {
    const auto& before = slices.chunk[i - 1];
    chunk[i].value = chunk[i - 1].value + before.padded;
    chunk[i].index = chunk[i - 1].index + before.general;
    chunk[i].diagonal = chunk[i - 1].diagonal + Global(before.diagonals.size());
  }
  exec::parallel_for(
      chunk.size(), chunk.size() > 1,
      [&](std::size_t i) {
        Chunk& c = chunk[i];
        std::copy(slices.chunk[i].diagonals.begin(), slices.chunk[i].diagonals.end(), diagonal.data() + c.diagonal);
        Global v = c.value, index = c.index, d = c.diagonal, since = block_entries;
        const Local end = std::min(rows, Local(i + 1) * task_rows);
        for (Local base = Local(i) * task_rows; base < end; base += slice) {
          const std::uint32_t kind = shape[base / slice];
          const Local steps = Local(kind / 2);
          if (since >= block_entries) c.block.push_back({base, v, index, d}), since = 0;
          since += Global(steps) * slice + slice;
          if (kind & 1) store_diagonals(a, base, steps, v, d), d += steps;
          else store_general(a, base, steps, v, index, c.empty), index += Global(steps) * slice;
          v += Global(steps) * slice;
        }
      },
      1);
  for (const Chunk& c : chunk) {
    block.insert(block.end(), c.block.begin(), c.block.end());
    empty.insert(empty.end(), c.empty.begin(), c.empty.end());
  }
  block.push_back({rows, slices.padded, slices.general, slices.diagonals});
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_diagonals(const LocalRowsView<T>& a, Local base, Local steps, Global v,
                                                 Global d) {
  const Local here = std::min(slice, rows - base);
  const Global first = a.start[base];
  T* const to = value.data() + v;
  if (a.start[base + here] - first == Global(steps) * slice) {  // every row has an entry on each diagonal
    const T* const from = a.value.data() + first;
    for (Local j = 0; j < steps; ++j)
      for (int l = 0; l < slice; ++l) to[std::ptrdiff_t(j) * slice + l] = from[std::ptrdiff_t(l) * steps + j];
    std::fill_n(mask.data() + d, steps, std::uint8_t((1u << slice) - 1));
    return;
  }
  std::fill_n(to, std::ptrdiff_t(steps) * slice, T{});
  for (int l = 0; l < here; ++l) {
    Local j = 0;
    for (Global k = a.start[base + l]; k < a.start[base + l + 1]; ++k) {
      while (diagonal[d + j] != a.column[k] - (base + l)) ++j;
      to[std::ptrdiff_t(j) * slice + l] = a.value[k];
      mask[d + j] |= std::uint8_t(1u << l);
    }
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_general(const LocalRowsView<T>& a, Local base, Local steps, Global v,
                                               Global index, std::vector<Local>& without) {
  for (int l = 0; l < slice; ++l) {
    const Local r = base + l;
    const Global first = r < rows ? a.start[r] : 0, count = r < rows ? a.start[r + 1] - first : 0;
    if (r < rows) width[std::size_t(r)] = Local(count);
    // Padding multiplies zero by an element that the row reads anyway, so that no NaN of another element spoils it. A
    // row without entries is set to zero after the product.
    if (r < rows && !count) without.push_back(r);
    const Local idle = count ? a.column[first] : std::min(base, std::max<Local>(0, a.columns - 1));
    for (Local j = 0; j < steps; ++j) {
      const Local c = j < count ? a.column[first + j] : idle;
      const Global at = Global(j) * slice + l;
      value[v + at] = j < count ? a.value[first + j] : T{};
      if (narrow) offset[index + at] = std::int16_t(c - base);
      else column[index + at] = c;
    }
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_blocks(const LocalRowsView<T>& a) {
  format = Format::bsr;
  const int b = grid.b;
  // Chunks of block rows; the first and the last one also have the rows above and below all block rows.
  constexpr Local chunk_rows = 1024;
  struct Chunk {
    std::vector<Local> found;
    std::vector<Global> count;
    LocalRows<T> outside;
    Global begin = 0;  // its first block
    bool narrow = true;
  };
  std::vector<Chunk> chunk(std::size_t(std::max(Local(1), (grid.block_rows + chunk_rows - 1) / chunk_rows)));
  const auto first_of = [&](std::size_t i) { return std::min(grid.block_rows, Local(i) * chunk_rows); };
  exec::parallel_for(
      chunk.size(), chunk.size() > 1,
      [&](std::size_t i) {
        Chunk& to = chunk[i];
        std::vector<Local> found;
        for (Local r = first_of(i); r < first_of(i + 1); ++r) {
          grid.find(a, r, found);
          for (const Local c : found) to.narrow &= is_narrow(c - r, c - r);
          to.found.insert(to.found.end(), found.begin(), found.end());
          to.count.push_back(Global(found.size()));
        }
      },
      1);
  start = exec::Array<Global, Host>::uninitialised(std::size_t(grid.block_rows) + 1);
  Global blocks = 0;
  Local row = 0;
  narrow = true;
  for (Chunk& c : chunk) {
    c.begin = blocks;
    narrow &= c.narrow;
    for (const Global n : c.count) start[row++] = blocks, blocks += n;
  }
  start[row] = blocks;
  value = exec::Array<T, Host>::uninitialised(std::size_t(blocks) * std::size_t(b * b) + BlockGrid::slack / sizeof(T));
  std::fill(value.data() + blocks * b * b, value.data() + value.size(), T{});
  if (narrow) offset = exec::Array<std::int16_t, Host>::uninitialised(std::size_t(blocks));
  else column = exec::Array<Local, Host>::uninitialised(std::size_t(blocks));
  exec::parallel_for(
      chunk.size(), chunk.size() > 1,
      [&](std::size_t i) {
        Chunk& from = chunk[i];
        for (Local r = first_of(i); r < first_of(i + 1); ++r)
          for (Global k = start[r]; k < start[r + 1]; ++k) {
            const Local c = from.found[std::size_t(k - from.begin)];
            if (narrow) offset[k] = std::int16_t(c - r);
            else column[k] = c;
          }
        const Local first = i == 0 ? 0 : grid.first_row(first_of(i));
        const Local last = i + 1 == chunk.size() ? rows : grid.first_row(first_of(i + 1));
        for (Local r = first; r < last; ++r) store_block_row(a, r, from.found.data(), from.begin, from.outside);
      },
      1);
  LocalRows<T> outside;
  outside.columns = columns;
  for (const Chunk& c : chunk) {
    const Global before = Global(outside.column.size());
    outside.column.insert(outside.column.end(), c.outside.column.begin(), c.outside.column.end());
    outside.value.insert(outside.value.end(), c.outside.value.begin(), c.outside.value.end());
    for (std::size_t r = 1; r < c.outside.start.size(); ++r) outside.start.push_back(before + c.outside.start[r]);
  }
  rest = RowList<T, Host>(outside);
  cut(a, grid.row, b);
}

/// The entries of one row: those in full blocks (found[k - before] is the block column of block k) to these, others
/// `outside`.
template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_block_row(const LocalRowsView<T>& a, Local row, const Local* found,
                                                 Global before, LocalRows<T>& outside) {
  const Local b = grid.b, r = grid.block_row(row), i = row - grid.first_row(r);
  Global k = r < 0 ? 0 : start[r];
  const Global end = r < 0 ? 0 : start[r + 1];
  for (Global e = a.start[row]; e < a.start[row + 1]; ++e) {
    const Local c = a.column[e] - grid.column;
    while (k < end && c >= (found[k - before] + 1) * b) ++k;
    if (k < end && c >= found[k - before] * b) {
      value[k * b * b + (c - found[k - before] * b) * b + i] = a.value[e];
    } else {
      outside.column.push_back(a.column[e]);
      outside.value.push_back(a.value[e]);
    }
  }
  outside.start.push_back(Global(outside.column.size()));
}

template <Scalar T, Memory M>
LocalMatrix<T, M>::~LocalMatrix() = default;
template <Scalar T, Memory M>
LocalMatrix<T, M>::LocalMatrix(LocalMatrix&&) noexcept = default;

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::multiply_blocks(Local from, Local to, const T* x, T* y, int columns) const {
  x += std::ptrdiff_t(grid.column) * columns;
  with_block_size(grid.b, [&](auto b) {
    const auto tile = [&](auto rows_of_blocks, int c) {
      decltype(rows_of_blocks)::multiply(from, to, start.data(), value.data(), narrow ? offset.data() : nullptr,
                                         column.data(), x + c, y + c, columns);
    };
    if (columns == 1) return tile(BlockRows<b, 1, T, true>(), 0);
    int c = 0;
    for (; c + 4 <= columns; c += 4) tile(BlockRows<b, 4, T>(), c);
    if (columns - c >= 2) tile(BlockRows<b, 2, T>(), c), c += 2;
    if (columns - c == 1) tile(BlockRows<b, 1, T>(), c);
  });
}

template <Scalar T, Memory M>
TACIT_COMPILED_ONCE void LocalMatrix<T, M>::Storage::multiply(int b, const T* x, T* y, int columns) const {
  const Storage& s = *this;
  const auto csr = [&](Local begin, Local end, const auto* index, bool relative) {
    for (Local r = begin; r < end; ++r) {
      const Global first = s.start[r], n = s.start[r + 1] - first;
      const T* const origin = relative ? x + std::ptrdiff_t(r) * columns : x;
      if (columns == 1) y[r] = csr_row(s.value.data() + first, index + first, n, origin);
      else csr_row_columns(s.value.data() + first, index + first, n, origin, y + std::ptrdiff_t(r) * columns, columns);
    }
  };
  const auto sell = [&](const typename Storage::Block& from, Local end, const auto* index, bool relative) {
    const T* value = s.value.data() + from.value;
    const Local* diagonal = s.diagonal.data() + from.diagonal;
    const std::uint8_t* mask = s.mask.data() + from.diagonal;
    index += from.index;
    for (Local base = from.row; base < end; base += slice) {
      const std::uint32_t shape = s.shape[base / slice];
      const Local steps = Local(shape / 2), rows = std::min<Local>(slice, end - base);
      const T* const own = x + std::ptrdiff_t(base) * columns;
      const T* const origin = relative ? own : x;
      T* const to = y + std::ptrdiff_t(base) * columns;
      T sum[slice];
      if (columns == 1) {
        T* const out = rows == slice ? to : sum;
        if (shape & 1) diagonal_slice<slice>(value, diagonal, mask, steps, own, out);
        else general_slice<slice>(value, index, steps, origin, out);
        if (out == sum) std::copy_n(sum, rows, to);
      } else if (shape & 1) {
        diagonals_times_columns<slice>(value, diagonal, mask, steps, rows, own, to, columns);
      } else {
        slice_columns<slice>(
            value, steps, rows, origin, to, columns,
            [&](Local j, int l) { return std::ptrdiff_t(index[std::ptrdiff_t(j) * slice + l]); },
            [](Local, int) { return true; });
      }
      value += std::ptrdiff_t(steps) * slice;
      if (shape & 1) diagonal += steps, mask += steps;
      else index += std::ptrdiff_t(steps) * slice;
    }
  };
  const auto bsr = [&](Local begin, Local end) {
    const Local size = s.grid.b, from = std::max(begin, s.grid.row),
                to = std::min(end, s.grid.first_row(s.grid.block_rows));
    std::fill(y + std::ptrdiff_t(begin) * columns, y + std::ptrdiff_t(std::min(from, end)) * columns, T{});
    std::fill(y + std::ptrdiff_t(std::max(to, begin)) * columns, y + std::ptrdiff_t(end) * columns, T{});
    for (Local row = from; row < to;) {
      const Local r = (row - s.grid.row) / size, i = row - s.grid.first_row(r);
      Local rows = std::min(size - i, to - row);
      if (rows == size) {
        rows = (to - row) / size * size;
        s.multiply_blocks(r, r + rows / size, x, y + std::ptrdiff_t(row) * columns, columns);
      } else {  // part of a block that extends beyond rows [begin, end)
        std::vector<T> whole(std::size_t(size) * std::size_t(columns));
        s.multiply_blocks(r, r + 1, x, whole.data(), columns);
        std::copy_n(whole.data() + std::ptrdiff_t(i) * columns, std::ptrdiff_t(rows) * columns,
                    y + std::ptrdiff_t(row) * columns);
      }
      row += rows;
    }
    s.rest.multiply_add(begin, end, x, y, columns);
  };
  const Local begin = s.block[b].row, end = s.block[b + 1].row;
  if (s.columns == 0) {  // x may be null, and no address is formed from it
    std::fill(y + std::ptrdiff_t(begin) * columns, y + std::ptrdiff_t(end) * columns, T{});
    return;
  }
  if (s.format == Format::bsr) bsr(begin, end);
  else if (s.format == Format::sell && s.narrow) sell(s.block[b], end, s.offset.data(), true);
  else if (s.format == Format::sell) sell(s.block[b], end, s.column.data(), false);
  else if (s.narrow) csr(begin, end, s.offset.data(), true);
  else csr(begin, end, s.column.data(), false);
  for (auto r = std::lower_bound(s.empty.begin(), s.empty.end(), begin); r != s.empty.end() && *r < end; ++r)
    std::fill_n(y + std::ptrdiff_t(*r) * columns, columns, T{});
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::multiply(const T* x, T* y, int columns, const comm::Communicator& comm) const {
  const int blocks = int(s_->block.size()) - 1;
  exec::each(std::size_t(std::max(blocks, 0)), blocks > poll_blocks, [&](std::size_t b) {
    s_->multiply(int(b), x, y, columns);
    if (b % poll_blocks == 0 && exec::may_poll()) comm.poll();
  });
  if (Trace::on()) {
    const double k = columns;
    Trace::work("product", bytes() + k * (double(s_->rows) + double(s_->columns)) * sizeof(T),
                (is_complex<T> ? 8 : 2) * k * double(s_->value.size() + std::size_t(s_->rest.entries())));
  }
}

template <Scalar T, Memory M>
int LocalMatrix<T, M>::blocks() const {
  return std::max(int(s_->block.size()) - 1, 0);
}
template <Scalar T, Memory M>
Local LocalMatrix<T, M>::first_row(int block) const {
  return s_->block[std::size_t(block)].row;
}
template <Scalar T, Memory M>
void LocalMatrix<T, M>::multiply(int from, int to, const T* x, T* y, int columns) const {
  for (int b = from; b < to; ++b) s_->multiply(b, x, y, columns);
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::start(exec::Tasks& tasks, const T* x, T* y) const {
  const Storage& s = *s_;
  const std::size_t n = std::size_t(s.rows), rows = exec::Tasks::block_of(n), count = (n + rows - 1) / rows;
  const std::size_t wide = exec::Tasks::block_of(std::size_t(s.columns));
  const auto first_block = [&](std::size_t row) {
    return int(std::lower_bound(s.block.begin(), s.block.end(), Local(row),
                                [](const auto& block, Local r) { return block.row < r; }) -
               s.block.begin());
  };
  if (s.needs.size() != count) {
    s.needs.assign(count, {});
    std::vector<char> seen(std::size_t(s.columns) / wide + 1);
    for (std::size_t b = 0; b < count; ++b) {
      std::fill(seen.begin(), seen.end(), 0);
      const int from = first_block(b * rows), to = first_block(std::min(n, (b + 1) * rows));
      s.each(from, to, [&](Local, Local column, T) { seen[std::size_t(column) / wide] = 1; });
      for (std::size_t c = 0; c < seen.size(); ++c)
        if (seen[c] && std::size_t(s.columns) > c * wide) s.needs[b].push_back(Local(c));
    }
  }
  std::vector<const void*> reads;
  for (const std::size_t b : tasks.order(n)) {
    reads.clear();
    for (const Local c : s.needs[b]) reads.push_back(x + std::size_t(c) * wide);
    const void* const writes[] = {y + b * rows};
    const int from = first_block(b * rows), to = first_block(std::min(n, (b + 1) * rows));
    tasks.start("product", reads, writes, false, [this, x, y, from, to] {
      for (int k = from; k < to; ++k) s_->multiply(k, x, y, 1);
    });
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::powers(T* const* v, std::span<const RecurrenceStep<T>> steps,
                               const T* before) const requires std::same_as<M, Host> {
  const auto& block = s_->block;
  const int blocks = int(block.size()) - 1, levels = int(steps.size());
  const auto advance = [&](int c, int b) {  // block b of v[c + 1]
    s_->multiply(b, v[c], v[c + 1], 1);
    extend_rows(steps[c], c > 0 ? v[c - 1] : before, v[c], v[c + 1], block[b].row, block[b + 1].row);
  };
  if (blocks > poll_blocks && (exec::Tasks::current() || exec::threads_now() > 1)) {
    for (int c = 0; c < levels; ++c) exec::each(std::size_t(blocks), true, [&](std::size_t b) { advance(c, int(b)); });
    return;
  }
  // Each vector is computed as soon as the rows of the one before that it needs are complete: they are still in cache.
  std::vector<int> next(std::size_t(levels), 0);
  for (int done = 0; done < levels;) {
    for (int c = done; c < levels; ++c) {
      int& b = next[c];
      const bool first = c == done;
      for (bool once = true; b < blocks && (first ? once : block[b].reach <= block[next[c - 1]].row); ++b, once = false)
        advance(c, b);
    }
    while (done < levels && next[done] == blocks) ++done;
  }
}

template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each(int from, int to, F&& f) const {
  for (int b = from; b < to; ++b) {
    Global v = block[b].value, index = block[b].index, d = block[b].diagonal;
    for (Local row = block[b].row; row < block[b + 1].row; ++row) {
      if (format == Format::csr) {
        for (Global k = start[row]; k < start[row + 1]; ++k) f(row, column_of(row, k), value[k]);
      } else if (format == Format::sell) {
        const Local base = row / slice * slice, l = row - base, steps = Local(shape[base / slice] / 2);
        const bool diagonals = shape[base / slice] & 1;
        for (Local j = 0; j < (diagonals ? steps : width[row]); ++j) {
          const Global at = Global(j) * slice + l;
          if (!diagonals) f(row, column_of(base, index + at), value[v + at]);
          else if (mask[d + j] >> l & 1) f(row, row + diagonal[d + j], value[v + at]);
        }
        if (l + 1 < slice) continue;
        v += Global(steps) * slice;
        (diagonals ? d : index) += diagonals ? steps : Global(steps) * slice;
      } else {
        const Local r = grid.block_row(row), i = row - grid.first_row(r), size = grid.b, p = rest.place(row);
        const bool more = p < rest.count() && rest.row(p) == row;
        const auto columns_outside = more ? rest.columns_of(p) : std::span<const Local>();
        const auto values_outside = more ? rest.values_of(p) : std::span<const T>();
        std::size_t t = 0;
        const auto outside_until = [&](Local column) {
          for (; t < columns_outside.size() && columns_outside[t] < column; ++t)
            f(row, columns_outside[t], values_outside[t]);
        };
        for (Global k = r < 0 ? 0 : start[r]; k < (r < 0 ? 0 : start[r + 1]); ++k) {
          const Local first = grid.column + column_of(r, k) * size;
          outside_until(first);
          for (Local j = 0; j < size; ++j) f(row, first + j, value[(k * size + j) * size + i]);
        }
        outside_until(columns);
      }
    }
  }
}

template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_value(int b, F&& f) const {
  if (format != Format::sell) {
    Local now = -1, k = 0;
    return each(b, b + 1, [&](Local row, Local, const T& v) {
      if (row != now) now = row, k = 0;
      f(row, k++, v);
    });
  }
  const T* from = value.data() + block[b].value;
  const std::uint8_t* masks = mask.data() + block[b].diagonal;
  for (Local base = block[b].row; base < block[b + 1].row; base += slice) {
    const std::uint32_t kind = shape[base / slice];
    const Local steps = Local(kind / 2), here = std::min(slice, block[b + 1].row - base);
    const bool diagonals = kind & 1;
    unsigned full = (1u << slice) - 1;
    for (Local j = 0; diagonals && j < steps; ++j) full &= masks[j];
    for (Local l = 0; l < here; ++l) {
      const Local row = base + l, n = diagonals ? steps : width[std::size_t(row)];
      if (!diagonals || full == (1u << slice) - 1) {
        for (Local j = 0; j < n; ++j) f(row, j, from[std::ptrdiff_t(j) * slice + l]);
      } else {
        for (Local j = 0, k = 0; j < n; ++j)
          if (masks[j] >> l & 1) f(row, k++, from[std::ptrdiff_t(j) * slice + l]);
      }
    }
    from += std::ptrdiff_t(steps) * slice;
    if (diagonals) masks += steps;
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::copy_diagonal(int b, T* to) const {
  if (format != Format::sell)
    return each(b, b + 1, [&](Local row, Local of, const T& v) {
      if (of == row) to[row] = v;
    });
  Global v = block[b].value, index = block[b].index, d = block[b].diagonal;
  for (Local base = block[b].row; base < block[b + 1].row; base += slice) {
    const std::uint32_t kind = shape[base / slice];
    const Local steps = Local(kind / 2), here = std::min(slice, block[b + 1].row - base);
    if (kind & 1) {
      for (Local j = 0; j < steps; ++j)
        for (Local l = 0; diagonal[d + j] == 0 && l < here; ++l)
          if (mask[d + j] >> l & 1) to[base + l] = value[v + Global(j) * slice + l];
      d += steps;
    } else {
      for (Local l = 0; l < here; ++l)
        for (Local j = 0; j < width[std::size_t(base + l)]; ++j)
          if (const Global at = Global(j) * slice + l; column_of(base, index + at) == base + l) {
            to[base + l] = value[v + at];
            break;
          }
      index += Global(steps) * slice;
    }
    v += Global(steps) * slice;
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::copy_values(const Global* begin, T* to) const requires std::same_as<M, Host> {
  exec::parallel_for(std::size_t(blocks()), blocks() > 16, [&](std::size_t b) {
    s_->each_value(int(b), [&](Local row, Local k, const T& v) { to[begin[row] + k] = v; });
  });
}

template <Scalar T, Memory M>
LocalRows<T> LocalMatrix<T, M>::rows() const {
  const Storage& s = *s_;
  LocalRows<T> a{s.columns, s.row_begin, s.column_begin};
  a.start.reserve(std::size_t(s.rows) + 1);
  a.column.reserve(std::size_t(s.entries));
  a.value.reserve(std::size_t(s.entries));
  s.each(0, blocks(), [&](Local row, Local column, T value) {
    a.start.resize(std::size_t(row) + 1, Global(a.column.size()));
    a.column.push_back(column);
    a.value.push_back(value);
  });
  a.start.resize(std::size_t(s.rows) + 1, s.entries);
  return a;
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::copy_rows(const Global* begin, Global shift, Global* column,
                                  T* value) const requires std::same_as<M, Host> {
  exec::parallel_for(std::size_t(blocks()), blocks() > 16, [&](std::size_t b) {
    Local now = -1;
    Global k = 0;
    s_->each(int(b), int(b) + 1, [&](Local row, Local of, T v) {
      if (row != now) now = row, k = begin[row];
      column[k] = shift + of, value[k++] = v;
    });
  });
}

template <Scalar T, Memory M>
template <class F>
void LocalMatrix<T, M>::Storage::each_of_block(Local first, Local count, const F& f) const {
  const auto number = [&](Local row) {  // of the block of rows that has this row
    const auto after =
        std::upper_bound(block.begin(), block.end(), row, [](Local r, const Block& b) { return r < b.row; });
    return int(after - block.begin()) - 1;
  };
  if (count <= 0) return;
  const int from = number(first), to = number(first + count - 1) + 1;
  exec::parallel_for(std::size_t(to - from), to - from > 1, [&](std::size_t b) {
    each(from + int(b), from + int(b) + 1, [&](Local row, Local of, T v) {
      const Local r = row - first, c = of - first;
      if (r >= 0 && r < count && c >= 0 && c < count) f(r, c, v);
    });
  });
}

namespace {

/// Turns start[i + 1], the length of row i, into where the row begins; put() then makes it where the row ends.
template <Scalar T>
void begin_rows(LocalRows<T>& a, Local columns) {
  a.columns = columns;
  Global sum = 0;
  for (std::size_t i = 1; i < a.start.size(); ++i) sum += std::exchange(a.start[i], sum);
  a.column.resize(std::size_t(sum));
  a.value.resize(std::size_t(sum));
}
template <Scalar T>
void put(LocalRows<T>& a, Local row, Local column, T value) {
  const Global k = a.start[std::size_t(row) + 1]++;
  a.column[std::size_t(k)] = column;
  a.value[std::size_t(k)] = value;
}

}  // namespace

template <Scalar T, Memory M>
LocalRows<T> LocalMatrix<T, M>::block(Local first, Local count) const requires std::same_as<M, Host> {
  LocalRows<T> a;
  a.start.resize(std::size_t(count) + 1);
  s_->each_of_block(first, count, [&](Local r, Local, T) { ++a.start[std::size_t(r) + 1]; });
  begin_rows(a, count);
  s_->each_of_block(first, count, [&](Local r, Local c, T v) { put(a, r, c, v); });
  return a;
}

template <Scalar T, Memory M>
SplitRows<T> LocalMatrix<T, M>::split_block(Local first, Local count,
                                            bool with_upper) const requires std::same_as<M, Host> {
  SplitRows<T> a;
  a.lower.start.resize(std::size_t(count) + 1);
  a.upper.start.resize(with_upper ? std::size_t(count) + 1 : 1);
  a.diagonal.resize(std::size_t(count));
  s_->each_of_block(first, count, [&](Local r, Local c, T) {
    if (c < r) ++a.lower.start[std::size_t(r) + 1];
    else if (with_upper && c > r) ++a.upper.start[std::size_t(r) + 1];
  });
  begin_rows(a.lower, count);
  begin_rows(a.upper, count);
  s_->each_of_block(first, count, [&](Local r, Local c, T v) {
    if (c < r) put(a.lower, r, c, v);
    else if (c == r) a.diagonal[std::size_t(r)] = v;
    else if (with_upper) put(a.upper, r, c, v);
  });
  return a;
}

template <Scalar T, Memory M>
Global LocalMatrix<T, M>::entries() const requires std::same_as<M, Host> {
  return s_->entries;
}

template <Scalar T, Memory M>
LocalMatrix<T, M>::Storage::Places::Places(const Storage& s) {
  if (s.format != Format::sell) return;
  const std::size_t slices = s.shape.size();
  value.reserve(slices), index.reserve(slices), diagonal.reserve(slices);
  Global v = 0, i = 0, d = 0;
  for (std::size_t q = 0; q < slices; ++q) {
    value.push_back(v), index.push_back(i), diagonal.push_back(d);
    const Global steps = s.shape[q] / 2;
    v += steps * slice;
    (s.shape[q] & 1 ? d : i) += s.shape[q] & 1 ? steps : steps * slice;
  }
}

template <Scalar T, Memory M>
const T* LocalMatrix<T, M>::Storage::find(const Places& places, Local row, Local of) const {
  // The first of n ascending numbers that is not below `wanted`.
  const auto search = [](Global n, Global wanted, auto&& number) {
    Global from = 0;
    while (n > 0) {
      const Global half = n / 2;
      if (Global(number(from + half)) < wanted) from += half + 1, n -= half + 1;
      else n = half;
    }
    return from;
  };
  if (format == Format::csr) {
    const Global first = start[row], n = start[row + 1] - first;
    const Global k = search(n, of, [&](Global i) { return column_of(row, first + i); });
    return k < n && column_of(row, first + k) == of ? value.data() + first + k : nullptr;
  }
  if (format == Format::sell) {
    const Local q = row / slice, l = row - q * slice, steps = Local(shape[q] / 2);
    const T* const v = value.data() + places.value[std::size_t(q)] + l;
    if (shape[q] & 1) {
      const Global d = places.diagonal[std::size_t(q)];
      const Global j = search(steps, of - row, [&](Global i) { return diagonal[d + i]; });
      return j < steps && diagonal[d + j] == of - row && (mask[d + j] >> l & 1) ? v + j * slice : nullptr;
    }
    const Global at = places.index[std::size_t(q)] + l, n = width[std::size_t(row)];
    const auto column_at = [&](Global j) { return column_of(q * slice, at + j * slice); };
    const Global j = search(n, of, column_at);
    return j < n && column_at(j) == of ? v + j * slice : nullptr;
  }
  const Local b = grid.b, r = grid.block_row(row);
  if (r >= 0 && of >= grid.column) {
    const Local i = row - grid.first_row(r), c = (of - grid.column) / b, j = (of - grid.column) % b;
    const Global first = start[r], n = start[r + 1] - first;
    const Global k = search(n, c, [&](Global e) { return column_of(r, first + e); });
    if (k < n && column_of(r, first + k) == c) return value.data() + ((first + k) * b + j) * b + i;
  }
  const Local p = rest.place(row);
  if (p == rest.count() || rest.row(p) != row) return nullptr;
  const auto columns_outside = rest.columns_of(p);
  const auto c = std::lower_bound(columns_outside.begin(), columns_outside.end(), of);
  if (c == columns_outside.end() || *c != of) return nullptr;
  return rest.values_of(p).data() + (c - columns_outside.begin());
}

namespace {

/// Whether n entries are the conjugates of these.
template <class T>
inline bool are_conjugates(const T* a, const T* mirror, int n) {
  bool same = true;
  for (int i = 0; i < n; ++i) same &= a[i] == conj(mirror[i]);
  return same;
}

}  // namespace

/// A slice that is stored by diagonals: an entry d right of the diagonal has its mirror entry on the diagonal -d of at
/// most two slices, which are looked up once for all rows of the slice. Adds the entries below the diagonal to `below`,
/// and those above it that have a mirror entry to `met`.
template <Scalar T, Memory M>
bool LocalMatrix<T, M>::Storage::slice_mirrors_itself(const Places& places, std::size_t q, std::span<const T> diagonals,
                                                      Global& below, Global& met) const {
  const Global from = places.diagonal[q], steps = shape[q] / 2;
  bool all = true;
  for (Global j = 0; j < steps; ++j) {
    const Local d = diagonal[from + j];
    const unsigned present = mask[from + j];
    if (d < 0) {
      below += std::popcount(present);
      continue;
    }
    const T* const v = value.data() + places.value[q] + j * slice;
    for (Local l = 0; l < slice;) {
      const Local r = Local(q) * slice + l, other = (r + d) / slice, at = r + d - other * slice;
      const Local lanes = std::min(slice - l, slice - at);
      const unsigned full = (1u << lanes) - 1, here = present >> l & full;
      const T* mirrors = v;
      unsigned there = 0;
      if (here) {
        const Global first = places.diagonal[std::size_t(other)], n = shape[std::size_t(other)] / 2;
        Global k = n - 1 - j;  // where the other slice has the same diagonals
        if (k < 0 || diagonal[first + k] != -d)
          for (k = 0; k < n && diagonal[first + k] != -d;) ++k;
        if (k < n)
          mirrors = value.data() + places.value[std::size_t(other)] + k * slice + at, there = mask[first + k] >> at;
      }
      // Without prefetches each slice waits for the memory.
      const std::ptrdiff_t ahead = 16 * std::ptrdiff_t(steps) * slice;
      __builtin_prefetch(v + l + ahead), __builtin_prefetch(mirrors + ahead);
      there &= here;
      if (d > 0) met += std::popcount(there);
      const bool whole = there == full && (lanes == slice ? are_conjugates(v, mirrors, slice)
                                                          : are_conjugates(v + l, mirrors, int(lanes)));
      for (Local m = 0; !whole && m < lanes; ++m) {
        if (!(here >> m & 1)) continue;
        const T mirror = there >> m & 1 ? conj(mirrors[m]) : T{};
        all = all && mirror_each_other(v[l + m], mirror, double(std::abs(diagonals[std::size_t(r + m)])),
                                       double(std::abs(diagonals[std::size_t(r + d + m)])));
      }
      l += lanes;
    }
  }
  return all;
}

template <Scalar T, Memory M>
bool LocalMatrix<T, M>::mirrors_itself(std::span<const T> diagonal) const {
  const Storage& s = *s_;
  const typename Storage::Places places(s);
  std::atomic<bool> same = true;
  std::atomic<Global> below = 0, met = 0;
  // Entries above the diagonal look for their mirror entries; if these are as many as the entries below it, they are
  // all of them.
  const bool by_diagonals = s.format == Format::sell && std::all_of(s.shape.data(), s.shape.data() + s.shape.size(),
                                                                    [](std::uint32_t shape) { return shape & 1; });
  if (by_diagonals) {
    constexpr std::size_t part = 1024;
    const std::size_t slices = s.shape.size();
    exec::parallel_for((slices + part - 1) / part, slices > part, [&](std::size_t p) {
      Global low = 0, pairs = 0;
      bool here = same.load(std::memory_order_relaxed);
      for (std::size_t q = p * part; here && q < std::min((p + 1) * part, slices); ++q)
        here = s.slice_mirrors_itself(places, q, diagonal, low, pairs);
      below += low, met += pairs;
      if (!here) same.store(false, std::memory_order_relaxed);
    });
  }
  const auto size = [&](Local i) { return double(std::abs(diagonal[std::size_t(i)])); };
  const auto compare = [&](bool upper) {
    exec::parallel_for(std::size_t(blocks()), blocks() > 1, [&](std::size_t b) {
      Global low = 0, pairs = 0;
      bool here = same.load(std::memory_order_relaxed);
      if (!here) return;
      s.each(int(b), int(b) + 1, [&](Local r, Local c, T v) {
        low += c < r;
        if (upper ? c < r : c >= r) return;
        const T* const found = s.find(places, c, r);
        const T mirror = found ? conj(*found) : T{};
        pairs += found && c != r;
        here = here && (v == mirror || mirror_each_other(v, mirror, size(r), size(c)));
      });
      below += low, met += pairs;
      if (!here) same.store(false, std::memory_order_relaxed);
    });
    return same.load();
  };
  return (by_diagonals ? same.load() : compare(true)) && (met == below || compare(false));
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::add_node_couplings(int b, double* sums) const requires std::same_as<M, Host> {
  const Storage& s = *s_;
  const int all = blocks(), samples = std::min(all, 16);
  std::vector<Local> met;
  const auto count_node = [&] {
    sums[0] += double(met.size());
    std::sort(met.begin(), met.end());
    sums[1] += double(b) * b * double(std::unique(met.begin(), met.end()) - met.begin());
    met.clear();
  };
  for (int i = 0; i < samples; ++i) {
    // Scattered by the golden ratio, as equal steps may follow a grid.
    const std::uint64_t fraction = std::uint64_t(i) * 0x9e3779b97f4a7c15u >> 32;
    const int at = samples < all ? int(fraction * std::uint64_t(all) >> 32) : i;
    const Local first = (s.block[std::size_t(at)].row + b - 1) / b, last = s.block[std::size_t(at) + 1].row / b;
    Local node = first;
    s.each(at, at + 1, [&](Local r, Local c, T) {
      if (r / b < first || r / b >= last) return;
      if (r / b != node) count_node(), node = r / b;
      met.push_back(c / b);
    });
    count_node();
  }
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::add_couplings(std::span<const T> diagonal, int b,
                                      double* sums) const requires std::same_as<M, Host> {
  const auto count = std::size_t(blocks());
  std::vector<std::array<double, 2>> of(count);
  exec::parallel_for(count, count > 1, [&](std::size_t i) {
    auto& mine = of[i];
    s_->each(int(i), int(i) + 1, [&](Local r, Local c, T v) {
      if (c == r || (c - r) % b != 0) return;
      const double size = double(std::abs(v));
      mine[0] += size;
      if (real(v * conj(diagonal[std::size_t(r)])) > 0) mine[1] += size;
    });
  });
  for (const auto& mine : of) sums[0] += mine[0], sums[1] += mine[1];
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::count_entries(std::span<Local> count) const {
  const Storage& s = *s_;
  exec::parallel_for(std::size_t(blocks()), blocks() > 1, [&](std::size_t b) {
    if (s.format != Format::sell) {
      s.each(int(b), int(b) + 1, [&](Local r, Local, T) { ++count[std::size_t(r)]; });
      return;
    }
    const std::uint8_t* mask = s.mask.data() + s.block[b].diagonal;
    for (Local base = s.block[b].row; base < s.block[b + 1].row; base += slice) {
      const std::uint32_t shape = s.shape[base / slice];
      const Local rows = std::min(slice, s.block[b + 1].row - base);
      for (Local l = 0; l < rows && !(shape & 1); ++l) count[std::size_t(base + l)] += s.width[std::size_t(base + l)];
      for (std::uint32_t j = 0; (shape & 1) && j < shape / 2; ++j, ++mask)
        for (Local l = 0; l < rows; ++l) count[std::size_t(base + l)] += *mask >> l & 1;
    }
  });
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::set_values(const Global* begin, const T* values, T* diagonal) requires std::same_as<M, Host> {
  exec::parallel_for(std::size_t(blocks()), blocks() > 16, [&](std::size_t b) {
    // each_value() is of a constant matrix, and this one is not.
    s_->each_value(int(b), [&](Local row, Local k, const T& v) { const_cast<T&>(v) = values[begin[row] + k]; });
    if (diagonal) s_->copy_diagonal(int(b), diagonal);
  });
}

template <Scalar T, Memory M>
double LocalMatrix<T, M>::bytes() const {
  return s_->bytes();
}

template <Scalar T, Memory M>
std::string LocalMatrix<T, M>::storage() const {
  const Storage& s = *s_;
  std::string notes = s.diagonal.size() ? "diagonals" : "";
  if (s.offset.size()) notes += notes.empty() ? "16-bit offsets" : ", 16-bit offsets";
  else if (s.column.size() && !notes.empty()) notes += ", 32-bit columns";
  if (s.rest.count())
    notes = message(notes, notes.empty() ? "" : ", ", 100 * (s.entries - s.rest.entries()) / s.entries,
                    " % of entries in blocks");
  const std::string size = s.format == Format::csr ? "" : message("-", s.format == Format::sell ? slice : s.grid.b);
  return message(to_string(s.format), size, notes.empty() ? "" : " (" + notes + ")");
}

template <Scalar T, Memory M>
RowList<T, M>::RowList(const LocalRows<T>& a) {
  std::vector<Local> row;
  std::vector<Global> start{0};
  for (Local r = 0; r < a.count(); ++r)
    if (a.start[r + 1] > a.start[r]) row.push_back(r), start.push_back(a.start[r + 1]);
  row_ = exec::Array<Local, M>::from(row);
  start_ = exec::Array<Global, M>::from(start);
  column_ = exec::Array<Local, M>::from(a.column);
  value_ = exec::Array<T, M>::from(a.value);
}

namespace {
// A row of n entries times one of `columns` interleaved columns of x.
template <class T>
TACIT_COMPILED_ONCE T row_times(const T* value, const Local* column, Global n, const T* x, int columns) {
  T sum{};
  for (Global k = 0; k < n; ++k) sum += value[k] * x[std::ptrdiff_t(column[k]) * columns];
  return sum;
}
}  // namespace

template <Scalar T, Memory M>
T RowList<T, M>::row_sum(Local i, const T* x, int columns) const {
  const Global first = start_[i];
  return row_times(value_.data() + first, column_.data() + first, start_[i + 1] - first, x, columns);
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply(std::span<const Local> places, const T* x, T* z, int columns) const {
  for (const Local i : places)
    for (int c = 0; c < columns; ++c) z[std::ptrdiff_t(i) * columns + c] = row_sum(i, x + c, columns);
}
template <Scalar T, Memory M>
void RowList<T, M>::add(const T* z, T* y, int columns, Local from, Local to) const {
  for (Local i = from; i < to; ++i)
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(row_[i]) * columns + c] += z[std::ptrdiff_t(i) * columns + c];
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply_add(const T* x, T* y, int columns) const {
  const Local n = count();
  exec::settle();
  exec::parallel_for(std::size_t(n), n > 2048, [&](std::size_t i) {
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(row_[i]) * columns + c] += row_sum(Local(i), x + c, columns);
  });
  if (Trace::on())
    Trace::work("product", bytes() + 3.0 * n * columns * sizeof(T),
                (is_complex<T> ? 8.0 : 2.0) * columns * double(entries()));
}

template <Scalar T, Memory M>
void RowList<T, M>::multiply_add(Local begin, Local end, const T* x, T* y, int columns) const {
  for (Local i = place(begin); i < count() && row_[i] < end; ++i)
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(row_[i]) * columns + c] += row_sum(i, x + c, columns);
}

template <Scalar T, Memory M>
void RowList<T, M>::start_add(exec::Tasks& tasks, std::shared_ptr<const std::vector<T>> x, T* y, std::size_t n) const {
  const std::size_t rows = exec::Tasks::block_of(n);
  const Local* const begin = row_.data();
  for (Local i = 0; i < count();) {
    const std::size_t b = std::size_t(begin[i]) / rows;
    const Local end = Local(std::lower_bound(begin + i, begin + count(), Local(std::min(n, (b + 1) * rows))) - begin);
    const void* const writes[] = {y + b * rows};
    tasks.start("ghost product", {}, writes, true, [this, x, y, i, end] {
      for (Local at = i; at < end; ++at) y[row_[at]] += row_sum(at, x->data(), 1);
    });
    i = end;
  }
}

template <Scalar T, Memory M>
double RowList<T, M>::bytes() const {
  return double(value_.size()) * (sizeof(T) + sizeof(Local)) + double(count()) * (sizeof(Local) + sizeof(Global));
}

template <Scalar T, Memory M>
LocalRows<T> RowList<T, M>::rows(Local total, Local columns) const {
  LocalRows<T> a;
  a.columns = columns;
  a.start.reserve(std::size_t(total) + 1);
  for (Local i = 0; i < count(); ++i) {
    a.start.resize(std::size_t(row_[i]) + 1, a.start.back());
    a.start.push_back(start_[i + 1]);
  }
  a.start.resize(std::size_t(total) + 1, a.start.back());
  a.column.assign(column_.data(), column_.data() + column_.size());
  a.value.assign(value_.data(), value_.data() + value_.size());
  return a;
}

template <Scalar T, Memory M>
void unpack_add(const T* in, const exec::Array<Local, M>& index, int columns, T* y) {
  for (std::size_t i = 0; i < index.size(); ++i)
    for (int c = 0; c < columns; ++c) y[std::ptrdiff_t(index[i]) * columns + c] += in[i * columns + c];
}

template <Scalar T, Memory M>
void receive(const T* in, std::size_t n, exec::Array<T, M>& out) {
  if (n) std::memcpy(out.data(), in, n * sizeof(T));
}

template <Scalar T>
LocalRows<T> adjoint(const LocalRows<T>& a) {
  LocalRows<T> t{a.count(), a.column_begin, a.row_begin};
  t.start.assign(std::size_t(a.columns) + 1, 0);
  for (Local c : a.column) ++t.start[c + 1];
  std::partial_sum(t.start.begin(), t.start.end(), t.start.begin());
  t.column.resize(a.column.size());
  t.value.resize(a.value.size());
  std::vector<Global> next(t.start.begin(), t.start.end() - 1);
  for (Local r = 0; r < a.count(); ++r)
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) {
      const Global to = next[a.column[k]]++;
      t.column[to] = r;
      t.value[to] = conj(a.value[k]);
    }
  return t;
}

#define TACIT_INSTANTIATE(T)                                                             \
  template class LocalMatrix<T, Host>;                                                   \
  template class RowList<T, Host>;                                                       \
  template void unpack_add<T, Host>(const T*, const exec::Array<Local, Host>&, int, T*); \
  template void receive<T, Host>(const T*, std::size_t, exec::Array<T, Host>&);          \
  template LocalRows<T> adjoint<T>(const LocalRows<T>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::op
