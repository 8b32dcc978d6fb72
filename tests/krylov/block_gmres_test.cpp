// block-gmres: columns that share one search space. Residuals are the smallest in the block Krylov space; dependent
// columns, columns that end early, what is shared and what each column keeps for itself.
#include "support/columns.hpp"
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

template <class T>
using Wide = std::vector<wide_t<T>>;

template <class T>
double goal() {
  return is_wide<T> ? 1e-9 : 1e-4;
}
template <Scalar T>
SolvedColumns<T> solve_any(const op::Operator<T, Host>& A, const Columns<T>& b, const Options& options,
                           const std::type_identity_t<op::Operator<T, Host>>* P = nullptr,
                           const Columns<T>& guess = {}) {
  return solve_all<T>(A, b, options, P, guess, nullptr, false);
}
/// Every column has converged, by this method and without a warning, and b - A x says so, too.
template <Scalar T>
void expect_solved(const Whole<T>& a, const Columns<T>& b, const SolvedColumns<T>& s, double rtol) {
  for (std::size_t c = 0; c < b.size(); ++c) {
    const auto& r = s.reports.columns[c];
    EXPECT_TRUE(r.converged()) << c << " " << r.detail;
    EXPECT_EQ(r.method, "block-gmres") << c;
    EXPECT_TRUE(r.warnings.empty()) << c << r.warnings.front();
    if (norm2(b[c]) > 0) {
      EXPECT_LE(residual_of(a, b[c], s.x[c]), 1.01 * rtol) << c;
    }
  }
}

template <class V>
auto inner(const V& x, const V& y) {
  typename V::value_type sum(0);
  for (std::size_t i = 0; i < x.size(); ++i) sum += wide_conj(x[i]) * y[i];
  return sum;
}

/// ||b_c - A P z|| / ||b_c|| of the z in the block Krylov space of A P and B with the least residual, P = diag(m),
/// after each step, in extended precision: r -= q (q, r) over an orthonormal basis of the images.
template <Scalar T>
std::vector<std::vector<double>> least_residuals(const Whole<T>& a, const Columns<T>& b, const std::vector<double>& m,
                                                 int steps) {
  const auto n = std::size_t(a.n);
  const auto times = [&](Wide<T> v) {
    for (std::size_t i = 0; i < n; ++i) v[i] *= (long double)(m[i]);
    Wide<T> y(n, wide_t<T>(0));
    a.each([&](Global r, Global c, T e) { y[std::size_t(r)] += widen(e) * v[std::size_t(c)]; });
    return y;
  };
  const auto orthonormal = [n](std::vector<Wide<T>>& basis, Wide<T> v) {
    for (int round = 0; round < 3; ++round)
      for (const auto& q : basis) {
        const auto h = inner(q, v);
        for (std::size_t i = 0; i < n; ++i) v[i] -= h * q[i];
      }
    const long double length = std::sqrt(std::abs(inner(v, v)));
    for (auto& one : v) one /= length;
    basis.push_back(v);
    return v;
  };
  std::vector<Wide<T>> r, space, images, front;
  for (const auto& column : b) {
    r.emplace_back();
    for (const T& v : column) r.back().push_back(widen(v));
  }
  const auto right = r;
  for (const auto& one : r) front.push_back(orthonormal(space, one));
  std::vector<std::vector<double>> history(b.size(), {1.0});
  for (int s = 0; s < steps; ++s) {
    std::vector<Wide<T>> next;
    for (const auto& v : front) {
      const auto image = times(v);
      const auto q = orthonormal(images, image);
      for (auto& one : r) {
        const auto h = inner(q, one);
        for (std::size_t i = 0; i < n; ++i) one[i] -= h * q[i];
      }
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
        const auto a = shifted_grid<T>(8, 7, 0.4);
        const auto b = random_columns<T>(a.n, 3);
        const auto A = a.on(comm);
        for (const bool with_P : {false, true}) {
          std::vector<double> m(std::size_t(a.n), 1.0);
          if (with_P)
            for (Global i = 0; i < a.n; ++i) m[std::size_t(i)] = 1 + 0.8 * noise(5, std::uint64_t(i));
          const op::Diagonal<T, Host> P(spread(A->range(), std::vector<T>(m.begin(), m.end())), "test");
          const auto expected = least_residuals(a, b, m, 9);
          for (const auto how : {krylov::Orthogonalisation::automatic, krylov::Orthogonalisation::bcgs_pip2}) {
            auto o = with(Method::block_gmres, 1e-30);
            o.max_iterations = 9, o.orthogonalisation = how;
            const auto s = solve_any<T>(*A, b, o, with_P ? &P : nullptr);
            for (std::size_t c = 0; c < b.size(); ++c) {
              const auto& history = s.reports.columns[c].history;
              ASSERT_EQ(history.size(), 10u);
              // After one round of Gram-Schmidt orthogonal to epsilon / 1e-4^2.
              const double error = !is_wide<T> ? 1e-2 : how == krylov::Orthogonalisation::bcgs_pip2 ? 1e-9 : 1e-7;
              for (std::size_t i = 0; i < history.size(); ++i)
                EXPECT_NEAR(history[i], expected[c][i], error * expected[c][i])
                    << c << " " << i << (with_P ? " with P" : "");
              EXPECT_NEAR(double(residual_of(a, b[c], s.x[c])), expected[c][9], is_wide<T> ? 1e-10 : 1e-3);
            }
          }
        }
      },
      {2, 3});
}

/// Fewer iterations than gmres, on any number of ranks, for both norms, from a guess, and with restarts.
TYPED_TEST(BlockGmres, TakesFewerIterationsThanGmres) {
  using T = TypeParam;
  std::set<int> iterations;
  on_ranks([&](const comm::Communicator& comm) {
    const auto a = grid<T>(20, 19, 0.2);
    const auto b = random_columns<T>(a.n, 6);
    const auto A = a.on(comm);
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max})
      for (const int restart : {100, 12}) {
        auto o = with(Method::gmres, goal<T>());
        o.norm = norm, o.restart = restart;
        const auto lockstep = solve_any<T>(*A, b, o);
        o.method = Method::block_gmres;
        const auto block = solve_any<T>(*A, b, o);
        EXPECT_EQ(block.reports.together, 6);
        // With restarts the space of a cycle says little about that of all cycles.
        EXPECT_LE(block.most(), (restart == 100 ? 0.75 : 1.1) * lockstep.most());
        const auto guessed = solve_any<T>(*A, b, o, nullptr, random_columns<T>(a.n, 6, 50));
        for (std::size_t c = 0; c < b.size(); ++c) {
          for (const auto* s : {&block, &guessed}) {
            EXPECT_TRUE(s->reports.columns[c].converged()) << s->reports.columns[c].detail;
            EXPECT_LE(s->reports.columns[c].residual_norm, 1.001 * *o.rtol);
            if (norm == krylov::Norm::two) {
              EXPECT_LE(residual_of(a, b[c], s->x[c]), 1.01 * *o.rtol);
            }
          }
          EXPECT_EQ(block.reports.columns[c].method, "block-gmres") << block.reports.columns[c].warnings.back();
          EXPECT_EQ(block.reports.columns[c].history.size(), std::size_t(block.reports.columns[c].iterations) + 1);
        }
        if (norm == krylov::Norm::two && restart == 100) iterations.insert(block.most());
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
        auto o = with(Method::block_gmres, goal<T>());
        o.restart = 60;
        auto b = random_columns<T>(a.n, 3);
        const int independent = solve_any<T>(*A, b, o).most();
        b.push_back(b[1]);
        b.push_back(b[0]);
        for (T& v : b.back()) v *= T(real_t<T>(-1e-3));
        b.push_back(b[0]);
        for (std::size_t i = 0; i < b[0].size(); ++i) b.back()[i] += real_t<T>(0.7) * b[2][i];
        b.emplace_back(std::size_t(a.n), T(0));
        for (const double by : {1e-12, 1e-8}) {
          b.push_back(b[2]);
          for (std::size_t i = 0; i < b[0].size(); ++i) b.back()[i] *= T(real_t<T>(1 + by * noise(9, i)));
        }
        const auto s = solve_any<T>(*A, b, o);
        expect_solved(a, b, s, *o.rtol);
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
        auto o = with(Method::block_gmres, is_wide<T> ? 1e-10 : 1e-4);
        const auto a = shifted_grid<T>(4, 3, 0.4);
        for (const int k : {12, 15}) {
          const auto b = random_columns<T>(a.n, k);
          const auto s = solve_any<T>(*a.on(comm), b, o);
          expect_solved(a, b, s, *o.rtol);
          EXPECT_LE(s.most(), 2) << k;
        }
        std::vector<double> d(30);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = double(i % 3) - 1.5;
        auto b = random_columns<T>(30, 5);
        b.emplace_back(30, T(0));
        b.back()[4] = T(1);  // an eigenvector
        const auto s = solve_any<T>(*diagonal<T>(d).on(comm), b, o);
        expect_solved(diagonal<T>(d), b, s, *o.rtol);
        EXPECT_EQ(s.most(), 3);
        EXPECT_LE(s.reports.columns[5].iterations, 2);
      },
      {2, 3});
}

/// An iteration: one product and one apply of P for all columns, one exchange, one reduction.
TEST(BlockGmresCounts, OneReductionAnIteration) {
  comm::run_threads(3, [](const comm::Communicator& comm) {
    const auto a = shifted_grid<double>(14, 13, 0.4);
    const auto b = random_columns<double>(a.n, 4);
    const auto A = a.on(comm);
    const op::Diagonal<double, Host> P(spread(A->range(), std::vector<double>(std::size_t(a.n), 0.2)), "test");
    for (const auto* p : {static_cast<const op::Diagonal<double, Host>*>(nullptr), &P}) {
      auto o = with(Method::block_gmres, 1e-30);
      const auto counts = [&](int iterations) {
        o.max_iterations = iterations;
        return solve_any<double>(*A, b, o, p).reports.counts;
      };
      const auto six = counts(6), three = counts(3);
      EXPECT_EQ(six.reductions - three.reductions, 3);
      EXPECT_EQ(six.exchanges - three.exchanges, 3);
      EXPECT_EQ(six.operator_applies - three.operator_applies, 12);
      EXPECT_EQ(six.preconditioner_applies - three.preconditioner_applies, p ? 12 : 0);
      // Twice orthogonalised where a cycle has reduced the residual by epsilon^(1/4).
      const auto late = counts(16), later = counts(19);
      EXPECT_EQ(later.reductions - late.reductions, 6);
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
        auto o = with(Method::block_gmres, goal<T>());
        o.restart = 100;
        o.atol = goal<T>() * double(norm2(b[0]));  // early for all but the first
        const auto s = solve_any<T>(*A, b, o);
        const auto& r = s.reports.columns;
        for (const auto& one : r) EXPECT_TRUE(one.converged()) << one.detail;
        EXPECT_LT(r[1].iterations, 0.6 * r[0].iterations);
        EXPECT_LE(s.reports.counts.operator_applies, 5 * r[1].iterations + (r[0].iterations - r[1].iterations) + 10);
        const auto alone = run<T>(*A, b[0], with(Method::gmres, goal<T>()));
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
        const auto A = a.on(comm);
        const op::Diagonal<T, Host> P(spread(A->range(), std::vector<T>(std::size_t(a.n), T(real_t<T>(0.3)))), "test");
        for (const auto* p : {static_cast<const op::Diagonal<T, Host>*>(nullptr), &P}) {
          auto b = random_columns<T>(a.n, 6);
          for (T& v : b[1]) v *= T(real_t<T>(is_wide<T> ? 1e-200 : 1e-25));
          b[2][5] = T(std::numeric_limits<real_t<T>>::quiet_NaN());
          for (T& v : b[3]) v *= T(real_t<T>(1e-6));
          auto o = with(Method::block_gmres, goal<T>());
          o.restart = 50;
          o.atol = 1e-8;  // at once for column 1, early for column 3
          std::vector<std::vector<double>> seen(b.size());
          std::vector<T> third(A->domain().local_size());
          o.callback = [&](const krylov::State& s) {
            seen[std::size_t(s.column)].push_back(s.residual_norm);
            if (s.column != 4 || s.iteration != 3) return false;
            s.solution(third.data());
            return true;
          };
          const auto s = solve_any<T>(*A, b, o, p);
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
            EXPECT_NEAR(std::abs(third[i] - s.x[4][std::size_t(A->domain().begin()) + i]), 0,
                        is_wide<T> ? 1e-13 : 1e-5);
          EXPECT_NEAR(double(residual_of(a, b[4], s.x[4])), seen[4].back(), (is_wide<T> ? 1e-9 : 1e-3));
          EXPECT_LE(residual_of(a, b[0], s.x[0]), 1.01 * std::max(*o.rtol, o.atol / double(norm2(b[0]))));

          o.callback = nullptr, o.max_iterations = 4, o.atol = 0;
          for (const auto& one : solve_any<T>(*A, {b[0], b[4]}, o, p).reports.columns) {
            EXPECT_EQ(one.reason, Reason::max_iterations);
            EXPECT_EQ(one.iterations, 4);
          }
        }
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
        const auto b = random_columns<T>(a.n, 3);
        auto o = with(Method::block_gmres, goal<T>());
        o.restart = 10;
        const auto block = solve_any<T>(*A, {b[0]}, o);
        EXPECT_TRUE(block.reports.columns[0].warnings.empty());
        const auto alone = run<T>(*A, b[0], o);
        o.method = Method::gmres;
        const auto gmres = run<T>(*A, b[0], o);
        EXPECT_EQ(block.x[0], gmres.x);
        EXPECT_EQ(alone.x, gmres.x);
        EXPECT_EQ(block.reports.columns[0].history, gmres.report.history);

        o.method = Method::block_gmres;
        const Columns<T> equal{b[0], b[0]};  // one direction: the iterations of gmres
        const auto same = solve_any<T>(*A, equal, o);
        for (const auto& r : same.reports.columns) EXPECT_EQ(r.iterations, gmres.report.iterations);

        o.engine = krylov::Engine::tasks;
        const auto tasks = solve_any<T>(*A, b, o);
        EXPECT_EQ(tasks.x[0], gmres.x);
        ASSERT_FALSE(tasks.reports.columns[0].warnings.empty());
        EXPECT_NE(tasks.reports.columns[0].warnings.front().find("solved by gmres"), std::string::npos);
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
        const auto s = solve_any<double>(*a.on(comm), b, o);
        EXPECT_EQ(s.reports.together, krylov::most_columns_of_a_cycle);
        expect_solved(a, b, s, *o.rtol);
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
        auto b = random_columns<T>(a.n, 4);
        // A smooth column, which A makes shorter than the others; it leads the search, and leaves first.
        for (std::size_t i = 0; i < b[0].size(); ++i)
          b[0][i] = T(real_t<T>(0.01)) * b[0][i] +
                    phase<T>(Global(i)) *
                        T(real_t<T>(std::sin(0.314 * double(i % 9 + 1)) * std::sin(0.349 * double(i / 9 + 1))));
        b[3] = b[1];
        const Custom<T> huge(A->domain(), [&](const Vector<T>& x, Vector<T>& y) {
          A->apply(x, y);
          layout::scale(T(real_t<T>(1e20)), y);
        });
        const op::Diagonal<T, Host> P(spread(A->range(), std::vector<T>(std::size_t(a.n), T(real_t<T>(3e-21)))),
                                      "test");
        for (const auto* p : {static_cast<const op::Diagonal<T, Host>*>(nullptr), &P})
          for (const auto side : {krylov::Side::right, krylov::Side::flexible}) {
            auto o = with(Method::block_gmres, goal<T>());
            o.side = side, o.restart = 50;
            auto s = solve_any<T>(huge, b, o, p);
            for (auto& x : s.x)
              for (T& v : x) v *= T(real_t<T>(1e20));
            expect_solved(a, b, s, *o.rtol);
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
        auto o = with(Method::block_gmres, goal<T>());
        o.restart = 40;
        const Changing<T> P(A->range());
        const auto s = solve_any<T>(*A, b, o, &P);
        expect_solved(a, b, s, *o.rtol);
        for (const auto& r : s.reports.columns) EXPECT_EQ(r.restarts, 0);
        EXPECT_LT(s.most(), 40);
        o.side = krylov::Side::right;
        const auto right = solve_any<T>(*A, b, o, &P);
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
        auto o = with(Method::block_gmres, goal<T>());
        o.fallbacks = false;
        const auto outside = solve_any<T>(*A, b, o);
        for (const auto& r : outside.reports.columns) {
          EXPECT_NE(r.reason, Reason::converged);
          EXPECT_FALSE(r.detail.empty());
        }
        for (auto& column : b)
          for (std::size_t i = 0; i < column.size(); i += 4) column[i] = T(0);
        const auto inside = solve_any<T>(*A, b, o);
        expect_solved(a, b, inside, *o.rtol);
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
        const auto s = solve_any<double>(broken, random_columns<double>(a.n, 3), o);
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
      const auto s = solve_any<double>(*a.on(comm), random_columns<double>(a.n, 5), with(Method::block_gmres, 1e-8));
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
