// Incomplete factors of one block.
#pragma once

#include <tacit/op/local_matrix.hpp>

#include <functional>
#include <vector>

namespace tacit::precond {

/// The strictly lower and upper parts of the factors and the inverse of the diagonal between them.
/// ilu0 and ilut: L = I + lower, U = upper + D, inverse = D^-1. ic0: L = lower + D, U = L^H, upper is not made.
template <Scalar T>
struct Factors {
  op::LocalRows<T> lower, upper;
  std::vector<T> inverse;
  Local perturbed = 0;  ///< pivots replaced
  double shift = 0;
  bool diagonal_only = false;
};

/// Called now and then during a factorisation; may throw, where the user wants to stop.
using Poll = std::function<void()>;

/// L U = a on the pattern of a and its diagonal; in place.
template <Scalar T>
Factors<T> ilu0(op::SplitRows<T> a, const Poll& poll);
/// L L^H = a + shift |diagonal| on the pattern of a, which is Hermitian: its upper part is not read. Where a diagonal
/// entry is zero, the largest magnitude of its row stands for it in the shift. Memory: the values of the lower part.
template <Scalar T>
Factors<T> ic0(op::SplitRows<T> a, const Poll& poll);

/// The three parts of a.
template <Scalar T>
op::SplitRows<T> split(const op::LocalRows<T>& a, bool with_upper);
/// a with zeros stored where elimination fills in up to the given level: an entry of a has level 0, an entry that comes
/// from l_ik u_kj level(i, k) + level(k, j) + 1. ilu0 and ic0 of the result are ILU(k) and IC(k).
template <Scalar T>
op::SplitRows<T> with_levels(const op::LocalRows<T>& a, int levels, bool with_upper, const Poll& poll);

/// Options of ilut.
struct Threshold {
  double drop = 1e-3, fill = 10, pivoting = 0.1;
};
/// L U = a Q with a permutation Q of columns. Column i of a Q is column order[i] of a. Row by row, entries below
/// `drop` times the mean magnitude of a's row are dropped, and of the rest of L and of U the largest ones stay: in each
/// `fill` / 2 times the mean number of entries in a row of a, and what earlier rows have left of theirs, so that L + U
/// has at most `fill` times the entries of a. Columns are swapped where the diagonal is below `pivoting` times the
/// largest entry right of it. Saad, Iterative methods for sparse linear systems (2003), section 10.4.4, with a limit
/// for each row.
template <Scalar T>
Factors<T> ilut(const op::LocalRows<T>& a, const Threshold& t, std::vector<Local>& order, const Poll& poll);

}  // namespace tacit::precond
