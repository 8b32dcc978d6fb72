// Kernels of block methods on vectors with several interleaved columns: Gram matrices, and products with small matrices
// from the right. Rows are taken in pieces whose bounds depend on the length only, so that any number of threads gives
// the same bits; within a piece, in chunks that stay in the caches from one product to the next.
#pragma once

#include "small_matrix.hpp"

#include <tacit/exec/pairs.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/layout/vector.hpp>
#include "base/small_products.hpp"

#include <span>
#include <utility>

namespace tacit::krylov {

namespace detail {

inline std::size_t pieces_of(std::size_t n) {
  return std::clamp<std::size_t>(n / 1024, 1, 64);
}

/// f(piece, first row, rows, memory of the thread) for chunks of n rows of `width` elements.
template <class Memory, class F>
void by_chunks(std::size_t n, std::size_t width, const F& f) {
  const std::size_t most = std::clamp<std::size_t>(8192 / std::max<std::size_t>(width, 1), 64, 1024);
  const std::size_t pieces = pieces_of(n);
  const lapack::OneThread one;  // the threads are those of exec
  exec::parallel_claims(pieces, exec::by_shares, n * width > 16384, [&](exec::Claims& claims) {
    Memory own;
    claims.each([&](std::size_t piece) {
      const std::size_t begin = n * piece / pieces, end = n * (piece + 1) / pieces;
      for (std::size_t i = begin; i < end; i += most) f(piece, i, std::min(most, end - i), own);
    });
  });
}

/// y += alpha x a for `rows` rows; a is m x k by rows. Whole (half) registers of columns are faster without a BLAS.
template <Scalar T>
void add_product(T alpha, const T* x, int m, const T* a, int k, std::size_t rows, T* y) {
  if (m == 0 || k == 0) return;
  if constexpr (!is_complex<T>) {
    if (k % dense::unit<T> == 0) return dense::add_product(a, k, x, m, k, Local(rows), m, alpha, y, k);
  }
  lapack::gemm('N', 'N', k, int(rows), m, alpha, a, k, x, m, T(1), y, k);
}

/// sum += x^H y for `rows` rows of m and k columns. Products by columns write y^T conj(x), which is x^H y by rows.
/// `hermitian`: so it is, and of blocks below the diagonal nothing needs to be written.
template <Scalar W>
void add_gram(const W* x, int m, const W* y, int k, std::size_t rows, bool hermitian, W* sum) {
  if constexpr (!is_complex<W>) {
    constexpr int lanes = 2 * dense::unit<W>;
    if (hermitian && k % lanes == 0) {
      for (int j = 0; j < k; j += lanes)
        dense::add_product_nt(y + j, k, x, m, lanes, j + lanes, Local(rows), W(1), sum + j, k);
      return;
    }
    if (k % dense::unit<W> == 0) return dense::add_product_nt(y, k, x, m, k, m, Local(rows), W(1), sum, k);
  }
  lapack::gemm('N', 'C', k, m, int(rows), W(1), y, k, x, m, W(1), sum, k);
}

/// The same in the type of wide sums, in which products of floats are exact.
template <Scalar T>
struct Widening {
  using W = exec::wide_t<T>;
  std::vector<W> x, y;
  void add(const T* a, int m, const T* b, int k, std::size_t rows, bool hermitian, W* sum) {
    if constexpr (std::same_as<T, W>) {
      add_gram(a, m, b, k, rows, hermitian, sum);
    } else {
      x.assign(a, a + rows * std::size_t(m));
      if (a != b) y.assign(b, b + rows * std::size_t(k));
      add_gram(x.data(), m, a == b ? x.data() : y.data(), k, rows, hermitian, sum);
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

/// Products with C^-1 (rank columns) of rows of U. By substitution where C is ill-conditioned, so that W C stays U to
/// rounding; elsewhere the inverse does as well, and several times faster.
template <Scalar T>
class InverseOf {
 public:
  explicit InverseOf(const GramFactor<exec::wide_t<T>>& f)
      : f_(f), columns_(f.C.columns), by_substitution_(f.least < 0.01) {
    by_substitution_ ? void(triangle_ = narrowed<T>(f.triangle)) : void(inverse_ = narrowed<T>(inverse(f)));
  }
  /// out := u C^-1
  void operator()(const T* u, std::size_t rows, std::vector<T>& out) const {
    const int r = f_.rank();
    if (!by_substitution_) {
      out.assign(rows * std::size_t(r), T(0));
      return add_product(T(1), u, columns_, inverse_.data(), r, rows, out.data());
    }
    out.resize(rows * std::size_t(r));
    for (std::size_t i = 0; i < rows; ++i)
      for (int j = 0; j < r; ++j)
        out[i * std::size_t(r) + std::size_t(j)] = u[i * std::size_t(columns_) + std::size_t(f_.kept[std::size_t(j)])];
    // w R = u for rows is R^T w^T = u^T, and R by rows is R^T by columns.
    lapack::trsm('L', 'L', 'N', 'N', r, int(rows), triangle_.data(), r, out.data(), r);
  }

 private:
  const GramFactor<exec::wide_t<T>>& f_;
  int columns_;
  bool by_substitution_;
  std::vector<T> triangle_, inverse_;
};

/// The partial sums of pieces, in the order of pieces.
template <class W>
void sum_pieces(const std::vector<W>& parts, std::size_t length, std::vector<W>& sums) {
  sums.assign(length, W(0));
  for (std::size_t p = 0; p < parts.size(); p += length)
    for (std::size_t i = 0; i < length; ++i) sums[i] += parts[p + i];
}

}  // namespace detail

/// x^H y is wanted; Hermitian but for rounding: its triangle.
template <Scalar T>
struct Pair {
  const layout::Vector<T>&x, &y;
  bool hermitian;
};

/// Local sums x^H y, by rows, of each pair, one after the other in `sums`, which is resized; of a Hermitian one the
/// upper triangle, and anything below. One pass over each pair.
template <Scalar T>
void gram(std::span<const Pair<T>> pairs, std::vector<exec::wide_t<T>>& sums) {
  std::size_t length = 0, width = 0;
  for (const auto& [x, y, hermitian] : pairs) {
    length += std::size_t(x.columns()) * std::size_t(y.columns());
    width = std::max(width, std::size_t(std::max(x.columns(), y.columns())));
  }
  const auto n = std::size_t(pairs.front().x.space().local_size());
  std::vector<exec::wide_t<T>> parts(detail::pieces_of(n) * length);
  using Own = detail::Widening<T>;
  detail::by_chunks<Own>(n, width, [&](std::size_t piece, std::size_t first, std::size_t rows, Own& own) {
    auto* sum = parts.data() + piece * length;
    for (const auto& [x, y, hermitian] : pairs) {
      const int m = x.columns(), k = y.columns();
      own.add(x.data() + first * std::size_t(m), m, y.data() + first * std::size_t(k), k, rows, hermitian, sum);
      sum += std::size_t(m) * std::size_t(k);
    }
  });
  detail::sum_pieces(parts, length, sums);
}

/// y += x a, and where `squares` is given, the local sums y^H y of the result, as of gram(). Local; one pass.
template <Scalar T>
void add_product(const layout::Vector<T>& x, const SmallMatrix<exec::wide_t<T>>& a, layout::Vector<T>& y,
                 std::vector<exec::wide_t<T>>* squares = nullptr) {
  const int m = x.columns(), k = y.columns();
  const auto narrow = detail::narrowed<T>(a);
  const auto n = std::size_t(x.space().local_size()), length = std::size_t(k) * std::size_t(k);
  std::vector<exec::wide_t<T>> parts(squares ? detail::pieces_of(n) * length : 0);
  using Own = detail::Widening<T>;
  detail::by_chunks<Own>(n, std::size_t(std::max(m, k)),
                         [&](std::size_t piece, std::size_t first, std::size_t rows, Own& own) {
                           T* const to = y.data() + first * std::size_t(k);
                           detail::add_product(T(1), x.data() + first * std::size_t(m), m, narrow.data(), k, rows, to);
                           if (squares) own.add(to, k, to, k, rows, true, parts.data() + piece * length);
                         });
  if (squares) detail::sum_pieces(parts, length, *squares);
}

/// D += S gamma (where there is a gamma), S_next = P U C^-1 + S beta and W = U C^-1, for U^H P U = C^H C; where w is
/// null, W is U and S_next = P U + S beta. `pu` is P U, or u; s is null where there is none yet. `next` and `w` have as
/// many columns as C has rows, and may be s and u where these have as many. Local; one pass.
template <Scalar T>
void turn(const GramFactor<exec::wide_t<T>>& f, const SmallMatrix<exec::wide_t<T>>& beta,
          const SmallMatrix<exec::wide_t<T>>& gamma, const layout::Vector<T>& u, const layout::Vector<T>& pu,
          const layout::Vector<T>* s, layout::Vector<T>& d, layout::Vector<T>& next, layout::Vector<T>* w) {
  const int m = u.columns(), r = f.rank(), before = s ? s->columns() : 0, k = d.columns();
  const detail::InverseOf<T> inverse(f);
  const auto of_s = detail::narrowed<T>(beta), of_d = detail::narrowed<T>(gamma);
  struct Own {
    std::vector<T> s, w;
  };
  const auto step = [&](std::size_t, std::size_t first, std::size_t rows, Own& own) {
    const T* const old = s ? s->data() + first * std::size_t(before) : nullptr;
    const T *const from = u.data() + first * std::size_t(m), *const image = pu.data() + first * std::size_t(m);
    if (!of_d.empty()) detail::add_product(T(1), old, before, of_d.data(), k, rows, d.data() + first * std::size_t(k));
    if (w) inverse(from, rows, own.w);
    if (!w) own.s.assign(image, image + rows * std::size_t(m));
    else if (&pu == &u) own.s = own.w;
    else inverse(image, rows, own.s);
    if (s) detail::add_product(T(1), old, before, of_s.data(), r, rows, own.s.data());
    std::copy(own.s.begin(), own.s.end(), next.data() + first * std::size_t(r));
    if (w) std::copy(own.w.begin(), own.w.end(), w->data() + first * std::size_t(r));
  };
  detail::by_chunks<Own>(std::size_t(u.space().local_size()), std::size_t(m), step);
}

}  // namespace tacit::krylov
