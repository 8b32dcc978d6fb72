#pragma once

#include "support/sweeping.hpp"

#include <tacit/krylov/inner.hpp>
#include <tacit/op/scaled.hpp>

#include <utility>

namespace tacit::test {

template <Scalar T, Memory M>
op::OperatorPointer<T, M> scaled(op::OperatorPointer<T, M> a, real_t<T> alpha) {
  const auto* made = new op::Scaled<T, M>(*a, alpha);
  return {made, [a](const op::Operator<T, M>* p) { delete p; }};  // it refers to A
}
template <Scalar T, Memory M>
op::OperatorPointer<T, M> diagonal(layout::Vector<T, M> d) {
  return std::make_shared<op::Diagonal<T, M>>(std::move(d));
}
template <Scalar T, Memory M>
op::OperatorPointer<T, M> inner(op::OperatorPointer<T, M> a, const krylov::Options& options) {
  return std::make_shared<krylov::Inner<T, M>>(std::move(a), nullptr, options);
}

#define TACIT_INSTANTIATE_SWEEPING(T, M)                                           \
  template op::OperatorPointer<T, M> scaled(op::OperatorPointer<T, M>, real_t<T>); \
  template op::OperatorPointer<T, M> diagonal(layout::Vector<T, M>);               \
  template op::OperatorPointer<T, M> inner(op::OperatorPointer<T, M>, const krylov::Options&);

}  // namespace tacit::test
