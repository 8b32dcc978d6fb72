#include "clock.hpp"

#include <cuda_on_host.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace cuda_on_host {
namespace clock {
namespace {

struct State {
  Rates rates;
  bool runs = false;
  std::map<int, double> down, up;              // links to the host, by number
  std::map<std::pair<int, int>, double> peer;  // by source and target
  std::vector<Interval> intervals;
};
State& state() {
  static State* const one = new State;  // never destroyed: calls are made while the process ends
  return *one;
}

double seconds(double bytes, double rate) {
  return rate > 0 ? bytes / rate : 0;
}
// Where a stream and a link or a pair (null: none) are free.
void carry_out(Stream& stream, double* other, const char* what, double duration) {
  State& s = state();
  const double begin = std::max({s.rates.now(), stream.time, other ? *other : 0});
  stream.time = begin + duration;
  if (other) *other = stream.time;
  s.intervals.push_back({what, stream.device, stream.number, begin, stream.time});
}

}  // namespace

bool runs() {
  return state().runs;
}
void restart(const std::optional<Rates>& rates) {
  State& s = state();
  s = {};
  s.runs = rates.has_value();
  if (rates) s.rates = *rates;
  for (const auto& stream : streams::all()) stream->time = 0;
}

void launched(Stream& stream, const char* kernel) {
  if (runs()) carry_out(stream, nullptr, kernel, state().rates.kernel);
}

void copied(Stream& stream, const char* call, const memory::Place& to, const memory::Place& from, std::size_t bytes) {
  if (!runs()) return;
  State& s = state();
  const bool to_device = to.kind == memory::Kind::device, from_device = from.kind == memory::Kind::device;
  const auto link = [&](int device) { return device / std::max(1, s.rates.link); };
  const double n = double(bytes);
  if (to_device && from_device && to.device != from.device)
    carry_out(stream, &s.peer[{from.device, to.device}], call, seconds(n, s.rates.peer));
  else if (to_device && from_device) carry_out(stream, nullptr, call, seconds(2 * n, s.rates.memory));
  else if (to_device) carry_out(stream, &s.down[link(to.device)], call, seconds(n, s.rates.to_device));
  else if (from_device) carry_out(stream, &s.up[link(from.device)], call, seconds(n, s.rates.to_host));
  if (to.kind == memory::Kind::pageable || from.kind == memory::Kind::pageable) host_waits(stream.time);
}

void follows(Stream& stream, double instant) {
  stream.time = std::max(stream.time, instant);
}
void host_waits(double instant) {
  if (runs() && instant > state().rates.now()) state().rates.wait_until(instant);
}
bool is_past(double instant) {
  return runs() && instant <= state().rates.now();
}

}  // namespace clock

void work(void* stream, double seconds) {
  if (!clock::runs()) return;
  const auto one = streams::find(static_cast<cudaStream_t>(stream), current_device());
  if (!one) return;
  clock::carry_out(*one, nullptr, "work", seconds);
}

std::vector<Interval> take_intervals() {
  return std::exchange(clock::state().intervals, {});
}

}  // namespace cuda_on_host
