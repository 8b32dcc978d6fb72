// Loops shared by threads.
#include <gtest/gtest.h>
#include <tacit/base/sanitizers.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include "exec/branches.hpp"

#include "support/threads.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace tacit::test {
namespace {

using namespace std::chrono_literals;
using exec::Claims;
using exec::parallel_claims;
using exec::parallel_for;

/// Waits until the condition, which another thread fulfils, holds; false after a minute.
template <class Condition>
bool comes(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A loop whose n iterations end only if n threads run them at the same time.
void expect_all_at_once(int n) {
  std::atomic<int> here = 0;
  parallel_for(
      std::size_t(n), true,
      [&](std::size_t) {
        ++here;
        EXPECT_TRUE(comes([&] { return here == n; }));
      },
      1);
  EXPECT_EQ(here, n);
}

TEST(ParallelFor, DoesEveryIterationOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    const Threads team(threads);
    for (const std::size_t count : {0, 1, 2, 6, 7, 100, 1000})
      for (const std::size_t piece : {exec::by_shares, std::size_t(1), std::size_t(64)}) {
        std::vector<std::atomic<int>> done(count);
        parallel_for(
            count, true, [&](std::size_t i) { ++done[i]; }, piece);
        for (const auto& d : done) EXPECT_EQ(d, 1);
        parallel_for(
            count, false, [&](std::size_t i) { ++done[i]; }, piece);
        for (const auto& d : done) EXPECT_EQ(d, 2);
      }
  }
}

TEST(ParallelFor, TakesAsManyThreadsAsWereSet) {
  for (const int threads : {2, 4, 3}) {
    const Threads team(threads);
    EXPECT_EQ(exec::threads(), threads);
    for (int again = 0; again < 20; ++again) expect_all_at_once(threads);
    std::this_thread::sleep_for(2ms);  // by then the helper threads sleep
    expect_all_at_once(threads);
  }
}

TEST(ParallelFor, ThreadsOfALoopHaveDifferentNumbers) {
  const Threads team(4);
  for (int again = 0; again < 200; ++again) {
    std::vector<std::atomic<int>> at(4);
    parallel_claims(100, 1, true, [&](Claims& claims) {
      ASSERT_LT(claims.thread(), 4);
      EXPECT_EQ(++at[std::size_t(claims.thread())], 1);
      claims.each([](std::size_t) {});
      --at[std::size_t(claims.thread())];
    });
  }
}

TEST(ParallelFor, LoopsWithinLoopsRunOnOneThread) {
  const Threads team(3);
  std::atomic<int> done = 0;
  parallel_for(50, true, [&](std::size_t) {
    EXPECT_EQ(exec::threads(), 1);
    const auto here = std::this_thread::get_id();
    parallel_for(20, true, [&](std::size_t) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      ++done;
    });
  });
  EXPECT_EQ(done, 1000);
  EXPECT_EQ(exec::threads(), 3);
}

TEST(ParallelFor, RethrowsTheErrorOfAnyThread) {
  const Threads team(3);
  for (int culprit = 0; culprit < 3; ++culprit) {
    std::atomic<int> here = 0;
    const auto fail = [&] {
      parallel_claims(3, 1, true, [&](Claims& claims) {
        ++here;
        EXPECT_TRUE(comes([&] { return here == 3; }));
        if (claims.thread() == culprit) throw std::runtime_error("thread " + std::to_string(culprit));
      });
    };
    try {
      fail();
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), "thread " + std::to_string(culprit));
    }
    std::atomic<int> done = 0;
    parallel_for(1000, true, [&](std::size_t) { ++done; });
    EXPECT_EQ(done, 1000);
  }
  // After an exception no iteration begins, except those that other threads have already taken.
  std::atomic<int> begun = 0;
  EXPECT_THROW(parallel_for(
                   100000, true, [&](std::size_t i) { i == 0 ? throw std::bad_alloc() : ++begun, void(); }, 1),
               std::bad_alloc);
  EXPECT_LT(begun, 100000);
}

TEST(ParallelFor, WritesAreSeenByTheCallerAndTheNextLoop) {
  const Threads team(3);
  std::vector<long> v(4000, 0);
  long expected = 0;
  for (int again = 0; again < 3000; ++again) {
    const std::size_t n = 1 + std::size_t(again) * 37 % v.size();
    parallel_for(n, true, [&](std::size_t i) { v[n - 1 - i] += long(i); });
    expected += long(n) * long(n - 1) / 2;
  }
  EXPECT_EQ(std::accumulate(v.begin(), v.end(), 0L), expected);
}

TEST(ParallelFor, RanksHaveTeamsOfTheirOwn) {
  for (int again = 0; again < 3; ++again)  // a team ends with the thread that owns it
    comm::run_threads(3, [](const comm::Communicator& comm) {
      const Threads team(2 + comm.rank() % 2);
      std::vector<Global> part(1000);
      for (int loop = 0; loop < 300; ++loop) {
        parallel_for(part.size(), true, [&](std::size_t i) { part[i] = Global(i) * (comm.rank() + 1); });
        if (loop % 100 == 0) {
          const Global sum = std::accumulate(part.begin(), part.end(), Global(0));
          EXPECT_EQ(comm.all_sum(sum), 6 * 999 * 1000 / 2);
        }
      }
      expect_all_at_once(2 + comm.rank() % 2);
    });
}

/// The sum of the integers in [begin, end), computed by recursive halving.
long divided_sum(long begin, long end, long culprit = -1) {
  if (end - begin == 1) {
    if (begin == culprit) throw std::runtime_error("leaf " + std::to_string(begin));
    return begin;
  }
  long a = 0, b = 0;
  const long middle = begin + (end - begin) / 2;
  exec::both([&] { a = divided_sum(begin, middle, culprit); }, [&] { b = divided_sum(middle, end, culprit); });
  return a + b;
}

TEST(Branches, SumsAreCorrectOnAnyTeam) {
  EXPECT_EQ(divided_sum(0, 100), 4950);  // outside of branching(): one thread
  for (const int threads : {1, 2, 3, 7}) {
    const Threads team(threads);
    for (const long n : {1, 2, 100, 5000}) {
      long sum = 0;
      exec::branching(true, [&] { sum = divided_sum(0, n); });
      EXPECT_EQ(sum, n * (n - 1) / 2);
    }
    for (const long culprit : {0, 77, 999})
      EXPECT_THROW(exec::branching(true, [&] { divided_sum(0, 1000, culprit); }), std::runtime_error);
  }
}

/// Branches, and tasks, that end only if n threads run them at the same time.
void expect_branches_at_once(int n) {
  std::atomic<int> here = 0;
  const auto come = [&] {
    ++here;
    EXPECT_TRUE(comes([&] { return here == n; }));
  };
  const auto divide = [&](const auto& self, int parts) -> void {
    if (parts == 1) come();
    else exec::both([&] { self(self, parts / 2); }, [&] { self(self, parts - parts / 2); });
  };
  exec::branching(true, [&] { divide(divide, n); });
  EXPECT_EQ(here, n);
}
void expect_tasks_at_once(int n) {
  std::atomic<int> here = 0;
  exec::Tasks::run(
      [&] {
        for (int i = 0; i < n; ++i)
          exec::Tasks::current()->start("come", {}, {}, false, [&] {
            ++here;
            EXPECT_TRUE(comes([&] { return here == n; }));
          });
      },
      nullptr);
  EXPECT_EQ(here, n);
}

TEST(Branches, RunAtTheSameTime) {
  for (const int threads : {2, 4, 3}) {
    const Threads team(threads);
    for (int again = 0; again < 20; ++again) expect_branches_at_once(threads), expect_tasks_at_once(threads);
  }
}

#ifndef TACIT_THREAD_SANITIZER  // it gives up where a child of several threads begins another
/// Calls f() in a forked child, which exits with 0 if nothing failed there.
template <class F>
void expect_in_child(F&& f) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(120);
    int code = 1;
    try {
      f();
      code = ::testing::Test::HasFailure() ? 1 : 0;
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ParallelFor, WorksInTheChildOfAFork) {
  const Threads team(3);
  expect_all_at_once(3);
  expect_branches_at_once(3);
  expect_tasks_at_once(3);
  expect_in_child([] {
    expect_all_at_once(3);
    expect_in_child([] { expect_all_at_once(3); });
    expect_all_at_once(3);
    expect_branches_at_once(3);
    expect_tasks_at_once(3);
  });
  expect_all_at_once(3);
  // From a thread that has run no loop yet, and from within a loop.
  std::thread([] {
    expect_in_child([] {
      const Threads own(2);
      expect_all_at_once(2);
    });
  }).join();
  parallel_for(1, false, [](std::size_t) { expect_in_child([] { expect_all_at_once(3); }); });
}
#endif

/// Load: two spinning processes for each processor.
class Load {
 public:
  Load() {
    for (long i = 0; i < 2 * sysconf(_SC_NPROCESSORS_ONLN); ++i) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(300);
        for (std::atomic<unsigned> spins{0};;) ++spins;
      }
      children_.push_back(child);
    }
  }
  Load(const Load&) = delete;
  ~Load() {
    for (const pid_t child : children_) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  }

 private:
  std::vector<pid_t> children_;
};

TEST(ParallelFor, DoesNotWaitForThreadsWithoutAProcessor) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> v(20000, 1.0);
  const auto seconds = [&](int threads) {
    exec::set_threads(threads);
    const auto begin = Clock::now();
    for (int loop = 0; loop < 2000; ++loop)
      parallel_for(20, true, [&](std::size_t c) {
        for (std::size_t i = 1000 * c; i < 1000 * (c + 1); ++i) v[i] = 0.5 * v[i] + 0.25;
      });
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const int before = exec::threads();
  seconds(2);
  const Load load;
  // The scheduling is up to the system: best of several alternating runs.
  double one = 1e9, two = 1e9;
  for (int again = 0; again < 7; ++again) one = std::min(one, seconds(1)), two = std::min(two, seconds(2));
  exec::set_threads(before);
  EXPECT_LT(two, 3 * one);
}

TEST(Quota, IsTheMinimumOfNestedGroups) {
  namespace fs = std::filesystem;
  char name[] = "/tmp/tacit-quota-XXXXXX";
  const fs::path root = mkdtemp(name);
  const auto write = [&](const fs::path& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  const auto quota = [&](const std::string& groups) {
    write("groups", groups);
    return exec::detail::quota({(root / "groups").string(), root.string()});
  };
  EXPECT_EQ(quota("0::/\n"), 0);
  EXPECT_EQ(quota(""), 0);
  EXPECT_EQ(quota("no group\n0:\n"), 0);
  write("cpu.max", "350000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 3.5);
  write("a/cpu.max", "max 100000\n");
  write("a/b/cpu.max", "600000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 3.5);
  write("a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  EXPECT_EQ(quota("0::/a\n"), 3.5);
  EXPECT_EQ(quota("0::/of/another/container\n"), 3.5);
  // Version 1 of control groups.
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("3:cpuset:/\n4:cpu,cpuacct:/job\n"), 2.5);
  EXPECT_EQ(quota("4:cpu,cpuacct:/\n"), 0);
  EXPECT_EQ(quota("4:cpu,cpuacct:/job\n0::/a/b\n"), 1.5);
  fs::remove_all(root);
}

TEST(Cores, AreAtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(exec::cores(), 1);
  EXPECT_LE(exec::cores(), sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace
}  // namespace tacit::test
