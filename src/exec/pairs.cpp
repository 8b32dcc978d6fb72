#include <tacit/exec/pairs.hpp>

#include "pair_spans.hpp"

#include <tacit/exec/sweep.hpp>
#include <tacit/exec/tasks.hpp>
#include "base/registers.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace tacit::exec {
namespace {

using detail::chunk_elements;
using detail::lanes;
using detail::parallel_from;
constexpr std::size_t chunk_rows = 4096;  // rows whose sums are formed together; the order depends on n only
constexpr std::size_t block_rows = 64;    // rows that are stored by columns in the first-level cache
constexpr int tile = 4;                   // columns of a tile of sums in registers

using LaneSums = Registers<double, lanes>;  // a sum for each lane

/// In double.
template <class V>
LaneSums widened(const V& sums) {
  if constexpr (V::lanes == LaneSums::lanes) {
    return by_parts<LaneSums>([](const auto& v) { return __builtin_convertvector(v, typename LaneSums::V); }, sums);
  } else {
    float apart[lanes];
    sums.store(apart);
    return LaneSums::each_lane([&](int l) { return apart[l]; });
  }
}

#if defined(__AVX512F__)
constexpr int at_once = 4;  // rows of a tile, limited by the registers
#else
constexpr int at_once = 1;
#endif

// sums[i][j] += a_i b_j, j < J, over block_rows rows, lane by lane; columns are block_rows apart. Real numbers only.
template <int I, int J, class R>
void multiply_tile(const R* a, const R* b, LaneSums (&sums)[I][tile]) {
  using V = Registers<R, lanes>;
  constexpr int step = std::min(I, at_once);
  static_assert(I % step == 0);
  for (int first = 0; first < I; first += step) {
    V acc[step][J] = {};
    for (std::size_t row = 0; row < block_rows; row += lanes) {
      V left[step];
#pragma GCC unroll 4
      for (int i = 0; i < step; ++i) left[i] = V::load(a + (first + i) * block_rows + row);
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) {
        const V right = V::load(b + j * block_rows + row);
#pragma GCC unroll 4
        for (int i = 0; i < step; ++i) acc[i][j] = mul_add(left[i], right, acc[i][j]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < step; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < J; ++j) sums[first + i][j] += widened(acc[i][j]);
  }
}

// Rows [begin, begin + m) of the real columns of some pairs, one column after the other; zero beyond m.
template <class R>
void lay_out(const R* const* v, int width, int columns, std::size_t begin, std::size_t m, R* out) {
  for (int first = 0; first < columns; first += width) {
    const R* const pair = v[first / width] + begin * width;
    const int here = std::min(width, columns - first);
    R* const block = out + std::size_t(first) * block_rows;
    if (width == 2 && here == 2) {
      // Compile-time strides, so that whole registers are loaded and split.
#pragma GCC ivdep
      for (std::size_t i = 0; i < m; ++i) block[i] = pair[2 * i], block[block_rows + i] = pair[2 * i + 1];
    } else {
      for (int c = 0; c < here; ++c)
        for (std::size_t i = 0; i < m; ++i) block[std::size_t(c) * block_rows + i] = pair[i * width + c];
    }
    for (int c = 0; c < here; ++c)
      std::fill(block + std::size_t(c) * block_rows + m, block + std::size_t(c + 1) * block_rows, R(0));
  }
}

constexpr int up_to_tile(int columns) {
  return (columns + tile - 1) / tile * tile;
}

// For m rows of N whole pairs (y0, y1) of real columns: (p, r) += (a0 y0 + a1 y1, c0 y0 + c1 y1), and e0 y0, e1 y1 are
// added to xs. Pairs keep their order in memory: registers are only swapped within pairs.
template <int N, class R>
void combine_pairs(const R* const* y, std::size_t m, const R* a, const R* c, const R* e, R* pair, R* xs) {
  using V = Registers<R, lanes>;
  const auto alternating = [](R even, R odd) { return V::each_lane([&](int l) { return l % 2 == 0 ? even : odd; }); };
  V straight[N] = {}, crossed[N] = {}, apart[N] = {};
  for (int k = 0; k < N; ++k) {
    if (a) straight[k] = alternating(a[2 * k], c[2 * k + 1]), crossed[k] = alternating(a[2 * k + 1], c[2 * k]);
    if (e) apart[k] = alternating(e[2 * k], e[2 * k + 1]);
  }
  std::size_t i = 0;
  for (; i + lanes <= 2 * m; i += lanes) {
    V sum{}, part{};
    if (a) sum = V::load(pair + i);
    if (e) part = V::load(xs + i);
    for (int k = 0; k < N; ++k) {
      const V v = V::load(y[k] + i);
      const V swapped = by_parts<V>([](const auto& p) { return shuffled<[](int l) { return l ^ 1; }>(p, p); }, v);
      if (a) sum += mul_add(straight[k], v, crossed[k] * swapped);
      if (e) part = mul_add(apart[k], v, part);
    }
    if (a) sum.store(pair + i);
    if (e) part.store(xs + i);
  }
  for (; i < 2 * m; i += 2)
    for (int k = 0; k < N; ++k) {
      const R p = y[k][i], r = y[k][i + 1];
      if (a) pair[i] += mul_add(a[2 * k], p, a[2 * k + 1] * r), pair[i + 1] += mul_add(c[2 * k + 1], r, c[2 * k] * p);
      if (e) xs[i] = mul_add(e[2 * k], p, xs[i]), xs[i + 1] = mul_add(e[2 * k + 1], r, xs[i + 1]);
    }
}

// The products of columns from those of their real parts, in tiles of the upper triangle; then those with the shadow.
template <Scalar T>
void take_tiles(const double* partial, int tiles, int columns, bool with_shadow, wide_t<T>* sums) {
  using Tile = double[tile][tile];
  using Strip = double[is_complex<T> ? 2 : 1][tile];
  const auto* const whole = reinterpret_cast<const Tile*>(partial);
  const auto real_sum = [&](int a, int b) {
    const std::size_t ta = a / tile, tb = b / tile;
    return whole[tb * (tb + 1) / 2 + ta][a % tile][b % tile];
  };
  const auto* const strips = reinterpret_cast<const Strip*>(whole + tiles * (tiles + 1) / 2);
  for (int b = 0; b < columns; ++b)
    for (int a = 0; a <= b; ++a) {
      auto& sum = sums[std::size_t(b) * (b + 1) / 2 + a];
      if constexpr (is_complex<T>)
        sum = {real_sum(2 * a, 2 * b) + real_sum(2 * a + 1, 2 * b + 1),
               real_sum(2 * a, 2 * b + 1) - real_sum(2 * a + 1, 2 * b)};
      else sum = real_sum(a, b);
    }
  if (!with_shadow) return;
  for (int b = 0; b < columns; ++b) {
    auto& sum = sums[pair_gram_size(columns, false) + b];
    if constexpr (is_complex<T>) {
      const auto& re = strips[2 * b / tile];
      sum = {re[0][2 * b % tile] + re[1][(2 * b + 1) % tile], re[0][(2 * b + 1) % tile] - re[1][2 * b % tile]};
    } else {
      sum = strips[b / tile][0][b % tile];
    }
  }
}

}  // namespace

template <Scalar T, Memory M>
void pair_gram(const T* const* v, const T* const* z, int columns, const T* shadow, bool with_shadow, std::size_t n,
               wide_t<T>* sums) {
  using R = real_t<T>;
  const bool same = v == z;
  const Span span = pair_gram_span<T>(same, columns, with_shadow, n);
  // A complex column is treated as two real ones, so that a complex product is made of four real ones.
  constexpr int parts = is_complex<T> ? 2 : 1;
  const int reals = columns * parts, padded = up_to_tile(reals), tiles = padded / tile;
  const auto* const vr = reinterpret_cast<const R* const*>(v);
  const auto* const zr = reinterpret_cast<const R* const*>(z);
  using TileSums = LaneSums[tile][tile];
  using StripSums = LaneSums[parts][tile];
  const std::size_t count = std::size_t(tiles) * (tiles + 1) / 2;
  const std::size_t doubles = count * tile * tile + std::size_t(tiles) * parts * tile;
  const std::size_t chunks = (n + chunk_rows - 1) / chunk_rows;
  static thread_local std::vector<double> store;
  store.assign(std::max<std::size_t>(chunks, 1) * doubles, 0.0);
  double* const partial = store.data();
  each(chunks, n > parallel_from, [&](std::size_t chunk) {
    static thread_local std::vector<R> left_store, right_store, shadow_store;
    left_store.assign(std::size_t(padded) * block_rows, R(0));
    if (!same) right_store.assign(std::size_t(padded) * block_rows, R(0));
    shadow_store.assign(parts * block_rows, R(0));
    R *const left = left_store.data(), *const right = same ? left : right_store.data(), *const s = shadow_store.data();
    static thread_local std::vector<LaneSums> sums_store;
    sums_store.assign(doubles, LaneSums{});
    const std::size_t end = std::min(n, (chunk + 1) * chunk_rows);
    for (std::size_t begin = chunk * chunk_rows; begin < end; begin += block_rows) {
      const std::size_t m = std::min(block_rows, end - begin);
      lay_out(vr, 2 * parts, reals, begin, m, left);
      if (!same) lay_out(zr, 2 * parts, reals, begin, m, right);
      auto* at = reinterpret_cast<TileSums*>(sums_store.data());
      // Blocks of s-step methods have 4 s + 1 columns: the last tile is one column wide.
      for (int b = 0; b < tiles; ++b) {
        const R* const columns_b = right + std::size_t(b) * tile * block_rows;
        const bool narrow = reals - b * tile <= parts;
        for (int a = 0; a <= b; ++a) {
          const R* const columns_a = left + std::size_t(a) * tile * block_rows;
          if (narrow) multiply_tile<tile, parts>(columns_a, columns_b, *at++);
          else multiply_tile<tile, tile>(columns_a, columns_b, *at++);
        }
      }
      if (!with_shadow) continue;
      const R* const whole = reinterpret_cast<const R*>(shadow);
      lay_out(&whole, parts, parts, begin, m, s);
      auto* strip = reinterpret_cast<StripSums*>(at);
      for (int b = 0; b < tiles; ++b)
        multiply_tile<parts, tile>(s, right + std::size_t(b) * tile * block_rows, *strip++);
    }
    double* const mine = partial + chunk * doubles;
    for (std::size_t i = 0; i < doubles; ++i)
      for (int l = 0; l < lanes; ++l) mine[i] += sums_store[i][l];
  });
  for (std::size_t chunk = 1; chunk < chunks; ++chunk)
    for (std::size_t i = 0; i < doubles; ++i) partial[i] += partial[chunk * doubles + i];

  take_tiles<T>(partial, tiles, columns, with_shadow, sums);
}

template <Scalar T, Memory M>
void pair_combine(T* const* v, int columns, const T* a, const T* c, const T* e, T* x, std::size_t n) {
  const Span span = pair_combine_span<T>(a, x, columns, n);
  constexpr std::size_t rows = 512;
  each((n + rows - 1) / rows, n > parallel_from, [&](std::size_t chunk) {
    const std::size_t begin = chunk * rows, m = std::min(rows, n - begin);
    T pair[2 * rows], xs[2 * rows];
    if (a) std::fill_n(pair, 2 * m, T(0));
    if (x) std::fill_n(xs, 2 * m, T(0));
    int k = 0;
    if constexpr (!is_complex<T>) {
      const auto some = [&]<int N>(std::integral_constant<int, N>) {
        const T* y[N];
        for (int j = 0; j < N; ++j) y[j] = v[k + j] + 2 * begin;
        combine_pairs<N>(y, m, a ? a + 2 * k : nullptr, a ? c + 2 * k : nullptr, x ? e + 2 * k : nullptr, pair, xs);
        k += N;
      };
      while (2 * k + 4 <= columns) some(std::integral_constant<int, 2>{});
      if (2 * k + 2 <= columns) some(std::integral_constant<int, 1>{});
    }
    for (; 2 * k < columns; ++k) {
      const T* const y = v[k] + 2 * begin;
      const bool both = 2 * k + 1 < columns;
      for (std::size_t i = 0; i < m; ++i) {
        // The second column of the last pair may be undefined.
        const T p = y[2 * i], r = both ? y[2 * i + 1] : T(0);
        if (a) {
          pair[2 * i] += a[2 * k] * p + (both ? a[2 * k + 1] * r : T(0));
          pair[2 * i + 1] += c[2 * k] * p + (both ? c[2 * k + 1] * r : T(0));
        }
        if (x) xs[2 * i] += e[2 * k] * p + (both ? e[2 * k + 1] * r : T(0));
      }
    }
    if (a) std::copy_n(pair, 2 * m, v[0] + 2 * begin);
    if (x)
      for (std::size_t i = 0; i < m; ++i) x[begin + i] += xs[2 * i] + xs[2 * i + 1];
  });
}

template <Scalar T, Memory M>
void pair_put(const T* x, int c, T* v, std::size_t n) {
  const Span span = pair_put_span<T>(n);
  settle();
  parallel_for(n, n > parallel_from, [=](std::size_t i) { v[2 * i + std::size_t(c)] = x[i]; });
}

template <Scalar T, Memory M>
double largest_magnitude(const T* v, std::size_t n, std::size_t stride) {
  const Span span = largest_magnitude_span<T>(n, stride);
  settle();
  const std::size_t chunks = (n + chunk_elements - 1) / chunk_elements;
  std::vector<double> largest(chunks);
  parallel_for(chunks, n > parallel_from, [&](std::size_t chunk) {
    const std::size_t begin = chunk * chunk_elements, end = std::min(n, begin + chunk_elements);
    double most = 0;
    int wrong = 0;  // NaN
    if constexpr (is_complex<T>) {
      for (std::size_t i = begin; i < end; ++i) {
        const double a = std::abs(v[i * stride]);
        most = a > most ? a : most, wrong += a != a;
      }
    } else {
#pragma omp simd reduction(max : most) reduction(+ : wrong)
      for (std::size_t i = begin; i < end; ++i) {
        const double a = std::abs(double(v[i * stride]));
        most = a > most ? a : most, wrong += a != a;
      }
    }
    largest[chunk] = wrong > 0 ? std::numeric_limits<double>::infinity() : most;
  });
  double most = 0;
  for (const double a : largest) most = std::max(most, a);
  return most;
}

#define TACIT_INSTANTIATE(T)                                                                                        \
  template void pair_gram<T, Host>(const T* const*, const T* const*, int, const T*, bool, std::size_t, wide_t<T>*); \
  template void pair_combine<T, Host>(T* const*, int, const T*, const T*, const T*, T*, std::size_t);               \
  template void pair_put<T, Host>(const T*, int, T*, std::size_t);                                                  \
  template double largest_magnitude<T, Host>(const T*, std::size_t, std::size_t);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::exec
