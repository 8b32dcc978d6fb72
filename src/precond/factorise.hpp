// Incomplete factors of one block, on the pattern of the block and its diagonal.
#pragma once

#include <tacit/op/local_matrix.hpp>

#include <vector>

namespace tacit::precond {

/// The strictly lower and upper parts of the factors and the inverse of the diagonal between them.
/// ilu0: L = I + lower, U = upper + D, inverse = D^-1. ic0: L = lower + D, U = L^H.
template <Scalar T>
struct Factors {
  op::LocalRows<T> lower, upper;
  std::vector<T> inverse;
  Local perturbed = 0;  ///< pivots replaced
  double shift = 0;
  bool diagonal_only = false;
};

template <Scalar T>
Factors<T> ilu0(op::LocalRows<T> a);
/// The diagonal of a is positive (the caller has looked).
template <Scalar T>
Factors<T> ic0(const op::LocalRows<T>& a);

}  // namespace tacit::precond
