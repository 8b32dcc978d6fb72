// Scheduled: products shared among the threads of a rank while the halo exchange is in flight, and the choice of the
// fastest schedule.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/op/schedule.hpp>
#include "exec/jobs.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace tacit::op {

/// The parts of a product. Functions work on units [from, to), on any thread.
struct Pieces {
  using Run = std::function<void(std::size_t from, std::size_t to)>;
  struct Remote {
    std::size_t units;
    std::vector<int> needs;  // neighbours (positions in receive_ranks) whose ghosts are needed
    Run run;
  };
  std::size_t interior = 0;  // units that need no ghost
  double rows_of_unit = 1;   // of the interior, on average
  double rows_of_remote = 1;
  Run run_interior;
  std::vector<Remote> remote;
  Run finish;  // runs after all others, over `finishing` units; may be empty
  std::size_t finishing = 0;
};

/// Does the product by Schedule::How::split or jobs; all ghosts have arrived on return. Where the team has one thread,
/// split does the interior before it waits. Errors: those of waiting for messages.
void run_scheduled(const Schedule& schedule, comm::Exchange& exchange, int number, const Pieces& pieces);

/// Finds the fastest schedule for products of one number of columns, by the clock of this rank. Each schedule is used
/// for a few products in turn; those that are significantly slower are dropped. Among equals the simplest is chosen.
class Tuner {
 public:
  /// The schedule of the next product.
  Schedule next(int threads);
  /// Records the time of the product done with next().
  void took(double seconds);
  bool decided() const { return decided_; }

  /// One product: uses the schedule asked for or, where that is automatic and the product large enough to be measured,
  /// the tuner's; measures its time for the tuner.
  class Clock {
   public:
    /// tuner null: the product has one schedule only (runs() is false). rows: of the product, on this rank.
    Clock(Tuner* tuner, const Schedule& asked, std::ptrdiff_t rows);
    Clock(const Clock&) = delete;
    ~Clock();
    bool runs() const { return runs_; }
    const Schedule& schedule() const { return schedule_; }

   private:
    Tuner* tuner_ = nullptr;
    Schedule schedule_;
    bool runs_ = false;
    double began_ = 0;
    int uncaught_ = 0;
  };

 private:
  static constexpr int in_a_row = 3;  // counted products of a series, after one that is not counted
  struct Way {
    Schedule schedule;
    std::vector<double> seconds;  // one for each pass
  };
  std::vector<Way> ways_;  // simple ones first
  std::vector<double> products_;
  std::size_t way_ = 0;
  int passes_ = 0;
  bool counts_ = false;
  bool decided_ = false;
};

}  // namespace tacit::op
