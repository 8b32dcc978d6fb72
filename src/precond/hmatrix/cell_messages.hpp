// Cells of H-matrices in messages.
#pragma once

#include "base/bytes.hpp"
#include "builder.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace tacit::precond::detail {

/// Appends a block.
template <Scalar F>
void write_block(bytes::Bytes& to, const HBlock<F>& b) {
  const Local shape[] = {b.row, b.rows, b.column, b.columns};
  bytes::write(to, shape), bytes::write(to, b.kind);
  if (b.is_cut()) {
    bytes::write(to, b.down), bytes::write(to, b.across);
    for (int i = 0; i < b.down; ++i)
      for (int j = 0; j < b.across; ++j) {
        bytes::write(to, bool(b.child[i][j]));
        if (b.child[i][j]) write_block(to, *b.child[i][j]);
      }
    return;
  }
  const auto vector = [&](const auto& v) { bytes::write(to, v.size()), bytes::write(to, v.data(), v.size()); };
  if (b.kind == HBlockKind::low) {
    bytes::write(to, b.low.rank);
    vector(b.low.u), vector(b.low.v);
    return;
  }
  // Of a factorised leaf others use the inverses.
  vector(b.pivots), vector(b.inverse_l), vector(b.inverse_u);
  if (b.inverse_l.empty()) bytes::write(to, b.a, std::size_t(b.rows) * std::size_t(b.columns));
}

// `dense` gets dense blocks and their numbers, which have no memory yet.
template <Scalar F>
std::unique_ptr<HBlock<F>> read_block(bytes::Reader& from, std::vector<std::pair<HBlock<F>*, std::vector<F>>>& dense) {
  auto b = std::make_unique<HBlock<F>>();
  const auto shape = from.next<Local>(4);
  b->row = shape[0], b->rows = shape[1], b->column = shape[2], b->columns = shape[3];
  b->kind = from.next<HBlockKind>();
  if (b->is_cut()) {
    b->down = from.next<int>(), b->across = from.next<int>();
    for (int i = 0; i < b->down; ++i)
      for (int j = 0; j < b->across; ++j)
        if (from.next<bool>()) b->child[i][j] = read_block<F>(from, dense);
    return b;
  }
  const auto vector = [&]<class S>(std::vector<S>& v) { v = from.next<S>(from.next<std::size_t>()); };
  if (b->kind == HBlockKind::low) {
    b->low.rows = b->rows, b->low.columns = b->columns, b->low.rank = from.next<Local>();
    vector(b->low.u), vector(b->low.v);
    return b;
  }
  vector(b->pivots), vector(b->inverse_l), vector(b->inverse_u);
  if (b->inverse_l.empty()) dense.emplace_back(b.get(), from.next<F>(std::size_t(b->rows) * std::size_t(b->columns)));
  return b;
}

/// The reverse, with memory of its own.
template <Scalar F>
Cell<F> read_cell(bytes::Reader& from) {
  std::vector<std::pair<HBlock<F>*, std::vector<F>>> dense;
  Cell<F> cell;
  cell.root = read_block<F>(from, dense);
  std::size_t numbers = 0;
  for (const auto& [b, a] : dense) numbers += numbers_of(*b);
  cell.memory = exec::Array<F>::uninitialised(numbers);
  numbers = 0;
  for (auto& [b, a] : dense) {
    b->a = std::copy(a.begin(), a.end(), cell.memory.data() + numbers) - a.size();
    numbers += numbers_of(*b);
  }
  return cell;
}

}  // namespace tacit::precond::detail
