// 64 bytes of numbers beside as many fixed-point positions, and how numbers are picked by position.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define TACIT_PICKS
#include <immintrin.h>
#endif

namespace tacit::app::tomography {

/// A position is a fixed-point number: `digits` bits of a whole number that tells where in a window, the rest a
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

/// Whole numbers to the low bits, fractions above them: what picks, and what the fraction is read of.
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

/// The fraction of a turned position, 1 being 2^32 (double: 2^64); the low bits are noise.
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

/// Sums in double: what is rounded alike in neighbouring lanes does not average out in what comes after.
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

/// Numbers of a window at turned positions.
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
