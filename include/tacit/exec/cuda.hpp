// The CUDA side of exec: checks of CUDA's error codes, streams, and the team made of a thread block. For files compiled
// by nvcc, and for host code that links the CUDA runtime.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/exec/team.hpp>

#include <cuda_runtime.h>
#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

namespace tacit::exec {

/// Throws Error(environment) with the call and CUDA's message unless `code` is success.
void check_cuda(cudaError_t code, const char* call);

/// The stream of this host thread's device work. At first the legacy default stream, which orders the work of all host
/// threads.
cudaStream_t current_stream() noexcept;
void set_current_stream(cudaStream_t stream) noexcept;

/// Sends this thread's device work to `stream` while it lives. The caller has to order the work of streams that share
/// arrays.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t stream) noexcept;
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  cudaStream_t before_;
};

/// Waits until this thread's device work is done; Error(environment) when a kernel failed.
void wait_for_device();

/// Destroys a stream, when its work is done, with what reductions have kept for it. Errors are ignored.
void destroy_stream(cudaStream_t stream) noexcept;

/// Memory for the reductions of this host thread on its current stream. It is reused: after the first call of a size
/// nothing is allocated.
struct ReductionSpace {
  void* partial;  ///< device memory
  void* result;   ///< pinned host memory that kernels write to; read it after wait_for_device()
};
ReductionSpace reduction_space(std::size_t partial_bytes, std::size_t result_bytes);

/// Pinned host memory to which kernels of one stream write what is read later, while the stream has other work. Of one
/// host thread; another may call ready(), and wait() where that has returned true.
class DeviceResult {
 public:
  /// How much of a stream's work is known to be done, in marks: one wait serves all results before it.
  struct Marks {
    std::uint64_t given = 0;
    std::atomic<std::uint64_t> reached = 0;
  };
  DeviceResult(std::size_t bytes, std::shared_ptr<Marks> marks);
  ~DeviceResult();
  DeviceResult(const DeviceResult&) = delete;
  DeviceResult& operator=(const DeviceResult&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// The work that the current stream has by now writes the result.
  void mark();
  /// The host waits for that work, not for what the stream was given after it. Error(environment) when a kernel failed.
  void wait();
  /// Whether wait() would return at once. Error(environment) when a kernel failed.
  bool ready();

 private:
  void has_reached();
  void* data_ = nullptr;
  std::size_t bytes_;
  cudaEvent_t written_ = nullptr;
  std::uint64_t mark_ = 0;
  std::shared_ptr<Marks> marks_;
  int device_ = 0;
};
/// One that nothing refers to, for the current stream: it is free again when the pointers to it are gone, waited for or
/// not. After the first calls of a size nothing is allocated.
std::shared_ptr<DeviceResult> device_result(std::size_t bytes);

/// Copies device memory to a result of at least so many bytes, in the order of the current stream; the host does not
/// wait.
void start_copy_to_host(DeviceResult& to, const void* device, std::size_t bytes);

/// Copies to the device by way of page-locked memory that is kept, in the order of the stream. `host` may change when
/// it returns; the host waits only where the stream is 16 such copies behind, 2 where they have above 64 KiB.
void upload(void* device, const void* host, std::size_t bytes);

#ifdef __CUDACC__

/// The alignment of shared memory, static and of the launch.
inline constexpr std::size_t static_alignment = 16, dynamic_alignment = 128;

// Shared memory of a block, static and of the launch: bytes, because a __shared__ variable has no constructor. Where
// blocks are run by the host (tests/cuda_on_host), its cuda_runtime.h defines both, and exchange_lanes().
#ifndef TACIT_STATIC_SHARED
#define TACIT_STATIC_SHARED(name, size) __shared__ alignas(static_alignment) unsigned char name[size]
#define TACIT_DYNAMIC_SHARED(name)               \
  extern __shared__ __align__(dynamic_alignment) \
  unsigned char name[]
#endif

/// The members of a thread block. sum() uses warp shuffles and N / 32 values of shared memory.
template <int N>
class CudaTeam {
 public:
  static constexpr int threads = N;
  static_assert(N >= 32 && N % 32 == 0 && N <= 1024, "a block is made of whole warps");

  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ Global block() const { return blockIdx.x; }
  __device__ void barrier() const { __syncthreads(); }
  template <int Bytes>
  __device__ void copy(void* to, const void* from) const {
    __pipeline_memcpy_async(to, from, Bytes);
  }
  __device__ void close_copies() const { __pipeline_commit(); }
  template <int Groups>
  __device__ void await_copies() const {
    __pipeline_wait_prior(Groups);
  }
  template <int W>
  __device__ Lanes<W, CudaTeam> lanes() const {
    return Lanes<W, CudaTeam>(*this);
  }
  template <class V>
  __device__ V sum(const V& v) const {
    constexpr int warps = N / 32;
    V total = sum_lanes<32>(v);
    if constexpr (warps > 1) {
      TACIT_STATIC_SHARED(bytes, warps * sizeof(V));
      V* const of_warp = reinterpret_cast<V*>(bytes);
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = total;
      __syncthreads();
      total = of_warp[0];
      TACIT_UNROLL
      for (int w = 1; w < warps; ++w) add_to(total, of_warp[w]);
      __syncthreads();
    }
    return total;
  }
  template <int W, class V>
  __device__ V sum_lanes(V v) const {
    static_assert(W <= 32);
    TACIT_UNROLL
    for (int half = W / 2; half > 0; half /= 2) add_to(v, across(v, half));
    return v;
  }

 private:
  /// The value of the lane whose number differs from this one's in the bit `half`.
  template <class V>
  __device__ static V across(const V& v, int half) {
    static_assert(sizeof(V) % 4 == 0 && std::is_trivially_copyable_v<V>);
#ifdef TACIT_CUDA_ON_HOST
    return cuda_on_host::exchange_lanes(v, half);
#else
    std::uint32_t word[sizeof(V) / 4];
    memcpy(word, &v, sizeof(V));
    TACIT_UNROLL
    for (std::size_t i = 0; i < sizeof(V) / 4; ++i) word[i] = __shfl_xor_sync(0xffffffffu, word[i], half);
    V other;
    memcpy(&other, word, sizeof(V));
    return other;
#endif
  }
};

/// Bytes of shared memory that a kernel has without opting in to more.
inline constexpr std::size_t static_shared = 48 * 1024;
/// The bytes of arguments that every driver takes; from CUDA 12.1 on with driver 530 it may be more.
inline constexpr std::size_t most_argument_bytes = 4096;

/// What the CUDA runtime would refuse when the kernel is launched, or what would go wrong in it, said by the compiler.
/// A type, because nvcc allows no call of a host function in a kernel, not even in static_assert.
template <class Kernel, std::size_t Alignment>
struct CanBeLaunched : std::true_type {
  static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel is copied to the device byte by byte");
  static_assert(sizeof(Kernel) <= most_argument_bytes, "a kernel's members are the arguments of the launch");
  static_assert(alignof(typename Kernel::Shared) <= Alignment, "shared memory begins at multiples of fewer bytes");
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1) run_kernel(const __grid_constant__ Kernel kernel) {
  static_assert(CanBeLaunched<Kernel, static_alignment>::value);
  static_assert(sizeof(typename Kernel::Shared) <= static_shared,
                "a kernel with more shared memory needs run_wide_kernel");
  TACIT_STATIC_SHARED(shared, sizeof(typename Kernel::Shared));
  kernel(CudaTeam<Kernel::threads>{}, *reinterpret_cast<typename Kernel::Shared*>(shared));
}

/// The same with the dynamic shared memory of the launch.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1) run_wide_kernel(const __grid_constant__ Kernel kernel) {
  static_assert(CanBeLaunched<Kernel, dynamic_alignment>::value);
  TACIT_DYNAMIC_SHARED(wide_shared);
  kernel(CudaTeam<Kernel::threads>{}, *reinterpret_cast<typename Kernel::Shared*>(wide_shared));
}

/// Starts the kernel on blocks [0, blocks) of the current device and returns. Does nothing for no blocks.
template <class Kernel>
void launch_cuda(Global blocks, const Kernel& kernel, cudaStream_t stream = current_stream()) {
  if (blocks == 0) return;
  require(blocks <= std::numeric_limits<std::int32_t>::max(), "a kernel of ", blocks, " blocks: CUDA starts ",
          std::numeric_limits<std::int32_t>::max(), " at most");
  constexpr std::size_t bytes = sizeof(typename Kernel::Shared);
  const dim3 grid(static_cast<unsigned>(blocks)), block(static_cast<unsigned>(Kernel::threads));
  void* arguments[] = {const_cast<Kernel*>(&kernel)};
  if constexpr (bytes <= static_shared) {
    check_cuda(cudaLaunchKernel(run_kernel<Kernel>, grid, block, arguments, 0, stream), "cudaLaunchKernel");
  } else {
    check_cuda(cudaFuncSetAttribute(run_wide_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
               "cudaFuncSetAttribute");
    check_cuda(cudaLaunchKernel(run_wide_kernel<Kernel>, grid, block, arguments, bytes, stream), "cudaLaunchKernel");
  }
}

#endif

}  // namespace tacit::exec
