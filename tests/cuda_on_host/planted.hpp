// What the tests of planted faults share: launches, device memory, and the faults that were found.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace planted {
using cuda_on_host::Faults;

template <class... P>
cudaError_t start(void (*kernel)(P...), unsigned blocks, unsigned threads, std::type_identity_t<P>... values) {
  void* arguments[] = {&values...};
  return cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, nullptr);
}
inline void wait() {
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

template <class T>
T* device_memory(std::size_t n) {
  T* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, n * sizeof(T)), cudaSuccess);
  return p;
}
template <class T>
std::vector<T> to_host(const T* p, std::size_t n) {
  std::vector<T> v(n);
  EXPECT_EQ(cudaMemcpyAsync(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  wait();
  return v;
}
/// Whether exactly one fault was found, which has these words.
inline testing::AssertionResult only(Faults& faults, const std::string& words) {
  const auto all = faults.take();
  if (all.size() == 1 && all[0].find(words) != std::string::npos) return testing::AssertionSuccess();
  auto result = testing::AssertionFailure() << all.size() << " faults";
  for (const auto& one : all) result << "\n  " << one;
  return result;
}

/// Leaves one device, seed 0 and no memory behind.
class OnHost : public testing::Test {
 protected:
  void TearDown() override {
    cuda_on_host::set_devices(1);
    cuda_on_host::set_seed(0);
    EXPECT_EQ(cuda_on_host::counts().live_bytes, before_);
  }

 private:
  std::int64_t before_ = cuda_on_host::counts().live_bytes;
};

class Planted : public OnHost {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    cuda_on_host::set_seed(0);  // device memory is closed to the host after every call
  }
};

}  // namespace planted
