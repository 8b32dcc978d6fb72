// p(l)-CG: the iterates of conjugate gradients, l reductions in flight, and residual replacement.
#include "krylov/deep_pipelined_cg.hpp"
#include "support/communicators.hpp"
#include "support/late.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

#include <numeric>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;

Options deep(int depth, double rtol) {
  Options o;
  o.method = Method::pipelined_cg;
  o.depth = depth;
  o.rtol = rtol;
  return o;
}
template <class T>
class DeepPipelinedCg : public testing::Test {};
TYPED_TEST_SUITE(DeepPipelinedCg, test::Scalars);

TEST(DelayedLanczos, ColumnsComeFromDelayedInnerProducts) {
  // A diagonal matrix and a random v_0: the Lanczos coefficients, each from inner products that are l - 1 steps old.
  const int n = 40, l = 4, steps = 12;
  const std::vector<double> shifts{3, 7, 1, 5};
  using Vector = std::vector<double>;
  const auto dot = [](const Vector& x, const Vector& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  Vector a(n);
  for (int i = 0; i < n; ++i) a[i] = 0.2 * (i + 1);
  std::vector<Vector> v(1, Vector(n));
  for (int i = 0; i < n; ++i) v[0][i] = noise(3, i);
  const double length = std::sqrt(dot(v[0], v[0]));
  for (double& e : v[0]) e /= length;
  std::vector<double> gamma, delta;
  for (int k = 0; k < steps; ++k) {
    Vector w(n);
    for (int i = 0; i < n; ++i) w[i] = a[i] * v[k][i];
    gamma.push_back(dot(w, v[k]));
    for (int i = 0; i < n; ++i) w[i] -= gamma[k] * v[k][i] + (k > 0 ? delta[k - 1] * v[k - 1][i] : 0);
    delta.push_back(std::sqrt(dot(w, w)));
    for (double& e : w) e /= delta[k];
    v.push_back(w);
  }
  const auto U = [&](int k, int b) {
    Vector u = b < 0 ? Vector(n) : v[b];
    for (int j = 0; j < k; ++j)
      for (int i = 0; i < n; ++i) u[i] *= a[i] - shifts[j];
    return u;
  };
  krylov::DelayedLanczos lanczos(shifts);
  for (int k = 0; k < steps; ++k) {
    if (k == 0 || k >= l) {
      const int b = lanczos.base() + 1;
      std::vector<double> dots;
      for (int c = 0; c <= l; ++c)
        for (int i = 0; i <= l + c; ++i) dots.push_back(dot(i < l ? U(i, b - 1) : U(i - l, b), U(c, b)));
      ASSERT_EQ(int(dots.size()), krylov::DelayedLanczos::count(l));
      lanczos.arrive(dots.data());
    }
    const auto step = lanczos.next(k);
    EXPECT_EQ(lanczos.base(), std::max(k + 1 - l, 0));
    EXPECT_NEAR(step.gamma, gamma[k], 1e-9) << k;
    EXPECT_NEAR(step.tau, k > 0 ? delta[k - 1] : 0, 1e-9) << k;
    EXPECT_NEAR(step.delta, delta[k], 1e-9) << k;
  }
}

TYPED_TEST(DeepPipelinedCg, FollowsConjugateGradients) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a =
        shifted_grid<T>(11, 9).map([](Global r, Global c, T v) { return v * real_t<T>((1 + r % 3) * (1 + c % 3)); });
    const auto b = random_vector<T>(a.n, 3);
    const auto A = a.on(comm);
    const precond::Jacobi<T> jacobi(*A);
    const precond::BlockJacobi<T> blocks(*A);  // one block per rank
    for (const op::Operator<T, Host>* P : {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi,
                                           (const op::Operator<T, Host>*)&blocks})
      for (const int depth : {2, 3, 5}) {
        if (!is_wide<T> && depth > 2) continue;
        auto o = deep(depth, 0);
        o.max_iterations = is_wide<T> ? 14 : 6;
        const auto pipelined = run(*A, b, o, P);
        o.method = Method::cg;
        o.depth = {};
        const auto classical = run(*A, b, o, P);
        EXPECT_LE(relative_difference(pipelined.x, classical.x), is_wide<T> ? 1e-8 : 1e-2) << depth;
        const auto &p = pipelined.report.history, &c = classical.report.history;
        ASSERT_EQ(p.size(), c.size());
        for (std::size_t k = 0; k < p.size() && c[k] > (is_wide<T> ? 1e-11 : 1e-4); ++k) {
          const std::string at = message(P ? P->name() : "none", ", depth ", depth, ", step ", k);
          if (!P) {
            EXPECT_NEAR(p[k], c[k], (is_wide<T> ? 1e-8 : 1e-2) * c[k]) << at;
          } else EXPECT_TRUE(p[k] < 4 * c[k] && c[k] < 4 * p[k]) << at;  // the 2-norm by an earlier one
        }
      }
  });
}

TYPED_TEST(DeepPipelinedCg, CountsAreThoseOfItsDocumentation) {
  using T = TypeParam;
  if constexpr (is_wide<T>)
    on_ranks([](const comm::Communicator& comm) {
      const auto a = shifted_grid<T>(12, 12);
      const auto b = random_vector<T>(a.n, 3);
      const auto A = a.on(comm);
      const precond::Jacobi<T> jacobi(*A);
      for (const op::Operator<T, Host>* P :
           {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi})
        for (const int l : {2, 3, 5}) {
          auto o = deep(l, 0);
          const auto counts = [&](int iterations) {
            o.max_iterations = iterations;
            const auto before = comm.counters();
            auto c = run(*A, b, o, P).report.counts;
            return std::pair(c, (comm.counters() - before).reduction_values);
          };
          const auto [few, few_values] = counts(5);
          const auto [more, more_values] = counts(15);
          EXPECT_EQ(more.reductions - few.reductions, 10);
          EXPECT_EQ(more.operator_applies - few.operator_applies, 10);
          EXPECT_EQ(more.preconditioner_applies - few.preconditioner_applies, P ? 10 : 0);
          EXPECT_EQ(more_values - few_values, 10 * ((l + 1) * (3 * l + 2) / 2 + (P ? 3 : 2)));
          // In the first run: ten products for the largest eigenvalue, l in advance, one for the true residual.
          EXPECT_EQ(few.operator_applies, 5 + 10 + l + 1);
        }
    });
}

TEST(DeepPipelinedCgSums, OverlapWithProducts) {
  if (under_mpi()) GTEST_SKIP() << "two threads are enough";
  comm::run_threads(2, [](const comm::Communicator& comm) {
    const auto matrix = [] { return grid<double>(12, 12); };
    for (const int l : {2, 3}) {
      EXPECT_EQ(waits_too_early<double>(comm, matrix, deep(l, 0), l), 0) << l;
      EXPECT_GT(waits_too_early<double>(comm, matrix, deep(l, 0), l + 1), 0) << l;
    }
  });
}

TYPED_TEST(DeepPipelinedCg, AReplacementKeepsTheDirection) {
  using T = TypeParam;
  const auto a = grid<T>(20, 20);
  const auto b = random_vector<T>(a.n, 3);
  const auto A = a.on(comm::Communicator::self());
  const precond::Jacobi<T> jacobi(*A);
  for (const op::Operator<T, Host>* P : {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi})
    for (const int l : {2, 4}) {
      if (!is_wide<T> && l > 2) continue;
      auto o = deep(l, 0);
      const int steps = is_wide<T> ? 30 : 12;
      o.max_iterations = steps;
      o.replacement = 0;
      const auto plain = run(*A, b, o, P);
      o.replacement = 5;
      const auto replaced = run(*A, b, o, P);
      EXPECT_LE(relative_difference(replaced.x, plain.x), is_wide<T> ? 1e-8 : 2e-2);
      const int times = steps / 5;
      EXPECT_EQ(replaced.report.counts.operator_applies - plain.report.counts.operator_applies, (2 * l + 2) * times);
      EXPECT_EQ(replaced.report.counts.preconditioner_applies - plain.report.counts.preconditioner_applies,
                P ? (2 * l + 2) * times : 0);
      EXPECT_EQ(replaced.report.counts.reductions, plain.report.counts.reductions);
      EXPECT_TRUE(plain.report.warnings.empty());
      ASSERT_EQ(replaced.report.warnings.size(), 1u);
      EXPECT_EQ(replaced.report.warnings[0], "pipelined-cg replaced its residual " + std::to_string(times) + " times");
    }
}

// A smooth right-hand side and thousands of iterations' rounding errors, where published p(l)-CG breaks down and
// restarts.
TYPED_TEST(DeepPipelinedCg, TakesTheIterationsOfConjugateGradients) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  if constexpr (!is_complex<T>) {
    const auto a = grid<T>(96, 96);
    const std::vector<T> b(a.n, T(1));
    const auto A = a.on(comm::Communicator::self());
    const precond::Jacobi<T> jacobi(*A);
    for (const op::Operator<T, Host>* P :
         {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi})
      for (const int depth : {2, 3, 5, 8}) {
        if (!is_wide<T> && depth > 2) continue;
        auto o = deep(depth, is_wide<T> ? 1e-11 : 2e-4);
        o.fallbacks = false;
        const auto s = run(*A, b, o, P);
        EXPECT_TRUE(s.report.converged()) << depth << ": " << s.report.detail;
        EXPECT_LE(s.report.restarts, is_wide<T> ? 0 : 1) << depth;
        EXPECT_LE(residual_of(a, b, s.x), 1.05 * *o.rtol);
        o.method = Method::cg;
        o.depth = {};
        const auto classical = run(*A, b, o, P);
        EXPECT_LE(s.report.iterations, (is_wide<T> ? 1.05 : 1.25) * classical.report.iterations + 2)
            << depth << (P ? " jacobi" : "");
        EXPECT_LE(s.report.counts.operator_applies, (is_wide<T> ? 1.5 : 2) * classical.report.counts.operator_applies)
            << depth;
      }
  }
}

TYPED_TEST(DeepPipelinedCg, EndsWhereTheKrylovSpaceDoes) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const int depth : {2, 4}) {
          // Matrices with one, two and three eigenvalues; fewer rows than vectors in flight.
          for (const auto& d : {std::vector<double>(9, 2.0), std::vector<double>{1, 2, 1, 2, 1, 2},
                                std::vector<double>{1, 2, 3, 1, 2, 3}, std::vector<double>{5}}) {
            const auto a = diagonal<T>(d);
            const std::vector<T> b(a.n, T(3));
            const auto s = run(*a.on(comm), b, deep(depth, is_wide<T> ? 1e-10 : 1e-4));
            EXPECT_TRUE(s.report.converged()) << s.report.detail;
            EXPECT_LE(residual_of(a, b, s.x), is_wide<T> ? 1.1e-10 : 1.1e-4);
          }
        }
      },
      {1, 3});
}

TYPED_TEST(DeepPipelinedCg, BreakdownsAreThoseOfConjugateGradients) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const std::vector<T> ones(8, T(1));
        for (const auto& d : {std::vector<double>{1, -1, 2, -2, 3, -3, 4, -4}, std::vector<double>(8, 0.0),
                              std::vector<double>{-2, -2, -2, -2, -2, -2, -2, 1}})
          for (const bool fallbacks : {true, false}) {
            auto o = deep(3, is_wide<T> ? 1e-8 : 1e-4);
            o.fallbacks = fallbacks;
            const auto s = run(*diagonal<T>(d).on(comm), ones, o);
            EXPECT_EQ(s.report.reason, Reason::breakdown) << s.report.detail;
            EXPECT_NE(s.report.detail.find("(p, A p)"), std::string::npos) << s.report.detail;
            for (const T& v : s.x) EXPECT_TRUE(is_finite(v));
          }
        const auto a = shifted_grid<T>(6, 6);
        const auto A = a.on(comm);
        const Custom<T> negative(A->range(), [&](const auto& x, auto& y) {
          layout::copy(x, y);
          layout::scale(T(-1), y);
        });
        auto o = deep(3, 1e-4);
        o.fallbacks = false;
        const auto s = run(*A, random_vector<T>(a.n, 1), o, &negative);
        EXPECT_EQ(s.report.reason, Reason::breakdown);
        EXPECT_NE(s.report.detail.find("(r, P r)"), std::string::npos) << s.report.detail;
      },
      {3});
}

TYPED_TEST(DeepPipelinedCg, ABasisThatIsTooDeepBecomesShallower) {
  using T = TypeParam;
  // Monomials instead of shifts, with depth 24: the vectors become linearly dependent to rounding.
  const auto a = grid<T>(40, 40);
  const auto b = random_vector<T>(a.n, 3);
  const auto A = a.on(comm::Communicator::self());
  auto o = deep(24, is_wide<T> ? 1e-9 : 1e-4);
  o.basis = krylov::Basis::monomial;
  const auto s = run(*A, b, o);
  EXPECT_TRUE(s.report.converged()) << s.report.detail;
  EXPECT_LE(residual_of(a, b, s.x), 1.05 * *o.rtol);
  bool told = false;
  for (const auto& w : s.report.warnings) told = told || w.find("its depth was") != std::string::npos;
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace tacit::test
