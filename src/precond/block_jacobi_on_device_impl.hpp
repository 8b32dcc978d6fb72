// BlockJacobiOnDevice; instantiated by block_jacobi_on_device.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include <tacit/base/trace.hpp>
#include "exec/repeat.hpp"
#include "precond/block_jacobi_on_device.hpp"

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace tacit::precond {

template <Scalar T, Memory M>
struct BlockJacobiOnDevice<T, M>::Solve {
  TriangularOnDevice<T, M> factors;
  explicit Solve(const TriangularFactors<T>& of) : factors(of) {}
  void operator()(const T* x, T* y, int columns) {
    if constexpr (std::same_as<M, Device>) {
      if (columns != columns_) repeat_.forget(), columns_ = columns;
      factors.load(x, columns);
      if (factors.launches() > 1) repeat_([&] { factors.solve(); });
      else factors.solve();
    } else {
      factors.load(x, columns);
      factors.solve();
    }
    factors.store(y);
  }

 private:
  struct Nothing {};
  [[no_unique_address]] std::conditional_t<std::same_as<M, Device>, exec::Repeat, Nothing> repeat_;
  int columns_ = 0;  // of what is recorded
};

/// The factors of the adjoint operator.
template <Scalar T>
TriangularFactors<T> adjoint_of(const TriangularFactors<T>& f) {
  const auto conjugated = [](std::vector<T> values) {
    for (T& v : values) v = conj(v);
    return values;
  };
  return {op::adjoint(f.upper),
          op::adjoint(f.lower),
          conjugated(f.upper_inverse),
          conjugated(f.lower_inverse),
          f.column,
          f.row,
          f.column_exponent,
          f.row_exponent,
          f.negative};
}

template <Scalar T, Memory M>
BlockJacobiOnDevice<T, M>::BlockJacobiOnDevice(const op::Csr<T, M>& A, const Incomplete& how, int blocks)
    : op::Operator<T, M>(A.domain(), A.range()) {
  comm::collective(A.range().comm(), [&] {
    const op::Csr<T> on_host(A.range(), A.domain(), A.rows());
    const BlockJacobi<T> host(on_host, how, blocks);
    name_ = host.name(), note_ = host.note(), doubtful_ = host.is_doubtful();
    hermitian_ = host.is_hermitian();
    factors_ = std::make_unique<TriangularFactors<T>>(host.triangular_factors());
    solve_ = std::make_unique<Solve>(*factors_);
    if (hermitian_) factors_.reset();
    cost_ = host.cost();
    // x and y, and what lies between them and the levels.
    cost_.bytes = solve_->factors.bytes() + 4.0 * double(A.range().local_size()) * sizeof(T);
  });
}

template <Scalar T, Memory M>
BlockJacobiOnDevice<T, M>::~BlockJacobiOnDevice() = default;

template <Scalar T, Memory M>
Local BlockJacobiOnDevice<T, M>::levels() const {
  return solve_->factors.levels();
}

template <Scalar T, Memory M>
int BlockJacobiOnDevice<T, M>::launches() const {
  return solve_->factors.launches();
}

template <Scalar T, Memory M>
void BlockJacobiOnDevice<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const {
  const Span span("triangular solves", "precond", Trace::on() ? std::int64_t(cost_.bytes) : 0);
  const bool other = adjoint && !hermitian_;
  if (other && !adjoint_) {
    adjoint_ = std::make_unique<Solve>(adjoint_of(*factors_));
    factors_.reset();
  }
  (other ? *adjoint_ : *solve_)(x.data(), y.data(), x.columns());
  if (Trace::on()) Trace::work("triangular solves", cost_.bytes, x.columns() * cost_.flops);
}

}  // namespace tacit::precond
