// What a communicator asks of the clock of a simulated rank.
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/comm/simulate.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace tacit::comm::detail {

class SimulatedRank : public VirtualClock {
 public:
  /// Others run until something has come for this rank; its clock says when. Error(environment) when nothing ever will.
  virtual void wait() = 0;
  /// Whoever is behind this rank's clock runs first.
  virtual void let_others_catch_up() = 0;
  /// A sum begins: where rounds go on by themselves, they do from now on.
  virtual void sum_started(const Transport& over, int channel) = 0;
  /// Its result is used.
  virtual void sum_taken(const Transport& over, int channel) = 0;
  /// Compute loops that poll have no time of their own: only what kernels declare lets pending sums go on.
  virtual bool may_poll() const = 0;
  virtual const MachineModel& machine() const = 0;
  double bandwidth() const noexcept override { return machine().bandwidth; }
  virtual void restart_clocks() = 0;
  virtual SimulatedTimes read_clocks() = 0;

  /// What time is spent on from here to the end of the block; the outermost counts.
  class For {
   public:
    /// `begins`: one more of that kind.
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
