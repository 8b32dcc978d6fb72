// Triangular solves with a sparse factor, in place.
#pragma once

#include <tacit/op/local_matrix.hpp>

#include <vector>

namespace tacit::precond {

/// x := T^-1 x, T = D + S with S strictly lower (or upper) triangular. Rows are done in their natural order by one
/// thread or, where the levels (rows that depend on earlier levels only) are wide, level by level by all. Every row
/// sums its entries in the order of its columns either way: same bits for any number of threads.
template <Scalar T>
class Triangular {
 public:
  Triangular() = default;
  /// `inverse` holds D^-1; empty: D = I.
  Triangular(op::LocalRows<T> strict, std::vector<T> inverse, bool lower, bool may_use_threads);
  /// k interleaved columns.
  void solve(T* x, int columns) const;
  double bytes() const;
  const op::LocalRows<T>& strict() const { return strict_; }
  const std::vector<T>& inverse() const { return inverse_; }
  Local levels() const { return Local(level_start_.size()) - 1; }

 private:
  /// Row i of K columns, of `columns`.
  template <int K>
  void tile(Local i, T* x, int columns) const;
  /// K: 1, or 0 for any number of columns.
  template <int K>
  void row(Local i, T* x, int columns) const;
  template <int K>
  void rows(T* x, int columns) const;
  op::LocalRows<T> strict_;
  std::vector<T> inverse_;
  bool lower_ = true;
  std::vector<Local> by_level_, level_start_;  // empty: natural order
};

}  // namespace tacit::precond
