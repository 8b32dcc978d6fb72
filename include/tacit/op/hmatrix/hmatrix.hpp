// HMatrix: a dense matrix given by its entries, kept in n log n numbers: blocks that are far from the diagonal in space
// become products U V^H of low rank. Hackbusch 1999; in the form of HACApK (Ida et al. 2014,
// doi 10.2197/ipsjjip.22.642).
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/op/hmatrix/batched.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>
#include <tacit/op/hmatrix/own_rows.hpp>
#include <tacit/op/operator.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

namespace detail {
template <Scalar T>
class Storage;
}

enum class StoragePrecision {
  automatic,  ///< every column of a factor and every dense block in the lowest of: own, float, 16-bit integers, that
              ///< keeps the tolerance
  single,     ///< the same without the integers
  full        ///< all in the scalar's own precision
};

enum class ErrorMeasure {
  matrix,  ///< norm(A - A_H) <= tolerance norm(A), Frobenius: every number stored gets an equal share of the error
  block    ///< the same of every block by itself (HACApK, hmat, htool): stricter, and larger
};

enum class Symmetry {
  none,
  symmetric,  ///< A = A^T
  hermitian   ///< A = A^H
};

struct HMatrixOptions {
  /// Relative error of the operator, in the Frobenius norm.
  double tolerance = 1e-4;
  ErrorMeasure measure = ErrorMeasure::matrix;
  Admissibility admissibility{};
  CompressOptions compress{};
  StoragePrecision storage = StoragePrecision::automatic;
  /// Not none: only blocks on and below the diagonal are evaluated and kept, and a product takes each for both of its
  /// places. The rows sampled are compared with their columns: Error(usage) where these differ by more than the
  /// tolerance. Needs one tree and one space.
  Symmetry symmetry = Symmetry::none;
  /// Rows of A, at most, by which its norm is estimated before and its error measured after compression. They cost
  /// sampled_rows n entries. Where the error measured is above three tolerances and compress.verify is set, all blocks
  /// are made again with 16 rows and columns looked at in each, and all entries of those below 2^16 (all blocks, where
  /// the matrix has at most 2^26): slow and safe. If that does not help, or is not to be, the report has a warning.
  int sampled_rows = 32;
  /// The entry function may be called from several threads at once.
  bool concurrent = true;
  /// Cuts between ranks are moved to equal measured bytes, so many times, where a rank has less than 0.97 of another's;
  /// blocks that change hands are compressed again.
  int balance_rounds = 2;
};

/// A block of an HMatrix: all entries, or U V^H of low rank.
template <Scalar T>
struct BlockMatrix {
  Block block;
  bool dense = false;
  Local rank = 0;
  std::vector<T> u, v;  ///< rows x rank, columns x rank, by columns, the largest terms first; dense: u has all entries
};

/// What is left of an HMatrix in a coarse copy.
struct CoarseOptions {
  /// Low-rank blocks keep at most so many terms; 0: any number.
  Local rank = 1;
  /// They keep what is above this part of their norm (Frobenius), and numbers are stored for this error.
  double tolerance = 1e-2;
};

/// What an HMatrix turned out to be, over all ranks.
struct HMatrixReport {
  Global rows = 0, columns = 0;
  Global dense_blocks = 0, low_rank_blocks = 0;
  std::vector<Global> ranks;  ///< ranks[r]: low-rank blocks of rank r
  double mean_rank = 0;       ///< over the low-rank blocks
  int max_rank = 0;
  double bytes = 0;                                          ///< of stored numbers
  double full_bytes = 0, single_bytes = 0, fixed_bytes = 0;  ///< of these by precision
  double index_bytes = 0;                                    ///< of what tells where they belong
  double dense_fraction = 0;                                 ///< bytes over those of the full matrix
  double entries_evaluated = 0;                              ///< calls for one entry, over rows x columns
  double estimated_error = 0;              ///< relative, Frobenius: cut-off parts, crosses' estimates, rounding
  double measured_error = 0;               ///< norm(A x - A_H x) / norm(A) on the sampled rows, x random +-1
  double measured_error_ones = 0;          ///< with x = 1: over norm(A x), or norm(A) where that is larger
  double norm = 0;                         ///< Frobenius, of A
  double set_up_seconds = 0;               ///< of the slowest rank
  double least_bytes = 0, most_bytes = 0;  ///< of a rank
  std::vector<std::string> warnings;       ///< a measured error of more than three tolerances
};

/// A_ij = entry(i, j) for targets i at rows and sources j at columns. Space by space:
///  - replicated: every rank holds all of x; its part of A is contiguous rows, in the order of the tree, of equal
///    measured bytes; a product ends in a gather, which start() posts. As in HACApK, but no two ranks share a row, so
///    that all hold the same bits.
///  - distributed: the same rows; the elements of x that a rank's blocks touch come to it behind start(), results go to
///    the ranks that own them.
/// A block that is cut between ranks is compressed in its parts, so numbers of ranks agree to the tolerance and not to
/// the bit; numbers of threads agree to the bit. Costs: O(n log n) numbers; a product reads them once (cost().bytes).
/// Replicated, a rank sends its rows of y to every other; distributed, its elements of x to whoever touches them (all
/// but the empty ranks, where nothing is screened).
template <Scalar T>
class HMatrix final : public Operator<T, Host> {
 public:
  /// Collective. `range` and `domain` are on one communicator, and both replicated or both distributed; their sizes are
  /// those of the trees, which all ranks make alike. Give one and the same tree for rows and columns where they are.
  /// Error(usage) otherwise, or when the tolerance is not below 1 or below 4 units of the scalar's rounding;
  /// Error(input) naming row and column for an entry that is not finite. What the entry function throws on any rank,
  /// all ranks throw. The entry function is called with the caller's indices, during construction only.
  ///
  /// With a `maker` of the same entries (device_blocks.hpp) on every rank it makes the blocks; the entry function is
  /// asked for the sampled rows, for blocks that the maker gives up, and for all blocks where entries leave the range
  /// in which squares are numbers.
  HMatrix(Space range, Space domain, std::shared_ptr<const ClusterTree> rows,
          std::shared_ptr<const ClusterTree> columns, const EntryFunction<T>& entry, const HMatrixOptions& options = {},
          BlockMaker<T>* maker = nullptr);
  /// Square, over one tree.
  HMatrix(const Space& space, const std::shared_ptr<const ClusterTree>& tree, const EntryFunction<T>& entry,
          const HMatrixOptions& options = {}, BlockMaker<T>* maker = nullptr)
      : HMatrix(space, space, tree, tree, entry, options, maker) {}
  /// A coarse copy of `fine`, for preconditioning: the same blocks, spaces and shares of ranks, low-rank ones cut by
  /// `coarse` (where the fine matrix was recompressed these are the best of their rank). No entry is evaluated; no
  /// message but sums of the report, whose measured errors are 0 (nothing was measured). Collective. Error(usage)
  /// unless rank >= 0 and 0 < tolerance < 1.
  HMatrix(const HMatrix& fine, const CoarseOptions& coarse);
  ~HMatrix() override;

  std::string name() const override { return "hmatrix"; }
  bool has_adjoint() const override { return true; }
  /// Rows and columns have one tree and one space.
  bool has_diagonal() const override;
  std::vector<T> diagonal() const override;
  /// A bound: the largest entry of the dense blocks, the largest norm of the others.
  double largest() const override { return largest_; }
  /// The largest of the three errors of the report.
  double accuracy() const override {
    return std::max({report_.estimated_error, report_.measured_error, report_.measured_error_ones});
  }
  Cost cost() const override;
  Cost adjoint_cost() const override;
  /// The same on all ranks.
  const HMatrixReport& report() const { return report_; }
  const HMatrixOptions& options() const { return options_; }
  /// Positions in the row tree's order that this rank's rows of A have: [first, second).
  std::pair<Local, Local> own_rows() const;
  /// The same with the way of vectors there and back.
  const OwnRows<T>& rows() const;
  /// The square part of A in own_rows() and the same columns, cut into blocks that cover it once; with symmetry both
  /// triangles. Only those that `wanted` says (empty: all). Local; the memory of what is asked for. Error(usage) unless
  /// rows and columns have one tree.
  std::vector<BlockMatrix<T>> own_square(const std::function<bool(const Block&)>& wanted = {}) const;
  std::shared_ptr<const ClusterTree> row_tree() const;
  /// The element of a vector that stands at each position of the column tree.
  std::span<const Global> column_order() const;
  /// This rank's numbers, for what runs the product elsewhere.
  const detail::Storage<T>& storage() const;
  /// The diagonal of the own rows, in the order of the tree; empty over two trees. Local.
  const std::vector<T>& own_diagonal() const;
  /// Products (not adjoint ones) from now on by batches of small products in the scalar's own precision, to compare
  /// with: a copy of the matrix. The same numbers to rounding; with several queues not the same bits each time. Local,
  /// but ranks that give the same options agree. Error(usage): what plan_batches says; with symmetry.
  void use_batches(const BatchOptions& options);
  /// The operator's own product again.
  void use_own_product();
  /// This rank's plan and the seconds of its last product; null without batches.
  const BatchReport* batches() const;

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;

 private:
  struct Parts;
  comm::Exchange& column_exchange(int columns) const;
  void assemble(const EntryFunction<T>& entry, BlockMaker<T>* maker);
  template <class Packed>
  void describe(std::vector<Packed> packed, int exponent);
  void coarsen(const HMatrix& fine, const CoarseOptions& coarse);
  void exchange_patterns();
  bool two_sided() const { return options_.symmetry != Symmetry::none; }
  void multiply_both(const T* x, T* y, int k, bool adjoint) const;
  void multiply_rows(const T* x, T* rows, int k) const;
  int post_sums(int k) const;
  void finish_sums(int k, int slot, T* y) const;
  HMatrixOptions options_;
  HMatrixReport report_;
  double largest_ = 0;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::op

template <>
inline constexpr auto tacit::names_of<tacit::op::StoragePrecision> =
    tacit::named<tacit::op::StoragePrecision>("storage", {{tacit::op::StoragePrecision::automatic, "automatic"},
                                                          {tacit::op::StoragePrecision::single, "single"},
                                                          {tacit::op::StoragePrecision::full, "full"}});

template <>
inline constexpr auto tacit::names_of<tacit::op::ErrorMeasure> = tacit::named<tacit::op::ErrorMeasure>(
    "measure", {{tacit::op::ErrorMeasure::matrix, "matrix"}, {tacit::op::ErrorMeasure::block, "block"}});

template <>
inline constexpr auto tacit::names_of<tacit::op::Symmetry> =
    tacit::named<tacit::op::Symmetry>("symmetry", {{tacit::op::Symmetry::none, "none"},
                                                   {tacit::op::Symmetry::symmetric, "symmetric"},
                                                   {tacit::op::Symmetry::hermitian, "hermitian"}});
