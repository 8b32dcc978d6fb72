// The inverse of a small matrix that is distributed by rows, as dense rows.
#pragma once

#include <tacit/op/csr.hpp>

#include <vector>

namespace tacit::precond {

/// A^-1, or where A is singular to rounding its pseudo-inverse, computed in double precision. Collective: one gather of
/// A's entries; every rank holds A densely while it is inverted, and its own rows of the inverse afterwards. Where one
/// rank has all rows, it alone does. The same bits for any number of threads.
template <Scalar T>
class DenseInverse {
 public:
  /// `constants`: A maps constants to zero, and the inverse is that of A + c 1 1^T, c n the largest entry.
  DenseInverse(const op::Rows<T>& rows, const layout::Space& space, bool constants = false);
  /// u := A^-1 f. Collective: one reduction of n numbers a column; none where one rank has all rows.
  void solve(const layout::Vector<T>& f, layout::Vector<T>& u) const;
  /// The rows of the inverse on this rank.
  op::Rows<T> rows() const;

 private:
  std::size_t n_, begin_;
  bool one_rank_;
  std::vector<T> own_;  // by rows
};

}  // namespace tacit::precond
