// Each kind of fault that the stand-in for CUDA is there to find, planted once, and the same without the fault.
#include "planted.hpp"

#include <tacit/base/sanitizers.hpp>
#include <tacit/exec/cuda.hpp>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace {
using namespace planted;

// ---- Memory --------------------------------------------------------------------------------------------------------

__global__ void put(double* p, int at, double value) {
  p[at] = value;
}
__global__ void put_through(double** table, double value) {
  *table[0] = value;
}

TEST_F(Planted, HostTouchesDeviceMemory) {
  double* const p = device_memory<double>(10);
  EXPECT_DEATH(*static_cast<volatile double*>(p) = 1,
               "host code touches device memory: byte 0 of an allocation of 80 bytes");
  start(put, 1, 1, p, 3, 2.0);
  EXPECT_EQ(to_host(p, 10)[3], 2.0);
  EXPECT_DEATH((void)*static_cast<volatile double*>(p + 3), "host code touches device memory");
  cudaFree(p);
}

TEST_F(Planted, KernelWritesJustBeyondTheEnd) {
  double* const p = device_memory<double>(10);
  for (const int at : {10, -1}) {
#if defined(TACIT_ADDRESS_SANITIZER)
    EXPECT_DEATH(
        {
          start(put, 1, 1, p, at, 2.0);
          cudaDeviceSynchronize();
        },
        "use-after-poison");
#else
    Faults faults;
    start(put, 1, 1, p, at, 2.0);
    wait();
    EXPECT_TRUE(
        only(faults, "kernel double* wrote to byte " + std::to_string(8 * at) + " of an allocation of 80 bytes"));
#endif
  }
  cudaFree(p);
}

TEST_F(Planted, KernelTouchesWhatIsBetweenAllocations) {
  double* const p = device_memory<double>(10);
  EXPECT_DEATH(
      {
        start(put, 1, 1, p, 512 + 10, 2.0);
        cudaDeviceSynchronize();
      },
      "kernel double\\* touches address .* between allocations");
  cudaFree(p);
}

TEST_F(Planted, FreedMemory) {
  double* const p = device_memory<double>(10);
  double** const table = device_memory<double*>(1);
  cudaMemcpyAsync(table, &p, sizeof p, cudaMemcpyHostToDevice);
  start(put_through, 1, 1, table, 1.0);
  cudaFree(p);
  // An address that a kernel finds in device memory is seen when it is used, one among the arguments before.
  EXPECT_DEATH(
      {
        start(put_through, 1, 1, table, 1.0);
        cudaDeviceSynchronize();
      },
      "device memory that was freed");
  cudaFree(table);
  {
    Faults faults;
    EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
    EXPECT_TRUE(only(faults, "cudaFree of what was freed before"));
    cudaMemsetAsync(p, 0, 8);
    EXPECT_TRUE(only(faults, "memory that was freed"));
  }
  EXPECT_DEATH(start(put, 1, 1, p, 0, 2.0),
               "the argument of kernel double\\* holds at byte 0 device memory that was freed");
}

TEST_F(Planted, UninitialisedMemoryIsNan) {
  for (int round = 0; round < 2; ++round) {
    double* const p = device_memory<double>(100);
    for (const double v : to_host(p, 100)) EXPECT_TRUE(std::isnan(v));
    cudaMemsetAsync(p, 0, 800);
    cudaFree(p);
  }
}

TEST_F(Planted, HostPointerAmongTheArguments) {
  std::vector<double> on_host(10);
  double *const p = device_memory<double>(10), *pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&pinned), 80, cudaHostAllocMapped), cudaSuccess);
  Faults faults;
  start(put, 1, 1, on_host.data(), 3, 2.0);
  EXPECT_TRUE(
      only(faults, "the argument of kernel double* holds at byte 0 an address of host memory that is not pinned"));
  start(put, 1, 1, pinned, 3, 2.0);
  start(put, 1, 1, p, 3, 2.0);
  wait();
  EXPECT_EQ(pinned[3], 2.0);
  EXPECT_TRUE(faults.take().empty());
  cudaFree(p);
  cudaFreeHost(pinned);
}

TEST_F(Planted, MemoryOfAnotherDevice) {
  cuda_on_host::set_devices(2);
  double* const p = device_memory<double>(10);
  cudaSetDevice(1);
  double** const table = device_memory<double*>(1);
  EXPECT_DEATH(start(put, 1, 1, p, 3, 2.0), "memory of device 0, to which device 1 has no peer access");
  cudaMemcpyAsync(table, &p, sizeof p, cudaMemcpyHostToDevice);
  EXPECT_DEATH(
      {
        start(put_through, 1, 1, table, 2.0);
        cudaDeviceSynchronize();
      },
      "on device 1 without peer access touches byte 0");
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  start(put_through, 1, 1, table, 2.0);
  start(put, 1, 1, p, 1, 3.0);
  wait();
  cudaSetDevice(0);
  EXPECT_EQ(to_host(p, 10)[0], 2.0);
  cudaFree(p);
  cudaFree(table);
}

TEST_F(Planted, Leak) {
  EXPECT_DEATH(
      {
        device_memory<double>(10);
        std::exit(0);
      },
      "the process ends with 80 bytes of device memory that were not freed");
  EXPECT_EXIT(
      {
        cudaFree(device_memory<double>(10));
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

// ---- Alignment -----------------------------------------------------------------------------------------------------

__global__ void copy_packet(const double* from, double* to) {
  tacit::exec::Packet<double, 2>::load(from).store(to);
}
__global__ void copy_to_shared(const double* from, double* to, int bytes, bool waits) {
  TACIT_STATIC_SHARED(memory, 64);
  __pipeline_memcpy_async(memory, from, std::size_t(bytes));
  __pipeline_commit();
  if (waits) __pipeline_wait_prior(0);
  *to = *reinterpret_cast<double*>(memory);
}

TEST_F(Planted, MisalignedVectorLoad) {
  double* const p = device_memory<double>(10);
  start(copy_packet, 1, 1, p, p + 2);
  wait();
  EXPECT_DEATH(
      {
        start(copy_packet, 1, 1, p + 1, p + 2);
        cudaDeviceSynchronize();
      },
      "misaligned");
  EXPECT_DEATH(
      {
        start(copy_packet, 1, 1, p, p + 3);
        cudaDeviceSynchronize();
      },
      "misaligned");
  cudaFree(p);
}

TEST_F(Planted, AsynchronousCopies) {
  double* const p = device_memory<double>(10);
  start(put, 1, 1, p, 0, 4.0);
  start(put, 1, 1, p, 1, 5.0);
  start(copy_to_shared, 1, 1, p, p + 4, 16, true);
  EXPECT_EQ(to_host(p, 10)[4], 4.0);
  start(copy_to_shared, 1, 1, p, p + 4, 16, false);
  EXPECT_TRUE(std::isnan(to_host(p, 10)[4])) << "it was not awaited";
  Faults faults;
  start(copy_to_shared, 1, 1, p + 1, p + 4, 16, true);
  wait();
  EXPECT_TRUE(only(faults, "a misaligned asynchronous copy of 16 bytes"));
  start(copy_to_shared, 1, 1, p, p + 4, 12, true);
  wait();
  EXPECT_TRUE(only(faults, "an asynchronous copy of 12 bytes"));
  cudaFree(p);
}

// ---- Barriers and shared memory ------------------------------------------------------------------------------------

__global__ void reverse(double* p, bool waits) {
  TACIT_STATIC_SHARED(bytes, 64 * sizeof(double));
  auto* const memory = reinterpret_cast<double*>(bytes);
  memory[threadIdx.x] = p[threadIdx.x];
  if (waits) __syncthreads();
  p[threadIdx.x] = memory[63 - threadIdx.x];
}
__global__ void some_leave(int) {
  if (threadIdx.x > 40) return;
  __syncthreads();
}
__global__ void different_barriers(int) {
  if (threadIdx.x < 32) __syncthreads();
  else __syncthreads();
}
__global__ void barrier_or_shuffle(unsigned* p) {
  if (threadIdx.x % 2) __syncthreads();
  else *p = __shfl_xor_sync(0xffffffffu, 1u, 2);
}
__global__ void beyond_shared(int at) {
  TACIT_STATIC_SHARED(memory, 64);
  memory[at] = 1;
}
__global__ void lane_sums(unsigned* p) {
  unsigned v = threadIdx.x;
  for (int half = 16; half > 0; half /= 2) v += __shfl_xor_sync(0xffffffffu, v, half);
  p[threadIdx.x] = v;
}

TEST_F(Planted, MissingBarrier) {
  double* const p = device_memory<double>(64);
  std::vector<double> numbers(64);
  for (int i = 0; i < 64; ++i) numbers[std::size_t(i)] = i;
  for (const bool waits : {true, false}) {
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      cuda_on_host::set_seed(seed);
      cudaMemcpyAsync(p, numbers.data(), 64 * sizeof(double), cudaMemcpyHostToDevice);
      start(reverse, 1, 64, p, waits);
      const auto v = to_host(p, 64);
      for (int i = 0; i < 64; ++i) wrong += v[std::size_t(i)] != 63 - i;
    }
    EXPECT_EQ(wrong > 0, !waits);
  }
  cudaFree(p);
}

TEST_F(Planted, DivergentBarriers) {
  unsigned* const p = device_memory<unsigned>(64);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    cuda_on_host::set_seed(seed);
    Faults faults;
    start(some_leave, 2, 64, 0);
    wait();
    EXPECT_TRUE(only(faults, "some threads of a block"));
    start(different_barriers, 1, 64, 0);
    wait();
    EXPECT_TRUE(only(faults, "threads of a block wait at different barriers: __syncthreads of "));
    start(barrier_or_shuffle, 1, 64, p);
    wait();
    EXPECT_TRUE(only(faults, "threads wait for each other for ever: "));
    start(lane_sums, 1, 64, p);
    const auto sums = to_host(p, 64);
    for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(sums[i], i < 32 ? 496u : 1520u);
    EXPECT_TRUE(faults.take().empty());
  }
  cudaFree(p);
}

TEST_F(Planted, BeyondSharedMemory) {
  start(beyond_shared, 1, 1, 63);
  wait();
#if defined(TACIT_ADDRESS_SANITIZER)
  EXPECT_DEATH(
      {
        start(beyond_shared, 1, 1, 64);
        cudaDeviceSynchronize();
      },
      "use-after-poison");
#else
  Faults faults;
  start(beyond_shared, 1, 1, 64);
  wait();
  EXPECT_TRUE(only(faults, "writes beyond 64 bytes of shared memory"));
#endif
}

// ---- Launches and copies -------------------------------------------------------------------------------------------

__global__ void wide(double* p) {
  TACIT_DYNAMIC_SHARED(memory);
  if (p) *p = memory[0];
}

TEST_F(Planted, BadConfigurations) {
  EXPECT_EQ(start(wide, 0, 32, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(wide, 1, 1025, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  double* p = nullptr;
  void* arguments[] = {&p};
  EXPECT_EQ(cudaLaunchKernel(wide, dim3(1), dim3(32), arguments, 49153), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(wide, dim3(1), dim3(32), arguments, 100000), cudaSuccess);
  EXPECT_EQ(cudaLaunchCooperativeKernel(wide, dim3(1000), dim3(1024), arguments), cudaErrorCooperativeLaunchTooLarge);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamDestroy(stream);
  EXPECT_EQ(cudaLaunchKernel(wide, dim3(1), dim3(32), arguments, 0, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMalloc(&p, std::size_t(1) << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  wait();
}

TEST_F(Planted, BadCopies) {
  double* const p = device_memory<double>(10);
  std::vector<double> v(20);
  EXPECT_DEATH(cudaMemcpyAsync(p, v.data(), 88, cudaMemcpyHostToDevice),
               "the target of 88 bytes is 8 bytes longer than its allocation");
  EXPECT_DEATH(cudaMemcpyAsync(v.data(), p + 1, 80, cudaMemcpyDeviceToHost),
               "the source of 80 bytes is 8 bytes longer than its allocation");
  Faults faults;
  EXPECT_EQ(cudaMemcpyAsync(p, v.data(), 80, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_TRUE(only(faults, "from host to device memory with another cudaMemcpyKind"));
  cudaFree(p);
}

// ---- Missing waits -------------------------------------------------------------------------------------------------

TEST_F(Planted, ResultReadBeforeTheWait) {
  double *const p = device_memory<double>(1), *pinned = nullptr;
  cudaMallocHost(reinterpret_cast<void**>(&pinned), 8);
  start(put, 1, 1, p, 0, 2.0);
  cudaMemcpyAsync(pinned, p, 8, cudaMemcpyDeviceToHost);
  EXPECT_TRUE(std::isnan(*pinned)) << "nothing has been waited for";
  wait();
  EXPECT_EQ(*pinned, 2.0);
  // Pinned memory is read when the copy is carried out, pageable memory before the call returns.
  double pageable = 3;
  *pinned = 3;
  cudaMemcpyAsync(p, &pageable, 8, cudaMemcpyHostToDevice);
  pageable = 4;
  EXPECT_EQ(to_host(p, 1)[0], 3.0);
  cudaMemcpyAsync(p, pinned, 8, cudaMemcpyHostToDevice);
  *pinned = 4;
  EXPECT_EQ(to_host(p, 1)[0], 4.0) << "changed while it was being copied";
  cudaFree(p);
  cudaFreeHost(pinned);
}

// One stream writes, another reads: in the order of the calls only where the second waits for an event.
TEST_F(Planted, MissingEvent) {
  double* const p = device_memory<double>(2);
  cudaStream_t first, second;
  cudaEvent_t written;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&written, cudaEventDisableTiming);
  for (const bool waits : {true, false}) {
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      cuda_on_host::set_seed(seed);
      cudaMemsetAsync(p, 0, 16, first);
      cudaStreamSynchronize(first);
      double value = double(seed);
      cudaMemcpyAsync(p, &value, 8, cudaMemcpyHostToDevice, first);
      cudaEventRecord(written, first);
      if (waits) cudaStreamWaitEvent(second, written);
      cudaMemcpyAsync(p + 1, p, 8, cudaMemcpyDeviceToDevice, second);
      cudaStreamSynchronize(second);
      wrong += to_host(p, 2)[1] != value;
      cudaStreamSynchronize(first);
    }
    if (waits) EXPECT_EQ(wrong, 0);
    else EXPECT_GT(wrong, 5);
  }
  cudaEventDestroy(written);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaFree(p);
}

}  // namespace
