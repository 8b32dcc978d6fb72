// Scaled: alpha A, with the factor applied to the argument, so that a tiny or huge A meets an x that balances it.
#pragma once

#include <tacit/op/operator.hpp>

namespace tacit::op {

/// x -> A (alpha x). With alpha a power of two this is alpha A exactly, short of overflow. Refers to A, which must outlive
/// it. Cost: A's and one sweep.
template <Scalar T, Memory M = Host>
class Scaled final : public Operator<T, M> {
 public:
  Scaled(const Operator<T, M>& a, real_t<T> alpha) : Operator<T, M>(a.range(), a.domain()), a_(a), alpha_(alpha) {}
  std::string name() const override { return a_.name(); }
  double largest() const override { return a_.largest() * double(alpha_); }
  Cost cost() const override { return a_.cost(); }

 protected:
  int begin(const Vector<T, M>& x, Vector<T, M>&, bool) const override {
    if (!copy_) copy_ = std::make_unique<Vector<T, M>>(x);
    else layout::copy(x, *copy_);
    layout::scale(T(alpha_), *copy_);
    return 0;
  }
  void finish(const Vector<T, M>&, Vector<T, M>& y, bool, int) const override { a_.apply(*copy_, y); }

 private:
  const Operator<T, M>& a_;
  real_t<T> alpha_;
  mutable std::unique_ptr<Vector<T, M>> copy_;
};

}  // namespace tacit::op
