// Direct: complete factors of a stored matrix, a sparse direct solver as a preconditioner.
#pragma once

#include <tacit/op/csr.hpp>
#include <tacit/op/noted.hpp>

#include <memory>
#include <string>

namespace tacit::precond {

/// Whether this build has a sparse direct solver (Eigen's, compiled in).
bool direct_built() noexcept;

/// What a factorisation will take, counted before it begins from the column counts of the elimination tree, for pivots
/// on the diagonal. Where pivots are taken off the diagonal there is more fill, mostly less than twice as much.
struct DirectCount {
  double entries = 0;  ///< of L and U
  double flops = 0;    ///< of the factorisation, in the scalar of the matrix
  double bytes = 0;    ///< of the process that holds the factors
  double free = 0;     ///< bytes that it can still allocate
  bool fits() const { return bytes <= free; }
};

/// A matrix made ready for its factorisation: gathered, permuted and scaled, its fill counted.
template <Scalar T>
class DirectAnalysis {
 public:
  /// On several ranks rank 0 takes the whole matrix (one message from each), elsewhere nothing is kept. Rows are
  /// permuted and scaled by powers of two for a large diagonal (precond/matching.hpp), then ordered by AMD, or by METIS
  /// where that leaves fewer operations (in a build without both by reverse Cuthill-McKee). Collective; O(entries log
  /// n) mostly, and no arithmetic of the factorisation. Error(usage): a matrix that is not square or has NaN or Inf.
  /// Error(environment): a build without Eigen.
  explicit DirectAnalysis(const op::Csr<T, Host>& A);
  DirectAnalysis(DirectAnalysis&&) noexcept;
  ~DirectAnalysis();
  /// The same on all ranks.
  const DirectCount& count() const { return count_; }

 private:
  template <Scalar>
  friend class Direct;
  struct Matrix;
  struct Gathering;
  layout::Space space_;
  std::unique_ptr<Matrix> matrix_;  // null on ranks without it
  std::unique_ptr<Gathering> gathering_;
  DirectCount count_;
};

/// y = A^-1 x to rounding: Q R A C P^T = L U with R, C diagonal and P, Q permutations, by a supernodal factorisation
/// (Demmel, Eisenstat, Gilbert, Li, Liu 1999, doi 10.1137/S0895479895291765; Eigen's implementation), pivots on the
/// diagonal where this has a tenth of the largest magnitude of its column. Arithmetic and factors are in double
/// precision, also for float scalars.
///
/// On several ranks rank 0 holds the factors and solves; an apply sends x to it and y back (one message each way for
/// every other rank), and all numbers are those of one rank. On a replicated space every rank solves for itself. Same
/// bits for any number of threads: one is used.
///
/// Where a pivot vanishes, or the matrix has no entries on any transversal (structurally singular), note() names the
/// column, is_doubtful() is true, and the factors are those of R A C + 1.5e-8 D, with D the permutation that the
/// matching has made.
///
/// Construction is collective. Memory: DirectCount::bytes at most while it is made, about half of it afterwards, until
/// the object ends. Error(environment): more than the free memory, with both numbers; a build without Eigen. An apply
/// to k columns reads the factors once: 2 entries() k flops.
template <Scalar T>
class Direct final : public op::Operator<T, Host>, public op::Noted {
 public:
  explicit Direct(const op::Csr<T, Host>& A);
  explicit Direct(DirectAnalysis<T> analysis);
  ~Direct() override;
  std::string name() const override { return "direct"; }
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override;
  const DirectCount& count() const { return analysis_.count(); }
  /// Entries of L and U that are stored, the zeros of dense blocks included; the same on all ranks.
  double entries() const { return entries_; }

 protected:
  int begin(const op::Vector<T, Host>&, op::Vector<T, Host>&, bool) const override { return 0; }
  void finish(const op::Vector<T, Host>& x, op::Vector<T, Host>& y, bool adjoint, int) const override;

 private:
  struct Factors;
  void factorise();
  void solve(const op::Vector<T, Host>& x, op::Vector<T, Host>& y, bool adjoint) const;
  DirectAnalysis<T> analysis_;
  std::unique_ptr<Factors> factors_;  // null on ranks without them
  double entries_ = 0;
};

}  // namespace tacit::precond
