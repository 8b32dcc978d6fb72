// Jobs: pieces of work that the threads of a rank take one by one, some of them only when what they need has come.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace tacit::exec {

/// Parts that run_team() will have: threads().
int team_size();
/// f(0) on the calling thread and f(1) to f(team_size() - 1) on the others of its team, as they come: who does not come
/// in time has its part done by another thread, in turn. So f may wait for f(0), which the calling thread begins with,
/// and for no other. What an f throws is thrown when all have come back, that of f(0) before others; they are not told
/// of it, so an f that others wait for has to let them go.
void run_team(const std::function<void(int thread)>& f);

/// Jobs in lists. Thread-safe.
class Jobs {
 public:
  /// `count` jobs; body(i) may run on any thread. A list that is not open waits for open(). Returns its number.
  /// Lists are added before the work begins.
  int add(std::size_t count, bool open, std::function<void(std::size_t)> body);
  /// From now on jobs of this list may be taken; they see what this thread has written.
  void open(int list) { lists_[std::size_t(list)]->open.store(true, std::memory_order_release); }
  /// Nobody takes another job: something has gone wrong.
  void stop() { stopped_.store(true, std::memory_order_release); }
  /// Takes one job, of the last list that is open and has one left (those that had to wait come first), and does it.
  /// False when there is none to be had now.
  bool work();
  /// True once all jobs have been taken, or it was stopped.
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

/// The whole team works until all jobs are taken and done. Thread 0 calls watch(idle) between its jobs, which opens
/// lists: `idle` says that there is nothing else for it to do, so that it may wait. What a job or watch throws stops
/// the jobs and is thrown when all have come back.
void run_jobs(Jobs& jobs, const std::function<void(bool idle)>& watch);

}  // namespace tacit::exec
