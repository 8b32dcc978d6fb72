// What the stand-in for CUDA refuses as a GPU would, though the processor could do it.
#include "planted.hpp"

#include <cuda_pipeline_primitives.h>

#include <functional>
#include <vector>

namespace {
using namespace planted;

__global__ void put(double* p, double value) {
  *p = value;
}
// Lanes of a warp that have come by different ways to different exchanges: on a GPU they wait for each other for ever,
// or take each other's values.
__global__ void different_exchanges(unsigned* p, bool same) {
  if (same || threadIdx.x < 16) p[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
  else p[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 2);
}
template <int Bytes>
__global__ void both_memories(unsigned char* p) {
  TACIT_DYNAMIC_SHARED(of_launch);
  TACIT_STATIC_SHARED(of_block, Bytes);
  *p = of_launch[0] & of_block[0];
}

TEST_F(Planted, DifferentExchanges) {
  unsigned* const p = device_memory<unsigned>(32);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    cuda_on_host::set_seed(seed);
    Faults faults;
    start(different_exchanges, 1, 32, p, false);
    wait();
    EXPECT_TRUE(only(faults, "lanes of a warp are in different exchanges"));
    start(different_exchanges, 1, 32, p, true);
    EXPECT_EQ(to_host(p, 32)[5], 4u);
    EXPECT_TRUE(faults.take().empty());
  }
  cudaFree(p);
}

TEST_F(Planted, StaticAndDynamicSharedMemory) {
  unsigned char* p = device_memory<unsigned char>(1);
  void* arguments[] = {&p};
  constexpr int most = 227 * 1024;
  Faults faults;
  const auto launch = [&](auto* kernel, int dynamic) {
    EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, std::size_t(dynamic)), cudaSuccess);
    wait();
  };
  launch(both_memories<1024>, most - 1024);
  EXPECT_TRUE(faults.take().empty());
  launch(both_memories<1025>, most - 1024);
  EXPECT_TRUE(only(faults, "1025 bytes of static and 231424 of dynamic shared memory"));
  launch(both_memories<48 * 1024 + 1>, 16);
  EXPECT_TRUE(only(faults, "49153 bytes of static shared memory"));
  cudaFree(p);
}

// A capture after a call that may wait for the device is no graph; the stream works again when it has ended.
TEST_F(Planted, CallsDuringACapture) {
  double *p = device_memory<double>(1), *pinned = nullptr, value = 3;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), 8), cudaSuccess);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  void* arguments[] = {&p, &value};
  const auto launch = [&] { return cudaLaunchKernel(put, dim3(1), dim3(1), arguments, 0, stream); };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const auto capture = [&](const auto& call) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(launch(), cudaSuccess);
    call();
  };
  capture([] {});
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
  void* got = nullptr;
  const std::vector<std::function<cudaError_t()>> refused{
      [&] { return cudaMalloc(&got, 8); },
      [&] { return cudaFree(p); },
      [&] { return cudaHostAlloc(&got, 8, cudaHostAllocMapped); },
      [&] { return cudaFreeHost(pinned); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaMemcpyAsync(p, &value, 8, cudaMemcpyHostToDevice, stream); },
      [&] { return cudaGraphLaunch(executable, stream); },
  };
  for (const auto& call : refused) {
    capture([&] {
      EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
      EXPECT_EQ(launch(), cudaErrorStreamCaptureInvalidated);
      EXPECT_EQ(cudaMemsetAsync(p, 0, 8, stream), cudaErrorStreamCaptureInvalidated);
    });
    cudaGraph_t none = graph;
    EXPECT_EQ(cudaStreamEndCapture(stream, &none), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(none, nullptr);
    cudaGetLastError();
  }
  EXPECT_EQ(got, nullptr);
  cudaMemsetAsync(p, 0, 8, stream);
  EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(to_host(p, 1)[0], 3.0);
  cudaGraphExecDestroy(executable), cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaFreeHost(pinned), cudaFree(p);
}

}  // namespace
