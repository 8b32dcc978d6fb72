// Triangular solves with a sparse factor, in place.
#pragma once

#include <tacit/base/buffer.hpp>
#include <tacit/op/local_matrix.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace tacit::precond {

/// An order of the rows of L and U in which they can be solved eight at a time. A level has the rows that depend, in L
/// or in U^T, on rows of earlier levels only, so rows of a level wait for none of each other.
struct LevelOrder {
  static constexpr int lanes = 8;
  /// Position p has row row[p]; -1: none, since levels begin at multiples of `lanes`.
  std::vector<Local> row{};
  std::vector<Local> level_start{};  ///< in slices of `lanes` positions
};
/// The order by levels, or null where solving row by row is predicted to be faster. Depends on the pattern only.
/// `upper`: null for that of L^H.
template <Scalar T>
std::shared_ptr<const LevelOrder> level_order(const op::LocalRows<T>& lower, const op::LocalRows<T>* upper);

/// D^-1 as solves read it: of each row or, with an order, of each position.
template <Scalar T>
using InverseDiagonal = std::shared_ptr<const T[]>;
template <Scalar T>
InverseDiagonal<T> placed(const std::vector<T>& by_row, const LevelOrder* order);

/// x := T^-1 x, T = D + S with S strictly lower (or upper) triangular. Row by row, every row waits for the one before
/// it. With a LevelOrder S is stored as in SELL-8, a slice of eight rows is one step, and slices of wide levels are
/// shared by threads. Rows sum their entries in one order: same bits for any number of threads and of columns.
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
  /// k interleaved columns. x has an element for each row or, with an order, for each position.
  void solve(T* x, int columns) const;
  /// Read by a solve.
  double bytes() const;
  /// Entries of S.
  Global entries() const { return entries_; }
  /// S by rows, and D^-1. Built anew with an order.
  op::LocalRows<T> strict() const;
  std::vector<T> inverse() const;

 private:
  template <class Length>
  void begin_slices(const op::LocalRows<T>& pattern, const std::vector<Local>& place, const Length& length);
  void put(std::size_t slice, std::size_t at, Local position, T value);
  Local position_at(std::size_t slice, std::size_t at) const {
    return offset_.size() ? Local(slice * lanes) + offset_[at] : column_[at];
  }
  void store_slices();
  void store_adjoint_slices(const op::LocalRows<T>& of);
  void find_threads(bool may_use_threads);
  bool sliced() const { return order_ != nullptr; }
  template <class Index>
  void slice(std::size_t s, const Index* column, const T* x, T* own) const;
  void slice(std::size_t s, T* x) const;
  void slice(std::size_t s, T* x, int columns) const;
  void row(Local i, T* x) const;
  void row(Local i, T* x, int columns) const;
  template <class F>
  void each_slice(const F& f) const;

  bool lower_ = true, threads_ = false;
  Local count_ = 0;
  Global entries_ = 0;
  InverseDiagonal<T> inverse_;
  op::LocalRows<T> rows_;  // without an order
  // With an order: entry e of position p = lanes s + l stands at (slice_start_[s] + e) lanes + l. Shorter rows are
  // filled up with zeros in their own column.
  std::shared_ptr<const LevelOrder> order_;
  std::vector<Global> slice_start_;
  Buffer<std::int16_t> offset_;  // position - lanes s, where 16 bits suffice
  Buffer<Local> column_;         // positions, where they do not
  Buffer<T> value_;
};

}  // namespace tacit::precond
