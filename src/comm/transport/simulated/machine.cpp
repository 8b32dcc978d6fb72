#include <tacit/comm/simulate.hpp>

#include <tacit/base/names.hpp>

#include <cmath>
#include <cstdio>

namespace tacit::comm {
namespace {

enum class Known { hopper, fitted, modern, tsubame };
constexpr Names<Known, 4> machines{
    "machine",
    {{{Known::hopper, "hopper"}, {Known::fitted, "fitted"}, {Known::modern, "modern"}, {Known::tsubame, "tsubame"}}}};

}  // namespace

MachineModel MachineModel::named(std::string_view name) {
  MachineModel m;
  m.bandwidth = 12e9;
  m.flop_rate = 12e9;
  m.cache = 512 * 1024;
  m.cache_bandwidth = 50e9;
  m.progress = Progress::poll;  // as with the engine "polling", over an MPI library that acts only when it is called
  switch (machines.value(name)) {
    case Known::hopper:
      m.latency = 1.5e-6, m.overhead = 0.5e-6, m.gap = 0.33e-9, m.noise = 2e-6;
      break;
    case Known::fitted:
      m.latency = 1.5e-6, m.overhead = 0.85e-6, m.gap = 1.4e-9;
      break;
    case Known::modern:
      m.latency = 1e-6, m.overhead = 0.2e-6, m.gap = 0.1e-9, m.noise = 0.5e-6;
      break;
    case Known::tsubame:
      m.latency = 21.5e-6, m.overhead = 2e-6, m.gap = 1e-9;
      m.bandwidth = 2.1e9, m.cache = 1 << 20, m.cache_bandwidth = 8e9, m.flop_rate = 5e9;
      break;
  }
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
      option<O>("poll_interval", &O::poll_interval, positive(), "with progress poll: seconds between two polls"),
      option<O>("seed", &O::seed, between(0, 9007199254740992.0, "(2^53)"), "of the noise"),
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

std::string MachineModel::describe() const {
  char text[400];
  std::snprintf(text, sizeof text,
                "L %g us, o %g us, G %g ns/B, noise %g us, %g GB/s (%g GB/s up to %g KB), %g Gflop/s, %g us a kernel, "
                "delivery %s, progress %s",
                1e6 * latency, 1e6 * overhead, 1e9 * gap, 1e6 * noise, 1e-9 * bandwidth, 1e-9 * cache_bandwidth,
                cache / 1024, 1e-9 * flop_rate, 1e6 * kernel, tacit::to_string(delivery), tacit::to_string(progress));
  std::string all = text;
  if (progress == Progress::poll) all += message(" every ", 1e6 * poll_interval, " us");
  for (const auto& l : levels)
    all += message(", within ", l.ranks, " ranks: L ", 1e6 * l.latency, " us, o ", 1e6 * l.overhead, " us, G ",
                   1e9 * l.gap, " ns/B");
  if (noise > 0) all += message(", seed ", seed);
  return all;
}

void MachineModel::check() const {
  check_values(machine_options(), *this);
  for (const double rate : {bandwidth, flop_rate, cache_bandwidth})
    require(rate == 0 || rate >= 1e-15, "a machine's rate of ", rate, "; ", a_rate.needed, " is needed");
  require(cache == 0 || bandwidth == 0 || cache_bandwidth > 0, "a machine with a cache of ", cache,
          " bytes and no cache_bandwidth: what runs from it would cost nothing");
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
