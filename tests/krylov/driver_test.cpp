// What the driver promises whatever the method: norms, guesses, callbacks and cycles at the edges.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Norm;
using krylov::Options;
using krylov::Reason;

template <class T>
double largest(const std::vector<T>& v) {
  double most = 0;
  for (const T a : v) most = std::max(most, double(std::abs(a)));
  return most;
}

template <class T>
void stops_on_the_largest_element(double size, double rtol) {
  const auto a = grid<T>(20, 20);
  auto b = random_vector<T>(a.n, 3);
  for (T& v : b) v *= T(size);
  const auto A = a.on(comm::Communicator::self());
  for (const Method method : {Method::ca_cg, Method::ca_bicgstab}) {
    Options o;
    o.method = method, o.norm = Norm::max, o.rtol = rtol;
    const auto found = run(*A, b, o);
    ASSERT_EQ(found.report.reason, Reason::converged);
    auto r = a.times(found.x);
    double most = 0;
    for (std::size_t i = 0; i < r.size(); ++i) most = std::max(most, double(std::abs(widen(b[i]) - r[i])));
    EXPECT_LE(most, 1.01 * rtol * largest(b)) << to_string(method) << " " << size;
  }
}
TEST(Driver, MaxNormIsThatOfTheGivenSystem) {
  for (const double size : {1e-30, 1.0, 1e30}) stops_on_the_largest_element<double>(size, 1e-6);
  for (const double size : {1e-4, 1e4}) stops_on_the_largest_element<float>(size, 1e-3);
}

TEST(Driver, OneRankThatStopsStopsAll) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = grid<double>(9, 8);
    const auto A = a.on(comm);
    const auto b = random_vector<double>(a.n, 1);
    for (const auto& method : all_methods()) {
      Options o;
      method.choose(o);
      o.rtol = 1e-13, o.max_iterations = 40;
      o.callback = [&](const krylov::State& s) { return s.iteration >= 3 && comm.rank() == comm.size() - 1; };
      const auto report = run(*A, b, o).report;
      EXPECT_EQ(report.reason, Reason::stopped) << method.name;
      EXPECT_EQ(report.iterations, 3) << method.name;
    }
  });
}

template <class T>
void leaves_a_far_guess(double size, double guess) {
  const auto a = grid<T>(5, 4);
  const auto comm = comm::Communicator::self();
  const auto A = a.on(comm);
  for (const Method method : {Method::cg, Method::bicgstab, Method::gmres, Method::ca_gmres, Method::pipelined_cg}) {
    Options o;
    o.method = method, o.rtol = 1e-5;
    layout::Vector<T> b(A->range()), x(A->domain());
    layout::fill(b, T(size));
    layout::fill(x, T(guess));
    const auto report = krylov::solve<T, Host>(*A, nullptr, b, x, o);
    EXPECT_EQ(report.reason, Reason::converged) << to_string(method) << " " << report.detail;
    ASSERT_FALSE(report.warnings.empty());
    EXPECT_NE(report.warnings[0].find("x0 has a residual"), std::string::npos) << report.warnings[0];
  }
}
TEST(Driver, GuessesOutOfTheRangeAreLeft) {
  leaves_a_far_guess<float>(1e-20, 1);
  leaves_a_far_guess<double>(1e-160, 1);
  leaves_a_far_guess<double>(1e-300, 1e10);
}

TEST(Driver, CyclesAreNoLongerThanTheSpace) {
  const auto a = grid<double>(3, 2);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 1);
  for (const Method method : {Method::gmres, Method::ca_gmres, Method::pipelined_gmres, Method::pipelined_ca_gmres}) {
    Options o;
    o.method = method, o.restart = std::numeric_limits<int>::max(), o.rtol = 1e-10;
    EXPECT_TRUE(run(*A, b, o).report.converged()) << to_string(method);
  }
  Options o;
  o.method = Method::pipelined_cg, o.depth = 900, o.rtol = 1e-10;
  EXPECT_TRUE(run(*A, b, o).report.converged());
  o.depth = 1001;
  EXPECT_THROW(run(*A, b, o), Error);
}

double norm_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double a : v) sum += a * a;
  return std::sqrt(sum);
}

/// Row 7 is zero: no x has a residual below 1 / sqrt(50), and cycle after cycle ends with a vector that the matrix maps
/// to almost nothing.
TEST(Driver, MoreIterationsDoNoHarm) {
  const auto a = tridiagonal<double>(50, -1, 2, -1).map([](Global r, Global, double v) { return r == 7 ? 0 : v; });
  const auto A = a.on(comm::Communicator::self());
  const std::vector<double> b(50, 1.0);
  for (const Method method : {Method::gmres, Method::ca_gmres, Method::pipelined_gmres, Method::pipelined_ca_gmres}) {
    double least = 1;
    for (int most = 20; most <= 140; ++most) {
      Options o;
      o.method = method, o.max_iterations = most;
      const auto found = run(*A, b, o);
      EXPECT_LE(found.report.residual_norm, 1.001 * least) << to_string(method) << " " << most;
      EXPECT_NEAR(double(residual_of(a, b, found.x)), found.report.residual_norm, 1e-6)
          << to_string(method) << " " << most;
      least = std::min(least, found.report.residual_norm);
    }
    EXPECT_LE(least, 0.1415) << to_string(method);
    const auto end = run(*A, b, with(method, 1e-8)).report;
    EXPECT_FALSE(end.converged()) << to_string(method);
    EXPECT_LE(end.residual_norm, 0.1415) << to_string(method) << " " << end.detail;
  }
}

/// Nearly singular matrices: a nearly repeated row, singular values down to rounding, a tiny eigenvalue.
TEST(Driver, NoSolveEndsWorseThanItsGuess) {
  const auto comm = comm::Communicator::self();
  for (std::uint64_t seed = 0; seed < 90; ++seed) {
    std::uint64_t next = 0;
    const auto draw = [&] { return noise(seed, next++); };
    const Global n = 4 + Global(18 * (1 + draw()));
    const double filled = 0.35 + 0.25 * draw(), tiny = std::pow(10.0, -14 - 5 * draw());
    Whole<double> a;
    a.n = n;
    Dense<double> rows(std::size_t(n), std::vector<double>(std::size_t(n), 0.0));
    for (Global i = 0; i < n; ++i)
      for (Global j = 0; j < n; ++j) {
        const bool there = seed % 3 == 2 ? j > i : 0.5 * (1 + draw()) < filled;
        if (there || i == j) rows[i][j] = draw();
      }
    if (seed % 3 == 0)
      for (Global j = 0; j < n; ++j) rows[n - 1][j] = rows[0][j] + tiny * draw();
    if (seed % 3 == 1)
      for (Global i = 0; i < n; ++i)
        for (double& v : rows[i]) v *= std::pow(tiny, double(i) / double(n));
    if (seed % 3 == 2) rows[n / 2][n / 2] = tiny;
    for (Global i = 0; i < n; ++i) {
      for (Global j = 0; j < n; ++j)
        if (rows[i][j] != 0 || i == j) a.push(j, rows[i][j]);
      a.end_row();
    }
    const auto A = a.on(comm);
    const auto b = random_vector<double>(n, seed + 1);
    auto guess = random_vector<double>(n, seed + 2);
    if (seed % 2) guess.assign(std::size_t(n), 0.0);
    const double before = double(residual_of(a, b, guess));
    for (const auto& method : all_methods()) {
      if (method.positive) continue;
      Options o;
      method.choose(o);
      if (seed % 5 == 0) o.max_iterations = 1 + int(seed % 37);
      const auto found = run<double>(*A, b, o, nullptr, guess);
      const double after = double(residual_of(a, b, found.x));
      EXPECT_LE(after, before * (1 + 1e-10))
          << method.name << ", system " << seed << ": " << to_string(found.report.reason);
      if (found.report.converged()) {
        EXPECT_LE(after, 1.001e-8 + 1e-14 * norm_of(found.x) * double(n) / norm_of(b)) << method.name << " " << seed;
      }
    }
  }
}

/// The vectors that cycles are given are those that they have; only where nobody has said how many there may be more.
TEST(Driver, GivenCyclesStay) {
  const auto a = grid<double>(40, 40);
  const auto A = a.on(comm::Communicator::self());
  const auto b = random_vector<double>(a.n, 4);
  const auto grows = [](const krylov::Report& report) {
    return std::any_of(report.warnings.begin(), report.warnings.end(),
                       [](const std::string& w) { return w.find("its cycles are of") != std::string::npos; });
  };
  for (const Method method : {Method::gmres, Method::ca_gmres, Method::pipelined_gmres, Method::pipelined_ca_gmres}) {
    Options o;
    o.method = method, o.max_iterations = 120, o.rtol = 1e-12;
    const auto absent = run(*A, b, o).report;
    EXPECT_TRUE(grows(absent)) << to_string(method);
    for (const int restart : {8, krylov::default_restart}) {
      o.restart = restart, o.fallbacks = true;
      const auto given = run(*A, b, o).report;
      EXPECT_FALSE(grows(given)) << to_string(method) << " " << restart;
      o.fallbacks = false;
      EXPECT_EQ(given.history, run(*A, b, o).report.history) << to_string(method) << " " << restart;
    }
    o.restart.reset();
    const auto plain = run(*A, b, o).report;  // without fallbacks nothing grows
    o.restart = krylov::default_restart;
    EXPECT_EQ(plain.history, run(*A, b, o).report.history) << to_string(method);
  }
}

TEST(Driver, AdviceIsThatOfTheClassicalMethod) {
  const auto a = diagonal<double>({1, -1, 2, -3, 1, 4});
  const auto A = a.on(comm::Communicator::self());
  for (const Method method : {Method::cg, Method::ca_cg, Method::pipelined_cg}) {
    Options o;
    o.method = method, o.fallbacks = false;
    const auto report = run(*A, std::vector<double>(6, 1.0), o).report;
    if (report.reason == Reason::breakdown) {
      EXPECT_NE(report.advice.find("positive definite"), std::string::npos) << report.advice;
    }
  }
}

TEST(Driver, NothingLeftOfABlockIsNotNaN) {
  const auto A = diagonal<double>({3, 3, 3}).on(comm::Communicator::self());
  Options o;
  o.method = Method::ca_gmres, o.orthogonalisation = krylov::Orthogonalisation::bcgs2, o.block_qr = krylov::BlockQr::tsqr;
  layout::Vector<double> b(A->range()), x(A->domain());
  layout::fill(b, 1e-12);
  layout::fill(x, 1e10);
  const auto report = krylov::solve<double, Host>(*A, nullptr, b, x, o);
  EXPECT_NE(report.reason, Reason::non_finite) << report.detail;
}

}  // namespace
}  // namespace tacit::test
