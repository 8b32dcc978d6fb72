// The inverse of a small matrix that is distributed by rows, as dense rows.
#pragma once

#include <tacit/op/csr.hpp>

#include <vector>

namespace tacit::precond {

/// A^-1, or where A is singular to rounding its pseudo-inverse. Collective: one reduction of n^2 numbers; every rank
/// holds A while it is inverted, and its own rows of the inverse afterwards. The same bits for any number of threads.
template <Scalar T>
class DenseInverse {
 public:
  DenseInverse(const op::Rows<T>& rows, const layout::Space& space);
  /// u := A^-1 f. Collective: one reduction of n numbers a column.
  void solve(const layout::Vector<T>& f, layout::Vector<T>& u) const;
  /// The rows of the inverse on this rank.
  op::Rows<T> rows() const;

 private:
  std::vector<T> inverse_of(const std::vector<T>& a) const;
  int n_;
  std::size_t begin_ = 0;
  std::vector<T> own_;  // by rows
};

}  // namespace tacit::precond
