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

namespace {
/// Whether the device has a context. Makes none, as most calls would. True where the driver does not tell.
bool has_context(int gpu) noexcept {
  using GetState = int (*)(int device, unsigned* flags, int* active);  // cuDevicePrimaryCtxGetState of CUDA 7
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
  const auto code =
      cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 7000, cudaEnableDefault, &status);
#else
  const auto code = cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &status);
#endif
  if (code != cudaSuccess) cudaGetLastError();
  unsigned flags = 0;
  int active = 1;
  if (code == cudaSuccess && found) reinterpret_cast<GetState>(found)(gpu, &flags, &active);
  return active != 0;
}
}  // namespace

void return_to_gpu(int gpu) noexcept {
  int now = 0;
  if (cudaGetDevice(&now) == cudaSuccess && now != gpu && has_context(gpu)) cudaSetDevice(gpu);
}

UseGpu::UseGpu(int gpu) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
  if (gpu != before_) check_cuda(cudaSetDevice(gpu), message("cudaSetDevice of GPU ", gpu).c_str());
}
UseGpu::~UseGpu() {
  return_to_gpu(before_);
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

void wait_for_all_of_gpu(int gpu) noexcept {
  int before = gpu;
  cudaGetDevice(&before);
  if (before != gpu) cudaSetDevice(gpu);
  cudaDeviceSynchronize();
  return_to_gpu(before);
}

}  // namespace tacit::exec
