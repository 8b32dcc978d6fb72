// Simulated ranks: the shipped code on P ranks of a machine that is described by a few numbers, in one process.
//
// Every rank is a fiber with a clock and data of its own; all run on the calling thread, one at a time, so thousands of
// them are cheap and a run with the same parameters gives the same clocks. Messages really carry the ranks' bytes: the
// numbers are those of any other communicator of as many ranks, bit by bit, and so are the counts. Only time is made
// up, by the rules of LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995, doi 10.1145/215399.215427):
//
//   kernel    clock += max(bytes / bandwidth, operations / flop rate) + kernel + noise, from what kernels declare
//   send      it leaves when the rank's last message has, or now, + o + G bytes; clock += o
//   receive   once it has come, L after it left: clock = max(clock, arrival) + o
//   sum       our own recursive doubling out of such messages
//
// wall_time() on a rank is its clock: reports, traces and the choice of a method by measured costs are in simulated
// seconds.
#pragma once

#include <tacit/comm/communicator.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::comm {

/// Times in seconds. What is left at 0 costs nothing.
struct MachineModel {
  double latency = 0;    ///< L: of a message on the wire
  double overhead = 0;   ///< o: of the processor for a message, at each end
  double gap = 0;        ///< G: seconds a byte on the wire
  double noise = 0;      ///< mean of an exponentially distributed delay of each kernel on each rank
  double bandwidth = 0;  ///< bytes a second that a rank moves in kernels; 0: bytes cost nothing
  double flop_rate = 0;  ///< operations a second of a rank; 0: they cost nothing
  double kernel = 0;     ///< what every kernel costs beside (the launch on a device)
  /// A kernel that moves at most so many bytes runs from the cache, at cache_bandwidth.
  double cache = 0, cache_bandwidth = 0;
  /// meeting: a message leaves when its receiver asks for it, too (rendezvous). eager: a late receiver finds it there.
  enum class Delivery { eager, meeting } delivery = Delivery::eager;
  /// How the rounds of a started sum go on. ideal: by themselves (the network does it, or a core that is free).
  /// in_wait: while the rank waits for something. poll: also from kernels, every poll_interval.
  enum class Progress { ideal, in_wait, poll } progress = Progress::ideal;
  double poll_interval = 50e-6;  ///< a kernel polls a million times at most
  std::uint64_t seed = 1;        ///< of the noise
  /// Messages within a group of so many neighbouring ranks (a socket, a node), from the inside out.
  struct Level {
    int ranks = 1;
    double latency = 0, overhead = 0, gap = 0;
  };
  std::vector<Level> levels;

  /// "hopper": Cray XE6, latency and bandwidth as published, overhead and noise chosen. "fitted": the same with
  /// overhead, gap and noise fitted to three ratios of Williams et al. 2014. "modern". "tsubame": a core of Tsubame 2
  /// over TCP, from the all-reduce that Yamazaki et al. 2017 measured (230 us at 240 ranks). Error(usage) on another
  /// name.
  static MachineModel named(std::string_view name);
  static std::vector<std::string> names();
  static Delivery delivery_of(std::string_view name);
  static Progress progress_of(std::string_view name);
  /// All parameters on one line.
  std::string describe() const;
  /// Error(usage) on a number that makes no sense.
  void check() const;
};

/// What simulated ranks have spent since their clocks were last restarted.
const char* to_string(MachineModel::Delivery delivery);
const char* to_string(MachineModel::Progress progress);

struct SimulatedTimes {
  double finish = 0;  ///< the latest clock
  struct Phase {
    std::string name;  ///< "sum", "halo", "agree" (errors, set-up), or a kernel's name
    bool kernel = false;
    double seconds = 0;  ///< mean over ranks; waiting for a late rank counts where the wait is
    double count = 0;    ///< of kernels, sums, exchanges, on the mean rank
  };
  std::vector<Phase> phases;             ///< kernels first, by name
  std::int64_t messages = 0, bytes = 0;  ///< of all ranks, those of sums and agreements too
  double seconds(std::string_view phase) const;
  double kernel_seconds() const;
};

/// Runs f(communicator) on `ranks` simulated ranks; rethrows what the lowest failing rank threw. Times of the whole, or
/// of what f measured last. Exchanges travel as messages: other paths, tasks, engines and schedules by threads are
/// refused where they are asked for. A rank has `stack_bytes` of stack. Error(environment), on all ranks, when all of
/// them wait for each other; and where the system has no stacks for so many (Linux as it comes: about 32,000 ranks).
/// Error(usage) on more than 2^20. Not to be called on a simulated rank.
SimulatedTimes simulate(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                        std::size_t stack_bytes = 256 * 1024);

/// What may happen next where a scheduler decides it and no clock: a rank goes on until it waits again, or something
/// arrives that its receiver waits for (anything else changes nothing by its arrival).
struct Step {
  enum class What { turn, message, notice };
  /// Of a rank among all of its turns, or of what it has sent (notices too), from 1.
  struct Id {
    int rank;
    std::int64_t number;
    friend auto operator<=>(const Id&, const Id&) = default;
  };
  What what;
  int rank;                  ///< that goes on, or that it arrives at
  Id id;                     ///< the rank's turn, or what the sender has sent
  Id after{};                ///< sent before it over the same channel, hence arrives before it; number 0: nothing
  std::int64_t awaited = 0;  ///< since which turn of the receiver
  std::shared_ptr<const std::vector<Id>> seen{};  ///< what the sender had received before
};
/// Gives the position of the step that is taken, of those that are possible. Must not throw.
using Scheduler = std::function<std::size_t(const std::vector<Step>&)>;
/// f(communicator) on simulated ranks in the order that `next` chooses, without times: for tests that go through all
/// orders. Messages of one sender, receiver and tag keep their order, and so do notices of one sender; all others may
/// overtake each other. The same choices give the same run. Errors as those of simulate().
void simulate_in_order(int ranks, const Scheduler& next, const std::function<void(const Communicator&)>& f);

/// Null where ranks are real.
const MachineModel* simulated_machine(const Communicator& comm);
/// All clocks, phases and counts of a simulation to zero, at the same instant. Collective, with no sum or exchange
/// under way; costs no time. Error(usage) where ranks are real.
void restart_clocks(const Communicator& comm);
/// What has been spent since; simulate() returns the last that was read. The same on all ranks. Collective; costs no
/// time.
SimulatedTimes read_clocks(const Communicator& comm);

}  // namespace tacit::comm
