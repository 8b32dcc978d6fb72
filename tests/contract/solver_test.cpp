// Properties of all methods, for every operator, scalar, memory and number of ranks.
#include "support/communicators.hpp"
#include "support/memory.hpp"
#include "support/methods.hpp"
#include "support/threads.hpp"

#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace tacit::test {
namespace {

using krylov::Options;
using krylov::Reason;
using krylov::State;
using layout::Space;
using layout::Vector;

template <class T>
constexpr double epsilon = double(std::numeric_limits<real_t<T>>::epsilon());
template <class T>
constexpr double loose = std::same_as<real_t<T>, double> ? 1e-8 : 1e-4;

template <Scalar T>
std::vector<T> scaled(std::vector<T> v, double factor) {
  for (T& a : v) a *= real_t<T>(factor);
  return v;
}
template <Scalar T>
std::vector<T> powered(std::vector<T> v, int e) {
  for (T& a : v) {
    if constexpr (is_complex<T>) a = {std::ldexp(a.real(), e), std::ldexp(a.imag(), e)};
    else a = std::ldexp(a, e);
  }
  return v;
}

/// The numbers of ranks of a test of many iterations: one only where it is repeated.
std::vector<int> ranks_of_long(std::vector<int> host) {
  return is_repeated() ? std::vector<int>{} : ranks_of(std::move(host));
}

/// Compares the report with values that the test computes itself.
template <Scalar T>
void expect_honest(const Whole<T>& a, const std::vector<T>& b, const Solved<T>& s, const Options& o,
                   const std::string& what) {
  const auto& r = s.report;
  for (const T& v : s.x) ASSERT_TRUE(is_finite(v)) << what;
  const long double truth = residual_of(a, b, s.x);
  // Rounding error of one product in the arithmetic of T.
  const long double noise = 20 * epsilon<T> * (1 + 10 * norm2(s.x) / std::max<long double>(norm2(b), 1e-4000L));
  EXPECT_LE(std::abs(truth - (long double)(r.residual_norm)), noise + 1e-5L * truth) << what;
  const double rtol = o.rtol.value_or(krylov::default_rtol<T>());
  if (r.converged()) {
    EXPECT_LE(r.residual_norm, rtol * (1 + 1e-12)) << what;
  } else EXPECT_GT(r.residual_norm, rtol) << what << ": not converged, " << r.detail;
  if (r.converged()) {
    EXPECT_LE(truth, rtol + noise) << what;
    EXPECT_EQ(r.advice, "") << what;
  } else {
    EXPECT_NE(r.advice + r.detail, "") << what;
  }
  EXPECT_EQ(r.history.size(), std::size_t(r.iterations) + 1) << what;
}

template <class T>
class Solver : public testing::Test {};
TYPED_TEST_SUITE(Solver, ScalarsInMemory);

TYPED_TEST(Solver, EveryMethodSolvesOnEveryOperator) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const auto& m : all_methods<T>())
          for (const double convection : {0.0, 0.4}) {
            if (m.positive && convection != 0) continue;
            if (!on_host && !m.positive && convection == 0) continue;
            const auto a = shifted_grid<T>(sized(9, 6, 5), sized(8, 5, 4), convection);
            const auto b = random_vector<T>(a.n, 4);
            Options o;
            m.choose(o);
            o.rtol = loose<T>;
            const auto csr = a.template on<M>(comm);
            const auto check = [&](const op::Operator<T, M>& A, const op::Operator<T, M>* P,
                                   const std::vector<T>& guess, const std::string& kind) {
              const auto s = run(A, b, o, P, guess);
              const std::string what = m.name + ", " + kind + ", " + std::to_string(comm.size()) + " ranks";
              EXPECT_TRUE(s.report.converged()) << what << ": " << to_string(s.report.reason) << " " << s.report.detail;
              expect_honest(a, b, s, o, what);
            };
            check(*csr, nullptr, random_vector<T>(a.n, 5), "csr with a guess");
            if (on_host) {
              check(*csr, nullptr, {}, "csr");
              check(Replicated<T, M>(Space::replicated(comm, a.n), a), nullptr, {}, "replicated");
            }
            const Space& space = csr->range();
            const Custom<T, M> custom(space, [&](const auto& x, auto& y) { csr->apply(x, y); });
            if (!is_repeated()) check(custom, nullptr, {}, "custom");
            // All rows on one rank, none on the others.
            std::vector<Global> counts(comm.size(), 0);
            counts.back() = a.n;
            const auto gathered = a.template on<M>(Space::distributed(comm, layout::Partition::of_counts(counts)));
            if (on_host || (comm.size() > 1 && !is_repeated())) check(*gathered, nullptr, {}, "empty ranks");
            const auto A = a.template on<M>(comm);
            const auto P = precond::make<T, M>("jacobi", *A);
            auto bounds = o;
            if (o.lambda_min) o.lambda_min = *o.lambda_min / 6, o.lambda_max = *o.lambda_max / 6;
            if (o.method == krylov::Method::richardson) o.relaxation = 1;
            check(*A, P.get(), {}, "csr with jacobi");
            o = bounds;
          }
      },
      ranks_of({3, 4}));
}

TYPED_TEST(Solver, CountsAreThoseOfTheDocumentation) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        // No method reduces the residual below epsilon^(1/4) within these iterations.
        const auto a = grid<T>(sized(24, 18, 18), sized(20, 16, 16));
        const auto b = random_vector<T>(a.n, 4);
        const auto A = a.template on<M>(comm);
        const auto jacobi = precond::make<T, M>("jacobi", *A);
        const Custom<T, M> hidden(A->range(), [&](const auto& x, auto& y) { jacobi->apply(x, y); });
        for (const auto& m : all_methods<T>())
          for (const op::Operator<T, M>* P :
               {(const op::Operator<T, M>*)nullptr, (const op::Operator<T, M>*)jacobi.get(),
                (const op::Operator<T, M>*)&hidden}) {
            if (m.applies == 0) continue;
            if ((!on_host && P == &hidden) || (is_repeated() && !P)) continue;
            Options o;
            m.choose(o);
            o.rtol = 0;
            if (replaces(o.method)) o.replacement = 0;  // in float the residual would be replaced within 14 iterations
            if (P && o.lambda_min) o.lambda_min = *o.lambda_min / 4, o.lambda_max = *o.lambda_max / 4;
            if (P && o.method == krylov::Method::richardson) o.relaxation = 0.7;
            const auto counts = [&](int iterations) {
              o.max_iterations = iterations;
              const auto s = run(*A, b, o, P);
              EXPECT_EQ(s.report.iterations, iterations) << m.name << ": max_iterations is exact";
              EXPECT_EQ(s.report.reason, Reason::max_iterations) << m.name;
              return s.report.counts;
            };
            // Both limits lie in the same cycle, because a restart recomputes b - A x. It is the second cycle where the
            // first one, without shifts, differs.
            const int restart = o.restart.value_or(krylov::default_restart), few = restart < 14 ? restart + 1 : 4,
                      more = few + sized(10, 5, 3), n = more - few;
            const auto c1 = counts(few), c2 = counts(more);
            const std::string what = m.name + (P ? " with " + P->name() : "");
            if (m.reductions == -2) {
              EXPECT_LE(c2.reductions - c1.reductions, 2 * n) << what;
            } else if (m.reductions >= 0) {
              EXPECT_EQ(c2.reductions - c1.reductions, n * m.reductions) << what;
            } else {  // modified Gram-Schmidt: j + 1 for vector j = 1, 2, ...
              EXPECT_EQ(c2.reductions - c1.reductions, (more * (more + 3) - few * (few + 3)) / 2) << what;
            }
            EXPECT_EQ(c2.operator_applies - c1.operator_applies, n * m.applies) << what;
            EXPECT_EQ(c2.preconditioner_applies - c1.preconditioner_applies, P ? n * m.preconditions : 0) << what;
            EXPECT_EQ(c2.exchanges - c1.exchanges, comm.size() > 1 ? n * m.applies : 0) << what;
            EXPECT_LE(c1.operator_applies, few * m.applies + 4)
                << what;  // a recomputed residual, a rejected trial; two in advance
            EXPECT_LE(c1.reductions, 12 + (m.reductions >= 0 ? few * m.reductions : few * (few + 3) / 2.0)) << what;
          }
      },
      ranks_of({3}));
}

TYPED_TEST(Solver, ReplicatedVectorsNeedNoReductions) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(6, 6);
        const Replicated<T, M> A(Space::replicated(comm, a.n), a);
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.rtol = loose<T>;
          const auto s = run(A, random_vector<T>(a.n, 4), o);
          EXPECT_TRUE(s.report.converged());
          EXPECT_EQ(s.report.counts.reductions, 0) << m.name;
        }
      },
      ranks_of_long({2, 3, 5}));
}

TYPED_TEST(Solver, TrivialProblems) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(5, 4);
        const auto A = a.template on<M>(comm);
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.rtol = loose<T>;
          // b = 0: x = 0 at once, whatever the initial guess.
          auto s = run(*A, std::vector<T>(a.n, T(0)), o, nullptr, random_vector<T>(a.n, 1));
          EXPECT_TRUE(s.report.converged()) << m.name;
          EXPECT_EQ(s.report.iterations, 0);
          EXPECT_EQ(s.x, std::vector<T>(a.n, T(0)));
          EXPECT_EQ(s.report.history.size(), 1u);
          // The initial guess is the solution.
          const auto answer = random_vector<T>(a.n, 2);
          const auto image = a.times(answer);
          std::vector<T> b(a.n);
          for (Global i = 0; i < a.n; ++i) b[i] = T(image[i]);
          s = run(*A, b, o, nullptr, answer);
          EXPECT_TRUE(s.report.converged()) << m.name;
          EXPECT_EQ(s.report.iterations, 0) << m.name;
          EXPECT_EQ(s.x, answer) << m.name;
          // Size one, the identity, and a matrix without rows.
          o.lambda_min = {}, o.lambda_max = {};
          if (o.method == krylov::Method::richardson) o.relaxation = 1;
          const auto one = diagonal<T>({1});
          s = run(*one.template on<M>(comm), {T(3)}, o);
          EXPECT_TRUE(s.report.converged()) << m.name << " " << s.report.detail;
          EXPECT_LE(std::abs(s.x[0] - T(3)), 10 * loose<T>);
          const auto identity = diagonal<T>(std::vector<double>(20, 1.0));
          s = run(*identity.template on<M>(comm), answer, o);
          EXPECT_TRUE(s.report.converged()) << m.name << " " << s.report.detail;
          EXPECT_LE(s.report.iterations, m.name == "richardson" ? 2 : m.name == "chebyshev" ? 30 : 1) << m.name;
          expect_honest(identity, answer, s, o, m.name + ", identity");
          s = run(*diagonal<T>({}).template on<M>(comm), std::vector<T>(), o);
          EXPECT_TRUE(s.report.converged()) << m.name;
        }
      },
      ranks_of({2, 3, 5}));
}

TYPED_TEST(Solver, NonFiniteInputsAreNamed) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  using R = real_t<T>;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(5, 4);
        const auto A = a.template on<M>(comm);
        const auto fine = random_vector<T>(a.n, 1);
        for (const R bad : {std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::infinity(),
                            -std::numeric_limits<R>::infinity()})
          for (const auto& m : all_methods<T>()) {
            if (!on_host && (bad > 0 || (is_repeated() && bad < 0))) continue;
            Options o;
            m.choose(o);
            auto broken = fine;
            broken[13] = T(bad), broken[17] = T(bad);
            const auto expect = [&](const Solved<T>& s, const char* words) {
              EXPECT_EQ(s.report.reason, Reason::non_finite) << m.name;
              EXPECT_NE(s.report.detail.find(words), std::string::npos) << m.name << ": " << s.report.detail;
              EXPECT_EQ(s.report.iterations, 0);
              for (const T& v : s.x) EXPECT_TRUE(is_finite(v));
            };
            expect(run(*A, broken, o), "b has a value that is not finite at index 13");
            expect(run(*A, fine, o, nullptr, broken), "x0 has a value that is not finite at index 13");
            const auto B =
                a.map([&](Global r, Global c, T v) { return r == 7 && c == 8 ? T(bad) : v; }).template on<M>(comm);
            expect(run(*B, fine, o), "row 7, column 8");
            // An operator that hides its entries: the value is found in the first iteration (richardson: the second).
            const Custom<T, M> C(A->range(), [&](const auto& x, auto& y) {
              A->apply(x, y);
              auto elements = y.to_host();
              if (!elements.empty()) elements[0] = T(bad);
              y.assign(elements);
            });
            const auto s = run(C, fine, o);
            EXPECT_EQ(s.report.reason, Reason::non_finite) << m.name << ": " << s.report.detail;
            EXPECT_LE(s.report.iterations, m.name == "richardson" ? 2 : 1) << m.name;
            EXPECT_EQ(s.report.history.size(), std::size_t(s.report.iterations) + 1) << m.name;
            for (const T& v : s.x) EXPECT_TRUE(is_finite(v)) << m.name;
          }
      },
      ranks_of({3}));
}

TYPED_TEST(Solver, ScaledProblemsTakeTheSameIterations) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  using R = real_t<T>;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(sized(8, 5, 4), sized(8, 5, 4));
        const auto b = random_vector<T>(a.n, 4);
        const bool wide = std::same_as<R, double>;
        const std::vector<int> powers = !on_host ? std::vector<int>{wide ? 664 : 70}
                                        : wide   ? std::vector<int>{1000, 664, -664, -1000}
                                                 : std::vector<int>{120, 70, -70, -120};
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.rtol = loose<T>;
          const auto plain = run(*a.template on<M>(comm), b, o);
          for (const int e : powers) {
            const auto same = [&](const Solved<T>& s, int x_power, const char* what) {
              EXPECT_TRUE(s.report.converged()) << m.name << " " << what << " 2^" << e << ": " << s.report.detail;
              EXPECT_EQ(s.report.iterations, plain.report.iterations) << m.name << " " << what << " 2^" << e;
              EXPECT_NEAR(s.report.residual_norm, plain.report.residual_norm,
                          1e-3 * plain.report.residual_norm + 4 * epsilon<T>)
                  << m.name << " " << what << " 2^" << e;
              EXPECT_LE(relative_difference(s.x, powered(plain.x, x_power)), 1e3 * epsilon<T>)
                  << m.name << " " << what << " 2^" << e;
            };
            if (!is_repeated()) same(run(*a.template on<M>(comm), powered(b, e), o), e, "b");
            const auto A = a.map([&](Global, Global, T v) { return powered<T>({v}, e)[0]; });
            auto p = o;
            if (o.lambda_min) p.lambda_min = std::ldexp(*o.lambda_min, e), p.lambda_max = std::ldexp(*o.lambda_max, e);
            if (o.method == krylov::Method::richardson) p.relaxation = std::ldexp(o.relaxation.value_or(1), -e);
            if (on_host) same(run(*A.template on<M>(comm), powered(b, e), p), 0, "A and b");
            if (std::abs(e) < (wide ? 900 : 110)) same(run(*A.template on<M>(comm), b, p), -e, "A");
            // An operator that does not know its largest entry.
            const auto inner = A.template on<M>(comm);
            const Custom<T, M> C(inner->range(), [&](const auto& x, auto& y) { inner->apply(x, y); });
            if (!is_repeated()) same(run(C, powered(b, e), p), 0, "A and b, custom");
          }
        }
      },
      ranks_of({2}));
}

TYPED_TEST(Solver, SubnormalRightHandSides) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  using R = real_t<T>;
  const auto a = shifted_grid<T>(6, 6);
  // Multiples of the smallest subnormal number, up to about 2^10 of it, so that scaling is exact.
  std::vector<T> b(a.n), big(a.n);
  for (Global i = 0; i < a.n; ++i) {
    const R k = R(std::round(1000 * noise(3, std::uint64_t(i))));
    b[i] = T(k * std::numeric_limits<R>::denorm_min());
    big[i] = T(k);
  }
  const auto A = a.template on<M>(comm::Communicator::self());
  for (const auto& m : all_methods<T>()) {
    Options o;
    m.choose(o);
    o.rtol = 1e-2;  // b has about three digits, and so has the solution
    if (!on_host) o.max_iterations = sized(0, 60, 12), o.fallbacks = !is_repeated();
    const auto s = run(*A, b, o), plain = run(*A, big, o);
    EXPECT_EQ(s.report.iterations, plain.report.iterations) << m.name;
    EXPECT_NEAR(double(residual_of(a, b, s.x)), s.report.residual_norm, 1e-3)
        << m.name << " " << to_string(s.report.reason);
    if (o.method == krylov::Method::cg && !is_repeated()) {
      EXPECT_TRUE(s.report.converged()) << to_string(s.report.reason);
    }
    if (s.report.converged()) {
      EXPECT_LE(residual_of(a, b, s.x), 1.001e-2L) << m.name;
    }
  }
}

TYPED_TEST(Solver, OverflowingSolutionsAreNotConverged) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  using R = real_t<T>;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(sized(5, 4, 3), sized(5, 4, 3));
        const auto b = random_vector<T>(a.n, 1);
        const int e = std::same_as<R, double> ? 1000 : 120;
        for (const int sign : {1, -1}) {  // x of size 2^-2000 underflows to zero; of size 2^2000 it overflows
          if (is_repeated() && sign < 0) continue;
          const auto A = a.map([&](Global, Global, T v) { return powered<T>({v}, sign * e)[0]; });
          for (const auto& m : all_methods<T>()) {
            Options o;
            m.choose(o);
            if (o.lambda_min) o.lambda_min = {}, o.lambda_max = {};
            if (o.method == krylov::Method::richardson) continue;
            o.rtol = loose<T>;
            const auto s = run(*A.template on<M>(comm), powered(b, -sign * e), o);
            EXPECT_FALSE(s.report.converged()) << m.name;
            EXPECT_NEAR(s.report.residual_norm, 1, 1e-6) << m.name;
            EXPECT_NE(s.report.detail, "") << m.name;
            for (const T& v : s.x) EXPECT_TRUE(is_finite(v));
          }
        }
        // A right-hand side whose 2-norm overflows.
        const auto huge = std::vector<T>(a.n, T(std::numeric_limits<R>::max() / 2));
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.rtol = loose<T>;
          const auto s = run(*a.template on<M>(comm), huge, o);
          EXPECT_TRUE(s.report.converged()) << m.name << ": " << s.report.detail;
          EXPECT_LE(residual_of(a, huge, s.x), 1.1 * loose<T>) << m.name;
        }
      },
      ranks_of_long({2}));
}

TYPED_TEST(Solver, BreakdownsHaveNames) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto solve = [&](const Whole<T>& a, const std::vector<T>& b, krylov::Method method) {
          Options o;
          o.method = method;
          o.rtol = loose<T>;
          const auto s = run(*a.template on<M>(comm), b, o);
          expect_honest(a, b, s, o, to_string(method));
          return s.report;
        };
        const auto expect = [](const krylov::Report& r, Reason reason, const char* words) {
          EXPECT_EQ(r.reason, reason) << r.method << ": " << r.detail;
          EXPECT_NE(r.detail.find(words), std::string::npos) << r.method << ": " << r.detail;
          EXPECT_NE(r.advice, "");
        };
        const auto indefinite = diagonal<T>({1, -1, 2, -2, 3, -3, 4, -4});
        const std::vector<T> ones(8, T(1));
        expect(solve(indefinite, ones, krylov::Method::cg), Reason::breakdown, "(p, A p)");
        expect(solve(indefinite, ones, krylov::Method::chebyshev), Reason::breakdown, "not positive");
        // Negative definite: cg solves -A x = -b.
        EXPECT_TRUE(solve(indefinite.map([](Global, Global, T v) { return -abs2(v) * T(1); }), ones, krylov::Method::cg)
                        .converged());
        // Skew-symmetric: (r0, A r0) = 0.
        const auto skew = tridiagonal<T>(8, -1, 0, 1);
        auto real_skew = skew;
        for (std::size_t k = 0; k < real_skew.value.size(); ++k)
          real_skew.value[k] = T(real_t<T>(std::abs(skew.value[k])));
        for (Global r = 0; r < 8; ++r)
          for (Global k = real_skew.start[r]; k < real_skew.start[r + 1]; ++k)
            if (real_skew.column[k] < r) real_skew.value[k] = -real_skew.value[k];
        std::vector<T> real_b(8);
        for (int i = 0; i < 8; ++i) real_b[i] = T(real_t<T>(noise(1, i)));
        {  // without fallbacks; another shadow residual, or longer smoothing steps, help
          Options o;
          o.method = krylov::Method::bicgstab;
          o.fallbacks = false;
          expect(run(*real_skew.template on<M>(comm), real_b, o).report, Reason::breakdown, "(r0, A p)");
        }
        EXPECT_TRUE(solve(real_skew, real_b, krylov::Method::bicgstab).converged());
        EXPECT_TRUE(solve(real_skew, real_b, krylov::Method::gmres).converged());
        // The zero operator.
        const auto zero = diagonal<T>(std::vector<double>(8, 0.0));
        expect(solve(zero, ones, krylov::Method::cg), Reason::breakdown, "(p, A p)");
        expect(solve(zero, ones, krylov::Method::bicgstab), Reason::breakdown, "(r0, A p)");
        expect(solve(zero, ones, krylov::Method::gmres), Reason::breakdown, "singular");
        expect(solve(zero, ones, krylov::Method::chebyshev), Reason::breakdown, "not positive");
        {
          Options o;
          o.method = krylov::Method::richardson;
          const auto s = run(*zero.template on<M>(comm), ones, o);
          EXPECT_EQ(s.report.reason, Reason::stagnated);
          EXPECT_EQ(s.report.residual_norm, 1);
        }
        // Singular systems: a consistent one is solved, an inconsistent one is not reported as converged.
        Whole<T> neumann;
        neumann.n = 12;
        for (Global i = 0; i < 12; ++i) {
          if (i > 0) neumann.push(i - 1, T(-1));
          neumann.push(i, T(i == 0 || i == 11 ? 1 : 2));
          if (i < 11) neumann.push(i + 1, T(-1));
          neumann.end_row();
        }
        std::vector<T> compatible(12), incompatible(12, T(1));
        for (int i = 0; i < 12; ++i) compatible[i] = T(real_t<T>(i < 6 ? 1 : -1));
        for (const auto method : {krylov::Method::cg, krylov::Method::bicgstab, krylov::Method::gmres}) {
          EXPECT_TRUE(solve(neumann, compatible, method).converged()) << to_string(method);
          const auto r = solve(neumann, incompatible, method);
          EXPECT_FALSE(r.converged()) << to_string(method);
          EXPECT_LE(r.iterations, 3000) << to_string(method);
          EXPECT_LE(r.residual_norm, 1 + 1e-6) << to_string(method);
        }
      },
      ranks_of({3}));
}

TYPED_TEST(Solver, DivergingDiagonalScalingsAreUndone) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(6, 6);
        const auto b = random_vector<T>(a.n, 1);
        Options o;
        o.method = krylov::Method::richardson;
        o.relaxation = 1;  // diverges: |1 - 10| > 1
        auto s = run(*a.template on<M>(comm), b, o);
        EXPECT_EQ(s.report.reason, Reason::diverged);
        EXPECT_LE(s.report.residual_norm, 1 + 1e-6);
        expect_honest(a, b, s, o, "richardson");
        o = {};
        o.method = krylov::Method::chebyshev;
        o.lambda_min = 0.1, o.lambda_max = 0.2;
        s = run(*a.template on<M>(comm), b, o);
        EXPECT_EQ(s.report.reason, Reason::diverged);
        EXPECT_LE(s.report.residual_norm, 1 + 1e-6);
      },
      ranks_of({2}));
}

TYPED_TEST(Solver, UnattainableTolerancesStagnate) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(sized(10, 5, 4), sized(10, 4, 3));
        const auto b = random_vector<T>(a.n, 1);
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.rtol = 1e-3 * epsilon<T>;
          const auto s = run(*a.template on<M>(comm), b, o);
          EXPECT_EQ(s.report.reason, Reason::stagnated)
              << m.name << ": " << to_string(s.report.reason) << " " << s.report.detail;
          EXPECT_LE(s.report.residual_norm, 20 * epsilon<T>) << m.name;
          EXPECT_NE(s.report.detail.find("of ||b||"), std::string::npos) << s.report.detail;
          EXPECT_LE(s.report.iterations, 1700) << m.name;  // ends well before the limit
          expect_honest(a, b, s, o, m.name);
        }
      },
      ranks_of_long({2}));
}

TYPED_TEST(Solver, MaxIterationsIsExactAlsoAcrossRestarts) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  const auto a = grid<T>(14, 14);
  const auto b = random_vector<T>(a.n, 4);
  const auto A = a.template on<M>(comm::Communicator::self());
  for (const int limit : {0, 1, 7, 23}) {
    if (is_repeated() && limit != 7) continue;
    for (const auto& m : all_methods<T>()) {
      Options o;
      m.choose(o);
      if (krylov::takes(o.method, "restart")) o.restart = 5;
      o.lambda_min = {}, o.lambda_max = {};
      if (krylov::takes(o.method, "relaxation")) o.relaxation = 0.2;
      o.rtol = 1e-12;
      o.max_iterations = limit;
      const auto s = run(*A, b, o);
      EXPECT_EQ(s.report.iterations, limit) << m.name << " " << to_string(s.report.reason) << s.report.detail;
      EXPECT_EQ(s.report.reason, Reason::max_iterations) << m.name;
      expect_honest(a, b, s, o, m.name);
    }
  }
}

TYPED_TEST(Solver, CallbacksSeeTheSolutionAndMayStop) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(8, 8);
        const auto b = random_vector<T>(a.n, 4);
        const auto A = a.template on<M>(comm);
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          if (krylov::takes(o.method, "restart")) o.restart = 4;
          o.rtol = loose<T>;
          int calls = 0;
          double before = 1;
          o.callback = [&](const State& s) {
            EXPECT_EQ(s.iteration, ++calls);
            std::vector<T> x(std::size_t(A->domain().local_size()));
            s.solution(x.data());
            const double truth = double(residual_of(a, b, comm.all_gather(std::span<const T>(x))));
            const bool late = o.method == krylov::Method::richardson;  // reports the norm of the previous step
            const bool scaled_norm = o.side == krylov::Side::left;
            if (!scaled_norm) {
              EXPECT_NEAR(late ? before : truth, s.residual_norm, 1e-3 * s.residual_norm + 2000 * epsilon<T>)
                  << m.name << " " << calls;
            }
            before = truth;
            return calls == 6;
          };
          const auto guess = random_vector<T>(a.n, 9);
          before = double(residual_of(a, b, guess));
          const auto s = run(*A, b, o, nullptr, guess);
          EXPECT_EQ(s.report.reason, Reason::stopped) << m.name;
          EXPECT_EQ(s.report.iterations, 6) << m.name;
          expect_honest(a, b, s, o, m.name);
        }
      },
      ranks_of({3}));
}

TYPED_TEST(Solver, AnErrorOnOneRankReachesAll) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  if (!std::same_as<T, double>) GTEST_SKIP() << "once is enough";
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(8, 8);
        const auto b = random_vector<T>(a.n, 4);
        const auto A = a.template on<M>(comm);
        const int bad = comm.size() - 1;
        const auto expect_error = [&](const std::function<void()>& f, const char* words) {
          const auto from = std::chrono::steady_clock::now();
          try {
            f();
            ADD_FAILURE() << "nothing was thrown";
          } catch (const Error& e) {
            EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
          } catch (const std::exception& e) {
            EXPECT_EQ(comm.size(), 1);  // on one rank the original exception propagates
            EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
          }
          EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count(),
                    60.0);  // allows for a busy machine
        };
        for (const auto& m : all_methods<T>()) {
          Options o;
          m.choose(o);
          o.callback = [&](const State& s) {
            if (s.iteration == 3 && comm.rank() == bad) throw std::runtime_error("no more of this");
            return false;
          };
          expect_error([&] { run(*A, b, o); }, "no more of this");
          o.callback = nullptr;
          int products = 0;
          const Custom<T, M> C(A->range(), [&](const auto& x, auto& y) {
            if (++products == 4 && comm.rank() == bad) throw std::runtime_error("broken operator");
            A->apply(x, y);
          });
          expect_error([&] { run(C, b, o); }, "broken operator");
          // The communicator works afterwards.
          EXPECT_TRUE(run(*A, b, o).report.converged()) << m.name;
        }
      },
      ranks_of(is_repeated() ? std::vector<int>{2} : std::vector<int>{2, 4}));
}

TYPED_TEST(Solver, WrongUseIsRefusedBeforeAnything) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(4, 4);
        const auto A = a.template on<M>(comm);
        const auto b = random_vector<T>(a.n, 4);
        const auto refuse = [&](const std::function<void(Options&)>& change, const char* words) {
          Options o;
          o.method = krylov::Method::gmres;
          change(o);
          try {
            run(*A, b, o);
            ADD_FAILURE() << "accepted: " << words;
          } catch (const Error& e) {
            EXPECT_EQ(e.kind(), ErrorKind::usage);
            EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
          }
        };
        refuse([](Options& o) { o.rtol = -1; }, "rtol");
        refuse([](Options& o) { o.rtol = NAN; }, "rtol");
        refuse([](Options& o) { o.atol = -1; }, "atol");
        refuse([](Options& o) { o.max_iterations = -1; }, "max_iterations");
        refuse([](Options& o) { o.restart = 0; }, "restart");
        refuse([](Options& o) { o.relaxation = 0; }, "relaxation");
        refuse([](Options& o) { o.divergence = 1; }, "divergence");
        refuse([](Options& o) { o.lambda_min = 2; }, "lambda_min 2 is an option of chebyshev");
        refuse([](Options& o) { o.method = krylov::Method::chebyshev, o.lambda_min = -1; }, "lambda_min");
        refuse([](Options& o) { o.method = krylov::Method::chebyshev, o.lambda_min = 2, o.lambda_max = 1; },
               "lambda_max");
        const Vector<T, M> other(Space::distributed(comm, a.n + 1));
        Vector<T, M> x(A->domain());
        EXPECT_THROW((krylov::solve<T, M>(*A, nullptr, other, x, {})), Error);
        EXPECT_EQ(A->applies(), 0);
      },
      ranks_of({2}));
}

TYPED_TEST(Solver, SameBitsForAnyNumberOfThreads) {
#ifdef _OPENMP
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  if (under_mpi()) GTEST_SKIP();
  if (!on_host) GTEST_SKIP() << "of threads of the processor";
  const auto a = shifted_grid<T>(200, 100);  // large enough for several threads
  const auto b = random_vector<T>(a.n, 4);
  for (const auto& m : all_methods<T>()) {
    Options o;
    m.choose(o);
    o.rtol = loose<T>;
    o.max_iterations = 20;
    Solved<T> first;
    for (const int threads : {1, 2, 3}) {
      const Threads team(threads);
      auto s = run(*a.template on<M>(comm::Communicator::self()), b, o);
      if (threads == 1) first = std::move(s);
      else if (first.x != s.x || first.report.history != s.report.history)
        ADD_FAILURE() << m.name << " with " << threads;
    }
  }
#endif
}

TYPED_TEST(Solver, FallbacksAreReportedAndCanBeDisabled) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        if (!std::same_as<real_t<T>, double>) return;  // systems hard enough for fallbacks are too hard for float
        const auto s = [&](Global i) { return real_t<T>(std::pow(10.0, 3 * noise(3, std::uint64_t(i)))); };
        const auto attempt = [&](const Whole<T>& a, Options o, const char* words) {
          std::vector<T> x = random_vector<T>(a.n, 4), b(a.n);
          const auto image = a.times(x);
          for (Global i = 0; i < a.n; ++i) b[i] = T(image[i]);
          o.rtol = 1e-10;
          const auto with = run(*a.template on<M>(comm), b, o);
          EXPECT_TRUE(with.report.converged())
              << words << ": " << to_string(with.report.reason) << " " << with.report.detail;
          expect_honest(a, b, with, o, words);
          EXPECT_FALSE(with.report.warnings.empty()) << words;
          if (!with.report.warnings.empty()) {
            EXPECT_NE(with.report.warnings[0].find(words), std::string::npos) << with.report.warnings[0];
          }
          o.fallbacks = false;
          const auto without = run(*a.template on<M>(comm), b, o);
          EXPECT_TRUE(without.report.warnings.empty()) << words;
          EXPECT_FALSE(without.report.converged() && without.report.iterations <= with.report.iterations) << words;
          EXPECT_EQ(without.report.precond, "none");
          return with.report;
        };
        const Global edge = on_host ? 20 : 9;
        const auto badly = grid<T>(edge, edge).map([&](Global r, Global c, T v) { return s(r) * v * s(c); });
        Options o;
        for (const auto method : {krylov::Method::cg, krylov::Method::chebyshev, krylov::Method::bicgstab}) {
          if (!on_host && method != krylov::Method::cg) continue;  // thousands of iterations
          o.method = method;
          const auto r = attempt(badly, o, "inverse diagonal");
          EXPECT_EQ(r.precond, "jacobi");
          EXPECT_GT(r.counts.preconditioner_applies, 0);
        }
        o.method = krylov::Method::gmres;
        o.max_iterations = 200;
        if (on_host)
          attempt(grid<T>(38, 38), o, "vectors");  // with 200 vectors: minutes where the processor runs kernels
      },
      ranks_of({2}));
}

TYPED_TEST(Solver, AutomaticPicksAndChanges) {
  using T = typename TypeParam::scalar;
  using M = typename TypeParam::memory;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto solve = [&](const Whole<T>& a, bool hermitian) {
          Options o;
          o.rtol = loose<T>;
          const auto b = random_vector<T>(a.n, 4);
          const auto s = run(*a.template on<M>(comm), b, o, nullptr, {}, hermitian);
          EXPECT_TRUE(s.report.converged()) << s.report.detail;
          expect_honest(a, b, s, o, "automatic");
          return s.report;
        };
        const auto a = shifted_grid<T>(6, 6);
        EXPECT_EQ(solve(a, true).method, "cg");
        EXPECT_EQ(solve(a, false).method, "gmres");
        const auto negative = a.map([](Global r, Global c, T v) { return r == c && r == 20 ? -v : v; });
        EXPECT_EQ(solve(negative, true).method, "gmres");  // a diagonal entry < 0: not positive definite
        EXPECT_TRUE(solve(negative, true).warnings.empty());
        // Indefinite with a positive diagonal: cg breaks down.
        const auto hidden = grid<T>(6, 6).map([](Global r, Global c, T v) { return r == c ? T(1) : v; });
        const auto r = solve(hidden, true);
        EXPECT_EQ(r.method, "gmres");
        ASSERT_EQ(r.warnings.size(), 1u);
        EXPECT_NE(r.warnings[0].find("(p, A p)"), std::string::npos) << r.warnings[0];
      },
      ranks_of({2}));
}

}  // namespace
}  // namespace tacit::test
