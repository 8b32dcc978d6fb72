// Arithmetic of H-matrices, with truncation: multiples and shifts, sums, corrections of low rank. No entry is
// evaluated.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>

#include <memory>

namespace tacit::op {

/// Products and inverses: precond/hmatrix/algebra.hpp. All are collective. A result has the spaces, the blocks, the
/// rows of each rank and the symmetry of A; report().estimated_error is the sum of the errors of what it is made of and
/// of the truncation, relative to its norm (measured_error is 0: not measured).

/// Whether two trees have the same clusters of the same points. Local.
bool same_tree(const ClusterTree& a, const ClusterTree& b);

/// scale A + shift I + diag(d), d in the space of A, or null. The blocks of low rank keep their terms. Cost: a few
/// passes over A. Error(usage): rows and columns of two trees; a shift or d that is not real, or a complex scale, of a
/// matrix stored as Hermitian.
template <Scalar T>
std::unique_ptr<HMatrix<T>> shifted(const HMatrix<T>& A, T scale, T shift, const Vector<T>* d = nullptr);

/// alpha A + beta B, where each block of low rank is truncated to `tolerance`, relative to its norm (Frobenius). Blocks
/// and rows of ranks of B may be others than those of A. Cost: O(k^2 n log n) for ranks k. Messages: where the rows of
/// ranks differ, those of B. Error(usage): other trees (another order of points, or other clusters), another symmetry;
/// a number that is not real for matrices stored as Hermitian.
template <Scalar T>
std::unique_ptr<HMatrix<T>> sum(T alpha, const HMatrix<T>& A, T beta, const HMatrix<T>& B, double tolerance);

/// A + U V^H, truncated as above; U and V of k columns in the space of A. With symmetry U V^H needs it too: V is U
/// where A is stored as Hermitian, and conj(U) where it is stored as symmetric (not compared). Distributed V is
/// gathered on all ranks.
template <Scalar T>
std::unique_ptr<HMatrix<T>> add_low_rank(const HMatrix<T>& A, const Vector<T>& U, const Vector<T>& V, double tolerance);

}  // namespace tacit::op
