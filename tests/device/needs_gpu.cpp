// Without a GPU there is nothing to test: exit code 77, as of the programs of bench/device.
#include <tacit/exec/memory.hpp>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace {

class NeedsGpu : public testing::Environment {
  void SetUp() override {
    if (tacit::exec::device_available()) return;
    std::puts("no GPU");
    std::exit(77);
  }
};

[[maybe_unused]] const auto* const needed = testing::AddGlobalTestEnvironment(new NeedsGpu);

}  // namespace
