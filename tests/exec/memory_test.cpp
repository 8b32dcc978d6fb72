#include <tacit/base/error.hpp>
#include <tacit/base/sanitizers.hpp>
#include <tacit/exec/memory.hpp>
#include "exec/idle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

using namespace tacit;

namespace {

struct Held {
  std::uint32_t* begin;
  std::size_t count;
  std::uint32_t mark;
  bool intact() const {
    return std::all_of(begin, begin + count, [this](std::uint32_t v) { return v == mark; });
  }
};

/// Blocks of many sizes, allocated and freed in any order, each full of a number of its own.
bool blocks_stay_apart(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Held> held;
  bool right = true;
  for (std::uint32_t step = 0; step < 400; ++step) {
    if (held.size() < 12 && random() % 5 < 3) {
      const std::size_t bytes = random() % 4 == 0 ? 1 + random() % 3000 : 1 + random() % (6 * exec::large_bytes);
      const std::size_t count = (bytes + 3) / 4;
      auto* const p = static_cast<std::uint32_t*>(exec::host_allocate(count * 4, false));
      right &= reinterpret_cast<std::uintptr_t>(p) % 128 == 0;
      std::fill_n(p, count, seed * 1000 + step);
      held.push_back({p, count, seed * 1000 + step});
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      right &= held.back().intact();
      exec::host_free(held.back().begin);
      held.pop_back();
    }
    if (step % 100 == 99) exec::release_idle_memory();
  }
  for (const Held& h : held) right &= h.intact(), exec::host_free(h.begin);
  return right;
}

}  // namespace

TEST(HostMemory, BlocksDoNotOverlap) {
  EXPECT_TRUE(blocks_stay_apart(1));
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (unsigned t = 2; t < 6; ++t) threads.emplace_back([t, &right] { right += blocks_stay_apart(t); });
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 4);
}

TEST(HostMemory, IsZeroWhereItIsAskedFor) {
  for (const std::size_t n : {std::size_t(100), 3 * exec::large_bytes, exec::large_bytes / 2}) {
    {
      exec::Array<std::uint8_t> full = exec::Array<std::uint8_t>::uninitialised(n);
      std::fill_n(full.data(), n, std::uint8_t(255));
    }
    const exec::Array<std::uint8_t> zero(n);
    EXPECT_TRUE(std::all_of(zero.data(), zero.data() + n, [](std::uint8_t v) { return v == 0; }));
  }
}

#if defined(__linux__) && !defined(TACIT_THREAD_SANITIZER) && !defined(TACIT_ADDRESS_SANITIZER)
/// In a process with address space for one array of this size, and not for the usual mapping around it.
void allocate_in_little_address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE)) + (rlim_t(16) << 20);
  setrlimit(RLIMIT_AS, &limit);
  const std::size_t bytes = 2 * exec::large_bytes;
  try {
    auto* const p = static_cast<char*>(exec::host_allocate(bytes, false));
    std::fill_n(p, bytes, char(1));
    std::_Exit(std::all_of(p, p + bytes, [](char c) { return c == 1; }) ? 7 : 1);
  } catch (const Error&) {
    std::_Exit(2);
  }
}
TEST(HostMemory, IsAllocatedInLittleAddressSpace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(allocate_in_little_address_space(), testing::ExitedWithCode(7), "");
}
#endif

TEST(HostMemory, BuffersAreVectors) {
  exec::Buffer<double> v;
  for (int i = 0; i < 400000; ++i) v.push_back(i);  // beyond large_bytes
  v.resize(500000, -1.0);
  exec::Buffer<double> copy = v;
  v.clear(), v.shrink_to_fit();
  for (int i = 0; i < 500000; ++i) ASSERT_EQ(copy[std::size_t(i)], i < 400000 ? double(i) : -1.0);
  EXPECT_EQ(exec::Buffer<double>(3, 0.0), (exec::Buffer<double>{0, 0, 0}));
}
