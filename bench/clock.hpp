// One set of solves whose time is taken by different clocks: Tacit's simulator and real ranks (clock.cpp), SimGrid's
// SMPI (smpi.cpp). All of them run run() below.
#pragma once

#include "boxes.hpp"
#include "harness.hpp"
#include "model_problems.hpp"

#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/solve.hpp>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/// problem: 2d5, 3d7, cd3 (rows dealt out in order, `n` points on each axis), or boxes (n^3 unknowns a rank, a cube of
/// ranks, six neighbours). methods: a list. iterations: a list of numbers; each solve is stopped there. before: one
/// solve that is not timed, which makes plans and buffers. measure=1, on real ranks: their parameters as a machine
/// first. The rest: options of a solve, and of a machine in seconds, bytes and operations.
inline Words clock_words() {
  Words words({{"problem", "2d5"}, {"n", "64"}, {"methods", "cg"}, {"iterations", "60"}, {"repeats", "1"}},
              {"machine", "ranks", "restart", "step", "depth", "block", "powers", "before", "measure"});
  for (const auto& option : tacit::comm::machine_options()) words.allow(option.name);
  return words;
}

inline tacit::comm::MachineModel clock_machine(const Words& given) {
  using tacit::comm::MachineModel;
  MachineModel m = given.has("machine") ? MachineModel::named(given["machine"]) : MachineModel();
  for (const auto& option : tacit::comm::machine_options())
    if (given.has(option.name))
      tacit::set_from_text(tacit::comm::machine_options(), m, option.name, given[option.name], "a machine");
  m.check();
  return m;
}

inline std::unique_ptr<tacit::op::Csr<double>> clock_matrix(const tacit::comm::Communicator& comm, const Words& given) {
  using namespace tacit;
  const auto n = Global(given.number("n"));
  if (given["problem"] == "boxes") {
    const auto side = Global(std::lround(std::cbrt(comm.size())));
    require(side * side * side == comm.size(), "boxes need a cube of ranks, not ", comm.size());
    const auto space = layout::Space::distributed(comm, n * n * n * comm.size());
    std::vector<double> f;
    return std::make_unique<op::Csr<double>>(space, space, box_rows(comm.rank(), side, n, 0.9, 0.9, f));
  }
  const Problem problem{given["problem"], n};
  const auto space = layout::Space::distributed(comm, problem.rows());
  op::Rows<double> rows;
  std::int64_t column[Problem::most];
  double value[Problem::most];
  for (Global r = space.begin(); r < space.end(); ++r) {
    const int m = problem.row(r, column, value);
    rows.column.insert(rows.column.end(), column, column + m);
    rows.value.insert(rows.value.end(), value, value + m);
    rows.start.push_back(Global(rows.column.size()));
  }
  return std::make_unique<op::Csr<double>>(space, space, std::move(rows));
}

inline tacit::krylov::Options clock_options(const Words& given, const std::string& method, int iterations) {
  namespace krylov = tacit::krylov;
  krylov::Options o;
  o.method = tacit::value_of<krylov::Method>(method);
  for (const char* name : {"restart", "step", "depth", "block", "powers"})
    if (given.has(name) && krylov::takes(o.method, name))
      tacit::set_from_text(krylov::options(), o, name, given[name], "a solve");
  if (o.method == krylov::Method::richardson) o.relaxation = 0.2;
  o.rtol = 1e-300, o.max_iterations = iterations;
  o.fallbacks = false, o.explain = false, o.history = false;  // the time of iterations is wanted
  return o;
}

/// A communicator on which every sum and exchange can be timed: its clock begins at `begin()` and is read by `read()`,
/// both collective.
struct Stopwatch {
  std::function<void(const tacit::comm::Communicator&)> begin;
  std::function<tacit::comm::SimulatedTimes(const tacit::comm::Communicator&)> read;
};

/// Prints a line of JSON for each method and number of iterations, by rank 0.
inline void run(const tacit::comm::Communicator& comm, const Words& given, const Stopwatch& watch) {
  using namespace tacit;
  const auto A = clock_matrix(comm, given);
  layout::Vector<double> b(A->range()), x(A->domain());
  std::vector<double> values;
  for (Global i = A->range().begin(); i < A->range().end(); ++i) values.push_back(1 + scatter(std::uint64_t(i)) / 2);
  b.assign(values);
  for (const auto& method : given.list("methods")) {
    const auto solve = [&](int iterations) {
      layout::fill(x, 0.0);
      return krylov::solve<double, Host>(*A, nullptr, b, x, clock_options(given, method, iterations), true);
    };
    if (given.has("before")) (void)solve(int(given.number("before")));
    for (int repeat = int(given.number("repeats")); repeat > 0; --repeat)
      for (const int iterations : given.numbers("iterations")) {
        watch.begin(comm);
        const auto report = solve(iterations);
        const auto times = watch.read(comm);
        if (comm.rank() != 0) continue;
        std::printf(
            "{\"method\": \"%s\", \"ranks\": %d, \"iterations\": %d, \"seconds\": %.9g, \"sum\": %.9g, \"halo\": %.9g, "
            "\"agree\": %.9g, \"kernels\": %.9g, \"reductions\": %lld, \"exchanges\": %lld, \"messages\": %lld, "
            "\"bytes\": %lld, \"residual\": %.17g}\n",
            method.c_str(), comm.size(), report.iterations, times.finish, times.seconds("sum"), times.seconds("halo"),
            times.seconds("agree"), times.kernel_seconds(), static_cast<long long>(report.counts.reductions),
            static_cast<long long>(report.counts.exchanges), static_cast<long long>(times.messages),
            static_cast<long long>(times.bytes), report.residual_norm);
        std::fflush(stdout);
      }
  }
}

}  // namespace bench
