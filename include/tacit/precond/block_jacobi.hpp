// BlockJacobi: incomplete factors of the diagonal blocks, one or more a rank. No messages.
#pragma once

#include <tacit/op/csr.hpp>
#include <tacit/op/noted.hpp>

#include <memory>
#include <string>

namespace tacit::precond {

using layout::Vector;

enum class Factorisation {
  ilu0,  ///< L U = A on the pattern of A; any matrix
  ic0    ///< L L^H = A on the pattern of A; Hermitian positive definite (or negative: of -A)
};

/// y = B^-1 x, B the block diagonal of A with incompletely factorised blocks: each rank's own square block, cut into
/// `blocks` runs of rows whose lengths differ by at most one (couplings between them are dropped).
///
/// ilu0: Saad, Iterative Methods for Sparse Linear Systems (2003), Algorithm 10.4, on the pattern of A and its
/// diagonal. A pivot of at most epsilon times the largest magnitude in its row of A becomes sqrt(epsilon) times that
/// magnitude (1 in a row of zeros); note() tells how many. ic0: Meijerink and van der Vorst (1977),
/// doi 10.1090/S0025-5718-1977-0438681-4. Where a pivot is not positive the block is factorised anew with its diagonal
/// times 1 + s, s = 1e-3, 2e-3, 4e-3, ... (Manteuffel 1980, doi 10.1090/S0025-5718-1980-0559197-0); name() tells the
/// largest s. Hermitian positive definite when A is; where all of A's diagonal is negative the factors are those of -A,
/// and y = -(L L^H)^-1 x. A block whose factors leave the range of the scalar is inverted by
/// its diagonal alone; note() tells.
///
/// Construction is collective (agreement on errors and on note()); the work is local. An apply is local: reads the
/// factors and 2 vectors; two triangular solves, by levels where these are wide enough for threads, block by block
/// where there are several. Same bits for any number of threads. The adjoint of ilu0 costs a second copy of the factors
/// at its first use. Error(usage): blocks < 1, a matrix that has NaN or Inf, for ic0 a block that is not Hermitian
/// (op/hermitian.hpp) or a diagonal that is not of one sign (global row).
template <Scalar T>
class BlockJacobi final : public op::Operator<T, Host>, public op::Noted {
 public:
  explicit BlockJacobi(const op::Csr<T, Host>& A, Factorisation factorisation = Factorisation::ilu0, int blocks = 1);
  ~BlockJacobi() override;
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override;
  /// The largest shift s of ic0 over all blocks and ranks, 0 when none.
  double shift() const { return shift_; }
  /// Pivots of ilu0 that were replaced, over all ranks.
  Global perturbed_pivots() const { return perturbed_; }
  /// Block i of this rank: its factors as one matrix (ilu0: L below the diagonal, its unit diagonal not stored, and U;
  /// ic0: L, of -A where name() says so), local to the block. Built anew.
  op::LocalRows<T> factors(int block) const;
  int blocks() const;

 protected:
  int begin(const Vector<T, Host>&, Vector<T, Host>&, bool) const override { return 0; }
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int) const override;

 private:
  struct Block;
  struct Blocks;
  Factorisation factorisation_;
  std::unique_ptr<Blocks> blocks_;
  std::string name_;
  double shift_ = 0;
  Global perturbed_ = 0;
  bool negative_ = false;  // the factors of ic0 are those of -A
};

}  // namespace tacit::precond
