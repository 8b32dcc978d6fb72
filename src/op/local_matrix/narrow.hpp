// Values that fewer bits hold exactly: how LocalMatrix stores them, and how products widen them again.
#pragma once

#include <tacit/base/types.hpp>
#include "base/lanes.hpp"
#include "base/registers.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tacit::op {

/// The upper half of a float.
struct Bfloat16 {
  std::uint16_t bits;
};

/// The types in which values of type T may be stored. T itself for complex numbers: gcc 12 fuses their products and
/// sums in some copies of a loop (base/lanes.hpp), so that a loop of its own for narrower ones could round differently.
template <Scalar T>
using InSingle = std::conditional_t<is_complex<T>, T, float>;
template <Scalar T>
using InBfloat16 = std::conditional_t<is_complex<T>, T, Bfloat16>;
template <Scalar T, class V>
inline constexpr bool is_narrower = !std::same_as<T, V>;

/// 0 if a real number is exact with 8 (Bfloat16) or 24 (float) bits of mantissa and the exponents of float. From its
/// bits, since a conversion may raise floating-point exceptions, and without branches, so that loops over many are
/// vectorised. Zeros keep their signs. What is not finite counts as inexact, as NaN has bits that a conversion may
/// change; so does what a float holds as a subnormal number only, which is zero on processors that are set so (as code
/// that is compiled with -ffast-math sets them).
template <class V, std::floating_point R>
inline auto inexact(R v) {
  constexpr bool is_double = sizeof(R) == 8;
  using Bits = std::conditional_t<is_double, std::uint64_t, std::uint32_t>;
  constexpr int mantissa = is_double ? 52 : 23, kept = std::same_as<V, Bfloat16> ? 7 : 23;
  constexpr Bits lost = (Bits(1) << (mantissa - kept)) - 1, magnitude = ~Bits(0) >> 1;
  constexpr Bits one = std::bit_cast<Bits>(R(1)), least = one - (Bits(126) << mantissa);
  constexpr Bits normals = Bits(254) << mantissa;
  const Bits all = std::bit_cast<Bits>(v), size = all & magnitude;
  const Bits outside = size - least < normals ? Bits(0) : size;
  return Bits((all & lost) | outside);
}

/// v as V, where it is exact.
template <class V, class T>
inline V shortened(T v) {
  if constexpr (std::same_as<V, Bfloat16>) return {std::uint16_t(std::bit_cast<std::uint32_t>(float(v)) >> 16)};
  else return V(v);
}

/// The same number as T.
template <class T, class V>
[[gnu::always_inline]] inline T widen(V v) {
  if constexpr (std::same_as<V, Bfloat16>) return T(std::bit_cast<float>(std::uint32_t(v.bits) << 16));
  else return T(v);
}

/// Part i of the numbers at `from` as a part of R = Registers<T, ..>.
template <class R, class V>
[[gnu::always_inline]] inline typename R::V load_widened(const V* from, int i) {
  using T = std::remove_cvref_t<decltype(typename R::V{}[0])>;
  constexpr int lanes = R::lanes;
  if constexpr (std::same_as<V, T>) {
    return R::load(from, i);
  } else {
    from += i * lanes;
    using Floats = typename Registers<float, lanes, lanes>::V;
    using Halves = typename Registers<std::uint16_t, lanes, lanes>::V;
    using Words = typename Registers<std::uint32_t, lanes, lanes>::V;
    Floats f;
    if constexpr (std::same_as<V, float>) {
      std::memcpy(&f, from, sizeof f);
    } else {
      Words w;
#ifdef __AVX2__  // gcc 12 widens vectors half by half
      if constexpr (lanes == 8)
        w = Words(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
      else
#endif
      {
        Halves h;
        std::memcpy(&h, from, sizeof h);
        w = __builtin_convertvector(h, Words);
      }
      w <<= 16;
      std::memcpy(&f, &w, sizeof f);
    }
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 8 && lanes == 8)  // with a mask, as gcc 12 warns of the plain one
      return typename R::V(_mm512_maskz_cvtps_pd(0xff, __m256(f)));
    else
#endif
        if constexpr (sizeof(T) == 4)
      return f;
    else return __builtin_convertvector(f, typename R::V);
  }
}

/// Part i of the numbers at `from` that `mask` has a bit for; zeros elsewhere, where nothing is read.
template <class R, class T>
[[gnu::always_inline]] inline typename R::V load_masked(const T* from, int i, unsigned mask) {
  constexpr int lanes = R::lanes;
  mask >>= i * lanes;
  from += i * lanes;
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 8 && lanes == 8) return typename R::V(_mm512_maskz_loadu_pd(__mmask8(mask), from));
#endif
#ifdef __AVX512VL__
  if constexpr (sizeof(T) == 4 && lanes == 8) return typename R::V(_mm256_maskz_loadu_ps(__mmask8(mask), from));
#endif
  if (mask % (1u << lanes) == (1u << lanes) - 1) [[likely]]
    return R::load(from, 0);
  T some[lanes];
  for (int l = 0; l < lanes; ++l) some[l] = mask >> l & 1 ? from[l] : T{};
  return R::load(some, 0);
}

}  // namespace tacit::op
