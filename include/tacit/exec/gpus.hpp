// Gpus: the CUDA devices that this process sees, which of them a thread works on, and the device of an address.
#pragma once

#include <cstdint>
#include <string>

namespace tacit::exec {

/// The devices that this process sees (CUDA_VISIBLE_DEVICES); 0 where there are none, and in a build without CUDA.
int gpu_count() noexcept;
/// Error(environment) where there is no such device.
std::string gpu_name(int gpu);

/// Device work and allocations of this thread go to one device while it lives; afterwards to that of before. Local.
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

/// The device whose memory, or managed memory, the address is in; -1 for host memory. Local.
int gpu_of_address(const void* address);
/// Waits until the work of another library's stream (its CUDA handle; 1 and 2 stand for the legacy and the
/// per-thread default stream) is done on the current device; and until that of this thread is.
void wait_for_stream(std::uintptr_t stream);
void wait_for_gpu();

}  // namespace tacit::exec
