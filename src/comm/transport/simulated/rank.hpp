// The interface of a simulated rank that communicators use.
#pragma once

#include "recorder.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/base/virtual_clock.hpp>
#include <tacit/comm/simulate.hpp>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::comm::detail {

struct SumSlot;

/// For tests: sums are made of messages, and a waiting rank looks at every arrival on its own stack.
inline bool look_on_own_stacks = false;

class SimulatedRank : public VirtualClock, public IterationClock {
 public:
  /// What a waiting rank does when something has arrived, called on any stack, so that most arrivals cost no switch.
  struct Check {
    enum class Found { nothing, all, trouble };  // waits on; what it waited for; something for its own stack
    Found (*call)(void*);
    void* what;
  };
  /// Lets other ranks run until something has arrived for this one, and advances the clock to that time. With a check
  /// it goes on waiting while that finds nothing; true where it has found all. Error(environment) in a deadlock.
  virtual bool wait(Check check = {}) = 0;
  /// Lets all ranks run whose clocks are behind this one's.
  virtual void let_others_catch_up() = 0;
  /// Called when a sum starts, from when its rounds advance by themselves where the model says so.
  virtual void sum_started(const Transport& over, int channel) = 0;
  /// Called when its result is used.
  virtual void sum_taken(const Transport& over, int channel) = 0;
  /// Whether nothing else is under way on this rank: then the first message of a sum is charged when it starts, and
  /// goes out when the rank does anything but wait for the sum. Where this is never so, what follows is not used.
  virtual bool may_join() const { return false; }
  /// Charges a message; returns when it leaves.
  virtual double depart(Transport&, int /*to*/, int /*tag*/, std::size_t /*bytes*/) { return 0; }
  /// Sends one that has been charged.
  virtual void deliver(Transport&, int /*to*/, int /*tag*/, const void* /*data*/, std::size_t /*bytes*/,
                       double /*left*/) {}
  struct Unsent {
    void (*send)(void* sums, SumSlot& slot);
    void* sums;
    SumSlot* slot;
  };
  Unsent unsent{};
  void send_unsent() {
    if (unsent.send) [[unlikely]] {
      const Unsent one = std::exchange(unsent, {});
      one.send(one.sums, *one.slot);
    }
  }
  /// Whether sums may wait for values of devices, which only polls find out.
  bool has_devices = false;
  /// Called before the first round of a sum is sent as messages: all ranks do so then.
  virtual void sum_by_messages(Transport&, int /*tag*/) {}
  /// Waits for the sum of which a message is unsent, until all ranks do, and computes it together with them; false
  /// where another rank has sent messages for it. look() looks for failures, and throws.
  virtual bool wait_jointly(Transport&, int /*tag*/, SumSlot&, const std::function<void()>& /*look*/) { return false; }
  /// False in compute loops that poll: their time comes from the kernels' declarations, during which sums are advanced.
  virtual bool may_poll() const = 0;
  virtual const MachineModel& machine() const = 0;
  double bandwidth() const noexcept override { return machine().memory_bandwidth(); }
  virtual void on_outer_stack(const std::function<void()>& f) = 0;
  /// look() as of wait_jointly().
  virtual void restart_clocks(const std::function<void()>& look) = 0;
  virtual SimulatedTimes read_clocks(const std::function<void()>& look) = 0;

  void iteration() override {
    if (recorder) recorder->iteration();
  }
  Recorder* recorder = nullptr;  ///< null where nothing is recorded

  /// Assigns the time until the end of the block to a phase; the outermost phase counts.
  class For {
   public:
    /// `begins`: increases the phase's count.
    For(SimulatedRank* rank, const char* phase, bool begins = false) : rank_(rank && !rank->phase_ ? rank : nullptr) {
      if (!rank_) return;
      rank_->phase_ = phase;
      if (begins) rank_->begins(phase);
    }
    For(const For&) = delete;
    ~For() {
      if (rank_) rank_->phase_ = nullptr;
    }

   private:
    SimulatedRank* rank_;
  };

 protected:
  virtual void begins(const char* phase) = 0;
  const char* phase_ = nullptr;
};

}  // namespace tacit::comm::detail
