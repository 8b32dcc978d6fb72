// Gangs on the GPU: cooperative launches. For .cu files.
#pragma once

#include <tacit/exec/cuda.hpp>
#include <tacit/exec/gang.hpp>

#include <cooperative_groups.h>

#include <algorithm>

namespace tacit::exec {

template <int N>
class CudaGang : public CudaTeam<N> {
 public:
  __device__ Global teams() const { return gridDim.x; }
  __device__ void meet() const { cooperative_groups::this_grid().sync(); }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1) run_gang(const __grid_constant__ Kernel kernel) {
  static_assert(CanBeLaunched<Kernel, static_alignment>::value);
  static_assert(sizeof(typename Kernel::Shared) <= static_shared, "a gang has static shared memory only");
  TACIT_STATIC_SHARED(shared, sizeof(typename Kernel::Shared));
  kernel(CudaGang<Kernel::threads>{}, *reinterpret_cast<typename Kernel::Shared*>(shared));
}

/// The number of teams of this kernel that fit on the current device at once. Error(environment) where it has no
/// cooperative launches.
template <class Kernel>
Global most_teams() {
  int device = 0, able = 0, processors = 0, each = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&able, cudaDevAttrCooperativeLaunch, device), "cudaDeviceGetAttribute");
  if (!able) throw Error(ErrorKind::environment, "this device has no cooperative launches");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run_gang<Kernel>, Kernel::threads, 0),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return Global(processors) * each;
}

/// Starts the kernel with the given number of teams on the current device and returns. Error(environment) where they do
/// not fit.
template <class Kernel>
void launch_gang_cuda(Global teams, const Kernel& kernel, cudaStream_t stream = current_stream()) {
  void* arguments[] = {const_cast<Kernel*>(&kernel)};
  check_cuda(cudaLaunchCooperativeKernel(run_gang<Kernel>, dim3(unsigned(teams)), dim3(unsigned(Kernel::threads)),
                                         arguments, 0, stream),
             "cudaLaunchCooperativeKernel");
}

}  // namespace tacit::exec
