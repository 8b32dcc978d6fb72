// Transport: moves bytes between ranks. Reductions, exchanges and the agreement on errors are written once on top of
// these few calls, so processes, threads, simulated ranks and a fault injector behave alike.
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

/// A message in flight. Its buffer must stay in place until test() has returned true or cancel() was called.
struct Ticket {
  std::uintptr_t words[3] = {};
  int numbers[2] = {};
  bool active = false;
};

/// A persistent send or receive, made by Transport::prepare().
struct Prepared {
  bool out = false;
  int peer = 0, tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::uintptr_t words[2] = {};
};

/// Memory of this rank that other ranks write into. Some of its words are flags: a rank that reads a flag's new value
/// also sees the data written with it, and all earlier writes of the same rank.
class Window {
 public:
  virtual ~Window() = default;
  virtual std::byte* data() = 0;
  /// Copies bytes to offset `at` of rank `to`'s window, then sets the flag at offset `flag` there (offsets are
  /// multiples of 8). `data` may be reused on return.
  virtual void write(int to, std::size_t at, const void* data, std::size_t bytes, std::size_t flag,
                     std::uint64_t value) = 0;
  /// Reads a flag of this rank's window.
  virtual std::uint64_t read(std::size_t flag) = 0;
  /// Whether write() sends from any memory; otherwise only from this rank's window.
  virtual bool sends_from_anywhere() const { return true; }
};

/// An exchange with all neighbours as one operation of the underlying library.
class Neighbourhood {
 public:
  virtual ~Neighbourhood() = default;
  /// Sends part i of `out` (elements [out_offsets[i], out_offsets[i + 1])) to destination i; receives into `in`
  /// likewise.
  virtual Ticket start(const void* out, std::span<const std::int32_t> out_offsets, void* in,
                       std::span<const std::int32_t> in_offsets) = 0;
};

/// Element-wise minimum over all ranks, in place. Collective. It can be abandoned if a rank fails before entering it,
/// but not after all ranks have entered.
using AllLeast = std::function<void(std::span<std::int64_t>)>;

namespace detail {
class SimulatedRank;
}

enum class Operation {
  sum,
  min,
  max,
  sum_and_max  ///< of the last number the maximum, of those before it the sums
};
enum class Number { float32, float64, int64 };

/// Serialises calls of a transport while a progress thread (Communicator::start_engine) runs; unused without one.
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

  /// Tags run from 0 to this number, at least 32767. After a failure new messages take new tags, so that abandoned
  /// messages cannot be matched; the number of tags limits the failures that a transport survives.
  virtual int largest_tag() const { return std::numeric_limits<int>::max(); }
  /// Messages between two ranks with one tag are received in the order they were sent, by receives in the order they
  /// were posted.
  virtual Ticket send(int to, int tag, const void* data, std::size_t bytes) = 0;
  virtual Ticket receive(int from, int tag, void* data, std::size_t bytes) = 0;
  virtual bool test(Ticket& ticket) = 0;
  /// Abandons a message. `keep` keeps a buffer alive that the transport may still read.
  virtual void cancel(Ticket& ticket, std::shared_ptr<void> keep) = 0;
  /// Sender and size of an unreceived message with this tag from any rank.
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

  /// The lock of calls that must not run concurrently: of one rank, or of the process where the underlying library
  /// requires it.
  virtual std::shared_ptr<TransportLock> lock() { return std::make_shared<TransportLock>(); }
  /// Error(environment) where calls from two threads of a rank are not allowed even if serialised.
  virtual void allow_engine() {}

  /// Prepares a message that is sent many times: start() begins it, test() and cancel() work as for others. release()
  /// abandons an unfinished one.
  virtual Prepared prepare(bool out, int peer, int tag, void* data, std::size_t bytes) {
    return {out, peer, tag, data, bytes, {}};
  }
  virtual Ticket start(Prepared& p) {
    return p.out ? send(p.peer, p.tag, p.data, p.bytes) : receive(p.peer, p.tag, p.data, p.bytes);
  }
  virtual void release(Prepared&) noexcept {}

  /// The ranks of this rank's node (which can share memory), including itself. Local.
  virtual std::vector<int> node() { return {rank()}; }
  /// Whether ranks of a node are threads of one process. Local.
  virtual bool one_process() const { return false; }
  // Collective. A library call that cannot be abandoned is entered directly after `all_least`.
  /// A window of the underlying library's one-sided communication, zero at first; null where there is none.
  virtual std::shared_ptr<Window> make_window(std::size_t /*bytes*/, const AllLeast& /*all_least*/) { return nullptr; }
  /// A neighbourhood exchange of elements of the given size from `sources` and to `destinations`; null where there is
  /// none. It may block for ever if a rank is missing, so it is called after agreement.
  virtual std::shared_ptr<Neighbourhood> make_neighbourhood(std::span<const int> /*sources*/,
                                                            std::span<const int> /*destinations*/,
                                                            std::size_t /*element_bytes*/) {
    return nullptr;
  }

  virtual void send_notice(const Notice& notice) = 0;
  virtual std::optional<Notice> poll_notice() = 0;
  /// A transport over the same ranks whose messages never mix with this one's. Collective.
  virtual std::shared_ptr<Transport> duplicate() = 0;

  /// The state of a simulated rank (simulate.hpp); null where ranks are real.
  virtual detail::SimulatedRank* simulated() { return nullptr; }
  /// Sets the function that advances all pending operations of this transport, for transports that poll by themselves.
  /// Called once.
  virtual void polls(std::function<void()> /*push_on*/) {}
};

}  // namespace tacit::comm
