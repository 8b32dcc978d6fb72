// The device's memory, its streams, and the check of CUDA's error codes.
#include <tacit/base/error.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/memory.hpp>

#include "device_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tacit::exec {
namespace {

thread_local cudaStream_t stream_of_thread = nullptr;

/// What reductions of one host thread keep for one stream of one device.
struct Buffers {
  int device;
  cudaStream_t stream;
  void* partial = nullptr;
  void* result = nullptr;
  std::size_t partial_bytes = 0, result_bytes = 0;
  std::vector<std::shared_ptr<DeviceResult>> results;
  /// Page-locked memory that is taken in turn.
  struct Ring {
    std::vector<std::shared_ptr<DeviceResult>> of;
    std::size_t last = 0;
  };
  Ring uploads, large_uploads;
  std::shared_ptr<DeviceResult::Marks> marks = std::make_shared<DeviceResult::Marks>();

  Buffers(int device, cudaStream_t stream) : device(device), stream(stream) {}
  Buffers(Buffers&& other) noexcept
      : device(other.device),
        stream(other.stream),
        partial(std::exchange(other.partial, nullptr)),
        result(std::exchange(other.result, nullptr)),
        partial_bytes(other.partial_bytes),
        result_bytes(other.result_bytes),
        results(std::move(other.results)),
        uploads(std::move(other.uploads)),
        large_uploads(std::move(other.large_uploads)),
        marks(std::move(other.marks)) {}
  Buffers& operator=(Buffers&& other) noexcept {
    std::swap(device, other.device), std::swap(stream, other.stream);
    std::swap(partial, other.partial), std::swap(result, other.result);
    std::swap(partial_bytes, other.partial_bytes), std::swap(result_bytes, other.result_bytes);
    std::swap(results, other.results), std::swap(uploads, other.uploads);
    std::swap(large_uploads, other.large_uploads), std::swap(marks, other.marks);
    return *this;
  }
  // Errors are ignored: the CUDA runtime may have been unloaded before this thread ends.
  ~Buffers() { cudaFree(partial), cudaFreeHost(result); }
};

/// A stream may be destroyed by another thread than those whose reductions it had, so that threads are listed, and
/// each has a lock, which is free but then.
struct BuffersOfThread {
  std::mutex mutex;
  std::vector<Buffers> all;

  BuffersOfThread() {
    const std::lock_guard lock(listed().mutex);
    listed().threads.push_back(this);
  }
  ~BuffersOfThread() {
    const std::lock_guard lock(listed().mutex);
    std::erase(listed().threads, this);
  }
  /// Those of the current stream on the current device; `mutex` is held.
  Buffers& current() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    const auto at = std::find_if(all.begin(), all.end(),
                                 [&](const Buffers& b) { return b.device == device && b.stream == stream_of_thread; });
    return at == all.end() ? all.emplace_back(device, stream_of_thread) : *at;
  }
  static void forget(cudaStream_t stream) {
    const std::lock_guard lock(listed().mutex);
    for (BuffersOfThread* const one : listed().threads) {
      const std::lock_guard lock_one(one->mutex);
      std::erase_if(one->all, [&](const Buffers& b) { return b.stream == stream; });
    }
  }

 private:
  struct Listed {
    std::mutex mutex;
    std::vector<BuffersOfThread*> threads;
  };
  static Listed& listed() {
    static auto* const one = new Listed;  // outlives every thread
    return *one;
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

void destroy_stream(cudaStream_t stream) noexcept {
  if (!stream) return;
  cudaStreamSynchronize(stream);
  BuffersOfThread::forget(stream);
  cudaStreamDestroy(stream);
}

ReductionSpace reduction_space(std::size_t partial_bytes, std::size_t result_bytes) {
  const std::lock_guard lock(buffers_of_thread.mutex);
  Buffers& kept = buffers_of_thread.current();
  if (kept.partial_bytes < partial_bytes) {
    wait_for_device();
    check_cuda(cudaFree(std::exchange(kept.partial, nullptr)), "cudaFree");
    kept.partial_bytes = 0;
    const std::size_t bytes = std::bit_ceil(std::max<std::size_t>(partial_bytes, 256 * 1024));
    kept.partial = allocate_beside_arrays(bytes);
    kept.partial_bytes = bytes;
  }
  if (kept.result_bytes < result_bytes) {
    wait_for_device();
    check_cuda(cudaFreeHost(std::exchange(kept.result, nullptr)), "cudaFreeHost");
    kept.result_bytes = 0;
    const std::size_t bytes = std::bit_ceil(std::max<std::size_t>(result_bytes, 4096));
    check_cuda(cudaHostAlloc(&kept.result, bytes, cudaHostAllocMapped), "cudaHostAlloc");
    kept.result_bytes = bytes;
  }
  return {kept.partial, kept.result};
}

DeviceResult::DeviceResult(std::size_t bytes, std::shared_ptr<Marks> marks) : bytes_(bytes), marks_(std::move(marks)) {
  check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
  check_cuda(cudaHostAlloc(&data_, bytes, cudaHostAllocMapped), "cudaHostAlloc");
  const cudaError_t code = cudaEventCreateWithFlags(&written_, cudaEventDisableTiming);
  if (code != cudaSuccess) cudaFreeHost(data_);
  check_cuda(code, "cudaEventCreateWithFlags");
}
DeviceResult::~DeviceResult() {
  if (mark_ > marks_->reached) cudaEventSynchronize(written_);  // kernels may still write; errors are ignored
  cudaEventDestroy(written_), cudaFreeHost(data_);
}
void DeviceResult::mark() {
  check_cuda(cudaEventRecord(written_, current_stream()), "cudaEventRecord");
  mark_ = ++marks_->given;
}
void DeviceResult::wait() {
  if (mark_ <= marks_->reached) return;
  check_cuda(cudaEventSynchronize(written_), "cudaEventSynchronize");
  has_reached();
}
bool DeviceResult::ready() {
  if (mark_ <= marks_->reached) return true;
  const UseGpu use(device_);  // another thread's call would make a context on the device that is current there
  const cudaError_t code = cudaEventQuery(written_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // no error of the thread's next call
    return false;
  }
  check_cuda(code, "cudaEventQuery");
  has_reached();
  return true;
}
void DeviceResult::has_reached() {
  auto now = marks_->reached.load();
  while (now < mark_ && !marks_->reached.compare_exchange_weak(now, mark_)) {
  }
}

std::shared_ptr<DeviceResult> device_result(std::size_t bytes) {
  const std::lock_guard lock(buffers_of_thread.mutex);
  Buffers& kept = buffers_of_thread.current();
  // One that was not waited for may still be written to: by this stream, before what it is given now.
  for (const auto& one : kept.results)
    if (one.use_count() == 1 && one->bytes() >= bytes) {
      std::atomic_thread_fence(std::memory_order_acquire);  // the last to read it may have been another thread
      return one;
    }
  return kept.results.emplace_back(
      std::make_shared<DeviceResult>(std::bit_ceil(std::max<std::size_t>(bytes, 1024)), kept.marks));
}

void start_copy_to_host(DeviceResult& to, const void* device, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to.data(), device, bytes, cudaMemcpyDeviceToHost, current_stream()),
             "cudaMemcpyAsync to host");
  to.mark();
}

void upload(void* device, const void* host, std::size_t bytes) {
  const bool large = bytes > 65536;
  const std::size_t most = large ? 2 : 16;  // copies that may be under way; each keeps its memory
  const std::lock_guard lock(buffers_of_thread.mutex);
  Buffers& kept = buffers_of_thread.current();
  auto& [of, last] = large ? kept.large_uploads : kept.uploads;
  if (of.size() < most) of.emplace_back();
  auto& staged = of[last = (last + 1) % of.size()];
  if (staged) staged->wait();
  if (!staged || staged->bytes() < bytes)
    staged = std::make_shared<DeviceResult>(std::bit_ceil(std::max<std::size_t>(bytes, 4096)), kept.marks);
  std::memcpy(staged->data(), host, bytes);
  check_cuda(cudaMemcpyAsync(device, staged->data(), bytes, cudaMemcpyHostToDevice, current_stream()),
             "cudaMemcpyAsync to device");
  staged->mark();
}

bool device_available() noexcept {
  return gpu_count() > 0;
}

std::string device_name() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return gpu_name(device);
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
