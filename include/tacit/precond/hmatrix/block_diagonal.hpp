// BlockDiagonal: block Jacobi of an H-matrix: the near field of clusters, inverted.
#pragma once

#include <tacit/op/hmatrix/hmatrix.hpp>
#include <tacit/op/noted.hpp>
#include <tacit/precond/hmatrix/hlu.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tacit::precond {

struct BlockDiagonalOptions {
  /// The largest clusters of at most so many rows make a block each (leaves of the tree, where these are larger).
  Local size = 400;
  FactorPrecision precision = FactorPrecision::automatic;
};

/// y = B^-1 x, B the entries of A between rows and columns of one cluster, for the clusters of a cut through the tree.
/// A cluster that two ranks share makes two blocks. Inverses by LAPACK, in single precision unless full is asked for: n
/// size numbers, n size^2 operations. A pivot of at most epsilon times the largest entry of its block is replaced by
/// sqrt(epsilon) times that; note() gives the number of such pivots. Construction is collective. An apply reads the
/// inverses once for all columns, and exchanges elements of x and y as with Hlu. Error(usage): size < 1, an operator
/// over two trees.
template <Scalar T>
class BlockDiagonal final : public op::Operator<T, Host>, public op::Noted {
 public:
  explicit BlockDiagonal(const op::HMatrix<T>& A, const BlockDiagonalOptions& options = {});
  ~BlockDiagonal() override;

  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  op::Cost cost() const override;
  /// Bytes of the inverses, over all ranks.
  double bytes() const { return all_bytes_; }
  /// The number of blocks, over all ranks.
  Global blocks() const { return blocks_; }

 protected:
  int begin(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint) const override;
  void finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int token) const override;

 private:
  struct Inverses;
  template <Scalar F>
  struct InversesIn;
  std::string name_;
  double bytes_ = 0, all_bytes_ = 0;
  Global blocks_ = 0;
  bool single_ = false;
  std::unique_ptr<op::OwnRows<T>> rows_;
  std::unique_ptr<Inverses> inverses_;
};

}  // namespace tacit::precond
