// 64 bytes of numbers, a fixed-point position for each, and permutations that pick numbers by position.
#pragma once

#include "base/registers.hpp"

#include <cstdint>

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
  using Bits = std::uint32_t;
};
template <>
struct Lanes<double> {
  static constexpr int count = 8, digits = 4, window = 16;
  using Bits = std::uint64_t;
};

template <class T>
using Numbers = Registers<T, Lanes<T>::count>;
template <class T>
using Positions = Registers<typename Lanes<T>::Bits, Lanes<T>::count>;

/// Rotates positions so that the index is in the low bits, where permutations read it, and the fraction above it.
template <class T>
inline Positions<T> turned(const Positions<T>& u) {
  constexpr int d = Lanes<T>::digits;
#ifdef TACIT_PICKS
  using V = typename Positions<T>::V;
  if constexpr (sizeof(T) == 4) return {{V(_mm512_rol_epi32(__m512i(u.part[0]), d))}};
  else return {{V(_mm512_rol_epi64(__m512i(u.part[0]), d))}};
#else
  using Bits = typename Lanes<T>::Bits;
  return u << Bits(d) | u >> Bits(8 * int(sizeof(T)) - d);
#endif
}

/// The fraction of a turned position, in units of 2^-32 (double: 2^-64); the index in the low bits is negligible.
template <class T>
inline Numbers<T> fraction(const Positions<T>& turned) {
  return by_parts<Numbers<T>>([](const auto& u) { return __builtin_convertvector(u, typename Numbers<T>::V); }, turned);
}

template <class T>
inline Numbers<T> least(const Numbers<T>& a, const Numbers<T>& b) {
#ifdef TACIT_PICKS
  using V = typename Numbers<T>::V;
  if constexpr (sizeof(T) == 4) return {{V(_mm512_min_ps(__m512(a.part[0]), __m512(b.part[0])))}};
  else return {{V(_mm512_min_pd(__m512d(a.part[0]), __m512d(b.part[0])))}};
#else
  return by_parts<Numbers<T>>([](const auto& x, const auto& y) { return x < y ? x : y; }, a, b);
#endif
}
template <class T>
inline Numbers<T> most(const Numbers<T>& a, const Numbers<T>& b) {
#ifdef TACIT_PICKS
  using V = typename Numbers<T>::V;
  if constexpr (sizeof(T) == 4) return {{V(_mm512_max_ps(__m512(a.part[0]), __m512(b.part[0])))}};
  else return {{V(_mm512_max_pd(__m512d(a.part[0]), __m512d(b.part[0])))}};
#else
  return by_parts<Numbers<T>>([](const auto& x, const auto& y) { return x > y ? x : y; }, a, b);
#endif
}

/// Sums in double: rounding errors that are alike in neighbouring lanes would not average out later.
template <class T>
struct Sums {
  alignas(64) double of[Lanes<T>::count] = {};
  void add(const Numbers<T>& v, double scale) {
    alignas(64) T apart[Lanes<T>::count];
    v.store(apart);
#pragma omp simd
    for (int i = 0; i < Lanes<T>::count; ++i) of[i] += scale * double(apart[i]);
  }
};

/// The numbers of a window at turned positions.
template <class T>
inline Numbers<T> picked(const Positions<T>& turned, const T* window) {
#ifdef TACIT_PICKS
  using V = typename Numbers<T>::V;
  const auto at = __m512i(turned.part[0]);
  if constexpr (sizeof(T) == 4)
    return {{V(_mm512_permutex2var_ps(_mm512_loadu_ps(window), at, _mm512_loadu_ps(window + 16)))}};
  else return {{V(_mm512_permutex2var_pd(_mm512_loadu_pd(window), at, _mm512_loadu_pd(window + 8)))}};
#else
  typename Lanes<T>::Bits at[Lanes<T>::count];
  turned.store(at);
  return Numbers<T>::each_lane([&](int i) { return window[at[i] & (Lanes<T>::window - 1)]; });
#endif
}

}  // namespace tacit::app::tomography
