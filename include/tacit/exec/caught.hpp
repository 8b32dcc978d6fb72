// Caught: carries an exception from several threads to their caller, since an exception that leaves a thread ends the
// program.
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
  /// Calls f() and keeps the first exception of all threads; after one, f is not called any more.
  template <class F>
  void operator()(F&& f) noexcept {
    if (any()) return;
    try {
      f();
    } catch (...) {
      keep();
    }
  }
  /// Keeps the exception being handled.
  void keep() noexcept;
  bool any() const noexcept { return kept_.load(std::memory_order_acquire); }
  /// Rethrows the kept exception, if any.
  void rethrow() const {
    if (any()) [[unlikely]]
      std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  std::atomic<bool> taken_{false}, kept_{false};
};

}  // namespace tacit::exec
