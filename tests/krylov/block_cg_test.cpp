// block-cg: columns that share one search space. Errors are the smallest in the block Krylov space; dependent columns,
// columns that end early, what is shared and what each column keeps for itself.
#include "support/columns.hpp"
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

template <class T>
using Wide = std::vector<wide_t<T>>;

template <class V>
auto inner(const V& x, const V& y) {
  typename V::value_type sum(0);
  for (std::size_t i = 0; i < x.size(); ++i) sum += wide_conj(x[i]) * y[i];
  return sum;
}

/// ||b_c - A x|| / ||b_c|| of the x in the block Krylov space of P A and P B with the least error in the norm of A, P =
/// diag(m), after each step, in extended precision: x = sum v (v, b) over an A-orthonormal basis.
template <Scalar T>
std::vector<std::vector<double>> least_errors(const Whole<T>& a, const Columns<T>& b, const std::vector<double>& m,
                                              int steps) {
  const auto n = std::size_t(a.n);
  const auto times = [&](const Wide<T>& v) {
    Wide<T> y(n, wide_t<T>(0));
    a.each([&](Global r, Global c, T e) { y[std::size_t(r)] += widen(e) * v[std::size_t(c)]; });
    return y;
  };
  std::vector<Wide<T>> r, basis, images, front;
  for (const auto& column : b) {
    r.emplace_back();
    for (const T& v : column) r.back().push_back(widen(v));
  }
  const auto right = r;
  front = r;
  std::vector<std::vector<double>> history(b.size(), {1.0});
  for (int s = 0; s < steps; ++s) {
    std::vector<Wide<T>> next;
    for (auto v : front) {
      for (std::size_t i = 0; i < n; ++i) v[i] *= (long double)(m[i]);
      for (int round = 0; round < 2; ++round)
        for (std::size_t q = 0; q < basis.size(); ++q) {
          const auto h = inner(images[q], v);
          for (std::size_t i = 0; i < n; ++i) v[i] -= h * basis[q][i];
        }
      auto Av = times(v);
      const long double length = std::sqrt(std::abs(inner(v, Av)));
      for (std::size_t i = 0; i < n; ++i) v[i] /= length, Av[i] /= length;
      for (std::size_t c = 0; c < b.size(); ++c) {
        const auto h = inner(v, right[c]);
        for (std::size_t i = 0; i < n; ++i) r[c][i] -= h * Av[i];
      }
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
        const auto a = shifted_grid<T>(8, 7);
        const auto b = random_columns<T>(a.n, 3);
        const auto A = a.on(comm);
        for (const bool with_P : {false, true}) {
          std::vector<double> m(std::size_t(a.n), 1.0);
          if (with_P)
            for (Global i = 0; i < a.n; ++i) m[std::size_t(i)] = 1 + 0.8 * noise(5, std::uint64_t(i));
          const op::Diagonal<T, Host> P(spread(A->range(), std::vector<T>(m.begin(), m.end())), "test");
          auto o = with(Method::block_cg, 1e-30);
          o.max_iterations = 9;
          const auto expected = least_errors(a, b, m, 9);
          const auto s = solve_all<T>(*A, b, o, with_P ? &P : nullptr);
          for (std::size_t c = 0; c < b.size(); ++c) {
            const auto& history = s.reports.columns[c].history;
            ASSERT_EQ(history.size(), 10u);
            for (std::size_t i = 0; i < history.size(); ++i)
              EXPECT_NEAR(history[i], expected[c][i], (is_wide<T> ? 1e-9 : 1e-2) * expected[c][i])
                  << c << " " << i << (with_P ? " with P" : "");
            EXPECT_NEAR(double(residual_of(a, b[c], s.x[c])), expected[c][9], is_wide<T> ? 1e-10 : 1e-3);
          }
        }
      },
      {2, 3});
}

/// Fewer iterations than cg, on any number of ranks, for both norms, and from a guess.
TYPED_TEST(BlockCg, TakesFewerIterationsThanCg) {
  using T = TypeParam;
  std::set<int> iterations;
  on_ranks([&](const comm::Communicator& comm) {
    const auto a = grid<T>(20, 19);
    const auto b = random_columns<T>(a.n, 6);
    const auto A = a.on(comm);
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max}) {
      auto o = with(Method::cg, is_wide<T> ? 1e-9 : 1e-4);
      o.norm = norm;
      const auto lockstep = solve_all<T>(*A, b, o);
      o.method = Method::block_cg;
      const auto block = solve_all<T>(*A, b, o);
      EXPECT_EQ(block.reports.together, 6);
      EXPECT_LE(block.most(), 0.75 * lockstep.most());
      const auto guessed = solve_all<T>(*A, b, o, nullptr, random_columns<T>(a.n, 6, 50));
      for (std::size_t c = 0; c < b.size(); ++c) {
        for (const auto* s : {&block, &guessed}) {
          EXPECT_TRUE(s->reports.columns[c].converged()) << s->reports.columns[c].detail;
          EXPECT_LE(s->reports.columns[c].residual_norm, 1.001 * *o.rtol);
          if (norm == krylov::Norm::two) {
            EXPECT_LE(residual_of(a, b[c], s->x[c]), 1.01 * *o.rtol);
          }
        }
        EXPECT_EQ(block.reports.columns[c].method, "block-cg");
        EXPECT_EQ(block.reports.columns[c].history.size(), std::size_t(block.reports.columns[c].iterations) + 1);
      }
      if (norm == krylov::Norm::two) iterations.insert(block.most());
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
        const auto o = with(Method::block_cg, is_wide<T> ? 1e-9 : 1e-4);
        auto b = random_columns<T>(a.n, 3);
        const int independent = solve_all<T>(*A, b, o).most();
        b.push_back(b[1]);
        b.push_back(b[0]);
        for (T& v : b.back()) v *= T(real_t<T>(-1e-3));
        b.push_back(b[0]);
        for (std::size_t i = 0; i < b[0].size(); ++i) b.back()[i] += real_t<T>(0.7) * b[2][i];
        b.emplace_back(std::size_t(a.n), T(0));
        b.push_back(b[2]);
        for (std::size_t i = 0; i < b[0].size(); ++i) b.back()[i] *= T(real_t<T>(1 + 1e-12 * noise(9, i)));
        const auto s = solve_all<T>(*A, b, o);
        for (std::size_t c = 0; c < b.size(); ++c) {
          const auto& r = s.reports.columns[c];
          EXPECT_TRUE(r.converged()) << c << r.detail;
          EXPECT_TRUE(r.warnings.empty()) << c << r.warnings.front();
          if (c != 6) {
            EXPECT_LE(residual_of(a, b[c], s.x[c]), 1.01 * *o.rtol) << c;
          }
        }
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
        const double rtol = is_wide<T> ? 1e-10 : 1e-4;
        const auto o = with(Method::block_cg, rtol);
        const auto a = shifted_grid<T>(4, 3);
        for (const int k : {12, 17}) {
          const auto s = solve_all<T>(*a.on(comm), random_columns<T>(a.n, k), o);
          for (const auto& r : s.reports.columns) EXPECT_TRUE(r.converged()) << r.detail;
          EXPECT_LE(s.most(), 2) << k;
        }
        std::vector<double> d(30);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = 1.0 + double(i % 3);
        auto b = random_columns<T>(30, 5);
        b.emplace_back(30, T(0));
        b.back()[4] = T(1);  // an eigenvector
        const auto s = solve_all<T>(*diagonal<T>(d).on(comm), b, o);
        EXPECT_EQ(s.most(), 3);
        EXPECT_LE(s.reports.columns[5].iterations, 2);
        for (std::size_t c = 0; c < b.size(); ++c) EXPECT_TRUE(s.reports.columns[c].converged());
      },
      {2, 3});
}

/// An iteration: one product and one apply of P for all columns, one exchange, two reductions.
TEST(BlockCgCounts, TwoReductionsAnIteration) {
  comm::run_threads(3, [](const comm::Communicator& comm) {
    const auto a = shifted_grid<double>(14, 13);
    const auto b = random_columns<double>(a.n, 4);
    const auto A = a.on(comm);
    const op::Diagonal<double, Host> P(spread(A->range(), std::vector<double>(std::size_t(a.n), 0.2)), "test");
    for (const auto* p : {static_cast<const op::Diagonal<double, Host>*>(nullptr), &P}) {
      auto o = with(Method::block_cg, 1e-30);
      const auto counts = [&](int iterations) {
        o.max_iterations = iterations;
        return solve_all<double>(*A, b, o, p).reports.counts;
      };
      const auto ten = counts(10), five = counts(5);
      EXPECT_EQ(ten.reductions - five.reductions, 10);
      EXPECT_EQ(ten.exchanges - five.exchanges, 5);
      EXPECT_EQ(ten.operator_applies - five.operator_applies, 20);
      EXPECT_EQ(ten.preconditioner_applies - five.preconditioner_applies, p ? 20 : 0);
    }
  });
}

/// Each column has its own scale, goal, limit, reason and callback.
TYPED_TEST(BlockCg, ColumnsKeepTheirOwnReports) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(12, 11);
        const auto A = a.on(comm);
        auto b = random_columns<T>(a.n, 6);
        for (T& v : b[1]) v *= T(real_t<T>(is_wide<T> ? 1e-200 : 1e-25));
        b[2][5] = T(std::numeric_limits<real_t<T>>::quiet_NaN());
        for (T& v : b[3]) v *= T(real_t<T>(1e-6));
        auto o = with(Method::block_cg, is_wide<T> ? 1e-9 : 1e-4);
        o.atol = 1e-8;  // at once for column 1, early for column 3
        std::vector<std::vector<double>> seen(b.size());
        std::vector<T> third(A->domain().local_size());
        o.callback = [&](const krylov::State& s) {
          seen[std::size_t(s.column)].push_back(s.residual_norm);
          if (s.column != 4 || s.iteration != 3) return false;
          s.solution(third.data());
          return true;
        };
        const auto s = solve_all<T>(*A, b, o);
        const auto& r = s.reports.columns;
        EXPECT_TRUE(r[0].converged());
        EXPECT_TRUE(r[1].converged());
        EXPECT_EQ(r[1].iterations, 0);
        EXPECT_EQ(r[2].reason, Reason::non_finite);
        EXPECT_TRUE(r[3].converged());
        EXPECT_LT(r[3].iterations, r[0].iterations);
        EXPECT_EQ(r[4].reason, Reason::stopped);
        EXPECT_EQ(r[4].iterations, 3);
        EXPECT_TRUE(r[5].converged());
        for (std::size_t c = 0; c < b.size(); ++c) EXPECT_EQ(int(seen[c].size()), r[c].iterations) << c;
        for (std::size_t i = 0; i < third.size(); ++i)
          EXPECT_NEAR(std::abs(third[i] - s.x[4][std::size_t(A->domain().begin()) + i]), 0, is_wide<T> ? 1e-13 : 1e-5);
        EXPECT_NEAR(double(residual_of(a, b[4], s.x[4])), seen[4].back(), (is_wide<T> ? 1e-9 : 1e-3));
        EXPECT_LE(residual_of(a, b[0], s.x[0]), 1.01 * std::max(*o.rtol, o.atol / double(norm2(b[0]))));

        o.callback = nullptr, o.max_iterations = 4, o.atol = 0;
        for (const auto& one : solve_all<T>(*A, {b[0], b[4]}, o).reports.columns) {
          EXPECT_EQ(one.reason, Reason::max_iterations);
          EXPECT_EQ(one.iterations, 4);
        }
      },
      {2, 3});
}

/// One column is cg; so are columns whose products cannot be shared, and that is told.
TYPED_TEST(BlockCg, OneColumnIsCg) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(9, 8);
        const auto A = a.on(comm);
        const auto b = random_columns<T>(a.n, 3);
        auto o = with(Method::block_cg, is_wide<T> ? 1e-9 : 1e-4);
        const auto block = solve_all<T>(*A, {b[0]}, o);
        EXPECT_TRUE(block.reports.columns[0].warnings.empty());
        const auto alone = run(*A, b[0], o);
        o.method = Method::cg;
        const auto cg = run(*A, b[0], o);
        EXPECT_EQ(block.x[0], cg.x);
        EXPECT_EQ(alone.x, cg.x);
        EXPECT_EQ(block.reports.columns[0].history, cg.report.history);

        o.method = Method::block_cg, o.engine = krylov::Engine::tasks;
        const auto tasks = solve_all<T>(*A, b, o);
        EXPECT_EQ(tasks.x[0], cg.x);
        ASSERT_FALSE(tasks.reports.columns[0].warnings.empty());
        EXPECT_NE(tasks.reports.columns[0].warnings.front().find("solved by cg"), std::string::npos);
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
        auto b = random_columns<T>(a.n, 4);
        // A smooth column, which A makes shorter than the others; it leads the search, and leaves first.
        for (std::size_t i = 0; i < b[0].size(); ++i)
          b[0][i] = T(real_t<T>(0.01)) * b[0][i] +
                    phase<T>(Global(i)) *
                        T(real_t<T>(std::sin(0.314 * double(i % 9 + 1)) * std::sin(0.349 * double(i / 9 + 1))));
        b[3] = b[1];
        const auto o = with(Method::block_cg, is_wide<T> ? 1e-9 : 1e-4);
        const Custom<T> huge(A->domain(), [&](const Vector<T>& x, Vector<T>& y) {
          A->apply(x, y);
          layout::scale(T(real_t<T>(1e20)), y);
        });
        const auto s = solve_all<T>(huge, b, o);
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
