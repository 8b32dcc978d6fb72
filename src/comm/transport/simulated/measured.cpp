// The parameters of real ranks' messages as a simulated machine.
#include <tacit/base/trace.hpp>
#include <tacit/comm/simulate.hpp>
#include "exec/backoff.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

namespace tacit::comm {
namespace {

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

constexpr int some_tag = 1;

void complete(Transport& transport, Ticket& ticket) {
  exec::Backoff idle;  // as ranks wait in solves
  while (!transport.test(ticket)) idle.pause();
}
void send(Transport& transport, int to, const std::vector<std::byte>& bytes) {
  auto ticket = transport.send(to, some_tag, bytes.data(), bytes.size());
  complete(transport, ticket);
}
void receive(Transport& transport, int from, std::vector<std::byte>& bytes) {
  auto ticket = transport.receive(from, some_tag, bytes.data(), bytes.size());
  complete(transport, ticket);
}

/// Half of the time of a message there and back between ranks a and b; 0 on others.
double half_round_trip(Transport& transport, int a, int b, std::size_t bytes, int repeats) {
  const int me = transport.rank();
  if (me != a && me != b) return 0;
  std::vector<std::byte> buffer(bytes);
  std::vector<double> times;
  for (int i = 0; i < repeats + 3; ++i) {
    const double from = wall_time();
    if (me == a) send(transport, b, buffer), receive(transport, b, buffer);
    else receive(transport, a, buffer), send(transport, a, buffer);
    if (i >= 3) times.push_back((wall_time() - from) / 2);
  }
  return median(times);
}

/// Processor seconds of a message: of sending one of several and of taking one that is there, on average.
double overhead_of(Transport& transport, int a, int b) {
  constexpr int burst = 16;
  const int me = transport.rank();
  if (me != a && me != b) return 0;
  std::vector<double> times;
  std::vector<std::vector<std::byte>> buffers(burst, std::vector<std::byte>(8));
  for (int round = 0; round < 21; ++round) {
    std::vector<Ticket> tickets;
    const bool sends = (me == a) == (round % 2 == 0);
    if (sends) {
      const double from = wall_time();
      for (auto& buffer : buffers)
        tickets.push_back(transport.send(me == a ? b : a, some_tag, buffer.data(), buffer.size()));
      times.push_back((wall_time() - from) / burst);
      for (auto& ticket : tickets) complete(transport, ticket);
      continue;
    }
    for (auto& buffer : buffers)
      tickets.push_back(transport.receive(me == a ? b : a, some_tag, buffer.data(), buffer.size()));
    complete(transport, tickets.back());  // messages keep their order: all are there
    const double from = wall_time();
    for (std::size_t i = 0; i + 1 < tickets.size(); ++i) complete(transport, tickets[i]);
    times.push_back((wall_time() - from) / (burst - 1));
  }
  return median(times);
}

/// The largest power of two bytes, from 1 KB to 4 MB, whose send completes while its receiver is away; 0 if all do.
double eager_limit_of(Transport& transport, int a, int b) {
  using namespace std::chrono_literals;
  const int me = transport.rank();
  if (me != a && me != b) return 0;
  double limit = 0;
  bool all = true;
  for (std::size_t bytes = 1024; bytes <= (std::size_t(4) << 20) && all; bytes *= 2) {
    std::vector<std::byte> buffer(bytes), word(8);
    if (me == a) {
      receive(transport, b, word);
      auto ticket = transport.send(b, some_tag, buffer.data(), bytes);
      const double until = wall_time() + 2e-3;
      bool there = false;
      while (!there && wall_time() < until) there = transport.test(ticket);
      complete(transport, ticket);
      word[0] = std::byte(there);
      send(transport, b, word);
    } else {
      send(transport, a, word);
      std::this_thread::sleep_for(5ms);  // away: it calls nothing that could take the message
      receive(transport, a, buffer);
      receive(transport, a, word);
    }
    all = word[0] != std::byte(0);
    if (all) limit = double(bytes);
  }
  return all ? 0 : limit;
}

/// Seconds of an all-reduce of one number, of several in turn.
double seconds_of_sums(const Communicator& comm, int several) {
  const double from = wall_time();
  for (int i = 0; i < several; ++i) (void)comm.sum(exec::Sums<1, double>{{1.0}}).wait();
  return (wall_time() - from) / several;
}

struct Messages {
  double latency = 0, overhead = 0, gap = 0;
};
/// Between ranks a and b, the same on all ranks.
Messages measure_messages(const Communicator& comm, Transport& transport, int a, int b) {
  constexpr double small = 8, large = 256 * 1024;
  const double first = half_round_trip(transport, a, b, std::size_t(small), 101);
  const double last = half_round_trip(transport, a, b, std::size_t(large), 15);
  const double each = overhead_of(transport, a, b);
  const int me = comm.rank();
  const double overhead = comm.all_max(me == a || me == b ? each : 0);
  const double half = comm.all_max(me == a ? first : 0), whole = comm.all_max(me == a ? last : 0);
  return {std::max(0.0, half - 2 * overhead), overhead, std::max(0.0, (whole - half) / (large - small))};
}

/// Rounds of an all-reduce among so many ranks.
double rounds(int ranks) {
  const double doubling = std::floor(std::log2(double(ranks)));
  return doubling + (std::exp2(doubling) < ranks ? 2 : 0);
}

void measure_links(const Communicator& comm, MachineModel& m) {
  const auto transport = comm.transport().duplicate();
  const auto& places = comm.topology();
  int node = 0;  // ranks of the first node, if all others are as large and hold neighbouring ranks
  while (node < comm.size() && places.same_node(0, node)) ++node;
  bool alike = node < comm.size() && node > 1;
  for (int r = 0; alike && r < comm.size(); ++r) alike = places.same_node(r, r / node * node);
  const Messages far = measure_messages(comm, *transport, 0, alike ? node : comm.size() > 1 ? 1 : 0);
  m.latency = far.latency, m.overhead = far.overhead, m.gap = far.gap;
  double inner = 0;
  if (alike) {
    const Messages near = measure_messages(comm, *transport, 0, 1);
    m.levels = {{node, near.latency, near.overhead, near.gap}};
    inner = rounds(node);
  }
  m.eager_limit = comm.all_max(eager_limit_of(*transport, 0, alike ? node : 1));
  // What the library adds to the messages of a reduction. Many in turn: a rank that is late by some time waits as much
  // less in every second one, so single ones take any time up to two latencies.
  constexpr int several = 20;
  const double about = comm.all_max(seconds_of_sums(comm, several));
  std::vector<double> sums;
  for (int i = std::clamp(int(0.3 / (several * about)), 11, 101); i > 0; --i)
    sums.push_back(seconds_of_sums(comm, several));
  const double whole = comm.all_max(median(sums)), outer = rounds(comm.size()) - inner;
  const double known =
      outer * (m.latency + 2 * m.overhead) + (alike ? inner * (m.levels[0].latency + 2 * m.levels[0].overhead) : 0);
  const double more = std::max(0.0, (whole - known) / (2 * (inner + outer)));
  m.overhead += more;
  if (alike) m.levels[0].overhead += more;
}

/// Pauses of a loop, mean seconds between them and of each: of those that come often enough to be seen many times.
void measure_noise(const Communicator& comm, MachineModel& m) {
  constexpr double shortest = 5e-6, longest = 1e-3, span = 0.1;
  double before = wall_time(), left = span, lost = 0;
  int pauses = 0;
  while (left > 0) {
    const double now = wall_time(), pause = now - before;
    before = now;
    if (pause > longest) continue;  // and no part of the span
    left -= pause;
    if (pause > shortest) lost += pause, ++pauses;
  }
  const double all = comm.all_sum(double(pauses));
  lost = comm.all_sum(lost);
  if (all == 0) return;
  m.noise_duration = lost / all;
  m.noise_interval = std::max(m.noise_duration, (span * comm.size() - lost) / all);
}

}  // namespace

MachineModel measure_machine(const Communicator& comm, const KernelRates& rates) {
  if (const auto* const simulated = simulated_machine(comm)) return *simulated;
  MachineModel m;
  m.progress = MachineModel::Progress::poll;
  m.bandwidth = rates.bandwidth, m.flop_rate = rates.flop_rate, m.kernel = rates.kernel;
  m.cache = rates.cache, m.cache_bandwidth = rates.cache_bandwidth;
  if (comm.size() > 1) measure_links(comm, m);
  measure_noise(comm, m);
  return m;
}

}  // namespace tacit::comm
