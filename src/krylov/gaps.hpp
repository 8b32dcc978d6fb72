// Gaps: how far vectors that recurrences carry have drifted from what they stand for, estimated from norms alone; and what happens when they
// have drifted too far.
#pragma once

#include <tacit/base/types.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

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
}  // namespace formula

/// Root mean squares of N gaps e_1 .. e_N (b - A x - r, A p - s, ..) that obey e' = L e + rounding, with L known. The
/// roundings of different vectors and iterations are taken as independent, so the gaps' N x N covariance C obeys
/// C' = L C L^H + diag(sigma^2): a handful of scalars, the same on all ranks. Unlike bounds by the triangle inequality (van
/// der Vorst and Ye 2000, doi 10.1137/S1064827599353865; Cools et al. 2018, doi 10.1137/17M1117872) this stays within a small
/// factor of the gaps over thousands of iterations, because signs are kept. Local.
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

}  // namespace tacit::krylov
