// Hlu: approximate triangular factors of an H-matrix, stored as H-matrices. Grasedyck and Hackbusch 2003, "Construction
// and arithmetics of H-matrices", doi 10.1007/s00607-003-0019-1.
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>
#include <tacit/op/noted.hpp>

#include <complex>
#include <memory>
#include <optional>
#include <string>

namespace tacit::precond {

using layout::Vector;

/// The precision in which factors are computed and stored.
enum class FactorPrecision {
  automatic,  ///< single where the tolerance is 1e-5 or more (block diagonals: always) and the matrix's entries are
              ///< within 1e-15 to 1e15, else full
  single,     ///< float or its complex form; factors are those of a multiple of A where its range is too small
  full        ///< the scalar's own
};

/// The triangular factors.
enum class Factors {
  automatic,  ///< cholesky where only one triangle of a Hermitian matrix is stored and its diagonal is positive; lu
              ///< where that fails
  lu,         ///< L U, rows exchanged within leaves
  cholesky    ///< L L^H: half the numbers and half the work
};

struct HluOptions {
  /// Low-rank blocks are truncated to this accuracy at each step, relative to their Frobenius norm: 0.3 to 1e-3 for a
  /// preconditioner, the operator's own accuracy for a direct solver.
  double tolerance = 1e-2;
  /// Low-rank blocks of the operator are truncated to at most so many terms; 0: taken as they are.
  Local rank = 0;
  /// Clusters of at most so many rows are not divided: a block between two of them is dense. By default 64 to
  /// 512, about five times the mean rank of A at this tolerance: larger ones take more memory.
  std::optional<Local> leaf_size{};
  FactorPrecision precision = FactorPrecision::automatic;
  Factors factors = Factors::automatic;
  /// The factors are those of scale A + shift I, for which no entry is evaluated.
  std::complex<double> scale = 1, shift = 0;
};

struct HluReport {
  double bytes = 0;       ///< of numbers in the factors, all ranks
  double most_bytes = 0;  ///< of the rank that has most of them
  Global dense_blocks = 0, low_rank_blocks = 0;
  double mean_rank = 0;
  int max_rank = 0;
  Global perturbed = 0;   ///< pivots replaced
  bool single = false;    ///< kept in single precision
  bool cholesky = false;  ///< the factors are L L^H
  double shift = 0;       ///< added to the diagonal before cholesky
  /// log |det| of the factors and its sign (of modulus 1); NaN and 0 where they could not be made.
  double log_determinant = 0;
  std::complex<double> sign = 1;
  double messages = 0, message_bytes = 0;  ///< of the construction, all ranks
  double seconds = 0;                      ///< of the slowest rank
};

/// y = (L U)^-1 x, where L U, or L L^H, approximates A (or scale A + shift I, as the options say).
///
/// Block LU in the operator's block tree: dense blocks by LAPACK with rows exchanged within a leaf, low-rank ones by
/// truncated sums and products. Updates of a block are collected, and truncated when it is needed. A pivot of at most
/// epsilon times the largest entry of its leaf becomes sqrt(epsilon) times it; note() gives the number of such pivots.
/// Cholesky factors that fail, since A is not positive definite or is not after truncation, are made again with a shift
/// of the diagonal by the size of the truncation, tolerance norm(A) / sqrt(n), then by 10 and 100 times that, as note()
/// says. Where factors leave the range of their precision it divides by the diagonal instead, as note() says.
///
/// On several ranks factors are divided into cells, pairs of clusters, which are dealt to a grid of p x p' ranks: a
/// rank sends its cells to at most p + p' - 2 others, and has about its part of all numbers. Results for different
/// numbers of ranks agree to the tolerance; those for one number are always the same bits.
///
/// Construction: O(k^2 n log^2 n); its memory is that of A in this precision, and up to four times it while it runs.
/// Threads share the work; any number of them gives the same bits. An apply reads the factors once for all columns. On
/// several ranks elements of x travel to the ranks that have their cells of the diagonal, from cell to cell, and back:
/// about two messages for each cluster and each rank of a row or column of the grid, one after the other
/// (cost().messages). Error(usage): tolerance not in (0, 1), rank < 0, leaf_size < 1, an operator over two trees;
/// cholesky of an operator that is not stored as Hermitian, or with a scale or shift that is not real; a scale of 0,
/// and a scale or shift that is not finite, or complex for a real matrix.
template <Scalar T>
class Hlu final : public op::Operator<T, Host>, public op::Noted {
 public:
  explicit Hlu(const op::HMatrix<T>& A, const HluOptions& options = {});
  ~Hlu() override;

  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override { return cost_of(false); }
  op::Cost adjoint_cost() const override { return cost_of(true); }
  const HluReport& report() const { return report_; }

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;

 private:
  struct Triangles;
  template <Scalar F>
  struct TrianglesIn;
  template <Scalar F>
  std::unique_ptr<Triangles> make(const op::HMatrix<T>& A, const HluOptions& options);
  void agree(const comm::Communicator& comm);
  op::Cost cost_of(bool adjoint) const;
  HluReport report_;
  std::string name_;
  std::unique_ptr<op::OwnRows<T>> rows_;
  std::unique_ptr<Triangles> triangles_;
};

}  // namespace tacit::precond

namespace tacit {
template <>
inline constexpr auto names_of<precond::Factors> = named<precond::Factors>("factors",
                                                                           {{precond::Factors::automatic, "auto"},
                                                                            {precond::Factors::lu, "lu"},
                                                                            {precond::Factors::cholesky, "cholesky"}});
template <>
inline constexpr auto names_of<precond::FactorPrecision> =
    named<precond::FactorPrecision>("precision", {{precond::FactorPrecision::automatic, "auto"},
                                                  {precond::FactorPrecision::single, "single"},
                                                  {precond::FactorPrecision::full, "full"}});
}  // namespace tacit
