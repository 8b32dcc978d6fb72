// Lines of cells whose even and odd places are stored apart: what red-black sweeps read and write is contiguous.
//
// A line of n cells with a ghost at either end has places 0 .. n + 1. Place 2 m stands at m of the even half, 2 m + 1
// at m of the odd half. The neighbours of an even place are m - 1 and m of the odd half, those of an odd one m and m +
// 1 of the even half; across lines a place keeps its half and m.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tacit::precond::mg {

// Half lines from the first cell of a half on. l, r: neighbours on the line, y, z: on the lines around.
template <class S>
struct Around {
  const S *l, *r, *ym, *yp, *zm, *zp;
};
template <class S>
struct Faces {
  const S *xl, *xr, *yl, *yr, *zl, *zr;
};
template <class S>
struct Weights {  // of constant coefficients
  S x, y, z;
};

template <int D, class S>
inline S gather(const Around<S>& u, const Faces<S>& c, std::ptrdiff_t m) {
  S sum = c.xl[m] * u.l[m] + c.xr[m] * u.r[m];
  if constexpr (D > 1) sum += c.yl[m] * u.ym[m] + c.yr[m] * u.yp[m];
  if constexpr (D > 2) sum += c.zl[m] * u.zm[m] + c.zr[m] * u.zp[m];
  return sum;
}
template <int D, class S>
inline S gather(const Around<S>& u, const Weights<S>& c, std::ptrdiff_t m) {
  S sum = c.x * (u.l[m] + u.r[m]);
  if constexpr (D > 1) sum += c.y * (u.ym[m] + u.yp[m]);
  if constexpr (D > 2) sum += c.z * (u.zm[m] + u.zp[m]);
  return sum;
}

// u := (f + sum c u) / D
template <int D, class S, class C>
inline void relax(const Around<S> u, const C c, const S* f, const S* inverse, std::ptrdiff_t n, S* __restrict own) {
#pragma GCC ivdep
  for (std::ptrdiff_t m = 0; m < n; ++m) own[m] = (f[m] + gather<D>(u, c, m)) * inverse[m];
}
template <int D, class S, class C>
inline void relax(const Around<S> u, const C c, const S* f, S inverse, std::ptrdiff_t n, S* __restrict own) {
#pragma GCC ivdep
  for (std::ptrdiff_t m = 0; m < n; ++m) own[m] = (f[m] + gather<D>(u, c, m)) * inverse;
}
// r := f + sum c u - D u, or added to r
template <int D, bool Add, class S, class C>
inline void residual(const Around<S> u, const C c, const S* f, const S* inverse, const S* own, std::ptrdiff_t n,
                     S* __restrict r) {
#pragma GCC ivdep
  for (std::ptrdiff_t m = 0; m < n; ++m) {
    const S v = ((f[m] + gather<D>(u, c, m)) * inverse[m] - own[m]) / inverse[m];
    if constexpr (Add) r[m] += v;
    else r[m] = v;
  }
}
template <int D, bool Add, class S, class C>
inline void residual(const Around<S> u, const C c, const S* f, S diagonal, const S* own, std::ptrdiff_t n,
                     S* __restrict r) {
#pragma GCC ivdep
  for (std::ptrdiff_t m = 0; m < n; ++m) {
    const S v = (f[m] + gather<D>(u, c, m)) - diagonal * own[m];
    if constexpr (Add) r[m] += v;
    else r[m] = v;
  }
}

// Buffers of a thread: lines in natural order, a ghost at either end.
template <class S>
struct Lines {
  S *a = nullptr, *b = nullptr, *c = nullptr;
  static Lines& mine(std::size_t n) {
    static thread_local Lines lines;
    if (lines.size_ < n) lines.take(n);
    return lines;
  }

 private:
  void take(std::size_t n) {
    constexpr std::size_t line = 64 / sizeof(S);  // each begins a line of the cache
    const std::size_t stride = (n + 2 + line - 1) / line * line;
    memory_.resize(3 * stride + line);
    a = memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) / sizeof(S);
    b = a + stride, c = b + stride, size_ = n;
  }
  std::vector<S> memory_;
  std::size_t size_ = 0;
};

// Cells -1 .. n of a line in natural order, from its halves.
template <class S>
void natural(const S* even, const S* odd, std::ptrdiff_t n, S* out) {
  const std::ptrdiff_t pairs = (n + 2) / 2;
  for (std::ptrdiff_t m = 0; m < pairs; ++m) out[2 * m] = even[m], out[2 * m + 1] = odd[m];
  if (n % 2) out[n + 1] = even[pairs];
}

}  // namespace tacit::precond::mg
