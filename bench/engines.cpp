// Compares the engines on the same system in alternating runs, so that other load affects all of them alike.
//   bench_engines N ITERATIONS ROUNDS [METHOD ...]
// 2D Laplacian N x N, csr, no preconditioner, b = 1. One line per method: seconds (the best round of polling), then the
// ratios thread / polling and tasks / polling (median over the rounds; ratio of the best rounds), and whether all runs
// have the same x.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>

#include "harness.hpp"
#include "model_problems.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace tacit;
using bench::median;
using krylov::Engine;

namespace {

void run(int argc, char** argv) {
  const comm::Communicator comm = comm::mpi_launched() ? comm::mpi_world() : comm::Communicator::self();
  const bench::Problem problem{"2d5", std::atoll(argv[1])};
  const int rounds = std::atoi(argv[3]);
  const auto space = layout::Space::distributed(comm, problem.rows());
  op::Rows<double> rows;
  std::int64_t column[bench::Problem::most];
  double value[bench::Problem::most];
  for (Global r = space.begin(); r < space.end(); ++r) {
    const int m = problem.row(r, column, value);
    rows.column.insert(rows.column.end(), column, column + m);
    rows.value.insert(rows.value.end(), value, value + m);
    rows.start.push_back(Global(rows.column.size()));
  }
  const op::Csr<double> A(space, space, std::move(rows));
  layout::Vector<double> b(space), x(space);
  layout::fill(b, 1.0);
  std::vector<std::string> methods(argv + 4, argv + argc);
  if (methods.empty()) methods = {"cg", "pipelined-cg", "gmres", "ca-gmres", "pipelined-gmres", "pipelined-ca-gmres"};
  for (const auto& name : methods) {
    krylov::Options o;
    o.method = tacit::value_of<krylov::Method>(name);
    o.max_iterations = std::atoi(argv[2]), o.rtol = 1e-300, o.fallbacks = false, o.history = false;
    const Engine engines[] = {Engine::polling, Engine::thread, Engine::tasks};
    std::vector<double> seconds[3];
    std::vector<double> first;
    bool same = true;
    for (int round = 0; round <= rounds; ++round)  // round 0 warms up
      for (int e = 0; e < 3; ++e) {
        o.engine = engines[e];
        layout::fill(x, 0.0);
        (void)comm.all_sum(Global(0));
        const auto report = krylov::solve<double, Host>(A, nullptr, b, x, o);
        if (round > 0) seconds[e].push_back(report.seconds);
        auto now = x.to_host();
        if (first.empty()) first = std::move(now);
        else same = same && first == now;
      }
    same = comm.all(same);
    std::vector<double> ratio[3];
    for (int e = 1; e < 3; ++e)
      for (int r = 0; r < rounds; ++r) ratio[e].push_back(seconds[e][r] / seconds[0][r]);
    const auto best = [&](int e) { return *std::min_element(seconds[e].begin(), seconds[e].end()); };
    if (comm.rank() == 0)
      std::printf(
          "%-20s n %lld, %d ranks: polling %.3f s; thread / polling %.2f (best %.2f); tasks / polling %.2f (best "
          "%.2f); %s\n",
          name.c_str(), static_cast<long long>(problem.n), comm.size(), best(0), median(ratio[1]), best(1) / best(0),
          median(ratio[2]), best(2) / best(0), same ? "same x" : "x DIFFERS");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s N ITERATIONS ROUNDS [METHOD ...]\n", argv[0]);
    return 2;
  }
  try {
    run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
