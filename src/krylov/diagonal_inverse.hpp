// The inverse of a diagonal as an operator.
#pragma once

#include <tacit/exec/sweep.hpp>
#include <tacit/op/operator.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::krylov {

using layout::Vector;

namespace formula {
template <class T>
struct Product {
  TACIT_HD void operator()(T a, T x, T& y) const { y = a * x; }
};
}  // namespace formula

/// x -> D^-1 x, for a diagonal that the driver has found by itself.
template <Scalar T, Memory M>
class DiagonalInverse final : public op::Operator<T, M> {
 public:
  DiagonalInverse(const layout::Space& space, std::span<const T> inverse)
      : op::Operator<T, M>(space, space), inverse_(space) {
    inverse_.assign(inverse);
  }
  std::string name() const override { return "jacobi"; }
  const Vector<T, M>* pointwise() const override { return &inverse_; }
  bool as_tasks() const override { return true; }

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool, int) const override {
    exec::sweep(exec::reads(inverse(x.columns()), x), exec::updates(), exec::writes(y), formula::Product<T>{});
  }

 private:
  /// Every element `columns` times.
  const Vector<T, M>& inverse(int columns) const {
    if (columns == 1) return inverse_;
    if (!repeated_ || repeated_->columns() != columns) {
      const auto one = inverse_.to_host();
      std::vector<T> all(one.size() * std::size_t(columns));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = one[i / std::size_t(columns)];
      repeated_ = std::make_unique<Vector<T, M>>(inverse_.space(), columns);
      repeated_->assign(all);
    }
    return *repeated_;
  }
  Vector<T, M> inverse_;
  mutable std::unique_ptr<Vector<T, M>> repeated_;
};

}  // namespace tacit::krylov
