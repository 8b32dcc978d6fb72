// Products of small packed matrices with K vectors, on vector registers. Matrices hold real numbers by columns in type
// S (double, float, or scaled 16-bit integers); arithmetic is in R, the real form of the scalar. A complex column is
// stored as two real ones (real and imaginary parts), and a complex vector as two planes, so all loops below are real.
#pragma once

#include "base/registers.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __SSE4_1__
#include <immintrin.h>
#endif

namespace tacit::op::detail {

/// 64 bytes of A, in registers.
template <class A>
using Vec = Registers<A, int(64 / sizeof(A))>;
template <class A>
inline constexpr int lanes_of = int(64 / sizeof(A));

/// Loads 64 bytes of A from numbers in type S, with intrinsics where possible: compilers convert inefficiently.
template <class A, class S>
inline Vec<A> load(const S* p) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<A, double> && std::is_same_v<S, float>) {
    return {(typename Vec<A>::V)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p))};
  } else if constexpr (std::is_same_v<A, double> && std::is_integral_v<S>) {
#ifdef __AVX512DQ__  // via 64-bit integers, of the same width as doubles: 25 GB/s on a core instead of 18
    return {(typename Vec<A>::V)_mm512_maskz_cvtepi64_pd(
        0xff, _mm512_maskz_cvtepi16_epi64(0xff, _mm_loadu_si128((const __m128i*)p)))};
#else
    return {
        (typename Vec<A>::V)_mm512_maskz_cvtepi32_pd(0xff, _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i*)p)))};
#endif
  } else if constexpr (std::is_same_v<A, float> && std::is_integral_v<S>) {
    return {(typename Vec<A>::V)_mm512_maskz_cvtepi32_ps(
        0xffff, _mm512_maskz_cvtepi16_epi32(0xffff, _mm256_loadu_si256((const __m256i*)p)))};
  }
#endif
  using V = typename Vec<A>::V;
  using Stored = Registers<S, lanes_of<A>, Vec<A>::lanes>;
  return Vec<A>::each([&](int i) __attribute__((always_inline)) {
    using Wide = typename Registers<std::int32_t, Vec<A>::lanes>::V;
#ifdef __SSE4_1__
    if constexpr (std::is_integral_v<S> && Vec<A>::lanes == 4) {
      return __builtin_convertvector((Wide)_mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i*)(p + 4 * i))), V);
    } else if constexpr (std::is_integral_v<S> && Vec<A>::lanes == 2) {
      int two;
      std::memcpy(&two, p + 2 * i, sizeof two);
      return (V)_mm_cvtepi32_pd(_mm_cvtepi16_epi32(_mm_cvtsi32_si128(two)));
    }
#endif
    const auto s = Stored::load(p, i);
    if constexpr (std::is_same_v<S, A>) return s;
    else if constexpr (std::is_integral_v<S>) return __builtin_convertvector(__builtin_convertvector(s, Wide), V);
    else return __builtin_convertvector(s, V);
  });
}

/// `count` neighbouring elements of z, from `offset` on, times `scale`.
struct Run {
  std::uint32_t offset, count;
  double scale;
};

// The prefetch distance in bytes. With conversions few loads are in flight: without prefetching, products of matrices
// in memory took twice as long.
inline constexpr int ahead = 4096;

/// y += P z for V registers of rows and K planes; plane k of y begins at y + k ldy, of z at z + k ldz. p: the first of
/// these rows in the first column; columns are ld apart.
template <class S, class R, int V, int K, bool Complex>
void strip(const S* p, std::ptrdiff_t ld, const Run* run, const Run* end, const R* z, std::ptrdiff_t ldz, R* y,
           std::ptrdiff_t ldy) {
  constexpr int n = lanes_of<R>;
  Vec<R> sum[K][V] = {};
  for (; run != end; ++run) {
    const R* const coefficient = z + run->offset;
    const R scale = R(run->scale);
    for (std::uint32_t j = 0; j < run->count; ++j) {
      R c[K];
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) c[k] = scale * coefficient[k * ldz + j];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        if (v * n * sizeof(S) % 64 == 0) __builtin_prefetch(reinterpret_cast<const char*>(p + v * n) + ahead);
        const Vec<R> a = load<R>(p + v * n);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) sum[k][v] = mul_add(c[k], a, sum[k][v]);
      }
      p += ld;
      if constexpr (Complex) {  // i times the imaginary column
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const Vec<R> a = load<R>(p + v * n);
#pragma GCC unroll 8
          for (int k = 0; k < K; k += 2)
            sum[k][v] = mul_add(-c[k + 1], a, sum[k][v]), sum[k + 1][v] = mul_add(c[k], a, sum[k + 1][v]);
        }
        p += ld;
      }
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < K; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) (Vec<R>::load(y + k * ldy + v * n) + sum[k][v]).store(y + k * ldy + v * n);
}

/// The same for fewer rows than a register has lanes.
template <class S, class R, int K, bool Complex>
void strip_tail(const S* p, int rows, std::ptrdiff_t ld, const Run* run, const Run* end, const R* z, std::ptrdiff_t ldz,
                R* y, std::ptrdiff_t ldy) {
  R sum[K][lanes_of<R>] = {};
  for (; run != end; ++run) {
    const R* const coefficient = z + run->offset;
    const R scale = R(run->scale);
    for (std::uint32_t j = 0; j < run->count; ++j) {
      R c[K];
      for (int k = 0; k < K; ++k) c[k] = scale * coefficient[k * ldz + j];
      for (int k = 0; k < K; ++k)
        for (int i = 0; i < rows; ++i) sum[k][i] = mul_add(c[k], R(p[i]), sum[k][i]);
      p += ld;
      if constexpr (Complex) {
        for (int k = 0; k < K; k += 2)
          for (int i = 0; i < rows; ++i)
            sum[k][i] = mul_add(-c[k + 1], R(p[i]), sum[k][i]), sum[k + 1][i] = mul_add(c[k], R(p[i]), sum[k + 1][i]);
        p += ld;
      }
    }
  }
  for (int k = 0; k < K; ++k)
    for (int i = 0; i < rows; ++i) y[k * ldy + i] += sum[k][i];
}

/// y += P z, P with any number of rows, by strips of rows; every number of P is read once.
template <class S, class R, int K, bool Complex>
void multiply_add(const S* p, int rows, std::ptrdiff_t ld, const Run* run, const Run* end, const R* z,
                  std::ptrdiff_t ldz, R* y, std::ptrdiff_t ldy) {
  constexpr int n = lanes_of<R>, parts = Vec<R>::parts;
  constexpr int most = parts == 1 ? (K <= 2 ? 8 : 4) : std::max(1, 12 / (K * parts));  // the sums fit the registers
  int row = 0;
  const auto take = [&]<int V>(std::integral_constant<int, V>) {
    if constexpr (V <= most)
      for (; rows - row >= V * n; row += V * n) strip<S, R, V, K, Complex>(p + row, ld, run, end, z, ldz, y + row, ldy);
  };
  take(std::integral_constant<int, 8>{});
  take(std::integral_constant<int, 6>{});  // panels of 48 rows
  take(std::integral_constant<int, 4>{});
  take(std::integral_constant<int, 3>{});
  take(std::integral_constant<int, 2>{});
  take(std::integral_constant<int, 1>{});
  if (row < rows) strip_tail<S, R, K, Complex>(p + row, rows - row, ld, run, end, z, ldz, y + row, ldy);
}

/// out[c K + k] = sum_i p(i, c) x_k(i) for C columns of m rows. With few columns each has several partial sums, so that
/// enough additions are independent.
template <class S, class R, int C, int K>
void dot_columns(const S* p, std::ptrdiff_t m, const R* x, std::ptrdiff_t ldx, R* out) {
  constexpr int n = lanes_of<R>, line = 64 / int(sizeof(S)), steps = line / n;
  constexpr int sums = C * K >= 4 ? 1 : steps < 4 / (C * K) ? steps : 4 / (C * K);
  Vec<R> sum[sums][C][K] = {};
  const auto step = [&](std::ptrdiff_t i, Vec<R>(&to)[C][K]) __attribute__((always_inline)) {
    Vec<R> b[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) b[k] = load<R>(x + k * ldx + i);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const Vec<R> a = load<R>(p + c * m + i);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) to[c][k] = mul_add(a, b[k], to[c][k]);
    }
  };
  // One cache line of each column at a time, with one prefetch for each.
  const auto fetch = [&](std::ptrdiff_t i) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) __builtin_prefetch(reinterpret_cast<const char*>(p + c * m + i) + ahead);
  };
  std::ptrdiff_t i = 0;
  for (; i + line <= m; i += line) {
    fetch(i);
#pragma GCC unroll 8
    for (int l = 0; l < steps; ++l) step(i + l * n, sum[l % sums]);
  }
  if (i + n <= m) fetch(i);
  for (; i + n <= m; i += n) step(i, sum[0]);
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c)
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
#pragma GCC unroll 8
      for (int a = 1; a < sums; ++a) sum[0][c][k] += sum[a][c][k];
      R s = add_lanes(sum[0][c][k]);
      for (std::ptrdiff_t l = i; l < m; ++l) s = mul_add(R(p[c * m + l]), x[k * ldx + l], s);
      out[c * K + k] = s;
    }
}

/// out[c K + k] = sum_i p(i, c) x_k(i) for `columns` real columns of m rows.
template <class S, class R, int K>
void dots(const S* p, std::ptrdiff_t m, std::ptrdiff_t columns, const R* x, std::ptrdiff_t ldx, R* out) {
  constexpr int C = 4;
  std::ptrdiff_t c = 0;
  for (; c + C <= columns; c += C) dot_columns<S, R, C, K>(p + c * m, m, x, ldx, out + c * K);
  if (columns - c == 3) return dot_columns<S, R, 3, K>(p + c * m, m, x, ldx, out + c * K);
  if (columns - c == 2) return dot_columns<S, R, 2, K>(p + c * m, m, x, ldx, out + c * K);
  if (columns > c) dot_columns<S, R, 1, K>(p + c * m, m, x, ldx, out + c * K);
}

}  // namespace tacit::op::detail
