// TiledOnDevice: a distributed sparse matrix for products with many columns in a device's memory.
#pragma once

#include <tacit/op/adjustable.hpp>
#include <tacit/op/staged_matrix.hpp>
#include <tacit/op/tiled_spmm.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

/// y = A x and y = A^T x for k columns as TiledSpmm, with A and A^T as staged matrices (staged_matrix.hpp) and vectors
/// in memory M. On one rank a product is one launch, which the host does not wait for. On several ranks the rank's
/// partial sums are copied to the host, added over ranks there (hierarchically with `groups`) and copied back: 2 copies
/// and 2 waits a product. M = Host runs the same kernels on the processor, for tests.
///
/// Of the options: matrix.columns, the expected number of columns, decides the layout (up to 1, up to 8, or more: 32 at
/// a time; with vectors in halves up to 16, or 64 at a time); matrix.values full, single (of floats) or half;
/// matrix.vectors full or half; groups. Sources as for TiledSpmm.
template <Scalar T, Memory M>
class TiledOnDevice final : public Operator<T, M>, public Adjustable<T, M> {
 public:
  /// Collective. Error(usage): other options. Error(environment): too little device memory.
  TiledOnDevice(Space range, Space domain, Split split, std::vector<Global> touched, const RowSource<T>& forward,
                const RowSource<T>& backward, const TiledSpmmOptions& options = {});
  /// From rows as for Csr, but with entries in any order; Split::rows. Collective.
  TiledOnDevice(Space range, Space domain, const Rows<T>& rows, const TiledSpmmOptions& options = {});
  ~TiledOnDevice() override;

  std::string name() const override { return "tiled_spmm"; }
  bool has_adjoint() const override { return true; }
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// With vectors in halves; the operator itself otherwise.
  const Operator<T, M>& accurate_to(double relative) const override;
  Cost cost() const override { return cost_of(false); }
  Cost adjoint_cost() const override { return cost_of(true); }

  Global entries() const { return entries_; }  ///< over all ranks
  std::string storage() const;                 ///< as text: "staged, float16, 32 columns at a time"
  double bytes() const;                        ///< of A and A^T on this rank, in memory M
  /// Counts of this rank's part of A, or of A^T.
  const StagedCounts& counts(bool adjoint) const { return matrix(adjoint).counts(); }

 protected:
  int begin(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  using Matrix = StagedMatrix<T, M>;
  struct Parts {
    std::unique_ptr<comm::SparseReduction> reduction;
    std::unique_ptr<Matrix> forward, backward;
    exec::Array<T, M> touched;              // the elements touched
    std::map<int, std::vector<T>> spreads;  // by token: what is being sent
    std::vector<std::vector<T>> spare;      // host arrays that are not in use
  };
  // The same operator with other precisions of products.
  TiledOnDevice(const TiledOnDevice& of, bool full_vectors, comm::MessageFormat messages);
  void build(std::vector<Global> touched, const RowSource<T>& forward, const RowSource<T>& backward,
             const TiledSpmmOptions& options);
  const Matrix& matrix(bool adjoint) const { return adjoint ? *parts_->backward : *parts_->forward; }
  bool sums(bool adjoint) const { return (split_ == Split::columns) != adjoint; }
  Cost cost_of(bool adjoint) const;
  void multiply(bool adjoint, const T* x, T* y, int k) const;
  std::vector<T> spare() const;
  T* touched(std::size_t size) const;

  Split split_;
  bool local_ = false;  // one rank, which touches all elements
  Global entries_ = 0;
  double largest_ = 0;
  std::string fault_;
  TiledOptions options_;
  bool full_vectors_ = false;
  comm::MessageFormat messages_ = comm::MessageFormat::full;
  std::shared_ptr<Parts> parts_;
  // With vectors in halves: with vectors in full, and with messages in full too.
  std::unique_ptr<const TiledOnDevice> in_full_[2];
};

}  // namespace tacit::op
