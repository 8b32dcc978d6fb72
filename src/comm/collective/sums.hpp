// The all-reduces of a communicator that are in flight.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/collective/sums.hpp>

#include "../state.hpp"

#include <array>
#include <deque>
#include <memory>
#include <vector>

namespace tacit::comm::detail {

// One all-reduce in flight. Ranks beyond the largest power of two first send their values to a neighbour, and receive
// the result at the end; the others do recursive doubling. Both partners of a round compute lower + upper, so all ranks
// hold the same bits at the end. An all-reduce of values that a device still computes is awaited at first.
/// lower = lower (operation) upper, for n numbers: the lower rank's first.
void combine(std::byte* lower, const std::byte* upper, std::size_t n, Number number, Operation operation);

struct SumSlot {
  std::vector<std::byte> value, incoming;
  std::size_t count = 0;
  std::size_t bytes() const { return count * (number == Number::float32 ? 4 : 8); }
  Number number{};
  Operation operation{};
  int channel = 0;
  int round = 0;  // -1 fold, 0.. doubling, then unfold
  bool native = false, busy = false, done = false, owned = false;
  bool awaited = false;  // its first round has not begun: `values` or, if native, those of one before it are missing
  // The rank's own thread is in values->wait(): the progress thread leaves them and later ones.
  bool waited_for = false;
  std::shared_ptr<PendingValues> values;
  bool given_up = false;  // it has no result
  bool unsent = false;    // of a simulated rank: its first message leaves at `left`, and is not sent yet
  double left = -1;
  bool counted = false;
  int uncaught = 0;  // exceptions unwinding when it was started
  Ticket send, receive;
  double began = -1, ended = -1;  // while tracing
  int number_of = 0;              // position among the slots
  int recorded = -1;              // its number in a recording
  void finish() {
    busy = false;
    done = true;
    if (began >= 0) ended = wall_time();
  }
  void give_up() {
    busy = awaited = waited_for = unsent = false;
    done = given_up = true;
    left = -1;
    values.reset();
  }
};

class Sums {
 public:
  static constexpr int channels = State::sum_channels;  // message tags, used by sums in turn

  explicit Sums(State& state);
  Sums(const Sums&) = delete;
  ~Sums() { give_up(); }

  /// Waits only where the previous sum of the same channel is still in flight.
  SumSlot& start(const void* values, std::size_t n, Number number, Operation operation, bool counted);
  /// Of values that are still being computed: number and channel are taken now, so that ranks agree on them whenever
  /// their values come; the first round begins in progress() or await().
  SumSlot& start(std::shared_ptr<PendingValues> values, std::size_t n, Number number, Operation operation);
  /// Waits for the sum's values, without the lock, and begins its first round. Does nothing if it has begun.
  void await(SumSlot& slot);
  /// The same for all sums.
  void begin_all();
  void progress();
  /// Where all simulated ranks do nothing but wait for this sum: waits until all do, and takes the result.
  bool wait_jointly(SumSlot& slot);
  bool pending() const;
  /// Whether a sum waits for values that are still being computed.
  bool awaits_values() const { return !awaited_.empty(); }
  /// Gives up all sums, also those complete here, since they may be incomplete on other ranks and all ranks must throw
  /// alike. Numbering starts again.
  void give_up();

  SumAlgorithm algorithm = SumAlgorithm::doubling;

 private:
  SumSlot& free_slot();
  SumSlot* busy_on(int channel);
  SumSlot& open(std::size_t n, Number number, Operation operation, bool counted);
  void begin(SumSlot& slot);
  void begin_awaited(SumSlot& slot);
  void begin_round(SumSlot& slot);
  void receive_result(SumSlot& slot);
  void charge_first(SumSlot& slot);
  void send_first(SumSlot& slot);
  void advance(SumSlot& slot);

  State& state_;
  int power_ = 1;             // the largest power of two ranks
  bool native_lost_ = false;  // native all-reduces match by order, which a failure breaks permanently
  std::vector<std::unique_ptr<SumSlot>> slots_;  // in use in the order of starting; idle ones are reused
  std::deque<SumSlot*> awaited_;                 // in the order of starting
  std::uint32_t started_ = 0;
};

}  // namespace tacit::comm::detail
