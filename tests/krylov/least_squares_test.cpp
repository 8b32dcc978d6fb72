// Least-squares solves: against the singular value decomposition, on any layout of rows and columns; what they say of
// problems that have no solution, or many; what an iteration costs.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/krylov/least_squares.hpp>
#include <tacit/op/diagonal.hpp>
#include <tacit/op/function.hpp>
#include <tacit/precond/column_scaling.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using krylov::Ending;
using krylov::LeastSquaresMethod;
using krylov::LeastSquaresOptions;
using krylov::LeastSquaresReport;
using krylov::Met;
using krylov::Reason;
using layout::Space;
using layout::Vector;

template <class T>
class LeastSquares : public testing::Test {};
TYPED_TEST_SUITE(LeastSquares, test::Scalars);

constexpr LeastSquaresMethod bidiagonal[] = {LeastSquaresMethod::lsmr, LeastSquaresMethod::lsqr};
constexpr LeastSquaresMethod all[] = {LeastSquaresMethod::lsmr, LeastSquaresMethod::lsqr, LeastSquaresMethod::cg,
                                      LeastSquaresMethod::pipelined_cg, LeastSquaresMethod::ca_cg};

template <class T>
constexpr double tight = is_wide<T> ? 1e-12 : 2e-6;

/// A matrix of full rank with singular values within a factor of about 20, and sparse.
template <class T>
Reference<T> problem(Global rows, Global columns, std::uint64_t seed = 1) {
  auto a = random_matrix<T>(rows, columns, seed,
                            [&](Global i, Global j) { return (i * 7 + j * 5) % 4 == 0 || i % columns == j; });
  for (Global i = 0; i < std::min(rows, columns); ++i) a.entry[{i, i}] += T(6);
  return a;
}

/// The shortest x with the least ||b - A x||^2 + damp^2 ||x||^2, by the singular value decomposition.
template <class T>
std::vector<T> expected(const Reference<T>& a, const std::vector<T>& b, double damp = 0) {
  using W = in_double_t<T>;
  const int m = int(a.rows), n = int(a.columns), k = std::min(m, n);
  std::vector<W> dense(std::size_t(m) * std::size_t(n)), u(std::size_t(m) * std::size_t(k)),
      vh(std::size_t(k) * std::size_t(n));
  std::vector<double> s(static_cast<std::size_t>(k));
  for (const auto& [at, v] : a.entry) dense[std::size_t(at.first + at.second * m)] = W(v);
  EXPECT_TRUE(lapack::svd<W>(dense.data(), m, n, u.data(), s.data(), vh.data()));
  std::vector<W> x(static_cast<std::size_t>(n));
  for (int j = 0; j < k; ++j) {
    if (s[std::size_t(j)] <= 1e-7 * s[0]) continue;
    W along(0);
    for (int i = 0; i < m; ++i) along += conj(u[std::size_t(i + j * m)]) * W(b[std::size_t(i)]);
    along *= s[std::size_t(j)] / (s[std::size_t(j)] * s[std::size_t(j)] + damp * damp);
    for (int i = 0; i < n; ++i) x[std::size_t(i)] += along * conj(vh[std::size_t(j + i * k)]);
  }
  std::vector<T> rounded;
  for (const W& v : x) rounded.push_back(T(v));
  return rounded;
}

/// How rows or columns are dealt: in blocks, all to the last rank, or none to every other rank.
enum class Spread { blocks, last, holes };
Space dealt(const comm::Communicator& comm, Global n, Spread how) {
  std::vector<Global> offsets{0};
  const int p = comm.size();
  for (int r = 0; r < p; ++r) {
    if (how == Spread::blocks) return Space::distributed(comm, n);
    if (how == Spread::last) offsets.push_back(r == p - 1 ? n : 0);
    else offsets.push_back(n * (r / 2 + 1) / ((p + 1) / 2));
  }
  return Space::distributed(comm, layout::Partition(std::move(offsets)));
}

template <class T>
op::Csr<T, Host> made(const comm::Communicator& comm, const Reference<T>& a, Spread rows = Spread::blocks,
                      Spread columns = Spread::blocks) {
  const auto range = dealt(comm, a.rows, rows), domain = dealt(comm, a.columns, columns);
  return {range, domain, a.rows_of(range)};
}

template <class T>
Vector<T> part(const Space& space, const std::vector<T>& whole) {
  Vector<T> v(space);
  v.assign({whole.data() + space.begin(), std::size_t(space.local_size())});
  return v;
}

/// ||x - y|| / ||y|| over all ranks.
template <class T>
double apart(const Vector<T>& x, const std::vector<T>& whole) {
  const auto y = part(x.space(), whole);
  Vector<T> difference = x;
  layout::axpy(T(-1), y, difference);
  return layout::norm(difference) / layout::norm(y);
}

LeastSquaresOptions by(LeastSquaresMethod method, double tolerance, double damp = 0) {
  LeastSquaresOptions o;
  o.method = method, o.atol = o.btol = tolerance, o.damp = damp;
  return o;
}

TYPED_TEST(LeastSquares, SolutionsAreThoseOfTheSingularValueDecomposition) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const std::pair<Global, Global> shapes[] = {{40, 13}, {13, 40}, {21, 21}, {1, 5}, {5, 1}, {1, 1}};
        const Spread spreads[][2] = {
            {Spread::blocks, Spread::blocks}, {Spread::last, Spread::holes}, {Spread::holes, Spread::last}};
        for (const auto& [m, n] : shapes)
          for (const auto& spread : spreads)
            for (const double damp : {0.0, 2.0})
              for (const auto method : all) {
                const auto a = problem<T>(m, n);
                const auto A = made(comm, a, spread[0], spread[1]);
                const auto b = whole_vector<T>(m, 7);
                Vector<T> x(A.domain());
                const auto report =
                    krylov::least_squares<T, Host>(A, nullptr, part(A.range(), b), x, by(method, tight<T>, damp));
                const auto name = message(to_string(method), " ", m, " x ", n, " damp ", damp);
                EXPECT_EQ(report.reason, Reason::converged) << name << ": " << report.detail;
                EXPECT_LE(apart(x, expected(a, b, damp)), is_wide<T> ? 1e-9 : 2e-3) << name;
                const bool solves = m <= n && damp == 0;
                if (m != n || damp == 0) {
                  EXPECT_EQ(report.met, solves ? Met::residual : Met::gradient) << name;
                }
                EXPECT_LE(report.restarts, 3) << name;
              }
      },
      {2, 3});
}

/// The report's numbers against plain computations from x.
TYPED_TEST(LeastSquares, ReportsHaveTheNormsOfTheirX) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = problem<T>(30, 12);
    const auto A = made(comm, a);
    const auto b = part(A.range(), whole_vector<T>(30, 3));
    for (const double damp : {0.0, 1.5}) {
      Vector<T> x(A.domain()), g(A.domain()), r(A.range());
      const auto report = krylov::least_squares<T, Host>(A, nullptr, b, x, by(LeastSquaresMethod::lsqr, 1e-2, damp));
      A.apply(x, r);
      layout::subtract(b, r, r);
      A.apply_adjoint(r, g);
      layout::axpy(T(real_t<T>(-damp * damp)), x, g);
      const double rr = layout::norm(r), gg = layout::norm(g), xx = layout::norm(x);
      const double digits = is_wide<T> ? 1e-10 : 1e-3;
      EXPECT_NEAR(report.residual, rr, digits * rr);
      EXPECT_NEAR(report.residual_norm, rr / layout::norm(b), digits);
      EXPECT_NEAR(report.damped_residual, std::hypot(rr, damp * xx), digits * rr);
      EXPECT_NEAR(report.gradient, gg, digits * rr);
      EXPECT_NEAR(report.solution, xx, digits * xx);
      EXPECT_NEAR(report.gradient_norm, gg / (report.matrix_norm * report.damped_residual), digits);
      EXPECT_LE(report.gradient_norm, 1e-2);
    }
  });
}

TYPED_TEST(LeastSquares, ResidualsAndGradientsFall) {
  using T = TypeParam;
  const auto a = problem<T>(60, 40);
  const auto A = made(comm::Communicator::self(), a);
  const auto b = part(A.range(), whole_vector<T>(60, 3));
  for (const double damp : {0.0, 0.7})
    for (const auto method : bidiagonal) {
      Vector<T> x(A.domain());
      auto o = by(method, is_wide<T> ? 1e-9 : 1e-5, damp);
      const auto report = krylov::least_squares<T, Host>(A, nullptr, b, x, o);
      ASSERT_TRUE(report.converged());
      ASSERT_EQ(int(report.history.size()), report.iterations + 1);
      ASSERT_EQ(int(report.gradient_history.size()), report.iterations + 1);
      for (int k = 1; k <= report.iterations; ++k) {
        EXPECT_LE(report.history[k], (1 + 10 * epsilon<T>()) * report.history[k - 1]) << to_string(method) << k;
        if (method == LeastSquaresMethod::lsmr) {
          EXPECT_LE(report.gradient_history[k], (1 + 10 * epsilon<T>()) * report.gradient_history[k - 1]) << k;
        }
      }
      // The recurrences' last norms are those of x.
      EXPECT_NEAR(report.history.back(), report.damped_residual / layout::norm(b), is_wide<T> ? 1e-10 : 1e-4);
    }
}

/// lsqr has the least residual of the Krylov space, lsmr the least gradient.
TEST(LeastSquaresIterates, EachMinimisesItsNorm) {
  const auto a = problem<double>(60, 40);
  const auto A = made(comm::Communicator::self(), a);
  const auto b = part(A.range(), whole_vector<double>(60, 3));
  for (int k = 1; k <= 8; ++k) {
    LeastSquaresReport report[2];
    for (int i = 0; i < 2; ++i) {
      Vector<double> x(A.domain());
      auto o = by(bidiagonal[i], 1e-14);
      o.max_iterations = k;
      report[i] = krylov::least_squares<double, Host>(A, nullptr, b, x, o);
      EXPECT_EQ(report[i].reason, Reason::max_iterations);
      EXPECT_EQ(report[i].ending, Ending::iterations);
      EXPECT_EQ(report[i].iterations, k);
    }
    EXPECT_LE(report[0].gradient, (1 + 1e-12) * report[1].gradient) << k;
    EXPECT_GE(report[0].residual, (1 - 1e-12) * report[1].residual) << k;
  }
}

TYPED_TEST(LeastSquares, RanksAgree) {
  using T = TypeParam;
  std::vector<int> iterations;
  std::vector<std::vector<T>> solutions;
  on_ranks([&](const comm::Communicator& comm) {
    const auto a = problem<T>(90, 50);
    const auto A = made(comm, a);
    const auto b = part(A.range(), whole_vector<T>(90, 3));
    Vector<T> x(A.domain());
    const auto report =
        krylov::least_squares<T, Host>(A, nullptr, b, x, by(LeastSquaresMethod::lsmr, is_wide<T> ? 1e-10 : 1e-5));
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_LE(apart(x, expected(a, whole_vector<T>(90, 3))), is_wide<T> ? 1e-8 : 1e-3);
    if (comm.rank() == 0) iterations.push_back(report.iterations);
  });
  for (const int k : iterations) EXPECT_NEAR(k, iterations.front(), is_wide<T> ? 1 : 3);
}

TYPED_TEST(LeastSquares, AnIterationHasTwoReductionsAndTwoProducts) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = problem<T>(60, 40);
    const auto A = made(comm, a);
    const auto b = part(A.range(), whole_vector<T>(60, 3));
    for (const double damp : {0.0, 0.5})
      for (const auto method : bidiagonal) {
        const auto counts = [&](int most) {
          Vector<T> x(A.domain());
          auto o = by(method, 0, damp);
          o.max_iterations = most;
          const auto report = krylov::least_squares<T, Host>(A, nullptr, b, x, o);
          EXPECT_EQ(report.iterations, most) << report.detail;
          return report.counts;
        };
        const auto few = counts(3), more = counts(8);
        EXPECT_EQ(more.reductions - few.reductions, 2 * 5);
        EXPECT_EQ(more.operator_applies - few.operator_applies, 2 * 5);
        // A^H b before, b - A x and its gradient after; and a product that alpha was hidden behind.
        EXPECT_EQ(few.operator_applies, 2 * 3 + 3 + (comm.size() > 1));
      }
  });
}

/// From x = 0 the shortest solution; from another x0 one whose residual is as small.
TYPED_TEST(LeastSquares, DependentColumnsGiveTheShortestSolution) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    auto a = problem<T>(40, 12);
    for (Global i = 0; i < a.rows; ++i) {  // column 3 is twice column 7, column 5 is empty
      a.entry.erase({i, 3});
      a.entry.erase({i, 5});
      if (const auto v = a.entry.find({i, 7}); v != a.entry.end()) a.entry[{i, 3}] = T(2) * v->second;
    }
    const auto A = made(comm, a);
    const auto b = whole_vector<T>(40, 3);
    for (const auto method : bidiagonal) {
      Vector<T> x(A.domain());
      const auto o = by(method, is_wide<T> ? 1e-10 : 1e-5);
      const auto report = krylov::least_squares<T, Host>(A, nullptr, part(A.range(), b), x, o);
      EXPECT_TRUE(report.converged()) << report.detail;
      EXPECT_EQ(report.met, Met::gradient);
      EXPECT_LE(apart(x, expected(a, b)), is_wide<T> ? 1e-8 : 1e-3) << to_string(method);
      auto from = part(A.domain(), whole_vector<T>(12, 9));
      const auto other = krylov::least_squares<T, Host>(A, nullptr, part(A.range(), b), from, o);
      EXPECT_TRUE(other.converged());
      EXPECT_NEAR(other.residual, report.residual, (is_wide<T> ? 1e-8 : 1e-3) * report.residual);
      EXPECT_GT(other.solution, 1.01 * report.solution);
    }
  });
}

TYPED_TEST(LeastSquares, GuessesDoNotChangeWhatIsMinimised) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = problem<T>(40, 12);
    const auto A = made(comm, a);
    const auto b = whole_vector<T>(40, 3);
    const auto P = precond::column_scaling<T>(A, 2);
    for (const double damp : {0.0, 2.0})
      for (const bool with_P : {false, true})
        for (const auto method : all) {
          auto x = part(A.domain(), whole_vector<T>(12, 9));
          const auto report = krylov::least_squares<T, Host>(A, with_P ? P.get() : nullptr, part(A.range(), b), x,
                                                             by(method, tight<T>, damp));
          EXPECT_TRUE(report.converged()) << to_string(method) << damp << with_P << report.detail;
          EXPECT_LE(apart(x, expected(a, b, damp)), is_wide<T> ? 1e-9 : 2e-3) << to_string(method) << damp << with_P;
          // A solve from a solution has nothing to do.
          const auto again = krylov::least_squares<T, Host>(A, with_P ? P.get() : nullptr, part(A.range(), b), x,
                                                            by(method, 10 * tight<T>, damp));
          EXPECT_TRUE(again.converged());
          EXPECT_EQ(again.iterations, 0);
          EXPECT_EQ(again.ending, Ending::start);
        }
  });
}

/// Columns of lengths from 1e-4 to 1e4 cost iterations, and scaling them does away with that.
TYPED_TEST(LeastSquares, ColumnScalingMakesLengthsEqual) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    auto a = problem<T>(60, 20);
    for (auto& [at, v] : a.entry) v *= T(real_t<T>(std::pow(10.0, double(at.second % 5) - 2)));
    for (const double damp : {0.0, 3.0}) {
      const auto A = made(comm, a);
      const auto P = precond::column_scaling<T>(A, damp);
      std::vector<double> squares(20, damp * damp);
      for (const auto& [at, v] : a.entry) squares[std::size_t(at.second)] += std::norm(std::complex<double>(v));
      const auto own = P->diagonal();
      for (std::size_t i = 0; i < own.size(); ++i)
        EXPECT_NEAR(std::abs(own[i]) * std::sqrt(squares[std::size_t(A.domain().begin()) + i]), 1, 10 * epsilon<T>());
      const auto b = whole_vector<T>(60, 3);
      int iterations[2];
      for (const bool scaled : {false, true}) {
        Vector<T> x(A.domain());
        const auto report =
            krylov::least_squares<T, Host>(A, scaled ? P.get() : nullptr, part(A.range(), b), x,
                                           by(LeastSquaresMethod::lsmr, is_wide<T> ? 1e-10 : 1e-5, damp));
        iterations[scaled] = report.iterations;
        if (!scaled) continue;
        EXPECT_TRUE(report.converged()) << report.detail;
        EXPECT_EQ(report.precond, "jacobi");
        EXPECT_LE(apart(x, expected(a, b, damp)), is_wide<T> ? 1e-7 : 1e-2);
        EXPECT_GE(report.counts.preconditioner_applies, 2 * report.iterations);
      }
      if (damp == 0) {
        EXPECT_LT(iterations[1], iterations[0]);
      }
    }
  });
}

TEST(LeastSquaresVerdicts, ASingularPreconditionerIsSeen) {
  const auto comm = comm::Communicator::self();
  const auto a = Reference<double>::diagonal(2, [](Global) { return 1.0; });
  const auto A = made(comm, a);
  const op::Diagonal<double, Host> P(part<double>(A.domain(), {1, 0}), "singular");
  Vector<double> x(A.domain());
  const auto report = krylov::least_squares<double, Host>(A, &P, part<double>(A.range(), {0, 1}), x,
                                                          by(LeastSquaresMethod::lsmr, 1e-8));
  EXPECT_EQ(report.reason, Reason::breakdown);
  EXPECT_EQ(report.met, Met::neither);
  EXPECT_NE(report.detail.find("singular"), std::string::npos) << report.detail;
  EXPECT_NEAR(report.gradient, 1, 1e-12);
}

TYPED_TEST(LeastSquares, TrivialProblems) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = problem<T>(20, 8);
    const auto A = made(comm, a);
    for (const auto method : all) {
      // b = 0.
      auto x = part(A.domain(), whole_vector<T>(8, 9));
      auto report = krylov::least_squares<T, Host>(A, nullptr, Vector<T>(A.range()), x, by(method, 1e-8));
      EXPECT_TRUE(report.converged());
      EXPECT_EQ(layout::norm(x), 0);
      // A^H b = 0: x = 0 is the shortest least-squares solution.
      Reference<T> flat{3, 2, {}};
      flat.entry[{0, 0}] = flat.entry[{1, 1}] = T(1);
      const auto F = made(comm, flat);
      Vector<T> y(F.domain());
      report = krylov::least_squares<T, Host>(F, nullptr, part<T>(F.range(), {T(0), T(0), T(2)}), y, by(method, 1e-8));
      EXPECT_TRUE(report.converged());
      EXPECT_EQ(report.met, Met::gradient);
      EXPECT_EQ(report.iterations, 0);
      EXPECT_NEAR(report.residual_norm, 1, 1e-12);
      // A = 0, with damp: ||x|| is minimised from any x0.
      const auto Z = made(comm, Reference<T>{5, 4, {}});
      auto z = part(Z.domain(), whole_vector<T>(4, 9));
      report = krylov::least_squares<T, Host>(Z, nullptr, part(Z.range(), whole_vector<T>(5, 1)), z,
                                              by(method, is_wide<T> ? 1e-10 : 1e-5, 1));
      EXPECT_TRUE(report.converged()) << report.detail;
      EXPECT_LE(layout::norm(z), is_wide<T> ? 1e-8 : 1e-4) << to_string(method);
    }
  });
}

TYPED_TEST(LeastSquares, UnitsDoNotMatter) {
  using T = TypeParam;
  const auto a = problem<T>(40, 12);
  const auto b = whole_vector<T>(40, 3);
  const auto comm = comm::Communicator::self();
  const auto power = [](int e, T v) {
    if constexpr (is_complex<T>) return T(std::ldexp(v.real(), e), std::ldexp(v.imag(), e));
    else return std::ldexp(v, e);
  };
  const int far = is_wide<T> ? 600 : 80;
  std::vector<T> plain;
  int iterations = 0;
  for (const auto& [of_A, of_b] : {std::pair{0, 0}, {far, 0}, {0, far}, {-far, -far}, {-far / 2, far / 3}}) {
    auto scaled = a;
    for (auto& [at, v] : scaled.entry) v = power(of_A, v);
    auto right = b;
    for (auto& v : right) v = power(of_b, v);
    const auto A = made(comm, scaled);
    const auto P = precond::column_scaling<T>(A);
    for (const bool with_P : {false, true}) {
      Vector<T> x(A.domain());
      const double damp = std::ldexp(0.5, of_A);
      const auto report = krylov::least_squares<T, Host>(A, with_P ? P.get() : nullptr, part(A.range(), right), x,
                                                         by(LeastSquaresMethod::lsqr, is_wide<T> ? 1e-10 : 1e-5, damp));
      ASSERT_TRUE(report.converged()) << of_A << " " << of_b << " " << report.detail;
      if (with_P) continue;
      auto back = x.to_host();
      for (auto& v : back) v = power(of_A - of_b, v);
      if (plain.empty()) plain = back, iterations = report.iterations;
      EXPECT_EQ(report.iterations, iterations);
      EXPECT_LE(apart(part(A.domain(), back), plain), 10 * epsilon<T>());
    }
  }
}

TEST(LeastSquaresVerdicts, WhatIsNotFiniteIsNamed) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = problem<double>(20, 8);
    const auto A = made(comm, a);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    auto b = whole_vector<double>(20, 3);
    b[11] = nan;
    Vector<double> x(A.domain());
    auto report = krylov::least_squares<double, Host>(A, nullptr, part(A.range(), b), x);
    EXPECT_EQ(report.reason, Reason::non_finite);
    EXPECT_NE(report.detail.find("b has a value that is not finite at index 11"), std::string::npos) << report.detail;
    auto wrong = a;
    wrong.entry[{5, 5}] = nan;
    const auto N = made(comm, wrong);
    report = krylov::least_squares<double, Host>(N, nullptr, part(A.range(), whole_vector<double>(20, 3)), x);
    EXPECT_EQ(report.reason, Reason::non_finite);
    EXPECT_NE(report.detail.find("row 5"), std::string::npos) << report.detail;
    // A function that begins to give NaN later on.
    int calls = 0;
    const op::Function<double, Host> F(
        A.range(), A.domain(),
        [&](const double* from, double* to, int) {
          for (Local i = 0; i < A.range().local_size(); ++i) to[i] = ++calls > 60 ? nan : 1.0;
          if (A.domain().local_size() > 0 && A.range().local_size() > 0) to[0] += from[0];
        },
        [&](const double* from, double* to, int) {
          for (Local i = 0; i < A.domain().local_size(); ++i)
            to[i] = A.range().local_size() > 0 ? from[0] + 0.1 * double(i) : double(i + 1);
        });
    for (const auto method : all) {
      calls = 0;
      layout::fill(x, 0.0);
      report = krylov::least_squares<double, Host>(F, nullptr, part(A.range(), whole_vector<double>(20, 3)), x,
                                                   by(method, 1e-14));
      EXPECT_NE(report.reason, Reason::converged);
      EXPECT_TRUE(std::isfinite(layout::norm(x))) << to_string(method);
      EXPECT_TRUE(std::isfinite(report.residual));
    }
  });
}

TEST(LeastSquaresVerdicts, LimitsEndASolve) {
  const auto a = problem<double>(60, 40);
  const auto A = made(comm::Communicator::self(), a);
  const auto b = part(A.range(), whole_vector<double>(60, 3));
  for (const auto method : bidiagonal) {
    Vector<double> x(A.domain());
    auto o = by(method, 1e-12);
    o.condition_limit = 1.2;
    auto report = krylov::least_squares<double, Host>(A, nullptr, b, x, o);
    EXPECT_EQ(report.reason, Reason::stopped);
    EXPECT_EQ(report.ending, Ending::condition);
    EXPECT_NE(report.detail.find("condition_limit"), std::string::npos) << report.detail;
    EXPECT_GE(report.condition, 1.2);
    o.condition_limit = {};
    o.callback = [](const krylov::State& s) { return s.iteration == 3; };
    layout::fill(x, 0.0);
    report = krylov::least_squares<double, Host>(A, nullptr, b, x, o);
    EXPECT_EQ(report.reason, Reason::stopped);
    EXPECT_EQ(report.iterations, 3);
    EXPECT_GT(layout::norm(x), 0);
    // No tolerance that rounding errors allow.
    o.callback = {};
    o.atol = o.btol = 0;
    layout::fill(x, 0.0);
    report = krylov::least_squares<double, Host>(A, nullptr, b, x, o);
    EXPECT_EQ(report.reason, Reason::stagnated) << to_string(report.ending);
    EXPECT_LE(report.gradient_norm, 1e-14);
  }
}

TEST(LeastSquaresVerdicts, CallbacksSeeTheIterate) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = problem<double>(60, 40);
    const auto A = made(comm, a);
    const auto P = precond::column_scaling<double>(A);
    const auto b = part(A.range(), whole_vector<double>(60, 3));
    for (const auto method : bidiagonal) {
      Vector<double> x(A.domain()), r(A.range());
      auto o = by(method, 1e-10);
      int calls = 0;
      o.callback = [&](const krylov::State& s) {
        std::vector<double> own(std::size_t(A.domain().local_size()));
        s.solution(own.data());
        Vector<double> seen(A.domain());
        seen.assign(own);
        A.apply(seen, r);
        layout::subtract(b, r, r);
        EXPECT_NEAR(layout::norm(r) / layout::norm(b), s.residual_norm, 1e-12);
        return ++calls == 20;
      };
      const auto report = krylov::least_squares<double, Host>(A, P.get(), b, x, o);
      EXPECT_EQ(calls, report.iterations);
      EXPECT_GT(calls, 3);
    }
  });
}

/// (A^H A + damp^2 I)^-1 by lsqr, once it has been through the whole space; from below.
TEST(LeastSquaresVerdicts, VarianceOfTheSolution) {
  const auto a = problem<double>(20, 6);
  const auto A = made(comm::Communicator::self(), a);
  const auto b = part(A.range(), whole_vector<double>(20, 3));
  for (const double damp : {0.0, 2.0}) {
    Vector<double> x(A.domain()), variance(A.domain());
    auto o = by(LeastSquaresMethod::lsqr, 1e-14, damp);
    o.max_iterations = 6;
    krylov::least_squares<double, Host>(A, nullptr, b, x, o, &variance);
    for (Global j = 0; j < 6; ++j) {
      // Column j of the inverse: the least-squares solution of A^H A + damp^2 I, itself a matrix.
      auto normal = a.adjoint() * a;
      for (Global i = 0; i < 6; ++i) normal.entry[{i, i}] += damp * damp;
      std::vector<double> unit(6);
      unit[std::size_t(j)] = 1;
      const double is = expected(normal, unit)[std::size_t(j)];
      EXPECT_NEAR(variance.to_host()[std::size_t(j)], is, 1e-6 * is) << damp;
      EXPECT_LE(variance.to_host()[std::size_t(j)], (1 + 1e-9) * is);
    }
  }
}

TEST(LeastSquaresVerdicts, WrongUse) {
  const auto comm = comm::Communicator::self();
  const auto A = made(comm, problem<double>(20, 8));
  Vector<double> b(A.range()), x(A.domain());
  const auto fails = [&](const std::string& text, const auto& f) {
    try {
      f();
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  fails("b has 8 elements", [&] { krylov::least_squares<double, Host>(A, nullptr, x, x); });
  fails("x has 20 elements", [&] { krylov::least_squares<double, Host>(A, nullptr, b, b); });
  const op::Function<double, Host> F(A.range(), A.domain(), [](const double*, double*, int) {});
  fails("needs products with A^H", [&] { krylov::least_squares<double, Host>(F, nullptr, b, x); });
  LeastSquaresOptions o;
  o.damp = -1;
  fails("damp is -1", [&] { krylov::least_squares<double, Host>(A, nullptr, b, x, o); });
  o.damp = 0, o.step = 4;
  fails("step 4 is an option of ca-cg", [&] { krylov::least_squares<double, Host>(A, nullptr, b, x, o); });
  o.step = {};
  fails("variance", [&] { krylov::least_squares<double, Host>(A, nullptr, b, x, o, &x); });
  const op::Function<double, Host> P(A.domain(), A.domain(), [](const double*, double*, int) {});
  fails("adjoint product", [&] { krylov::least_squares<double, Host>(A, &P, b, x); });
}

}  // namespace
}  // namespace tacit::test
