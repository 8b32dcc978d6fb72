// The fused multiply-add of numbers, also for code that nvcc compiles; of vectors: lanes.hpp.
#pragma once

namespace tacit {

/// Whether mul_add() rounds once. On processors without that instruction it rounds the product and then the sum, since
/// fma() of the C library is slow there.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool has_fused = true;
#else
inline constexpr bool has_fused = false;
#endif
/// a b + c, rounded once where has_fused.
inline double mul_add(double a, double b, double c) {
  if constexpr (has_fused) return __builtin_fma(a, b, c);
  else return a * b + c;
}
inline float mul_add(float a, float b, float c) {
  if constexpr (has_fused) return __builtin_fmaf(a, b, c);
  else return a * b + c;
}

}  // namespace tacit
