// Algebraic multigrid that takes new values: the bits of a new set-up, with the places of entries that it has.
#include "precond/amg/matrix_levels.hpp"

#include <tacit/krylov/solve.hpp>
#include <tacit/precond/amg.hpp>

#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace tacit::test {
namespace {

using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgCoarsening;
using precond::AmgOptions;
using precond::AmgSmoother;
using precond::Cycle;

template <class T>
class AmgUpdate : public testing::Test {};
TYPED_TEST_SUITE(AmgUpdate, test::Scalars);

template <class T>
std::vector<T> applied(const Amg<T>& M) {
  Vector<T> y(M.range());
  M.apply(spread(M.domain(), random_vector<T>(M.domain().size(), 4)), y);
  return whole(y);
}
template <class T>
void update(op::Csr<T>& A, const Whole<T>& a) {
  A.update_values(a.rows(A.range().begin(), A.range().end()).value);
}
/// What a new Amg for these values does.
template <class T>
std::vector<T> applied_anew(const Whole<T>& a, const Space& space, const AmgOptions<T>& o) {
  const auto A = a.on(space);
  return applied(Amg<T>(*A, o));
}

/// To the bit; complex products have the rounding of the loop that the compiler makes of them.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  if constexpr (!is_complex<T>) return a == b;
  real_t<T> most = 0, error = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    most = std::max(most, std::abs(b[i])), error = std::max(error, std::abs(a[i] - b[i]));
  return a.size() == b.size() && error <= 100 * std::numeric_limits<real_t<T>>::epsilon() * most;
}

/// D A D with powers of two d_i: couplings are as strong as before, to the bit, and P is another one.
template <class T>
Whole<T> scaled(const Whole<T>& a) {
  const auto d = [](Global i) { return real_t<T>(i % 5 == 2 ? 2 : i % 3 == 1 ? 0.5 : 1); };
  return a.map([&](Global i, Global j, T v) { return d(i) * v * d(j); });
}

TYPED_TEST(AmgUpdate, IsThatOfANewOne) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 37 * 29);
        for (const double convection : {0.0, 0.5}) {
          const auto a = grid<T>(37, 29, convection);
          const auto b = scaled(a);
          for (const AmgSmoother smoother : {AmgSmoother::spai0, AmgSmoother::gauss_seidel, AmgSmoother::chebyshev}) {
            AmgOptions<T> o;
            o.smoother = smoother, o.max_levels = 2;  // couplings of the second level differ
            o.single_levels = smoother == AmgSmoother::chebyshev;
            const auto A = a.on(space);
            Amg<T> M(*A, o);
            const auto before = applied(M);
            update(*A, b);
            EXPECT_TRUE(M.update());
            const auto anew = applied_anew(b, space, o);
            EXPECT_TRUE(same(applied(M), anew)) << to_string(smoother);
            EXPECT_NE(applied(M), before);
            update(*A, a);  // the first update found places, the others sum
            EXPECT_TRUE(M.update());
            EXPECT_TRUE(same(applied(M), before)) << to_string(smoother);
            update(*A, b);
            EXPECT_TRUE(M.update());
            EXPECT_TRUE(same(applied(M), anew)) << to_string(smoother);
          }
          AmgOptions<T> o;  // all levels, for 8 A
          o.coarsest = 8;
          const auto A = a.on(space);
          Amg<T> M(*A, o);
          EXPECT_GE(M.levels().size(), 4u);
          const auto c = a.map([](Global, Global, T v) { return real_t<T>(8) * v; });
          update(*A, c);
          EXPECT_TRUE(M.update());
          EXPECT_TRUE(same(applied(M), applied_anew(c, space, o)));
          EXPECT_TRUE(M.update());
          EXPECT_TRUE(same(applied(M), applied_anew(c, space, o)));
        }
      },
      {3});
}

// Aggregates of several near-null vectors, nodes of two unknowns, and levels that move to fewer ranks.
TYPED_TEST(AmgUpdate, OfSystemsAndLevelsThatMove) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global nx = 24, ny = 18;
        const auto counts = Space::distributed(comm, nx * ny);
        const auto space =
            Space::distributed(comm, layout::Partition::of_counts(comm.all_gather(Global(2) * counts.local_size())));
        for (const double convection : {0.0, 0.5}) {
          const auto one = grid<T>(nx, ny, convection);
          Whole<T> a;  // two unknowns at each point, which are coupled there
          a.n = 2 * one.n;
          const auto rows = one.rows(0, one.n);
          for (Global i = 0; i < a.n; ++i) {
            const Global point = i / 2;
            for (auto k = rows.start[std::size_t(point)]; k < rows.start[std::size_t(point) + 1]; ++k) {
              const Global c = rows.column[std::size_t(k)];
              const T v = rows.value[std::size_t(k)];
              if (c == point && i % 2 == 1) a.push(2 * c, T(real_t<T>(0.25)));
              a.push(2 * c + i % 2, v);
              if (c == point && i % 2 == 0) a.push(2 * c + 1, T(real_t<T>(0.25)));
            }
            a.end_row();
          }
          const auto b = a.map([](Global, Global, T v) { return real_t<T>(4) * v; });
          AmgOptions<T> o;
          o.block = 2, o.coarsest = 10, o.agglomerate_below = 60;
          for (Global i = space.begin(); i < space.end(); ++i)  // three vectors
            for (const double v : {double(i % 2 == 0), double(i % 2 == 1), double(i / 2 % nx) / double(nx)})
              o.near_null.push_back(T(real_t<T>(v)));
          const auto A = a.on(space);
          Amg<T> M(*A, o);
          EXPECT_GE(M.levels().size(), 2u);
          const auto before = applied(M);
          for (int times = 0; times < 2; ++times) {
            update(*A, b);
            EXPECT_TRUE(M.update());
            EXPECT_TRUE(same(applied(M), applied_anew(b, space, o)));
            update(*A, a);
            EXPECT_TRUE(M.update());
            EXPECT_TRUE(same(applied(M), before));
          }
          if (convection == 0) expect_galerkin(M);
        }
      },
      {1, 3});
}

// Zeros have no couplings: levels made of them are not those of a matrix with other numbers there.
TEST(AmgUpdateOf, LevelsMadeOfZerosAreMadeAnew) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 40 * 31);
        const auto a = grid<double>(40, 31);
        const auto none = a.map([](Global, Global, double) { return 0.0; });
        const auto diagonal = a.map([](Global i, Global j, double v) { return i == j ? v : 0; });
        const auto along_x = a.map([](Global i, Global j, double v) { return std::abs(i - j) < 40 ? v : 0; });
        AmgOptions<double> o;
        o.coarsest = 30;
        for (const auto* from : {&none, &diagonal, &along_x}) {
          const auto A = from->on(space);
          Amg<double> M(*A, o);
          update(*A, a);
          EXPECT_FALSE(M.update());
          EXPECT_TRUE(same(applied(M), applied_anew(a, space, o)));
          update(*A, a.map([](Global, Global, double v) { return 2 * v; }));
          EXPECT_TRUE(M.update());
        }
      },
      {1, 3});
}

/// Couplings along y are strong in a and weak in b, where rows also differ in size.
template <class T>
Whole<T> anisotropic(const Whole<T>& a, Global nx) {
  return a.map([&](Global i, Global j, T v) {
    const auto size = real_t<T>(1 + double((i + j) % 11) / 16);
    return i == j ? T(real_t<T>(3)) : std::abs(i - j) == nx ? real_t<T>(0.001) * v : size * v / real_t<T>(2);
  });
}

// Weak couplings that were strong stay in P; and back: those that were weak stay out of it.
TYPED_TEST(AmgUpdate, KeepsThePlacesOfEntries) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global nx = 40, ny = 31;
        const auto space = Space::distributed(comm, nx * ny);
        const auto a = grid<T>(nx, ny), b = anisotropic(a, nx);
        AmgOptions<T> o;
        o.coarsest = 20;
        for (const bool forth : {true, false}) {
          const auto &from = forth ? a : b, &to = forth ? b : a;
          const auto A = from.on(space);
          Amg<T> M(*A, o);
          const auto levels = M.levels();
          const auto before = applied(M);
          std::vector<op::Rows<T>> P;
          for (int k = 0; k + 1 < int(levels.size()); ++k) P.push_back(M.prolongation(k).rows());
          update(*A, to);
          EXPECT_TRUE(M.update());
          expect_galerkin(M);
          ASSERT_EQ(M.levels().size(), levels.size());
          for (std::size_t k = 0; k < P.size(); ++k) {
            const auto now = M.prolongation(int(k)).rows();
            EXPECT_EQ(now.start, P[k].start);
            EXPECT_EQ(now.column, P[k].column);
            EXPECT_TRUE(comm.all_max(Global(now.value != P[k].value)) == 1);
          }
          if constexpr (std::same_as<real_t<T>, double>) {
            Vector<T> x(space);
            krylov::Options k;
            k.method = krylov::Method::cg, k.rtol = 1e-8;
            const auto report = krylov::solve<T, Host>(*A, &M, spread(space, random_vector<T>(a.n, 3)), x, k, true);
            EXPECT_TRUE(report.converged()) << report.detail;
            EXPECT_LE(report.iterations, 60);
          }
          update(*A, from);
          EXPECT_TRUE(M.update());
          EXPECT_TRUE(same(applied(M), before));  // nothing of the values in between is left
        }
      },
      {1, 3});
}

TYPED_TEST(AmgUpdate, OfRowsWithAndWithoutADiagonal) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 400);
        const auto a = grid<T>(20, 20);
        const auto b = a.map([](Global i, Global j, T v) { return i == j && i % 7 == 3 ? T(0) : v; });
        for (const bool forth : {true, false}) {
          const auto A = (forth ? a : b).on(space);
          AmgOptions<T> o;
          o.coarsest = 30;
          Amg<T> M(*A, o);
          const auto before = applied(M);
          update(*A, forth ? b : a);
          EXPECT_TRUE(M.update());
          expect_galerkin(M);
          for (const T v : applied(M)) EXPECT_TRUE(is_finite(v));
          update(*A, forth ? a : b);
          EXPECT_TRUE(M.update());
          EXPECT_TRUE(same(applied(M), before));
        }
      },
      {1, 2});
}

TEST(AmgUpdateOf, WhatCannotKeepItsLevelsIsMadeAnew) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 37 * 29);
        const auto a = grid<double>(37, 29), c = grid<double>(37, 29, 0.5);
        for (const bool classical : {false, true}) {
          AmgOptions<double> o;
          if (classical) o.coarsening = AmgCoarsening::pmis;
          else
            for (Global i = space.begin(); i < space.end(); ++i) o.near_null.push_back(1 + double(i % 4));
          o.coarsest = 30;
          const auto A = a.on(space);
          Amg<double> M(*A, o);
          EXPECT_TRUE(M.has_adjoint());
          update(*A, c);  // not Hermitian any more
          EXPECT_FALSE(M.update());
          EXPECT_FALSE(M.has_adjoint());
          EXPECT_TRUE(same(applied(M), applied_anew(c, space, o)));
          update(*A, a);
          EXPECT_FALSE(M.update());
          EXPECT_TRUE(M.has_adjoint());
          EXPECT_TRUE(same(applied(M), applied_anew(a, space, o)));
        }
      },
      {1, 3});
}

/// The numbers of plans are 32-bit; here the limit is lowered.
TEST(AmgUpdateOf, MatricesTooLargeForPlansMakeWholeProducts) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 37 * 29);
        for (const double convection : {0.0, 0.5}) {
          const auto a = grid<double>(37, 29, convection), b = a.map([](Global, Global, double v) { return 8 * v; });
          AmgOptions<double> o;
          o.coarsest = 8;
          const auto A = a.on(space), B = b.on(space);
          const precond::MatrixLevels<double> anew(*B, o);
          const Global entries = comm.all_max(anew.level(0).P->own_entries());
          for (const Global most : {entries - 1, 20 * entries}) {
            const bool planned = most > entries;
            update(*A, a);
            precond::MatrixLevels<double> levels(*A, o);
            for (int time = 0; time < 3; ++time) {
              update(*A, time == 1 ? a : b);
              EXPECT_TRUE(levels.update(most));
              EXPECT_EQ(levels.plan_bytes() > 0, planned) << most;
            }
            ASSERT_EQ(levels.count(), anew.count());
            for (std::size_t i = 1; i < levels.count(); ++i) {
              EXPECT_EQ(levels.level(i).A().rows().value, anew.level(i).A().rows().value) << "level " << i;
              EXPECT_EQ(levels.level(i - 1).P->rows().value, anew.level(i - 1).P->rows().value) << "level " << i;
            }
          }
        }
      },
      {1, 2, 3});
}

TEST(AmgUpdateOf, RefusesValuesThatAreNotFinite) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<double>(30, 30);
        const auto A = a.on(comm);
        Amg<double> M(*A);
        const auto before = applied(M);
        update(*A, a.map([](Global i, Global j, double v) {
          return i == 899 && j == 899 ? std::numeric_limits<double>::quiet_NaN() : v;
        }));
        try {
          M.update();
          ADD_FAILURE() << "not refused";
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::input);
          EXPECT_NE(std::string(e.what()).find("row 899"), std::string::npos) << e.what();
        }
        update(*A, a);
        EXPECT_TRUE(M.update());
        EXPECT_TRUE(same(applied(M), before));
      },
      {1, 3});
}

TYPED_TEST(AmgUpdate, HasTheSameBitsForAnyThreads) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = grid<T>(150, 150), b = scaled(a);
  const auto once = [&](int threads) {
    const Threads several(threads);
    const auto A = a.on(comm::Communicator::self());
    Amg<T> M(*A);
    update(*A, b);
    M.update();
    M.update();
    return applied(M);
  };
  const auto alone = once(1);
  EXPECT_EQ(once(2), alone);
  EXPECT_EQ(once(3), alone);
}

}  // namespace
}  // namespace tacit::test
