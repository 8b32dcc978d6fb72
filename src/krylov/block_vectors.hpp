// Kernels of block methods on vectors with several interleaved columns: Gram matrices, and products with small matrices
// from the right. Rows are taken in pieces whose bounds depend on the length only, so that any number of threads gives
// the same bits; within a piece, in chunks that stay in the caches while BLAS reads them.
#pragma once

#include "small_matrix.hpp"

#include <tacit/exec/pairs.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/layout/vector.hpp>

#include <span>

namespace tacit::krylov {

namespace detail {

/// f(piece, first row, rows, memory of the thread) for chunks of n rows of `width` elements.
template <class Memory, class F>
void by_chunks(std::size_t n, std::size_t width, std::size_t pieces, const F& f) {
  const std::size_t most = std::clamp<std::size_t>(16384 / std::max<std::size_t>(width, 1), 64, 2048);
  const lapack::OneThread one;  // the threads are those of exec
  exec::parallel_claims(pieces, exec::by_shares, n * width > 16384, [&](exec::Claims& claims) {
    Memory own;
    claims.each([&](std::size_t piece) {
      const std::size_t begin = n * piece / pieces, end = n * (piece + 1) / pieces;
      for (std::size_t i = begin; i < end; i += most) f(piece, i, std::min(most, end - i), own);
    });
  });
}
inline std::size_t pieces_of(std::size_t n) { return std::clamp<std::size_t>(n / 1024, 1, 64); }

/// sum += x^H y for `rows` rows of m and k columns, in the type of wide sums. BLAS writes y^T conj(x) by columns, which is
/// x^H y by rows.
template <Scalar T>
struct Gramian {
  using W = exec::wide_t<T>;
  std::vector<W> x, y;  // widened
  void add(const T* a, int m, const T* b, int k, std::size_t rows, W* sum) {
    if constexpr (std::same_as<T, W>) {
      lapack::gemm('N', 'C', k, m, int(rows), W(1), b, k, a, m, W(1), sum, k);
    } else {
      x.assign(a, a + rows * std::size_t(m));
      const W *const left = x.data(), *right = left;
      if (a != b) y.assign(b, b + rows * std::size_t(k)), right = y.data();
      lapack::gemm('N', 'C', k, m, int(rows), W(1), right, k, left, m, W(1), sum, k);
    }
  }
};

/// A small matrix in the vectors' scalar.
template <Scalar T>
std::vector<T> narrowed(const SmallMatrix<exec::wide_t<T>>& a) {
  std::vector<T> v;
  v.reserve(a.values.size());
  for (const auto& one : a.values) {
    if constexpr (is_complex<T>) v.emplace_back(real_t<T>(one.real()), real_t<T>(one.imag()));
    else v.push_back(T(one));
  }
  return v;
}

/// y += sign x a for `rows` rows; a is m x k by rows.
template <Scalar T>
void add_product(T sign, const T* x, int m, const std::vector<T>& a, int k, std::size_t rows, T* y) {
  if (m > 0 && k > 0) lapack::gemm('N', 'N', k, int(rows), m, sign, a.data(), k, x, m, T(1), y, k);
}

}  // namespace detail

/// Local sums x^H y, by rows, for pairs of vectors with the same rows: one after the other in `sums`, which is resized.
/// One pass over each pair.
template <Scalar T>
void gram(std::span<const std::pair<const layout::Vector<T>*, const layout::Vector<T>*>> pairs,
          std::vector<exec::wide_t<T>>& sums) {
  using W = exec::wide_t<T>;
  std::size_t length = 0, width = 0;
  for (const auto& [x, y] : pairs) length += std::size_t(x->columns()) * std::size_t(y->columns());
  for (const auto& [x, y] : pairs) width = std::max(width, std::size_t(std::max(x->columns(), y->columns())));
  const std::size_t n = std::size_t(pairs.front().first->space().local_size()), pieces = detail::pieces_of(n);
  std::vector<W> parts(pieces * length);
  detail::by_chunks<detail::Gramian<T>>(
      n, width, pieces, [&](std::size_t piece, std::size_t first, std::size_t rows, detail::Gramian<T>& own) {
        W* sum = parts.data() + piece * length;
        for (const auto& [x, y] : pairs) {
          const int m = x->columns(), k = y->columns();
          own.add(x->data() + first * std::size_t(m), m, y->data() + first * std::size_t(k), k, rows, sum);
          sum += std::size_t(m) * std::size_t(k);
        }
      });
  sums.assign(length, W(0));
  for (std::size_t p = 0; p < pieces; ++p)
    for (std::size_t i = 0; i < length; ++i) sums[i] += parts[p * length + i];
}

/// y += sign x a. Local; one pass.
template <Scalar T>
void add_product(int sign, const layout::Vector<T>& x, const SmallMatrix<exec::wide_t<T>>& a, layout::Vector<T>& y) {
  struct Nothing {};
  const int m = x.columns(), k = y.columns();
  const auto narrow = detail::narrowed<T>(a);
  const std::size_t n = std::size_t(x.space().local_size());
  detail::by_chunks<Nothing>(n, std::size_t(std::max(m, k)), detail::pieces_of(n),
                             [&](std::size_t, std::size_t first, std::size_t rows, Nothing&) {
                               detail::add_product(T(real_t<T>(sign)), x.data() + first * std::size_t(m), m, narrow, k,
                                                   rows, y.data() + first * std::size_t(k));
                             });
}

/// out := u_kept R^-1 (R = f.triangle), + s beta where s is not null. out has f.rank() columns, and may be u or s where
/// these have as many. Local; one pass.
template <Scalar T>
void renew(const layout::Vector<T>& u, const GramFactor<exec::wide_t<T>>& f, const layout::Vector<T>* s,
           const SmallMatrix<exec::wide_t<T>>& beta, layout::Vector<T>& out) {
  const int m = u.columns(), r = f.rank();
  const auto triangle = detail::narrowed<T>(f.triangle), step = detail::narrowed<T>(beta);
  const std::size_t n = std::size_t(u.space().local_size());
  detail::by_chunks<std::vector<T>>(
      n, std::size_t(m), detail::pieces_of(n),
      [&](std::size_t, std::size_t first, std::size_t rows, std::vector<T>& own) {
        own.resize(rows * std::size_t(r));
        const T* const from = u.data() + first * std::size_t(m);
        for (std::size_t i = 0; i < rows; ++i)
          for (int j = 0; j < r; ++j)
            own[i * std::size_t(r) + std::size_t(j)] = from[i * std::size_t(m) + std::size_t(f.kept[std::size_t(j)])];
        // w R = u for rows is R^T w^T = u^T, and R by rows is R^T by columns.
        lapack::trsm('L', 'L', 'N', 'N', r, int(rows), triangle.data(), r, own.data(), r);
        if (s) detail::add_product(T(1), s->data() + first * std::size_t(s->columns()), s->columns(), step, r, rows, own.data());
        std::copy(own.begin(), own.end(), out.data() + first * std::size_t(r));
      });
}

}  // namespace tacit::krylov
