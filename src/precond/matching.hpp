// Permutation and scaling of a matrix to a large diagonal.
#pragma once

#include <tacit/op/local_matrix.hpp>

#include <vector>

namespace tacit::precond {

/// A matching of rows and columns that maximises prod_i |a(i, column[i])|, and scalings with which the matched entries
/// have magnitudes in [1/2, 2] and all others at most 2. The scalings are powers of two, so scaling is exact; exponents
/// are at most half of those of the scalar, and where that is not enough entries stay smaller or larger.
struct Matching {
  std::vector<Local> column;                       ///< of each row; every column once
  std::vector<int> row_exponent, column_exponent;  ///< multiply row i by 2^row_exponent[i], column j likewise
  Local unmatched = 0;  ///< rows for which no entry was left (a structurally singular matrix); they got free columns
};

/// The matching for a square block. Entries that are zero do not count. Among equal products, to rounding, the diagonal
/// is preferred on every cycle of the permutation: a diagonal that is the best choice stays as it is. Shortest
/// augmenting paths with potentials: O(n entries log n) at worst, mostly a few passes. Duff and Koster (2001),
/// doi 10.1137/S0895479899358443. Local.
template <Scalar T>
Matching maximum_product_matching(const op::LocalRows<T>& a);

}  // namespace tacit::precond
