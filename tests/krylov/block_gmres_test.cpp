// block-gmres: columns that share one search space. Residuals are the smallest in the block Krylov space; dependent
// columns, columns that end early, what is shared and what each column keeps for itself.
#include "support/block_methods.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/comm/simulate.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;
using layout::Vector;

template <class T>
class BlockGmres : public testing::Test {};
TYPED_TEST_SUITE(BlockGmres, test::Scalars);

constexpr BlockMethod block_gmres{Method::block_gmres, Method::gmres, false};

/// ||b_c - A P z|| / ||b_c|| of the z in the block Krylov space of A P and B with the least residual, P = diag(m),
/// after each step, in extended precision: r -= q (q, r) over an orthonormal basis of the images.
template <Scalar T>
std::vector<std::vector<double>> least_residuals(const Whole<T>& a, const Columns<T>& b, const std::vector<double>& m,
                                                 int steps) {
  const auto orthonormal = [](std::vector<Wide<T>>& basis, Wide<T> v) {
    for (int round = 0; round < 3; ++round)
      for (const auto& q : basis) subtract(inner(q, v), q, v);
    const long double length = std::sqrt(std::abs(inner(v, v)));
    for (auto& one : v) one /= length;
    basis.push_back(v);
    return v;
  };
  std::vector<Wide<T>> r, space, images, front;
  for (const auto& column : b) r.push_back(widened(column));
  const auto right = r;
  for (const auto& one : r) front.push_back(orthonormal(space, one));
  std::vector<std::vector<double>> history(b.size(), {1.0});
  for (int s = 0; s < steps; ++s) {
    std::vector<Wide<T>> next;
    for (const auto& v : front) {
      const auto image = times(a, scaled(m, v));
      const auto q = orthonormal(images, image);
      for (auto& one : r) subtract(inner(q, one), q, one);
      next.push_back(orthonormal(space, image));
    }
    front = std::move(next);
    for (std::size_t c = 0; c < b.size(); ++c) history[c].push_back(double(norm2(r[c]) / norm2(right[c])));
  }
  return history;
}

TYPED_TEST(BlockGmres, ResidualsAreTheSmallestInTheBlockKrylovSpace) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto how : {krylov::Orthogonalisation::automatic, krylov::Orthogonalisation::bcgs_pip2}) {
          auto o = with(Method::block_gmres, 1e-30);
          o.orthogonalisation = how;
          // After one round of Gram-Schmidt orthogonal to epsilon / 1e-4^2.
          const double error = !is_wide<T> ? 1e-2 : how == krylov::Orthogonalisation::bcgs_pip2 ? 1e-9 : 1e-7;
          expect_least_in_the_space(block_gmres, shifted_grid<T>(8, 7, 0.4), comm, least_residuals<T>, o, error);
        }
      },
      {2, 3});
}

/// Fewer iterations than gmres, on any number of ranks, for both norms, from a guess, and with restarts.
TYPED_TEST(BlockGmres, TakesFewerIterationsThanGmres) {
  using T = TypeParam;
  std::set<int> iterations;
  on_ranks([&](const comm::Communicator& comm) {
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max})
      for (const int restart : {100, 12}) {
        auto o = with(Method::gmres, block_goal<T>());
        o.norm = norm, o.restart = restart;
        // With restarts the space of a cycle says little about that of all cycles.
        const double share = restart == 100 ? 0.75 : 1.1;
        const int most = expect_fewer_iterations(block_gmres, grid<T>(20, 19, 0.2), comm, o, share);
        if (norm == krylov::Norm::two && restart == 100) iterations.insert(most);
      }
  });
  EXPECT_LE(*iterations.rbegin() - *iterations.begin(), 1);
}

/// Equal, proportional and nearly equal right-hand sides, sums of others, and zeros: as without them.
TYPED_TEST(BlockGmres, DependentColumnsDoNotBreakIt) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(15, 14, 0.3);
        const auto A = a.on(comm);
        auto o = with(Method::block_gmres, block_goal<T>());
        o.restart = 60;
        const int independent = block_gmres.solve<T>(*A, random_columns<T>(a.n, 3), o).most();
        const auto b = dependent_columns<T>(a.n, {1e-12, 1e-8});
        const auto s = block_gmres.solve<T>(*A, b, o);
        expect_solved(block_gmres, a, b, s, *o.rtol);
        EXPECT_EQ(s.reports.columns[6].iterations, 0);
        EXPECT_LE(std::abs(s.most() - independent), is_wide<T> ? 2 : 4);
        for (const auto& r : s.reports.columns) EXPECT_EQ(r.restarts, 0);
        // A step multiplies by three directions, or by one more for each of those that are nearly equal.
        EXPECT_LE(s.reports.counts.operator_applies, 5 * s.most() + int(b.size()));
      },
      {2, 3});
}

/// More columns than unknowns; as many as make the block Krylov space whole; few eigenvalues; an eigenvector among
/// others.
TYPED_TEST(BlockGmres, EndsWhereTheSpaceIsExhausted) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<double> d(30);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = double(i % 3) - 1.5;
        expect_exhausted(block_gmres, shifted_grid<T>(4, 3, 0.4), d, 15, comm);
      },
      {2, 3});
}

/// An iteration: one product and one apply of P for all columns, one exchange, one reduction.
TEST(BlockGmresCounts, OneReductionAnIteration) {
  comm::run_threads(3, [](const comm::Communicator& comm) {
    const auto a = shifted_grid<double>(14, 13, 0.4);
    for (const bool with_P : {false, true}) {
      const auto n = counts_between(block_gmres, 3, 6, a, comm, with_P);
      EXPECT_EQ(n.reductions, 3);
      EXPECT_EQ(n.exchanges, 3);
      EXPECT_EQ(n.operator_applies, 12);
      EXPECT_EQ(n.preconditioner_applies, with_P ? 12 : 0);
      // Twice orthogonalised where a cycle has reduced the residual by epsilon^(1/4).
      EXPECT_EQ(counts_between(block_gmres, 16, 19, a, comm, with_P).reductions, 6);
    }
  });
}

/// Columns that are solved are multiplied no more, and what others need of their directions stays.
TYPED_TEST(BlockGmres, SolvedColumnsTakeNoProducts) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(15, 14, 0.3);
        const auto A = a.on(comm);
        auto b = random_columns<T>(a.n, 5);
        for (std::size_t c = 1; c < b.size(); ++c)
          for (T& v : b[c]) v *= T(real_t<T>(is_wide<T> ? 1e-6 : 1e-3));
        auto o = with(Method::block_gmres, block_goal<T>());
        o.restart = 100;
        o.atol = block_goal<T>() * double(norm2(b[0]));  // early for all but the first
        const auto s = block_gmres.solve<T>(*A, b, o);
        const auto& r = s.reports.columns;
        for (const auto& one : r) EXPECT_TRUE(one.converged()) << one.detail;
        EXPECT_LT(r[1].iterations, 0.6 * r[0].iterations);
        EXPECT_LE(s.reports.counts.operator_applies, 5 * r[1].iterations + (r[0].iterations - r[1].iterations) + 10);
        const auto alone = run<T>(*A, b[0], with(Method::gmres, block_goal<T>()));
        EXPECT_LE(r[0].iterations, alone.report.iterations);
      },
      {2, 3});
}

/// Each column has its own scale, goal, limit, reason and callback.
TYPED_TEST(BlockGmres, ColumnsKeepTheirOwnReports) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(12, 11, 0.3);
        const auto P = diagonal_precond<T>(a.on(comm)->range(), std::vector<double>(std::size_t(a.n), 0.3));
        auto o = with(Method::block_gmres, block_goal<T>());
        o.restart = 50;
        expect_own_reports<T>(block_gmres, a, comm, o, nullptr);
        expect_own_reports<T>(block_gmres, a, comm, o, &P);
      },
      {2, 3});
}

/// One column is gmres; so are columns whose products cannot be shared, and that is told.
TYPED_TEST(BlockGmres, OneColumnIsGmres) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(9, 8, 0.3);
        const auto A = a.on(comm);
        auto o = with(Method::block_gmres, block_goal<T>());
        o.restart = 10;
        const int iterations = expect_one_column_is_alone(block_gmres, a, comm, o);
        const auto b = random_vector<T>(a.n, 3);
        const auto same = block_gmres.solve<T>(*A, {b, b}, o);  // one direction
        for (const auto& r : same.reports.columns) EXPECT_EQ(r.iterations, iterations);
      },
      {2});
}

/// More columns than share a cycle begin when one has ended.
TEST(BlockGmresGroups, MoreColumnsThanShareACycle) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(14, 13, 0.3);
        const auto b = random_columns<double>(a.n, krylov::most_columns_of_a_cycle + 5);
        auto o = with(Method::block_gmres, 1e-9);
        o.restart = 5;
        const auto s = block_gmres.solve<double>(*a.on(comm), b, o);
        EXPECT_EQ(s.reports.together, krylov::most_columns_of_a_cycle);
        expect_solved(block_gmres, a, b, s, *o.rtol);
      },
      {2});
}

/// An operator without a known size, whose columns have scales of their own.
TYPED_TEST(BlockGmres, OperatorsOfAnySize) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(9, 8, 0.3);
        const auto A = a.on(comm);
        const auto b = columns_of_many_scales<T>();
        const auto P = diagonal_precond<T>(A->range(), std::vector<double>(std::size_t(a.n), 3e-21));
        for (const auto* p : {static_cast<const op::Diagonal<T, Host>*>(nullptr), &P})
          for (const auto side : {krylov::Side::right, krylov::Side::flexible}) {
            auto o = with(Method::block_gmres, block_goal<T>());
            o.side = side, o.restart = 50;
            auto s = block_gmres.solve<T>(huge(*A), b, o, p);
            for (auto& x : s.x)
              for (T& v : x) v *= T(real_t<T>(1e20));
            expect_solved(block_gmres, a, b, s, *o.rtol);
            for (const auto& r : s.reports.columns) EXPECT_EQ(r.restarts, 0);
          }
      },
      {2, 3});
}

/// x -> diag(1, c, 1, c, ...) x with another c in each call.
template <Scalar T>
class Changing final : public op::Operator<T, Host>, public op::Varying {
 public:
  explicit Changing(const layout::Space& space) : op::Operator<T, Host>(space, space) {}
  std::string name() const override { return "changing"; }

 protected:
  int begin(const Vector<T>&, Vector<T>&, bool) const override { return 0; }
  void finish(const Vector<T>& x, Vector<T>& y, bool, int) const override {
    const auto k = std::size_t(x.columns());
    for (std::size_t i = 0; i < x.size(); ++i)
      y.data()[i] = T(real_t<T>((std::size_t(x.space().begin()) + i / k) % 2 ? 1 + calls_ % 5 : 1)) * x.data()[i];
    ++calls_;
  }

 private:
  mutable int calls_ = 0;
};

/// By itself flexible, with a P that changes from call to call: no restart but by the length of cycles.
TYPED_TEST(BlockGmres, TakesAPreconditionerThatChanges) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(9, 8, 0.3);
        const auto A = a.on(comm);
        const auto b = random_columns<T>(a.n, 4);
        auto o = with(Method::block_gmres, block_goal<T>());
        o.restart = 40;
        const Changing<T> P(A->range());
        const auto s = block_gmres.solve<T>(*A, b, o, &P);
        expect_solved(block_gmres, a, b, s, *o.rtol);
        for (const auto& r : s.reports.columns) EXPECT_EQ(r.restarts, 0);
        EXPECT_LT(s.most(), 40);
        o.side = krylov::Side::right;
        const auto right = block_gmres.solve<T>(*A, b, o, &P);
        ASSERT_FALSE(right.reports.columns[0].warnings.empty());
        EXPECT_NE(right.reports.columns[0].warnings.front().find("changes from call to call"), std::string::npos);
      },
      {2, 3});
}

/// Singular matrices: b in the range is solved, others fail for a reason, and no column is said to have converged.
TYPED_TEST(BlockGmres, SingularMatrices) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<double> d(40);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = double(i % 4);  // 0, 1, 2, 3
        const auto a = diagonal<T>(d);
        const auto A = a.on(comm);
        auto b = random_columns<T>(40, 3);
        auto o = with(Method::block_gmres, block_goal<T>());
        o.fallbacks = false;
        const auto outside = block_gmres.solve<T>(*A, b, o);
        for (const auto& r : outside.reports.columns) {
          EXPECT_NE(r.reason, Reason::converged);
          EXPECT_FALSE(r.detail.empty());
        }
        for (auto& column : b)
          for (std::size_t i = 0; i < column.size(); i += 4) column[i] = T(0);
        const auto inside = block_gmres.solve<T>(*A, b, o);
        expect_solved(block_gmres, a, b, inside, *o.rtol);
        EXPECT_EQ(inside.most(), 3);
      },
      {2, 3});
}

/// A product that is not finite is no result.
TEST(BlockGmresNaN, ProductsThatAreNotFinite) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<double>(9, 8, 0.3);
        const auto A = a.on(comm);
        int calls = 0;
        const Custom<double> broken(A->domain(), [&](const Vector<double>& x, Vector<double>& y) {
          A->apply(x, y);
          if (++calls > 3 && y.size() > 0) y.data()[0] = std::numeric_limits<double>::quiet_NaN();
        });
        auto o = with(Method::block_gmres, 1e-9);
        o.fallbacks = false;
        const auto s = block_gmres.solve<double>(broken, random_columns<double>(a.n, 3), o);
        for (std::size_t c = 0; c < s.x.size(); ++c) {
          EXPECT_EQ(s.reports.columns[c].reason, Reason::non_finite);
          for (const double v : s.x[c]) EXPECT_TRUE(std::isfinite(v));
        }
      },
      {2});
}

TEST(BlockGmresBits, SimulatedRanksHaveThoseOfThreads) {
  const auto run = [](Columns<double>& parts) {
    return [&parts](const comm::Communicator& comm) {
      const auto a = grid<double>(13, 9, 0.3);
      const auto s =
          block_gmres.solve<double>(*a.on(comm), random_columns<double>(a.n, 5), with(Method::block_gmres, 1e-8));
      for (const auto& x : s.x)
        parts[std::size_t(comm.rank())].insert(parts[std::size_t(comm.rank())].end(), x.begin(), x.end());
    };
  };
  Columns<double> threads(3), simulated(3);
  comm::run_threads(3, run(threads));
  comm::simulate(3, comm::MachineModel{}, run(simulated));
  EXPECT_EQ(threads, simulated);
}

}  // namespace
}  // namespace tacit::test
