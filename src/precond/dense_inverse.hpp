// The inverse of a small matrix that is distributed by rows, as dense rows.
#pragma once

#include <tacit/op/csr.hpp>

#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

namespace tacit::precond {

template <Scalar T>
using double_t = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// A is singular to rounding where ||A|| ||A^-1|| times this is 1: what the products of the levels leave of a singular
/// value that is zero, measured as 12 roundings of the largest one.
template <Scalar T>
inline constexpr double singular_to_rounding = 64 * double(std::numeric_limits<real_t<T>>::epsilon());

/// All entries of a small matrix on every rank that has rows of it.
template <Scalar T>
struct SmallMatrix {
  std::size_t n, begin, own_rows;  ///< rows; those of this rank
  bool one_rank;                   ///< one rank has all rows, and all entries
  int ranks;                       ///< that have rows
  std::vector<Global> row, column;
  std::vector<T> value;
  /// From the rows of each rank: one gather. Collective.
  SmallMatrix(const op::Rows<T>& rows, const layout::Space& space);
};

/// All elements of f, gathered in `all` where they are on several ranks. Collective: one reduction of n numbers a
/// column; none where one rank has all rows.
template <Scalar T>
const T* whole_of(const layout::Vector<T>& f, std::size_t n, std::size_t begin, bool one_rank, std::vector<T>& all);

/// Numbers by rows, n of each row, as rows of a matrix.
template <Scalar T>
op::Rows<T> dense_rows(const std::vector<T>& numbers, std::size_t n);

/// A^-1, or where A is singular to rounding its pseudo-inverse, computed in double precision. Every rank holds A
/// densely while it is inverted, and its own rows of the inverse afterwards. Where one rank has all rows, it alone
/// does. The same bits for any number of threads.
template <Scalar T>
class DenseInverse {
 public:
  /// `constants`: A maps constants to zero, and the inverse is that of A + c 1 1^T, c n the largest entry. Local.
  explicit DenseInverse(const SmallMatrix<T>& A, bool constants = false);
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
