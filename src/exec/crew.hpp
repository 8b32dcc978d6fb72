// The threads of a team that take pieces of work under one lock; used by tasks and branches.
#pragma once

#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>
#include "exec/backoff.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include <time.h>

namespace tacit::exec::detail {

/// A condition that threads wait for, and that is announced under the lock.
class Gate {
 public:
  using Lock = std::unique_lock<std::mutex>;
  /// With the lock held.
  void announce(bool to_all) {
    news_.fetch_add(1, std::memory_order_release);
    if (sleepers_ == 0) return;
    if (to_all) changed_.notify_all();
    else changed_.notify_one();
  }
  /// Waits for the next announcement, with the lock released. Spins and yields for 0.1 ms, then sleeps; true if it
  /// slept.
  bool wait(Lock& lock) {
    using namespace std::chrono_literals;
    const std::uint32_t seen = news_.load(std::memory_order_relaxed);
    const auto same = [&] { return news_.load(std::memory_order_acquire) == seen; };
    lock.unlock();
    const auto begin = Clock::now();
    do {
      for (int i = 0; i < 64 && same(); ++i) relax_processor();
      if (same()) std::this_thread::yield();
    } while (same() && Clock::now() - begin < 100us);
    lock.lock();
    if (!same()) return false;
    ++sleepers_;
    changed_.wait(lock, [&] { return !same(); });
    --sleepers_;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<std::uint32_t> news_{0};
  int sleepers_ = 0;
  std::condition_variable changed_;
};

/// Detects that other programs use this thread's processor. The thread then takes no work for a while, which the rest
/// of the team does sooner; the pause grows each time that it happens soon again.
class Disturbance {
 public:
  /// Called after each piece of work; returns how long to take none.
  std::chrono::nanoseconds rest() {
    using namespace std::chrono_literals;
    const auto now = Clock::now();
    const auto took = now - last_;
    last_ = now;
    if (took < threshold) return {};
    const auto lost = now - begin_ - (processor_time() - had_);
    forget();
    if (lost < threshold) return {};
    rest_ = now - rested_ < 8 * rest_ ? std::min<std::chrono::nanoseconds>(2 * rest_, 160ms) : 10ms;
    rested_ = now + rest_;
    return rest_;
  }
  /// Ignores the processor time missed up to now, after sleeping.
  void forget() { last_ = begin_ = Clock::now(), had_ = processor_time(); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds threshold{300};
  static std::chrono::nanoseconds processor_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }
  Clock::time_point last_ = Clock::now(), begin_ = last_, rested_{};
  std::chrono::nanoseconds had_ = processor_time(), rest_ = std::chrono::milliseconds(10);
};

struct Crew {
  using Lock = Gate::Lock;
  std::mutex mutex;
  Gate work;  // there is work, or the end

  /// Runs f() on the calling thread while the others of its team do pieces: take(lock) does one with the lock released,
  /// and returns whether there was one. An exception of f is rethrown when all have returned.
  template <class F, class Take>
  void run(F&& f, Take&& take) {
    Caught caught;
    parallel_team([&](int thread) {
      if (thread > 0) return help(take);
      caught(f);
      const Lock lock(mutex);
      over_ = true;
      work.announce(true);
      ended_.notify_all();
    });
    caught.rethrow();
  }

 private:
  template <class Take>
  void help(Take&& take) {
    Disturbance disturbance;
    for (Lock lock(mutex); !over_;) {
      if (!take(lock)) {
        if (work.wait(lock)) disturbance.forget();
      } else if (const auto rest = disturbance.rest(); rest.count() > 0) {
        // Pass on an announcement that this thread does not use.
        work.announce(false);
        ended_.wait_for(lock, rest, [&] { return over_; });
        disturbance.forget();
      }
    }
  }
  bool over_ = false;
  std::condition_variable ended_;
};

}  // namespace tacit::exec::detail
