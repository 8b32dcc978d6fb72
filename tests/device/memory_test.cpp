// Device memory: what is kept for later arrays and reductions, results that are read later, and contexts of devices.
#include <tacit/exec/basis.hpp>
#include <tacit/exec/cuda.hpp>
#include <tacit/exec/devices.hpp>
#include <tacit/exec/gpus.hpp>
#include <tacit/exec/memory.hpp>

#include "support/systems.hpp"

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <future>
#include <span>
#include <thread>
#include <vector>

namespace tacit::test {
namespace {

using exec::Array;

std::int64_t live() {
  return cuda_on_host::counts().live_bytes;
}
std::int64_t allocations() {
  return cuda_on_host::counts().allocations;
}

class DeviceMemory : public testing::Test {
 protected:
  void SetUp() override { exec::keep_device_memory(true); }
  void TearDown() override { exec::keep_device_memory(false); }
};

TEST_F(DeviceMemory, FreedArraysAreKeptForLaterOnes) {
  const auto before = live();
  { const Array<double, Device> a(1000), b(1000); }
  const auto made = allocations();
  { const Array<double, Device> a(1000), b(1000); }
  EXPECT_EQ(allocations(), made);
  { const Array<double, Device> a(1001); }
  EXPECT_EQ(allocations(), made + 1);
  EXPECT_GT(live(), before);
  exec::release_device_memory();
  EXPECT_EQ(live(), before);
  exec::keep_device_memory(false);
  { const Array<double, Device> a(1000); }
  EXPECT_EQ(live(), before);
}

TEST_F(DeviceMemory, ArraysOfOtherStreamsAreNotKept) {  // whose work the next owner's would not wait for
  const auto before = live();
  cudaStream_t stream = nullptr;
  exec::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  {
    const exec::StreamScope scope(stream);
    const Array<double, Device> a(1000);
  }
  EXPECT_EQ(live(), before);
  exec::destroy_stream(stream);
}

TEST_F(DeviceMemory, ArraysFreedOnOtherStreamsAreNotKept) {  // which may still work with them
  const auto before = live();
  cudaStream_t stream = nullptr;
  exec::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  {
    Array<double, Device> a(1000);
    const exec::StreamScope scope(stream);
    a = {};
  }
  EXPECT_EQ(live(), before);
  exec::destroy_stream(stream);
}

// What is kept for later arrays is no reason to refuse other memory.
TEST_F(DeviceMemory, ReductionsTakeTheMemoryOfKeptArrays) {
  { const Array<double, Device> a(1000); }
  const auto before = live();
  std::thread([&] {  // has no space for reductions yet
    cuda_on_host::refuse_memory(0);
    EXPECT_NO_THROW(exec::reduction_space(64, 64));
    EXPECT_TRUE(cuda_on_host::refuse_memory(std::nullopt));
    EXPECT_GE(live(), before - 8000 + 64);
    EXPECT_LT(live(), before + (1 << 19));
  })
      .join();
  EXPECT_EQ(live(), before - 8000);
}

TEST_F(DeviceMemory, AGroupWithAMissingDeviceLeavesTheThreadWhereItWas) {
  const Array<double, Device> here(10);
  EXPECT_THROW(exec::Devices<Device>({1, 9}), Error);
  EXPECT_THROW(exec::Devices<Device>({1, -1}), Error);
  int now = -1;
  exec::check_cuda(cudaGetDevice(&now), "cudaGetDevice");
  EXPECT_EQ(now, 0);
}

TEST_F(DeviceMemory, KeptArraysStayOnTheirDevice) {
  cuda_on_host::set_devices(2);
  const void* first = nullptr;
  for (const int gpu : {0, 1}) {
    const exec::UseGpu use(gpu);
    const Array<double, Device> a(1000);
    EXPECT_EQ(exec::gpu_of_address(a.data()), gpu);
    EXPECT_NE(a.data(), first);
    first = a.data();
  }
  exec::release_device_memory();
  cuda_on_host::set_devices(4);
}

TEST_F(DeviceMemory, DestroyedStreamsLeaveNothing) {
  const auto before = live();
  cudaStream_t stream = nullptr;
  exec::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const auto reduce = [&] {
    const exec::StreamScope scope(stream);
    exec::reduction_space(1 << 20, 64), exec::device_result(64);
  };
  std::promise<void> done, destroyed;
  std::thread other([&] {  // lives on when the stream is destroyed
    reduce();
    done.set_value();
    destroyed.get_future().wait();
  });
  reduce();
  done.get_future().wait();
  EXPECT_GE(live(), before + 2 * (1 << 20));
  exec::destroy_stream(stream);
  EXPECT_EQ(live(), before);
  destroyed.set_value();
  other.join();
}

TEST_F(DeviceMemory, ResultsAreReadInAnyOrder) {
  const std::size_t n = 3000;
  std::vector<std::vector<double>> host;
  std::vector<Array<double, Device>> there;
  for (int i = 0; i < 70; ++i) {  // more than one launch takes
    host.push_back(random_vector<double>(Global(n), i));
    there.push_back(Array<double, Device>::from(host.back()));
  }
  std::vector<const double*> p, q;
  for (int i = 0; i < 70; ++i) p.push_back(host[std::size_t(i)].data()), q.push_back(there[std::size_t(i)].data());
  exec::PendingDots<double, Device> first, second, never;
  first.start(q.data(), 70, q.data(), 34, n);
  second.start(q.data() + 3, 5, q.data() + 1, 2, n);
  never.start(q.data(), 2, q.data(), 2, n);
  const auto before = cuda_on_host::counts();
  exec::clear_on_device(there[0].data(), 8);  // work that is queued later
  std::vector<double> expected(70 * 34), few(5 * 2);
  exec::block_dots<double, Host>(p.data(), 70, p.data(), 34, n, expected.data());
  exec::block_dots<double, Host>(p.data() + 3, 5, p.data() + 1, 2, n, few.data());
  const auto close = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-10);
  };
  close(second.wait(), few);
  close(first.wait(), expected);
  const auto after = cuda_on_host::counts();
  EXPECT_EQ(after.waits - before.waits, 1);  // what was started before `second` is there too
  EXPECT_EQ(after.overlapped_waits - before.overlapped_waits, 1);
}

TEST_F(DeviceMemory, AContextIsMadeOnUsedDevicesOnly) {
  cuda_on_host::set_devices(3);
  const auto work = [](int gpu) {
    const exec::UseGpu use(gpu);
    const Array<double, Device> a(100);
    exec::wait_for_gpu();
  };
  work(2);
  EXPECT_EQ(cuda_on_host::contexts(), std::vector{2});
  exec::release_device_memory();
  EXPECT_EQ(cuda_on_host::contexts(), std::vector{2});
  work(1);
  int now = -1;
  exec::check_cuda(cudaGetDevice(&now), "cudaGetDevice");
  EXPECT_EQ(now, 2);  // in use, so that later work goes there as before
  {
    const exec::UseGpu outer(0);
    work(1);
    exec::check_cuda(cudaGetDevice(&now), "cudaGetDevice");
    EXPECT_EQ(now, 0);
  }
  exec::release_device_memory();
  cuda_on_host::set_devices(4);
}

}  // namespace
}  // namespace tacit::test
