// Fiber: a function with a stack of its own that runs until it gives way.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace tacit::comm::detail {

class Fiber {
 public:
  /// The calling thread's own.
  Fiber();
  /// f must not throw, and never return: it gives way for good. Error(environment) where there is no memory for the
  /// stack.
  Fiber(std::size_t stack_bytes, std::function<void()> f);
  Fiber(const Fiber&) = delete;
  ~Fiber();
  /// Goes on with `to`; returns when something comes back here. What the C++ runtime keeps of exceptions that are under
  /// way goes along.
  void give_way(Fiber& to);

  struct Parts;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace tacit::comm::detail
