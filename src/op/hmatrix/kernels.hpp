// Products of small packed matrices with a few vectors, on vector registers. Matrices hold real numbers by columns, as
// S (double, float, or 16-bit integers that a scale belongs to), arithmetic is in A; K vectors at once. A complex
// column is two real ones, real parts and imaginary parts, and a complex vector two planes: so all loops below are
// real.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tacit::op::detail {

template <class A>
struct Lanes {
  static constexpr int count = int(64 / sizeof(A));
  typedef A type __attribute__((vector_size(64)));
};
template <class A>
using Vec = typename Lanes<A>::type;

template <class A, class S>
inline Vec<A> load(const S* p) {
  constexpr int n = Lanes<A>::count;
  typedef S Stored __attribute__((vector_size(n * sizeof(S))));
  Stored s;
  std::memcpy(&s, p, sizeof s);
  if constexpr (std::is_same_v<S, A>) {
    return s;
  } else if constexpr (std::is_integral_v<S>) {
    typedef std::int32_t Wide __attribute__((vector_size(n * 4)));
    return __builtin_convertvector(__builtin_convertvector(s, Wide), Vec<A>);
  } else {
    return __builtin_convertvector(s, Vec<A>);
  }
}
// Pairwise, in one order: the upper half to the lower, until one is left.
template <class A, int n = Lanes<A>::count, class V>
inline A add_lanes(const V& v) {
  if constexpr (n == 2) {
    return v[0] + v[1];
  } else {
    typedef A Half __attribute__((vector_size(n / 2 * sizeof(A))));
    Half low, high;
    std::memcpy(&low, &v, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
    return add_lanes<A, n / 2>(Half(low + high));
  }
}

/// `count` neighbouring elements of z, from `offset` on, times `scale`.
struct Run {
  std::uint32_t offset, count;
  double scale;
};

// Sums in float are handed on to R after so many terms, so that they stay good to about 2^-21.
inline constexpr int flush_columns = 128, flush_rows = 1024;

/// y += P z for V registers of rows: `rows` = V lanes; plane k of y begins at y + k ldy, of z at z + k ldz. p: the
/// first of these rows in the first column; columns are ld apart.
template <class S, class A, class R, int V, int K, bool Complex>
void strip(const S* p, std::ptrdiff_t ld, const Run* run, const Run* end, const A* z, std::ptrdiff_t ldz, R* y,
           std::ptrdiff_t ldy) {
  constexpr int n = Lanes<A>::count;
  Vec<A> sum[K][V] = {};
  const auto flush = [&] {
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        A a[n];
        std::memcpy(a, &sum[k][v], sizeof a);
        for (int i = 0; i < n; ++i) y[k * ldy + v * n + i] += R(a[i]);
        sum[k][v] = Vec<A>{};
      }
  };
  int since = 0;
  for (; run != end; ++run) {
    const A* const coefficient = z + run->offset;
    const A scale = A(run->scale);
    for (std::uint32_t j = 0; j < run->count; ++j) {
      A c[K];
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) c[k] = scale * coefficient[k * ldz + j];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const Vec<A> a = load<A>(p + v * n);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) sum[k][v] += a * c[k];
      }
      p += ld;
      if constexpr (Complex) {  // i times the imaginary column
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const Vec<A> a = load<A>(p + v * n);
#pragma GCC unroll 8
          for (int k = 0; k < K; k += 2) sum[k][v] -= a * c[k + 1], sum[k + 1][v] += a * c[k];
        }
        p += ld;
      }
      if constexpr (!std::is_same_v<A, R>)
        if (++since == flush_columns) flush(), since = 0;
    }
  }
  flush();
}

/// The same for any number of rows below a register's.
template <class S, class A, class R, int K, bool Complex>
void strip_tail(const S* p, int rows, std::ptrdiff_t ld, const Run* run, const Run* end, const A* z, std::ptrdiff_t ldz,
                R* y, std::ptrdiff_t ldy) {
  R sum[K][Lanes<A>::count] = {};
  for (; run != end; ++run) {
    const A* const coefficient = z + run->offset;
    const A scale = A(run->scale);
    for (std::uint32_t j = 0; j < run->count; ++j) {
      A c[K];
      for (int k = 0; k < K; ++k) c[k] = scale * coefficient[k * ldz + j];
      for (int k = 0; k < K; ++k)
        for (int i = 0; i < rows; ++i) sum[k][i] += R(A(p[i]) * c[k]);
      p += ld;
      if constexpr (Complex) {
        for (int k = 0; k < K; k += 2)
          for (int i = 0; i < rows; ++i) sum[k][i] -= R(A(p[i]) * c[k + 1]), sum[k + 1][i] += R(A(p[i]) * c[k]);
        p += ld;
      }
    }
  }
  for (int k = 0; k < K; ++k)
    for (int i = 0; i < rows; ++i) y[k * ldy + i] += sum[k][i];
}

/// y += P z, P with `rows` rows (any number), one after the other by strips: every number of P is read once.
template <class S, class A, class R, int K, bool Complex>
void multiply_add(const S* p, int rows, std::ptrdiff_t ld, const Run* run, const Run* end, const A* z,
                  std::ptrdiff_t ldz, R* y, std::ptrdiff_t ldy) {
  constexpr int n = Lanes<A>::count, most = K <= 2 ? 8 : 4;
  int row = 0;
  const auto take = [&]<int V>(std::integral_constant<int, V>) {
    if constexpr (V <= most)
      for (; rows - row >= V * n; row += V * n)
        strip<S, A, R, V, K, Complex>(p + row, ld, run, end, z, ldz, y + row, ldy);
  };
  take(std::integral_constant<int, 8>{});
  take(std::integral_constant<int, 4>{});
  take(std::integral_constant<int, 2>{});
  take(std::integral_constant<int, 1>{});
  if (row < rows) strip_tail<S, A, R, K, Complex>(p + row, rows - row, ld, run, end, z, ldz, y + row, ldy);
}

/// out[c K + k] = sum_i p(i, c) x_k(i) for C columns of m rows.
template <class S, class A, class R, int C, int K>
void dot_columns(const S* p, std::ptrdiff_t m, const A* x, std::ptrdiff_t ldx, R* out) {
  constexpr int n = Lanes<A>::count;
  constexpr std::ptrdiff_t chunk = std::is_same_v<A, R> ? std::ptrdiff_t(1) << 40 : flush_rows;
  R total[C][K] = {};
  for (std::ptrdiff_t begin = 0; begin < m; begin += chunk) {
    const std::ptrdiff_t end = m - begin < chunk ? m : begin + chunk;
    Vec<A> sum[C][K] = {};
    std::ptrdiff_t i = begin;
    for (; i + n <= end; i += n) {
      Vec<A> b[K];
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) b[k] = load<A>(x + k * ldx + i);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const Vec<A> a = load<A>(p + c * m + i);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) sum[c][k] += a * b[k];
      }
    }
    for (int c = 0; c < C; ++c)
      for (int k = 0; k < K; ++k) {
        A s = add_lanes<A>(sum[c][k]);
        for (std::ptrdiff_t l = i; l < end; ++l) s += A(p[c * m + l]) * x[k * ldx + l];
        total[c][k] += R(s);
      }
  }
  for (int c = 0; c < C; ++c)
    for (int k = 0; k < K; ++k) out[c * K + k] = total[c][k];
}

/// out[c K + k] = sum_i p(i, c) x_k(i) for `columns` real columns of m rows.
template <class S, class A, class R, int K>
void dots(const S* p, std::ptrdiff_t m, std::ptrdiff_t columns, const A* x, std::ptrdiff_t ldx, R* out) {
  constexpr int C = 4;
  std::ptrdiff_t c = 0;
  for (; c + C <= columns; c += C) dot_columns<S, A, R, C, K>(p + c * m, m, x, ldx, out + c * K);
  if (columns - c >= 2) dot_columns<S, A, R, 2, K>(p + c * m, m, x, ldx, out + c * K), c += 2;
  if (columns > c) dot_columns<S, A, R, 1, K>(p + c * m, m, x, ldx, out + c * K);
}

}  // namespace tacit::op::detail
