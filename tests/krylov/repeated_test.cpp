// Many solves with one operator: the residuals of each are true, an s-step method keeps its basis, and a solve has two
// reductions beside those of its blocks.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/repeated.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Norm;
using krylov::Options;
using krylov::Repeated;

Options options(Method method, int step, double rtol = 1e-3, Norm norm = Norm::two) {
  Options o;
  o.method = method, o.rtol = rtol, o.norm = norm, o.check_memory = false;
  if (step > 0) o.step = step;
  return o;
}

/// max |b - A x| or its 2-norm, over that of b.
template <class T>
double true_residual(const Whole<T>& a, const std::vector<T>& b, const std::vector<T>& x, Norm norm) {
  if (norm == Norm::two) return double(residual_of(a, b, x));
  const auto Ax = a.times(x);
  double most = 0, of_b = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    most = std::max(most, double(std::abs(widen(b[i]) - Ax[i]))), of_b = std::max(of_b, double(std::abs(b[i])));
  return most / of_b;
}

template <class T>
class Repeats : public testing::Test {};
TYPED_TEST_SUITE(Repeats, test::DoubleScalars);

TYPED_TEST(Repeats, EverySolveHasATrueResidual) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = shifted_grid<T>(18, 16);
    const std::shared_ptr<const op::Operator<T, Host>> A = a.on(comm);
    for (const Norm norm : {Norm::two, Norm::max})
      for (const auto& [method, step] : {std::pair{Method::bicgstab, 0},
                                         {Method::ca_bicgstab, 4},
                                         {Method::ca_cg, 8},
                                         {Method::gmres, 0},
                                         {Method::ca_gmres, 5}}) {
        Repeated<T> solves(A, options(method, step, 1e-6, norm), true);
        int first = 0;
        for (int k = 0; k < 4; ++k) {
          const auto b = random_vector<T>(a.n, 3 + k);
          const auto f = spread<T, Host>(A->range(), b);
          layout::Vector<T> x(A->domain());
          layout::fill(x, T(5));  // is overwritten
          const auto report = solves.solve(f, x);
          EXPECT_TRUE(report.converged()) << to_string(method) << ' ' << k << ": " << report.detail;
          const double truth = true_residual(a, b, whole(x), norm);
          EXPECT_LE(truth, 1.0001e-6) << to_string(method) << ' ' << k;
          EXPECT_NEAR(truth, report.residual_norm, 1e-3 * truth);
          if (k == 0) first = report.iterations;
          EXPECT_NEAR(report.iterations, first, 0.25 * first + 1) << to_string(method);
        }
        layout::Vector<T> zero(A->range()), x(A->domain());
        layout::fill(x, T(1));
        EXPECT_TRUE(solves.solve(zero, x).converged());
        EXPECT_EQ(layout::norm(x), 0);
      }
  });
}

TEST(Repeats, TwoReductionsBesideThoseOfBlocks) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(24, 24);
    const std::shared_ptr<const op::Operator<double, Host>> A = a.on(comm);
    for (const auto& [method, s] : {std::pair{Method::ca_bicgstab, 4}, {Method::ca_bicgstab, 8}})
      for (const Norm norm : {Norm::two, Norm::max}) {
        Repeated<double> solves(A, options(method, s, 1e-3, norm), true);
        for (int k = 0; k < 4; ++k) {
          const auto f = spread<double, Host>(A->range(), random_vector<double>(a.n, 11 + k));
          layout::Vector<double> x(A->domain());
          const auto before = comm.counters();
          const auto report = solves.solve(f, x);
          const auto spent = comm.counters() - before;
          ASSERT_TRUE(report.converged());
          EXPECT_EQ(report.counts.reductions, spent.reductions);
          // The first solve begins with blocks of 1, 2, 4 .. With the largest magnitude what seems to be at the goal
          // is looked at once more.
          const int more = (k == 0 ? int(std::bit_width(unsigned(s))) - 1 : 0) + (norm == Norm::max ? 1 : 0);
          EXPECT_LE(report.counts.reductions, report.iterations / s + 3 + more)
              << to_string(method) << ' ' << s << ", solve " << k << ": " << report.iterations << " iterations";
        }
      }
  });
}

TEST(Repeats, InACollectiveCallNothingElseIsSent) {
  if (under_mpi()) GTEST_SKIP() << "one process simulates all ranks";
  comm::MachineModel m;
  m.latency = 1, m.overhead = m.gap = m.noise = m.bandwidth = m.flop_rate = 0;
  m.progress = comm::MachineModel::Progress::ideal;
  comm::simulate(8, m, [](const comm::Communicator& comm) {
    const std::shared_ptr<const op::Operator<double, Host>> A = grid<double>(16, 16).on(comm);
    Repeated<double> solves(A, options(Method::ca_bicgstab, 4), true);
    layout::Vector<double> f(A->range()), x(A->domain());
    layout::fill(f, 1.0);
    comm::collective(comm, [&] {
      for (int k = 0; k < 3; ++k) {
        comm::restart_clocks(comm);
        const auto report = solves.solve(f, x);
        const auto times = comm::read_clocks(comm);
        EXPECT_NEAR(times.seconds("sum"), 3.0 * double(report.counts.reductions), 1e-9);  // three rounds each
        // The first solve finds the rows around those of a rank.
        EXPECT_TRUE(times.seconds("agree") == 0 || k == 0) << k;
      }
    });
  });
}

// Right-hand sides of a coarsest level near the end of a solve: as small as rounding errors, or zero, also between
// others; and more ranks than rows.
TEST(Repeats, RightHandSidesOfAnySize) {
  on_ranks([](const comm::Communicator& comm) {
    for (const Global n : {2, 8}) {
      const auto a = grid<double>(n, n);
      const std::shared_ptr<const op::Operator<double, Host>> A = a.on(comm);
      for (const auto method : {Method::ca_bicgstab, Method::ca_cg, Method::bicgstab})
        for (const Norm norm : {Norm::two, Norm::max}) {
          Repeated<double> solves(A, options(method, method == Method::bicgstab ? 0 : 4, 1e-3, norm), true);
          int k = 0;
          for (const double size : {1.0, 1e-22, 0.0, 1e-300, 1e250, 1.0}) {
            auto b = random_vector<double>(a.n, std::uint64_t(20 + k++));
            for (double& v : b) v *= size;
            const auto f = spread<double, Host>(A->range(), b);
            layout::Vector<double> x(A->domain());
            const auto report = solves.solve(f, x);
            EXPECT_TRUE(report.converged()) << to_string(method) << ' ' << size << ": " << report.detail;
            if (size > 1e-200) {
              EXPECT_LE(true_residual(a, b, whole(x), norm), 1.001e-3) << to_string(method) << ' ' << size;
            }
            if (size == 0) {
              EXPECT_EQ(layout::norm(x), 0);
            }
          }
        }
    }
  });
}

TEST(Repeats, AnErrorOfOneRankEndsAll) {
  on_ranks([](const comm::Communicator& world) {
    const comm::Communicator comm = world.duplicate();  // on which no call is open
    const auto a = shifted_grid<double>(12, 12);
    const std::shared_ptr<const op::Operator<double, Host>> A = a.on(comm);
    int products = 0;
    const auto faulty = std::make_shared<Custom<double>>(A->range(), [&](const auto& x, auto& y) {
      if (++products == 9 && comm.rank() + 1 == comm.size()) throw Error(ErrorKind::input, "the product has failed");
      A->apply(x, y);
    });
    Repeated<double> solves(faulty, options(Method::ca_bicgstab, 4, 1e-12), true);
    layout::Vector<double> f(A->range()), x(A->domain());
    layout::fill(f, 1.0);
    const auto solve = [&] { return solves.solve(f, x); };
    EXPECT_THROW(solve(), Error);      // agreed on at its end
    EXPECT_TRUE(solve().converged());  // and the next one works
    products = 0;
    EXPECT_THROW(comm::collective(comm, solve), Error);  // agreed on at the end of the call around it
    EXPECT_TRUE(comm::collective(comm, solve).converged());
  });
}

}  // namespace
}  // namespace tacit::test
