// The part of the CUDA runtime that Tacit uses, on the processor of the host (docs/design/device.md). In
// the include path before NVIDIA's header of this name, and included before all else in files that nvcc would compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#define TACIT_CUDA_ON_HOST 1

// ---- Types and codes, with CUDA's names and numbers ----------------------------------------------------------------

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrCooperativeLaunch = 95,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2;

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major, minor, multiProcessorCount, l2CacheSize;
};
#define CUDART_VERSION 13000
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

// ---- Calls of the host ---------------------------------------------------------------------------------------------

const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream = nullptr);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr);

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
/// Knows cuDevicePrimaryCtxGetState.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags, cudaDriverEntryPointQueryResult* found);

// ---- Launches ------------------------------------------------------------------------------------------------------

namespace cuda_on_host {

/// A kernel with its arguments, which are copied when it is launched.
struct Kernel {
  const void* function;        ///< identifies it
  const std::type_info* name;  ///< the type of its first argument, which is what a functor's kernel is known by
  std::function<void()> thread;
  struct Argument {
    const void* bytes;
    std::size_t size;
  };
  std::vector<Argument> arguments;  ///< within `thread`
};
struct Launch {
  dim3 grid, block;
  std::size_t dynamic_bytes;
  cudaStream_t stream;
  bool cooperative;
};
cudaError_t launch(const char* call, const Launch& launch, Kernel kernel);
cudaError_t allow_dynamic_shared(const void* function, cudaFuncAttribute attribute, int bytes);
int blocks_per_processor(const void* function, int threads, std::size_t dynamic_bytes);

template <class... P, std::size_t... I>
Kernel bind(void (*function)(P...), void** arguments, std::index_sequence<I...>) {
  using Values = std::tuple<std::remove_cv_t<P>...>;
  const auto values = std::make_shared<Values>(*static_cast<std::remove_cv_t<P>*>(arguments[I])...);
#if __has_builtin(__builtin_clear_padding)
  (__builtin_clear_padding(&std::get<I>(*values)), ...);  // which may hold what looks like an address
#endif
  Kernel kernel{reinterpret_cast<const void*>(function),
                &typeid(void (*)(P...)),
                [function, values] { std::apply(function, *values); },
                {}};
  if constexpr (sizeof...(P) > 0) kernel.name = &typeid(std::tuple_element_t<0, Values>);
  (kernel.arguments.push_back({&std::get<I>(*values), sizeof(std::get<I>(*values))}), ...);
  return kernel;
}

}  // namespace cuda_on_host

template <class... P>
cudaError_t cudaLaunchKernel(void (*function)(P...), dim3 grid, dim3 block, void** arguments,
                             std::size_t dynamic_bytes = 0, cudaStream_t stream = nullptr) {
  return cuda_on_host::launch("cudaLaunchKernel", {grid, block, dynamic_bytes, stream, false},
                              cuda_on_host::bind(function, arguments, std::index_sequence_for<P...>{}));
}
template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*function)(P...), dim3 grid, dim3 block, void** arguments,
                                        std::size_t dynamic_bytes = 0, cudaStream_t stream = nullptr) {
  return cuda_on_host::launch("cudaLaunchCooperativeKernel", {grid, block, dynamic_bytes, stream, true},
                              cuda_on_host::bind(function, arguments, std::index_sequence_for<P...>{}));
}
template <class... P>
cudaError_t cudaFuncSetAttribute(void (*function)(P...), cudaFuncAttribute attribute, int value) {
  return cuda_on_host::allow_dynamic_shared(reinterpret_cast<const void*>(function), attribute, value);
}
template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*function)(P...), int threads,
                                                          std::size_t dynamic_bytes) {
  *blocks = cuda_on_host::blocks_per_processor(reinterpret_cast<const void*>(function), threads, dynamic_bytes);
  return cudaSuccess;
}

// ---- What kernels see ----------------------------------------------------------------------------------------------

#ifdef __CUDACC__

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)

// Each running thread's own: they are set when one thread of a block gives way to another.
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_host {
/// The block's memory for the variable with this mark; made at first use, filled with 0xff.
unsigned char* static_shared(const char* mark, std::size_t bytes);
/// The dynamic shared memory of the launch.
unsigned char* dynamic_shared();
/// __shfl_xor_sync() of all words of a value by all lanes of a warp: word by word, they would wait for each other as
/// often. `from` and `to` are different memory.
void exchange_lanes(void* to, const void* from, std::size_t bytes, int lanes);
template <class V>
V exchange_lanes(const V& v, int lanes) {
  V other;
  exchange_lanes(&other, &v, sizeof(V), lanes);
  return other;
}
}  // namespace cuda_on_host

// Blocks of a cooperative launch run side by side, so that shared memory can be no variable of the program.
#define TACIT_STATIC_SHARED(name, size) \
  static const char name##_mark = 0;    \
  unsigned char* const name = cuda_on_host::static_shared(&name##_mark, size)
#define TACIT_DYNAMIC_SHARED(name) unsigned char* const name = cuda_on_host::dynamic_shared()

void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE());
void __syncwarp(unsigned mask = 0xffffffffu);
unsigned __shfl_xor_sync(unsigned mask, unsigned value, int lanes);

// Not contracted with a sum, whatever the other options of the file (TACIT_CUDA_HOST_OPTIONS).
inline double __dmul_rn(double a, double b) {
  double p = a * b;
  asm("" : "+m"(p));
  return p;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}
inline double __fma_rn(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

#endif
