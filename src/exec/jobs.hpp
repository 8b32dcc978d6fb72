// Jobs: pieces of work that the threads of a rank take one by one; some become available only when their data has
// arrived.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace tacit::exec {

/// The number of parts of run_team(): threads().
int team_size();
/// Runs f(0) on the calling thread and f(1) to f(team_size() - 1) on other threads of its team; the part of a thread
/// that is late is done by another one, after its own. So parts may wait for f(0), which begins first, and for no
/// other. An exception is rethrown when all have returned, that of f(0) before others; a part that others wait for must
/// release them before it throws.
void run_team(const std::function<void(int thread)>& f);

/// Jobs in lists. Thread-safe.
class Jobs {
 public:
  /// Adds a list of `count` jobs; body(i) may run on any thread. Unless `open`, its jobs wait for open(). Returns the
  /// list's number. To be called before the work begins.
  int add(std::size_t count, bool open, std::function<void(std::size_t)> body);
  /// Makes the jobs of a list available; they see what this thread has written.
  void open(int list) { lists_[std::size_t(list)]->open.store(true, std::memory_order_release); }
  /// No more jobs are taken, after an error.
  void stop() { stopped_.store(true, std::memory_order_release); }
  /// Does one job of the last open list that has one left (so that lists that had to wait come first). False when none
  /// is available now.
  bool work();
  /// True once all jobs have been taken, or after stop().
  bool taken() const;

 private:
  struct List {
    std::size_t count;
    std::function<void(std::size_t)> body;
    std::atomic<std::size_t> next{0};
    std::atomic<bool> open;
    List(std::size_t n, bool o, std::function<void(std::size_t)> b) : count(n), body(std::move(b)), open(o) {}
  };
  std::vector<std::unique_ptr<List>> lists_;
  std::atomic<bool> stopped_{false};
};

/// The whole team works until all jobs are done. Thread 0 calls watch(idle) between its jobs, which may open lists;
/// where `idle`, no job is available, so that watch may wait. An exception of a job or of watch stops the jobs and is
/// rethrown when all have returned.
void run_jobs(Jobs& jobs, const std::function<void(bool idle)>& watch);

}  // namespace tacit::exec
