// The vector operations of the kernels of tiled matrices, on registers of 64 bytes of floats or doubles.
#pragma once

#include "base/lanes.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__F16C__)
#define TACIT_AVX512
#include <immintrin.h>
#endif

namespace tacit::op::detail {

template <class T>
inline constexpr int lanes = int(64 / sizeof(T));

#ifdef TACIT_AVX512
template <class T>
struct Wide;
template <>
struct Wide<float> {
  __m512 v;
  static Wide zero() { return {_mm512_setzero_ps()}; }
  static Wide all(float a) { return {_mm512_set1_ps(a)}; }
  static Wide load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Wide load(const float* p, int n) { return {_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p)}; }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(float* p, int n) const { _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v); }
  void add_product(Wide a, Wide b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
  void add(Wide a) { v = _mm512_add_ps(v, a.v); }
  void times(Wide a) { v = _mm512_mul_ps(v, a.v); }
  void clamp(Wide bias, Wide low, Wide high) {
    v = _mm512_min_ps(high.v, _mm512_max_ps(low.v, _mm512_add_ps(v, bias.v)));
  }
};
template <>
struct Wide<double> {
  __m512d v;
  static Wide zero() { return {_mm512_setzero_pd()}; }
  static Wide all(double a) { return {_mm512_set1_pd(a)}; }
  static Wide load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Wide load(const double* p, int n) { return {_mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p)}; }
  void store(double* p) const { _mm512_storeu_pd(p, v); }
  void store(double* p, int n) const { _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v); }
  void add_product(Wide a, Wide b) { v = _mm512_fmadd_pd(a.v, b.v, v); }
  void add(Wide a) { v = _mm512_add_pd(v, a.v); }
  void clamp(Wide bias, Wide low, Wide high) {
    v = _mm512_min_pd(high.v, _mm512_max_pd(low.v, _mm512_add_pd(v, bias.v)));
  }
};
#else
template <class T>
struct Wide {
  T v[lanes<T>];
  static Wide zero() { return all(T(0)); }
  static Wide all(T a) {
    Wide w;
    for (T& e : w.v) e = a;
    return w;
  }
  static Wide load(const T* p) {
    Wide w;
    std::memcpy(w.v, p, sizeof w.v);
    return w;
  }
  static Wide load(const T* p, int n) {
    Wide w = zero();
    for (int i = 0; i < n; ++i) w.v[i] = p[i];
    return w;
  }
  void store(T* p) const { std::memcpy(p, v, sizeof v); }
  void store(T* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
  void add_product(const Wide& a, const Wide& b) {
    for (int i = 0; i < lanes<T>; ++i) v[i] = mul_add(a.v[i], b.v[i], v[i]);
  }
  void add(const Wide& a) {
    for (int i = 0; i < lanes<T>; ++i) v[i] += a.v[i];
  }
  void times(const Wide& a) {
    for (int i = 0; i < lanes<T>; ++i) v[i] *= a.v[i];
  }
  void clamp(const Wide& bias, const Wide& low, const Wide& high) {
    for (int i = 0; i < lanes<T>; ++i) {
      const T s = v[i] + bias.v[i], m = low.v[i] > s ? low.v[i] : s;  // a NaN stays one
      v[i] = high.v[i] < m ? high.v[i] : m;
    }
  }
};
#endif

// --- 16-bit numbers
// ---------------------------------------------------------------------------------------------------

inline float float_of_bits(std::uint32_t b) {
  return std::bit_cast<float>(b);
}
/// The nearest half (IEEE binary16), ties to even; beyond its range infinite.
inline std::uint16_t to_half(float f) {
  const std::uint32_t b = std::bit_cast<std::uint32_t>(f), sign = b >> 16 & 0x8000u, mag = b & 0x7fffffffu;
  if (mag >= 0x7f800000u) return std::uint16_t(sign | (mag > 0x7f800000u ? 0x7e00u : 0x7c00u));
  if (mag >= 0x477ff000u) return std::uint16_t(sign | 0x7c00u);
  if (mag < 0x38800000u) {  // subnormal: a multiple of 2^-24
    const float scaled = float_of_bits(mag) * 16777216.0f;
    std::uint32_t n = std::uint32_t(scaled);
    const float rest = scaled - float(n);
    n += rest > 0.5f || (rest == 0.5f && (n & 1u));
    return std::uint16_t(sign | n);
  }
  const std::uint32_t kept = mag - 0x38000000u;
  return std::uint16_t(sign | ((kept + 0xfffu + (kept >> 13 & 1u)) >> 13));
}
inline float of_half(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16, mag = h & 0x7fffu;
  if (mag >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
  if (mag < 0x400u) return float_of_bits(sign | std::bit_cast<std::uint32_t>(float(mag) * 5.9604644775390625e-8f));
  return float_of_bits(sign | (mag + 0x1c000u) << 13);
}
/// The nearest bfloat16, ties to even.
inline std::uint16_t to_bfloat16(float f) {
  const std::uint32_t b = std::bit_cast<std::uint32_t>(f);
  if ((b & 0x7fffffffu) > 0x7f800000u) return std::uint16_t(b >> 16 | 0x40u);
  return std::uint16_t((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
inline float of_bfloat16(std::uint16_t h) {
  return float_of_bits(std::uint32_t(h) << 16);
}

}  // namespace tacit::op::detail
