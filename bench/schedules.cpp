// Compares the schedules of a product, or of an iteration of cg, in alternating runs within one process, under mpiexec
// (or scripts/with_delay.sh DELAY).
//
//   bench_schedules [n=64] [slabs=64 | planes=...] [rounds=40] [form=csr|stencil] [path=auto] [method=product|cg]
//                   [iterations=30] [schedules=synchronous,overlapped,split,jobs,auto] [warm=250] [json=0|1]
//
// -Laplace on n x n x `slabs` points per rank, or on n x n x `planes` points in all. Prints medians in microseconds,
// and the median of the rounds' ratios to the first schedule of the list. "alone": the same number of rows on one rank,
// without halo. "halo": an exchange that is waited for at once. hidden = (first - schedule) / min(halo, alone): where
// the first schedule is synchronous, the share of the halo's time that the schedule hides behind local work. Before
// that, `warm` products with the automatic schedule let it complete its measurements.
#include "harness.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

using namespace tacit;
using bench::median;
using op::Schedule;

int main(int count, char** words) try {
  bench::Words said{{"n", "64"},
                    {"slabs", "64"},
                    {"planes", "0"},
                    {"rounds", "40"},
                    {"form", "csr"},
                    {"path", "auto"},
                    {"method", "product"},
                    {"iterations", "30"},
                    {"warm", "250"},
                    {"json", "0"},
                    {"schedules", "synchronous,overlapped,split,jobs,auto"}};
  said.take(count, words);
  const Global n = std::stoll(said["n"]), planes = std::stoll(said["planes"]);
  const int rounds = std::stoi(said["rounds"]), iterations = std::stoi(said["iterations"]);
  const bool cg = said["method"] == "cg";
  require(cg || said["method"] == "product", "method=", said["method"], "; there are product and cg");
  std::vector<Schedule> ways;
  for (const auto& name : said.list("schedules")) ways.push_back({tacit::value_of<op::Schedule::How>(name)});
  const auto comm = comm::mpi_world();
  comm.use(comm::path_of(said["path"]));
  const Global slabs = planes > 0 ? planes / comm.size() : std::stoll(said["slabs"]);
  comm::collective(comm, [&] {
    const auto make = [&](const comm::Communicator& c) -> std::shared_ptr<op::Operator<double>> {
      const auto A = std::make_shared<op::Stencil<double>>(
          c, op::Grid({n, n, planes > 0 && c.size() == comm.size() ? planes : slabs * c.size()}),
          op::laplacian<double>(3));
      if (said["form"] == "stencil") return A;
      return std::make_shared<op::Csr<double>>(A->range(), A->range(), A->rows());
    };
    const auto A = make(comm), alone = make(comm::Communicator::self());
    layout::Vector<double> x(A->range()), y(A->range()), x1(alone->range()), y1(alone->range());
    layout::fill(x, 1.0);
    layout::fill(x1, 1.0);
    std::vector<Global> needed;
    const Global slab = n * n;
    if (x.space().begin() > 0)
      for (Global i = 0; i < slab; ++i) needed.push_back(x.space().begin() - slab + i);
    if (x.space().end() < x.space().size())
      for (Global i = 0; i < slab; ++i) needed.push_back(x.space().end() + i);
    const auto pattern = std::make_shared<const comm::Pattern>(
        comm::Pattern::build(comm, x.space().partition().offsets(), std::move(needed)));
    comm::Exchange halo(comm, pattern, sizeof(double));
    std::vector<std::vector<double>> times(ways.size());
    std::vector<double> alone_times, halo_times;
    const auto timed = [&](auto&& f) {
      (void)comm.all_sum(Global(1));
      const double from = wall_time();
      f();
      return 1e6 * comm.all_max(wall_time() - from);
    };
    krylov::Options options;
    options.method = krylov::Method::cg, options.rtol = 1e-300, options.fallbacks = false;
    options.max_iterations = iterations;
    const auto once = [&] {
      if (!cg) return timed([&] { A->apply(x, y); });
      layout::fill(y, 0.0);
      return timed([&] { (void)krylov::solve<double, Host>(*A, nullptr, x, y, options); }) / iterations;
    };
    for (int i = 0; i < std::stoi(said["warm"]); ++i) {  // lets automatic choices complete
      A->apply(x, y);
      alone->apply(x1, y1);
    }
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const std::size_t w = (i + std::size_t(round)) % ways.size();
        A->use(ways[w]);
        if (!cg) A->apply(x, y);  // warm-up after the change of the schedule
        times[w].push_back(once());
      }
      halo_times.push_back(timed([&] {
        const int number = halo.open();
        std::fill_n(reinterpret_cast<double*>(halo.outgoing(number)), pattern->send_index.size(), 1.0);
        halo.post(number);
        halo.wait(number);
        halo.close(number);
      }));
    }
    for (int round = 0; round < rounds; ++round)  // after the others, so that caches are in the same state
      alone_times.push_back(timed([&] { alone->apply(x1, y1); }));
    if (comm.rank() != 0) return;
    const double by_itself = median(alone_times), exchange = median(halo_times);
    const bool json = said["json"] != "0";
    if (!json)
      std::printf("%s, %s, %lld x %lld x %lld points a rank, %d ranks: a product alone %.0f us, halo %.0f us\n",
                  said["method"].c_str(), said["form"].c_str(), (long long)n, (long long)n, (long long)slabs,
                  comm.size(), by_itself, exchange);
    std::string lines;
    const double of_first = median(times[0]);
    for (std::size_t w = 0; w < ways.size(); ++w) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < times[w].size(); ++r) ratios.push_back(times[w][r] / times[0][r]);
      const double t = median(times[w]), least = *std::min_element(times[w].begin(), times[w].end());
      if (!json)
        std::printf("  %-12s %9.0f us (least %.0f)  / %s %.3f  hidden %3.0f %%\n", to_string(ways[w].how), t, least,
                    to_string(ways[0].how), median(ratios), 100 * (of_first - t) / std::min(exchange, by_itself));
      lines += message(w ? ", " : "", "\"", to_string(ways[w].how), "\": {\"median\": ", 1e-6 * t,
                       ", \"least\": ", 1e-6 * least, ", \"ratio\": ", median(ratios), "}");
    }
    if (json) std::printf("{\"ranks\": %d, \"schedules\": {%s}}\n", comm.size(), lines.c_str());
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_schedules: %s\n", e.what());
  return 1;
}
