#include "additive.hpp"

#include "aggregates.hpp"

#include "op/multiply.hpp"

#include <utility>

namespace tacit::precond {

using layout::Space;

namespace {

/// B := B - C, of rows with ascending columns.
template <Scalar T>
op::Rows<T> difference(const op::Rows<T>& B, const op::Rows<T>& C) {
  op::Rows<T> D;
  D.column.reserve(C.column.size());
  D.value.reserve(C.value.size());
  for (std::size_t i = 0; i < std::size_t(B.count()); ++i) {
    auto b = std::size_t(B.start[i]), c = std::size_t(C.start[i]);
    const auto b_end = std::size_t(B.start[i + 1]), c_end = std::size_t(C.start[i + 1]);
    while (b < b_end || c < c_end) {
      const bool from_b = b < b_end && (c == c_end || B.column[b] <= C.column[c]);
      const bool from_c = c < c_end && (b == b_end || C.column[c] <= B.column[b]);
      D.column.push_back(from_b ? B.column[b] : C.column[c]);
      D.value.push_back((from_b ? B.value[b] : T(0)) - (from_c ? C.value[c] : T(0)));
      b += from_b, c += from_c;
    }
    D.start.push_back(Global(D.column.size()));
  }
  return D;
}

}  // namespace

template <Scalar T>
void smooth_transfers(op::Rows<T>& P, op::Rows<T>& R, const op::Rows<T>& A, const std::vector<T>& scaling,
                      const Space& space, const Space& coarse, bool hermitian) {
  auto product = op::multiply(A, space, P, coarse);
  for (std::size_t i = 0; i < scaling.size(); ++i)
    for (auto k = std::size_t(product.start[i]); k < std::size_t(product.start[i + 1]); ++k)
      product.value[k] *= scaling[i];
  P = difference(P, product);
  if (hermitian) {
    R = op::adjoint(P, space, coarse);
    return;
  }
  product = op::multiply(R, space, A, space);
  const ByColumn<T> of_column(product, space, scaling);
  for (std::size_t k = 0; k < product.value.size(); ++k) product.value[k] *= of_column(product.column[k]);
  R = difference(R, product);
}

#define TACIT_INSTANTIATE(T)                                                                               \
  template void smooth_transfers<T>(op::Rows<T>&, op::Rows<T>&, const op::Rows<T>&, const std::vector<T>&, \
                                    const Space&, const Space&, bool);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
