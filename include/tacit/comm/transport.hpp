// Transport: how bytes move between ranks. Everything else of the communication floor (sums, exchanges, agreement on
// errors) is written once on top of these few calls, so that processes, threads and a fault injector behave alike.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/comm/agreement/failure.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tacit::comm {

/// A message under way. Its buffer must stay where it is until test() has said true or cancel() was called.
struct Ticket {
  std::uintptr_t words[3] = {};
  int numbers[2] = {};
  bool active = false;
};

/// A message that is sent (or received) again and again, as Transport::prepare makes it.
struct Prepared {
  bool out = false;
  int peer = 0, tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::uintptr_t words[2] = {};
};

/// Memory of this rank that others write into. Some of its words are flags: who reads a flag sees what was written
/// together with it, and before it by the same rank.
class Window {
 public:
  virtual ~Window() = default;
  virtual std::byte* data() = 0;
  /// Copies bytes to place `at` of rank `to`'s window, then the value to the flag there (places: multiples of 8).
  /// `data` may be used again on return.
  virtual void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t flag,
                     std::uint64_t value) = 0;
  /// A flag of this rank's window.
  virtual std::uint64_t read(std::size_t flag) = 0;
  /// What write() sends may stand anywhere; else, in this rank's window.
  virtual bool sends_from_anywhere() const { return true; }
};

/// An exchange with all neighbours as one operation of the library below.
class Neighbourhood {
 public:
  virtual ~Neighbourhood() = default;
  /// Part i of `out` (elements [out_offsets[i], out_offsets[i + 1])) goes to destination i, `in` likewise.
  virtual Ticket start(const void* out, std::span<const std::int32_t> out_offsets, void* in,
                       std::span<const std::int32_t> in_offsets) = 0;
};

/// At each place the least of what the ranks have there. Collective; can be left when a rank fails before it comes to
/// it, and by nobody after that.
using AllLeast = std::function<void(std::span<std::int64_t>)>;

namespace detail {
class SimulatedRank;
}

enum class Operation { sum, min, max };
enum class Number { float32, float64, int64 };

/// Whose turn it is to call a transport while an engine (Communicator::start_engine) runs; nobody asks while none does.
struct TransportLock {
  std::recursive_mutex mutex;
  std::atomic<int> engines = 0;
  std::unique_lock<std::recursive_mutex> take() {
    if (engines.load(std::memory_order_acquire) == 0) return {};
    return std::unique_lock(mutex);
  }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* kind() const = 0;  ///< "self", "threads", "mpi", "simulated"

  /// Tags run from 0 to here; at least 32767. After a failure new messages take new tags, so that what was given up can
  /// never be taken for one of them: the more tags, the more failures a communicator outlives.
  virtual int largest_tag() const { return std::numeric_limits<int>::max(); }
  /// Messages between two ranks with one tag are received in the order they were sent, by receives in the order they
  /// were posted.
  virtual Ticket send(int to, int tag, const void* data, std::size_t bytes) = 0;
  virtual Ticket receive(int from, int tag, void* data, std::size_t bytes) = 0;
  virtual bool test(Ticket& ticket) = 0;
  /// Gives a message up. A buffer that the transport may still read is kept alive by `keep`.
  virtual void cancel(Ticket& ticket, std::shared_ptr<void> keep) = 0;
  /// A message with this tag from anyone, not yet received: its sender and size.
  struct Arrival {
    int from;
    std::size_t bytes;
  };
  virtual std::optional<Arrival> probe(int tag) = 0;

  /// The transport's own all-reduce, if it has one; in place.
  virtual bool has_native_sum() const { return false; }
  virtual Ticket start_native_sum(void*, std::size_t, Number, Operation) {
    throw Error(ErrorKind::usage, message("the ", kind(), " transport has no all-reduce of its own"));
  }

  /// Calls that must not meet share these: one rank's, or one process's where the library below demands it.
  virtual std::shared_ptr<TransportLock> lock() { return std::make_shared<TransportLock>(); }
  /// Error(environment) where two threads of a rank may not call in turn.
  virtual void allow_engine() {}

  /// The same message many times: start() begins it once more, test() and cancel() as ever. What is not over is given
  /// up with release().
  virtual Prepared prepare(bool out, int peer, int tag, void* data, std::size_t bytes) {
    return {out, peer, tag, data, bytes, {}};
  }
  virtual Ticket start(Prepared& p) {
    return p.out ? send(p.peer, p.tag, p.data, p.bytes) : receive(p.peer, p.tag, p.data, p.bytes);
  }
  virtual void release(Prepared&) noexcept {}

  /// Ranks of this rank's node, itself among them: those that can map one memory. Local.
  virtual std::vector<int> node() { return {rank()}; }
  /// Whether ranks of a node are threads of one process. Local.
  virtual bool one_process() const { return false; }
  // Collective. A call of the library below that cannot be left is entered right after an `all_least` and nothing else.
  /// One-sided communication of the library below; null where there is none. All bytes are zero.
  virtual std::shared_ptr<Window> make_window(std::size_t /*bytes*/, const AllLeast& /*all_least*/) { return nullptr; }
  /// Null where there is none. Elements of so many bytes come from `sources` and go to `destinations`. May wait for
  /// ever: called when all ranks are known to come.
  virtual std::shared_ptr<Neighbourhood> make_neighbourhood(std::span<const int> /*sources*/,
                                                            std::span<const int> /*destinations*/,
                                                            std::size_t /*element_bytes*/) {
    return nullptr;
  }

  virtual void send_notice(const Notice& notice) = 0;
  virtual std::optional<Notice> poll_notice() = 0;
  /// A transport over the same ranks whose messages never mix with this one's. Collective.
  virtual std::shared_ptr<Transport> duplicate() = 0;

  /// The clock of a rank that is simulated (simulate.hpp); null where ranks are real.
  virtual detail::SimulatedRank* simulated() { return nullptr; }
  /// What pushes on all that is pending over this transport, for a transport that polls by itself. Called once.
  virtual void polls(std::function<void()> /*push_on*/) {}
};

}  // namespace tacit::comm
