// Kernels on device memory, for host code: defined in src/exec/device_kernels.cu, in builds with CUDA. Work is enqueued
// on current_stream() (cuda.hpp); nothing is allocated. Gram-Schmidt on device vectors is basis_dots<T, Device> and
// basis_subtract<T, Device> of basis.hpp.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/memory.hpp>

namespace tacit::exec {

/// out[i columns + c] = x[index[i] columns + c]: packs the send buffer of a halo exchange. Does not wait.
/// Memory: index + 2 (values gathered). Error(usage) unless out has index.size() columns elements.
template <Scalar T>
void device_gather(View<const T, Device> x, View<const Local, Device> index, View<T, Device> out, int columns = 1);

/// Whether the same index may occur twice in a scatter.
enum class Indices : bool { distinct, repeated };

/// x[index[i] columns + c] += values[i columns + c]. Does not wait. With Indices::repeated the additions are atomic,
/// and the last bits of x depend on timing. Error(usage) unless values has index.size() columns elements.
template <Scalar T>
void device_scatter_add(View<const T, Device> values, View<const Local, Device> index, View<T, Device> x,
                        int columns = 1, Indices indices = Indices::distinct);

}  // namespace tacit::exec
