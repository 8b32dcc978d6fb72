// HMatrix: a dense matrix given by its entries, approximated in O(n log n) numbers: blocks of clusters that are far
// apart in space are stored as low-rank products U V^H. Hackbusch 1999; in the form of HACApK (Ida et al. 2014, doi
// 10.2197/ipsjjip.22.642).
#pragma once

#include <tacit/base/names.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/op/hmatrix/batched.hpp>
#include <tacit/op/hmatrix/block_maker.hpp>
#include <tacit/op/hmatrix/block_matrix.hpp>
#include <tacit/op/hmatrix/block_tree.hpp>
#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>
#include <tacit/op/hmatrix/own_rows.hpp>
#include <tacit/op/operator.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::op {

namespace detail {
template <Scalar T>
class Storage;
}

enum class StoragePrecision {
  automatic,  ///< each column of a factor and each dense block in the lowest precision that keeps the tolerance: the
              ///< scalar's, float, or 16-bit integers
  single,     ///< the same without the integers
  full        ///< everything in the scalar's own precision
};

enum class ErrorMeasure {
  matrix,  ///< norm(A - A_H) <= tolerance norm(A), Frobenius: every stored number gets an equal share of the error
  block    ///< the same bound for each block (HACApK, hmat, htool): stricter, and more memory
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
  /// With symmetry, only blocks on and below the diagonal are evaluated and stored, and a product uses each for both
  /// triangles. Error(usage) where sampled rows differ from their columns by more than the tolerance. Needs one tree
  /// and one space.
  Symmetry symmetry = Symmetry::none;
  /// The number of rows of A that are sampled to estimate its norm before compression and to measure the error after
  /// it; all rows where there are fewer. They cost sampled_rows n entries (twice that with symmetry). Where the
  /// measured error exceeds three tolerances, or far blocks are zero or large without low rank, and compress.verify is
  /// set, all blocks are made again with 16 sampled rows and columns each, and those of up to 2^16 entries (all, where
  /// the matrix has up to 2^26) are compared with all their entries: slow but safe. If the error remains, or verify is
  /// off, the report has a warning.
  int sampled_rows = 32;
  /// Whether the entry function may be called from several threads at once. If not, and blocks are made by crosses,
  /// many blocks are made together, and a call is for rows or columns of all of them, which costs less where a call
  /// itself is slow (Python). The crosses are the same. More entries are sampled then.
  bool concurrent = true;
  /// Whether entries are known to vary smoothly between points that are far from each other. If not, and with
  /// compress.verify, blocks of a matrix of up to `compared` entries are compared with all entries, and lines of every
  /// block of a larger one; if they are, lines of some blocks.
  bool smooth = true;
  Global compared = Global(1) << 22;
  /// Entries are known to be symmetric (A = A^T), and rows and columns have one tree: blocks whose mirror block is on
  /// the same rank are its transpose, which halves the assembly. All blocks are stored.
  bool mirrors = false;
  /// The largest number of rounds of load balancing: while a rank has less than 0.97 of another's bytes, the cuts
  /// between ranks are moved towards equal bytes, and blocks that a cut has changed are compressed again.
  int balance_rounds = 2;
  /// Nested bases (an H2-matrix): a cluster has one basis for all of its far blocks, made of those of its children, and
  /// a far block is a small matrix between two of them. Less memory and a faster product than low rank by blocks, for
  /// smooth entries; the bases are made from samples of the far field, and the error is measured on sampled columns
  /// (docs/theory/hmatrix.md). Error(usage) with symmetry, measure block, svd, max_rank, cut_rank, without recompress,
  /// and with a maker; own_square(), storage(), use_batches() and coarse copies are refused.
  bool nested = false;
};

/// Options of a coarse copy of an HMatrix.
struct CoarseOptions {
  /// The largest rank of low-rank blocks; 0: unlimited.
  Local rank = 1;
  /// The relative error (Frobenius) of the truncation of low-rank blocks and of their storage.
  double tolerance = 1e-2;
};

/// Size and accuracy of an HMatrix, over all ranks.
struct HMatrixReport {
  Global rows = 0, columns = 0;
  Global dense_blocks = 0, low_rank_blocks = 0;
  std::vector<Global> ranks;  ///< ranks[r]: low-rank blocks of rank r; with nested bases, clusters
  double mean_rank = 0;       ///< over the low-rank blocks, or clusters
  int max_rank = 0;
  double bytes = 0;                                          ///< of stored numbers
  double full_bytes = 0, single_bytes = 0, fixed_bytes = 0;  ///< of these, by precision
  double index_bytes = 0;                                    ///< of the index data
  double dense_fraction = 0;                                 ///< bytes over those of the full matrix
  double entries_evaluated = 0;                              ///< entries evaluated, over rows x columns
  double estimated_error = 0;  ///< relative, Frobenius: truncation, estimates of ACA, rounding
  /// The larger of norm(A x - A_H x) / norm(A) on the sampled rows, x random +-1, and the relative error of entries at
  /// random places in low-rank blocks (Frobenius), which cut_rank > 0 leaves out.
  double measured_error = 0;
  double measured_error_ones = 0;  ///< the same with x = 1, relative to max(norm(A x), norm(A))
  /// An upper estimate of the relative error (Frobenius) with this confidence: two standard errors above what was
  /// measured on random lines and entries of low-rank blocks, plus what is known of storage. The confidence is 1
  /// where all low-rank blocks were compared with all entries, and 0 where no block was compared: the bound is then the
  /// larger one of the two errors above, no more.
  double error_bound = 0, confidence = 0;
  double norm = 0;                         ///< Frobenius, of A
  double set_up_seconds = 0;               ///< of the slowest rank
  double least_bytes = 0, most_bytes = 0;  ///< smallest and largest of all ranks
  std::vector<std::string> warnings;       ///< a measured error of more than three tolerances, or rough blocks
};

/// A part of a saved matrix: bytes of the matrix itself, or of `owner`.
struct SavedPart {
  std::string name;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// A_ij = entry(i, j); the trees give the geometry of rows i and columns j. A rank has contiguous rows of A in the
/// order of the tree, chosen for equal bytes. By kind of space:
///  - replicated: every rank holds all of x; a product ends in a gather, which start() posts. As in HACApK, but no row
///    is shared by ranks, so that all hold the same bits.
///  - distributed: start() fetches the elements of x that a rank's blocks touch, and results are sent to the ranks that
///    own them.
/// A block divided between ranks is compressed in parts, so results for different numbers of ranks agree to the
/// tolerance only; for different numbers of threads they agree to the bit. Cost: O(n log n) numbers, which a product
/// reads once (cost().bytes; with symmetry V twice). With replicated vectors a rank sends its rows of y to all others;
/// with distributed ones it sends its elements of x to the ranks that touch them, in general all that are not empty.
template <Scalar T>
class HMatrix final : public Operator<T, Host> {
 public:
  /// Collective. `range` and `domain` are on one communicator, and both replicated or both distributed; their sizes are
  /// those of the trees, which must be equal on all ranks. Where rows and columns have the same geometry, pass the same
  /// tree object. Error(usage) otherwise, or when the tolerance is not below 1 or below 4 units of the scalar's
  /// rounding; Error(input) naming row and column for an entry that is not finite. An exception of the entry function
  /// on one rank is thrown by all. The entry function is called with the caller's indices, during construction only.
  ///
  /// With a `maker` for the same entries (device_blocks.hpp) on every rank, it computes the blocks. The entry function
  /// is then used for the sampled rows, for blocks that the maker gives up, for comparisons with all entries, and for
  /// all blocks where squares of entries would overflow or underflow.
  HMatrix(Space range, Space domain, std::shared_ptr<const ClusterTree> rows,
          std::shared_ptr<const ClusterTree> columns, const EntryFunction<T>& entry, const HMatrixOptions& options = {},
          BlockMaker<T>* maker = nullptr);
  /// Square, over one tree.
  HMatrix(const Space& space, const std::shared_ptr<const ClusterTree>& tree, const EntryFunction<T>& entry,
          const HMatrixOptions& options = {}, BlockMaker<T>* maker = nullptr)
      : HMatrix(space, space, tree, tree, entry, options, maker) {}
  /// A coarse copy of `fine`, for preconditioning: the same blocks, spaces and distribution, with low-rank blocks
  /// truncated by `coarse` (optimal for their rank where the fine matrix was recompressed). No entry is evaluated, and
  /// the only messages are reductions for the report, whose measured errors are 0 (not measured). Collective.
  /// Error(usage) unless rank >= 0 and 0 < tolerance < 1.
  HMatrix(const HMatrix& fine, const CoarseOptions& coarse);
  /// A matrix of other blocks, for arithmetic (algebra.hpp): with the spaces, the trees and the rows of each rank of
  /// `like`. The blocks cover this rank's rows once (with symmetry on and below the diagonal); those of low
  /// rank are truncated, and all stored, to `tolerance` relative to their norms. `error`: that of all blocks so far
  /// (Frobenius, absolute, the same on all ranks), which the report adds. Collective. Error(usage) unless 0 < tolerance
  /// < 1.
  HMatrix(const HMatrix& like, std::vector<BlockMatrix<T>> blocks, Symmetry symmetry, double tolerance, double error);
  /// This rank's part of a matrix, as saved() gives it: the same bits. Numbers are not copied; the owners of the parts
  /// are kept. Collective. Error(input) for parts of another version, machine or number of ranks, or that do not fit
  /// together. Spaces as at the construction; equal ones for a matrix of one tree.
  HMatrix(Space range, Space domain, const std::vector<SavedPart>& parts);
  ~HMatrix() override;
  /// What the constructor above takes: valid while the matrix exists. Local.
  std::vector<SavedPart> saved() const;

  std::string name() const override { return "hmatrix"; }
  bool has_adjoint() const override { return true; }
  /// Whether rows and columns have one tree and one space.
  bool has_diagonal() const override;
  std::vector<T> diagonal() const override;
  /// A bound: the maximum of the entries of dense blocks and the norms of low-rank blocks.
  double largest() const override { return largest_; }
  /// Of the numbers of all blocks.
  bool intact() const override;
  /// The largest of the three errors of the report.
  double accuracy() const override {
    return std::max({report_.estimated_error, report_.measured_error, report_.measured_error_ones});
  }
  Cost cost() const override;
  Cost adjoint_cost() const override;
  /// The same on all ranks.
  const HMatrixReport& report() const { return report_; }
  const HMatrixOptions& options() const { return options_; }
  /// This rank's rows of A: positions [first, second) in the order of the row tree.
  std::pair<Local, Local> own_rows() const;
  /// The transfer of vectors to and from own_rows().
  const OwnRows<T>& rows() const;
  /// The blocks of the square part of A with own_rows() as rows and columns; with symmetry both triangles. Only those
  /// for which `wanted` is true (empty: all). Local; memory: the blocks returned. Error(usage) unless rows and columns
  /// have one tree.
  std::vector<BlockMatrix<T>> own_square(const std::function<bool(const Block&)>& wanted = {}) const {
    return blocks_within(own_rows().first, own_rows().second, wanted);
  }
  /// The same of the columns [begin, end) by position: those of own_rows() and, with symmetry, their mirror blocks,
  /// whose columns are own_rows().
  std::vector<BlockMatrix<T>> blocks_within(Local begin, Local end,
                                            const std::function<bool(const Block&)>& wanted = {}) const;
  std::shared_ptr<const ClusterTree> row_tree() const;
  /// The vector element at each position of the column tree.
  std::span<const Global> column_order() const;
  /// This rank's stored numbers, for products on devices.
  const detail::Storage<T>& storage() const;
  /// The diagonal of own_rows(), in the order of the tree; empty with two trees. Local.
  const std::vector<T>& own_diagonal() const;
  /// Does later products (not adjoint ones) by batches of small products in the scalar's own precision, for comparison;
  /// this copies the matrix. Results agree to rounding; with several queues their last bits vary. Local; give the same
  /// options on all ranks. Error(usage): as plan_batches(); with symmetry.
  void use_batches(const BatchOptions& options);
  /// Ends use_batches(): later products are the operator's own again. Local.
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
  template <class Assembly>
  void take(Assembly& assembly);
  template <class Packed>
  void describe(std::vector<Packed> packed, int exponent);
  void place_as(const HMatrix& other);
  void coarsen(const HMatrix& fine, const CoarseOptions& coarse);
  void store_blocks(std::vector<BlockMatrix<T>> blocks, double error);
  template <class Next>
  void store(std::size_t count, Next&& next, double error);
  void exchange_patterns();
  // With nested bases (nested_assembly.cpp).
  void check_nested(bool by_maker) const;
  void assemble_nested(const EntryFunction<T>& entry);
  void describe_nested(const HMatrixReport& near, Global far_blocks, const std::vector<Local>& row_rank,
                       const std::vector<Local>& column_rank);
  std::array<double, 4> compare_columns(const EntryFunction<T>& entry, const std::vector<Local>& positions,
                                        int exponent, Global& evaluated) const;
  void require_blocks(const char* what) const;
  bool two_sided() const { return options_.symmetry != Symmetry::none; }
  void multiply_both(const T* x, T* y, int k, bool adjoint) const;
  void multiply_rows(const T* x, T* rows, int k) const;
  void multiply_adjoint(const T* rows, T* y, int k) const;
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
