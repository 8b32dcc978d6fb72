// Function: an operator from a callable that works on this rank's own elements.
#pragma once

#include <tacit/op/operator.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tacit::op {

/// y = f(x), f linear. The callable is given this rank's elements of x and fills those of y, both with `columns`
/// interleaved columns (element i, column c at i columns + c), in memory space M; it has to fetch data of other ranks
/// itself. It is called on all ranks, in wait(); if it throws on one, all ranks throw the same Error. In addition to
/// the callable's work a product costs one small reduction, by which the ranks agree that none has failed.
template <Scalar T, Memory M = Host>
class Function final : public Operator<T, M> {
 public:
  using Callable = std::function<void(const T* x, T* y, int columns)>;

  /// `adjoint`: y = A^H x, empty if there is none. `diagonal`: this rank's A_ii, empty if unknown.
  /// Error(usage) without a callable, or when the diagonal has another length than this rank's rows.
  Function(Space range, Space domain, Callable apply, Callable adjoint = {}, std::vector<T> diagonal = {},
           std::string name = "function");
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return bool(adjoint_); }
  bool has_diagonal() const override { return has_diagonal_; }
  std::vector<T> diagonal() const override;

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;

 private:
  Callable apply_, adjoint_;
  std::vector<T> diagonal_;
  bool has_diagonal_ = false;
  std::string name_;
};

}  // namespace tacit::op
