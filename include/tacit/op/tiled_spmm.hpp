// TiledSpmm: a distributed sparse matrix for products with many columns (tiled_matrix.hpp), with reductions that may be
// hierarchical (comm/hierarchy.hpp).
#pragma once

#include <tacit/comm/hierarchy.hpp>
#include <tacit/layout/clustering.hpp>
#include <tacit/op/adjustable.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/op/tiled_matrix.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tacit::op {

/// How the matrix is distributed. columns: by columns; a product computes partial sums for all rows that the rank's
/// columns touch and ends by adding them over ranks, and an adjoint product begins by sending the elements of these
/// rows to the ranks (a spread). rows: by rows; a product begins with a spread of the columns that the rank's rows
/// touch, an adjoint product ends by adding partial sums.
enum class Split { rows, columns };

struct TiledSpmmOptions {
  TiledOptions matrix;
  /// Stores rows and columns of a rank's part in clusters (layout/clustering.hpp), for matrices without known geometry;
  /// the numbering of vectors is unchanged. Empty: as given. Needs memory for the pattern during construction.
  std::optional<layout::ClusterOptions> clusters;
  /// Groups of ranks within which partial sums are added before they are sent farther; empty: they are sent directly to
  /// the owners.
  comm::Groups groups;
  /// Columns of a message; the next columns are multiplied while it is in flight. 0: all at once.
  int minibatch = 0;
};

/// y = A x and y = A^T x for k columns, each with its own local product (A and A^T are both stored, or entries are
/// computed for each), so that neither needs atomic sums, and both give the same bits for any number of threads. Where
/// vectors are read in 16 bits (TiledOptions::vectors), messages are sent in 16 bits too
/// (comm::MessageFormat::fixed16). Hidayetoglu et al., Petascale XCT (2020), doi 10.1109/SC41405.2020.00041; MemXCT
/// (2019), doi 10.1145/3295500.3356220.
template <Scalar T>
class TiledSpmm final : public Operator<T, Host>, public Adjustable<T, Host> {
 public:
  /// `touched`: global rows (Split::columns) or columns (Split::rows) of this rank's part, ascending. `forward` makes
  /// the rows of the part, `backward` those of its transpose, in local numbers: positions in `touched` on that side,
  /// elements of the space minus its begin() on the other. Collective.
  TiledSpmm(Space range, Space domain, Split split, std::vector<Global> touched, const RowSource<T>& forward,
            const RowSource<T>& backward, const TiledSpmmOptions& options = {});
  /// From rows as for Csr, but with entries in any order; Split::rows. Makes the transpose, which needs twice the
  /// matrix in memory temporarily. Collective.
  TiledSpmm(Space range, Space domain, const Rows<T>& rows, const TiledSpmmOptions& options = {});
  /// From a rank's products with its part of A and of A^T, in the local numbers above. Uses the options groups and
  /// minibatch. Collective.
  TiledSpmm(Space range, Space domain, Split split, std::vector<Global> touched,
            std::unique_ptr<LocalProduct<T>> forward, std::unique_ptr<LocalProduct<T>> backward,
            const TiledSpmmOptions& options = {});
  ~TiledSpmm() override;

  std::string name() const override { return "tiled_spmm"; }
  bool has_adjoint() const override { return true; }
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// Of the entries and their places, where they are stored.
  bool intact() const override;
  /// With TiledOptions::vectors in 16 bits; the operator itself otherwise.
  const Operator<T, Host>& accurate_to(double relative) const override;
  std::shared_ptr<const Operator<in_double_t<T>, Host>> in_double() const override;
  Cost cost() const override { return cost_of(false); }
  Cost adjoint_cost() const override { return cost_of(true); }

  /// Entries over all ranks.
  Global entries() const { return entries_; }
  /// This rank's part of A, or of A^T.
  const LocalProduct<T>& product(bool adjoint) const;
  bool stores_entries() const;
  /// This rank's part of A and of A^T as stored matrices. Error(usage) where nothing is stored.
  const TiledMatrix<T>& forward() const { return stored(false); }
  const TiledMatrix<T>& backward() const { return stored(true); }
  const comm::SparseReduction& reduction() const;
  Split split() const { return split_; }
  /// The clustering used on this rank; "natural" where the order is unchanged.
  const std::string& order() const { return order_; }

  /// y := clamp(A x) in one pass over the matrix. Error(usage) on several ranks.
  void apply_clamped(const Vector<T, Host>& x, Vector<T, Host>& y, const Clamp<T>& clamp) const;

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Parts;
  // The same operator with other precisions of products.
  TiledSpmm(const TiledSpmm& of, bool full_vectors, comm::MessageFormat messages);
  void build(std::vector<Global> touched, const RowSource<T>& forward, const RowSource<T>& backward,
             const TiledSpmmOptions& options);
  std::pair<Local, Local> spread(std::vector<Global> touched, const TiledSpmmOptions& options);
  void settle_facts();
  const TiledMatrix<T>& stored(bool adjoint) const;
  Cost cost_of(bool adjoint) const;
  bool sums(bool adjoint) const { return (split_ == Split::columns) != adjoint; }
  int start_batch(const Vector<T, Host>& x, bool adjoint, int from) const;
  void multiply(bool adjoint, const T* x, int x_stride, T* y, int y_stride, int k,
                const comm::Communicator* comm = nullptr) const;
  Split split_;
  Global entries_ = 0;
  double largest_ = 0;
  std::string fault_, order_ = "natural";
  bool full_vectors_ = false;  // read in full, whatever the matrices do by themselves
  comm::MessageFormat messages_ = comm::MessageFormat::full;
  std::shared_ptr<Parts> parts_;
  // With vectors in 16 bits: with vectors in full, and with messages in full too.
  std::unique_ptr<const TiledSpmm> in_full_[2];
};

}  // namespace tacit::op
