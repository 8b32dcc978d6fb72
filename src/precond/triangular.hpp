// Triangular solves with a sparse factor, in place.
#pragma once

#include <tacit/base/buffer.hpp>
#include <tacit/op/local_matrix.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace tacit::precond {

/// An order of the rows of L and U in which they can be solved eight at a time. It goes through windows of consecutive
/// rows, which stay in cache. A level has the rows of a window that depend, in L or in U^T, on rows of earlier windows
/// and levels only, so rows of a level wait for none of each other.
struct LevelOrder {
  static constexpr int lanes = 8;
  /// Lane p % lanes of slice p / lanes has row row[p]. Short slices are filled up with their last row.
  std::vector<Local> row{};
  std::vector<Local> level_start{}, window_start{};  ///< in slices
  bool fills(std::size_t p) const { return p % lanes > 0 && row[p] == row[p - 1]; }
};
/// The order by levels, or null where solving row by row is predicted to be faster. Depends on the pattern only.
/// `upper`: null for that of L^H.
template <Scalar T>
std::shared_ptr<const LevelOrder> level_order(const op::LocalRows<T>& lower, const op::LocalRows<T>* upper);

/// D^-1 as solves read it: of each row or, with an order, of each lane of each slice.
template <Scalar T>
using InverseDiagonal = std::shared_ptr<const T[]>;
template <Scalar T>
InverseDiagonal<T> placed(const std::vector<T>& by_row, const LevelOrder* order);

/// x := T^-1 x, T = D + S with S strictly lower (or upper) triangular. Row by row, every row waits for the one before
/// it. With a LevelOrder S is stored as in SELL-8, a slice of eight rows is one step, and slices of wide levels are
/// shared by threads. Rows sum their entries in one order: same bits for any number of threads and, where b is finite,
/// of columns (but for the signs of complex zeros).
template <Scalar T>
class Triangular {
 public:
  static constexpr int lanes = LevelOrder::lanes;
  Triangular() = default;
  /// `inverse`: null for D = I. `order`: null for rows in their own order.
  Triangular(op::LocalRows<T> strict, InverseDiagonal<T> inverse, bool lower, std::shared_ptr<const LevelOrder> order,
             bool may_use_threads);
  /// The upper factor D + lower^H. With an order lower^H is not made on the way.
  static Triangular adjoint_of(const op::LocalRows<T>& lower, InverseDiagonal<T> inverse,
                               std::shared_ptr<const LevelOrder> order, bool may_use_threads);
  /// x := T^-1 b, of k interleaved columns; b may be x.
  void solve(const T* b, T* x, int columns) const;
  /// Read by a solve.
  double bytes() const;
  /// Entries of S.
  Global entries() const { return entries_; }
  /// S by rows, and D^-1. Built anew with an order.
  op::LocalRows<T> strict() const;
  std::vector<T> inverse() const;

 private:
  template <class Length>
  void begin_slices(const op::LocalRows<T>& pattern, const Length& length);
  void put(std::size_t at, Local row, Local column, T value);
  Local column_at(std::size_t at, Local row) const { return offset_.size() ? row + offset_[at] : column_[at]; }
  void store_slices();
  void store_adjoint_slices(const op::LocalRows<T>& of);
  void find_threads(bool may_use_threads);
  bool sliced() const { return order_ != nullptr; }
  template <bool relative, class Index>
  void slice(std::size_t s, Local soon, const Index* column, const T* b, T* x) const;
  void slice(std::size_t s, const T* b, T* x, int columns) const;
  void row(Local i, const T* b, T* x) const;
  void row(Local i, const T* b, T* x, int columns) const;
  template <class F>
  void each_slice(const F& f) const;

  bool lower_ = true, threads_ = false;
  Local count_ = 0;
  Global entries_ = 0;
  InverseDiagonal<T> inverse_;
  op::LocalRows<T> rows_;  // without an order
  // With an order: entry e of lane l of slice s stands at (slice_start_[s] + e) lanes + l. Shorter rows are filled up
  // with -0 in their own column.
  std::shared_ptr<const LevelOrder> order_;
  std::vector<Global> slice_start_;
  Buffer<std::int16_t> offset_;  // column - row, where 16 bits suffice
  Buffer<Local> column_;         // where they do not
  Buffer<T> value_;
};

}  // namespace tacit::precond
