// LocalMatrix by dense blocks: their storage and their product.
#include "block_columns.hpp"
#include "storage.hpp"

#include <utility>

namespace tacit::op {
namespace {

// Block rows; the first and the last ones also have the rows above and below all block rows.
template <Scalar T>
struct FoundBlocks {
  static constexpr Local together = 1024;
  std::vector<Local> found;
  std::vector<Global> count;
  LocalRows<T> outside{};
  Global begin = 0;            // its first block
  Global least = 0, most = 0;  // columns less rows

  FoundBlocks() = default;
  FoundBlocks(const BlockGrid& grid, const LocalRowsView<T>& a, Local first, Local last) {
    std::vector<Local> columns;
    for (Local r = first; r < last; ++r) {
      grid.find(a, r, columns);
      for (const Local c : columns) least = std::min<Global>(least, c - r), most = std::max<Global>(most, c - r);
      found.insert(found.end(), columns.begin(), columns.end());
      count.push_back(Global(columns.size()));
    }
  }
};

}  // namespace

template <Scalar T, Memory M>
void LocalMatrix<T, M>::Storage::store_blocks(const LocalRowsView<T>& a) {
  format = Format::bsr;
  const int b = grid.b;
  constexpr Local chunk_rows = FoundBlocks<T>::together;
  std::vector<FoundBlocks<T>> chunk(std::size_t(std::max(Local(1), (grid.block_rows + chunk_rows - 1) / chunk_rows)));
  const auto first_of = [&](std::size_t i) { return std::min(grid.block_rows, Local(i) * chunk_rows); };
  const auto find = [&](std::size_t i) { chunk[i] = {grid, a, first_of(i), first_of(i + 1)}; };
  exec::parallel_for(chunk.size(), chunk.size() > 1, find, 1);
  start = exec::Array<Global, Host>::uninitialised(std::size_t(grid.block_rows) + 1);
  Global blocks = 0;
  Local row = 0;
  narrow = true;
  for (auto& c : chunk) {
    c.begin = blocks;
    narrow &= is_narrow(c.least, c.most);
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
        auto& from = chunk[i];
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
  for (const auto& c : chunk) {
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
void LocalMatrix<T, M>::Storage::multiply_blocks(Local from, Local to, const T* x, T* y, int columns) const {
  x += std::ptrdiff_t(grid.column) * columns;
  const bool streamed = rest.count() == 0 && is_streamed(y, rows, columns);  // what is outside of blocks is added to y
  with_block_size(grid.b, [&](auto b) {
    const auto tile = [&](auto rows_of_blocks, int c, auto... streamed) {
      decltype(rows_of_blocks)::multiply(from, to, start.data(), value.data(), narrow ? offset.data() : nullptr,
                                         column.data(), x + c, y + c, columns, streamed...);
    };
    if (columns == 1) return tile(BlockRows<b, 1, T, true>(), 0);
    int c = 0;
    const auto many = [&]<int m>(std::integral_constant<int, m>) {
      if constexpr (!is_complex<T>)
        if constexpr (BlockColumns<b, m, T>::fits)
          for (; c + m <= columns; c += m) tile(BlockColumns<b, m, T>(), c, streamed);
    };
    many(std::integral_constant<int, 64>{}), many(std::integral_constant<int, 32>{});
    many(std::integral_constant<int, 16>{}), many(std::integral_constant<int, 8>{});
    for (; c + 4 <= columns; c += 4) tile(BlockRows<b, 4, T>(), c);
    if (columns - c >= 2) tile(BlockRows<b, 2, T>(), c), c += 2;
    if (columns - c == 1) tile(BlockRows<b, 1, T>(), c);
  });
}

#define TACIT_INSTANTIATE(T)                                                          \
  template void LocalMatrix<T, Host>::Storage::store_blocks(const LocalRowsView<T>&); \
  template void LocalMatrix<T, Host>::Storage::multiply_blocks(Local, Local, const T*, T*, int) const;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::op
