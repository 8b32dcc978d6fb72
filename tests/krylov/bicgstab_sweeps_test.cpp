// The sweeps of s-step BiCGStab without a basis: Gram matrices of powers, and steps with known coefficients.
#include "krylov/bicgstab_sweeps.hpp"
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/threads.hpp"

#include <tacit/op/csr.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace tacit::test {
namespace {

using krylov::BicgstabSweeps;
using krylov::GramTiles;
using krylov::MovingRows;
using layout::Vector;

template <class T>
class BicgstabWaves : public testing::Test {};
TYPED_TEST_SUITE(BicgstabWaves, test::Scalars);

template <class T>
constexpr double rounding = 64 * double(std::numeric_limits<real_t<T>>::epsilon());

/// Convection and diffusion on a grid that is cut into many blocks.
template <class T>
Whole<T> convection() {
  return grid<T>(60, 420, 0.3).map([](Global r, Global c, T v) {
    return r == c ? v + T(real_t<T>(0.1 * double(r % 7))) : v;
  });
}
template <class T>
T of_parts(double re, double im) {
  if constexpr (is_complex<T>) return T(real_t<T>(re), real_t<T>(im));
  else return T(re);
}
/// Of an ellipse about 4.3, with one step that looks back further than the others.
template <class T>
op::Recurrence<T> recurrence(int count) {
  op::Recurrence<T> steps;
  for (int k = 0; k < count; ++k)
    steps.push_back({of_parts<T>(4.3, 0.1), k ? of_parts<T>(k == 1 ? 1.8 : 0.9, 0.05) : T(0), real_t<T>(2.3)});
  return steps;
}

TYPED_TEST(BicgstabWaves, SumProductsOfColumns) {
  using T = TypeParam;
  using W = exec::wide_t<T>;
  for (const int columns : {1, 2, 5, 6, 10, 19}) {
    for (const int n : {1, 7, 128, 300}) {
      std::vector<std::vector<T>> v;
      std::vector<const T*> at;
      for (int c = 0; c < columns; ++c) {
        v.emplace_back();
        for (int i = 0; i < n; ++i) v.back().push_back(noise_of<T>(std::uint64_t(c), std::uint64_t(i)));
      }
      for (const auto& column : v) at.push_back(column.data());
      GramTiles<T> tiles;
      std::vector<W> sums(exec::pair_gram_size(columns, false), W(1));
      tiles.begin(columns);
      tiles.add(at.data(), n / 3);  // in two blocks
      for (auto& from : at) from += n / 3;
      tiles.add(at.data(), n - n / 3);
      tiles.add_to(sums.data());
      for (int b = 0, k = 0; b < columns; ++b)
        for (int a = 0; a <= b; ++a, ++k) {
          W expected(1);
          for (int i = 0; i < n; ++i)
            expected += conj(W(v[std::size_t(a)][std::size_t(i)])) * W(v[std::size_t(b)][std::size_t(i)]);
          EXPECT_LE(std::abs(expected - sums[std::size_t(k)]), rounding<T> * n) << columns << ": " << a << ", " << b;
        }
    }
  }
}

TEST(MovingRowsOfAVector, KeepWhatIsNeeded) {
  MovingRows<double> rows;
  for (const int columns : {1, 2, 1}) {  // a window that has been there grows by a column
    rows.begin(columns, 100);
    for (Local end = 110, keep = 100; end < 20000; end += 10) {
      rows.advance(keep, end);
      for (int c = 0; c < columns; ++c) {
        for (Local i = end - 10; i < end; ++i) rows.at(c)[i] = i + 0.5 * c;
        for (Local i = keep; i < end; ++i) ASSERT_EQ(rows.at(c)[i], i + 0.5 * c) << "column " << c << " of " << columns;
      }
      keep = std::max(keep, end - (end < 9000 ? 250 : 1500));
    }
  }
}

TYPED_TEST(BicgstabWaves, GiveTheGramMatrixOfThePowers) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using W = exec::wide_t<T>;
  const auto A = convection<T>().on(comm::Communicator::self());
  ASSERT_TRUE(A && A->whole());
  const auto& space = A->domain();
  const auto p = vector_of<T>(space, 3), r = vector_of<T>(space, 4), shadow = vector_of<T>(space, 5);
  for (const int s : {1, 2, 4}) {
    const int levels = 2 * s, columns = 2 * levels + 1;
    const auto steps = recurrence<T>(levels);
    std::vector<Vector<T>> of_p(std::size_t(levels + 1), p), of_r(std::size_t(levels + 1), r);
    for (auto* v : {&of_p, &of_r}) {
      std::vector<Vector<T>*> at;
      for (auto& x : *v) at.push_back(&x);
      A->powers(at, steps);
    }
    const auto column = [&](int c) -> const Vector<T>& {
      return c == columns ? shadow : (c % 2 ? of_r : of_p)[std::size_t(c / 2)];
    };
    std::vector<W> one;
    for (const int parts : {1, 2, 5}) {
      BicgstabSweeps<T> sweeps(*A->whole(), 4, parts);
      auto start = p;  // p := r + beta p from p = r = p - r
      layout::axpy(T(real_t<T>(-1)), r, start);
      sweeps.set_residual(start.data()), sweeps.turn(0);
      sweeps.set_residual(r.data()), sweeps.turn(1);
      std::vector<W> sums(exec::pair_gram_size(columns, true));
      for (int again = 0; again < 2; ++again) sweeps.gram(steps, shadow.data(), sums);
      for (int b = 0, k = 0; b <= columns; ++b)
        for (int a = 0; a <= b; ++a, ++k) {
          if (a == columns) continue;
          const W expected = b < columns ? W(layout::dot(column(a), column(b))) : W(layout::dot(shadow, column(a)));
          EXPECT_LE(std::abs(expected - sums[std::size_t(k)]),
                    4 * levels * rounding<T> * layout::norm(column(a)) * layout::norm(column(b)))
              << "s = " << s << ", " << a << ", " << b << " of " << parts << " parts";
        }
      if (one.empty()) one = sums;
      EXPECT_EQ(std::memcmp(one.data(), sums.data(), sums.size() * sizeof(W)), 0) << parts << " parts";
    }
  }
}

TYPED_TEST(BicgstabWaves, TakeStepsWithKnownCoefficients) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  using W = exec::wide_t<T>;
  const auto A = convection<T>().on(comm::Communicator::self());
  const auto& space = A->domain();
  const auto start = vector_of<T>(space, 3), shadow = vector_of<T>(space, 5);
  for (const int whole : {0, 1, 2, 3, 4})
    for (const bool half : {false, true})
      for (const bool turns : {true, false}) {
        if (whole + half == 0) continue;
        std::vector<typename BicgstabSweeps<T>::Step> steps;
        Vector<T> x(space), r = start, p = start, v(space), t(space);
        for (int j = 0; j < whole + half; ++j) {
          const T alpha = of_parts<T>(0.2 - 0.02 * j, 0.01), omega = of_parts<T>(0.1 + 0.01 * j, 0.02),
                  beta = of_parts<T>(0.6 - 0.1 * j, -0.03);
          A->apply(p, v);
          layout::axpy(-alpha, v, r);  // s
          layout::axpy(alpha, p, x);
          if (j == whole) {
            steps.push_back({.alpha = W(alpha), .half = true});
            break;
          }
          layout::axpy(omega, r, x);
          A->apply(r, t);
          layout::axpy(-omega, t, r);
          layout::axpy(-omega, v, p);
          const bool turn = turns || j + 1 < whole;
          if (turn) layout::scale(beta, p), layout::axpy(T(1), r, p);
          steps.push_back({W(alpha), W(omega), W(beta), turn});
        }
        std::vector<T> one;
        for (const int parts : {1, 2, 5}) {
          BicgstabSweeps<T> sweeps(*A->whole(), 5, parts);
          sweeps.set_residual(start.data()), sweeps.turn(0);
          std::vector<W> sums(exec::pair_gram_size(5, true)), square(2);
          sweeps.gram(recurrence<T>(2), shadow.data(), sums);  // which gets the rows that other threads have
          Vector<T> found(space), residual(space);
          sweeps.iterate(steps, found.data());
          sweeps.copy_residual(residual.data());
          const std::string what = message(whole, half ? " and a half" : "", " steps, ", parts, " parts");
          const auto near = [&](const Vector<T>& expected, Vector<T> given, const char* name) {
            layout::axpy(T(-1), expected, given);
            EXPECT_LE(layout::norm(given), rounding<T> * layout::norm(expected)) << name << " of " << what;
          };
          near(x, found, "x"), near(r, residual, "r");
          sweeps.measure(shadow.data(), square.data());
          EXPECT_LE(std::abs(square[0] - W(layout::dot(r, r))), rounding<T> * std::abs(square[0])) << what;
          EXPECT_LE(std::abs(square[1] - W(layout::dot(shadow, r))),
                    rounding<T> * layout::norm(shadow) * layout::norm(r))
              << what;
          // p, by the Gram matrix of the next block: (p, p) and (p, r).
          sweeps.gram(recurrence<T>(2), shadow.data(), sums);
          EXPECT_LE(std::abs(sums[0] - W(layout::dot(p, p))), rounding<T> * std::abs(sums[0])) << what;
          EXPECT_LE(std::abs(sums[1] - W(layout::dot(p, r))), rounding<T> * layout::norm(p) * layout::norm(r)) << what;
          if (one.empty()) one.assign(found.data(), found.data() + found.size());
          EXPECT_EQ(std::memcmp(one.data(), found.data(), one.size() * sizeof(T)), 0) << what;
        }
      }
}

krylov::Options options(int step, double rtol) {
  krylov::Options o;
  o.method = krylov::Method::ca_bicgstab, o.step = step, o.rtol = rtol;
  return o;
}
/// A swept block of s iterations makes 4 s products, one with a stored basis 2 s.
void expect_swept(const krylov::Report& report, bool swept = true) {
  EXPECT_EQ(report.counts.operator_applies > 3 * report.iterations, swept) << report.iterations;
}

TYPED_TEST(BicgstabWaves, GiveTheIteratesOfAStoredBasis) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = convection<T>();
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<T>(a.n, 3);
  for (const int s : {1, 2, 4})
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max})
      for (const auto& replacement : {std::optional<int>(), std::optional<int>(5)}) {
        auto o = options(s, 0);
        o.max_iterations = is_wide<T> ? 14 : 8, o.norm = norm, o.replacement = replacement;
        const auto swept = run(*A, b, o);
        o.powers = op::Powers::kernel;
        const auto stored = run(*A, b, o);
        expect_swept(swept.report), expect_swept(stored.report, false);
        ASSERT_EQ(swept.report.history.size(), stored.report.history.size());
        for (std::size_t k = 0; k < swept.report.history.size(); ++k)
          EXPECT_NEAR(swept.report.history[k], stored.report.history[k],
                      (is_wide<T> ? 1e-6 : 0.05) * stored.report.history[k])
              << "s = " << s << ", iteration " << k;
        EXPECT_LE(relative_difference(swept.x, stored.x), is_wide<T> ? 1e-8L : 1e-2L) << s;
      }
}

TYPED_TEST(BicgstabWaves, AreTheSameBitsForAnyThreads) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto A = convection<T>().on(comm::Communicator::self());
  const auto b = random_vector<T>(A->domain().size(), 3);
  for (const int s : {2, 4}) {
    const auto o = options(s, is_wide<T> ? 1e-9 : 1e-4);
    std::vector<T> one;
    for (const int team : {1, 2, 3}) {
      const test::Threads threads(team);
      const auto found = run(*A, b, o);
      EXPECT_TRUE(found.report.converged()) << found.report.detail;
      expect_swept(found.report);
      if (team == 1) one = found.x;
      EXPECT_EQ(std::memcmp(one.data(), found.x.data(), one.size() * sizeof(T)), 0) << team << " threads";
    }
  }
}

TEST(SweepsOfBicgstab, TakeTheIterationsOfBicgstabWithTrueResiduals) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = grid<double>(64, 420, 0.5);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  krylov::Options classical;
  classical.method = krylov::Method::bicgstab, classical.rtol = 1e-10;
  const int reference = run(*A, b, classical).report.iterations;
  for (const int s : {0, 1, 2, 4, 8}) {
    auto o = options(s, 1e-10);
    if (s == 0) o.step.reset();
    const auto found = run(*A, b, o);
    EXPECT_TRUE(found.report.converged()) << found.report.detail;
    EXPECT_EQ(found.report.method, "ca-bicgstab");
    EXPECT_EQ(found.report.restarts, 0);
    if (s < 8) expect_swept(found.report);  // levels of 16 are too far apart for so few rows
    EXPECT_LE(found.report.iterations, 1.3 * reference) << s;
    EXPECT_LE(residual_of(a, b, found.x), 1.0001e-10L) << s;
  }
}

TEST(SweepsOfBicgstab, EndAsThoseWithAStoredBasis) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Global n = 60000;
  const auto outcome = [&](const Whole<double>& a, const std::vector<double>& b, int s, bool fallbacks,
                           op::Powers powers) {
    auto o = options(s, 1e-8);
    o.fallbacks = fallbacks, o.powers = powers, o.max_iterations = 40;
    const auto found = run(*a.on(comm::Communicator::self()), b, o);
    for (const double v : found.x) EXPECT_TRUE(is_finite(v));
    return found.report;
  };
  const auto b = random_vector<double>(n, 1);
  for (const int s : {1, 4})
    for (const auto powers : {op::Powers::products, op::Powers::kernel}) {
      // (r, A r) = 0
      const auto skew = outcome(skew_tridiagonal<double>(n), b, s, false, powers);
      EXPECT_EQ(skew.reason, krylov::Reason::breakdown) << skew.detail;
      EXPECT_NE(skew.detail.find("(r0, A p)"), std::string::npos) << skew.detail;
      // The second iteration has nothing left to do: s = 0.
      const auto one = outcome(diagonal<double>(std::vector<double>(std::size_t(n), 2.0)), b, s, false, powers);
      EXPECT_TRUE(one.converged()) << one.detail;
      EXPECT_EQ(one.iterations, 1);
    }
  // Powers beyond the range of numbers: blocks of one iteration, or none, but no result that is not a number.
  auto large = grid<double>(40, 600, 0.3).map([](Global, Global, double v) { return 1e60 * v; });
  const auto c = random_vector<double>(large.n, 2);
  const auto ends = outcome(large, c, 4, true, op::Powers::products);
  EXPECT_NE(ends.reason, krylov::Reason::breakdown) << ends.detail;
}

TEST(SweepsOfBicgstab, AreNotTakenWhereLevelsAreFarApart) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  // Each row reads one at the other end: no level can begin before the one below it is complete.
  const Global n = 20000;
  Whole<double> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    const Global other = n - 1 - i;
    if (other < i) a.push(other, -1);
    a.push(i, 3);
    if (other > i) a.push(other, -1);
    a.end_row();
  }
  const auto found = run(*a.on(comm::Communicator::self()), random_vector<double>(n, 1), options(4, 1e-10));
  EXPECT_TRUE(found.report.converged());
  EXPECT_LE(found.report.counts.operator_applies, 8);  // two iterations in blocks of 1 and 2
}

}  // namespace
}  // namespace tacit::test
