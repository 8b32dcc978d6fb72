#include "support/communicators.hpp"

#include <tacit/base/free_memory.hpp>
#include <tacit/model/machine.hpp>
#include <tacit/model/memory.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::test {
namespace {

TEST(Machine, IsMeasuredOnceAndTheSameOnAllRanks) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto first = model::measure(comm);
        EXPECT_GT(first.bandwidth, 1e8);
        EXPECT_LT(first.bandwidth, 1e13);
        EXPECT_GT(first.sum_latency, 0);
        EXPECT_LT(first.sum_latency, 10);
        for (const double b : comm.all_gather(first.bandwidth)) EXPECT_EQ(b, first.bandwidth);
        for (const double s : comm.all_gather(first.sum_latency)) EXPECT_EQ(s, first.sum_latency);
        const auto before = comm.counters().reductions;
        const auto again = model::measure(comm);
        EXPECT_EQ(again.bandwidth, first.bandwidth);
        EXPECT_EQ(comm.counters().reductions, before);
      },
      {1, 2, 3});
}

// CPU time of this thread: other processes matter only by the bandwidth that they use.
double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
double process_seconds() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}
// "VmRSS" (current) or "VmHWM" (peak) memory of this process, in bytes.
double resident(const std::string& which) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(which + ":", 0) == 0) return 1024 * std::stod(line.substr(which.size() + 1));
  return 0;
}

// A copy of one half of the memory to the other reads half of what the reader reads. A reader of the same bandwidth
// therefore takes at most twice as long (less where writing costs time). If it is several times faster than the copy,
// it reads from a cache. On one rank: several share the bandwidth unequally.
TEST(Memory, IsReadAtLeastAsFastAsACopyReadsIt) {
  if (under_mpi()) GTEST_SKIP() << "measured on one rank";
#ifdef _OPENMP
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
#endif
  const model::MemoryReader memory(model::beyond_caches(1, 1));
  std::vector<char> from(memory.bytes() / 2, 1), to(memory.bytes() / 2, 2);
  double reading = 1e9, copying = 1e9;
  for (int turn = 0; turn < 9; ++turn) {
    double begin = thread_seconds();
    EXPECT_EQ(memory.read(), 0.0);
    reading = std::min(reading, thread_seconds() - begin);
    begin = thread_seconds();
    std::memcpy(to.data(), from.data(), to.size());
    copying = std::min(copying, thread_seconds() - begin);
  }
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
  EXPECT_EQ(to.back(), 1);
  // A tolerance of a factor 3 for other processes, which may slow down one of the two loops only.
  RecordProperty("read_GB_per_s", std::to_string(1e-9 * double(memory.bytes()) / reading));
  EXPECT_LT(reading, 3 * 2 * copying);
  EXPECT_GT(reading, copying / 8);
}

TEST(Memory, ArraysAreLargerThanTheCachesThatTheirReadersShare) {
  const auto cache = model::last_level_cache();
  if (cache.bytes == 0) GTEST_SKIP() << "the system does not tell of its caches";
  const std::size_t free = least_memory_limit().free;
  ASSERT_GT(free, 0u);
  for (const int readers : {1, 2, 7, 64}) {
    const double all = double(readers) * double(model::beyond_caches(readers, 2));
    const double least = double(readers) * (2 << 20);
    EXPECT_GE(all, std::min(4.0 * double(cache.bytes), 0.1 * double(free))) << readers << " readers";
    EXPECT_LE(all, std::max(least, 0.15 * double(free))) << readers << " readers";
  }
  // More readers have more caches, so that the total stays above four times the caches for any number of readers.
  const int many = 8 * cache.processors;
  EXPECT_GE(double(many) * double(model::beyond_caches(many, 1)),
            std::min(32.0 * double(cache.bytes), 0.1 * double(free)));
}

TEST(Memory, MeasuringItIsCheapAndLeavesNothing) {
  if (under_mpi()) return;
  constexpr int ranks = 6;  // a number of ranks that no other test measures: results are kept
  const double before = process_seconds(), now = resident("VmRSS");
  const double most = std::max(now, resident("VmHWM"));
  comm::run_threads(ranks, [](const comm::Communicator& comm) { EXPECT_GT(model::measure(comm).bandwidth, 0); });
  EXPECT_LT(process_seconds() - before, 0.5 * ranks);
  EXPECT_LT(resident("VmHWM") - most, 64e6 + ranks * double(model::beyond_caches(ranks, 1)));
  EXPECT_LT(resident("VmRSS") - now, 64e6);
}

TEST(Memory, PagesAreTouchedUntilTimeIsUp) {
  EXPECT_EQ(model::MemoryReader(1).bytes(), std::size_t(2) << 20);
  EXPECT_EQ(model::MemoryReader(std::size_t(5) << 20).bytes(), std::size_t(6) << 20);
  const model::MemoryReader some(std::size_t(1) << 33, 1e-3);  // 8 GB would take more than a second
  EXPECT_LT(some.bytes(), std::size_t(1) << 32);
  EXPECT_EQ(some.read(), 0.0);
}

}  // namespace
}  // namespace tacit::test
