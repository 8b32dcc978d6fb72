// minres: residuals are the smallest in the Krylov space, in the norm of P; what it says of systems that it cannot
// solve.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"
#include "support/wide.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/op/diagonal.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;
using layout::Vector;

template <class T>
class Minres : public testing::Test {};
TYPED_TEST_SUITE(Minres, test::Scalars);

/// ||r_k|| / ||b|| of the x_k in the Krylov space of P A and P b with the least (r, P r), P = diag(m): from an
/// orthonormal basis of A times this space, in extended precision.
template <Scalar T>
std::vector<double> least_residuals(const Whole<T>& a, const std::vector<T>& b, const std::vector<double>& m,
                                    int steps) {
  auto r = widened(b);
  auto p = scaled(m, r);
  std::vector<Wide<T>> images;
  std::vector<double> history{1};
  const long double size = norm2(r);
  for (int k = 0; k < steps; ++k) {
    auto s = times(a, p);
    for (int round = 0; round < 2; ++round)
      for (const auto& before : images) subtract(inner(scaled(m, before), s), before, s);
    const long double length = std::sqrt(std::abs(inner(scaled(m, s), s)));
    for (auto& v : s) v /= length;
    subtract(inner(scaled(m, s), r), s, r);
    p = scaled(m, s);
    images.push_back(std::move(s));
    history.push_back(double(norm2(r) / size));
  }
  return history;
}

/// A Hermitian indefinite matrix: the grid's, shifted into its spectrum.
template <Scalar T>
Whole<T> indefinite_grid(Global nx, Global ny, double shift = 1.3) {
  return grid<T>(nx, ny).map([&](Global r, Global c, T v) { return r == c ? v - T(real_t<T>(shift)) : v; });
}

TYPED_TEST(Minres, ResidualsAreTheSmallestInTheNormOfP) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = indefinite_grid<T>(7, 6);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        for (const bool with_P : {false, true})
          for (const auto norm : {krylov::Norm::two, krylov::Norm::max}) {
            std::vector<double> m(a.n, 1.0);
            if (with_P)
              for (Global i = 0; i < a.n; ++i) m[i] = 1 + 0.8 * noise(5, i);
            const auto expected = least_residuals(a, b, m, 20);
            std::vector<T> d(m.begin(), m.end());
            const op::Diagonal<T, Host> P(spread(A->range(), d), "test");
            auto o = with(Method::minres, 1e-30);
            o.max_iterations = 20, o.norm = norm;
            const auto s = run(*A, b, o, with_P ? &P : nullptr);
            ASSERT_EQ(s.report.iterations, 20);
            if (norm == krylov::Norm::max) continue;
            for (int k = 0; k <= 20; ++k)
              EXPECT_NEAR(s.report.history[k], expected[k], (is_wide<T> ? 1e-9 : 1e-2) * expected[k])
                  << k << (with_P ? " with P" : "");
            EXPECT_NEAR(double(residual_of(a, b, s.x)), expected[20], is_wide<T> ? 1e-10 : 2e-3);
          }
      },
      {2, 3});
}

TYPED_TEST(Minres, SolvesIndefiniteSystemsAlike) {
  using T = TypeParam;
  std::vector<int> iterations;
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto a = indefinite_grid<T>(16, 15);
        const auto b = random_vector<T>(a.n, 3);
        for (const auto norm : {krylov::Norm::two, krylov::Norm::max}) {
          auto o = with(Method::minres, is_wide<T> ? 1e-10 : 1e-4);
          o.norm = norm;
          const auto s = run(*a.on(comm), b, o);
          EXPECT_TRUE(s.report.converged()) << s.report.detail;
          EXPECT_EQ(s.report.restarts, 0);
          if (norm == krylov::Norm::two) {
            EXPECT_LE(residual_of(a, b, s.x), 1.01 * *o.rtol);
            // Without restarts gmres has the same residuals, until Lanczos vectors lose their orthogonality.
            auto g = with(Method::gmres, *o.rtol);
            g.restart = 300;
            EXPECT_LE(s.report.iterations, 1.4 * run(*a.on(comm), b, g).report.iterations);
          }
        }
      },
      {2, 3, 4});
}

TYPED_TEST(Minres, NamesWhatItCannotUse) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = indefinite_grid<T>(9, 8);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        std::vector<T> d(a.n, T(1));
        for (Global i = 0; i < a.n; i += 2) d[i] = T(-1);
        const op::Diagonal<T, Host> P(spread(A->range(), d), "test");
        auto s = run(*A, b, with(Method::minres, 1e-6), &P);
        EXPECT_EQ(s.report.reason, Reason::breakdown);
        EXPECT_NE(s.report.detail.find("(r, P r)"), std::string::npos) << s.report.detail;
        EXPECT_NE(s.report.detail.find("the preconditioner is not positive definite"), std::string::npos);
        EXPECT_NE(s.report.advice.find("positive definite preconditioner"), std::string::npos) << s.report.advice;

        const auto skew = shifted_grid<T>(9, 8, 0.9);
        s = run(*skew.on(comm), b, with(Method::minres, is_wide<T> ? 1e-10 : 1e-6));
        EXPECT_FALSE(s.report.converged());
        EXPECT_NE(s.report.detail.find("A is not Hermitian"), std::string::npos) << s.report.detail;
        EXPECT_NE(s.report.advice.find("minres needs a Hermitian matrix"), std::string::npos) << s.report.advice;
      },
      {2});
}

/// -Laplace on a line without boundary values: singular, with the constants as its null space (complex: their phases).
template <Scalar T>
Whole<T> free_line(Global n) {
  Whole<T> a;
  a.n = n;
  const auto put = [&](Global i, Global j, double v) { a.push(j, T(real_t<T>(v)) * phase<T>(i) * conj(phase<T>(j))); };
  for (Global i = 0; i < n; ++i) {
    if (i > 0) put(i, i - 1, -1);
    put(i, i, i == 0 || i == n - 1 ? 1 : 2);
    if (i + 1 < n) put(i, i + 1, -1);
    a.end_row();
  }
  return a;
}

TYPED_TEST(Minres, SingularSystems) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 40;
        const auto a = free_line<T>(n);
        const auto A = a.on(comm);
        std::vector<T> b = random_vector<T>(n, 3);
        wide_t<T> mean(0);
        for (Global i = 0; i < n; ++i) mean += widen(conj(phase<T>(i)) * b[i]);
        mean /= (long double)(n);
        auto inside = b;
        for (Global i = 0; i < n; ++i) inside[i] -= T(mean) * phase<T>(i);
        auto o = with(Method::minres, is_wide<T> ? 1e-10 : 1e-4);
        auto s = run(*A, inside, o);
        EXPECT_TRUE(s.report.converged()) << s.report.detail;

        const double least = double(std::abs(mean) * std::sqrt((long double)(n)) / norm2(b));
        s = run(*A, b, o);
        EXPECT_EQ(s.report.reason, Reason::breakdown);
        EXPECT_NEAR(s.report.residual_norm, least, is_wide<T> ? 1e-6 : 1e-3);
        EXPECT_NE(s.report.detail.find("no x brings ||b - A x|| below"), std::string::npos) << s.report.detail;
        EXPECT_LE(s.report.iterations, 3 * n);
      },
      {2});
}

/// A r = 0 from the beginning: b in the null space, and A = 0.
TYPED_TEST(Minres, NoStepWhereTheMatrixMapsTheRightHandSideToZero) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const double entry : {0.0, 3.0}) {
          const auto a = diagonal<T>({entry, entry, entry, entry, 0});
          std::vector<T> b(5, T(0));
          b[4] = T(2);
          const auto s = run(*a.on(comm), b, with(Method::minres, 1e-6));
          EXPECT_EQ(s.report.reason, Reason::breakdown);
          EXPECT_EQ(s.report.iterations, 0);
          EXPECT_EQ(s.report.residual_norm, 1);
          EXPECT_NE(s.report.detail.find("||A r|| / (||A|| ||r||) = 0"), std::string::npos) << s.report.detail;
          for (const T& v : s.x) EXPECT_EQ(v, T(0));
        }
      },
      {2});
}

TYPED_TEST(Minres, ScalesByMagnitudesOfTheDiagonal) {
  using T = TypeParam;
  // Rows and columns scaled so badly that minres needs the fallback; the diagonal has both signs.
  const Global n = 60;
  std::vector<double> d;
  for (Global i = 0; i < n; ++i) d.push_back((i % 2 ? 1 : -1) * std::pow(10.0, (is_wide<T> ? 6.0 : 2.0) * noise(1, i)));
  auto a = diagonal<T>(d);
  auto o = with(Method::minres, is_wide<T> ? 1e-10 : 1e-4);
  const auto s = run(*a.on(comm::Communicator::self()), random_vector<T>(n, 2), o);
  EXPECT_TRUE(s.report.converged()) << s.report.detail;
}

TEST(MinresCosts, TrafficIsThatOfTheDocumentation) {
  if (under_mpi()) GTEST_SKIP();
  const auto a = grid<double>(30, 30);
  const auto b = random_vector<double>(a.n, 3);
  const auto A = a.on(comm::Communicator::self());
  const Custom<double> P(A->range(), [&](const auto& x, auto& y) { std::copy_n(x.data(), x.size(), y.data()); });
  for (const bool with_P : {false, true}) {
    const auto bytes = [&](int iterations) {
      auto o = with(Method::minres, 0);
      o.max_iterations = iterations;
      Trace::start();
      run(*A, b, o, with_P ? &P : nullptr);
      Trace::stop();
      double sum = 0;
      for (const auto& e : Trace::take())
        if (std::string(e.name) == "sweep") sum += double(e.bytes);
      return sum;
    };
    EXPECT_EQ((bytes(30) - bytes(10)) / 20 / double(a.n * sizeof(double)), with_P ? 16 : 11);
  }
}

}  // namespace
}  // namespace tacit::test
