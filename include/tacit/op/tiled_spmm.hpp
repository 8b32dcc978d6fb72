// TiledSpmm: a sparse matrix for many columns at once (tiled_matrix.hpp), spread over ranks with sums that may be
// hierarchical (comm/hierarchy.hpp).
#pragma once

#include <tacit/comm/hierarchy.hpp>
#include <tacit/layout/clustering.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::op {

/// Which side of the matrix a rank keeps whole. columns: a rank has its own columns and partial values of every row
/// that they touch; a product ends in sums over ranks ("the sender multiplies"), an adjoint product begins with a
/// spread. rows: a rank has its own rows; a product begins with the spread of the columns they touch, an adjoint
/// product ends in sums.
enum class Split { rows, columns };

struct TiledSpmmOptions {
  TiledOptions matrix;
  /// Rows and columns of a rank's part are stored in clusters (layout/clustering.hpp), where nothing is known of their
  /// geometry; vectors keep their numbers. Empty: as they are given. The pattern is in memory meanwhile.
  std::optional<layout::ClusterOptions> clusters;
  /// Groups of ranks within which partial values are added before they travel farther; empty: direct.
  comm::Groups groups;
  /// Columns to a message; the product of the next ones is done while those are under way. 0: all at once.
  int minibatch = 0;
};

/// y = A x for k columns, and y = A^T x, each by a product of its own (stored matrices A and A^T side by side, or
/// entries that are computed twice), so that neither needs atomic sums, and both give the same bits for any number of
/// threads. Hidayetoglu et al., Petascale XCT
/// (2020), doi 10.1109/SC41405.2020.00041; MemXCT (2019), doi 10.1145/3295500.3356220.
template <Scalar T>
class TiledSpmm final : public Operator<T, Host> {
 public:
  /// `touched`: global rows (Split::columns) or columns (Split::rows) of this rank's part, ascending. `forward` makes
  /// the rows of the part, `backward` those of its transpose, in local numbers: places in `touched` on that side,
  /// elements of the space less its begin() on the other. Collective.
  TiledSpmm(Space range, Space domain, Split split, std::vector<Global> touched, const RowSource<T>& forward,
            const RowSource<T>& backward, const TiledSpmmOptions& options = {});
  /// From rows as Csr takes them, but in any order within a row; Split::rows. The transpose is made here: twice the
  /// matrix in memory meanwhile. Collective.
  TiledSpmm(Space range, Space domain, const Rows<T>& rows, const TiledSpmmOptions& options = {});
  /// From a rank's products with its part of A and of A^T, in the local numbers above. Of the options groups and
  /// minibatch count. Collective.
  TiledSpmm(Space range, Space domain, Split split, std::vector<Global> touched,
            std::unique_ptr<LocalProduct<T>> forward, std::unique_ptr<LocalProduct<T>> backward,
            const TiledSpmmOptions& options = {});
  ~TiledSpmm() override;

  std::string name() const override { return "tiled_spmm"; }
  bool has_adjoint() const override { return true; }
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  Cost cost() const override { return cost_of(false); }
  Cost adjoint_cost() const override { return cost_of(true); }

  /// Entries over all ranks.
  Global entries() const { return entries_; }
  /// A rank's part of A, or of A^T.
  const LocalProduct<T>& product(bool adjoint) const;
  bool stores_entries() const;
  /// The same as stored matrices. Error(usage) where nothing is stored.
  const TiledMatrix<T>& forward() const { return stored(false); }
  const TiledMatrix<T>& backward() const { return stored(true); }
  const comm::SparseReduction& reduction() const;
  Split split() const { return split_; }
  /// What `clusters` came to on this rank; "natural" where nothing was moved or asked for.
  const std::string& order() const { return order_; }

  /// y := clamp(A x) in one pass over the matrix; of one rank. Error(usage) over several.
  void apply_clamped(const Vector<T, Host>& x, Vector<T, Host>& y, const Clamp<T>& clamp) const;

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Parts;
  void build(std::vector<Global> touched, const RowSource<T>& forward, const RowSource<T>& backward,
             const TiledSpmmOptions& options);
  void spread(std::vector<Global> touched, const TiledSpmmOptions& options);
  void settle_facts();
  const TiledMatrix<T>& stored(bool adjoint) const;
  Cost cost_of(bool adjoint) const;
  bool sums(bool adjoint) const { return (split_ == Split::columns) != adjoint; }
  int start_batch(const Vector<T, Host>& x, bool adjoint, int from) const;
  Split split_;
  Global entries_ = 0;
  double largest_ = 0;
  std::string fault_, order_ = "natural";
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::op
