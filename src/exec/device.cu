// The device's memory, its streams, and the check of CUDA's error codes.
#include <tacit/base/error.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/memory.hpp>

#include <algorithm>
#include <bit>
#include <vector>

namespace tacit::exec {
namespace {

thread_local cudaStream_t stream_of_thread = nullptr;

/// Buffers of one stream on one device, for reductions of one host thread.
struct Buffers {
  int device;
  cudaStream_t stream;
  void* partial = nullptr;
  void* result = nullptr;
  std::size_t partial_bytes = 0, result_bytes = 0;
};

struct BuffersOfThread {
  std::vector<Buffers> all;
  ~BuffersOfThread() {
    // Errors are ignored: the CUDA runtime may have been unloaded before this thread ends.
    for (const Buffers& b : all) cudaFree(b.partial), cudaFreeHost(b.result);
  }
};
thread_local BuffersOfThread buffers_of_thread;

}  // namespace

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears the error, unless the device itself is lost
  throw Error(ErrorKind::environment, message(call, ": ", cudaGetErrorString(code), " (", cudaGetErrorName(code),
                                              ", CUDA error ", int(code), ")"));
}

cudaStream_t current_stream() noexcept {
  return stream_of_thread;
}

void set_current_stream(cudaStream_t stream) noexcept {
  stream_of_thread = stream;
}

StreamScope::StreamScope(cudaStream_t stream) noexcept : before_(stream_of_thread) {
  stream_of_thread = stream;
}
StreamScope::~StreamScope() {
  stream_of_thread = before_;
}

void wait_for_device() {
  check_cuda(cudaStreamSynchronize(current_stream()), "cudaStreamSynchronize");
}

ReductionSpace reduction_space(std::size_t partial_bytes, std::size_t result_bytes) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  auto& all = buffers_of_thread.all;
  auto at = std::find_if(all.begin(), all.end(),
                         [&](const Buffers& b) { return b.device == device && b.stream == current_stream(); });
  if (at == all.end()) at = all.insert(at, Buffers{device, current_stream()});
  if (at->partial_bytes < partial_bytes) {
    wait_for_device();
    check_cuda(cudaFree(std::exchange(at->partial, nullptr)), "cudaFree");
    at->partial_bytes = 0;
    const std::size_t bytes = std::bit_ceil(std::max<std::size_t>(partial_bytes, 256 * 1024));
    check_cuda(cudaMalloc(&at->partial, bytes), "cudaMalloc");
    at->partial_bytes = bytes;
  }
  if (at->result_bytes < result_bytes) {
    wait_for_device();
    check_cuda(cudaFreeHost(std::exchange(at->result, nullptr)), "cudaFreeHost");
    at->result_bytes = 0;
    const std::size_t bytes = std::bit_ceil(std::max<std::size_t>(result_bytes, 4096));
    check_cuda(cudaHostAlloc(&at->result, bytes, cudaHostAllocMapped), "cudaHostAlloc");
    at->result_bytes = bytes;
  }
  return {at->partial, at->result};
}

bool device_available() noexcept {
  return gpu_count() > 0;
}

std::string device_name() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return gpu_name(device);
}

void* device_allocate(std::size_t bytes) {
  void* p = nullptr;
  if (bytes == 0) return p;
  const cudaError_t code = cudaMalloc(&p, bytes);
  if (code != cudaSuccess) check_cuda(code, message("cudaMalloc of ", bytes, " bytes").c_str());
  return p;
}

void device_free(void* p) noexcept {
  cudaFree(p);
}

void copy_to_device(void* device, const void* host, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, current_stream()),
             "cudaMemcpyAsync to device");
  wait_for_device();  // the caller may change `host` as soon as this returns
}

void copy_to_host(void* host, const void* device, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, current_stream()), "cudaMemcpyAsync to host");
  wait_for_device();
}

void copy_on_device(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, current_stream()), "cudaMemcpyAsync on device");
}

void clear_on_device(void* p, std::size_t bytes) {
  check_cuda(cudaMemsetAsync(p, 0, bytes, current_stream()), "cudaMemsetAsync");
}

}  // namespace tacit::exec
