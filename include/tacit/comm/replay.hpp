// Replay: plays what ranks of a small simulation did on many more, without computing numbers.
//
// A recording has, for every rank of a regular decomposition, the kernels with their declared work, the reductions and
// the exchanges with their sizes. On a larger grid of ranks, each takes the part of a recorded one in the same position
// relative to the boundary. Reductions are those of the larger number of ranks. Clocks are computed by the same code as
// in simulate(), so that a replay on the recorded number of ranks gives the clocks of the run itself (without noise).
#pragma once

#include <tacit/comm/simulate.hpp>

#include <array>
#include <functional>
#include <memory>
#include <optional>

namespace tacit::comm {

namespace detail {
struct Recorded;
}

class Recording {
 public:
  explicit Recording(std::shared_ptr<const detail::Recorded> of) : of_(std::move(of)) {}
  int ranks() const;
  /// Iterations of methods that were recorded.
  int iterations() const;
  const detail::Recorded& of() const { return *of_; }

 private:
  std::shared_ptr<const detail::Recorded> of_;
};

/// Runs simulate(ranks, machine, f, stack_bytes) and records what happens between the last restart_clocks() and the
/// first read_clocks() after it. Error(usage) for fewer than 2 ranks, and where something in between cannot be
/// replayed, since it depends on the order in which messages arrive.
Recording record(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                 std::size_t stack_bytes = 256 * 1024);

struct ReplayOptions {
  /// The grid of recorded ranks and that of the ranks to play, the first coordinate fastest.
  std::array<int, 3> recorded{1, 1, 1}, played{1, 1, 1};
  /// Whether ranks at opposite sides are neighbours.
  bool periodic = false;
  /// Of the method; absent: those of the recording. Others are made by repeating the iterations of one period.
  std::optional<int> iterations;
  /// Called now and then on the caller's stack with the share that is done. May throw.
  std::function<void(double)> progress;
};

struct Replayed {
  SimulatedTimes times;
  int ranks = 0;
  int iterations = 0;  ///< that were played: the number asked for, or the nearest that whole periods reach
  int period = 0;      ///< iterations that are repeated; 0: none were
  int set_ups = 0;     ///< exchanges that were set up in the recording, of which the reduction at the end was played
};

/// Error(usage): grids that do not fit the recording; messages over more ranks than the recorded grid has between its
/// boundaries; a number of iterations where no two of them were alike.
Replayed replay(const Recording& recording, const MachineModel& machine, const ReplayOptions& options);

}  // namespace tacit::comm
