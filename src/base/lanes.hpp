// Operations on numbers and on vectors of them (gcc's vector_size) that round alike with every compiler. The library is
// compiled without contraction (-ffp-contract=off), so that two loops that promise the same bits cannot differ by fused
// operations; where a fused multiply-add is faster, mul_add() is called explicitly.
#pragma once

#include "base/fused.hpp"

#include <type_traits>
#include <utility>

#if defined(__x86_64__) && defined(__FMA__) && !defined(__CUDACC__)
#include <immintrin.h>
#define TACIT_FMA_OF_X86 1
#endif

/// Marks a function that is compiled once, neither inlined nor specialised, so that its loops round alike for all
/// callers. (gcc 12 fuses products and sums of complex numbers where it vectorises them, also under
/// -ffp-contract=off, and does not vectorise every copy of a loop.)
#if defined(__clang__)
#define TACIT_COMPILED_ONCE __attribute__((noinline))
#else
#define TACIT_COMPILED_ONCE __attribute__((noinline, noclone))
#endif

namespace tacit {

/// a b + c, rounded once where has_fused. For float, double and vectors of them, lane by lane; a may be one number for
/// all lanes. The same bits in every loop and from every compiler.
template <class A, class V>
[[gnu::always_inline]] inline V mul_add(const A& a, const V& b, const V& c) {
  if constexpr (!has_fused) {
    return a * b + c;
  } else if constexpr (std::is_arithmetic_v<V>) {
    return mul_add(V(a), b, c);
  } else if constexpr (std::is_arithmetic_v<A>) {
    return mul_add(V(a - V{}), b, c);
  } else {
    // Intrinsics for whole registers: gcc does not always compile the loop below to one instruction.
#ifdef TACIT_FMA_OF_X86
    constexpr bool doubles = std::is_same_v<std::remove_cvref_t<decltype(b[0])>, double>;
#ifdef __AVX512F__
    if constexpr (sizeof(V) == 64) {
      if constexpr (doubles) return V(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
      else return V(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
    }
#endif
    if constexpr (sizeof(V) == 32) {
      if constexpr (doubles) return V(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
      else return V(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
    } else if constexpr (sizeof(V) == 16) {
      if constexpr (doubles) return V(_mm_fmadd_pd(__m128d(a), __m128d(b), __m128d(c)));
      else return V(_mm_fmadd_ps(__m128(a), __m128(b), __m128(c)));
    }
#endif
    V result;
#pragma GCC unroll 16
    for (int l = 0; l < int(sizeof(V) / sizeof(b[0])); ++l) result[l] = mul_add(a[l], b[l], c[l]);
    return result;
  }
}

/// Lane l of the result is lane of(l) of a, or lane of(l) - lanes of b.
template <auto of, class V>
[[gnu::always_inline]] inline V shuffled(const V& a, const V& b) {
  return [&]<int... l>(std::integer_sequence<int, l...>) __attribute__((always_inline)) {
    return V(__builtin_shufflevector(a, b, of(l)...));
  }
  (std::make_integer_sequence<int, int(sizeof(V) / sizeof(a[0]))>{});
}

}  // namespace tacit
