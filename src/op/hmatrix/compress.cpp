#include <tacit/op/hmatrix/compress.hpp>

#include <tacit/base/error.hpp>
#include <tacit/base/lapack.hpp>

#include "crosses.hpp"
#include "pivoted.hpp"
#include "small_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

namespace tacit::op {
namespace {

using namespace detail;

// The truncation rank: the smallest k for which the rest of sigma is at most `allowed` in the norm; left: its Frobenius
// norm.
template <class R>
Local cut(const std::vector<R>& sigma, double allowed, Norm norm, double& left) {
  Local k = Local(sigma.size());
  double tail = 0;
  left = 0;
  for (; k > 0; --k) {
    const double s = double(sigma[std::size_t(k) - 1]);
    const double size = norm == Norm::frobenius ? std::sqrt(tail + s * s) : s;
    if (size > allowed) break;
    tail += s * s;
    left = std::sqrt(tail);
  }
  return k;
}

// a = Q R: Q in a; R is r x r, by columns. Few columns by two rounds of Gram-Schmidt, as accurate as Householder QR,
// and faster than LAPACK's: linearly dependent ones become 0, with a row of zeros in R.
template <Scalar T>
void orthonormalise(std::vector<T>& columns, Local m, Local r, std::vector<T>& R) {
  if (r > short_rank && r <= m) return lapack::householder_qr<T>(std::span<T>(columns), m, r, R);
  T* const a = columns.data();
  R.assign(std::size_t(r) * r, T(0));
  for (Local j = 0; j < r; ++j) {
    T* const column = a + std::size_t(j) * m;
    const double before = std::sqrt(norm2(column, m));
    for (int pass = 0; pass < 2; ++pass)
      for (Local l = 0; l < j; ++l) {
        const T* const q = a + std::size_t(l) * m;
        const T c = T(dot(q, column, m));
        axpy(-c, q, column, m);
        R[std::size_t(j) * r + l] += c;
      }
    const double after = std::sqrt(norm2(column, m));
    const bool depends = !(after > 4 * double(std::numeric_limits<real_t<T>>::epsilon()) * before);
    const auto inverse = depends ? real_t<T>(0) : real_t<T>(1 / after);
    for (Local i = 0; i < m; ++i) column[i] *= inverse;
    R[std::size_t(j) * r + j] = depends ? T(0) : T(real_t<T>(after));
  }
}

// c = a b, a: m x k, b: k x n, by columns.
template <Scalar T>
std::vector<T> multiply(const T* a, const T* b, Local m, Local k, Local n) {
  std::vector<T> c(std::size_t(m) * n);
  if (is_complex<T> || k > short_rank) {
    lapack::gemm<T>('N', 'N', m, n, k, T(1), a, m, b, k, T(0), c.data(), m);
  } else if constexpr (!is_complex<T>) {
    if (k == 0) return c;
    const Run run{0, std::uint32_t(k), 1};
    const auto columns = [&]<int K>(std::integral_constant<int, K>, Local j) {
      multiply_add<T, T, K, false>(a, m, m, &run, &run + 1, b + std::size_t(j) * k, k, c.data() + std::size_t(j) * m,
                                   m);
    };
    Local j = 0;
    for (; j + 4 <= n; j += 4) columns(std::integral_constant<int, 4>{}, j);
    if (n - j >= 2) columns(std::integral_constant<int, 2>{}, j), j += 2;
    if (j < n) columns(std::integral_constant<int, 1>{}, j);
  }
  return c;
}

// Keeps the first `rank` singular values, for orthonormal U and V.
template <Scalar T>
void keep(Compressed<T>& b, std::vector<real_t<T>> sigma, Local rank) {
  sigma.resize(std::size_t(rank));
  b.sigma = std::move(sigma);
  b.rank = rank;
  b.orthonormal = true;
}

template <Scalar T>
double size_of(const std::vector<real_t<T>>& sigma) {
  double sum = 0;
  for (auto s : sigma) sum += double(s) * double(s);
  return std::sqrt(sum);
}

// The truncation rank, limited by cut_rank where that is not 0, and the truncation error.
template <class R>
Local cut_at(const std::vector<R>& sigma, double allowed, Norm norm, Local cut_rank, double& error) {
  Local k = cut(sigma, allowed, norm, error);
  for (; cut_rank > 0 && k > cut_rank; --k) error = std::hypot(error, double(sigma[std::size_t(k) - 1]));
  return k;
}

// Recompression by Cholesky factors, a^H a = R^H R, instead of a = Q R: half of the operations, by matrix products. Q
// is not formed: its product with the singular vectors W is a (R^-1 W). False where this would not be accurate.
inline bool recompress_by_squares(Compressed<double>& b, double allowed, Norm norm, Local cut_rank) {
  const Local r = b.rank;
  std::vector<double> ru, rv;
  const double accuracy = b.norm > 0 ? 0.01 * allowed / b.norm : 0;
  if (r > short_rank || !triangle_of_squares(b.u.data(), b.rows, r, accuracy, ru) ||
      !triangle_of_squares(b.v.data(), b.columns, r, accuracy, rv))
    return false;
  // U V^H = Q_u (R_u R_v^H) Q_v^H
  std::vector<double> small(std::size_t(r) * r), left, right, sigma;
  for (Local j = 0; j < r; ++j)
    for (Local l = j; l < r; ++l) {
      const double c = rv[std::size_t(j) + std::size_t(l) * r];
      for (Local i = 0; i <= l; ++i)
        small[std::size_t(i) + std::size_t(j) * r] += ru[std::size_t(i) + std::size_t(l) * r] * c;
    }
  if (!small_svd(small.data(), r, left, sigma, right)) return false;
  double error;
  const Local k = cut_at(sigma, allowed, norm, cut_rank, error);
  b.norm = size_of<double>(sigma);
  solve_triangle(ru, r, left.data(), k);
  solve_triangle(rv, r, right.data(), k);
  b.u = multiply(b.u.data(), left.data(), b.rows, r, k);
  b.v = multiply(b.v.data(), right.data(), b.columns, r, k);
  keep(b, std::move(sigma), k);
  b.error = std::hypot(b.error, error);
  return true;
}

// The Cholesky factor R of a^H a = R^H R, upper triangular, by matrix products; false where the columns of a R^-1 would
// not be orthonormal, or rounding in a R^-1 R not small beside `accuracy`.
template <Scalar T>
bool triangle_by_products(const T* a, Local m, Local r, double accuracy, std::vector<T>& R) {
  constexpr double unit = std::numeric_limits<real_t<T>>::epsilon();
  // Of the squared sine of the angle between a column and those before it.
  const double sine = 100 * unit / accuracy, least = std::max(1e6 * unit, sine * sine);
  constexpr Local strip = 64;
  std::vector<T> lower(std::size_t(r) * std::size_t(r));
  for (Local j = 0; j < r; j += strip)
    lapack::gemm<T>('C', 'N', r - j, std::min(strip, r - j), m, T(1), a + std::size_t(j) * m, m, a + std::size_t(j) * m,
                    m, T(0), lower.data() + std::size_t(j) * (r + 1), r);
  std::vector<double> square;
  for (Local j = 0; j < r; ++j) square.push_back(double(real(lower[std::size_t(j) * (r + 1)])));
  if (!lapack::cholesky(lower.data(), r, r)) return false;
  R.assign(std::size_t(r) * std::size_t(r), T(0));
  for (Local j = 0; j < r; ++j) {
    const double pivot = double(real(lower[std::size_t(j) * (r + 1)]));
    if (!(pivot * pivot > least * square[std::size_t(j)]) || !(square[std::size_t(j)] > 1e-280)) return false;
    for (Local i = j; i < r; ++i)
      R[std::size_t(j) + std::size_t(i) * r] = conj(lower[std::size_t(i) + std::size_t(j) * r]);
  }
  return true;
}

// Truncates a (r x r, overwritten) by its singular values.
template <Scalar T>
bool truncate_by_svd(std::vector<T>& a, Local r, double allowed, Norm norm, Local cut_rank, Truncated<T>& made) {
  made.left.resize(a.size());
  made.sigma.resize(std::size_t(r));
  std::vector<T> right(a.size());
  if (!lapack::svd(a.data(), r, r, made.left.data(), made.sigma.data(), right.data())) return false;
  made.rank = cut_at(made.sigma, allowed, norm, cut_rank, made.error);
  made.right.resize(std::size_t(r) * std::size_t(made.rank));  // the conjugate transpose of LAPACK's V^H
  for (Local j = 0; j < made.rank; ++j)
    for (Local i = 0; i < r; ++i) made.right[i + std::size_t(j) * r] = conj(right[j + std::size_t(i) * r]);
  return true;
}

template <Scalar T>
bool recompress(Compressed<T>& b, double allowed, Norm norm, Local cut_rank) {
  const Local r = b.rank;
  if (r == 0) return true;
  if constexpr (std::same_as<T, double>)
    if (recompress_by_squares(b, allowed, norm, cut_rank)) return true;
  std::vector<T> ru, rv;
  const double accuracy = b.norm > 0 ? 0.01 * allowed / b.norm : 0;
  const bool squares = triangle_by_products(b.u.data(), b.rows, r, accuracy, ru) &&
                       triangle_by_products(b.v.data(), b.columns, r, accuracy, rv);
  if (!squares) {
    orthonormalise(b.u, b.rows, r, ru);
    orthonormalise(b.v, b.columns, r, rv);
  }
  // U V^H = Q_u (R_u R_v^H) Q_v^H
  std::vector<T> small(std::size_t(r) * std::size_t(r));
  lapack::gemm<T>('N', 'C', r, r, r, T(1), ru.data(), r, rv.data(), r, T(0), small.data(), r);
  b.norm = std::sqrt(norm2(small.data(), r * r));
  if (!std::isfinite(b.norm)) return false;
  Truncated<T> made;
  if (norm == Norm::frobenius && cut_rank == 0) made = truncate_by_pivots(small.data(), r, allowed);
  else if (!truncate_by_svd(small, r, allowed, norm, cut_rank, made)) return false;
  const Local k = made.rank;
  if (squares) {  // Q = U R^-1
    lapack::trsm<T>('L', 'U', 'N', 'N', r, k, ru.data(), r, made.left.data(), r);
    lapack::trsm<T>('L', 'U', 'N', 'N', r, k, rv.data(), r, made.right.data(), r);
  }
  b.u = multiply(b.u.data(), made.left.data(), b.rows, r, k);
  b.v = multiply(b.v.data(), made.right.data(), b.columns, r, k);
  keep(b, std::move(made.sigma), k);
  b.error = std::hypot(b.error, made.error);
  return true;
}

// Replaces the dense b by its truncated SVD where that is smaller.
template <Scalar T>
void by_svd(Compressed<T>& b, double allowed, Norm norm, Local cut_rank = 0) {
  const Local m = b.rows, n = b.columns, k = std::min(m, n);
  std::vector<T> a = b.u, u(std::size_t(m) * k), vh(std::size_t(k) * n);
  std::vector<real_t<T>> sigma(static_cast<std::size_t>(k));
  if (!lapack::svd(a.data(), m, n, u.data(), sigma.data(), vh.data())) return;
  double error;
  const Local r = cut_at(sigma, allowed, norm, cut_rank, error);
  if (Global(r) * (Global(m) + n) >= Global(m) * n) return;
  u.resize(std::size_t(m) * r);
  b.u = std::move(u);
  b.v.resize(std::size_t(n) * r);
  for (Local j = 0; j < r; ++j)
    for (Local i = 0; i < n; ++i) b.v[i + std::size_t(j) * n] = conj(vh[j + std::size_t(i) * k]);
  b.dense = false;
  b.error = error;
  keep(b, std::move(sigma), r);
}

// Compares b with all entries: computes its error, and where that exceeds `allowed` compresses the full block.
template <Scalar T>
void settle(Compressed<T>& b, Compressed<T> exact, Tolerance tolerance, const CompressOptions& options) {
  const double allowed = std::hypot(cross_share, cut_share) * tolerance.of(exact.norm);
  std::vector<T> column(static_cast<std::size_t>(b.rows));
  double error = 0;
  for (Local j = 0; j < b.columns; ++j) {
    std::copy_n(exact.u.data() + std::size_t(j) * b.rows, b.rows, column.data());
    for (Local l = 0; l < b.rank; ++l)
      axpy(T(-b.sigma[std::size_t(l)] * conj(b.v[j + std::size_t(l) * b.columns])),
           b.u.data() + std::size_t(l) * b.rows, column.data(), b.rows);
    error += norm2(column.data(), b.rows);
  }
  exact.entries += b.entries;
  if (std::sqrt(error) <= allowed) {
    b.error = std::sqrt(error);
    b.norm = exact.norm;
    b.entries = exact.entries;
    return;
  }
  constexpr Local few = 256;  // larger blocks stay dense: their SVD takes too long
  if (options.recompress && std::min(b.rows, b.columns) <= few) {
    b = exact;
    by_svd(b, allowed, options.truncation);
    if (options.max_rank == 0 || b.rank <= options.max_rank) return;
  }
  b = std::move(exact);
}

}  // namespace

template <Scalar T>
Compressed<T> evaluate(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns) {
  RawBlock<T> raw;
  raw.dense = true;
  raw.u.resize(rows.size() * columns.size());
  entry(rows, columns, raw.u.data());
  raw.entries = Global(raw.u.size());
  return finish<T>(std::move(raw), entry, rows, columns, {}, {});
}

template <Scalar T>
Compressed<T> compress(const EntryFunction<T>& entry, std::span<const Global> rows, std::span<const Global> columns,
                       Tolerance tolerance, const CompressOptions& options) {
  if (options.method == Compression::svd) {
    auto b = evaluate(entry, rows, columns);
    by_svd(b, std::hypot(cross_share, cut_share) * tolerance.of(b.norm), options.truncation, options.cut_rank);
    if (options.max_rank > 0 && b.rank > options.max_rank) {
      const Global seen = b.entries;
      b = evaluate(entry, rows, columns);
      b.entries += seen;
    }
    return b;
  }
  Entries<T> block(entry, rows, columns);
  Crosses<T> crosses(block, tolerance, options);
  RawBlock<T> raw;
  raw.given_up = !crosses.run();
  if (!raw.given_up) {
    raw.rank = crosses.rank();
    raw.norm = crosses.norm();
    raw.error = crosses.error();
    raw.u = crosses.take_u();
    raw.v = crosses.take_v();
  }
  raw.entries = block.evaluated();
  return finish(std::move(raw), entry, rows, columns, tolerance, options);
}

template <Scalar T>
Compressed<T> finish(RawBlock<T> raw, const EntryFunction<T>& entry, std::span<const Global> rows,
                     std::span<const Global> columns, Tolerance tolerance, const CompressOptions& options) {
  Compressed<T> b;
  b.rows = Local(rows.size()), b.columns = Local(columns.size());
  b.entries = raw.entries;
  b.u = std::move(raw.u);
  if (raw.dense) {
    check_finite<T>(b.u, rows, columns);
    b.dense = true;
    double sum = 0;
    for (Local j = 0; j < b.columns; ++j) sum += norm2(b.u.data() + std::size_t(j) * b.rows, b.rows);
    b.norm = std::sqrt(sum);
    return b;
  }
  bool fits = !raw.given_up;
  if (fits) {
    b.rank = raw.rank;
    b.norm = raw.norm;
    b.error = raw.error;
    b.v = std::move(raw.v);
    for (T& v : b.v) v = conj(v);
    if (!raw.sigma.empty()) {
      keep(b, std::move(raw.sigma), raw.rank);
    } else if (options.recompress) {
      fits = recompress(b, cut_share * tolerance.of(b.norm), options.truncation, options.cut_rank);
    } else {
      b.sigma.resize(std::size_t(b.rank));
      for (Local l = 0; l < b.rank; ++l) {
        T *const u = b.u.data() + std::size_t(l) * b.rows, *const v = b.v.data() + std::size_t(l) * b.columns;
        const auto a = real_t<T>(std::sqrt(norm2(u, b.rows))), c = real_t<T>(std::sqrt(norm2(v, b.columns)));
        if (a == 0 || c == 0) continue;  // squares underflow: sigma stays 0
        b.sigma[std::size_t(l)] = a * c;
        for (Local i = 0; i < b.rows; ++i) u[i] /= a;
        for (Local i = 0; i < b.columns; ++i) v[i] /= c;
      }
    }
    fits = fits && Global(b.rank) * (Global(b.rows) + b.columns) < Global(b.rows) * b.columns &&
           (options.max_rank == 0 || b.rank <= options.max_rank);
  }
  if (fits && options.cut_rank == 0 && Global(b.rows) * b.columns <= options.settled) {
    settle(b, evaluate(entry, rows, columns), tolerance, options);
  } else if (!fits) {
    const Global seen = b.entries;
    b = evaluate(entry, rows, columns);
    b.entries += seen;
  }
  return b;
}

#define TACIT_INSTANTIATE(T)                                                                                 \
  template Compressed<T> finish(RawBlock<T>, const EntryFunction<T>&, std::span<const Global>,               \
                                std::span<const Global>, Tolerance, const CompressOptions&);                 \
  template Compressed<T> compress(const EntryFunction<T>&, std::span<const Global>, std::span<const Global>, \
                                  Tolerance, const CompressOptions&);                                        \
  template Compressed<T> evaluate(const EntryFunction<T>&, std::span<const Global>, std::span<const Global>);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
