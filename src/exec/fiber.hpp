// Fiber: a function with its own stack that runs until it switches to another fiber.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace tacit::exec {

class Fiber {
 public:
  /// The fiber of the calling thread.
  Fiber();
  /// f must not throw and must not return; it ends by switching away. Error(environment) where there is no memory for
  /// the stack.
  Fiber(std::size_t stack_bytes, std::function<void()> f);
  Fiber(const Fiber&) = delete;
  ~Fiber();
  /// Switches to `to`; returns when some fiber switches back. Also switches the C++ runtime's state of exceptions; the
  /// modes of floating-point arithmetic (rounding, subnormals) stay those of the thread.
  void give_way(Fiber& to);

  struct Parts;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::exec
