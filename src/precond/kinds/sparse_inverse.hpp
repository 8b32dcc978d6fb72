#pragma once

#include <tacit/precond/make.hpp>
#include <tacit/precond/spai.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_spai(const op::Csr<T, M>& A, const Options& options) {
  return std::make_unique<Spai<T, M>>(A, SpaiOptions{.factorised = false, .local = options.local.value_or(false)});
}

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_fsai(const op::Csr<T, M>& A, const Options& options) {
  return std::make_unique<Spai<T, M>>(A, SpaiOptions{.factorised = true, .local = options.local.value_or(false)});
}

}  // namespace tacit::precond
