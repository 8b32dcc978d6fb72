// Compositions over both memory spaces; instantiated by compose.cpp (host), and by nvcc for the device.
#pragma once

#include <tacit/op/compose.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::op {

namespace formula {
template <class T>
struct Combine {  // y = alpha y + beta z
  T alpha, beta;
  TACIT_HD void operator()(T z, T& y) const { y = alpha * y + beta * z; }
};
template <class T>
struct Times {  // y = d x
  TACIT_HD void operator()(T d, T x, T& y) const { y = d * x; }
};
template <class T>
struct ConjugateTimes {
  TACIT_HD void operator()(T d, T x, T& y) const { y = conj(d) * x; }
};
template <class T>
struct TimesInPlace {
  TACIT_HD void operator()(T d, T& y) const { y = d * y; }
};
template <class T>
struct ConjugateTimesInPlace {
  TACIT_HD void operator()(T d, T& y) const { y = conj(d) * y; }
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

namespace detail {

template <Scalar T, Memory M>
Vector<T, M>& Composition<T, M>::Flight::vector(std::size_t i, const Space& space, int columns) {
  while (between.size() <= i) between.emplace_back(space, columns);
  if (between[i].columns() != columns || !(between[i].space() == space)) between[i] = Vector<T, M>(space, columns);
  return between[i];
}

template <Scalar T, Memory M>
int Composition<T, M>::begin(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  const int token = flights_[0].busy ? 1 : 0;
  Flight& flight = flights_[token];
  require(!flight.busy, "two products of the ", this->name(),
          " operator are already under way; wait for one of them first");
  flight.busy = true;
  try {
    first(flight, x, y, adjoint);
  } catch (...) {
    abandon(token);
    throw;
  }
  return token;
}

template <Scalar T, Memory M>
void Composition<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const {
  try {
    rest(flights_[token], x, y, adjoint);
  } catch (...) {
    abandon(token);
    throw;
  }
  flights_[token].busy = false;
}

template <Scalar T, Memory M>
void Composition<T, M>::abandon(int token) const noexcept {
  Flight& flight = flights_[token];
  if (flight.part) flight.part->give_up();
  flight.part.reset();
  flight.busy = false;
}

template <Scalar T, Memory M>
Product<T, M> start_either(const Operator<T, M>& a, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) {
  return adjoint ? a.start_adjoint(x, y) : a.start(x, y);
}

// d has one column, x any number: the element-wise product, column by column on the host.
template <Scalar T, Memory M>
void times(const Vector<T, M>& d, const Vector<T, M>& x, Vector<T, M>& y, bool conjugate) {
  using namespace exec;
  if (x.columns() == 1) {
    if (conjugate) sweep(reads(d, x), updates(), writes(y), formula::ConjugateTimes<T>{});
    else sweep(reads(d, x), updates(), writes(y), formula::Times<T>{});
    return;
  }
  if constexpr (std::same_as<M, Host>) {
    const std::ptrdiff_t n = std::ptrdiff_t(d.size()), k = x.columns();
    const T *const dd = d.data(), *const xx = x.data();
    T* const yy = y.data();
    parallel_for(std::size_t(n), n * k > std::ptrdiff_t(exec::detail::parallel_from), [=](std::size_t row) {
      const auto i = std::ptrdiff_t(row);
      const T factor = conjugate ? conj(dd[i]) : dd[i];
      for (std::ptrdiff_t c = 0; c < k; ++c) yy[i * k + c] = factor * xx[i * k + c];
    });
  } else {
    throw Error(ErrorKind::usage,
                message("a diagonal on the device multiplies one column at a time; this vector has ", x.columns()));
  }
}

inline std::string first_of(const std::string& a, const std::string& b) {
  return a.empty() ? b : a;
}

inline Cost operator+(const Cost& a, const Cost& b) {
  return {a.flops + b.flops, a.bytes + b.bytes, a.messages + b.messages, a.message_bytes + b.message_bytes};
}
/// Of a sweep over n elements of T with so many arrays and real operations an element.
template <class T>
Cost sweep_cost(Local n, double arrays, double operations) {
  return {operations * n, arrays * double(n) * sizeof(T), 0, 0};
}
template <class T>
inline constexpr double product_flops = is_complex<T> ? 6 : 1;
template <class T>
inline constexpr double sum_flops = is_complex<T> ? 2 : 1;

template <Scalar T, Memory M>
Cost cost_of(const Operator<T, M>& a, bool adjoint) {
  return adjoint ? a.adjoint_cost() : a.cost();
}

template <class Pointer>
Pointer there(Pointer a) {
  require(a != nullptr, "a composition of operators was given none");
  return a;
}

}  // namespace detail

// ---- A B ----

template <Scalar T, Memory M>
ProductOf<T, M>::ProductOf(OperatorPointer<T, M> a, OperatorPointer<T, M> b)
    : detail::Composition<T, M>(detail::there(a)->range(), detail::there(b)->domain()), a_(a), b_(b) {
  require(a_->domain() == b_->range(), "the ", a_->name(), " operator takes vectors of ", a_->domain().size(),
          " elements, but the ", b_->name(), " operator gives vectors of ", b_->range().size(),
          a_->domain().size() == b_->range().size() ? " in another partition or communicator" : "");
}

template <Scalar T, Memory M>
void ProductOf<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>&, bool adjoint) const {
  auto& middle = flight.vector(0, a_->domain(), x.columns());
  flight.part.emplace(detail::start_either(adjoint ? *a_ : *b_, x, middle, adjoint));
}
template <Scalar T, Memory M>
void ProductOf<T, M>::rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  auto& middle = flight.vector(0, a_->domain(), x.columns());
  detail::start_either(adjoint ? *b_ : *a_, middle, y, adjoint).wait();
}
template <Scalar T, Memory M>
std::string ProductOf<T, M>::fault() const {
  return detail::first_of(a_->fault(), b_->fault());
}
template <Scalar T, Memory M>
Cost ProductOf<T, M>::cost_of(bool adjoint) const {
  return detail::operator+(detail::cost_of(*a_, adjoint), detail::cost_of(*b_, adjoint));
}

// ---- alpha A + beta B ----

template <Scalar T, Memory M>
Sum<T, M>::Sum(T alpha, OperatorPointer<T, M> a, T beta, OperatorPointer<T, M> b)
    : detail::Composition<T, M>(detail::there(a)->range(), a->domain()),
      alpha_(alpha),
      beta_(beta),
      a_(a),
      b_(detail::there(b)) {
  require(a_->domain() == b_->domain() && a_->range() == b_->range(), "a sum of operators of ", a_->range().size(),
          " by ", a_->domain().size(), " and ", b_->range().size(), " by ", b_->domain().size(),
          a_->domain().size() == b_->domain().size() && a_->range().size() == b_->range().size()
              ? " in another partition or communicator"
              : "");
}

template <Scalar T, Memory M>
void Sum<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.part.emplace(detail::start_either(*a_, x, y, adjoint));
}
template <Scalar T, Memory M>
void Sum<T, M>::rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  auto& z = flight.vector(0, y.space(), y.columns());
  detail::start_either(*b_, x, z, adjoint).wait();
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
  return detail::first_of(a_->fault(), b_->fault());
}
template <Scalar T, Memory M>
Cost Sum<T, M>::cost_of(bool adjoint) const {
  const Cost sweep =
      detail::sweep_cost<T>(this->range().local_size(), 3, 2 * detail::product_flops<T> + detail::sum_flops<T>);
  return detail::operator+(detail::operator+(detail::cost_of(*a_, adjoint), detail::cost_of(*b_, adjoint)), sweep);
}

// ---- A + sigma I ----

template <Scalar T, Memory M>
Shifted<T, M>::Shifted(OperatorPointer<T, M> a, T sigma)
    : detail::Composition<T, M>(detail::there(a)->range(), a->domain()), a_(a), sigma_(sigma) {
  require(a_->domain() == a_->range(), "a shift needs a square operator whose domain is its range; the ", a_->name(),
          " operator is ", a_->range().size(), " by ", a_->domain().size());
}

template <Scalar T, Memory M>
void Shifted<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.part.emplace(detail::start_either(*a_, x, y, adjoint));
}
template <Scalar T, Memory M>
void Shifted<T, M>::rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  layout::axpy(adjoint ? conj(sigma_) : sigma_, x, y);
}
template <Scalar T, Memory M>
std::vector<T> Shifted<T, M>::diagonal() const {
  auto d = a_->diagonal();
  for (T& v : d) v += sigma_;
  return d;
}
template <Scalar T, Memory M>
double Shifted<T, M>::largest() const {
  const double a = a_->largest();
  return a > 0 ? a + double(std::abs(sigma_)) : 0;
}
template <Scalar T, Memory M>
std::string Shifted<T, M>::fault() const {
  return is_finite(sigma_) ? a_->fault() : "the shift of an operator is not finite";
}
template <Scalar T, Memory M>
Cost Shifted<T, M>::cost_of(bool adjoint) const {
  return detail::operator+(
      detail::cost_of(*a_, adjoint),
      detail::sweep_cost<T>(this->range().local_size(), 3, detail::product_flops<T> + detail::sum_flops<T>));
}

// ---- A^H ----

template <Scalar T, Memory M>
Adjoint<T, M>::Adjoint(OperatorPointer<T, M> a)
    : detail::Composition<T, M>(detail::there(a)->domain(), a->range()), a_(a) {
  require(a_->has_adjoint(), "the ", a_->name(), " operator has no adjoint product");
}

template <Scalar T, Memory M>
void Adjoint<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  flight.part.emplace(detail::start_either(*a_, x, y, !adjoint));
}
template <Scalar T, Memory M>
void Adjoint<T, M>::rest(Flight& flight, const Vector<T, M>&, Vector<T, M>&, bool) const {
  flight.wait();
}
template <Scalar T, Memory M>
std::vector<T> Adjoint<T, M>::diagonal() const {
  auto d = a_->diagonal();
  for (T& v : d) v = conj(v);
  return d;
}
template <Scalar T, Memory M>
Cost Adjoint<T, M>::cost_of(bool adjoint) const {
  return detail::cost_of(*a_, !adjoint);
}

// ---- A^T ----

template <Scalar T, Memory M>
Transpose<T, M>::Transpose(OperatorPointer<T, M> a)
    : detail::Composition<T, M>(detail::there(a)->domain(), a->range()), a_(a) {
  require(a_->has_adjoint(), "the ", a_->name(), " operator has no adjoint product");
}

template <Scalar T, Memory M>
void Transpose<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  if constexpr (is_complex<T>) {
    auto& z = flight.vector(0, x.space(), x.columns());
    exec::sweep(exec::reads(x), exec::updates(), exec::writes(z), formula::Conjugate<T>{});
    flight.part.emplace(detail::start_either(*a_, z, y, !adjoint));
  } else {
    flight.part.emplace(detail::start_either(*a_, x, y, !adjoint));
  }
}
template <Scalar T, Memory M>
void Transpose<T, M>::rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool) const {
  flight.wait();
  if constexpr (is_complex<T>)
    exec::sweep(exec::reads(), exec::updates(y), exec::writes(), formula::ConjugateInPlace<T>{});
}
template <Scalar T, Memory M>
Cost Transpose<T, M>::cost_of(bool adjoint) const {
  if constexpr (!is_complex<T>) return detail::cost_of(*a_, !adjoint);
  const Cost sweeps = detail::operator+(detail::sweep_cost<T>(this->domain().local_size(), 2, 0),
                                        detail::sweep_cost<T>(this->range().local_size(), 2, 0));
  return detail::operator+(detail::cost_of(*a_, !adjoint), sweeps);
}

// ---- D ----

template <Scalar T, Memory M>
Diagonal<T, M>::Diagonal(Vector<T, M> d) : Operator<T, M>(d.space(), d.space()), d_(std::move(d)) {
  const auto& comm = d_.space().comm();
  comm::collective(comm, [&] {
    require(d_.columns() == 1, "a diagonal with ", d_.columns(), " columns");
    const auto values = d_.to_host();
    Global at = d_.space().size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest_ = std::max({largest_, double(std::abs(std::real(values[i]))), double(std::abs(std::imag(values[i])))});
      if (!is_finite(values[i])) at = std::min(at, d_.space().begin() + Global(i));
    }
    largest_ = comm.all_max(largest_);
    at = comm.all_min(at);
    if (at < d_.space().size())
      fault_ = message("the diagonal has a value that is not finite at row ", at, " (counted from 0)");
  });
}
template <Scalar T, Memory M>
void Diagonal<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const {
  detail::times(d_, x, y, adjoint);
}
template <Scalar T, Memory M>
Cost Diagonal<T, M>::cost_of(bool) const {
  return detail::sweep_cost<T>(this->range().local_size(), 3, detail::product_flops<T>);
}

// ---- I ----

template <Scalar T, Memory M>
void Identity<T, M>::finish(const Vector<T, M>& x, Vector<T, M>& y, bool, int) const {
  layout::copy(x, y);
}

// ---- D_l A D_r ----

template <Scalar T, Memory M>
DiagonalScaled<T, M>::DiagonalScaled(Vector<T, M> left, OperatorPointer<T, M> a, Vector<T, M> right)
    : detail::Composition<T, M>(detail::there(a)->range(), a->domain()),
      left_(std::move(left)),
      right_(std::move(right)),
      a_(a) {
  require(left_.columns() == 1 && right_.columns() == 1, "diagonals with ", left_.columns(), " and ", right_.columns(),
          " columns");
  require(left_.space() == a_->range() && right_.space() == a_->domain(), "diagonals of ", left_.space().size(),
          " and ", right_.space().size(), " elements around an operator of ", a_->range().size(), " by ",
          a_->domain().size());
}

template <Scalar T, Memory M>
void DiagonalScaled<T, M>::first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
  auto& z = flight.vector(0, x.space(), x.columns());
  detail::times(adjoint ? left_ : right_, x, z, adjoint);
  flight.part.emplace(detail::start_either(*a_, z, y, adjoint));
}
template <Scalar T, Memory M>
void DiagonalScaled<T, M>::rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool adjoint) const {
  flight.wait();
  const auto& d = adjoint ? right_ : left_;
  if (y.columns() > 1) return detail::times(d, y, y, adjoint);
  if (adjoint) exec::sweep(exec::reads(d), exec::updates(y), exec::writes(), formula::ConjugateTimesInPlace<T>{});
  else exec::sweep(exec::reads(d), exec::updates(y), exec::writes(), formula::TimesInPlace<T>{});
}
template <Scalar T, Memory M>
std::vector<T> DiagonalScaled<T, M>::diagonal() const {
  auto d = a_->diagonal();
  const auto l = left_.to_host(), r = right_.to_host();
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = l[i] * d[i] * r[i];
  return d;
}
template <Scalar T, Memory M>
Cost DiagonalScaled<T, M>::cost_of(bool adjoint) const {
  const Cost sweeps = detail::operator+(detail::sweep_cost<T>(this->domain().local_size(), 3, detail::product_flops<T>),
                                        detail::sweep_cost<T>(this->range().local_size(), 3, detail::product_flops<T>));
  return detail::operator+(detail::cost_of(*a_, adjoint), sweeps);
}

}  // namespace tacit::op
