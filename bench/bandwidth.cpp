// The read bandwidth of this machine's memory in GB/s with OMP_NUM_THREADS threads: median of 9 passes over 1 GiB (over
// four times the last-level caches where that is more), with contiguous vector loads. No options.
#include <tacit/base/trace.hpp>
#include <tacit/model/memory.hpp>

#include "harness.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <omp.h>

int main() {
  const int threads = omp_get_max_threads();
  const tacit::model::MemoryReader memory(std::max(std::size_t(1) << 30, tacit::model::beyond_caches(1, threads)));
  std::vector<double> rates;
  double sum = 0;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const double from = tacit::wall_time();
    sum += memory.read();
    rates.push_back(1e-9 * double(memory.bytes()) / (tacit::wall_time() - from));
  }
  const auto [lowest, highest] = std::minmax_element(rates.begin(), rates.end());
  std::printf("{\"threads\":%d,\"read_GB_per_s\":%.2f,\"lowest\":%.2f,\"highest\":%.2f,\"MB\":%.0f,\"check\":%.0f}\n",
              threads, bench::median(rates), *lowest, *highest, 1e-6 * double(memory.bytes()), sum);
}
