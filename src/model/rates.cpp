// The rates of this machine's kernels, measured.
#include <tacit/base/trace.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/model/memory.hpp>
#include <tacit/model/rates.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tacit::model {
namespace {

using comm::Communicator;
using comm::KernelRates;

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

template <class Work>
double seconds_of(int repeats, Work&& work) {
  const double from = wall_time();
  for (int i = 0; i < repeats; ++i) work();
  return (wall_time() - from) / repeats;
}

/// Seconds of an axpy of so many elements, whose traffic is 24 bytes for each.
double axpy_seconds(const Communicator& comm, Global n) {
  const auto space = layout::Space::distributed(Communicator::self(), n);
  layout::Vector<double> x(space), y(space);
  layout::fill(x, 1.0), layout::fill(y, 1.0);
  const auto once = [&] { layout::axpy(1e-9, x, y); };
  const double about = seconds_of(1, once);
  const int repeats = std::max(1, int(2e-3 / (about + 1e-9)));
  (void)comm.all_sum(Global(0));  // all ranks work at the same time
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(seconds_of(repeats, once));
  return comm.all_max(median(times));
}

void measure_sweeps(const Communicator& comm, KernelRates& m) {
  constexpr double bytes_of_element = 24;
  m.kernel = axpy_seconds(comm, 1);
  int readers = 0, threads = 1;
  for (int rank = 0; rank < comm.size(); ++rank) readers += comm.topology().same_node(rank, comm.rank());
#ifdef _OPENMP
  threads = omp_get_max_threads();
#endif
  const auto most = comm.all_max(double(beyond_caches(readers, threads))) / bytes_of_element;
  const double memory = axpy_seconds(comm, Global(most));
  m.bandwidth = bytes_of_element * std::floor(most) / std::max(memory - m.kernel, 1e-9);
  // Vectors of more and more bytes, until the rate is nearer to that of memory than to the best one.
  std::vector<std::array<double, 2>> rates;
  for (double bytes = 32 * 1024; bytes < bytes_of_element * most; bytes *= 2) {
    const auto n = Global(bytes / bytes_of_element);
    rates.push_back({bytes, bytes_of_element * double(n) / std::max(axpy_seconds(comm, n) - m.kernel, 1e-9)});
  }
  double best = 0;
  for (const auto& [bytes, rate] : rates) best = std::max(best, rate);
  for (const auto& [bytes, rate] : rates)
    if (rate * rate > best * m.bandwidth) m.cache = bytes;
  std::vector<double> within;
  for (const auto& [bytes, rate] : rates)
    if (bytes <= m.cache) within.push_back(rate);
  m.cache_bandwidth = within.empty() ? 0 : median(within);
  if (m.cache_bandwidth <= m.bandwidth) m.cache = m.cache_bandwidth = 0;  // no cache shows
}

/// Operations per second of y += A x with a matrix in the first cache.
double measured_flops(const Communicator& comm) {
  constexpr std::size_t n = 48;
  std::vector<double> a(n * n, 1e-3), x(n, 1.0), y(n, 0.0);
  const auto once = [&] {
    for (std::size_t j = 0; j < n; ++j) {
      const double xj = x[j];
      const double* const column = a.data() + j * n;
      double* const out = y.data();
      for (std::size_t i = 0; i < n; ++i) out[i] += column[i] * xj;
    }
    x[0] = y[0] * 1e-6;  // so that no pass can be left out
  };
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(seconds_of(500, once));
  return 2.0 * n * n / comm.all_max(median(times));
}

}  // namespace

KernelRates measure_rates(const Communicator& comm) {
  KernelRates rates;
  measure_sweeps(comm, rates);
  rates.flop_rate = measured_flops(comm);
  return rates;
}

}  // namespace tacit::model
