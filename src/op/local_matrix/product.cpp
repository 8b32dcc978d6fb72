// Products of LocalMatrix: with one and with several vectors, as tasks, and repeated ones (powers).
#include <tacit/base/trace.hpp>

#include "../recurrence_impl.hpp"
#include "../wavefront.hpp"
#include "base/registers.hpp"
#include "columns.hpp"
#include "storage.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace tacit::op {
namespace {

// The number of blocks that a thread multiplies between two polls: some tens of microseconds.
constexpr int poll_blocks = 16;

// Prefetches: without it one core does not keep enough loads of the matrix in flight.
template <class T>
[[gnu::always_inline]] inline void fetch_ahead(const T* p) {
  __builtin_prefetch(reinterpret_cast<const char*>(p) + 4096);
}

// x[index[l]] for the lanes of a register. By a gather on Intel's processors since Sapphire Rapids (the first that know
// half precision), which takes three quarters of the time; elsewhere it is no faster than single loads, or slower.
template <class R, class T, class Index>
[[gnu::always_inline]] inline typename R::V picked(const T* x, const Index* index) {
#if defined(__AVX512FP16__) && defined(__AVX512VL__)
  if constexpr (R::lanes == 8) {
    __m256i at;
    if constexpr (sizeof(Index) == 2)
      at = _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(index)));
    else at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
    if constexpr (sizeof(T) == 8) return typename R::V(_mm512_mask_i32gather_pd(__m512d{}, 0xff, at, x, 8));
    else return typename R::V(_mm256_mmask_i32gather_ps(__m256{}, 0xff, at, x, 4));
  }
#endif
  return [&]<int... l>(std::integer_sequence<int, l...>) __attribute__((always_inline)) {
    return typename R::V{x[index[l]]...};
  }
  (std::make_integer_sequence<int, R::lanes>{});
}

// One general slice of SELL times one column of x: lane l is a row, so a step is one SIMD instruction wide.
template <int C, class V, class T, class Index>
inline void general_slice(const V* value, const Index* index, Local steps, const T* x, T* sum) {
  if constexpr (is_complex<T>) {
    T acc[C] = {};
    for (Local j = 0; j < steps; ++j, value += C, index += C) {
      fetch_ahead(value);
#pragma GCC ivdep
      for (int l = 0; l < C; ++l) acc[l] += value[l] * x[index[l]];
    }
    for (int l = 0; l < C; ++l) sum[l] = acc[l];
  } else {
    using Sum = Registers<T, C>;
    Sum acc;
    for (Local j = 0; j < steps; ++j, value += C, index += C) {
      fetch_ahead(value), __builtin_prefetch(index + 512);
#pragma GCC unroll 8
      for (int i = 0; i < Sum::parts; ++i)
        acc.part[i] = mul_add(load_widened<Sum>(value, i), picked<Sum>(x, index + i * Sum::lanes), acc.part[i]);
    }
    acc.store(sum);
  }
}

// Padding multiplies 0 by an element of x that the row reads anyway, which is NaN where that is infinite: sums of
// general slices that are NaN are computed anew without it.
template <class T>
inline bool has_nan(const T* sum, std::ptrdiff_t n) {
  bool any = false;
  for (std::ptrdiff_t i = 0; i < n; ++i) any |= sum[i] != sum[i];
  return any;
}
template <int C, class V, class T, class Index>
inline void without_padding(const V* value, const Index* index, const Local* width, int rows, const T* x, T* sum) {
  for (int l = 0; l < rows; ++l) {
    if (sum[l] == sum[l]) continue;
    sum[l] = T{};
    for (std::ptrdiff_t at = l; at < std::ptrdiff_t(width[l]) * C; at += C)
      add_product(widen<T>(value[at]), x[index[at]], sum[l]);
  }
}

// One diagonal slice times one column of x, which points to the element of the slice's first row.
template <int C, class V, class T>
inline void diagonal_slice(const V* value, const Local* diagonal, const std::uint8_t* mask, Local steps, const T* x,
                           T* sum) {
  if constexpr (is_complex<T>) {
    constexpr unsigned full = (1u << C) - 1;
    T acc[C] = {}, some[C];
    for (Local j = 0; j < steps; ++j, value += C) {
      const T* from = x + diagonal[j];
      if (mask[j] != full) {
        for (int l = 0; l < C; ++l) some[l] = mask[j] >> l & 1 ? from[l] : T{};
        from = some;
      }
#pragma GCC ivdep
      for (int l = 0; l < C; ++l) acc[l] += value[l] * from[l];
    }
    for (int l = 0; l < C; ++l) sum[l] = acc[l];
  } else {
    using Sum = Registers<T, C>;
    Sum acc;
    for (Local j = 0; j < steps; ++j, value += C) {
      fetch_ahead(value);
#pragma GCC unroll 8
      for (int i = 0; i < Sum::parts; ++i)
        acc.part[i] = mul_add(load_widened<Sum>(value, i), load_masked<Sum>(x + diagonal[j], i, mask[j]), acc.part[i]);
    }
    acc.store(sum);
  }
}

// `count` diagonal slices that have an entry on each of N diagonals in every row, times K vectors: the values of a
// slice follow those of the one before or, if `repeats`, are the same and stay in registers.
template <int C, int N, bool repeats, std::size_t K, class V, class T>
inline void alike_slices(const V* value, const Local* diagonal, std::ptrdiff_t count, const std::array<const T*, K>& x,
                         const std::array<T*, K>& y) {
  using Sum = Registers<T, C>;
  typename Sum::V own[N][Sum::parts];
  const T* from[K][N];
  for (int j = 0; j < N; ++j)
    for (int i = 0; i < Sum::parts; ++i) own[j][i] = load_widened<Sum>(value + j * C, i);
  for (std::size_t k = 0; k < K; ++k)
    for (int j = 0; j < N; ++j) from[k][j] = x[k] + diagonal[j];
  for (std::ptrdiff_t l = 0; l < count * C; l += C) {
    Sum acc[K];
#pragma GCC unroll 16
    for (int j = 0; j < N; ++j) {
      if constexpr (!repeats) fetch_ahead(value + j * C);
#pragma GCC unroll 8
      for (int i = 0; i < Sum::parts; ++i) {
        const typename Sum::V v = repeats ? own[j][i] : load_widened<Sum>(value + j * C, i);
#pragma GCC unroll 2
        for (std::size_t k = 0; k < K; ++k) acc[k].part[i] = mul_add(v, Sum::load(from[k][j] + l, i), acc[k].part[i]);
      }
    }
#pragma GCC unroll 2
    for (std::size_t k = 0; k < K; ++k) acc[k].store(y[k] + l);
    if constexpr (!repeats) value += N * C;
  }
}

// The same for any number of diagonals.
template <int C, std::size_t K, class V, class T>
inline void alike_slices(const V* value, const Local* diagonal, const std::uint8_t* mask, Local steps, bool repeats,
                         std::ptrdiff_t count, const std::array<const T*, K>& x, const std::array<T*, K>& y) {
  constexpr int most = 9;
  const auto some = [&]<int... N>(std::integer_sequence<int, N...>) {
    return ((steps == N + 1 && (repeats ? alike_slices<C, N + 1, true>(value, diagonal, count, x, y)
                                        : alike_slices<C, N + 1, false>(value, diagonal, count, x, y),
                                true)) ||
            ...);
  };
  if constexpr (!is_complex<T>)
    if (some(std::make_integer_sequence<int, most>{})) return;
  for (std::ptrdiff_t q = 0; q < count; ++q)
    for (std::size_t k = 0; k < K; ++k)
      diagonal_slice<C>(value + (repeats ? 0 : q * steps * C), diagonal, mask, steps, x[k] + q * C, y[k] + q * C);
}

}  // namespace

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::multiply_bsr(Local begin, Local end, const T* x, T* y, int columns) const {
  const Local size = grid.b, from = std::max(begin, grid.row), to = std::min(end, grid.first_row(grid.block_rows));
  std::fill(y + std::ptrdiff_t(begin) * columns, y + std::ptrdiff_t(std::min(from, end)) * columns, T{});
  std::fill(y + std::ptrdiff_t(std::max(to, begin)) * columns, y + std::ptrdiff_t(end) * columns, T{});
  for (Local row = from; row < to;) {
    const Local r = (row - grid.row) / size, i = row - grid.first_row(r);
    Local rows = std::min(size - i, to - row);
    if (rows == size) {
      rows = (to - row) / size * size;
      multiply_blocks(r, r + rows / size, x, y + std::ptrdiff_t(row) * columns, columns);
    } else {  // part of a block that extends beyond rows [begin, end)
      std::vector<T> whole(std::size_t(size) * std::size_t(columns));
      multiply_blocks(r, r + 1, x, whole.data(), columns);
      std::copy_n(whole.data() + std::ptrdiff_t(i) * columns, std::ptrdiff_t(rows) * columns,
                  y + std::ptrdiff_t(row) * columns);
    }
    row += rows;
  }
  rest.multiply_add(begin, end, x, y, columns);
}

template <Scalar T, Memory M>
template <class V, std::size_t K>
TACIT_COMPILED_ONCE void LocalMatrix<T, M>::Storage::multiply_slices(const V* all, Local begin, Local end,
                                                                     const std::array<const T*, K>& x,
                                                                     const std::array<T*, K>& y) const {
  const auto general = [&](const V* values, const auto* index, Local steps, Local base, const T* from, T* out) {
    const int here = std::min<Local>(slice, end - base);
    general_slice<slice>(values, index, steps, from, out);
    if (has_nan(out, here)) [[unlikely]]
      without_padding<slice>(values, index, width.data() + base, here, from, out);
  };
  for (Local base = begin; base < end;) {
    const Slice& q = slices[std::size_t(base / slice)];
    const Local steps = Local(q.steps), rows_here = std::min<Local>(slice, end - base);
    const V* const values = all + q.first_value();
    const Local* const diagonals = diagonal.data() + (q.is_diagonal ? q.pattern : 0);
    const std::uint8_t* const masks = mask.data() + (q.is_diagonal ? q.pattern : 0);
    if (q.alike > 1) {
      std::array<const T*, K> from;
      std::array<T*, K> to;
      for (std::size_t k = 0; k < K; ++k) from[k] = x[k] + base, to[k] = y[k] + base;
      alike_slices<slice>(values, diagonals, masks, steps, q.repeats != 0, q.alike, from, to);
    } else {
      for (std::size_t k = 0; k < K; ++k) {
        T sum[slice];
        T* const out = rows_here == slice ? y[k] + base : sum;
        if (q.is_diagonal) diagonal_slice<slice>(values, diagonals, masks, steps, x[k] + base, out);
        else if (narrow) general(values, offset.data() + q.first_index(), steps, base, x[k] + base, out);
        else general(values, column.data() + q.first_index(), steps, base, x[k], out);
        if (out == sum) std::copy_n(sum, rows_here, y[k] + base);
      }
    }
    base += Local(q.alike) * slice;
  }
}

template <Scalar T, Memory M>
template <std::size_t K>
void LocalMatrix<T, M>::Storage::multiply_slices(Local begin, Local end, const std::array<const T*, K>& x,
                                                 const std::array<T*, K>& y) const {
  with_values([&](const auto* all) { multiply_slices(all, begin, end, x, y); });
}

/// n values from `first` on: where they are stored, or widened into an array of this thread, until the next call.
template <Scalar T, Memory M>
const T* LocalMatrix<T, M>::Storage::wide_values(Global first, std::size_t n) const {
  return with_values([&]<class V>(const V* all) -> const T* {
    all += first;
    if constexpr (std::same_as<V, T>) {
      constexpr std::size_t line = 64 / sizeof(T);
      for (std::size_t i = 0; i < n; i += line) fetch_ahead(all + i);
      return all;
    } else {
      thread_local std::vector<T> wide;
      if (wide.size() < n) wide.resize(n);
      T* const to = wide.data();
      for (std::size_t i = 0; i < n; ++i) to[i] = widen<T>(all[i]);
      return to;
    }
  });
}

/// Rows of a block times a tile of columns.
template <Scalar T, Memory M>
template <int m, class Index, class Columns>
void LocalMatrix<T, M>::Storage::multiply_rows(const T* values, const Index* index, int b, const T* x, T* y,
                                               Columns columns, bool streamed) const {
  const Local begin = block[std::size_t(b)].row, end = block[std::size_t(b) + 1].row;
  constexpr bool is_offset = sizeof(Index) == 2;
  // Rows i, i + 1, .. of all in the order of their lengths (several: N > 1) or in their own. Whether the first has
  // entries.
  const auto some = [&]<int N>(Local i, std::integral_constant<int, N>, bool by_length, auto ahead)
      __attribute__((always_inline)) {
    std::array<Global, N> at, n;
    std::array<const T*, N> from;
    std::array<T*, N> to;
#pragma GCC unroll 8
    for (int q = 0; q < N; ++q) {
      const Local r = by_length ? begin + order[std::size_t(i + q)] : i + q;
      at[q] = start[r], n[q] = start[r + 1] - at[q];
      from[q] = is_offset ? x + std::ptrdiff_t(r) * columns : x;
      to[q] = y + std::ptrdiff_t(r) * columns;
    }
    rows_times_columns<N, m>(values, index, at, n, from, columns, ahead, to, streamed);
    return n[0] > 0;
  };
  constexpr std::integral_constant<std::ptrdiff_t, 0> no{};
  constexpr std::integral_constant<int, 1> one{};
  constexpr int R = rows_of_list<T, m, Index>;
  if constexpr (R > 1) {
    if (!only_short_rows<T, m> || start[end] - start[begin] <= entries_of_short_rows * (end - begin)) {
      Local i = begin;
      bool more = true;
      for (; more && i + R <= end; i += R) more = some(i, std::integral_constant<int, R>{}, true, no);
      for (; more && i < end; ++i) more = some(i, one, true, no);
      for (; i < end; ++i) std::fill_n(y + std::ptrdiff_t(begin + order[std::size_t(i)]) * columns, m, T{});
      return;
    }
  }
  if constexpr (R == 1 || only_short_rows<T, m>) {
    if constexpr (!is_offset && m * sizeof(T) >= 128)
      if (is_far(m) && start[end] + entries_ahead <= Global(column.size())) {
        for (Local r = begin; r < end; ++r)
          some(r, one, false, std::integral_constant<std::ptrdiff_t, entries_ahead>{});
        return;
      }
    for (Local r = begin; r < end; ++r) some(r, one, false, no);
  }
}

template <Scalar T, Memory M>
TACIT_COMPILED_ONCE void LocalMatrix<T, M>::Storage::multiply_rows(int b, const T* x, T* y, int columns) const {
  const Global first = start[block[std::size_t(b)].row], end = start[block[std::size_t(b) + 1].row];
  const T* const values =
      numbers == Numbers::given ? value.data() : wide_values(first, std::size_t(end - first)) - first;
  const bool streamed = is_streamed(y, rows, columns);
  each_tile<T>(columns, [&](int c0, auto m, auto k) {
    if (narrow) multiply_rows<m>(values, offset.data(), b, x + c0, y + c0, k, streamed);
    else multiply_rows<m>(values, column.data(), b, x + c0, y + c0, k, streamed);
  });
}

/// A diagonal slice times a tile of columns.
template <Scalar T, Memory M>
template <int m, class Columns>
void LocalMatrix<T, M>::Storage::multiply_diagonals(const Slice& q, const T* values, int rows_here, const T* x, T* y,
                                                    Columns columns, bool streamed) const {
  const Local* const diagonals = diagonal.data() + q.pattern;
  const std::uint8_t* const masks = mask.data() + q.pattern;
  const Local steps = Local(q.steps);
  if constexpr (!is_complex<T> && (m == 2 || m == 4 || (m == 8 && register_bytes == 64)))  // others: too few registers
    if (columns == m && rows_here == slice)
      return diagonal_slice_columns<slice, m>(values, diagonals, masks, steps, x, y, streamed);
  const auto x_of = [&](Local j, int l) __attribute__((always_inline)) {
    return x + (std::ptrdiff_t(diagonals[j]) + l) * columns;
  };
  unsigned all = (1u << slice) - 1;
  for (Local j = 0; j < steps; ++j) all &= masks[j];
  if (all == (1u << slice) - 1)
    slice_rows<slice, rows_of_slice<T, m>, m>(values, steps, rows_here, y, columns, streamed, x_of,
                                              [](Local, int) { return true; });
  else
    slice_rows<slice, 1, m>(values, steps, rows_here, y, columns, streamed, x_of,
                            [&](Local j, int l) { return masks[j] >> l & 1; });
}

/// Slices of rows [begin, end) times a tile of columns.
template <Scalar T, Memory M>
template <int m, class Index, class Columns>
void LocalMatrix<T, M>::Storage::multiply_columns(const Index* indices, Local begin, Local end, const T* x, T* y,
                                                  Columns columns, bool streamed) const {
  const Slice* before = nullptr;
  const T* values = nullptr;
  for (Local base = begin; base < end; base += slice) {
    const Slice& q = slices[std::size_t(base / slice)];
    const Local steps = Local(q.steps);
    const int here = std::min<Local>(slice, end - base);
    if (!before || before->value != q.value || before->steps != q.steps) {
      // The processor's own prefetches suffice where a value meets a line of x.
      if (m * sizeof(T) >= 64 && numbers == Numbers::given) values = value.data() + q.first_value();
      else values = wide_values(q.first_value(), std::size_t(steps) * slice);
    }
    before = &q;
    const T* const own = x + std::ptrdiff_t(base) * columns;
    T* const to = y + std::ptrdiff_t(base) * columns;
    if (q.is_diagonal) {
      multiply_diagonals<m>(q, values, here, own, to, columns, streamed);
      continue;
    }
    const Index* const index = indices + q.first_index();
    const T* const from = sizeof(Index) == 2 ? own : x;
    const Local* const lengths = width.data() + base;
    general_slice_columns<slice, m>(values, index, lengths, steps, here, from, to, columns, fetches(q, m), streamed);
    if constexpr (rows_of_general < T, m >> 1)
      for (int l = 0; l < here; ++l)
        if (lengths[l] < steps && has_nan(to + std::ptrdiff_t(l) * columns, m)) [[unlikely]]
          general_slice_columns<slice, m>(values + l, index + l, lengths + l, lengths[l], 1, from,
                                          to + std::ptrdiff_t(l) * columns, columns, false, false);
  }
}

template <Scalar T, Memory M>
TACIT_COMPILED_ONCE void LocalMatrix<T, M>::Storage::multiply_columns(Local begin, Local end, const T* x, T* y,
                                                                      int columns) const {
  const bool streamed = is_streamed(y, rows, columns);
  each_tile<T>(columns, [&](int c0, auto m, auto k) {
    if (narrow) multiply_columns<m>(offset.data(), begin, end, x + c0, y + c0, k, streamed);
    else multiply_columns<m>(column.data(), begin, end, x + c0, y + c0, k, streamed);
  });
}

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::multiply(int b, const T* x, T* y, int columns) const {
  const Local begin = block[b].row, end = block[b + 1].row;
  if (this->columns == 0) {  // x may be null, and no address is formed from it
    std::fill(y + std::ptrdiff_t(begin) * columns, y + std::ptrdiff_t(end) * columns, T{});
    return;
  }
  if (format == Format::bsr) multiply_bsr(begin, end, x, y, columns);
  else if (format == Format::sell && columns == 1) multiply_slices<1>(begin, end, {x}, {y});
  else if (format == Format::sell) multiply_columns(begin, end, x, y, columns);
  else multiply_rows(b, x, y, columns);
  for (auto r = std::lower_bound(empty.begin(), empty.end(), begin); r != empty.end() && *r < end; ++r)
    std::fill_n(y + std::ptrdiff_t(*r) * columns, columns, T{});
  if (is_streamed(y, rows, columns)) end_streams();
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
                (is_complex<T> ? 8 : 2) * k * double(s_->entries));
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
void LocalMatrix<T, M>::multiply_block(int block, const T* x, T* y) const {
  s_->multiply(block, x, y - first_row(block), 1);
}
template <Scalar T, Memory M>
void LocalMatrix<T, M>::multiply_block(int block, const std::array<const T*, 2>& x, const std::array<T*, 2>& y) const {
  const Local row = first_row(block);
  if (s_->format == Format::sell && s_->empty.empty() && s_->columns > 0)
    return s_->template multiply_slices<2>(row, first_row(block + 1), x, {y[0] - row, y[1] - row});
  for (int k = 0; k < 2; ++k) multiply_block(block, x[k], y[k]);
}
template <Scalar T, Memory M>
int LocalMatrix<T, M>::lowest(int block) const {
  return s_->block[std::size_t(block)].lowest;
}
template <Scalar T, Memory M>
int LocalMatrix<T, M>::needs(int block) const {
  return s_->block[std::size_t(block)].needs;
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
  if (levels == 0) return;
  // Block b of v[c + 1]; compiled once, as gcc 12 may fuse complex products in one copy and not in another.
  const auto advance = [&](int c, int b) TACIT_COMPILED_ONCE {
    s_->multiply(b, v[c], v[c + 1], 1);
    extend_rows(steps[c], c > 0 ? v[c - 1] : before, v[c], v[c + 1], block[b].row, block[b + 1].row);
  };
  Needs needs;
  needs_of_product(*this, needs);
  Wavefront wave(blocks);
  wave.add(needs, levels - 1);
  wave.run(blocks > poll_blocks, advance);
}

#define TACIT_INSTANTIATE(T)                                                                                        \
  template void LocalMatrix<T, Host>::multiply(const T*, T*, int, const comm::Communicator&) const;                 \
  template void LocalMatrix<T, Host>::multiply(int, int, const T*, T*, int) const;                                  \
  template int LocalMatrix<T, Host>::blocks() const;                                                                \
  template Local LocalMatrix<T, Host>::first_row(int) const;                                                        \
  template void LocalMatrix<T, Host>::multiply_block(int, const T*, T*) const;                                      \
  template void LocalMatrix<T, Host>::multiply_block(int, const std::array<const T*, 2>&, const std::array<T*, 2>&) \
      const;                                                                                                        \
  template int LocalMatrix<T, Host>::lowest(int) const;                                                             \
  template int LocalMatrix<T, Host>::needs(int) const;                                                              \
  template void LocalMatrix<T, Host>::start(exec::Tasks&, const T*, T*) const;                                      \
  template void LocalMatrix<T, Host>::powers(T* const*, std::span<const RecurrenceStep<T>>, const T*) const;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
