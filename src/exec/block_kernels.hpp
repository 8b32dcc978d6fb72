// Gram-Schmidt on blocks of vectors, written over a Team (team.hpp) and on kernel_scalar_t. src/exec/block_basis.cu
// launches these on the GPU; tests/exec/team_kernels_test.cpp runs them here.
#pragma once

#include <tacit/exec/basis.hpp>
#include <tacit/exec/kernels.hpp>

#include <bit>

namespace tacit::exec {

TACIT_HD inline float widen_bits(Bfloat16 a) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<std::uint32_t>(a.bits) << 16);
#else
  return std::bit_cast<float>(static_cast<std::uint32_t>(a.bits) << 16);
#endif
}
TACIT_HD inline Bfloat16 narrow_bits(float a) {
#ifdef __CUDA_ARCH__
  const std::uint32_t bits = __float_as_uint(a);
#else
  const auto bits = std::bit_cast<std::uint32_t>(a);
#endif
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
/// A stored value as T.
template <class T, class S>
TACIT_HD T widened(const S& a) {
  if constexpr (std::is_same_v<S, T>) return a;
  else if constexpr (std::is_same_v<S, Bfloat16>) return T(widen_bits(a));
  else if constexpr (std::is_same_v<S, ComplexBfloat16>)
    return T(real_t<T>(widen_bits(a.re)), real_t<T>(widen_bits(a.im)));
  else if constexpr (is_complex<T>) return T(real_t<T>(a.real()), real_t<T>(a.imag()));
  else return T(a);
}
/// T rounded to what is stored.
template <class S, class T>
TACIT_HD S narrowed(const T& a) {
  if constexpr (std::is_same_v<S, T>) return a;
  else if constexpr (std::is_same_v<S, Bfloat16>) return narrow_bits(float(a));
  else if constexpr (std::is_same_v<S, ComplexBfloat16>)
    return {narrow_bits(float(a.real())), narrow_bits(float(a.imag()))};
  else if constexpr (is_complex<T>) return S(real_t<S>(a.real()), real_t<S>(a.imag()));
  else return S(a);
}

/// partial[slice (rows columns) + c rows + r] = slice's share of q_r^H v_c. A group of 32 lanes holds a tile of R rows
/// and C columns in registers; teams that share a slice of the elements have consecutive numbers, so that its vectors
/// are read from memory once.
template <class T, class S, int MostRows, int MostColumns, int R, int C, int W, int Groups>
struct BlockDots {
  static constexpr int threads = 32 * Groups;
  static constexpr int width = Packet<char, W>::count;
  using Shared = NothingShared;
  Global n;
  int rows, columns;
  Global slices;
  T* partial;
  const S* q[MostRows];
  const T* v[MostColumns];

  TACIT_HD int tile_rows() const { return (rows + R - 1) / R; }
  TACIT_HD int tiles() const { return tile_rows() * ((columns + C - 1) / C); }
  /// Teams for each slice; the kernel has slices * teams() blocks.
  TACIT_HD int teams() const { return (tiles() + Groups - 1) / Groups; }

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    const auto lanes = team.template lanes<32>();
    const Global slice = team.block() / teams();
    const int first = static_cast<int>(team.block() % teams()) * Groups;
    for (int g = lanes.group(); g < Groups; g += lanes.groups) {
      const int tile = first + g;
      const int row = tile % tile_rows() * R, column = tile / tile_rows() * C;
      const bool mine = tile < tiles();
      T total[R * C] = {};
      if (mine) {
        const S* a[R];
        const T* b[C];
        // Rows and columns beyond the last repeat it; their sums are dropped.
        TACIT_UNROLL
        for (int r = 0; r < R; ++r) a[r] = q[row + r < rows ? row + r : rows - 1];
        TACIT_UNROLL
        for (int c = 0; c < C; ++c) b[c] = v[column + c < columns ? column + c : columns - 1];
        const Global packets = n / width;
        for (Global base = slice * 32; base < packets; base += slices * 32)
          for (int l = lanes.lane(); l < 32; l += lanes.width)
            if (base + l < packets) step<W>(a, b, (base + l) * width, total);
        if constexpr (width > 1)
          for (int l = lanes.lane(); l < 32; l += lanes.width)
            if (slice == 0 && packets * width + l < n) step<0>(a, b, packets * width + l, total);
      }
      TACIT_UNROLL
      for (int k = 0; k < R * C; ++k) {
        const T sum = lanes.sum(total[k]);
        const int r = row + k % R, c = column + k / R;
        if (mine && lanes.lane() == 0 && r < rows && c < columns) partial[(slice * columns + c) * rows + r] = sum;
      }
    }
  }

 private:
  template <int Width>
  TACIT_HD static void step(const S* const (&a)[R], const T* const (&b)[C], Global i, T (&total)[R * C]) {
    Packet<S, Width> x[R];
    Packet<T, Width> y[C];
    TACIT_UNROLL
    for (int r = 0; r < R; ++r) x[r] = Packet<S, Width>::load(a[r] + i);
    TACIT_UNROLL
    for (int c = 0; c < C; ++c) y[c] = Packet<T, Width>::load(b[c] + i);
    TACIT_UNROLL
    for (int r = 0; r < R; ++r) {
      TACIT_UNROLL
      for (int e = 0; e < Packet<char, Width>::count; ++e) {
        const T xe = conj(widened<T>(x[r].v[e]));
        TACIT_UNROLL
        for (int c = 0; c < C; ++c) total[c * R + r] += xe * y[c].v[e];
      }
    }
  }
};

/// out_c = (out_c where `add`, else 0) + sum over rows of a(r, c) x_r for c < C, x the `narrow` q's and then the `wide`
/// v's; a row after row, C numbers each. The v's may be the out's, since elements are read before they are written.
/// Where stored_c is not null, the result is rounded to S into it; out_c may be null.
template <class T, class S, int MostNarrow, int MostWide, int C, int W, int Threads>
struct BlockCombine {
  static constexpr int threads = Threads;
  static constexpr int width = Packet<char, W>::count;
  struct Shared {
    T a[(MostNarrow + MostWide) * C];
  };
  Global n, blocks;
  int narrow, wide;
  bool add;
  const T* a;
  const S* q[MostNarrow];
  const T* v[MostWide];
  T* out[C];
  S* stored[C];

  template <Team U>
  TACIT_HD void operator()(const U& team, Shared& shared) const {
    for (int i = team.rank(); i < (narrow + wide) * C; i += U::threads) shared.a[i] = a[i];
    team.barrier();
    const Global packets = n / width;
    for_items<Threads>(team, [&](int t) {
      for (Global p = team.block() * Threads + t; p < packets; p += blocks * Threads) step<W>(p * width, shared);
      if constexpr (width > 1)
        if (const Global i = packets * width + t; team.block() == 0 && i < n) step<0>(i, shared);
    });
  }

 private:
  template <int Width, class X>
  TACIT_HD static void multiply(const X& x, const T* factor, Packet<T, Width> (&y)[C]) {
    TACIT_UNROLL
    for (int c = 0; c < C; ++c) {
      TACIT_UNROLL
      for (int e = 0; e < Packet<char, Width>::count; ++e) y[c].v[e] += factor[c] * widened<T>(x.v[e]);
    }
  }
  template <int Width>
  TACIT_HD void step(Global i, const Shared& shared) const {
    Packet<T, Width> y[C];
    TACIT_UNROLL
    for (int c = 0; c < C; ++c)
      if (add && out[c]) y[c] = Packet<T, Width>::load(out[c] + i);
      else y[c] = {};
    TACIT_UNROLL_BY(2)
    for (int r = 0; r < narrow; ++r) multiply<Width>(Packet<S, Width>::load(q[r] + i), shared.a + r * C, y);
    TACIT_UNROLL_BY(2)
    for (int r = 0; r < wide; ++r) multiply<Width>(Packet<T, Width>::load(v[r] + i), shared.a + (narrow + r) * C, y);
    TACIT_UNROLL
    for (int c = 0; c < C; ++c) {
      if (out[c]) y[c].store(out[c] + i);
      if (stored[c]) {
        Packet<S, Width> z;
        TACIT_UNROLL
        for (int e = 0; e < Packet<char, Width>::count; ++e) z.v[e] = narrowed<S>(y[c].v[e]);
        z.store(stored[c] + i);
      }
    }
  }
};

/// to[i] = from[i] in another type.
template <class T, class S, int Threads>
struct Convert {
  static constexpr int threads = Threads;
  using Shared = NothingShared;
  Global n;
  const T* from;
  S* to;
  template <Team U>
  TACIT_HD void operator()(const U& team, Shared&) const {
    for_items<Threads>(team, [&](int t) {
      if (const Global i = team.block() * Threads + t; i < n) to[i] = narrowed<S>(from[i]);
    });
  }
};

}  // namespace tacit::exec
