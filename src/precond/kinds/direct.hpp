#pragma once

#include <tacit/precond/direct.hpp>
#include <tacit/precond/make.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_direct([[maybe_unused]] const op::Csr<T, M>& A, const Options&) {
  if constexpr (std::same_as<M, Host>) return std::make_unique<Direct<T>>(A);
  else throw Error(ErrorKind::usage, "the preconditioner direct works in host memory, and this matrix is on a device");
}

}  // namespace tacit::precond
