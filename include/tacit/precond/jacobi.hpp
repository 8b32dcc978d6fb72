// Jacobi: the inverse of the diagonal.
#pragma once

#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>

namespace tacit::precond {

using layout::Vector;

/// y = D^-1 x, D the diagonal of A; with `absolute` y = |D|^-1 x, which is positive definite whatever A is.
/// Diagonal entries that are zero are taken as the largest magnitude of the diagonal (1 where all are zero), and note()
/// says how many. pointwise() gives D^-1, so that methods fold it into their sweeps.
/// Construction is collective: A.diagonal(), no product. Applies and vectors: op::Diagonal. Error(usage) naming the
/// global row, on all ranks, where the diagonal is not finite, or too small to invert.
template <Scalar T, Memory M = Host>
class Jacobi final : public op::Diagonal<T, M>, public op::Noted {
 public:
  explicit Jacobi(const op::Operator<T, M>& A, bool absolute = false) : Jacobi(A, absolute, Global(0)) {}

 private:
  Jacobi(const op::Operator<T, M>& A, bool absolute, Global zeros)
      : op::Diagonal<T, M>(inverse_of(A, absolute, zeros), absolute ? "jacobi (absolute values)" : "jacobi") {
    describe(zeros);
  }
  /// zeros: set to the number of zeros on the diagonal, over all ranks.
  static Vector<T, M> inverse_of(const op::Operator<T, M>& A, bool absolute, Global& zeros);
  void describe(Global zeros);
};

}  // namespace tacit::precond
