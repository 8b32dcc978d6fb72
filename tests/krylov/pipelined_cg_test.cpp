// Pipelined conjugate gradients: the iterates of the classical method, reductions overlapped with products, and
// residual replacement.
#include "krylov/safeguards/replacement.hpp"
#include "support/biharmonic.hpp"
#include "support/communicators.hpp"
#include "support/late.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;

template <class T>
class PipelinedCg : public testing::Test {};
TYPED_TEST_SUITE(PipelinedCg, test::Scalars);

TYPED_TEST(PipelinedCg, FollowsConjugateGradients) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<T>(11, 9).map([](Global r, Global c, T v) { return v * real_t<T>((1 + r % 3) * (1 + c % 3)); });
    const auto b = random_vector<T>(a.n, 3);
    const auto A = a.on(comm);
    const precond::Jacobi<T> jacobi(*A);
    const precond::BlockJacobi<T> blocks(*A);  // one block per rank
    for (const op::Operator<T, Host>* P : {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi,
                                           (const op::Operator<T, Host>*)&blocks}) {
      if (P == &blocks && comm.size() < 3) continue;
      const int steps = is_wide<T> ? 14 : 6;
      auto o = with(Method::cg, 0);
      o.max_iterations = steps;
      const auto classical = run(*A, b, o, P);
      o.method = Method::pipelined_cg;
      const auto pipelined = run(*A, b, o, P);
      for (int k = 0; k <= steps; ++k)
        EXPECT_NEAR(pipelined.report.history[k], classical.report.history[k],
                    (is_wide<T> ? 1e-8 : 2e-2) * classical.report.history[k])
            << (P ? P->name() : "none") << ", step " << k;
      EXPECT_LE(relative_difference(pipelined.x, classical.x), is_wide<T> ? 1e-8 : 2e-2);
    }
  });
}

TYPED_TEST(PipelinedCg, AReplacementKeepsTheDirection) {
  using T = TypeParam;
  const auto a = grid<T>(20, 20);
  const auto b = random_vector<T>(a.n, 3);
  const auto A = a.on(comm::Communicator::self());
  const precond::Jacobi<T> jacobi(*A);
  const Custom<T> hidden(A->range(), [&](const auto& x, auto& y) { jacobi.apply(x, y); });
  for (const op::Operator<T, Host>* P : {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi,
                                         (const op::Operator<T, Host>*)&hidden}) {
    auto o = with(Method::pipelined_cg, 0);
    const int steps = is_wide<T> ? 30 : 14;
    o.max_iterations = steps;
    o.replacement = 0;
    const auto plain = run(*A, b, o, P);
    o.replacement = 3;
    const auto replaced = run(*A, b, o, P);
    for (int k = 0; k <= steps; ++k)
      EXPECT_NEAR(replaced.report.history[k], plain.report.history[k],
                  (is_wide<T> ? 1e-6 : 2e-2) * plain.report.history[k])
          << k;
    // A replacement takes four products and two applies of P.
    const int times = steps / 3;
    EXPECT_EQ(replaced.report.counts.operator_applies - plain.report.counts.operator_applies, 4 * times);
    EXPECT_EQ(replaced.report.counts.preconditioner_applies - plain.report.counts.preconditioner_applies,
              P ? 2 * times : 0);
    EXPECT_EQ(replaced.report.counts.reductions, plain.report.counts.reductions);
    EXPECT_TRUE(plain.report.warnings.empty());
    ASSERT_EQ(replaced.report.warnings.size(), 1u);
    EXPECT_EQ(replaced.report.warnings[0], "pipelined-cg replaced its residual " + std::to_string(times) + " times");
  }
}

TYPED_TEST(PipelinedCg, ReplacementReachesTheAccuracyOfCg) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = grid<T>(100, 100);
  const std::vector<T> b(a.n, T(1));
  const auto A = a.on(comm::Communicator::self());
  const double rtol = is_wide<T> ? 1e-12 : 2e-4;
  const auto classical = run(*A, b, with(Method::cg, rtol));
  auto o = with(Method::pipelined_cg, rtol);
  const auto healed = run(*A, b, o);
  EXPECT_TRUE(healed.report.converged());
  EXPECT_LE(residual_of(a, b, healed.x), 1.05 * rtol);
  EXPECT_LE(healed.report.restarts, is_wide<T> ? 0 : 1);
  EXPECT_LE(healed.report.iterations, 1.05 * classical.report.iterations + 1);
  EXPECT_LE(healed.report.counts.operator_applies, (is_wide<T> ? 1.2 : 1.5) * classical.report.counts.operator_applies);
  o.replacement = 0;
  o.fallbacks = false;
  if (is_wide<T>) {
    // The recurrence residual reaches the goal before the true one; how many iterations that costs depends on rounding.
    EXPECT_GE(run(*A, b, o).report.restarts, 1);
  }
}

// About ten times as many iterations as unknowns, so that every digit of the recurrences matters. With gaps of 4e-10
// between recurrence and true residual the first run takes half as many iterations again.
TEST(PipelinedCg, ContinuesAsCgAfterLossOfOrthogonality) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = biharmonic<double>(400);
  const auto A = a.on(comm::Communicator::self());
  const std::vector<double> b(a.n, 1.0);
  const auto classical = run(*A, b, with(Method::cg, 1e-6));
  auto o = with(Method::pipelined_cg, 1e-6);
  const auto s = run(*A, b, o);
  ASSERT_TRUE(s.report.converged());
  EXPECT_LE(residual_of(a, b, s.x), 1.001e-6L);
  EXPECT_LE(s.report.iterations, 1.35 * classical.report.iterations);
  EXPECT_LE(s.report.counts.operator_applies, s.report.iterations + 40);
  ASSERT_FALSE(s.report.warnings.empty());
  EXPECT_NE(s.report.warnings[0].find("cg went on along the same directions"), std::string::npos)
      << s.report.warnings[0];
  // For a Laplacian only residual replacements are reported.
  const auto plane = grid<double>(60, 60);
  for (const auto& text :
       run(*plane.on(comm::Communicator::self()), random_vector<double>(plane.n, 3), o).report.warnings)
    EXPECT_EQ(text.find("went on"), std::string::npos) << text;
}

TYPED_TEST(PipelinedCg, BreakdownsAreThoseOfConjugateGradients) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto breaks = [&](const Whole<T>& a, const std::vector<T>& b, const char* words) {
          auto o = with(Method::pipelined_cg, is_wide<T> ? 1e-8 : 1e-4);
          for (const bool fallbacks : {true, false}) {
            o.fallbacks = fallbacks;
            const auto s = run(*a.on(comm), b, o);
            EXPECT_EQ(s.report.reason, Reason::breakdown) << s.report.detail;
            EXPECT_NE(s.report.detail.find(words), std::string::npos) << s.report.detail;
            for (const T& v : s.x) EXPECT_TRUE(is_finite(v));
          }
        };
        const std::vector<T> ones(8, T(1));
        const auto indefinite = diagonal<T>({1, -1, 2, -2, 3, -3, 4, -4});
        breaks(indefinite, ones, "(p, A p)");
        breaks(diagonal<T>(std::vector<double>(8, 0.0)), ones, "(p, A p)");
        breaks(diagonal<T>({-2, -2, -2, -2, -2, -2, -2, 1}), ones, "(p, A p)");
        const auto a = shifted_grid<T>(6, 6);
        const auto A = a.on(comm);
        const Custom<T> negative(A->range(), [&](const auto& x, auto& y) {
          layout::copy(x, y);
          layout::scale(T(-1), y);
        });
        auto o = with(Method::pipelined_cg, 1e-4);
        o.fallbacks = false;
        const auto s = run(*A, random_vector<T>(a.n, 1), o, &negative);
        EXPECT_EQ(s.report.reason, Reason::breakdown);
        EXPECT_NE(s.report.detail.find("(r, P r)"), std::string::npos) << s.report.detail;
      },
      {3});
}

TEST(PipelinedCg, ReductionOverlapsWithTheProduct) {
  if (under_mpi()) GTEST_SKIP() << "two threads are enough";
  comm::run_threads(2, [](const comm::Communicator& comm) {
    const auto matrix = [] { return grid<double>(12, 12); };
    EXPECT_EQ(waits_too_early<double>(comm, matrix, with(Method::pipelined_cg, 0), 1), 0);
    EXPECT_GT(waits_too_early<double>(comm, matrix, with(Method::cg, 0), 1), 0);  // shows that the transport detects it
  });
}

TEST(Gaps, FollowLinearRecurrences) {
  // e' = e / 2 + noise of size 1: a geometric series; independent noise accumulates like the square root of the steps.
  krylov::Gaps<std::complex<double>> gaps(2);
  gaps.reset({0, 3});
  for (int k = 0; k < 60; ++k) gaps.step({0.5, 0, 0, 1}, {1, 1});
  EXPECT_NEAR(gaps[0], std::sqrt(4 / 3.0), 1e-12);
  EXPECT_NEAR(gaps[1], std::sqrt(69.0), 1e-12);
  // Correlated gaps keep their signs, so that they can cancel.
  gaps.reset({2, 0});
  gaps.step({1, 0, 1, 1}, {0, 0});
  EXPECT_NEAR(gaps[1], 2, 1e-12);
  gaps.step({1, 0, -1, 1}, {0, 0});
  EXPECT_NEAR(gaps[1], 0, 1e-12);
  gaps.step({std::complex<double>(0, 2), 0, 0, 1}, {0, 0});
  EXPECT_NEAR(gaps[0], 4, 1e-12);
}

}  // namespace
}  // namespace tacit::test
