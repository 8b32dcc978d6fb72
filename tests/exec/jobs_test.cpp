// Teams and jobs.
#include <gtest/gtest.h>
#include <tacit/exec/jobs.hpp>

#include <atomic>
#include <stdexcept>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace tacit;

namespace {

void expect_every_part() {
  std::vector<std::atomic<int>> done(std::size_t(exec::team_size()));
  exec::run_team([&](int part) { ++done[std::size_t(part)]; });
  for (const auto& d : done) EXPECT_EQ(d, 1);
  EXPECT_THROW(exec::run_team([](int part) {
                 if (part == 0) throw std::runtime_error("part 0");
               }),
               std::runtime_error);
}

TEST(Team, DoesEveryPart) {
  expect_every_part();
}

#ifdef _OPENMP
void with_fewer_threads() {
  omp_set_num_threads(5);
  int given = 0;
#pragma omp parallel
#pragma omp single
  given = omp_get_num_threads();
  EXPECT_LT(given, 5);
  EXPECT_EQ(exec::team_size(), 5);
  expect_every_part();
  // A list that thread 0 opens.
  exec::Jobs jobs;
  std::atomic<int> done = 0;
  const int later = jobs.add(7, false, [&](std::size_t) { ++done; });
  jobs.add(30, true, [&](std::size_t) { ++done; });
  exec::run_jobs(jobs, [&](bool) { jobs.open(later); });
  EXPECT_EQ(done, 37);
}

TEST(Team, DoesEveryPartWithFewerThreadsThanPromised) {
  const int before = omp_get_max_threads();
#pragma omp teams num_teams(1) thread_limit(2)
  with_fewer_threads();
  omp_set_num_threads(before);
}
#endif

}  // namespace
