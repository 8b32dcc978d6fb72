#include "krylov/change_of_basis.hpp"

#include <tacit/base/types.hpp>
#include "krylov/hessenberg.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tacit::krylov {

using Values = std::vector<std::complex<double>>;

template <Scalar T>
Values ritz_values(std::span<const T> h, int ld, int n) {
  Values square(std::size_t(n) * std::size_t(n));
  for (int j = 0; j < n; ++j)
    for (int i = 0; i <= std::min(j + 1, n - 1); ++i)
      square[std::size_t(j) * std::size_t(n) + std::size_t(i)] = h[std::size_t(j) * std::size_t(ld) + std::size_t(i)];
  return hessenberg_eigenvalues(std::move(square), n);
}

namespace {
/// A product of distances, which may leave the range of numbers: fraction 2^exponent.
struct Product {
  double fraction = 1;
  long exponent = 0;
  void times(double distance) {
    int e = 0;
    fraction = std::frexp(fraction * std::max(distance, std::numeric_limits<double>::min()), &e);
    exponent += e;
  }
  friend bool operator>(const Product& a, const Product& b) {
    return a.exponent != b.exponent ? a.exponent > b.exponent : a.fraction > b.fraction;
  }
};
}  // namespace

Values leja(Values values, bool pairs) {
  if (pairs) {
    // Rounding leaves conjugates slightly apart, and real values slightly off the axis.
    double size = 0;
    for (const auto& z : values) size = std::max(size, magnitude(z));
    for (auto& z : values)
      if (std::abs(z.imag()) <= 1e-12 * size) z = z.real();
    std::erase_if(values, [](auto z) { return z.imag() < 0; });
  }
  Values order;
  std::vector<Product> distance(values.size());  // to what is taken
  while (!values.empty()) {
    std::size_t far = 0;
    for (std::size_t i = 1; i < values.size(); ++i)
      if (order.empty() ? magnitude(values[i]) > magnitude(values[far]) : distance[i] > distance[far]) far = i;
    const auto z = values[far];
    values.erase(values.begin() + std::ptrdiff_t(far));
    distance.erase(distance.begin() + std::ptrdiff_t(far));
    order.push_back(z);
    if (pairs && z.imag() != 0) order.push_back(std::conj(z));
    for (std::size_t i = 0; i < values.size(); ++i) {
      distance[i].times(magnitude(values[i] - z));
      if (pairs && z.imag() != 0) distance[i].times(magnitude(values[i] - std::conj(z)));
    }
  }
  return order;
}

template <Scalar T>
op::Recurrence<T> make_recurrence(Basis basis, std::span<const std::complex<double>> ritz, int steps, double scale) {
  using R = real_t<T>;
  op::Recurrence<T> recurrence(std::max(steps, 0));
  double largest = 0, least_real = std::numeric_limits<double>::infinity(), most_real = -least_real;
  double least_imag = least_real, most_imag = most_real;
  for (const auto& z : ritz) {
    largest = std::max(largest, magnitude(z));
    least_real = std::min(least_real, z.real()), most_real = std::max(most_real, z.real());
    least_imag = std::min(least_imag, z.imag()), most_imag = std::max(most_imag, z.imag());
  }
  if (!(largest > 0) || !std::isfinite(largest) || basis == Basis::monomial) {
    for (auto& step : recurrence) step.gamma = R(largest > 0 && std::isfinite(largest) ? largest : scale);
    return recurrence;
  }
  const double width = (most_real - least_real) / 2, height = (most_imag - least_imag) / 2;
  if (basis == Basis::chebyshev) {
    // Chebyshev polynomials of the ellipse with centre d, semi-axes a (real) and b; the term with T_0 counts twice.
    const T d = [&] {
      if constexpr (is_complex<T>) return T(R((most_real + least_real) / 2), R((most_imag + least_imag) / 2));
      else return T(R((most_real + least_real) / 2));
    }();
    const double a = std::max(width, 1e-3 * largest), b = height;
    const double gamma = (a + b) / 2, focal = (a * a - b * b) / (4 * gamma);
    for (std::size_t c = 0; c < recurrence.size(); ++c)
      recurrence[c] = {d, T(c == 0 ? R(0) : R(c == 1 ? 2 * focal : focal)), R(gamma)};
    return recurrence;
  }
  // Newton. The capacity of a segment of length 2 w is w / 2, that of a disc its radius: about half the mean extent.
  const auto order = leja(Values(ritz.begin(), ritz.end()), !is_complex<T>);
  const double gamma = std::max((width + height) / 2, 1e-3 * largest);
  bool second = false;  // of a conjugate pair
  for (std::size_t c = 0; c < recurrence.size(); ++c) {
    const auto z = order[c % order.size()];
    auto& step = recurrence[c];
    step.gamma = R(gamma);
    if constexpr (is_complex<T>) {
      step.alpha = T(R(z.real()), R(z.imag()));
    } else {
      // Two steps give (A - a)^2 + b^2, where the first one was gamma v_c = (A - a) v_{c-1}.
      step.alpha = T(z.real());
      if (second) step.beta = T(-z.imag() * z.imag() / gamma);
      second = z.imag() != 0 && !second;
    }
  }
  return recurrence;
}

#define TACIT_INSTANTIATE(T)                                    \
  template Values ritz_values<T>(std::span<const T>, int, int); \
  template op::Recurrence<T> make_recurrence<T>(Basis, std::span<const std::complex<double>>, int, double);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
