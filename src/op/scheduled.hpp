// Scheduled: a product dealt to the threads of a rank while its halo travels, and which way is the fastest.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/exec/jobs.hpp>
#include <tacit/op/schedule.hpp>

#include <cstddef>
#include <functional>
#include <vector>

namespace tacit::op {

/// The parts of a product. Functions work on units [from, to), on any thread.
struct Pieces {
  using Run = std::function<void(std::size_t from, std::size_t to)>;
  struct Remote {
    std::size_t units;
    std::vector<int> needs;  // neighbours (places in receive_ranks) that must have arrived
    Run run;
  };
  std::size_t interior = 0;  // units that need no ghost
  double rows_of_unit = 1;   // of the interior, on average
  double rows_of_remote = 1;
  Run run_interior;
  std::vector<Remote> remote;
  Run finish;  // after all, over `finishing` units; may be empty
  std::size_t finishing = 0;
};

/// Does the product by Schedule::How::split or jobs; all ghosts have arrived on return. Where the team has one thread,
/// split waits last. Throws what waiting throws.
void run_scheduled(const Schedule& schedule, comm::Exchange& exchange, int number, const Pieces& pieces);

/// Finds the fastest schedule while products of one number of columns are made, by the clock of this rank. Every way
/// makes a few products in turn; those that are slower for certain are tried no more. Of ways that cannot be told apart
/// the plainest is taken.
class Tuner {
 public:
  /// How the next product is to be made.
  Schedule next(int threads);
  /// What it took.
  void took(double seconds);
  bool decided() const { return decided_; }

  /// One product: what is asked for, or, automatic and worth the while, what the tuner wants to be tried, timed.
  class Clock {
   public:
    /// Null: the product is made in the one way that it has.
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
  static constexpr int in_a_row = 3;  // after one that is not counted
  struct Way {
    Schedule schedule;
    std::vector<double> seconds;  // a pass each
  };
  std::vector<Way> ways_;  // plain ones first
  std::vector<double> products_;
  std::size_t way_ = 0;
  int passes_ = 0;
  bool counts_ = false;
  bool decided_ = false;
};

}  // namespace tacit::op
