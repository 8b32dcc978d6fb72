#include <tacit/base/lapack.hpp>
#include <tacit/op/hmatrix/block_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tacit::op {
namespace {

// a = Q R: Q (m x min(m, r), by columns) in a; R of min(m, r) x r is returned.
template <Scalar T>
std::vector<T> orthonormal(std::vector<T>& a, Local m, Local r) {
  std::vector<T> triangle;
  if (m >= r) {
    lapack::householder_qr<T>(a, m, r, triangle);
    return triangle;
  }
  triangle = std::move(a);  // more columns than rows: Q is the identity
  a.assign(std::size_t(m) * std::size_t(m), T(0));
  for (std::size_t i = 0; i < std::size_t(m); ++i) a[i * std::size_t(m) + i] = T(1);
  return triangle;
}

// U V^H = Q_u (R_u R_v^H) Q_v^H, truncated by the singular values of the small matrix. False where these are not found.
template <Scalar T>
bool recompress(Compressed<T>& b, double tolerance) {
  const Local r = b.rank, p = std::min(r, b.rows), q = std::min(r, b.columns), least = std::min(p, q);
  const auto left = orthonormal(b.u, b.rows, r), right = orthonormal(b.v, b.columns, r);
  std::vector<T> small(std::size_t(p) * std::size_t(q)), u(std::size_t(p) * std::size_t(least)),
      vh(std::size_t(least) * std::size_t(q));
  lapack::gemm('N', 'C', p, q, r, T(1), left.data(), p, right.data(), q, T(0), small.data(), p);
  std::vector<real_t<T>> sigma(static_cast<std::size_t>(least));
  if (!lapack::svd(small.data(), p, q, u.data(), sigma.data(), vh.data())) return false;
  double norm2 = 0, tail = 0;
  for (const auto s : sigma) norm2 += double(s) * double(s);
  Local k = least;
  for (; k > 0; --k) {
    const double s = double(sigma[std::size_t(k) - 1]);
    if (tail + s * s > tolerance * tolerance * norm2) break;
    tail += s * s;
  }
  std::vector<T> columns(std::size_t(b.rows) * std::size_t(k)), rows(std::size_t(b.columns) * std::size_t(k));
  if (k > 0) {
    lapack::gemm('N', 'N', b.rows, k, p, T(1), b.u.data(), b.rows, u.data(), p, T(0), columns.data(), b.rows);
    lapack::gemm('N', 'C', b.columns, k, q, T(1), b.v.data(), b.columns, vh.data(), least, T(0), rows.data(),
                 b.columns);
  }
  b.u = std::move(columns), b.v = std::move(rows);
  sigma.resize(std::size_t(k));
  b.sigma = std::move(sigma), b.rank = k, b.orthonormal = true;
  b.norm = std::sqrt(norm2), b.error = std::sqrt(tail);
  return true;
}

}  // namespace

template <Scalar T>
Compressed<T> truncated(BlockMatrix<T> m, double tolerance) {
  Compressed<T> b;
  b.rows = m.block.rows(), b.columns = m.block.columns();
  b.dense = m.dense;
  b.rank = m.dense ? 0 : m.rank;
  b.u = std::move(m.u), b.v = std::move(m.v);
  const auto by_products = [&] {
    std::vector<T> a(std::size_t(b.rows) * std::size_t(b.columns), T(0));
    lapack::gemm('N', 'C', b.rows, b.columns, b.rank, T(1), b.u.data(), b.rows, b.v.data(), b.columns, T(0), a.data(),
                 b.rows);
    b.u = std::move(a), b.v = {}, b.sigma = {}, b.dense = true, b.rank = 0;
  };
  const auto size = [&] {
    double sum = 0;
    for (const T& v : b.u) sum += double(abs2(v));
    return std::sqrt(sum);
  };
  if (b.dense) {
    b.norm = size();
    return b;
  }
  if (b.rank == 0) return b;
  const auto before = b;
  if (!recompress(b, tolerance)) {
    b = before;
    by_products();
    b.norm = size();
    return b;
  }
  if (Global(b.rank) * (Global(b.rows) + b.columns) < Global(b.rows) * b.columns) return b;
  for (Local l = 0; l < b.rank; ++l)
    for (Local i = 0; i < b.rows; ++i) b.u[std::size_t(i) + std::size_t(l) * b.rows] *= b.sigma[std::size_t(l)];
  by_products();
  return b;
}

#define TACIT_INSTANTIATE(T) template Compressed<T> truncated(BlockMatrix<T>, double);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
