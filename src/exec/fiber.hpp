// Fiber: a function with its own stack that runs until it switches to another fiber.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace tacit::exec {

/// Stacks of many fibers in one mapping of the process, of which the system allows some 65,000 (vm.max_map_count). They
/// have no guard pages: intact() says whether one has been overrun.
class FiberStacks {
 public:
  /// Error(environment) where there is no memory. Pages that are not touched take none.
  FiberStacks(std::size_t count, std::size_t bytes);
  FiberStacks(const FiberStacks&) = delete;
  ~FiberStacks();
  std::byte* of(std::size_t i) const { return memory_ + i * bytes_; }
  std::size_t bytes() const { return bytes_; }
  bool intact(std::size_t i) const;

 private:
  std::size_t count_, bytes_;
  std::byte* memory_ = nullptr;
};

class Fiber {
 public:
  /// The fiber of the calling thread.
  Fiber();
  /// f must not throw and must not return; it ends by switching away. Error(environment) where there is no memory for
  /// the stack.
  Fiber(std::size_t stack_bytes, std::function<void()> f);
  /// On the i-th of these stacks, which must outlive it.
  Fiber(const FiberStacks& stacks, std::size_t i, std::function<void()> f);
  Fiber(const Fiber&) = delete;
  ~Fiber();
  /// Switches to `to`; returns when some fiber switches back. Also switches the C++ runtime's state of exceptions; the
  /// modes of floating-point arithmetic (rounding, subnormals) stay those of the thread.
  void give_way(Fiber& to);

  struct Parts;

 private:
  void begin_on(std::byte* base, std::size_t bytes);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::exec
