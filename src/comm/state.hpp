// What the copies of a communicator share.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>

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
  Number number{};
  Operation operation{};
  int channel = 0;
  int round = 0;  // -1 fold, 0.. doubling, then unfold
  bool native = false, busy = false, done = false, owned = false;
  Ticket send, receive;
};

struct State {
  explicit State(std::shared_ptr<Transport> t) : transport(std::move(t)) {
    rank = transport->rank();
    size = transport->size();
    epochs = transport->largest_tag() / channels;
    for (power = 1; 2 * power <= size;) power *= 2;
  }
  ~State();

  std::shared_ptr<Transport> transport;
  int rank = 0, size = 1, power = 1;
  int epoch = 0, epochs = 1;  // an epoch ends with a failure
  SumAlgorithm algorithm = SumAlgorithm::doubling;
  Counters counters;
  std::vector<std::unique_ptr<SumSlot>> slots;  // those in use first come first served; idle ones are reused
  std::vector<Exchange*> exchanges;
  std::uint32_t sums_started = 0, exchanges_made = 0, sparse_started = 0;
  bool failed = false, settling = false;
  std::map<int, Notice> notices;  // of this epoch, by rank

  int tag(int channel) const { return epoch % epochs * channels + channel; }
  static constexpr int channels = 4096, sum_channels = 512, sparse_channel = 512, gather_channel = 640, exchange_channel = 704,
                       exchange_channels = 3300;

  SumSlot& start(const void* values, std::size_t n, Number number, Operation operation);
  void advance(SumSlot& slot);
  void progress();
  /// Another rank has failed.
  bool hears_of_failure();
  void check() {
    if (hears_of_failure()) throw PeerFailure();
  }
  // What the failing rank sent before it failed still arrives: a wait that can end does, and the failure is met where
  // this rank cannot go on, which is inside the collective call that it belongs to.
  static constexpr double grace = 0.02;  // seconds
  template <class Condition>
  void wait_until(Condition&& condition) {
    double heard_at = 0;
    for (int spins = 0;; ++spins) {
      if (condition()) return;
      progress();
      if (spins % 64 == 63 && hears_of_failure()) {
        if (heard_at == 0) heard_at = wall_time();
        else if (wall_time() - heard_at > grace) throw PeerFailure();
      }
      if (spins > 128) transport->relax();
    }
  }
  void finish(Ticket& ticket) {
    wait_until([&] { return !ticket.active || transport->test(ticket); });
  }

 private:
  void begin_round(SumSlot& slot);
  bool in_progress_ = false;
};

}  // namespace tacit::comm::detail
