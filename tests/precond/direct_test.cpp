// Complete factors: their count before the factorisation against dense elimination, the inverse and its adjoint, what
// is said of singular matrices, and method "direct".
#include <tacit/precond/automatic.hpp>
#include <tacit/precond/direct.hpp>
#include <tacit/precond/make.hpp>
#include "precond/automatic/candidates.hpp"

#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Reason;

template <class T>
class Direct : public testing::Test {
 protected:
  void SetUp() override {
    if (!precond::direct_built()) GTEST_SKIP() << "a build without Eigen";
  }
};
TYPED_TEST_SUITE(Direct, Scalars);

template <class T>
constexpr double loose = is_wide<T> ? 1e-8 : 1e-4;

/// The matrix of n rows whose entries are f(i, j); zeros are not stored.
template <Scalar T, class F>
Whole<T> of_entries(Global n, const F& f) {
  Whole<T> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    for (Global j = 0; j < n; ++j)
      if (const T v = f(i, j); v != T(0)) a.push(j, v);
    a.end_row();
  }
  return a;
}

/// Entries of several sizes, those that make it regular far from the diagonal; not symmetric.
template <Scalar T>
Whole<T> scattered(Global n, std::uint64_t seed) {
  return of_entries<T>(n, [&](Global i, Global j) {
    const auto at = std::uint64_t(i * n + j);
    if (j == (i + n / 2) % n) return T(4) + noise_of<T>(seed, at);
    return noise(seed + 1, at) < 2.0 / double(n) ? noise_of<T>(seed + 2, at) : T(0);
  });
}

TYPED_TEST(Direct, SolvesWhatHasNoDiagonal) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const Global n : {1, 2, 37, 60}) {
          const auto a = scattered<T>(n, 3);
          const auto A = a.on(comm);
          const precond::Direct<T> P(*A);
          EXPECT_EQ(P.note(), "");
          const auto x = random_vector<T>(n, 4);
          const auto b = a.times(x);
          std::vector<T> right;
          for (const auto& v : b) right.push_back(T(v));
          const auto f = spread(A->range(), right);
          layout::Vector<T> u(A->domain());
          P.apply(f, u);
          EXPECT_LE(residual_of(a, right, whole(u)), tolerance<T>(100)) << n << " unknowns";
          expect_adjoint<T>(P);
          expect_columns<T>(P);
        }
      },
      {1, 2, 3, 5});
}

TYPED_TEST(Direct, CountsBeforeItFactorises) {
  using T = TypeParam;
  const auto comm = comm::Communicator::self();
  // The factors of a full matrix, of a tridiagonal one (no order fills in) and of an arrow, whose head comes last.
  const auto count = [&](const Whole<T>& a) { return precond::DirectAnalysis<T>(*a.on(comm)).count(); };
  const Global n = 30;
  const auto full = of_entries<T>(n, [](Global i, Global j) { return i == j ? T(40) : T(1); });
  const auto line = of_entries<T>(n, [](Global i, Global j) { return i == j ? T(4) : T(std::abs(i - j) == 1); });
  const auto arrow = of_entries<T>(n, [](Global i, Global j) { return i == j ? T(40) : T(i == 0 || j == 0); });
  EXPECT_EQ(count(full).entries, n * n);
  EXPECT_EQ(count(line).entries, 3 * n - 2);
  EXPECT_EQ(count(arrow).entries, 3 * n - 2);
  double flops = 0;
  for (int below = 0; below < n; ++below) flops += below + 2.0 * below * below;
  EXPECT_EQ(count(full).flops, flops);
  const precond::Direct<T> P(*line.on(comm));
  EXPECT_GE(P.entries(), P.count().entries);
  EXPECT_LE(P.entries(), 4 * P.count().entries);
}

TYPED_TEST(Direct, IsAMethodThatRefines) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = scattered<T>(50, 8);
        const auto A = a.on(comm);
        const auto P = precond::make<T, Host>("direct", *A);
        const auto b = random_vector<T>(50, 9);
        auto o = with(Method::direct, tolerance<T>(30));
        const auto s = run(*A, b, o, P.get());
        EXPECT_TRUE(s.report.converged()) << s.report.detail;
        EXPECT_LE(s.report.iterations, 3);
        EXPECT_EQ(s.report.counts.preconditioner_applies, s.report.iterations);
        EXPECT_LE(residual_of(a, b, s.x), 1.1 * *o.rtol);
        EXPECT_NE(usage_error([&] { run(*A, b, o); }).find("needs the factors"), std::string::npos);
      },
      {1, 2, 3, 5});
}

TYPED_TEST(Direct, NamesTheColumnOfASingularMatrix) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        auto o = with(Method::direct, 1e-4);
        o.explain = false;
        const auto reason_of = [&](const Whole<T>& a, const char* words) {
          const auto A = a.on(comm);
          const auto P = precond::make<T, Host>("direct", *A);
          const auto s = run(*A, random_vector<T>(a.n, 5), o, P.get());
          EXPECT_EQ(s.report.reason, Reason::breakdown) << words;
          EXPECT_NE(s.report.detail.find(words), std::string::npos) << s.report.detail;
          for (const T& v : s.x) EXPECT_TRUE(is_finite(v));
        };
        const auto a = shifted_grid<T>(5, 4);
        reason_of(a.map([](Global, Global c, T v) { return c == 7 ? T(0) : v; }), "column 7");
        // Rows 2 and 3 are equal.
        const auto twice =
            of_entries<T>(6, [](Global i, Global j) { return T(real_t<T>((i == 3 ? 2 : i) == j ? 4 : 1)); });
        reason_of(twice, "A is singular");
      },
      {1, 3});
}

TYPED_TEST(Direct, IsTheLastResortOfAutomatic) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = scattered<T>(300, 11);
        const auto A = a.on(comm);
        precond::Automatic<T> automatic(*A);
        const auto names = [&] {
          std::vector<std::string> all;
          for (const auto& c : automatic.candidates()) all.push_back(c.precond);
          return all;
        }();
        EXPECT_EQ(names.at(names.size() - 2), "direct");
        const auto b = spread(A->range(), random_vector<T>(300, 12));
        layout::Vector<T> x(A->domain());
        auto o = with(Method::automatic, loose<T>);
        const auto report = automatic.solve(b, x, o);
        EXPECT_TRUE(report.converged()) << report.choice << ": " << report.detail;
      },
      {1, 2});
}

}  // namespace
}  // namespace tacit::test
