// Products of small dense matrices, stored by columns, on vector registers: for sizes that fit a cache, where a BLAS
// needs more time for packing than for the product (and OpenBLAS may not know the processor). Complex numbers go to
// BLAS.
#pragma once

#include <tacit/base/lapack.hpp>
#include <tacit/base/types.hpp>
#include "base/registers.hpp"

#include <cstddef>
#include <utility>

namespace tacit::dense {

/// Rows that are multiplied on registers: a multiple of this number, the others one by one.
template <class R>
inline constexpr int unit = 32 / int(sizeof(R));

// C += alpha A B for `rows` rows and K columns; B(l, j) stands at b[l bl + j bj].
template <class R, int rows, int K>
inline void tile(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t bl, std::ptrdiff_t bj, Local depth, R alpha,
                 R* c, std::ptrdiff_t ldc) {
  using Rows = Registers<R, rows>;
  Rows sum[K];
  for (Local l = 0; l < depth; ++l) {
    const Rows column = Rows::load(a + l * lda);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) sum[k] = mul_add(b[l * bl + k * bj], column, sum[k]);
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k) mul_add(alpha, sum[k], Rows::load(c + k * ldc)).store(c + k * ldc);
}

template <class R, int rows>
inline void tiles(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t bl, std::ptrdiff_t bj, Local columns,
                  Local depth, R alpha, R* c, std::ptrdiff_t ldc) {
  Local j = 0;
  for (; j + 4 <= columns; j += 4) tile<R, rows, 4>(a, lda, b + j * bj, bl, bj, depth, alpha, c + j * ldc, ldc);
  if (columns - j >= 2) tile<R, rows, 2>(a, lda, b + j * bj, bl, bj, depth, alpha, c + j * ldc, ldc), j += 2;
  if (columns > j) tile<R, rows, 1>(a, lda, b + j * bj, bl, bj, depth, alpha, c + j * ldc, ldc);
}

// C += alpha A B, A rows x depth, B depth x columns with strides bl and bj.
template <class R>
void add_product_strided(const R* a, std::ptrdiff_t lda, const R* b, std::ptrdiff_t bl, std::ptrdiff_t bj, Local rows,
                         Local columns, Local depth, R alpha, R* c, std::ptrdiff_t ldc) {
  // Four columns of sums fit the registers: 32 of 64 bytes, 16 of fewer.
  constexpr int n = unit<R>, most = register_bytes == 64 ? 8 * n : register_bytes == 32 ? 2 * n : n;
  Local i = 0;
  const auto take = [&]<int some>(std::integral_constant<int, some>) {
    if constexpr (some <= most)
      for (; rows - i >= some; i += some) tiles<R, some>(a + i, lda, b, bl, bj, columns, depth, alpha, c + i, ldc);
  };
  take(std::integral_constant<int, 8 * n>{});
  take(std::integral_constant<int, 4 * n>{});
  take(std::integral_constant<int, 2 * n>{});
  take(std::integral_constant<int, n>{});
  const Local rest = i;
  if (rest == rows) return;
  for (Local j = 0; j < columns; ++j)
    for (Local l = 0; l < depth; ++l) {
      const R factor = alpha * b[l * bl + j * bj];
      for (Local r = rest; r < rows; ++r) c[r + j * ldc] = mul_add(factor, a[r + l * lda], c[r + j * ldc]);
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
  constexpr int n = 64 / int(sizeof(R));
  using Some = Registers<R, n>;
  Some sum[P][Q];
  Local l = 0;
  for (; l + n <= depth; l += n) {
    Some other[Q];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) other[q] = Some::load(b + q * ldb + l);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const Some one = Some::load(a + p * lda + l);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) sum[p][q] = mul_add(one, other[q], sum[p][q]);
    }
  }
  R part[P][Q][n];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) sum[p][q].store(part[p][q]);
  for (int p = 0; p < P; ++p)
    for (int q = 0; q < Q; ++q) {
      R s = add_lanes(Some::load(part[p][q]));
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
    constexpr int most = register_bytes == 64 ? 4 : 2;  // sums of this number of columns squared fit the registers
    const auto block = [&]<int P>(Local i) {
      const F* const from = a + std::ptrdiff_t(i) * lda;
      Local j = 0;
      for (; j + most <= columns; j += most)
        dots<F, P, most>(from, lda, b + std::ptrdiff_t(j) * ldb, ldb, depth, alpha, c + i + std::ptrdiff_t(j) * ldc,
                         ldc);
      for (; j < columns; ++j)
        dots<F, P, 1>(from, lda, b + std::ptrdiff_t(j) * ldb, ldb, depth, alpha, c + i + std::ptrdiff_t(j) * ldc, ldc);
    };
    Local i = 0;
    for (; i + most <= rows; i += most) block.template operator()<most>(i);
    for (; i < rows; ++i) block.template operator()<1>(i);
  }
}

}  // namespace tacit::dense
