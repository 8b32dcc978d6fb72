#include "exec/jobs.hpp"
#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>
#include "exec/backoff.hpp"

#include <optional>

namespace tacit::exec {

int team_size() {
  return threads();
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
  const auto parts = std::size_t(team_size());
  parallel_claims(parts, 1, true, [&](Claims& claims) {
    if (claims.thread() == 0) guarded(0);
    claims.each([&](std::size_t part) { part > 0 ? guarded(int(part)) : void(); });
  });
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
        for (std::optional<Backoff> idle(std::in_place); !jobs.taken();) {
          if (jobs.work()) idle.emplace();
          else idle->pause();
        }
      }
    } catch (...) {
      jobs.stop();
      throw;
    }
  });
}

}  // namespace tacit::exec
