// Kernels of tiled matrices: a row of one stage times the columns of a register tile, or times a single column.
#pragma once

#include <tacit/op/tiled_matrix.hpp>

#include "simd.hpp"

#include <bit>
#include <cstddef>

namespace tacit::op::detail {

inline constexpr int run = 16;  // columns of a bit mask

/// y[c] += sum_i value[i] x[index[i] stride + c] (`first`: =) for Z registers of columns, the last of which has `tail`
/// columns where Tail is set; then the clamp. Several chains of sums hide the latency of additions where a tile has few
/// columns; they are added in a fixed order.
template <int Z, int chains, bool Tail, class T, class Index>
inline void multiply_row(const Index* index, const T* value, std::uint32_t n, const T* x, std::size_t stride, int tail,
                         T* y, bool first, const Clamp<T>* clamp) {
  constexpr int w = lanes<T>;
  Wide<T> sum[chains][Z];
  for (auto& s : sum)
    for (auto& z : s) z = Wide<T>::zero();
  const auto load = [&](const T* p, int z) {
    if constexpr (Tail)
      if (z == Z - 1) return Wide<T>::load(p + z * w, tail);
    return Wide<T>::load(p + z * w);
  };
  if (!first)
    for (int z = 0; z < Z; ++z) sum[0][z] = load(y, z);
  const auto add = [&](std::uint32_t i, Wide<T>* s) {
    const T* const from = x + std::size_t(index[i]) * stride;
    const auto v = Wide<T>::all(value[i]);
    for (int z = 0; z < Z; ++z) s[z].add_product(v, load(from, z));
  };
  std::uint32_t i = 0;
  for (; i + chains <= n; i += chains)
#pragma GCC unroll 8
    for (int u = 0; u < chains; ++u) add(i + std::uint32_t(u), sum[u]);
  for (; i < n; ++i) add(i, sum[0]);
  for (int half = chains / 2; half > 0; half /= 2)
    for (int u = 0; u < half; ++u)
      for (int z = 0; z < Z; ++z) sum[u][z].add(sum[u + half][z]);
  for (int z = 0; z < Z; ++z) {
    auto s = sum[0][z];
    if (clamp) s.clamp(Wide<T>::all(clamp->bias), Wide<T>::all(clamp->low), Wide<T>::all(clamp->high));
    if (Tail && z == Z - 1) s.store(y + z * w, tail);
    else s.store(y + z * w);
  }
}

/// Decodes the columns of runs; writes up to 16 numbers beyond the last. Returns their number.
inline std::uint32_t decode(const std::uint32_t* item, std::uint32_t n, std::uint32_t* out) {
  std::uint32_t count = 0;
#ifdef TACIT_AVX512
  const __m512i iota = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t a = item[i];
    const auto mask = __mmask16(a);
    const __m512i column = _mm512_add_epi32(iota, _mm512_set1_epi32(int(a >> 16) * run));
    _mm512_storeu_si512(out + count, _mm512_maskz_compress_epi32(mask, column));
    count += std::uint32_t(std::popcount(a & 0xffffu));
  }
#else
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t mask = item[i] & 0xffffu; mask; mask &= mask - 1)
      out[count++] = (item[i] >> 16) * run + std::uint32_t(std::countr_zero(mask));
#endif
  return count;
}

/// Converts stored numbers to T and multiplies 16-bit ones by `scale`; writes up to 16 numbers beyond the last.
template <class T>
inline void widen(Values how, const void* stored, std::size_t from, std::uint32_t n, T scale, T* out) {
  if (how == Values::single) {
    const float* v = static_cast<const float*>(stored) + from;
    for (std::uint32_t i = 0; i < n; ++i) out[i] = T(v[i]);
  } else {
    const std::uint16_t* v = static_cast<const std::uint16_t*>(stored) + from;
    if (how == Values::bfloat16) {
      for (std::uint32_t i = 0; i < n; ++i) out[i] = scale * T(of_bfloat16(v[i]));
      return;
    }
#ifdef TACIT_AVX512
    for (std::uint32_t i = 0; i < n; i += 16) {
      const __m512 f = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(v + i)));
      if constexpr (sizeof(T) == 4) {
        _mm512_storeu_ps(out + i, _mm512_mul_ps(f, _mm512_set1_ps(scale)));
      } else {
        const __m512d s = _mm512_set1_pd(scale);
        _mm512_storeu_pd(out + i, _mm512_mul_pd(s, _mm512_cvtps_pd(_mm512_castps512_ps256(f))));
        _mm512_storeu_pd(out + i + 8, _mm512_mul_pd(s, _mm512_cvtps_pd(_mm512_extractf32x8_ps(f, 1))));
      }
    }
#else
    for (std::uint32_t i = 0; i < n; ++i) out[i] = scale * T(of_half(v[i]));
#endif
  }
}

/// The product of runs with one column of x. `value` may be read up to 64 bytes beyond the last number.
template <class T>
inline T multiply_runs(const std::uint32_t* item, std::uint32_t n, const T* value, const T* x) {
#ifdef TACIT_AVX512
  if constexpr (sizeof(T) == 4) {
    __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    const auto add = [&](std::uint32_t a, __m512& s) {
      const auto mask = __mmask16(a);
      const __m512 v = _mm512_maskz_expand_ps(mask, _mm512_loadu_ps(value));
      value += std::popcount(a & 0xffffu);
      s = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(mask, x + std::size_t(a >> 16) * run), s);
    };
    std::uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
      add(item[i], sum[0]), add(item[i + 1], sum[1]), add(item[i + 2], sum[2]), add(item[i + 3], sum[3]);
    for (; i < n; ++i) add(item[i], sum[0]);
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
  } else {
    __m512d sum[4] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd()};
    const auto add = [&](std::uint32_t a, __m512d& s, __m512d& t) {
      const auto low = __mmask8(a), high = __mmask8(a >> 8);
      const T* const from = x + std::size_t(a >> 16) * run;
      s = _mm512_fmadd_pd(_mm512_maskz_expand_pd(low, _mm512_loadu_pd(value)), _mm512_maskz_loadu_pd(low, from), s);
      value += std::popcount(a & 0xffu);
      t = _mm512_fmadd_pd(_mm512_maskz_expand_pd(high, _mm512_loadu_pd(value)), _mm512_maskz_loadu_pd(high, from + 8),
                          t);
      value += std::popcount(a & 0xff00u);
    };
    std::uint32_t i = 0;
    for (; i + 2 <= n; i += 2) add(item[i], sum[0], sum[1]), add(item[i + 1], sum[2], sum[3]);
    for (; i < n; ++i) add(item[i], sum[0], sum[1]);
    return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(sum[0], sum[1]), _mm512_add_pd(sum[2], sum[3])));
  }
#else
  T sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const T* const from = x + std::size_t(item[i] >> 16) * run;
    for (std::uint32_t mask = item[i] & 0xffffu; mask; mask &= mask - 1) sum += *value++ * from[std::countr_zero(mask)];
  }
  return sum;
#endif
}

/// The same for values in halves, in float, without their scale.
inline float multiply_runs_of_halves(const std::uint32_t* item, std::uint32_t n, const std::uint16_t* value,
                                     const float* x) {
#ifdef TACIT_AVX512
  __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  const auto add = [&](std::uint32_t a, __m512& s) {
    const auto mask = __mmask16(a);
    const __m512 v =
        _mm512_maskz_expand_ps(mask, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(value))));
    value += std::popcount(a & 0xffffu);
    s = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(mask, x + std::size_t(a >> 16) * run), s);
  };
  std::uint32_t i = 0;
  for (; i + 4 <= n; i += 4)
    add(item[i], sum[0]), add(item[i + 1], sum[1]), add(item[i + 2], sum[2]), add(item[i + 3], sum[3]);
  for (; i < n; ++i) add(item[i], sum[0]);
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
#else
  float sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const float* const from = x + std::size_t(item[i] >> 16) * run;
    for (std::uint32_t mask = item[i] & 0xffffu; mask; mask &= mask - 1)
      sum += of_half(*value++) * from[std::countr_zero(mask)];
  }
  return sum;
#endif
}

/// sum value[i] x[index[i]].
template <class T, class Index>
inline T multiply_list(const Index* index, std::uint32_t n, const T* value, const T* x) {
#ifdef TACIT_AVX512
  if constexpr (sizeof(T) == 4) {
    __m512 sum = _mm512_setzero_ps();
    std::uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
      __m512i at;
      if constexpr (sizeof(Index) == 2)
        at = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index + i)));
      else at = _mm512_loadu_si512(index + i);
      sum = _mm512_fmadd_ps(_mm512_loadu_ps(value + i), _mm512_i32gather_ps(at, x, 4), sum);
    }
    float rest = _mm512_reduce_add_ps(sum);
    for (; i < n; ++i) rest += value[i] * x[index[i]];
    return rest;
  }
#endif
  T sum[4] = {};
  std::uint32_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::uint32_t u = 0; u < 4; ++u) sum[u] += value[i + u] * x[index[i + u]];
  for (; i < n; ++i) sum[0] += value[i] * x[index[i]];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace tacit::op::detail
