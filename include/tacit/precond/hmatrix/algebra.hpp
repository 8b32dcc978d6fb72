// Products and inverses of H-matrices, with truncation. Sums and shifts: op/hmatrix/algebra.hpp.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>

#include <memory>

namespace tacit::precond {

/// A B, with blocks of low rank truncated to `tolerance` (Frobenius, relative) at each step, in the blocks of A; stored
/// without symmetry. report().estimated_error has the errors of A and B and of the last truncation, relative to the
/// norm of the product: where A B is much smaller than A times B, the error is larger. O(k^2 n log^2 n) operations. On
/// several ranks clusters are divided as for factors (hlu.hpp): a rank gets the rows of A and the columns of B of its
/// cells, and sends the results to the ranks that have their rows. Collective. Error(usage): rows and columns of two
/// trees; other trees; a tolerance not in (0, 1).
template <Scalar T>
std::unique_ptr<op::HMatrix<T>> product(const op::HMatrix<T>& A, const op::HMatrix<T>& B, double tolerance);

/// A^-1, in the blocks of A: L U by blocks, then U^-1 (L^-1 I), truncated at each step; stored without symmetry.
/// report().estimated_error is that of the last truncation and storage. O(k^2 n log^2 n) operations, about three times
/// those of the factors. One rank: on several the factors (Hlu) solve with any number of columns. Error(usage): several
/// ranks; two trees; a tolerance not in (0, 1). Error(input) where a pivot is zero to rounding.
template <Scalar T>
std::unique_ptr<op::HMatrix<T>> inverse(const op::HMatrix<T>& A, double tolerance);

}  // namespace tacit::precond
