// Scaled: alpha A, with the factor applied to the argument, so that products with a tiny or huge A neither overflow nor
// underflow. Where alpha could take the argument itself out of range, part of it is applied after the product.
#pragma once

#include <tacit/op/compose.hpp>

#include <cmath>
#include <limits>

namespace tacit::op {

/// x -> A (alpha x). With alpha a power of two the result is exact unless it overflows. Refers to A, which must outlive
/// it. Cost: the product with A and one sweep, or two where alpha or 1 / alpha exceeds the root of the largest number.
/// Vectors: one for each product in flight. Its adjoint is x -> A^H (alpha x).
template <Scalar T, Memory M = Host>
class Scaled final : public detail::Around<T, M> {
 public:
  Scaled(const Operator<T, M>& a, real_t<T> alpha)
      : detail::Around<T, M>(a.range(), a.domain(), OperatorPointer<T, M>(std::shared_ptr<void>(), &a)), alpha_(alpha) {
    const int e = alpha != 0 && std::isfinite(alpha) ? std::ilogb(alpha) : 0;
    if (std::abs(e) > std::numeric_limits<real_t<T>>::max_exponent / 2) after_ = std::ldexp(real_t<T>(1), e / 2);
    before_ = alpha / after_;
  }
  std::string name() const override { return this->a_->name(); }
  std::vector<T> diagonal() const override {
    auto d = this->a_->diagonal();
    for (T& v : d) v *= alpha_;
    return d;
  }
  double largest() const override { return this->a_->largest() * std::abs(double(alpha_)); }
  bool as_tasks() const override { return this->a_->as_tasks(); }

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override {
    Cost c = adjoint ? this->a_->adjoint_cost() : this->a_->cost();
    const double n = (adjoint ? this->range() : this->domain()).local_size();
    c.flops += (is_complex<T> ? 2.0 : 1.0) * n;
    c.bytes += 2 * n * sizeof(T);
    return c;
  }
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override {
    auto& scaled = flight.vector(0, x.space(), x.columns());
    layout::copy(x, scaled);
    layout::scale(T(before_), scaled);
    flight.start(*this->a_, scaled, y, adjoint);
  }
  void rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool) const override {
    flight.wait();
    if (after_ != 1) layout::scale(T(after_), y);
  }
  real_t<T> alpha_, before_ = 1, after_ = 1;
};

}  // namespace tacit::op
