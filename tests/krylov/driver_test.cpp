// Properties of the driver for all methods: norms, initial guesses, callbacks and limits of cycles.
#include "support/communicators.hpp"
#include "support/methods.hpp"

#include <tacit/op/function.hpp>
#include <tacit/precond/make.hpp>
#include "krylov/monitor.hpp"

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

/// A run that never halves its residual ends; one that has halved it goes on.
TEST(Monitor, EndsRunsThatWander) {
  const auto comm = comm::Communicator::self();
  const Options o = with(Method::bicgstab, 1e-8);
  for (const double low : {0.6, 0.4}) {
    krylov::Monitor monitor(comm, o, 1, 1e-8, 1000, 500);
    monitor.halve_within(40);
    monitor.begin(1);
    int k = 0;
    while (monitor.go_on(k == 10 ? low : 0.9 - 0.001 * k) && k < 200) ++k;
    EXPECT_EQ(k, low < 0.5 ? 200 : 40);
    EXPECT_EQ(monitor.outcome(), low < 0.5 ? krylov::Outcome::cycle_end : krylov::Outcome::no_progress);
    EXPECT_EQ(monitor.lowest_at(), 10);
    monitor.end(monitor.outcome());
    monitor.begin(0.5);  // counted from the start of each run
    for (k = 0; monitor.go_on(0.45) && k < 200;) ++k;
    EXPECT_EQ(k, 40);
    EXPECT_EQ(monitor.outcome(), krylov::Outcome::no_progress);
  }
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
TEST(Driver, GuessesOutsideTheRangeAreReturned) {
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

/// Row 7 is zero: no x has a residual below 1 / sqrt(50), and every cycle ends with a vector that the matrix maps to
/// almost zero.
TEST(Driver, MoreIterationsDoNotWorsenTheResult) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
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
/// Where the rounding error of A x is as large as b, a recomputed residual may be 0 by chance.
TEST(Driver, ResidualsOfRoundingErrorsAreNotAccepted) {
  const auto comm = comm::Communicator::self();
  struct Case {
    double a[4], b[2];
  };
  for (const Case& c : {Case{{0.48999999999999994, -0.42, -0.42, 0.36}, {0, 2}}, Case{{1, 0.1, 0.1, 0.01}, {1, 0}},
                        Case{{0.0026388471174863563, 0.10342485659762354, 0.10342485659762354, 4.053550844744723},
                             {-1.1872109397651394, 0.6790385897898772}}}) {
    Whole<double> a;
    a.n = 2;
    for (int i = 0; i < 2; ++i) a.push(0, c.a[2 * i]), a.push(1, c.a[2 * i + 1]), a.end_row();
    const auto A = a.on(comm);
    const std::vector<double> b(c.b, c.b + 2);
    for (const auto& m : all_methods()) {
      Options o;
      m.choose(o);
      o.rtol = 1e-8;
      if (m.applies == 0) continue;
      const auto s = run(*A, b, o);
      const double exact = double(residual_of(a, b, s.x));
      EXPECT_TRUE(!s.report.converged() || exact <= 1e-7)
          << m.name << ": " << exact << " for " << s.report.residual_norm;
      // Where cg ends early, the A-norm decides which x is kept (docs/theory/methods.md); here A does not define a
      // norm.
      if (krylov::classical_of(o.method) != krylov::Method::cg) {
        EXPECT_LE(exact, 1 + 1e-6) << m.name;
      }
    }
  }
}
/// A = B B^T of half rank and b outside of its range: the iterates of cg grow without limit in the null space of A.
TEST(Driver, CgCutShortOnSemidefiniteMatricesStaysInTheRange) {
  const auto comm = comm::Communicator::self();
  const Global n = 40, rank = 20;
  const auto B = random_vector<double>(n * rank, 2);
  Whole<double> a;
  a.n = n;
  double size = 0;
  for (Global i = 0; i < n; ++i) {
    for (Global j = 0; j < n; ++j) {
      double v = 0;
      for (Global k = 0; k < rank; ++k) v += B[std::size_t(i * rank + k)] * B[std::size_t(j * rank + k)];
      a.push(j, v);
      size += v * v;
    }
    a.end_row();
  }
  const auto A = a.on(comm);
  const std::vector<double> b(std::size_t(n), 1.0);
  const auto length = [](const auto& v) {
    double sum = 0;
    for (const double e : v) sum += e * e;
    return std::sqrt(sum);
  };
  for (const auto& method : all_methods()) {
    Options o;
    method.choose(o);
    if (krylov::classical_of(o.method) != Method::cg) continue;
    for (int most = 1; most < 100; ++most) {
      o.rtol = 1e-8, o.max_iterations = most;
      const auto found = run(*A, b, o);
      ASSERT_FALSE(found.report.converged());
      // The returned x is small enough that A x has some correct digits relative to b.
      const double rounding = std::numeric_limits<double>::epsilon() * std::sqrt(size) * length(found.x);
      EXPECT_LE(rounding, 0.1 * length(b)) << method.name << " " << most << ": " << length(found.x);
    }
  }
}
TEST(Driver, NoSolveEndsWorseThanItsGuess) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
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

/// A given restart length is kept; only where none is given may cycles become longer.
TEST(Driver, GivenRestartIsKept) {
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
    const auto plain = run(*A, b, o).report;  // without fallbacks cycles keep the default length
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

const Method of_positive[] = {Method::cg, Method::ca_cg, Method::pipelined_cg};

template <class T>
void solves_negative_definite_systems(const comm::Communicator& comm) {
  const auto a = grid<T>(9, 8).map([](Global, Global, T v) { return T(real_t<T>(-1e-3)) * v; });
  const auto A = a.on(comm);
  const auto b = random_vector<T>(a.n, 3);
  const double rtol = is_wide<T> ? 1e-9 : 1e-4;
  const op::Function<T> no_diagonal(A->range(), A->domain(), [&](const T* in, T* out, int) {
    layout::Vector<T> x(A->domain()), y(A->range());
    x.assign({in, x.size()});
    A->apply(x, y);
    const auto found = y.to_host();
    std::copy(found.begin(), found.end(), out);
  });
  const op::Operator<T, Host>* const operators[] = {A.get(), &no_diagonal};
  for (const auto* const op : operators)
    for (const Method method : of_positive)
      for (const char* const name : {"none", "jacobi", "ilu0", "ic0"}) {
        Options o = with(method, rtol);
        const auto P = precond::make<T, Host>(name, *A);
        layout::Vector<T> right = spread(A->range(), b), x(A->domain());
        const auto report = krylov::solve<T, Host>(*op, P.get(), right, x, o);
        ASSERT_EQ(report.reason, Reason::converged) << op->name() << " " << to_string(method) << " " << name;
        ASSERT_FALSE(report.warnings.empty());
        EXPECT_NE(report.warnings[0].find("-A x = -b"), std::string::npos) << report.warnings[0];
        layout::Vector<T> r(A->range());
        A->apply(x, r);
        layout::subtract(right, r, r);
        EXPECT_LE(layout::norm(r), 1.1 * rtol * layout::norm(right)) << to_string(method) << " " << name;
      }
}
TEST(Driver, NegativeDefiniteSystemsAreSolvedByTheirNegative) {
  on_ranks([](const comm::Communicator& comm) {
    solves_negative_definite_systems<double>(comm);
    solves_negative_definite_systems<std::complex<float>>(comm);
  });
}

TEST(Driver, CgNamesTheOperatorThatIsNotHermitian) {
  on_ranks([](const comm::Communicator& comm) {
    const auto skewed = grid<double>(16, 15, 0.9), positive = grid<double>(16, 15);
    const auto A = skewed.on(comm), B = positive.on(comm);
    const auto b = random_vector<double>(skewed.n, 1);
    for (const Method method : of_positive) {
      Options o = with(method, 1e-8);
      auto report = run(*A, b, o).report;
      ASSERT_FALSE(report.converged());
      EXPECT_NE((report.detail + report.advice).find("A is not Hermitian"), std::string::npos) << report.detail;
      EXPECT_NE(report.advice.find("gmres"), std::string::npos) << report.advice;
      EXPECT_LE(report.iterations, 110) << to_string(method);  // of at most 2400
      // The preconditioner may be the cause as well.
      const auto P = precond::make<double, Host>("ilu0", *A);
      report = run(*B, b, o, P.get()).report;
      if (report.converged()) continue;
      EXPECT_NE(report.detail.find("P - P^H"), std::string::npos) << report.detail << report.advice;
    }
    // In a pipelined method, where reductions are still in flight when the products that show it are computed.
    const auto turned = positive.map([](Global r, Global c, double v) {
      return v + (c == r - 1 ? 0.9 : c == r + 1 ? -0.9 : 0.0);
    });
    Options deep = with(Method::pipelined_cg, 1e-8);
    deep.depth = 3;
    const auto report = run(*turned.on(comm), std::vector<double>(std::size_t(turned.n), 1.0), deep).report;
    EXPECT_NE(report.detail.find("A is not Hermitian"), std::string::npos) << report.detail;
    EXPECT_LE(report.iterations, 110) << report.residual_norm;
    // Identity rows for boundary values: in the subspace where the residual vanishes there, the matrix is Hermitian,
    // and cg converges.
    auto fixed = positive;
    fixed = fixed.map([](Global r, Global c, double v) { return r < 16 ? double(r == c) : v; });
    auto right = b;
    std::fill_n(right.begin(), 16, 0.0);
    EXPECT_TRUE(run(*fixed.on(comm), right, with(Method::cg, 1e-8)).report.converged());
  });
}

TEST(Driver, InconsistentSystemsAreNamed) {
  on_ranks([](const comm::Communicator& comm) {
    // A pure Neumann problem: columns sum to zero.
    const Global m = 12;
    auto neumann = grid<double>(m, m).map([](Global r, Global c, double v) {
      return r == c ? v - (r % m == 0) - (r % m == m - 1) - (r < m) - (r >= m * m - m) : v;
    });
    auto row = grid<double>(m, m, 0.5).map([](Global r, Global, double v) { return r == 7 ? 0.0 : v; });
    auto b = random_vector<double>(m * m, 5);
    for (double& v : b) v += 1;
    for (const Method method : {Method::gmres, Method::ca_gmres, Method::bicgstab}) {
      Options o = with(method, 1e-10);
      for (const auto* const a : {&neumann, &row}) {
        const auto report = run(*a->on(comm), b, o).report;
        ASSERT_FALSE(report.converged());
        EXPECT_NE(report.detail.find("inconsistent"), std::string::npos)
            << to_string(method) << (a == &row ? " row: " : ": ") << report.detail << " " << report.advice;
        EXPECT_EQ(report.advice.find("Use a longer restart"), std::string::npos) << report.advice;
      }
    }
    // Another left null vector: two equal rows with different right-hand sides.
    Whole<double> same;
    same.n = 6;
    for (Global r = 0; r < 6; ++r) {
      if (r == 4) same.push(3, 5.0);
      else same.push(r, double(r + 2));
      same.end_row();
    }
    Options looked = with(Method::gmres, 1e-10);
    looked.explain = true;  // however long that takes on a busy machine: the solve has eight iterations
    const auto report = run(*same.on(comm), std::vector<double>{1, 1, 1, 1, 2, 1}, looked).report;
    ASSERT_FALSE(report.converged());
    EXPECT_NE(report.detail.find("inconsistent"), std::string::npos) << report.detail << report.advice;
    // A solve that is only slow is not reported as inconsistent.
    Options o = with(Method::gmres, 1e-12);
    o.restart = 2, o.max_iterations = 150, o.fallbacks = false;
    const auto slow = run(*grid<double>(40, 40).on(comm), random_vector<double>(1600, 5), o).report;
    ASSERT_FALSE(slow.converged());
    EXPECT_EQ(slow.detail.find("inconsistent"), std::string::npos) << slow.detail;
  });
}

/// Of a product that may be expensive: looking for a cause takes about as many as the solve did.
TEST(Driver, ExplanationsOfShortSolvesAreShort) {
  const auto space = layout::Space::distributed(comm::Communicator::self(), 20000);
  int products = 0;
  const Custom<double> A(space, [&](const layout::Vector<double>& x, layout::Vector<double>& y) {
    ++products;
    for (std::size_t i = 0; i < x.size(); ++i) y.data()[i] = (1 + double(i)) * x.data()[i];
  });
  Options o = with(Method::chebyshev, 1e-8);
  o.lambda_min = 1, o.lambda_max = 2000, o.fallbacks = false;
  const auto report = run(A, std::vector<double>(20000, 1.0), o).report;
  ASSERT_EQ(report.reason, Reason::diverged);
  ASSERT_LT(report.counts.operator_applies, 20);
  EXPECT_NE(report.detail.find("lambda_max"), std::string::npos) << report.detail;
  EXPECT_LE(products - report.counts.operator_applies, 40);
}

/// Methods that have no parameters of P A solve with a preconditioner of any size.
TEST(Driver, SizesOfPreconditionersDoNotMatter) {
  const auto a = grid<double>(7, 6);
  const auto b = random_vector<double>(a.n, 3);
  const double sizes[][2] = {{1e-160, 1}, {1e160, 1}, {1, 1e-170}, {1, 1e170}};  // of A, of P
  for (const auto& [of_A, of_P] : sizes) {
    const double scale = of_A;
    const auto scaled = a.map([scale](Global, Global, double v) { return scale * v; });
    const auto A = scaled.on(comm::Communicator::self());
    const auto P = diagonal<double>(std::vector<double>(std::size_t(a.n), of_P)).on(A->range());
    for (const auto& m : all_methods()) {
      Options o;
      m.choose(o);
      if (o.method == Method::richardson || o.method == Method::chebyshev) continue;  // their parameters are of P A
      // With subnormal (p, A p) it neither breaks down nor stagnates before its limit.
      if (o.method == Method::pipelined_cg && of_A < 1) continue;
      o.rtol = 1e-8;
      const auto found = run(*A, b, o, P.get()).report;
      EXPECT_TRUE(found.converged()) << m.name << ", A " << of_A << ", P " << of_P << ": " << found.detail;
    }
  }
}

TEST(Driver, NamesReplacedPivotsAsTheCauseOfAFailure) {
  on_ranks([](const comm::Communicator& comm) {
    // A zero diagonal: the rows of a nonsingular matrix in another order.
    const Global n = 60;
    Whole<double> a;
    a.n = n;
    for (Global r = 0; r < n; ++r) {
      const Global big = (r + 1) % n;
      for (const Global c : {std::min(big, (r + 17) % n), std::max(big, (r + 17) % n)})
        a.push(c, c == big ? 4.0 : noise(3, r));
      a.end_row();
    }
    const auto A = a.on(comm);
    const auto P = precond::make<double, Host>("ilu0", *A);
    const auto b = random_vector<double>(n, 1);
    for (const Method method : {Method::gmres, Method::bicgstab}) {
      const auto report = run(*A, b, with(method, 1e-8), P.get()).report;
      ASSERT_FALSE(report.warnings.empty());
      EXPECT_NE(report.warnings[0].find("pivots of 60 were zero"), std::string::npos) << report.warnings[0];
      if (report.converged()) continue;
      EXPECT_NE(report.detail.find("preconditioner block-jacobi (ilu0) is the likely cause"), std::string::npos)
          << report.detail;
      EXPECT_EQ((report.detail + report.advice).find("matrix is singular"), std::string::npos) << report.detail;
    }
  });
}

TEST(Driver, ExhaustedBlocksGiveNoNaN) {
  const auto A = diagonal<double>({3, 3, 3}).on(comm::Communicator::self());
  Options o;
  o.method = Method::ca_gmres, o.orthogonalisation = krylov::Orthogonalisation::bcgs2,
  o.block_qr = krylov::BlockQr::tsqr;
  layout::Vector<double> b(A->range()), x(A->domain());
  layout::fill(b, 1e-12);
  layout::fill(x, 1e10);
  const auto report = krylov::solve<double, Host>(*A, nullptr, b, x, o);
  EXPECT_NE(report.reason, Reason::non_finite) << report.detail;
}

}  // namespace
}  // namespace tacit::test
