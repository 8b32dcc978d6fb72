#include "radial.hpp"

#include <tacit/base/error.hpp>

#include "elementary.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

namespace tacit::op::detail {
namespace {

// Beside those of vectors of double, for single values of any size.
long double exp_of_negative(long double x) {
  return std::exp(x);
}
long double log_of(long double x) {
  return std::log(x);
}
using detail::exp_of_negative;
using detail::log_of;

template <class R>
struct Wave {
  R re, im;
  friend Wave operator*(R a, const Wave& w) { return {a * w.re, a * w.im}; }
};
template <class R>
inline constexpr bool is_wave = false;
template <class R>
inline constexpr bool is_wave<Wave<R>> = true;

constexpr double quarter_over_pi = 0.25 * std::numbers::inv_pi;

// Of the squared distance: value, k(r), and slope, k'(r) / r, which times x_a - y_a is the derivative with respect to
// x_a.
struct Laplace {
  template <class R>
  R value(R r2) const {
    return r2 > 0 ? R(quarter_over_pi) / std::sqrt(r2) : R(0);
  }
  template <class R>
  R slope(R r2) const {
    return r2 > 0 ? R(-quarter_over_pi) / (r2 * std::sqrt(r2)) : R(0);
  }
};
struct Yukawa {
  double kappa;
  template <class R>
  R value(R r2) const {
    const R r = std::sqrt(r2), size = r2 > 0 ? R(quarter_over_pi) / r : R(0);
    return size * exp_of_negative(R(-kappa) * r);
  }
  template <class R>
  R slope(R r2) const {
    const R a = R(kappa) * std::sqrt(r2), size = r2 > 0 ? R(-quarter_over_pi) / (r2 * std::sqrt(r2)) : R(0);
    return size * (1 + a) * exp_of_negative(-a);
  }
};
struct Helmholtz {
  double kappa;
  static SineCosine turned(double a) { return sine_cosine(a); }
  static std::pair<long double, long double> turned(long double a) { return {std::sin(a), std::cos(a)}; }
  template <class R>
  Wave<R> value(R r2) const {
    const R r = std::sqrt(r2), size = r2 > 0 ? R(quarter_over_pi) / r : R(0);
    const auto [sine, cosine] = turned(R(kappa) * r);
    return {size * cosine, size * sine};
  }
  template <class R>
  Wave<R> slope(R r2) const {
    const R a = R(kappa) * std::sqrt(r2), size = r2 > 0 ? R(quarter_over_pi) / (r2 * std::sqrt(r2)) : R(0);
    const auto [sine, cosine] = turned(a);
    return {-size * (cosine + a * sine), size * (a * cosine - sine)};
  }
};
struct Gaussian {
  template <class R>
  R value(R r2) const {
    return exp_of_negative(R(-0.5) * r2);
  }
  template <class R>
  R slope(R r2) const {
    return -value(r2);
  }
};
struct Matern12 {
  template <class R>
  R value(R r2) const {
    return exp_of_negative(-std::sqrt(r2));
  }
  template <class R>
  R slope(R r2) const {
    const R r = std::sqrt(r2), inverse = r2 > 0 ? R(-1) / r : R(0);
    return inverse * exp_of_negative(-r);
  }
};
struct Matern32 {
  template <class R>
  R value(R r2) const {
    const R a = std::sqrt(3 * r2);
    return (1 + a) * exp_of_negative(-a);
  }
  template <class R>
  R slope(R r2) const {
    return -3 * exp_of_negative(-std::sqrt(3 * r2));
  }
};
struct Matern52 {
  template <class R>
  R value(R r2) const {
    const R a2 = 5 * r2, a = std::sqrt(a2);
    return (1 + a + a2 * R(1.0 / 3)) * exp_of_negative(-a);
  }
  template <class R>
  R slope(R r2) const {
    const R a = std::sqrt(5 * r2);
    return R(-5.0 / 3) * (1 + a) * exp_of_negative(-a);
  }
};
// d/da a^nu K_nu(a) = -a^nu K_(nu - 1)(a): the slope is a Matern kernel of nu - 1.
struct Matern {
  std::shared_ptr<const MaternTable> table, before;
  double squared, factor;  // 2 nu; nu / (nu - 1)
  static double of(const MaternTable& t, double a) { return t(a); }
  static long double of(const MaternTable& t, long double a) { return a < 1000 ? t(double(a)) : 0; }
  template <class R>
  R value(R r2) const {
    return of(*table, std::sqrt(R(squared) * r2));
  }
  template <class R>
  R slope(R r2) const {
    return R(-factor) * of(*before, std::sqrt(R(squared) * r2));
  }
};
struct InverseMultiquadric {
  template <class R>
  R value(R r2) const {
    return 1 / std::sqrt(1 + r2);
  }
  template <class R>
  R slope(R r2) const {
    return -1 / ((1 + r2) * std::sqrt(1 + r2));
  }
};
struct ThinPlate {
  template <class R>
  static R log_or_zero(R r2) {
    return r2 >= std::numeric_limits<R>::min() ? log_of(r2) : R(0);
  }
  template <class R>
  R value(R r2) const {
    return R(0.5) * r2 * log_or_zero(r2);
  }
  template <class R>
  R slope(R r2) const {
    return log_or_zero(r2) + (r2 > 0 ? R(1) : R(0));
  }
};

// What an entry is.
struct Value {
  static constexpr bool directed = false;
  template <class F, class R>
  static auto of(const F& f, R r2, R) {
    return f.value(r2);
  }
};
struct AlongAxis {
  static constexpr bool directed = true;
  template <class F, class R>
  static auto of(const F& f, R r2, R d) {
    return d * f.slope(r2);
  }
};
struct ByAllLengths {
  static constexpr bool directed = false;
  template <class F, class R>
  static auto of(const F& f, R r2, R) {
    return R(-r2) * f.slope(r2);
  }
};
struct ByOneLength {
  static constexpr bool directed = true;
  template <class F, class R>
  static auto of(const F& f, R r2, R d) {
    return R(-d * d) * f.slope(r2);
  }
};

template <class Form, class F>
class Made final : public Radial {
  using Of = decltype(Form::of(std::declval<const F&>(), 1.0, 1.0));

 public:
  Made(F f, double variance) : Radial(is_wave<Of>, Form::directed), f_(std::move(f)), variance_(variance) {}
  void evaluate(const double* r2, [[maybe_unused]] const double* d, std::size_t count, double* re,
                [[maybe_unused]] double* im) const override {
    const F f = f_;
    const double variance = variance_;
    const auto along = [&](std::size_t i) {
      if constexpr (Form::directed) return d[i];
      else return 0.0;
    };
    if constexpr (is_wave<Of>) {
#pragma omp simd
      for (std::size_t i = 0; i < count; ++i) {
        const Of v = Form::of(f, r2[i], along(i));
        re[i] = variance * v.re, im[i] = variance * v.im;
      }
    } else {
#pragma omp simd
      for (std::size_t i = 0; i < count; ++i) re[i] = variance * Form::of(f, r2[i], along(i));
    }
  }
  std::complex<double> value(long double r2, long double d) const override {
    const auto v = Form::of(f_, r2, d);
    if constexpr (is_wave<Of>) return {double(variance_ * v.re), double(variance_ * v.im)};
    else return double(variance_ * v);
  }

 private:
  F f_;
  double variance_;
};

template <class F>
std::shared_ptr<const Radial> made(F f, const PointKernel& k) {
  switch (k.derivative) {
    case KernelDerivative::none:
      return std::make_shared<const Made<Value, F>>(std::move(f), k.variance);
    case KernelDerivative::target:
      return std::make_shared<const Made<AlongAxis, F>>(std::move(f), k.variance);
    case KernelDerivative::length:
      if (k.axis < 0) return std::make_shared<const Made<ByAllLengths, F>>(std::move(f), k.variance);
      return std::make_shared<const Made<ByOneLength, F>>(std::move(f), k.variance);
  }
  return nullptr;
}

std::shared_ptr<const Radial> matern(const PointKernel& k) {
  if (k.nu == 0.5) return made(Matern12{}, k);
  if (k.nu == 1.5) return made(Matern32{}, k);
  if (k.nu == 2.5) return made(Matern52{}, k);
  Matern f{std::make_shared<const MaternTable>(k.nu), nullptr, 2 * k.nu, 0};
  if (k.derivative != KernelDerivative::none) {
    constexpr double least = 1.05;
    require(k.nu >= least, "a derivative of the kernel matern with nu = ", k.nu, "; 0.5, or from ", least,
            " on, is needed");
    f.before = std::make_shared<const MaternTable>(k.nu - 1);
    f.factor = k.nu / (k.nu - 1);
  }
  return made(std::move(f), k);
}

}  // namespace

std::shared_ptr<const Radial> radial_of(const PointKernel& k) {
  switch (k.kernel) {
    case KernelName::laplace:
      return made(Laplace{}, k);
    case KernelName::helmholtz:
      return made(Helmholtz{k.kappa}, k);
    case KernelName::yukawa:
      return made(Yukawa{k.kappa}, k);
    case KernelName::gaussian:
      return made(Gaussian{}, k);
    case KernelName::matern12:
      return made(Matern12{}, k);
    case KernelName::matern32:
      return made(Matern32{}, k);
    case KernelName::matern52:
      return made(Matern52{}, k);
    case KernelName::matern:
      return matern(k);
    case KernelName::inverse_multiquadric:
      return made(InverseMultiquadric{}, k);
    case KernelName::thin_plate:
      return made(ThinPlate{}, k);
    default:
      return nullptr;  // of several components
  }
}

}  // namespace tacit::op::detail
