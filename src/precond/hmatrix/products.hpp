// Products of dense blocks, stored by columns: on vector registers where they are small, else by a BLAS.
#pragma once

#include <tacit/base/lapack.hpp>
#include "base/small_products.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tacit::precond::detail {

// Whether a BLAS, which packs its operands, is faster than products on registers: from 64 x 64 x 64 on at the latest.
inline bool large(Local rows, Local columns, Local depth, double enough) {
  return double(rows) * double(columns) * double(depth) >= enough;
}
constexpr double packed = 2.5e5, packed_transposed = 1e5;

/// Y += alpha A X, A m x n with leading dimension lda, X of k columns.
template <Scalar F>
void times(const F* a, Local lda, Local m, Local n, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  if (large(m, n, k, packed)) lapack::gemm('N', 'N', m, k, n, alpha, a, lda, x, ldx, F(1), y, ldy);
  else dense::add_product(a, lda, x, ldx, m, k, n, alpha, y, ldy);
}
/// Y += alpha A^T X, A m x n.
template <Scalar F>
void times_transposed(const F* a, Local lda, Local m, Local n, F alpha, const F* x, Local ldx, F* y, Local ldy,
                      Local k) {
  if (large(m, n, k, packed_transposed)) lapack::gemm('T', 'N', n, k, m, alpha, a, lda, x, ldx, F(1), y, ldy);
  else dense::add_product_tn(a, lda, x, ldx, n, k, m, alpha, y, ldy);
}
/// C += alpha U V^T, U rows x k, V columns x k; `op` 'C': conj(V) for V.
template <Scalar F>
void add_outer(const F* u, Local ldu, const F* v, Local ldv, Local rows, Local columns, Local k, F alpha, F* c,
               Local ldc, char op = 'T') {
  if ((is_complex<F> && op == 'C') || large(rows, columns, k, packed))
    lapack::gemm('N', op, rows, columns, k, alpha, u, ldu, v, ldv, F(1), c, ldc);
  else dense::add_product_nt(u, ldu, v, ldv, rows, columns, k, alpha, c, ldc);
}
template <Scalar F>
void conjugate(F* x, std::size_t count) {
  if constexpr (is_complex<F>)
    for (std::size_t i = 0; i < count; ++i) x[i] = conj(x[i]);
}

/// Columns of a panel: products with a triangle are made by panels, each with the rows that are not zero.
constexpr Local panel = 64;
/// f(first, count) for the panels of n columns; in descending order where `last_first`.
template <class G>
void each_panel(Local n, bool last_first, G&& f) {
  const Local count = (n + panel - 1) / panel;
  for (Local i = 0; i < count; ++i) {
    const Local first = (last_first ? count - 1 - i : i) * panel;
    f(first, std::min(panel, n - first));
  }
}

/// X := op(A) X, A an n x n triangle with zeros beside it, op(A) = A or A^T, X of k columns.
template <Scalar F>
void multiply_by_triangle(const std::vector<F>& a, Local n, bool lower, bool transposed, F* x, Local ldx, Local k) {
  std::vector<F> y(std::size_t(panel) * std::size_t(k));
  const bool from_top = lower != transposed;  // op(A) is a lower triangle: row i has the columns up to i
  each_panel(n, from_top, [&](Local first, Local count) {
    const Local begin = from_top ? 0 : first, depth = from_top ? first + count : n - first;
    std::fill_n(y.data(), std::size_t(count) * std::size_t(k), F(0));
    const auto at = [&](Local i, Local j) { return a.data() + std::size_t(i) + std::size_t(j) * std::size_t(n); };
    if (transposed) times_transposed(at(begin, first), n, depth, count, F(1), x + begin, ldx, y.data(), count, k);
    else times(at(first, begin), n, count, depth, F(1), x + begin, ldx, y.data(), count, k);
    for (Local c = 0; c < k; ++c)
      std::copy_n(y.data() + std::size_t(c) * std::size_t(count), count, x + std::size_t(c) * std::size_t(ldx) + first);
  });
}
/// B := B A, B of `rows` rows, A an n x n upper triangle with zeros below it; or B := B A^H for a lower one.
template <Scalar F>
void multiply_from_right(F* b, Local rows, const std::vector<F>& a, Local n, bool lower) {
  std::vector<F> y(std::size_t(rows) * panel);
  each_panel(n, true, [&](Local first, Local count) {
    const std::size_t numbers = std::size_t(rows) * std::size_t(count);
    std::fill_n(y.data(), numbers, F(0));
    if (lower) add_outer(b, rows, a.data() + first, n, rows, count, first + count, F(1), y.data(), rows, 'C');
    else
      times(b, rows, rows, first + count, F(1), a.data() + std::size_t(first) * std::size_t(n), n, y.data(), rows,
            count);
    std::copy_n(y.data(), numbers, b + std::size_t(first) * std::size_t(rows));
  });
}

}  // namespace tacit::precond::detail
