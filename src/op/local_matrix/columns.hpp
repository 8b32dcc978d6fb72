// Products of rows with interleaved columns: kernels for CSR and SELL, for values that are stored as T or have been
// widened. The number of columns of a tile is known at
// compile time, so that sums stay in registers, and each sum is formed in the order of the row's entries: it has the
// bits that it has with one column.
#pragma once

#include "add_multiple.hpp"
#include "narrow.hpp"
#include "streamed.hpp"

#include <tacit/base/types.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tacit::op {

/// The widest tile: eight registers of sums. Complex numbers, whose kernels keep sums in an array, have eight columns.
template <class T>
inline constexpr int widest_tile = is_complex<T> ? 8 : 8 * register_bytes / int(sizeof(T));

/// Calls f(first, m, columns) for tiles of m columns, a power of two that is a compile-time constant. `columns` is one
/// as well where a tile has all of them.
template <class T, class F>
inline void each_tile(int columns, F&& f) {
  int first = 0;
  const auto whole = [&]<int... power>(std::integer_sequence<int, power...>) {
    const auto some = [&]<int m>(std::integral_constant<int, m> width) {
      if (columns == m) f(first, width, std::integral_constant<std::ptrdiff_t, m>{}), first = columns;
      for (; first + m <= columns; first += m) f(first, width, std::ptrdiff_t(columns));
    };
    (some(std::integral_constant<int, (widest_tile<T> >> power)>{}), ...);
  };
  whole(std::make_integer_sequence<int, std::bit_width(unsigned(widest_tile<T>))>{});
}

/// The sums of m columns of one row: in registers (gcc 12 does not keep an array there), or an array.
template <class T, int m>
inline constexpr bool in_registers = !is_complex<T> && m > 1 && std::has_single_bit(unsigned(m));
template <class T, int m>
struct ColumnSums {
  T sum[m] = {};
  [[gnu::always_inline]] void add(T a, const T* x) { add_multiple(a, x, sum, std::integral_constant<int, m>{}); }
  [[gnu::always_inline]] void store(T* y, bool) const { std::copy_n(sum, m, y); }
};
template <class T, int m>
requires in_registers<T, m>
struct ColumnSums<T, m> {
  using Sum = Registers<T, m>;
  Sum sum;
  [[gnu::always_inline]] void add(T a, const T* x) {
#pragma GCC unroll 8
    for (int i = 0; i < Sum::parts; ++i) sum.part[i] = mul_add(a, Sum::load(x, i), sum.part[i]);
  }
  /// `streamed`: past the caches, where is_streamed() holds.
  [[gnu::always_inline]] void store(T* y, bool streamed) const {
    if (m * sizeof(T) >= 64 && streamed) stream(sum, y);
    else sum.store(y);
  }
};

/// So many rows are summed at once, as a sum waits for the addition before it; `most` registers of sums.
template <class T, int m>
inline constexpr int registers_of = 1;
template <class T, int m>
requires in_registers<T, m>
inline constexpr int registers_of<T, m> = Registers<T, m>::parts;
template <class T, int m, int most>
inline constexpr int rows_at_once = is_complex<T> ? 1 : std::clamp(most / registers_of<T, m>, 1, 8);
/// For slices of SELL. Up to two registers a row: all eight rows, whose values and indices are then read once.
template <class T, int m>
inline constexpr int rows_of_slice = rows_at_once<T, m, register_bytes == 64 && registers_of<T, m> <= 2 ? 16 : 8>;
/// For general slices. With sums in several registers each row has work enough to be done alone, without its padding.
template <class T, int m>
inline constexpr int rows_of_general = m * sizeof(T) >= 64 ? 1 : rows_of_slice<T, m>;

/// Scattered elements of x are asked for so many entries before they are multiplied.
inline constexpr std::ptrdiff_t entries_ahead = 24;

/// Prefetches m numbers.
template <int m, class T>
[[gnu::always_inline]] inline void fetch(const T* p) {
  constexpr int line = 64, lines = (m * int(sizeof(T)) + line - 1) / line;
#pragma GCC unroll 8
  for (int i = 0; i < lines; ++i) __builtin_prefetch(reinterpret_cast<const char*>(p) + i * line);
}

/// So many rows of CSR are summed at once, in the order of their lengths, as a sum waits for the addition before it and
/// the end of each row is a mispredicted branch. Sums of one register only, as more are work enough for one row, and
/// rows in their own order more often read the same of x as their neighbours. Rows with 16-bit offsets have a pointer
/// into x each, for which there would not be registers enough.
template <class T, int m, class Index>
inline constexpr int rows_of_list = m * sizeof(T) > 64                          ? 1
                                    : is_complex<T>                             ? (m == 1 ? 4 : 1)
                                    : m * sizeof(T) == 64 || sizeof(Index) == 2 ? 4
                                                                                : 8;
/// Whether that is so only where rows are short: a row of x is a whole line then.
template <class T, int m>
inline constexpr bool only_short_rows = m * sizeof(T) >= 64;
inline constexpr Global entries_of_short_rows = 8;  // in the mean

/// Rows of CSR times m columns, R at once. at[i] is the first entry of row i, n[i] their number, not less than that of
/// row i + 1; x[i] is what its indices count from. `ahead`: 0, or entries_ahead where so many more are stored.
template <int R, int m, class T, class Index, class Columns, class Ahead>
[[gnu::always_inline]] inline void rows_times_columns(const T* value, const Index* index,
                                                      const std::array<Global, R>& at, const std::array<Global, R>& n,
                                                      const std::array<const T*, R>& x, Columns columns,
                                                      [[maybe_unused]] Ahead ahead, const std::array<T*, R>& y,
                                                      bool streamed) {
  ColumnSums<T, m> sum[R];
  Global k = 0;
  const auto longest = [&]<int N>(std::integral_constant<int, N>) __attribute__((always_inline)) {
    for (; k < n[N - 1]; ++k)
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) {
        const Global place = at[i] + k;
        if constexpr (Ahead::value > 0) fetch<m>(x[i] + index[place + Ahead::value] * columns);
        sum[i].add(value[place], x[i] + index[place] * columns);
      }
  };
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (longest(std::integral_constant<int, R - i>()), ...);
  }
  (std::make_integer_sequence<int, R>());
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) sum[i].store(y[i], streamed);
}

/// Rows of a slice of SELL times m columns, R at once. x_of(j, l) is x for the entry of row l in step j, there(j, l)
/// whether there is one. soon(j, l) is called before that.
struct Nothing {
  void operator()(Local, int) const {}
};
template <int C, int R, int m, class T, class Columns, class At, class There, class Soon = Nothing>
[[gnu::always_inline]] inline void slice_rows(const T* values, Local steps, int rows, T* y, Columns columns,
                                              bool streamed, At&& x_of, There&& there, Soon&& soon = {}) {
  const auto some = [&]<int N>(int first, std::integral_constant<int, N>) __attribute__((always_inline)) {
    ColumnSums<T, m> sum[N];
    const T* value = values + first;
    for (Local j = 0; j < steps; ++j, value += C)
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) {
        soon(j, first + i);
        if (there(j, first + i)) sum[i].add(value[i], x_of(j, first + i));
      }
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) sum[i].store(y + (first + i) * columns, streamed);
  };
  int l = 0;
  for (; l + R <= rows; l += R) some(l, std::integral_constant<int, R>{});
  if constexpr (R > 1)
    for (; l < rows; ++l) some(l, std::integral_constant<int, 1>{});
}

/// Rows of a general slice that are long, B at once where all have entries: their values are in the same lines, which
/// would leave the cache before the next row.
inline constexpr Local least_long = 32;  // entries
template <class T, int m>
inline constexpr int rows_of_long = m * sizeof(T) < 64 ? 1 : rows_at_once<T, m, register_bytes == 64 ? 16 : 8>;
template <int C, int m, class T, class Index, class Columns>
[[gnu::always_inline]] inline void long_rows_columns(const T* values, const Index* index, const Local* width, int rows,
                                                     const T* x, T* y, Columns columns, bool streamed) {
  const auto some = [&]<int N>(int l, std::integral_constant<int, N>) __attribute__((always_inline)) {
    ColumnSums<T, m> sum[N];
    const Local common = *std::min_element(width + l, width + l + N);
    const auto add = [&](Local j, int i) __attribute__((always_inline)) {
      const std::ptrdiff_t place = std::ptrdiff_t(j) * C + l + i;
      sum[i].add(values[place], x + std::ptrdiff_t(index[place]) * columns);
    };
    for (Local j = 0; j < common; ++j)
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) add(j, i);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      for (Local j = common; j < width[l + i]; ++j) add(j, i);
      sum[i].store(y + (l + i) * columns, streamed);
    }
  };
  constexpr int B = rows_of_long<T, m>;
  int l = 0;
  for (; l + B <= rows; l += B) some(l, std::integral_constant<int, B>{});
  for (; l < rows; ++l) some(l, std::integral_constant<int, 1>{});
}

/// One general slice of SELL times m columns, of `rows` rows that have `width` entries. `scattered`: elements of x are
/// asked for some entries before they are multiplied; as many indices as this slice has follow it then.
template <int C, int m, class T, class Index, class Columns>
[[gnu::always_inline]] inline void general_slice_columns(const T* values, const Index* index, const Local* width,
                                                         Local steps, int rows, const T* x, T* y, Columns columns,
                                                         bool scattered, bool streamed) {
  constexpr int R = rows_of_general<T, m>;
  if constexpr (rows_of_long < T, m >> 1)
    if (steps >= least_long) return long_rows_columns<C, m>(values, index, width, rows, x, y, columns, streamed);
  if constexpr (m * sizeof(T) < 64)
    for (Local j = 0; j < steps; ++j) __builtin_prefetch(index + std::ptrdiff_t(j) * C + 512);
  const auto x_of = [=](Local j, int l) __attribute__((always_inline)) {
    return x + std::ptrdiff_t(index[std::ptrdiff_t(j) * C + l]) * columns;
  };
  const auto always = [](Local, int) { return true; };
  const auto all = [&](auto&& soon) __attribute__((always_inline)) {
    if constexpr (R > 1) return slice_rows<C, R, m>(values, steps, rows, y, columns, streamed, x_of, always, soon);
    for (int l = 0; l < rows; ++l)
      slice_rows<C, 1, m>(
          values + l, width[l], 1, y + l * columns, columns,
          streamed, [&](Local j, int) __attribute__((always_inline)) { return x_of(j, l); },
          always, [&](Local j, int) __attribute__((always_inline)) { soon(j, l); });
  };
  if (!scattered) return all(Nothing());
  // Of the same step in the rows that come next, which at the end are those of the next slice.
  const std::ptrdiff_t last = std::ptrdiff_t(steps - 1) * C;
  all([=](Local j, int l) __attribute__((always_inline)) {
    const std::ptrdiff_t next = std::ptrdiff_t(j) * C + l + R + (l + R < C ? 0 : last);
    fetch<m>(x + std::ptrdiff_t(index[next]) * columns);
  });
}

/// Lane l of part j of m C numbers belongs to this lane of the C values, which have `lanes` lanes in a part.
template <int lanes, int m, int j>
struct RowOf {
  constexpr int operator()(int l) const { return (j * lanes + l) / m; }
};

/// A diagonal slice times m columns, a power of two, which are all columns of x: those of the eight rows are
/// contiguous.
template <int C, int m, class T>
requires(!is_complex<T>) inline void diagonal_slice_columns(const T* value, const Local* diagonal,
                                                            const std::uint8_t* mask, Local steps, const T* x, T* sum,
                                                            bool streamed) {
  constexpr unsigned full = (1u << C) - 1;
  using Values = Registers<T, C>;
  using Sum = Registers<T, m * C, Values::lanes>;  // a part of the values meets m parts of x
  static_assert(Sum::parts == m * Values::parts);
  Sum acc;
  T some[m * C];
  for (Local j = 0; j < steps; ++j, value += C) {
    const T* from = x + m * std::ptrdiff_t(diagonal[j]);
    if (mask[j] != full) [[unlikely]] {
      for (int l = 0; l < C; ++l)
        for (int c = 0; c < m; ++c) some[m * l + c] = mask[j] >> l & 1 ? from[m * l + c] : T{};
      from = some;
    }
#pragma GCC unroll 8
    for (int i = 0; i < Values::parts; ++i) {
      const auto v = Values::load(value, i);
      [&]<int... p>(std::integer_sequence<int, p...>) __attribute__((always_inline)) {
        ((acc.part[m * i + p] =
              mul_add(shuffled<RowOf<Values::lanes, m, p>{}>(v, v), Sum::load(from, m * i + p), acc.part[m * i + p])),
         ...);
      }
      (std::make_integer_sequence<int, m>{});
    }
  }
  if (streamed) stream(acc, sum);
  else acc.store(sum);
}

}  // namespace tacit::op
