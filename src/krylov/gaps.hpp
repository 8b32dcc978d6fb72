// Gaps: how far vectors that recurrences carry have drifted from what they stand for, estimated from norms alone; and
// what happens when they have drifted too far.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/sweep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <vector>

namespace tacit::krylov {

namespace formula {
/// A group of steps ends: what is left of the right-hand side is the residual, and y begins anew.
template <class T>
struct GroupEnd {
  TACIT_HD void operator()(T Ay, T& f, T& d, T& y, T& r) const {
    f = f - Ay;
    d = d + y;
    y = T(0);
    r = f;
  }
};
template <class T>
struct GroupEndOverlap {  // and the inner product of the residuals at its ends
  TACIT_HD exec::Sums<1, T> operator()(T Ay, T& f, T& d, T& y, T& r) const {
    const T before = f;
    GroupEnd<T>{}(Ay, f, d, y, r);
    return {{conj(before) * f}};
  }
};
}  // namespace formula

/// Residuals of conjugate gradients are orthogonal until rounding finds eigenvalues a second time; from then on every
/// digit of the recurrences counts (Greenbaum 1989, doi 10.1016/0024-3795(89)90285-1). Where those at both ends of a
/// group of iterations stay orthogonal (to 1e-9, as a rule) a method with gaps takes the iterations of conjugate
/// gradients; where they overlap by more than this, up to twice as many.
template <Scalar T>
constexpr double residuals_return = std::same_as<real_t<T>, double> ? 1e-5 : 0.1;

/// Root mean squares of N gaps e_1 .. e_N (b - A x - r, A p - s, ..) that obey e' = L e + rounding, with L known. The
/// roundings of different vectors and iterations are taken as independent, so the gaps' N x N covariance C obeys
/// C' = L C L^H + diag(sigma^2): a handful of scalars, the same on all ranks. Unlike bounds by the triangle inequality
/// (van der Vorst and Ye 2000, doi 10.1137/S1064827599353865; Cools et al. 2018, doi 10.1137/17M1117872) this stays
/// within a small factor of the gaps over thousands of iterations, because signs are kept. Local.
template <int N>
class Gaps {
 public:
  using Scalar = std::complex<double>;
  using Matrix = std::array<std::array<Scalar, N>, N>;

  double operator[](int i) const { return std::sqrt(std::max(0.0, C_[i][i].real())); }
  /// No correlation; gap i has this size.
  void reset(const std::array<double, N>& sigma) {
    C_ = {};
    add(sigma);
  }
  void step(const Matrix& L, const std::array<double, N>& sigma) {
    Matrix half{}, next{};
    for (int i = 0; i < N; ++i)
      for (int k = 0; k < N; ++k)
        for (int j = 0; j < N; ++j) half[i][j] += L[i][k] * C_[k][j];
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j)
        for (int k = 0; k < N; ++k) next[i][j] += half[i][k] * std::conj(L[j][k]);
    C_ = next;
    add(sigma);
  }

 private:
  void add(const std::array<double, N>& sigma) {
    for (int i = 0; i < N; ++i) C_[i][i] += sigma[i] * sigma[i];
  }
  Matrix C_{};
};

/// The same for a number of gaps that is known when it is made, and real L. Local.
class VariableGaps {
 public:
  explicit VariableGaps(int n) : n_(n), C_(std::size_t(n * n), 0.0), half_(C_) {}

  double operator[](int i) const { return std::sqrt(std::max(0.0, C_[at(i, i)])); }
  void reset(const std::vector<double>& sigma) {
    std::fill(C_.begin(), C_.end(), 0.0);
    add(sigma);
  }
  /// L: n x n, row after row, with few entries.
  void step(const std::vector<double>& L, const std::vector<double>& sigma) {
    half_.assign(half_.size(), 0.0);  // L C
    multiply(L, C_, half_);
    C_.assign(C_.size(), 0.0);
    for (int i = 0; i < n_; ++i)
      for (int j = 0; j < i; ++j) std::swap(half_[at(i, j)], half_[at(j, i)]);
    multiply(L, half_, C_);
    add(sigma);
  }

 private:
  std::size_t at(int i, int j) const { return std::size_t(i * n_ + j); }
  void multiply(const std::vector<double>& L, const std::vector<double>& x, std::vector<double>& y) const {
    for (int i = 0; i < n_; ++i)
      for (int k = 0; k < n_; ++k)
        if (const double a = L[at(i, k)]; a != 0)
          for (int j = 0; j < n_; ++j) y[at(i, j)] += a * x[at(k, j)];
  }
  void add(const std::vector<double>& sigma) {
    for (int i = 0; i < n_; ++i) C_[at(i, i)] += sigma[std::size_t(i)] * sigma[std::size_t(i)];
  }
  int n_;
  std::vector<double> C_, half_;
};

}  // namespace tacit::krylov
