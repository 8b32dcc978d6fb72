// A cell of a matrix as blocks for arithmetics, made of pieces of an H-matrix.
#pragma once

#include <tacit/base/lapack.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include "block.hpp"
#include "grid.hpp"
#include "scalars.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::precond::detail {

/// A block with the memory of its dense leaves.
template <Scalar F>
struct Cell {
  exec::Array<F> memory;
  std::unique_ptr<HBlock<F>> root;
};

/// Positions of a dense block's numbers in memory: whole lines of the cache.
template <Scalar F>
std::size_t numbers_of(const HBlock<F>& dense) {
  return (std::size_t(dense.rows) * std::size_t(dense.columns) + 15) / 16 * 16;
}

template <Scalar F, Scalar T>
class Builder {
 public:
  using Piece = op::BlockMatrix<T>;
  using Pieces = std::vector<const Piece*>;
  /// `cuts`: between ranks, where blocks of the H-matrix may be divided. `lower`: cells of the diagonal get no blocks
  /// above it. `compress`: whether far blocks that are dense in the H-matrix are made low-rank ones.
  Builder(const op::ClusterTree& tree, const Grid& grid, Local leaf_size, std::span<const Global> cuts, bool lower,
          bool compress, HArithmetic<F>& arithmetic)
      : tree_(tree),
        grid_(grid),
        leaf_size_(leaf_size),
        cuts_(cuts),
        lower_(lower),
        compress_(compress),
        arithmetic_(arithmetic) {}

  /// The blocks of cell (i, j) of the grid, zero. Of the pieces only place and rank are read.
  Cell<F> outline(int i, int j, const Pieces& pieces) {
    dense_.clear();
    diagonal_ = i == j;
    Cell<F> cell;
    cell.root = make(grid_.cluster(i), grid_.cluster(j), pieces);
    std::size_t numbers = 0;
    for (const auto* b : dense_) numbers += numbers_of(*b);
    cell.memory = exec::Array<F>(numbers);
    numbers = 0;
    for (auto* b : dense_) b->a = cell.memory.data() + numbers, numbers += numbers_of(*b);
    return cell;
  }
  /// Adds a piece of this cell.
  void add(Cell<F>& cell, const Piece& m) { place(*cell.root, m); }
  /// Truncates what was added.
  void finish(Cell<F>& cell) { truncate(*cell.root); }

 private:
  const op::Cluster& at(int cluster) const { return tree_.clusters()[std::size_t(cluster)]; }
  bool is_leaf(const op::Cluster& c) const { return c.is_leaf() || c.size() <= leaf_size_; }

  // Whether a block is of low rank in the H-matrix: one piece, or several that cuts between ranks have made of it.
  bool is_low(const op::Cluster& s, const op::Cluster& t, const Pieces& pieces) const {
    if (pieces.empty()) return false;
    const auto cut = [&](Local p, Local begin, Local end) {
      return p == begin || p == end || std::binary_search(cuts_.begin(), cuts_.end(), Global(p));
    };
    bool across = true, down = true;  // all pieces have all columns, or all rows
    for (const Piece* m : pieces) {
      const auto& b = m->block;
      if (m->dense && !(b.admissible && compress_)) return false;
      if (b.row_begin < s.begin || b.row_end > s.end || b.column_begin < t.begin || b.column_end > t.end) return false;
      across = across && b.column_begin == t.begin && b.column_end == t.end && cut(b.row_begin, s.begin, s.end) &&
               cut(b.row_end, s.begin, s.end);
      down = down && b.row_begin == s.begin && b.row_end == s.end && cut(b.column_begin, t.begin, t.end) &&
             cut(b.column_end, t.begin, t.end);
    }
    return across || down;
  }

  std::unique_ptr<HBlock<F>> make(int i, int j, const Pieces& pieces) {
    const op::Cluster &s = at(i), &t = at(j);
    auto b = std::make_unique<HBlock<F>>();
    b->row = s.begin, b->rows = s.size(), b->column = t.begin, b->columns = t.size();
    const bool small = is_leaf(s) && is_leaf(t);
    if (is_low(s, t, pieces)) {
      Global rank = 0;
      for (const Piece* m : pieces) rank = std::max(rank, m->dense ? Global(b->rows) : Global(m->rank));
      // Between two leaves a block stays of low rank only where that takes less than half of the memory.
      if (!small || 2 * rank * (Global(b->rows) + b->columns) < Global(b->rows) * b->columns) {
        b->kind = HBlockKind::low;
        b->low.rows = b->rows, b->low.columns = b->columns;
        return b;
      }
    }
    if (small) {
      dense_.push_back(b.get());
      return b;
    }
    b->kind = HBlockKind::cut;
    b->down = is_leaf(s) ? 1 : 2, b->across = is_leaf(t) ? 1 : 2;
    for (int p = 0; p < b->down; ++p)
      for (int q = 0; q < b->across; ++q) {
        if (lower_ && diagonal_ && i == j && q > p) continue;
        const int row = is_leaf(s) ? i : s.child[p], column = is_leaf(t) ? j : t.child[q];
        Pieces within;
        for (const Piece* m : pieces)
          if (overlap(at(row), m->block.row_begin, m->block.row_end) &&
              overlap(at(column), m->block.column_begin, m->block.column_end))
            within.push_back(m);
        b->child[p][q] = make(row, column, within);
      }
    return b;
  }
  static bool overlap(const op::Cluster& c, Local begin, Local end) { return begin < c.end && end > c.begin; }

  void place(HBlock<F>& b, const Piece& m) {
    const op::Block& from = m.block;
    const Local top = std::max(b.row, from.row_begin), bottom = std::min(b.row + b.rows, from.row_end),
                left = std::max(b.column, from.column_begin), right = std::min(b.column + b.columns, from.column_end);
    if (top >= bottom || left >= right) return;
    if (b.is_cut()) {
      for (int p = 0; p < b.down; ++p)
        for (int q = 0; q < b.across; ++q)
          if (b.child[p][q]) place(*b.child[p][q], m);
    } else if (b.kind == HBlockKind::low) {
      add_low(b, m);
    } else {
      add_dense(b, m, top, bottom, left, right);
    }
  }

  // Adds a piece, which is within b.
  void add_low(HBlock<F>& b, const Piece& m) {
    LowRank<F> low{m.block.rows(), m.block.columns(), m.rank, {}, {}};
    if (m.dense) {
      std::vector<F> a(m.u.size());
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = as_scalar<F>(m.u[i]);
      low = arithmetic_.compress(a.data(), low.rows, low.columns);
    } else {
      low.u.resize(std::size_t(low.rows) * std::size_t(m.rank));
      low.v.resize(std::size_t(low.columns) * std::size_t(m.rank));
      for (std::size_t i = 0; i < low.u.size(); ++i) low.u[i] = as_scalar<F>(m.u[i]);
      for (std::size_t i = 0; i < low.v.size(); ++i) low.v[i] = as_scalar<F>(conj(m.v[i]));
    }
    if (low.rows == b.rows && low.columns == b.columns) b.low = std::move(low);
    else b.low.append_within(low, m.block.row_begin - b.row, m.block.column_begin - b.column);
  }
  // Truncates the blocks of low rank, of which each is one piece or the sum of several.
  void truncate(HBlock<F>& b) {
    if (b.kind == HBlockKind::low) return arithmetic_.truncate(b.low);
    if (!b.is_cut()) return;
    for (int p = 0; p < b.down; ++p)
      for (int q = 0; q < b.across; ++q)
        if (b.child[p][q]) truncate(*b.child[p][q]);
  }

  // Adds the part of a piece in b.
  void add_dense(HBlock<F>& b, const Piece& m, Local top, Local bottom, Local left, Local right) {
    const std::size_t rows = std::size_t(m.block.rows());
    const int height = bottom - top, width = right - left;
    std::vector<T> product;
    const T* from = m.u.data() + std::size_t(top - m.block.row_begin);
    std::size_t step = rows;
    if (m.dense) {
      from += std::size_t(left - m.block.column_begin) * rows;
    } else {
      product.resize(std::size_t(height) * std::size_t(width));
      lapack::gemm('N', 'C', height, width, m.rank, T(1), from, int(rows), m.v.data() + (left - m.block.column_begin),
                   m.block.columns(), T(0), product.data(), height);
      from = product.data(), step = std::size_t(height);
    }
    for (std::size_t c = 0; c < std::size_t(width); ++c) {
      F* const to = b.a + std::size_t(top - b.row) + (c + std::size_t(left - b.column)) * std::size_t(b.rows);
      for (std::size_t r = 0; r < std::size_t(height); ++r) to[r] += as_scalar<F>(from[c * step + r]);
    }
  }

  const op::ClusterTree& tree_;
  const Grid& grid_;
  Local leaf_size_;
  std::span<const Global> cuts_;
  bool lower_, compress_, diagonal_ = false;
  HArithmetic<F>& arithmetic_;
  std::vector<HBlock<F>*> dense_;
};

}  // namespace tacit::precond::detail
