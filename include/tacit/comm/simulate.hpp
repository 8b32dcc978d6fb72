// Simulated ranks: runs the library's code unchanged on P ranks of a modelled machine, in one process.
//
// Each rank is a fiber with its own data and clock; all run on the calling thread, one at a time, so thousands of ranks
// are cheap and runs with the same parameters give the same clocks. Messages carry the ranks' data, so results and
// counts are bit for bit those of any communicator with as many ranks. Only time is simulated, by the LogGP model
// (Alexandrov, Ionescu, Schauser, Scheiman 1995, doi 10.1145/215399.215427):
//
//   kernel    clock += max(bytes / bandwidth, operations / flop rate) + kernel + noise, from what kernels declare
//   send      departure = max(clock, departure of the rank's last message) + o + G bytes; clock += o
//   receive   arrival = departure + L; clock = max(clock, arrival) + o
//   sum       recursive doubling, made of such messages
//
// Parameters that are 0 by default add a rendezvous of large messages, network interfaces, memory and links between
// switches that ranks share, hops, and interruptions (docs/theory/simulator.md).
//
// wall_time() on a rank returns its clock, so reports, traces and method choices by measured cost use simulated
// seconds.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/kernel_rates.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::comm {

/// Times in seconds. A parameter of 0 costs nothing.
struct MachineModel {
  double latency = 0;    ///< L: latency of a message on the wire
  double overhead = 0;   ///< o: processor time for a message, at each end
  double gap = 0;        ///< G: seconds for each byte on the wire
  double noise = 0;      ///< mean of an exponentially distributed delay of each kernel on each rank
  double bandwidth = 0;  ///< bytes per second that a rank moves in kernels; 0: bytes cost nothing
  double flop_rate = 0;  ///< operations per second of a rank; 0: they cost nothing
  double kernel = 0;     ///< a fixed time for every kernel (the launch on a device)
  /// A kernel that moves at most `cache` bytes runs at cache_bandwidth.
  double cache = 0, cache_bandwidth = 0;
  /// eager: a message leaves at once. meeting: it leaves when the receiver has posted its receive, too.
  enum class Delivery { eager, meeting } delivery = Delivery::eager;
  /// Larger messages are announced first, and fetched by the receiver's next call (rendezvous). 0: none are.
  double eager_limit = 0;
  /// Neighbouring ranks of a node share its memory and its network interface; 0: each rank has its own.
  int ranks_per_node = 0;
  double nic_gap = 0;         ///< seconds for each byte that enters or leaves a node
  double node_bandwidth = 0;  ///< bytes per second of a node's memory, in equal parts for its ranks; 0: no limit
  /// Interruptions of a rank by the system: mean seconds between them and of each, both distributed exponentially.
  double noise_interval = 0, noise_duration = 0;
  /// How nodes are connected (a rank is a node where ranks_per_node is 0). fat_tree: leaf switches of
  /// nodes_per_switch nodes, pods of switches_per_group switches. dragonfly: routers of nodes_per_switch nodes, groups
  /// of switches_per_group routers. torus: torus_axes axes, as equal as the number of nodes allows.
  enum class Topology { flat, fat_tree, torus, dragonfly } topology = Topology::flat;
  double hop_latency = 0;  ///< seconds for each switch of a message's way beyond the first
  int nodes_per_switch = 16, switches_per_group = 16, torus_axes = 3;
  /// Seconds for each byte on the links, taken together, that leave a leaf switch (fat_tree) or a group (dragonfly), or
  /// that join the halves of a torus; those of each direction.
  double uplink_gap = 0;
  /// When the rounds of a started reduction advance. ideal: at any time (by the network or a free core). in_wait: while
  /// the rank waits. poll: also within kernels, every poll_interval.
  enum class Progress { ideal, in_wait, poll } progress = Progress::ideal;
  double poll_interval = 50e-6;  ///< a kernel polls a million times at most
  std::uint64_t seed = 1;        ///< of noise and interruptions
  /// Message parameters within groups of this many consecutive ranks (a socket, a node), innermost first.
  struct Level {
    int ranks = 1;
    double latency = 0, overhead = 0, gap = 0;
  };
  std::vector<Level> levels;

  /// The machine of a name. "hopper": Cray XE6 with published latency and bandwidth, and assumed overhead and noise.
  /// "fitted": the same with overhead, gap and noise fitted to three ratios of Williams et al. 2014. "modern": assumed.
  /// "tsubame": a core of Tsubame 2 over TCP, after the all-reduce time of Yamazaki et al. 2017 (230 us at 240 ranks).
  /// A GPU of "tsubame3", "reedbush-h", "summit", "frontier", and of a cluster of "h200": published bandwidths, assumed
  /// latencies and overheads. docs/theory/simulator.md has the sources.
  /// Messages of all of them advance when products poll, as with the engine "polling". Error(usage) on another name.
  static MachineModel named(std::string_view name);
  static std::vector<std::string> names();
  /// Bytes per second from memory of a rank while all ranks of its node read; 0: they cost nothing.
  double memory_bandwidth() const;
  /// Seconds of a kernel that moves `bytes` and does `flops` operations, without noise; 0 if it does neither.
  double kernel_seconds(double bytes, double flops) const;
  /// All parameters on one line.
  std::string describe() const;
  /// Error(usage) on a parameter out of its range.
  void check() const;
};

std::span<const Option<MachineModel>> machine_options();
std::span<const Option<MachineModel::Level>> level_options();

/// The simulated time since the clocks were last restarted, by phase.
struct SimulatedTimes {
  double finish = 0;  ///< the latest clock
  struct Phase {
    std::string name;  ///< "sum", "halo", "agree" (errors, set-up), or a kernel's name
    bool kernel = false;
    double seconds = 0;  ///< mean over ranks; waiting for a late rank is counted in the phase that waits
    double count = 0;    ///< kernels, sums or exchanges, mean over ranks
  };
  std::vector<Phase> phases;             ///< kernels first, by name
  std::int64_t messages = 0, bytes = 0;  ///< of all ranks, including those of sums and agreements
  double seconds(std::string_view phase) const;
  double kernel_seconds() const;
};

/// Runs f(communicator) on `ranks` simulated ranks, each with `stack_bytes` of stack; rethrows the exception of the
/// lowest failing rank. Returns the times of the whole run, or those that f read last by read_clocks(). Exchanges use
/// messages: other paths, tasks, progress threads and thread schedules are refused. Error(environment) on all ranks in
/// a deadlock, where the system cannot provide the stacks, and where one is found overrun at the end. Error(usage) on
/// more than 2^20 ranks. Must not be called on a simulated rank.
SimulatedTimes simulate(int ranks, const MachineModel& machine, const std::function<void(const Communicator&)>& f,
                        std::size_t stack_bytes = 256 * 1024);

/// A possible next event of a run ordered by a scheduler: a rank runs until it waits again, or a message that its
/// receiver waits for arrives (other arrivals change nothing).
struct Step {
  enum class What { turn, message, notice };
  /// The number of a rank's turn, or of something it has sent (including notices), from 1.
  struct Id {
    int rank;
    std::int64_t number;
    friend auto operator<=>(const Id&, const Id&) = default;
  };
  What what;
  int rank;                  ///< the rank that runs, or that receives
  Id id;                     ///< of the rank's turn, or of what was sent
  Id after{};                ///< what must arrive first, sent earlier over the same channel; number 0: nothing
  std::int64_t awaited = 0;  ///< the receiver's turn since when it waits for this
  std::shared_ptr<const std::vector<Id>> seen{};  ///< what the sender had received before it sent
};
/// Returns the position of the step to take among the possible ones. Must not throw.
using Scheduler = std::function<std::size_t(const std::vector<Step>&)>;
/// Runs f(communicator) on simulated ranks in the order that `next` chooses, without clocks: for tests that go through
/// all orders of events. Messages of one sender, receiver and tag keep their order, and so do notices of one sender;
/// all others may overtake each other. The same choices give the same run. Errors: as simulate().
void simulate_in_order(int ranks, const Scheduler& next, const std::function<void(const Communicator&)>& f);

/// The machine that the ranks of `comm` are, with the rates of its kernels as given (model::measure_rates). latency,
/// overhead and gap from messages back and forth between ranks 0 and 1, and `levels` with those within a node where the
/// ranks have several; overhead also holds what the library adds to a reduction; eager_limit from messages to a rank
/// that does not receive yet; noise_interval and noise_duration from pauses of a loop. progress is poll. One rank has
/// no messages, whose parameters are then 0. Takes a second at most, where messages take less than a millisecond. The
/// same on all ranks; simulated ranks return their model. Collective. What else runs on the machine is measured with
/// it.
MachineModel measure_machine(const Communicator& comm, const KernelRates& rates);

/// Runs f on the stack of the caller of simulate(), for code that needs more of it than a rank has (an interpreter). f
/// may throw, and must not use the communicator; its work takes no simulated time. Where ranks are real: f().
void on_outer_stack(const Communicator& comm, const std::function<void()>& f);
/// The model of a simulated rank; null where ranks are real.
const MachineModel* simulated_machine(const Communicator& comm);
/// Sets all clocks, phases and counts of a simulation to zero. Collective, with no reduction or exchange in flight;
/// takes no simulated time. Error(usage) where ranks are real.
void restart_clocks(const Communicator& comm);
/// The times since restart_clocks(), the same on all ranks; simulate() returns those read last. Collective; takes no
/// simulated time.
SimulatedTimes read_clocks(const Communicator& comm);

}  // namespace tacit::comm

namespace tacit {
template <>
inline constexpr auto names_of<comm::MachineModel::Delivery> = named<comm::MachineModel::Delivery>(
    "delivery", {{comm::MachineModel::Delivery::eager, "eager"}, {comm::MachineModel::Delivery::meeting, "meeting"}});
template <>
inline constexpr auto names_of<comm::MachineModel::Topology> =
    named<comm::MachineModel::Topology>("topology", {{comm::MachineModel::Topology::flat, "flat"},
                                                     {comm::MachineModel::Topology::fat_tree, "fat-tree"},
                                                     {comm::MachineModel::Topology::torus, "torus"},
                                                     {comm::MachineModel::Topology::dragonfly, "dragonfly"}});
template <>
inline constexpr auto names_of<comm::MachineModel::Progress> =
    named<comm::MachineModel::Progress>("progress", {{comm::MachineModel::Progress::ideal, "ideal"},
                                                     {comm::MachineModel::Progress::in_wait, "in_wait"},
                                                     {comm::MachineModel::Progress::poll, "poll"}});
}  // namespace tacit
