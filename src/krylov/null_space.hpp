// A solve that knows the null space of its matrix: what is taken out of b, and the projections after each apply.
#pragma once

#include "safeguards/scales.hpp"

#include <tacit/krylov/null_space.hpp>
#include <tacit/op/compose.hpp>

namespace tacit::krylov {

/// x -> (I - Q Q^H) A x. Refers to A and Q. Cost: the product, one reduction and two passes over Q. Its adjoint is A^H,
/// for a Q with A^H Q = 0.
template <Scalar T, Memory M>
class Projecting final : public op::detail::Around<T, M> {
 public:
  Projecting(const op::Operator<T, M>& a, const Orthonormal<T, M>& q)
      : op::detail::Around<T, M>(a.range(), a.domain(), op::OperatorPointer<T, M>(std::shared_ptr<void>(), &a)),
        q_(q) {}
  std::string name() const override { return this->a_->name(); }
  double accuracy() const override { return this->a_->accuracy(); }

 private:
  using typename op::detail::Composition<T, M>::Flight;
  void rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool adjoint) const override {
    flight.wait();
    if (!adjoint) q_.project(y);
  }
  const Orthonormal<T, M>& q_;
};

/// A power of two near the largest element, so that squares of v 2^-e neither overflow nor vanish. Collective.
template <Scalar T, Memory M>
int exponent_of(const Vector<T, M>& v) {
  const double largest = layout::max_norm(v);
  return largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
}

struct Part {
  double norm = 0, share = 0;  // ||Q^H v||, and this over ||v||, which may overflow where it does not
};
/// v := v - Q Q^H v, twice, so that also a small rest is orthogonal to Q. What was taken out. Collective.
template <Scalar T, Memory M>
Part take_out(const Orthonormal<T, M>& q, Vector<T, M>& v) {
  const int e = exponent_of(v);
  scale_by_power(v, -e);
  const double before = layout::norm(v), part = q.project(v);
  q.project(v);
  if (layout::norm(v) <= 16 * double(std::numeric_limits<real_t<T>>::epsilon()) * before) layout::fill(v, T(0));
  scale_by_power(v, e);
  return {std::ldexp(part, e), before > 0 ? part / before : 0};
}

}  // namespace tacit::krylov
