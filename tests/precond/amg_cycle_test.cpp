// A cycle of algebraic multigrid as a linear map: Hermitian, definite, the same for all threads, columns and scales.
#include <tacit/comm/communicator.hpp>
#include <tacit/precond/amg.hpp>

#include "amg_problems.hpp"
#include "support/communicators.hpp"
#include "support/precond.hpp"
#include "support/reference.hpp"
#include "support/scalars.hpp"
#include "support/systems.hpp"
#include "support/threads.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tacit::test {
namespace {

using layout::Space;
using layout::Vector;
using precond::Amg;
using precond::AmgOptions;
using precond::AmgSmoother;
using precond::Cycle;

template <class T>
class AmgCycleOf : public testing::Test {};
TYPED_TEST_SUITE(AmgCycleOf, Scalars);

// Wavefronts read a matrix as often as with one sweep, and gauss-seidel sweeps pass over it once more each.
TEST(AmgCycle, CostsWhatItReads) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  const auto a = grid<double>(40, 40);
  const auto A = a.on(Space::distributed(comm::Communicator::self(), a.n));
  const auto cost = [&](AmgSmoother smoother, int sweeps) {
    AmgOptions<double> o;
    o.smoother = smoother, o.sweeps = sweeps;
    const Amg<double> M(*A, o);
    EXPECT_EQ(M.levels().size(), 2u);
    return M.cost();
  };
  const op::Cost one = cost(AmgSmoother::spai0, 1), three = cost(AmgSmoother::spai0, 3), product = A->cost();
  EXPECT_DOUBLE_EQ(three.bytes, one.bytes);
  EXPECT_DOUBLE_EQ(three.flops - one.flops, 4 * product.flops);
  const op::Cost single = cost(AmgSmoother::gauss_seidel, 1), twice = cost(AmgSmoother::gauss_seidel, 2);
  EXPECT_DOUBLE_EQ(single.bytes - one.bytes, 2 * product.bytes);
  EXPECT_DOUBLE_EQ(twice.bytes - single.bytes, 4 * product.bytes);
  EXPECT_DOUBLE_EQ(twice.flops - single.flops, 3 * product.flops);
}

TYPED_TEST(AmgCycleOf, CyclesAreHermitianAndPositiveDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(17, 13);
        for (const auto& space : {uneven(comm, a.n), gaps(comm, a.n)}) {
          const auto A = a.on(space);
          for (const AmgSmoother smoother : all_smoothers)
            for (const Cycle cycle : {Cycle::v, Cycle::w}) {
              const int sweeps = cycle == Cycle::v ? 1 : 2;
              AmgOptions<T> o;
              o.smoother = smoother, o.cycle = cycle, o.sweeps = sweeps, o.coarsest = 4;
              const Amg<T> M(*A, o);
              ASSERT_GE(M.levels().size(), 3u);
              ASSERT_TRUE(M.has_adjoint());
              for (int seed = 0; seed < 2; ++seed) {
                const auto x = spread(space, random_vector<T>(a.n, 50 + seed));
                const auto y = spread(space, random_vector<T>(a.n, 60 + seed));
                Vector<T> mx(space), my(space);
                M.apply(x, mx);
                M.apply(y, my);
                EXPECT_LE(std::abs(layout::dot(y, mx) - layout::dot(my, x)),
                          tolerance<T>(100) * layout::norm(mx) * layout::norm(y))
                    << to_string(smoother) << ' ' << to_string(cycle);
                EXPECT_GT(real(layout::dot(x, mx)), 0) << to_string(smoother) << ' ' << to_string(cycle);
              }
            }
        }
      },
      {1, 3});
}

/// With A and smoothers that are positive definite a further visit of each level takes away of the error: M_V < M_W <=
/// A^-1 as quadratic forms.
TEST(Amg, FurtherVisitsOfLevelsReduceTheError) {
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = laplacian(36, 30, 1);
        const auto A = a.on(comm);
        const auto x = spread(A->range(), random_vector<double>(a.n, 3));
        double before = 0;
        for (const Cycle cycle : {Cycle::v, Cycle::w}) {
          AmgOptions<double> o;
          o.cycle = cycle, o.coarsest = 3, o.strength = 0;
          const Amg<double> M(*A, o);
          ASSERT_GE(M.levels().size(), 4u);
          Vector<double> y(A->range());
          M.apply(x, y);
          const double form = double(real(layout::dot(x, y)));
          EXPECT_GT(form, before * (1 + 1e-10)) << to_string(cycle);
          before = form;
        }
      },
      {2});
}

/// I + 0.05 (1 1^T - I): rows with many small entries, on which the plain spai0, and Gauss-Seidel on several ranks, do
/// not converge.
TYPED_TEST(AmgCycleOf, CyclesOfDenseMatricesArePositiveDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        Whole<T> a;
        a.n = 240;
        for (Global i = 0; i < a.n; ++i) {
          for (Global j = 0; j < a.n; ++j) a.push(j, T(real_t<T>(i == j ? 1 : 0.05)) * phase<T>(i) * conj(phase<T>(j)));
          a.end_row();
        }
        const auto A = a.on(comm);
        for (const AmgSmoother smoother : all_smoothers) {
          AmgOptions<T> o;
          o.smoother = smoother, o.coarsest = 5;
          // Orthogonal to the vector of the largest eigenvalue, which the smoother is then left alone with.
          for (Global i = A->range().begin(); i < A->range().end(); ++i)
            o.near_null.push_back(phase<T>(i) * real_t<T>(i % 2 ? 1 : -1));
          const Amg<T> M(*A, o);
          ASSERT_GE(M.levels().size(), 2u);
          Vector<T> x(A->range()), y(A->range());
          for (Global i = A->range().begin(); i < A->range().end(); ++i) x.data()[i - A->range().begin()] = phase<T>(i);
          M.apply(x, y);
          EXPECT_GT(real(layout::dot(x, y)), 0) << to_string(smoother) << ", " << comm.size() << " ranks";
        }
      },
      {2, 5});
}

TYPED_TEST(AmgCycleOf, OfANegativeDefiniteMatrixIsNegativeDefinite) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(17, 13).map([](Global, Global, T v) { return -v; });
        const auto space = uneven(comm, a.n);
        const auto A = a.on(space);
        for (const AmgSmoother smoother : all_smoothers) {
          AmgOptions<T> o;
          o.smoother = smoother, o.coarsest = 10;
          const Amg<T> M(*A, o);
          for (int seed = 0; seed < 3; ++seed) {
            const auto x = spread(space, random_vector<T>(a.n, 50 + seed));
            Vector<T> mx(space);
            M.apply(x, mx);
            EXPECT_LT(real(layout::dot(x, mx)), 0) << to_string(smoother);
          }
          if constexpr (std::same_as<real_t<T>, double>) {
            EXPECT_LE(solve<T>(a, space, o, krylov::Method::gmres).iterations, 30) << to_string(smoother);
          }
        }
      },
      {2});
}

TYPED_TEST(AmgCycleOf, ThreadsChangeNoBit) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = grid<T>(210, 190);
  const auto space = Space::distributed(comm::Communicator::self(), a.n);
  for (const AmgSmoother smoother : all_smoothers) {
    std::vector<T> first;
    for (const int threads : {1, 3, 7}) {
      const Threads use(threads);
      const auto A = a.on(space);
      AmgOptions<T> o;
      o.smoother = smoother;
      const Amg<T> M(*A, o);
      Vector<T> y(space);
      M.apply(spread(space, random_vector<T>(a.n, 4)), y);
      if (threads == 1) first = whole(y);
      else EXPECT_EQ(whole(y), first) << to_string(smoother) << ", threads " << threads;
    }
  }
}

/// One column is done by wavefronts, several are not.
TYPED_TEST(AmgCycleOf, WavefrontsChangeNoBit) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto a = grid<T>(210, 190);
  const auto space = Space::distributed(comm::Communicator::self(), a.n);
  const auto A = a.on(space);
  const Threads use(3);
  for (const AmgSmoother smoother : all_smoothers)
    for (const Cycle cycle : {Cycle::v, Cycle::w, Cycle::f})
      for (const int sweeps : {1, 2, 3}) {
        AmgOptions<T> o;
        o.smoother = smoother, o.cycle = cycle, o.sweeps = sweeps;
        const Amg<T> M(*A, o);
        Vector<T> x(space), y(space), two(space, 2), by_sweeps(space, 2);
        for (std::size_t i = 0; i < x.size(); ++i) {
          x.data()[i] = noise_of<T>(9, std::uint64_t(i));
          two.data()[2 * i] = two.data()[2 * i + 1] = x.data()[i];
        }
        M.apply(x, y);
        M.apply(two, by_sweeps);
        // Compilers fuse products and sums of complex numbers in some loops.
        const double allowed = is_complex<T> ? tolerance<T>(10) : 0;
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_LE(std::abs(y.data()[i] - by_sweeps.data()[2 * i + 1]), allowed * (std::abs(y.data()[i]) + 1))
              << to_string(smoother) << ' ' << to_string(cycle) << ", sweeps " << sweeps << ", row " << i;
      }
}

TYPED_TEST(AmgCycleOf, ColumnsAreAsEachAlone) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto a = grid<T>(17, 13);
        const auto space = uneven(comm, a.n);
        const auto A = a.on(space);
        for (const AmgSmoother smoother : all_smoothers) {
          AmgOptions<T> o;
          o.smoother = smoother, o.coarsest = 10, o.sweeps = 2;
          const Amg<T> M(*A, o);
          Vector<T> x(space, 3), y(space, 3);
          for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = noise_of<T>(9, std::uint64_t(3 * space.begin()) + i);
          M.apply(x, y);
          for (std::size_t c = 0; c < 3; ++c) {
            Vector<T> xc(space), yc(space);
            for (std::size_t i = 0; i < xc.size(); ++i) xc.data()[i] = x.data()[3 * i + c];
            M.apply(xc, yc);
            for (std::size_t i = 0; i < xc.size(); ++i)
              EXPECT_LE(std::abs(yc.data()[i] - y.data()[3 * i + c]), tolerance<T>(50) * (std::abs(yc.data()[i]) + 1))
                  << to_string(smoother);
          }
        }
      },
      {2});
}

/// Squares of the entries, and of those of the near-null vectors, leave the range of the scalar.
TYPED_TEST(AmgCycleOf, ScalesDoNotMatter) {
  if (under_mpi()) GTEST_SKIP() << "the same as alone";
  using T = TypeParam;
  const auto space = Space::distributed(comm::Communicator::self(), 2 * 30 * 30);
  const int most = std::numeric_limits<real_t<T>>::max_exponent - 10;
  const auto a = blocks_of(grid<T>(30, 30), 0.3);
  const auto A = a.on(space);
  const auto x = spread(space, random_vector<T>(a.n, 3));
  for (const AmgSmoother smoother : all_smoothers)
    for (const int block : {1, 2})
      for (const int exponent : {most, -most}) {
        const auto times = [&](T v) { return v * std::ldexp(real_t<T>(1), exponent); };
        AmgOptions<T> o;
        o.smoother = smoother, o.coarsest = 20, o.block = block;
        for (Global i = 0; i < a.n; ++i)
          for (int c = 0; c < block; ++c) o.near_null.push_back(i % block == c ? T(1) : T(real_t<T>(0.1)));
        const Amg<T> of_A(*A, o);
        const auto B = a.map([&](Global, Global, T v) { return times(v); }).on(space);
        for (T& v : o.near_null) v = times(v);
        const Amg<T> of_B(*B, o);
        EXPECT_GE(of_A.levels().size(), 3u);
        Vector<T> y(space), z(space);
        of_A.apply(x, y);
        of_B.apply(x, z);
        for (std::size_t i = 0; i < y.size(); ++i)
          EXPECT_LE(std::abs(times(z.data()[i]) - y.data()[i]), tolerance<T>(3000) * layout::norm(y))
              << to_string(smoother) << ", block " << block;
      }
}

TEST(AmgDegenerate, ComponentsAndZeroRows) {
  on_ranks([](const comm::Communicator& comm) {
    // Two grids without couplings between them, and a zero row between.
    const auto one = laplacian(30, 20, 1);
    Whole<double> a;
    a.n = 2 * one.n + 1;
    for (const Global shift : {Global(0), one.n + 1}) {
      for (Global r = 0; r < one.n; ++r) {
        for (Global k = one.start[std::size_t(r)]; k < one.start[std::size_t(r) + 1]; ++k)
          a.push(one.column[std::size_t(k)] + shift, one.value[std::size_t(k)]);
        a.end_row();
      }
      if (shift == 0) a.end_row();
    }
    const auto space = uneven(comm, a.n);
    const auto A = a.on(space);
    for (const AmgSmoother smoother : all_smoothers) {
      AmgOptions<double> o;
      o.smoother = smoother, o.coarsest = 20;
      const Amg<double> M(*A, o);
      auto x = random_vector<double>(a.n, 2);
      Vector<double> y(space);
      M.apply(spread(space, x), y);
      const auto all = whole(y);
      EXPECT_EQ(all[std::size_t(one.n)], 0) << to_string(smoother);
      for (const double v : all) EXPECT_TRUE(std::isfinite(v));
      // The first component does not see the second.
      for (Global i = one.n + 1; i < a.n; ++i) x[std::size_t(i)] = 0;
      M.apply(spread(space, x), y);
      const auto half = whole(y);
      for (Global i = 0; i < one.n; ++i) EXPECT_NEAR(half[std::size_t(i)], all[std::size_t(i)], 1e-12);
      for (Global i = one.n + 1; i < a.n; ++i) EXPECT_NEAR(half[std::size_t(i)], 0, 1e-12);
    }
  });
}

}  // namespace
}  // namespace tacit::test
