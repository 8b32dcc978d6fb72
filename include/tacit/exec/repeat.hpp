// Repeat: the same kernels again and again, by one launch.
#pragma once

#include <memory>
#include <utility>

namespace tacit::exec {

/// Queues f() on this thread's current stream. f has to queue the same kernels with the same arguments each time, and
/// nothing else: no allocation, no wait, no message. The first call runs it, and may allocate; the second records it as
/// a CUDA graph, and from then on a call launches the graph. Where the device cannot record it, each call runs it.
/// Error(environment) when a CUDA call fails.
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
    } catch (...) {
      give_up();
      return f();  // what was recorded has not run
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
  void give_up() noexcept;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tacit::exec
