#pragma once

#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/make.hpp>

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> incomplete_factors(const op::Csr<T, M>& A, Factorisation how, int blocks) {
  if constexpr (std::same_as<M, Host>) return std::make_unique<BlockJacobi<T>>(A, how, blocks);
  throw Error(ErrorKind::usage,
              "incomplete factors work in host memory; jacobi, spai, fsai and polynomial work on the device too");
}

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_ilu0(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::ilu0, options.blocks.value_or(1));
}

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_ic0(const op::Csr<T, M>& A, const Options& options) {
  return incomplete_factors(A, Factorisation::ic0, options.blocks.value_or(1));
}

/// A solver that couples nothing between ranks.
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_block_jacobi(const op::Csr<T, M>& A, const Options& options) {
  const Kind solver = options.solver.value_or(Kind::ilu0);
  const bool factors = solver == Kind::ilu0 || solver == Kind::ic0;
  require(factors || !options.blocks, "blocks ", options.blocks.value_or(0),
          " is an option of the solvers ilu0 and ic0");
  if (solver == Kind::ic0) return make_ic0(A, options);
  if (solver == Kind::ilu0) return make_ilu0(A, options);
  Options local;
  local.local = true;
  return solver == Kind::spai ? make_spai(A, local) : make_fsai(A, local);
}

}  // namespace tacit::precond
