// Fibers: switches in any order, exceptions within them, and what is mapped where a stack was.
#include "exec/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

namespace tacit {
namespace {
constexpr std::size_t stack_bytes = std::size_t{256} << 10;

TEST(Fiber, RunsUntilItSwitches) {
  exec::Fiber here;
  std::vector<int> order;
  std::unique_ptr<exec::Fiber> a, b;
  a = std::make_unique<exec::Fiber>(stack_bytes, [&] {
    order.push_back(1);
    a->give_way(*b);
    order.push_back(3);
    a->give_way(here);
  });
  b = std::make_unique<exec::Fiber>(stack_bytes, [&] {
    order.push_back(2);
    b->give_way(*a);
  });
  here.give_way(*a);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Fiber, HasExceptionsOfItsOwn) {
  exec::Fiber here;
  std::unique_ptr<exec::Fiber> other;
  other = std::make_unique<exec::Fiber>(stack_bytes, [&] {
    try {
      throw std::runtime_error("of the fiber");
    } catch (const std::runtime_error&) {
      other->give_way(here);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
    other->give_way(here);
  });
  try {
    throw std::runtime_error("of the thread");
  } catch (const std::runtime_error&) {
    here.give_way(*other);
    try {
      throw;
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "of the thread");
    }
  }
  here.give_way(*other);
}

// The address sanitizer knows what surrounds the variables of a function until it returns, and the last function of a
// fiber never does.
TEST(Fiber, LeavesItsStacksAddressesUsable) {
  const auto page = std::size_t(sysconf(_SC_PAGESIZE));
  exec::Fiber here;
  std::uintptr_t stood = 0;
  std::unique_ptr<exec::Fiber> other;
  other = std::make_unique<exec::Fiber>(stack_bytes, [&] {
    std::array<volatile char, 100> some{};
    some[0] = 1;
    // Not the address of `some`, which the sanitizer may keep on the heap.
    stood = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) / page * page;
    other->give_way(here);
  });
  here.give_way(*other);
  ASSERT_NE(stood, 0u);
  other.reset();
  void* const at = mmap(reinterpret_cast<void*>(stood), page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED) GTEST_SKIP() << "something else has been mapped there";
  std::memset(at, 1, page);
  EXPECT_EQ(static_cast<const char*>(at)[page - 1], 1);
  munmap(at, page);
}
// Of very many fibers, whose stacks have no guard pages.
TEST(Fiber, ThatOverrunsItsStackIsFound) {
  const exec::FiberStacks stacks(3, 32768);
  exec::Fiber here;
  // Writes below its own frames, as deeper calls would, down to so many bytes above the end of the stack.
  const auto reaches = [&](std::size_t i, std::size_t left) {
    std::unique_ptr<exec::Fiber> fiber;
    fiber = std::make_unique<exec::Fiber>(stacks, i, [&] {
      const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
      const std::size_t used = std::size_t(frame - reinterpret_cast<std::uintptr_t>(stacks.of(i)));
      EXPECT_LT(used, stacks.bytes());
      std::memset(stacks.of(i) + left, 1, used / 2);
      fiber->give_way(here);
    });
    here.give_way(*fiber);
  };
  reaches(0, 64), reaches(1, 56), reaches(2, 256);
  EXPECT_TRUE(stacks.intact(0));
  EXPECT_FALSE(stacks.intact(1));
  EXPECT_TRUE(stacks.intact(2));
}
}  // namespace
}  // namespace tacit
