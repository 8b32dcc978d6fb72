// What several threads throw: an exception that leaves a thread ends the program. parallel_for() keeps it so.
//
//   Caught caught;
//   std::thread other([&] { caught(f); });
//   other.join();
//   caught.rethrow();
#pragma once

#include <atomic>
#include <exception>

namespace tacit::exec {

/// Thread-safe.
class Caught {
 public:
  Caught() = default;
  Caught(const Caught&) = delete;
  /// f(), and what it throws is kept: the first of all threads. Nothing is begun after that.
  template <class F>
  void operator()(F&& f) noexcept {
    if (any()) return;
    try {
      f();
    } catch (...) {
      keep();
    }
  }
  /// Keeps the exception that is being handled.
  void keep() noexcept;
  bool any() const noexcept { return kept_.load(std::memory_order_acquire); }
  /// Throws what has been kept, if anything has.
  void rethrow() const {
    if (any()) [[unlikely]]
      std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  std::atomic<bool> taken_{false}, kept_{false};
};

}  // namespace tacit::exec
