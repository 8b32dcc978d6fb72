// Compositions; instantiated by compose.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include <tacit/op/compose.hpp>
#include "layout/unlike.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tacit::op {

namespace formula {
template <class T>
struct Combine {  // y = alpha y + beta z
  T alpha, beta;
  TACIT_HD void operator()(T z, T& y) const { y = alpha * y + beta * z; }
};
template <class T>
struct Conjugate {
  TACIT_HD void operator()(T x, T& y) const { y = conj(x); }
};
template <class T>
struct ConjugateInPlace {
  TACIT_HD void operator()(T& y) const { y = conj(y); }
};
}  // namespace formula

namespace {

std::string first_of(const std::string& a, const std::string& b) {
  return a.empty() ? b : a;
}

Cost operator+(const Cost& a, const Cost& b) {
  return {a.flops + b.flops, a.bytes + b.bytes, a.messages + b.messages, a.message_bytes + b.message_bytes};
}
/// The cost of a sweep over n elements of T that moves `arrays` arrays, with `operations` real operations per element.
template <class T>
Cost sweep_cost(Local n, double arrays, double operations) {
  return {operations * n, arrays * double(n) * sizeof(T), 0, 0};
}
template <class T>
constexpr double product_flops = is_complex<T> ? 6 : 1;
template <class T>
constexpr double sum_flops = is_complex<T> ? 2 : 1;

template <Scalar T, Memory M>
Cost either_cost(const Operator<T, M>& a, bool adjoint) {
  return adjoint ? a.adjoint_cost() : a.cost();
}

template <class Pointer>
Pointer there(Pointer a) {
  require(a != nullptr, "a composition of operators was given none");
  return a;
}

/// make(parts in double precision ...) for compositions of single precision in host memory, where all parts exist so;
/// else null. Collective.
template <Scalar T, Memory M, class Make, class... Parts>
std::shared_ptr<const Operator<in_double_t<T>, M>> composed_in_double(const Make& make, const Parts&... parts) {
  if constexpr (std::same_as<real_t<T>, float> && std::same_as<M, Host>) {
    const std::tuple converted(parts->in_double()...);  // all of them: each is collective
    const bool there = std::apply([](const auto&... p) { return (... && (p != nullptr)); }, converted);
    if (there) return std::apply(make, converted);
  }
  return nullptr;
}

}  // namespace

// ---- A B ----

template <Scalar T, Memory M>
ProductOf<T, M>::ProductOf(OperatorPointer<T, M> a, OperatorPointer<T, M> b)
    : detail::Composition<T, M>(there(a)->range(), there(b)->domain()), a_(a), b_(b) {
  require(a_->domain() == b_->range(), "the ", a_->name(), " operator does not take what the ", b_->name(),
          " operator gives: ", layout::unlike(a_->domain(), b_->range()));
}
template <Scalar T, Memory M>
void ProductOf<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>&, bool adjoint) const {
  flight.start(adjoint ? *a_ : *b_, x, flight.vector(0, a_->domain(), x.columns()), adjoint);
}
template <Scalar T, Memory M>
void ProductOf<T, M>::rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  flight.start(adjoint ? *b_ : *a_, flight.vector(0, a_->domain(), x.columns()), y, adjoint);
  flight.wait();
}
template <Scalar T, Memory M>
std::string ProductOf<T, M>::fault() const {
  return first_of(a_->fault(), b_->fault());
}
template <Scalar T, Memory M>
Cost ProductOf<T, M>::cost_of(bool adjoint) const {
  return either_cost(*a_, adjoint) + either_cost(*b_, adjoint);
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> ProductOf<T, M>::in_double() const {
  return composed_in_double<T, M>([](auto a, auto b) { return product(a, b); }, a_, b_);
}

// ---- alpha A + beta B ----

template <Scalar T, Memory M>
Sum<T, M>::Sum(T alpha, OperatorPointer<T, M> a, T beta, OperatorPointer<T, M> b)
    : detail::Composition<T, M>(there(a)->range(), a->domain()), alpha_(alpha), beta_(beta), a_(a), b_(there(b)) {
  const bool rows = a_->range() == b_->range();
  require(rows && a_->domain() == b_->domain(), "a sum of operators whose ", rows ? "columns" : "rows",
          " differ: ", rows ? layout::unlike(a_->domain(), b_->domain()) : layout::unlike(a_->range(), b_->range()));
}
template <Scalar T, Memory M>
void Sum<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.start(*a_, x, y, adjoint);
}
template <Scalar T, Memory M>
void Sum<T, M>::rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  auto& z = flight.vector(0, y.space(), y.columns());
  flight.start(*b_, x, z, adjoint);
  flight.wait();
  exec::sweep(exec::reads(z), exec::updates(y), exec::writes(),
              formula::Combine<T>{adjoint ? conj(alpha_) : alpha_, adjoint ? conj(beta_) : beta_});
}
template <Scalar T, Memory M>
std::vector<T> Sum<T, M>::diagonal() const {
  auto d = a_->diagonal();
  const auto e = b_->diagonal();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = alpha_ * d[i] + beta_ * e[i];
  return d;
}
template <Scalar T, Memory M>
double Sum<T, M>::largest() const {
  const double a = a_->largest(), b = b_->largest();
  // largest() is over real and imaginary parts; |Re(alpha a)| <= (|Re alpha| + |Im alpha|) max(|Re a|, |Im a|).
  const auto parts = [](T v) { return double(std::abs(std::real(v))) + double(std::abs(std::imag(v))); };
  return a > 0 && b > 0 ? parts(alpha_) * a + parts(beta_) * b : 0;
}
template <Scalar T, Memory M>
std::string Sum<T, M>::fault() const {
  if (!is_finite(alpha_) || !is_finite(beta_)) return "a factor in a sum of operators is not finite";
  return first_of(a_->fault(), b_->fault());
}
template <Scalar T, Memory M>
Cost Sum<T, M>::cost_of(bool adjoint) const {
  return either_cost(*a_, adjoint) + either_cost(*b_, adjoint) +
         sweep_cost<T>(this->range().local_size(), 3, 2 * product_flops<T> + sum_flops<T>);
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> Sum<T, M>::in_double() const {
  using D = in_double_t<T>;
  return composed_in_double<T, M>([this](auto a, auto b) { return sum(D(alpha_), a, D(beta_), b); }, a_, b_);
}

// ---- A + sigma I ----

template <Scalar T, Memory M>
Shifted<T, M>::Shifted(OperatorPointer<T, M> a, T sigma)
    : detail::Around<T, M>(there(a)->range(), a->domain(), a), sigma_(sigma) {
  require(a->domain() == a->range(), "a shift needs a square operator whose domain is its range; the ", a->name(),
          " operator is ", a->range().size(), " by ", a->domain().size());
}
template <Scalar T, Memory M>
void Shifted<T, M>::rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  layout::axpy(adjoint ? conj(sigma_) : sigma_, x, y);
}
template <Scalar T, Memory M>
std::vector<T> Shifted<T, M>::diagonal() const {
  auto d = this->a_->diagonal();
  for (T& v : d) v += sigma_;
  return d;
}
template <Scalar T, Memory M>
double Shifted<T, M>::largest() const {
  const double a = this->a_->largest();
  return a > 0 ? a + double(std::abs(sigma_)) : 0;
}
template <Scalar T, Memory M>
std::string Shifted<T, M>::fault() const {
  return is_finite(sigma_) ? this->a_->fault() : "the shift of an operator is not finite";
}
template <Scalar T, Memory M>
Cost Shifted<T, M>::cost_of(bool adjoint) const {
  return either_cost(*this->a_, adjoint) +
         sweep_cost<T>(this->range().local_size(), 3, product_flops<T> + sum_flops<T>);
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> Shifted<T, M>::in_double() const {
  return composed_in_double<T, M>([this](auto a) { return shift(a, in_double_t<T>(sigma_)); }, this->a_);
}

// ---- A^H ----

template <Scalar T, Memory M>
Adjoint<T, M>::Adjoint(OperatorPointer<T, M> a) : detail::Around<T, M>(there(a)->domain(), a->range(), a) {
  require(a->has_adjoint(), "the ", a->name(), " operator has no adjoint product");
}
template <Scalar T, Memory M>
std::vector<T> Adjoint<T, M>::diagonal() const {
  auto d = this->a_->diagonal();
  for (T& v : d) v = conj(v);
  return d;
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> Adjoint<T, M>::in_double() const {
  return composed_in_double<T, M>([](auto a) { return adjoint(a); }, this->a_);
}

// ---- A^T ----

template <Scalar T, Memory M>
Transpose<T, M>::Transpose(OperatorPointer<T, M> a) : detail::Around<T, M>(there(a)->domain(), a->range(), a) {
  require(a->has_adjoint(), "the ", a->name(), " operator has no adjoint product");
}
template <Scalar T, Memory M>
void Transpose<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  if constexpr (!is_complex<T>) return flight.start(*this->a_, x, y, !adjoint);
  auto& z = flight.vector(0, x.space(), x.columns());
  exec::sweep(exec::reads(x), exec::updates(), exec::writes(z), formula::Conjugate<T>{});
  flight.start(*this->a_, z, y, !adjoint);
}
template <Scalar T, Memory M>
void Transpose<T, M>::rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool) const {
  flight.wait();
  if constexpr (is_complex<T>)
    exec::sweep(exec::reads(), exec::updates(y), exec::writes(), formula::ConjugateInPlace<T>{});
}
template <Scalar T, Memory M>
Cost Transpose<T, M>::cost_of(bool adjoint) const {
  const Cost own = either_cost(*this->a_, !adjoint);
  if constexpr (!is_complex<T>) return own;
  return own + sweep_cost<T>(this->domain().local_size(), 2, 0) + sweep_cost<T>(this->range().local_size(), 2, 0);
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> Transpose<T, M>::in_double() const {
  return composed_in_double<T, M>([](auto a) { return transpose(a); }, this->a_);
}

// ---- I ----

template <Scalar T, Memory M>
void Identity<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool, int) const {
  layout::copy(x, y);
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> Identity<T, M>::in_double() const {
  return composed_in_double<T, M>(
      [this] { return std::make_shared<const Identity<in_double_t<T>, M>>(this->range()); });
}

// ---- D_l A D_r ----

template <Scalar T, Memory M>
DiagonalScaled<T, M>::DiagonalScaled(Vector<T, M> left, OperatorPointer<T, M> a, Vector<T, M> right)
    : detail::Around<T, M>(there(a)->range(), a->domain(), a), left_(std::move(left)), right_(std::move(right)) {
  require(left_.domain() == a->range() && right_.domain() == a->domain(), "diagonals of ", left_.domain().size(),
          " and ", right_.domain().size(), " elements around an operator of ", a->range().size(), " by ",
          a->domain().size());
}
template <Scalar T, Memory M>
void DiagonalScaled<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  auto& z = flight.vector(0, x.space(), x.columns());
  (adjoint ? left_ : right_).multiply(x, z, adjoint);
  flight.start(*this->a_, z, y, adjoint);
}
template <Scalar T, Memory M>
void DiagonalScaled<T, M>::rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  (adjoint ? right_ : left_).multiply(y, y, adjoint);
}
template <Scalar T, Memory M>
std::vector<T> DiagonalScaled<T, M>::diagonal() const {
  auto d = this->a_->diagonal();
  const auto l = left_.diagonal(), r = right_.diagonal();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = l[i] * d[i] * r[i];
  return d;
}
template <Scalar T, Memory M>
Cost DiagonalScaled<T, M>::cost_of(bool adjoint) const {
  return either_cost(*this->a_, adjoint) + left_.cost() + right_.cost();
}

template <Scalar T, Memory M>
std::shared_ptr<const Operator<in_double_t<T>, M>> DiagonalScaled<T, M>::in_double() const {
  return composed_in_double<T, M>(
      [this](auto a) { return scale(layout::in_double(left_.values(1)), a, layout::in_double(right_.values(1))); },
      this->a_);
}

}  // namespace tacit::op
