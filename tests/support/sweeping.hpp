// Operators whose products are sweeps written in headers: where vectors are in device memory, the device's compiler has
// to instantiate them (sweeping.cpp, device/sweeping.cu).
#pragma once

#include <tacit/krylov/options.hpp>
#include <tacit/op/compose.hpp>

#include <memory>

namespace tacit::test {

/// alpha A, by op::Scaled.
template <Scalar T, Memory M>
op::OperatorPointer<T, M> scaled(op::OperatorPointer<T, M> a, real_t<T> alpha);
/// x -> D x, by op::Diagonal.
template <Scalar T, Memory M>
op::OperatorPointer<T, M> diagonal(layout::Vector<T, M> d);
/// A few iterations of a method on A, by krylov::Inner.
template <Scalar T, Memory M>
op::OperatorPointer<T, M> inner(op::OperatorPointer<T, M> a, const krylov::Options& options);

}  // namespace tacit::test
