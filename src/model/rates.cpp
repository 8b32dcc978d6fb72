// The rates of this machine's kernels, measured.
#include <tacit/base/trace.hpp>
#include <tacit/layout/vector.hpp>
#include <tacit/model/memory.hpp>
#include <tacit/model/rates.hpp>
#include "base/registers.hpp"

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
  const double about = comm.all_max(seconds_of(1, once));
  const int repeats = std::max(1, int(15e-3 / (about + 1e-9)));
  // All ranks work at the same time, until the last has ended: they may share cores.
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    (void)comm.all_sum(Global(0));
    times.push_back(seconds_of(1,
                               [&] {
                                 for (int k = 0; k < repeats; ++k) once();
                                 (void)comm.all_sum(Global(0));
                               }) /
                    repeats);
  }
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
  // One rate for all caches: the harmonic mean.
  double seconds = 0;
  int sizes = 0;
  for (const auto& [bytes, rate] : rates)
    if (bytes <= m.cache) seconds += 1 / rate, ++sizes;
  m.cache_bandwidth = sizes > 0 ? sizes / seconds : 0;
  if (m.cache_bandwidth <= m.bandwidth) m.cache = m.cache_bandwidth = 0;  // no cache shows
}

/// Operations per second of products and sums in registers that do not depend on each other.
double measured_flops(const Communicator& comm) {
  using Four = Registers<double, 4>;
  constexpr int chains = 8, steps = 20000;
  volatile double unknown = 1;  // so that the compiler does not know the result
  double used = 0;
  const auto once = [&] {
    const Four one = Four{} + unknown;
    Four a = one, b = one * 2.0, c = one * 3.0, d = one * 4.0, e = one * 5.0, f = one * 6.0, g = one * 7.0,
         h = one * 8.0;
    for (int i = 0; i < steps; ++i) {
      a = a * 0.5 + one, b = b * 0.5 + one, c = c * 0.5 + one, d = d * 0.5 + one;
      e = e * 0.5 + one, f = f * 0.5 + one, g = g * 0.5 + one, h = h * 0.5 + one;
    }
    double all[4];
    (a + b + c + d + e + f + g + h).store(all);
    used += all[0];
  };
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(seconds_of(5, once));
  [[maybe_unused]] volatile const double kept = used;
  return 2.0 * 4 * chains * steps / comm.all_max(median(times));
}

}  // namespace

KernelRates measure_rates(const Communicator& comm) {
  KernelRates rates;
  measure_sweeps(comm, rates);
  rates.flop_rate = measured_flops(comm);
  return rates;
}

}  // namespace tacit::model
