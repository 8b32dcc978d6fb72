// Repetitions of all tests (--gtest_repeat=51) run under other orders of streams and threads: the k-th, counted from 0,
// under the seed that is k above CUDA_ON_HOST_SEED, in every test from its beginning.
#include <tacit/exec/gpus.hpp>

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cstdint>
#include <cstdlib>

namespace {

class Seeds : public testing::EmptyTestEventListener {
  void OnTestProgramStart(const testing::UnitTest&) override { devices_ = tacit::exec::gpu_count(); }
  void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
    const char* const first = std::getenv("CUDA_ON_HOST_SEED");
    seed_ = (first ? std::strtoull(first, nullptr, 10) : 0) + std::uint64_t(iteration);
  }
  void OnTestStart(const testing::TestInfo&) override {
    if (tacit::exec::gpu_count() != devices_) cuda_on_host::set_devices(devices_);  // a test has changed it
    cuda_on_host::set_seed(seed_);
  }

  int devices_ = 0;
  std::uint64_t seed_ = 0;
};

[[maybe_unused]] const bool listens = (testing::UnitTest::GetInstance()->listeners().Append(new Seeds), true);

}  // namespace
