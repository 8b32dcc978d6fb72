// Functions that enqueue the kernels of kernels.hpp, on kernel_scalar_t and device pointers. For .cu files.
#pragma once

#include <tacit/exec/cuda.hpp>
#include <tacit/exec/kernels.hpp>

#include <algorithm>

namespace tacit::exec {

/// The most basis vectors of one launch, whose pointers are its arguments.
inline constexpr int basis_at_once = 64;

/// How basis_dots divides its work.
template <class T>
struct DotsPlan {
  static constexpr int columns_at_once = 8;
  static constexpr int threads = 256;
  Global groups, slices;
  DotsPlan(Global n, int columns, int width)
      : groups((columns + columns_at_once - 1) / columns_at_once),
        slices(std::clamp<Global>((n + threads * width - 1) / (threads * width), 1, most_blocks / groups)) {}
  /// Bytes that hold the partial sums of any plan.
  static constexpr std::size_t bytes = most_blocks * columns_at_once * sizeof(T);
};

/// out[c] = q_c^H v for c < columns <= basis_at_once, `out` in memory that the device can write, `partial` of
/// DotsPlan<T>::bytes. W: 16 bytes' worth where everything is aligned, else 0.
template <int W, class T>
void launch_dots(Global n, const T* const* q, int columns, const T* v, T* partial, T* out) {
  using Plan = DotsPlan<T>;
  using Kernel = BasisDots<T, basis_at_once, Plan::columns_at_once, W, Plan::threads>;
  const Plan plan(n, columns, Kernel::width);
  Kernel kernel{n, columns, plan.slices, v, partial, {}};
  std::copy_n(q, columns, kernel.q);
  launch_cuda(plan.slices * plan.groups, kernel);
  launch_cuda(columns, SumParts<T, 128>{plan.slices, columns, partial, out});
}

/// v = scale (v - sum of h_c q_c) for c < columns <= basis_at_once; with `out`, also *out = v^H v of the new v.
template <int W, class T>
void launch_update(Global n, const T* const* q, int columns, const T* h, T scale, T* v, T* partial, T* out) {
  using Kernel = BasisUpdate<T, basis_at_once, W, 256>;
  const Global blocks = blocks_for(n, Global(Kernel::threads) * Kernel::width);
  Kernel kernel{n, columns, blocks, scale, v, out ? partial : nullptr, {}, {}};
  std::copy_n(q, columns, kernel.q);
  for (int c = 0; c < columns; ++c) kernel.a[c] = -h[c];
  launch_cuda(blocks, kernel);
  if (out) launch_cuda(1, SumParts<T, 128>{blocks, 1, partial, out});
}

template <class T>
void launch_gather(Global n, int k, const Local* index, const T* x, T* out) {
  launch_cuda((n * k + 255) / 256, Gather<T, 256>{n, k, index, x, out});
}

template <bool Distinct, class T>
void launch_scatter_add(Global n, int k, const Local* index, const T* values, T* x) {
  launch_cuda((n * k + 255) / 256, ScatterAdd<T, Distinct, 256>{n, k, index, values, x});
}

}  // namespace tacit::exec
