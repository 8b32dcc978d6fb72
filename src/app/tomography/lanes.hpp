// Registers of 64 bytes of numbers, registers with a fixed-point position for each, and permutations that pick numbers
// by position.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define TACIT_PICKS
#include <immintrin.h>
#endif

namespace tacit::app::tomography {

/// A position is a fixed-point number: its `digits` high bits are an index into a window of numbers, the others a
/// fraction.
template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  static constexpr int count = 16, digits = 5, window = 32;
  typedef float V __attribute__((vector_size(64)));
  using Bits = std::uint32_t;
  typedef Bits U __attribute__((vector_size(64)));
};
template <>
struct Lanes<double> {
  static constexpr int count = 8, digits = 4, window = 16;
  typedef double V __attribute__((vector_size(64)));
  using Bits = std::uint64_t;
  typedef Bits U __attribute__((vector_size(64)));
};

template <class T>
using Numbers = typename Lanes<T>::V;
template <class T>
using Positions = typename Lanes<T>::U;

template <class V, class T>
inline V loaded(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// Rotates positions so that the index is in the low bits, where permutations read it, and the fraction above it.
template <class T>
inline Positions<T> turned(Positions<T> u) {
  constexpr int d = Lanes<T>::digits;
#ifdef TACIT_PICKS
  if constexpr (sizeof(T) == 4) return Positions<T>(_mm512_rol_epi32(__m512i(u), d));
  else return Positions<T>(_mm512_rol_epi64(__m512i(u), d));
#else
  return u << d | u >> (8 * int(sizeof(T)) - d);
#endif
}

/// The fraction of a turned position, in units of 2^-32 (double: 2^-64); the index in the low bits is negligible.
template <class T>
inline Numbers<T> fraction(Positions<T> turned) {
  return __builtin_convertvector(turned, Numbers<T>);
}

template <class T>
inline Numbers<T> least(Numbers<T> a, Numbers<T> b) {
#ifdef TACIT_PICKS
  if constexpr (sizeof(T) == 4) return Numbers<T>(_mm512_min_ps(__m512(a), __m512(b)));
  else return Numbers<T>(_mm512_min_pd(__m512d(a), __m512d(b)));
#else
  return a < b ? a : b;
#endif
}
template <class T>
inline Numbers<T> most(Numbers<T> a, Numbers<T> b) {
#ifdef TACIT_PICKS
  if constexpr (sizeof(T) == 4) return Numbers<T>(_mm512_max_ps(__m512(a), __m512(b)));
  else return Numbers<T>(_mm512_max_pd(__m512d(a), __m512d(b)));
#else
  return a > b ? a : b;
#endif
}

/// Sums in double: rounding errors that are alike in neighbouring lanes would not average out later.
template <class T>
struct Sums {
  alignas(64) double of[Lanes<T>::count] = {};
  void add(Numbers<T> v, double scale) {
    alignas(64) T apart[Lanes<T>::count];
    std::memcpy(apart, &v, sizeof v);
#pragma omp simd
    for (int i = 0; i < Lanes<T>::count; ++i) of[i] += scale * double(apart[i]);
  }
};

/// The numbers of a window at turned positions.
template <class T>
inline Numbers<T> picked(Positions<T> turned, const T* window) {
#ifdef TACIT_PICKS
  if constexpr (sizeof(T) == 4)
    return Numbers<T>(_mm512_permutex2var_ps(_mm512_loadu_ps(window), __m512i(turned), _mm512_loadu_ps(window + 16)));
  else return Numbers<T>(_mm512_permutex2var_pd(_mm512_loadu_pd(window), __m512i(turned), _mm512_loadu_pd(window + 8)));
#else
  Numbers<T> v;
  for (int i = 0; i < Lanes<T>::count; ++i) v[i] = window[turned[i] & (Lanes<T>::window - 1)];
  return v;
#endif
}

}  // namespace tacit::app::tomography
