// Small dense matrices of block methods, as many rows and columns as right-hand sides: products, triangular solves, and
// a Cholesky factorisation that reveals the rank. The same on all ranks, from the same bits.
#pragma once

#include <tacit/base/lapack.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace tacit::krylov {

/// rows x columns, stored by rows.
template <Scalar W>
struct SmallMatrix {
  int rows = 0, columns = 0;
  std::vector<W> values;

  SmallMatrix() = default;
  SmallMatrix(int m, int n) : rows(m), columns(n), values(std::size_t(m) * std::size_t(n)) {}
  static SmallMatrix identity(int n) {
    SmallMatrix a(n, n);
    for (int i = 0; i < n; ++i) a(i, i) = W(1);
    return a;
  }
  W& operator()(int i, int j) { return values[std::size_t(i) * std::size_t(columns) + std::size_t(j)]; }
  const W& operator()(int i, int j) const { return values[std::size_t(i) * std::size_t(columns) + std::size_t(j)]; }
  bool empty() const { return values.empty(); }
  bool finite() const {
    return std::all_of(values.begin(), values.end(), [](const W& v) { return is_finite(v); });
  }
};

/// A B. BLAS sees matrices that are stored by rows as their transposes.
template <Scalar W>
SmallMatrix<W> operator*(const SmallMatrix<W>& a, const SmallMatrix<W>& b) {
  SmallMatrix<W> c(a.rows, b.columns);
  if (!c.empty() && a.columns > 0)
    lapack::gemm('N', 'N', b.columns, a.rows, a.columns, W(1), b.values.data(), b.columns, a.values.data(), a.columns,
                 W(0), c.values.data(), c.columns);
  return c;
}
template <Scalar W>
SmallMatrix<W> minus(SmallMatrix<W> a) {
  for (W& v : a.values) v = -v;
  return a;
}
/// A^H
template <Scalar W>
SmallMatrix<W> adjoint(const SmallMatrix<W>& a) {
  SmallMatrix<W> b(a.columns, a.rows);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.columns; ++j) b(j, i) = conj(a(i, j));
  return b;
}
/// The columns `kept`, in this order.
template <Scalar W>
SmallMatrix<W> columns_of(const SmallMatrix<W>& a, const std::vector<int>& kept) {
  SmallMatrix<W> b(a.rows, int(kept.size()));
  for (int i = 0; i < b.rows; ++i)
    for (int j = 0; j < b.columns; ++j) b(i, j) = a(i, kept[std::size_t(j)]);
  return b;
}
/// A^-H B of a regular A.
template <Scalar W>
SmallMatrix<W> solve_adjoint(const SmallMatrix<W>& a, const SmallMatrix<W>& b) {
  const int n = a.rows, k = b.columns;
  std::vector<W> lu(a.values), x(std::size_t(n) * std::size_t(k));  // by columns, as LAPACK has them
  for (W& v : lu) v = conj(v);                                      // A by rows, conjugated: A^H by columns
  std::vector<int> pivots(static_cast<std::size_t>(n));
  lapack::lu(lu.data(), n, n, pivots.data());
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) x[std::size_t(j) * std::size_t(n) + std::size_t(i)] = b(i, j);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j)
      std::swap(x[std::size_t(j) * std::size_t(n) + std::size_t(i)],
                x[std::size_t(j) * std::size_t(n) + std::size_t(pivots[std::size_t(i)])]);
  lapack::trsm('L', 'L', 'N', 'U', n, k, lu.data(), n, x.data(), n);
  lapack::trsm('L', 'U', 'N', 'N', n, k, lu.data(), n, x.data(), n);
  SmallMatrix<W> y(n, k);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) y(i, j) = x[std::size_t(j) * std::size_t(n) + std::size_t(i)];
  return y;
}

/// G = C^H C of a Hermitian positive semidefinite G, by a Cholesky factorisation with diagonal pivots.
template <Scalar W>
struct GramFactor {
  SmallMatrix<W> C;         ///< rank x n
  SmallMatrix<W> triangle;  ///< its columns `kept`, upper triangular
  std::vector<int> kept;    ///< independent columns, in the order of their pivots; the others are combinations of them
  double least = 1;         ///< the smallest pivot of D^-1/2 G D^-1/2, D = diag(G): 0 for dependent columns, at most 1
  double negative = 0;      ///< a diagonal element or pivot that is negative beyond `tiny`: G is not semidefinite

  int rank() const { return int(kept.size()); }
};

/// `tiny`: pivots up to it, relative to the diagonal of G, are rounding errors. G is finite. Local; n^3 / 3 operations.
template <Scalar W>
GramFactor<W> factor(const SmallMatrix<W>& G, double tiny) {
  const int n = G.rows;
  GramFactor<W> f;
  std::vector<double> size(static_cast<std::size_t>(n)), left(size);  // the lengths; what is left of a unit diagonal
  std::vector<bool> taken(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    const double square = real(G(i, i));
    f.negative = std::min(f.negative, square);
    size[std::size_t(i)] = std::sqrt(std::max(square, 0.0));
    left[std::size_t(i)] = square > 0 ? 1 : 0;
  }
  std::vector<std::vector<W>> rows;
  for (;;) {
    const int p = int(std::max_element(left.begin(), left.end()) - left.begin());
    if (n == 0 || !(left[std::size_t(p)] > tiny)) break;
    const double pivot = std::sqrt(left[std::size_t(p)]);
    f.least = std::min(f.least, left[std::size_t(p)]);
    std::vector<W> row(static_cast<std::size_t>(n));
    for (int j = 0; j < n; ++j) {
      if (taken[std::size_t(j)] || size[std::size_t(j)] == 0) continue;
      W h = j == p ? W(1) : G(p, j) / W(size[std::size_t(p)] * size[std::size_t(j)]);
      for (const auto& before : rows) h -= conj(before[std::size_t(p)]) * before[std::size_t(j)];
      row[std::size_t(j)] = j == p ? W(pivot) : h / W(pivot);
      left[std::size_t(j)] -= abs2(row[std::size_t(j)]);
    }
    taken[std::size_t(p)] = true;
    left[std::size_t(p)] = -std::numeric_limits<double>::infinity();
    f.kept.push_back(p);
    rows.push_back(std::move(row));
  }
  for (int i = 0; i < n; ++i)
    if (!taken[std::size_t(i)] && left[std::size_t(i)] < -tiny)
      f.negative = std::min(f.negative, left[std::size_t(i)] * size[std::size_t(i)] * size[std::size_t(i)]);
  f.C = SmallMatrix<W>(f.rank(), n);
  for (int i = 0; i < f.rank(); ++i)
    for (int j = 0; j < n; ++j) f.C(i, j) = rows[std::size_t(i)][std::size_t(j)] * W(size[std::size_t(j)]);
  f.triangle = columns_of(f.C, f.kept);
  return f;
}

/// G^-1 Y of the G that was factorised, with full rank.
template <Scalar W>
SmallMatrix<W> solve(const GramFactor<W>& f, const SmallMatrix<W>& y) {
  const int n = f.rank(), k = y.columns;
  SmallMatrix<W> t(n, k), x(n, k);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) t(i, j) = y(f.kept[std::size_t(i)], j);
  // R by rows is L = R^T by columns, and t its transpose: t^T (R^-H)^T = t^T L^-H, and so on.
  lapack::trsm('R', 'L', 'C', 'N', k, n, f.triangle.values.data(), n, t.values.data(), k);
  lapack::trsm('R', 'L', 'N', 'N', k, n, f.triangle.values.data(), n, t.values.data(), k);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < k; ++j) x(f.kept[std::size_t(i)], j) = t(i, j);
  return x;
}

/// The n x rank matrix E with U E = W for U = W C: the inverse of the triangle, and rows of zeros for columns that were
/// not kept.
template <Scalar W>
SmallMatrix<W> inverse(const GramFactor<W>& f) {
  const int r = f.rank();
  auto one = SmallMatrix<W>::identity(r);
  SmallMatrix<W> e(f.C.columns, r);
  // R by rows is R^T by columns.
  lapack::trsm('L', 'L', 'N', 'N', r, r, f.triangle.values.data(), r, one.values.data(), r);
  for (int i = 0; i < r; ++i)
    for (int j = 0; j < r; ++j) e(f.kept[std::size_t(i)], j) = one(i, j);
  return e;
}

}  // namespace tacit::krylov
