// Jacobi: the inverse of the diagonal.
#pragma once

#include <tacit/op/diagonal.hpp>

namespace tacit::precond {

using layout::Vector;

/// y = D^-1 x, D the diagonal of A; with `absolute` y = |D|^-1 x, which is positive definite whatever A is.
/// pointwise() gives D^-1, so that methods fold it into their sweeps.
/// Construction is collective: A.diagonal(), no product. Applies and vectors: op::Diagonal. Error(usage) naming the
/// global row, on all ranks, where the diagonal is zero, not finite, or too small to invert.
template <Scalar T, Memory M = Host>
class Jacobi final : public op::Diagonal<T, M> {
 public:
  explicit Jacobi(const op::Operator<T, M>& A, bool absolute = false)
      : op::Diagonal<T, M>(inverse_of(A, absolute), absolute ? "jacobi (absolute values)" : "jacobi") {}

 private:
  static Vector<T, M> inverse_of(const op::Operator<T, M>& A, bool absolute);
};

}  // namespace tacit::precond
