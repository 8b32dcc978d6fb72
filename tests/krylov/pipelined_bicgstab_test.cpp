// Pipelined BiCGStab: the iterates of the classical method, reductions overlapped with products, and residual
// replacement.
#include "support/communicators.hpp"
#include "support/late.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;

template <class T>
class PipelinedBicgstab : public testing::Test {};
TYPED_TEST_SUITE(PipelinedBicgstab, test::Scalars);

TYPED_TEST(PipelinedBicgstab, FollowsBicgstab) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = shifted_grid<T>(11, 9, 0.4).map([](Global, Global c, T v) {
      T turn(1);
      if constexpr (is_complex<T>) turn = T(0.8, 0.6);  // makes the spectrum complex, too
      return v * turn * real_t<T>(1 + c % 3);
    });
    const auto b = random_vector<T>(a.n, 3);
    const auto A = a.on(comm);
    const precond::Jacobi<T> jacobi(*A);
    for (const op::Operator<T, Host>* P :
         {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi}) {
      const int steps = is_wide<T> ? 8 : 3;
      auto o = with(Method::bicgstab, 0);
      o.max_iterations = steps;
      const auto classical = run(*A, b, o, P);
      o.method = Method::pipelined_bicgstab;
      const auto pipelined = run(*A, b, o, P);
      for (int k = 0; k <= steps; ++k)
        EXPECT_NEAR(pipelined.report.history[k], classical.report.history[k],
                    (is_wide<T> ? 1e-7 : 3e-2) * classical.report.history[k])
            << (P ? P->name() : "none") << ", step " << k;
      EXPECT_LE(relative_difference(pipelined.x, classical.x), is_wide<T> ? 1e-7 : 3e-2);
    }
  });
}

TYPED_TEST(PipelinedBicgstab, AReplacementChangesNothingButRounding) {
  using T = TypeParam;
  const auto a = shifted_grid<T>(12, 12, 0.4);
  const auto b = random_vector<T>(a.n, 3);
  const auto A = a.on(comm::Communicator::self());
  const precond::Jacobi<T> jacobi(*A);
  for (const op::Operator<T, Host>* P :
       {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi}) {
    auto o = with(Method::pipelined_bicgstab, 0);
    const int steps = is_wide<T> ? 8 : 4;
    o.max_iterations = steps;
    o.replacement = 0;
    const auto plain = run(*A, b, o, P);
    o.replacement = 2;
    const auto replaced = run(*A, b, o, P);
    for (int k = 0; k <= steps; ++k)
      EXPECT_NEAR(replaced.report.history[k], plain.report.history[k],
                  (is_wide<T> ? 1e-6 : 5e-2) * plain.report.history[k])
          << k;
    const int times = steps / 2;
    EXPECT_EQ(replaced.report.counts.operator_applies - plain.report.counts.operator_applies, 4 * times);
    EXPECT_EQ(replaced.report.counts.preconditioner_applies - plain.report.counts.preconditioner_applies,
              P ? 4 * times : 0);
    EXPECT_EQ(replaced.report.counts.reductions, plain.report.counts.reductions);
    EXPECT_TRUE(plain.report.warnings.empty());
    ASSERT_EQ(replaced.report.warnings.size(), 1u);
    EXPECT_EQ(replaced.report.warnings[0],
              "pipelined-bicgstab replaced its residual " + std::to_string(times) + " times");
  }
}

// 5-point convection-diffusion with Peclet numbers 0.5 and 0.25, b = 1. Without replacement the residual stagnates at
// 5e-9 or above for 64 x 64.
TEST(PipelinedBicgstab, ReplacementReachesRoundingLevel) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  for (const int n : {64, 96}) {
    const auto a = grid<double>(n, n, 0.5);
    const std::vector<double> b(a.n, 1.0);
    const auto A = a.on(comm::Communicator::self());
    const precond::Jacobi<double> jacobi(*A);
    for (const op::Operator<double, Host>* P :
         {(const op::Operator<double, Host>*)nullptr, (const op::Operator<double, Host>*)&jacobi}) {
      auto o = with(Method::pipelined_bicgstab, 1e-13);
      o.fallbacks = false;
      const auto s = run(*A, b, o, P);
      EXPECT_TRUE(s.report.converged()) << s.report.detail;
      EXPECT_LE(residual_of(a, b, s.x), 1.05e-13L);
      EXPECT_LE(s.report.iterations, 1.1 * run(*A, b, with(Method::bicgstab, 1e-13), P).report.iterations);
      o.replacement = 0;
      const auto plain = run(*A, b, o, P);
      EXPECT_TRUE(!plain.report.converged() || plain.report.restarts > 0);  // not within one run
      EXPECT_NEAR(double(residual_of(a, b, plain.x)), plain.report.residual_norm,
                  1e-3 * plain.report.residual_norm + 1e-15);
      o.fallbacks = true;  // with the ladder
      EXPECT_TRUE(run(*A, b, o, P).report.converged());
    }
  }
}

TYPED_TEST(PipelinedBicgstab, BreakdownsAreThoseOfBicgstab) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto breaks = [&](const Whole<T>& a, const std::vector<T>& b, const char* words) {
          auto o = with(Method::pipelined_bicgstab, is_wide<T> ? 1e-8 : 1e-4);
          o.fallbacks = false;
          const auto s = run(*a.on(comm), b, o);
          EXPECT_EQ(s.report.reason, Reason::breakdown) << s.report.detail;
          EXPECT_NE(s.report.detail.find(words), std::string::npos) << s.report.detail;
          for (const T& v : s.x) EXPECT_TRUE(is_finite(v));
        };
        const auto skew = skew_tridiagonal<T>(8);
        std::vector<T> b(8);
        for (int i = 0; i < 8; ++i) b[i] = T(real_t<T>(noise(1, i)));
        breaks(skew, b, "(r0, A p)");
        breaks(diagonal<T>(std::vector<double>(8, 0.0)), b, "(r0, A p)");
        auto o = with(Method::pipelined_bicgstab, is_wide<T> ? 1e-8 : 1e-4);
        const auto s = run(*skew.on(comm), b, o);  // with fallbacks: any correctly reported end
        EXPECT_LE(double(residual_of(skew, b, s.x)), 1.0 + 1e-5);
        EXPECT_EQ(s.report.converged(), residual_of(skew, b, s.x) <= 1.1 * *o.rtol);
      },
      {3});
}

TEST(PipelinedBicgstab, BothReductionsOverlapWithProducts) {
  if (under_mpi()) GTEST_SKIP() << "two threads are enough";
  comm::run_threads(2, [](const comm::Communicator& comm) {
    const auto matrix = [] { return grid<double>(12, 12, 0.4); };
    EXPECT_EQ(waits_too_early<double>(comm, matrix, with(Method::pipelined_bicgstab, 0), 1), 0);
    EXPECT_GT(waits_too_early<double>(comm, matrix, with(Method::bicgstab, 0), 1), 0);
  });
}

}  // namespace
}  // namespace tacit::test
