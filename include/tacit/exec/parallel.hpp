// Loops whose iterations several threads share.
//
//   parallel_for(rows, rows > 2048, [&](std::size_t i) { y[i] = ...; });
//
// Every thread that begins such loops (one for each rank) has a team of helpers, which it starts with its first loop
// and which ends with it. Iterations are claimed, not assigned: the calling thread works on those whose helper has not
// come, so a helper that has no processor delays nobody before it has begun a piece. A helper without work watches for
// the next loop for a tenth of a millisecond and then sleeps. While other programs use the cores, loops take fewer
// threads (threads_now). Which thread does an iteration is left open, so results must not depend on it. A loop within a
// loop runs on one thread.
//
// In the child of a fork() teams are started anew: the parent's helpers do not exist there.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

namespace tacit::exec {

/// Processors that this process may use: those of its affinity mask, and no more than the limit of its control groups
/// (cpu.max, cpu.cfs_quota_us), rounded down; at least 1.
int cores() noexcept;

/// Threads that a loop begun by the calling thread may take: what set_threads() (or omp_set_num_threads()) has set on
/// this thread, else OMP_NUM_THREADS, else cores(). 1 within a loop or a parallel region. In builds without OpenMP: 1,
/// unless set_threads() says otherwise.
int threads() noexcept;
/// Of the calling thread. n >= 1.
void set_threads(int n) noexcept;
/// Threads that a loop begun now would have: threads(), or fewer while other programs use the cores.
int threads_now() noexcept;

namespace detail {
class Team;
struct Loop;
}  // namespace detail

/// The iterations of a loop that have not been taken, as one of its threads sees them.
class Claims {
 public:
  /// All of `count` at once.
  explicit Claims(std::size_t count) : count_(count) {}
  Claims(const Claims&) = delete;
  /// Takes the iterations [begin, end). False when none is left, or one has thrown.
  bool next(std::size_t& begin, std::size_t& end) {
    if (loop_) return take(begin, end);
    if (count_ == 0) return false;
    begin = 0, end = count_, count_ = 0;
    return true;
  }
  /// f(i) for iterations that it takes, until there is none left.
  template <class F>
  void each(F&& f) {
    for (std::size_t begin, end; next(begin, end);)
      for (std::size_t i = begin; i < end; ++i) f(i);
  }
  /// Number of this thread in the loop's team: 0 is the caller. No two that are at work have the same.
  int thread() const { return thread_; }

 private:
  friend class detail::Team;
  Claims(detail::Loop* loop, int thread) : loop_(loop), thread_(thread), queue_(thread) {}
  bool take(std::size_t& begin, std::size_t& end);
  detail::Loop* loop_ = nullptr;
  std::size_t count_ = 0;
  int thread_ = 0, queue_ = 0;
};

/// Iterations that a thread takes at once. by_shares: neighbouring ones go to one thread, and the same ones in every
/// loop of this length, as far as all threads come in time; a sixteenth of its share at once. Others: that many, in
/// their order.
inline constexpr std::size_t by_shares = 0;

namespace detail {
/// heed: fewer threads while other programs use the cores.
void run_loop(std::size_t count, std::size_t piece, void (*body)(void*, Claims&), void* of, bool heed = true);
/// True on a thread that helps others.
bool is_helper() noexcept;
/// For tests: after heed_load(false), until heed_load(true) has been called as often, teams ignore what other programs
/// do.
void heed_load(bool on) noexcept;
/// What control groups allow: the least limit of the groups named in `groups` (/proc/self/cgroup), mounted at `root`,
/// and of those around them, in processors; 0 where there is none.
double quota(const std::string& groups, const std::string& root);
}  // namespace detail

/// f(claims) once on each thread that takes part, the caller among them; f claims iterations until there is none left.
/// For loops with memory of their own for each thread. Where not `parallel`: on the caller alone. What an f throws is
/// thrown here, the first of all threads, when all have come back; no iteration is begun after that.
template <class F>
void parallel_claims(std::size_t count, std::size_t piece, bool parallel, F&& f) {
  using Function = std::remove_reference_t<F>;
  void (*const body)(void*, Claims&) = [](void* of, Claims& claims) { (*static_cast<Function*>(of))(claims); };
  void* const of = const_cast<void*>(static_cast<const void*>(&f));
  if (parallel && count > 1) return detail::run_loop(count, piece, body, of);
  Claims all(count);
  body(of, all);
}

/// f(0) on the calling thread, and f(t) on each other one of its threads() that comes before f(0) has returned. For
/// work of some length that its threads share in a way of their own: other programs are not heeded. Errors as above.
template <class F>
void parallel_team(F&& f) {
  auto body = [&f](Claims& claims) { f(claims.thread()); };
  using Body = decltype(body);
  detail::run_loop(
      std::size_t(threads()), 1, [](void* of, Claims& claims) { (*static_cast<Body*>(of))(claims); }, &body, false);
}

/// f(i) for i < count. As above.
template <class F>
void parallel_for(std::size_t count, bool parallel, F&& f, std::size_t piece = by_shares) {
  parallel_claims(count, piece, parallel, [&f](Claims& claims) { claims.each(f); });
}

}  // namespace tacit::exec
