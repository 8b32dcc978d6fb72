// Jacobi on a group of devices, for files that are not compiled by nvcc.
#pragma once

#include <tacit/op/operator.hpp>

#include <memory>

namespace tacit::precond {

/// y = D^-1 x (jacobi.hpp), D the diagonal of A, on every device of a group: one sweep on each, without copies and
/// messages. For float and double. Collective.
template <Scalar T, Memory M>
std::shared_ptr<op::Operator<T, M>> make_jacobi(const op::Operator<T, M>& A, bool absolute = false);

}  // namespace tacit::precond
