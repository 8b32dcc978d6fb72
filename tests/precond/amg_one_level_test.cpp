// Algebraic multigrid with one level: an inverse, a pseudo-inverse, or sweeps, compared with closed forms.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/amg.hpp>

#include "amg_problems.hpp"
#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace tacit::test {
namespace {

using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::AmgSmoother;

template <class T>
class AmgOneLevelOf : public testing::Test {};
TYPED_TEST_SUITE(AmgOneLevelOf, Scalars);

TEST(AmgDegenerate, OneUnknownAndDiagonals) {
  on_ranks([](const comm::Communicator& comm) {
    for (const auto& a : {diagonal<double>({4}), diagonal<double>({2, -8, 0.5, 1, 16, 4})}) {
      const auto A = a.on(comm);
      for (const AmgSmoother smoother : all_smoothers)
        for (const Global coarsest : {Global(1), Global(400)}) {
          AmgOptions<double> o;
          o.smoother = smoother, o.coarsest = coarsest;
          const Amg<double> M(*A, o);
          const auto m = dense_of(M);
          for (Global i = 0; i < a.n; ++i)
            for (Global j = 0; j < a.n; ++j)
              EXPECT_NEAR(m[std::size_t(i)][std::size_t(j)], i == j ? 1 / a.value[std::size_t(i)] : 0, 1e-9);
        }
    }
  });
}

/// With one level: A^-1, of a matrix that needs pivots, for several columns.
TYPED_TEST(AmgOneLevelOf, OneLevelIsTheInverse) {
  using T = TypeParam;
  on_ranks([](const comm::Communicator& comm) {
    const auto a = scattered<T>(31, 9, 5).map([](Global r, Global c, T v) { return r == c ? v * real_t<T>(0.01) : v; });
    const auto A = a.on(comm);
    const Amg<T> M(*A);
    ASSERT_EQ(M.levels().size(), 1u);
    EXPECT_FALSE(M.is_doubtful());
    const auto first = random_vector<T>(a.n, 3), second = random_vector<T>(a.n, 4);
    Vector<T> x(A->range(), 2), y(A->range(), 2);
    const auto begin = std::size_t(A->range().begin());
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = (i % 2 ? second : first)[begin + i / 2];
    M.apply(x, y);
    const auto u = dense_solve(a.dense(), first), v = dense_solve(a.dense(), second);
    double size = 0;
    for (std::size_t i = 0; i < u.size(); ++i) size = std::max({size, double(std::abs(u[i])), double(std::abs(v[i]))});
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_LE(std::abs(y.data()[i] - T((i % 2 ? v : u)[begin + i / 2])), tolerance<T>(5e3) * size);
  });
}

/// With one level of a singular matrix: its pseudo-inverse.
TYPED_TEST(AmgOneLevelOf, OneSingularLevelIsThePseudoInverse) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto neumann = laplacian(9, 8, 1, true);
        Whole<T> a;
        a.n = neumann.n;
        for (Global r = 0; r < a.n; ++r) {
          for (Global k = neumann.start[std::size_t(r)]; k < neumann.start[std::size_t(r) + 1]; ++k) {
            const Global c = neumann.column[std::size_t(k)];
            a.push(c, T(real_t<T>(neumann.value[std::size_t(k)])) * phase<T>(r) * conj(phase<T>(c)));
          }
          a.end_row();
        }
        const auto A = a.on(comm);
        const Amg<T> M(*A);
        std::vector<T> null;
        for (Global i = 0; i < a.n; ++i) null.push_back(phase<T>(i));
        Vector<T> y(A->range()), ay(A->range()), may(A->range());
        M.apply(spread(A->range(), null), y);
        EXPECT_LE(layout::norm(y), tolerance<T>(1e5));
        M.apply(spread(A->range(), random_vector<T>(a.n, 3)), y);
        A->apply(y, ay);
        M.apply(ay, may);
        const double size = layout::norm(y);
        layout::axpy(T(-1), y, may);
        EXPECT_LE(layout::norm(may), tolerance<T>(1000) * size);
      },
      {2});
}

// The only level is the matrix; its least singular value is 1.5e-5 of the largest, well above the rounding of float.
TEST(AmgDegenerate, OneLevelOfAnIllConditionedMatrixIsItsInverse) {
  Whole<float> a;
  a.n = 400;
  for (Global i = 0; i < a.n; ++i) {
    if (i > 0) a.push(i - 1, -1);
    a.push(i, 2);
    if (i + 1 < a.n) a.push(i + 1, -1);
    a.end_row();
  }
  const auto A = a.on(comm::Communicator::self());
  const Amg<float> M(*A, AmgOptions<float>{});
  Vector<float> b(A->range()), x(A->range());
  b.assign(std::vector<float>(std::size_t(a.n), 1));
  M.apply(b, x);
  for (Global i = 0; i < a.n; ++i) {  // x_i = (i + 1) (n - i) / 2
    const double expected = double(i + 1) * double(a.n - i) / 2;
    EXPECT_NEAR(x.data()[i], expected, 1e-2 * expected) << i;
  }
}

/// The bound of D^-1 A is that of all ranks: 1.5 in the first rows and 2 in the last ones. Twenty sweeps on the only
/// level are written out.
TEST(Amg, TheBoundIsThatOfAllRanks) {
  on_ranks(
      [](const comm::Communicator& comm) {
        Whole<double> a;  // not Hermitian: no Lanczos process
        a.n = 2100;
        const auto diagonal = [&](Global i) { return i < a.n / 2 ? 4.0 : 2.0; };
        for (Global i = 0; i < a.n; ++i) {
          if (i > 0) a.push(i - 1, 1);
          a.push(i, diagonal(i));
          if (i + 1 < a.n) a.push(i + 1, -1);
          a.end_row();
        }
        const auto A = a.on(comm);
        AmgOptions<double> o;
        o.max_levels = 1, o.smoother = AmgSmoother::jacobi;
        const Amg<double> M(*A, o);
        const auto f = random_vector<double>(a.n, 3);
        Vector<double> y(A->range());
        M.apply(spread(A->range(), f), y);
        const auto found = whole(y);
        std::vector<double> x(f.size(), 0.0);
        for (int sweep = 0; sweep < 20; ++sweep) {
          auto r = f;
          a.each([&](Global row, Global c, double v) { r[std::size_t(row)] -= v * x[std::size_t(c)]; });
          for (std::size_t i = 0; i < x.size(); ++i) x[i] += 4.0 / 6 * r[i] / diagonal(Global(i));
        }
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(found[i], x[i], 1e-12);
      },
      {2, 3});
}

/// A last level that is too large to be inverted gets 20 sweeps; those of chebyshev multiply the residual in an
/// eigenvector by T_20((m - lambda) / h) / T_20(m / h), m and h the middle of [rho / 4, 1.1 rho] and half its length.
TEST(Amg, SweepsWhereTheLastLevelIsLarge) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global nx = 64, ny = 40;
        const auto a = laplacian(nx, ny, 1);
        const auto A = a.on(comm);
        AmgOptions<double> o;
        o.max_levels = 1, o.smoother = AmgSmoother::chebyshev;
        const Amg<double> M(*A, o);
        EXPECT_TRUE(M.is_doubtful());
        EXPECT_NE(M.note().find("2560 unknowns, which sweeps solve"), std::string::npos) << M.note();
        const double pi = std::acos(-1.0), rho = 2, m = (1.1 + 0.25) * rho / 2, h = (1.1 - 0.25) * rho / 2;
        const auto T20 = [](double x) {
          return std::abs(x) <= 1 ? std::cos(20 * std::acos(x)) : std::cosh(20 * std::acosh(std::abs(x)));
        };
        for (const auto& [p, q] : {std::pair(1, 1), std::pair(9, 7), std::pair(40, 30), std::pair(64, 40)}) {
          std::vector<double> v;
          for (Global y = 1; y <= ny; ++y)
            for (Global x = 1; x <= nx; ++x)
              v.push_back(std::sin(pi * p * double(x) / double(nx + 1)) *
                          std::sin(pi * q * double(y) / double(ny + 1)));
          const double lambda = 4 - 2 * std::cos(pi * p / double(nx + 1)) - 2 * std::cos(pi * q / double(ny + 1));
          const double factor = (1 - T20((m - lambda / 4) / h) / T20(m / h)) / lambda;
          Vector<double> y(A->range());
          M.apply(spread(A->range(), v), y);
          const auto found = whole(y);
          for (std::size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(found[i], factor * v[i], 1e-10 * (1 + factor));
        }
        for (const AmgSmoother smoother : all_smoothers) {  // Hermitian all the same
          o.smoother = smoother;
          const Amg<double> S(*A, o);
          const auto x = spread(A->range(), random_vector<double>(a.n, 1)),
                     y = spread(A->range(), random_vector<double>(a.n, 2));
          Vector<double> sx(A->range()), sy(A->range());
          S.apply(x, sx);
          S.apply(y, sy);
          EXPECT_NEAR(layout::dot(y, sx), layout::dot(sy, x), 1e-12 * layout::norm(sx) * layout::norm(y))
              << to_string(smoother);
        }
        o.smoother = AmgSmoother::jacobi;  // 20 steps of omega = 4 / (3 rho)
        const Amg<double> J(*A, o);
        std::vector<double> v;
        for (Global y = 1; y <= ny; ++y)
          for (Global x = 1; x <= nx; ++x)
            v.push_back(std::sin(pi * 3 * double(x) / double(nx + 1)) * std::sin(pi * double(y) / double(ny + 1)));
        const double lambda = 4 - 2 * std::cos(pi * 3 / double(nx + 1)) - 2 * std::cos(pi / double(ny + 1));
        Vector<double> y(A->range());
        J.apply(spread(A->range(), v), y);
        const auto found = whole(y);
        const double factor = (1 - std::pow(1 - 4 / (3 * rho) * lambda / 4, 20)) / lambda;
        for (std::size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(found[i], factor * v[i], 1e-10 * (1 + factor));
      },
      {2});
}

}  // namespace
}  // namespace tacit::test
