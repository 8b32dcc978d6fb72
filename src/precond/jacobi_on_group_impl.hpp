// Jacobi on groups of devices; instantiated by jacobi_on_group.cpp and, in builds with CUDA, by jacobi_on_group.cu.
#pragma once

#include "jacobi_impl.hpp"

#include <tacit/exec/group.hpp>
#include <tacit/precond/jacobi_on_group.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
std::shared_ptr<op::Operator<T, M>> make_jacobi(const op::Operator<T, M>& A, bool absolute) {
  return std::make_shared<Jacobi<T, M>>(A, absolute);
}

}  // namespace tacit::precond
