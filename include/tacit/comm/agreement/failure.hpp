// The types by which a failure becomes known before all ranks have agreed on it. The protocol:
// src/comm/agreement/agreement.hpp.
#pragma once

#include <tacit/base/error.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace tacit::comm {

/// The message by which a failing rank informs every other rank.
struct Notice {
  int rank = -1;
  int epoch = 0;
  std::int64_t position = 0;  ///< collective calls that rank had entered and left
  ErrorKind kind = ErrorKind::environment;
  std::string text;
  int depth = 0;  ///< not 0: the rank left this call because of a failure in the open call of this depth (counted over
                  ///< all communicators)
  int settled =
      0;  ///< earlier failures of that call's communicator; with depth 0, of others within that rank's open calls
};

/// Thrown by communicating calls when another rank has failed, on this communicator or on one with an enclosing
/// collective call. The comm::collective that all ranks leave turns it into the agreed Error; nested ones pass it on.
struct PeerFailure : std::exception {
  explicit PeerFailure(const void* where) : on(where) {}
  const char* what() const noexcept override { return "a communicator has failed on another rank"; }
  const void* on;  ///< the communicator
};

/// Sets the function that tells whether the user has asked to stop (Python's signal check, say). It is called at most
/// every 50 ms, on the thread that runs the solve; it returns true to stop, and may throw.
void set_interrupt_check(std::function<bool()> check);

namespace detail {

class Agreement;

// A collective call in progress on this thread, linked to the call that encloses it.
class Call {
 public:
  explicit Call(Agreement& on) noexcept;
  Call(const Call&) = delete;
  ~Call() { innermost() = outer; }
  static Call*& innermost() noexcept;
  /// The innermost open call of this communicator; null if there is none.
  static const Call* of(const void* communicator) noexcept;

  Call* const outer;
  Agreement* const on;
  std::int64_t began = 0;  // the communicator's position at its beginning
  int level = 1;           // nesting depth among the calls of its communicator, from 1
};

}  // namespace detail
}  // namespace tacit::comm
