#include "truncation.hpp"

#include "products.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

namespace tacit::precond::detail {
namespace {

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
    times(a, m, m, n, F(1), random.data(), n, y.data(), m, now);
    if (k > 0) {  // what rounding has brought back of the columns before
      along.resize(std::size_t(k) * std::size_t(now));
      lapack::gemm(adjoint, 'N', k, now, m, F(1), q.data(), m, y.data(), m, F(0), along.data(), k);
      times(q.data(), m, m, k, F(-1), along.data(), k, y.data(), m, now);
    }
    lapack::householder_qr<F>(y, m, now, triangle);
    part.resize(std::size_t(now) * width);
    lapack::gemm(adjoint, 'N', now, n, m, F(1), y.data(), m, a, m, F(0), part.data(), now);
    times(y.data(), m, m, now, F(-1), part.data(), now, a, m, n);
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
  times(q.data(), m, m, found, F(1), core.data(), found, a, m, k);
  std::vector<F> turned(std::size_t(n) * std::size_t(k), F(0));
  times(c.data(), n, n, found, F(1), d.data(), found, turned.data(), n, k);
  return turned;
}

}  // namespace

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
bool truncate(LowRank<F>& b, double tolerance) {
  const Local m = b.rows, n = b.columns, r = b.rank;
  if (r == 0) return true;
  if (r >= std::min(m, n)) {
    std::vector<F> a(std::size_t(m) * std::size_t(n), F(0));
    add_outer(b.u.data(), m, b.v.data(), n, m, n, r, F(1), a.data(), m);
    return compress(a.data(), m, n, tolerance, b);
  }
  // U = Q R, V = P S; then the leading columns of R S^T = G C: U V^T = (Q G) (P C^T)^T.
  std::vector<F> left, right, core(std::size_t(r) * std::size_t(r), F(0));
  lapack::householder_qr<F>(b.u, m, r, left);
  lapack::householder_qr<F>(b.v, n, r, right);
  add_outer(left.data(), r, right.data(), r, r, r, r, F(1), core.data(), r);
  const bool finite = std::isfinite(norm2_of(core.data(), core.size()));
  Local k = 0;
  const auto c = leading_columns(core.data(), r, r, tolerance, k);
  std::vector<F> u(std::size_t(m) * std::size_t(k), F(0)), v(std::size_t(n) * std::size_t(k), F(0));
  times(b.u.data(), m, m, r, F(1), core.data(), r, u.data(), m, k);
  times(b.v.data(), n, n, r, F(1), c.data(), r, v.data(), n, k);
  b.u = std::move(u), b.v = std::move(v), b.rank = k;
  return finite;
}

template <Scalar F>
bool compress(F* a, Local rows, Local columns, double tolerance, LowRank<F>& to) {
  const bool finite = std::isfinite(norm2_of(a, std::size_t(rows) * std::size_t(columns)));
  to.rows = rows, to.columns = columns, to.rank = 0;
  to.v = leading_columns(a, rows, columns, tolerance, to.rank);
  to.u.assign(a, a + std::size_t(rows) * std::size_t(to.rank));
  return finite;
}

#define TACIT_INSTANTIATE(F)                   \
  template struct LowRank<F>;                  \
  template bool truncate(LowRank<F>&, double); \
  template bool compress(F*, Local, Local, double, LowRank<F>&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
