#include "krylov/hessenberg.hpp"

#include <tacit/base/types.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::krylov {
namespace {

using Complex = std::complex<double>;

constexpr double epsilon = std::numeric_limits<double>::epsilon();

Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

Complex square_root(Complex z) {
  const double size = magnitude(z), x = std::sqrt((size + std::abs(z.real())) / 2);
  if (x == 0) return 0;
  const double y = z.imag() / (2 * x);
  return z.real() >= 0 ? Complex(x, y) : Complex(std::abs(y), z.imag() < 0 ? -x : x);
}

/// The eigenvalue of [a b; c d] that is nearer to d.
Complex wilkinson_shift(Complex a, Complex b, Complex c, Complex d) {
  const Complex half = 0.5 * (a - d), root = square_root(times(half, half) + times(b, c));
  const Complex plus = d + half + root, minus = d + half - root;
  return magnitude(plus - d) < magnitude(minus - d) ? plus : minus;
}

class Iteration {
 public:
  Iteration(std::vector<Complex>& h, int n) : h_(h), n_(n), cosine_(std::size_t(n)), sine_(std::size_t(n)) {}

  /// The eigenvalues are on the diagonal then. False where they are not found.
  bool run() {
    int steps = 0;
    for (int last = n_ - 1; last > 0;) {
      const int first = first_of_block(last);
      if (first == last) {
        --last, steps = 0;
        continue;
      }
      if (++steps > 60) return false;
      // A shift of another size breaks cycles of the iteration.
      const Complex shift = steps % 10 == 0 ? at(last, last) + magnitude(at(last, last - 1))
                                            : wilkinson_shift(at(last - 1, last - 1), at(last - 1, last),
                                                              at(last, last - 1), at(last, last));
      step(first, last, shift);
    }
    return true;
  }

 private:
  Complex& at(int i, int j) { return h_[std::size_t(j) * std::size_t(n_) + std::size_t(i)]; }

  /// The first row of the block without negligible entries below its diagonal that ends in row `last`.
  int first_of_block(int last) {
    for (int k = last; k > 0; --k) {
      const double beside = magnitude(at(k - 1, k - 1)) + magnitude(at(k, k));
      if (magnitude(at(k, k - 1)) <= epsilon * (beside > 0 ? beside : 1)) {  // the matrix has a size of 1
        at(k, k - 1) = 0;
        return k;
      }
    }
    return 0;
  }

  /// H - shift = Q R,  H := R Q + shift, for the rows and columns of a block.
  void step(int first, int last, Complex shift) {
    for (int k = first; k <= last; ++k) at(k, k) -= shift;
    for (int k = first; k < last; ++k) {
      const Complex upper = at(k, k), lower = at(k + 1, k);
      const double size = std::sqrt(std::norm(upper) + std::norm(lower));
      const Complex c = size > 0 ? upper / size : Complex(1), s = size > 0 ? lower / size : Complex(0);
      cosine_[std::size_t(k)] = c, sine_[std::size_t(k)] = s;
      at(k, k) = size, at(k + 1, k) = 0;
      for (int j = k + 1; j <= last; ++j) {
        const Complex a = at(k, j), b = at(k + 1, j);
        at(k, j) = times(std::conj(c), a) + times(std::conj(s), b);
        at(k + 1, j) = times(c, b) - times(s, a);
      }
    }
    for (int k = first; k < last; ++k) {
      const Complex c = cosine_[std::size_t(k)], s = sine_[std::size_t(k)];
      for (int i = first; i <= k + 1; ++i) {
        const Complex a = at(i, k), b = at(i, k + 1);
        at(i, k) = times(a, c) + times(b, s);
        at(i, k + 1) = times(b, std::conj(c)) - times(a, std::conj(s));
      }
    }
    for (int k = first; k <= last; ++k) at(k, k) += shift;
  }

  std::vector<Complex>& h_;
  int n_;
  std::vector<Complex> cosine_, sine_;
};

}  // namespace

double magnitude(Complex z) {
  const double x = std::abs(z.real()), y = std::abs(z.imag()), most = std::max(x, y);
  if (!(most > 0) || !std::isfinite(most)) return most == 0 ? 0 : x + y;
  const double a = x / most, b = y / most;
  return most * std::sqrt(a * a + b * b);
}

std::vector<Complex> hessenberg_eigenvalues(std::vector<Complex> h, int n) {
  double most = 0;
  for (const Complex z : h) {
    if (!is_finite(z)) return {};
    most = std::max({most, std::abs(z.real()), std::abs(z.imag())});
  }
  if (n == 0) return {};
  // A power of two: squares stay in the range of numbers.
  const int exponent = most > 0 ? std::ilogb(most) : 0;
  for (Complex& z : h) z = {std::scalbn(z.real(), -exponent), std::scalbn(z.imag(), -exponent)};
  if (!Iteration(h, n).run()) return {};
  std::vector<Complex> values(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Complex z = h[k * (std::size_t(n) + 1)];
    values[k] = {std::scalbn(z.real(), exponent), std::scalbn(z.imag(), exponent)};
  }
  return values;
}

}  // namespace tacit::krylov
