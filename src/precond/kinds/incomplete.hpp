#pragma once

#include <tacit/precond/make.hpp>
#include "precond/block_jacobi_on_device.hpp"

#include <utility>

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> incomplete_factors(const op::Csr<T, M>& A, Factorisation kind,
                                                       const Options& options) {
  Incomplete how = kind;
  how.levels = options.levels.value_or(how.levels);
  how.drop = options.drop.value_or(how.drop);
  how.fill = options.fill.value_or(how.fill);
  how.pivoting = options.pivoting.value_or(how.pivoting);
  how.matching = options.matching.value_or(how.matching);
  how.ordering = options.ordering.value_or(how.ordering);
  const int blocks = options.blocks.value_or(1);
  if constexpr (std::same_as<M, Host>) return std::make_unique<BlockJacobi<T>>(A, how, blocks);
  else return std::make_unique<BlockJacobiOnDevice<T, M>>(A, how, blocks);
}

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_ilu0(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::ilu0, options);
}
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_ic0(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::ic0, options);
}
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_iluk(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::iluk, options);
}
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_ick(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::ick, options);
}
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_ilut(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::ilut, options);
}

/// A solver that couples nothing between ranks.
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_block_jacobi(const op::Csr<T, M>& A, const Options& options) {
  Options of_solver = options;
  const Kind solver = std::exchange(of_solver.solver, {}).value_or(Kind::ilu0);
  if (solver == Kind::spai || solver == Kind::fsai) of_solver.local = true;
  return make<T, M>(to_string(solver), A, of_solver);
}

}  // namespace tacit::precond
