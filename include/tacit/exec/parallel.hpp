// Loops shared by several threads.
//
//   parallel_for(rows, rows > 2048, [&](std::size_t i) { y[i] = ...; });
//
// Every thread that begins such loops (one for each rank) has a team of helper threads, started with its first loop and
// ended with the thread. Threads claim iterations dynamically, so a helper that gets no processor delays at most the
// piece that it has begun. A helper without work spins for 0.1 ms and then sleeps. While other programs use the cores,
// loops take fewer threads (threads_now). Any thread may do any iteration, so results must not depend on which one
// does. A loop within a loop runs on one thread.
// In the child of a fork() teams are started again, since the parent's helpers do not exist there.
#pragma once

#include <tacit/base/control_groups.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

namespace tacit::exec {

/// The number of processors that this process may use: those of its affinity mask, limited by its control groups
/// (cpu.max, cpu.cfs_quota_us), rounded down; at least 1.
int cores() noexcept;

/// The most threads of a loop begun by the calling thread: the number that set_threads() (or omp_set_num_threads()) has
/// set on this thread, else OMP_NUM_THREADS, else cores(). 1 within a loop or a parallel region. In builds without
/// OpenMP: 1, unless set_threads() was called.
int threads() noexcept;
/// Sets threads() of the calling thread; n >= 1.
void set_threads(int n) noexcept;
/// The threads of a loop begun now: threads(), or fewer while other programs use the cores.
int threads_now() noexcept;

namespace detail {
class Team;
struct Loop;
}  // namespace detail

/// The unclaimed iterations of a loop, as used by one of its threads.
class Claims {
 public:
  /// All `count` iterations in one claim.
  explicit Claims(std::size_t count) : count_(count) {}
  Claims(const Claims&) = delete;
  /// Claims the iterations [begin, end). False when none is left, or after an exception.
  bool next(std::size_t& begin, std::size_t& end) {
    if (loop_) return take(begin, end);
    if (count_ == 0) return false;
    begin = 0, end = count_, count_ = 0;
    return true;
  }
  /// Calls f(i) for claimed iterations until none is left.
  template <class F>
  void each(F&& f) {
    for (std::size_t begin, end; next(begin, end);)
      for (std::size_t i = begin; i < end; ++i) f(i);
  }
  /// The number of this thread in the loop's team, unique among those at work; 0 is the caller.
  int thread() const { return thread_; }

 private:
  friend class detail::Team;
  Claims(detail::Loop* loop, int thread) : loop_(loop), thread_(thread), queue_(thread) {}
  bool take(std::size_t& begin, std::size_t& end);
  detail::Loop* loop_ = nullptr;
  std::size_t count_ = 0;
  int thread_ = 0, queue_ = 0;
};

/// The number of iterations of one claim, in ascending order; by_shares: each thread first claims from its own
/// contiguous share, a sixteenth of it at a time, so that loops of one length have the same distribution as far as all
/// threads arrive in time.
inline constexpr std::size_t by_shares = 0;

namespace detail {
/// heed: take fewer threads while other programs use the cores.
void run_loop(std::size_t count, std::size_t piece, void (*body)(void*, Claims&), void* of, bool heed = true);
/// True on a thread that helps others.
bool is_helper() noexcept;
/// For tests: after heed_load(false), until heed_load(true) has been called as often, teams ignore the load by other
/// programs.
void heed_load(bool on) noexcept;
/// The limit of control groups in processors, the minimum over the groups of this process; 0 where there is none.
double quota(const ControlGroupFiles& files);
}  // namespace detail

/// Calls f(claims) once on each participating thread, including the caller; f claims iterations until none is left. For
/// loops that need memory for each thread. Unless `parallel`, only the caller takes part. The first exception of any
/// thread stops the loop and is rethrown when all threads have returned.
template <class F>
void parallel_claims(std::size_t count, std::size_t piece, bool parallel, F&& f) {
  using Function = std::remove_reference_t<F>;
  void (*const body)(void*, Claims&) = [](void* of, Claims& claims) { (*static_cast<Function*>(of))(claims); };
  void* const of = const_cast<void*>(static_cast<const void*>(&f));
  if (parallel && count > 1) return detail::run_loop(count, piece, body, of);
  Claims all(count);
  body(of, all);
}

/// Calls f(0) on the calling thread, and f(t) on each other of its threads() that arrives before f(0) has returned. For
/// longer work that the threads share by themselves; the load by other programs is ignored. Errors as above.
template <class F>
void parallel_team(F&& f) {
  auto body = [&f](Claims& claims) { f(claims.thread()); };
  using Body = decltype(body);
  detail::run_loop(
      std::size_t(threads()), 1, [](void* of, Claims& claims) { (*static_cast<Body*>(of))(claims); }, &body, false);
}

/// Calls f(i) for i < count. Errors as above.
template <class F>
void parallel_for(std::size_t count, bool parallel, F&& f, std::size_t piece = by_shares) {
  parallel_claims(count, piece, parallel, [&f](Claims& claims) { claims.each(f); });
}

}  // namespace tacit::exec
