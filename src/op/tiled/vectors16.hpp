// Vectors in 16 bits: the conversion to them, and the product of a row of a tiled matrix with them, with sums in float.
#pragma once

#include "kernels.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace tacit::op::detail {

/// out[i] = p[i] down[i] + a part of carry[i], rounded to 16 bits, for n columns of a row; carry[i] accumulates the
/// errors of the rows so far, for the next row. Errors of neighbouring rows then cancel where these are added with
/// similar weights, as in smooth rows of a matrix. A number takes at most half a unit in its last place of the carry,
/// so that its error stays within a unit, and zeros stay zero. Numbers that are not finite are kept and take nothing.
template <Vectors kind>
inline void narrow(const float* p, const float* down, float* carry, int n, std::uint16_t* out) {
  int i = 0;
#ifdef TACIT_AVX512
  const __m512 unit = _mm512_set1_ps(float(half_unit(kind))), most = _mm512_set1_ps(FLT_MAX);
  for (; i < n; i += 16) {
    const auto live = n - i >= 16 ? __mmask16(0xffff) : __mmask16((1u << (n - i)) - 1);
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(live, p + i), _mm512_maskz_loadu_ps(live, down + i));
    const __m512 size = _mm512_abs_ps(v), all = _mm512_maskz_loadu_ps(live, carry + i);
    const __mmask16 finite = _mm512_cmp_ps_mask(size, most, _CMP_LE_OQ);
    const __m512 room = _mm512_mul_ps(size, unit);
    const __m512 part = _mm512_maskz_max_ps(finite, _mm512_min_ps(all, room), _mm512_sub_ps(_mm512_setzero_ps(), room));
    const __m512 y = _mm512_add_ps(v, part);
    __m256i bits;
    __m512 rounded;
    if constexpr (kind == Vectors::half) {
      bits = _mm512_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      rounded = _mm512_cvtph_ps(bits);
    } else {
      const __m512i b = _mm512_castps_si512(y), high = _mm512_srli_epi32(b, 16);
      const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
      const __m512i up = _mm512_srli_epi32(_mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
      const __mmask16 none = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);
      const __m512i kept = _mm512_mask_or_epi32(up, none, high, _mm512_set1_epi32(0x40));
      bits = _mm512_cvtepi32_epi16(kept);
      rounded = _mm512_castsi512_ps(_mm512_slli_epi32(kept, 16));
    }
    _mm512_mask_storeu_ps(carry + i, finite & live, _mm512_add_ps(_mm512_sub_ps(all, part), _mm512_sub_ps(y, rounded)));
    _mm256_mask_storeu_epi16(out + i, live, bits);
  }
#endif
  for (; i < n; ++i) {
    const float v = p[i] * down[i], size = std::abs(v), room = size * float(half_unit(kind));
    const bool finite = size <= FLT_MAX;
    const float part = finite ? std::max(std::min(carry[i], room), -room) : 0.0f, y = v + part;
    out[i] = kind == Vectors::half ? to_half(y) : to_bfloat16(y);
    if (finite) carry[i] = (carry[i] - part) + (y - (kind == Vectors::half ? of_half(out[i]) : of_bfloat16(out[i])));
  }
}

template <Vectors kind>
inline Wide<float> wide_of(const std::uint16_t* p) {
#ifdef TACIT_AVX512
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  if constexpr (kind == Vectors::half) return {_mm512_cvtph_ps(b)};
  else return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16))};
#else
  Wide<float> w;
  for (int i = 0; i < lanes<float>; ++i) w.v[i] = kind == Vectors::half ? of_half(p[i]) : of_bfloat16(p[i]);
  return w;
#endif
}

/// As multiply_row, for Z registers of columns of which the first `columns` columns are stored; `up` (of the last
/// stage, else null) scales the sums.
template <int Z, Vectors kind, class Index>
void multiply_row16(const Index* index, const float* value, std::uint32_t n, const std::uint16_t* x, std::size_t stride,
                    int columns, float* y, bool first, const float* up, const Clamp<float>* clamp) {
  constexpr int w = lanes<float>, chains = Z == 1 ? 8 : Z == 2 ? 4 : Z == 4 ? 2 : 1;
  Wide<float> sum[chains][Z];
  for (auto& s : sum)
    for (auto& z : s) z = Wide<float>::zero();
  if (!first)
    for (int z = 0; z < Z; ++z) {
      const int live = columns - z * w;
      sum[0][z] = live >= w ? Wide<float>::load(y + z * w) : Wide<float>::load(y + z * w, live);
    }
  const auto add = [&](std::uint32_t i, Wide<float>* s) {
    const std::uint16_t* const from = x + std::size_t(index[i]) * stride;
    const auto v = Wide<float>::all(value[i]);
    for (int z = 0; z < Z; ++z) s[z].add_product(v, wide_of<kind>(from + z * w));
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
    if (up) s.times(Wide<float>::load(up + z * w));
    if (clamp) s.clamp(Wide<float>::all(clamp->bias), Wide<float>::all(clamp->low), Wide<float>::all(clamp->high));
    const int live = columns - z * w;
    if (live >= w) s.store(y + z * w);
    else s.store(y + z * w, live);
  }
}

}  // namespace tacit::op::detail
