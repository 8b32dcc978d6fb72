// cocg and cocr on matrices with A = A^T that are not Hermitian: their bilinear orthogonality, what they are for real
// matrices, and what they say of others.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/precond.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/make.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Reason;

template <class T>
class Symmetric : public testing::Test {};
TYPED_TEST_SUITE(Symmetric, test::Scalars);

/// A damped wave equation, (-Laplace - k^2 + i k^2 / 2) u on a grid: complex symmetric and indefinite; without the last
/// term for real scalars.
template <Scalar T>
Whole<T> waves(Global n) {
  return grid<T>(n, n).map([](Global r, Global c, T v) {
    if (r != c) return T(-1);
    if constexpr (is_complex<T>) return v + T(real_t<T>(-0.4), real_t<T>(0.2));
    else return v + T(1);
  });
}

TYPED_TEST(Symmetric, SolveInFewerProductsThanMethodsForAnyMatrix) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = waves<T>(20);
        const auto A = a.template on<Host>(comm);
        const auto b = random_vector<T>(a.n, 4);
        const double rtol = is_wide<T> ? 1e-9 : 1e-4;
        const auto products = [&](Method method, const op::Operator<T>* P) {
          const auto s = run(*A, b, with(method, rtol), P);
          EXPECT_TRUE(s.report.converged()) << to_string(method) << ": " << s.report.detail;
          EXPECT_LE(residual_of(a, b, s.x), 1.1 * rtol);
          return s.report.counts.operator_applies;
        };
        const auto ilu = precond::make<T, Host>("ilu0", *A);
        for (const auto* P : {(const op::Operator<T>*)nullptr, (const op::Operator<T>*)ilu.get()}) {
          const auto others = products(Method::bicgstab, P);
          for (const Method m : {Method::cocg, Method::cocr}) EXPECT_LT(products(m, P), others) << to_string(m);
        }
      },
      {1, 3});
}

// x_k of cocg for a real definite matrix is that of cg, and the residuals of cocr then never grow.
TYPED_TEST(Symmetric, AreCgAndConjugateResidualsForRealMatrices) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = shifted_grid<T>(12, 11).map([](Global r, Global c, T v) { return r == c ? v : T(-1); });
        const auto A = a.template on<Host>(comm);
        std::vector<T> b;
        for (const T& v : random_vector<T>(a.n, 4)) b.push_back(T(real(v)));
        for (const int steps : {1, 4, 7}) {
          const auto at = [&](Method method) {
            auto o = with(method, 0);
            o.max_iterations = steps;
            return run(*A, b, o);
          };
          EXPECT_LE(relative_difference(at(Method::cocg).x, at(Method::cg).x), tolerance<T>(200));
          const auto history = at(Method::cocr).report.history;
          EXPECT_EQ(history.size(), std::size_t(steps) + 1);
          for (std::size_t k = 1; k < history.size(); ++k) EXPECT_LT(history[k], history[k - 1]);
          EXPECT_LE(history.back(), at(Method::cg).report.history.back() * (1 + 1e-4));
        }
      },
      {1, 2});
}

TYPED_TEST(Symmetric, SayThatAMatrixIsNotSymmetric) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto flow = grid<T>(12, 12, 0.9);
        const auto b = random_vector<T>(flow.n, 4);
        for (const Method m : {Method::cocg, Method::cocr}) {
          auto o = with(m, is_wide<T> ? 1e-10 : 1e-5);
          o.max_iterations = 60, o.explain = true;
          const auto s = run(*flow.template on<Host>(comm), b, o);
          ASSERT_FALSE(s.report.converged());
          EXPECT_NE(s.report.detail.find("the matrix A is not symmetric"), std::string::npos) << s.report.detail;
          EXPECT_NE(s.report.advice.find("A = A^T"), std::string::npos) << s.report.advice;
          if constexpr (is_complex<T>) {  // a Hermitian matrix with complex entries
            const auto turned = shifted_grid<T>(12, 12);
            const auto h = run(*turned.template on<Host>(comm), b, o);
            ASSERT_FALSE(h.report.converged());
            EXPECT_NE(h.report.advice.find("Hermitian: use cg or minres"), std::string::npos) << h.report.advice;
          }
        }
      },
      {2});
}

// x^T x = 0 for an x that is not 0: no step can be determined.
TYPED_TEST(Symmetric, NameTheProductThatVanishes) {
  using T = TypeParam;
  if constexpr (is_complex<T>) {
    on_ranks(
        [](const comm::Communicator& comm) {
          const auto a = diagonal<T>({1, 1, 1, 1});
          const std::vector<T> b{T(1), T(0, 1), T(1), T(0, 1)};
          for (const Method m : {Method::cocg, Method::cocr}) {
            const auto s = run(*a.template on<Host>(comm), b, with(m, 1e-3));
            EXPECT_EQ(s.report.reason, Reason::breakdown) << to_string(m);
            EXPECT_NE(s.report.detail.find("not conjugated"), std::string::npos) << s.report.detail;
            EXPECT_NE(s.report.advice.find("gmres"), std::string::npos) << s.report.advice;
          }
        },
        {2});
  }
}

}  // namespace
}  // namespace tacit::test
