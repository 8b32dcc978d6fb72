// Kernels on device memory, for host code: defined in src/exec/device_kernels.cu, in builds with CUDA. Work is enqueued on
// current_stream() (cuda.hpp); nothing is allocated after the first call of a host thread on a stream.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/memory.hpp>

#include <span>

namespace tacit::exec {

/// out[i columns + c] = x[index[i] columns + c]: packs what a halo exchange sends. No wait.
/// Memory: index + 2 (values gathered). Error(usage) when out has not index.size() columns elements.
template <Scalar T>
void device_gather(View<const T, Device> x, View<const Local, Device> index, View<T, Device> out, int columns = 1);

/// Whether the same index may occur twice in a scatter.
enum class Indices : bool { distinct, repeated };

/// x[index[i] columns + c] += values[i columns + c]. No wait. With Indices::repeated the additions are atomic, and the last
/// bits of x depend on timing. Error(usage) when values has not index.size() columns elements.
template <Scalar T>
void device_scatter_add(View<const T, Device> values, View<const Local, Device> index, View<T, Device> x,
                        int columns = 1, Indices indices = Indices::distinct);

/// out_c = q_c^H v for the columns q_c = basis[c stride .. c stride + n), n = v.size(), c < out.size(). Waits: out is in
/// host memory. Memory: (columns + 1) n. The order of summation depends on n, columns and alignment alone.
/// Error(usage) when the basis is too short for the columns asked for.
template <Scalar T>
void device_dots(View<const T, Device> basis, std::size_t stride, View<const T, Device> v, std::span<T> out);

/// v += sum over c of factor_c q_c, columns as in device_dots. The factors are in host memory and travel with the launch:
/// no wait. Memory: (columns + 2) n, and 2 n more for every 64 columns.
template <Scalar T>
void device_update(View<const T, Device> basis, std::size_t stride, std::span<const T> factors, View<T, Device> v);

}  // namespace tacit::exec
