// Trace: what ran when, as Chrome/Perfetto JSON. Off costs one relaxed load per span.
//
// What a kernel declares (the bytes it moves, the operations it does) also drives a virtual clock (of a simulated rank,
// say): on its thread wall_time() is that clock, and a kernel takes what its declaration says.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tacit {

/// Seconds on the monotonic clock; on a thread with a VirtualClock, on that.
double wall_time() noexcept;

/// A clock that goes on by what it is told and not by itself.
class VirtualClock {
 public:
  virtual ~VirtualClock() = default;
  virtual double now() const noexcept = 0;
  /// Bytes a second at which it takes kernels to read memory; 0: that takes no time.
  virtual double bandwidth() const noexcept { return 0; }
  /// So much has been done. `name`: static storage.
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
    std::int64_t bytes;  // memory traffic or message size; 0 when it means nothing
  };

  static void start();
  static void stop();
  /// Whether anybody wants to know what kernels move: a record, or a virtual clock.
  static bool on() noexcept { return on_.load(std::memory_order_relaxed) != 0; }
  static void record(const Event& event);
  /// For kernels whose span has other things in it than work (spans of the category "exec" have not, and declare it by
  /// themselves): goes to this thread's virtual clock, if there is one. Not recorded.
  static void work(const char* name, double bytes, double flops = 0) {
    if (on()) [[unlikely]]
      tell_clock(name, bytes, flops);
  }
  /// This thread's clock from now on; null: the machine's. While any is set, on() is true.
  static void use(VirtualClock* clock) noexcept;
  /// Events recorded so far in this process, in order of their end; clears the record.
  static std::vector<Event> take();
  /// The rank shown for events of the calling thread (ranks may be threads of one process).
  static void set_rank(int rank) noexcept;
  static int rank() noexcept;
  static int thread() noexcept;

 private:
  friend class Span;
  static void tell_clock(const char* name, double bytes, double flops);
  static void finish(const Event& event, double flops);
  static std::atomic<int> on_;  // bit 0: recording; the rest: threads with a virtual clock
};

/// Events as Chrome trace JSON (one process per rank), times in microseconds from `origin`.
std::string to_chrome_json(const std::vector<Trace::Event>& events, double origin);

/// Records the time from construction to destruction. One of the category "exec" is a kernel: its bytes and operations
/// are what it does.
class Span {
 public:
  explicit Span(const char* name, const char* category, std::int64_t bytes = 0, double flops = 0)
      : name_(name), category_(category), bytes_(bytes), flops_(flops), begin_(Trace::on() ? wall_time() : -1) {}
  ~Span() {
    if (begin_ >= 0) Trace::finish({name_, category_, begin_, 0, Trace::rank(), Trace::thread(), bytes_}, flops_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const char* name_;
  const char* category_;
  std::int64_t bytes_;
  double flops_;
  double begin_;
};

}  // namespace tacit
