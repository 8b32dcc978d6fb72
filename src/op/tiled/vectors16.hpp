// Vectors in 16 bits: how they are made, and a row of a tiled matrix times them, with sums in float.
#pragma once

#include "kernels.hpp"

namespace tacit::op::detail {

/// out[i] = p[i] down[i] in 16 bits, n of them, rounded to nearest; what is no number stays so.
template <Vectors kind>
inline void narrow(const float* p, const float* down, int n, std::uint16_t* out) {
  int i = 0;
#ifdef TACIT_AVX512
  for (; i + 16 <= n; i += 16) {
    const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(p + i), _mm512_loadu_ps(down + i));
    __m256i bits;
    if constexpr (kind == Vectors::half) {
      bits = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      const __m512i b = _mm512_castps_si512(v), high = _mm512_srli_epi32(b, 16);
      const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
      const __m512i up = _mm512_srli_epi32(_mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
      const __mmask16 none = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
      bits = _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(up, none, high, _mm512_set1_epi32(0x40)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bits);
  }
#endif
  for (; i < n; ++i) {
    const float v = p[i] * down[i];
    out[i] = kind == Vectors::half ? to_half(v) : to_bfloat16(v);
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

/// As multiply_row, of Z whole registers of columns, `columns` of which are wanted; the last stage multiplies by `up`.
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
