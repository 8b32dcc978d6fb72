// What enqueues the kernels of kernels.hpp, on kernel_scalar_t and device pointers. For .cu files.
#pragma once

#include <tacit/exec/cuda.hpp>
#include <tacit/exec/kernels.hpp>

#include <algorithm>

namespace tacit::exec {

/// How device_dots cuts its work.
template <class T>
struct DotsPlan {
  static constexpr int columns_at_once = 8;
  static constexpr int threads = 256;
  Global groups, slices;
  DotsPlan(Global n, int columns, int width)
      : groups((columns + columns_at_once - 1) / columns_at_once),
        slices(std::clamp<Global>((n + threads * width - 1) / (threads * width), 1,
                                  std::max<Global>(1, most_blocks / std::max<Global>(1, groups)))) {}
  /// Bytes for the partial sums: the same for all numbers of columns up to 8 most_blocks.
  std::size_t bytes() const { return std::max(most_blocks, slices * groups) * columns_at_once * sizeof(T); }
};

/// out[c] = q_c^H v, `out` in memory that the device can write; `partial` holds DotsPlan<T>::bytes().
template <int W, class T>
void launch_dots(Global n, const T* q, Global stride, int columns, const T* v, T* partial, T* out) {
  using Plan = DotsPlan<T>;
  using Kernel = BasisDots<T, Plan::columns_at_once, W, Plan::threads>;
  const Plan plan(n, columns, Kernel::width);
  launch_cuda(plan.slices * plan.groups, Kernel{n, stride, columns, plan.slices, q, v, partial});
  launch_cuda(columns, SumParts<T, 128>{plan.slices, columns, partial, out});
}

/// v += sum of a_c q_c.
template <int W, class T>
void launch_update(Global n, const T* q, Global stride, int columns, const T* a, T* v) {
  constexpr int at_once = 64;
  using Kernel = BasisUpdate<T, at_once, W, 256>;
  const Global blocks = blocks_for(n, Global(Kernel::threads) * Kernel::width);
  for (int first = 0; first < columns && n > 0; first += at_once) {
    Kernel kernel{n, stride, std::min(at_once, columns - first), blocks, q + first * stride, v, {}};
    for (int c = 0; c < kernel.columns; ++c) kernel.a[c] = a[first + c];
    launch_cuda(blocks, kernel);
  }
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
