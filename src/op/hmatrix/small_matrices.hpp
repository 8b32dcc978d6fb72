// Operations on small real matrices for recompression; for about a dozen columns they are faster than LAPACK.
#pragma once

#include "kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace tacit::op::detail {

// The largest rank for which these operations are used.
inline constexpr int short_rank = 48;

// The Cholesky factor R of a^H a = R^H R, upper triangular, r x r by columns; false where a^H a is too ill-conditioned
// for the relative accuracy that is needed.
inline bool triangle_of_squares(const double* a, int m, int r, double accuracy, std::vector<double>& R) {
  R.assign(std::size_t(r) * r, 0.0);
  double part[short_rank * 4];
  const auto squares = [&]<int K>(std::integral_constant<int, K>, int j) {
    dots<double, double, K>(a, m, std::min<int>(r, j + K), a + std::size_t(j) * m, m, part);
    for (int i = 0; i < std::min<int>(r, j + K); ++i)
      for (int k = 0; k < K; ++k) R[std::size_t(i) + std::size_t(j + k) * r] = part[i * K + k];
  };
  int j = 0;
  for (; j + 4 <= r; j += 4) squares(std::integral_constant<int, 4>{}, j);
  if (r - j >= 2) squares(std::integral_constant<int, 2>{}, j), j += 2;
  if (j < r) squares(std::integral_constant<int, 1>{}, j);
  const double least = std::max(1e-8, 100 * std::numeric_limits<double>::epsilon() / accuracy);
  for (j = 0; j < r; ++j) {
    double* const to = R.data() + std::size_t(j) * r;
    const double square = to[j];
    for (int i = 0; i <= j; ++i) {
      const double* const from = R.data() + std::size_t(i) * r;
      double sum = to[i];
      for (int l = 0; l < i; ++l) sum -= from[l] * to[l];
      if (i < j) to[i] = sum / from[i];
      else if (!(sum > least * square) || !(square > 1e-280)) return false;
      else to[j] = std::sqrt(sum);
    }
    std::fill(to + j + 1, to + r, 0.0);
  }
  return true;
}

// x := R^-1 x, x: r x n by columns.
inline void solve_triangle(const std::vector<double>& R, int r, double* x, int n) {
  for (int c = 0; c < n; ++c, x += r)
    for (int i = r - 1; i >= 0; --i) {
      double sum = x[i];
      for (int l = i + 1; l < r; ++l) sum -= R[std::size_t(i) + std::size_t(l) * r] * x[l];
      x[i] = sum / R[std::size_t(i) + std::size_t(i) * r];
    }
}

/// Left and right singular vectors, by descending singular values, from the columns of [left diag(sigma); right].
template <class Product>
void sort_columns(const std::vector<double>& work, int r, int ld, Product&& product, std::vector<double>& left,
                  std::vector<double>& sigma, std::vector<double>& right) {
  const auto column = [&](int j) { return work.data() + std::size_t(ld) * std::size_t(j); };
  std::vector<double> size(static_cast<std::size_t>(r));
  std::vector<int> order(static_cast<std::size_t>(r));
  std::iota(order.begin(), order.end(), 0);
  for (int j = 0; j < r; ++j) size[std::size_t(j)] = std::sqrt(product(column(j), column(j)));
  std::stable_sort(order.begin(), order.end(),
                   [&](int i, int j) { return size[std::size_t(i)] > size[std::size_t(j)]; });
  left.assign(std::size_t(r) * std::size_t(r), 0.0), right.resize(std::size_t(r) * std::size_t(r));
  sigma.resize(static_cast<std::size_t>(r));
  for (int k = 0; k < r; ++k) {
    const double* const from = column(order[std::size_t(k)]);
    const double value = size[std::size_t(order[std::size_t(k)])];
    sigma[std::size_t(k)] = value;
    for (int i = 0; i < r; ++i) {
      if (value > 0) left[std::size_t(i) + std::size_t(k) * std::size_t(r)] = from[i] / value;
      right[std::size_t(i) + std::size_t(k) * std::size_t(r)] = from[ld / 2 + i];
    }
  }
}

/// The SVD by one-sided Jacobi rotations (Hestenes 1958, de Rijk 1989, doi 10.1137/0910023):
/// a = left diag(sigma) right^T, a: r x r by columns (written over), sigma descending; right orthogonal to
/// rounding, left to 1e-10. Columns of left that belong to sigma = 0 are 0. False where it does not converge or a is
/// not finite.
inline bool small_svd(double* a, int r, std::vector<double>& left, std::vector<double>& sigma,
                      std::vector<double>& right) {
  constexpr int lane = 8;
  // Columns of [a; I], padded to whole registers: a rotation is applied to both.
  const int half = (r + lane - 1) / lane * lane, ld = 2 * half;
  std::vector<double> work(std::size_t(ld) * std::size_t(r));
  std::vector<double> square(static_cast<std::size_t>(r));
  const auto column = [&](int j) { return work.data() + std::size_t(ld) * std::size_t(j); };
  const auto product = [half](const double* x, const double* y) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < half; ++i) sum += x[i] * y[i];
    return sum;
  };
  for (int j = 0; j < r; ++j) {
    std::copy_n(a + std::size_t(j) * std::size_t(r), r, column(j));
    column(j)[half + j] = 1;
  }
  // Convergence is quadratic: after a sweep with all cosines below `done`, all are below its square. Those below
  // `nothing` change singular values by less than rounding does.
  constexpr double done = 1e-5, nothing = 1e-10;
  constexpr int sweeps = 30;
  double worst = 1;
  for (int sweep = 0; sweep < sweeps && worst > done; ++sweep) {
    worst = 0;
    for (int j = 0; j < r; ++j) {
      square[std::size_t(j)] = product(column(j), column(j));
      if (!std::isfinite(square[std::size_t(j)])) return false;
    }
    for (int p = 0; p + 1 < r; ++p)
      for (int q = p + 1; q < r; ++q) {
        double *const x = column(p), *const y = column(q);
        double &xx = square[std::size_t(p)], &yy = square[std::size_t(q)];
        const double xy = product(x, y), size = std::sqrt(std::max(xx, 0.0) * std::max(yy, 0.0));
        if (!(std::abs(xy) > nothing * size)) continue;
        if (size > 0) worst = std::max(worst, std::abs(xy) / size);
        const double zeta = (yy - xx) / (2 * xy);
        const double t = std::copysign(1 / (std::abs(zeta) + std::sqrt(1 + zeta * zeta)), zeta);
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
#pragma omp simd
        for (int i = 0; i < ld; ++i) {
          const double u = x[i], v = y[i];
          x[i] = c * u - s * v;
          y[i] = s * u + c * v;
        }
        xx -= t * xy, yy += t * xy;
      }
  }
  if (worst > done) return false;
  sort_columns(work, r, ld, product, left, sigma, right);
  return true;
}

}  // namespace tacit::op::detail
