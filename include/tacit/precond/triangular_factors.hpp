// TriangularFactors: sparse factors L and U of a rank's rows, as solves use them.
#pragma once

#include <tacit/op/local_matrix.hpp>

#include <vector>

namespace tacit::precond {

/// x -> y = D_c P_c^T U^-1 L^-1 P_r D_r x on the rows of a rank, L and U triangular in the order of elimination, P_r
/// and P_c permutations, D_r and D_c powers of two. All indices are local.
template <Scalar T>
struct TriangularFactors {
  op::LocalRows<T> lower, upper;                   ///< the strictly lower part of L, the strictly upper part of U
  std::vector<T> lower_inverse, upper_inverse;     ///< of their diagonals; empty: ones
  std::vector<Local> row, column;                  ///< of x and of y, for each row in the order of elimination
  std::vector<int> row_exponent, column_exponent;  ///< of D_r and D_c, for each element of x and of y; empty: zeros
  bool negative = false;                           ///< y changes its sign
};

}  // namespace tacit::precond
