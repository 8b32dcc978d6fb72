// Polynomials of A, compared with dense ones, and the estimates of its spectrum that they are made with.
#include <tacit/comm/communicator.hpp>
#include <tacit/op/spectrum.hpp>
#include <tacit/precond/jacobi.hpp>
#include <tacit/precond/polynomial.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::Jacobi;
using precond::Polynomial;
using precond::PolynomialKind;
using precond::PolynomialOptions;

template <class T>
class Polynomials : public testing::Test {};
TYPED_TEST_SUITE(Polynomials, Scalars);

TYPED_TEST(Polynomials, ChebyshevEqualsItsDenseForm) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = tridiagonal<T>(12, -1, 2.2, -1);
    const auto A = a.on(comm);
    for (const int degree : {0, 1, 2, 5}) {
      PolynomialOptions o;
      o.degree = degree;
      o.lambda_min = 0.1;
      o.lambda_max = 1.9;
      const Polynomial<T> P(*A, o);
      EXPECT_EQ(P.name(), "polynomial (chebyshev, degree " + std::to_string(degree) + ")");
      // The eigenvectors of the Toeplitz matrix are sines (times the phases), on which P acts as a multiplication.
      for (const Global mode : {1, 4, 12}) {
        const double t = (2.2 - 2 * std::cos(M_PI * double(mode) / 13)) / 2.2;
        const double theta = 1.0, delta = 0.9;
        const auto chebyshev = [&](double z) {
          return std::abs(z) <= 1
                     ? std::cos((degree + 1) * std::acos(z))
                     : (z < 0 && (degree + 1) % 2 ? -1 : 1) * std::cosh((degree + 1) * std::acosh(std::abs(z)));
        };
        const double p = (1 - chebyshev((theta - t) / delta) / chebyshev(theta / delta)) / t;
        std::vector<T> s(a.n), expected(a.n);
        for (Global i = 0; i < a.n; ++i) {
          s[i] = T(real_t<T>(std::sin(M_PI * double(mode * (i + 1)) / 13))) * phase<T>(i);
          expected[i] = s[i] * real_t<T>(p / 2.2);
        }
        Vector<T> y(A->range());
        P.apply(spread(A->range(), s), y);
        EXPECT_LE(relative_difference(whole(y), expected), tolerance<T>(200)) << degree << " " << mode;
      }
      expect_symmetric_positive<T>(P);
      expect_adjoint<T>(P);
      expect_columns<T>(P);
    }
  });
}

TYPED_TEST(Polynomials, NeumannIsTheSumOfItsSeries) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = scattered<T>(15, 3, 11);
    const auto A = a.on(comm);
    PolynomialOptions o;
    o.kind = PolynomialKind::neumann;
    o.degree = 3;
    o.relaxation = 0.8;
    const Polynomial<T> P(*A, o);
    // P = sum_i (I - w D^-1 A)^i w D^-1
    const auto d = a.dense();
    Dense<T> term(a.n, std::vector<T>(a.n)), step = term, sum = term;
    for (Global i = 0; i < a.n; ++i)
      for (Global j = 0; j < a.n; ++j) {
        step[i][j] = (i == j ? T(1) : T(0)) - d[i][j] / d[i][i] * real_t<T>(0.8);
        term[i][j] = i == j ? T(real_t<T>(0.8)) / d[i][i] : T(0);
      }
    for (int k = 0; k <= 3; ++k) {
      for (Global i = 0; i < a.n; ++i)
        for (Global j = 0; j < a.n; ++j) sum[i][j] += term[i][j];
      term = multiply(step, term);
    }
    const auto m = dense_of(P);
    for (Global i = 0; i < a.n; ++i) EXPECT_LE(relative_difference(m[i], sum[i]), tolerance<T>(50));
    expect_adjoint<T>(P);
  });
}

TYPED_TEST(Polynomials, UseProductsOnly) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto A = grid<T>(6, 6).on(comm);
    const Polynomial<T> P(*A, {.degree = 4});
    EXPECT_GT(P.lambda_min(), 0.0);
    EXPECT_LT(P.lambda_min(), 0.3);  // 1 - cos(pi / 7) = 0.0990
    EXPECT_GT(P.lambda_max(), 1.9);  // 1 + cos(pi / 7) = 1.901
    EXPECT_LT(P.lambda_max(), 2.2);
    Vector<T> x(A->range()), y(A->range());
    layout::fill(x, T(1));
    const auto before = comm.counters();
    const auto applies = A->applies();
    P.apply(x, y);
    EXPECT_EQ(A->applies() - applies, 4);
    EXPECT_EQ((comm.counters() - before).reductions, 0);
  });
}

TYPED_TEST(Polynomials, RefuseWhatTheyCannotDo) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto A = grid<T>(4, 4).on(comm);
    const auto says = [&](const op::Csr<T>& m, const PolynomialOptions& o, const char* word) {
      const auto text = usage_error([&] { Polynomial<T> P(m, o); });
      EXPECT_NE(text.find(word), std::string::npos) << text;
    };
    says(*A, {.degree = -1}, "degree");
    says(*A, {.lambda_min = -1.0}, "lambda_min");
    says(*A, {.lambda_min = 2.0, .lambda_max = 1.0}, "lambda_max");
    says(*A, {.kind = PolynomialKind::neumann, .relaxation = 0.0}, "relaxation");
    const auto negative = grid<T>(4, 4).map([](Global r, Global c, T v) { return r == c && r == 5 ? -v : v; }).on(comm);
    says(*negative, {}, "row 5 ");
    const auto indefinite = grid<T>(4, 4).map([](Global r, Global c, T v) { return r == c ? T(1) : v; }).on(comm);
    says(*indefinite, {}, "needs a definite matrix");
  });
}

TYPED_TEST(Polynomials, SpectrumOfKnownMatrices) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto estimate = [&](const Whole<T>& a, int steps, const op::Operator<T, Host>* P = nullptr) {
      return op::estimate_spectrum<T, Host>(*a.on(comm), P, steps);
    };
    const double near = std::same_as<real_t<T>, double> ? 1e-9 : 1e-4;
    const auto one = estimate(diagonal<T>({3}), 20);
    EXPECT_NEAR(one.lambda_min, 3, 3 * near);
    EXPECT_NEAR(one.lambda_max, 3, 3 * near);
    const auto identity = estimate(diagonal<T>(std::vector<double>(30, 1.0)), 20);
    EXPECT_NEAR(identity.lambda_min, 1, near);
    EXPECT_NEAR(identity.lambda_max, 1, near);
    const auto three = estimate(diagonal<T>({1, 5, 2, 5, 1, 2, 2, 1, 5}), 20);  // exact: three eigenvalues
    EXPECT_NEAR(three.lambda_min, 1, near);
    EXPECT_NEAR(three.lambda_max, 5, 5 * near);
    for (const auto& a : {diagonal<T>({1, -1, 2, 3}), diagonal<T>({0, 0, 0}), diagonal<T>({}), diagonal<T>({-2})}) {
      const auto none = estimate(a, 20);
      EXPECT_EQ(none.lambda_min, 0);
      EXPECT_EQ(none.lambda_max, 0);
    }
    const auto laplace = estimate(grid<T>(15, 15), 25);
    const double c = std::cos(M_PI / 16);
    EXPECT_LE(laplace.lambda_max, 4 + 4 * c + 1e-4);
    EXPECT_GE(laplace.lambda_max, 0.98 * (4 + 4 * c));
    EXPECT_GE(laplace.lambda_min, 4 - 4 * c - 1e-4);
    // P A = I
    const auto a = diagonal<T>({1, 10, 100, 1000, 7});
    const auto A = a.on(comm);
    const Jacobi<T> P(*A);
    const auto flat = op::estimate_spectrum<T, Host>(*A, &P, 20);
    EXPECT_NEAR(flat.lambda_min, 1, 10 * near);
    EXPECT_NEAR(flat.lambda_max, 1, 10 * near);
    const auto before = comm.counters();
    const auto G = grid<T>(15, 15).on(comm);
    op::estimate_spectrum<T, Host>(*G, nullptr, 10);
    EXPECT_EQ((comm.counters() - before).reductions, 21);
    EXPECT_EQ(G->applies(), 10);
  });
}

TEST(Spectrum, IsTheSameForAnyNumberOfRanks) {
  const auto a = grid<double>(12, 12);
  const auto alone = op::estimate_spectrum<double, Host>(*a.on(comm::Communicator::self()), nullptr, 12);
  on_ranks([&](const comm::Communicator& comm) {
    const auto found = op::estimate_spectrum<double, Host>(*a.on(comm), nullptr, 12);
    EXPECT_NEAR(found.lambda_max, alone.lambda_max, 1e-9);
    EXPECT_NEAR(found.lambda_min, alone.lambda_min, 1e-9);
  });
}

}  // namespace
}  // namespace tacit::test
