// Truncation of a small matrix by two pivoted orthogonalisations: G. W. Stewart, The QLP approximation to the singular
// value decomposition, SIAM J. Sci. Comput. 20 (1999), doi 10.1137/S1064827597319519.
#pragma once

#include "crosses.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace tacit::op::detail {

/// out[j] = q^H a_j for the columns of a (m x n). `room`: scratch.
template <Scalar T>
void project_columns(const T* a, Local m, Local n, const T* q, T* out, std::vector<real_t<T>>& room) {
  using R = real_t<T>;
  if constexpr (is_complex<T>) {  // Re and Im of q^H a_j: real sums with q, and with i q
    const std::size_t length = 2 * std::size_t(m);
    room.resize(2 * length + 2 * std::size_t(n));
    for (std::size_t i = 0; i < std::size_t(m); ++i) {
      room[2 * i] = q[i].real(), room[2 * i + 1] = q[i].imag();
      room[length + 2 * i] = -q[i].imag(), room[length + 2 * i + 1] = q[i].real();
    }
    R* const sums = room.data() + 2 * length;
    dots<R, R, 2>(reinterpret_cast<const R*>(a), std::ptrdiff_t(length), n, room.data(), std::ptrdiff_t(length), sums);
    for (std::size_t j = 0; j < std::size_t(n); ++j) out[j] = T(sums[2 * j], sums[2 * j + 1]);
  } else {
    dots<T, T, 1>(a, m, n, q, m, out);
  }
}

/// a (m x n by columns, overwritten) = Q C + a rest: Q is m x k with orthonormal columns, the first ones of a; C^H,
/// n x k, is returned. Columns are orthogonalised the largest first, until the rest has a norm (Frobenius, `left`) of
/// at most `allowed`, or is rounding. 2 m n k multiplications.
template <Scalar T>
std::vector<T> pivoted_columns(T* a, Local m, Local n, double allowed, Local& k, double& left) {
  const double rounding = double(std::numeric_limits<real_t<T>>::epsilon());
  const auto column = [&](Local j) { return a + std::size_t(j) * std::size_t(m); };
  // The squares of what is left of columns, and what they were when they were last computed anew.
  std::vector<double> rest(static_cast<std::size_t>(n)), known;
  std::vector<Local> place(static_cast<std::size_t>(n));
  std::iota(place.begin(), place.end(), Local(0));
  double whole = 0;
  for (Local j = 0; j < n; ++j) whole += rest[std::size_t(j)] = norm2(column(j), m);
  known = rest;
  const double enough = std::max(allowed * allowed, rounding * rounding * whole);
  std::vector<T> c, along(static_cast<std::size_t>(n));
  std::vector<real_t<T>> room;
  for (k = 0;; ++k) {
    double sum = 0;
    Local pivot = k;
    for (Local j = k; j < n; ++j) {
      sum += rest[std::size_t(j)];
      if (rest[std::size_t(j)] > rest[std::size_t(pivot)]) pivot = j;
    }
    left = std::sqrt(sum);
    if (!(sum > enough) || k == std::min(m, n)) return c;
    T* const q = column(k);
    if (pivot != k) {
      std::swap_ranges(q, q + m, column(pivot));
      for (auto* of : {&rest, &known}) std::swap((*of)[std::size_t(k)], (*of)[std::size_t(pivot)]);
      std::swap(place[std::size_t(k)], place[std::size_t(pivot)]);
    }
    c.resize(std::size_t(k + 1) * std::size_t(n), T(0));
    const auto entry = [&](Local l, Local j) -> T& {
      return c[std::size_t(l) * std::size_t(n) + std::size_t(place[std::size_t(j)])];
    };
    // What rounding has brought back of the columns before: Q^H q, the conjugates of q^H Q.
    project_columns(a, m, k, q, along.data(), room);
    for (Local l = 0; l < k; ++l)
      entry(l, k) += along[std::size_t(l)], along[std::size_t(l)] = conj(along[std::size_t(l)]);
    subtract(a, m, k, along.data(), q);
    const auto size = real_t<T>(std::sqrt(norm2(q, m)));
    if (!(size > 0)) return c;
    for (Local i = 0; i < m; ++i) q[i] /= size;
    entry(k, k) = T(size);
    project_columns(column(k + 1), m, n - k - 1, q, along.data(), room);
    for (Local j = k + 1; j < n; ++j) {
      const T by = along[std::size_t(j - k - 1)];
      axpy(-by, q, column(j), m);
      entry(k, j) = conj(by);
      double& square = rest[std::size_t(j)];
      square -= double(abs2(by));
      if (square <= std::sqrt(rounding) * known[std::size_t(j)]) square = known[std::size_t(j)] = norm2(column(j), m);
    }
  }
}

/// left diag(sigma) right^H: columns of length 1, those of `right` orthonormal and those of `left` nearly, sigma
/// descending.
template <Scalar T>
struct Truncated {
  Local rank = 0;
  std::vector<T> left, right;  ///< r x rank
  std::vector<real_t<T>> sigma;
  double error = 0;  ///< what was left out (Frobenius)
};

/// Truncates a (r x r, overwritten), to a rank that is rarely above that of the singular values: the first pivoted
/// orthogonalisation, of the columns, ends far below the tolerance; the second, of the rows of C, has nearly the
/// singular values on its diagonal. 5 r^2 k multiplications at most.
template <Scalar T>
Truncated<T> truncate_by_pivots(T* a, Local r, double allowed) {
  constexpr double first_share = 0.1;
  Truncated<T> made;
  Local k1 = 0, k = 0;
  double left1 = 0, left2 = 0;
  std::vector<T> rows = pivoted_columns(a, r, r, first_share * allowed, k1, left1);
  const double second = allowed > left1 ? std::sqrt((allowed - left1) * (allowed + left1)) : 0;
  std::vector<T> core = pivoted_columns(rows.data(), r, k1, second, k, left2);  // k1 x k
  made.rank = k;
  made.error = std::hypot(left1, left2);
  std::vector<T> left(std::size_t(r) * std::size_t(k));
  for (T& c : core) c = -c;
  for (Local l = 0; l < k; ++l)
    subtract(a, r, k1, core.data() + std::size_t(l) * std::size_t(k1), left.data() + std::size_t(l) * std::size_t(r));
  std::vector<double> size;
  std::vector<Local> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), Local(0));
  for (Local l = 0; l < k; ++l) size.push_back(std::sqrt(norm2(left.data() + std::size_t(l) * std::size_t(r), r)));
  std::stable_sort(order.begin(), order.end(),
                   [&](Local i, Local j) { return size[std::size_t(i)] > size[std::size_t(j)]; });
  for (const Local l : order) {
    const auto from = std::ptrdiff_t(l) * r;
    const auto inverse = real_t<T>(1 / size[std::size_t(l)]);
    made.sigma.push_back(real_t<T>(size[std::size_t(l)]));
    for (Local i = 0; i < r; ++i) made.left.push_back(left[std::size_t(from + i)] * inverse);
    made.right.insert(made.right.end(), rows.begin() + from, rows.begin() + from + r);
  }
  return made;
}

}  // namespace tacit::op::detail
