#include <tacit/comm/simulate.hpp>

#include <tacit/base/names.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tacit::comm {
namespace {

enum class Known { hopper, fitted, modern, tsubame, tsubame3, reedbush_h, summit, frontier, h200 };
constexpr Names<Known, 9> machines{"machine",
                                   {{{Known::hopper, "hopper"},
                                     {Known::fitted, "fitted"},
                                     {Known::modern, "modern"},
                                     {Known::tsubame, "tsubame"},
                                     {Known::tsubame3, "tsubame3"},
                                     {Known::reedbush_h, "reedbush-h"},
                                     {Known::summit, "summit"},
                                     {Known::frontier, "frontier"},
                                     {Known::h200, "h200"}}}};

// Ranks are cores or processors of an earlier machine, whose nodes are not modelled.
MachineModel of_processors(Known name) {
  MachineModel m;
  m.bandwidth = 12e9;
  m.flop_rate = 12e9;
  m.cache = 512 * 1024;
  m.cache_bandwidth = 50e9;
  if (name == Known::hopper) m.latency = 1.5e-6, m.overhead = 0.5e-6, m.gap = 0.33e-9, m.noise = 2e-6;
  if (name == Known::fitted) m.latency = 1.5e-6, m.overhead = 0.85e-6, m.gap = 1.4e-9;
  if (name == Known::modern) m.latency = 1e-6, m.overhead = 0.2e-6, m.gap = 0.1e-9, m.noise = 0.5e-6;
  if (name == Known::tsubame) {
    m.latency = 21.5e-6, m.overhead = 2e-6, m.gap = 1e-9;
    m.bandwidth = 2.1e9, m.cache = 1 << 20, m.cache_bandwidth = 8e9, m.flop_rate = 5e9;
  }
  return m;
}

// Ranks are GPUs, several to a node. `port`, `node` and `link`: bytes per second of a network port, of all ports of a
// node, and between two GPUs of a node.
MachineModel of_gpus(int gpus, double memory, double flops, double kernel, double port, double node, double link) {
  MachineModel m;
  m.bandwidth = memory, m.flop_rate = flops, m.kernel = kernel;
  m.latency = 1e-6, m.overhead = 0.5e-6, m.gap = 1 / port, m.eager_limit = 8192;
  m.ranks_per_node = gpus, m.nic_gap = 1 / node;
  m.levels = {{gpus, 1.5e-6, 0.5e-6, 1 / link}};
  m.topology = MachineModel::Topology::fat_tree;
  m.hop_latency = 100e-9, m.nodes_per_switch = 18, m.switches_per_group = 1 << 20;  // two levels of switches
  return m;
}

MachineModel of_frontier() {
  MachineModel m = of_gpus(8, 1.3e12, 20e12, 5e-6, 25e9, 100e9, 50e9);
  m.topology = MachineModel::Topology::dragonfly;
  m.hop_latency = 350e-9, m.nodes_per_switch = 4, m.switches_per_group = 32;
  m.uplink_gap = 1 / (0.57 * 128 * 100e9);
  return m;
}

MachineModel model_of(Known name) {
  switch (name) {
    case Known::tsubame3:
      return of_gpus(4, 495e9, 4.7e12, 5e-6, 12.5e9, 50e9, 20e9);
    case Known::reedbush_h:
      return of_gpus(2, 495e9, 4.7e12, 5e-6, 7e9, 14e9, 40e9);
    case Known::summit:
      return of_gpus(6, 800e9, 7e12, 5e-6, 12.5e9, 25e9, 50e9);
    case Known::frontier:
      return of_frontier();
    case Known::h200:
      return of_gpus(8, 4.1e12, 34e12, 3e-6, 50e9, 400e9, 450e9);
    default:
      return of_processors(name);
  }
}

}  // namespace

MachineModel MachineModel::named(std::string_view name) {
  MachineModel m = model_of(machines.value(name));
  m.progress = Progress::poll;  // as with the engine "polling", over an MPI library that acts only when it is called
  return m;
}

std::vector<std::string> MachineModel::names() {
  return machines.all();
}

namespace {

// Clocks stay finite.
const Range seconds{.least = 0, .most = 1e15, .needed = "a number from 0 to 1e15"};
// Nothing between 0, at which they cost nothing, and 1e-15.
const Range a_rate{.least = 0, .most = std::numeric_limits<double>::max(), .needed = "0, or a number above 1e-15"};
}  // namespace

std::span<const Option<MachineModel>> machine_options() {
  using O = MachineModel;
  static const std::vector<Option<O>> all{
      option<O>("latency", &O::latency, seconds, "L: seconds of a message on the wire"),
      option<O>("overhead", &O::overhead, seconds, "o: seconds of the processor for a message, at each end"),
      option<O>("gap", &O::gap, seconds, "G: seconds a byte on the wire"),
      option<O>("noise", &O::noise, seconds, "mean of an exponentially distributed delay of each kernel on each rank"),
      option<O>("bandwidth", &O::bandwidth, a_rate,
                "bytes a second that a rank moves in kernels; 0: they cost nothing"),
      option<O>("flop_rate", &O::flop_rate, a_rate, "operations a second of a rank; 0: they cost nothing"),
      option<O>("kernel", &O::kernel, seconds, "a fixed time for every kernel (the launch on a device)"),
      option<O>("cache", &O::cache, seconds, "bytes; a kernel that moves at most so many runs from the cache"),
      option<O>("cache_bandwidth", &O::cache_bandwidth, a_rate, "bytes a second of kernels that run from the cache"),
      option<O>("eager_limit", &O::eager_limit, seconds,
                "bytes; a larger message is announced, and fetched when its receiver calls next (rendezvous); 0: none"),
      option<O>("ranks_per_node", &O::ranks_per_node, at_least(0, "ranks"),
                "neighbouring ranks that share a node's memory and network interface; 0: each has its own"),
      option<O>("nic_gap", &O::nic_gap, seconds, "seconds a byte that enters or leaves a node"),
      option<O>("node_bandwidth", &O::node_bandwidth, a_rate,
                "bytes a second of a node's memory, in equal parts for its ranks; 0: no limit"),
      option<O>("noise_interval", &O::noise_interval, seconds,
                "mean seconds between interruptions of a rank by the system, exponentially distributed; 0: none"),
      option<O>("noise_duration", &O::noise_duration, seconds,
                "mean seconds of an interruption, exponentially distributed"),
      option<O>("topology", &O::topology, "how nodes are connected"),
      option<O>("hop_latency", &O::hop_latency, seconds, "seconds a switch of a message's way beyond the first"),
      option<O>("nodes_per_switch", &O::nodes_per_switch, at_least(1, "node"),
                "nodes at a leaf switch (fat-tree) or router (dragonfly)"),
      option<O>("switches_per_group", &O::switches_per_group, at_least(1, "switch"),
                "leaf switches of a pod (fat-tree), routers of a group (dragonfly)"),
      option<O>("torus_axes", &O::torus_axes, between(1, 6, "axes"), "axes of a torus"),
      option<O>("uplink_gap", &O::uplink_gap, seconds,
                "seconds a byte on the links, together, that leave a leaf switch (fat-tree) or a group (dragonfly), or "
                "join the halves of a torus"),
      option<O>("poll_interval", &O::poll_interval, positive(), "with progress poll: seconds between two polls"),
      option<O>("seed", &O::seed, between(0, 9007199254740992.0, "(2^53)"), "of noise and interruptions"),
      option<O>("delivery", &O::delivery,
                "meeting: a message leaves when its receiver is ready, too (rendezvous); eager: a late receiver "
                "finds it there"),
      option<O>("progress", &O::progress,
                "how the rounds of a started sum go on: by themselves (ideal), while the rank waits for something "
                "(in_wait), also from kernels (poll)"),
  };
  return all;
}

std::span<const Option<MachineModel::Level>> level_options() {
  using O = MachineModel::Level;
  static const std::vector<Option<O>> all{
      option<O>("ranks", &O::ranks, at_least(1, "rank"), "neighbouring ranks of a group (a socket, a node)"),
      option<O>("latency", &O::latency, seconds, "L within the group"),
      option<O>("overhead", &O::overhead, seconds, "o within the group"),
      option<O>("gap", &O::gap, seconds, "G within the group"),
  };
  return all;
}

double MachineModel::memory_bandwidth() const {
  const double share = node_bandwidth / std::max(1, ranks_per_node);
  return share > 0 && (bandwidth == 0 || share < bandwidth) ? share : bandwidth;
}

double MachineModel::kernel_seconds(double bytes, double flops) const {
  if (bytes <= 0 && flops <= 0) return 0;
  const double rate = cache > 0 && bytes <= cache ? cache_bandwidth : memory_bandwidth();
  return kernel + std::max(rate > 0 ? bytes / rate : 0, flop_rate > 0 ? flops / flop_rate : 0);
}

std::string MachineModel::describe() const {
  char text[400];
  std::snprintf(text, sizeof text,
                "L %g us, o %g us, G %g ns/B, noise %g us, %g GB/s (%g GB/s up to %g KB), %g Gflop/s, %g us a kernel, "
                "delivery %s, progress %s",
                1e6 * latency, 1e6 * overhead, 1e9 * gap, 1e6 * noise, 1e-9 * bandwidth, 1e-9 * cache_bandwidth,
                cache / 1024, 1e-9 * flop_rate, 1e6 * kernel, tacit::to_string(delivery), tacit::to_string(progress));
  std::string all = text;
  const auto digits = [](double number) {  // no more than are of interest
    char few[32];
    std::snprintf(few, sizeof few, "%g", number);
    return std::string(few);
  };
  if (progress == Progress::poll) all += message(" every ", digits(1e6 * poll_interval), " us");
  for (const auto& l : levels)
    all += message(", within ", l.ranks, " ranks: L ", digits(1e6 * l.latency), " us, o ", digits(1e6 * l.overhead),
                   " us, G ", digits(1e9 * l.gap), " ns/B");
  if (eager_limit > 0) all += message(", rendezvous above ", digits(eager_limit / 1024), " KB");
  if (ranks_per_node > 0) {
    all += message(", nodes of ", ranks_per_node, " ranks");
    if (nic_gap > 0) all += message(" with ", digits(1e9 * nic_gap), " ns/B");
    if (node_bandwidth > 0) all += message(" and ", digits(1e-9 * node_bandwidth), " GB/s");
  }
  if (topology != Topology::flat) {
    all += message(", ", tacit::to_string(topology), ": ", digits(1e6 * hop_latency), " us a hop");
    if (topology == Topology::torus) all += message(", ", torus_axes, " axes");
    else all += message(", ", nodes_per_switch, " nodes a switch, ", switches_per_group, " switches a group");
    if (uplink_gap > 0) all += message(", uplinks ", digits(1e9 * uplink_gap), " ns/B");
  }
  if (noise_interval > 0)
    all +=
        message(", interrupted every ", digits(1e6 * noise_interval), " us for ", digits(1e6 * noise_duration), " us");
  if (noise > 0 || noise_interval > 0) all += message(", seed ", seed);
  return all;
}

void MachineModel::check() const {
  check_values(machine_options(), *this);
  for (const double rate : {bandwidth, flop_rate, cache_bandwidth})
    require(rate == 0 || rate >= 1e-15, "a machine's rate of ", rate, "; ", a_rate.needed, " is needed");
  require(cache == 0 || bandwidth == 0 || cache_bandwidth > 0, "a machine with a cache of ", cache,
          " bytes and no cache_bandwidth: what runs from it would cost nothing");
  require(ranks_per_node > 0 || (nic_gap == 0 && node_bandwidth == 0), "a machine with nic_gap ", nic_gap,
          " or node_bandwidth ", node_bandwidth, " and no ranks_per_node: it says who shares them");
  require(topology != Topology::flat || (hop_latency == 0 && uplink_gap == 0), "a machine with hop_latency ",
          hop_latency, " or uplink_gap ", uplink_gap, " and topology flat; fat-tree, torus or dragonfly has hops");
  require((noise_interval > 0) == (noise_duration > 0), "a machine with noise_interval ", noise_interval,
          " and noise_duration ", noise_duration, "; both are needed, or none");
  require(noise_duration <= noise_interval, "a machine with noise_duration ", noise_duration,
          " above its noise_interval ", noise_interval, ": kernels would hardly advance");
  for (int inner = 1; const auto& level : levels) {
    check_values(level_options(), level);
    require(level.ranks >= inner && level.ranks % inner == 0, "a level of ", level.ranks, " ranks around groups of ",
            inner, "; levels go from the inside out, each a multiple of the one before");
    inner = level.ranks;
  }
  require(levels.size() <= 3, "a machine of ", levels.size(), " levels; at most 3");
}

double SimulatedTimes::seconds(std::string_view name) const {
  for (const auto& phase : phases)
    if (phase.name == name) return phase.seconds;
  return 0;
}
double SimulatedTimes::kernel_seconds() const {
  double all = 0;
  for (const auto& phase : phases)
    if (phase.kernel) all += phase.seconds;
  return all;
}

}  // namespace tacit::comm
