#include "comm/transport/simulated/rank.hpp"
#include "support/communicators.hpp"

#include <tacit/comm/replay.hpp>
#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/model/machine.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/stencil.hpp>
#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tacit::krylov {
namespace {

using comm::MachineModel;

struct Case {
  Method method;
  const char* precond;
};

struct Answer {
  std::vector<double> x, history;
  std::vector<std::int64_t> counts;
  std::string reason;
  friend bool operator==(const Answer&, const Answer&) = default;
};

void solve_case(const comm::Communicator& comm, const Case& c, std::vector<Answer>& answers, bool clocks = false) {
  const op::Grid grid({23, 17});
  const auto weights = op::laplacian<double>(2);
  const auto space = layout::Space::distributed(comm, grid.size());
  const op::Csr<double> A(space, space, op::stencil_rows(grid, weights, space.begin(), space.end()));
  const auto P = precond::make<double, Host>(c.precond, A, {});
  layout::Vector<double> b(space), x(space);
  for (std::size_t i = 0; i < b.size(); ++i) b.data()[i] = 1.0 / double(3 + (space.begin() + Global(i)) % 11);
  Options options;
  options.method = c.method;
  options.rtol = 1e-9;
  if (clocks) comm::restart_clocks(comm);
  const auto report = solve<double, Host>(A, P.get(), b, x, options);
  if (clocks) (void)comm::read_clocks(comm);
  const auto& n = report.counts;
  answers[std::size_t(comm.rank())] = {
      {x.data(), x.data() + x.size()},
      report.history,
      {n.reductions, n.operator_applies, n.preconditioner_applies, n.exchanges, n.messages, n.bytes},
      to_string(report.reason)};
}

const Case cases[] = {{Method::cg, "ilu0"},
                      {Method::pipelined_cg, "jacobi"},
                      {Method::ca_cg, "none"},
                      {Method::bicgstab, "none"},
                      {Method::ca_bicgstab, "none"},
                      {Method::pipelined_bicgstab, "polynomial"},
                      {Method::gmres, "ilu0"},
                      {Method::ca_gmres, "none"},
                      {Method::pipelined_gmres, "none"},
                      {Method::pipelined_ca_gmres, "jacobi"}};

// Bit-identical solutions, and the same number of reductions, exchanges, messages and bytes.
TEST(SimulatedSolve, IsThatOfRealRanks) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  constexpr int ranks = 3;
  auto machine = MachineModel::named("hopper");
  for (const auto& c : cases) {
    std::vector<Answer> real(ranks), made(ranks);
    comm::run_threads(ranks, [&](const comm::Communicator& comm) { solve_case(comm, c, real); });
    const auto progress = int(&c - cases) % 3;
    machine.progress = progress == 0   ? MachineModel::Progress::ideal
                       : progress == 1 ? MachineModel::Progress::in_wait
                                       : MachineModel::Progress::poll;
    machine.poll_interval = 2e-6;
    const auto run = [&] {
      return comm::simulate(ranks, machine, [&](const comm::Communicator& comm) { solve_case(comm, c, made, true); });
    };
    const auto times = run();
    EXPECT_EQ(real[0].reason, "converged");
    EXPECT_EQ(made, real) << to_string(c.method);
    EXPECT_EQ(run().finish, times.finish);
    // The driver's own reductions are counted, too; all time is in the named phases.
    EXPECT_GT(times.seconds("sum"), 0);
    double mean = times.kernel_seconds();
    for (const char* phase : {"sum", "halo", "agree"}) mean += times.seconds(phase);
    EXPECT_LE(mean, times.finish * (1 + 1e-12));
    EXPECT_GT(mean, 0.9 * times.finish);
  }
}

// Where a rank that waits looks at an arrival changes no clock, count or number.
TEST(SimulatedSolve, ClocksDoNotDependOnWhoseStackLooks) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  constexpr int ranks = 11;
  for (const auto& c : cases)
    for (const auto progress :
         {MachineModel::Progress::ideal, MachineModel::Progress::in_wait, MachineModel::Progress::poll})
      for (const auto delivery : {MachineModel::Delivery::eager, MachineModel::Delivery::meeting}) {
        auto machine = MachineModel::named("hopper");
        machine.progress = progress, machine.delivery = delivery, machine.poll_interval = 2e-6;
        SCOPED_TRACE(machine.describe());
        std::vector<Answer> answers[2]{std::vector<Answer>(ranks), std::vector<Answer>(ranks)};
        comm::SimulatedTimes times[2];
        for (const bool own : {false, true}) {
          comm::detail::look_on_own_stacks = own;
          times[own] = comm::simulate(ranks, machine,
                                      [&](const comm::Communicator& comm) { solve_case(comm, c, answers[own], true); });
        }
        comm::detail::look_on_own_stacks = false;
        EXPECT_EQ(answers[0], answers[1]) << to_string(c.method);
        EXPECT_EQ(times[0].finish, times[1].finish) << to_string(c.method);
        EXPECT_EQ(times[0].messages, times[1].messages);
        ASSERT_EQ(times[0].phases.size(), times[1].phases.size());
        for (std::size_t i = 0; i < times[0].phases.size(); ++i) {
          EXPECT_EQ(times[0].phases[i].name, times[1].phases[i].name);
          EXPECT_EQ(times[0].phases[i].seconds, times[1].phases[i].seconds);
        }
      }
}

// A replay on the ranks that were recorded gives the clocks of the run itself, but for exchanges that are set up within
// it, as those of powers are: of them only the sum at the end is played.
TEST(SimulatedSolve, ReplaysItself) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  constexpr int ranks = 12;
  for (const auto& c : cases)
    for (const auto progress :
         {MachineModel::Progress::ideal, MachineModel::Progress::in_wait, MachineModel::Progress::poll}) {
      auto machine = MachineModel::named("hopper");
      machine.noise = 0, machine.progress = progress, machine.poll_interval = 2e-6;
      comm::SimulatedTimes made;
      std::vector<Answer> answers(ranks);
      const auto f = [&](const comm::Communicator& comm) { solve_case(comm, c, answers, true); };
      made = comm::simulate(ranks, machine, f);
      const auto recording = comm::record(ranks, machine, f);
      comm::ReplayOptions o;
      o.recorded = o.played = {ranks, 1, 1};
      double share = 0;
      o.progress = [&](double done) {
        EXPECT_GE(done, share);
        share = done;
      };
      const auto played = comm::replay(recording, machine, o);
      EXPECT_GT(share, 0.9);
      if (played.times.messages != made.messages) {
        EXPECT_TRUE(c.method == Method::ca_cg || c.method == Method::ca_bicgstab) << to_string(c.method);
        continue;
      }
      EXPECT_EQ(played.times.finish, made.finish) << to_string(c.method);
      EXPECT_EQ(played.times.messages, made.messages);
      EXPECT_EQ(played.times.bytes, made.bytes);
      for (const auto& phase : made.phases)
        EXPECT_EQ(played.times.seconds(phase.name), phase.seconds) << to_string(c.method) << " " << phase.name;
    }
}

// A purpose of the simulator: to rank methods at latencies that are not available for measurements.
TEST(SimulatedSolve, LatencyChoosesTheMethod) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  MachineModel far;
  far.latency = 200e-6, far.bandwidth = 10e9;
  const auto seconds = [&](Method method) {
    std::vector<Answer> answers(16);
    return comm::simulate(16, far,
                          [&](const comm::Communicator& comm) {
                            solve_case(comm, {method, "none"}, answers, true);
                          })
        .finish;
  };
  const double cg = seconds(Method::cg);
  EXPECT_LT(seconds(Method::ca_cg), 0.8 * cg);
  EXPECT_LT(seconds(Method::pipelined_cg), 0.8 * cg);
}

TEST(SimulatedSolve, MeasuresTheMachineItIsGiven) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  MachineModel m;
  m.latency = 1e-5, m.overhead = 1e-6, m.bandwidth = 7e9;
  for (int again = 0; again < 2; ++again, m.latency *= 2)
    comm::simulate(8, m, [&](const comm::Communicator& comm) {
      const auto found = model::measure(comm);
      EXPECT_DOUBLE_EQ(found.bandwidth, 7e9);
      EXPECT_NEAR(found.sum_latency, 3 * (m.latency + 2e-6), 0.2 * found.sum_latency);
    });
}

TEST(SimulatedSolve, RefusesUnavailableOptions) {
  if (test::under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  const auto refused = [&](auto&& set) {
    try {
      comm::simulate(3, MachineModel(), [&](const comm::Communicator& comm) {
        const op::Grid grid({9, 9});
        const op::Stencil<double> A(comm, grid, op::laplacian<double>(2));
        layout::Vector<double> b(A.range()), x(A.range());
        layout::fill(b, 1.0);
        Options options;
        set(options);
        (void)solve<double, Host>(A, nullptr, b, x, options);
      });
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([](Options&) {}), "");
  EXPECT_NE(refused([](Options& o) { o.engine = Engine::thread; }).find("engine"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.engine = Engine::tasks; }).find("\"tasks\""), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.schedule.how = op::Schedule::How::jobs; }).find("\"jobs\""), std::string::npos);
}

}  // namespace
}  // namespace tacit::krylov
