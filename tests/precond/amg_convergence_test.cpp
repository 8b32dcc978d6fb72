// Iterations with algebraic multigrid as preconditioner.
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>

#include "amg_problems.hpp"
#include "support/communicators.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using layout::Partition;
using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::AmgSmoother;

template <class T>
class AmgConvergenceOf : public testing::Test {};
TYPED_TEST_SUITE(AmgConvergenceOf, Scalars);

// Iterations do not grow with the grid.
TEST(Amg, NeedsAtMostTwentyIterationsOnGrids) {
  const auto self = comm::Communicator::self();
  for (const auto& a : {laplacian(64, 64, 1), laplacian(128, 128, 1), laplacian(256, 256, 1), laplacian(16, 16, 16),
                        laplacian(32, 32, 32)}) {
    const auto s = solve<double>(a, Space::distributed(self, a.n), {});
    EXPECT_LE(s.iterations, 20) << a.n;
    EXPECT_LE(s.residual, 1.1e-8);
  }
}

/// D A D with near-null vectors D^-1 v is the same problem in other units.
TEST(Amg, UnitsOfUnknownsCostFewIterations) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto d = [](Global i) { return std::pow(10.0, noise(8, std::uint64_t(i))); };
        const Global n = 60;
        const auto space = uneven(comm, n * n);
        for (const double along : {1.0, 0.01}) {  // where couplings along y are weak, they are lumped
          const auto a = laplacian(n, n, 1).map([&](Global r, Global c, double v) {
            return r == c ? 2 + 2 * along : std::abs(r - c) == n ? along * v : v;
          });
          const auto b = a.map([&](Global r, Global c, double v) { return d(r) * v * d(c); });
          for (const AmgSmoother smoother : all_smoothers) {
            AmgOptions<double> o;
            o.smoother = smoother;
            const int before = solve<double>(a, space, o).iterations;
            for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(1 / d(i));
            EXPECT_LE(solve<double>(b, space, o).iterations, 1.3 * before + 2) << to_string(smoother) << ", " << along;
          }
        }
      },
      {1, 3});
}

/// The coarse matrix of a matrix that is not Hermitian, coefficients of which vary by 10^4.
TEST(Amg, VaryingDiagonalsOfMatricesThatAreNotHermitian) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 50;
        const auto of = [](Global i) { return std::pow(10.0, 2 * noise(8, std::uint64_t(i))); };
        Whole<double> a;
        a.n = n * n;
        for (Global i = 0; i < a.n; ++i) {
          double sum = 0;
          const auto put = [&](bool there, Global j) {
            const double c = there ? 2 / (1 / of(i) + 1 / of(j)) : 2 * of(i);
            sum += c;
            if (there) a.push(j, j < i ? -1.2 * c : -0.8 * c);
          };
          put(i >= n, i - n);
          put(i % n > 0, i - 1);
          const double before = std::exchange(sum, 0.0);
          const auto at = a.column.size();
          put(i % n + 1 < n, i + 1);
          put(i + n < a.n, i + n);
          a.column.insert(a.column.begin() + std::ptrdiff_t(at), i);
          a.value.insert(a.value.begin() + std::ptrdiff_t(at), 1.01 * (sum + before));
          a.end_row();
        }
        const auto s = solve<double>(a, uneven(comm, a.n), {}, krylov::Method::gmres);
        EXPECT_LE(s.iterations, 60);
        EXPECT_LE(s.residual, 1.1e-8);
      },
      {1, 3});
}

TEST(Amg, RanksCostFewIterations) {
  const auto a = laplacian(96, 96, 1);
  int alone = 0;
  on_ranks([&](const comm::Communicator& comm) {
    if (comm.size() == 1) alone = solve<double>(a, Space::distributed(comm, a.n), {}).iterations;
  });
  if (under_mpi()) alone = solve<double>(a, Space::distributed(comm::Communicator::self(), a.n), {}).iterations;
  on_ranks([&](const comm::Communicator& comm) {
    for (const auto& space : {Space::distributed(comm, a.n), uneven(comm, a.n), gaps(comm, a.n)}) {
      const auto s = solve<double>(a, space, {});
      EXPECT_LE(s.iterations, 1.3 * alone) << comm.size() << " ranks";
      EXPECT_LE(s.residual, 1.1e-8);
    }
  });
}

TEST(Amg, KeepsNodesTogether) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = blocks_of(laplacian(40, 40, 1), 0.4);
    std::vector<Global> counts(std::size_t(comm.size()), 2 * (1600 / comm.size()));
    counts.back() += 3200 - 2 * (1600 / comm.size()) * comm.size();
    const auto space = Space::distributed(comm, Partition::of_counts(counts));
    AmgOptions<double> o;
    o.block = 2;
    o.coarsest = 50;
    const auto s = solve<double>(a, space, o);
    EXPECT_LE(s.iterations, 25);
    EXPECT_LE(s.residual, 1.1e-8);
    const auto A = a.on(space);
    EXPECT_EQ(Amg<double>(*A, o).levels()[1].rows % 2, 0);
    // The same vectors, given, in other coordinates.
    for (Global i = space.begin(); i < space.end(); ++i)
      o.near_null.insert(o.near_null.end(), {1.0, i % 2 ? -1.0 : 1.0});
    EXPECT_NEAR(solve<double>(a, space, o).iterations, s.iterations, 1);
  });
}

/// The nodes of `a` in an order without order, each of its entries v the block v I of so many unknowns.
Whole<double> disordered(const Whole<double>& a, Global block) {
  std::vector<std::pair<double, Global>> order;
  for (Global i = 0; i < a.n; ++i) order.emplace_back(noise(9, std::uint64_t(i)), i);
  std::sort(order.begin(), order.end());
  std::vector<Global> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[std::size_t(order[k].second)] = Global(k);
  std::vector<std::map<Global, double>> rows(order.size());
  a.each([&](Global r, Global c, double v) { rows[std::size_t(place[std::size_t(r)])][place[std::size_t(c)]] = v; });
  Whole<double> b;
  b.n = a.n * block;
  for (const auto& row : rows)
    for (Global i = 0; i < block; ++i) {
      for (const auto& [c, v] : row) b.push(c * block + i, v);
      b.end_row();
    }
  return b;
}

// Many nodes have all their neighbours on other ranks, and the constant is nearly in the null space.
TEST(Amg, ConvergesWhereRowsHaveNoOrder) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto grid =
            laplacian(40, 40, 1, true).map([](Global r, Global c, double v) { return r == c ? v + 1e-6 : v; });
        for (const Global block : {1, 2}) {
          const auto a = disordered(grid, block);
          AmgOptions<double> o;
          o.block = int(block), o.coarsest = 100;
          std::vector<Global> counts(std::size_t(comm.size()), grid.n / comm.size() * block);
          counts.back() += grid.n % comm.size() * block;
          const auto space = Space::distributed(comm, Partition::of_counts(counts));
          // On more ranks aggregates are so small that coarsening soon ends.
          const int most = comm.size() <= 2 ? 25 : 45;
          EXPECT_LE(solve<double>(a, space, o).iterations, most) << "nodes of " << block << ", ranks " << comm.size();
        }
      },
      {1, 2});
}

// With D A D for a diagonal D that varies by 100, constants are far from the null space, and D^-1 1 is near it.
TEST(Amg, TakesNearNullVectors) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto d = [](Global i) { return std::pow(10.0, noise(8, std::uint64_t(i))); };
        const auto a = laplacian(60, 60, 1).map([&](Global r, Global c, double v) { return d(r) * v * d(c); });
        const auto space = uneven(comm, a.n);
        AmgOptions<double> o;
        o.smoother = AmgSmoother::gauss_seidel;  // scaling does not change what it does
        const auto without = solve<double>(a, space, o).iterations;
        for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(1 / d(i));
        const auto with = solve<double>(a, space, o).iterations;
        EXPECT_LE(with, 25);
        EXPECT_GE(without, 1.5 * with);
      },
      {1, 3});
}

// All levels are singular; the right-hand side is in the range.
TEST(AmgDegenerate, SingularNeumannLaplacian) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = laplacian(64, 64, 1, true);
    const auto space = uneven(comm, a.n);
    const auto A = a.on(space);
    AmgOptions<double> o;
    o.coarsest = 60;
    const Amg<double> M(*A, o);
    auto b = random_vector<double>(a.n, 3);
    double mean = 0;
    for (const double v : b) mean += v / double(a.n);
    for (double& v : b) v -= mean;
    Vector<double> x(space);
    krylov::Options k;
    k.method = krylov::Method::cg;
    k.rtol = 1e-8;
    const auto report = krylov::solve<double, Host>(*A, &M, spread(space, b), x, k, true);
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_LE(report.iterations, 25);
    EXPECT_LE(residual_of(a, b, whole(x)), 1.1e-8);
    EXPECT_LE(layout::norm(x), 1e4 * std::sqrt(double(a.n)));
  });
}

TYPED_TEST(AmgConvergenceOf, SolvesComplexHermitianAndConvection) {
  using T = TypeParam;
  if constexpr (std::same_as<real_t<T>, double>) {
    on_ranks(
        [](const comm::Communicator& comm) {
          // Phases of unknowns: D A D^H with |d_i| = 1, whose near-null vector is D 1.
          const auto a = grid<T>(50, 50);
          const auto space = uneven(comm, a.n);
          AmgOptions<T> o;
          for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(phase<T>(i));
          const auto s = solve<T>(a, space, o);
          EXPECT_LE(s.iterations, 20);
          EXPECT_LE(s.residual, 1.1e-8);
          const auto c = grid<T>(50, 50, 0.8);
          const auto t = solve<T>(c, space, o, krylov::Method::gmres);
          EXPECT_LE(t.iterations, 30);
          EXPECT_LE(t.residual, 1.1e-8);
        },
        {1, 3});
  }
}

}  // namespace
}  // namespace tacit::test
