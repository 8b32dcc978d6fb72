// Solves whose method and preconditioner are found by trial: every claim is true, what is learnt is kept, limits hold.
#include <tacit/precond/automatic.hpp>
#include "precond/automatic/candidates.hpp"

#include "support/communicators.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::Automatic;

template <class T>
class AutomaticSolve : public testing::Test {};
TYPED_TEST_SUITE(AutomaticSolve, Scalars);

template <class T>
krylov::Options options_for() {
  krylov::Options o;
  o.rtol = std::same_as<real_t<T>, float> ? 1e-4 : 1e-8;
  return o;
}

/// A matrix whose rows are those of `a` in another order, each times a power of two: its diagonal says nothing.
template <class T>
Whole<T> shuffled(const Whole<T>& a) {
  Whole<T> m;
  m.n = a.n;
  for (Global i = 0; i < a.n; ++i) {
    const Global r = (i * 7 + 3) % a.n;  // a.n is not a multiple of 7
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k)
      m.push(a.column[k], a.value[k] * real_t<T>(std::exp2(double(r % 5) - 2)));
    m.end_row();
  }
  return m;
}

/// Rows 2 i and 2 i + 1 change places.
template <class T>
Whole<T> swapped(const Whole<T>& a) {
  Whole<T> m;
  m.n = a.n;
  for (Global i = 0; i < a.n; ++i) {
    const Global r = std::min(i ^ 1, a.n - 1);
    for (Global k = a.start[r]; k < a.start[r + 1]; ++k) m.push(a.column[k], a.value[k]);
    m.end_row();
  }
  return m;
}

template <class T>
krylov::Report solve(Automatic<T>& automatic, const op::Csr<T>& A, const Whole<T>& a, const std::vector<T>& b,
                     const krylov::Options& o) {
  Vector<T> x(A.range());
  auto report = automatic.solve(spread(A.range(), b), x, o);
  const auto true_residual = residual_of(a, b, whole(x));
  if (report.converged()) {
    EXPECT_LE(true_residual, 1.01 * *o.rtol) << report.choice;
  } else if (std::isfinite(report.residual_norm)) {
    // x is that of the report, whatever attempts came after the best one. It may be long, and A x have large errors.
    EXPECT_NEAR(true_residual, report.residual_norm, 0.05) << report.choice;
  }
  if (o.history && report.iterations > 0) {
    EXPECT_EQ(report.history.size(), std::size_t(report.iterations) + 1) << report.choice;
  }
  return report;
}

TYPED_TEST(AutomaticSolve, SolvesWhatNoSingleCandidateWould) {
  using T = TypeParam;
  const Whole<T> systems[] = {
      grid<T>(14, 15),                                              // Hermitian positive definite
      grid<T>(14, 15).map([](Global, Global, T v) { return -v; }),  // negative definite
      grid<T>(14, 15, 0.4),                                         // not Hermitian
      grid<T>(14, 15).map([](Global r, Global c, T v) { return r == c ? v - T(real_t<T>(2.3)) : v; }),  // indefinite
      swapped(scattered<T>(210, 5, 3)),  // zeros on the diagonal
  };
  on_ranks([&](const comm::Communicator& comm) {
    for (std::size_t i = 0; i < std::size(systems); ++i) {
      const auto& a = systems[i];
      const auto A = a.on(comm);
      Automatic<T> automatic(*A);
      EXPECT_EQ(automatic.is_hermitian(), i < 2 || i == 3);
      const auto report = solve(automatic, *A, a, random_vector<T>(a.n, 3), options_for<T>());
      EXPECT_TRUE(report.converged()) << i << ": " << report.choice << "; " << report.detail;
      EXPECT_NE(report.choice, "");
    }
  });
}

/// [K B; B^H 0]: K = a, and constraint j is that unknowns 3 j and 3 j + 1 have the same value.
template <class T>
Whole<T> saddle_point(const Whole<T>& a) {
  const Global constraints = a.n / 3;
  Whole<T> m;
  m.n = a.n + constraints;
  for (Global i = 0; i < a.n; ++i) {
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) m.push(a.column[k], a.value[k]);
    if (i % 3 < 2 && i / 3 < constraints) m.push(a.n + i / 3, T(i % 3 == 0 ? 1 : -1));
    m.end_row();
  }
  for (Global j = 0; j < constraints; ++j) {
    m.push(3 * j, T(1)), m.push(3 * j + 1, T(-1));
    m.end_row();
  }
  return m;
}

TYPED_TEST(AutomaticSolve, TakesMinresWhereAIsHermitianAndNotDefinite) {
  using T = TypeParam;
  const auto definite = grid<T>(30, 31);
  const auto saddle = saddle_point(definite.map([](Global r, Global c, T v) { return r == c ? v + T(1) : v; }));
  // The lowest eigenvalues, of about 0.02, become negative; the diagonal stays positive.
  const auto shifted = definite.map([](Global r, Global c, T v) { return r == c ? v - T(real_t<T>(0.1)) : v; });
  on_ranks([&](const comm::Communicator& comm) {
    const auto choice_for = [&](const Whole<T>& a) {
      const auto A = a.on(comm);
      Automatic<T> automatic(*A);
      const auto report = solve(automatic, *A, a, random_vector<T>(a.n, 3), options_for<T>());
      EXPECT_TRUE(report.converged()) << report.choice << "; " << report.detail;
      return report.choice;
    };
    EXPECT_EQ(choice_for(saddle), "auto: minres (A is Hermitian)");
    EXPECT_EQ(choice_for(definite).find("minres"), std::string::npos);
    if (std::same_as<real_t<T>, double>) {
      const auto choice = choice_for(shifted);
      EXPECT_NE(choice.find("minres"), std::string::npos) << choice;
      EXPECT_EQ(choice.find("gmres"), std::string::npos) << choice;
    }
  });
}

/// Where minres has little hope it is given up after a fair trial.
TEST(AutomaticChoice, GivesMinresUp) {
  // [I K; K 0]: the condition of K squared.
  const auto k = grid<double>(40, 41);
  Whole<double> a;
  a.n = 2 * k.n;
  for (Global i = 0; i < 2 * k.n; ++i) {
    const Global r = i % k.n;
    if (i < k.n) a.push(r, 1);
    for (Global e = k.start[r]; e < k.start[r + 1]; ++e) a.push(k.column[e] + (i < k.n ? k.n : 0), k.value[e]);
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  Automatic<double> automatic(*A);
  const auto report = solve(automatic, *A, a, random_vector<double>(a.n, 3), options_for<double>());
  EXPECT_TRUE(report.converged()) << report.choice;
  EXPECT_EQ(report.choice.find("auto: minres ("), 0u) << report.choice;
  EXPECT_EQ(report.method, "gmres") << report.choice;
  EXPECT_LT(report.iterations, 900);
}

/// minres that the user names has a positive definite preconditioner also where the diagonal has both signs.
TEST(AutomaticChoice, GivesANamedMinresTheDiagonalsMagnitude) {
  const auto a = grid<double>(20, 21).map([](Global r, Global c, double v) {
    return r == c && r % 2 ? -(400 + v) : r == c ? 40 + v : v;
  });
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    Automatic<double> automatic(*A, krylov::Method::minres);
    auto o = options_for<double>();
    o.method = krylov::Method::minres;
    const auto report = solve(automatic, *A, a, random_vector<double>(a.n, 3), o);
    EXPECT_TRUE(report.converged()) << report.choice;
    EXPECT_EQ(report.choice, "auto: minres with jacobi (absolute values) (A is Hermitian)");
  });
}

/// An even diagonal is no preconditioner, and costs a pass over the vectors.
TEST(AutomaticChoice, DividesByADiagonalThatIsNotEven) {
  const auto even = grid<double>(14, 15);
  const auto uneven = even.map([](Global r, Global c, double v) { return v * double((1 + r % 5) * (1 + c % 5)); });
  on_ranks([&](const comm::Communicator& comm) {
    const auto choice_for = [&](const Whole<double>& a) {
      const auto A = a.on(comm);
      Automatic<double> automatic(*A);
      return solve(automatic, *A, a, random_vector<double>(a.n, 3), options_for<double>()).choice;
    };
    EXPECT_EQ(choice_for(even), "auto: cg (A is Hermitian)");
    EXPECT_EQ(choice_for(uneven).find("auto: cg with jacobi"), 0u) << choice_for(uneven);
  });
}

/// Two unknowns in a node, whose couplings have both signs; those of one kind have the sign of a Laplacian's.
TEST(AutomaticChoice, TakesMultigridForSystemsOfEquations) {
  const auto one = grid<double>(100, 101);
  Whole<double> a;
  a.n = 2 * one.n;
  for (Global i = 0; i < a.n; ++i) {
    for (Global k = one.start[i / 2]; k < one.start[i / 2 + 1]; ++k)
      for (Global c = 0; c < 2; ++c) a.push(2 * one.column[k] + c, one.value[k] * (c == i % 2 ? 1 : 0.9));
    a.end_row();
  }
  const std::vector<double> b(std::size_t(a.n), 1.0);
  for (const int ranks : {1, 2, 5})  // an even number of rows on each
    comm::run_threads(ranks, [&](const comm::Communicator& comm) {
      const auto A = a.on(comm);
      Automatic<double> automatic(*A);
      const auto report = solve(automatic, *A, a, b, options_for<double>());
      EXPECT_TRUE(report.converged()) << report.choice;
      EXPECT_EQ(report.precond, "amg") << report.choice;
      EXPECT_EQ(report.method, "cg") << report.choice;
    });
}

/// Bilinear elements for -div(K grad u) on a grid of squares, K with eigenvalues 1 and 1e-3, turned by 30 degrees:
/// aggregation needs more than a hundred iterations, classical coarsening a few dozen. It is kept for the next b.
TEST(AutomaticChoice, TakesClassicalMultigridWhereAggregationIsSlow) {
  const Global n = 220;
  const double small = 1e-3, cosine = std::sqrt(0.75), sine = 0.5;
  const double xx = cosine * cosine + small * sine * sine, yy = sine * sine + small * cosine * cosine,
               xy = (1 - small) * cosine * sine;
  Whole<double> a;
  a.n = n * n;
  for (Global i = 0; i < a.n; ++i) {
    for (Global dy = -1; dy <= 1; ++dy)
      for (Global dx = -1; dx <= 1; ++dx) {
        const Global x = i % n + dx, y = i / n + dy;
        if (x < 0 || x >= n || y < 0 || y >= n) continue;
        const double corner = -(xx + yy) / 6 - double(dx * dy) * xy / 2;
        a.push(x + n * y, dx && dy ? corner : dx ? (yy - 2 * xx) / 3 : dy ? (xx - 2 * yy) / 3 : 0);
      }
    // Rows sum to zero, but for those of one edge.
    double sum = i % n == 0 ? -(xx + yy) : 0;
    Global diagonal = 0;
    for (Global k = a.start.back(); k < Global(a.column.size()); ++k) {
      sum += a.value[std::size_t(k)];
      if (a.column[std::size_t(k)] == i) diagonal = k;
    }
    a.value[std::size_t(diagonal)] = -sum;
    a.end_row();
  }
  on_ranks(
      [&](const comm::Communicator& comm) {
        const auto A = a.on(comm);
        Automatic<double> automatic(*A);
        const auto report = solve(automatic, *A, a, random_vector<double>(a.n, 3), options_for<double>());
        EXPECT_TRUE(report.converged()) << report.choice;
        EXPECT_NE(report.choice.find("cg with amg by hmis"), std::string::npos) << report.choice;
        const auto next = solve(automatic, *A, a, random_vector<double>(a.n, 4), options_for<double>());
        EXPECT_LE(next.iterations, 40) << next.choice;
        automatic.refresh();
        EXPECT_LE(solve(automatic, *A, a, random_vector<double>(a.n, 5), options_for<double>()).iterations, 40);
      },
      {2});
}

/// The few constraints of a saddle point come after what they constrain, and fill replaces the zeros.
TEST(AutomaticChoice, BeginsWithIlu0WhereFewOfTheDiagonalAreZero) {
  const auto a = saddle_point(grid<double>(30, 31, 0.4));
  const auto A = a.on(comm::Communicator::self());
  Automatic<double> automatic(*A);
  const auto report = solve(automatic, *A, a, random_vector<double>(a.n, 3), options_for<double>());
  EXPECT_TRUE(report.converged()) << report.choice;
  EXPECT_EQ(report.precond.find("block-jacobi (ilu0"), 0u) << report.choice;
  // Where half of them are zero, it is none of the candidates.
  const auto half = swapped(scattered<double>(210, 5, 3));
  const auto B = half.on(comm::Communicator::self());
  const Automatic<double> without(*B);
  for (const auto& c : without.candidates()) EXPECT_NE(c.precond, "ilu0");
}

/// A band of random numbers: an ilut that is full does not help, and complete factors have half the entries that the
/// next one may have.
TEST(AutomaticChoice, FactorisesBeforeDenserThresholds) {
  const Global n = 2000;
  const auto values = random_vector<double>(7 * n, 3);
  Whole<double> a;
  a.n = n;
  for (Global i = 0; i < n; ++i) {
    std::size_t k = std::size_t(7 * i);
    for (const Global d : {-70, -2, -1, 0, 1, 2, 70})
      if (const double v = values[k++]; i + d >= 0 && i + d < n) a.push(i + d, v);
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  Automatic<double> automatic(*A);
  const auto report = solve(automatic, *A, a, random_vector<double>(n, 4), options_for<double>());
  EXPECT_TRUE(report.converged()) << report.choice;
  EXPECT_EQ(report.method == "direct", precond::direct_built()) << report.choice;
  EXPECT_EQ(report.choice.find("drop 1e-05") == std::string::npos, precond::direct_built()) << report.choice;
  automatic.refresh();
  EXPECT_EQ(solve(automatic, *A, a, random_vector<double>(n, 5), options_for<double>()).method, report.method);
}

TYPED_TEST(AutomaticSolve, PermutesRowsWhoseDiagonalSaysNothing) {
  using T = TypeParam;
  const auto a = shuffled(grid<T>(12, 12, 0.4));
  const auto A = a.on(comm::Communicator::self());
  Automatic<T> automatic(*A);
  const auto report = solve(automatic, *A, a, random_vector<T>(a.n, 3), options_for<T>());
  EXPECT_TRUE(report.converged()) << report.choice;
  EXPECT_NE(report.precond.find("ilut"), std::string::npos) << report.choice;
  EXPECT_LT(report.iterations, 30);
}

TYPED_TEST(AutomaticSolve, KeepsWhatItHasFound) {
  using T = TypeParam;
  const auto a = swapped(scattered<T>(210, 5, 3));
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    Automatic<T> automatic(*A);
    const auto first = solve(automatic, *A, a, random_vector<T>(a.n, 3), options_for<T>());
    const auto second = solve(automatic, *A, a, random_vector<T>(a.n, 4), options_for<T>());
    ASSERT_TRUE(first.converged() && second.converged());
    EXPECT_EQ(second.precond, first.precond);
    // The first b again, with what was kept: the last attempt of a first solve, exactly.
    const auto third = solve(automatic, *A, a, random_vector<T>(a.n, 3), options_for<T>());
    ASSERT_TRUE(third.converged());
    EXPECT_EQ(third.precond, first.precond);
    EXPECT_LE(third.iterations, first.iterations);
    if (first.choice.find("then") == std::string::npos) {
      EXPECT_EQ(third.residual_norm, first.residual_norm);
    }
    EXPECT_EQ(second.choice.find("then"), std::string::npos) << second.choice;
    EXPECT_LT(automatic.setup_seconds(), 0.5);  // the preconditioner is kept
  });
}

TEST(AutomaticOptions, KeepsWhatTheUserSays) {
  const auto a = grid<double>(30, 30, 0.4);
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    const auto b = random_vector<double>(a.n, 3);
    {
      Automatic<double> automatic(*A, krylov::Method::bicgstab);
      auto o = options_for<double>();
      o.method = krylov::Method::bicgstab;
      const auto report = solve(automatic, *A, a, b, o);
      EXPECT_TRUE(report.converged());
      EXPECT_EQ(report.method, "bicgstab");
    }
    Automatic<double> automatic(*A);
    for (const int limit : {0, 1, 7}) {
      auto o = options_for<double>();
      o.max_iterations = limit;
      const auto report = solve(automatic, *A, a, b, o);
      EXPECT_EQ(report.reason, krylov::Reason::max_iterations);
      EXPECT_EQ(report.iterations, limit);
    }
    std::vector<int> seen;
    auto o = options_for<double>();
    o.callback = [&](const krylov::State& s) {
      seen.push_back(s.iteration);
      return s.iteration == 5;
    };
    const auto report = solve(automatic, *A, a, b, o);
    EXPECT_EQ(report.reason, krylov::Reason::stopped);
    EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4, 5}));
  });
}

/// Trials aim at the tolerance of the system that is solved, without what the null space takes out of b.
TYPED_TEST(AutomaticSolve, AimsAtWhatTheNullSpaceLeavesOfB) {
  using T = TypeParam;
  const Global m = 24;
  const auto a = grid<T>(m, m).map([](Global r, Global c, T v) {
    const int missing = (r % m == 0) + (r % m == m - 1) + (r < m) + (r >= m * m - m);
    return r == c ? v - T(real_t<T>(missing)) : v;
  });
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    Vector<T> constant(A->domain());
    std::vector<T> ones(std::size_t(a.n));
    for (Global i = 0; i < a.n; ++i) ones[std::size_t(i)] = phase<T>(i);
    constant = spread(A->domain(), ones);
    const krylov::NullSpace<T> null(std::vector<Vector<T>>(1, constant));
    auto part = spread(A->range(), random_vector<T>(a.n, 3));
    null.right().project(part);
    const auto solved = [&](double mean, krylov::Norm norm) {
      auto b = part;
      layout::axpy(T(real_t<T>(mean)), constant, b);
      auto o = options_for<T>();
      o.rtol = 1e-30, o.norm = norm;
      o.atol = 1e-2 * (norm == krylov::Norm::max ? layout::max_norm(part) : layout::norm(part));
      Automatic<T> automatic(*A);
      Vector<T> x(A->range());
      auto report = automatic.solve(b, x, o, &null);
      EXPECT_TRUE(report.converged()) << report.choice;
      return report;
    };
    for (const auto norm : {krylov::Norm::two, krylov::Norm::max}) {
      const auto without = solved(0, norm), with = solved(1e3, norm);
      EXPECT_EQ(with.choice, without.choice);
      EXPECT_EQ(with.iterations, without.iterations);
    }
  });
}

/// What cannot be solved is never called solved, and the best x is no worse than the guess.
TYPED_TEST(AutomaticSolve, SaysThatAnInconsistentSystemIsOne) {
  using T = TypeParam;
  // Row sums are zero, b is not orthogonal to the constants.
  auto a = tridiagonal<T>(80, -1, 2, -1).map([](Global r, Global c, T v) { return r == c && r % 79 == 0 ? T(1) : v; });
  std::vector<T> b(std::size_t(a.n));
  for (Global i = 0; i < a.n; ++i) b[std::size_t(i)] = phase<T>(i);
  on_ranks([&](const comm::Communicator& comm) {
    const auto A = a.on(comm);
    Automatic<T> automatic(*A);
    const auto report = solve(automatic, *A, a, b, options_for<T>());
    EXPECT_FALSE(report.converged());
    EXPECT_LE(report.residual_norm, 1.001);
    EXPECT_NE(report.detail.find("inconsistent"), std::string::npos) << report.detail << " | " << report.choice;
  });
}

/// The last attempts diverge; solve() compares x with what the report says of it.
TYPED_TEST(AutomaticSolve, ReturnsTheBestOfAllAttempts) {
  using T = TypeParam;
  for (const Global n : {30, 40}) {
    const auto a = tridiagonal<T>(n, -1, 2, -1).map([&](Global r, Global c, T v) {
      return r == c && r % (n - 1) == 0 ? T(1) : v;
    });
    std::vector<T> b;
    for (Global i = 0; i < n; ++i) b.push_back(T(real_t<T>(std::sin(double(i + 1)))));
    on_ranks([&](const comm::Communicator& comm) {
      const auto A = a.on(comm);
      Automatic<T> automatic(*A);
      EXPECT_FALSE(solve(automatic, *A, a, b, options_for<T>()).converged());
    });
  }
}

TYPED_TEST(AutomaticSolve, DegenerateMatrices) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto one = tridiagonal<T>(1, 0, 3, 0);
    const auto A = one.on(comm);
    Automatic<T> automatic(*A);
    EXPECT_TRUE(solve(automatic, *A, one, {T(2)}, options_for<T>()).converged());
    EXPECT_TRUE(solve(automatic, *A, one, {T(0)}, options_for<T>()).converged());
    Whole<T> none;
    none.n = 4;
    for (int i = 0; i < 4; ++i) none.end_row();
    const auto Z = none.on(comm);
    Automatic<T> of_zero(*Z);
    EXPECT_FALSE(solve(of_zero, *Z, none, std::vector<T>(4, T(1)), options_for<T>()).converged());
    const auto bad = tridiagonal<T>(9, -1, 2, -1).map([](Global r, Global c, T v) {
      return r == c && r == 4 ? T(std::numeric_limits<real_t<T>>::quiet_NaN()) : v;
    });
    const auto B = bad.on(comm);
    Automatic<T> of_bad(*B);
    const auto report = solve(of_bad, *B, bad, std::vector<T>(9, T(1)), options_for<T>());
    EXPECT_EQ(report.reason, krylov::Reason::non_finite);
    EXPECT_NE(report.detail.find("row 4"), std::string::npos) << report.detail;
  });
}

/// An entry of the diagonal whose inverse is not finite: jacobi refuses it, and the solve goes on with what is left.
TYPED_TEST(AutomaticSolve, LeavesOutWhatCannotBeMade) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = tridiagonal<T>(30, 0, 1, 0.3).map([](Global r, Global c, T v) {
      return r == c && r == 29 ? T(std::numeric_limits<real_t<T>>::denorm_min()) : v;
    });
    const auto A = a.on(comm);
    Automatic<T> automatic(*A);
    Vector<T> x(A->range());
    const auto report = automatic.solve(spread(A->range(), std::vector<T>(30, T(1))), x, options_for<T>());
    EXPECT_NE(report.choice.find("jacobi (left out)"), std::string::npos) << report.choice;
    ASSERT_FALSE(report.warnings.empty());
    EXPECT_NE(report.warnings.back().find("auto left out the preconditioner jacobi"), std::string::npos);
    EXPECT_NE(report.warnings.back().find("too small to invert in row 29"), std::string::npos);
  });
}

}  // namespace
}  // namespace tacit::test
