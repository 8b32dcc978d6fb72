#include <tacit/comm/simulate.hpp>

#include <tacit/base/names.hpp>

#include <cmath>
#include <cstdio>

namespace tacit::comm {
namespace {

constexpr Names<MachineModel::Delivery, 2> deliveries{
    "delivery", {{{MachineModel::Delivery::eager, "eager"}, {MachineModel::Delivery::meeting, "meeting"}}}};
constexpr Names<MachineModel::Progress, 3> progresses{"progress",
                                                      {{{MachineModel::Progress::ideal, "ideal"},
                                                        {MachineModel::Progress::in_wait, "in_wait"},
                                                        {MachineModel::Progress::poll, "poll"}}}};
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
MachineModel::Delivery MachineModel::delivery_of(std::string_view name) {
  return deliveries.value(name);
}
MachineModel::Progress MachineModel::progress_of(std::string_view name) {
  return progresses.value(name);
}

const char* to_string(MachineModel::Delivery delivery) {
  return deliveries.name(delivery);
}
const char* to_string(MachineModel::Progress progress) {
  return progresses.name(progress);
}

std::string MachineModel::describe() const {
  char text[400];
  std::snprintf(text, sizeof text,
                "L %g us, o %g us, G %g ns/B, noise %g us, %g GB/s (%g GB/s up to %g KB), %g Gflop/s, %g us a kernel, "
                "delivery %s, progress %s",
                1e6 * latency, 1e6 * overhead, 1e9 * gap, 1e6 * noise, 1e-9 * bandwidth, 1e-9 * cache_bandwidth,
                cache / 1024, 1e-9 * flop_rate, 1e6 * kernel, to_string(delivery), to_string(progress));
  std::string all = text;
  if (progress == Progress::poll) all += message(" every ", 1e6 * poll_interval, " us");
  for (const auto& l : levels)
    all += message(", within ", l.ranks, " ranks: L ", 1e6 * l.latency, " us, o ", 1e6 * l.overhead, " us, G ",
                   1e9 * l.gap, " ns/B");
  if (noise > 0) all += message(", seed ", seed);
  return all;
}

void MachineModel::check() const {
  const auto time = [](const char* name, double value) {
    require(value >= 0 && value <= 1e15, "a machine's ", name, " of ", value, "; a number from 0 to 1e15 is needed");
  };
  // Clocks stay finite.
  const auto rate = [](const char* name, double value) {
    require(value == 0 || (value >= 1e-15 && std::isfinite(value)), "a machine's ", name, " of ", value,
            "; 0, or a number above 1e-15 is needed");
  };
  time("latency", latency), time("overhead", overhead), time("gap", gap), time("noise", noise);
  time("kernel", kernel), time("cache", cache);
  rate("bandwidth", bandwidth), rate("flop_rate", flop_rate), rate("cache_bandwidth", cache_bandwidth);
  require(cache == 0 || bandwidth == 0 || cache_bandwidth > 0, "a machine with a cache of ", cache,
          " bytes and no cache_bandwidth: what runs from it would cost nothing");
  require(progress != Progress::poll || (poll_interval > 0 && std::isfinite(poll_interval)), "a machine polls every ",
          poll_interval, " s; a number > 0 is needed");
  for (int inner = 1; const auto& level : levels) {
    time("latency within a level", level.latency), time("overhead within a level", level.overhead);
    time("gap within a level", level.gap);
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
