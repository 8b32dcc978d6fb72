// Trace: what ran when, as Chrome/Perfetto JSON. Off costs one relaxed load per span.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tacit {

/// Seconds on the monotonic clock.
double wall_time() noexcept;

class Trace {
 public:
  struct Event {
    const char* name;      // static storage
    const char* category;  // floor: "exec", "comm", "op", "krylov", ...
    double begin, end;     // seconds on the monotonic clock
    int rank;
    int thread;
    std::int64_t bytes;    // memory traffic or message size; 0 when it means nothing
  };

  static void start();
  static void stop();
  static bool on() noexcept { return on_.load(std::memory_order_relaxed); }
  static void record(const Event& event);
  /// Events recorded so far in this process, in order of their end; clears the record.
  static std::vector<Event> take();
  /// The rank shown for events of the calling thread (ranks may be threads of one process).
  static void set_rank(int rank) noexcept;
  static int rank() noexcept;
  static int thread() noexcept;

 private:
  static std::atomic<bool> on_;
};

/// Events as Chrome trace JSON (one process per rank), times in microseconds from `origin`.
std::string to_chrome_json(const std::vector<Trace::Event>& events, double origin);

/// Records the time from construction to destruction.
class Span {
 public:
  explicit Span(const char* name, const char* category, std::int64_t bytes = 0)
      : name_(name), category_(category), bytes_(bytes), begin_(Trace::on() ? wall_time() : -1) {}
  ~Span() {
    if (begin_ >= 0) Trace::record({name_, category_, begin_, wall_time(), Trace::rank(), Trace::thread(), bytes_});
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const char* name_;
  const char* category_;
  std::int64_t bytes_;
  double begin_;
};

}  // namespace tacit
