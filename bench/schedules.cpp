// bench_schedules [n=64] [slabs=64] [rounds=40] [form=csr|stencil] [path=auto]: one product by every schedule, in turn, under
// mpiexec (or scripts/with_delay.sh DELAY): microseconds, medians.
//
// Each rank owns slabs of n x n points of -Laplace. "alone": the same rows on one rank, no halo. "halo": an exchange that is
// waited for at once. hidden = (synchronous - schedule) / min(halo, alone's interior): the share of the halo's time that the
// schedule hides behind its interior work.
#include <tacit/base/trace.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/comm/exchange.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

using namespace tacit;
using op::Schedule;

int main(int count, char** words) try {
  std::map<std::string, std::string> said{{"n", "64"}, {"slabs", "64"}, {"rounds", "40"}, {"form", "csr"}, {"path", "auto"}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto at = word.find('=');
    require(at != std::string::npos && said.contains(word.substr(0, at)), "unknown word ", word);
    said[word.substr(0, at)] = word.substr(at + 1);
  }
  const Global n = std::stoll(said["n"]), slabs = std::stoll(said["slabs"]);
  const int rounds = std::stoi(said["rounds"]);
  const auto comm = comm::mpi_world();
  comm.use(comm::path_of(said["path"]));
  comm::collective(comm, [&] {
    const auto make = [&](const comm::Communicator& c) -> std::shared_ptr<op::Operator<double>> {
      const auto A = std::make_shared<op::Stencil<double>>(c, op::Grid({n, n, slabs * c.size()}), op::laplacian<double>(3));
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
    using How = Schedule::How;
    const std::vector<Schedule> ways{{How::synchronous}, {How::overlapped}, {How::split, 1}, {How::jobs}, {How::automatic}};
    std::vector<std::vector<double>> times(ways.size() + 2);
    const auto timed = [&](auto&& f) {
      (void)comm.all_sum(Global(1));
      const double from = wall_time();
      f();
      return comm.all_max(wall_time() - from);
    };
    for (int i = 0; i < 50; ++i) A->apply(x, y);  // what is found by trying is found
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t w = 0; w < ways.size(); ++w) {
        A->use(ways[w]);
        times[w].push_back(timed([&] { A->apply(x, y); }));
      }
      times[ways.size()].push_back(timed([&] { alone->apply(x1, y1); }));
      times[ways.size() + 1].push_back(timed([&] {
        const int number = halo.open();
        std::fill_n(reinterpret_cast<double*>(halo.outgoing(number)), pattern->send_index.size(), 1.0);
        halo.post(number);
        halo.wait(number);
        halo.close(number);
      }));
    }
    std::vector<double> median;
    for (auto& t : times) {
      std::nth_element(t.begin(), t.begin() + rounds / 2, t.end());
      median.push_back(1e6 * t[std::size_t(rounds / 2)]);
    }
    if (comm.rank() != 0) return;
    const double by_itself = median[ways.size()], exchange = median[ways.size() + 1];
    std::printf("%s, %lld x %lld x %lld points a rank, %d ranks: alone %.0f us, halo %.0f us\n", said["form"].c_str(),
                (long long)n, (long long)n, (long long)slabs, comm.size(), by_itself, exchange);
    for (std::size_t w = 0; w < ways.size(); ++w)
      std::printf("  %-12s %9.0f us  / synchronous %.3f  hidden %3.0f %%\n", to_string(ways[w].how), median[w],
                  median[w] / median[0], 100 * (median[0] - median[w]) / std::min(exchange, by_itself));
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_schedules: %s\n", e.what());
  return 1;
}
