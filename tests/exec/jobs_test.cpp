// Teams and jobs.
#include "exec/jobs.hpp"
#include <gtest/gtest.h>

#include "support/threads.hpp"

#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

using namespace tacit;
using test::Threads;

namespace {

void expect_every_part() {
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(exec::team_size()));
  exec::run_team([&](int part) { ++done[std::size_t(part)]; });
  for (const auto& d : done) EXPECT_EQ(d, 1);
  for (int culprit = 0; culprit < exec::team_size(); ++culprit)
    EXPECT_THROW(exec::run_team([&](int part) {
                   if (part == culprit) throw std::runtime_error("one part");
                 }),
                 std::runtime_error);
  // The exception of part 0 is preferred: that part communicates with other ranks.
  try {
    exec::run_team([](int part) { throw std::runtime_error(part == 0 ? "part 0" : "another"); });
    ADD_FAILURE();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "part 0");
  }
}

/// A job on any thread, or the watcher, throws: no further job begins, and the team works afterwards.
void expect_errors_of_jobs() {
  for (const bool watcher : {false, true}) {
    exec::Jobs jobs;
    jobs.add(50, true, [&](std::size_t i) {
      if (i == 20 && !watcher) throw std::bad_alloc();
    });
    const int later = jobs.add(7, false, [](std::size_t) { ADD_FAILURE() << "was not opened"; });
    (void)later;
    EXPECT_THROW(exec::run_jobs(jobs, [&](bool) { watcher ? throw std::bad_alloc() : void(); }), std::bad_alloc);
  }
  exec::Jobs jobs;
  std::atomic<int> done = 0;
  jobs.add(50, true, [&](std::size_t) { ++done; });
  exec::run_jobs(jobs, [](bool) {});
  EXPECT_EQ(done, 50);
}

TEST(Team, DoesEveryPart) {
  expect_every_part();
  expect_errors_of_jobs();
  const Threads team(3);
  expect_every_part();
  expect_errors_of_jobs();
}

TEST(Team, ListsThatTheFirstThreadOpensAreDone) {
  for (const int threads : {1, 2, 5}) {
    const Threads team(threads);
    EXPECT_EQ(exec::team_size(), threads);
    expect_every_part();
    exec::Jobs jobs;
    std::atomic<int> done = 0;
    const int later = jobs.add(7, false, [&](std::size_t) { ++done; });
    jobs.add(30, true, [&](std::size_t) { ++done; });
    exec::run_jobs(jobs, [&](bool) { jobs.open(later); });
    EXPECT_EQ(done, 37);
    expect_errors_of_jobs();
  }
}

}  // namespace
