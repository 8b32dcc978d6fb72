// Jacobi over both memory spaces; instantiated by jacobi.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "scalar.hpp"

#include <tacit/precond/jacobi.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
Vector<T, M> Jacobi<T, M>::inverse_of(const op::Operator<T, M>& A, bool absolute) {
  Vector<T, M> inverse(A.domain());
  comm::collective(A.range().comm(), [&] {
    require(A.range() == A.domain(), "jacobi needs a square operator with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    std::vector<T> d = A.diagonal();
    require(d.size() == inverse.size(), "the ", A.name(), " operator gave a diagonal of ", d.size(), " elements for ",
            inverse.size(), " rows on this rank");
    for (std::size_t i = 0; i < d.size(); ++i) {
      const Global row = A.range().begin() + Global(i);
      require(is_finite(d[i]), "jacobi: the diagonal of the matrix is not finite in row ", row, " (counted from 0)");
      require(d[i] != T(0), "jacobi: the diagonal of the matrix is zero in row ", row, " (counted from 0)");
      const T inverted = precond::inverse(absolute ? T(std::abs(d[i])) : d[i]);
      require(is_finite(inverted), "jacobi: the diagonal of the matrix is too small to invert in row ", row,
              " (counted from 0): ", std::abs(d[i]), "; scale the matrix up");
      d[i] = inverted;
    }
    inverse.assign(d);
  });
  return inverse;
}

}  // namespace tacit::precond
