// The sweeps of s-step CG without a basis: moments, and steps with known coefficients.
#include "krylov/cg_sweeps.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <tacit/op/csr.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace tacit::test {
namespace {

using krylov::CgSweeps;
using layout::Vector;

template <class T>
class Sweeps : public testing::Test {};
TYPED_TEST_SUITE(Sweeps, test::Scalars);

/// A Hermitian matrix on a grid that is cut into many blocks; eigenvalues between 0 and 8.6.
template <class T>
std::unique_ptr<op::Csr<T, Host>> matrix() {
  return grid<T>(90, 210)
      .map([](Global r, Global c, T v) { return r == c ? v + T(real_t<T>(0.1 * double(r % 7))) : v; })
      .on(comm::Communicator::self());
}
template <class T>
op::Recurrence<T> chebyshev(int s) {
  op::Recurrence<T> steps;
  for (int k = 0; k < s; ++k)
    steps.push_back({T(real_t<T>(4.3)), T(real_t<T>(k ? 2.15 : 0)), real_t<T>(k ? 2.15 : 4.3)});
  return steps;
}
template <class T>
constexpr double rounding = 64 * double(std::numeric_limits<real_t<T>>::epsilon());

TYPED_TEST(Sweeps, GiveTheMomentsOfThePowers) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using W = exec::wide_t<T>;
  const auto A = matrix<T>();
  ASSERT_TRUE(A && A->whole());
  const auto& space = A->domain();
  const auto first = vector_of<T>(space, 3), second = vector_of<T>(space, 4);
  for (const int s : {1, 2, 3, 8}) {
    const auto steps = chebyshev<T>(s);
    // T_k of both vectors by products.
    std::vector<Vector<T>> p(std::size_t(s + 1), first), r(std::size_t(s + 1), second);
    for (auto* v : {&p, &r}) {
      std::vector<Vector<T>*> at;
      for (auto& x : *v) at.push_back(&x);
      A->powers(at, steps);
    }
    std::vector<W> one;
    for (const int parts : {1, 2, 5}) {
      CgSweeps<T> sweeps(*A->whole(), 8, parts);
      // p = first, r = second: p := r + beta p from p = r = first - second / 2.
      auto start = first;
      layout::axpy(T(real_t<T>(-1)), second, start);
      sweeps.set_residual(start.data()), sweeps.turn(0);
      sweeps.set_residual(second.data()), sweeps.turn(1);
      std::vector<W> sums(std::size_t(6 * (s + 1) + 1));
      sweeps.powers(steps, sums);
      for (int k = 0; k <= s; ++k) {
        const auto near = [&](int i, const Vector<T>& a, const Vector<T>& b) {
          const W expected = W(layout::dot(a, b)), found = sums[std::size_t(6 * k + i)];
          EXPECT_LE(std::abs(expected - found), rounding<T> * layout::norm(a) * layout::norm(b))
              << "s = " << s << ", level " << k << ", sum " << i << " of " << parts << " parts";
        };
        near(0, p[k], p[k]);
        if (k > 0) near(1, p[k], p[k - 1]), near(5, p[k], r[k - 1]);
        if (k < s || s == 0) near(2, r[k], r[k]), near(4, p[k], r[k]);
        if (k > 0 && k < s) near(3, r[k], r[k - 1]);
      }
      Vector<T> image(space);
      A->apply(first, image);
      const W product = W(layout::dot(first, image));
      EXPECT_LE(std::abs(product - sums.back()), rounding<T> * layout::norm(first) * layout::norm(image));
      if (one.empty()) one = sums;
      EXPECT_EQ(std::memcmp(one.data(), sums.data(), sums.size() * sizeof(W)), 0) << parts << " parts";
    }
  }
}

TYPED_TEST(Sweeps, TakeStepsWithKnownCoefficients) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto A = matrix<T>();
  const auto& space = A->domain();
  const auto start = vector_of<T>(space, 3);
  const double alpha[] = {0.2, 0.15, 0.3, 0.25, 0.1, 0.22}, beta[] = {0.5, 0.4, 0.7, 0.3, 0.6, 0.2};
  for (const int count : {1, 4, 6}) {
    for (const bool turns : {true, false}) {
      Vector<T> x(space), r = start, p = start, Ap(space);
      std::vector<typename CgSweeps<T>::Step> steps;
      for (int j = 0; j < count; ++j) {
        A->apply(p, Ap);
        layout::axpy(T(real_t<T>(alpha[j])), p, x);
        layout::axpy(T(real_t<T>(-alpha[j])), Ap, r);
        const bool turn = turns || j + 1 < count;
        if (turn) layout::scale(T(real_t<T>(beta[j])), p), layout::axpy(T(1), r, p);
        steps.push_back({alpha[j], beta[j], turn});
      }
      Vector<T> one(space);
      for (const int parts : {1, 2, 5}) {
        CgSweeps<T> sweeps(*A->whole(), 6, parts);
        sweeps.set_residual(start.data()), sweeps.turn(0);
        std::vector<exec::wide_t<T>> sums(19);
        sweeps.powers(chebyshev<T>(2), sums);  // which gets the rows that other threads have
        Vector<T> found(space), residual(space);
        sweeps.iterate(steps, found.data());
        sweeps.copy_residual(residual.data());
        const auto near = [&](const Vector<T>& expected, Vector<T> v, const char* what) {
          layout::axpy(T(-1), expected, v);
          EXPECT_LE(layout::norm(v), rounding<T> * layout::norm(expected)) << what << " of " << count << " steps";
        };
        near(x, found, "x"), near(r, residual, "r");
        // p, by the moments of the next block: (p, p) and (p, r).
        sweeps.powers(chebyshev<T>(1), std::span(sums).first(13));
        EXPECT_NEAR(std::abs(sums[0] - exec::wide_t<T>(layout::dot(p, p))), 0,
                    rounding<T> * std::abs(layout::dot(p, p)));
        if (parts == 1) one = found;
        EXPECT_EQ(std::memcmp(one.data(), found.data(), one.size() * sizeof(T)), 0) << parts << " parts";
      }
    }
  }
}

TEST(SweepsOfCg, KeepTheDigitsOfSmoothVectors) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  // Few eigenvectors of the lowest eigenvalues: (p, A p) is 1e-6 of ||A|| (p, p).
  const Global n = 3000;
  Whole<double> a;
  a.n = n;
  std::vector<double> b(std::size_t(n), 0.0);
  for (Global i = 0; i < n; ++i) {
    if (i > 0) a.push(i - 1, -1);
    a.push(i, 2);
    if (i + 1 < n) a.push(i + 1, -1);
    a.end_row();
    const double t = 3.14159265358979323846 * double(i + 1) / double(n + 1);
    b[std::size_t(i)] = std::sin(t) + 0.1 * std::sin(2 * t);
  }
  const auto A = a.on(comm::Communicator::self());
  krylov::Options o;
  o.method = krylov::Method::cg, o.rtol = 1e-8;
  const int classical = run(*A, b, o).report.iterations;
  o.method = krylov::Method::ca_cg;
  for (const int s : {1, 2, 8}) {
    o.step = s;
    const auto report = run(*A, b, o).report;
    EXPECT_TRUE(report.converged());
    EXPECT_LE(report.iterations, classical + 4) << s;
  }
}

TEST(SweepsOfCg, ReplaceResidualsInTheLargestMagnitude) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = grid<double>(60, 60);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  krylov::Options o;
  o.rtol = 1e-8, o.norm = krylov::Norm::max, o.method = krylov::Method::cg;
  const int classical = run(*A, b, o).report.iterations;
  o.method = krylov::Method::ca_cg;
  for (const int period : {0, 5, 17}) {
    o.replacement = period;
    const auto found = run(*A, b, o);
    EXPECT_TRUE(found.report.converged());
    EXPECT_EQ(found.report.method, "ca-cg");
    EXPECT_LE(found.report.iterations, 1.1 * classical + 8) << period;
  }
}

TYPED_TEST(Sweeps, AreTheSameBitsForAnyThreads) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto A = matrix<T>();
  const auto b = random_vector<T>(A->domain().size(), 3);
  krylov::Options o;
  o.method = krylov::Method::ca_cg, o.step = 6, o.rtol = std::same_as<real_t<T>, double> ? 1e-9 : 1e-4;
  std::vector<T> one;
  for (const int team : {1, 2, 3}) {
    const test::Threads threads(team);
    const auto found = run(*A, b, o);
    EXPECT_EQ(found.report.reason, krylov::Reason::converged);
    if (team == 1) one = found.x;
    EXPECT_EQ(std::memcmp(one.data(), found.x.data(), one.size() * sizeof(T)), 0) << team << " threads";
  }
}

}  // namespace
}  // namespace tacit::test
