// Products of small dense matrices, stored by columns, on vector registers: for sizes that fit a cache, where a BLAS
// needs more time for packing than for the product (and OpenBLAS may not know the processor). Complex numbers go to
// BLAS.
#pragma once

#include <tacit/base/lapack.hpp>
#include <tacit/base/types.hpp>
#include "base/lanes.hpp"

#include <cstddef>
#include <cstring>

namespace tacit::dense {

template <class R, int Bytes = 64>
struct Register {
  static constexpr int lanes = int(Bytes / sizeof(R));
  typedef R type __attribute__((vector_size(Bytes)));
  typedef R in_memory __attribute__((vector_size(Bytes), aligned(sizeof(R)), may_alias));
};

// C += alpha A B for V registers of rows and K columns; B(l, j) stands at b[l bl + j bj].
template <class R, int V, int K, int Bytes = 64>
inline void tile(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t bl, std::ptrdiff_t bj, Local depth, R alpha,
                 R* c, std::ptrdiff_t ldc) {
  using Vec = typename Register<R, Bytes>::type;
  using InMemory = typename Register<R, Bytes>::in_memory;
  constexpr int n = Register<R, Bytes>::lanes;
  Vec sum[K][V] = {};
  for (Local l = 0; l < depth; ++l) {
    Vec column[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) column[v] = *reinterpret_cast<const InMemory*>(a + l * lda + v * n);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      const R factor = b[l * bl + k * bj];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[k][v] = mul_add(factor, column[v], sum[k][v]);
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      auto* const to = reinterpret_cast<InMemory*>(c + k * ldc + v * n);
      const Vec before = *to;
      *to = mul_add(alpha, sum[k][v], before);
    }
}

template <class R, int V, int Bytes = 64>
inline void tiles(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t bl, std::ptrdiff_t bj, Local columns,
                  Local depth, R alpha, R* c, std::ptrdiff_t ldc) {
  Local j = 0;
  for (; j + 4 <= columns; j += 4) tile<R, V, 4, Bytes>(a, lda, b + j * bj, bl, bj, depth, alpha, c + j * ldc, ldc);
  if (columns - j >= 2) tile<R, V, 2, Bytes>(a, lda, b + j * bj, bl, bj, depth, alpha, c + j * ldc, ldc), j += 2;
  if (columns > j) tile<R, V, 1, Bytes>(a, lda, b + j * bj, bl, bj, depth, alpha, c + j * ldc, ldc);
}

// C += alpha A B, A rows x depth, B depth x columns with strides bl and bj.
template <class R>
void add_product_strided(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t bl, std::ptrdiff_t bj, Local rows,
                         Local columns, Local depth, R alpha, R* c, std::ptrdiff_t ldc) {
  constexpr int n = Register<R>::lanes;
  Local i = 0;
  for (; rows - i >= 4 * n; i += 4 * n) tiles<R, 4>(a + i, lda, b, bl, bj, columns, depth, alpha, c + i, ldc);
  if (rows - i >= 2 * n) tiles<R, 2>(a + i, lda, b, bl, bj, columns, depth, alpha, c + i, ldc), i += 2 * n;
  if (rows - i >= n) tiles<R, 1>(a + i, lda, b, bl, bj, columns, depth, alpha, c + i, ldc), i += n;
  if (rows - i >= n / 2) tiles<R, 1, 32>(a + i, lda, b, bl, bj, columns, depth, alpha, c + i, ldc), i += n / 2;
  if (i == rows) return;
  for (Local j = 0; j < columns; ++j)
    for (Local l = 0; l < depth; ++l) {
      const R factor = alpha * b[l * bl + j * bj];
      for (Local r = i; r < rows; ++r) c[r + j * ldc] = mul_add(factor, a[r + l * lda], c[r + j * ldc]);
    }
}

/// C += alpha A B.
template <Scalar F>
void add_product(const F* a, Local lda, const F* b, Local ldb, Local rows, Local columns, Local depth, F alpha, F* c,
                 Local ldc) {
  if (rows == 0 || columns == 0 || depth == 0) return;
  if constexpr (is_complex<F>) lapack::gemm('N', 'N', rows, columns, depth, alpha, a, lda, b, ldb, F(1), c, ldc);
  else add_product_strided<F>(a, lda, b, 1, ldb, rows, columns, depth, alpha, c, ldc);
}

/// C += alpha A B^T, B columns x depth.
template <Scalar F>
void add_product_nt(const F* a, Local lda, const F* b, Local ldb, Local rows, Local columns, Local depth, F alpha, F* c,
                    Local ldc) {
  if (rows == 0 || columns == 0 || depth == 0) return;
  if constexpr (is_complex<F>) lapack::gemm('N', 'T', rows, columns, depth, alpha, a, lda, b, ldb, F(1), c, ldc);
  else add_product_strided<F>(a, lda, b, ldb, 1, rows, columns, depth, alpha, c, ldc);
}

// out[p + q ldc] += alpha a_p . b_q for P columns of a and Q of b.
template <class R, int P, int Q>
inline void dots(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t ldb, Local depth, R alpha, R* c,
                 std::ptrdiff_t ldc) {
  using Vec = typename Register<R>::type;
  using InMemory = typename Register<R>::in_memory;
  constexpr int n = Register<R>::lanes;
  Vec sum[P][Q] = {};
  Local l = 0;
  for (; l + n <= depth; l += n) {
    Vec other[Q];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) other[q] = *reinterpret_cast<const InMemory*>(b + q * ldb + l);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const Vec one = *reinterpret_cast<const InMemory*>(a + p * lda + l);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) sum[p][q] = mul_add(one, other[q], sum[p][q]);
    }
  }
  for (int p = 0; p < P; ++p)
    for (int q = 0; q < Q; ++q) {
      // Adds the upper half of the lanes to the lower one, until one lane is left.
      R part[n];
      std::memcpy(part, &sum[p][q], sizeof part);
#pragma GCC unroll 8
      for (int half = n / 2; half > 0; half /= 2)
#pragma GCC unroll 16
        for (int i = 0; i < half; ++i) part[i] += part[i + half];
      R s = part[0];
      for (Local r = l; r < depth; ++r) s = mul_add(a[p * lda + r], b[q * ldb + r], s);
      c[p + q * ldc] += alpha * s;
    }
}

/// C += alpha A^T B, A depth x rows, B depth x columns.
template <Scalar F>
void add_product_tn(const F* a, Local lda, const F* b, Local ldb, Local rows, Local columns, Local depth, F alpha, F* c,
                    Local ldc) {
  if (rows == 0 || columns == 0 || depth == 0) return;
  if constexpr (is_complex<F>) {
    lapack::gemm('T', 'N', rows, columns, depth, alpha, a, lda, b, ldb, F(1), c, ldc);
  } else {
    const auto block = [&]<int P>(Local i) {
      const F* const from = a + std::ptrdiff_t(i) * lda;
      Local j = 0;
      for (; j + 4 <= columns; j += 4)
        dots<F, P, 4>(from, lda, b + std::ptrdiff_t(j) * ldb, ldb, depth, alpha, c + i + std::ptrdiff_t(j) * ldc, ldc);
      for (; j < columns; ++j)
        dots<F, P, 1>(from, lda, b + std::ptrdiff_t(j) * ldb, ldb, depth, alpha, c + i + std::ptrdiff_t(j) * ldc, ldc);
    };
    Local i = 0;
    for (; i + 4 <= rows; i += 4) block.template operator()<4>(i);
    for (; i < rows; ++i) block.template operator()<1>(i);
  }
}

}  // namespace tacit::dense
