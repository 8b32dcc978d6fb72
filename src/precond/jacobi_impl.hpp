// Jacobi over both memory spaces; instantiated by jacobi.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "scalar.hpp"

#include <tacit/exec/sweep.hpp>
#include <tacit/precond/jacobi.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
Jacobi<T, M>::Jacobi(const op::Operator<T, M>& A, bool absolute)
    : op::Operator<T, M>(A.domain(), A.range()), absolute_(absolute), inverse_(A.domain()) {
  comm::collective(A.range().comm(), [&] {
    require(A.range() == A.domain(), "jacobi needs a square operator with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    std::vector<T> d = A.diagonal();
    require(d.size() == inverse_.size(), "the ", A.name(), " operator gave a diagonal of ", d.size(), " elements for ",
            inverse_.size(), " rows on this rank");
    for (std::size_t i = 0; i < d.size(); ++i) {
      const Global row = A.range().begin() + Global(i);
      require(is_finite(d[i]), "jacobi: the diagonal of the matrix is not finite in row ", row, " (counted from 0)");
      require(d[i] != T(0), "jacobi: the diagonal of the matrix is zero in row ", row, " (counted from 0)");
      const T inverted = precond::inverse(absolute ? T(std::abs(d[i])) : d[i]);
      require(is_finite(inverted), "jacobi: the diagonal of the matrix is too small to invert in row ", row,
              " (counted from 0): ", std::abs(d[i]), "; scale the matrix up");
      d[i] = inverted;
    }
    inverse_.assign(d);
  });
}

template <Scalar T, Memory M>
const Vector<T, M>& Jacobi<T, M>::inverse(int columns) const {
  if (columns == 1) return inverse_;
  auto found = repeated_.find(columns);
  if (found == repeated_.end()) {
    const auto one = inverse_.to_host();
    std::vector<T> all(one.size() * columns);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = one[i / columns];
    found = repeated_.emplace(columns, Vector<T, M>(this->domain(), columns)).first;
    found->second.assign(all);
  }
  return found->second;
}

template <Scalar T, Memory M>
void Jacobi<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const {
  using namespace exec;
  const auto& scaling = inverse(x.columns());
  if (adjoint) sweep(reads(scaling, x), updates(), writes(y), formula::PointwiseAdjoint<T>{});
  else sweep(reads(scaling, x), updates(), writes(y), formula::Pointwise<T>{});
}

template <Scalar T, Memory M>
op::Cost Jacobi<T, M>::cost() const {
  const double n = double(inverse_.size());
  return {.flops = (is_complex<T> ? 6 : 1) * n, .bytes = 3 * n * sizeof(T)};
}

}  // namespace tacit::precond
