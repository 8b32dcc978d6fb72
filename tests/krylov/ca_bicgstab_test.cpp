// s-step BiCGStab: the iterates of BiCGStab, one reduction for each block, and correct reports of convergence.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Basis;
using krylov::Method;
using krylov::Norm;
using krylov::Options;
using krylov::Reason;

template <class T>
class CaBicgstab : public testing::Test {};
TYPED_TEST_SUITE(CaBicgstab, test::DoubleScalars);

Options options(int step, Basis basis, double rtol = 1e-10) {
  Options o;
  o.method = Method::ca_bicgstab;
  o.step = step, o.basis = basis, o.rtol = rtol;
  return o;
}
Options classical(double rtol = 1e-10) {
  Options o;
  o.method = Method::bicgstab, o.rtol = rtol;
  return o;
}
/// A matrix with a varying diagonal, so that Jacobi is not a multiple of the identity.
template <class T>
Whole<T> varied(Global nx, Global ny, double convection) {
  return grid<T>(nx, ny, convection).map([](Global r, Global c, T v) {
    return r == c ? v + T(real_t<T>(0.3 * double(r % 7))) : v;
  });
}
constexpr Basis bases[] = {Basis::monomial, Basis::newton, Basis::chebyshev};

TYPED_TEST(CaBicgstab, FollowsBicgstab) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = varied<T>(14, 12, 0.5);
        const auto b = random_vector<T>(a.n, 3);
        const auto A = a.on(comm);
        const precond::Jacobi<T> jacobi(*A);
        for (const op::Operator<T, Host>* P :
             {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi}) {
          auto reference = classical(0);
          reference.max_iterations = 15;
          const auto textbook = run(*A, b, reference, P);
          for (const int s : {1, 2, 4, 8})
            for (const Basis basis : bases) {
              auto o = options(s, basis, 0);
              o.max_iterations = 15;
              const auto found = run(*A, b, o, P);
              ASSERT_EQ(found.report.history.size(), 16u);
              for (int k = 0; k <= 15; ++k)
                EXPECT_NEAR(found.report.history[k], textbook.report.history[k],
                            (s == 8 ? 5e-3 : 1e-4) * textbook.report.history[k])
                    << "s = " << s << ", " << to_string(basis) << (P ? " with jacobi" : "") << ", step " << k;
              EXPECT_LE(relative_difference(found.x, textbook.x), 1e-5L);
            }
        }
      },
      {2, 3});
}

TYPED_TEST(CaBicgstab, OneReductionForEachBlock) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = varied<T>(30, 30, 0.3);
        const auto b = random_vector<T>(a.n, 4);
        const auto A = a.on(comm);
        const precond::Jacobi<T> jacobi(*A);
        for (const op::Operator<T, Host>* P :
             {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi})
          for (const Norm norm : {Norm::two, Norm::max})
            for (const int s : {2, 4}) {
              auto o = options(s, Basis::chebyshev, 0);
              o.fallbacks = false;
              o.norm = norm;
              o.replacement = 0;
              o.powers = op::Powers::products;  // with a stored basis
              const auto counts = [&](int iterations) {
                o.max_iterations = iterations;
                const auto r = run(*A, b, o, P).report;
                EXPECT_EQ(r.iterations, iterations);
                return r.counts;
              };
              // After blocks of 1, 2, 4 .. s iterations all blocks have s.
              const int first = 2 * s - 1, more = 3;
              const auto c1 = counts(first), c2 = counts(first + more * s);
              EXPECT_EQ(c2.reductions - c1.reductions, more) << s;
              EXPECT_EQ(c2.operator_applies - c1.operator_applies, 2 * more * s) << s;
              EXPECT_EQ(c2.preconditioner_applies - c1.preconditioner_applies, P ? more * (2 * s + 1) : 0) << s;
              EXPECT_EQ(c2.exchanges - c1.exchanges, comm.size() > 1 ? 2 * more * s : 0) << s;
            }
      },
      {3});
}

TEST(CaBicgstab, EasySolvesTakeFewExtraProducts) {
  // A solve that converges in k iterations needs only blocks of 1, 2, 4 ..
  const auto A = shifted_grid<double>(10, 10);
  const auto b = random_vector<double>(A.n, 2);
  const auto one = run(*A.on(comm::Communicator::self()), b, options(16, Basis::chebyshev, 0.5)).report;
  EXPECT_EQ(one.iterations, 1);
  EXPECT_LE(one.counts.operator_applies, 2 + 1);
  const auto three = run(*A.on(comm::Communicator::self()), b, options(16, Basis::chebyshev, 2e-2)).report;
  EXPECT_LE(three.iterations, 3);
  EXPECT_LE(three.counts.operator_applies, 2 + 4 + 1);
}

/// The systems of the paper's numerical experiments: convection-diffusion, central differences.
struct System {
  Global n;
  bool ones;
  double rtol;
};
TEST(CaBicgstab, TakesTheIterationsOfBicgstabWithTrueResiduals) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  int claims = 0, false_claims = 0;
  for (const System& system : {System{24, false, 1e-10}, System{32, true, 1e-10}, System{64, true, 1e-10}}) {
    const auto a = grid<double>(system.n, system.n, 0.5);
    const auto b = system.ones ? std::vector<double>(a.n, 1.0) : random_vector<double>(a.n, 1);
    const auto A = a.on(comm::Communicator::self());
    const auto reference = run(*A, b, classical(system.rtol)).report;
    for (const int s : {4, 8, 16})
      for (const Basis basis : bases)
        for (const bool fallbacks : {true, false}) {
          auto o = options(s, basis, system.rtol);
          o.fallbacks = fallbacks;
          const auto found = run(*A, b, o);
          const std::string what = message("n = ", system.n, ", s = ", s, ", ", to_string(basis), " ", fallbacks);
          const double truth = double(residual_of(a, b, found.x));
          EXPECT_NEAR(truth, found.report.residual_norm, 1e-3 * truth + 1e-13) << what;
          if (found.report.converged()) {
            EXPECT_LE(truth, 1.0001 * system.rtol) << what;
          }
          ++claims;
          false_claims += found.report.restarts;
          if (!fallbacks) continue;
          EXPECT_TRUE(found.report.converged()) << what << ": " << found.report.detail;
          EXPECT_EQ(found.report.method, "ca-bicgstab") << what;
          if (basis != Basis::monomial && s > 4) {
            EXPECT_LE(found.report.iterations, std::ceil(1.05 * reference.iterations)) << what;
            EXPECT_LE(found.report.counts.reductions, reference.counts.reductions / 5) << what;
          }
          EXPECT_LE(found.report.iterations, 1.3 * reference.iterations) << what;
        }
  }
  RecordProperty("solves", claims);
  RecordProperty("false_claims", false_claims);
}

TEST(CaBicgstab, LongMonomialBasisStaysAccurate) {
  // Without checks, blocks of 8 monomials end here after 40 iterations with a true residual of 1e4.
  const auto a = grid<double>(64, 64, 0.5);
  const std::vector<double> b(a.n, 1.0);
  const auto s = run(*a.on(comm::Communicator::self()), b, options(8, Basis::monomial));
  EXPECT_TRUE(s.report.converged()) << s.report.detail;
  EXPECT_LE(residual_of(a, b, s.x), 1e-10L);
  EXPECT_FALSE(s.report.warnings.empty());
}

// Circular convection with a cell Peclet number of 8: blocks of more than a few iterations have no correct digits. The
// method falls back to bicgstab, which then needs as many iterations as from the start. Before that, it does 24 (the
// width of the grid) in short blocks and those of the full blocks before and between them, up to 4 * 24 in all (about
// 60 to 80, depending on rounding).
TEST(CaBicgstab, ShortBlocksFallBackToBicgstab) {
  const Global n = 24;
  Whole<double> a;
  a.n = n * n;
  for (Global i = 0; i < a.n; ++i) {
    const double h = 1.0 / double(n + 1), x = 2 * double(i % n + 1) * h - 1, y = 2 * double(i / n + 1) * h - 1;
    const double u = 200 * h * y * (1 - x * x), v = -200 * h * x * (1 - y * y);
    if (i >= n) a.push(i - n, -1 - v);
    if (i % n > 0) a.push(i - 1, -1 - u);
    a.push(i, 4);
    if (i % n < n - 1) a.push(i + 1, -1 + u);
    if (i < a.n - n) a.push(i + n, -1 + v);
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  const std::vector<double> b(std::size_t(a.n), 1.0);
  const auto reference = run(*A, b, classical(1e-8));
  ASSERT_TRUE(reference.report.converged());
  for (const int s : {4, 10}) {
    const auto found = run(*A, b, options(s, Basis::newton, 1e-8));
    EXPECT_TRUE(found.report.converged());
    EXPECT_LE(found.report.iterations, reference.report.iterations + 4 * n) << "s = " << s;
  }
}

TYPED_TEST(CaBicgstab, StopsOnTheMaxNorm) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = varied<T>(16, 16, 0.4);
        const auto b = random_vector<T>(a.n, 3);
        for (const int s : {1, 4, 8}) {
          auto o = options(s, Basis::chebyshev, 1e-8);
          o.norm = Norm::max;
          const auto found = run(*a.on(comm), b, o);
          EXPECT_TRUE(found.report.converged()) << found.report.detail;
          EXPECT_EQ(found.report.norm, "max");
          auto r = a.times(found.x);
          long double largest = 0, size = 0;
          for (Global i = 0; i < a.n; ++i) {
            largest = std::max<long double>(largest, std::abs(widen(b[i]) - r[i]));
            size = std::max<long double>(size, std::abs(b[i]));
          }
          EXPECT_LE(largest / size, 1e-8L);
          EXPECT_NEAR(double(largest / size), found.report.residual_norm, 1e-12);
          EXPECT_NEAR(double(size), found.report.b_norm, 1e-14);
          EXPECT_EQ(found.report.history.size(), std::size_t(found.report.iterations) + 1);
          EXPECT_NEAR(found.report.history.back(), found.report.residual_norm, 1e-3 * found.report.residual_norm)
              << s << " " << found.report.method << " " << found.report.restarts
              << (found.report.warnings.empty() ? "" : found.report.warnings[0]);
        }
      },
      {3});
}

TYPED_TEST(CaBicgstab, BreakdownsAreThoseOfBicgstab) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto attempt = [&](const Whole<T>& a, const std::vector<T>& b, bool fallbacks, int s) {
          auto o = options(s, Basis::automatic, 1e-8);
          o.fallbacks = fallbacks;
          const auto found = run(*a.on(comm), b, o);
          for (const T& v : found.x) EXPECT_TRUE(is_finite(v));
          EXPECT_NEAR(double(residual_of(a, b, found.x)), found.report.residual_norm, 1e-9);
          return found.report;
        };
        const auto expect = [](const krylov::Report& r, const char* words) {
          EXPECT_EQ(r.reason, Reason::breakdown) << r.detail;
          EXPECT_NE(r.detail.find(words), std::string::npos) << r.detail;
        };
        const auto skew = skew_tridiagonal<T>(8);
        std::vector<T> b(8);
        for (int i = 0; i < 8; ++i) b[i] = T(real_t<T>(noise(1, i)));
        const auto zero = diagonal<T>(std::vector<double>(8, 0.0));
        for (const int s : {1, 4}) {
          expect(attempt(skew, b, false, s), "(r0, A p)");
          expect(attempt(zero, std::vector<T>(8, T(1)), false, s), "(r0, A p)");
          expect(attempt(zero, std::vector<T>(8, T(1)), true, s), "(r0, A p)");
          // Singular and consistent.
          Whole<T> neumann;
          neumann.n = 12;
          for (Global i = 0; i < 12; ++i) {
            if (i > 0) neumann.push(i - 1, T(-1));
            neumann.push(i, T(i == 0 || i == 11 ? 1 : 2));
            if (i < 11) neumann.push(i + 1, T(-1));
            neumann.end_row();
          }
          std::vector<T> compatible(12);
          for (int i = 0; i < 12; ++i) compatible[i] = T(real_t<T>(i < 6 ? 1 : -1));
          EXPECT_TRUE(attempt(neumann, compatible, true, s).converged());
          EXPECT_FALSE(attempt(neumann, std::vector<T>(12, T(1)), true, s).converged());
        }
      },
      {3});
}

TYPED_TEST(CaBicgstab, ReplacesResidualsThatHaveDrifted) {
  using T = TypeParam;
  const auto a = grid<T>(20, 20, 0.5);
  const auto b = random_vector<T>(a.n, 1);
  const auto A = a.on(comm::Communicator::self());
  auto o = options(4, Basis::chebyshev, 1e-12);
  const auto decided = run(*A, b, o).report;
  o.replacement = 0;
  const auto never = run(*A, b, o).report;
  o.replacement = 8;
  const auto often = run(*A, b, o).report;
  for (const auto* r : {&decided, &never, &often}) EXPECT_TRUE(r->converged()) << r->detail;
  EXPECT_EQ(decided.restarts, 0);
  EXPECT_EQ(often.restarts, 0);
  // The recurrence residual agrees with the true one.
  EXPECT_NEAR(decided.recurrence_residual_norm, decided.residual_norm, 1e-2 * decided.residual_norm);
  EXPECT_NEAR(often.recurrence_residual_norm, often.residual_norm, 1e-2 * often.residual_norm);
}

TYPED_TEST(CaBicgstab, TinyProblemsAndLongBlocks) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const Global n : {1, 2, 3, 5}) {
          const auto a = shifted_grid<T>(n, 1, 0.3);
          const auto b = random_vector<T>(a.n, 5);
          for (const int s : {1, 4, 16})
            for (const Basis basis : bases) {
              const auto found = run(*a.on(comm), b, options(s, basis, 1e-9));
              EXPECT_TRUE(found.report.converged()) << n << " " << s << " " << found.report.detail;
              EXPECT_LE(residual_of(a, b, found.x), 1e-9L);
              EXPECT_LE(found.report.iterations, n + 1);
            }
        }
      },
      {2, 5});
}

TEST(CaBicgstab, SameResultOnAnyNumberOfRanks) {
  const auto a = varied<double>(20, 18, 0.5);
  const auto b = random_vector<double>(a.n, 3);
  const auto alone = run(*a.on(comm::Communicator::self()), b, options(8, Basis::chebyshev, 1e-9));
  on_ranks([&](const comm::Communicator& comm) {
    const auto found = run(*a.on(comm), b, options(8, Basis::chebyshev, 1e-9));
    EXPECT_NEAR(found.report.iterations, alone.report.iterations, 1);
    EXPECT_LE(relative_difference(found.x, alone.x), 1e-6L);
  });
}

}  // namespace
}  // namespace tacit::test
