// What is seen of a failure before all ranks have agreed on it. How they agree: src/comm/agreement/agreement.hpp.
#pragma once

#include <tacit/base/error.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace tacit::comm {

/// "This rank cannot go on", sent to every other rank.
struct Notice {
  int rank = -1;
  int epoch = 0;
  std::int64_t position = 0;  ///< collective calls that rank had entered and left
  ErrorKind kind = ErrorKind::environment;
  std::string text;
  int depth = 0;    ///< not 0: that rank has left for a failure in the call of this depth among all that are open
  int settled = 0;  ///< failures of that call's communicator before it; else, of others within that rank's open calls
};

/// Thrown by communicating calls when another rank has failed, on this communicator or on one that has a collective
/// call open around. The comm::collective that all ranks leave turns it into the agreed Error; those within pass it on.
struct PeerFailure : std::exception {
  explicit PeerFailure(const void* where) : on(where) {}
  const char* what() const noexcept override { return "a communicator has failed on another rank"; }
  const void* on;  ///< which communicator
};

/// What asks the process whether the user wants to stop (Python's signal check, say); called at most every 50 ms from
/// the thread that runs the solve. Returns true to stop. May throw.
void set_interrupt_check(std::function<bool()> check);

namespace detail {

class Agreement;

// A collective call under way on this thread, within the one before.
class Call {
 public:
  explicit Call(Agreement& on) noexcept;
  Call(const Call&) = delete;
  ~Call() { innermost() = outer; }
  static Call*& innermost() noexcept;
  /// The innermost of this communicator; null if none is open.
  static const Call* of(const void* communicator) noexcept;

  Call* const outer;
  Agreement* const on;
  std::int64_t began = 0;  // position there
  int level = 1;           // among the calls of its communicator, from 1
};

}  // namespace detail
}  // namespace tacit::comm
