// The all-reduces of a communicator that are in flight.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/collective/sums.hpp>

#include <array>
#include <memory>
#include <vector>

namespace tacit::comm::detail {

// One all-reduce in flight. Ranks beyond the largest power of two first send their values to a neighbour, and receive
// the result at the end; the others do recursive doubling. Both partners of a round compute lower + upper, so all ranks
// hold the same bits at the end.
struct SumSlot {
  std::vector<std::byte> value, incoming;
  std::size_t count = 0;
  std::size_t bytes() const { return count * (number == Number::float32 ? 4 : 8); }
  Number number{};
  Operation operation{};
  int channel = 0;
  int round = 0;  // -1 fold, 0.. doubling, then unfold
  bool native = false, busy = false, done = false, owned = false;
  bool given_up = false;  // it has no result
  bool counted = false;
  int uncaught = 0;  // exceptions unwinding when it was started
  Ticket send, receive;
  double began = -1, ended = -1;  // while tracing
  int number_of = 0;              // position among the slots
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

class Sums {
 public:
  static constexpr int channels = 512;  // message tags, used by sums in turn

  explicit Sums(State& state);
  Sums(const Sums&) = delete;
  ~Sums() { give_up(); }

  /// Waits only where the previous sum of the same channel is still in flight.
  SumSlot& start(const void* values, std::size_t n, Number number, Operation operation, bool counted);
  void progress();
  bool pending() const;
  /// Gives up all sums, also those complete here, since they may be incomplete on other ranks and all ranks must throw
  /// alike. Numbering starts again.
  void give_up();

  SumAlgorithm algorithm = SumAlgorithm::doubling;

 private:
  SumSlot& free_slot();
  void begin_round(SumSlot& slot);
  void advance(SumSlot& slot);

  State& state_;
  int power_ = 1;             // the largest power of two ranks
  bool native_lost_ = false;  // native all-reduces match by order, which a failure breaks permanently
  std::vector<std::unique_ptr<SumSlot>> slots_;  // in use in the order of starting; idle ones are reused
  std::uint32_t started_ = 0;
  std::array<SumSlot*, channels> of_channel_{};
};

}  // namespace tacit::comm::detail
