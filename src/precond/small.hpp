// Small dense problems of the sparse inverses.
#pragma once

#include "scalar.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace tacit::precond {

/// argmin || C m - f ||_2, C height x width by columns, by Householder reflections. C and f are overwritten. Columns
/// that depend on earlier ones to rounding get 0.
template <Scalar T>
std::vector<T> least_squares(std::vector<T>& c, std::vector<T>& f, int height, int width) {
  using R = real_t<T>;
  const R tiny = 10 * std::numeric_limits<R>::epsilon() * R(width);
  std::vector<T> diagonal(width, T(0));
  std::vector<int> row_of(width, -1);
  int top = 0;
  for (int p = 0; p < width; ++p) {
    T* const v = c.data() + std::size_t(p) * height;
    R all = 0, below = 0;
    for (int h = 0; h < height; ++h) (h < top ? all : below) += abs2(v[h]);
    const R norm = std::sqrt(below);
    if (top >= height || !(norm > tiny * std::sqrt(all + below))) continue;
    const R head = std::abs(v[top]);
    const T phase = head > 0 ? v[top] / head : T(1);
    // v becomes the reflector: its column is mapped to -phase norm e_top.
    v[top] += phase * norm;
    const R half = norm * (norm + head);  // |v|^2 / 2
    const auto reflect = [&](T* y) {
      T dot{};
      for (int h = top; h < height; ++h) dot += conj(v[h]) * y[h];
      dot /= half;
      for (int h = top; h < height; ++h) y[h] -= dot * v[h];
    };
    for (int q = p + 1; q < width; ++q) reflect(c.data() + std::size_t(q) * height);
    reflect(f.data());
    diagonal[p] = -phase * norm;
    row_of[p] = top++;
  }
  std::vector<T> m(width, T(0));
  for (int p = width; p-- > 0;) {
    if (row_of[p] < 0) continue;
    T sum = f[row_of[p]];
    for (int q = p + 1; q < width; ++q) sum -= c[std::size_t(q) * height + row_of[p]] * m[q];
    m[p] = sum * inverse(diagonal[p]);
  }
  return m;
}

/// g = y^H / sqrt(y_last) with A y = e_last, A width x width Hermitian, by rows; false when A is not positive definite.
template <Scalar T>
bool last_row_of_inverse_factor(std::vector<T>& a, int width, std::vector<T>& g) {
  using R = real_t<T>;
  // A = L L^H in place; A y = e_last means L^H y = e_last / l, l the last diagonal entry, and y_last = 1 / l^2.
  for (int i = 0; i < width; ++i) {
    T* const row = a.data() + std::size_t(i) * width;
    const R d = real(row[i]);
    for (int j = 0; j <= i; ++j) {
      const T* const other = a.data() + std::size_t(j) * width;
      T sum = row[j];
      for (int k = 0; k < j; ++k) sum -= row[k] * conj(other[k]);
      if (j < i) row[j] = sum / real(other[j]);
      else if (!(real(sum) > 10 * std::numeric_limits<R>::epsilon() * d)) return false;
      else row[i] = T(std::sqrt(real(sum)));
    }
  }
  // y / sqrt(y_last) = L^-H e_last.
  for (int i = width; i-- > 0;) {
    T sum = i == width - 1 ? T(1) : T(0);
    for (int k = i + 1; k < width; ++k) sum -= conj(a[std::size_t(k) * width + i]) * g[k];
    g[i] = sum / real(a[std::size_t(i) * width + i]);
  }
  for (T& v : g) v = conj(v);
  return true;
}

}  // namespace tacit::precond
