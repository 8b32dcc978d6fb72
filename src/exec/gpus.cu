// The CUDA devices of this process, and what the runtime knows of an address.
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/gpus.hpp>

#include <cuda_runtime_api.h>

namespace tacit::exec {

int gpu_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string gpu_name(int gpu) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, gpu), message("cudaGetDeviceProperties of GPU ", gpu).c_str());
  return properties.name;
}

UseGpu::UseGpu(int gpu) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  if (gpu != before_) check_cuda(cudaSetDevice(gpu), message("cudaSetDevice of GPU ", gpu).c_str());
}
UseGpu::~UseGpu() {
  cudaSetDevice(before_);
}

int gpu_of_address(const void* address) {
  cudaPointerAttributes found;
  check_cuda(cudaPointerGetAttributes(&found, address), "cudaPointerGetAttributes");
  return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged ? found.device : -1;
}

void wait_for_stream(std::uintptr_t stream) {
  check_cuda(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(stream)), "cudaStreamSynchronize");
}

void wait_for_gpu() {
  wait_for_device();
}

}  // namespace tacit::exec
