// Repeat: the same kernels again and again, by one launch.
#pragma once

#include <tacit/base/error.hpp>

#include <memory>
#include <utility>

namespace tacit::exec {

/// Queues f() on this thread's current stream. f has to queue the same kernels with the same arguments each time, and
/// nothing else: no allocation, no wait, no message. The first call runs it, and may allocate; the second records it as
/// a CUDA graph, and from then on a call launches the graph. Where the device cannot record it, each call runs it.
/// Error(environment) when a CUDA call fails. After another exception of f the next calls begin anew.
class Repeat {
 public:
  Repeat();
  ~Repeat();
  Repeat(const Repeat&) = delete;
  Repeat& operator=(const Repeat&) = delete;

  template <class F>
  void operator()(F&& f) {
    if (launch()) return;
    if (!begin()) return f();
    try {
      f();
    } catch (const Error& e) {
      give_up(e.kind() == ErrorKind::environment);
      if (e.kind() != ErrorKind::environment) throw;  // not of the recording, such as an interrupt by the user
      return f();                                     // what was recorded has not run
    } catch (...) {
      give_up(false);
      throw;
    }
    if (end()) launch();
    else f();
  }
  /// Its kernels or arguments are others from now on.
  void forget();

 private:
  bool launch();
  bool begin();
  bool end();
  /// Ends the recording; for good: nothing is recorded again.
  void give_up(bool for_good) noexcept;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tacit::exec
