// Multigrid on a device with its cells on several ranks: the host's cycles, the residuals of one rank, and its
// messages.
#include <gtest/gtest.h>

#include <tacit/krylov/solve.hpp>
#include <tacit/op/csr.hpp>

#include "multigrid_device.hpp"

#include <algorithm>
#include <limits>
#include <optional>

using namespace tacit;
using namespace tacit::test;

namespace {

const std::vector<int> all_ranks = ranks_of({2, 3, 5});

/// As in the cases of one rank, and with boxes that are fewer than the ranks.
std::vector<Case> cases_of_ranks() {
  auto all = cases();
  all.push_back({{8, 8}, {{periodic, periodic}, {dirichlet, dirichlet}}, 1, false, {4, 8, 1}});
  all.push_back({{6}, {{dirichlet, neumann}}, 1, true, {3, 1, 1}});
  all.push_back({{4, 4, 4}, {{periodic, periodic}, {periodic, periodic}, {periodic, periodic}}, 0, true, {4, 4, 4}});
  return all;
}

template <class T>
void same_cycles(const Communicator& comm, double closeness) {
  int k = 0;
  for (Case c : cases_of_ranks()) {
    if ((k++ + comm.size()) % 3 != 0) continue;
    // Cells that stay on their ranks, that move once there are few, and that soon are one rank's.
    c.options.agglomerate_below = std::array<std::optional<Global>, 3>{0, 30, {}}[std::size_t(k / 3) % 3];
    if (c.options.cycle == Cycle::u) c.options.agglomerate_below = 0;
    const auto A = operator_of<T>(c, comm);
    const Multigrid<T> host(A, c.options, precond::direct_bottom<T>());
    const MultigridOnDevice<T, TestMemory> device(A, c.options, {0, 30 * closeness, 1000, 0});
    ASSERT_EQ(device.levels(), host.levels()) << text(c);
    const auto f = right_side(*A);
    Vector<T> expected(A->range()), got(A->range());
    for (const bool again : {false, true}) {  // independent of the state that the first cycle has left
      host.apply(f, expected);
      cycle(device, f, got);
      EXPECT_LE(difference(got, expected), 1e3 * closeness) << text(c) << (again ? ", again" : "");
    }
    EXPECT_EQ(device.bottom().failures, 0) << text(c);
  }
}

TEST(MultigridOnDeviceRanks, HaveTheCyclesOfTheHost) {
  on_ranks(
      [](const Communicator& comm) {
        same_cycles<double>(comm, 1e-13);
        same_cycles<float>(comm, 1e-6);
      },
      all_ranks);
}

/// Boxes of four cells along each axis: the levels are the same however they are dealt out.
Case dealt(double a, bool constant, Cycle cycle, std::vector<Global> cells) {
  const std::array<std::array<Boundary, 2>, 3> ends{{{periodic, periodic}, {dirichlet, neumann}, {neumann, neumann}}};
  Case c{std::move(cells), {}, a, constant, {4, 4, 4}};
  c.boundary.assign(ends.begin(), ends.begin() + std::ptrdiff_t(c.cells.size()));
  if (a == 0) c.boundary.back() = {neumann, neumann};
  c.options.cycle = cycle, c.options.interpolation = Interpolation::linear;
  return c;
}

TEST(MultigridOnDeviceRanks, HaveTheResidualsOfOneRank) {
  const std::vector<Case> problems{dealt(1, false, Cycle::v, {16, 16, 16}), dealt(1, true, Cycle::w, {16, 8, 24}),
                                   dealt(1, false, Cycle::f, {32, 48}), dealt(1, true, Cycle::v, {128})};
  for (const Case& c : problems) {
    const auto history = [&](const Communicator& comm) {
      const auto A = operator_of<double>(c, comm);
      const MultigridOnDevice<double, TestMemory> M(A, c.options, {30, 1e-12, 1000, 0});
      Vector<double> u(A->range());
      precond::MultigridSolve s;
      s.norm = krylov::Norm::two;
      const auto report = solve(M, right_side(*A), u, s);
      EXPECT_TRUE(report.converged()) << text(c) << " on " << comm.size();
      EXPECT_EQ(report.levels.front().ranks, std::min<Global>(comm.size(), report.levels.front().boxes)) << text(c);
      EXPECT_EQ(comm.size() > 1, report.messages > 0) << text(c);
      return report.history;
    };
    const auto expected = history(Communicator::self());
    on_ranks(
        [&](const Communicator& comm) {
          const auto found = history(comm);
          ASSERT_EQ(found.size(), expected.size()) << text(c);
          for (std::size_t i = 0; i < found.size(); ++i)
            EXPECT_NEAR(found[i], expected[i], 1e-12 * expected.front()) << text(c) << " cycle " << i;
        },
        all_ranks);
  }
}

// The means of f and u are over all ranks; a solution of one rank is that of several.
TEST(MultigridOnDeviceRanks, SolveWhatIsSingular) {
  Case c{{16, 12, 8}, {{periodic, periodic}, {neumann, neumann}, {neumann, neumann}}, 0, false, {4, 4, 4}};
  on_ranks(
      [&](const Communicator& comm) {
        const auto A = operator_of<double>(c, comm);
        ASSERT_TRUE(A->singular());
        const auto f = right_side(*A);
        const Multigrid<double> host(A, c.options, precond::direct_bottom<double>());
        const MultigridOnDevice<double, TestMemory> device(A, c.options, {50, 1e-3, 1000, 0});
        Vector<double> expected(A->range()), got(A->range());
        layout::fill(got, 3.0);
        const auto there = host.solve(f, expected), here = solve(device, f, got);
        EXPECT_TRUE(here.converged()) << to_string(here.reason);
        EXPECT_EQ(here.warnings.size(), there.warnings.size());
        EXPECT_NEAR(here.b_norm, there.b_norm, 1e-12 * there.b_norm);
        EXPECT_LE(difference(got, expected), 1e-7);
      },
      all_ranks);
}

// Messages of a V-cycle: on each level but the last one for each half sweep except the first, which starts from zero,
// and one for the residual, as on the host; a gather of the last level's cells.
TEST(MultigridOnDeviceRanks, ExchangeOncePerHalfSweep) {
  const Case base{{16, 16, 16}, {{dirichlet, dirichlet}, {dirichlet, dirichlet}, {dirichlet, dirichlet}}};
  precond::detail::one_pass(false);
  on_ranks(
      [&](const Communicator& comm) {
        const auto counts_of = [&](const auto& apply) {
          apply();  // makes the exchanges
          const auto before = comm.counters();
          apply();
          return comm.counters() - before;
        };
        for (const Global below : {0, 100}) {
          Case c = base;
          c.options.agglomerate_below = below;
          c.options.interpolation = Interpolation::constant;
          const auto A = operator_of<double>(c, comm);
          const Multigrid<double> host(A, c.options, precond::direct_bottom<double>());
          const MultigridOnDevice<double, TestMemory> device(A, c.options, {0, 1e-3, 1000, 0});
          const auto f = right_side(*A);
          Vector<double> u(A->range());
          const auto there = counts_of([&] { host.apply(f, u); });
          const auto here = counts_of([&] { cycle(device, f, u); });
          if (comm.size() == 1) {
            EXPECT_EQ(here.exchanges, 0);
            EXPECT_EQ(here.messages, 0);
          } else if (below == 0) {
            EXPECT_EQ(here.exchanges, 8 * (device.levels() - 1)) << comm.size();
            EXPECT_EQ(here.exchanges, there.exchanges) << comm.size();
            EXPECT_EQ(here.messages, there.messages) << comm.size();
            EXPECT_EQ(here.bytes, there.bytes) << comm.size();
            EXPECT_EQ(here.reductions, 1);
          } else {
            // Where the last level's cells move on the host, there and back, they are gathered here.
            EXPECT_LE(here.exchanges, there.exchanges) << comm.size();
            EXPECT_GE(here.exchanges, there.exchanges - 2) << comm.size();
          }
        }
      },
      all_ranks);
  precond::detail::one_pass(true);
}

// <M x, y> = <x, M y> with mirrored sweeps.
TEST(MultigridOnDeviceRanks, AreSymmetric) {
  Case c{{12, 10, 9}, {{dirichlet, neumann}, {periodic, periodic}, {dirichlet, dirichlet}}};
  c.options.symmetric = true;
  on_ranks(
      [&](const Communicator& comm) {
        const auto A = operator_of<double>(c, comm);
        const MultigridOnDevice<double, TestMemory> M(A, c.options, {100, 1e-13, 1000, 0});
        Vector<double> x(A->range()), y(A->range()), Mx(A->range()), My(A->range());
        x.assign(A->sampled([](double a, double b, double z) { return std::sin(20 * a + 3 * b) + z; }));
        y.assign(A->sampled([](double a, double b, double z) { return std::cos(15 * z + 7 * b) - a; }));
        cycle(M, x, Mx), cycle(M, y, My);
        const double left = layout::dot(Mx, y), right = layout::dot(x, My);
        EXPECT_NEAR(left, right, 1e-11 * layout::norm(Mx) * layout::norm(y)) << comm.size();
      },
      all_ranks);
}

TEST(MultigridOnDeviceRanks, PreconditionKrylovMethods) {
  Case c{{16, 12, 8}, {{dirichlet, dirichlet}, {periodic, periodic}, {neumann, neumann}}, 1, false, {4, 4, 4}};
  on_ranks(
      [&](const Communicator& comm) {
        const auto A = operator_of<double>(c, comm);
        const MultigridOnDevice<double, TestMemory> M(A, c.options, {50, 1e-3, 1000, 0});
        const op::Csr<double, TestMemory> matrix(A->range(), A->domain(), A->rows());
        const auto f = right_side(*A);
        const auto b = vector_from<double, TestMemory>(f.space(), f.to_host());
        Vector<double, TestMemory> x(A->domain());
        krylov::Options o;
        o.method = krylov::Method::bicgstab, o.rtol = 1e-10;
        const auto report = krylov::solve<double, TestMemory>(matrix, &M, b, x, o);
        EXPECT_TRUE(report.converged()) << comm.size();
        EXPECT_LE(report.iterations, 8) << comm.size();
        Vector<double> u(A->range());
        u.assign(x.to_host());
        EXPECT_LE(residual(*A, f, u), 1e-9 * layout::norm(f)) << comm.size();
      },
      all_ranks);
}

// An error of one rank is that of all, during a solve and while levels are made.
TEST(MultigridOnDeviceRanks, FailTogether) {
  const Case c{{16, 12}, {{dirichlet, dirichlet}, {dirichlet, dirichlet}}};
  on_ranks(
      [&](const Communicator& comm) {
        const auto A = operator_of<double>(c, comm);
        const auto f = right_side(*A);
        Vector<double> u(A->range());
        const MultigridOnDevice<double, TestMemory> M(A, c.options, {20, 1e-3, 1000, 0});
        precond::MultigridSolve s;
        s.callback = [&](int cycles, double) -> bool {
          if (cycles == 2 && comm.rank() == comm.size() - 1) throw Error(ErrorKind::usage, "no more of this");
          return false;
        };
        EXPECT_THROW(solve(M, f, u, s), Error);
        EXPECT_TRUE(solve(M, f, u).converged());
        auto g = f;
        if (comm.rank() == comm.size() - 1 && g.size() > 0) g.data()[0] = std::numeric_limits<double>::quiet_NaN();
        EXPECT_EQ(solve(M, g, u).reason, krylov::Reason::non_finite);
        MultigridOptions o = c.options;
        if (comm.rank() == 0) o.cycle = Cycle::k;
        EXPECT_THROW((MultigridOnDevice<double, TestMemory>(A, o, {20, 1e-3, 1000, 0})), Error);
      },
      all_ranks);
}

}  // namespace
