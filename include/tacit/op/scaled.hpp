// Scaled: alpha A, with the factor applied to the argument, so that a tiny or huge A meets an x that balances it; a
// factor so far from 1 that the argument would lose digits to underflow is applied half before and half after.
#pragma once

#include <tacit/op/operator.hpp>

#include <cmath>
#include <limits>
#include <memory>

namespace tacit::op {

/// x -> A (alpha x). With alpha a power of two this is alpha A exactly, short of overflow. Refers to A, which must
/// outlive it. Cost: A's and one sweep, two beyond the root of the scalar's range. Vectors: one for each product under
/// way. No adjoint.
template <Scalar T, Memory M = Host>
class Scaled final : public Operator<T, M> {
 public:
  Scaled(const Operator<T, M>& a, real_t<T> alpha) : Operator<T, M>(a.range(), a.domain()), a_(a), alpha_(alpha) {
    const int e = alpha != 0 && std::isfinite(alpha) ? std::ilogb(alpha) : 0;
    if (std::abs(e) > std::numeric_limits<real_t<T>>::max_exponent / 2) after_ = std::ldexp(real_t<T>(1), e / 2);
    before_ = alpha / after_;
  }
  std::string name() const override { return a_.name(); }
  bool has_diagonal() const override { return a_.has_diagonal(); }
  std::vector<T> diagonal() const override {
    auto d = a_.diagonal();
    for (T& v : d) v *= alpha_;
    return d;
  }
  double largest() const override { return a_.largest() * std::abs(double(alpha_)); }
  std::string fault() const override { return a_.fault(); }
  bool as_tasks() const override { return a_.as_tasks(); }
  Cost cost() const override {
    Cost c = a_.cost();
    c.flops += (is_complex<T> ? 2.0 : 1.0) * this->domain().local_size();
    c.bytes += 2.0 * this->domain().local_size() * sizeof(T);
    return c;
  }

 protected:
  int begin(const Vector<T, M>& x, Vector<T, M>& y, bool) const override {
    const int token = flights_[0].busy ? 1 : 0;
    auto& flight = flights_[token];
    require(!flight.busy, "two products of one operator are already under way; wait for one of them first");
    if (!flight.x || flight.x->columns() != x.columns()) flight.x = std::make_unique<Vector<T, M>>(x);
    else layout::copy(x, *flight.x);
    layout::scale(T(before_), *flight.x);
    flight.product = std::make_unique<Product<T, M>>(a_.start(*flight.x, y));
    flight.busy = true;
    return token;
  }
  void finish(const Vector<T, M>&, Vector<T, M>& y, bool, int token) const override {
    auto& flight = flights_[token];
    flight.busy = false;
    std::exchange(flight.product, nullptr)->wait();
    if (after_ != 1) layout::scale(T(after_), y);
  }
  void abandon(int token) const noexcept override {
    auto& flight = flights_[token];
    if (flight.product) flight.product->give_up();
    flight.product.reset();
    flight.busy = false;
  }

 private:
  struct Flight {
    bool busy = false;
    std::unique_ptr<Vector<T, M>> x;
    std::unique_ptr<Product<T, M>> product;
  };
  const Operator<T, M>& a_;
  real_t<T> alpha_, before_ = 1, after_ = 1;
  mutable Flight flights_[2];
};

}  // namespace tacit::op
