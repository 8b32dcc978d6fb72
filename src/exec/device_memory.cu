// Allocation of device memory: freed arrays are kept for later ones.
#include <tacit/base/error.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/memory.hpp>

#include "device_memory.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tacit::exec {
namespace {

/// cudaFree makes a context on the device of the thread where it has none. Errors are ignored: the CUDA runtime may
/// have been unloaded.
void free_on(int gpu, void* p) noexcept {
  int before = gpu;
  cudaGetDevice(&before);
  if (before != gpu) cudaSetDevice(gpu);
  cudaFree(p);
  if (before != gpu) return_to_gpu(before);
}

/// The arrays of the legacy default stream that are in use, and those that were freed and are kept. That stream orders
/// the work of all host threads, so that kernels which still read a freed array come before those of its next owner.
/// Arrays that are made or freed on other streams are not kept.
class Arrays {
 public:
  void* take(std::size_t bytes) {
    int gpu = 0;
    check_cuda(cudaGetDevice(&gpu), "cudaGetDevice");
    const bool orders = current_stream() == nullptr;
    const std::lock_guard lock(mutex_);
    void* p = nullptr;
    if (const auto found = orders ? kept_.find({gpu, bytes}) : kept_.end(); found != kept_.end()) {
      p = found->second.back();
      found->second.pop_back();
      if (found->second.empty()) kept_.erase(found);
      kept_bytes_[gpu] -= bytes;
    } else {
      p = allocate_locked(bytes);
    }
    used_.emplace(p, Used{gpu, bytes, orders});
    return p;
  }
  /// cudaMalloc, in place of what is kept where there is too little memory for both.
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return allocate_locked(bytes);
  }

  void give(void* p) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(p);
    if (found == used_.end()) return void(cudaFree(p));
    const auto [gpu, bytes, ordered] = found->second;
    used_.erase(found);
    try {
      if (keeps_ && ordered && current_stream() == nullptr && kept_bytes_[gpu] + bytes <= most(gpu)) {
        kept_[{gpu, bytes}].push_back(p);
        kept_bytes_[gpu] += bytes;
        return;
      }
    } catch (...) {  // too little host memory for the list
    }
    free_on(gpu, p);
  }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    release_all();
  }
  void set_keeping(bool keep) {
    const std::lock_guard lock(mutex_);
    keeps_ = keep;
    if (!keep) release_all();
  }

  static Arrays& of_process() {
    static Arrays* const one = [] {
      auto* const made = new Arrays;  // outlives every array
      std::atexit([] { of_process().set_keeping(false); });
      return made;
    }();
    return *one;
  }

 private:
  struct Used {
    int gpu;
    std::size_t bytes;
    bool ordered;  // by the legacy default stream
  };
  void* allocate_locked(std::size_t bytes) {
    void* p = nullptr;
    cudaError_t code = cudaMalloc(&p, bytes);
    if (code == cudaErrorMemoryAllocation && !kept_.empty()) {
      cudaGetLastError();
      release_all();
      code = cudaMalloc(&p, bytes);
    }
    if (code != cudaSuccess) check_cuda(code, message("cudaMalloc of ", bytes, " bytes").c_str());
    return p;
  }
  void release_all() noexcept {
    for (const auto& [what, arrays] : kept_)
      for (void* const p : arrays) free_on(what.first, p);
    kept_.clear(), kept_bytes_.clear();
  }
  std::size_t most(int gpu) {
    const auto [at, is_new] = most_.try_emplace(gpu, 0);
    cudaDeviceProp properties;
    if (is_new && cudaGetDeviceProperties(&properties, gpu) == cudaSuccess) at->second = properties.totalGlobalMem / 4;
    return at->second;
  }

  std::mutex mutex_;
  bool keeps_ = [] {
    const char* const said = std::getenv("TACIT_KEEP_DEVICE_MEMORY");
    return !said || std::string_view(said) != "0";
  }();
  std::unordered_map<void*, Used> used_;
  std::map<std::pair<int, std::size_t>, std::vector<void*>> kept_;  // by device and bytes
  std::map<int, std::size_t> kept_bytes_, most_;                    // by device
};

}  // namespace

void* device_allocate(std::size_t bytes) {
  return bytes == 0 ? nullptr : Arrays::of_process().take(bytes);
}
void device_free(void* p) noexcept {
  if (p) Arrays::of_process().give(p);
}
void* allocate_beside_arrays(std::size_t bytes) {
  return Arrays::of_process().allocate(bytes);
}
void keep_device_memory(bool keep) {
  Arrays::of_process().set_keeping(keep);
}
void release_device_memory() noexcept {
  Arrays::of_process().release();
}

}  // namespace tacit::exec
