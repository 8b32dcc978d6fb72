// What the copies of a communicator share.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/exec/backoff.hpp>
#include <tacit/exec/tasks.hpp>

#include "transport/simulated/rank.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace tacit::comm::detail {

// One all-reduce under way. Ranks beyond the largest power of two fold into their lower neighbour first and are told
// the result at the end; the others double. Both partners of a round compute lower + upper, so all ranks hold the same
// bits at the end.
struct SumSlot {
  std::vector<std::byte> value, incoming;
  std::size_t count = 0;
  std::size_t bytes() const { return count * (number == Number::float32 ? 4 : 8); }
  Number number{};
  Operation operation{};
  int channel = 0;
  int round = 0;  // -1 fold, 0.. doubling, then unfold
  bool native = false, busy = false, done = false, owned = false;
  bool given_up = false;  // there is no result
  bool counted = false;
  int uncaught = 0;  // exceptions on their way where it was started
  Ticket send, receive;
  double began = -1, ended = -1;  // where a trace is on
  int number_of = 0;              // among the slots
  void finish() {
    busy = false;
    done = true;
    if (began >= 0) ended = wall_time();
  }
  void give_up() {
    busy = false;
    done = given_up = true;
  }
};

struct State : std::enable_shared_from_this<State> {
  explicit State(std::shared_ptr<Transport> t) : transport(std::move(t)), transport_lock(transport->lock()) {
    rank = transport->rank();
    size = transport->size();
    epochs = transport->largest_tag() / channels;
    simulated = transport->simulated();
    for (power = 1; 2 * power <= size;) power *= 2;
  }
  ~State();

  std::shared_ptr<Transport> transport;
  SimulatedRank* simulated = nullptr;
  // Taken around everything below that an engine's thread touches too: sums, exchanges, the transport.
  std::shared_ptr<TransportLock> transport_lock;
  std::weak_ptr<void> engine;
  std::atomic<std::uint32_t> posted = 0;  // an engine without work sleeps until this changes
  void post() {
    if (transport_lock->engines.load(std::memory_order_relaxed) == 0) return;
    posted.fetch_add(1, std::memory_order_release);
    posted.notify_all();
  }
  int rank = 0, size = 1, power = 1;
  int epoch = 0, epochs = 1;  // an epoch ends with a failure
  SumAlgorithm algorithm = SumAlgorithm::doubling;
  bool native_lost = false;  // native all-reduces match by order, which a failure disturbs for good
  Counters counters;
  std::vector<std::unique_ptr<SumSlot>> slots;  // those in use first come first served; idle ones are reused
  std::vector<Exchange*> exchanges;
  // Parts of exchanges that neighbours wait for and only this rank can move: those whose windows were not free when
  // they were posted, and those that it has to fetch. It does so whenever it polls or waits, on whatever communicator.
  int deferred = 0;
  void defer(int parts);
  void help_others();
  int under_way = 0;  // exchanges that are posted and not closed
  Path path = Path::automatic;
  std::map<int, Path> fastest;  // by the binary logarithm of an exchange's bytes
  std::shared_ptr<const Topology> topology;
  bool topology_given = false;
  std::uint32_t sums_started = 0, exchanges_made = 0, exchanges_opened = 0, sparse_started = 0;
  std::array<SumSlot*, 512> of_channel{};
  // The thread that starts sums and messages: the rank's own. Others that poll do nothing.
  std::atomic<const void*> owner = nullptr;

  // A failure: heard of (or told of) -> settling: all ranks give up what is pending and agree -> on its way out, to the
  // call that all leave -> over. `lost`: a settling was cut short, so that ranks are in different epochs; nothing goes
  // any more.
  bool failed = false, settling = false, lost = false;
  int failures = 0;             // settled so far
  int settled_within = 0;       // failures of other communicators since the last one here, while a call was open here
  bool agreeing = false;        // in the agreement that ends a call
  bool firm = false;            // in one that nobody leaves for what happens on other communicators
  int leaving = 0;              // on its way out: level of the call that all ranks leave
  Notice chosen;                // and what they throw there
  std::uint64_t agreement = 0;  // of the last failure, while nothing has been done since
  std::map<std::pair<int, int>, Notice> notices;  // by epoch and rank
  // Collective calls entered and left so far: the same number at the same place of the program on every rank. A rank
  // that is not yet where another one failed can still finish what it waits for (the other one has done its part) and
  // must, or the two would throw out of different calls.
  std::int64_t position = 0;
  // This rank's own error, met where nothing may be thrown (poll(), destructors) or not yet agreed upon: what waits
  // throws it until the ranks have settled, for what was under way cannot be completed.
  std::exception_ptr error;

  struct Firm {
    bool &agreeing, &firm;
    const bool before[2];
    explicit Firm(State& s)
        : agreeing(s.agreeing), firm(s.firm), before{std::exchange(s.agreeing, true), std::exchange(s.firm, true)} {}
    Firm(const Firm&) = delete;
    ~Firm() { agreeing = before[0], firm = before[1]; }
  };

  int tag(int channel) const { return epoch % epochs * channels + channel; }
  static constexpr int channels = 4096, sum_channels = 512, sparse_channel = 512, gather_channel = 640,
                       exchange_channel = 704, exchange_channels = 3300;

  /// What every operation begins with.
  void begin() {
    if (size == 1) return;
    if (failed && !settling) [[unlikely]]
      throw PeerFailure(this);
    agreement = 0;
    owner.store(this_thread(), std::memory_order_relaxed);
  }
  static const void* this_thread() noexcept {
    static thread_local char here;
    return &here;
  }
  SumSlot& start(const void* values, std::size_t n, Number number, Operation operation, bool counted);
  Global reduce(Global value, Operation operation);
  void advance(SumSlot& slot);
  void progress();
  /// One round of an engine: sums and exchanges. True while something is pending.
  bool push_on();
  /// Another rank has failed, at or before the place in the program where this rank is.
  bool has_failure();
  /// PeerFailure if another rank has failed, here or on a communicator with a call open around.
  void check();
  void keep_error() noexcept;  // the one that is being handled
  /// In a catch block of what nothing may be thrown from.
  void swallow() noexcept;
  /// All ranks come here: gives up what is pending and agrees on what all throw, and out of which call.
  void settle(const Notice* own);
  /// This rank leaves something unfinished and unsettled, because another communicator has failed that has a call open
  /// around. Ranks that are not in that call, or use this communicator after it, learn of it.
  void leave_unfinished(const void* failed_one);
  /// Something unfinished is dropped while an exception unwinds. Where no call is open here, the call on another
  /// communicator that it unwinds may fail, and leaves this one unfinished then.
  void drop_unfinished() noexcept;
  bool concerns(const Notice& notice) const;
  /// Others hear of this failure where they are, so that all can settle now.
  bool can_settle() const;
  /// This communicator has a call open around one on another that settles a failure, and has failed: is that one to be
  /// cut short? Not if those who failed here had settled it first: then all ranks have come to it.
  bool cuts_short() const;
  void lose();

  template <class Condition>
  void wait_until(Condition&& condition) {
    try {
      exec::Backoff idle;
      for (std::uint64_t spins = 0;; ++spins) {
        {
          const auto lock = transport_lock->take();
          if (error) rethrow();
          if (condition()) return;
          progress();
          if (simulated && !error && condition()) return;  // or nothing can change before another rank runs
        }
        if (simulated) {
          look_around();
          simulated->wait();
          continue;
        }
        if (spins % 4 == 3) help_others();  // on a busy machine a turn of this loop may take long
        if (spins % 64 == 63) look_around();
        // With tasks there is something to do meanwhile.
        if (auto* const tasks = exec::Tasks::current(); tasks && tasks->help()) {
          idle = {};
          continue;
        }
        idle.pause();
      }
    } catch (...) {
      broken_off();
      throw;
    }
  }

 private:
  void begin_round(SumSlot& slot);
  void listen();
  void look_around();
  void broken_off();
  [[noreturn]] void rethrow();
  bool in_progress_ = false;
};

// Messages with their buffers. What is still under way when the messages goes (an exception unwinds) is given up
// together with its buffer, which the transport may still read or write.
class PendingMessages {
 public:
  using Bytes = std::vector<std::byte>;
  explicit PendingMessages(State& state) : state_(state) {}
  PendingMessages(const PendingMessages&) = delete;
  ~PendingMessages() {
    const auto lock = state_.transport_lock->take();
    for (auto& item : items_)
      if (item.ticket.active) state_.transport->cancel(item.ticket, item.out ? item.buffer : nullptr);
  }
  void send(int to, int tag, Bytes bytes) {
    const auto lock = state_.transport_lock->take();
    state_.begin();
    auto& item = items_.emplace_back(std::make_shared<Bytes>(std::move(bytes)), true);
    item.ticket = state_.transport->send(to, tag, item.buffer->data(), item.buffer->size());
  }
  /// The buffer that will hold the message once done() is true or finish() returned.
  std::shared_ptr<Bytes> receive(int from, int tag, std::size_t bytes) {
    const auto lock = state_.transport_lock->take();
    auto& item = items_.emplace_back(std::make_shared<Bytes>(bytes), false);
    item.ticket = state_.transport->receive(from, tag, item.buffer->data(), bytes);
    return item.buffer;
  }
  bool done() {
    for (auto& item : items_)
      if (item.ticket.active && !state_.transport->test(item.ticket)) return false;
    return true;
  }
  void finish() {
    state_.wait_until([&] { return done(); });
    items_.clear();
  }

 private:
  struct Item {
    Item(std::shared_ptr<Bytes> b, bool o) : buffer(std::move(b)), out(o) {}
    std::shared_ptr<Bytes> buffer;
    bool out;
    Ticket ticket;
  };
  State& state_;
  std::deque<Item> items_;
};

}  // namespace tacit::comm::detail
