// Runs of a computation under many orders in which streams work (tests/cuda_on_host).
#pragma once

#include <gtest/gtest.h>
#include <cuda_on_host.hpp>

#include <cstdint>

namespace tacit::test {

inline constexpr int seeds = 50;

/// The number of orders in which f gives another result than in order 0.
template <class F>
int orders_that_differ(const F& f) {
  cuda_on_host::set_seed(0);
  const auto expected = f();
  int differ = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    cuda_on_host::set_seed(std::uint64_t(seed));
    differ += f() != expected;
  }
  cuda_on_host::set_seed(0);
  return differ;
}

}  // namespace tacit::test
