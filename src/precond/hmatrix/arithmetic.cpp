#include "block.hpp"
#include "pivots.hpp"

#include <tacit/base/lapack.hpp>
#include "base/small_products.hpp"
#include "exec/branches.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace tacit::precond::detail {
namespace {

using dense::add_product, dense::add_product_nt, dense::add_product_tn;

template <Scalar F>
real_t<F> norm2(const F* v, Local n) {
  real_t<F> sum(0);
  const auto* const p = reinterpret_cast<const real_t<F>*>(v);
#pragma omp simd reduction(+ : sum)
  for (Local i = 0; i < n * Local(sizeof(F) / sizeof(real_t<F>)); ++i) sum += p[i] * p[i];
  return sum;
}
// sum a_i b_i, or conj(a_i) b_i.
template <bool Conjugate, Scalar F>
F dot(const F* a, const F* b, Local n) {
  using R = real_t<F>;
  if constexpr (is_complex<F>) {
    R re(0), im(0);
#pragma omp simd reduction(+ : re, im)
    for (Local i = 0; i < n; ++i) {
      const R x = a[i].real(), y = Conjugate ? -a[i].imag() : a[i].imag();
      re += x * b[i].real() - y * b[i].imag();
      im += x * b[i].imag() + y * b[i].real();
    }
    return {re, im};
  } else {
    R sum(0);
#pragma omp simd reduction(+ : sum)
    for (Local i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
}
template <Scalar F>
void axpy(F alpha, const F* x, F* y, Local n) {
#pragma omp simd
  for (Local i = 0; i < n; ++i) y[i] += alpha * x[i];
}

// Y += alpha A X, A m x n, X of k columns.
template <Scalar F>
void times(const F* a, Local m, Local n, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  add_product(a, m, x, ldx, m, k, n, alpha, y, ldy);
}
// Y += alpha A^T X.
template <Scalar F>
void times_transposed(const F* a, Local m, Local n, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  add_product_tn(a, m, x, ldx, n, k, m, alpha, y, ldy);
}
// X := A X for square A.
template <Scalar F>
void multiply_by(const std::vector<F>& a, Local n, bool transposed, F* x, Local ldx, Local k) {
  std::vector<F> y(std::size_t(n) * std::size_t(k), F(0));
  if (transposed) times_transposed(a.data(), n, n, F(1), x, ldx, y.data(), n, k);
  else times(a.data(), n, n, F(1), x, ldx, y.data(), n, k);
  for (Local c = 0; c < k; ++c) std::copy_n(y.data() + std::size_t(c) * n, n, x + std::size_t(c) * ldx);
}

// Orthonormalises the dominant columns of a (m x n, overwritten) by Gram-Schmidt, the largest of the rest first: a = Q
// C + a rest of at most `relative` norm(a). Q overwrites the first k columns; C^T (n x k) is returned.
template <Scalar F>
std::vector<F> leading_columns(F* a, Local m, Local n, double relative, Local& k) {
  using R = real_t<F>;
  std::vector<R> left(static_cast<std::size_t>(n));
  std::vector<Local> place(static_cast<std::size_t>(n));
  double whole = 0;
  for (Local j = 0; j < n; ++j) {
    place[std::size_t(j)] = j;
    left[std::size_t(j)] = norm2(a + std::size_t(j) * m, m);
    whole += double(left[std::size_t(j)]);
  }
  const double enough = std::max(relative * relative, double(std::numeric_limits<R>::epsilon()) *
                                                          double(std::numeric_limits<R>::epsilon())) *
                        whole;
  std::vector<F> c;
  const Local most = std::min(m, n);
  for (k = 0; k < most; ++k) {
    double rest = 0;
    Local pivot = k;
    for (Local j = k; j < n; ++j) {
      rest += double(left[std::size_t(j)]);
      if (left[std::size_t(j)] > left[std::size_t(pivot)]) pivot = j;
    }
    if (!(rest > enough)) break;
    F *const q = a + std::size_t(k) * m, *const other = a + std::size_t(pivot) * m;
    if (pivot != k) {
      std::swap_ranges(q, q + m, other);
      std::swap(left[std::size_t(k)], left[std::size_t(pivot)]);
      std::swap(place[std::size_t(k)], place[std::size_t(pivot)]);
    }
    // Removes what rounding has brought back of the columns before.
    c.resize(std::size_t(k + 1) * n, F(0));
    F* const row = c.data() + std::size_t(k) * n;
    for (Local l = 0; l < k; ++l) {
      const F* const before = a + std::size_t(l) * m;
      const F again = dot<true>(before, q, m);
      axpy(F(-again), before, q, m);
      c[std::size_t(l) * n + place[std::size_t(k)]] += again;
    }
    const R size = std::sqrt(norm2(q, m));
    if (!(size > 0)) break;
    for (Local i = 0; i < m; ++i) q[i] *= R(1) / size;
    row[place[std::size_t(k)]] = F(size);
    left[std::size_t(k)] = 0;
    for (Local j = k + 1; j < n; ++j) {
      F* const column = a + std::size_t(j) * m;
      const F along = dot<true>(q, column, m);
      axpy(F(-along), q, column, m);
      row[place[std::size_t(j)]] = along;
      left[std::size_t(j)] = norm2(column, m);
    }
  }
  c.resize(std::size_t(k) * n);
  return c;
}

}  // namespace

// Runs both functions, on several threads where the blocks are large; done when it returns.
template <Scalar F>
template <class G, class H>
void HArithmetic<F>::together(bool large, G&& g, H&& h) const {
  if (large) return exec::both(g, h);
  g();
  h();
}

template <Scalar F>
void LowRank<F>::append(const F* u_from, Local ldu, const F* v_from, Local ldv, Local k, F scale) {
  const std::size_t at = std::size_t(rank);
  u.resize((at + std::size_t(k)) * std::size_t(rows));
  v.resize((at + std::size_t(k)) * std::size_t(columns));
  for (Local l = 0; l < k; ++l) {
    F* const to = u.data() + (at + std::size_t(l)) * std::size_t(rows);
    const F* const from = u_from + std::size_t(l) * ldu;
    for (Local i = 0; i < rows; ++i) to[i] = scale * from[i];
    std::copy_n(v_from + std::size_t(l) * ldv, columns, v.data() + (at + std::size_t(l)) * std::size_t(columns));
  }
  rank += k;
}

template <Scalar F>
void HArithmetic<F>::truncate(LowRank<F>& b) const {
  using R = real_t<F>;
  const Local m = b.rows, n = b.columns, r = b.rank;
  if (r == 0) return;
  // U = Q R by Gram-Schmidt; then the columns of V R^T that count: V R^T = W C, U V^T = (Q C^T) W^T.
  std::vector<F> w(std::size_t(n) * r, F(0));
  Local kept = 0;
  for (Local j = 0; j < r; ++j) {
    F* const column = b.u.data() + std::size_t(j) * m;
    const F* const vj = b.v.data() + std::size_t(j) * n;
    const R before = norm2(column, m);
    R after = before;
    for (int pass = 0; pass < 2; ++pass) {
      for (Local l = 0; l < kept; ++l) {
        const F* const q = b.u.data() + std::size_t(l) * m;
        const F c = dot<true>(q, column, m);
        axpy(F(-c), q, column, m);
        axpy(c, vj, w.data() + std::size_t(l) * n, n);
      }
      const R now = norm2(column, m);
      const bool lost = now < after / 16;
      after = now;
      if (!lost) break;
    }
    const R size = std::sqrt(after);
    if (!(size > 4 * std::numeric_limits<R>::epsilon() * std::sqrt(before)) || kept == std::min(m, r)) continue;
    F* const q = b.u.data() + std::size_t(kept) * m;
    for (Local i = 0; i < m; ++i) q[i] = column[i] * (R(1) / size);
    axpy(F(size), vj, w.data() + std::size_t(kept) * n, n);
    ++kept;
  }
  Local k = 0;
  const auto c = leading_columns(w.data(), n, kept, tolerance_, k);  // kept x k
  std::vector<F> u(std::size_t(m) * k, F(0));
  times(b.u.data(), m, kept, F(1), c.data(), kept, u.data(), m, k);
  b.u = std::move(u);
  w.resize(std::size_t(n) * k);
  b.v = std::move(w);
  b.rank = k;
}

template <Scalar F>
LowRank<F> HArithmetic<F>::compress(F* a, Local rows, Local columns) const {
  LowRank<F> b{rows, columns, 0, {}, {}};
  b.v = leading_columns(a, rows, columns, tolerance_, b.rank);
  b.u.assign(a, a + std::size_t(rows) * b.rank);
  return b;
}

template <Scalar F>
void HArithmetic<F>::add(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale) {
  if (k == 0 || c.rows == 0 || c.columns == 0) return;
  if (c.kind == HBlockKind::dense && k >= 8)
    return add_product_nt(u, ldu, v, ldv, c.rows, c.columns, k, scale, c.a, c.rows);
  auto& p = c.pending;
  p.rows = c.rows, p.columns = c.columns;
  p.append(u, ldu, v, ldv, k, scale);
  if (p.rank < c.pending_limit) return;
  if (c.is_cut()) {
    truncate(p);
    c.pending_limit = p.rank + 16;
  } else {
    flush(c);
  }
}

template <Scalar F>
void HArithmetic<F>::flush(Block& c) {
  auto& p = c.pending;
  if (p.rank == 0) return;
  if (c.kind == HBlockKind::dense) {
    add_product_nt(p.u.data(), c.rows, p.v.data(), c.columns, c.rows, c.columns, p.rank, F(1), c.a, c.rows);
  } else if (c.kind == HBlockKind::low) {
    c.low.append(p.u.data(), c.rows, p.v.data(), c.columns, p.rank, F(1));
    truncate(c.low);
    c.pending_limit = std::max<Local>(16, c.low.rank);
  } else {
    if (p.rank > 4) truncate(p);
    for (int i = 0; i < c.down; ++i)
      for (int j = 0; j < c.across; ++j) {
        Block& b = *c.child[i][j];
        add(b, p.u.data() + (b.row - c.row), c.rows, p.v.data() + (b.column - c.column), c.columns, p.rank, F(1));
      }
  }
  p = {};
}

template <Scalar F>
void HArithmetic<F>::apply(const Block& a, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) const {
  if (a.kind == HBlockKind::dense) return times(a.a, a.rows, a.columns, alpha, x, ldx, y, ldy, k);
  if (a.kind == HBlockKind::low) {
    const auto& low = a.low;
    if (low.rank == 0) return;
    std::vector<F> t(std::size_t(low.rank) * k, F(0));
    times_transposed(low.v.data(), a.columns, low.rank, F(1), x, ldx, t.data(), low.rank, k);
    times(low.u.data(), a.rows, low.rank, alpha, t.data(), low.rank, y, ldy, k);
    return;
  }
  const auto row = [&](int i) {
    for (int j = 0; j < a.across; ++j) {
      const Block& b = *a.child[i][j];
      apply(b, alpha, x + (b.column - a.column), ldx, y + (b.row - a.row), ldy, k);
    }
  };
  if (a.down == 1) row(0);
  else
    together(
        solve_divides(a), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void HArithmetic<F>::apply_transposed(const Block& a, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) const {
  if (a.kind == HBlockKind::dense) return times_transposed(a.a, a.rows, a.columns, alpha, x, ldx, y, ldy, k);
  if (a.kind == HBlockKind::low) {
    const auto& low = a.low;
    if (low.rank == 0) return;
    std::vector<F> t(std::size_t(low.rank) * k, F(0));
    times_transposed(low.u.data(), a.rows, low.rank, F(1), x, ldx, t.data(), low.rank, k);
    times(low.v.data(), a.columns, low.rank, alpha, t.data(), low.rank, y, ldy, k);
    return;
  }
  const auto column = [&](int j) {
    for (int i = 0; i < a.down; ++i) {
      const Block& b = *a.child[i][j];
      apply_transposed(b, alpha, x + (b.row - a.row), ldx, y + (b.column - a.column), ldy, k);
    }
  };
  if (a.across == 1) column(0);
  else
    together(
        solve_divides(a), [&] { column(0); }, [&] { column(1); });
}

template <Scalar F>
void HArithmetic<F>::subtract_product(const Block& a, const Block& b, Block& c) {
  if (failed_) return;
  using enum HBlockKind;
  if (a.kind == low) {
    if (a.low.rank == 0) return;
    std::vector<F> w(std::size_t(b.columns) * a.low.rank, F(0));
    apply_transposed(b, F(1), a.low.v.data(), a.columns, w.data(), b.columns, a.low.rank);
    return add(c, a.low.u.data(), a.rows, w.data(), b.columns, a.low.rank, F(-1));
  }
  if (b.kind == low) {
    if (b.low.rank == 0) return;
    std::vector<F> w(std::size_t(a.rows) * b.low.rank, F(0));
    apply(a, F(1), b.low.u.data(), b.rows, w.data(), a.rows, b.low.rank);
    return add(c, w.data(), a.rows, b.low.v.data(), b.columns, b.low.rank, F(-1));
  }
  if (c.kind == low) {
    const auto p = product(a, b);
    return add(c, p.u.data(), p.rows, p.v.data(), p.columns, p.rank, F(-1));
  }
  if (c.kind == dense && a.kind == dense && b.kind == dense)
    return times(a.a, a.rows, a.columns, F(-1), b.a, b.rows, c.a, c.rows, c.columns);
  const auto part = [&](int i, int j) {
    for (int l = 0; l < a.count_across(); ++l) subtract_product(a.at(i, l), b.at(l, j), c.at(i, j));
  };
  const auto row = [&](int i) {
    if (c.count_across() == 1) part(i, 0);
    else
      together(
          divides(c), [&] { part(i, 0); }, [&] { part(i, 1); });
  };
  if (c.count_down() == 1) row(0);
  else
    together(
        divides(c), [&] { row(0); }, [&] { row(1); });
}

// a b as a low-rank matrix, where neither a nor b is of low rank.
template <Scalar F>
LowRank<F> HArithmetic<F>::product(const Block& a, const Block& b) const {
  using enum HBlockKind;
  LowRank<F> whole{a.rows, b.columns, 0, {}, {}};
  if (a.kind == dense && b.kind == dense) {
    std::vector<F> c(std::size_t(a.rows) * b.columns, F(0));
    times(a.a, a.rows, a.columns, F(1), b.a, b.rows, c.data(), a.rows, b.columns);
    return compress(c.data(), a.rows, b.columns);
  }
  for (int i = 0; i < a.count_down(); ++i)
    for (int j = 0; j < b.count_across(); ++j) {
      LowRank<F> sum{a.at(i, 0).rows, b.at(0, j).columns, 0, {}, {}};
      for (int l = 0; l < a.count_across(); ++l) {
        const Block &p = a.at(i, l), &q = b.at(l, j);
        if (p.kind == low) {
          if (p.low.rank == 0) continue;
          std::vector<F> w(std::size_t(q.columns) * p.low.rank, F(0));
          apply_transposed(q, F(1), p.low.v.data(), p.columns, w.data(), q.columns, p.low.rank);
          sum.append(p.low.u.data(), p.rows, w.data(), q.columns, p.low.rank, F(1));
        } else if (q.kind == low) {
          if (q.low.rank == 0) continue;
          std::vector<F> w(std::size_t(p.rows) * q.low.rank, F(0));
          apply(p, F(1), q.low.u.data(), q.rows, w.data(), p.rows, q.low.rank);
          sum.append(w.data(), p.rows, q.low.v.data(), q.columns, q.low.rank, F(1));
        } else {
          const auto part = product(p, q);
          sum.append(part.u.data(), part.rows, part.v.data(), part.columns, part.rank, F(1));
        }
      }
      if (sum.rank == 0) continue;
      // Places the sum within the whole matrix, with zeros around it.
      const std::size_t at = std::size_t(whole.rank);
      whole.rank += sum.rank;
      whole.u.resize(std::size_t(whole.rank) * std::size_t(whole.rows), F(0));
      whole.v.resize(std::size_t(whole.rank) * std::size_t(whole.columns), F(0));
      const Local top = a.at(i, 0).row - a.row, left = b.at(0, j).column - b.column;
      for (std::size_t k = 0; k < std::size_t(sum.rank); ++k) {
        std::copy_n(sum.u.data() + k * std::size_t(sum.rows), sum.rows,
                    whole.u.data() + (at + k) * std::size_t(whole.rows) + top);
        std::copy_n(sum.v.data() + k * std::size_t(sum.columns), sum.columns,
                    whole.v.data() + (at + k) * std::size_t(whole.columns) + left);
      }
    }
  truncate(whole);
  return whole;
}

template <Scalar F>
void HArithmetic<F>::factorise(Block& d) {
  if (failed_) return;
  flush(d);
  if (!d.is_cut()) {
    const Local n = d.rows;
    const std::size_t height = std::size_t(n);
    d.pivots.resize(height);
    const Pivots found = factorise_replacing(d.a, n, d.pivots.data());
    if (!found.finite) failed_ = true;
    perturbed_ += found.replaced;
    d.inverse_l.assign(height * height, F(0)), d.inverse_u.assign(height * height, F(0));
    for (std::size_t i = 0; i < height; ++i) d.inverse_l[i * height + i] = d.inverse_u[i * height + i] = F(1);
    lapack::trsm('L', 'L', 'N', 'U', n, n, d.a, n, d.inverse_l.data(), n);
    lapack::trsm('L', 'U', 'N', 'N', n, n, d.a, n, d.inverse_u.data(), n);
    return;
  }
  Block &d11 = *d.child[0][0], &d12 = *d.child[0][1], &d21 = *d.child[1][0], &d22 = *d.child[1][1];
  factorise(d11);
  together(
      divides(d), [&] { solve_lower(d11, d12); }, [&] { solve_upper(d11, d21); });
  subtract_product(d21, d12, d22);
  factorise(d22);
}

// B := L^-1 B
template <Scalar F>
void HArithmetic<F>::solve_lower(const Block& l, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return lower(l, b.low.u.data(), b.rows, b.low.rank);
  if (b.kind == HBlockKind::dense) return lower(l, b.a, b.rows, b.columns);
  const auto column = [&](int j) {
    for (int i = 0; i < b.down; ++i) {
      for (int k = 0; k < i; ++k) subtract_product(l.at(i, k), *b.child[k][j], *b.child[i][j]);
      solve_lower(b.down == 1 ? l : l.at(i, i), *b.child[i][j]);
    }
  };
  if (b.across == 1) column(0);
  else
    together(
        divides(b), [&] { column(0); }, [&] { column(1); });
}

// B := B U^-1
template <Scalar F>
void HArithmetic<F>::solve_upper(const Block& u, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return upper_transposed(u, b.low.v.data(), b.columns, b.low.rank);
  if (b.kind == HBlockKind::dense) {
    std::vector<F> before(b.a, b.a + std::size_t(b.rows) * b.columns);
    std::fill_n(b.a, before.size(), F(0));
    return times(before.data(), b.rows, b.columns, F(1), u.inverse_u.data(), u.rows, b.a, b.rows, b.columns);
  }
  const auto row = [&](int i) {
    for (int j = 0; j < b.across; ++j) {
      for (int k = 0; k < j; ++k) subtract_product(*b.child[i][k], u.at(k, j), *b.child[i][j]);
      solve_upper(b.across == 1 ? u : u.at(j, j), *b.child[i][j]);
    }
  };
  if (b.down == 1) row(0);
  else
    together(
        divides(b), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void HArithmetic<F>::lower(const Block& l, F* x, Local ldx, Local k) const {
  if (k == 0) return;
  if (!l.is_cut()) {
    for (Local c = 0; c < k; ++c)
      for (Local i = 0; i < l.rows; ++i) {
        F* const column = x + std::size_t(c) * ldx;
        if (l.pivots[std::size_t(i)] != i) std::swap(column[i], column[l.pivots[std::size_t(i)]]);
      }
    return multiply_by(l.inverse_l, l.rows, false, x, ldx, k);
  }
  F* const below = x + l.child[0][0]->rows;
  lower(*l.child[0][0], x, ldx, k);
  apply(*l.child[1][0], F(-1), x, ldx, below, ldx, k);
  lower(*l.child[1][1], below, ldx, k);
}

template <Scalar F>
void HArithmetic<F>::lower_transposed(const Block& l, F* x, Local ldx, Local k) const {
  if (k == 0) return;
  if (!l.is_cut()) {
    multiply_by(l.inverse_l, l.rows, true, x, ldx, k);
    for (Local c = 0; c < k; ++c)
      for (Local i = l.rows; i-- > 0;) {
        F* const column = x + std::size_t(c) * ldx;
        if (l.pivots[std::size_t(i)] != i) std::swap(column[i], column[l.pivots[std::size_t(i)]]);
      }
    return;
  }
  F* const below = x + l.child[0][0]->rows;
  lower_transposed(*l.child[1][1], below, ldx, k);
  apply_transposed(*l.child[1][0], F(-1), below, ldx, x, ldx, k);
  lower_transposed(*l.child[0][0], x, ldx, k);
}

template <Scalar F>
void HArithmetic<F>::upper(const Block& u, F* x, Local ldx, Local k) const {
  if (k == 0) return;
  if (!u.is_cut()) return multiply_by(u.inverse_u, u.rows, false, x, ldx, k);
  F* const below = x + u.child[0][0]->rows;
  upper(*u.child[1][1], below, ldx, k);
  apply(*u.child[0][1], F(-1), below, ldx, x, ldx, k);
  upper(*u.child[0][0], x, ldx, k);
}

template <Scalar F>
void HArithmetic<F>::upper_transposed(const Block& u, F* x, Local ldx, Local k) const {
  if (k == 0) return;
  if (!u.is_cut()) return multiply_by(u.inverse_u, u.rows, true, x, ldx, k);
  F* const below = x + u.child[0][0]->rows;
  upper_transposed(*u.child[0][0], x, ldx, k);
  apply_transposed(*u.child[0][1], F(-1), x, ldx, below, ldx, k);
  upper_transposed(*u.child[1][1], below, ldx, k);
}

template <Scalar F>
void HArithmetic<F>::solve(const Block& lu, F* x, Local ldx, Local k) const {
  lower(lu, x, ldx, k);
  upper(lu, x, ldx, k);
}
template <Scalar F>
void HArithmetic<F>::solve_transposed(const Block& lu, F* x, Local ldx, Local k) const {
  upper_transposed(lu, x, ldx, k);
  lower_transposed(lu, x, ldx, k);
}

#define TACIT_INSTANTIATE(F)  \
  template struct LowRank<F>; \
  template class HArithmetic<F>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
