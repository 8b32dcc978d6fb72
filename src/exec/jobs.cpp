#include <tacit/exec/caught.hpp>
#include <tacit/exec/jobs.hpp>
#include <tacit/exec/tasks.hpp>

#include <system_error>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::exec {

int team_size() {
  if (Tasks::executor() == Executor::threads) return 3;
#ifdef _OPENMP
  return omp_in_parallel() ? 1 : omp_get_max_threads();
#else
  return 1;
#endif
}

void run_team(const std::function<void(int)>& f) {
  Caught first, others;
  const auto guarded = [&](int thread) noexcept {
    try {
      f(thread);
    } catch (...) {
      (thread == 0 ? first : others).keep();
    }
  };
  if (Tasks::executor() == Executor::threads) {
    const int parts = team_size();
    std::vector<std::jthread> threads;
    threads.reserve(std::size_t(parts));
    int part = 1;
    try {
      for (; part < parts; ++part) threads.emplace_back([&guarded, part] { guarded(part); });
    } catch (const std::system_error&) {  // the system gives no more
    }
    guarded(0);
    for (; part < parts; ++part) guarded(part);
  } else {
#ifdef _OPENMP
    // OpenMP may give fewer threads than it said (thread limits, dynamic teams): all parts are done nevertheless.
    const int parts = team_size();
#pragma omp parallel num_threads(parts)
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) guarded(part);
#else
    guarded(0);
#endif
  }
  first.rethrow();
  others.rethrow();
}

int Jobs::add(std::size_t count, bool open, std::function<void(std::size_t)> body) {
  lists_.push_back(std::make_unique<List>(count, open, std::move(body)));
  return int(lists_.size()) - 1;
}

bool Jobs::work() {
  if (stopped_.load(std::memory_order_acquire)) return false;
  for (auto list = lists_.rbegin(); list != lists_.rend(); ++list) {
    List& l = **list;
    if (l.next.load(std::memory_order_relaxed) >= l.count || !l.open.load(std::memory_order_acquire)) continue;
    const std::size_t i = l.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= l.count) continue;
    l.body(i);
    return true;
  }
  return false;
}

bool Jobs::taken() const {
  if (stopped_.load(std::memory_order_acquire)) return true;
  for (const auto& l : lists_)
    if (l->next.load(std::memory_order_relaxed) < l->count) return false;
  return true;
}

void run_jobs(Jobs& jobs, const std::function<void(bool)>& watch) {
  run_team([&](int thread) {
    try {
      if (thread == 0) {
        bool worked = true;
        while (!jobs.taken()) {
          watch(!worked);
          worked = jobs.work();
        }
      } else {
        for (int idle = 0; !jobs.taken();) {
          if (jobs.work()) idle = 0;
          else if (++idle > 200) std::this_thread::yield();
        }
      }
    } catch (...) {
      jobs.stop();
      throw;
    }
  });
}

}  // namespace tacit::exec
