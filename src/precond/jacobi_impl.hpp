// Jacobi over both memory spaces; instantiated by jacobi.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "scalar.hpp"

#include <tacit/precond/jacobi.hpp>

#include <algorithm>

namespace tacit::precond {

template <Scalar T, Memory M>
Vector<T, M> Jacobi<T, M>::inverse_of(const op::Operator<T, M>& A, bool absolute, Global& zeros) {
  Vector<T, M> inverse(A.domain());
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    require(A.range() == A.domain(), "jacobi needs a square operator with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    std::vector<T> d = A.diagonal();
    require(d.size() == inverse.size(), "the ", A.name(), " operator gave a diagonal of ", d.size(), " elements for ",
            inverse.size(), " rows on this rank");
    double largest = 0;
    for (const T& entry : d)
      if (is_finite(entry)) largest = std::max(largest, double(std::abs(entry)));
    zeros = Global(std::count(d.begin(), d.end(), T(0)));
    if (!A.range().is_replicated()) zeros = comm.all_sum(zeros);
    largest = comm.all_max(largest);
    const T instead(real_t<T>(largest > 0 ? largest : 1));
    std::replace(d.begin(), d.end(), T(0), instead);
    for (std::size_t i = 0; i < d.size(); ++i) {
      const Global row = A.range().begin() + Global(i);
      require(is_finite(d[i]), "jacobi: the diagonal of the matrix is not finite in row ", row, " (counted from 0)");
      const T inverted = precond::inverse(absolute ? T(std::abs(d[i])) : d[i]);
      require(is_finite(inverted), "jacobi: the diagonal of the matrix is too small to invert in row ", row,
              " (counted from 0): ", std::abs(d[i]), "; scale the matrix up");
      d[i] = inverted;
    }
    inverse.assign(d);
  });
  return inverse;
}

template <Scalar T, Memory M>
void Jacobi<T, M>::describe(Global zeros) {
  if (zeros == 0) return;
  this->note_ =
      message(zeros, " of ", this->range().size(), zeros == 1 ? " diagonal entries is" : " diagonal entries are",
              " zero and taken as the largest one");
  this->doubtful_ = true;
}

}  // namespace tacit::precond
