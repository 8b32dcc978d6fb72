// Solves that are given the null space of a singular matrix: every method, with and without a preconditioner.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include <tacit/precond/jacobi.hpp>

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::Method;
using krylov::NullSpace;
using krylov::Options;
using layout::Vector;

template <class T>
class GivenNullSpace : public testing::Test {};
TYPED_TEST_SUITE(GivenNullSpace, test::Scalars);

/// A graph's Laplacian with weights on nx x ny; A phase = 0. With `flow` it is not symmetric: rows are scaled.
template <Scalar T>
Whole<T> free_grid(Global nx, Global ny, double flow = 0) {
  Whole<T> a;
  a.n = nx * ny;
  const auto weight = [&](Global i, Global j) { return 1 + 0.5 * noise(3, std::min(i, j) * a.n + std::max(i, j)); };
  for (Global y = 0; y < ny; ++y)
    for (Global x = 0; x < nx; ++x) {
      const Global i = y * nx + x;
      const double scale = 1 + flow * noise(4, i);
      std::vector<std::pair<Global, double>> row;
      double sum = 0;
      const auto put = [&](Global j) { row.emplace_back(j, -scale * weight(i, j)), sum += scale * weight(i, j); };
      if (y > 0) put(i - nx);
      if (x > 0) put(i - 1);
      if (x + 1 < nx) put(i + 1);
      if (y + 1 < ny) put(i + nx);
      row.emplace_back(i, sum);
      std::sort(row.begin(), row.end());
      for (const auto& [j, v] : row) a.push(j, T(real_t<T>(v)) * phase<T>(i) * conj(phase<T>(j)));
      a.end_row();
    }
  return a;
}
/// The null space of free_grid.
template <Scalar T>
NullSpace<T> null_space_of(const op::Operator<T, Host>& A, double flow = 0) {
  std::vector<T> right(A.range().size()), left(right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    right[i] = phase<T>(Global(i));
    left[i] = right[i] / real_t<T>(1 + flow * noise(4, i));
  }
  std::vector<Vector<T>> r(1, spread(A.domain(), right)), l;
  if (flow != 0) l.push_back(spread(A.range(), left));
  return NullSpace<T>(std::move(r), std::move(l));
}

TYPED_TEST(GivenNullSpace, EveryMethodFindsTheLeastSquaresSolution) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        for (const double flow : {0.0, 0.4})
          for (const auto& m : all_methods<T>()) {
            if (m.positive && flow != 0) continue;
            Options o;
            m.choose(o);
            if (o.method == Method::richardson || o.method == Method::chebyshev) continue;  // for regular A
            o.rtol = is_wide<T> ? 1e-9 : 1e-3;
            const auto a = free_grid<T>(9, 8, flow);
            const auto A = a.on(comm);
            const auto null = null_space_of<T>(*A, flow);
            const precond::Jacobi<T> jacobi(*A);
            const auto b = random_vector<T>(a.n, 6);
            auto inside = spread(A->range(), b);
            (flow != 0 ? null.left() : null.right()).project(inside);
            const auto projected = whole(inside);
            for (const op::Operator<T, Host>* P :
                 {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi}) {
              Vector<T> x = spread(A->domain(), random_vector<T>(a.n, 8));
              const auto r = krylov::solve<T, Host>(*A, P, spread(A->range(), b), x, o, false, &null);
              const std::string what = m.name + (P ? " with jacobi" : "") + (flow != 0 ? ", not symmetric" : "");
              EXPECT_TRUE(r.converged()) << what << ": " << r.detail;
              EXPECT_LE(double(residual_of(a, projected, whole(x))), 1.1 * *o.rtol + (is_wide<T> ? 1e-13 : 1e-5))
                  << what;
              EXPECT_NEAR(r.projected_norm,
                          std::sqrt(double(norm2(b) * norm2(b) - norm2(projected) * norm2(projected))),
                          (is_wide<T> ? 1e-10 : 1e-3) * double(norm2(b)))
                  << what;
              ASSERT_FALSE(r.warnings.empty()) << what;
              auto rest = x;
              EXPECT_LE(null.right().project(rest), (is_wide<T> ? 1e-13 : 1e-5) * layout::norm(x)) << what;
            }
          }
      },
      {3});
}

TYPED_TEST(GivenNullSpace, IsCheckedAndMadeOrthonormal) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = free_grid<T>(6, 5);
        const auto A = a.on(comm);
        const auto b = spread(A->range(), random_vector<T>(a.n, 6));
        Vector<T> x(A->domain());
        const auto refused = [&](const std::function<void()>& f, const char* words) {
          try {
            f();
            ADD_FAILURE() << "accepted: " << words;
          } catch (const Error& e) {
            EXPECT_EQ(e.kind(), ErrorKind::usage);
            EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
          }
        };
        const auto v = spread(A->range(), random_vector<T>(a.n, 7));
        const NullSpace<T> wrong(std::vector<Vector<T>>(1, v));
        refused([&] { krylov::solve<T, Host>(*A, nullptr, b, x, {}, false, &wrong); }, "is not in the null space of A");
        const auto right = null_space_of<T>(*A);
        const NullSpace<T> other(std::vector<Vector<T>>(1, right.right().vectors().front()),
                                 std::vector<Vector<T>>(1, v));
        refused([&] { krylov::solve<T, Host>(*A, nullptr, b, x, {}, false, &other); }, "left null-space vector 0");
        refused([&] { NullSpace<T>(std::vector<Vector<T>>(2, v)); }, "null-space vector 1 depends on those before it");
        refused([&] { NullSpace<T>(std::vector<Vector<T>>(1, Vector<T>(A->domain()))); }, "is zero");
        refused([&] { NullSpace<T>({}); }, "no vectors");
        // Of b in the null space nothing is left.
        auto n = right.right().vectors().front();
        auto s = krylov::solve<T, Host>(*A, nullptr, n, x, {}, false, &right);
        EXPECT_TRUE(s.converged());
        EXPECT_EQ(layout::norm(x), 0);
        EXPECT_NEAR(s.projected_norm, 1, 1e-5);
      },
      {2, 3});
}

/// Lanczos vectors with a part in the null space would show the eigenvalue 0 of P A, or a P that is not Hermitian
/// beside the projection of its results.
TYPED_TEST(GivenNullSpace, ChebyshevEstimatesTheSpectrumBesideIt) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = free_grid<T>(9, 8);
        const auto A = a.on(comm);
        const auto null = null_space_of<T>(*A);
        const precond::Jacobi<T> jacobi(*A);
        // I + 20 u u^H, where u is nearly the null vector.
        auto u = spread(A->range(), random_vector<T>(a.n, 9));
        layout::scale(T(real_t<T>(0.3 / layout::norm(u))), u);
        layout::axpy(T(1), null.right().vectors().front(), u);
        const Custom<T> leaning(A->range(), [&](const Vector<T>& x, Vector<T>& y) {
          layout::copy(x, y);
          layout::axpy(T(real_t<T>(20)) * layout::dot(u, x), u, y);
        });
        const auto solved = [&](Method method, const op::Operator<T, Host>* P) {
          Options o = with(method, is_wide<T> ? 1e-9 : 1e-3);
          o.fallbacks = false;
          Vector<T> x(A->domain());
          return krylov::solve<T, Host>(*A, P, spread(A->range(), random_vector<T>(a.n, 6)), x, o, true, &null);
        };
        for (const op::Operator<T, Host>* P :
             {(const op::Operator<T, Host>*)nullptr, (const op::Operator<T, Host>*)&jacobi,
              (const op::Operator<T, Host>*)&leaning}) {
          const auto cg = solved(Method::cg, P), chebyshev = solved(Method::chebyshev, P);
          const std::string what = P ? P->name() : "none";
          EXPECT_TRUE(cg.converged() && chebyshev.converged()) << what << ": " << chebyshev.detail;
          EXPECT_LE(chebyshev.iterations, 4 * cg.iterations) << what;
        }
      },
      {1, 3});
}

/// The norm of b may overflow where that of what is taken out of it does not.
TEST(NullSpace, TakenOutOfALongB) {
  on_ranks([](const comm::Communicator& comm) {
    const auto a = free_grid<double>(9, 8);
    const auto A = a.on(comm);
    const auto null = null_space_of<double>(*A);
    const auto solved = [&](double size) {
      auto b = random_vector<double>(a.n, 6);
      for (double& v : b) v *= size;
      Vector<double> x(A->domain());
      return krylov::solve<double, Host>(*A, nullptr, spread(A->range(), b), x, with(Method::cg, 1e-6), true, &null);
    };
    const double large = 0x1p1023;
    const auto one = solved(1), long_b = solved(large);
    ASSERT_GT(one.b_norm, 2);
    ASSERT_GT(one.projected_norm, 0.1);
    EXPECT_NEAR(long_b.projected_norm / large, one.projected_norm, 1e-9);
    ASSERT_FALSE(long_b.warnings.empty());
    EXPECT_EQ(long_b.warnings.front().find("inf"), std::string::npos) << long_b.warnings.front();
  });
}

}  // namespace
}  // namespace tacit::test
