// HMatrix: a dense matrix given by its entries, kept in n log n numbers: blocks that are far from the diagonal in space
// become products U V^H of low rank. Hackbusch 1999; in the form of HACApK (Ida et al. 2014, doi 10.2197/ipsjjip.22.642).
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>
#include <tacit/op/operator.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

enum class StoragePrecision {
  automatic,  ///< every column of a factor and every dense block in the lowest of: own, float, 16-bit integers, that keeps
              ///< the tolerance
  single,     ///< the same without the integers
  full        ///< all in the scalar's own precision
};

enum class ErrorMeasure {
  matrix,  ///< norm(A - A_H) <= tolerance norm(A), Frobenius: far blocks with small entries need not be as good as near ones
  block    ///< the same of every block by itself (HACApK, hmat, htool): stricter, and larger
};

struct HMatrixOptions {
  /// Relative error of the operator, in the Frobenius norm.
  double tolerance = 1e-4;
  ErrorMeasure measure = ErrorMeasure::matrix;
  Admissibility admissibility{};
  CompressOptions compress{};
  StoragePrecision storage = StoragePrecision::automatic;
  /// Rows of A, at most, by which its norm is estimated before and its error measured after compression. They cost
  /// sampled_rows n entries.
  int sampled_rows = 16;
  /// The entry function may be called from several threads at once.
  bool concurrent = true;
};

/// What an HMatrix turned out to be, over all ranks.
struct HMatrixReport {
  Global rows = 0, columns = 0;
  Global dense_blocks = 0, low_rank_blocks = 0;
  std::vector<Global> ranks;       ///< ranks[r]: low-rank blocks of rank r
  double mean_rank = 0;            ///< over the low-rank blocks
  int max_rank = 0;
  double bytes = 0;                ///< of stored numbers
  double full_bytes = 0, single_bytes = 0, fixed_bytes = 0;  ///< of these by precision
  double index_bytes = 0;          ///< of what tells where they belong
  double dense_fraction = 0;       ///< bytes over those of the full matrix
  double entries_evaluated = 0;    ///< calls for one entry, over rows x columns
  double estimated_error = 0;      ///< relative, Frobenius: cut-off parts, crosses' estimates, rounding
  double measured_error = 0;       ///< norm(A x - A_H x) / norm(A x) on the sampled rows, x random
  double measured_error_ones = 0;  ///< the same with x = 1
  double set_up_seconds = 0;       ///< of the slowest rank
  double least_bytes = 0, most_bytes = 0;  ///< of a rank
};

/// A_ij = entry(i, j) for targets i at rows and sources j at columns. Space by space:
///  - replicated: every rank holds all of x; its part of A is contiguous rows (in the order of the tree) of equal predicted
///    cost; a product ends in a gather, which start() posts. As in the paper, but no two ranks share a row, so that all
///    hold the same bits.
///  - distributed: the same rows; x is gathered first, results go to the ranks that own them.
/// A split block is compressed in its parts, so numbers of ranks agree to the tolerance and not to the bit; numbers of
/// threads agree to the bit.
/// Costs: n log n numbers; a product reads them once (cost().bytes) and sends n elements to every other rank.
template <Scalar T>
class HMatrix final : public Operator<T, Host> {
 public:
  /// Collective. `range` and `domain` are on one communicator, and both replicated or both distributed; their sizes are
  /// those of the trees. Give one and the same tree for rows and columns where they are. Error(usage) otherwise, or when
  /// the tolerance is not in (0, 1) or below 4 units of the scalar's rounding; Error(input) for an entry that is not
  /// finite. The entry function is called with the caller's indices.
  HMatrix(Space range, Space domain, std::shared_ptr<const ClusterTree> rows, std::shared_ptr<const ClusterTree> columns,
          EntryFunction<T> entry, const HMatrixOptions& options = {});
  ~HMatrix() override;

  std::string name() const override { return "hmatrix"; }
  bool has_adjoint() const override { return true; }
  Cost cost() const override;
  Cost adjoint_cost() const override;
  /// The same on all ranks.
  const HMatrixReport& report() const { return report_; }
  const HMatrixOptions& options() const { return options_; }
  /// Positions of the row tree's order that this rank's rows of A have.
  std::pair<Local, Local> own_rows() const;

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Parts;
  HMatrixOptions options_;
  HMatrixReport report_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::op
