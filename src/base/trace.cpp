#include <tacit/base/trace.hpp>
#include <tacit/base/virtual_clock.hpp>
#include "base/forks.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

namespace tacit {

std::atomic<int> Trace::on_{0};

namespace {
std::mutex record_mutex;
[[maybe_unused]] const int held_over_forks = hold_over_forks<+[]() -> std::mutex& { return record_mutex; }>();
std::vector<Trace::Event> recorded;
std::atomic<int> threads_seen{0};
thread_local int this_rank = 0;
thread_local int this_thread = -1;
thread_local VirtualClock* this_clock = nullptr;
}  // namespace

double wall_time() noexcept {
  if (Trace::on() && this_clock) [[unlikely]]
    return this_clock->now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

VirtualClock* virtual_clock() noexcept {
  return this_clock;
}

void note_iteration() {
  if (auto* const clock = dynamic_cast<IterationClock*>(this_clock)) clock->iteration();
}

void Trace::use(VirtualClock* clock) noexcept {
  if (!clock != !this_clock) on_.fetch_add(clock ? 2 : -2);
  this_clock = clock;
}
void Trace::advance_clock(const char* name, double bytes, double flops) {
  if (this_clock) this_clock->work(name, bytes, flops);
}
void Trace::finish(const Event& event, double flops) {
  if (this_clock && std::strcmp(event.category, "exec") == 0) this_clock->work(event.name, double(event.bytes), flops);
  Event done = event;
  done.end = wall_time();
  record(done);
}

void Trace::start() {
  on_.fetch_or(1);
}
void Trace::stop() {
  on_.fetch_and(~1);
}
void Trace::record(const Event& event) {
  if ((on_.load(std::memory_order_relaxed) & 1) == 0) return;
  std::lock_guard lock(record_mutex);
  recorded.push_back(event);
}
std::vector<Trace::Event> Trace::take() {
  std::lock_guard lock(record_mutex);
  return std::exchange(recorded, {});
}
void Trace::set_rank(int rank) noexcept {
  this_rank = rank;
}
int Trace::rank() noexcept {
  return this_rank;
}
int Trace::thread() noexcept {
  if (this_thread < 0) this_thread = threads_seen.fetch_add(1);
  return this_thread;
}

std::string to_chrome_json(const std::vector<Trace::Event>& events, double origin) {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  char line[256];
  bool first = true;
  for (const auto& e : events) {
    std::snprintf(line, sizeof line,
                  "%s{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,"
                  "\"args\":{\"bytes\":%lld}}",
                  first ? "\n" : ",\n", e.name, e.category, (e.begin - origin) * 1e6, (e.end - e.begin) * 1e6, e.rank,
                  e.thread, static_cast<long long>(e.bytes));
    json += line;
    first = false;
  }
  return json + "\n]}\n";
}

void Span::finish() const {
  Trace::finish({name_, category_, begin_, 0, Trace::rank(), Trace::thread(), bytes_}, flops_);
}

}  // namespace tacit
