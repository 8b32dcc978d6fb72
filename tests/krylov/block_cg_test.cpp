// block-cg: columns that share one search space. Errors are the smallest in the block Krylov space; dependent columns,
// columns that end early, what is shared and what each column keeps for itself.
#include "support/block_methods.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/comm/simulate.hpp>
#include <tacit/krylov/columns.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/function.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::NullSpace;
using krylov::Options;
using krylov::Reason;
using layout::Vector;

template <class T>
class BlockCg : public testing::Test {};
TYPED_TEST_SUITE(BlockCg, test::Scalars);

constexpr BlockMethod block_cg{Method::block_cg, Method::cg, true};

/// ||b_c - A x|| / ||b_c|| of the x in the block Krylov space of P A and P B with the least error in the norm of A, P =
/// diag(m), after each step, in extended precision: x = sum v (v, b) over an A-orthonormal basis.
template <Scalar T>
std::vector<std::vector<double>> least_errors(const Whole<T>& a, const Columns<T>& b, const std::vector<double>& m,
                                              int steps) {
  std::vector<Wide<T>> r, basis, images, front;
  for (const auto& column : b) r.push_back(widened(column));
  const auto right = r;
  front = r;
  std::vector<std::vector<double>> history(b.size(), {1.0});
  for (int s = 0; s < steps; ++s) {
    std::vector<Wide<T>> next;
    for (const auto& before : front) {
      auto v = scaled(m, before);
      for (int round = 0; round < 2; ++round)
        for (std::size_t q = 0; q < basis.size(); ++q) subtract(inner(images[q], v), basis[q], v);
      auto Av = times(a, v);
      const long double length = std::sqrt(std::abs(inner(v, Av)));
      for (std::size_t i = 0; i < v.size(); ++i) v[i] /= length, Av[i] /= length;
      for (std::size_t c = 0; c < b.size(); ++c) subtract(inner(v, right[c]), Av, r[c]);
      basis.push_back(v), images.push_back(Av), next.push_back(Av);
    }
    front = std::move(next);
    for (std::size_t c = 0; c < b.size(); ++c) history[c].push_back(double(norm2(r[c]) / norm2(right[c])));
  }
  return history;
}

TYPED_TEST(BlockCg, ErrorsAreTheSmallestInTheBlockKrylovSpace) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        expect_least_in_the_space(block_cg, shifted_grid<T>(8, 7), comm, least_errors<T>, with(Method::block_cg, 1e-30),
                                  is_wide<T> ? 1e-9 : 1e-2);
      },
      {2, 3});
}

/// Fewer iterations than cg, on any number of ranks, for both norms, and from a guess.
TYPED_TEST(BlockCg, TakesFewerIterationsThanCg) {
  using T = TypeParam;
  std::set<int> iterations;
  on_ranks([&](const comm::Communicator& comm) {
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max}) {
      auto o = with(Method::cg, block_goal<T>());
      o.norm = norm;
      const int most = expect_fewer_iterations(block_cg, grid<T>(20, 19), comm, o, 0.75);
      if (norm == krylov::Norm::two) iterations.insert(most);
    }
  });
  EXPECT_LE(*iterations.rbegin() - *iterations.begin(), 1);
}

/// Equal, proportional and nearly equal right-hand sides, sums of others, and zeros: as without them.
TYPED_TEST(BlockCg, DependentColumnsDoNotBreakIt) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(15, 14);
        const auto A = a.on(comm);
        const auto o = with(Method::block_cg, block_goal<T>());
        const int independent = solve_all<T>(*A, random_columns<T>(a.n, 3), o).most();
        const auto b = dependent_columns<T>(a.n, {1e-12});
        const auto s = solve_all<T>(*A, b, o);
        expect_solved(block_cg, a, b, s, *o.rtol);
        EXPECT_EQ(s.reports.columns[6].iterations, 0);
        EXPECT_LE(std::abs(s.most() - independent), is_wide<T> ? 2 : 4);
      },
      {2, 3});
}

/// More columns than unknowns; as many as make the block Krylov space whole; few eigenvalues; an eigenvector among
/// others.
TYPED_TEST(BlockCg, EndsWhereTheSpaceIsExhausted) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<double> d(30);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = 1.0 + double(i % 3);
        expect_exhausted(block_cg, shifted_grid<T>(4, 3), d, 17, comm);
      },
      {2, 3});
}

/// An iteration: one product and one apply of P for all columns, one exchange, two reductions.
TEST(BlockCgCounts, TwoReductionsAnIteration) {
  comm::run_threads(3, [](const comm::Communicator& comm) {
    for (const bool with_P : {false, true}) {
      const auto n = counts_between(block_cg, 5, 10, shifted_grid<double>(14, 13), comm, with_P);
      EXPECT_EQ(n.reductions, 10);
      EXPECT_EQ(n.exchanges, 5);
      EXPECT_EQ(n.operator_applies, 20);
      EXPECT_EQ(n.preconditioner_applies, with_P ? 20 : 0);
    }
  });
}

/// Each column has its own scale, goal, limit, reason and callback.
TYPED_TEST(BlockCg, ColumnsKeepTheirOwnReports) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        expect_own_reports<T>(block_cg, grid<T>(12, 11), comm, with(Method::block_cg, block_goal<T>()), nullptr);
      },
      {2, 3});
}

/// One column is cg; so are columns whose products cannot be shared, and that is told.
TYPED_TEST(BlockCg, OneColumnIsCg) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        expect_one_column_is_alone(block_cg, grid<T>(9, 8), comm, with(Method::block_cg, block_goal<T>()));
      },
      {2});
}

/// More columns than share one space begin when others have ended.
TEST(BlockCgGroups, MoreColumnsThanShareASpace) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(14, 13);
        const auto b = random_columns<double>(a.n, krylov::most_columns_of_a_block + 5);
        const auto s = solve_all<double>(*a.on(comm), b, with(Method::block_cg, 1e-9));
        EXPECT_EQ(s.reports.together, krylov::most_columns_of_a_block);
        for (std::size_t c = 0; c < b.size(); ++c) {
          EXPECT_TRUE(s.reports.columns[c].converged());
          EXPECT_LE(residual_of(a, b[c], s.x[c]), 1.01e-9) << c;
        }
        EXPECT_GT(s.reports.columns.back().iterations, s.reports.columns.front().iterations);
      },
      {2});
}

/// An operator without a known size, whose columns have scales of their own; one that is negative definite.
TYPED_TEST(BlockCg, OperatorsOfAnySize) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(9, 8);
        const auto A = a.on(comm);
        const auto b = columns_of_many_scales<T>();
        const auto o = with(Method::block_cg, block_goal<T>());
        const auto s = solve_all<T>(huge(*A), b, o);
        const auto minus = a.map([](Global, Global, T v) { return -v; });
        const auto negative = solve_all<T>(*minus.on(comm), b, o);
        for (std::size_t c = 0; c < b.size(); ++c) {
          EXPECT_TRUE(s.reports.columns[c].converged()) << s.reports.columns[c].detail;
          EXPECT_EQ(s.reports.columns[c].restarts, 0);
          EXPECT_TRUE(negative.reports.columns[c].converged()) << negative.reports.columns[c].detail;
          EXPECT_EQ(negative.reports.columns[c].method, "block-cg");
          EXPECT_LE(residual_of(minus, b[c], negative.x[c]), 1.01 * *o.rtol);
        }
      },
      {2, 3});
}

/// A singular matrix with a known null space, with and without P; the projections of a block are one reduction.
TYPED_TEST(BlockCg, NullSpacesAreProjected) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto line = tridiagonal<T>(60, -1, 2, -1).map([](Global r, Global c, T v) {
          return r == c && (r == 0 || r == 59) ? T(1) : v;
        });
        const auto A = line.on(comm);
        std::vector<T> zero(60), m(60);
        for (std::size_t i = 0; i < zero.size(); ++i) {
          zero[i] = phase<T>(Global(i));
          m[i] = T(real_t<T>(0.5 + 0.2 * noise(7, i)));
        }
        std::vector<Vector<T>> right(1, spread(A->domain(), zero));
        const NullSpace<T> null_space(std::move(right));
        const op::Diagonal<T, Host> P(spread(A->range(), m), "test");
        const auto b = random_columns<T>(60, 4);
        auto o = with(Method::block_cg, is_wide<T> ? 1e-9 : 1e-3);
        for (const auto* p : {static_cast<const op::Diagonal<T, Host>*>(nullptr), &P}) {
          const auto s = solve_all<T>(*A, b, o, p, {}, &null_space);
          o.method = Method::cg;
          const auto cg = solve_all<T>(*A, b, o, p, {}, &null_space);
          o.method = Method::block_cg;
          EXPECT_LT(s.most(), cg.most());
          for (std::size_t c = 0; c < b.size(); ++c) {
            EXPECT_TRUE(s.reports.columns[c].converged()) << s.reports.columns[c].detail;
            EXPECT_EQ(s.reports.columns[c].method, "block-cg");
            T along(0);
            for (std::size_t i = 0; i < zero.size(); ++i) along += conj(zero[i]) * s.x[c][i];
            EXPECT_LE(std::abs(along), (is_wide<T> ? 1e-12 : 1e-3) * double(norm2(s.x[c])));
          }
        }
        const auto reductions = [&](int iterations) {
          o.rtol = 1e-30, o.max_iterations = iterations;
          return solve_all<T>(*A, b, o, &P, {}, &null_space).reports.counts.reductions;
        };
        if (comm.size() > 1) {
          EXPECT_EQ(reductions(8) - reductions(4), 3 * 4);
        }
      },
      {2, 3});
}

/// Matrices and preconditioners that are not definite: the failure that cg names, for each column; then cg goes on.
TYPED_TEST(BlockCg, NamesWhatItCannotUse) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(9, 8);
        const auto indefinite = grid<T>(9, 8).map([](Global r, Global c, T v) { return r == c ? v - T(2) : v; });
        const auto A = a.on(comm);
        const auto b = random_columns<T>(a.n, 3);
        std::vector<T> d(std::size_t(a.n), T(1));
        for (std::size_t i = 0; i < d.size(); i += 2) d[i] = T(-1);
        const op::Diagonal<T, Host> P(spread(A->range(), d), "test");
        auto o = with(Method::block_cg, is_wide<T> ? 1e-9 : 1e-5);
        o.fallbacks = false;
        auto s = solve_all<T>(*A, b, o, &P);
        for (const auto& r : s.reports.columns) {
          EXPECT_EQ(r.reason, Reason::breakdown);
          EXPECT_EQ(r.method, "block-cg");
          EXPECT_NE(r.detail.find("(r, P r)"), std::string::npos) << r.detail;
          EXPECT_NE(r.detail.find("the preconditioner is not positive definite"), std::string::npos) << r.detail;
        }
        o.fallbacks = true;
        s = solve_all<T>(*indefinite.on(comm), b, o);
        for (const auto& r : s.reports.columns) {
          EXPECT_NE(r.reason, Reason::converged);
          EXPECT_FALSE(r.warnings.empty());
          EXPECT_NE(r.warnings.front().find("cg went on from there"), std::string::npos) << r.warnings.front();
          EXPECT_NE(r.detail.find("the matrix is not positive definite"), std::string::npos) << r.detail;
        }
      },
      {2, 3});
}

TEST(BlockCgBits, SimulatedRanksHaveThoseOfThreads) {
  const auto run = [](Columns<double>& parts) {
    return [&parts](const comm::Communicator& comm) {
      const auto a = grid<double>(13, 9);
      const auto s = solve_all<double>(*a.on(comm), random_columns<double>(a.n, 5), with(Method::block_cg, 1e-8));
      for (const auto& x : s.x)
        parts[std::size_t(comm.rank())].insert(parts[std::size_t(comm.rank())].end(), x.begin(), x.end());
    };
  };
  Columns<double> threads(3), simulated(3);
  comm::run_threads(3, run(threads));
  comm::simulate(3, comm::MachineModel{}, run(simulated));
  EXPECT_EQ(threads, simulated);
}

/// Badly conditioned matrices, whose residuals become nearly dependent: the overlap S^H W is taken into account.
TEST(BlockCgHard, NearlyDependentResiduals) {
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<double> d(400);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = std::pow(10.0, -6.0 * double(i) / 399);
        for (std::size_t i = 0; i < 30; ++i)
          d[i] = 1e3 + double(i);  // a cluster: all residuals turn to the rest at once
        const auto a = diagonal<double>(d);
        const auto A = a.on(comm);
        auto b = random_columns<double>(400, 24);
        for (std::size_t c = 1; c < b.size(); ++c)
          for (std::size_t i = 0; i < 400; ++i) b[c][i] = b[0][i] + 1e-4 * b[c][i];
        auto o = with(Method::block_cg, 1e-8);
        o.fallbacks = false, o.max_iterations = 20000;
        const auto s = solve_all<double>(*A, b, o);
        o.method = Method::cg;
        const auto cg = solve_all<double>(*A, {b[0]}, o);
        for (std::size_t c = 0; c < b.size(); ++c) {
          EXPECT_TRUE(s.reports.columns[c].converged()) << s.reports.columns[c].detail;
          EXPECT_EQ(s.reports.columns[c].method, "block-cg");
          EXPECT_LE(residual_of(a, b[c], s.x[c]), 1.01e-8);
        }
        EXPECT_LT(s.most(), 0.25 * cg.most());
      },
      {2});
}

}  // namespace
}  // namespace tacit::test
