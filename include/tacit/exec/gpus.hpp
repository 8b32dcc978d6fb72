// Gpus: the CUDA devices that this process sees, which of them a thread works on, and the device of an address.
#pragma once

#include <cstdint>
#include <string>

namespace tacit::exec {

/// The devices that this process sees (CUDA_VISIBLE_DEVICES); 0 where there are none, and in a build without CUDA.
int gpu_count() noexcept;
/// Error(environment) where there is no such device.
std::string gpu_name(int gpu);

/// Makes `gpu`, which this thread worked on before, its device again, unless nothing in this process uses that one: to
/// select a device makes a context on it, some hundred megabytes of its memory for each process. Local; does not throw.
void return_to_gpu(int gpu) noexcept;

/// Device work and allocations of this thread go to one device while it lives; afterwards to that of before, as
/// return_to_gpu() has it. Local.
class UseGpu {
 public:
  /// Error(environment) where there is no such device.
  explicit UseGpu(int gpu);
  ~UseGpu();
  UseGpu(const UseGpu&) = delete;
  UseGpu& operator=(const UseGpu&) = delete;

 private:
  int before_ = 0;
};

/// Whether arrays that are freed stay with the process for later ones of their size: cudaMalloc and cudaFree wait for
/// the device, and solves one after another allocate the same vectors. Of each device at most a quarter of its memory
/// is kept; where memory runs out, it is given back first. At first true, unless the environment has
/// TACIT_KEEP_DEVICE_MEMORY=0, as tools that look for uses of freed memory need it. Local.
void keep_device_memory(bool keep);
/// Gives what is kept back. Waits for the devices; local.
void release_device_memory() noexcept;

/// The device whose memory, or managed memory, the address is in; -1 for host memory. Local.
int gpu_of_address(const void* address);
/// Waits until the work of another library's stream (its CUDA handle; 1 and 2 stand for the legacy and the
/// per-thread default stream) is done on the current device; and until that of this thread is.
void wait_for_stream(std::uintptr_t stream);
void wait_for_gpu();
/// Waits until all work of all streams of a device is done. Errors are ignored. Local.
void wait_for_all_of_gpu(int gpu) noexcept;

}  // namespace tacit::exec
