// Jacobi: the inverse of the diagonal.
#pragma once

#include <tacit/op/operator.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tacit::precond {

using layout::Vector;

namespace formula {
template <class T>
struct Pointwise {
  TACIT_HD void operator()(T scaling, T x, T& y) const { y = scaling * x; }
};
template <class T>
struct PointwiseAdjoint {
  TACIT_HD void operator()(T scaling, T x, T& y) const { y = conj(scaling) * x; }
};
}  // namespace formula

/// y = D^-1 x, D the diagonal of A; with `absolute` y = |D|^-1 x, which is positive definite whatever A is.
/// pointwise() gives D^-1, so that methods fold it into their sweeps.
/// Construction is collective: A.diagonal(), no product. An apply is local: 3 vectors of traffic. Vectors kept: 1 (and
/// 1 more for every other number of columns in use). Error(usage) naming the global row, on all ranks, where the
/// diagonal is zero, not finite, or too small to invert.
template <Scalar T, Memory M = Host>
class Jacobi final : public op::Operator<T, M> {
 public:
  explicit Jacobi(const op::Operator<T, M>& A, bool absolute = false);
  std::string name() const override { return absolute_ ? "jacobi (absolute values)" : "jacobi"; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override { return inverse_.to_host(); }
  const Vector<T, M>* pointwise() const override { return &inverse_; }
  /// D^-1 as a vector of k columns, all the same.
  const Vector<T, M>& inverse(int columns) const;
  bool as_tasks() const override { return true; }
  op::Cost cost() const override;

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const override;

 private:
  bool absolute_;
  Vector<T, M> inverse_;
  mutable std::map<int, Vector<T, M>> repeated_;  // the inverse as columns stand, by number of columns
};

}  // namespace tacit::precond
