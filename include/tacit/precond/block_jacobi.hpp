// BlockJacobi: incomplete factors of the diagonal blocks, one or more a rank. No messages.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/precond/triangular_factors.hpp>

#include <memory>
#include <string>

namespace tacit::precond {

using layout::Vector;

enum class Factorisation {
  ilu0,  ///< L U = A on the pattern of A; any matrix
  ic0,   ///< L L^H = A on the pattern of A; Hermitian
  iluk,  ///< ILU(k): as ilu0, with fill of `levels` levels
  ick,   ///< IC(k): as ic0, with fill of `levels` levels
  ilut   ///< ILUTP: L U = A Q with fill that is not small, columns swapped for large pivots; any matrix
};
/// The order in which the rows of a block are eliminated: as they are, reverse Cuthill-McKee, nested dissection (by
/// METIS), or approximate minimum degree (by AMD); the last two fill in least.
enum class BlockOrder { none, rcm, dissection, minimum_degree };

/// How a block is factorised.
struct Incomplete {
  Factorisation kind = Factorisation::ilu0;
  int levels = 1;         ///< iluk, ick
  double drop = 1e-3;     ///< ilut: entries below drop times the mean magnitude of their row of A are dropped
  double fill = 10;       ///< ilut: at most so many entries of the factors for an entry of A, in all rows together
  double pivoting = 0.1;  ///< ilut: columns are swapped where a diagonal entry is below this times the largest one
  /// Not for ic0 and ick: columns are permuted, and rows and columns scaled by powers of two, so that the diagonal is
  /// large (the largest product of diagonal entries).
  bool matching = false;
  BlockOrder ordering = BlockOrder::none;
  /// The defaults of a factorisation. Those of ilut: matching, and minimum_degree (in a build without AMD dissection,
  /// without METIS rcm).
  Incomplete(Factorisation how = Factorisation::ilu0);  // NOLINT: a factorisation alone stands for its defaults
};

/// y = B^-1 x, B the block diagonal of A with incompletely factorised blocks: each rank's own square block, cut into
/// `blocks` runs of rows whose lengths differ by at most one (couplings between them are dropped).
///
/// ilu0, iluk, ilut: Saad, Iterative Methods for Sparse Linear Systems (2003), Algorithm 10.4 on the pattern of A and
/// its diagonal, sections 10.3.3 and 10.4. A pivot of at most epsilon times the largest magnitude in its row of A
/// becomes sqrt(epsilon) times that magnitude (1 in a row of zeros); note() tells how many. ic0, ick: Meijerink and van
/// der Vorst (1977), doi 10.1090/S0025-5718-1977-0438681-4. Where a pivot is not positive the block is factorised anew
/// with s |D| added, D its diagonal (where that is zero, the largest magnitude of the row) and s = 1e-3, 2e-3, 4e-3,
/// ... (Manteuffel 1980, doi 10.1090/S0025-5718-1980-0559197-0); name() tells the largest s. So L L^H is positive
/// definite for every Hermitian A; where all of A's diagonal is negative the factors are those of -A, and y = -(L
/// L^H)^-1 x. `matching`: Duff and Koster (2001), doi 10.1137/S0895479899358443. A block whose factors leave the range
/// of the scalar is inverted by its diagonal alone; note() tells.
///
/// Construction is collective (agreement on errors and on note()); the work is local. ilu0 and ic0 without matching and
/// ordering are read from A into the arrays in which they are factorised in place: memory for one factor beside those
/// that are kept; the others hold a copy of the block, and idle vectors go back to the system (exec/idle.hpp). An apply
/// is local: reads the factors and 2 vectors; two triangular solves, by levels where these are wide enough for threads,
/// block by block where there are several. Same bits for any number of threads. The adjoint of ilu0 costs a second copy
/// of the factors at its first use. Error(usage): blocks < 1, an option outside its range, a matrix that has NaN or
/// Inf, for ic0 and ick a block that is not Hermitian (op/hermitian.hpp). Error(environment): dissection in a build
/// without METIS, minimum_degree in one without AMD.
template <Scalar T>
class BlockJacobi final : public op::Operator<T, Host>, public op::Noted {
 public:
  explicit BlockJacobi(const op::Csr<T, Host>& A, const Incomplete& how = {}, int blocks = 1);
  ~BlockJacobi() override;
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override;
  /// The largest shift s of ic0 and ick over all blocks and ranks, 0 when none.
  double shift() const { return shift_; }
  /// Pivots that were replaced, over all ranks.
  Global perturbed_pivots() const { return perturbed_; }
  /// Entries of the factors for each entry of the blocks, over all ranks.
  double fill() const { return fill_; }
  /// Block i of this rank: its factors as one matrix (L below the diagonal, its unit diagonal not stored, and U; ic0
  /// and ick: L, of -A where name() says so), local to the block and in the order of its elimination. Built anew.
  op::LocalRows<T> factors(int block) const;
  int blocks() const;
  /// The factors of all blocks of this rank, one below the other: the apply as data. Built anew.
  TriangularFactors<T> triangular_factors() const;
  /// Whether they are those of ic0 or ick, U = L^H: then the operator is its own adjoint.
  bool is_hermitian() const { return hermitian_; }

 protected:
  int begin(const Vector<T, Host>&, Vector<T, Host>&, bool) const override { return 0; }
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int) const override;

 private:
  struct Block;
  struct Blocks;
  /// What a factorisation came to, over blocks.
  struct Found {
    Global entries = 0, perturbed = 0, diagonals = 0, unmatched = 0;
    double shift = 0;
  };
  Found factorise(const op::Csr<T, Host>& A, const Incomplete& how);
  void describe(const Found& found, const Incomplete& how, int blocks);
  bool hermitian_;  // U = L^H
  std::unique_ptr<Blocks> blocks_;
  std::string name_;
  double shift_ = 0, fill_ = 1;
  Global perturbed_ = 0;
  bool negative_ = false;  // the factors are those of -A
};

}  // namespace tacit::precond

namespace tacit {
template <>
inline constexpr auto names_of<precond::BlockOrder> =
    named<precond::BlockOrder>("ordering", {{precond::BlockOrder::none, "none"},
                                            {precond::BlockOrder::rcm, "rcm"},
                                            {precond::BlockOrder::dissection, "dissection"},
                                            {precond::BlockOrder::minimum_degree, "minimum-degree"}});
}  // namespace tacit
