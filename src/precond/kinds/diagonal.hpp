#pragma once

#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/make.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_none(const op::Csr<T, M>&, const Options&) {
  return nullptr;
}

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_jacobi(const op::Csr<T, M>& A, const Options& options) {
  return std::make_unique<Jacobi<T, M>>(A, options.absolute.value_or(false));
}

}  // namespace tacit::precond
