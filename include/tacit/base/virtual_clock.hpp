// The virtual clock of a thread (trace.hpp).
#pragma once

#include <tacit/base/trace.hpp>

namespace tacit {

/// The calling thread's virtual clock; null where it uses the machine's.
VirtualClock* virtual_clock() noexcept;

/// A clock that counts the iterations of methods.
class IterationClock {
 public:
  virtual ~IterationClock() = default;
  virtual void iteration() = 0;
};
/// Tells the calling thread's clock that an iteration has ended.
void note_iteration();

}  // namespace tacit
