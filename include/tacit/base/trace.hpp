// Trace: records the spans of kernels and calls as Chrome/Perfetto JSON. Switched off it costs one relaxed load per
// span.
//
// The bytes and operations that kernels declare also advance a virtual clock where the thread has one (a simulated
// rank, say); wall_time() then returns that clock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tacit {

/// Seconds on the monotonic clock, or on the thread's VirtualClock.
double wall_time() noexcept;

/// A clock that advances by declared work instead of real time.
class VirtualClock {
 public:
  virtual ~VirtualClock() = default;
  virtual double now() const noexcept = 0;
  /// The memory bandwidth that it assumes, in bytes per second; 0: memory traffic takes no time.
  virtual double bandwidth() const noexcept { return 0; }
  /// Advances by the given work. `name`: static storage.
  virtual void work(const char* name, double bytes, double flops) = 0;
};

class Trace {
 public:
  struct Event {
    const char* name;      // static storage
    const char* category;  // floor: "exec", "comm", "op", "krylov", ...
    double begin, end;     // seconds on the monotonic clock
    int rank;
    int thread;
    std::int64_t bytes;  // memory traffic or message size; 0 where not applicable
  };

  static void start();
  static void stop();
  /// Whether kernels have to declare their work: for a recording or a virtual clock.
  static bool on() noexcept { return on_.load(std::memory_order_relaxed) != 0; }
  static void record(const Event& event);
  /// Declares work to this thread's virtual clock, if any, for kernels whose span also contains waiting (spans of the
  /// category "exec" do not, and declare their work themselves). Not recorded.
  static void work(const char* name, double bytes, double flops = 0) {
    if (on()) [[unlikely]]
      advance_clock(name, bytes, flops);
  }
  /// Sets this thread's clock; null: the machine's. While any thread has one, on() is true.
  static void use(VirtualClock* clock) noexcept;
  /// Events recorded so far in this process, in order of their end; clears the record.
  static std::vector<Event> take();
  /// The rank shown for events of the calling thread (ranks may be threads of one process).
  static void set_rank(int rank) noexcept;
  static int rank() noexcept;
  static int thread() noexcept;

 private:
  friend class Span;
  static void advance_clock(const char* name, double bytes, double flops);
  static void finish(const Event& event, double flops);
  static std::atomic<int> on_;  // bit 0: recording; the rest: threads with a virtual clock
};

/// Events as Chrome trace JSON (one process per rank), times in microseconds from `origin`.
std::string to_chrome_json(const std::vector<Trace::Event>& events, double origin);

/// Records the time from construction to destruction. A span of the category "exec" is a kernel, which declares its
/// bytes and operations.
class Span {
 public:
  explicit Span(const char* name, const char* category, std::int64_t bytes = 0, double flops = 0)
      : name_(name), category_(category), bytes_(bytes), flops_(flops), begin_(Trace::on() ? wall_time() : -1) {}
  ~Span() {
    if (begin_ >= 0) [[unlikely]]
      finish();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void finish() const;
  const char* name_;
  const char* category_;
  std::int64_t bytes_;
  double flops_;
  double begin_;
};

}  // namespace tacit
