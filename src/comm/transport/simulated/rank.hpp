// The interface of a simulated rank that communicators use.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/simulate.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace tacit::comm::detail {

class SimulatedRank : public VirtualClock {
 public:
  /// Lets other ranks run until something has arrived for this one, and advances the clock to that time.
  /// Error(environment) in a deadlock.
  virtual void wait() = 0;
  /// Lets all ranks run whose clocks are behind this one's.
  virtual void let_others_catch_up() = 0;
  /// Called when a sum starts, from when its rounds advance by themselves where the model says so.
  virtual void sum_started(const Transport& over, int channel) = 0;
  /// Called when its result is used.
  virtual void sum_taken(const Transport& over, int channel) = 0;
  /// False in compute loops that poll: their time comes from the kernels' declarations, during which sums are advanced.
  virtual bool may_poll() const = 0;
  virtual const MachineModel& machine() const = 0;
  double bandwidth() const noexcept override { return machine().memory_bandwidth(); }
  virtual void restart_clocks() = 0;
  virtual SimulatedTimes read_clocks() = 0;

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
