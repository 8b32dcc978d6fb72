// Algebraic multigrid: levels are Galerkin products, near-null vectors are interpolated, cycles are symmetric, the
// number of iterations does not grow, and degenerate matrices have a clear outcome.
#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>

#include "support/communicators.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using comm::Communicator;
using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::AmgSmoother;
using precond::Cycle;

constexpr AmgSmoother smoothers[] = {AmgSmoother::spai0, AmgSmoother::jacobi, AmgSmoother::l1_jacobi,
                                     AmgSmoother::gauss_seidel, AmgSmoother::chebyshev};

template <class T>
class AmgOf : public testing::Test {};
using Scalars = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(AmgOf, Scalars);

template <class T>
double epsilon() {
  return double(std::numeric_limits<real_t<T>>::epsilon());
}

/// Options for grid<T>(), which is the Laplacian times phases from both sides: its near-null vector is that of phases.
template <class T>
AmgOptions<T> options_for(const Space& space, Global coarsest = 20) {
  AmgOptions<T> o;
  o.coarsest = coarsest;
  for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(phase<T>(i));
  return o;
}

template <class T>
T inner(const std::vector<T>& a, const std::vector<T>& b) {
  wide_t<T> sum{};
  for (std::size_t i = 0; i < a.size(); ++i) sum += wide_conj(widen(a[i])) * widen(b[i]);
  return T(sum);
}

template <class T>
krylov::Report solve(const op::Csr<T>& A, const Amg<T>& M, const std::vector<T>& b, krylov::Method method) {
  Vector<T> x(A.range());
  krylov::Options o;
  o.method = method;
  o.rtol = std::same_as<real_t<T>, float> ? 1e-4 : 1e-8;
  o.max_iterations = 200;
  return krylov::solve<T, Host>(A, &M, spread(A.range(), b), x, o);
}

TYPED_TEST(AmgOf, LevelsAreGalerkinProducts) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    for (const double convection : {0.0, 0.3}) {
      const auto a = grid<T>(12, 11, convection);
      const auto A = a.on(comm);
      const Amg<T> M(*A, options_for<T>(A->range()));
      const auto levels = M.levels();
      ASSERT_GE(levels.size(), 2u);
      EXPECT_EQ(levels[0].rows, a.n);
      for (int k = 0; k + 1 < int(levels.size()); ++k) {
        EXPECT_LT(levels[std::size_t(k) + 1].rows, levels[std::size_t(k)].rows);
        if (convection != 0) continue;  // R is not P^H
        const auto& P = M.prolongation(k);
        const auto &fine = M.matrix(k), &coarse = M.matrix(k + 1);
        Vector<T> x(coarse.domain()), Px(P.range()), APx(P.range()), RAPx(coarse.range()), y(coarse.range());
        const auto wanted = random_vector<T>(coarse.domain().size(), 3);
        layout::copy(spread(coarse.domain(), wanted), x);
        P.apply(x, Px);
        fine.apply(Px, APx);
        P.apply_adjoint(APx, RAPx);
        coarse.apply(x, y);
        EXPECT_LE(double(relative_difference(whole(y), whole(RAPx))), 100 * epsilon<T>()) << "level " << k;
      }
    }
  });
}

/// T c = v for some c, so P c = v - omega D^-1 A v: v is interpolated exactly wherever A v = 0.
TYPED_TEST(AmgOf, NearNullVectorsAreInterpolated) {
  using T = TypeParam;
  on_ranks([](const Communicator& comm) {
    const auto a = grid<T>(12, 12);
    const auto A = a.on(comm);
    const Amg<T> M(*A, options_for<T>(A->range()));
    std::vector<T> v(std::size_t(a.n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = phase<T>(Global(i));
    const auto& P = M.prolongation(0);
    Dense<T> columns;  // of P, and D^-1 A v
    for (Global p = 0; p < P.domain().size(); ++p) {
      std::vector<T> unit(std::size_t(P.domain().size()), T(0));
      unit[std::size_t(p)] = T(1);
      Vector<T> column(P.range());
      P.apply(spread(P.domain(), unit), column);
      columns.push_back(whole(column));
    }
    const auto Av = a.times(v);
    columns.emplace_back();
    for (const auto& value : Av) columns.back().push_back(T(value / wide_t<T>(4)));
    const std::size_t count = columns.size();
    Dense<T> normal(count, std::vector<T>(count));
    std::vector<T> right(count);
    for (std::size_t p = 0; p < count; ++p) {
      for (std::size_t q = 0; q < count; ++q) normal[p][q] = inner(columns[p], columns[q]);
      right[p] = inner(columns[p], v);
    }
    const auto c = dense_solve(normal, right);
    double worst = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      wide_t<T> sum{};
      for (std::size_t p = 0; p < count; ++p) sum += widen(columns[p][i]) * c[p];
      worst = std::max(worst, double(std::abs(sum - widen(v[i]))));
    }
    EXPECT_LE(worst, 1e3 * epsilon<T>());
    // omega = 4/3 / rho, and rho is nearly 2.
    EXPECT_NEAR(double(std::real(c.back())), 2.0 / 3, 0.1);
  });
}

TYPED_TEST(AmgOf, CyclesAreHermitianPositiveDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const Communicator& comm) {
        const auto a = grid<T>(13, 12);
        const auto A = a.on(comm);
        for (const AmgSmoother smoother : smoothers)
          for (const Cycle cycle : {Cycle::v, Cycle::w}) {
            const int sweeps = cycle == Cycle::v ? 1 : 2;
            auto o = options_for<T>(A->range(), 4);
            o.smoother = smoother, o.cycle = cycle, o.sweeps = sweeps;
            const Amg<T> M(*A, o);
            ASSERT_TRUE(M.has_adjoint());
            const auto x = random_vector<T>(a.n, 1), y = random_vector<T>(a.n, 2);
            Vector<T> Mx(A->range()), My(A->range()), again(A->range());
            M.apply(spread(A->range(), x), Mx);
            M.apply(spread(A->range(), y), My);
            M.apply_adjoint(spread(A->range(), x), again);
            const T xMx = inner(x, whole(Mx)), xMy = inner(x, whole(My)), Mxy = inner(whole(Mx), y);
            EXPECT_GT(real(xMx), 0) << to_string(smoother);
            EXPECT_LE(double(std::abs(xMy - Mxy)), 1e3 * epsilon<T>() * double(norm2(x) * norm2(y)))
                << to_string(smoother) << ", " << to_string(cycle) << ", " << sweeps << " sweeps";
            EXPECT_EQ(whole(Mx), whole(again));
          }
      },
      {3});
}

TYPED_TEST(AmgOf, IterationsDoNotGrow) {
  using T = TypeParam;
  for (const AmgSmoother smoother : smoothers)
    for (const Cycle cycle : {Cycle::v, Cycle::w, Cycle::f}) {
      std::vector<int> found;
      for (const Global m : {24, 48, 96}) {
        const auto a = grid<T>(m, m);
        const auto A = a.on(Communicator::self());
        auto o = options_for<T>(A->range(), 50);
        o.smoother = smoother, o.cycle = cycle, o.sweeps = smoother == AmgSmoother::chebyshev ? 2 : 1;
        const Amg<T> M(*A, o);
        EXPECT_LT(M.operator_complexity(), 1.6);
        const auto report = solve(*A, M, random_vector<T>(a.n, 5), krylov::Method::cg);
        EXPECT_TRUE(report.converged()) << to_string(smoother) << ", " << to_string(cycle);
        found.push_back(report.iterations);
      }
      EXPECT_LE(found.back(), 25) << to_string(smoother);
      EXPECT_LE(found.back(), found.front() + 8) << to_string(smoother) << ", " << to_string(cycle);
    }
}

TYPED_TEST(AmgOf, RanksTakeNearlyAsManyIterations) {
  using T = TypeParam;
  const auto a = grid<T>(40, 40);
  const auto b = random_vector<T>(a.n, 5);
  const auto iterations = [&](const Communicator& comm) {
    const auto A = a.on(comm);
    const auto report = solve(*A, Amg<T>(*A, options_for<T>(A->range(), 50)), b, krylov::Method::cg);
    EXPECT_TRUE(report.converged());
    return report.iterations;
  };
  const int alone = iterations(Communicator::self());
  on_ranks([&](const Communicator& comm) { EXPECT_LE(iterations(comm), 1.3 * alone + 1); }, {2, 3, 5});
}

TYPED_TEST(AmgOf, ThreadsGiveTheSameBits) {
  using T = TypeParam;
  const auto a = grid<T>(150, 80);
  const auto A = a.on(Communicator::self());
  const auto x = spread(A->range(), random_vector<T>(a.n, 1));
  const auto image = [&](int threads, AmgSmoother smoother) {
    const Threads use(threads);
    auto o = options_for<T>(A->range());
    o.smoother = smoother;
    Vector<T> y(A->range());
    Amg<T>(*A, o).apply(x, y);
    return whole(y);
  };
  for (const AmgSmoother smoother : {AmgSmoother::spai0, AmgSmoother::chebyshev})
    EXPECT_EQ(image(1, smoother), image(3, smoother));
}

TYPED_TEST(AmgOf, ColumnsEqualSingleVectors) {
  using T = TypeParam;
  on_ranks(
      [](const Communicator& comm) {
        const auto a = grid<T>(12, 13);
        const auto A = a.on(comm);
        for (const AmgSmoother smoother : smoothers) {
          auto o = options_for<T>(A->range());
          o.smoother = smoother;
          const Amg<T> M(*A, o);
          Vector<T> X(A->domain(), 3), Y(A->range(), 3), x(A->domain()), y(A->range());
          for (std::size_t i = 0; i < X.size(); ++i)
            X.data()[i] = noise_of<T>(4, std::uint64_t(A->domain().begin() * 3) + i);
          M.apply(X, Y);
          for (std::size_t c = 0; c < 3; ++c) {
            for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = X.data()[3 * i + c];
            M.apply(x, y);
            for (std::size_t i = 0; i < y.size(); ++i)
              EXPECT_LE(double(std::abs(y.data()[i] - Y.data()[3 * i + c])), 100 * epsilon<T>());
          }
        }
      },
      {3});
}

/// Two unknowns at a node that are coupled to those of other nodes, and weakly to each other.
TEST(Amg, NodesStayTogether) {
  const auto a = grid<double>(20, 20);
  Whole<double> two;
  two.n = 2 * a.n;
  for (Global i = 0; i < two.n; ++i) {
    for (Global k = a.start[i / 2]; k < a.start[i / 2 + 1]; ++k) {
      if (a.column[k] == i / 2) {
        two.push(2 * a.column[k], i % 2 == 0 ? 1.3 * a.value[k] : 0.02);
        two.push(2 * a.column[k] + 1, i % 2 == 1 ? a.value[k] : 0.02);
      } else {
        two.push(2 * a.column[k] + i % 2, i % 2 == 0 ? 1.3 * a.value[k] : a.value[k]);
      }
    }
    two.end_row();
  }
  const auto A = two.on(Communicator::self());
  AmgOptions<double> o;
  o.block = 2, o.coarsest = 30;
  const Amg<double> M(*A, o);
  EXPECT_EQ(M.matrix(1).range().size() % 2, 0);
  const auto& P = M.prolongation(0);
  const auto rows = P.rows();
  // Each unknown is interpolated mostly from unknowns of its own kind.
  double own = 0, other = 0;
  for (Local i = 0; i < rows.count(); ++i)
    for (Global k = rows.start[std::size_t(i)]; k < rows.start[std::size_t(i) + 1]; ++k)
      (rows.column[std::size_t(k)] % 2 == i % 2 ? own : other) += std::abs(rows.value[std::size_t(k)]);
  EXPECT_LT(other, 0.1 * own);
  const auto report = solve(*A, M, random_vector<double>(two.n, 5), krylov::Method::cg);
  EXPECT_TRUE(report.converged());
  EXPECT_LE(report.iterations, 25);
}

TEST(Amg, ConvectionIsSolvedByGmres) {
  const auto a = grid<double>(60, 60, 0.2);
  on_ranks(
      [&](const Communicator& comm) {
        const auto A = a.on(comm);
        const Amg<double> M(*A);
        EXPECT_FALSE(M.has_adjoint());
        const auto report = solve(*A, M, random_vector<double>(a.n, 5), krylov::Method::gmres);
        EXPECT_TRUE(report.converged());
        EXPECT_LE(report.iterations, 30);
      },
      {3});
}

TEST(Amg, DegenerateMatricesHaveClearOutcomes) {
  on_ranks(
      [](const Communicator& comm) {
        // A single unknown; a diagonal, of which no unknown is coupled; parts without couplings to each other.
        const Whole<double> systems[] = {diagonal<double>({3.0}), diagonal<double>(std::vector<double>(3000, 2.0)),
                                         tridiagonal<double>(40, 0, 2, 0), tridiagonal<double>(700, -1, 2, -1)};
        for (const auto& a : systems) {
          const auto A = a.on(comm);
          const Amg<double> M(*A);
          const auto report = solve(*A, M, random_vector<double>(a.n, 5), krylov::Method::cg);
          EXPECT_TRUE(report.converged()) << a.n;
        }
        // The Laplacian of a closed line: constants are in its null space, on the coarsest level too.
        auto ring = tridiagonal<double>(900, -1, 2, -1);
        ring.value.front() = 1, ring.value.back() = 1;
        const auto A = ring.on(comm);
        auto b = random_vector<double>(ring.n, 5);
        double mean = 0;
        for (const double v : b) mean += v / double(b.size());
        for (double& v : b) v -= mean;
        EXPECT_TRUE(solve(*A, Amg<double>(*A), b, krylov::Method::cg).converged());
        // Negative definite.
        const auto minus = grid<double>(30, 30).map([](Global, Global, double v) { return -v; });
        const auto B = minus.on(comm);
        EXPECT_TRUE(solve(*B, Amg<double>(*B), random_vector<double>(minus.n, 5), krylov::Method::cg).converged());
      },
      {3});
}

TEST(Amg, WrongUseIsRefused) {
  const auto a = grid<double>(8, 9);
  const auto A = a.on(Communicator::self());
  const auto refused = [&](auto&& change) {
    AmgOptions<double> o;
    change(o);
    try {
      const Amg<double> M(*A, o);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refused([](auto& o) { o.sweeps = 0; }).find("sweeps is 0"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.strength = 1.5; }).find("strength is 1.5"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.coarsest = 5000; }).find("coarsest is 5000"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.cycle = Cycle::u; }).find("V, W and F"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.block = 5; }).find("block is 5"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.near_null.resize(7); }).find("near_null has 7"), std::string::npos);
}

}  // namespace
}  // namespace tacit::test
