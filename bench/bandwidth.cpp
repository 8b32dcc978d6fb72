// What this machine's memory gives: read bandwidth, GB/s, with as many threads as OMP_NUM_THREADS says (median of 9).
#include <tacit/exec/memory.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <omp.h>

int main() {
  const std::size_t n = std::size_t(1) << 27;  // 1 GiB of doubles, far beyond any cache
  tacit::exec::Array<double, tacit::Host> x(n);
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < n; ++i) x[i] = double(i % 7);
  std::vector<double> rates;
  double sink = 0;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const auto from = std::chrono::steady_clock::now();
    double sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
    for (std::size_t i = 0; i < n; ++i) sum += x[i];
    sink += sum;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    rates.push_back(double(n) * sizeof(double) / seconds * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("{\"threads\":%d,\"read_GB_per_s\":%.2f,\"lowest\":%.2f,\"highest\":%.2f,\"check\":%.0f}\n",
              omp_get_max_threads(), rates[rates.size() / 2], rates.front(), rates.back(), sink);
}
