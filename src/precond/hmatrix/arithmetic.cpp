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
template <Scalar F>
double norm2_of(const F* v, std::size_t count) {
  double sum = 0;
  for (std::size_t at = 0; at < count; at += 4096)
    sum += double(norm2(v + at, Local(std::min<std::size_t>(4096, count - at))));
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

// Whether a BLAS, which packs its operands, is faster than products on registers.
bool large(Local rows, Local columns, Local depth, double enough) {
  return double(rows) * double(columns) * double(depth) >= enough;
}
constexpr double packed = 4e6, packed_transposed = 1e5;

// Y += alpha A X, A m x n, X of k columns.
template <Scalar F>
void times(const F* a, Local m, Local n, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  if (large(m, n, k, packed)) lapack::gemm('N', 'N', m, k, n, alpha, a, m, x, ldx, F(1), y, ldy);
  else add_product(a, m, x, ldx, m, k, n, alpha, y, ldy);
}
// Y += alpha A^T X.
template <Scalar F>
void times_transposed(const F* a, Local m, Local n, F alpha, const F* x, Local ldx, F* y, Local ldy, Local k) {
  if (large(m, n, k, packed_transposed)) lapack::gemm('T', 'N', n, k, m, alpha, a, m, x, ldx, F(1), y, ldy);
  else add_product_tn(a, m, x, ldx, n, k, m, alpha, y, ldy);
}
// C += alpha U V^T, U rows x k, V columns x k; `op` 'C': conj(V) for V.
template <Scalar F>
void add_outer(const F* u, Local ldu, const F* v, Local ldv, Local rows, Local columns, Local k, F alpha, F* c,
               Local ldc, char op = 'T') {
  if ((is_complex<F> && op == 'C') || large(rows, columns, k, packed))
    lapack::gemm('N', op, rows, columns, k, alpha, u, ldu, v, ldv, F(1), c, ldc);
  else add_product_nt(u, ldu, v, ldv, rows, columns, k, alpha, c, ldc);
}
template <Scalar F>
void conjugate(F* x, std::size_t count) {
  if constexpr (is_complex<F>)
    for (std::size_t i = 0; i < count; ++i) x[i] = conj(x[i]);
}
// X := A X for square A.
template <Scalar F>
void multiply_by(const std::vector<F>& a, Local n, bool transposed, F* x, Local ldx, Local k) {
  std::vector<F> y(std::size_t(n) * std::size_t(k), F(0));
  if (transposed) times_transposed(a.data(), n, n, F(1), x, ldx, y.data(), n, k);
  else times(a.data(), n, n, F(1), x, ldx, y.data(), n, k);
  for (Local c = 0; c < k; ++c) std::copy_n(y.data() + std::size_t(c) * n, n, x + std::size_t(c) * ldx);
}

// a (m x n, overwritten) = Q C + a rest of at most `relative` norm(a), Q with k orthonormal columns, in the first
// columns of a; C^T (n x k) is returned. By Gram-Schmidt, the largest of the rest first.
template <Scalar F>
std::vector<F> largest_columns(F* a, Local m, Local n, double relative, Local& k) {
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

// Random numbers in (-1, 1), the same ones in every run.
template <Scalar F>
void fill_randomly(std::vector<F>& numbers, std::uint64_t& state) {
  for (F& v : numbers) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = F(real_t<F>(double(std::int64_t(state)) * 0x1p-63));
  }
}

// The first step of leading_columns(): Q and C^T of at most `most` columns, `some` at a time, until the rest of a in
// the Frobenius norm squared, which is returned, is at most `enough`.
template <Scalar F>
double random_columns(F* a, Local m, Local n, double enough, std::vector<F>& q, std::vector<F>& c) {
  constexpr Local some = 16;
  constexpr char adjoint = is_complex<F> ? 'C' : 'T';
  const Local most = std::min(m, n);
  const std::size_t height = std::size_t(m), width = std::size_t(n);
  std::vector<F> random(width * some), y, along, part, triangle;
  std::uint64_t state = 1;
  double rest = norm2_of(a, height * width);
  for (Local k = 0; rest > enough && k < most;) {
    const Local now = std::min(some, most - k);
    fill_randomly(random, state);
    y.assign(height * std::size_t(now), F(0));
    times(a, m, n, F(1), random.data(), n, y.data(), m, now);
    if (k > 0) {  // what rounding has brought back of the columns before
      along.resize(std::size_t(k) * std::size_t(now));
      lapack::gemm(adjoint, 'N', k, now, m, F(1), q.data(), m, y.data(), m, F(0), along.data(), k);
      times(q.data(), m, k, F(-1), along.data(), k, y.data(), m, now);
    }
    lapack::householder_qr<F>(y, m, now, triangle);
    part.resize(std::size_t(now) * width);
    lapack::gemm(adjoint, 'N', now, n, m, F(1), y.data(), m, a, m, F(0), part.data(), now);
    times(y.data(), m, now, F(-1), part.data(), now, a, m, n);
    q.insert(q.end(), y.begin(), y.end());
    c.resize(c.size() + std::size_t(now) * width);
    for (std::size_t l = 0; l < std::size_t(now); ++l)
      for (std::size_t j = 0; j < width; ++j) c[(std::size_t(k) + l) * width + j] = part[j * std::size_t(now) + l];
    rest = norm2_of(a, height * width);
    k += now;
  }
  return rest;
}

// As largest_columns(), for a large matrix by products with random combinations of its columns, whose part of a is then
// subtracted (Martinsson, Voronin 2016, doi 10.1137/15M1026080). These are a few more columns than are needed, and are
// cut among themselves.
template <Scalar F>
std::vector<F> leading_columns(F* a, Local m, Local n, double relative, Local& k) {
  if (std::min(m, n) <= 64) return largest_columns(a, m, n, relative, k);
  const double whole = norm2_of(a, std::size_t(m) * std::size_t(n)), eps = std::numeric_limits<real_t<F>>::epsilon(),
               allowed = std::max(relative * relative, 64 * eps * eps) * whole;
  std::vector<F> q, c, triangle;
  const double rest = random_columns(a, m, n, allowed / 9, q, c);
  const Local found = Local(q.size() / std::size_t(m));
  k = 0;
  if (found == 0) return c;
  lapack::householder_qr<F>(c, n, found, triangle);  // a = Q R^T P^T
  std::vector<F> core(triangle.size());
  for (std::size_t j = 0; j < std::size_t(found); ++j)
    for (std::size_t i = 0; i < std::size_t(found); ++i)
      core[j * std::size_t(found) + i] = triangle[i * std::size_t(found) + j];
  const auto d = largest_columns(core.data(), found, found, std::sqrt(std::max(allowed - rest, 0.0) / whole), k);
  std::fill_n(a, std::size_t(m) * std::size_t(k), F(0));
  times(q.data(), m, found, F(1), core.data(), found, a, m, k);
  std::vector<F> turned(std::size_t(n) * std::size_t(k), F(0));
  times(c.data(), n, found, F(1), d.data(), found, turned.data(), n, k);
  return turned;
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
void LowRank<F>::append_within(const LowRank& part, Local row, Local column) {
  const std::size_t at = std::size_t(rank), height = std::size_t(rows), width = std::size_t(columns);
  rank += part.rank;
  u.resize(std::size_t(rank) * height, F(0)), v.resize(std::size_t(rank) * width, F(0));
  for (std::size_t k = 0; k < std::size_t(part.rank); ++k) {
    std::copy_n(part.u.data() + k * std::size_t(part.rows), part.rows, u.data() + (at + k) * height + row);
    std::copy_n(part.v.data() + k * std::size_t(part.columns), part.columns, v.data() + (at + k) * width + column);
  }
}

template <Scalar F>
void HArithmetic<F>::truncate(LowRank<F>& b) const {
  const Local m = b.rows, n = b.columns, r = b.rank;
  if (r == 0) return;
  if (r >= std::min(m, n)) {
    std::vector<F> a(std::size_t(m) * std::size_t(n), F(0));
    add_outer(b.u.data(), m, b.v.data(), n, m, n, r, F(1), a.data(), m);
    b = compress(a.data(), m, n);
    return;
  }
  // U = Q R, V = P S; then the leading columns of R S^T = G C: U V^T = (Q G) (P C^T)^T.
  std::vector<F> left, right, core(std::size_t(r) * std::size_t(r), F(0));
  lapack::householder_qr<F>(b.u, m, r, left);
  lapack::householder_qr<F>(b.v, n, r, right);
  add_outer(left.data(), r, right.data(), r, r, r, r, F(1), core.data(), r);
  Local k = 0;
  const auto c = leading_columns(core.data(), r, r, tolerance_, k);
  std::vector<F> u(std::size_t(m) * std::size_t(k), F(0)), v(std::size_t(n) * std::size_t(k), F(0));
  times(b.u.data(), m, r, F(1), core.data(), r, u.data(), m, k);
  times(b.v.data(), n, r, F(1), c.data(), r, v.data(), n, k);
  b.u = std::move(u), b.v = std::move(v), b.rank = k;
}

template <Scalar F>
LowRank<F> HArithmetic<F>::compress(F* a, Local rows, Local columns) const {
  LowRank<F> b{rows, columns, 0, {}, {}};
  b.v = leading_columns(a, rows, columns, tolerance_, b.rank);
  b.u.assign(a, a + std::size_t(rows) * b.rank);
  return b;
}

// A truncation of the sum of a block of m x n and rank k with as many pending terms takes some 32 (m + n) k^2
// operations, a dense update 2 m n k, and the truncation of a dense matrix, once, 6 m n k.
template <Scalar F>
bool HArithmetic<F>::sums_densely(Block& c) {
  if (c.kind != HBlockKind::low) return false;
  if (!c.sum.empty()) return true;
  constexpr Local part = 12;
  if (part * c.low.rank < std::min(c.rows, c.columns)) return false;
  c.sum.assign(std::size_t(c.rows) * std::size_t(c.columns), F(0));
  return true;
}

template <Scalar F>
void HArithmetic<F>::add(Block& c, const F* u, Local ldu, const F* v, Local ldv, Local k, F scale) {
  if (k == 0 || c.rows == 0 || c.columns == 0) return;
  if (c.kind == HBlockKind::dense && k >= 8) return add_outer(u, ldu, v, ldv, c.rows, c.columns, k, scale, c.a, c.rows);
  if (k >= 8 && sums_densely(c)) return add_outer(u, ldu, v, ldv, c.rows, c.columns, k, scale, c.sum.data(), c.rows);
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
  if (!c.sum.empty()) {
    add_outer(c.low.u.data(), c.rows, c.low.v.data(), c.columns, c.rows, c.columns, c.low.rank, F(1), c.sum.data(),
              c.rows);
    add_outer(p.u.data(), c.rows, p.v.data(), c.columns, c.rows, c.columns, p.rank, F(1), c.sum.data(), c.rows);
    c.low = compress(c.sum.data(), c.rows, c.columns);
    c.sum = {}, p = {};
    return;
  }
  if (p.rank == 0) return;
  if (c.kind == HBlockKind::dense) {
    add_outer(p.u.data(), c.rows, p.v.data(), c.columns, c.rows, c.columns, p.rank, F(1), c.a, c.rows);
  } else if (c.kind == HBlockKind::low) {
    c.low.append(p.u.data(), c.rows, p.v.data(), c.columns, p.rank, F(1));
    truncate(c.low);
    c.pending_limit = std::max<Local>(16, c.low.rank);
  } else {
    if (p.rank > 4) truncate(p);
    for (int i = 0; i < c.down; ++i)
      for (int j = 0; j < c.across; ++j) {
        if (!c.child[i][j]) continue;  // above the diagonal
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

namespace {

// op(b) = b, or b^H: its children, its number of columns, and op(b) = U V^T of a block of low rank.
template <bool Adjoint, Scalar F>
const HBlock<F>& part_of(const HBlock<F>& b, int l, int j) {
  return Adjoint ? b.at(j, l) : b.at(l, j);
}
template <bool Adjoint, Scalar F>
int count_across(const HBlock<F>& b) {
  return Adjoint ? b.count_down() : b.count_across();
}
template <bool Adjoint, Scalar F>
Local columns_of(const HBlock<F>& b) {
  return Adjoint ? b.rows : b.columns;
}
template <bool Adjoint, Scalar F>
LowRank<F> low_of(const HBlock<F>& b) {
  if constexpr (!Adjoint) return b.low;
  LowRank<F> low{b.columns, b.rows, b.low.rank, b.low.v, b.low.u};
  conjugate(low.u.data(), low.u.size()), conjugate(low.v.data(), low.v.size());
  return low;
}

}  // namespace

// W = op(b)^T V for V (k columns, by columns).
template <Scalar F>
template <bool Adjoint>
std::vector<F> HArithmetic<F>::turned_times(const Block& b, const std::vector<F>& v, Local k) const {
  const Local depth = Adjoint ? b.columns : b.rows, height = columns_of<Adjoint>(b);
  std::vector<F> w(std::size_t(height) * std::size_t(k), F(0));
  if constexpr (Adjoint) {  // (b^H)^T V = conj(b conj(V))
    std::vector<F> x = v;
    conjugate(x.data(), x.size());
    apply(b, F(1), x.data(), depth, w.data(), height, k);
    conjugate(w.data(), w.size());
  } else {
    apply_transposed(b, F(1), v.data(), depth, w.data(), height, k);
  }
  return w;
}

// a op(b) = U V^T, where one of them is of low rank.
template <Scalar F>
template <bool Adjoint>
LowRank<F> HArithmetic<F>::low_product(const Block& a, const Block& b) const {
  if (a.kind == HBlockKind::low) {
    const Local k = a.low.rank;
    return {a.rows, columns_of<Adjoint>(b), k, a.low.u, turned_times<Adjoint>(b, a.low.v, k)};
  }
  LowRank<F> low = low_of<Adjoint>(b);
  std::vector<F> w(std::size_t(a.rows) * std::size_t(low.rank), F(0));
  apply(a, F(1), low.u.data(), a.columns, w.data(), a.rows, low.rank);
  return {a.rows, columns_of<Adjoint>(b), low.rank, std::move(w), std::move(low.v)};
}

template <Scalar F>
template <bool Adjoint>
void HArithmetic<F>::subtract_product(const Block& a, const Block& b, Block& c) {
  if (failed_) return;
  using enum HBlockKind;
  if (c.kind == low && a.kind == dense && b.kind == dense && sums_densely(c)) {
    if constexpr (Adjoint)
      add_outer(a.a, a.rows, b.a, b.rows, a.rows, b.rows, a.columns, F(-1), c.sum.data(), c.rows, 'C');
    else times(a.a, a.rows, a.columns, F(-1), b.a, b.rows, c.sum.data(), c.rows, c.columns);
    return;
  }
  if (a.kind == low || b.kind == low || c.kind == low) {
    const auto p = a.kind == low || b.kind == low ? low_product<Adjoint>(a, b) : product<Adjoint>(a, b);
    return add(c, p.u.data(), p.rows, p.v.data(), p.columns, p.rank, F(-1));
  }
  if (c.kind == dense && a.kind == dense && b.kind == dense) {
    if constexpr (Adjoint) add_outer(a.a, a.rows, b.a, b.rows, a.rows, b.rows, a.columns, F(-1), c.a, c.rows, 'C');
    else times(a.a, a.rows, a.columns, F(-1), b.a, b.rows, c.a, c.rows, c.columns);
    return;
  }
  const auto part = [&](int i, int j) {
    for (int l = 0; l < a.count_across(); ++l)
      subtract_product<Adjoint>(a.at(i, l), part_of<Adjoint>(b, l, j), c.at(i, j));
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

// a op(b) as a low-rank matrix, where neither a nor b is of low rank.
template <Scalar F>
template <bool Adjoint>
LowRank<F> HArithmetic<F>::product(const Block& a, const Block& b) const {
  using enum HBlockKind;
  LowRank<F> whole{a.rows, columns_of<Adjoint>(b), 0, {}, {}};
  if (a.kind == dense && b.kind == dense) {
    std::vector<F> c(std::size_t(whole.rows) * std::size_t(whole.columns), F(0));
    if constexpr (Adjoint) add_outer(a.a, a.rows, b.a, b.rows, a.rows, b.rows, a.columns, F(1), c.data(), a.rows, 'C');
    else times(a.a, a.rows, a.columns, F(1), b.a, b.rows, c.data(), a.rows, b.columns);
    return compress(c.data(), whole.rows, whole.columns);
  }
  for (int i = 0; i < a.count_down(); ++i)
    for (int j = 0; j < count_across<Adjoint>(b); ++j) {
      const Block& first = part_of<Adjoint>(b, 0, j);
      LowRank<F> sum{a.at(i, 0).rows, columns_of<Adjoint>(first), 0, {}, {}};
      for (int l = 0; l < a.count_across(); ++l) {
        const Block &p = a.at(i, l), &q = part_of<Adjoint>(b, l, j);
        const auto part = p.kind == low || q.kind == low ? low_product<Adjoint>(p, q) : product<Adjoint>(p, q);
        sum.append(part.u.data(), part.rows, part.v.data(), part.columns, part.rank, F(1));
      }
      whole.append_within(sum, a.at(i, 0).row - a.row, Adjoint ? first.row - b.row : first.column - b.column);
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
  subtract_product<false>(d21, d12, d22);
  factorise(d22);
}

template <Scalar F>
void HArithmetic<F>::factorise_hermitian(Block& d) {
  if (failed_) return;
  flush(d);
  if (!d.is_cut()) {
    const Local n = d.rows;
    const std::size_t height = std::size_t(n);
    if (!lapack::cholesky(d.a, n, n)) failed_ = true;
    for (std::size_t i = 0; i < height; ++i) {
      if (!is_finite(d.a[i * height + i])) failed_ = true;
      std::fill_n(d.a + i * height, i, F(0));
    }
    d.inverse_l.assign(height * height, F(0));
    for (std::size_t i = 0; i < height; ++i) d.inverse_l[i * height + i] = F(1);
    if (!failed_) lapack::trsm('L', 'L', 'N', 'N', n, n, d.a, n, d.inverse_l.data(), n);
    return;
  }
  Block &d11 = *d.child[0][0], &d21 = *d.child[1][0], &d22 = *d.child[1][1];
  factorise_hermitian(d11);
  solve_adjoint(d11, d21);
  subtract_square(d21, d22);
  factorise_hermitian(d22);
}

template <Scalar F>
void HArithmetic<F>::subtract_square(const Block& a, Block& c) {
  if (failed_) return;
  if (a.kind == HBlockKind::low || !c.is_cut()) return subtract_product<true>(a, a, c);
  const auto square = [&](int i) {
    for (int l = 0; l < a.count_across(); ++l) subtract_square(a.at(i, l), *c.child[i][i]);
  };
  const auto below = [&] {
    for (int l = 0; l < a.count_across(); ++l) subtract_product<true>(a.at(1, l), a.at(0, l), *c.child[1][0]);
  };
  together(divides(c), below, [&] {
    together(
        divides(c), [&] { square(0); }, [&] { square(1); });
  });
}

template <Scalar F>
void HArithmetic<F>::solve_adjoint(const Block& l, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) {  // V^T L^-H = (conj(L^-1 conj(V)))^T
    conjugate(b.low.v.data(), b.low.v.size());
    lower(l, b.low.v.data(), b.columns, b.low.rank);
    return conjugate(b.low.v.data(), b.low.v.size());
  }
  if (b.kind == HBlockKind::dense) {
    std::vector<F> before(b.a, b.a + std::size_t(b.rows) * std::size_t(b.columns));
    std::fill_n(b.a, before.size(), F(0));
    return add_outer(before.data(), b.rows, l.inverse_l.data(), l.rows, b.rows, b.columns, b.columns, F(1), b.a, b.rows,
                     'C');
  }
  const auto row = [&](int i) {
    for (int j = 0; j < b.across; ++j) {
      for (int k = 0; k < j; ++k) subtract_product<true>(*b.child[i][k], l.at(j, k), *b.child[i][j]);
      solve_adjoint(b.across == 1 ? l : l.at(j, j), *b.child[i][j]);
    }
  };
  if (b.down == 1) row(0);
  else
    together(
        divides(b), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void HArithmetic<F>::solve_lower(const Block& l, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return lower(l, b.low.u.data(), b.rows, b.low.rank);
  if (b.kind == HBlockKind::dense) return lower(l, b.a, b.rows, b.columns);
  const auto column = [&](int j) {
    for (int i = 0; i < b.down; ++i) {
      for (int k = 0; k < i; ++k) subtract_product<false>(l.at(i, k), *b.child[k][j], *b.child[i][j]);
      solve_lower(b.down == 1 ? l : l.at(i, i), *b.child[i][j]);
    }
  };
  if (b.across == 1) column(0);
  else
    together(
        divides(b), [&] { column(0); }, [&] { column(1); });
}

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
      for (int k = 0; k < j; ++k) subtract_product<false>(*b.child[i][k], u.at(k, j), *b.child[i][j]);
      solve_upper(b.across == 1 ? u : u.at(j, j), *b.child[i][j]);
    }
  };
  if (b.down == 1) row(0);
  else
    together(
        divides(b), [&] { row(0); }, [&] { row(1); });
}

template <Scalar F>
void HArithmetic<F>::solve_upper_left(const Block& u, Block& b) {
  if (failed_) return;
  flush(b);
  if (b.kind == HBlockKind::low) return upper(u, b.low.u.data(), b.rows, b.low.rank);
  if (b.kind == HBlockKind::dense) return upper(u, b.a, b.rows, b.columns);
  const auto column = [&](int j) {
    for (int i = b.down; i-- > 0;) {
      for (int k = i + 1; k < b.down; ++k) subtract_product<false>(u.at(i, k), *b.child[k][j], *b.child[i][j]);
      solve_upper_left(b.down == 1 ? u : u.at(i, i), *b.child[i][j]);
    }
  };
  if (b.across == 1) column(0);
  else
    together(
        divides(b), [&] { column(0); }, [&] { column(1); });
}

template <Scalar F>
void HArithmetic<F>::finish(Block& b) {
  flush(b);
  if (!b.is_cut()) return;
  for (int i = 0; i < b.down; ++i)
    for (int j = 0; j < b.across; ++j)
      if (b.child[i][j]) finish(*b.child[i][j]);
}

template <Scalar F>
void HArithmetic<F>::lower(const Block& l, F* x, Local ldx, Local k) const {
  if (k == 0) return;
  if (!l.is_cut()) {
    for (Local c = 0; c < k; ++c)
      for (Local i = 0; i < Local(l.pivots.size()); ++i) {
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
      for (Local i = Local(l.pivots.size()); i-- > 0;) {
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
void HArithmetic<F>::solve_hermitian(const Block& l, F* x, Local ldx, Local k) const {
  const auto turn = [&] {
    for (Local c = 0; c < k; ++c) conjugate(x + std::size_t(c) * std::size_t(ldx), std::size_t(l.rows));
  };
  lower(l, x, ldx, k);
  turn();
  lower_transposed(l, x, ldx, k);
  turn();
}
template <Scalar F>
void HArithmetic<F>::solve_transposed(const Block& lu, F* x, Local ldx, Local k) const {
  upper_transposed(lu, x, ldx, k);
  lower_transposed(lu, x, ldx, k);
}

template <Scalar F>
std::pair<double, F> HArithmetic<F>::log_determinant(const Block& a, bool hermitian) const {
  if (a.is_cut()) {
    const auto first = log_determinant(a.at(0, 0), hermitian), second = log_determinant(a.at(1, 1), hermitian);
    return {first.first + second.first, first.second * second.second};
  }
  double sum = 0;
  F sign(1);
  for (Local i = 0; i < a.rows; ++i) {
    const F pivot = a.a[std::size_t(i) * std::size_t(a.rows) + std::size_t(i)];
    const auto size = std::abs(pivot);
    sum += (hermitian ? 2 : 1) * std::log(double(size));
    if (!hermitian) sign *= a.pivots[std::size_t(i)] == i ? pivot / size : -pivot / size;
  }
  return {sum, sign};
}

#define TACIT_INSTANTIATE(F)                                                                             \
  template struct LowRank<F>;                                                                            \
  template class HArithmetic<F>;                                                                         \
  template void HArithmetic<F>::subtract_product<false>(const HBlock<F>&, const HBlock<F>&, HBlock<F>&); \
  template void HArithmetic<F>::subtract_product<true>(const HBlock<F>&, const HBlock<F>&, HBlock<F>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
