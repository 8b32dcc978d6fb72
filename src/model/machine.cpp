#include <tacit/model/machine.hpp>

#include <tacit/base/trace.hpp>
#include <tacit/model/memory.hpp>
#include "base/forks.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::model {
namespace {

std::mutex known_mutex;  // of the table in measure()
[[maybe_unused]] const int held_over_forks = hold_over_forks<+[]() -> std::mutex& { return known_mutex; }>();

template <std::size_t N>
double median(std::array<double, N> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[N / 2];
}

// The most seconds a rank spends on touching the pages of the array. The passes over it take less.
constexpr double most_seconds = 0.05;

double read_bandwidth(const comm::Communicator& comm) {
  const auto& places = comm.topology();
  int readers = 0, threads = 1;
  for (int rank = 0; rank < comm.size(); ++rank) readers += places.same_node(rank, comm.rank());
#ifdef _OPENMP
  threads = omp_get_max_threads();
#endif
  const MemoryReader memory(beyond_caches(readers, threads), most_seconds);
  std::array<double, 3> seconds{};
  for (double& s : seconds) {
    const double from = wall_time();
    const double zero = memory.read();
    s = wall_time() - from + zero;
  }
  return double(memory.bytes()) / median(seconds);
}

}  // namespace

Machine measure(const comm::Communicator& comm) {
  // Ranks that are threads share the table; its entries are the same on all ranks of a group.
  static std::map<std::pair<std::string, int>, Machine> known;
  const VirtualClock* const clock = comm.clock();
  const std::pair key(std::string(comm.kind()), comm.size());
  Machine machine;
  const bool seen = !clock && [&] {
    const std::lock_guard guard(known_mutex);
    const auto found = known.find(key);
    if (found != known.end()) machine = found->second;
    return found != known.end();
  }();
  // Some ranks may have an entry from another group, or see one that another thread just wrote. So either all ranks use
  // it, or all measure.
  if (comm.all(seen)) {
    // Entries of different ranks may come from different groups.
    return {-comm.all_max(-machine.bandwidth), comm.all_max(machine.sum_latency)};
  }
  std::array<double, 15> sums{};
  for (double& s : sums) {
    const exec::Sums<1, double> one{{1.0}};
    const double from = wall_time();
    comm.sum(one).wait();
    s = wall_time() - from;
  }
  machine.sum_latency = comm.all_max(median(sums));
  if (clock) {
    machine.bandwidth = clock->bandwidth() > 0 ? clock->bandwidth() : std::numeric_limits<double>::max();
    return machine;
  }
  machine.bandwidth = -comm.all_max(-read_bandwidth(comm));
  const std::lock_guard guard(known_mutex);
  known.insert_or_assign(key, machine);
  return machine;
}

}  // namespace tacit::model
