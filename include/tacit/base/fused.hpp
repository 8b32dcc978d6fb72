// Products and sums in one rounding, asked for by name: the library is compiled without contraction, so that a compiler
// cannot fuse one of two loops that promise the same bits and not the other.
#pragma once

#include <type_traits>

namespace tacit {

/// Whether mul_add() rounds once. On processors without such an instruction it rounds the product and then the sum: the
/// C library's fma() would compute it by software.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool has_fused = true;
#else
inline constexpr bool has_fused = false;
#endif

/// a b + c, rounded once where has_fused. For float, double and vectors of them (gcc's vector_size), lane by lane; a may
/// be one number for all lanes. The same bits in every loop and from every compiler of a build.
template <class A, class V>
[[gnu::always_inline]] inline V mul_add(const A& a, const V& b, const V& c) {
  if constexpr (!has_fused) {
    return a * b + c;
  } else if constexpr (std::is_same_v<V, double>) {
    return __builtin_fma(a, b, c);
  } else if constexpr (std::is_same_v<V, float>) {
    return __builtin_fmaf(a, b, c);
  } else if constexpr (std::is_arithmetic_v<A>) {
    return mul_add(V(a - V{}), b, c);
  } else {
    // One instruction for each register: compilers know this loop.
    V result;
#pragma GCC unroll 16
    for (int l = 0; l < int(sizeof(V) / sizeof(b[0])); ++l) result[l] = mul_add(a[l], b[l], c[l]);
    return result;
  }
}

}  // namespace tacit
